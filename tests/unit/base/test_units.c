/* test_units.c - seconds become nanoseconds once, rounded to the nearest. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim/base/units.h"

static void test_nanoseconds(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double seconds;
        int64_t want_ns;
    } cases[] = {
        { "zero", 0.0, 0 },
        { "half rounds up", 0.5e-9, 1 },
        { "below half", 0.49e-9, 0 },
        { "a tenth", 0.1, 100000000 },
        { "a year", 365.0 * SECONDS_PER_DAY, INT64_C(31536000000000000) },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t got_ns = ns_from_seconds(cases[i].seconds);
        if (got_ns != cases[i].want_ns)
            fail_msg("%s: got %ld ns, want %ld ns", cases[i].name, (long)got_ns,
                     (long)cases[i].want_ns);
    }
    assert_true(seconds_from_ns(ns_from_seconds(12.5)) == 12.5);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_nanoseconds) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
