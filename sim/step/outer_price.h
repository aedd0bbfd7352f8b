/* outer_price.h - the price of an operator outside of the layers, and of the collectives among
 * data-parallel ranks.
 *
 * Every price that a step pays outside of its layers goes through outer_ns(), which writes it down
 * when somebody listens (outer_operators.h), so that the list cannot differ from the step.
 *
 *     const struct outer_call reduce = { OUTER_REDUCTION, stage, 1, 1 };
 *     ns = outer_collective_ns(m, reduce, OPERATOR_REDUCE_SCATTER, bytes, &shards);
 *
 * Times are nanoseconds. Sources: ZeRO (arXiv 1910.02054); InternEvo and NCCL for broadcasts.
 */
#ifndef BALLAST_SIM_STEP_OUTER_PRICE_H
#define BALLAST_SIM_STEP_OUTER_PRICE_H

#include "sim/step/outer_operators.h"

/* What an operator outside of the layers is for, and how often a rank of the stage runs it. */
struct outer_call {
    enum outer_purpose purpose;
    int64_t stage;
    double calls, factor; /* factor: on the price */
};

int64_t outer_ns(const struct step_model *m, struct outer_call call,
                 const struct operator_work *work, const struct communicator *group);
/* 0 for no bytes and for a group of one. */
int64_t outer_collective_ns(const struct step_model *m, struct outer_call call,
                            enum operator_kind kind, double bytes,
                            const struct communicator *group);
/* Sharded gradients, so many bytes before they are: reduce-scatter inside the shard group, and then
 * all-reduce of the shard between groups that hold copies. */
int64_t outer_shards_reduction_ns(const struct step_model *m, struct outer_call call, double bytes);
int64_t outer_replicas_reduction_ns(const struct step_model *m, struct outer_call call,
                                    double bytes);
/* Share of a gather's, or such a reduction's, time that slows the compute beside it
 * (cost_model_moving_s()). */
double outer_gather_moving(const struct step_model *m, double bytes);
double outer_reduce_moving(const struct step_model *m, double bytes);
double outer_all_reduce_moving(const struct step_model *m, double bytes,
                               const struct communicator *group);
/* One kernel's stream of bytes, for each call; 0 for none. */
int64_t outer_moved_ns(const struct step_model *m, struct outer_call call, enum operator_pass pass,
                       const char *name, double bytes);
/* The host's part of a step, beside which the device has nothing to do (host_step_us). */
int64_t outer_host_ns(const struct step_model *m, int64_t stage);

/* ZeRO-3 whose collectives take lists, one view and one copy for each rank (shard_list_s): the
 * host's time for a block's gathers in forward, in backward, for its reductions, and to gather its
 * persistent vectors after the update. All 0 for other stacks. */
struct outer_lists {
    int64_t forward_ns, backward_ns, reduce_ns, update_ns;
};
struct outer_lists outer_block_lists(const struct step_model *m, int64_t layer_index);
/* ZeRO-3 of a stack that gathers the head's weight for each of its chunks (chunk_gathers). */
bool outer_gathers_head(const struct step_model *m);
/* One such gather; 0 where there is none. */
int64_t outer_head_gather_ns(const struct step_model *m, double calls);
/* ZeRO-1: the updated parameters come back. */
int64_t outer_gather_ns(const struct step_model *m, int64_t stage, double bytes,
                        const struct communicator *group);

#endif
