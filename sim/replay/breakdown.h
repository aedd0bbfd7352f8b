/* breakdown.h - where the time of a mean step goes. Private to sim/replay.
 *
 * What a rank computes, sends and waits for inside its passes is summed as it runs. What is idle in
 * a pipeline is told apart by two pipelines that did not run: an ideal one of equal stages, and one
 * whose stages always take their mean times.
 */
#ifndef BALLAST_SIM_REPLAY_BREAKDOWN_H
#define BALLAST_SIM_REPLAY_BREAKDOWN_H

#include "sim/base/units.h"
#include "sim/replay/replay.h"

/* Sums that one thread collects. Integers, so that the order of adding does not matter; class
 * times, which are doubles, are kept per iteration and added in order. */
struct iteration_sums {
    double class_ns[TIME_CLASS_COUNT];
    double model_flop, recompute_flop;
    ns_sum pipeline_idle_ns, rank_wait_ns;
    ns_sum loading_ns;          /* of all ranks, before them */
    int64_t late_loading_ns;    /* of the step, after them */
    int64_t slowest_loading_ns; /* of the rank whose samples take longest, hidden or not */
    int64_t left_ranks;                  /* not searched to the end */
    bool timed;                          /* a budget of wall time ended a search */
};

/* Fills replay->classes_s and launch_cost_s, in seconds of a mean step, from the sums of each of its
 * iterations; its stages, parts and step times are there already. `update_ns`: of a step, after what
 * hides. */
bool replay_break_down(const struct job *job, struct replay *replay,
                       const struct iteration_sums *sums, int64_t update_ns, struct error *err);

#endif
