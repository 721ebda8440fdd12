//! From a source value to PostgreSQL's binary form of the target's column.
//!
//! A field is what both `COPY … BINARY` and Bind take: an `i32` length, -1 for NULL, and the bytes
//! that the type's receive function reads (PostgreSQL manual, "COPY", "Binary Format", and
//! "Message Formats", Bind).
//!
//! - A value is converted exactly or not at all. The receive functions round numbers and fractions
//!   of seconds, and cut blanks off text, in silence to fit a column's type; here every value is
//!   checked, or known by its type, to fit without that.
//! - Equal values have equal bytes, whether they come from the binlog or from a result set, so that
//!   encoded keys can be compared.
//! - Errors name kinds of problems, never values.

mod column;
mod decimal;
mod field;
mod json;
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
use crate::schema::{TableModel, TableName};

pub use column::ColumnPlan;

/// Why a value can't be stored on the target as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    #[error("does not fit the target's type")]
    OutOfRange,
    #[error("is not valid in the column's character set")]
    InvalidBytes,
    #[error("holds a NUL character, which PostgreSQL's text and jsonb can't")]
    NulCharacter,
    /// Keys that differ on the source would be one on the target.
    #[error(
        "holds, in a key, a character in one of several byte sequences that its character set has for it"
    )]
    AmbiguousKey,
    /// A month or day of zero, or a day that its month does not have.
    #[error("is a date that does not exist, in a column that is NOT NULL")]
    ImpossibleDate,
    /// Year 0 is a date to MySQL; PostgreSQL has no such year, and it is no day of 1 BC either.
    #[error("is a date of the year 0, which PostgreSQL does not have")]
    YearZero,
    /// The server stores an empty value for the implicit default of a NOT NULL column.
    #[error("is no geometry")]
    NoGeometry,
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
            Self::OutOfRange | Self::YearZero => Reason::ValueOutOfRange,
            Self::InvalidBytes
            | Self::NulCharacter
            | Self::AmbiguousKey
            | Self::ImpossibleDate
            | Self::NoGeometry => Reason::ValueInvalid,
            Self::Malformed => Reason::EventMalformed,
            Self::UnexpectedKind => Reason::Internal,
        };
        let halt = Halt::new(reason, format!("a value of column `{column}` {self}"));
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
    pub fn new(model: &TableModel) -> Result<Self, Halt> {
        let compile = |(index, column)| {
            let plan = ColumnPlan::new(&model.name, column)?;
            Ok(if model.key.contains(&index) { plan.of_key() } else { plan })
        };
        let columns = model.columns.iter().enumerate().map(compile).collect::<Result<_, Halt>>()?;
        Ok(Self { name: model.name.clone(), columns })
    }

    /// Columns in source order: a row has as many fields.
    #[must_use]
    pub fn columns(&self) -> &[ColumnPlan] {
        &self.columns
    }

    /// Appends the fields of one row.
    ///
    /// # Errors
    /// The halt of the first value that can't be converted; `out` then holds a part of the row.
    pub fn encode_cells(&self, cells: &[Cell<'_>], out: &mut Vec<u8>) -> Result<(), Halt> {
        if cells.len() != self.columns.len() {
            return Err(self.wrong_width(cells.len()));
        }
        for (index, (plan, cell)) in self.columns.iter().zip(cells).enumerate() {
            plan.write(*cell, out).map_err(|error| self.halt(Fault::Value(index, error)))?;
        }
        Ok(())
    }

    #[cold]
    fn halt(&self, fault: Fault) -> Halt {
        match fault {
            Fault::Image(error) => Halt::new(Reason::EventMalformed, error.to_string())
                .on_table(&self.name.database, &self.name.table),
            Fault::Value(index, error) => {
                let column = self.columns.get(index).map_or("?", ColumnPlan::name);
                error.into_halt(&self.name, column)
            }
        }
    }

    #[cold]
    fn wrong_width(&self, present: usize) -> Halt {
        let detail = format!("a row has {present} columns where the table model has {}", self.columns.len());
        Halt::new(Reason::Internal, detail).on_table(&self.name.database, &self.name.table)
    }
}

/// What stops a row: its image, or the value of one column.
enum Fault {
    Image(DecodeError),
    Value(usize, ConvertError),
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Image(error)
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
    pub fn new(model: &TableModel, map: &TableMap) -> Result<Self, Halt> {
        let (plan, reader) = (TablePlan::new(model)?, RowReader::new(map));
        if reader.columns() == plan.columns.len() {
            Ok(Self { reader, plan })
        } else {
            Err(plan.wrong_width(reader.columns()))
        }
    }

    /// Takes one full image off the front of `images` and appends its fields, in column order.
    ///
    /// # Errors
    /// `event_malformed`, or the halt of the first value that can't be converted. `out` then holds
    /// a part of the row and `images` is in no defined place.
    #[inline]
    pub fn encode(&self, images: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Halt> {
        let columns = &*self.plan.columns;
        self.reader
            .read_row(images, |index, cell| match columns.get(index) {
                Some(plan) => plan.write(cell, out).map_err(|error| Fault::Value(index, error)),
                None => Err(Fault::Value(index, ConvertError::UnexpectedKind)),
            })
            .map_err(|fault| self.plan.halt(fault))
    }

    /// Passes over one image that nobody needs.
    ///
    /// # Errors
    /// `event_malformed`.
    pub fn skip(&self, images: &mut &[u8]) -> Result<(), Halt> {
        self.reader.skip_row(images).map_err(|error| self.plan.halt(Fault::Image(error)))
    }
}

#[cfg(test)]
mod tests;
