/* static_memory.c - bytes of a stage between its passes. */
#include "sim/step/static_memory.h"

#include <math.h>
#include "sim/base/units.h"

/* Where the weight-gradient matmul adds into the held gradient by itself, autograd still gets a
 * tensor of the matrix's shape: one buffer for each shape, kept (Transformer Engine,
 * get_dummy_wgrad). */
static double placeholder_bytes(const struct step_model *m, int64_t stage) {
    if (!m->scenario->backend->step.placeholder_gradients) return 0;
    const struct model *model = m->scenario->model;
    double bytes[LAYER_KIND_COUNT] = { 0 }, sum = 0;
    for (int64_t part = stage; part < m->part_count; part += m->stage_count)
        for (int64_t i = m->plan->first_layer[part]; i < m->plan->first_layer[part + 1]; i++)
            if (layer_kind_is_block(model->layers[i].kind) && step_layer_need(m, i).weight)
                bytes[model->layers[i].kind] = 2 * (double)step_layer_parameters(m, i)->own;
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        sum += bytes[kind];
    return sum;
}

static bool shards_weights(const struct scenario *s) {
    return s->layout.zero_stage == 3 || s->backend->gathers_once ||
           (s->layout.zero_stage == 2 && s->backend->unit_gradients);
}

/* Of a frozen weight's two bytes: what it is spared where it is stored as its matmuls read it. */
static double spared_bytes(const struct stack_step *step, enum precision precision) {
    if (precision == PRECISION_FP8 && step->fp8_weights) return 2 - precision_bytes(precision);
    return precision == PRECISION_FP4 && step->fp4_weights ? 2 : 0;
}

/* Of matrices that are cast to fp8 or fp4, by rows for the forward pass and by columns for the
 * input's gradient, whichever way the weights themselves are divided; no recipe gathers fp4. Where
 * those are sharded, only a rank's share of the frozen ones is stored narrow. */
static double quantised_bytes(const struct step_model *m, int64_t stage) {
    const struct scenario *s = m->scenario;
    const struct stack_step *step = &s->backend->step;
    const double stored = shards_weights(s) ? 1 / (double)s->layout.zero_group : 1;
    double bytes = 0;
    for (int64_t part = stage; part < m->part_count; part += m->stage_count)
        for (int64_t i = m->plan->first_layer[part]; i < m->plan->first_layer[part + 1]; i++) {
            const struct layer *layer = &s->model->layers[i];
            const enum precision precision = s->model->modules[layer->module_index].precision;
            if (!layer_kind_is_block(layer->kind) || !precision_is_quantised(precision)) continue;
            const double per_parameter = precision == PRECISION_FP4 ? 2 * precision_bytes(precision)
                                                                    : step->quantised_copy_bytes;
            const struct gradient_need need = step_layer_need(m, i);
            const double used = need.input ? 1 : 0.5,
                         spared = need.weight ? 0 : stored * spared_bytes(step, precision);
            bytes += (used * per_parameter - spared) * (double)step_layer_parameters(m, i)->own;
        }
    return bytes;
}

/* Weights that are fp32 themselves have no second copy in the optimizer; where they are sharded,
 * the shares are that copy. */
static double spared_master_bytes(const struct step_model *m, int64_t stage) {
    if (shards_weights(m->scenario) || m->scenario->backend->no_master_weights) return 0;
    const double above_bf16 =
        m->trainable_weight_bytes[stage] - 2 * (double)m->trainable_rank_parameters[stage];
    return 4 * above_bf16 / 2;
}

/* Of sends to and from one pipeline neighbour: NCCL_BUFFSIZE of 4 MiB, 24 channels, both
 * directions. */
#define NEIGHBOUR_BYTES (4.0 * 24 * 2 * BYTES_PER_MiB)

/* ZeRO-3 holds the root unit and up to two blocks whole, ZeRO-2 of FSDP and any of it beside a
 * pipeline all of them, until the update, and every rank its share in fp32, which is the
 * optimizer's master copy; frozen shares and those that are updated in bf16 stay as they are. One
 * GPU's bf16 shares are the weights themselves: FSDP takes NO_SHARD for a world of one
 * (torch.distributed.fsdp, _init_utils.py). */
static double held_weight_bytes(struct step_model *m, int64_t stage) {
    const struct scenario *s = m->scenario;
    const double group = (double)s->layout.zero_group, all = m->weight_bytes[stage],
                 trainable = m->trainable_weight_bytes[stage];
    /* what adapters stand beside is no optimizer's: a world of one holds it once */
    const bool alone = s->layout.zero_group == 1 && model_has_fp32_base(s->model);
    if (!shards_weights(s) || alone) return all;
    const double shares =
        (all - trainable) / group + (s->backend->no_master_weights ? trainable / group : 0);
    if (s->backend->no_master_weights && s->layout.zero_group == 1) return all;
    m->gathered_weight_bytes[stage] = s->layout.zero_stage == 3 ? m->root_bytes + 2 * m->unit_bytes
                                      : s->backend->gathers_once
                                          ? m->gathered_bytes[stage]
                                          : all - trainable + m->gathered_bytes[stage];
    return m->gathered_weight_bytes[stage] + shares;
}

/* PyTorch's DistributedDataParallel reduces copies of the gradients, in buckets that stay from step
 * to step (gradient_as_bucket_view is off by default; PyTorch pull request 41954). */
static double bucket_bytes(const struct step_model *m, double trainable) {
    const struct scenario *s = m->scenario;
    const bool reduces = s->layout.dp * s->layout.cp > 1 && s->layout.zero_stage == 0;
    return s->backend->gradient_buckets && reduces ? trainable * s->backend->gradient_bytes : 0;
}

void step_fill_static_memory(struct step_model *m) {
    const struct scenario *s = m->scenario;
    const struct layout *layout = &s->layout;
    double group = (double)layout->zero_group;
    double shards = layout->zero_stage >= 1 ? group : 1;
    /* Whole between micro-batches, in the precision of the reduction (FSDP's accumulated
     * gradient). */
    const bool whole = step_reduces_once(m);
    double gradient_shards = layout->zero_stage >= 2 && !whole ? group : 1;
    double gradient_bytes = whole ? s->backend->gradient_reduce_bytes : s->backend->gradient_bytes;
    const int64_t communicators = (layout->tp > 1) + (layout->cp > 1) + 2 * (layout->cp_heads > 1) +
                                  (layout->dp * layout->cp > 1);
    const double neighbour_bytes = layout->pp > 1 ? 2 * NEIGHBOUR_BYTES : 0;
    for (int64_t stage = 0; stage < m->stage_count; stage++) {
        double trainable = (double)m->trainable_rank_parameters[stage];
        double *bytes = m->static_memory[stage].bytes;
        bytes[MEMORY_WEIGHTS] = held_weight_bytes(m, stage) + quantised_bytes(m, stage);
        bytes[MEMORY_GRADIENTS] =
            trainable * gradient_bytes / gradient_shards + placeholder_bytes(m, stage);
        /* Of the one micro-batch of a step the loss comes before the first gradient. */
        if (s->backend->frees_gradients && s->micro_batches_per_rank == 1 && m->stage_count == 1)
            m->late_gradient_bytes[stage] = bytes[MEMORY_GRADIENTS];
        bytes[MEMORY_GRADIENTS] += bucket_bytes(m, trainable);
        m->update_bytes[stage] = trainable * s->backend->step.update_bytes / shards;
        const struct muon_stage *muon = &m->muon[stage];
        const double state_bytes = s->optimizer->state_bytes;
        bytes[MEMORY_OPTIMIZER] =
            ((trainable - muon->parameters) * state_bytes - spared_master_bytes(m, stage)) /
                shards +
            muon_state_bytes(m, muon, state_bytes);
        bytes[MEMORY_COMMUNICATION] =
            s->backend->step.communicator_bytes * (double)communicators + neighbour_bytes;
        bytes[MEMORY_CONTEXT] = isnan(s->backend->step.context_bytes)
                                    ? cost_model_gpu(s->cost_model)->reserved_bytes
                                    : s->backend->step.context_bytes;
    }
}
