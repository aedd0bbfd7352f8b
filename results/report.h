/* report.h - stored runs as one HTML page that opens from disk: the answer first.
 *
 * Self-contained: style, script and pictures are inside; nothing is fetched. Pictures come from
 * gnuplot; without it the page says so and has none. Assumptions are read again from the stored
 * scenario, which needs the scenarios folder; without it the page says that too. Same database,
 * same version: the same bytes.
 */
#ifndef BALLAST_RESULTS_REPORT_H
#define BALLAST_RESULTS_REPORT_H

#include "results/store.h"

struct report_options {
    const char *database;  /* its name, for the commands on the page; NULL: it does not stay */
    const char *scenarios; /* folder */
    int64_t detail_limit;  /* runs that get pictures and stages of their own: the best ones */
};

/* `run_ids` in the order of the page's table. */
bool report_write(FILE *out, struct store *store, const int64_t *run_ids, int64_t run_count,
                  const struct report_options *options, struct error *err);

#endif
