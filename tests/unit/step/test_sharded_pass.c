/* test_sharded_pass.c - gathers and reductions beside compute, against hand-drawn timelines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim/step/sharded_pass.h"

static const struct {
    const char *name;
    struct sharded_unit units[3];
    int64_t count, root_gather_ns, root_reduce_ns;
    struct sharded_unit first, last;
    int64_t want_forward_ns, want_backward_ns;
} cases[] = {
    { "nothing sharded",
      { { 10, 20, 0, 0, 0 }, { 10, 20, 0, 0, 0 } },
      2,
      0,
      0,
      { 1, 2, 0, 0, 0 },
      { 3, 4, 0, 0, 0 },
      1 + 20 + 3,
      4 + 40 + 2 },
    /* only the first gather is exposed; in backward also the last reduction */
    { "compute bound",
      { { 10, 20, 4, 5, 4 }, { 10, 20, 4, 5, 4 }, { 10, 20, 4, 5, 4 } },
      3,
      0,
      0,
      { 0 },
      { 0 },
      4 + 30,
      4 + 60 + 5 },
    /* the network never rests: three gathers, then the last unit's compute */
    { "network bound",
      { { 1, 2, 10, 0, 10 }, { 1, 2, 10, 0, 10 }, { 1, 2, 10, 0, 10 } },
      3,
      0,
      0,
      { 0 },
      { 0 },
      31,
      32 },
    /* root: gathered before anything computes, reduced after everything */
    { "root unit",
      { { 10, 20, 0, 0, 0 } },
      1,
      7,
      9,
      { 2, 3, 0, 0, 0 },
      { 4, 5, 0, 0, 0 },
      7 + 2 + 10 + 4,
      5 + 20 + 3 + 9 },
    /* a chunked head gathers for itself, and the first block after it comes on the same network */
    { "head gathers",
      { { 10, 20, 4, 5, 4 } },
      1,
      0,
      0,
      { 0 },
      { 3, 4, 6, 0, 6 },
      4 + 10 + 6 + 3,
      6 + 4 + 20 + 5 },
    /* ZeRO-2: reductions behind the backwards, the last one sticks out */
    { "gradients only",
      { { 10, 20, 0, 6, 0 }, { 10, 20, 0, 6, 0 } },
      2,
      0,
      0,
      { 0 },
      { 0 },
      20,
      46 },
    /* the second gather waits until the unit two before it is done */
    { "two ahead",
      { { 100, 0, 1, 0, 1 }, { 100, 0, 1, 0, 1 }, { 100, 0, 150, 0, 150 } },
      3,
      0,
      0,
      { 0 },
      { 0 },
      101 + 150 + 100,
      150 + 1 + 1 },
    /* a frozen encoder is not gathered for a backward that it does not have */
    { "frozen first",
      { { 10, 0, 40, 0, 0 }, { 10, 0, 40, 0, 0 }, { 10, 20, 4, 5, 4 } },
      3,
      0,
      0,
      { 0 },
      { 0 },
      40 + 40 + 10 + 10,
      4 + 20 + 5 },
};

static void test_passes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sharded_pass pass = {
            cases[i].units,          cases[i].count,          cases[i].first, cases[i].last,
            cases[i].root_gather_ns, cases[i].root_reduce_ns, false
        };
        int64_t forward = sharded_forward_ns(&pass), backward = sharded_backward_ns(&pass);
        if (forward != cases[i].want_forward_ns || backward != cases[i].want_backward_ns)
            fail_msg("%s: got %ld and %ld ns, want %ld and %ld", cases[i].name, (long)forward,
                     (long)backward, (long)cases[i].want_forward_ns,
                     (long)cases[i].want_backward_ns);
    }
}

/* On the compute's stream reductions add to the backward; gathers stay beside it. */
static void test_reduces_alone(void **state) {
    (void)state;
    const struct sharded_unit units[] = { { 10, 20, 0, 6, 0 }, { 10, 20, 0, 6, 0 } };
    struct sharded_pass pass = { .units = units, .unit_count = 2, .root_reduce_ns = 9 };
    assert_int_equal(sharded_backward_ns(&pass), 46 + 9);
    pass.reduces_alone = true;
    assert_int_equal(sharded_backward_ns(&pass), 40 + 12 + 9);
    assert_int_equal(sharded_forward_ns(&pass), 20);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_passes),
                                        cmocka_unit_test(test_reduces_alone) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
