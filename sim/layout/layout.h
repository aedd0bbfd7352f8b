/* layout.h - which rank does what, and which ranks talk to each other.
 *
 * Ranks are numbered with TP fastest, then CP, DP and PP slowest, as Megatron-LM and DeepSpeed's
 * pipe-data-model topology do; node n holds ranks [n x gpus_per_node, (n + 1) x gpus_per_node).
 *
 *     struct communicator tp = layout_communicator(&layout, COMMUNICATOR_TENSOR);
 *     struct communicator link = layout_stage_link(&layout, 0);   // between stages 0 and 1
 */
#ifndef BALLAST_SIM_LAYOUT_LAYOUT_H
#define BALLAST_SIM_LAYOUT_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include "costmodel/cost_model.h"

struct layout {
    int64_t tp, pp, cp, dp;
    int64_t
        cp_heads; /* of cp, neighbours that exchange heads beside a ring of the others; 0, 1: none */
    bool sequence_parallel;
    int64_t zero_stage;
    int64_t
        zero_group; /* ranks that hold one copy of what ZeRO shards; dp x cp, or a divisor (hybrid) */
    bool overlap_gradient_reduce,
        overlap_parameter_gather; /* ZeRO-0 and 1: behind the last backward, the
                                                               next forward; DeepSpeed's ZeRO-2
                                                               reduces behind each backward */
    int64_t gpus_per_node;
};

int64_t layout_rank_count(const struct layout *layout);
/* Global rank of (pipeline stage, data index, context index, tensor index). */
int64_t layout_rank(const struct layout *layout, int64_t stage, int64_t data, int64_t context,
                    int64_t tensor);
/* The group of the given kind that spans the most nodes. All groups of a kind look alike when
 * gpus_per_node and the degrees divide each other. */
struct communicator layout_communicator(const struct layout *layout, enum communicator_kind kind);
/* Data-parallel ranks of one shard group, and the ranks of different groups that hold the same
 * shard. */
struct communicator layout_shard_group(const struct layout *layout);
struct communicator layout_replica_group(const struct layout *layout);
/* The pair (stage, stage + 1) of one data, context and tensor index; of the pairs that leave their
 * node if any does. The last stage's link goes back to the first, where interleaved chunks go on.
 * node_count is 1 or 2. */
struct communicator layout_stage_link(const struct layout *layout, int64_t stage);

#endif
