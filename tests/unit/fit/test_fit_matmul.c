/* test_fit_matmul.c - the matmul fit: a known answer is found again; recorded shapes are predicted
 * without themselves.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "calibrate/fit/fit_matmul.h"
#include "costmodel/efficiency.h"

#define MEASURED BALLAST_SOURCE_DIR "/calibrate/measured"

/* What a form of known coefficients takes, with 3 % of noise that repeats and one kernel in fifty
 * half as fast, gives the coefficients back. */
static void expect_known(const struct matmul_curve *truth, enum precision precision,
                         const double *want) {
    static const struct {
        const char *name;
        double tolerance;
    } coefficients[MATMUL_COEFFICIENT_COUNT] = {
        [MATMUL_LAUNCH_S] = { "launch", 0.06 },
        [MATMUL_EFFICIENCY] = { "efficiency", 0.02 },
        [MATMUL_K_HALF] = { "k_half", 0.08 },
        [MATMUL_MEMORY_FRACTION] = { "memory_fraction", 0.05 },
        [MATMUL_POWER_SLOPE] = { "power_slope", 0.15 },
        [MATMUL_WAVE_EXPONENT] = { "wave_exponent", 0.10 },
        [MATMUL_CAST_FRACTION] = { "cast_fraction", 0.05 },
    };
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct gemm_row *rows = arena_array(arena, struct gemm_row, 4096);
    int64_t count = 0;
    for (int64_t m = 128; m <= 32768; m *= 2)
        for (int64_t n = 192; n <= 49152; n *= 2)
            for (int64_t k = 128; k <= 32768; k *= 2) {
                const struct operator_work w =
                    operator_matmul("", PASS_FORWARD, precision, m, n, k);
                struct kernel_terms terms;
                double us = 1e6 * matmul_kernel_s(truth, 300e12, 2e12, w.flop, w.memory_bytes, m, n,
                                                  k, &terms);
                us *= 1 + 0.03 * sin((double)(count * 7));
                if (count % 50 == 0) us *= 2;
                rows[count++] = (struct gemm_row){
                    .gpu = "g", .source = "s", .m = m, .n = n, .k = k, .time_us = us
                };
            }
    struct matmul_fit fit;
    const struct matmul_conditions on = { 300e12, 2e12, precision, PASS_FORWARD,
                                          truth->wave_slots };
    if (!fit_matmul(arena, rows, count, &on, &fit, &err)) fail_msg("%s", err.text);
    for (int c = 0; c < MATMUL_COEFFICIENT_COUNT; c++) {
        const double got = fit.coefficient[c];
        if (want[c] == 0 ? got != 0 : !(fabs(got / want[c] - 1) < coefficients[c].tolerance))
            fail_msg("%s: got %g, want %g", coefficients[c].name, got, want[c]);
        if (want[c] > 0 && !(fit.relative_sigma[c] > 0 && fit.relative_sigma[c] < 0.1))
            fail_msg("%s: relative sigma %g", coefficients[c].name, fit.relative_sigma[c]);
    }
    assert_true(fit.form.median < 0.035);
    arena_destroy(arena);
}

static void test_known_answer(void **state) {
    (void)state;
    const double want[MATMUL_COEFFICIENT_COUNT] = { 4e-6, 0.8, 120, 0.7, 0.03, 0.6, 0 };
    const struct matmul_curve truth = { .launch_s = want[MATMUL_LAUNCH_S],
                                        .efficiency = want[MATMUL_EFFICIENCY],
                                        .k_half = want[MATMUL_K_HALF],
                                        .memory_fraction = want[MATMUL_MEMORY_FRACTION],
                                        .power_slope = want[MATMUL_POWER_SLOPE],
                                        .power_onset_s = 1e-3,
                                        .power_floor = 0.8,
                                        .wave_exponent = want[MATMUL_WAVE_EXPONENT],
                                        .wave_slots = 108 };
    expect_known(&truth, PRECISION_BF16, want);
    /* A quantisation that is timed with the matmul, without waves. */
    const double cast[MATMUL_COEFFICIENT_COUNT] = { 4e-6, 0.8, 120, 0.7, 0.03, 0, 0.35 };
    struct matmul_curve quantised = truth;
    quantised.wave_exponent = quantised.wave_slots = 0;
    quantised.cast_fraction = cast[MATMUL_CAST_FRACTION];
    expect_known(&quantised, PRECISION_FP8, cast);
}

/* As the cost model prices: closed form times the table, interpolated. */
static struct matmul_curve curve_of(struct arena *arena, const struct matmul_fit *fit) {
    struct matmul_curve curve = fit_matmul_form(fit);
    curve.correction.axis_count = 3;
    int64_t cell_count = 1;
    for (int a = 0; a < 3; a++) {
        curve.correction.axes[a].count = fit->axis_count[a];
        cell_count *= fit->axis_count[a];
        for (int64_t i = 0; i < fit->axis_count[a]; i++)
            curve.correction.axes[a].log2_at[i] = log2((double)fit->axis[a][i]);
    }
    float *cells = arena_array(arena, float, cell_count);
    for (int64_t i = 0; i < cell_count; i++)
        cells[i] = (float)fit->log_ratio[i];
    curve.correction.log_ratio = cells;
    return curve;
}

/* Sizes n of which no row was seen, between others: waves and half octaves carry them. */
static void test_unseen_sizes(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct gemm_rows all;
    if (!gemm_rows_read(arena, MEASURED "/gemm.csv.gz", &all, &err)) fail_msg("%s", err.text);
    struct gemm_row *kept = arena_array(arena, struct gemm_row, all.count);
    struct gemm_row *held = arena_array(arena, struct gemm_row, all.count);
    double *error = arena_array(arena, double, all.count);
    int64_t kept_count = 0, held_count = 0, error_count = 0;
    for (int64_t i = 0; i < all.count; i++) {
        const struct gemm_row *row = &all.rows[i];
        if (strcmp(row->gpu, "A100-SXM4-80GB") || strncmp(row->framework, "trtllm", 6)) continue;
        if (row->n == 768 || row->n == 1536 || row->n == 3072 || row->n == 5120)
            held[held_count++] = *row;
        else
            kept[kept_count++] = *row;
    }
    const struct matmul_conditions on = { 312e12, 2039e9, PRECISION_BF16, PASS_FORWARD, 108 };
    struct matmul_fit fit;
    if (!fit_matmul(arena, kept, kept_count, &on, &fit, &err)) fail_msg("%s", err.text);
    assert_true(fit.coefficient[MATMUL_WAVE_EXPONENT] > 0.5);
    const struct matmul_curve curve = curve_of(arena, &fit);
    for (int64_t i = 0; i < held_count; i++) {
        const struct operator_work w =
            operator_matmul("", on.pass, on.precision, held[i].m, held[i].n, held[i].k);
        struct kernel_terms terms;
        const double us = 1e6 * matmul_kernel_s(&curve, on.peak_flop_per_s, on.hbm_bytes_per_s,
                                                w.flop, w.memory_bytes, w.m, w.n, w.k, &terms);
        if (w.flop >= 1e10) error[error_count++] = log(us / held[i].time_us);
    }
    const struct error_summary s = error_summary_of(error, error_count);
    print_message("sizes n left out: %ld rows, median %.2f %%, p90 %.1f\n", (long)s.count,
                  100 * s.median, 100 * s.p90);
    assert_true(s.count > 100 && s.median < 0.05 && s.p90 < 0.16);
    arena_destroy(arena);
}

static void test_too_few(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct matmul_fit fit;
    const struct gemm_row row = { .m = 1, .n = 1, .k = 1, .time_us = 1 };
    const struct matmul_conditions on = { 1e14, 1e12, PRECISION_BF16, PASS_FORWARD, 0 };
    assert_false(fit_matmul(arena, &row, 1, &on, &fit, &err));
    assert_non_null(strstr(err.text, "too few"));
    arena_destroy(arena);
}

/* A quarter of the shapes, chosen by a hash of the sizes alone. */
static bool is_held_back(const struct gemm_row *row) {
    uint64_t h = (uint64_t)row->m * 0x9e3779b97f4a7c15u ^ (uint64_t)row->n * 0xc2b2ae3d27d4eb4fu ^
                 (uint64_t)row->k * 0x165667b19e3779f9u;
    h ^= h >> 29;
    h *= 0xbf58476d1ce4e5b9u;
    return (h >> 40) % 4 == 0;
}

/* Per framework and GPU: shapes that the fit has not seen, and how many fall into its band. */
static void test_held_back(void **state) {
    (void)state;
    static const struct {
        const char *gpu, *framework, *dtype;
        struct matmul_conditions on;
        double median_max, p90_max;
    } cases[] = {
        { "A100-SXM4-80GB",
          "sglang",
          "bf16",
          { 312e12, 2039e9, PRECISION_BF16, PASS_FORWARD, 108 },
          0.027,
          0.105 },
        { "A100-SXM4-80GB",
          "trtllm",
          "bf16",
          { 312e12, 2039e9, PRECISION_BF16, PASS_FORWARD, 108 },
          0.020,
          0.090 },
        { "H100-SXM5-80GB",
          "trtllm",
          "bf16",
          { 989e12, 3350e9, PRECISION_BF16, PASS_FORWARD, 132 },
          0.022,
          0.085 },
        { "H100-SXM5-80GB",
          "vllm",
          "fp8",
          { 1979e12, 3350e9, PRECISION_FP8, PASS_FORWARD, 132 },
          0.033,
          0.110 },
        /* Clocks of that collector's run wander: neighbours differ by more than a tenth. */
        { "H200-SXM",
          "sglang",
          "bf16",
          { 989e12, 4800e9, PRECISION_BF16, PASS_FORWARD, 132 },
          0.055,
          0.180 },
        { "B200-SXM",
          "trtllm",
          "bf16",
          { 2250e12, 7700e9, PRECISION_BF16, PASS_FORWARD, 148 },
          0.030,
          0.110 },
    };
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct gemm_rows all;
    if (!gemm_rows_read(arena, MEASURED "/gemm.csv.gz", &all, &err)) fail_msg("%s", err.text);
    struct gemm_row *kept = arena_array(arena, struct gemm_row, all.count);
    struct gemm_row *held = arena_array(arena, struct gemm_row, all.count);
    double *error = arena_array(arena, double, all.count);
    size_t count = sizeof cases / sizeof cases[0];
#ifdef __SANITIZE_ADDRESS__ /* where each takes 10 s */
    count = 1;
#endif
    for (size_t c = 0; c < count; c++) {
        int64_t kept_count = 0, held_count = 0, error_count = 0, inside_count = 0;
        for (int64_t i = 0; i < all.count; i++) {
            const struct gemm_row *row = &all.rows[i];
            if (strcmp(row->gpu, cases[c].gpu) || strcmp(row->dtype, cases[c].dtype) ||
                strncmp(row->framework, cases[c].framework, strlen(cases[c].framework)))
                continue;
            if (is_held_back(row))
                held[held_count++] = *row;
            else
                kept[kept_count++] = *row;
        }
        struct matmul_fit fit;
        const struct matmul_conditions *on = &cases[c].on;
        if (!fit_matmul(arena, kept, kept_count, on, &fit, &err)) fail_msg("%s", err.text);
        const struct matmul_curve curve = curve_of(arena, &fit);
        for (int64_t i = 0; i < held_count; i++) {
            const struct operator_work w =
                operator_matmul("", on->pass, on->precision, held[i].m, held[i].n, held[i].k);
            struct kernel_terms terms;
            const double us =
                1e6 * matmul_kernel_s(&curve, on->peak_flop_per_s, on->hbm_bytes_per_s, w.flop,
                                      w.memory_bytes, w.m, w.n, w.k, &terms);
            inside_count += fabs(held[i].time_us / us - 1) <= fit.held_out.p80;
            if (w.flop >= 1e10) error[error_count++] = log(us / held[i].time_us);
        }
        const struct error_summary s = error_summary_of(error, error_count);
        const double covered = (double)inside_count / (double)held_count;
        print_message("%-14s %s %s: %ld of >= 1e10 FLOP held back, median %.2f %%, p90 %.1f, bias "
                      "%+.1f; band covers %.0f %%\n",
                      cases[c].gpu, cases[c].framework, cases[c].dtype, (long)s.count,
                      100 * s.median, 100 * s.p90, 100 * s.bias, 100 * covered);
        if (!(s.count > 100 && s.median < cases[c].median_max && s.p90 < cases[c].p90_max))
            fail_msg("%s %s: median %.4f, p90 %.4f", cases[c].gpu, cases[c].framework, s.median,
                     s.p90);
        if (!(covered >= 0.70 && covered <= 0.90))
            fail_msg("%s %s: the 80 %% band covers %.3f", cases[c].gpu, cases[c].framework,
                     covered);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answer),
        cmocka_unit_test(test_unseen_sizes),
        cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_held_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
