//! From a source value to PostgreSQL's binary form of the target's column.
//!
//! A field is what both `COPY … BINARY` and Bind take: an `i32` length, -1 for NULL, and the bytes
//! that the type's receive function reads (PostgreSQL manual, "COPY", "Binary Format", and
//! "Message Formats", Bind).
//!
//! - A value is converted exactly, or as the operator's policy for its kind says, or not at all.
//!   The receive functions round numbers and fractions of seconds, and cut blanks off text, in
//!   silence to fit a column's type; here every value is checked, or known by its type, to fit
//!   without that.
//! - Equal values have equal bytes, whether they come from the binlog or from a result set, so that
//!   encoded keys can be compared.
//! - Errors name kinds of problems, never values.

mod column;
mod decimal;
mod field;
mod json;
mod policy;
mod spatial;
mod temporal;
mod text;
mod vector;

use crate::binlog::DecodeError;
use crate::binlog::cell::Cell;
use crate::binlog::row_image::RowReader;
use crate::binlog::table_map::TableMap;
use crate::halt::{Halt, Reason};
use crate::schema::charset::TextError;
use crate::schema::objects::is_in_unique_index;
use crate::schema::policy::{Policies, Policy, TargetChange, ValueKind};
use crate::schema::{Column, TableModel, TableName};

pub use column::ColumnPlan;
use policy::Settled;
pub use policy::{Obstacle, Role, Use, Uses};
pub use spatial::NotInPostgis;

/// Why a value can't be stored on the target as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    #[error("does not fit the target's type")]
    OutOfRange,
    #[error("is not valid in the column's character set")]
    InvalidBytes,
    #[error("holds a NUL character, which PostgreSQL's text can't")]
    NulCharacter,
    /// Keys that differ on the source would be one on the target.
    #[error(
        "holds, in a key, a character in one of several byte sequences that its character set has for it"
    )]
    AmbiguousKey,
    #[error("holds a NUL character, which PostgreSQL's jsonb can't")]
    NulEscape,
    #[error("is the date 0000-00-00, which PostgreSQL does not have")]
    ZeroDate,
    /// A month or day of zero, or a day that its month does not have.
    #[error("is a date that does not exist")]
    PartialDate,
    /// Year 0 is a date to MySQL; PostgreSQL has no such year, and it is no day of 1 BC either.
    #[error("is a date of the year 0, which PostgreSQL does not have")]
    YearZero,
    /// The server stores an empty value for the implicit default of a NOT NULL column.
    #[error("is no geometry")]
    NoGeometry,
    /// PostGIS's type would refuse or change it; bytea does not.
    #[error("{0}; bytea, as which [types] can have the column, keeps it")]
    NotInPostgis(#[from] NotInPostgis),
    #[error("is neither 0 nor 1, and the target's column is boolean")]
    BeyondBoolean,
    #[error("contradicts its own encoding")]
    Malformed,
    /// The producer of the cell and the plan disagree about the column's type.
    #[error("came in a form that the column's type does not have")]
    UnexpectedKind,
}

impl From<TextError> for ConvertError {
    fn from(error: TextError) -> Self {
        match error {
            TextError::Nul => Self::NulCharacter,
            TextError::Invalid => Self::InvalidBytes,
        }
    }
}

impl ConvertError {
    /// The halt that the error leads to.
    #[must_use]
    pub fn into_halt(self, table: &TableName, column: &str) -> Halt {
        let reason = match self {
            Self::OutOfRange | Self::YearZero | Self::BeyondBoolean => Reason::ValueOutOfRange,
            Self::InvalidBytes
            | Self::NulCharacter
            | Self::NulEscape
            | Self::ZeroDate
            | Self::PartialDate
            | Self::AmbiguousKey
            | Self::NoGeometry
            | Self::NotInPostgis(_) => Reason::ValueInvalid,
            Self::Malformed => Reason::EventMalformed,
            Self::UnexpectedKind => Reason::Internal,
        };
        let policy = self.kind().map(|kind| format!("; its policy `{kind}` is refuse")).unwrap_or_default();
        let halt = Halt::new(reason, format!("a value of column `{column}` {self}{policy}"));
        halt.on_table(&table.database, &table.table)
    }
}

/// The conversions of a table's columns, compiled once.
#[derive(Debug, Clone)]
pub struct TablePlan {
    name: TableName,
    columns: Box<[ColumnPlan]>,
}

impl TablePlan {
    /// # Errors
    /// `unsupported_type`, `unsupported_charset`; `internal_error` where a stored target type is
    /// not the one of its source type.
    pub fn new(model: &TableModel, policies: &Policies) -> Result<Self, Halt> {
        let compile = |(index, column): (usize, &Column)| {
            let own = policies.of(&model.name, &column.name);
            let role = match model.key.contains(&index) {
                true => Role::Key,
                false if is_in_unique_index(model, &column.name) => Role::Unique,
                false => Role::Plain,
            };
            ColumnPlan::new(&model.name, column, own, role)
        };
        let columns = model.columns.iter().enumerate().map(compile).collect::<Result<_, Halt>>()?;
        Ok(Self { name: model.name.clone(), columns })
    }

    /// Columns in source order: a row has as many fields.
    #[must_use]
    pub fn columns(&self) -> &[ColumnPlan] {
        &self.columns
    }

    /// Appends the field of one column, by its policy where the value has no exact image, which
    /// `uses` counts then.
    ///
    /// # Errors
    /// Where the value can't be stored.
    pub fn write(
        &self,
        index: usize,
        cell: Cell<'_>,
        out: &mut Vec<u8>,
        uses: &mut Uses,
    ) -> Result<(), Obstacle> {
        self.put(index, cell, out, uses).map_err(|fault| self.obstacle(fault))
    }

    fn put(&self, index: usize, cell: Cell<'_>, out: &mut Vec<u8>, uses: &mut Uses) -> Result<(), Fault> {
        match self.columns.get(index) {
            Some(plan) => match plan.write(cell, out) {
                Ok(()) => Ok(()),
                Err(error) => settle(plan, index, cell, error, out, uses),
            },
            None => Err(Fault::Value(index, ConvertError::UnexpectedKind)),
        }
    }

    #[cold]
    fn obstacle(&self, fault: Fault) -> Obstacle {
        let TableName { database, table } = &self.name;
        let column = |index: usize| self.columns.get(index).map_or("?", ColumnPlan::name);
        let halt = match fault {
            Fault::Image(error) => Halt::new(Reason::EventMalformed, error.to_string()),
            Fault::Value(index, error) => error.into_halt(&self.name, column(index)),
            Fault::OnKey(index, kind, policy, role) => {
                let (of, made_one) = match role {
                    Role::Key => ("key column", "two keys one"),
                    Role::Plain | Role::Unique => ("column", "two values of a unique index one"),
                };
                let detail = format!(
                    "a value of {of} `{}` is of kind {kind}, whose policy {policy} could make {made_one}",
                    column(index)
                );
                Halt::new(Reason::ConversionOnKey, detail)
            }
            Fault::Change(change) => return Obstacle::Change(change),
        };
        Obstacle::Halt(halt.on_table(database, table))
    }

    #[cold]
    fn wrong_width(&self, present: usize) -> Halt {
        let detail = format!("a row has {present} columns where the table model has {}", self.columns.len());
        Halt::new(Reason::Internal, detail).on_table(&self.name.database, &self.name.table)
    }
}

#[cold]
#[inline(never)]
fn settle(
    plan: &ColumnPlan,
    index: usize,
    cell: Cell<'_>,
    error: ConvertError,
    out: &mut Vec<u8>,
    uses: &mut Uses,
) -> Result<(), Fault> {
    match plan.settlement().settle(index, cell, error, out, uses) {
        Settled::Stored => Ok(()),
        Settled::Refused(error) => Err(Fault::Value(index, error)),
        Settled::OnKey(kind, policy, role) => Err(Fault::OnKey(index, kind, policy, role)),
        Settled::Change(change) => Err(Fault::Change(change)),
    }
}

/// What stops a row: its image, or the value of one column.
enum Fault {
    Image(DecodeError),
    Value(usize, ConvertError),
    OnKey(usize, ValueKind, Policy, Role),
    Change(TargetChange),
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Image(error)
    }
}

/// A row that does not convert as it is; what is the matter comes out when it is settled. As small as
/// an error can be: every cell's conversion returns one.
struct Unsettled;

impl From<DecodeError> for Unsettled {
    fn from(_: DecodeError) -> Self {
        Self
    }
}

/// From the row images of one table map to rows of fields.
#[derive(Debug, Clone)]
pub struct RowEncoder {
    reader: RowReader,
    plan: TablePlan,
}

impl RowEncoder {
    /// The map must have passed [`crate::schema::diff::check_map`] with this model.
    ///
    /// # Errors
    /// As [`TablePlan::new`].
    pub fn new(model: &TableModel, map: &TableMap, policies: &Policies) -> Result<Self, Halt> {
        let (plan, reader) = (TablePlan::new(model, policies)?, RowReader::new(map));
        if reader.columns() == plan.columns.len() {
            Ok(Self { reader, plan })
        } else {
            Err(plan.wrong_width(reader.columns()))
        }
    }

    /// Takes one full image off the front of `images` and appends its fields, in column order.
    /// `uses` counts the values that a policy gave.
    ///
    /// # Errors
    /// `event_malformed`, or what keeps the first value from being stored. `out` then holds a part
    /// of the row, and `images` is in no defined place.
    #[inline]
    pub fn encode(&self, images: &mut &[u8], out: &mut Vec<u8>, uses: &mut Uses) -> Result<(), Obstacle> {
        let (row, start) = (*images, out.len());
        let columns = &*self.plan.columns;
        let converted = self.reader.read_row(images, |index, cell| match columns.get(index) {
            Some(plan) => plan.write(cell, out).map_err(|_| Unsettled),
            None => Err(Unsettled),
        });
        if converted.is_ok() {
            return Ok(());
        }
        out.truncate(start);
        *images = row;
        self.settle_row(images, out, uses)
    }

    /// Takes an image from the start, with the columns' policies. Keeping each cell at hand for them
    /// would cost every row; converting the rare row twice costs that row alone.
    #[cold]
    #[inline(never)]
    fn settle_row(&self, images: &mut &[u8], out: &mut Vec<u8>, uses: &mut Uses) -> Result<(), Obstacle> {
        self.reader
            .read_row(images, |index, cell| self.plan.put(index, cell, out, uses))
            .map_err(|fault| self.plan.obstacle(fault))
    }

    /// Passes over one image that nobody needs.
    ///
    /// # Errors
    /// `event_malformed`.
    pub fn skip(&self, images: &mut &[u8]) -> Result<(), Obstacle> {
        self.reader.skip_row(images).map_err(|error| self.plan.obstacle(Fault::Image(error)))
    }
}

#[cfg(test)]
mod tests;
