/* test_memory_bound.c - no step of an epoch needs more than the bound that a race of one step
 * gives, and the bound is not far above what the heaviest needs. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>
#include "sim/replay/memory_bound.h"

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 400, 5);
    return 0;
}

static double peak_of(const struct replay *replay) {
    return stage_memory_device(&replay->stages[replay->verdict_stage].peak);
}

struct answer {
    double seen, bound; /* of one typical step */
    double peak;        /* of all steps */
    double capacity;
};

static struct answer ask(const char *const *overrides) {
    struct scenario *s = fixture_scenario("samples.csv", overrides);
    struct error err = { 0 };
    struct job *data = job_load(s, &err), *one = job_batch(s, data, 1, &err);
    if (one == NULL) fail_msg("%s", err.text);
    struct job *race = job_plan(s, one, NULL, &err), *whole = fixture_job(s);
    if (race == NULL) fail_msg("%s", err.text);
    struct replay *seen = fixture_replay(race, FIDELITY_STAGE, 1),
                  *all = fixture_replay(whole, FIDELITY_STAGE, 1);
    assert_int_equal(seen->iteration_count, 1);
    assert_true(all->iteration_count > 4);
    const struct answer answer = { peak_of(seen), memory_bound(race, seen), peak_of(all),
                                   cost_model_gpu(s->cost_model)->hbm_bytes };
    assert_true(memory_bound(whole, all) == answer.peak); /* what has seen all knows */
    replay_destroy(seen);
    replay_destroy(all);
    job_destroy(race);
    job_destroy(whole);
    job_destroy(one);
    job_destroy(data);
    scenario_destroy(s);
    return answer;
}

static void test_no_step_needs_more(void **state) {
    (void)state;
    static const struct {
        const char *name, *overrides[8];
    } cases[] = {
        { "as it is", { NULL } },
        { "much in flight",
          { "policy.recompute=none", "policy.schedule=gpipe", "layout.pp=2",
            "training.micro_batch.samples=2", NULL } },
        { "1f1b, four stages",
          { "policy.recompute=none", "layout.pp=4", "layout.tp=1", "training.micro_batch.samples=4",
            NULL } },
        { "interleaved",
          { "policy.recompute=none", "layout.vpp=2", "training.micro_batch.samples=4", NULL } },
        { "context parallel",
          { "policy.recompute=none", "layout.cp=2", "training.micro_batch.samples=4", NULL } },
        { "scores in memory",
          { "policy.recompute=none", "training.attention=naive", "layout.pp=1", NULL } },
        { "sorted by length",
          { "policy.batching=length-group", "policy.recompute=none",
            "training.micro_batch.samples=4", NULL } },
        { "packed",
          { "policy.batching={\"name\":\"isf\",\"qv\":9,\"qt\":4096}",
            "training.global_batch={\"micro_batches\":8}", NULL } },
        { "ZeRO-3",
          { "layout.backend=fsdp", "layout.zero_stage=3", "layout.pp=1", "layout.tp=1", NULL } },
    };
    bool later = false;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const struct answer a = ask(cases[k].overrides);
        if (!(a.bound >= a.peak * (1 - 1e-12)) || a.peak < a.seen)
            fail_msg("%s: one step needs %g, all of them %g, the bound is %g", cases[k].name,
                     a.seen, a.peak, a.bound);
        if (a.bound > 1.1 * a.peak)
            fail_msg("%s: the bound is %.3f of the peak", cases[k].name, a.bound / a.peak);
        later = later || a.peak > 1.01 * a.seen;
    }
    assert_true(later); /* a typical step alone does not tell */
}

static void test_what_is_not_known(void **state) {
    (void)state;
    static const char *const overrides[] = { "policy={\"joint\":\"dip\"}", NULL };
    struct scenario *s = fixture_scenario("samples.csv", overrides);
    struct error err = { 0 };
    struct job *data = job_load(s, &err), *one = job_batch(s, data, 1, &err),
               *race = job_plan(s, one, NULL, &err);
    if (race == NULL) fail_msg("%s", err.text);
    struct replay *seen = fixture_replay(race, FIDELITY_STAGE, 1);
    assert_true(isnan(memory_bound(race, seen)));
    replay_destroy(seen);
    job_destroy(race);
    job_destroy(one);
    job_destroy(data);
    scenario_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_step_needs_more),
        cmocka_unit_test(test_what_is_not_known),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
