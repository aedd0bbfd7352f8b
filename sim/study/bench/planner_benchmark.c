/* planner_benchmark.c - times the searcher and the memory step on iterations of shipped
 * scenarios. */
#include "sim/study/bench/planner_benchmark.h"

#include "sim/base/units.h"
#include "sim/base/wall_clock.h"
#include "sim/policy/joint/segment_search.h"
#include "sim/study/planner_study.h"

#define SEARCH_S 0.5

struct work {
    int threads;
    double seconds;
    struct planner_figures *figures;
    double makespan_s;
};

static bool run(const struct scenario_options *options, const char *file, const char *override,
                planner_study_visit visit, struct work *work, struct error *err) {
    struct arena *arena = arena_create();
    const char *overrides[] = { override, NULL };
    struct scenario_options own = { .directory = options->directory,
                                    .overrides = override != NULL ? overrides : NULL };
    struct scenario *s =
        scenario_load(&own, arena_format(arena, "%s/papers/dip/%s", options->directory, file), err);
    struct job *job = s != NULL ? job_create(s, err) : NULL;
    bool ok = job != NULL && planner_study_run(job, 0, visit, work, err);
    job_destroy(job);
    scenario_destroy(s);
    arena_destroy(arena);
    return ok;
}

static void search(void *context, const struct planner_study *study) {
    struct work *w = context;
    struct segment_graph *g = study->segments->graph;
    int32_t *order = arena_array(study->iteration->scratch, int32_t, g->class_count);
    struct segment_search_options options = segment_search_defaults();
    options.rollouts = INT64_MAX;
    options.seconds = w->seconds;
    options.pool = w->threads > 1 ? thread_pool_create(w->threads) : NULL;
    struct segment_search_result result;
    segment_search(g, &options, order, &result);
    if (options.pool != NULL) thread_pool_destroy(options.pool);
    w->figures->tasks = segment_schedule_size(g);
    w->figures->rollouts_per_s = (double)result.rollouts / result.wall_s;
    w->figures->bound_s = seconds_from_ns(segment_graph_bound_ns(g));
    w->makespan_s = seconds_from_ns(result.best_ns);
}

bool planner_benchmark_search(const struct scenario_options *options, int threads,
                              struct planner_figures *figures, struct error *err) {
    struct work work = { .threads = threads, .seconds = SEARCH_S, .figures = figures };
    return run(options, "vlm-s.json", "training.global_batch={\"micro_batches\":8}", search, &work,
               err);
}

bool planner_benchmark_plan(const struct scenario_options *options, int threads, double seconds,
                            double *makespan_s, struct planner_figures *figures,
                            struct error *err) {
    struct work work = { .threads = threads, .seconds = seconds, .figures = figures };
    if (!run(options, "vlm-l.json", NULL, search, &work, err)) return false;
    *makespan_s = work.makespan_s;
    return true;
}

static void fill_memory(void *context, const struct planner_study *study) {
    struct work *w = context;
    struct segment_graph *g = study->segments->graph;
    struct segment_schedule schedule;
    schedule.tasks =
        arena_array(study->iteration->scratch, struct segment_task, segment_schedule_size(g));
    int32_t *order = arena_array(study->iteration->scratch, int32_t, g->class_count);
    for (int32_t i = 0; i < g->class_count; i++)
        order[i] = i;
    struct interleaver *x = interleaver_create(g);
    interleaver_run(x, order, TURN_ALTERNATE, &schedule);
    interleaver_destroy(x);
    double start = wall_clock_s();
    struct memory_step_result result =
        memory_step(study->iteration, study->plan, study->segments, &schedule);
    w->figures->program_ms = (wall_clock_s() - start) * 1e3 / g->rank_count;
    w->figures->program_gap_fraction = result.gap_fraction;
    w->figures->pairs = g->segment_count;
    w->figures->rank_count = g->rank_count;
}

bool planner_benchmark_memory(const struct scenario_options *options,
                              struct planner_figures *figures, struct error *err) {
    struct work work = { .figures = figures };
    return run(options, "vlm-s.json", NULL, fill_memory, &work, err);
}
