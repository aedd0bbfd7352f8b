/* fit_attention.c - robust fit of e S / (S + S0) and a table over length and size of the launch.
 *
 * The measurements pack `batch` sequences of one length, so S is that length. Residuals that depend
 * on how many thread blocks a launch has (batch x length x heads), on how well a length fills a
 * tile and on how many query heads share a key head go to the table, as in fit_matmul.c.
 */
#include "calibrate/fit/fit_attention.h"

#include <math.h>
#include <string.h>
#include "costmodel/efficiency.h"

#define LENGTH_SCALE 4.0
#define GROUP_SCALE  2.0 /* octaves of query heads per key head */
#define NOISE        0.1
#define REACH        1.0
enum { TABLE_ROWS_MIN = 100 };

struct form_context {
    const struct attention_row *rows;
    double peak_flop_per_s, hbm_bytes_per_s;
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
                                           .length_half = coefficient[ATTENTION_LENGTH_HALF] };
    const struct attention_curves curves = { .count = 1, .curves = &curve };
    const struct attention_curve *nearest;
    const struct operator_work work = work_of(row);
    struct kernel_terms terms;
    const double seconds = attention_kernel_s(&curves, context->peak_flop_per_s,
                                              context->hbm_bytes_per_s, &work, &terms, &nearest);
    return log(seconds * 1e6 / row->time_us);
}

static double form_residual(const void *context, const double *parameters, int64_t i) {
    double coefficient[ATTENTION_COEFFICIENT_COUNT];
    for (int c = 0; c < ATTENTION_COEFFICIENT_COUNT; c++)
        coefficient[c] = exp(parameters[c]);
    return log_error(context, coefficient, i);
}

static void size_of(const struct attention_row *row, double *size) {
    size[0] = (double)row->seqlen;
    size[1] = (double)(row->batch * row->seqlen * row->heads_q);
    size[2] = (double)row->heads_q / (double)row->heads_kv;
}

static void place(const double *size, double *at) {
    at[0] = log2(size[0]) / LENGTH_SCALE;
    at[1] = log2(size[1]) / LENGTH_SCALE;
    at[2] = log2(size[2]) / GROUP_SCALE;
}

/* From the least to the greatest measured size, a step of so many octaves or whole octaves. */
static int64_t fill_axis(double least, double most, double step, double *axis) {
    if (log2(most / least) > 7.5) step = 1;
    int64_t count = (int64_t)ceil(log2(most / least) / step - 1e-9) + 1;
    if (count > EFFICIENCY_AXIS_MAX) count = EFFICIENCY_AXIS_MAX;
    for (int64_t i = 0; i < count; i++)
        axis[i] = round(least * exp2(step * (double)i));
    return count;
}

static void fill_table(struct arena *arena, const struct scattered *field,
                       const struct attention_row *rows, int64_t count, struct attention_fit *out) {
    double least[3] = { INFINITY, INFINITY, INFINITY }, most[3] = { 0 }, size[3];
    for (int64_t i = 0; i < count; i++) {
        size_of(&rows[i], size);
        for (int a = 0; a < 3; a++) {
            least[a] = fmin(least[a], size[a]);
            most[a] = fmax(most[a], size[a]);
        }
    }
    int64_t cell_count = 1;
    for (int a = 0; a < 3; a++) {
        out->axis_count[a] = fill_axis(least[a], most[a], a == 2 ? 1 : 0.5, out->axis[a]);
        cell_count *= out->axis_count[a];
    }
    double *cell = out->log_ratio = arena_array(arena, double, cell_count);
    for (int64_t l = 0; l < out->axis_count[0]; l++)
        for (int64_t q = 0; q < out->axis_count[1]; q++)
            for (int64_t g = 0; g < out->axis_count[2]; g++) {
                const double at_size[3] = { out->axis[0][l], out->axis[1][q], out->axis[2][g] };
                double where[FIT_DIMENSION_MAX];
                place(at_size, where);
                *cell++ = scattered_at(field, where, -1);
            }
}

/* The closed form is of a GPU with work on all its multiprocessors; how much less a small launch
 * reaches is for the table. */
static bool fills_gpu(const struct attention_row *row) {
    return row->batch * row->heads_q >= 32 && row->seqlen >= 1024;
}

bool fit_attention(struct arena *arena, const struct attention_row *rows, int64_t count,
                   double peak_flop_per_s, double hbm_bytes_per_s, struct attention_fit *out,
                   struct error *err) {
    memset(out, 0, sizeof *out);
    struct attention_row *full = arena_array(arena, struct attention_row, count + 1);
    int64_t full_count = 0;
    for (int64_t i = 0; i < count; i++)
        if (fills_gpu(&rows[i])) full[full_count++] = rows[i];
    const struct form_context full_context = { full, peak_flop_per_s, hbm_bytes_per_s };
    const struct form_context context = { rows, peak_flop_per_s, hbm_bytes_per_s };
    double parameters[ATTENTION_COEFFICIENT_COUNT] = {
        [ATTENTION_EFFICIENCY] = log(0.65), [ATTENTION_LENGTH_HALF] = log(400)
    };
    struct robust_fit fit = { .parameter_count = ATTENTION_COEFFICIENT_COUNT,
                              .point_count = full_count,
                              .residual = form_residual,
                              .context = &full_context,
                              .pull = 0.01 };
    if (!robust_fit_run(&fit, parameters, err)) return false;
    for (int c = 0; c < ATTENTION_COEFFICIENT_COUNT; c++) {
        out->coefficient[c] = exp(parameters[c]);
        out->relative_sigma[c] = sqrt(fit.covariance[c][c]);
    }
    memcpy(out->covariance, fit.covariance, sizeof out->covariance);

    double(*at)[FIT_DIMENSION_MAX] = arena_alloc(arena, (size_t)count * sizeof *at);
    double *value = arena_array(arena, double, count), *error = arena_array(arena, double, count);
    double *held_out = arena_array(arena, double, count);
    for (int64_t i = 0; i < count; i++) {
        double size[3];
        size_of(&rows[i], size);
        place(size, at[i]);
        error[i] = log_error(&context, out->coefficient, i);
        value[i] = -error[i];
        held_out[i] = error[i];
    }
    if (count >= TABLE_ROWS_MIN) {
        const struct scattered field = { 3,     count, (const double(*)[FIT_DIMENSION_MAX])at,
                                         value, NOISE, REACH };
        for (int64_t i = 0; i < count; i++)
            held_out[i] += scattered_at(&field, at[i], i);
        fill_table(arena, &field, rows, count, out);
    }
    out->form = error_summary_of(error, count);
    out->held_out = error_summary_of(held_out, count);
    return true;
}

/* ---- backward ---------------------------------------------------------------------------------
 */

struct pair {
    double length, log_ratio; /* of efficiencies */
};

static bool is_pair(const struct attention_row *f, const struct attention_row *b) {
    return f->head_dim_qk == 128 && strncmp(f->gpu, "B200", 4) != 0 &&
           strcmp(f->dtype, "bf16") == 0 && strcmp(f->direction, "fwd") == 0 &&
           strcmp(b->direction, "bwd") == 0 && strcmp(f->gpu, b->gpu) == 0 &&
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
    for (int64_t f = 0; f < count; f++)
        for (int64_t b = 0; b < count; b++) {
            if (!is_pair(&rows[f], &rows[b])) continue;
            pairs[pair_count++] = (struct pair){ (double)rows[f].seqlen,
                                                 log(2.5 * rows[f].time_us / rows[b].time_us) };
            break;
        }
    double parameters[2] = { log(0.85), log(200) };
    struct robust_fit fit = { .parameter_count = 2,
                              .point_count = pair_count,
                              .residual = pair_residual,
                              .context = pairs,
                              .pull = 0.01 };
    if (!robust_fit_run(&fit, parameters, err)) return false;
    out->factor = exp(parameters[0]);
    out->length_half = exp(parameters[1]);
    double *residual = arena_array(arena, double, pair_count);
    for (int64_t i = 0; i < pair_count; i++)
        residual[i] = pair_residual(pairs, parameters, i);
    out->residual = error_summary_of(residual, pair_count);
    return true;
}
