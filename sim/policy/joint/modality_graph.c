/* modality_graph.c - an iteration of a modality-aware plan as a segment graph, and the order that
 * was found for it. */
#include "sim/policy/joint/dip.h"

static const int32_t *units_of(const struct iteration_plan *it, int64_t module) {
    return it->units + module * (it->micro_batch_count + 1);
}

static int64_t units_in(const struct iteration_plan *it, int64_t module, int64_t micro_batch) {
    return units_of(it, module)[micro_batch + 1] - units_of(it, module)[micro_batch];
}

int64_t modality_cell(const struct job_plan *plan, const struct iteration_plan *it,
                      const struct modality_segments *s, int64_t segment, int64_t rank) {
    return it->cell_first[s->chunk_of[segment] * plan->stage_count + rank] + s->unit_of[segment];
}

static void fill_passes(const struct job_plan *plan, const struct iteration_plan *it,
                        const struct modality_segments *s, int64_t segment) {
    for (int64_t rank = 0; rank < plan->stage_count; rank++) {
        const struct pass_cost *cost = &it->costs[modality_cell(plan, it, s, segment, rank)];
        *segment_graph_pass(s->graph, segment, rank) =
            (struct segment_pass){ .forward_ns = cost->forward_ns,
                                   .backward_ns = cost->backward_ns,
                                   .send_forward_ns = cost->send_forward_ns,
                                   .send_backward_ns = cost->send_backward_ns,
                                   .bytes = cost->activation_bytes,
                                   .workspace_bytes = cost->workspace_bytes };
    }
}

/* Segments of one micro-batch in one module, from number `at`; returns the number after them. */
static int64_t add_module(const struct job_plan *plan, const struct iteration_plan *it,
                          const struct modality_segments *s, int64_t module, int64_t micro_batch,
                          int64_t class, int64_t at) {
    const struct plan_module *m = &plan->modules[module];
    int64_t items = units_in(it, module, micro_batch), chunks = m->chunk_count;
    int64_t after = at + items * chunks;
    int64_t next_items =
        module + 1 < plan->module_count ? units_in(it, module + 1, micro_batch) : 0;
    int64_t next_chunks = next_items > 0 ? plan->modules[module + 1].chunk_count : 0;
    for (int64_t i = 0; i < items; i++)
        for (int64_t c = 0; c < chunks; c++, at++) {
            s->graph->class_of[at] = (int32_t) class;
            s->graph->micro_batch_of[at] = (int32_t)micro_batch;
            s->chunk_of[at] = (int32_t)(m->first_chunk + c);
            s->unit_of[at] = (int32_t)(units_of(it, module)[micro_batch] + i);
            s->sub_of[at] = (int32_t)i;
            fill_passes(plan, it, s, at);
            if (c + 1 < chunks)
                segment_graph_add(s->graph, at, at + 1);
            else
                for (int64_t k = 0; k < next_items; k++)
                    segment_graph_add(s->graph, at, after + k * next_chunks);
        }
    return after;
}

struct modality_segments modality_graph(const struct planner_oracle *oracle,
                                        const struct job_plan *plan,
                                        const struct iteration_plan *it) {
    int64_t classes = 0, segments = it->entry_count / 2, at = 0, class = 0;
    for (int64_t i = 0; i < plan->module_count; i++)
        for (int64_t m = 0; m < it->micro_batch_count; m++)
            classes += units_in(it, i, m) > 0;
    struct modality_segments s = {
        .graph = segment_graph_create(it->scratch, plan->stage_count, segments, classes,
                                      it->micro_batch_count),
        .chunk_of = arena_array(it->scratch, int32_t, segments),
        .unit_of = arena_array(it->scratch, int32_t, segments),
        .sub_of = arena_array(it->scratch, int32_t, segments),
    };
    s.graph->send_blocks_compute = oracle->send_blocks_compute;
    for (int64_t m = 0; m < it->micro_batch_count; m++)
        for (int64_t i = 0; i < plan->module_count; i++) {
            int64_t first = at;
            at = add_module(plan, it, &s, i, m, class, at);
            class += at > first;
        }
    for (int64_t rank = 0; rank < plan->stage_count; rank++)
        s.graph->capacity_bytes[rank] = it->activation_capacity_bytes[rank];
    segment_graph_close(s.graph);
    return s;
}

void modality_write(const struct modality_segments *s, const struct segment_schedule *schedule,
                    struct iteration_plan *it) {
    for (int64_t rank = 0; rank < s->graph->rank_count; rank++) {
        const struct segment_task *tasks = segment_schedule_rank(s->graph, schedule, rank);
        struct schedule_entry *entries = it->entries + rank * it->entry_count;
        for (int64_t i = 0; i < it->entry_count; i++) {
            int32_t segment = tasks[i].segment;
            entries[i] = (struct schedule_entry){ .micro_batch = s->graph->micro_batch_of[segment],
                                                  .chunk = (int16_t)s->chunk_of[segment],
                                                  .sub = (int16_t)s->sub_of[segment],
                                                  .backward = tasks[i].backward };
        }
    }
}
