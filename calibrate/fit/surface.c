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
#include <gsl/gsl_linalg.h>
#include "calibrate/fit/robust_fit.h"

enum {
    ROUND_COUNT = 3,
    QUARTER_COUNT = 4,
    PAIR_MAX = SURFACE_NEIGHBOUR_MAX * (SURFACE_NEIGHBOUR_MAX + 1) / 2
};

static const struct surface_noise noises[] = { { 0.02, 2 }, { 0.06, 1.4 }, { 0.25, 0.7 } };
enum { NOISE_COUNT = sizeof noises / sizeof noises[0] };

struct neighbours {
    int64_t count;
    int32_t index[SURFACE_NEIGHBOUR_MAX];
    double covariance[SURFACE_NEIGHBOUR_MAX]; /* with the place itself */
    double pair[PAIR_MAX];                    /* among each other, row by row up to the diagonal */
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

/* The points most alike to `at`, kept sorted by insertion: ties keep the order of the points. */
static void find_neighbours(const struct surface *surface, const double *at, const bool *left_out,
                            int64_t without, struct neighbours *near) {
    const struct surface_kernel *kernel = surface->kernel;
    double total = 0, log_least = -INFINITY;
    for (int p = 0; p < kernel->part_count; p++)
        total += kernel->parts[p].weight;
    near->count = 0;
    for (int64_t i = 0; i < surface->point_count; i++) {
        if (i == without || (left_out && left_out[i])) continue;
        if (!may_exceed(kernel, at, surface->at[i], log_least)) continue;
        const double alike = covariance(kernel, at, surface->at[i]);
        const bool full = near->count == SURFACE_NEIGHBOUR_MAX;
        if (full && alike <= near->covariance[near->count - 1]) continue;
        int64_t slot = full ? near->count - 1 : near->count++;
        for (; slot > 0 && near->covariance[slot - 1] < alike; slot--) {
            near->covariance[slot] = near->covariance[slot - 1];
            near->index[slot] = near->index[slot - 1];
        }
        near->covariance[slot] = alike;
        near->index[slot] = (int32_t)i;
        if (near->count == SURFACE_NEIGHBOUR_MAX)
            log_least = log(near->covariance[near->count - 1] / total);
    }
    double *pair = near->pair;
    for (int64_t i = 0; i < near->count; i++)
        for (int64_t j = 0; j <= i; j++)
            *pair++ = covariance(kernel, surface->at[near->index[i]], surface->at[near->index[j]]);
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
    struct neighbours *near;
    bool *left_out;
    double *residual, *scratch;
};

static void leave_out(struct surface *surface, const struct workspace *work, int quarter) {
    for (int64_t i = 0; i < surface->point_count; i++)
        work->left_out[i] = quarter_of(surface->at[i], surface->kernel->feature_count) == quarter;
    for (int64_t i = 0; i < surface->point_count; i++)
        find_neighbours(surface, surface->at[i], work->left_out, i, &work->near[i]);
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
    struct surface_noise best = noises[0];
    double best_median = INFINITY;
    for (int quarter = 0; quarter < QUARTER_COUNT; quarter++) {
        leave_out(surface, work, quarter);
        for (int n = 0; n < NOISE_COUNT && quarter == 0; n++) {
            surface->noise = noises[n];
            const double median = predict_left_out(surface, work);
            if (median >= best_median) continue;
            best_median = median;
            best = noises[n];
        }
        surface->noise = best;
        predict_left_out(surface, work);
    }
}

struct surface surface_create(struct arena *arena, const struct surface_kernel *kernel,
                              int64_t count, const double (*at)[SURFACE_FEATURE_MAX],
                              const double *value) {
    struct surface surface = { .kernel = kernel, .point_count = count, .at = at, .value = value };
    surface.variance = arena_array(arena, double, count + 1);
    surface.held_back_value = arena_array(arena, double, count + 1);
    struct workspace work = {
        .near = memory_alloc((size_t)(count + 1) * sizeof *work.near),
        .left_out = arena_array(arena, bool, count + 1),
        .residual = arena_array(arena, double, count + 1),
        .scratch = arena_array(arena, double, count + 1),
    };
    hold_back(&surface, &work);
    for (int64_t i = 0; i < count; i++)
        find_neighbours(&surface, at[i], NULL, i, &work.near[i]);
    settle(&surface, work.near, NULL, work.residual, work.scratch);
    free(work.near);
    return surface;
}

double surface_at(const struct surface *surface, const double *at) {
    struct neighbours near;
    find_neighbours(surface, at, NULL, -1, &near);
    return predict(surface, &near);
}
