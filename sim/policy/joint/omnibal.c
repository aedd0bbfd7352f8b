/* omnibal.c - OmniBal whole: balanced data, model and memory as the paper combines them.
 *
 * ISF packs the samples, BMP cuts the model, adaptive recomputation uses the memory that is left,
 * and 1F1B runs it. Each part is an ordinary policy: a scenario that names its own replaces it, so
 * an ablation is `joint: omnibal` with one slot given.
 */
#include "sim/policy/joint/joint.h"

static const struct planner_preset omnibal_preset = {
    .batching = "isf",
    .partition = "bmp",
    .recompute = "adaptive",
    .schedule = "1f1b",
};

const struct planner joint_omnibal = {
    .name = "omnibal",
    .help = "batching isf, partition bmp, recompute adaptive, schedule 1f1b",
    .slot = PLANNER_JOINT,
    .preset = &omnibal_preset,
};
