-- A source that loses its history between a table's capture and the stream reaching it, and has gone on to execute as
-- many transactions as before, shows in the commit times of the transactions that the capture ended with.
ALTER TABLE tidegate.table_state ADD COLUMN landmarks jsonb NOT NULL DEFAULT '[]';
COMMENT ON COLUMN tidegate.table_state.landmarks IS 'The latest transactions that the source had when the table was captured, with their original commit times in microseconds since 1970: compared when the stream passes them';
