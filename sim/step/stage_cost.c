/* stage_cost.c - what one micro-batch costs a stage: times of its passes, activations, sends.
 *
 * Times of the layers (price_table.h) x their counts (step_model.c), with what is recomputed or
 * offloaded, and with the gathers and reductions of ZeRO-2 and 3 beside them (sharded_pass.h).
 */
#include "sim/step/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/step/outer_price.h"
#include "sim/step/part_kinds.h"
#include "sim/step/price_slot.h"
#include "sim/step/sharded_pass.h"

/* Without anything trainable at or below a layer there is no backward pass for it. */
static bool needs_backward(const struct step_model *m, int64_t part) {
    const struct model *model = m->scenario->model;
    const enum layer_kind last = model->layers[m->plan->first_layer[part + 1] - 1].kind;
    const struct gradient_need need = price_table_need(m->prices, last);
    return need.input || need.weight;
}

bool step_part_has_backward(const struct step_model *m, int64_t part) {
    return needs_backward(m, part);
}

static void strip_waits(struct layer_time *time) {
    time->forward_ns -= time->forward_wait_ns;
    time->backward_ns -= time->backward_wait_ns;
    time->forward_wait_ns = time->backward_wait_ns = 0;
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        time->recompute_ns[how] -= time->recompute_wait_ns[how];
        time->recompute_wait_ns[how] = 0;
    }
}

/* Exposed traffic, parts of passes that were scaled. */
static void scale_traffic(struct layer_time *time, double factor) {
    time->forward_comm_ns = scaled_ns(time->forward_comm_ns, factor);
    time->backward_comm_ns = scaled_ns(time->backward_comm_ns, factor);
    time->forward_context_ns = scaled_ns(time->forward_context_ns, factor);
    time->backward_context_ns = scaled_ns(time->backward_context_ns, factor);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        time->recompute_comm_ns[how] = scaled_ns(time->recompute_comm_ns[how], factor);
        time->recompute_context_ns[how] = scaled_ns(time->recompute_context_ns[how], factor);
    }
}

void layer_time_slow(struct layer_time *time, double factor, enum launch_hiding hiding) {
    if (factor == 1) return;
    struct pass_times passes = { time->forward_ns, time->backward_ns, time->forward_wait_ns,
                                 time->backward_wait_ns };
    const int64_t left = pass_times_slow(&passes, factor, hiding);
    time->forward_ns = passes.forward_ns;
    time->backward_ns = passes.backward_ns;
    time->forward_wait_ns = passes.forward_wait_ns;
    time->backward_wait_ns = passes.backward_wait_ns;
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        struct pass_times again = { .forward_ns = time->recompute_ns[how],
                                    .forward_wait_ns = time->recompute_wait_ns[how] };
        pass_times_slow(&again, factor, hiding);
        const int64_t most = left > 0 ? left : 0,
                      hidden = most < again.forward_wait_ns ? most : again.forward_wait_ns;
        time->recompute_ns[how] = again.forward_ns - hidden;
        time->recompute_wait_ns[how] = again.forward_wait_ns - hidden;
    }
    scale_traffic(time, factor);
}

void layer_time_straggle(struct layer_time *time, double factor) {
    if (factor == 1) return;
    time->forward_ns = scaled_ns(time->forward_ns, factor);
    time->backward_ns = scaled_ns(time->backward_ns, factor);
    time->forward_wait_ns = scaled_ns(time->forward_wait_ns, factor);
    time->backward_wait_ns = scaled_ns(time->backward_wait_ns, factor);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        time->recompute_ns[how] = scaled_ns(time->recompute_ns[how], factor);
        time->recompute_wait_ns[how] = scaled_ns(time->recompute_wait_ns[how], factor);
    }
    scale_traffic(time, factor);
}

/* As the model supposes. */
static void read_layer(const struct step_model *m, const struct price_table *prices,
                       enum layer_kind kind, const struct batch_shape *shape,
                       struct layer_time *time) {
    price_table_layer(prices, kind, shape, time);
    if (m->launched) strip_waits(time);
    if (m->slow_factor != 1) layer_time_slow(time, m->slow_factor, step_launch_hiding(m->scenario));
}

void step_layer_times_again(const struct step_model *m, const struct batch_shape *shape,
                            struct layer_time times[LAYER_KIND_COUNT]) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++)
        if (m->kind_layers[kind] > 0)
            read_layer(m, m->prices, (enum layer_kind)kind, shape, &times[kind]);
}

void step_layer_times(const struct step_model *m, const struct batch_shape *shape,
                      struct layer_time times[LAYER_KIND_COUNT]) {
    memset(times, 0, sizeof *times * LAYER_KIND_COUNT);
    step_layer_times_again(m, shape, times);
}

enum launch_hiding step_launch_hiding(const struct scenario *scenario) {
    return scenario->backend->blocking_launches ? LAUNCHES_NEVER_HIDE
           : price_slot_passes_apart(scenario)  ? LAUNCHES_HIDE_IN_EACH
                                                : LAUNCHES_HIDE_IN_BOTH;
}

/* Compute lost to the collectives beside it, of which `exposed_ns` have nothing beside them. */
static double slowed_ns(const struct step_model *m, const struct sharded_pass *pass,
                        double exposed_ns) {
    /* The root is gathered once, in forward. */
    double gather_ns =
        (double)(pass->root_gather_ns + pass->last.gather_ns + pass->last.gather_again_ns);
    double reduce_ns = (double)pass->root_reduce_ns;
    for (int64_t i = 0; i < pass->unit_count; i++) {
        gather_ns += (double)(pass->units[i].gather_ns + pass->units[i].gather_again_ns);
        reduce_ns += (double)pass->units[i].reduce_ns;
    }
    const double whole_ns = gather_ns + reduce_ns, hidden_ns = fmax(whole_ns - exposed_ns, 0);
    if (whole_ns <= 0) return 0;
    const double moving = (gather_ns * m->gather_moving + reduce_ns * m->reduce_moving) / whole_ns;
    return m->scenario->backend->step.overlap_cost * moving * hidden_ns;
}

/* Of a layer that is offloaded. */
static struct offload_time offload_of(const struct step_model *m, int64_t layer_index, double bytes,
                                      const struct layer_time *time) {
    return offload_time(bytes, scenario_host_copy_bytes_per_s(m->scenario), time,
                        m->plan->recompute[layer_index], m->offload_window[layer_index]);
}

struct offload_time step_offload_time(const struct step_model *m, int64_t layer_index,
                                      const struct layer_time times[LAYER_KIND_COUNT]) {
    if (m->offload_window[layer_index] == 0) return (struct offload_time){ 0 };
    const struct layer_time *time = &times[m->scenario->model->layers[layer_index].kind];
    return offload_of(m, layer_index, time->saved_bytes[m->plan->recompute[layer_index]], time);
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
                                 .root_reduce_ns = reduces ? m->root_reduce_ns : 0,
                                 .reduces_alone = !scenario_reduces_beside(m->scenario) };
    int64_t own_ns = cost->forward_ns + cost->backward_ns, forward_ns = 0, backward_ns = 0,
            unit = 0;
    for (int64_t i = 0; i < model->layer_count; i++) {
        const struct layer_time *time = &times[model->layers[i].kind];
        struct layer_time ruled;
        const struct price_table *prices = price_table_of_layer(m->prices, i);
        if (prices != m->prices) {
            read_layer(m, prices, model->layers[i].kind, shape, &ruled);
            time = &ruled;
        }
        struct offload_time copies = { 0 };
        if (m->offload_window[i] > 0) {
            const enum layer_kind kind = model->layers[i].kind;
            copies = offload_of(m, i, own[kind].saved_bytes[m->plan->recompute[i]], &times[kind]);
        }
        int64_t again = time->recompute_ns[m->plan->recompute[i]] + copies.backward_ns;
        forward_ns += time->forward_ns + copies.forward_ns;
        backward_ns += time->backward_ns + again;
        if (unit < m->unit_count && m->unit_layer[unit] == i) {
            /* The device is idle while lists are made, but those of gradients are made beside
             * it. */
            const struct outer_lists lists = outer_block_lists(m, i);
            const int64_t backward = time->backward_ns + again;
            const bool lists_again = m->unit_again_ns[unit] > 0;
            units[unit] =
                (struct sharded_unit){ time->forward_ns + copies.forward_ns + lists.forward_ns,
                                       (backward > lists.reduce_ns ? backward : lists.reduce_ns) +
                                           (lists_again ? lists.backward_ns : 0),
                                       m->unit_gather_ns[unit],
                                       reduces ? m->unit_reduce_ns[unit] : 0,
                                       m->unit_again_ns[unit] };
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
    if (m->head_gather_ns > 0) {
        pass.last.gather_ns = price_table_head_chunks(m->prices, shape) * m->head_gather_ns;
        if (pass.last.backward_ns > 0) pass.last.gather_again_ns = pass.last.gather_ns;
    }
    int64_t tail_ns = scaled_ns(m->accumulate_ns[0], m->slow_factor);
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
    int64_t waits_ns = count * (time->forward_wait_ns + time->backward_wait_ns), waits_again_ns = 0;
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        recompute_ns += recomputing[how] * time->recompute_ns[how];
        recompute_comm_ns += recomputing[how] * time->recompute_comm_ns[how];
        context_ns += recomputing[how] * time->recompute_context_ns[how];
        waits_again_ns += recomputing[how] * time->recompute_wait_ns[how];
    }
    int64_t communication_ns =
        count * (time->forward_comm_ns + time->backward_comm_ns) + recompute_comm_ns;
    cost->forward_ns += count * time->forward_ns;
    cost->backward_ns += count * time->backward_ns + recompute_ns;
    cost->recompute_ns += recompute_ns;
    cost->forward_wait_ns += count * time->forward_wait_ns;
    cost->backward_wait_ns += count * time->backward_wait_ns + waits_again_ns;

    double useful = layer_kind_axis(kind) == TOKENS_LANGUAGE ? 1 - padded : 1;
    double recompute_alone = (double)(recompute_ns - recompute_comm_ns - waits_again_ns);
    int64_t device_ns = passes_ns + recompute_ns - waits_ns - waits_again_ns;
    cost->class_ns[TIME_COMMUNICATION] += useful * (double)(communication_ns - context_ns);
    cost->class_ns[TIME_CONTEXT] += useful * (double)context_ns;
    cost->class_ns[TIME_RECOMPUTE] += useful * recompute_alone;
    cost->class_ns[TIME_COMPUTE] +=
        useful * ((double)(device_ns - communication_ns) - recompute_alone);
    cost->class_ns[TIME_PADDING] += (1 - useful) * (double)device_ns;
    cost->class_ns[TIME_LAUNCH] += (double)(waits_ns + waits_again_ns);
}

static void add_memory(const struct step_model *m, enum layer_kind kind,
                       const struct layer_time *time,
                       const int64_t recomputing[RECOMPUTE_KIND_COUNT], struct stage_cost *cost) {
    double working = time->workspace_bytes;
    if (kind == LAYER_HEAD) {
        const double kept = time->backward_ns == 0 ? 0 : time->saved_bytes[RECOMPUTE_NONE];
        cost->loss_workspace_bytes = working;
        cost->loss_bytes += (double)recomputing[RECOMPUTE_NONE] * kept;
        cost->activation_bytes += (double)recomputing[RECOMPUTE_NONE] * kept;
        return;
    }
    cost->workspace_bytes = fmax(cost->workspace_bytes, working);
    /* Frozen with nothing trainable below: no backward, so nothing is kept or recomputed. */
    if (time->backward_ns == 0) return;
    if (layer_kind_is_block(kind)) working += m->unit_gradient_bytes;
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
    if (time->backward_ns == 0) return;
    double working = time->workspace_bytes;
    double whole = time->saved_bytes[RECOMPUTE_NONE];
    int64_t count[RECOMPUTE_KIND_COUNT] = { 0 };
    for (int64_t i = m->plan->first_layer[part]; i < m->plan->first_layer[part + 1]; i++) {
        if (m->offload_window[i] == 0 || m->scenario->model->layers[i].kind != kind) continue;
        const enum recompute_kind how = m->plan->recompute[i];
        const double kept = time->saved_bytes[how];
        const struct offload_time exposed = offload_of(m, i, kept, time);
        cost->forward_ns += exposed.forward_ns;
        cost->backward_ns += exposed.backward_ns;
        cost->class_ns[TIME_HOST_COPY] += (double)(exposed.forward_ns + exposed.backward_ns);
        cost->activation_bytes -= kept;
        if (count[how] < OFFLOAD_BUFFER_COUNT) count[how]++;
        cost->workspace_bytes =
            fmax(cost->workspace_bytes, working + whole - kept + (double)count[how] * kept);
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
        read_layer(m, prices, kind, shape, &time);
        int64_t again[RECOMPUTE_KIND_COUNT] = { 0 };
        again[m->plan->recompute[i]] = -1;
        add_layers(kind, -1, again, &times[kind], padded, cost);
        again[m->plan->recompute[i]] = 1;
        add_layers(kind, 1, again, &time, padded, cost);
    }
}

/* Kinds of the part's blocks in the order of the groups of its passes. */
static int32_t list_groups(const struct step_model *m, int64_t part,
                           enum layer_kind kinds[PASS_GROUP_LIMIT]) {
    int32_t count = 0;
    for (int k = 0; k < LAYER_KIND_COUNT; k++)
        if (layer_kind_is_block((enum layer_kind)k) && m->layers[part * LAYER_KIND_COUNT + k] > 0)
            kinds[count++] = (enum layer_kind)k;
    return count;
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
    enum layer_kind kinds[PASS_GROUP_LIMIT];
    const double rate = scenario_host_copy_bytes_per_s(m->scenario);
    pass->group_count = list_groups(m, part, kinds);
    for (int32_t g = 0; g < pass->group_count; g++) {
        const struct layer_time *time = &times[kinds[g]];
        struct pass_group *group = &pass->groups[g];
        *group = (struct pass_group){ .blocks = m->layers[part * LAYER_KIND_COUNT + kinds[g]],
                                      .forward_ns = time->forward_ns,
                                      .backward_ns = time->backward_ns };
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
            group->recompute_ns[how] = time->recompute_ns[how];
            group->block_bytes[how] = time->backward_ns > 0 ? time->saved_bytes[how] : 0;
            group->copy_ns[how] = ns_from_price(group->block_bytes[how] / rate);
        }
    }
}

void step_planned_blocks(const struct step_model *m, int64_t part, struct pass_choice *blocks) {
    enum layer_kind kinds[PASS_GROUP_LIMIT];
    *blocks = (struct pass_choice){ .buffer_bytes = 0 };
    const int32_t count = list_groups(m, part, kinds);
    for (int32_t g = 0; g < count; g++) {
        const int64_t *planned =
            &m->recomputing[(part * LAYER_KIND_COUNT + kinds[g]) * RECOMPUTE_KIND_COUNT];
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            blocks->blocks[g][how] = (int16_t)planned[how];
    }
}

/* Blocks that the planner's choice keeps in host memory; the buffers of their copies are the
 * rank's. */
static void add_chosen_offload(const struct step_model *m, int64_t part,
                               const struct layer_time times[LAYER_KIND_COUNT],
                               const struct pass_choice *choice, struct stage_cost *cost) {
    struct pass_cost pass = { .group_count = 0 };
    step_block_options(m, part, times, &pass);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        for (int32_t g = 0; g < pass.group_count; g++)
            cost->host_bytes += choice->offloaded[g][how] * pass.groups[g].block_bytes[how];
    cost->activation_bytes -= cost->host_bytes;
    int64_t forward_ns, backward_ns;
    pass_cost_exposed(&pass, choice, &forward_ns, &backward_ns);
    cost->forward_ns += forward_ns;
    cost->backward_ns += backward_ns;
    cost->class_ns[TIME_HOST_COPY] += (double)(forward_ns + backward_ns);
}

double step_choice_flop(const struct step_model *m, int64_t part,
                        const struct layer_time times[LAYER_KIND_COUNT],
                        const struct pass_choice *choice) {
    enum layer_kind kinds[PASS_GROUP_LIMIT];
    if (!pass_choice_given(choice)) return 0;
    const int32_t count = list_groups(m, part, kinds);
    double flop = 0;
    for (int32_t g = 0; g < count; g++) {
        const int64_t *planned =
            &m->recomputing[(part * LAYER_KIND_COUNT + kinds[g]) * RECOMPUTE_KIND_COUNT];
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            flop += (double)(choice->blocks[g][how] - planned[how]) *
                    times[kinds[g]].recompute_flop[how];
    }
    return flop;
}

double step_activation_capacity(const struct step_model *m, int64_t stage) {
    const struct stage_memory *memory = &m->static_memory[stage];
    double outside = memory->bytes[MEMORY_COMMUNICATION] + memory->bytes[MEMORY_CONTEXT];
    double hbm = cost_model_gpu(m->scenario->cost_model)->hbm_bytes;
    return (hbm - outside) / (1 + m->scenario->backend->step.reserved_fraction) -
           stage_memory_allocated(memory);
}

double step_host_capacity(const struct step_model *m) {
    const struct scenario_cluster *cluster = &m->scenario->cluster_fields;
    if (cluster->host_memory_GB_per_node <= 0) return INFINITY;
    return cluster->host_memory_GB_per_node * BYTES_PER_GB / (double)cluster->gpus_per_node;
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
    const bool given = choice != NULL && pass_choice_given(choice);
    int32_t group = 0; /* the part's kinds come in the order of its groups */
    double padded = shape->language_tokens > 0
                        ? 1 - (double)shape->useful_language_tokens / (double)shape->language_tokens
                        : 0;
    for (const enum layer_kind *at = &m->kinds[part * PART_KINDS]; *at != LAYER_KIND_COUNT; at++) {
        const enum layer_kind kind = *at;
        const int64_t row = part * LAYER_KIND_COUNT + kind,
                      *recomputing = &m->recomputing[row * RECOMPUTE_KIND_COUNT];
        int64_t own[RECOMPUTE_KIND_COUNT];
        const bool is_chosen = given && layer_kind_is_block(kind);
        for (int how = 0; is_chosen && how < RECOMPUTE_KIND_COUNT; how++)
            own[how] = choice->blocks[group][how];
        group += is_chosen;
        if (is_chosen) recomputing = own;
        add_layers(kind, m->layers[row], recomputing, &times[kind], padded, cost);
        add_memory(m, kind, &times[kind], recomputing, cost);
        if (!is_chosen && m->scenario->training_fields.offload_blocks > 0)
            add_offload(m, part, kind, &times[kind], cost);
    }
    if (given) add_chosen_offload(m, part, times, choice, cost);
    /* Two moments: the loss, and a block's passes, when nothing of the loss is left. */
    cost->workspace_bytes =
        fmax(cost->loss_workspace_bytes, cost->workspace_bytes - cost->loss_bytes);
    if (choice != NULL) cost->workspace_bytes += choice->buffer_bytes;
    if (m->has_ruled_layers) replace_ruled_layers(m, part, shape, times, padded, cost);
    const int64_t accumulate_ns = scaled_ns(m->accumulate_ns[part], m->slow_factor);
    cost->backward_ns += accumulate_ns;
    cost->class_ns[TIME_COMPUTE] += (double)accumulate_ns;
    if (m->sharded) shard_passes(m, shape, times, locked != NULL ? locked : times, cost);
    step_stage_sends(m, part, times, cost);
}
