/* test_file_place.c - what is a path, and what lies beside a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "sim/base/file_place.h"

#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static void test_paths(void **state) {
    (void)state;
    static const char *const paths[] = { "a.json", "b.csv.gz", "c/d", "/c", "./c" },
                             *const names[] = { "llama3.1-405b", "h100", ".json", "a.", "" };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (!file_is_path(paths[i])) fail_msg("%s is no path", paths[i]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (file_is_path(names[i])) fail_msg("%s is a path", names[i]);
}

static void test_beside(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    const char *const from = SCENARIOS "/models/any.json";
    assert_string_equal(file_beside(arena, from, "llama3-8b.json"),
                        SCENARIOS "/models/llama3-8b.json");
    assert_string_equal(file_beside(arena, from, "../bands.json"),
                        SCENARIOS "/models/../bands.json");
    assert_null(file_beside(arena, from, "none.json"));
    assert_null(file_beside(arena, from, "llama3-8b")); /* a name */
    assert_null(file_beside(arena, from, "../models")); /* a folder */
    assert_null(file_beside(arena, from, SCENARIOS "/bands.json"));
    assert_null(file_beside(arena, "any.json", "llama3-8b.json"));
    assert_null(file_beside(arena, NULL, "llama3-8b.json"));
    assert_null(file_beside(arena, from, NULL));
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_paths),
                                        cmocka_unit_test(test_beside) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
