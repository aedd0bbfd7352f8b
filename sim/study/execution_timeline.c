/* execution_timeline.c - one step of all data-parallel ranks, as spans and memory points.
 *
 * A step is the passes and sends of each rank's pipeline; then, when the slowest rank of a stage is
 * through, that stage's gradient reduction; then, when all stages have reduced, the update: what
 * sim/replay adds up, here with its places on the clock. Arrows (flow) join a send and the pass
 * that it lets start.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/study/execution.h"

enum { SUB_LIMIT = 65536 }; /* a sub-microbatch is an image, a tile or a clip at least */
enum lane { LANE_COMPUTE, LANE_SEND, LANE_DATA };
static const char *const stream_names[] = { "compute", "send", "data" };

struct timeline_writer {
    struct arena *arena;
    struct timeline *out;
    int64_t span_capacity, memory_capacity;
    int64_t iteration, rank;
    int64_t micro_batch_count;
    int64_t sub_limit; /* more than any micro-batch has sub-microbatches */
    const struct step_model *step;
    const char **module_of_part;
};

static struct span_record *next_span(struct timeline_writer *w, int64_t stage, enum lane lane,
                                     const char *kind, int64_t start_ns, int64_t finish_ns) {
    struct timeline *t = w->out;
    if (t->span_count == w->span_capacity) {
        w->span_capacity = w->span_capacity > 0 ? 2 * w->span_capacity : 1024;
        struct span_record *grown = arena_array(w->arena, struct span_record, w->span_capacity);
        if (t->span_count > 0) memcpy(grown, t->spans, sizeof *grown * (size_t)t->span_count);
        t->spans = grown;
    }
    struct span_record *record = &t->spans[t->span_count];
    *record = (struct span_record){ .span_index = t->span_count,
                                    .iteration_index = w->iteration,
                                    .dp_rank = w->rank,
                                    .stage_index = stage,
                                    .stream = stream_names[lane],
                                    .kind = kind,
                                    .chunk_index = -1,
                                    .micro_batch = -1,
                                    .flow = -1,
                                    .sub_batch = -1,
                                    .start_ns = start_ns,
                                    .finish_ns = finish_ns };
    t->span_count++;
    return record;
}

/* The modules whose blocks a part holds: "vision", "vision + language"; of a part without blocks,
 * what its first layer belongs to. */
static const char *module_of_part(const struct execution *e, int64_t part, struct arena *arena) {
    const struct job_plan *plan = &e->job->plan;
    const struct model *model = e->scenario->model;
    const char *name = NULL;
    enum module_role last = MODULE_ROLE_COUNT;
    for (int64_t l = plan->first_layer[part]; l < plan->first_layer[part + 1]; l++) {
        const enum module_role role = (enum module_role)model->layers[l].module_index;
        if (!layer_kind_is_block(model->layers[l].kind) || role == last) continue;
        name = name == NULL
                   ? module_role_name(role)
                   : arena_format(arena, "%s + %s", name, module_role_name(role));
        last = role;
    }
    if (name != NULL || plan->first_layer[part] == plan->first_layer[part + 1]) return name;
    return module_role_name(
        (enum module_role)model->layers[plan->first_layer[part]].module_index);
}

/* The number of the arrow from part `part` to the next one (forward) or to the one before it. Where
 * the next module splits a micro-batch otherwise, arrows join the sub-microbatches of equal
 * number. */
static int64_t flow_from(const struct timeline_writer *w, int64_t part, int64_t micro_batch,
                         int64_t sub, bool backward) {
    const int64_t parts = w->step->part_count;
    return (((w->rank * 2 + backward) * parts + part) * w->micro_batch_count + micro_batch) *
               w->sub_limit +
           sub;
}

static void write_span(void *context, const struct step_span *span) {
    struct timeline_writer *w = context;
    const bool sends = span->kind == SPAN_SEND_FORWARD || span->kind == SPAN_SEND_BACKWARD;
    const bool backward = span->kind == SPAN_BACKWARD || span->kind == SPAN_SEND_BACKWARD;
    const int64_t part = span->chunk * w->step->stage_count + span->stage;
    /* What a pass waited for: the send of its neighbour, if it has one. */
    const int64_t before = backward ? part + 1 : part - 1;
    int64_t flow = -1;
    if (sends)
        flow = flow_from(w, part, span->micro_batch, span->sub, backward);
    else if (before >= 0 && before < w->step->part_count)
        flow = flow_from(w, before, span->micro_batch, span->sub, backward);
    const int64_t recompute_until = span->start_ns + span->recompute_ns;
    const int64_t first = w->out->span_count;
    if (span->recompute_ns > 0)
        next_span(w, span->stage, LANE_COMPUTE, "recompute", span->start_ns, recompute_until);
    next_span(w, span->stage, sends ? LANE_SEND : LANE_COMPUTE,
              sends      ? "send"
              : backward ? "backward"
                         : "forward",
              recompute_until, span->finish_ns);
    for (int64_t i = first; i < w->out->span_count; i++) {
        struct span_record *r = &w->out->spans[i];
        if (w->step->chunk_count > 1) r->chunk_index = span->chunk;
        r->micro_batch = span->micro_batch;
        r->module = w->module_of_part[part];
        if (w->step->iteration_planner != NULL) r->sub_batch = span->sub;
        if (i == first) r->flow = flow;
    }
}

static void write_memory(void *context, int64_t stage, int64_t time_ns, double bytes) {
    struct timeline_writer *w = context;
    struct timeline *t = w->out;
    if (t->memory_count == w->memory_capacity) {
        w->memory_capacity = w->memory_capacity > 0 ? 2 * w->memory_capacity : 1024;
        struct memory_point_record *grown =
            arena_array(w->arena, struct memory_point_record, w->memory_capacity);
        if (t->memory_count > 0) memcpy(grown, t->memory, sizeof *grown * (size_t)t->memory_count);
        t->memory = grown;
    }
    struct stage_memory now = w->step->static_memory[stage];
    now.bytes[MEMORY_ACTIVATIONS] = bytes;
    step_pass_memory(w->step, stage, &now);
    t->memory[t->memory_count] =
        (struct memory_point_record){ .point_index = t->memory_count,
                                      .dp_rank = w->rank,
                                      .stage_index = stage,
                                      .time_ns = time_ns,
                                      .memory_bytes = llround(stage_memory_device(&now)) };
    t->memory_count++;
}

/* Weights and optimizer are there before the first pass. */
static void visit_memory(void *context, int64_t stage, int64_t time_ns, double bytes) {
    struct timeline_writer *w = context;
    const struct timeline *t = w->out;
    const struct memory_point_record *last =
        t->memory_count > 0 ? &t->memory[t->memory_count - 1] : NULL;
    const bool first = last == NULL || last->dp_rank != w->rank || last->stage_index != stage;
    if (first && time_ns > 0) write_memory(w, stage, 0, 0);
    write_memory(w, stage, time_ns, bytes);
}

/* When the slowest rank of each stage is through, and its mean backward (it hides reductions). */
struct stage_end {
    int64_t finish_ns, backward_ns;
};

static void keep_ends(const struct rank_outcome *outcome, int64_t stages, int64_t count,
                      struct stage_end *ends) {
    for (int64_t stage = 0; stage < stages; stage++)
        if (outcome->finish_ns[stage] > ends[stage].finish_ns)
            ends[stage] = (struct stage_end){ outcome->finish_ns[stage],
                                              outcome->backward_ns[stage] / count };
}

/* The same on every rank: they wait for the slowest. */
static void write_tail(struct timeline_writer *w, const struct stage_end *ends,
                       const int64_t *update_ns, int64_t slowest_ns) {
    const struct step_model *step = w->step;
    int64_t reduced = slowest_ns;
    for (int64_t stage = 0; stage < step->stage_count; stage++) {
        const int64_t start = ends[stage].finish_ns;
        const int64_t finish = start + step_exposed_reduce_ns(step, stage, ends[stage].backward_ns);
        if (finish > start) next_span(w, stage, LANE_DATA, "reduce", start, finish);
        if (finish > reduced) reduced = finish;
    }
    for (int64_t stage = 0; stage < step->stage_count; stage++) {
        int64_t optimizer = step->optimizer_ns[stage];
        if (optimizer > update_ns[stage]) optimizer = update_ns[stage];
        const int64_t updated = reduced + optimizer;
        if (optimizer > 0) next_span(w, stage, LANE_COMPUTE, "update", reduced, updated);
        if (update_ns[stage] > optimizer)
            next_span(w, stage, LANE_DATA, "gather", updated, reduced + update_ns[stage]);
    }
}

/* By stage: optimizer and parameter gather, after what hides behind the next step. */
static int64_t *exposed_update_ns(const struct job *job, struct arena *arena) {
    const int64_t stages = job->step->stage_count;
    int64_t *update_ns = arena_array(arena, int64_t, stages);
    struct layer_time times[LAYER_KIND_COUNT];
    step_layer_times(job->step, &job->typical, times);
    for (int64_t stage = 0; stage < stages; stage++) {
        struct stage_cost cost;
        step_stage_cost(job->step, stage, &job->typical, times, NULL, &cost);
        update_ns[stage] = step_exposed_update_ns(job->step, stage, cost.forward_ns);
    }
    return update_ns;
}

bool execution_timeline(const struct execution *e, int64_t iteration, int64_t rank_limit,
                        enum fidelity fidelity, struct arena *arena, struct timeline *timeline,
                        struct error *err) {
    const struct job *job = e->job;
    *timeline = (struct timeline){ .capacity_bytes = llround(
                                       cost_model_gpu(e->scenario->cost_model)->hbm_bytes) };
    if (iteration < 0 || iteration >= job->epoch_iterations)
        return error_set(err, "iteration %ld does not exist: the epoch has iterations 0 to %ld",
                         (long)iteration, (long)job->epoch_iterations - 1);
    const int64_t count = e->scenario->micro_batches_per_rank, ranks = job->batches.rank_count;
    const int64_t shown = rank_limit < ranks ? rank_limit : ranks;
    struct timeline_writer writer = { .arena = arena,
                                      .out = timeline,
                                      .iteration = iteration,
                                      .micro_batch_count = count,
                                      .sub_limit = SUB_LIMIT,
                                      .step = job->step };
    writer.module_of_part = arena_array(arena, const char *, job->step->part_count);
    for (int64_t part = 0; part < job->step->part_count; part++)
        writer.module_of_part[part] = module_of_part(e, part, arena);
    struct stage_end *ends = arena_array(arena, struct stage_end, job->step->stage_count);
    struct step_runner *runner = step_runner_create(job->step);
    int64_t slowest_ns = 0;
    bool ok = true;
    for (int64_t rank = 0; ok && rank < ranks; rank++) {
        struct rank_outcome outcome;
        const struct batch_shape *shapes =
            job->shapes + rank * job->batches.per_rank + iteration * count;
        ok = step_run_rank(runner, fidelity, shapes, count, &outcome, err);
        if (!ok) break;
        keep_ends(&outcome, job->step->stage_count, count, ends);
        if (outcome.makespan_ns > slowest_ns) slowest_ns = outcome.makespan_ns;
        if (rank >= shown) continue;
        writer.rank = rank;
        step_runner_spans(runner, write_span, &writer);
        step_runner_memory(runner, visit_memory, &writer);
    }
    step_runner_destroy(runner);
    const int64_t *update_ns = exposed_update_ns(job, arena);
    for (int64_t rank = 0; ok && rank < shown; rank++) {
        writer.rank = rank;
        write_tail(&writer, ends, update_ns, slowest_ns);
    }
    return ok;
}
