/* test_shared_resource.c - the fluid model by itself: who ends when, from answers worked by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim/engine/shared_resource.h"

struct flow_case {
    int64_t arrival_ns;
    double rate;
    int64_t duration_ns;
    int64_t want_finish_ns;
};

static const struct {
    const char *name;
    int32_t count;
    struct flow_case flows[10]; /* by arrival */
    int64_t want_busy_ns;
} cases[] = {
    { "alone", 1, { { 5, 1.0, 100, 105 } }, 100 },
    { "alone, below full rate", 1, { { 0, 0.3, 100, 100 } }, 100 },
    { "alone, long", 1, { { 0, 0.7, 4000000000000001, 4000000000000001 } }, 4000000000000001 },
    /* each gets 1/2 */
    { "two equal flows", 2, { { 0, 1.0, 100, 200 }, { 0, 1.0, 100, 200 } }, 200 },
    /* each gets 1/3, whose double is not exact */
    { "three equal flows",
      3,
      { { 0, 1.0, 100, 300 }, { 0, 1.0, 100, 300 }, { 0, 1.0, 100, 300 } },
      300 },
    /* 1/4 + 1/2 fit: nobody is held back */
    { "room for both", 2, { { 0, 0.25, 100, 100 }, { 0, 0.5, 70, 70 } }, 100 },
    /* A keeps its 1/4; B gets 3/4, has 25 left at 100, then runs alone */
    { "cap of one leaves more to the other",
      2,
      { { 0, 0.25, 100, 100 }, { 0, 1.0, 100, 125 } },
      125 },
    /* A alone until 40, has 60 left, ends at 40 + 2 x 60; B has 40 left then */
    { "staggered arrival", 2, { { 0, 1.0, 100, 160 }, { 40, 1.0, 100, 200 } }, 200 },
    /* 0.2, 0.4, 0.4: A ends at 100, B has 20 left, C 60; then 0.5 each: B ends at 120, C has 50 */
    { "three rates", 3, { { 0, 0.2, 100, 100 }, { 0, 0.5, 100, 120 }, { 0, 1.0, 100, 170 } }, 170 },
    /* 0.5 each: B at speed 5/7 ends at 7, A has 1.5 left: 8.5, rounded up */
    { "ends are rounded up", 2, { { 0, 1.0, 5, 9 }, { 0, 0.7, 5, 7 } }, 9 },
    { "nothing to do", 2, { { 0, 1.0, 50, 50 }, { 10, 1.0, 0, 10 } }, 50 },
    /* idle from 10 to 30 */
    { "idle in between", 2, { { 0, 1.0, 10, 10 }, { 30, 1.0, 10, 40 } }, 20 },
    /* ten times the double next to 0.1 fill the resource without holding anyone back */
    { "tenths",
      10,
      { { 0, 0.1, 1000000000, 1000000000 },
        { 0, 0.1, 1000000000, 1000000000 },
        { 0, 0.1, 1000000000, 1000000000 },
        { 0, 0.1, 1000000000, 1000000000 },
        { 0, 0.1, 1000000000, 1000000000 },
        { 0, 0.1, 1000000000, 1000000000 },
        { 0, 0.1, 1000000000, 1000000000 },
        { 0, 0.1, 1000000000, 1000000000 },
        { 0, 0.1, 1000000000, 1000000000 },
        { 0, 0.1, 1000000000, 1000000000 } },
      1000000000 },
    /* Left of A, B, C, D: at 10: 6, 12, 18; at 11: 5 2/3, 11 2/3, 17 2/3, 2; at 19, where D ends:
     * 3 2/3, 9 2/3, 15 2/3; at 30, where A ends: 6, 12; at 42: 6. The thirds are not exact. */
    { "whole nanoseconds out of thirds",
      4,
      { { 0, 1.0, 14, 30 }, { 6, 1.0, 14, 42 }, { 10, 1.0, 18, 48 }, { 11, 1.0, 2, 19 } },
      48 },
    /* A alone for 10; A and B 1/2 each for 20: A done 20, B 10; all 1/3 for 30: A ends (30 done) at
     * 60, B 20, C 10; B and C 1/2 each for 20: B ends at 80; C has 10 left */
    { "a staircase", 3, { { 0, 1.0, 30, 60 }, { 10, 1.0, 30, 80 }, { 30, 1.0, 30, 90 } }, 90 },
};

static void run_case(struct shared_resource *resource, size_t index, bool backwards,
                     int64_t *finish_ns) {
    const struct flow_case *flows = cases[index].flows;
    int32_t count = cases[index].count;
    int32_t arrived = 0, ended = 0;
    int64_t end_ns = INT64_MAX;
    shared_resource_clear(resource);
    while (ended < count) {
        int64_t arrival_ns = arrived < count ? flows[arrived].arrival_ns : INT64_MAX;
        int64_t now_ns = arrival_ns < end_ns ? arrival_ns : end_ns;
        int32_t task;
        while (shared_resource_take(resource, now_ns, &task)) {
            finish_ns[task] = now_ns;
            ended++;
        }
        int32_t last = arrived;
        while (last < count && flows[last].arrival_ns == now_ns)
            last++;
        for (int32_t i = arrived; i < last; i++) {
            int32_t next = backwards ? arrived + last - 1 - i : i;
            shared_resource_add(resource, now_ns, next, flows[next].rate, flows[next].duration_ns);
        }
        arrived = last;
        end_ns = shared_resource_divide(resource, now_ns);
    }
    assert_int_equal(end_ns, INT64_MAX);
}

static void test_hand_worked_cases(void **state) {
    (void)state;
    struct shared_resource resource = { 0 };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        for (int backwards = 0; backwards < 2; backwards++) {
            int64_t finish_ns[10];
            run_case(&resource, c, backwards == 1, finish_ns);
            for (int32_t i = 0; i < cases[c].count; i++)
                if (finish_ns[i] != cases[c].flows[i].want_finish_ns)
                    fail_msg("%s: flow %d ends at %lld, want %lld", cases[c].name, i,
                             (long long)finish_ns[i], (long long)cases[c].flows[i].want_finish_ns);
            if (resource.busy_ns != cases[c].want_busy_ns)
                fail_msg("%s: busy for %lld, want %lld", cases[c].name, (long long)resource.busy_ns,
                         (long long)cases[c].want_busy_ns);
        }
    }
    shared_resource_free(&resource);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_hand_worked_cases) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
