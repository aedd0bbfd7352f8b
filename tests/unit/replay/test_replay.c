/* test_replay.c - that the replay loses no time and no sample, depends on nothing but its input,
 * and judges memory rightly. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>
#include "sim/base/units.h"

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 230, 7);
    return 0;
}

static const struct {
    const char *name;
    const char *overrides[7];
} setups[] = {
    { "as it is", { NULL } },
    { "packed",
      { "policy.batching={\"name\":\"isf\",\"qv\":9,\"qt\":4096}",
        "training.global_batch={\"micro_batches\":8}", NULL } },
    { "padded micro-batches of 4",
      { "training.micro_batch={\"samples\":4}", "training.global_batch={\"samples\":32}", NULL } },
    { "overlapped sends, gpipe", { "layout.backend=megatron-lm", "policy.schedule=gpipe", NULL } },
    { "one stage", { "layout.pp=1", "layout.tp=1", NULL } },
    { "four unequal stages",
      { "layout.pp=4", "layout.tp=1", "policy.partition=encoder-first", "policy.recompute=none",
        NULL } },
    { "slow network",
      { "layout.backend=megatron-lm", "cluster.gpus_per_node=2", "cluster.nic_Gbit_per_s_per_gpu=1",
        NULL } },
    { "frozen encoder",
      { "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"vision\"]}", "layout.zero_stage=0",
        NULL } },
    { "one micro-batch", { "training.global_batch={\"micro_batches\":2}", NULL } },
};
enum { SETUP_COUNT = sizeof setups / sizeof setups[0] };

/* ---- conservation ---- */

static double sum_of_classes(const struct replay *r) {
    double sum = 0;
    for (int class = 0; class < REPLAY_CLASS_COUNT; class ++)
        sum += r->classes_s[class];
    return sum;
}

static void test_classes_sum_to_the_step_time(void **state) {
    (void)state;
    for (int k = 0; k < SETUP_COUNT; k++) {
        struct scenario *s = fixture_scenario("samples.csv", setups[k].overrides);
        struct job *job = fixture_job(s);
        for (int fidelity = 0; fidelity < 2; fidelity++) {
            struct replay *r = fixture_replay(job, (enum fidelity)fidelity, 1);
            for (int class = 0; class < REPLAY_CLASS_COUNT; class ++)
                if (!(r->classes_s[class] >= 0))
                    fail_msg("%s, fidelity %d: %s is %g s", setups[k].name, fidelity,
                             replay_class_name((enum replay_class) class), r->classes_s[class]);
            double sum = sum_of_classes(r);
            if (fabs(sum / r->step_time_mean_s - 1) > 1e-9)
                fail_msg("%s, fidelity %d: classes sum to %.12g s, a mean step takes %.12g s",
                         setups[k].name, fidelity, sum, r->step_time_mean_s);
            assert_true(r->mfu_fraction > 0);
            assert_true(r->mfu_fraction <= r->hfu_fraction);
            assert_true(r->hfu_fraction < 1);
            replay_destroy(r);
        }
        job_destroy(job);
        scenario_destroy(s);
    }
}

/* Costs of every micro-batch of one rank and iteration, stage by stage. */
static void rank_costs(const struct job *job, int64_t iteration, int64_t rank,
                       struct stage_cost *costs) {
    int64_t count = job->scenario->micro_batches_per_rank;
    for (int64_t i = 0; i < count; i++) {
        const struct batch_shape *shape =
            &job->shapes[rank * job->batches.per_rank + iteration * count + i];
        struct layer_time times[LAYER_KIND_COUNT];
        step_layer_times(job->step, shape, times);
        for (int64_t stage = 0; stage < job->step->stage_count; stage++)
            step_stage_cost(job->step, stage, shape, times, NULL, &costs[stage * count + i]);
    }
}

/* A stage cannot begin before a micro-batch has passed the stages before it, and what it has
 * finished must still go back through them. */
static int64_t lower_bound_ns(const struct job *job, const struct stage_cost *costs) {
    int64_t count = job->scenario->micro_batches_per_rank, best = 0;
    bool blocks = job->scenario->backend->send_blocks_compute;
    for (int64_t stage = 0; stage < job->step->stage_count; stage++) {
        int64_t busy = 0, fill = INT64_MAX, drain = INT64_MAX;
        for (int64_t i = 0; i < count; i++) {
            const struct stage_cost *own = &costs[stage * count + i];
            busy += own->forward_ns + own->backward_ns;
            if (blocks) busy += own->send_forward_ns + own->send_backward_ns;
            int64_t in = 0, out = 0;
            for (int64_t before = 0; before < stage; before++) {
                in += costs[before * count + i].forward_ns +
                      costs[before * count + i].send_forward_ns;
                out += costs[before * count + i].backward_ns;
            }
            if (in < fill) fill = in;
            if (out < drain) drain = out;
        }
        if (fill + busy + drain > best) best = fill + busy + drain;
    }
    return best;
}

static void test_busy_time_is_the_sum_of_costs(void **state) {
    (void)state;
    for (int k = 0; k < SETUP_COUNT; k++) {
        struct scenario *s = fixture_scenario("samples.csv", setups[k].overrides);
        struct job *job = fixture_job(s);
        struct replay *r = fixture_replay(job, FIDELITY_STAGE, 1);
        int64_t stages = r->stage_count, count = s->micro_batches_per_rank, dp = s->layout.dp;
        struct stage_cost *costs = arena_array(s->arena, struct stage_cost, stages * count);
        double *busy_ns = arena_array(s->arena, double, stages);
        for (int64_t n = 0; n < r->iteration_count; n++) {
            int64_t bound = 0;
            for (int64_t rank = 0; rank < dp; rank++) {
                rank_costs(job, n, rank, costs);
                int64_t rank_bound = lower_bound_ns(job, costs);
                if (rank_bound > bound) bound = rank_bound;
                for (int64_t i = 0; i < stages * count; i++) {
                    const struct stage_cost *c = &costs[i];
                    busy_ns[i / count] += (double)(c->forward_ns + c->backward_ns);
                    if (s->backend->send_blocks_compute)
                        busy_ns[i / count] += (double)(c->send_forward_ns + c->send_backward_ns);
                }
            }
            const struct iteration_outcome *it = &r->iterations[n];
            if (it->slowest_rank_ns < bound)
                fail_msg("%s, iteration %ld: %ld ns, but at least %ld are needed", setups[k].name,
                         (long)n, (long)it->slowest_rank_ns, (long)bound);
            assert_true(it->fastest_rank_ns <= it->slowest_rank_ns);
            assert_true(it->step_time_ns >= it->slowest_rank_ns + job->step->update_ns);
        }
        for (int64_t stage = 0; stage < stages; stage++) {
            double want_s = busy_ns[stage] / (double)(r->iteration_count * dp) / NS_PER_S;
            if (fabs(r->stages[stage].busy_s - want_s) > 1e-9 * want_s)
                fail_msg("%s, stage %ld: busy %.12g s, want %.12g s", setups[k].name, (long)stage,
                         r->stages[stage].busy_s, want_s);
            assert_true(r->stages[stage].recompute_s <= r->stages[stage].backward_s);
        }
        replay_destroy(r);
        job_destroy(job);
        scenario_destroy(s);
    }
}

static void test_every_sample_once(void **state) {
    (void)state;
    static const char *const whole[] = { "training.global_batch={\"micro_batches\":10}", NULL };
    struct scenario *s = fixture_scenario("samples.csv", whole);
    struct job *job = fixture_job(s);
    assert_int_equal(job->epoch_iterations, 23); /* 230 samples, 10 a step */
    struct replay *r = fixture_replay(job, FIDELITY_STAGE, 2);
    int64_t tokens = 0, tiles = 0;
    for (int64_t i = 0; i < job->dataset->sample_count; i++) {
        tokens += job->dataset->samples[i].language_tokens;
        tiles += job->dataset->samples[i].vision_tiles;
    }
    assert_int_equal(r->samples, 230);
    assert_int_equal(r->useful_language_tokens, tokens);
    assert_int_equal(r->language_tokens, tokens); /* one sample a micro-batch: no padding */
    assert_int_equal(r->vision_tiles, tiles);
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
}

/* ---- repeatability ---- */

static void assert_equal_replays(const char *name, int threads, const struct replay *a,
                                 const struct replay *b) {
#define SAME(member)                                                                               \
    if (memcmp(&a->member, &b->member, sizeof a->member) != 0)                                     \
    fail_msg("%s, %d threads: " #member " differs", name, threads)
    SAME(iteration_count);
    SAME(samples);
    SAME(language_tokens);
    SAME(useful_language_tokens);
    SAME(vision_tiles);
    SAME(step_time_mean_s);
    SAME(step_time_p50_s);
    SAME(step_time_p95_s);
    SAME(step_time_p99_s);
    SAME(total_days);
    SAME(gpu_days);
    SAME(money_usd);
    SAME(mfu_fraction);
    SAME(hfu_fraction);
    SAME(classes_s);
    SAME(verdict);
    SAME(verdict_stage);
    SAME(verdict_class);
    SAME(band);
    SAME(inside_range);
#undef SAME
    if (memcmp(a->iterations, b->iterations, sizeof *a->iterations * (size_t)a->iteration_count) !=
        0)
        fail_msg("%s, %d threads: iterations differ", name, threads);
    if (memcmp(a->stages, b->stages, sizeof *a->stages * (size_t)a->stage_count) != 0)
        fail_msg("%s, %d threads: stages differ", name, threads);
}

static void test_threads_do_not_matter(void **state) {
    (void)state;
    static const int thread_counts[] = { 2, 3, 8 };
    for (int k = 0; k < SETUP_COUNT; k++)
        for (int fidelity = 0; fidelity < 2; fidelity++) {
            struct scenario *s = fixture_scenario("samples.csv", setups[k].overrides);
            struct job *job = fixture_job(s);
            struct replay *one = fixture_replay(job, (enum fidelity)fidelity, 1);
            for (size_t t = 0; t < sizeof thread_counts / sizeof thread_counts[0]; t++) {
                struct replay *many =
                    fixture_replay(job, (enum fidelity)fidelity, thread_counts[t]);
                assert_equal_replays(setups[k].name, thread_counts[t], one, many);
                replay_destroy(many);
            }
            replay_destroy(one);
            job_destroy(job);
            scenario_destroy(s);
        }
}

/* Steps of equal memory: the first one is the peak and the least. */
static void test_of_equal_peaks_the_first_is_kept(void **state) {
    (void)state;
    char text[2048] = "vision_tiles,text_tokens\n";
    for (int i = 0; i < 96; i++)
        strcat(text, "2,500\n");
    fixture_write("equal.csv", text);
    static const char *const none[] = { NULL };
    struct scenario *s = fixture_scenario("equal.csv", none);
    struct job *job = fixture_job(s);
    for (int threads = 1; threads <= 4; threads++) {
        struct replay *r = fixture_replay(job, FIDELITY_STAGE, threads);
        assert_int_equal(r->iteration_count, 6);
        for (int64_t stage = 0; stage < r->stage_count; stage++) {
            assert_int_equal(r->stages[stage].peak_iteration, 0);
            assert_int_equal(r->stages[stage].peak_rank, 0);
            assert_memory_equal(&r->stages[stage].peak, &r->stages[stage].least,
                                sizeof r->stages[stage].peak);
        }
        assert_true(r->step_time_p50_s == r->step_time_p99_s);
        assert_true(r->classes_s[REPLAY_RANK_IMBALANCE] == 0);
        replay_destroy(r);
    }
    job_destroy(job);
    scenario_destroy(s);
}

/* Steps alike are run once: each alone is what it is among the others, where most are alike and
 * some are not, and stragglers are drawn for each rank and step. */
static void test_steps_alike(void **state) {
    (void)state;
    static const char *const layouts[][8] = {
        { "layout.pp=2", NULL },
        { "layout.backend=fsdp", "layout.zero_stage=3", "layout.tp=1", "layout.pp=1",
          "layout.stack=hf-fsdp", "policy.partition=layer", NULL },
    };
    char text[4096] = "vision_tiles,text_tokens\n";
    for (int i = 0; i < 320; i++)
        strcat(text, i % 67 == 5 ? "1,900\n" : "2,500\n");
    fixture_write("alike.csv", text);
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        struct scenario *s = fixture_scenario("alike.csv", layouts[k]);
        struct job *job = fixture_job(s);
        struct replay *all = fixture_replay(job, FIDELITY_STAGE, 1);
        int64_t unlike = 0;
        assert_true(all->iteration_count >= 4);
        for (int64_t i = 0; i < all->iteration_count; i++) {
            struct job one = *job;
            one.shapes = job->shapes + i * s->micro_batches_per_rank;
            one.iteration_count = 1;
            struct replay *alone = fixture_replay(&one, FIDELITY_STAGE, 1);
            assert_memory_equal(&alone->iterations[0], &all->iterations[i],
                                sizeof alone->iterations[0]);
            unlike += all->iterations[i].step_time_ns != all->iterations[0].step_time_ns;
            replay_destroy(alone);
        }
        assert_true(unlike > 0);
        for (int threads = 2; threads <= 3; threads++) {
            struct replay *r = fixture_replay(job, FIDELITY_STAGE, threads);
            assert_equal_replays("alike", threads, all, r);
            replay_destroy(r);
        }
        replay_destroy(all);
        job_destroy(job);
        scenario_destroy(s);
    }
}

/* Of equal steps those with a straggler take longer. */
static void test_stragglers_among_steps_alike(void **state) {
    (void)state;
    char text[4096] = "vision_tiles,text_tokens\n";
    for (int i = 0; i < 320; i++)
        strcat(text, "2,500\n");
    fixture_write("uniform.csv", text);
    static const char *const overrides[] = { "what_if.straggler_fraction=0.2",
                                             "what_if.straggler_factor=1.5", NULL };
    struct scenario *s = fixture_scenario("uniform.csv", overrides);
    struct job *job = fixture_job(s);
    struct replay *r = fixture_replay(job, FIDELITY_STAGE, 1);
    int64_t slow = 0, least = INT64_MAX;
    for (int64_t i = 0; i < r->iteration_count; i++)
        if (r->iterations[i].step_time_ns < least) least = r->iterations[i].step_time_ns;
    for (int64_t i = 0; i < r->iteration_count; i++)
        slow += (double)r->iterations[i].step_time_ns > 1.1 * (double)least;
    assert_true(slow > 0 && slow < r->iteration_count);
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
}

static void test_least_memory_is_not_above_the_peak(void **state) {
    (void)state;
    struct scenario *s = fixture_scenario("samples.csv", setups[0].overrides);
    struct job *job = fixture_job(s);
    struct replay *r = fixture_replay(job, FIDELITY_STAGE, 2);
    for (int64_t stage = 0; stage < r->stage_count; stage++)
        assert_true(stage_memory_device(&r->stages[stage].least) <
                    stage_memory_device(&r->stages[stage].peak));
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
}

/* Copies of the own rank's activations count where the slowest rank's times do (ZeRO-3). */
static void test_offload_costs_time_where_ranks_are_held_together(void **state) {
    (void)state;
    double step_s[2];
    for (int i = 0; i < 2; i++) {
        const char *const overrides[] = { "layout.pp=1",
                                          "layout.tp=1",
                                          "layout.backend=deepspeed",
                                          "layout.zero_stage=3",
                                          "policy.recompute=none",
                                          "simulate.iterations=2",
                                          i == 0 ? "training.offload_blocks=0"
                                                 : "training.offload_blocks=200",
                                          NULL };
        struct scenario *s = fixture_scenario("samples.csv", overrides);
        struct job *job = fixture_job(s);
        struct replay *r = fixture_replay(job, FIDELITY_STAGE, 2);
        step_s[i] = r->step_time_mean_s;
        replay_destroy(r);
        job_destroy(job);
        scenario_destroy(s);
    }
    assert_true(step_s[1] > 1.01 * step_s[0]);
}

/* ---- how much is replayed ---- */

static void test_iteration_limit_and_epoch(void **state) {
    (void)state;
    static const char *const limited[] = { "simulate.iterations=3", "training.epochs=2", NULL };
    static const char *const beyond[] = { "simulate.iterations=1000", NULL };
    struct scenario *s = fixture_scenario("samples.csv", limited);
    struct job *job = fixture_job(s);
    /* 230 samples on two ranks: 115 each, 8 a step. */
    assert_int_equal(job->batches.per_rank, 115);
    assert_int_equal(job->epoch_iterations, 14);
    assert_true(job->epoch_steps == 115.0 / 8);
    assert_int_equal(job->iteration_count, 3);
    struct replay *r = fixture_replay(job, FIDELITY_STAGE, 1);
    assert_int_equal(r->iteration_count, 3);
    assert_int_equal(r->samples, 3 * 16);
    double days = r->step_time_mean_s * 115.0 / 8 * 2 / 86400;
    assert_true(fabs(r->total_days / days - 1) < 1e-12);
    assert_true(fabs(r->gpu_days / (8 * days) - 1) < 1e-12);
    assert_true(fabs(r->money_usd / (8 * days * 24 * 2.5) - 1) < 1e-12);
    double mean = 0, most = 0, least = INFINITY;
    for (int i = 0; i < 3; i++) {
        double step_s = (double)r->iterations[i].step_time_ns / 1e9;
        mean += step_s / 3;
        most = fmax(most, step_s);
        least = fmin(least, step_s);
    }
    assert_true(fabs(r->step_time_mean_s / mean - 1) < 1e-12);
    assert_true(r->step_time_p50_s >= least && r->step_time_p50_s <= r->step_time_p95_s);
    assert_true(r->step_time_p95_s <= r->step_time_p99_s && r->step_time_p99_s <= most);

    struct scenario *long_s = fixture_scenario("samples.csv", beyond);
    struct job *long_job = fixture_job(long_s);
    assert_int_equal(long_job->iteration_count, 14);
    struct replay *whole = fixture_replay(long_job, FIDELITY_STAGE, 1);
    /* The same first steps. */
    assert_memory_equal(whole->iterations, r->iterations, 3 * sizeof *r->iterations);
    replay_destroy(whole);
    job_destroy(long_job);
    scenario_destroy(long_s);
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
}

/* No measured step ran in fp32, so what its kernels may err is in the band. */
static void test_band_of_a_precision(void **state) {
    (void)state;
    static const char *const overrides[][4] = {
        { "simulate.iterations=1", "model=llama3-8b", "training.precision=bf16", NULL },
        { "simulate.iterations=1", "model=llama3-8b", "training.precision=fp32", NULL },
    };
    for (int fp32 = 0; fp32 < 2; fp32++) {
        struct scenario *s = fixture_scenario("samples.csv", overrides[fp32]);
        struct job *job = fixture_job(s);
        struct replay *r = fixture_replay(job, FIDELITY_STAGE, 1);
        assert_true((r->stated_band_fraction >= r->operators_band_fraction) == (fp32 == 1));
        if (fp32) assert_true(r->band.above > r->operators_band_fraction);
        replay_destroy(r);
        job_destroy(job);
        scenario_destroy(s);
    }
}

static void count_progress(void *context, int64_t done, int64_t total) {
    int64_t *seen = context;
    assert_true(done > seen[0] && done <= total);
    seen[0] = done;
    seen[1] = total;
}

static void test_progress_reaches_the_end(void **state) {
    (void)state;
    struct scenario *s = fixture_scenario("samples.csv", setups[0].overrides);
    struct job *job = fixture_job(s);
    int64_t seen[2] = { 0, 0 };
    struct replay_options options = { .threads = 1,
                                      .progress = count_progress,
                                      .progress_context = seen };
    struct replay *r = replay_run(job, &options, NULL);
    assert_non_null(r);
    assert_int_equal(seen[0], 14);
    assert_int_equal(seen[1], 14);
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
}

/* ---- memory verdicts ---- */

static struct replay *replay_with_memory(double hbm_factor, struct job **job,
                                         struct scenario **scenario) {
    struct fixture_scale scale = { "hbm_GiB", hbm_factor };
    char override[600], name[32]; /* of its own each: the cache knows files by their names */
    snprintf(name, sizeof name, "gpu-%.6f.json", hbm_factor);
    snprintf(override, sizeof override, "cluster.hardware=%s", fixture_hardware(name, &scale, 1));
    const char *overrides[] = { override, "simulate.iterations=4", NULL };
    *scenario = fixture_scenario("samples.csv", overrides);
    *job = fixture_job(*scenario);
    return fixture_replay(*job, FIDELITY_STAGE, 1);
}

static void test_verdicts(void **state) {
    (void)state;
    struct scenario *s;
    struct job *job;
    struct replay *r = replay_with_memory(1, &job, &s);
    double capacity = 80 * BYTES_PER_GiB, most = 0;
    int64_t fullest = 0;
    for (int64_t stage = 0; stage < r->stage_count; stage++) {
        double bytes = stage_memory_device(&r->stages[stage].peak);
        if (bytes > most) {
            most = bytes;
            fullest = stage;
        }
    }
    replay_destroy(r);
    job_destroy(job);
    scenario_destroy(s);
    const struct {
        const char *name;
        double bytes; /* of the GPU */
        enum verdict want;
    } cases[] = {
        { "far larger", most * 1.2, VERDICT_FITS },
        { "just not tight", most / REPLAY_TIGHT_FRACTION * 1.001, VERDICT_FITS },
        { "just tight", most / REPLAY_TIGHT_FRACTION * 0.999, VERDICT_TIGHT },
        { "a little more than needed", most * 1.001, VERDICT_TIGHT },
        { "a little less than needed", most * 0.999, VERDICT_OUT_OF_MEMORY },
        { "half", most * 0.5, VERDICT_OUT_OF_MEMORY },
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        r = replay_with_memory(cases[k].bytes / capacity, &job, &s);
        if (r->verdict != cases[k].want)
            fail_msg("%s: got \"%s\", want \"%s\"", cases[k].name, verdict_name(r->verdict),
                     verdict_name(cases[k].want));
        assert_int_equal(r->verdict_stage, fullest);
        const double *bytes = r->stages[fullest].peak.bytes;
        for (int class = 0; class < MEMORY_CONTEXT; class ++)
            assert_true(bytes[r->verdict_class] >= bytes[class]);
        replay_destroy(r);
        job_destroy(job);
        scenario_destroy(s);
    }
}

/* ---- planning beside the iteration before ---- */

/* Leaves the order as it is and says that it took parameters[0] seconds, by a budget where [1]. */
static bool pretend_to_plan(const struct planner_oracle *oracle, const void *parameters,
                            const struct job_plan *plan, struct iteration_plan *it,
                            struct error *err) {
    (void)oracle, (void)plan, (void)err;
    it->planner_s = ((const double *)parameters)[0];
    it->timed = ((const double *)parameters)[1] > 0;
    return true;
}

static void test_planning_is_held_against_the_iteration_before(void **state) {
    (void)state;
    static const struct planner slow = { .name = "slow", .plan_iteration = pretend_to_plan };
    struct scenario *s = fixture_scenario("samples.csv", setups[0].overrides);
    struct job *job = fixture_job(s);
    struct replay *before = fixture_replay(job, FIDELITY_STAGE, 1);
    assert_true(isnan(before->planner_mean_s) && before->repeatable);
    assert_true(before->iteration_count > 2 && before->iterations[0].planner_ns < 0);
    double parameters[2] = { 0, 0 }, most_s = 0;
    for (int64_t i = 0; i < before->iteration_count; i++)
        most_s = fmax(most_s, seconds_from_ns(before->iterations[i].step_time_ns));
    job->step->iteration_planner = &slow;
    job->step->iteration_parameters = parameters;
    for (int k = 0; k < 2; k++) {
        parameters[0] = k == 0 ? 1e-3 : 2 * most_s;
        parameters[1] = k;
        struct replay *r = fixture_replay(job, FIDELITY_STAGE, 1);
        double want_s = 0;
        for (int64_t i = 1; k == 1 && i < r->iteration_count; i++)
            want_s += parameters[0] - seconds_from_ns(r->iterations[i - 1].step_time_ns);
        assert_int_equal(r->planner_exposed_count, k == 0 ? 0 : r->iteration_count - 1);
        assert_true(fabs(r->planner_exposed_s - want_s / (double)r->iteration_count) < 1e-6);
        assert_true(fabs(r->planner_mean_s - parameters[0]) < 1e-6);
        assert_true(fabs(r->planner_most_s - parameters[0]) < 1e-6);
        assert_true(r->repeatable == (k == 0));
        assert_true(r->step_time_mean_s == before->step_time_mean_s); /* reported, never added */
        replay_destroy(r);
    }
    replay_destroy(before);
    job_destroy(job);
    scenario_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_sum_to_the_step_time),
        cmocka_unit_test(test_busy_time_is_the_sum_of_costs),
        cmocka_unit_test(test_every_sample_once),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_of_equal_peaks_the_first_is_kept),
        cmocka_unit_test(test_steps_alike),
        cmocka_unit_test(test_stragglers_among_steps_alike),
        cmocka_unit_test(test_least_memory_is_not_above_the_peak),
        cmocka_unit_test(test_offload_costs_time_where_ranks_are_held_together),
        cmocka_unit_test(test_iteration_limit_and_epoch),
        cmocka_unit_test(test_band_of_a_precision),
        cmocka_unit_test(test_progress_reaches_the_end),
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_planning_is_held_against_the_iteration_before),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
