-- A primary key that the table is created without is recorded as what else is built for it.
ALTER TABLE tidegate.schema_object DROP CONSTRAINT schema_object_kind_check;
ALTER TABLE tidegate.schema_object ADD CONSTRAINT schema_object_kind_check
    CHECK (kind IN ('primary_key', 'index', 'check', 'foreign_key'));
COMMENT ON COLUMN tidegate.schema_object.kind IS 'primary_key, index, check or foreign_key';
