/* step_fixture.h - a scenario, prices, a plan and a step model for the tests of sim/step, and
 * random ones of each.
 *
 * Overrides are those of --set: "path=value", NULL at the end.
 */
#ifndef BALLAST_TESTS_STEP_FIXTURE_H
#define BALLAST_TESTS_STEP_FIXTURE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "sim/base/random.h"
#include "sim/step/step.h"
#include "tests/unit/scenario/shared_cache.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

struct step_fixture {
    struct arena *arena;
    struct scenario *scenario;
    struct price_table *prices;
    struct job_plan plan;
    struct step_model *step;
};

static const char fixture_scenario[] =
    "{ \"model\": \"internvl-6b-8b\", \"dataset\": \"scienceqa\","
    "  \"cluster\": { \"hardware\": \"a100-80g-sxm\", \"gpu_count\": 8, \"gpus_per_node\": 8,"
    "                 \"nic_Gbit_per_s_per_gpu\": 100 },"
    "  \"layout\": { \"backend\": \"megatron-lm\" },"
    "  \"training\": { \"global_batch\": { \"micro_batches\": 64 },"
    "                  \"micro_batch\": { \"samples\": 1 } } }";

static inline struct scenario *fixture_load(const char *text, const char *const *overrides) {
    char path[512];
    snprintf(path, sizeof path, "%s/test-scenario-XXXXXX.json", BALLAST_BINARY_DIR);
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    struct scenario_options options = { .directory = SCENARIOS,
                                        .overrides = overrides,
                                        .cache = shared_cache() };
    struct error err = { 0 };
    struct scenario *s = scenario_load(&options, path, &err);
    unlink(path);
    if (s == NULL) fail_msg("%s", err.text);
    return s;
}

/* Scenario and prices alone. */
static inline void fixture_open(struct step_fixture *f, const char *const *overrides) {
    *f = (struct step_fixture){ .arena = arena_create() };
    f->scenario = fixture_load(fixture_scenario, overrides);
    f->prices = price_table_create(f->arena, f->scenario);
}

static inline void fixture_close(struct step_fixture *f) {
    price_table_destroy(f->prices);
    scenario_destroy(f->scenario);
    arena_destroy(f->arena);
}

static inline int64_t random_below(struct random_mt *mt, int64_t limit) {
    return (int64_t)(random_mt_next(mt) % (uint32_t)limit);
}

/* A micro-batch of up to 12 tiles and 4096 packed tokens; about one in six has no image. */
static inline struct batch_shape random_shape(struct random_mt *mt, const struct model *model) {
    int64_t tiles = random_below(mt, 6) == 0 ? 0 : 1 + random_below(mt, 12);
    if (model->modules[MODULE_VISION].layer_count == 0) tiles = 0;
    int64_t tokens = 1 + random_below(mt, 4096), first = random_below(mt, tokens + 1);
    double squares =
        (double)first * (double)first + (double)(tokens - first) * (double)(tokens - first);
    struct batch_shape shape = model_batch_shape(model, 2, tiles, tokens, squares);
    if (model->modules[MODULE_DIFFUSION_DECODER].layer_count == 0) return shape;
    const int64_t texts[] = { first, tokens - first };
    for (int i = 0; i < 2; i++) {
        double video = (double)model_clip_tokens(model, random_below(mt, 8000));
        shape.video_clips += video > 0;
        shape.video_tokens += (int64_t)video;
        shape.video_square_sum += video * video;
        shape.cross_square_sum += video * (double)texts[i];
    }
    return shape;
}

/* Cuts anywhere, recomputes any blocks. */
static inline void random_plan(struct step_fixture *f, struct random_mt *mt, const char *schedule) {
    const struct model *model = f->scenario->model;
    struct job_plan *plan = &f->plan;
    plan->stage_count = plan->part_count = f->scenario->layout.pp;
    plan->chunk_count = 1;
    plan->first_layer = arena_array(f->arena, int64_t, plan->stage_count + 1);
    plan->recompute = arena_array(f->arena, enum recompute_kind, model->layer_count);
    plan->schedule = schedule_policy_find(schedule);
    plan->first_layer[plan->stage_count] = model->layer_count;
    for (int64_t stage = 1; stage < plan->stage_count; stage++) {
        int64_t least = plan->first_layer[stage - 1] + 1;
        int64_t free_layers = model->layer_count - (plan->stage_count - stage) - least + 1;
        plan->first_layer[stage] = least + random_below(mt, free_layers);
    }
    bool any = random_below(mt, 3) > 0;
    for (int64_t i = 0; i < model->layer_count; i++)
        plan->recompute[i] = any && layer_can_recompute(model, i)
                                 ? (enum recompute_kind)random_below(mt, RECOMPUTE_KIND_COUNT)
                                 : RECOMPUTE_NONE;
}

/* Overrides of a language model sharded by FSDP on all GPUs, kernels as the profile has them. */
static const char *const fully_sharded[] = { "model=internlm2-20b",   "layout.backend=fsdp",
                                             "layout.zero_stage=3",   "layout.tp=1",
                                             "layout.pp=1",           "layout.stack=none",
                                             "policy.recompute=none", NULL };

/* With a plan, the same in every test; the step model is the test's to make. */
static inline void fixture_open_planned(struct step_fixture *f, const char *const *overrides) {
    struct random_mt mt;
    fixture_open(f, overrides);
    random_mt_seed(&mt, 1);
    random_plan(f, &mt, "1f1b");
}

static inline void fixture_plan(struct step_fixture *f, struct random_mt *mt,
                                const char *schedule) {
    random_plan(f, mt, schedule);
    f->step = step_model_create(f->arena, f->scenario, &f->plan, f->prices);
}

/* InternLM2-20B alone on two stages: ten blocks of the first recompute. */
static inline void fixture_halves(struct step_fixture *f) {
    struct random_mt mt;
    random_mt_seed(&mt, 1);
    random_plan(f, &mt, "1f1b");
    for (int64_t i = 0; i < f->scenario->model->layer_count; i++)
        f->plan.recompute[i] = /* ten blocks of the first stage */
            i >= 1 && i <= 10 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    f->plan.first_layer[1] = 25; /* token embedding and 24 blocks */
    f->step = step_model_create(f->arena, f->scenario, &f->plan, f->prices);
}

/* InternLM2-20B alone, TP 2 x PP 2 x DP 2. Per rank, hidden 6144, 48 query heads of 128 and 8 key
 * heads, ffn 16384, vocabulary 92544:
 *   block      6144 (3072 + 2 x 512) + 3072 x 6144 + 3 x 6144 x 8192 + 2 x 6144   = 195,047,424
 *   embedding  92544 / 2 x 6144                                                   = 284,295,168
 *   head       the same and a norm of 6144                                        = 284,301,312 */
static const char *const language_setup[] = { "model=internlm2-20b", "layout.tp=2", "layout.pp=2",
                                              "layout.stack=none", NULL };
#define BLOCK     195047424.0
#define EMBEDDING 284295168.0
#define HEAD      284301312.0

static inline void check_bytes(const struct step_model *m, int64_t stage, enum memory_class class,
                        double want) {
    double got = m->static_memory[stage].bytes[class];
    if (fabs(got - want) > 0.5)
        fail_msg("stage %ld, %s: got %.1f bytes, want %.1f", (long)stage, memory_class_name(class),
                 got, want);
}

#endif
