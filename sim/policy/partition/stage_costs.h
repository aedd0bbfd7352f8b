/* stage_costs.h - what a stage of any blocks would cost, asked once and remembered.
 *
 * A stage's passes, memory and recomputation depend on its own place and blocks alone, so a search
 * over partitions asks for few different stages. The job's later policies have decided about each
 * (planner_oracle.complete) before it is priced, at the job's typical micro-batch; whether it fits
 * is asked at the largest.
 *
 *     struct stage_costs *c = stage_costs_create(scratch, oracle, plan);
 *     const struct stage_choice *s = stage_costs_of(c, stage, first_block, block_count);
 *     stage_costs_simulate(c, blocks, &seconds, err);
 *
 * One model chunk a stage. Lives in the arena; borrows the oracle.
 */
#ifndef BALLAST_SIM_POLICY_STAGE_COSTS_H
#define BALLAST_SIM_POLICY_STAGE_COSTS_H

#include "sim/policy/planner.h"

struct stage_choice {
    double forward_seconds, backward_seconds; /* sends that block compute included */
    /* sends that do not, after the forward and after the backward; else 0 */
    double send_forward_seconds, send_backward_seconds;
    double bytes; /* at the peak, with the largest micro-batches */
    bool fits;
    const enum recompute_kind *recompute; /* of its layers, first one first */
};

struct stage_costs;
struct stage_costs *stage_costs_create(struct arena *arena, const struct planner_oracle *oracle,
                                       const struct job_plan *plan);
/* NULL with *err set where a later policy fails. */
const struct stage_choice *stage_costs_of(struct stage_costs *costs, int64_t stage, int64_t first,
                                          int64_t count, struct error *err);
/* Simulated seconds of the partition, recomputation decided; whether all stages fit. */
bool stage_costs_simulate(struct stage_costs *costs, const int64_t *blocks, double *seconds,
                          bool *fits, struct error *err);
/* The layer at which a block starts, glued layers included; block_count: the layer count. */
int64_t stage_costs_layer(const struct stage_costs *costs, int64_t block);

#endif
