/* search_progress.c - runs the methods one after another on the iteration's segment graph. */
#include "sim/study/search_progress.h"

#include <string.h>
#include "sim/base/units.h"
#include "sim/study/planner_study.h"

#define NEAR_FRACTION 0.01

struct recorder {
    const struct search_progress_options *options;
    struct segment_search_options search;
    struct arena *arena;
    struct search_progress *out;
    int64_t capacity, method_first; /* of points: where the method's begin */
    enum search_method method;
};

static void add_point(struct recorder *r, int64_t schedules, double wall_s, int64_t makespan_ns) {
    struct search_progress *out = r->out;
    if (out->count == r->capacity) {
        r->capacity = r->capacity > 0 ? 2 * r->capacity : 256;
        struct search_progress_record *grown =
            arena_array(r->arena, struct search_progress_record, r->capacity);
        if (out->count > 0) memcpy(grown, out->points, sizeof *grown * (size_t)out->count);
        out->points = grown;
    }
    out->points[out->count] =
        (struct search_progress_record){ .method = search_method_name(r->method),
                                         .point_index = out->count - r->method_first,
                                         .iteration_index = r->options->iteration,
                                         .schedule_count = schedules,
                                         .makespan_ns = makespan_ns,
                                         .bound_ns = out->bound_ns,
                                         .wall_ns = ns_from_seconds(wall_s) };
    out->count++;
}

static void improved(void *context, int64_t rollouts, double seconds, int64_t best_ns) {
    add_point(context, rollouts, seconds, best_ns);
}

static void find_near(struct recorder *r, struct search_progress_method *m) {
    for (int64_t i = r->method_first; i < r->out->count; i++) {
        const struct search_progress_record *point = &r->out->points[i];
        if ((double)point->makespan_ns > (1 + NEAR_FRACTION) * (double)m->result.best_ns) continue;
        m->near_schedules = point->schedule_count;
        m->near_s = seconds_from_ns(point->wall_ns);
        return;
    }
}

static void run_methods(void *context, const struct planner_study *study) {
    struct recorder *r = context;
    struct segment_graph *g = study->segments->graph;
    int32_t *order = arena_array(study->iteration->scratch, int32_t, g->class_count);
    r->out->class_count = g->class_count;
    r->out->segment_count = g->segment_count;
    r->out->task_count = segment_schedule_size(g);
    r->out->bound_ns = segment_graph_bound_ns(g);
    struct thread_pool *pool =
        r->options->threads > 1 ? thread_pool_create(r->options->threads) : NULL;
    for (int m = 0; m < SEARCH_METHOD_COUNT; m++) {
        r->method = (enum search_method)m;
        r->method_first = r->out->count;
        struct segment_search_options search = r->search;
        search.method = r->method;
        search.pool = pool;
        search.progress = improved;
        search.progress_context = r;
        struct search_progress_method *method = &r->out->methods[m];
        segment_search(g, &search, order, &method->result);
        if (method->result.best_ns == SEGMENT_DEAD_END) continue; /* it has no point either */
        add_point(r, method->result.rollouts, method->result.wall_s, method->result.best_ns);
        find_near(r, method);
    }
    if (pool != NULL) thread_pool_destroy(pool);
}

bool search_progress_exists(const struct job *job) {
    struct segment_search_options search;
    return dip_search_options(job->step->iteration_planner, job->step->iteration_parameters,
                              &search);
}

bool search_progress_run(const struct job *job, const struct search_progress_options *options,
                         struct arena *arena, struct search_progress *progress,
                         struct error *err) {
    *progress = (struct search_progress){ 0 };
    struct recorder r = { .options = options, .arena = arena, .out = progress };
    if (!dip_search_options(job->step->iteration_planner, job->step->iteration_parameters,
                            &r.search)) {
        error_set(err, "the scenario's policy does not search an order for each iteration");
        return error_hint(err, "\"policy\": { \"joint\": \"dip\" } does");
    }
    if (options->iteration >= job->iteration_count)
        return error_set(err, "iteration %ld: the scenario simulates iterations 0 to %ld",
                         (long)options->iteration, (long)job->iteration_count - 1);
    if (options->rollouts > 0) r.search.rollouts = options->rollouts;
    return planner_study_run(job, options->iteration, run_methods, &r, err);
}
