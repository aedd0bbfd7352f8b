/* store_fixture.h - a folder with a database for each test, and what must not fail. */
#ifndef BALLAST_TESTS_UNIT_RESULTS_STORE_FIXTURE_H
#define BALLAST_TESTS_UNIT_RESULTS_STORE_FIXTURE_H

#include "tests/unit/results/sample_rows.h"

struct fixture {
    char *folder;
    char path[256];
    struct arena *arena;
    struct error err;
};

static inline int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    f->folder = sample_folder();
    snprintf(f->path, sizeof f->path, "%s/results.db", f->folder);
    f->arena = arena_create();
    *state = f;
    return 0;
}

static inline int tear_down(void **state) {
    struct fixture *f = *state;
    sample_remove_folder(f->folder);
    arena_destroy(f->arena);
    free(f);
    return 0;
}

static inline struct store *must_open(struct fixture *f, enum db_mode mode) {
    struct store *store = store_open(f->path, mode, &f->err);
    if (store == NULL) fail_msg("%s", f->err.text);
    return store;
}

static inline void must(struct fixture *f, bool done) {
    if (!done) fail_msg("%s", f->err.text);
}

static inline int64_t count_of(struct store *store, const char *sql) {
    int64_t value;
    struct error err = { 0 };
    if (!db_integer(store_db(store), sql, &value, &err)) fail_msg("%s", err.text);
    return value;
}

/* Fills a run with more rows than the page cache holds, so that they reach the log before commit.
 */
static inline bool add_many(struct store *store, int64_t count, struct error *err) {
    struct iteration_record row = sample_iterations[0];
    for (row.iteration_index = 0; row.iteration_index < count; row.iteration_index++)
        if (!store_add_iterations(store, &row, 1, err)) return false;
    return true;
}

static inline void expect_runs(struct fixture *f, int64_t runs) {
    struct store *store = must_open(f, DB_WRITE);
    assert_int_equal(count_of(store, "SELECT count(*) FROM run"), runs);
    assert_int_equal(count_of(store, "SELECT count(*) FROM iteration"),
                     runs * SAMPLE_COUNT(sample_iterations));
    assert_int_equal(count_of(store, "SELECT count(*) FROM pragma_integrity_check"
                                     " WHERE integrity_check = 'ok'"),
                     1);
    assert_int_equal(count_of(store, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
    store_close(store);
}

#endif
