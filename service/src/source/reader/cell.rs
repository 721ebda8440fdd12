//! From the binary result set protocol to [`Cell`].
//!
//! MySQL internals manual, "Binary Protocol Resultset Row". The session is in UTC, without an SQL
//! mode, and gets text in each column's own character set.

use mysql_async::Value;

use crate::binlog::cell::{Cell, Date};
use crate::schema::MysqlType;

/// What a column is selected as. The index of an ENUM and the mask of a SET come only through a
/// cast: their plain value is the label, and arithmetic makes a double of them, which has no room
/// for 64 members.
pub(super) fn select_expression(mysql: &MysqlType, quoted: &str) -> String {
    match mysql {
        MysqlType::Enum { .. } | MysqlType::Set { .. } => format!("CAST({quoted} AS UNSIGNED)"),
        _ => quoted.to_owned(),
    }
}

/// The value as its column's type has it; `None` if it is not of that type.
pub(super) fn cell<'a>(mysql: &MysqlType, value: &'a Value) -> Option<Cell<'a>> {
    if matches!(value, Value::NULL) {
        return Some(Cell::Null);
    }
    Some(match mysql {
        MysqlType::TinyInt { unsigned, .. }
        | MysqlType::SmallInt { unsigned }
        | MysqlType::MediumInt { unsigned }
        | MysqlType::Int { unsigned }
        | MysqlType::BigInt { unsigned } => {
            if *unsigned {
                Cell::UInt(unsigned_integer(value)?)
            } else {
                Cell::Int(signed_integer(value)?)
            }
        }
        MysqlType::Decimal { .. } => Cell::DecimalText(bytes(value)?),
        MysqlType::Float { .. } => match *value {
            Value::Float(float) => Cell::Float(float),
            _ => return None,
        },
        MysqlType::Double { .. } => match *value {
            Value::Double(double) => Cell::Double(double),
            _ => return None,
        },
        MysqlType::Char { .. }
        | MysqlType::Varchar { .. }
        | MysqlType::Text { .. }
        | MysqlType::Binary { .. }
        | MysqlType::Varbinary { .. }
        | MysqlType::Blob
        | MysqlType::Geometry
        | MysqlType::Vector => Cell::Bytes(bytes(value)?),
        MysqlType::Bit { .. } => Cell::Bit(bits(bytes(value)?)?),
        MysqlType::Enum { .. } => Cell::Enum(u16::try_from(unsigned_integer(value)?).ok()?),
        MysqlType::Set { .. } => Cell::Set(unsigned_integer(value)?),
        MysqlType::Year => Cell::Year(u16::try_from(unsigned_integer(value)?).ok()?),
        MysqlType::Date => Cell::Date(date(value)?),
        MysqlType::DateTime { .. } => {
            let Value::Date(_, _, _, hour, minute, second, micros) = *value else { return None };
            Cell::DateTime { date: date(value)?, hour, minute, second, micros }
        }
        MysqlType::Timestamp { .. } => timestamp(value)?,
        MysqlType::Time { .. } => Cell::Time(time(value)?),
        MysqlType::Json => Cell::JsonText(bytes(value)?),
        MysqlType::Other { .. } => return None,
    })
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

fn signed_integer(value: &Value) -> Option<i64> {
    match *value {
        Value::Int(int) => Some(int),
        Value::UInt(uint) => i64::try_from(uint).ok(),
        _ => None,
    }
}

fn unsigned_integer(value: &Value) -> Option<u64> {
    match *value {
        Value::UInt(uint) => Some(uint),
        Value::Int(int) => u64::try_from(int).ok(),
        _ => None,
    }
}

/// Big-endian, at most 64 bits.
fn bits(bytes: &[u8]) -> Option<u64> {
    let mut padded = [0; 8];
    padded.get_mut(8_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(u64::from_be_bytes(padded))
}

fn date(value: &Value) -> Option<Date> {
    match *value {
        Value::Date(year, month, day, ..) => Some(Date { year, month, day }),
        _ => None,
    }
}

/// The session is in UTC. The zero timestamp is the one that has no month.
fn timestamp(value: &Value) -> Option<Cell<'static>> {
    let Value::Date(year, month, day, hour, minute, second, micros) = *value else { return None };
    if (year, month, day) == (0, 0, 0) {
        return Some(Cell::Timestamp { seconds: 0, micros: 0 });
    }
    let days = days_since_1970(i64::from(year), i64::from(month), i64::from(day));
    let seconds = days * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Some(Cell::Timestamp { seconds, micros })
}

/// Days of the proleptic Gregorian calendar. Years are counted from March, so that the leap day
/// is the last of its year; 146,097 days make 400 years and 719,468 lie between 0000-03-01 and
/// 1970-01-01.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_before_month = (153 * month + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + days_before_month + day - 1 - 719_468
}

fn time(value: &Value) -> Option<i64> {
    let Value::Time(negative, days, hours, minutes, seconds, micros) = *value else { return None };
    let hours = i64::from(days) * 24 + i64::from(hours);
    let seconds = hours * 3600 + i64::from(minutes) * 60 + i64::from(seconds);
    let magnitude = seconds * 1_000_000 + i64::from(micros);
    Some(if negative { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_1970() {
        assert_eq!(days_since_1970(1970, 1, 1), 0);
        assert_eq!(days_since_1970(2000, 2, 29), 11_016);
        assert_eq!(days_since_1970(2000, 3, 1), 11_017);
        assert_eq!(days_since_1970(2038, 1, 19), 24_855);
        assert_eq!(days_since_1970(1969, 12, 31), -1);
    }

    #[test]
    fn timestamps_are_utc_and_zero_is_zero() {
        let timestamp = MysqlType::Timestamp { digits: 6 };
        let at = |value: &Value| match cell(&timestamp, value) {
            Some(Cell::Timestamp { seconds, micros }) => (seconds, micros),
            _ => panic!("a timestamp"),
        };
        assert_eq!(at(&Value::Date(2024, 1, 2, 3, 4, 5, 6)), (1_704_164_645, 6));
        assert_eq!(at(&Value::Date(1970, 1, 1, 0, 0, 1, 0)), (1, 0));
        assert_eq!(at(&Value::Date(0, 0, 0, 0, 0, 0, 0)), (0, 0));
    }

    #[test]
    fn times_are_signed_microseconds() {
        let time = MysqlType::Time { digits: 6 };
        let value = Value::Time(true, 34, 22, 59, 59, 500_000);
        assert_eq!(cell(&time, &value), Some(Cell::Time(-3_020_399_500_000)));
    }

    #[test]
    fn bits_are_big_endian() {
        let bit = MysqlType::Bit { width: 10 };
        assert_eq!(cell(&bit, &Value::Bytes(vec![0x02, 0x01])), Some(Cell::Bit(0x201)));
        assert_eq!(cell(&bit, &Value::Bytes(vec![0; 9])), None);
    }

    #[test]
    fn integers_keep_their_sign() {
        let value = Value::UInt(u64::MAX);
        assert_eq!(cell(&MysqlType::BigInt { unsigned: true }, &value), Some(Cell::UInt(u64::MAX)));
        assert_eq!(cell(&MysqlType::BigInt { unsigned: false }, &value), None);
        assert_eq!(cell(&MysqlType::Int { unsigned: true }, &Value::Int(7)), Some(Cell::UInt(7)));
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        assert_eq!(cell(&MysqlType::Date, &Value::Int(1)), None);
        assert_eq!(cell(&MysqlType::Json, &Value::Int(1)), None);
        assert_eq!(cell(&MysqlType::Date, &Value::NULL), Some(Cell::Null));
    }
}
