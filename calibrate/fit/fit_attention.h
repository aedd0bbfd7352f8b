/* fit_attention.h - from measured fused attention to the curves of costmodel/efficiency.h. */
#ifndef BALLAST_CALIBRATE_FIT_FIT_ATTENTION_H
#define BALLAST_CALIBRATE_FIT_FIT_ATTENTION_H

#include "calibrate/fit/measurements.h"
#include "calibrate/fit/robust_fit.h"
#include "costmodel/efficiency.h"

enum attention_coefficient {
    ATTENTION_EFFICIENCY,
    ATTENTION_LENGTH_HALF,
    /* of few rows, which no table over the number of heads can follow; else 0 */
    ATTENTION_ROWS_HALF,
    ATTENTION_POWER_SLOPE,
    ATTENTION_COEFFICIENT_COUNT
};

/* Not fitted: the shortest measured kernels also write a key-value cache, which training does not,
 * and a fit would charge that to the launch. As a matmul's. */
#define ATTENTION_LAUNCH_S 6e-6

struct attention_fit {
    double coefficient[ATTENTION_COEFFICIENT_COUNT];
    double relative_sigma[ATTENTION_COEFFICIENT_COUNT];
    double covariance[FIT_PARAMETER_MAX][FIT_PARAMETER_MAX]; /* of the ln coefficients */
    double tile_rows, tile_slots; /* 0 rows: waves of tiles do not help */
    int64_t axis_count[3];        /* length, samples x query heads, query heads of one key head */
    double axis[3][EFFICIENCY_AXIS_MAX];
    /* [length][query_heads][group], of the arena; NULL if the points are too few */
    double *log_ratio;
    struct error_summary form, held_out;
};

struct attention_conditions {
    double peak_flop_per_s, hbm_bytes_per_s;
    double sm_count; /* tiles that run at once */
};

/* Forward rows of one GPU, head size and mask. */
bool fit_attention(struct arena *arena, const struct attention_row *rows, int64_t count,
                   const struct attention_conditions *conditions, struct attention_fit *out,
                   struct error *err);

/* Backward over forward efficiency = factor / (1 + length_half / length), from pairs of rows that
 * differ in their direction only. Head size 128 of Ampere and Hopper. */
struct backward_fit {
    double factor, length_half, rows_half, power_slope;
    struct error_summary residual;
};
bool fit_attention_backward(struct arena *arena, const struct attention_row *rows, int64_t count,
                            struct backward_fit *out, struct error *err);
/* The same from backward rows alone, against the forward curves of the same kernels, and with
 * rows_half and power_slope. Rows of head sizes and masks that no curve is of are passed over. */
bool fit_attention_backward_rows(struct arena *arena, const struct attention_row *rows,
                                 int64_t count, const struct attention_curves *forward,
                                 const struct attention_conditions *conditions,
                                 struct backward_fit *out, struct error *err);

#endif
