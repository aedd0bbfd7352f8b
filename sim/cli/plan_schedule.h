/* plan_schedule.h - the part of `ballast plan` that speaks of modality-aware plans and of one
 * iteration's order. */
#ifndef BALLAST_SIM_CLI_PLAN_SCHEDULE_H
#define BALLAST_SIM_CLI_PLAN_SCHEDULE_H

#include "sim/cli/cli.h"
#include "sim/study/execution.h"

struct plan_schedule_options {
    const char *output; /* NULL: stdout */
    int64_t iteration, rank;
    int64_t rollouts; /* of each method; 0: the policy's */
};

/* Writes the action lists of an iteration, or says what the plan and its order are; exit codes. */
int plan_schedule_emit(struct cli *cli, const struct execution *e,
                       const struct plan_schedule_options *options);
int plan_schedule_show(struct cli *cli, const struct execution *e,
                       const struct plan_schedule_options *options);
/* How the search for that order, and two simpler ones, got ahead. */
int plan_schedule_convergence(struct cli *cli, const struct execution *e,
                              const struct plan_schedule_options *options);

#endif
