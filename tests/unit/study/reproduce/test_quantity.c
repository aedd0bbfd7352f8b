/* test_quantity.c - the table of quantities, and names with the number of a stage. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "sim/study/reproduce/quantity.h"

static void test_table(void **state) {
    (void)state;
    size_t count;
    const struct quantity *q = quantities(&count);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(q[i].of);
        assert_true(q[i].unit[0] != '\0');
        if (i > 0 && strcmp(q[i - 1].name, q[i].name) >= 0)
            fail_msg("\"%s\" before \"%s\"", q[i - 1].name, q[i].name);
        /* The band is that of the replayed time. */
        if (q[i].timed && !q[i].replayed) fail_msg("\"%s\" is timed but not replayed", q[i].name);
        char last = q[i].name[strlen(q[i].name) - 1];
        if (last >= '0' && last <= '9') fail_msg("\"%s\" ends in a digit", q[i].name);
    }
}

static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *name, *found; /* NULL: unknown */
        int64_t index;
    } cases[] = {
        { "gpu_days", "gpu_days", 0 },
        { "layers_stage1", "layers_stage", 0 },
        { "remaining_memory_stage12", "remaining_memory_stage", 11 },
        { "remaining_memory_most_stage2", "remaining_memory_most_stage", 1 },
        { "layers_stage", NULL, 0 },
        { "layers_stage0", NULL, 0 },
        { "gpu_days2", NULL, 0 },
        { "gpu_day", NULL, 0 },
        { "", NULL, 0 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        int64_t index = -1;
        const struct quantity *q = quantity_find(cases[k].name, &index);
        if ((q == NULL) != (cases[k].found == NULL))
            fail_msg("\"%s\": %s", cases[k].name, q == NULL ? "unknown" : q->name);
        if (q == NULL) continue;
        assert_string_equal(q->name, cases[k].found);
        assert_int_equal(index, cases[k].index);
    }
    assert_string_equal(quantity_nearest("gpu_day"), "gpu_days");
}

static void test_comparison(void **state) {
    (void)state;
    int64_t index;
    const struct quantity *speedup = quantity_find("speedup", &index);
    const struct quantity *change = quantity_find("cut_volume_change", &index);
    assert_true(quantity_compares(speedup) && quantity_compares(change));
    assert_false(quantity_compares(quantity_find("gpu_days", &index)));
    assert_true(quantity_compare(speedup, 20, 60) == 3);
    assert_true(quantity_compare(change, 20, 60) == -40);
}

/* Memory 2, 6, 4 for 1, 1 and 2 ns between 10 and 14; before and after it does not count. */
static void test_fluctuation(void **state) {
    (void)state;
    static const struct memory_point_record points[] = {
        { .time_ns = 0, .memory_bytes = 100 }, { .time_ns = 5, .memory_bytes = 2 },
        { .time_ns = 11, .memory_bytes = 6 },  { .time_ns = 12, .memory_bytes = 4 },
        { .time_ns = 20, .memory_bytes = 90 },
    };
    struct fluctuation f = fluctuation_between(points, 5, 10, 14);
    assert_true(f.range_bytes == 4);
    assert_true(fabs(f.deviation_bytes - sqrt(2)) < 1e-12); /* mean 4: squares 4, 4, 0, 0 */
    f = fluctuation_between(points, 5, 12, 13);
    assert_true(f.range_bytes == 0 && f.deviation_bytes == 0);
    assert_true(isnan(fluctuation_between(points, 5, 14, 14).range_bytes));
    assert_true(isnan(fluctuation_between(points, 0, 0, 1).deviation_bytes));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_table), cmocka_unit_test(test_names),
                                        cmocka_unit_test(test_comparison),
                                        cmocka_unit_test(test_fluctuation) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
