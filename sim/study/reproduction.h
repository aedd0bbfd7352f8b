/* reproduction.h - a paper's table beside the simulation.
 *
 * A table is a data file, scenarios/papers/<paper>/<table>.table.json: rows, each with the scenario file
 * that gives it and the values that the paper prints. Nothing is tuned per row.
 *
 *     reproduction_run(&options, "omnibal.ablation", &list, err);
 */
#ifndef BALLAST_SIM_STUDY_REPRODUCTION_H
#define BALLAST_SIM_STUDY_REPRODUCTION_H

#include "sim/study/execution.h"

struct reproduction_value {
    const char *id;    /* <paper>.<table>.<row>.<quantity>[.<reading>] */
    const char *table; /* "omnibal.ablation" */
    const char *row, *quantity, *unit;
    double paper, simulated;
    double relative_error; /* NaN when the paper's value is 0 */
    double band_fraction;  /* of the simulated value, where it has one; NaN otherwise */
    bool calibrated_on;
    const char *scenario_file;
    const char *const *assumptions; /* NULL at the end */
    const char *note;
};

struct reproduction_summary {
    const char *table;
    const char *source, *note;      /* of the table file; note may be NULL */
    const char *const *assumptions; /* unstated inputs of the whole table; NULL at the end */
    int64_t rows, rows_without_relative_error, rows_calibrated_on;
    double mean_abs_relative_error; /* of predictions: rows calibrated on do not count */
    double worst_relative_error;    /* signed */
};

struct reproduction {
    struct arena *arena;
    struct reproduction_value *values;
    int64_t value_count;
    struct reproduction_summary *summaries;
    int64_t summary_count;
};

/* selectors: "omnibal", "omnibal.ablation"; none means every table. Each scenario is simulated
 * once. store may be NULL; otherwise runs and values are kept. NULL: failed. */
struct reproduction *reproduction_run(const struct scenario_options *options,
                                      const char *const *selectors, int64_t selector_count,
                                      struct store *store, const struct provenance *provenance,
                                      void (*progress)(void *context, int64_t done, int64_t total),
                                      void *progress_context, struct error *err);
void reproduction_destroy(struct reproduction *reproduction);

#endif
