/* local_search.h - a local search over schedules of a segment graph that shares nothing with DIP's:
 * an independent measure of how good a schedule can be.
 *
 * Simulated annealing twice, each for half of the budget. First over a number for each segment's
 * forward and backward, from which a plain list scheduler makes a schedule: whenever a rank is
 * free, of the passes that are ready and fit, the one of the least number runs (no classes, no
 * queues, no turns). Then over the lists of passes of each rank: two neighbours on a longest path
 * change places (van Laarhoven, Aarts and Lenstra 1992: only such a swap can shorten a job shop's
 * schedule, and it never makes a cycle), or one of them goes to another place of its block. Every
 * state keeps within the memory of each rank.
 *
 *     struct local_search_options options = { .seconds = 600, .seed = 1 };
 *     local_search(graph, &options, &schedule);   // in: a valid schedule; out: the best found
 */
#ifndef BALLAST_TESTS_BENCH_LOCAL_SEARCH_H
#define BALLAST_TESTS_BENCH_LOCAL_SEARCH_H

#include "sim/policy/joint/segment_order.h"

struct local_search_options {
    double seconds; /* of CPU time, so that a busy machine takes nothing; 0: only `moves` ends it */
    int64_t moves;  /* tried at most; 0: only `seconds` ends it */
    uint64_t seed;
    /* Now and then, with the best so far; may be NULL. */
    void (*progress)(double seconds, int64_t moves, int64_t best_ns);
};

/* Returns how many moves were tried. */
int64_t local_search(const struct segment_graph *graph, const struct local_search_options *options,
                     struct segment_schedule *schedule);

#endif
