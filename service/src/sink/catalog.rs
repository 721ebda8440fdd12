//! The target's tables: what they are, creating them, and whether they are what the models need.

use tokio_postgres::{Client, Row};

use super::checkpoint::{CommitError, Progress, commit};
use super::error::{failure, while_doing};
use super::statements;
use super::table_state::TableState;
use super::transaction::{FencedTransaction, OpError};
use super::writer::Writer;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::diff::{TargetColumn, TargetTable, UniqueIndex, check_target};
use crate::schema::phase::TablePhase;
use crate::schema::render;
use crate::schema::{TableModel, TableName};

const READ_RELATION: &str = "\
    SELECT c.oid, c.relkind, c.relpersistence \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1::text AND c.relname = $2::text";

const READ_COLUMNS: &str = "\
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
        a.atthasdef OR a.attidentity <> '', a.attgenerated <> '', a.attidentity = 'a', \
        coalesce(o.collisdeterministic, true) \
    FROM pg_attribute a LEFT JOIN pg_collation o ON o.oid = a.attcollation \
    WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

/// An index over an expression has attribute number 0 in its key and is shown without columns.
const READ_UNIQUE_INDEXES: &str = "\
    SELECT c.relname::text, \
        CASE WHEN 0 = ANY (i.indkey::int2[]) THEN '{}'::text[] ELSE ARRAY( \
            SELECT a.attname::text FROM unnest(i.indkey::int2[]) WITH ORDINALITY k (attnum, place) \
            JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
            WHERE k.place <= i.indnkeyatts ORDER BY k.place) END, \
        i.indpred IS NOT NULL, NOT i.indimmediate, i.indisvalid AND i.indisready \
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
    WHERE i.indrelid = $1::oid AND i.indisunique ORDER BY c.relname";

/// Triggers and rules that session_replication_role = replica does not silence. The rule of a
/// view is the view itself.
const READ_FIRING: &str = "\
    SELECT tgname::text FROM pg_trigger WHERE tgrelid = $1::oid AND NOT tgisinternal AND tgenabled IN ('R', 'A') \
    UNION ALL \
    SELECT rulename::text FROM pg_rewrite WHERE ev_class = $1::oid AND ev_type <> '1' AND ev_enabled IN ('R', 'A') \
    ORDER BY 1";

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
                FROM pg_rewrite r WHERE r.ev_class = c.oid)) AS signature \
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = $1::text AND c.relname = $2::text"
    };
}

/// What changes with a table's columns, unique indexes, triggers and rules: the row versions that
/// describe them. Vacuuming and analyzing write in place and leave it as it is.
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

async fn read(
    client: &Client,
    schema: &str,
    table: &str,
) -> Result<Option<TargetTable>, tokio_postgres::Error> {
    let Some(relation) = client.query_opt(READ_RELATION, &[&schema, &table]).await? else { return Ok(None) };
    let oid: u32 = relation.try_get(0)?;
    let columns = client.query(READ_COLUMNS, &[&oid]).await?;
    let unique_indexes = client.query(READ_UNIQUE_INDEXES, &[&oid]).await?;
    let firing = client.query(READ_FIRING, &[&oid]).await?;
    Ok(Some(TargetTable {
        kind: char_of(relation.try_get(1)?),
        persistence: char_of(relation.try_get(2)?),
        columns: columns.iter().map(column).collect::<Result<_, _>>()?,
        unique_indexes: unique_indexes.iter().map(unique_index).collect::<Result<_, _>>()?,
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
    })
}

fn unique_index(row: &Row) -> Result<UniqueIndex, tokio_postgres::Error> {
    Ok(UniqueIndex {
        name: row.try_get(0)?,
        columns: row.try_get(1)?,
        partial: row.try_get(2)?,
        deferrable: row.try_get(3)?,
        valid: row.try_get(4)?,
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
            Some(found) => check(client, &state.model, &found).await?,
            None => return Err(on(Halt::new(Reason::TargetDrift, "the target's table is missing"), name)),
        }
    }
    Ok(())
}

/// Checks the model's table and holds it as it is until the transaction ends: the lock is that of
/// a write. Returns what [`LOOK`] compares.
pub(super) async fn hold_fit(client: &Client, model: &TableModel) -> Result<String, Failure> {
    let doing = "locking a target table";
    let lock = statements::lock(model)?;
    client.batch_execute(&lock).await.map_err(while_doing(doing))?;
    let missing = || on(Halt::new(Reason::TargetDrift, "the target's table is missing"), &model.name);
    let found = read_table(client, &model.name).await?.ok_or_else(missing)?;
    check(client, model, &found).await?;
    let (schema, table) = render::target_name(&model.name)?;
    let row = client.query_one(SIGNATURE, &[&schema, &table]).await.map_err(while_doing(doing))?;
    row.try_get(0).map_err(while_doing(doing))
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
/// created. With `owned` its rows are those of an earlier copy by this pipeline, and go, with the
/// table where the source's definition has changed; else one that is there must be fit and empty,
/// since nothing tells its rows from the source's.
///
/// # Errors
/// `target_drift` for a table that is there and unfit or not empty, `target_preflight` without the
/// privilege to create it or when another pipeline writes it.
pub async fn begin_copy(writer: &mut Writer, state: &TableState, owned: bool) -> Result<(), Failure> {
    refuse_shared(writer, std::slice::from_ref(state)).await?;
    let mut tx = writer.begin().await.map_err(OpError::into_failure)?;
    if owned {
        clear(&mut tx, &state.model).await?;
    }
    create(&mut tx, &state.model).await?;
    commit(tx, &Progress::CopyRestart(state)).await.map_err(CommitError::into_failure)
}

/// Empties the model's table, or drops it where it is not what the model needs. Either waits for
/// every transaction that writes it: none can add rows afterwards.
async fn clear(tx: &mut FencedTransaction<'_>, model: &TableModel) -> Result<(), Failure> {
    let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
    let Some(found) = read_table(client, &model.name).await? else { return Ok(()) };
    if check_target(model, &found).is_empty() {
        let truncate = render::truncate_table(&model.name)?;
        client.batch_execute(&truncate).await.map_err(while_doing("emptying a table"))
    } else {
        let drop_table = render::drop_table(&model.name)?;
        client.batch_execute(&drop_table).await.map_err(while_doing("dropping a table"))
    }
}

/// Creates the model's table, or checks one that is there and empty. Returns the statements run.
pub(super) async fn create(tx: &mut FencedTransaction<'_>, model: &TableModel) -> Result<String, Failure> {
    let name = &model.name;
    let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
    if let Some(found) = read_table(client, name).await? {
        check(client, model, &found).await?;
        let doing = "looking for rows in a target table";
        let row = client.query_one(&statements::has_rows(model)?, &[]).await.map_err(while_doing(doing))?;
        if row.try_get(0).map_err(while_doing(doing))? {
            let detail = "the target's table was not created by this pipeline and has rows: empty or drop it";
            return Err(on(Halt::new(Reason::TargetDrift, detail), name));
        }
        return Ok(String::new());
    }
    let mut run = Vec::new();
    if !schema_exists(client, &name.database).await? {
        run.push(render::create_schema(&name.database)?);
    }
    run.push(render::create_table(model)?);
    for statement in &run {
        client.batch_execute(statement).await.map_err(|error| failure("creating a table", &error))?;
    }
    Ok(run.join(";\n"))
}

/// CREATE SCHEMA IF NOT EXISTS asks for the privilege to create even where the schema exists.
async fn schema_exists(client: &Client, schema: &str) -> Result<bool, Failure> {
    let doing = "reading the target's catalog";
    let sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)";
    let row = client.query_one(sql, &[&schema]).await.map_err(while_doing(doing))?;
    row.try_get(0).map_err(while_doing(doing))
}

async fn check(client: &Client, model: &TableModel, found: &TargetTable) -> Result<(), Failure> {
    let mut differences = check_target(model, found);
    if has_row_security(client, &model.name).await? {
        differences.push("its row security policies apply to Tidegate's role".to_owned());
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(on(Halt::new(Reason::TargetDrift, differences.join("; ")), &model.name))
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

const READ_SHARED: &str = "\
    SELECT pipeline FROM tidegate.table_state \
    WHERE pipeline <> $1::text AND target_schema = $2::text AND target_table = $3::text AND state <> 'detached'";

/// Names the other pipeline before the unique index would refuse the row without naming it.
async fn refuse_shared(writer: &Writer, tables: &[TableState]) -> Result<(), Failure> {
    let doing = "looking for other pipelines of a table";
    for state in tables {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&writer.fence().pipeline(), &state.target_schema, &state.target_table];
        let row = writer.client().query_opt(READ_SHARED, &params).await.map_err(while_doing(doing))?;
        if let Some(row) = row {
            let other: &str = row.try_get(0).map_err(while_doing(doing))?;
            let detail = format!("pipeline {other:?} writes the target's table already");
            return Err(on(Halt::new(Reason::TargetPreflight, detail), state.name()));
        }
    }
    Ok(())
}

fn on(halt: Halt, name: &TableName) -> Failure {
    halt.on_table(&name.database, &name.table).into()
}
