/* planner_study.h - DIP's planner on one iteration of a job, by itself: for benchmarks and
 * pictures.
 *
 *     planner_study_run(job, iteration, visit, context, err);
 *
 * The job's policy must be modality-aware ("dip" or "optimus"). visit gets the iteration as a
 * segment graph, in whose capacity every rank's memory stands, and may do with it what it likes.
 */
#ifndef BALLAST_SIM_STUDY_PLANNER_STUDY_H
#define BALLAST_SIM_STUDY_PLANNER_STUDY_H

#include "sim/policy/joint/dip.h"
#include "sim/replay/job.h"

struct planner_study {
    const struct job_plan *plan;
    struct iteration_plan *iteration;
    struct modality_segments *segments;
};
typedef void (*planner_study_visit)(void *context, const struct planner_study *study);

bool planner_study_run(const struct job *job, int64_t iteration, planner_study_visit visit,
                       void *context, struct error *err);

#endif
