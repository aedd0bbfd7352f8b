/* test_folder_names.c - sorted, of any number, without what editors and file systems leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "sim/base/folder_names.h"

enum { FILES = 300 };

static void path_of(char path[512], const char *folder, int file) {
    snprintf(path, 512, "%s/%03d.json", folder, file);
}

static void test_names(void **state) {
    (void)state;
    char folder[] = "/tmp/ballast-test-XXXXXX", path[512];
    assert_non_null(mkdtemp(folder));
    static const char *const others[] = { ".json", ".#a.json", "._a.json", "a.json~", "a.txt" };
    const size_t other_count = sizeof others / sizeof others[0];
    for (size_t i = 0; i < other_count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        fclose(fopen(path, "w"));
    }
    struct arena *arena = arena_create();
    int64_t count;
    const char **names = folder_names(arena, folder, ".json", &count);
    assert_int_equal(count, 0);
    assert_null(names[0]);
    for (int i = FILES - 1; i >= 0; i--) {
        path_of(path, folder, i);
        fclose(fopen(path, "w"));
    }
    names = folder_names(arena, folder, ".json", &count);
    assert_int_equal(count, FILES);
    assert_null(names[FILES]);
    for (int i = 0; i < FILES; i++)
        assert_int_equal(atoi(names[i]), i);
    assert_string_equal(names[7], "007");
    folder_names(arena, folder, "", &count);
    assert_int_equal(count, FILES + 2);
    for (int i = 0; i < FILES; i++) {
        path_of(path, folder, i);
        unlink(path);
    }
    for (size_t i = 0; i < other_count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        unlink(path);
    }
    rmdir(folder);
    assert_null(folder_names(arena, folder, ".json", &count));
    assert_int_equal(count, 0);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_names) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
