/* surface.c - robust local kriging.
 *
 * Prediction at x from its neighbours: c' (C + N)^-1 v with C their covariances, c those with x, N
 * the diagonal of noise variances and v the values. Each round predicts every point from the others
 * and sets its noise to variance (1 + (residual / (outlier s))^2), s = 1.4826 median |residual|:
 * the weights of a Cauchy fit. Beyond the reach of the covariances the prediction falls to 0, the
 * closed form itself.
 */
#include "calibrate/fit/surface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <gsl/gsl_linalg.h>
#include "calibrate/fit/robust_fit.h"

enum {
    ROUND_COUNT = 3,
    QUARTER_COUNT = 4,
    PAIR_MAX = SURFACE_NEIGHBOUR_MAX * (SURFACE_NEIGHBOUR_MAX + 1) / 2,
    CROWD_MAX = 80,       /* without a quarter of them, SURFACE_NEIGHBOUR_MAX are mostly left */
    KEPT_POINT_MAX = 8192 /* covariances of more points than these are not kept: 256 MiB */
};

static const struct surface_noise noises[] = { { 0.02, 2 }, { 0.06, 1.4 }, { 0.25, 0.7 } };
enum { NOISE_COUNT = sizeof noises / sizeof noises[0] };

/* The points most alike to a place, the most alike first. */
struct crowd {
    int64_t count;
    int64_t own; /* the point of the place, which is none of them; -1: the place is no point */
    int32_t index[CROWD_MAX];
    double covariance[CROWD_MAX]; /* with the place */
};

/* Those of a crowd that its place is predicted from. */
struct neighbours {
    int64_t count;
    int32_t index[SURFACE_NEIGHBOUR_MAX];
    double covariance[SURFACE_NEIGHBOUR_MAX];
    double pair[PAIR_MAX]; /* among each other, row by row up to the diagonal */
};

/* Which quarter a point is in, by its place alone: whatever was measured there. */
static int quarter_of(const double *at, int feature_count) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (int f = 0; f < feature_count; f++) {
        hash ^= (uint64_t)llround(at[f] * 4096) + 0x165667b19e3779f9u;
        hash *= 0xbf58476d1ce4e5b9u;
        hash ^= hash >> 29;
    }
    return (int)((hash >> 32) % QUARTER_COUNT);
}

static double part_distance(const struct surface_part *part, int feature_count, const double *a,
                            const double *b) {
    double sum = 0;
    for (int f = 0; f < feature_count; f++)
        if (part->scale[f] > 0) sum += fabs(a[f] - b[f]) / part->scale[f];
    return sum;
}

static double covariance(const struct surface_kernel *kernel, const double *a, const double *b) {
    double sum = 0;
    for (int p = 0; p < kernel->part_count; p++)
        sum += kernel->parts[p].weight *
               exp(-part_distance(&kernel->parts[p], kernel->feature_count, a, b));
    return sum;
}

/* No covariance exceeds total weight x exp(-least distance): most points are passed over without
 * an exponential. */
static bool may_exceed(const struct surface_kernel *kernel, const double *a, const double *b,
                       double log_least) {
    for (int p = 0; p < kernel->part_count; p++)
        if (-part_distance(&kernel->parts[p], kernel->feature_count, a, b) > log_least) return true;
    return false;
}

/* What the last of a crowd at `at` is alike at least, by the crowd of a place beside it: points
 * that cannot be in it need no exponentials then. 0 where that crowd is too small to say. */
static double least_alike(const struct surface *surface, const double *at, const bool *left_out,
                          int64_t without, int64_t most, const struct crowd *beside) {
    double least = INFINITY;
    int64_t count = 0;
    if (beside->count == 0) return 0;
    for (int64_t c = beside->own < 0 ? 0 : -1; c < beside->count && count < most; c++) {
        const int64_t i = c < 0 ? beside->own : beside->index[c];
        if (i == without || (left_out && left_out[i])) continue;
        least = fmin(least, covariance(surface->kernel, at, surface->at[i]));
        count++;
    }
    return count == most ? least * (1 - 1e-9) : 0;
}

/* The `most` points most alike to `at`, kept sorted by insertion: ties keep the order of the
 * points. `crowd` holds that of a place beside it before, or nobody. */
static void find_crowd(const struct surface *surface, const double *at, const bool *left_out,
                       int64_t without, int64_t most, struct crowd *crowd) {
    const struct surface_kernel *kernel = surface->kernel;
    double total = 0;
    for (int p = 0; p < kernel->part_count; p++)
        total += kernel->parts[p].weight;
    double log_least = log(least_alike(surface, at, left_out, without, most, crowd) / total);
    crowd->count = 0;
    crowd->own = without;
    for (int64_t i = 0; i < surface->point_count; i++) {
        if (i == without || (left_out && left_out[i])) continue;
        if (!may_exceed(kernel, at, surface->at[i], log_least)) continue;
        const double alike = covariance(kernel, at, surface->at[i]);
        const bool full = crowd->count == most;
        if (full && alike <= crowd->covariance[crowd->count - 1]) continue;
        int64_t slot = full ? crowd->count - 1 : crowd->count++;
        for (; slot > 0 && crowd->covariance[slot - 1] < alike; slot--) {
            crowd->covariance[slot] = crowd->covariance[slot - 1];
            crowd->index[slot] = crowd->index[slot - 1];
        }
        crowd->covariance[slot] = alike;
        crowd->index[slot] = (int32_t)i;
        if (crowd->count == most)
            log_least = fmax(log_least, log(crowd->covariance[crowd->count - 1] / total));
    }
}

/* Covariance of two points. Neighbours of one point are mostly neighbours of the next: each pair is
 * computed once where `kept` holds them, row by row up to the diagonal, 0 for not yet. */
static double point_covariance(const struct surface *surface, double *kept, int64_t i, int64_t j) {
    if (!kept) return covariance(surface->kernel, surface->at[i], surface->at[j]);
    double *pair = &kept[i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i];
    if (*pair == 0) *pair = covariance(surface->kernel, surface->at[i], surface->at[j]);
    return *pair;
}

/* The first of a crowd that are not left out. */
static void pick_neighbours(const struct surface *surface, const struct crowd *crowd,
                            const bool *left_out, double *kept, struct neighbours *near) {
    near->count = 0;
    for (int64_t c = 0; c < crowd->count && near->count < SURFACE_NEIGHBOUR_MAX; c++) {
        if (left_out && left_out[crowd->index[c]]) continue;
        near->index[near->count] = crowd->index[c];
        near->covariance[near->count++] = crowd->covariance[c];
    }
    double *pair = near->pair;
    for (int64_t i = 0; i < near->count; i++)
        for (int64_t j = 0; j <= i; j++)
            *pair++ = point_covariance(surface, kept, near->index[i], near->index[j]);
}

static double predict(const struct surface *surface, const struct neighbours *near) {
    double matrix[SURFACE_NEIGHBOUR_MAX * SURFACE_NEIGHBOUR_MAX], right[SURFACE_NEIGHBOUR_MAX];
    const int64_t count = near->count;
    if (count == 0) return 0;
    const double *pair = near->pair;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t j = 0; j <= i; j++)
            matrix[i * count + j] = *pair++;
        matrix[i * count + i] += surface->variance[near->index[i]];
        right[i] = near->covariance[i];
    }
    gsl_matrix_view m = gsl_matrix_view_array(matrix, (size_t)count, (size_t)count);
    gsl_vector_view v = gsl_vector_view_array(right, (size_t)count);
    gsl_linalg_cholesky_decomp1(&m.matrix);
    gsl_linalg_cholesky_svx(&m.matrix, &v.vector);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += right[i] * surface->value[near->index[i]];
    return sum;
}

static void settle(struct surface *surface, const struct neighbours *near, const bool *left_out,
                   double *residual, double *scratch) {
    for (int64_t i = 0; i < surface->point_count; i++)
        surface->variance[i] = surface->noise.variance;
    for (int round = 0; round < ROUND_COUNT; round++) {
        int64_t count = 0;
        for (int64_t i = 0; i < surface->point_count; i++) {
            if (left_out && left_out[i]) continue;
            residual[i] = predict(surface, &near[i]) - surface->value[i];
            scratch[count++] = fabs(residual[i]);
        }
        const double scale =
            fmax(1.4826 * fit_quantile(scratch, count, 0.5), 1e-6) * surface->noise.outlier;
        for (int64_t i = 0; i < surface->point_count; i++) {
            if (left_out && left_out[i]) continue;
            const double far = residual[i] / scale;
            surface->variance[i] = surface->noise.variance * (1 + far * far);
        }
    }
}

struct workspace {
    struct crowd *crowd;
    struct neighbours *near;
    double *kept; /* covariances of pairs, NULL where there are too many */
    bool *left_out;
    double *residual, *scratch;
    double *best; /* what the best noise so far predicts */
};

/* The neighbours of each point among those not left out. */
static void gather_neighbours(const struct surface *surface, const struct workspace *work,
                              const bool *left_out) {
    for (int64_t i = 0; i < surface->point_count; i++) {
        const struct crowd *crowd = &work->crowd[i];
        struct crowd left;
        pick_neighbours(surface, crowd, left_out, work->kept, &work->near[i]);
        if (work->near[i].count == SURFACE_NEIGHBOUR_MAX || crowd->count < CROWD_MAX) continue;
        left.count = 0;
        find_crowd(surface, surface->at[i], left_out, i, SURFACE_NEIGHBOUR_MAX, &left);
        pick_neighbours(surface, &left, NULL, work->kept, &work->near[i]);
    }
}

static void leave_out(struct surface *surface, const struct workspace *work, int quarter) {
    for (int64_t i = 0; i < surface->point_count; i++)
        work->left_out[i] = quarter_of(surface->at[i], surface->kernel->feature_count) == quarter;
    gather_neighbours(surface, work, work->left_out);
}

/* Predicts the points left out from the others; returns the median of |error|. */
static double predict_left_out(struct surface *surface, const struct workspace *work) {
    int64_t count = 0;
    settle(surface, work->near, work->left_out, work->residual, work->scratch);
    for (int64_t i = 0; i < surface->point_count; i++) {
        if (!work->left_out[i]) continue;
        surface->held_back_value[i] = predict(surface, &work->near[i]);
        work->scratch[count++] = fabs(surface->held_back_value[i] - surface->value[i]);
    }
    return fit_quantile(work->scratch, count, 0.5);
}

/* The noise is chosen on the first quarter; every quarter is then predicted with it. */
static void hold_back(struct surface *surface, const struct workspace *work) {
    const size_t size = (size_t)surface->point_count * sizeof *work->best;
    struct surface_noise best = noises[0];
    double best_median = INFINITY;
    leave_out(surface, work, 0);
    for (int n = 0; n < NOISE_COUNT; n++) {
        surface->noise = noises[n];
        const double median = predict_left_out(surface, work);
        if (median >= best_median) continue;
        best_median = median;
        best = noises[n];
        memcpy(work->best, surface->held_back_value, size);
    }
    memcpy(surface->held_back_value, work->best, size);
    surface->noise = best;
    for (int quarter = 1; quarter < QUARTER_COUNT; quarter++) {
        leave_out(surface, work, quarter);
        predict_left_out(surface, work);
    }
}

struct surface surface_create(struct arena *arena, const struct surface_kernel *kernel,
                              int64_t count, const double (*at)[SURFACE_FEATURE_MAX],
                              const double *value) {
    struct surface surface = { .kernel = kernel, .point_count = count, .at = at, .value = value };
    surface.variance = arena_array(arena, double, count + 1);
    surface.asked = arena_alloc(arena, sizeof *surface.asked);
    surface.held_back_value = arena_array(arena, double, count + 1);
    const size_t pair_count = (size_t)(count * (count + 1) / 2 + 1);
    struct workspace work = {
        .crowd = memory_alloc((size_t)(count + 1) * sizeof *work.crowd),
        .near = memory_alloc((size_t)(count + 1) * sizeof *work.near),
        .kept = count <= KEPT_POINT_MAX ? calloc(pair_count, sizeof *work.kept) : NULL,
        .left_out = arena_array(arena, bool, count + 1),
        .residual = arena_array(arena, double, count + 1),
        .scratch = arena_array(arena, double, count + 1),
        .best = arena_array(arena, double, count + 1),
    };
    struct crowd crowd = { 0 };
    for (int64_t i = 0; i < count; i++) {
        find_crowd(&surface, at[i], NULL, i, CROWD_MAX, &crowd);
        work.crowd[i] = crowd;
    }
    hold_back(&surface, &work);
    gather_neighbours(&surface, &work, NULL);
    settle(&surface, work.near, NULL, work.residual, work.scratch);
    free(work.kept);
    free(work.near);
    free(work.crowd);
    return surface;
}

double surface_at(const struct surface *surface, const double *at) {
    struct neighbours near;
    find_crowd(surface, at, NULL, -1, SURFACE_NEIGHBOUR_MAX, surface->asked);
    pick_neighbours(surface, surface->asked, NULL, NULL, &near);
    return predict(surface, &near);
}
