-- Whose a table of the target is, and whether its definition is still to be confirmed: what a
-- schema change may do with it.

ALTER TABLE tidegate.table_state
    ADD COLUMN ownership text NOT NULL DEFAULT 'unclaimed' CHECK (ownership IN ('unclaimed', 'adopted', 'created')),
    ADD COLUMN provisional boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN tidegate.table_state.ownership IS 'unclaimed: the target''s table, if there is one, is not this pipeline''s. adopted: it was there, fit and empty, when its first copy began, so that its rows are the pipeline''s and the table is not. created: the pipeline created it and may drop it.';
COMMENT ON COLUMN tidegate.table_state.provisional IS 'The model was read from the source later than the table''s creation in the stream: the first table map confirms it, or the table is copied again';
