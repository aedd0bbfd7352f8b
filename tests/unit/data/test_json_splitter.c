/* test_json_splitter.c - tests. */
#include "tests/unit/data/fixture.h"
#include "sim/data/json_splitter.h"

/* Every element as "line:column text|". */
struct record_of_calls {
    char text[4096];
};

static bool on_element(void *context, const char *text, size_t length, long line, long column,
                       struct error *err) {
    (void)err;
    struct record_of_calls *r = context;
    size_t used = strlen(r->text);
    assert_int_equal(strlen(text), length);
    snprintf(r->text + used, sizeof r->text - used, "%ld:%ld %s|", line, column, text);
    return true;
}

static bool split(const char *text, size_t piece, enum json_splitter_mode mode,
                  struct record_of_calls *calls, struct error *err) {
    struct json_splitter s;
    size_t size = strlen(text);
    bool ok = true;
    calls->text[0] = '\0';
    err->text[0] = '\0';
    json_splitter_init(&s, "f", mode, on_element, calls);
    for (size_t at = 0; ok && at < size; at += piece)
        ok = json_splitter_feed(&s, text + at, size - at < piece ? size - at : piece, err);
    ok = ok && json_splitter_finish(&s, err);
    json_splitter_free(&s);
    return ok;
}

static const struct {
    const char *name, *text;
    enum json_splitter_mode mode;
    const char *want;  /* elements found */
    const char *error; /* NULL: none */
} cases[] = {
    { "objects", "[{\"a\":1},\n {\"b\":[2,{}]}]", JSON_SPLITTER_AUTO,
      "1:2 {\"a\":1}|2:2 {\"b\":[2,{}]}|", NULL },
    { "brackets and quotes in strings", "[{\"a\":\"]}\\\"[{\"},\"x,\\\\\"]", JSON_SPLITTER_AUTO,
      "1:2 {\"a\":\"]}\\\"[{\"}|1:17 \"x,\\\\\"|", NULL },
    { "scalars", "[1, -2.5e3 ,true\n,null]", JSON_SPLITTER_AUTO,
      "1:2 1|1:5 -2.5e3|1:13 true|2:2 null|", NULL },
    { "pairs", " [[1,2],[3,4]] \n", JSON_SPLITTER_AUTO, "1:3 [1,2]|1:9 [3,4]|", NULL },
    { "empty list", "[ ]", JSON_SPLITTER_AUTO, "", NULL },
    { "lines", "{\"a\":1}\n\n{\"b\":2}\r\n3", JSON_SPLITTER_AUTO,
      "1:1 {\"a\":1}|3:1 {\"b\":2}|4:1 3|", NULL },
    { "lines of pairs", "[1,2]\n[3,4]\n", JSON_SPLITTER_LINES, "1:1 [1,2]|2:1 [3,4]|", NULL },
    { "lines end in a number", "1\n22", JSON_SPLITTER_LINES, "1:1 1|2:1 22|", NULL },
    { "nothing", " \n", JSON_SPLITTER_AUTO, "", "f is empty" },
    { "cut in an object", "[{\"a\":1},\n{\"b\":\n", JSON_SPLITTER_AUTO, "1:2 {\"a\":1}|",
      "f:3:1: error: the file ends inside the record that begins on line 2: is it cut short?" },
    { "cut in a string", "[{\"a\":1},\n{\"b\": \"x", JSON_SPLITTER_AUTO, "1:2 {\"a\":1}|",
      "f:2:9: error: the file ends inside the record that begins on line 2: is it cut short?" },
    { "cut in a number", "[12", JSON_SPLITTER_AUTO, "",
      "f:1:4: error: the file ends inside the record that begins on line 1: is it cut short?" },
    { "cut behind an object", "[{\"a\":1}\n", JSON_SPLITTER_AUTO, "1:2 {\"a\":1}|",
      "f:2:1: error: the file ends before the list's ']': is it cut short?" },
    { "cut behind a comma", "[1,", JSON_SPLITTER_AUTO, "1:2 1|",
      "f:1:4: error: the file ends before the list's ']': is it cut short?" },
    { "no comma", "[{} {}]", JSON_SPLITTER_AUTO, "1:2 {}|",
      "f:1:5: error: expected ',' or ']' behind a record, got '{'" },
    { "two commas", "[1,,2]", JSON_SPLITTER_AUTO, "1:2 1|",
      "f:1:4: error: expected a record, got ','" },
    { "comma before the end", "[1,]", JSON_SPLITTER_AUTO, "1:2 1|",
      "f:1:4: error: expected a record, got ']'" },
    { "text behind the list", "[1]\n]", JSON_SPLITTER_AUTO, "1:2 1|",
      "f:2:1: error: expected nothing behind the list, got ']'" },
    { "not a list", "{}", JSON_SPLITTER_LIST, "", "f:1:1: error: expected a list '[', got '{'" },
    { "two values on a line", "{}{}", JSON_SPLITTER_LINES, "1:1 {}|1:3 {}|", NULL },
    { "a stray byte", "[1,\x80", JSON_SPLITTER_LIST, "1:2 1|",
      "f:1:5: error: the file ends inside the record that begins on line 1: is it cut short?" },
};

static void elements_and_errors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct record_of_calls calls;
        struct error err = { 0 };
        bool ok = split(cases[i].text, strlen(cases[i].text), cases[i].mode, &calls, &err);
        if (ok != (cases[i].error == NULL) || strcmp(calls.text, cases[i].want) != 0 ||
            strcmp(err.text, ok ? "" : cases[i].error) != 0)
            fail_msg("%s: got %s / %s", cases[i].name, calls.text, err.text);
    }
}

static void any_cut_gives_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t piece = 1; piece < 12; piece++) {
            struct record_of_calls whole, cut;
            struct error whole_err = { 0 }, cut_err = { 0 };
            bool whole_ok =
                split(cases[i].text, strlen(cases[i].text), cases[i].mode, &whole, &whole_err);
            bool cut_ok = split(cases[i].text, piece, cases[i].mode, &cut, &cut_err);
            if (whole_ok != cut_ok || strcmp(whole.text, cut.text) != 0 ||
                strcmp(whole_err.text, cut_err.text) != 0)
                fail_msg("%s in pieces of %zu: %s / %s", cases[i].name, piece, cut.text,
                         cut_err.text);
        }
}

static void nul_byte(void **state) {
    (void)state;
    struct json_splitter s;
    struct record_of_calls calls = { "" };
    struct error err = { 0 };
    json_splitter_init(&s, "f", JSON_SPLITTER_AUTO, on_element, &calls);
    assert_false(json_splitter_feed(&s, "[{\"a\":\n\"\0\"}]", 12, &err));
    assert_string_equal(err.text, "f:2:2: error: a NUL byte: this is not a text file");
    json_splitter_free(&s);
}

/* A record beyond the limit is refused instead of filling the memory. */
static void record_without_end(void **state) {
    (void)state;
    struct json_splitter s;
    struct record_of_calls calls = { "" };
    struct error err = { 0 };
    static char block[1 << 20];
    memset(block, 'x', sizeof block);
    json_splitter_init(&s, "f", JSON_SPLITTER_AUTO, on_element, &calls);
    bool ok = json_splitter_feed(&s, "[\"", 2, &err);
    int blocks = 0;
    while (ok && blocks++ < 100)
        ok = json_splitter_feed(&s, block, sizeof block, &err);
    assert_false(ok);
    assert_string_equal(err.text,
                        "f:1:2: error: the record that begins here is longer than 64 MiB");
    json_splitter_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_and_errors),
        cmocka_unit_test(any_cut_gives_the_same),
        cmocka_unit_test(nul_byte),
        cmocka_unit_test(record_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
