//! The rows of a batch: collected into parts, each written by its net effect or in source order.
//!
//! - A part of few rows is written in exact source order: MySQL accepted that order.
//! - A larger part is written by its net effect per key, tables one after the other, deletes before
//!   upserts. Triggers and foreign keys are silent, so that the order of tables makes no difference.
//! - Merging can meet unique constraints in an order that MySQL never saw, as when two rows swap a
//!   value. Whatever fails in a merged part, the part is undone and written in exact source order:
//!   the verdict is always that of this order, and names the transaction.
//! - Tables without a key keep their own order within the part.

use std::collections::HashMap;

use super::catalog;
use super::checkpoint::CommitError;
use super::conversions::Ledger;
use super::error;
use super::part::{Converted, Part, Place, RowChange};
use super::rows::{RowError, RowWriter, SET_ROWS_MIN};
use super::tables::{Table, Tables};
use super::transaction::{Cause, Expect, FencedTransaction, OpError, Origin};
use crate::convert::Obstacle;
use crate::fold::unit::{RowsChange, RowsKind, Transaction};
use crate::gtid::Gtid;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::TableName;
use crate::schema::policy::TargetChange;

/// Up to this many rows a part is written in source order: statements in flight behind one another
/// are then as quick, and there is nothing to undo.
const ORDERED_ROWS_MAX: usize = 16;

/// Writes the rows of one attempt at a batch.
pub(super) struct BatchWriter<'a, 'tx> {
    tx: &'a mut FencedTransaction<'tx>,
    tables: &'a mut Tables,
    rows: &'a mut RowWriter,
    /// Number of the batch.
    batch: u64,
    part: Part,
    /// Of the change in hand.
    converted: Converted,
    written: Written,
    ledger: Ledger,
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

/// A change of a table's column that a transaction's row needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) table: usize,
    pub(super) change: TargetChange,
    pub(super) gtid: Gtid,
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
    Change(Needed),
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

impl<'a, 'tx> BatchWriter<'a, 'tx> {
    /// `ledger` has what the transaction has changed for its rows already.
    pub(super) fn new(
        tx: &'a mut FencedTransaction<'tx>,
        tables: &'a mut Tables,
        rows: &'a mut RowWriter,
        ledger: Ledger,
    ) -> Self {
        let batch = tables.begin_batch();
        let (part, converted, written) = Default::default();
        Self { tx, tables, rows, batch, part, converted, written, ledger }
    }

    /// Takes in the changes of the batch's unit with this index.
    pub(super) async fn add(&mut self, unit: usize, transaction: &Transaction) -> Result<(), Interrupt> {
        for change in transaction.changes.iter() {
            let change = change
                .map_err(|halt| Interrupt::Unit { unit, failure: halt.at_gtid(&transaction.gtid).into() })?;
            self.add_change(unit, &transaction.gtid, &change).await?;
            if self.part.is_full() {
                self.write_part().await?;
            }
        }
        Ok(())
    }

    /// Writes what is left. Statements may be in flight afterwards.
    pub(super) async fn finish(mut self) -> Result<(Written, Ledger), Interrupt> {
        self.write_part().await?;
        Ok((self.written, self.ledger))
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
        let writing = table.writing().map_err(|halt| interrupt(halt.into()))?;
        let place = Place { unit, table: index };
        let added = self.part.add(place, (writing.model, writing.encoder), change, &mut self.converted);
        let rows = added.map_err(|obstacle| match obstacle {
            Obstacle::Halt(halt) => interrupt(halt.into()),
            Obstacle::Change(change) => {
                Interrupt::Change(Needed { table: index, change, gtid: gtid.clone() })
            }
        })?;
        self.ledger.stored(index, &mut self.converted.stored, Some(gtid));
        self.ledger.removed(index, &mut self.converted.removed);
        *self.written.rows.entry((index, change.kind)).or_default() += rows;
        self.written.image_bytes += change.images.len() as u64;
        Ok(())
    }

    async fn write_part(&mut self) -> Result<(), Interrupt> {
        let mut part = std::mem::take(&mut self.part);
        if part.len() <= ORDERED_ROWS_MAX || part.nets().next().is_none() {
            self.write_rows(part.rows()).await?;
        } else {
            self.write_merged(&part).await?;
        }
        part.clear();
        self.part = part;
        Ok(())
    }

    /// By net effect; where that fails, in source order.
    async fn write_merged(&mut self, part: &Part) -> Result<(), Interrupt> {
        // What fails in an earlier part must not pass for a failure of this one.
        let client = self.tx.quiet_client().await?;
        for (index, net, _) in part.nets() {
            if net.changes() >= SET_ROWS_MIN {
                let table = known(self.tables, index)?;
                table.prepare_many(client).await.map_err(Interrupt::Other)?;
            }
        }
        self.tx.begin_part().await?;
        match self.write_net(part).await {
            Ok(()) => self.written.merged += 1,
            Err(Interrupt::Op(error)) if is_verdict(&error) => {
                self.tx.undo_part().await?;
                self.tables.forget_looks(self.batch);
                self.written.conflicts += 1;
                self.write_rows(part.rows()).await?;
            }
            Err(interrupt) => return Err(interrupt),
        }
        Ok(self.tx.keep_part().await?)
    }

    async fn write_net(&mut self, part: &Part) -> Result<(), Interrupt> {
        for (index, net, fields) in part.nets() {
            let table = known(self.tables, index)?;
            let (writing, origin) = (table.writing().map_err(other)?, Origin::Merged { table: index });
            let written = self.rows.write_net(self.tx, &writing, &net.net(fields), origin).await;
            written.map_err(|error| match error {
                RowError::Halt(halt) => other(halt),
                RowError::Op(error) => Interrupt::Op(error),
            })?;
            look_once(self.tx, table, index, self.batch).await?;
        }
        self.write_rows(part.unmerged_rows()).await?;
        Ok(self.tx.drain().await?)
    }

    /// Sends rows in their order.
    async fn write_rows<'r>(&mut self, rows: impl Iterator<Item = RowChange<'r>>) -> Result<(), Interrupt> {
        for row in rows {
            let index = row.place.table;
            let table = known(self.tables, index)?;
            self.rows.write(self.tx, &table.writing().map_err(other)?, &row).await?;
            look_once(self.tx, table, index, self.batch).await?;
        }
        Ok(())
    }
}

/// A table that a change was taken in for.
fn known(tables: &mut Tables, index: usize) -> Result<&mut Table, Interrupt> {
    tables.get_mut(index).ok_or_else(|| Interrupt::Other(unknown_table()))
}

fn other(halt: Halt) -> Interrupt {
    Interrupt::Other(halt.into())
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
