/* plan_quantity.c - sums over the layers of each stage. */
#include "sim/study/reproduce/plan_quantity.h"

#include <math.h>

static bool is_block(enum layer_kind kind) {
    return kind == LAYER_VISION_BLOCK || kind == LAYER_LANGUAGE_BLOCK;
}

/* Layers of a stage that satisfy the test. */
static double count_layers(const struct execution *e, int64_t stage,
                           bool (*counts)(const struct execution *e, int64_t layer)) {
    const struct job_plan *plan = &e->job->plan;
    if (stage < 0 || stage >= plan->stage_count) return NAN;
    double count = 0;
    for (int64_t part = stage; part < plan->part_count; part += plan->stage_count)
        for (int64_t l = plan->first_layer[part]; l < plan->first_layer[part + 1]; l++)
            count += counts(e, l);
    return count;
}

static bool block(const struct execution *e, int64_t layer) {
    return is_block(e->scenario->model->layers[layer].kind);
}

static bool language_block(const struct execution *e, int64_t layer) {
    return e->scenario->model->layers[layer].kind == LAYER_LANGUAGE_BLOCK;
}

static bool recomputing_block(const struct execution *e, int64_t layer) {
    return block(e, layer) && e->job->plan.recompute[layer];
}

double plan_stage_blocks(const struct execution *e, int64_t stage) {
    return count_layers(e, stage, block);
}

double plan_stage_language_blocks(const struct execution *e, int64_t stage) {
    return count_layers(e, stage, language_block);
}

double plan_stage_recompute(const struct execution *e, int64_t stage) {
    return count_layers(e, stage, recomputing_block);
}

double plan_stage_forward_ms(const struct execution *e, int64_t stage) {
    const struct step_model *step = e->job->step;
    if (stage < 0 || stage >= step->stage_count) return NAN;
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(step, &e->job->typical, times);
    double forward_ns = 0;
    for (int64_t part = stage; part < step->part_count; part += step->stage_count) {
        struct stage_cost cost;
        step_stage_cost(step, part, &e->job->typical, times, NULL, &cost);
        forward_ns += (double)cost.forward_ns;
    }
    return forward_ns * 1e-6;
}

double plan_stage_pass_ms(const struct execution *e, int64_t stage) {
    const struct step_model *step = e->job->step;
    if (stage < 0 || stage >= step->stage_count) return NAN;
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(step, &e->job->typical, times);
    double pass_ns = 0;
    for (int64_t part = stage; part < step->part_count; part += step->stage_count) {
        struct stage_cost cost;
        step_stage_cost(step, part, &e->job->typical, times, NULL, &cost);
        pass_ns += (double)(cost.forward_ns + cost.backward_ns);
    }
    return pass_ns * 1e-6;
}

double plan_block_pass_ms(const struct execution *e, enum layer_kind kind) {
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(e->job->step, &e->job->typical, times);
    return (double)(times[kind].forward_ns + times[kind].backward_ns) * 1e-6;
}

static double measure(const struct execution *e, enum plan_measure measure, int64_t stage) {
    switch (measure) {
    case PLAN_BLOCKS:
        return plan_stage_blocks(e, stage);
    case PLAN_PARAMETERS:
        return (double)e->job->step->rank_parameters[stage] * 1e-9;
    case PLAN_FORWARD_TIME:
        return plan_stage_forward_ms(e, stage);
    }
    return NAN;
}

double plan_spread(const struct execution *e, enum plan_measure what, enum spread_kind kind) {
    int64_t stages = e->job->plan.stage_count;
    double mean = 0, squares = 0;
    for (int64_t stage = 0; stage < stages; stage++)
        mean += measure(e, what, stage) / (double)stages;
    for (int64_t stage = 0; stage < stages; stage++) {
        double deviation = measure(e, what, stage) - mean;
        squares += deviation * deviation;
    }
    if (kind == SPREAD_SQUARES) return squares;
    double variance = squares / (double)stages;
    return kind == SPREAD_VARIANCE ? variance : sqrt(variance);
}

double plan_cut_bytes(const struct execution *e) {
    const struct model *model = e->scenario->model;
    const struct batch_balance *b = &e->job->balance;
    struct batch_shape shape =
        model_batch_shape(model, 1, b->max_vision_tiles, b->max_language_tokens,
                          (double)b->max_language_tokens * (double)b->max_language_tokens);
    double bytes = 0;
    for (int64_t part = 1; part < e->job->plan.part_count; part++)
        bytes += layer_output_bytes(model, e->job->plan.first_layer[part] - 1, &shape);
    return bytes;
}
