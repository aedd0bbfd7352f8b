/* dip_local_search.c - DIP's schedule search against an independent local search on one iteration.
 *
 *     dip_local_search SCENARIO_DIR FILE SECONDS [PATH=VALUE...]
 *         the comparison of tests/bench/README.md
 *     dip_local_search SCENARIO_DIR FILE --moves N [PATH=VALUE...]
 *         repeatable; exit 1 where DIP's search, by as many schedules as the policy tries, ends
 *         more than 3 % above what the local search finds
 *
 * The local search starts from micro-batches in turn (greedy dual queue) and knows no classes, no
 * priorities and no queues. Its result is checked: each pass once, inputs before outputs, memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim/base/units.h"
#include "sim/study/planner_study.h"
#include "tests/bench/local_search.h"
#include "tests/unit/policy/segment_fixture.h"

#define ALLOWED_FRACTION 0.03

struct work {
    double seconds;
    int64_t moves;
    bool failed;
};

static void report(double seconds, int64_t moves, int64_t best_ns) {
    fprintf(stderr, "  %7.1f s %12ld moves  %.4f s\n", seconds, (long)moves,
            seconds_from_ns(best_ns));
}

static int64_t search(struct segment_graph *g, double seconds, int64_t rollouts, int threads) {
    int32_t *order = arena_array(g->arena, int32_t, g->class_count);
    struct segment_search_options options = segment_search_defaults();
    options.seconds = seconds;
    options.rollouts = rollouts;
    options.pool = threads > 1 ? thread_pool_create(threads) : NULL;
    struct segment_search_result result;
    segment_search(g, &options, order, &result);
    if (options.pool != NULL) thread_pool_destroy(options.pool);
    return result.best_ns;
}

static void compare(void *context, const struct planner_study *study) {
    struct work *w = context;
    struct segment_graph *g = study->segments->graph;
    struct segment_schedule schedule;
    schedule.tasks = arena_array(g->arena, struct segment_task, segment_schedule_size(g));
    int32_t *order = arena_array(g->arena, int32_t, g->class_count);
    for (int32_t i = 0; i < g->class_count; i++)
        order[i] = i;
    struct interleaver *x = interleaver_create(g);
    int64_t first_ns = interleaver_run(x, order, TURN_ALTERNATE, &schedule);
    interleaver_destroy(x);
    struct local_search_options options = {
        .seconds = w->seconds, .moves = w->moves, .seed = 7, .progress = report
    };
    int64_t moves = local_search(g, &options, &schedule);
    const char *fault = schedule_fault(g, &schedule, true);
    int64_t bound_ns = segment_graph_bound_ns(g), best_ns = schedule.makespan_ns;
    printf("%ld passes on %d ranks, lower bound %.4f s\n", (long)segment_schedule_size(g),
           (int)g->rank_count, seconds_from_ns(bound_ns));
    printf("micro-batches in turn      %.4f s\n", seconds_from_ns(first_ns));
    printf("local search               %.4f s (%ld moves), %s\n", seconds_from_ns(best_ns),
           (long)moves, fault == NULL ? "valid" : fault);
    w->failed = fault != NULL || best_ns < bound_ns;
    int64_t short_ns, long_ns;
    if (w->moves > 0) {
        short_ns = long_ns = search(g, 0, 400, 1);
        printf("DIP's search, 400 tried    %.4f s\n", seconds_from_ns(short_ns));
    } else {
        short_ns = search(g, 1, INT64_MAX, 2);
        long_ns = search(g, 60, INT64_MAX, 2);
        printf("DIP's search after 1 s     %.4f s\nDIP's search after 60 s    %.4f s\n",
               seconds_from_ns(short_ns), seconds_from_ns(long_ns));
        printf("1 s over 60 s              %+.2f %%\n",
               ((double)short_ns / (double)long_ns - 1) * 100);
    }
    double over = (double)short_ns / (double)best_ns - 1;
    printf("DIP's over local search    %+.2f %%\n", over * 100);
    w->failed = w->failed || over > ALLOWED_FRACTION || short_ns < bound_ns;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s SCENARIO_DIR FILE SECONDS|--moves N [PATH=VALUE...]\n", argv[0]);
        return 2;
    }
    struct work work = { 0 };
    int at = 4;
    if (strcmp(argv[3], "--moves") == 0 && argc > 4)
        work.moves = atoll(argv[at++]);
    else
        work.seconds = atof(argv[3]);
    struct error err = { 0 };
    struct scenario_options options = { .directory = argv[1],
                                        .overrides = (const char *const *)(argv + at) };
    struct scenario *s = scenario_load(&options, argv[2], &err);
    struct job *job = s != NULL ? job_create(s, &err) : NULL;
    bool ok = job != NULL && planner_study_run(job, 0, compare, &work, &err);
    if (!ok) fprintf(stderr, "error: %s\n", err.text);
    job_destroy(job);
    scenario_destroy(s);
    return ok && !work.failed ? 0 : 1;
}
