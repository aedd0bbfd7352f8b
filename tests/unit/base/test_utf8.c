/* test_utf8.c - what begins no well-formed sequence is found, wherever it stands. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "sim/base/utf8.h"

static void test_well_formed(void **state) {
    (void)state;
    static const char *const texts[] = { "", "plain", "seven b", "eight by", "caf\xC3\xA9",
                                         "\xE2\x82\xAC 5", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF",
                                         "0123456789\xC3\xA9" "0123456789" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_null(utf8_invalid(texts[i], strlen(texts[i])));
}

static void test_ill_formed(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t at;
    } cases[] = {
        { "caf\xE9", 3 },              /* Latin-1, cut short */
        { "caf\xE9 au lait", 3 },      /* Latin-1 */
        { "\x80", 0 },                 /* a continuation alone */
        { "\xC0\xAF", 0 },             /* overlong */
        { "\xE0\x80\xAF", 0 },         /* overlong */
        { "ab\xED\xA0\x80", 2 },       /* a surrogate */
        { "\xF4\x90\x80\x80", 0 },     /* above U+10FFFF */
        { "\xFF", 0 },
        { "01234567\xC3(", 8 },        /* past a word of ASCII */
        { "\xE2\x82", 0 },             /* cut short */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_ptr_equal(utf8_invalid(cases[i].text, strlen(cases[i].text)),
                         cases[i].text + cases[i].at);
}

static void test_utf16(void **state) {
    (void)state;
    assert_true(utf16_seems("\xFF\xFE{\0\n\0", 6));
    assert_true(utf16_seems("\xFE\xFF\0{", 4));
    assert_true(utf16_seems("{\0\n\0", 4));
    assert_true(utf16_seems("\0{\0\n", 4));
    assert_false(utf16_seems("{\n}\n", 4));
    assert_false(utf16_seems("\0\0\0\0", 4));
    assert_false(utf16_seems("{\0", 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_well_formed),
        cmocka_unit_test(test_ill_formed),
        cmocka_unit_test(test_utf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
