//! The target's tables: what they are, creating them, and whether they are what the models need.

use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::checkpoint::{CommitError, Progress, commit};
use super::client::{Client, Error};
use super::dependents;
use super::error::{failure, while_doing};
use super::locks;
use super::objects;
use super::rebuild::Belongings;
use super::statements;
use super::table_state::{Ownership, TableState};
use super::transaction::{FencedTransaction, OpError};
use super::vacate::vacate;
use super::writer::Writer;
use crate::config::DdlConfig;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::diff::{TargetColumn, TargetTable, UniqueIndex, Uniqueness, check_target, has_key};
use crate::schema::names::Names;
use crate::schema::partitions::{FoundPartitions, FoundPlaces};
use crate::schema::phase::TablePhase;
use crate::schema::render::collation::create_collations;
use crate::schema::render::{self, Key};
use crate::schema::{Column, MysqlType, TableModel, TableName};

/// Between two attempts to have a table, in which its readers pass.
pub(crate) const LOCK_PAUSE: Duration = Duration::from_secs(1);

const READ_RELATION: &str = "\
    SELECT c.oid, c.relkind, c.relpersistence \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1::text AND c.relname = $2::text";

/// PostGIS's types go by their names alone: which schema it is in differs from database to database.
/// The locale of an ICU collation is in another column of the catalog in each of 14, 15 and 17.
const READ_COLUMNS: &str = "\
    SELECT a.attname::text, \
        CASE WHEN EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid \
                WHERE d.classid = 'pg_type'::regclass AND d.objid = a.atttypid \
                    AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = 'postgis') \
            THEN regexp_replace(format_type(a.atttypid, a.atttypmod), '^.*[.]', '') \
            ELSE format_type(a.atttypid, a.atttypmod) END, \
        a.attnotnull, \
        a.atthasdef OR a.attidentity <> '', a.attgenerated <> '', a.attidentity = 'a', \
        coalesce(o.collisdeterministic, true), \
        CASE WHEN o.collprovider = 'i' THEN coalesce(to_jsonb(o) ->> 'colllocale', \
            to_jsonb(o) ->> 'colliculocale', o.collcollate::text) END \
    FROM pg_attribute a LEFT JOIN pg_collation o ON o.oid = a.attcollation \
    WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// An index over an expression has attribute number 0 in its key and is shown without columns.
const READ_UNIQUE_INDEXES: &str = "\
    SELECT c.relname::text, \
        CASE WHEN 0 = ANY (i.indkey::int2[]) THEN '{}'::text[] ELSE ARRAY( \
            SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place) \
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
            WHERE k.place <= i.indnkeyatts ORDER BY k.place) END, \
        i.indisprimary, i.indpred IS NOT NULL, NOT i.indimmediate, i.indisvalid AND i.indisready, \
        NOT EXISTS (SELECT FROM pg_collation o WHERE o.oid = ANY (i.indcollation::oid[]) AND NOT o.collisdeterministic) \
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
    WHERE i.indisunique AND (i.indrelid = $1::oid OR NOT c.relispartition \
        AND i.indrelid IN (SELECT p.relid::oid FROM pg_partition_tree($1::oid::regclass) p)) ORDER BY c.relname";

/// Triggers and rules, of the table and its partitions, that session_replication_role = replica does not
/// silence. The rule of a view is the view itself.
const READ_FIRING: &str = "\
    WITH tree AS (SELECT $1::oid AS member UNION SELECT p.relid::oid FROM pg_partition_tree($1::oid::regclass) p) \
    SELECT tgname::text FROM pg_trigger JOIN tree ON tgrelid = member WHERE NOT tgisinternal AND tgenabled IN ('R', 'A') \
    UNION \
    SELECT rulename::text FROM pg_rewrite JOIN tree ON ev_class = member WHERE ev_type <> '1' AND ev_enabled IN ('R', 'A') \
    ORDER BY 1";

/// The table, and then each partition that is partitioned itself.
const READ_PARTITIONS: &str = "\
    SELECT p.partstrat, p.partdefid <> 0, \
        ARRAY(SELECT substring(pg_get_expr(c.relpartbound, c.oid) FROM 'modulus ([0-9]+)')::int8 \
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
            WHERE i.inhparent = p.partrelid AND NOT i.inhdetachpending AND p.partstrat = 'h'), \
        ARRAY(SELECT a.attname::text FROM unnest(p.partattrs::int2[]) WITH ORDINALITY k (attnum, place) \
            JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.attnum ORDER BY k.place), \
        (SELECT count(*) FROM pg_inherits i WHERE i.inhparent = p.partrelid AND NOT i.inhdetachpending), \
        (SELECT count(*) FROM pg_partition_tree(p.partrelid::regclass) t JOIN pg_class c ON c.oid = t.relid \
            WHERE t.isleaf AND (c.relkind <> 'r' OR c.relpersistence <> 'p')), \
        o.relname::text \
    FROM pg_partition_tree($1::oid::regclass) t JOIN pg_partitioned_table p ON p.partrelid = t.relid \
        JOIN pg_class o ON o.oid = p.partrelid ORDER BY t.level, o.relname";

/// Row security that would apply to this session's own role.
const READ_ROW_SECURITY: &str = "SELECT row_security_active($1::oid)";

macro_rules! signature {
    () => {
        "\
        SELECT concat_ws(';', c.oid, c.xmin, \
            (SELECT string_agg(a.xmin::text, ',' ORDER BY a.attnum) \
                FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0), \
            (SELECT string_agg(concat(i.indexrelid, ':', i.xmin), ',' ORDER BY i.indexrelid) \
                FROM pg_index i WHERE i.indrelid = c.oid AND i.indisunique), \
            (SELECT string_agg(concat(t.oid, ':', t.xmin), ',' ORDER BY t.oid) \
                FROM pg_trigger t WHERE t.tgrelid = c.oid), \
            (SELECT string_agg(concat(r.oid, ':', r.xmin), ',' ORDER BY r.oid) \
                FROM pg_rewrite r WHERE r.ev_class = c.oid), \
            CASE WHEN c.relkind = 'p' THEN ( \
                WITH RECURSIVE member (oid, link) AS (SELECT c.oid, NULL::xid \
                    UNION ALL SELECT h.inhrelid, h.xmin FROM pg_inherits h JOIN member m ON h.inhparent = m.oid) \
                SELECT md5(string_agg(concat_ws(':', m.oid, m.link, \
                    (SELECT concat(p.xmin, '/', p.partdefid) FROM pg_partitioned_table p WHERE p.partrelid = m.oid), \
                    (SELECT string_agg(concat(i.indexrelid, '/', i.xmin), ',' ORDER BY i.indexrelid) \
                        FROM pg_index i WHERE i.indrelid = m.oid AND i.indisunique), \
                    (SELECT string_agg(concat(t.oid, '/', t.xmin), ',' ORDER BY t.oid) \
                        FROM pg_trigger t WHERE t.tgrelid = m.oid), \
                    (SELECT string_agg(concat(r.oid, '/', r.xmin), ',' ORDER BY r.oid) \
                        FROM pg_rewrite r WHERE r.ev_class = m.oid)), ';' ORDER BY m.oid)) FROM member m) END) AS signature \
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = $1::text AND c.relname = $2::text"
    };
}

/// What changes with a table's columns, unique indexes, triggers, rules and partitions, and with those of
/// its partitions: the row versions that describe them. No partition is locked for it. Vacuuming and analyzing
/// write in place and leave it as it is.
const SIGNATURE: &str = signature!();

/// Fails unless the table's signature is the third parameter.
pub(super) const LOOK: &str = concat!(
    "SELECT tidegate.expect_rows(count(*), 1) FROM (",
    signature!(),
    ") s WHERE s.signature = $3::text"
);

/// Reads the table of that name; `None` when there is no relation of that name.
pub async fn read_table(client: &Client, name: &TableName) -> Result<Option<TargetTable>, Failure> {
    let (schema, table) = render::target_name(name)?;
    read(client, schema, table).await.map_err(while_doing("reading the target's catalog"))
}

async fn read(client: &Client, schema: &str, table: &str) -> Result<Option<TargetTable>, Error> {
    let Some(relation) = client.query_opt(READ_RELATION, &[&schema, &table]).await? else { return Ok(None) };
    let oid: u32 = relation.try_get(0)?;
    let columns = client.query(READ_COLUMNS, &[&oid]).await?;
    let unique_indexes = client.query(READ_UNIQUE_INDEXES, &[&oid]).await?;
    let firing = client.query(READ_FIRING, &[&oid]).await?;
    let partitions = client.query(READ_PARTITIONS, &[&oid]).await?;
    Ok(Some(TargetTable {
        kind: char_of(relation.try_get(1)?),
        persistence: char_of(relation.try_get(2)?),
        columns: columns.iter().map(column).collect::<Result<_, _>>()?,
        unique_indexes: unique_indexes.iter().map(unique_index).collect::<Result<_, _>>()?,
        partitions: found_partitions(&partitions)?,
        firing: firing.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?,
    }))
}

/// PostgreSQL's "char" is one byte.
const fn char_of(byte: i8) -> char {
    byte.cast_unsigned() as char
}

fn column(row: &Row) -> Result<TargetColumn, tokio_postgres::Error> {
    Ok(TargetColumn {
        name: row.try_get(0)?,
        type_sql: row.try_get(1)?,
        not_null: row.try_get(2)?,
        has_default: row.try_get(3)?,
        generated: row.try_get(4)?,
        identity_always: row.try_get(5)?,
        deterministic: row.try_get(6)?,
        icu_locale: row.try_get(7)?,
    })
}

fn found_partitions(rows: &[Row]) -> Result<Option<FoundPartitions>, tokio_postgres::Error> {
    let Some((table, nested)) = rows.split_first() else { return Ok(None) };
    let mut incomplete = Vec::new();
    for row in nested {
        if !found_places(row)?.takes_every_row() {
            incomplete.push(row.try_get(6)?);
        }
    }
    let (columns, partitions, odd) = (table.try_get(3)?, table.try_get(4)?, table.try_get(5)?);
    Ok(Some(FoundPartitions { places: found_places(table)?, columns, partitions, incomplete, odd }))
}

fn found_places(row: &Row) -> Result<FoundPlaces, tokio_postgres::Error> {
    let (has_default, moduli) = (row.try_get(1)?, row.try_get(2)?);
    Ok(FoundPlaces { strategy: char_of(row.try_get(0)?), has_default, moduli })
}

fn unique_index(row: &Row) -> Result<UniqueIndex, tokio_postgres::Error> {
    Ok(UniqueIndex {
        name: row.try_get(0)?,
        columns: row.try_get(1)?,
        primary: row.try_get(2)?,
        partial: row.try_get(3)?,
        deferrable: row.try_get(4)?,
        valid: row.try_get(5)?,
        deterministic: row.try_get(6)?,
    })
}

/// Checks that every table the stream writes is still what its model needs.
///
/// # Errors
/// `target_drift` for the first table that is not, with all of its differences.
pub async fn verify(client: &Client, tables: &[TableState]) -> Result<(), Failure> {
    for state in tables.iter().filter(|state| state.phase != TablePhase::Detached) {
        let name = state.name();
        if render::target_name(name)? != (&state.target_schema, &state.target_table) {
            let detail = "the control schema names another target table than the source's name gives";
            return Err(on(Halt::new(Reason::CheckpointInvalid, detail), name));
        }
        match read_table(client, name).await? {
            Some(found) => {
                check(client, &state.model, &found, state.uniqueness()).await?;
                refuse_missing_partitions(&state.model, state.ownership, &found)?;
            }
            None => return Err(on(Halt::new(Reason::TargetDrift, "the target's table is missing"), name)),
        }
    }
    Ok(())
}

/// Checks the model's table and holds it as it is until the transaction ends: the lock is that of
/// a write. Returns what [`LOOK`] compares.
pub(super) async fn hold_fit(
    client: &Client,
    model: &TableModel,
    ownership: Ownership,
    uniqueness: Uniqueness,
) -> Result<String, Failure> {
    let doing = "locking a target table";
    let lock = statements::lock(model)?;
    client.batch_execute(&lock).await.map_err(while_doing(doing))?;
    let missing = || on(Halt::new(Reason::TargetDrift, "the target's table is missing"), &model.name);
    let found = read_table(client, &model.name).await?.ok_or_else(missing)?;
    check(client, model, &found, uniqueness).await?;
    refuse_missing_partitions(model, ownership, &found)?;
    let (schema, table) = render::target_name(&model.name)?;
    let row = client.query_one(SIGNATURE, &[&schema, &table]).await.map_err(while_doing(doing))?;
    row.try_get(0).map_err(while_doing(doing))
}

/// A table that the pipeline has created keeps the partitions that it was created with.
fn refuse_missing_partitions(
    model: &TableModel,
    ownership: Ownership,
    found: &TargetTable,
) -> Result<(), Failure> {
    let native = model.details.target_partitions.native().filter(|_| ownership == Ownership::Created);
    let missing = native.zip(found.partitions.as_ref()).and_then(|(native, found)| native.missing(found));
    missing.map_or(Ok(()), |missing| Err(on(Halt::new(Reason::TargetDrift, missing), &model.name)))
}

/// Saves the states of tables that are not copied yet, unless another pipeline writes their
/// targets.
///
/// # Errors
/// `target_preflight` naming the other pipeline.
pub async fn claim_tables(writer: &mut Writer, tables: &[TableState]) -> Result<(), Failure> {
    refuse_shared(writer, tables).await?;
    writer.save_tables(tables).await
}

/// Makes the target's table ready for a copy from nothing and saves the state that the copy
/// starts with, in one commit: the table is empty and has no chunk. One that is missing is
/// created. The rows of an earlier copy by this pipeline go, and with them a table that it created
/// and that is no longer what the source's definition needs, or still has a column that the model
/// `before` had and the source has no more. One that is not the pipeline's must be fit and empty,
/// since nothing tells its rows from the source's.
///
/// A table that others use is asked for as `ddl` says, and not waited for in between: a lock that
/// queues behind a long query holds up every reader that comes after it.
///
/// # Errors
/// `target_drift` for a table that is there and unfit or not empty, `target_preflight` without the
/// privilege to create it or when another pipeline writes it, `target_dependency` where something
/// depends on a table that has to be dropped, `ddl_lock_unavailable` where others keep using it.
pub async fn begin_copy(
    writer: &mut Writer,
    state: &mut TableState,
    before: &TableModel,
    ddl: &DdlConfig,
) -> Result<(), Failure> {
    refuse_shared(writer, std::slice::from_ref(state)).await?;
    let deadline = Instant::now() + ddl.lock_deadline;
    loop {
        match try_begin_copy(writer, state, before, ddl.lock_wait_timeout).await {
            Ok(None) => return Ok(()),
            Ok(Some(locked)) => pause_for_lock(state.name(), &locked, deadline).await?,
            Err(failure) => return Err(dependents::named(writer.client(), failure, state.name()).await?),
        }
    }
}

/// Gives a table that was created for its copy the key, now that its rows are there: one sort of them
/// all costs a fraction of an index that grows with each. Does nothing where the key is there.
///
/// # Errors
/// `ddl_lock_unavailable` as [`begin_copy`]; `target_constraint` where rows with different keys of the
/// source have one on the target.
pub async fn build_key(writer: &mut Writer, state: &TableState, ddl: &DdlConfig) -> Result<(), Failure> {
    let Some(statement) = render::add_key(&state.model)? else { return Ok(()) };
    if state.ownership != Ownership::Created {
        return Ok(());
    }
    let deadline = Instant::now() + ddl.lock_deadline;
    while !try_build_key(writer, state, &statement, ddl.lock_wait_timeout).await? {
        pause_for_lock(state.name(), state.name(), deadline).await?;
    }
    Ok(())
}

/// Answers whether the table could be had.
async fn try_build_key(
    writer: &mut Writer,
    state: &TableState,
    statement: &str,
    lock_timeout: Duration,
) -> Result<bool, Failure> {
    let name = state.name();
    let mut tx = writer.begin().await.map_err(OpError::into_failure)?;
    let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
    if !lock(client, name, lock_timeout).await? {
        return Ok(false);
    }
    let missing = || on(Halt::new(Reason::TargetDrift, "the target's table is missing"), name);
    let found = read_table(client, name).await?.ok_or_else(missing)?;
    if has_key(&state.model, &found) {
        return Ok(true);
    }
    tracing::info!(
        table = format!("{}.{}", name.database, name.table),
        "its rows are there: building its key"
    );
    client
        .alter(statement)
        .await
        .map_err(|error| on_name(failure("building a table's key", &error), name))?;
    let unchanged = Progress::Tables { tables: std::slice::from_ref(state), clears_halt: false };
    commit(tx, &unchanged).await.map_err(CommitError::into_failure)?;
    Ok(true)
}

/// A lock that queues behind a long query would hold up every reader that comes after it: between two
/// attempts they are let through.
async fn pause_for_lock(copied: &TableName, locked: &TableName, deadline: Instant) -> Result<(), Failure> {
    let used = format!("{}.{}", locked.database, locked.table);
    if Instant::now() >= deadline {
        let detail = format!("others kept using the target's table {used}, which its copy needs for itself");
        return Err(on(Halt::new(Reason::DdlLockUnavailable, detail), copied));
    }
    let TableName { database, table } = copied;
    tracing::info!(table = format!("{database}.{table}"), "its copy waits for the target's table {used}");
    tokio::time::sleep(LOCK_PAUSE).await;
    Ok(())
}

/// Answers which table others keep locked, if one has kept it from that.
async fn try_begin_copy(
    writer: &mut Writer,
    state: &mut TableState,
    before: &TableModel,
    lock_timeout: Duration,
) -> Result<Option<TableName>, Failure> {
    let mut tx = writer.begin().await.map_err(OpError::into_failure)?;
    let mut belongings = Belongings::default();
    if state.ownership != Ownership::Unclaimed {
        match clear(&mut tx, state, before, lock_timeout).await? {
            Cleared::Of(found) => belongings = found,
            Cleared::Locked(table) => return Ok(Some(table)),
        }
    }
    let is_created = state.ownership == Ownership::Created;
    let uniqueness = if is_created { Uniqueness::OfKeyIfAny } else { Uniqueness::OfKey };
    let created = create(&mut tx, &state.model, Key::Later, uniqueness).await?;
    state.ownership = created.ownership.max(state.ownership);
    belongings.give_back(tx.quiet_client().await.map_err(OpError::into_failure)?, &state.model).await?;
    commit(tx, &Progress::CopyRestart(state)).await.map_err(CommitError::into_failure)?;
    Ok(None)
}

/// What came of clearing a table.
enum Cleared {
    /// What goes with one that was dropped.
    Of(Belongings),
    /// Others use this table.
    Locked(TableName),
}

/// Takes the table's lock for the transaction, as long as nobody keeps it for `lock_timeout`.
async fn lock(client: &Client, name: &TableName, lock_timeout: Duration) -> Result<bool, Failure> {
    let lock = statements::lock_whole(name)?;
    let sql = format!("SET LOCAL lock_timeout = {}; {lock}", lock_timeout.as_millis());
    match client.batch_execute(&sql).await {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
        Err(error) => Err(on_name(failure("locking a target table", &error), name)),
    }
}

/// Empties the pipeline's table, or drops it where it created it and it is not what the model
/// needs. Either waits for every transaction that writes it: none can add rows afterwards.
async fn clear(
    tx: &mut FencedTransaction<'_>,
    state: &TableState,
    before: &TableModel,
    lock_timeout: Duration,
) -> Result<Cleared, Failure> {
    let model = &state.model;
    let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
    let kept = Cleared::Of(Belongings::default());
    if read_table(client, &model.name).await?.is_none() {
        return Ok(kept);
    }
    if !lock(client, &model.name, lock_timeout).await? {
        return Ok(Cleared::Locked(model.name.clone()));
    }
    let Some(found) = read_table(client, &model.name).await? else { return Ok(kept) };
    if let Some(table) = objects::drop_objects(client, &model.name).await? {
        return Ok(Cleared::Locked(table));
    }
    let fits = check_target(model, &found, state.uniqueness()).is_empty();
    // The labels of an enum are in a CHECK, and may have changed.
    let has = |model: &TableModel, name: &str| model.columns.iter().any(|column| column.name == name);
    let has_gone = |name: &str| has(before, name) && !has(model, name);
    let is_stale = found.columns.iter().any(|column| has_gone(&column.name));
    // Its partitions may be others.
    let is_plain = model.details.target_partitions.native().is_none();
    let keeps = fits && is_plain && !is_stale && !has_checks(client, &model.name).await?;
    match state.ownership {
        Ownership::Created if !keeps => {
            let belongings = Belongings::read(client, &model.name, &labelled(model)).await?;
            drop_table(client, &model.name).await?;
            return Ok(Cleared::Of(belongings));
        }
        Ownership::Created => {
            empty(client, &model.name).await?;
            for statement in render::present_details(model)? {
                client.alter(&statement).await.map_err(while_doing("setting a table's defaults"))?;
            }
        }
        _ if fits => drop(empty(client, &model.name).await?),
        _ => {}
    }
    Ok(kept)
}

/// The columns whose labels a table is created to check.
fn labelled(model: &TableModel) -> Vec<&str> {
    let is_enum = |column: &&Column| matches!(column.mysql, MysqlType::Enum { .. });
    model.columns.iter().filter(is_enum).map(|column| column.name.as_str()).collect()
}

const HAS_CHECKS: &str = "\
    SELECT EXISTS (SELECT FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid \
        JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = $1::text AND c.relname = $2::text AND k.contype = 'c')";

async fn has_checks(client: &Client, name: &TableName) -> Result<bool, Failure> {
    let doing = "reading the target's catalog";
    let (schema, table) = render::target_name(name)?;
    let row = client.query_one(HAS_CHECKS, &[&schema, &table]).await.map_err(while_doing(doing))?;
    row.try_get(0).map_err(while_doing(doing))
}

/// Foreign keys of other tables that reference this one: TRUNCATE refuses it then, even while
/// they are silent.
const IS_REFERENCED: &str = "\
    SELECT EXISTS (SELECT FROM pg_constraint f \
        WHERE f.confrelid = c.oid AND f.contype = 'f' AND f.conrelid <> f.confrelid), c.relkind <> 'p' \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1::text AND c.relname = $2::text";

/// Removes every row. Returns the statement run.
pub(super) async fn empty(client: &Client, name: &TableName) -> Result<String, Failure> {
    let doing = "emptying a table";
    let (schema, table) = render::target_name(name)?;
    let row = client.query_one(IS_REFERENCED, &[&schema, &table]).await.map_err(while_doing(doing))?;
    let is_referenced: bool = row.try_get(0).map_err(while_doing(doing))?;
    let is_plain: bool = row.try_get(1).map_err(while_doing(doing))?;
    let statement = if is_referenced {
        render::delete_all(name, is_plain)?
    } else {
        render::truncate_table(name, is_plain)?
    };
    client.alter(&statement).await.map_err(|error| on_name(failure(doing, &error), name))?;
    Ok(statement)
}

/// Drops the table. Returns the statement run.
pub(super) async fn drop_table(client: &Client, name: &TableName) -> Result<String, Failure> {
    let statement = render::drop_table(name)?;
    client.alter(&statement).await.map_err(|error| on_name(failure("dropping a table", &error), name))?;
    Ok(statement)
}

/// What [`create`] did.
pub(super) struct Created {
    /// Whose the table is now.
    pub(super) ownership: Ownership,
    /// The statements run, none if the table was there.
    pub(super) statements: String,
}

/// Creates the model's table, or checks one that is there and empty and has this `uniqueness`.
pub(super) async fn create(
    tx: &mut FencedTransaction<'_>,
    model: &TableModel,
    key: Key,
    uniqueness: Uniqueness,
) -> Result<Created, Failure> {
    let name = &model.name;
    let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
    vacate(client, name).await?;
    locks::refuse_too_many(client, model).await?;
    if let Some(found) = read_table(client, name).await? {
        check(client, model, &found, uniqueness).await?;
        let doing = "looking for rows in a target table";
        let row = client.query_one(&statements::has_rows(model)?, &[]).await.map_err(while_doing(doing))?;
        if row.try_get(0).map_err(while_doing(doing))? {
            let detail = "the target's table has rows that this pipeline has not copied: rename it, or \
                empty it if nobody needs them";
            return Err(on(Halt::new(Reason::TargetDrift, detail), name));
        }
        return Ok(Created { ownership: Ownership::Adopted, statements: String::new() });
    }
    let mut run = create_schema(client, &name.database).await?;
    let mut statements = create_collations(model)?;
    let mut taken = relations(client, &name.database).await?;
    statements.extend(render::create_statements(model, &mut taken, key)?);
    for statement in &statements {
        client.alter(statement).await.map_err(|error| failure("creating a table", &error))?;
    }
    run.extend(statements);
    Ok(Created { ownership: Ownership::Created, statements: run.join(";\n") })
}

/// Creates the schema where it is missing. Returns the statement run, if any.
pub(super) async fn create_schema(client: &Client, schema: &str) -> Result<Vec<String>, Failure> {
    if schema_exists(client, schema).await? {
        return Ok(Vec::new());
    }
    let statement = render::create_schema(schema)?;
    client.alter(&statement).await.map_err(while_doing("creating a schema"))?;
    Ok(vec![statement])
}

/// CREATE SCHEMA IF NOT EXISTS asks for the privilege to create even where the schema exists.
async fn schema_exists(client: &Client, schema: &str) -> Result<bool, Failure> {
    let doing = "reading the target's catalog";
    let sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)";
    let row = client.query_one(sql, &[&schema]).await.map_err(while_doing(doing))?;
    row.try_get(0).map_err(while_doing(doing))
}

/// Names of everything that shares a namespace with the schema's indexes.
pub(super) async fn relations(client: &Client, schema: &str) -> Result<Names, Failure> {
    let doing = "reading the target's catalog";
    let sql = "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = $1::text";
    let rows = client.query(sql, &[&schema]).await.map_err(while_doing(doing))?;
    let names: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
    Ok(Names::new(names.map_err(while_doing(doing))?))
}

async fn check(
    client: &Client,
    model: &TableModel,
    found: &TargetTable,
    uniqueness: Uniqueness,
) -> Result<(), Failure> {
    let differences = differences(client, model, found, uniqueness).await?;
    if differences.is_empty() {
        return Ok(());
    }
    Err(on(Halt::new(Reason::TargetDrift, differences.join("; ")), &model.name))
}

/// What makes the table unfit, one sentence each.
pub(super) async fn differences(
    client: &Client,
    model: &TableModel,
    found: &TargetTable,
    uniqueness: Uniqueness,
) -> Result<Vec<String>, Failure> {
    let mut differences = check_target(model, found, uniqueness);
    if has_row_security(client, &model.name).await? {
        differences.push("its row security policies apply to Tidegate's role".to_owned());
    }
    Ok(differences)
}

async fn has_row_security(client: &Client, name: &TableName) -> Result<bool, Failure> {
    let doing = "reading the target's catalog";
    let (schema, table) = render::target_name(name)?;
    let relation = client.query_opt(READ_RELATION, &[&schema, &table]).await.map_err(while_doing(doing))?;
    let Some(relation) = relation else { return Ok(false) };
    let oid: u32 = relation.try_get(0).map_err(while_doing(doing))?;
    let row = client.query_one(READ_ROW_SECURITY, &[&oid]).await.map_err(while_doing(doing))?;
    row.try_get(0).map_err(while_doing(doing))
}

const READ_OWNER: &str = "\
    SELECT pipeline FROM tidegate.table_state \
    WHERE target_schema = $1::text AND target_table = $2::text AND state <> 'detached'";

/// The pipeline that writes the target's table.
pub(super) async fn owner(client: &Client, schema: &str, table: &str) -> Result<Option<String>, Failure> {
    let doing = "looking for the pipeline of a table";
    let row = client.query_opt(READ_OWNER, &[&schema, &table]).await.map_err(while_doing(doing))?;
    row.map(|row| row.try_get(0)).transpose().map_err(while_doing(doing))
}

/// Names the other pipeline before the unique index would refuse the row without naming it.
async fn refuse_shared(writer: &Writer, tables: &[TableState]) -> Result<(), Failure> {
    for state in tables {
        let owner = owner(writer.client(), &state.target_schema, &state.target_table).await?;
        if let Some(other) = owner.filter(|owner| owner != writer.fence().pipeline()) {
            let detail = format!("pipeline {other:?} writes the target's table already");
            return Err(on(Halt::new(Reason::TargetPreflight, detail), state.name()));
        }
    }
    Ok(())
}

fn on(halt: Halt, name: &TableName) -> Failure {
    halt.on_table(&name.database, &name.table).into()
}

/// Names the table that a halt is about.
pub(super) fn on_name(failure: Failure, name: &TableName) -> Failure {
    match failure {
        Failure::Halt(halt) => on(*halt, name),
        retry @ Failure::Retry { .. } => retry,
    }
}
