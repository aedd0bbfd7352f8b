/* test_recompute_property.c - adaptive recomputation against the enumeration of all choices, and
 * against the memory of real iterations. */
#include "sim/base/file_read.h"
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/policy/recompute/adaptive.h"
#include "sim/policy/recompute/recompute.h"
#include "sim/replay/replay.h"
#include "tests/property/partition_fixture.h"

static void test_choice_against_all_pairs(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 11);
    int64_t partly = 0;
    for (int round = 0; round < 20000; round++) {
        struct adaptive_stage s = { 0 };
        for (int k = 0; k < 2; k++) {
            s.blocks[k] = random_mt_next(&mt) % 9;
            s.seconds[k] = (double)(1 + random_mt_next(&mt) % 5);
            s.kept_bytes[k] = (double)(random_mt_next(&mt) % 7);
        }
        for (int v = 0; v < 2; v++) /* a jump down where the last of a kind keeps */
            for (int l = 0; l < 2; l++)
                s.base_bytes[v][l] =
                    10 + (v ? (double)s.blocks[0] * s.kept_bytes[0] - random_mt_next(&mt) % 4 : 0) +
                    (l ? (double)s.blocks[1] * s.kept_bytes[1] - random_mt_next(&mt) % 4 : 0);
        double budget = (double)(random_mt_next(&mt) % 60), best = -1;
        for (int64_t v = 0; v <= s.blocks[0]; v++)
            for (int64_t l = 0; l <= s.blocks[1]; l++) {
                bool all_v = v == s.blocks[0], all_l = l == s.blocks[1];
                double bytes = s.base_bytes[all_v][all_l] +
                               (all_v ? 0 : (double)v * s.kept_bytes[0]) +
                               (all_l ? 0 : (double)l * s.kept_bytes[1]);
                if (bytes <= budget)
                    best = fmax(best, (double)v * s.seconds[0] + (double)l * s.seconds[1]);
            }
        int64_t keep[2];
        bool fits = adaptive_choose(&s, budget, keep);
        assert_true(fits == (best >= 0));
        double got = (double)keep[0] * s.seconds[0] + (double)keep[1] * s.seconds[1];
        if (fits && got != best) fail_msg("round %d: saves %g of %g s", round, got, best);
        partly += fits && keep[0] + keep[1] > 0 && keep[0] + keep[1] < s.blocks[0] + s.blocks[1];
    }
    assert_true(partly > 1000);
}

/* Layouts that leave too little memory for all activations, and one that leaves enough. */
static const struct {
    const char *model, *layout, *policy, *set;
    int64_t gpus, micro_batches;
} cases[] = {
    { "internvl-6b-20b", "\"tp\": 2, \"pp\": 4, \"backend\": \"megatron-deepspeed\"",
      "\"partition\": \"bmp\"", "training.micro_batch={\"samples\":2}", 8, 16 },
    { "internvl-6b-20b", "\"tp\": 2, \"pp\": 4, \"backend\": \"megatron-deepspeed\"",
      "\"partition\": \"bmp\", \"batching\": \"isf\"", NULL, 8, 16 },
    { "internvl-6b-8b", "\"tp\": 2, \"pp\": 2", "\"partition\": \"layer\"", NULL, 8, 16 },
    { "internvl-6b-8b", "\"tp\": 2, \"pp\": 2", "\"partition\": \"layer\", \"schedule\": \"gpipe\"",
      NULL, 8, 16 },
    { "internvl-6b-8b", "\"tp\": 2, \"pp\": 2", "\"partition\": \"layer\"",
      "model.frozen=[\"vision\"]", 8, 16 },
    { "llama3-8b", "\"tp\": 1, \"pp\": 4", "\"partition\": \"layer\"",
      "training.micro_batch={\"samples\":4}", 4, 8 },
};

static struct partition_job case_job(size_t k, const char *recompute) {
    char policy[256];
    snprintf(policy, sizeof policy, "%s, \"recompute\": %s", cases[k].policy, recompute);
    const char *const overrides[] = { cases[k].set, NULL };
    return fixture_job(cases[k].model, cases[k].layout, cases[k].gpus, cases[k].micro_batches,
                       policy, overrides);
}

/* Seconds of recomputation of the stage in one micro-batch. */
static double recompute_seconds(const struct partition_job *p, const struct job_plan *plan,
                                int64_t stage) {
    double sum = 0;
    for (int64_t i = plan->first_layer[stage]; i < plan->first_layer[stage + 1]; i++)
        if (plan->recompute[i] == RECOMPUTE_FULL)
            sum +=
                p->oracle.layer_seconds(p->oracle.context, i, &p->oracle.typical, PASS_SET_FORWARD);
    return sum;
}

/* The first `vision` and `language` blocks of the stage recompute. */
static void set_pair(const struct model *model, struct job_plan *plan, int64_t stage,
                     int64_t vision, int64_t language) {
    for (int64_t i = plan->first_layer[stage]; i < plan->first_layer[stage + 1]; i++) {
        bool is_vision = model->layers[i].kind == LAYER_VISION_BLOCK;
        struct gradient_need need = model_gradient_need(model, i);
        bool can = layer_can_recompute(model, i) && (need.input || need.weight);
        int64_t *left = is_vision ? &vision : &language;
        plan->recompute[i] = can && (*left)-- > 0 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    }
}

/* No choice of any stage that fits recomputes for less time; memory is used up but for the reserve,
 * less than one block, or everything keeps. */
static void test_stages_against_all_choices(void **state) {
    (void)state;
    int64_t partly = 0;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct partition_job p = case_job(k, "{ \"name\": \"adaptive\", \"reserve_GiB\": 3 }");
        const struct planner_oracle *o = &p.oracle;
        const struct model *model = p.scenario->model;
        struct job_plan trial = p.job->plan;
        struct arena *arena = arena_create();
        trial.recompute = arena_array(arena, enum recompute_kind, model->layer_count);
        memcpy(trial.recompute, p.job->plan.recompute,
               sizeof *trial.recompute * (size_t)model->layer_count);
        double budget = o->capacity_bytes - 3 * 1073741824.0;
        for (int64_t stage = 0; stage < trial.stage_count; stage++) {
            double got = recompute_seconds(&p, &p.job->plan, stage), best = INFINITY;
            double used = o->stage_bytes(o->context, &p.job->plan, stage, &o->largest);
            int64_t blocks[2] = { 0, 0 };
            for (int64_t i = trial.first_layer[stage]; i < trial.first_layer[stage + 1]; i++) {
                struct gradient_need need = model_gradient_need(model, i);
                if (layer_can_recompute(model, i) && (need.input || need.weight))
                    blocks[model->layers[i].kind != LAYER_VISION_BLOCK]++;
            }
            for (int64_t v = 0; v <= blocks[0]; v++)
                for (int64_t l = 0; l <= blocks[1]; l++) {
                    set_pair(model, &trial, stage, v, l);
                    if (o->stage_bytes(o->context, &trial, stage, &o->largest) <= budget)
                        best = fmin(best, recompute_seconds(&p, &trial, stage));
                }
            if (isfinite(best) && used > budget) fail_msg("case %zu: %g bytes", k, used);
            if (isfinite(best) && got > best * (1 + 1e-12))
                fail_msg("case %zu, stage %ld: recomputes for %g s, %g would do", k, (long)stage,
                         got, best);
            partly += got > 0 && isfinite(best);
        }
        arena_destroy(arena);
        fixture_close(&p);
    }
    assert_true(partly >= 3); /* there is something to choose */
}

/* Two stages, many choices of both simulated in full: none that fits beats it. */
static void test_iteration_against_all_choices(void **state) {
    (void)state;
    static const size_t small[] = { 2, 4 };
    for (size_t j = 0; j < sizeof small / sizeof small[0]; j++) {
        struct partition_job p = case_job(small[j], "{ \"name\": \"adaptive\" }");
        const struct planner_oracle *o = &p.oracle;
        const struct model *model = p.scenario->model;
        struct error err = { 0 };
        double seconds, best = INFINITY;
        assert_true(o->simulate(o->context, &p.job->plan, &seconds, &err));
        struct job_plan trial = p.job->plan;
        double budget = o->capacity_bytes - 2 * 1073741824.0;
        for (int64_t v = 0; v <= 45; v++)
            for (int64_t l = 0; l <= 32; l += 4) {
                set_pair(model, &trial, 0, v, 0);
                set_pair(model, &trial, 1, v, l);
                bool fits = true;
                for (int64_t stage = 0; stage < 2; stage++)
                    fits = fits && o->stage_bytes(o->context, &trial, stage, &o->largest) <= budget;
                double other;
                if (!fits) continue;
                assert_true(o->simulate(o->context, &trial, &other, &err));
                best = fmin(best, other);
            }
        if (seconds > best) fail_msg("case %zu: %g s, others take %g s", small[j], seconds, best);
        fixture_close(&p);
    }
}

/* Real iterations never need more than the choice was made for. */
static void test_no_iteration_runs_out(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct partition_job full = case_job(k, "\"full\""),
                             adaptive = case_job(k, "{ \"name\": \"adaptive\" }");
        struct replay_options options = { .threads = 1 };
        struct error err = { 0 };
        struct replay *before = replay_run(full.job, &options, &err);
        struct replay *after = replay_run(adaptive.job, &options, &err);
        if (before == NULL || after == NULL) fail_msg("%s", err.text);
        for (int64_t stage = 0; stage < after->stage_count; stage++) {
            double peak = stage_memory_device(&after->stages[stage].peak);
            const struct planner_oracle *o = &adaptive.oracle;
            if (peak > o->stage_bytes(o->context, &adaptive.job->plan, stage, &o->largest))
                fail_msg("case %zu, stage %ld: %g bytes", k, (long)stage, peak);
        }
        if (before->verdict != VERDICT_OUT_OF_MEMORY && after->verdict == VERDICT_OUT_OF_MEMORY)
            fail_msg("case %zu: out of memory", k);
        assert_true(after->step_time_mean_s <= before->step_time_mean_s);
        replay_destroy(before);
        replay_destroy(after);
        fixture_close(&full);
        fixture_close(&adaptive);
    }
}

/* Interleaved chunks: fits, and no chunk could keep one block more. */
static void test_chunks_use_what_is_free(void **state) {
    (void)state;
    struct partition_job p = fixture_job(
        "llama3-8b", "\"tp\": 1, \"pp\": 4, \"vpp\": 2", 4, 8, "\"recompute\": \"adaptive\"",
        (const char *const[]){ "training.micro_batch={\"samples\":4}", NULL });
    const struct planner_oracle *o = &p.oracle;
    double budget = o->capacity_bytes - 2 * 1073741824.0;
    int64_t recomputing = 0, keeping = 0;
    for (int64_t stage = 0; stage < 4; stage++) {
        assert_true(o->stage_bytes(o->context, &p.job->plan, stage, &o->largest) <= budget);
        for (int64_t chunk = 0; chunk < 2; chunk++) {
            int64_t part = chunk * 4 + stage, first = -1;
            for (int64_t i = p.job->plan.first_layer[part]; i < p.job->plan.first_layer[part + 1];
                 i++) {
                bool again = p.job->plan.recompute[i] == RECOMPUTE_FULL;
                recomputing += again;
                keeping += !again;
                if (again) first = i;
            }
            if (first < 0) continue;
            p.job->plan.recompute[first] = RECOMPUTE_NONE;
            double more = o->stage_bytes(o->context, &p.job->plan, stage, &o->largest);
            p.job->plan.recompute[first] = RECOMPUTE_FULL;
            if (more <= budget)
                fail_msg("part %ld: one block more fits into %g bytes", (long)part, more);
        }
    }
    assert_true(recomputing > 0 && keeping > 0);
    fixture_close(&p);
}

/* ---- small random jobs against every set of recomputing blocks ---- */

enum { MOST_BLOCKS = 9 };

/* At most MOST_BLOCKS blocks of random shapes; without an encoder now and then. */
static void random_model(struct random_mt *mt, const char *path) {
    static const int hidden[] = { 1024, 2048, 4096 };
    char vision[512] = "";
    int vision_hidden = hidden[random_mt_next(mt) % 3],
        language_hidden = hidden[random_mt_next(mt) % 3];
    if (random_mt_next(mt) % 5 > 0)
        snprintf(vision, sizeof vision,
                 "\"vision\": { \"module\": \"internvit-6b-448px\", \"layer_count\": %d,"
                 " \"hidden\": %d, \"heads\": %d, \"ffn_hidden\": %d },"
                 "\"connector\": { \"merge\": 2, \"inner\": \"language\", \"norm\": true,"
                 " \"source\": \"a test\" },",
                 1 + (int)(random_mt_next(mt) % 4), vision_hidden, vision_hidden / 128,
                 vision_hidden * (1 + (int)(random_mt_next(mt) % 4)));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "{ \"name\": \"m\", \"source\": \"a test\", %s \"language\": { \"module\": "
            "\"internlm2-20b\", \"layer_count\": %d, \"hidden\": %d, \"heads\": %d, "
            "\"kv_heads\": %d, \"ffn_hidden\": %d, \"vocabulary\": 32000 } }",
            vision, 4 + (int)(random_mt_next(mt) % 2), language_hidden, language_hidden / 128,
            random_mt_next(mt) % 2 == 0 ? 8 : language_hidden / 128,
            language_hidden * (1 + (int)(random_mt_next(mt) % 4)));
    assert_int_equal(fclose(file), 0);
}

static struct partition_job random_job(struct random_mt *mt, bool chunks) {
    static const char *const partitions[] = { "layer", "parameter", "bmp" };
    static const char *const frozen[] = { "model.frozen=[]", "model.frozen=[\"vision\"]",
                                          "model.frozen=[\"language\"]" };
    char path[512], layout[128], policy[128], samples[64];
    snprintf(path, sizeof path, "%s/recompute-property-%d.json", BALLAST_BINARY_DIR, (int)getpid());
    random_model(mt, path);
    int64_t stages = chunks ? 2 : 2 + random_mt_next(mt) % 2;
    int64_t micro_batches = stages * (1 + random_mt_next(mt) % 3);
    snprintf(layout, sizeof layout, "\"pp\": %ld%s", (long)stages, chunks ? ", \"vpp\": 2" : "");
    snprintf(policy, sizeof policy, "\"partition\": \"%s\"%s, \"recompute\": \"full\"",
             partitions[random_mt_next(mt) % 3],
             !chunks && random_mt_next(mt) % 4 == 0 ? ", \"schedule\": \"gpipe\"" : "");
    snprintf(samples, sizeof samples, "training.micro_batch={\"samples\":%d}",
             1 + (int)(random_mt_next(mt) % 6));
    char *text;
    size_t size;
    struct error err = { 0 };
    if (!file_read(path, &text, &size, &err)) fail_msg("%s", err.text);
    bool has_vision = memmem(text, size, "vision", 6) != NULL;
    free(text);
    const char *const overrides[] = { samples, has_vision ? frozen[random_mt_next(mt) % 3] : NULL,
                                      NULL };
    struct partition_job p = fixture_job(path, layout, stages, micro_batches, policy, overrides);
    unlink(path);
    return p;
}

/* Bytes of the fullest stage; false where one exceeds the budget. */
static bool within(const struct planner_oracle *o, const struct job_plan *plan, double budget,
                   double *fullest) {
    *fullest = 0;
    for (int64_t stage = 0; stage < plan->stage_count; stage++)
        *fullest = fmax(*fullest, o->stage_bytes(o->context, plan, stage, &o->largest));
    return *fullest <= budget;
}

static void set_blocks(struct job_plan *plan, const int64_t *layers, int count,
                       unsigned recompute) {
    for (int b = 0; b < count; b++)
        plan->recompute[layers[b]] = recompute >> b & 1 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
}

/* How much faster than adaptive the best of all sets of blocks that fit is. */
static double beaten_by(struct random_mt *mt, const struct partition_job *p, int *partly) {
    const struct planner_oracle *o = &p->oracle;
    struct job_plan plan = p->job->plan;
    int64_t layers[MOST_BLOCKS];
    int count = 0, recomputing = 0;
    for (int64_t i = 0; i < o->model->layer_count; i++) {
        struct gradient_need need = model_gradient_need(o->model, i);
        if (!layer_can_recompute(o->model, i) || !(need.input || need.weight)) continue;
        assert_true(count < MOST_BLOCKS);
        layers[count++] = i;
    }
    double least, most, ignored, seconds, best = INFINITY;
    set_blocks(&plan, layers, count, ~0u);
    within(o, &plan, 0, &least);
    set_blocks(&plan, layers, count, 0);
    within(o, &plan, 0, &most);
    double budget = least + (most - least) * (double)(random_mt_next(mt) % 1000) / 1000;
    struct {
        double reserve_GiB;
    } parameters = { (o->capacity_bytes - budget) / BYTES_PER_GiB };
    budget = o->capacity_bytes - parameters.reserve_GiB * BYTES_PER_GiB;
    struct error err = { 0 };
    assert_true(recompute_adaptive.plan_job(o, &parameters, &plan, &err));
    bool fits = within(o, &plan, budget, &ignored);
    assert_true(o->simulate(o->context, &plan, &seconds, &err));
    for (int b = 0; b < count; b++)
        recomputing += plan.recompute[layers[b]] == RECOMPUTE_FULL;
    *partly += recomputing > 0 && recomputing < count;
    for (unsigned set = 0; set < 1u << count; set++) {
        double other;
        set_blocks(&plan, layers, count, set);
        if (!within(o, &plan, budget, &ignored)) continue;
        if (!fits) fail_msg("out of memory, where %d blocks would fit", count);
        assert_true(o->simulate(o->context, &plan, &other, &err));
        best = fmin(best, other);
    }
    return isfinite(best) ? seconds / best - 1 : 0;
}

static void check_random_jobs(uint32_t seed, int rounds, bool chunks) {
    struct random_mt mt;
    random_mt_seed(&mt, seed);
    int partly = 0;
    double worst = 0;
    for (int round = 0; round < rounds; round++) {
        struct partition_job p = random_job(&mt, chunks);
        double beaten = beaten_by(&mt, &p, &partly);
        if (beaten > 0.01)
            fail_msg("round %d: another choice is %.3g %% faster", round, beaten * 100);
        worst = fmax(worst, beaten);
        fixture_close(&p);
    }
    print_message("at most %.3g %% slower than the best of all, %d of %d partly recomputed\n",
                  worst * 100, partly, rounds);
    assert_true(partly > rounds / 3);
}

static void test_random_jobs_against_all_sets(void **state) {
    (void)state;
    check_random_jobs(5, 200, false);
}

static void test_random_chunks_against_all_sets(void **state) {
    (void)state;
    check_random_jobs(6, 100, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choice_against_all_pairs),
        cmocka_unit_test(test_stages_against_all_choices),
        cmocka_unit_test(test_iteration_against_all_choices),
        cmocka_unit_test(test_no_iteration_runs_out),
        cmocka_unit_test(test_chunks_use_what_is_free),
        cmocka_unit_test(test_random_jobs_against_all_sets),
        cmocka_unit_test(test_random_chunks_against_all_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
