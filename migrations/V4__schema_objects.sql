-- Indexes and constraints that are built once a table's rows are there.

CREATE TABLE tidegate.schema_object (
    pipeline        text NOT NULL,
    source_database text COLLATE "C" NOT NULL,
    source_table    text COLLATE "C" NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('index', 'check', 'foreign_key')),
    name            text COLLATE "C" NOT NULL,
    target_name     text COLLATE "C" NOT NULL,
    outcome         text NOT NULL CHECK (outcome IN ('built', 'not_validated', 'failed')),
    detail          text,
    statement       text NOT NULL,
    changed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (pipeline, source_database, source_table, kind, name),
    CHECK ((outcome = 'built') = (detail IS NULL))
);

COMMENT ON TABLE tidegate.schema_object IS 'Every index and constraint that was built, or could not be, written in the commit that built it. What is here is not built again; delete a row to have it tried again.';
COMMENT ON COLUMN tidegate.schema_object.pipeline IS 'tidegate.pipeline.name';
COMMENT ON COLUMN tidegate.schema_object.source_database IS 'MySQL database';
COMMENT ON COLUMN tidegate.schema_object.source_table IS 'MySQL table';
COMMENT ON COLUMN tidegate.schema_object.kind IS 'index, check or foreign_key';
COMMENT ON COLUMN tidegate.schema_object.name IS 'Name on the source';
COMMENT ON COLUMN tidegate.schema_object.target_name IS 'Name on the target';
COMMENT ON COLUMN tidegate.schema_object.outcome IS 'built; not_validated: a foreign key that holds for new rows only; failed: tried again at the next start';
COMMENT ON COLUMN tidegate.schema_object.detail IS 'Why it is not simply built: names of objects and a condition, no data';
COMMENT ON COLUMN tidegate.schema_object.statement IS 'The PostgreSQL statement; empty where an object of that name was there already';
COMMENT ON COLUMN tidegate.schema_object.changed_at IS 'Time of the last change of this row';
