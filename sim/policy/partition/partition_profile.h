/* partition_profile.h - the time of each block, as the policies that measure first see it. */
#ifndef BALLAST_SIM_POLICY_PARTITION_PROFILE_H
#define BALLAST_SIM_POLICY_PARTITION_PROFILE_H

#include "sim/policy/planner.h"

/* auto: the forward alone, as OmniBal profiles, where all modules are trained and a backward takes
 * about twice as long for each; with a frozen module, which runs none or half of it, both
 * passes. */
enum partition_time { PARTITION_TIME_AUTO, PARTITION_TIME_FORWARD, PARTITION_TIME_STEP };
extern const char *const partition_time_names[]; /* of a FIELD_CHOICE */

/* Seconds of each block for a micro-batch of this shape, with its glued layers; without
 * recomputation. `time` is a partition_time. The array is the arena's. */
double *partition_profile(struct arena *arena, const struct planner_oracle *oracle,
                          const struct batch_shape *shape, int time);

#endif
