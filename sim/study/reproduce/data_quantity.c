/* data_quantity.c - sums over samples and micro-batches. */
#include "sim/study/reproduce/data_quantity.h"

#include <math.h>
#include <stdlib.h>

enum { GROUP = 100 };

static double training_flop(const struct model *model, const struct batch_shape *shape) {
    double flop = 0;
    for (int64_t i = 0; i < model->layer_count; i++)
        flop += model_layer_training_flop(model, i, shape);
    return flop;
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double data_work_spread(const struct execution *e) {
    const struct job *job = e->job;
    int64_t groups = job->batches.rank_count * job->batches.per_rank / GROUP;
    if (groups == 0) return NAN;
    double *spreads = memory_alloc(sizeof *spreads * (size_t)groups);
    for (int64_t g = 0; g < groups; g++) {
        double least = INFINITY, most = 0;
        for (int64_t i = g * GROUP; i < (g + 1) * GROUP; i++) {
            double flop = training_flop(e->scenario->model, &job->shapes[i]);
            least = fmin(least, flop);
            most = fmax(most, flop);
        }
        spreads[g] = most / least;
    }
    qsort(spreads, (size_t)groups, sizeof *spreads, by_value);
    double median = (spreads[(groups - 1) / 2] + spreads[groups / 2]) / 2;
    free(spreads);
    return median;
}

double data_text_per_image(const struct execution *e) {
    const struct dataset *d = e->job->dataset;
    double text = 0, tiles = 0;
    for (int64_t i = 0; i < d->sample_count; i++) {
        text += (double)d->samples[i].language_tokens -
                (double)d->samples[i].vision_tiles * (double)d->tile_language_tokens;
        tiles += d->samples[i].vision_tiles;
    }
    return tiles > 0 ? text / tiles : NAN;
}
