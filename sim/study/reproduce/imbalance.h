/* imbalance.h - how much inputs, stage times and memory vary from micro-batch to micro-batch.
 *
 * Forward times and inputs are over every micro-batch that the ranks get, without the rest that
 * fills no step; memory is the peak of each rank in some hundred steps, what the framework's
 * allocator keeps included. Deviations are of the population.
 *
 *     struct imbalance *i = imbalance_measure(execution, arena);
 *     i->stage_forward_ms[0].mean, i->forward_ms.deviation
 */
#ifndef BALLAST_SIM_STUDY_IMBALANCE_H
#define BALLAST_SIM_STUDY_IMBALANCE_H

#include "sim/study/execution.h"

struct spread {
    double mean, deviation;
};

struct imbalance {
    int64_t stage_count;
    struct spread vision_tokens;      /* patches of a sample, on average over its micro-batch */
    struct spread language_tokens;    /* length of a sample, padding included */
    struct spread stage_input_tokens; /* both, as the stages get them: the first encodes */
    struct spread forward_ms, memory_bytes;               /* over all stages */
    struct spread *stage_forward_ms, *stage_memory_bytes; /* by stage */
};

struct imbalance *imbalance_measure(const struct execution *execution, struct arena *arena);

#endif
