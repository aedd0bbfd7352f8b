/* test_training_peak.c - the peak of a training of many epochs, from one: against the epochs
 * themselves, and where the samples set a bound. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>

enum { SEEDS = 24 };

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 2000, 5);
    return 0;
}

/* Of draws whose law is known: e^-x above 0, so that the median of the largest of N is ln(N / ln
 * 2).
 */
static void test_known_law(void **state) {
    (void)state;
    enum { COUNT = 1600, TRIALS = 50 };
    double likely = 0, high = 0;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        struct random_mt mt;
        random_mt_seed(&mt, trial);
        double peaks[COUNT];
        for (int i = 0; i < COUNT; i++)
            peaks[i] = -log(1 - random_mt_uniform(&mt));
        const struct training_peak peak = training_peak_of(peaks, COUNT, 100.0 * COUNT);
        assert_true(peak.likely_bytes >= peaks[COUNT - 1]); /* sorted by now */
        assert_true(peak.high_bytes >= peak.likely_bytes);
        likely += peak.likely_bytes / TRIALS;
        high += peak.high_bytes / TRIALS;
    }
    assert_float_equal(likely, log(100.0 * COUNT / -log(0.5)), 0.5);
    assert_float_equal(high, log(100.0 * COUNT / -log(0.9)), 0.6);
}

static void test_few_and_equal_ones(void **state) {
    (void)state;
    double few[] = { 3, 1, 2 }, equal[] = { 7, 7 }, one[] = { 7 };
    assert_true(isnan(training_peak_of(few, 3, 1e6).likely_bytes));
    assert_true(training_peak_of(equal, 2, 1e6).high_bytes == 7);
    assert_true(isnan(training_peak_of(one, 1, 1e6).high_bytes));
}

static double peak_of(const struct replay *replay) {
    return stage_memory_device(&replay->stages[replay->verdict_stage].peak);
}

static struct replay *replay_seed(const char *const *overrides, int seed, int epochs) {
    const char *all[12];
    char seeded[32], trained[32];
    int count = 0;
    for (; overrides[count] != NULL; count++)
        all[count] = overrides[count];
    snprintf(seeded, sizeof seeded, "simulate.seed=%d", seed);
    snprintf(trained, sizeof trained, "training.epochs=%d", epochs);
    all[count] = seeded;
    all[count + 1] = trained;
    all[count + 2] = NULL;
    struct scenario *s = fixture_scenario("samples.csv", all);
    struct job *job = fixture_job(s);
    struct replay *replay = fixture_replay(job, FIDELITY_STAGE, 1);
    job_destroy(job);
    scenario_destroy(s);
    return replay;
}

/* Each seed is an epoch of a training of so many: none that it foresees is far from the largest. */
static void test_epochs_themselves(void **state) {
    (void)state;
    static const struct {
        const char *name, *overrides[8];
    } cases[] = {
        { "random", { "policy.recompute=none", "training.micro_batch.samples=4", NULL } },
        { "pp 1", { "layout.pp=1", "training.micro_batch.samples=4", NULL } },
        { "four stages",
          { "policy.recompute=none", "layout.pp=4", "layout.tp=1", "training.micro_batch.samples=2",
            NULL } },
        { "packed",
          { "policy.batching={\"name\":\"isf\",\"qv\":9,\"qt\":4096}", "policy.recompute=none",
            "training.global_batch={\"micro_batches\":8}", NULL } },
        { "filled",
          { "policy.batching={\"name\":\"pack\",\"tokens\":4096}", "policy.recompute=none",
            "training.global_batch={\"micro_batches\":8}", NULL } },
        { "sorted by length",
          { "policy.batching=length-group", "policy.recompute=none",
            "training.micro_batch.samples=4", NULL } },
    };
    size_t count = sizeof cases / sizeof cases[0];
#ifdef __SANITIZE_ADDRESS__
    count = 2;
#endif
    for (size_t k = 0; k < count; k++) {
        double most = 0, likely = 0;
        for (int seed = 1; seed <= SEEDS; seed++) {
            struct replay *replay = replay_seed(cases[k].overrides, seed, SEEDS);
            most = fmax(most, peak_of(replay));
            likely += replay->training.likely_bytes / SEEDS;
            assert_true(replay->training.likely_bytes >= peak_of(replay));
            if (replay->training.bound_bytes < most)
                fail_msg("%s: %g is no bound of %g", cases[k].name, replay->training.bound_bytes,
                         most);
            assert_true(replay->training.high_bytes <= replay->training.bound_bytes);
            replay_destroy(replay);
        }
        if (!(likely > 0.97 * most && likely < 1.10 * most))
            fail_msg("%s: of %d epochs the fullest needs %g, foreseen were %g", cases[k].name,
                     SEEDS, most, likely);
    }
}

/* One step tells nothing of the others but by the samples: a bound, or that they are all equal. */
static void test_one_step(void **state) {
    (void)state;
    static const char *const overrides[] = { "policy.recompute=none", "simulate.iterations=1",
                                             NULL };
    struct replay *one = replay_seed(overrides, 1, 3);
    assert_true(isnan(one->training.likely_bytes));
    assert_true(one->training.bound_bytes > peak_of(one));
    assert_true(isfinite(one->training.bound_bytes));
    replay_destroy(one);
    fixture_write("equal.csv", "vision_tiles,language_tokens\n");
    FILE *file = fopen(fixture_path("equal.csv"), "a");
    for (int i = 0; i < 200; i++)
        fputs("3,1024\n", file);
    fclose(file);
    struct scenario *s = fixture_scenario("equal.csv", overrides);
    struct job *job = fixture_job(s);
    struct replay *equal = fixture_replay(job, FIDELITY_STAGE, 1);
    assert_true(fabs(equal->training.high_bytes / peak_of(equal) - 1) < 1e-6);
    replay_destroy(equal);
    job_destroy(job);
    scenario_destroy(s);
}

/* The verdict is the training's: with more epochs it can only get worse. */
static void test_verdict(void **state) {
    (void)state;
    static const char *const overrides[] = { "policy.recompute=none",
                                             "training.micro_batch.samples=4", NULL };
    double before = 0;
    enum verdict worst = VERDICT_FITS;
    for (int epochs = 1; epochs <= 10000; epochs *= 100) {
        struct replay *replay = replay_seed(overrides, 1, epochs);
        assert_true(replay_verdict_bytes(replay) > before || epochs == 1);
        assert_true(replay->verdict >= worst);
        before = replay_verdict_bytes(replay);
        worst = replay->verdict;
        replay_destroy(replay);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_law),         cmocka_unit_test(test_few_and_equal_ones),
        cmocka_unit_test(test_epochs_themselves), cmocka_unit_test(test_one_step),
        cmocka_unit_test(test_verdict),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
