/* step_runner.c - one data-parallel rank's step: orders its passes, prices them, runs them.
 *
 * The graph (step_graph.c) depends on (stages, micro-batches, schedule) only, so it is built once
 * and gets new durations each iteration.
 */
#include "sim/step/step_cells.h"

#include <stdlib.h>
#include <string.h>

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
    r->piece_first = memory_alloc(sizeof *r->piece_first * (size_t)(model->module_count + 1));
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
    free(r->piece_times);
    free(r->piece_first);
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
            units[k + 1] = units[k] + (int32_t)(split ? step_unit_count(m, i, &shapes[k]) : 1);
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

/* ---- orders ---- */

static struct schedule_place place_of(const struct step_runner *r, int64_t stage) {
    return (struct schedule_place){ .stage = stage,
                                    .stage_count = r->model->stage_count,
                                    .chunk_count = r->model->chunk_count,
                                    .micro_batch_count = r->micro_batch_count,
                                    .fills_one_round =
                                        r->model->scenario->backend->fills_one_round };
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
    struct pass_cost *pass = &r->pass_costs[at->cell];
    *pass = (struct pass_cost){ .forward_ns = cost->forward_ns,
                                .backward_ns = cost->backward_ns,
                                .activation_bytes = cost->activation_bytes,
                                .workspace_bytes = cost->workspace_bytes };
    if (sends_to(r, at->part + 1, at->micro_batch)) pass->send_forward_ns = cost->send_forward_ns;
    if (sends_to(r, at->part - 1, at->micro_batch)) pass->send_backward_ns = cost->send_backward_ns;
    step_block_options(r->model, at->part, times_at(r, at), pass);
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
                                        .host_capacity_bytes = step_host_capacity(m),
                                        .choices = r->choices,
                                        .enough_ns = r->is_slow ? 0 : r->enough_ns };
    if (!m->iteration_planner->plan_iteration(m->oracle, m->iteration_parameters, m->plan,
                                              &iteration, err))
        return false;
    r->bound_ns = iteration.bound_ns;
    r->planner_s = iteration.planner_s;
    r->planner_timed = iteration.timed;
    r->planner_left = iteration.left;
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
    step_settle_memory(r->model, stage, &r->memory[stage]);
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

/* A rank whose passes take longer, whatever holds them up. */
static void straggle(struct stage_cost *cost, double factor) {
    if (factor == 1) return;
    cost->forward_ns = scaled_ns(cost->forward_ns, factor);
    cost->backward_ns = scaled_ns(cost->backward_ns, factor);
    cost->recompute_ns = scaled_ns(cost->recompute_ns, factor);
    for (int class = 0; class < TIME_CLASS_COUNT; class ++)
        cost->class_ns[class] *= factor;
}

/* With sharding the passes follow from the locked times, in which the slow rank is slow already. */
static void slow_down(struct step_runner *r) {
    const struct step_model *m = r->model;
    const struct step_slowness *slow = &r->slowness;
    for (int64_t part = 0; part < m->part_count; part++) {
        int64_t stage = part % m->stage_count;
        bool before = stage == slow->link_stage,
             after = stage == (slow->link_stage + 1) % m->stage_count;
        for (int64_t cell = r->cell_first[part]; cell < r->cell_first[part + 1]; cell++) {
            struct stage_cost *cost = &r->costs[cell];
            if (!m->sharded) straggle(cost, slow->rank);
            if (before) cost->send_forward_ns = scaled_ns(cost->send_forward_ns, slow->link_factor);
            if (after)
                cost->send_backward_ns = scaled_ns(cost->send_backward_ns, slow->link_factor);
        }
    }
}

static void price_cell(struct step_runner *r, const struct place_in_step *at, void *context) {
    (void)context;
    const int64_t stage = at->part % r->model->stage_count;
    const bool on_slow_gpu = r->is_slow && stage == r->slowness.stage &&
                             r->slowness.stage_factor != 1 && !r->model->sharded;
    const int64_t alike = r->chosen || r->is_slow ? at->part : r->model->alike[at->part];
    if (alike < at->part) {
        r->costs[at->cell] = r->costs[r->cell_first[alike] + at->cell - r->cell_first[at->part]];
        step_stage_sends(r->model, at->part, times_at(r, at), &r->costs[at->cell]);
        return;
    }
    const struct layer_time *locked = r->locked != NULL ? r->locked[at->micro_batch] : NULL;
    const struct pass_choice *choice = r->chosen ? &r->choices[at->cell] : NULL;
    struct batch_shape piece;
    if (at->pieces > 1) piece = shape_at(r, at);
    const struct batch_shape *shape = at->pieces > 1 ? &piece : &r->shapes[at->micro_batch];
    if (!on_slow_gpu) {
        step_stage_cost_as(r->model, at->part, shape, times_at(r, at), locked, choice,
                           &r->costs[at->cell]);
        return;
    }
    struct step_model slow = *r->model;
    struct layer_time times[LAYER_KIND_COUNT];
    slow.slow_factor = r->slowness.stage_factor;
    step_layer_times(&slow, shape, times);
    step_stage_cost_as(&slow, at->part, shape, times, locked, choice, &r->costs[at->cell]);
}

static void price_piece(struct step_runner *r, const struct place_in_step *at, void *context) {
    struct layer_time(*times)[LAYER_KIND_COUNT] = context;
    if (at->pieces == 1) return; /* unit_times has it */
    struct batch_shape shape = shape_at(r, at);
    step_layer_times(r->model, &shape, times[at->cell - r->cell_first[at->part]]);
}

/* Of every micro-batch, and of every sub-microbatch of each module. */
static void price_layers(struct step_runner *r) {
    const struct step_model *m = r->model;
    if (r->micro_batch_count > r->unit_capacity) {
        r->unit_capacity = r->micro_batch_count;
        r->unit_times =
            memory_realloc(r->unit_times, sizeof *r->unit_times * (size_t)r->unit_capacity);
        memset(r->unit_times, 0, sizeof *r->unit_times * (size_t)r->unit_capacity);
    }
    /* Sharded: one stage, whose own times stand beside the locked ones. */
    struct step_model own = *m;
    if (r->is_slow && m->sharded) own.slow_factor = r->slowness.stage_factor;
    for (int64_t i = 0; i < r->micro_batch_count; i++) {
        step_layer_times_again(&own, &r->shapes[i], r->unit_times[i]);
        for (int kind = 0; r->is_slow && m->sharded && kind < LAYER_KIND_COUNT; kind++)
            layer_time_straggle(&r->unit_times[i][kind], r->slowness.rank);
    }
    r->piece_first[0] = 0;
    for (int64_t i = 0; i < m->module_count; i++)
        r->piece_first[i + 1] =
            r->piece_first[i] + r->units[i * (r->micro_batch_count + 1) + r->micro_batch_count];
    if (r->piece_first[m->module_count] > r->piece_capacity) {
        r->piece_capacity = r->piece_first[m->module_count];
        r->piece_times =
            memory_realloc(r->piece_times, sizeof *r->piece_times * (size_t)r->piece_capacity);
    }
    for (int64_t part = 0, last = -1; part < m->part_count; part++) {
        int64_t module = m->module_of_chunk[part / m->stage_count];
        if (module != last)
            for_each_cell(r, part, price_piece, r->piece_times + r->piece_first[module]);
        last = module;
    }
}

static void price_cells(struct step_runner *r) {
    for (int64_t part = 0; part < r->model->part_count; part++)
        for_each_cell(r, part, price_cell, NULL);
    if (r->is_slow) slow_down(r);
}

static bool any_choice(const struct step_runner *r) {
    if (r->choices == NULL || r->given != NULL || r->model->iteration_planner == NULL) return false;
    for (int64_t cell = 0; cell < r->cell_first[r->model->part_count]; cell++)
        if (pass_choice_given(&r->choices[cell])) return true;
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
    outcome->recompute_flop +=
        step_choice_flop(r->model, at->part, times_at(r, at), &r->choices[at->cell]);
}

static bool run_graph(struct step_runner *r, bool rebuild, struct rank_outcome *outcome,
                      struct error *err) {
    const struct step_model *m = r->model;
    if (rebuild || r->clock != NULL)
        step_graph_build(r);
    else
        step_graph_update(r);
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
    outcome->makespan_ns = pipeline_clock_run(
        r->clock, r->costs, m->scenario->backend->send_blocks_compute, r->finish_ns);
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
    price_layers(r);
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
    outcome->planner_left = r->planner_left;
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
    bool rebuild = prepare(r, FIDELITY_STAGE, NULL, micro_batch_count) || r->clock != NULL;
    for (int64_t part = 0; part < r->model->part_count; part++)
        for (int64_t cell = r->cell_first[part]; cell < r->cell_first[part + 1]; cell++)
            r->costs[cell] = by_part[part];
    if (rebuild) {
        fill_static_order(r);
        r->static_order = true;
        step_graph_build(r);
    } else {
        step_graph_update(r);
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

void step_runner_enough(struct step_runner *r, int64_t enough_ns) {
    r->enough_ns = enough_ns;
}

void step_runner_slow(struct step_runner *r, const struct step_slowness *slowness) {
    r->slowness = *slowness;
    r->is_slow = slowness->rank != 1 || slowness->stage_factor != 1 || slowness->link_factor != 1;
}

void step_runner_times_only(struct step_runner *r, bool times_only) {
    pipeline_clock_destroy(r->clock);
    r->clock = times_only ? pipeline_clock_create() : NULL;
}

int64_t step_runner_task_count(const struct step_runner *r) {
    return r->graph->task_count;
}
