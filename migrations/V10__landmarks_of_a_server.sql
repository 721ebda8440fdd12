-- What is known of a landmark on the server that it was read from. Of those recorded before, that server is not known:
-- the time of the first commit alone counts, and the zeros are not compared.
UPDATE tidegate.table_state SET landmarks = (
    SELECT jsonb_agg(jsonb_build_object(
        'gtid', mark -> 'gtid',
        'server', NULL,
        'fingerprint', jsonb_build_object(
            'original_commit_micros', mark -> 'original_commit_micros',
            'immediate_commit_micros', 0,
            'transaction_length', 0)))
    FROM jsonb_array_elements(landmarks) AS mark)
WHERE landmarks <> '[]';
COMMENT ON COLUMN tidegate.table_state.landmarks IS 'The latest transactions that the source had when the table was captured, with their commit times in microseconds since 1970 and their lengths, or null where it had purged them; compared before the position is given, or when the stream passes them';
