/* modality_graph.c - an iteration of a modality-aware plan as a segment graph, and the memory step
 * on an order of it. */
#include <math.h>
#include <string.h>
#include "sim/policy/joint/dip.h"
#include "sim/policy/joint/memory_program.h"

enum { CANDIDATES = 10 }; /* the paper's S */
#define MEMORY_GAP 0.02 /* section 5.3 allows 0.05 */

static const int32_t *units_of(const struct iteration_plan *it, int64_t module) {
    return it->units + module * (it->micro_batch_count + 1);
}

static int64_t units_in(const struct iteration_plan *it, int64_t module, int64_t micro_batch) {
    return units_of(it, module)[micro_batch + 1] - units_of(it, module)[micro_batch];
}

static int64_t cell_of(const struct job_plan *plan, const struct iteration_plan *it,
                       const struct modality_segments *s, int64_t segment, int64_t rank) {
    return it->cell_first[s->chunk_of[segment] * plan->stage_count + rank] + s->unit_of[segment];
}

static void fill_passes(const struct job_plan *plan, const struct iteration_plan *it,
                        const struct modality_segments *s, int64_t segment) {
    for (int64_t rank = 0; rank < plan->stage_count; rank++) {
        const struct pass_cost *cost = &it->costs[cell_of(plan, it, s, segment, rank)];
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
            s->graph->class_of[at] = (int32_t)class;
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

/* ---- the memory step ---- */

struct rank_program {
    struct memory_program program;
    int32_t *first, *last, *chosen;
    double *capacity;
};

static struct rank_program *make_room(struct arena *arena, int64_t segments) {
    struct rank_program *room = arena_new(arena, struct rank_program);
    *room = (struct rank_program){
        .first = arena_array(arena, int32_t, segments),
        .last = arena_array(arena, int32_t, segments),
        .chosen = arena_array(arena, int32_t, segments),
        .capacity = arena_array(arena, double, 2 * segments),
    };
    return room;
}

/* What the pass takes and keeps beside the choice of its blocks. */
static void pass_remainder(const struct pass_cost *cost, enum recompute_kind planned,
                           double *seconds, double *bytes) {
    *seconds = (double)(cost->forward_ns + cost->backward_ns -
                        cost->blocks * cost->recompute_ns[planned]) *
               1e-9;
    *bytes = cost->activation_bytes - (double)cost->blocks * cost->block_bytes[planned];
}

static int32_t list_candidates(const struct pass_cost *cost, enum recompute_kind planned,
                               struct memory_candidate *candidates) {
    struct memory_group group = { .layers = cost->blocks, .option_count = RECOMPUTE_KIND_COUNT };
    double seconds, bytes;
    pass_remainder(cost, planned, &seconds, &bytes);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++)
        group.options[how] = (struct memory_option){ (double)cost->recompute_ns[how] * 1e-9,
                                                     cost->block_bytes[how] };
    int32_t count = memory_candidates(&group, 1, CANDIDATES, candidates);
    for (int32_t i = 0; i < count; i++) {
        candidates[i].seconds += seconds;
        candidates[i].bytes = ceil(candidates[i].bytes + bytes);
    }
    return count;
}

static enum recompute_kind planned_kind(const struct job_plan *plan, int64_t part) {
    for (int64_t i = plan->first_layer[part]; i < plan->first_layer[part + 1]; i++)
        if (plan->recompute[i] != RECOMPUTE_NONE) return plan->recompute[i];
    return RECOMPUTE_NONE;
}

/* Sub-microbatches of one length have the same on a part: they share the list of the one before. */
static bool same_cost(const struct pass_cost *a, const struct pass_cost *b) {
    bool same = a->forward_ns == b->forward_ns && a->backward_ns == b->backward_ns &&
                a->activation_bytes == b->activation_bytes && a->blocks == b->blocks;
    for (int how = 0; same && how < RECOMPUTE_KIND_COUNT; how++)
        same = a->recompute_ns[how] == b->recompute_ns[how] &&
               a->block_bytes[how] == b->block_bytes[how];
    return same;
}

static void make_candidates(const struct iteration_plan *it, const struct job_plan *plan,
                            struct modality_segments *s) {
    int64_t n = s->graph->segment_count, cells = n * plan->stage_count;
    s->candidates = arena_array(it->scratch, const struct memory_candidate *, cells);
    s->candidate_counts = arena_array(it->scratch, int32_t, cells);
    int64_t *last = arena_array(it->scratch, int64_t, plan->chunk_count);
    for (int64_t rank = 0; rank < plan->stage_count; rank++) {
        for (int64_t chunk = 0; chunk < plan->chunk_count; chunk++)
            last[chunk] = -1;
        for (int64_t i = 0; i < n; i++) {
            int64_t cell = rank * n + i, *before = &last[s->chunk_of[i]];
            const struct pass_cost *cost = &it->costs[cell_of(plan, it, s, i, rank)];
            if (*before >= 0 && same_cost(cost, &it->costs[cell_of(plan, it, s, *before, rank)])) {
                s->candidates[cell] = s->candidates[rank * n + *before];
                s->candidate_counts[cell] = s->candidate_counts[rank * n + *before];
            } else {
                struct memory_candidate *list =
                    arena_array(it->scratch, struct memory_candidate, CANDIDATES);
                enum recompute_kind planned =
                    planned_kind(plan, s->chunk_of[i] * plan->stage_count + rank);
                s->candidate_counts[cell] = list_candidates(cost, planned, list);
                s->candidates[cell] = list;
            }
            *before = i;
        }
    }
}

static void take_choice(const struct pass_cost *cost, enum recompute_kind planned,
                        const struct memory_candidate *candidate, struct segment_pass *pass,
                        struct pass_choice *choice) {
    int64_t backward = cost->backward_ns - cost->blocks * cost->recompute_ns[planned];
    double seconds, bytes;
    pass_remainder(cost, planned, &seconds, &bytes);
    for (int how = 0; how < RECOMPUTE_KIND_COUNT; how++) {
        choice->blocks[how] = candidate->counts[0][how];
        backward += candidate->counts[0][how] * cost->recompute_ns[how];
        bytes += (double)candidate->counts[0][how] * cost->block_bytes[how];
    }
    pass->backward_ns = backward;
    pass->bytes = ceil(bytes);
}

void memory_step_rank(const struct iteration_plan *it, const struct job_plan *plan,
                      struct modality_segments *s, const struct segment_schedule *schedule,
                      int64_t rank, struct memory_step_result *out) {
    if (s->candidates == NULL) {
        make_candidates(it, plan, s);
        s->program = make_room(it->scratch, s->graph->segment_count);
    }
    struct rank_program *room = s->program;
    int64_t n = s->graph->segment_count;
    const struct segment_task *tasks = segment_schedule_rank(s->graph, schedule, rank);
    for (int32_t k = 0; k < 2 * n; k++) {
        int64_t segment = tasks[k].segment;
        if (tasks[k].backward)
            room->last[segment] = k;
        else
            room->first[segment] = k;
        room->capacity[k] = s->graph->capacity_bytes[rank] -
                            segment_graph_pass(s->graph, segment, rank)->workspace_bytes;
    }
    const struct memory_candidate *const *lists = s->candidates + rank * n;
    room->program = (struct memory_program){ (int32_t)n, (int32_t)(2 * n), room->first, room->last,
                                             lists, s->candidate_counts + rank * n,
                                             room->capacity };
    struct memory_program_result result;
    memory_program_solve(&room->program, MEMORY_GAP, room->chosen, &result);
    out->infeasible += !result.feasible;
    if (result.gap_fraction > out->gap_fraction) out->gap_fraction = result.gap_fraction;
    for (int64_t i = 0; i < n; i++) {
        int64_t cell = cell_of(plan, it, s, i, rank);
        int64_t part = s->chunk_of[i] * plan->stage_count + rank;
        take_choice(&it->costs[cell], planned_kind(plan, part),
                    &lists[i][room->chosen[i]], segment_graph_pass(s->graph, i, rank),
                    &it->choices[cell]);
    }
}

struct memory_step_result memory_step(const struct iteration_plan *it, const struct job_plan *plan,
                                      struct modality_segments *s,
                                      const struct segment_schedule *schedule) {
    struct memory_step_result result = { 0 };
    for (int64_t rank = 0; rank < plan->stage_count; rank++)
        memory_step_rank(it, plan, s, schedule, rank, &result);
    return result;
}
