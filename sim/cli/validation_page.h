/* validation_page.h - docs/VALIDATION.md as `validate --markdown` prints it, and the shipped rows. */
#ifndef BALLAST_SIM_CLI_VALIDATION_PAGE_H
#define BALLAST_SIM_CLI_VALIDATION_PAGE_H

#include "sim/cli/cli.h"
#include "sim/study/validation.h"

/* calibrate/measured/runs/<all>.csv beside the scenarios folder, sorted by name. */
bool validation_shipped_rows(struct cli *cli, const char *const **paths, int64_t *count,
                             struct error *err);
void validation_page(struct cli *cli, const struct validation *validation);

#endif
