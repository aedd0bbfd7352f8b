/* test_goodput.c - Daly's equations against their limits, against a simulation of failures, and as
 * the best of all intervals. */
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
static double simulate(struct random_mt *mt, double mtbf, double interval, double checkpoint,
                       double restart, int64_t segments) {
    double now = 0, failure = exponential(mt, mtbf);
    for (int64_t done = 0; done < segments;) {
        if (now + interval + checkpoint <= failure) {
            now += interval + checkpoint;
            done++;
            continue;
        }
        do { /* a failure during the restart begins it anew */
            now = failure;
            failure = now + exponential(mt, mtbf);
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
        struct random_mt mt;
        random_mt_seed(&mt, 1);
        double want = SEGMENTS * cases[i].interval /
                      simulate(&mt, cases[i].mtbf, cases[i].interval, cases[i].checkpoint,
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

/* A training that is not longer than the interval is one segment, and nothing is written. */
static void test_a_training_shorter_than_its_interval(void **state) {
    (void)state;
    const double mtbf = 172800, useful = 126000; /* 35 h with a failure every 48 h */
    static const double minutes[] = { 2100, 6000, 100000 };
    for (size_t i = 0; i < 3; i++) {
        const struct goodput_loss loss = { mtbf, minutes[i] * 60, 30, 900 };
        const struct goodput got = goodput_of_training(&loss, useful);
        const double want = useful / (mtbf * exp(900 / mtbf) * (exp(useful / mtbf) - 1));
        assert_true(fabs(got.fraction / want - 1) < 1e-12 && isinf(got.interval_s));
    }
    const struct goodput_loss loss = { mtbf, 600 * 60, 30, 900 };
    const struct goodput got = goodput_of_training(&loss, useful);
    assert_true(got.interval_s == 36000);
    assert_true(fabs(got.fraction / goodput_fraction(mtbf, 36000, 30, 900) - 1) < 1e-12);
    /* A minute: one failure in 2880 of them. */
    assert_true(goodput_of_training(&loss, 60).fraction > 0.99);
    /* Without an interval, none is better than the best of a long training. */
    const struct goodput_loss best = { mtbf, NAN, 30, 900 };
    assert_true(isinf(goodput_of_training(&best, 2000).interval_s));
    for (double useful_s = 60; useful_s < 1e7; useful_s *= 1.3)
        for (double interval = 30; interval < 1e6; interval *= 1.1) {
            const struct goodput_loss other = { mtbf, interval, 30, 900 };
            const double least = goodput_of_training(&best, useful_s).fraction;
            if (goodput_of_training(&other, useful_s).fraction > least * 1.0002)
                fail_msg("%g s at intervals of %g s lose less", useful_s, interval);
        }
}

/* How far trainings of a few segments lie from their mean, failure by failure. */
static void test_the_deviation_against_a_simulation(void **state) {
    (void)state;
    static const struct {
        double mtbf, interval, checkpoint, restart;
        int64_t segments;
    } cases[] = {
        { 10000, 600, 30, 300, 50 },
        { 1000, 500, 10, 800, 20 },
        { 3600, 900, 60, 0, 8 },
        { 5000, 4000, 0, 900, 1 },
    };
    enum { TRAININGS = 20000 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct random_mt mt;
        random_mt_seed(&mt, 7);
        double sum = 0, squares = 0;
        for (int n = 0; n < TRAININGS; n++) {
            const double one = simulate(&mt, cases[i].mtbf, cases[i].interval, cases[i].checkpoint,
                                        cases[i].restart, cases[i].segments);
            sum += one;
            squares += one * one;
        }
        const double mean = sum / TRAININGS,
                     want = sqrt((squares - sum * mean) / (TRAININGS - 1));
        const double useful = cases[i].interval * (double)cases[i].segments;
        const struct goodput_loss loss = { cases[i].mtbf, cases[i].interval, cases[i].checkpoint,
                                           cases[i].restart };
        const double got = goodput_deviation_s(&loss, useful);
        if (fabs(got / want - 1) > 0.04) fail_msg("case %zu: got %g s, want %g s", i, got, want);
    }
    /* Hardly any failures: hardly any chance. */
    const struct goodput_loss rare = { 1e12, 600, 30, 300 };
    assert_true(goodput_deviation_s(&rare, 6e5) < 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_simulation),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_the_best_interval),
        cmocka_unit_test(test_a_training_shorter_than_its_interval),
        cmocka_unit_test(test_the_deviation_against_a_simulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
