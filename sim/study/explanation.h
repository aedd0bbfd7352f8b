/* explanation.h - why a step takes as long as it does. */
#ifndef BALLAST_SIM_STUDY_EXPLANATION_H
#define BALLAST_SIM_STUDY_EXPLANATION_H

#include "sim/study/execution.h"

/* Time on the critical path spent in one kind of task on one stage. */
struct path_share {
    int64_t stage, task_count, ns;
    const char *kind; /* "forward", "backward", "send" */
};

struct advice {
    const char *name, *text;
    double step_fraction;
};

struct explanation {
    struct batch_shape typical;
    double samples_per_micro_batch;
    struct price_record *prices;
    int64_t price_count;
    int64_t iteration, rank, makespan_ns; /* the iteration's slowest rank */
    struct path_share *path;
    int64_t path_count;
    struct advice *advice; /* largest first */
    int64_t advice_count;
};

/* layer_kind NULL: all. Everything lives in `arena` or in the execution. */
bool explanation_make(const struct execution *execution, int64_t iteration, const char *layer_kind,
                      struct arena *arena, struct explanation *out, struct error *err);

#endif
