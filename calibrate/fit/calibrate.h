/* calibrate.h - from measurement CSVs to the efficiency curves of a GPU.
 *
 *     cJSON *curves = cJSON_CreateObject();
 *     struct calibrate_report report;
 *     if (!calibrate_fit_profile(arena, "my/measured", "calibrate/measured", "a100-80g-sxm", curves,
 *                                &report, err))
 *         ...
 *     char *text = calibrate_curves_text(curves);   // as scenarios/hardware/curves/<gpu>.json
 *
 * The shipped files are exactly what this writes from the shipped measurements. Sources of the
 * measurements: calibrate/measured/README.md. Rules for GPUs that were not measured: plan.c and
 * calibrate.c.
 */
#ifndef BALLAST_CALIBRATE_FIT_CALIBRATE_H
#define BALLAST_CALIBRATE_FIT_CALIBRATE_H

#include <cjson/cJSON.h>
#include "calibrate/fit/fit_matmul.h"
#include "sim/base/arena.h"
#include "sim/base/error.h"

enum { CALIBRATE_LINE_MAX = 64 };

/* One line for each fitted thing: how well it repeats what was measured. */
struct calibrate_line {
    char what[96];
    struct error_summary form;     /* closed form alone; count 0 where it does not apply */
    struct error_summary held_out; /* each point predicted without itself */
};

struct calibrate_report {
    int64_t line_count;
    struct calibrate_line lines[CALIBRATE_LINE_MAX];
    bool matmul_fitted; /* the coefficients below are of measurements of this GPU's family */
    struct matmul_fit matmul;
};

/* Names of the GPUs that a profile can be fitted for, NULL at the end. */
const char *const *calibrate_gpu_names(void);

/* The file of a table ("gemm", "attention", "nccl", "membw"), .csv.gz or .csv; who measured only some
 * of them has the others from the shipped folder. shipped_dir NULL: the path that is missing. */
const char *calibrate_table(struct arena *arena, const char *measured_dir, const char *shipped_dir,
                            const char *name);
/* Fills the empty object `profile_curves_out` from the tables of calibrate_table(). */
bool calibrate_fit_profile(struct arena *arena, const char *measured_dir, const char *shipped_dir,
                           const char *gpu, cJSON *profile_curves_out,
                           struct calibrate_report *report, struct error *err);

/* Which pass a row of gemm.csv is, by the operand layout that some frameworks state. */
enum operator_pass calibrate_matmul_pass(const char *framework);

/* JSON text with one line for each row of a table, so that two profiles can be compared. The caller
 * frees it. */
char *calibrate_curves_text(const cJSON *curves);

#endif
