-- upgrade_2.sql - from the tables of version 1 to those of version 2. No command of version 1 wrote
-- sweep rows, so that nothing is lost.
DROP VIEW sweep_result;
DROP TABLE sweep_row;

-- One valid configuration of a sweep with its answer; those not yet here are still to do.
CREATE TABLE sweep_row (
    sweep_id          INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE, -- the sweep it belongs to
    configuration     TEXT NOT NULL,       -- hash of all that the answer depends on
    row_index         INTEGER NOT NULL,    -- from 0, in the order of the definition
    assignments       TEXT NOT NULL CHECK (json_valid(assignments)), -- JSON object: path in the scenario to value
    status            TEXT NOT NULL CHECK (status IN ('raced', 'replayed', 'pruned')), -- 'raced': on the first iterations; 'replayed': as far as the scenario asks; 'pruned': not simulated, see reason
    reason            TEXT,                -- why it was pruned
    replayed_iterations INTEGER,           -- optimizer steps that the answer rests on
    gpu_count         INTEGER NOT NULL,    -- GPUs of the job
    step_time_mean_ms REAL,                -- of one iteration, mean over them
    step_time_p50_ms  REAL,                -- median; NULL: one iteration has none
    step_time_p95_ms  REAL,                -- 95th percentile
    total_days        REAL,                -- of the whole training run
    gpu_days          REAL,                -- total_days x GPUs
    money_usd         REAL,                -- gpu_days at the reserved price; NULL: no price
    on_demand_usd     REAL,                -- gpu_days at the on-demand price; NULL: no such price
    mfu_fraction      REAL,                -- model FLOPs over peak
    band_fraction     REAL,                -- error band: times x (1 +- this)
    verdict           TEXT CHECK (verdict IN ('fits', 'tight', 'out of memory')), -- of the fullest GPU
    memory_peak_bytes INTEGER,             -- on that GPU, reserved memory included
    memory_capacity_bytes INTEGER,         -- of a GPU of the job
    on_front          INTEGER CHECK (on_front IN (0, 1)), -- see view sweep_result; NULL: the sweep is not finished
    run_id            INTEGER REFERENCES run ON DELETE SET NULL, -- its run; NULL: not replayed
    PRIMARY KEY (sweep_id, configuration)
) STRICT, WITHOUT ROWID;
CREATE INDEX sweep_row_by_run ON sweep_row (run_id);

-- Configurations of a sweep that are none, by the rule that they break. Written when the sweep ends.
CREATE TABLE sweep_rejection (
    sweep_id    INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE, -- the sweep it belongs to
    rule        TEXT NOT NULL,       -- name of the rule, "where: ..." for a condition of the sweep
    row_count   INTEGER NOT NULL,    -- how many break it
    row_index   INTEGER NOT NULL,    -- the first of them
    message     TEXT NOT NULL,       -- what is wrong with that one
    PRIMARY KEY (sweep_id, rule)
) STRICT, WITHOUT ROWID;

-- What the answers of a sweep rest on besides its definition: a sweep resumes only with the same.
CREATE TABLE sweep_input (
    sweep_id    INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE, -- the sweep it belongs to
    kind        TEXT NOT NULL,       -- "data set", "model", "hardware"
    name        TEXT NOT NULL,       -- of the thing
    fingerprint TEXT NOT NULL,       -- of its content
    PRIMARY KEY (sweep_id, kind, name)
) STRICT, WITHOUT ROWID;

-- Points of a sweep with their answers. on_front: no other point that fits in memory is at least as
-- good in time, money (or GPU-days where there is no price) and memory, and better in one.
CREATE VIEW sweep_result AS
SELECT sweep_id, row_index, assignments, run_id, reason AS failure, status, replayed_iterations,
       gpu_count, step_time_mean_ms, step_time_p95_ms / step_time_p50_ms AS p95_over_p50, total_days,
       gpu_days, money_usd, on_demand_usd, mfu_fraction, band_fraction, verdict, memory_peak_bytes,
       1.0 - memory_peak_bytes * 1.0 / memory_capacity_bytes AS memory_headroom_fraction, on_front
FROM sweep_row ORDER BY sweep_id, row_index;

PRAGMA user_version = 2;
