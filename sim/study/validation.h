/* validation.h - measured training runs beside their simulation.
 *
 * A row that cannot be simulated is skipped with a reason from a fixed list, never guessed. What a
 * source leaves out is filled in by measured_scenario.h.
 *
 *     struct validation *v = validation_run(&options, "rows.csv", NULL, NULL, err);
 *     v->rows[i].relative_error, v->groups[0].mean_abs_relative_error
 */
#ifndef BALLAST_SIM_STUDY_VALIDATION_H
#define BALLAST_SIM_STUDY_VALIDATION_H

#include "sim/study/execution.h"
#include "sim/study/measured_scenario.h"

struct validation_row {
    const struct measured_run *measured;
    enum validation_skip skip;
    const char *skip_detail;                                     /* what exactly; may be NULL */
    double predicted_s, relative_error, band_low_s, band_high_s; /* NaN when skipped */
    bool inside_range, calibrated_on, fits_predicted;
    const struct stack *stack; /* NULL when skipped before it was chosen */
    const char **notes;        /* what was filled in; NULL at the end */
    double predicted_peak_GiB,
        memory_relative_error; /* of the kind that was measured; NaN without */
};

struct validation_group {
    const char *source;
    int64_t rows, evaluated;
    double mean_abs_relative_error, median_abs_relative_error, p90_abs_relative_error,
        worst_relative_error, mean_signed_relative_error, band_coverage;
    int64_t memory_rows;
    double mean_abs_memory_error;
};

struct validation {
    struct arena *arena;
    struct measured_runs runs;
    struct validation_row *rows;
    struct validation_group *groups; /* by source, in order of appearance */
    int64_t group_count;
    struct validation_group all;
    /* fits against out of memory: [measured fits][predicted fits] */
    int64_t confusion[2][2];
};

struct validation *validation_run(const struct scenario_options *options, const char *path,
                                  void (*progress)(void *context, int64_t done, int64_t total),
                                  void *progress_context, struct error *err);
void validation_destroy(struct validation *validation);

#endif
