/* check.h - how far a profile's prices are from measured rows.
 *
 *     struct calibrate_check check;
 *     if (!calibrate_check_file(arena, "scenarios", NULL, "calibrate/measured/gemm.csv.gz", &check,
 *                               err)) ...
 *     for (int64_t i = 0; i < check.group_count; i++) print(&check.groups[i]);
 *
 * Reads the four formats of measurements.h, plain or .gz; the header line decides which. Each row's
 * GPU chooses a shipped profile, its framework a named variant of it, its interconnect text a
 * fabric; rows are priced as isolated kernels. What cannot be priced is counted with its reason.
 */
#ifndef BALLAST_CALIBRATE_FIT_CHECK_H
#define BALLAST_CALIBRATE_FIT_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/measurements.h"
#include "sim/base/arena.h"
#include "sim/base/error.h"

/* Rows of one operator, GPU and framework. Matmul rows of at least 1e10 FLOP and collectives of at
 * least 1 MiB form a second group of their own. */
struct calibrate_group {
    const char *operator_name; /* "matmul", "matmul >= 1e10 FLOP", "all-reduce across nodes" ... */
    const char *gpu, *framework; /* as the rows have them */
    const char *priced_by;       /* "h100-80g-sxm, variant sglang" */
    bool exact_variant;          /* false: no variant of this framework, the nearest stood in */
    int64_t row_count;
    double median_abs_relative_error; /* of |price / measured - 1| */
    double p90_abs_relative_error;
    double mean_signed_relative_error; /* of price / measured - 1 */
    double inside_band_fraction;       /* rows within the price's own 80 % band */
};

/* One priced row of the file. */
struct calibrate_row {
    int64_t row;   /* from 1, behind the header */
    int64_t group; /* its last: the one of large rows, where it is one */
    double measured_s, price_s;
    bool inside_band;
};

struct calibrate_skip {
    const char *reason;
    int64_t row_count;
};

struct calibrate_check {
    /* "gemm", "attention", "membw" or "nccl"; NULL, and nothing else is there: a table of the bench
     * whose rows no single price is of */
    const char *format;
    int64_t row_count; /* in the file */
    int64_t group_count, skip_count;
    struct calibrate_group *groups; /* in the order of their first rows */
    struct calibrate_skip *skips;
    int64_t priced_count;
    struct calibrate_row *rows; /* in the order of the file */
};

/* row,measured_us,price_us,relative_error,inside_band,operator,gpu,framework,priced_by: a header
 * and one line for each priced row. */
void calibrate_check_write(const struct calibrate_check *check, bool header, FILE *out);

/* scenarios_directory holds hardware/. profile_or_null: a name as in scenarios/hardware or a path;
 * given, it prices every row, whatever GPU the row names; whether a row can be is judged by its own
 * GPU. Texts live in the arena. */
bool calibrate_check_file(struct arena *arena, const char *scenarios_directory,
                          const char *profile_or_null, const char *path,
                          struct calibrate_check *out, struct error *err);
/* Of a user's rows of this GPU in the tables of measured_dir (own_tables.h), those that a fit could
 * be made on, each table beside the curves that the GPU's hardware file has, whatever variant a framework has;
 * a table without such rows has none. Errors as those of the fit. */
bool calibrate_check_own(struct arena *arena, const char *scenarios_directory,
                         const char *measured_dir, const char *shipped_dir,
                         const struct calibrate_gpu *gpu,
                         struct calibrate_check out[MEASUREMENT_FORMAT_COUNT], struct error *err);

/* The groups of each operator as one, whatever its framework; gpu, framework and priced_by are
 * NULL. In the arena. */
struct calibrate_group *
calibrate_check_operators(struct arena *arena, const struct calibrate_check *check, int64_t *count);

#endif
