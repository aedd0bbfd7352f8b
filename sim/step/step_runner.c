/* step_runner.c - the pipeline of one data-parallel rank as a task graph.
 *
 * Stage fidelity: two tasks a micro-batch and stage, and a send between neighbours. A send that
 * blocks compute stands on the sender's compute stream; one that does not has a stream per link and
 * direction. The graph depends on (stages, micro-batches, schedule) only, so it is built once and
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
    /* by part x micro_batch_count + micro-batch: first and last task of each pass, and its send */
    int32_t *forward_first, *forward_last, *backward_first, *backward_last;
    int32_t *send_forward, *send_backward;
    struct stage_cost *costs;
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
    return r;
}

void step_runner_destroy(struct step_runner *r) {
    if (r == NULL) return;
    engine_destroy(r->engine);
    arena_destroy(r->scratch);
    task_graph_destroy(r->graph);
    free(r->entries);
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

static void grow(struct step_runner *r, int64_t micro_batches) {
    size_t cells = (size_t)(r->model->part_count * micro_batches);
    r->entry_count = 2 * micro_batches * r->model->chunk_count;
    r->entries = memory_realloc(r->entries, sizeof *r->entries * cells * 2);
    int32_t **tasks[] = { &r->forward_first, &r->forward_last, &r->backward_first,
                          &r->backward_last, &r->send_forward, &r->send_backward };
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        *tasks[i] = memory_realloc(*tasks[i], sizeof **tasks[i] * cells);
    r->costs = memory_realloc(r->costs, sizeof *r->costs * cells);
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
    return part_of(r, stage, entry) * r->micro_batch_count + entry->micro_batch;
}

static void fill_static_order(struct step_runner *r) {
    for (int64_t stage = 0; stage < r->model->stage_count; stage++) {
        struct schedule_place place = place_of(r, stage);
        r->model->plan->schedule->order(&place, r->entries + stage * r->entry_count);
    }
}

/* Every stage must run each pass of each micro-batch and chunk once. */
static bool check_order(const struct step_runner *r, const char *name, struct error *err) {
    int64_t count = r->micro_batch_count;
    bool *seen = memory_alloc(sizeof *seen * (size_t)r->entry_count);
    bool ok = true;
    for (int64_t stage = 0; ok && stage < r->model->stage_count; stage++) {
        memset(seen, 0, sizeof *seen * (size_t)r->entry_count);
        for (int64_t i = 0; ok && i < r->entry_count; i++) {
            const struct schedule_entry *entry = &r->entries[stage * r->entry_count + i];
            bool inside = entry->micro_batch >= 0 && entry->micro_batch < count &&
                          entry->chunk >= 0 && entry->chunk < r->model->chunk_count;
            bool *cell =
                inside ? &seen[2 * (entry->chunk * count + entry->micro_batch) + entry->backward]
                       : NULL;
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

static bool plan_iteration(struct step_runner *r, struct error *err) {
    const struct step_model *m = r->model;
    fill_static_order(r); /* a planner may leave what it does not decide */
    arena_reset(r->scratch);
    struct iteration_plan iteration = { .scratch = r->scratch,
                                        .micro_batch_count = r->micro_batch_count,
                                        .shapes = r->shapes,
                                        .entries = r->entries };
    return m->iteration_planner->plan_iteration(m->oracle, m->iteration_parameters, m->plan,
                                                &iteration, err) &&
           check_order(r, m->iteration_planner->name, err);
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
        struct offload_time copies = step_offload_time(m, i, shape, times);
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
    const struct step_model *m = r->model;
    int64_t part = part_of(r, stage, entry), cell = cell_of(r, stage, entry);
    const struct stage_cost *cost = &r->costs[cell];
    int32_t first, last;
    if (r->fidelity == FIDELITY_OPERATOR) {
        add_operator_pass(r, part, &r->shapes[entry->micro_batch], entry->backward, &first, &last);
    } else {
        first = last =
            task_graph_add_task(r->graph, r->compute[stage],
                                entry->backward ? cost->backward_ns : cost->forward_ns, NO_TASK);
    }
    if (entry->backward) {
        r->backward_first[cell] = first;
        r->backward_last[cell] = last;
        if (part > 0)
            r->send_backward[cell] = add_send(r, stage, true, last, cost->send_backward_ns);
    } else {
        r->forward_first[cell] = first;
        r->forward_last[cell] = last;
        if (part + 1 < m->part_count)
            r->send_forward[cell] = add_send(r, stage, false, last, cost->send_forward_ns);
    }
}

static void add_stage_dependencies(struct step_runner *r) {
    int64_t parts = r->model->part_count, count = r->micro_batch_count;
    for (int64_t part = 0; part < parts; part++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t cell = part * count + i;
            if (part > 0)
                task_graph_add_dependency(r->graph, r->send_forward[cell - count],
                                          r->forward_first[cell], 0);
            if (part + 1 < parts)
                task_graph_add_dependency(r->graph, r->send_backward[cell + count],
                                          r->backward_first[cell], 0);
            else
                task_graph_add_dependency(r->graph, r->forward_last[cell], r->backward_first[cell],
                                          0);
        }
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
    int64_t parts = r->model->part_count, count = r->micro_batch_count;
    for (int64_t part = 0; part < parts; part++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t cell = part * count + i;
            const struct stage_cost *cost = &r->costs[cell];
            duration[r->forward_first[cell]] = cost->forward_ns;
            duration[r->backward_first[cell]] = cost->backward_ns;
            if (part + 1 < parts) duration[r->send_forward[cell]] = cost->send_forward_ns;
            if (part > 0) duration[r->send_backward[cell]] = cost->send_backward_ns;
        }
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
    for (int64_t i = 0; i < r->micro_batch_count; i++) {
        const struct stage_cost *cost = &r->costs[part * r->micro_batch_count + i];
        forward += cost->forward_ns;
        backward += cost->backward_ns;
        recompute += cost->recompute_ns;
        if (blocks) send += cost->send_forward_ns + cost->send_backward_ns;
        for (int class = 0; class < TIME_CLASS_COUNT; class ++)
            outcome->class_ns[class] += cost->class_ns[class];
    }
    outcome->class_ns[TIME_SEND] += (double)send;
    r->busy_ns[part % r->model->stage_count] += forward + backward + send;
    r->forward_ns[part] = forward;
    r->backward_ns[part] = backward;
    r->recompute_ns[part] = recompute;
}

static void sum_flop(const struct step_model *m, const struct batch_shape *shape,
                     struct rank_outcome *outcome) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        if (m->kind_layers[kind] == 0) continue;
        enum layer_kind k = (enum layer_kind)kind;
        outcome->model_flop +=
            m->kind_layers[kind] * price_table_training_flop(m->prices, k, shape);
        for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
            if (m->kind_recomputing[kind][how] > 0)
                outcome->recompute_flop +=
                    m->kind_recomputing[kind][how] *
                    price_table_recompute_flop(m->prices, k, shape, (enum recompute_kind)how);
    }
}

/* Room for so many micro-batches; says whether the graph must be built anew. */
static bool prepare(struct step_runner *r, enum fidelity fidelity, int64_t micro_batch_count) {
    ballast_check(micro_batch_count > 0);
    bool rebuild = fidelity == FIDELITY_OPERATOR || r->fidelity != fidelity ||
                   r->micro_batch_count != micro_batch_count || !r->static_order ||
                   r->given != NULL || r->model->iteration_planner != NULL;
    if (r->micro_batch_count != micro_batch_count) grow(r, micro_batch_count);
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
        for (int64_t i = 0; i < r->micro_batch_count; i++) {
            struct stage_cost *cost = &r->costs[part * r->micro_batch_count + i];
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

static bool run_graph(struct step_runner *r, bool rebuild, struct rank_outcome *outcome,
                      struct error *err) {
    const struct step_model *m = r->model;
    if (rebuild || r->clock != NULL)
        build_graph(r);
    else
        update_durations(r);
    if (!engine_run(r->engine, r->graph, err)) return false;
    outcome->makespan_ns = r->engine->makespan_ns;
    for (int64_t part = 0; part < m->part_count; part++) {
        int64_t *finish = &r->finish_ns[part % m->stage_count];
        for (int64_t i = 0; i < r->micro_batch_count; i++) {
            int64_t cell = part * r->micro_batch_count + i;
            int64_t end =
                r->engine->finish_ns[part > 0 ? r->send_backward[cell] : r->backward_last[cell]];
            if (end > *finish) *finish = end;
        }
    }
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
    bool rebuild = prepare(r, fidelity, micro_batch_count);
    r->shapes = shapes;
    *outcome = (struct rank_outcome){ .finish_ns = r->finish_ns,
                                      .busy_ns = r->busy_ns,
                                      .forward_ns = r->forward_ns,
                                      .backward_ns = r->backward_ns,
                                      .recompute_ns = r->recompute_ns,
                                      .memory = r->memory };
    for (int64_t i = 0; i < micro_batch_count; i++) {
        struct layer_time times[LAYER_KIND_COUNT];
        step_layer_times(m, &shapes[i], times);
        for (int64_t part = 0; part < m->part_count; part++)
            step_stage_cost(m, part, &shapes[i], times, r->locked != NULL ? r->locked[i] : NULL,
                            &r->costs[part * micro_batch_count + i]);
    }
    if (r->is_slow) slow_down(r);
    if (rebuild && !fill_order(r, err)) return false;
    memset(r->finish_ns, 0, sizeof *r->finish_ns * (size_t)m->stage_count);
    memset(r->busy_ns, 0, sizeof *r->busy_ns * (size_t)m->stage_count);
    if (!(r->clock != NULL && fidelity == FIDELITY_STAGE && run_clock(r, rebuild, outcome)) &&
        !run_graph(r, rebuild, outcome, err))
        return false;
    for (int64_t part = 0; part < m->part_count; part++)
        sum_part(r, part, outcome);
    for (int64_t stage = 0; stage < m->stage_count; stage++)
        walk_memory(r, stage);
    for (int64_t i = 0; i < micro_batch_count; i++)
        sum_flop(m, &shapes[i], outcome);
    return true;
}

bool step_run_constant(struct step_runner *r, const struct stage_cost *by_part,
                       int64_t micro_batch_count, int64_t *makespan_ns, struct error *err) {
    bool rebuild = prepare(r, FIDELITY_STAGE, micro_batch_count) || r->clock != NULL;
    for (int64_t part = 0; part < r->model->part_count; part++)
        for (int64_t i = 0; i < micro_batch_count; i++)
            r->costs[part * micro_batch_count + i] = by_part[part];
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
            int64_t part = part_of(r, stage, &entries[i]), cell = cell_of(r, stage, &entries[i]);
            bool backward = entries[i].backward;
            struct step_span span = { .stage = stage,
                                      .chunk = entries[i].chunk,
                                      .micro_batch = entries[i].micro_batch };
            span.kind = backward ? SPAN_BACKWARD : SPAN_FORWARD;
            span.start_ns = start[backward ? r->backward_first[cell] : r->forward_first[cell]];
            span.finish_ns = finish[backward ? r->backward_last[cell] : r->forward_last[cell]];
            span.recompute_ns = backward ? r->costs[cell].recompute_ns : 0;
            visit(context, &span);
            bool sends = backward ? part > 0 : part + 1 < r->model->part_count;
            if (!sends) continue;
            int32_t send = backward ? r->send_backward[cell] : r->send_forward[cell];
            span.kind = backward ? SPAN_SEND_BACKWARD : SPAN_SEND_FORWARD;
            span.communication = true;
            span.recompute_ns = 0;
            span.start_ns = r->fidelity == FIDELITY_OPERATOR ? span.finish_ns : start[send];
            span.finish_ns = finish[send];
            visit(context, &span);
        }
    }
}

void step_runner_critical_path(struct step_runner *r, step_span_visit visit, void *context) {
    ballast_check(r->fidelity == FIDELITY_STAGE);
    int64_t cells = r->model->part_count * r->micro_batch_count;
    int32_t *path = memory_alloc(sizeof *path * (size_t)r->graph->task_count);
    struct step_span *spans = memory_alloc(sizeof *spans * (size_t)r->graph->task_count);
    for (int64_t cell = 0; cell < cells; cell++) {
        int64_t part = cell / r->micro_batch_count;
        struct step_span span = { .stage = part % r->model->stage_count,
                                  .chunk = part / r->model->stage_count,
                                  .micro_batch = cell % r->micro_batch_count };
        span.kind = SPAN_FORWARD;
        spans[r->forward_first[cell]] = span;
        span.kind = SPAN_BACKWARD;
        spans[r->backward_first[cell]] = span;
        span.communication = true;
        span.kind = SPAN_SEND_FORWARD;
        if (part + 1 < r->model->part_count) spans[r->send_forward[cell]] = span;
        span.kind = SPAN_SEND_BACKWARD;
        if (part > 0) spans[r->send_backward[cell]] = span;
    }
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
