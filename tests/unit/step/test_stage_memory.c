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
    backend.update_bytes = update_bytes;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_sums),
        cmocka_unit_test(test_loss_before_gradients),
        cmocka_unit_test(test_update_is_the_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
