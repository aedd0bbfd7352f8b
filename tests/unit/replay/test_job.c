/* test_job.c - preparing a scenario: micro-batches in order, the planners' oracle, and data that
 * does not suffice. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>

static int begin(void **state) {
    (void)state;
    fixture_begin();
    fixture_samples("samples.csv", 100, 3);
    return 0;
}

static int end(void **state) {
    (void)state;
    fixture_end();
    return 0;
}

static void test_shapes_follow_the_order_of_consumption(void **state) {
    (void)state;
    static const char *const overrides[] = {
        "policy.batching={\"name\":\"isf\",\"qv\":9,\"qt\":4096}",
        "training.global_batch={\"micro_batches\":4}", NULL
    };
    struct scenario *s = fixture_scenario("samples.csv", overrides);
    struct job *job = fixture_job(s);
    const struct batch_plan *b = &job->batches;
    assert_int_equal(b->rank_count, 2);
    for (int64_t i = 0; i < b->rank_count * b->per_rank; i++) {
        uint32_t group = b->order[i];
        int64_t samples = 0, tokens = 0, tiles = 0;
        for (uint32_t k = b->starts[group]; k < b->starts[group + 1]; k++) {
            const struct sample *sample = &job->dataset->samples[b->samples[k]];
            samples++;
            tokens += sample->language_tokens;
            tiles += sample->vision_tiles;
        }
        assert_int_equal(job->shapes[i].samples, samples);
        assert_int_equal(job->shapes[i].language_tokens, tokens);
        assert_int_equal(job->shapes[i].vision_tiles, tiles);
    }
    job_destroy(job);
    scenario_destroy(s);
}

static void test_errors(void **state) {
    (void)state;
    fixture_write("broken.csv", "vision_tiles\n1\n");
    const struct {
        const char *name, *samples, *override, *want;
    } errors[] = {
        { "too few samples for a step", "samples.csv",
          "training.global_batch={\"micro_batches\":102}",
          "data set \"samples\" gives each data-parallel rank 50 micro-batches, one step needs 51: "
          "use a smaller training.global_batch" },
        { "a data set without tokens", "broken.csv", "simulate.seed=1",
          "while loading the data set of scenario \"scenario\"" },
        { "a policy that cannot plan", "samples.csv",
          "policy.batching={\"name\":\"isf\",\"qv\":9,\"qt\":10}",
          "while batching with policy \"isf\"" },
    };
    for (size_t k = 0; k < sizeof errors / sizeof errors[0]; k++) {
        const char *const overrides[] = { errors[k].override, NULL };
        struct scenario *s = fixture_scenario(errors[k].samples, overrides);
        struct error err = { 0 };
        struct job *job = job_create(s, &err);
        if (job != NULL) fail_msg("%s: no error", errors[k].name);
        if (strstr(err.text, errors[k].want) == NULL)
            fail_msg("%s:\n got  %s\n want %s", errors[k].name, err.text, errors[k].want);
        scenario_destroy(s);
    }
    /* 100 micro-batches a step just suffice. */
    static const char *const enough[] = { "training.global_batch={\"micro_batches\":100}", NULL };
    struct scenario *s = fixture_scenario("samples.csv", enough);
    struct job *job = fixture_job(s);
    assert_int_equal(job->epoch_iterations, 1);
    assert_true(job->epoch_steps == 1);
    job_destroy(job);
    scenario_destroy(s);
}

static void test_oracle(void **state) {
    (void)state;
    static const char *const none[] = { NULL };
    struct scenario *s = fixture_scenario("samples.csv", none);
    struct job *job = fixture_job(s);
    struct planner_oracle oracle = job_oracle(job);
    const struct batch_shape *typical = &oracle.typical;
    assert_memory_equal(typical, &job->typical, sizeof *typical);
    /* Layers of the oracle add up to the stages of the step model. */
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(job->step, typical, times);
    for (int64_t stage = 0; stage < 2; stage++) {
        struct stage_cost cost;
        step_stage_cost(job->step, stage, typical, times, NULL, &cost);
        double forward_s = 0;
        for (int64_t i = job->plan.first_layer[stage]; i < job->plan.first_layer[stage + 1]; i++)
            forward_s += oracle.layer_seconds(oracle.context, i, typical, PASS_SET_FORWARD);
        assert_true(fabs(forward_s * 1e9 - (double)cost.forward_ns) < 1);
        /* Two stages: two micro-batches in flight on the first, one on the second. */
        struct stage_memory memory = job->step->static_memory[stage];
        memory.bytes[MEMORY_ACTIVATIONS] = (double)(2 - stage) * cost.activation_bytes;
        memory.bytes[MEMORY_WORKSPACE] = cost.workspace_bytes;
        stage_memory_add_fragmentation(&memory);
        assert_true(oracle.stage_bytes(oracle.context, &job->plan, stage, typical) ==
                    stage_memory_device(&memory));
    }
    double seconds = 0;
    assert_true(oracle.simulate(oracle.context, &job->plan, &seconds, NULL));
    struct step_runner *runner = step_runner_create(job->step);
    struct batch_shape shapes[8];
    for (int i = 0; i < 8; i++)
        shapes[i] = *typical;
    struct rank_outcome outcome;
    assert_true(step_run_rank(runner, FIDELITY_STAGE, shapes, 8, &outcome, NULL));
    assert_true(fabs(seconds * 1e9 - (double)outcome.makespan_ns) < 1);
    step_runner_destroy(runner);
    job_destroy(job);
    scenario_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_follow_the_order_of_consumption),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_oracle),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
