//! Indexes, CHECK constraints and foreign keys of the target's tables, built once the rows are there.
//!
//! Each is built in a fenced transaction of its own that also records it in `tidegate.schema_object`:
//! after a crash it is either there and recorded, or neither. What is to be built is derived from the
//! models; what is recorded is not built again, so that an operator who drops an index has dropped it.
//! PostgreSQL's refusal of one is recorded with its reason, stays a finding until a later attempt
//! succeeds, and keeps nothing else from being built.
//!
//! When:
//! * what does not refuse rows, and CHECKs, which rows of any time satisfy: once the table is copied;
//! * unique indexes: once its rows are those of one time ([`TableState::uniqueness`]);
//! * foreign keys: once both tables stream, which are then as the source was at one position.

pub(super) mod follow;

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::catalog;
use super::checkpoint::{CommitError, Progress, commit};
use super::client::Client;
use super::error::{failure, while_doing};
use super::table_state::TableState;
use super::transaction::OpError;
use super::writer::Writer;
use crate::halt::{Failure, Halt};
use crate::schema::diff::Uniqueness;
use crate::schema::names::Names;
use crate::schema::objects::{Object, ObjectKind, objects};
use crate::schema::phase::TablePhase;
use crate::schema::render::{qualified, quote_ident};
use crate::schema::{TableModel, TableName};

const DOING: &str = "reading the target's indexes and constraints";

/// What became of an object, as `tidegate.schema_object` holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectRecord {
    pub(super) table: TableName,
    pub(super) kind: ObjectKind,
    pub(super) name: String,
    pub(super) target_name: String,
    pub(super) outcome: Outcome,
    /// Why it is not simply built.
    pub(super) detail: Option<String>,
    pub(super) statement: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Built,
    /// A foreign key that holds for new rows only: there are rows that violate it.
    NotValidated,
    Failed,
}

impl Outcome {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::NotValidated => "not_validated",
            Self::Failed => "failed",
        }
    }
}

/// An object that the target lacks, or has in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectFinding {
    pub table: TableName,
    /// `index`, `check` or `foreign_key`.
    pub kind: String,
    pub name: String,
    pub detail: String,
}

pub(super) const SAVE: &str = "\
    INSERT INTO tidegate.schema_object (pipeline, source_database, source_table, kind, name, target_name, \
        outcome, detail, statement) \
    VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text) \
    ON CONFLICT (pipeline, source_database, source_table, kind, name) DO UPDATE SET \
        target_name = EXCLUDED.target_name, outcome = EXCLUDED.outcome, detail = EXCLUDED.detail, \
        statement = EXCLUDED.statement, changed_at = clock_timestamp()";

pub(super) const FORGET: &str = "\
    DELETE FROM tidegate.schema_object \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text";

const LOAD: &str = "\
    SELECT source_database, source_table, kind, name, outcome, target_name \
    FROM tidegate.schema_object WHERE pipeline = $1::text";

const FINDINGS: &str = "\
    SELECT source_database, source_table, kind, name, coalesce(detail, '') FROM tidegate.schema_object \
    WHERE pipeline = $1::text AND outcome <> 'built' ORDER BY source_database, source_table, kind, name";

/// Which objects an attempt takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Those that failed before, too, and those that hold for new rows only.
    All,
    New,
}

/// Builds what the tables lack and can have now. Returns how many were built.
///
/// # Errors
/// Failures of the target that are not its refusal of one object.
pub async fn build(writer: &mut Writer, tables: &[&TableState], attempt: Attempt) -> Result<usize, Failure> {
    let recorded = recorded(writer, attempt).await?;
    let by_name: HashMap<&TableName, &TableState> =
        tables.iter().map(|state| (state.name(), *state)).collect();
    let model = |name: &TableName| -> Option<&TableModel> {
        by_name.get(name).filter(|state| state.phase != TablePhase::Detached).map(|state| &state.model)
    };
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for state in tables.iter().filter(|state| is_copied(state)) {
        let (objects, _) = objects(&state.model, &model)?;
        for object in objects {
            if recorded.settled.contains(&key_of(&object)) || !may_be_built(&object, state, &by_name) {
                continue;
            }
            if object.kind() == ObjectKind::ForeignKey { last.push(object) } else { first.push(object) }
        }
    }
    let mut schemas: HashMap<String, Names> = HashMap::new();
    let mut built = 0;
    for object in first.iter().chain(&last) {
        if let Some(name) = recorded.partly.get(&key_of(object))
            && existing(writer.client(), object).await?.as_ref() == Some(name)
        {
            built += usize::from(validate(writer, object, name).await?);
            continue;
        }
        let database = &object.table.database;
        if !schemas.contains_key(database) {
            let relations = catalog::relations(writer.client(), database).await?;
            schemas.insert(database.clone(), relations);
        }
        if let Some(relations) = schemas.get_mut(database) {
            built += usize::from(build_one(writer, object, relations).await?);
        }
    }
    Ok(built)
}

/// What the target lacks.
pub async fn findings(client: &Client, pipeline: &str) -> Result<Vec<ObjectFinding>, Failure> {
    let rows = client.query(FINDINGS, &[&pipeline]).await.map_err(while_doing(DOING))?;
    let finding = |row: &Row| -> Result<ObjectFinding, tokio_postgres::Error> {
        let table = TableName { database: row.try_get(0)?, table: row.try_get(1)? };
        Ok(ObjectFinding { table, kind: row.try_get(2)?, name: row.try_get(3)?, detail: row.try_get(4)? })
    };
    rows.iter().map(finding).collect::<Result<_, _>>().map_err(while_doing(DOING))
}

const fn is_copied(state: &TableState) -> bool {
    matches!(state.phase, TablePhase::CatchingUp | TablePhase::Streaming)
}

fn may_be_built(object: &Object, state: &TableState, tables: &HashMap<&TableName, &TableState>) -> bool {
    let streams =
        |name: &TableName| tables.get(name).is_some_and(|state| state.phase == TablePhase::Streaming);
    match object.parent() {
        Some(parent) => state.phase == TablePhase::Streaming && streams(parent),
        None => !object.is_unique() || state.uniqueness() == Uniqueness::OfSource,
    }
}

type Key = (TableName, String, String);

fn key_of(object: &Object) -> Key {
    (object.table.clone(), object.kind().name().to_owned(), object.name.clone())
}

/// What earlier attempts have led to.
#[derive(Default)]
struct Recorded {
    /// Nothing is to be done about them.
    settled: HashSet<Key>,
    /// They hold for new rows only. With their names on the target.
    partly: HashMap<Key, String>,
}

async fn recorded(writer: &Writer, attempt: Attempt) -> Result<Recorded, Failure> {
    let rows =
        writer.client().query(LOAD, &[&writer.fence().pipeline()]).await.map_err(while_doing(DOING))?;
    let mut recorded = Recorded::default();
    for row in rows {
        let read = || -> Result<(Key, String, String), tokio_postgres::Error> {
            let table = TableName { database: row.try_get(0)?, table: row.try_get(1)? };
            Ok(((table, row.try_get(2)?, row.try_get(3)?), row.try_get(4)?, row.try_get(5)?))
        };
        let (key, outcome, target_name) = read().map_err(while_doing(DOING))?;
        if attempt == Attempt::New || outcome == Outcome::Built.name() {
            recorded.settled.insert(key);
        } else if outcome == Outcome::NotValidated.name() {
            recorded.partly.insert(key, target_name);
        }
    }
    Ok(recorded)
}

/// Lets a constraint that holds for new rows hold for all, if they allow it now: a parent's rows may
/// have come after it.
async fn validate(writer: &mut Writer, object: &Object, name: &str) -> Result<bool, Failure> {
    let statement =
        format!("ALTER TABLE {} VALIDATE CONSTRAINT {}", qualified(&object.table)?, quote_ident(name)?);
    let record = object_record(object, name, &statement, Outcome::Built, None);
    Ok(run(writer, &record).await?.is_ok())
}

fn object_record(
    object: &Object,
    target_name: &str,
    statement: &str,
    outcome: Outcome,
    detail: Option<String>,
) -> ObjectRecord {
    ObjectRecord {
        table: object.table.clone(),
        kind: object.kind(),
        name: object.name.clone(),
        target_name: target_name.to_owned(),
        outcome,
        detail,
        statement: statement.to_owned(),
    }
}

async fn build_one(writer: &mut Writer, object: &Object, relations: &mut Names) -> Result<bool, Failure> {
    let record = |target_name: &str, statement: &str, outcome, detail| {
        object_record(object, target_name, statement, outcome, detail)
    };
    if let Some(found) = existing(writer.client(), object).await? {
        save(writer, &record(&found, "", Outcome::Built, None)).await?;
        return Ok(false);
    }
    let name = object.target_name(relations);
    let statement = object.statement(&name)?;
    let built = record(&name, &statement, Outcome::Built, None);
    let Err(refusal) = run(writer, &built).await? else { return Ok(true) };
    let detail = refusal.detail.clone();
    if let Some(unvalidated) = object.unvalidated_statement(&name)? {
        let reason = format!("{detail}; it holds for new rows only, and is tried again at the next start");
        let partly = record(&name, &unvalidated, Outcome::NotValidated, Some(reason));
        if run(writer, &partly).await?.is_ok() {
            return Ok(true);
        }
    }
    save(writer, &record(&name, &statement, Outcome::Failed, Some(detail))).await?;
    Ok(false)
}

/// Runs the record's statement and saves it in one commit. The inner error is PostgreSQL's refusal.
async fn run(writer: &mut Writer, record: &ObjectRecord) -> Result<Result<(), Halt>, Failure> {
    let TableName { database, table } = &record.table;
    let label = format!("{database}.{table}");
    let mut tx = writer.begin().await.map_err(OpError::into_failure)?;
    let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
    let kind = record.kind.name();
    match client.alter(&record.statement).await {
        Ok(()) => {
            commit(tx, &Progress::Object(record)).await.map_err(CommitError::into_failure)?;
            match &record.detail {
                None => tracing::info!(table = label, kind, name = record.name, "built"),
                Some(detail) => {
                    tracing::warn!(table = label, kind, name = record.name, "built in part: {detail}")
                }
            }
            Ok(Ok(()))
        }
        Err(error) => match failure("building it", &error) {
            Failure::Halt(halt) => {
                tracing::warn!(table = label, kind, name = record.name, "not built: {}", halt.detail);
                Ok(Err(*halt))
            }
            retry @ Failure::Retry { .. } => Err(retry),
        },
    }
}

async fn save(writer: &mut Writer, record: &ObjectRecord) -> Result<(), Failure> {
    let tx = writer.begin().await.map_err(OpError::into_failure)?;
    commit(tx, &Progress::Object(record)).await.map_err(CommitError::into_failure)
}

const EXISTING_INDEX: &str = "\
    SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
    WHERE i.indrelid = to_regclass($1::text) AND c.relname IN ($2::text, $3::text) AND i.indisvalid LIMIT 1";

const EXISTING_CONSTRAINT: &str = "\
    SELECT conname::text FROM pg_constraint \
    WHERE conrelid = to_regclass($1::text) AND conname IN ($2::text, $3::text) LIMIT 1";

/// One of that name that the table has already.
async fn existing(client: &Client, object: &Object) -> Result<Option<String>, Failure> {
    let sql = if object.kind() == ObjectKind::Index { EXISTING_INDEX } else { EXISTING_CONSTRAINT };
    let (table, names) = (qualified(&object.table)?, object.candidates());
    let params: [&(dyn ToSql + Sync); 3] = [&table, &names.plain, &names.hashed];
    let row = client.query_opt(sql, &params).await.map_err(while_doing(DOING))?;
    row.map(|row| row.try_get(0)).transpose().map_err(while_doing(DOING))
}

const OWN: &str = "\
    SELECT kind, target_name FROM tidegate.schema_object \
    WHERE source_database = $1::text AND source_table = $2::text AND outcome <> 'failed' AND statement <> ''";

const FOREIGN_KEYS_TO: &str = "\
    SELECT n.nspname::text, c.relname::text, k.conname::text \
    FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
    JOIN tidegate.schema_object o ON o.source_database = n.nspname AND o.source_table = c.relname \
        AND o.target_name = k.conname AND o.kind = 'foreign_key' AND o.statement <> '' \
    WHERE k.contype = 'f' AND k.confrelid = to_regclass($1::text) AND k.conrelid <> k.confrelid";

const FORGET_ONE: &str = "\
    DELETE FROM tidegate.schema_object \
    WHERE source_database = $1::text AND source_table = $2::text AND target_name = $3::text AND kind = 'foreign_key'";

/// Takes from a table what was built for it, so that it can be copied anew, and the foreign keys that
/// point to it, so that it can be emptied. All are built again when its rows are there. What others
/// have built stays.
pub(super) async fn drop_objects(client: &Client, table: &TableName) -> Result<(), Failure> {
    let doing = "dropping what was built for a table";
    let name = qualified(table)?;
    for row in client.query(FOREIGN_KEYS_TO, &[&name]).await.map_err(while_doing(doing))? {
        let read = |at| row.try_get::<_, String>(at).map_err(while_doing(doing));
        let child = TableName { database: read(0)?, table: read(1)? };
        let constraint = read(2)?;
        drop_constraint(client, &child, &constraint).await?;
        client
            .execute(FORGET_ONE, &[&child.database, &child.table, &constraint])
            .await
            .map_err(while_doing(doing))?;
    }
    for row in client.query(OWN, &[&table.database, &table.table]).await.map_err(while_doing(doing))? {
        let kind: String = row.try_get(0).map_err(while_doing(doing))?;
        let target: String = row.try_get(1).map_err(while_doing(doing))?;
        if kind == ObjectKind::Index.name() {
            let sql =
                format!("DROP INDEX IF EXISTS {}.{}", quote_ident(&table.database)?, quote_ident(&target)?);
            client.alter(&sql).await.map_err(while_doing(doing))?;
        } else {
            drop_constraint(client, table, &target).await?;
        }
    }
    Ok(())
}

async fn drop_constraint(client: &Client, table: &TableName, name: &str) -> Result<(), Failure> {
    let sql = format!("ALTER TABLE {} DROP CONSTRAINT IF EXISTS {}", qualified(table)?, quote_ident(name)?);
    client.alter(&sql).await.map_err(while_doing("dropping a constraint"))
}
