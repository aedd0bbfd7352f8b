/* test_measurements.c - the CSV reader: quotes, order of columns, empty cells, and what it says
 * about broken files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "calibrate/fit/measurements.h"

#define HEADER "source,gpu,dtype,n,m,k,time_us,extra,framework\n"

static bool read_text(const char *text, struct arena *arena, struct gemm_rows *rows,
                      struct error *err) {
    char path[] = "/tmp/ballast-measurements-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (int)strlen(text));
    close(file);
    const bool ok = gemm_rows_read(arena, path, rows, err);
    unlink(path);
    return ok;
}

static void test_good(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct gemm_rows rows;
    if (!read_text("\xef\xbb\xbf" HEADER
                   "\"a, \"\"b\"\"\",G,bf16,3,2,,4.5,,f\r\ns,H,bf16,1,1,1,1,x,\"y\"",
                   arena, &rows, &err))
        fail_msg("%s", err.text);
    assert_int_equal(rows.count, 2);
    assert_string_equal(rows.rows[0].source, "a, \"b\"");
    assert_int_equal(rows.rows[0].m, 2);
    assert_int_equal(rows.rows[0].n, 3);
    assert_int_equal(rows.rows[0].k, 0);
    assert_true(rows.rows[0].time_us == 4.5);
    assert_string_equal(rows.rows[1].framework, "y");
    arena_destroy(arena);
}

static void test_broken(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *wanted;
    } cases[] = {
        { "empty", "", "is empty" },
        { "a column is missing", "gpu,m,n,k\n", ":1: error: no column 'dtype'" },
        { "words for a number", HEADER "s,G,bf16,x,2,2,1,,f\n",
          ":2: error: n: 'x' is not a number" },
        { "a negative time", HEADER "s,G,bf16,1,2,2,-1,,f\n", "time_us: '-1'" },
        { "behind empty lines", "\r\n" HEADER "\n\ns,G,bf16,1,2,2,1,\n",
          ":5: error: must have 9 cells, got 8" },
        { "no number", HEADER "s,G,bf16,1,2,2,nan,,f\n", "'nan' is not a number from 0 to 1e+15" },
        { "endless", HEADER "s,G,bf16,1,2,2,1e99,,f\n", "'1e99' is not a number from 0 to 1e+15" },
        { "half a size", HEADER "s,G,bf16,1,2.5,2,1,,f\n", "m: '2.5' is not a whole number" },
        { "a column twice", "gpu,m,n,k,m\n", ":1: error: column 'm' stands there twice" },
        { "another unit", "source,gpu,dtype,n,m,k,time_ms,framework\n",
          ":1: error: no column 'time_us'\n  hint: is 'time_ms' meant?" },
        { "a cell too few", HEADER "s,G,bf16,1,2,2,1,\n", ":2: error: must have 9 cells, got 8" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        struct error err = { 0 };
        struct gemm_rows rows;
        if (read_text(cases[i].text, arena, &rows, &err)) fail_msg("%s: accepted", cases[i].name);
        if (!strstr(err.text, cases[i].wanted))
            fail_msg("%s: no \"%s\" in \"%s\"", cases[i].name, cases[i].wanted, err.text);
        arena_destroy(arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_good),
                                        cmocka_unit_test(test_broken) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
