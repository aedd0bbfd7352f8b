/* test_sequence_groups.c - groups that share a sequence: by hand, and against a transcription of
 * the published program's get_sp_groups() over the four real data sets. */
#include "tests/unit/policy/test_batch_tools.h"

/* Pairs of samples, in the order in which they were shuffled. */
static void sorted_joined_and_padded(void **state) {
    (void)state;
    static const uint32_t pairs[][2] = { { 1, 9 }, { 1, 7 }, { 1, 5 }, { 1, 2 },
                                         { 1, 8 }, { 1, 6 }, { 1, 3 }, { 1, 4 } };
    static const struct {
        int64_t sp, groups, repeated;
    } cases[] = { { 1, 4, 0 }, { 2, 2, 0 }, { 3, 2, 4 }, { 7, 1, 6 } };
    struct small_dataset small;
    small_dataset_make(&small, pairs, 8);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char json[96];
        snprintf(
            json, sizeof json,
            "{\"qv\": 2, \"qt\": 64, \"iterations\": 1, \"sampler\": \"shuffle\", \"sp\": %ld}",
            (long)cases[i].sp);
        struct batch_request request = {
            .dataset = &small.dataset, .dp = 1, .micro_batch = 1, .seed = 1024
        };
        struct batch_plan plan;
        plan_make("isf", json, &request, &plan);
        plan_check(json, &plan);
        assert_int_equal(plan.group_count, cases[i].groups);
        assert_int_equal(plan.repeated_by_sampler, cases[i].repeated);
        assert_int_equal(plan.samples_packed, 8);
        int64_t before = 0;
        for (int64_t g = 0; g < plan.group_count && cases[i].sp > 1; g++) {
            /* Two samples a group: the parts of a joined one, each padded to the longest. */
            int64_t longest = 0, sum = 0;
            for (uint32_t k = plan.starts[g]; k < plan.starts[g + 1]; k += 2) {
                int64_t part = small.samples[plan.samples[k]].language_tokens +
                               small.samples[plan.samples[k + 1]].language_tokens;
                assert_true(part >= before); /* ascending over all */
                before = part;
                longest = part;
                sum += part;
            }
            assert_int_equal(plan.padded_tokens[g], cases[i].sp * longest);
            assert_true(plan.padded_tokens[g] >= sum);
        }
        batch_plan_free(&plan);
    }
}

/* SHA-256 of the groups that the program makes of the same packed groups (sp_num 4, Qv 9, Qt
 * 4096). */
static void as_the_published_program(void **state) {
    (void)state;
    struct error err = { 0 };
    struct dataset *dataset =
        dataset_load(BALLAST_SOURCE_DIR "/scenarios", "omnibal-real", NULL, &err);
    if (dataset == NULL) fail_msg("omnibal-real: %s", err.text);
    struct batch_request request = { .dataset = dataset, .dp = 8, .micro_batch = 1, .seed = 1024 };
    struct batch_plan plan;
    plan_make("isf", "{\"sp\": 4}", &request, &plan);
    plan_check("omnibal-real", &plan);
    char hash[65];
    plan_sha256(&plan, hash);
    assert_int_equal(plan.group_count, 10710);
    assert_string_equal(hash, "00e0b9d70442f5498663b5d147255b02a787a641d37435f001f35e1df305326d");
    int64_t padded = 0, tokens = 0;
    for (int64_t g = 0; g < plan.group_count; g++)
        padded += plan.padded_tokens[g];
    for (uint32_t i = 0; i < plan.starts[plan.group_count]; i++)
        tokens += dataset->samples[plan.samples[i]].language_tokens;
    assert_int_equal(padded, 80294424);
    assert_int_equal(tokens, 80290669); /* two groups twice */
    batch_plan_free(&plan);
    dataset_destroy(dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorted_joined_and_padded),
        cmocka_unit_test(as_the_published_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
