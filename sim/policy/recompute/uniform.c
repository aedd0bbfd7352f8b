/* uniform.c - the same number of recomputing blocks on every stage. */
#include "sim/policy/recompute/recompute.h"

struct uniform_parameters {
    int64_t blocks_per_stage;
};

static const struct field uniform_fields[] = {
    { "blocks_per_stage", FIELD_COUNT, offsetof(struct uniform_parameters, blocks_per_stage), 0,
      1e6, NULL, "layers",
      "blocks of each stage that recompute, counted from its first; all of a stage that has fewer",
      NULL },
};
static const struct field_table uniform_table =
    FIELD_TABLE("uniform", "the same number of recomputing blocks on every stage", uniform_fields);

static bool uniform_plan(const struct planner_oracle *oracle, const void *parameters,
                         struct job_plan *plan, struct error *err) {
    (void)err;
    const struct uniform_parameters *p = parameters;
    for (int64_t stage = 0; stage < plan->part_count; stage++)
        recompute_first_blocks(oracle->model, plan, stage, p->blocks_per_stage);
    return true;
}

const struct planner recompute_uniform = {
    .name = "uniform",
    .help = "the same number of recomputing blocks on every stage",
    .slot = PLANNER_RECOMPUTE,
    .parameters = &uniform_table,
    .parameters_size = sizeof(struct uniform_parameters),
    .plan_job = uniform_plan,
};
