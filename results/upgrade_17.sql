-- upgrade_17.sql - from the tables of version 16 to those of version 17. Runs stored before do not
-- tell.
ALTER TABLE run ADD COLUMN pcie_ms REAL;

PRAGMA user_version = 17;
