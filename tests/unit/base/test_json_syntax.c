/* test_json_syntax.c - what was expected, what stands there, where, and what to write instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "sim/base/json_syntax.h"

static void test_faults(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t offset;
        const char *want, *hint;
    } cases[] = {
        { "{\"a\": NaN}", 6, "expected a value, got NaN", "finite" },
        { "{\"a\": -Infinity}", 6, "expected a value, got -Infinity", "finite" },
        { "{\"a\": FALSE}", 6, "expected a value, got FALSE", "write false" },
        { "{\"a\": None}", 6, "expected a value, got None", "write null" },
        { "{\"a\": abc}", 6, "expected a value, got abc", "double quotes: \"abc\"" },
        { "{\"a\": 'b'}", 6, "expected a value, got '", "straight double quotes" },
        { "{'a': 1}", 1, "expected a key in double quotes, got '", "straight double quotes" },
        { "{\xe2\x80\x9c"
          "a\": 1}",
          1, "expected a key in double quotes, got \xe2\x80\x9c", "straight double quotes" },
        { "{\"a\": \xc3\xa9}", 6, "expected a value, got \xc3\xa9", "" },
        { "{\"a\": 1,\n}", 9, "a comma before the closing bracket", "" },
        { "{\"a\": 1,, \"b\": 2}", 8, "expected a key in double quotes, got a comma", "" },
        { "{\"a\" 1}", 5, "expected a colon after the key, got 1", "" },
        { "{\"a\": 1; \"b\": 2}", 7, "expected a comma or } after the value, got ;", "" },
        { "# words\n{}", 0, "JSON has no comments", "" },
        { "{\"a\": /* b */ 1}", 6, "JSON has no comments", "" },
        { "{\"a\": +5}", 6, "not a number of JSON: +5", "without the +" },
        { "{\"a\": .5}", 6, "not a number of JSON: .5", "0.5" },
        { "{\"a\": 5GB}", 6, "not a number of JSON: 5GB", "unit" },
        { "{\"a\": 0x10}", 6, "not a number of JSON: 0x10", "digits alone" },
        { "{\"a\": 1_000}", 6, "not a number of JSON: 1_000", "1000" },
        { "{\"a\": 1e}", 6, "not a number of JSON: 1e", "4, 0.5" },
        { "{\"a\": \"C:\\data\"}", 9, "not an escape of JSON: \\d", "\\\\" },
        { "{\"a\": \"\\u12\"}", 7, "\\u needs four hexadecimal digits", "" },
        { "{\"a\": \"\\ud83d!\"}", 7, "half of a character: \\ud83d", "two halves" },
        { "{\"a\": \"\\ud83d\\u0041\"}", 7, "half of a character: \\ud83d", "two halves" },
        { "{\"a\": \"\\uDE00\"}", 7, "half of a character: \\uDE00", "two halves" },
        { "{\"a\": 1234567890123456789012345678GB}", 6,
          "not a number of JSON: 1234567890123...345678GB", "unit" },
        { "# a run\n\nmodel: vlm\nlayout:\n  tp: 2\n", 9,
          "this looks like YAML, and files here are JSON", "double quotes" },
        { "model:\n  name: vlm\n", 0, "this looks like YAML, and files here are JSON", "braces" },
        { "---\nmodel: vlm\n", 0, "this looks like YAML, and files here are JSON", "braces" },
        { "- a\n- b\n", 0, "this looks like YAML, and files here are JSON", "braces" },
        { "model = \"vlm\"\n", 0, "this looks like TOML, and files here are JSON", "braces" },
        { "[layout]\ntp = 2\n", 0, "this looks like TOML, and files here are JSON", "braces" },
        { "[a]", 1, "expected a value, got a", "double quotes: \"a\"" },
        { "model vlm", 0, "expected a value, got model", "double quotes" },
        { "{\"a\": \"b}", 6, "the text that begins here has no closing quote", "" },
        { "{\"a\": [1,\n2}", 11, "expected a comma or ] after the value, got }", "[ of line 1" },
        { "{}}", 2, "one more closing bracket than was opened", "" },
        { "{} x", 3, "expected the end of the text, got x", "one value" },
        { "{\n\"a\": [1,\n", 10,
          "the JSON text ends too early: a value, bracket or quote is missing", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_fault fault;
        if (!json_syntax_fault(cases[i].text, strlen(cases[i].text), &fault))
            fail_msg("%s: no fault", cases[i].text);
        if (fault.offset != cases[i].offset || strcmp(fault.text, cases[i].want) != 0 ||
            strstr(fault.hint, cases[i].hint) == NULL)
            fail_msg("%s: at %zu, %s, hint %s", cases[i].text, fault.offset, fault.text,
                     fault.hint);
    }
}

static void test_no_fault(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{}", " [ ] ", "[-0, 0.5e-3, 1E+9, true, null, \"\\u00e9\\ud83d\\ude00\"]",
        "123456789012345678901234567890.5", "{\"a\": {\"b\": [[], {}]}}"
    };
    struct json_fault fault;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (json_syntax_fault(texts[i], strlen(texts[i]), &fault))
            fail_msg("%s: at %zu, %s", texts[i], fault.offset, fault.text);
}

/* A NUL is of no set of characters, and no text. */
static void test_a_nul_is_nothing_expected(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t size, offset;
        const char *want;
    } cases[] = {
        { "{\"a\": tr\0ue}", 12, 6, "expected a value, got tr" },
        { "{\"a\": \"\\\0\"}", 11, 7, "not an escape of JSON: \\" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json_fault fault;
        assert_true(json_syntax_fault(cases[i].text, cases[i].size, &fault));
        if (fault.offset != cases[i].offset || strcmp(fault.text, cases[i].want) != 0)
            fail_msg("case %zu: at %zu, %s", i, fault.offset, fault.text);
    }
    static const char zeros[100];
    assert_true(json_is_binary(zeros, sizeof zeros));
    assert_false(json_is_binary("{\n\t\"a\": 1\r\n}", 12));
    assert_int_equal(json_odd_number_at("[1.5\0x]", 8), 8);
    const char object[] = "{ \"b\": { \"a\": 1 }, \"c\": \"a\", \"a\" : 2 }";
    const size_t size = sizeof object - 1;
    assert_int_equal(json_key_at(object, size, "a"), strlen("{ \"b\": { \"a\": 1 }, \"c\": \"a\", "));
    assert_int_equal(json_key_at(object, size, "d"), size);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_faults),
                                        cmocka_unit_test(test_no_fault),
                                        cmocka_unit_test(test_a_nul_is_nothing_expected) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
