-- upgrade_8.sql - from the tables of version 7 to those of version 8.
ALTER TABLE run ADD COLUMN pair_band_fraction REAL;
PRAGMA user_version = 8;
