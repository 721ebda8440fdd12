//! What becomes of a value that has no exact image: the cold path of every conversion.
//!
//! A column's policies are resolved when its plan is built. A value that converts never comes
//! here; copy and stream both come here with the same cell, and so get the same bytes.

use super::{ConvertError, field, json, temporal, text};
use crate::binlog::cell::Cell;
use crate::halt::Halt;
use crate::schema::charset::Charset;
use crate::schema::policy::{ChangeForm, ColumnPolicies, Policy, TargetChange, ValueKind};
use crate::schema::{Column, MysqlType, TargetType};

/// What keeps a row from being written to the target's table as that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    Halt(Halt),
    /// A policy asks for another column first; then the row is to be converted anew.
    Change(TargetChange),
}

impl From<Halt> for Obstacle {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// How often policies were used, by column and kind. It holds as many entries as columns and kinds
/// that had a use, however many rows there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses(Vec<Use>);

/// The uses of a policy in one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    pub column: usize,
    pub kind: ValueKind,
    pub policy: Policy,
    pub count: u64,
}

impl Uses {
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes what has been counted.
    pub fn drain(&mut self) -> impl Iterator<Item = Use> + '_ {
        self.0.drain(..)
    }

    fn count(&mut self, column: usize, kind: ValueKind, policy: Policy) {
        let same = |used: &&mut Use| (used.column, used.kind, used.policy) == (column, kind, policy);
        match self.0.iter_mut().find(same) {
            Some(used) => used.count += 1,
            None => self.0.push(Use { column, kind, policy, count: 1 }),
        }
    }
}

/// What a column's values have to stay different for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Plain,
    /// A unique index beside the key: it takes any number of NULLs.
    Unique,
    /// The key: rows are found by it.
    Key,
}

/// The policies of one column, and what they depend on.
#[derive(Debug, Clone)]
pub(super) struct Settlement {
    policies: ColumnPolicies,
    /// NULL can be stored on the target.
    takes_null: bool,
    role: Role,
    charset: Option<Charset>,
    /// Characters that a varchar holds.
    length: Option<usize>,
}

/// How a value was settled that has no exact image.
pub(super) enum Settled {
    /// A field was appended.
    Stored,
    Refused(ConvertError),
    OnKey(ValueKind, Policy, Role),
    Change(TargetChange),
}

impl Settlement {
    pub(super) fn new(column: &Column, policies: ColumnPolicies, role: Role) -> Self {
        let charset = match &column.mysql {
            MysqlType::Char { charset, .. }
            | MysqlType::Varchar { charset, .. }
            | MysqlType::Text { charset } => Charset::from_name(charset),
            _ => None,
        };
        let length = match column.target {
            TargetType::Varchar { length } => usize::try_from(length).ok(),
            _ => None,
        };
        let takes_null = column.nullable || column.not_null_dropped;
        Self { policies, takes_null, role, charset, length }
    }

    /// Stores what the policy gives for the cell of column `index` that `error` kept out, and counts
    /// it. Nothing of the cell may be in `out`.
    #[cold]
    pub(super) fn settle(
        &self,
        index: usize,
        cell: Cell<'_>,
        error: ConvertError,
        out: &mut Vec<u8>,
        uses: &mut Uses,
    ) -> Settled {
        let Some(kind) = error.kind() else { return Settled::Refused(error) };
        let policy = self.policies.of(kind);
        let may_collide = match self.role {
            Role::Plain => false,
            Role::Unique => policy == Policy::Replace && !kind.stays_distinct(policy),
            Role::Key => !kind.stays_distinct(policy),
        };
        if may_collide {
            return Settled::OnKey(kind, policy, self.role);
        }
        let change = |form| Settled::Change(TargetChange { column: index, kind, form });
        match policy {
            Policy::Refuse => return Settled::Refused(error),
            Policy::Null if !self.takes_null => return change(ChangeForm::DropNotNull),
            Policy::Widen => return change(ChangeForm::Widen),
            Policy::Null => field::put_null(out),
            Policy::Replace => {
                if let Err(error) = self.replace(kind, cell, out) {
                    return Settled::Refused(error);
                }
            }
        }
        uses.count(index, kind, policy);
        Settled::Stored
    }

    fn replace(&self, kind: ValueKind, cell: Cell<'_>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        match (kind, cell) {
            (ValueKind::ZeroDate, Cell::Date(_)) => field::put(temporal::DATE_BEFORE_ALL.to_be_bytes(), out),
            (ValueKind::ZeroDate, Cell::DateTime { .. } | Cell::Timestamp { .. }) => {
                field::put(temporal::TIMESTAMP_BEFORE_ALL.to_be_bytes(), out);
            }
            (ValueKind::PartialDate | ValueKind::YearZero, Cell::Date(date)) => {
                field::put(temporal::nearest_date(date)?.to_be_bytes(), out);
            }
            (
                ValueKind::PartialDate | ValueKind::YearZero,
                Cell::DateTime { date, hour, minute, second, micros },
            ) => {
                let nearest = temporal::nearest_timestamp(date, [hour, minute, second], micros)?;
                field::put(nearest.to_be_bytes(), out);
            }
            (ValueKind::NulText | ValueKind::InvalidBytes, Cell::Bytes(bytes)) => {
                return self.replace_text(kind, bytes, out);
            }
            (ValueKind::NulJson, Cell::JsonBinary(document)) => return json::replace_binary(document, out),
            (ValueKind::NulJson, Cell::JsonText(document)) => return json::replace_text(document, out),
            _ => return Err(ConvertError::UnexpectedKind),
        }
        Ok(())
    }

    /// Text may have both problems; each is replaced only if its own policy says so.
    fn replace_text(&self, kind: ValueKind, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
        let charset = self.charset.ok_or(ConvertError::UnexpectedKind)?;
        let replaces = |kind| self.policies.of(kind) == Policy::Replace;
        let replaced = text::Replaced {
            nul: kind == ValueKind::NulText || replaces(ValueKind::NulText),
            invalid: kind == ValueKind::InvalidBytes || replaces(ValueKind::InvalidBytes),
        };
        text::write_replaced(charset, bytes, replaced, self.length, out)
    }
}

impl ConvertError {
    /// The kind of value that a policy can be about.
    #[must_use]
    pub const fn kind(self) -> Option<ValueKind> {
        Some(match self {
            Self::ZeroDate => ValueKind::ZeroDate,
            Self::PartialDate => ValueKind::PartialDate,
            Self::YearZero => ValueKind::YearZero,
            Self::BeyondBoolean => ValueKind::BeyondBoolean,
            Self::NulCharacter => ValueKind::NulText,
            Self::NulEscape => ValueKind::NulJson,
            Self::InvalidBytes => ValueKind::InvalidBytes,
            Self::OutOfRange => ValueKind::OutOfRange,
            Self::AmbiguousKey
            | Self::NoGeometry
            | Self::NotInPostgis(_)
            | Self::Malformed
            | Self::UnexpectedKind => return None,
        })
    }
}

#[cfg(test)]
mod tests;
