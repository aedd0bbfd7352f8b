/* planning.h - what each partition and recompute policy would choose for a job, side by side.
 *
 *     struct planning p;
 *     planning_make(job, 20000, arena, &p, err);
 *     p.rows[i].policy, p.rows[i].blocks, p.rows[i].seconds, p.rows[i].distance_fraction
 *
 * Row 0 is the job's own plan. Then each partition policy with the job's recompute policy, then
 * each recompute policy on the job's partition; parameters are the scenario's for its own policies
 * and the defaults for the others. Stage times and the pipeline are those of the mean micro-batch;
 * the step, memory and the verdict are those of the job's replay with the plan, as `run` has them.
 */
#ifndef BALLAST_SIM_STUDY_PLANNING_H
#define BALLAST_SIM_STUDY_PLANNING_H

#include "sim/replay/replay.h"

enum planning_group { PLANNING_OWN, PLANNING_PARTITION, PLANNING_RECOMPUTE };

struct planning_row {
    enum planning_group group;
    const char *policy;
    bool chosen;         /* it is the scenario's */
    const char *refusal; /* why the policy cannot plan this job; nothing below is set then */
    /* by part of the model */
    int64_t *blocks, *recomputing;
    /* by stage: one micro-batch, forward and backward (recomputation included) */
    double *forward_seconds, *backward_seconds;
    /* By stage, at the peak: of the steps replayed, and as if every micro-batch were the largest,
     * element by element. The same where nothing was replayed (planning.replayed_steps). */
    double *bytes, *worst_bytes;
    double training_bytes; /* likely peak of all epochs, NaN: not known; see training_peak.h */
    enum verdict verdict;
    bool always_fits;         /* in the worst case too */
    double step_seconds;      /* mean of the steps replayed; NaN: none were */
    double sent_bytes;        /* over all cuts, one micro-batch forward, all TP ranks */
    double seconds;           /* one iteration of one pipeline, before gradient reduction */
    double distance_fraction; /* partition rows: over the best of all; NaN where that is unknown */
};

struct planning {
    int64_t stage_count, chunk_count;
    double capacity_bytes;
    int64_t replayed_steps; /* 0: a policy plans each step, and rows tell its worst case alone */
    struct batch_shape typical, largest;
    struct planning_row *rows;
    int64_t row_count;
    /* The best of all partitions with the job's recompute policy; 0: not searched (interleaved) */
    double best_seconds, best_bound_seconds;
    int64_t best_simulated;
};

/* The scenario's own plan alone: what it needs, whether it fits. */
bool planning_own(struct job *job, struct arena *arena, struct planning_row *out,
                  struct error *err);

/* exact_limit: partitions that the search for the best may simulate. */
bool planning_make(struct job *job, int64_t exact_limit, struct arena *arena, struct planning *out,
                   struct error *err);

#endif
