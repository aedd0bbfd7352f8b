/* test_field.c - field tables: types, ranges, defaults, exact error texts, writing, describing. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim/base/field.h"

struct sample {
    bool sp;
    int64_t tp, limit_count;
    double nic_GB_per_s, price_usd, ratio;
    const char *name, *note;
    int schedule;
    const cJSON *extra;
};

#define AT(member) offsetof(struct sample, member)

static const char *const schedules[] = { "gpipe", "1f1b", "interleaved", NULL };

static const struct field fields[] = {
    { "name", FIELD_TEXT, AT(name), 0, 0, NULL, "", "what it is called", NULL },
    { "sp", FIELD_BOOL, AT(sp), 0, 0, "true", "", "sequence parallel", NULL },
    { "tp", FIELD_COUNT, AT(tp), 1, 64, "2", "GPUs", "tensor parallel degree", NULL },
    { "limit_count", FIELD_COUNT, AT(limit_count), 0, 10, "null", "", "null: no limit", NULL },
    { "nic_GB_per_s", FIELD_DOUBLE, AT(nic_GB_per_s), 1e-3, 1e4, "50", "GB/s", "one-way", NULL },
    { "price_usd", FIELD_DOUBLE, AT(price_usd), 0, 0, "null", "USD", "null: unknown", NULL },
    { "ratio", FIELD_DOUBLE, AT(ratio), 0, 1, "0.5", "", "a share", NULL },
    { "note", FIELD_TEXT, AT(note), 0, 0, "null", "", "free text", NULL },
    { "schedule", FIELD_CHOICE, AT(schedule), 0, 0, "\"1f1b\"", "", "order of tasks", schedules },
    { "extra", FIELD_NODE, AT(extra), 0, 0, "null", "", "anything", NULL },
};

static const struct field_table table = FIELD_TABLE("layout", "how the model is cut", fields);

struct reading {
    struct arena *arena;
    struct json *json;
    struct sample values;
    struct error err;
    bool ok;
};

static struct reading read_text(const char *text) {
    struct reading r = { .arena = arena_create() };
    memset(&r.values, 0x5a, sizeof r.values); /* nothing may be left as it was */
    r.json = json_parse("s.json", text, strlen(text), &r.err);
    if (r.json == NULL) fail_msg("%s", r.err.text);
    r.ok = field_table_read(&table, r.json, json_root(r.json), &r.values, r.arena, &r.err);
    return r;
}

static void forget(struct reading *r) {
    json_destroy(r->json);
    arena_destroy(r->arena);
}

static void test_defaults(void **state) {
    (void)state;
    struct reading r = read_text("{ \"name\": \"x\" }");
    if (!r.ok) fail_msg("%s", r.err.text);
    assert_string_equal(r.values.name, "x");
    assert_true(r.values.sp);
    assert_int_equal(r.values.tp, 2);
    assert_int_equal(r.values.limit_count, -1);
    assert_true(r.values.nic_GB_per_s == 50.0);
    assert_true(isnan(r.values.price_usd));
    assert_true(r.values.ratio == 0.5);
    assert_null(r.values.note);
    assert_int_equal(r.values.schedule, 1);
    assert_null(r.values.extra);
    forget(&r);
}

static void test_no_object_gives_the_defaults(void **state) {
    (void)state;
    static const struct field some[] = {
        { "tp", FIELD_COUNT, AT(tp), 1, 64, "2", "GPUs", "tensor parallel degree", NULL },
        { "ratio", FIELD_DOUBLE, AT(ratio), 0, 1, "0.25", "", "a share", NULL },
    };
    static const struct field_table optional = FIELD_TABLE("layout", "all optional", some);
    struct error err = { 0 };
    struct arena *arena = arena_create();
    struct json *json = json_parse("s.json", "{}", 2, &err);
    struct sample values = { 0 };
    assert_true(field_table_read(&optional, json, NULL, &values, arena, &err));
    assert_int_equal(values.tp, 2);
    assert_true(values.ratio == 0.25);
    assert_false(field_table_read(&table, json, NULL, &values, arena, &err));
    assert_non_null(strstr(err.text, "/: \"name\" is missing from \"layout\""));
    json_destroy(json);
    arena_destroy(arena);
}

static void test_values(void **state) {
    (void)state;
    struct reading r = read_text(
        "{ \"extra\": [1, {}], \"schedule\": \"interleaved\", \"note\": \"\\u00e9\", \"ratio\": 1,"
        " \"price_usd\": -1e300, \"nic_GB_per_s\": 0.001, \"limit_count\": 0, \"tp\": 64.0,"
        " \"sp\": false, \"name\": \"a\" }");
    if (!r.ok) fail_msg("%s", r.err.text);
    assert_string_equal(r.values.name, "a");
    assert_false(r.values.sp);
    assert_int_equal(r.values.tp, 64);
    assert_int_equal(r.values.limit_count, 0);
    assert_true(r.values.nic_GB_per_s == 0.001);
    assert_true(r.values.price_usd == -1e300);
    assert_true(r.values.ratio == 1.0);
    assert_string_equal(r.values.note, "\xc3\xa9");
    assert_int_equal(r.values.schedule, 2);
    assert_ptr_equal(r.values.extra, cJSON_GetObjectItemCaseSensitive(json_root(r.json), "extra"));
    forget(&r);
}

static void test_texts_outlive_the_document(void **state) {
    (void)state;
    struct reading r = read_text("{ \"name\": \"first\", \"note\": \"second\" }");
    assert_true(r.ok);
    json_destroy(r.json);
    assert_string_equal(r.values.name, "first");
    assert_string_equal(r.values.note, "second");
    arena_destroy(r.arena);
}

/* A name and a reference say something; words for the reader may be none. */
static void test_blank_texts(void **state) {
    (void)state;
    static const char *const blank[] = { "{ \"name\": \"\" }", "{ \"name\": \" \\t\" }" };
    for (size_t i = 0; i < sizeof blank / sizeof blank[0]; i++) {
        struct reading r = read_text(blank[i]);
        assert_false(r.ok);
        assert_non_null(strstr(r.err.text, "s.json:1:11: error: /name: must not be empty"));
        assert_non_null(strstr(r.err.text, "hint: what it is called"));
        forget(&r);
    }
    struct reading r = read_text("{ \"name\": \"x\", \"note\": \"\" }");
    assert_true(r.ok);
    assert_string_equal(r.values.note, "");
    forget(&r);
}

/* In the cases of test_errors the document is { "name": "x", "KEY": VALUE }. */
static void test_errors(void **state) {
    (void)state;
    static const struct {
        const char *key, *value, *want, *hint;
    } cases[] = {
        { "sp", "1", "must be true or false, got 1", "sequence parallel" },
        { "sp", "null", "must be true or false, got null", "sequence parallel" },
        { "tp", "0", "must be 1 to 64 GPUs, got 0", "tensor parallel degree" },
        { "tp", "65", "must be 1 to 64 GPUs, got 65", "tensor parallel degree" },
        { "tp", "2.5", "must be a whole number, got 2.5", "tensor parallel degree" },
        { "tp", "\"2\"", "must be a whole number, got \"2\"", "tensor parallel degree" },
        { "tp", "null", "must be a whole number, got null", "tensor parallel degree" },
        { "tp", "1e300", "must be a whole number, got one that is too large",
          "tensor parallel degree" },
        { "tp", "[2]", "must be a whole number, got [2]", "tensor parallel degree" },
        { "limit_count", "-1", "must be 0 to 10, got -1", "null: no limit" },
        { "nic_GB_per_s", "-4", "must be 0.001 to 10000 GB/s, got -4", "one-way" },
        { "nic_GB_per_s", "null", "must be a number, got null", "one-way" },
        { "nic_GB_per_s", "true", "must be a number, got true", "one-way" },
        { "price_usd", "1e999", "must be a number, got one that is too large", "null: unknown" },
        { "ratio", "1.0000001", "must be 0 to 1, got 1.0000001", "a share" },
        { "note", "7", "must be a text in quotes, got 7", "free text" },
        { "note", "{\"a\":\"0123456789012345678901234567890123456789012345678901234567890\"}",
          "must be a text in quotes, got "
          "{\"a\":\"012345678901234567890123456789012345678901234567890123",
          "free text" },
        { "schedule", "2", "must be a text in quotes, got 2", "order of tasks" },
        { "schedule", "\"interleave\"", "unknown schedule \"interleave\"",
          "did you mean \"interleaved\"? one of: gpipe, 1f1b, interleaved" },
        { "schedule", "\"1F1B\"", "unknown schedule \"1F1B\"",
          "did you mean \"1f1b\"? one of: gpipe, 1f1b, interleaved" },
        { "schedule", "\"zero-bubble\"", "unknown schedule \"zero-bubble\"",
          "one of: gpipe, 1f1b, interleaved" },
        { "shedule", "\"1f1b\"", "unknown key \"shedule\" in \"layout\"",
          "did you mean \"schedule\"?" },
        { "TP", "2", "unknown key \"TP\" in \"layout\"", "did you mean \"tp\"?" },
        { "nic", "2", "unknown key \"nic\" in \"layout\"", "did you mean \"nic_GB_per_s\"?" },
        { "colour", "2", "unknown key \"colour\" in \"layout\"",
          "one of: name, sp, tp, limit_count, nic_GB_per_s, price_usd, ratio, note, schedule, "
          "extra" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256], want[512];
        snprintf(text, sizeof text, "{ \"name\": \"x\", \"%s\": %s }", cases[i].key,
                 cases[i].value);
        struct reading r = read_text(text);
        if (r.ok) fail_msg("%s: accepted", text);
        /* Scalars are marked themselves, lists, objects and what is unknown by their key. */
        bool scalar = strchr("[{", cases[i].value[0]) == NULL &&
                      strncmp(cases[i].want, "unknown key", strlen("unknown key")) != 0;
        size_t column = scalar ? 20 + strlen(cases[i].key) : 16;
        snprintf(want, sizeof want, "s.json:1:%zu: error: /%s: %s\n     1 | %.96s\n", column,
                 cases[i].key, cases[i].want, text);
        if (strncmp(r.err.text, want, strlen(want)) != 0)
            fail_msg("%s:\ngot:\n%s\nwant:\n%s", text, r.err.text, want);
        snprintf(want, sizeof want, "\n  hint: %s", cases[i].hint);
        const char *hint = strstr(r.err.text, "\n  hint: ");
        if (hint == NULL || strcmp(hint, want) != 0)
            fail_msg("%s: got:\n%s\nwant:%s", text, r.err.text, want);
        forget(&r);
    }
}

static void test_the_whole_text(void **state) {
    (void)state;
    struct reading r = read_text("{\n  \"name\": \"x\",\n  \"nic_GB_per_s\": -4\n}");
    assert_string_equal(r.err.text,
                        "s.json:3:19: error: /nic_GB_per_s: must be 0.001 to 10000 GB/s, got -4\n"
                        "     3 |   \"nic_GB_per_s\": -4\n"
                        "       |                   ^~\n"
                        "  hint: one-way");
    forget(&r);
    r = read_text("{ \"tp\": 2 }");
    assert_string_equal(r.err.text, "s.json:1:1: error: /: \"name\" is missing from \"layout\"\n"
                                    "     1 | { \"tp\": 2 }\n"
                                    "       | ^\n"
                                    "  hint: what it is called");
    forget(&r);
    r = read_text("[ 1 ]");
    assert_string_equal(r.err.text, "s.json:1:1: error: /: \"layout\" must be an object { ... }\n"
                                    "     1 | [ 1 ]\n"
                                    "       | ^\n"
                                    "  hint: its keys: name, sp, tp, limit_count, nic_GB_per_s, "
                                    "price_usd, ratio, note, schedule, extra");
    forget(&r);
}

static void test_a_name_is_one_line(void **state) {
    (void)state;
    static const char *const names[] = { "a\\nb", "a\\u001b[31m", "a\\u007f" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "{ \"name\": \"%s\" }", names[i]);
        struct reading r = read_text(text);
        if (strstr(r.err.text, "/name: must be one line without control characters") == NULL)
            fail_msg("%s: got %s", text, r.err.text);
        forget(&r);
    }
    struct reading note = read_text("{ \"name\": \"x\", \"note\": \"two\\nlines\" }");
    assert_true(note.ok);
    forget(&note);
}

static void test_override_is_named(void **state) {
    (void)state;
    struct reading r = read_text("{ \"name\": \"x\" }");
    assert_true(json_override(r.json, "tp=100", &r.err));
    assert_false(field_table_read(&table, r.json, json_root(r.json), &r.values, r.arena, &r.err));
    assert_string_equal(r.err.text, "--set tp=100: /tp: must be 1 to 64 GPUs, got 100\n"
                                    "  hint: tensor parallel degree");
    forget(&r);
}

/* What is written, read again, gives the same text: resolved scenarios depend on it. */
static void test_write_round_trip(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        { "{ \"name\": \"x\" }",
          "{\"name\":\"x\",\"sp\":true,\"tp\":2,\"limit_count\":null,\"nic_GB_per_s\":50,"
          "\"price_usd\":null,\"ratio\":0.5,\"note\":null,\"schedule\":\"1f1b\",\"extra\":null}" },
        { "{ \"extra\": { \"k\": [ 1 ] }, \"name\": \"y\", \"note\": \"n\", \"tp\": 8,"
          " \"sp\": false, \"limit_count\": 3, \"price_usd\": 0.1, \"schedule\": \"gpipe\" }",
          "{\"name\":\"y\",\"sp\":false,\"tp\":8,\"limit_count\":3,\"nic_GB_per_s\":50,"
          "\"price_usd\":0.1,\"ratio\":0.5,\"note\":\"n\",\"schedule\":\"gpipe\","
          "\"extra\":{\"k\":[1]}}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].text;
        for (int pass = 0; pass < 2; pass++) {
            struct reading r = read_text(text);
            if (!r.ok) fail_msg("case %zu, pass %d: %s", i, pass, r.err.text);
            cJSON *written = field_table_write(&table, &r.values);
            char *got = cJSON_PrintUnformatted(written);
            assert_string_equal(got, cases[i].want);
            cJSON_free(got);
            cJSON_Delete(written);
            forget(&r);
            text = cases[i].want;
        }
    }
}

static char *described(void (*describe)(const struct field_table *, FILE *)) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    describe(&table, stream);
    fclose(stream);
    return text;
}

static void test_help(void **state) {
    (void)state;
    char *text = described(field_table_help);
    assert_string_equal(
        text, "    name                       what it is called (text; required)\n"
              "    sp                         sequence parallel (true | false; default true)\n"
              "    tp                         tensor parallel degree [GPUs] (1 to 64; default 2)\n"
              "    limit_count                null: no limit (0 to 10; default null)\n"
              "    nic_GB_per_s               one-way [GB/s] (0.001 to 10000; default 50)\n"
              "    price_usd                  null: unknown [USD] (number; default null)\n"
              "    ratio                      a share (0 to 1; default 0.5)\n"
              "    note                       free text (text; default null)\n"
              "    schedule                   order of tasks (gpipe | 1f1b | interleaved; default "
              "\"1f1b\")\n"
              "    extra                      anything (see below; default null)\n");
    free(text);
}

static void test_markdown(void **state) {
    (void)state;
    char *text = described(field_table_markdown);
    static const char begin[] = "| key | values | unit | default | meaning |\n"
                                "|---|---|---|---|---|\n"
                                "| `name` | text |  | required | what it is called |\n";
    assert_int_equal(strncmp(text, begin, strlen(begin)), 0);
    assert_non_null(strstr(text, "\n| `tp` | 1 to 64 | GPUs | `2` | tensor parallel degree |\n"));
    assert_non_null(strstr(text, "\n| `schedule` | gpipe, 1f1b, interleaved |  | `\"1f1b\"` | "
                                 "order of tasks |\n"));
    free(text);
}

static void test_find(void **state) {
    (void)state;
    assert_ptr_equal(field_table_find(&table, "ratio"), &fields[6]);
    assert_null(field_table_find(&table, "Ratio"));
    assert_null(field_table_find(&table, ""));
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const names[] = { "tp",          "pp",           "vpp", "zero_stage",
                                         "micro_batch", "global_batch", "k",   NULL };
    static const struct {
        const char *wanted, *want; /* NULL: none is near */
    } cases[] = {
        { "tp", "tp" },
        { "ZERO_STAGE", "zero_stage" },
        { "zero-stage", "zero_stage" },
        { "zerostage", "zero_stage" },
        { "zero_satge", "zero_stage" },
        { "mcro_bach", "micro_batch" },
        { "stage", "zero_stage" },
        { "global_batch_size", "global_batch" },
        { "recompute", NULL },
        { "kind", NULL },
        { "https", NULL },
        { "a_name_that_is_longer_than_any_name_a_table_could_reasonably_hold_in_it", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = nearest_in_list(cases[i].wanted, names);
        bool same = got == NULL || cases[i].want == NULL ? got == cases[i].want
                                                         : strcmp(got, cases[i].want) == 0;
        if (!same)
            fail_msg("%s: got %s, want %s", cases[i].wanted, got != NULL ? got : "none",
                     cases[i].want != NULL ? cases[i].want : "none");
    }
    static const char *const none[] = { NULL };
    assert_null(nearest_in_list("tp", none));
}

/* A typing error has one near name; else those that share the most whole words are meant. */
static void test_hint_of_files(void **state) {
    (void)state;
    static const char *const files[] = { "alps",      "aws-p4d",       "aws-p5",
                                         "gh200-96g", "h100-80g-pcie", "h100-80g-sxm",
                                         "h20-96g",   "h200-141g-sxm", "llama3-8b",
                                         "eva-8b-20b" };
    static const struct {
        const char *wanted, *want;
    } cases[] = {
        { "h100", "did you mean 'h100-80g-pcie' or 'h100-80g-sxm'?" },
        { "NVIDIA H100 SXM", "did you mean 'h100-80g-sxm'?" },
        { "h20", "did you mean 'h20-96g'?" },
        { "h100-80g-smx", "did you mean 'h100-80g-sxm'?" },
        { "200-141g", "did you mean 'h200-141g-sxm'?" },
        { "96g", "did you mean 'gh200-96g' or 'h20-96g'?" },
        { "aws", "did you mean 'aws-p4d' or 'aws-p5'?" },
        { "alp", "did you mean 'alps'?" },
        { "llama-3.1-8b", "did you mean 'llama3-8b'?" },
        { "tpu-v5", "there are: alps, aws-p4d, aws-p5, eva-8b-20b, gh200-96g, h100-80g-pcie, " },
    };
    struct arena *arena = arena_create();
    char folder[] = "/tmp/ballast-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        fclose(fopen(arena_format(arena, "%s/%s.json", folder, files[i]), "w"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        error_set(&err, "no");
        hint_of_files(&err, folder, cases[i].wanted);
        if (strstr(err.text, cases[i].want) == NULL) fail_msg("%s: %s", cases[i].wanted, err.text);
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(arena_format(arena, "%s/%s.json", folder, files[i]));
    assert_int_equal(rmdir(folder), 0);
    arena_destroy(arena);
}

/* Of more names than one looks through, a first word that several share stands for them. */
static void test_hint_of_many_files(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char folder[] = "/tmp/ballast-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    static const char *const others[] = { "alps", "aws-p4d", "h1000", "h1001-80g" };
    const char *files[90];
    for (size_t i = 0; i < 90; i++)
        files[i] = arena_format(arena, "%s/%s.json", folder,
                                i < 4 ? others[i] : arena_format(arena, "h100-%zu", i));
    for (size_t i = 0; i < 90; i++)
        fclose(fopen(files[i], "w"));
    struct error err = { 0 };
    error_set(&err, "no");
    hint_of_files(&err, folder, "tpu");
    if (strstr(err.text, "there are: alps, aws-p4d, h100-*, h1000, h1001-80g") == NULL)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < 90; i++)
        unlink(files[i]);
    assert_int_equal(rmdir(folder), 0);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_no_object_gives_the_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_texts_outlive_the_document),
        cmocka_unit_test(test_blank_texts),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_the_whole_text),
        cmocka_unit_test(test_override_is_named),
        cmocka_unit_test(test_a_name_is_one_line),
        cmocka_unit_test(test_write_round_trip),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_markdown),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_hint_of_files),
        cmocka_unit_test(test_hint_of_many_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
