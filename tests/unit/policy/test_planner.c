/* test_planner.c - the table of planners: sorted, complete, found by slot and name. */
#include <string.h>
#include "tests/unit/policy/planner_fixture.h"

static void test_rows(void **state) {
    (void)state;
    size_t count;
    const struct planner *const *list = planners(&count);
    assert_true(count >= 8);
    for (size_t i = 0; i < count; i++) {
        const struct planner *p = list[i];
        assert_true(p->slot < PLANNER_SLOT_COUNT);
        assert_ptr_equal(planner_find(p->slot, p->name), p);
        if (p->plan_job == NULL && p->preset == NULL) fail_msg("%s plans nothing", p->name);
        if (p->preset != NULL && p->slot != PLANNER_JOINT) fail_msg("%s is not joint", p->name);
        if (strlen(p->help) < 4) fail_msg("%s has no help", p->name);
        if (i == 0 || list[i - 1]->slot < p->slot) continue;
        if (list[i - 1]->slot > p->slot || strcmp(list[i - 1]->name, p->name) >= 0)
            fail_msg("%s is not sorted", p->name);
    }
}

static void test_find(void **state) {
    (void)state;
    assert_ptr_equal(planner_find(PLANNER_PARTITION, "layer"), &partition_layer);
    assert_ptr_equal(planner_find(PLANNER_RECOMPUTE, "none"), &recompute_none);
    assert_null(planner_find(PLANNER_RECOMPUTE, "layer")); /* another slot */
    assert_null(planner_find(PLANNER_PARTITION, "Layer"));
    assert_null(planner_find(PLANNER_PARTITION, ""));
}

static void test_hint(void **state) {
    (void)state;
    static const struct {
        enum planner_slot slot;
        const char *name, *want;
    } cases[] = {
        { PLANNER_PARTITION, "layr", "did you mean \"layer\"?" },
        { PLANNER_PARTITION, "encoder_first", "did you mean \"encoder-first\"?" },
        { PLANNER_PARTITION, "full",
          "one of: bmp, cumulative, encoder-first, exact, layer, manual, parameter, profile, "
          "uneven-flop" },
        { PLANNER_RECOMPUTE, "ful", "did you mean \"full\"?" },
        { PLANNER_RECOMPUTE, "encoder-first",
          "one of: adaptive, full, modules, none, selective, stages, uniform" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena *arena = arena_create();
        const char *got = planner_hint(arena, cases[i].slot, cases[i].name);
        if (strcmp(got, cases[i].want) != 0) fail_msg("%s: got %s", cases[i].name, got);
        arena_destroy(arena);
    }
    for (int slot = 0; slot < PLANNER_SLOT_COUNT; slot++)
        assert_true(strlen(planner_slot_name((enum planner_slot)slot)) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
