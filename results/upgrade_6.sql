-- upgrade_6.sql - from the tables of version 5 to those of version 6.
ALTER TABLE span ADD COLUMN module TEXT;
ALTER TABLE span ADD COLUMN sub_batch INTEGER;

PRAGMA user_version = 6;
