/* modality_partition.c - the rules of DIP's section 4. Layers that differ (embeddings, heads, the
 * connector) count by their time, and 63 layers on 4 ranks divide as 15, 16, 16, 16. */
#include "sim/policy/joint/modality_partition.h"

#include <math.h>
#include <stdbool.h>
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

/* Least of the largest part, by dynamic programming over (parts, layers); then, of all cuts that
 * keep to it, the one with the least sum of squares; of equal ones the one whose first parts are
 * smaller. */
struct divider {
    const double *sums; /* of the weights before a layer */
    int64_t layers, parts, *cut;
    double *best;
};

static double weight(const struct divider *d, int64_t from, int64_t to) {
    return d->sums[to] - d->sums[from];
}

/* best[k][i]: layers from i on in k parts; each at most `limit`. squares: the sum of squares, else
 * the largest. */
static double solve(struct divider *d, double limit, bool squares) {
    int64_t n = d->layers;
    for (int64_t i = 0; i < n; i++) {
        double w = weight(d, i, n);
        d->best[1 * (n + 1) + i] = w > limit ? INFINITY : squares ? w * w : w;
        d->cut[1 * (n + 1) + i] = n;
    }
    for (int64_t k = 2; k <= d->parts; k++)
        for (int64_t i = 0; i + k <= n; i++) {
            double *best = &d->best[k * (n + 1) + i];
            *best = INFINITY;
            for (int64_t j = i + 1; j + k - 1 <= n; j++) {
                double w = weight(d, i, j), rest = d->best[(k - 1) * (n + 1) + j];
                if (w > limit) break;
                double value = squares ? w * w + rest : fmax(w, rest);
                if (value >= *best * (1 - 1e-12)) continue;
                *best = value;
                d->cut[k * (n + 1) + i] = j;
            }
        }
    return d->best[d->parts * (n + 1)];
}

void modality_divide(const double *weights, int64_t layers, int64_t parts,
                     int64_t *first_of_part) {
    ballast_check(parts >= 1 && layers >= parts);
    size_t cells = (size_t)((parts + 1) * (layers + 1));
    double *sums = memory_alloc(sizeof *sums * (size_t)(layers + 1));
    struct divider d = { sums, layers, parts, memory_alloc(sizeof *d.cut * cells),
                         memory_alloc(sizeof *d.best * cells) };
    sums[0] = 0;
    for (int64_t i = 0; i < layers; i++)
        sums[i + 1] = sums[i] + weights[i];
    double least = solve(&d, INFINITY, false);
    solve(&d, least * (1 + 1e-9), true);
    int64_t at = 0;
    for (int64_t part = 0; part < parts; part++) {
        first_of_part[part] = at;
        at = d.cut[(parts - part) * (layers + 1) + at];
    }
    first_of_part[parts] = layers;
    free(sums);
    free(d.cut);
    free(d.best);
}
