/* sweep_print.h - a sweep's answer as text and as JSON. */
#ifndef BALLAST_SIM_CLI_SWEEP_PRINT_H
#define BALLAST_SIM_CLI_SWEEP_PRINT_H

#include "sim/cli/cli.h"
#include "sim/study/sweep/sweep_decision.h"

double sweep_rate(const struct sweep *sweep); /* raced configurations per second */
cJSON *json_sweep(struct sweep *sweep);
void print_sweep(struct sweep *sweep);

#endif
