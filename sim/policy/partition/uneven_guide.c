/* uneven_guide.c - FLOP and memory as the guide to uneven pipelines counts them.
 *
 *     one layer, forward   8 N h^2 + 4 h sum(N^2) + 4 N h f
 *     encoder              3 (layers x one + 2 N h c p^2)
 *     adaptor              3 x 2 N h_in h_out
 *     share                q = total / stages,  k = ceil(q / decoder layer)
 *     first, others        layers - k (stages - 1), k each
 *     encoder + adaptor >= q:  first 0, k' = ceil(total / (stages - 1) / decoder layer) each,
 *                              the last takes what is left
 *
 *     parameters of a layer   (4 h^2 + 2 h f) / tp + (3 h + f) / tp + 6 h, 16 bytes each
 *     activations of a layer  b s (18 h + 4 f) / tp bytes
 *     patch embedding         16 p^2 c h b + 2 W H c b bytes: its parameters times the batch, as
 *                             the utility file has it
 *
 * The guide's text divides by the layer's cost only in its prose, counts 4 h for the decoder's f
 * and adds the adaptor; the figures that it prints come from the utility file, as here.
 */
#include "sim/policy/partition/uneven_guide.h"

#include <math.h>

static double layer_flop(double tokens, double squares, double hidden, double ffn) {
    return 8 * tokens * hidden * hidden + 4 * hidden * squares + 4 * tokens * hidden * ffn;
}

struct uneven_guide_flop uneven_guide_flop(const struct uneven_guide_model *m,
                                           const struct uneven_guide_batch *b) {
    double hidden = (double)m->vision_hidden, patch = (double)m->patch;
    struct uneven_guide_flop flop = { 0 };
    if (m->vision_layers > 0) {
        double embedding = 2 * b->vision_tokens * hidden * (double)m->channels * patch * patch;
        double layer =
            layer_flop(b->vision_tokens, b->vision_squares, hidden, (double)m->vision_ffn);
        flop.vision = 3 * ((double)m->vision_layers * layer + embedding);
        flop.adaptor =
            3 * 2 * b->adaptor_tokens * (double)m->adaptor_in * (double)m->adaptor_out;
    }
    flop.language_layer = 3 * layer_flop(b->language_tokens, b->language_squares,
                                         (double)m->language_hidden, (double)m->language_ffn);
    flop.total =
        flop.vision + flop.adaptor + (double)m->language_layers * flop.language_layer;
    return flop;
}

void uneven_guide_split(const struct uneven_guide_flop *flop, int64_t layers, int64_t stages,
                        int64_t *first, int64_t *middle, int64_t *last) {
    double share = flop->total / (double)stages;
    double encoder = flop->vision + flop->adaptor;
    /* A first stage without encoder needs a layer. */
    int64_t least = encoder > 0 ? 0 : 1, others = stages - 1;
    if (encoder >= share && encoder > 0) {
        *first = 0;
        *middle = (int64_t)ceil(flop->total / (double)others / flop->language_layer);
        *last = layers - *middle * (others - 1);
    } else {
        *middle = *last = (int64_t)ceil(share / flop->language_layer);
        *first = layers - *middle * others;
        if (*first < least) {
            *first = least;
            *last = layers - least - *middle * (others - 1);
        }
    }
    if (*last >= 1) return;
    *middle = (layers - *first) / others;
    *last = layers - *first - *middle * (others - 1);
}

static int64_t layer_parameters(int64_t h, int64_t f, int64_t tp) {
    return (4 * h * h + 2 * h * f) / tp + (3 * h + f) / tp + 6 * h;
}

struct uneven_guide_memory uneven_guide_memory(const struct uneven_guide_model *m,
                                               int64_t pixels, int64_t sequence, int64_t batch,
                                               int64_t tp, int64_t first_layers) {
    int64_t side = (pixels + m->patch - 1) / m->patch, tokens = side * side;
    struct uneven_guide_memory out = {
        .vision_layer_parameters = layer_parameters(m->vision_hidden, m->vision_ffn, tp),
        .language_layer_parameters = layer_parameters(m->language_hidden, m->language_ffn, tp),
    };
    out.vision_layer_static = 16 * (double)out.vision_layer_parameters;
    out.vision_layer_activations =
        (double)(batch * tokens * (18 * m->vision_hidden + 4 * m->vision_ffn) / tp);
    out.patch_embedding =
        (double)(16 * m->patch * m->patch * m->channels * m->vision_hidden * batch +
                 2 * pixels * pixels * m->channels * batch);
    out.vision = (double)m->vision_layers *
                     (out.vision_layer_static + out.vision_layer_activations) +
                 out.patch_embedding;
    out.language_layer_static = 16 * (double)out.language_layer_parameters;
    out.language_layer_activations =
        (double)(batch * sequence * (18 * m->language_hidden + 4 * m->language_ffn) / tp);
    out.language =
        (double)first_layers * (out.language_layer_static + out.language_layer_activations);
    out.total = out.vision + out.language;
    return out;
}
