/* test_amount.c - which unit a length or an amount of work is said in. */
#include "sim/base/amount.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <cmocka.h>

static void test_time(void **state) {
    (void)state;
    static const struct {
        double days, shown;
        const char *unit;
    } cases[] = {
        { 20.0 / 86400, 20, "seconds" }, { 6.0 / 1440, 6, "minutes" }, { 2.0 / 24, 2, "hours" },
        { 0.1, 0.1, "days" },            { 61.8, 61.8, "days" },       { NAN, NAN, "days" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct amount_unit unit = amount_of_days(cases[i].days);
        assert_string_equal(unit.name, cases[i].unit);
        if (!isnan(cases[i].days))
            assert_true(fabs(cases[i].days * unit.per_day - cases[i].shown) < 1e-9);
    }
}

static void test_work_and_money(void **state) {
    (void)state;
    assert_string_equal(amount_of_gpu_days(1.99).name, "GPU-hours");
    assert_true(fabs(amount_of_gpu_days(0.14).per_day * 0.14 - 3.36) < 1e-9);
    assert_string_equal(amount_of_gpu_days(2).name, "GPU-days");
    assert_int_equal(amount_money_decimals(6.97), 2);
    assert_int_equal(amount_money_decimals(2805), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_work_and_money),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
