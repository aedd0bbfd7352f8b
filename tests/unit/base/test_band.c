/* test_band.c - bands with two sides, and what they read like. */
#include "sim/base/band.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <cmocka.h>

static void test_text(void **state) {
    (void)state;
    static const struct {
        struct band band;
        const char *sign;
        int decimals;
        const char *want;
    } cases[] = {
        { { 0.344, 0.344 }, "+- ", 0, "+- 34" },
        { { 0.3441, 0.3449 }, "", 0, "34" }, /* the same as far as it is shown */
        { { 0.3441, 0.3449 }, "", 2, "-34.41/+34.49" },
        { { 0.18, 0.91 }, "+- ", 0, "-18/+91" },
        { { 0.184, 0.909 }, "+-", 1, "-18.4/+90.9" },
        { { 0.5, 1e300 }, "", 0, "-50/+1e+302" },
        { { NAN, 0.2 }, "+- ", 0, "-" },
        { { 0.2, NAN }, "+- ", 0, "-" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(band_text(cases[i].band, cases[i].sign, cases[i].decimals).text,
                            cases[i].want);
}

static void test_sides(void **state) {
    (void)state;
    const struct band wide = band_wider(band_even(0.2), (struct band){ 0.1, 0.9 });
    assert_true(wide.below == 0.2 && wide.above == 0.9);
    assert_true(band_half_width((struct band){ 0.1, 0.9 }) == 0.5);
    const struct band rate = band_of_inverse((struct band){ 0.2, 1 });
    assert_true(rate.below == 0.5 && fabs(rate.above - 0.25) < 1e-15);
    assert_false(band_is_known(band_of_inverse(band_even(1))));
    assert_true(band_even(7.2).below == 1 && band_even(7.2).above == 7.2);
    assert_string_equal(band_text(band_even(7.2), "+- ", 0).text, "-100/+720");
    assert_true(!band_is_known(band_of_inverse(band_even(NAN))));
    const struct band_log ends = band_log((struct band){ 0.5, 3 });
    assert_true(fabs(ends.middle - log(2) / 2) < 1e-15 && fabs(ends.half - 1.5 * log(2)) < 1e-15);
    assert_false(isfinite(band_log(band_even(1)).half));
    /* What is not known is not wider. */
    const struct band middle = band_between(band_even(0.1), (struct band){ 0.4, 0.9 });
    assert_float_equal(middle.below, 0.2, 1e-6);
    assert_float_equal(middle.above, 0.3, 1e-6);
    assert_false(band_is_known(band_between(band_even(NAN), band_even(0.1))));
    const struct band known = band_wider(band_even(NAN), (struct band){ 0.1, 0.9 });
    assert_true(known.below == 0.1 && known.above == 0.9);
    assert_true(band_wider(band_even(0.4), (struct band){ 1.8, 2.8 }).below == 1);
    assert_false(band_is_known(band_even(NAN)));
    const struct band old = band_of_stored(NAN, 0.3), new = band_of_stored(0.1, 0.3);
    assert_true(old.below == 0.3 && old.above == 0.3 && new.below == 0.1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_text), cmocka_unit_test(test_sides) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
