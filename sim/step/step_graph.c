/* step_graph.c - the pipeline of one data-parallel rank as a task graph.
 *
 * Stage fidelity: two tasks a micro-batch and stage, and a send between neighbours. A send that
 * blocks compute stands on the sender's compute stream; one that does not has a stream per link and
 * direction. A modality-aware plan splits the micro-batches of a module into units of its own: each
 * has its own tasks on the module's parts, and a unit of the next module waits for all units of its
 * micro-batch in the module before.
 *
 * Operator fidelity: each pass becomes the chain of its operators, collectives on the stage's
 * communication stream, and sends that leave a node share the node's outgoing NICs.
 */
#include "sim/step/step_cells.h"

static void add_resources(struct step_runner *r) {
    const struct step_model *m = r->model;
    const struct layout *layout = &m->scenario->layout;
    for (int64_t stage = 0; stage < m->stage_count; stage++) {
        r->compute[stage] = task_graph_add_resource(r->graph, RESOURCE_STREAM, "compute");
        r->communication[stage] =
            task_graph_add_resource(r->graph, RESOURCE_STREAM, "communication");
        r->link_forward[stage] = task_graph_add_resource(r->graph, RESOURCE_STREAM, "link forward");
        r->link_backward[stage] =
            task_graph_add_resource(r->graph, RESOURCE_STREAM, "link backward");
        r->nic[stage] = r->latest_forward[stage] = r->latest_backward[stage] = NO_TASK;
        if (r->fidelity != FIDELITY_OPERATOR) continue;
        /* Stages whose first rank stands on the same node send through the same NICs. */
        int64_t node = layout_rank(layout, stage, 0, 0, 0) / layout->gpus_per_node;
        for (int64_t other = 0; other < stage && r->nic[stage] == NO_TASK; other++)
            if (layout_rank(layout, other, 0, 0, 0) / layout->gpus_per_node == node)
                r->nic[stage] = r->nic[other];
        if (r->nic[stage] == NO_TASK)
            r->nic[stage] = task_graph_add_resource(r->graph, RESOURCE_SHARED, "outgoing NICs");
    }
}

/* Where a pass stands while its operators are added: what the next compute operator waits for, what
 * the one after it waits for, and the last task of each stream. */
struct pass_builder {
    struct step_runner *runner;
    int64_t stage;
    int32_t last_compute, last_link;
    int32_t join, late_join; /* collectives, or NO_TASK */
};

static void wait_for(struct task_graph *graph, int32_t before, int32_t after) {
    if (before != NO_TASK) task_graph_add_dependency(graph, before, after, 0);
}

/* As list_makespan_ns() of the price table, task by task. Stream order stands for the dependency
 * between two tasks of one stream. */
static void add_operators(struct pass_builder *b, const struct operator_time *operators,
                          int64_t count) {
    struct step_runner *r = b->runner;
    for (int64_t i = 0; i < count; i++) {
        if (operators[i].stream == STREAM_COMPUTE) {
            int32_t task =
                task_graph_add_task(r->graph, r->compute[b->stage], operators[i].ns, NO_TASK);
            wait_for(r->graph, b->join, task);
            b->last_compute = task;
            b->join = b->late_join;
            b->late_join = NO_TASK;
            continue;
        }
        int32_t task =
            task_graph_add_task(r->graph, r->communication[b->stage], operators[i].ns, NO_TASK);
        wait_for(r->graph, b->last_compute, task);
        if (b->join != NO_TASK && b->join != b->last_link) wait_for(r->graph, b->join, task);
        b->last_link = task;
        if (operators[i].stream == STREAM_EXPOSED)
            b->join = task;
        else
            b->late_join = task;
    }
    /* A layer ends when its collectives have. */
    if (b->late_join != NO_TASK) b->join = b->late_join;
    b->late_join = NO_TASK;
}

/* The operators of one layer in a pass. Layers that follow each other mostly have the same ones. */
struct layer_operator_times {
    const struct price_table *prices;
    enum layer_kind kind;
    enum recompute_kind how;
    int64_t again_count, count;
    struct operator_time again[PRICE_OPERATOR_LIMIT], operators[PRICE_OPERATOR_LIMIT];
};

static void price_layer(const struct step_model *m, int64_t layer, const struct batch_shape *shape,
                        bool backward, struct layer_operator_times *times) {
    const enum layer_kind kind = m->scenario->model->layers[layer].kind;
    const struct price_table *prices = price_table_of_layer(m->prices, layer);
    const enum recompute_kind how = m->plan->recompute[layer];
    if (times->prices == prices && times->kind == kind && times->how == how) return;
    times->prices = prices;
    times->kind = kind;
    times->how = how;
    times->again_count =
        backward ? price_table_recompute_operators(prices, kind, shape, how, times->again) : 0;
    times->count = price_table_operators(
        prices, kind, shape, backward ? PASS_SET_BACKWARD : PASS_SET_FORWARD, times->operators);
}

/* A pass begins and ends on the compute stream, whose order keeps passes apart. */
static void add_operator_pass(struct step_runner *r, int64_t part, const struct batch_shape *shape,
                              bool backward, int32_t *first, int32_t *last) {
    const struct step_model *m = r->model;
    const struct model *model = m->scenario->model;
    int64_t stage = part % m->stage_count;
    int64_t begin = m->plan->first_layer[part], end = m->plan->first_layer[part + 1];
    *first = task_graph_add_task(r->graph, r->compute[stage], 0, NO_TASK);
    struct pass_builder b = { r, stage, *first, NO_TASK, NO_TASK, NO_TASK };
    struct layer_operator_times operators;
    operators.prices = NULL;
    struct layer_time times[LAYER_KIND_COUNT];
    if (m->scenario->training_fields.offload_blocks > 0) step_layer_times(m, shape, times);
    for (int64_t n = 0; n < end - begin; n++) {
        int64_t i = backward ? end - 1 - n : begin + n;
        const struct gradient_need need = price_table_need(m->prices, model->layers[i].kind);
        if (backward && !need.input && !need.weight) continue;
        price_layer(m, i, shape, backward, &operators);
        add_operators(&b, operators.again, operators.again_count);
        add_operators(&b, operators.operators, operators.count);
        if (m->offload_window[i] == 0) continue;
        struct offload_time copies = step_offload_time(m, i, times);
        int64_t exposed_ns = backward ? copies.backward_ns : copies.forward_ns;
        add_operators(&b, &(struct operator_time){ exposed_ns, STREAM_COMPUTE }, 1);
    }
    *last = b.last_compute;
    int64_t tail_ns = backward ? m->accumulate_ns[part] : 0;
    if (b.join == NO_TASK && tail_ns == 0) return;
    *last = task_graph_add_task(r->graph, r->compute[stage], tail_ns, NO_TASK);
    wait_for(r->graph, b.join, *last);
}

/* What the sends of one stage, one per rank on the node, take of the node's NICs when alone. */
static double nic_share(const struct step_model *m, int64_t link) {
    const struct cluster_network *network = cost_model_network(m->scenario->cost_model);
    int64_t nics = network->nics_per_node > 0 ? network->nics_per_node : network->gpus_per_node;
    int64_t flows = layout_stage_link(&m->scenario->layout, link).groups_per_node;
    return flows < nics ? (double)flows / (double)nics : 1;
}

static int32_t add_send(struct step_runner *r, int64_t stage, bool backward, int32_t after,
                        int64_t duration_ns) {
    const struct step_model *m = r->model;
    bool blocks = m->scenario->backend->send_blocks_compute;
    int64_t link = backward ? (stage + m->stage_count - 1) % m->stage_count : stage;
    int32_t stream = blocks     ? r->compute[stage]
                     : backward ? r->link_backward[stage]
                                : r->link_forward[stage];
    if (r->fidelity == FIDELITY_OPERATOR &&
        layout_stage_link(&m->scenario->layout, link).node_count > 1) {
        /* The stream orders the sends, one after another; the shared NIC times them. */
        int32_t *latest = backward ? &r->latest_backward[stage] : &r->latest_forward[stage];
        int32_t wire = task_graph_add_task(r->graph, r->nic[stage], duration_ns, NO_TASK);
        task_graph_add_dependency(r->graph, after, wire, 0);
        wait_for(r->graph, *latest, wire);
        *latest = wire;
        task_graph_set_rate(r->graph, wire, nic_share(m, link));
        int32_t done = task_graph_add_task(r->graph, stream, 0, NO_TASK);
        task_graph_add_dependency(r->graph, wire, done, 0);
        return done;
    }
    int32_t send = task_graph_add_task(r->graph, stream, duration_ns, NO_TASK);
    if (!blocks) task_graph_add_dependency(r->graph, after, send, 0);
    return send;
}

static void add_entry(struct step_runner *r, int64_t stage, const struct schedule_entry *entry) {
    int64_t part = part_of(r, stage, entry), cell = cell_of(r, stage, entry);
    const struct stage_cost *cost = &r->costs[cell];
    int32_t first, last;
    if (r->fidelity == FIDELITY_OPERATOR) {
        const int32_t *units = units_of(r, part);
        struct place_in_step at = { part, entry->micro_batch, entry->sub,
                                    units[entry->micro_batch + 1] - units[entry->micro_batch],
                                    cell };
        struct batch_shape shape = shape_at(r, &at);
        add_operator_pass(r, part, &shape, entry->backward, &first, &last);
    } else {
        first = last =
            task_graph_add_task(r->graph, r->compute[stage],
                                entry->backward ? cost->backward_ns : cost->forward_ns, NO_TASK);
    }
    if (entry->backward) {
        r->backward_first[cell] = first;
        r->backward_last[cell] = last;
        r->send_backward[cell] = NO_TASK;
        if (sends_to(r, part - 1, entry->micro_batch))
            r->send_backward[cell] = add_send(r, stage, true, last, cost->send_backward_ns);
    } else {
        r->forward_first[cell] = first;
        r->forward_last[cell] = last;
        r->send_forward[cell] = NO_TASK;
        if (sends_to(r, part + 1, entry->micro_batch))
            r->send_forward[cell] = add_send(r, stage, false, last, cost->send_forward_ns);
    }
}

/* Units of one micro-batch on a part and on the next: one to one inside a module, all to all
 * between two. */
static void join_parts(struct step_runner *r, int64_t part, int64_t micro_batch) {
    const int32_t *from = units_of(r, part) + micro_batch,
                  *to = units_of(r, part + 1) + micro_batch;
    bool same = from == to;
    for (int32_t a = from[0]; a < from[1]; a++)
        for (int32_t b = same ? a : to[0]; b < (same ? a + 1 : to[1]); b++) {
            int64_t before = r->cell_first[part] + a, after = r->cell_first[part + 1] + b;
            task_graph_add_dependency(r->graph, r->send_forward[before], r->forward_first[after],
                                      0);
            task_graph_add_dependency(r->graph, r->send_backward[after], r->backward_first[before],
                                      0);
        }
}

static void turn_round(struct step_runner *r, const struct place_in_step *at, void *context) {
    (void)context;
    if (!sends_to(r, at->part + 1, at->micro_batch))
        task_graph_add_dependency(r->graph, r->forward_last[at->cell], r->backward_first[at->cell],
                                  0);
}

static void add_stage_dependencies(struct step_runner *r) {
    for (int64_t part = 0; part < r->model->part_count; part++) {
        for (int64_t i = 0; part + 1 < r->model->part_count && i < r->micro_batch_count; i++)
            join_parts(r, part, i);
        for_each_cell(r, part, turn_round, NULL);
    }
}

void step_graph_build(struct step_runner *r) {
    task_graph_clear(r->graph);
    add_resources(r);
    for (int64_t stage = 0; stage < r->model->stage_count; stage++)
        for (int64_t i = 0; i < r->entry_count; i++)
            add_entry(r, stage, &r->entries[stage * r->entry_count + i]);
    add_stage_dependencies(r);
}

void step_graph_update(struct step_runner *r) {
    int64_t *duration = r->graph->duration_ns;
    for (int64_t cell = 0; cell < r->cell_first[r->model->part_count]; cell++) {
        const struct stage_cost *cost = &r->costs[cell];
        duration[r->forward_first[cell]] = cost->forward_ns;
        duration[r->backward_first[cell]] = cost->backward_ns;
        if (r->send_forward[cell] != NO_TASK)
            duration[r->send_forward[cell]] = cost->send_forward_ns;
        if (r->send_backward[cell] != NO_TASK)
            duration[r->send_backward[cell]] = cost->send_backward_ns;
    }
}
