/* sample_rows.h - one row of each table, for the tests of this folder. */
#ifndef BALLAST_TESTS_UNIT_RESULTS_SAMPLE_ROWS_H
#define BALLAST_TESTS_UNIT_RESULTS_SAMPLE_ROWS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "results/store.h"

static const struct iteration_record sample_iterations[] = {
    { 0, 2100000000, 3, 1900000000, 1024, 256, 900000, 850000, 4100, 2200000000 },
    { 1, 2250000001, 1, -1, 1024, 256, 910000, 860000, 4080, 2100000500 },
    { 2, 2050000002, 0, 2000000000, 1000, 250, 890000, 840000, 3900, -1 },
};
static const struct stage_record sample_stages[] = {
    { 0, "vision 0-44", 45, 5900000000, 1500.5, 600, 500, 900.25, 100.25, 4 },
    { 1, "connector, language 0-47", 49, 20000000000, 1900, 200, 600, 1100, 200, -1 },
};
static const struct memory_record sample_memory[] = {
    { 0, "activations", 30000000000 },
    { 0, "weights", 12000000000 },
    { 1, "weights", 40000000000 },
};
static const struct price_record sample_prices[] = {
    { 0, "vision block", "qkv", "matmul", "forward", "m=4096 n=9600 k=3200", 180, 0.5, 2.5e11, 1e8,
      0, 1.2e-3, 4e-6, 0.71, "compute", "a100 matmul curve", true, 0.05 },
    { 1, "language block", "tp", "all-reduce", "backward", "64 MiB", NAN, NAN, 0, 0, 67108864, 5e-4,
      2e-5, NAN, "network", "nccl ring", false, NAN },
};
static const struct span_record sample_spans[] = {
    { 0, 2, 0, 0, "compute", "forward", -1, 0, -1, 0, 1500001, NULL, -1 },
    { 1, 2, 0, 0, "send", "send", -1, 0, 7, 1500001, 1600000, NULL, -1 },
    { 2, 2, 0, 1, "compute", "forward", 0, 0, 7, 1600000, 3000000, "language", 2 },
    { 3, 2, 0, 1, "compute", "update", -1, -1, -1, 3000000, 3100000, NULL, -1 },
    { 4, 2, 1, 0, "compute", "forward", -1, 0, -1, 0, 1400000, NULL, -1 },
};
static const struct memory_point_record sample_points[] = {
    { 0, 0, 0, 0, 42000000000 },
    { 1, 0, 0, 1500001, 43000000000 },
    { 2, 0, 1, 0, 40000000000 },
};
static const struct search_progress_record sample_progress[] = {
    { "depth-first", 0, 0, 0, 1, 2300000000, 1900000000, 1500 },
    { "mcts", 0, 0, 0, 1, 2300000000, 1900000000, 1400 },
    { "mcts", 1, 0, 0, 90, 2000000000, 1900000000, -1 },
};
static const struct reproduction_record sample_reproductions[] = {
    { 0, NULL, "0.1.0", "abc", "omnibal", "main", "6B+20B baseline", "gpu_days", "GPU-days", 100.0,
      108.0, NAN, "prediction", "published", NULL, NULL, -1 },
    { 0, NULL, "0.1.0", "abc", "omnibal", "main", "6B+20B omnibal", "gpu_days", "GPU-days", 50.0,
      46.0, NAN, "prediction", "published", "papers/a.json", "note", -1 },
    { 0, NULL, "0.1.0", "abc", "omnibal", "main", "anchor", "gpu_days", "GPU-days", 10.0, 20.0, NAN,
      "fitted", "published", NULL, NULL, -1 },
    { 0, NULL, "0.1.0", "abc", "omnibal", "main", "empty", "gpu_days", "GPU-days", NAN, 20.0, NAN,
      "prediction", "published", NULL, NULL, -1 },
};
static const struct validation_record sample_validations[] = {
    { 0, NULL, "0.1.0", "abc", "rows.csv", "gpt 22b", "Megatron-LM", "a100-80g-sxm", "megatron-lm",
      "step_time_ms", "ms", 1000, 950, 0.10, "prediction", NULL, -1, 0.05 },
};
#define SAMPLE_COUNT(rows) ((int64_t)(sizeof(rows) / sizeof((rows)[0])))

static inline struct sweep_row_record sample_sweep_row(const char *configuration, int64_t index) {
    return (struct sweep_row_record){ .configuration = configuration,
                                      .row_index = index,
                                      .assignments = "{\"layout.tp\":1}",
                                      .status = "raced",
                                      .replayed_iterations = 1,
                                      .gpu_count = 8,
                                      .step_time_mean_ms = 1000,
                                      .step_time_p50_ms = NAN,
                                      .step_time_p95_ms = NAN,
                                      .total_days = 1,
                                      .gpu_days = 8,
                                      .money_usd = NAN,
                                      .on_demand_usd = NAN,
                                      .mfu_fraction = 0.4,
                                      .band_fraction = 0.1,
                                      .band_below_fraction = 0.05,
                                      .verdict = "fits",
                                      .memory_peak_bytes = 40,
                                      .memory_capacity_bytes = 80,
                                      .on_front = -1,
                                      .run_id = -1 };
}

static inline struct run_record sample_run(const char *name) {
    struct run_record run = run_record_empty();
    run.scenario_name = name;
    run.tool_version = "0.1.0";
    run.source_commit = "abc+dirty";
    run.command_line = "ballast run x.json";
    run.seed = 1024;
    run.resolved_scenario =
        "{\"model\":{\"name\":\"vlm\"},\"dataset\":\"d\",\"layout\":{\"tp\":2,\"pp\":4},"
        "\"policy\":{\"batching\":{\"name\":\"isf\"},\"schedule\":\"1f1b\"}}";
    run.profile_id = "a100 1234";
    run.fidelity = "stage";
    run.status = "done";
    return run;
}

/* A new folder under /tmp; the test removes it with sample_remove_folder(). */
static inline char *sample_folder(void) {
    char *folder = strdup("/tmp/ballast-results-XXXXXX");
    if (folder == NULL || mkdtemp(folder) == NULL) abort();
    return folder;
}

static inline void sample_remove_folder(char *folder) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0) abort();
    free(folder);
}

/* Stores a whole run with rows in every table of a run; step_ms tells runs apart. */
static inline bool sample_store_run(struct store *store, const char *name, double step_ms,
                                    struct error *err) {
    struct run_record run = sample_run(name);
    if (!store_begin_run(store, &run, err)) return false;
    run.step_time_mean_ms = step_ms;
    run.compute_ms = step_ms * 0.75;
    run.bubble_ms = step_ms * 0.25;
    run.verdict = "fits";
    run.memory_capacity_bytes = 80000000000;
    return store_add_iterations(store, sample_iterations, SAMPLE_COUNT(sample_iterations), err) &&
           store_add_stages(store, sample_stages, SAMPLE_COUNT(sample_stages), err) &&
           store_add_memory(store, sample_memory, SAMPLE_COUNT(sample_memory), err) &&
           store_add_prices(store, sample_prices, SAMPLE_COUNT(sample_prices), err) &&
           store_add_spans(store, sample_spans, SAMPLE_COUNT(sample_spans), err) &&
           store_add_memory_points(store, sample_points, SAMPLE_COUNT(sample_points), err) &&
           store_add_search_progress(store, sample_progress, SAMPLE_COUNT(sample_progress), err) &&
           store_finish_run(store, &run, err);
}

#endif
