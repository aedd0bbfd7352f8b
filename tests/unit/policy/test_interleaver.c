/* test_interleaver.c - the dual queue: closed forms, validity on drawn iterations, memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "sim/base/random.h"
#include "sim/policy/joint/interleaver.h"
#include "tests/unit/policy/segment_fixture.h"

static void in_turn(int32_t *order, int32_t count) {
    for (int32_t i = 0; i < count; i++)
        order[i] = i;
}

static int64_t greedy(const struct segment_graph *g, struct segment_schedule *schedule) {
    int32_t order[256];
    in_turn(order, g->class_count);
    schedule->tasks = arena_array(g->arena, struct segment_task, segment_schedule_size(g));
    struct interleaver *x = interleaver_create(g);
    int64_t ns = interleaver_run(x, order, TURN_ALTERNATE, schedule);
    interleaver_destroy(x);
    return ns;
}

/* One module, equal times f = 1, b = 2: 1F1B takes (m + p - 1) 3, and nothing is faster. */
static void test_text_only_is_1f1b(void **state) {
    (void)state;
    static const int32_t no_images[16];
    for (int32_t ranks = 1; ranks <= 5; ranks++)
        for (int32_t m = 1; m <= 12; m++) {
            struct arena *arena = arena_create();
            struct vlm v = { .ranks = ranks,
                             .micro_batches = m,
                             .images = no_images,
                             .per_item = 4,
                             .vision_chunks = 1,
                             .language_chunks = 1,
                             .text_ns = 1000 };
            struct segment_graph *g = vlm_graph(arena, &v, NULL);
            struct segment_schedule schedule;
            int64_t ns = greedy(g, &schedule), want = 3000 * (m + ranks - 1);
            if (ns != want || segment_graph_bound_ns(g) != want)
                fail_msg("%d ranks, %d micro-batches: %ld, bound %ld, want %ld", (int)ranks, (int)m,
                         (long)ns, (long)segment_graph_bound_ns(g), (long)want);
            arena_destroy(arena);
        }
}

static struct vlm drawn(struct random_mt *mt, int32_t *images) {
    struct vlm v = { .ranks = 1 + (int32_t)(random_mt_next(mt) % 5),
                     .micro_batches = 1 + (int32_t)(random_mt_next(mt) % 10),
                     .images = images,
                     .per_item = 1 + (int32_t)(random_mt_next(mt) % 6),
                     .vision_chunks = 1 + (int32_t)(random_mt_next(mt) % 3),
                     .language_chunks = 1 + (int32_t)(random_mt_next(mt) % 2),
                     .image_ns = 1 + random_mt_next(mt) % 400,
                     .text_ns = 1 + random_mt_next(mt) % 2000,
                     .send_ns = random_mt_next(mt) % 50,
                     .image_bytes = 10,
                     .text_bytes = 30,
                     .blocks = random_mt_next(mt) % 2 == 0 };
    for (int32_t m = 0; m < v.micro_batches; m++)
        images[m] =
            (int32_t)(random_mt_next(mt) % 13) - 2 > 0 ? (int32_t)(random_mt_next(mt) % 12) : 0;
    return v;
}

/* Below a limit the makespan, at it and above the limit itself. Once each in front of and behind
 * ns. */
static void check_limits(struct interleaver *x, const int32_t *order, enum interleaver_turn turn,
                         int64_t ns) {
    const int64_t limits[] = { 1, ns / 2, ns - 1, ns, ns + 1, 2 * ns, SEGMENT_DEAD_END };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        int64_t want = ns < limits[i] ? ns : limits[i];
        int64_t got = interleaver_run_below(x, order, turn, limits[i]);
        if (got != want)
            fail_msg("%ld ns, limit %ld: got %ld", (long)ns, (long)limits[i], (long)got);
    }
    assert_int_equal(interleaver_run(x, order, turn, NULL), ns);
}

static void test_drawn_iterations(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 5);
    for (int round = 0; round < 400; round++) {
        struct arena *arena = arena_create();
        int32_t images[16], order[64];
        struct vlm v = drawn(&mt, images);
        struct segment_graph *g = vlm_graph(arena, &v, NULL);
        in_turn(order, g->class_count);
        random_numpy_shuffle(&mt, (uint32_t *)order, (uint32_t)g->class_count);
        struct segment_schedule schedule;
        schedule.tasks = arena_array(arena, struct segment_task, segment_schedule_size(g));
        struct interleaver *x = interleaver_create(g);
        enum interleaver_turn turn = round % 2 == 0 ? TURN_ALTERNATE : TURN_URGENT;
        int64_t ns = interleaver_run(x, order, turn, &schedule);
        const char *fault = schedule_fault(g, &schedule, true);
        if (fault != NULL) fail_msg("round %d: %s", round, fault);
        assert_true(ns >= segment_graph_bound_ns(g));
        /* The same order, timed alone, and again without recording. */
        assert_int_equal(segment_order_time(g, &schedule), ns);
        assert_int_equal(interleaver_run(x, order, turn, NULL), ns);
        check_limits(x, order, turn, ns);
        interleaver_destroy(x);
        arena_destroy(arena);
    }
}

/* The clock beside a run, and behind it, says what timing the order in its durations says; and with
 * a limit no more than that. */
static void check_clock(struct segment_graph *g, struct interleaver *x, const int32_t *order,
                        struct random_mt *mt) {
    const int64_t cells = (int64_t)g->segment_count * g->rank_count;
    struct segment_pass *own = g->passes;
    struct segment_pass *shorter = arena_array(g->arena, struct segment_pass, cells);
    struct segment_pass *longer = arena_array(g->arena, struct segment_pass, cells);
    struct segment_schedule schedule;
    schedule.tasks = arena_array(g->arena, struct segment_task, segment_schedule_size(g));
    for (int64_t i = 0; i < cells; i++) {
        shorter[i] = longer[i] = own[i];
        shorter[i].backward_ns -= random_mt_next(mt) % (uint32_t)(own[i].backward_ns + 1);
        longer[i].backward_ns = shorter[i].backward_ns + random_mt_next(mt) % 300;
    }
    g->passes = shorter;
    const struct segment_tails tails = segment_tails_create(g);
    g->passes = own;
    struct segment_clock *clock = segment_clock_create(g);
    struct interleaver_beside beside = { clock, shorter, &tails, SEGMENT_DEAD_END };
    const int64_t ns = interleaver_run(x, order, TURN_ALTERNATE, NULL);
    assert_true(interleaver_run_beside(x, order, TURN_ALTERNATE, &beside, &schedule));
    assert_int_equal(schedule.makespan_ns, ns);
    g->passes = shorter;
    const int64_t short_ns = segment_order_time(g, &schedule);
    assert_int_equal(clock->makespan_ns, short_ns);
    g->passes = longer;
    const int64_t long_ns = segment_order_time(g, &schedule);
    const int64_t limits[] = { 1, long_ns / 2, long_ns, long_ns + 1, SEGMENT_DEAD_END };
    for (int told = 0; told < 2; told++) {
        for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
            assert_int_equal(segment_clock_run(clock, longer, &tails, limits[i]),
                             long_ns < limits[i] ? long_ns : limits[i]);
        for (int64_t i = 0; told == 0 && i < cells; i++)
            clock->longer_ns[i % g->rank_count] += longer[i].backward_ns - shorter[i].backward_ns;
    }
    segment_clock_reset(clock);
    /* The order as timing finds it does as well as the one that ran. */
    assert_int_equal(segment_order_passes(g, &schedule, clock->order), long_ns);
    assert_int_equal(segment_clock_run(clock, longer, &tails, SEGMENT_DEAD_END), long_ns);
    g->passes = own;
    beside.limit_ns = short_ns;
    assert_false(interleaver_run_beside(x, order, TURN_ALTERNATE, &beside, &schedule));
    beside.limit_ns = short_ns + 1;
    assert_true(interleaver_run_beside(x, order, TURN_ALTERNATE, &beside, &schedule));
    segment_clock_destroy(clock);
}

static void test_clock(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 7);
    for (int round = 0; round < 200; round++) {
        struct arena *arena = arena_create();
        int32_t images[16], order[64];
        const struct vlm v = drawn(&mt, images);
        struct segment_graph *g = vlm_graph(arena, &v, NULL);
        in_turn(order, g->class_count);
        random_numpy_shuffle(&mt, (uint32_t *)order, (uint32_t)g->class_count);
        struct interleaver *x = interleaver_create(g);
        check_clock(g, x, order, &mt);
        interleaver_destroy(x);
        arena_destroy(arena);
    }
}

static double largest_need(const struct vlm *v) {
    double most = 0;
    for (int32_t m = 0; m < v->micro_batches; m++) {
        double need =
            v->images[m] * v->image_bytes * v->vision_chunks + v->text_bytes * v->language_chunks;
        if (need > most) most = need;
    }
    return most;
}

/* Room for the largest micro-batch alone: always a schedule, never above capacity. */
static void test_memory(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 6);
    int held = 0;
    for (int round = 0; round < 400; round++) {
        struct arena *arena = arena_create();
        int32_t images[16];
        struct vlm v = drawn(&mt, images);
        v.capacity_bytes = largest_need(&v);
        struct segment_graph *g = vlm_graph(arena, &v, NULL);
        struct segment_schedule schedule;
        int64_t ns = greedy(g, &schedule);
        assert_true(ns != SEGMENT_DEAD_END);
        const char *fault = schedule_fault(g, &schedule, true);
        if (fault != NULL) fail_msg("round %d: %s", round, fault);
        for (int32_t r = 0; r < g->rank_count; r++)
            assert_true(segment_order_peak_bytes(g, &schedule, r) <= v.capacity_bytes);
        int32_t order[64];
        in_turn(order, g->class_count);
        struct interleaver *x = interleaver_create(g);
        check_limits(x, order, TURN_ALTERNATE, ns);
        interleaver_destroy(x);
        v.capacity_bytes = 0;
        struct segment_schedule wide;
        held += greedy(vlm_graph(arena, &v, NULL), &wide) < ns;
        arena_destroy(arena);
    }
    assert_true(held > 20); /* the limit was felt */
}

static void test_dead_end(void **state) {
    (void)state;
    static const int32_t images[] = { 3, 3 };
    struct arena *arena = arena_create();
    struct vlm v = { .ranks = 2,
                     .micro_batches = 2,
                     .images = images,
                     .per_item = 1,
                     .vision_chunks = 1,
                     .language_chunks = 1,
                     .image_ns = 5,
                     .text_ns = 10,
                     .image_bytes = 10,
                     .text_bytes = 5,
                     .capacity_bytes = 34.5 };
    struct segment_schedule schedule;
    assert_true(greedy(vlm_graph(arena, &v, NULL), &schedule) == SEGMENT_DEAD_END);
    v.capacity_bytes = 35; /* one micro-batch at a time */
    struct segment_graph *g = vlm_graph(arena, &v, NULL);
    assert_true(greedy(g, &schedule) != SEGMENT_DEAD_END);
    assert_null(schedule_fault(g, &schedule, true));
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_only_is_1f1b),
        cmocka_unit_test(test_drawn_iterations),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_dead_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
