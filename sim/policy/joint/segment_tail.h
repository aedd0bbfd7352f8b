/* segment_tail.h - how long an iteration still takes, at least, from the start of each pass.
 *
 * A pass is followed by the rest of its segment, by the segments that wait for it, and by the
 * backwards of all of them. And a rank has its passes to come before the last one's rest. Both are
 * lower bounds, with which a schedule that cannot be the best any more is given up early.
 *
 *     struct segment_tails tails;
 *     segment_tails_fill(graph, &tails);       // arrays are the caller's
 */
#ifndef BALLAST_SIM_POLICY_JOINT_SEGMENT_TAIL_H
#define BALLAST_SIM_POLICY_JOINT_SEGMENT_TAIL_H

#include "sim/policy/joint/segment_graph.h"

struct segment_tails {
    int64_t *forward_ns,
        *backward_ns; /* [segment x rank_count + rank]: the pass and all that follows it */
    int64_t *rank_ns; /* by rank: all its passes and the least that follows the last of them */
};

/* Of the graph's passes, in its arena. */
struct segment_tails segment_tails_create(const struct segment_graph *graph);
/* Room for all three is the caller's; owned by it. */
void segment_tails_fill(const struct segment_graph *graph, struct segment_tails *tails);

#endif
