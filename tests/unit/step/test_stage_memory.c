/* test_stage_memory.c - sums by class, and the moment at which a step holds most. */
#include "tests/unit/step/step_fixture.h"

#include <math.h>

static void test_memory_sums(void **state) {
    (void)state;
    struct stage_memory memory = { 0 };
    for (int class = 0; class < MEMORY_CLASS_COUNT; class ++)
        memory.bytes[class] = pow(10, class);
    assert_true(stage_memory_allocated(&memory) == 11111);
    stage_memory_add_fragmentation(&memory, 0.023);
    assert_true(memory.bytes[MEMORY_FRAGMENTATION] > 0);
    double reserved = 11111 + memory.bytes[MEMORY_FRAGMENTATION];
    assert_true(stage_memory_reserved(&memory) == reserved);
    assert_true(stage_memory_device(&memory) == reserved + 1e6 + 1e7);
}

/* FSDP on eight GPUs with what passes keep, in bytes. */
static struct stage_memory settled(int64_t micro_batches, double update_bytes, double kept,
                                   struct stage_memory *before, double *gathered) {
    struct step_fixture f;
    fixture_open_planned(&f, fully_sharded);
    struct backend backend = *f.scenario->backend;
    backend.step.update_bytes = update_bytes;
    f.scenario->backend = &backend;
    f.scenario->micro_batches_per_rank = micro_batches;
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    struct stage_memory memory = f.step->static_memory[0];
    memory.bytes[MEMORY_ACTIVATIONS] = kept;
    *before = memory;
    *gathered = f.step->gathered_weight_bytes[0];
    step_settle_memory(f.step, 0, &memory);
    fixture_close(&f);
    return memory;
}

/* The one loss of a step comes before its gradients; their blocks stay with the allocator. */
static void test_loss_before_gradients(void **state) {
    (void)state;
    struct stage_memory before;
    double gathered;
    const struct stage_memory one = settled(1, 0, 1e11, &before, &gathered);
    const double gradients = before.bytes[MEMORY_GRADIENTS];
    assert_true(gradients > 0);
    assert_true(one.bytes[MEMORY_GRADIENTS] == 0);
    assert_true(one.bytes[MEMORY_ACTIVATIONS] == 1e11);
    const double lost = stage_memory_reserved(&one) - 1.023 * stage_memory_allocated(&one);
    assert_true(fabs(lost - gradients) < 1e3);
    const struct stage_memory two = settled(2, 0, 1e11, &before, &gathered);
    assert_true(two.bytes[MEMORY_GRADIENTS] == gradients);
}

/* With little to keep the update is the peak: no gathered weights, and what its kernels hold. */
static void test_update_is_the_peak(void **state) {
    (void)state;
    struct stage_memory before;
    double gathered;
    const struct stage_memory memory = settled(1, 4, 1e6, &before, &gathered);
    assert_true(gathered > 0);
    assert_true(memory.bytes[MEMORY_ACTIVATIONS] == 0);
    assert_true(memory.bytes[MEMORY_GRADIENTS] == before.bytes[MEMORY_GRADIENTS]);
    assert_true(memory.bytes[MEMORY_WEIGHTS] == before.bytes[MEMORY_WEIGHTS] - gathered);
    /* 12 bytes of states a parameter, 4 of the update */
    const double update = memory.bytes[MEMORY_OPTIMIZER] / 3;
    assert_true(fabs(memory.bytes[MEMORY_WORKSPACE] - update) < 1);
}

/* Where the update holds nothing besides, the last block's backward is: no activations are left,
 * but all gradients and what is gathered. No point of the passes is above the peak. */
static void test_last_backward_is_the_peak(void **state) {
    (void)state;
    struct stage_memory before;
    double gathered;
    const struct stage_memory memory = settled(1, 0, 1e6, &before, &gathered);
    assert_true(memory.bytes[MEMORY_ACTIVATIONS] == 0);
    before.bytes[MEMORY_ACTIVATIONS] = 0;
    assert_true(stage_memory_allocated(&memory) == stage_memory_allocated(&before));
}

static void test_passes_stay_below_the_peak(void **state) {
    (void)state;
    struct step_fixture f;
    fixture_open_planned(&f, fully_sharded);
    f.scenario->micro_batches_per_rank = 1;
    f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
    for (double kept = 0; kept < 1e11; kept += 1e10) {
        struct stage_memory peak = f.step->static_memory[0], point = peak;
        peak.bytes[MEMORY_ACTIVATIONS] = point.bytes[MEMORY_ACTIVATIONS] = kept;
        step_settle_memory(f.step, 0, &peak);
        step_pass_memory(f.step, 0, &point);
        assert_true(point.bytes[MEMORY_GRADIENTS] == 0);
        assert_true(stage_memory_device(&point) <= stage_memory_device(&peak));
    }
    fixture_close(&f);
}

/* Copies of the gradients that DistributedDataParallel reduces are there before the gradients are;
 * neither one rank nor shards have them. */
static void test_gradient_buckets(void **state) {
    (void)state;
    static const struct {
        const char *tp, *zero, *stack;
        double copies;
    } cases[] = {
        { "layout.tp=1", "layout.zero_stage=0", "layout.stack=nanogpt", 1 },
        { "layout.tp=8", "layout.zero_stage=0", "layout.stack=nanogpt", 0 },
        { "layout.tp=1", "layout.zero_stage=3", "layout.stack=nanogpt", 0 },
        { "layout.tp=1", "layout.zero_stage=0", "layout.stack=jax-fsdp", 0 },
        { "layout.tp=1", "layout.zero_stage=0", "layout.stack=none", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *overrides[] = { "model=internlm2-20b",
                                    "layout.backend=fsdp",
                                    "layout.pp=1",
                                    cases[i].tp,
                                    cases[i].zero,
                                    cases[i].stack,
                                    NULL };
        struct step_fixture f;
        fixture_open_planned(&f, overrides);
        f.scenario->micro_batches_per_rank = 1;
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        const double all =
            (double)f.step->trainable_rank_parameters[0] * f.scenario->backend->gradient_bytes;
        struct stage_memory point = f.step->static_memory[0];
        step_pass_memory(f.step, 0, &point);
        if (fabs(point.bytes[MEMORY_GRADIENTS] - cases[i].copies * all) > 1)
            fail_msg("case %zu: %g of %g bytes", i, point.bytes[MEMORY_GRADIENTS], all);
        fixture_close(&f);
    }
}

/* Whether ZeRO-2 or ZeRO-3 of FSDP, the fp32 shares are the optimizer's copy; ZeRO-3 gathers
 * weights in fp32 as such, and in fp8 as they were cast. */
static void test_sharded_weights(void **state) {
    (void)state;
    static const struct {
        const char *zero, *precision;
        double gathered_bytes; /* a parameter of a block */
    } cases[] = {
        { "layout.zero_stage=2", "training.precision=fp32", 4 },
        { "layout.zero_stage=3", "training.precision=fp32", 4 },
        { "layout.zero_stage=3", "training.precision=tf32", 4 },
        { "layout.zero_stage=3", "training.precision=bf16", 2 },
        { "layout.zero_stage=3", "training.precision=fp8", 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *overrides[] = { "model=internlm2-20b",
                                    "layout.backend=fsdp",
                                    cases[i].zero,
                                    "layout.tp=1",
                                    "layout.pp=1",
                                    "layout.stack=nemo-2025",
                                    "cluster.hardware=h100-80g-sxm",
                                    cases[i].precision,
                                    NULL };
        struct step_fixture f;
        fixture_open_planned(&f, overrides);
        f.step = step_model_create(f.arena, f.scenario, &f.plan, f.prices);
        const double share = 12 * (double)f.step->trainable_rank_parameters[0] /
                             (double)f.scenario->layout.zero_group;
        assert_true(fabs(f.step->static_memory[0].bytes[MEMORY_OPTIMIZER] / share - 1) < 1e-9);
        double parameters = 0;
        for (int64_t l = 0; l < f.scenario->model->layer_count; l++)
            if (layer_kind_is_block(f.scenario->model->layers[l].kind))
                parameters =
                    fmax(parameters, (double)layer_rank_parameters(f.scenario->model, l, 1));
        assert_true(f.step->unit_bytes == cases[i].gathered_bytes * parameters);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_sums),
        cmocka_unit_test(test_loss_before_gradients),
        cmocka_unit_test(test_update_is_the_peak),
        cmocka_unit_test(test_last_backward_is_the_peak),
        cmocka_unit_test(test_passes_stay_below_the_peak),
        cmocka_unit_test(test_gradient_buckets),
        cmocka_unit_test(test_sharded_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
