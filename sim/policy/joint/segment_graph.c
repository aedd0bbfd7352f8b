/* segment_graph.c - building the graph, and the lower bound of its makespan.
 *
 * Bound of a rank: nothing runs on rank r before some segment has passed ranks 0 .. r-1, and after
 * the last pass on r, a backward, that segment still passes r-1 .. 0. Bound of a chain: forward and
 * backward of one segment and of all that it needs, one after another.
 */
#include "sim/policy/joint/segment_graph.h"

#include <math.h>
#include <string.h>
#include "sim/base/error.h"

struct segment_graph *segment_graph_create(struct arena *arena, int64_t ranks, int64_t segments,
                                           int64_t classes, int64_t micro_batches) {
    ballast_check(ranks > 0 && segments > 0 && classes > 0 && micro_batches > 0);
    struct segment_graph *g = arena_new(arena, struct segment_graph);
    g->arena = arena;
    g->rank_count = (int32_t)ranks;
    g->segment_count = (int32_t)segments;
    g->class_count = (int32_t)classes;
    g->micro_batch_count = (int32_t)micro_batches;
    g->class_of = arena_array(arena, int32_t, segments);
    g->micro_batch_of = arena_array(arena, int32_t, segments);
    g->passes = arena_array(arena, struct segment_pass, segments * ranks);
    g->capacity_bytes = arena_array(arena, double, ranks);
    return g;
}

void segment_graph_add(struct segment_graph *g, int64_t before, int64_t after) {
    if (g->edge_count == g->edge_capacity) {
        int32_t capacity = g->edge_capacity > 0 ? 2 * g->edge_capacity : 64;
        int32_t *grown_before = arena_array(g->arena, int32_t, capacity);
        int32_t *grown_after = arena_array(g->arena, int32_t, capacity);
        if (g->edge_count > 0) {
            memcpy(grown_before, g->edge_before, sizeof *grown_before * (size_t)g->edge_count);
            memcpy(grown_after, g->edge_after, sizeof *grown_after * (size_t)g->edge_count);
        }
        g->edge_before = grown_before;
        g->edge_after = grown_after;
        g->edge_capacity = capacity;
    }
    g->edge_before[g->edge_count] = (int32_t)before;
    g->edge_after[g->edge_count++] = (int32_t)after;
}

/* Lists of `value` by `key`, in order of addition. */
static void make_lists(struct arena *arena, int32_t keys, int32_t count, const int32_t *key,
                       const int32_t *value, int32_t **first, int32_t **list) {
    int32_t *starts = arena_array(arena, int32_t, keys + 1);
    int32_t *items = arena_array(arena, int32_t, count + 1);
    int32_t *at = arena_array(arena, int32_t, keys + 1);
    for (int32_t i = 0; i < count; i++)
        starts[key[i] + 1]++;
    for (int32_t k = 0; k < keys; k++)
        starts[k + 1] += starts[k];
    memcpy(at, starts, sizeof *at * (size_t)(keys + 1));
    for (int32_t i = 0; i < count; i++)
        items[at[key[i]]++] = value != NULL ? value[i] : i;
    *first = starts;
    *list = items;
}

void segment_graph_close(struct segment_graph *g) {
    for (int64_t i = 0; i < (int64_t)g->segment_count * g->rank_count; i++) {
        g->passes[i].bytes = ceil(g->passes[i].bytes);
        g->passes[i].workspace_bytes = ceil(g->passes[i].workspace_bytes);
    }
    make_lists(g->arena, g->segment_count, g->edge_count, g->edge_before, g->edge_after,
               &g->successor_first, &g->successors);
    make_lists(g->arena, g->segment_count, g->edge_count, g->edge_after, g->edge_before,
               &g->predecessor_first, &g->predecessors);
    make_lists(g->arena, g->class_count, g->segment_count, g->class_of, NULL, &g->class_first,
               &g->class_members);
}

static int64_t rank_bound_ns(const struct segment_graph *g, int32_t rank) {
    int64_t head = INT64_MAX, tail = INT64_MAX, busy = 0;
    for (int32_t s = 0; s < g->segment_count; s++) {
        int64_t before = 0, after = 0;
        for (int32_t r = 0; r < rank; r++) {
            before += segment_graph_pass(g, s, r)->forward_ns +
                      segment_graph_pass(g, s, r)->send_forward_ns;
            after += segment_graph_pass(g, s, r)->backward_ns;
            /* A send that blocks its rank is counted in what keeps that rank busy. */
            if (r + 1 < rank || !g->send_blocks_compute)
                after += segment_graph_pass(g, s, r + 1)->send_backward_ns;
        }
        if (before < head) head = before;
        if (after < tail) tail = after;
        const struct segment_pass *pass = segment_graph_pass(g, s, rank);
        busy += pass->forward_ns + pass->backward_ns;
        if (g->send_blocks_compute) busy += pass->send_forward_ns + pass->send_backward_ns;
    }
    return head + busy + tail;
}

/* Forward and backward chains have the same edges, so one longest path of their sum is a bound. */
static int64_t chain_bound_ns(const struct segment_graph *g) {
    int64_t *longest = arena_array(g->arena, int64_t, g->segment_count);
    int64_t most = 0;
    bool changed = true;
    for (int32_t s = 0; s < g->segment_count; s++)
        longest[s] = -1;
    /* Few levels: modules and their chunks. */
    while (changed) {
        changed = false;
        for (int32_t s = 0; s < g->segment_count; s++) {
            if (longest[s] >= 0) continue;
            int64_t start = 0;
            bool known = true;
            for (int32_t i = g->predecessor_first[s]; i < g->predecessor_first[s + 1]; i++) {
                int64_t before = longest[g->predecessors[i]];
                known = known && before >= 0;
                if (before > start) start = before;
            }
            if (!known) continue;
            int64_t own = 0;
            for (int32_t r = 0; r < g->rank_count; r++) {
                const struct segment_pass *pass = segment_graph_pass(g, s, r);
                own += pass->forward_ns + pass->backward_ns;
                if (r + 1 < g->rank_count) own += pass->send_forward_ns;
                if (r > 0) own += pass->send_backward_ns;
            }
            longest[s] = start + own;
            if (longest[s] > most) most = longest[s];
            changed = true;
        }
    }
    return most;
}

int64_t segment_graph_bound_ns(const struct segment_graph *g) {
    int64_t most = chain_bound_ns(g);
    for (int32_t rank = 0; rank < g->rank_count; rank++) {
        int64_t bound = rank_bound_ns(g, rank);
        if (bound > most) most = bound;
    }
    return most;
}
