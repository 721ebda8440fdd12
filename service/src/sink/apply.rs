//! Applying: many units, one Postgres transaction.
//!
//! A batch is a run of whole source transactions, whose rows a [`BatchWriter`] writes; a schema
//! change is a batch of its own. When a unit can't be applied, the units before it are committed
//! and the unit halts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::{BatchWriter, Interrupt, on_row};
use super::catalog;
use super::checkpoint::{Batch, Position, Progress as Written, commit};
use super::error::failure;
use super::rows::RowWriter;
use super::schema_change::{AppliedChange, Decision, decide};
use super::table_state::TableState;
use super::tables::Tables;
use super::transaction::{Cause, OpError, Origin};
use super::writer::Writer;
use crate::fold::unit::{Fingerprint, RowsKind, SchemaChange, Unit};
use crate::gtid::{Gtid, GtidSet};
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::filter::Filter;
use crate::schema::phase::TablePhase;
use crate::schema::render::target_name;
use crate::schema::{TableModel, TableName};

/// Applies units and advances the position with them.
pub struct Applier {
    writer: Writer,
    tables: Tables,
    filter: Arc<Filter>,
    position: Position,
    /// Models read from the source for tables that a unit at hand creates.
    announced: HashMap<TableName, TableModel>,
    rows: RowWriter,
}

/// What a call of [`Applier::apply`] committed.
#[derive(Debug, Default)]
pub struct Progress {
    /// Units committed, filtered and empty ones among them.
    pub units: usize,
    /// Rows written per table and kind of change.
    pub rows: HashMap<(TableName, RowsKind), u64>,
    /// Parts of batches that were written by their net effect.
    pub merged: u64,
    /// Parts whose net effect met a constraint, and that were written in source order instead.
    pub conflicts: u64,
    /// Bytes of the images of the rows written.
    pub image_bytes: u64,
    /// Time spent on writing rows, and on what follows until the answers to the commits.
    pub write_time: Duration,
    pub commit_time: Duration,
    /// Commit time on the source of the last unit, in microseconds since 1970.
    pub commit_micros: Option<u64>,
    /// Tables that show one state of the source from now on.
    pub became_streaming: Vec<TableName>,
    /// Tables that the stream has created.
    pub created: Vec<TableName>,
}

impl Progress {
    /// Whether [`Applier::tables`] shows anything new.
    #[must_use]
    pub const fn tables_changed(&self) -> bool {
        !self.became_streaming.is_empty() || !self.created.is_empty()
    }
}

/// Why a batch could not be applied, and from which unit on.
struct Stop {
    /// `None` when it is not a unit's: then nothing of the batch can be saved.
    unit: Option<usize>,
    failure: Failure,
}

impl Applier {
    /// # Errors
    /// `internal_error` when the pipeline has no position yet.
    pub fn new(writer: Writer, tables: Vec<TableState>, filter: Arc<Filter>) -> Result<Self, Halt> {
        let Some(position) = writer.checkpoint().position.clone() else {
            return Err(Halt::new(
                Reason::Internal,
                "the stream was started before the copy gave a position",
            ));
        };
        let tables = Tables::new(tables);
        Ok(Self { writer, tables, filter, position, announced: HashMap::new(), rows: RowWriter::default() })
    }

    /// How far the pipeline is, durably.
    #[must_use]
    pub const fn position(&self) -> &Position {
        &self.position
    }

    /// Every table's state as of the position.
    pub fn tables(&self) -> impl Iterator<Item = &TableState> {
        self.tables.states()
    }

    /// For what else the owner of the pipeline writes: halts, the source's identity.
    pub const fn writer_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// The table whose model must be announced before the unit is applied: one that it creates.
    #[must_use]
    pub fn wants_model<'a>(&self, unit: &'a Unit) -> Option<&'a TableName> {
        let Unit::SchemaChange(change) = unit else { return None };
        let tables = &change.statement.tables;
        tables
            .iter()
            .find(|name| matches!(self.decide(change), Decision::Create(created) if created == *name))
    }

    /// Hands over the definition of a table that a unit creates, as the source has it now. Should
    /// it have changed since, its first table map says so.
    pub fn announce(&mut self, model: TableModel) {
        self.announced.insert(model.name.clone(), model);
    }

    /// Applies the units in order.
    ///
    /// # Errors
    /// A halt names the first unit that can't be applied; those before it are committed then. On
    /// a retry nothing is known of the last commit: take over again and read the checkpoint.
    pub async fn apply(&mut self, units: &[Unit]) -> Result<Progress, Failure> {
        let mut progress = Progress::default();
        let mut rest = units;
        while let Some(first) = rest.first() {
            let taken = match first {
                Unit::SchemaChange(change) => {
                    self.apply_schema_change(change, &mut progress).await?;
                    1
                }
                Unit::Transaction(_) => {
                    let is_transaction = |unit: &&Unit| matches!(unit, Unit::Transaction(_));
                    let run = rest.iter().take_while(is_transaction).count();
                    self.apply_run(rest.get(..run).unwrap_or(rest), &mut progress).await?;
                    run
                }
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(progress)
    }

    /// Applies a run of transactions; on a unit's halt, the ones before it.
    async fn apply_run(&mut self, units: &[Unit], progress: &mut Progress) -> Result<(), Failure> {
        let mut units = units;
        let mut halt = None;
        loop {
            match self.apply_batch(units, progress).await {
                Ok(()) => return halt.map_or(Ok(()), Err),
                Err(Stop { unit: Some(unit), failure: failure @ Failure::Halt(_) }) if unit > 0 => {
                    // The earliest failure is the one to report: an attempt without the later
                    // units can only fail before it.
                    units = units.get(..unit).unwrap_or(units);
                    halt = Some(failure);
                }
                Err(stop) => return Err(stop.failure),
            }
        }
    }

    /// One attempt at one Postgres transaction.
    async fn apply_batch(&mut self, units: &[Unit], progress: &mut Progress) -> Result<(), Stop> {
        let position = advanced(&self.position, units.iter().map(|unit| (unit.gtid(), unit.fingerprint())));
        let streaming = self.tables.converged(&position.processed);
        let batch = Batch { streaming: &streaming, ..self.writer.batch(&position) };
        let started = Instant::now();
        let result = async {
            let mut tx = self.writer.begin().await?;
            let mut writer = BatchWriter::new(&mut tx, &mut self.tables, &mut self.rows);
            for (index, unit) in units.iter().enumerate() {
                if let Unit::Transaction(transaction) = unit {
                    writer.add(index, transaction).await?;
                }
            }
            let written = writer.finish().await?;
            let write_time = started.elapsed();
            commit(tx, &Written::Batch(&batch)).await?;
            Ok((written, write_time))
        };
        let (written, write_time) = match result.await {
            Ok(written) => written,
            Err(interrupt) => return Err(self.stop(interrupt, units)),
        };
        self.tables.mark_streaming(&streaming);
        progress.write_time += write_time;
        progress.commit_time += started.elapsed() - write_time;
        progress.image_bytes += written.image_bytes;
        progress.merged += written.merged;
        progress.conflicts += written.conflicts;
        for ((table, kind), rows) in written.rows {
            if let Some(table) = self.tables.get(table) {
                *progress.rows.entry((table.state.name().clone(), kind)).or_default() += rows;
            }
        }
        self.committed(position, streaming, units.len(), progress);
        Ok(())
    }

    async fn apply_schema_change(
        &mut self,
        change: &SchemaChange,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        let created = match self.decide(change) {
            Decision::Refuse(halt) => return Err(halt.into()),
            Decision::Nothing => None,
            Decision::Create(name) => Some(self.new_table(change, name)?),
        };
        let position = advanced(&self.position, std::iter::once((&change.gtid, &change.fingerprint)));
        let streaming = self.tables.converged(&position.processed);
        let states: Vec<TableState> = created.into_iter().collect();
        let mut batch = Batch { streaming: &streaming, tables: &states, ..self.writer.batch(&position) };
        let mut tx = self.writer.begin().await.map_err(OpError::into_failure)?;
        let mut changes = Vec::new();
        for state in &states {
            let statement =
                catalog::create(&mut tx, &state.model).await.map_err(|failure| at(failure, change))?;
            let (table, gtid, kind) = (state.name().clone(), change.gtid.clone(), change.statement.kind);
            changes.push(AppliedChange { table, gtid, kind, statement });
        }
        batch.changes = &changes;
        commit(tx, &Written::Batch(&batch)).await.map_err(|error| at(error.into_failure(), change))?;
        for state in states {
            self.announced.remove(state.name());
            progress.created.push(state.name().clone());
            self.tables.add(state);
        }
        self.tables.mark_streaming(&streaming);
        self.committed(position, streaming, 1, progress);
        Ok(())
    }

    fn decide<'a>(&'a self, change: &'a SchemaChange) -> Decision<'a> {
        let in_database = |database: &str| {
            self.tables.states().filter(|state| state.name().database == database).collect::<Vec<_>>()
        };
        decide(change, &self.filter, &|name| self.tables.state(name), &in_database)
    }

    /// The state of a table that the stream creates: it is empty, and every later change is its.
    fn new_table(&self, change: &SchemaChange, name: &TableName) -> Result<TableState, Halt> {
        let halt = |halt: Halt| halt.at_gtid(&change.gtid).on_table(&name.database, &name.table);
        let Some(model) = self.announced.get(name).cloned() else {
            let detail = "the source created the table and no longer has it";
            return Err(halt(Halt::new(Reason::DdlUnsupported, detail)));
        };
        let (target_schema, target_table) = target_name(name).map_err(halt)?;
        Ok(TableState {
            phase: TablePhase::Streaming,
            snapshot_set: Some(GtidSet::new()),
            converge_set: None,
            target_schema: target_schema.to_owned(),
            target_table: target_table.to_owned(),
            rows_copied: 0,
            rows_estimated: Some(0),
            model,
        })
    }

    fn committed(
        &mut self,
        position: Position,
        streaming: Vec<TableName>,
        units: usize,
        progress: &mut Progress,
    ) {
        progress.units += units;
        progress.commit_micros = position.last.as_ref().map(|(_, print)| print.original_commit_micros);
        progress.became_streaming.extend(streaming);
        self.writer.committed(position.clone());
        self.position = position;
    }

    /// A table that has changed is checked as all are when a cycle opens.
    fn look_failure(&self, error: OpError, table: usize) -> Failure {
        let name = self.tables.get(table).map(|table| table.state.name());
        match (&error.cause, name) {
            (Cause::Rows, Some(TableName { database, table })) => Failure::retry(
                Side::Target,
                format!("the definition of target table {database}.{table} has changed: it is checked again"),
            ),
            _ => error.into_failure(),
        }
    }

    /// Names the unit and table that an interrupt is about.
    fn stop(&self, interrupt: Interrupt, units: &[Unit]) -> Stop {
        match interrupt {
            Interrupt::Unit { unit, failure } => Stop { unit: Some(unit), failure },
            Interrupt::Other(failure) => Stop { unit: None, failure },
            Interrupt::Op(error) => match error.origin {
                Origin::Control(_) => Stop { unit: None, failure: error.into_failure() },
                Origin::Merged { table } => {
                    let table = self.tables.get(table).map(|table| table.state.name());
                    Stop { unit: None, failure: on_row(error.into_failure(), None, table) }
                }
                Origin::Look { table } => Stop { unit: None, failure: self.look_failure(error, table) },
                Origin::Row { unit, table } => {
                    let (gtid, table) = (units.get(unit).map(Unit::gtid), self.tables.get(table));
                    let failure =
                        row_failure(&error, table.is_some_and(|table| table.state.model.key.is_empty()));
                    let failure = on_row(failure, gtid, table.map(|table| table.state.name()));
                    Stop { unit: Some(unit), failure }
                }
            },
        }
    }
}

/// What a row's statement that failed, or touched another number of rows than one, means.
fn row_failure(error: &OpError, is_keyless: bool) -> Failure {
    match &error.cause {
        Cause::Postgres(error) => failure("writing a row", error),
        Cause::Rows if is_keyless => {
            Halt::new(Reason::KeylessRowNotFound, "no row on the target equals the one that was changed")
                .into()
        }
        Cause::Rows => {
            Halt::new(Reason::TargetConstraint, "something on the target kept a row from being written")
                .into()
        }
    }
}

fn at(failure: Failure, change: &SchemaChange) -> Failure {
    on_row(failure, Some(&change.gtid), change.statement.tables.first())
}

/// The position after units with these identities.
fn advanced<'a>(from: &Position, units: impl Iterator<Item = (&'a Gtid, &'a Fingerprint)>) -> Position {
    let mut position = from.clone();
    let mut last = None;
    for (gtid, fingerprint) in units {
        position.processed.insert(gtid);
        last = Some((gtid, fingerprint));
    }
    if let Some((gtid, fingerprint)) = last {
        position.last = Some((gtid.clone(), fingerprint.clone()));
    }
    position
}
