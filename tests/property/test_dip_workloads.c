/* test_dip_workloads.c - random iterations: any mix of modules, number of ranks, memory limit,
 * durations and send times. DIP's order is valid, never slower than 1F1B, Megatron-LM's interleaved
 * order, encoders first or the greedy dual queue on the same passes, never faster than the lower
 * bound printed, and the same for one thread and four. It exists wherever a rule's order exists.
 *
 * Whether an order is valid is for schedule_fault() to say (tests/unit/policy/segment_fixture.h),
 * which shares no code with what makes orders. More of them by hand: test_dip_workloads COUNT
 * [SEED].
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include "sim/base/random.h"
#include "sim/policy/joint/dip.h"
#include "tests/unit/policy/segment_fixture.h"

#ifdef __SANITIZE_ADDRESS__
enum { WORKLOADS = 60 };
#else
enum { WORKLOADS = 500 };
#endif
static int workload_count = WORKLOADS;
static uint32_t first_seed = 1;

enum { MODULE_LIMIT = 4, MICRO_BATCH_LIMIT = 20, ROLLOUTS = 120 };

/* Encoders, the language model, decoders: in this order. */
struct part {
    bool encodes, decodes;
    int32_t rows; /* chunks on a rank: K */
    int64_t unit_ns;
    double backward_share, unit_bytes; /* of a sub-microbatch's forward; on a rank */
    int32_t subs[MICRO_BATCH_LIMIT];
};

struct workload {
    uint32_t seed;
    int32_t ranks, micro_batches, modules, classes, segments;
    struct part module[MODULE_LIMIT];
    int64_t send_ns;
    bool blocks;
    double room; /* of a rank, in the largest micro-batch's bytes; 0: no limit */
};

static int32_t from_to(struct random_mt *mt, int32_t least, int32_t most) {
    return least + (int32_t)(random_mt_next(mt) % (unsigned)(most - least + 1));
}

static struct part draw_part(struct random_mt *mt, int32_t micro_batches, bool language) {
    static const int64_t magnitudes_ns[] = { 3, 200, 5000, 400000 };
    struct part m = { .rows = from_to(mt, 1, 4),
                        .unit_ns = magnitudes_ns[from_to(mt, 0, 3)] * from_to(mt, 1, 9),
                        .backward_share = from_to(mt, 0, 5) == 0 ? 1.0 / 3 : from_to(mt, 1, 3),
                        .unit_bytes = from_to(mt, 0, 4) == 0 ? 0 : from_to(mt, 1, 1000) };
    int32_t most = from_to(mt, 1, 5);
    for (int32_t b = 0; b < micro_batches; b++)
        m.subs[b] = language ? 1 : from_to(mt, 0, most);
    return m;
}

static struct workload draw(uint32_t seed) {
    struct random_mt mt;
    random_mt_seed(&mt, seed);
    struct workload w = { .seed = seed,
                          .ranks = from_to(&mt, 1, 8),
                          .micro_batches = from_to(&mt, 1, MICRO_BATCH_LIMIT),
                          .blocks = from_to(&mt, 0, 1) == 1 };
    int32_t encoders = from_to(&mt, 0, 2), decoders = from_to(&mt, 0, 3) == 0;
    for (int32_t k = 0; k < encoders + 1 + decoders; k++) {
        struct part m = draw_part(&mt, w.micro_batches, k == encoders);
        m.encodes = k < encoders;
        m.decodes = k > encoders;
        w.module[w.modules++] = m;
    }
    w.send_ns = from_to(&mt, 0, 2) == 0 ? 0 : w.module[encoders].unit_ns / from_to(&mt, 1, 50);
    static const double rooms[] = { 0, 0, 0.7, 1, 1.05, 1.5, 2, 3.3, 6 };
    w.room = rooms[from_to(&mt, 0, sizeof rooms / sizeof rooms[0] - 1)];
    for (int32_t b = 0; b < w.micro_batches; b++)
        for (int32_t k = 0; k < w.modules; k++) {
            w.segments += w.module[k].rows * w.module[k].subs[b];
            w.classes += w.module[k].subs[b] > 0;
        }
    return w;
}

static void fill_segment(struct random_mt *mt, const struct workload *w, const struct part *m,
                         struct segment_graph *g, int32_t segment) {
    /* Sub-microbatches differ in size, chunks in layers, the last rank in its head. */
    int64_t size_ns = 1 + m->unit_ns * from_to(mt, 50, 150) / 100;
    for (int32_t r = 0; r < w->ranks; r++) {
        struct segment_pass *pass = segment_graph_pass(g, segment, r);
        pass->forward_ns = 1 + size_ns * from_to(mt, 80, 120) / 100;
        pass->backward_ns = 1 + (int64_t)((double)pass->forward_ns * m->backward_share);
        pass->send_forward_ns = r + 1 < w->ranks ? w->send_ns : w->send_ns * from_to(mt, 0, 1);
        pass->send_backward_ns = w->send_ns;
        pass->bytes = m->unit_bytes * from_to(mt, 50, 150) / 100;
        pass->workspace_bytes = m->unit_bytes * from_to(mt, 0, 20) / 100;
    }
}

static void limit_memory(const struct workload *w, struct segment_graph *g) {
    for (int32_t r = 0; r < w->ranks; r++) {
        double largest = 0;
        for (int32_t b = 0; b < w->micro_batches; b++) {
            double bytes = 0, workspace = 0;
            for (int32_t s = 0; s < g->segment_count; s++) {
                const struct segment_pass *pass = segment_graph_pass(g, s, r);
                if (g->micro_batch_of[s] == b) bytes += pass->bytes;
                workspace = fmax(workspace, pass->workspace_bytes);
            }
            largest = fmax(largest, bytes + workspace);
        }
        g->capacity_bytes[r] = w->room > 0 ? w->room * largest + 1 : INFINITY;
    }
}

/* row_of: chunk row of each segment. */
static struct segment_graph *make_graph(struct arena *arena, const struct workload *w,
                                        int32_t **row_of) {
    struct random_mt mt;
    random_mt_seed(&mt, w->seed ^ 0x5bd1e995u);
    struct segment_graph *g =
        segment_graph_create(arena, w->ranks, w->segments, w->classes, w->micro_batches);
    g->send_blocks_compute = w->blocks;
    *row_of = arena_array(arena, int32_t, w->segments);
    int32_t at = 0, class = 0;
    for (int32_t b = 0; b < w->micro_batches; b++) {
        int32_t waiting[MODULE_LIMIT * 8], waiting_count = 0, language_last = -1;
        for (int32_t k = 0, row = 0; k < w->modules; row += w->module[k++].rows) {
            const struct part *m = &w->module[k];
            for (int32_t sub = 0; sub < m->subs[b]; sub++)
                for (int32_t c = 0; c < m->rows; c++, at++) {
                    fill_segment(&mt, w, m, g, at);
                    g->class_of[at] = class;
                    g->micro_batch_of[at] = b;
                    (*row_of)[at] = row + c;
                    if (c > 0) segment_graph_add(g, at - 1, at);
                    if (m->encodes && c + 1 == m->rows) waiting[waiting_count++] = at;
                    if (m->decodes && c == 0) segment_graph_add(g, language_last, at);
                    for (; !m->encodes && !m->decodes && c == 0 && waiting_count > 0;)
                        segment_graph_add(g, waiting[--waiting_count], at);
                    if (!m->encodes && !m->decodes) language_last = at;
                }
            class += m->subs[b] > 0;
        }
    }
    assert_int_equal(at, w->segments);
    assert_int_equal(class, w->classes);
    segment_graph_close(g);
    limit_memory(w, g);
    return g;
}

static struct segment_schedule room_for(const struct segment_graph *g) {
    return (struct segment_schedule){
        .tasks = arena_array(g->arena, struct segment_task, segment_schedule_size(g))
    };
}

static void plan(const struct segment_graph *g, const int32_t *row_of, struct thread_pool *pool,
                 struct segment_schedule *s) {
    struct segment_search_options options = segment_search_defaults();
    options.rollouts = ROLLOUTS;
    options.pool = pool;
    dip_order(g, row_of, &options, s);
}

enum { WHOLE, LEAD_1, LEAD_2, ENCODERS_FIRST, GREEDY, RULES };
static const char *const rules[RULES] = { "1F1B", "interleaved, lead 1", "interleaved, lead 2",
                                          "encoders first", "greedy dual queue" };

static void run_rule(const struct segment_graph *g, const int32_t *row_of, int rule,
                     struct segment_schedule *s) {
    if (rule == WHOLE) segment_order_whole(g, row_of, s);
    if (rule == LEAD_1 || rule == LEAD_2) segment_order_fixed(g, row_of, rule == LEAD_1 ? 1 : 2, s);
    if (rule == ENCODERS_FIRST) segment_order_encoders_first(g, row_of, s);
    if (rule != GREEDY) return;
    int32_t *order = arena_array(g->arena, int32_t, g->class_count);
    for (int32_t i = 0; i < g->class_count; i++)
        order[i] = i;
    struct interleaver *x = interleaver_create(g);
    s->makespan_ns = interleaver_run(x, order, TURN_ALTERNATE, s);
    interleaver_destroy(x);
}

struct tally {
    int planned, beaten[RULES], counted[RULES], several_modules, limited;
};

static void judge(const struct workload *w, struct thread_pool *const pools[2], struct tally *t) {
    struct arena *arena = arena_create();
    int32_t *row_of;
    struct segment_graph *g = make_graph(arena, w, &row_of);
    struct segment_schedule ours = room_for(g), again = room_for(g), other = room_for(g);
    plan(g, row_of, pools[0], &ours);
    plan(g, row_of, pools[1], &again);
    assert_int_equal(ours.makespan_ns, again.makespan_ns);
    bool dead = ours.makespan_ns == SEGMENT_DEAD_END;
    if (!dead) {
        assert_memory_equal(ours.tasks, again.tasks,
                            sizeof *ours.tasks * (size_t)segment_schedule_size(g));
        const char *fault = schedule_fault(g, &ours, true);
        if (fault != NULL) fail_msg("workload %u: %s", w->seed, fault);
        if (ours.makespan_ns < segment_graph_bound_ns(g))
            fail_msg("workload %u: %ld ns is below its bound of %ld ns", w->seed,
                     (long)ours.makespan_ns, (long)segment_graph_bound_ns(g));
    }
    for (int rule = 0; rule < RULES; rule++) {
        run_rule(g, row_of, rule, &other);
        if (other.makespan_ns == SEGMENT_DEAD_END) continue; /* it waits for ever */
        const char *fault = schedule_fault(g, &other, false);
        if (fault != NULL) fail_msg("workload %u, %s: %s", w->seed, rules[rule], fault);
        if (schedule_fault(g, &other, true) != NULL) continue; /* memory */
        if (dead || ours.makespan_ns > other.makespan_ns)
            fail_msg("workload %u: DIP %ld ns, %s %ld ns", w->seed,
                     dead ? -1L : (long)ours.makespan_ns, rules[rule], (long)other.makespan_ns);
        t->counted[rule]++;
        t->beaten[rule] += ours.makespan_ns < other.makespan_ns;
    }
    t->planned += !dead;
    t->several_modules += !dead && w->modules > 1;
    t->limited += !dead && w->room > 0;
    arena_destroy(arena);
}

static void test_workloads(void **state) {
    (void)state;
    struct thread_pool *pools[2] = { thread_pool_create(1), thread_pool_create(4) };
    struct tally t = { 0 };
    for (int i = 0; i < workload_count; i++) {
        struct workload w = draw(first_seed + (uint32_t)i);
        judge(&w, pools, &t);
    }
    thread_pool_destroy(pools[0]);
    thread_pool_destroy(pools[1]);
    print_message("%d of %d planned: %d of several modules, %d with a memory limit\n", t.planned,
                  workload_count, t.several_modules, t.limited);
    for (int rule = 0; rule < RULES; rule++) {
        print_message("%s: valid for %d, slower for %d\n", rules[rule], t.counted[rule],
                      t.beaten[rule]);
        /* Each comparison is made often, and is not one of equals. */
        assert_true(t.counted[rule] >= workload_count / 20 &&
                    t.beaten[rule] >= t.counted[rule] / 6);
    }
    assert_true(t.planned >= workload_count * 3 / 4 && t.limited >= workload_count / 3 &&
                t.several_modules >= workload_count / 3);
}

int main(int argc, char **argv) {
    if (argc > 1) workload_count = atoi(argv[1]);
    if (argc > 2) first_seed = (uint32_t)atol(argv[2]);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_workloads) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
