/* test_explanation.c - the critical path, the prices shown and the order of advice. */
#include "tests/unit/replay/replay_fixture.h"

#include <math.h>
#include "sim/study/explanation.h"

static int begin(void **state) {
    fixture_begin(state);
    fixture_samples("samples.csv", 160, 22);
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
        /* The chain is the same path without a gap, and no stage gains more than it has. */
        assert_int_equal(x.chain[0].start_ns, 0);
        assert_int_equal(x.chain[x.chain_count - 1].finish_ns, x.makespan_ns);
        for (int64_t i = 1; i < x.chain_count; i++)
            assert_int_equal(x.chain[i].start_ns, x.chain[i - 1].finish_ns);
        assert_int_equal(x.gain_count, e->replay->stage_count);
        for (int64_t i = 0; i < x.gain_count; i++) {
            int64_t on_path = 0;
            for (int64_t j = 0; j < x.path_count; j++)
                if (x.path[j].stage == x.gains[i].stage && strcmp(x.path[j].kind, "send") != 0)
                    on_path += x.path[j].ns;
            assert_true(x.gains[i].gain_ns >= 0);
            assert_true(x.gains[i].gain_ns <= on_path / 10 + 1000);
            assert_true(i == 0 || x.gains[i].gain_ns <= x.gains[i - 1].gain_ns);
        }
        /* no cp, no copies, no loading; whether it waits for launches is its stack's */
        assert_int_equal(x.advice_count,
                         REPLAY_CLASS_COUNT - 3 - (e->replay->classes_s[REPLAY_LAUNCH] == 0));
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

/* Layers are all that stages do beside sends and the sum of gradients. */
static void test_layers_are_the_stages_work(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof setups / sizeof setups[0]; k++) {
        struct execution *e = execute(setups[k]);
        struct arena *arena = arena_create();
        struct explanation x;
        assert_true(explanation_make(e, 0, NULL, arena, &x, NULL));
        double layers_s = 0, recompute_s = 0, busy_s = 0, stage_recompute_s = 0;
        for (int64_t i = 0; i < x.layer_kind_count; i++) {
            const struct layer_share *l = &x.layers[i];
            double sum_s = l->forward_s + l->backward_s + l->recompute_s;
            layers_s += sum_s * (double)l->stage_count;
            recompute_s += l->recompute_s * (double)l->stage_count;
            assert_true(fabs(l->step_fraction - sum_s / e->replay->step_time_mean_s) < 1e-9);
            assert_true(l->stage_count >= 1 && l->stage_count <= e->replay->stage_count);
        }
        for (int64_t i = 0; i < e->replay->stage_count; i++) {
            busy_s += e->replay->stages[i].forward_s + e->replay->stages[i].backward_s;
            stage_recompute_s += e->replay->stages[i].recompute_s;
        }
        /* Beside layers and sends a pass adds its gradients to their fp32 sum. All micro-batches of
         * the data are replayed: 160 samples are 10 steps. */
        for (int64_t part = 0; part < e->job->plan.part_count; part++)
            layers_s +=
                (double)(e->job->step->accumulate_ns[part] * e->scenario->micro_batches_per_rank) *
                1e-9;
        if (fabs(layers_s / busy_s - 1) > 1e-6)
            fail_msg("setup %zu: layers %.6g s, stages %.6g s", k, layers_s, busy_s);
        assert_true(fabs(recompute_s - stage_recompute_s) < 1e-6 * busy_s);
        arena_destroy(arena);
        execution_destroy(e);
    }
}

static void test_the_dearest_operator_is_first(void **state) {
    (void)state;
    struct execution *e = execute(setups[0]);
    struct arena *arena = arena_create();
    struct explanation x;
    assert_true(explanation_make(e, 0, NULL, arena, &x, NULL));
    for (int64_t i = 1; i < x.price_count; i++)
        assert_true(x.prices[i].price_s * x.prices[i].calls_per_step <=
                    x.prices[i - 1].price_s * x.prices[i - 1].calls_per_step);
    /* What the ranks that hold a kind of layer call, once for each micro-batch. */
    for (int64_t i = 0; i < x.layer_kind_count; i++)
        for (int64_t p = 0; p < x.price_count; p++)
            if (strcmp(x.prices[p].layer_kind, x.layers[i].layer_kind) == 0 &&
                strcmp(x.prices[p].pass, "weight gradient") == 0)
                assert_true(
                    fabs(x.prices[p].calls_per_step -
                         (double)(x.layers[i].layer_count * e->scenario->micro_batches_per_rank) /
                             (double)x.layers[i].stage_count) < 1e-9);
    arena_destroy(arena);
    execution_destroy(e);
}

/* Every part of a step is some operator's or nobody's: the groups are the classes of `run`. */
static const char *const part_setups[][7] = {
    /* the last is NULL */
    { NULL },
    { "layout.pp=4", "layout.tp=1", "layout.backend=megatron-deepspeed", "layout.zero_stage=1",
      NULL },
    { "layout.pp=1", "layout.tp=1", "layout.backend=fsdp", "layout.zero_stage=3", NULL },
    { "layout.pp=1", "layout.tp=1", "layout.zero_stage=1", "training.offload_blocks=10",
      "policy.recompute=none", NULL },
    { "layout.stack=hf-deepspeed", "layout.backend=deepspeed", "layout.pp=1", "layout.zero_stage=2",
      NULL },
    { "layout.pp=1", "layout.tp=1", "layout.backend=fsdp", "layout.zero_stage=3",
      "policy.recompute=full", NULL },
    { "layout.stack=hf-deepspeed", "layout.backend=deepspeed", "layout.pp=1", "layout.zero_stage=3",
      "policy.recompute=full" },
    { "layout.stack=torchtitan-eager", "layout.backend=fsdp", "layout.pp=1", "layout.tp=1",
      "layout.zero_stage=3", "policy.recompute=selective" },
};

static double group_s(const struct explanation *x, enum step_group group) {
    double sum = 0;
    for (int64_t i = 0; i < x->part_count; i++)
        if (x->parts[i].group == group) sum += x->parts[i].counted_s;
    return sum;
}

static void test_parts_are_the_breakdown_of_run(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof part_setups / sizeof part_setups[0]; k++) {
        struct execution *e = execute(part_setups[k]);
        struct arena *arena = arena_create();
        struct explanation x;
        assert_true(explanation_make(e, 0, NULL, arena, &x, NULL));
        const double *c = e->replay->classes_s, step_s = e->replay->step_time_mean_s;
        const struct {
            enum step_group group;
            double want_s;
        } groups[] = {
            { STEP_LAYERS, c[REPLAY_COMPUTE] + c[REPLAY_PADDING] + c[REPLAY_RECOMPUTE] +
                               c[REPLAY_LAUNCH] + c[REPLAY_TENSOR] + c[REPLAY_CONTEXT] +
                               c[REPLAY_HOST_COPY] },
            { STEP_SENDS, c[REPLAY_SEND] },
            { STEP_REDUCTION, c[REPLAY_DATA] },
            { STEP_UPDATE, c[REPLAY_UPDATE] },
        };
        double sum_s = group_s(&x, STEP_IDLE);
        for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
            const double got_s = group_s(&x, groups[i].group);
            if (fabs(got_s - groups[i].want_s) > 1e-6 * step_s)
                fail_msg("setup %zu, group %zu: %.9g s, run has %.9g", k, i, got_s,
                         groups[i].want_s);
            sum_s += got_s;
        }
        if (fabs(sum_s - step_s) > 1e-6 * step_s)
            fail_msg("setup %zu: parts %.9g s, step %.9g s", k, sum_s, step_s);
        for (int64_t i = 0; i < x.part_count; i++) {
            const struct step_part *p = &x.parts[i];
            /* Nothing is left that no operator explains. */
            assert_string_not_equal(p->name, "slower GPUs and choices of a step");
            assert_true(fabs(p->operators_s - p->beside_s + p->others_s - p->counted_s) <
                        1e-9 * step_s);
            /* Without tensor parallelism nothing runs beside a layer's kernels. */
            if (e->scenario->layout.tp == 1 && p->group == STEP_LAYERS &&
                strcmp(p->name, "host copies") != 0 && fabs(p->beside_s) > 1e-5 * step_s)
                fail_msg("setup %zu, %s: %.6g s beside", k, p->name, p->beside_s);
        }
        arena_destroy(arena);
        execution_destroy(e);
    }
}

static double listed_s(const struct explanation *x, const char *what, const char *stage) {
    double sum = 0;
    for (int64_t i = 0; i < x->price_count; i++)
        if (strcmp(x->prices[i].layer_kind, what) == 0 &&
            strstr(x->prices[i].operator, stage) != NULL)
            sum += x->prices[i].price_s * x->prices[i].calls_per_step;
    return sum;
}

/* Outside of layers the rows are what the step model priced, stage by stage. */
static void test_operators_outside_of_layers(void **state) {
    (void)state;
    struct execution *e = execute(setups[0]);
    struct arena *arena = arena_create();
    struct explanation x;
    assert_true(explanation_make(e, 0, NULL, arena, &x, NULL));
    const struct step_model *m = e->job->step;
    assert_int_equal(m->stage_count, 2);
    for (int64_t stage = 0; stage < 2; stage++) {
        const char *name = stage == 0 ? "stage 1" : "stage 2";
        const double update = listed_s(&x, "optimizer and parameter gather", name),
                     reduction = listed_s(&x, "data-parallel communication", name);
        const double want = (double)(m->optimizer_ns[stage] + m->gather_ns[stage]) * 1e-9;
        if (fabs(update - want) > 1e-9)
            fail_msg("%s: update %.9g s, want %.9g", name, update, want);
        assert_true(fabs(reduction - (double)m->synchronize_ns[stage] * 1e-9) < 1e-9);
    }
    assert_true(listed_s(&x, "pipeline sends", "pipeline send") > 0);
    for (int64_t i = 0; i < x.price_count; i++) {
        assert_true(x.prices[i].source != NULL && x.prices[i].source[0] != '\0');
        assert_true(x.prices[i].band_fraction >= 0 && x.prices[i].price_s >= 0);
    }
    arena_destroy(arena);
    execution_destroy(e);
}

static const struct {
    const char *name, *layer, *want;
    int64_t iteration;
} errors[] = {
    { "unknown layer", "vision blok",
      "--layer: unknown layer kind \"vision blok\"\n  hint: did you mean \"vision block\"?", 0 },
    { "an iteration beyond the replay", NULL, "--iteration 10: the replay has iterations 0 to 9",
      10 },
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
        cmocka_unit_test(test_layers_are_the_stages_work),
        cmocka_unit_test(test_the_dearest_operator_is_first),
        cmocka_unit_test(test_parts_are_the_breakdown_of_run),
        cmocka_unit_test(test_operators_outside_of_layers),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, begin, fixture_end);
}
