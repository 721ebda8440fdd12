//! The net effect of row changes on one keyed table: for each key the row that it ends with, or
//! none. Pure.
//!
//! Changes are upserts and deletes of whole rows, so that what a key holds after a run of them is
//! decided by the last one alone, whatever the table held before. A key change is a delete of the
//! old key and an upsert of the new one.

use std::cmp::Ordering;
use std::ops::Range;

use super::params::{Field, Fields};
use crate::schema::{TableModel, TargetType};

/// Collects changes of one table in source order. The rows stay with the caller, whose fields every
/// call must bring: a row is a place in these.
pub(super) struct NetRows {
    key: KeyColumns,
    columns: usize,
    /// The keys' fields, one behind the other.
    keys: Vec<u8>,
    changes: Vec<Change>,
}

/// One change. Where several have one key, the last one counts.
struct Change {
    /// The first bytes of the key that differ between short keys: most comparisons end here.
    prefix: u64,
    key: Range<usize>,
    /// `None` is a delete.
    row: Option<Range<usize>>,
}

/// The key's columns, and how their fields become comparable.
#[derive(Debug, Clone)]
pub(super) struct KeyColumns(Box<[KeyColumn]>);

#[derive(Debug, Clone, Copy)]
struct KeyColumn {
    index: usize,
    is_float: bool,
}

/// What is to be written for a table, deletes before upserts: each key occurs once.
pub(super) struct Net<'a> {
    /// Fields of the key columns, in key order.
    pub(super) deletes: Vec<&'a [u8]>,
    /// Fields of all columns, in column order.
    pub(super) upserts: Vec<&'a [u8]>,
}

impl KeyColumns {
    /// `None` where equal bytes of fields are not the target's equality, or there is no key: such
    /// a table's changes can't be merged.
    ///
    /// Every other type has one encoding for each value, as the converter promises: decimals have
    /// their column's scale and no spare digits, intervals are microseconds alone, text keys have
    /// a deterministic collation, which the target's check asks for.
    pub(super) fn new(model: &TableModel) -> Option<Self> {
        if model.key.is_empty() {
            return None;
        }
        let column = |&index: &usize| {
            let is_float = match model.columns.get(index)?.target {
                TargetType::Real | TargetType::DoublePrecision => true,
                TargetType::Boolean
                | TargetType::SmallInt
                | TargetType::Integer
                | TargetType::BigInt
                | TargetType::Numeric { .. }
                | TargetType::Varchar { .. }
                | TargetType::Text
                | TargetType::Bytea
                | TargetType::Bit { .. }
                | TargetType::Date
                | TargetType::Timestamp { .. }
                | TargetType::TimestampTz { .. }
                | TargetType::Interval { .. } => false,
                TargetType::Jsonb | TargetType::RealArray | TargetType::Geometry { .. } => return None,
            };
            Some(KeyColumn { index, is_float })
        };
        model.key.iter().map(column).collect::<Option<_>>().map(Self)
    }

    /// Appends the fields of a row's key; equal keys get equal bytes. `false` when the row is not
    /// one of this table.
    fn append(&self, row: &[u8], columns: usize, out: &mut Vec<u8>) -> bool {
        for column in &*self.0 {
            let Some(Field::Value(value)) = Fields::new(row, columns).nth(column.index) else { return false };
            let Ok(length) = i32::try_from(value.len()) else { return false };
            out.extend_from_slice(&length.to_be_bytes());
            let start = out.len();
            out.extend_from_slice(value);
            if column.is_float {
                make_zero_positive(out.get_mut(start..).unwrap_or_default());
            }
        }
        true
    }
}

/// The two zeros are equal to both servers: -0 has nothing but the sign's bit.
fn make_zero_positive(float: &mut [u8]) {
    if let Some((0x80, rest)) = float.split_first()
        && rest.iter().all(|&byte| byte == 0)
    {
        float.fill(0);
    }
}

/// The row has no such key: the converter and the model disagree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotThisTable;

impl NetRows {
    pub(super) fn new(key: KeyColumns, columns: usize) -> Self {
        Self { key, columns, keys: Vec::new(), changes: Vec::new() }
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.keys.len() + self.changes.len() * size_of::<Change>()
    }

    /// Number of changes; a key change is two.
    pub(super) const fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Forgets the changes and keeps the buffers.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.changes.clear();
    }

    /// The row is there afterwards, whether its key was there before or not.
    pub(super) fn upsert(&mut self, fields: &[u8], row: &Range<usize>) -> Result<(), NotThisTable> {
        let key = self.append_key(fields, row)?;
        self.push(key, Some(row.clone()));
        Ok(())
    }

    /// The key of this row is gone afterwards.
    pub(super) fn delete(&mut self, fields: &[u8], row: &Range<usize>) -> Result<(), NotThisTable> {
        let key = self.append_key(fields, row)?;
        self.push(key, None);
        Ok(())
    }

    /// The row `before` has become `after`.
    pub(super) fn update(
        &mut self,
        fields: &[u8],
        before: &Range<usize>,
        after: &Range<usize>,
    ) -> Result<(), NotThisTable> {
        let old = self.append_key(fields, before)?;
        let new = self.append_key(fields, after)?;
        if self.keys.get(old.clone()) == self.keys.get(new.clone()) {
            self.keys.truncate(new.start);
            self.push(old, Some(after.clone()));
        } else {
            self.push(old, None);
            self.push(new, Some(after.clone()));
        }
        Ok(())
    }

    /// What is left of the changes, in the order of the keys' bytes: neighbours in the index are
    /// written one after the other.
    pub(super) fn net<'a>(&'a self, fields: &'a [u8]) -> Net<'a> {
        let keys = &self.keys;
        let mut sorted: Vec<&Change> = self.changes.iter().collect();
        // Stable: of changes with one key the last stays the last.
        sorted.sort_by(|a, b| compare(keys, a, b));
        let mut net = Net { deletes: Vec::new(), upserts: Vec::new() };
        for (index, change) in sorted.iter().enumerate() {
            let next = sorted.get(index + 1);
            if next.is_some_and(|next| compare(keys, change, next) == Ordering::Equal) {
                continue;
            }
            match &change.row {
                Some(row) => net.upserts.extend(fields.get(row.clone())),
                None => net.deletes.extend(keys.get(change.key.clone())),
            }
        }
        net
    }

    fn append_key(&mut self, fields: &[u8], row: &Range<usize>) -> Result<Range<usize>, NotThisTable> {
        let start = self.keys.len();
        let row = fields.get(row.clone()).ok_or(NotThisTable)?;
        if self.key.append(row, self.columns, &mut self.keys) {
            Ok(start..self.keys.len())
        } else {
            Err(NotThisTable)
        }
    }

    fn push(&mut self, key: Range<usize>, row: Option<Range<usize>>) {
        let prefix = prefix(self.keys.get(key.clone()).unwrap_or_default());
        self.changes.push(Change { prefix, key, row });
    }
}

fn compare(keys: &[u8], a: &Change, b: &Change) -> Ordering {
    let key = |change: &Change| keys.get(change.key.clone());
    a.prefix.cmp(&b.prefix).then_with(|| key(a).cmp(&key(b)))
}

/// The first eight bytes of the first field's value, filled up with zeros.
fn prefix(key: &[u8]) -> u64 {
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(key.iter().skip(4)) {
        *to = *from;
    }
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests;
