/* test_operator_work.c - shapes to flop and bytes, by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "costmodel/operator_work.h"

static void test_matmul(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum operator_pass pass;
        enum precision precision;
        int64_t m, n, k;
        double flop, bytes;
    } cases[] = {
        { "forward bf16", PASS_FORWARD, PRECISION_BF16, 2, 3, 5, 60, 2 * (10 + 15 + 6) },
        { "input gradient", PASS_INPUT_GRADIENT, PRECISION_BF16, 4, 4, 4, 128, 96 },
        { "fp8", PASS_FORWARD, PRECISION_FP8, 2, 3, 5, 60,
          37 }, /* 10 + 15, and 6 results of 2 bytes */
        { "fp4", PASS_FORWARD, PRECISION_FP4, 2, 3, 5, 60, 0.5625 * 25 + 2 * 6 },
        { "fp4 weight", PASS_WEIGHT_GRADIENT, PRECISION_FP4, 2, 3, 5, 60, 0.5625 * 25 + 8 * 6 },
        { "weight gradient accumulates in fp32", PASS_WEIGHT_GRADIENT, PRECISION_BF16, 2, 3, 5, 60,
          2 * (10 + 15) + 8 * 6 },
        { "larger than 2^31", PASS_FORWARD, PRECISION_BF16, 100000, 100000, 100000, 2e15, 6e10 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct operator_work w = operator_matmul(
            cases[i].name, cases[i].pass, cases[i].precision, cases[i].m, cases[i].n, cases[i].k);
        if (w.flop != cases[i].flop || w.memory_bytes != cases[i].bytes)
            fail_msg("%s: got %g flop %g bytes, want %g and %g", cases[i].name, w.flop,
                     w.memory_bytes, cases[i].flop, cases[i].bytes);
    }
    struct operator_work once =
        operator_matmul("once", PASS_WEIGHT_GRADIENT, PRECISION_FP8, 2, 3, 5);
    operator_matmul_written_once(&once);
    assert_true(once.memory_bytes == 10 + 15 + 2 * 6);
}

static void test_attention(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum operator_pass pass;
        bool causal;
        double tokens, squares, flop, bytes;
    } cases[] = {
        /* 4 heads of 8, 2 key heads */
        { "one sample of 10", PASS_FORWARD, false, 10, 100, 12800, 2 * 640 + 2 * 320 + 160 },
        { "causal is half", PASS_FORWARD, true, 10, 100, 6400, 2 * 640 + 2 * 320 + 160 },
        { "backward", PASS_BACKWARD, false, 10, 100, 32000, 4 * 640 + 4 * 320 + 160 },
        { "two packed samples of 5", PASS_FORWARD, false, 10, 50, 6400, 2 * 640 + 2 * 320 + 160 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct operator_work w =
            operator_attention("attention", cases[i].pass, PRECISION_BF16, cases[i].tokens,
                               cases[i].squares, 4, 2, 8, cases[i].causal);
        if (w.flop != cases[i].flop || w.memory_bytes != cases[i].bytes)
            fail_msg("%s: got %g flop %g bytes, want %g and %g", cases[i].name, w.flop,
                     w.memory_bytes, cases[i].flop, cases[i].bytes);
    }
}

static void test_names_are_unique(void **state) {
    (void)state;
    for (int i = 0; i < OPERATOR_KIND_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(operator_kind_name((enum operator_kind)i),
                                    operator_kind_name((enum operator_kind)j));
    assert_string_equal(operator_pass_name(PASS_WEIGHT_GRADIENT), "weight gradient");
    assert_string_equal(precision_name(PRECISION_FP8), "fp8");
    assert_string_equal(communicator_kind_name(COMMUNICATOR_PIPELINE), "pipeline");
    assert_true(operator_is_collective(OPERATOR_SEND));
    assert_false(operator_is_collective(OPERATOR_OPTIMIZER));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_names_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
