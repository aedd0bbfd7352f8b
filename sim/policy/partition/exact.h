/* exact.h - the partition whose simulated iteration is the fastest, by search with pruning.
 *
 *     struct exact_result best;
 *     exact_search(oracle, plan, limit, blocks, &best, err);
 *     other_seconds / best.seconds - 1   // how far another partition is from it
 *
 * What is minimised is what planner_oracle.simulate says of a partition completed by the job's
 * recompute policy. A partition that fits in memory is better than any that does not.
 */
#ifndef BALLAST_SIM_POLICY_EXACT_H
#define BALLAST_SIM_POLICY_EXACT_H

#include "sim/policy/planner.h"

struct exact_result {
    double seconds;
    double bound_seconds; /* no partition is faster; equal to `seconds` when the search ended */
    int64_t simulated;    /* partitions */
    bool fits, proven;
};

/* At most `limit` partitions are simulated. Fills blocks[stage_count]. One chunk a stage. */
bool exact_search(const struct planner_oracle *oracle, const struct job_plan *plan, int64_t limit,
                  int64_t *blocks, struct exact_result *result, struct error *err);

#endif
