/* plot_validation.h - predicted over measured step times, drawn by gnuplot as plot.h says.
 *
 *     plot_validation("validation.png", points, count, err);
 */
#ifndef BALLAST_RESULTS_PLOT_VALIDATION_H
#define BALLAST_RESULTS_PLOT_VALIDATION_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/error.h"

/* Predicted over measured step times against the measured ones, a mark and colour a source; hollow
 * where a factor was fitted on the run; of more than 18 sources the others share one mark, whose
 * name says how many they are. Lines at equality and 10 % either side. */
struct plot_validation_point {
    const char *source;
    double measured_s, predicted_s;
    bool fitted;
};
bool plot_validation(const char *path, const struct plot_validation_point *points, int64_t count,
                     struct error *err);

#endif
