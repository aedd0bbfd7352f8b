/* test_run_pair.c - by how much two runs must differ: the pair's figure, both bands, the waits. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include "results/run_pair.h"

static const char on_a[] = "{\"cluster\":{\"hardware\":\"h\"},\"layout\":{\"backend\":\"m\","
                           "\"stack\":\"s\"},\"training\":{\"precision\":\"bf16\"}}";
static const char on_a_null[] = "{\"cluster\":{\"hardware\":\"h\"},\"layout\":{\"backend\":\"m\"},"
                                "\"training\":{\"precision\":\"bf16\"},\"policy\":null}";
static const char in_fp8[] = "{\"cluster\":{\"hardware\":\"h\"},\"layout\":{\"backend\":\"m\","
                             "\"stack\":\"s\"},\"training\":{\"precision\":\"fp8\"}}";
static const char on_b[] = "{\"cluster\":{\"hardware\":\"g\"},\"layout\":{\"backend\":\"m\","
                           "\"stack\":\"s\"},\"training\":{\"precision\":\"bf16\"}}";

static struct run_record make_run(const char *scenario, double amount, double pair,
                                  double waits_ms) {
    struct run_record run = run_record_empty();
    run.resolved_scenario = scenario;
    run.gpu_days = amount;
    run.step_time_mean_ms = 1000;
    run.band_fraction = 0.03;
    run.pair_band_fraction = pair;
    run.launch_wait_ms = run.launch_cost_ms = waits_ms;
    return run;
}

static void test_how_far_apart(void **state) {
    (void)state;
    static const struct {
        const char *name, *scenario;
        double amount, pair, first_ms, second_ms, predictions_log, waits_log;
        bool shared, sure;
    } cases[] = {
        { "beyond the pair's", on_a, 1.2, 0.1, 0, 0, 0.0953102, 0, true, true },
        { "inside it", on_a, 1.09, 0.1, 0, 0, 0.0953102, 0, true, false },
        { "less by as much", on_a, 0.92, 0.1, 0, 0, 0.0953102, 0, true, false },
        { "less by more", on_a, 0.90, 0.1, 0, 0, 0.0953102, 0, true, true },
        /* sqrt(2) of half of ln(1.03 / 0.97) */
        { "no pair's figure: both bands", on_a, 1.09, NAN, 0, 0, 0.0424391, 0, false, true },
        { "another GPU", on_b, 1.09, 0.03, 0, 0, 0.0424391, 0, false, true },
        { "no nearer than one GPU's", on_b, 1.09, 0.1, 0, 0, 0.0953102, 0, false, false },
        { "another precision", in_fp8, 1.09, 0.03, 0, 0, 0.0424391, 0, false, true },
        { "no stack in one", on_a_null, 1.09, 0.03, 0, 0, 0.0424391, 0, false, true },
        /* 0.12 of 1.2 against nothing of 1 */
        { "the waits make it", on_a, 1.2, 0.1, 0, 100, 0.0953102, 0.1133287, true, false },
        { "both wait", on_a, 1.2, 0.1, 120, 100, 0.0953102, 0, true, true },
        { "waits not told by the first", on_a, 1.2, 0.1, NAN, 0, 0.0953102, NAN, true, false },
        { "nor by the second", on_a, 1.2, 0.1, 0, NAN, 0.0953102, NAN, true, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct run_record a = make_run(on_a, 1, NAN, cases[i].first_ms),
                                b = make_run(cases[i].scenario, cases[i].amount, cases[i].pair,
                                             cases[i].second_ms);
        const struct run_pair_error error = run_pair_error(&a, a.gpu_days, &b, b.gpu_days);
        if (fabs(error.predictions_log - cases[i].predictions_log) > 1e-6 ||
            error.shared != cases[i].shared ||
            isnan(error.waits_log) != isnan(cases[i].waits_log) ||
            fabs(error.waits_log - cases[i].waits_log) > 1e-6 ||
            run_pair_is_sure(&error, cases[i].amount - 1) != cases[i].sure)
            fail_msg("%s: %.7g and %.7g", cases[i].name, error.predictions_log, error.waits_log);
    }
}

/* Traffic over PCIe takes 0.446 to 8.93 times what is predicted: at one speed where the GPU is the
 * same, else each at the speed that brings the two nearer. A run of before says nothing of it. */
static void test_pcie(void **state) {
    (void)state;
    static const struct {
        const char *second;
        double first_ms, second_ms, pcie_log;
        bool sure;
    } cases[] = {
        { on_a, 0, 0, 0, true },
        { on_a, NAN, NAN, 0, true },
        { on_a, 300, 300, 0, true },
        { on_a, 0, 100, 0.0569484, true }, /* -ln(1 - 0.1 x 0.554): fast brings them nearer */
        { on_a, 0, 400, 0.2502945, false },
        { on_a, 200, 0, 0.9500018, false }, /* ln(1 + 0.2 x 7.93): slow does */
        { on_a, 300, 200, 0.2674512, false },
        { on_b, 300, 300, 1.3990605, false },
        { on_b, 0, 100, 0.0569484, true },
        { on_a, 1000, 1000, 0, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run_record a = make_run(on_a, 1, NAN, 0), b = make_run(cases[i].second, 1.2, 0.1, 0);
        a.pcie_ms = cases[i].first_ms;
        b.pcie_ms = cases[i].second_ms;
        const struct run_pair_error error = run_pair_error(&a, 1, &b, 1.2),
                                    back = run_pair_error(&b, 1.2, &a, 1);
        if (fabs(error.pcie_log - cases[i].pcie_log) > 1e-6 ||
            run_pair_is_sure(&error, 0.2) != cases[i].sure || back.pcie_log != error.pcie_log)
            fail_msg("%g and %g: %.7g and %.7g back", a.pcie_ms, b.pcie_ms, error.pcie_log,
                     back.pcie_log);
    }
}

/* One that was stored before: all its communication, where its GPU is a card. */
static void test_pcie_of_old_runs(void **state) {
    (void)state;
    static const struct {
        const char *hardware;
        double pcie_log;
    } cases[] = { { "l40s-48g-pcie", 1.2174530 },
                  { "h100-94g-nvl", 1.2174530 },
                  { "h100-80g-sxm", 0 },
                  { "pcie", 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char scenario[80];
        snprintf(scenario, sizeof scenario, "{\"cluster\":{\"hardware\":\"%s\"}}",
                 cases[i].hardware);
        struct run_record a = make_run(scenario, 1, NAN, 0), b = make_run(scenario, 1.2, NAN, 0);
        a.pcie_ms = NAN;
        a.exposed_tensor_ms = 200;
        a.exposed_data_ms = 100;
        b.pcie_ms = 0;
        assert_true(fabs(run_pair_error(&a, 1, &b, 1.2).pcie_log - cases[i].pcie_log) < 1e-6);
    }
}

/* Bands of one kind that lie to one side differ by their widths alone; beside one that does not, the
 * distance of their middles counts as well. */
static void test_two_sides(void **state) {
    (void)state;
    struct run_record a = make_run(on_a, 1, NAN, 0), b = make_run(on_b, 2, NAN, 0);
    a.band_fraction = b.band_fraction = 0.9;
    a.band_below_fraction = b.band_below_fraction = 0.2;
    const double half = log(1.9 / 0.8) / 2, middle = log(1.9 * 0.8) / 2;
    struct run_pair_error error = run_pair_error(&a, 1, &b, 2);
    assert_true(fabs(error.predictions_log - sqrt(2) * half) < 1e-12);
    a.band_fraction = a.band_below_fraction = 0.1;
    error = run_pair_error(&a, 1, &b, 2);
    const double even = log(1.1 / 0.9) / 2, apart = middle - log(1.1 * 0.9) / 2;
    assert_true(fabs(error.predictions_log - apart - hypot(half, even)) < 1e-12);
    a.band_fraction = a.band_below_fraction = 1;
    error = run_pair_error(&a, 1, &b, 2);
    assert_false(run_pair_is_sure(&error, 1e6));
    /* nor where both reach down to nothing, or one is not known, whatever a pair's width is */
    a.pair_band_fraction = b.pair_band_fraction = 0.1;
    b.band_fraction = 1.4;
    b.band_below_fraction = 1;
    error = run_pair_error(&a, 1, &b, 2);
    assert_true(isinf(error.predictions_log) && !run_pair_is_sure(&error, 1e6));
    a.band_fraction = a.band_below_fraction = NAN;
    error = run_pair_error(&a, 1, &b, 2);
    assert_false(run_pair_is_sure(&error, 1e6));
    a.pair_band_fraction = b.pair_band_fraction = NAN;
    error = run_pair_error(&a, 1, &b, 2);
    assert_false(run_pair_is_sure(&error, 1e6));
}

static void test_stacks(void **state) {
    (void)state;
    const struct run_record a = make_run(on_a, 1, 0, 0), same = make_run(on_a, 2, 0, 0),
                            null = make_run(on_a_null, 1, 0, 0), none = make_run(NULL, 1, 0, 0);
    assert_true(run_pair_same_stack(&a, &same));
    assert_true(run_pair_same_stack(&null, &null));
    assert_false(run_pair_same_stack(&a, &null));
    assert_false(run_pair_same_stack(&none, &none)); /* nobody knows */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_how_far_apart),    cmocka_unit_test(test_pcie),
        cmocka_unit_test(test_pcie_of_old_runs), cmocka_unit_test(test_two_sides),
        cmocka_unit_test(test_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
