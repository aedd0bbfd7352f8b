/* fluctuation.c - moments over time of a step function, cut to the full phase of the pipeline. */
#include "sim/study/reproduce/fluctuation.h"

#include <math.h>
#include <string.h>

struct fluctuation fluctuation_between(const struct memory_point_record *points, int64_t count,
                                       int64_t from_ns, int64_t until_ns) {
    double weight = 0, sum = 0, squares = 0, least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        int64_t start = points[i].time_ns > from_ns ? points[i].time_ns : from_ns;
        int64_t next = i + 1 < count ? points[i + 1].time_ns : until_ns;
        if (next > until_ns) next = until_ns;
        if (next <= start) continue;
        double lasts = (double)(next - start), bytes = (double)points[i].memory_bytes;
        weight += lasts;
        sum += lasts * bytes;
        squares += lasts * bytes * bytes;
        least = fmin(least, bytes);
        most = fmax(most, bytes);
    }
    if (weight == 0) return (struct fluctuation){ NAN, NAN };
    double mean = sum / weight;
    return (struct fluctuation){ sqrt(fmax(squares / weight - mean * mean, 0)), most - least };
}

/* From the first backward (with its recomputation) to the end of the last forward. */
static void full_phase(const struct timeline *t, int64_t stage, int64_t *from_ns,
                       int64_t *until_ns) {
    *from_ns = INT64_MAX;
    *until_ns = 0;
    for (int64_t i = 0; i < t->span_count; i++) {
        const struct span_record *span = &t->spans[i];
        if (span->dp_rank != 0 || span->stage_index != stage) continue;
        if (strcmp(span->kind, "forward") == 0) {
            if (span->finish_ns > *until_ns) *until_ns = span->finish_ns;
        } else if (strcmp(span->kind, "backward") == 0 || strcmp(span->kind, "recompute") == 0) {
            if (span->start_ns < *from_ns) *from_ns = span->start_ns;
        }
    }
}

static struct fluctuation of_iteration(const struct execution *e, int64_t stage,
                                       int64_t iteration) {
    const struct fluctuation none = { NAN, NAN };
    struct arena *arena = arena_create();
    struct timeline t;
    struct fluctuation f = none;
    if (execution_timeline(e, iteration, 1, FIDELITY_STAGE, arena, &t, NULL)) {
        int64_t from_ns, until_ns, first = 0, count = 0;
        full_phase(&t, stage, &from_ns, &until_ns);
        while (first < t.memory_count &&
               (t.memory[first].dp_rank != 0 || t.memory[first].stage_index != stage))
            first++;
        while (first + count < t.memory_count && t.memory[first + count].dp_rank == 0 &&
               t.memory[first + count].stage_index == stage)
            count++;
        if (from_ns < until_ns)
            f = fluctuation_between(t.memory + first, count, from_ns, until_ns);
    }
    arena_destroy(arena);
    return f;
}

struct fluctuation fluctuation_measure(const struct execution *e, int64_t stage) {
    struct fluctuation mean = { 0, 0 };
    if (stage < 0 || stage >= e->job->step->stage_count) return (struct fluctuation){ NAN, NAN };
    const int64_t n = e->job->iteration_count;
    for (int64_t i = 0; i < n; i++) {
        struct fluctuation one = of_iteration(e, stage, i);
        mean.deviation_bytes += one.deviation_bytes / (double)n;
        mean.range_bytes += one.range_bytes / (double)n;
    }
    return mean;
}
