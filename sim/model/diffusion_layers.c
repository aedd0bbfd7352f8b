/* diffusion_layers.c - a diffusion decoder (DiT) around the halves of an ordinary block.
 *
 * Movie Gen (Polyak et al. 2024, arXiv 2410.13720) puts three things into a language model's block:
 * cross attention to the text between self attention and feed-forward network, adaptive norms that
 * follow the timestep, and attention without a mask. Each clip is a sequence of its own, and
 * attends to the text of its own sample:
 *
 *     forward   norm | all-gather | query of the video, key and value of the text |
 *               cross attention | proj | reduce-scatter | residual
 *
 * The text states travel beside the video from layer to layer, divided by tokens under sequence
 * parallelism like it, so that each block gathers them once more. Their gradients add up from block
 * to block on the way back. Under context parallelism the text projection gathers the text of all
 * ranks, once, and reduces its gradient.
 *
 * Modulation is adaLN-single (Chen et al. 2023, PixArt-alpha, arXiv 2310.00426, section 2.3): the
 * six vectors of a block are a learned table plus what one layer, shared by all blocks, makes of
 * the timestep. DiT's own layer in each block (6 h^2; Peebles and Xie 2022, arXiv 2212.09748) would
 * double the parameters, and neither Movie Gen's 30B nor DIP's 5B has room for it; a decoder may
 * have it (MODULATION_BLOCK). Shift and scale are fused into the norm, the gate into the residual
 * add, unless the stack runs them as they are written (modulation_apart).
 *
 * A decoder without a language model gets its text encoded, or attends to none: then the third half
 * is missing, and so is the text projection. Norms of queries and keys are those of both attentions
 * (Wan 2.1, wan/modules/model.py).
 *
 * The text reaches the decoder's width by one linear layer and a norm (Movie Gen), by two linear
 * layers with a GELU between them (PixArt-alpha, Wan 2.1) or by one linear layer (Flux), and may
 * pass blocks of its own there (HunyuanVideo's refiner, of whose attention over a few hundred
 * tokens only the matmuls around it are counted).
 *
 * Latent embedding: noise is added to the latent video (flow matching), patches go through one
 * matmul. Head: modulated norm, matmul back to patches, mean squared error. Both are small, so
 * every TP rank computes the rows of its own shard with whole weights; the shared layer of the
 * modulation is divided by tp. The latents and the text's token ids come ready-made: the
 * autoencoder that makes the latents is not part of the step.
 *
 * Where this stops being true: the timestep's layers are priced for one clip (they are bound by the
 * reading of their weights); what the modulation adds to the messages between stages, 12 h bytes a
 * clip, is left out.
 */
#include "sim/model/diffusion_layers.h"

#include "sim/model/layer_adapters.h"
#include "sim/model/layer_attention.h"

static const struct half_names cross_half = {
    .norm = "cross norm",
    .gather = "cross all-gather",
    .saved_gather = "cross saved all-gather",
    .gradient_gather = "cross gradient all-gather",
    .reduce_scatter = "cross reduce-scatter",
    .all_reduce = "cross all-reduce",
    .residual = "cross residual",
    .residual_gradient = "cross residual gradient",
    .ungated = true,
};

enum { TIMESTEP_ROWS = 1 };

/* ---- modulation ---- */

static void modulation_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    emit_linear_forward(e, "modulation", e->activation, TIMESTEP_ROWS, d->modulation_width, hidden);
    emit_collective(e, "modulation all-gather", OPERATOR_ALL_GATHER, PASS_FORWARD,
                    emit_gathered_bytes(e, TIMESTEP_ROWS, modulation_vectors(d->kind) * hidden));
}

static void modulation_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    emit_linear_input_gradient(e, "modulation", e->activation, TIMESTEP_ROWS, d->modulation_width,
                               hidden);
    emit_collective(e, "modulation all-reduce", OPERATOR_ALL_REDUCE, PASS_INPUT_GRADIENT,
                    emit_gathered_bytes(e, TIMESTEP_ROWS, hidden));
    emit_linear_weight_gradient(e, "modulation", e->activation, TIMESTEP_ROWS, d->modulation_width,
                                hidden);
}

static bool modulates_itself(const struct layer_division *d) {
    return layer_kind_diffuses(d->kind) && d->module->modulation == MODULATION_BLOCK;
}

void block_modulation_forward(struct emitter *e) {
    if (modulates_itself(e->d)) modulation_forward(e);
}

void block_modulation_backward(struct emitter *e) {
    if (modulates_itself(e->d) && e->need.weight) modulation_backward(e);
}

/* ---- cross attention ---- */

static double text_bytes(const struct emitter *e) {
    return emit_gathered_bytes(e, e->d->text_tokens, e->d->module->hidden);
}

/* Of the video's queries and the text's keys; across heads of other ranks two sums are reduced. */
static void cross_qk_norm(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const double tensors = pass == PASS_FORWARD ? 2 : 3;
    if (!d->module->qk_norm) return;
    if (!d->module->qk_norm_per_head)
        emit_collective(e, "cross qk norm all-reduce", OPERATOR_ALL_REDUCE, pass,
                        4.0 * (double)(d->tokens + d->text_tokens));
    const enum operator_form form = emit_form_of_norm(d->module->qk_norm_kind);
    emit_formed_stream(e, "cross query norm", OPERATOR_NORM, form, pass, tensors, d->tokens,
                       d->query_width);
    emit_formed_stream(e, "cross key norm", OPERATOR_NORM, form, pass, tensors, d->text_tokens,
                       d->kv_width);
}

void cross_attention_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    if (d->text_tokens == 0) return;
    emit_enter_forward(e, &cross_half);
    emit_cast(e, "cross query cast", PASS_FORWARD, CAST_OF_NORM, d->tokens, hidden);
    emit_linear_forward(e, "cross query", e->matmul, d->tokens, d->query_width, hidden);
    emit_adapters_forward(e, ADAPTER_OF_CROSS_QUERY);
    if (d->sequence_parallel)
        emit_collective(e, "text all-gather", OPERATOR_ALL_GATHER, PASS_FORWARD, text_bytes(e));
    emit_cast(e, "cross key-value cast", PASS_FORWARD, CAST_OF_OTHER, d->text_tokens, hidden);
    emit_linear_forward(e, "cross key-value", e->matmul, d->text_tokens, 2 * d->kv_width, hidden);
    emit_adapters_forward(e, ADAPTER_OF_CROSS_KEY_VALUE);
    cross_qk_norm(e, PASS_FORWARD);
    core_cross_attention(d, PASS_FORWARD, e->activation, e->out);
    emit_cast(e, "cross proj cast", PASS_FORWARD, CAST_OF_ATTENTION, d->tokens, d->query_width);
    emit_linear_forward(e, "cross proj", e->matmul, d->tokens, hidden, d->query_width);
    emit_adapters_forward(e, ADAPTER_OF_CROSS_PROJ);
    emit_leave_forward(e, &cross_half);
}

/* Gradients of keys and values: of their weights, and of the text states, where they join those of
 * the blocks behind, unless nothing in front of a frozen decoder learns. */
static void key_value_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    if (d->sequence_parallel && e->need.weight)
        emit_collective(e, "text saved all-gather", OPERATOR_ALL_GATHER, PASS_WEIGHT_GRADIENT,
                        text_bytes(e));
    emit_cast(e, "cross key-value cast", PASS_BACKWARD, CAST_OF_OTHER, d->text_tokens,
              2 * d->kv_width);
    emit_adapters_backward(e, ADAPTER_OF_CROSS_KEY_VALUE);
    if (d->module->frozen && d->module->text_encoded) return;
    emit_cast_again(e, "cross key-value operand", CAST_OF_OTHER, d->text_tokens, hidden);
    emit_linear_input_gradient(e, "cross key-value", e->matmul, d->text_tokens, 2 * d->kv_width,
                               hidden);
    emit_collective(e, d->sequence_parallel ? "text reduce-scatter" : "text all-reduce",
                    d->sequence_parallel ? OPERATOR_REDUCE_SCATTER : OPERATOR_ALL_REDUCE,
                    PASS_INPUT_GRADIENT, text_bytes(e));
    emit_linear_weight_gradient(e, "cross key-value", e->matmul, d->text_tokens, 2 * d->kv_width,
                                hidden);
    emit_stream(e, "text gradient", OPERATOR_ELEMENTWISE, PASS_BACKWARD, 3, d->text_shard_tokens,
                hidden);
}

void cross_attention_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const int64_t hidden = d->module->hidden;
    if (d->text_tokens == 0) return;
    emit_leave_backward(e, &cross_half);
    emit_cast(e, "cross proj cast", PASS_BACKWARD, CAST_OF_OTHER, d->tokens, hidden);
    emit_cast_again(e, "cross proj operand", CAST_OF_ATTENTION, d->tokens, d->query_width);
    emit_adapters_backward(e, ADAPTER_OF_CROSS_PROJ);
    emit_linear_input_gradient(e, "cross proj", e->matmul, d->tokens, hidden, d->query_width);
    emit_linear_weight_gradient(e, "cross proj", e->matmul, d->tokens, hidden, d->query_width);
    core_cross_attention(d, PASS_BACKWARD, e->activation, e->out);
    cross_qk_norm(e, PASS_BACKWARD);
    key_value_backward(e);
    emit_cast(e, "cross query cast", PASS_BACKWARD, CAST_OF_OTHER, d->tokens, d->query_width);
    emit_cast_again(e, "cross query operand", CAST_OF_NORM, d->tokens, hidden);
    emit_adapters_backward(e, ADAPTER_OF_CROSS_QUERY);
    emit_column_backward(e, &cross_half, "cross query", e->matmul, d->query_width);
    emit_enter_backward(e, &cross_half);
}

/* ---- text projection ---- */

/* The text of all context-parallel ranks: each attends to the whole of it with its part of the
 * video. Joined with the video it is cut as that is. */
static void gather_context(struct emitter *e, const char *name, enum operator_kind kind,
                           enum operator_pass pass) {
    const struct layer_division *d = e->d;
    if (d->cp == 1 || d->module->text_attention == TEXT_ATTENTION_JOINT) return;
    double bytes = emit_gathered_bytes(e, d->shard_tokens * d->cp, d->module->hidden);
    emit_operator(e, operator_collective(name, kind, pass, COMMUNICATOR_CONTEXT, bytes));
}

struct linear {
    const char *name;
    int64_t out, in;
};

/* The matmuls of the refiner's blocks, and what streams between them: two norms, two gates and the
 * activation. Each rank has whole weights, as the projection's. */
static void refine_text(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    const struct layer_division whole = layer_division_whole(m, d->kind);
    const int64_t up = whole.up_width;
    const struct linear linears[] = {
        { "refiner qkv", whole.qkv_width, m->hidden },
        { "refiner proj", m->hidden, whole.query_width },
        { "refiner up", up, m->hidden },
        { "refiner down", m->hidden, m->ffn_hidden },
    };
    const bool forward = pass == PASS_FORWARD;
    for (int64_t block = 0; block < m->text_refiner_blocks; block++) {
        for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
            const struct linear *l = &linears[i];
            if (forward) {
                emit_linear_forward(e, l->name, e->activation, d->shard_tokens, l->out, l->in);
                continue;
            }
            emit_linear_input_gradient(e, l->name, e->activation, d->shard_tokens, l->out, l->in);
            emit_linear_weight_gradient(e, l->name, e->activation, d->shard_tokens, l->out, l->in);
        }
        emit_stream(e, "refiner norms and gates", OPERATOR_ELEMENTWISE, pass, forward ? 10 : 15,
                    d->shard_tokens, m->hidden);
        emit_stream(e, "refiner activation", OPERATOR_ELEMENTWISE, pass, 1, d->shard_tokens,
                    forward ? up + m->ffn_hidden : 2 * up + m->ffn_hidden);
    }
}

void text_projection_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    if (!m->text_encoded)
        emit_formed_stream(e, "text norm", OPERATOR_NORM, emit_form_of_norm(m->text_norm),
                           PASS_FORWARD, 2, d->shard_tokens, m->text_hidden);
    emit_linear_forward(e, "text projection", e->activation, d->shard_tokens, m->hidden,
                        m->text_hidden);
    if (m->text_projection == TEXT_PROJECTION_MLP) {
        emit_formed_stream(e, "text activation", OPERATOR_ELEMENTWISE, FORM_GELU, PASS_FORWARD, 2,
                           d->shard_tokens, m->hidden);
        emit_linear_forward(e, "text projection down", e->activation, d->shard_tokens, m->hidden,
                            m->hidden);
    }
    if (m->text_projection == TEXT_PROJECTION_NORM)
        emit_stream(e, "projected norm", OPERATOR_NORM, PASS_FORWARD, 2, d->shard_tokens,
                    m->hidden);
    refine_text(e, PASS_FORWARD);
    gather_context(e, "text context all-gather", OPERATOR_ALL_GATHER, PASS_FORWARD);
}

void text_projection_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    gather_context(e, "text context reduce-scatter", OPERATOR_REDUCE_SCATTER, PASS_BACKWARD);
    refine_text(e, PASS_BACKWARD);
    if (m->text_projection == TEXT_PROJECTION_MLP) {
        emit_linear_input_gradient(e, "text projection down", e->activation, d->shard_tokens,
                                   m->hidden, m->hidden);
        emit_linear_weight_gradient(e, "text projection down", e->activation, d->shard_tokens,
                                    m->hidden, m->hidden);
        emit_formed_stream(e, "text activation", OPERATOR_ELEMENTWISE, FORM_GELU, PASS_BACKWARD, 3,
                           d->shard_tokens, m->hidden);
    }
    if (m->text_projection == TEXT_PROJECTION_NORM)
        emit_stream(e, "projected norm", OPERATOR_NORM, PASS_BACKWARD, 3, d->shard_tokens,
                    m->hidden);
    if (!m->text_encoded)
        emit_linear_input_gradient(e, "text projection", e->activation, d->shard_tokens, m->hidden,
                                   m->text_hidden);
    emit_linear_weight_gradient(e, "text projection", e->activation, d->shard_tokens, m->hidden,
                                m->text_hidden);
    if (!m->text_encoded)
        emit_formed_stream(e, "text norm", OPERATOR_NORM, emit_form_of_norm(m->text_norm),
                           PASS_BACKWARD, 3, d->shard_tokens, m->text_hidden);
}

/* ---- latent embedding ---- */

/* What makes one vector of a clip's timestep, and what is added to it. */
struct condition {
    const char *up, *down;
    int64_t in;
};

static int64_t conditions_of(const struct module *m, struct condition conditions[3]) {
    int64_t count = 0;
    conditions[count++] =
        (struct condition){ "timestep up", "timestep down", TIMESTEP_FREQUENCIES };
    if (m->guidance)
        conditions[count++] =
            (struct condition){ "guidance up", "guidance down", TIMESTEP_FREQUENCIES };
    if (m->pooled_text_hidden > 0)
        conditions[count++] =
            (struct condition){ "pooled text up", "pooled text down", m->pooled_text_hidden };
    return count;
}

void latent_embedding_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    const int64_t patch_width = module_patch_width(m);
    struct condition conditions[3];
    const int64_t condition_count = conditions_of(m, conditions);
    for (int64_t i = 0; i < condition_count; i++) {
        const struct condition *c = &conditions[i];
        emit_linear_forward(e, c->up, e->activation, TIMESTEP_ROWS, m->hidden, c->in);
        emit_linear_forward(e, c->down, e->activation, TIMESTEP_ROWS, m->hidden, m->hidden);
    }
    if (m->modulation == MODULATION_SHARED) modulation_forward(e);
    /* reads latent and noise, writes patches */
    emit_stream(e, "noise and unfold", OPERATOR_ELEMENTWISE, PASS_FORWARD, 3, d->shard_tokens,
                patch_width);
    emit_linear_forward(e, "latent embedding", e->activation, d->shard_tokens, m->hidden,
                        patch_width);
    if (m->position == POSITION_LEARNED)
        emit_stream(e, "latent position", OPERATOR_ELEMENTWISE, PASS_FORWARD, 2, d->shard_tokens,
                    m->hidden);
}

/* Latents have no gradient. */
void latent_embedding_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    if (!e->need.weight) return;
    if (m->position == POSITION_LEARNED)
        emit_stream(e, "latent position", OPERATOR_ELEMENTWISE, PASS_WEIGHT_GRADIENT, 1,
                    d->shard_tokens, m->hidden);
    emit_linear_weight_gradient(e, "latent embedding", e->activation, d->shard_tokens, m->hidden,
                                module_patch_width(m));
    if (m->modulation == MODULATION_SHARED) modulation_backward(e);
    struct condition conditions[3];
    for (int64_t i = conditions_of(m, conditions) - 1; i >= 0; i--) {
        const struct condition *c = &conditions[i];
        emit_linear_input_gradient(e, c->down, e->activation, TIMESTEP_ROWS, m->hidden, m->hidden);
        emit_linear_weight_gradient(e, c->down, e->activation, TIMESTEP_ROWS, m->hidden, m->hidden);
        emit_linear_weight_gradient(e, c->up, e->activation, TIMESTEP_ROWS, m->hidden, c->in);
    }
}

/* ---- head ---- */

/* Squared error of prediction and target: two elements are read, and the fp32 difference that its
 * gradient needs is written; backward reads it and writes a gradient. */
static void squared_error(struct emitter *e, enum operator_pass pass) {
    const struct layer_division *d = e->d;
    const double element = (double)d->element_bytes;
    const double bytes_per_value = pass == PASS_FORWARD ? 2 * element + 4 : 4 + element;
    const double values = (double)d->shard_tokens * (double)module_patch_width(d->module);
    emit_operator(e, operator_streaming("squared error", OPERATOR_LOSS, pass, PRECISION_FP32,
                                        values * bytes_per_value));
}

void diffusion_head_forward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    emit_stream(e, "final norm", OPERATOR_NORM, PASS_FORWARD, 2, d->shard_tokens, m->hidden);
    emit_linear_forward(e, "latent patches", e->activation, d->shard_tokens, module_patch_width(m),
                        m->hidden);
    squared_error(e, PASS_FORWARD);
}

void diffusion_head_backward(struct emitter *e) {
    const struct layer_division *d = e->d;
    const struct module *m = d->module;
    squared_error(e, PASS_BACKWARD);
    emit_linear_input_gradient(e, "latent patches", e->activation, d->shard_tokens,
                               module_patch_width(m), m->hidden);
    emit_linear_weight_gradient(e, "latent patches", e->activation, d->shard_tokens,
                                module_patch_width(m), m->hidden);
    emit_stream(e, "final norm", OPERATOR_NORM, PASS_BACKWARD, 3, d->shard_tokens, m->hidden);
}
