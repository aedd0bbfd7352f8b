/* layer.c - equal numbers of blocks on each stage, whatever they cost (OmniBal's "layer-based"). */
#include "sim/policy/partition/partition.h"

static bool layer_plan(const struct planner_oracle *oracle, const void *parameters,
                       struct job_plan *plan, struct error *err) {
    (void)parameters;
    (void)err;
    int64_t block_count = partition_block_count(oracle->model);
    int64_t *blocks = arena_array(oracle->arena, int64_t, plan->part_count);
    int64_t share = block_count / plan->part_count, extra = block_count % plan->part_count;
    for (int64_t stage = 0; stage < plan->part_count; stage++)
        blocks[stage] = share + (stage >= plan->part_count - extra);
    partition_apply(oracle->model, blocks, plan);
    return true;
}

const struct planner partition_layer = {
    .name = "layer",
    .help = "equal numbers of transformer blocks; the remainder on the last stages",
    .slot = PLANNER_PARTITION,
    .plan_job = layer_plan,
};
