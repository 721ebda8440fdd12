//! One column's conversion.

use super::policy::{Role, Settlement};
use super::{ConvertError, decimal, field, json, spatial, temporal, text, vector};
use crate::binlog::cell::Cell;
use crate::halt::{Halt, Reason};
use crate::schema::charset::Charset;
use crate::schema::overrides::converts;
use crate::schema::policy::ColumnPolicies;
use crate::schema::types::{TypeContext, target_type};
use crate::schema::{Column, MysqlType, TableName, TargetType};

/// The conversion of one column's cells to fields of its target type.
#[derive(Debug, Clone)]
pub struct ColumnPlan {
    conversion: Conversion,
    /// Kept out of the way of the conversion, which does not look at it.
    settlement: Box<Settlement>,
    name: Box<str>,
}

/// What to write, with all that depends on the column.
#[derive(Debug, Clone)]
enum Conversion {
    Boolean,
    Int2,
    Int4,
    Int8,
    Numeric(decimal::Shape),
    Float4,
    Float8,
    /// In a superset of ASCII.
    Text(Charset),
    /// In any character set.
    OtherText(Charset),
    /// In a key, in a character set that has several byte sequences for some characters.
    KeyText(Charset),
    Bytes,
    /// BINARY(n), to be filled up with zero bytes.
    PaddedBytes(usize),
    Bit(u8),
    Enum(text::Labels),
    Set(text::Labels),
    Date,
    Timestamp(temporal::Step),
    TimestampTz(temporal::Step),
    Interval(temporal::Step),
    Jsonb,
    Ewkb,
    /// The same as PostGIS takes it.
    Geometry,
    RealArray,
}

impl ColumnPlan {
    /// # Errors
    /// As [`super::TablePlan::new`].
    pub fn new(
        table: &TableName,
        column: &Column,
        policies: ColumnPolicies,
        role: Role,
    ) -> Result<Self, Halt> {
        let context = TypeContext {
            table,
            column: &column.name,
            only_zero_one: column.target == TargetType::Boolean,
            auto_increment: column.auto_increment,
        };
        let expected = target_type(&column.mysql, context)?;
        let defined = expected == column.target || converts(&column.mysql, column.target);
        let conversion = if defined { Conversion::new(&column.mysql, column.target) } else { None };
        let conversion =
            conversion.map(|conversion| conversion.of_key(role == Role::Key)).ok_or_else(|| {
                let detail = format!("column `{}` can't be {} on the target", column.name, column.target);
                Halt::new(Reason::Internal, detail).on_table(&table.database, &table.table)
            })?;
        let settlement = Box::new(Settlement::new(column, policies, role));
        Ok(Self { conversion, settlement, name: column.name.as_str().into() })
    }

    pub(super) const fn settlement(&self) -> &Settlement {
        &self.settlement
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends the cell as a field.
    ///
    /// # Errors
    /// Where the value can't be stored exactly; `out` is then as it was.
    #[inline]
    pub fn write(&self, cell: Cell<'_>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        match (&self.conversion, cell) {
            (_, Cell::Null) => {
                field::put_null(out);
                Ok(())
            }
            (Conversion::Int2, cell) => integer(cell).map(|value: i16| field::put(value.to_be_bytes(), out)),
            (Conversion::Int4, cell) => integer(cell).map(|value: i32| field::put(value.to_be_bytes(), out)),
            (Conversion::Int8, cell) => integer(cell).map(|value: i64| field::put(value.to_be_bytes(), out)),
            (Conversion::Text(charset), Cell::Bytes(bytes)) => text::write(*charset, bytes, out),
            (Conversion::Numeric(shape), Cell::DecimalPacked { bytes, precision, scale }) => {
                shape.write_packed(bytes, precision, scale, out)
            }
            (Conversion::Timestamp(step), Cell::DateTime { date, hour, minute, second, micros }) => {
                let value = temporal::timestamp(date, [hour, minute, second], micros, *step);
                value.map(|micros| field::put(micros.to_be_bytes(), out))
            }
            (Conversion::TimestampTz(step), Cell::Timestamp { seconds, micros }) => {
                let value = temporal::timestamptz(seconds, micros, *step);
                value.map(|micros| field::put(micros.to_be_bytes(), out))
            }
            (Conversion::Date, Cell::Date(date)) => {
                temporal::date(date).map(|days| field::put(days.to_be_bytes(), out))
            }
            (_, cell) => self.write_rare(cell, out),
        }
    }

    /// The types that fewer columns have, kept out of the way of the others.
    fn write_rare(&self, cell: Cell<'_>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        match (&self.conversion, cell) {
            (Conversion::Boolean, cell) => boolean(cell).map(|value| field::put([u8::from(value)], out)),
            (Conversion::Numeric(shape), Cell::DecimalText(digits)) => shape.write_text(digits, out),
            (Conversion::Numeric(shape), Cell::UInt(value)) => shape.write_integer(value, out),
            (Conversion::Float4, Cell::Float(value)) if value.is_finite() => {
                field::put(value.to_be_bytes(), out);
                Ok(())
            }
            (Conversion::Float8, Cell::Double(value)) if value.is_finite() => {
                field::put(value.to_be_bytes(), out);
                Ok(())
            }
            // Every float is a double.
            (Conversion::Float8, Cell::Float(value)) if value.is_finite() => {
                field::put(f64::from(value).to_be_bytes(), out);
                Ok(())
            }
            // MySQL stores neither infinities nor NaN.
            (Conversion::Float4 | Conversion::Float8, Cell::Float(_))
            | (Conversion::Float8, Cell::Double(_)) => Err(ConvertError::Malformed),
            (Conversion::OtherText(charset), Cell::Bytes(bytes)) => text::write_any(*charset, bytes, out),
            (Conversion::KeyText(charset), Cell::Bytes(bytes)) => text::write_key(*charset, bytes, out),
            (Conversion::Bytes, Cell::Bytes(bytes)) => field::put_bytes(bytes, out),
            (Conversion::PaddedBytes(length), Cell::Bytes(bytes)) => padded(bytes, *length, out),
            (Conversion::Bit(width), Cell::Bit(value)) => bits(value, *width, out),
            (Conversion::Enum(labels), Cell::Enum(index)) => labels.write_one(index, out),
            (Conversion::Set(labels), Cell::Set(mask)) => labels.write_set(mask, out),
            (Conversion::Interval(step), Cell::Time(micros)) => temporal::write_interval(micros, *step, out),
            (Conversion::Jsonb, Cell::JsonBinary(document)) => json::write_binary(document, out),
            (Conversion::Jsonb, Cell::JsonText(document)) => json::write_text(document, out),
            (Conversion::Ewkb, Cell::Bytes(bytes)) => spatial::write_ewkb(bytes, out),
            (Conversion::Geometry, Cell::Bytes(bytes)) => spatial::write_geometry(bytes, out),
            (Conversion::RealArray, Cell::Bytes(bytes)) => vector::write(bytes, out),
            _ => Err(ConvertError::UnexpectedKind),
        }
    }
}

impl Conversion {
    /// In a key different values must stay different.
    fn of_key(self, in_key: bool) -> Self {
        match self {
            Self::Text(charset) if in_key && charset.has_aliases() => Self::KeyText(charset),
            other => other,
        }
    }

    /// `None` for pairs that [`target_type`] does not make.
    fn new(mysql: &MysqlType, target: TargetType) -> Option<Self> {
        Some(match (mysql, target) {
            (MysqlType::TinyInt { .. } | MysqlType::Bit { width: 1 }, TargetType::Boolean) => Self::Boolean,
            (_, TargetType::SmallInt) => Self::Int2,
            (_, TargetType::Integer) => Self::Int4,
            (_, TargetType::BigInt) => Self::Int8,
            (_, TargetType::Numeric { precision, scale }) => {
                Self::Numeric(decimal::Shape::new(precision, scale)?)
            }
            (_, TargetType::Real) => Self::Float4,
            (_, TargetType::DoublePrecision) => Self::Float8,
            (MysqlType::Enum { labels }, TargetType::Text) => Self::Enum(text::Labels::new(labels)),
            (MysqlType::Set { labels }, TargetType::Text) => Self::Set(text::Labels::new(labels)),
            (
                MysqlType::Char { charset, .. } | MysqlType::Varchar { charset, .. },
                TargetType::Varchar { .. } | TargetType::Text,
            )
            | (MysqlType::Text { charset }, TargetType::Text) => {
                let charset = Charset::from_name(charset)?;
                if charset.is_ascii_superset() { Self::Text(charset) } else { Self::OtherText(charset) }
            }
            (MysqlType::Binary { length }, TargetType::Bytea) => {
                Self::PaddedBytes(usize::try_from(*length).ok()?)
            }
            (MysqlType::Varbinary { .. } | MysqlType::Blob, TargetType::Bytea) => Self::Bytes,
            (_, TargetType::Bit { width: width @ 1..=64 }) => Self::Bit(width),
            (_, TargetType::Date) => Self::Date,
            // With UTC as the zone of the wall clock both count the same microseconds.
            (MysqlType::DateTime { .. }, TargetType::TimestampTz { digits }) => {
                Self::Timestamp(temporal::Step::of(digits)?)
            }
            (MysqlType::Timestamp { .. }, TargetType::Timestamp { digits }) => {
                Self::TimestampTz(temporal::Step::of(digits)?)
            }
            (_, TargetType::Timestamp { digits }) => Self::Timestamp(temporal::Step::of(digits)?),
            (_, TargetType::TimestampTz { digits }) => Self::TimestampTz(temporal::Step::of(digits)?),
            (_, TargetType::Interval { digits }) => Self::Interval(temporal::Step::of(digits)?),
            (_, TargetType::Jsonb) => Self::Jsonb,
            (MysqlType::Geometry, TargetType::Bytea) => Self::Ewkb,
            (MysqlType::Geometry, TargetType::Geometry { .. }) => Self::Geometry,
            (_, TargetType::RealArray) => Self::RealArray,
            _ => return None,
        })
    }
}

#[inline(always)]
fn integer<T: TryFrom<i64> + TryFrom<u64>>(cell: Cell<'_>) -> Result<T, ConvertError> {
    match cell {
        Cell::Int(value) => T::try_from(value).map_err(|_| ConvertError::OutOfRange),
        Cell::UInt(value) => T::try_from(value).map_err(|_| ConvertError::OutOfRange),
        Cell::Year(year) => T::try_from(u64::from(year)).map_err(|_| ConvertError::OutOfRange),
        _ => Err(ConvertError::UnexpectedKind),
    }
}

fn boolean(cell: Cell<'_>) -> Result<bool, ConvertError> {
    match cell {
        Cell::Int(0) | Cell::Bit(0) => Ok(false),
        Cell::Int(1) | Cell::Bit(1) => Ok(true),
        Cell::Int(_) => Err(ConvertError::BeyondBoolean),
        Cell::Bit(_) => Err(ConvertError::Malformed),
        _ => Err(ConvertError::UnexpectedKind),
    }
}

/// BINARY(n) has n bytes; the binlog leaves out zero bytes at the end.
fn padded(bytes: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), ConvertError> {
    let missing = length.checked_sub(bytes.len()).ok_or(ConvertError::Malformed)?;
    field::put_with(out, |out| {
        out.extend_from_slice(bytes);
        out.resize(out.len() + missing, 0);
        Ok(())
    })
}

/// A bit string: its length in bits, then the bits from the left (server source
/// `src/backend/utils/adt/varbit.c`, `bit_recv`).
fn bits(value: u64, width: u8, out: &mut Vec<u8>) -> Result<(), ConvertError> {
    let shift = 64_u32.checked_sub(u32::from(width)).ok_or(ConvertError::Malformed)?;
    let aligned = value.checked_shl(shift).ok_or(ConvertError::Malformed)?;
    if aligned >> shift != value {
        return Err(ConvertError::Malformed);
    }
    let bytes = aligned.to_be_bytes();
    field::put_with(out, |out| {
        out.extend_from_slice(&u32::from(width).to_be_bytes());
        out.extend(bytes.iter().take(usize::from(width).div_ceil(8)));
        Ok(())
    })
}
