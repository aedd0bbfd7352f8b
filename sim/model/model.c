/* model.c - names, parameter and FLOP counts, and which gradients a layer needs.
 *
 * Parameters of a transformer block with hidden size h, query and key-value widths q and v, feed-
 * forward width f (u = 2f if gated, else f):
 *
 *     h(q + 2v) + qh + hu + fh    matmuls
 *   + q + v (+ v), h + u + h      biases of q, v (and k); of projection, up and down
 *   + 2 norms of h (4 with norms behind the branches), norms of q and v (or of head_dim),
 *     2h layer scale
 *
 * where a norm of w has w (RMS, layer without bias) or 2w (layer) parameters. A diffusion block
 * adds its cross attention, h(q + 2v) + qh, and in place of the norms' own parameters a table of 6h
 * for the modulation (adaLN-single: Chen et al. 2023, PixArt-alpha, arXiv 2310.00426, section 2.3;
 * the layer behind it is shared by all blocks and counts with the latent embedding; DiT's own
 * blocks have each such a layer instead, (h + 1) 6h, and its head one of (h + 1) 2h). A joint block
 * is two such blocks without cross attention, a single block one with a gate for both branches,
 * (h + 1) 3h, and one bias behind them. FLOPs follow
 * Narayanan et al. 2021, appendix A, with the real q, v, u, f, and with half of the attention under
 * a causal mask.
 */
#include "sim/model/model.h"

#include <string.h>
#include "sim/model/layer_adapters.h"
#include "sim/model/layer_division.h"

/* ---- names ---- */

const char *layer_kind_name(enum layer_kind kind) {
    static const char *const names[] = {
        [LAYER_PATCH_EMBEDDING] = "patch embedding",
        [LAYER_VISION_BLOCK] = "vision block",
        [LAYER_CONNECTOR] = "connector",
        [LAYER_TOKEN_EMBEDDING] = "token embedding",
        [LAYER_LANGUAGE_BLOCK] = "language block",
        [LAYER_HEAD] = "head",
        [LAYER_TEXT_PROJECTION] = "text projection",
        [LAYER_LATENT_EMBEDDING] = "latent embedding",
        [LAYER_DIFFUSION_BLOCK] = "diffusion block",
        [LAYER_JOINT_BLOCK] = "joint block",
        [LAYER_SINGLE_BLOCK] = "single block",
        [LAYER_DIFFUSION_HEAD] = "diffusion head",
    };
    _Static_assert(sizeof names / sizeof names[0] == LAYER_KIND_COUNT, "a name per layer kind");
    ballast_check(kind < LAYER_KIND_COUNT);
    return names[kind];
}

const char *const module_role_names[MODULE_ROLE_COUNT + 1] = {
    [MODULE_VISION] = "vision",
    [MODULE_CONNECTOR] = "connector",
    [MODULE_LANGUAGE] = "language",
    [MODULE_DIFFUSION_DECODER] = "diffusion_decoder",
};

const char *module_role_name(enum module_role role) {
    ballast_check(role < MODULE_ROLE_COUNT && module_role_names[role] != NULL);
    return module_role_names[role];
}

enum token_axis layer_kind_axis(enum layer_kind kind) {
    static const enum token_axis axes[] = {
        [LAYER_PATCH_EMBEDDING] = TOKENS_VISION,   [LAYER_VISION_BLOCK] = TOKENS_VISION,
        [LAYER_CONNECTOR] = TOKENS_VISION,         [LAYER_TOKEN_EMBEDDING] = TOKENS_LANGUAGE,
        [LAYER_LANGUAGE_BLOCK] = TOKENS_LANGUAGE,  [LAYER_HEAD] = TOKENS_LANGUAGE,
        [LAYER_TEXT_PROJECTION] = TOKENS_LANGUAGE, [LAYER_LATENT_EMBEDDING] = TOKENS_VIDEO,
        [LAYER_DIFFUSION_BLOCK] = TOKENS_VIDEO,    [LAYER_DIFFUSION_HEAD] = TOKENS_VIDEO,
        [LAYER_JOINT_BLOCK] = TOKENS_VIDEO,        [LAYER_SINGLE_BLOCK] = TOKENS_VIDEO,
    };
    _Static_assert(sizeof axes / sizeof axes[0] == LAYER_KIND_COUNT, "an axis per layer kind");
    ballast_check(kind < LAYER_KIND_COUNT);
    return axes[kind];
}

bool layer_kind_is_block(enum layer_kind kind) {
    return kind == LAYER_VISION_BLOCK || kind == LAYER_LANGUAGE_BLOCK || layer_kind_diffuses(kind);
}

bool layer_kind_joins_text(enum layer_kind kind) {
    return kind == LAYER_JOINT_BLOCK || kind == LAYER_SINGLE_BLOCK;
}

bool layer_kind_diffuses(enum layer_kind kind) {
    return kind == LAYER_DIFFUSION_BLOCK || layer_kind_joins_text(kind);
}

const char *ffn_kind_name(enum ffn_kind kind) {
    static const char *const names[] = {
        [FFN_GELU] = "gelu",   [FFN_QUICK_GELU] = "quick-gelu", [FFN_SWIGLU] = "swiglu",
        [FFN_RELU2] = "relu2", [FFN_GELU_NEW] = "gelu-new",
    };
    _Static_assert(sizeof names / sizeof names[0] == FFN_KIND_COUNT, "a name per ffn kind");
    ballast_check(kind < FFN_KIND_COUNT);
    return names[kind];
}

const char *attention_kind_name(enum attention_kind kind) {
    static const char *const names[] = {
        [ATTENTION_FLASH] = "flash",
        [ATTENTION_NAIVE] = "naive",
    };
    _Static_assert(sizeof names / sizeof names[0] == ATTENTION_KIND_COUNT, "a name per kind");
    ballast_check(kind < ATTENTION_KIND_COUNT);
    return names[kind];
}

const char *context_kind_name(enum context_kind kind) {
    static const char *const names[] = {
        [CONTEXT_ALL_GATHER] = "all-gather",
        [CONTEXT_RING] = "ring",
        [CONTEXT_ALL_TO_ALL] = "all-to-all",
        [CONTEXT_GATHERED_RING] = "gathered-ring",
    };
    _Static_assert(sizeof names / sizeof names[0] == CONTEXT_KIND_COUNT, "a name per kind");
    ballast_check(kind < CONTEXT_KIND_COUNT);
    return names[kind];
}

const char *recompute_kind_name(enum recompute_kind kind) {
    static const char *const names[] = {
        [RECOMPUTE_NONE] = "none",
        [RECOMPUTE_FULL] = "full",
        [RECOMPUTE_SELECTIVE] = "selective",
    };
    _Static_assert(sizeof names / sizeof names[0] == RECOMPUTE_KIND_COUNT, "a name per kind");
    ballast_check(kind < RECOMPUTE_KIND_COUNT);
    return names[kind];
}

enum attention_kind tensor_split_attention(const struct tensor_split *split, enum layer_kind kind) {
    return split->block.unfused_encoder && kind == LAYER_VISION_BLOCK ? ATTENTION_NAIVE
                                                                      : split->attention;
}

/* ---- changed copies ---- */

const struct model *model_with_frozen(struct arena *arena, const struct model *model,
                                      const char *const *role_names, int64_t role_count,
                                      struct error *err) {
    const char *const *roles = module_role_names;
    struct model *copy = arena_new(arena, struct model);
    *copy = *model; /* the layers are shared: they say nothing about trainability */
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        copy->modules[role].frozen = false;
    for (int64_t i = 0; i < role_count; i++) {
        int role = 0;
        while (roles[role] != NULL && strcmp(roles[role], role_names[i]) != 0)
            role++;
        if (roles[role] == NULL) {
            const char *near = nearest_in_list(role_names[i], roles);
            error_set(err, "no module is called \"%s\"", role_names[i]);
            error_hint(err, "%s%s%sone of: " MODULE_ROLE_LIST,
                       near != NULL ? "did you mean \"" : "", near != NULL ? near : "",
                       near != NULL ? "\"? " : "");
            return NULL;
        }
        if (model->modules[role].layer_count == 0) {
            error_set(err, "model '%s' has no %s module that could be frozen", model->name,
                      roles[role]);
            return NULL;
        }
        copy->modules[role].frozen = true;
    }
    return copy;
}

const struct model *model_with_precision(struct arena *arena, const struct model *model,
                                         enum precision precision) {
    struct model *copy = arena_new(arena, struct model);
    *copy = *model;
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        copy->modules[role].precision = precision;
    return copy;
}

/* All blocks of a stack are one layer kind with one price: that of their mean. */
static double mean_of_blocks(const struct module *m, double full, double windowed) {
    const double share = (double)m->full_attention_blocks / (double)m->layer_count;
    return share * full + (1 - share) * windowed;
}

double module_sequence_square(const struct module *m, double length) {
    const double window = (double)m->attention_window;
    if (window == 0 || length <= window) return length * length;
    return mean_of_blocks(m, length * length, 2 * length * window - window * window);
}

double module_image_squares(const struct module *m, double patches, double square_sum) {
    const double windowed = patches * (double)m->attention_window;
    if (m->attention_window == 0 || windowed >= square_sum) return square_sum;
    return mean_of_blocks(m, square_sum, windowed);
}

struct batch_shape model_batch_shape(const struct model *model, int64_t samples,
                                     int64_t vision_tiles, int64_t language_tokens,
                                     double language_square_sum) {
    double tile_tokens = (double)model->tile_vision_tokens;
    return (struct batch_shape){
        .samples = samples,
        .vision_tiles = vision_tiles,
        .vision_tokens = vision_tiles * model->tile_vision_tokens,
        .vision_square_sum =
            module_image_squares(&model->modules[MODULE_VISION], (double)vision_tiles * tile_tokens,
                                 (double)vision_tiles * tile_tokens * tile_tokens),
        .connector_tokens = vision_tiles * model->tile_language_tokens,
        .language_tokens = language_tokens,
        .language_square_sum = language_square_sum,
        .useful_language_tokens = language_tokens,
    };
}

int64_t batch_shape_tokens(const struct batch_shape *shape, enum token_axis axis) {
    ballast_check(axis < TOKEN_AXIS_COUNT);
    return axis == TOKENS_VISION     ? shape->vision_tokens
           : axis == TOKENS_LANGUAGE ? shape->language_tokens
                                     : shape->video_tokens;
}

double batch_shape_squares(const struct batch_shape *shape, enum token_axis axis) {
    ballast_check(axis < TOKEN_AXIS_COUNT);
    return axis == TOKENS_VISION     ? shape->vision_square_sum
           : axis == TOKENS_LANGUAGE ? shape->language_square_sum
                                     : shape->video_square_sum;
}

static int64_t patches_of_side(int64_t pixels, int64_t step) {
    return pixels < step ? 1 : pixels / step;
}

int64_t model_clip_frames(const struct model *model, int64_t clip_ms) {
    const struct module *m = &model->modules[MODULE_DIFFUSION_DECODER];
    if (m->layer_count == 0 || clip_ms <= 0) return 0;
    const int64_t frames = clip_ms * m->frames_per_second / 1000;
    return frames > 0 ? frames : 1;
}

int64_t model_sized_clip_tokens(const struct model *model, int64_t clip_ms, int64_t width,
                                int64_t height) {
    const struct module *m = &model->modules[MODULE_DIFFUSION_DECODER];
    const int64_t frames = model_clip_frames(model, clip_ms);
    if (frames == 0) return 0;
    const int64_t latents = divide_up(frames, m->latent_frames);
    const int64_t step = m->latent_pixels * m->patch_size;
    return divide_up(latents, m->temporal_patch) *
           patches_of_side(width > 0 ? width : m->image_size, step) *
           patches_of_side(width > 0 ? height : m->image_height, step);
}

int64_t model_clip_tokens(const struct model *model, int64_t clip_ms) {
    return model_sized_clip_tokens(model, clip_ms, 0, 0);
}

double model_clip_text_pairs(const struct model *model, double clip_tokens, double text_tokens) {
    const struct module *m = &model->modules[MODULE_DIFFUSION_DECODER];
    if (m->text_attention == TEXT_ATTENTION_CROSS) return clip_tokens * text_tokens;
    return clip_tokens > 0 ? (2 * clip_tokens + text_tokens) * text_tokens : 0;
}

/* ---- parameters ---- */

static int64_t norm_parameters(const struct module *module, int64_t width) {
    return module->norm == NORM_LAYER ? 2 * width : width;
}

static int64_t qk_norm_parameters(const struct layer_division *d) {
    const struct module *m = d->module;
    if (!m->qk_norm) return 0;
    const struct module of_heads = { .norm = m->qk_norm_kind };
    return m->qk_norm_per_head ? 2 * norm_parameters(&of_heads, m->head_dim)
                               : norm_parameters(&of_heads, d->query_width) +
                                     norm_parameters(&of_heads, d->kv_width);
}

static int64_t norms_of_block(const struct module *m) {
    if (m->parallel_residual == PARALLEL_RESIDUAL_ONE_NORM) return 1;
    return m->branch_norm ? 4 : 2;
}

static int64_t block_parameters(const struct layer_division *d) {
    const struct module *m = d->module;
    int64_t count = m->hidden * (d->qkv_width + d->query_width + d->up_width + d->ffn_width);
    if (m->qkv_bias) count += d->query_width + d->kv_width + (m->key_bias ? d->kv_width : 0);
    /* of a single block's projection and down, which are one, too */
    if (m->linear_bias) count += d->up_width + (d->kind == LAYER_SINGLE_BLOCK ? 1 : 2) * m->hidden;
    if (!layer_kind_diffuses(d->kind)) count += norms_of_block(m) * norm_parameters(m, m->hidden);
    count += qk_norm_parameters(d);
    if (m->layer_scale) count += 2 * m->hidden;
    return count;
}

static int64_t cross_attention_parameters(const struct layer_division *d) {
    const struct module *m = d->module;
    if (m->text_hidden == 0) return 0;
    int64_t count = m->hidden * (2 * d->query_width + 2 * d->kv_width);
    if (m->qkv_bias) count += d->query_width + d->kv_width + (m->key_bias ? d->kv_width : 0);
    if (m->linear_bias) count += m->hidden;
    return count + qk_norm_parameters(d) + norm_parameters(m, m->hidden);
}

/* The norms of a diffusion block have no parameters of their own, the modulation has: a table of
 * shift, scale and gate of both branches, or the layer that makes them. */
static int64_t modulation_parameters(const struct layer_division *d) {
    const int64_t hidden = d->module->hidden;
    return d->module->modulation == MODULATION_SHARED ? modulation_vectors(d->kind) * hidden
                                                      : (hidden + 1) * d->modulation_width;
}

/* Shift and scale alone. */
static int64_t head_modulation_parameters(const struct layer_division *d) {
    const int64_t hidden = d->module->hidden;
    return 2 * hidden * (d->module->modulation == MODULATION_SHARED ? 1 : hidden + 1);
}

/* Two biased layers: of sines of a number, or of a vector. */
static int64_t embedding_parameters(int64_t in, int64_t hidden) {
    return (in + 1) * hidden + (hidden + 1) * hidden;
}

/* Blocks of the decoder's shape with norms that have weights and two gates from the timestep and
 * the text's mean, for which either passes two layers. */
static int64_t text_refiner_parameters(const struct layer_division *d) {
    const struct module *m = d->module;
    if (m->text_refiner_blocks == 0) return 0;
    struct module plain = *m;
    plain.norm = NORM_LAYER;
    plain.qk_norm = false;
    /* Each rank has whole weights, as the projection's. */
    struct layer_division block = layer_division_whole(&plain, d->kind);
    const int64_t gates = 2 * m->hidden * (m->hidden + 1);
    return embedding_parameters(TIMESTEP_FREQUENCIES, m->hidden) +
           embedding_parameters(m->text_hidden, m->hidden) +
           m->text_refiner_blocks * (block_parameters(&block) + gates);
}

static int64_t text_projection_parameters(const struct layer_division *d) {
    const struct module *m = d->module;
    struct module text = { .norm = m->text_norm };
    const int64_t bias = m->linear_bias ? 1 : 0;
    return (m->text_encoded ? 0 : norm_parameters(&text, m->text_hidden)) +
           (m->text_hidden + bias) * m->hidden +
           (m->text_projection == TEXT_PROJECTION_MLP    ? (m->hidden + bias) * m->hidden
            : m->text_projection == TEXT_PROJECTION_NORM ? norm_parameters(m, m->hidden)
                                                         : 0) +
           text_refiner_parameters(d);
}

/* Two biased layers over sines of the timestep, two over those of the guidance and two over the
 * pooled text where there are such, and one to the six vectors that all blocks share. */
static int64_t timestep_parameters(const struct layer_division *d) {
    const struct module *m = d->module;
    const bool shared = m->modulation == MODULATION_SHARED;
    return (m->guidance ? 2 : 1) * embedding_parameters(TIMESTEP_FREQUENCIES, m->hidden) +
           (m->pooled_text_hidden > 0 ? embedding_parameters(m->pooled_text_hidden, m->hidden)
                                      : 0) +
           (shared ? (m->hidden + 1) * d->modulation_width : 0);
}

static int64_t connector_parameters(const struct module *m) {
    int64_t norm_width =
        m->connector_norm_before_merge ? connector_patch_width(m) : m->connector_in;
    int64_t count = m->connector_norm ? norm_parameters(m, norm_width) : 0;
    const struct module input = { .norm = m->connector_input_norm_kind };
    if (m->connector_input_norm) count += norm_parameters(&input, connector_patch_width(m));
    int64_t bias = m->linear_bias ? 1 : 0;
    if (m->connector_inner == 0) return count + (m->connector_in + bias) * m->connector_out;
    return count + (m->connector_in + bias) * m->connector_inner +
           (m->connector_inner + bias) * m->connector_out;
}

static int64_t division_parameters(const struct layer_division *d, bool tied_head_copy) {
    const struct module *m = d->module;
    int64_t positions = m->position == POSITION_LEARNED ? m->position_count * m->hidden : 0;
    int64_t embedding_norm = m->embedding_norm ? norm_parameters(m, m->hidden) : 0;
    switch (d->kind) {
    case LAYER_PATCH_EMBEDDING:
        return (module_patch_width(m) + (m->patch_bias ? 1 : 0) + module_extra_tokens(m)) *
                   m->hidden +
               positions + embedding_norm;
    case LAYER_VISION_BLOCK:
    case LAYER_LANGUAGE_BLOCK:
        return block_parameters(d);
    case LAYER_DIFFUSION_BLOCK:
        return block_parameters(d) + cross_attention_parameters(d) + modulation_parameters(d);
    case LAYER_JOINT_BLOCK:
        return 2 * (block_parameters(d) + modulation_parameters(d));
    case LAYER_SINGLE_BLOCK:
        return block_parameters(d) + modulation_parameters(d);
    case LAYER_TEXT_PROJECTION:
        return text_projection_parameters(d);
    case LAYER_LATENT_EMBEDDING:
        return (module_patch_width(m) + (m->patch_bias ? 1 : 0)) * m->hidden + positions +
               timestep_parameters(d);
    case LAYER_DIFFUSION_HEAD: /* shift and scale; the norm itself has no parameters */
        return head_modulation_parameters(d) +
               (m->hidden + (m->patch_bias ? 1 : 0)) * module_patch_width(m);
    case LAYER_CONNECTOR:
        return connector_parameters(m);
    case LAYER_TOKEN_EMBEDDING:
        return d->vocabulary * m->hidden + positions + embedding_norm;
    case LAYER_HEAD:
        return norm_parameters(m, m->hidden) +
               (m->tied_embeddings && !tied_head_copy ? 0 : d->vocabulary * m->hidden);
    case LAYER_KIND_COUNT:
        break;
    }
    ballast_bug("layer of no kind");
}

int64_t model_layer_parameters(const struct model *model, int64_t layer_index) {
    struct layer_division d = layer_division_weights(model, layer_index, 1);
    return division_parameters(&d, false);
}

int64_t layer_rank_parameters(const struct model *model, int64_t layer_index, int64_t tp) {
    struct layer_division d = layer_division_weights(model, layer_index, tp);
    return division_parameters(&d, true);
}

int64_t layer_rank_tied_parameters(const struct model *model, int64_t layer_index, int64_t tp) {
    struct layer_division d = layer_division_weights(model, layer_index, tp);
    return division_parameters(&d, true) - division_parameters(&d, false);
}

int64_t module_parameters(const struct model *model, enum module_role role) {
    int64_t count = 0;
    for (int64_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].module_index == (int32_t)role)
            count += model_layer_parameters(model, i);
    return count;
}

bool model_computes_in(const struct model *model, enum precision precision) {
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (model->modules[role].layer_count > 0 && model->modules[role].precision == precision)
            return true;
    return false;
}

bool model_computes_in_single(const struct model *model) {
    return model_computes_in(model, PRECISION_FP32) || model_computes_in(model, PRECISION_TF32);
}

int64_t model_parameters(const struct model *model) {
    int64_t count = 0;
    for (int64_t i = 0; i < model->layer_count; i++)
        count += model_layer_parameters(model, i);
    return count;
}

/* ---- gradients ---- */

bool model_is_text_decoder(const struct model *model) {
    return model->modules[MODULE_VISION].layer_count == 0 &&
           model->modules[MODULE_DIFFUSION_DECODER].layer_count == 0 &&
           !model->modules[MODULE_LANGUAGE].bidirectional;
}

bool model_has_fp32_base(const struct model *model) {
    for (int role = 0; role < MODULE_ROLE_COUNT; role++)
        if (model->modules[role].fp32_base) return true;
    return false;
}

bool model_attends_causally(const struct model *model) {
    const struct module *language = &model->modules[MODULE_LANGUAGE];
    return language->layer_count > 0 && !language->bidirectional;
}

bool model_writes_text(const struct model *model) {
    return model_attends_causally(model) && !model->modules[MODULE_LANGUAGE].headless &&
           model->modules[MODULE_DIFFUSION_DECODER].layer_count == 0;
}

static bool has_adapters(const struct model *model, int64_t layer_index) {
    const struct layer *layer = &model->layers[layer_index];
    return layer_kind_is_block(layer->kind) && model->modules[layer->module_index].adapter_rank > 0;
}

int64_t layer_rank_adapter_parameters(const struct model *model, int64_t layer_index, int64_t tp) {
    if (!has_adapters(model, layer_index)) return 0;
    const struct layer_division d = layer_division_weights(model, layer_index, tp);
    return adapter_parameters(&d);
}

int64_t model_layer_trained_parameters(const struct model *model, int64_t layer_index) {
    return model_gradient_need(model, layer_index).weight
               ? model_layer_parameters(model, layer_index)
               : layer_rank_adapter_parameters(model, layer_index, 1);
}

struct gradient_need model_gradient_need(const struct model *model, int64_t layer_index) {
    ballast_check(layer_index >= 0 && layer_index < model->layer_count);
    struct gradient_need need = { .input = model->input_gradients && layer_index > 0 };
    for (int64_t i = 0; i < layer_index && !need.input; i++)
        need.input =
            !model->modules[model->layers[i].module_index].frozen || has_adapters(model, i);
    need.weight = !model->modules[model->layers[layer_index].module_index].frozen;
    need.input = need.input || has_adapters(model, layer_index);
    return need;
}

/* ---- FLOPs ---- */

struct layer_flop {
    double matmul, attention;
};

static struct layer_flop forward_flop(const struct model *model, int64_t layer_index,
                                      const struct batch_shape *shape) {
    const struct tensor_split whole = { .tp = 1, .sequence_parallel = false, .cp = 1 };
    struct layer_division d = layer_division_make(model, layer_index, shape, &whole);
    const struct module *m = d.module;
    double weights = 0, attention = 0, text = 0;
    switch (d.kind) {
    case LAYER_PATCH_EMBEDDING:
        weights = (double)module_patch_width(m) * (double)m->hidden;
        break;
    case LAYER_VISION_BLOCK:
    case LAYER_LANGUAGE_BLOCK:
        weights =
            (double)m->hidden * (double)(d.qkv_width + d.query_width + d.up_width + d.ffn_width);
        attention = (d.causal ? 2.0 : 4.0) * d.square_sum * (double)d.query_width;
        break;
    case LAYER_CONNECTOR:
        weights = m->connector_inner == 0
                      ? (double)m->connector_in * (double)m->connector_out
                      : (double)m->connector_inner * (double)(m->connector_in + m->connector_out);
        break;
    case LAYER_DIFFUSION_BLOCK:
        weights =
            (double)m->hidden * (double)(d.qkv_width + d.query_width + d.up_width + d.ffn_width);
        if (m->text_hidden > 0) weights += (double)m->hidden * (double)(2 * d.query_width);
        attention = 4.0 * (d.square_sum + d.cross_square_sum) * (double)d.query_width;
        text = 2.0 * (double)d.text_tokens * (double)m->hidden * (double)(2 * d.kv_width);
        break;
    case LAYER_JOINT_BLOCK:
    case LAYER_SINGLE_BLOCK: {
        const double block =
            (double)m->hidden * (double)(d.qkv_width + d.query_width + d.up_width + d.ffn_width);
        weights = block;
        attention = 4.0 * d.square_sum * (double)d.query_width;
        if (d.kind == LAYER_JOINT_BLOCK) text = 2.0 * (double)d.text_tokens * block;
        break;
    }
    case LAYER_TEXT_PROJECTION:
        weights = (double)m->text_hidden * (double)m->hidden;
        if (m->text_projection == TEXT_PROJECTION_MLP)
            weights += (double)m->hidden * (double)m->hidden;
        weights += (double)m->text_refiner_blocks * (double)m->hidden *
                   (double)(d.qkv_width + d.query_width + d.up_width + d.ffn_width);
        break;
    case LAYER_LATENT_EMBEDDING:
    case LAYER_DIFFUSION_HEAD:
        weights = (double)module_patch_width(m) * (double)m->hidden;
        break;
    case LAYER_TOKEN_EMBEDDING:
        break;
    case LAYER_HEAD:
        weights = m->head_share * (double)m->hidden * (double)m->vocabulary;
        break;
    case LAYER_KIND_COUNT:
        ballast_bug("layer of no kind");
    }
    return (struct layer_flop){ .matmul = 2.0 * (double)d.tokens * weights + text,
                                .attention = attention };
}

double model_layer_flop(const struct model *model, int64_t layer_index,
                        const struct batch_shape *shape) {
    struct layer_flop flop = forward_flop(model, layer_index, shape);
    return flop.matmul + flop.attention;
}

double model_layer_training_flop(const struct model *model, int64_t layer_index,
                                 const struct batch_shape *shape) {
    struct layer_flop flop = forward_flop(model, layer_index, shape);
    struct gradient_need need = model_gradient_need(model, layer_index);
    double gradients = (need.input ? 1.0 : 0.0) + (need.weight ? 1.0 : 0.0);
    double attention_backward = need.input || need.weight ? 2.0 : 0.0;
    return flop.matmul * (1.0 + gradients) + flop.attention * (1.0 + attention_backward);
}
