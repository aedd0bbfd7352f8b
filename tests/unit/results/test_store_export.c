/* test_store_export.c - tables and views as CSV, JSON and Markdown. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <cjson/cJSON.h>
#include "tests/unit/results/sample_rows.h"

struct fixture {
    char *folder;
    struct store *store;
    struct error err;
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    f->folder = sample_folder();
    char path[256];
    snprintf(path, sizeof path, "%s/results.db", f->folder);
    f->store = store_open(path, DB_WRITE, &f->err);
    *state = f;
    return f->store != NULL && sample_store_run(f->store, "a, \"b\"|c\nd", 100.1, &f->err) &&
                   sample_store_run(f->store, "e", 200, &f->err)
               ? 0
               : -1;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    store_close(f->store);
    sample_remove_folder(f->folder);
    free(f);
    return 0;
}

/* The caller frees. */
static char *export(struct fixture *f, const char *table, int64_t run_id,
                    enum store_format format) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!store_export(f->store, table, run_id, format, out, &f->err)) fail_msg("%s", f->err.text);
    fclose(out);
    return text;
}

static void test_texts(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *table;
        int64_t run_id;
        enum store_format format;
        const char *want;
    } cases[] = {
        { "memory", 2, STORE_CSV,
          "run_id,stage_index,class,bytes\n2,0,activations,30000000000\n2,0,weights,12000000000\n"
          "2,1,weights,40000000000\n" },
        { "memory", 2, STORE_MARKDOWN,
          "| run_id | stage_index | class | bytes |\n|---:|---:|---|---:|\n"
          "| 2 | 0 | activations | 30000000000 |\n| 2 | 0 | weights | 12000000000 |\n"
          "| 2 | 1 | weights | 40000000000 |\n" },
        { "memory_point", 1, STORE_JSON,
          "[\n{\"run_id\": 1, \"point_index\": 0, \"dp_rank\": 0, \"stage_index\": 0, \"time_ns\": "
          "0,"
          " \"memory_bytes\": 42000000000},\n{\"run_id\": 1, \"point_index\": 1, \"dp_rank\": 0,"
          " \"stage_index\": 0, \"time_ns\": 1500001, \"memory_bytes\": "
          "43000000000},\n{\"run_id\": 1,"
          " \"point_index\": 2, \"dp_rank\": 0, \"stage_index\": 1, \"time_ns\": 0,"
          " \"memory_bytes\": 40000000000}\n]\n" },
        { "sweep_input", -1, STORE_CSV, "sweep_id,kind,name,fingerprint\n" },
        { "sweep_input", -1, STORE_JSON, "[\n]\n" },
        { "sweep_input", -1, STORE_MARKDOWN,
          "| sweep_id | kind | name | fingerprint |\n|---|---|---|---|\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *got = export(f, cases[i].table, cases[i].run_id, cases[i].format);
        if (strcmp(got, cases[i].want) != 0)
            fail_msg("%s as %s: got\n%s", cases[i].table, store_format_name(cases[i].format), got);
        free(got);
    }
}

static void test_hard_names(void **state) {
    struct fixture *f = *state;
    char *csv = export(f, "run", 1, STORE_CSV);
    assert_non_null(strstr(csv, "\n1,\"a, \"\"b\"\"|c\nd\",,"));
    assert_non_null(strstr(csv, ",100.1,")); /* 100.09999999999999 reads back as another number */
    free(csv);
    char *markdown = export(f, "run_summary", 1, STORE_MARKDOWN);
    assert_non_null(strstr(markdown, "| a, \"b\"\\|c d |"));
    free(markdown);
    char *json = export(f, "run", 1, STORE_JSON);
    cJSON *rows = cJSON_Parse(json);
    assert_int_equal(cJSON_GetArraySize(rows), 1);
    cJSON *run = cJSON_GetArrayItem(rows, 0);
    assert_string_equal(cJSON_GetObjectItem(run, "scenario_name")->valuestring, "a, \"b\"|c\nd");
    assert_true(cJSON_GetObjectItem(run, "step_time_mean_ms")->valuedouble == 100.1);
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(run, "money_usd")));
    cJSON_Delete(rows);
    free(json);
}

/* Every table and view, in every format, whole. */
static void test_everything_can_be_exported(void **state) {
    struct fixture *f = *state;
    sqlite3_stmt *names =
        db_prepare(store_db(f->store),
                   "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')", &f->err);
    int count = 0;
    for (; db_step(store_db(f->store), names, &f->err) == DB_ROW; count++) {
        const char *name = (const char *)sqlite3_column_text(names, 0);
        for (int format = 0; format < STORE_FORMAT_COUNT; format++) {
            char *text = export(f, name, -1, format);
            cJSON *rows = format == STORE_JSON ? cJSON_Parse(text) : NULL;
            if (format == STORE_JSON && !cJSON_IsArray(rows)) fail_msg("%s: bad JSON", name);
            cJSON_Delete(rows);
            free(text);
        }
    }
    sqlite3_finalize(names);
    assert_true(count > RECORD_TABLE_COUNT);
}

static void test_mistakes(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *table;
        int64_t run_id;
        const char *sentence;
    } cases[] = {
        { "iterations", -1,
          "there is no table or view 'iterations'\n  hint: did you mean 'iteration'?" },
        { "qqqqqqqqqqqqqqqqqqq", -1, "hint: there are breakdown, iteration, memory, " },
        { "run; DROP TABLE run", -1, "there is no table or view" },
        { "sweep", 1, "the rows of 'sweep' do not belong to single runs" },
    };
    FILE *out = fopen("/dev/null", "w");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (store_export(f->store, cases[i].table, cases[i].run_id, STORE_CSV, out, &f->err))
            fail_msg("%s: accepted", cases[i].table);
        if (strstr(f->err.text, cases[i].sentence) == NULL)
            fail_msg("%s: got: %s", cases[i].table, f->err.text);
    }
    fclose(out);
}

static void test_a_failed_write_is_a_failure(void **state) {
    struct fixture *f = *state;
    FILE *out = fopen("/dev/full", "w");
    if (out == NULL) skip();
    assert_false(store_export(f->store, "iteration", -1, STORE_CSV, out, &f->err));
    assert_non_null(strstr(f->err.text, "cannot write the rows of 'iteration'"));
    assert_true(f->err.internal);
    fclose(out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_texts),
        TEST(test_hard_names),
        TEST(test_mistakes),
        TEST(test_everything_can_be_exported),
        TEST(test_a_failed_write_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
