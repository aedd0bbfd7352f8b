/* test_memory_step.c - recomputation and offload of one rank's passes against all there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>
#include <cmocka.h>

#include "sim/base/arena.h"
#include "sim/base/random.h"
#include "sim/policy/joint/dip.h"

/* One rank runs forwards of all micro-batches but one ahead of their backwards. */
enum { PASSES = 4, BLOCKS = 3, BUFFERED = 4, WAYS = 10 };

struct rank {
    struct arena *arena;
    struct job_plan plan;
    struct iteration_plan it;
    struct pass_cost costs[PASSES];
    struct pass_choice choices[PASSES];
    struct batch_shape shapes[PASSES];
    int32_t units[PASSES + 1];
    int64_t cell_first[2], first_layer[2];
    enum recompute_kind recompute[BLOCKS];
    struct plan_module module;
    double capacity;
    struct planner_oracle oracle;
    struct modality_segments segments;
    struct segment_schedule schedule;
};

static int64_t between(struct random_mt *mt, int64_t low, int64_t high) {
    return low + (int64_t)(random_mt_next(mt) % (uint64_t)(high - low + 1));
}

/* Blocks recompute in full or keep everything; copies take from a part of a forward to twice
 * one. */
static void draw(struct random_mt *mt, struct rank *r) {
    memset(r, 0, sizeof *r);
    r->arena = arena_create();
    r->cell_first[1] = PASSES;
    r->first_layer[1] = BLOCKS;
    r->module = (struct plan_module){ .chunk_count = 1 };
    for (int i = 0; i < BLOCKS; i++)
        r->recompute[i] = RECOMPUTE_FULL;
    const int64_t ns_per_kB = between(mt, 2, 30);
    double all = 0;
    for (int i = 0; i < PASSES; i++) {
        struct pass_cost *c = &r->costs[i];
        const int64_t forward = between(mt, 1000000, 2000000);
        struct pass_group *g = &c->groups[0];
        *c = (struct pass_cost){ .group_count = 1,
                                 .forward_ns = BLOCKS * forward + 1000,
                                 .backward_ns = BLOCKS * 3 * forward,
                                 .workspace_bytes = 5e6 };
        const double whole = (double)between(mt, 50000000, 100000000);
        *g = (struct pass_group){ .blocks = BLOCKS,
                                  .forward_ns = forward,
                                  .backward_ns = 2 * forward };
        g->recompute_ns[RECOMPUTE_FULL] = forward;
        g->block_bytes[RECOMPUTE_NONE] = g->block_bytes[RECOMPUTE_SELECTIVE] = whole;
        g->block_bytes[RECOMPUTE_FULL] = whole / 10;
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            g->copy_ns[how] = (int64_t)(g->block_bytes[how] / 1000) * ns_per_kB;
        c->activation_bytes = 1e6 + BLOCKS * g->block_bytes[RECOMPUTE_FULL];
        all += BLOCKS * whole;
        r->units[i + 1] = i + 1;
    }
    r->capacity = (0.55 + 0.6 * random_mt_uniform(mt)) * all + 5e6;
    r->plan = (struct job_plan){ .stage_count = 1,
                                 .chunk_count = 1,
                                 .part_count = 1,
                                 .first_layer = r->first_layer,
                                 .recompute = r->recompute,
                                 .modules = &r->module,
                                 .module_count = 1 };
    r->it = (struct iteration_plan){ .scratch = r->arena,
                                     .micro_batch_count = PASSES,
                                     .shapes = r->shapes,
                                     .entry_count = 2 * PASSES,
                                     .units = r->units,
                                     .cell_first = r->cell_first,
                                     .costs = r->costs,
                                     .activation_capacity_bytes = &r->capacity,
                                     .host_capacity_bytes = random_mt_uniform(mt) * all,
                                     .choices = r->choices };
    if (between(mt, 0, 2) == 0) r->it.host_capacity_bytes = INFINITY;
    r->segments = modality_graph(&r->oracle, &r->plan, &r->it);
    r->schedule.tasks = arena_array(r->arena, struct segment_task, 2 * PASSES);
    for (int i = 0; i < PASSES; i++) {
        r->schedule.tasks[i] = (struct segment_task){ .segment = i };
        r->schedule.tasks[2 * PASSES - 1 - i] =
            (struct segment_task){ .segment = i, .backward = true };
    }
}

static int64_t pass_ns(const struct pass_cost *c, const struct pass_choice *choice) {
    int64_t forward_ns, backward_ns;
    pass_cost_exposed(c, choice, &forward_ns, &backward_ns);
    return c->forward_ns + c->backward_ns - BLOCKS * c->groups[0].recompute_ns[RECOMPUTE_FULL] +
           choice->blocks[0][RECOMPUTE_FULL] * c->groups[0].recompute_ns[RECOMPUTE_FULL] +
           forward_ns + backward_ns;
}

static double host_bytes(const struct pass_cost *c, const struct pass_choice *choice) {
    return choice->offloaded[0][RECOMPUTE_NONE] * c->groups[0].block_bytes[RECOMPUTE_NONE] +
           choice->offloaded[0][RECOMPUTE_FULL] * c->groups[0].block_bytes[RECOMPUTE_FULL];
}

static double kept_bytes(const struct pass_cost *c, const struct pass_choice *choice) {
    return 1e6 + choice->blocks[0][RECOMPUTE_NONE] * c->groups[0].block_bytes[RECOMPUTE_NONE] +
           choice->blocks[0][RECOMPUTE_FULL] * c->groups[0].block_bytes[RECOMPUTE_FULL] -
           host_bytes(c, choice);
}

/* All lives overlap once, so the sums are what must fit. */
static bool fits(const struct rank *r, const struct pass_choice *const *choices) {
    double kept = 0, host = 0, largest = 0;
    for (int i = 0; i < PASSES; i++) {
        kept += kept_bytes(&r->costs[i], choices[i]);
        host += host_bytes(&r->costs[i], choices[i]);
        largest = fmax(largest, r->costs[i].groups[0].block_bytes[RECOMPUTE_NONE]);
    }
    if (host > 0) kept += BUFFERED * largest;
    return kept + 5e6 <= r->capacity && host <= r->it.host_capacity_bytes;
}

/* Every way of a pass: of its blocks a keep everything, of them b in host memory, and of those that
 * recompute none or all. */
static int list_ways(bool offload, struct pass_choice ways[4 * WAYS]) {
    int count = 0;
    for (int16_t a = 0; a <= BLOCKS; a++)
        for (int16_t b = 0; b <= (offload ? a : 0); b++)
            for (int16_t c = 0; c <= (offload && a < BLOCKS ? 1 : 0); c++)
                ways[count++] = (struct pass_choice){
                    .blocks = { { a, (int16_t)(BLOCKS - a) } },
                    .offloaded = { { b, (int16_t)(c * (BLOCKS - a)) } },
                };
    return count;
}

/* Whether the pass's copies have time to go and come: what runs between, without recomputation. */
static bool may_offload(const struct rank *r, int pass) {
    int64_t between_ns = 0, copy_ns = 0;
    for (int i = 0; i < PASSES; i++) {
        const struct pass_cost *c = &r->costs[i];
        if (i > pass)
            between_ns += c->forward_ns + c->backward_ns - BLOCKS * c->groups[0].forward_ns;
        if (c->groups[0].copy_ns[RECOMPUTE_NONE] > copy_ns)
            copy_ns = c->groups[0].copy_ns[RECOMPUTE_NONE];
    }
    return between_ns >= BUFFERED * copy_ns;
}

static int64_t enumerate(const struct rank *r) {
    struct pass_choice ways[2][4 * WAYS];
    int counts[2] = { list_ways(false, ways[0]), list_ways(true, ways[1]) }, at[PASSES] = { 0 };
    bool may[PASSES];
    for (int i = 0; i < PASSES; i++)
        may[i] = may_offload(r, i);
    int64_t best = INT64_MAX;
    for (int i = 0; i < PASSES;) {
        const struct pass_choice *choices[PASSES];
        int64_t ns = 0;
        for (int k = 0; k < PASSES; k++) {
            choices[k] = &ways[may[k]][at[k]];
            ns += pass_ns(&r->costs[k], choices[k]);
        }
        if (ns < best && fits(r, choices)) best = ns;
        for (i = 0; i < PASSES && ++at[i] == counts[may[i]]; i++)
            at[i] = 0;
    }
    return best;
}

static int64_t chosen_ns(const struct rank *r) {
    int64_t ns = 0;
    const struct pass_choice *choices[PASSES];
    for (int i = 0; i < PASSES; i++) {
        choices[i] = &r->choices[i];
        ns += pass_ns(&r->costs[i], choices[i]);
        const struct segment_pass *pass = segment_graph_pass(r->segments.graph, i, 0);
        assert_int_equal(pass->forward_ns + pass->backward_ns, pass_ns(&r->costs[i], choices[i]));
        assert_true(fabs(pass->bytes - kept_bytes(&r->costs[i], choices[i])) <= 2);
        if (host_bytes(&r->costs[i], choices[i]) > 0) assert_true(may_offload(r, i));
    }
    assert_true(fits(r, choices));
    return ns;
}

/* Never slower than without offload, close to the best of all there are, in both memories. */
static void test_offload(void **state) {
    (void)state;
    struct random_mt mt;
    random_mt_seed(&mt, 31);
    int faster = 0, feasible = 0;
    double worst = 0;
    for (int round = 0; round < 60; round++) {
        struct rank r;
        draw(&mt, &r);
        struct memory_step_result kept = memory_step(&r.it, &r.plan, &r.segments, &r.schedule);
        const int64_t kept_ns = kept.infeasible > 0 ? INT64_MAX : chosen_ns(&r);
        r.segments = modality_graph(&r.oracle, &r.plan, &r.it);
        r.segments.offload = true;
        struct memory_step_result both = memory_step(&r.it, &r.plan, &r.segments, &r.schedule);
        const int64_t best_ns = enumerate(&r);
        assert_true(both.infeasible <= kept.infeasible);
        if (both.infeasible == 0) {
            const int64_t ns = chosen_ns(&r);
            assert_true(ns <= kept_ns && best_ns <= ns);
            faster += ns < kept_ns;
            feasible++;
            worst = fmax(worst, (double)ns / (double)best_ns - 1);
        }
        arena_destroy(r.arena);
    }
    if (feasible < 50 || faster < 15 || worst > 0.05)
        fail_msg("%d feasible, %d faster, %.3f above the best", feasible, faster, worst);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_offload) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
