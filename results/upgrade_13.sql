-- upgrade_13.sql - from the tables of version 12 to those of version 13.
ALTER TABLE run ADD COLUMN memory_training_bytes INTEGER;
ALTER TABLE run ADD COLUMN memory_training_high_bytes INTEGER;
ALTER TABLE sweep_row ADD COLUMN memory_training_bytes INTEGER;
DROP VIEW sweep_result;
CREATE VIEW sweep_result AS
SELECT sweep_id, row_index, assignments, run_id, reason AS failure, status, replayed_iterations,
       gpu_count, step_time_mean_ms, step_time_p95_ms / step_time_p50_ms AS p95_over_p50, total_days,
       gpu_days, money_usd, on_demand_usd, mfu_fraction, band_fraction, verdict, memory_peak_bytes,
       1.0 - max(memory_peak_bytes, coalesce(memory_training_bytes, 0)) * 1.0
         / memory_capacity_bytes AS memory_headroom_fraction, on_front,
       left_out_fraction, dropped_fraction, samples_per_step, asked_samples_per_step,
       memory_bound_bytes,
       verdict <> 'out of memory' AND memory_bound_bytes > memory_capacity_bytes AS may_run_out,
       memory_training_bytes
FROM sweep_row ORDER BY sweep_id, row_index;
PRAGMA user_version = 13;
