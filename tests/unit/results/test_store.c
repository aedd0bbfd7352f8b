/* test_store.c - rows come back as they went in; runs appear whole or not at all, whatever
 * happens. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include "tests/unit/results/store_fixture.h"

/* ---- round trip ---- */

static void compare_records(const struct record_table *table, const void *got, const void *want,
                            int64_t row) {
    for (int c = 0; c < table->column_count; c++) {
        const struct record_column *column = &table->columns[c];
        const char *g = (const char *)got + column->offset,
                   *w = (const char *)want + column->offset;
        bool equal = true;
        if (column->type == RECORD_TEXT) {
            const char *a = *(const char *const *)g, *b = *(const char *const *)w;
            equal = a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
        } else if (column->type == RECORD_REAL) {
            double a = *(const double *)g, b = *(const double *)w;
            equal = isnan(b) ? isnan(a) : a == b;
        } else if (column->type == RECORD_BOOL) {
            equal = *(const bool *)g == *(const bool *)w;
        } else {
            equal = *(const int64_t *)g == *(const int64_t *)w;
        }
        if (!equal) fail_msg("%s row %d: %s differs", table->name, (int)row, column->name);
    }
}

static void test_rows_come_back(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    must(f, sample_store_run(store, "first", 100, &f->err));
    must(f, sample_store_run(store, "second", 200, &f->err));
    store_close(store);

    static const struct {
        enum record_table_id table;
        const void *rows;
        int64_t count;
    } cases[] = {
        { RECORD_ITERATION, sample_iterations, SAMPLE_COUNT(sample_iterations) },
        { RECORD_STAGE, sample_stages, SAMPLE_COUNT(sample_stages) },
        { RECORD_MEMORY, sample_memory, SAMPLE_COUNT(sample_memory) },
        { RECORD_PRICE, sample_prices, SAMPLE_COUNT(sample_prices) },
        { RECORD_SPAN, sample_spans, SAMPLE_COUNT(sample_spans) },
        { RECORD_MEMORY_POINT, sample_points, SAMPLE_COUNT(sample_points) },
    };
    store = must_open(f, DB_READ);
    int64_t run_id;
    must(f, store_find_run(store, "second", &run_id, &f->err));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct record_table *table = &record_tables[cases[i].table];
        int64_t count;
        const char *rows = store_load(store, cases[i].table, run_id, f->arena, &count, &f->err);
        must(f, rows != NULL);
        if (count != cases[i].count) fail_msg("%s: %d rows", table->name, (int)count);
        for (int64_t r = 0; r < count; r++)
            compare_records(table, rows + (size_t)r * table->record_size,
                            (const char *)cases[i].rows + (size_t)r * table->record_size, r);
    }
    store_close(store);
}

/* Fills every member with a value of its own, so that a swapped pair of columns is seen. */
static struct run_record distinct_run(struct arena *arena) {
    struct run_record run = sample_run("distinct");
    for (int c = 1; c < record_tables[RECORD_RUN].column_count; c++) {
        const struct record_column *column = &record_tables[RECORD_RUN].columns[c];
        void *member = (char *)&run + column->offset;
        if (column->type == RECORD_INTEGER || column->type == RECORD_COUNT)
            *(int64_t *)member = 1000000 + c;
        if (column->type == RECORD_REAL) *(double *)member = c + 0.1;
        if (column->type == RECORD_TEXT) *(const char **)member = arena_format(arena, "text %d", c);
    }
    run.resolved_scenario = "{}";
    run.inputs = "[]";
    run.fidelity = "operator";
    run.status = "failed";
    run.verdict = "out of memory";
    run.inside_range = 0;
    run.repeatable = false;
    return run;
}

static void test_run_comes_back(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    struct run_record run = distinct_run(f->arena), bare = sample_run("bare");
    must(f, store_begin_run(store, &run, &f->err));
    must(f, store_finish_run(store, &run, &f->err));
    must(f, store_begin_run(store, &bare, &f->err));
    must(f, store_finish_run(store, &bare, &f->err));
    int64_t count;
    struct run_record *all = store_load(store, RECORD_RUN, -1, f->arena, &count, &f->err);
    assert_int_equal(count, 2);
    compare_records(&record_tables[RECORD_RUN], &all[0], &run, 0);
    assert_true(isnan(all[1].step_time_mean_ms));
    assert_null(all[1].verdict);
    assert_int_equal(all[1].verdict_stage_index, -1);
    /* stamped by the store: 2026-01-31T12:00:00Z */
    assert_int_equal(strlen(all[1].created_utc), 20);
    assert_true(strlen(all[1].host) > 0);
    struct run_record *one = store_load(store, RECORD_RUN, bare.id, f->arena, &count, &f->err);
    assert_int_equal(count, 1);
    assert_string_equal(one->scenario_name, "bare");
    store_close(store);
}

static void test_runs_are_found(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    must(f, sample_store_run(store, "baseline", 1, &f->err)); /* 1 */
    must(f, sample_store_run(store, "omnibal", 2, &f->err));  /* 2 */
    must(f, sample_store_run(store, "baseline", 3, &f->err)); /* 3 */
    must(f, sample_store_run(store, "2", 4, &f->err));        /* 4 */
    must(f, sample_store_run(store, "77", 5, &f->err));       /* 5 */
    static const struct {
        const char *name;
        int64_t id;
    } cases[] = { { "1", 1 }, { "omnibal", 2 }, { "3", 3 }, { "2", 2 }, { "77", 5 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t id = 0;
        must(f, store_find_run(store, cases[i].name, &id, &f->err));
        if (id != cases[i].id) fail_msg("'%s': found %d", cases[i].name, (int)id);
    }
    int64_t id;
    assert_false(store_find_run(store, "omnibla", &id, &f->err));
    assert_non_null(strstr(f->err.text, "has no run 'omnibla'"));
    assert_non_null(strstr(f->err.text, "did you mean 'omnibal'?"));
    assert_false(store_find_run(store, "baseline", &id, &f->err));
    assert_non_null(strstr(f->err.text, "'baseline' names 2 runs: 3 and 1\n"));
    assert_false(f->err.internal);
    for (int k = 6; k <= 13; k++)
        must(f, sample_store_run(store, "baseline", k, &f->err));
    assert_false(store_find_run(store, "baseline", &id, &f->err));
    assert_non_null(strstr(
        f->err.text, "'baseline' names 10 runs: the newest are 13, 12, 11, 10, 9, 8, 7, 6\n"));
    store_close(store);
}

/* ---- sweeps and other tables ---- */

static void test_a_sweep_resumes(void **state) {
    struct fixture *f = *state;
    struct sweep_record sweep = { 0,           "tp", NULL,       "0.1.0", "abc", "ballast sweep",
                                  "{\"a\":1}", 2,    "gpu_days", 3.5,     NAN };
    struct sweep_row_record rows[2] = { sample_sweep_row("a", 0), sample_sweep_row("b", 1) };
    rows[0].reason = "cannot fit";
    struct store *store = must_open(f, DB_WRITE);
    int64_t first, again;
    must(f, store_begin_sweep(store, &sweep, &first, &f->err));
    must(f, store_add_sweep_rows(store, &rows[0], 1, &f->err));
    struct run_record run = sample_run("tp 2");
    must(f, store_begin_run(store, &run, &f->err));
    rows[1].run_id = run.id;
    must(f, store_add_sweep_rows(store, &rows[1], 1, &f->err));
    store_abandon_run(store);
    assert_int_equal(count_of(store, "SELECT count(*) FROM sweep_row"), 1);
    store_close(store);

    /* With another limit it is the same sweep. */
    store = must_open(f, DB_WRITE);
    int64_t count;
    sweep.objective = "money_usd";
    sweep.deadline_days = NAN;
    sweep.budget_usd = 400;
    must(f, store_begin_sweep(store, &sweep, &again, &f->err));
    assert_int_equal(again, first);
    const struct sweep_record *kept =
        store_load(store, RECORD_SWEEP, again, f->arena, &count, &f->err);
    assert_int_equal(count, 1);
    assert_string_equal(kept->objective, "money_usd");
    assert_true(isnan(kept->deadline_days));
    assert_float_equal(kept->budget_usd, 400, 1e-9);
    struct sweep_row_record *done =
        store_load(store, RECORD_SWEEP_ROW, again, f->arena, &count, &f->err);
    assert_int_equal(count, 1);
    assert_string_equal(done->reason, "cannot fit");
    assert_string_equal(done->configuration, "a");
    must(f, store_begin_run(store, &run, &f->err));
    rows[1].run_id = run.id;
    must(f, store_add_sweep_rows(store, &rows[1], 1, &f->err));
    must(f, store_finish_run(store, &run, &f->err));
    assert_int_equal(count_of(store, "SELECT run_id FROM sweep_row WHERE row_index = 1"), run.id);
    rows[1].total_days = 2; /* the same configuration again: it takes the older one's place */
    must(f, store_add_sweep_rows(store, &rows[1], 1, &f->err));
    assert_int_equal(count_of(store, "SELECT count(*) FROM sweep_row WHERE total_days = 2"), 1);
    assert_int_equal(count_of(store, "SELECT count(*) FROM sweep_row"), 2);
    store_close(store);
}

/* What a sweep was begun with must be what it goes on with. */
static void test_another_sweep_of_the_same_name(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *definition, *version, *commit, *want;
    } cases[] = {
        { "{\"a\":2}", "0.1.0", "abc", "sweep \"tp\" in '%s' was begun with another definition" },
        { "{\"a\":1}", "0.2.0", "abc",
          "sweep \"tp\" in '%s' was begun by another version of Ballast, 0.1.0 commit abc" },
        { "{\"a\":1}", "0.1.0", "def",
          "sweep \"tp\" in '%s' was begun by another version of Ballast, 0.1.0 commit abc" },
    };
    struct sweep_record sweep = { 0,           "tp", NULL,       "0.1.0", "abc", "ballast sweep",
                                  "{\"a\":1}", 2,    "gpu_days", 3.5,     NAN };
    struct store *store = must_open(f, DB_WRITE);
    int64_t id;
    must(f, store_begin_sweep(store, &sweep, &id, &f->err));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sweep.definition = cases[i].definition;
        sweep.tool_version = cases[i].version;
        sweep.source_commit = cases[i].commit;
        char want[512];
        snprintf(want, sizeof want, cases[i].want, store_db(store)->path);
        assert_false(store_begin_sweep(store, &sweep, &id, &f->err));
        if (strncmp(f->err.text, want, strlen(want)) != 0)
            fail_msg("want %s\ngot %s", want, f->err.text);
    }
    assert_int_equal(count_of(store, "SELECT count(*) FROM sweep"), 1);
    store_close(store);
}

/* Of version 1, as far as later ones changed it, with one run. */
static void make_older(struct fixture *f, struct store *store) {
    static const char *const old_sql =
        "DROP VIEW sweep_result; DROP TABLE sweep_row; DROP TABLE sweep_rejection;"
        "DROP TABLE sweep_input; DROP TABLE sweep_round;"
        "CREATE TABLE sweep_row (sweep_id INTEGER, row_index INTEGER, assignments TEXT,"
        " run_id INTEGER, failure TEXT);"
        "CREATE VIEW sweep_result AS SELECT * FROM sweep_row; DROP VIEW breakdown;"
        "CREATE VIEW breakdown AS SELECT id FROM run;"
        "ALTER TABLE run DROP COLUMN loading_ms; ALTER TABLE run DROP COLUMN goodput_fraction;"
        "DROP TABLE search_progress; DROP VIEW step; DROP VIEW reproduction_summary;"
        "DROP VIEW reproduction_error; ALTER TABLE run DROP COLUMN planner_mean_ms;"
        "ALTER TABLE run DROP COLUMN planner_exposed_ms;"
        "ALTER TABLE iteration DROP COLUMN planner_ns;"
        "ALTER TABLE reproduction DROP COLUMN measured_value;"
        "CREATE VIEW step AS SELECT id FROM run;"
        "CREATE VIEW reproduction_summary AS SELECT id FROM run;"
        "CREATE VIEW reproduction_error AS SELECT id FROM run;"
        "ALTER TABLE span DROP COLUMN module; ALTER TABLE span DROP COLUMN sub_batch;"
        "ALTER TABLE run DROP COLUMN inputs; ALTER TABLE run DROP COLUMN pair_band_fraction;"
        "ALTER TABLE run DROP COLUMN left_out_fraction;"
        "ALTER TABLE run DROP COLUMN dropped_fraction;"
        "ALTER TABLE run DROP COLUMN asked_samples_per_step;"
        "ALTER TABLE run DROP COLUMN memory_training_bytes;"
        "ALTER TABLE run DROP COLUMN memory_training_high_bytes;"
        "ALTER TABLE run DROP COLUMN launch_wait_ms;"
        "ALTER TABLE run DROP COLUMN launch_cost_ms;"
        "ALTER TABLE run DROP COLUMN host_copy_ms; ALTER TABLE run DROP COLUMN pcie_ms;"
        "DROP VIEW run_summary; CREATE VIEW run_summary AS SELECT id FROM run;"
        "DROP VIEW validation_error; CREATE VIEW validation_error AS SELECT id FROM run;"
        "ALTER TABLE run DROP COLUMN band_below_fraction;"
        "ALTER TABLE validation DROP COLUMN band_below_fraction;"
        "ALTER TABLE sweep DROP COLUMN objective; ALTER TABLE sweep DROP COLUMN deadline_days;"
        "ALTER TABLE sweep DROP COLUMN budget_usd;"
        "PRAGMA user_version = 1;";
    struct run_record run = sample_run("kept");
    must(f, store_begin_run(store, &run, &f->err));
    must(f, store_add_memory(store, sample_memory, SAMPLE_COUNT(sample_memory), &f->err));
    must(f, store_finish_run(store, &run, &f->err));
    must(f, db_execute(store_db(store), old_sql, &f->err));
}

/* A database of version 1 gets the tables that a new one has. */
static void test_an_older_database_is_brought_up_to_date(void **state) {
    struct fixture *f = *state;
    static const char *const tables =
        "SELECT count(*) FROM (SELECT name, sql FROM sqlite_schema ORDER BY name)";
    /* Columns that ALTER TABLE adds come without the schema's comments. */
    static const char *const text =
        "SELECT sum(length(sql)) FROM sqlite_schema WHERE name NOT IN "
        "('run', 'sweep', 'sweep_row', 'iteration', 'reproduction', 'span', 'validation')";
    struct store *store = must_open(f, DB_WRITE);
    int64_t objects = count_of(store, tables), length = count_of(store, text);
    make_older(f, store);
    store_close(store);
    store = must_open(f, DB_WRITE);
    assert_int_equal(count_of(store, "PRAGMA user_version"), STORE_SCHEMA_VERSION);
    assert_int_equal(count_of(store, tables), objects);
    assert_int_equal(count_of(store, text), length);
    assert_int_equal(count_of(store, "SELECT count(*) FROM run"), 1);
    store_close(store);
}

/* The caller frees. */
static char *bytes_of(const char *path, long *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)*size);
    assert_int_equal(fread(bytes, 1, (size_t)*size, file), *size);
    fclose(file);
    return bytes;
}

/* A reader has it up to date, also of a killed writer's log; the file stays as it is. */
static void test_an_older_database_is_read(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE), *reader;
    make_older(f, store);
    for (int logged = 1; logged >= 0; logged--) {
        if (!logged) store_close(store);
        long size, size_after;
        char *before = bytes_of(f->path, &size);
        reader = must_open(f, DB_READ);
        assert_int_equal(count_of(reader, "PRAGMA user_version"), STORE_SCHEMA_VERSION);
        int64_t run_id, count;
        must(f, store_find_run(reader, "kept", &run_id, &f->err));
        const struct run_record *run =
            store_load(reader, RECORD_RUN, run_id, f->arena, &count, &f->err);
        must(f, run != NULL);
        assert_int_equal(count, 1);
        assert_string_equal(run->scenario_name, "kept");
        assert_true(isnan(run->launch_wait_ms) && isnan(run->host_copy_ms));
        must(f, store_load(reader, RECORD_MEMORY, run_id, f->arena, &count, &f->err) != NULL);
        assert_int_equal(count, SAMPLE_COUNT(sample_memory));
        must(f, store_load(reader, RECORD_SWEEP_ROW, 1, f->arena, &count, &f->err) != NULL);
        /* Still for reading, and known by the name that it was opened by. */
        assert_false(db_execute(store_db(reader), "DELETE FROM run", &f->err));
        assert_false(store_find_run(reader, "lost", &run_id, &f->err));
        if (strstr(f->err.text, f->path) == NULL) fail_msg("%s", f->err.text);
        store_close(reader);
        char *after = bytes_of(f->path, &size_after);
        assert_int_equal(size_after, size);
        assert_memory_equal(after, before, (size_t)size);
        free(before);
        free(after);
    }
    struct db *db = db_open(f->path, DB_READ, &f->err);
    int64_t version;
    must(f, db != NULL && db_integer(db, "PRAGMA user_version", &version, &f->err));
    assert_int_equal(version, 1);
    db_close(db);
}

/* What another program took away is said in a sentence: before anything is written, and where it is
 * read. */
static void test_a_table_that_was_dropped(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    must(f, sample_store_run(store, "r", 400, &f->err));
    must(f, db_execute(store_db(store),
                       "ALTER TABLE run DROP COLUMN inputs; DROP TABLE validation;", &f->err));
    store_close(store);
    assert_null(store_open(f->path, DB_WRITE, &f->err));
    assert_false(f->err.internal);
    if (strstr(f->err.text, "lacks the column \"inputs\"") == NULL) fail_msg("%s", f->err.text);
    store = must_open(f, DB_READ);
    assert_null(db_prepare(store_db(store), "SELECT * FROM validation", &f->err));
    assert_false(f->err.internal);
    if (strstr(f->err.text, "lacks the table or view \"validation\"") == NULL ||
        strstr(f->err.text, "SELECT") != NULL)
        fail_msg("%s", f->err.text);
    store_close(store);
}

static void test_a_scenario_that_was_changed(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    must(f, sample_store_run(store, "r", 400, &f->err));
    must(f,
         db_execute(store_db(store),
                    "PRAGMA ignore_check_constraints = 1; UPDATE run SET resolved_scenario = '{'",
                    &f->err));
    int64_t value;
    assert_false(db_integer(store_db(store), "SELECT tp FROM run_setup", &value, &f->err));
    assert_false(f->err.internal);
    if (strstr(f->err.text, "that is no JSON") == NULL || strstr(f->err.text, "SELECT") != NULL)
        fail_msg("%s", f->err.text);
    store_close(store);
}

static bool sum_first_column(void *context, sqlite3_stmt *row, struct error *err) {
    (void)err;
    *(double *)context += sqlite3_column_double(row, 0);
    return true;
}

static void test_views_derive(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    must(f, sample_store_run(store, "r", 400, &f->err));
    must(f, store_add_reproductions(store, sample_reproductions, 4, &f->err));
    must(f, store_add_validations(store, sample_validations, 1, &f->err));
    static const struct {
        const char *sql;
        double want;
    } cases[] = {
        { "SELECT sum(part_ms) FROM breakdown WHERE run_id = ?1", 400 },
        { "SELECT step_fraction FROM breakdown WHERE part = 'bubble' AND run_id = ?1", 0.25 },
        { "SELECT peak_bytes FROM stage_memory WHERE stage_index = 0 AND run_id = ?1", 42e9 },
        { "SELECT capacity_fraction FROM stage_memory WHERE stage_index = 1 AND run_id = ?1", 0.5 },
        { "SELECT step_time_ms FROM step WHERE iteration_index = 0 AND run_id = ?1", 2100 },
        /* the planning of the second step takes 0.5 us more than the first step */
        { "SELECT planner_exposed_ms FROM step WHERE iteration_index = 1 AND run_id = ?1", 0.0005 },
        { "SELECT count(*) FROM step WHERE planner_exposed_ms IS NULL AND run_id = ?1", 2 },
        { "SELECT step_ms FROM operator_share WHERE operator = 'qkv' AND run_id = ?1", 108 },
        { "SELECT tp * 10 + pp FROM run_setup WHERE model = 'vlm' AND batching = 'isf'"
          " AND schedule = '1f1b' AND dataset = 'd'",
          24 },
        { "SELECT error_fraction FROM reproduction_error WHERE row_name = '6B+20B baseline'",
          0.08 },
        /* +8 % and -8 %; the fitted row and the empty cell stay out */
        { "SELECT mean_absolute_error_fraction FROM reproduction_summary", 0.08 },
        { "SELECT mean_error_fraction + 1 FROM reproduction_summary", 1 },
        { "SELECT prediction_count FROM reproduction_summary", 2 },
        { "SELECT error_fraction FROM validation_error WHERE inside_band", -0.05 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double got = 0;
        must(f, store_query(store, cases[i].sql, 1, sum_first_column, &got, &f->err));
        if (fabs(got - cases[i].want) > 1e-9 * fabs(cases[i].want) + 1e-12)
            fail_msg("%s: got %.12g, want %.12g", cases[i].sql, got, cases[i].want);
    }
    store_close(store);
}

static void test_keys_and_checks_hold(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    must(f, sample_store_run(store, "r", 1, &f->err));
    static const char *const refused[] = {
        "INSERT INTO stage VALUES (99, 0, 'x', 1, 1, 0, 0, 0, 0, 0, 0)",     /* no such run */
        "INSERT INTO memory VALUES (1, 0, 'magic', 1)",                      /* unknown class */
        "INSERT INTO memory VALUES (1, 0, 'weights', 1)",                    /* twice */
        "INSERT INTO span VALUES (1, 99, 0, 0, 0, 's', 'k', 0, 0, 0, 5, 4)", /* ends before it
                                                                                starts */
        "UPDATE run SET verdict = 'perhaps'",
        "UPDATE run SET resolved_scenario = '{'",
        "UPDATE run SET step_time_mean_ms = 'fast'", /* STRICT */
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        if (db_execute(store_db(store), refused[i], &f->err)) fail_msg("accepted: %s", refused[i]);
        if (strstr(f->err.text, refused[i]) == NULL || strstr(f->err.text, f->path) == NULL ||
            strstr(f->err.text, "SQLite ") == NULL)
            fail_msg("no path, code or SQL in: %s", f->err.text);
    }
    must(f, db_execute(store_db(store), "DELETE FROM run", &f->err));
    for (int t = 0; t < RECORD_TABLE_COUNT; t++) {
        char sql[128];
        snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", record_tables[t].name);
        if (count_of(store, sql) != 0)
            fail_msg("%s keeps rows of a deleted run", record_tables[t].name);
    }
    store_close(store);
}

/* ---- crashes ---- */

static void test_killed_in_the_middle_of_a_run(void **state) {
    struct fixture *f = *state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct store *store = store_open(f->path, DB_WRITE, NULL);
        struct run_record run = sample_run("killed");
        bool done = store != NULL && sample_store_run(store, "kept", 1, NULL) &&
                    sample_store_run(store, "kept too", 2, NULL) &&
                    store_begin_run(store, &run, NULL) && add_many(store, 600000, NULL);
        char told = done ? 'y' : 'n';
        if (write(ready[1], &told, 1) != 1) _exit(1);
        pause();
        _exit(0);
    }
    char told = 0;
    assert_int_equal(read(ready[0], &told, 1), 1);
    assert_int_equal(told, 'y');
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    close(ready[0]);
    close(ready[1]);
    struct store *store = must_open(f, DB_READ); /* a reader may be the first to come */
    assert_int_equal(count_of(store, "SELECT count(*) FROM run"), 2);
    store_close(store);
    expect_runs(f, 2);
    store = must_open(f, DB_WRITE);
    must(f, sample_store_run(store, "after", 3, &f->err));
    store_close(store);
    expect_runs(f, 3);
}

static void test_killed_at_any_moment(void **state) {
    struct fixture *f = *state;
    int64_t least = 0;
    for (int round = 0; round < 12; round++) {
        int stored[2];
        assert_int_equal(pipe(stored), 0);
        pid_t child = fork();
        if (child == 0) {
            for (;;) { /* opens, stores, closes: the kill falls anywhere in it */
                struct store *store = store_open(f->path, DB_WRITE, NULL);
                if (store == NULL || !sample_store_run(store, "r", 1, NULL)) _exit(1);
                store_close(store);
                if (round == 0 && write(stored[1], "1", 1) != 1) _exit(1);
            }
        }
        close(stored[1]);
        char one; /* however slow the machine: something is stored before the first kill */
        if (round == 0) assert_int_equal(read(stored[0], &one, 1), 1);
        close(stored[0]);
        usleep(3000 + 7001 * (unsigned)round);
        kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        struct store *store = must_open(f, DB_WRITE);
        int64_t runs = count_of(store, "SELECT count(*) FROM run");
        store_close(store);
        assert_true(runs >= least);
        least = runs;
        expect_runs(f, runs);
    }
    assert_true(least > 0);
}

static void test_an_unfinished_run_leaves_nothing(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    struct run_record run = sample_run("x");
    must(f, store_begin_run(store, &run, &f->err));
    must(f, store_add_stages(store, sample_stages, 2, &f->err));
    struct store *reader = must_open(f, DB_READ);
    assert_int_equal(count_of(reader, "SELECT count(*) FROM run"), 0);
    store_close(reader);
    store_close(store);
    expect_runs(f, 0);
}

static void test_a_closed_database_is_one_file(void **state) {
    struct fixture *f = *state;
    struct store *store = must_open(f, DB_WRITE);
    must(f, sample_store_run(store, "x", 1, &f->err));
    store_close(store);
    static const char *const others[] = { "-wal", "-shm", "-journal" };
    for (int i = 0; i < 3; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s%s", f->path, others[i]);
        if (access(path, F_OK) == 0) fail_msg("%s is left", path);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_rows_come_back),
        TEST(test_run_comes_back),
        TEST(test_runs_are_found),
        TEST(test_a_sweep_resumes),
        TEST(test_another_sweep_of_the_same_name),
        TEST(test_an_older_database_is_brought_up_to_date),
        TEST(test_an_older_database_is_read),
        TEST(test_a_table_that_was_dropped),
        TEST(test_a_scenario_that_was_changed),
        TEST(test_views_derive),
        TEST(test_keys_and_checks_hold),
        TEST(test_killed_in_the_middle_of_a_run),
        TEST(test_killed_at_any_moment),
        TEST(test_an_unfinished_run_leaves_nothing),
        TEST(test_a_closed_database_is_one_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
