/* step_model.c - what a plan costs per stage: layer counts, static memory, synchronisation.
 *
 * Gradient synchronisation (per stage, over its data-parallel group): ZeRO-0, and ZeRO-1 in
 * backends that reduce whole gradients, all-reduce; other ZeRO-1 reduce-scatter. Then each rank
 * updates its share, and under ZeRO-1 the bf16 parameters are gathered. A global gradient norm
 * makes every stage wait for the slowest before the update.
 */
#include "sim/step/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/step/outer_operators.h"
#include "sim/step/outer_price.h"
#include "sim/step/part_kinds.h"
#include "sim/step/sharded_pass.h"

static const char *const class_names[MEMORY_CLASS_COUNT] = {
    [MEMORY_WEIGHTS] = "weights",
    [MEMORY_GRADIENTS] = "gradients",
    [MEMORY_OPTIMIZER] = "optimizer",
    [MEMORY_ACTIVATIONS] = "activations",
    [MEMORY_WORKSPACE] = "workspace",
    [MEMORY_FRAGMENTATION] = "fragmentation",
    [MEMORY_COMMUNICATION] = "communication",
    [MEMORY_CONTEXT] = "context",
};

const char *memory_class_name(enum memory_class class) {
    return class_names[class];
}

double stage_memory_allocated(const struct stage_memory *memory) {
    double sum = 0;
    for (int c = 0; c <= MEMORY_WORKSPACE; c++)
        sum += memory->bytes[c];
    return sum;
}

void stage_memory_add_fragmentation(struct stage_memory *memory, double reserved_fraction) {
    memory->bytes[MEMORY_FRAGMENTATION] = reserved_fraction * stage_memory_allocated(memory);
}

double stage_memory_reserved(const struct stage_memory *memory) {
    return stage_memory_allocated(memory) + memory->bytes[MEMORY_FRAGMENTATION];
}

double stage_memory_device(const struct stage_memory *memory) {
    return stage_memory_reserved(memory) + memory->bytes[MEMORY_COMMUNICATION] +
           memory->bytes[MEMORY_CONTEXT];
}

static void count_layers(struct step_model *m) {
    const struct model *model = m->scenario->model;
    for (int64_t part = 0; part < m->part_count; part++) {
        int64_t stage = part % m->stage_count;
        for (int64_t i = m->plan->first_layer[part]; i < m->plan->first_layer[part + 1]; i++) {
            enum layer_kind kind = model->layers[i].kind;
            m->layers[part * LAYER_KIND_COUNT + kind]++;
            m->recomputing[(part * LAYER_KIND_COUNT + kind) * RECOMPUTE_KIND_COUNT +
                           m->plan->recompute[i]]++;
            m->last_kind[part] = kind;
            int64_t parameters = layer_rank_parameters(model, i, m->scenario->layout.tp);
            /* fp8 recipes keep bf16 weights and cast them: only fp32 takes more. */
            bool whole = model->modules[model->layers[i].module_index].precision == PRECISION_FP32;
            double bytes = (double)parameters * (whole ? 4 : 2);
            m->rank_parameters[stage] += parameters;
            m->part_parameters[part] += parameters;
            m->weight_bytes[stage] += bytes;
            if (!model_gradient_need(model, i).weight) continue;
            m->trainable_rank_parameters[stage] += parameters;
            m->trainable_weight_bytes[stage] += bytes;
            m->trainable_part_parameters[part] += parameters;
        }
    }
}

/* The first blocks of each part. */
static void count_offloaded(struct step_model *m) {
    const struct model *model = m->scenario->model;
    const int64_t wanted = m->scenario->training_fields.offload_blocks;
    for (int64_t part = 0; part < m->part_count; part++) {
        int64_t count = 0;
        for (int64_t i = m->plan->first_layer[part];
             i < m->plan->first_layer[part + 1] && count < wanted; i++) {
            enum layer_kind kind = model->layers[i].kind;
            if (!layer_kind_is_block(kind)) continue;
            count++;
            m->offloaded[i] = true;
            m->offloading[(part * LAYER_KIND_COUNT + kind) * RECOMPUTE_KIND_COUNT +
                          m->plan->recompute[i]]++;
        }
    }
}

static void count_kinds(struct step_model *m) {
    const struct model *model = m->scenario->model;
    for (int64_t i = 0; i < model->layer_count; i++) {
        struct gradient_need need = model_gradient_need(model, i);
        m->kind_layers[model->layers[i].kind] += 1;
        if (need.input || need.weight)
            m->kind_recomputing[model->layers[i].kind][m->plan->recompute[i]] += 1;
    }
}

/* Where the weight-gradient matmul adds into the held gradient by itself, autograd still gets a
 * tensor of the matrix's shape: one buffer for each shape, kept (Transformer Engine,
 * get_dummy_wgrad). */
static double placeholder_bytes(const struct step_model *m, int64_t stage) {
    if (!m->scenario->backend->placeholder_gradients) return 0;
    const struct model *model = m->scenario->model;
    double bytes[LAYER_KIND_COUNT] = { 0 }, sum = 0;
    for (int64_t part = stage; part < m->part_count; part += m->stage_count)
        for (int64_t i = m->plan->first_layer[part]; i < m->plan->first_layer[part + 1]; i++)
            if (layer_kind_is_block(model->layers[i].kind) && model_gradient_need(model, i).weight)
                bytes[model->layers[i].kind] =
                    2 * (double)layer_rank_parameters(model, i, m->scenario->layout.tp);
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        sum += bytes[kind];
    return sum;
}

/* Sharded gradients that are reduced behind the last micro-batch alone. */
static bool step_reduces_once(const struct step_model *m) {
    const struct layout *layout = &m->scenario->layout;
    return m->scenario->backend->reduces_once && layout->zero_stage >= 2 &&
           layout->zero_group > 1 && m->scenario->micro_batches_per_rank > 1;
}

/* Of sends to and from one pipeline neighbour: NCCL_BUFFSIZE of 4 MiB, 24 channels, both
 * directions. */
#define NEIGHBOUR_BYTES (4.0 * 24 * 2 * BYTES_PER_MiB)

static void fill_static_memory(struct step_model *m) {
    const struct scenario *s = m->scenario;
    const struct layout *layout = &s->layout;
    double group = (double)layout->zero_group;
    double shards = layout->zero_stage >= 1 ? group : 1;
    /* Whole between micro-batches, in the precision of the reduction (FSDP's accumulated
     * gradient). */
    const bool whole = step_reduces_once(m);
    double gradient_shards = layout->zero_stage >= 2 && !whole ? group : 1;
    double gradient_bytes = whole ? s->backend->gradient_reduce_bytes : s->backend->gradient_bytes;
    const int64_t communicators =
        (layout->tp > 1) + (layout->cp > 1) + (layout->dp * layout->cp > 1);
    const double neighbour_bytes = layout->pp > 1 ? 2 * NEIGHBOUR_BYTES : 0;
    for (int64_t stage = 0; stage < m->stage_count; stage++) {
        double trainable = (double)m->trainable_rank_parameters[stage];
        double *bytes = m->static_memory[stage].bytes;
        /* ZeRO-3 holds the root unit and up to two blocks whole, and every rank its share in fp32,
         * which is the optimizer's master copy; frozen shares stay as they are. */
        bytes[MEMORY_WEIGHTS] = m->weight_bytes[stage];
        if (layout->zero_stage == 3)
            bytes[MEMORY_WEIGHTS] =
                m->root_bytes + 2 * m->largest_unit_bytes +
                (m->weight_bytes[stage] - m->trainable_weight_bytes[stage]) / group +
                (s->backend->no_master_weights ? m->trainable_weight_bytes[stage] / group : 0);
        bytes[MEMORY_GRADIENTS] =
            trainable * gradient_bytes / gradient_shards + placeholder_bytes(m, stage);
        bytes[MEMORY_OPTIMIZER] = trainable * s->optimizer->state_bytes / shards;
        bytes[MEMORY_COMMUNICATION] =
            s->backend->communicator_bytes * (double)communicators + neighbour_bytes;
        bytes[MEMORY_CONTEXT] = isnan(s->backend->context_bytes)
                                    ? cost_model_gpu(s->cost_model)->reserved_bytes
                                    : s->backend->context_bytes;
    }
}

/* One kernel's stream of bytes, for each call; 0 for none. */
static int64_t moved_ns(const struct step_model *m, struct outer_call call, const char *name,
                        double bytes) {
    const struct communicator alone = { 1, 1, 1, 1 };
    if (bytes <= 0) return 0;
    const struct operator_work work =
        operator_streaming(name, OPERATOR_ELEMENTWISE, PASS_BACKWARD, PRECISION_FP32, bytes);
    return outer_ns(m, call, &work, &alone);
}

static void price_accumulation(struct step_model *m) {
    const struct scenario *s = m->scenario;
    const struct backend *backend = s->backend;
    const bool sharded = s->layout.zero_group > 1,
               gathers = sharded && s->layout.zero_stage == 3,
               reduces = sharded && s->layout.zero_stage >= 2, once = step_reduces_once(m);
    m->reduce_copy_ns = 0;
    for (int64_t part = 0; part < m->part_count; part++) {
        const double all = (double)m->part_parameters[part],
                     trained = (double)m->trainable_part_parameters[part];
        const int64_t stage = part % m->stage_count;
        const struct outer_call each = { OUTER_ACCUMULATION, stage,
                                         (double)s->micro_batches_per_rank, 1 },
                                last = { OUTER_REDUCTION, stage, 1, 1 };
        m->accumulate_ns[part] =
            moved_ns(m, each, "gradient accumulation", trained * backend->accumulate_bytes_moved) +
            moved_ns(m, each, "copies of gathered weights",
                     gathers ? all * backend->gather_copy_bytes : 0);
        const int64_t reduce_ns =
            moved_ns(m, once ? last : each, "copies of reduced gradients",
                     reduces ? trained * backend->reduce_copy_bytes : 0);
        if (once)
            m->reduce_copy_ns += reduce_ns;
        else
            m->accumulate_ns[part] += reduce_ns;
    }
}

static void price_synchronisation(struct step_model *m) {
    const struct scenario *s = m->scenario;
    const struct layout *layout = &s->layout;
    bool sharded_state = layout->zero_stage >= 1 && layout->zero_group > 1;
    struct communicator alone = { 1, 1, 1, 1 },
                        all = layout_communicator(layout, COMMUNICATOR_DATA);
    struct communicator shards = layout_shard_group(layout);
    for (int64_t stage = 0; stage < m->stage_count; stage++) {
        double trainable = (double)m->trainable_rank_parameters[stage];
        double reduced = trainable * s->backend->gradient_reduce_bytes;
        const struct outer_call reduce = { OUTER_REDUCTION, stage, 1, 1 },
                                run = { OUTER_UPDATE, stage, 1, 1 };
        const bool scatters = sharded_state && !s->backend->zero1_all_reduce;
        if (layout->zero_stage <= 1) {
            m->synchronize_ns[stage] =
                scatters ? outer_sharded_reduce_ns(m, reduce, reduced)
                         : outer_collective_ns(m, reduce, OPERATOR_ALL_REDUCE, reduced, &all);
            m->synchronize_moving[stage] = scatters ? outer_reduce_moving(m, reduced)
                                                    : outer_all_reduce_moving(m, reduced, &all);
        }
        double share = sharded_state ? trainable / (double)layout->zero_group : trainable;
        struct operator_work update =
            operator_streaming("optimizer", OPERATOR_OPTIMIZER, PASS_UPDATE, PRECISION_FP32,
                               share * s->optimizer->update_bytes_moved);
        if (trainable > 0) m->optimizer_ns[stage] = outer_ns(m, run, &update, &alone);
        if (sharded_state && layout->zero_stage < 3) {
            m->gather_ns[stage] =
                outer_gather_ns(m, stage, m->trainable_weight_bytes[stage], &shards);
            m->update_moving[stage] = outer_gather_moving(m, m->trainable_weight_bytes[stage]);
        }
        if (layout->zero_stage == 3)
            for (int64_t unit = 0; unit < m->unit_count; unit++)
                m->gather_ns[stage] += outer_block_lists(m, m->unit_layer[unit]).update_ns;
        if (m->optimizer_ns[stage] + m->gather_ns[stage] > m->update_ns)
            m->update_ns = m->optimizer_ns[stage] + m->gather_ns[stage];
    }
}

/* Passes of one part beside which a stage's traffic may hide. Interleaved parts come in turns of as
 * many micro-batches as there are stages: those that have had their last backward, or wait for
 * their first forward, have the turns of the others (Megatron-core, schedules.py and its
 * grad_sync_func and param_sync_func). */
static int64_t passes_beside(const struct step_model *m) {
    if (m->plan->module_count > 0) return 1;
    return 1 + (m->chunk_count - 1) * m->stage_count;
}

/* Overlap goes by buckets of about a layer: the last one has nothing left to hide behind. What
 * hides slows the passes beside it while it moves. */
static int64_t overlapped_ns(const struct step_model *m, int64_t stage, int64_t communication_ns,
                             double moving, int64_t pass_ns) {
    int64_t layers = 0;
    for (int64_t part = stage; part < m->part_count; part += m->stage_count)
        layers += m->plan->first_layer[part + 1] - m->plan->first_layer[part];
    const int64_t beside_ns = pass_ns * passes_beside(m);
    int64_t hidden_ns = communication_ns - communication_ns / layers;
    if (hidden_ns > beside_ns) hidden_ns = beside_ns;
    return communication_ns - hidden_ns +
           llround(m->scenario->backend->data_overlap_cost * moving * (double)hidden_ns);
}

/* The last backward's reductions wait for their blocks, and share the network with its gathers. */
static int64_t exposed_once_ns(const struct step_model *m, int64_t backward_ns) {
    int64_t gather_ns = 0, reduce_ns = m->root_reduce_ns;
    for (int64_t unit = 0; unit < m->unit_count; unit++) {
        gather_ns += m->unit_gather_ns[unit];
        reduce_ns += m->unit_reduce_ns[unit];
    }
    const int64_t last_ns = m->root_reduce_ns + (m->unit_count > 0 ? m->unit_reduce_ns[0] : 0);
    const int64_t beside_ns = backward_ns > gather_ns ? backward_ns - gather_ns : 0;
    int64_t exposed_ns = reduce_ns > beside_ns ? reduce_ns - beside_ns : 0;
    if (exposed_ns < last_ns) exposed_ns = last_ns;
    return exposed_ns +
           llround(m->scenario->backend->overlap_cost * m->reduce_moving *
                   (double)(reduce_ns - exposed_ns));
}

int64_t step_exposed_reduce_ns(const struct step_model *m, int64_t stage, int64_t backward_ns) {
    if (step_reduces_once(m)) return exposed_once_ns(m, backward_ns) + m->reduce_copy_ns;
    int64_t ns = m->synchronize_ns[stage];
    if (!m->scenario->layout.overlap_gradient_reduce) return ns;
    return overlapped_ns(m, stage, ns, m->synchronize_moving[stage], backward_ns);
}

int64_t step_exposed_update_ns(const struct step_model *m, int64_t stage, int64_t forward_ns) {
    int64_t ns = m->gather_ns[stage];
    if (m->scenario->layout.overlap_parameter_gather)
        ns = overlapped_ns(m, stage, ns, m->update_moving[stage], forward_ns);
    return m->optimizer_ns[stage] + ns;
}

/* ZeRO-2 and 3: one unit per transformer block, all else in the root unit. */
static void price_units(struct arena *arena, struct step_model *m) {
    const struct scenario *s = m->scenario;
    const struct model *model = s->model;
    m->sharded = s->layout.zero_stage >= 2;
    if (!m->sharded) return;
    bool gathers = s->layout.zero_stage == 3;
    struct communicator shards = layout_shard_group(&s->layout);
    /* The root is gathered in forward only, other units again in backward. */
    const double passes = (double)s->micro_batches_per_rank;
    const struct outer_call twice = { OUTER_REDUCTION, 0, 2 * passes, 1 },
                            once = { OUTER_REDUCTION, 0, passes, 1 },
                            reduce = { OUTER_REDUCTION, 0, step_reduces_once(m) ? 1 : passes, 1 };
    m->unit_layer = arena_array(arena, int64_t, model->layer_count);
    m->unit_gather_ns = arena_array(arena, int64_t, model->layer_count);
    m->unit_reduce_ns = arena_array(arena, int64_t, model->layer_count);
    double root_gradients = 0, unit_gradients = 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        double parameters = (double)layer_rank_parameters(model, i, s->layout.tp);
        double bytes = 2 * parameters;
        double gradients = model_gradient_need(model, i).weight
                               ? parameters * s->backend->gradient_reduce_bytes
                               : 0;
        enum layer_kind kind = model->layers[i].kind;
        if (!layer_kind_is_block(kind)) {
            m->root_bytes += bytes;
            root_gradients += gradients;
            continue;
        }
        int64_t unit = m->unit_count++;
        m->unit_layer[unit] = i;
        m->largest_unit_bytes = fmax(m->largest_unit_bytes, bytes);
        unit_gradients = fmax(unit_gradients, gradients);
        if (gathers)
            m->unit_gather_ns[unit] =
                outer_collective_ns(m, twice, OPERATOR_ALL_GATHER, bytes, &shards);
        if (gradients > 0) m->unit_reduce_ns[unit] = outer_sharded_reduce_ns(m, reduce, gradients);
    }
    if (gathers)
        m->root_gather_ns =
            outer_collective_ns(m, once, OPERATOR_ALL_GATHER, m->root_bytes, &shards);
    m->gather_moving = outer_gather_moving(m, m->largest_unit_bytes);
    m->reduce_moving = outer_reduce_moving(m, unit_gradients);
    if (root_gradients > 0) m->root_reduce_ns = outer_sharded_reduce_ns(m, reduce, root_gradients);
}

struct step_model *step_model_create(struct arena *arena, const struct scenario *scenario,
                                     const struct job_plan *plan,
                                     const struct price_table *prices) {
    struct step_model *m = arena_new(arena, struct step_model);
    m->scenario = scenario;
    m->plan = plan;
    m->prices = prices;
    m->stage_count = plan->stage_count;
    m->chunk_count = plan->chunk_count;
    m->part_count = plan->part_count;
    ballast_check(m->part_count == m->stage_count * m->chunk_count && m->part_count > 0);
    m->module_count = plan->module_count > 0 ? plan->module_count : 1;
    m->module_of_chunk = arena_array(arena, int64_t, m->chunk_count);
    for (int64_t i = 0; i < plan->module_count; i++)
        for (int64_t c = 0; c < plan->modules[i].chunk_count; c++)
            m->module_of_chunk[plan->modules[i].first_chunk + c] = i;
    m->layers = arena_array(arena, int64_t, m->part_count * LAYER_KIND_COUNT);
    m->recomputing =
        arena_array(arena, int64_t, m->part_count * LAYER_KIND_COUNT * RECOMPUTE_KIND_COUNT);
    m->last_kind = arena_array(arena, enum layer_kind, m->part_count);
    m->part_parameters = arena_array(arena, int64_t, m->part_count);
    m->trainable_part_parameters = arena_array(arena, int64_t, m->part_count);
    m->rank_parameters = arena_array(arena, int64_t, m->stage_count);
    m->trainable_rank_parameters = arena_array(arena, int64_t, m->stage_count);
    m->weight_bytes = arena_array(arena, double, m->stage_count);
    m->trainable_weight_bytes = arena_array(arena, double, m->stage_count);
    m->static_memory = arena_array(arena, struct stage_memory, m->stage_count);
    m->accumulate_ns = arena_array(arena, int64_t, m->part_count);
    m->synchronize_ns = arena_array(arena, int64_t, m->stage_count);
    m->optimizer_ns = arena_array(arena, int64_t, m->stage_count);
    m->gather_ns = arena_array(arena, int64_t, m->stage_count);
    m->synchronize_moving = arena_array(arena, double, m->stage_count);
    m->update_moving = arena_array(arena, double, m->stage_count);
    for (int64_t i = 0; i < scenario->model->layer_count; i++)
        m->has_ruled_layers = m->has_ruled_layers || price_table_of_layer(prices, i) != prices;
    m->offloaded = arena_array(arena, bool, scenario->model->layer_count);
    m->offloading =
        arena_array(arena, int64_t, m->part_count * LAYER_KIND_COUNT * RECOMPUTE_KIND_COUNT);
    count_offloaded(m);
    count_layers(m);
    count_kinds(m);
    price_units(arena, m);
    fill_static_memory(m);
    price_accumulation(m);
    price_synchronisation(m);
    part_kinds_fill(arena, m);
    return m;
}

/* Without anything trainable at or below a layer there is no backward pass for it. */
static bool needs_backward(const struct step_model *m, int64_t part) {
    const struct model *model = m->scenario->model;
    struct gradient_need need = model_gradient_need(model, m->plan->first_layer[part + 1] - 1);
    return need.input || need.weight;
}

bool step_part_has_backward(const struct step_model *m, int64_t part) {
    return needs_backward(m, part);
}

/* Prices all of it once more, into scratch of its own. */
void step_model_record(const struct step_model *model, struct arena *arena,
                       struct outer_list *list) {
    struct step_model scratch = *model;
    scratch.record = list;
    scratch.root_bytes = scratch.largest_unit_bytes = 0;
    scratch.unit_count = scratch.update_ns = 0;
    scratch.accumulate_ns = arena_array(arena, int64_t, model->part_count);
    scratch.synchronize_ns = arena_array(arena, int64_t, model->stage_count);
    scratch.optimizer_ns = arena_array(arena, int64_t, model->stage_count);
    scratch.gather_ns = arena_array(arena, int64_t, model->stage_count);
    scratch.synchronize_moving = arena_array(arena, double, model->stage_count);
    scratch.update_moving = arena_array(arena, double, model->stage_count);
    price_units(arena, &scratch);
    price_accumulation(&scratch);
    price_synchronisation(&scratch);
}

void step_layer_times_again(const struct step_model *m, const struct batch_shape *shape,
                            struct layer_time times[LAYER_KIND_COUNT]) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        if (m->kind_layers[kind] > 0)
            price_table_layer(m->prices, (enum layer_kind)kind, shape, &times[kind]);
}

void step_layer_times(const struct step_model *m, const struct batch_shape *shape,
                      struct layer_time times[LAYER_KIND_COUNT]) {
    memset(times, 0, sizeof *times * LAYER_KIND_COUNT);
    step_layer_times_again(m, shape, times);
}

/* Compute lost to the collectives beside it, of which `exposed_ns` have nothing beside them. */
static double slowed_ns(const struct step_model *m, const struct sharded_pass *pass,
                        double exposed_ns) {
    /* The root is gathered once, in forward. */
    double gather_ns = (double)pass->root_gather_ns, reduce_ns = (double)pass->root_reduce_ns;
    for (int64_t i = 0; i < pass->unit_count; i++) {
        gather_ns += 2 * (double)pass->units[i].gather_ns;
        reduce_ns += (double)pass->units[i].reduce_ns;
    }
    const double whole_ns = gather_ns + reduce_ns, hidden_ns = fmax(whole_ns - exposed_ns, 0);
    if (whole_ns <= 0) return 0;
    const double moving = (gather_ns * m->gather_moving + reduce_ns * m->reduce_moving) / whole_ns;
    return m->scenario->backend->overlap_cost * moving * hidden_ns;
}

static struct offload_time offload_of(const struct step_model *m, double bytes,
                                      const struct layer_time *time, enum recompute_kind how) {
    double rate = cost_model_gpu(m->scenario->cost_model)->pcie_bytes_per_s;
    return offload_time(bytes, rate, time, how);
}

struct offload_time step_offload_time(const struct step_model *m, int64_t layer_index,
                                      const struct layer_time times[LAYER_KIND_COUNT]) {
    if (!m->offloaded[layer_index]) return (struct offload_time){ 0 };
    const struct layer_time *time = &times[m->scenario->model->layers[layer_index].kind];
    const enum recompute_kind how = m->plan->recompute[layer_index];
    return offload_of(m, time->saved_bytes[how], time, how);
}

/* Puts the gathers and reductions of ZeRO-2 and 3 beside the passes, and the wait for slower ranks
 * (times of the slowest rank against the rank's own) into its class. */
static void shard_passes(const struct step_model *m, const struct batch_shape *shape,
                         const struct layer_time *own, const struct layer_time *times,
                         struct stage_cost *cost) {
    const struct model *model = m->scenario->model;
    struct sharded_unit *units = memory_alloc(sizeof *units * (size_t)(m->unit_count + 1));
    const bool reduces = !step_reduces_once(m); /* else step_exposed_reduce_ns() has them */
    struct sharded_pass pass = { .units = units,
                                 .unit_count = m->unit_count,
                                 .root_gather_ns = m->root_gather_ns,
                                 .root_reduce_ns = reduces ? m->root_reduce_ns : 0 };
    int64_t own_ns = cost->forward_ns + cost->backward_ns, forward_ns = 0, backward_ns = 0,
            unit = 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct layer_time *time = &times[model->layers[i].kind];
        struct layer_time ruled;
        const struct price_table *prices = price_table_of_layer(m->prices, i);
        if (prices != m->prices) {
            price_table_layer(prices, model->layers[i].kind, shape, &ruled);
            time = &ruled;
        }
        struct offload_time copies = { 0 };
        const enum recompute_kind how = m->plan->recompute[i];
        if (m->offloaded[i]) {
            const enum layer_kind kind = model->layers[i].kind;
            copies = offload_of(m, own[kind].saved_bytes[how], &times[kind], how);
        }
        int64_t again = time->recompute_ns[m->plan->recompute[i]] + copies.backward_ns;
        forward_ns += time->forward_ns + copies.forward_ns;
        backward_ns += time->backward_ns + again;
        if (unit < m->unit_count && m->unit_layer[unit] == i) {
            /* The device is idle while lists are made, but those of gradients are made beside
             * it. */
            const struct outer_lists lists = outer_block_lists(m, i);
            const int64_t backward = time->backward_ns + again;
            units[unit] = (struct sharded_unit){
                time->forward_ns + copies.forward_ns + lists.forward_ns,
                (backward > lists.reduce_ns ? backward : lists.reduce_ns) + lists.backward_ns,
                m->unit_gather_ns[unit], reduces ? m->unit_reduce_ns[unit] : 0
            };
            unit++;
        } else {
            /* A head stands after the blocks, everything else before them. */
            enum layer_kind kind = model->layers[i].kind;
            struct sharded_unit *root =
                kind == LAYER_HEAD || kind == LAYER_DIFFUSION_HEAD ? &pass.last : &pass.first;
            root->forward_ns += time->forward_ns;
            root->backward_ns += time->backward_ns;
        }
    }
    int64_t tail_ns = m->accumulate_ns[0];
    cost->forward_ns = sharded_forward_ns(&pass);
    cost->backward_ns = sharded_backward_ns(&pass) + tail_ns;
    double exposed =
        (double)(cost->forward_ns + cost->backward_ns - forward_ns - backward_ns - tail_ns);
    const int64_t slowed = llround(slowed_ns(m, &pass, exposed));
    cost->backward_ns += slowed;
    cost->class_ns[TIME_DATA] = exposed + (double)slowed;
    cost->class_ns[TIME_WAIT] = (double)(forward_ns + backward_ns + tail_ns - own_ns);
    free(units);
}

/* `count` layers of one kind, of which recomputing[how] recompute so; negative to take away. */
static void add_layers(enum layer_kind kind, int64_t count,
                       const int64_t recomputing[RECOMPUTE_KIND_COUNT],
                       const struct layer_time *time, double padded, struct stage_cost *cost) {
    int64_t passes_ns = count * (time->forward_ns + time->backward_ns);
    int64_t recompute_ns = 0, recompute_comm_ns = 0;
    int64_t context_ns = count * (time->forward_context_ns + time->backward_context_ns);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        recompute_ns += recomputing[how] * time->recompute_ns[how];
        recompute_comm_ns += recomputing[how] * time->recompute_comm_ns[how];
        context_ns += recomputing[how] * time->recompute_context_ns[how];
    }
    int64_t communication_ns =
        count * (time->forward_comm_ns + time->backward_comm_ns) + recompute_comm_ns;
    cost->forward_ns += count * time->forward_ns;
    cost->backward_ns += count * time->backward_ns + recompute_ns;
    cost->recompute_ns += recompute_ns;

    double useful = layer_kind_axis(kind) == TOKENS_LANGUAGE ? 1 - padded : 1;
    double recompute_alone = (double)(recompute_ns - recompute_comm_ns);
    cost->class_ns[TIME_COMMUNICATION] += useful * (double)(communication_ns - context_ns);
    cost->class_ns[TIME_CONTEXT] += useful * (double)context_ns;
    cost->class_ns[TIME_RECOMPUTE] += useful * recompute_alone;
    cost->class_ns[TIME_COMPUTE] +=
        useful * ((double)(passes_ns + recompute_ns - communication_ns) - recompute_alone);
    cost->class_ns[TIME_PADDING] += (1 - useful) * (double)(passes_ns + recompute_ns);
}

/* FSDP, while a block runs backward: its whole gradient in bf16, and that of the block before it in
 * the precision of the reduction, on its way. */
static double unit_gradient_bytes(const struct step_model *m, enum layer_kind kind) {
    const struct backend *backend = m->scenario->backend;
    const bool whole = m->sharded && m->scenario->layout.zero_stage == 3 && backend->unit_gradients;
    return whole && layer_kind_is_block(kind)
               ? m->largest_unit_bytes / 2 * (2 + backend->gradient_reduce_bytes)
               : 0;
}

static void add_memory(const struct step_model *m, enum layer_kind kind,
                       const struct layer_time *time,
                       const int64_t recomputing[RECOMPUTE_KIND_COUNT], struct stage_cost *cost) {
    double working = time->workspace_bytes;
    cost->workspace_bytes = fmax(cost->workspace_bytes, working);
    /* Frozen with nothing trainable below: no backward, so nothing is kept or recomputed. */
    if (time->backward_ns == 0) return;
    working += unit_gradient_bytes(m, kind);
    cost->workspace_bytes = fmax(cost->workspace_bytes, working);
    double whole = time->saved_bytes[RECOMPUTE_NONE];
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        if (recomputing[how] == 0) continue;
        /* What a block dropped stands there once more while its backward runs. */
        double kept = time->saved_bytes[how];
        cost->activation_bytes += (double)recomputing[how] * kept;
        cost->workspace_bytes = fmax(cost->workspace_bytes, working + whole - kept);
    }
}

/* Blocks in host memory: of all that add_memory() counted, two stand on the GPU at once. */
static void add_offload(const struct step_model *m, int64_t part, enum layer_kind kind,
                        const struct layer_time *time, struct stage_cost *cost) {
    const int64_t *counts = &m->offloading[(part * LAYER_KIND_COUNT + kind) * RECOMPUTE_KIND_COUNT];
    if (time->backward_ns == 0) return;
    double working = time->workspace_bytes;
    double whole = time->saved_bytes[RECOMPUTE_NONE];
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        if (counts[how] == 0) continue;
        struct offload_time exposed =
            offload_of(m, time->saved_bytes[how], time, (enum recompute_kind)how);
        cost->forward_ns += counts[how] * exposed.forward_ns;
        cost->backward_ns += counts[how] * exposed.backward_ns;
        cost->class_ns[TIME_COMMUNICATION] +=
            (double)(counts[how] * (exposed.forward_ns + exposed.backward_ns));
        double kept = time->saved_bytes[how];
        int64_t buffers = counts[how] < OFFLOAD_BUFFER_COUNT ? counts[how] : OFFLOAD_BUFFER_COUNT;
        cost->activation_bytes -= (double)counts[how] * kept;
        cost->workspace_bytes =
            fmax(cost->workspace_bytes, working + whole - kept + (double)buffers * kept);
    }
}

/* Blocks that a rule names take their own time instead of their kind's. */
static void replace_ruled_layers(const struct step_model *m, int64_t part,
                                 const struct batch_shape *shape,
                                 const struct layer_time times[LAYER_KIND_COUNT], double padded,
                                 struct stage_cost *cost) {
    for (int64_t i = m->plan->first_layer[part]; i < m->plan->first_layer[part + 1]; i++) {
        const struct price_table *prices = price_table_of_layer(m->prices, i);
        if (prices == m->prices) continue;
        enum layer_kind kind = m->scenario->model->layers[i].kind;
        struct layer_time time;
        price_table_layer(prices, kind, shape, &time);
        int64_t again[RECOMPUTE_KIND_COUNT] = { 0 };
        again[m->plan->recompute[i]] = -1;
        add_layers(kind, -1, again, &times[kind], padded, cost);
        again[m->plan->recompute[i]] = 1;
        add_layers(kind, 1, again, &time, padded, cost);
    }
}

static bool is_block(enum layer_kind kind) {
    return kind == LAYER_VISION_BLOCK || kind == LAYER_LANGUAGE_BLOCK ||
           kind == LAYER_DIFFUSION_BLOCK;
}

/* The kind of the part's blocks, and how many; a modality-aware plan has one kind a part. */
static int64_t block_count(const struct step_model *m, int64_t part, enum layer_kind *kind) {
    int64_t count = 0;
    for (int k = 0; k < LAYER_KIND_COUNT; k++)
        if (is_block((enum layer_kind)k) && m->layers[part * LAYER_KIND_COUNT + k] > 0) {
            *kind = (enum layer_kind)k;
            count = m->layers[part * LAYER_KIND_COUNT + k];
        }
    return count;
}

static const int16_t *chosen_blocks(const struct pass_choice *choice) {
    int64_t sum = 0;
    for (int how = 0; choice != NULL && how < RECOMPUTE_KIND_COUNT; how++)
        sum += choice->blocks[how];
    return sum > 0 ? choice->blocks : NULL;
}

int64_t step_unit_count(const struct step_model *m, int64_t module,
                        const struct batch_shape *shape) {
    const struct plan_module *planned = &m->plan->modules[module];
    if (planned->sub_batch <= 0) return 1;
    if (planned->clips) return (shape->video_clips + planned->sub_batch - 1) / planned->sub_batch;
    if (shape->vision_tiles == 0) return shape->vision_tokens > 0; /* of unknown images: whole */
    return (shape->vision_tiles + planned->sub_batch - 1) / planned->sub_batch;
}

void step_block_options(const struct step_model *m, int64_t part,
                        const struct layer_time times[LAYER_KIND_COUNT], struct pass_cost *pass) {
    enum layer_kind kind = LAYER_VISION_BLOCK;
    pass->blocks = block_count(m, part, &kind);
    if (pass->blocks == 0) return;
    const struct layer_time *time = &times[kind];
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        pass->recompute_ns[how] = time->recompute_ns[how];
        pass->block_bytes[how] = time->backward_ns > 0 ? time->saved_bytes[how] : 0;
    }
}

void step_planned_blocks(const struct step_model *m, int64_t part, struct pass_choice *blocks) {
    enum layer_kind kind = LAYER_VISION_BLOCK;
    *blocks = (struct pass_choice){ { 0 } };
    if (block_count(m, part, &kind) == 0) return;
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        blocks->blocks[how] =
            (int16_t)m->recomputing[(part * LAYER_KIND_COUNT + kind) * RECOMPUTE_KIND_COUNT + how];
}

double step_choice_flop(const struct step_model *m, int64_t part,
                        const struct layer_time times[LAYER_KIND_COUNT],
                        const struct pass_choice *choice) {
    enum layer_kind kind = LAYER_VISION_BLOCK;
    const int16_t *chosen = chosen_blocks(choice);
    if (chosen == NULL || block_count(m, part, &kind) == 0) return 0;
    const int64_t *planned =
        &m->recomputing[(part * LAYER_KIND_COUNT + kind) * RECOMPUTE_KIND_COUNT];
    double flop = 0;
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        flop += (double)(chosen[how] - planned[how]) * times[kind].recompute_flop[how];
    return flop;
}

double step_activation_capacity(const struct step_model *m, int64_t stage) {
    const struct stage_memory *memory = &m->static_memory[stage];
    double outside = memory->bytes[MEMORY_COMMUNICATION] + memory->bytes[MEMORY_CONTEXT];
    double hbm = cost_model_gpu(m->scenario->cost_model)->hbm_bytes;
    return (hbm - outside) / (1 + m->scenario->backend->reserved_fraction) -
           stage_memory_allocated(memory);
}

static int64_t send_ns(const struct step_model *m, int64_t stage, const struct layer_time *time) {
    return time->send_ns != NULL ? time->send_ns[price_table_link(m->prices, stage)] : 0;
}

void step_stage_cost(const struct step_model *m, int64_t part, const struct batch_shape *shape,
                     const struct layer_time times[LAYER_KIND_COUNT],
                     const struct layer_time locked[LAYER_KIND_COUNT], struct stage_cost *cost) {
    step_stage_cost_as(m, part, shape, times, locked, NULL, cost);
}

void step_stage_sends(const struct step_model *m, int64_t part,
                      const struct layer_time times[LAYER_KIND_COUNT], struct stage_cost *cost) {
    cost->send_forward_ns = cost->send_backward_ns = 0;
    if (part + 1 < m->part_count)
        cost->send_forward_ns = send_ns(m, part % m->stage_count, &times[m->last_kind[part]]);
    /* The gradient of what the part before sent goes back over the same link. */
    if (part > 0 && needs_backward(m, part - 1))
        cost->send_backward_ns =
            send_ns(m, (part - 1) % m->stage_count, &times[m->last_kind[part - 1]]);
}

void step_stage_cost_as(const struct step_model *m, int64_t part, const struct batch_shape *shape,
                        const struct layer_time times[LAYER_KIND_COUNT],
                        const struct layer_time locked[LAYER_KIND_COUNT],
                        const struct pass_choice *choice, struct stage_cost *cost) {
    *cost = (struct stage_cost){ 0 };
    const int16_t *chosen = chosen_blocks(choice);
    double padded = shape->language_tokens > 0
                        ? 1 - (double)shape->useful_language_tokens / (double)shape->language_tokens
                        : 0;
    for (const enum layer_kind *at = &m->kinds[part * PART_KINDS]; *at != LAYER_KIND_COUNT; at++) {
        const enum layer_kind kind = *at;
        const int64_t row = part * LAYER_KIND_COUNT + kind,
                      *recomputing = &m->recomputing[row * RECOMPUTE_KIND_COUNT];
        int64_t own[RECOMPUTE_KIND_COUNT];
        if (chosen != NULL && is_block(kind)) {
            for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
                own[how] = chosen[how];
            recomputing = own;
        }
        add_layers(kind, m->layers[row], recomputing, &times[kind], padded, cost);
        add_memory(m, kind, &times[kind], recomputing, cost);
        if (m->scenario->training_fields.offload_blocks > 0)
            add_offload(m, part, kind, &times[kind], cost);
    }
    if (m->has_ruled_layers) replace_ruled_layers(m, part, shape, times, padded, cost);
    cost->backward_ns += m->accumulate_ns[part];
    cost->class_ns[TIME_COMPUTE] += (double)m->accumulate_ns[part];
    if (m->sharded) shard_passes(m, shape, times, locked != NULL ? locked : times, cost);
    step_stage_sends(m, part, times, cost);
}
