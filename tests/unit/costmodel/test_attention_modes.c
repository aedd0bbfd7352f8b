/* test_attention_modes.c - dropout and fixed orders of sums in fused attention kernels, and lengths
 * that nobody measured. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "costmodel/attention_modes.h"
#include "costmodel/efficiency.h"
#include "costmodel/stack.h"

static void expect(const char *what, double got, double want, double within) {
    if (!(fabs(got - want) <= within * fabs(want)))
        fail_msg("%s: got %g, want %g", what, got, want);
}

/* By hand: blocks of 128 keys are dealt to ceil(SMs / heads) thread blocks of each head. */
static void test_ordered_factor(void **state) {
    (void)state;
    static const struct {
        int64_t sm_count, heads;
        double length;
        bool causal;
        int64_t splits;
        double factor;
    } cases[] = {
        { 4, 4, 1024, false, 1, 1 },        /* one each, all at once */
        { 4, 2, 1024, false, 2, 1 },        /* halves of equal length */
        { 4, 3, 1024, false, 2, 4.0 / 3 },  /* six halves in two waves; 24 blocks in six */
        { 4, 2, 384, false, 2, 1 },         /* two blocks and one; six blocks: two waves as well */
        { 4, 2, 256, true, 2, 1 },          /* as many thread blocks as blocks of keys */
        { 132, 8, 2048, true, 16, 1 },      /* the same: 16 blocks, 17 thread blocks asked for */
        { 132, 32, 8192, true, 5, 1.5580 }, /* H100 */
        { 4, 100, 1024, true, 1, 1 },       /* waves beyond counting */
        { 0, 8, 1024, true, 1, 1 },         /* unknown */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t splits;
        const double got = attention_ordered_factor(cases[i].sm_count, cases[i].heads,
                                                    cases[i].length, cases[i].causal, &splits);
        if (splits != cases[i].splits || fabs(got - cases[i].factor) > 1e-3)
            fail_msg("row %zu: %g with %lld splits", i, got, (long long)splits);
    }
}

/* A price of 1 ms that nothing but compute bounds. */
static struct price with_modes(const char *gpu_name, enum operator_pass pass, bool dropout,
                               bool deterministic, bool own_kernel, double *moved_s) {
    const struct gpu gpu = { .name = gpu_name, .sm_count = 132 };
    struct operator_work work = operator_attention("attention", pass, PRECISION_BF16, 16384,
                                                   8192.0 * 16384, 16, 16, 128, true);
    struct price p = {
        .seconds = 1e-3, .compute_s = 1e-3, .efficiency = 0.5, .inside_range = true
    };
    work.dropout = dropout;
    work.deterministic = deterministic;
    const struct attention_library library = { .own_kernel = own_kernel };
    *moved_s = attention_use_modes(&p, &work, &gpu, 2e12, &library);
    return p;
}

static void test_modes(void **state) {
    (void)state;
    const double flop = 4 * 8192.0 * 16384 * 16 * 128 / 2;
    /* four sums more than without, of 16,384 tokens and 16 heads of 128 */
    const double sums_s = 4 * 16384.0 * 16 * 128 * 8 / 2e12;
    const double scores_s = 3 * 2 * 8192.0 * 16384 * 16 / 2e12;
    int64_t splits;
    const double ordered = attention_ordered_factor(132, 32, 8192, true, &splits);
    static const enum operator_pass f = PASS_FORWARD, b = PASS_BACKWARD;
    const struct {
        const char *gpu;
        enum operator_pass pass;
        bool dropout, deterministic, own;
        double want_s, moved_s;
    } cases[] = {
        { "h100-80g-sxm", f, false, false, false, 1e-3, 0 },
        { "h100-80g-sxm", f, false, true, false, 1e-3, 0 },
        { "h100-80g-sxm", b, true, false, false, 1e-3 * 0.614 / 0.594, 0 },
        { "h200-141g-sxm", b, false, true, false, 1e-3, scores_s },
        { "h100-80g-sxm", b, false, true, true, ordered * 1e-3, sums_s },
        { "a100-80g-sxm", b, false, true, false, ordered * 1e-3, sums_s },
        { "a100-80g-sxm", f, true, true, false, 1e-3 * 0.728 / 0.695, 0 },
        { "gb200-186g-nvl72", b, false, true, false, 1.14e-3, 0 },
        { "gb200-186g-nvl72", b, false, true, true, 1.14e-3, 0 }, /* an older cuDNN */
        { "b200-180g-sxm", f, true, false, false, 1e-3 * 0.525 / 0.48, 0 },
        { "b200-180g-sxm", f, true, true, false, flop / 361e12 * 0.728 / 0.695, 0 },
        { "gb300-288g-nvl72", b, true, true, false, 2.5 * flop / 334e12 * 0.728 / 0.695 * ordered,
          sums_s },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double moved_s;
        const struct price p = with_modes(cases[i].gpu, cases[i].pass, cases[i].dropout,
                                          cases[i].deterministic, cases[i].own, &moved_s);
        expect(cases[i].gpu, p.seconds, cases[i].want_s, 1e-9);
        expect("traffic", moved_s, cases[i].moved_s, 1e-9);
        expect("efficiency", p.efficiency, 0.5 * 1e-3 / cases[i].want_s, 1e-9);
        assert_true(p.inside_range == (!cases[i].deterministic || cases[i].pass == f));
    }
}

/* As many random numbers for half of the matmuls' work. */
static void test_dropout_of_head_sizes(void **state) {
    (void)state;
    static const int64_t head_dims[] = { 64, 128, 256 };
    const struct gpu gpu = { .name = "h100-80g-sxm", .sm_count = 132 };
    for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++) {
        struct operator_work work =
            operator_attention("attention", PASS_FORWARD, PRECISION_BF16, 16384, 8192.0 * 16384, 16,
                               16, head_dims[i], true);
        work.dropout = true;
        struct price p = { .seconds = 1e-3, .compute_s = 1e-3, .efficiency = 0.5 };
        const struct attention_library library = { .own_kernel = false };
        attention_use_modes(&p, &work, &gpu, 2e12, &library);
        expect("heads", p.seconds, 1e-3 * (1 + (0.614 / 0.594 - 1) * 128 / (double)head_dims[i]),
               1e-9);
    }
}

/* The kernel that a training names, in place of the stack's own. */
static void test_named_kernels(void **state) {
    (void)state;
    const double flop = 4 * 8192.0 * 16384 * 16 * 128 / 2;
    static const enum operator_pass f = PASS_FORWARD, b = PASS_BACKWARD;
    const struct {
        const char *gpu;
        enum operator_pass pass;
        enum attention_kernel kernel;
        double want_s;
        bool by_cudnn;
    } cases[] = {
        { "a100-80g-sxm", f, ATTENTION_KERNEL_FLASH_2, 1e-3, false },
        { "h100-80g-sxm", f, ATTENTION_KERNEL_FLASH_2, 1.75e-3, false },
        { "gh200", b, ATTENTION_KERNEL_FLASH_2, 1.625e-3, false },
        { "a100-80g-sxm", f, ATTENTION_KERNEL_FLASH_1, 2e-3, false },
        { "h100-80g-sxm", b, ATTENTION_KERNEL_FLASH_1, 2 * 1.625e-3, false },
        /* all pairs: twice a causal kernel's */
        { "a100-80g-sxm", f, ATTENTION_KERNEL_MASKED, 2 * 2.30e-3, false },
        { "h100-80g-sxm", f, ATTENTION_KERNEL_MASKED, 2 * 2.30 * 1.75e-3, false },
        { "h100-80g-sxm", b, ATTENTION_KERNEL_MASKED, 2 * 1.93 * 1.625e-3, false },
        /* by cuDNN, which reads the mask */
        { "h100-80g-sxm", f, ATTENTION_KERNEL_MASKED, 2e-3, true },
        { "b200-180g-sxm", b, ATTENTION_KERNEL_MASKED, 2e-3, false },
        { "h100-80g-sxm", b, ATTENTION_KERNEL_FLASH_3, 1e-3, false },
        { "h100-80g-sxm", b, ATTENTION_KERNEL_CUDNN, 1e-3, false },
        { "b200-180g-sxm", f, ATTENTION_KERNEL_CUDNN, 1e-3, false },
        { "a100-80g-sxm", f, ATTENTION_KERNEL_CUDNN, 1e-3, false },
        { "b200-180g-sxm", f, ATTENTION_KERNEL_FLASH_2, flop / 361e12, false },
        { "gb200-186g-nvl72", b, ATTENTION_KERNEL_FLASH_2, 2.5 * flop / 334e12, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double moved_s;
        const struct gpu gpu = { .name = cases[i].gpu, .sm_count = 132 };
        struct operator_work work = operator_attention("attention", cases[i].pass, PRECISION_BF16,
                                                       16384, 8192.0 * 16384, 16, 16, 128, true);
        work.attention_kernel = cases[i].kernel;
        struct price p = { .seconds = 1e-3, .compute_s = 1e-3, .efficiency = 0.5 };
        const struct attention_library library = { .cudnn_takes_masks = cases[i].by_cudnn };
        moved_s = attention_use_modes(&p, &work, &gpu, 2e12, &library);
        expect(cases[i].gpu, p.seconds, cases[i].want_s, 1e-9);
        expect("traffic", moved_s, 0, 1e-9);
    }
    /* what is stated of or fitted for a stack's own kernel does not hold for another */
    const struct stack stack = { .attention_forward_time = 2, .attention_backward_time = 3 };
    struct stack_use use = { &stack, 1.1, 1.5, true, true, false };
    struct operator_work work = operator_attention("attention", f, PRECISION_BF16, 16384,
                                                   8192.0 * 16384, 16, 16, 128, true);
    expect("the stack's", stack_time_factor(&use, &work), 1.1 * 1.5 * 2, 1e-9);
    work.attention_kernel = ATTENTION_KERNEL_FLASH_3;
    expect("named", stack_time_factor(&use, &work), 1.1, 1e-9);
    /* a cuDNN named where the stack's own is one is the stack's */
    work.attention_kernel = ATTENTION_KERNEL_CUDNN;
    expect("cuDNN", stack_time_factor(&use, &work), 1.1, 1e-9);
    use.attention_cudnn = true;
    expect("its own cuDNN", stack_time_factor(&use, &work), 1.1 * 1.5 * 2, 1e-9);
    /* single precision has one kernel, whatever the stack */
    work = operator_attention("attention", f, PRECISION_TF32, 16384, 8192.0 * 16384, 16, 16, 128,
                              true);
    expect("TF32", stack_time_factor(&use, &work), 1.1, 1e-9);
}

/* PyTorch's kernel for fp32 takes FlashAttention-2's share of a third of the TF32 peak; a mask that
 * it reads costs the pairs that it holds. */
static void test_single_precision(void **state) {
    (void)state;
    const enum operator_pass f = PASS_FORWARD;
    static const struct {
        const char *gpu;
        enum attention_kernel kernel;
        double want_s;
    } cases[] = {
        { "a100-80g-sxm", ATTENTION_KERNEL_USUAL, 1e-3 },
        { "h100-80g-sxm", ATTENTION_KERNEL_USUAL, 1.75e-3 },
        { "h100-80g-sxm", ATTENTION_KERNEL_MASKED, 3.5e-3 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct gpu gpu = { .name = cases[i].gpu,
                                 .peak_flop_per_s = {
                                     [PRECISION_TF32] = 495e12, [PRECISION_BF16] = 990e12 } };
        struct operator_work work = operator_attention("attention", f, PRECISION_FP32, 16384,
                                                       8192.0 * 16384, 16, 16, 128, true);
        work.attention_kernel = cases[i].kernel;
        struct price p = { .seconds = 1e-3, .compute_s = 1e-3, .efficiency = 0.5 };
        const struct attention_library library = { .cudnn_takes_masks = true };
        attention_use_modes(&p, &work, &gpu, 2e12, &library);
        expect(cases[i].gpu, p.seconds, cases[i].want_s, 1e-9);
    }
    /* Blackwell: FlashAttention-2's 361 TFLOP/s in 16 bits, a sixth of it */
    const struct gpu b200 = { .name = "b200-180g-sxm",
                              .peak_flop_per_s = {
                                  [PRECISION_TF32] = 1125e12, [PRECISION_BF16] = 2250e12 } };
    const struct operator_work work = operator_attention("attention", f, PRECISION_TF32, 16384,
                                                         8192.0 * 16384, 16, 16, 128, true);
    struct price p = { .seconds = 1e-3, .compute_s = 1e-3, .efficiency = 0.5 };
    const struct attention_library library = { .cudnn_takes_masks = true };
    attention_use_modes(&p, &work, &b200, 2e12, &library);
    expect("b200", p.seconds, work.flop * 6 / 361e12, 1e-9);
}

/* cuDNN has no fixed order by PyTorch's rules: the memory-efficient kernel reads the mask then. */
static void test_ordered_masks(void **state) {
    (void)state;
    static const char *const gpus[] = { "h100-80g-sxm", "b200-180g-sxm" };
    static const double least[] = { 2 * 1.93 * 1.625e-3, 2 * 1.93e-3 };
    for (size_t i = 0; i < 2; i++)
        for (int dropout = 0; dropout < 2; dropout++) {
            const struct gpu gpu = { .name = gpus[i], .sm_count = 132 };
            const struct attention_library library = { .cudnn_takes_masks = true };
            struct operator_work work =
                operator_attention("attention", PASS_BACKWARD, PRECISION_BF16, 16384,
                                   8192.0 * 16384, 16, 16, 128, true);
            work.attention_kernel = ATTENTION_KERNEL_MASKED;
            work.deterministic = true;
            work.dropout = dropout == 1;
            struct price p = { .seconds = 1e-3, .compute_s = 1e-3, .efficiency = 0.5 };
            const double moved_s = attention_use_modes(&p, &work, &gpu, 2e12, &library);
            assert_true(p.seconds > least[i] && moved_s > 0);
        }
}

/* Measured up to 2,048 tokens: twice as long, 8 heads are what 16 are there; the closed form, of no
 * half length here, is in proportion to the square. */
static void test_longer_than_measured(void **state) {
    (void)state;
    static const float log_ratio[] = { 0.8f, 0.4f, 0.1f, 0.6f, 0.3f, 0 };
    const struct attention_curve curve = {
        .head_dim = 128,
        .causal = true,
        .efficiency = 0.5,
        .correction = { .axis_count = 3,
                        .axes = { { 2, { 10, 11 } }, { 3, { 3, 4, 5 } }, { 1, { 0 } } },
                        .log_ratio = log_ratio },
    };
    const struct attention_curves all = { .curves = &curve, .has = { false, true } };
    static const struct {
        int64_t heads;
        double length, log_ratio;
        bool inside;
    } cases[] = {
        { 8, 1024, 0.8, true },  { 8, 2048, 0.6, true },       { 16, 2048, 0.3, true },
        { 8, 4096, 0.3, false }, { 8, 2896.309, 0.45, false }, { 16, 8192, 0, false },
        { 32, 4096, 0, false },  { 8, 65536, 0, false },       { 4, 4096, 0.6, false },
        { 8, 512, 0.8, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double length = cases[i].length;
        const struct operator_work work =
            operator_attention("attention", PASS_FORWARD, PRECISION_BF16, length, length * length,
                               cases[i].heads, cases[i].heads, 128, true);
        struct kernel_terms terms;
        const struct attention_curve *nearest;
        const double got = attention_kernel_s(&all, 1e12, 1e15, &work, &terms, &nearest);
        expect("time", got, work.flop / 0.5e12 * exp(cases[i].log_ratio), 1e-5);
        if (terms.inside_range != cases[i].inside) fail_msg("row %zu: inside", i);
    }
}

/* Kernels are compiled for a few head sizes: a size between them takes the time of the next one, by
 * the curve of that kernel if there is one. */
static void test_head_sizes_between(void **state) {
    (void)state;
    static const struct attention_curve curves[] = {
        { .head_dim = 64, .efficiency = 0.4 },
        { .head_dim = 80, .efficiency = 0.5 },
        { .head_dim = 128, .efficiency = 0.6 },
        { .head_dim = 256, .efficiency = 0.7 },
    };
    const struct attention_curves some = { .curves = curves,
                                           .has = { true, false },
                                           .last = { 3, 0 } };
    const struct attention_curves two = { .curves = curves,
                                          .has = { true, false },
                                          .last = { 0, 0 } };
    static const struct {
        bool all;
        int64_t head_dim, timed;
        double efficiency;
    } cases[] = {
        { true, 64, 64, 0.4 },   { true, 48, 64, 0.4 },  { true, 80, 80, 0.5 },
        { true, 72, 80, 0.5 },   { true, 96, 80, 0.5 },  { true, 104, 128, 0.6 },
        { true, 128, 128, 0.6 }, { true, 160, 160, 0 },  { true, 240, 256, 0.7 },
        { true, 320, 320, 0.7 }, { false, 48, 64, 0.4 }, { false, 88, 96, 0.4 },
        { true, 24, 32, 0.4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct operator_work work =
            operator_attention("attention", PASS_FORWARD, PRECISION_BF16, 4096, 4096.0 * 4096, 16,
                               16, cases[i].head_dim, false);
        struct kernel_terms terms;
        const struct attention_curve *nearest;
        const double got =
            attention_kernel_s(cases[i].all ? &some : &two, 1e12, 1e15, &work, &terms, &nearest);
        const double padded = (double)cases[i].timed / (double)cases[i].head_dim;
        /* between two curves their times mix */
        const double efficiency =
            cases[i].timed == 160 ? 1 / (0.75 / 0.6 + 0.25 / 0.7) : cases[i].efficiency;
        expect("time", got, work.flop * padded / (efficiency * 1e12), 1e-9);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordered_factor), cmocka_unit_test(test_longer_than_measured),
        cmocka_unit_test(test_modes),          cmocka_unit_test(test_dropout_of_head_sizes),
        cmocka_unit_test(test_named_kernels),  cmocka_unit_test(test_head_sizes_between),
        cmocka_unit_test(test_ordered_masks),  cmocka_unit_test(test_single_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
