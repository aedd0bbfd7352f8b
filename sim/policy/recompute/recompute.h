/* recompute.h - which blocks drop their activations and compute them again in backward.
 *
 * Only transformer blocks recompute; embeddings, connector and head keep what they save.
 */
#ifndef BALLAST_SIM_POLICY_RECOMPUTE_H
#define BALLAST_SIM_POLICY_RECOMPUTE_H

#include "sim/policy/planner.h"

extern const struct planner recompute_adaptive, recompute_full, recompute_modules, recompute_none,
    recompute_selective, recompute_stages, recompute_uniform;

/* Sets the first `count` blocks of the stage to recompute fully and the others to keep. Blocks of a
 * kind are alike, so which ones recompute matters only where vision and language share a stage: the
 * vision blocks, which come first, save more bytes per second of recomputation. */
void recompute_first_blocks(const struct model *model, struct job_plan *plan, int64_t stage,
                            int64_t count);

#endif
