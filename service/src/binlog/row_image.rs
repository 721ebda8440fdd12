//! Row images: the values of one row as a rows event carries them, read without allocation.
//!
//! Layout: server source `sql/rpl_record.cc`, `pack_row` (a bitmap of NULLs, then the other
//! columns' values), and `Field::pack` of each field class in `sql/field.cc`; temporal values in
//! `mysys/my_time.cc` (`my_timestamp_to_binary` and its like). Only full images are read; whoever
//! calls has checked the event's column bitmaps.

use super::DecodeError;
use super::cell::{Cell, Date};
use super::decimal;
use super::table_map::{Encoding, TableMap};

/// Reads the images of one table: its columns' encodings, compiled once.
#[derive(Debug, Clone)]
pub struct RowReader {
    codecs: Box<[Codec]>,
    null_bytes: usize,
}

impl RowReader {
    #[must_use]
    pub fn new(map: &TableMap) -> Self {
        let codecs: Box<[Codec]> = map.columns.iter().map(|column| Codec::new(&column.encoding)).collect();
        Self { null_bytes: codecs.len().div_ceil(8), codecs }
    }

    /// Number of columns, which is the number of cells of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.codecs.len()
    }

    /// Reads one image off the front of `images` and hands each column's index and cell to `each`,
    /// in column order. Stops at the first error; `images` is then in no defined place.
    #[inline]
    pub fn read_row<'a, E: From<DecodeError>>(
        &self,
        images: &mut &'a [u8],
        mut each: impl FnMut(usize, Cell<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        let whole = *images;
        let (nulls, mut input) =
            whole.split_at_checked(self.null_bytes).ok_or_else(|| malformed(whole, whole))?;
        for (index, codec) in self.codecs.iter().enumerate() {
            let is_null = nulls.get(index / 8).is_some_and(|bits| bits >> (index % 8) & 1 == 1);
            let cell = if is_null {
                Cell::Null
            } else {
                let before = input;
                codec.read(&mut input).ok_or_else(|| malformed(whole, before))?
            };
            each(index, cell)?;
        }
        *images = input;
        Ok(())
    }

    /// Passes over one image, for the before images that nobody reads.
    pub fn skip_row(&self, images: &mut &[u8]) -> Result<(), DecodeError> {
        self.read_row(images, |_, _| Ok(()))
    }
}

/// The value that starts where only `rest` was left of `whole` is truncated or contradicts its type.
#[cold]
fn malformed(whole: &[u8], rest: &[u8]) -> DecodeError {
    DecodeError { what: "row image", offset: whole.len() - rest.len() }
}

/// How to read one column: [`Encoding`] reduced to what the bytes depend on.
#[derive(Debug, Clone, Copy)]
enum Codec {
    Int8,
    UInt8,
    Int16,
    UInt16,
    Int24,
    UInt24,
    Int32,
    UInt32,
    Int64,
    UInt64,
    Float,
    Double,
    Decimal {
        length: u8,
        precision: u8,
        scale: u8,
    },
    /// One byte of length, then at most `max` bytes.
    ShortBytes {
        max: u8,
    },
    /// Two bytes of length, then at most `max` bytes.
    LongBytes {
        max: u16,
    },
    Blob {
        length_bytes: u8,
    },
    Bit {
        width: u8,
    },
    Enum8,
    Enum16,
    Set {
        pack: u8,
    },
    Date,
    Time {
        fraction: Fraction,
    },
    DateTime {
        fraction: Fraction,
    },
    Timestamp {
        fraction: Fraction,
    },
    Year,
    Json {
        length_bytes: u8,
    },
    /// What no parsed table map yields; reading it fails.
    Impossible,
}

impl Codec {
    fn new(encoding: &Encoding) -> Self {
        match *encoding {
            Encoding::TinyInt { unsigned } => {
                if unsigned {
                    Self::UInt8
                } else {
                    Self::Int8
                }
            }
            Encoding::SmallInt { unsigned } => {
                if unsigned {
                    Self::UInt16
                } else {
                    Self::Int16
                }
            }
            Encoding::MediumInt { unsigned } => {
                if unsigned {
                    Self::UInt24
                } else {
                    Self::Int24
                }
            }
            Encoding::Int { unsigned } => {
                if unsigned {
                    Self::UInt32
                } else {
                    Self::Int32
                }
            }
            Encoding::BigInt { unsigned } => {
                if unsigned {
                    Self::UInt64
                } else {
                    Self::Int64
                }
            }
            Encoding::Float { .. } => Self::Float,
            Encoding::Double { .. } => Self::Double,
            Encoding::Decimal { precision, scale, .. } => {
                match decimal::packed_length(precision, scale).map(u8::try_from) {
                    Some(Ok(length)) => Self::Decimal { length, precision, scale },
                    _ => Self::Impossible,
                }
            }
            Encoding::Varchar { max_bytes, .. } | Encoding::Char { max_bytes, .. } => u8::try_from(max_bytes)
                .map_or(Self::LongBytes { max: max_bytes }, |max| Self::ShortBytes { max }),
            Encoding::Blob { length_bytes, .. }
            | Encoding::Geometry { length_bytes }
            | Encoding::Vector { length_bytes } => Self::Blob { length_bytes },
            Encoding::Bit { width } => Self::Bit { width },
            Encoding::Enum { pack: 1, .. } => Self::Enum8,
            Encoding::Enum { pack: 2, .. } => Self::Enum16,
            Encoding::Enum { .. } => Self::Impossible,
            Encoding::Set { pack, .. } => Self::Set { pack },
            Encoding::Date => Self::Date,
            Encoding::Time { digits } => Self::Time { fraction: Fraction::of(digits) },
            Encoding::DateTime { digits } => Self::DateTime { fraction: Fraction::of(digits) },
            Encoding::Timestamp { digits } => Self::Timestamp { fraction: Fraction::of(digits) },
            Encoding::Year => Self::Year,
            Encoding::Json { length_bytes } => Self::Json { length_bytes },
        }
    }

    /// Reads one value; `None` if it is cut off or contradicts its type.
    #[inline(always)]
    fn read<'a>(self, input: &mut &'a [u8]) -> Option<Cell<'a>> {
        Some(match self {
            Self::Int8 => Cell::Int(i8::from_le_bytes(array(input)?).into()),
            Self::UInt8 => Cell::UInt(u8::from_le_bytes(array(input)?).into()),
            Self::Int16 => Cell::Int(i16::from_le_bytes(array(input)?).into()),
            Self::UInt16 => Cell::UInt(u16::from_le_bytes(array(input)?).into()),
            Self::Int24 => {
                let [low, middle, high] = array(input)?;
                // The value in the upper three bytes, shifted back with its sign.
                Cell::Int((i32::from_le_bytes([0, low, middle, high]) >> 8).into())
            }
            Self::UInt24 => Cell::UInt(read_u24(input)?.into()),
            Self::Int32 => Cell::Int(i32::from_le_bytes(array(input)?).into()),
            Self::UInt32 => Cell::UInt(u32::from_le_bytes(array(input)?).into()),
            Self::Int64 => Cell::Int(i64::from_le_bytes(array(input)?)),
            Self::UInt64 => Cell::UInt(u64::from_le_bytes(array(input)?)),
            Self::Float => Cell::Float(f32::from_le_bytes(array(input)?)),
            Self::Double => Cell::Double(f64::from_le_bytes(array(input)?)),
            Self::Decimal { length, precision, scale } => {
                Cell::DecimalPacked { bytes: take(input, length.into())?, precision, scale }
            }
            Self::ShortBytes { max } => {
                let length = u8::from_le_bytes(array(input)?);
                Cell::Bytes((length <= max).then(|| take(input, length.into()))??)
            }
            Self::LongBytes { max } => {
                let length = u16::from_le_bytes(array(input)?);
                Cell::Bytes((length <= max).then(|| take(input, length.into()))??)
            }
            Self::Blob { length_bytes } => Cell::Bytes(read_blob(input, length_bytes)?),
            Self::Json { length_bytes } => Cell::JsonBinary(read_blob(input, length_bytes)?),
            Self::Bit { width } => Cell::Bit(read_bit(input, width)?),
            Self::Enum8 => Cell::Enum(u8::from_le_bytes(array(input)?).into()),
            Self::Enum16 => Cell::Enum(u16::from_le_bytes(array(input)?)),
            Self::Set { pack } => Cell::Set(read_le(input, pack.into())?),
            Self::Date => Cell::Date(read_date(input)?),
            Self::Time { fraction } => Cell::Time(read_time(input, fraction)?),
            Self::DateTime { fraction } => read_datetime(input, fraction)?,
            Self::Timestamp { fraction } => {
                let seconds = u32::from_be_bytes(array(input)?).into();
                Cell::Timestamp { seconds, micros: fraction.read(input)? }
            }
            Self::Year => Cell::Year(match u8::from_le_bytes(array(input)?) {
                0 => 0,
                year => 1900 + u16::from(year),
            }),
            Self::Impossible => return None,
        })
    }
}

#[inline(always)]
fn array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = input.split_first_chunk()?;
    *input = tail;
    Some(*head)
}

#[inline(always)]
fn take<'a>(input: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = input.split_at_checked(length)?;
    *input = tail;
    Some(head)
}

#[inline(always)]
fn read_u24(input: &mut &[u8]) -> Option<u32> {
    let [low, middle, high] = array(input)?;
    Some(u32::from_le_bytes([low, middle, high, 0]))
}

/// A little-endian integer of at most 8 bytes.
fn read_le(input: &mut &[u8], width: usize) -> Option<u64> {
    let mut buffer = [0; 8];
    buffer.get_mut(..width)?.copy_from_slice(take(input, width)?);
    Some(u64::from_le_bytes(buffer))
}

/// A big-endian integer of at most 8 bytes.
fn read_be(input: &mut &[u8], width: usize) -> Option<u64> {
    let mut buffer = [0; 8];
    let start = buffer.len().checked_sub(width)?;
    buffer.get_mut(start..)?.copy_from_slice(take(input, width)?);
    Some(u64::from_be_bytes(buffer))
}

#[inline(always)]
fn read_blob<'a>(input: &mut &'a [u8], length_bytes: u8) -> Option<&'a [u8]> {
    let length = match length_bytes {
        1 => u8::from_le_bytes(array(input)?).into(),
        2 => u16::from_le_bytes(array(input)?).into(),
        3 => read_u24(input)?,
        _ => u32::from_le_bytes(array(input)?),
    };
    take(input, usize::try_from(length).ok()?)
}

fn read_bit(input: &mut &[u8], width: u8) -> Option<u64> {
    let value = read_be(input, usize::from(width).div_ceil(8))?;
    value.checked_shr(width.into()).is_none_or(|beyond| beyond == 0).then_some(value)
}

/// How a temporal value's fraction of a second is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fraction {
    Absent,
    /// One byte of hundredths: one or two digits.
    Hundredths,
    /// Two bytes of ten-thousandths: three or four digits.
    TenThousandths,
    /// Three bytes of microseconds: five or six digits.
    Micros,
}

impl Fraction {
    const fn of(digits: u8) -> Self {
        match digits {
            0 => Self::Absent,
            1 | 2 => Self::Hundredths,
            3 | 4 => Self::TenThousandths,
            _ => Self::Micros,
        }
    }

    const fn bytes(self) -> usize {
        self as usize
    }

    const fn micros_per_unit(self) -> u32 {
        match self {
            Self::Absent | Self::Micros => 1,
            Self::Hundredths => 10_000,
            Self::TenThousandths => 100,
        }
    }

    /// Reads the fraction as microseconds, less than a second.
    #[inline(always)]
    fn read(self, input: &mut &[u8]) -> Option<u32> {
        let units = match self {
            Self::Absent => 0,
            Self::Hundredths => u8::from_be_bytes(array(input)?).into(),
            Self::TenThousandths => u16::from_be_bytes(array(input)?).into(),
            Self::Micros => {
                let [high, middle, low] = array(input)?;
                u32::from_be_bytes([0, high, middle, low])
            }
        };
        Some(units * self.micros_per_unit()).filter(|micros| *micros < 1_000_000)
    }
}

/// DATE: day in 5 bits, month in 4, year above.
#[inline(always)]
fn read_date(input: &mut &[u8]) -> Option<Date> {
    let packed = read_u24(input)?;
    checked_date(packed >> 9, packed >> 5 & 0xf, packed & 0x1f)
}

/// Month and day may be zero, and the day may exceed its month (`ALLOW_INVALID_DATES`).
#[inline(always)]
fn checked_date(year: u32, month: u32, day: u32) -> Option<Date> {
    if year > 9999 || month > 12 {
        return None;
    }
    // Days have five bits. All three are in range of their types.
    Some(Date { year: year as u16, month: month as u8, day: day as u8 })
}

/// DATETIME: 5 bytes big-endian with the first bit set, of which year * 13 + month 17 bits, day 5,
/// hour 5, minute 6, second 6; then the fraction.
#[inline(always)]
fn read_datetime<'a>(input: &mut &'a [u8], fraction: Fraction) -> Option<Cell<'a>> {
    let [sign_and_months, rest @ ..] = array::<5>(input)?;
    let low = u32::from_be_bytes(rest);
    let months = u32::from(sign_and_months & 0x7f) << 10 | low >> 22;
    let micros = fraction.read(input)?;
    let date = checked_date(months / 13, months % 13, low >> 17 & 0x1f)?;
    let (hour, minute, second) = (low >> 12 & 0x1f, low >> 6 & 0x3f, low & 0x3f);
    if sign_and_months & 0x80 == 0 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(Cell::DateTime { date, hour: hour as u8, minute: minute as u8, second: second as u8, micros })
}

/// TIME: 3 bytes big-endian of hour, minute, second, then the fraction; together one number with
/// its first bit inverted, so that a negative time is the two's complement of the whole.
#[inline(always)]
fn read_time(input: &mut &[u8], fraction: Fraction) -> Option<i64> {
    let fraction_bits = 8 * fraction.bytes();
    let stored = read_be(input, 3 + fraction.bytes())?.cast_signed();
    let signed = stored - (1 << (23 + fraction_bits));
    let magnitude = signed.unsigned_abs();
    let units = magnitude & ((1 << fraction_bits) - 1);
    let micros = units * u64::from(fraction.micros_per_unit());
    let clock = magnitude >> fraction_bits;
    let (hour, minute, second) = (clock >> 12, clock >> 6 & 0x3f, clock & 0x3f);
    if hour > 838 || minute > 59 || second > 59 || micros > 999_999 {
        return None;
    }
    let total = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros;
    Some(total.cast_signed() * signed.signum())
}
