/* test_hold_out.c - what is left of the stacks and of a run where its source is held out. */
#include <string.h>
#include "sim/study/measured/hold_out.h"
#include "tests/unit/study/measured/measured_fixture.h"

static const char *mine[] = { "mine-1", "mine-2", NULL }, *theirs[] = { "theirs-1", NULL },
                  *mixed[] = { "theirs-1", "mine-2", NULL };
static struct stack_factor factors[] = {
    { .gpu = "a100", .kernel_time_factor = 1.1, .calibrated_on = mine },
    { .gpu = "h100", .kernel_time_factor = 1.2, .calibrated_on = theirs },
    { .gpu = "h200", .kernel_time_factor = 1.3, .calibrated_on = mixed },
};
static const struct stack stacks[] = {
    { .name = "known-2024",
      .words = (const char *[]){ NULL },
      .projects = (const char *[]){ NULL },
      .year = 2024,
      .hardware = "a800-80g-sxm",
      .backend = "fsdp",
      .factors = factors,
      .factor_count = 3 },
    { .name = "bare",
      .words = (const char *[]){ NULL },
      .projects = (const char *[]){ NULL },
      .backend = "fsdp",
      .uncalibrated = true },
};
static const struct stack *const listed[] = { &stacks[0], &stacks[1] };

static struct measured_run runs[] = {
    { .row_id = "mine-1", .source = "mine", .stack = "known-2024", .hardware = "" },
    { .row_id = "mine-2", .source = "mine", .stack = "never heard of", .hardware = "h100" },
    { .row_id = "theirs-1", .source = "theirs", .stack = "known-2024", .hardware = "h100" },
};

struct held {
    struct measured_context context;
    struct validation v;
    struct hold_out h;
};

static struct held hold(enum validation_hold_out what) {
    struct held held = { .h = { .what = what } };
    held.context.arena = held.v.arena = arena_create();
    held.v.runs = (struct measured_runs){ .path = "runs.csv", .count = 3, .rows = runs };
    const struct stack **list = arena_array(held.v.arena, const struct stack *, 2);
    memcpy(list, listed, sizeof listed);
    held.h.all = held.h.stacks = (struct stack_list){ list, 2 };
    return held;
}

/* Factors that one of the source's rows went into are gone, those of others stay; what is usual is
 * found from the stacks that are left. */
static void test_factors(void **state) {
    (void)state;
    static const struct {
        int run;
        const char *left; /* GPUs of the first stack's factors */
    } cases[] = { { 0, "h100 " }, { 2, "a100 " } };
    struct held held = hold(HOLD_OUT_SOURCE);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct measured_run got =
            hold_out_run(&held.h, &held.v, &held.context, &runs[cases[i].run]);
        assert_string_equal(got.stack, runs[cases[i].run].stack);
        assert_int_equal(held.h.stacks.count, 2);
        const char *left = "";
        const struct stack *stack = held.h.stacks.stacks[0];
        for (int64_t k = 0; k < stack->factor_count; k++)
            left = arena_format(held.v.arena, "%s%s ", left, stack->factors[k].gpu);
        assert_string_equal(left, cases[i].left);
        for (int k = 0; k < 2; k++) {
            assert_true(held.h.stacks.stacks[k]->held_back);
            assert_false(held.h.stacks.stacks[k]->uncalibrated);
            assert_ptr_equal(held.h.stacks.stacks[k]->known, held.h.stacks.stacks);
        }
    }
    assert_int_equal(stacks[0].factor_count, 3); /* the shipped ones stay whole */
    arena_destroy(held.v.arena);
}

/* Without its name a run keeps the year of its software and the GPU that its stack would say. */
static void test_name(void **state) {
    (void)state;
    static const char *const want[][2] = { { "unknown-2024", "a800-80g-sxm" },
                                           { "", "h100" },
                                           { "unknown-2024", "h100" } };
    struct held held = hold(HOLD_OUT_NAME);
    for (int i = 0; i < 3; i++) {
        const struct measured_run got = hold_out_run(&held.h, &held.v, &held.context, &runs[i]);
        assert_string_equal(got.source, "");
        assert_string_equal(got.stack, want[i][0]);
        assert_string_equal(got.hardware, want[i][1]);
    }
    arena_destroy(held.v.arena);
}

static void test_nothing(void **state) {
    (void)state;
    struct held held = hold(HOLD_OUT_NOTHING);
    const struct measured_run got = hold_out_run(&held.h, &held.v, &held.context, &runs[0]);
    assert_int_equal(memcmp(&got, &runs[0], sizeof got), 0);
    assert_ptr_equal(held.h.stacks.stacks[0], &stacks[0]);
    arena_destroy(held.v.arena);
}

/* A stack of the user's own file is held out as the shipped ones are. */
static void test_own_file(void **state) {
    (void)state;
    struct held held = hold(HOLD_OUT_SOURCE);
    hold_out_run(&held.h, &held.v, &held.context, &runs[0]);
    struct measured_scenario scenario = { .stack = &stacks[0], .layout_stack = "known-2024" };
    assert_ptr_equal(hold_out_stack(&held.h, &held.v, &scenario, &runs[0]), &stacks[0]);
    scenario.layout_stack = "my/stack.json";
    const struct stack *own = hold_out_stack(&held.h, &held.v, &scenario, &runs[0]);
    assert_int_equal(own->factor_count, 1);
    assert_string_equal(own->factors[0].gpu, "h100");
    assert_ptr_equal(own->known, held.h.stacks.stacks);
    assert_int_equal(own->known_count, 2);
    arena_destroy(held.v.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_name),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_own_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
