/* test_offload.c - what a copy leaves exposed, by hand. */
#include "tests/unit/step/step_fixture.h"

static void test_exposed(void **state) {
    (void)state;
    /* 1 ms forward, 2 ms backward, 0.5 ms of recomputed attention, at 20 GB/s */
    const struct layer_time block = { .forward_ns = 1000000,
                                      .backward_ns = 2000000,
                                      .recompute_ns = { 0, 1000000, 500000 } };
    const struct layer_time frozen = { .forward_ns = 1000000 };
    static const struct {
        const char *name;
        double bytes;
        bool frozen;
        enum recompute_kind how;
        int64_t window, forward_ns, backward_ns;
    } cases[] = {
        { "nothing to copy", 0, false, RECOMPUTE_NONE, 1, 0, 0 },
        { "hidden", 20e6, false, RECOMPUTE_NONE, 1, 0, 0 },
        { "hidden behind backward only", 30e6, false, RECOMPUTE_NONE, 1, 500000, 0 },
        { "exposed in both", 50e6, false, RECOMPUTE_NONE, 1, 1500000, 500000 },
        { "recomputed attention hides too", 50e6, false, RECOMPUTE_SELECTIVE, 1, 1500000, 0 },
        { "a whole forward again", 60e6, false, RECOMPUTE_FULL, 1, 2000000, 0 },
        { "beside two blocks", 50e6, false, RECOMPUTE_NONE, 2, 500000, 0 },
        { "no backward, nothing kept", 50e6, true, RECOMPUTE_NONE, 1, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct offload_time got =
            offload_time(cases[i].bytes, 20e9, cases[i].frozen ? &frozen : &block, cases[i].how,
                         cases[i].window);
        if (got.forward_ns != cases[i].forward_ns || got.backward_ns != cases[i].backward_ns)
            fail_msg("%s: got %ld and %ld ns", cases[i].name, (long)got.forward_ns,
                     (long)got.backward_ns);
    }
}

/* Copies take turns beside all blocks of the part: 126 blocks for 92 copies are two for each of the
 * first 34. */
static void test_windows_fill_the_part(void **state) {
    (void)state;
    static const int64_t cases[][2] = { { 80, 40 }, { 80, 20 }, { 126, 92 }, { 24, 24 }, { 7, 3 } };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < cases[k][1]; i++)
            sum += offload_window(cases[k][0], cases[k][1], i);
        assert_int_equal(sum, cases[k][0]);
    }
    assert_int_equal(offload_window(80, 40, 39), 2);
    assert_int_equal(offload_window(126, 92, 33), 2);
    assert_int_equal(offload_window(126, 92, 34), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_exposed),
                                        cmocka_unit_test(test_windows_fill_the_part) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
