-- upgrade_15.sql - from the tables of version 14 to those of version 15. Runs stored before have
-- their copies to host memory inside exposed_tensor_ms.
DROP VIEW breakdown;
ALTER TABLE run ADD COLUMN host_copy_ms REAL;

-- Where the time of a mean step goes, one row a part. 'unexplained' closes the sum.
CREATE VIEW breakdown AS
WITH part (run_id, part_index, part, part_ms, step_time_mean_ms) AS (
    SELECT id,  0, 'compute',                compute_ms,          step_time_mean_ms FROM run UNION ALL
    SELECT id,  1, 'padding',                padding_ms,          step_time_mean_ms FROM run UNION ALL
    SELECT id,  2, 'recompute',              recompute_ms,        step_time_mean_ms FROM run UNION ALL
    SELECT id,  3, 'update',                 update_ms,           step_time_mean_ms FROM run UNION ALL
    SELECT id,  4, 'tensor communication',   exposed_tensor_ms,   step_time_mean_ms FROM run UNION ALL
    SELECT id,  5, 'context communication',  exposed_context_ms,  step_time_mean_ms FROM run UNION ALL
    SELECT id,  6, 'pipeline communication', exposed_pipeline_ms, step_time_mean_ms FROM run UNION ALL
    SELECT id,  7, 'data communication',     exposed_data_ms,     step_time_mean_ms FROM run UNION ALL
    SELECT id,  8, 'bubble',                 bubble_ms,           step_time_mean_ms FROM run UNION ALL
    SELECT id,  9, 'imbalance of stages',    stage_imbalance_ms,  step_time_mean_ms FROM run UNION ALL
    SELECT id, 10, 'imbalance of ranks',     rank_imbalance_ms,   step_time_mean_ms FROM run UNION ALL
    SELECT id, 11, 'imbalance over time',    time_imbalance_ms,   step_time_mean_ms FROM run UNION ALL
    SELECT id, 12, 'data loading',           nullif(loading_ms, 0), step_time_mean_ms FROM run UNION ALL
    SELECT id, 13, 'launch waits',           nullif(launch_wait_ms, 0), step_time_mean_ms FROM run UNION ALL
    SELECT id, 14, 'host copies',            nullif(host_copy_ms, 0), step_time_mean_ms FROM run UNION ALL
    SELECT id, 15, 'unexplained',
           step_time_mean_ms - coalesce(compute_ms, 0) - coalesce(padding_ms, 0)
           - coalesce(recompute_ms, 0) - coalesce(update_ms, 0) - coalesce(exposed_tensor_ms, 0)
           - coalesce(exposed_context_ms, 0) - coalesce(exposed_pipeline_ms, 0)
           - coalesce(exposed_data_ms, 0) - coalesce(bubble_ms, 0) - coalesce(stage_imbalance_ms, 0)
           - coalesce(rank_imbalance_ms, 0) - coalesce(time_imbalance_ms, 0)
           - coalesce(loading_ms, 0) - coalesce(launch_wait_ms, 0) - coalesce(host_copy_ms, 0),
           step_time_mean_ms FROM run
)
SELECT run_id, part_index, part, part_ms, part_ms / step_time_mean_ms AS step_fraction
FROM part WHERE part_ms IS NOT NULL ORDER BY run_id, part_index;

PRAGMA user_version = 15;
