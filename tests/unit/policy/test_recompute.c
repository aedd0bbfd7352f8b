/* test_recompute.c - which blocks recompute under each policy. */
#include "tests/unit/policy/planner_fixture.h"

/* "22 3": recomputing blocks of each stage; only blocks recompute, and the first ones do. */
static const char *recomputing(struct planning *p) {
    const char *text = "";
    for (int64_t stage = 0; stage < p->plan.stage_count; stage++) {
        int64_t count = 0;
        bool kept = false;
        for (int64_t i = p->plan.first_layer[stage]; i < p->plan.first_layer[stage + 1]; i++) {
            enum layer_kind kind = p->model->layers[i].kind;
            bool block = kind == LAYER_VISION_BLOCK || kind == LAYER_LANGUAGE_BLOCK;
            if (p->plan.recompute[i] && !block) fail_msg("a %s recomputes", layer_kind_name(kind));
            if (p->plan.recompute[i] && kept)
                fail_msg("not the first blocks of stage %ld", (long)stage);
            kept = kept || (block && !p->plan.recompute[i]);
            count += p->plan.recompute[i] != RECOMPUTE_NONE;
        }
        text = arena_format(p->arena, stage > 0 ? "%s %ld" : "%s%ld", text, (long)count);
    }
    return text;
}

static struct planning partitioned(const struct model *model) {
    struct planning p = planning_of(model, 4);
    if (!planning_run(&p, PLANNER_PARTITION, "manual", "{\"blocks\": [57, 12, 12, 12]}"))
        fail_msg("%s", p.err.text);
    /* Whatever stood there before is overwritten. */
    for (int64_t i = 0; i < model->layer_count; i++)
        p.plan.recompute[i] = (enum recompute_kind)(i % RECOMPUTE_KIND_COUNT);
    return p;
}

static void test_counts(void **state) {
    (void)state;
    static const struct {
        const char *policy, *parameters, *want;
    } cases[] = {
        { "none", NULL, "0 0 0 0" },
        { "full", NULL, "57 12 12 12" },
        { "selective", NULL, "57 12 12 12" },
        { "uniform", "{\"blocks_per_stage\": 0}", "0 0 0 0" },
        { "uniform", "{\"blocks_per_stage\": 5}", "5 5 5 5" },
        { "uniform", "{\"blocks_per_stage\": 20}", "20 12 12 12" },
        { "stages", "{\"blocks\": [50, 3, 0, 12]}", "50 3 0 12" },
        { "stages", "{\"blocks\": [57, 0, 0, 0]}", "57 0 0 0" },
        { "modules", "{\"modules\": [\"vision\"]}", "45 0 0 0" },
        { "modules", "{\"modules\": [\"language\", \"vision\"]}", "57 12 12 12" },
    };
    struct arena *arena = arena_create();
    const struct model *model = fixture_model(arena, "internvl-6b-20b");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct planning p = partitioned(model);
        if (!planning_run(&p, PLANNER_RECOMPUTE, cases[i].policy, cases[i].parameters))
            fail_msg("%s: %s", cases[i].policy, p.err.text);
        if (strcmp(recomputing(&p), cases[i].want) != 0)
            fail_msg("%s %s: got %s, want %s", cases[i].policy,
                     cases[i].parameters != NULL ? cases[i].parameters : "", recomputing(&p),
                     cases[i].want);
        planning_free(&p);
    }
    arena_destroy(arena);
}

static void test_more_than_a_stage_holds(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct planning p = partitioned(fixture_model(arena, "internvl-6b-20b"));
    assert_false(planning_run(&p, PLANNER_RECOMPUTE, "stages", "{\"blocks\": [57, 12, 13, 0]}"));
    assert_non_null(strstr(p.err.text, "stage 3 holds 12 blocks, so 13 cannot recompute"));
    planning_free(&p);
    arena_destroy(arena);
}

/* Only "selective" recomputes less than a whole block. */
static void test_kinds(void **state) {
    (void)state;
    static const struct {
        const char *policy, *parameters;
        enum recompute_kind want;
    } cases[] = {
        { "none", NULL, RECOMPUTE_NONE },
        { "full", NULL, RECOMPUTE_FULL },
        { "selective", NULL, RECOMPUTE_SELECTIVE },
        { "uniform", "{\"blocks_per_stage\": 1000}", RECOMPUTE_FULL },
        { "stages", "{\"blocks\": [57, 12, 12, 12]}", RECOMPUTE_FULL },
    };
    struct arena *arena = arena_create();
    const struct model *model = fixture_model(arena, "internvl-6b-20b");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct planning p = partitioned(model);
        if (!planning_run(&p, PLANNER_RECOMPUTE, cases[i].policy, cases[i].parameters))
            fail_msg("%s: %s", cases[i].policy, p.err.text);
        for (int64_t layer = 0; layer < model->layer_count; layer++) {
            enum recompute_kind want =
                layer_can_recompute(model, layer) ? cases[i].want : RECOMPUTE_NONE;
            if (p.plan.recompute[layer] != want)
                fail_msg("%s, layer %ld: %s", cases[i].policy, (long)layer,
                         recompute_kind_name(p.plan.recompute[layer]));
        }
        planning_free(&p);
    }
    arena_destroy(arena);
}

/* The encoder's blocks stand first on stage 1 and keep their activations all the same. */
static void test_one_module(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct model *model = fixture_model(arena, "internvl-6b-20b");
    struct planning p = partitioned(model);
    assert_true(
        planning_run(&p, PLANNER_RECOMPUTE, "modules", "{\"modules\": [\"language\"]}"));
    for (int64_t i = 0; i < model->layer_count; i++)
        assert_int_equal(p.plan.recompute[i], model->layers[i].kind == LAYER_LANGUAGE_BLOCK
                                                  ? RECOMPUTE_FULL
                                                  : RECOMPUTE_NONE);
    planning_free(&p);
    arena_destroy(arena);
}

static void test_unknown_modules(void **state) {
    (void)state;
    static const struct {
        const char *parameters, *want;
    } cases[] = {
        { "{\"modules\": \"language\"}", "modules must be a list, for example [\"language\"]" },
        { "{\"modules\": []}", "an empty list of modules recomputes nothing: say \"none\"" },
        { "{\"modules\": [\"text\"]}",
          "model \"internvl-6b-20b\" has no blocks in a module \"text\"" },
        { "{\"modules\": [\"connector\"]}",
          "model \"internvl-6b-20b\" has no blocks in a module \"connector\"" },
        { "{\"modules\": [3]}", "model \"internvl-6b-20b\" has no blocks in a module \"?\"" },
    };
    struct arena *arena = arena_create();
    const struct model *model = fixture_model(arena, "internvl-6b-20b");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct planning p = partitioned(model);
        if (planning_run(&p, PLANNER_RECOMPUTE, "modules", cases[i].parameters))
            fail_msg("%s is accepted", cases[i].parameters);
        assert_string_equal(p.err.text, cases[i].want);
        planning_free(&p);
    }
    arena_destroy(arena);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *parameters, *want;
    } cases[] = {
        { "{\"blocks\": [1, 2, 3]}", "blocks must be a list of 4 numbers, one per pipeline stage" },
        { "{\"blocks\": 7}", "blocks must be a list of 4 numbers, one per pipeline stage" },
        { "{\"blocks\": [1, 2, 3, -1]}",
          "each stage needs a whole number of recomputing blocks, at least 0" },
        { "{\"blocks\": [1, 2, 3, 0.5]}",
          "each stage needs a whole number of recomputing blocks, at least 0" },
        { "{\"blocks\": [1, 2, 3, null]}",
          "each stage needs a whole number of recomputing blocks, at least 0" },
        { "{\"blocks\": [1, 2, 3, 1e300]}",
          "each stage needs a whole number of recomputing blocks, at least 0" },
    };
    struct arena *arena = arena_create();
    const struct model *model = fixture_model(arena, "internvl-6b-20b");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct planning p = partitioned(model);
        if (planning_run(&p, PLANNER_RECOMPUTE, "stages", cases[i].parameters))
            fail_msg("%s is accepted", cases[i].parameters);
        if (strcmp(p.err.text, cases[i].want) != 0)
            fail_msg("%s: got %s", cases[i].parameters, p.err.text);
        planning_free(&p);
    }
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_more_than_a_stage_holds),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_one_module),
        cmocka_unit_test(test_unknown_modules),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
