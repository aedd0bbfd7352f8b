/* calibrate_profile.h - `calibrate fit --gpu`: the curves of one GPU, from the shipped measurements
 * or a user's. */
#ifndef BALLAST_SIM_CLI_CALIBRATE_PROFILE_H
#define BALLAST_SIM_CLI_CALIBRATE_PROFILE_H

#include "sim/cli/cli.h"

/* name: of a profile, or the path of a hardware file; measured NULL: the shipped tables; output
 * NULL: nothing is written; json as in calibrate_steps.h. Returns the exit code. */
int calibrate_profile(struct cli *cli, const char *name, const char *measured, const char *output,
                      cJSON **json);
/* `calibrate fit --fabric`: what a cluster's "fabric" names. */
int calibrate_fabric(struct cli *cli, const char *fabric, const char *measured, const char *output,
                     cJSON **json);

bool calibrate_write_curves(const cJSON *curves, const char *path, struct error *err);
/* Compressed where the name ends in .gz. */
bool calibrate_write_file(const char *path, const char *text, size_t size, struct error *err);

#endif
