/* test_dip_memory.c - rollouts with the memory step, and how long they go on for a rank that no
 * other waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "sim/base/units.h"
#include "sim/replay/replay.h"

static struct job *job_of(const char *file, const char *const *overrides, struct scenario **s) {
    char path[256];
    struct error err = { 0 };
    snprintf(path, sizeof path, BALLAST_SOURCE_DIR "/scenarios/papers/dip/%s.json", file);
    const struct scenario_options options = { .directory = BALLAST_SOURCE_DIR "/scenarios",
                                              .overrides = overrides };
    *s = scenario_load(&options, path, &err);
    struct job *job = *s != NULL ? job_create(*s, &err) : NULL;
    if (job == NULL) fail_msg("%s: %s", file, err.text);
    return job;
}

/* Pipeline of each of the job's first ranks in iteration 0, each with the whole search. */
static void makespans(const char *file, const char *rollouts, int64_t ranks, int64_t *ns) {
    struct scenario *s;
    const char *overrides[] = { rollouts, "simulate.iterations=1", NULL };
    struct job *job = job_of(file, overrides, &s);
    struct step_runner *runner = step_runner_create(job->step);
    for (int64_t rank = 0; rank < ranks; rank++) {
        struct rank_outcome outcome;
        assert_true(step_run_rank(runner, FIDELITY_STAGE,
                                  job->shapes + rank * job->batches.per_rank,
                                  s->micro_batches_per_rank, &outcome, NULL));
        ns[rank] = outcome.makespan_ns;
    }
    step_runner_destroy(runner);
    job_destroy(job);
    scenario_destroy(s);
}

/* Memory is short in all of these: the orders that are alike before the memory step are not after
 * it. Twice the same search is the same schedule. */
static void test_memory_rollouts(void **state) {
    (void)state;
    static const char *const files[] = { "vlm-s", "vlm-m", "t2v-s" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        int64_t without, few, many, again;
        makespans(files[i], "policy.joint.memory_rollouts=0", 1, &without);
        makespans(files[i], "policy.joint.memory_rollouts=20", 1, &few);
        makespans(files[i], "policy.joint.memory_rollouts=300", 1, &many);
        makespans(files[i], "policy.joint.memory_rollouts=300", 1, &again);
        if (few > without || many > few || many >= without)
            fail_msg("%s: %ld, %ld, %ld ns", files[i], (long)without, (long)few, (long)many);
        assert_int_equal(many, again);
    }
}

/* A rank is searched no longer than until it is as fast as one before it: the step stays what it is
 * when all are searched to the end, and with a limit above all nothing is searched. */
static void test_enough(void **state) {
    (void)state;
    enum { RANKS = 6 };
    static const char *const overrides[] = { "cluster.gpu_count=96", "layout.dp=6",
                                             "training.global_batch={\"micro_batches\":384}",
                                             "simulate.iterations=1", NULL };
    struct scenario *s;
    struct job *job = job_of("vlm-s", overrides, &s);
    const struct replay_options one = { .threads = 1 };
    struct replay *r = replay_run(job, &one, NULL);
    assert_non_null(r);
    struct step_runner *runner = step_runner_create(job->step);
    int64_t slowest = 0, slower = 0;
    for (int64_t rank = 0; rank < RANKS; rank++) {
        const struct batch_shape *shapes = job->shapes + rank * job->batches.per_rank;
        struct rank_outcome whole, none;
        step_runner_enough(runner, 0);
        assert_true(
            step_run_rank(runner, FIDELITY_STAGE, shapes, s->micro_batches_per_rank, &whole, NULL));
        if (whole.makespan_ns > slowest) slowest = whole.makespan_ns;
        step_runner_enough(runner, INT64_MAX);
        assert_true(
            step_run_rank(runner, FIDELITY_STAGE, shapes, s->micro_batches_per_rank, &none, NULL));
        assert_true(none.makespan_ns >= whole.makespan_ns);
        slower += none.makespan_ns > whole.makespan_ns;
    }
    assert_int_equal(r->iterations[0].slowest_rank_ns, slowest);
    assert_true(slower > 0);
    step_runner_destroy(runner);
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
}

/* Peak of the fullest stage, bytes; *ns: the step. */
static double peak_bytes(const char *reserve, int64_t *ns) {
    const char *overrides[] = { "simulate.iterations=1", "policy.joint.memory_rollouts=20", reserve,
                                NULL };
    struct scenario *s;
    struct job *job = job_of("vlm-s", overrides, &s);
    const struct replay_options one = { .threads = 1 };
    struct replay *r = replay_run(job, &one, NULL);
    assert_non_null(r);
    double most = 0;
    for (int64_t stage = 0; stage < r->stage_count; stage++)
        most = fmax(most, stage_memory_device(&r->stages[stage].peak));
    *ns = r->iterations[0].step_time_ns;
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
    return most;
}

/* A reserve stays free, which costs time (8 GiB less of it than short searches differ by); one beside
 * which no micro-batch fits is none. */
static void test_reserve(void **state) {
    (void)state;
    int64_t whole_ns, less_ns, none_ns;
    const double whole = peak_bytes("policy.joint.reserve_GiB=0", &whole_ns);
    const double less = peak_bytes("policy.joint.reserve_GiB=20", &less_ns);
    const double none = peak_bytes("policy.joint.reserve_GiB=79", &none_ns);
    const double card = 80 * BYTES_PER_GiB;
    assert_true(whole <= card && whole > card - 4 * BYTES_PER_GiB);
    assert_true(less <= card - 20 * BYTES_PER_GiB && less > card - 24 * BYTES_PER_GiB);
    assert_true(less_ns > whole_ns);
    assert_true(none == whole && none_ns == whole_ns);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_memory_rollouts),
                                        cmocka_unit_test(test_reserve),
                                        cmocka_unit_test(test_enough) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
