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

enum { NO_TASK = -1 };

struct step_runner {
    const struct step_model *model;
    struct engine *engine;
    struct task_graph *graph;
    enum fidelity fidelity;         /* of the graph */
    int64_t micro_batch_count;      /* of the graph; 0: none yet */
    struct schedule_entry *entries; /* stage s from s x 2 x micro_batch_count */
    /* by stage x micro_batch_count + micro-batch: first and last task of each pass, and its send */
    int32_t *forward_first, *forward_last, *backward_first, *backward_last;
    int32_t *send_forward, *send_backward;
    struct stage_cost *costs;
    int32_t *compute, *communication, *link_forward, *link_backward; /* resources by stage */
    int32_t *nic; /* shared outgoing NICs by stage, or NO_TASK */
    /* while building: the last send of each stage that leaves its node, or NO_TASK */
    int32_t *latest_forward, *latest_backward;
    int64_t *finish_ns, *busy_ns, *forward_ns, *backward_ns, *recompute_ns;
    struct stage_memory *memory;
    const struct batch_shape *shapes; /* of the last run */
};

struct step_runner *step_runner_create(const struct step_model *model) {
    struct step_runner *r = memory_alloc(sizeof *r);
    *r = (struct step_runner){ .model = model,
                               .engine = engine_create(),
                               .graph = task_graph_create() };
    size_t stages = (size_t)model->stage_count;
    int32_t **by_stage[] = { &r->compute, &r->communication,  &r->link_forward,   &r->link_backward,
                             &r->nic,     &r->latest_forward, &r->latest_backward };
    for (size_t i = 0; i < sizeof by_stage / sizeof by_stage[0]; i++)
        *by_stage[i] = memory_alloc(sizeof **by_stage[i] * stages);
    int64_t **times[] = { &r->finish_ns, &r->busy_ns, &r->forward_ns, &r->backward_ns,
                          &r->recompute_ns };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        *times[i] = memory_alloc(sizeof **times[i] * stages);
    r->memory = memory_alloc(sizeof *r->memory * stages);
    return r;
}

void step_runner_destroy(struct step_runner *r) {
    if (r == NULL) return;
    engine_destroy(r->engine);
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
    free(r);
}

static void grow(struct step_runner *r, int64_t micro_batches) {
    size_t cells = (size_t)(r->model->stage_count * micro_batches);
    r->entries = memory_realloc(r->entries, sizeof *r->entries * cells * 2);
    int32_t **tasks[] = { &r->forward_first, &r->forward_last, &r->backward_first,
                          &r->backward_last, &r->send_forward, &r->send_backward };
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++)
        *tasks[i] = memory_realloc(*tasks[i], sizeof **tasks[i] * cells);
    r->costs = memory_realloc(r->costs, sizeof *r->costs * cells);
}

static void fill_static_order(struct step_runner *r) {
    const struct step_model *m = r->model;
    for (int64_t stage = 0; stage < m->stage_count; stage++)
        m->plan->schedule->order(stage, m->stage_count, r->micro_batch_count,
                                 r->entries + stage * 2 * r->micro_batch_count);
}

/* Every stage must run each pass of each micro-batch once. */
static bool check_order(const struct step_runner *r, struct error *err) {
    int64_t count = r->micro_batch_count;
    bool *seen = memory_alloc(sizeof *seen * 2 * (size_t)count);
    bool ok = true;
    for (int64_t stage = 0; ok && stage < r->model->stage_count; stage++) {
        memset(seen, 0, sizeof *seen * 2 * (size_t)count);
        for (int64_t i = 0; ok && i < 2 * count; i++) {
            const struct schedule_entry *entry = &r->entries[stage * 2 * count + i];
            bool inside = entry->micro_batch >= 0 && entry->micro_batch < count;
            bool *cell = inside ? &seen[2 * entry->micro_batch + entry->backward] : NULL;
            ok = inside && !*cell;
            if (inside) *cell = true;
            if (!ok)
                error_set(err, "policy \"%s\" orders stage %ld wrongly: micro-batch %ld, %s",
                          r->model->iteration_planner->name, (long)stage + 1,
                          (long)entry->micro_batch, inside ? "twice" : "which does not exist");
        }
    }
    free(seen);
    return ok;
}

static bool plan_iteration(struct step_runner *r, struct error *err) {
    const struct step_model *m = r->model;
    fill_static_order(r); /* a planner may leave what it does not decide */
    struct iteration_plan iteration = { .micro_batch_count = r->micro_batch_count,
                                        .shapes = r->shapes,
                                        .entries = r->entries };
    return m->iteration_planner->plan_iteration(m->oracle, m->iteration_parameters, m->plan,
                                                &iteration, err) &&
           check_order(r, err);
}

/* ---- building ---- */

static bool send_crosses_nodes(const struct step_model *m, int64_t from, int64_t to) {
    int64_t link = from < to ? from : to;
    return layout_stage_link(&m->scenario->layout, link).node_count > 1;
}

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
static void add_layer_operators(struct pass_builder *b, enum layer_kind kind, enum pass_set set,
                                const struct batch_shape *shape) {
    struct step_runner *r = b->runner;
    struct operator_time operators[PRICE_OPERATOR_LIMIT];
    int64_t count = price_table_operators(r->model->prices, kind, shape, set, operators);
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
static void add_operator_pass(struct step_runner *r, int64_t stage, const struct batch_shape *shape,
                              bool backward, int32_t *first, int32_t *last) {
    const struct step_model *m = r->model;
    const struct model *model = m->scenario->model;
    int64_t begin = m->plan->first_layer[stage], end = m->plan->first_layer[stage + 1];
    *first = task_graph_add_task(r->graph, r->compute[stage], 0, NO_TASK);
    struct pass_builder b = { r, stage, *first, NO_TASK, NO_TASK, NO_TASK };
    for (int64_t n = 0; n < end - begin; n++) {
        int64_t i = backward ? end - 1 - n : begin + n;
        enum layer_kind kind = model->layers[i].kind;
        struct gradient_need need = model_gradient_need(model, i);
        if (backward && !need.input && !need.weight) continue;
        if (!backward || m->plan->recompute[i])
            add_layer_operators(&b, kind, PASS_SET_FORWARD, shape);
        if (backward) add_layer_operators(&b, kind, PASS_SET_BACKWARD, shape);
    }
    *last = b.last_compute;
    int64_t tail_ns = backward ? m->accumulate_ns[stage] : 0;
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
    int32_t stream = blocks     ? r->compute[stage]
                     : backward ? r->link_backward[stage]
                                : r->link_forward[stage];
    if (r->fidelity == FIDELITY_OPERATOR &&
        send_crosses_nodes(m, stage, backward ? stage - 1 : stage + 1)) {
        /* The stream orders the sends, one after another; the shared NIC times them. */
        int32_t *latest = backward ? &r->latest_backward[stage] : &r->latest_forward[stage];
        int32_t wire = task_graph_add_task(r->graph, r->nic[stage], duration_ns, NO_TASK);
        task_graph_add_dependency(r->graph, after, wire, 0);
        wait_for(r->graph, *latest, wire);
        *latest = wire;
        task_graph_set_rate(r->graph, wire, nic_share(m, backward ? stage - 1 : stage));
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
    int64_t cell = stage * r->micro_batch_count + entry->micro_batch;
    const struct stage_cost *cost = &r->costs[cell];
    int32_t first, last;
    if (r->fidelity == FIDELITY_OPERATOR) {
        add_operator_pass(r, stage, &r->shapes[entry->micro_batch], entry->backward, &first, &last);
    } else {
        first = last =
            task_graph_add_task(r->graph, r->compute[stage],
                                entry->backward ? cost->backward_ns : cost->forward_ns, NO_TASK);
    }
    if (entry->backward) {
        r->backward_first[cell] = first;
        r->backward_last[cell] = last;
        if (stage > 0)
            r->send_backward[cell] = add_send(r, stage, true, last, cost->send_backward_ns);
    } else {
        r->forward_first[cell] = first;
        r->forward_last[cell] = last;
        if (stage + 1 < m->stage_count)
            r->send_forward[cell] = add_send(r, stage, false, last, cost->send_forward_ns);
    }
}

static void add_stage_dependencies(struct step_runner *r) {
    int64_t stages = r->model->stage_count, count = r->micro_batch_count;
    for (int64_t stage = 0; stage < stages; stage++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t cell = stage * count + i;
            if (stage > 0)
                task_graph_add_dependency(r->graph, r->send_forward[cell - count],
                                          r->forward_first[cell], 0);
            if (stage + 1 < stages)
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
        for (int64_t i = 0; i < 2 * r->micro_batch_count; i++)
            add_entry(r, stage, &r->entries[stage * 2 * r->micro_batch_count + i]);
    add_stage_dependencies(r);
}

/* Stage fidelity keeps the graph and changes what depends on the micro-batches. */
static void update_durations(struct step_runner *r) {
    int64_t *duration = r->graph->duration_ns;
    int64_t stages = r->model->stage_count, count = r->micro_batch_count;
    for (int64_t stage = 0; stage < stages; stage++) {
        for (int64_t i = 0; i < count; i++) {
            int64_t cell = stage * count + i;
            const struct stage_cost *cost = &r->costs[cell];
            duration[r->forward_first[cell]] = cost->forward_ns;
            duration[r->backward_first[cell]] = cost->backward_ns;
            if (stage + 1 < stages) duration[r->send_forward[cell]] = cost->send_forward_ns;
            if (stage > 0) duration[r->send_backward[cell]] = cost->send_backward_ns;
        }
    }
}

/* ---- memory: a stage runs its entries one after another, so the peak follows from their order
 * ---- */

static void walk_memory(struct step_runner *r, int64_t stage) {
    const struct schedule_entry *entries = r->entries + stage * 2 * r->micro_batch_count;
    const struct stage_cost *costs = r->costs + stage * r->micro_batch_count;
    double live = 0, best = -1, best_live = 0, best_workspace = 0;
    for (int64_t i = 0; i < 2 * r->micro_batch_count; i++) {
        const struct stage_cost *cost = &costs[entries[i].micro_batch];
        if (!entries[i].backward) live += cost->activation_bytes;
        /* Forward needs the working set too, but of a micro-batch whose input is all that is kept.
         */
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
    stage_memory_add_fragmentation(&r->memory[stage]);
}

/* ---- running ---- */

static void sum_stage(struct step_runner *r, int64_t stage, struct rank_outcome *outcome) {
    bool blocks = r->model->scenario->backend->send_blocks_compute;
    int64_t forward = 0, backward = 0, recompute = 0, send = 0;
    for (int64_t i = 0; i < r->micro_batch_count; i++) {
        const struct stage_cost *cost = &r->costs[stage * r->micro_batch_count + i];
        forward += cost->forward_ns;
        backward += cost->backward_ns;
        recompute += cost->recompute_ns;
        if (blocks) send += cost->send_forward_ns + cost->send_backward_ns;
        for (int class = 0; class < TIME_CLASS_COUNT; class ++)
            outcome->class_ns[class] += cost->class_ns[class];
    }
    outcome->class_ns[TIME_SEND] += (double)send;
    r->busy_ns[stage] = forward + backward + send;
    r->forward_ns[stage] = forward;
    r->backward_ns[stage] = backward;
    r->recompute_ns[stage] = recompute;
}

static void sum_flop(const struct step_model *m, const struct batch_shape *shape,
                     struct rank_outcome *outcome) {
    for (int kind = 0; kind < LAYER_KIND_COUNT; kind++) {
        if (m->kind_layers[kind] == 0) continue;
        enum layer_kind k = (enum layer_kind)kind;
        outcome->model_flop +=
            m->kind_layers[kind] * price_table_training_flop(m->prices, k, shape);
        if (m->kind_recomputing[kind] > 0)
            outcome->recompute_flop +=
                m->kind_recomputing[kind] * price_table_flop(m->prices, k, shape);
    }
}

/* Room for so many micro-batches; says whether the graph must be built anew. */
static bool prepare(struct step_runner *r, enum fidelity fidelity, int64_t micro_batch_count) {
    ballast_check(micro_batch_count > 0);
    bool rebuild = fidelity == FIDELITY_OPERATOR || r->fidelity != fidelity ||
                   r->micro_batch_count != micro_batch_count || r->model->iteration_planner != NULL;
    if (r->micro_batch_count != micro_batch_count) grow(r, micro_batch_count);
    r->fidelity = fidelity;
    r->micro_batch_count = micro_batch_count;
    return rebuild;
}

bool step_run_rank(struct step_runner *r, enum fidelity fidelity, const struct batch_shape *shapes,
                   int64_t micro_batch_count, struct rank_outcome *outcome, struct error *err) {
    const struct step_model *m = r->model;
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
        for (int64_t stage = 0; stage < m->stage_count; stage++)
            step_stage_cost(m, stage, &shapes[i], times, &r->costs[stage * micro_batch_count + i]);
    }
    if (m->iteration_planner != NULL) {
        if (!plan_iteration(r, err)) return false;
    } else if (rebuild) {
        fill_static_order(r);
    }
    if (rebuild)
        build_graph(r);
    else
        update_durations(r);
    if (!engine_run(r->engine, r->graph, err)) return false;
    outcome->makespan_ns = r->engine->makespan_ns;
    for (int64_t stage = 0; stage < m->stage_count; stage++) {
        int64_t finish = 0;
        for (int64_t i = 0; i < micro_batch_count; i++) {
            int64_t cell = stage * micro_batch_count + i;
            int64_t end =
                r->engine->finish_ns[stage > 0 ? r->send_backward[cell] : r->backward_last[cell]];
            if (end > finish) finish = end;
        }
        r->finish_ns[stage] = finish;
        sum_stage(r, stage, outcome);
        walk_memory(r, stage);
    }
    for (int64_t i = 0; i < micro_batch_count; i++)
        sum_flop(m, &shapes[i], outcome);
    return true;
}

bool step_run_constant(struct step_runner *r, const struct stage_cost *by_stage,
                       int64_t micro_batch_count, int64_t *makespan_ns, struct error *err) {
    bool rebuild = prepare(r, FIDELITY_STAGE, micro_batch_count);
    for (int64_t stage = 0; stage < r->model->stage_count; stage++)
        for (int64_t i = 0; i < micro_batch_count; i++)
            r->costs[stage * micro_batch_count + i] = by_stage[stage];
    if (rebuild) {
        fill_static_order(r);
        build_graph(r);
    } else {
        update_durations(r);
    }
    if (!engine_run(r->engine, r->graph, err)) return false;
    *makespan_ns = r->engine->makespan_ns;
    return true;
}

int64_t step_runner_task_count(const struct step_runner *r) {
    return r->graph->task_count;
}

/* ---- looking at the last run ---- */

void step_runner_spans(const struct step_runner *r, step_span_visit visit, void *context) {
    int64_t stages = r->model->stage_count, count = r->micro_batch_count;
    const int64_t *start = r->engine->start_ns, *finish = r->engine->finish_ns;
    for (int64_t stage = 0; stage < stages; stage++) {
        const struct schedule_entry *entries = r->entries + stage * 2 * count;
        for (int64_t i = 0; i < 2 * count; i++) {
            int64_t cell = stage * count + entries[i].micro_batch;
            bool backward = entries[i].backward;
            struct step_span span = { .stage = stage, .micro_batch = entries[i].micro_batch };
            span.kind = backward ? SPAN_BACKWARD : SPAN_FORWARD;
            span.start_ns = start[backward ? r->backward_first[cell] : r->forward_first[cell]];
            span.finish_ns = finish[backward ? r->backward_last[cell] : r->forward_last[cell]];
            span.recompute_ns = backward ? r->costs[cell].recompute_ns : 0;
            visit(context, &span);
            bool sends = backward ? stage > 0 : stage + 1 < stages;
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
    int64_t cells = r->model->stage_count * r->micro_batch_count;
    int32_t *path = memory_alloc(sizeof *path * (size_t)r->graph->task_count);
    struct step_span *spans = memory_alloc(sizeof *spans * (size_t)r->graph->task_count);
    for (int64_t cell = 0; cell < cells; cell++) {
        int64_t stage = cell / r->micro_batch_count;
        struct step_span span = { .stage = stage, .micro_batch = cell % r->micro_batch_count };
        span.kind = SPAN_FORWARD;
        spans[r->forward_first[cell]] = span;
        span.kind = SPAN_BACKWARD;
        spans[r->backward_first[cell]] = span;
        span.communication = true;
        span.kind = SPAN_SEND_FORWARD;
        if (stage + 1 < r->model->stage_count) spans[r->send_forward[cell]] = span;
        span.kind = SPAN_SEND_BACKWARD;
        if (stage > 0) spans[r->send_backward[cell]] = span;
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
    int64_t count = r->micro_batch_count;
    for (int64_t stage = 0; stage < r->model->stage_count; stage++) {
        const struct schedule_entry *entries = r->entries + stage * 2 * count;
        double live = 0;
        for (int64_t i = 0; i < 2 * count; i++) {
            int64_t cell = stage * count + entries[i].micro_batch;
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
