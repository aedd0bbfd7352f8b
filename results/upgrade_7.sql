-- upgrade_7.sql - from the tables of version 6 to those of version 7.
ALTER TABLE run ADD COLUMN inputs TEXT CHECK (inputs IS NULL OR json_valid(inputs));
PRAGMA user_version = 7;
