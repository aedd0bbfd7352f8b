/* step_model.c - what a plan costs per stage: layer counts, static memory, synchronisation.
 *
 * Gradient synchronisation (per stage, over its data-parallel group): ZeRO-0, and ZeRO-1 in
 * backends that reduce whole gradients, all-reduce; other ZeRO-1 reduce-scatter. Then each rank
 * updates its share, and under ZeRO-1 the bf16 parameters are gathered. A global gradient norm
 * makes every stage wait for the slowest before the update.
 */
#include "sim/step/step.h"

#include <math.h>

#include "sim/base/units.h"

/* What PyTorch's caching allocator reserves beyond what is allocated: the one public run that logs
 * both (nanotron Llama 1B, TP2 PP4 on 8 H100: 23,018 against 22,493 MiB). Its shapes are fixed;
 * varying shapes fragment more, by how much is not known here. */
#define FRAGMENTATION_SHARE 0.023
/* NCCL allocates NCCL_BUFFSIZE (4 MiB) per channel and neighbour; 24 channels and 2 neighbours are
 * assumed for each communicator. */
#define COMMUNICATOR_BYTES (4.0 * 24 * 2 * BYTES_PER_MiB)

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

void stage_memory_add_fragmentation(struct stage_memory *memory) {
    memory->bytes[MEMORY_FRAGMENTATION] = FRAGMENTATION_SHARE * stage_memory_allocated(memory);
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
            if (m->plan->recompute[i]) m->recomputing[part * LAYER_KIND_COUNT + kind]++;
            m->last_kind[part] = kind;
            int64_t parameters = layer_rank_parameters(model, i, m->scenario->layout.tp);
            /* fp8 recipes keep bf16 weights and cast them: only fp32 takes more. */
            bool whole = model->modules[model->layers[i].module_index].precision == PRECISION_FP32;
            double bytes = (double)parameters * (whole ? 4 : 2);
            m->rank_parameters[stage] += parameters;
            m->weight_bytes[stage] += bytes;
            if (!model_gradient_need(model, i).weight) continue;
            m->trainable_rank_parameters[stage] += parameters;
            m->trainable_weight_bytes[stage] += bytes;
            m->trainable_part_parameters[part] += parameters;
        }
    }
}

static void count_kinds(struct step_model *m) {
    const struct model *model = m->scenario->model;
    for (int64_t i = 0; i < model->layer_count; i++) {
        struct gradient_need need = model_gradient_need(model, i);
        m->kind_layers[model->layers[i].kind] += 1;
        if (m->plan->recompute[i] && (need.input || need.weight))
            m->kind_recomputing[model->layers[i].kind] += 1;
    }
}

static void fill_static_memory(struct step_model *m) {
    const struct scenario *s = m->scenario;
    const struct layout *layout = &s->layout;
    double shards = layout->zero_stage >= 1 ? (double)(layout->dp * layout->cp) : 1;
    int64_t communicators = (layout->tp > 1) + (layout->dp > 1) + 2 * (layout->pp > 1);
    for (int64_t stage = 0; stage < m->stage_count; stage++) {
        double trainable = (double)m->trainable_rank_parameters[stage];
        double *bytes = m->static_memory[stage].bytes;
        bytes[MEMORY_WEIGHTS] = m->weight_bytes[stage];
        bytes[MEMORY_GRADIENTS] = trainable * (double)s->backend->gradient_bytes;
        bytes[MEMORY_OPTIMIZER] = trainable * s->optimizer->state_bytes / shards;
        bytes[MEMORY_COMMUNICATION] = COMMUNICATOR_BYTES * (double)communicators;
        bytes[MEMORY_CONTEXT] = cost_model_gpu(s->cost_model)->reserved_bytes;
    }
}

static int64_t collective_ns(const struct scenario *s, enum operator_kind kind, double bytes) {
    struct operator_work work =
        operator_collective("data parallel", kind, PASS_UPDATE, COMMUNICATOR_DATA, bytes);
    struct communicator group = layout_communicator(&s->layout, COMMUNICATOR_DATA);
    return ns_from_seconds(cost_model_price(s->cost_model, &work, &group).seconds);
}

static void price_accumulation(struct step_model *m) {
    const struct scenario *s = m->scenario;
    struct communicator alone = { 1, 1, 1, 1 };
    for (int64_t part = 0; part < m->part_count; part++) {
        struct operator_work work = operator_streaming(
            "gradient accumulation", OPERATOR_ELEMENTWISE, PASS_BACKWARD, PRECISION_FP32,
            (double)(m->trainable_part_parameters[part] * s->backend->accumulate_bytes_moved));
        if (work.memory_bytes > 0)
            m->accumulate_ns[part] =
                ns_from_seconds(cost_model_price(s->cost_model, &work, &alone).seconds);
    }
}

static void price_synchronisation(struct step_model *m) {
    const struct scenario *s = m->scenario;
    bool zero1 = s->layout.zero_stage >= 1 && s->layout.dp > 1;
    struct communicator alone = { 1, 1, 1, 1 };
    for (int64_t stage = 0; stage < m->stage_count; stage++) {
        double trainable = (double)m->trainable_rank_parameters[stage];
        double reduced = trainable * (double)s->backend->gradient_reduce_bytes;
        if (s->layout.dp > 1 && trainable > 0)
            m->synchronize_ns[stage] =
                collective_ns(s,
                              zero1 && !s->backend->zero1_all_reduce ? OPERATOR_REDUCE_SCATTER
                                                                     : OPERATOR_ALL_REDUCE,
                              reduced);
        double share = zero1 ? trainable / (double)s->layout.dp : trainable;
        struct operator_work update =
            operator_streaming("optimizer", OPERATOR_OPTIMIZER, PASS_UPDATE, PRECISION_FP32,
                               share * s->optimizer->update_bytes_moved);
        int64_t ns = trainable > 0
                         ? ns_from_seconds(cost_model_price(s->cost_model, &update, &alone).seconds)
                         : 0;
        if (zero1 && trainable > 0)
            ns += collective_ns(s, OPERATOR_ALL_GATHER, m->trainable_weight_bytes[stage]);
        if (ns > m->update_ns) m->update_ns = ns;
    }
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
    m->layers = arena_array(arena, int64_t, m->part_count * LAYER_KIND_COUNT);
    m->recomputing = arena_array(arena, int64_t, m->part_count * LAYER_KIND_COUNT);
    m->last_kind = arena_array(arena, enum layer_kind, m->part_count);
    m->trainable_part_parameters = arena_array(arena, int64_t, m->part_count);
    m->rank_parameters = arena_array(arena, int64_t, m->stage_count);
    m->trainable_rank_parameters = arena_array(arena, int64_t, m->stage_count);
    m->weight_bytes = arena_array(arena, double, m->stage_count);
    m->trainable_weight_bytes = arena_array(arena, double, m->stage_count);
    m->static_memory = arena_array(arena, struct stage_memory, m->stage_count);
    m->accumulate_ns = arena_array(arena, int64_t, m->part_count);
    m->synchronize_ns = arena_array(arena, int64_t, m->stage_count);
    count_layers(m);
    count_kinds(m);
    fill_static_memory(m);
    price_accumulation(m);
    price_synchronisation(m);
    return m;
}

/* Without anything trainable at or below a layer there is no backward pass for it. */
static bool needs_backward(const struct step_model *m, int64_t part) {
    const struct model *model = m->scenario->model;
    struct gradient_need need = model_gradient_need(model, m->plan->first_layer[part + 1] - 1);
    return need.input || need.weight;
}

void step_layer_times(const struct step_model *m, const struct batch_shape *shape,
                      struct layer_time times[LAYER_KIND_COUNT]) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        price_table_layer(m->prices, (enum layer_kind)kind, shape, &times[kind]);
}

void step_stage_cost(const struct step_model *m, int64_t part, const struct batch_shape *shape,
                     const struct layer_time times[LAYER_KIND_COUNT], struct stage_cost *cost) {
    *cost = (struct stage_cost){ 0 };
    const int64_t *layers = &m->layers[part * LAYER_KIND_COUNT];
    const int64_t *recomputing = &m->recomputing[part * LAYER_KIND_COUNT];
    double padded = shape->language_tokens > 0
                        ? 1 - (double)shape->useful_language_tokens / (double)shape->language_tokens
                        : 0;
    for (int k = 0; k < LAYER_KIND_COUNT; k++) {
        if (layers[k] == 0) continue;
        enum layer_kind kind = (enum layer_kind)k;
        const struct layer_time *time = &times[k];
        /* Frozen with nothing trainable below: no backward, so nothing is kept or recomputed. */
        int64_t again = time->backward_ns > 0 ? recomputing[k] : 0;
        int64_t passes_ns = layers[k] * (time->forward_ns + time->backward_ns);
        int64_t recompute_ns = again * time->forward_ns;
        int64_t communication_ns = layers[k] * (time->forward_comm_ns + time->backward_comm_ns) +
                                   again * time->forward_comm_ns;
        cost->forward_ns += layers[k] * time->forward_ns;
        cost->backward_ns += layers[k] * time->backward_ns + recompute_ns;
        cost->recompute_ns += recompute_ns;

        double useful = kind >= LAYER_TOKEN_EMBEDDING ? 1 - padded : 1;
        double recompute_alone = (double)(recompute_ns - again * time->forward_comm_ns);
        cost->class_ns[TIME_COMMUNICATION] += useful * (double)communication_ns;
        cost->class_ns[TIME_RECOMPUTE] += useful * recompute_alone;
        cost->class_ns[TIME_COMPUTE] +=
            useful * ((double)(passes_ns + recompute_ns - communication_ns) - recompute_alone);
        cost->class_ns[TIME_PADDING] += (1 - useful) * (double)(passes_ns + recompute_ns);

        double working = price_table_workspace_bytes(m->prices, kind, shape);
        cost->workspace_bytes = fmax(cost->workspace_bytes, working);
        if (time->backward_ns == 0) continue; /* forward alone keeps nothing */
        double kept = price_table_saved_bytes(m->prices, kind, shape, false);
        double input = price_table_saved_bytes(m->prices, kind, shape, true);
        cost->activation_bytes += (double)(layers[k] - again) * kept + (double)again * input;
        cost->workspace_bytes = fmax(cost->workspace_bytes, working + (again > 0 ? kept : 0));
    }
    cost->backward_ns += m->accumulate_ns[part];
    cost->class_ns[TIME_COMPUTE] += (double)m->accumulate_ns[part];
    if (part + 1 < m->part_count)
        cost->send_forward_ns =
            price_table_send_ns(m->prices, part % m->stage_count, m->last_kind[part], shape);
    /* The gradient of what the part before sent goes back over the same link. */
    if (part > 0 && needs_backward(m, part - 1))
        cost->send_backward_ns = price_table_send_ns(m->prices, (part - 1) % m->stage_count,
                                                     m->last_kind[part - 1], shape);
}
