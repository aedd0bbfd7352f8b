/* test_scenario_key_names.c - the key that is meant by what other programs call it, or by one of
 * another section. */
#include "tests/unit/scenario/scenario_fixture.h"

#include "sim/scenario/scenario_fields.h"

static void test_hints(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum line line;
        const char *text, *want, *hint;
    } cases[] = {
        { "key as another program calls it", LAYOUT,
          "\"layout\": { \"tensor_model_parallel_size\": 2 }",
          "5:13: error: /layout/tensor_model_parallel_size: unknown key "
          "\"tensor_model_parallel_size\" in \"layout\"",
          "did you mean \"tp\"?" },
        { "before the nearest", CLUSTER, "\"cluster\": { \"gpus\": 8 }",
          "4:14: error: /cluster/gpus: unknown key \"gpus\" in \"cluster\"",
          "did you mean \"gpu_count\"?" },
        { "key of another section", LAYOUT, "\"layout\": { \"partition\": \"bmp\" }",
          "5:13: error: /layout/partition: unknown key \"partition\" in \"layout\"",
          "did you mean \"policy.partition\"?" },
        { "section left out", SIMULATE, "\"seed\": 1",
          "8:1: error: /seed: unknown key \"seed\" in \"scenario\"",
          "did you mean \"simulate.seed\"?" },
        { "key of several sections", LAYOUT, "\"layout\": { \"definition\": 4 }",
          "5:13: error: /layout/definition: unknown key \"definition\" in \"layout\"",
          "one of: backend, stack, tp, sp, tp_overlap, pp, vpp, cp, cp_kind, cp_heads, "
          "cp_balanced, dp, zero_stage, zero_group, overlap_gradient_reduce, "
          "overlap_parameter_gather" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        write_lines(cases[i].line, cases[i].text);
        if (load(NULL, &err) != NULL) fail_msg("%s: is accepted", cases[i].name);
        char want[512];
        snprintf(want, sizeof want, "s.json:%s", cases[i].want);
        check_message(cases[i].name, &err, want, cases[i].hint);
    }
}

/* A hint names a key that is there, and no name of it is a key of that section itself. */
static void test_usual_names(void **state) {
    (void)state;
    size_t count;
    const struct field_table *const *sections = scenario_sections(&count);
    const char *said;
    for (size_t i = 0; (said = scenario_usual_name(i)) != NULL; i++) {
        const char *of, *key;
        assert_true(scenario_key_meant(said, &of, &key));
        char first[64];
        snprintf(first, sizeof first, "%.*s", (int)strcspn(key, "."), key);
        bool there = false;
        for (size_t s = 0; s < count; s++) {
            if (strcmp(sections[s]->name, of) != 0) continue;
            there = field_table_find(sections[s], first) != NULL;
            if (strcmp(said, key) != 0 && field_table_find(sections[s], said) != NULL)
                fail_msg("%s is a key of %s", said, of);
        }
        if (!there) fail_msg("%s: there is no %s.%s", said, of, key);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_usual_names),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
