/* test_part_kinds.c - parts that are alike cost the same but for their sends, and a run prices
 * every part as if none were. */
#include "tests/unit/step/step_fixture.h"

static const char *const eight_stages[] = { "model=internlm2-20b", "layout.tp=1", "layout.pp=8",
                                            NULL };

/* Six blocks on each stage; the first has the embedding, the last the head. */
static void even_plan(struct step_fixture *f, struct random_mt *mt) {
    random_plan(f, mt, "1f1b");
    for (int64_t i = 0; i < f->scenario->model->layer_count; i++)
        f->plan.recompute[i] = RECOMPUTE_NONE;
    for (int64_t stage = 1; stage < 8; stage++)
        f->plan.first_layer[stage] = 1 + 6 * stage;
}

static void test_alike(void **state) {
    (void)state;
    struct step_fixture f;
    struct random_mt mt;
    random_mt_seed(&mt, 7);
    fixture_open(&f, eight_stages);
    even_plan(&f, &mt);
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    const int64_t even[] = { 0, 1, 1, 1, 1, 1, 1, 7 };
    for (int64_t part = 0; part < 8; part++)
        assert_int_equal(f.step->alike[part], even[part]);
    f.plan.recompute[1 + 6 * 3] = RECOMPUTE_FULL; /* a block of the fourth stage */
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    const int64_t uneven[] = { 0, 1, 1, 3, 1, 1, 1, 7 };
    for (int64_t part = 0; part < 8; part++)
        assert_int_equal(f.step->alike[part], uneven[part]);
    const enum layer_kind *kinds = &f.step->kinds[7 * PART_KINDS];
    assert_int_equal(kinds[0], LAYER_LANGUAGE_BLOCK);
    assert_int_equal(kinds[1], LAYER_HEAD);
    assert_int_equal(kinds[2], LAYER_KIND_COUNT);
    fixture_close(&f);
}

static void test_runs_as_priced_apart(void **state) {
    (void)state;
    enum { COUNT = 16 };
    struct step_fixture f;
    struct random_mt mt;
    struct batch_shape shapes[COUNT];
    random_mt_seed(&mt, 8);
    fixture_open(&f, eight_stages);
    even_plan(&f, &mt);
    for (int i = 0; i < COUNT; i++)
        shapes[i] = random_shape(&mt, f.scenario->model);
    price_table_prepare(f.prices, shapes, COUNT);
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    struct step_runner *runner = step_runner_create(f.step);
    struct rank_outcome got, want;
    struct error err = { 0 };
    assert_true(step_run_rank(runner, FIDELITY_STAGE, shapes, COUNT, &got, &err));
    const int64_t makespan_ns = got.makespan_ns, flop = (int64_t)got.model_flop;
    int64_t forward_ns[8], backward_ns[8];
    for (int64_t part = 0; part < 8; part++) {
        int64_t passes[2] = { 0, 0 };
        for (int i = 0; i < COUNT; i++) {
            struct layer_time times[LAYER_KIND_COUNT];
            struct stage_cost cost;
            step_layer_times(f.step, &shapes[i], times);
            step_stage_cost(f.step, part, &shapes[i], times, NULL, &cost);
            passes[0] += cost.forward_ns;
            passes[1] += cost.backward_ns;
        }
        assert_int_equal(got.forward_ns[part], passes[0]);
        assert_int_equal(got.backward_ns[part], passes[1]);
        forward_ns[part] = got.forward_ns[part];
        backward_ns[part] = got.backward_ns[part];
    }
    /* The same run with every part for itself: sends and their links too. */
    for (int64_t part = 0; part < 8; part++)
        f.step->alike[part] = part;
    assert_true(step_run_rank(runner, FIDELITY_STAGE, shapes, COUNT, &want, &err));
    assert_int_equal(want.makespan_ns, makespan_ns);
    assert_int_equal((int64_t)want.model_flop, flop);
    for (int64_t part = 0; part < 8; part++) {
        assert_int_equal(want.forward_ns[part], forward_ns[part]);
        assert_int_equal(want.backward_ns[part], backward_ns[part]);
    }
    step_runner_destroy(runner);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_runs_as_priced_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
