/* calibrate_refit.h - `calibrate refit`: what the project fitted, from its measurements anew. */
#ifndef BALLAST_SIM_CLI_CALIBRATE_REFIT_H
#define BALLAST_SIM_CLI_CALIBRATE_REFIT_H

#include "sim/cli/cli.h"

/* In the scenarios folder: the factors of all stacks from calibrate/measured/steps.csv alone, then
 * the bands and what encoders take more from calibrate/measured/runs. profiles: before these the
 * curves of all GPUs and fabrics from the tables of microbenchmarks. Returns an exit code; what was
 * written before an error stays. */
int calibrate_refit(struct cli *cli, bool profiles);

#endif
