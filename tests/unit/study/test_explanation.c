/* test_explanation.c - the critical path, the prices shown and the order of advice. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>
#include "sim/study/explanation.h"

static int begin(void **state) {
    (void)state;
    fixture_begin();
    fixture_samples("samples.csv", 160, 22);
    return 0;
}

static int end(void **state) {
    (void)state;
    fixture_end();
    return 0;
}

static struct execution *execute(const char *const *overrides) {
    struct scenario_options options = { .directory = SCENARIOS, .overrides = overrides };
    struct replay_options replay = { .threads = 1 };
    struct error err = { 0 };
    struct execution *e = execution_run(
        &options, fixture_scenario_file("scenario.json", "samples.csv"), &replay, &err);
    if (e == NULL) fail_msg("%s", err.text);
    return e;
}

static const char *const setups[][4] = {
    { NULL },
    { "layout.pp=4", "layout.tp=1", "layout.backend=megatron-lm", NULL },
    { "layout.pp=1", "layout.tp=1", NULL },
};

static void test_path_and_advice_add_up(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof setups / sizeof setups[0]; k++) {
        struct execution *e = execute(setups[k]);
        struct arena *arena = arena_create();
        struct explanation x;
        struct error err = { 0 };
        assert_true(explanation_make(e, 3, NULL, arena, &x, &err));
        assert_int_equal(x.iteration, 3);
        assert_int_equal(x.rank, e->replay->iterations[3].slowest_rank);
        assert_int_equal(x.makespan_ns, e->replay->iterations[3].slowest_rank_ns);
        int64_t ns = 0;
        for (int64_t i = 0; i < x.path_count; i++) {
            assert_true(x.path[i].task_count > 0);
            assert_true(x.path[i].stage < e->replay->stage_count);
            ns += x.path[i].ns;
            for (int64_t j = 0; j < i; j++)
                assert_false(x.path[i].stage == x.path[j].stage &&
                             strcmp(x.path[i].kind, x.path[j].kind) == 0);
        }
        assert_int_equal(ns, x.makespan_ns);
        assert_int_equal(x.advice_count, REPLAY_CLASS_COUNT);
        double sum = 0;
        for (int64_t i = 0; i < x.advice_count; i++) {
            sum += x.advice[i].step_fraction;
            assert_true(x.advice[i].text != NULL && x.advice[i].text[0] != '\0');
            if (i > 0) assert_true(x.advice[i].step_fraction <= x.advice[i - 1].step_fraction);
        }
        assert_true(fabs(sum - 1) < 1e-9);
        arena_destroy(arena);
        execution_destroy(e);
    }
}

static void test_prices_of_one_layer_kind(void **state) {
    (void)state;
    struct execution *e = execute(setups[0]);
    struct arena *arena = arena_create();
    struct explanation all, one;
    assert_true(explanation_make(e, 0, NULL, arena, &all, NULL));
    assert_true(explanation_make(e, 0, "vision block", arena, &one, NULL));
    int64_t want = 0;
    for (int64_t i = 0; i < all.price_count; i++)
        want += strcmp(all.prices[i].layer_kind, "vision block") == 0;
    assert_true(want > 0 && want < all.price_count);
    assert_int_equal(one.price_count, want);
    for (int64_t i = 0; i < one.price_count; i++)
        assert_string_equal(one.prices[i].layer_kind, "vision block");
    arena_destroy(arena);
    execution_destroy(e);
}

static const struct {
    const char *name, *layer, *want;
    int64_t iteration;
} errors[] = {
    { "unknown layer", "vision blok",
      "--layer: unknown layer kind \"vision blok\"\n  hint: did you mean \"vision block\"?", 0 },
    { "an iteration beyond the replay", NULL, "--iteration: the replay has iterations 0 to 9", 10 },
};

static void test_errors(void **state) {
    (void)state;
    struct execution *e = execute(setups[0]);
    for (size_t k = 0; k < sizeof errors / sizeof errors[0]; k++) {
        struct arena *arena = arena_create();
        struct explanation x;
        struct error err = { 0 };
        if (explanation_make(e, errors[k].iteration, errors[k].layer, arena, &x, &err))
            fail_msg("%s: no error", errors[k].name);
        if (strcmp(err.text, errors[k].want) != 0)
            fail_msg("%s:\n got  %s\n want %s", errors[k].name, err.text, errors[k].want);
        arena_destroy(arena);
    }
    execution_destroy(e);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_path_and_advice_add_up),
        cmocka_unit_test(test_prices_of_one_layer_kind),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
