/* test_backend.c - the rows of backends and optimizers stand in the order of their names. */
#include <stdarg.h>
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "sim/layout/backend.h"
#include "tests/unit/costmodel/stack_fixture.h"

static void test_backends(void **state) {
    (void)state;
    int count = 0;
    for (; backend_names[count] != NULL; count++) {
        const struct backend *b = backend_at(count);
        assert_string_equal(b->name, backend_names[count]);
        if (strlen(b->help) < 4) fail_msg("%s has no help", b->name);
        if (b->gradient_bytes < 2 || b->gradient_bytes > 4 || b->gradient_reduce_bytes < 2 ||
            b->gradient_reduce_bytes > 4)
            fail_msg("%s: a gradient has 2 to 4 bytes", b->name);
        for (int i = 0; i < count; i++)
            if (strcmp(backend_names[i], b->name) >= 0) fail_msg("%s: not sorted", b->name);
    }
    assert_int_equal(count, 4);
}

static void test_optimizers(void **state) {
    (void)state;
    int count = 0;
    for (; optimizer_names[count] != NULL; count++) {
        const struct optimizer *o = optimizer_at(count);
        assert_string_equal(o->name, optimizer_names[count]);
        if (strlen(o->help) < 4) fail_msg("%s has no help", o->name);
        /* State is read and written, the gradient read, the bf16 weight written. */
        if (o->update_bytes_moved != 2 * o->state_bytes + 4 + 2)
            fail_msg("%s: moves %g bytes for %g of state", o->name, o->update_bytes_moved,
                     o->state_bytes);
        assert_int_equal(optimizer_index(o->name), count);
    }
    assert_int_equal(count, 3);
    assert_int_equal(optimizer_index("lion"), -1);
}

/* Precision of the matmuls decides which gradients a stack holds; what it does not state stays. */
static void test_gradients_of_a_precision(void **state) {
    (void)state;
    struct stack stack = { .gradient_bytes = NAN,
                           .gradient_reduce_bytes = NAN,
                           .accumulate_bytes_moved = NAN,
                           .state_bytes = NAN,
                           .fp8_gradient_bytes = 2,
                           .fp8_gather_bytes = 0.75,
                           .fp16_gradient_bytes = 3,
                           .fp16_gradient_reduce_bytes = 2,
                           .fp16_accumulate_bytes_moved = 5,
                           .master_weights = true };
    struct backend bf16 = *backend_at(0), fp8 = *backend_at(0), fp16 = *backend_at(0);
    backend_use_stack(&bf16, &stack, PRECISION_BF16, false, 1, false);
    backend_use_stack(&fp8, &stack, PRECISION_FP8, false, 1, false);
    assert_true(bf16.gradient_bytes == backend_at(0)->gradient_bytes);
    assert_true(bf16.gradient_reduce_bytes == backend_at(0)->gradient_reduce_bytes);
    backend_use_stack(&fp16, &stack, PRECISION_FP16, false, 1, false);
    assert_true(fp16.gradient_bytes == 3 && fp16.gradient_reduce_bytes == 2);
    assert_true(fp16.accumulate_bytes_moved == 5 && bf16.accumulate_bytes_moved != 5);
    assert_true(fp8.gradient_bytes == 2 && fp8.gradient_reduce_bytes == 2);
    assert_true(fp8.fp8_gather_saves == 1.25);
    stack.fp8_gather_bytes = NAN;
    backend_use_stack(&fp8, &stack, PRECISION_FP8, false, 1, false);
    assert_true(fp8.fp8_gather_saves == 0);
}

static const struct backend *backend_named(const char *name) {
    int i = 0;
    while (strcmp(backend_names[i], name) != 0)
        i++;
    return backend_at(i);
}

/* DeepSpeed's pipeline adds and reduces fp16 gradients as they are, whatever the stack. */
static void test_fp16_pipeline(void **state) {
    (void)state;
    const struct stack stack = { .gradient_bytes = NAN,
                                 .gradient_reduce_bytes = NAN,
                                 .accumulate_bytes_moved = 18,
                                 .fp16_gradient_bytes = NAN,
                                 .fp16_gradient_reduce_bytes = NAN,
                                 .fp16_accumulate_bytes_moved = NAN };
    struct backend bf16 = *backend_named("megatron-deepspeed"), fp16 = bf16;
    backend_use_stack(&bf16, &stack, PRECISION_BF16, false, 1, false);
    backend_use_stack(&fp16, &stack, PRECISION_FP16, false, 1, false);
    assert_true(bf16.accumulate_bytes_moved == 18 && bf16.gradient_reduce_bytes == 4);
    assert_true(fp16.accumulate_bytes_moved == 6 && fp16.gradient_reduce_bytes == 2);
}

/* What is stated casts between bf16 and fp32; all in fp32, a gradient is added as it is made. */
static void test_fp32_accumulation(void **state) {
    (void)state;
    static const struct {
        const char *backend;
        double stated, stated_fp32, want_bf16, want_fp32;
    } cases[] = {
        { "megatron-deepspeed", NAN, NAN, 10, 12 },
        { "megatron-deepspeed", 18, NAN, 18, 12 },
        { "deepspeed", 28, 16, 28, 16 },
        { "deepspeed", NAN, NAN, 0, 0 },
        { "megatron-lm", NAN, NAN, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stack stack = { .gradient_bytes = NAN,
                                     .gradient_reduce_bytes = NAN,
                                     .accumulate_bytes_moved = cases[i].stated,
                                     .fp32_accumulate_bytes_moved = cases[i].stated_fp32 };
        struct backend b = *backend_named(cases[i].backend);
        backend_use_stack(&b, &stack, PRECISION_BF16, false, 1, false);
        if (b.accumulate_bytes_moved != cases[i].want_bf16)
            fail_msg("case %zu: bf16 moves %g bytes", i, b.accumulate_bytes_moved);
        backend_use_fp32(&b);
        if (b.accumulate_bytes_moved != cases[i].want_fp32)
            fail_msg("case %zu: fp32 moves %g bytes", i, b.accumulate_bytes_moved);
    }
}

/* In fp16 the loss scale's kernels stand in the update; the price has bf16's traffic in it. */
static void test_optimizer_of_a_precision(void **state) {
    (void)state;
    const struct stack stack = { .state_bytes = NAN,
                                 .optimizer_traffic = 2,
                                 .fp16_optimizer_traffic = 3 };
    struct optimizer bf16 = *optimizer_at(0), fp16 = *optimizer_at(0);
    optimizer_use_stack(&bf16, &stack, PRECISION_BF16);
    optimizer_use_stack(&fp16, &stack, PRECISION_FP16);
    assert_true(bf16.update_bytes_moved == optimizer_at(0)->update_bytes_moved);
    assert_true(fp16.update_bytes_moved == 1.5 * optimizer_at(0)->update_bytes_moved);
    assert_true(fp16.state_bytes == optimizer_at(0)->state_bytes);
}

/* Gradients are read four times (norm, clipping, update), of bf16 weights and their other 16 bits 8
 * bytes are read and written, of fp32 moments 8 each; bf16 ones are cast to fp32 and back by way of
 * a copy. With MXFP8 bf16 gradients are cast first and weights copied last; fp16's are unscaled. */
static void test_precision_aware(void **state) {
    (void)state;
    static const struct {
        struct precision_aware how;
        double gradient_bytes, want_state, want_moved, want_copies, want_gradient;
    } cases[] = {
        { { STATE_FP32, STATE_FP32, false, PRECISION_BF16, false }, 4, 10, 40, 0, 4 },
        { { STATE_FP32, STATE_FP32, false, PRECISION_BF16, false }, 2, 10, 32, 0, 2 },
        { { STATE_BF16, STATE_BF16, false, PRECISION_BF16, false }, 4, 6, 72, 8, 4 },
        { { STATE_BF16, STATE_BF16, true, PRECISION_BF16, false }, 4, 6, 64, 8, 2 },
        { { STATE_FP8, STATE_FP16, false, PRECISION_BF16, false }, 4, 5, 86, 8, 4 },
        { { STATE_FP32, STATE_BF16, false, PRECISION_FP8, false }, 4, 8, 56, 4, 4 },
        { { STATE_FP32, STATE_FP32, false, PRECISION_FP8, true }, 4, 12, 46, 0, 4 },
        { { STATE_FP32, STATE_FP32, false, PRECISION_FP8, true }, 2, 12, 52, 4, 2 },
        { { STATE_FP32, STATE_FP32, false, PRECISION_FP16, false }, 4, 12, 50, 0, 4 },
        { { STATE_FP32, STATE_FP32, false, PRECISION_FP16, false }, 2, 12, 38, 0, 2 },
        { { STATE_BF16, STATE_BF16, false, PRECISION_FP32, false }, 4, 8, 72, 8, 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stack stack = { .optimizer_traffic = 1.6 };
        struct backend b = *backend_named("megatron-lm");
        struct optimizer o = *optimizer_at(0);
        b.gradient_bytes = b.gradient_reduce_bytes = cases[i].gradient_bytes;
        /* the copy to fp32 that it does without */
        b.step.update_bytes = cases[i].how.precision == PRECISION_FP16 ? 4 : 0;
        optimizer_use_precision_aware(&o, &b, &stack, &cases[i].how);
        if (o.state_bytes != cases[i].want_state || b.step.update_bytes != cases[i].want_copies ||
            b.gradient_bytes != cases[i].want_gradient ||
            b.gradient_reduce_bytes != cases[i].want_gradient ||
            fabs(o.update_bytes_moved * stack.optimizer_traffic - cases[i].want_moved) > 1e-9)
            fail_msg("case %zu: state %g, moved %g, copies %g, gradients %g", i, o.state_bytes,
                     o.update_bytes_moved * stack.optimizer_traffic, b.step.update_bytes,
                     b.gradient_bytes);
    }
}

/* What PyTorch's two ways move apart changes, a stack's norm and clipping stay; of states in bf16 it
 * is half. */
static void test_adamw_kernels(void **state) {
    (void)state;
    static const struct {
        bool master_weights;
        double traffic, held;
        enum stack_adamw own;
        enum adamw_kernels kernels;
        double want_moved, want_held;
    } cases[] = {
        { true, 1.4, 0, ADAMW_FUSED, ADAMW_KERNELS_USUAL, 42, 0 },
        { true, 1.4, 0, ADAMW_FUSED, ADAMW_KERNELS_FUSED, 42, 0 },
        { true, 1.4, 0, ADAMW_FUSED, ADAMW_KERNELS_FOREACH, 94, 4 },
        { true, 3.1, 4, ADAMW_FOREACH, ADAMW_KERNELS_FUSED, 41, 0 },
        { true, 3.1, 4, ADAMW_FOREACH, ADAMW_KERNELS_FOREACH, 93, 4 },
        { true, 0.9, 0, ADAMW_FUSED, ADAMW_KERNELS_FOREACH, 80, 4 }, /* never below its own */
        { false, 1.55, 2, ADAMW_FOREACH, ADAMW_KERNELS_FUSED, 20.5, 0 },
        { false, 0.88, 0, ADAMW_FUSED, ADAMW_KERNELS_FOREACH, 52.4, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stack stack = { .optimizer_traffic = cases[i].traffic, .adamw = cases[i].own };
        struct backend b = *backend_named("fsdp");
        struct optimizer o = *optimizer_at(0);
        b.no_master_weights = !cases[i].master_weights;
        b.step.update_bytes = cases[i].held;
        optimizer_use_adamw_kernels(&o, &b, &stack, cases[i].kernels);
        const double moved = o.update_bytes_moved * stack.optimizer_traffic;
        if (fabs(moved - cases[i].want_moved) > 1e-9 || b.step.update_bytes != cases[i].want_held)
            fail_msg("case %zu: moved %g, held %g", i, moved, b.step.update_bytes);
    }
    struct backend b = *backend_named("fsdp");
    struct optimizer o = *optimizer_at(0);
    optimizer_use_adamw_kernels(&o, &b, NULL, ADAMW_KERNELS_FUSED);
    assert_true(o.update_bytes_moved == optimizer_at(0)->update_bytes_moved);
    optimizer_use_adamw_kernels(&o, &b, NULL, ADAMW_KERNELS_FOREACH);
    assert_true(o.update_bytes_moved == 82 && b.step.update_bytes == 4);
    const struct stack other = { .optimizer_traffic = 2 };
    assert_true(backend_adamw_kernels(&other) == ADAMW_KERNELS_USUAL);
}

/* DeepSpeed reduces behind each micro-batch whatever a stack of FSDP does. */
static void test_reductions_of_a_stack(void **state) {
    (void)state;
    const struct stack stack = { .step.reduces_once = true };
    struct backend fsdp = *backend_named("fsdp"), deepspeed = *backend_named("deepspeed");
    backend_use_stack(&fsdp, &stack, PRECISION_BF16, false, 1, false);
    backend_use_stack(&deepspeed, &stack, PRECISION_BF16, false, 1, false);
    assert_true(fsdp.step.reduces_once);
    assert_false(deepspeed.step.reduces_once);
}

/* A stack adds to what its backend does with sends, and takes nothing away. */
static void test_sends_of_a_stack(void **state) {
    (void)state;
    for (int i = 0; backend_names[i] != NULL; i++) {
        const struct stack none = { 0 }, both = { .divides_sends = true, .waits_for_sends = true };
        struct backend as_it_is = *backend_at(i), other = *backend_at(i);
        backend_use_stack(&as_it_is, &none, PRECISION_BF16, false, 1, false);
        backend_use_stack(&other, &both, PRECISION_BF16, false, 1, false);
        assert_true(as_it_is.divides_sends == backend_at(i)->divides_sends);
        assert_true(as_it_is.send_blocks_compute == backend_at(i)->send_blocks_compute);
        assert_true(other.divides_sends && other.send_blocks_compute);
    }
    /* Where parts of the model take turns a stack may compute on. */
    const struct stack turns = { .waits_for_sends = true, .overlaps_interleaved_sends = true };
    int at = 0;
    while (strcmp(backend_names[at], "megatron-lm") != 0)
        at++;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        struct backend b = *backend_at(at);
        backend_use_stack(&b, &turns, PRECISION_BF16, false, 1, interleaved == 1);
        assert_true(b.send_blocks_compute == (interleaved == 0));
    }
}

/* PyTorch's FSDP frees gradients; that of a stack of Megatron's keeps its buffers. */
static void test_gradients_of_fsdp(void **state) {
    (void)state;
    static const struct {
        const char *backend;
        bool frees;
    } cases[] = { { "fsdp", true }, { "megatron-lm", false }, { "megatron-deepspeed", false } };
    int at = 0;
    while (strcmp(backend_names[at], "fsdp") != 0)
        at++;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stack stack = { .backend = cases[i].backend };
        struct backend b = *backend_at(at);
        backend_use_stack(&b, &stack, PRECISION_BF16, false, 1, false);
        assert_int_equal(b.frees_gradients, cases[i].frees);
    }
}

/* Megatron-LM holds what it reduces, and copies bf16 to fp32 before the update; FSDP's copy reads
 * bf16 and writes what is reduced. */
static void test_gradients_reduced_in(void **state) {
    (void)state;
    const struct stack fp32 = { .optimizer_traffic = 1.5 }, bf16 = { .optimizer_traffic = 1.7 };
    static const struct {
        const char *backend;
        double held, reduced, copied; /* before */
        bool of_fp32;                 /* the stack's update */
        enum reduce_type type;
        double held_then, reduced_then, copied_then, update_moved;
    } cases[] = {
        { "megatron-lm", 4, 4, 0, true, REDUCE_BF16, 2, 2, 0, 30 + 6 / 1.5 },
        { "megatron-lm", 2, 2, 0, false, REDUCE_FP32, 4, 4, 0, 30 },
        { "megatron-lm", 4, 4, 0, true, REDUCE_FP32, 4, 4, 0, 30 },
        { "megatron-lm", 2, 2, 0, false, REDUCE_USUAL, 2, 2, 0, 30 },
        { "megatron-deepspeed", 4, 4, 0, true, REDUCE_BF16, 4, 2, 0, 30 },
        { "fsdp", 2, 2, 4, true, REDUCE_FP32, 2, 4, 6, 30 },
        { "fsdp", 4, 4, 6, true, REDUCE_BF16, 4, 2, 4, 30 },
        { "fsdp", 4, 2, 8, true, REDUCE_BF16, 4, 2, 8, 30 }, /* FSDP1, which copies more */
        { "deepspeed", 4, 2, 0, true, REDUCE_FP32, 4, 4, 0, 30 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct backend b = { .name = cases[i].backend,
                             .gradient_bytes = cases[i].held,
                             .gradient_reduce_bytes = cases[i].reduced,
                             .step.reduce_copy_bytes = cases[i].copied };
        struct optimizer o = { .update_bytes_moved = 30 };
        backend_reduce_in(&b, &o, cases[i].of_fp32 ? &fp32 : &bf16, cases[i].type);
        if (b.gradient_bytes != cases[i].held_then ||
            b.gradient_reduce_bytes != cases[i].reduced_then ||
            b.step.reduce_copy_bytes != cases[i].copied_then ||
            fabs(o.update_bytes_moved - cases[i].update_moved) > 1e-12)
            fail_msg("case %zu: %g, %g, %g, %g", i, b.gradient_bytes, b.gradient_reduce_bytes,
                     b.step.reduce_copy_bytes, o.update_bytes_moved);
    }
}

/* Where the collectives wait, the gathered input is kept: nothing gathers it again in backward. */
static void test_gathered_inputs_follow_the_traffic(void **state) {
    (void)state;
    static const enum stack_tensor_traffic ways[] = { TENSOR_BESIDE, TENSOR_ALONE, TENSOR_COPIED,
                                                      TENSOR_MERGED, TENSOR_EACH };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct stack stack = { .block.tensor_traffic = ways[i], .block.keeps = KEEPS_GATE_OUTPUT };
        struct backend b = *backend_at(0);
        backend_use_stack(&b, &stack, PRECISION_BF16, false, 1, false);
        const unsigned gathered = ways[i] == TENSOR_BESIDE ? 0 : KEEPS_GATHERED_INPUTS;
        assert_int_equal(b.block.keeps, KEEPS_GATE_OUTPUT | gathered);
    }
}

/* Hooks of shards and the dispatch of divided layers come on top of a block's launches. */
static void test_host_time_of_a_layout(void **state) {
    (void)state;
    int at = 0;
    while (strcmp(backend_names[at], "fsdp") != 0)
        at++;
    const struct stack stack = { .backend = "fsdp",
                                 .step.host_forward_s = 1,
                                 .step.host_backward_s = 2,
                                 .host_sharded_s = 4,
                                 .host_fp8_s = 32,
                                 .step.host_frozen_s = 0.5,
                                 .host_divided_forward_s = 8,
                                 .host_divided_backward_s = 16 };
    for (int way = 0; way < 4; way++) {
        struct backend b = *backend_at(at);
        backend_use_stack(&b, &stack, PRECISION_BF16, way & 1, way & 2 ? 8 : 1, false);
        const double hooks = way & 1 ? 4 : 0;
        assert_true(b.step.host_forward_s == 1 + hooks + (way & 2 ? 8 : 0));
        assert_true(b.step.host_backward_s == 2 + hooks + (way & 2 ? 16 : 0));
        assert_true(b.step.host_frozen_s == 0.5);
        struct backend fp8 = *backend_at(at);
        backend_use_stack(&fp8, &stack, PRECISION_FP8, way & 1, way & 2 ? 8 : 1, false);
        assert_true(fp8.step.host_forward_s == b.step.host_forward_s + 32);
        assert_true(fp8.step.host_backward_s == b.step.host_backward_s);
    }
}

static void test_usual_zero_stage(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t alone, beside_pipeline;
    } cases[] = {
        { "megatron-lm", 1, 1 },
        { "deepspeed", 1, 1 },
        { "fsdp", 3, 3 }, /* it has no ZeRO-1 */
        { "no backend", 1, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(backend_usual_zero_stage(cases[i].name, 1), cases[i].alone);
        assert_int_equal(backend_usual_zero_stage(cases[i].name, 4), cases[i].beside_pipeline);
    }
}

/* A stack file takes every backend that there is, as costmodel/stack_check.c lists them. */
static void test_stacks_know_backends(void **state) {
    (void)state;
    for (int i = 0; backend_names[i] != NULL; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        const char *text = arena_format(arena,
                                        "{\"name\":\"w\",\"description\":\"x\",\"base\":"
                                        "\"torchtitan-2026\",\"backend\":\"%s\"}",
                                        backend_names[i]);
        if (fixture_stack(arena, text, &err) == NULL) fail_msg("%s", err.text);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_zero_stage),
        cmocka_unit_test(test_fp16_pipeline),
        cmocka_unit_test(test_fp32_accumulation),
        cmocka_unit_test(test_precision_aware),
        cmocka_unit_test(test_adamw_kernels),
        cmocka_unit_test(test_reductions_of_a_stack),
        cmocka_unit_test(test_backends),
        cmocka_unit_test(test_gradients_of_a_precision),
        cmocka_unit_test(test_optimizer_of_a_precision),
        cmocka_unit_test(test_sends_of_a_stack),
        cmocka_unit_test(test_gradients_of_fsdp),
        cmocka_unit_test(test_gradients_reduced_in),
        cmocka_unit_test(test_gathered_inputs_follow_the_traffic),
        cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_host_time_of_a_layout),
        cmocka_unit_test(test_stacks_know_backends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
