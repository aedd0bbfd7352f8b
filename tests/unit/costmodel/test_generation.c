/* test_generation.c - what a GPU's name tells of its make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "costmodel/generation.h"

static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *gpu;
        enum gpu_generation want;
    } cases[] = {
        { "v100-32g-sxm", GENERATION_VOLTA },
        { "a100-80g-pcie", GENERATION_AMPERE },
        { "a800-80g-sxm", GENERATION_AMPERE },
        { "l40s-48g-pcie", GENERATION_ADA },
        { "h20-96g", GENERATION_HOPPER },
        { "gh200-96g", GENERATION_HOPPER },
        { "b300-288g-sxm", GENERATION_BLACKWELL },
        { "gb200-186g-nvl72", GENERATION_BLACKWELL },
        { "h100", GENERATION_HOPPER },
        { "my-gpu", GENERATION_UNKNOWN },
        { "g4dn", GENERATION_UNKNOWN },
        { "", GENERATION_UNKNOWN },
        { "g", GENERATION_UNKNOWN },
        { "mi300x", GENERATION_UNKNOWN },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (gpu_generation_of(cases[i].gpu) != cases[i].want)
            fail_msg("%s: %d", cases[i].gpu, (int)gpu_generation_of(cases[i].gpu));
}

/* A letter is a make, with Grace or without; more is the beginning of a name. */
static void test_beginnings(void **state) {
    (void)state;
    static const struct {
        const char *gpu, *beginnings;
        bool want;
    } cases[] = {
        { "h100-80g-sxm", "h", true },         { "gh200-96g", "h", true },
        { "gh200-96g", "gh", true },           { "h200-141g-sxm", "gh", false },
        { "gb200-186g-nvl72", "b", true },     { "gb200-186g-nvl72", "h", false },
        { "gb200-186g-nvl72", "b200", false }, { "b200-180g-sxm", "b200", true },
        { "a100-80g-sxm", "h", false },        { "my-gpu", "", true },
        { "a100-80g-sxm", "v a h", true },     { "gb200-186g-nvl72", "v a h", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (gpu_is_among(cases[i].gpu, cases[i].beginnings) != cases[i].want)
            fail_msg("%s, \"%s\"", cases[i].gpu, cases[i].beginnings);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_beginnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
