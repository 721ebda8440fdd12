//! Building what the tables lack.
//!
//! When:
//! * what does not refuse rows, and CHECKs, which rows of any time satisfy: once the table is copied;
//! * unique indexes: once its rows are those of one time ([`TableState::uniqueness`]);
//! * foreign keys: once both tables stream, which are then as the source was at one position.
//!
//! Whoever waits for a lock lets everyone queue behind who wants one that conflicts with it. No
//! statement here waits longer than `ddl.lock_wait_timeout`; what could not be had is recorded as
//! waiting, the stream goes on, and a later attempt follows. What the statements lock, once they have
//! it, for as long as they read a table (PostgreSQL manual, "Explicit Locking"):
//!
//! | statement | lock | readers |
//! |---|---|---|
//! | `CREATE INDEX` | SHARE | pass |
//! | `ADD FOREIGN KEY`, on both tables | SHARE ROW EXCLUSIVE | pass |
//! | `ADD CHECK … NOT VALID` | ACCESS EXCLUSIVE, and nothing is read | wait for a moment |
//! | `VALIDATE CONSTRAINT` | SHARE UPDATE EXCLUSIVE | pass |
//! | `ADD PRIMARY KEY USING INDEX` | ACCESS EXCLUSIVE, and nothing is read | wait for a moment |

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::super::catalog;
use super::super::checkpoint::{CommitError, Progress, commit};
use super::super::client::Client;
use super::super::error::{failure, while_doing};
use super::super::transaction::OpError;
use super::super::writer::Writer;
use super::recorded::{Recorded, Seen, key_of};
use super::{DOING, ObjectRecord, Outcome, TableState, is_copied};
use crate::halt::Failure;
use crate::schema::diff::Uniqueness;
use crate::schema::names::Names;
use crate::schema::objects::{Object, ObjectKind, objects};
use crate::schema::phase::TablePhase;
use crate::schema::render::{qualified, quote_ident};
use crate::schema::{TableModel, TableName};

const BUSY: &str =
    "others keep its table, or that which it references, locked; it is tried again while the stream goes on";
const NOT_READ: &str = "it holds for new rows only until all others have been looked at";
const GONE: &str = "it was built and is not there any more: dropped or renamed by hand, and not built again before its \
    table is copied again";
const FOR_NEW_ROWS: &str = "it holds for new rows only, and is tried again at the next start";

/// Which objects an attempt takes on, beside those that wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Those that failed before, too, and those that hold for new rows only.
    All,
    New,
}

/// What an attempt has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Built {
    /// How many objects were built.
    pub built: usize,
    /// How long locks were waited for that others kept: some objects have to be tried again.
    pub waited: Option<Duration>,
}

/// Builds what the tables lack and can have now, waiting for no lock longer than `lock_timeout`.
///
/// # Errors
/// Failures of the target that are not its refusal of one object.
pub async fn build(
    writer: &mut Writer,
    tables: &[&TableState],
    attempt: Attempt,
    lock_timeout: Duration,
) -> Result<Built, Failure> {
    let recorded = Recorded::load(writer, attempt).await?;
    let by_name: HashMap<&TableName, &TableState> =
        tables.iter().map(|state| (state.name(), *state)).collect();
    let model = |name: &TableName| -> Option<&TableModel> {
        by_name.get(name).filter(|state| state.phase != TablePhase::Detached).map(|state| &state.model)
    };
    let (mut first, mut last, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for state in tables.iter().filter(|state| is_copied(state)) {
        let (objects, _) = objects(&state.model, &model)?;
        for object in objects {
            if let Some(found) = recorded.seen.get(&key_of(&object)) {
                seen.push((object, found.clone()));
                continue;
            }
            if recorded.settled.contains(&key_of(&object)) || !may_be_built(&object, state, &by_name) {
                continue;
            }
            if object.kind() == ObjectKind::ForeignKey { last.push(object) } else { first.push(object) }
        }
    }
    let (relations, busy, done) = (HashMap::new(), HashSet::new(), Built::default());
    let mut builder = Builder { writer, recorded, relations, lock_timeout, busy, done };
    for (object, found) in &seen {
        builder.save_seen(object, found).await?;
    }
    for object in first.iter().chain(&last) {
        builder.take_on(object).await?;
    }
    Ok(builder.done)
}

fn may_be_built(object: &Object, state: &TableState, tables: &HashMap<&TableName, &TableState>) -> bool {
    let streams =
        |name: &TableName| tables.get(name).is_some_and(|state| state.phase == TablePhase::Streaming);
    match object.parent() {
        Some(parent) => state.phase == TablePhase::Streaming && streams(parent),
        None => !object.is_unique() || state.uniqueness() == Uniqueness::OfSource,
    }
}

/// What became of a statement.
enum Ran {
    Done,
    /// PostgreSQL refuses it, for this reason.
    Refused(String),
    /// Others kept a lock.
    Locked,
}

/// One attempt.
struct Builder<'a> {
    writer: &'a mut Writer,
    recorded: Recorded,
    /// The names that are taken, by schema.
    relations: HashMap<String, Names>,
    lock_timeout: Duration,
    /// Tables that others keep locked: no second statement waits for them.
    busy: HashSet<TableName>,
    done: Built,
}

impl Builder<'_> {
    async fn take_on(&mut self, object: &Object) -> Result<(), Failure> {
        let begun = self.recorded.begun.get(&key_of(object));
        let is_added = begun.is_some_and(|begun| begun.is_added);
        match existing(self.writer.client(), object).await? {
            Some(name) if is_added => self.validate(object, &name).await,
            Some(name) => self.save(&record(object, &name, String::new(), Outcome::Built, None)).await,
            None => self.add(object).await,
        }
    }

    /// Records what a hand has done to it.
    async fn save_seen(&mut self, object: &Object, found: &Seen) -> Result<(), Failure> {
        let save = |name: &str, statement: &str, outcome, detail| {
            record(object, name, statement.to_owned(), outcome, detail)
        };
        let record = match found {
            Seen::Gone { target_name, statement } => {
                // What went with its parent is the parent's to bring back.
                if !has_parent(self.writer.client(), object).await? {
                    return Ok(());
                }
                let TableName { database, table } = &object.table;
                let (label, kind) = (format!("{database}.{table}"), object.kind().name());
                tracing::warn!(table = label, kind, name = object.name, "{GONE}");
                save(target_name, statement, Outcome::Dropped, Some(GONE))
            }
            Seen::Back { target_name, statement, valid: true } => {
                save(target_name, statement, Outcome::Built, None)
            }
            Seen::Back { target_name, statement, valid: false } => {
                save(target_name, statement, Outcome::NotValidated, Some(FOR_NEW_ROWS))
            }
        };
        self.save(&record).await
    }

    async fn add(&mut self, object: &Object) -> Result<(), Failure> {
        let name = self.free_name(object).await?;
        if self.is_busy(object) {
            return self.put_off(object, &name, String::new()).await;
        }
        let statement = object.statement(&name)?;
        let unvalidated = object.unvalidated_statement(&name)?;
        if let (ObjectKind::Check, Some(unvalidated)) = (object.kind(), &unvalidated) {
            let begun = record(object, &name, unvalidated.clone(), Outcome::NotValidated, Some(NOT_READ));
            return match self.run(object, unvalidated, &begun).await? {
                Ran::Done => self.validate(object, &name).await,
                Ran::Refused(detail) => {
                    self.save(&record(object, &name, statement, Outcome::Failed, Some(&detail))).await
                }
                Ran::Locked => self.put_off(object, &name, String::new()).await,
            };
        }
        let built = record(object, &name, statement.clone(), Outcome::Built, None);
        let detail = match self.run(object, &statement, &built).await? {
            Ran::Done => {
                self.done.built += 1;
                return Ok(());
            }
            Ran::Locked => return self.put_off(object, &name, String::new()).await,
            Ran::Refused(detail) => detail,
        };
        if let Some(unvalidated) = unvalidated {
            let reason = format!("{detail}; {FOR_NEW_ROWS}");
            let partly = record(object, &name, unvalidated.clone(), Outcome::NotValidated, Some(&reason));
            match self.run(object, &unvalidated, &partly).await? {
                Ran::Done => {
                    self.done.built += 1;
                    return Ok(());
                }
                Ran::Locked => return self.put_off(object, &name, String::new()).await,
                Ran::Refused(_) => {}
            }
        }
        self.save(&record(object, &name, statement, Outcome::Failed, Some(&detail))).await
    }

    /// Lets a constraint that holds for new rows hold for all, if they allow it now: a parent's rows may
    /// have come after it.
    async fn validate(&mut self, object: &Object, name: &str) -> Result<(), Failure> {
        let added = object.unvalidated_statement(name)?.unwrap_or_default();
        if self.is_busy(object) {
            return self.put_off(object, name, added).await;
        }
        let (table, constraint) = (qualified(&object.table)?, quote_ident(name)?);
        let validate = format!("ALTER TABLE {table} VALIDATE CONSTRAINT {constraint}");
        let built = record(object, name, object.statement(name)?, Outcome::Built, None);
        match self.run(object, &validate, &built).await? {
            Ran::Done => {
                self.done.built += 1;
                Ok(())
            }
            Ran::Locked => self.put_off(object, name, added).await,
            Ran::Refused(detail) => {
                let reason = format!("{detail}; {FOR_NEW_ROWS}");
                self.save(&record(object, name, added, Outcome::NotValidated, Some(&reason))).await
            }
        }
    }

    async fn free_name(&mut self, object: &Object) -> Result<String, Failure> {
        let schema = &object.table.database;
        if !self.relations.contains_key(schema) {
            let relations = catalog::relations(self.writer.client(), schema).await?;
            self.relations.insert(schema.clone(), relations);
        }
        Ok(object.target_name(self.relations.entry(schema.clone()).or_default()))
    }

    fn is_busy(&self, object: &Object) -> bool {
        self.busy.contains(&object.table) || object.parent().is_some_and(|parent| self.busy.contains(parent))
    }

    /// Records that it waits. `added` is the statement of what there is of it, empty for nothing.
    async fn put_off(&mut self, object: &Object, name: &str, added: String) -> Result<(), Failure> {
        let key = key_of(object);
        if self.recorded.begun.get(&key).is_some_and(|begun| begun.waits) {
            return Ok(());
        }
        let TableName { database, table } = &object.table;
        let (label, kind) = (format!("{database}.{table}"), object.kind().name());
        tracing::info!(table = label, kind, name = object.name, "waits: {BUSY}");
        self.save(&record(object, name, added, Outcome::Waiting, Some(BUSY))).await
    }

    /// Runs a statement and saves the record in one commit.
    async fn run(&mut self, object: &Object, sql: &str, record: &ObjectRecord) -> Result<Ran, Failure> {
        let TableName { database, table } = &record.table;
        let (label, kind) = (format!("{database}.{table}"), record.kind.name());
        let mut tx = self.writer.begin().await.map_err(OpError::into_failure)?;
        let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
        let bound = format!("SET LOCAL lock_timeout = {}", self.lock_timeout.as_millis());
        client.batch_execute(&bound).await.map_err(while_doing("opening a transaction"))?;
        let started = Instant::now();
        let Err(error) = client.alter(sql).await else {
            commit(tx, &Progress::Object(record)).await.map_err(CommitError::into_failure)?;
            match &record.detail {
                None => tracing::info!(table = label, kind, name = record.name, "built"),
                Some(detail) => {
                    tracing::info!(table = label, kind, name = record.name, "built in part: {detail}");
                }
            }
            return Ok(Ran::Done);
        };
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            *self.done.waited.get_or_insert_default() += started.elapsed();
            self.busy.insert(object.table.clone());
            self.busy.extend(object.parent().cloned());
            return Ok(Ran::Locked);
        }
        match failure("building it", &error) {
            Failure::Halt(halt) => {
                tracing::warn!(table = label, kind, name = record.name, "not built: {}", halt.detail);
                Ok(Ran::Refused(halt.detail))
            }
            retry @ Failure::Retry { .. } => Err(retry),
        }
    }

    async fn save(&mut self, record: &ObjectRecord) -> Result<(), Failure> {
        let tx = self.writer.begin().await.map_err(OpError::into_failure)?;
        commit(tx, &Progress::Object(record)).await.map_err(CommitError::into_failure)
    }
}

fn record(
    object: &Object,
    target_name: &str,
    statement: String,
    outcome: Outcome,
    detail: Option<&str>,
) -> ObjectRecord {
    ObjectRecord {
        table: object.table.clone(),
        kind: object.kind(),
        name: object.name.clone(),
        target_name: target_name.to_owned(),
        outcome,
        detail: detail.map(str::to_owned),
        statement,
    }
}

/// Whether the table that a foreign key references is there; nothing else has a parent to lose.
async fn has_parent(client: &Client, object: &Object) -> Result<bool, Failure> {
    let Some(parent) = object.parent() else { return Ok(true) };
    let exists = "SELECT to_regclass($1::text) IS NOT NULL";
    let row = client.query_one(exists, &[&qualified(parent)?]).await.map_err(while_doing(DOING))?;
    row.try_get(0).map_err(while_doing(DOING))
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
