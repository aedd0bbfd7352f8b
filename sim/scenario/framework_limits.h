/* framework_limits.h - what a training framework cannot do whatever its options, by the scenario
 * alone: the one list for `check`, `sweep` (which rejects such configurations) and `plan --emit`.
 *
 *     struct framework_limit limits[FRAMEWORK_LIMIT_COUNT];
 *     int64_t count = framework_limits(FRAMEWORK_MEGATRON, scenario, arena, limits);
 *
 * What depends on the plan (cuts, blocks that recompute) is launch_flags.h's. Source: Megatron-LM's
 * and DeepSpeed's own argument parsers and documentation (docs/POLICIES.md).
 */
#ifndef BALLAST_SIM_SCENARIO_FRAMEWORK_LIMITS_H
#define BALLAST_SIM_SCENARIO_FRAMEWORK_LIMITS_H

#include "sim/scenario/scenario.h"

/* FSDP: its options are those of whatever trains with it, so `plan --emit` has none. */
enum framework { FRAMEWORK_MEGATRON, FRAMEWORK_DEEPSPEED, FRAMEWORK_FSDP };

enum { FRAMEWORK_LIMIT_COUNT = 8 };

struct framework_limit {
    const char *rule; /* under which a sweep counts it */
    const char *text; /* what is asked for and does not exist, one sentence */
};

/* Whose options launch a job of this backend. */
enum framework framework_of_backend(const char *backend);
/* Texts are static or the arena's. The scenario is read and its rules are kept. */
int64_t framework_limits(enum framework framework, const struct scenario *scenario,
                         struct arena *arena, struct framework_limit *limits);

#endif
