/* replay.h - every optimizer step of an epoch, each data-parallel rank with its own samples.
 *
 * A step ends when the slowest rank of each stage has finished, gradients are reduced, and the
 * update is done. Iterations are independent, so threads share them; results do not depend on
 * their number.
 *
 *     struct replay *replay = replay_run(job, &options, err);
 *     replay->step_time_mean_s, replay->classes_s[REPLAY_BUBBLE], ...
 */
#ifndef BALLAST_SIM_REPLAY_REPLAY_H
#define BALLAST_SIM_REPLAY_REPLAY_H

#include "sim/base/band.h"
#include "sim/replay/job.h"
#include "sim/replay/training_peak.h"

struct replay_options {
    enum fidelity fidelity;
    int threads;      /* 0: one per core */
    bool answer_only; /* time, memory and utilisation without classes_s: many times faster */
    /* Called from the calling thread now and then; may be NULL. */
    void (*progress)(void *context, int64_t done, int64_t total);
    void *progress_context;
};

struct iteration_outcome {
    int64_t step_time_ns;
    int64_t slowest_rank;
    int64_t slowest_rank_ns, fastest_rank_ns; /* pipeline alone */
    int64_t samples, language_tokens, useful_language_tokens, vision_tiles;
    /* Wall time that the policy took to plan it, on one core: of the rank that took longest, since
     * each plans on its own hosts. Negative: its plan was made with the job. */
    int64_t planner_ns;
};

/* Where the GPUs' time goes, as seconds of a mean step; sums to the step time exactly. */
enum replay_class {
    REPLAY_COMPUTE,
    REPLAY_PADDING,
    REPLAY_RECOMPUTE,
    REPLAY_LAUNCH, /* waiting for the host's launches, which the stack states the time of */
    REPLAY_TENSOR,
    REPLAY_CONTEXT,
    REPLAY_HOST_COPY, /* kept activations to host memory and back */
    REPLAY_SEND,
    REPLAY_BUBBLE, /* (stages - 1) / micro-batches of the mean stage's work: an ideal pipeline's */
    REPLAY_STAGE_IMBALANCE, /* stages differ on average */
    REPLAY_TIME_IMBALANCE,  /* micro-batches differ over time, and waiting for sends */
    REPLAY_RANK_IMBALANCE,  /* waiting for the slowest data-parallel rank */
    REPLAY_DATA,            /* gradient reduction; under FSDP and ZeRO-3 parameter gathers too */
    REPLAY_UPDATE,          /* optimizer and parameter gather */
    REPLAY_LOADING,         /* waiting for samples; see what_if */
    REPLAY_CLASS_COUNT
};
const char *replay_class_name(enum replay_class class); /* "pipeline bubble" */
/* Most scenarios have nothing of it: not to be spoken of where it is 0. */
bool replay_class_is_rare(enum replay_class class);

/* A step is inside the measured range while no more of its operators' time is priced outside. */
#define OUTSIDE_RANGE_FRACTION 0.1

enum verdict { VERDICT_FITS, VERDICT_TIGHT, VERDICT_OUT_OF_MEMORY };
const char *verdict_name(enum verdict verdict); /* "fits", "tight", "out of memory" */

struct stage_outcome {
    double busy_s, forward_s, backward_s,
        recompute_s;           /* mean step; forward and backward without sends */
    struct stage_memory peak;  /* of the worst iteration and rank */
    struct stage_memory least; /* of the step and rank that needs least */
    int64_t peak_iteration, peak_rank;
    int64_t in_flight; /* passes: micro-batches, of each chunk when interleaved */
};

struct replay {
    struct arena *arena; /* owns all of it */
    enum fidelity fidelity;
    int64_t iteration_count;
    struct iteration_outcome *iterations;
    int64_t samples, language_tokens, useful_language_tokens, vision_tiles;
    double step_time_mean_s, step_time_p50_s, step_time_p95_s, step_time_p99_s;
    double total_days, gpu_days, money_usd; /* all epochs; money is NaN without a price */
    /* Of total_days, the part in which training gets ahead: 1 unless what_if has GPUs fail. */
    double goodput_fraction;
    double
        checkpoint_interval_s; /* NaN: no GPU fails; INFINITY: done before the first checkpoint */
    double mfu_fraction, hfu_fraction;
    enum precision mfu_precision; /* whose peak they are of: the last module's */
    double classes_s[REPLAY_CLASS_COUNT];
    /* A mean step's samples on the workers of the rank that takes longest, hidden or not (0: it is
     * not modelled, or answer_only); steps that were shorter than the loading beside them. */
    double loading_mean_s;
    int64_t late_loading_count;
    /* By how much a mean step would be shorter if nothing waited for launches: less than the class
     * where waits are beside the slowest stage, more where the others wait for it meanwhile. */
    double launch_cost_s;
    int64_t stage_count, part_count;
    struct stage_outcome *stages;
    double *part_forward_s, *part_backward_s; /* mean step, by part of the model */
    enum verdict verdict;
    int64_t verdict_stage;
    enum memory_class verdict_class; /* the largest class on that stage, context aside */
    /* Of the whole training, all epochs, whichever way they are shuffled; the verdict's. NaN: too
     * few steps to tell, or a policy plans each step by what it needs. */
    struct training_peak training;
    double memory_band_fraction;    /* of its device memory; NaN: no measured runs tell */
    bool memory_close;              /* the band reaches the capacity, from below or from above */
    struct band band;               /* of the step time */
    double operators_band_fraction; /* the mean of the operators' bands, by their time */
    /* Of the step, by what rules state of operators inside layers; 0 for the others. */
    double stated_band_fraction;
    /* two such runs err against each other by a factor of no more than 1 + this; NaN: not known */
    double pair_band_fraction;
    /* Of the time of a mean micro-batch, priced outside the measured range. */
    double outside_fraction;
    double
        lost_fraction; /* of the step, that the band goes by: 1 - HFU, but see RULED_LOST_LEAST */
    bool inside_range; /* that is no more than OUTSIDE_RANGE_FRACTION */
    double wall_s;
    /* Planning of an iteration runs beside the one before it, the first before training begins.
     * What it takes longer, training would wait; that wait is not part of any time above, because
     * it is this machine's. NaN: the policy plans no iterations. */
    double planner_mean_s, planner_most_s, planner_exposed_s; /* exposed: of a mean step */
    int64_t planner_exposed_count;                            /* steps that would wait */
    bool repeatable; /* no budget of wall time ended a search */
    /* Of the ranks of all iterations, those whose search ended because a slower one holds up the
     * step. Theirs, the mean over ranks and what follows from it (imbalance between ranks, idle and
     * recomputing time) is what their first orders give. */
    double left_ranks_fraction;
};

struct replay *replay_run(const struct job *job, const struct replay_options *options,
                          struct error *err);
void replay_destroy(struct replay *replay);
/* What a band of its step rests on. */
struct step_doubt replay_doubt(const struct replay *replay);

/* A training of more days never finishes: failures come before the next checkpoint. */
#define REPLAY_NEVER_DAYS 36500.0
bool replay_never_finishes(const struct replay *replay);

/* The device memory that the verdict holds against the capacity: the likely peak of the training,
 * or where that is not known the peak that was replayed. */
double replay_verdict_bytes(const struct replay *replay);

/* A GPU is tight above this share of its memory, or where one training in ten does not fit. */
#define REPLAY_TIGHT_FRACTION 0.92

#endif
