/* segment_tail.c - longest ways to the end, from the last passes backwards.
 *
 * The last pass of a segment is its backward on rank 0, after which the segments that it waited for
 * run theirs from the last rank on. A rank's last pass is a backward too, since each follows its
 * forward.
 */
#include "sim/policy/joint/segment_tail.h"

/* One that blocks its rank is part of what the rank runs, needed or not. */
static int64_t run_ns(const struct segment_graph *g, int64_t pass_ns, int64_t send_ns) {
    return g->send_blocks_compute ? pass_ns + send_ns : pass_ns;
}

static int64_t sent_ns(const struct segment_graph *g, int64_t send_ns) {
    return g->send_blocks_compute ? 0 : send_ns;
}

/* False: a segment before this one has not been seen to. */
static bool fill_backward(const struct segment_graph *g, int32_t s, int64_t *tail) {
    int64_t after = 0;
    for (int32_t i = g->predecessor_first[s]; i < g->predecessor_first[s + 1]; i++) {
        int64_t before = tail[(int64_t)g->predecessors[i] * g->rank_count + g->rank_count - 1];
        if (before < 0) return false;
        if (before > after) after = before;
    }
    for (int32_t r = 0; r < g->rank_count; r++) {
        const struct segment_pass *pass = segment_graph_pass(g, s, r);
        if (after > 0) after += sent_ns(g, pass->send_backward_ns);
        after += run_ns(g, pass->backward_ns, pass->send_backward_ns);
        tail[(int64_t)s * g->rank_count + r] = after;
    }
    return true;
}

static bool fill_forward(const struct segment_graph *g, int32_t s, const int64_t *backward,
                         int64_t *tail) {
    int32_t from = g->successor_first[s], to = g->successor_first[s + 1], last = g->rank_count - 1;
    int64_t after = from == to ? backward[(int64_t)s * g->rank_count + last] : 0;
    for (int32_t i = from; i < to; i++) {
        int64_t next = tail[(int64_t)g->successors[i] * g->rank_count];
        if (next < 0) return false;
        if (next > after) after = next;
    }
    for (int32_t r = last; r >= 0; r--) {
        const struct segment_pass *pass = segment_graph_pass(g, s, r);
        if (r < last || from < to) after += sent_ns(g, pass->send_forward_ns);
        /* The last rank's own backward begins when the pass ends, send or not. */
        after += r == last && from == to ? pass->forward_ns
                                         : run_ns(g, pass->forward_ns, pass->send_forward_ns);
        tail[(int64_t)s * g->rank_count + r] = after;
    }
    return true;
}

static void fill_ranks(const struct segment_graph *g, struct segment_tails *tails) {
    for (int32_t r = 0; r < g->rank_count; r++) {
        int64_t all = 0, least = INT64_MAX;
        for (int32_t s = 0; s < g->segment_count; s++) {
            const struct segment_pass *pass = segment_graph_pass(g, s, r);
            int64_t own = run_ns(g, pass->backward_ns, pass->send_backward_ns);
            int64_t after = tails->backward_ns[(int64_t)s * g->rank_count + r] - own;
            if (after < least) least = after;
            all += own + run_ns(g, pass->forward_ns, pass->send_forward_ns);
        }
        tails->rank_ns[r] = g->segment_count > 0 ? all + least : 0;
    }
}

void segment_tails_fill(const struct segment_graph *g, struct segment_tails *tails) {
    int64_t cells = (int64_t)g->segment_count * g->rank_count;
    for (int64_t i = 0; i < cells; i++)
        tails->forward_ns[i] = tails->backward_ns[i] = -1; /* not seen to */
    /* In the order of numbers, which is that of most graphs, one round does. */
    for (bool again = true; again;) {
        again = false;
        for (int32_t s = 0; s < g->segment_count; s++)
            again = !fill_backward(g, s, tails->backward_ns) || again;
    }
    for (bool again = true; again;) {
        again = false;
        for (int32_t s = g->segment_count - 1; s >= 0; s--)
            again = !fill_forward(g, s, tails->backward_ns, tails->forward_ns) || again;
    }
    fill_ranks(g, tails);
}

struct segment_tails segment_tails_create(const struct segment_graph *g) {
    const int64_t cells = (int64_t)g->segment_count * g->rank_count;
    struct segment_tails tails = { arena_array(g->arena, int64_t, cells),
                                   arena_array(g->arena, int64_t, cells),
                                   arena_array(g->arena, int64_t, g->rank_count) };
    segment_tails_fill(g, &tails);
    return tails;
}
