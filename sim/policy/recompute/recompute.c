/* recompute.c - none, selective and full, and what the counted policies share. */
#include "sim/policy/recompute/recompute.h"

void recompute_first_blocks(const struct model *model, struct job_plan *plan, int64_t stage,
                            int64_t count) {
    for (int64_t i = plan->first_layer[stage]; i < plan->first_layer[stage + 1]; i++) {
        enum layer_kind kind = model->layers[i].kind;
        bool block = layer_kind_is_block(kind);
        plan->recompute[i] = block && count-- > 0 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    }
}

static bool none_plan(const struct planner_oracle *oracle, const void *parameters,
                      struct job_plan *plan, struct error *err) {
    (void)parameters;
    (void)err;
    for (int64_t stage = 0; stage < plan->part_count; stage++)
        recompute_first_blocks(oracle->model, plan, stage, 0);
    return true;
}

static bool full_plan(const struct planner_oracle *oracle, const void *parameters,
                      struct job_plan *plan, struct error *err) {
    (void)parameters;
    (void)err;
    for (int64_t stage = 0; stage < plan->part_count; stage++)
        recompute_first_blocks(oracle->model, plan, stage, INT64_MAX);
    return true;
}

/* Megatron-LM's --recompute-granularity selective (Korthikanti et al. 2022, section 5). */
static bool selective_plan(const struct planner_oracle *oracle, const void *parameters,
                           struct job_plan *plan, struct error *err) {
    (void)parameters;
    (void)err;
    for (int64_t i = 0; i < oracle->model->layer_count; i++)
        plan->recompute[i] =
            layer_can_recompute(oracle->model, i) ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE;
    return true;
}

const struct planner recompute_none = {
    .name = "none",
    .help = "keep all activations",
    .slot = PLANNER_RECOMPUTE,
    .plan_job = none_plan,
};

const struct planner recompute_full = {
    .name = "full",
    .help = "every transformer block keeps its input only",
    .slot = PLANNER_RECOMPUTE,
    .plan_job = full_plan,
};

const struct planner recompute_selective = {
    .name = "selective",
    .help = "every transformer block drops its attention scores (training.attention naive)",
    .slot = PLANNER_RECOMPUTE,
    .plan_job = selective_plan,
};
