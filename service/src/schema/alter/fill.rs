//! The value that ADD COLUMN gives to the rows that exist.

use std::fmt;

use crate::binlog::cell::{Cell, Date};

/// A value of the new column's type, in the form in which the source would log it, so that
/// [`crate::convert::ColumnPlan::write`] takes it. Its `Debug` output shows nothing of the value.
#[derive(Clone, PartialEq)]
pub enum Fill {
    Null,
    Int(i64),
    UInt(u64),
    Float(f32),
    Double(f64),
    /// ASCII text.
    Decimal(String),
    /// In the column's own character set.
    Bytes(Vec<u8>),
    Bit(u64),
    Enum(u16),
    Set(u64),
    Year(u16),
    Date(Date),
    DateTime {
        date: Date,
        hour: u8,
        minute: u8,
        second: u8,
        micros: u32,
    },
    Timestamp {
        seconds: i64,
        micros: u32,
    },
    /// Signed microseconds.
    Time(i64),
    Json(String),
}

impl Fill {
    /// The value as the conversion takes it.
    #[must_use]
    pub fn cell(&self) -> Cell<'_> {
        match *self {
            Self::Null => Cell::Null,
            Self::Int(value) => Cell::Int(value),
            Self::UInt(value) => Cell::UInt(value),
            Self::Float(value) => Cell::Float(value),
            Self::Double(value) => Cell::Double(value),
            Self::Decimal(ref text) => Cell::DecimalText(text.as_bytes()),
            Self::Bytes(ref bytes) => Cell::Bytes(bytes),
            Self::Bit(bits) => Cell::Bit(bits),
            Self::Enum(index) => Cell::Enum(index),
            Self::Set(mask) => Cell::Set(mask),
            Self::Year(year) => Cell::Year(year),
            Self::Date(date) => Cell::Date(date),
            Self::DateTime { date, hour, minute, second, micros } => {
                Cell::DateTime { date, hour, minute, second, micros }
            }
            Self::Timestamp { seconds, micros } => Cell::Timestamp { seconds, micros },
            Self::Time(micros) => Cell::Time(micros),
            Self::Json(ref text) => Cell::JsonText(text.as_bytes()),
        }
    }
}

impl fmt::Debug for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.cell())
    }
}
