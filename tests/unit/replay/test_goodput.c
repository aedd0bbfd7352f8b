/* test_goodput.c - Daly's equations against their limits, against a simulation of failures, and as the
 * best of all intervals. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include "sim/base/random.h"
#include "sim/replay/goodput.h"

static double exponential(struct random_mt *mt, double mean) {
    return -mean * log(1 - random_mt_uniform(mt));
}

/* Time until so many segments are done, failure by failure. */
static double simulate(double mtbf, double interval, double checkpoint, double restart,
                       int64_t segments) {
    struct random_mt mt;
    random_mt_seed(&mt, 1);
    double now = 0, failure = exponential(&mt, mtbf);
    for (int64_t done = 0; done < segments;) {
        if (now + interval + checkpoint <= failure) {
            now += interval + checkpoint;
            done++;
            continue;
        }
        do { /* a failure during the restart begins it anew */
            now = failure;
            failure = now + exponential(&mt, mtbf);
        } while (now + restart > failure);
        now += restart;
    }
    return now;
}

static void test_against_a_simulation(void **state) {
    (void)state;
    static const struct {
        double mtbf, interval, checkpoint, restart;
    } cases[] = {
        { 10000, 600, 30, 300 },
        { 3600, 900, 60, 900 },
        { 1000, 500, 10, 800 },
        { 100000, 100, 50, 0 },
    };
    enum { SEGMENTS = 400000 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double want = SEGMENTS * cases[i].interval /
                      simulate(cases[i].mtbf, cases[i].interval, cases[i].checkpoint,
                               cases[i].restart, SEGMENTS);
        double got = goodput_fraction(cases[i].mtbf, cases[i].interval, cases[i].checkpoint,
                                      cases[i].restart);
        if (fabs(got / want - 1) > 0.01) fail_msg("case %zu: got %g, want %g", i, got, want);
    }
}

static void test_limits(void **state) {
    (void)state;
    /* Hardly any failures: only the checkpoints cost. */
    assert_true(fabs(goodput_fraction(1e15, 900, 100, 600) - 0.9) < 1e-6);
    assert_true(fabs(goodput_fraction(1e15, 900, 0, 600) - 1) < 1e-6);
    /* Few: half a segment and a restart are lost with each. */
    double few = goodput_fraction(1e6, 1000, 0, 500);
    assert_true(fabs(1 / few - (1 + (500.0 + 500.0) / 1e6)) < 1e-6);
    /* Young's interval, sqrt(2 x checkpoint x mtbf), when failures are rare. */
    assert_true(fabs(goodput_best_interval_s(1e9, 10) / sqrt(2 * 10 * 1e9) - 1) < 1e-3);
    assert_true(goodput_best_interval_s(100, 300) == 100);
    assert_true(goodput_best_interval_s(1e5, 0) == 1);
}

static void test_the_best_interval(void **state) {
    (void)state;
    static const double mtbf[] = { 2000, 10000, 1e6 };
    for (size_t i = 0; i < 3; i++) {
        double best = goodput_best_interval_s(mtbf[i], 60);
        double at = goodput_fraction(mtbf[i], best, 60, 300);
        for (double factor = 0.25; factor < 4.1; factor *= 1.1) {
            double other = goodput_fraction(mtbf[i], best * factor, 60, 300);
            if (other > at * 1.0002)
                fail_msg("mtbf %g: %g at the best interval, %g at %g of it", mtbf[i], at, other,
                         factor);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_simulation),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_the_best_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
