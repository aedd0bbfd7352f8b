/* test_fit_attention.c - the attention fit: kernels it has not seen, by framework, head size and
 * mask. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "calibrate/fit/fit_attention.h"
#include "costmodel/efficiency.h"

#define MEASURED BALLAST_SOURCE_DIR "/calibrate/measured"

/* A quarter of the shapes, chosen by a hash of the sizes alone. */
static bool is_held_back(const struct attention_row *row) {
    uint64_t h = (uint64_t)row->batch * 0x9e3779b97f4a7c15u ^
                 (uint64_t)row->seqlen * 0xc2b2ae3d27d4eb4fu ^
                 (uint64_t)(row->heads_q * 1024 + row->heads_kv) * 0x165667b19e3779f9u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return (h >> 40) % 4 == 0;
}

static struct attention_curve curve_of(struct arena *arena, const struct attention_fit *fit,
                                       int64_t head_dim, bool causal) {
    struct attention_curve curve = { .head_dim = head_dim,
                                     .causal = causal,
                                     .efficiency = fit->coefficient[ATTENTION_EFFICIENCY],
                                     .length_half = fit->coefficient[ATTENTION_LENGTH_HALF],
                                     .launch_s = ATTENTION_LAUNCH_S,
                                     .tile_rows = fit->tile_rows,
                                     .tile_slots = fit->tile_slots,
                                     .correction = { .axis_count = 3 } };
    int64_t cell_count = 1;
    for (int a = 0; a < 3; a++) {
        curve.correction.axes[a].count = fit->axis_count[a];
        cell_count *= fit->axis_count[a];
        for (int64_t i = 0; i < fit->axis_count[a]; i++)
            curve.correction.axes[a].log2_at[i] = log2(fit->axis[a][i]);
    }
    float *cells = arena_array(arena, float, cell_count);
    for (int64_t i = 0; i < cell_count; i++)
        cells[i] = (float)fit->log_ratio[i];
    curve.correction.log_ratio = cells;
    return curve;
}

static void test_held_back(void **state) {
    (void)state;
    static const struct {
        const char *gpu, *framework;
        double peak, hbm, sm_count;
        int64_t head_dim;
        bool causal;
        double median_max;
    } cases[] = {
        { "A100-SXM4-80GB", "sglang", 312e12, 2039e9, 108, 128, true, 0.020 },
        { "A100-SXM4-80GB", "vllm", 312e12, 2039e9, 108, 128, true, 0.025 },
        { "H100-SXM5-80GB", "sglang", 989e12, 3350e9, 132, 128, true, 0.040 },
        { "H100-SXM5-80GB", "vllm", 989e12, 3350e9, 132, 64, true, 0.025 },
        { "H100-SXM5-80GB", "vllm", 989e12, 3350e9, 132, 64, false, 0.045 },
        { "H200-SXM", "vllm", 989e12, 4800e9, 132, 128, true, 0.028 },
    };
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct attention_rows all;
    if (!attention_rows_read(arena, MEASURED "/attention.csv.gz", &all, &err))
        fail_msg("%s", err.text);
    struct attention_row *kept = arena_array(arena, struct attention_row, all.count);
    struct attention_row *held = arena_array(arena, struct attention_row, all.count);
    double *error = arena_array(arena, double, all.count);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        int64_t kept_count = 0, held_count = 0, inside_count = 0;
        for (int64_t i = 0; i < all.count; i++) {
            const struct attention_row *row = &all.rows[i];
            if (strcmp(row->gpu, cases[c].gpu) || strcmp(row->direction, "fwd") ||
                row->head_dim_qk != cases[c].head_dim || row->head_dim_v != cases[c].head_dim ||
                row->causal != cases[c].causal ||
                strncmp(row->framework, cases[c].framework, strlen(cases[c].framework)))
                continue;
            if (is_held_back(row))
                held[held_count++] = *row;
            else
                kept[kept_count++] = *row;
        }
        struct attention_fit fit;
        const struct attention_conditions on = { cases[c].peak, cases[c].hbm, cases[c].sm_count };
        if (!fit_attention(arena, kept, kept_count, &on, &fit, &err)) fail_msg("%s", err.text);
        const struct attention_curve curve =
            curve_of(arena, &fit, cases[c].head_dim, cases[c].causal);
        const struct attention_curves curves = { .count = 1, .curves = &curve };
        for (int64_t i = 0; i < held_count; i++) {
            const double tokens = (double)(held[i].batch * held[i].seqlen);
            const struct operator_work w = operator_attention(
                "", PASS_FORWARD, PRECISION_BF16, tokens, tokens * (double)held[i].seqlen,
                held[i].heads_q, held[i].heads_kv, held[i].head_dim_qk, held[i].causal);
            const struct attention_curve *nearest;
            struct kernel_terms terms;
            const double us = 1e6 * attention_kernel_s(&curves, cases[c].peak, cases[c].hbm, &w,
                                                       &terms, &nearest);
            error[i] = log(us / held[i].time_us);
            inside_count += fabs(held[i].time_us / us - 1) <= fit.held_out.p80;
        }
        const struct error_summary s = error_summary_of(error, held_count);
        const double covered = (double)inside_count / (double)held_count;
        print_message("%-14s %s d=%ld %s: %ld held back, median %.2f %%, p90 %.1f, bias %+.1f; "
                      "band covers %.0f %%\n",
                      cases[c].gpu, cases[c].framework, (long)cases[c].head_dim,
                      cases[c].causal ? "causal" : "full", (long)s.count, 100 * s.median,
                      100 * s.p90, 100 * s.bias, 100 * covered);
        if (!(s.count > 100 && s.median < cases[c].median_max))
            fail_msg("%s %s d=%ld: median %.4f", cases[c].gpu, cases[c].framework,
                     (long)cases[c].head_dim, s.median);
        if (!(covered >= 0.70 && covered <= 0.90))
            fail_msg("%s %s d=%ld: the 80 %% band covers %.3f", cases[c].gpu, cases[c].framework,
                     (long)cases[c].head_dim, covered);
    }
    arena_destroy(arena);
}

/* Backward kernels of known coefficients come back; a launch of one wave takes twice its share. */
static void test_backward_rows(void **state) {
    (void)state;
    const struct attention_curve forward = {
        .head_dim = 128, .causal = true, .efficiency = 0.5, .length_half = 400
    };
    struct attention_curves curves = { .count = 1,
                                       .curves = &forward,
                                       .has = { false, true },
                                       .backward_factor = 0.8,
                                       .backward_length_half = 100,
                                       .backward_rows_half = 16384,
                                       .backward_power_slope = 0.05 };
    const struct attention_conditions on = { 312e12, 2039e9, 108 };
    struct attention_row rows[24];
    int64_t count = 0;
    for (int64_t length = 1024; length <= 32768; length *= 2)
        for (int64_t heads = 4; heads <= 32; heads *= 2) {
            const struct operator_work w =
                operator_attention("", PASS_BACKWARD, PRECISION_BF16, (double)length,
                                   (double)(length * length), heads, heads, 128, true);
            const struct attention_curve *nearest;
            struct kernel_terms terms;
            const double us = 1e6 * attention_kernel_s(&curves, on.peak_flop_per_s,
                                                       on.hbm_bytes_per_s, &w, &terms, &nearest);
            rows[count++] = (struct attention_row){ .direction = "bwd",
                                                    .batch = 1,
                                                    .seqlen = length,
                                                    .heads_q = heads,
                                                    .heads_kv = heads,
                                                    .head_dim_qk = 128,
                                                    .head_dim_v = 128,
                                                    .causal = true,
                                                    .time_us = us };
        }
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct backward_fit fit;
    if (!fit_attention_backward_rows(arena, rows, count, &curves, &on, &fit, &err))
        fail_msg("%s", err.text);
    if (fabs(fit.factor / 0.8 - 1) > 0.02 || fabs(fit.rows_half / 16384 - 1) > 0.05 ||
        fabs(fit.power_slope / 0.05 - 1) > 0.1 || fit.residual.p90 > 0.02)
        fail_msg("factor %g, rows_half %g, slope %g, p90 %g", fit.factor, fit.rows_half,
                 fit.power_slope, fit.residual.p90);
    assert_false(fit_attention_backward_rows(arena, rows, 4, &curves, &on, &fit, &err));
    assert_non_null(strstr(err.text, "too few"));
    arena_destroy(arena);
}

/* Few forward kernels: what a launch of one wave and a second of power cost comes back, and kernels
 * of sizes that were not measured are met. */
static void test_few_rows(void **state) {
    (void)state;
    const struct attention_curve known = { .head_dim = 128,
                                           .causal = true,
                                           .efficiency = 0.7,
                                           .length_half = 500,
                                           .launch_s = ATTENTION_LAUNCH_S,
                                           .rows_half = 40000,
                                           .power_slope = 0.05 };
    const struct attention_curves curves = { .count = 1, .curves = &known, .has = { false, true } };
    const struct attention_conditions on = { 2250e12, 7700e9, 148 };
    static const int64_t lengths[] = { 4096, 16384, 65536 }, heads[] = { 4, 8, 16, 64 };
    struct attention_row rows[12];
    int64_t count = 0;
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++)
        for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++) {
            const double length = (double)lengths[l];
            const struct operator_work w =
                operator_attention("", PASS_FORWARD, PRECISION_BF16, length, length * length,
                                   heads[h], heads[h], 128, true);
            const struct attention_curve *nearest;
            struct kernel_terms terms;
            rows[count++] = (struct attention_row){
                .direction = "fwd",
                .batch = 1,
                .seqlen = lengths[l],
                .heads_q = heads[h],
                .heads_kv = heads[h],
                .head_dim_qk = 128,
                .head_dim_v = 128,
                .causal = true,
                .time_us = 1e6 * attention_kernel_s(&curves, on.peak_flop_per_s, on.hbm_bytes_per_s,
                                                    &w, &terms, &nearest)
            };
        }
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct attention_fit fit;
    if (!fit_attention(arena, rows, count, &on, &fit, &err)) fail_msg("%s", err.text);
    const double *c = fit.coefficient;
    if (fabs(c[ATTENTION_EFFICIENCY] / 0.7 - 1) > 0.03 ||
        fabs(c[ATTENTION_ROWS_HALF] / 40000 - 1) > 0.1 ||
        fabs(c[ATTENTION_POWER_SLOPE] / 0.05 - 1) > 0.15 || fit.held_out.p90 > 0.03)
        fail_msg("efficiency %g, rows_half %g, slope %g, held out p90 %g", c[ATTENTION_EFFICIENCY],
                 c[ATTENTION_ROWS_HALF], c[ATTENTION_POWER_SLOPE], fit.held_out.p90);
    /* Three rows do not tell four coefficients. */
    const struct attention_row three[] = { rows[3], rows[7], rows[11] };
    if (!fit_attention(arena, three, 3, &on, &fit, &err)) fail_msg("%s", err.text);
    assert_true(fit.coefficient[ATTENTION_POWER_SLOPE] == 0);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_held_back),
                                        cmocka_unit_test(test_backward_rows),
                                        cmocka_unit_test(test_few_rows) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
