/* solver_study.h - DIP's search beside general solvers on the first iteration of a job (Figures 11,
 * 12).
 *
 *     struct solver_study s;
 *     solver_study_run(job, MONOLITHIC_GLPK, &s, err);
 *     s.makespan_ns, s.solvers[MONOLITHIC_GLPK].solved
 *
 * Solvers stop by budgets of work, so that what they prove is the same on every machine; how long
 * they took is not. The paper let them run for three hours; here it is seconds.
 */
#ifndef BALLAST_SIM_STUDY_SOLVER_STUDY_H
#define BALLAST_SIM_STUDY_SOLVER_STUDY_H

#include "sim/policy/joint/monolithic.h"
#include "sim/replay/job.h"

struct solver_study {
    int64_t makespan_ns,
        bound_ns; /* of the order that the policy's search takes; before memory step */
    double search_s;
    struct monolithic_result solvers[MONOLITHIC_COUNT]; /* zero where it is not built */
};

/* One solver, or (MONOLITHIC_COUNT) the search alone. */
bool solver_study_run(const struct job *job, enum monolithic_solver solver,
                      struct solver_study *study, struct error *err);

#endif
