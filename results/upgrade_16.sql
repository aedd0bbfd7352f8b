-- upgrade_16.sql - from the tables of version 15 to those of version 16. Bands stored before are as
-- wide to both sides.
DROP VIEW run_summary;
DROP VIEW sweep_result;
DROP VIEW validation_error;
ALTER TABLE run ADD COLUMN band_below_fraction REAL;
ALTER TABLE sweep_row ADD COLUMN band_below_fraction REAL;
ALTER TABLE validation ADD COLUMN band_below_fraction REAL;

-- A run in one line, for lists.
CREATE VIEW run_summary AS
SELECT id, scenario_name, created_utc, status, gpu_count, step_time_mean_ms, total_days, gpu_days,
       money_usd, mfu_fraction, verdict, band_fraction,
       coalesce(band_below_fraction, band_fraction) AS band_below_fraction
FROM run ORDER BY id;

-- Points of a sweep with their answers. on_front: no other point that fits in memory is at least as
-- good in time, money (or GPU-days where there is no price) and memory, and better in one. Points that
-- leave out samples, or have a failure (sweep_row.reason), count only where all do. may_run_out: it fits on the steps that were looked at, and the
-- bound for a heavier one does not; NULL: it fits on those, and there is no bound.
CREATE VIEW sweep_result AS
SELECT sweep_id, row_index, assignments, run_id, reason AS failure, status, replayed_iterations,
       gpu_count, step_time_mean_ms, step_time_p95_ms / step_time_p50_ms AS p95_over_p50, total_days,
       gpu_days, money_usd, on_demand_usd, mfu_fraction, band_fraction, verdict, memory_peak_bytes,
       1.0 - max(memory_peak_bytes, coalesce(memory_training_bytes, 0)) * 1.0
         / memory_capacity_bytes AS memory_headroom_fraction, on_front,
       left_out_fraction, dropped_fraction, samples_per_step, asked_samples_per_step,
       memory_bound_bytes,
       verdict <> 'out of memory' AND memory_bound_bytes > memory_capacity_bytes AS may_run_out,
       memory_training_bytes, coalesce(band_below_fraction, band_fraction) AS band_below_fraction
FROM sweep_row ORDER BY sweep_id, row_index;

-- The newest prediction of each measured value with its signed error.
CREATE VIEW validation_error AS
SELECT rows_file, row_name, source, hardware, stack, quantity, unit, measured_value, predicted_value,
       predicted_value / nullif(measured_value, 0) - 1 AS error_fraction, band_fraction,
       coalesce(band_below_fraction, band_fraction) AS band_below_fraction,
       measured_value BETWEEN predicted_value * (1 - coalesce(band_below_fraction, band_fraction))
                      AND predicted_value * (1 + band_fraction) AS inside_band,
       role, note, run_id, tool_version, source_commit
FROM validation
WHERE id IN (SELECT max(id) FROM validation GROUP BY rows_file, row_name, quantity)
ORDER BY id;

PRAGMA user_version = 16;
