/* training_peak.c - the largest of many draws, extrapolated from the upper tail of some.
 *
 * Above a high threshold u, excesses are taken as exponential: P(peak > x) = k / n e^(-(x - u) / b)
 * with the k = sqrt(n) largest of n peaks, u the next one and b their mean excess, which is its
 * maximum-likelihood estimate (Coles, An Introduction to Statistical Modeling of Extreme Values,
 * 2001, section 4.2; Pickands' shape is 0 there). Of N draws none is above x with probability
 * e^(-N P(peak > x)), so that
 *
 *     x_q = u + b ln(k N / n / -ln q).
 *
 * Lengths of samples are bounded, and the tail of a bounded quantity falls faster in the end: the
 * figure is rather high than low. Not so where one sample stands alone far above all others.
 */
#include "sim/replay/training_peak.h"

#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>

struct training_peak training_peak_of(double *peaks, int64_t count, double draws) {
    gsl_sort(peaks, 1, (size_t)count);
    if (count > 1 && peaks[0] == peaks[count - 1]) /* samples of one size */
        return (struct training_peak){ peaks[0], peaks[0], INFINITY };
    if (count < TRAINING_PEAK_COUNT_LEAST) return (struct training_peak){ NAN, NAN, INFINITY };
    const int64_t tail = (int64_t)sqrt((double)count);
    const double threshold = peaks[count - tail - 1], most = peaks[count - 1];
    double excess = 0;
    for (int64_t i = count - tail; i < count; i++)
        excess += (peaks[i] - threshold) / (double)tail;
    const double exceeding = (double)tail * draws / (double)count;
    return (struct training_peak){
        .likely_bytes = fmax(most, threshold + excess * log(exceeding / -log(0.5))),
        .high_bytes = fmax(most, threshold + excess * log(exceeding / -log(0.9))),
        .bound_bytes = INFINITY,
    };
}

/* ---- the largest micro-batch ---- */

enum { SIZE_TILES, SIZE_TOKENS, SIZE_PATCHES, SIZE_SQUARES, SIZE_CLIP, SIZE_COUNT };

static bool has_size(const struct dataset *d, int size) {
    if (size == SIZE_PATCHES || size == SIZE_SQUARES) return d->vision_patches != NULL;
    return size != SIZE_CLIP || d->clip_ms != NULL;
}

static double size_of(const struct model *model, const struct dataset *d, int size,
                      int64_t sample) {
    switch (size) {
    case SIZE_TILES:
        return (double)d->samples[sample].vision_tiles;
    case SIZE_TOKENS:
        return (double)d->samples[sample].language_tokens;
    case SIZE_PATCHES:
        return (double)d->vision_patches[sample];
    case SIZE_SQUARES:
        return (double)d->vision_squares[sample];
    default:
        return (double)batch_clip_tokens(model, d, sample);
    }
}

/* The `count` samples with most of a size, kept in falling order. */
static void take_largest(const struct model *model, const struct dataset *d, int size,
                         int64_t count, uint32_t *out) {
    int64_t taken = 0;
    for (int64_t i = 0; i < d->sample_count; i++) {
        const double value = size_of(model, d, size, i);
        if (taken == count && !(value > size_of(model, d, size, out[count - 1]))) continue;
        int64_t at = taken < count ? taken++ : count - 1;
        for (; at > 0 && size_of(model, d, size, out[at - 1]) < value; at--)
            out[at] = out[at - 1];
        out[at] = (uint32_t)i;
    }
}

/* Of a policy that fills groups up to so many tokens; tiles are limited too, or come with
 * tokens. */
static bool packed_shape(const struct job *job, struct batch_shape *out) {
    const struct scenario *s = job->scenario;
    const struct dataset *d = job->dataset;
    const struct batch_plan *plan = &job->batches;
    const struct module *vision = &s->model->modules[MODULE_VISION],
                        *language = &s->model->modules[MODULE_LANGUAGE];
    if (d->vision_patches != NULL || d->clip_ms != NULL) return false;
    const int64_t joined = batching_policy_groups_joined(s->batching.row, s->batching.parameters),
                  tokens = joined * (plan->qt > 0 ? plan->qt : plan->sequence_tokens);
    if (tokens == 0) return false;
    double longest = 1, tiles_per_token = 0;
    for (int64_t i = 0; i < d->sample_count; i++) {
        const double length = (double)d->samples[i].language_tokens;
        longest = fmax(longest, length);
        tiles_per_token = fmax(tiles_per_token, (double)d->samples[i].vision_tiles / length);
    }
    if (plan->qt == 0 && !isfinite(tiles_per_token)) return false;
    longest = plan->joint_attention ? (double)tokens : fmin(longest, (double)tokens);
    struct batch_shape full = {
        .language_tokens = tokens,
        .useful_language_tokens = tokens,
        /* sum of squares: at most as many of the longest as there is room for */
        .language_square_sum = module_sequence_square(language, longest) * (double)tokens / longest,
    };
    if (vision->layer_count > 0) {
        const double tile = (double)s->model->tile_vision_tokens;
        full.vision_tiles =
            plan->qt > 0 ? joined * plan->qv : (int64_t)ceil(tiles_per_token * (double)tokens);
        full.vision_tokens = full.vision_tiles * s->model->tile_vision_tokens;
        full.vision_square_sum = module_image_squares(vision, (double)full.vision_tokens,
                                                      (double)full.vision_tiles * tile * tile);
        full.connector_tokens = full.vision_tiles * s->model->tile_language_tokens;
    }
    const struct batch_shape both[] = { job->largest, full }; /* samples above a limit stay alone */
    *out = batch_shape_largest(both, 2);
    return true;
}

/* Of a policy that deals so many samples: those with most of each size. */
static bool counted_shape(const struct job *job, struct batch_shape *out) {
    const int64_t count = job_samples_asked(job->scenario);
    const struct dataset *d = job->dataset;
    if (job->largest.samples > count || d->sample_count < count) return false;
    uint32_t *samples = memory_alloc(sizeof *samples * (size_t)count);
    struct batch_shape shapes[SIZE_COUNT + 1] = { job->largest };
    int64_t shape_count = 1;
    for (int size = 0; size < SIZE_COUNT; size++) {
        if (!has_size(d, size)) continue;
        take_largest(job->scenario->model, d, size, count, samples);
        shapes[shape_count++] =
            batch_shape_of_group(job->scenario->model, d, samples, count, false);
    }
    free(samples);
    *out = batch_shape_largest(shapes, shape_count);
    return true;
}

bool training_peak_largest_shape(const struct job *job, struct batch_shape *out) {
    const struct batching_policy *policy = job->scenario->batching.row;
    return policy->packs || job->batches.packed ? packed_shape(job, out) : counted_shape(job, out);
}
