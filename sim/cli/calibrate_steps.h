/* calibrate_steps.h - `calibrate fit --steps`: factors of software stacks from measured runs. */
#ifndef BALLAST_SIM_CLI_CALIBRATE_STEPS_H
#define BALLAST_SIM_CLI_CALIBRATE_STEPS_H

#include "sim/cli/cli.h"

/* row_ids: separated by commas, NULL: all rows. Writes into `directory`, which is made if it is not
 * there, the file of each stack that has rows, as the scenarios folder has it but for the factors
 * that were fitted. whole: the files of all stacks, with no other factors than those of these rows.
 * json, with --json: takes the answer, to be freed; NULL: it goes to stdout. Returns an exit code. */
int calibrate_steps(struct cli *cli, const char *path, const char *row_ids, const char *directory,
                    bool whole, cJSON **json);

/* As the project's own files are laid out; whole or not at all. */
bool calibrate_write_document(const cJSON *document, const char *path, struct error *err);

#endif
