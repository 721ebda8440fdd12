//! Schema changes: each is a batch of its own, one transaction of the target with the change, its
//! record, the tables' states and the position.
//!
//! The target's tables are locked before anything is changed, and not waited for: a lock that
//! queues behind a long query holds up every reader that comes after it. Who calls tries again.

use std::collections::{BTreeMap, HashMap};

use futures_util::TryStreamExt;
use tokio_postgres::error::SqlState;

use super::super::catalog;
use super::super::checkpoint::{Batch, CommitError, Progress as Written, commit};
use super::super::client::{Client, Error};
use super::super::conversions;
use super::super::dependents;
use super::super::error::{failure, while_doing};
use super::super::objects::follow::{Following, States, follow};
use super::super::params::Params;
use super::super::schema_change::{Action, AppliedChange, Outcome, decide, spare_kept_rows};
use super::super::statements;
use super::super::table_state::{Ownership, TableState};
use super::super::tables::Tables;
use super::super::transaction::{FencedTransaction, OpError};
use super::super::vacate::vacate;
use super::{Applier, Pause, Progress, moves, on_row};
use crate::convert::{ColumnPlan, Role};
use crate::fold::unit::SchemaChange;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::alter::{Altered, TargetChange};
use crate::schema::diff::Uniqueness;
use crate::schema::phase::TablePhase;
use crate::schema::policy::ColumnPolicies;
use crate::schema::render::{self, Key, change};
use crate::schema::{Column, TableModel, TableName};

/// Why a schema change was not applied.
enum Undone {
    /// Others use this table of the target.
    Locked(TableName),
    /// The target refused to change this table in place.
    Refused(TableName),
    Failed(Failure),
}

impl From<Failure> for Undone {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Halt> for Undone {
    fn from(halt: Halt) -> Self {
        Self::Failed(halt.into())
    }
}

/// What was done on the target.
#[derive(Default)]
struct Done {
    statements: BTreeMap<TableName, Vec<String>>,
    created: HashMap<TableName, (TableModel, Ownership)>,
}

impl Done {
    fn add(&mut self, table: &TableName, statements: impl IntoIterator<Item = String>) {
        self.statements.entry(table.clone()).or_default().extend(statements);
    }
}

impl Applier {
    pub(super) async fn apply_schema_change(
        &mut self,
        change: &SchemaChange,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let mut actions = decide(change, &self.ddl, &self.filter, &self.types, &self.tables)?;
        if let Some(name) = self.unannounced(&actions) {
            progress.pause = Some(Pause::WantsModel(name.clone()));
            return Ok(());
        }
        loop {
            match self.carry_out(change, &actions, progress).await {
                Ok(()) => return Ok(()),
                Err(Undone::Locked(table)) => {
                    progress.pause = Some(Pause::Locked(table));
                    return Ok(());
                }
                Err(Undone::Refused(refused)) => {
                    give_up_altering(&mut actions, &refused);
                    spare_kept_rows(change, &actions, &self.tables)?;
                }
                Err(Undone::Failed(mut failure)) => {
                    for action in &actions {
                        failure = dependents::named(self.writer.client(), failure, action.table()).await?;
                    }
                    return Err(on_row(failure, Some(&change.gtid), change.statement.tables.first()));
                }
            }
        }
    }

    /// A table that the actions create and whose definition was not announced.
    fn unannounced<'a>(&self, actions: &'a [Action]) -> Option<&'a TableName> {
        actions.iter().find_map(|action| match action {
            Action::Create(name) if self.announced.as_ref().is_none_or(|(known, _)| known != name) => {
                Some(name)
            }
            _ => None,
        })
    }

    /// A table that was created with the source's later definition turns out to have had another
    /// one: it is copied. Any other failure stands.
    pub(super) async fn copy_provisional(
        &mut self,
        failure: Failure,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let Failure::Halt(halt) = &failure else { return Err(failure) };
        let is_meant = |state: &&TableState| {
            let TableName { database, table } = state.name();
            let may_be_copied = state.provisional && !state.model.details.target_keeps_rows;
            may_be_copied && halt.table.as_deref() == Some(&format!("{database}.{table}"))
        };
        let Some(state) = self.tables.states().find(is_meant) else { return Err(failure) };
        if halt.reason != Reason::SchemaDrift {
            return Err(failure);
        }
        let state = TableState {
            phase: TablePhase::Resyncing,
            snapshot_set: None,
            landmarks: Vec::new(),
            converge_set: None,
            provisional: false,
            ..state.clone()
        };
        tracing::info!(table = state.target(), "to be copied: it was created with another definition");
        self.writer.save_tables(std::slice::from_ref(&state)).await?;
        progress.changed.push(state.name().clone());
        progress.pause = Some(Pause::NeedsCopy);
        self.tables.put(state);
        Ok(())
    }

    async fn carry_out(
        &mut self,
        change: &SchemaChange,
        actions: &[Action],
        progress: &mut Progress,
    ) -> Result<(), Undone> {
        let mut position = self.position.clone();
        position.advance_past(change);
        let batch = self.writer.batch(&position);
        let mut tx = self.writer.begin().await.map_err(OpError::into_failure)?;
        let lock_timeout = self.ddl.lock_wait_timeout.as_millis();
        let announced = self.announced.as_ref();
        let following = prepare(&mut tx, actions, &self.tables, announced, lock_timeout).await?;
        let mut done = on_target(&mut tx, actions, announced).await?;
        let pipeline = tx.pipeline().to_owned();
        let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
        for (table, statement) in following.rename(client, &pipeline).await? {
            done.add(&table, [statement]);
        }
        let created = |name: &TableName| done.created.get(name).cloned();
        let mut outcome = Outcome::of(actions, &self.tables, created)?;
        follow_conversions(client, &pipeline, actions, &outcome).await?;
        for state in outcome.saved.iter_mut().filter(|state| state.has_converged(&position)) {
            state.phase = TablePhase::Streaming;
        }
        let is_touched = |name: &TableName| {
            outcome.removed.contains(name) || outcome.saved.iter().any(|state| state.name() == name)
        };
        let mut streaming = self.tables.converged(&position);
        streaming.retain(|name| !is_touched(name));
        let changes = records(change, done.statements);
        let batch = Batch {
            streaming: &streaming,
            removed: &outcome.removed,
            tables: &outcome.saved,
            changes: &changes,
            ..batch
        };
        commit(tx, &Written::Batch(&batch)).await.map_err(CommitError::into_failure)?;
        self.schema_changed(actions, outcome, progress);
        self.tables.mark_streaming(&streaming);
        self.committed(position, streaming, 1, progress);
        Ok(())
    }

    fn schema_changed(&mut self, actions: &[Action], outcome: Outcome, progress: &mut Progress) {
        for action in actions {
            let TableName { database, table } = action.table();
            let label = format!("{database}.{table}");
            match action {
                Action::Copy { why, .. } => {
                    tracing::info!(table = label, why, "schema change: {}", action.name());
                }
                _ => tracing::info!(table = label, "schema change: {}", action.name()),
            }
            if let Action::Empty(name) = action
                && let Some(state) =
                    self.tables.find(&name.database, &name.table).and_then(|i| self.tables.get(i))
            {
                let state = state.state.clone();
                self.tables.put(state);
            }
        }
        self.announced = None;
        let is_gone = |name: &TableName| {
            outcome.removed.contains(name) && outcome.saved.iter().all(|state| state.name() != name)
        };
        let touched = actions.iter().map(Action::table).chain(outcome.saved.iter().map(TableState::name));
        for name in touched.filter(|name| !is_gone(name)) {
            if !progress.redefined.contains(name) {
                progress.redefined.push(name.clone());
            }
        }
        if outcome.needs_copy() {
            progress.pause = Some(Pause::NeedsCopy);
        }
        for name in outcome.removed {
            self.tables.remove(&name);
            self.presented.iter_mut().for_each(|presented| presented.forget(&name));
            progress.removed.push(name);
        }
        for state in outcome.saved {
            progress.removed.retain(|name| name != state.name());
            progress.changed.push(state.name().clone());
            self.tables.put(state);
        }
    }
}

/// The ledger goes with the tables and columns that it is about.
async fn follow_conversions(
    client: &Client,
    pipeline: &str,
    actions: &[Action],
    outcome: &Outcome,
) -> Result<(), Failure> {
    for action in actions {
        if let Action::Empty(TableName { database, table }) = action {
            let emptied = client.execute(conversions::EMPTIED, &[&pipeline, database, table]).await;
            emptied.map_err(while_doing("recording conversions"))?;
        }
    }
    let Outcome { removed, saved, renamings } = outcome;
    conversions::follow(client, pipeline, removed, renamings, saved).await
}

/// The target refused to alter the table, as where it is not the pipeline's own: it is copied.
fn give_up_altering(actions: &mut Vec<Action>, refused: &TableName) {
    let moved = actions.iter().find_map(|action| match action {
        Action::Move { from, to } if from == refused => Some(to.clone()),
        _ => None,
    });
    actions.retain(|action| !matches!(action, Action::Alter { table, .. } if table == refused));
    let table = moved.unwrap_or_else(|| refused.clone());
    actions.push(Action::Copy { table, why: "the target's table could not be changed in place" });
}

/// One record a table: its statements, in order.
fn records(change: &SchemaChange, statements: BTreeMap<TableName, Vec<String>>) -> Vec<AppliedChange> {
    let record = |(table, statements): (TableName, Vec<String>)| AppliedChange {
        table,
        gtid: change.gtid.clone(),
        kind: change.statement.kind.name(),
        statement: statements.join(";\n"),
    };
    statements.into_iter().map(record).collect()
}

/// Locks the tables that the actions change, and takes from them what was built and does not stay.
async fn prepare(
    tx: &mut FencedTransaction<'_>,
    actions: &[Action],
    tables: &Tables,
    announced: Option<&(TableName, Option<TableModel>)>,
    lock_timeout: u128,
) -> Result<Following, Undone> {
    let pipeline = tx.pipeline().to_owned();
    let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
    let settings = format!("SET LOCAL lock_timeout = {lock_timeout}; SET LOCAL DateStyle = 'ISO'");
    client.batch_execute(&settings).await.map_err(while_doing("opening a transaction"))?;
    for action in actions {
        lock(client, action).await?;
        if let Action::Move { to, .. } = action {
            vacate(client, to).await?;
        }
    }
    moves::clear_the_way(client, actions).await?;
    let created = |name: &TableName| {
        let (_, model) = announced.filter(|(known, _)| known == name)?;
        Some((model.clone()?, Ownership::Created))
    };
    let outcome = Outcome::of(actions, tables, created)?;
    let goes = |name: &TableName| {
        outcome.removed.contains(name) && outcome.renamings.iter().all(|renaming| renaming.from != *name)
    };
    let before = tables.states().filter(|state| !goes(state.name())).map(by_name).collect();
    let stays = |state: &&TableState| !outcome.removed.contains(state.name());
    let mut after: States<'_> = tables.states().filter(stays).map(by_name).collect();
    after.extend(outcome.saved.iter().map(by_name));
    let following = follow(client, &pipeline, &before, &after, &outcome.renamings).await?;
    following.drop_objects(client, &pipeline).await.map_err(|(table, error)| locked(&error, &table))?;
    Ok(following)
}

/// Does on the target what the actions say, within the transaction.
async fn on_target(
    tx: &mut FencedTransaction<'_>,
    actions: &[Action],
    announced: Option<&(TableName, Option<TableModel>)>,
) -> Result<Done, Undone> {
    let mut done = Done::default();
    let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
    for action in actions {
        let table = action.table();
        match action {
            Action::Drop(name) => {
                let statement = catalog::drop_table(client, name).await?;
                done.add(table, [statement]);
            }
            Action::Empty(name) => {
                let statement = catalog::empty(client, name).await?;
                done.add(table, [statement]);
            }
            Action::Alter { altered, .. } => {
                let statements = alter(client, altered).await?;
                done.add(table, statements);
            }
            Action::Create(name) => {
                let model = announced.filter(|(known, _)| known == name).and_then(|(_, model)| model.clone());
                if let Some(model) = model {
                    let created = catalog::create(tx, &model, Key::Included, Uniqueness::OfKey).await?;
                    done.add(table, [created.statements]);
                    done.created.insert(name.clone(), (model, created.ownership));
                }
            }
            Action::Move { .. } => {}
            Action::Forget(_)
            | Action::Detach(_)
            | Action::Release(_)
            | Action::Copy { .. }
            | Action::Keep(_)
            | Action::Note(_) => {
                done.add(table, []);
            }
        }
    }
    for (table, statements) in moves::move_tables(client, actions).await? {
        done.add(&table, statements);
    }
    Ok(done)
}

/// Takes the lock that the action needs, or says who is in the way.
async fn lock(client: &Client, action: &Action) -> Result<(), Undone> {
    let (Action::Drop(name)
    | Action::Empty(name)
    | Action::Alter { table: name, .. }
    | Action::Move { from: name, .. }) = action
    else {
        return Ok(());
    };
    if catalog::read_table(client, name).await?.is_none() {
        if matches!(action, Action::Drop(_)) {
            return Ok(());
        }
        let halt = Halt::new(Reason::TargetDrift, "the target's table is missing");
        return Err(halt.on_table(&name.database, &name.table).into());
    }
    client.batch_execute(&statements::lock_whole(name)?).await.map_err(|error| locked(&error, name))
}

/// What an error means while locks are taken.
fn locked(error: &Error, name: &TableName) -> Undone {
    if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
        return Undone::Locked(name.clone());
    }
    catalog::on_name(failure("locking a target table", error), name).into()
}

const fn by_name(state: &TableState) -> (&TableName, &TableState) {
    (state.name(), state)
}

/// What of the target an ALTER TABLE needs.
#[derive(Default)]
struct Facts {
    fills: HashMap<String, String>,
    checks: HashMap<String, Vec<String>>,
}

impl change::Target for Facts {
    fn fill(&self, column: &str) -> Option<&str> {
        self.fills.get(column).map(String::as_str)
    }

    fn label_checks(&self, column: &str) -> &[String] {
        self.checks.get(column).map_or(&[], Vec::as_slice)
    }
}

async fn alter(client: &Client, altered: &Altered) -> Result<Vec<String>, Undone> {
    let name = &altered.model.name;
    let mut facts = Facts::default();
    for change in &altered.changes {
        match change {
            TargetChange::AddColumn { column, fill, .. } => {
                let literal = literal(client, name, column, fill.cell()).await?;
                facts.fills.extend(literal.map(|literal| (column.name.clone(), literal)));
            }
            TargetChange::SetLabels { column } => {
                facts.checks.insert(column.clone(), label_checks(client, name, column).await?);
            }
            _ => {}
        }
    }
    let statements = change::alter_table(altered, &facts)?;
    for statement in &statements {
        client.alter(statement).await.map_err(|error| not_altered(&error, name))?;
    }
    Ok(statements)
}

/// What a refusal to alter means: something depends on the column, a value is in the way of it, or
/// the connection is at fault.
fn not_altered(error: &Error, name: &TableName) -> Undone {
    let depends = [&SqlState::DEPENDENT_OBJECTS_STILL_EXIST, &SqlState::FEATURE_NOT_SUPPORTED];
    match error.code() {
        Some(code) if depends.contains(&code) => {
            let detail = format!("altering a table: {}", super::super::error::redact(error));
            let halt = Halt::new(Reason::TargetDependency, detail);
            halt.on_table(&name.database, &name.table).into()
        }
        _ => match failure("altering a table", error) {
            Failure::Halt(_) => Undone::Refused(name.clone()),
            retry @ Failure::Retry { .. } => retry.into(),
        },
    }
}

/// The value as an SQL literal of the column's type, made by the target from its binary form:
/// one conversion for all ways of a value. A value that can't be converted leaves the column to the
/// copy.
async fn literal(
    client: &Client,
    name: &TableName,
    column: &Column,
    cell: crate::binlog::cell::Cell<'_>,
) -> Result<Option<String>, Undone> {
    // Of any type, and all that a geometry, whose type's schema is not looked into, gets here.
    if matches!(cell, crate::binlog::cell::Cell::Null) {
        return Ok(None);
    }
    let doing = "altering a table";
    let mut field = Vec::new();
    if ColumnPlan::new(name, column, ColumnPolicies::default(), Role::Plain)?.write(cell, &mut field).is_err()
    {
        return Err(Undone::Refused(name.clone()));
    }
    let sql = format!("SELECT quote_literal($1::{}::text)", column.target);
    let statement = client.prepare(&sql, &[]).await.map_err(while_doing(doing))?;
    let params = Params::new(field.into(), 1);
    let asked = async { client.untimed().query_raw(&statement, params.iter()).await?.try_collect().await };
    let rows: Vec<_> = client.reply(asked).await.map_err(while_doing(doing))?;
    let literal = rows.first().map(|row| row.try_get(0)).transpose().map_err(while_doing(doing))?;
    Ok(literal.flatten())
}

/// CHECK constraints over this column alone.
const READ_CHECKS: &str = "\
    SELECT k.conname::text FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid \
        JOIN pg_namespace n ON n.oid = c.relnamespace \
        JOIN pg_attribute a ON a.attrelid = c.oid AND k.conkey = ARRAY[a.attnum] \
    WHERE n.nspname = $1::text AND c.relname = $2::text AND a.attname = $3::text AND k.contype = 'c'";

async fn label_checks(client: &Client, name: &TableName, column: &str) -> Result<Vec<String>, Failure> {
    let doing = "reading the target's catalog";
    let (schema, table) = render::target_name(name)?;
    let rows = client.query(READ_CHECKS, &[&schema, &table, &column]).await.map_err(while_doing(doing))?;
    rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(while_doing(doing))
}
