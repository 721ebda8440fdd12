//! Defaults, comments, indexes and constraints after a schema change: read from the source, and
//! taken over once the stream has reached what was read.
//!
//! A definition is presented with a GTID set that the source had executed when it had been read. Once
//! the position includes that set, every change that made the definition what it is has been applied,
//! and so has every row from before: no row to come can violate what the definition demands. Where the
//! columns or the key differ then, another change is on its way, after which the definition is read
//! again. After a restart every definition is read again, so that none needs to be stored.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio_postgres::error::SqlState;

use super::super::checkpoint::{CommitError, Progress as Written, commit};
use super::super::client::Error;
use super::super::error::{failure, while_doing};
use super::super::objects::follow::{States, follow};
use super::super::statements;
use super::super::table_state::{Ownership, TableState};
use super::super::transaction::OpError;
use super::{Applier, catalog};
use crate::gtid::GtidSet;
use crate::halt::Failure;
use crate::schema::details::{ColumnDetails, TableDetails};
use crate::schema::phase::TablePhase;
use crate::schema::recorded::same_definition;
use crate::schema::{TableModel, TableName, render, spatial};

/// Definitions as the source has them.
pub(super) struct Presented {
    models: BTreeMap<TableName, TableModel>,
    /// What the source had executed afterwards.
    executed: GtidSet,
}

impl Presented {
    pub(super) fn forget(&mut self, table: &TableName) {
        self.models.remove(table);
    }
}

impl Applier {
    /// Hands over definitions, and what the source had executed after they were read.
    pub fn present(&mut self, models: Vec<TableModel>, executed: &GtidSet) {
        for earlier in &mut self.presented {
            models.iter().for_each(|model| earlier.forget(&model.name));
        }
        let models = models.into_iter().map(|model| (model.name.clone(), model)).collect();
        self.presented.push(Presented { models, executed: executed.clone() });
    }

    /// Takes over what the position has reached of the definitions presented: the defaults and
    /// comments of tables that the pipeline created, and what is to be built or is no more. A table
    /// that others are using is left to [`Applier::complete_tables`], as all are in a pause before it.
    /// Answers whether anything has changed.
    ///
    /// # Errors
    /// Failures of the target.
    pub async fn take_over_definitions(&mut self) -> Result<bool, Failure> {
        let mut changed = false;
        if self.asks_again_at.is_some() {
            return Ok(changed);
        }
        for mut presented in std::mem::take(&mut self.presented) {
            if self.position.reaches(&presented.executed) {
                changed |= self.take_over(&mut presented.models).await?;
            }
            if !presented.models.is_empty() {
                self.presented.push(presented);
            }
        }
        Ok(changed)
    }

    /// Takes over definitions that are due, and leaves those whose tables others are using.
    async fn take_over(&mut self, models: &mut BTreeMap<TableName, TableModel>) -> Result<bool, Failure> {
        let mut changed = false;
        for (name, model) in std::mem::take(models) {
            let found = self.tables.find(&name.database, &name.table).and_then(|at| self.tables.get(at));
            let Some(state) = found.and_then(|table| with_details(&table.state, &model)) else { continue };
            let started = Instant::now();
            if self.set_details(&state).await? {
                self.tables.put(state);
                changed = true;
            } else {
                self.pause_after(Some(started.elapsed()));
                models.insert(name, model);
            }
        }
        Ok(changed)
    }

    /// One commit: the target's defaults and comments, what is dropped, and the state. Answers
    /// whether the table could be had.
    async fn set_details(&mut self, state: &TableState) -> Result<bool, Failure> {
        let before: States<'_> = self.tables.states().map(|state| (state.name(), state)).collect();
        let mut after: BTreeMap<_, _> = before.clone();
        after.insert(state.name(), state);
        let mut tx = self.writer.begin().await.map_err(OpError::into_failure)?;
        let pipeline = tx.pipeline().to_owned();
        let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
        let lock_timeout = self.ddl.lock_wait_timeout.as_millis();
        let mut statements = vec![statements::lock_whole(state.name())?];
        if state.ownership == Ownership::Created {
            statements.extend(render::present_details(&state.model)?);
        }
        let set = format!("SET LOCAL lock_timeout = {lock_timeout}");
        client.batch_execute(&set).await.map_err(while_doing("opening a transaction"))?;
        let following = follow(client, &pipeline, &before, &after, &[]).await?;
        let refused = |name: &TableName, error: &Error| {
            let is_locked = error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE);
            let failure = || catalog::on_name(failure("setting a table's defaults", error), name);
            if is_locked { Ok(false) } else { Err(failure()) }
        };
        for statement in &statements {
            if let Err(error) = client.alter(statement).await {
                return refused(state.name(), &error);
            }
        }
        if let Err((name, error)) = following.drop_objects(client, &pipeline).await {
            return refused(&name, &error);
        }
        let tables = Written::Tables { tables: std::slice::from_ref(state), clears_halt: false };
        commit(tx, &tables).await.map_err(CommitError::into_failure)?;
        Ok(true)
    }
}

/// The state with the details of the source's definition; `None` if it has them, or they are those
/// of another definition.
fn with_details(state: &TableState, present: &TableModel) -> Option<TableState> {
    let is_copied = matches!(state.phase, TablePhase::CatchingUp | TablePhase::Streaming);
    if !is_copied || !same_definition(&state.model, present) {
        return None;
    }
    let mut present = present.clone();
    spatial::keep_choice(&mut present, &state.model);
    let mut new = state.clone();
    // The target's partitions and collations were chosen when they were made, and stay; its rows are its own.
    let target_partitions = std::mem::take(&mut new.model.details.target_partitions);
    let target_keeps_rows = new.model.details.target_keeps_rows;
    new.model.details = TableDetails { target_partitions, target_keeps_rows, ..present.details.clone() };
    for (column, present) in new.model.columns.iter_mut().zip(&present.columns) {
        let target_collation = column.details.target_collation.take();
        column.details = ColumnDetails { target_collation, ..present.details.clone() };
    }
    (new.model != state.model).then_some(new)
}
