-- What is built for a table waits for no lock that others keep: it is recorded, and tried again.
ALTER TABLE tidegate.schema_object DROP CONSTRAINT schema_object_outcome_check;
ALTER TABLE tidegate.schema_object ADD CONSTRAINT schema_object_outcome_check
    CHECK (outcome IN ('built', 'not_validated', 'waiting', 'failed'));
COMMENT ON COLUMN tidegate.schema_object.outcome IS 'built; not_validated: a constraint that holds for new rows only; waiting: others keep a table of it locked, tried again while the stream goes on; failed: tried again at the next start';
COMMENT ON COLUMN tidegate.schema_object.statement IS 'The PostgreSQL statement; empty where an object of that name was there already, and while there is nothing of it';
