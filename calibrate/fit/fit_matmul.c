/* fit_matmul.c - robust fit of the closed form, then the table of what measurements add.
 *
 * The closed form is that of costmodel/efficiency.c, evaluated by the same function, so a profile
 * prices exactly what was fitted. Residuals are ln(predicted / measured): a relative error weighs
 * the same on a 10 us kernel as on a 10 ms one.
 * The table carries the residuals of the measured shapes to all cells of a grid (surface.h). Three
 * things make shapes alike: all three sizes near each other; m and n nearly equal, so that the same
 * tiles cover the result, with k far apart; and m n nearly equal, so that as many tiles fill the
 * waves. The scales were chosen by cross-validation on the measured GPUs, which is flat around
 * them.
 */
#include "calibrate/fit/fit_matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "calibrate/fit/surface.h"

/* Rows this long feel the power limit; the slope says how much. */
#define POWER_ONSET_S 1e-3
#define POWER_FLOOR   0.8
/* Of the median error that a term must leave at most to be kept: judged, in the gap between the 0.4
 * to 0.75 of those whose cause is known and the 0.91 to 1.01 of waves where there are none. */
#define TERM_GAIN 0.85
enum { AXIS_ROWS_MIN = 8, TABLE_ROWS_MIN = 24 };
#define AXIS_COVER 0.9 /* rows that must stand on the axes, else they are laid in half octaves */

/* log2 of m, n, k, m n. */
static const struct surface_kernel kernel = {
    4, 3, { { 0.4, { 4, 4, 4 } }, { 0.4, { 0.5, 0.5, 6 } }, { 0.3, { 6, 6, 3, 0.1 } } }
};

struct form_context {
    const struct gemm_row *rows;
    const struct operator_work *work; /* of each row */
    const struct matmul_conditions *on;
    int which[MATMUL_COEFFICIENT_COUNT]; /* coefficients that are fitted; the others are 0 */
    int coefficient_count;
};

static struct matmul_curve curve_of(const double *c, double sm_count) {
    return (struct matmul_curve){
        .launch_s = c[MATMUL_LAUNCH_S],
        .efficiency = c[MATMUL_EFFICIENCY],
        .k_half = c[MATMUL_K_HALF],
        .memory_fraction = c[MATMUL_MEMORY_FRACTION],
        .power_slope = c[MATMUL_POWER_SLOPE],
        .power_onset_s = POWER_ONSET_S,
        .power_floor = POWER_FLOOR,
        .wave_exponent = c[MATMUL_WAVE_EXPONENT],
        .wave_slots = sm_count,
        .cast_fraction = c[MATMUL_CAST_FRACTION],
    };
}

struct matmul_curve fit_matmul_form(const struct matmul_fit *fit) {
    return curve_of(fit->coefficient, fit->wave_slots);
}

static double log_error(const struct form_context *context, const double *coefficient, int64_t i) {
    const struct gemm_row *row = &context->rows[i];
    const struct matmul_curve curve = curve_of(coefficient, context->on->sm_count);
    const struct operator_work *work = &context->work[i];
    struct kernel_terms terms;
    const double seconds =
        matmul_kernel_s(&curve, context->on->peak_flop_per_s, context->on->hbm_bytes_per_s,
                        work->flop, work->memory_bytes, row->m, row->n, row->k, &terms);
    return log(seconds * 1e6 / row->time_us);
}

static double form_residual(const void *context, const double *parameters, int64_t i) {
    const struct form_context *form = context;
    double coefficient[MATMUL_COEFFICIENT_COUNT] = { 0 };
    for (int c = 0; c < form->coefficient_count; c++)
        coefficient[form->which[c]] = exp(parameters[c]);
    return log_error(form, coefficient, i);
}

/* The coefficients of context->which; the others stay 0. */
static bool fit_coefficients(const struct form_context *context, int64_t count,
                             struct matmul_fit *out, struct error *err) {
    static const double starts[MATMUL_COEFFICIENT_COUNT] = {
        [MATMUL_LAUNCH_S] = 4e-6,       [MATMUL_EFFICIENCY] = 0.8,   [MATMUL_K_HALF] = 100,
        [MATMUL_MEMORY_FRACTION] = 0.8, [MATMUL_POWER_SLOPE] = 0.02, [MATMUL_WAVE_EXPONENT] = 0.3,
        [MATMUL_CAST_FRACTION] = 0.4
    };
    double parameters[MATMUL_COEFFICIENT_COUNT];
    for (int c = 0; c < context->coefficient_count; c++)
        parameters[c] = log(starts[context->which[c]]);
    struct robust_fit fit = { .parameter_count = context->coefficient_count,
                              .point_count = count,
                              .residual = form_residual,
                              .context = context,
                              .pull = 0.005 };
    if (!robust_fit_run(&fit, parameters, err)) return false;
    memset(out->coefficient, 0, sizeof out->coefficient);
    for (int c = 0; c < context->coefficient_count; c++) {
        out->coefficient[context->which[c]] = exp(parameters[c]);
        out->relative_sigma[context->which[c]] = sqrt(fit.covariance[c][c]);
    }
    return true;
}

static double form_median(const struct form_context *context, const struct matmul_fit *fit,
                          int64_t count, double *scratch) {
    for (int64_t i = 0; i < count; i++)
        scratch[i] = fabs(log_error(context, fit->coefficient, i));
    return fit_quantile(scratch, count, 0.5);
}

/* One coefficient more, where the rows show what it stands for. */
static void try_coefficient(struct form_context *context, int64_t count, int coefficient,
                            double *scratch, struct matmul_fit *fit) {
    struct matmul_fit more = *fit;
    context->which[context->coefficient_count++] = coefficient;
    if (fit_coefficients(context, count, &more, NULL) &&
        form_median(context, &more, count, scratch) <
            TERM_GAIN * form_median(context, fit, count, scratch))
        *fit = more;
    else
        context->coefficient_count--;
}

/* With waves of tiles where the rows show them: A100's do (0.6 to 0.75 of the median error is
 * left), those of Hopper, Ada and Blackwell hardly (0.91 to 1.01). With the quantisation of the
 * operand where fp8 rows show it: vLLM's are timed with it (0.3 to 0.4 is left). */
static bool fit_form(struct arena *arena, struct form_context *context, int64_t count,
                     struct matmul_fit *out, struct error *err) {
    double *scratch = arena_array(arena, double, count + 1);
    context->coefficient_count = MATMUL_WAVE_EXPONENT;
    for (int c = 0; c < MATMUL_WAVE_EXPONENT; c++)
        context->which[c] = c;
    if (!fit_coefficients(context, count, out, err)) return false;
    if (context->on->precision == PRECISION_FP8)
        try_coefficient(context, count, MATMUL_CAST_FRACTION, scratch, out);
    if (context->on->sm_count > 0)
        try_coefficient(context, count, MATMUL_WAVE_EXPONENT, scratch, out);
    out->power_onset_s = POWER_ONSET_S;
    out->power_floor = POWER_FLOOR;
    out->wave_slots = out->coefficient[MATMUL_WAVE_EXPONENT] > 0 ? context->on->sm_count : 0;
    return true;
}

static int64_t size_of(const struct gemm_row *row, int axis) {
    return axis == 0 ? row->m : axis == 1 ? row->n : row->k;
}

static int compare_sizes(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Whole and half octaves between the sizes m or n: where waves are seen, the surface knows more
 * of them than a line does, from results of as many tiles. */
static void refine_axis(int64_t *at, int64_t *count) {
    const int64_t most = at[*count - 1];
    int64_t place = 0;
    for (int64_t octave = 2; octave < most; octave *= 2)
        for (int64_t size = octave; size < 2 * octave && size < most; size += octave / 2) {
            while (at[place] < size)
                place++;
            if (place == 0 || at[place] == size || *count == EFFICIENCY_AXIS_MAX) continue;
            memmove(&at[place + 1], &at[place], (size_t)(*count - place) * sizeof *at);
            at[place] = size;
            ++*count;
        }
}

/* The sizes that enough rows have, ascending. Scattered sizes have no such grid: half octaves. */
static void find_axis(struct arena *arena, const struct gemm_row *rows, int64_t count, int axis,
                      struct matmul_fit *out) {
    int64_t *sizes = arena_array(arena, int64_t, count), *at = out->axis[axis];
    int64_t axis_count = 0, covered = 0;
    for (int64_t i = 0; i < count; i++)
        sizes[i] = size_of(&rows[i], axis);
    qsort(sizes, (size_t)count, sizeof *sizes, compare_sizes);
    for (int64_t i = 0, j; i < count; i = j) {
        for (j = i; j < count && sizes[j] == sizes[i]; j++)
            ;
        if (j - i < AXIS_ROWS_MIN || axis_count == EFFICIENCY_AXIS_MAX) continue;
        at[axis_count++] = sizes[i];
        covered += j - i;
    }
    if ((double)covered < AXIS_COVER * (double)count) {
        axis_count = 0;
        const double least = (double)sizes[0], most = (double)sizes[count - 1];
        for (double size = least; axis_count < EFFICIENCY_AXIS_MAX; size *= sqrt(2)) {
            at[axis_count++] = llround(fmin(size, most));
            if (size >= most) break;
        }
    } else if (axis < 2 && out->coefficient[MATMUL_WAVE_EXPONENT] > 0) {
        refine_axis(at, &axis_count);
    }
    out->axis_count[axis] = axis_count;
}

static int compare_shapes(const void *a, const void *b) {
    const struct gemm_row *x = a, *y = b;
    if (x->m != y->m) return x->m < y->m ? -1 : 1;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    if (x->k != y->k) return x->k < y->k ? -1 : 1;
    return x->time_us < y->time_us ? -1 : x->time_us > y->time_us;
}

static void place(int64_t m, int64_t n, int64_t k, double *at) {
    at[0] = log2((double)m);
    at[1] = log2((double)n);
    at[2] = log2((double)k);
    at[3] = at[0] + at[1];
}

static void fill_table(struct arena *arena, const struct surface *surface,
                       const struct gemm_row *rows, int64_t count, struct matmul_fit *out) {
    int64_t cell_count = 1;
    for (int a = 0; a < 3; a++) {
        find_axis(arena, rows, count, a, out);
        cell_count *= out->axis_count[a];
    }
    double *cell = out->log_ratio = arena_array(arena, double, cell_count);
    for (int64_t m = 0; m < out->axis_count[0]; m++)
        for (int64_t n = 0; n < out->axis_count[1]; n++)
            for (int64_t k = 0; k < out->axis_count[2]; k++) {
                double where[SURFACE_FEATURE_MAX];
                place(out->axis[0][m], out->axis[1][n], out->axis[2][k], where);
                *cell++ = surface_at(surface, where);
            }
}

bool fit_matmul(struct arena *arena, const struct gemm_row *rows, int64_t count,
                const struct matmul_conditions *conditions, struct matmul_fit *out,
                struct error *err) {
    memset(out, 0, sizeof *out);
    struct gemm_row *sorted = arena_array(arena, struct gemm_row, count + 1);
    memcpy(sorted, rows, (size_t)count * sizeof *rows);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_shapes);
    struct operator_work *work = arena_array(arena, struct operator_work, count + 1);
    for (int64_t i = 0; i < count; i++)
        work[i] = operator_matmul("", conditions->pass, conditions->precision, sorted[i].m,
                                  sorted[i].n, sorted[i].k);
    struct form_context context = { .rows = sorted, .work = work, .on = conditions };
    if (!fit_form(arena, &context, count, out, err)) return false;

    /* One point for each shape: the mean of its rows. */
    double(*at)[SURFACE_FEATURE_MAX] = arena_alloc(arena, (size_t)count * sizeof *at);
    double *value = arena_array(arena, double, count), *error = arena_array(arena, double, count);
    double *form_error = arena_array(arena, double, count);
    int64_t *point_of = arena_array(arena, int64_t, count);
    int64_t point_count = 0, same = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool again = i > 0 && sorted[i].m == sorted[i - 1].m &&
                           sorted[i].n == sorted[i - 1].n && sorted[i].k == sorted[i - 1].k;
        same = again ? same + 1 : 0;
        if (!again) place(sorted[i].m, sorted[i].n, sorted[i].k, at[point_count++]);
        error[i] = log_error(&context, out->coefficient, i);
        double *mean = &value[point_count - 1];
        *mean += (-error[i] - *mean) / (double)(same + 1);
        point_of[i] = point_count - 1;
        form_error[i] = error[i];
    }
    out->form = error_summary_of(form_error, count);
    out->held_out = out->form;
    if (point_count < TABLE_ROWS_MIN) return true;
    const struct surface surface = surface_create(arena, &kernel, point_count,
                                                  (const double(*)[SURFACE_FEATURE_MAX])at, value);
    for (int64_t i = 0; i < count; i++)
        error[i] += surface.held_back_value[point_of[i]];
    out->held_out = error_summary_of(error, count);
    fill_table(arena, &surface, sorted, count, out);
    return true;
}
