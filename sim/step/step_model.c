/* step_model.c - what a plan costs per stage: layer counts, accumulation, synchronisation.
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
#include "sim/step/static_memory.h"

/* Bytes that a parameter of the layer has less where it is gathered as it was cast, in fp8. */
static double gather_saves(const struct step_model *m, int64_t layer_index) {
    const struct model *model = m->scenario->model;
    const struct layer *layer = &model->layers[layer_index];
    const bool as_cast = layer_kind_is_block(layer->kind) &&
                         model->modules[layer->module_index].precision == PRECISION_FP8;
    return as_cast && scenario_gathers_cast(m->scenario) ? m->scenario->backend->fp8_gather_saves
                                                         : 0;
}

enum { WEIGHT_BYTES = 2, CAST_BYTES = 2 }; /* gathered; of a frozen weight's 16-bit copy */

/* fp8 recipes keep bf16 weights and cast them: only fp32 takes more. Frozen weights that autocast
 * casts are there in 16 bits as well, from the forward pass to the backward, but for an embedding's,
 * which is looked up, and those of blocks that run their forward again. */
static double weight_bytes(const struct step_model *m, int64_t layer_index) {
    const struct model *model = m->scenario->model;
    const struct layer *layer = &model->layers[layer_index];
    const struct module *module = &model->modules[layer->module_index];
    const bool kept =
        layer->kind != LAYER_TOKEN_EMBEDDING && m->plan->recompute[layer_index] != RECOMPUTE_FULL;
    if (precision_is_single(module->precision)) return 4;
    return !module->fp32_base ? 2 : kept ? 4 + CAST_BYTES : 4;
}

static int64_t stage_of_layer(const struct step_model *m, int64_t layer) {
    int64_t part = 0;
    while (m->plan->first_layer[part + 1] <= layer)
        part++;
    return part % m->stage_count;
}

const struct rank_parameters *step_layer_parameters(const struct step_model *m, int64_t layer) {
    return price_table_parameters(m->prices, m->scenario->model->layers[layer].kind);
}

struct gradient_need step_layer_need(const struct step_model *m, int64_t layer) {
    return price_table_need(m->prices, m->scenario->model->layers[layer].kind);
}

/* A tied head has a copy of the table where the token embedding is on another stage; beside it both
 * are one parameter, with one gradient and one state (Megatron-LM's
 * share_embeddings_and_output_weights, Transformers' tie_weights). */
static int64_t held_parameters(const struct step_model *m, int64_t layer) {
    const struct model *model = m->scenario->model;
    const struct rank_parameters *held = step_layer_parameters(m, layer);
    if (held->tied == 0) return held->own;
    int64_t table = 0;
    while (model->layers[table].kind != LAYER_TOKEN_EMBEDDING)
        table++;
    return stage_of_layer(m, table) == stage_of_layer(m, layer) ? held->own - held->tied
                                                                : held->own;
}

static double trained_parameters(const struct step_model *m, int64_t layer) {
    return (double)(step_layer_need(m, layer).weight ? held_parameters(m, layer)
                                                     : step_layer_parameters(m, layer)->adapters);
}

static void count_adapters(struct step_model *m, int64_t part, int64_t layer) {
    const int64_t stage = part % m->stage_count,
                  parameters = step_layer_parameters(m, layer)->adapters;
    /* their own casts are nothing beside the frozen ones' */
    const double bytes = (double)parameters * fmin(weight_bytes(m, layer), 4);
    m->rank_parameters[stage] += parameters;
    m->part_parameters[part] += parameters;
    m->weight_bytes[stage] += bytes;
    m->trainable_rank_parameters[stage] += parameters;
    m->trainable_part_parameters[part] += parameters;
    m->trainable_weight_bytes[stage] += bytes;
    m->gathered_bytes[stage] += bytes;
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
            int64_t parameters = held_parameters(m, i);
            /* a tied head casts the table that the embedding holds */
            const int64_t tied = step_layer_parameters(m, i)->own - parameters;
            const double bytes =
                (double)parameters * weight_bytes(m, i) +
                (model->modules[model->layers[i].module_index].fp32_base ? CAST_BYTES * (double)tied
                                                                         : 0);
            m->rank_parameters[stage] += parameters;
            m->part_parameters[part] += parameters;
            m->part_gather_saves[part] += gather_saves(m, i) * (double)parameters;
            m->weight_bytes[stage] += bytes;
            count_adapters(m, part, i);
            const bool trains = step_layer_need(m, i).weight;
            if (trains || m->scenario->backend->gathers_once)
                m->gathered_bytes[stage] += bytes - gather_saves(m, i) * (double)parameters;
            if (!trains) continue;
            m->trainable_rank_parameters[stage] += parameters;
            m->trainable_weight_bytes[stage] += bytes;
            m->trainable_part_parameters[part] += parameters;
        }
    }
}

/* The first blocks of each part are offloaded. */
static void set_offload_windows(struct step_model *m) {
    const struct model *model = m->scenario->model;
    const int64_t wanted = m->scenario->training_fields.offload_blocks;
    for (int64_t part = 0; part < m->part_count; part++) {
        const int64_t begin = m->plan->first_layer[part], end = m->plan->first_layer[part + 1];
        int64_t blocks = 0, index = 0;
        for (int64_t i = begin; i < end; i++)
            blocks += layer_kind_is_block(model->layers[i].kind);
        const int64_t offloaded = wanted < blocks ? wanted : blocks;
        for (int64_t i = begin; i < end && index < offloaded; i++)
            if (layer_kind_is_block(model->layers[i].kind))
                m->offload_window[i] = offload_window(blocks, offloaded, index++);
    }
}

static void count_kinds(struct step_model *m) {
    const struct model *model = m->scenario->model;
    for (int64_t i = 0; i < model->layer_count; i++) {
        struct gradient_need need = step_layer_need(m, i);
        m->kind_layers[model->layers[i].kind] += 1;
        if (need.input || need.weight)
            m->kind_recomputing[model->layers[i].kind][m->plan->recompute[i]] += 1;
    }
}

bool step_reduces_once(const struct step_model *m) {
    return m->scenario->backend->step.reduces_once && scenario_accumulates_shards(m->scenario);
}

/* Sharded weights come block by block in each forward: FSDP keeps as ZeRO-2 what it gathered until
 * that micro-batch's backward has used it (reshard_after_forward off, SHARD_GRAD_OP), under no_sync
 * until the step's last. DeepSpeed's ZeRO-2 gathers after the update. */
static bool gathers_in_forward(const struct step_model *m) {
    const struct scenario *s = m->scenario;
    return s->layout.zero_stage == 3 || (s->layout.zero_stage == 2 && s->backend->unit_gradients &&
                                         !s->backend->gathers_once && !step_reduces_once(m));
}

/* Per parameter and micro-batch. Where nothing is stated, PyTorch's autograd adds each gradient but
 * the first to the one that it keeps (AccumulateGrad), if that is whole until the last micro-batch;
 * beside a pipeline FSDP casts the first to the reduction's precision (_fsdp_param.py,
 * to_accumulated_grad_if_needed). */
static double accumulated_bytes(const struct step_model *m, bool reduces_each) {
    const struct scenario *s = m->scenario;
    const struct backend *backend = s->backend;
    if (backend->accumulate_bytes_moved > 0) return backend->accumulate_bytes_moved;
    if (backend->adds_in_matmul || reduces_each) return 0;
    const double micro_batches = (double)s->micro_batches_per_rank,
                 made = precision_is_single(s->main_precision) ? 4 : 2,
                 reduced = backend->unit_gradients ? backend->gradient_reduce_bytes : made,
                 first = backend->gathers_once && reduced != made ? made + reduced : 0;
    return (first + (made + 2 * reduced) * (micro_batches - 1)) / micro_batches;
}

static void price_accumulation(struct step_model *m) {
    const struct scenario *s = m->scenario;
    const struct backend *backend = s->backend;
    const bool sharded = s->layout.zero_group > 1, reduces = sharded && s->layout.zero_stage >= 2,
               once = step_reduces_once(m);
    /* ZeRO-3 gathers in forward and in backward; FSDP2 as ZeRO-2 keeps until then what it
     * gathered, DeepSpeed's ZeRO-2 gathers after the update alone. */
    const double gather_copies = !reduces                    ? 0
                                 : s->layout.zero_stage == 3 ? 1
                                 : backend->unit_gradients   ? 0.5
                                                             : 0;
    m->reduce_copy_ns = 0;
    for (int64_t part = 0; part < m->part_count; part++) {
        const double gathered = (double)m->part_parameters[part] -
                                m->part_gather_saves[part] / WEIGHT_BYTES,
                     trained = (double)m->trainable_part_parameters[part];
        const int64_t stage = part % m->stage_count;
        const struct outer_call each = { OUTER_ACCUMULATION, stage,
                                         (double)s->micro_batches_per_rank, 1 },
                                last = { OUTER_REDUCTION, stage, 1, 1 };
        m->accumulate_ns[part] =
            outer_moved_ns(m, each, PASS_BACKWARD, "gradient accumulation",
                           trained * accumulated_bytes(m, reduces && !once)) +
            outer_moved_ns(m, each, PASS_BACKWARD, "copies of gathered weights",
                           gather_copies * gathered * backend->step.gather_copy_bytes);
        const int64_t reduce_ns =
            outer_moved_ns(m, once ? last : each, PASS_BACKWARD, "copies of reduced gradients",
                           reduces ? trained * backend->step.reduce_copy_bytes : 0);
        if (once)
            m->reduce_copy_ns += reduce_ns;
        else
            m->accumulate_ns[part] += reduce_ns;
    }
}

static int64_t whole_reduction_ns(const struct step_model *m, struct outer_call call,
                                  double bytes) {
    return outer_shards_reduction_ns(m, call, bytes) + outer_replicas_reduction_ns(m, call, bytes);
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
        const struct muon_stage *muon = &m->muon[stage];
        const struct outer_call reduce = { OUTER_REDUCTION, stage, 1, 1 },
                                run = { OUTER_UPDATE, stage, 1, 1 };
        const bool scatters = sharded_state && !s->backend->zero1_all_reduce;
        const double filling = scatters ? muon->padded - muon->parameters : 0,
                     reduced = (trainable + filling) * s->backend->gradient_reduce_bytes;
        if (layout->zero_stage <= 1) {
            m->synchronize_ns[stage] =
                scatters ? whole_reduction_ns(m, reduce, reduced)
                         : outer_collective_ns(m, reduce, OPERATOR_ALL_REDUCE, reduced, &all);
            m->synchronize_moving[stage] = scatters ? outer_reduce_moving(m, reduced)
                                                    : outer_all_reduce_moving(m, reduced, &all);
        }
        const double by_kernel = trainable - muon->parameters,
                     share = sharded_state ? by_kernel / (double)layout->zero_group : by_kernel;
        struct operator_work update =
            operator_streaming("optimizer", OPERATOR_OPTIMIZER, PASS_UPDATE, PRECISION_FP32,
                               share * s->optimizer->update_bytes_moved);
        if (by_kernel > 0) m->optimizer_ns[stage] = outer_ns(m, run, &update, &alone);
        m->optimizer_ns[stage] += muon_update_ns(m, stage, muon);
        if (layout->dp > 1 && layout->zero_stage <= 1)
            m->optimizer_ns[stage] += outer_moved_ns(
                m, run, PASS_BACKWARD, "passes over whole gradients",
                trainable * s->backend->step.gradient_passes * s->backend->gradient_bytes);
        m->optimizer_ns[stage] += outer_host_ns(m, stage);
        if (sharded_state && !gathers_in_forward(m)) {
            const double gathered = m->gathered_bytes[stage] +
                                    (layout->zero_stage == 1 ? muon_gather_bytes(m, muon) : 0);
            m->gather_ns[stage] = outer_gather_ns(m, stage, gathered, &shards);
            m->update_moving[stage] = outer_gather_moving(m, gathered);
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

/* Parameters of a full bucket; 0 where buckets are of about a layer, as FSDP's units are. */
static double full_bucket(const struct step_model *m) {
    const struct stack_step *step = &m->scenario->backend->step;
    const struct layout *layout = &m->scenario->layout;
    if (m->scenario->backend->unit_gradients) return 0;
    const double ranks = (double)(layout->dp * layout->cp);
    return fmax(step->reduce_bucket_parameters, step->reduce_bucket_rank_parameters * ranks);
}

/* Buckets are filled from a part's last layer to its first, so the last one has what full ones
 * leave of the blocks, and the token embedding: one tensor, whose gradient comes last of all. */
static double last_bucket(const struct step_model *m, int64_t part) {
    const int64_t first = m->plan->first_layer[part];
    const double trained = (double)m->trainable_part_parameters[part];
    const bool embeds = first < m->plan->first_layer[part + 1] &&
                        m->scenario->model->layers[first].kind == LAYER_TOKEN_EMBEDDING &&
                        step_layer_need(m, first).weight;
    const double table = embeds ? (double)held_parameters(m, first) : 0;
    const double rest = fmod(trained - table, full_bucket(m));
    return rest + table > 0 ? rest + table : fmin(full_bucket(m), trained);
}

/* What goes last of a stage's traffic, with nothing left to hide behind. Megatron-core divides the
 * first part of the first stage alone: others reduce while that one still computes. */
static int64_t last_bucket_ns(const struct step_model *m, int64_t stage, int64_t communication_ns) {
    if (full_bucket(m) > 0) {
        const bool whole = stage > 0 && m->scenario->backend->step.first_stage_buckets;
        const double last =
            whole ? (double)m->trainable_part_parameters[stage] : last_bucket(m, stage);
        const double all = (double)m->trainable_rank_parameters[stage];
        return all > 0 ? llround((double)communication_ns * last / all) : communication_ns;
    }
    int64_t layers = 0;
    for (int64_t part = stage; part < m->part_count; part += m->stage_count)
        layers += m->plan->first_layer[part + 1] - m->plan->first_layer[part];
    return communication_ns / layers;
}

/* Overlap goes by buckets. What hides slows the passes beside it while it moves. */
static int64_t overlapped_ns(const struct step_model *m, int64_t stage, int64_t communication_ns,
                             double moving, int64_t pass_ns) {
    const int64_t beside_ns = pass_ns * passes_beside(m);
    int64_t hidden_ns = communication_ns - last_bucket_ns(m, stage, communication_ns);
    if (hidden_ns > beside_ns) hidden_ns = beside_ns;
    return communication_ns - hidden_ns +
           llround(m->scenario->backend->step.data_overlap_cost * moving * (double)hidden_ns);
}

/* The last backward's reductions wait for their blocks, and share the network with its gathers. */
static int64_t exposed_once_ns(const struct step_model *m, int64_t backward_ns) {
    int64_t gather_ns = 0, reduce_ns = m->root_reduce_ns;
    for (int64_t unit = 0; unit < m->unit_count; unit++) {
        gather_ns += m->unit_again_ns[unit];
        reduce_ns += m->unit_reduce_ns[unit];
    }
    const int64_t last_ns = m->root_reduce_ns + (m->unit_count > 0 ? m->unit_reduce_ns[0] : 0);
    const int64_t beside_ns = backward_ns > gather_ns ? backward_ns - gather_ns : 0;
    int64_t exposed_ns = reduce_ns > beside_ns ? reduce_ns - beside_ns : 0;
    if (exposed_ns < last_ns) exposed_ns = last_ns;
    return exposed_ns + llround(m->scenario->backend->step.overlap_cost * m->reduce_moving *
                                (double)(reduce_ns - exposed_ns));
}

int64_t step_exposed_reduce_ns(const struct step_model *m, int64_t stage, int64_t backward_ns) {
    if (step_reduces_once(m)) return exposed_once_ns(m, backward_ns) + m->reduce_copy_ns;
    int64_t ns = m->synchronize_ns[stage];
    if (!m->scenario->layout.overlap_gradient_reduce) return ns;
    return overlapped_ns(m, stage, ns, m->synchronize_moving[stage], backward_ns);
}

/* What a stage's gather adds to the wait for its first forward. Where all stages begin to gather at
 * once, a later one waits anyway while those before it run theirs. Where each begins when the
 * activations are there, it delays all stages behind it. */
static int64_t exposed_gather_ns(const struct step_model *m, int64_t stage, int64_t forward_ns) {
    const struct backend *backend = m->scenario->backend;
    const int64_t ns =
        overlapped_ns(m, stage, m->gather_ns[stage], m->update_moving[stage], forward_ns);
    if (stage == 0 || !backend->step.first_stage_buckets) return ns;
    if (backend->step.gathers_at_forward && backend->send_blocks_host) {
        int64_t waits_ns = last_bucket_ns(m, 0, m->gather_ns[0]);
        for (int64_t i = 1; i <= stage; i++)
            waits_ns += m->gather_ns[i];
        return waits_ns;
    }
    return ns > stage * forward_ns ? ns - stage * forward_ns : 0;
}

int64_t step_exposed_update_ns(const struct step_model *m, int64_t stage, int64_t forward_ns) {
    int64_t ns = m->gather_ns[stage];
    const struct layout *layout = &m->scenario->layout;
    /* ZeRO-3 gathers in the passes; what its update does with lists of shards hides behind none. */
    if (layout->zero_stage < 3 && (layout->overlap_parameter_gather ||
                                   backend_always_hides(m->scenario->backend, layout->zero_stage)))
        ns = exposed_gather_ns(m, stage, forward_ns);
    return m->optimizer_ns[stage] + ns;
}

/* DeepSpeed's ZeRO-2 reduces buckets: each goes with the block that fills it, what is left at the
 * first block with the root unit. */
static void join_buckets(struct step_model *m) {
    const double full = full_bucket(m);
    if (m->scenario->layout.zero_stage != 2 || full <= 0) return;
    double filled = 0;
    int64_t waiting_ns = 0;
    for (int64_t unit = m->unit_count - 1; unit >= 0; unit--) {
        filled += trained_parameters(m, m->unit_layer[unit]);
        waiting_ns += m->unit_reduce_ns[unit];
        m->unit_reduce_ns[unit] = filled >= full ? waiting_ns : 0;
        if (filled < full) continue;
        filled = fmod(filled, full);
        waiting_ns = 0;
    }
    m->root_reduce_ns += waiting_ns;
}

/* ZeRO-2 and 3: one unit per transformer block, all else in the root unit. */
static void price_units(struct arena *arena, struct step_model *m) {
    const struct scenario *s = m->scenario;
    const struct model *model = s->model;
    m->sharded = s->layout.zero_stage >= 2;
    if (!m->sharded) return;
    const bool gathers = gathers_in_forward(m), twice_gathered = s->layout.zero_stage == 3;
    struct communicator shards = layout_shard_group(&s->layout);
    /* The root is gathered in forward only; under ZeRO-3 units that have a backward again in it. */
    const double passes = (double)s->micro_batches_per_rank;
    const struct outer_call twice = { OUTER_REDUCTION, 0, 2 * passes, 1 },
                            once = { OUTER_REDUCTION, 0, passes, 1 },
                            reduce = { OUTER_REDUCTION, 0, step_reduces_once(m) ? 1 : passes, 1 };
    m->unit_layer = arena_array(arena, int64_t, model->layer_count);
    m->unit_gather_ns = arena_array(arena, int64_t, model->layer_count);
    m->unit_again_ns = arena_array(arena, int64_t, model->layer_count);
    m->unit_reduce_ns = arena_array(arena, int64_t, model->layer_count);
    double root_gradients = 0, unit_gradients = 0, last_gradients = 0, root_gathered = 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        double parameters = (double)held_parameters(m, i);
        const double bytes = weight_bytes(m, i) * parameters;
        const double trained = trained_parameters(m, i);
        double gradients = trained * s->backend->gradient_reduce_bytes;
        enum layer_kind kind = model->layers[i].kind;
        if (!layer_kind_is_block(kind)) {
            m->root_bytes += bytes;
            if (kind != LAYER_HEAD || !outer_gathers_head(m)) root_gathered += bytes;
            root_gradients += gradients;
            continue;
        }
        int64_t unit = m->unit_count++;
        m->unit_layer[unit] = i;
        const double gathered = bytes - gather_saves(m, i) * parameters;
        m->unit_bytes = fmax(m->unit_bytes, gathered);
        unit_gradients = fmax(unit_gradients, gradients);
        if (twice_gathered && gradients > 0 && s->backend->unit_gradients)
            m->unit_gradient_bytes =
                fmax(m->unit_gradient_bytes, weight_bytes(m, i) * trained + gradients);
        const struct gradient_need need = step_layer_need(m, i);
        const bool again = twice_gathered && (need.input || need.weight);
        if (gathers)
            m->unit_gather_ns[unit] = outer_collective_ns(m, again ? twice : once,
                                                          OPERATOR_ALL_GATHER, gathered, &shards);
        if (again) m->unit_again_ns[unit] = m->unit_gather_ns[unit];
        if (gradients <= 0) continue;
        m->unit_reduce_ns[unit] = outer_shards_reduction_ns(m, reduce, gradients);
        if (s->backend->step.reduces_replicas_last)
            last_gradients += gradients;
        else
            m->unit_reduce_ns[unit] += outer_replicas_reduction_ns(m, reduce, gradients);
    }
    if (gathers)
        m->root_gather_ns =
            outer_collective_ns(m, once, OPERATOR_ALL_GATHER, root_gathered, &shards);
    m->gather_moving = outer_gather_moving(m, m->unit_bytes);
    m->reduce_moving = outer_reduce_moving(m, unit_gradients);
    /* combined, not block by block */
    if (last_gradients > 0)
        m->root_reduce_ns += outer_replicas_reduction_ns(m, reduce, last_gradients);
    if (root_gradients > 0) m->root_reduce_ns += whole_reduction_ns(m, reduce, root_gradients);
    join_buckets(m);
}

struct step_model *step_model_create(struct arena *arena, const struct scenario *scenario,
                                     const struct job_plan *plan,
                                     const struct price_table *prices) {
    struct step_model *m = arena_new(arena, struct step_model);
    m->scenario = scenario;
    m->plan = plan;
    m->prices = prices;
    m->slow_factor = 1;
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
    m->part_gather_saves = arena_array(arena, double, m->part_count);
    m->trainable_part_parameters = arena_array(arena, int64_t, m->part_count);
    m->rank_parameters = arena_array(arena, int64_t, m->stage_count);
    m->trainable_rank_parameters = arena_array(arena, int64_t, m->stage_count);
    m->weight_bytes = arena_array(arena, double, m->stage_count);
    m->trainable_weight_bytes = arena_array(arena, double, m->stage_count);
    m->gathered_bytes = arena_array(arena, double, m->stage_count);
    m->static_memory = arena_array(arena, struct stage_memory, m->stage_count);
    m->late_gradient_bytes = arena_array(arena, double, m->stage_count);
    m->gathered_weight_bytes = arena_array(arena, double, m->stage_count);
    m->update_bytes = arena_array(arena, double, m->stage_count);
    m->muon = arena_array(arena, struct muon_stage, m->stage_count);
    m->accumulate_ns = arena_array(arena, int64_t, m->part_count);
    m->synchronize_ns = arena_array(arena, int64_t, m->stage_count);
    m->optimizer_ns = arena_array(arena, int64_t, m->stage_count);
    m->gather_ns = arena_array(arena, int64_t, m->stage_count);
    m->synchronize_moving = arena_array(arena, double, m->stage_count);
    m->update_moving = arena_array(arena, double, m->stage_count);
    for (int64_t i = 0; i < scenario->model->layer_count; i++)
        m->has_ruled_layers = m->has_ruled_layers || price_table_of_layer(prices, i) != prices;
    m->offload_window = arena_array(arena, int64_t, scenario->model->layer_count);
    set_offload_windows(m);
    count_layers(m);
    for (int64_t stage = 0; stage < m->stage_count; stage++)
        muon_stage_fill(m, stage, &m->muon[stage]);
    count_kinds(m);
    price_units(arena, m);
    m->head_gather_ns = outer_head_gather_ns(m, 1);
    step_fill_static_memory(m);
    price_accumulation(m);
    price_synchronisation(m);
    part_kinds_fill(arena, m);
    return m;
}

/* Prices all of it once more, into scratch of its own. */
void step_model_record(const struct step_model *model, struct arena *arena,
                       struct outer_list *list) {
    struct step_model scratch = *model;
    scratch.record = list;
    scratch.root_bytes = scratch.unit_bytes = scratch.unit_gradient_bytes = 0;
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
