/* job.h - a scenario made ready to run: its data in micro-batches, its plan, its prices.
 *
 *     struct job *job = job_create(scenario, err);
 *     replay_run(job, &options, &replay, err);
 *     job_destroy(job);
 *
 * Read-only after creation. Borrows the scenario.
 *
 * Jobs of many scenarios share what is equal between them, a stage of preparation each:
 *
 *     struct job *data = job_load(scenario, err);                   // job_data_key() equal
 *     struct job *batched = job_batch(scenario, data, 1, err);      // job_batch_key() equal
 *     struct price_table *base = ...; price_table_prepare(base, batched->shapes, ...);
 *     struct job *job = job_plan(scenario, batched, base, err);     // price_table_key() equal
 */
#ifndef BALLAST_SIM_REPLAY_JOB_H
#define BALLAST_SIM_REPLAY_JOB_H

#include "sim/step/step.h"

enum { JOB_WINDOW_LIMIT = 6 };

struct job {
    struct arena *arena;
    const struct scenario *scenario;
    bool borrows_data, borrows_batches; /* from another job, which outlives this one */
    struct dataset *dataset;            /* owned unless borrowed, as batches and shapes */
    struct batch_plan batches;
    struct batch_balance balance;
    struct batch_shape *shapes; /* in the order of consumption: rank r, micro-batch i at
                                   shapes[r * batches.per_rank + i] */
    struct batch_shape typical; /* their mean */
    struct batch_shape largest; /* each size the largest of all */
    /* Of a job that keeps a part of the iterations, what the heaviest steps of all hold: the
     * largest mean of so many consecutive micro-batches of a rank and step, lengths rising. */
    struct job_window {
        int64_t length;
        struct batch_shape shape;
    } windows[JOB_WINDOW_LIMIT];
    int64_t window_count;
    bool single_frames;      /* clips of one frame each: images */
    const char **data_notes; /* what was assumed of the data, one sentence each */
    int64_t data_note_count;
    struct job_plan plan;
    struct price_table *prices; /* owned */
    struct job_layer {          /* that a planner asked for last; prices NULL: none */
        const struct price_table *prices;
        enum layer_kind kind;
        struct batch_shape shape;
        int64_t forward_ns, backward_ns;
    } last_layer;
    struct step_model *step;
    int64_t iteration_count;  /* to replay */
    int64_t epoch_iterations; /* whole ones in the data */
    double pass_steps;        /* of one pass of the sampler, the rest that fills no step pro rata */
    /* To train as many samples as packing kept: what the sampler drops of a pass is made up for by
     * steps of the next, and what it repeats is not counted off. */
    double epoch_steps;
    /* Samples of a step: on average over the epoch's whole ones, and as the scenario asks (0: it
     * gives the number of micro-batches instead). A packing policy makes each micro-batch a
     * group. */
    double samples_per_step;
    int64_t asked_samples_per_step;
    int64_t samples_left_out; /* that packing gives to no rank */
    double load_s, batch_s;   /* wall time of loading and of batching */
};

struct job *job_create(const struct scenario *scenario, struct error *err);
void job_destroy(struct job *job);

/* The data set alone. */
struct job *job_load(const struct scenario *scenario, struct error *err);
/* Its micro-batches too. With an iteration_limit above 0 so many iterations are kept that stand for
 * all by what they hold, and the micro-batches of the others are forgotten, after they went into
 * the statistics: the job is small then, and replays no more. */
struct job *job_batch(const struct scenario *scenario, const struct job *data,
                      int64_t iteration_limit, struct error *err);
/* Ready to run. `prices` is for price_table_borrow(); NULL: a table of its own. */
struct job *job_plan(const struct scenario *scenario, const struct job *batched,
                     const struct price_table *prices, struct error *err);
/* What the first two depend on. Models count as equal when they are the same object. */
const char *job_data_key(struct arena *arena, const struct scenario *scenario);
const char *job_batch_key(struct arena *arena, const struct scenario *scenario);
/* Of the samples, what packing gives to no rank. */
double job_left_out_fraction(const struct job *job);
/* Of what packing kept, what a pass of the sampler deals less; epoch_steps makes up for it. */
double job_dropped_fraction(const struct job *job);
/* Whether training.global_batch is in samples, also by default. */
bool job_asks_for_samples(const struct scenario *scenario);
/* Of a micro-batch, from the batching policy: 1 of one that packs, whatever the scenario says. */
int64_t job_samples_asked(const struct scenario *scenario);

/* The oracle that planners ask, on this job's prices and typical micro-batch. */
struct planner_oracle job_oracle(struct job *job);

/* Layers of each kind in the whole model. */
void job_layers_by_kind(const struct job *job, int64_t layers[LAYER_KIND_COUNT]);

#endif
