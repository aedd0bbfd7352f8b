/* test_validation_summary.c - errors of rows that are known, summed up by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "sim/study/measured/validation.h"

static const struct stack stack = { .name = "x" };

/* A row of one second whose prediction is this much off, in a band of +-10 %. */
struct made {
    const char *source;
    double error;
    int case_row;
    bool fitted, multimodal;
    enum validation_skip skip;
    enum memory_reading reading;
    double memory_error;
    bool cause, chosen; /* a cause was read from its memory; what it keeps was chosen to fit */
};

static struct validation summarised(struct arena *arena, const struct made *made, int count) {
    struct validation v = { .arena = arena };
    v.runs.count = count;
    v.runs.rows = arena_array(arena, struct measured_run, count);
    v.rows = arena_array(arena, struct validation_row, count);
    for (int i = 0; i < count; i++) {
        const struct made *m = &made[i];
        const double predicted_s = m->skip == SKIP_NOTHING ? 1 + m->error : NAN;
        v.runs.rows[i] = (struct measured_run){ .source = m->source, .iter_time_s = 1 };
        v.rows[i] = (struct validation_row){
            .measured = &v.runs.rows[i],
            .case_row = m->case_row,
            .skip = m->skip,
            .predicted_s = predicted_s,
            .relative_error = predicted_s - 1,
            .band = { 0.1, 0.1 },
            .band_low_s = 0.9 * predicted_s,
            .band_high_s = 1.1 * predicted_s,
            .hardware = "h100-80g-sxm",
            .stack = &stack,
            .calibrated_on = m->fitted,
            .multimodal = m->multimodal,
            .reading = m->reading,
            .memory_used = m->cause,
            .chosen_to_fit = m->chosen,
            .memory_relative_error = m->reading == READING_NONE ? NAN : m->memory_error,
        };
    }
    validation_summarise(&v);
    return v;
}

#define SAME(value, expected) assert_true(fabs((value) - (expected)) < 1e-12)

static void test_times(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    /* The first two are one case; what was fitted on and what is skipped counts nowhere. */
    static const struct made made[] = {
        { "A", 0.10, 0, .skip = SKIP_NOTHING },  { "A", 0.30, 0, .skip = SKIP_NOTHING },
        { "A", -0.20, 2, .skip = SKIP_NOTHING }, { "B", 0.04, 3, .multimodal = true },
        { "B", 0.90, 4, .fitted = true },        { "B", 0, 5, .skip = SKIP_LAYOUT },
    };
    const struct validation v = summarised(arena, made, 6);
    assert_int_equal(v.group_count, 2);
    const struct validation_group *a = &v.groups[0], *b = &v.groups[1];
    assert_string_equal(a->source, "A");
    assert_int_equal(a->rows, 3);
    SAME(a->time.mean_abs, 0.2);
    SAME(a->time.median_abs, 0.2);
    SAME(a->time.worst, 0.3);
    SAME(a->time.mean_signed, 0.2 / 3);
    SAME(a->time.p90_abs, 0.28); /* between the second and third of 0.1, 0.2, 0.3 */
    assert_int_equal(a->time_by_case.count, 2);
    SAME(a->time_by_case.mean_abs, 0.2); /* 0.2 and -0.2 */
    SAME(a->time_by_case.mean_signed, 0);
    SAME(a->band_coverage, 1.0 / 3); /* 0.99 to 1.21 holds 1; 1.17 and 0.88 do not */
    SAME(a->median_half_width, 0.1);
    assert_int_equal(b->rows, 3);
    assert_int_equal(b->simulated, 2);
    assert_int_equal(b->calibrated, 1);
    assert_int_equal(b->time.count, 1);
    assert_int_equal(v.all.time.count, 4);
    assert_int_equal(v.text.time.count, 3);
    assert_int_equal(v.multimodal.time.count, 1);
    SAME(v.all.time.mean_abs, 0.16);
    arena_destroy(arena);
}

static void test_nothing_counts(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const struct made made[] = { { "A", 0, 0, .skip = SKIP_SHAPE } };
    const struct validation v = summarised(arena, made, 1);
    assert_int_equal(v.all.time.count, 0);
    assert_true(isnan(v.all.time.mean_abs) && isnan(v.all.time.worst));
    assert_true(isnan(v.all.band_coverage) && isnan(v.all.median_half_width));
    assert_true(v.pairs.pairs == 0 && isnan(v.pairs.p80));
    arena_destroy(arena);
}

static void test_memory(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const struct made made[] = {
        { "A", 0, 0, .reading = READING_ALLOCATED, .memory_error = 0.1 },
        { "A", 0, 1, .reading = READING_RESERVED, .memory_error = -0.3 },
        { "A", 0, 2, .reading = READING_DEVICE, .memory_error = 0.5 },
        { "A", 0, 3, .reading = READING_FULL_CARD, .memory_error = -0.9 },
        { "A", 0, 4, .reading = READING_ALLOCATED, .memory_error = 0.7, .skip = SKIP_LAYOUT },
        { "A", 0, 5, .reading = READING_BEYOND_CARD, .memory_error = 0.7 },
        { "A", 0, 6, .reading = READING_ALLOCATED, .memory_error = 0.7, .cause = true },
        { "A", 0, 7, .reading = READING_ALLOCATED, .memory_error = 0.7, .chosen = true },
    };
    const struct validation v = summarised(arena, made, 8);
    assert_int_equal(v.all.memory.count, 2); /* what the allocator says */
    SAME(v.all.memory.mean_abs, 0.2);
    SAME(v.all.memory_of[READING_DEVICE].mean_abs, 0.5);
    assert_int_equal(v.all.memory_of[READING_FULL_CARD].count, 0);
    assert_int_equal(v.all.full_cards, 1);
    arena_destroy(arena);
}

/* Cases of one source, stack and GPU in pairs: |ln 1.1|, |ln 1.21| and their difference; B has no
 * pair, and what is no text decoder none either. */
static void test_pairs(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const struct made made[] = {
        { "A", 0, 0, .skip = SKIP_NOTHING },    { "B", 0.5, 1, .skip = SKIP_NOTHING },
        { "A", 0.10, 2, .skip = SKIP_NOTHING }, { "A", 0.21, 3, .skip = SKIP_NOTHING },
        { "A", 3, 4, .multimodal = true },
    };
    const struct validation v = summarised(arena, made, 5);
    assert_int_equal(v.pairs.pairs, 3);
    assert_int_equal(v.pairs.sources, 1);
    SAME(v.pairs.median, log(1.1));
    SAME(v.pairs.rms, log(1.1) * sqrt(2)); /* of 1, 1 and 2 */
    arena_destroy(arena);
}

/* A step of one second predicted as 2.9 or 3.1, and one that nothing can be held back of. */
static void test_doubts(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const struct made made[] = { { "A", 1.9, 0, .skip = SKIP_NOTHING },
                                        { "A", 2.1, 1, .skip = SKIP_NOTHING },
                                        { "A", 9, 2, .skip = SKIP_LAYOUT } };
    const struct validation v = summarised(arena, made, 3);
    v.runs.rows[1].row_id = "far";
    for (int i = 0; i < 3; i++) {
        v.runs.rows[i].peak_mem_GiB = v.rows[i].predicted_peak_GiB = 1;
        v.rows[i].lost_fraction = 1;
    }
    assert_false(validation_time_doubtful(&v.rows[0]));
    assert_true(validation_time_doubtful(&v.rows[1]));
    const char **doubts = validation_doubts(&v);
    assert_non_null(strstr(doubts[0], "1 row is more than 3 times off (first far)"));
    assert_null(doubts[1]);
    /* 2.9 seconds of which a third would have been the peak's: 0.97, of which 0.36, 1.04 */
    v.rows[0].lost_fraction = 1 - 0.33;
    assert_false(validation_time_doubtful(&v.rows[0]));
    v.rows[0].lost_fraction = 1 - 0.36;
    assert_true(validation_time_doubtful(&v.rows[0]));
    doubts = validation_doubts(&v);
    assert_non_null(strstr(doubts[1], "1 row is faster than the GPU's peak allows"));
    assert_null(doubts[2]);
    assert_true(validation_holds_back(&v));
    for (int i = 0; i < 3; i++)
        v.rows[i].calibrated_on = true;
    assert_false(validation_holds_back(&v));
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),  cmocka_unit_test(test_nothing_counts),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_doubts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
