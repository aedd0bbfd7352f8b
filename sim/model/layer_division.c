/* layer_division.c - how a layer is divided.
 *
 * Megatron-LM's tensor parallelism (Shoeybi et al. 2019, section 3) cuts attention by heads, the
 * feed-forward network by its inner width and the embedding by rows of the vocabulary; sequence
 * parallelism (Korthikanti et al. 2022, section 4.2.2) cuts what lies between by tokens. Context
 * parallelism divides tokens by cp and, being balanced for causal masks, the attention work too: a
 * sequence is cut into 2 cp chunks and a rank takes one from the front and its mirror image from
 * the back (Megatron-LM, context parallelism; Striped Attention, arXiv 2311.09431, deals tokens out
 * singly to the same end). Cut into cp runs instead, the last rank attends to half of its own run
 * and to the cp - 1 before it: (2 cp - 1) / cp of the balanced work, and it sets the pace of the
 * ring (Liu et al. 2023, Ring Attention). In the encoder whole tiles are dealt to the
 * context-parallel ranks; with fewer tiles than ranks this is optimistic. The clips of a diffusion
 * decoder are cut like text, and each context-parallel rank holds the whole text that its video
 * attends to (the text projection gathers it). Where blocks join video and text the text is cut
 * too, as torchtitan and Diffusers have it; xFuser gives each rank all of it.
 *
 * Under the all-to-all exchange a rank attends with heads / cp to all tokens. heads / cp x tokens
 * is heads x tokens / cp, so the work is stated like that of the other exchanges, by heads and by
 * tokens / cp; only the heads are rounded up to a multiple of cp, and key-value heads with them.
 */
#include "sim/model/layer_division.h"
#include "sim/model/layer_adapters.h"

#include <math.h>

int64_t module_patch_width(const struct module *module) {
    return module->channels * module->temporal_patch * module->patch_size * module->patch_size;
}

int64_t connector_patch_width(const struct module *connector) {
    return connector->connector_pool
               ? connector->connector_in
               : connector->connector_in / (connector->merge * connector->merge);
}

int64_t batch_patch_count(const struct module *vision, const struct batch_shape *shape) {
    return shape->vision_tokens - module_extra_tokens(vision) * shape->vision_tiles;
}

static struct layer_division divide_weights(const struct module *module, enum layer_kind kind,
                                            int64_t tp) {
    struct layer_division d = { .module = module, .kind = kind, .tp = tp, .cp = 1 };
    d.element_bytes = precision_is_single(module->precision) ? 4 : 2;
    d.causal = module->role == MODULE_LANGUAGE && !module->bidirectional;
    if (module->role == MODULE_CONNECTOR) return d;
    d.heads = divide_up(module->heads, tp);
    d.kv_heads = divide_up(module->kv_heads, tp); /* one where kv_heads < tp: replicated */
    d.query_width = d.heads * module->head_dim;
    d.kv_width = d.kv_heads * module->head_dim;
    d.qkv_width = d.query_width + 2 * d.kv_width;
    d.ffn_width = divide_up(module->ffn_hidden, tp);
    d.up_width = module->ffn == FFN_SWIGLU ? 2 * d.ffn_width : d.ffn_width;
    d.vocabulary = divide_up(module->vocabulary, tp);
    d.modulation_width = divide_up(modulation_vectors(d.kind) * module->hidden, tp);
    return d;
}

int64_t tensor_split_ring(const struct tensor_split *split) {
    if (split->context == CONTEXT_ALL_TO_ALL) return 1;
    return split->context_heads > 1 ? split->cp / split->context_heads : split->cp;
}

struct layer_division layer_division_weights(const struct model *model, int64_t layer_index,
                                             int64_t tp) {
    ballast_check(layer_index >= 0 && layer_index < model->layer_count);
    ballast_check(tp >= 1);
    const struct layer *layer = &model->layers[layer_index];
    return divide_weights(&model->modules[layer->module_index], layer->kind, tp);
}

struct layer_division layer_division_whole(const struct module *module, enum layer_kind kind) {
    return divide_weights(module, kind, 1);
}

static int64_t layer_tokens(const struct module *module, enum layer_kind kind,
                            const struct batch_shape *shape) {
    if (kind == LAYER_PATCH_EMBEDDING) return batch_patch_count(module, shape);
    if (kind == LAYER_CONNECTOR) return shape->connector_tokens;
    return batch_shape_tokens(shape, layer_kind_axis(kind));
}

/* A training's own figure holds for the language model. */
static bool has_dropout(const struct module *module, enum dropout asked) {
    if (asked == DROPOUT_OF_MODEL || module->role != MODULE_LANGUAGE) return module->dropout;
    return asked == DROPOUT_ON;
}

/* Bytes: cuBLAS has kernels of today for rows that begin on 8 and 16. */
enum { LOGIT_ALIGNMENT = 8 };

static bool odd_logits(const struct layer_division *d, const struct tensor_split *split) {
    return d->kind == LAYER_HEAD && split->block.odd_vocabulary &&
           d->vocabulary * d->element_bytes % LOGIT_ALIGNMENT != 0;
}

/* What all of these tokens attend to, sum(q k) / sum(q), where that is whole; else NaN. Samples of
 * several lengths may come to a whole number too, by chance. */
static double one_length(double square_sum, int64_t tokens) {
    const double length = square_sum / (double)tokens;
    return tokens > 0 && length == floor(length) ? length : NAN;
}

/* The one kernel takes multiples of a length; samples of several lengths are left to it. */
static bool breaks_multiple(double length, int64_t multiple) {
    return multiple > 1 && fmod(length, (double)multiple) > 0;
}

/* What unfused attention is spared, or not, by the length of its rows. */
static void divide_scores(struct layer_division *d, const struct tensor_split *split,
                          const struct batch_shape *shape) {
    if (d->attention != ATTENTION_NAIVE) return;
    const int64_t tokens = layer_tokens(d->module, d->kind, shape);
    const bool joined = layer_kind_joins_text(d->kind) && d->text_tokens > 0;
    const double own = one_length(batch_shape_squares(shape, layer_kind_axis(d->kind)) +
                                      (joined ? shape->cross_square_sum : 0),
                                  tokens + (joined ? shape->language_tokens : 0)),
                 text = one_length(shape->cross_square_sum, tokens);
    d->writes_softmax = breaks_multiple(own, split->block.softmax_multiple);
    d->odd_scores = !d->causal && !split->block.compiled && fmod(own, 2) == 1;
    if (d->kind != LAYER_DIFFUSION_BLOCK || d->text_tokens == 0) return;
    d->writes_cross_softmax = breaks_multiple(text, split->block.softmax_multiple);
    d->odd_cross_scores = !split->block.compiled && fmod(text, 2) == 1;
}

/* Text that blocks attend to apart from the video, or with it: then the pairs that it adds are the
 * attention's own. */
static void divide_text(struct layer_division *d, const struct batch_shape *shape) {
    if (d->module->text_hidden == 0) return;
    const double pairs = shape->cross_square_sum / (double)d->cp;
    const bool joined = layer_kind_joins_text(d->kind);
    d->text_tokens = divide_up(shape->language_tokens, joined ? d->cp : 1);
    d->text_shard_tokens = d->sequence_parallel ? divide_up(d->text_tokens, d->tp) : d->text_tokens;
    if (!joined) {
        d->cross_square_sum = pairs;
        return;
    }
    d->square_sum += pairs;
    if (d->kind == LAYER_JOINT_BLOCK || d->tokens == 0) return;
    d->tokens += d->text_tokens;
    d->shard_tokens = d->sequence_parallel ? divide_up(d->tokens, d->tp) : d->tokens;
}

struct layer_division layer_division_text(const struct layer_division *d) {
    struct layer_division text = *d;
    text.text_stream = true;
    text.tokens = d->text_tokens;
    text.shard_tokens = d->text_shard_tokens;
    return text;
}

/* Liger's rows: the power of two from which on that the logits of so many tokens are no smaller than
 * the input of all of them; of a divided vocabulary, a rank's own. */
static int64_t liger_rows(const struct layer_division *d) {
    const int64_t least = divide_up(d->head_tokens, divide_up(d->vocabulary, d->module->hidden));
    int64_t rows = 1;
    while (rows < least)
        rows *= 2;
    return rows;
}

/* Bytes a weight of a sum in fp32: two are read, one is written. */
enum { FP32_SUM_BYTES = 12 };

/* What computes in fp32 casts nothing to it or from it. */
static struct stack_chunk fp32_chunk(struct stack_chunk chunk) {
    chunk.cast_bytes = 0;
    if (chunk.sum_bytes > 0) chunk.sum_bytes = FP32_SUM_BYTES;
    chunk.fp32 = false;
    return chunk;
}

static void divide_head(struct layer_division *d, const struct tensor_split *split) {
    d->chunk_tokens = d->head_tokens;
    d->chunked_head = split->block.chunked_head;
    if (d->chunked_head == CHUNKED_HEAD_REMADE)
        d->chunk = precision_is_single(d->module->precision) ? fp32_chunk(split->block.chunk)
                                                             : split->block.chunk;
    if (d->chunked_head == CHUNKED_HEAD_NO || d->head_tokens == 0) return;
    const int64_t stated = split->block.chunk.tokens, rows = stated > 0 ? stated : liger_rows(d);
    if (rows < d->head_tokens) d->chunk_tokens = rows;
}

struct layer_division layer_division_make(const struct model *model, int64_t layer_index,
                                          const struct batch_shape *shape,
                                          const struct tensor_split *split) {
    struct layer_division d = layer_division_weights(model, layer_index, split->tp);
    ballast_check(split->cp >= 1);
    d.cp = split->cp;
    d.sequence_parallel = split->sequence_parallel && split->tp > 1;
    d.hidden_dropout = has_dropout(d.module, split->hidden_dropout);
    d.attention_dropout = has_dropout(d.module, split->attention_dropout);
    d.remakes_activation = split->block.remakes_activation;
    d.dropout_apart = d.hidden_dropout && split->block.dropout_apart;
    d.modulation_apart = layer_kind_diffuses(d.kind) && split->block.modulation_apart;
    d.branches_apart = d.kind == LAYER_SINGLE_BLOCK && split->block.branches_apart;
    d.determinism = split->determinism;
    d.attention_kernel = split->attention_kernel;
    d.tensor_traffic = split->block.tensor_traffic;
    d.copies_inputs = (split->block.keeps & KEEPS_COPIED_INPUTS) != 0 && split->tp > 1 &&
                      !split->sequence_parallel;
    d.casts = split->block.casts;
    d.fp8_recipe = split->fp8_recipe != FP8_RECIPE_USUAL ? split->fp8_recipe
                   : split->block.casts == CASTS_DYNAMIC ? FP8_RECIPE_TENSORWISE
                                                         : FP8_RECIPE_DELAYED;
    d.fuses_adapters = split->block.compiled;
    d.exchanges_adapters = split->block.exchanges_adapters;
    d.casts_adapter_inputs = adapter_inputs_are_cast(d.module, split);
    d.casts_weights = split->block.casts_weights;
    d.weights_come_cast = split->weights_come_cast;
    d.linear_gradients = split->block.linear_gradients;
    d.adds_in_matmul = split->adds_in_matmul;
    d.unpads = split->unpads_samples && d.module->role == MODULE_LANGUAGE;
    d.loss_vocabulary = split->block.whole_logits ? d.module->vocabulary : d.vocabulary;
    d.odd_logits = odd_logits(&d, split);
    d.tokens = divide_up(layer_tokens(d.module, d.kind, shape), d.cp);
    if (d.kind == LAYER_HEAD)
        d.head_tokens = (int64_t)ceil((double)d.tokens * d.module->head_share);
    divide_head(&d, split);
    d.shard_tokens = d.sequence_parallel ? divide_up(d.tokens, d.tp) : d.tokens;
    d.square_sum = batch_shape_squares(shape, layer_kind_axis(d.kind)) / (double)d.cp;
    if (layer_kind_diffuses(d.kind)) divide_text(&d, shape);
    d.attention_tokens = d.kind == LAYER_JOINT_BLOCK ? d.tokens + d.text_tokens : d.tokens;
    d.attention = tensor_split_attention(split, d.kind);
    divide_scores(&d, split, shape);
    d.context = split->context;
    const bool cut = d.module->role == MODULE_LANGUAGE || layer_kind_diffuses(d.kind);
    d.context_ring = cut ? tensor_split_ring(split) : 1;
    d.context_heads = cut ? d.cp / d.context_ring : 1;
    d.repeats_keys = split->block.repeats_keys;
    d.waits_at_once = split->block.compiled;
    d.score_square_sum = d.square_sum;
    if (d.causal && split->context_unbalanced)
        d.square_sum *= (2 * (double)d.context_ring - 1) / (double)d.context_ring;
    d.attention_heads = divide_up(d.heads, d.context_heads) * d.context_heads;
    d.attention_kv_heads = divide_up(d.kv_heads, d.context_heads) * d.context_heads;
    d.score_count = d.score_square_sum * (double)d.attention_heads;
    return d;
}

bool model_logits_are_odd(const struct model *model, const struct tensor_split *split) {
    const struct layer_division last =
        layer_division_weights(model, model->layer_count - 1, split->tp);
    return odd_logits(&last, split);
}

struct head_rows layer_head_rows(const struct model *model, int64_t layer_index,
                                 const struct batch_shape *shape,
                                 const struct tensor_split *split) {
    const struct layer_division d = layer_division_make(model, layer_index, shape, split);
    return (struct head_rows){ d.head_tokens, d.chunk_tokens };
}
