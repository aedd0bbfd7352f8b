/* nnscaler.c - nnScaler (Lin et al., OSDI 2024) as DIP compares with it ("nnScaler*"): one static
 * plan for a representative workload, here the mean micro-batch of the job. Stages are balanced by
 * time, blocks recompute where the largest micro-batches would not fit, and 1F1B has all modules
 * share one segment.
 */
#include "sim/policy/joint/joint.h"

static const struct planner_preset nnscaler_preset = { .partition = "exact",
                                                       .recompute = "adaptive",
                                                       .schedule = "1f1b" };

const struct planner joint_nnscaler = {
    .name = "nnscaler",
    .help = "partition exact, recompute adaptive, schedule 1f1b: a static plan for the mean "
            "micro-batch",
    .slot = PLANNER_JOINT,
    .preset = &nnscaler_preset,
};
