-- The control schema of Tidegate: position, table states, halts.
--
-- Every write goes through one of Tidegate's fenced transactions. These run under
-- session_replication_role = replica, which silences foreign keys, so none are declared here:
-- a constraint that holds only for other writers would be a false promise.

COMMENT ON SCHEMA tidegate IS 'Control schema of Tidegate: position, table states, halts. Written by Tidegate only.';

CREATE TABLE tidegate.pipeline (
    name               text PRIMARY KEY CHECK (name <> ''),
    epoch              uuid NOT NULL,
    source_server_uuid uuid,
    replica_uuid       uuid NOT NULL,
    created_at         timestamptz NOT NULL DEFAULT now(),
    taken_over_at      timestamptz NOT NULL DEFAULT now(),
    tidegate_version   text NOT NULL
);

COMMENT ON TABLE tidegate.pipeline IS 'One row per pipeline. Its epoch fences writers: a commit locks this row and needs the epoch of its own take-over.';
COMMENT ON COLUMN tidegate.pipeline.name IS 'pipeline.name of the configuration';
COMMENT ON COLUMN tidegate.pipeline.epoch IS 'Random, fresh at every take-over; a writer with another epoch can''t commit';
COMMENT ON COLUMN tidegate.pipeline.source_server_uuid IS 'server_uuid of the MySQL server last read from; null before the first capture';
COMMENT ON COLUMN tidegate.pipeline.replica_uuid IS 'Identity shown to the source as @replica_uuid; the UUIDs of further binlog streams are derived from it';
COMMENT ON COLUMN tidegate.pipeline.created_at IS 'When the pipeline first ran against this database';
COMMENT ON COLUMN tidegate.pipeline.taken_over_at IS 'When the present epoch began';
COMMENT ON COLUMN tidegate.pipeline.tidegate_version IS 'Release that took over last';

CREATE TABLE tidegate.checkpoint (
    pipeline                     text NOT NULL,
    applier                      smallint NOT NULL CHECK (applier >= 0),
    seq                          bigint NOT NULL CHECK (seq >= 0),
    processed                    text,
    pooled                       text NOT NULL DEFAULT '',
    last_gtid                    text,
    last_original_commit_micros  bigint,
    last_immediate_commit_micros bigint,
    last_transaction_length      bigint,
    source_commit_time           timestamptz,
    written_at                   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, applier, seq),
    CHECK ((last_gtid IS NULL) = (last_original_commit_micros IS NULL)
       AND (last_gtid IS NULL) = (last_immediate_commit_micros IS NULL)
       AND (last_gtid IS NULL) = (last_transaction_length IS NULL))
) WITH (
    -- One dead row per commit: vacuum by count, without pauses, or a reader's scan grows with them.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

COMMENT ON TABLE tidegate.checkpoint IS 'The position. A commit inserts seq + 1 and deletes seq, since updating one row in place slows down linearly while a long reader holds its old versions. The position of a pipeline is the union over its appliers of their rows with the highest seq.';
COMMENT ON COLUMN tidegate.checkpoint.pipeline IS 'tidegate.pipeline.name';
COMMENT ON COLUMN tidegate.checkpoint.applier IS 'Number of the applier; 0 unless appliers run in parallel';
COMMENT ON COLUMN tidegate.checkpoint.seq IS 'Count of commits; a writer may only replace the seq that it read';
COMMENT ON COLUMN tidegate.checkpoint.processed IS 'GTID set of all transactions applied or filtered, as MySQL prints it; null until the first copy has given a position';
COMMENT ON COLUMN tidegate.checkpoint.pooled IS 'GTIDs of prepared XA transactions held back until they are resolved';
COMMENT ON COLUMN tidegate.checkpoint.last_gtid IS 'GTID of the last transaction processed; received again on resume and compared';
COMMENT ON COLUMN tidegate.checkpoint.last_original_commit_micros IS 'Its original commit timestamp, in microseconds since 1970, the same on every replica';
COMMENT ON COLUMN tidegate.checkpoint.last_immediate_commit_micros IS 'Its commit timestamp on the server it was read from';
COMMENT ON COLUMN tidegate.checkpoint.last_transaction_length IS 'Its length in the binlog, in bytes';
COMMENT ON COLUMN tidegate.checkpoint.source_commit_time IS 'last_original_commit_micros as a time';
COMMENT ON COLUMN tidegate.checkpoint.written_at IS 'Time of this commit on the target';

CREATE TABLE tidegate.table_state (
    pipeline        text NOT NULL,
    source_database text COLLATE "C" NOT NULL,
    source_table    text COLLATE "C" NOT NULL,
    state           text NOT NULL CHECK (state IN ('pending', 'capturing', 'copying', 'catching_up', 'streaming',
                                                   'resyncing', 'detached', 'halted')),
    snapshot_set    text,
    converge_set    text,
    target_schema   text COLLATE "C" NOT NULL,
    target_table    text COLLATE "C" NOT NULL,
    model           jsonb NOT NULL,
    rows_copied     bigint NOT NULL DEFAULT 0,
    rows_estimated  bigint,
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, source_database, source_table)
);

CREATE UNIQUE INDEX table_state_one_pipeline_per_target
    ON tidegate.table_state (target_schema, target_table) WHERE state <> 'detached';

COMMENT ON TABLE tidegate.table_state IS 'One row per replicated table. The stream applies a change to a table if and only if its GTID is not in snapshot_set.';
COMMENT ON COLUMN tidegate.table_state.pipeline IS 'tidegate.pipeline.name';
COMMENT ON COLUMN tidegate.table_state.source_database IS 'MySQL database';
COMMENT ON COLUMN tidegate.table_state.source_table IS 'MySQL table';
COMMENT ON COLUMN tidegate.table_state.state IS 'pending, capturing, copying, catching_up, streaming, resyncing, detached or halted';
COMMENT ON COLUMN tidegate.table_state.snapshot_set IS 'GTID set of the snapshot: transactions whose effects the copied rows already hold; null before the capture';
COMMENT ON COLUMN tidegate.table_state.converge_set IS 'The table shows one state of the source again once the processed set includes this one';
COMMENT ON COLUMN tidegate.table_state.target_schema IS 'PostgreSQL schema';
COMMENT ON COLUMN tidegate.table_state.target_table IS 'PostgreSQL table; only one pipeline may write it';
COMMENT ON COLUMN tidegate.table_state.model IS 'Definition of the source''s table as of the position, with the target''s types';
COMMENT ON COLUMN tidegate.table_state.rows_copied IS 'Rows copied by the chunks done';
COMMENT ON COLUMN tidegate.table_state.rows_estimated IS 'The source''s estimate of the table''s rows when the copy was planned';
COMMENT ON COLUMN tidegate.table_state.updated_at IS 'Time of the last change of this row';

CREATE TABLE tidegate.snapshot_chunk (
    pipeline        text NOT NULL,
    source_database text COLLATE "C" NOT NULL,
    source_table    text COLLATE "C" NOT NULL,
    chunk           integer NOT NULL CHECK (chunk >= 0),
    bounds          jsonb NOT NULL,
    rows            bigint NOT NULL CHECK (rows >= 0),
    done_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, source_database, source_table, chunk)
);

COMMENT ON TABLE tidegate.snapshot_chunk IS 'Chunks of the copy that are done, each written in the transaction that holds its rows.';
COMMENT ON COLUMN tidegate.snapshot_chunk.pipeline IS 'tidegate.pipeline.name';
COMMENT ON COLUMN tidegate.snapshot_chunk.source_database IS 'MySQL database';
COMMENT ON COLUMN tidegate.snapshot_chunk.source_table IS 'MySQL table';
COMMENT ON COLUMN tidegate.snapshot_chunk.chunk IS 'Number of the chunk in the plan';
COMMENT ON COLUMN tidegate.snapshot_chunk.bounds IS 'Key range of the chunk, encoded by the planner';
COMMENT ON COLUMN tidegate.snapshot_chunk.rows IS 'Rows in the chunk';
COMMENT ON COLUMN tidegate.snapshot_chunk.done_at IS 'Time of the chunk''s commit';

CREATE TABLE tidegate.startup_xid (
    pipeline    text NOT NULL,
    xid_sha256  bytea NOT NULL CHECK (octet_length(xid_sha256) = 32),
    seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, xid_sha256)
);

COMMENT ON TABLE tidegate.startup_xid IS 'XA transactions that were prepared on the source before the capture, so that their rows are not in the stream.';
COMMENT ON COLUMN tidegate.startup_xid.pipeline IS 'tidegate.pipeline.name';
COMMENT ON COLUMN tidegate.startup_xid.xid_sha256 IS 'SHA-256 of gtrid and bqual; the XID itself is application data';
COMMENT ON COLUMN tidegate.startup_xid.seen_at IS 'When XA RECOVER showed it';

CREATE TABLE tidegate.halt (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline     text NOT NULL,
    reason       text NOT NULL,
    detail       text NOT NULL,
    gtid         text,
    source_table text,
    remedy       text NOT NULL,
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    times        bigint NOT NULL DEFAULT 1,
    cleared_at   timestamptz
);

CREATE UNIQUE INDEX halt_one_open ON tidegate.halt (pipeline) WHERE cleared_at IS NULL;
CREATE INDEX halt_history ON tidegate.halt (pipeline, since);

COMMENT ON TABLE tidegate.halt IS 'Every halt. At most one is open per pipeline; the first commit past it clears it.';
COMMENT ON COLUMN tidegate.halt.id IS 'Order of the halts';
COMMENT ON COLUMN tidegate.halt.pipeline IS 'tidegate.pipeline.name';
COMMENT ON COLUMN tidegate.halt.reason IS 'Name in the catalogue of halts and heading in the runbook';
COMMENT ON COLUMN tidegate.halt.detail IS 'What it concerns: names of objects, no data';
COMMENT ON COLUMN tidegate.halt.gtid IS 'Transaction in hand, if any';
COMMENT ON COLUMN tidegate.halt.source_table IS 'Source table concerned as database.table, if any';
COMMENT ON COLUMN tidegate.halt.remedy IS 'What to do about it';
COMMENT ON COLUMN tidegate.halt.since IS 'When the pipeline first halted here';
COMMENT ON COLUMN tidegate.halt.last_at IS 'When a restart or resume last halted at the same place';
COMMENT ON COLUMN tidegate.halt.times IS 'How often it halted here';
COMMENT ON COLUMN tidegate.halt.cleared_at IS 'When a commit got past it, or another halt took its place';

CREATE TABLE tidegate.schema_change (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline        text NOT NULL,
    gtid            text NOT NULL,
    source_database text COLLATE "C" NOT NULL,
    source_table    text COLLATE "C" NOT NULL,
    kind            text NOT NULL,
    statement       text NOT NULL,
    applied_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (pipeline, gtid, source_database, source_table)
);

COMMENT ON TABLE tidegate.schema_change IS 'Every schema change applied from the stream, written in its own commit.';
COMMENT ON COLUMN tidegate.schema_change.id IS 'Order of the changes';
COMMENT ON COLUMN tidegate.schema_change.pipeline IS 'tidegate.pipeline.name';
COMMENT ON COLUMN tidegate.schema_change.gtid IS 'GTID of the statement on the source';
COMMENT ON COLUMN tidegate.schema_change.source_database IS 'MySQL database';
COMMENT ON COLUMN tidegate.schema_change.source_table IS 'MySQL table';
COMMENT ON COLUMN tidegate.schema_change.kind IS 'Kind of statement, such as create_table';
COMMENT ON COLUMN tidegate.schema_change.statement IS 'The PostgreSQL statements run';
COMMENT ON COLUMN tidegate.schema_change.applied_at IS 'Time of the commit on the target';
