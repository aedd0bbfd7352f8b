/* manual.c - blocks per stage as the scenario lists them. Of a text model the first stage may have
 * none (the token embedding alone), and the last (the head). */
#include "sim/policy/partition/partition.h"

struct manual_parameters {
    const cJSON *blocks;
};

static const struct field manual_fields[] = {
    { "blocks", FIELD_NODE, offsetof(struct manual_parameters, blocks), 0, 0, NULL, "layers",
      "list of transformer blocks per stage, for example [22, 23, 24, 24]", NULL },
};
static const struct field_table manual_table =
    FIELD_TABLE("manual", "blocks per stage as listed", manual_fields);

static bool manual_check(const struct model *model, int64_t stage_count, const void *parameters,
                         struct error *err) {
    const struct manual_parameters *p = parameters;
    int64_t block_count = partition_block_count(model), sum = 0;
    if (!cJSON_IsArray(p->blocks) || cJSON_GetArraySize(p->blocks) != stage_count)
        return error_set(err, "blocks must be a list of %ld numbers, one per pipeline stage",
                         (long)stage_count);
    const cJSON *item;
    int64_t stage = 0;
    cJSON_ArrayForEach(item, p->blocks) {
        const bool end = stage == 0 || stage == stage_count - 1;
        stage++;
        const double least = end && stage_count > 1 && partition_ends_count(model) ? 0 : 1;
        if (!cJSON_IsNumber(item) ||
            !(item->valuedouble >= least && item->valuedouble <= (double)block_count) ||
            item->valuedouble != (double)(int64_t)item->valuedouble)
            return error_set(err, "each stage needs a whole number of blocks, at least 1");
        sum += (int64_t)item->valuedouble;
    }
    if (sum != block_count)
        return error_set(err, "the stages hold %ld blocks, the model has %ld", (long)sum,
                         (long)block_count);
    return true;
}

static bool manual_plan(const struct planner_oracle *oracle, const void *parameters,
                        struct job_plan *plan, struct error *err) {
    if (!manual_check(oracle->model, plan->part_count, parameters, err)) return false;
    const struct manual_parameters *p = parameters;
    int64_t *blocks = arena_array(oracle->arena, int64_t, plan->part_count);
    int64_t stage = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, p->blocks) blocks[stage++] = (int64_t)item->valuedouble;
    partition_apply(oracle->model, blocks, plan);
    return true;
}

const struct planner partition_manual = {
    .name = "manual",
    .help = "blocks per stage as listed; of a text model the first and the last may have none",
    .slot = PLANNER_PARTITION,
    .parameters = &manual_table,
    .parameters_size = sizeof(struct manual_parameters),
    .check = manual_check,
    .plan_job = manual_plan,
};
