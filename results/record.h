/* record.h - the rows of results/schema.sql as C structs, one per table, member for column.
 *
 * schema.sql explains each column; here only what C adds: a text that is NULL, a double that is NaN
 * and (where marked) a negative count or index are stored as NULL, and come back so. Surrogate keys
 * (run_id of a row) are not members: the store knows the run that a row belongs to. Texts are
 * borrowed while a row is added, and live in the caller's arena when it is loaded.
 *
 *     struct run_record run = run_record_empty();
 *     run.scenario_name = "baseline";
 */
#ifndef BALLAST_RESULTS_RECORD_H
#define BALLAST_RESULTS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct run_record {
    int64_t id; /* given by the store */
    const char *scenario_name, *scenario_file;
    const char *created_utc; /* NULL: now, by the store */
    const char *tool_version, *source_commit, *command_line;
    const char *host; /* NULL: this machine, by the store */
    int64_t seed;
    const char *resolved_scenario, *profile_id, *fidelity;
    bool repeatable;
    const char *status, *failure;
    double wall_time_s;
    int64_t gpu_count, dp; /* negative: NULL, as all counts below */
    int64_t iteration_count, sample_count, language_token_count, vision_tile_count;
    double step_time_mean_ms, step_time_p50_ms, step_time_p95_ms, step_time_p99_ms;
    double total_days, gpu_days, money_usd;
    double mfu_fraction, hfu_fraction;
    const char *verdict;
    int64_t verdict_stage_index;
    const char *verdict_class;
    int64_t memory_peak_bytes, memory_capacity_bytes;
    double band_fraction;
    int64_t inside_range; /* 0, 1; negative: NULL */
    double compute_ms, padding_ms, recompute_ms, update_ms;
    double exposed_tensor_ms, exposed_context_ms, exposed_pipeline_ms, exposed_data_ms;
    double bubble_ms, stage_imbalance_ms, rank_imbalance_ms, time_imbalance_ms;
    double loading_ms, goodput_fraction;
    double planner_mean_ms, planner_exposed_ms;
    const char *inputs; /* JSON; NULL: unknown */
    double pair_band_fraction;
    double left_out_fraction; /* of the samples; total_days, gpu_days and money are of the others */
    double dropped_fraction;
    int64_t asked_samples_per_step; /* negative: NULL, as those below */
    int64_t memory_training_bytes, memory_training_high_bytes;
    double launch_wait_ms, launch_cost_ms;
    double host_copy_ms;
    double pcie_ms;
    double band_below_fraction;
};

/* Last groups that are not full leave out a little; more than this share of the samples is another
 * training, whose time and money compare with no other. */
#define RECORD_LEFT_OUT_TOLERATED 0.01
bool record_leaves_out(double left_out_fraction); /* NaN, of older databases: no */

/* Its scenario sets prices by rules of its own. */
bool record_has_rules(const char *resolved_scenario);
/* The precision whose peak mfu_fraction is of: of the language model, or of the diffusion decoder
 * that is behind it. NULL: the scenario does not say. */
const char *record_mfu_precision(const char *resolved_scenario);

struct iteration_record {
    int64_t iteration_index;
    int64_t step_time_ns;
    int64_t slowest_rank;
    int64_t fastest_rank_ns; /* negative: NULL */
    int64_t sample_count, micro_batch_count;
    int64_t language_tokens, useful_language_tokens, vision_tiles;
    int64_t planner_ns; /* negative: NULL */
};

struct stage_record {
    int64_t stage_index;
    const char *layers;
    int64_t layer_count, parameter_count;
    double busy_ms, idle_ms, forward_ms, backward_ms, recompute_ms;
    int64_t in_flight_count; /* negative: NULL */
};

struct memory_record {
    int64_t stage_index;
    const char *class;
    int64_t bytes;
};

struct price_record {
    int64_t price_index;
    const char *layer_kind, *operator, * kind, *pass, *shape;
    double calls_per_step, rank_fraction;
    double flop, memory_bytes, network_bytes;
    double price_s, launch_s, efficiency_fraction; /* NaN: launch waits */
    const char *bound, *source;
    bool inside_range;
    double band_fraction; /* NaN: not known */
};

struct span_record {
    int64_t span_index;
    int64_t iteration_index, dp_rank, stage_index;
    const char *stream, *kind;
    int64_t chunk_index, micro_batch, flow; /* negative: NULL */
    int64_t start_ns, finish_ns;
    const char *module; /* "vision", "vision + language", ...; NULL: of no part of the model */
    int64_t sub_batch;  /* negative: NULL */
};

struct memory_point_record {
    int64_t point_index;
    int64_t dp_rank, stage_index;
    int64_t time_ns, memory_bytes;
};

struct search_progress_record {
    const char *method;
    int64_t point_index;
    int64_t iteration_index, dp_rank;
    int64_t schedule_count, makespan_ns, bound_ns;
    int64_t wall_ns; /* negative: NULL */
};

struct sweep_record {
    int64_t id; /* given by the store */
    const char *name;
    const char *created_utc; /* NULL: now, by the store */
    const char *tool_version, *source_commit, *command_line, *definition;
    int64_t row_count;
    const char *objective; /* NULL: unknown */
    double deadline_days, budget_usd;
};

struct sweep_row_record {
    const char *configuration;
    int64_t row_index;
    const char *assignments, *status, *reason;
    int64_t replayed_iterations; /* negative: NULL, as those below */
    int64_t gpu_count;
    double step_time_mean_ms, step_time_p50_ms, step_time_p95_ms;
    double total_days, gpu_days, money_usd, on_demand_usd;
    double mfu_fraction, band_fraction;
    const char *verdict;
    int64_t memory_peak_bytes, memory_capacity_bytes;
    int64_t on_front; /* 0, 1 */
    int64_t run_id;
    const char *outcome;
    double left_out_fraction, dropped_fraction, samples_per_step;
    int64_t asked_samples_per_step; /* negative: NULL */
    int64_t memory_bound_bytes;     /* the same */
    int64_t memory_training_bytes;  /* the same */
    double band_below_fraction;
};

struct sweep_rejection_record {
    const char *rule;
    int64_t row_count, row_index;
    const char *message;
};

struct sweep_input_record {
    const char *kind, *name, *fingerprint;
};

struct sweep_round_record {
    int64_t round_index;
    int64_t configuration_count, rejected_count, raced_count, pruned_count;
    double best_total_days, best_gpu_days, best_money_usd;
};

struct reproduction_record {
    int64_t id;              /* given by the store */
    const char *created_utc; /* NULL: now, by the store */
    const char *tool_version, *source_commit;
    const char *paper, *table_name, *row_name, *quantity, *unit;
    double paper_value, simulated_value, measured_value;
    const char *role, *provenance, *scenario_file, *note;
    int64_t run_id; /* negative: NULL */
};

struct validation_record {
    int64_t id;              /* given by the store */
    const char *created_utc; /* NULL: now, by the store */
    const char *tool_version, *source_commit;
    const char *rows_file, *row_name, *source, *hardware, *stack, *quantity, *unit;
    double measured_value, predicted_value, band_fraction;
    const char *role, *note;
    int64_t run_id; /* negative: NULL */
    double band_below_fraction;
};

/* Everything unknown: texts NULL, numbers negative or NaN, repeatable. */
struct run_record run_record_empty(void);

/* ---- the same as tables, for the code that moves rows ---- */

enum record_type {
    RECORD_INTEGER, /* int64_t */
    RECORD_COUNT,   /* int64_t; negative is NULL */
    RECORD_BOOL,
    RECORD_REAL, /* double; NaN is NULL */
    RECORD_TEXT  /* const char *; NULL is NULL */
};

struct record_column {
    const char *name;
    enum record_type type;
    size_t offset;
};

enum record_table_id {
    RECORD_RUN,
    RECORD_ITERATION,
    RECORD_STAGE,
    RECORD_MEMORY,
    RECORD_PRICE,
    RECORD_SPAN,
    RECORD_MEMORY_POINT,
    RECORD_SEARCH_PROGRESS,
    RECORD_SWEEP,
    RECORD_SWEEP_ROW,
    RECORD_SWEEP_REJECTION,
    RECORD_SWEEP_INPUT,
    RECORD_SWEEP_ROUND,
    RECORD_REPRODUCTION,
    RECORD_VALIDATION,
    RECORD_TABLE_COUNT
};

struct record_table {
    const char *name;         /* in SQL */
    const char *owner_column; /* "run_id" or "sweep_id" of rows that belong to one; NULL: an id of
                                 its own */
    enum record_table_id owner;
    const char *order; /* columns that order the rows of one owner */
    bool replaces;     /* a row with the same key takes the place of the older one */
    size_t record_size;
    const struct record_column *columns; /* as in the schema, without owner_column */
    int column_count;
};

extern const struct record_table record_tables[RECORD_TABLE_COUNT];

#endif
