/* test_comparison.c - hand-made runs whose differences are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "sim/study/comparison.h"

enum { STEPS = 4 };

static const char setup_a[] = "{\"model\":{\"name\":\"m\"},\"dataset\":{\"name\":\"d\"},"
                              "\"cluster\":{\"hardware\":\"h\",\"gpu_count\":8},"
                              "\"layout\":{\"backend\":\"a\"}}";
static const char setup_b[] = "{\"model\":{\"name\":\"n\"},\"dataset\":{\"name\":\"e\"},"
                              "\"cluster\":{\"hardware\":\"g\",\"gpu_count\":16},"
                              "\"layout\":{\"backend\":\"b\"}}";

/* The first one's job, elsewhere. */
static const char setup_c[] = "{\"model\":{\"name\":\"m\"},\"dataset\":{\"name\":\"d\"},"
                              "\"cluster\":{\"hardware\":\"g\",\"gpu_count\":16},"
                              "\"layout\":{\"backend\":\"b\"}}";

/* Mean step 1000 ms x factor, 10 GPU-days x factor; steps of 900, 1100, 1000 and 1000 ms x
 * factor. */
static struct comparison_run make_run(struct iteration_record *steps, double factor, double band,
                                      int64_t tokens) {
    static const double ms[STEPS] = { 900, 1100, 1000, 1000 };
    struct comparison_run run = { .label = "run", .iteration_count = STEPS, .iterations = steps };
    run.record = run_record_empty();
    for (int i = 0; i < STEPS; i++)
        steps[i] = (struct iteration_record){ .iteration_index = i,
                                              .step_time_ns = (int64_t)(ms[i] * 1e6 * factor + 0.5),
                                              .sample_count = 16,
                                              .useful_language_tokens = tokens + i };
    struct run_record *r = &run.record;
    r->step_time_mean_ms = 1000 * factor;
    r->gpu_days = 10 * factor;
    r->band_fraction = band;
    r->pair_band_fraction = expm1(0.121);
    r->launch_wait_ms = r->launch_cost_ms = 0;
    r->compute_ms = 400;
    r->padding_ms = 50;
    r->recompute_ms = 100;
    r->launch_wait_ms = 0;
    r->update_ms = 10;
    r->exposed_tensor_ms = 40;
    r->exposed_pipeline_ms = 20;
    r->exposed_data_ms = 30;
    r->bubble_ms = 60;
    r->stage_imbalance_ms = 70;
    r->rank_imbalance_ms = 80;
    r->verdict = "fits";
    r->resolved_scenario = setup_a;
    /* What is left: the parts sum to the step. */
    r->time_imbalance_ms = 1000 * factor - 860;
    return run;
}

static const struct {
    const char *name;
    double factor, band;
    int64_t tokens;
    bool paired;
    double confidence;
    enum comparison_verdict verdict;
    const char *fit, *backend; /* of the second run; the first fits and is on "a" */
    double pair;               /* of both; 0: 0.121 */
} cases[] = {
    /* Per step of the 0.85 case 1.35, 1.65, 1.5, 1.5 GPU-days apart: deviation of the mean
     * sqrt(0.045 / 3 / 4), 24.5 of which make the difference of 1.5; Student's t with 3 degrees of
     * freedom. */
    { "same steps, beyond what pairs err", 0.85, 0.05, 1000, true, 0.999925, COMPARISON_SURE,
      "fits", "a", 0 },
    { "a wide band that is common", 0.85, 0.20, 1000, true, 0.999925, COMPARISON_SURE, "fits", "a",
      0 },
    { "less than pairs err: ln 0.888 = -0.119", 0.888, 0.05, 1000, true, 0.999925,
      COMPARISON_LIKELY, "fits", "a", 0 },
    { "beyond the common band: runs stored without a pair's", 0.85, 0.05, 1000, true, 0.999925,
      COMPARISON_SURE, "fits", "a", NAN },
    { "inside it", 0.85, 0.20, 1000, true, 0.999925, COMPARISON_LIKELY, "fits", "a", NAN },
    { "pairs of a stack without a calibration", 0.85, 0.05, 1000, true, 0.999925, COMPARISON_LIKELY,
      "fits", "a", 0.17 },
    { "another stack, beyond both bands", 0.5, 0.05, 1000, true, 0.999925, COMPARISON_SURE, "fits",
      "b", 0 },
    { "another stack, inside them", 0.85, 0.20, 1000, true, 0.999925, COMPARISON_LIKELY, "fits",
      "b", 0 },
    { "does not fit", 0.5, 0.05, 1000, true, 0.999925, COMPARISON_OPEN, "out of memory", "a", 0 },
    /* Deviations of the means apart: sqrt(2 / 12 + 1.62 / 12), 1.8207 of which make it; 5.9346
     * degrees of freedom by Welch and Satterthwaite (the other case 5.4289). */
    { "other steps", 0.9, 0.05, 5000, false, 0.940476, COMPARISON_OPEN, "fits", "a", 0 },
    { "slower, other steps", 1.4, 0.05, 5000, false, 0.999112, COMPARISON_SURE, "tight", "a", 0 },
    { "another model", 0.5, 0.05, 1000, true, 0.999925, COMPARISON_DIFFERENT_JOBS, "fits", "m", 0 },
    { "the same run", 1, 0.05, 1000, true, 0.5, COMPARISON_OPEN, "fits", "a", 0 },
};

static void test_known_differences(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct iteration_record a[STEPS], b[STEPS];
        struct comparison_run runs[2] = {
            make_run(a, 1, 0.01, 1000), make_run(b, cases[k].factor, cases[k].band, cases[k].tokens)
        };
        runs[1].record.verdict = cases[k].fit;
        if (cases[k].pair != 0)
            runs[0].record.pair_band_fraction = runs[1].record.pair_band_fraction =
                expm1(cases[k].pair);
        runs[1].record.resolved_scenario = cases[k].backend[0] == 'a'   ? setup_a
                                           : cases[k].backend[0] == 'b' ? setup_c
                                                                        : setup_b;
        struct comparison_row rows[2];
        comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
        const struct comparison_row *row = &rows[1];
        assert_int_equal(row->fits, strcmp(cases[k].fit, "out of memory") != 0);
        if (fabs(row->confidence_fraction - cases[k].confidence) > 1e-6)
            fail_msg("%s: confidence %.7f, want %.7f", cases[k].name, row->confidence_fraction,
                     cases[k].confidence);
        if (row->paired != cases[k].paired || row->verdict != cases[k].verdict)
            fail_msg("%s: got %s%s", cases[k].name, comparison_verdict_name(row->verdict),
                     row->paired ? ", paired" : "");
        /* Nine in ten where a difference is just sure; a toss-up where there is none. */
        const double logs = fabs(log1p(row->delta_fraction)) / row->may_err_log;
        assert_true(row->order_fraction >= 0.5 && row->order_fraction <= 1);
        assert_true((row->order_fraction > 0.9) == (logs > 1));
        assert_true((row->order_fraction == 0.5) == (logs == 0));
        assert_true(fabs(row->gpu_days - 10 * cases[k].factor) < 1e-12);
        assert_true(fabs(row->speedup - 1 / cases[k].factor) < 1e-12);
        assert_true(fabs(row->delta_fraction - (cases[k].factor - 1)) < 1e-12);
        /* The interval lies around the difference, and leaves zero out where that is likely. */
        double half = row->delta_high_fraction - row->delta_fraction;
        assert_true(fabs(row->delta_fraction - row->delta_low_fraction - half) < 1e-12);
        assert_true((fabs(row->delta_fraction) > half) == (row->confidence_fraction > 0.975));
        /* The reference against itself. */
        assert_true(rows[0].speedup == 1 && rows[0].delta_fraction == 0);
        assert_int_equal(rows[0].verdict, COMPARISON_OPEN);
    }
}

/* What waits for the host's launches differ by is no sure difference; what they share is none. */
static void test_waits_for_launches(void **state) {
    (void)state;
    static const struct {
        double first_ms, second_ms, may_err_log;
        enum comparison_verdict verdict;
    } waits[] = {
        { 0, 0, 0.121, COMPARISON_SURE },
        { 300, 300, 0.121, COMPARISON_SURE },
        { 300, 0, 0.121 - -0.356675, COMPARISON_LIKELY }, /* ln 0.7 */
        { 0, 300, 0.121 + 0.262364, COMPARISON_LIKELY },  /* ln 1.3, the wrong way */
        { NAN, NAN, 0.121, COMPARISON_LIKELY },           /* stored before they were told */
        { 0, NAN, 0.121, COMPARISON_LIKELY },
        { NAN, 0, 0.121, COMPARISON_LIKELY },
    };
    for (size_t k = 0; k < sizeof waits / sizeof waits[0]; k++) {
        struct iteration_record a[STEPS], b[STEPS];
        struct comparison_run runs[2] = { make_run(a, 1, 0.01, 1000),
                                          make_run(b, 0.7, 0.01, 1000) };
        runs[0].record.launch_cost_ms = waits[k].first_ms;
        runs[1].record.launch_cost_ms = waits[k].second_ms;
        struct comparison_row rows[2];
        comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
        if (fabs(rows[1].may_err_log - waits[k].may_err_log) > 1e-6 ||
            rows[1].verdict != waits[k].verdict)
            fail_msg("%g and %g ms: %g, %s", waits[k].first_ms, waits[k].second_ms,
                     rows[1].may_err_log, comparison_verdict_name(rows[1].verdict));
    }
}

/* What a run communicates over PCIe is said, and counts as an error of the difference. */
static void test_pcie(void **state) {
    (void)state;
    struct iteration_record a[STEPS], b[STEPS];
    struct comparison_run runs[2] = { make_run(a, 1, 0.01, 1000), make_run(b, 0.7, 0.01, 1000) };
    struct comparison_row rows[2];
    struct arena *arena = arena_create();
    runs[0].record.pcie_ms = 600;
    runs[1].record.pcie_ms = 7;
    runs[0].record.resolved_scenario = runs[1].record.resolved_scenario =
        "{\"cluster\":{\"hardware\":\"h\"}}";
    comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
    assert_true(fabs(rows[1].pcie_log -
                     log((1 - 0.01 * (1 - 12.5 / 28)) / (1 - 0.6 * (1 - 12.5 / 28)))) < 1e-9);
    assert_int_equal(rows[1].verdict, COMPARISON_LIKELY);
    const char **warnings = comparison_warnings(runs, 2, arena);
    assert_non_null(warnings[0]);
    assert_non_null(strstr(warnings[0], "60 % of a step of run 1 is communication"));
    assert_null(warnings[1]);
    arena_destroy(arena);
}

/* Eight steps of 1000 to 1700 ms x factor, the longer the more they hold, in another order.
 * Variance of a step 60000 ms^2; half the mean square of what neighbours in contents differ by,
 * 5000 ms^2. */
enum { BIN_STEPS = 8 };

static struct comparison_run make_bins(struct iteration_record *steps, double factor, double share,
                                       int64_t tokens) {
    static const int order[BIN_STEPS] = { 3, 0, 7, 5, 1, 6, 2, 4 };
    struct comparison_run run = make_run(steps, 1, 0.01, 0);
    run.iteration_count = BIN_STEPS;
    for (int i = 0; i < BIN_STEPS; i++)
        steps[i] = (struct iteration_record){
            .iteration_index = i,
            .step_time_ns = (int64_t)((1000 + 100 * order[i]) * 1e6 * factor + 0.5),
            .sample_count = 16,
            .useful_language_tokens = 1000 + 500 * order[i],
            .vision_tiles = tokens + 10 * order[i],
        };
    run.record.step_time_mean_ms = 1350 * factor;
    run.record.gpu_days = 13.5 * factor;
    run.record.total_days = BIN_STEPS / share * 1.350 * factor / 86400;
    return run;
}

static const struct {
    const char *name;
    double share; /* of the epoch's steps that were replayed */
    bool paired;
    double confidence; /* of 13.5 against 12.15 GPU-days */
} bins[] = {
    /* Degrees of freedom 7 (1 - share / 3); those of Welch and Satterthwaite where not paired. */
    { "the whole epoch: bins of length are no chance", 1, false, 0.9985533 },
    { "half of it: half of what contents explain is", 0.5, false, 0.9287943 },
    { "a few steps: all of it is", 1e-9, false, 0.8669107 },
    { "same steps of the whole epoch", 1, true, 0.9999999477 },
    { "a few, the same", 1e-9, true, 0.9999994596 },
};

static void test_contents_are_data(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof bins / sizeof bins[0]; k++) {
        struct iteration_record a[BIN_STEPS], b[BIN_STEPS];
        struct comparison_run runs[2] = { make_bins(a, 1, bins[k].share, 20),
                                          make_bins(b, 0.9, bins[k].share, 20) };
        if (!bins[k].paired)
            for (int i = 0; i < BIN_STEPS; i++)
                b[i].useful_language_tokens++;
        struct comparison_row rows[2];
        comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
        assert_int_equal(rows[1].paired, bins[k].paired);
        if (fabs(rows[1].confidence_fraction - bins[k].confidence) >
            1e-7 * (bins[k].paired ? 1e-2 : 1))
            fail_msg("%s: confidence %.10f, want %.10f", bins[k].name, rows[1].confidence_fraction,
                     bins[k].confidence);
        /* Of an open order the part that was not replayed may tell; of the reference nothing. */
        const bool open = rows[1].verdict == COMPARISON_OPEN;
        assert_int_equal(rows[1].more_steps_may_tell, open && bins[k].share < 1);
        assert_int_equal(comparison_more_steps_may_tell(rows, 2), rows[1].more_steps_may_tell);
        assert_false(rows[0].more_steps_may_tell);
    }
}

static const struct {
    double left_out[2];
    enum comparison_verdict verdict;
    int warnings;
} shares[] = {
    { { 0, 0.388 }, COMPARISON_DIFFERENT_JOBS, 1 },
    { { 0.388, 0 }, COMPARISON_DIFFERENT_JOBS, 1 },
    { { 0.388, 0.388 }, COMPARISON_SURE, 0 },
    { { 0, 0.009 }, COMPARISON_SURE, 0 }, /* a last group that is not full */
    { { NAN, 0 }, COMPARISON_SURE, 0 },   /* of an older database */
};

static void test_another_share_of_the_samples_saves_nothing(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    for (size_t k = 0; k < sizeof shares / sizeof shares[0]; k++) {
        struct iteration_record a[STEPS], b[STEPS];
        struct comparison_run runs[2] = { make_run(a, 1, 0.05, 1), make_run(b, 0.6, 0.05, 1) };
        runs[0].record.left_out_fraction = shares[k].left_out[0];
        runs[1].record.left_out_fraction = shares[k].left_out[1];
        struct comparison_row rows[2];
        comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
        assert_int_equal(rows[1].verdict, shares[k].verdict);
        const char **warnings = comparison_warnings(runs, 2, arena);
        int count = 0;
        while (warnings[count] != NULL)
            count++;
        assert_int_equal(count, shares[k].warnings);
    }
    arena_destroy(arena);
}

static void test_parts_sum_to_the_whole(void **state) {
    (void)state;
    struct iteration_record a[STEPS], b[STEPS];
    struct comparison_run runs[2] = { make_run(a, 1, 0.1, 1), make_run(b, 0.9, 0.1, 1) };
    struct comparison_row rows[2];
    comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
    for (int k = 0; k < 2; k++) {
        double sum = 0, delta = 0;
        for (int part = 0; part < COMPARISON_PARTS; part++) {
            sum += rows[k].parts_gpu_days[part];
            delta += rows[k].parts_delta_gpu_days[part];
        }
        assert_true(fabs(sum - rows[k].gpu_days) < 1e-12);
        assert_true(fabs(delta - (rows[k].gpu_days - rows[0].gpu_days)) < 1e-12);
    }
    /* 400 of 1000 ms of 10 GPU-days; the same 400 ms in a step of 900 ms of 9 GPU-days. */
    assert_string_equal(comparison_part_names[0], "compute");
    assert_true(fabs(rows[0].parts_gpu_days[0] - 4) < 1e-12);
    assert_true(fabs(rows[1].parts_gpu_days[0] - 4) < 1e-12);
    for (int part = 0; part < COMPARISON_PARTS; part++)
        if (strcmp(comparison_part_names[part], "imbalance over time") == 0)
            assert_true(fabs(rows[1].parts_delta_gpu_days[part] + 1) < 1e-12);
}

/* 10 GPU-days of which a fifth goes to failures, on 8 GPUs with one failure an hour. */
static const char setup_failing[] =
    "{\"model\":{\"name\":\"m\"},\"dataset\":{\"name\":\"d\"},\"cluster\":{\"hardware\":\"h\","
    "\"gpu_count\":8},\"layout\":{\"backend\":\"a\"},\"what_if\":{\"gpu_mtbf_hours\":8,"
    "\"checkpoint_interval_min\":10,\"checkpoint_s\":0,\"restart_min\":0}}";

static void test_failures_are_a_part_and_a_chance(void **state) {
    (void)state;
    struct iteration_record a[STEPS], b[STEPS];
    struct comparison_run runs[2] = { make_run(a, 1, 0.1, 1), make_run(b, 1, 0.1, 1) };
    for (int k = 0; k < 2; k++)
        runs[k].record.total_days = 10.0 / 8;
    runs[1].record.total_days = 12.5 / 8;
    runs[1].record.gpu_days = 12.5;
    runs[1].record.goodput_fraction = 0.8;
    runs[1].record.resolved_scenario = setup_failing;
    struct comparison_row rows[2];
    comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
    const int last = COMPARISON_PARTS - 1;
    assert_string_equal(comparison_part_names[last], "checkpoints and failures");
    for (int part = 0; part < last; part++)
        assert_true(fabs(rows[1].parts_delta_gpu_days[part]) < 1e-12);
    assert_true(fabs(rows[1].parts_delta_gpu_days[last] - 2.5) < 1e-12);
    /* The steps are the same to the nanosecond; 180 stretches of 10 min are not: each has mean
     * M (exp(x) - 1) and variance M^2 (exp(2 x) - 2 x exp(x) - 1), here with x = 1 / 6. */
    const double x = 1.0 / 6, hours = sqrt(180 * (exp(2 * x) - 2 * x * exp(x) - 1));
    const double half = 1.959964 * hours / 24 * 8 / 10;
    assert_true(fabs(rows[1].delta_fraction - 0.25) < 1e-12);
    if (fabs((rows[1].delta_high_fraction - 0.25) / half - 1) > 0.2)
        fail_msg("half an interval is %g, of failures alone %g", rows[1].delta_high_fraction - 0.25,
                 half);
    assert_true(rows[1].delta_high_fraction - 0.25 >= half);
}

/* One step tells nothing about randomness. */
static void test_one_step_is_open(void **state) {
    (void)state;
    struct iteration_record a[STEPS], b[STEPS];
    struct comparison_run runs[2] = { make_run(a, 1, 0.01, 1), make_run(b, 0.5, 0.01, 1) };
    runs[0].iteration_count = runs[1].iteration_count = 1;
    struct comparison_row rows[2];
    comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
    assert_true(rows[1].paired);
    assert_int_equal(rows[1].verdict, COMPARISON_OPEN);
    /* Other numbers of steps are not the same steps. */
    runs[1].iteration_count = STEPS;
    comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
    assert_false(rows[1].paired);
    assert_int_equal(rows[1].verdict, COMPARISON_OPEN);
}

/* Nothing that does not fit is faster, and nothing is faster than it. */
static void test_a_reference_that_does_not_fit(void **state) {
    (void)state;
    struct iteration_record a[STEPS], b[STEPS];
    struct comparison_run runs[2] = { make_run(a, 1, 0.01, 1), make_run(b, 0.5, 0.01, 1) };
    runs[0].record.verdict = "out of memory";
    struct comparison_row rows[2];
    comparison_make(runs, 2, COMPARISON_GPU_DAYS, rows);
    assert_int_equal(rows[1].verdict, COMPARISON_OPEN);
    assert_true(rows[1].fits && !rows[0].fits);
}

static void test_warnings(void **state) {
    (void)state;
    struct iteration_record a[STEPS], b[STEPS], c[STEPS];
    struct comparison_run runs[3] = { make_run(a, 1, 0.01, 1), make_run(b, 0.5, 0.01, 1),
                                      make_run(c, 0.5, 0.01, 1) };
    struct arena *arena = arena_create();
    assert_null(comparison_warnings(runs, 3, arena)[0]);
    runs[2].record.resolved_scenario = setup_b;
    for (int i = 0; i < STEPS; i++)
        c[i].sample_count = 17; /* 16 + 6 % */
    b[0].sample_count = 18;     /* 16.5 on average, + 3 % */
    static const char *const want[] = {
        "run 3 has another model than run 1: n, not m",
        "run 3 has another data set than run 1: e, not d",
        "run 3 has another hardware than run 1: g, not h",
        "run 3 has another number of GPUs than run 1: 16, not 8",
        "steps of run 3 hold 17.0 samples, those of run 1 16.0",
        NULL,
    };
    const char **got = comparison_warnings(runs, 3, arena);
    for (int i = 0; want[i] != NULL; i++) {
        assert_non_null(got[i]);
        assert_string_equal(got[i], want[i]);
    }
    assert_null(got[5]);
    arena_destroy(arena);
}

/* Twice the GPU-days at a quarter of the price: half the money, the steps the same and the share of
 * chance too. */
static void test_money_has_an_order_of_its_own(void **state) {
    (void)state;
    struct iteration_record steps[2][STEPS];
    struct comparison_run runs[2] = { make_run(steps[0], 1, 0.05, 1000),
                                      make_run(steps[1], 2, 0.05, 1000) };
    struct comparison_row work[2], money[2];
    runs[0].record.money_usd = 400;
    assert_false(comparison_prices_differ(runs, 2)); /* the second has none */
    runs[1].record.money_usd = 800;
    assert_false(comparison_prices_differ(runs, 2));
    runs[1].record.money_usd = 200;
    assert_true(comparison_prices_differ(runs, 2));
    comparison_make(runs, 2, COMPARISON_GPU_DAYS, work);
    comparison_make(runs, 2, COMPARISON_MONEY, money);
    assert_true(fabs(work[1].delta_fraction - 1) < 1e-12);
    assert_true(fabs(money[1].delta_fraction + 0.5) < 1e-12);
    /* Each step differs by half of the reference's: the interval is half as wide. */
    const double of_work = work[1].delta_high_fraction - work[1].delta_fraction,
                 of_money = money[1].delta_high_fraction - money[1].delta_fraction;
    assert_true(of_work > 0 && fabs(of_money - 0.5 * of_work) < 1e-9);
    assert_int_equal(money[1].verdict, COMPARISON_SURE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pcie),
        cmocka_unit_test(test_known_differences),
        cmocka_unit_test(test_waits_for_launches),
        cmocka_unit_test(test_contents_are_data),
        cmocka_unit_test(test_another_share_of_the_samples_saves_nothing),
        cmocka_unit_test(test_parts_sum_to_the_whole),
        cmocka_unit_test(test_failures_are_a_part_and_a_chance),
        cmocka_unit_test(test_one_step_is_open),
        cmocka_unit_test(test_a_reference_that_does_not_fit),
        cmocka_unit_test(test_money_has_an_order_of_its_own),
        cmocka_unit_test(test_warnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
