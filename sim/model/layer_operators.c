/* layer_operators.c - the operators of each kind of layer, as a Megatron-LM stack runs them.
 *
 * Blocks follow Shoeybi et al. 2019 (tensor parallelism) and Korthikanti et al. 2022, section 4.2.2
 * (sequence parallelism, SP). Each half of a block, attention or feed-forward network, is
 *
 *     forward   norm | all-gather | column-parallel ... row-parallel | reduce-scatter | residual
 *     backward  residual | all-gather | row-parallel ... column-parallel | reduce-scatter | norm
 *
 * With SP the input of the column-parallel matmul is saved as a shard, so its weight gradient
 * gathers it once more. Without SP the gathers vanish, the forward reduce-scatter becomes an
 * all-reduce, and the backward one too.
 *
 * Memory-bound work is counted by tensors read and written in one kernel each. Assumed fused, as
 * current stacks do: bias into the matmul's epilogue or the kernel after it; bias, layer scale and
 * residual add in one kernel; bias and activation (and the gate's product) in one; rotary of query
 * and key in one; norm with both of its gradients in one; weight gradients accumulate inside the
 * matmul. Not fused: norm with residual add; the sum of the two gradients that meet at a residual.
 *
 * Patch embedding and connector are small: every TP rank holds them whole and, under SP, computes
 * the rows of its own shard; without SP every rank computes all rows. The pixel shuffle needs rows
 * of other shards, hence one gather of the encoder's output before it. Every rank must see all
 * vision rows to merge them into the text, hence one more in the token embedding.
 *
 * The head is in layer_head.c, core attention and what context parallelism exchanges around it in
 * layer_attention.c, what only a diffusion decoder has in diffusion_layers.c.
 *
 * Dropout after a branch is one kernel with bias and residual add, which also writes a mask of one
 * byte a value; its backward reads gradient and mask and writes a gradient. That of the token
 * embedding is a kernel of its own. Position and patch embedding of an encoder have none.
 *
 * Recomputation (Korthikanti et al. 2022, section 5; Megatron-LM, recompute granularity): full runs
 * the forward list of a block again, with its collectives; selective runs core attention again from
 * the queries, keys and values that are kept. A flash attention keeps no scores and computes them
 * again in any case, so selective has nothing to do. Under context parallelism selective runs only
 * the compute again: backward brings the keys of other ranks itself. PyTorch and XLA run less
 * again, see enum recompute_style.
 *
 * Gemma 2 and 3 have a norm behind each branch too, before its residual; recomputation then also
 * needs the branch's last matmul. Gemma 2 caps logits by a tanh over logits in memory; that of
 * attention scores is inside the kernel and not priced.
 *
 * Where this stops being true: post-norm encoders (EVA-CLIP 4B and 18B) move the norm behind the
 * branch, at the same cost; the parallel attention and MLP of the original ViT-22B is run in
 * sequence.
 */
#include "sim/model/model.h"

#include <string.h>
#include <stdlib.h>
#include "sim/model/diffusion_layers.h"
#include "sim/model/layer_adapters.h"
#include "sim/model/layer_attention.h"
#include "sim/model/layer_block.h"
#include "sim/model/layer_emitter.h"
#include "sim/model/layer_head.h"

void operator_list_free(struct operator_list *list) {
    free(list->operators);
    *list = (struct operator_list){ 0 };
}

void operator_list_push(struct operator_list *list, struct operator_work work) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 32 : 2 * list->capacity;
        list->operators =
            memory_realloc(list->operators, (size_t)list->capacity * sizeof *list->operators);
    }
    list->operators[list->count++] = work;
}

/* ---- patch embedding ---- */

static void patch_embedding_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    const int64_t patch_width = module_patch_width(m);
    emit_stream(e, "patch unfold", OPERATOR_ELEMENTWISE, PASS_FORWARD, 2, d->shard_tokens,
                patch_width);
    emit_linear_forward(e, "patch embedding", e->activation, d->shard_tokens, m->hidden,
                        patch_width);
    if (module_extra_tokens(m) > 0 || m->position == POSITION_LEARNED)
        emit_stream(e, "patch position", OPERATOR_ELEMENTWISE, PASS_FORWARD, 2, d->shard_tokens,
                    m->hidden);
    if (m->embedding_norm)
        emit_stream(e, "embedding norm", OPERATOR_NORM, PASS_FORWARD, 2, d->shard_tokens,
                    m->hidden);
}

/* Pixels have no gradient. */
static void patch_embedding_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    if (m->embedding_norm)
        emit_stream(e, "embedding norm", OPERATOR_NORM, PASS_BACKWARD, 3, d->shard_tokens,
                    m->hidden);
    if (m->position == POSITION_LEARNED)
        emit_stream(e, "patch position", OPERATOR_ELEMENTWISE, PASS_WEIGHT_GRADIENT, 1,
                    d->shard_tokens, m->hidden);
    emit_linear_weight_gradient(e, "patch embedding", e->activation, d->shard_tokens, m->hidden,
                                module_patch_width(m));
}

/* ---- connector ---- */

static double encoder_output_bytes(const struct emitter *e) {
    const struct module *m = e->d->module;
    return emit_gathered_bytes(e, divide_up(e->shape->vision_tokens, e->d->cp),
                               connector_patch_width(m));
}

static bool connector_copies_rows(const struct emitter *e) {
    const int64_t merged = e->d->module->merge * e->d->module->merge;
    return merged > 1 || e->shape->vision_tokens != e->shape->connector_tokens * merged;
}

/* The encoder's output, on a rank that holds its shard. */
static void encoder_norm(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const int64_t patches = divide_up(e->shape->vision_tokens, d->cp);
    if (d->module->connector_input_norm)
        emit_formed_stream(e, "encoder norm", OPERATOR_NORM,
                           emit_form_of_norm(d->module->connector_input_norm_kind), pass,
                           pass == PASS_FORWARD ? 2 : 3,
                           d->sequence_parallel ? divide_up(patches, d->tp) : patches,
                           connector_patch_width(d->module));
}

/* Reads merge x merge patches and writes one, and the other way round. */
static void join_patches(struct emitter *e, enum operator_pass pass) {
    const struct module *m = e->d->module;
    const bool pools = m->connector_pool && m->merge > 1;
    if (pools || connector_copies_rows(e))
        emit_stream(e, pools ? "patch pooling" : "pixel shuffle", OPERATOR_ELEMENTWISE, pass,
                    pools ? (double)(m->merge * m->merge + 1) : 2, e->d->shard_tokens,
                    m->connector_in);
}

static void connector_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    const int64_t rows = d->shard_tokens;
    encoder_norm(e, PASS_FORWARD);
    if (d->sequence_parallel)
        emit_collective(e, "connector all-gather", OPERATOR_ALL_GATHER, PASS_FORWARD,
                        encoder_output_bytes(e));
    join_patches(e, PASS_FORWARD);
    if (m->connector_norm)
        emit_stream(e, "connector norm", OPERATOR_NORM, PASS_FORWARD, 2, rows, m->connector_in);
    if (m->connector_inner == 0) {
        emit_linear_forward(e, "connector linear", e->matmul, rows, m->connector_out,
                            m->connector_in);
        return;
    }
    emit_linear_forward(e, "connector up", e->matmul, rows, m->connector_inner, m->connector_in);
    emit_formed_stream(e, "connector activation", OPERATOR_ELEMENTWISE, FORM_GELU, PASS_FORWARD, 2,
                       rows, m->connector_inner);
    emit_linear_forward(e, "connector down", e->matmul, rows, m->connector_out, m->connector_inner);
}

static void connector_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    const int64_t rows = d->shard_tokens;
    const bool lowest_gradient = e->need.input || m->connector_norm;
    const char *lowest = "connector linear";
    int64_t lowest_out = m->connector_out;
    if (m->connector_inner > 0) {
        emit_linear_input_gradient(e, "connector down", e->matmul, rows, m->connector_out,
                                   m->connector_inner);
        emit_linear_weight_gradient(e, "connector down", e->matmul, rows, m->connector_out,
                                    m->connector_inner);
        emit_formed_stream(e, "connector activation", OPERATOR_ELEMENTWISE, FORM_GELU,
                           PASS_BACKWARD, 3, rows, m->connector_inner);
        lowest = "connector up";
        lowest_out = m->connector_inner;
    }
    if (lowest_gradient)
        emit_linear_input_gradient(e, lowest, e->matmul, rows, lowest_out, m->connector_in);
    emit_linear_weight_gradient(e, lowest, e->matmul, rows, lowest_out, m->connector_in);
    if (m->connector_norm)
        emit_stream(e, "connector norm", OPERATOR_NORM, PASS_BACKWARD, 3, rows, m->connector_in);
    if (!e->need.input) return;
    join_patches(e, PASS_BACKWARD);
    if (d->sequence_parallel)
        emit_collective(e, "connector reduce-scatter", OPERATOR_REDUCE_SCATTER, PASS_INPUT_GRADIENT,
                        encoder_output_bytes(e));
    encoder_norm(e, PASS_BACKWARD);
}

/* ---- token embedding ---- */

static int64_t merged_rows(const struct emitter *e) {
    return e->connector->layer_count == 0 ? 0 : divide_up(e->shape->connector_tokens, e->d->cp);
}

static void token_embedding_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    const int64_t vision_rows = merged_rows(e);
    const double bytes = emit_gathered_bytes(e, d->tokens, m->hidden);
    if (d->sequence_parallel && vision_rows > 0)
        emit_collective(e, "vision rows all-gather", OPERATOR_ALL_GATHER, PASS_FORWARD,
                        emit_gathered_bytes(e, vision_rows, m->hidden));
    emit_stream(e, "token lookup", OPERATOR_EMBEDDING, PASS_FORWARD, 2, d->tokens, m->hidden);
    if (vision_rows > 0)
        emit_stream(e, "vision rows", OPERATOR_ELEMENTWISE, PASS_FORWARD, 2, vision_rows,
                    m->hidden);
    if (d->sequence_parallel)
        emit_collective(e, "token reduce-scatter", OPERATOR_REDUCE_SCATTER, PASS_FORWARD, bytes);
    else
        emit_collective(e, "token all-reduce", OPERATOR_ALL_REDUCE, PASS_FORWARD, bytes);
    if (m->position == POSITION_LEARNED)
        emit_stream(e, "token position", OPERATOR_ELEMENTWISE, PASS_FORWARD, 3, d->shard_tokens,
                    m->hidden);
    if (m->embedding_norm)
        emit_stream(e, "embedding norm", OPERATOR_NORM, PASS_FORWARD, 2, d->shard_tokens,
                    m->hidden);
    if (d->hidden_dropout)
        emit_stream(e, "embedding dropout", OPERATOR_ELEMENTWISE, PASS_FORWARD,
                    2 + emit_mask_tensors(e), d->shard_tokens, m->hidden);
}

static void token_embedding_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    const int64_t vision_rows = merged_rows(e);
    if (d->hidden_dropout)
        emit_stream(e, "embedding dropout", OPERATOR_ELEMENTWISE, PASS_BACKWARD,
                    2 + emit_mask_tensors(e), d->shard_tokens, m->hidden);
    if (m->embedding_norm)
        emit_stream(e, "embedding norm", OPERATOR_NORM, PASS_BACKWARD, 3, d->shard_tokens,
                    m->hidden);
    if (m->position == POSITION_LEARNED && e->need.weight)
        emit_stream(e, "token position", OPERATOR_ELEMENTWISE, PASS_WEIGHT_GRADIENT, 1,
                    d->shard_tokens, m->hidden);
    if (d->sequence_parallel)
        emit_collective(e, "token gradient all-gather", OPERATOR_ALL_GATHER, PASS_BACKWARD,
                        emit_gathered_bytes(e, d->tokens, m->hidden));
    if (e->need.weight) {
        emit_stream(e, "token scatter", OPERATOR_EMBEDDING, PASS_WEIGHT_GRADIENT, 3, d->tokens,
                    m->hidden);
        /* The scatter makes a dense gradient of the table: written with zeros, read, and added to
         * the fp32 main gradient (read and written, 4 bytes each). */
        double bytes =
            (double)d->vocabulary * (double)m->hidden * (2.0 * (double)d->element_bytes + 8.0);
        emit_operator(e, operator_streaming("token gradient sum", OPERATOR_ELEMENTWISE,
                                            PASS_WEIGHT_GRADIENT, e->activation, bytes));
    }
    if (e->need.input && vision_rows > 0)
        emit_stream(e, "vision rows", OPERATOR_ELEMENTWISE, PASS_INPUT_GRADIENT, 2, vision_rows,
                    m->hidden);
}

/* ---- dispatch ---- */

static const struct {
    void (*forward)(struct emitter *e);
    void (*backward)(struct emitter *e);
} layer_passes[] = {
    [LAYER_PATCH_EMBEDDING] = { patch_embedding_forward, patch_embedding_backward },
    [LAYER_VISION_BLOCK] = { block_forward, block_backward },
    [LAYER_CONNECTOR] = { connector_forward, connector_backward },
    [LAYER_TOKEN_EMBEDDING] = { token_embedding_forward, token_embedding_backward },
    [LAYER_LANGUAGE_BLOCK] = { block_forward, block_backward },
    [LAYER_HEAD] = { head_forward, head_backward },
    [LAYER_TEXT_PROJECTION] = { text_projection_forward, text_projection_backward },
    [LAYER_LATENT_EMBEDDING] = { latent_embedding_forward, latent_embedding_backward },
    [LAYER_DIFFUSION_BLOCK] = { block_forward, block_backward },
    [LAYER_JOINT_BLOCK] = { joint_block_forward, joint_block_backward },
    [LAYER_SINGLE_BLOCK] = { single_block_forward, single_block_backward },
    [LAYER_DIFFUSION_HEAD] = { diffusion_head_forward, diffusion_head_backward },
};
_Static_assert(sizeof layer_passes / sizeof layer_passes[0] == LAYER_KIND_COUNT, "a row per kind");

/* Fewer than 16 bits are for the matmuls of blocks only. */
static enum precision activation_precision(const struct module *module) {
    return precision_is_quantised(module->precision) ? PRECISION_BF16 : module->precision;
}

static bool has_backward(struct gradient_need need) {
    return need.input || need.weight;
}

static struct emitter emitter_of(const struct model *model, const struct layer_division *d,
                                 const struct batch_shape *shape, struct gradient_need need,
                                 struct operator_list *out) {
    return (struct emitter){
        .d = d,
        .shape = shape,
        .connector = &model->modules[MODULE_CONNECTOR],
        .matmul = d->module->precision,
        .activation = activation_precision(d->module),
        .need = need,
        .out = out,
    };
}

/* ---- new tensors that are filled first ---- */

/* Bytes of an operator's new tensors. Of the kernels that stream, a norm writes one of the tensors
 * that it moves, and so do the others; a loss keeps one fp32 copy of the logits, and casts the
 * gradient back. A weight gradient is added where it belongs; collectives reuse their buffers. */
static double new_bytes(const struct operator_work *work) {
    const bool forward = work->pass == PASS_FORWARD;
    switch (work->kind) {
    case OPERATOR_MATMUL:
        return work->pass == PASS_WEIGHT_GRADIENT
                   ? 0
                   : (double)work->m * (double)work->n * precision_bytes(PRECISION_BF16);
    case OPERATOR_ATTENTION:
        return precision_bytes(work->precision) * work->token_sum * (double)work->head_dim *
               (double)(forward ? work->heads : work->heads + 2 * work->kv_heads);
    case OPERATOR_NORM:
    case OPERATOR_EMBEDDING:
        return work->memory_bytes / (forward ? 2 : 3);
    case OPERATOR_ELEMENTWISE:
        return work->memory_bytes / 3;
    case OPERATOR_LOSS:
        return work->memory_bytes / 6;
    default:
        return 0;
    }
}

/* In one kernel ahead of the list; what it takes to start the many is left out. */
static void fill_new_tensors(struct operator_list *out, int64_t place) {
    double bytes = 0;
    for (int64_t i = place + 1; i < out->count; i++)
        bytes += new_bytes(&out->operators[i]) * (double)operator_calls(&out->operators[i]);
    out->operators[place].memory_bytes = bytes;
}

void layer_operators(const struct model *model, int64_t layer_index,
                     const struct batch_shape *shape, const struct tensor_split *split,
                     enum pass_set set, struct gradient_need need, struct operator_list *out) {
    const struct layer_division d = layer_division_make(model, layer_index, shape, split);
    if (d.tokens == 0) return;
    if (set == PASS_SET_BACKWARD && !has_backward(need)) return;
    struct emitter e = emitter_of(model, &d, shape, need, out);
    const int64_t place = out->count;
    if (d.determinism == DETERMINISM_FILLED)
        emit_operator(&e, operator_streaming("fill", OPERATOR_ELEMENTWISE,
                                             set == PASS_SET_FORWARD ? PASS_FORWARD : PASS_BACKWARD,
                                             e.activation, 0));
    if (set == PASS_SET_FORWARD)
        layer_passes[d.kind].forward(&e);
    else
        layer_passes[d.kind].backward(&e);
    if (d.determinism == DETERMINISM_FILLED) fill_new_tensors(out, place);
}

void layer_attention_operators(const struct model *model, int64_t layer_index,
                               const struct batch_shape *shape, const struct tensor_split *split,
                               enum pass_set set, struct gradient_need need,
                               struct operator_list *out) {
    const struct layer_division d = layer_division_make(model, layer_index, shape, split);
    if (!layer_kind_is_block(d.kind) || d.tokens == 0) return;
    if (set == PASS_SET_BACKWARD && !has_backward(need)) return;
    const enum operator_pass pass = set == PASS_SET_FORWARD ? PASS_FORWARD : PASS_BACKWARD;
    const bool cross = d.kind == LAYER_DIFFUSION_BLOCK && d.text_tokens > 0;
    if (cross && pass == PASS_BACKWARD)
        core_cross_attention(&d, pass, activation_precision(d.module), out);
    core_attention(&d, pass, activation_precision(d.module), out);
    if (cross && pass == PASS_FORWARD)
        core_cross_attention(&d, pass, activation_precision(d.module), out);
}

/* The forward of a block without its last matmul and what follows that: nobody reads their results.
 * A norm behind that matmul reads them for its backward, and so does a learned or modulated scale
 * of the branch for its own gradient: then only the residual is left out. */
static void forward_until_needed(struct operator_list *out, int64_t first, bool branch_is_read) {
    int64_t last = out->count;
    for (int64_t i = first; i < out->count; i++) {
        if (out->operators[i].kind == OPERATOR_MATMUL) last = i;
        if (out->operators[i].kind == OPERATOR_NORM && i > last) last = i + 1;
    }
    if (branch_is_read) last = out->count > first ? out->count - 1 : out->count;
    out->count = last;
}

static const struct module *module_of_layer(const struct model *model, int64_t layer_index) {
    return &model->modules[model->layers[layer_index].module_index];
}

static bool branch_is_read(const struct module *module, struct gradient_need need) {
    return need.weight && (module->layer_scale || module->role == MODULE_DIFFUSION_DECODER);
}

/* The outputs of q, k and v are kept; the norm before them runs again, as their weights' gradient
 * reads it, and so does its cast. */
static void without_projections(struct operator_list *out, int64_t first) {
    int64_t kept = first;
    for (int64_t i = first; i < out->count; i++)
        if (strcmp(out->operators[i].name, "qkv") != 0 &&
            strcmp(out->operators[i].name, "text qkv") != 0 &&
            strcmp(out->operators[i].name, "qkv and up") != 0)
            out->operators[kept++] = out->operators[i];
    out->count = kept;
}

void layer_recompute_operators(const struct model *model, int64_t layer_index,
                               const struct batch_shape *shape, const struct tensor_split *split,
                               enum recompute_kind kind, struct gradient_need need,
                               struct operator_list *out) {
    if (!layer_can_recompute(model, layer_index) || !has_backward(need)) return;
    switch (kind) {
    case RECOMPUTE_NONE:
        return;
    case RECOMPUTE_FULL: {
        const int64_t first = out->count;
        layer_operators(model, layer_index, shape, split, PASS_SET_FORWARD, need, out);
        if (split->block.recompute_style == RECOMPUTE_NEEDED ||
            split->block.recompute_style == RECOMPUTE_OPERATORS ||
            split->block.recompute_style == RECOMPUTE_PROJECTED)
            forward_until_needed(out, first,
                                 branch_is_read(module_of_layer(model, layer_index), need));
        if (split->block.recompute_style == RECOMPUTE_PROJECTED) without_projections(out, first);
        return;
    }
    case RECOMPUTE_SELECTIVE:
        if (block_recomputes_operators(split, model->layers[layer_index].kind)) {
            const struct layer_division d = layer_division_make(model, layer_index, shape, split);
            struct emitter e = emitter_of(model, &d, shape, need, out);
            if (d.tokens > 0) block_selective_forward(&e);
            return;
        }
        if (split->block.recompute_style == RECOMPUTE_CORE ||
            tensor_split_attention(split, model->layers[layer_index].kind) == ATTENTION_NAIVE)
            layer_attention_operators(model, layer_index, shape, split, PASS_SET_FORWARD, need,
                                      out);
        return;
    case RECOMPUTE_KIND_COUNT:
        break;
    }
    ballast_bug("recomputation of no kind");
}
