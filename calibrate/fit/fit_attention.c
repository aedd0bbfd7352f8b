/* fit_attention.c - robust fit of e S / (S + S0) and a table over length and number of heads.
 *
 * The measurements pack `batch` sequences of one length, so S is that length. Residuals that depend
 * on how many thread blocks of a length a launch has (batch x query heads), on how well a length
 * fills a tile and on how many query heads share a key head go to the table (surface.h). Batch and
 * heads apart predict held-back kernels no better than their product. Few rows take the dependence
 * on thread blocks from the backward's law, and that on duration from a matmul's.
 */
#include "calibrate/fit/fit_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "calibrate/fit/surface.h"

/* log2 of length, samples x query heads, query heads of one key head. */
static const struct surface_kernel kernel = { 3, 1, { { 0.5, { 4, 4, 4 } } } };
enum { AXIS_ROWS_MIN = 4, SPARSE_ROWS = 100 }; /* each size of few rows is an axis point */
enum { TABLE_ROWS_MIN = 5, WAVE_ROWS_MIN = 100 };

struct form_context {
    const struct attention_row *rows;
    const struct attention_conditions *on;
    double tile_rows;
    int parameter_count;
};

static struct operator_work work_of(const struct attention_row *row) {
    const double tokens = (double)(row->batch * row->seqlen);
    return operator_attention("", strcmp(row->direction, "bwd") ? PASS_FORWARD : PASS_BACKWARD,
                              PRECISION_BF16, tokens, tokens * (double)row->seqlen, row->heads_q,
                              row->heads_kv, row->head_dim_qk, row->causal);
}

static double log_error(const struct form_context *context, const double *coefficient, int64_t i) {
    const struct attention_row *row = &context->rows[i];
    const struct attention_curve curve = { .head_dim = row->head_dim_qk,
                                           .causal = row->causal,
                                           .launch_s = ATTENTION_LAUNCH_S,
                                           .efficiency = coefficient[ATTENTION_EFFICIENCY],
                                           .length_half = coefficient[ATTENTION_LENGTH_HALF],
                                           .rows_half = coefficient[ATTENTION_ROWS_HALF],
                                           .power_slope = coefficient[ATTENTION_POWER_SLOPE],
                                           .tile_rows = context->tile_rows,
                                           .tile_slots = context->on->sm_count };
    const struct attention_curves curves = { .count = 1, .curves = &curve };
    const struct attention_curve *nearest;
    const struct operator_work work = work_of(row);
    struct kernel_terms terms;
    const double seconds =
        attention_kernel_s(&curves, context->on->peak_flop_per_s, context->on->hbm_bytes_per_s,
                           &work, &terms, &nearest);
    return log(seconds * 1e6 / row->time_us);
}

static double form_residual(const void *context, const double *parameters, int64_t i) {
    const struct form_context *form = context;
    double coefficient[ATTENTION_COEFFICIENT_COUNT] = { 0 };
    for (int c = 0; c < form->parameter_count; c++)
        coefficient[c] = exp(parameters[c]);
    return log_error(form, coefficient, i);
}

static double size_of(const struct attention_row *row, int axis) {
    if (axis == 0) return (double)row->seqlen;
    if (axis == 1) return (double)(row->batch * row->heads_q);
    return (double)row->heads_q / (double)row->heads_kv;
}

static int compare_sizes(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The sizes that enough rows have, with the least and the greatest of all. */
static void find_axis(struct arena *arena, const struct attention_row *rows, int64_t count,
                      int axis, struct attention_fit *out) {
    double *sizes = arena_array(arena, double, count);
    for (int64_t i = 0; i < count; i++)
        sizes[i] = size_of(&rows[i], axis);
    qsort(sizes, (size_t)count, sizeof *sizes, compare_sizes);
    out->axis_count[axis] = 0;
    for (int64_t i = 0, j; i < count; i = j) {
        for (j = i; j < count && sizes[j] == sizes[i]; j++)
            ;
        const bool end = i == 0 || j == count;
        const bool room = out->axis_count[axis] < EFFICIENCY_AXIS_MAX;
        if (room && (end || count < SPARSE_ROWS || j - i >= AXIS_ROWS_MIN))
            out->axis[axis][out->axis_count[axis]++] = sizes[i];
    }
}

static void fill_table(struct arena *arena, const struct surface *surface,
                       const struct attention_row *rows, int64_t count, struct attention_fit *out) {
    int64_t cell_count = 1;
    for (int a = 0; a < 3; a++) {
        find_axis(arena, rows, count, a, out);
        cell_count *= out->axis_count[a];
    }
    double *cell = out->log_ratio = arena_array(arena, double, cell_count);
    for (int64_t l = 0; l < out->axis_count[0]; l++)
        for (int64_t q = 0; q < out->axis_count[1]; q++)
            for (int64_t g = 0; g < out->axis_count[2]; g++) {
                const double where[SURFACE_FEATURE_MAX] = { log2(out->axis[0][l]),
                                                            log2(out->axis[1][q]),
                                                            log2(out->axis[2][g]) };
                *cell++ = surface_at(surface, where);
            }
}

static int compare_shapes(const void *a, const void *b) {
    const struct attention_row *x = a, *y = b;
    for (int axis = 0; axis < 3; axis++) {
        const double u = size_of(x, axis), v = size_of(y, axis);
        if (u != v) return u < v ? -1 : 1;
    }
    return x->time_us < y->time_us ? -1 : x->time_us > y->time_us;
}

/* The closed form of many rows is of a GPU with work on all its multiprocessors; how much less a
 * small launch reaches is for the table. */
static bool fills_gpu(const struct attention_row *row) {
    return row->batch * row->heads_q >= 32 && row->seqlen >= 1024;
}

static bool fit_with_tile(struct arena *arena, const struct attention_row *rows, int64_t count,
                          const struct attention_conditions *conditions, double tile_rows,
                          struct attention_fit *out, struct error *err) {
    memset(out, 0, sizeof *out);
    out->tile_rows = tile_rows;
    out->tile_slots = tile_rows > 0 ? conditions->sm_count : 1;
    struct attention_row *sorted = arena_array(arena, struct attention_row, count + 1);
    memcpy(sorted, rows, (size_t)count * sizeof *rows);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_shapes);
    struct attention_row *full = arena_array(arena, struct attention_row, count + 1);
    const bool sparse = count < SPARSE_ROWS && count > ATTENTION_COEFFICIENT_COUNT;
    const int parameter_count = sparse ? ATTENTION_COEFFICIENT_COUNT : ATTENTION_ROWS_HALF;
    int64_t full_count = 0;
    for (int64_t i = 0; i < count; i++)
        if (sparse || fills_gpu(&sorted[i])) full[full_count++] = sorted[i];
    const struct form_context full_context = { full, conditions, tile_rows, parameter_count };
    const struct form_context context = { sorted, conditions, tile_rows, parameter_count };
    double parameters[ATTENTION_COEFFICIENT_COUNT] = {
        [ATTENTION_EFFICIENCY] = log(0.65),
        [ATTENTION_LENGTH_HALF] = log(400),
        [ATTENTION_ROWS_HALF] = log(1000),
        [ATTENTION_POWER_SLOPE] = log(0.02),
    };
    struct robust_fit fit = { .parameter_count = parameter_count,
                              .point_count = full_count,
                              .residual = form_residual,
                              .context = &full_context,
                              .pull = 0.01 };
    if (!robust_fit_run(&fit, parameters, err)) return false;
    for (int c = 0; c < parameter_count; c++) {
        out->coefficient[c] = exp(parameters[c]);
        out->relative_sigma[c] = sqrt(fit.covariance[c][c]);
    }
    memcpy(out->covariance, fit.covariance, sizeof out->covariance);

    /* One point for each place of the table: the mean of its rows. */
    double(*at)[SURFACE_FEATURE_MAX] = arena_alloc(arena, (size_t)count * sizeof *at);
    double *value = arena_array(arena, double, count), *error = arena_array(arena, double, count);
    double *form_error = arena_array(arena, double, count);
    int64_t *point_of = arena_array(arena, int64_t, count);
    int64_t point_count = 0, same = 0;
    for (int64_t i = 0; i < count; i++) {
        double where[SURFACE_FEATURE_MAX] = { 0 };
        for (int a = 0; a < 3; a++)
            where[a] = log2(size_of(&sorted[i], a));
        const bool again = i > 0 && memcmp(where, at[point_count - 1], sizeof where) == 0;
        same = again ? same + 1 : 0;
        if (!again) memcpy(at[point_count++], where, sizeof where);
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

/* Keeps the tile that predicts held-back kernels best. Causal kernels give their later tiles more
 * work and balance them: their waves are not whole, and no tile helps them. */
bool fit_attention(struct arena *arena, const struct attention_row *rows, int64_t count,
                   const struct attention_conditions *conditions, struct attention_fit *out,
                   struct error *err) {
    static const double tiles[] = { 64, 128, 192 };
    if (!fit_with_tile(arena, rows, count, conditions, 0, out, err)) return false;
    for (size_t t = 0; t < sizeof tiles / sizeof tiles[0]; t++) {
        struct attention_fit fit;
        if (rows[0].causal || count < WAVE_ROWS_MIN || !(conditions->sm_count > 0)) break;
        if (fit_with_tile(arena, rows, count, conditions, tiles[t], &fit, NULL) &&
            fit.held_out.median < out->held_out.median)
            *out = fit;
    }
    return true;
}

/* ---- backward ---------------------------------------------------------------------------------
 */

struct pair {
    double length, log_ratio; /* of efficiencies */
};

/* This project's own pairs (S32, calibrate/measured): their forwards, by cuDNN, take 0.7 of the
 * curves' time at short lengths, so that backwards over them say too much of backwards over the
 * curves: in steps these took 0.97 of the price as it is without them. */
static bool is_own_pair(const struct attention_row *f) {
    return f->source != NULL && strncmp(f->source, "S32:", 4) == 0;
}

static bool is_pair(const struct attention_row *f, const struct attention_row *b) {
    return f->head_dim_qk == 128 && strncmp(f->gpu, "B200", 4) != 0 && !is_own_pair(f) &&
           strcmp(f->direction, "fwd") == 0 && strcmp(f->dtype, "bf16") == 0 &&
           strcmp(b->dtype, "bf16") == 0 && strcmp(f->gpu, b->gpu) == 0 &&
           strcmp(f->framework, b->framework) == 0 && f->batch == b->batch &&
           f->seqlen == b->seqlen && f->heads_q == b->heads_q && f->heads_kv == b->heads_kv &&
           f->head_dim_qk == b->head_dim_qk && f->head_dim_v == b->head_dim_v &&
           f->causal == b->causal;
}

static double pair_residual(const void *context, const double *parameters, int64_t i) {
    const struct pair *pair = (const struct pair *)context + i;
    return parameters[0] - log1p(exp(parameters[1]) / pair->length) - pair->log_ratio;
}

bool fit_attention_backward(struct arena *arena, const struct attention_row *rows, int64_t count,
                            struct backward_fit *out, struct error *err) {
    struct pair *pairs = arena_array(arena, struct pair, count);
    int64_t pair_count = 0;
    for (int64_t b = 0; b < count; b++) {
        /* Few are; Blackwell Ultra's exponentials shorten forwards more than backwards. */
        if (strcmp(rows[b].direction, "bwd") != 0 || strcmp(rows[b].gpu, "GB300") == 0) continue;
        for (int64_t f = 0; f < count; f++) {
            if (!is_pair(&rows[f], &rows[b])) continue;
            pairs[pair_count++] = (struct pair){ (double)rows[f].seqlen,
                                                 log(2.5 * rows[f].time_us / rows[b].time_us) };
            break;
        }
    }
    double parameters[2] = { log(0.85), log(200) };
    struct robust_fit fit = { .parameter_count = 2,
                              .point_count = pair_count,
                              .residual = pair_residual,
                              .context = pairs,
                              .pull = 0.01 };
    if (!robust_fit_run(&fit, parameters, err)) return false;
    *out = (struct backward_fit){ exp(parameters[0]), exp(parameters[1]), 0, 0, { 0 } };
    double *residual = arena_array(arena, double, pair_count);
    for (int64_t i = 0; i < pair_count; i++)
        residual[i] = pair_residual(pairs, parameters, i);
    out->residual = error_summary_of(residual, pair_count);
    return true;
}

enum {
    BACKWARD_FACTOR,
    BACKWARD_LENGTH_HALF,
    BACKWARD_ROWS_HALF,
    BACKWARD_POWER_SLOPE,
    BACKWARD_COUNT
};
enum { BACKWARD_ROWS_MIN = 5 };

struct backward_context {
    const struct attention_row *rows;
    const struct attention_curves *forward;
    const struct attention_conditions *on;
};

static double backward_residual(const void *context, const double *parameters, int64_t i) {
    const struct backward_context *c = context;
    struct attention_curves curves = *c->forward;
    const struct attention_curve *nearest;
    const struct operator_work work = work_of(&c->rows[i]);
    struct kernel_terms terms;
    curves.backward_factor = exp(parameters[BACKWARD_FACTOR]);
    curves.backward_length_half = exp(parameters[BACKWARD_LENGTH_HALF]);
    curves.backward_rows_half = exp(parameters[BACKWARD_ROWS_HALF]);
    curves.backward_power_slope = exp(parameters[BACKWARD_POWER_SLOPE]);
    const double seconds = attention_kernel_s(&curves, c->on->peak_flop_per_s,
                                              c->on->hbm_bytes_per_s, &work, &terms, &nearest);
    return log(seconds * 1e6 / c->rows[i].time_us);
}

static bool has_curve(const struct attention_curves *curves, const struct attention_row *row) {
    for (int64_t i = 0; i < curves->count; i++)
        if (curves->curves[i].head_dim == row->head_dim_qk &&
            curves->curves[i].causal == row->causal)
            return row->head_dim_qk == row->head_dim_v;
    return false;
}

bool fit_attention_backward_rows(struct arena *arena, const struct attention_row *rows,
                                 int64_t count, const struct attention_curves *forward,
                                 const struct attention_conditions *conditions,
                                 struct backward_fit *out, struct error *err) {
    struct attention_row *backward = arena_array(arena, struct attention_row, count + 1);
    int64_t backward_count = 0;
    for (int64_t i = 0; i < count; i++)
        if (strcmp(rows[i].direction, "bwd") == 0 && has_curve(forward, &rows[i]))
            backward[backward_count++] = rows[i];
    if (backward_count < BACKWARD_ROWS_MIN)
        return error_set(err, "%lld backward kernels are too few", (long long)backward_count);
    const struct backward_context context = { backward, forward, conditions };
    double parameters[BACKWARD_COUNT] = { [BACKWARD_FACTOR] = log(0.85),
                                          [BACKWARD_LENGTH_HALF] = log(100),
                                          [BACKWARD_ROWS_HALF] = log(5000),
                                          [BACKWARD_POWER_SLOPE] = log(0.02) };
    struct robust_fit fit = { .parameter_count = BACKWARD_COUNT,
                              .point_count = backward_count,
                              .residual = backward_residual,
                              .context = &context,
                              .pull = 0.01 };
    if (!robust_fit_run(&fit, parameters, err)) return false;
    *out = (struct backward_fit){ exp(parameters[BACKWARD_FACTOR]),
                                  exp(parameters[BACKWARD_LENGTH_HALF]),
                                  exp(parameters[BACKWARD_ROWS_HALF]),
                                  exp(parameters[BACKWARD_POWER_SLOPE]),
                                  { 0 } };
    double *residual = arena_array(arena, double, backward_count);
    for (int64_t i = 0; i < backward_count; i++)
        residual[i] = backward_residual(&context, parameters, i);
    out->residual = error_summary_of(residual, backward_count);
    return true;
}
