/* test_error.c - the texts of errors: sentence, context, hint, place; and that long ones are cut.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "sim/base/error.h"

static void test_set(void **state) {
    (void)state;
    struct error err = { .located = true, .internal = true, .text = "an older error" };
    assert_false(error_set(&err, "%d GPUs are too few", 3));
    assert_string_equal(err.text, "3 GPUs are too few");
    assert_false(err.located);
    assert_false(err.internal);
}

static void test_at(void **state) {
    (void)state;
    static const struct {
        const char *name;
        long line, column;
        const char *want;
    } cases[] = {
        { "line and column", 4, 7, "a.csv:4:7: error: not a number" },
        { "line only", 4, 0, "a.csv:4: error: not a number" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { .internal = true };
        assert_false(error_at(&err, "a.csv", cases[i].line, cases[i].column, "not a %s", "number"));
        if (strcmp(err.text, cases[i].want) != 0) fail_msg("%s: got '%s'", cases[i].name, err.text);
        assert_true(err.located);
        assert_false(err.internal);
    }
}

static void test_system(void **state) {
    (void)state;
    struct error err = { 0 };
    errno = ENOSPC;
    assert_false(error_system(&err, "cannot write %s", "x.db"));
    assert_string_equal(err.text, "cannot write x.db: No space left on device");
    assert_true(err.internal);
    assert_false(err.located);
}

/* What lies in the name is the input's fault; what lies in the machine is not. */
static void test_output(void **state) {
    (void)state;
    static const struct {
        int code;
        const char *path, *want;
        bool internal;
    } cases[] = {
        { EISDIR, "d", "cannot write d: it is a folder\n  hint: name a file in it", false },
        { ENOENT, "d/x", "cannot write d/x: there is no folder 'd'", false },
        { ENOTDIR, "f/x", "cannot write f/x: there is no folder 'f'", false },
        { EACCES, "x", "cannot write x: Permission denied", true },
        { ENAMETOOLONG, "x", "cannot write x: File name too long", false },
        { ENOSPC, "x", "cannot write x: No space left on device", true },
        { EIO, "x", "cannot write x: Input/output error", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        errno = cases[i].code;
        assert_false(error_output(&err, cases[i].path));
        assert_string_equal(err.text, cases[i].want);
        assert_int_equal(err.internal, cases[i].internal);
    }
    struct error err = { 0 };
    errno = EEXIST;
    assert_false(error_output_folder(&err, "f"));
    assert_string_equal(err.text, "cannot make the folder f: a file has this name");
    errno = ENOSPC;
    assert_false(error_output_folder(&err, "d"));
    assert_true(err.internal);
}

static void test_check_output(void **state) {
    (void)state;
    struct error err = { 0 };
    assert_true(error_check_output(&err, "a-name-of-no-file"));
    assert_true(error_check_output(&err, "/dev/null"));
    assert_false(error_check_output(&err, "/tmp"));
    assert_string_equal(err.text, "cannot write /tmp: it is a folder\n  hint: name a file in it");
    assert_false(error_check_output(&err, "/dev/null/x"));
    assert_string_equal(err.text, "cannot write /dev/null/x: there is no folder '/dev/null'");
    assert_false(error_check_output(&err, "/proc/none/x"));
    assert_false(err.internal);
    assert_true(error_check_output_file(&err, "a-name-of-no-file"));
    assert_false(error_check_output_file(&err, "/dev/null"));
    assert_string_equal(err.text, "cannot write /dev/null: it is not a file");
    /* The folder is there; that nothing can be made in it is another matter. */
    errno = ENOENT;
    assert_false(error_output(&err, "/proc/x"));
    assert_string_equal(err.text, "cannot write /proc/x: No such file or directory");
}

/* Names whose trouble is known before anything is written. */
static void test_names_that_cannot_be_written(void **state) {
    (void)state;
    char folder[] = "/tmp/ballast-error-XXXXXX", loop[64], dangling[64], inside[64], below[80];
    assert_non_null(mkdtemp(folder));
    snprintf(loop, sizeof loop, "%s/loop", folder);
    snprintf(dangling, sizeof dangling, "%s/dangling", folder);
    snprintf(inside, sizeof inside, "%s/x", folder);
    snprintf(below, sizeof below, "%s/none/x", folder);
    assert_int_equal(symlink(loop, loop), 0);
    assert_int_equal(symlink(below, dangling), 0);
    static char name[400] = "/tmp/";
    memset(name + 5, 'a', 300);
    const struct {
        const char *path, *want;
    } cases[] = {
        { name, "File name too long" },
        { loop, "Too many levels of symbolic links" },
        { dangling, "it is a link to nothing" },
        { below, "there is no folder" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        assert_false(error_check_output(&err, cases[i].path));
        assert_non_null(strstr(err.text, cases[i].want));
        assert_false(err.internal);
        assert_false(error_check_output_folder(&err, cases[i].path));
        assert_non_null(strstr(err.text, cases[i].want));
        assert_false(err.internal);
    }
    struct error err = { 0 };
    assert_true(error_check_output(&err, inside));
    assert_true(error_check_output_folder(&err, inside));
    assert_true(error_check_output_folder(&err, folder));
    snprintf(below, sizeof below, "%s/", inside);
    assert_true(error_check_output_folder(&err, below));
    unlink(loop);
    unlink(dangling);
    rmdir(folder);
}

static void check_a_folder_without_rights(void) {
    struct error err = { 0 };
    char folder[] = "/tmp/ballast-error-XXXXXX", inside[64];
    if (mkdtemp(folder) == NULL || chmod(folder, 0500) != 0) return;
    snprintf(inside, sizeof inside, "%s/x", folder);
    /* Root may write everywhere. */
    if (geteuid() == 0 && (chown(folder, 65534, 65534) != 0 || setuid(65534) != 0)) return;
    const bool refused = !error_check_output(&err, inside) && err.internal &&
                         !error_check_output_folder(&err, inside) && err.internal &&
                         !error_check_output_folder(&err, folder) && err.internal;
    fprintf(stderr, "%s\n", refused ? err.text : "not refused");
    rmdir(folder);
}

static void test_context_and_hint(void **state) {
    (void)state;
    struct error err = { 0 };
    error_at(&err, "h.json", 1, 2, "unknown key");
    assert_false(error_hint(&err, "did you mean \"%s\"?", "tp"));
    assert_false(error_context(&err, "while loading hardware '%s'", "h200"));
    assert_string_equal(err.text, "h.json:1:2: error: unknown key\n"
                                  "  hint: did you mean \"tp\"?\n"
                                  "  while loading hardware 'h200'");
    assert_true(err.located);
}

static void test_nobody_listens(void **state) {
    (void)state;
    errno = ENOENT;
    assert_false(error_set(NULL, "x"));
    assert_false(error_system(NULL, "x"));
    assert_false(error_at(NULL, "f", 1, 1, "x"));
    assert_false(error_context(NULL, "x"));
    assert_false(error_hint(NULL, "x"));
}

static void test_long_texts_are_cut(void **state) {
    (void)state;
    static char text[10000];
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = i % 2 == 0 ? 'a' : ' ';
    struct error err = { 0 };
    error_set(&err, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    error_context(&err, "%s", text);
    error_hint(&err, "%s", text);
    errno = EIO;
    error_system(&err, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    error_at(&err, text, 1, 1, "%s", text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

static void test_long_words_leave_room_for_the_reason(void **state) {
    (void)state;
    static char word[5000], want[400];
    struct error err = { 0 };
    memset(word, 'a', sizeof word - 1);
    errno = ENAMETOOLONG;
    error_system(&err, "cannot read '%s' of %d", word, 3);
    snprintf(want, sizeof want, "cannot read '%.299s... of 3: File name too long", word);
    assert_string_equal(err.text, want);
    /* Not inside a character. */
    for (size_t i = 0; i + 2 < sizeof word; i += 2)
        memcpy(word + i, "\xc3\xa9", 3);
    error_set(&err, "x%s", word);
    assert_int_equal(strlen(err.text), 299 + 3);
    assert_string_equal(err.text + 297, "\xc3\xa9...");
}

/* Runs `action` in a child; its stderr goes to `text`. */
static int status_of(void (*action)(void), char *text, size_t size) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        action();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used + 1 < size && (got = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void check_that_holds(void) {
    ballast_check(1 + 1 == 2);
}

static void check_that_fails(void) {
    ballast_check(1 + 1 == 3);
}

static void test_bugs_stop_the_program(void **state) {
    (void)state;
    char text[512];
    int status = status_of(check_that_holds, text, sizeof text);
    assert_true(WIFEXITED(status));
    assert_string_equal(text, "");
    status = status_of(check_that_fails, text, sizeof text);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "BUG "));
    assert_non_null(strstr(text, "test_error.c:"));
    assert_non_null(strstr(text, ": 1 + 1 == 3\n"));
}

static void test_rights_are_looked_at(void **state) {
    (void)state;
    char text[512];
    const int status = status_of(check_a_folder_without_rights, text, sizeof text);
    assert_true(WIFEXITED(status));
    assert_non_null(strstr(text, "cannot write in the folder /tmp/ballast-error-"));
    assert_non_null(strstr(text, "Permission denied"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_at),
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_check_output),
        cmocka_unit_test(test_names_that_cannot_be_written),
        cmocka_unit_test(test_rights_are_looked_at),
        cmocka_unit_test(test_context_and_hint),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_long_words_leave_room_for_the_reason),
        cmocka_unit_test(test_bugs_stop_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
