/* job_limits.h - the longest step that a job may have. Private to sim/replay.
 *
 * Times are whole nanoseconds of 64 bits, and sums of a step's must stay far below 292 years. Each
 * function is false, with an error (rule "step-length"), where a step would take a year or more, or
 * one layer or collective 28 hours.
 *
 *     if (!job_check_work(job, err)) return false;         // before anything is priced
 *     if (!job_check_layer_times(job, err)) return false;  // before layers are summed to stages
 *     if (!job_check_outer_times(job, err)) return false;  // before a step is simulated
 */
#ifndef BALLAST_SIM_REPLAY_JOB_LIMITS_H
#define BALLAST_SIM_REPLAY_JOB_LIMITS_H

#include "sim/replay/job.h"

/* By the FLOP of the largest micro-batch. */
bool job_check_work(const struct job *job, struct error *err);
/* By the times of its layers. Needs job->prices. */
bool job_check_layer_times(const struct job *job, struct error *err);
/* By what a step runs outside of its layers at a typical micro-batch. Needs job->step. */
bool job_check_outer_times(const struct job *job, struct error *err);

#endif
