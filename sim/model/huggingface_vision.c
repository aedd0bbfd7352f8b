/* huggingface_vision.c - vision encoders: CLIP, SigLIP, InternViT, and those of Qwen2-VL,
 * Qwen2.5-VL and Qwen3-VL.
 *
 * Defaults are those of CLIPVisionConfig, SiglipVisionConfig, InternVLVisionConfig, ... in
 * huggingface/transformers and of InternVisionConfig in OpenGVLab/InternVL.
 *
 * A model around the encoder may read an inner layer (LLaVA: the last but one). The blocks behind
 * it are not run and left out, as are norms and heads behind the last block, which no language
 * model reads.
 */
#include "sim/model/huggingface_config.h"

#include <string.h>

/* One row a kind; the keys of InternViT and Qwen differ from those of the others. */
struct tower_family {
    const char *model_type;
    const char *layers_key, *hidden_key, *heads_key, *channels_key;
    int64_t layers, hidden, ffn_hidden, heads, channels, image_size, patch_size;
    const char *activation;
    bool class_token, patch_bias, embedding_norm, post_norm, rotary, layer_scale;
};

#define USUAL_KEYS "num_hidden_layers", "hidden_size", "num_attention_heads", "num_channels"
static const struct tower_family families[] = {
    { "clip_vision_model", USUAL_KEYS, 12, 768, 3072, 12, 3, 224, 32, "quick_gelu", true, false,
      true, true, false, false },
    { "siglip_vision_model", USUAL_KEYS, 12, 768, 3072, 12, 3, 224, 16, "gelu_pytorch_tanh", false,
      true, false, true, false, false },
    { "intern_vit_6b", USUAL_KEYS, 48, 3200, 12800, 25, 3, 224, 14, "gelu", true, true, false,
      false, false, true },
    { "internvl_vision", USUAL_KEYS, 24, 1024, 4096, 16, 3, 448, 14, "gelu", true, true, false,
      false, false, true },
    { "qwen2_vl", "depth", "embed_dim", "num_heads", "in_channels", 32, 1280, 0, 16, 3, 448, 14,
      "quick_gelu", false, false, false, false, true, false },
    { "qwen2_5_vl", "depth", "hidden_size", "num_heads", "in_channels", 32, 3584, 3420, 16, 3, 448,
      14, "silu", false, false, false, false, true, false },
    { "qwen3_vl", "depth", "hidden_size", "num_heads", "in_channels", 27, 1152, 4304, 16, 3, 512,
      16, "gelu_pytorch_tanh", false, true, false, false, true, false },
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

const char *const *huggingface_vision_types(void) {
    static const char *const names[] = { "clip_vision_model", "intern_vit_6b",
                                         "siglip_vision_model", NULL };
    return names;
}

static const struct tower_family *find_family(const char *model_type) {
    for (size_t i = 0; model_type != NULL && i < FAMILY_COUNT; i++)
        if (strcmp(families[i].model_type, model_type) == 0) return &families[i];
    return NULL;
}

bool huggingface_knows_vision(const char *model_type) {
    return find_family(model_type) != NULL;
}

/* Everything that differs between encoders of a family. */
struct tower {
    int64_t layers, hidden, ffn_hidden, heads, channels, image_size, patch_size, temporal_patch;
    bool qkv_bias, qk_norm, rms;
    const char *ffn;
    int64_t positions; /* rows of a table beside rotary positions */
};

static bool is(const struct tower_family *f, const char *model_type) {
    return strcmp(f->model_type, model_type) == 0;
}

/* InternViT's and Qwen2-VL's own code does; Transformers' CLIP and SigLIP up to 2024 did not. */
static bool runs_flash(const struct tower_family *f) {
    return !is(f, "clip_vision_model") && !is(f, "siglip_vision_model");
}

static bool is_qwen(const struct tower_family *f) {
    return is(f, "qwen2_vl") || is(f, "qwen2_5_vl") || is(f, "qwen3_vl");
}

static bool read_activation(struct huggingface_config *c, const struct tower_family *f,
                            const cJSON *vision, struct tower *t) {
    const char *name = huggingface_text(vision, "hidden_act", f->activation);
    t->ffn = strcmp(name, "quick_gelu") == 0                    ? "quick-gelu"
             : strcmp(name, "gelu_new") == 0                    ? "gelu-new"
             : strncmp(name, "gelu", 4) == 0                    ? "gelu"
             : strcmp(name, "silu") == 0 && is(f, "qwen2_5_vl") ? "swiglu"
                                                                : NULL;
    return t->ffn != NULL ||
           json_error(c->json, huggingface_key(vision, "hidden_act"), c->err,
                      "gelu and quick_gelu are",
                      "activation \"%s\" of a vision encoder is not modelled", name);
}

static bool read_intern(struct huggingface_config *c, const struct tower_family *f,
                        const cJSON *vision, struct tower *t) {
    const bool chat = is(f, "intern_vit_6b");
    const char *norm = huggingface_text(vision, "norm_type", chat ? "rms_norm" : "layer_norm");
    t->rms = strcmp(norm, "rms_norm") == 0;
    if (!t->rms && strcmp(norm, "layer_norm") != 0)
        return json_error(c->json, huggingface_key(vision, "norm_type"), c->err, NULL,
                          "must be rms_norm or layer_norm");
    return huggingface_flag(c, vision, chat ? "qkv_bias" : "attention_bias", false, &t->qkv_bias) &&
           huggingface_flag(c, vision, chat ? "qk_normalization" : "use_qk_norm", chat,
                            &t->qk_norm);
}

static bool read_qwen(struct huggingface_config *c, const struct tower_family *f,
                      const cJSON *vision, struct tower *t) {
    t->rms = is(f, "qwen2_5_vl");
    if (!huggingface_count(c, vision, "temporal_patch_size", 2, &t->temporal_patch)) return false;
    if (is(f, "qwen2_vl")) {
        int64_t ratio;
        if (!huggingface_count(c, vision, "mlp_ratio", 4, &ratio)) return false;
        t->ffn_hidden = ratio * t->hidden;
    }
    return !is(f, "qwen3_vl") ||
           huggingface_count(c, vision, "num_position_embeddings", 2304, &t->positions);
}

static bool read_tower(struct huggingface_config *c, const struct tower_family *f,
                       const cJSON *vision, struct tower *t) {
    *t = (struct tower){ .temporal_patch = 1, .qkv_bias = true };
    const char *channels_key =
        huggingface_key(vision, "in_chans") != NULL ? "in_chans" : f->channels_key;
    if (!huggingface_count(c, vision, f->layers_key, f->layers, &t->layers) ||
        !huggingface_count(c, vision, f->hidden_key, f->hidden, &t->hidden) ||
        !huggingface_count(c, vision, f->heads_key, f->heads, &t->heads) ||
        !huggingface_count(c, vision, "patch_size", f->patch_size, &t->patch_size) ||
        !huggingface_count_or(c, vision, channels_key, f->channels, &t->channels) ||
        !huggingface_check_heads(c, vision, f->heads_key, t->heads, f->hidden_key, t->hidden) ||
        !read_activation(c, f, vision, t))
        return false;
    if (f->ffn_hidden > 0 &&
        !huggingface_count(c, vision, "intermediate_size", f->ffn_hidden, &t->ffn_hidden))
        return false;
    if (is_qwen(f)) {
        t->image_size = f->image_size / t->patch_size * t->patch_size;
        return read_qwen(c, f, vision, t);
    }
    if (!huggingface_count(c, vision, "image_size", f->image_size, &t->image_size)) return false;
    if (t->image_size < t->patch_size)
        return json_error(c->json, huggingface_key(vision, "image_size"), c->err, NULL,
                          "must be at least the patch size, %lld", (long long)t->patch_size);
    return !f->layer_scale || read_intern(c, f, vision, t);
}

/* SiglipMultiheadAttentionPoolingHead: a probe, attention, norm and feed-forward network. */
static int64_t pooling_head(const struct tower *t) {
    const int64_t h = t->hidden, f = t->ffn_hidden;
    return h + (3 * h * h + 3 * h) + (h * h + h) + 2 * h + (h * f + f) + (f * h + h);
}

static void leave_out(struct huggingface_config *c, const struct tower_family *f,
                      const cJSON *vision, const struct tower *t) {
    if (f->post_norm && !c->reads_final_norm)
        huggingface_leave_out(c, "norm behind the vision encoder's last block", 2 * t->hidden);
    const cJSON *head = huggingface_key(vision, "vision_use_head");
    if (is(f, "siglip_vision_model") && !cJSON_IsFalse(head))
        huggingface_leave_out(c, "pooling head of the vision encoder", pooling_head(t));
    if (is(f, "qwen3_vl"))
        huggingface_leave_out(c, "table of positions of the vision encoder, interpolated",
                              t->positions * t->hidden);
    if (is(f, "internvl_vision") && cJSON_IsTrue(huggingface_key(vision, "use_mask_token")))
        huggingface_leave_out(c, "mask token of the vision encoder", t->hidden);
}

/* hidden_states[i] is what i blocks made; negative numbers count from the end. */
static bool kept_layers(struct huggingface_config *c, int64_t layers, int64_t feature_layer,
                        int64_t *kept) {
    *kept = feature_layer < 0 ? layers + 1 + feature_layer : feature_layer;
    if (feature_layer == 0) *kept = layers;
    return (*kept >= 1 && *kept <= layers) ||
           json_error(c->json, NULL, c->err, NULL,
                      "the vision encoder has %lld blocks: it has no output of layer %lld",
                      (long long)layers, (long long)feature_layer);
}

/* Qwen2.5-VL: windows of window_size pixels (112) a side, but for the blocks listed (four). */
static bool add_window(struct huggingface_config *c, const cJSON *vision, const struct tower *t,
                       int64_t kept, cJSON *module) {
    int64_t pixels, full = 0;
    if (!huggingface_count_or(c, vision, "window_size", 112, &pixels)) return false;
    const cJSON *list = huggingface_key(vision, "fullatt_block_indexes"), *index;
    cJSON_ArrayForEach(index, list) {
        if (cJSON_IsNumber(index) &&
            !(index->valuedouble >= 0 && index->valuedouble < (double)t->layers))
            return json_error(c->json, index, c->err, NULL,
                              "the vision encoder has %lld blocks, counted from 0",
                              (long long)t->layers);
        full += cJSON_IsNumber(index) && index->valuedouble < (double)kept;
    }
    if (list == NULL) full = kept < 4 ? kept : 4;
    const int64_t side = pixels / t->patch_size > 0 ? pixels / t->patch_size : 1;
    if (full >= kept) return true;
    cJSON_AddNumberToObject(module, "attention_window", (double)(side * side));
    cJSON_AddNumberToObject(module, "full_attention_blocks", (double)full);
    huggingface_note(c, arena_format(c->arena,
                                     "%lld of %lld vision blocks attend within windows of %lld "
                                     "patches: a block is priced as their mean",
                                     (long long)(kept - full), (long long)kept,
                                     (long long)(side * side)));
    return true;
}

static cJSON *tower_module(struct huggingface_config *c, const struct tower_family *f,
                           const struct tower *t, int64_t layers, const char *name) {
    cJSON *m = cJSON_CreateObject(), *sources = cJSON_CreateObject();
    cJSON_AddStringToObject(m, "name", name);
    cJSON_AddStringToObject(m, "role", "vision");
    cJSON_AddNumberToObject(m, "layer_count", (double)layers);
    cJSON_AddNumberToObject(m, "hidden", (double)t->hidden);
    cJSON_AddNumberToObject(m, "ffn_hidden", (double)t->ffn_hidden);
    cJSON_AddNumberToObject(m, "heads", (double)t->heads);
    cJSON_AddStringToObject(m, "ffn", t->ffn);
    cJSON_AddStringToObject(m, "norm", t->rms ? "rms" : "layer");
    cJSON_AddStringToObject(m, "qkv_bias", t->qkv_bias ? "all" : "none");
    cJSON_AddBoolToObject(m, "linear_bias", true);
    cJSON_AddStringToObject(m, "qk_norm", t->qk_norm ? "all-heads" : "none");
    cJSON_AddBoolToObject(m, "layer_scale", f->layer_scale);
    cJSON_AddStringToObject(m, "position", f->rotary ? "rotary" : "learned");
    cJSON_AddBoolToObject(m, "embedding_norm", f->embedding_norm);
    cJSON_AddNumberToObject(m, "patch_size", (double)t->patch_size);
    cJSON_AddNumberToObject(m, "image_size",
                            (double)(t->image_size / t->patch_size * t->patch_size));
    cJSON_AddNumberToObject(m, "channels", (double)t->channels);
    cJSON_AddNumberToObject(m, "temporal_patch", (double)t->temporal_patch);
    if (is(f, "qwen3_vl")) { /* preprocessor_config.json of the published models */
        cJSON_AddNumberToObject(m, "min_pixels", 65536);
        cJSON_AddNumberToObject(m, "max_pixels", 16777216);
    }
    cJSON_AddBoolToObject(m, "patch_bias", f->patch_bias);
    cJSON_AddBoolToObject(m, "class_token", f->class_token);
    if (runs_flash(f)) cJSON_AddBoolToObject(m, "flash_attention", true);
    cJSON_AddStringToObject(m, "source",
                            arena_format(c->arena, "config.json, model_type %s", f->model_type));
    if (layers != t->layers)
        cJSON_AddStringToObject(sources, "layer_count",
                                arena_format(c->arena, "the output of block %lld of %lld is read",
                                             (long long)layers, (long long)t->layers));
    if (f->rotary)
        cJSON_AddStringToObject(sources, "image_size",
                                "a typical image: the resolution is free, data sets say how many "
                                "patches each image has");
    else if (t->image_size % t->patch_size != 0)
        cJSON_AddStringToObject(sources, "image_size",
                                arena_format(c->arena,
                                             "%lld pixels; the convolution leaves out the last "
                                             "%lld, which fill no patch",
                                             (long long)t->image_size,
                                             (long long)(t->image_size % t->patch_size)));
    if (sources->child != NULL)
        cJSON_AddItemToObject(m, "sources", sources);
    else
        cJSON_Delete(sources);
    return m;
}

/* h(3h + h + u + f), biases, norms, scales: a block of an encoder without grouped queries. */
static int64_t block_parameters(const struct tower_family *f, const struct tower *t) {
    const int64_t h = t->hidden,
                  up = strcmp(t->ffn, "swiglu") == 0 ? 2 * t->ffn_hidden : t->ffn_hidden;
    return h * (4 * h + up + t->ffn_hidden) + (t->qkv_bias ? 3 * h : 0) + 2 * h + up +
           (t->rms ? 2 : 4) * h + (t->qk_norm ? (t->rms ? 2 : 4) * h : 0) +
           (f->layer_scale ? 2 * h : 0);
}

static bool finish(struct huggingface_config *c, const struct tower_family *f, const cJSON *vision,
                   const struct tower *t, int64_t feature_layer, const char *name,
                   struct huggingface_tower *out) {
    int64_t kept;
    if (!kept_layers(c, t->layers, feature_layer, &kept)) return false;
    if (kept < t->layers)
        huggingface_leave_out(c, "vision blocks behind the layer that is read",
                              (t->layers - kept) * block_parameters(f, t));
    leave_out(c, f, vision, t);
    *out = (struct huggingface_tower){
        .hidden = t->hidden,
        .layer_count = kept,
        .merge = 1,
        .class_token = f->class_token,
        .module = tower_module(c, f, t, kept, name),
    };
    if (is(f, "qwen2_5_vl") && !add_window(c, vision, t, kept, out->module)) return false;
    return !is_qwen(f) || huggingface_count_or(c, vision, "spatial_merge_size", 2, &out->merge);
}

bool huggingface_vision_module(struct huggingface_config *c, const cJSON *vision,
                               const char *model_type, int64_t feature_layer,
                               struct huggingface_tower *out) {
    if (model_type == NULL) model_type = huggingface_text(vision, "model_type", "");
    const struct tower_family *f = find_family(model_type);
    if (f == NULL) {
        const cJSON *node = huggingface_key(vision, "model_type");
        return json_error(c->json, node != NULL ? node : vision, c->err,
                          "CLIP, SigLIP, InternViT and the encoders of Qwen2-VL, Qwen2.5-VL and "
                          "Qwen3-VL are",
                          "vision encoders of type \"%s\" are not modelled", model_type);
    }
    struct tower t;
    if (!read_tower(c, f, vision, &t)) return false;
    huggingface_note_defaults(c, model_type);
    return finish(c, f, vision, &t, feature_layer, huggingface_module_name(vision, model_type),
                  out);
}

bool huggingface_named_tower(struct huggingface_config *c, const char *name, int64_t feature_layer,
                             struct huggingface_tower *out) {
    static const struct {
        const char *ending, *model_type;
        struct tower tower;
    } named[] = {
        { "clip-vit-large-patch14",
          "clip_vision_model",
          { 24, 1024, 4096, 16, 3, 224, 14, 1, true, false, false, "quick-gelu", 0 } },
        { "clip-vit-large-patch14-336",
          "clip_vision_model",
          { 24, 1024, 4096, 16, 3, 336, 14, 1, true, false, false, "quick-gelu", 0 } },
        { "siglip-so400m-patch14-384",
          "siglip_vision_model",
          { 27, 1152, 4304, 16, 3, 384, 14, 1, true, false, false, "gelu", 0 } },
    };
    const char *slash = strrchr(name, '/'), *base = slash != NULL ? slash + 1 : name;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (strcmp(base, named[i].ending) == 0)
            return finish(c, find_family(named[i].model_type), NULL, &named[i].tower, feature_layer,
                          name, out);
    return json_error(c->json, NULL, c->err,
                      "the shape of clip-vit-large-patch14[-336] and siglip-so400m-patch14-384 is",
                      "the shape of vision encoder \"%s\" is not in the file and not known", name);
}
