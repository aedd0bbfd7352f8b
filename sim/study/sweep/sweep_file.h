/* sweep_file.h - many scenarios from one description.
 *
 *     { "name": "layouts",
 *       "scenario": "internvl-6b-20b-isf.json",
 *       "vary": { "layout.tp": { "powers_of_two": [1, 8] },
 *                 "layout.pp": [2, 4, 8],
 *                 "training.micro_batch.samples": { "range": [1, 4] },
 *                 "cluster.hardware, cluster.price_usd_per_gpu_hour":
 *                     [["a100-80g-sxm", 2.0], ["h100-80g-sxm", 3.5]],
 *                 "policy.recompute": ["none", "full"] },
 *       "where": ["layout.tp * layout.pp <= 32"] }
 *
 * Configuration i takes a value of each axis, the last axis fastest. Mistakes point into the file.
 */
#ifndef BALLAST_SIM_STUDY_SWEEP_FILE_H
#define BALLAST_SIM_STUDY_SWEEP_FILE_H

#include "sim/scenario/scenario.h"
#include "sim/study/sweep/sweep_condition.h"

enum sweep_objective { SWEEP_TOTAL_DAYS, SWEEP_GPU_DAYS, SWEEP_MONEY };

struct sweep_axis {
    const char **paths; /* set together */
    int64_t path_count;
    const cJSON **values; /* value v of path p at [v * path_count + p] */
    int64_t value_count;
};

struct sweep_file {
    struct arena *arena;
    struct json *json, *base; /* the file, and the scenario that it varies with --set applied */
    const char *name, *description;
    struct sweep_axis *axes;
    int64_t axis_count, configuration_count;
    bool varies_micro_batch; /* on an axis of its own */
    const struct condition **conditions;
    int64_t condition_count;
    int objective; /* enum sweep_objective */
    int64_t top;   /* layouts that are replayed in full */
    int64_t race_iterations;
    double deadline_days, budget_usd; /* NaN: none */
    const char *definition; /* JSON: all that the rows depend on; equal texts mean equal rows */
};

/* At most SWEEP_TOP_LIMIT layouts are replayed, and pruning keeps as many. */
enum { SWEEP_TOP_LIMIT = 64 };

struct sweep_file *sweep_file_load(const struct scenario_options *options, const char *path,
                                   struct error *err);
void sweep_file_destroy(struct sweep_file *file);
/* The column of sweep_row that the objective has least of: "money_usd". */
const char *sweep_file_objective(const struct sweep_file *file);
/* The scenario document of a configuration, which the caller hands to scenario_load_json(). */
struct json *sweep_file_scenario(const struct sweep_file *file, int64_t index, struct error *err);
/* Of an axis' values the one that a configuration takes. */
int64_t sweep_file_value_index(const struct sweep_file *file, int64_t axis, int64_t index);
/* The first configuration that differs from it in training.micro_batch alone. */
int64_t sweep_file_without_micro_batch(const struct sweep_file *file, int64_t index);
/* {"layout.tp": 2, ...}; the caller deletes it. */
cJSON *sweep_file_assignments(const struct sweep_file *file, int64_t index);

extern const struct field_table sweep_file_table; /* its keys, for help and documentation */

#endif
