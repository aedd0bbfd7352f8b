/* explanation.h - why a step takes as long as it does. */
#ifndef BALLAST_SIM_STUDY_EXPLANATION_H
#define BALLAST_SIM_STUDY_EXPLANATION_H

#include "sim/study/execution.h"

/* Time on the critical path spent in one kind of task on one stage. */
struct path_share {
    int64_t stage, task_count, ns;
    const char *kind; /* "forward", "backward", "send" */
};

/* A stretch of the critical path in order of time: passes of one stage one after another, or one
 * send. Each begins when the one before it ends. */
struct path_stretch {
    int64_t stage, pass_count, start_ns, finish_ns;
    int64_t first_micro_batch, last_micro_batch;
    bool send;
};

/* What the rank's pipeline takes less when the passes of one stage take 10 % less. */
struct stage_gain {
    int64_t stage, gain_ns;
};

/* Time of one kind of layer in a mean step, on one of the stages that hold such layers. */
struct layer_share {
    const char *layer_kind;
    int64_t layer_count, stage_count;          /* in the model; that hold some of them */
    double forward_s, backward_s, recompute_s; /* exposed tensor-parallel communication included */
    double step_fraction;
};

/* One line of where a mean step goes, as means over all GPUs: what the operators of the list take
 * at the typical micro-batch, what of it runs beside others (negative: what its stages wait for the
 * slowest one), what the other micro-batches differ, and what counts in the step. The counted
 * seconds of all parts are the step time; those of one group are the classes of `run` that it
 * names. */
enum step_group {
    STEP_LAYERS, /* run: compute, padding, recompute, launches, tensor and context parallelism */
    STEP_SENDS,
    STEP_REDUCTION,
    STEP_UPDATE,
    STEP_IDLE, /* bubble, imbalance, data loading: no operator */
    STEP_GROUP_COUNT
};
struct step_part {
    const char *name;
    enum step_group group;
    double operators_s, beside_s, others_s, counted_s; /* counted = operators - beside + others */
};
enum { STEP_PART_LIMIT = LAYER_KIND_COUNT + REPLAY_CLASS_COUNT + 4 };

struct advice {
    const char *name, *text;
    double step_fraction;
};

struct explanation {
    struct batch_shape typical; /* of the operators' prices */
    double tiles_per_micro_batch, language_tokens_per_micro_batch, samples_per_micro_batch;
    struct layer_share layers[LAYER_KIND_COUNT]; /* in order of the model */
    int64_t layer_kind_count;
    struct price_record *prices; /* largest time a step first; those outside of layers too */
    int64_t price_count;
    struct step_part parts[STEP_PART_LIMIT];
    int64_t part_count;
    int64_t iteration, rank, makespan_ns; /* the iteration's slowest rank */
    struct path_share *path;
    int64_t path_count;
    struct path_stretch *chain;
    int64_t chain_count;
    struct stage_gain *gains; /* largest first; none under ZeRO-2 and 3 */
    int64_t gain_count;
    struct advice *advice; /* largest first */
    int64_t advice_count;
};

/* layer_kind NULL: all operators. Everything lives in `arena` or in the execution. */
bool explanation_make(const struct execution *execution, int64_t iteration, const char *layer_kind,
                      struct arena *arena, struct explanation *out, struct error *err);

#endif
