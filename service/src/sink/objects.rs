//! Indexes, CHECK constraints and foreign keys of the target's tables, built once the rows are there.
//!
//! Each is built in a fenced transaction of its own that also records it in `tidegate.schema_object`:
//! after a crash it is either there and recorded, or neither. What is to be built is derived from the
//! models; what is recorded is not built again. What is on record and no longer in the catalog was dropped by
//! somebody, who may have meant it: that is recorded and told of, and it stays dropped until its table is copied
//! again. A foreign key that went with a parent which is copied again comes back with it.
//! PostgreSQL's refusal of one is recorded with its reason, stays a finding until a later attempt
//! succeeds, and keeps nothing else from being built. So does a lock that others hold ([`build`]).

mod build;
pub(super) mod follow;
mod recorded;

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

pub use build::{Attempt, Built, build};

use super::client::Client;
use super::error::{failure, while_doing};
use super::table_state::TableState;
use crate::halt::{Failure, Halt};
use crate::schema::TableName;
use crate::schema::objects::ObjectKind;
use crate::schema::phase::TablePhase;
use crate::schema::render::{qualified, quote_ident};

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
    /// A constraint that holds for new rows only: others violate it, or were not looked at yet.
    NotValidated,
    /// Others keep a table of it locked.
    Waiting,
    Failed,
    /// It was built, and is there no more.
    Dropped,
}

impl Outcome {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::NotValidated => "not_validated",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// An object that the target lacks, or has in part, and why.
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

const FINDINGS: &str = "\
    SELECT source_database, source_table, kind, name, coalesce(detail, '') FROM tidegate.schema_object \
    WHERE pipeline = $1::text AND outcome <> 'built' ORDER BY source_database, source_table, kind, name";

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

/// Forgets the foreign keys to a table that went with it when somebody dropped it, so that they are built
/// again when it has been copied.
pub(super) const FORGET_LOST_FOREIGN_KEYS: &str = "\
    DELETE FROM tidegate.schema_object o \
    USING tidegate.table_state s, jsonb_array_elements(coalesce(s.model #> '{details,foreign_keys}', '[]')) f (key) \
    WHERE o.pipeline = $1::text AND o.kind = 'foreign_key' AND o.outcome <> 'dropped' AND s.pipeline = o.pipeline \
        AND s.source_database = o.source_database AND s.source_table = o.source_table \
        AND f.key ->> 'name' = o.name AND f.key #>> '{parent,database}' = $2::text \
        AND f.key #>> '{parent,table}' = $3::text AND NOT EXISTS ( \
            SELECT FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid \
            JOIN pg_namespace n ON n.oid = c.relnamespace \
            WHERE n.nspname = o.source_database AND c.relname = o.source_table AND k.conname = o.target_name)";

/// With the parent of a foreign key.
const OWN: &str = "\
    SELECT o.kind, o.target_name, n.nspname::text, c.relname::text FROM tidegate.schema_object o \
    LEFT JOIN (pg_constraint k JOIN pg_class c ON c.oid = k.confrelid JOIN pg_namespace n ON n.oid = c.relnamespace) \
        ON o.kind = 'foreign_key' AND k.conrelid = to_regclass($3::text) AND k.conname = o.target_name \
    WHERE o.source_database = $1::text AND o.source_table = $2::text AND o.outcome <> 'failed' AND o.statement <> ''";

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
/// have built stays. Answers which table others keep locked, if one has kept it from that.
pub(super) async fn drop_objects(client: &Client, table: &TableName) -> Result<Option<TableName>, Failure> {
    let doing = "dropping what was built for a table";
    let name = qualified(table)?;
    for row in client.query(FOREIGN_KEYS_TO, &[&name]).await.map_err(while_doing(doing))? {
        let read = |at| row.try_get::<_, String>(at).map_err(while_doing(doing));
        let child = TableName { database: read(0)?, table: read(1)? };
        let constraint = read(2)?;
        if !run(client, &drop_constraint(&child, &constraint)?).await? {
            return Ok(Some(child));
        }
        client
            .execute(FORGET_ONE, &[&child.database, &child.table, &constraint])
            .await
            .map_err(while_doing(doing))?;
    }
    let own: [&(dyn ToSql + Sync); 3] = [&table.database, &table.table, &name];
    for row in client.query(OWN, &own).await.map_err(while_doing(doing))? {
        let read = |at| row.try_get::<_, Option<String>>(at).map_err(while_doing(doing));
        let (kind, target) = (read(0)?.unwrap_or_default(), read(1)?.unwrap_or_default());
        let sql = if kind == ObjectKind::Index.name() {
            format!("DROP INDEX IF EXISTS {}.{}", quote_ident(&table.database)?, quote_ident(&target)?)
        } else {
            drop_constraint(table, &target)?
        };
        if !run(client, &sql).await? {
            let parent = read(2)?.zip(read(3)?).map(|(database, table)| TableName { database, table });
            return Ok(Some(parent.unwrap_or_else(|| table.clone())));
        }
    }
    Ok(None)
}

fn drop_constraint(table: &TableName, name: &str) -> Result<String, Halt> {
    Ok(format!("ALTER TABLE {} DROP CONSTRAINT IF EXISTS {}", qualified(table)?, quote_ident(name)?))
}

/// Answers whether its locks could be had.
async fn run(client: &Client, sql: &str) -> Result<bool, Failure> {
    match client.alter(sql).await {
        Ok(()) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
        Err(error) => Err(failure("dropping what was built for a table", &error)),
    }
}
