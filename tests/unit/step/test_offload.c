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
        int64_t forward_ns, backward_ns;
    } cases[] = {
        { "nothing to copy", 0, false, RECOMPUTE_NONE, 0, 0 },
        { "hidden", 20e6, false, RECOMPUTE_NONE, 0, 0 },
        { "hidden behind backward only", 30e6, false, RECOMPUTE_NONE, 500000, 0 },
        { "exposed in both", 50e6, false, RECOMPUTE_NONE, 1500000, 500000 },
        { "recomputed attention hides too", 50e6, false, RECOMPUTE_SELECTIVE, 1500000, 0 },
        { "a whole forward again", 60e6, false, RECOMPUTE_FULL, 2000000, 0 },
        { "no backward, nothing kept", 50e6, true, RECOMPUTE_NONE, 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct offload_time got = offload_time(cases[i].bytes, 20e9,
                                               cases[i].frozen ? &frozen : &block, cases[i].how);
        if (got.forward_ns != cases[i].forward_ns || got.backward_ns != cases[i].backward_ns)
            fail_msg("%s: got %ld and %ld ns", cases[i].name, (long)got.forward_ns,
                     (long)got.backward_ns);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_exposed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
