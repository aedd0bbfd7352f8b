/* test_store_digest.c - equal results have equal digests, and any other change is seen. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/results/sample_rows.h"

static struct store *new_store(const char *folder, const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s.db", folder, name);
    struct error err = { 0 };
    struct store *store = store_open(path, DB_WRITE, &err);
    if (store == NULL) fail_msg("%s", err.text);
    return store;
}

/* A sweep over two runs, and the rows that stand alone. `swapped` stores the runs the other way. */
static void fill(struct store *store, bool swapped) {
    struct error err = { 0 };
    struct sweep_record sweep = { 0,    "s", NULL,       "0.1.0", "abc", "ballast sweep",
                                  "{}", 2,   "gpu_days", NAN,     NAN };
    int64_t sweep_id;
    bool done = store_begin_sweep(store, &sweep, &sweep_id, &err);
    for (int i = 0; i < 2 && done; i++) {
        bool first = (i == 0) != swapped;
        done = sample_store_run(store, first ? "a" : "b", first ? 100 : 200, &err);
        struct sweep_row_record row = sample_sweep_row(first ? "a" : "b", first ? 0 : 1);
        row.run_id = i + 1;
        done = done && store_add_sweep_rows(store, &row, 1, &err);
    }
    struct reproduction_record reproduction = sample_reproductions[0];
    reproduction.run_id = swapped ? 2 : 1;
    done = done && store_add_reproductions(store, &reproduction, 1, &err) &&
           store_add_reproductions(store, &sample_reproductions[1], 3, &err) &&
           store_add_validations(store, sample_validations, 1, &err);
    if (!done) fail_msg("%s", err.text);
}

static void digest_of(struct store *store, char text[65]) {
    struct error err = { 0 };
    if (!store_digest(store, text, &err)) fail_msg("%s", err.text);
}

static void test_equal_content_in_any_order(void **state) {
    (void)state;
    char *folder = sample_folder();
    struct store *a = new_store(folder, "a"), *b = new_store(folder, "b");
    fill(a, false);
    fill(b, true);
    char one[65], two[65];
    digest_of(a, one);
    digest_of(b, two);
    assert_int_equal(strlen(one), 64);
    assert_string_equal(one, two);
    store_close(a);
    a = new_store(folder, "a"); /* opened again */
    digest_of(a, two);
    assert_string_equal(one, two);
    store_close(a);
    store_close(b);
    sample_remove_folder(folder);
}

static void test_what_changes_the_digest(void **state) {
    (void)state;
    static const struct {
        const char *sql;
        bool changes;
    } cases[] = {
        { "UPDATE run SET created_utc = 'later', host = 'other', wall_time_s = 99,"
          " command_line = 'x', scenario_file = 'y'",
          false },
        { "UPDATE reproduction SET created_utc = 'later'", false },
        { "UPDATE reproduction SET measured_value = 3", false },
        { "UPDATE run SET planner_mean_ms = 3, planner_exposed_ms = 1", false },
        { "UPDATE iteration SET planner_ns = 7", false },
        { "UPDATE search_progress SET wall_ns = 7", false },
        { "UPDATE search_progress SET makespan_ns = makespan_ns + 1", true },
        { "UPDATE sweep SET command_line = 'x'", false },
        { "UPDATE reproduction SET id = id + 100", false },
        { "UPDATE run SET seed = 7 WHERE id = 1", true },
        { "UPDATE run SET tool_version = '0.2.0' WHERE id = 1", true },
        { "UPDATE run SET step_time_mean_ms = step_time_mean_ms + 1e-9 WHERE id = 2", true },
        { "UPDATE run SET money_usd = 0", true }, /* 0 is not NULL */
        { "UPDATE iteration SET step_time_ns = step_time_ns + 1 WHERE run_id = 2 AND"
          " iteration_index = 2",
          true },
        { "DELETE FROM memory_point WHERE run_id = 1 AND point_index = 2", true },
        { "UPDATE span SET kind = 'forwards' WHERE run_id = 1 AND span_index = 0", true },
        { "UPDATE reproduction SET run_id = 2 WHERE run_id = 1", true },
        { "UPDATE sweep_row SET run_id = 3 - run_id", true }, /* the two runs change places */
        { "UPDATE validation SET predicted_value = NULL", true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *folder = sample_folder();
        struct store *store = new_store(folder, "x");
        fill(store, false);
        char before[65], after[65];
        digest_of(store, before);
        struct error err = { 0 };
        if (!db_execute(store_db(store), cases[i].sql, &err)) fail_msg("%s", err.text);
        digest_of(store, after);
        if ((strcmp(before, after) != 0) != cases[i].changes)
            fail_msg("%s: digest %s", cases[i].sql, cases[i].changes ? "is the same" : "changed");
        store_close(store);
        sample_remove_folder(folder);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_content_in_any_order),
        cmocka_unit_test(test_what_changes_the_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
