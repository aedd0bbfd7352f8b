-- upgrade_5.sql - from the tables of version 4 to those of version 5.
DROP VIEW step;
DROP VIEW reproduction_summary;
DROP VIEW reproduction_error;
ALTER TABLE run ADD COLUMN planner_mean_ms REAL;
ALTER TABLE run ADD COLUMN planner_exposed_ms REAL;
ALTER TABLE iteration ADD COLUMN planner_ns INTEGER;
ALTER TABLE reproduction ADD COLUMN measured_value REAL;

-- How a policy's schedule search got ahead on one iteration, by each method: a point where the best
-- schedule improved, and one at the end. Makespans are of the pipeline before the memory step.
CREATE TABLE search_progress (
    run_id          INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, -- the run it belongs to
    method          TEXT NOT NULL,    -- "mcts", "depth-first", "random"
    point_index     INTEGER NOT NULL, -- from 0, within the method
    iteration_index INTEGER NOT NULL, -- the iteration
    dp_rank         INTEGER NOT NULL, -- data-parallel rank
    schedule_count  INTEGER NOT NULL, -- schedules tried so far
    makespan_ns     INTEGER NOT NULL, -- of the best of them
    bound_ns        INTEGER NOT NULL, -- no schedule is faster
    wall_ns         INTEGER,          -- since the search began, on the simulating machine
    PRIMARY KEY (run_id, method, point_index)
) STRICT, WITHOUT ROWID;

-- Iterations with derived figures. wait_fraction: of the step, how long the first rank waits.
-- planner_exposed_ms: by how much its planning exceeds the step before it, which hides the rest.
CREATE VIEW step AS
SELECT run_id, iteration_index, step_time_ns / 1e6 AS step_time_ms, slowest_rank,
       planner_ns / 1e6 AS planner_ms,
       max(0, planner_ns - lag(step_time_ns) OVER (PARTITION BY run_id ORDER BY iteration_index)) / 1e6
           AS planner_exposed_ms,
       1.0 - fastest_rank_ns * 1.0 / step_time_ns AS wait_fraction,
       1.0 - useful_language_tokens * 1.0 / language_tokens AS padding_fraction,
       sample_count * 1e9 / step_time_ns AS samples_per_s,
       language_tokens * 1e9 / step_time_ns AS language_tokens_per_s
FROM iteration ORDER BY run_id, iteration_index;

-- The newest value of each cell with its signed error.
CREATE VIEW reproduction_error AS
SELECT paper, table_name, row_name, quantity, unit, paper_value,
       coalesce(simulated_value, measured_value) AS simulated_value,
       simulated_value / nullif(paper_value, 0) - 1 AS error_fraction, role, provenance, scenario_file,
       note, run_id, tool_version, source_commit
FROM reproduction
WHERE id IN (SELECT max(id) FROM reproduction GROUP BY paper, table_name, row_name, quantity)
ORDER BY id;

-- Each table of a paper in one line. Only predictions count in the errors.
CREATE VIEW reproduction_summary AS
SELECT paper, table_name, count(*) AS value_count,
       sum(role = 'prediction' AND error_fraction IS NOT NULL) AS prediction_count,
       avg(CASE role WHEN 'prediction' THEN abs(error_fraction) END) AS mean_absolute_error_fraction,
       avg(CASE role WHEN 'prediction' THEN error_fraction END) AS mean_error_fraction,
       max(CASE role WHEN 'prediction' THEN abs(error_fraction) END) AS worst_error_fraction
FROM reproduction_error GROUP BY paper, table_name ORDER BY paper, table_name;

PRAGMA user_version = 5;
