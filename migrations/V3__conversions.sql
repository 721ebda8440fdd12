-- The ledger of values that could not be stored as they are.

CREATE TABLE tidegate.conversion (
    pipeline        text NOT NULL,
    source_database text COLLATE "C" NOT NULL,
    source_table    text COLLATE "C" NOT NULL,
    source_column   text COLLATE "C" NOT NULL,
    kind            text NOT NULL,
    policy          text NOT NULL CHECK (policy IN ('null', 'replace', 'widen')),
    uses            bigint NOT NULL CHECK (uses >= 0),
    keys            bigint NOT NULL,
    first_use       text,
    last_use        text,
    statement       text,
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, source_database, source_table, source_column, kind, policy)
);

COMMENT ON TABLE tidegate.conversion IS 'Every use of a policy for values that PostgreSQL can''t hold, summed by column and kind, written in the commit that holds the rows. A table''s entries go when its copy starts anew.';
COMMENT ON COLUMN tidegate.conversion.pipeline IS 'tidegate.pipeline.name';
COMMENT ON COLUMN tidegate.conversion.source_database IS 'MySQL database';
COMMENT ON COLUMN tidegate.conversion.source_table IS 'MySQL table';
COMMENT ON COLUMN tidegate.conversion.source_column IS 'MySQL column';
COMMENT ON COLUMN tidegate.conversion.kind IS 'Kind of value, a key of the configuration''s [policies]';
COMMENT ON COLUMN tidegate.conversion.policy IS 'What was done with it: null, replace or widen';
COMMENT ON COLUMN tidegate.conversion.uses IS 'Values stored by the policy since the table''s copy began; for widen, the changes of the column''s type';
COMMENT ON COLUMN tidegate.conversion.keys IS 'Rows stored with such a value less rows that gave one up: how many hold one now. Changes that a resumed copy had already read count again when the stream replays them';
COMMENT ON COLUMN tidegate.conversion.first_use IS '''copy'', or the GTID of the transaction, of the first use';
COMMENT ON COLUMN tidegate.conversion.last_use IS '''copy'', or the GTID of the transaction, of the last use';
COMMENT ON COLUMN tidegate.conversion.statement IS 'The change of the target''s column that the first use needed, if any';
COMMENT ON COLUMN tidegate.conversion.updated_at IS 'Time of the last change of this row';
