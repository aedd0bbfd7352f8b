/* test_monolithic.c - a solver comes back within its limits, by itself or ended from outside. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim/policy/joint/interleaver.h"
#include "sim/policy/joint/monolithic.h"
#include "tests/unit/policy/segment_fixture.h"

enum { MiB = 1048576 };

/* With 12 micro-batches about as many passes as T2V-S makes of so many, and memory that is
 * short. */
static struct segment_graph *graph(struct arena *arena, const int32_t *images,
                                   int32_t micro_batches) {
    struct vlm v = { .ranks = 4,
                     .micro_batches = micro_batches,
                     .images = images,
                     .per_item = 2,
                     .vision_chunks = 2,
                     .language_chunks = 1,
                     .image_ns = 9000000,
                     .text_ns = 31000000,
                     .send_ns = 400000,
                     .image_bytes = 200.0 * MiB,
                     .text_bytes = 900.0 * MiB,
                     .capacity_bytes = 9000.0 * MiB };
    return vlm_graph(arena, &v, NULL);
}

static int64_t in_turn(struct segment_graph *g) {
    int32_t order[64];
    assert_true(g->class_count <= 64);
    for (int32_t i = 0; i < g->class_count; i++)
        order[i] = i;
    struct interleaver *x = interleaver_create(g);
    int64_t ns = interleaver_run(x, order, TURN_ALTERNATE, NULL);
    interleaver_destroy(x);
    assert_true(ns != SEGMENT_DEAD_END);
    return ns;
}

/* Far more than it can do within its limit: the answer comes in time, and claims nothing that is
 * not known. The program takes seconds to build, so the shorter limit ends there and the longer one
 * in a check; with push() in place of an assumption that check took many minutes. */
static void test_comes_back(void **state) {
    (void)state;
    if (!monolithic_built(MONOLITHIC_Z3)) skip();
    struct arena *arena = arena_create();
    static const int32_t images[12] = { 12, 11, 10, 12, 9, 12, 11, 12, 10, 12, 12, 8 };
    struct segment_graph *g = graph(arena, images, 12);
    int64_t horizon_ns = in_turn(g);
    static const struct monolithic_budget budgets[] = { { INT64_MAX, 0.05 }, { 100000, 60 } };
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        struct monolithic_result result;
        monolithic_solve(g, MONOLITHIC_Z3, horizon_ns, &budgets[i], &result);
        double most_s = 3 * budgets[i].seconds + 20;
        if (result.wall_s > most_s) fail_msg("came back after %.1f s", result.wall_s);
        assert_true(result.ran);
        assert_false(result.solved);
        assert_true(result.best_ns <= horizon_ns && result.best_ns >= result.bound_ns);
        assert_true(result.bound_ns >= segment_graph_bound_ns(g));
        print_message("%ld passes, %ld choices: %s after %.2f s\n", (long)result.passes,
                      (long)result.choices, result.killed ? "killed" : "back", result.wall_s);
    }
    arena_destroy(arena);
}

/* One that comes back by itself is not killed, and gives the same in its own process as twice. */
static void test_small(void **state) {
    (void)state;
    if (!monolithic_built(MONOLITHIC_Z3)) skip();
    struct arena *arena = arena_create();
    static const int32_t images[2] = { 2, 1 };
    struct segment_graph *g = graph(arena, images, 2);
    int64_t horizon_ns = in_turn(g);
    struct monolithic_budget budget = { .effort = INT64_MAX, .seconds = 60 };
    struct monolithic_result first, second;
    monolithic_solve(g, MONOLITHIC_Z3, horizon_ns, &budget, &first);
    monolithic_solve(g, MONOLITHIC_Z3, horizon_ns, &budget, &second);
    assert_true(!first.killed && !second.killed);
    assert_int_equal(first.best_ns, second.best_ns);
    assert_int_equal(first.effort, second.effort);
    print_message("%ld choices, %s, %.2f s\n", (long)first.choices,
                  first.solved ? "solved" : "open", first.wall_s);
    assert_true(first.solved);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_back),
        cmocka_unit_test(test_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
