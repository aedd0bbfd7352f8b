/* sweep_decision.h - what a buyer asks of a finished sweep.
 *
 *     struct sweep_decision decision;
 *     sweep_decide(sweep, &decision);       // in the sweep's arena
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_DECISION_H
#define BALLAST_SIM_STUDY_SWEEP_DECISION_H

#include "sim/study/sweep/sweep.h"

struct sweep_decision {
    int64_t *front; /* rows that no other beats in time, money and memory; fastest first */
    int64_t front_count;
    /* By number and kind of GPUs, rising: the fastest layout that fits. At one number the fastest
     * takes the fewest GPU-days; deadline and budget do not matter here. */
    int64_t *by_gpu_count, gpu_count_count;
    int64_t fastest, cheapest; /* of these, in days and in money; -1: none fits, none has a price */
    int64_t cheapest_in_time;  /* least money (GPU-days without prices) that keeps the deadline */
    int64_t fastest_in_budget; /* -1: none, or no deadline or budget was given */
    /* The answers to the same questions that still fit if memory is the band's width more; -1 where
     * these do so already, or none does. */
    int64_t roomy_in_time, roomy_in_budget;
    /* The replayed ones against the first of them: paired where their steps hold the same
     * samples. */
    struct comparison_row *against_best; /* top_count */
    /* Why the second is slower: ms of a step with the winner's samples on the winner's GPUs. Sums
     * to the difference of the two. */
    double winner_ms[COMPARISON_PARTS], runner_up_ms[COMPARISON_PARTS];
};

void sweep_decide(struct sweep *sweep, struct sweep_decision *decision);

#endif
