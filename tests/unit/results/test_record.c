/* test_record.c - schema.sql explains every table and column, and record.c agrees with it. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include "tests/unit/results/sample_rows.h"
#include "sim/base/file_read.h"
#include "sim/base/json.h"

/* A file of the repository as a string; the caller frees it. */
static char *text_of(const char *path) {
    char *bytes;
    size_t size;
    struct error err = { 0 };
    if (!file_read(path, &bytes, &size, &err)) fail_msg("%s", err.text);
    char *text = strndup(bytes, size);
    free(bytes);
    return text;
}

static struct store *new_store(const char *folder) {
    char path[256];
    snprintf(path, sizeof path, "%s/new.db", folder);
    struct error err = { 0 };
    struct store *store = store_open(path, DB_WRITE, &err);
    if (store == NULL) fail_msg("%s", err.text);
    return store;
}

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A comment of at least a word after "--". */
static bool has_comment(const char *line) {
    const char *comment = strstr(line, "-- ");
    return comment != NULL && strlen(comment + 3) >= 4;
}

static void test_every_table_view_and_column_is_explained(void **state) {
    (void)state;
    char *text = text_of(BALLAST_SOURCE_DIR "/results/schema.sql");
    char previous[512] = "";
    bool in_table = false, open_column = false;
    int tables = 0, views = 0, columns = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        bool table = starts_with(line, "CREATE TABLE"), view = starts_with(line, "CREATE VIEW");
        if ((table || view) && !starts_with(previous, "-- "))
            fail_msg("no comment above: %s", line);
        tables += table;
        views += view;
        if (table) {
            in_table = true;
        } else if (starts_with(line, ")")) {
            in_table = false;
        } else if (in_table && (starts_with(line, "    ") && (islower(line[4]) || open_column))) {
            /* A column may go over two lines; its comment ends the last one. */
            open_column = strchr(line, ',') == NULL || line[strlen(line) - 1] == ',';
            open_column = open_column && !has_comment(line);
            if (!open_column && !has_comment(line)) fail_msg("no comment in: %s", line);
            columns += !open_column;
        }
        snprintf(previous, sizeof previous, "%s", line);
    }
    free(text);
    int expected = 0;
    for (int t = 0; t < RECORD_TABLE_COUNT; t++)
        expected += record_tables[t].column_count + (record_tables[t].owner_column != NULL);
    assert_int_equal(tables, RECORD_TABLE_COUNT);
    assert_int_equal(columns, expected);
    assert_true(views >= 8);
}

/* Every real column says its unit. */
static void test_units_end_the_names(void **state) {
    (void)state;
    static const char *const units[] = { "_ms",  "_s",        "_ns",      "_days",
                                         "_usd", "_bytes",    "_flop",    "_value",
                                         "flop", "_fraction", "_per_step" };
    for (int t = 0; t < RECORD_TABLE_COUNT; t++) {
        for (int c = 0; c < record_tables[t].column_count; c++) {
            const struct record_column *column = &record_tables[t].columns[c];
            if (column->type != RECORD_REAL) continue;
            bool found = false;
            for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
                size_t length = strlen(column->name), end = strlen(units[u]);
                found =
                    found || (length >= end && strcmp(column->name + length - end, units[u]) == 0);
            }
            if (!found)
                fail_msg("%s.%s does not end in a unit", record_tables[t].name, column->name);
        }
    }
}

static bool type_agrees(enum record_type type, const char *sql_type, bool not_null, bool key) {
    switch (type) {
    case RECORD_INTEGER:
        return strcmp(sql_type, "INTEGER") == 0 && (not_null || key);
    case RECORD_COUNT:
        return strcmp(sql_type, "INTEGER") == 0 && !not_null;
    case RECORD_BOOL:
        return strcmp(sql_type, "INTEGER") == 0 && not_null;
    case RECORD_REAL:
        return strcmp(sql_type, "REAL") == 0;
    case RECORD_TEXT:
        return strcmp(sql_type, "TEXT") == 0;
    }
    return false;
}

static void test_columns_are_those_of_the_schema(void **state) {
    (void)state;
    char *folder = sample_folder();
    struct store *store = new_store(folder);
    for (int t = 0; t < RECORD_TABLE_COUNT; t++) {
        const struct record_table *table = &record_tables[t];
        char sql[256];
        snprintf(sql, sizeof sql, "SELECT name, type, \"notnull\", pk FROM pragma_table_info('%s')",
                 table->name);
        sqlite3_stmt *row = db_prepare(store_db(store), sql, NULL);
        int c = table->owner_column != NULL ? -1 : 0;
        for (; db_step(store_db(store), row, NULL) == DB_ROW; c++) {
            const char *name = (const char *)sqlite3_column_text(row, 0);
            if (c >= table->column_count) fail_msg("%s.%s is not in record.c", table->name, name);
            const char *wanted = c < 0 ? table->owner_column : table->columns[c].name;
            if (strcmp(name, wanted) != 0)
                fail_msg("%s: column %s where record.c has %s", table->name, name, wanted);
            if (c >= 0 &&
                !type_agrees(table->columns[c].type, (const char *)sqlite3_column_text(row, 1),
                             sqlite3_column_int(row, 2) != 0, sqlite3_column_int(row, 3) != 0))
                fail_msg("%s.%s: type or NULL disagrees with record.c", table->name, name);
        }
        if (c != table->column_count) fail_msg("%s: %d columns in the schema", table->name, c);
        sqlite3_finalize(row);
    }
    store_close(store);
    sample_remove_folder(folder);
}

static void test_schema_version_is_that_of_the_code(void **state) {
    (void)state;
    char *folder = sample_folder();
    struct store *store = new_store(folder);
    int64_t version, application;
    assert_true(db_integer(store_db(store), "PRAGMA user_version", &version, NULL));
    assert_true(db_integer(store_db(store), "PRAGMA application_id", &application, NULL));
    assert_int_equal(version, STORE_SCHEMA_VERSION);
    char letters[5] = { (char)(application >> 24), (char)(application >> 16),
                        (char)(application >> 8), (char)application, '\0' };
    assert_string_equal(letters, "Blst");
    store_close(store);
    sample_remove_folder(folder);
}

static void test_volatile_names_exist(void **state) {
    (void)state;
    char *text = text_of(BALLAST_SOURCE_DIR "/results/volatile.txt");
    int listed = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (line[0] == '#') continue;
        bool found = false;
        for (int t = 0; t < RECORD_TABLE_COUNT; t++) {
            for (int c = 0; c < record_tables[t].column_count; c++) {
                char name[128];
                snprintf(name, sizeof name, "%s.%s", record_tables[t].name,
                         record_tables[t].columns[c].name);
                found = found || strcmp(name, line) == 0;
            }
        }
        if (!found) fail_msg("volatile.txt: there is no column %s", line);
        listed++;
    }
    assert_true(listed > 0);
    free(text);
}

static void test_mfu_precision(void **state) {
    (void)state;
    static const struct {
        const char *scenario, *want;
    } cases[] = {
        { NULL, NULL },
        { "{", NULL },
        { "{ \"training\": { \"precision\": \"bf8\" } }", NULL },
        { "{ \"training\": { \"precision\": \"fp8\" } }", "fp8" },
        { "{ \"model\": \"m\", \"training\": { \"precision\": \"bf16\" } }", "bf16" },
        { "{ \"model\": { \"precision\": { \"vision\": \"fp8\" } },"
          " \"training\": { \"precision\": \"bf16\" } }",
          "bf16" },
        { "{ \"model\": { \"precision\": { \"language\": \"fp8\" } },"
          " \"training\": { \"precision\": \"bf16\" } }",
          "fp8" },
        { "{ \"model\": { \"precision\": { \"language\": \"fp8\","
          " \"diffusion_decoder\": \"fp4\" } }, \"training\": { \"precision\": \"bf16\" } }",
          "fp4" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = record_mfu_precision(cases[i].scenario);
        if ((got == NULL) != (cases[i].want == NULL) ||
            (got != NULL && strcmp(got, cases[i].want) != 0))
            fail_msg("case %zu: %s", i, got != NULL ? got : "none");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_table_view_and_column_is_explained),
        cmocka_unit_test(test_units_end_the_names),
        cmocka_unit_test(test_columns_are_those_of_the_schema),
        cmocka_unit_test(test_schema_version_is_that_of_the_code),
        cmocka_unit_test(test_mfu_precision),
        cmocka_unit_test(test_volatile_names_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
