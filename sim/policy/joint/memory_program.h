/* memory_program.h - which layers of which pass keep their activations (DIP, section 5.3).
 *
 * Two steps. Candidates of a stage pair (a forward and its backward): the best choices over its
 * layers' options at up to S memory sizes, by a multiple-choice knapsack. Then, for one rank whose
 * order of passes is fixed: one candidate a pair, least total time, at no moment more memory than
 * there is, on the GPU and in host memory.
 *
 *     count = memory_candidates(groups, group_count, S, candidates);
 *     memory_program_solve(&program, chosen, &result);   // result.gap_fraction is proven
 *
 * memory_program_exact() solves the same by branch and bound (GLPK), as the reference.
 */
#ifndef BALLAST_SIM_POLICY_JOINT_MEMORY_PROGRAM_H
#define BALLAST_SIM_POLICY_JOINT_MEMORY_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

/* Extra time and kept bytes of one way to run a layer. */
struct memory_option {
    double seconds, bytes;
};
enum { MEMORY_OPTION_LIMIT = 8, MEMORY_CANDIDATE_LIMIT = 32 };

/* Equal layers with the same options. */
struct memory_group {
    int64_t layers;
    int32_t option_count;
    struct memory_option options[MEMORY_OPTION_LIMIT];
};
enum { MEMORY_GROUP_LIMIT = 4 };

struct memory_candidate {
    double seconds, bytes, host_bytes; /* host_bytes: of offloaded layers */
    /* layers of each group in each option */
    int16_t counts[MEMORY_GROUP_LIMIT][MEMORY_OPTION_LIMIT];
};

/* Fastest and smallest, and between them the fastest in each of limit - 2 equal ranges of memory;
 * dominated ones left out. Sorted by bytes, so seconds fall. Returns how many, at least 1. */
int32_t memory_candidates(const struct memory_group *groups, int32_t group_count, int32_t limit,
                          struct memory_candidate *candidates);

/* One rank. Pair i is alive from event first[i] to event last[i], both included; events count the
 * rank's passes in order. */
struct memory_program {
    int32_t pair_count, event_count;
    const int32_t *first, *last;
    /* By pair, sorted by bytes, which are whole: their sums are the same in any order. Without a
     * host capacity none is dominated in bytes and seconds; with one the list may hold any, and the
     * smallest without host bytes must be among them. */
    const struct memory_candidate *const *candidates;
    const int32_t *candidate_counts;
    const double *capacity_bytes; /* by event: what the pairs alive may take together */
    const double *host_capacity_bytes; /* the same in host memory; NULL: no limit */
};

struct memory_program_result {
    bool feasible;
    double seconds;       /* of the choice */
    double bound_seconds; /* no choice is faster */
    double gap_fraction;  /* 1 - bound / seconds */
    int64_t rounds;       /* of the dual */
};

/* chosen: by pair, index of a candidate. Stops at a gap of gap_fraction or after rounds of the
 * dual. */
void memory_program_solve(const struct memory_program *program, double gap_fraction,
                          int32_t *chosen, struct memory_program_result *result);
/* The same by GLPK, to the given gap; starts from `chosen` when warm. false: the solver failed. */
bool memory_program_exact(const struct memory_program *program, double gap_fraction, bool warm,
                          double limit_seconds, int32_t *chosen,
                          struct memory_program_result *result);

#endif
