//! The changes of a part of a batch: each row converted once, and what they come to for each key.
//! Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use super::net::{KeyColumns, NetRows, NotThisTable};
use crate::convert::{Obstacle, RowEncoder, Uses};
use crate::fold::unit::{RowsChange, RowsKind};
use crate::halt::{Halt, Reason};
use crate::schema::TableModel;

/// A part is full beyond this many bytes: bounds what is held as rows and keys, and what a
/// conflict repeats.
const BYTES_MAX: usize = 8 << 20;

/// A part is full beyond this many rows, however small: bounds the bookkeeping of each.
const ROWS_MAX: usize = 100_000;

/// Changes that are not written yet.
#[derive(Default)]
pub(super) struct Part {
    /// The fields of every row before and after its change, one behind the other.
    fields: Vec<u8>,
    /// In source order.
    changes: Vec<Change>,
    /// Net effects by the tables' indexes; `None` for a table whose changes can't be merged.
    nets: BTreeMap<usize, Option<NetRows>>,
    net_bytes: usize,
}

/// Indexes of the batch's unit that made a change, and of the registry's table that it changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) unit: usize,
    pub(super) table: usize,
}

/// The change of one row, its fields as ranges of the part's.
struct Change {
    place: Place,
    kind: RowsKind,
    before: Range<usize>,
    after: Range<usize>,
}

/// The change of one row. An inserted row has nothing before, a deleted one nothing after.
pub(super) struct RowChange<'a> {
    pub(super) place: Place,
    pub(super) kind: RowsKind,
    pub(super) before: &'a [u8],
    pub(super) after: &'a [u8],
}

/// The values of rows that policies gave.
#[derive(Default)]
pub(super) struct Converted {
    /// In what the rows are now.
    pub(super) stored: Uses,
    /// In what they were before.
    pub(super) removed: Uses,
}

impl Part {
    /// Takes in the rows of an event. Returns their number.
    ///
    /// Every row is converted here and nowhere else, in source order, whatever becomes of it: what
    /// can't be stored stops the batch, and what a policy gives is counted, also where a later
    /// change of the same row leaves nothing of it.
    pub(super) fn add(
        &mut self,
        place: Place,
        (model, encoder): (&TableModel, &RowEncoder),
        change: &RowsChange,
        converted: &mut Converted,
    ) -> Result<u64, Obstacle> {
        let net = self
            .nets
            .entry(place.table)
            .or_insert_with(|| KeyColumns::new(model).map(|key| NetRows::new(key, model.columns.len())));
        let bytes_before = net.as_ref().map_or(0, NetRows::bytes);
        let (mut images, mut rows, kind) = (&change.images[..], 0, change.kind);
        while !images.is_empty() {
            let start = self.fields.len();
            if kind != RowsKind::Write {
                encoder.encode(&mut images, &mut self.fields, &mut converted.removed)?;
            }
            let middle = self.fields.len();
            if kind != RowsKind::Delete {
                encoder.encode(&mut images, &mut self.fields, &mut converted.stored)?;
            }
            let change = Change { place, kind, before: start..middle, after: middle..self.fields.len() };
            if let Some(net) = net {
                merge(net, &self.fields, &change)?;
            }
            self.changes.push(change);
            rows += 1;
        }
        self.net_bytes += net.as_ref().map_or(0, NetRows::bytes) - bytes_before;
        Ok(rows)
    }

    pub(super) const fn is_full(&self) -> bool {
        self.changes.len() > ROWS_MAX || self.fields.len() + self.net_bytes > BYTES_MAX
    }

    /// Number of row changes.
    pub(super) const fn len(&self) -> usize {
        self.changes.len()
    }

    /// Every change, in source order.
    pub(super) fn rows(&self) -> impl Iterator<Item = RowChange<'_>> {
        let fields = |range: &Range<usize>| self.fields.get(range.clone()).unwrap_or_default();
        self.changes.iter().map(move |Change { place, kind, before, after }| RowChange {
            place: *place,
            kind: *kind,
            before: fields(before),
            after: fields(after),
        })
    }

    /// Changes of tables that have no net effect, in source order.
    pub(super) fn unmerged_rows(&self) -> impl Iterator<Item = RowChange<'_>> {
        self.rows().filter(|row| !matches!(self.nets.get(&row.place.table), Some(Some(_))))
    }

    /// The net effects of tables with changes, by the tables' indexes. [`NetRows::net`] wants the
    /// fields that come with each.
    pub(super) fn nets(&self) -> impl Iterator<Item = (usize, &NetRows, &[u8])> {
        self.nets.iter().filter_map(|(&table, net)| {
            let net = net.as_ref().filter(|net| net.changes() > 0)?;
            Some((table, net, &self.fields[..]))
        })
    }

    /// Forgets the changes and keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.fields.clear();
        self.changes.clear();
        self.nets.values_mut().flatten().for_each(NetRows::clear);
        self.net_bytes = 0;
    }
}

fn merge(net: &mut NetRows, fields: &[u8], change: &Change) -> Result<(), Halt> {
    let Change { kind, before, after, .. } = change;
    let merged = match kind {
        RowsKind::Write => net.upsert(fields, after),
        RowsKind::Delete => net.delete(fields, before),
        RowsKind::Update => net.update(fields, before, after),
    };
    merged.map_err(|NotThisTable| Halt::new(Reason::Internal, "a row has no key"))
}
