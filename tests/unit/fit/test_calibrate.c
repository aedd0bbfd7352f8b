/* test_calibrate.c - the shipped curves are what the fit makes of the shipped measurements
 * alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "calibrate/fit/calibrate.h"
#include "sim/base/file_read.h"
#include "sim/base/json.h"

#define MEASURED  BALLAST_SOURCE_DIR "/calibrate/measured"
#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static void compare_profile(const char *gpu) {
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_report *report = arena_new(arena, struct calibrate_report);
    cJSON *curves = cJSON_CreateObject();
    if (!calibrate_fit_profile(arena, MEASURED, NULL, gpu, NULL, curves, report, &err))
        fail_msg("%s", err.text);
    char *fitted = calibrate_curves_text(curves), *shipped;
    size_t size;
    if (!file_read(arena_format(arena, "%s/hardware/curves/%s.json", SCENARIOS, gpu), &shipped,
                   &size, &err))
        fail_msg("%s", err.text);
    for (int64_t i = 0; i < report->line_count; i++) {
        const struct calibrate_line *line = &report->lines[i];
        print_message("%-40s n %5ld, held out: median %.1f %%, p90 %.1f, bias %+.1f\n", line->what,
                      (long)line->held_out.count, 100 * line->held_out.median,
                      100 * line->held_out.p90, 100 * line->held_out.bias);
    }
    if (size != strlen(fitted) || memcmp(fitted, shipped, size) != 0)
        fail_msg("curves/%s.json is not what the fit makes of calibrate/measured", gpu);
    free(fitted);
    free(shipped);
    cJSON_Delete(curves);
    arena_destroy(arena);
}

static void test_shipped_is_fitted(void **state) {
    (void)state;
    compare_profile("a100-80g-sxm");
    compare_profile("h20-96g");
}

static void test_unknown_gpu(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_report *report = arena_new(arena, struct calibrate_report);
    cJSON *curves = cJSON_CreateObject();
    assert_false(calibrate_fit_profile(arena, MEASURED, NULL, "a100-80g", NULL, curves, report, &err));
    assert_non_null(strstr(err.text, "'a100-80g'"));
    assert_non_null(strstr(err.text, "did you mean 'a100-80g-"));
    assert_false(calibrate_fit_profile(arena, "/nowhere", NULL, "h20-96g", NULL, curves, report, &err));
    assert_non_null(strstr(err.text, "/nowhere/gemm.csv.gz"));
    cJSON_Delete(curves);
    arena_destroy(arena);
}

/* Who measured only some tables has the others from the shipped folder. */
static void test_tables(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    char mine[] = "/tmp/ballast-tables-XXXXXX";
    assert_non_null(mkdtemp(mine));
    const char *plain = arena_format(arena, "%s/gemm.csv", mine);
    FILE *file = fopen(plain, "w");
    assert_non_null(file);
    fclose(file);
    assert_string_equal(calibrate_table(arena, mine, MEASURED, "gemm"), plain);
    assert_string_equal(calibrate_table(arena, mine, MEASURED, "nccl"), MEASURED "/nccl.csv.gz");
    assert_string_equal(calibrate_table(arena, mine, NULL, "nccl"),
                        arena_format(arena, "%s/nccl.csv.gz", mine));
    assert_string_equal(calibrate_table(arena, MEASURED, NULL, "gemm"), MEASURED "/gemm.csv.gz");
    remove(plain);
    rmdir(mine);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_shipped_is_fitted),
        cmocka_unit_test(test_unknown_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
