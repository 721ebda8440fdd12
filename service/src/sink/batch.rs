//! The rows of a batch: collected into parts, each written by its net effect or in source order.
//!
//! - A part of few rows is written in exact source order: MySQL accepted that order.
//! - A larger part is written by its net effect per key, tables one after the other, deletes before
//!   upserts. Triggers and foreign keys are silent, so that the order of tables makes no difference.
//! - Merging can meet unique constraints in an order that MySQL never saw, as when two rows swap a
//!   value. Whatever fails in a merged part, the part is undone and written in exact source order:
//!   the verdict is always that of this order, and names the transaction.
//! - Tables without a key keep their own order within the part.

use std::collections::{BTreeMap, HashMap};

use super::catalog;
use super::checkpoint::CommitError;
use super::error;
use super::net::{KeyColumns, NetRows};
use super::rows::{RowError, RowWriter, SET_ROWS_MIN};
use super::tables::{Table, Tables};
use super::transaction::{Cause, Expect, FencedTransaction, OpError, Origin};
use crate::convert::RowEncoder;
use crate::fold::unit::{RowsChange, RowsKind, Transaction};
use crate::gtid::Gtid;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::TableName;

/// Up to this many rows a part is written in source order: statements in flight behind one another
/// are then as quick, and there is nothing to undo.
const ORDERED_ROWS_MAX: u64 = 16;

/// A part ends beyond this many bytes of images or collected rows: what is held twice, as images
/// and as rows, stays small, and so does what a conflict repeats.
const PART_BYTES_MAX: usize = 8 << 20;

/// A part ends beyond this many rows, however small: bounds the bookkeeping of each.
const PART_ROWS_MAX: u64 = 100_000;

/// Writes the rows of one attempt at a batch.
pub(super) struct BatchWriter<'a, 'tx> {
    tx: &'a mut FencedTransaction<'tx>,
    tables: &'a mut Tables,
    rows: &'a mut RowWriter,
    /// Number of the batch.
    batch: u64,
    part: Part,
    written: Written,
}

/// What an attempt has written.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Row changes per table and kind, as the source made them.
    pub(super) rows: HashMap<(usize, RowsKind), u64>,
    pub(super) image_bytes: u64,
    /// Parts that were written by their net effect.
    pub(super) merged: u64,
    /// Parts whose net effect failed, and that were written in source order instead.
    pub(super) conflicts: u64,
}

/// Why an attempt ended.
pub(super) enum Interrupt {
    /// Found on this side, in the unit in hand. Earlier units may hide a failure still in flight;
    /// the attempt without this unit will show it.
    Unit {
        unit: usize,
        failure: Failure,
    },
    /// Reported by the server, for the statement that says where it came from.
    Op(OpError),
    Other(Failure),
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

/// Changes that are not written yet.
#[derive(Default)]
struct Part {
    /// In source order.
    changes: Vec<PartChange>,
    /// Net effects of the tables whose changes can be merged, by the tables' indexes.
    nets: BTreeMap<usize, NetRows>,
    rows: u64,
    image_bytes: usize,
    net_bytes: usize,
}

struct PartChange {
    unit: usize,
    gtid: Gtid,
    table: usize,
    change: RowsChange,
}

impl Part {
    const fn is_full(&self) -> bool {
        self.rows > PART_ROWS_MAX || self.image_bytes > PART_BYTES_MAX || self.net_bytes > PART_BYTES_MAX
    }

    fn clear(&mut self) {
        self.changes.clear();
        self.nets.values_mut().for_each(NetRows::clear);
        self.rows = 0;
        self.image_bytes = 0;
        self.net_bytes = 0;
    }
}

impl<'a, 'tx> BatchWriter<'a, 'tx> {
    pub(super) fn new(
        tx: &'a mut FencedTransaction<'tx>,
        tables: &'a mut Tables,
        rows: &'a mut RowWriter,
    ) -> Self {
        let batch = tables.begin_batch();
        Self { tx, tables, rows, batch, part: Part::default(), written: Written::default() }
    }

    /// Takes in the changes of the batch's unit with this index.
    pub(super) async fn add(&mut self, unit: usize, transaction: &Transaction) -> Result<(), Interrupt> {
        for change in &transaction.changes {
            self.add_change(unit, &transaction.gtid, change).await?;
            if self.part.is_full() {
                self.write_part().await?;
            }
        }
        Ok(())
    }

    /// Writes what is left. Statements may be in flight afterwards.
    pub(super) async fn finish(mut self) -> Result<Written, Interrupt> {
        self.write_part().await?;
        Ok(self.written)
    }

    async fn add_change(&mut self, unit: usize, gtid: &Gtid, change: &RowsChange) -> Result<(), Interrupt> {
        let interrupt = |failure: Failure| interrupt(unit, gtid, change, failure);
        let found = self.tables.find(&change.map.database, &change.map.table);
        let Some(index) = found else { return Err(interrupt(unknown_table())) };
        let Some(table) = self.tables.get_mut(index) else { return Err(interrupt(unknown_table())) };
        if !table.takes(gtid).map_err(|halt| interrupt(halt.into()))? {
            return Ok(());
        }
        table.check(&change.map).map_err(|halt| interrupt(halt.into()))?;
        if !table.is_prepared() {
            let client = self.tx.quiet_client().await?;
            table.prepare(client, self.batch).await.map_err(interrupt)?;
        }
        let rows = collect(self.rows, &mut self.part, table, index, change)
            .map_err(|halt| interrupt(halt.into()))?;
        *self.written.rows.entry((index, change.kind)).or_default() += rows;
        self.part.rows += rows;
        self.part.image_bytes += change.images.len();
        self.written.image_bytes += change.images.len() as u64;
        self.part.changes.push(PartChange { unit, gtid: gtid.clone(), table: index, change: change.clone() });
        Ok(())
    }

    async fn write_part(&mut self) -> Result<(), Interrupt> {
        let mut part = std::mem::take(&mut self.part);
        if part.rows <= ORDERED_ROWS_MAX || part.nets.is_empty() {
            self.write_ordered(&part).await?;
        } else {
            self.write_merged(&mut part).await?;
        }
        part.clear();
        self.part = part;
        Ok(())
    }

    /// By net effect; where that fails, in source order.
    async fn write_merged(&mut self, part: &mut Part) -> Result<(), Interrupt> {
        for (&index, net) in &part.nets {
            if net.changes() >= SET_ROWS_MIN
                && let Some(table) = self.tables.get_mut(index)
            {
                let client = self.tx.quiet_client().await?;
                table.prepare_many(client).await.map_err(Interrupt::Other)?;
            }
        }
        self.tx.begin_part().await?;
        match self.write_net(part).await {
            Ok(()) => self.written.merged += 1,
            Err(Interrupt::Op(error)) if is_verdict(&error) => {
                self.tx.undo_part().await?;
                for index in part.changes.iter().map(|change| change.table) {
                    self.tables.forget_look(index, self.batch);
                }
                self.written.conflicts += 1;
                self.write_ordered(part).await?;
            }
            Err(interrupt) => return Err(interrupt),
        }
        Ok(self.tx.keep_part().await?)
    }

    async fn write_net(&mut self, part: &mut Part) -> Result<(), Interrupt> {
        for (&index, net) in &mut part.nets {
            if net.changes() == 0 {
                continue;
            }
            let Some(table) = self.tables.get_mut(index) else { continue };
            let writing = table.writing().map_err(|halt| Interrupt::Other(halt.into()))?;
            let written =
                self.rows.write_net(self.tx, &writing, &net.net(), Origin::Merged { table: index }).await;
            written.map_err(|error| match error {
                RowError::Halt(halt) => Interrupt::Other(halt.into()),
                RowError::Op(error) => Interrupt::Op(error),
            })?;
            look_once(self.tx, table, index, self.batch).await?;
        }
        for change in part.changes.iter().filter(|change| !part.nets.contains_key(&change.table)) {
            self.write_change(change).await?;
        }
        Ok(self.tx.drain().await?)
    }

    async fn write_ordered(&mut self, part: &Part) -> Result<(), Interrupt> {
        for change in &part.changes {
            self.write_change(change).await?;
        }
        Ok(())
    }

    /// Sends the rows of one change, in its order.
    async fn write_change(&mut self, part_change: &PartChange) -> Result<(), Interrupt> {
        let PartChange { unit, gtid, table: index, change } = part_change;
        let interrupt = |failure: Failure| interrupt(*unit, gtid, change, failure);
        let Some(table) = self.tables.get_mut(*index) else { return Err(interrupt(unknown_table())) };
        table.check(&change.map).map_err(|halt| interrupt(halt.into()))?;
        let writing = table.writing().map_err(|halt| interrupt(halt.into()))?;
        let origin = Origin::Row { unit: *unit, table: *index };
        let written = self.rows.write(self.tx, &writing, change, origin).await;
        written.map_err(|error| match error {
            RowError::Halt(halt) => interrupt(halt.into()),
            RowError::Op(error) => Interrupt::Op(error),
        })?;
        Ok(look_once(self.tx, table, *index, self.batch).await?)
    }
}

/// Takes a change into its table's net effect, or passes over its rows where there is none.
/// Returns the number of rows.
fn collect(
    rows: &mut RowWriter,
    part: &mut Part,
    table: &Table,
    index: usize,
    change: &RowsChange,
) -> Result<u64, Halt> {
    let writing = table.writing()?;
    if !part.nets.contains_key(&index)
        && let Some(key) = KeyColumns::new(writing.model)
    {
        part.nets.insert(index, NetRows::new(key, writing.model.columns.len()));
    }
    match part.nets.get_mut(&index) {
        Some(net) => {
            let before = net.bytes();
            let count = rows.collect(writing.encoder, change, net)?;
            part.net_bytes += net.bytes() - before;
            Ok(count)
        }
        None => count(writing.encoder, change),
    }
}

fn count(encoder: &RowEncoder, change: &RowsChange) -> Result<u64, Halt> {
    let mut images = &change.images[..];
    let mut count = 0;
    while !images.is_empty() {
        encoder.skip(&mut images)?;
        if change.kind == RowsKind::Update {
            encoder.skip(&mut images)?;
        }
        count += 1;
    }
    Ok(count)
}

/// Asks, behind the table's first rows of a batch, whether the table still is what was checked.
async fn look_once(
    tx: &mut FencedTransaction<'_>,
    table: &mut Table,
    index: usize,
    batch: u64,
) -> Result<(), OpError> {
    let Some(params) = table.first_look(batch) else { return Ok(()) };
    tx.control(Origin::Look { table: index }, catalog::LOOK, params, Expect::Any).await
}

/// Whether the error is about the rows written, so that writing them in source order tells what
/// MySQL's own order leads to.
fn is_verdict(error: &OpError) -> bool {
    let is_row = matches!(error.origin, Origin::Row { .. } | Origin::Merged { .. });
    is_row
        && match &error.cause {
            Cause::Rows => true,
            Cause::Postgres(error) => error::is_about_rows(error),
        }
}

fn unknown_table() -> Failure {
    let detail =
        "the stream has rows of a table that is in tables.include and was neither copied nor created";
    Halt::new(Reason::SchemaDrift, detail).into()
}

fn interrupt(unit: usize, gtid: &Gtid, change: &RowsChange, failure: Failure) -> Interrupt {
    let name = TableName { database: change.map.database.clone(), table: change.map.table.clone() };
    Interrupt::Unit { unit, failure: on_row(failure, Some(gtid), Some(&name)) }
}

/// Names the transaction and table that a halt is about.
pub(super) fn on_row(failure: Failure, gtid: Option<&Gtid>, table: Option<&TableName>) -> Failure {
    let Failure::Halt(mut halt) = failure else { return failure };
    if let Some(gtid) = gtid {
        *halt = halt.at_gtid(gtid);
    }
    if let Some(TableName { database, table }) = table {
        *halt = halt.on_table(database, table);
    }
    Failure::Halt(halt)
}
