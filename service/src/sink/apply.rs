//! Applying: many units, one Postgres transaction.
//!
//! A batch is a run of whole source transactions, whose rows a [`BatchWriter`] writes; a schema
//! change is a batch of its own. When a unit can't be applied, the units before it are committed
//! and the unit halts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

mod ddl;
mod details;
mod moves;

use super::batch::{BatchWriter, Interrupt, Needed, on_row};
use super::catalog;
use super::checkpoint::{Batch, ColumnChanges, Position, Progress as Committed, commit};
use super::conversions::{Conversion, Ledger};
use super::error::failure;
use super::objects::{self, Attempt};
use super::rows::RowWriter;
use super::table_state::TableState;
use super::tables::Tables;
use super::target_change;
use super::transaction::{Cause, FencedTransaction, OpError, Origin};
use super::writer::Writer;
use crate::config::DdlConfig;
use crate::fold::unit::{RowsKind, Unit};
use crate::fold::xa::XidDigest;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::filter::Filter;
use crate::schema::overrides::Overrides;
use crate::schema::policy::Policies;
use crate::schema::{TableModel, TableName};
use details::Presented;

/// How much longer the pause after a wait for a lock is than the wait, in which nothing is applied: the
/// stream loses no more than a twentieth of its time, and the target's readers have the rest.
const PAUSE_FACTOR: u32 = 20;

/// Applies units and advances the position with them.
pub struct Applier {
    writer: Writer,
    tables: Tables,
    filter: Arc<Filter>,
    position: Position,
    ddl: DdlConfig,
    types: Overrides,
    /// Definitions as the source has them, until the position reaches them; of each table one.
    presented: Vec<Presented>,
    /// The definition of a table that the unit at hand creates, as the source has it now; `None`
    /// if it has none.
    announced: Option<(TableName, Option<TableModel>)>,
    /// The end of a pause after a lock that could not be had.
    asks_again_at: Option<Instant>,
    rows: RowWriter,
}

/// What a call of [`Applier::apply`] committed.
#[derive(Debug, Default)]
pub struct Progress {
    /// Units committed, filtered and empty ones among them: the first ones of those given.
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
    /// Tables that a schema change has created, renamed, detached or sent back to be copied.
    pub changed: Vec<TableName>,
    /// Tables that are no longer replicated under these names.
    pub removed: Vec<TableName>,
    /// What was added to the ledger of converted values.
    pub conversions: Vec<Conversion>,
    /// Tables whose definition is to be read from the source: see [`Applier::present`].
    pub redefined: Vec<TableName>,
    /// Why it ended before the last unit, if it did.
    pub pause: Option<Pause>,
}

/// Why not every unit was applied. Nothing of the next one has been done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pause {
    /// The next unit creates this table: see [`Applier::announce`].
    WantsModel(TableName),
    /// The next unit changes this table of the target, and others are using it.
    Locked(TableName),
    /// Tables have to be copied anew before the stream goes on.
    NeedsCopy,
}

impl Progress {
    /// Whether [`Applier::tables`] shows anything new.
    #[must_use]
    pub const fn tables_changed(&self) -> bool {
        !self.became_streaming.is_empty() || !self.changed.is_empty() || !self.removed.is_empty()
    }
}

/// Why a batch could not be applied.
enum Stop {
    /// `unit` is `None` when it is not a unit's: then nothing of the batch can be saved.
    Failed { unit: Option<usize>, failure: Failure },
    /// A value needs its target column changed first.
    Change(Needed),
}

impl Applier {
    /// # Errors
    /// `internal_error` when the pipeline has no position yet.
    pub fn new(
        writer: Writer,
        tables: Vec<TableState>,
        filter: Arc<Filter>,
        ddl: DdlConfig,
        types: Overrides,
        policies: Arc<Policies>,
    ) -> Result<Self, Halt> {
        let Some(position) = writer.checkpoint().position.clone() else {
            return Err(Halt::new(
                Reason::Internal,
                "the stream was started before the copy gave a position",
            ));
        };
        let tables = Tables::new(tables, policies);
        let (presented, announced, rows) = (Vec::new(), None, RowWriter::default());
        let asks_again_at = None;
        Ok(Self { writer, tables, filter, ddl, types, presented, position, announced, asks_again_at, rows })
    }

    /// How far the pipeline is, durably.
    #[must_use]
    pub const fn position(&self) -> &Position {
        &self.position
    }

    /// The configured types, as this target takes them.
    #[must_use]
    pub const fn types(&self) -> &Overrides {
        &self.types
    }

    /// Every table's state as of the position.
    pub fn tables(&self) -> impl Iterator<Item = &TableState> {
        self.tables.states()
    }

    /// Builds the indexes and constraints that the tables can have now. Nothing is applied meanwhile. In a
    /// pause after a lock that could not be had, they are left to [`Applier::complete_tables`].
    ///
    /// # Errors
    /// As [`objects::build`].
    pub async fn build_objects(&mut self) -> Result<(), Failure> {
        if self.asks_again_at.is_some() { Ok(()) } else { self.build_now().await }
    }

    async fn build_now(&mut self) -> Result<(), Failure> {
        let states: Vec<&TableState> = self.tables.states().collect();
        let lock_timeout = self.ddl.lock_wait_timeout;
        let done = objects::build(&mut self.writer, &states, Attempt::New, lock_timeout).await?;
        if done.built > 0 {
            self.tables.look_again();
        }
        self.pause_after(done.waited);
        Ok(())
    }

    /// When [`Applier::complete_tables`] is due.
    #[must_use]
    pub const fn asks_again_at(&self) -> Option<Instant> {
        self.asks_again_at
    }

    /// A lock that others kept was waited for in vain, for this long.
    pub fn pause_after(&mut self, waited: Option<Duration>) {
        let until = waited.map(|waited| Instant::now() + waited * PAUSE_FACTOR);
        self.asks_again_at = self.asks_again_at.max(until);
    }

    /// Asks again for the tables that others kept from getting what their definitions say.
    ///
    /// # Errors
    /// Failures of the target.
    pub async fn complete_tables(&mut self) -> Result<(), Failure> {
        self.asks_again_at = None;
        self.take_over_definitions().await?;
        self.build_now().await
    }

    /// For what else the owner of the pipeline writes: halts, the source's identity.
    pub const fn writer_mut(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Hands over the definition of a table that the next unit creates, as the source has it now;
    /// `None` if it has no such table any more. Should it have changed since, its first table map
    /// says so, and the table is copied.
    pub fn announce(&mut self, table: TableName, mut model: Option<TableModel>) {
        // Rows of the time before may not satisfy them: they are presented once it has passed.
        if let Some(model) = &mut model {
            model.details = model.details.without_objects();
        }
        self.announced = Some((table, model));
    }

    /// Applies the units in order, up to one that something else has to be done for.
    ///
    /// # Errors
    /// A halt names the first unit that can't be applied; those before it are committed then. On
    /// a retry nothing is known of the last commit: take over again and read the checkpoint.
    pub async fn apply(&mut self, units: &[Unit]) -> Result<Progress, Failure> {
        let mut progress = Progress::default();
        while let Some(rest) = units.get(progress.units..).filter(|rest| !rest.is_empty()) {
            match rest {
                [Unit::SchemaChange(change), ..] => self.apply_schema_change(change, &mut progress).await?,
                _ => {
                    let is_rows = |unit: &&Unit| !matches!(unit, Unit::SchemaChange(_));
                    let run = rest.iter().take_while(is_rows).count();
                    if let Err(failure) = self.apply_run(rest.get(..run).unwrap_or(rest), &mut progress).await
                    {
                        self.copy_provisional(failure, &mut progress).await?;
                    }
                }
            }
            if progress.pause.is_some() {
                break;
            }
        }
        Ok(progress)
    }

    /// Applies a run of transactions; on a unit's halt, the ones before it.
    ///
    /// An attempt that meets a value for which a column must be changed is rolled back, and the
    /// next one begins with the change: nothing that the stream has in flight stands in its way.
    /// Each attempt ends, or needs a change more, of which every column can have two.
    async fn apply_run(&mut self, units: &[Unit], progress: &mut Progress) -> Result<(), Failure> {
        let (mut units, mut halt) = (units, None);
        let mut needed: Vec<Needed> = Vec::new();
        loop {
            match self.apply_batch(units, &needed, progress).await {
                Ok(()) => return halt.map_or(Ok(()), Err),
                Err(Stop::Failed { unit: Some(unit), failure: failure @ Failure::Halt(_) }) if unit > 0 => {
                    // The earliest failure is the one to report: an attempt without the later
                    // units can only fail before it. What they needed is not theirs to change.
                    units = units.get(..unit).unwrap_or(units);
                    needed.clear();
                    halt = Some(failure);
                }
                Err(Stop::Failed { failure, .. }) => return Err(failure),
                Err(Stop::Change(more)) => {
                    let same = |one: &Needed| (one.table, one.change) == (more.table, more.change);
                    if needed.iter().any(same) {
                        let detail = "a column was changed for a value that still does not fit";
                        return Err(Halt::new(Reason::Internal, detail).at_gtid(&more.gtid).into());
                    }
                    needed.push(more);
                }
            }
        }
    }

    /// One attempt at one Postgres transaction.
    async fn apply_batch(
        &mut self,
        units: &[Unit],
        needed: &[Needed],
        progress: &mut Progress,
    ) -> Result<(), Stop> {
        let mut position = self.position.clone();
        units.iter().for_each(|unit| position.advance(unit));
        let resolved_xids = resolved_xids(units);
        let streaming = self.tables.converged(&position);
        let batch = self.writer.batch(&position);
        let originals = self.tables.change(needed.iter().map(|one| (one.table, one.change)));
        let started = Instant::now();
        let result = async {
            let mut tx = self.writer.begin().await?;
            let ledger = change_columns(&mut tx, &self.tables, needed).await?;
            let mut writer = BatchWriter::new(&mut tx, &mut self.tables, &mut self.rows, ledger);
            for (index, unit) in units.iter().enumerate() {
                if let Unit::Transaction(transaction) = unit {
                    writer.add(index, transaction).await?;
                }
            }
            let (written, ledger) = writer.finish().await?;
            let write_time = started.elapsed();
            let conversions = ledger.entries(|table| self.tables.model(table));
            let models = self.tables.changed(&originals);
            let confirmed = self.tables.confirmed();
            let batch = Batch {
                streaming: &streaming,
                tables: &confirmed,
                columns: ColumnChanges { models: &models, conversions: &conversions },
                resolved_xids: &resolved_xids,
                ..batch
            };
            commit(tx, &Committed::Batch(&batch)).await?;
            Ok((written, write_time, conversions))
        };
        let (written, write_time, conversions) = match result.await {
            Ok(committed) => committed,
            Err(interrupt) => {
                self.tables.restore(originals);
                return Err(self.stop(interrupt, units));
            }
        };
        self.tables.mark_confirmed();
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
        progress.conversions.extend(conversions);
        self.committed(position, streaming, units.len(), progress);
        Ok(())
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
            Interrupt::Unit { unit, failure } => Stop::Failed { unit: Some(unit), failure },
            Interrupt::Other(failure) => Stop::Failed { unit: None, failure },
            Interrupt::Change(needed) => Stop::Change(needed),
            Interrupt::Op(error) => match error.origin {
                Origin::Control(_) => Stop::Failed { unit: None, failure: error.into_failure() },
                Origin::Merged { table } => {
                    let table = self.tables.get(table).map(|table| table.state.name());
                    Stop::Failed { unit: None, failure: on_row(error.into_failure(), None, table) }
                }
                Origin::Look { table } => {
                    Stop::Failed { unit: None, failure: self.look_failure(error, table) }
                }
                Origin::Row { unit, table } => {
                    let (gtid, table) = (units.get(unit).map(Unit::gtid), self.tables.get(table));
                    let failure =
                        row_failure(&error, table.is_some_and(|table| table.state.model.key.is_empty()));
                    let failure = on_row(failure, gtid, table.map(|table| table.state.name()));
                    Stop::Failed { unit: Some(unit), failure }
                }
            },
        }
    }
}

/// Begins a transaction with the changes that an earlier attempt has found to be needed.
async fn change_columns(
    tx: &mut FencedTransaction<'_>,
    tables: &Tables,
    needed: &[Needed],
) -> Result<Ledger, Interrupt> {
    let mut ledger = Ledger::default();
    for Needed { table, change, gtid } in needed {
        let Some(model) = tables.model(*table) else { continue };
        let run = target_change::run(tx, model, *change).await;
        let statement = run.map_err(|failure| Interrupt::Other(on_row(failure, Some(gtid), None)))?;
        ledger.changed(*table, *change, &statement, Some(gtid));
    }
    Ok(ledger)
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

/// XA transactions known from before the stream that the units resolve.
fn resolved_xids(units: &[Unit]) -> Vec<XidDigest> {
    let resolution = |unit: &Unit| match unit {
        Unit::Transaction(transaction) => transaction.resolves.as_ref()?.startup,
        Unit::Prepared(_) | Unit::SchemaChange(_) => None,
    };
    units.iter().filter_map(resolution).collect()
}
