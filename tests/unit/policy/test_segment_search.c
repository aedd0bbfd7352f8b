/* test_segment_search.c - the search against exhaustive enumeration, itself and its comparisons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "sim/base/random.h"
#include "sim/policy/joint/monolithic.h"
#include "sim/policy/joint/segment_search.h"
#include "tests/unit/policy/segment_fixture.h"

static struct vlm small(struct random_mt *mt, int32_t *images, int32_t ranks, int32_t most) {
    struct vlm v = { .ranks = ranks,
                     .micro_batches = 2 + (int32_t)(random_mt_next(mt) % (unsigned)most),
                     .images = images,
                     .per_item = 4,
                     .vision_chunks = 1,
                     .language_chunks = 1,
                     .image_ns = 50 + random_mt_next(mt) % 200,
                     .text_ns = 300 + random_mt_next(mt) % 700,
                     .send_ns = random_mt_next(mt) % 30 };
    for (int32_t m = 0; m < v.micro_batches; m++)
        images[m] = (int32_t)(random_mt_next(mt) % 9);
    return v;
}

struct permuter {
    struct interleaver *interleaver;
    int32_t order[8], count;
    int64_t best_ns;
    bool worst;
};

static void permute(struct permuter *p, int32_t from) {
    if (from == p->count) {
        for (int turn = 0; turn < (p->worst ? TURN_ALTERNATE + 1 : TURN_COUNT); turn++) {
            int64_t ns = interleaver_run(p->interleaver, p->order, turn, NULL);
            if (p->worst ? ns > p->best_ns : ns < p->best_ns) p->best_ns = ns;
        }
        return;
    }
    for (int32_t i = from; i < p->count; i++) {
        int32_t kept = p->order[from];
        p->order[from] = p->order[i];
        p->order[i] = kept;
        permute(p, from + 1);
        p->order[i] = p->order[from];
        p->order[from] = kept;
    }
}

/* Every order of classes: the search must find the best of them, and nearly the worst when
 * asked. */
static void test_all_orders(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 11);
    for (int round = 0; round < 40; round++) {
        struct arena *arena = arena_create();
        int32_t images[8], found[8];
        struct vlm v = small(&mt, images, 1 + round % 4, 2);
        struct segment_graph *g = vlm_graph(arena, &v, NULL);
        for (int worst = 0; worst < 2; worst++) {
            struct permuter p = { .interleaver = interleaver_create(g),
                                  .count = g->class_count,
                                  .best_ns = worst ? 0 : INT64_MAX,
                                  .worst = worst };
            for (int32_t i = 0; i < p.count; i++)
                p.order[i] = i;
            permute(&p, 0);
            struct segment_search_options options = segment_search_defaults();
            options.rollouts = 4000;
            options.worst = worst;
            struct segment_search_result result;
            segment_search(g, &options, found, &result);
            assert_true(worst ? result.best_ns <= p.best_ns : result.best_ns >= p.best_ns);
            if (worst ? (double)result.best_ns < 0.99 * (double)p.best_ns
                      : result.best_ns != p.best_ns)
                fail_msg("round %d, %s: search %ld, all orders %ld", round,
                         worst ? "worst" : "best", (long)result.best_ns, (long)p.best_ns);
            assert_int_equal(interleaver_run(p.interleaver, found, result.turn, NULL),
                             result.best_ns);
            interleaver_destroy(p.interleaver);
        }
        arena_destroy(arena);
    }
}

/* Of the solvers' times: whole numbers of their ticks. */
enum { SCALE = 10000 };

/* ---- every schedule at all: any pass that has its inputs may run next on its rank ---- */

struct every {
    const struct segment_graph *g;
    int64_t forward[16][3], backward[16][3]; /* finish with send; -1: not yet */
    int64_t free_ns[3], best_ns, left_ns[3];
    double live_bytes[3];
};

static int64_t inputs(const struct every *e, int32_t s, int32_t r, bool backward) {
    const struct segment_graph *g = e->g;
    int64_t most = 0;
    int32_t last = g->rank_count - 1;
    if (!backward) {
        if (r > 0) return e->forward[s][r - 1];
        for (int32_t k = g->predecessor_first[s]; k < g->predecessor_first[s + 1]; k++) {
            int64_t value = e->forward[g->predecessors[k]][last];
            if (value < 0) return -1;
            most = value > most ? value : most;
        }
        return most;
    }
    if (e->forward[s][r] < 0) return -1;
    if (r < last) return e->backward[s][r + 1];
    if (g->successor_first[s] == g->successor_first[s + 1]) return e->forward[s][r];
    for (int32_t k = g->successor_first[s]; k < g->successor_first[s + 1]; k++) {
        int64_t value = e->backward[g->successors[k]][0];
        if (value < 0) return -1;
        most = value > most ? value : most;
    }
    return most;
}

/* Passes are placed in the order of their start, so that each schedule is met once. */
static void place(struct every *e, int32_t left, int64_t not_before) {
    const struct segment_graph *g = e->g;
    if (left == 0) {
        int64_t makespan = 0;
        for (int32_t r = 0; r < g->rank_count; r++)
            makespan = e->free_ns[r] > makespan ? e->free_ns[r] : makespan;
        if (makespan < e->best_ns) e->best_ns = makespan;
        return;
    }
    for (int32_t r = 0; r < g->rank_count; r++)
        if (e->left_ns[r] > 0 &&
            (e->free_ns[r] > not_before ? e->free_ns[r] : not_before) + e->left_ns[r] >= e->best_ns)
            return;
    for (int32_t s = 0; s < g->segment_count; s++)
        for (int32_t r = 0; r < g->rank_count; r++)
            for (int b = 0; b < 2; b++) {
                int64_t *cell = b ? &e->backward[s][r] : &e->forward[s][r];
                if (*cell >= 0) continue;
                int64_t start = inputs(e, s, r, b);
                if (start < 0) continue;
                if (start < e->free_ns[r]) start = e->free_ns[r];
                if (start < not_before) continue;
                const struct segment_pass *pass = segment_graph_pass(g, s, r);
                if (!b && e->live_bytes[r] + pass->bytes > g->capacity_bytes[r]) continue;
                double live = e->live_bytes[r];
                e->live_bytes[r] += b ? -pass->bytes : pass->bytes;
                int64_t kept = e->free_ns[r], ns = b ? pass->backward_ns : pass->forward_ns;
                e->free_ns[r] = *cell = start + ns;
                e->left_ns[r] -= ns;
                place(e, left - 1, start);
                e->left_ns[r] += ns;
                e->live_bytes[r] = live;
                *cell = -1;
                e->free_ns[r] = kept;
            }
}

/* Against the optimum over all schedules: within 4 % on each, and equal on most. (With the paper's
 * turns alone it is up to 17 % off here: a text-only micro-batch beside one of images.) */
static void test_every_schedule(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 12);
    int equal = 0, rounds = 20;
    for (int round = 0; round < rounds; round++) {
        struct arena *arena = arena_create();
        int32_t images[8], found[8];
        struct vlm v = small(&mt, images, 2, 1);
        v.micro_batches = 2;
        v.send_ns = 0;
        images[0] = 1 + images[0] % 4;
        images[1] = images[1] % 5;
        struct segment_graph *g = vlm_graph(arena, &v, NULL);
        struct every e = { .g = g, .best_ns = INT64_MAX };
        for (int s = 0; s < 16; s++)
            for (int r = 0; r < 3; r++)
                e.forward[s][r] = e.backward[s][r] = -1;
        for (int32_t s = 0; s < g->segment_count; s++)
            for (int32_t r = 0; r < g->rank_count; r++)
                e.left_ns[r] += 3 * segment_graph_pass(g, s, r)->forward_ns;
        struct segment_search_options options = segment_search_defaults();
        struct segment_search_result result;
        segment_search(g, &options, found, &result);
        e.best_ns = result.best_ns + 1; /* only what is as good or better */
        place(&e, 2 * g->segment_count * g->rank_count, 0);
        equal += e.best_ns == result.best_ns;
        assert_true(e.best_ns >= segment_graph_bound_ns(g));
        if ((double)result.best_ns > 1.04 * (double)e.best_ns)
            fail_msg("round %d: search %ld, optimum %ld", round, (long)result.best_ns,
                     (long)e.best_ns);
        arena_destroy(arena);
    }
    if (equal < rounds * 3 / 4) fail_msg("optimal in %d of %d", equal, rounds);
}

static int64_t optimum(const struct segment_graph *g, int64_t known_ns) {
    struct every e = { .g = g, .best_ns = known_ns + 1 }; /* only what is as good or better */
    for (int s = 0; s < 16; s++)
        for (int r = 0; r < 3; r++)
            e.forward[s][r] = e.backward[s][r] = -1;
    for (int32_t s = 0; s < g->segment_count; s++)
        for (int32_t r = 0; r < g->rank_count; r++)
            e.left_ns[r] += 3 * segment_graph_pass(g, s, r)->forward_ns;
    place(&e, 2 * g->segment_count * g->rank_count, 0);
    return e.best_ns;
}

/* The same where memory holds one to all of the micro-batches. Two general solvers on the one big
 * program must find the optimum that enumeration finds; the search stays within memory and comes
 * close. */
static void test_every_schedule_within_memory(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 31);
    int equal = 0, held_back = 0, rounds = 40;
    for (int round = 0; round < rounds; round++) {
        struct arena *arena = arena_create();
        int32_t images[8], found[8];
        struct vlm v = small(&mt, images, 1 + round % 2, 1);
        v.micro_batches = round % 2 == 0 ? 3 : 2;
        v.send_ns = 0;
        double largest = 0, sum = 0;
        v.image_bytes = 1 + random_mt_next(&mt) % 3;
        v.text_bytes = 3 + random_mt_next(&mt) % 5;
        for (int32_t m = 0; m < v.micro_batches; m++) {
            images[m] =
                round % 2 == 0 ? images[m] % 5 : (m == 0 ? 1 + images[m] % 4 : images[m] % 5);
            double own = v.image_bytes * images[m] + v.text_bytes;
            largest = fmax(largest, own);
            sum += own;
        }
        v.capacity_bytes = largest + floor((sum - largest) * (random_mt_next(&mt) % 5) / 4);
        struct segment_graph *g = vlm_graph(arena, &v, NULL);
        struct segment_search_options options = segment_search_defaults();
        struct segment_search_result result;
        segment_search(g, &options, found, &result);
        assert_true(result.best_ns != SEGMENT_DEAD_END);
        struct segment_schedule schedule;
        schedule.tasks = arena_array(arena, struct segment_task, segment_schedule_size(g));
        struct interleaver *x = interleaver_create(g);
        interleaver_run(x, found, result.turn, &schedule);
        interleaver_destroy(x);
        const char *fault = schedule_fault(g, &schedule, true);
        if (fault != NULL) fail_msg("round %d: %s", round, fault);
        int64_t best_ns = optimum(g, result.best_ns);
        for (int k = 0; k < MONOLITHIC_COUNT; k++) {
            if (!monolithic_built((enum monolithic_solver)k)) continue;
            struct monolithic_budget budget = { .effort = 100000000, .seconds = 60 };
            struct monolithic_result solved;
            for (int32_t s = 0; s < g->segment_count; s++)
                for (int32_t r = 0; r < g->rank_count; r++) {
                    segment_graph_pass(g, s, r)->forward_ns *= SCALE;
                    segment_graph_pass(g, s, r)->backward_ns *= SCALE;
                    if (k == MONOLITHIC_Z3) segment_graph_pass(g, s, r)->bytes *= 1048576;
                }
            for (int32_t r = 0; k == MONOLITHIC_Z3 && r < g->rank_count; r++)
                g->capacity_bytes[r] *= 1048576;
            monolithic_solve(g, (enum monolithic_solver)k, result.best_ns * SCALE, &budget,
                             &solved);
            for (int32_t s = 0; s < g->segment_count; s++)
                for (int32_t r = 0; r < g->rank_count; r++) {
                    segment_graph_pass(g, s, r)->forward_ns /= SCALE;
                    segment_graph_pass(g, s, r)->backward_ns /= SCALE;
                }
            if (!solved.solved || solved.best_ns != best_ns * SCALE)
                fail_msg("round %d, %s: %ld, optimum %ld", round,
                         monolithic_name((enum monolithic_solver)k),
                         solved.solved ? (long)(solved.best_ns / SCALE) : -1, (long)best_ns);
        }
        equal += best_ns == result.best_ns;
        for (int32_t r = 0; r < g->rank_count; r++)
            g->capacity_bytes[r] = INFINITY;
        held_back += optimum(g, best_ns) < best_ns;
        assert_true(best_ns >= segment_graph_bound_ns(g));
        if ((double)result.best_ns > 1.10 * (double)best_ns)
            fail_msg("round %d: search %ld, optimum %ld", round, (long)result.best_ns,
                     (long)best_ns);
        arena_destroy(arena);
    }
    print_message("optimal in %d of %d; memory costs time in %d\n", equal, rounds, held_back);
    assert_true(equal >= rounds / 2 && held_back >= 3);
}

/* An iteration like VLM-S: 4 ranks, 16 micro-batches of 0 to 25 images. */
static struct segment_graph *vlm_s(struct arena *arena, int32_t micro_batches, int32_t **level) {
    int32_t *images = arena_array(arena, int32_t, micro_batches);
    struct random_mt mt;
    random_mt_seed(&mt, 3);
    for (int32_t i = 0; i < micro_batches; i++)
        images[i] = (int32_t)(random_mt_next(&mt) % 26);
    struct vlm v = { .ranks = 4, .micro_batches = micro_batches, .images = images, .per_item = 12,
                     .vision_chunks = 2, .language_chunks = 1, .image_ns = 2000000,
                     .text_ns = 25000000, .send_ns = 300000, .image_bytes = 1, .text_bytes = 4 };
    return vlm_graph(arena, &v, level);
}

static void test_threads_change_nothing(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    struct segment_graph *g = vlm_s(arena, 16, NULL);
    int32_t alone[64], together[64];
    struct segment_search_result one, four;
    struct segment_search_options options = segment_search_defaults();
    options.rollouts = 1500;
    segment_search(g, &options, alone, &one);
    options.pool = thread_pool_create(4);
    segment_search(g, &options, together, &four);
    thread_pool_destroy(options.pool);
    assert_int_equal(one.best_ns, four.best_ns);
    assert_int_equal(one.nodes, four.nodes);
    assert_int_equal(one.rollouts, four.rollouts);
    assert_memory_equal(alone, together, sizeof(int32_t) * (size_t)g->class_count);
    arena_destroy(arena);
}

/* Never worse than micro-batches in turn, the fixed order or encoders first; worst is worst. */
static void test_against_rules(void **state) {
    (void)state;
    struct arena *arena = arena_create();
    int32_t *level, found[64];
    struct segment_graph *g = vlm_s(arena, 16, &level);
    struct segment_schedule schedule;
    schedule.tasks = arena_array(arena, struct segment_task, segment_schedule_size(g));
    struct segment_search_options options = segment_search_defaults();
    struct segment_search_result tree, random, deep, worst;
    segment_search(g, &options, found, &tree);
    assert_true(tree.best_ns <= tree.greedy_ns);
    assert_true(tree.best_ns <= segment_order_fixed(g, level, 2, &schedule));
    assert_null(schedule_fault(g, &schedule, false));
    assert_true(tree.best_ns <= segment_order_encoders_first(g, level, &schedule));
    assert_null(schedule_fault(g, &schedule, false));
    assert_true(tree.best_ns >= segment_graph_bound_ns(g));
    options.method = SEARCH_RANDOM;
    segment_search(g, &options, found, &random);
    options.method = SEARCH_DEPTH_FIRST;
    segment_search(g, &options, found, &deep);
    assert_true(tree.best_ns <= random.best_ns && tree.best_ns <= deep.best_ns);
    options.method = SEARCH_TREE;
    options.worst = true;
    segment_search(g, &options, found, &worst);
    assert_true(worst.best_ns > random.best_ns);
    arena_destroy(arena);
}

int main(int argc, char **argv) {
    if (argc > 1) { /* test_segment_search MICRO_BATCHES SECONDS: what a core does */
        struct arena *arena = arena_create();
        int32_t found[512], *level;
        struct segment_graph *g = vlm_s(arena, atoi(argv[1]), &level);
        struct segment_search_options options = segment_search_defaults();
        options.rollouts = INT64_MAX;
        options.seconds = argc > 2 ? atof(argv[2]) : 1;
        if (argc > 3) options.method = (enum search_method)atoi(argv[3]);
        struct segment_search_result r;
        segment_search(g, &options, found, &r);
        printf("%s: %d classes, %ld tasks: %.0f rollouts/s, best %.4f s, greedy %.4f s, bound %.4f "
               "s\n",
               search_method_name(options.method), (int)g->class_count,
               (long)segment_schedule_size(g), (double)r.rollouts / r.wall_s,
               (double)r.best_ns * 1e-9, (double)r.greedy_ns * 1e-9,
               (double)segment_graph_bound_ns(g) * 1e-9);
        arena_destroy(arena);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_orders),
        cmocka_unit_test(test_every_schedule),
        cmocka_unit_test(test_every_schedule_within_memory),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_against_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
