/* test_record_pack.c - what comes out is what went in, for every table's columns. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "results/record_pack.h"
#include "tests/unit/results/sample_rows.h"

static void test_rows_come_back(void **state) {
    (void)state;
    struct sweep_row_record rows[2] = { sample_sweep_row("abc", 7), sample_sweep_row("", -1) };
    struct run_record run = sample_run("a run");
    struct record_bytes bytes = { 0 };
    record_pack(&bytes, RECORD_SWEEP_ROW, rows, 2);
    record_pack_number(&bytes, -3);
    record_pack_text(&bytes, NULL);
    record_pack_text(&bytes, "");
    record_pack(&bytes, RECORD_RUN, &run, 1);
    record_pack(&bytes, RECORD_STAGE, NULL, 0);
    const char *at = bytes.bytes, *end = at + bytes.size;
    struct arena *arena = arena_create();
    int64_t count;
    const struct sweep_row_record *got = record_unpack(&at, end, RECORD_SWEEP_ROW, arena, &count);
    assert_int_equal(count, 2);
    assert_string_equal(got[0].configuration, "abc");
    assert_string_equal(got[0].verdict, "fits");
    assert_null(got[0].reason);
    assert_true(got[0].row_index == 7 && got[1].row_index == -1);
    assert_true(got[0].mfu_fraction == rows[0].mfu_fraction && isnan(got[0].money_usd));
    assert_string_equal(got[1].configuration, "");
    assert_int_equal(record_unpack_number(&at, end), -3);
    assert_null(record_unpack_text(&at, end, arena));
    assert_string_equal(record_unpack_text(&at, end, arena), "");
    const struct run_record *back = record_unpack(&at, end, RECORD_RUN, arena, &count);
    assert_string_equal(back->resolved_scenario, run.resolved_scenario);
    assert_true(back->repeatable && back->seed == 1024 && isnan(back->total_days));
    assert_non_null(record_unpack(&at, end, RECORD_STAGE, arena, &count));
    assert_int_equal(count, 0);
    assert_ptr_equal(at, end);
    record_bytes_free(&bytes);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows_come_back) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
