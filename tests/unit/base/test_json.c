/* test_json.c - positions and exact texts of errors, overrides, and files. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include "sim/base/file_read.h"
#include "sim/base/json.h"

static struct json *parse(const char *text) {
    struct error err = { 0 };
    struct json *json = json_parse("s.json", text, strlen(text), &err);
    if (json == NULL) fail_msg("%s", err.text);
    return json;
}

/* Follows a slash path by keys and item numbers. */
static cJSON *at(const struct json *json, const char *path) {
    cJSON *node = json_root(json);
    char part[64];
    int length;
    for (; sscanf(path, "/%63[^/]%n", part, &length) == 1; path += length)
        node = cJSON_IsArray(node) ? cJSON_GetArrayItem(node, atoi(part))
                                   : cJSON_GetObjectItemCaseSensitive(node, part);
    return node;
}

static void check_text(const char *name, const char *got, const char *want) {
    if (strcmp(got, want) != 0) fail_msg("%s:\ngot:\n%s\nwant:\n%s", name, got, want);
}

/* ---- what is not JSON ---- */

#define TOO_EARLY "the JSON text ends too early: a value, bracket or quote is missing"

static void test_syntax_errors(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        size_t size; /* 0: strlen */
        const char *want;
    } cases[] = {
        { "nothing", "", 0, "s.json:1:1: error: " TOO_EARLY "\n     1 | \n       | ^" },
        { "blank", " \n\n", 0, "s.json:1:1: error: " TOO_EARLY "\n     1 |  \n       | ^" },
        { "missing brace", "{\n  \"tp\": 2\n\n", 0,
          "s.json:2:10: error: " TOO_EARLY "\n     2 |   \"tp\": 2\n       |          ^\n"
          "  hint: the { of line 1 is still open" },
        { "missing value", "{\n  \"tp\": ,\n  \"pp\": 4\n}", 0,
          "s.json:2:9: error: expected a value, got a comma\n     2 |   \"tp\": ,\n       |        "
          " ^" },
        { "missing comma", "{ \"tp\": 2\n  \"pp\": 4 }", 0,
          "s.json:2:3: error: expected a comma or } after the value, got a text in quotes\n"
          "     2 |   \"pp\": 4 }\n       |   ^" },
        { "comma at the end", "{ \"tp\": 2, }", 0,
          "s.json:1:12: error: a comma before the closing bracket\n     1 | { \"tp\": 2, }\n"
          "       |            ^" },
        { "comma at the end of a list", "[ 1,\n]", 0,
          "s.json:2:1: error: a comma before the closing bracket\n     2 | ]\n       | ^" },
        { "comment", "{ // words\n  \"tp\": 2 }", 0,
          "s.json:1:3: error: JSON has no comments\n     1 | { // words\n       |   ^" },
#define NO_NUMBER(column, line, marker)                                                            \
    "s.json:1:" column ": error: not a number of JSON\n     1 | " line "\n       | " marker        \
    "\n  hint: no zero in front and digits on both sides of a point: 4, 0.5"
        { "zero in front", "[ 0, 04 ]", 0, NO_NUMBER("6", "[ 0, 04 ]", "     ^") },
        { "minus zero in front", "[ -0, -04 ]", 0, NO_NUMBER("7", "[ -0, -04 ]", "      ^") },
        { "nothing behind the point", "[ 10.5e-3, 1. ]", 0,
          NO_NUMBER("12", "[ 10.5e-3, 1. ]", "           ^") },
        { "nothing before the point", "[ \"04\", -.5 ]", 0,
          NO_NUMBER("9", "[ \"04\", -.5 ]", "        ^") },
        { "key without quotes", "{ \"a\": 1, tp: 2 }", 0,
          "s.json:1:11: error: expected a key in double quotes, got tp\n     1 | { \"a\": 1, tp: 2 "
          "}\n"
          "       |           ^~\n  hint: write \"tp\"" },
        { "quote missing", "{ \"tp: 2 }", 0,
          "s.json:1:3: error: the text that begins here has no closing quote\n"
          "     1 | { \"tp: 2 }\n       |   ^" },
        { "unknown escape", "[ \"{\\q\" ]", 0,
          "s.json:1:5: error: not an escape of JSON: \\q\n     1 | [ \"{\\q\" ]\n"
          "       |     ^~\n  hint: a backslash itself is written \\\\" },
        { "wrong bracket", "[ 1 }", 0,
          "s.json:1:5: error: expected a comma or ] after the value, got }\n     1 | [ 1 }\n"
          "       |     ^\n  hint: the [ of line 1 is still open" },
        { "text after the end", "{}\n{}", 0,
          "s.json:2:1: error: expected the end of the text, got {\n     2 | {}\n       | ^\n"
          "  hint: a file holds one value: { ... }" },
        { "a word", "{ \"sp\": True }", 0,
          "s.json:1:9: error: expected a value, got True\n     1 | { \"sp\": True }\n"
          "       |         ^~~~\n  hint: write true" },
        { "NUL byte", "{ \"a\": 1,\0 \"b\": 2 }", 19,
          "s.json:1:10: error: a NUL byte: this is not a text file\n"
          "     1 | { \"a\": 1,  \"b\": 2 }\n       |          ^" },
        { "escaped NUL", "{ \"a\": \"x\\u0000y\" }", 0,
          "s.json:1:10: error: a NUL character cannot stand in a text\n"
          "     1 | { \"a\": \"x\\u0000y\" }\n       |          ^" },
        { "NUL at the end", "{}\0", 3,
          "s.json:1:3: error: a NUL byte: this is not a text file\n     1 | {} \n       |   ^" },
        { "byte order mark is not counted", "\xef\xbb\xbf{ x }", 0,
          "s.json:1:3: error: expected a key in double quotes, got x\n     1 | { x }\n       |   "
          "^\n"
          "  hint: write \"x\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        size_t size = cases[i].size > 0 ? cases[i].size : strlen(cases[i].text);
        struct json *json = json_parse("s.json", cases[i].text, size, &err);
        if (json != NULL) fail_msg("%s: accepted", cases[i].name);
        check_text(cases[i].name, err.text, cases[i].want);
        assert_true(err.located);
        assert_false(err.internal);
        assert_null(json_parse("s.json", cases[i].text, size, NULL));
    }
}

static void test_byte_order_mark(void **state) {
    (void)state;
    struct json *json = parse("\xef\xbb\xbf{ \"a\": 3 }");
    assert_int_equal(at(json, "/a")->valueint, 3);
    struct error err = { 0 };
    json_error(json, at(json, "/a"), &err, NULL, "wrong");
    check_text("column", err.text,
               "s.json:1:8: error: /a: wrong\n     1 | { \"a\": 3 }\n       |        ^");
    json_destroy(json);
}

static void test_depth(void **state) {
    (void)state;
    static const struct {
        int depth;
        const char *bracket;
        bool accepted;
    } cases[] = {
        { 64, "[]", true },       { 65, "[]", false },      { 2000, "[]", false },
        { 1000000, "[]", false }, { 64, "{\"a\":}", true }, { 65, "{\"a\":}", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t open = strlen(cases[i].bracket) - 1, depth = (size_t)cases[i].depth;
        char *text = malloc(depth * (open + 1) + 2), *end = text;
        assert_non_null(text);
        for (size_t d = 0; d < depth; d++, end += open)
            memcpy(end, cases[i].bracket, open);
        if (open > 1) *end++ = '1';
        memset(end, cases[i].bracket[open], depth);
        size_t size = (size_t)(end - text) + depth;
        struct error err = { 0 };
        struct json *json = json_parse("s.json", text, size, &err);
        if ((json != NULL) != cases[i].accepted)
            fail_msg("%d levels of %s: %s", cases[i].depth, cases[i].bracket, err.text);
        if (json == NULL) {
            char want[64];
            snprintf(want, sizeof want, "s.json:1:%zu: error: nested too deep\n", 64 * open + 1);
            if (strncmp(err.text, want, strlen(want)) != 0) fail_msg("%s", err.text);
            assert_non_null(strstr(err.text, "^\n  hint: at most 64 levels of { and ["));
        }
        json_destroy(json);
        free(text);
    }
    /* Brackets in texts are no levels. */
    json_destroy(
        parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[\"]"));
}

static void test_duplicate_keys(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *want;
    } cases[] = {
        { "the second is marked", "{ \"tp\": 2,\n  \"pp\": 1,\n  \"tp\": 4 }",
          "s.json:3:3: error: /tp: duplicate key \"tp\"\n     3 |   \"tp\": 4 }\n"
          "       |   ^~~~\n  hint: keep one of the two" },
        { "within a list", "[ {}, { \"a\": {}, \"a\": [] } ]",
          "s.json:1:18: error: /1/a: duplicate key \"a\"\n     1 | [ {}, { \"a\": {}, \"a\": [] } "
          "]\n"
          "       |                  ^~~\n  hint: keep one of the two" },
        { "in another spelling", "{ \"tp\": 2, \"t\\u0070\": 4 }",
          "s.json:1:12: error: /tp: duplicate key \"tp\"\n     1 | { \"tp\": 2, \"t\\u0070\": 4 }\n"
          "       |            ^~~~~~~~~\n  hint: keep one of the two" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        if (json_parse("s.json", cases[i].text, strlen(cases[i].text), &err) != NULL)
            fail_msg("%s: accepted", cases[i].name);
        check_text(cases[i].name, err.text, cases[i].want);
    }
    json_destroy(parse("{ \"tp\": { \"tp\": 1 }, \"TP\": 2 }")); /* not the same key */
}

/* ---- what is wrong in its meaning ---- */

static void test_meaning_errors(void **state) {
    (void)state;
    static const char text[] = "{\n"
                               "  \"cluster\": { \"nic_GB_per_s\": -4, \"name\": \"a, }\\\"b\" },\n"
                               "  \"list\": [ 1, [ 2, 3 ],\t{ \"k\": null } ],\n"
                               "  \"last\":\n"
                               "    true\n"
                               "}\n";
    static const struct {
        const char *name, *path, *hint, *want;
    } cases[] = {
        { "number", "/cluster/nic_GB_per_s", "one-way bandwidth per GPU",
          "s.json:2:32: error: /cluster/nic_GB_per_s: is 7\n"
          "     2 |   \"cluster\": { \"nic_GB_per_s\": -4, \"name\": \"a, }\\\"b\" },\n"
          "       |                                ^~\n"
          "  hint: one-way bandwidth per GPU" },
        { "text", "/cluster/name", NULL,
          "s.json:2:44: error: /cluster/name: is 7\n"
          "     2 |   \"cluster\": { \"nic_GB_per_s\": -4, \"name\": \"a, }\\\"b\" },\n"
          "       |                                            ^~~~~~~~~" },
        { "object: its key", "/cluster", "",
          "s.json:2:3: error: /cluster: is 7\n"
          "     2 |   \"cluster\": { \"nic_GB_per_s\": -4, \"name\": \"a, }\\\"b\" },\n"
          "       |   ^" },
        { "item of a list in a list", "/list/1/1", NULL,
          "s.json:3:21: error: /list/1/1: is 7\n"
          "     3 |   \"list\": [ 1, [ 2, 3 ], { \"k\": null } ],\n"
          "       |                     ^" },
        { "behind a tab", "/list/2/k", NULL,
          "s.json:3:33: error: /list/2/k: is 7\n"
          "     3 |   \"list\": [ 1, [ 2, 3 ], { \"k\": null } ],\n"
          "       |                                 ^~~~" },
        { "value on the next line", "/last", NULL,
          "s.json:5:5: error: /last: is 7\n     5 |     true\n       |     ^~~~" },
        { "the document", "", NULL, "s.json:1:1: error: /: is 7\n     1 | {\n       | ^" },
    };
    struct json *json = parse(text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct error err = { 0 };
        char path[64];
        assert_false(json_error(json, at(json, cases[i].path), &err, cases[i].hint, "is %d", 7));
        check_text(cases[i].name, err.text, cases[i].want);
        json_path(json, at(json, cases[i].path), path, sizeof path);
        assert_string_equal(path, cases[i].path[0] != '\0' ? cases[i].path : "/");
    }
    struct error err = { 0 };
    json_error(json, NULL, &err, NULL, "is empty");
    check_text("no node", err.text, "s.json:1:1: error: /: is empty\n     1 | {\n       | ^");
    assert_false(json_error(json, NULL, NULL, NULL, "nobody listens"));
    json_destroy(json);
}

/* A line of a generated file may be longer than a screen: an excerpt around the place is shown. */
static void test_long_line(void **state) {
    (void)state;
    char text[4000] = "[";
    for (int i = 0; i < 500; i++)
        strcat(text, "10,");
    strcat(text, "77]");
    struct json *json = parse(text);
    struct error err = { 0 };
    json_error(json, at(json, "/500"), &err, NULL, "too much");
    const char *excerpt = strstr(err.text, "\n     1 | ");
    assert_non_null(excerpt);
    assert_int_equal(strncmp(err.text, "s.json:1:1502: error: /500: too much\n", 37), 0);
    const char *marker = strchr(excerpt + 1, '\n');
    assert_non_null(marker);
    assert_in_range(marker - excerpt, 20, 120);
    size_t column = (size_t)(strchr(marker, '^') - marker);
    assert_int_equal(strncmp(excerpt + column, "77]", 3), 0);
    json_destroy(json);
}

/* Control characters count as white space for the parser, so they must for the positions. */
static void test_control_characters_are_space(void **state) {
    (void)state;
    struct json *json = parse("{\x01\"a\"\x02:\x0b[1\x0c,\x1f\"x\"\x01], \"b\":5\x02}");
    struct error err = { 0 };
    json_error(json, at(json, "/a/1"), &err, NULL, "here");
    assert_int_equal(strncmp(err.text, "s.json:1:14: error: /a/1: here\n", 31), 0);
    json_error(json, at(json, "/b"), &err, NULL, "here");
    assert_int_equal(strncmp(err.text, "s.json:1:25: error: /b: here\n", 29), 0);
    json_destroy(json);
}

/* ---- --set ---- */

#define OVERRIDDEN                                                                                 \
    "{ \"model\": \"vlm\", \"layout\": { \"tp\": 2 }, \"mixes\": [ \"isf\", { \"name\": \"dip\" "  \
    "} ] }"

static void test_overrides(void **state) {
    (void)state;
    static const struct {
        const char *assignment, *want; /* the whole document afterwards */
    } cases[] = {
        { "layout.tp=8", "{\"model\":\"vlm\",\"layout\":{\"tp\":8},"
                         "\"mixes\":[\"isf\",{\"name\":\"dip\"}]}" },
        { "layout.pp=4", "{\"model\":\"vlm\",\"layout\":{\"tp\":2,\"pp\":4},"
                         "\"mixes\":[\"isf\",{\"name\":\"dip\"}]}" },
        { "simulate.seed=7", "{\"model\":\"vlm\",\"layout\":{\"tp\":2},"
                             "\"mixes\":[\"isf\",{\"name\":\"dip\"}],\"simulate\":{\"seed\":7}}" },
        { "model=other", "{\"model\":\"other\",\"layout\":{\"tp\":2},"
                         "\"mixes\":[\"isf\",{\"name\":\"dip\"}]}" },
        { "model=\"64\"", "{\"model\":\"64\",\"layout\":{\"tp\":2},"
                          "\"mixes\":[\"isf\",{\"name\":\"dip\"}]}" },
        { "model=a=b", "{\"model\":\"a=b\",\"layout\":{\"tp\":2},"
                       "\"mixes\":[\"isf\",{\"name\":\"dip\"}]}" },
        { "model=", "{\"model\":\"\",\"layout\":{\"tp\":2},"
                    "\"mixes\":[\"isf\",{\"name\":\"dip\"}]}" },
        { "model.frozen=[\"vision\"]",
          "{\"model\":{\"name\":\"vlm\",\"frozen\":[\"vision\"]},\"layout\":{\"tp\":2},"
          "\"mixes\":[\"isf\",{\"name\":\"dip\"}]}" },
        { "layout={\"tp\":1}", "{\"model\":\"vlm\",\"layout\":{\"tp\":1},"
                               "\"mixes\":[\"isf\",{\"name\":\"dip\"}]}" },
        { "mixes.0=bmp", "{\"model\":\"vlm\",\"layout\":{\"tp\":2},"
                         "\"mixes\":[\"bmp\",{\"name\":\"dip\"}]}" },
        { "mixes.0.qv=9", "{\"model\":\"vlm\",\"layout\":{\"tp\":2},"
                          "\"mixes\":[{\"name\":\"isf\",\"qv\":9},{\"name\":\"dip\"}]}" },
        { "mixes.1.name=null", "{\"model\":\"vlm\",\"layout\":{\"tp\":2},"
                               "\"mixes\":[\"isf\",{\"name\":null}]}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json *json = parse(OVERRIDDEN);
        struct error err = { 0 };
        if (!json_override(json, cases[i].assignment, &err))
            fail_msg("%s: %s", cases[i].assignment, err.text);
        char *got = cJSON_PrintUnformatted(json_root(json));
        check_text(cases[i].assignment, got, cases[i].want);
        cJSON_free(got);
        json_destroy(json);
    }
}

static void test_bad_overrides(void **state) {
    (void)state;
    static const struct {
        const char *assignment, *want;
    } cases[] = {
        { "layout.tp", "--set layout.tp: expected path=value, for example layout.tp=4" },
        { "=4", "--set =4: expected path=value, for example layout.tp=4" },
        { "", "--set : expected path=value, for example layout.tp=4" },
        { "layout.=4", "--set layout.=4: the path has an empty part" },
        { ".tp=4", "--set .tp=4: the path has an empty part" },
        { "layout..tp=4", "--set layout..tp=4: the path has an empty part" },
        { "layout.tp.x=4", "--set layout.tp.x=4: \"tp\" has nothing below it that could be set" },
        { "mixes.2=a", "--set mixes.2=a: the list has no item \"2\"" },
        { "mixes.-1=a", "--set mixes.-1=a: the list has no item \"-1\"" },
        { "mixes.4294967296=a", "--set mixes.4294967296=a: the list has no item \"4294967296\"" },
        { "mixes.first=a", "--set mixes.first=a: the list has no item \"first\"" },
        { "mixes.7.name=a", "--set mixes.7.name=a: \"7\" has nothing below it that could be set" },
        { "layout={\"tp\":1,\"tp\":2}",
          "--set layout={\"tp\":1,\"tp\":2}: /layout/tp: duplicate key \"tp\"\n"
          "  hint: keep one of the two" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json *json = parse(OVERRIDDEN);
        struct error err = { 0 };
        if (json_override(json, cases[i].assignment, &err))
            fail_msg("%s: accepted", cases[i].assignment);
        check_text(cases[i].assignment, err.text, cases[i].want);
        assert_false(err.located);
        json_destroy(json);
    }
}

static void test_override_depth(void **state) {
    (void)state;
    char assignment[512];
    for (int parts = 60; parts <= 80; parts++) {
        assignment[0] = '\0';
        for (int i = 0; i < parts; i++)
            strcat(assignment, i > 0 ? ".a" : "a");
        strcat(assignment, "=[[1]]"); /* in all: the root, an object a part but the last, 2 lists */
        struct json *json = parse("{}");
        struct error err = { 0 };
        bool accepted = json_override(json, assignment, &err);
        if (accepted != (parts + 2 <= 64)) fail_msg("%d parts: %s", parts, err.text);
        if (!accepted) assert_non_null(strstr(err.text, "=[[1]]: nested more than 64 levels deep"));
        json_destroy(json);
    }
}

static void test_errors_after_overrides(void **state) {
    (void)state;
    static const struct {
        const char *name, *path, *want;
    } cases[] = {
        { "the value itself", "/layout/tp", "--set layout.tp=3: /layout/tp: bad\n  hint: h" },
        { "below the value", "/policy/x", "--set policy={\"x\":1}: /policy/x: bad\n  hint: h" },
        { "an object made on the way", "/simulate",
          "--set simulate.seed=7: /simulate: bad\n  hint: h" },
        { "the newest of two", "/layout/pp", "--set layout.pp=5: /layout/pp: bad\n  hint: h" },
        { "a key that begins alike", "/layout/tpx",
          "s.json:1:68: error: /layout/tpx: bad\n"
          "     1 | { \"model\": \"vlm\", \"list\": [ 0, 1, 2 ], \"layout\": { \"tp\": 2, "
          "\"tpx\": 1 } }\n"
          "       |                                                                    ^\n"
          "  hint: h" },
        { "the name of a row that was a text", "/model/name",
          "s.json:1:12: error: /model/name: bad\n"
          "     1 | { \"model\": \"vlm\", \"list\": [ 0, 1, 2 ], \"layout\": { \"tp\": 2, "
          "\"tpx\": 1 } }\n"
          "       |            ^~~~~\n"
          "  hint: h" },
        { "an item of a list", "/list/1", "--set list.1=9: /list/1: bad\n  hint: h" },
    };
    struct json *json =
        parse("{ \"model\": \"vlm\", \"list\": [ 0, 1, 2 ], \"layout\": { \"tp\": 2, "
              "\"tpx\": 1 } }");
    static const char *const assignments[] = { "layout.tp=3",     "layout.pp=4",
                                               "layout.pp=5",     "policy={\"x\":1}",
                                               "simulate.seed=7", "model.frozen=[]",
                                               "list.1=9" };
    struct error err = { 0 };
    for (size_t i = 0; i < sizeof assignments / sizeof assignments[0]; i++)
        if (!json_override(json, assignments[i], &err)) fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_non_null(at(json, cases[i].path));
        assert_false(json_error(json, at(json, cases[i].path), &err, "h", "bad"));
        check_text(cases[i].name, err.text, cases[i].want);
    }
    json_destroy(json);
}

/* What stands behind a removed key is still found in the text. */
static void test_removed_keys(void **state) {
    (void)state;
    struct json *json = parse("{ \"a\": 1, \"b\": { \"x\": 1, \"y\": 2, \"z\": 3 }, \"c\": 4 }");
    struct error err = { 0 };
    static const char *const removed[] = { "b.x", "a", "b.y" };
    for (size_t i = 0; i < sizeof removed / sizeof removed[0]; i++) {
        if (!json_remove(json, removed[i], &err)) fail_msg("%s", err.text);
        if (json_remove(json, removed[i], &err)) fail_msg("%s twice", removed[i]);
    }
    assert_null(at(json, "/a"));
    assert_null(at(json, "/b/x"));
    assert_null(at(json, "/b/y"));
    assert_false(json_error(json, at(json, "/b/z"), &err, NULL, "bad"));
    assert_non_null(strstr(err.text, "s.json:1:39: error: /b/z: bad"));
    assert_false(json_error(json, at(json, "/c"), &err, NULL, "bad"));
    assert_non_null(strstr(err.text, "s.json:1:49: error: /c: bad"));
    assert_false(json_override(json, "-a", &err));
    check_text("no assignment", err.text, "--set -a: expected path=value, for example layout.tp=4");
    assert_true(json_override(json, "a=7", &err));
    assert_false(json_error(json, at(json, "/a"), &err, NULL, "bad"));
    check_text("set again", err.text, "--set a=7: /a: bad");
    static const char *const wrong[] = { "", "q", "b.q.r", "c.d" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char want[64];
        snprintf(want, sizeof want, "--unset %s: there is no such key in s.json", wrong[i]);
        assert_false(json_remove(json, wrong[i], &err));
        err.text[strcspn(err.text, "\n")] = '\0'; /* a near name, perhaps */
        check_text(wrong[i], err.text, want);
    }
    assert_false(json_remove(json, "b.zz", &err));
    assert_non_null(strstr(err.text, "\n  hint: did you mean \"b.z\"?"));
    json_destroy(json);
}

/* ---- files ---- */

static void test_files(void **state) {
    (void)state;
    char folder[] = "/tmp/test_json_XXXXXX", path[64], want[160];
    assert_non_null(mkdtemp(folder));
    struct error err = { 0 };

    snprintf(path, sizeof path, "%s/none.json", folder);
    assert_null(json_load(path, &err));
    snprintf(want, sizeof want, "cannot read %s: No such file or directory", path);
    check_text("missing", err.text, want);
    assert_null(json_load(folder, &err));
    snprintf(want, sizeof want, "cannot read %s: it is not a file", folder);
    check_text("folder", err.text, want);

    snprintf(path, sizeof path, "%s/a.json", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{ \"a\": 1 }\n", file);
    fclose(file);
    struct json *json = json_load(path, &err);
    assert_non_null(json);
    assert_string_equal(json_name(json), path);
    assert_int_equal(at(json, "/a")->valueint, 1);
    json_destroy(json);
    json_destroy(NULL);

    file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    char *text;
    size_t size;
    assert_true(file_read(path, &text, &size, &err));
    assert_int_equal(size, 0);
    free(text);
    unlink(path);

    /* 1 MB that packs to almost nothing: the buffer has to grow. */
    enum { LARGE = 1000000 };
    char *large = malloc(LARGE);
    assert_non_null(large);
    for (int i = 0; i < LARGE; i++)
        large[i] = (char)('a' + i % 26);
    snprintf(path, sizeof path, "%s/a.csv.gz", folder);
    gzFile packed = gzopen(path, "wb");
    assert_int_equal(gzwrite(packed, large, LARGE), LARGE);
    gzclose(packed);
    if (!file_read(path, &text, &size, &err)) fail_msg("%s", err.text);
    assert_int_equal(size, LARGE);
    assert_memory_equal(text, large, LARGE);
    free(text);
    free(large);

    assert_int_equal(truncate(path, 500), 0);
    assert_false(file_read(path, &text, &size, &err));
    snprintf(want, sizeof want, "cannot read %s: the compressed file is cut short", path);
    check_text("cut short", err.text, want);
    unlink(path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_syntax_errors),
        cmocka_unit_test(test_byte_order_mark),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_duplicate_keys),
        cmocka_unit_test(test_meaning_errors),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_control_characters_are_space),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_bad_overrides),
        cmocka_unit_test(test_override_depth),
        cmocka_unit_test(test_errors_after_overrides),
        cmocka_unit_test(test_removed_keys),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
