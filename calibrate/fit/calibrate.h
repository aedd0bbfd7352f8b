/* calibrate.h - from measurement CSVs to the efficiency curves of a GPU.
 *
 *     cJSON *curves = cJSON_CreateObject();
 *     struct calibrate_report report;
 *     struct calibrate_gpu gpu;
 *     if (!calibrate_gpu_read(arena, "scenarios", "a100-80g-sxm", &gpu, err) ||
 *         !calibrate_fit_profile(arena, "my/measured", "calibrate/measured", &gpu, curves, &report,
 *                                err))
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
#include "calibrate/fit/measurements.h"
#include "sim/base/arena.h"
#include "sim/base/error.h"

enum { CALIBRATE_LINE_MAX = 64, CALIBRATE_NOTE_MAX = 24 };

/* One line for each fitted thing: how well it repeats what was measured. */
struct calibrate_line {
    char what[96];
    struct error_summary form;     /* closed form alone; count 0 where it does not apply */
    struct error_summary held_out; /* each point predicted without itself */
    const char *from;              /* the user's file, or CALIBRATE_SHIPPED */
};
#define CALIBRATE_SHIPPED "shipped"

struct calibrate_report {
    int64_t line_count;
    struct calibrate_line lines[CALIBRATE_LINE_MAX];
    bool own; /* something was fitted on rows of the user */
    bool own_used[MEASUREMENT_FORMAT_COUNT];
    const char *own_paths[MEASUREMENT_FORMAT_COUNT]; /* of those tables */
    int64_t note_count;
    const char *notes[CALIBRATE_NOTE_MAX]; /* which of the user's rows were of no use, and why */
    int64_t unused_count;                  /* the first notes: of tables that no fit came of */
    bool matmul_fitted; /* the coefficients below are of measurements of this GPU's family */
    struct matmul_fit matmul;
};

/* Names of the GPUs that a profile can be fitted for, NULL at the end. */
const char *const *calibrate_gpu_names(void);
/* False, with the nearest name: none is called so. */
bool calibrate_knows(const char *gpu, struct error *err);

/* The file of a table ("gemm", "attention", "nccl", "membw"), .csv.gz or .csv; who measured only
 * some of them has the others from the shipped folder. shipped_dir NULL: the path that is
 * missing. */
const char *calibrate_table(struct arena *arena, const char *measured_dir, const char *shipped_dir,
                            const char *name);
/* The GPU that curves are fitted for, by its hardware file. */
struct calibrate_gpu {
    const char *hardware; /* as it was asked for: that name, or the path of the file */
    const char *profile;  /* the shipped one that it is, or whose curves it borrows */
    /* Of a hardware file of the user's own for a GPU that is none of the shipped ones: its name and
     * description, by which rows know it; NULL: it is the profile's. */
    const char *name, *description;
    /* Data sheet, which fractions are of; all 0: as the plan has them. */
    double bf16_flop_per_s, hbm_bytes_per_s;
    double nvlink_bytes_per_s, pcie_bytes_per_s; /* one direction; 0: none, or not known */
    /* Of a GPU of the user's own. */
    double sm_count; /* 0: not known */
    /* of its peak that the profile's isolated matmuls reach; 0: not known */
    double relative_efficiency;
    bool other_peaks; /* than the profile's */
};

/* `gpu`: the name of a shipped profile, or a path to a hardware file. */
bool calibrate_gpu_read(struct arena *arena, const char *scenarios_directory, const char *gpu,
                        struct calibrate_gpu *out, struct error *err);

/* Fills the empty object `profile_curves_out` from the tables of calibrate_table(). Rows of the
 * user (own_tables.h) come before the others, and `source` and `note` name their files. What was not
 * measured on a GPU of the user's own is the relative's, with the bands of one (efficiency.h). */
bool calibrate_fit_profile(struct arena *arena, const char *measured_dir, const char *shipped_dir,
                           const struct calibrate_gpu *gpu, cJSON *profile_curves_out,
                           struct calibrate_report *report, struct error *err);

/* Which pass a row of gemm.csv is, by the operand layout that some frameworks state. */
enum operator_pass calibrate_matmul_pass(const char *framework);

/* Whether the cost model can read them: a fit on rows that are wrong in a way no check knows may
 * leave what a profile may have. */
bool calibrate_curves_check(struct arena *arena, const cJSON *curves, struct error *err);

/* JSON text with one line for each row of a table, so that two profiles can be compared. The caller
 * frees it. */
char *calibrate_curves_text(const cJSON *curves);
/* That text as a file of this name would be read, for the caller to destroy; NULL: an error. */
struct json *calibrate_curves_json(const cJSON *curves, const char *name, struct error *err);

#endif
