/* test_partition.c - where the policies cut: known partitions, wrong lists, and over all shipped
 * models that stages are whole and that min-max is what it says. */
#include <dirent.h>
#include <math.h>
#include "tests/unit/policy/planner_fixture.h"

static void test_known_partitions(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int64_t stages;
        const char *policy, *parameters, *want;
    } cases[] = {
        /* InternViT-6B has 45 blocks, InternLM2-20B 48. */
        { "internvl-6b-20b", 4, "encoder-first", NULL, "57 12 12 12" },
        { "internvl-6b-20b", 4, "parameter", NULL, "47 16 15 15" },
        { "internvl-6b-20b", 4, "parameter", "{\"method\": \"min-max\"}", "46 16 16 15" },
        { "internvl-6b-20b", 4, "layer", NULL, "23 23 23 24" },
        { "internvl-6b-20b", 4, "manual", "{\"blocks\": [22, 23, 24, 24]}", "22 23 24 24" },
        { "internvl-6b-20b", 1, "layer", NULL, "93" },
        { "internvl-6b-20b", 1, "encoder-first", NULL, "93" },
        { "internvl-6b-20b", 5, "encoder-first", NULL, "54 9 10 10 10" },
        { "internvl-6b-20b", 49, "encoder-first", NULL,
          "45 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 "
          "1 1 1 1 1 1" },
        { "llama3-8b", 4, "encoder-first", NULL, "8 8 8 8" },
        { "llama3-8b", 3, "layer", NULL, "10 11 11" },
        { "llama3-8b", 4, "parameter", NULL, "8 8 8 8" },
        /* Embedding and head are stages of their own (Llama 3.1 405B cut to 30 layers on 32). */
        { "llama3-8b", 4, "manual", "{\"blocks\": [0, 16, 16, 0]}", "0 16 16 0" },
        /* By matmuls the head weighs 2.2 blocks, the embedding nothing: shares of 8.5, 17.1,
         * 25.6. */
        { "llama3-8b", 4, "cumulative", NULL, "9 9 8 6" },
        { "llama3-8b", 16, "cumulative", NULL, "3 2 2 2 2 2 2 3 2 2 2 2 2 2 2 0" },
        { "llama3-8b", 33, "cumulative", NULL,
          "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 0" },
        /* The embedding and the head weigh 2.4 blocks each. */
        { "llama3-8b", 4, "parameter", "{\"method\": \"min-max\"}", "7 9 9 7" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct planning p = planning_of(fixture_model(arena, cases[i].model), cases[i].stages);
        if (!planning_run(&p, PLANNER_PARTITION, cases[i].policy, cases[i].parameters))
            fail_msg("%s, %s: %s", cases[i].model, cases[i].policy, p.err.text);
        if (strcmp(planning_blocks(&p), cases[i].want) != 0)
            fail_msg("%s on %ld stages, %s %s: got %s, want %s", cases[i].model,
                     (long)cases[i].stages, cases[i].policy,
                     cases[i].parameters != NULL ? cases[i].parameters : "", planning_blocks(&p),
                     cases[i].want);
        planning_free(&p);
        arena_destroy(arena);
    }
}

/* The guide's three cases at one image of 224 pixels and 1024 tokens; by the models' own FLOP,
 * which know that the decoder's network is gated; and more stages than the guide has. */
static void test_uneven_flop(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int64_t stages;
        const char *parameters, *want;
    } cases[] = {
        { "uneven-pp-1", 2, NULL, "41 15" }, /* 28 + 13 */
        { "uneven-pp-2", 2, NULL, "38 18" }, /* 28 + 10 */
        { "uneven-pp-3", 2, NULL, "28 28" }, /* 28 + 0 */
        { "uneven-pp-2", 4, NULL, "29 9 9 9" },
        { "uneven-pp-3", 4, NULL, "28 9 9 10" }, /* the formula asks for 19, 19, -10 */
        { "uneven-pp-2", 1, NULL, "56" },
        { "llama3-8b", 4, NULL, "8 8 8 8" },
        { "llama3-8b", 5, NULL, "4 7 7 7 7" },
        { "uneven-pp-2", 2, "{\"count\": \"model\"}", "40 16" },
        { "llama3-8b", 4, "{\"count\": \"model\"}", "8 9 9 6" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct planning p = planning_of(fixture_model(arena, cases[i].model), cases[i].stages);
        p.typical = model_batch_shape(p.model, 1, 1, 1024, 1024.0 * 1024);
        if (!planning_run(&p, PLANNER_PARTITION, "uneven-flop", cases[i].parameters))
            fail_msg("%s: %s", cases[i].model, p.err.text);
        if (strcmp(planning_blocks(&p), cases[i].want) != 0)
            fail_msg("%s on %ld stages: got %s, want %s", cases[i].model, (long)cases[i].stages,
                     planning_blocks(&p), cases[i].want);
        planning_free(&p);
        arena_destroy(arena);
    }
}

static void test_glued_layers(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *model = fixture_model(arena, "internvl-6b-20b");
    /* patch embedding, 45 vision blocks, connector, token embedding, 48 language blocks, head */
    assert_int_equal(model->layer_count, 1 + 45 + 1 + 1 + 48 + 1);
    assert_int_equal(partition_block_count(model), 93);
    static const struct {
        int64_t block, layer;
        enum layer_kind kind;
    } starts[] = {
        { 0, 0, LAYER_PATCH_EMBEDDING },   { 1, 2, LAYER_VISION_BLOCK },
        { 44, 45, LAYER_VISION_BLOCK }, /* the connector stays with block 44 */
        { 45, 47, LAYER_TOKEN_EMBEDDING }, { 46, 49, LAYER_LANGUAGE_BLOCK },
        { 92, 95, LAYER_LANGUAGE_BLOCK },
    };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        int64_t layer = partition_stage_start(model, starts[i].block);
        if (layer != starts[i].layer || model->layers[layer].kind != starts[i].kind)
            fail_msg("block %ld starts at layer %ld, a %s", (long)starts[i].block, (long)layer,
                     layer_kind_name(model->layers[layer].kind));
    }
    assert_int_equal(partition_stage_start(model, 93), model->layer_count);
    assert_true(partition_is_encoder(model, 44));
    assert_false(partition_is_encoder(model, 45));
    arena_destroy(arena);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *name, *model;
        int64_t stages;
        const char *policy, *parameters, *want;
    } cases[] = {
        { "too few numbers", "internvl-6b-20b", 4, "manual", "{\"blocks\": [46, 47]}",
          "blocks must be a list of 4 numbers, one per pipeline stage" },
        { "not a list", "internvl-6b-20b", 1, "manual", "{\"blocks\": 93}",
          "blocks must be a list of 1 numbers, one per pipeline stage" },
        { "an object", "internvl-6b-20b", 1, "manual", "{\"blocks\": {\"a\": 93}}",
          "blocks must be a list of 1 numbers, one per pipeline stage" },
        { "an empty stage", "internvl-6b-20b", 2, "manual", "{\"blocks\": [93, 0]}",
          "each stage needs a whole number of blocks, at least 1" },
        { "an empty stage in between", "llama3-8b", 3, "manual", "{\"blocks\": [16, 0, 16]}",
          "each stage needs a whole number of blocks, at least 1" },
        { "nothing but ends", "llama3-8b", 1, "manual", "{\"blocks\": [0]}",
          "each stage needs a whole number of blocks, at least 1" },
        { "a negative stage", "internvl-6b-20b", 2, "manual", "{\"blocks\": [94, -1]}",
          "each stage needs a whole number of blocks, at least 1" },
        { "half a block", "internvl-6b-20b", 2, "manual", "{\"blocks\": [46.5, 46.5]}",
          "each stage needs a whole number of blocks, at least 1" },
        { "a text", "internvl-6b-20b", 2, "manual", "{\"blocks\": [\"46\", 47]}",
          "each stage needs a whole number of blocks, at least 1" },
        { "a huge number", "internvl-6b-20b", 2, "manual", "{\"blocks\": [1e300, 47]}",
          "each stage needs a whole number of blocks, at least 1" },
        { "too few blocks", "internvl-6b-20b", 2, "manual", "{\"blocks\": [46, 46]}",
          "the stages hold 92 blocks, the model has 93" },
        { "too many blocks", "internvl-6b-20b", 2, "manual", "{\"blocks\": [47, 47]}",
          "the stages hold 94 blocks, the model has 93" },
        { "more stages than language blocks", "internvl-6b-20b", 50, "encoder-first", NULL,
          "encoder-first needs a language block for each stage: 48 blocks, 50 stages" },
        { "and without an encoder", "llama3-8b", 33, "encoder-first", NULL,
          "encoder-first needs a language block for each stage: 32 blocks, 33 stages" },
        { "tiles without tokens", "internvl-6b-20b", 4, "profile", "{\"tiles\": 5}",
          "tiles and tokens describe one sample: give both or neither" },
        { "tokens without tiles", "internvl-6b-20b", 4, "profile", "{\"tokens\": 1527}",
          "tiles and tokens describe one sample: give both or neither" },
        { "a sample of what the model has not", "llama3-8b", 4, "profile",
          "{\"tiles\": 5, \"tokens\": 1527}",
          "tiles and tokens describe a sample of an encoder and a language model: leave out both" },
        { "fewer tokens than the tiles give", "internvl-6b-20b", 4, "profile",
          "{\"tiles\": 5, \"tokens\": 1279}",
          "a sample of 5 tiles has at least the 1280 tokens of these, not 1279" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct planning p = planning_of(fixture_model(arena, cases[i].model), cases[i].stages);
        if (planning_run(&p, PLANNER_PARTITION, cases[i].policy, cases[i].parameters))
            fail_msg("%s: is accepted", cases[i].name);
        if (strcmp(p.err.text, cases[i].want) != 0)
            fail_msg("%s: got %s", cases[i].name, p.err.text);
        planning_free(&p);
        arena_destroy(arena);
    }
}

/* ---- over all shipped models ---- */

/* Trainable parameters of the fullest stage, glued layers included: what min-max minimises. */
static double fullest_stage(const struct planning *p) {
    double fullest = 0;
    for (int64_t stage = 0; stage < p->plan.stage_count; stage++) {
        double sum = 0;
        for (int64_t i = p->plan.first_layer[stage]; i < p->plan.first_layer[stage + 1]; i++)
            if (model_gradient_need(p->model, i).weight)
                sum += (double)model_layer_parameters(p->model, i);
        fullest = fmax(fullest, sum);
    }
    return fullest;
}

static void check_whole(const char *name, const char *policy, struct planning *p) {
    int64_t *blocks = arena_array(p->arena, int64_t, p->plan.stage_count);
    partition_blocks(p->model, &p->plan, blocks);
    int64_t sum = 0;
    for (int64_t i = 0; i < p->plan.stage_count; i++) {
        if (blocks[i] < 1)
            fail_msg("%s, %s: stage %ld is empty: %s", name, policy, (long)i, planning_blocks(p));
        sum += blocks[i];
    }
    if (sum != partition_block_count(p->model) || p->plan.first_layer[0] != 0 ||
        p->plan.first_layer[p->plan.stage_count] != p->model->layer_count)
        fail_msg("%s, %s: the stages do not hold the model: %s", name, policy, planning_blocks(p));
}

/* The smallest fullest stage over all partitions into two or three stages. */
static double best_of_all(struct planning *p) {
    int64_t count = partition_block_count(p->model);
    bool three = p->plan.stage_count == 3;
    double best = INFINITY;
    for (int64_t a = 1; a < count; a++)
        for (int64_t b = 1; b < (three ? count - a : 2); b++) {
            int64_t blocks[] = { a, three ? b : count - a, count - a - b };
            partition_apply(p->model, blocks, &p->plan);
            best = fmin(best, fullest_stage(p));
        }
    return best;
}

static void check_model(const char *name, const struct model *model) {
    static const int64_t stage_counts[] = { 1, 2, 3, 4, 8 };
    for (size_t i = 0; i < sizeof stage_counts / sizeof stage_counts[0]; i++) {
        if (partition_block_count(model) < stage_counts[i]) continue;
        struct planning p = planning_of(model, stage_counts[i]);
        static const char *const policies[] = { "layer", "encoder-first" };
        for (size_t j = 0; j < 2; j++) {
            if (!planning_run(&p, PLANNER_PARTITION, policies[j], NULL))
                fail_msg("%s, %s: %s", name, policies[j], p.err.text);
            check_whole(name, policies[j], &p);
        }
        assert_true(planning_run(&p, PLANNER_PARTITION, "parameter", "{\"method\": \"greedy\"}"));
        check_whole(name, "greedy", &p);
        double greedy = fullest_stage(&p);
        assert_true(planning_run(&p, PLANNER_PARTITION, "parameter", "{\"method\": \"min-max\"}"));
        check_whole(name, "min-max", &p);
        double min_max = fullest_stage(&p);
        if (min_max > greedy)
            fail_msg("%s on %ld stages: min-max gives %g, greedy %g", name, (long)stage_counts[i],
                     min_max, greedy);
        if (stage_counts[i] == 2 || stage_counts[i] == 3) {
            double best = best_of_all(&p);
            if (min_max != best)
                fail_msg("%s on %ld stages: min-max gives %.0f, the best partition %.0f", name,
                         (long)stage_counts[i], min_max, best);
        }
        planning_free(&p);
    }
}

/* Of the models, which take no other way from one to the next. */
#ifdef __SANITIZE_ADDRESS__
enum { MODEL_STRIDE = 4 };
#else
enum { MODEL_STRIDE = 1 };
#endif

static void test_all_models(void **state) {
    (void)state;
    DIR *directory = opendir(SCENARIOS "/models");
    assert_non_null(directory);
    int64_t seen = 0, checked = 0;
    for (struct dirent *e = readdir(directory); e != NULL; e = readdir(directory)) {
        char name[300];
        snprintf(name, sizeof name, "%s", e->d_name);
        char *end = strstr(name, ".json");
        if (end == NULL) continue;
        seen++;
        size_t letters = 0; /* a choice that no order of the folder changes */
        for (const char *at = name; at < end; at++)
            letters += (unsigned char)*at;
        if (letters % MODEL_STRIDE != 0) continue;
        checked++;
        *end = '\0';
        struct arena *arena = arena_create();
        const struct model *model = fixture_model(arena, name);
        check_model(name, model);
        struct model frozen = *model; /* what is frozen weighs nothing */
        frozen.modules[MODULE_VISION].frozen = true;
        if (model->modules[MODULE_VISION].layer_count > 0) check_model(name, &frozen);
        arena_destroy(arena);
    }
    closedir(directory);
    assert_true(seen >= 30 && checked >= seen / MODEL_STRIDE / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_partitions), cmocka_unit_test(test_uneven_flop),
        cmocka_unit_test(test_glued_layers),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_all_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
