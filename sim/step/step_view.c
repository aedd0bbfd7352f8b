/* step_view.c - the last run of a step as others look at it: spans, passes, critical path,
 * memory. */
#include "sim/step/step_cells.h"

#include <stdlib.h>

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
                                .workspace_bytes = cost->workspace_bytes,
                                .host_bytes = cost->host_bytes };
    pass->start_ns =
        r->engine->start_ns[entry->backward ? r->backward_first[cell] : r->forward_first[cell]];
    pass->finish_ns =
        r->engine->finish_ns[entry->backward ? r->backward_last[cell] : r->forward_last[cell]];
    if (send != NO_TASK)
        pass->send_ns = entry->backward ? cost->send_backward_ns : cost->send_forward_ns;
    step_planned_blocks(r->model, part_of(r, stage, entry), &pass->blocks);
    if (r->chosen && pass_choice_given(&r->choices[cell])) pass->blocks = r->choices[cell];
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
