/* fit_matmul.c - robust fit of the closed form, then the table of what measurements add.
 *
 * The closed form is that of costmodel/efficiency.c, evaluated by the same function, so a profile
 * prices exactly what was fitted. Residuals are ln(predicted / measured): a relative error weighs
 * the same on a 10 us kernel as on a 10 ms one.
 * The table holds the mean residual of each measured shape, smoothed and carried to the cells
 * between by kriging in (log2 m, log2 n, log2 k). Length scale, noise and reach were chosen by
 * the leave-one-out error of the measured GPUs, which is flat around them.
 */
#include "calibrate/fit/fit_matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "costmodel/efficiency.h"

/* Rows this long feel the power limit; the slope says how much. */
#define POWER_ONSET_S 1e-3
#define POWER_FLOOR   0.8
#define LENGTH_SCALE  4.0 /* octaves at which shapes no longer resemble each other */
#define NOISE         0.05
#define REACH         1.0
enum { AXIS_MAX = 32, AXIS_ROWS_MIN = 8 };

struct form_context {
    const struct gemm_row *rows;
    double peak_flop_per_s, hbm_bytes_per_s;
};

static struct matmul_curve curve_of(const double *c) {
    return (struct matmul_curve){
        .launch_s = c[MATMUL_LAUNCH_S],
        .efficiency = c[MATMUL_EFFICIENCY],
        .k_half = c[MATMUL_K_HALF],
        .memory_fraction = c[MATMUL_MEMORY_FRACTION],
        .power_slope = c[MATMUL_POWER_SLOPE],
        .power_onset_s = POWER_ONSET_S,
        .power_floor = POWER_FLOOR,
    };
}

static double log_error(const struct form_context *context, const double *coefficient, int64_t i) {
    const struct gemm_row *row = &context->rows[i];
    const struct matmul_curve curve = curve_of(coefficient);
    const struct operator_work work =
        operator_matmul("", PASS_FORWARD, PRECISION_BF16, row->m, row->n, row->k);
    struct kernel_terms terms;
    const double seconds =
        matmul_kernel_s(&curve, context->peak_flop_per_s, context->hbm_bytes_per_s, work.flop,
                        work.memory_bytes, row->m, row->n, row->k, &terms);
    return log(seconds * 1e6 / row->time_us);
}

static double form_residual(const void *context, const double *parameters, int64_t i) {
    double coefficient[MATMUL_COEFFICIENT_COUNT];
    for (int c = 0; c < MATMUL_COEFFICIENT_COUNT; c++)
        coefficient[c] = exp(parameters[c]);
    return log_error(context, coefficient, i);
}

static bool fit_form(const struct form_context *context, int64_t count, struct matmul_fit *out,
                     struct error *err) {
    double parameters[MATMUL_COEFFICIENT_COUNT] = { [MATMUL_LAUNCH_S] = log(4e-6),
                                                    [MATMUL_EFFICIENCY] = log(0.8),
                                                    [MATMUL_K_HALF] = log(100),
                                                    [MATMUL_MEMORY_FRACTION] = log(0.8),
                                                    [MATMUL_POWER_SLOPE] = log(0.02) };
    struct robust_fit fit = { .parameter_count = MATMUL_COEFFICIENT_COUNT,
                              .point_count = count,
                              .residual = form_residual,
                              .context = context,
                              .pull = 0.005 };
    if (!robust_fit_run(&fit, parameters, err)) return false;
    for (int c = 0; c < MATMUL_COEFFICIENT_COUNT; c++) {
        out->coefficient[c] = exp(parameters[c]);
        out->relative_sigma[c] = sqrt(fit.covariance[c][c]);
    }
    memcpy(out->covariance, fit.covariance, sizeof out->covariance);
    out->power_onset_s = POWER_ONSET_S;
    out->power_floor = POWER_FLOOR;
    return true;
}

/* The sizes that enough rows have, ascending. */
static void find_axis(const struct gemm_row *rows, int64_t count, int axis,
                      struct matmul_fit *out) {
    int64_t sizes[512], uses[512], size_count = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t size = axis == 0 ? rows[i].m : axis == 1 ? rows[i].n : rows[i].k;
        int64_t at = 0;
        while (at < size_count && sizes[at] < size)
            at++;
        if (at == size_count || sizes[at] != size) {
            if (size_count == 512) continue;
            memmove(&sizes[at + 1], &sizes[at], (size_t)(size_count - at) * sizeof sizes[0]);
            memmove(&uses[at + 1], &uses[at], (size_t)(size_count - at) * sizeof uses[0]);
            sizes[at] = size;
            uses[at] = 0;
            size_count++;
        }
        uses[at]++;
    }
    out->axis_count[axis] = 0;
    for (int64_t i = 0; i < size_count; i++)
        if (uses[i] >= AXIS_ROWS_MIN && out->axis_count[axis] < AXIS_MAX)
            out->axis[axis][out->axis_count[axis]++] = sizes[i];
}

static int compare_shapes(const void *a, const void *b) {
    const struct gemm_row *x = a, *y = b;
    if (x->m != y->m) return x->m < y->m ? -1 : 1;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    if (x->k != y->k) return x->k < y->k ? -1 : 1;
    return x->time_us < y->time_us ? -1 : x->time_us > y->time_us;
}

static void place(const struct gemm_row *row, double *at) {
    at[0] = log2((double)row->m) / LENGTH_SCALE;
    at[1] = log2((double)row->n) / LENGTH_SCALE;
    at[2] = log2((double)row->k) / LENGTH_SCALE;
}

bool fit_matmul(struct arena *arena, const struct gemm_row *rows, int64_t count,
                double peak_flop_per_s, double hbm_bytes_per_s, struct matmul_fit *out,
                struct error *err) {
    memset(out, 0, sizeof *out);
    struct gemm_row *sorted = arena_array(arena, struct gemm_row, count + 1);
    memcpy(sorted, rows, (size_t)count * sizeof *rows);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_shapes);
    const struct form_context context = { sorted, peak_flop_per_s, hbm_bytes_per_s };
    if (!fit_form(&context, count, out, err)) return false;

    /* One point for each shape: the mean of its rows. */
    double(*at)[FIT_DIMENSION_MAX] = arena_alloc(arena, (size_t)count * sizeof *at);
    double *value = arena_array(arena, double, count), *error = arena_array(arena, double, count);
    int64_t *point_of = arena_array(arena, int64_t, count);
    int64_t point_count = 0, same = 0;
    for (int64_t i = 0; i < count; i++) {
        const double residual = -log_error(&context, out->coefficient, i);
        error[i] = -residual;
        place(&sorted[i], at[point_count]);
        const bool again = point_count > 0 && sorted[i].m == sorted[i - 1].m &&
                           sorted[i].n == sorted[i - 1].n && sorted[i].k == sorted[i - 1].k;
        same = again ? same + 1 : 0;
        if (!again) point_count++;
        point_of[i] = point_count - 1;
        double *mean = &value[point_count - 1];
        *mean += (residual - *mean) / (double)(same + 1);
    }
    const struct scattered field = { 3,     point_count, (const double(*)[FIT_DIMENSION_MAX])at,
                                     value, NOISE,       REACH };
    double *held_out = arena_array(arena, double, count);
    double prediction = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || point_of[i] != point_of[i - 1])
            prediction = scattered_at(&field, at[point_of[i]], point_of[i]);
        held_out[i] = error[i] + prediction;
    }
    out->form = error_summary_of(error, count);
    out->held_out = error_summary_of(held_out, count);

    int64_t cell_count = 1;
    for (int a = 0; a < 3; a++) {
        find_axis(sorted, count, a, out);
        cell_count *= out->axis_count[a];
    }
    double *cell = out->log_ratio = arena_array(arena, double, cell_count);
    for (int64_t m = 0; m < out->axis_count[0]; m++)
        for (int64_t n = 0; n < out->axis_count[1]; n++)
            for (int64_t k = 0; k < out->axis_count[2]; k++) {
                const struct gemm_row shape = { .m = out->axis[0][m],
                                                .n = out->axis[1][n],
                                                .k = out->axis[2][k] };
                double where[FIT_DIMENSION_MAX];
                place(&shape, where);
                *cell++ = scattered_at(&field, where, -1);
            }
    return true;
}
