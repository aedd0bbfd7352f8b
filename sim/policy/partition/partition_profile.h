/* partition_profile.h - the time of each block, as the policies that measure first see it. */
#ifndef BALLAST_SIM_POLICY_PARTITION_PROFILE_H
#define BALLAST_SIM_POLICY_PARTITION_PROFILE_H

#include "sim/policy/planner.h"

enum partition_time { PARTITION_TIME_FORWARD, PARTITION_TIME_STEP };
extern const char *const partition_time_names[]; /* of a FIELD_CHOICE */

/* Seconds of each block at the mean micro-batch, with its glued layers; without recomputation. */
double *partition_profile(struct arena *arena, const struct planner_oracle *oracle, int time);

#endif
