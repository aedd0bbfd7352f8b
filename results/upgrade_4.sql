-- upgrade_4.sql - from the tables of version 3 to those of version 4. Sweeps of another version are not
-- gone on with, so that their rows need no outcome.
ALTER TABLE sweep_row ADD COLUMN outcome TEXT;

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

PRAGMA user_version = 4;
