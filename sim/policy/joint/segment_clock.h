/* segment_clock.h - the same order of passes under other durations, given up once it is too long.
 *
 * The clock takes the passes in an order in which none comes before its inputs (that in which the
 * interleaver runs them, or segment_order_passes() finds them), and keeps when every rank is
 * free and every segment's next pass can begin. So one look at each pass times an order.
 *
 *     clock = segment_clock_create(graph);
 *     const struct interleaver_beside beside = { clock, passes, tails, limit_ns };
 *     interleaver_run_beside(x, order, turn, &beside, &schedule);
 *     ... passes become longer ...
 *     ns = segment_clock_run(clock, passes, tails, limit_ns);      // limit_ns: no faster than that
 */
#ifndef BALLAST_SIM_POLICY_JOINT_SEGMENT_CLOCK_H
#define BALLAST_SIM_POLICY_JOINT_SEGMENT_CLOCK_H

#include "sim/policy/joint/segment_tail.h"

struct segment_clock {
    const struct segment_graph *graph;
    int32_t *order; /* 2 x cell + backward, cell = segment x rank_count + rank */
    int64_t
        *longer_ns; /* by rank: its passes than those of the tails, all together; set by the user */
    int64_t *free_ns, *left_ns; /* by rank; left: its passes to come and the least that follows */
    int64_t *forward_ready, *backward_ready; /* by segment: of its next pass */
    int64_t makespan_ns;
};

/* Borrows the graph. */
struct segment_clock *segment_clock_create(const struct segment_graph *graph);
void segment_clock_destroy(struct segment_clock *clock);

/* All passes are as long as those of the tails again. */
void segment_clock_reset(struct segment_clock *clock);
/* Before the first pass of an order. */
void segment_clock_start(struct segment_clock *clock, const struct segment_tails *tails);
/* The makespan of the order in `order`, or limit_ns if it is not less. tails: of these passes or of
 * ones that are nowhere longer. */
int64_t segment_clock_run(struct segment_clock *clock, const struct segment_pass *passes,
                          const struct segment_tails *tails, int64_t limit_ns);

/* Runs a pass, as entry of `order`; false: nothing that begins like this ends before limit_ns. */
static inline bool segment_clock_step(struct segment_clock *c, int32_t entry,
                                      const struct segment_pass *passes,
                                      const struct segment_tails *tails, int64_t limit_ns) {
    const struct segment_graph *g = c->graph;
    const int32_t cell = entry >> 1, segment = cell / g->rank_count,
                  rank = cell - segment * g->rank_count;
    const struct segment_pass *pass = &passes[cell];
    const bool backward = entry & 1;
    int64_t *ready = backward ? c->backward_ready : c->forward_ready;
    int64_t begin = ready[segment] > c->free_ns[rank] ? ready[segment] : c->free_ns[rank];
    const int64_t tail = backward ? tails->backward_ns[cell] : tails->forward_ns[cell];
    if (limit_ns - begin <= tail || limit_ns - begin <= c->left_ns[rank]) return false;
    const int64_t finish = begin + (backward ? pass->backward_ns : pass->forward_ns);
    const int64_t sent = finish + (backward ? pass->send_backward_ns : pass->send_forward_ns);
    const int64_t end = g->send_blocks_compute ? sent : finish;
    c->free_ns[rank] = end;
    c->left_ns[rank] -= end - begin;
    if (end > c->makespan_ns) c->makespan_ns = end;
    ready[segment] = sent;
    if (!backward && rank == g->rank_count - 1) {
        const int32_t from = g->successor_first[segment], to = g->successor_first[segment + 1];
        if (from == to) c->backward_ready[segment] = finish;
        for (int32_t i = from; i < to; i++)
            if (sent > c->forward_ready[g->successors[i]])
                c->forward_ready[g->successors[i]] = sent;
    }
    if (backward && rank == 0)
        for (int32_t i = g->predecessor_first[segment]; i < g->predecessor_first[segment + 1]; i++)
            if (sent > c->backward_ready[g->predecessors[i]])
                c->backward_ready[g->predecessors[i]] = sent;
    return true;
}

#endif
