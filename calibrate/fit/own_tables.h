/* own_tables.h - a user's measurements beside the shipped ones; private to the fit of a profile.
 *
 * A shipped row's source begins with its key in calibrate/measured/README.md ("S1:...") and stands
 * in the shipped table; every other row is the user's own. What own rows of the profile's GPU
 * suffice for is fitted on them alone, the rest on the rows with a key: those of the same folder,
 * or the shipped table's where it has none.
 */
#ifndef BALLAST_CALIBRATE_FIT_OWN_TABLES_H
#define BALLAST_CALIBRATE_FIT_OWN_TABLES_H

#include "calibrate/fit/calibrate.h"
#include "calibrate/fit/measurements.h"

struct calibrate_tables {
    struct gemm_rows gemm;
    struct attention_rows attention;
    struct nccl_rows nccl;
    struct membw_rows membw;
};

/* Of one table of the user. */
struct own_file {
    const char *path; /* NULL: the folder has no such table */
    const char *date; /* of the file, UTC */
    const char
        *gpus; /* what its own rows are of, "RTX 4090 (12 rows), ..."; "" where it has none */
    int64_t row_count; /* own rows of the profile's GPU */
};

struct own_tables {
    const char *profile, *gpu;    /* what the GPU is called here, and in column `gpu` of its rows */
    const char *alias;            /* ... or there; NULL: no other name */
    struct calibrate_tables rows; /* own, of that GPU */
    struct calibrate_tables others; /* what the rest is fitted on */
    struct own_file files[MEASUREMENT_FORMAT_COUNT];
    bool any;
};

/* Whether a row's source begins with a key of the shipped tables. */
bool own_tables_has_key(const char *source);

/* `relative`: the name where the profile's GPU has none of its own in measured tables. Own rows that
 * are all of other GPUs are an error that says which. shipped_dir NULL: measured_dir has all tables. */
bool own_tables_read(struct arena *arena, const char *measured_dir, const char *shipped_dir,
                     const struct calibrate_gpu *gpu, const char *relative, struct own_tables *out,
                     struct error *err);

/* "12 rows of H100-SXM5-80GB (cublasLt 12) in my/gemm.csv of 2026-11-22"; what may be "". */
const char *own_tables_source(struct arena *arena, const struct own_tables *own,
                              enum measurement_format table, int64_t count, const char *what);

#endif
