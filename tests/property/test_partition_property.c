/* test_partition_property.c - searches against the enumeration of all that they search. */
#include <time.h>
#include "sim/policy/partition/bmp.h"
#include "sim/policy/partition/exact.h"
#include "sim/policy/partition/partition_profile.h"
#include "tests/property/partition_fixture.h"

static double cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- exact ---- */

static const struct {
    const char *model, *layout, *policy, *set;
    int64_t gpus, micro_batches;
} exact_cases[] = {
    { "internvl-6b-20b", "\"tp\": 2, \"pp\": 3, \"backend\": \"megatron-deepspeed\"",
      "\"recompute\": \"full\"", NULL, 6, 16 },
    { "internvl-6b-20b", "\"tp\": 4, \"pp\": 2", "\"recompute\": \"none\"", NULL, 8, 3 },
    { "internvl-6b-8b", "\"tp\": 2, \"pp\": 3", "\"recompute\": \"full\", \"schedule\": \"gpipe\"",
      NULL, 6, 8 },
    { "internvl-6b-8b", "\"tp\": 2, \"pp\": 3", "\"recompute\": \"full\"",
      "model.frozen=[\"vision\"]", 6, 8 },
    { "llama3-8b", "\"pp\": 4, \"zero_stage\": 0", "\"recompute\": \"none\"", NULL, 4, 16 },
    { "llama3-8b", "\"pp\": 4", "\"recompute\": \"selective\"", NULL, 4, 4 },
    { "llama3-8b", "\"pp\": 4, \"zero_stage\": 1", "\"recompute\": \"full\"", NULL, 4, 1 },
};

static void test_exact_against_all_partitions(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof exact_cases / sizeof exact_cases[0]; k++) {
        const char *const overrides[] = { exact_cases[k].set, NULL };
        struct partition_job p =
            fixture_job(exact_cases[k].model, exact_cases[k].layout, exact_cases[k].gpus,
                        exact_cases[k].micro_batches, exact_cases[k].policy, overrides);
        struct job_plan plan = p.job->plan;
        struct exact_result found;
        struct error err = { 0 };
        int64_t stages = plan.stage_count, blocks[8], best[8];
        if (!exact_search(&p.oracle, &plan, 1000000, best, &found, &err)) fail_msg("%s", err.text);
        assert_true(found.proven && found.bound_seconds == found.seconds);
        for (int64_t s = 0; s < stages; s++)
            blocks[s] = s + 1 < stages
                            ? 1
                            : partition_block_count(p.scenario->model) - (stages - 1);
        double least = INFINITY, least_fitting = INFINITY;
        int64_t count = 0;
        do {
            double seconds;
            bool fits;
            partition_apply(p.scenario->model, blocks, &plan);
            assert_true(partition_evaluate(&p.oracle, &plan, &seconds, &fits, &err));
            least = fmin(least, seconds);
            if (fits) least_fitting = fmin(least_fitting, seconds);
            count++;
        } while (fixture_next(blocks, stages));
        double want = isfinite(least_fitting) ? least_fitting : least;
        if (found.seconds != want || found.fits != isfinite(least_fitting))
            fail_msg("case %zu: got %.9g s, the best of %ld partitions is %.9g s", k,
                     found.seconds, (long)count, want);
        if (found.simulated * 4 > count)
            fail_msg("case %zu: %ld of %ld partitions simulated: the bound prunes nothing", k,
                     (long)found.simulated, (long)count);
        partition_apply(p.scenario->model, best, &plan);
        double seconds;
        bool fits;
        assert_true(partition_evaluate(&p.oracle, &plan, &seconds, &fits, &err));
        assert_true(seconds == found.seconds && fits == found.fits);
        fixture_close(&p);
    }
}

/* Cut short, it still says how far the best can be at most. */
static void test_exact_with_a_limit(void **state) {
    (void)state;
    struct partition_job p = fixture_job("vit-2b-lm-5b", "\"pp\": 8", 8, 8,
                                         "\"recompute\": \"full\"", NULL);
    struct exact_result all, some;
    struct error err = { 0 };
    int64_t blocks[8];
    assert_true(exact_search(&p.oracle, &p.job->plan, 1000000, blocks, &all, &err));
    assert_true(exact_search(&p.oracle, &p.job->plan, 1, blocks, &some, &err));
    assert_int_equal(some.simulated, 1);
    assert_true(all.simulated > 1);
    assert_false(some.proven);
    assert_true(some.seconds >= all.seconds && some.bound_seconds <= all.seconds);
    assert_true(some.seconds < 1.25 * some.bound_seconds);
    fixture_close(&p);
}

/* ---- bmp ---- */

/* Objectives of all partitions within the radius, the `top` least of them, by insertion. */
static int64_t enumerate(const struct bmp_problem *problem, const double *prefix, double mean,
                         double variance_scale, double bytes_scale, int64_t top, double *least) {
    int64_t stages = problem->stage_count, offsets[16] = { 0 }, base[17] = { 0 }, count = 0;
    for (int64_t s = 0; s < stages; s++) {
        offsets[s] = -problem->radius;
        base[s + 1] = base[s] + problem->anchor[s];
    }
    for (;;) {
        double objective = 0;
        int64_t begin = 0;
        bool valid = true;
        for (int64_t s = 1; s <= stages && valid; s++) {
            int64_t end = s < stages ? base[s] + offsets[s] : problem->block_count;
            valid = end > begin;
            if (!valid) break;
            double off = prefix[end] - prefix[begin] - mean;
            double bytes = begin > 0 ? problem->cut_bytes[begin] : 0;
            objective += off * off * variance_scale + bytes * bytes_scale;
            begin = end;
        }
        if (valid && (count < top || objective < least[count - 1])) {
            int64_t at = count < top ? count++ : top - 1;
            for (; at > 0 && least[at - 1] > objective; at--)
                least[at] = least[at - 1];
            least[at] = objective;
        }
        int64_t s = stages - 1;
        while (s > 0 && offsets[s] == problem->radius)
            offsets[s--] = -problem->radius;
        if (s == 0) return count;
        offsets[s]++;
    }
}

static void check_bmp(const char *name, const struct bmp_problem *problem, int64_t top) {
    struct arena *arena = arena_create();
    struct bmp_candidate *got = arena_array(arena, struct bmp_candidate, top), anchor;
    int64_t count = bmp_candidates(arena, problem, top, got);
    double *prefix = arena_array(arena, double, problem->block_count + 1);
    double *least = arena_array(arena, double, top + 1);
    for (int64_t i = 0; i < problem->block_count; i++)
        prefix[i + 1] = prefix[i] + problem->seconds[i];
    double mean = prefix[problem->block_count] / (double)problem->stage_count;
    bmp_measure(problem, problem->anchor, &anchor);
    bool printed = problem->units == BMP_PRINTED;
    double scale = anchor.variance > 0 ? anchor.variance : mean * mean;
    int64_t all = enumerate(problem, prefix, mean, printed ? 1e6 : 1 / scale,
                            printed            ? problem->weight / 1048576
                            : anchor.bytes > 0 ? problem->weight / anchor.bytes
                                               : 0,
                            top, least);
    if (count != all) fail_msg("%s: %ld candidates, there are %ld", name, (long)count, (long)all);
    for (int64_t i = 0; i < count; i++) {
        if (fabs(got[i].objective - least[i]) > 1e-9 * fabs(least[i]))
            fail_msg("%s: candidate %ld has %.12g, the best has %.12g", name, (long)i,
                     got[i].objective, least[i]);
        int64_t sum = 0, at = 0, base = 0;
        for (int64_t s = 0; s < problem->stage_count; s++) {
            if (s > 0 && labs((long)(at - base)) > problem->radius)
                fail_msg("%s: cut %ld is outside the radius", name, (long)s);
            sum += got[i].blocks[s];
            at += got[i].blocks[s];
            base += problem->anchor[s];
            assert_true(got[i].blocks[s] > 0);
        }
        assert_int_equal(sum, problem->block_count);
    }
    arena_destroy(arena);
}

static void test_bmp_on_random_blocks(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 3);
    for (int round = 0; round < 300; round++) {
        double seconds[40], bytes[40];
        int64_t block_count = 8 + random_mt_next(&mt) % 32, anchor[8];
        int64_t stages = 1 + random_mt_next(&mt) % 6;
        for (int64_t i = 0; i < block_count; i++) {
            seconds[i] = 1e-3 * (double)(1 + random_mt_next(&mt) % (round % 3 == 0 ? 1 : 9));
            bytes[i] = 1e6 * (double)(random_mt_next(&mt) % 4);
        }
        bmp_anchor(seconds, block_count, stages, anchor);
        struct bmp_problem problem = { .seconds = seconds,
                                       .cut_bytes = bytes,
                                       .block_count = block_count,
                                       .stage_count = stages,
                                       .anchor = anchor,
                                       .radius = random_mt_next(&mt) % 4,
                                       .weight = (double)(random_mt_next(&mt) % 3),
                                       .units = round % 2 == 0 ? BMP_RELATIVE : BMP_PRINTED };
        check_bmp("random", &problem, 1 + random_mt_next(&mt) % 20);
    }
}

/* Within a second, the simulation of its best candidates included. */
static void check_bmp_time(const char *name, int64_t stages, const struct partition_job *p) {
    double start = cpu_s();
    struct error err = { 0 };
    struct {
        int64_t radius, top;
        double weight;
        int anchor, units, time;
    } parameters = { 3, 12, 1, 0, 0, 0 };
    struct job_plan plan = p->job->plan;
    assert_true(partition_bmp.plan_job(&p->oracle, &parameters, &plan, &err));
    double took_s = cpu_s() - start;
    if (took_s >= 1) fail_msg("%s on %ld stages: %g s", name, (long)stages, took_s);
}

/* Every shipped model on 2 to 8 stages with the paper's largest radius, and in how long,
 * recomputing everything and as little as fits. */
static void test_bmp_on_all_models(void **state) {
    (void)state;
    DIR *directory = opendir(SCENARIOS "/models");
    assert_non_null(directory);
    int64_t checked = 0;
    for (struct dirent *e = readdir(directory); e != NULL; e = readdir(directory)) {
        char name[300];
        snprintf(name, sizeof name, "%s", e->d_name);
        char *end = strstr(name, ".json");
        if (end == NULL) continue;
        *end = '\0';
        for (int64_t stages = 2; stages <= 8; stages++) {
            char layout[32];
            snprintf(layout, sizeof layout, "\"pp\": %ld", (long)stages);
            struct partition_job p =
                fixture_job(name, layout, stages, 16, "\"recompute\": \"full\"", NULL);
            struct arena *arena = arena_create();
            const struct model *model = p.scenario->model;
            int64_t block_count = partition_block_count(model), anchor[8];
            double *bytes = arena_array(arena, double, block_count);
            for (int64_t b = 1; b < block_count; b++)
                bytes[b] = layer_output_bytes(model, partition_stage_start(model, b) - 1,
                                              &p.oracle.typical);
            struct bmp_problem problem = { .seconds = partition_profile(arena, &p.oracle,
                                                                        &p.oracle.typical,
                                                                        PARTITION_TIME_FORWARD),
                                           .cut_bytes = bytes,
                                           .block_count = block_count,
                                           .stage_count = stages,
                                           .anchor = anchor,
                                           .radius = 3,
                                           .weight = 1 };
            bmp_anchor(problem.seconds, block_count, stages, anchor);
            check_bmp(name, &problem, 12);
            check_bmp_time(name, stages, &p);
            fixture_close(&p);
            p = fixture_job(name, layout, stages, 16, "\"recompute\": \"adaptive\"", NULL);
            check_bmp_time(name, stages, &p);
            arena_destroy(arena);
            fixture_close(&p);
            checked++;
        }
    }
    closedir(directory);
    assert_true(checked >= 210);
}

/* It never loses to the partition that it starts from, nor to the ones that it looks at less. */
static void test_bmp_simulates_its_candidates(void **state) {
    (void)state;
    static const char *const policies[] = {
        "\"recompute\": \"full\", \"partition\": { \"name\": \"bmp\", \"top\": 1 }",
        "\"recompute\": \"full\", \"partition\": { \"name\": \"bmp\", \"top\": 5 }",
        "\"recompute\": \"full\", \"partition\": { \"name\": \"bmp\", \"top\": 50 }",
        "\"recompute\": \"full\", \"partition\": \"exact\"",
    };
    double last = INFINITY;
    for (size_t k = 0; k < sizeof policies / sizeof policies[0]; k++) {
        struct partition_job p =
            fixture_job("internvl-6b-20b", "\"tp\": 2, \"pp\": 4", 8, 32, policies[k], NULL);
        double seconds;
        bool fits;
        struct error err = { 0 };
        assert_true(partition_evaluate(&p.oracle, &p.job->plan, &seconds, &fits, &err));
        if (seconds > last) fail_msg("%s: %g s after %g s", policies[k], seconds, last);
        last = seconds;
        fixture_close(&p);
    }
}

static double partition_seconds(const char *policy, const char *frozen) {
    const char *const overrides[] = { frozen, NULL };
    struct partition_job p = fixture_job("internvl-6b-8b", "\"pp\": 7", 7, 32, policy, overrides);
    double seconds;
    bool fits;
    struct error err = { 0 };
    assert_true(partition_evaluate(&p.oracle, &p.job->plan, &seconds, &fits, &err));
    fixture_close(&p);
    return seconds;
}

/* A frozen encoder runs no backward: weighed by its forward alone, it would fill stages that
 * wait. */
static void test_frozen_modules_weigh_what_they_run(void **state) {
    (void)state;
    static const char *const cases[] = { "model.frozen=[\"vision\"]",
                                         "model.frozen=[\"vision\", \"language\"]" };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const double best =
            partition_seconds("\"recompute\": \"none\", \"partition\": \"exact\"", cases[k]);
        const double bmp =
            partition_seconds("\"recompute\": \"none\", \"partition\": \"bmp\"", cases[k]);
        const double profile =
            partition_seconds("\"recompute\": \"none\", \"partition\": \"profile\"", cases[k]);
        const double forward = partition_seconds(
            "\"recompute\": \"none\", \"partition\": {\"name\": \"bmp\", \"time\": \"forward\"}",
            cases[k]);
        if (bmp > 1.03 * best || profile > 1.10 * best)
            fail_msg("%s: bmp %g s, profile %g s, best %g s", cases[k], bmp, profile, best);
        if (k == 0 && forward < 1.2 * best)
            fail_msg("%s: the forward alone gives %g s, best %g s", cases[k], forward, best);
    }
}

static double slowest_stage(const double *seconds, const int64_t *blocks, int64_t stages) {
    double slowest = 0;
    for (int64_t stage = 0, b = 0; stage < stages; stage++) {
        double sum = 0;
        for (const int64_t end = b + blocks[stage]; b < end; b++)
            sum += seconds[b];
        if (sum > slowest) slowest = sum;
    }
    return slowest;
}

/* A profile of one sample: no partition has a shorter slowest stage for that sample, and the mean
 * micro-batch, which has less vision to its text, is cut elsewhere. */
static void test_profile_of_one_sample(void **state) {
    (void)state;
    enum { STAGES = 3 };
    struct partition_job p =
        fixture_job("internvl-6b-20b", "\"tp\": 2, \"pp\": 3", 6, 16,
                    "\"partition\": {\"name\": \"profile\", \"tiles\": 5, \"tokens\": 1300}", NULL);
    struct arena *arena = arena_create();
    const struct model *model = p.scenario->model;
    const struct batch_shape sample = model_batch_shape(model, 1, 5, 1300, 1300.0 * 1300.0);
    const double *seconds = partition_profile(arena, &p.oracle, &sample, PARTITION_TIME_FORWARD);
    const int64_t block_count = partition_block_count(model);
    int64_t blocks[STAGES] = { 1, 1, block_count - 2 }, planned[STAGES], mean[STAGES];
    double least = INFINITY;
    do
        least = fmin(least, slowest_stage(seconds, blocks, STAGES));
    while (fixture_next(blocks, STAGES));
    partition_blocks(model, &p.job->plan, planned);
    assert_float_equal(slowest_stage(seconds, planned, STAGES), least, 1e-12);

    partition_min_max(
        arena, partition_profile(arena, &p.oracle, &p.oracle.typical, PARTITION_TIME_FORWARD),
        block_count, STAGES, mean);
    assert_true(planned[0] < mean[0]);
    arena_destroy(arena);
    fixture_close(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile_of_one_sample),
        cmocka_unit_test(test_frozen_modules_weigh_what_they_run),
        cmocka_unit_test(test_exact_against_all_partitions),
        cmocka_unit_test(test_exact_with_a_limit),
        cmocka_unit_test(test_bmp_on_random_blocks),
        cmocka_unit_test(test_bmp_on_all_models),
        cmocka_unit_test(test_bmp_simulates_its_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
