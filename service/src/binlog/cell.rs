//! One column's value, borrowed from the bytes that MySQL sent.
//!
//! The two producers are [`super::row_image`] (binlog) and `source::reader` (the binary result
//! set protocol); the one consumer is [`crate::convert`]. Both producers yield the same `Cell`
//! for the same stored value, JSON and DECIMAL excepted, which arrive in two encodings.

use std::fmt;

/// A calendar date as MySQL stores it: month and day may be zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Date {
    pub year: u16,
    pub month: u8,
    pub day: u8,
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Date")
    }
}

/// A borrowed column value. Its `Debug` output names the variant and holds nothing of the value.
#[derive(Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    Null,
    /// TINYINT to BIGINT, signed.
    Int(i64),
    /// TINYINT to BIGINT, unsigned.
    UInt(u64),
    Float(f32),
    Double(f64),
    /// Packed decimal as in the binlog (server source `strings/decimal.cc`, `decimal2bin`).
    DecimalPacked {
        bytes: &'a [u8],
        precision: u8,
        scale: u8,
    },
    /// Decimal as ASCII text, as in result sets.
    DecimalText(&'a [u8]),
    /// Bytes of CHAR, VARCHAR, TEXT, BINARY, VARBINARY, BLOB, GEOMETRY, VECTOR in the column's own charset.
    Bytes(&'a [u8]),
    /// BIT(n), big-endian, n bits right-aligned.
    Bit(u64),
    /// ENUM index, 1-based; 0 is the empty invalid value.
    Enum(u16),
    /// SET bit mask, bit 0 the first member.
    Set(u64),
    /// YEAR: 0 or 1901 to 2155.
    Year(u16),
    Date(Date),
    /// DATETIME: a wall clock reading without zone.
    DateTime {
        date: Date,
        hour: u8,
        minute: u8,
        second: u8,
        micros: u32,
    },
    /// TIMESTAMP: UTC seconds since 1970; 0 with micros 0 is the zero timestamp '0000-00-00'.
    Timestamp {
        seconds: i64,
        micros: u32,
    },
    /// TIME as signed microseconds, -838:59:59.000000 to 838:59:59.000000.
    Time(i64),
    /// JSON in MySQL's binary form (server source `sql-common/json_binary.cc`).
    JsonBinary(&'a [u8]),
    /// JSON as utf8mb4 text, as in result sets.
    JsonText(&'a [u8]),
}

impl fmt::Debug for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Int(_) => "Int",
            Self::UInt(_) => "UInt",
            Self::Float(_) => "Float",
            Self::Double(_) => "Double",
            Self::DecimalPacked { .. } => "DecimalPacked",
            Self::DecimalText(_) => "DecimalText",
            Self::Bytes(_) => "Bytes",
            Self::Bit(_) => "Bit",
            Self::Enum(_) => "Enum",
            Self::Set(_) => "Set",
            Self::Year(_) => "Year",
            Self::Date(_) => "Date",
            Self::DateTime { .. } => "DateTime",
            Self::Timestamp { .. } => "Timestamp",
            Self::Time(_) => "Time",
            Self::JsonBinary(_) => "JsonBinary",
            Self::JsonText(_) => "JsonText",
        })
    }
}
