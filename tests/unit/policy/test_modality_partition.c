/* test_modality_partition.c - DIP's section 4 on plain numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim/policy/joint/modality_partition.h"

static void test_sub_batch_size(void **state) {
    (void)state;
    /* seconds = fixed + size: efficiency size / (fixed + size) of the best at 32. */
    static const int64_t sizes[] = { 4, 8, 12, 16, 32 };
    static const struct {
        double fixed;
        int64_t want;
    } cases[] = { { 0, 4 }, { 0.25, 8 }, { 0.6, 12 }, { 1.2, 16 }, { 4, 32 } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        double seconds[5];
        for (int i = 0; i < 5; i++)
            seconds[i] = cases[c].fixed + (double)sizes[i];
        int64_t got = sub_batch_size(seconds, sizes, 5, 0.95);
        double share = (double)got / (cases[c].fixed + (double)got) * (cases[c].fixed + 32) / 32;
        assert_true(share >= 0.95);
        if (got != cases[c].want)
            fail_msg("fixed %g: %ld, want %ld", cases[c].fixed, (long)got, (long)cases[c].want);
    }
}

static void test_segment_counts(void **state) {
    (void)state;
    /* DIP's VLM-S: 1.12 s against 0.41 s gives 2 and 1. */
    double seconds[] = { 1.12, 0.41, 0 };
    int64_t limits[] = { 16, 8, 8 }, counts[3];
    modality_segment_counts(seconds, 3, limits, counts);
    assert_int_equal(counts[0], 2);
    assert_int_equal(counts[1], 1);
    assert_int_equal(counts[2], 1);
    limits[0] = 1;
    modality_segment_counts(seconds, 3, limits, counts);
    assert_int_equal(counts[0], 1);
}

static void test_divide(void **state) {
    (void)state;
    double equal[63];
    int64_t first[64];
    for (int i = 0; i < 63; i++)
        equal[i] = 1;
    modality_divide(equal, 63, 4, first);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[1], 15);
    assert_int_equal(first[2], 31);
    assert_int_equal(first[3], 47);
    assert_int_equal(first[4], 63);
    /* A light first layer takes no part of its own. */
    equal[0] = 0.01;
    modality_divide(equal, 33, 4, first);
    assert_int_equal(first[1], 9);
    equal[0] = 1;
    /* A heavy head pushes blocks to the earlier parts. */
    double head[] = { 0.1, 1, 1, 1, 1, 1, 1, 1, 2 };
    modality_divide(head, 9, 3, first);
    assert_int_equal(first[1], 4);
    assert_int_equal(first[2], 7);
    modality_divide(equal, 5, 5, first);
    for (int i = 0; i <= 5; i++)
        assert_int_equal(first[i], i);
    int64_t sum = 0;
    for (int64_t i = 0; i < 5; i++)
        sum += even_piece(48, 5, i);
    assert_int_equal(sum, 48);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sub_batch_size),
        cmocka_unit_test(test_segment_counts),
        cmocka_unit_test(test_divide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
