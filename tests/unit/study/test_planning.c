/* test_planning.c - a plan's memory, verdict and step are those of `run`; its worst case is above
 * them. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>
#include "sim/study/planning.h"

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 600, 7);
    return 0;
}

/* With the policies of a row as the scenario's own. */
static void expect_run(const struct planning_row *row, const char *const *overrides) {
    struct scenario *s = fixture_scenario("samples.csv", overrides);
    struct job *job = fixture_job(s);
    struct replay *replay = fixture_replay(job, FIDELITY_STAGE, 1);
    double most = 0;
    for (int64_t stage = 0; stage < replay->stage_count; stage++) {
        const double bytes = stage_memory_device(&replay->stages[stage].peak);
        if (row->bytes[stage] != bytes)
            fail_msg("%s, stage %d: planned %g bytes, a run has %g", row->policy, (int)stage,
                     row->bytes[stage], bytes);
        assert_true(row->worst_bytes[stage] >= bytes * (1 - 1e-12));
        most = fmax(most, bytes);
    }
    assert_true(row->step_seconds == replay->step_time_mean_s);
    assert_int_equal(row->verdict, replay->verdict);
    assert_true(row->training_bytes == replay->training.likely_bytes);
    assert_true(row->training_bytes >= most);
    replay_destroy(replay);
    job_destroy(job);
    scenario_destroy(s);
}

static void test_rows_are_runs(void **state) {
    (void)state;
    static const char *const own[] = { "policy.recompute=full", "training.micro_batch.samples=4",
                                       NULL };
    struct scenario *s = fixture_scenario("samples.csv", own);
    struct job *job = fixture_job(s);
    struct arena *arena = arena_create();
    struct planning p;
    struct error err = { 0 };
    if (!planning_make(job, 100, arena, &p, &err)) fail_msg("%s", err.text);
    assert_int_equal(p.replayed_steps, job->iteration_count);
    int compared = 0;
    for (int64_t i = 0; i < p.row_count; i++) {
        const struct planning_row *row = &p.rows[i];
        char policy[64];
        if (row->refusal != NULL || strcmp(row->policy, "exact") == 0) continue;
        snprintf(policy, sizeof policy, "policy.%s=%s",
                 row->group == PLANNING_RECOMPUTE ? "recompute" : "partition", row->policy);
        expect_run(row, (const char *const[]){ "policy.recompute=full",
                                               "training.micro_batch.samples=4", policy, NULL });
        compared++;
    }
    assert_true(compared > 8);
    struct planning_row alone;
    if (!planning_own(job, arena, &alone, &err)) fail_msg("%s", err.text);
    assert_true(alone.step_seconds == p.rows[0].step_seconds);
    arena_destroy(arena);
    job_destroy(job);
    scenario_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_runs),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
