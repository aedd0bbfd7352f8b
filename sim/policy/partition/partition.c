/* partition.c - blocks and the layers glued to them. */
#include "sim/policy/partition/partition.h"

#include <assert.h>

static bool is_block(const struct layer *layer) {
    return layer_kind_is_block(layer->kind);
}

int64_t partition_block_count(const struct model *model) {
    int64_t count = 0;
    for (int64_t i = 0; i < model->layer_count; i++)
        count += is_block(&model->layers[i]);
    return count;
}

static int64_t layer_of_block(const struct model *model, int64_t block) {
    for (int64_t i = 0; i < model->layer_count; i++)
        if (is_block(&model->layers[i]) && block-- == 0) return i;
    return model->layer_count;
}

bool partition_is_vision(const struct model *model, int64_t block) {
    int64_t layer = layer_of_block(model, block);
    return layer < model->layer_count && model->layers[layer].kind == LAYER_VISION_BLOCK;
}

bool partition_is_encoder(const struct model *model, int64_t block) {
    const bool decodes = model->modules[MODULE_DIFFUSION_DECODER].layer_count > 0;
    int64_t layer = layer_of_block(model, block);
    if (layer == model->layer_count) return false;
    enum layer_kind kind = model->layers[layer].kind;
    return kind == LAYER_VISION_BLOCK || (decodes && kind == LAYER_LANGUAGE_BLOCK);
}

int64_t partition_stage_start(const struct model *model, int64_t block) {
    if (block == 0) return 0;
    int64_t layer = layer_of_block(model, block);
    /* The token embedding goes with the first language block, the latent embedding with the first
     * diffusion block; connector and text projection stay behind. */
    while (layer > 0 && layer < model->layer_count &&
           (model->layers[layer - 1].kind == LAYER_TOKEN_EMBEDDING ||
            model->layers[layer - 1].kind == LAYER_LATENT_EMBEDDING))
        layer--;
    return layer;
}

bool partition_ends_count(const struct model *model) {
    return model->layers[0].kind == LAYER_TOKEN_EMBEDDING &&
           model->layers[model->layer_count - 1].kind == LAYER_HEAD;
}

void partition_apply(const struct model *model, const int64_t *blocks, struct job_plan *plan) {
    int64_t block = 0;
    for (int64_t stage = 0; stage < plan->part_count; stage++) {
        const bool end = stage == 0 || stage == plan->part_count - 1;
        assert(blocks[stage] > 0 || (end && partition_ends_count(model)));
        plan->first_layer[stage] = stage > 0 && block == 0 ? layer_of_block(model, 0)
                                   : blocks[stage] == 0 && stage > 0
                                       ? model->layer_count - 1
                                       : partition_stage_start(model, block);
        block += blocks[stage];
    }
    assert(block == partition_block_count(model));
    plan->first_layer[plan->part_count] = model->layer_count;
}

void partition_blocks(const struct model *model, const struct job_plan *plan, int64_t *blocks) {
    for (int64_t stage = 0; stage < plan->part_count; stage++) {
        blocks[stage] = 0;
        for (int64_t i = plan->first_layer[stage]; i < plan->first_layer[stage + 1]; i++)
            blocks[stage] += is_block(&model->layers[i]);
    }
}

/* best[s][b]: smallest possible maximum when blocks b.. go to the last s stages. */
void partition_min_max(struct arena *arena, const double *weights, int64_t block_count,
                       int64_t stage_count, int64_t *blocks) {
    double *prefix = arena_array(arena, double, block_count + 1);
    for (int64_t i = 0; i < block_count; i++)
        prefix[i + 1] = prefix[i] + weights[i];
    int64_t width = block_count + 1;
    double *best = arena_array(arena, double, (stage_count + 1) * width);
    int64_t *take = arena_array(arena, int64_t, (stage_count + 1) * width);
    for (int64_t b = 0; b < block_count; b++) {
        best[width + b] = prefix[block_count] - prefix[b];
        take[width + b] = block_count - b;
    }
    for (int64_t s = 2; s <= stage_count; s++) {
        for (int64_t b = 0; b + s <= block_count; b++) {
            double found = -1;
            for (int64_t n = 1; b + n + s - 1 <= block_count; n++) {
                double own = prefix[b + n] - prefix[b], rest = best[(s - 1) * width + b + n];
                double worst = own > rest ? own : rest;
                if (found >= 0 && worst >= found) continue;
                found = worst;
                take[s * width + b] = n;
            }
            best[s * width + b] = found;
        }
    }
    for (int64_t stage = 0, b = 0; stage < stage_count; stage++) {
        blocks[stage] = take[(stage_count - stage) * width + b];
        b += blocks[stage];
    }
}

bool partition_evaluate(const struct planner_oracle *oracle, struct job_plan *plan, double *seconds,
                        bool *fits, struct error *err) {
    if (!oracle->complete(oracle->context, plan, -1, err)) return false;
    *fits = true;
    for (int64_t stage = 0; stage < plan->stage_count; stage++)
        *fits = *fits && oracle->stage_bytes(oracle->context, plan, stage, &oracle->largest) <=
                             oracle->capacity_bytes;
    return oracle->simulate(oracle->context, plan, seconds, err);
}
