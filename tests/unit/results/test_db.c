/* test_db.c - bad files, folders and moments: each has its own sentence, and nothing is lost. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "tests/unit/results/store_fixture.h"

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_other_program(const char *path) {
    sqlite3 *db;
    sqlite3_open(path, &db);
    sqlite3_exec(db, "CREATE TABLE bookmarks (url)", NULL, NULL, NULL);
    sqlite3_close(db);
}

static void make_version(const char *path, const char *sql) {
    struct error err = { 0 };
    struct store *store = store_open(path, DB_WRITE, &err);
    assert_true(sample_store_run(store, "x", 1, &err));
    store_close(store);
    sqlite3 *db;
    sqlite3_open(path, &db);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void make_newer(const char *path) {
    make_version(path, "PRAGMA user_version = 99");
}

static void make_no_version(const char *path) {
    make_version(path, "PRAGMA user_version = -1");
}

static void make_older_without_a_view(const char *path) {
    make_version(path, "DROP VIEW breakdown; ALTER TABLE run DROP COLUMN launch_wait_ms;"
                       "ALTER TABLE run DROP COLUMN launch_cost_ms;"
                       "ALTER TABLE run DROP COLUMN host_copy_ms;"
                       "ALTER TABLE run DROP COLUMN pcie_ms;"
                       "PRAGMA user_version = 13");
}

static void make_text(const char *path) {
    write_file(path, "this is a shopping list, long enough to be taken for a header: milk, bread, "
                     "butter, eggs, flour, sugar, salt, pepper, rice, pasta, tomatoes, onions\n");
}

static void make_empty(const char *path) {
    write_file(path, "");
}

static void make_folder(const char *path) {
    mkdir(path, 0777);
}

static void make_nothing(const char *path) {
    (void)path;
}

static void test_each_bad_file_has_its_sentence(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *name;
        void (*make)(const char *path);
        enum db_mode mode;
        const char *sentence;
        bool internal;
    } cases[] = {
        { "missing", make_nothing, DB_READ, "there is no database", false },
        { "empty", make_empty, DB_READ, "holds no results yet", false },
        { "text, read", make_text, DB_READ, "is not a database of results", false },
        { "text, write", make_text, DB_WRITE, "is not a database of results", false },
        { "other program", make_other_program, DB_WRITE, "is a database of another program",
          false },
        { "other program", make_other_program, DB_READ, "is a database of another program", false },
        { "newer, write", make_newer, DB_WRITE,
          "was written by a newer version (its tables are "
          "version 99, known here are those up to 17)",
          false },
        { "newer, read", make_newer, DB_READ, "was written by a newer version", false },
        { "no version, write", make_no_version, DB_WRITE, "are of no known version", false },
        { "no version, read", make_no_version, DB_READ, "are of no known version", false },
        { "older without a view", make_older_without_a_view, DB_READ,
          "lacks the table or view \"breakdown\"", false },
        { "folder, write", make_folder, DB_WRITE, "is a folder, not a database", false },
        { "folder, read", make_folder, DB_READ, "is a folder, not a database", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/case%d.db", f->folder, (int)i);
        cases[i].make(path);
        struct store *store = store_open(path, cases[i].mode, &f->err);
        if (store != NULL) fail_msg("%s: opened", cases[i].name);
        if (strstr(f->err.text, cases[i].sentence) == NULL || strstr(f->err.text, path) == NULL)
            fail_msg("%s: got: %s", cases[i].name, f->err.text);
        if (f->err.internal != cases[i].internal)
            fail_msg("%s: wrong side blamed: %s", cases[i].name, f->err.text);
        if (strstr(f->err.text, "SQLite") != NULL || strstr(f->err.text, "PRAGMA") != NULL)
            fail_msg("%s: speaks of internals: %s", cases[i].name, f->err.text);
    }
}

static void test_each_bad_path_has_its_sentence(void **state) {
    (void)state;
    static const struct {
        const char *path;
        enum db_mode mode;
        const char *sentence;
    } cases[] = {
        { ":memory:", DB_WRITE, "database ':memory:' would keep nothing\n  hint: name a file" },
        { ":memory:", DB_READ, "database ':memory:' would keep nothing\n  hint: name a file" },
        { "", DB_WRITE, "database '' would keep nothing\n  hint: name a file" },
        { "/no/such/x.db", DB_WRITE,
          "cannot write database '/no/such/x.db': there is no folder '/no/such'" },
        { "/no/such/x.db", DB_READ, "there is no database '/no/such/x.db'" },
        { "/dev/null/x.db", DB_WRITE,
          "cannot write database '/dev/null/x.db': '/dev/null' is not a folder" },
        { "/dev/null", DB_WRITE, "'/dev/null' is not a file" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        if (store_open(cases[i].path, cases[i].mode, &err) != NULL)
            fail_msg("'%s': opened", cases[i].path);
        if (strcmp(err.text, cases[i].sentence) != 0 || err.internal)
            fail_msg("'%s': got: %s", cases[i].path, err.text);
    }
}

static void test_another_programs_file_is_not_changed(void **state) {
    struct fixture *f = *state;
    make_other_program(f->path);
    struct stat before, after;
    stat(f->path, &before);
    assert_null(store_open(f->path, DB_WRITE, &f->err));
    stat(f->path, &after);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

static void test_an_empty_file_becomes_a_database(void **state) {
    struct fixture *f = *state;
    make_empty(f->path);
    expect_runs(f, 0);
}

/* A file that was made and never stored to goes again; one that someone else has open, or that was
 * there, stays. */
static void test_nothing_stored_leaves_nothing(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    must(f, store_begin(store, &f->err));
    const struct sweep_record sweep = { 0,    "tp", NULL,       "0.1.0", "abc", "ballast sweep",
                                        "{}", 2,    "gpu_days", NAN,     NAN };
    int64_t sweep_id;
    must(f, store_begin_sweep(store, &sweep, &sweep_id, &f->err)); /* inside: not stored yet */
    store_close(store);
    assert_int_not_equal(access(f->path, F_OK), 0);
    store = must_open(f, DB_WRITE);
    struct store *other = must_open(f, DB_WRITE);
    store_close(store);
    assert_int_equal(access(f->path, F_OK), 0);
    must(f, sample_store_run(other, "x", 1, &f->err));
    store_close(other);
    expect_runs(f, 1);
    make_empty(f->path);
    store_close(must_open(f, DB_WRITE));
    assert_int_equal(access(f->path, F_OK), 0);
}

static void test_a_damaged_database(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    struct run_record run = sample_run("x");
    must(f, store_begin_run(store, &run, &f->err));
    must(f, add_many(store, 20000, &f->err));
    must(f, store_finish_run(store, &run, &f->err));
    store_close(store);
    int file = open(f->path, O_WRONLY);
    char noise[4096];
    memset(noise, 0xa5, sizeof noise);
    struct stat info;
    fstat(file, &info);
    for (off_t at = 60 * 4096; at + 4096 <= info.st_size; at += 3 * 4096)
        assert_int_equal(pwrite(file, noise, sizeof noise, at), sizeof noise);
    close(file);
    store = must_open(f, DB_READ);
    int64_t count;
    assert_null(store_load(store, RECORD_ITERATION, 1, f->arena, &count, &f->err));
    assert_non_null(strstr(f->err.text, "is damaged"));
    assert_non_null(strstr(f->err.text, f->path));
    assert_false(f->err.internal);
    store_close(store);
}

static void test_a_second_writer(void **state) {
    struct fixture *f = *state;
    struct store *first = must_open(f, DB_WRITE), *second = must_open(f, DB_WRITE);
    struct run_record run = sample_run("first"), other = sample_run("second");
    must(f, store_begin_run(first, &run, &f->err));
    sqlite3_busy_timeout(store_db(second)->handle, 100); /* the test need not wait for long */
    assert_false(store_begin_run(second, &other, &f->err));
    assert_non_null(strstr(f->err.text, "is being written by another process"));
    assert_non_null(strstr(f->err.text, f->path));
    assert_true(f->err.internal);
    must(f, store_finish_run(first, &run, &f->err));
    must(f, store_begin_run(second, &other, &f->err)); /* its turn */
    must(f, store_finish_run(second, &other, &f->err));
    store_close(second);
    store_close(first);
}

/* Runs in a child, because rights and limits cannot be taken back. Returns its verdict. */
static void in_child(struct fixture *f, const char *(*check)(struct fixture *f)) {
    int answer[2];
    assert_int_equal(pipe(answer), 0);
    pid_t child = fork();
    if (child == 0) {
        const char *complaint = check(f);
        if (complaint != NULL && write(answer[1], complaint, strlen(complaint)) < 0) _exit(2);
        _exit(complaint == NULL ? 0 : 1);
    }
    close(answer[1]);
    int status;
    waitpid(child, &status, 0);
    char complaint[5000] = "";
    if (read(answer[0], complaint, sizeof complaint - 1) < 0) complaint[0] = '\0';
    close(answer[0]);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("in the child: %s", complaint);
}

static const char *check_read_only_folder(struct fixture *f) {
    if (geteuid() == 0 && setuid(65534) != 0) return "cannot give up rights";
    if (store_open(f->path, DB_WRITE, &f->err) != NULL) return "opened an old one for writing";
    if (strstr(f->err.text, "cannot write database") == NULL ||
        strstr(f->err.text, ": Permission denied") == NULL || !f->err.internal)
        return f->err.text;
    char path[300];
    snprintf(path, sizeof path, "%s/new.db", f->folder);
    if (store_open(path, DB_WRITE, &f->err) != NULL) return "made a new one";
    if (strstr(f->err.text, "cannot write database") == NULL || strstr(f->err.text, path) == NULL ||
        strstr(f->err.text, ": Permission denied") == NULL || !f->err.internal)
        return f->err.text;
    struct store *store = store_open(f->path, DB_READ, &f->err);
    if (store == NULL) return f->err.text;
    int64_t count;
    return store_load(store, RECORD_RUN, -1, f->arena, &count, &f->err) == NULL ? f->err.text
           : count != 1                                                         ? "not one run"
                                                                                : NULL;
}

static void test_a_read_only_folder(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    must(f, sample_store_run(store, "x", 1, &f->err));
    store_close(store);
    chmod(f->path, 0444);
    chmod(f->folder, 0555);
    in_child(f, check_read_only_folder);
    chmod(f->folder, 0755);
}

static const char *check_full_disk(struct fixture *f) {
    signal(SIGXFSZ, SIG_IGN); /* the write then fails, as on a full disk */
    struct rlimit limit = { 400000, 400000 };
    struct store *store = store_open(f->path, DB_WRITE, &f->err);
    if (store == NULL) return f->err.text;
    if (!sample_store_run(store, "kept", 1, &f->err)) return f->err.text;
    setrlimit(RLIMIT_FSIZE, &limit);
    struct run_record run = sample_run("too large");
    if (!store_begin_run(store, &run, &f->err)) return f->err.text;
    if (add_many(store, 100000, &f->err) && store_finish_run(store, &run, &f->err))
        return "wrote more than the limit";
    if (strstr(f->err.text, "cannot write database") == NULL ||
        strstr(f->err.text, "the disk is full") == NULL || strstr(f->err.text, f->path) == NULL ||
        !f->err.internal)
        return f->err.text;
    store_close(store);
    return NULL;
}

static void test_a_full_disk(void **state) {
    struct fixture *f = *state;
    in_child(f, check_full_disk);
    expect_runs(f, 1);
}

/* Where there is no room for the copy that an older one is read in, the file is not to blame. */
static const char *check_no_room_for_a_copy(struct fixture *f) {
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = { 400000, 400000 };
    setrlimit(RLIMIT_FSIZE, &limit);
    if (store_open(f->path, DB_READ, &f->err) != NULL) return "wrote more than the limit";
    return strstr(f->err.text, "there is no room for the temporary copy") == NULL ||
                   strstr(f->err.text, f->path) == NULL || !f->err.internal
               ? f->err.text
               : NULL;
}

static void test_no_room_for_a_copy(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    struct run_record run = sample_run("large");
    must(f, store_begin_run(store, &run, &f->err));
    must(f, add_many(store, 200000, &f->err));
    must(f, store_finish_run(store, &run, &f->err));
    must(f, db_execute(store_db(store), "PRAGMA user_version = 13", &f->err));
    store_close(store);
    in_child(f, check_no_room_for_a_copy);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_each_bad_file_has_its_sentence),
        TEST(test_each_bad_path_has_its_sentence),
        TEST(test_another_programs_file_is_not_changed),
        TEST(test_an_empty_file_becomes_a_database),
        TEST(test_nothing_stored_leaves_nothing),
        TEST(test_a_damaged_database),
        TEST(test_a_second_writer),
        TEST(test_a_read_only_folder),
        TEST(test_a_full_disk),
        TEST(test_no_room_for_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
