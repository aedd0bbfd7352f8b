/* test_dip_property.c - the DIP policy on a job: what runs where, when, and in how much memory. */
#include <math.h>
#include "tests/unit/replay/replay_fixture.h"

enum { MAX_SPANS = 20000 };

struct timeline {
    struct step_span spans[MAX_SPANS];
    int64_t count;
};

static void keep_span(void *context, const struct step_span *span) {
    struct timeline *t = context;
    assert_true(t->count < MAX_SPANS);
    t->spans[t->count++] = *span;
}

static struct job *dip_job(const char *const *overrides, struct scenario **scenario) {
    struct error err = { 0 };
    *scenario = fixture_scenario("dip.csv", overrides);
    struct job *job = job_create(*scenario, &err);
    if (job == NULL) fail_msg("%s", err.text);
    return job;
}

static double replayed_s(const char *const *overrides, int threads) {
    struct scenario *scenario;
    struct job *job = dip_job(overrides, &scenario);
    struct replay_options options = { .fidelity = FIDELITY_STAGE, .threads = threads };
    struct error err = { 0 };
    struct replay *replay = replay_run(job, &options, &err);
    if (replay == NULL) fail_msg("%s", err.text);
    double seconds = replay->step_time_mean_s;
    assert_true(replay->verdict != VERDICT_OUT_OF_MEMORY);
    double sum = 0;
    for (int c = 0; c < REPLAY_CLASS_COUNT; c++) {
        assert_true(replay->classes_s[c] >= -1e-9);
        sum += replay->classes_s[c];
    }
    assert_true(fabs(sum - seconds) < 1e-6 * seconds);
    replay_destroy(replay);
    job_destroy(job);
    scenario_destroy(scenario);
    return seconds;
}

#define JOINT(text) "policy={\"joint\": {\"name\": \"dip\", \"rollouts\": 60" text "}}"

/* Chunks of the encoder run sub-microbatches, those of the language model micro-batches; a language
 * pass follows all sub-microbatches of its micro-batch, gradients the other way round. */
static void test_dependencies(void **state) {
    (void)state;
    const char *overrides[] = { JOINT(", \"sub_batch\": 2"), NULL };
    struct scenario *scenario;
    struct job *job = dip_job(overrides, &scenario);
    const struct job_plan *plan = &job->plan;
    assert_int_equal(plan->module_count, 2);
    assert_int_equal(plan->modules[0].sub_batch, 2);
    int64_t encoder_chunks = plan->modules[0].chunk_count, last = plan->stage_count - 1;
    struct step_runner *runner = step_runner_create(job->step);
    struct timeline *t = malloc(sizeof *t);
    int64_t count = scenario->micro_batches_per_rank;
    for (int64_t iteration = 0; iteration < 3; iteration++) {
        const struct batch_shape *shapes = job->shapes + iteration * count;
        struct rank_outcome outcome;
        struct error err = { 0 };
        assert_true(step_run_rank(runner, FIDELITY_STAGE, shapes, count, &outcome, &err));
        assert_true(outcome.bound_ns > 0 && outcome.makespan_ns >= outcome.bound_ns);
        t->count = 0;
        step_runner_spans(runner, keep_span, t);
        int64_t passes = 0, want = 0;
        for (int64_t m = 0; m < count; m++) {
            int64_t items = (shapes[m].vision_tiles + 1) / 2;
            want += 2 * plan->stage_count *
                    (items * encoder_chunks + plan->modules[1].chunk_count);
            int64_t encoded = 0, decoded = INT64_MAX, gradient = INT64_MAX, back = 0;
            for (int64_t i = 0; i < t->count; i++) {
                const struct step_span *s = &t->spans[i];
                if (s->communication || s->micro_batch != m) continue;
                bool vision = s->chunk < encoder_chunks;
                assert_true(s->sub < (vision ? items : 1));
                if (vision && s->kind == SPAN_FORWARD && s->finish_ns > encoded)
                    encoded = s->finish_ns;
                if (!vision && s->kind == SPAN_FORWARD && s->start_ns < decoded)
                    decoded = s->start_ns;
                if (vision && s->kind == SPAN_BACKWARD && s->start_ns < gradient)
                    gradient = s->start_ns;
                if (!vision && s->kind == SPAN_BACKWARD && s->stage == 0 && s->finish_ns > back)
                    back = s->finish_ns;
            }
            assert_true(encoded <= decoded && back <= gradient);
        }
        for (int64_t i = 0; i < t->count; i++) {
            const struct step_span *a = &t->spans[i];
            if (a->communication) continue;
            passes++;
            /* Spans come stage by stage in their order. */
            for (int64_t k = i + 1; k < t->count && t->spans[k].stage == a->stage; k++)
                if (!t->spans[k].communication)
                    assert_true(t->spans[k].start_ns >= a->finish_ns);
        }
        assert_int_equal(passes, want);
        for (int64_t stage = 0; stage <= last; stage++)
            assert_true(stage_memory_device(&outcome.memory[stage]) <=
                        cost_model_gpu(scenario->cost_model)->hbm_bytes);
    }
    free(t);
    step_runner_destroy(runner);
    job_destroy(job);
    scenario_destroy(scenario);
}

/* Each part of the policy helps, or at least does no harm, on the mean of the data. */
static void test_ablation(void **state) {
    (void)state;
    const char *baseline[] = { NULL };
    const char *greedy[] = { JOINT(", \"memory\": false, \"order\": \"greedy\""), NULL };
    const char *search[] = { JOINT(", \"memory\": false"), NULL };
    const char *memory[] = { JOINT(""), NULL };
    const char *worst[] = { JOINT(", \"memory\": false, \"worst\": true"), NULL };
    double base_s = replayed_s(baseline, 1), greedy_s = replayed_s(greedy, 1);
    double search_s = replayed_s(search, 1), memory_s = replayed_s(memory, 1);
    assert_true(greedy_s < base_s);
    assert_true(search_s <= greedy_s);
    assert_true(memory_s < search_s);
    assert_true(replayed_s(worst, 1) > search_s);
    assert_true(replayed_s(memory, 4) == memory_s);
}

/* Without images there is nothing to split, and DIP is 1F1B on balanced chunks. */
static void test_comparisons_run(void **state) {
    (void)state;
    const char *fixed[] = { JOINT(", \"memory\": false, \"order\": \"fixed\""), NULL };
    const char *optimus[] = {
        JOINT(", \"memory\": false, \"order\": \"encoders-first\", \"sub_batch\": 0"), NULL
    };
    const char *greedy[] = { JOINT(", \"memory\": false, \"order\": \"greedy\""), NULL };
    double greedy_s = replayed_s(greedy, 1);
    assert_true(replayed_s(fixed, 1) > greedy_s);
    assert_true(replayed_s(optimus, 1) > 0.9 * greedy_s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dependencies),
        cmocka_unit_test(test_ablation),
        cmocka_unit_test(test_comparisons_run),
    };
    fixture_begin(NULL);
    fixture_samples("dip.csv", 96, 7);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fixture_end(NULL);
    return failed;
}
