/* encoder_first.c - the whole encoder and connector on stage 1, language blocks spread evenly.
 *
 * What a language-model pipeline does when an encoder is put in front of it: OmniBal's 6+20B on
 * four stages becomes [57, 12, 12, 12]. Extra language blocks go to the last stages, away from the
 * encoder.
 */
#include "sim/policy/partition/partition.h"

static bool encoder_first_plan(const struct planner_oracle *oracle, const void *parameters,
                               struct job_plan *plan, struct error *err) {
    (void)parameters;
    const struct model *model = oracle->model;
    int64_t vision = 0, language = 0, block_count = partition_block_count(model);
    for (int64_t i = 0; i < block_count; i++) {
        if (partition_is_vision(model, i))
            vision++;
        else
            language++;
    }
    if (language < plan->stage_count && (vision == 0 || language < plan->stage_count - 1))
        return error_set(
            err, "encoder-first needs a language block for each stage: %ld blocks, %ld stages",
            (long)language, (long)plan->stage_count);
    int64_t *blocks = arena_array(oracle->arena, int64_t, plan->stage_count);
    int64_t share = language / plan->stage_count, extra = language % plan->stage_count;
    for (int64_t stage = 0; stage < plan->stage_count; stage++)
        blocks[stage] = share + (stage >= plan->stage_count - extra);
    blocks[0] += vision;
    partition_apply(model, blocks, plan);
    return true;
}

const struct planner partition_encoder_first = {
    .name = "encoder-first",
    .help = "whole encoder on the first stage, language blocks spread evenly",
    .slot = PLANNER_PARTITION,
    .plan_job = encoder_first_plan,
};
