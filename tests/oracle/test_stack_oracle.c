/* test_stack_oracle.c - 1F1B of equal stages through the whole program: scenario, data, prices,
 * plan, step and replay.
 *
 * With P stages of forward f and backward b, m micro-batches and free sends a pipeline takes
 * (m + P - 1)(f + b) (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
 * Clusters Using Megatron-LM", section 2.2.1). The model is artificial: an encoder alone, equal
 * blocks on every stage. Its patch embedding makes the first stage a little longer.
 */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>

enum { STAGES = 4, MICRO_BATCHES = 64 };

static int begin(void **state) {
    fixture_begin(state);
    char text[2048] = "vision_tiles,text_tokens\n";
    for (int i = 0; i < MICRO_BATCHES; i++)
        strcat(text, "4,1\n");
    fixture_write("equal.csv", text);
    fixture_write("encoder.json",
                  "{ \"name\": \"equal blocks\", \"source\": \"artificial\", \"vision\": {"
                  "  \"name\": \"encoder\", \"role\": \"vision\", \"layer_count\": 40,"
                  "  \"hidden\": 4096, \"ffn_hidden\": 16384, \"heads\": 32, \"ffn\": \"gelu\","
                  "  \"norm\": \"layer\", \"position\": \"none\", \"patch_size\": 14,"
                  "  \"image_size\": 448, \"source\": \"artificial\" } }");
    return 0;
}

static struct scenario *load(const char *backend) {
    char model[600], layout[64];
    snprintf(model, sizeof model, "model=%s", fixture_path("encoder.json"));
    snprintf(layout, sizeof layout, "layout.backend=%s", backend);
    const char *overrides[] = { model,
                                layout,
                                "layout.tp=1",
                                "layout.pp=4",
                                "cluster.gpu_count=4",
                                "training.global_batch={\"micro_batches\":64}",
                                "policy.recompute=none",
                                NULL };
    return fixture_scenario("equal.csv", overrides);
}

static void stage_costs(const struct job *job, struct stage_cost *costs) {
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(job->step, &job->shapes[0], times);
    for (int64_t stage = 0; stage < STAGES; stage++)
        step_stage_cost(job->step, stage, &job->shapes[0], times, NULL, &costs[stage]);
}

static void test_equal_stages(void **state) {
    (void)state;
    struct scenario *s = load("megatron-lm");
    struct job *job = fixture_job(s);
    assert_int_equal(job->iteration_count, 1);
    struct stage_cost costs[STAGES];
    stage_costs(job, costs);
    int64_t pass_ns = costs[1].forward_ns + costs[1].backward_ns;
    int64_t first_ns = costs[0].forward_ns + costs[0].backward_ns;
    for (int stage = 2; stage < STAGES; stage++)
        assert_int_equal(costs[stage].forward_ns + costs[stage].backward_ns, pass_ns);
    assert_true(first_ns > pass_ns && (double)first_ns < 1.01 * (double)pass_ns);

    /* The sends that fill and drain the pipeline always show. In between, a stage has room for as
     * many micro-batches as there are stages behind it, so a slot can wait for one send each
     * way. */
    struct replay *r = fixture_replay(job, FIDELITY_STAGE, 1);
    int64_t both_ns = costs[0].send_forward_ns + costs[1].send_backward_ns;
    int64_t slots = MICRO_BATCHES + STAGES - 1;
    int64_t least_ns = slots * pass_ns + (STAGES - 1) * both_ns;
    int64_t most_ns = slots * (first_ns + both_ns);
    int64_t got_ns = r->iterations[0].slowest_rank_ns;
    if (got_ns < least_ns || got_ns > most_ns)
        fail_msg("got %ld ns, want %ld to %ld", (long)got_ns, (long)least_ns, (long)most_ns);
    assert_true((double)most_ns < 1.02 * (double)least_ns); /* the bounds are close */
    /* The share that is idle is the ideal bubble's. */
    double idle = r->classes_s[REPLAY_BUBBLE], busy = 0;
    for (int64_t stage = 0; stage < STAGES; stage++)
        busy += r->stages[stage].busy_s / STAGES;
    assert_true(fabs(idle / busy - (STAGES - 1.0) / MICRO_BATCHES) < 1e-9);
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
}

/* The same stages made exactly equal, and sends as given. */
static int64_t constant_ns(const struct job *job, const struct stage_cost *cost) {
    struct stage_cost costs[STAGES];
    for (int stage = 0; stage < STAGES; stage++) {
        costs[stage] = *cost;
        if (stage + 1 == STAGES) costs[stage].send_forward_ns = 0;
        if (stage == 0) costs[stage].send_backward_ns = 0;
    }
    struct step_runner *runner = step_runner_create(job->step);
    int64_t makespan_ns = 0;
    struct error err = { 0 };
    if (!step_run_constant(runner, costs, MICRO_BATCHES, &makespan_ns, &err))
        fail_msg("%s", err.text);
    step_runner_destroy(runner);
    return makespan_ns;
}

static void test_closed_forms(void **state) {
    (void)state;
    static const char *const backends[] = { "megatron-lm", "megatron-deepspeed" };
    for (int k = 0; k < 2; k++) {
        struct scenario *s = load(backends[k]);
        struct job *job = fixture_job(s);
        struct stage_cost costs[STAGES];
        stage_costs(job, costs);
        struct stage_cost cost = costs[1];
        int64_t f = cost.forward_ns, b = cost.backward_ns, m = MICRO_BATCHES, p = STAGES;
        cost.send_forward_ns = cost.send_backward_ns = 0;
        assert_int_equal(constant_ns(job, &cost), (m + p - 1) * (f + b));
        /* Each pass in its slot, whatever the schedule's stage: exact for any f and b. */
        cost.forward_ns = b;
        cost.backward_ns = f;
        assert_int_equal(constant_ns(job, &cost), (m + p - 1) * (f + b));
        job_destroy(job);
        scenario_destroy(s);
    }
}

/* Sends that block, two stages: the first stage is f, send, b in turn, the second f, b, send. In
 * the steady state each waits for the other's send: a slot is f + b + both sends. */
static void test_blocking_sends_of_two_stages(void **state) {
    (void)state;
    char model[600];
    snprintf(model, sizeof model, "model=%s", fixture_path("encoder.json"));
    const char *overrides[] = { model,
                                "layout.tp=1",
                                "layout.pp=2",
                                "cluster.gpu_count=2",
                                "training.global_batch={\"micro_batches\":64}",
                                "policy.schedule=gpipe",
                                NULL };
    struct scenario *s = fixture_scenario("equal.csv", overrides);
    struct job *job = fixture_job(s);
    struct step_runner *runner = step_runner_create(job->step);
    const int64_t f = 1000, b = 2100, in = 40, out = 70, m = MICRO_BATCHES;
    struct stage_cost costs[2] = { { .forward_ns = f, .backward_ns = b, .send_forward_ns = in },
                                   { .forward_ns = f, .backward_ns = b, .send_backward_ns = out } };
    int64_t makespan_ns = 0;
    assert_true(step_run_constant(runner, costs, m, &makespan_ns, NULL));
    /* GPipe: the first stage sends after each forward, the second computes one behind it; then the
     * second sends after each backward, the first computes one behind it. */
    assert_int_equal(makespan_ns, m * (f + in) + f + m * (b + out) + b);
    step_runner_destroy(runner);
    job_destroy(job);
    scenario_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_stages),
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_blocking_sends_of_two_stages),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
