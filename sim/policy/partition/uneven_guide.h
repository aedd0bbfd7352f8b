/* uneven_guide.h - the closed forms of the guide to uneven pipelines of Pai-Megatron-Patch.
 *
 * Which share of the decoder the first rank keeps beside the whole encoder, and what that rank
 * holds in memory. Pure arithmetic, so that the guide's printed figures can be checked without a
 * simulation; the policy "uneven-flop" cuts with the first half of it.
 *
 *     struct uneven_guide_flop flop = uneven_guide_flop(&model, &batch);
 *     uneven_guide_split(&flop, model.language_layers, stages, &first, &rest, &last);
 *
 * Source: aliyun/Pai-Megatron-Patch, the guide "Uneven pp" and its utility file. It counts neither
 * grouped queries, gated feed-forward networks nor the head; a class token does not exist.
 */
#ifndef BALLAST_SIM_POLICY_UNEVEN_GUIDE_H
#define BALLAST_SIM_POLICY_UNEVEN_GUIDE_H

#include <stdint.h>

struct uneven_guide_model {
    int64_t vision_layers, vision_hidden, vision_ffn; /* vision_layers 0: no encoder */
    int64_t patch, channels;
    int64_t adaptor_in, adaptor_out;
    int64_t language_layers, language_hidden, language_ffn;
};

/* Sequences of a micro-batch; squares are the sums of squared sequence lengths. */
struct uneven_guide_batch {
    double vision_tokens, vision_squares;
    double adaptor_tokens;
    double language_tokens, language_squares;
};

/* Forward and backward, FLOP. */
struct uneven_guide_flop {
    double vision, adaptor; /* all layers, patch embedding included */
    double language_layer;
    double total; /* of the model */
};

struct uneven_guide_flop uneven_guide_flop(const struct uneven_guide_model *model,
                                           const struct uneven_guide_batch *batch);
/* Decoder layers of the first stage, of each middle one, and of the last. Clamped to what is there:
 * the guide's own formula can go below 0 from three stages on. stages >= 2. */
void uneven_guide_split(const struct uneven_guide_flop *flop, int64_t language_layers,
                        int64_t stages, int64_t *first, int64_t *middle, int64_t *last);

/* Bytes on the first rank with so many decoder layers: 16 a parameter, activations of one
 * micro-batch of `batch` images. The decoder's sequence is its own. */
struct uneven_guide_memory {
    int64_t vision_layer_parameters, language_layer_parameters;
    double vision_layer_static, vision_layer_activations;
    double patch_embedding;
    double vision; /* all layers and the patch embedding */
    double language_layer_static, language_layer_activations;
    double language; /* the first rank's layers */
    double total;
};
struct uneven_guide_memory uneven_guide_memory(const struct uneven_guide_model *model,
                                               int64_t image_pixels, int64_t sequence,
                                               int64_t batch, int64_t tp, int64_t first_layers);

#endif
