//! Applying: many units, one Postgres transaction.
//!
//! Rows are written in exact source order, each as a prepared statement in flight behind the
//! others. A batch is a run of whole source transactions; a schema change is a batch of its own.
//! When a unit can't be applied, the units before it are committed and the unit halts.

use std::collections::HashMap;
use std::sync::Arc;

mod ddl;
mod details;

use super::catalog;
use super::checkpoint::{Batch, ColumnChanges, CommitError, Position, Progress as Committed, commit};
use super::conversions::{Conversion, Ledger};
use super::error::failure;
use super::objects::{self, Attempt};
use super::rows::{RowError, RowWriter};
use super::table_state::TableState;
use super::tables::{Table, Tables};
use super::target_change;
use super::transaction::{Cause, Expect, FencedTransaction, OpError, Origin};
use super::writer::Writer;
use crate::config::DdlConfig;
use crate::convert::Obstacle;
use crate::fold::unit::{RowsKind, Transaction, Unit};
use crate::fold::xa::XidDigest;
use crate::gtid::Gtid;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::filter::Filter;
use crate::schema::overrides::Overrides;
use crate::schema::policy::{Policies, TargetChange};
use crate::schema::{TableModel, TableName};
use details::Presented;

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
    rows: RowWriter,
}

/// What a call of [`Applier::apply`] committed.
#[derive(Debug, Default)]
pub struct Progress {
    /// Units committed, filtered and empty ones among them: the first ones of those given.
    pub units: usize,
    /// Rows written per table and kind of change.
    pub rows: HashMap<(TableName, RowsKind), u64>,
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

/// A change of a table's column that a transaction's row needs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Needed {
    table: usize,
    change: TargetChange,
    gtid: Gtid,
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
        Ok(Self { writer, tables, filter, ddl, types, presented, position, announced, rows })
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

    /// Builds the indexes and constraints that the tables can have now. Nothing is applied meanwhile.
    ///
    /// # Errors
    /// As [`objects::build`].
    pub async fn build_objects(&mut self) -> Result<(), Failure> {
        let states: Vec<&TableState> = self.tables.states().collect();
        if objects::build(&mut self.writer, &states, Attempt::New).await? > 0 {
            self.tables.look_again();
        }
        Ok(())
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
        let number = self.tables.begin_batch();
        let mut counts = HashMap::new();
        let result = async {
            let mut tx = self.writer.begin().await?;
            let mut ledger = change_columns(&mut tx, &self.tables, needed).await?;
            for (index, unit) in units.iter().enumerate() {
                if let Unit::Transaction(transaction) = unit {
                    let place = Place { unit: index, gtid: &transaction.gtid, batch: number };
                    let mut written =
                        Written { rows: &mut self.rows, counts: &mut counts, ledger: &mut ledger };
                    write_transaction(&mut tx, &mut self.tables, transaction, place, &mut written).await?;
                }
            }
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
            commit(tx, &Committed::Batch(&batch)).await.map_err(Interrupt::from)?;
            Ok(conversions)
        };
        let conversions = match result.await {
            Ok(conversions) => conversions,
            Err(interrupt) => {
                self.tables.restore(originals);
                return Err(self.stop(interrupt, units));
            }
        };
        self.tables.mark_confirmed();
        self.tables.mark_streaming(&streaming);
        for ((table, kind), rows) in counts {
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

/// The unit in hand.
#[derive(Clone, Copy)]
struct Place<'a> {
    unit: usize,
    gtid: &'a Gtid,
    /// Number of the batch.
    batch: u64,
}

/// Why an attempt ended.
enum Interrupt {
    /// Found on this side, in the unit in hand. Earlier units may hide a failure still in flight;
    /// the attempt without this unit will show it.
    Unit {
        unit: usize,
        failure: Failure,
    },
    /// Reported by the server, for the statement that says where it came from.
    Op(OpError),
    Change(Needed),
    Other(Failure),
}

/// What writing the units of a batch goes through and adds up to.
struct Written<'a> {
    rows: &'a mut RowWriter,
    counts: &'a mut HashMap<(usize, RowsKind), u64>,
    ledger: &'a mut Ledger,
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

impl From<OpError> for Interrupt {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

impl From<CommitError> for Interrupt {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Op(error) => Self::Op(error),
            CommitError::Halt(halt) => Self::Other(halt.into()),
        }
    }
}

async fn write_transaction(
    tx: &mut FencedTransaction<'_>,
    tables: &mut Tables,
    transaction: &Transaction,
    place: Place<'_>,
    written: &mut Written<'_>,
) -> Result<(), Interrupt> {
    let Written { rows, counts, ledger } = written;
    // An earlier attempt may have been cut off between encoding and counting.
    rows.stored.clear();
    rows.removed.clear();
    for change in transaction.changes.iter() {
        let change = change.map_err(|halt| Interrupt::Unit { unit: place.unit, failure: halt.into() })?;
        let found = tables.find(&change.map.database, &change.map.table);
        let interrupt = |failure| {
            let name = TableName { database: change.map.database.clone(), table: change.map.table.clone() };
            Interrupt::Unit { unit: place.unit, failure: on_row(failure, Some(place.gtid), Some(&name)) }
        };
        let Some(index) = found else { return Err(interrupt(unknown_table())) };
        let Some(table) = tables.get_mut(index) else { return Err(interrupt(unknown_table())) };
        if !table.takes(place.gtid).map_err(|halt| interrupt(halt.into()))? {
            continue;
        }
        table.check(&change.map).map_err(|halt| interrupt(halt.into()))?;
        if !table.is_prepared() {
            let client = tx.quiet_client().await?;
            table.prepare(client, place.batch).await.map_err(interrupt)?;
        }
        let writing = table.writing().map_err(|halt| interrupt(halt.into()))?;
        let origin = Origin::Row { unit: place.unit, table: index };
        let written = rows.write(tx, &writing, &change, origin).await;
        *counts.entry((index, change.kind)).or_default() += written.map_err(|error| match error {
            RowError::Obstacle(Obstacle::Halt(halt)) => interrupt(halt.into()),
            RowError::Obstacle(Obstacle::Change(change)) => {
                Interrupt::Change(Needed { table: index, change, gtid: place.gtid.clone() })
            }
            RowError::Op(error) => Interrupt::Op(error),
        })?;
        if !(rows.stored.is_empty() && rows.removed.is_empty()) {
            ledger.stored(index, &mut rows.stored, Some(place.gtid));
            ledger.removed(index, &mut rows.removed);
        }
        look_once(tx, table, index, place.batch).await?;
    }
    Ok(())
}

/// Asks, behind the table's first rows of a batch, whether the table still is what was checked.
async fn look_once(
    tx: &mut FencedTransaction<'_>,
    table: &mut Table,
    index: usize,
    batch: u64,
) -> Result<(), OpError> {
    let Some(params) = table.first_look(batch) else { return Ok(()) };
    tx.control(Origin::Look { table: index }, catalog::SIGNATURE, params, Expect::Rows(1)).await
}

fn unknown_table() -> Failure {
    let detail =
        "the stream has rows of a table that is in tables.include and was neither copied nor created";
    Halt::new(Reason::SchemaDrift, detail).into()
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

fn on_row(failure: Failure, gtid: Option<&Gtid>, table: Option<&TableName>) -> Failure {
    let Failure::Halt(mut halt) = failure else { return failure };
    if let Some(gtid) = gtid {
        *halt = halt.at_gtid(gtid);
    }
    if let Some(TableName { database, table }) = table {
        *halt = halt.on_table(database, table);
    }
    Failure::Halt(halt)
}

/// XA transactions known from before the stream that the units resolve.
fn resolved_xids(units: &[Unit]) -> Vec<XidDigest> {
    let resolution = |unit: &Unit| match unit {
        Unit::Transaction(transaction) => transaction.resolves.as_ref()?.startup,
        Unit::Prepared(_) | Unit::SchemaChange(_) => None,
    };
    units.iter().filter_map(resolution).collect()
}
