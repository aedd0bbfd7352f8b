/* test_arena.c - memory is zeroed, aligned, disjoint, and given back at once. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "sim/base/arena.h"

static void test_zeroed_aligned_disjoint(void **state) {
    (void)state;
    static const size_t sizes[] = { 1, 15, 16, 17, 0, 1000, 65536, 3, 1 << 20, 7, 200000 };
    enum { ROUNDS = 20, COUNT = sizeof sizes / sizeof sizes[0] };
    unsigned char *pieces[ROUNDS][COUNT];
    struct arena *arena = arena_create();
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < COUNT; i++) {
            unsigned char *piece = arena_alloc(arena, sizes[i]);
            assert_non_null(piece);
            if ((uintptr_t)piece % 16 != 0) fail_msg("%zu bytes: not aligned to 16", sizes[i]);
            for (size_t b = 0; b < sizes[i]; b++)
                if (piece[b] != 0) fail_msg("%zu bytes: byte %zu is not zero", sizes[i], b);
            memset(piece, 1 + (round * COUNT + i) % 255, sizes[i]);
            pieces[round][i] = piece;
        }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < COUNT; i++)
            for (size_t b = 0; b < sizes[i]; b++)
                if (pieces[round][i][b] != 1 + (round * COUNT + i) % 255)
                    fail_msg("round %d, %zu bytes: overwritten by another piece", round, sizes[i]);
    arena_destroy(arena);
}

static void test_reset_zeroes_and_keeps_the_largest_block(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    int64_t first_bytes = arena_bytes(arena);
    assert_true(first_bytes > 0);
    for (int i = 0; i < 10; i++)
        memset(arena_alloc(arena, 100000), 0xff, 100000);
    int64_t grown_bytes = arena_bytes(arena);
    assert_true(grown_bytes >= 1000000);
    arena_reset(arena);
    int64_t kept_bytes = arena_bytes(arena);
    assert_in_range(kept_bytes, first_bytes + 1, grown_bytes - 1);
    unsigned char *piece = arena_alloc(arena, 100000);
    for (int i = 0; i < 100000; i++)
        if (piece[i] != 0) fail_msg("byte %d is left from before the reset", i);
    assert_int_equal(arena_bytes(arena), kept_bytes);
    arena_destroy(arena);
}

static void test_a_loop_of_resets_does_not_grow(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    int64_t settled_bytes = 0;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 10; i++)
            arena_alloc(arena, 50000);
        if (round == 5) settled_bytes = arena_bytes(arena);
        if (round > 5) assert_int_equal(arena_bytes(arena), settled_bytes);
        arena_reset(arena);
    }
    arena_destroy(arena);
}

static void test_texts(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char source[] = "rank";
    char *copy = arena_text(arena, source);
    source[0] = 'b';
    assert_string_equal(copy, "rank");
    assert_string_equal(arena_text(arena, ""), "");
    assert_string_equal(arena_format(arena, "%s %d of %d", copy, 3, 8), "rank 3 of 8");
    char *wide = arena_format(arena, "%*d", 100000, 7);
    assert_int_equal(strlen(wide), 100000);
    assert_int_equal(wide[99999], '7');
    assert_string_equal(copy, "rank");
    arena_destroy(arena);
}

static void test_typed_helpers(void **state) {
    (void)state;
    struct pair {
        int64_t a;
        double b;
    };
    struct arena *arena = arena_create();
    struct pair *one = arena_new(arena, struct pair);
    struct pair *many = arena_array(arena, struct pair, 100);
    one->a = -1;
    for (int i = 0; i < 100; i++)
        assert_true(many[i].a == 0 && many[i].b == 0.0);
    many[99].a = 5;
    assert_int_equal(one->a, -1);
    arena_destroy(arena);
    arena_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zeroed_aligned_disjoint),
        cmocka_unit_test(test_reset_zeroes_and_keeps_the_largest_block),
        cmocka_unit_test(test_a_loop_of_resets_does_not_grow),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_typed_helpers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
