/* encoder_first.c - the whole encoder and connector on stage 1, the other blocks spread evenly.
 *
 * What a language-model pipeline does when an encoder is put in front of it: OmniBal's 6+20B on
 * four stages becomes [57, 12, 12, 12]. Extra blocks go to the last stages, away from the encoder.
 * In front of a diffusion decoder the language model is an encoder too.
 */
#include "sim/policy/partition/partition.h"

static void count_blocks(const struct model *model, int64_t *encoder, int64_t *backbone) {
    int64_t block_count = partition_block_count(model);
    *encoder = 0;
    for (int64_t i = 0; i < block_count; i++)
        *encoder += partition_is_encoder(model, i);
    *backbone = block_count - *encoder;
}

static bool encoder_first_check(const struct model *model, int64_t stage_count,
                                const void *parameters, struct error *err) {
    (void)parameters;
    int64_t encoder, backbone;
    count_blocks(model, &encoder, &backbone);
    if (backbone < stage_count - (encoder > 0))
        return error_set(
            err, "encoder-first needs a language block for each stage: %ld blocks, %ld stages",
            (long)backbone, (long)stage_count);
    return true;
}

static bool encoder_first_plan(const struct planner_oracle *oracle, const void *parameters,
                               struct job_plan *plan, struct error *err) {
    if (!encoder_first_check(oracle->model, plan->part_count, parameters, err)) return false;
    int64_t encoder, backbone;
    count_blocks(oracle->model, &encoder, &backbone);
    int64_t *blocks = arena_array(oracle->arena, int64_t, plan->part_count);
    int64_t share = backbone / plan->part_count, extra = backbone % plan->part_count;
    for (int64_t stage = 0; stage < plan->part_count; stage++)
        blocks[stage] = share + (stage >= plan->part_count - extra);
    blocks[0] += encoder;
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
