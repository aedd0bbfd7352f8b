/* plot_scatter.h - one number against another on logarithmic axes, with the diagonal of agreement.
 *
 *     plot_scatter("papers.svg", &scatter, err);
 *
 * Format and rules as in plot.h.
 */
#ifndef BALLAST_RESULTS_PLOT_SCATTER_H
#define BALLAST_RESULTS_PLOT_SCATTER_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/band.h"
#include "sim/base/error.h"

struct plot_point {
    double x, y;
    struct band band; /* of y */
    int64_t group;    /* index in groups: colour and symbol */
};

struct plot_scatter {
    const char *title, *x_label, *y_label;
    const struct plot_point *points; /* positive; others are left out */
    int64_t point_count;
    const char *const *groups;
    int64_t group_count;
    double corridor_fraction; /* drawn around the diagonal; 0: none */
    int64_t
        pale_count; /* the first of the groups: small, grey, without bands and behind the others */
};
bool plot_scatter(const char *path, const struct plot_scatter *scatter, struct error *err);

#endif
