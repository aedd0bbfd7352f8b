/* search_quantity.h - what DIP's Figures 11 and 12 say of its search, as quantities of a run.
 *
 * Each looks at the first iteration of the job and is kept in the source, because it takes seconds.
 * NaN: the job's policy does not search, the solver is not built in, or it proved nothing within
 * its budget.
 */
#ifndef BALLAST_SIM_STUDY_SEARCH_QUANTITY_H
#define BALLAST_SIM_STUDY_SEARCH_QUANTITY_H

#include "sim/policy/joint/monolithic.h"
#include "sim/policy/joint/segment_search.h"
#include "sim/study/reproduce/quantity.h"

/* Best of the method over the best of all three, less 1; schedules and wall seconds until within 1
 * % of its own best. */
double search_excess(struct quantity_source *source, enum search_method method);
double search_near_schedules(struct quantity_source *source, enum search_method method);
double search_near_s(struct quantity_source *source, enum search_method method);
/* The tree search's best over the lower bound, less 1. */
double search_gap(struct quantity_source *source);

/* DIP's search alone, in wall seconds; a solver's wall seconds; whether it proved an optimum (1 or
 * 0), and DIP's makespan over that optimum. */
double search_wall_s(struct quantity_source *source);
double solver_wall_s(struct quantity_source *source, enum monolithic_solver solver);
/* 1 where it was ended from outside. */
double solver_killed(struct quantity_source *source, enum monolithic_solver solver);
double solver_solved(struct quantity_source *source, enum monolithic_solver solver);
double solver_ratio(struct quantity_source *source, enum monolithic_solver solver);

#endif
