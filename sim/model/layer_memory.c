/* layer_memory.c - activations that a layer keeps for its backward pass, and its transient buffers.
 *
 * Korthikanti et al. 2022, section 4, count 34 s b h bytes per layer of a 2-matrix block with f =
 * 4h: 11 of attention (without its s^2 terms, which a fused attention does not keep), 19 of the MLP
 * and 4 of the norms; divided by tp under sequence parallelism. Two of the 34 are dropout masks,
 * which current stacks do not have. Here each tensor is counted by itself, so that the same block
 * gives 32 s b h plus the fp32 statistics of attention (4 per query and head) and norms. Two things
 * come on top where a model has them: queries and keys before their norm (qk norm: 4 s b h) and the
 * branch before its scale (layer scale: 4 s b h).
 *
 * A tensor that only a weight gradient reads is kept only if the layer is trainable. Outputs are
 * not counted: the next layer keeps its own input. Fused assumptions are those of
 * layer_operators.c.
 */
#include "sim/model/model.h"

#include "sim/model/layer_division.h"

struct saved_list {
    const struct layer_division *d;
    struct gradient_need need;
    struct saved_tensor *tensors;
    int64_t count;
};

static void save_bytes(struct saved_list *list, const char *name, double bytes) {
    ballast_check(list->count < LAYER_SAVED_TENSOR_LIMIT);
    list->tensors[list->count++] = (struct saved_tensor){ name, bytes };
}

static void save(struct saved_list *list, const char *name, int64_t rows, int64_t columns) {
    save_bytes(list, name, (double)rows * (double)columns * (double)list->d->element_bytes);
}

static void save_for_weights(struct saved_list *list, const char *name, int64_t rows,
                             int64_t columns) {
    if (list->need.weight) save(list, name, rows, columns);
}

/* fp32 mean and reciprocal deviation of each row, or only the latter (RMS). */
static void save_norm_statistics(struct saved_list *list, const char *name, int64_t rows) {
    save_bytes(list, name, (double)rows * (list->d->module->norm == NORM_LAYER ? 8.0 : 4.0));
}

static void block_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    save(list, "attention norm input", d->shard_tokens, m->hidden);
    save_norm_statistics(list, "attention norm statistics", d->shard_tokens);
    save_for_weights(list, "qkv input", d->shard_tokens, m->hidden);
    if (m->qk_norm) save(list, "qk norm input", d->tokens, d->query_width + d->kv_width);
    save(list, "query, key, value", d->tokens, d->qkv_width);
    save(list, "attention output", d->tokens, d->query_width);
    save_bytes(list, "attention log-sum-exp", 4.0 * (double)d->tokens * (double)d->heads);
    if (m->layer_scale) save_for_weights(list, "attention branch", d->shard_tokens, m->hidden);
    save(list, "mlp norm input", d->shard_tokens, m->hidden);
    save_norm_statistics(list, "mlp norm statistics", d->shard_tokens);
    save_for_weights(list, "up input", d->shard_tokens, m->hidden);
    save(list, "up output", d->tokens, d->up_width);
    save_for_weights(list, "down input", d->tokens, d->ffn_width);
    if (m->layer_scale) save_for_weights(list, "mlp branch", d->shard_tokens, m->hidden);
}

static void patch_embedding_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    save_for_weights(list, "unfolded patches", d->shard_tokens, module_patch_width(m));
    if (m->embedding_norm) save(list, "embedding norm input", d->shard_tokens, m->hidden);
}

static void connector_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    const struct module *m = d->module;
    const int64_t rows = d->shard_tokens;
    if (m->connector_norm) {
        save(list, "connector norm input", rows, m->connector_in);
        save_norm_statistics(list, "connector norm statistics", rows);
    }
    save_for_weights(list, "connector input", rows, m->connector_in);
    if (m->connector_inner == 0) return;
    save(list, "connector up output", rows, m->connector_inner);
    save_for_weights(list, "connector down input", rows, m->connector_inner);
}

static void token_embedding_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    if (list->need.weight) save_bytes(list, "token ids", 8.0 * (double)d->tokens);
    if (d->module->embedding_norm)
        save(list, "embedding norm input", d->shard_tokens, d->module->hidden);
}

static void head_saved(struct saved_list *list) {
    const struct layer_division *d = list->d;
    save(list, "final norm input", d->shard_tokens, d->module->hidden);
    save_norm_statistics(list, "final norm statistics", d->shard_tokens);
    save_for_weights(list, "logits input", d->shard_tokens, d->module->hidden);
    save_bytes(list, "fp32 softmax", 4.0 * (double)d->tokens * (double)d->vocabulary);
}

int64_t layer_saved_tensors(const struct model *model, int64_t layer_index,
                            const struct batch_shape *shape, const struct tensor_split *split,
                            struct saved_tensor *tensors) {
    const struct layer_division d = layer_division_make(model, layer_index, shape, split);
    struct saved_list list = { &d, model_gradient_need(model, layer_index), tensors, 0 };
    if (d.tokens == 0 || (!list.need.input && !list.need.weight)) return 0;
    switch (d.kind) {
    case LAYER_PATCH_EMBEDDING:
        patch_embedding_saved(&list);
        break;
    case LAYER_VISION_BLOCK:
    case LAYER_LANGUAGE_BLOCK:
        block_saved(&list);
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
    enum layer_kind kind = model->layers[layer_index].kind;
    return kind == LAYER_VISION_BLOCK || kind == LAYER_LANGUAGE_BLOCK;
}

double layer_saved_bytes(const struct model *model, int64_t layer_index,
                         const struct batch_shape *shape, const struct tensor_split *split,
                         bool recompute) {
    struct saved_tensor tensors[LAYER_SAVED_TENSOR_LIMIT];
    int64_t count = layer_saved_tensors(model, layer_index, shape, split, tensors);
    if (count == 0) return 0;
    /* The first tensor of a block is its input. */
    if (recompute && layer_can_recompute(model, layer_index)) return tensors[0].bytes;
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += tensors[i].bytes;
    return sum;
}

/* ---- transient buffers ---- */

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Columns of tokens x columns that are alive together at the worst moment. */
static double block_workspace_columns(const struct layer_division *d, struct gradient_need need) {
    const double hidden = (double)d->module->hidden;
    const double up = (double)d->up_width, ffn = (double)d->ffn_width;
    const double gathered = d->sequence_parallel ? hidden : 0;
    if (!need.input && !need.weight) {
        /* forward only: nothing is saved, so inputs and outputs of the largest kernels count */
        double attention =
            larger(gathered + (double)d->qkv_width, (double)(d->qkv_width + d->query_width));
        return larger(attention, larger(gathered + up, up + ffn));
    }
    const double gathered_input = need.weight ? gathered : 0;
    double worst = gathered + ffn;                       /* gradient in, gradient of down input */
    worst = larger(worst, ffn + up);                     /* activation backward */
    worst = larger(worst, up + gathered_input + hidden); /* gradients of the up matmul */
    return larger(worst, (double)d->qkv_width + gathered_input + hidden); /* of the qkv matmul */
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
        return tokens * block_workspace_columns(&d, need) * element;
    case LAYER_CONNECTOR: {
        /* the gathered encoder output, or the gradients around the first linear layer */
        double patches = (double)divide_up(shape->vision_tokens, d.cp) *
                         (double)(m->connector_in / (m->merge * m->merge)) * element;
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
        return gathered + tokens * (double)d.vocabulary *
                              (element + 4.0 + (need.input || need.weight ? 0.0 : 4.0));
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
        tokens = shape->language_tokens;
        break;
    case LAYER_HEAD:
        break;
    case LAYER_KIND_COUNT:
        ballast_bug("layer of no kind");
    }
    return (double)tokens * (double)d.module->hidden * (double)d.element_bytes;
}
