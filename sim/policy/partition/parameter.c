/* parameter.c - stages of about equal parameter counts (OmniBal's "parameter-based" baseline).
 *
 * greedy: a stage takes blocks until it holds at least its even share of the block parameters that
 * are left. On 6+20B with four stages: [47, 16, 15, 15].
 * min-max: the exact minimum of the largest stage, glued layers (connector, embeddings, head)
 * included, as DeepSpeed's "parameters" method does by binary search. On 6+20B: [46, 16, 16, 15],
 * which is also what OmniBal's printed VAR(param) 0.03 and VAR(num layer) 13.4 imply
 * (docs/REPRODUCTION.md). Both are offered because sources name both.
 */
#include "sim/policy/partition/partition.h"

#include <assert.h>

enum parameter_method { METHOD_GREEDY, METHOD_MIN_MAX };

struct parameter_parameters {
    int method;
};

static const char *const method_names[] = { "greedy", "min-max", NULL };
static const struct field parameter_fields[] = {
    { "method", FIELD_CHOICE, offsetof(struct parameter_parameters, method), 0, 0, "\"greedy\"", "",
      "greedy fills each stage to its share of what is left; min-max is exact and counts "
      "embeddings",
      method_names },
};
static const struct field_table parameter_table =
    FIELD_TABLE("parameter", "stages of about equal parameter counts", parameter_fields);

static void plan_greedy(const double *weights, int64_t block_count, int64_t stage_count,
                        int64_t *blocks) {
    double left = 0;
    for (int64_t i = 0; i < block_count; i++)
        left += weights[i];
    int64_t block = 0;
    for (int64_t stage = 0; stage < stage_count; stage++) {
        int64_t stages_after = stage_count - stage - 1;
        double share = left / (double)(stage_count - stage), sum = 0;
        int64_t first = block;
        while (block < block_count - stages_after && (sum < share || block == first))
            sum += weights[block++];
        if (stages_after == 0) block = block_count;
        blocks[stage] = block - first;
        left -= sum;
    }
}

static bool parameter_plan(const struct planner_oracle *oracle, const void *parameters,
                           struct job_plan *plan, struct error *err) {
    (void)err;
    const struct parameter_parameters *p = parameters;
    const struct model *model = oracle->model;
    int64_t block_count = partition_block_count(model);
    double *weights = arena_array(oracle->arena, double, block_count);
    for (int64_t block = 0; block < block_count; block++) {
        int64_t first = partition_stage_start(model, block);
        int64_t end =
            block + 1 < block_count ? partition_stage_start(model, block + 1) : model->layer_count;
        for (int64_t i = first; i < end; i++) {
            enum layer_kind kind = model->layers[i].kind;
            bool glued = !layer_kind_is_block(kind);
            if (glued && p->method == METHOD_GREEDY) continue;
            weights[block] += (double)model_layer_trained_parameters(model, i);
        }
    }
    int64_t *blocks = arena_array(oracle->arena, int64_t, plan->part_count);
    if (p->method == METHOD_GREEDY)
        plan_greedy(weights, block_count, plan->part_count, blocks);
    else
        partition_min_max(oracle->arena, weights, block_count, plan->part_count, blocks);
    partition_apply(model, blocks, plan);
    return true;
}

const struct planner partition_parameter = {
    .name = "parameter",
    .help = "stages of about equal numbers of trainable parameters",
    .slot = PLANNER_PARTITION,
    .parameters = &parameter_table,
    .parameters_size = sizeof(struct parameter_parameters),
    .plan_job = parameter_plan,
};
