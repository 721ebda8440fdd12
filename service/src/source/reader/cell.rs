//! From the binary result set protocol to [`Cell`].
//!
//! MySQL internals manual, "Binary Protocol Resultset Row" and "Binary Protocol Value": a bitmap of
//! the NULLs, whose first two bits are not used, then the other values one behind the other. An
//! integer or float has its type's width, little-endian; a date has a length of 0, 4, 7 or 11 and
//! leaves off what is zero, a time one of 0, 8 or 12; anything else is a length-encoded string. The
//! session is in UTC, without an SQL mode, and gets text in each column's own character set.

use crate::binlog::cell::{Cell, Date};
use crate::schema::MysqlType;
use crate::source::session::{Cursor, Definition};

/// Types of result columns (server source `include/field_types.h`, `enum_field_types`). Those that a
/// server sends as strings are told apart by what the table's definition says of the column.
mod column_type {
    pub(super) const DECIMAL: u8 = 0;
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const YEAR: u8 = 13;
    pub(super) const NEWDATE: u8 = 14;
    pub(super) const VARCHAR: u8 = 15;
    pub(super) const BIT: u8 = 16;
    pub(super) const VECTOR: u8 = 242;
    pub(super) const JSON: u8 = 245;
    pub(super) const GEOMETRY: u8 = 255;
}

/// What a column is selected as. The index of an ENUM and the mask of a SET come only through a
/// cast: their plain value is the label, and arithmetic makes a double of them, which has no room
/// for 64 members.
pub(super) fn select_expression(mysql: &MysqlType, quoted: &str) -> String {
    match mysql {
        MysqlType::Enum { .. } | MysqlType::Set { .. } => format!("CAST({quoted} AS UNSIGNED)"),
        _ => quoted.to_owned(),
    }
}

/// How the rows of one result set are read.
#[derive(Debug, Clone)]
pub struct RowLayout(Box<[Layout]>);

impl RowLayout {
    /// The columns' types on the source, and how the source says that they come; `None` where these
    /// are not as many.
    #[must_use]
    pub fn new<'a>(
        columns: impl ExactSizeIterator<Item = &'a MysqlType>,
        definitions: &[Definition],
    ) -> Option<Self> {
        let fits = columns.len() == definitions.len();
        fits.then(|| Self(columns.zip(definitions).map(|(mysql, sent)| Layout::new(mysql, *sent)).collect()))
    }

    /// The values of a row without its header byte.
    #[must_use]
    pub fn cells<'a>(&'a self, row: &'a [u8]) -> Cells<'a> {
        let (nulls, values) = row.split_at_checked(null_bytes(self.0.len())).unwrap_or_default();
        Cells { layouts: &self.0, index: 0, nulls, values: Cursor::new(values) }
    }
}

/// The first column's bit is the third.
const NULL_BITS_UNUSED: usize = 2;

const fn null_bytes(columns: usize) -> usize {
    (columns + NULL_BITS_UNUSED).div_ceil(8)
}

/// The values of a row, in the order of its columns; `None` for one that is not of its column's type,
/// or not there, behind which no other is readable.
pub struct Cells<'a> {
    layouts: &'a [Layout],
    index: usize,
    nulls: &'a [u8],
    values: Cursor<'a>,
}

impl<'a> Iterator for Cells<'a> {
    type Item = Option<Cell<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let layout = self.layouts.get(self.index)?;
        let bit = self.index + NULL_BITS_UNUSED;
        self.index += 1;
        let cell = match self.nulls.get(bit / 8) {
            Some(byte) if byte >> (bit % 8) & 1 == 1 => Some(Cell::Null),
            Some(_) => layout.read(&mut self.values),
            None => None,
        };
        let last = self.index == self.layouts.len();
        if cell.is_none() {
            self.nulls = &[];
        }
        Some(cell.filter(|_| !last || self.values.is_empty()))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.layouts.len() - self.index;
        (left, Some(left))
    }
}

/// How one column's values lie in a row, and what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    /// Signed on the table.
    Int(Integer),
    /// Unsigned on the table.
    UInt(Integer),
    Decimal,
    Float,
    Double,
    Bytes,
    Bit,
    Enum(Integer),
    Set(Integer),
    Year(Integer),
    Date,
    DateTime,
    Timestamp,
    Time,
    Json,
    /// The source sends another type than the column has, or one that is not read: only NULL can be
    /// taken.
    Other,
}

/// An integer as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Integer {
    width: Width,
    unsigned: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    One,
    Two,
    Four,
    Eight,
}

impl Integer {
    fn new(sent: Definition) -> Option<Self> {
        use column_type as t;
        let width = match sent.column_type {
            t::TINY => Width::One,
            t::SHORT | t::YEAR => Width::Two,
            t::LONG | t::INT24 => Width::Four,
            t::LONGLONG => Width::Eight,
            _ => return None,
        };
        Some(Self { width, unsigned: sent.unsigned })
    }

    /// The value's low 64 bits, and whether it is below zero.
    #[inline]
    fn read(self, values: &mut Cursor<'_>) -> Option<(u64, bool)> {
        let signed = match (self.width, self.unsigned) {
            (Width::One, true) => u8::from_le_bytes(values.array()?).into(),
            (Width::One, false) => i8::from_le_bytes(values.array()?).into(),
            (Width::Two, true) => u16::from_le_bytes(values.array()?).into(),
            (Width::Two, false) => i16::from_le_bytes(values.array()?).into(),
            (Width::Four, true) => u32::from_le_bytes(values.array()?).into(),
            (Width::Four, false) => i32::from_le_bytes(values.array()?).into(),
            (Width::Eight, true) => return values.array().map(|bytes| (u64::from_le_bytes(bytes), false)),
            (Width::Eight, false) => i64::from_le_bytes(values.array()?),
        };
        Some((signed.cast_unsigned(), signed < 0))
    }

    #[inline]
    fn signed(self, values: &mut Cursor<'_>) -> Option<i64> {
        let (bits, negative) = self.read(values)?;
        Some(bits.cast_signed()).filter(|value| (*value < 0) == negative)
    }

    #[inline]
    fn unsigned(self, values: &mut Cursor<'_>) -> Option<u64> {
        let (bits, negative) = self.read(values)?;
        (!negative).then_some(bits)
    }
}

/// Whether values of this type are sent as length-encoded strings.
const fn is_string(code: u8) -> bool {
    use column_type as t;
    // From JSON on: NEWDECIMAL, ENUM, SET, the BLOBs, VAR_STRING, STRING and GEOMETRY.
    matches!(code, t::DECIMAL | t::VARCHAR | t::BIT | t::VECTOR | t::JSON..=t::GEOMETRY)
}

const fn is_date(code: u8) -> bool {
    use column_type as t;
    matches!(code, t::DATE | t::NEWDATE | t::DATETIME | t::TIMESTAMP)
}

impl Layout {
    fn new(mysql: &MysqlType, sent: Definition) -> Self {
        let code = sent.column_type;
        let integer = |layout: fn(Integer) -> Self| Integer::new(sent).map(layout);
        let layout = match mysql {
            MysqlType::TinyInt { unsigned, .. }
            | MysqlType::SmallInt { unsigned }
            | MysqlType::MediumInt { unsigned }
            | MysqlType::Int { unsigned }
            | MysqlType::BigInt { unsigned } => integer(if *unsigned { Self::UInt } else { Self::Int }),
            MysqlType::Enum { .. } => integer(Self::Enum),
            MysqlType::Set { .. } => integer(Self::Set),
            MysqlType::Year => integer(Self::Year),
            MysqlType::Decimal { .. } => is_string(code).then_some(Self::Decimal),
            MysqlType::Float { .. } => (code == column_type::FLOAT).then_some(Self::Float),
            MysqlType::Double { .. } => (code == column_type::DOUBLE).then_some(Self::Double),
            MysqlType::Char { .. }
            | MysqlType::Varchar { .. }
            | MysqlType::Text { .. }
            | MysqlType::Binary { .. }
            | MysqlType::Varbinary { .. }
            | MysqlType::Blob
            | MysqlType::Geometry
            | MysqlType::Vector => is_string(code).then_some(Self::Bytes),
            MysqlType::Bit { .. } => is_string(code).then_some(Self::Bit),
            MysqlType::Json => is_string(code).then_some(Self::Json),
            MysqlType::Date => is_date(code).then_some(Self::Date),
            MysqlType::DateTime { .. } => is_date(code).then_some(Self::DateTime),
            MysqlType::Timestamp { .. } => is_date(code).then_some(Self::Timestamp),
            MysqlType::Time { .. } => (code == column_type::TIME).then_some(Self::Time),
            MysqlType::Other { .. } => None,
        };
        layout.unwrap_or(Self::Other)
    }

    /// Takes a value that is not NULL.
    #[inline]
    fn read<'a>(self, values: &mut Cursor<'a>) -> Option<Cell<'a>> {
        Some(match self {
            Self::Int(integer) => Cell::Int(integer.signed(values)?),
            Self::UInt(integer) => Cell::UInt(integer.unsigned(values)?),
            Self::Decimal => Cell::DecimalText(values.text()?),
            Self::Float => Cell::Float(f32::from_le_bytes(values.array()?)),
            Self::Double => Cell::Double(f64::from_le_bytes(values.array()?)),
            Self::Bytes => Cell::Bytes(values.text()?),
            Self::Bit => Cell::Bit(bits(values.text()?)?),
            Self::Enum(integer) => Cell::Enum(u16::try_from(integer.unsigned(values)?).ok()?),
            Self::Set(integer) => Cell::Set(integer.unsigned(values)?),
            Self::Year(integer) => Cell::Year(u16::try_from(integer.unsigned(values)?).ok()?),
            Self::Date => Cell::Date(Moment::read(values)?.date),
            Self::DateTime => {
                let Moment { date, hour, minute, second, micros } = Moment::read(values)?;
                Cell::DateTime { date, hour, minute, second, micros }
            }
            Self::Timestamp => Moment::read(values)?.timestamp(),
            Self::Time => Cell::Time(time(values)?),
            Self::Json => Cell::JsonText(values.text()?),
            Self::Other => return None,
        })
    }
}

/// Big-endian, at most 64 bits.
fn bits(bytes: &[u8]) -> Option<u64> {
    let mut padded = [0; 8];
    padded.get_mut(8_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
    Some(u64::from_be_bytes(padded))
}

/// A reading of calendar and clock.
struct Moment {
    date: Date,
    hour: u8,
    minute: u8,
    second: u8,
    micros: u32,
}

impl Moment {
    #[inline]
    fn read(values: &mut Cursor<'_>) -> Option<Self> {
        let length = values.u8()?;
        if !matches!(length, 0 | 4 | 7 | 11) {
            return None;
        }
        let [y0, y1, month, day] = if length >= 4 { values.array()? } else { [0; 4] };
        let [hour, minute, second] = if length >= 7 { values.array()? } else { [0; 3] };
        let micros = if length >= 11 { values.array()? } else { [0; 4] };
        let date = Date { year: u16::from_le_bytes([y0, y1]), month, day };
        Some(Self { date, hour, minute, second, micros: u32::from_le_bytes(micros) })
    }

    /// The session is in UTC. The zero timestamp is the one that has no month.
    fn timestamp(&self) -> Cell<'static> {
        let Self { date: Date { year, month, day }, hour, minute, second, micros } = *self;
        if (year, month, day) == (0, 0, 0) {
            return Cell::Timestamp { seconds: 0, micros: 0 };
        }
        let days = days_since_1970(i64::from(year), i64::from(month), i64::from(day));
        let seconds = days * 86_400 + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        Cell::Timestamp { seconds, micros }
    }
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

/// Whole days of the longest TIME, 838:59:59 (MySQL manual, "The TIME Type").
const TIME_DAYS_MAX: u32 = 34;

/// Sign, days, hours, minutes, seconds, microseconds: signed microseconds.
fn time(values: &mut Cursor<'_>) -> Option<i64> {
    let length = values.u8()?;
    if !matches!(length, 0 | 8 | 12) {
        return None;
    }
    let [sign, d0, d1, d2, d3, hours, minutes, seconds] = if length >= 8 { values.array()? } else { [0; 8] };
    let micros = u32::from_le_bytes(if length >= 12 { values.array()? } else { [0; 4] });
    let days = Some(u32::from_le_bytes([d0, d1, d2, d3])).filter(|days| *days <= TIME_DAYS_MAX)?;
    let hours = i64::from(days) * 24 + i64::from(hours);
    let seconds = hours * 3600 + i64::from(minutes) * 60 + i64::from(seconds);
    let magnitude = seconds * 1_000_000 + i64::from(micros);
    Some(if sign == 1 { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn sent(column_type: u8, unsigned: bool) -> Definition {
        Definition { column_type, unsigned }
    }

    /// The only value of a row that is not NULL.
    fn cell(mysql: MysqlType, sent: Definition, row: &[u8]) -> Option<Cell<'_>> {
        let layout = Layout::new(&mysql, sent);
        let mut values = Cursor::new(row);
        layout.read(&mut values).filter(|_| values.is_empty())
    }

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
        let at = |row: &[u8]| {
            let timestamp = MysqlType::Timestamp { digits: 6 };
            match cell(timestamp, sent(column_type::TIMESTAMP, true), row) {
                Some(Cell::Timestamp { seconds, micros }) => (seconds, micros),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(at(&[11, 0xe8, 7, 1, 2, 3, 4, 5, 6, 0, 0, 0]), (1_704_164_645, 6));
        assert_eq!(at(&[7, 0xb2, 7, 1, 1, 0, 0, 1]), (1, 0));
        assert_eq!(at(&[0]), (0, 0));
    }

    #[test]
    fn dates_leave_off_what_is_zero() {
        let date = Date { year: 2024, month: 0, day: 0 };
        let sent = sent(column_type::DATE, true);
        assert_eq!(cell(MysqlType::Date, sent, &[4, 0xe8, 7, 0, 0]), Some(Cell::Date(date)));
        let midnight = Some(Cell::DateTime { date, hour: 0, minute: 0, second: 0, micros: 0 });
        assert_eq!(cell(MysqlType::DateTime { digits: 0 }, sent, &[4, 0xe8, 7, 0, 0]), midnight);
        for malformed in [&[][..], &[1, 0], &[4, 0xe8, 7, 0], &[5, 0xe8, 7, 0, 0, 0], &[12; 13]] {
            assert_eq!(cell(MysqlType::Date, sent, malformed), None);
        }
    }

    #[test]
    fn times_are_signed_microseconds() {
        let read =
            |row: &'static [u8]| cell(MysqlType::Time { digits: 6 }, sent(column_type::TIME, false), row);
        assert_eq!(
            read(&[12, 1, 34, 0, 0, 0, 22, 59, 59, 0x20, 0xa1, 7, 0]),
            Some(Cell::Time(-3_020_399_500_000))
        );
        assert_eq!(read(&[8, 0, 0, 0, 0, 0, 0, 0, 1]), Some(Cell::Time(1_000_000)));
        assert_eq!(read(&[0]), Some(Cell::Time(0)));
        assert_eq!(read(&[11; 12]), None);
        assert_eq!(read(&[8, 0, 35, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn bits_are_big_endian() {
        let read = |row: &'static [u8]| cell(MysqlType::Bit { width: 10 }, sent(column_type::BIT, true), row);
        assert_eq!(read(&[2, 0x02, 0x01]), Some(Cell::Bit(0x201)));
        assert_eq!(read(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn integers_keep_their_sign() {
        let big = |unsigned| MysqlType::BigInt { unsigned };
        let (signed, unsigned) = (sent(column_type::LONGLONG, false), sent(column_type::LONGLONG, true));
        assert_eq!(cell(big(true), unsigned, &[0xff; 8]), Some(Cell::UInt(u64::MAX)));
        assert_eq!(cell(big(false), signed, &[0xff; 8]), Some(Cell::Int(-1)));
        assert_eq!(cell(big(false), unsigned, &[0xff; 8]), None);
        assert_eq!(cell(big(true), signed, &[0xff; 8]), None);
        for (column_type, width) in [(column_type::TINY, 1), (column_type::SHORT, 2), (column_type::INT24, 4)]
        {
            let (row, max) = (vec![0xff; width], (1 << (8 * width)) - 1);
            assert_eq!(cell(big(false), sent(column_type, false), &row), Some(Cell::Int(-1)));
            assert_eq!(cell(big(false), sent(column_type, true), &row), Some(Cell::Int(max)));
            assert_eq!(cell(big(true), sent(column_type, true), &row), Some(Cell::UInt(max.cast_unsigned())));
            assert_eq!(cell(big(true), sent(column_type, false), &row), None);
            assert_eq!(cell(big(true), sent(column_type, true), &row[1..]), None);
        }
        let labels = || vec!["a".to_owned()];
        assert_eq!(
            cell(MysqlType::Enum { labels: labels() }, signed, &[1, 0, 0, 0, 0, 0, 0, 0]),
            Some(Cell::Enum(1))
        );
        assert_eq!(cell(MysqlType::Enum { labels: labels() }, signed, &[0, 0, 1, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn a_value_of_another_type_is_refused_and_null_is_not() {
        let types = [MysqlType::Date, MysqlType::Json, MysqlType::Year, MysqlType::Float { unsigned: false }];
        let sent = [column_type::LONG, column_type::LONG, column_type::DATE, column_type::DOUBLE];
        let definitions = sent.map(|column_type| Definition { column_type, unsigned: false });
        let layout = RowLayout::new(types.iter(), &definitions).unwrap();
        let nulls: Vec<_> = layout.cells(&[0b11_1100]).collect();
        assert_eq!(nulls, [Some(Cell::Null); 4]);
        let cells: Vec<_> = layout.cells(&[0, 1, 0, 0, 0]).collect();
        assert_eq!(cells, [None; 4]);
        assert!(RowLayout::new(types.iter(), &definitions[1..]).is_none());
    }

    #[test]
    fn a_row_ends_with_its_last_value() {
        let types = [MysqlType::Year, MysqlType::Blob];
        let definitions = [sent(column_type::YEAR, true), sent(252, false)];
        let layout = RowLayout::new(types.iter(), &definitions).unwrap();
        let cells = |row| layout.cells(row).collect::<Vec<_>>();
        let year = Some(Cell::Year(2024));
        assert_eq!(cells(&[0, 0xe8, 7, 1, b'a']), [year, Some(Cell::Bytes(b"a"))]);
        assert_eq!(cells(&[0b1000, 0xe8, 7]), [year, Some(Cell::Null)]);
        assert_eq!(cells(&[0, 0xe8, 7, 1, b'a', b'b']), [year, None]);
        assert_eq!(cells(&[0b1000, 0xe8, 7, 0]), [year, None]);
        assert_eq!(cells(&[0, 0xe8, 7, 2, b'a']), [year, None]);
        assert_eq!(cells(&[]), [None, None]);
    }

    proptest! {
        #[test]
        fn no_row_breaks_its_reader(
            columns in prop::collection::vec((any::<u8>(), any::<bool>(), 0usize..12), 0..20),
            row in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let types = [
                MysqlType::BigInt { unsigned: true }, MysqlType::Int { unsigned: false },
                MysqlType::Decimal { precision: 9, scale: 2, unsigned: false },
                MysqlType::Float { unsigned: false }, MysqlType::Double { unsigned: false }, MysqlType::Blob,
                MysqlType::Bit { width: 64 }, MysqlType::Year, MysqlType::Date,
                MysqlType::DateTime { digits: 6 }, MysqlType::Timestamp { digits: 6 }, MysqlType::Time { digits: 6 },
            ];
            let definitions: Vec<Definition> =
                columns.iter().map(|&(column_type, unsigned, _)| sent(column_type, unsigned)).collect();
            let types = columns.iter().map(|&(.., at)| &types[at]);
            let layout = RowLayout::new(types, &definitions).unwrap();
            prop_assert_eq!(layout.cells(&row).count(), columns.len());
        }
    }
}
