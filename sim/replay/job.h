/* job.h - a scenario made ready to run: its data in micro-batches, its plan, its prices.
 *
 *     struct job *job = job_create(scenario, err);
 *     replay_run(job, &options, &replay, err);
 *     job_destroy(job);
 *
 * Read-only after creation. Borrows the scenario.
 */
#ifndef BALLAST_SIM_REPLAY_JOB_H
#define BALLAST_SIM_REPLAY_JOB_H

#include "sim/step/step.h"

struct job {
    struct arena *arena;
    const struct scenario *scenario;
    struct dataset *dataset;   /* owned */
    struct batch_plan batches; /* owned */
    struct batch_balance balance;
    struct batch_shape *shapes; /* in the order of consumption: rank r, micro-batch i at
                                   shapes[r * batches.per_rank + i]; owned */
    struct batch_shape typical; /* their mean */
    struct batch_shape largest; /* each size the largest of all */
    const char **data_notes;    /* what was assumed of the data, one sentence each */
    int64_t data_note_count;
    struct job_plan plan;
    struct price_table *prices; /* owned */
    struct step_model *step;
    int64_t iteration_count;  /* to replay */
    int64_t epoch_iterations; /* whole ones in the data */
    double epoch_steps;       /* with the rest that does not fill a step, pro rata */
    /* Samples of a step: on average over the epoch's whole ones, and as the scenario asks (0: it
     * gives the number of micro-batches instead). A packing policy makes each micro-batch a group. */
    double samples_per_step;
    int64_t asked_samples_per_step;
    int64_t samples_left_out; /* that packing gives to no rank */
    double load_s, batch_s;   /* wall time of loading and of batching */
};

struct job *job_create(const struct scenario *scenario, struct error *err);
void job_destroy(struct job *job);

/* The oracle that planners ask, on this job's prices and typical micro-batch. */
struct planner_oracle job_oracle(struct job *job);

/* Layers of each kind in the whole model. */
void job_layers_by_kind(const struct job *job, int64_t layers[LAYER_KIND_COUNT]);

#endif
