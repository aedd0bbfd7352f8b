/* fit_matmul.h - from measured matmuls to the curve of costmodel/efficiency.h.
 *
 *     const struct matmul_conditions on = { 312e12, 2039e9, PRECISION_BF16, PASS_FORWARD, 108 };
 *     struct matmul_fit fit;
 *     if (!fit_matmul(arena, rows.rows, rows.count, &on, &fit, err)) return false;
 */
#ifndef BALLAST_CALIBRATE_FIT_FIT_MATMUL_H
#define BALLAST_CALIBRATE_FIT_FIT_MATMUL_H

#include "calibrate/fit/measurements.h"
#include "calibrate/fit/robust_fit.h"
#include "costmodel/efficiency.h"

enum matmul_coefficient {
    MATMUL_LAUNCH_S,
    MATMUL_EFFICIENCY,
    MATMUL_K_HALF,
    MATMUL_MEMORY_FRACTION,
    MATMUL_POWER_SLOPE,
    MATMUL_WAVE_EXPONENT,
    MATMUL_CAST_FRACTION,
    MATMUL_COEFFICIENT_COUNT
};

struct matmul_fit {
    double coefficient[MATMUL_COEFFICIENT_COUNT];
    double relative_sigma[MATMUL_COEFFICIENT_COUNT]; /* standard error over the coefficient */
    double power_onset_s, power_floor, wave_slots;
    int64_t axis_count[3]; /* m, n, k */
    int64_t axis[3][EFFICIENCY_AXIS_MAX];
    double *log_ratio;             /* [m][n][k], of the arena; NULL if the rows are too few */
    struct error_summary form;     /* the closed form alone, on its own rows */
    struct error_summary held_out; /* with the table: each quarter of the shapes from the others */
};

/* What the rows have in common. */
struct matmul_conditions {
    double peak_flop_per_s, hbm_bytes_per_s;
    enum precision precision;
    enum operator_pass pass;
    double sm_count; /* 0: not known, no waves of tiles */
};

/* The closed form alone, without the table. */
struct matmul_curve fit_matmul_form(const struct matmul_fit *fit);

/* Rows of several sources are pooled: where they disagree the curve runs between them. Rows must
 * have positive sizes and times. */
bool fit_matmul(struct arena *arena, const struct gemm_row *rows, int64_t count,
                const struct matmul_conditions *conditions, struct matmul_fit *out,
                struct error *err);

#endif
