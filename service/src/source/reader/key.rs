//! Positions in a table's key: values that come from MySQL and are compared by MySQL only.
//!
//! A position is kept with the chunks of a copy and goes back to the source as literals, in the
//! form that loses nothing and lets MySQL use the key's index:
//!
//! | column | literal |
//! |---|---|
//! | integer, BIT, ENUM and SET by number, DECIMAL | number |
//! | FLOAT, DOUBLE | number with exponent, so that it is a double |
//! | DATE, DATETIME, TIMESTAMP, TIME, YEAR | string, which MySQL reads as the column's type; a number would turn the year 0 into 2000 |
//! | CHAR, VARCHAR | `_charset x'…'`: the stored bytes, compared in the column's own collation |
//! | BINARY, VARBINARY | `x'…'` |
//!
//! Comparing rows, `(a, b) > (1, 2)`, is spelled out as `a > 1 OR (a = 1 AND b > 2)`: MySQL finds
//! index ranges in it, which it does not in the short form.

use std::fmt::{self, Write};

use serde::{Deserialize, Serialize};

use super::quote;
use crate::binlog::cell::{Cell, Date};
use crate::schema::{Column, MysqlType};

/// Labels up to which a comparison with an ENUM is spelled out as a list: MySQL finds index ranges
/// for an ENUM in equality only.
const ENUM_LIST_MAX: usize = 64;

/// A row's key, never shown: it is data.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyBound(Vec<KeyValue>);

impl fmt::Debug for KeyBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBound(…)")
    }
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeyValue {
    Int(i64),
    UInt(u64),
    /// Digits, sign and point.
    Decimal(String),
    /// The bits of a double; a float is widened, which is exact.
    Double(u64),
    Year(u16),
    /// Year, month, day, hour, minute, second, microseconds.
    DateTime(u16, u8, u8, u8, u8, u8, u32),
    /// Signed microseconds.
    Time(i64),
    /// Hexadecimal digits.
    Bytes(String),
}

/// Whether tables with such a key column can be cut into chunks. TEXT and BLOB are in a key with a
/// prefix only, whose index gives no order to the rows.
pub(super) const fn orders_rows(mysql: &MysqlType) -> bool {
    !matches!(
        mysql,
        MysqlType::Text { .. }
            | MysqlType::Blob
            | MysqlType::Json
            | MysqlType::Geometry
            | MysqlType::Vector
            | MysqlType::Other { .. }
    )
}

impl KeyBound {
    /// The key's values in key order, as selected by `select_expression` and read as [`read_as`] says;
    /// `None` if one can't be in a key.
    pub(super) fn from_cells<'a>(cells: impl Iterator<Item = Option<Cell<'a>>>) -> Option<Self> {
        cells.map(|cell| key_value(cell?)).collect::<Option<_>>().map(Self)
    }

    /// The condition for rows above this key. `None` if the bound is not one of this key.
    pub(super) fn above(&self, key: &[&Column]) -> Option<String> {
        self.condition(key, Order::Above)
    }

    /// The condition for rows up to and including this key. `None` if the bound is not one of this
    /// key.
    pub(super) fn through(&self, key: &[&Column]) -> Option<String> {
        self.condition(key, Order::Through)
    }

    fn condition(&self, key: &[&Column], order: Order) -> Option<String> {
        if key.is_empty() || key.len() != self.0.len() {
            return None;
        }
        let mut alternatives = Vec::new();
        let mut equal = String::new();
        for (index, (column, value)) in key.iter().zip(&self.0).enumerate() {
            // Only the last column's equality completes the key's.
            let order = if index + 1 < key.len() { order.strict() } else { order };
            alternatives.push(format!("{equal}{}", compare(column, value, order)?));
            write!(equal, "{} = {} AND ", quote(&column.name), literal(&column.mysql, value)?).ok()?;
        }
        Some(format!("(({}))", alternatives.join(") OR (")))
    }
}

#[derive(Clone, Copy)]
enum Order {
    Above,
    Below,
    /// Below or equal.
    Through,
}

impl Order {
    const fn strict(self) -> Self {
        match self {
            Self::Through => Self::Below,
            order => order,
        }
    }
}

fn compare(column: &Column, value: &KeyValue, order: Order) -> Option<String> {
    let name = quote(&column.name);
    if let (MysqlType::Enum { labels }, KeyValue::UInt(index)) = (&column.mysql, value)
        && labels.len() <= ENUM_LIST_MAX
    {
        let index = usize::try_from(*index).ok()?;
        // Index 0 is the empty invalid value.
        let indexes: Vec<String> = match order {
            Order::Above => (index + 1..=labels.len()).map(|i| i.to_string()).collect(),
            Order::Below => (0..index).map(|i| i.to_string()).collect(),
            Order::Through => (0..=index).map(|i| i.to_string()).collect(),
        };
        return Some(match indexes.as_slice() {
            [] => "FALSE".to_owned(),
            _ => format!("{name} IN ({})", indexes.join(", ")),
        });
    }
    let operator = match order {
        Order::Above => ">",
        Order::Below => "<",
        Order::Through => "<=",
    };
    Some(format!("{name} {operator} {}", literal(&column.mysql, value)?))
}

/// What a key's column is read as: a TIMESTAMP is a reading of the session's clock, which shows UTC.
pub(super) fn read_as(mysql: &MysqlType) -> MysqlType {
    match *mysql {
        MysqlType::Timestamp { digits } => MysqlType::DateTime { digits },
        _ => mysql.clone(),
    }
}

fn key_value(cell: Cell<'_>) -> Option<KeyValue> {
    Some(match cell {
        Cell::Int(int) => KeyValue::Int(int),
        Cell::UInt(uint) | Cell::Bit(uint) | Cell::Set(uint) => KeyValue::UInt(uint),
        Cell::Enum(index) => KeyValue::UInt(index.into()),
        Cell::Year(year) => KeyValue::Year(year),
        Cell::Float(float) => KeyValue::Double(f64::from(float).to_bits()),
        Cell::Double(double) => KeyValue::Double(double.to_bits()),
        Cell::DecimalText(digits) => KeyValue::Decimal(str::from_utf8(digits).ok()?.to_owned()),
        Cell::Bytes(bytes) => KeyValue::Bytes(hex(bytes)),
        Cell::Date(Date { year, month, day }) => KeyValue::DateTime(year, month, day, 0, 0, 0, 0),
        Cell::DateTime { date: Date { year, month, day }, hour, minute, second, micros } => {
            KeyValue::DateTime(year, month, day, hour, minute, second, micros)
        }
        Cell::Time(micros) => KeyValue::Time(micros),
        // No key is NULL or JSON.
        _ => return None,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
        hex.extend([digit(byte >> 4), digit(byte & 15)]);
        hex
    })
}

/// The literal of a value for a column of this type. Stored bounds are checked as anything that
/// becomes part of a statement; `None` refuses one.
fn literal(mysql: &MysqlType, value: &KeyValue) -> Option<String> {
    Some(match (mysql, value) {
        (_, KeyValue::Int(int)) => int.to_string(),
        (_, KeyValue::UInt(uint)) => uint.to_string(),
        (_, KeyValue::Decimal(digits)) => {
            let numeric = digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'));
            return (numeric && !digits.is_empty()).then(|| digits.clone());
        }
        (_, KeyValue::Double(bits)) => {
            let double = f64::from_bits(*bits);
            return double.is_finite().then(|| format!("{double:e}"));
        }
        (_, KeyValue::Year(year)) => format!("'{year:04}'"),
        (MysqlType::Date, KeyValue::DateTime(year, month, day, ..)) => {
            format!("'{year:04}-{month:02}-{day:02}'")
        }
        (_, KeyValue::DateTime(year, month, day, hour, minute, second, micros)) => {
            format!("'{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}'")
        }
        (_, KeyValue::Time(micros)) => time_literal(*micros),
        (MysqlType::Char { charset, .. } | MysqlType::Varchar { charset, .. }, KeyValue::Bytes(hex)) => {
            let plain = charset.bytes().all(|b| b.is_ascii_alphanumeric());
            return (plain && is_hex(hex)).then(|| format!("_{charset} x'{hex}'"));
        }
        (_, KeyValue::Bytes(hex)) => return is_hex(hex).then(|| format!("x'{hex}'")),
    })
}

fn is_hex(text: &str) -> bool {
    text.len().is_multiple_of(2) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn time_literal(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let (seconds, micros) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("'{sign}{hours:02}:{minutes:02}:{seconds:02}.{micros:06}'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::TargetType;

    fn column(name: &str, mysql: MysqlType) -> Column {
        Column {
            name: name.to_owned(),
            mysql,
            target: TargetType::Text,
            nullable: false,
            not_null_dropped: false,
            auto_increment: false,
            generated: false,
            details: Default::default(),
        }
    }

    fn bound(values: &[Cell<'_>]) -> KeyBound {
        KeyBound::from_cells(values.iter().map(|cell| Some(*cell))).unwrap()
    }

    const fn date(year: u16, month: u8, day: u8) -> Date {
        Date { year, month, day }
    }

    /// The literal of a single-column key.
    fn literal_of(mysql: MysqlType, value: Cell<'_>) -> String {
        let column = column("k", mysql);
        let condition = bound(&[value]).above(&[&column]).unwrap();
        condition.strip_prefix("((`k` > ").unwrap().strip_suffix("))").unwrap().to_owned()
    }

    #[test]
    fn a_key_of_several_columns_is_spelled_out() {
        let (a, b) = (column("a", MysqlType::Int { unsigned: false }), column("b`c", MysqlType::Year));
        let key = [&a, &b];
        let bound = bound(&[Cell::Int(-1), Cell::Year(0)]);
        assert_eq!(bound.above(&key).unwrap(), "((`a` > -1) OR (`a` = -1 AND `b``c` > '0000'))");
        assert_eq!(bound.through(&key).unwrap(), "((`a` < -1) OR (`a` = -1 AND `b``c` <= '0000'))");
    }

    #[test]
    fn literals_lose_nothing() {
        let latin1 = || "latin1".to_owned();
        let cases = [
            (MysqlType::BigInt { unsigned: true }, Cell::UInt(u64::MAX), "18446744073709551615"),
            (MysqlType::BigInt { unsigned: false }, Cell::Int(i64::MIN), "-9223372036854775808"),
            (MysqlType::Bit { width: 64 }, Cell::Bit(1 << 63), "9223372036854775808"),
            (
                MysqlType::Decimal { precision: 65, scale: 30, unsigned: false },
                Cell::DecimalText(b"-12345678901234567890123456789012345.123456789012345678901234567891"),
                "-12345678901234567890123456789012345.123456789012345678901234567891",
            ),
            (MysqlType::Float { unsigned: false }, Cell::Float(0.1), "1.0000000149011612e-1"),
            (MysqlType::Double { unsigned: false }, Cell::Double(-2.5), "-2.5e0"),
            (MysqlType::Date, Cell::Date(date(2024, 0, 0)), "'2024-00-00'"),
            (
                MysqlType::DateTime { digits: 0 },
                Cell::DateTime { date: date(0, 0, 0), hour: 0, minute: 0, second: 0, micros: 0 },
                "'0000-00-00 00:00:00.000000'",
            ),
            (
                read_as(&MysqlType::Timestamp { digits: 6 }),
                Cell::DateTime { date: date(2024, 1, 2), hour: 3, minute: 4, second: 5, micros: 6 },
                "'2024-01-02 03:04:05.000006'",
            ),
            (MysqlType::Time { digits: 6 }, Cell::Time(-3_020_399_000_001), "'-838:59:59.000001'"),
            (MysqlType::Time { digits: 0 }, Cell::Time(1_000_000), "'00:00:01.000000'"),
            (MysqlType::Varchar { length: 9, charset: latin1() }, Cell::Bytes(b"\xe9'"), "_latin1 x'e927'"),
            (MysqlType::Char { length: 9, charset: latin1() }, Cell::Bytes(b""), "_latin1 x''"),
            (MysqlType::Binary { length: 2 }, Cell::Bytes(&[0, 255]), "x'00ff'"),
        ];
        for (mysql, value, expected) in cases {
            assert_eq!(literal_of(mysql, value), expected);
        }
    }

    #[test]
    fn enum_comparisons_are_lists_unless_they_are_long() {
        let labels = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
        let short = column("e", MysqlType::Enum { labels: labels(3) });
        let one = bound(&[Cell::Enum(1)]);
        assert_eq!(one.above(&[&short]).unwrap(), "((`e` IN (2, 3)))");
        assert_eq!(one.through(&[&short]).unwrap(), "((`e` IN (0, 1)))");
        let last = bound(&[Cell::Enum(3)]);
        assert_eq!(last.above(&[&short]).unwrap(), "((FALSE))");
        let long = column("e", MysqlType::Enum { labels: labels(ENUM_LIST_MAX + 1) });
        let one = bound(&[Cell::Enum(1)]);
        assert_eq!(one.above(&[&long]).unwrap(), "((`e` > 1))");
    }

    #[test]
    fn a_stored_bound_that_was_tampered_with_makes_no_statement() {
        let varchar = column("k", MysqlType::Varchar { length: 9, charset: "utf8mb4".to_owned() });
        let evil = column("k", MysqlType::Varchar { length: 9, charset: "utf8 x'' OR 1".to_owned() });
        let decimal = column("k", MysqlType::Decimal { precision: 5, scale: 0, unsigned: false });
        let parse = |json: &str| serde_json::from_str::<KeyBound>(json).unwrap();
        assert_eq!(parse(r#"[{"bytes":"00' OR 1"}]"#).above(&[&varchar]), None);
        assert_eq!(parse(r#"[{"bytes":"00"}]"#).above(&[&evil]), None);
        assert_eq!(parse(r#"[{"decimal":"1 OR 1"}]"#).above(&[&decimal]), None);
        assert_eq!(parse(r#"[{"int":1},{"int":2}]"#).above(&[&decimal]), None);
        assert_eq!(parse("[]").above(&[]), None);
    }

    #[test]
    fn bounds_survive_json_and_do_not_show() {
        let before = bound(&[Cell::Double(0.1 + 0.2)]);
        let json = serde_json::to_string(&before).unwrap();
        assert_eq!(serde_json::from_str::<KeyBound>(&json).unwrap(), before);
        assert_eq!(format!("{before:?}"), "KeyBound(…)");
    }
}
