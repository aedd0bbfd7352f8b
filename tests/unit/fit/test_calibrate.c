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
#include "calibrate/fit/plan.h"
#include "sim/base/file_read.h"
#include "sim/base/folder_names.h"
#include "sim/base/json.h"

#define MEASURED  BALLAST_SOURCE_DIR "/calibrate/measured"
#define SCENARIOS BALLAST_SOURCE_DIR "/scenarios"

static void compare_profile(const char *gpu) {
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_report *report = arena_new(arena, struct calibrate_report);
    cJSON *curves = cJSON_CreateObject();
    if (!calibrate_fit_profile(arena, MEASURED, NULL, &(struct calibrate_gpu){ .profile = gpu },
                               curves, report, &err))
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
#ifdef __SANITIZE_ADDRESS__ /* where A100's takes most of a minute */
    compare_profile("l40s-48g-pcie");
#else
    compare_profile("a100-80g-sxm");
#endif
    compare_profile("h20-96g");
}

static const char *text_of(const cJSON *object, const char *key) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

/* A fit takes minutes; what it copies from a plan can be held for all of them. */
static void test_shipped_says_what_plans_say(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    int64_t count, planned = 0;
    const char **names = folder_names(arena, SCENARIOS "/hardware/curves", ".json", &count);
    assert_non_null(names);
    for (int64_t i = 0; i < count; i++) {
        const struct plan *plan = plan_find(names[i], &err);
        if (!plan) continue;
        struct json *json =
            json_load(arena_format(arena, "%s/hardware/curves/%s.json", SCENARIOS, names[i]), &err);
        assert_non_null(json);
        const cJSON *matmul = cJSON_GetObjectItemCaseSensitive(json_root(json), "matmul");
        if (strcmp(text_of(json_root(json), "note"), plan->note) != 0)
            fail_msg("%s: not the note of its plan", names[i]);
        if (strcmp(text_of(matmul, "settled_source"), plan->settled_source) != 0)
            fail_msg("%s: not the settled_source of its plan", names[i]);
        json_destroy(json);
        planned++;
    }
    assert_true(planned > 10);
    arena_destroy(arena);
}

static void test_unknown_gpu(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct error err = { 0 };
    struct calibrate_report *report = arena_new(arena, struct calibrate_report);
    cJSON *curves = cJSON_CreateObject();
    const struct calibrate_gpu unknown = { .profile = "a100-80g" },
                               known = { .profile = "h20-96g" };
    assert_false(calibrate_fit_profile(arena, MEASURED, NULL, &unknown, curves, report, &err));
    assert_non_null(strstr(err.text, "'a100-80g'"));
    assert_non_null(strstr(err.text, "did you mean 'a100-80g-"));
    assert_false(calibrate_fit_profile(arena, "/nowhere", NULL, &known, curves, report, &err));
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
        cmocka_unit_test(test_shipped_says_what_plans_say),
        cmocka_unit_test(test_unknown_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
