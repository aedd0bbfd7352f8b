/* fit_matmul.h - from measured matmuls to the curve of costmodel/efficiency.h.
 *
 *     struct matmul_fit fit;
 *     if (!fit_matmul(arena, rows.rows, rows.count, peak, bandwidth, &fit, err)) return false;
 */
#ifndef BALLAST_CALIBRATE_FIT_FIT_MATMUL_H
#define BALLAST_CALIBRATE_FIT_FIT_MATMUL_H

#include "calibrate/fit/measurements.h"
#include "calibrate/fit/robust_fit.h"

enum matmul_coefficient {
    MATMUL_LAUNCH_S,
    MATMUL_EFFICIENCY,
    MATMUL_K_HALF,
    MATMUL_MEMORY_FRACTION,
    MATMUL_POWER_SLOPE,
    MATMUL_COEFFICIENT_COUNT
};

struct matmul_fit {
    double coefficient[MATMUL_COEFFICIENT_COUNT];
    double relative_sigma[MATMUL_COEFFICIENT_COUNT]; /* standard error over the coefficient */
    double covariance[FIT_PARAMETER_MAX][FIT_PARAMETER_MAX]; /* of the ln coefficients */
    double power_onset_s, power_floor;
    int64_t axis_count[3]; /* m, n, k */
    int64_t axis[3][32];
    double *log_ratio;             /* [m][n][k], of the arena */
    struct error_summary form;     /* the closed form alone, on its own rows */
    struct error_summary held_out; /* with the table, each shape predicted without itself */
};

/* Rows of several sources are pooled: where they disagree the curve runs between them. Rows must
 * have positive sizes and times. */
bool fit_matmul(struct arena *arena, const struct gemm_row *rows, int64_t count,
                double peak_flop_per_s, double hbm_bytes_per_s, struct matmul_fit *out,
                struct error *err);

#endif
