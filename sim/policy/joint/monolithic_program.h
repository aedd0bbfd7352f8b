/* monolithic_program.h - what both solvers are given; between monolithic*.c only.
 *
 * A pass is numbered (2 segment + backward) x ranks + rank.
 */
#ifndef BALLAST_SIM_POLICY_JOINT_MONOLITHIC_PROGRAM_H
#define BALLAST_SIM_POLICY_JOINT_MONOLITHIC_PROGRAM_H

#include "sim/policy/joint/monolithic.h"

/* `after` starts no earlier than lag_ns after the start of `before`. */
struct monolithic_edge {
    int32_t before, after;
    int64_t lag_ns;
};

/* Two passes of one rank in an order that is to be chosen. */
struct monolithic_choice {
    int32_t first, second;
};

struct monolithic_program {
    const struct segment_graph *graph;
    int32_t pass_count, edge_count, choice_count;
    struct monolithic_edge *edges;
    struct monolithic_choice *choices;
    int32_t *choice_of;           /* [first x pass_count + second]: its number, or -1 */
    bool *reaches;                /* the same: a dependency orders them so */
    int64_t *occupied_ns;         /* by pass: of its rank, a blocking send included */
    int64_t *head_ns, *tail_ns;   /* earliest start; shortest time from its start to the end */
    bool *tight;        /* by rank: memory may be short */
    double *room_bytes; /* by rank: for live activations */
    int64_t horizon_ns, bound_ns;
};

static inline int32_t monolithic_pass(const struct segment_graph *g, int64_t segment, bool backward,
                                      int64_t rank) {
    return (int32_t)((2 * segment + backward) * g->rank_count + rank);
}

/* Each in a solver's own file. They set solved, best_ns, bound_ns (of the program) and effort. */
void monolithic_glpk(const struct monolithic_program *program,
                     const struct monolithic_budget *budget, struct monolithic_result *result);
void monolithic_z3(const struct monolithic_program *program, const struct monolithic_budget *budget,
                   struct monolithic_result *result);

/* Memory: for each forward k of a tight rank, its bytes and those of all segments that began before
 * it and end after it stay within the room: sum of bytes_i (before(F_i, F_k) - before(B_i,
 * F_k)). */

#endif
