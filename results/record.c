/* record.c - the columns of each table and where they lie in its struct, in the order of
 * schema.sql. test_record.c holds this file and schema.sql to each other. */
#include "results/record.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>
#include "costmodel/cost_model.h"

#define COLUMN(record, member, type)                                                               \
    { #member, RECORD_##type, offsetof(struct record, member) }

static const struct record_column run_columns[] = {
    COLUMN(run_record, id, INTEGER),
    COLUMN(run_record, scenario_name, TEXT),
    COLUMN(run_record, scenario_file, TEXT),
    COLUMN(run_record, created_utc, TEXT),
    COLUMN(run_record, tool_version, TEXT),
    COLUMN(run_record, source_commit, TEXT),
    COLUMN(run_record, command_line, TEXT),
    COLUMN(run_record, host, TEXT),
    COLUMN(run_record, seed, INTEGER),
    COLUMN(run_record, resolved_scenario, TEXT),
    COLUMN(run_record, profile_id, TEXT),
    COLUMN(run_record, fidelity, TEXT),
    COLUMN(run_record, repeatable, BOOL),
    COLUMN(run_record, status, TEXT),
    COLUMN(run_record, failure, TEXT),
    COLUMN(run_record, wall_time_s, REAL),
    COLUMN(run_record, gpu_count, COUNT),
    COLUMN(run_record, dp, COUNT),
    COLUMN(run_record, iteration_count, COUNT),
    COLUMN(run_record, sample_count, COUNT),
    COLUMN(run_record, language_token_count, COUNT),
    COLUMN(run_record, vision_tile_count, COUNT),
    COLUMN(run_record, step_time_mean_ms, REAL),
    COLUMN(run_record, step_time_p50_ms, REAL),
    COLUMN(run_record, step_time_p95_ms, REAL),
    COLUMN(run_record, step_time_p99_ms, REAL),
    COLUMN(run_record, total_days, REAL),
    COLUMN(run_record, gpu_days, REAL),
    COLUMN(run_record, money_usd, REAL),
    COLUMN(run_record, mfu_fraction, REAL),
    COLUMN(run_record, hfu_fraction, REAL),
    COLUMN(run_record, verdict, TEXT),
    COLUMN(run_record, verdict_stage_index, COUNT),
    COLUMN(run_record, verdict_class, TEXT),
    COLUMN(run_record, memory_peak_bytes, COUNT),
    COLUMN(run_record, memory_capacity_bytes, COUNT),
    COLUMN(run_record, band_fraction, REAL),
    COLUMN(run_record, inside_range, COUNT),
    COLUMN(run_record, compute_ms, REAL),
    COLUMN(run_record, padding_ms, REAL),
    COLUMN(run_record, recompute_ms, REAL),
    COLUMN(run_record, update_ms, REAL),
    COLUMN(run_record, exposed_tensor_ms, REAL),
    COLUMN(run_record, exposed_context_ms, REAL),
    COLUMN(run_record, exposed_pipeline_ms, REAL),
    COLUMN(run_record, exposed_data_ms, REAL),
    COLUMN(run_record, bubble_ms, REAL),
    COLUMN(run_record, stage_imbalance_ms, REAL),
    COLUMN(run_record, rank_imbalance_ms, REAL),
    COLUMN(run_record, time_imbalance_ms, REAL),
    COLUMN(run_record, loading_ms, REAL),
    COLUMN(run_record, goodput_fraction, REAL),
    COLUMN(run_record, planner_mean_ms, REAL),
    COLUMN(run_record, planner_exposed_ms, REAL),
    COLUMN(run_record, inputs, TEXT),
    COLUMN(run_record, pair_band_fraction, REAL),
    COLUMN(run_record, left_out_fraction, REAL),
    COLUMN(run_record, dropped_fraction, REAL),
    COLUMN(run_record, asked_samples_per_step, COUNT),
    COLUMN(run_record, memory_training_bytes, COUNT),
    COLUMN(run_record, memory_training_high_bytes, COUNT),
    COLUMN(run_record, launch_wait_ms, REAL),
    COLUMN(run_record, launch_cost_ms, REAL),
    COLUMN(run_record, host_copy_ms, REAL),
    COLUMN(run_record, band_below_fraction, REAL),
    COLUMN(run_record, pcie_ms, REAL),
};

static const struct record_column iteration_columns[] = {
    COLUMN(iteration_record, iteration_index, INTEGER),
    COLUMN(iteration_record, step_time_ns, INTEGER),
    COLUMN(iteration_record, slowest_rank, INTEGER),
    COLUMN(iteration_record, fastest_rank_ns, COUNT),
    COLUMN(iteration_record, sample_count, INTEGER),
    COLUMN(iteration_record, micro_batch_count, INTEGER),
    COLUMN(iteration_record, language_tokens, INTEGER),
    COLUMN(iteration_record, useful_language_tokens, INTEGER),
    COLUMN(iteration_record, vision_tiles, INTEGER),
    COLUMN(iteration_record, planner_ns, COUNT),
};

static const struct record_column stage_columns[] = {
    COLUMN(stage_record, stage_index, INTEGER), COLUMN(stage_record, layers, TEXT),
    COLUMN(stage_record, layer_count, INTEGER), COLUMN(stage_record, parameter_count, INTEGER),
    COLUMN(stage_record, busy_ms, REAL),        COLUMN(stage_record, idle_ms, REAL),
    COLUMN(stage_record, forward_ms, REAL),     COLUMN(stage_record, backward_ms, REAL),
    COLUMN(stage_record, recompute_ms, REAL),   COLUMN(stage_record, in_flight_count, COUNT),
};

static const struct record_column memory_columns[] = {
    COLUMN(memory_record, stage_index, INTEGER),
    COLUMN(memory_record, class, TEXT),
    COLUMN(memory_record, bytes, INTEGER),
};

static const struct record_column price_columns[] = {
    COLUMN(price_record, price_index, INTEGER), COLUMN(price_record, layer_kind, TEXT),
    COLUMN(price_record, operator, TEXT),       COLUMN(price_record, kind, TEXT),
    COLUMN(price_record, pass, TEXT),           COLUMN(price_record, shape, TEXT),
    COLUMN(price_record, calls_per_step, REAL), COLUMN(price_record, rank_fraction, REAL),
    COLUMN(price_record, flop, REAL),           COLUMN(price_record, memory_bytes, REAL),
    COLUMN(price_record, network_bytes, REAL),  COLUMN(price_record, price_s, REAL),
    COLUMN(price_record, launch_s, REAL),       COLUMN(price_record, efficiency_fraction, REAL),
    COLUMN(price_record, bound, TEXT),          COLUMN(price_record, source, TEXT),
    COLUMN(price_record, inside_range, BOOL),   COLUMN(price_record, band_fraction, REAL),
};

static const struct record_column span_columns[] = {
    COLUMN(span_record, span_index, INTEGER), COLUMN(span_record, iteration_index, INTEGER),
    COLUMN(span_record, dp_rank, INTEGER),    COLUMN(span_record, stage_index, INTEGER),
    COLUMN(span_record, stream, TEXT),        COLUMN(span_record, kind, TEXT),
    COLUMN(span_record, chunk_index, COUNT),  COLUMN(span_record, micro_batch, COUNT),
    COLUMN(span_record, flow, COUNT),         COLUMN(span_record, start_ns, INTEGER),
    COLUMN(span_record, finish_ns, INTEGER),  COLUMN(span_record, module, TEXT),
    COLUMN(span_record, sub_batch, COUNT),
};

static const struct record_column memory_point_columns[] = {
    COLUMN(memory_point_record, point_index, INTEGER),
    COLUMN(memory_point_record, dp_rank, INTEGER),
    COLUMN(memory_point_record, stage_index, INTEGER),
    COLUMN(memory_point_record, time_ns, INTEGER),
    COLUMN(memory_point_record, memory_bytes, INTEGER),
};

static const struct record_column search_progress_columns[] = {
    COLUMN(search_progress_record, method, TEXT),
    COLUMN(search_progress_record, point_index, INTEGER),
    COLUMN(search_progress_record, iteration_index, INTEGER),
    COLUMN(search_progress_record, dp_rank, INTEGER),
    COLUMN(search_progress_record, schedule_count, INTEGER),
    COLUMN(search_progress_record, makespan_ns, INTEGER),
    COLUMN(search_progress_record, bound_ns, INTEGER),
    COLUMN(search_progress_record, wall_ns, COUNT),
};

static const struct record_column sweep_columns[] = {
    COLUMN(sweep_record, id, INTEGER),         COLUMN(sweep_record, name, TEXT),
    COLUMN(sweep_record, created_utc, TEXT),   COLUMN(sweep_record, tool_version, TEXT),
    COLUMN(sweep_record, source_commit, TEXT), COLUMN(sweep_record, command_line, TEXT),
    COLUMN(sweep_record, definition, TEXT),    COLUMN(sweep_record, row_count, INTEGER),
    COLUMN(sweep_record, objective, TEXT),     COLUMN(sweep_record, deadline_days, REAL),
    COLUMN(sweep_record, budget_usd, REAL),
};

static const struct record_column sweep_row_columns[] = {
    COLUMN(sweep_row_record, configuration, TEXT),
    COLUMN(sweep_row_record, row_index, INTEGER),
    COLUMN(sweep_row_record, assignments, TEXT),
    COLUMN(sweep_row_record, status, TEXT),
    COLUMN(sweep_row_record, reason, TEXT),
    COLUMN(sweep_row_record, replayed_iterations, COUNT),
    COLUMN(sweep_row_record, gpu_count, INTEGER),
    COLUMN(sweep_row_record, step_time_mean_ms, REAL),
    COLUMN(sweep_row_record, step_time_p50_ms, REAL),
    COLUMN(sweep_row_record, step_time_p95_ms, REAL),
    COLUMN(sweep_row_record, total_days, REAL),
    COLUMN(sweep_row_record, gpu_days, REAL),
    COLUMN(sweep_row_record, money_usd, REAL),
    COLUMN(sweep_row_record, on_demand_usd, REAL),
    COLUMN(sweep_row_record, mfu_fraction, REAL),
    COLUMN(sweep_row_record, band_fraction, REAL),
    COLUMN(sweep_row_record, verdict, TEXT),
    COLUMN(sweep_row_record, memory_peak_bytes, COUNT),
    COLUMN(sweep_row_record, memory_capacity_bytes, COUNT),
    COLUMN(sweep_row_record, on_front, COUNT),
    COLUMN(sweep_row_record, run_id, COUNT),
    COLUMN(sweep_row_record, outcome, TEXT),
    COLUMN(sweep_row_record, left_out_fraction, REAL),
    COLUMN(sweep_row_record, dropped_fraction, REAL),
    COLUMN(sweep_row_record, samples_per_step, REAL),
    COLUMN(sweep_row_record, asked_samples_per_step, COUNT),
    COLUMN(sweep_row_record, memory_bound_bytes, COUNT),
    COLUMN(sweep_row_record, memory_training_bytes, COUNT),
    COLUMN(sweep_row_record, band_below_fraction, REAL),
};

static const struct record_column sweep_rejection_columns[] = {
    COLUMN(sweep_rejection_record, rule, TEXT),
    COLUMN(sweep_rejection_record, row_count, INTEGER),
    COLUMN(sweep_rejection_record, row_index, INTEGER),
    COLUMN(sweep_rejection_record, message, TEXT),
};

static const struct record_column sweep_input_columns[] = {
    COLUMN(sweep_input_record, kind, TEXT),
    COLUMN(sweep_input_record, name, TEXT),
    COLUMN(sweep_input_record, fingerprint, TEXT),
};

static const struct record_column sweep_round_columns[] = {
    COLUMN(sweep_round_record, round_index, INTEGER),
    COLUMN(sweep_round_record, configuration_count, INTEGER),
    COLUMN(sweep_round_record, rejected_count, INTEGER),
    COLUMN(sweep_round_record, raced_count, INTEGER),
    COLUMN(sweep_round_record, pruned_count, INTEGER),
    COLUMN(sweep_round_record, best_total_days, REAL),
    COLUMN(sweep_round_record, best_gpu_days, REAL),
    COLUMN(sweep_round_record, best_money_usd, REAL),
};

static const struct record_column reproduction_columns[] = {
    COLUMN(reproduction_record, id, INTEGER),
    COLUMN(reproduction_record, created_utc, TEXT),
    COLUMN(reproduction_record, tool_version, TEXT),
    COLUMN(reproduction_record, source_commit, TEXT),
    COLUMN(reproduction_record, paper, TEXT),
    COLUMN(reproduction_record, table_name, TEXT),
    COLUMN(reproduction_record, row_name, TEXT),
    COLUMN(reproduction_record, quantity, TEXT),
    COLUMN(reproduction_record, unit, TEXT),
    COLUMN(reproduction_record, paper_value, REAL),
    COLUMN(reproduction_record, simulated_value, REAL),
    COLUMN(reproduction_record, measured_value, REAL),
    COLUMN(reproduction_record, role, TEXT),
    COLUMN(reproduction_record, provenance, TEXT),
    COLUMN(reproduction_record, scenario_file, TEXT),
    COLUMN(reproduction_record, note, TEXT),
    COLUMN(reproduction_record, run_id, COUNT),
};

static const struct record_column validation_columns[] = {
    COLUMN(validation_record, id, INTEGER),
    COLUMN(validation_record, created_utc, TEXT),
    COLUMN(validation_record, tool_version, TEXT),
    COLUMN(validation_record, source_commit, TEXT),
    COLUMN(validation_record, rows_file, TEXT),
    COLUMN(validation_record, row_name, TEXT),
    COLUMN(validation_record, source, TEXT),
    COLUMN(validation_record, hardware, TEXT),
    COLUMN(validation_record, stack, TEXT),
    COLUMN(validation_record, quantity, TEXT),
    COLUMN(validation_record, unit, TEXT),
    COLUMN(validation_record, measured_value, REAL),
    COLUMN(validation_record, predicted_value, REAL),
    COLUMN(validation_record, band_fraction, REAL),
    COLUMN(validation_record, role, TEXT),
    COLUMN(validation_record, note, TEXT),
    COLUMN(validation_record, run_id, COUNT),
    COLUMN(validation_record, band_below_fraction, REAL),
};

#define COLUMNS(columns) (columns), (int)(sizeof(columns) / sizeof((columns)[0]))

const struct record_table record_tables[RECORD_TABLE_COUNT] = {
    [RECORD_RUN] = { "run", NULL, RECORD_RUN, "id", false, sizeof(struct run_record),
                     COLUMNS(run_columns) },
    [RECORD_ITERATION] = { "iteration", "run_id", RECORD_RUN, "iteration_index", false,
                           sizeof(struct iteration_record), COLUMNS(iteration_columns) },
    [RECORD_STAGE] = { "stage", "run_id", RECORD_RUN, "stage_index", false,
                       sizeof(struct stage_record), COLUMNS(stage_columns) },
    [RECORD_MEMORY] = { "memory", "run_id", RECORD_RUN, "stage_index, class", false,
                        sizeof(struct memory_record), COLUMNS(memory_columns) },
    [RECORD_PRICE] = { "operator_price", "run_id", RECORD_RUN, "price_index", false,
                       sizeof(struct price_record), COLUMNS(price_columns) },
    [RECORD_SPAN] = { "span", "run_id", RECORD_RUN, "span_index", false, sizeof(struct span_record),
                      COLUMNS(span_columns) },
    [RECORD_MEMORY_POINT] = { "memory_point", "run_id", RECORD_RUN, "point_index", false,
                              sizeof(struct memory_point_record), COLUMNS(memory_point_columns) },
    [RECORD_SEARCH_PROGRESS] = { "search_progress", "run_id", RECORD_RUN, "method, point_index",
                                 false, sizeof(struct search_progress_record),
                                 COLUMNS(search_progress_columns) },
    [RECORD_SWEEP] = { "sweep", NULL, RECORD_SWEEP, "id", false, sizeof(struct sweep_record),
                       COLUMNS(sweep_columns) },
    [RECORD_SWEEP_ROW] = { "sweep_row", "sweep_id", RECORD_SWEEP, "row_index", true,
                           sizeof(struct sweep_row_record), COLUMNS(sweep_row_columns) },
    [RECORD_SWEEP_REJECTION] = { "sweep_rejection", "sweep_id", RECORD_SWEEP, "rule", true,
                                 sizeof(struct sweep_rejection_record),
                                 COLUMNS(sweep_rejection_columns) },
    [RECORD_SWEEP_INPUT] = { "sweep_input", "sweep_id", RECORD_SWEEP, "kind, name", true,
                             sizeof(struct sweep_input_record), COLUMNS(sweep_input_columns) },
    [RECORD_SWEEP_ROUND] = { "sweep_round", "sweep_id", RECORD_SWEEP, "round_index", true,
                             sizeof(struct sweep_round_record), COLUMNS(sweep_round_columns) },
    [RECORD_REPRODUCTION] = { "reproduction", NULL, RECORD_REPRODUCTION, "id", false,
                              sizeof(struct reproduction_record), COLUMNS(reproduction_columns) },
    [RECORD_VALIDATION] = { "validation", NULL, RECORD_VALIDATION, "id", false,
                            sizeof(struct validation_record), COLUMNS(validation_columns) },
};

bool record_leaves_out(double left_out_fraction) {
    return left_out_fraction > RECORD_LEFT_OUT_TOLERATED;
}

static const char *known_precision(const cJSON *node) {
    for (int p = 0; p < PRECISION_COUNT; p++)
        if (cJSON_IsString(node) &&
            strcmp(precision_name((enum precision)p), node->valuestring) == 0)
            return precision_name((enum precision)p);
    return NULL;
}

static const cJSON *member(const cJSON *object, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

const char *record_mfu_precision(const char *resolved_scenario) {
    cJSON *scenario = resolved_scenario != NULL ? cJSON_Parse(resolved_scenario) : NULL;
    const cJSON *own = member(member(scenario, "model"), "precision");
    const char *name = known_precision(member(own, "diffusion_decoder"));
    if (name == NULL) name = known_precision(member(own, "language"));
    if (name == NULL) name = known_precision(member(member(scenario, "training"), "precision"));
    cJSON_Delete(scenario);
    return name;
}

bool record_has_rules(const char *resolved_scenario) {
    cJSON *scenario = resolved_scenario != NULL ? cJSON_Parse(resolved_scenario) : NULL;
    const bool has = cJSON_GetArraySize(member(scenario, "rules")) > 0;
    cJSON_Delete(scenario);
    return has;
}

struct run_record run_record_empty(void) {
    struct run_record run = { .repeatable = true };
    for (int c = 0; c < record_tables[RECORD_RUN].column_count; c++) {
        const struct record_column *column = &record_tables[RECORD_RUN].columns[c];
        if (column->type == RECORD_COUNT) *(int64_t *)((char *)&run + column->offset) = -1;
        if (column->type == RECORD_REAL) *(double *)((char *)&run + column->offset) = NAN;
    }
    return run;
}
