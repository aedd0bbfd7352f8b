/* test_output_draft.c - what is not finished leaves the file that was there. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "sim/base/output_draft.h"

static char folder[] = "/tmp/ballast-draft-XXXXXX";
static char path[64], link_path[64], part[64];

static void write_all(const char *to, const char *text, bool keep) {
    struct error err = { 0 };
    struct output_draft draft;
    FILE *out = output_draft_stream(&draft, to, &err);
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(output_draft_end(&draft, keep, &err), keep);
    assert_string_equal(err.text, "");
}

static void assert_holds(const char *file, const char *text) {
    char read[64] = "";
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    const size_t size = fread(read, 1, sizeof read - 1, in);
    fclose(in);
    read[size] = '\0';
    assert_string_equal(read, text);
}

static void test_a_file_is_replaced_when_it_is_whole(void **state) {
    (void)state;
    write_all(path, "first", true);
    assert_holds(path, "first");
    struct error err = { 0 };
    struct output_draft draft;
    FILE *out = output_draft_stream(&draft, path, &err);
    fputs("sec", out);
    fflush(out);
    assert_holds(path, "first"); /* a program killed here leaves it so */
    assert_int_equal(access(part, F_OK), -1);
    fputs("ond", out);
    assert_true(output_draft_end(&draft, true, &err));
    assert_holds(path, "second");
    write_all(path, "third", false);
    assert_holds(path, "second");
    assert_int_equal(access(part, F_OK), -1);
}

static void test_a_link_is_followed(void **state) {
    (void)state;
    write_all(path, "old", true);
    assert_int_equal(symlink(path, link_path), 0);
    write_all(link_path, "new", true);
    struct stat status;
    assert_int_equal(lstat(link_path, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_holds(path, "new");
}

static void test_a_device_is_written_as_it_is(void **state) {
    (void)state;
    write_all("/dev/null", "gone", true);
    struct output_draft bare;
    assert_true(output_draft_open(&bare, "/dev/null"));
    assert_int_equal(write(bare.descriptor, "gone", 4), 4);
    assert_true(output_draft_close(&bare, true));
    struct stat status;
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
}

static void test_a_full_disk_is_an_error(void **state) {
    (void)state;
    struct error err = { 0 };
    struct output_draft draft;
    FILE *out = output_draft_stream(&draft, "/dev/full", &err);
    assert_non_null(out);
    fputs("text", out);
    assert_false(output_draft_end(&draft, true, &err));
    assert_non_null(strstr(err.text, "cannot write /dev/full"));
}

static void test_no_folder_is_an_error(void **state) {
    (void)state;
    struct error err = { 0 };
    struct output_draft draft;
    char nowhere[96];
    snprintf(nowhere, sizeof nowhere, "%s/none/file", folder);
    assert_null(output_draft_stream(&draft, nowhere, &err));
    assert_non_null(strstr(err.text, "none"));
}

int main(void) {
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(link_path, sizeof link_path, "%s/link", folder);
    snprintf(part, sizeof part, "%s/file.part", folder);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_is_replaced_when_it_is_whole),
        cmocka_unit_test(test_a_link_is_followed),
        cmocka_unit_test(test_a_device_is_written_as_it_is),
        cmocka_unit_test(test_a_full_disk_is_an_error),
        cmocka_unit_test(test_no_folder_is_an_error),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    unlink(link_path);
    rmdir(folder);
    return failed;
}
