-- What was built for a table and is not there any more was dropped by somebody: it is told of, and stays dropped.
ALTER TABLE tidegate.schema_object DROP CONSTRAINT schema_object_outcome_check;
ALTER TABLE tidegate.schema_object ADD CONSTRAINT schema_object_outcome_check
    CHECK (outcome IN ('built', 'not_validated', 'waiting', 'failed', 'dropped'));
COMMENT ON COLUMN tidegate.schema_object.outcome IS 'built; not_validated: a constraint that holds for new rows only; waiting: others keep a table of it locked, tried again while the stream goes on; failed: tried again at the next start; dropped: it was built and is there no more under its name, and is not built again before its table is copied again';
