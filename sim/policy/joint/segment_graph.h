/* segment_graph.h - one iteration of a modality-aware pipeline, as arrays.
 *
 * A pipeline segment is one pass of one sub-microbatch over all ranks: rank 0 first. Its backward
 * twin runs from the last rank to rank 0. A segment's forward follows the forwards of its
 * predecessors (end of their last rank), its backward the backwards of its successors; one without
 * successors turns round on the last rank. (DIP, section 3.1: segments; section 4: 2 M K of them
 * for a module of K segments and M sub-microbatches.) The 1F1B pipeline of one module is the case
 * of one segment a micro-batch.
 *
 * Segments of one micro-batch and module form a class: they share a priority and keep the order of
 * their numbers (section 5.1, optimisation).
 *
 *     struct segment_graph *g =
 *         segment_graph_create(arena, ranks, segments, classes, micro_batches);
 *     ... fill class_of, micro_batch_of, passes, capacity_bytes ...
 *     segment_graph_add(g, before, after);          // dependencies between segments
 *     segment_graph_close(g);
 *
 * Everything is in the arena; read-only once closed, so that threads may share it.
 */
#ifndef BALLAST_SIM_POLICY_JOINT_SEGMENT_GRAPH_H
#define BALLAST_SIM_POLICY_JOINT_SEGMENT_GRAPH_H

#include <stdbool.h>
#include <stdint.h>
#include "sim/base/arena.h"

/* One segment on one rank. */
struct segment_pass {
    int64_t forward_ns, backward_ns;
    int64_t send_forward_ns, send_backward_ns; /* to the rank that goes on */
    double bytes;                              /* live from forward to backward */
    double workspace_bytes;                    /* on top while either pass runs */
};

struct segment_graph {
    struct arena *arena;
    int32_t rank_count, segment_count, class_count, micro_batch_count;
    bool send_blocks_compute; /* a send occupies the sender */
    int32_t *class_of, *micro_batch_of;
    struct segment_pass *passes; /* [segment x rank_count + rank] */
    double *capacity_bytes;      /* by rank, for activations and workspace */
    /* dependencies as added, then as lists by segment */
    int32_t edge_count, edge_capacity, *edge_before, *edge_after;
    int32_t *successor_first, *successors, *predecessor_first, *predecessors;
    /* segments of a class: class_members[class_first[c] .. class_first[c + 1]) */
    int32_t *class_first, *class_members;
};

struct segment_graph *segment_graph_create(struct arena *arena, int64_t ranks, int64_t segments,
                                           int64_t classes, int64_t micro_batches);
void segment_graph_add(struct segment_graph *graph, int64_t before, int64_t after);
/* Also rounds bytes up to whole ones, whose sums are the same in any order. */
void segment_graph_close(struct segment_graph *graph);

static inline struct segment_pass *segment_graph_pass(const struct segment_graph *graph,
                                                      int64_t segment, int64_t rank) {
    return &graph->passes[segment * graph->rank_count + rank];
}

/* No schedule is faster: on each rank, the earliest start of its first pass, all of its passes, and
 * the shortest way from its last pass to the end; and the longest chain of dependencies. */
int64_t segment_graph_bound_ns(const struct segment_graph *graph);

#endif
