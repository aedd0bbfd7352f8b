/* huggingface_joint.c - diffusion transformers that attend to latents and text at once, from a
 * config.json of Diffusers.
 *
 * FluxTransformer2DModel, HunyuanVideoTransformer3DModel and QwenImageTransformer2DModel
 * (huggingface/diffusers src/diffusers/models/transformers), which differ in a few keys and in what
 * stands before the blocks. Flux and Qwen-Image count the 2 x 2 latents that they pack into one
 * token as its channels. None says what a latent stands for: 8 x 8 pixels, and 4 frames of video.
 */
#include <string.h>
#include "sim/model/huggingface_config.h"

enum { PACKED_SIDE = 2 }; /* latents of a token's edge */

/* Defaults of the class; 0 or false: it has no such key, or none that does anything. */
static const struct joint_class {
    const char *name, *text_key;
    int64_t double_blocks, single_blocks, refiner_blocks, pooled, text_hidden, channels, patch;
    bool guides, guidance, packed; /* has the layers of guidance; by default; see above */
    int64_t width, height, frames_per_second, latent_frames;
    const char *size_source, *rate_source;
} classes[] = {
    { "FluxTransformer2DModel", "joint_attention_dim", 19, 38, 0, 768, 4096, 64, 1, true, false,
      true, 1024, 1024, 1, 1, "1024 x 1024, as its makers generate", "images: one frame" },
    { "HunyuanVideoTransformer3DModel", "text_embed_dim", 20, 40, 2, 768, 4096, 16, 2, true, true,
      false, 1280, 720, 24, 4, "720p, 1280 x 720; 540p is 960 x 544",
      "24, as its makers generate" },
    { "QwenImageTransformer2DModel", "joint_attention_dim", 60, 0, 0, 0, 3584, 64, 2, false, false,
      true, 1328, 1328, 1, 1, "1328 x 1328, as its makers generate", "images: one frame" },
};
enum { CLASS_COUNT = sizeof classes / sizeof classes[0] };

static const struct joint_class *class_named(const char *name) {
    for (int i = 0; i < CLASS_COUNT; i++)
        if (strcmp(classes[i].name, name) == 0) return &classes[i];
    return NULL;
}

bool huggingface_knows_joint(const char *class_name) {
    return class_named(class_name) != NULL;
}

struct decoder {
    int64_t double_blocks, single_blocks, refiner_blocks, heads, head_dim, hidden, ffn_hidden;
    int64_t text_hidden, pooled, channels;
    bool guidance;
};

/* 0 too. Keys that a class of no such part may have all the same are not read. */
static bool count_of_class(struct huggingface_config *c, const cJSON *root, const char *key,
                           int64_t fallback, int64_t *out) {
    const cJSON *node = huggingface_key(root, key);
    *out = 0;
    if (fallback == 0 || (cJSON_IsNumber(node) && node->valuedouble == 0)) return true;
    return huggingface_count(c, root, key, fallback, out);
}

static bool read_feed_forward(struct huggingface_config *c, const cJSON *root, struct decoder *d) {
    const cJSON *ratio = huggingface_key(root, "mlp_ratio");
    d->ffn_hidden = 4 * d->hidden;
    if (ratio == NULL) return true;
    if (!cJSON_IsNumber(ratio) || !(ratio->valuedouble > 0 && ratio->valuedouble <= 64))
        return huggingface_refuse(c, "mlp_ratio", "must be a number above 0 and up to 64", NULL);
    d->ffn_hidden = (int64_t)((double)d->hidden * ratio->valuedouble);
    return d->ffn_hidden > 0 || huggingface_refuse(c, "mlp_ratio", "leaves no inner width", NULL);
}

static bool check_patches(struct huggingface_config *c, const cJSON *root,
                          const struct joint_class *kind) {
    int64_t patch, frames;
    if (!huggingface_count_or(c, root, "patch_size", kind->patch, &patch) ||
        !huggingface_count_or(c, root, "patch_size_t", 1, &frames))
        return false;
    if (patch == kind->patch && frames == 1) return true;
    return huggingface_refuse(c, frames != 1 ? "patch_size_t" : "patch_size",
                              "only patches of 2 x 2 latents are modelled",
                              kind->patch == 1 ? "this class packs them into channels: 1" : NULL);
}

/* What else such a model may be given. */
static bool check_conditions(struct huggingface_config *c, const cJSON *root,
                             const struct joint_class *kind, const struct decoder *d) {
    int64_t out;
    if (huggingface_key(root, "image_condition_type") != NULL)
        return huggingface_refuse(c, "image_condition_type",
                                  "a model that is given an image is not modelled",
                                  "models that make video from text alone can be imported");
    const int64_t packed = kind->packed ? PACKED_SIDE * PACKED_SIDE : 1;
    if (d->channels % packed != 0)
        return huggingface_refuse(c, "in_channels", "must hold 2 x 2 latents", NULL);
    if (!huggingface_count_or(c, root, "out_channels", d->channels, &out)) return false;
    if (out != d->channels && out != d->channels / packed)
        return huggingface_refuse(
            c, "in_channels",
            arena_format(c->arena,
                         "%lld channels in and %lld out: latents of a condition are not "
                         "modelled",
                         (long long)d->channels, (long long)out),
            "models that are given no image (Fill, Depth, Canny are) can be imported");
    const cJSON *norm = cJSON_GetObjectItemCaseSensitive(root, "qk_norm");
    return norm == NULL || (cJSON_IsString(norm) && strcmp(norm->valuestring, "rms_norm") == 0) ||
           huggingface_refuse(c, "qk_norm", "this norm of queries and keys is not modelled",
                              "\"rms_norm\" is");
}

static bool read_decoder(struct huggingface_config *c, const cJSON *root,
                         const struct joint_class *kind, struct decoder *d) {
    if (!count_of_class(c, root, "num_layers", kind->double_blocks, &d->double_blocks) ||
        !count_of_class(c, root, "num_single_layers", kind->single_blocks, &d->single_blocks) ||
        !count_of_class(c, root, "num_refiner_layers", kind->refiner_blocks, &d->refiner_blocks) ||
        !huggingface_count(c, root, "num_attention_heads", 24, &d->heads) ||
        !huggingface_count(c, root, "attention_head_dim", 128, &d->head_dim) ||
        !huggingface_count(c, root, kind->text_key, kind->text_hidden, &d->text_hidden) ||
        !count_of_class(c, root, "pooled_projection_dim", kind->pooled, &d->pooled) ||
        !huggingface_count(c, root, "in_channels", kind->channels, &d->channels) ||
        !huggingface_flag(c, root, "guidance_embeds", kind->guidance, &d->guidance))
        return false;
    d->hidden = d->heads * d->head_dim;
    d->guidance = d->guidance && kind->guides;
    return read_feed_forward(c, root, d) && check_patches(c, root, kind) &&
           check_conditions(c, root, kind, d);
}

static void add_shape(cJSON *m, const struct joint_class *kind, const struct decoder *d) {
    const int64_t packed = kind->packed ? PACKED_SIDE * PACKED_SIDE : 1;
    const struct {
        const char *key;
        int64_t value;
    } counts[] = {
        { "layer_count", d->double_blocks + d->single_blocks },
        { "hidden", d->hidden },
        { "ffn_hidden", d->ffn_hidden },
        { "heads", d->heads },
        { "head_dim", d->head_dim },
        { "patch_size", PACKED_SIDE },
        { "temporal_patch", 1 },
        { "image_size", kind->width },
        { "image_height", kind->height },
        { "channels", d->channels / packed },
        { "latent_pixels", 8 },
        { "latent_frames", kind->latent_frames },
        { "frames_per_second", kind->frames_per_second },
        { "text_hidden", d->text_hidden },
        { "double_stream_blocks", d->double_blocks },
        { "text_refiner_blocks", d->refiner_blocks },
        { "pooled_text_hidden", d->pooled },
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        cJSON_AddNumberToObject(m, counts[i].key, (double)counts[i].value);
    static const char *const words[][2] = {
        { "ffn", "gelu" },
        { "norm", "layer" },
        { "qk_norm", "head" },
        { "qk_norm_kind", "rms" },
        { "qkv_bias", "all" },
        { "position", "rotary" },
        { "modulation", "block" },
        { "text_projection", "linear" },
        { "text_attention", "joint" },
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        cJSON_AddStringToObject(m, words[i][0], words[i][1]);
}

cJSON *huggingface_joint_module(struct huggingface_config *c) {
    const cJSON *root = json_root(c->json);
    const struct joint_class *kind = class_named(huggingface_text(root, "_class_name", ""));
    struct decoder d = { 0 };
    if (!read_decoder(c, root, kind, &d)) return NULL;
    huggingface_note_defaults(c, kind->name);
    huggingface_note(c, "text encoders and autoencoder are no part of it: text and latents come "
                        "encoded");
    huggingface_note(c, arena_format(c->arena,
                                     "frames of %lld x %lld, which the config does not state: "
                                     "image_size and image_height",
                                     (long long)kind->width, (long long)kind->height));
    /* RMS over the text's own width (txt_norm) */
    if (kind->pooled == 0) huggingface_leave_out(c, "norm of the text", d.text_hidden);
    cJSON *m = cJSON_CreateObject(), *sources = cJSON_CreateObject();
    cJSON_AddStringToObject(m, "name", huggingface_module_name(root, kind->name));
    cJSON_AddStringToObject(m, "role", "diffusion_decoder");
    add_shape(m, kind, &d);
    cJSON_AddBoolToObject(m, "linear_bias", true);
    cJSON_AddBoolToObject(m, "guidance", d.guidance);
    cJSON_AddStringToObject(m, "source",
                            arena_format(c->arena, "config.json, _class_name %s", kind->name));
    cJSON_AddStringToObject(sources, "image_size", kind->size_source);
    cJSON_AddStringToObject(sources, "latent_pixels", "the usual autoencoder of such models");
    cJSON_AddStringToObject(sources, "latent_frames", "the usual autoencoder of such models");
    cJSON_AddStringToObject(sources, "frames_per_second", kind->rate_source);
    cJSON_AddItemToObject(m, "sources", sources);
    return m;
}
