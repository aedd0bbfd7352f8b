/* stages.c - recomputing blocks per stage as the scenario lists them (OmniBal Table 8's last
 * column). */
#include "sim/policy/partition/partition.h"
#include "sim/policy/recompute/recompute.h"

struct stages_parameters {
    const cJSON *blocks;
};

static const struct field stages_fields[] = {
    { "blocks", FIELD_NODE, offsetof(struct stages_parameters, blocks), 0, 0, NULL, "layers",
      "list of recomputing blocks per stage, for example [3, 2, 0, 0]", NULL },
};
static const struct field_table stages_table =
    FIELD_TABLE("stages", "recomputing blocks per stage as listed", stages_fields);

static bool stages_check(const struct model *model, int64_t stage_count, const void *parameters,
                         struct error *err) {
    const int64_t blocks = partition_block_count(model);
    const struct stages_parameters *p = parameters;
    if (!cJSON_IsArray(p->blocks) || cJSON_GetArraySize(p->blocks) != stage_count)
        return error_set(err, "blocks must be a list of %ld numbers, one per pipeline stage",
                         (long)stage_count);
    const cJSON *item;
    cJSON_ArrayForEach(item, p->blocks) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble <= 1e6) ||
            item->valuedouble != (double)(int64_t)item->valuedouble)
            return error_set(err,
                             "each stage needs a whole number of recomputing blocks, at least 0");
        if (item->valuedouble > (double)blocks)
            return error_set(err, "%.0f blocks of a stage cannot recompute: the model has %ld",
                             item->valuedouble, (long)blocks);
    }
    return true;
}

static int64_t blocks_of(const struct model *model, const struct job_plan *plan, int64_t part) {
    int64_t count = 0;
    for (int64_t i = plan->first_layer[part]; i < plan->first_layer[part + 1]; i++)
        count += layer_kind_is_block(model->layers[i].kind);
    return count;
}

static bool stages_plan(const struct planner_oracle *oracle, const void *parameters,
                        struct job_plan *plan, struct error *err) {
    if (!stages_check(oracle->model, plan->part_count, parameters, err)) return false;
    const struct stages_parameters *p = parameters;
    int64_t stage = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, p->blocks) {
        const int64_t wanted = (int64_t)item->valuedouble;
        const int64_t held = blocks_of(oracle->model, plan, stage);
        if (wanted > held)
            return error_set(err, "stage %ld holds %ld blocks, so %ld cannot recompute",
                             (long)stage + 1, (long)held, (long)wanted);
        recompute_first_blocks(oracle->model, plan, stage++, wanted);
    }
    return true;
}

const struct planner recompute_stages = {
    .name = "stages",
    .help = "recomputing blocks per stage as listed",
    .slot = PLANNER_RECOMPUTE,
    .parameters = &stages_table,
    .parameters_size = sizeof(struct stages_parameters),
    .check = stages_check,
    .plan_job = stages_plan,
};
