/* modality_partition.c - the rules of DIP's section 4. Layers that differ (embeddings, heads, the
 * connector) count by their time, and 63 layers on 4 ranks divide as 15, 16, 16, 16. */
#include "sim/policy/joint/modality_partition.h"

#include <math.h>
#include <stdlib.h>
#include "sim/base/arena.h"
#include "sim/base/error.h"

int64_t sub_batch_size(const double *seconds, const int64_t *sizes, int64_t count, double share) {
    double best = 0;
    for (int64_t i = 0; i < count; i++)
        best = fmax(best, (double)sizes[i] / seconds[i]);
    for (int64_t i = 0; i < count; i++)
        if ((double)sizes[i] / seconds[i] >= share * best) return sizes[i];
    return sizes[count - 1];
}

void modality_segment_counts(const double *seconds, int64_t modules, const int64_t *limits,
                             int64_t *counts) {
    double least = INFINITY;
    for (int64_t i = 0; i < modules; i++)
        if (seconds[i] > 0) least = fmin(least, seconds[i]);
    for (int64_t i = 0; i < modules; i++) {
        counts[i] = seconds[i] > 0 ? (int64_t)(seconds[i] / least) : 1;
        if (counts[i] < 1) counts[i] = 1;
        if (counts[i] > limits[i]) counts[i] = limits[i];
    }
}

/* Parts needed when none may weigh more than `limit`, filled from the last layer so that later parts
 * are the fuller ones. */
static int64_t fill(const double *weights, int64_t layers, int64_t parts, double limit,
                    int64_t *first_of_part) {
    int64_t end = layers, used = 0;
    for (int64_t part = parts - 1; part >= 0 && end > 0; part--) {
        int64_t begin = end;
        double sum = 0;
        /* Every earlier part keeps a layer. */
        while (begin > part && (begin == end || sum + weights[begin - 1] <= limit))
            sum += weights[--begin];
        if (sum > limit) return layers + 1;
        first_of_part[part] = begin;
        end = begin;
        used++;
    }
    return end == 0 ? used : layers + 1;
}

void modality_divide(const double *weights, int64_t layers, int64_t parts,
                     int64_t *first_of_part) {
    ballast_check(parts >= 1 && layers >= parts);
    double low = 0, high = 0;
    for (int64_t i = 0; i < layers; i++) {
        low = fmax(low, weights[i]);
        high += weights[i];
    }
    first_of_part[parts] = layers;
    for (int step = 0; step < 60; step++) {
        double middle = (low + high) / 2;
        if (fill(weights, layers, parts, middle, first_of_part) <= parts)
            high = middle;
        else
            low = middle;
    }
    fill(weights, layers, parts, high, first_of_part);
}
