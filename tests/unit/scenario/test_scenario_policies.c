/* test_scenario_policies.c - policies by name, their parameters, and what joint ones fill in. */
#include "tests/unit/scenario/scenario_fixture.h"

static void test_policy_parameters(void **state) {
    (void)state;
    struct scenario *s = load_valid(
        POLICY,
        "\"policy\": { \"batching\": { \"qv\": 12, \"name\": \"isf\" }, \"partition\": { \"name\": "
        "\"manual\", \"blocks\": [ 57, 12, 12, 12 ] }, \"recompute\": { \"name\": \"uniform\", "
        "\"blocks_per_stage\": 3 } }",
        (const char *const[]){ "policy.batching.qt=2048", NULL });
    assert_string_equal(s->batching.name, "isf");
    cJSON *resolved = scenario_resolved(s);
    char *policy = cJSON_PrintUnformatted(cJSON_GetObjectItem(resolved, "policy"));
    assert_string_equal(policy,
                        "{\"batching\":{\"name\":\"isf\",\"qv\":12,\"qt\":2048,"
                        "\"choose\":\"given\",\"target_batch_size\":4,\"vision_threshold\":null,"
                        "\"llm_threshold\":null,\"threshold_rule\":\"code\",\"leftovers\":\"keep\","
                        "\"iterations\":10,\"sp\":1,"
                        "\"rng\":\"numpy\",\"sampler\":\"block\",\"sampler_seed\":null},"
                        "\"partition\":{\"name\":\"manual\",\"blocks\":[57,12,12,12]},"
                        "\"recompute\":{\"name\":\"uniform\",\"blocks_per_stage\":3},"
                        "\"schedule\":{\"name\":\"1f1b\"}}");
    cJSON_free(policy);
    cJSON_Delete(resolved);
    scenario_destroy(s);
}

/* A joint policy fills the slots that the scenario leaves out; the resolved scenario says so and
 * means the same when it is read again. */
static void test_joint_policies(void **state) {
    (void)state;
    static const struct {
        const char *policy, *batching, *partition, *recompute, *schedule;
    } cases[] = {
        { "\"joint\": \"omnibal\"", "isf", "bmp", "adaptive", "1f1b" },
        { "\"joint\": \"omnibal\", \"partition\": \"layer\"", "isf", "layer", "adaptive", "1f1b" },
        { "\"batching\": \"random\", \"recompute\": \"full\", \"schedule\": \"gpipe\", "
          "\"joint\": { \"name\": \"omnibal\" }",
          "random", "bmp", "full", "gpipe" },
        { "", "random", "layer", "none", "1f1b" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256], resolved_text[2048];
        snprintf(text, sizeof text, "\"policy\": { %s }", cases[i].policy);
        struct scenario *s = load_valid(POLICY, text, NULL);
        for (int round = 0; round < 2; round++) {
            if (strcmp(s->batching.name, cases[i].batching) != 0 ||
                strcmp(s->partition.name, cases[i].partition) != 0 ||
                strcmp(s->recompute.name, cases[i].recompute) != 0 ||
                strcmp(s->schedule.name, cases[i].schedule) != 0)
                fail_msg("%s: got %s, %s, %s, %s", cases[i].policy, s->batching.name,
                         s->partition.name, s->recompute.name, s->schedule.name);
            assert_true((s->joint.row != NULL) == (cases[i].policy[0] != '\0'));
            cJSON *resolved = scenario_resolved(s);
            char *policy = cJSON_PrintUnformatted(cJSON_GetObjectItem(resolved, "policy"));
            snprintf(resolved_text, sizeof resolved_text, "\"policy\": %s", policy);
            cJSON_free(policy);
            cJSON_Delete(resolved);
            scenario_destroy(s);
            s = load_valid(POLICY, resolved_text, NULL);
        }
        scenario_destroy(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_policy_parameters),
        cmocka_unit_test(test_joint_policies),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
