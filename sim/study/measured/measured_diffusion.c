/* measured_diffusion.c - a measured row of a diffusion transformer: what its decoder is, its
 * samples, and what cannot be simulated.
 *
 * The shape's columns are the decoder's and seq_len the tokens of one sample's latents, an image's
 * or a clip's. Latents and text come encoded, as published runs have them. With text the decoder is
 * one of Wan's or PixArt's kind: cross attention, one layer of the timestep for all blocks, rotary
 * positions; where the row or a list says how many blocks have weights for the text, of Flux's:
 * video and text in one attention, a layer of the timestep in each block. Without it is DiT's own
 * (Peebles and Xie 2022, arXiv 2212.09748): a layer of the timestep in each block, a table of
 * positions.
 *
 * A scenario knows clips by their milliseconds: here one frame is one token, and there are a
 * thousand in a second. Channels of a patch are Wan's and say little: two matmuls of 64 columns.
 */
#include "sim/study/measured/measured_row.h"

#include <ctype.h>
#include <string.h>
#include "sim/study/measured/measured_words.h"

enum {
    USUAL_TEXT_TOKENS = 512,  /* Wan 2.1, text_len of wan/modules/model.py */
    TEXT_HIDDEN = 4096,       /* T5-XXL and UMT5-XXL */
    POOLED_TEXT_HIDDEN = 768, /* CLIP-L */
    LATENT_PIXELS = 8,
    PATCH_LATENTS = 2,
    LATENT_CHANNELS = 16,
    FRAMES_PER_SECOND = 1000
};

bool measured_is_diffusion(const struct measured_run *run) {
    return strcmp(run->modality, "diffusion") == 0;
}

/* Names of models, in plain form: blocks that hold a second set of weights for the text's tokens,
 * which attend together with the latents'; such blocks of other kinds (one set of weights with two
 * norms, two widths, experts, one modulation for all), other shapes of the same name, and what is
 * given an image; convolutions; cross attention, or no text. */
static const char *const two_stream_names[] = {
    "flux",         "mmdit",         "mm-dit",     "sd3", "stable-diffusion-3",
    "hunyuanvideo", "hunyuan-video", "qwen-image", NULL
};
static const char *const other_stream_names[] = { "cogvideox", "mochi",  "auraflow", "hidream",
                                                  "flux2",     "flux.2", "flux-2",   NULL };
static const char *const given_image_words[] = { "i2v",   "edit",  "kontext", "fill",
                                                 "canny", "depth", "avatar",  NULL };
static const char *const other_shape_names[] = { "hunyuanvideo-1.5", "hunyuan-video-1.5", NULL };
static const char *const crossed_names[] = { "wan2",  "wan-2", "pixart", "dit-xl",
                                             "dit-l", "dit-b", "dit-s",  NULL };
static const char *const convolution_names[] = { "sdxl",
                                                 "sd-xl",
                                                 "sd-1",
                                                 "sd-2",
                                                 "sdv1",
                                                 "sdv2",
                                                 "sd1.",
                                                 "sd2.",
                                                 "unet",
                                                 "u-net",
                                                 "stable-diffusion-xl",
                                                 "stable-diffusion-1",
                                                 "stable-diffusion-2",
                                                 "stable-diffusion-v",
                                                 "stable-video",
                                                 NULL };

static bool is_named(const char *plain, const char *const *names) {
    for (; *names != NULL; names++) {
        const char *at = strstr(plain, *names);
        if (at != NULL && !isalpha((unsigned char)at[strlen(*names)])) return true;
    }
    return false;
}

static bool says_one(const char *notes, const char *const *words) {
    for (; *words != NULL; words++)
        if (measured_text_says(notes, *words)) return true;
    return false;
}

/* "VAE in the step", "T5 encodes text online", "includes VAE encode", "latents not precomputed"; not
 * "no VAE or T5 in the step", "latents pre-encoded", "nothing is encoded in the step". */
static bool encodes_online(const char *notes) {
    static const char *const encoders[] = { "VAE",          "T5",      "UMT5",    "CLIP",
                                            "text encoder", "encoded", "encodes", "encoding",
                                            "encoders",     NULL },
                             *const made[] = { "latents", "embeddings", NULL },
                             *const now[] = { "online", "on the fly", "on-the-fly", NULL },
                             *const inside[] = { "in the step", "inside the step",
                                                 "in the loop", "part of the step",
                                                 "includes",    "including",
                                                 NULL },
                             *const often[] = { "each step", "every step", NULL },
                             *const before[] = { "precomputed",
                                                 "pre-computed",
                                                 "pre-encoded",
                                                 "preencoded",
                                                 "pre-extracted",
                                                 "cached",
                                                 "encoded before",
                                                 "extracted before",
                                                 "made before",
                                                 "beforehand",
                                                 NULL },
                             *const nothing[] = { "nothing is encoded", "encodes nothing", NULL };
    for (const char *const *word = before; *word != NULL; word++)
        if (measured_text_denies(notes, *word)) return true;
    for (const char *const *encoder = encoders; *encoder != NULL; encoder++)
        if (measured_text_denies(notes, *encoder)) return false;
    if (says_one(notes, nothing)) return false;
    if (says_one(notes, now) && (says_one(notes, encoders) || says_one(notes, made))) return true;
    return says_one(notes, encoders) &&
           (says_one(notes, inside) || (says_one(notes, often) && !says_one(notes, before)));
}

struct measured_doubt measured_doubt_diffusion(struct arena *arena,
                                               const struct measured_run *run) {
    if (!measured_is_diffusion(run)) return (struct measured_doubt){ SKIP_NOTHING, "", "" };
    const char *plain = measured_plain(arena, run->model);
    const bool two_streams = is_named(plain, two_stream_names);
    if (is_named(plain, other_stream_names) || is_named(plain, other_shape_names) ||
        (two_streams && is_named(plain, given_image_words)))
        return (struct measured_doubt){ SKIP_TWO_STREAMS, "model", run->model };
    if (is_named(plain, convolution_names))
        return (struct measured_doubt){ SKIP_ARCHITECTURE, "model", run->model };
    if (run->vision_model[0] != '\0')
        return (struct measured_doubt){ SKIP_ENCODER_IN_STEP, "vision_model", run->vision_model };
    if (encodes_online(run->notes))
        return (struct measured_doubt){ SKIP_ENCODER_IN_STEP, "notes", run->notes };
    return (struct measured_doubt){ SKIP_NOTHING, "", "" };
}

bool measured_names_diffusion(struct arena *arena, const char *model) {
    static const char *const *const lists[] = { two_stream_names, other_stream_names,
                                                convolution_names, crossed_names };
    const char *plain = measured_plain(arena, model);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        if (is_named(plain, lists[i])) return true;
    return false;
}

bool measured_lacks_streams(struct arena *arena, const struct measured_run *run) {
    return measured_is_diffusion(run) && run->double_stream_blocks < 0 &&
           is_named(measured_plain(arena, run->model), two_stream_names);
}

void measured_choose_text(struct measured_row *row) {
    struct measured_run *r = &row->run;
    if (r->text_len >= 0) return;
    r->text_len = USUAL_TEXT_TOKENS;
    measured_row_note(row, "text_len: %ld, as Wan 2.1", (long)r->text_len);
}

void measured_add_decoder(cJSON *definition, struct measured_row *row) {
    const struct measured_run *r = &row->run;
    const bool text = r->text_len > 0, joint = text && r->double_stream_blocks >= 0;
    if (!text && r->double_stream_blocks >= 0)
        measured_row_note(row, "double_stream_blocks: not read, there is no text");
    cJSON *decoder = cJSON_AddObjectToObject(definition, "diffusion_decoder");
    cJSON_AddStringToObject(decoder, "name", "measured decoder");
    cJSON_AddStringToObject(decoder, "role", "diffusion_decoder");
    measured_add_shape(decoder, row);
    cJSON_AddStringToObject(decoder, "position", text ? "rotary" : "learned");
    if (!text) cJSON_AddNumberToObject(decoder, "position_count", (double)r->seq_len);
    cJSON_AddStringToObject(decoder, "modulation", text && !joint ? "shared" : "block");
    if (joint) {
        cJSON_AddStringToObject(decoder, "text_attention", "joint");
        cJSON_AddNumberToObject(decoder, "double_stream_blocks", (double)r->double_stream_blocks);
        cJSON_AddNumberToObject(decoder, "pooled_text_hidden", POOLED_TEXT_HIDDEN);
    }
    if (text) {
        cJSON_AddNumberToObject(decoder, "text_hidden", TEXT_HIDDEN);
        cJSON_AddStringToObject(decoder, "text_projection", joint ? "linear" : "mlp");
        if (r->qk_norm[0] != '\0' && strcmp(r->qk_norm, "none") != 0)
            cJSON_AddStringToObject(decoder, "qk_norm_kind", "rms");
    }
    measured_row_note(row,
                      joint  ? "decoder: rotary positions, a modulation layer in each block and "
                               "stream, text of T5-XXL's width, a pooled vector of CLIP-L's, RMS "
                               "norms of queries and keys"
                      : text ? "decoder: rotary positions, one modulation layer for all blocks, "
                               "two of the text, of T5-XXL's width, RMS norms of queries and keys"
                             : "decoder: a table of positions, a modulation layer in each block");
    cJSON_AddNumberToObject(decoder, "patch_size", PATCH_LATENTS);
    cJSON_AddNumberToObject(decoder, "image_size", LATENT_PIXELS * PATCH_LATENTS);
    cJSON_AddNumberToObject(decoder, "channels", LATENT_CHANNELS);
    cJSON_AddNumberToObject(decoder, "latent_pixels", LATENT_PIXELS);
    cJSON_AddNumberToObject(decoder, "latent_frames", 1);
    cJSON_AddNumberToObject(decoder, "frames_per_second", FRAMES_PER_SECOND);
    cJSON_AddStringToObject(decoder, "source", "row of measured runs");
    cJSON_AddStringToObject(decoder, "notes",
                            "a frame is one token: a clip lasts a millisecond for "
                            "each token of a sample");
}
