/* test_validation_bands.c - widths and factors of rows whose errors are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "sim/study/measured/validation.h"

enum { SOURCES = 3, ROWS_OF_SOURCE = 5, ROWS = SOURCES * ROWS_OF_SOURCE };

static const struct stack stacks[SOURCES] = { { .name = "x" }, { .name = "y" }, { .name = "z" } };
static const char *const sources[SOURCES] = { "X", "Y", "Z" };

/* Each source's first row was fitted on; of row i measured / predicted is over[i]. */
static struct validation make(struct arena *arena, const double *over, double lost, bool known,
                              bool fitted) {
    struct validation v = { .arena = arena };
    v.runs.count = ROWS;
    v.runs.rows = arena_array(arena, struct measured_run, ROWS);
    v.rows = arena_array(arena, struct validation_row, ROWS);
    for (int i = 0; i < ROWS; i++) {
        const int source = i / ROWS_OF_SOURCE;
        v.runs.rows[i] = (struct measured_run){ .source = sources[source],
                                                .iter_time_s = over[i],
                                                .peak_mem_GiB = NAN };
        v.rows[i] = (struct validation_row){ .measured = &v.runs.rows[i],
                                             .predicted_s = 1,
                                             .relative_error = 1 / over[i] - 1,
                                             .lost_fraction = lost,
                                             .hardware = "h100-80g-sxm",
                                             .stack = &stacks[source],
                                             .inside_range = true,
                                             .known_stack = known,
                                             .calibrated_stack = fitted,
                                             .calibrated_on = fitted && i % ROWS_OF_SOURCE == 0,
                                             .memory_relative_error = NAN };
    }
    return v;
}

static double number(const cJSON *o, const char *key) {
    return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(o, key));
}

/* Calibration rows as runs of an unknown stack took 1.1, 1.3 and 1.0 times their stand-in's price:
 * the factor is 1.1, and of two sources the geometric mean. */
static void test_classes(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    double near[ROWS], far[ROWS], anonymous[ROWS];
    static const double taken[SOURCES] = { 1.1, 1.3, 1.0 };
    for (int i = 0; i < ROWS; i++) {
        const int k = i % ROWS_OF_SOURCE;
        near[i] = 1 + 0.01 * k;
        far[i] = 1 + 0.02 * k;
        anonymous[i] = taken[i / ROWS_OF_SOURCE];
    }
    struct validation v = make(arena, near, 0.5, true, true),
                      no_factors = make(arena, far, 0.8, true, false),
                      no_name = make(arena, anonymous, 1, false, false);
    v.pairs = (struct pair_statistics){ .pairs = 9, .p80 = 0.1 };
    no_factors.pairs = (struct pair_statistics){ .pairs = 9, .p80 = 0.2 };
    struct bands_report report;
    cJSON *bands = validation_bands(&v, &no_factors, &no_name, &report);
    /* Residuals 0.01 to 0.04 of each source: 10 of 12 are 0.04 at most, 9 are 0.03; of half the
     * time. */
    assert_true(fabs(number(bands, "calibrated_inside") - 0.04 / 0.5) < 1e-9);
    /* 0 to 0.08, five of each source: 12 of 15 are 0.06 at most. */
    assert_true(fabs(number(bands, "relative_inside") - 0.06 / 0.8) < 1e-9);
    assert_true(fabs(number(bands, "lost_least") - 0.5) < 1e-9);
    assert_true(fabs(report.of[BAND_RELATIVE].median_half_width - 0.06) < 1e-9);
    assert_true(fabs(number(bands, "unknown_stack_factor") - 1.1) < 1e-9);
    assert_true(number(bands, "uncalibrated_stack_factor") == 1);
    assert_true(fabs(number(bands, "calibrated_pair") - 0.1) < 1e-9);
    assert_true(fabs(number(bands, "relative_pair") - 0.2) < 1e-9);
    /* Of X the others' factor is sqrt(1.3 x 1.0), of Y sqrt(1.1 x 1.0), of Z sqrt(1.1 x 1.3). */
    const double errors[SOURCES] = { sqrt(1.3) / 1.1 - 1, sqrt(1.1) / 1.3 - 1, sqrt(1.43) - 1 };
    assert_true(fabs(report.of[BAND_UNKNOWN].mean_signed -
                     (errors[0] + errors[1] + errors[2]) / 3) < 1e-12);
    /* 80 % of all lie within the widest; each source alone is judged by the two others. */
    assert_true(fabs(number(bands, "unknown") - (1 / (1 + errors[1]) - 1)) < 1e-4);
    assert_int_equal(report.of[BAND_UNKNOWN].rows, ROWS);
    assert_true(fabs(report.of[BAND_UNKNOWN].coverage - 2.0 / 3) < 1e-12);
    assert_int_equal(report.of[BAND_CALIBRATED].rows, ROWS - SOURCES);
    assert_true(report.of[BAND_CALIBRATED].coverage == 1);
    cJSON_Delete(bands);
    arena_destroy(arena);
}

/* Of a stack whose attention kernel only its factor tells, rows without it say nothing of stacks
 * whose kernel is known. */
static void test_kernel_not_known(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    double near[ROWS], far[ROWS];
    for (int i = 0; i < ROWS; i++) {
        near[i] = 1.01;
        far[i] = i % ROWS_OF_SOURCE == 0 ? 1 : i / ROWS_OF_SOURCE == 2 ? 1.9 : 1.05;
    }
    struct stack eager = stacks[2];
    for (int fitted = 0; fitted < 2; fitted++) {
        eager.attention_fitted = fitted == 1;
        struct validation v = make(arena, near, 1, true, true),
                          no_factors = make(arena, far, 1, true, false),
                          no_name = make(arena, far, 1, false, false);
        for (int i = 2 * ROWS_OF_SOURCE; i < ROWS; i++)
            v.rows[i].stack = no_factors.rows[i].stack = no_name.rows[i].stack = &eager;
        struct bands_report report;
        cJSON *bands = validation_bands(&v, &no_factors, &no_name, &report);
        assert_true(fabs(number(bands, "relative_inside") - (fitted ? 0.05 : 0.9)) < 1e-9);
        assert_int_equal(report.of[BAND_RELATIVE].rows, fitted ? ROWS - ROWS_OF_SOURCE : ROWS);
        assert_int_equal(report.of[BAND_UNKNOWN].rows, ROWS);
        cJSON_Delete(bands);
    }
    arena_destroy(arena);
}

/* Two others of one row each beside four good rows: 5 of 6 rows are 0.05 at most. Of so few sources
 * rows count alone. */
static void test_few_sources(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    double near[ROWS], far[ROWS], held[ROWS];
    for (int i = 0; i < ROWS; i++) {
        near[i] = 1.01;
        far[i] = i < ROWS_OF_SOURCE ? 1.01 : i < 2 * ROWS_OF_SOURCE ? 1.05 : 1.08;
        held[i] = i % ROWS_OF_SOURCE == 0 ? 1 : far[i];
    }
    struct validation v = make(arena, far, 1, true, true),
                      no_factors = make(arena, held, 1, true, false),
                      no_name = make(arena, near, 1, false, false);
    for (int i = ROWS_OF_SOURCE; i < ROWS; i++) {
        if (i % ROWS_OF_SOURCE > 1) v.rows[i].relative_error = NAN;
        if (i % ROWS_OF_SOURCE > i / ROWS_OF_SOURCE) no_factors.rows[i].relative_error = NAN;
    }
    struct bands_report report;
    cJSON *bands = validation_bands(&v, &no_factors, &no_name, &report);
    assert_true(fabs(number(bands, "calibrated_inside") - 0.05) < 1e-9);
    /* 1, 1, 1, four of 1.01, 1.05, 1.08, 1.08 */
    assert_true(fabs(number(bands, "relative_inside") - 0.05) < 1e-9);
    cJSON_Delete(bands);
    arena_destroy(arena);
}

/* One source's good rows do not hide the others, of one row each: 12 of 15 rows are 0.05 at most, but
 * only seven of ten sources. Of nine the rows alone count. */
static void test_sources_count_once(void **state) {
    (void)state;
    for (int names = 9; names <= 10; names++) {
        struct arena *arena = arena_create();
        const int of_first = ROWS - (names - 1);
        double near[ROWS], far[ROWS];
        for (int i = 0; i < ROWS; i++) {
            near[i] = 1.01;
            far[i] = i < of_first ? 1.01 : i < ROWS - 3 ? 1.05 : 1.08;
        }
        struct validation v = make(arena, far, 1, true, true),
                          no_factors = make(arena, far, 1, true, false),
                          no_name = make(arena, near, 1, false, false);
        for (int i = 0; i < ROWS; i++) {
            v.rows[i].calibrated_on = false;
            v.runs.rows[i].source = no_factors.runs.rows[i].source =
                i < of_first ? "the first" : arena_format(arena, "source %d", i);
        }
        struct bands_report report;
        cJSON *bands = validation_bands(&v, &no_factors, &no_name, &report);
        const double want = names < 10 ? 0.05 : 0.08;
        assert_true(fabs(number(bands, "calibrated_inside") - want) < 1e-9);
        assert_true(fabs(number(bands, "relative_inside") - want) < 1e-9);
        cJSON_Delete(bands);
        arena_destroy(arena);
    }
}

/* Without their own factors the sources' calibration rows took 1.1, 1.3 and 1.0 times what was
 * predicted: such a stack takes 1.1, of X's rows the others' sqrt(1.3). */
static void test_uncalibrated(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const double taken[SOURCES] = { 1.1, 1.3, 1.0 };
    double near[ROWS], held[ROWS];
    for (int i = 0; i < ROWS; i++) {
        near[i] = 1.01;
        held[i] = taken[i / ROWS_OF_SOURCE];
    }
    struct stack eager = stacks[1];
    for (int fitted = 0; fitted < 2; fitted++) {
        eager.attention_fitted = fitted == 1;
        struct validation v = make(arena, near, 1, true, true),
                          no_factors = make(arena, held, 1, true, false),
                          no_name = make(arena, near, 1, false, false);
        for (int i = ROWS_OF_SOURCE; i < 2 * ROWS_OF_SOURCE; i++)
            v.rows[i].stack = no_factors.rows[i].stack = &eager;
        struct bands_report report;
        cJSON *bands = validation_bands(&v, &no_factors, &no_name, &report);
        const double want =
            fitted ? sqrt(1.1) : 1.1; /* one whose kernel is not known is left out */
        assert_true(fabs(number(bands, "uncalibrated_stack_factor") - want) < 1e-4);
        const double x = (fitted ? 1.0 : sqrt(1.3)) / 1.1 - 1, z = sqrt(1.43) - 1,
                     y = sqrt(1.1) / 1.3 - 1;
        const double mean = fitted ? (x + 1.1 - 1) / 2 : (x + y + z) / 3;
        assert_true(fabs(report.of[BAND_RELATIVE].mean_signed - mean) < 1e-9);
        cJSON_Delete(bands);
    }
    arena_destroy(arena);
}

/* Models of images or video are in no class but their own, over the whole time and to either side by
 * itself; those of a stack that states its own band say nothing of others. */
static void test_multimodal(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    double over[ROWS];
    for (int i = 0; i < ROWS; i++)
        over[i] = i < 2 * ROWS_OF_SOURCE ? 1.01 : 1 + 0.1 * (i % ROWS_OF_SOURCE);
    struct stack own = stacks[2];
    for (int states = 0; states < 2; states++) {
        own.multimodal_band = states ? 0.1 : NAN;
        struct validation of[] = { make(arena, over, 0.5, true, true),
                                   make(arena, over, 0.5, true, false),
                                   make(arena, over, 0.5, false, false) };
        for (int k = 0; k < 3; k++)
            for (int i = 2 * ROWS_OF_SOURCE; i < ROWS; i++) {
                of[k].rows[i].multimodal = of[k].rows[i].writes_text = true;
                of[k].rows[i].calibrated_on = false;
                of[k].rows[i].stack = &own;
            }
        /* One that a factor was fitted on, as a fit on runs of one's own does, says nothing. */
        of[0].rows[ROWS - 1].calibrated_on = true;
        struct bands_report report;
        cJSON *bands = validation_bands(&of[0], &of[1], &of[2], &report);
        assert_true(fabs(number(bands, "calibrated_inside") - 0.01 / 0.5) < 1e-9);
        assert_int_equal(report.of[BAND_RELATIVE].rows, 2 * ROWS_OF_SOURCE);
        assert_int_equal(report.of[BAND_UNKNOWN].rows, 2 * ROWS_OF_SOURCE);
        assert_int_equal(report.of[BAND_MULTIMODAL].rows, states ? 0 : ROWS_OF_SOURCE - 1);
        assert_int_equal(report.of[BAND_ENCODERS].rows, 0);
        assert_null(cJSON_GetObjectItemCaseSensitive(bands, "encoder_low"));
        /* 1, 1.1, 1.2, 1.3 times the prediction: of four a tenth on each side is one */
        if (states)
            assert_null(cJSON_GetObjectItemCaseSensitive(bands, "multimodal_low"));
        else
            assert_true(fabs(number(bands, "multimodal_low") - 1) < 1e-4 &&
                        fabs(number(bands, "multimodal_median") - 1.1) < 1e-4 &&
                        fabs(number(bands, "multimodal_high") - 1.3) < 1e-4);
        cJSON_Delete(bands);
    }
    arena_destroy(arena);
}

/* Sources of models that write no text took 1.1, 1.3 and 1.0 times what was predicted without
 * factors: they are the least off in the mean at 1.1, X and Y without the others at 1.0, and Z's
 * rows are held back by 1.1. Their rows are calibration rows, and no stack's factor is found from
 * them. */
static void test_encoders(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    static const double taken[SOURCES] = { 1.1, 1.3, 1.0 };
    double near[ROWS], held[ROWS];
    for (int i = 0; i < ROWS; i++) {
        near[i] = 1.01;
        held[i] = taken[i / ROWS_OF_SOURCE];
    }
    struct validation of[] = { make(arena, near, 1, true, true), make(arena, held, 1, true, false),
                               make(arena, near, 1, false, false) };
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < ROWS; i++) {
            of[k].rows[i].multimodal = of[k].rows[i].finds_encoder_factor = true;
            of[k].runs.rows[i].row_id = arena_format(arena, "row %d", i);
        }
    struct bands_report report;
    cJSON *bands = validation_bands(&of[0], &of[1], &of[2], &report);
    assert_true(fabs(number(bands, "encoder_factor") - 1.1) < 1e-4);
    assert_true(number(bands, "uncalibrated_stack_factor") == 1);
    const double x = 1.0 / 1.1 - 1, y = 1.0 / 1.3 - 1, z = 1.1 - 1;
    assert_true(fabs(report.of[BAND_ENCODERS].mean_signed - (x + y + z) / 3) < 1e-9);
    /* Two sources over what they took, 1.1 and 1.3 (X and Y) and 1 / 1.1 (Z): of each the other two
     * make the band. */
    assert_int_equal(report.of[BAND_ENCODERS].rows, ROWS);
    assert_true(fabs(number(bands, "encoder_low") - 1 / 1.1) < 1e-4 &&
                fabs(number(bands, "encoder_median") - 1.1) < 1e-4 &&
                fabs(number(bands, "encoder_high") - 1.3) < 1e-4);
    assert_true(report.of[BAND_ENCODERS].coverage == 1.0 / 3);
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(bands, "calibrated_on");
    assert_int_equal(cJSON_GetArraySize(rows), ROWS);
    cJSON_Delete(bands);
    arena_destroy(arena);
}

/* Five runs each of two sources took twice the prediction, one of a third took as long as predicted.
 * Each source counts once, and half of the time is less of an error than twice: 1 leaves them a
 * third off in the mean, and so does 2, but anything between is more. */
static void test_sources_weigh_alike(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    double over[ROWS];
    for (int i = 0; i < ROWS; i++)
        over[i] = i < 2 * ROWS_OF_SOURCE ? 2 : 1;
    struct validation of[] = { make(arena, over, 1, true, true), make(arena, over, 1, true, false),
                               make(arena, over, 1, false, false) };
    for (int k = 0; k < 3; k++) {
        of[k].runs.count = 2 * ROWS_OF_SOURCE + 1;
        for (int i = 0; i < ROWS; i++) {
            of[k].rows[i].multimodal = of[k].rows[i].finds_encoder_factor = true;
            of[k].runs.rows[i].row_id = arena_format(arena, "row %d", i);
        }
    }
    struct bands_report report;
    cJSON *bands = validation_bands(&of[0], &of[1], &of[2], &report);
    assert_true(number(bands, "encoder_factor") == 1);
    cJSON_Delete(bands);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uncalibrated),       cmocka_unit_test(test_classes),
        cmocka_unit_test(test_kernel_not_known),   cmocka_unit_test(test_few_sources),
        cmocka_unit_test(test_sources_count_once), cmocka_unit_test(test_multimodal),
        cmocka_unit_test(test_encoders),           cmocka_unit_test(test_sources_weigh_alike)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
