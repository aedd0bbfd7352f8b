/* memory_bound.c - a stage's order of passes, walked with the most that each run of micro-batches
 * can hold. */
#include "sim/replay/memory_bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bound {
    const struct job *job;
    const struct job_window *windows;
    int64_t window_count; /* of them those that are used */
    struct layer_time times[JOB_WINDOW_LIMIT][LAYER_KIND_COUNT];
};

/* One chunk of a stage: what micro-batches as large as each window's mean keep, and those in
 * flight. */
struct chunk {
    double activation_bytes[JOB_WINDOW_LIMIT], workspace_bytes;
    bool *live;                      /* by micro-batch */
    int64_t first, last, live_count; /* first to last: the run that holds all that are live */
};

/* Sums over tokens are divided by whole images and tokens among context-parallel ranks, and copies
 * to the host take what time leaves: only single micro-batches bound those. */
static bool adds_up(const struct scenario *s) {
    return s->layout.cp == 1 && s->training_fields.offload_blocks == 0;
}

static void use_windows(struct bound *b, int64_t count) {
    const struct job *job = b->job;
    for (; b->window_count < count; b->window_count++)
        step_layer_times(job->step, &b->windows[b->window_count].shape, b->times[b->window_count]);
}

/* What a run of so many micro-batches holds at most: as runs of the lengths that were measured. */
static double run_bytes(const struct bound *b, const struct chunk *chunk, int64_t length) {
    double bytes = 0;
    for (int64_t w = b->window_count - 1; w >= 0; w--) {
        const int64_t whole = length / b->windows[w].length;
        bytes += (double)(whole * b->windows[w].length) * chunk->activation_bytes[w];
        length -= whole * b->windows[w].length;
    }
    return bytes;
}

static void pass(struct chunk *chunk, const struct schedule_entry *entry) {
    const int64_t i = entry->micro_batch;
    chunk->live[i] = !entry->backward;
    if (!entry->backward) {
        if (chunk->live_count++ == 0) chunk->first = chunk->last = i;
        if (i < chunk->first) chunk->first = i;
        if (i > chunk->last) chunk->last = i;
        return;
    }
    if (--chunk->live_count == 0) return;
    while (!chunk->live[chunk->first])
        chunk->first++;
    while (!chunk->live[chunk->last])
        chunk->last--;
}

/* Of activations and workspace; sets those of `memory`. */
static void walk(const struct bound *b, const struct schedule_entry *entries, int64_t count,
                 struct chunk *chunks, struct stage_memory *memory) {
    const int64_t chunk_count = b->job->step->chunk_count;
    double most = -1;
    for (int64_t i = 0; i < count; i++) {
        struct chunk *chunk = &chunks[entries[i].chunk];
        if (!entries[i].backward) pass(chunk, &entries[i]);
        double live = 0;
        for (int64_t c = 0; c < chunk_count; c++)
            if (chunks[c].live_count > 0)
                live += run_bytes(b, &chunks[c], chunks[c].last - chunks[c].first + 1);
        if (live + chunk->workspace_bytes > most) {
            most = live + chunk->workspace_bytes;
            memory->bytes[MEMORY_ACTIVATIONS] = live;
            memory->bytes[MEMORY_WORKSPACE] = chunk->workspace_bytes;
        }
        if (entries[i].backward) pass(chunk, &entries[i]);
    }
}

static void fill_chunks(const struct bound *b, int64_t stage, struct chunk *chunks) {
    const struct step_model *step = b->job->step;
    for (int64_t c = 0; c < step->chunk_count; c++)
        for (int64_t w = 0; w < b->window_count; w++) {
            struct stage_cost cost;
            step_stage_cost(step, c * step->stage_count + stage, &b->windows[w].shape, b->times[w],
                            NULL, &cost);
            chunks[c].activation_bytes[w] = cost.activation_bytes;
            if (w == 0) chunks[c].workspace_bytes = cost.workspace_bytes;
        }
}

static double stage_bytes(const struct bound *b, int64_t stage, struct schedule_entry *entries,
                          struct chunk *chunks) {
    const struct step_model *step = b->job->step;
    const struct schedule_place place = { stage, step->stage_count, step->chunk_count,
                                          b->job->scenario->micro_batches_per_rank,
                                          b->job->scenario->backend->fills_one_round };
    b->job->plan.schedule->order(&place, entries);
    fill_chunks(b, stage, chunks);
    struct stage_memory memory = step->static_memory[stage];
    walk(b, entries, schedule_entry_count(&place), chunks, &memory);
    step_settle_memory(step, stage, &memory);
    return stage_memory_device(&memory);
}

static double most_bytes(const struct bound *b, struct schedule_entry *entries,
                         struct chunk *chunks) {
    double most = 0;
    for (int64_t stage = 0; stage < b->job->step->stage_count; stage++)
        most = fmax(most, stage_bytes(b, stage, entries, chunks));
    return most;
}

/* Of the windows the first alone, and all where it comes to more than all_above_bytes. */
static double bound_of(const struct job *job, const struct job_window *windows, int64_t count,
                       double all_above_bytes) {
    const int64_t each = job->scenario->micro_batches_per_rank, chunks = job->step->chunk_count;
    struct schedule_entry *entries = memory_alloc(sizeof *entries * (size_t)(2 * each * chunks));
    struct chunk *in_flight = memory_alloc(sizeof *in_flight * (size_t)chunks);
    bool *live = memory_alloc(sizeof *live * (size_t)(each * chunks));
    memset(in_flight, 0, sizeof *in_flight * (size_t)chunks);
    memset(live, 0, sizeof *live * (size_t)(each * chunks));
    for (int64_t c = 0; c < chunks; c++)
        in_flight[c].live = live + c * each;
    struct bound b = { .job = job, .windows = windows };
    use_windows(&b, 1);
    double bytes = most_bytes(&b, entries, in_flight);
    /* Runs of several are only looked at where it matters. */
    if (bytes > all_above_bytes && adds_up(job->scenario)) {
        use_windows(&b, count);
        bytes = most_bytes(&b, entries, in_flight);
    }
    free(live);
    free(in_flight);
    free(entries);
    return bytes;
}

static bool has_bound(const struct job *job) {
    return job->step->iteration_planner == NULL && job->plan.module_count == 0;
}

double memory_bound(const struct job *job, const struct replay *replay) {
    const double seen = stage_memory_device(&replay->stages[replay->verdict_stage].peak);
    if (replay->iteration_count >= job->epoch_iterations) return seen;
    if (!has_bound(job) || job->window_count == 0) return NAN;
    return bound_of(job, job->windows, job->window_count,
                    cost_model_gpu(job->scenario->cost_model)->hbm_bytes);
}

double memory_bound_of_shape(const struct job *job, const struct batch_shape *largest) {
    if (!has_bound(job)) return NAN;
    const struct job_window one = { 1, *largest };
    return bound_of(job, &one, 1, INFINITY);
}
