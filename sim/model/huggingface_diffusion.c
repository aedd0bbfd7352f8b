/* huggingface_diffusion.c - diffusion transformers of video from a config.json, which say
 * "_class_name" where others say "model_type"; those of joint attention are in
 * huggingface_joint.c.
 *
 * Wan 2.1 and 2.2 (Wan-Video/Wan2.1 wan/modules/model.py), in the keys of Diffusers
 * (WanTransformer3DModel) and of their makers (WanModel). Neither says what a latent stands for: the
 * autoencoder is known by its channels (16: 8 x 8 pixels and 4 frames; 48: 16 x 16 and 4). Models
 * that take an image attend to it besides, which is not modelled.
 */
#include <string.h>
#include "sim/model/huggingface_config.h"

static const char makers_class[] = "WanModel";

/* By the channels of its latents; sizes and rates are those of the makers' configurations. */
static const struct autoencoder {
    int64_t channels, pixels, frames, width, height, frames_per_second;
    const char *size_source;
} autoencoders[] = {
    { 16, 8, 4, 832, 480, 16, "480P, 832 x 480; 720P is 1280 x 720" },
    { 48, 16, 4, 1280, 704, 24, "720P of Wan 2.2's autoencoder, 1280 x 704" },
};

struct decoder {
    int64_t layers, hidden, heads, head_dim, ffn_hidden, text_hidden, channels;
    bool normed; /* queries and keys */
    const struct autoencoder *autoencoder;
};

const char *const *huggingface_class_names(void) {
    static const char *const names[] = {
        "WanTransformer3DModel",       makers_class,
        "FluxTransformer2DModel",      "HunyuanVideoTransformer3DModel",
        "QwenImageTransformer2DModel", NULL
    };
    return names;
}

bool huggingface_knows_diffusion(const char *class_name) {
    for (const char *const *name = huggingface_class_names(); *name != NULL; name++)
        if (strcmp(class_name, *name) == 0) return true;
    return false;
}

static const char from_text[] = "models of Wan that make video from text alone can be imported";

/* {1, 2, 2} of both: what else there is would be another model. */
static bool check_patch(struct huggingface_config *c, const cJSON *root) {
    const cJSON *patch = huggingface_key(root, "patch_size");
    if (patch == NULL) return true;
    static const double want[] = { 1, 2, 2 };
    bool same = cJSON_GetArraySize(patch) == 3;
    for (int i = 0; same && i < 3; i++) {
        const cJSON *side = cJSON_GetArrayItem(patch, i);
        same = cJSON_IsNumber(side) && side->valuedouble == want[i];
    }
    return same ||
           huggingface_refuse(c, "patch_size", "only patches of [1, 2, 2] are modelled", NULL);
}

/* What an image-to-video model has besides. */
static bool check_conditions(struct huggingface_config *c, const cJSON *root, int64_t in_channels,
                             int64_t out_channels) {
    static const char *const image_keys[] = { "image_dim", "added_kv_proj_dim",
                                              "pos_embed_seq_len" };
    for (size_t i = 0; i < sizeof image_keys / sizeof image_keys[0]; i++)
        if (huggingface_key(root, image_keys[i]) != NULL)
            return huggingface_refuse(c, image_keys[i], "attention to an image is not modelled",
                                      from_text);
    const char *type = huggingface_text(root, "model_type", "t2v");
    if (strcmp(type, "t2v") != 0 && strcmp(type, "ti2v") != 0)
        return huggingface_refuse(
            c, "model_type",
            arena_format(c->arena, "models of type \"%.40s\" are not modelled", type), from_text);
    if (in_channels != out_channels)
        return huggingface_refuse(
            c, huggingface_key(root, "in_dim") != NULL ? "in_dim" : "in_channels",
            "latents of a condition beside those of the video are not modelled", from_text);
    bool crossed;
    if (!huggingface_flag(c, root, "cross_attn_norm", true, &crossed)) return false;
    return crossed || huggingface_refuse(c, "cross_attn_norm",
                                         "cross attention without its norm is not modelled", NULL);
}

/* Norms of queries and keys over all heads, or none; attention to the whole clip. */
static bool check_attention(struct huggingface_config *c, const cJSON *root, bool makers,
                            bool *normed) {
    const cJSON *norm = cJSON_GetObjectItemCaseSensitive(root, "qk_norm");
    *normed = norm == NULL || cJSON_IsTrue(norm) ||
              (cJSON_IsString(norm) && strcmp(norm->valuestring, "rms_norm_across_heads") == 0);
    if (!*normed && !cJSON_IsNull(norm) && !cJSON_IsFalse(norm))
        return huggingface_refuse(c, "qk_norm", "this norm of queries and keys is not modelled",
                                  makers ? "true and false are"
                                         : "\"rms_norm_across_heads\" and null are");
    const cJSON *window = huggingface_key(root, "window_size"), *side;
    cJSON_ArrayForEach(side, window) {
        if (!cJSON_IsNumber(side) || side->valuedouble != -1)
            return huggingface_refuse(c, "window_size", "attention within a window is not modelled",
                                      "[-1, -1] is: to the whole clip");
    }
    return window == NULL || cJSON_IsArray(window) ||
           huggingface_refuse(c, "window_size", "must be a list of two numbers", NULL);
}

static bool read_decoder(struct huggingface_config *c, const cJSON *root, struct decoder *d) {
    const bool makers = strcmp(huggingface_text(root, "_class_name", ""), makers_class) == 0;
    const char *const heads_key = makers ? "num_heads" : "num_attention_heads",
                      *const in_key = makers ? "in_dim" : "in_channels",
                      *const out_key = makers ? "out_dim" : "out_channels";
    int64_t out_channels, frequencies;
    if (!huggingface_count(c, root, "num_layers", 0, &d->layers) ||
        !huggingface_count(c, root, heads_key, 0, &d->heads) ||
        !huggingface_count(c, root, "ffn_dim", 0, &d->ffn_hidden) ||
        !huggingface_count(c, root, in_key, 16, &d->channels) ||
        !huggingface_count(c, root, out_key, 16, &out_channels) ||
        !huggingface_count(c, root, "text_dim", 4096, &d->text_hidden) ||
        !huggingface_count(c, root, "freq_dim", 256, &frequencies))
        return false;
    if (makers) {
        if (!huggingface_count(c, root, "dim", 0, &d->hidden) ||
            !huggingface_check_heads(c, root, heads_key, d->heads, "dim", d->hidden))
            return false;
        d->head_dim = d->hidden / d->heads;
    } else {
        if (!huggingface_count(c, root, "attention_head_dim", 128, &d->head_dim)) return false;
        d->hidden = d->heads * d->head_dim;
    }
    if (frequencies != 256)
        return huggingface_refuse(c, "freq_dim", "a timestep is modelled as 256 sines and cosines",
                                  NULL);
    if (!check_patch(c, root) || !check_conditions(c, root, d->channels, out_channels) ||
        !check_attention(c, root, makers, &d->normed))
        return false;
    for (size_t i = 0; i < sizeof autoencoders / sizeof autoencoders[0]; i++)
        if (autoencoders[i].channels == d->channels) d->autoencoder = &autoencoders[i];
    return d->autoencoder != NULL ||
           huggingface_refuse(c, in_key,
                              "no autoencoder of so many channels is known: 16 and 48 are", NULL);
}

cJSON *huggingface_diffusion_module(struct huggingface_config *c) {
    const cJSON *root = json_root(c->json);
    const char *class_name = huggingface_text(root, "_class_name", "");
    if (huggingface_knows_joint(class_name)) return huggingface_joint_module(c);
    struct decoder d = { 0 };
    if (!read_decoder(c, root, &d)) return NULL;
    huggingface_note_defaults(c, class_name);
    huggingface_note(c, "text encoder and autoencoder are no part of it: text and latents come "
                        "encoded");
    if (d.channels == 48)
        huggingface_note(c, "each token has a timestep of its own there: the modulation is priced "
                            "as one for each clip");
    cJSON *m = cJSON_CreateObject(), *sources = cJSON_CreateObject();
    cJSON_AddStringToObject(m, "name", huggingface_module_name(root, class_name));
    cJSON_AddStringToObject(m, "role", "diffusion_decoder");
    cJSON_AddNumberToObject(m, "layer_count", (double)d.layers);
    cJSON_AddNumberToObject(m, "hidden", (double)d.hidden);
    cJSON_AddNumberToObject(m, "ffn_hidden", (double)d.ffn_hidden);
    cJSON_AddNumberToObject(m, "heads", (double)d.heads);
    cJSON_AddNumberToObject(m, "head_dim", (double)d.head_dim);
    cJSON_AddStringToObject(m, "ffn", "gelu");
    cJSON_AddStringToObject(m, "norm", "layer");
    cJSON_AddStringToObject(m, "qk_norm", d.normed ? "all-heads" : "none");
    if (d.normed) cJSON_AddStringToObject(m, "qk_norm_kind", "rms");
    cJSON_AddStringToObject(m, "qkv_bias", "all");
    cJSON_AddBoolToObject(m, "linear_bias", true);
    cJSON_AddStringToObject(m, "position", "rotary");
    cJSON_AddNumberToObject(m, "patch_size", 2);
    cJSON_AddNumberToObject(m, "temporal_patch", 1);
    cJSON_AddNumberToObject(m, "image_size", (double)d.autoencoder->width);
    cJSON_AddNumberToObject(m, "image_height", (double)d.autoencoder->height);
    cJSON_AddNumberToObject(m, "channels", (double)d.channels);
    cJSON_AddNumberToObject(m, "latent_pixels", (double)d.autoencoder->pixels);
    cJSON_AddNumberToObject(m, "latent_frames", (double)d.autoencoder->frames);
    cJSON_AddNumberToObject(m, "frames_per_second", (double)d.autoencoder->frames_per_second);
    cJSON_AddStringToObject(m, "modulation", "shared");
    cJSON_AddNumberToObject(m, "text_hidden", (double)d.text_hidden);
    cJSON_AddStringToObject(m, "text_projection", "mlp");
    cJSON_AddStringToObject(m, "source",
                            arena_format(c->arena, "config.json, _class_name %s", class_name));
    cJSON_AddStringToObject(sources, "image_size", d.autoencoder->size_source);
    cJSON_AddStringToObject(sources, "latent_pixels", "the autoencoder of so many channels");
    cJSON_AddStringToObject(sources, "latent_frames", "the autoencoder of so many channels");
    cJSON_AddStringToObject(sources, "frames_per_second",
                            "sample_fps of its makers' configuration");
    cJSON_AddItemToObject(m, "sources", sources);
    return m;
}
