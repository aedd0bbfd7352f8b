/* encoder_first.c - the whole encoder and connector on stage 1, language blocks spread evenly.
 *
 * What a language-model pipeline does when an encoder is put in front of it: OmniBal's 6+20B on
 * four stages becomes [57, 12, 12, 12]. Extra language blocks go to the last stages, away from the
 * encoder.
 */
#include "sim/policy/partition/partition.h"

static void count_blocks(const struct model *model, int64_t *vision, int64_t *language) {
    int64_t block_count = partition_block_count(model);
    *vision = 0;
    for (int64_t i = 0; i < block_count; i++)
        *vision += partition_is_vision(model, i);
    *language = block_count - *vision;
}

static bool encoder_first_check(const struct model *model, int64_t stage_count,
                                const void *parameters, struct error *err) {
    (void)parameters;
    int64_t vision, language;
    count_blocks(model, &vision, &language);
    if (language < stage_count - (vision > 0))
        return error_set(
            err, "encoder-first needs a language block for each stage: %ld blocks, %ld stages",
            (long)language, (long)stage_count);
    return true;
}

static bool encoder_first_plan(const struct planner_oracle *oracle, const void *parameters,
                               struct job_plan *plan, struct error *err) {
    if (!encoder_first_check(oracle->model, plan->part_count, parameters, err)) return false;
    int64_t vision, language;
    count_blocks(oracle->model, &vision, &language);
    int64_t *blocks = arena_array(oracle->arena, int64_t, plan->part_count);
    int64_t share = language / plan->part_count, extra = language % plan->part_count;
    for (int64_t stage = 0; stage < plan->part_count; stage++)
        blocks[stage] = share + (stage >= plan->part_count - extra);
    blocks[0] += vision;
    partition_apply(oracle->model, blocks, plan);
    return true;
}

const struct planner partition_encoder_first = {
    .name = "encoder-first",
    .help = "whole encoder on the first stage, language blocks spread evenly",
    .slot = PLANNER_PARTITION,
    .check = encoder_first_check,
    .plan_job = encoder_first_plan,
};
