/* monolithic.h - one iteration's schedule as a single program for a general solver, for comparison
 * with DIP's decomposed search (its Figure 12, sections 3.1 and 5.4).
 *
 * A start time for each pass; for each two passes of a rank that no dependency orders, a binary
 * variable that says which runs first: O(ranks x passes^2) of them. Live activations of a rank are
 * linear in these variables, so memory is part of the program where it is short. What each layer
 * recomputes is not: the program is smaller than the paper's, and its solvers have it easier.
 *
 *     struct monolithic_result result;
 *     monolithic_solve(graph, MONOLITHIC_GLPK, horizon_ns, &budget, &result);
 *     if (result.solved) ... result.best_ns is the optimum
 *
 * Repeatable under a budget of work (`effort`) alone; wall time is a guard. Z3 looks at its limits
 * only in its search, so it has a process of its own, which is killed a little behind the wall
 * time.
 */
#ifndef BALLAST_SIM_POLICY_JOINT_MONOLITHIC_H
#define BALLAST_SIM_POLICY_JOINT_MONOLITHIC_H

#include "sim/policy/joint/segment_order.h"

/* GLPK: mixed-integer program, branch and bound. Z3: difference logic with disjunctions, the
 * makespan closed in by bisection; optional, see monolithic_built(). */
enum monolithic_solver { MONOLITHIC_GLPK, MONOLITHIC_Z3, MONOLITHIC_COUNT };
const char *monolithic_name(enum monolithic_solver solver);
bool monolithic_built(enum monolithic_solver solver); /* whether this build has it */

struct monolithic_budget {
    int64_t effort;  /* GLPK: nodes; Z3: its resource units, all checks together */
    double seconds;  /* of wall time; whichever ends first */
};

struct monolithic_result {
    bool solved; /* best_ns is proven to be the least */
    bool ran;    /* false: no process could be made for it */
    bool killed; /* it came back too late, or crashed, and was ended from outside */
    int64_t best_ns, bound_ns; /* best known, horizon_ns at first; no schedule is faster */
    int64_t passes, choices, effort; /* binary variables; what was spent */
    double wall_s;
};

/* Binary variables that the program has. */
int64_t monolithic_choice_count(const struct segment_graph *graph);

/* horizon_ns: makespan of a schedule that is known. Only schedules as fast as it are looked for. */
void monolithic_solve(const struct segment_graph *graph, enum monolithic_solver solver,
                      int64_t horizon_ns, const struct monolithic_budget *budget,
                      struct monolithic_result *result);

#endif
