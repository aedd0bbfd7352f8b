/* test_what_if_oracle.c - the section what_if against closed forms. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>
#include "sim/base/units.h"

static int setup(void **state) {
    fixture_begin(state);
    fixture_samples("few.csv", 1200, 1);
    return 0;
}

/* A replay that owns its job and scenario. */
struct answer {
    struct scenario *scenario;
    struct job *job;
    struct replay *replay;
};

static struct answer replay_with(const char *const *overrides) {
    struct answer a = { .scenario = fixture_scenario("few.csv", overrides) };
    a.job = fixture_job(a.scenario);
    a.replay = fixture_replay(a.job, FIDELITY_STAGE, 2);
    double sum = 0; /* whatever slows a step, its parts are the whole */
    for (int c = 0; c < REPLAY_CLASS_COUNT; c++)
        sum += a.replay->classes_s[c];
    if (fabs(sum - a.replay->step_time_mean_s) > 1e-9 * sum)
        fail_msg("parts %.9f s, step %.9f s", sum, a.replay->step_time_mean_s);
    return a;
}

static void forget(struct answer *a) {
    replay_destroy(a->replay);
    job_destroy(a->job);
    scenario_destroy(a->scenario);
}

#define WITH(...) replay_with((const char *const[]){ __VA_ARGS__, NULL })

static bool near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * fabs(b);
}

/* One GPU alone: its step without the update takes so many times as long. */
static void test_a_slow_gpu_alone(void **state) {
    (void)state;
#define ALONE "cluster.gpu_count=1", "layout.tp=1", "layout.pp=1"
    struct answer base = WITH(ALONE), slow = WITH(ALONE, "what_if.slow_gpu_factor=3");
    for (int64_t i = 0; i < base.replay->iteration_count; i++)
        assert_true(near((double)slow.replay->iterations[i].slowest_rank_ns,
                         3 * (double)base.replay->iterations[i].slowest_rank_ns, 1e-6));
    assert_true(near(slow.replay->mfu_fraction * slow.replay->step_time_mean_s,
                     base.replay->mfu_fraction * base.replay->step_time_mean_s, 1e-9));
    forget(&base);
    forget(&slow);
}

/* Of four ranks without a pipeline only one is slow; the others wait for it. */
static void test_a_slow_rank_holds_the_others_up(void **state) {
    (void)state;
#define FOUR "cluster.gpu_count=4", "layout.tp=1", "layout.pp=1", "layout.zero_stage=0"
    struct answer base = WITH(FOUR),
                  slow = WITH(FOUR, "what_if.slow_gpu_factor=2", "what_if.slow_gpu_rank=2");
    for (int64_t i = 0; i < base.replay->iteration_count; i++) {
        struct rank_outcome outcome;
        struct error err = { 0 };
        struct step_runner *runner = step_runner_create(base.job->step);
        int64_t most = 0, count = base.scenario->micro_batches_per_rank;
        for (int64_t rank = 0; rank < 4; rank++) {
            assert_true(
                step_run_rank(runner, FIDELITY_STAGE,
                              base.job->shapes + rank * base.job->batches.per_rank + i * count,
                              count, &outcome, &err));
            int64_t ns = outcome.makespan_ns * (rank == 2 ? 2 : 1);
            if (ns > most) most = ns;
        }
        step_runner_destroy(runner);
        assert_true(near((double)slow.replay->iterations[i].slowest_rank_ns, (double)most, 1e-6));
    }
    assert_true(slow.replay->classes_s[REPLAY_RANK_IMBALANCE] >
                base.replay->classes_s[REPLAY_RANK_IMBALANCE]);
    forget(&base);
    forget(&slow);
}

/* ZeRO-3 holds the ranks together layer by layer: one slow GPU slows all. */
static void test_a_slow_gpu_under_zero_3(void **state) {
    (void)state;
#define SHARDED                                                                                    \
    "cluster.gpu_count=4", "layout.tp=1", "layout.pp=1", "layout.zero_stage=3",                    \
        "layout.backend=megatron-lm"
    struct answer base = WITH(SHARDED), slow = WITH(SHARDED, "what_if.slow_gpu_factor=3");
    assert_true(slow.replay->step_time_mean_s > 1.5 * base.replay->step_time_mean_s);
    assert_true(slow.replay->step_time_mean_s < 3 * base.replay->step_time_mean_s);
    forget(&base);
    forget(&slow);
}

#define WAITS(zero)                                                                                \
    "cluster.gpu_count=1", "layout.tp=1", "layout.pp=1", "layout.backend=fsdp",                    \
        "layout.stack=hf-fsdp", "policy.recompute=full", "training.micro_batch.samples=1",         \
        "layout.zero_stage=" zero

/* What a slow device takes longer hides the launches that it waited for, whether passes are priced
 * stage by stage or, sharded over one GPU, layer by layer; and nobody waits for anybody there. */
static void test_a_slow_gpu_that_waits_for_launches(void **state) {
    (void)state;
    static const char *const factors[] = { "what_if.slow_gpu_factor=1",
                                           "what_if.slow_gpu_factor=1.2",
                                           "what_if.slow_gpu_factor=3" };
    double waits_s[3];
    for (int k = 0; k < 3; k++) {
        struct answer whole = WITH(WAITS("0"), factors[k]), sharded = WITH(WAITS("3"), factors[k]);
        const double *a = whole.replay->classes_s, *b = sharded.replay->classes_s;
        assert_true(near(b[REPLAY_LAUNCH], a[REPLAY_LAUNCH], 1e-6));
        assert_true(near(b[REPLAY_RECOMPUTE], a[REPLAY_RECOMPUTE], 1e-6));
        assert_true(a[REPLAY_RANK_IMBALANCE] == 0 && b[REPLAY_RANK_IMBALANCE] == 0);
        assert_true(near(whole.replay->launch_cost_s, a[REPLAY_LAUNCH], 1e-3));
        waits_s[k] = a[REPLAY_LAUNCH];
        forget(&whole);
        forget(&sharded);
    }
    assert_true(waits_s[0] > waits_s[1] && waits_s[1] > waits_s[2]);
}

/* What waiting for launches costs is of the passes: neither a rule that changes nothing nor samples
 * that are waited for before them make it more or less. */
static void test_what_launches_cost(void **state) {
    (void)state;
    struct answer base = WITH(WAITS("0")),
                  ruled = WITH(WAITS("0"), "rules=[{\"operator\":\"norm\",\"module\":\"language\","
                                           "\"layers\":[0,15],\"factor\":1.0001}]"),
                  loading = WITH(WAITS("0"), "what_if.data_loading_ms_per_sample=500",
                                 "what_if.data_loading_overlaps=false");
    assert_true(base.replay->launch_cost_s > 0);
    assert_true(near(ruled.replay->launch_cost_s, base.replay->launch_cost_s, 1e-2));
    assert_true(near(loading.replay->launch_cost_s, base.replay->launch_cost_s, 1e-6));
    forget(&base);
    forget(&ruled);
    forget(&loading);
}

/* Equal micro-batches and a last stage so slow that it never waits: the first forward must reach
 * it, it works without a pause, and its last gradient goes back through all. */
static void test_a_slow_last_stage(void **state) {
    (void)state;
    const char *overrides[] = { "layout.tp=1", "layout.pp=4", "layout.backend=megatron-lm",
                                "training.global_batch.micro_batches=16", NULL };
    struct scenario *s = fixture_scenario("few.csv", overrides);
    struct job *job = fixture_job(s);
    enum { MICRO_BATCHES = 8, STAGES = 4 };
    struct batch_shape shapes[MICRO_BATCHES];
    for (int i = 0; i < MICRO_BATCHES; i++)
        shapes[i] = job->typical;
    struct layer_time times[LAYER_KIND_COUNT];
    struct stage_cost cost[STAGES];
    step_layer_times(job->step, &job->typical, times);
    for (int stage = 0; stage < STAGES; stage++)
        step_stage_cost(job->step, stage, &job->typical, times, NULL, &cost[stage]);
    const double factor = 10;
    int64_t want =
        MICRO_BATCHES *
        (int64_t)(factor * (double)(cost[STAGES - 1].forward_ns + cost[STAGES - 1].backward_ns));
    for (int stage = 0; stage + 1 < STAGES; stage++)
        want += cost[stage].forward_ns + cost[stage].send_forward_ns + cost[stage].backward_ns +
                cost[stage + 1].send_backward_ns;
    struct step_slowness slow = {
        .rank = 1, .stage = STAGES - 1, .stage_factor = factor, .link_factor = 1
    };
    for (int times_only = 0; times_only < 2; times_only++) {
        struct step_runner *runner = step_runner_create(job->step);
        struct rank_outcome outcome;
        struct error err = { 0 };
        step_runner_times_only(runner, times_only == 1);
        step_runner_slow(runner, &slow);
        assert_true(step_run_rank(runner, FIDELITY_STAGE, shapes, MICRO_BATCHES, &outcome, &err));
        assert_int_equal(outcome.makespan_ns, want);
        assert_false(
            step_run_rank(runner, FIDELITY_OPERATOR, shapes, MICRO_BATCHES, &outcome, &err));
        step_runner_destroy(runner);
    }
    job_destroy(job);
    scenario_destroy(s);
}

/* One micro-batch crosses the link once each way. */
static void test_a_slow_link(void **state) {
    (void)state;
    const char *overrides[] = { "layout.tp=1", "layout.pp=4", "cluster.gpu_count=4", NULL };
    struct scenario *s = fixture_scenario("few.csv", overrides);
    struct job *job = fixture_job(s);
    struct layer_time times[LAYER_KIND_COUNT];
    struct stage_cost before, after;
    step_layer_times(job->step, &job->typical, times);
    step_stage_cost(job->step, 1, &job->typical, times, NULL, &before);
    step_stage_cost(job->step, 2, &job->typical, times, NULL, &after);
    struct step_runner *runner = step_runner_create(job->step);
    struct step_slowness slow = { .rank = 1, .stage_factor = 1, .link_stage = 1, .link_factor = 5 };
    struct rank_outcome outcome;
    struct error err = { 0 };
    assert_true(step_run_rank(runner, FIDELITY_STAGE, &job->typical, 1, &outcome, &err));
    int64_t base = outcome.makespan_ns;
    step_runner_slow(runner, &slow);
    assert_true(step_run_rank(runner, FIDELITY_STAGE, &job->typical, 1, &outcome, &err));
    assert_true(before.send_forward_ns > 0);
    assert_int_equal(outcome.makespan_ns - base,
                     4 * (before.send_forward_ns + after.send_backward_ns));
    step_runner_destroy(runner);
    job_destroy(job);
    scenario_destroy(s);
}

/* With probability p a rank straggles: a step is as planned with probability (1 - p)^ranks. */
static void test_stragglers(void **state) {
    (void)state;
#define STEPS                                                                                      \
    "cluster.gpu_count=2", "layout.tp=1", "layout.pp=1", "training.global_batch.micro_batches=2"
    struct answer base = WITH(STEPS), none = WITH(STEPS, "what_if.straggler_fraction=0.3"),
                  all = WITH(STEPS, "what_if.straggler_fraction=1", "what_if.straggler_factor=2"),
                  some =
                      WITH(STEPS, "what_if.straggler_fraction=0.3", "what_if.straggler_factor=100");
    int64_t n = base.replay->iteration_count, hit = 0;
    assert_int_equal(n, 600);
    for (int64_t i = 0; i < n; i++) {
        double planned = (double)base.replay->iterations[i].slowest_rank_ns;
        assert_int_equal(none.replay->iterations[i].step_time_ns,
                         base.replay->iterations[i].step_time_ns);
        assert_true(near((double)all.replay->iterations[i].slowest_rank_ns, 2 * planned, 1e-6));
        hit += (double)some.replay->iterations[i].slowest_rank_ns > 1.5 * planned;
    }
    double want = (double)n * (1 - 0.7 * 0.7), deviation = sqrt((double)n * 0.49 * 0.51);
    if (fabs((double)hit - want) > 4 * deviation)
        fail_msg("%ld of %ld steps straggle, want %.0f", (long)hit, (long)n, want);
    forget(&base);
    forget(&none);
    forget(&all);
    forget(&some);
}

static void test_data_loading(void **state) {
    (void)state;
    struct answer base = WITH("layout.tp=2");
    int64_t ranks = base.scenario->layout.dp;
    /* 8 samples a rank and step at 1 s, on two workers: longer than any step here. */
    struct answer late =
        WITH("what_if.data_loading_ms_per_sample=100000", "what_if.data_loading_workers=2");
    struct answer beside = WITH("what_if.data_loading_ms_per_sample=0.001");
    struct answer before =
        WITH("what_if.data_loading_ms_per_sample=50", "what_if.data_loading_overlaps=false");
    /* a tile is a square of the encoder's image size */
    struct answer images =
        WITH("what_if.data_loading_ms_per_sample=3", "what_if.data_loading_ms_per_megapixel=1000",
             "what_if.data_loading_workers=2", "what_if.data_loading_overlaps=false");
    const struct module *vision = &base.scenario->model->modules[MODULE_VISION];
    const double tile_s = 1e-6 * (double)(vision->image_size * vision->image_size);
    double tiles = 0, slowest_s = 0;
    assert_int_equal(ranks, 2);
    for (int64_t i = 0; i < base.replay->iteration_count; i++) {
        int64_t step = base.replay->iterations[i].step_time_ns;
        tiles += (double)base.replay->iterations[i].vision_tiles;
        slowest_s += 1e-9 * (double)(images.replay->iterations[i].step_time_ns - step);
        assert_int_equal(late.replay->iterations[i].step_time_ns, (int64_t)(8 * 50 * NS_PER_S));
        assert_int_equal(beside.replay->iterations[i].step_time_ns, step);
        assert_int_equal(before.replay->iterations[i].step_time_ns,
                         step + (int64_t)(8 * 0.05 * NS_PER_S));
    }
    assert_true(near(before.replay->classes_s[REPLAY_LOADING], 0.4, 1e-9));
    assert_true(
        near(late.replay->classes_s[REPLAY_LOADING], 400 - base.replay->step_time_mean_s, 1e-9));
    const double steps = (double)base.replay->iteration_count;
    const double mean_s = (8 * 0.003 + tiles / (double)ranks / steps * tile_s) / 2;
    assert_true(tiles > 0);
    assert_true(near(images.replay->classes_s[REPLAY_LOADING], mean_s, 1e-6));
    assert_true(images.replay->loading_mean_s >= mean_s &&
                images.replay->loading_mean_s < 2 * mean_s);
    assert_true(near(late.replay->loading_mean_s, 400, 1e-9) && base.replay->loading_mean_s == 0);
    assert_int_equal(late.replay->late_loading_count, late.replay->iteration_count);
    assert_int_equal(beside.replay->late_loading_count, 0);
    assert_true(slowest_s / steps > 0.9 * mean_s);
    forget(&base);
    forget(&late);
    forget(&beside);
    forget(&before);
    forget(&images);
}

static void test_a_slower_network_is_a_network_of_less_bandwidth(void **state) {
    (void)state;
#define WIDE "cluster.gpus_per_node=2", "layout.pp=1"
    struct answer slow = WITH(WIDE, "what_if.nic_factor=0.25"),
                  less = WITH(WIDE, "cluster.nic_Gbit_per_s_per_gpu=25"), base = WITH(WIDE);
    assert_true(slow.replay->step_time_mean_s == less.replay->step_time_mean_s);
    assert_true(slow.replay->step_time_mean_s > base.replay->step_time_mean_s);
    forget(&slow);
    forget(&less);
    forget(&base);
}

/* Money is wall time: what failures take is paid for. */
static void test_failures(void **state) {
    (void)state;
#define LONG "layout.tp=2", "training.epochs=10000"
    struct answer base = WITH(LONG);
    struct answer failing =
        WITH(LONG, "what_if.gpu_mtbf_hours=100", "what_if.checkpoint_interval_min=10",
             "what_if.checkpoint_s=30", "what_if.restart_min=5");
    double mtbf = 100 * 3600 / 8.0; /* 8 GPUs */
    double want = 600 / (mtbf * exp(300 / mtbf) * (exp(630 / mtbf) - 1));
    assert_true(near(failing.replay->goodput_fraction, want, 1e-12));
    assert_true(near(failing.replay->total_days * want, base.replay->total_days, 1e-12));
    assert_true(near(failing.replay->money_usd * want, base.replay->money_usd, 1e-12));
    assert_true(failing.replay->step_time_mean_s == base.replay->step_time_mean_s);
    assert_true(base.replay->goodput_fraction == 1);
    struct answer best = WITH(LONG, "what_if.gpu_mtbf_hours=100", "what_if.checkpoint_s=30",
                              "what_if.restart_min=5");
    assert_true(best.replay->goodput_fraction >= failing.replay->goodput_fraction);
    forget(&base);
    forget(&failing);
    forget(&best);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_gpu_alone),
        cmocka_unit_test(test_a_slow_rank_holds_the_others_up),
        cmocka_unit_test(test_a_slow_gpu_under_zero_3),
        cmocka_unit_test(test_a_slow_gpu_that_waits_for_launches),
        cmocka_unit_test(test_what_launches_cost),
        cmocka_unit_test(test_a_slow_last_stage),
        cmocka_unit_test(test_a_slow_link),
        cmocka_unit_test(test_stragglers),
        cmocka_unit_test(test_data_loading),
        cmocka_unit_test(test_a_slower_network_is_a_network_of_less_bandwidth),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, setup, fixture_end);
}
