/* test_stack_pool.c - fitted factors drawn to their stack's mean and to what is usual elsewhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sim/study/measured/stack_pool.h"

#define ROW    (STACK_POOL_ROW_WIDTH * STACK_POOL_ROW_WIDTH)
#define FACTOR (STACK_POOL_FACTOR_WIDTH * STACK_POOL_FACTOR_WIDTH)
#define STACK  (STACK_POOL_STACK_WIDTH * STACK_POOL_STACK_WIDTH)

static const struct stack own = { .name = "own" }, other = { .name = "other" },
                          third = { .name = "third" },
                          place = { .name = "place", .one_place = true },
                          borrower = { .name = "borrower", .borrows = true };

static struct stack_fit_group group_of(const struct stack *stack, const char *gpu,
                                       enum precision precision, int64_t rows) {
    return (struct stack_fit_group){ .stack = stack,
                                     .factor = { .gpu = gpu, .precision = precision },
                                     .row_count = rows };
}

static void assert_pooled(const struct stack_fit_group *groups, int64_t count, const double *fitted,
                          const double *want) {
    struct arena *arena = arena_create();
    const double *got = stack_pool(arena, groups, count, fitted);
    for (int64_t g = 0; g < count; g++)
        if (fabs(got[g] - want[g]) > 1e-12)
            fail_msg("group %ld of %ld: %.15g, want %.15g", (long)g, (long)count, got[g], want[g]);
    arena_destroy(arena);
}

/* A factor with nothing beside it keeps what its rows say, however few. */
static void test_alone(void **state) {
    (void)state;
    const struct stack_fit_group group = group_of(&own, "h100", PRECISION_BF16, 1);
    const double fitted = 0.3;
    assert_pooled(&group, 1, &fitted, &fitted);
}

/* Two of one stack meet by what each keeps; the one of more rows keeps more. */
static void test_one_stack(void **state) {
    (void)state;
    const struct stack_fit_group groups[] = { group_of(&own, "h100", PRECISION_BF16, 1),
                                              group_of(&own, "h100", PRECISION_FP8, 4) };
    const double fitted[] = { 0.3, -0.1 },
                 keeps[] = { 1 / (1 + ROW / FACTOR), 4 / (4 + ROW / FACTOR) };
    const double mean = (keeps[0] * 0.3 + keeps[1] * -0.1) / (keeps[0] + keeps[1]);
    const double want[] = { keeps[0] * 0.3 + (1 - keeps[0]) * mean,
                            keeps[1] * -0.1 + (1 - keeps[1]) * mean };
    assert_pooled(groups, 2, fitted, want);
}

/* Beside other stacks each is drawn to the median of theirs on GPUs of its kind and precision; one
 * that stands for a place stays, and draws, and so does one whose factors were borrowed before. */
static void test_other_stacks(void **state) {
    (void)state;
    const struct stack_fit_group groups[] = {
        group_of(&own, "h100", PRECISION_BF16, 2),   group_of(&other, "h200", PRECISION_BF16, 1),
        group_of(&third, "a100", PRECISION_BF16, 1), /* another generation */
        group_of(&place, "h100", PRECISION_BF16, 1), group_of(&borrower, "h800", PRECISION_BF16, 1),
    };
    const double fitted[] = { 0.2, 0.0, 0.6, 0.1, -0.3 };
    const double two = 2 / (2 + ROW / STACK), one = 1 / (1 + ROW / STACK);
    const double want[] = {
        two * 0.2 + (1 - two) * 0.0,  /* of 0, 0.1 and -0.3 */
        one * 0.0 + (1 - one) * 0.1,  /* of 0.2, 0.1 and -0.3 */
        one * 0.6 + (1 - one) * 0.05, /* no other A100: of 0.2, 0, 0.1 and -0.3 */
        0.1,
        one * -0.3 + (1 - one) * 0.1, /* of 0.2, 0 and 0.1 */
    };
    assert_pooled(groups, 5, fitted, want);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_one_stack),
        cmocka_unit_test(test_other_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
