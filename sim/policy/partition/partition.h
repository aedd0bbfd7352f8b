/* partition.h - where a pipeline cuts the model. Policies share one notion of a block.
 *
 * Cuts fall between transformer blocks only. The other layers are glued to a neighbour: patch
 * embedding to the first vision block, connector to the last vision block (so the cut between the
 * modules sends the few language-side tokens), token embedding to the first and head to the last
 * language block. A partition is written as blocks per stage, [57, 12, 12, 12].
 */
#ifndef BALLAST_SIM_POLICY_PARTITION_H
#define BALLAST_SIM_POLICY_PARTITION_H

#include "sim/policy/planner.h"

extern const struct planner partition_bmp, partition_cumulative, partition_encoder_first,
    partition_exact, partition_layer, partition_manual, partition_parameter,
    partition_profile_based, partition_uneven_flop;

/* Transformer blocks of the model, in order; returns how many. */
int64_t partition_block_count(const struct model *model);
/* The layer at which a stage starts that begins with the given block (0-based); block_count gives
 * the layer count. */
int64_t partition_stage_start(const struct model *model, int64_t block);
bool partition_is_vision(const struct model *model, int64_t block);
/* A vision block, or a language block in front of a diffusion decoder. */
bool partition_is_encoder(const struct model *model, int64_t block);
/* Whether the first stage may hold the token embedding alone and the last the head alone. */
bool partition_ends_count(const struct model *model);
/* Sets plan->first_layer from blocks per stage; they must add up, and be positive but for the first
 * and the last of a model whose ends count. */
void partition_apply(const struct model *model, const int64_t *blocks, struct job_plan *plan);
/* The inverse, for printing. */
void partition_blocks(const struct model *model, const struct job_plan *plan, int64_t *blocks);
/* Blocks per stage whose heaviest stage is as light as can be, by dynamic programming; of equal
 * ones, that with fewer blocks on the first stages. Every stage gets a block. */
void partition_min_max(struct arena *arena, const double *weights, int64_t block_count,
                       int64_t stage_count, int64_t *blocks);
/* Simulated seconds of an iteration under the partition in the plan, recomputation decided by the
 * job's policy; whether every stage fits with the largest micro-batches. */
bool partition_evaluate(const struct planner_oracle *oracle, struct job_plan *plan, double *seconds,
                        bool *fits, struct error *err);

#endif
