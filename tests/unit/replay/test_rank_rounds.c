/* test_rank_rounds.c - which ranks are searched, and that the slowest one ends when it would with
 * all searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sim/base/random.h"
#include "sim/replay/rank_rounds.h"

enum { RANKS = 12 };

/* A rank starts with first_ns and finds faster orders one ns at a time, down to last_ns, or ends
 * lost_ns above all that because its time is up. */
struct search {
    int64_t first_ns[RANKS], last_ns[RANKS], begin_ns[RANKS];
    int64_t lost_ns; /* by a search after the first */
    int runs, fails_at;
    int64_t stage_ns[1], part_ns[1];
    struct stage_memory memory[1];
};

static bool run(void *context, int64_t rank, int64_t enough_ns, struct rank_outcome *outcome) {
    struct search *s = context;
    const int64_t first = s->first_ns[rank], last = s->last_ns[rank];
    int64_t ns = enough_ns > last ? enough_ns : last;
    if (ns > first) ns = first;
    const bool lost = enough_ns != INT64_MAX && s->lost_ns > 0;
    if (lost) ns += s->lost_ns;
    s->stage_ns[0] = s->part_ns[0] = ns;
    *outcome = (struct rank_outcome){ .makespan_ns = ns,
                                      .finish_ns = s->stage_ns,
                                      .busy_ns = s->stage_ns,
                                      .forward_ns = s->part_ns,
                                      .backward_ns = s->part_ns,
                                      .recompute_ns = s->part_ns,
                                      .memory = s->memory,
                                      .planner_s = enough_ns == INT64_MAX ? 1 : 5,
                                      .planner_timed = lost,
                                      .planner_left = !lost && ns > last };
    return s->runs++ != s->fails_at;
}

static void test_rounds(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 3);
    const struct step_model step = { .stage_count = 1, .part_count = 1 };
    struct arena *arena = arena_create();
    struct rank_rounds *rounds = rank_rounds_create(arena, RANKS, &step);
    int saved = 0;
    for (int round = 0; round < 500; round++) {
        struct search s = { .fails_at = -1 };
        int64_t slowest = 0, got = 0, left = 0;
        for (int r = 0; r < RANKS; r++) {
            s.first_ns[r] = 1000 + random_mt_next(&mt) % 200;
            s.last_ns[r] = s.first_ns[r] - random_mt_next(&mt) % 3 * (random_mt_next(&mt) % 100);
            s.begin_ns[r] = random_mt_next(&mt) % 2 * (random_mt_next(&mt) % 2000);
            if (s.begin_ns[r] + s.last_ns[r] > slowest) slowest = s.begin_ns[r] + s.last_ns[r];
        }
        assert_true(rank_rounds_run(rounds, run, &s, s.begin_ns));
        for (int r = 0; r < RANKS; r++) {
            const struct rank_outcome *o = rank_rounds_outcome(rounds, r);
            if (s.begin_ns[r] + o->makespan_ns > got) got = s.begin_ns[r] + o->makespan_ns;
            assert_true(o->makespan_ns >= s.last_ns[r] && o->makespan_ns <= s.first_ns[r]);
            assert_true(o->finish_ns[0] == o->makespan_ns && o->recompute_ns[0] == o->makespan_ns);
            left += o->planner_left;
        }
        assert_int_equal(got, slowest);
        saved += left > 0 && s.runs < 2 * RANKS;
    }
    assert_true(saved > 400);
    struct search failing = { .fails_at = 5 };
    assert_false(rank_rounds_run(rounds, run, &failing, failing.begin_ns));
    arena_destroy(arena);
}

/* Under a budget of wall time the second search of a rank may end with less than the first had. */
static void test_the_better_search_stands(void **state) {
    (void)state;
    const struct step_model step = { .stage_count = 1, .part_count = 1 };
    struct arena *arena = arena_create();
    struct rank_rounds *rounds = rank_rounds_create(arena, 2, &step);
    const struct {
        int64_t lost_ns, want_ns;
    } cases[] = { { 0, 900 }, { 50, 950 }, { 100, 1000 }, { 101, 1000 }, { 300, 1000 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct search s = { .first_ns = { 1000, 700 },
                            .last_ns = { 900, 600 },
                            .lost_ns = cases[i].lost_ns,
                            .fails_at = -1 };
        assert_true(rank_rounds_run(rounds, run, &s, s.begin_ns));
        assert_int_equal(s.runs, 3); /* the slow rank twice */
        const struct rank_outcome *slow = rank_rounds_outcome(rounds, 0),
                                  *fast = rank_rounds_outcome(rounds, 1);
        if (slow->makespan_ns != cases[i].want_ns || slow->finish_ns[0] != cases[i].want_ns)
            fail_msg("lost %ld: got %ld, want %ld", (long)cases[i].lost_ns, (long)slow->makespan_ns,
                     (long)cases[i].want_ns);
        assert_true(slow->planner_s == 5 && !slow->planner_left);
        assert_true(slow->planner_timed == (cases[i].lost_ns > 0));
        assert_true(fast->makespan_ns == 700 && fast->planner_s == 1 && fast->planner_left);
    }
    /* Nothing tells a rank alone that it is fast enough: one search. */
    struct search alone = { .first_ns = { 1000 }, .last_ns = { 900 }, .fails_at = -1 };
    rounds = rank_rounds_create(arena, 1, &step);
    assert_true(rank_rounds_run(rounds, run, &alone, alone.begin_ns));
    assert_int_equal(alone.runs, 1);
    assert_int_equal(rank_rounds_outcome(rounds, 0)->makespan_ns, 900);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rounds),
                                        cmocka_unit_test(test_the_better_search_stands) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
