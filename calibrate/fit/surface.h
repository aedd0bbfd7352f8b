/* surface.h - what scattered measurements add to a closed form, carried to shapes between them.
 *
 * Kriging from the nearest points with a sum of exponential covariances, made robust: a point that
 * its neighbours contradict gets more noise, so a run that was throttled does not pull the shapes
 * around it.
 *
 *     struct surface surface = surface_create(arena, &kernel, count, at, value);
 *     double ratio = surface_at(&surface, where);
 */
#ifndef BALLAST_CALIBRATE_FIT_SURFACE_H
#define BALLAST_CALIBRATE_FIT_SURFACE_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/arena.h"

enum { SURFACE_FEATURE_MAX = 4, SURFACE_PART_MAX = 3, SURFACE_NEIGHBOUR_MAX = 40 };

struct surface_kernel {
    int feature_count, part_count;
    /* Covariance of two points: the sum over parts of weight exp(- sum over features of
     * |difference| / scale). A scale of 0 ignores the feature. */
    struct surface_part {
        double weight, scale[SURFACE_FEATURE_MAX];
    } parts[SURFACE_PART_MAX];
};

/* How much a single measurement is trusted. */
struct surface_noise {
    double variance; /* over that of the surface */
    double outlier;  /* a residual of so many robust deviations doubles the variance */
};

struct surface {
    const struct surface_kernel *kernel;
    int64_t point_count;
    const double (*at)[SURFACE_FEATURE_MAX];
    const double *value;
    double *variance;           /* of each point */
    struct surface_noise noise; /* the one among a few that predicted held-back points best */
    /* Each point as the other quarters predict it; quarters are drawn by a hash of the place. */
    double *held_back_value;
    struct crowd *asked; /* the points around the place that was asked for last */
};

/* at and value are borrowed. Not to be asked by two threads at once; places beside each other in
 * turn are found faster. */
struct surface surface_create(struct arena *arena, const struct surface_kernel *kernel,
                              int64_t count, const double (*at)[SURFACE_FEATURE_MAX],
                              const double *value);
double surface_at(const struct surface *surface, const double *at);

#endif
