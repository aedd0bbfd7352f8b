/* job_data.h - the data set of a job, read and held against its model. Private to sim/replay. */
#ifndef BALLAST_SIM_REPLAY_JOB_DATA_H
#define BALLAST_SIM_REPLAY_JOB_DATA_H

#include "sim/replay/job.h"

/* The most that a job adds to what its data set notes. */
enum { JOB_OWN_NOTES = 8 };

/* Fills dataset, load_s and the first of data_notes, which has room for the job's own notes. False
 * and an error where the file cannot be read, or the model has no price for what it holds. */
bool job_load_data(struct job *job, struct error *err);
/* What a rank's samples of one step, in so many micro-batches, take to load (what_if). */
int64_t job_loading_ns(const struct job *job, const struct batch_shape *shapes, int64_t count);

#endif
