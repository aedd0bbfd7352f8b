-- upgrade_11.sql - from the tables of version 10 to those of version 11.
ALTER TABLE sweep ADD COLUMN objective TEXT;
ALTER TABLE sweep ADD COLUMN deadline_days REAL;
ALTER TABLE sweep ADD COLUMN budget_usd REAL;
PRAGMA user_version = 11;
