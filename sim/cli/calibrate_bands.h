/* calibrate_bands.h - `calibrate bands`: bands.json from rows that nothing was fitted on. */
#ifndef BALLAST_SIM_CLI_CALIBRATE_BANDS_H
#define BALLAST_SIM_CLI_CALIBRATE_BANDS_H

#include "sim/cli/cli.h"

/* Of the rows of these files (none: the shipped ones). output NULL: nothing is written; the
 * scenarios folder's own: made again until it is what it would be made of. json as in
 * calibrate_steps.h. Returns an exit code. */
int calibrate_bands(struct cli *cli, const char *const *paths, int64_t path_count,
                    const char *output, cJSON **json);

#endif
