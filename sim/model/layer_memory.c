/* layer_memory.c - activations that a layer keeps for its backward pass, and its transient buffers.
 *
 * Korthikanti et al. 2022 ("Reducing Activation Recomputation in Large Transformer Models", arXiv
 * 2205.05198), section 4, count for a block of two matrices with f = 4h, t ranks of TP, a heads, b
 * sequences of s tokens and dropout, in bytes:
 *
 *     s b h (10 + 24 / t + 5 a s / (h t))     without sequence parallelism
 *     s b h (34 + 5 a s / h) / t              with it
 *     34 s b h / t                            selective recomputation
 *     2 s b h / t                             full recomputation (the input; 2 s b h without SP)
 *
 * 34 is 11 of attention, 19 of the MLP and 4 of the norms; two of the 34 are dropout masks. The 5
 * of a score are what naive attention keeps: the softmax (2), and with dropout a mask (1) and the
 * dropped softmax (2). Here each tensor is counted by itself and only where the model has it. The
 * same block gives the paper's figures with naive attention and dropout, plus the fp32 statistics
 * of the norms, which the paper leaves out. Without dropout, two bytes of the 34 and three of the 5
 * vanish; with flash attention the 5 do, for 4 bytes per query and head (their dropout keeps no
 * mask: it draws its random numbers again). Two things come on top where a model has them: queries
 * and keys before their norm (qk norm: 4 s b h) and the branch before its scale (layer scale: 4 s b
 * h).
 *
 * A tensor that only a weight gradient reads is kept only if the layer is trainable. Outputs are
 * not counted: the next layer keeps its own input. Fused assumptions are those of
 * layer_operators.c; what an unfused stack keeps besides is in split->block.keeps (stack.h).
 */
#include "sim/model/model.h"

#include <math.h>

#include "costmodel/stack.h"
#include "sim/model/layer_adapters.h"
#include "sim/model/layer_attention.h"
#include "sim/model/layer_block.h"

struct saved_list {
    const struct layer_division *d;
    struct gradient_need need;
    unsigned keeps; /* enum stack_keeps */
    struct saved_tensor *tensors;
    int64_t count;
};

static void save_bytes(struct saved_list *list, const char *name, double bytes) {
    ballast_check(list->count < LAYER_SAVED_TENSOR_LIMIT);
    list->tensors[list->count++] = (struct saved_tensor){ name, bytes, false };
}

/* Dropped by selective recomputation. */
static void save_scores(struct saved_list *list, const char *name, int64_t bytes_per_score) {
    save_bytes(list, name, list->d->score_count * (double)bytes_per_score);
    list->tensors[list->count - 1].core_attention = true;
}

static void save(struct saved_list *list, const char *name, int64_t rows, int64_t columns) {
    save_bytes(list, name, (double)rows * (double)columns * (double)list->d->element_bytes);
}

static void save_for_weights(struct saved_list *list, const char *name, int64_t rows,
                             int64_t columns) {
    if (list->need.weight) save(list, name, rows, columns);
}

/* What a matmul's weight gradient reads: Transformer Engine keeps the input as it was cast to
 * fp8 or fp4. */
static void save_matmul_input(struct saved_list *list, const char *name, int64_t rows,
                              int64_t columns) {
    const enum precision precision = list->d->module->precision;
    const double element = precision_is_quantised(precision) ? precision_bytes(precision)
                                                             : (double)list->d->element_bytes;
    if (list->need.weight) save_bytes(list, name, (double)rows * (double)columns * element);
}

/* What A's gradient reads, gathered under sequence parallelism as NeMo keeps it
 * (return_layernorm_output_gathered), where the frozen layer beside it keeps nothing; and what B's
 * reads. What is dropped out or cast is each adapter's own, with the mask; a compiler's is drawn
 * anew. */
static void save_for_adapters(struct saved_list *list, enum adapter_place place, const char *input,
                              int64_t rows, int64_t columns) {
    const struct module *m = list->d->module;
    const int64_t count = adapter_count(list->d, place);
    if (count == 0) return;
    const bool own =
        !list->d->fuses_adapters && (list->d->casts_adapter_inputs || m->adapter_dropout);
    if (own) save(list, "adapter input", rows, count * columns);
    if (own && m->adapter_dropout)
        save_bytes(list, "adapter dropout mask", (double)rows * (double)(count * columns));
    if (!own && input != NULL && !list->need.weight) save(list, input, rows, columns);
    save(list, "adapter", rows, count * m->adapter_rank);
}

/* fp32 mean and reciprocal deviation of each row, or only the latter (RMS). */
static void save_norm_statistics(struct saved_list *list, const char *name, int64_t rows) {
    save_bytes(list, name, (double)rows * (list->d->module->norm == NORM_RMS ? 4.0 : 8.0));
}

/* What a norm reads, and what an RMS norm made of operators keeps beside it: the rest of the
 * input's fp32 copy, which its square and its product keep in the input's stead, and what its
 * weight multiplies. */
static void save_norm_input_of(struct saved_list *list, enum norm_kind norm, const char *name,
                               int64_t rows, int64_t columns, double element) {
    const double values = (double)rows * (double)columns;
    save_bytes(list, name, values * element);
    if ((list->keeps & KEEPS_FP32_NORMS) == 0 || norm != NORM_RMS) return;
    if (element < 4) save_bytes(list, "norm input in fp32", values * (4 - element));
    const bool product_in_fp32 = (list->keeps & KEEPS_FP32_NORM_PRODUCTS) != 0;
    if (list->need.weight) save_bytes(list, "normalised", values * (product_in_fp32 ? 4 : element));
}

static void save_norm_input(struct saved_list *list, const char *name, int64_t rows,
                            int64_t columns) {
    save_norm_input_of(list, list->d->module->norm, name, rows, columns,
                       (double)list->d->element_bytes);
}

static void save_qk_norm_input(struct saved_list *list, const char *name, int64_t rows,
                               int64_t columns) {
    save_norm_input_of(list, list->d->module->qk_norm_kind, name, rows, columns,
                       (double)list->d->element_bytes);
}

static void save_residual_norm_input(struct saved_list *list, const char *name, int64_t rows) {
    const double element =
        (list->keeps & KEEPS_FP32_RESIDUAL) != 0 ? 4 : (double)list->d->element_bytes;
    save_norm_input_of(list, list->d->module->norm, name, rows, list->d->module->hidden, element);
}

/* GELU written out (Transformers, NewGELUActivation) keeps half of its input, the tanh and that plus
 * one; under autocast the latter two and the input's copy are fp32, because pow is. CLIP's keeps the
 * sigmoid. */
static void save_written_activation(struct saved_list *list) {
    const struct layer_division *d = list->d;
    if ((list->keeps & KEEPS_WRITTEN_ACTIVATION) == 0) return;
    const double element = (double)d->element_bytes,
                 values = (double)d->tokens * (double)d->ffn_width;
    const bool autocast = (list->keeps & KEEPS_FP32_RESIDUAL) != 0;
    if (d->module->ffn == FFN_GELU_NEW)
        save_bytes(list, "activation written out",
                   values * (autocast ? element + 3 * 4 : 3 * element));
    if (d->module->ffn == FFN_QUICK_GELU)
        save_bytes(list, "activation written out", values * element);
}

/* One byte a value. */
static void save_mask_of(struct saved_list *list, const char *name, int64_t rows) {
    if (list->d->hidden_dropout)
        save_bytes(list, name, (double)rows * (double)list->d->module->hidden);
}

static void save_mask(struct saved_list *list, const char *name) {
    save_mask_of(list, name, list->d->shard_tokens);
}

static void core_attention_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    if (d->attention == ATTENTION_FLASH) {
        save_bytes(list, "attention log-sum-exp",
                   4.0 * (double)d->attention_tokens * (double)d->attention_heads);
        /* each block casts the mask for itself (PyTorch, convert_boolean_attn_mask) */
        if (d->attention_kernel == ATTENTION_KERNEL_MASKED)
            save_bytes(list, "attention bias", (double)d->element_bytes * d->square_sum);
        return;
    }
    /* in fp32 it is kept for its own backward, cast back for the matmul where nothing drops it */
    const bool in_fp32 = d->writes_softmax || ((list->keeps & KEEPS_FP32_SCORES) != 0 &&
                                               d->kind == LAYER_LANGUAGE_BLOCK);
    if (in_fp32) save_scores(list, "attention fp32 softmax", 4);
    if (!in_fp32 || !d->attention_dropout) save_scores(list, "attention softmax", d->element_bytes);
    if (!d->attention_dropout) return;
    save_scores(list, "attention mask", 1);
    save_scores(list, "attention dropout", d->element_bytes);
}

/* By a learned vector, or by the gate of a modulated block. */
static bool branch_is_scaled(const struct module *m) {
    return m->layer_scale || m->role == MODULE_DIFFUSION_DECODER;
}

/* The text states themselves are one tensor for all blocks of a stage: it is not counted here. */
static void cross_attention_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    if (d->text_tokens == 0) return;
    save_residual_norm_input(list, "cross norm input", d->shard_tokens);
    save_norm_statistics(list, "cross norm statistics", d->shard_tokens);
    save_for_weights(list, "cross query input", d->shard_tokens, m->hidden);
    save_for_adapters(list, ADAPTER_OF_CROSS_QUERY, "cross query input", d->tokens, m->hidden);
    save_for_adapters(list, ADAPTER_OF_CROSS_KEY_VALUE, NULL, d->text_tokens, m->hidden);
    if (m->qk_norm) {
        save_qk_norm_input(list, "cross query norm input", d->tokens, d->query_width);
        save_qk_norm_input(list, "cross key norm input", d->text_tokens, d->kv_width);
    }
    save(list, "cross query", d->tokens, d->query_width);
    save(list, "cross key, value", d->text_tokens, 2 * d->kv_width);
    if (d->attention == ATTENTION_FLASH) {
        save_bytes(list, "cross log-sum-exp", 4.0 * (double)d->tokens * (double)d->heads);
    } else {
        struct layer_division scores = *d;
        scores.score_count = d->cross_square_sum * (double)d->heads;
        list->d = &scores;
        core_attention_saved(list);
        list->d = d;
    }
    if (d->attention == ATTENTION_NAIVE)
        save_for_weights(list, "cross output", d->tokens, d->query_width);
    else
        save(list, "cross output", d->tokens, d->query_width);
    const bool keeps_output = d->attention != ATTENTION_NAIVE;
    save_for_adapters(list, ADAPTER_OF_CROSS_PROJ, keeps_output ? NULL : "cross output", d->tokens,
                      d->query_width);
    save_mask(list, "cross branch mask");
}

static void save_branch_norm(struct saved_list *list, const char *input, const char *statistics) {
    const struct layer_division *d = list->d;
    if (!d->module->branch_norm) return;
    save_norm_input(list, input, d->shard_tokens, d->module->hidden);
    save_norm_statistics(list, statistics, d->shard_tokens);
}

static int64_t input_rows(const struct saved_list *list) {
    return (list->keeps & KEEPS_GATHERED_INPUTS) != 0 ? list->d->tokens : list->d->shard_tokens;
}

static void save_input_copies(struct saved_list *list, const char *name, int64_t copies) {
    const struct layer_division *d = list->d;
    if (d->copies_inputs && copies > 0)
        save_matmul_input(list, name, d->tokens, copies * d->module->hidden);
}

/* Up to queries, keys and values. The first tensor of a block is its input. */
static void attention_input_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    save_residual_norm_input(list, "attention norm input", d->shard_tokens);
    save_norm_statistics(list, "attention norm statistics", d->shard_tokens);
    if (d->modulation_apart)
        save_for_weights(list, "attention modulation input", d->shard_tokens, m->hidden);
    save_matmul_input(list, "qkv input", input_rows(list), m->hidden);
    /* of the products of one input, the first reads what is counted already */
    save_input_copies(list, "qkv input copies", layer_division_attention_products(d, true) - 1);
    save_for_adapters(list, ADAPTER_OF_QKV, "qkv input", d->tokens, m->hidden);
    if (m->qk_norm)
        save_qk_norm_input(list, "qk norm input", d->tokens, d->query_width + d->kv_width);
}

/* Attention and its result, which a projection reads. */
static void attention_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    const int64_t tokens = d->attention_tokens;
    const int64_t key_heads =
        (list->keeps & KEEPS_REPEATED_KEYS) != 0 ? d->attention_heads : d->attention_kv_heads;
    save(list, "query, key, value", tokens, (d->attention_heads + 2 * key_heads) * m->head_dim);
    if ((list->keeps & KEEPS_KEY_VALUE_COPY) != 0)
        save(list, "key, value before the rotary", tokens, 2 * d->attention_kv_heads * m->head_dim);
    core_attention_saved(list);
    /* A flash attention reads its output, which the all-to-all exchange or the cast copies for
     * the projection; a single block copies it beside the activation. */
    const bool cast = precision_is_quantised(m->precision), single = d->kind == LAYER_SINGLE_BLOCK;
    if (single && d->attention == ATTENTION_NAIVE) return;
    if (d->attention == ATTENTION_NAIVE)
        save_matmul_input(list, "attention output", tokens, d->query_width);
    else
        save(list, "attention output", tokens, d->attention_heads * m->head_dim);
    if (d->attention == ATTENTION_FLASH && !single &&
        (cast || (list->keeps & KEEPS_ATTENTION_COPY) != 0 || d->context_heads > 1))
        save_matmul_input(list, "proj input", tokens, d->query_width);
}

static void attention_branch_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const bool keeps_output = d->attention != ATTENTION_NAIVE;
    save_for_adapters(list, ADAPTER_OF_PROJ, keeps_output ? NULL : "attention output", d->tokens,
                      d->query_width);
    save_branch_norm(list, "attention branch norm input", "attention branch norm statistics");
    if (branch_is_scaled(d->module))
        save_for_weights(list, "attention branch", d->shard_tokens, d->module->hidden);
    const bool parallel = d->module->parallel_residual != PARALLEL_RESIDUAL_NO;
    save_mask_of(list, "attention branch mask", parallel ? d->tokens : d->shard_tokens);
}

/* From the up matmul to the input of the one behind the activation. */
static void activation_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    save(list, "up output", d->tokens, d->up_width);
    if ((list->keeps & KEEPS_GATE_OUTPUT) != 0 && d->up_width > d->ffn_width)
        save(list, "activated gate", d->tokens, d->ffn_width);
    save_written_activation(list);
    const int64_t beside = d->kind == LAYER_SINGLE_BLOCK ? d->query_width : 0;
    if (!d->remakes_activation)
        save_matmul_input(list, "down input", d->tokens, d->ffn_width + beside);
    save_for_adapters(list, ADAPTER_OF_DOWN, "down input", d->tokens, d->ffn_width + beside);
}

static void mlp_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    /* Beside each other, both halves read the block's input, and with one norm what it wrote. */
    const bool shared = m->parallel_residual == PARALLEL_RESIDUAL_ONE_NORM;
    const bool adapted = shared && adapter_count(d, ADAPTER_OF_QKV) > 0;
    if (m->parallel_residual == PARALLEL_RESIDUAL_NO)
        save_residual_norm_input(list, "mlp norm input", d->shard_tokens);
    if (!shared) {
        save_norm_statistics(list, "mlp norm statistics", d->shard_tokens);
        if (d->modulation_apart)
            save_for_weights(list, "mlp modulation input", d->shard_tokens, m->hidden);
        save_matmul_input(list, "up input", input_rows(list), m->hidden);
    }
    save_input_copies(list, "up input copies", layer_division_up_products(d) - (shared ? 0 : 1));
    save_for_adapters(list, ADAPTER_OF_UP, adapted ? NULL : "up input", d->tokens, m->hidden);
    activation_saved(list);
    save_branch_norm(list, "mlp branch norm input", "mlp branch norm statistics");
    if (branch_is_scaled(m)) save_for_weights(list, "mlp branch", d->shard_tokens, m->hidden);
    save_mask(list, "mlp branch mask");
}

static void block_saved(struct saved_list *list) {
    attention_input_saved(list);
    attention_saved(list);
    attention_branch_saved(list);
    if (list->d->kind == LAYER_DIFFUSION_BLOCK) cross_attention_saved(list);
    mlp_saved(list);
}

static void text_saved(struct saved_list *list, const struct layer_division *text,
                       void (*part)(struct saved_list *list)) {
    const struct layer_division *d = list->d;
    if (text->tokens == 0) return;
    list->d = text;
    part(list);
    list->d = d;
}

static void joint_block_saved(struct saved_list *list) {
    const struct layer_division text = layer_division_text(list->d);
    attention_input_saved(list);
    text_saved(list, &text, attention_input_saved);
    attention_saved(list);
    attention_branch_saved(list);
    text_saved(list, &text, attention_branch_saved);
    mlp_saved(list);
    text_saved(list, &text, mlp_saved);
}

static void single_block_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    attention_input_saved(list);
    const bool kept = adapter_count(d, ADAPTER_OF_QKV) > 0; /* of the same input */
    save_for_adapters(list, ADAPTER_OF_UP, kept ? NULL : "qkv input", d->tokens, d->module->hidden);
    attention_saved(list);
    activation_saved(list);
    attention_branch_saved(list);
}

static void patch_embedding_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    save_for_weights(list, "unfolded patches", d->shard_tokens, module_patch_width(m));
    if (m->embedding_norm)
        save_norm_input(list, "embedding norm input", d->shard_tokens, m->hidden);
}

/* Only a trained encoder's norm has a backward; `patches` of this rank's shard. */
static void encoder_norm_saved(struct saved_list *list, int64_t patches) {
    const struct module *m = list->d->module;
    if (!m->connector_input_norm || !list->need.input) return;
    save(list, "encoder norm input", patches, connector_patch_width(m));
    save_bytes(list, "encoder norm statistics",
               (double)patches * (m->connector_input_norm_kind == NORM_RMS ? 4.0 : 8.0));
}

static void connector_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    const int64_t rows = d->shard_tokens;
    encoder_norm_saved(list, rows * m->merge * m->merge);
    if (m->connector_norm) {
        save_norm_input(list, "connector norm input", rows, m->connector_in);
        save_norm_statistics(list, "connector norm statistics", rows);
    }
    save_matmul_input(list, "connector input", rows, m->connector_in);
    if (m->connector_inner == 0) return;
    save(list, "connector up output", rows, m->connector_inner);
    save_matmul_input(list, "connector down input", rows, m->connector_inner);
}

static void token_embedding_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    if (list->need.weight) save_bytes(list, "token ids", 8.0 * (double)d->tokens);
    if (d->module->embedding_norm)
        save_norm_input(list, "embedding norm input", d->shard_tokens, d->module->hidden);
    save_mask(list, "embedding mask");
}

static void text_projection_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    if (!m->text_encoded) {
        save_norm_input(list, "text norm input", d->shard_tokens, m->text_hidden);
        save_norm_statistics(list, "text norm statistics", d->shard_tokens);
    }
    save_for_weights(list, "text projection input", d->shard_tokens, m->text_hidden);
    if (m->text_projection == TEXT_PROJECTION_MLP) {
        save(list, "text activation input", d->shard_tokens, m->hidden);
        save_for_weights(list, "text projection down input", d->shard_tokens, m->hidden);
    }
    if (m->text_projection == TEXT_PROJECTION_NORM) {
        save_residual_norm_input(list, "projected norm input", d->shard_tokens);
        save_norm_statistics(list, "projected norm statistics", d->shard_tokens);
    }
    /* Of a refiner's block: inputs of two norms and of four matmuls, q, k and v, and the
     * activation's input, two branches before their gates. */
    const struct layer_division whole = layer_division_whole(m, d->kind);
    const double columns = (double)(6 * m->hidden + whole.qkv_width + 2 * whole.query_width +
                                    whole.up_width + whole.ffn_width);
    if (m->text_refiner_blocks > 0)
        save_bytes(list, "text refiner",
                   (double)m->text_refiner_blocks * (double)d->shard_tokens * columns *
                       (double)d->element_bytes);
}

static void diffusion_head_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    save_residual_norm_input(list, "final norm input", d->shard_tokens);
    save_norm_statistics(list, "final norm statistics", d->shard_tokens);
    save_for_weights(list, "latent patches input", d->shard_tokens, m->hidden);
    save_bytes(list, "fp32 error", 4.0 * (double)d->shard_tokens * (double)module_patch_width(m));
}

static void head_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    save_residual_norm_input(list, "final norm input", d->shard_tokens);
    save_norm_statistics(list, "final norm statistics", d->shard_tokens);
    /* what sequence parallelism gathers again in the backward is picked from again */
    const bool picked = d->head_tokens < d->tokens && !d->sequence_parallel;
    save_for_weights(list, "logits input", picked ? d->head_tokens : d->shard_tokens,
                     d->module->hidden);
    save_bytes(list, "fp32 softmax", 4.0 * (double)d->head_tokens * (double)d->loss_vocabulary);
    if (d->module->logit_cap) save(list, "capped logits", d->head_tokens, d->vocabulary);
}

int64_t layer_saved_tensors(const struct model *model, int64_t layer_index,
                            const struct batch_shape *shape, const struct tensor_split *split,
                            struct saved_tensor *tensors) {
    const struct layer_division d = layer_division_make(model, layer_index, shape, split);
    struct saved_list list = { &d, model_gradient_need(model, layer_index), split->block.keeps,
                               tensors, 0 };
    if (d.tokens == 0 || (!list.need.input && !list.need.weight)) return 0;
    switch (d.kind) {
    case LAYER_PATCH_EMBEDDING:
        patch_embedding_saved(&list);
        break;
    case LAYER_VISION_BLOCK:
    case LAYER_LANGUAGE_BLOCK:
    case LAYER_DIFFUSION_BLOCK:
        block_saved(&list);
        break;
    case LAYER_JOINT_BLOCK:
        joint_block_saved(&list);
        break;
    case LAYER_SINGLE_BLOCK:
        single_block_saved(&list);
        break;
    case LAYER_TEXT_PROJECTION:
        text_projection_saved(&list);
        break;
    case LAYER_LATENT_EMBEDDING:
        save_for_weights(&list, "unfolded patches", d.shard_tokens, module_patch_width(d.module));
        break;
    case LAYER_DIFFUSION_HEAD:
        diffusion_head_saved(&list);
        break;
    case LAYER_CONNECTOR:
        connector_saved(&list);
        break;
    case LAYER_TOKEN_EMBEDDING:
        token_embedding_saved(&list);
        break;
    case LAYER_HEAD:
        head_saved(&list);
        break;
    case LAYER_KIND_COUNT:
        ballast_bug("layer of no kind");
    }
    return list.count;
}

bool layer_can_recompute(const struct model *model, int64_t layer_index) {
    ballast_check(layer_index >= 0 && layer_index < model->layer_count);
    return layer_kind_is_block(model->layers[layer_index].kind);
}

/* Beside the input: what attention and the odd matmuls (q, v, gate, down) give, see
 * layer_block.c. */
static double selective_operators_bytes(const struct model *model, int64_t layer_index,
                                        const struct batch_shape *shape,
                                        const struct tensor_split *split) {
    const struct layer_division d = layer_division_make(model, layer_index, shape, split);
    const int64_t matmuls = d.query_width + d.kv_width + d.ffn_width + d.module->hidden;
    return (double)d.tokens *
           ((double)((d.query_width + matmuls) * d.element_bytes) + 4 * (double)d.attention_heads);
}

double layer_saved_bytes(const struct model *model, int64_t layer_index,
                         const struct batch_shape *shape, const struct tensor_split *split,
                         enum recompute_kind kind) {
    ballast_check(kind < RECOMPUTE_KIND_COUNT);
    struct saved_tensor tensors[LAYER_SAVED_TENSOR_LIMIT];
    int64_t count = layer_saved_tensors(model, layer_index, shape, split, tensors);
    if (count == 0) return 0;
    /* The first tensor of a block is its input. */
    if (kind == RECOMPUTE_FULL && layer_can_recompute(model, layer_index)) {
        const struct layer_division d = layer_division_make(model, layer_index, shape, split);
        const double text =
            d.kind == LAYER_JOINT_BLOCK ? (double)d.text_shard_tokens / (double)d.shard_tokens : 0;
        const double input = tensors[0].bytes * (1 + text);
        if (split->block.recompute_style != RECOMPUTE_PROJECTED) return input;
        const int64_t beside = d.kind == LAYER_SINGLE_BLOCK ? d.up_width : 0;
        return input + (double)(d.attention_tokens * (d.qkv_width + beside) * d.element_bytes);
    }
    if (kind == RECOMPUTE_SELECTIVE && layer_can_recompute(model, layer_index) &&
        block_recomputes_operators(split, model->layers[layer_index].kind))
        return tensors[0].bytes + selective_operators_bytes(model, layer_index, shape, split);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        if (kind != RECOMPUTE_SELECTIVE || !tensors[i].core_attention) sum += tensors[i].bytes;
    return sum;
}

/* ---- transient buffers ---- */

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Columns of tokens x columns that are alive together at the worst moment. */
static double block_workspace_columns(const struct layer_division *d, struct gradient_need need) {
    const double hidden = (double)d->module->hidden;
    /* of a single block those of attention beside them */
    const bool single = d->kind == LAYER_SINGLE_BLOCK;
    const double up = (double)(d->up_width + (single ? d->qkv_width : 0)),
                 ffn = (double)(d->ffn_width + (single ? d->query_width : 0));
    const double gathered = d->sequence_parallel ? hidden : 0;
    if (!need.input && !need.weight) {
        /* forward only: nothing is saved, so inputs and outputs of the largest kernels count */
        double attention =
            larger(gathered + (double)d->qkv_width, (double)(d->qkv_width + d->query_width));
        return larger(attention, larger(gathered + up, up + ffn));
    }
    const double gathered_input = need.weight ? gathered : 0;
    /* gradient in, gradient of down input, and that input where it is made anew */
    double worst = gathered + ffn + (d->remakes_activation && need.weight ? ffn : 0);
    worst = larger(worst, ffn + up);                     /* activation backward */
    worst = larger(worst, up + gathered_input + hidden); /* gradients of the up matmul */
    return larger(worst, (double)d->qkv_width + gathered_input + hidden); /* of the qkv matmul */
}

/* Around the scores of naive attention: of forward raw scores and softmax, and the mask of what is
 * dropped; of backward the gradient of the softmax, which its own backward overwrites, and that of
 * the dropped softmax. Beside them queries, keys, values and the output, or their gradients. */
static double naive_attention_workspace_bytes(const struct layer_division *d,
                                              struct gradient_need need) {
    if (d->attention != ATTENTION_NAIVE) return 0;
    const double element = (double)d->element_bytes;
    double per_score = d->attention_dropout ? 2 * element : element;
    if (!need.input && !need.weight) per_score = 2 * element + (d->attention_dropout ? 1 : 0);
    if (d->writes_softmax) per_score += 2 * 4; /* a gradient in fp32 and what it becomes */
    return d->score_count * per_score +
           (double)d->attention_tokens * (double)(d->qkv_width + d->query_width) * element;
}

/* Around attention under context parallelism: queries, keys, values and output, or their gradients,
 * and what the exchange holds beside them. All-gather: keys and values of all ranks, in backward
 * their gradients too. Ring: the block on its way in and the one on its way out; in backward each
 * with its gradient. All-to-all: what is sent is copied together first, and gone when a ring
 * begins. Gathered ring: keys and values of all ranks and the joined copy that is sent; beside them
 * the output's sum in fp32, in backward that of the queries' gradient and three blocks of the keys'
 * and values', on their way in and out and what is added. */
static double context_workspace_bytes(const struct layer_division *d, struct gradient_need need) {
    if (d->context_heads * d->context_ring == 1) return 0;
    const double key_value = 2 * (double)(attention_key_heads(d) * d->module->head_dim);
    const double query = (double)(d->attention_heads * d->module->head_dim);
    const double ring = (double)d->context_ring, fp32 = 4 / (double)d->element_bytes;
    const bool backward = need.input || need.weight;
    const double passes = backward ? 2 : 1;
    const double travels =
        d->context_ring == 1               ? 0
        : d->context == CONTEXT_ALL_GATHER ? passes * ring * key_value
        : d->context != CONTEXT_GATHERED_RING
            ? passes * 2 * key_value
            : (ring + 1) * key_value + fp32 * query + (backward ? 3 * fp32 * key_value : 0);
    const double sent = d->context_heads == 1 ? 0 : query + key_value;
    const double columns = fmax(travels, sent);
    return (double)d->attention_tokens * ((double)(d->qkv_width + d->query_width) + columns) *
           (double)d->element_bytes;
}

/* Bytes of a weight of the head beside it: a chunk's gradient, which lives until it is summed, and
 * its fp32 copy; the operands of fp32 matmuls. */
static double chunk_weight_bytes(const struct layer_division *d, struct gradient_need need) {
    const double element = (double)d->element_bytes;
    const double operand = d->chunk.fp32 ? 4 : 0, product = d->chunk.fp32 ? 4 : element;
    switch (d->chunked_head) {
    case CHUNKED_HEAD_COPIED:
        return need.weight ? element + 4 : 0;
    case CHUNKED_HEAD_REMADE:
        return operand + (need.weight ? product : 0);
    default:
        return 0;
    }
}

double layer_workspace_bytes(const struct model *model, int64_t layer_index,
                             const struct batch_shape *shape, const struct tensor_split *split) {
    const struct layer_division d = layer_division_make(model, layer_index, shape, split);
    const struct module *m = d.module;
    const struct gradient_need need = model_gradient_need(model, layer_index);
    const double element = (double)d.element_bytes;
    const double tokens = (double)d.tokens, rows = (double)d.shard_tokens;
    const double gathered = d.sequence_parallel ? tokens * (double)m->hidden * element : 0;
    switch (d.kind) {
    case LAYER_PATCH_EMBEDDING:
        return rows * (double)(module_patch_width(m) + m->hidden) * element;
    case LAYER_VISION_BLOCK:
    case LAYER_LANGUAGE_BLOCK:
    case LAYER_DIFFUSION_BLOCK:
    case LAYER_JOINT_BLOCK:
    case LAYER_SINGLE_BLOCK:
        return larger(
            (double)d.attention_tokens * block_workspace_columns(&d, need) * element,
            larger(naive_attention_workspace_bytes(&d, need), context_workspace_bytes(&d, need)));
    case LAYER_CONNECTOR: {
        /* the gathered encoder output, or the gradients around the first linear layer */
        double patches = (double)divide_up(shape->vision_tokens, d.cp) *
                         (double)connector_patch_width(m) * element;
        double widths = (double)(m->connector_in +
                                 (m->connector_inner > 0 ? m->connector_inner : m->connector_out));
        return larger(d.sequence_parallel ? patches : 0, rows * widths * element);
    }
    case LAYER_TOKEN_EMBEDDING: {
        double unscattered = tokens * (double)m->hidden * element;
        /* backward: the dense gradient of the table beside the gathered one */
        double table = need.weight ? (double)d.vocabulary * (double)m->hidden * element : 0;
        return tokens == 0 ? 0 : unscattered + table;
    }
    case LAYER_HEAD:
        /* logits and an fp32 copy of them, over the fp32 softmax that is saved: 10 bytes per logit
         * in all. Without any backward the softmax is transient too. */
        return gathered + chunk_weight_bytes(&d, need) * (double)d.vocabulary * (double)m->hidden +
               (double)d.head_tokens * (double)d.loss_vocabulary *
                   (element + 4.0 + (need.input || need.weight ? 0.0 : 4.0));
    case LAYER_TEXT_PROJECTION:
        return rows *
               (double)((m->text_projection == TEXT_PROJECTION_MLP && m->hidden > m->text_hidden
                             ? m->hidden
                             : m->text_hidden) +
                        m->hidden) *
               element;
    case LAYER_LATENT_EMBEDDING:
    case LAYER_DIFFUSION_HEAD:
        return rows * (double)(module_patch_width(m) + m->hidden) * element;
    case LAYER_KIND_COUNT:
        break;
    }
    ballast_bug("layer of no kind");
}

double layer_output_bytes(const struct model *model, int64_t layer_index,
                          const struct batch_shape *shape) {
    const struct layer_division d = layer_division_weights(model, layer_index, 1);
    int64_t tokens = 0;
    switch (d.kind) {
    case LAYER_PATCH_EMBEDDING:
    case LAYER_VISION_BLOCK:
        tokens = shape->vision_tokens;
        break;
    case LAYER_CONNECTOR:
        tokens = shape->connector_tokens;
        break;
    case LAYER_TOKEN_EMBEDDING:
    case LAYER_LANGUAGE_BLOCK:
    case LAYER_TEXT_PROJECTION:
        tokens = shape->language_tokens;
        break;
    case LAYER_LATENT_EMBEDDING:
    case LAYER_DIFFUSION_BLOCK:
    case LAYER_JOINT_BLOCK:
    case LAYER_SINGLE_BLOCK:
        tokens =
            shape->video_tokens > 0
                ? shape->video_tokens + (d.module->text_hidden > 0 ? shape->language_tokens : 0)
                : 0;
        break;
    case LAYER_HEAD:
    case LAYER_DIFFUSION_HEAD:
        break;
    case LAYER_KIND_COUNT:
        ballast_bug("layer of no kind");
    }
    return (double)tokens * (double)d.module->hidden * (double)d.element_bytes;
}
