/* validation_page.h - docs/VALIDATION.md as `validate --markdown` prints it, and the shipped
 * rows. */
#ifndef BALLAST_SIM_CLI_VALIDATION_PAGE_H
#define BALLAST_SIM_CLI_VALIDATION_PAGE_H

#include "sim/cli/cli.h"
#include "sim/study/measured/validation.h"

enum shipped_rows {
    ROWS_DEVELOPMENT, /* calibrate/measured/runs: what factors and bands are made of is among them */
    ROWS_UNSEEN       /* calibrate/measured/unseen: nothing is made of them */
};

/* The <all>.csv of that folder, beside the scenarios folder, sorted by name. */
bool validation_shipped_rows(struct cli *cli, enum shipped_rows rows, const char *const **paths,
                             int64_t *count, struct error *err);

/* unseen: the unseen rows, summed up by source; NULL leaves them out. */
void validation_page(struct cli *cli, const struct validation *validation,
                     const struct validation *unseen);

#endif
