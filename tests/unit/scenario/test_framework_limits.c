/* test_framework_limits.c - what each framework refuses, said of a scenario under its own
 * backend. */
#include "sim/scenario/framework_limits.h"
#include "tests/unit/scenario/scenario_fixture.h"

static const struct {
    const char *set[6];
    const char *rule; /* NULL: it runs */
} cases[] = {
    { { "layout.backend=megatron-lm" }, NULL },
    { { "layout.backend=megatron-lm", "layout.pp=1", "layout.zero_stage=2" }, "backend-zero" },
    { { "layout.backend=megatron-lm", "layout.pp=1", "layout.zero_stage=3" }, "backend-zero" },
    { { "layout.backend=fsdp", "layout.pp=1", "layout.zero_stage=3" }, NULL },
    { { "layout.backend=fsdp", "layout.pp=1", "layout.zero_stage=2" }, NULL },
    { { "layout.backend=fsdp", "layout.pp=1", "layout.zero_stage=1" }, "backend-zero" },
    { { "layout.backend=fsdp", "layout.pp=2", "layout.zero_stage=1" }, "backend-zero" },
    { { "layout.backend=fsdp", "layout.pp=2" }, NULL }, /* full sharding beside it */
    { { "layout.backend=deepspeed", "layout.pp=1", "layout.zero_stage=3" }, NULL },
    { { "layout.backend=megatron-lm", "training.optimizer=sgd-momentum" }, "backend-optimizer" },
    { { "layout.backend=megatron-lm", "policy.schedule=gpipe" }, "backend-schedule" },
    { { "layout.backend=megatron-deepspeed", "policy.schedule=gpipe" }, "backend-schedule" },
    { { "layout.backend=megatron-deepspeed", "layout.vpp=2", "policy.schedule=interleaved" },
      "backend-schedule" },
    { { "layout.backend=megatron-lm", "layout.vpp=2", "policy.schedule=interleaved" }, NULL },
    { { "layout.backend=megatron-lm", "training.offload_blocks=2" }, "backend-offload" },
    { { "layout.backend=deepspeed", "layout.pp=1", "training.offload_blocks=2" },
      "backend-offload" },
    { { "layout.backend=megatron-deepspeed", "layout.cp=2" }, "backend-context" },
    { { "layout.backend=megatron-lm", "layout.cp=2" }, NULL },
    { { "layout.backend=megatron-lm", "layout.cp=2", "layout.cp_kind=gathered-ring" },
      "backend-context" },
    { { "layout.backend=fsdp", "layout.pp=1", "layout.cp=2", "layout.cp_kind=gathered-ring" },
      NULL },
    { { "layout.backend=megatron-deepspeed", "training.precision=fp8",
        "cluster.hardware=h100-80g-sxm" },
      "backend-precision" },
    { { "layout.backend=megatron-deepspeed", "layout.zero_group=1" }, "backend-zero" },
};

static void test_each_rule(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        struct scenario_options options = { .directory = BALLAST_SOURCE_DIR "/scenarios",
                                            .overrides = cases[i].set };
        struct scenario *s =
            scenario_load(&options, BALLAST_SOURCE_DIR "/tests/golden/input/small.json", &err);
        if (s == NULL) fail_msg("case %zu: %s", i, err.text);
        const char *rule = s->limit_rule;
        if ((rule == NULL) != (cases[i].rule == NULL) ||
            (rule != NULL && strcmp(rule, cases[i].rule) != 0))
            fail_msg("case %zu: got %s, want %s", i, rule, cases[i].rule);
        /* In the words that plan --emit refuses with, and as a warning. */
        struct framework_limit limits[FRAMEWORK_LIMIT_COUNT];
        const int64_t count =
            framework_limits(framework_of_backend(s->backend->name), s, s->arena, limits);
        assert_int_equal(count > 0, rule != NULL);
        if (count > 0) assert_non_null(strstr(s->limit, limits[0].text));
        bool said = false;
        for (int64_t k = 0; s->warnings[k] != NULL; k++)
            said = said || strstr(s->warnings[k], "cannot run this") != NULL;
        assert_int_equal(said, rule != NULL);
        scenario_destroy(s);
    }
}

static void test_frameworks(void **state) {
    (void)state;
    assert_int_equal(framework_of_backend("megatron-lm"), FRAMEWORK_MEGATRON);
    assert_int_equal(framework_of_backend("megatron-deepspeed"), FRAMEWORK_DEEPSPEED);
    assert_int_equal(framework_of_backend("deepspeed"), FRAMEWORK_DEEPSPEED);
    assert_int_equal(framework_of_backend("fsdp"), FRAMEWORK_FSDP);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_rule),
        cmocka_unit_test(test_frameworks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
