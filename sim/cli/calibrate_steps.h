/* calibrate_steps.h - `calibrate fit --steps`: factors of software stacks from measured runs. */
#ifndef BALLAST_SIM_CLI_CALIBRATE_STEPS_H
#define BALLAST_SIM_CLI_CALIBRATE_STEPS_H

#include "sim/cli/cli.h"

/* row_ids: separated by commas, NULL: all rows. Rewrites the factors of every stack file in the
 * scenarios folder, or writes the files into `directory` if it is not NULL. Returns an exit code. */
int calibrate_steps(struct cli *cli, const char *path, const char *row_ids, const char *directory);

/* `calibrate bands`: bands.json from the rows of these files (none: the shipped ones) that nothing was
 * fitted on. NULL: into the scenarios folder. */
int calibrate_bands(struct cli *cli, const char *const *paths, int64_t path_count,
                    const char *output);

#endif
