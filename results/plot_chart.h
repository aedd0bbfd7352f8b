/* plot_chart.h - figures of papers beside the simulation: bars of two kinds, and lines over
 * iterations.
 *
 *     struct plot_bar bars[] = { { "DP 8, TP 2, PP 4", 0.307, 0.297 },
 *                                { "DP 4, TP 2, PP 8", 0.313, NAN } };
 *     plot_bars("figure13.png", "VLM-M on 64 H800", "MFU", bars, 2, err);
 */
#ifndef BALLAST_RESULTS_PLOT_CHART_H
#define BALLAST_RESULTS_PLOT_CHART_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/error.h"

struct plot_bar {
    const char *label;
    double simulated;
    double printed; /* NaN: the paper prints none */
};
bool plot_bars(const char *path, const char *title, const char *axis, const struct plot_bar *bars,
               int64_t count, struct error *err);

/* values: one a point; points are numbered from 1. */
struct plot_line {
    const char *label;
    const double *values;
};
struct plot_lines {
    const char *title, *x_axis, *axis;
    const struct plot_line *lines;
    int64_t line_count, point_count;
    const double *right; /* on the right axis, dashed; NULL: none */
    const char *right_axis;
};
bool plot_lines(const char *path, const struct plot_lines *lines, struct error *err);

#endif
