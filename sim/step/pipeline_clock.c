/* pipeline_clock.c - a list of passes in an order in which all that they wait for stands before
 * them, found once by letting each stage run as far as it can in turn. */
#include "sim/step/pipeline_clock.h"

#include <stdlib.h>
#include <string.h>

/* A pass with the place of everything it reads and writes. */
struct pass {
    int32_t cell;   /* of its cost */
    int32_t waits;  /* index of the arrival that it waits for; -1: of nothing */
    int32_t signal; /* index of the arrival that it sets */
    int32_t stage;
    bool backward, sends;
};

struct pipeline_clock {
    struct pass *passes; /* in order */
    int64_t pass_count, pass_capacity;
    /* By cell, forward ones first: when the output of the pass is where it is needed. */
    int64_t *arrival_ns;
    int64_t cell_count, cell_capacity;
    int64_t *compute_ns, *forward_link_ns, *backward_link_ns; /* by stage: free from then on */
    int64_t stage_count, stage_capacity;
};

struct pipeline_clock *pipeline_clock_create(void) {
    struct pipeline_clock *clock = memory_alloc(sizeof *clock);
    *clock = (struct pipeline_clock){ 0 };
    return clock;
}

void pipeline_clock_destroy(struct pipeline_clock *clock) {
    if (clock == NULL) return;
    free(clock->passes);
    free(clock->arrival_ns);
    free(clock->compute_ns);
    free(clock);
}

static void grow(struct pipeline_clock *clock, int64_t stages, int64_t cells) {
    clock->cell_count = cells;
    clock->stage_count = stages;
    if (cells > clock->cell_capacity) {
        clock->cell_capacity = cells;
        clock->passes = memory_realloc(clock->passes, sizeof *clock->passes * 2 * (size_t)cells);
        clock->arrival_ns =
            memory_realloc(clock->arrival_ns, sizeof *clock->arrival_ns * 2 * (size_t)cells);
    }
    if (stages > clock->stage_capacity) {
        clock->stage_capacity = stages;
        clock->compute_ns =
            memory_realloc(clock->compute_ns, sizeof *clock->compute_ns * 3 * (size_t)stages);
    }
    clock->forward_link_ns = clock->compute_ns + stages;
    clock->backward_link_ns = clock->forward_link_ns + stages;
}

static struct pass pass_of(const struct pipeline_clock *clock, int64_t stages, int64_t count,
                           int64_t stage, const struct schedule_entry *entry) {
    int64_t part = entry->chunk * stages + stage, cells = clock->cell_count;
    int64_t cell = part * count + entry->micro_batch;
    bool last = cell + count >= cells;
    struct pass pass = { .cell = (int32_t)cell,
                         .stage = (int32_t)stage,
                         .backward = entry->backward,
                         .signal = (int32_t)(entry->backward ? cells + cell : cell) };
    if (entry->backward) {
        pass.waits = (int32_t)(last ? cell : cells + cell + count);
        pass.sends = part > 0;
    } else {
        pass.waits = part > 0 ? (int32_t)(cell - count) : -1;
        pass.sends = !last;
    }
    return pass;
}

bool pipeline_clock_order(struct pipeline_clock *clock, int64_t stages, int64_t chunks,
                          int64_t count, const struct schedule_entry *entries) {
    int64_t cells = stages * chunks * count, of_stage = 2 * count * chunks, placed = 0;
    ballast_check(cells > 0 && cells < INT32_MAX / 2);
    grow(clock, stages, cells);
    clock->pass_count = 0;
    int64_t *next = clock->compute_ns;
    int64_t *known = clock->arrival_ns; /* whether an arrival stands before */
    memset(next, 0, sizeof *next * (size_t)stages);
    memset(known, 0, sizeof *known * 2 * (size_t)cells);
    do {
        placed = clock->pass_count;
        for (int64_t stage = 0; stage < stages; stage++)
            for (; next[stage] < of_stage; next[stage]++) {
                struct pass pass =
                    pass_of(clock, stages, count, stage, &entries[stage * of_stage + next[stage]]);
                if (pass.waits >= 0 && !known[pass.waits]) break;
                known[pass.signal] = 1;
                clock->passes[clock->pass_count++] = pass;
            }
    } while (clock->pass_count > placed);
    return clock->pass_count == 2 * cells;
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

int64_t pipeline_clock_run(struct pipeline_clock *clock, const struct stage_cost *costs,
                           bool send_blocks_compute, int64_t *finish_ns) {
    memset(clock->compute_ns, 0, sizeof *clock->compute_ns * 3 * (size_t)clock->stage_count);
    int64_t makespan_ns = 0;
    for (int64_t i = 0; i < clock->pass_count; i++) {
        const struct pass *pass = &clock->passes[i];
        const struct stage_cost *cost = &costs[pass->cell];
        int64_t *compute = &clock->compute_ns[pass->stage];
        int64_t ready = pass->waits >= 0 ? clock->arrival_ns[pass->waits] : 0;
        int64_t end =
            later(*compute, ready) + (pass->backward ? cost->backward_ns : cost->forward_ns);
        *compute = end;
        if (pass->sends) {
            int64_t send = pass->backward ? cost->send_backward_ns : cost->send_forward_ns;
            int64_t *stream = send_blocks_compute ? compute
                              : pass->backward    ? &clock->backward_link_ns[pass->stage]
                                                  : &clock->forward_link_ns[pass->stage];
            end = *stream = later(*stream, end) + send;
        }
        clock->arrival_ns[pass->signal] = end;
        if (pass->backward && end > finish_ns[pass->stage]) finish_ns[pass->stage] = end;
        if (end > makespan_ns) makespan_ns = end;
    }
    return makespan_ns;
}
