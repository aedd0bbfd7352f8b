/* explanation.h - why a step takes as long as it does. */
#ifndef BALLAST_SIM_STUDY_EXPLANATION_H
#define BALLAST_SIM_STUDY_EXPLANATION_H

#include "sim/study/execution.h"

/* Time on the critical path spent in one kind of task on one stage. */
struct path_share {
    int64_t stage, task_count, ns;
    const char *kind; /* "forward", "backward", "send" */
};

/* Time of one kind of layer in a mean step, on one of the stages that hold such layers. */
struct layer_share {
    const char *layer_kind;
    int64_t layer_count, stage_count;          /* in the model; that hold some of them */
    double forward_s, backward_s, recompute_s; /* exposed tensor-parallel communication included */
    double step_fraction;
};

struct advice {
    const char *name, *text;
    double step_fraction;
};

struct explanation {
    struct batch_shape typical; /* of the operators' prices */
    double tiles_per_micro_batch, language_tokens_per_micro_batch, samples_per_micro_batch;
    struct layer_share layers[LAYER_KIND_COUNT]; /* in order of the model */
    int64_t layer_kind_count;
    struct price_record *prices; /* largest time a step first */
    int64_t price_count;
    int64_t iteration, rank, makespan_ns; /* the iteration's slowest rank */
    struct path_share *path;
    int64_t path_count;
    struct advice *advice; /* largest first */
    int64_t advice_count;
};

/* layer_kind NULL: all operators. Everything lives in `arena` or in the execution. */
bool explanation_make(const struct execution *execution, int64_t iteration, const char *layer_kind,
                      struct arena *arena, struct explanation *out, struct error *err);

#endif
