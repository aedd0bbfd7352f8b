/* test_stack_factor.c - factors of a stack, and what stands in for those it has not, reach prices. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "costmodel/cost_model.h"
#include "costmodel/step_band.h"
#include "tests/unit/costmodel/stack_fixture.h"

static void test_doubt(void **state) {
    (void)state;
    static const struct {
        double factor, error, want;
    } cases[] = {
        { 1.0, 0.02, 0.02 }, { 1.5, 0, 0 },     { 3, 0.02, 0.5 },
        { 0.5, 0, 0.6 },     { 1.6, 0.3, 0.3 }, { 0.2, 0, 0.99 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stack_factor f = { .kernel_time_factor = cases[i].factor,
                                        .fit_error = cases[i].error };
        assert_true(fabs(stack_factor_doubt(&f) - cases[i].want) < 1e-8);
    }
}

static void test_prices(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    const struct stack *stack = fixture_stack(arena, fixture_stack_text, &err);
    if (stack == NULL) fail_msg("%s", err.text);
    struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    struct cost_model *plain = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
    struct cost_model *with = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
    cost_model_use_stack(with, stack, PRECISION_BF16, true);
    const struct communicator group = { 8, 1, 8, 1 };
    const struct operator_work works[] = {
        operator_matmul("m", PASS_FORWARD, PRECISION_BF16, 4096, 4096, 4096),
        operator_attention("a", PASS_FORWARD, PRECISION_BF16, 4096, 4096.0 * 4096, 32, 32, 128,
                           true),
        operator_attention("a", PASS_BACKWARD, PRECISION_BF16, 4096, 4096.0 * 4096, 32, 32, 128,
                           true),
        operator_collective("c", OPERATOR_ALL_GATHER, PASS_FORWARD, COMMUNICATOR_TENSOR, 1e8),
        operator_collective("c", OPERATOR_ALL_GATHER, PASS_UPDATE, COMMUNICATOR_DATA, 1e8),
    };
    /* a tensor-parallel group waits for its last rank besides, and nothing hides that */
    const double gathers_s = cost_model_price_isolated(plain, &works[3], &group).seconds,
                 waits_s = cost_model_price(plain, &works[3], &group).seconds - gathers_s,
                 want[] = { 1.1, 1.1 * 2 * 1.5, 1.1 * 2,
                            (0.8 * gathers_s + waits_s) / (gathers_s + waits_s), 1 };
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        const double ratio = cost_model_price(with, &works[i], &group).seconds /
                             cost_model_price(plain, &works[i], &group).seconds;
        if (fabs(ratio - want[i]) > 1e-9)
            fail_msg("operator %zu: got %g, want %g", i, ratio, want[i]);
        /* Microbenchmarks know no stack. */
        assert_true(cost_model_price_isolated(with, &works[i], &group).seconds ==
                    cost_model_price_isolated(plain, &works[i], &group).seconds);
    }
    const struct operator_work norm =
        operator_streaming("n", OPERATOR_NORM, PASS_FORWARD, PRECISION_BF16, 1e9);
    const struct price a = cost_model_price(plain, &norm, NULL),
                       b = cost_model_price(with, &norm, NULL);
    assert_true(fabs(b.seconds - 1.1 * (a.launch_s + 2 * a.memory_s)) < 1e-12);
    const struct operator_work backward =
        operator_streaming("n", OPERATOR_NORM, PASS_BACKWARD, PRECISION_BF16, 1e9);
    const struct price c = cost_model_price(plain, &backward, NULL),
                       d = cost_model_price(with, &backward, NULL);
    assert_true(fabs(d.seconds - 1.1 * (c.launch_s + 3 * c.memory_s)) < 1e-12);
    assert_false(stack_on(stack, "h100-80g-sxm", PRECISION_BF16).calibrated);
    assert_true(stack_on(stack, "a100-40g-sxm", PRECISION_FP16).calibrated);
    assert_false(stack_on(stack, "a100-40g-sxm", PRECISION_FP8).calibrated);
    assert_false(stack_on(stack, "a100-40g-sxm", PRECISION_FP4).calibrated);
    arena_destroy(arena);
}

/* Kernels of a stack whose file has no factors take what bands.json says of such stacks more, with
 * its relative's factors too; traffic does not. */
static void test_uncalibrated(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    assert_false(stack_load(arena, SCENARIOS, "nemo-2024", &err)->uncalibrated);
    assert_false(stack_load(arena, SCENARIOS, "megatron-core-simulated", &err)->uncalibrated);
    const struct stack *borrowing = stack_load(arena, SCENARIOS, "torchtitan", &err);
    assert_true(borrowing->uncalibrated && borrowing->borrows);
    struct stack as_fitted = *borrowing;
    as_fitted.uncalibrated = false;
    struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    struct cost_model *more = cost_model_create(arena, SCENARIOS, "h200-141g-sxm", &network, &err);
    struct cost_model *plain = cost_model_create(arena, SCENARIOS, "h200-141g-sxm", &network, &err);
    cost_model_use_stack(more, borrowing, PRECISION_BF16, true);
    cost_model_use_stack(plain, &as_fitted, PRECISION_BF16, true);
    const double ratio =
        cost_model_stack(more).kernel_time_factor / cost_model_stack(plain).kernel_time_factor;
    assert_true(ratio > 1 && ratio < 1.1);
    const struct communicator group = { 8, 1, 8, 1 };
    const struct operator_work matmul = operator_matmul("m", PASS_FORWARD, PRECISION_BF16, 4096,
                                                        4096, 4096),
                               gather = operator_collective("c", OPERATOR_ALL_GATHER, PASS_FORWARD,
                                                            COMMUNICATOR_DATA, 1e8);
    assert_true(fabs(cost_model_price(more, &matmul, NULL).seconds /
                         cost_model_price(plain, &matmul, NULL).seconds -
                     ratio) < 1e-9);
    assert_true(cost_model_price(more, &gather, &group).seconds ==
                cost_model_price(plain, &gather, &group).seconds);
    arena_destroy(arena);
}

/* Kernels of a model that writes no text take encoder_factor of bands.json in place of that, but
 * where a stack stands for a simulator, or for the place that such models were measured at. */
static void test_encoders(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    static const struct {
        const char *stack, *hardware;
        bool held_back, takes;
    } cases[] = { { "torchtitan", "a100-80g-sxm", false, true },
                  { "megatron-core", "a100-80g-sxm", false, true },
                  { "torchtitan", "a100-80g-sxm", true, false },
                  { "easyllm", "a100-80g-sxm", false, true },
                  { "dip-2025", "a100-80g-sxm", false, true },
                  { "dip-2025", "h800-80g-sxm", false, false },
                  { "megatron-core-simulated", "h100-80g-sxm", false, false } };
    struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stack own = *stack_load(arena, SCENARIOS, cases[i].stack, &err);
        own.held_back = cases[i].held_back;
        struct cost_model *of_text =
            cost_model_create(arena, SCENARIOS, cases[i].hardware, &network, &err);
        struct cost_model *other =
            cost_model_create(arena, SCENARIOS, cases[i].hardware, &network, &err);
        cost_model_use_stack(of_text, &own, PRECISION_BF16, true);
        cost_model_use_stack(other, &own, PRECISION_BF16, false);
        const struct step_bands *bands = cost_model_bands(of_text);
        const double usual = own.uncalibrated ? bands->uncalibrated_stack_factor : 1,
                     want = cases[i].takes ? bands->encoder_factor / usual : 1,
                     got = cost_model_stack(other).kernel_time_factor /
                           cost_model_stack(of_text).kernel_time_factor;
        assert_true(bands->encoder_factor > 1 && bands->encoder_factor < 1.4);
        if (fabs(got - want) > 1e-9)
            fail_msg("case %zu, %s: got %g, want %g", i, cases[i].stack, got, want);
        assert_true(cost_model_encoder_factor(of_text) == 1);
        assert_true(cost_model_encoder_factor(other) ==
                    (cases[i].takes ? bands->encoder_factor : 1));
    }
    arena_destroy(arena);
}

/* A stack's own gap stands in the profile's place, and what no operator stands for comes on top;
 * of a matmul that is cut into pieces once. */
static void test_gaps(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct stack own = *stack_load(arena, SCENARIOS, "megatron-core", &err);
    struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    struct operator_work norm = operator_streaming("n", OPERATOR_NORM, PASS_FORWARD, PRECISION_BF16,
                                                   1e7),
                         matmul = operator_matmul("m", PASS_FORWARD, PRECISION_BF16, 64, 64, 64);
    struct price at[3];
    static const double gaps_s[] = { 0, 2e-6, 5e-6 };
    struct cost_model *model = NULL;
    for (int i = 0; i < 3; i++) {
        own.launch_gap_s = gaps_s[i];
        model = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
        cost_model_use_stack(model, &own, PRECISION_BF16, true);
        at[i] = cost_model_price(model, &norm, NULL);
    }
    const double factor = cost_model_stack(model).kernel_time_factor;
    assert_true(fabs(at[0].launch_s - 8e-6 * factor) < 1e-12);
    assert_true(fabs(at[2].launch_s - at[1].launch_s - 3e-6 * factor) < 1e-12);
    assert_true(fabs(at[2].seconds - at[1].seconds - 3e-6 * factor) < 1e-12);
    const double whole_s = cost_model_price(model, &matmul, NULL).launch_s;
    matmul.pieces = 4;
    const double piece_s = cost_model_price(model, &matmul, NULL).launch_s;
    assert_true(fabs(whole_s - piece_s - 6e-6 * factor) < 1e-12);
    arena_destroy(arena);
}

/* Of a stack's kernels those that compute wait for the slowest GPU of the job; without a stack
 * none. */
static void test_slowest_gpu(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    /* expected largest of n standard normal variables, Tippett 1925: 0.564, 1.424, 2.344, 3.241 */
    static const struct {
        int64_t gpu_count;
        double want;
    } cases[] = { { 0, 0 }, { 1, 0 }, { 2, 0.564 }, { 8, 1.424 }, { 64, 2.344 }, { 1024, 3.241 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double got = (stack_slowest_gpu_time(cases[i].gpu_count) - 1) * 5.4 / 0.08;
        if (fabs(got - cases[i].want) > 0.03)
            fail_msg("%ld GPUs: got %g deviations, want %g", (long)cases[i].gpu_count, got,
                     cases[i].want);
    }
    struct cluster_network network = { .gpus_per_node = 8,
                                       .nic_bytes_per_s_per_gpu = 25e9,
                                       .gpu_count = 64 };
    const struct stack *stack = fixture_stack(arena, fixture_stack_text, &err);
    struct cost_model *plain = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
    struct cost_model *with = cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
    cost_model_use_stack(with, stack, PRECISION_BF16, true);
    const struct operator_work matmul =
        operator_matmul("m", PASS_FORWARD, PRECISION_BF16, 4096, 4096, 4096);
    const struct operator_work norm =
        operator_streaming("n", OPERATOR_NORM, PASS_FORWARD, PRECISION_BF16, 1e9);
    const double slowest = stack_slowest_gpu_time(64);
    assert_true(slowest > 1.03 && slowest < 1.04);
    assert_true(fabs(cost_model_price(with, &matmul, NULL).seconds /
                         cost_model_price(plain, &matmul, NULL).seconds -
                     1.1 * slowest) < 1e-9);
    const struct price a = cost_model_price(plain, &norm, NULL);
    assert_true(fabs(cost_model_price(with, &norm, NULL).seconds -
                     1.1 * (a.launch_s + 2 * a.memory_s)) < 1e-12);
    arena_destroy(arena);
}

/* Three stacks on A100 (0.9, 1.0, 1.2), two on H100 (1.1, 1.4), the last of them in fp8 too
 * (2.0). */
static void test_usual_factors(void **state) {
    (void)state;
    static const char *rows[] = { "r", NULL };
#define FACTOR(gpu_, precision_, factor_)                                                          \
    {                                                                                              \
        .gpu = gpu_, .precision = PRECISION_##precision_, .kernel_time_factor = factor_,           \
        .attention_time_factor = 1, .calibrated_on = rows                                          \
    }
    struct stack_factor a[] = { FACTOR("a100", BF16, 0.9) },
                        b[] = { FACTOR("a100", BF16, 1.0), FACTOR("h100", BF16, 1.1) },
                        c[] = { FACTOR("a100", BF16, 1.2), FACTOR("h100", BF16, 1.4),
                                FACTOR("h100", FP8, 2.0) };
    struct stack stacks[] = {
        { .name = "a", .factors = a, .factor_count = 1, .attention_gpu = "" },
        { .name = "b", .factors = b, .factor_count = 2, .attention_gpu = "h" },
        { .name = "c", .factors = c, .factor_count = 3, .attention_gpu = "" },
        { .name = "d", .factors = c, .factor_count = 3, .borrows = true, .attention_gpu = "" },
        { .name = "e", .attention_gpu = "" },
    };
    const struct stack *list[5];
    for (int i = 0; i < 5; i++) {
        list[i] = &stacks[i];
        stacks[i].known = list;
        stacks[i].known_count = 5;
    }
    static const struct {
        int stack;
        const char *gpu;
        enum precision precision;
        double want;
    } cases[] = {
        { 4, "a100-80g-sxm", PRECISION_FP16, 1.0 }, /* the median */
        { 4, "h100-80g-sxm", PRECISION_BF16, 1.2409673645990857 },
        { 4, "h800-80g-sxm", PRECISION_BF16, 1.2409673645990857 }, /* the generation */
        { 1, "h200-141g-sxm", PRECISION_BF16, 1.1 },               /* its own there */
        { 2, "a800-80g-sxm", PRECISION_FP16, 1.2 },
        { 4, "gh200-96g", PRECISION_FP8, 2.0 },
        { 4, "v100-32g-sxm", PRECISION_BF16, 1.0488088481701516 }, /* of all: b's (1 x 1.1)^(1/2) */
        { 4, "b200-180g-sxm", PRECISION_FP4, 2.0 },
        { 0, "h100-80g-sxm", PRECISION_BF16, 0.9 * 1.2409673645990857 },
        { 3, "a100-80g-sxm", PRECISION_BF16, 1.2 }, /* its relative's own */
        /* (1.2 x (1.4 / 1.2410))^(1/2) of 1.0488; of eight bits, what sixteen left on that
         * generation */
        { 2, "v100-32g-sxm", PRECISION_BF16, 1.220311778816751 },
        { 1, "h100-80g-sxm", PRECISION_FP8, 1.7728105208558367 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct stack_use use =
            stack_on(&stacks[cases[i].stack], cases[i].gpu, cases[i].precision);
        if (fabs(use.kernel_time_factor - cases[i].want) > 1e-9)
            fail_msg("case %zu: got %.10f, want %.10f", i, use.kernel_time_factor, cases[i].want);
    }
    assert_true(stack_gpu_is("h200-141g-sxm", "h200") && stack_gpu_is("h200", "h200"));
    assert_false(stack_gpu_is("h200-141g-sxm", "h20"));
    /* "ascend" is not of the A100's generation: the median of all, a stack's factors as their mean. */
    assert_true(fabs(stack_usual_log_factor(list, 5, "ascend-x", PRECISION_BF16) - log(1.1) / 2) <
                1e-12);
    assert_true(stack_on(&stacks[1], "h200-141g-sxm", PRECISION_BF16).attention_stated);
    assert_false(stack_on(&stacks[1], "a100-80g-sxm", PRECISION_BF16).attention_stated);
    stacks[0].attention_forward_time = stacks[0].attention_backward_time = 1;
    assert_false(stack_on(&stacks[0], "h100-80g-sxm", PRECISION_BF16).attention_stated);
    stacks[0].attention_forward_time = 2;
    assert_true(stack_on(&stacks[0], "a100-80g-sxm", PRECISION_BF16).attention_stated);
    stacks[1].attention_gpu = "b200 gb200";
    assert_true(stack_on(&stacks[1], "b200-180g-sxm-slow", PRECISION_FP8).attention_stated);
    assert_true(stack_on(&stacks[1], "gb200-186g-nvl72", PRECISION_BF16).attention_stated);
    assert_false(stack_on(&stacks[1], "gb300-288g-nvl72", PRECISION_BF16).attention_stated);
    assert_false(stack_on(&stacks[1], "h200-141g-sxm", PRECISION_BF16).attention_stated);
}

/* A precision's own factors hold on all of the generation before those of the other one of its
 * width do. */
static void test_factors_of_fp8_and_fp4(void **state) {
    (void)state;
    static const char *rows[] = { "r", NULL };
    struct stack_factor factors[] = { FACTOR("gb200", FP8, 1.2), FACTOR("gb200", FP4, 1.5),
                                      FACTOR("gb300", FP4, 1.35) };
    struct stack stack = { .name = "a", .attention_gpu = "", .factors = factors };
    const struct stack *list[] = { &stack };
    stack.known = list;
    stack.known_count = 1;
    static const struct {
        int count; /* of the factors */
        const char *gpu;
        enum precision precision;
        double want;
        bool calibrated;
    } cases[] = {
        { 3, "gb200-186g-nvl72", PRECISION_FP8, 1.2, true },
        { 3, "gb200-186g-nvl72", PRECISION_FP4, 1.5, true },
        { 3, "gb300-288g-nvl72", PRECISION_FP8, 1.2, false },
        { 3, "b200-180g-sxm", PRECISION_FP4, 1.42302494707577, false },
        { 1, "gb200-186g-nvl72", PRECISION_FP4, 1.2, false },
        { 1, "b200-180g-sxm", PRECISION_FP4, 1.2, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stack.factor_count = cases[i].count;
        const struct stack_use use = stack_on(&stack, cases[i].gpu, cases[i].precision);
        if (fabs(use.kernel_time_factor - cases[i].want) > 1e-9 ||
            use.calibrated != cases[i].calibrated)
            fail_msg("case %zu: got %.10f, want %.10f", i, use.kernel_time_factor, cases[i].want);
    }
}

#undef FACTOR

/* A kernel of 16 bits takes what it takes, whatever the matmuls around it run in. */
static void test_attention_of_other_precisions(void **state) {
    (void)state;
#define WITH_ATTENTION(gpu_, precision_, attention_)                                               \
    {                                                                                              \
        .gpu = gpu_, .precision = PRECISION_##precision_, .kernel_time_factor = 1,                 \
        .attention_time_factor = attention_                                                        \
    }
    struct stack_factor bf16[] = { WITH_ATTENTION("h100", BF16, 3),
                                   WITH_ATTENTION("a100", BF16, 2) },
                        both[] = { WITH_ATTENTION("h100", FP8, 1.5),
                                   WITH_ATTENTION("h100", BF16, 3) },
                        fp8[] = { WITH_ATTENTION("h100", FP8, 1.5) };
    const struct {
        struct stack_factor *factors;
        int64_t count;
        const char *gpu;
        enum precision precision;
        double want;
    } cases[] = {
        { bf16, 2, "h100-80g-sxm", PRECISION_BF16, 3 },
        { bf16, 2, "h100-80g-sxm", PRECISION_FP8, 3 },
        { bf16, 2, "h200-141g-sxm", PRECISION_FP4, 3 },                 /* the generation */
        { bf16, 2, "b200-180g-sxm", PRECISION_FP8, 2.449489742783178 }, /* of both */
        { both, 2, "h100-80g-sxm", PRECISION_FP8, 1.5 }, /* fitted beside its kernels' */
        { both, 2, "h200-141g-sxm", PRECISION_FP8, 3 },
        { fp8, 1, "b200-180g-sxm", PRECISION_BF16, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stack stack = { .factors = cases[i].factors,
                               .factor_count = cases[i].count,
                               .attention_gpu = "" };
        const struct stack *list[] = { &stack };
        stack.known = list;
        stack.known_count = 1;
        const double got = stack_on(&stack, cases[i].gpu, cases[i].precision).attention_time_factor;
        if (fabs(got - cases[i].want) > 1e-9)
            fail_msg("case %zu: got %.10f, want %.10f", i, got, cases[i].want);
    }
}

/* Its own processes send to stages on other nodes no faster than they can; in a node, or with a
 * slower link, nothing changes, nor do collectives and rings. */
static void test_sends_that_a_stack_slows(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const struct cluster_network network = { .gpus_per_node = 8, .nic_bytes_per_s_per_gpu = 25e9 };
    const struct communicator inside = { 2, 1, 2, 1 }, between = { 2, 2, 1, 1 };
    const struct operator_work send = operator_collective("s", OPERATOR_SEND, PASS_FORWARD,
                                                          COMMUNICATOR_PIPELINE, 1e8),
                               reduce = operator_collective("r", OPERATOR_ALL_REDUCE, PASS_FORWARD,
                                                            COMMUNICATOR_DATA, 1e8),
                               ring = operator_collective("c", OPERATOR_SEND, PASS_FORWARD,
                                                          COMMUNICATOR_CONTEXT_RING, 1e8);
    struct price sends[3]; /* at the link's rate; at 0.1 and 1e4 GB/s */
    static const char *const rates[] = { "0", "0.1", "1e4" };
    for (int i = 0; i < 3; i++) {
        struct error err = { 0 };
        const char *text = arena_format(
            arena,
            "{\"name\":\"t\",\"description\":\"d\",\"year\":2024,\"backend\":\"megatron-lm\","
            "\"node_send_GB_per_s\":%s,\"sources\":{\"node_send_GB_per_s\":\"x\"}}",
            rates[i]);
        const struct stack *stack = fixture_stack(arena, text, &err);
        if (stack == NULL) fail_msg("%s", err.text);
        struct cost_model *model =
            cost_model_create(arena, SCENARIOS, "a100-80g-sxm", &network, &err);
        const double inside_s = cost_model_price(model, &send, &inside).seconds,
                     reduce_s = cost_model_price(model, &reduce, &between).seconds,
                     ring_s = cost_model_price(model, &ring, &between).seconds;
        cost_model_use_stack(model, stack, PRECISION_BF16, true);
        sends[i] = cost_model_price(model, &send, &between);
        assert_true(cost_model_price(model, &send, &inside).seconds == inside_s);
        assert_true(cost_model_price(model, &reduce, &between).seconds == reduce_s);
        assert_true(cost_model_price(model, &ring, &between).seconds == ring_s);
    }
    assert_true(sends[0].seconds < 0.1 && sends[2].seconds == sends[0].seconds);
    assert_true(fabs(sends[1].seconds - 1) < 1e-12 && sends[1].network_s == sends[1].seconds);
    assert_non_null(strstr(sends[1].source, "node_send_GB_per_s"));
    assert_true(fabs(sends[1].efficiency - sends[0].efficiency * sends[0].seconds) < 1e-12);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sends_that_a_stack_slows),
        cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_prices),
        cmocka_unit_test(test_uncalibrated),
        cmocka_unit_test(test_encoders),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_slowest_gpu),
        cmocka_unit_test(test_usual_factors),
        cmocka_unit_test(test_factors_of_fp8_and_fp4),
        cmocka_unit_test(test_attention_of_other_precisions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
