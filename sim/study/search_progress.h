/* search_progress.h - how DIP's search and its two comparisons get ahead on one iteration (Figure
 * 11).
 *
 *     struct search_progress_options options = { .iteration = 0, .rollouts = 20000 };
 *     search_progress_run(job, &options, arena, &progress, err);
 *     progress.points[i].schedule_count, .makespan_ns     // as the table search_progress has them
 *
 * Each method starts from the first order (micro-batches in turn) and tries the same number of
 * schedules; makespans and counts are repeatable, wall times are this machine's. Makespans are of
 * the pipeline before the memory step, which is what the methods minimise.
 */
#ifndef BALLAST_SIM_STUDY_SEARCH_PROGRESS_H
#define BALLAST_SIM_STUDY_SEARCH_PROGRESS_H

#include "results/record.h"
#include "sim/policy/joint/segment_search.h"
#include "sim/replay/job.h"

struct search_progress_options {
    int64_t iteration;
    int64_t rollouts; /* of each method; 0: the policy's */
    int threads;      /* 0 and 1: the calling thread */
};

struct search_progress_method {
    struct segment_search_result result;
    int64_t near_schedules; /* tried until within 1 % of its own best; wall time then */
    double near_s;
};

struct search_progress {
    int64_t class_count, segment_count, task_count; /* tasks: passes on all ranks */
    int64_t bound_ns;
    struct search_progress_method methods[SEARCH_METHOD_COUNT];
    struct search_progress_record *points; /* method after method, in the arena */
    int64_t count;
};

/* Whether the job's policy searches an order for each iteration; others have no progress. */
bool search_progress_exists(const struct job *job);

bool search_progress_run(const struct job *job, const struct search_progress_options *options,
                         struct arena *arena, struct search_progress *progress, struct error *err);

#endif
