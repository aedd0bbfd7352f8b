-- schema.sql - what a results database holds. Each table and column with its unit.
--
-- Facts are stored, views derive, reports are SQL over both. Units end the names: _ns, _ms, _s,
-- _days, _bytes, _flop, _usd; a _fraction is 0 to 1 and a _count is how many. An _index counts
-- from 0. Texts marked JSON pass json_valid(). NULL means unknown or not applicable, never zero.
--
-- A run and all its rows appear in one transaction: a reader sees either all of a run or nothing.
-- Columns that may differ between two equal runs are listed in volatile.txt, and the digest of a
-- database leaves them out, together with the surrogate keys (id, run_id, sweep_id).
--
-- History of user_version:
--   1  the first.
--   2  sweep_row holds the answer of a configuration; sweep_rejection, sweep_input.
--   3  run.loading_ms, run.goodput_fraction.
--   4  sweep_row.outcome; sweep_round.
--   5  search_progress; what planning takes, in run, iteration and step; reproduction.measured_value.
--   6  span.module, span.sub_batch.
--   7  run.inputs.
--   8  run.pair_band_fraction.
--   9  run.left_out_fraction, sweep_row.left_out_fraction.
--  10  run.dropped_fraction, run.asked_samples_per_step; the same and samples_per_step in sweep_row.
--  11  sweep.objective, sweep.deadline_days, sweep.budget_usd.
--  12  sweep_row.memory_bound_bytes.
--  13  run.memory_training_bytes, run.memory_training_high_bytes; sweep_row.memory_training_bytes.
--  14  run.launch_wait_ms, which compute_ms, padding_ms and recompute_ms held before; run.launch_cost_ms.
--  15  run.host_copy_ms, which exposed_tensor_ms held before.
--  16  band_below_fraction of run, sweep_row and validation: bands have two sides.
--  17  run.pcie_ms.

PRAGMA application_id = 1114403700; -- the letters "Blst"
PRAGMA user_version = 17;

-- One simulated scenario: where it comes from, what it was, and the answer.
CREATE TABLE run (
    id                    INTEGER PRIMARY KEY, -- surrogate key, in order of storing
    scenario_name         TEXT NOT NULL,       -- "name" of the scenario; runs are found by it
    scenario_file         TEXT,                -- as given by the user; NULL: made by a sweep
    created_utc           TEXT NOT NULL,       -- ISO 8601, when the run was stored
    tool_version          TEXT NOT NULL,       -- of Ballast
    source_commit         TEXT NOT NULL,       -- of Ballast, "+dirty" if the tree was changed
    command_line          TEXT NOT NULL,       -- as typed
    host                  TEXT NOT NULL,       -- name of the machine that simulated
    seed                  INTEGER NOT NULL,    -- of all random streams
    resolved_scenario     TEXT NOT NULL CHECK (json_valid(resolved_scenario)), -- JSON, all defaults filled in; runs again as it is
    profile_id            TEXT NOT NULL,       -- name and hash of the hardware profile that priced it
    fidelity              TEXT NOT NULL CHECK (fidelity IN ('stage', 'operator')), -- what one simulated task stands for
    repeatable            INTEGER NOT NULL CHECK (repeatable IN (0, 1)), -- 0: a time budget was in use, another run may differ
    status                TEXT NOT NULL CHECK (status IN ('running', 'done', 'failed')), -- 'running' only inside its own transaction
    failure               TEXT,                -- message of a failed run
    wall_time_s           REAL,                -- that the simulation took
    gpu_count             INTEGER,             -- GPUs of the simulated job
    dp                    INTEGER,             -- data-parallel ranks that follow from the layout
    -- the answer
    iteration_count       INTEGER,             -- simulated iterations (optimizer steps)
    sample_count          INTEGER,             -- samples trained on in them
    language_token_count  INTEGER,             -- tokens in the language model, padding included
    vision_tile_count     INTEGER,             -- image tiles through the vision encoder
    step_time_mean_ms     REAL,                -- of one iteration, mean over the run
    step_time_p50_ms      REAL,                -- median
    step_time_p95_ms      REAL,                -- 95th percentile
    step_time_p99_ms      REAL,                -- 99th percentile
    total_days            REAL,                -- of the whole training run that the scenario asks for
    gpu_days              REAL,                -- total_days x GPUs
    money_usd             REAL,                -- gpu_days at the price of the scenario; NULL: no price
    mfu_fraction          REAL,                -- model FLOPs (no recomputation) over peak
    hfu_fraction          REAL,                -- executed FLOPs (with recomputation) over peak
    verdict               TEXT CHECK (verdict IN ('fits', 'tight', 'out of memory')), -- of the fullest GPU
    verdict_stage_index   INTEGER,             -- stage of that GPU
    verdict_class         TEXT,                -- largest class of memory there (see memory.class)
    memory_peak_bytes     INTEGER,             -- on that GPU, reserved memory included
    memory_capacity_bytes INTEGER,             -- of a GPU of the job
    band_fraction         REAL,                -- error band: up to step time x (1 + this); down to: band_below_fraction
    inside_range          INTEGER CHECK (inside_range IN (0, 1)), -- 0: more than a tenth of its operators' time is priced outside the measured range
    -- where the time goes: mean milliseconds of a step, each moment counted once
    compute_ms            REAL,                -- useful forward and backward work
    padding_ms            REAL,                -- the same work done on padding
    recompute_ms          REAL,                -- forward work repeated in backward
    update_ms             REAL,                -- optimizer
    exposed_tensor_ms     REAL,                -- tensor and sequence parallel communication not hidden by work
    exposed_context_ms    REAL,                -- context parallel communication not hidden
    exposed_pipeline_ms   REAL,                -- sends between stages not hidden
    exposed_data_ms       REAL,                -- gradient reduction and parameter gathering not hidden
    bubble_ms             REAL,                -- filling and draining of a pipeline with equal stages
    stage_imbalance_ms    REAL,                -- waiting because stages differ
    rank_imbalance_ms     REAL,                -- waiting because data-parallel ranks differ
    time_imbalance_ms     REAL,                -- waiting because micro-batches of one rank differ
    loading_ms            REAL,                -- waiting for samples
    goodput_fraction      REAL,                -- of total_days, without what checkpoints and failures take
    -- a policy that plans each iteration, beside the iteration before it; wall times of the simulating machine
    planner_mean_ms       REAL,                -- planning of one iteration, mean; NULL: none is planned
    planner_exposed_ms    REAL,                -- by how much it exceeds the iteration before, mean; in no other time
    inputs                TEXT CHECK (inputs IS NULL OR json_valid(inputs)), -- JSON array: files that were read with their hashes, the samples' hash, values of --set
    pair_band_fraction         REAL,                -- two runs of this GPU and stack err against each other by a factor of no more than 1 + this
    left_out_fraction     REAL,                -- of the samples, that the batching policy gives to no rank; total_days is of the others
    dropped_fraction      REAL,                -- of those others, that the sampler leaves out of a pass because they fill no round of all ranks; total_days makes up for them by more steps
    asked_samples_per_step INTEGER,            -- as the scenario asks; NULL: it asks for micro-batches. sample_count / iteration_count is what a step holds
    memory_training_bytes INTEGER,             -- likely peak of the whole training, each epoch shuffled anew, which the verdict goes by; NULL: not known, the verdict is that of memory_peak_bytes
    memory_training_high_bytes INTEGER,        -- that one such training in ten exceeds
    launch_wait_ms        REAL,                -- of a mean step, beside the parts above: waiting for the host's launches, mean of the GPUs; NULL: inside compute_ms, padding_ms and recompute_ms
    launch_cost_ms        REAL,                -- by how much a mean step would be shorter if nothing waited for launches
    host_copy_ms          REAL,                -- of a mean step, beside the parts above: copies of kept activations to host memory and back, not hidden; NULL: inside exposed_tensor_ms
    band_below_fraction   REAL,                -- error band: down to step time x (1 - this); NULL: as band_fraction
    pcie_ms               REAL                 -- of a mean step, what is communicated inside nodes at most and waits for that, where their GPUs talk over PCIe at a speed that is the server's and no rule states; 0: they do not; NULL: not told
) STRICT;
CREATE INDEX run_by_name ON run (scenario_name, id);

-- One optimizer step of a run.
CREATE TABLE iteration (
    run_id                 INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, -- the run it belongs to
    iteration_index        INTEGER NOT NULL, -- from 0
    step_time_ns           INTEGER NOT NULL, -- until the slowest rank has finished
    slowest_rank           INTEGER NOT NULL, -- data-parallel rank that sets step_time_ns
    fastest_rank_ns        INTEGER,          -- work of the first rank to finish; the others wait from then on
    sample_count           INTEGER NOT NULL, -- samples of all ranks
    micro_batch_count      INTEGER NOT NULL, -- micro-batches of all ranks
    language_tokens        INTEGER NOT NULL, -- of all ranks, padding included
    useful_language_tokens INTEGER NOT NULL, -- of all ranks, without padding
    vision_tiles           INTEGER NOT NULL, -- of all ranks
    planner_ns             INTEGER,          -- wall time of its planning on one core, slowest rank; NULL: not planned
    PRIMARY KEY (run_id, iteration_index)
) STRICT, WITHOUT ROWID;

-- One pipeline stage of a run. Times are means per step of one rank.
CREATE TABLE stage (
    run_id           INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, -- the run it belongs to
    stage_index      INTEGER NOT NULL, -- from 0, the one that holds the input
    layers           TEXT NOT NULL,    -- in words: "vision 0-22", with several chunks "vision 0-5, language 3-8"
    layer_count      INTEGER NOT NULL, -- layers on the stage
    parameter_count  INTEGER NOT NULL, -- parameters of these layers, all tensor-parallel ranks
    busy_ms          REAL NOT NULL,    -- compute stream occupied
    idle_ms          REAL NOT NULL,    -- compute stream free
    forward_ms       REAL NOT NULL,    -- forward passes
    backward_ms      REAL NOT NULL,    -- backward passes, without recompute_ms
    recompute_ms     REAL NOT NULL,    -- forward work repeated in backward, with its collectives and waits for launches
    in_flight_count  INTEGER,          -- most micro-batches between forward and backward
    PRIMARY KEY (run_id, stage_index)
) STRICT, WITHOUT ROWID;

-- What fills the fullest GPU of a stage at the moment of its peak.
CREATE TABLE memory (
    run_id      INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, -- the run it belongs to
    stage_index INTEGER NOT NULL, -- the stage
    class       TEXT NOT NULL CHECK (class IN ('weights', 'gradients', 'optimizer', 'activations',
                    'workspace', 'fragmentation', 'communication', 'context')), -- up to workspace allocated by the framework, with fragmentation reserved, with the rest on the device
    bytes       INTEGER NOT NULL, -- at the peak of the sum over classes
    PRIMARY KEY (run_id, stage_index, class)
) STRICT, WITHOUT ROWID;

-- The price of one operator, as explained by the cost model: for a typical micro-batch, on one rank.
CREATE TABLE operator_price (
    run_id         INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, -- the run it belongs to
    price_index    INTEGER NOT NULL, -- from 0, in order of execution
    layer_kind     TEXT NOT NULL,    -- "vision block"
    operator       TEXT NOT NULL,    -- "qkv"
    kind           TEXT NOT NULL,    -- "matmul", "all-reduce"
    pass           TEXT NOT NULL,    -- "forward", "weight gradient"
    shape          TEXT NOT NULL,    -- "m=8192 n=6144 k=2048", for people
    calls_per_step REAL,             -- mean of the ranks that hold such a layer
    rank_fraction  REAL,             -- these ranks over all
    flop           REAL NOT NULL,    -- floating-point operations of one call
    memory_bytes   REAL NOT NULL,    -- HBM traffic of one call
    network_bytes  REAL NOT NULL,    -- buffer of a collective, or message
    price_s        REAL NOT NULL,    -- of one call, all of it
    launch_s       REAL NOT NULL,    -- the part that does not depend on the shape
    efficiency_fraction REAL,        -- of the peak of its bound; NULL: launch waits
    bound          TEXT NOT NULL,    -- "compute", "memory", "network" or "launch"
    source         TEXT NOT NULL,    -- curve or rule that priced it
    inside_range   INTEGER NOT NULL CHECK (inside_range IN (0, 1)), -- 0: outside the measured range
    band_fraction  REAL,             -- error band: price x (1 +- this); NULL: not known
    PRIMARY KEY (run_id, price_index)
) STRICT, WITHOUT ROWID;

-- The timeline of one chosen iteration: what each stream did when.
CREATE TABLE span (
    run_id          INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, -- the run it belongs to
    span_index      INTEGER NOT NULL, -- from 0
    iteration_index INTEGER NOT NULL, -- the chosen iteration
    dp_rank         INTEGER NOT NULL, -- data-parallel rank
    stage_index     INTEGER NOT NULL, -- pipeline stage
    stream          TEXT NOT NULL,    -- "compute", "send", "data"
    kind            TEXT NOT NULL,    -- "forward", "backward", "recompute", "send", "reduce", "gather", "update"
    chunk_index     INTEGER,          -- model chunk of the stage (virtual pipeline); NULL: does not apply
    micro_batch     INTEGER,          -- index in the rank; NULL: does not apply
    flow            INTEGER,          -- spans of one number are joined by an arrow: a send and what waited for it
    start_ns        INTEGER NOT NULL, -- from the start of the iteration
    finish_ns       INTEGER NOT NULL CHECK (finish_ns >= start_ns), -- from the start of the iteration
    module          TEXT,             -- whose blocks: "vision", "language", "diffusion_decoder", several joined by " + "; NULL: does not apply
    sub_batch       INTEGER,          -- sub-microbatch, from 0; NULL: whole micro-batches
    PRIMARY KEY (run_id, span_index)
) STRICT, WITHOUT ROWID;

-- Memory of a GPU over the same iteration; each value holds until the next point of its stage.
CREATE TABLE memory_point (
    run_id          INTEGER NOT NULL REFERENCES run ON DELETE CASCADE, -- the run it belongs to
    point_index     INTEGER NOT NULL, -- from 0, rising in time within a rank and stage
    dp_rank         INTEGER NOT NULL, -- data-parallel rank
    stage_index     INTEGER NOT NULL, -- pipeline stage
    time_ns         INTEGER NOT NULL, -- from the start of the iteration
    memory_bytes    INTEGER NOT NULL, -- in use from then on, static and reserved memory included
    PRIMARY KEY (run_id, point_index)
) STRICT, WITHOUT ROWID;

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

-- Many scenarios from one description.
CREATE TABLE sweep (
    id            INTEGER PRIMARY KEY, -- surrogate key, in order of starting
    name          TEXT NOT NULL,       -- "name" of the sweep
    created_utc   TEXT NOT NULL,       -- ISO 8601, when it was first started
    tool_version  TEXT NOT NULL,       -- of Ballast
    source_commit TEXT NOT NULL,       -- of Ballast
    command_line  TEXT NOT NULL,       -- as typed when first started
    definition    TEXT NOT NULL CHECK (json_valid(definition)), -- JSON; a sweep resumes only under the same text
    row_count     INTEGER NOT NULL,    -- rows that the definition asks for
    objective     TEXT,                -- what the best have least of, a column of sweep_row; as the two below of the last call. NULL: unknown
    deadline_days REAL,                -- the whole training was to take no longer; NULL: no limit was given
    budget_usd    REAL                 -- it was to cost no more at the reserved price; NULL: no limit was given
) STRICT;

-- One valid configuration of a sweep with its answer; those not yet here are still to do.
CREATE TABLE sweep_row (
    sweep_id          INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE, -- the sweep it belongs to
    configuration     TEXT NOT NULL,       -- hash of all that the answer depends on
    row_index         INTEGER NOT NULL,    -- from 0, in the order of the definition
    assignments       TEXT NOT NULL CHECK (json_valid(assignments)), -- JSON object: path in the scenario to value
    status            TEXT NOT NULL CHECK (status IN ('raced', 'replayed', 'pruned')), -- 'raced': on the first iterations; 'replayed': as far as the scenario asks; 'pruned': not simulated, see reason
    reason            TEXT,                -- why it was pruned; of one that was not, why it is no choice: no option of the backend says its plan, or another row differs in training.micro_batch alone
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
    band_fraction     REAL,                -- error band: up to times x (1 + this); down to: band_below_fraction
    verdict           TEXT CHECK (verdict IN ('fits', 'tight', 'out of memory')), -- of the fullest GPU
    memory_peak_bytes INTEGER,             -- on that GPU, reserved memory included
    memory_capacity_bytes INTEGER,         -- of a GPU of the job
    on_front          INTEGER CHECK (on_front IN (0, 1)), -- see view sweep_result; NULL: the sweep is not finished
    run_id            INTEGER REFERENCES run ON DELETE SET NULL, -- its run; NULL: not replayed
    outcome           TEXT,                -- hash of what the race saw: layouts of equal outcome are one layout by different fields; NULL: not raced
    left_out_fraction REAL,                -- of the samples, as in run
    dropped_fraction  REAL,                -- of the samples, as in run
    samples_per_step  REAL,                -- that a step holds, mean of a pass over the data
    asked_samples_per_step INTEGER,        -- that the scenario asks for; NULL: it asks for micro-batches
    memory_bound_bytes INTEGER,            -- that no step of a pass exceeds on any GPU; NULL: not known (pruned, or the policy plans each step)
    memory_training_bytes INTEGER,         -- as in run; NULL: not replayed
    band_below_fraction REAL,              -- error band: down to times x (1 - this); NULL: as band_fraction
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

-- How a sweep advanced: its state after each round of its race. A shard's rounds count its own part.
CREATE TABLE sweep_round (
    sweep_id            INTEGER NOT NULL REFERENCES sweep ON DELETE CASCADE, -- the sweep it belongs to
    round_index         INTEGER NOT NULL, -- from 0
    configuration_count INTEGER NOT NULL, -- looked at so far, as the other counts
    rejected_count      INTEGER NOT NULL, -- that are none, by a rule
    raced_count         INTEGER NOT NULL, -- priced
    pruned_count        INTEGER NOT NULL, -- valid, left out by a bound
    best_total_days     REAL,             -- least so far of those that fit, and of these that
                                          -- need no code as soon as one does not; NULL: none does yet
    best_gpu_days       REAL,             -- the same of GPU-days
    best_money_usd      REAL,             -- the same of money; NULL: no price
    PRIMARY KEY (sweep_id, round_index)
) STRICT, WITHOUT ROWID;

-- One value of a paper's table beside the simulated one.
CREATE TABLE reproduction (
    id              INTEGER PRIMARY KEY, -- surrogate key, in order of storing
    created_utc     TEXT NOT NULL,       -- ISO 8601
    tool_version    TEXT NOT NULL,       -- of Ballast
    source_commit   TEXT NOT NULL,       -- of Ballast
    paper           TEXT NOT NULL,       -- "omnibal"
    table_name      TEXT NOT NULL,       -- "main"; paper.table_name is what the user asks for
    row_name        TEXT NOT NULL,       -- row of the table, in the paper's words
    quantity        TEXT NOT NULL,       -- "gpu_days", "dist_ratio_vision"
    unit            TEXT NOT NULL,       -- of both values; "" for a ratio
    paper_value     REAL,                -- printed in the paper; NULL: the cell is empty
    simulated_value REAL,                -- ours; NULL: not simulated, see note
    measured_value  REAL,                -- ours where it is a wall time of this machine, instead of simulated_value
    role            TEXT NOT NULL CHECK (role IN ('prediction', 'fitted', 'input')), -- fitted: used to fit a constant; input: given to the simulator
    provenance      TEXT NOT NULL,       -- of the inputs: published, reconstructed, assumed
    scenario_file   TEXT,                -- the scenario that gives simulated_value
    note            TEXT,                -- what a reader must know to judge the error
    run_id          INTEGER REFERENCES run ON DELETE SET NULL -- its run; NULL: computed without one
) STRICT;
CREATE INDEX reproduction_by_table ON reproduction (paper, table_name, row_name, quantity, id);
CREATE INDEX reproduction_by_run ON reproduction (run_id);

-- One measured value beside the predicted one.
CREATE TABLE validation (
    id              INTEGER PRIMARY KEY, -- surrogate key, in order of storing
    created_utc     TEXT NOT NULL,       -- ISO 8601
    tool_version    TEXT NOT NULL,       -- of Ballast
    source_commit   TEXT NOT NULL,       -- of Ballast
    rows_file       TEXT NOT NULL,       -- file of measured runs
    row_name        TEXT NOT NULL,       -- row of that file
    source          TEXT NOT NULL,       -- who measured and published
    hardware        TEXT NOT NULL,       -- "h100-80g-sxm"
    stack           TEXT NOT NULL,       -- "megatron-lm"
    quantity        TEXT NOT NULL,       -- "step_time_ms"
    unit            TEXT NOT NULL,       -- of both values
    measured_value  REAL NOT NULL,       -- as published
    predicted_value REAL,                -- ours; NULL: could not be simulated, see note
    band_fraction   REAL,                -- error band stated with the prediction, up to predicted_value x (1 + this)
    role            TEXT NOT NULL CHECK (role IN ('prediction', 'fitted')), -- fitted: used to fit a constant
    note            TEXT,                -- what a reader must know to judge the error
    run_id          INTEGER REFERENCES run ON DELETE SET NULL, -- its run
    band_below_fraction REAL             -- error band: down to predicted_value x (1 - this); NULL: as band_fraction
) STRICT;
CREATE INDEX validation_by_run ON validation (run_id);

-- A run in one line, for lists.
CREATE VIEW run_summary AS
SELECT id, scenario_name, created_utc, status, gpu_count, step_time_mean_ms, total_days, gpu_days,
       money_usd, mfu_fraction, verdict, band_fraction,
       coalesce(band_below_fraction, band_fraction) AS band_below_fraction
FROM run ORDER BY id;

-- What a run was, read from its resolved scenario.
CREATE VIEW run_setup AS
SELECT id AS run_id, scenario_name,
       coalesce(resolved_scenario ->> '$.model.name', resolved_scenario ->> '$.model') AS model,
       coalesce(resolved_scenario ->> '$.dataset.name', resolved_scenario ->> '$.dataset') AS dataset,
       resolved_scenario ->> '$.cluster.hardware' AS hardware,
       gpu_count,
       resolved_scenario ->> '$.layout.tp' AS tp,
       resolved_scenario ->> '$.layout.pp' AS pp,
       resolved_scenario ->> '$.layout.vpp' AS vpp,
       resolved_scenario ->> '$.layout.cp' AS cp,
       dp,
       resolved_scenario ->> '$.layout.zero_stage' AS zero_stage,
       coalesce(resolved_scenario ->> '$.policy.batching.name', resolved_scenario ->> '$.policy.batching') AS batching,
       coalesce(resolved_scenario ->> '$.policy.partition.name', resolved_scenario ->> '$.policy.partition',
                resolved_scenario ->> '$.policy.joint.name') AS partition,
       coalesce(resolved_scenario ->> '$.policy.recompute.name', resolved_scenario ->> '$.policy.recompute',
                resolved_scenario ->> '$.policy.joint.name') AS recompute,
       coalesce(resolved_scenario ->> '$.policy.schedule.name', resolved_scenario ->> '$.policy.schedule',
                resolved_scenario ->> '$.policy.joint.name') AS schedule
FROM run ORDER BY id;

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

-- The peak of each stage against the capacity.
CREATE VIEW stage_memory AS
SELECT memory.run_id, stage_index, sum(bytes) AS peak_bytes,
       memory_capacity_bytes AS capacity_bytes,
       sum(bytes) * 1.0 / memory_capacity_bytes AS capacity_fraction
FROM memory JOIN run ON run.id = memory.run_id
GROUP BY memory.run_id, stage_index ORDER BY memory.run_id, stage_index;

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

-- Which operators cost most in a step of one rank (a mean over all), dearest first.
CREATE VIEW operator_share AS
SELECT run_id, layer_kind, operator, pass, bound,
       sum(price_s * calls_per_step * rank_fraction) * 1e3 AS step_ms,
       min(inside_range) AS inside_range
FROM operator_price GROUP BY run_id, layer_kind, operator, pass, bound
ORDER BY run_id, step_ms DESC, layer_kind, operator, pass, bound;

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
