//! Indexes, CHECK constraints and foreign keys of the target's tables, built once the rows are there.
//!
//! Each is built in a fenced transaction of its own that also records it in `tidegate.schema_object`:
//! after a crash it is either there and recorded, or neither. What is to be built is derived from the
//! models; what is recorded is not built again, so that an operator who drops an index has dropped it.
//! PostgreSQL's refusal of one is recorded with its reason, stays a finding until a later attempt
//! succeeds, and keeps nothing else from being built. So does a lock that others hold ([`build`]).

mod build;
pub(super) mod follow;

use tokio_postgres::Row;

pub use build::{Attempt, Built, build};

use super::client::Client;
use super::error::while_doing;
use super::table_state::TableState;
use crate::halt::Failure;
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
}

impl Outcome {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Built => "built",
            Self::NotValidated => "not_validated",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
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
