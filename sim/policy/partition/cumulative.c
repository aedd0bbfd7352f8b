/* cumulative.c - stage after stage is filled until the matmul parameters so far pass its share.
 *
 * nanotron's rule (huggingface/nanotron models/base.py, build_model; the costs of
 * models/llama.py, get_block_compute_costs): a layer goes to the current stage, and if the sum up
 * to and with it is above the stage's share of the whole, the next layer begins the next stage. The
 * head counts with its vocabulary, the embedding not at all, and grouped keys as if every head had
 * its own. 24 blocks whose head is worth 2.5 of them fall into [7, 7, 6, 4], on eight stages
 * [4, 3, 3, 4, 3, 3, 4, 0]: the last holds the head alone.
 */
#include "sim/policy/partition/partition.h"

static double matmul_parameters(const struct model *model, int64_t layer) {
    const struct module *m = &model->modules[model->layers[layer].module_index];
    const double hidden = (double)m->hidden;
    if (model->layers[layer].kind == LAYER_HEAD) return hidden * (double)m->vocabulary;
    if (!layer_kind_is_block(model->layers[layer].kind)) return 0;
    const double matrices = m->ffn == FFN_SWIGLU ? 3 : 2;
    const double streams = model->layers[layer].kind == LAYER_JOINT_BLOCK ? 2 : 1;
    return streams * hidden *
           (4 * (double)m->heads * (double)m->head_dim + matrices * (double)m->ffn_hidden);
}

static bool cumulative_plan(const struct planner_oracle *oracle, const void *parameters,
                            struct job_plan *plan, struct error *err) {
    (void)parameters;
    (void)err;
    const struct model *model = oracle->model;
    const int64_t stages = plan->part_count;
    double whole = 0, sum = 0;
    for (int64_t i = 0; i < model->layer_count; i++)
        whole += matmul_parameters(model, i);
    int64_t *blocks = arena_array(oracle->arena, int64_t, stages);
    int64_t left = partition_block_count(model), stage = 0;
    const int64_t may_be_empty = partition_ends_count(model) ? 1 : 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        sum += matmul_parameters(model, i);
        if (!layer_kind_is_block(model->layers[i].kind)) continue;
        blocks[stage]++;
        left--;
        /* The stages behind this one need a block each, whatever the sum, but for a head's. */
        const int64_t behind = stages - 1 - stage;
        const bool full = sum > whole * (double)(stage + 1) / (double)stages;
        if (behind > 0 && (full || left <= behind - may_be_empty)) stage++;
    }
    partition_apply(model, blocks, plan);
    return true;
}

const struct planner partition_cumulative = {
    .name = "cumulative",
    .help = "fills stage after stage until its share of the matmul parameters is passed (nanotron)",
    .slot = PLANNER_PARTITION,
    .plan_job = cumulative_plan,
};
