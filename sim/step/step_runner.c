/* step_runner.c - the pipeline of one data-parallel rank as a task graph.
 *
 * Stage fidelity: two tasks a micro-batch and stage, and a send between neighbours. A send that
 * blocks compute stands on the sender's compute stream; one that does not has a stream per link and
 * direction. A modality-aware plan splits the micro-batches of a module into units of its own: each
 * has its own tasks on the module's parts, and a unit of the next module waits for all units of its
 * micro-batch in the module before. The graph depends on (stages, micro-batches, schedule) only, so it is built once and
 * gets new durations each iteration.
 *
 * Operator fidelity: each pass becomes the chain of its operators, collectives on the stage's
 * communication stream, and sends that leave a node share the node's outgoing NICs.
 */
#include "sim/step/step.h"

#include <stdlib.h>
#include <string.h>

#include "sim/step/pipeline_clock.h"

enum { NO_TASK = -1 };

struct step_runner {
    const struct step_model *model;
    struct engine *engine;
    struct arena *scratch; /* of iteration planners */
    struct task_graph *graph;
    enum fidelity fidelity;         /* of the graph */
    int64_t micro_batch_count;      /* of the graph; 0: none yet */
    struct schedule_entry *entries; /* stage s from s x entry_count */
    int64_t entry_count;            /* of one stage */
    /* Units of module i: the sub-microbatches of micro-batch m are units[i x (count + 1) + m] up to the
     * next entry. Their cells on part p follow cell_first[p]. */
    int32_t *units;
    int64_t *cell_first, cell_capacity;
    /* by cell: first and last task of each pass, and its send (NO_TASK: none) */
    int32_t *forward_first, *forward_last, *backward_first, *backward_last;
    int32_t *send_forward, *send_backward;
    struct stage_cost *costs;
    struct pass_cost *pass_costs;  /* for planners; NULL until one asks */
    struct pass_choice *choices;
    bool chosen; /* choices hold for the last run */
    bool split;  /* into the plan's sub-batches */
    struct layer_time (*unit_times)[LAYER_KIND_COUNT];
    int32_t *compute, *communication, *link_forward, *link_backward; /* resources by stage */
    int32_t *nic; /* shared outgoing NICs by stage, or NO_TASK */
    /* while building: the last send of each stage that leaves its node, or NO_TASK */
    int32_t *latest_forward, *latest_backward;
    int64_t *finish_ns, *busy_ns, *forward_ns, *backward_ns, *recompute_ns;
    struct stage_memory *memory;
    struct pipeline_clock *clock;     /* with times_only */
    struct step_slowness slowness;
    bool is_slow;
    const struct batch_shape *shapes; /* of the last run */
    const struct layer_time (*locked)[LAYER_KIND_COUNT];
    const struct schedule_entry *given; /* order of the next runs, or NULL */
    bool static_order;                  /* the graph's order is that of the schedule */
    int64_t bound_ns;  /* of the planner's last iteration */
    double planner_s;
    bool planner_timed;
};

struct step_runner *step_runner_create(const struct step_model *model) {
    struct step_runner *r = memory_alloc(sizeof *r);
    *r = (struct step_runner){ .model = model,
                               .engine = engine_create(),
                               .scratch = arena_create(),
                               .graph = task_graph_create() };
    size_t stages = (size_t)model->stage_count;
    int32_t **by_stage[] = { &r->compute, &r->communication,  &r->link_forward,   &r->link_backward,
                             &r->nic,     &r->latest_forward, &r->latest_backward };
    for (size_t i = 0; i < sizeof by_stage / sizeof by_stage[0]; i++)
        *by_stage[i] = memory_alloc(sizeof **by_stage[i] * stages);
    int64_t **times[] = { &r->finish_ns, &r->busy_ns, &r->forward_ns, &r->backward_ns,
                          &r->recompute_ns };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        *times[i] = memory_alloc(sizeof **times[i] * (size_t)model->part_count);
    r->memory = memory_alloc(sizeof *r->memory * stages);
    r->cell_first = memory_alloc(sizeof *r->cell_first * (size_t)(model->part_count + 1));
    return r;
}

void step_runner_destroy(struct step_runner *r) {
    if (r == NULL) return;
    engine_destroy(r->engine);
    arena_destroy(r->scratch);
    task_graph_destroy(r->graph);
    free(r->entries);
    free(r->units);
    free(r->cell_first);
    free(r->pass_costs);
    free(r->choices);
    free(r->unit_times);
    free(r->forward_first);
    free(r->forward_last);
    free(r->backward_first);
    free(r->backward_last);
    free(r->send_forward);
    free(r->send_backward);
    free(r->costs);
    free(r->compute);
    free(r->communication);
    free(r->link_forward);
    free(r->link_backward);
    free(r->nic);
    free(r->latest_forward);
    free(r->latest_backward);
    free(r->finish_ns);
    free(r->busy_ns);
    free(r->forward_ns);
    free(r->backward_ns);
    free(r->recompute_ns);
    free(r->memory);
    pipeline_clock_destroy(r->clock);
    free(r);
}

/* ---- units and cells ---- */

/* `split`: by the plan's sub-batches; otherwise every module takes whole micro-batches. */
static void number_units(struct step_runner *r, const struct batch_shape *shapes, int64_t count,
                         bool split) {
    const struct step_model *m = r->model;
    r->units = memory_realloc(r->units, sizeof *r->units * (size_t)(m->module_count * (count + 1)));
    for (int64_t i = 0; i < m->module_count; i++) {
        int32_t *units = r->units + i * (count + 1);
        units[0] = 0;
        for (int64_t k = 0; k < count; k++)
            units[k + 1] =
                units[k] +
                (int32_t)(split ? step_unit_count(m, i, &shapes[k]) : 1);
    }
    int64_t cells = 0, per_stage = 0;
    for (int64_t part = 0; part < m->part_count; part++) {
        int64_t module = m->module_of_chunk[part / m->stage_count];
        r->cell_first[part] = cells;
        cells += r->units[module * (count + 1) + count];
        if (part % m->stage_count == 0) per_stage += r->units[module * (count + 1) + count];
    }
    r->cell_first[m->part_count] = cells;
    r->entry_count = 2 * per_stage;
}

static void grow(struct step_runner *r) {
    int64_t needed = r->cell_first[r->model->part_count];
    if (needed <= r->cell_capacity) return;
    r->cell_capacity = needed;
    size_t cells = (size_t)needed;
    r->entries = memory_realloc(r->entries, sizeof *r->entries * cells * 2);
    int32_t **tasks[] = { &r->forward_first, &r->forward_last, &r->backward_first,
                          &r->backward_last, &r->send_forward, &r->send_backward };
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        *tasks[i] = memory_realloc(*tasks[i], sizeof **tasks[i] * cells);
    r->costs = memory_realloc(r->costs, sizeof *r->costs * cells);
    if (r->model->iteration_planner == NULL) return;
    r->pass_costs = memory_realloc(r->pass_costs, sizeof *r->pass_costs * cells);
    r->choices = memory_realloc(r->choices, sizeof *r->choices * cells);
}

static const int32_t *units_of(const struct step_runner *r, int64_t part) {
    return r->units +
           r->model->module_of_chunk[part / r->model->stage_count] * (r->micro_batch_count + 1);
}

/* One sub-microbatch on one part. */
struct place_in_step {
    int64_t part, micro_batch, sub, pieces, cell;
};

static struct batch_shape shape_at(const struct step_runner *r, const struct place_in_step *at) {
    const struct step_model *m = r->model;
    bool clips = m->plan->module_count > 0 &&
                 m->plan->modules[m->module_of_chunk[at->part / m->stage_count]].clips;
    return batch_shape_piece(&r->shapes[at->micro_batch], clips, at->pieces, at->sub);
}

typedef void (*cell_visit)(struct step_runner *r, const struct place_in_step *at, void *context);

static void for_each_cell(struct step_runner *r, int64_t part, cell_visit visit, void *context) {
    const int32_t *units = units_of(r, part);
    for (int64_t i = 0; i < r->micro_batch_count; i++)
        for (int32_t unit = units[i]; unit < units[i + 1]; unit++) {
            struct place_in_step at = { part, i, unit - units[i], units[i + 1] - units[i],
                                        r->cell_first[part] + unit };
            visit(r, &at, context);
        }
}

static struct schedule_place place_of(const struct step_runner *r, int64_t stage) {
    return (struct schedule_place){ .stage = stage,
                                    .stage_count = r->model->stage_count,
                                    .chunk_count = r->model->chunk_count,
                                    .micro_batch_count = r->micro_batch_count };
}

static int64_t part_of(const struct step_runner *r, int64_t stage,
                       const struct schedule_entry *entry) {
    return entry->chunk * r->model->stage_count + stage;
}

static int64_t cell_of(const struct step_runner *r, int64_t stage,
                       const struct schedule_entry *entry) {
    int64_t part = part_of(r, stage, entry);
    return r->cell_first[part] + units_of(r, part)[entry->micro_batch] + entry->sub;
}

/* Whether the pass of a part hands anything on: to the same module's next part, or to the next
 * module, if that takes part in the micro-batch. */
static bool sends_to(const struct step_runner *r, int64_t to, int64_t micro_batch) {
    if (to < 0 || to >= r->model->part_count) return false;
    const int32_t *units = units_of(r, to);
    return units[micro_batch + 1] > units[micro_batch];
}

static void fill_static_order(struct step_runner *r) {
    for (int64_t stage = 0; stage < r->model->stage_count; stage++) {
        struct schedule_place place = place_of(r, stage);
        r->model->plan->schedule->order(&place, r->entries + stage * r->entry_count);
    }
}

static bool inside_step(const struct step_runner *r, int64_t stage,
                        const struct schedule_entry *entry) {
    if (entry->micro_batch < 0 || entry->micro_batch >= r->micro_batch_count || entry->chunk < 0 ||
        entry->chunk >= r->model->chunk_count || entry->sub < 0)
        return false;
    const int32_t *units = units_of(r, part_of(r, stage, entry));
    return entry->sub < units[entry->micro_batch + 1] - units[entry->micro_batch];
}

/* Every stage must run each pass of each sub-microbatch and chunk once. */
static bool check_order(const struct step_runner *r, const char *name, struct error *err) {
    size_t cells = (size_t)r->cell_first[r->model->part_count];
    bool *seen = memory_alloc(sizeof *seen * 2 * (cells + 1));
    memset(seen, 0, sizeof *seen * 2 * cells);
    bool ok = true;
    for (int64_t stage = 0; ok && stage < r->model->stage_count; stage++) {
        for (int64_t i = 0; ok && i < r->entry_count; i++) {
            const struct schedule_entry *entry = &r->entries[stage * r->entry_count + i];
            bool inside = inside_step(r, stage, entry);
            bool *cell = inside ? &seen[2 * cell_of(r, stage, entry) + entry->backward] : NULL;
            ok = inside && !*cell;
            if (inside) *cell = true;
            if (!ok)
                error_set(err, "policy \"%s\" orders stage %ld wrongly: micro-batch %ld, %s", name,
                          (long)stage + 1, (long)entry->micro_batch,
                          inside ? "twice" : "which does not exist");
        }
    }
    free(seen);
    return ok;
}

static void fill_pass_cost(struct step_runner *r, const struct place_in_step *at, void *context) {
    (void)context;
    const struct stage_cost *cost = &r->costs[at->cell];
    struct batch_shape shape = shape_at(r, at);
    struct pass_cost *pass = &r->pass_costs[at->cell];
    *pass = (struct pass_cost){ .forward_ns = cost->forward_ns,
                                .backward_ns = cost->backward_ns,
                                .activation_bytes = cost->activation_bytes,
                                .workspace_bytes = cost->workspace_bytes };
    if (sends_to(r, at->part + 1, at->micro_batch)) pass->send_forward_ns = cost->send_forward_ns;
    if (sends_to(r, at->part - 1, at->micro_batch)) pass->send_backward_ns = cost->send_backward_ns;
    step_block_options(r->model, at->part, &shape, pass);
}

static bool plan_iteration(struct step_runner *r, struct error *err) {
    const struct step_model *m = r->model;
    size_t cells = (size_t)r->cell_first[m->part_count];
    if (m->plan->module_count == 0) fill_static_order(r); /* a planner may leave it */
    for (int64_t part = 0; part < m->part_count; part++)
        for_each_cell(r, part, fill_pass_cost, NULL);
    memset(r->choices, 0, sizeof *r->choices * cells);
    arena_reset(r->scratch);
    double *capacity = arena_array(r->scratch, double, m->stage_count);
    for (int64_t stage = 0; stage < m->stage_count; stage++)
        capacity[stage] = step_activation_capacity(m, stage);
    struct iteration_plan iteration = { .scratch = r->scratch,
                                        .micro_batch_count = r->micro_batch_count,
                                        .shapes = r->shapes,
                                        .entries = r->entries,
                                        .entry_count = r->entry_count,
                                        .units = r->units,
                                        .cell_first = r->cell_first,
                                        .costs = r->pass_costs,
                                        .activation_capacity_bytes = capacity,
                                        .choices = r->choices };
    if (!m->iteration_planner->plan_iteration(m->oracle, m->iteration_parameters, m->plan,
                                              &iteration, err))
        return false;
    r->bound_ns = iteration.bound_ns;
    r->planner_s = iteration.planner_s;
    r->planner_timed = iteration.timed;
    return check_order(r, m->iteration_planner->name, err);
}

static bool fill_order(struct step_runner *r, struct error *err) {
    r->static_order = r->given == NULL && r->model->iteration_planner == NULL;
    if (r->given != NULL) {
        memcpy(r->entries, r->given,
               sizeof *r->entries * (size_t)(r->model->stage_count * r->entry_count));
        return check_order(r, "given", err);
    }
    if (!r->static_order) return plan_iteration(r, err);
    fill_static_order(r);
    return true;
}

/* ---- building ---- */

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

/* A pass begins and ends on the compute stream, whose order keeps passes apart. */
static void add_operator_pass(struct step_runner *r, int64_t part, const struct batch_shape *shape,
                              bool backward, int32_t *first, int32_t *last) {
    const struct step_model *m = r->model;
    const struct model *model = m->scenario->model;
    int64_t stage = part % m->stage_count;
    int64_t begin = m->plan->first_layer[part], end = m->plan->first_layer[part + 1];
    *first = task_graph_add_task(r->graph, r->compute[stage], 0, NO_TASK);
    struct pass_builder b = { r, stage, *first, NO_TASK, NO_TASK, NO_TASK };
    struct operator_time operators[PRICE_OPERATOR_LIMIT];
    struct layer_time times[LAYER_KIND_COUNT];
    if (m->scenario->training_fields.offload_blocks > 0) step_layer_times(m, shape, times);
    for (int64_t n = 0; n < end - begin; n++) {
        int64_t i = backward ? end - 1 - n : begin + n;
        enum layer_kind kind = model->layers[i].kind;
        const struct price_table *prices = price_table_of_layer(m->prices, i);
        struct gradient_need need = model_gradient_need(model, i);
        if (backward && !need.input && !need.weight) continue;
        int64_t count = 0;
        if (backward)
            count = price_table_recompute_operators(prices, kind, shape, m->plan->recompute[i],
                                                    operators);
        add_operators(&b, operators, count);
        count = price_table_operators(prices, kind, shape,
                                      backward ? PASS_SET_BACKWARD : PASS_SET_FORWARD, operators);
        add_operators(&b, operators, count);
        if (!m->offloaded[i]) continue;
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

/* Units of one micro-batch on a part and on the next: one to one inside a module, all to all between
 * two. */
static void join_parts(struct step_runner *r, int64_t part, int64_t micro_batch) {
    const int32_t *from = units_of(r, part) + micro_batch,
                  *to = units_of(r, part + 1) + micro_batch;
    bool same = from == to;
    for (int32_t a = from[0]; a < from[1]; a++)
        for (int32_t b = same ? a : to[0]; b < (same ? a + 1 : to[1]); b++) {
            int64_t before = r->cell_first[part] + a, after = r->cell_first[part + 1] + b;
            task_graph_add_dependency(r->graph, r->send_forward[before], r->forward_first[after],
                                      0);
            task_graph_add_dependency(r->graph, r->send_backward[after],
                                      r->backward_first[before], 0);
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

static void build_graph(struct step_runner *r) {
    task_graph_clear(r->graph);
    add_resources(r);
    for (int64_t stage = 0; stage < r->model->stage_count; stage++)
        for (int64_t i = 0; i < r->entry_count; i++)
            add_entry(r, stage, &r->entries[stage * r->entry_count + i]);
    add_stage_dependencies(r);
}

/* Stage fidelity keeps the graph and changes what depends on the micro-batches. */
static void update_durations(struct step_runner *r) {
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

/* ---- memory: a stage runs its entries in order, so the peak follows from them ---- */

static void walk_memory(struct step_runner *r, int64_t stage) {
    const struct schedule_entry *entries = r->entries + stage * r->entry_count;
    double live = 0, best = -1, best_live = 0, best_workspace = 0;
    for (int64_t i = 0; i < r->entry_count; i++) {
        const struct stage_cost *cost = &r->costs[cell_of(r, stage, &entries[i])];
        if (!entries[i].backward) live += cost->activation_bytes;
        if (live + cost->workspace_bytes > best) {
            best = live + cost->workspace_bytes;
            best_live = live;
            best_workspace = cost->workspace_bytes;
        }
        if (entries[i].backward) live -= cost->activation_bytes;
    }
    r->memory[stage] = r->model->static_memory[stage];
    r->memory[stage].bytes[MEMORY_ACTIVATIONS] = best_live;
    r->memory[stage].bytes[MEMORY_WORKSPACE] = best_workspace;
    stage_memory_add_fragmentation(&r->memory[stage],
                                   r->model->scenario->backend->reserved_fraction);
}

/* ---- running ---- */

static void sum_part(struct step_runner *r, int64_t part, struct rank_outcome *outcome) {
    bool blocks = r->model->scenario->backend->send_blocks_compute;
    int64_t forward = 0, backward = 0, recompute = 0, send = 0;
    for (int64_t cell = r->cell_first[part]; cell < r->cell_first[part + 1]; cell++) {
        const struct stage_cost *cost = &r->costs[cell];
        forward += cost->forward_ns;
        backward += cost->backward_ns;
        recompute += cost->recompute_ns;
        if (blocks && r->send_forward[cell] != NO_TASK) send += cost->send_forward_ns;
        if (blocks && r->send_backward[cell] != NO_TASK) send += cost->send_backward_ns;
        for (int class = 0; class < TIME_CLASS_COUNT; class ++)
            outcome->class_ns[class] += cost->class_ns[class];
    }
    outcome->class_ns[TIME_SEND] += (double)send;
    r->busy_ns[part % r->model->stage_count] += forward + backward + send;
    r->forward_ns[part] = forward;
    r->backward_ns[part] = backward;
    r->recompute_ns[part] = recompute;
}

static void sum_flop(const struct step_model *m, const struct layer_time times[LAYER_KIND_COUNT],
                     struct rank_outcome *outcome) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        if (m->kind_layers[kind] == 0) continue;
        outcome->model_flop += m->kind_layers[kind] * times[kind].training_flop;
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            if (m->kind_recomputing[kind][how] > 0)
                outcome->recompute_flop +=
                    m->kind_recomputing[kind][how] * times[kind].recompute_flop[how];
    }
}

/* Room for so many micro-batches; says whether the graph must be built anew. */
static bool prepare(struct step_runner *r, enum fidelity fidelity, const struct batch_shape *shapes,
                    int64_t micro_batch_count) {
    ballast_check(micro_batch_count > 0);
    bool split = shapes != NULL && r->model->plan->module_count > 0;
    bool rebuild = fidelity == FIDELITY_OPERATOR || r->fidelity != fidelity || split || r->split ||
                   r->micro_batch_count != micro_batch_count || !r->static_order ||
                   r->given != NULL || r->model->iteration_planner != NULL;
    if (split || r->split || r->micro_batch_count != micro_batch_count) {
        number_units(r, shapes, micro_batch_count, split);
        grow(r);
    }
    r->split = split;
    r->fidelity = fidelity;
    r->micro_batch_count = micro_batch_count;
    return rebuild;
}

static int64_t scaled(int64_t ns, double factor) {
    return (int64_t)((double)ns * factor + 0.5);
}

/* With sharding the passes follow from the locked times, in which the slow rank is slow already. */
static void slow_down(struct step_runner *r) {
    const struct step_model *m = r->model;
    const struct step_slowness *slow = &r->slowness;
    for (int64_t part = 0; part < m->part_count; part++) {
        int64_t stage = part % m->stage_count;
        double factor = slow->rank * (stage == slow->stage ? slow->stage_factor : 1);
        bool before = stage == slow->link_stage,
             after = stage == (slow->link_stage + 1) % m->stage_count;
        for (int64_t cell = r->cell_first[part]; cell < r->cell_first[part + 1]; cell++) {
            struct stage_cost *cost = &r->costs[cell];
            if (factor != 1 && !m->sharded) {
                cost->forward_ns = scaled(cost->forward_ns, factor);
                cost->backward_ns = scaled(cost->backward_ns, factor);
                cost->recompute_ns = scaled(cost->recompute_ns, factor);
                for (int class = 0; class < TIME_CLASS_COUNT; class ++)
                    cost->class_ns[class] *= factor;
            }
            if (before) cost->send_forward_ns = scaled(cost->send_forward_ns, slow->link_factor);
            if (after) cost->send_backward_ns = scaled(cost->send_backward_ns, slow->link_factor);
        }
    }
}

static void price_cell(struct step_runner *r, const struct place_in_step *at, void *context) {
    const struct layer_time(*whole)[LAYER_KIND_COUNT] = context;
    const struct step_model *m = r->model;
    const struct layer_time *locked = r->locked != NULL ? r->locked[at->micro_batch] : NULL;
    const struct pass_choice *choice = r->chosen ? &r->choices[at->cell] : NULL;
    if (at->pieces == 1) {
        step_stage_cost_as(m, at->part, &r->shapes[at->micro_batch], whole[at->micro_batch], locked,
                           choice, &r->costs[at->cell]);
        return;
    }
    struct batch_shape shape = shape_at(r, at);
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(m, &shape, times);
    step_stage_cost_as(m, at->part, &shape, times, locked, choice, &r->costs[at->cell]);
}

static void price_cells(struct step_runner *r) {
    r->unit_times =
        memory_realloc(r->unit_times, sizeof *r->unit_times * (size_t)r->micro_batch_count);
    for (int64_t i = 0; i < r->micro_batch_count; i++)
        step_layer_times(r->model, &r->shapes[i], r->unit_times[i]);
    for (int64_t part = 0; part < r->model->part_count; part++)
        for_each_cell(r, part, price_cell, r->unit_times);
    if (r->is_slow) slow_down(r);
}

static bool any_choice(const struct step_runner *r) {
    static const struct pass_choice none;
    if (r->choices == NULL || r->given != NULL || r->model->iteration_planner == NULL) return false;
    for (int64_t cell = 0; cell < r->cell_first[r->model->part_count]; cell++)
        if (memcmp(&r->choices[cell], &none, sizeof none) != 0) return true;
    return false;
}

static void find_finish(struct step_runner *r, const struct place_in_step *at, void *context) {
    (void)context;
    int64_t *finish = &r->finish_ns[at->part % r->model->stage_count];
    int32_t last = r->send_backward[at->cell] != NO_TASK ? r->send_backward[at->cell]
                                                        : r->backward_last[at->cell];
    if (r->engine->finish_ns[last] > *finish) *finish = r->engine->finish_ns[last];
}

/* What the choices of the planner recompute less than the plan. */
static void correct_flop(struct step_runner *r, const struct place_in_step *at, void *context) {
    struct rank_outcome *outcome = context;
    struct batch_shape shape = shape_at(r, at);
    outcome->recompute_flop +=
        step_choice_flop(r->model, at->part, &shape, &r->choices[at->cell]);
}

static bool run_graph(struct step_runner *r, bool rebuild, struct rank_outcome *outcome,
                      struct error *err) {
    const struct step_model *m = r->model;
    if (rebuild || r->clock != NULL)
        build_graph(r);
    else
        update_durations(r);
    if (!engine_run(r->engine, r->graph, err)) return false;
    outcome->makespan_ns = r->engine->makespan_ns;
    for (int64_t part = 0; part < m->part_count; part++)
        for_each_cell(r, part, find_finish, NULL);
    return true;
}

/* False: the order runs into a dead end, and the graph will say where. */
static bool run_clock(struct step_runner *r, bool rebuild, struct rank_outcome *outcome) {
    const struct step_model *m = r->model;
    if (rebuild && !pipeline_clock_order(r->clock, m->stage_count, m->chunk_count,
                                         r->micro_batch_count, r->entries))
        return false;
    outcome->makespan_ns =
        pipeline_clock_run(r->clock, r->costs, m->scenario->backend->send_blocks_compute,
                           r->finish_ns);
    return true;
}

bool step_run_rank(struct step_runner *r, enum fidelity fidelity, const struct batch_shape *shapes,
                   int64_t micro_batch_count, struct rank_outcome *outcome, struct error *err) {
    const struct step_model *m = r->model;
    if (m->sharded && fidelity == FIDELITY_OPERATOR)
        return error_set(err,
                         "operator fidelity does not simulate ZeRO-2 and 3: use stage fidelity");
    if (r->is_slow && fidelity == FIDELITY_OPERATOR)
        return error_set(err, "operator fidelity does not simulate slow GPUs, stragglers and slow "
                              "links: use stage fidelity");
    bool rebuild = prepare(r, fidelity, shapes, micro_batch_count);
    r->shapes = shapes;
    r->chosen = false;
    *outcome = (struct rank_outcome){ .finish_ns = r->finish_ns,
                                      .busy_ns = r->busy_ns,
                                      .forward_ns = r->forward_ns,
                                      .backward_ns = r->backward_ns,
                                      .recompute_ns = r->recompute_ns,
                                      .memory = r->memory };
    price_cells(r);
    if (rebuild && !fill_order(r, err)) return false;
    r->chosen = rebuild && any_choice(r);
    if (r->chosen && fidelity == FIDELITY_OPERATOR)
        return error_set(err, "operator fidelity does not simulate recomputation that changes from "
                              "micro-batch to micro-batch: use stage fidelity");
    if (r->chosen) price_cells(r);
    memset(r->finish_ns, 0, sizeof *r->finish_ns * (size_t)m->stage_count);
    memset(r->busy_ns, 0, sizeof *r->busy_ns * (size_t)m->stage_count);
    /* The clock knows whole micro-batches only. */
    bool clock = r->clock != NULL && fidelity == FIDELITY_STAGE && !r->split;
    if (!(clock && run_clock(r, rebuild, outcome)) && !run_graph(r, rebuild, outcome, err))
        return false;
    outcome->bound_ns = r->bound_ns;
    outcome->planner_s = r->planner_s;
    outcome->planner_timed = r->planner_timed;
    for (int64_t part = 0; part < m->part_count; part++)
        sum_part(r, part, outcome);
    for (int64_t stage = 0; stage < m->stage_count; stage++)
        walk_memory(r, stage);
    for (int64_t i = 0; i < micro_batch_count; i++)
        sum_flop(m, r->unit_times[i], outcome);
    for (int64_t part = 0; r->chosen && part < m->part_count; part++)
        for_each_cell(r, part, correct_flop, outcome);
    return true;
}

bool step_run_constant(struct step_runner *r, const struct stage_cost *by_part,
                       int64_t micro_batch_count, int64_t *makespan_ns, struct error *err) {
    bool rebuild =
        prepare(r, FIDELITY_STAGE, NULL, micro_batch_count) || r->clock != NULL;
    for (int64_t part = 0; part < r->model->part_count; part++)
        for (int64_t cell = r->cell_first[part]; cell < r->cell_first[part + 1]; cell++)
            r->costs[cell] = by_part[part];
    if (rebuild) {
        fill_static_order(r);
        r->static_order = true;
        build_graph(r);
    } else {
        update_durations(r);
    }
    if (!engine_run(r->engine, r->graph, err)) return false;
    *makespan_ns = r->engine->makespan_ns;
    return true;
}

void step_runner_lock(struct step_runner *r, const struct layer_time (*times)[LAYER_KIND_COUNT]) {
    r->locked = times;
}

void step_runner_order(struct step_runner *r, const struct schedule_entry *entries) {
    r->given = entries;
}

void step_runner_slow(struct step_runner *r, const struct step_slowness *slowness) {
    r->slowness = *slowness;
    r->is_slow =
        slowness->rank != 1 || slowness->stage_factor != 1 || slowness->link_factor != 1;
}

void step_runner_times_only(struct step_runner *r, bool times_only) {
    pipeline_clock_destroy(r->clock);
    r->clock = times_only ? pipeline_clock_create() : NULL;
}

int64_t step_runner_task_count(const struct step_runner *r) {
    return r->graph->task_count;
}

/* ---- looking at the last run ---- */

void step_runner_spans(const struct step_runner *r, step_span_visit visit, void *context) {
    const int64_t *start = r->engine->start_ns, *finish = r->engine->finish_ns;
    for (int64_t stage = 0; stage < r->model->stage_count; stage++) {
        const struct schedule_entry *entries = r->entries + stage * r->entry_count;
        for (int64_t i = 0; i < r->entry_count; i++) {
            int64_t cell = cell_of(r, stage, &entries[i]);
            bool backward = entries[i].backward;
            struct step_span span = { .stage = stage,
                                      .chunk = entries[i].chunk,
                                      .micro_batch = entries[i].micro_batch,
                                      .sub = entries[i].sub };
            span.kind = backward ? SPAN_BACKWARD : SPAN_FORWARD;
            span.start_ns = start[backward ? r->backward_first[cell] : r->forward_first[cell]];
            span.finish_ns = finish[backward ? r->backward_last[cell] : r->forward_last[cell]];
            span.recompute_ns = backward ? r->costs[cell].recompute_ns : 0;
            visit(context, &span);
            int32_t send = backward ? r->send_backward[cell] : r->send_forward[cell];
            if (send == NO_TASK) continue;
            span.kind = backward ? SPAN_SEND_BACKWARD : SPAN_SEND_FORWARD;
            span.communication = true;
            span.recompute_ns = 0;
            span.start_ns = r->fidelity == FIDELITY_OPERATOR ? span.finish_ns : start[send];
            span.finish_ns = finish[send];
            visit(context, &span);
        }
    }
}

static void fill_pass(const struct step_runner *r, int64_t stage,
                      const struct schedule_entry *entry, struct step_pass *pass) {
    int64_t cell = cell_of(r, stage, entry);
    const struct stage_cost *cost = &r->costs[cell];
    int32_t send = entry->backward ? r->send_backward[cell] : r->send_forward[cell];
    *pass = (struct step_pass){ .stage = stage,
                                .chunk = entry->chunk,
                                .micro_batch = entry->micro_batch,
                                .sub = entry->sub,
                                .backward = entry->backward,
                                .activation_bytes = cost->activation_bytes,
                                .workspace_bytes = cost->workspace_bytes };
    pass->start_ns =
        r->engine->start_ns[entry->backward ? r->backward_first[cell] : r->forward_first[cell]];
    pass->finish_ns =
        r->engine->finish_ns[entry->backward ? r->backward_last[cell] : r->forward_last[cell]];
    if (send != NO_TASK)
        pass->send_ns = entry->backward ? cost->send_backward_ns : cost->send_forward_ns;
    step_planned_blocks(r->model, part_of(r, stage, entry), &pass->blocks);
    static const struct pass_choice none;
    if (r->chosen && memcmp(&r->choices[cell], &none, sizeof none) != 0)
        pass->blocks = r->choices[cell];
}

void step_runner_passes(const struct step_runner *r, step_pass_visit visit, void *context) {
    ballast_check(r->fidelity == FIDELITY_STAGE);
    for (int64_t stage = 0; stage < r->model->stage_count; stage++)
        for (int64_t i = 0; i < r->entry_count; i++) {
            struct step_pass pass;
            fill_pass(r, stage, &r->entries[stage * r->entry_count + i], &pass);
            visit(context, &pass);
        }
}

int64_t step_runner_units(const struct step_runner *r, int64_t module, int64_t micro_batch) {
    const int32_t *units = r->units + module * (r->micro_batch_count + 1) + micro_batch;
    return units[1] - units[0];
}

static void name_spans(struct step_runner *r, const struct place_in_step *at, void *context) {
    struct step_span *spans = context;
    struct step_span span = { .stage = at->part % r->model->stage_count,
                              .chunk = at->part / r->model->stage_count,
                              .micro_batch = at->micro_batch,
                              .sub = at->sub };
    span.kind = SPAN_FORWARD;
    spans[r->forward_first[at->cell]] = span;
    span.kind = SPAN_BACKWARD;
    spans[r->backward_first[at->cell]] = span;
    span.communication = true;
    span.kind = SPAN_SEND_FORWARD;
    if (r->send_forward[at->cell] != NO_TASK) spans[r->send_forward[at->cell]] = span;
    span.kind = SPAN_SEND_BACKWARD;
    if (r->send_backward[at->cell] != NO_TASK) spans[r->send_backward[at->cell]] = span;
}

void step_runner_critical_path(struct step_runner *r, step_span_visit visit, void *context) {
    ballast_check(r->fidelity == FIDELITY_STAGE);
    int32_t *path = memory_alloc(sizeof *path * (size_t)r->graph->task_count);
    struct step_span *spans = memory_alloc(sizeof *spans * (size_t)r->graph->task_count);
    for (int64_t part = 0; part < r->model->part_count; part++)
        for_each_cell(r, part, name_spans, spans);
    int32_t count = engine_critical_path(r->engine, r->graph, path, r->graph->task_count);
    for (int32_t i = 0; i < count; i++) {
        struct step_span *span = &spans[path[i]];
        span->start_ns = r->engine->start_ns[path[i]];
        span->finish_ns = r->engine->finish_ns[path[i]];
        visit(context, span);
    }
    free(spans);
    free(path);
}

void step_runner_memory(const struct step_runner *r, step_memory_visit visit, void *context) {
    for (int64_t stage = 0; stage < r->model->stage_count; stage++) {
        const struct schedule_entry *entries = r->entries + stage * r->entry_count;
        double live = 0;
        for (int64_t i = 0; i < r->entry_count; i++) {
            int64_t cell = cell_of(r, stage, &entries[i]);
            const struct stage_cost *cost = &r->costs[cell];
            if (!entries[i].backward) {
                live += cost->activation_bytes;
                visit(context, stage, r->engine->start_ns[r->forward_first[cell]],
                      live + cost->workspace_bytes);
                visit(context, stage, r->engine->finish_ns[r->forward_last[cell]], live);
            } else {
                visit(context, stage, r->engine->start_ns[r->backward_first[cell]],
                      live + cost->workspace_bytes);
                live -= cost->activation_bytes;
                visit(context, stage, r->engine->finish_ns[r->backward_last[cell]], live);
            }
        }
    }
}
