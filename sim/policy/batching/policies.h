/* policies.h - the rows of the batching table, one per file, and what those files share.
 *
 * A new policy: a file that defines its row, a line here and a line in batching.c.
 */
#ifndef BALLAST_SIM_POLICY_BATCHING_POLICIES_H
#define BALLAST_SIM_POLICY_BATCHING_POLICIES_H

#include "sim/policy/batching/batching.h"

extern const struct batching_policy batching_clip_group;
extern const struct batching_policy batching_device_group;
extern const struct batching_policy batching_isf;
extern const struct batching_policy batching_length_group;
extern const struct batching_policy batching_pack;
extern const struct batching_policy batching_random;

#endif
