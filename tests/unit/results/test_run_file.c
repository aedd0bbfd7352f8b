/* test_run_file.c - names, and what stands behind paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "results/run_file.h"

#define SCENARIO(model, hardware)                                                                  \
    "{\"model\":{\"name\":\"" model "\"},\"dataset\":{\"name\":\"d.csv\"},\"cluster\":{"           \
    "\"hardware\":\"" hardware "\"},\"layout\":{\"stack\":\"none\"}}"
#define INPUTS(model, data)                                                                        \
    "[{\"kind\":\"model\",\"name\":\"/m\",\"sha256\":\"" model "\"},"                              \
    "{\"kind\":\"model\",\"name\":\"/part\",\"sha256\":\"ff\"},"                                   \
    "{\"kind\":\"data set\",\"name\":\"d.csv\",\"content\":\"" data "\"}]"

static void test_same(void **state) {
    (void)state;
    static const struct {
        struct run_record a, b;
        enum run_file which;
        bool same;
    } cases[] = {
        { { .resolved_scenario = SCENARIO("m.json", "h100"), .inputs = INPUTS("aa", "1") },
          { .resolved_scenario = SCENARIO("m.json", "h100"), .inputs = INPUTS("bb", "1") },
          RUN_FILE_MODEL,
          false },
        { { .resolved_scenario = SCENARIO("m.json", "h100"), .inputs = INPUTS("aa", "1") },
          { .resolved_scenario = SCENARIO("m.json", "h100"), .inputs = INPUTS("aa", "2") },
          RUN_FILE_MODEL,
          true },
        { { .resolved_scenario = SCENARIO("m.json", "h100"), .inputs = INPUTS("aa", "1") },
          { .resolved_scenario = SCENARIO("m.json", "h100"), .inputs = INPUTS("aa", "2") },
          RUN_FILE_DATA,
          false },
        /* What is not told is no difference. */
        { { .resolved_scenario = SCENARIO("m.json", "h100"), .inputs = INPUTS("aa", "1") },
          { .resolved_scenario = SCENARIO("m.json", "h100") },
          RUN_FILE_MODEL,
          true },
        /* A name is of the shipped file, whichever version. */
        { { .resolved_scenario = SCENARIO("llama3.1-405b", "h100"), .inputs = INPUTS("aa", "1") },
          { .resolved_scenario = SCENARIO("llama3.1-405b", "h100"), .inputs = INPUTS("bb", "1") },
          RUN_FILE_MODEL,
          true },
        { { .resolved_scenario = SCENARIO("m.json", "h100"), .inputs = INPUTS("aa", "1") },
          { .resolved_scenario = SCENARIO("n.json", "h100"), .inputs = INPUTS("aa", "1") },
          RUN_FILE_MODEL,
          false },
        { { .resolved_scenario = SCENARIO("m", "my/g.json"), .profile_id = "g@1" },
          { .resolved_scenario = SCENARIO("m", "my/g.json"), .profile_id = "g@2" },
          RUN_FILE_HARDWARE,
          false },
        { { .resolved_scenario = SCENARIO("m", "h100"), .profile_id = "h100@1" },
          { .resolved_scenario = SCENARIO("m", "h100"), .profile_id = "h100@2" },
          RUN_FILE_HARDWARE,
          true },
        { { .resolved_scenario = SCENARIO("m", "h100") }, { 0 }, RUN_FILE_STACK, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (run_same_file(&cases[i].a, &cases[i].b, cases[i].which) != cases[i].same)
            fail_msg("case %zu", i);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_same) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
