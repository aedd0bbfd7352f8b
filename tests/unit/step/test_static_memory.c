/* test_static_memory.c - what a rank holds through all steps: weights, their copies, gradients and
 * the optimizer's states. */
#include "tests/unit/step/step_fixture.h"

#include <math.h>
#include "sim/base/units.h"

static void test_zero_stage_0_keeps_all_optimizer_state(void **state) {
    (void)state;
    static const char *const setup[] = { "model=internlm2-20b", "layout.tp=2", "layout.pp=2",
                                         "layout.zero_stage=0", NULL };
    struct step_fixture f;
    fixture_open(&f, setup);
    fixture_halves(&f);
    check_bytes(f.step, 0, MEMORY_OPTIMIZER, 12 * (24 * BLOCK + EMBEDDING));
    fixture_close(&f);
}

/* Weights, gradients and two moments, and no copy of the weights. */
static void test_fp32_has_no_master_copy(void **state) {
    (void)state;
    static const char *const setup[] = {
        "model=internlm2-20b",     "layout.tp=2", "layout.pp=2", "layout.stack=none",
        "training.precision=fp32", NULL
    };
    struct step_fixture f;
    fixture_open(&f, setup);
    fixture_halves(&f);
    check_bytes(f.step, 0, MEMORY_WEIGHTS, 4 * (24 * BLOCK + EMBEDDING));
    check_bytes(f.step, 0, MEMORY_GRADIENTS, 4 * (24 * BLOCK + EMBEDDING));
    check_bytes(f.step, 0, MEMORY_OPTIMIZER, 8 * (24 * BLOCK + EMBEDDING) / 2);
    fixture_close(&f);
}

/* Megatron-core's precision-aware optimizer: 16 bits of each fp32 weight and bf16 moments, which
 * the update copies to fp32; gradients that are bf16. */
static void test_precision_aware_states(void **state) {
    (void)state;
    static const char *const setup[] = { "model=internlm2-20b",
                                         "layout.tp=2",
                                         "layout.pp=2",
                                         "layout.stack=none",
                                         "training.precision_aware_optimizer=true",
                                         "training.exp_avg_dtype=bf16",
                                         "training.exp_avg_sq_dtype=bf16",
                                         "training.main_grads_dtype=bf16",
                                         NULL };
    struct step_fixture f;
    fixture_open(&f, setup);
    fixture_halves(&f);
    const double parameters = 24 * BLOCK + EMBEDDING;
    check_bytes(f.step, 0, MEMORY_GRADIENTS, 2 * parameters);
    check_bytes(f.step, 0, MEMORY_OPTIMIZER, 6 * parameters / 2);
    assert_true(f.step->update_bytes[0] == 8 * parameters / 2);
    fixture_close(&f);
}

/* One state holds for all modules: of fp32 ones the whole weights, which are no second copy. */
static void test_precision_aware_modules(void **state) {
    (void)state;
    static const struct {
        const char *precision, *recipe;
        double state_bytes;
    } cases[] = {
        { "model.precision={\"vision\":\"bf16\"}", "training.fp8_recipe=usual", 10 },
        { "model.precision={\"vision\":\"fp32\",\"connector\":\"fp32\",\"language\":\"fp32\"}",
          "training.fp8_recipe=usual", 8 },
        { "model.precision={\"language\":\"fp8\"}", "training.fp8_recipe=delayed", 10 },
        { "model.precision={\"language\":\"fp8\"}", "training.fp8_recipe=mxfp8", 12 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const setup[] = { "model=internvl-6b-20b",
                                      "cluster.hardware=b200-180g-sxm",
                                      "layout.backend=megatron-lm",
                                      "layout.tp=2",
                                      "layout.pp=2",
                                      "layout.stack=none",
                                      "training.precision_aware_optimizer=true",
                                      cases[i].precision,
                                      cases[i].recipe,
                                      NULL };
        struct step_fixture f;
        fixture_open_planned(&f, setup);
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        const double got = f.step->static_memory[0].bytes[MEMORY_OPTIMIZER] *
                           (double)f.scenario->layout.zero_group /
                           (double)f.step->trainable_rank_parameters[0];
        if (fabs(got - cases[i].state_bytes) > 1e-9)
            fail_msg("case %zu: %g bytes a parameter", i, got);
        fixture_close(&f);
    }
}

/* A stack that fuses the accumulation keeps one bf16 buffer of each matrix of a block. */
static void test_placeholder_gradients(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open(&f, language_setup);
    struct backend backend = *f.scenario->backend;
    backend.step.placeholder_gradients = true;
    f.scenario->backend = &backend;
    fixture_halves(&f);
    const double parameters[] = { 24 * BLOCK + EMBEDDING, 24 * BLOCK + HEAD };
    for (int64_t stage = 0; stage < 2; stage++)
        check_bytes(f.step, stage, MEMORY_GRADIENTS, 4 * parameters[stage] + 2 * BLOCK);
    fixture_close(&f);
}

/* Two stages that no stack prices. */
static void open_on_b200(struct step_fixture *f, const char *model, const char *precision) {
    const char *setup[] = { model,
                            "layout.tp=2",
                            "layout.pp=2",
                            "layout.stack=none",
                            "cluster.hardware=b200-180g-sxm",
                            precision,
                            NULL };
    fixture_open(f, setup);
}

/* Copies of fp8 matrices stand beside the weights of blocks; below what is trained nothing goes
 * back, so that one of the two is enough. */
static void test_quantised_copies(void **state) {
    (void)state;
    static const struct {
        const char *model, *precision;
        double least, most; /* copies of the first stage over its parameters, bytes */
    } cases[] = {
        { "model=internlm2-20b", "training.precision=bf16", 0, 0 },
        { "model=internlm2-20b", "training.precision=fp8", 1.87, 1.89 }, /* 24 of 25.5 blocks */
        { "model=internlm2-20b", "training.precision=fp4", 1.05, 1.07 },
        { "model={\"name\":\"internvl-6b-8b\",\"frozen\":[\"vision\"]}", "training.precision=fp8",
          0.97, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct step_fixture f;
        open_on_b200(&f, cases[i].model, cases[i].precision);
        struct backend backend = *f.scenario->backend;
        backend.step.quantised_copy_bytes = 2;
        f.scenario->backend = &backend;
        fixture_halves(&f);
        const double parameters = (double)f.step->rank_parameters[0];
        const double copies =
            (f.step->static_memory[0].bytes[MEMORY_WEIGHTS] - 2 * parameters) / parameters;
        if (copies < cases[i].least || copies > cases[i].most) fail_msg("case %zu: %g", i, copies);
        fixture_close(&f);
    }
}

/* Weights that are fp8 or fp4 themselves: frozen blocks beside adapters take a byte a parameter, in
 * fp4 their two copies alone; trained ones and what is computed in bf16 two bytes. */
static void test_fp8_weights(void **state) {
    (void)state;
    static const struct {
        const char *model, *precision;
        double spared; /* of a parameter */
    } cases[] = {
        { "model={\"name\":\"internlm2-20b\",\"lora\":{\"rank\":16}}", "training.precision=fp8",
          1 },
        { "model={\"name\":\"internlm2-20b\",\"lora\":{\"rank\":16}}", "training.precision=fp4",
          2 },
        { "model={\"name\":\"internlm2-20b\",\"lora\":{\"rank\":16}}", "training.precision=bf16",
          0 },
        { "model=internlm2-20b", "training.precision=fp8", 0 },
        { "model=internlm2-20b", "training.precision=fp4", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double weights[2];
        for (int fp8 = 0; fp8 < 2; fp8++) {
            struct step_fixture f;
            open_on_b200(&f, cases[i].model, cases[i].precision);
            struct backend backend = *f.scenario->backend;
            backend.step.fp8_weights = backend.step.fp4_weights = fp8 == 1;
            f.scenario->backend = &backend;
            fixture_halves(&f);
            weights[fp8] = f.step->static_memory[0].bytes[MEMORY_WEIGHTS];
            fixture_close(&f);
        }
        if (weights[0] - weights[1] != cases[i].spared * 24 * BLOCK)
            fail_msg("case %zu: %.0f, %.0f", i, weights[0], weights[1]);
    }
}

/* Of one stage: weights, and its frozen and trained parameters; the first blocks run again. */
static double weights_beside_lora(const char *model, const char *weights, int64_t again,
                                  double *frozen, double *trained) {
    char definition[128];
    snprintf(definition, sizeof definition, "model={\"name\":\"%s\",\"lora\":{\"weights\":\"%s\"}}",
             model, weights);
    const char *const setup[] = { definition, "layout.tp=1", "layout.pp=1", "layout.stack=none",
                                  NULL };
    struct step_fixture f;
    fixture_open_planned(&f, setup);
    for (int64_t i = 0; i < f.scenario->model->layer_count; i++)
        f.plan.recompute[i] = i >= 1 && i <= again ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    const double bytes = f.step->static_memory[0].bytes[MEMORY_WEIGHTS];
    *trained = (double)f.step->trainable_rank_parameters[0];
    *frozen = (double)f.step->rank_parameters[0] - *trained;
    fixture_close(&f);
    return bytes;
}

/* Frozen weights in fp32 under autocast: 2 bytes more, and 2 of a copy from forward to backward but
 * for the table that is looked up and blocks that run again. A tied head casts the table too. */
static void test_fp32_base(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int64_t again;
        double uncopied; /* of the frozen parameters */
    } cases[] = {
        { "internlm2-20b", 0, 92544.0 * 6144 },
        { "internlm2-20b", 10, 92544.0 * 6144 + 10 * (2 * BLOCK - 2 * 6144) },
        { "mpt-7b", 0, 0 }, /* tied */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double frozen, trained;
        const double narrow = weights_beside_lora(cases[i].model, "bf16", cases[i].again, &frozen,
                                                  &trained),
                     wide = weights_beside_lora(cases[i].model, "fp32", cases[i].again, &frozen,
                                                &trained);
        const double want = 2 * trained + 4 * frozen - 2 * cases[i].uncopied;
        if (wide - narrow != want) fail_msg("case %zu: %.0f, not %.0f", i, wide - narrow, want);
    }
}

/* Of sharded weights a rank stores its share narrow; what is gathered is not, and no sum is below
 * what stands. */
static void test_sharded_narrow_weights(void **state) {
    (void)state;
    static const struct {
        const char *precision;
        double spared;
    } cases[] = { { "training.precision=fp8", 1 }, { "training.precision=fp4", 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const setup[] = { "model={\"name\":\"internlm2-20b\",\"lora\":{\"rank\":16}}",
                                      "layout.backend=fsdp",
                                      "layout.zero_stage=3",
                                      "layout.tp=1",
                                      "layout.pp=1",
                                      "layout.stack=none",
                                      "cluster.hardware=b200-180g-sxm",
                                      cases[i].precision,
                                      NULL };
        double weights[2];
        for (int narrow = 0; narrow < 2; narrow++) {
            struct step_fixture f;
            fixture_open_planned(&f, setup);
            assert_int_equal(f.scenario->layout.zero_group, 8);
            struct backend backend = *f.scenario->backend;
            backend.step.fp8_weights = backend.step.fp4_weights = narrow == 1;
            f.scenario->backend = &backend;
            f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
            weights[narrow] = f.step->static_memory[0].bytes[MEMORY_WEIGHTS];
            assert_true(weights[narrow] >= f.step->gathered_weight_bytes[0]);
            fixture_close(&f);
        }
        /* BLOCK is one of two TP ranks', which both have the norms */
        const double share = 48 * (2 * BLOCK - 2 * 6144) / 8;
        if (weights[0] - weights[1] != cases[i].spared * share)
            fail_msg("case %zu: %.0f, %.0f", i, weights[0], weights[1]);
    }
}

/* A tied table is one parameter beside the token embedding, and a copy on another stage. */
static void test_tied_head(void **state) {
    (void)state;
    for (int pp = 1; pp <= 2; pp++) {
        const char *setup[] = { "model=mpt-7b", "layout.tp=1",
                                pp == 1 ? "layout.pp=1" : "layout.pp=2", "layout.stack=none",
                                NULL };
        struct step_fixture f;
        struct random_mt mt;
        fixture_open(&f, setup);
        random_mt_seed(&mt, 1);
        fixture_plan(&f, &mt, "1f1b");
        const struct model *model = f.scenario->model;
        const int64_t head = model->layer_count - 1,
                      table = layer_rank_tied_parameters(model, head, 1);
        assert_int_equal(table, 50432 * 4096);
        int64_t held = 0;
        for (int stage = 0; stage < pp; stage++)
            held += f.step->rank_parameters[stage];
        assert_int_equal(held, model_parameters(model) + (pp - 1) * table);
        assert_int_equal(f.step->rank_parameters[0], f.step->trainable_rank_parameters[0]);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_stage_0_keeps_all_optimizer_state),
        cmocka_unit_test(test_fp32_has_no_master_copy),
        cmocka_unit_test(test_precision_aware_states),
        cmocka_unit_test(test_precision_aware_modules),
        cmocka_unit_test(test_placeholder_gradients),
        cmocka_unit_test(test_quantised_copies),
        cmocka_unit_test(test_fp32_base),
        cmocka_unit_test(test_fp8_weights),
        cmocka_unit_test(test_sharded_narrow_weights),
        cmocka_unit_test(test_tied_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
