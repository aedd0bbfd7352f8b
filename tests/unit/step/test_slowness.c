/* test_slowness.c - a slower device hides launches that it waited for, by hand. */
#include "tests/unit/step/step_fixture.h"

static void test_slow_device(void **state) {
    (void)state;
    static const struct {
        const char *name;
        struct pass_times before;
        double factor;
        enum launch_hiding hiding;
        struct pass_times after;
    } cases[] = {
        { "nothing waits", { 10, 20, 0, 0 }, 3, LAUNCHES_HIDE_IN_BOTH, { 30, 60, 0, 0 } },
        { "all of it hidden", { 10, 50, 0, 30 }, 1.5, LAUNCHES_HIDE_IN_BOTH, { 15, 45, 0, 15 } },
        { "more than hidden", { 10, 50, 0, 30 }, 3, LAUNCHES_HIDE_IN_BOTH, { 30, 60, 0, 0 } },
        { "pass by pass", { 12, 50, 2, 30 }, 1.5, LAUNCHES_HIDE_IN_EACH, { 15, 50, 0, 20 } },
        { "what is over in forward",
          { 12, 50, 2, 30 },
          1.5,
          LAUNCHES_HIDE_IN_BOTH,
          { 15, 47, 0, 17 } },
        { "each kernel is waited for",
          { 12, 50, 2, 30 },
          1.5,
          LAUNCHES_NEVER_HIDE,
          { 17, 60, 2, 30 } },
        { "a faster device that waits",
          { 12, 50, 2, 30 },
          0.5,
          LAUNCHES_HIDE_IN_BOTH,
          { 12, 50, 7, 40 } },
        { "one that does not", { 10, 20, 0, 0 }, 0.5, LAUNCHES_HIDE_IN_BOTH, { 5, 10, 0, 0 } },
        { "forward alone", { 12, 0, 2, 0 }, 1.1, LAUNCHES_HIDE_IN_BOTH, { 12, 0, 1, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pass_times got = cases[i].before;
        const struct pass_times *want = &cases[i].after;
        pass_times_slow(&got, cases[i].factor, cases[i].hiding);
        if (memcmp(&got, want, sizeof got) != 0)
            fail_msg("%s: %ld + %ld ns, waits %ld + %ld", cases[i].name, (long)got.forward_ns,
                     (long)got.backward_ns, (long)got.forward_wait_ns, (long)got.backward_wait_ns);
    }
}

/* A job that waits for launches alone takes no longer on a slow GPU, until the GPU is the slower of
 * the two. */
static void test_slow_gpu_of_a_stage(void **state) {
    (void)state;
    static const char *const setups[][7] = {
        { "model=llama3-8b", "layout.backend=deepspeed", "layout.stack=hf-deepspeed",
          "layout.zero_stage=1", NULL },
        { "model=llama3-8b", "layout.backend=deepspeed", "layout.stack=none", "layout.zero_stage=1",
          NULL },
    };
    for (size_t k = 0; k < 2; k++) {
        struct step_fixture f;
        struct random_mt mt;
        random_mt_seed(&mt, 1);
        fixture_open(&f, setups[k]);
        fixture_plan(&f, &mt, "1f1b");
        struct batch_shape shape = model_batch_shape(f.scenario->model, 1, 0, 64, 64.0 * 64.0);
        price_table_prepare(f.prices, &shape, 1);
        struct step_runner *runner = step_runner_create(f.step);
        int64_t makespan_ns[2];
        struct error err = { 0 };
        for (int slow = 0; slow < 2; slow++) {
            const struct step_slowness slowness = { .rank = 1,
                                                    .stage_factor = slow ? 1.25 : 1,
                                                    .link_factor = 1,
                                                    .stage = 0,
                                                    .link_stage = -1 };
            struct rank_outcome outcome;
            step_runner_slow(runner, &slowness);
            if (!step_run_rank(runner, FIDELITY_STAGE, &shape, 1, &outcome, &err))
                fail_msg("%s", err.text);
            makespan_ns[slow] = outcome.makespan_ns;
        }
        const double grown = (double)makespan_ns[1] / (double)makespan_ns[0];
        if (k == 0 ? grown > 1.1 : grown < 1.22 || grown > 1.28)
            fail_msg("%s: %.3f times as long", setups[k][2], grown);
        step_runner_destroy(runner);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_slow_device),
                                        cmocka_unit_test(test_slow_gpu_of_a_stage) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
