//! DECIMAL as numeric: from groups of nine decimal digits to groups of four.
//!
//! numeric in binary is the count of its base-10000 digits, the weight of the first, the sign, the
//! display scale, and the digits (server source `src/backend/utils/adt/numeric.c`, `numeric_recv`).
//! Written here without zero digits at either end, so that a number has one form only.

use super::ConvertError;
use crate::binlog::decimal::packed_length;

/// Base-10000 digits before the point: `DECIMAL(65, 0)` has 65 decimal digits.
const INTEGER_GROUPS: usize = 17;
/// Base-10000 digits behind the point: a scale has at most 30 decimal digits.
const FRACTION_GROUPS: usize = 8;
const GROUPS: usize = INTEGER_GROUPS + FRACTION_GROUPS;

/// Decimal digits in a group of numeric, and of MySQL's packed decimal.
const NUMERIC_GROUP: usize = 4;
const PACKED_GROUP: usize = 9;

/// Length, count, weight, sign and scale, before the digits.
const HEADER_BYTES: usize = 12;

const SIGN_NEGATIVE: u8 = 0x40;

const POWERS_OF_TEN: [u32; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Bytes of a packed group of 0 to 9 digits.
const PACKED_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// A column's digits: `integer` before the point, `scale` behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    integer: u8,
    scale: u8,
    packed_length: u8,
    /// Both halves fit 64 bits even when the fraction is filled up to whole groups.
    short: bool,
}

/// Bounds of a DECIMAL column (MySQL manual, "Precision Math", "DECIMAL Data Type Characteristics").
/// Decimals inside JSON may have more digits.
const PRECISION_MAX: u16 = 65;
const SCALE_MAX: u16 = 30;

impl Shape {
    /// `None` beyond what a MySQL DECIMAL can be.
    pub(super) fn new(precision: u16, scale: u16) -> Option<Self> {
        if !(1..=PRECISION_MAX).contains(&precision) || scale > SCALE_MAX.min(precision) {
            return None;
        }
        let (precision, scale) = (u8::try_from(precision).ok()?, u8::try_from(scale).ok()?);
        let packed_length = u8::try_from(packed_length(precision, scale)?).ok()?;
        let integer = precision - scale;
        Some(Self { integer, scale, packed_length, short: integer <= 18 && scale <= 16 })
    }

    /// A packed decimal of the same precision and scale.
    #[inline]
    pub(super) fn write_packed(
        self,
        bytes: &[u8],
        precision: u8,
        scale: u8,
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        if (precision, scale) != (self.integer + self.scale, self.scale) {
            return Err(ConvertError::UnexpectedKind);
        }
        if bytes.len() != usize::from(self.packed_length) {
            return Err(ConvertError::Malformed);
        }
        let packed = Packed::new(bytes);
        if self.short { self.write_short(packed, out) } else { self.write_long(packed, out) }
    }

    #[inline]
    fn write_short(self, mut packed: Packed<'_>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        const INTEGER: usize = 5;
        const FRACTION: usize = 4;
        let negative = packed.negative;
        let mut integer = packed.number(usize::from(self.integer) % PACKED_GROUP)?;
        for _ in 0..usize::from(self.integer) / PACKED_GROUP {
            integer = integer * 1_000_000_000 + packed.number(PACKED_GROUP)?;
        }
        let mut fraction = 0;
        for _ in 0..usize::from(self.scale) / PACKED_GROUP {
            fraction = fraction * 1_000_000_000 + packed.number(PACKED_GROUP)?;
        }
        let last = usize::from(self.scale) % PACKED_GROUP;
        fraction = fraction * u64::from(POWERS_OF_TEN[last]) + packed.number(last)?;
        // Filled up with zeros to whole groups.
        let missing = usize::from(self.scale).next_multiple_of(NUMERIC_GROUP) - usize::from(self.scale);
        fraction *= u64::from(POWERS_OF_TEN[missing]);

        let mut groups = [0; INTEGER + FRACTION];
        let fraction_groups = usize::from(self.scale).div_ceil(NUMERIC_GROUP);
        split(integer, &mut groups[..INTEGER]);
        split(fraction, &mut groups[INTEGER..INTEGER + fraction_groups]);
        self.put(negative, &groups, INTEGER, out);
        Ok(())
    }

    fn write_long(self, mut packed: Packed<'_>, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        let negative = packed.negative;
        let mut digits = Digits::new();
        let mut position = Digits::POINT - usize::from(self.integer);
        let (integer, scale) = (usize::from(self.integer), usize::from(self.scale));
        let leading = std::iter::once(integer % PACKED_GROUP);
        let whole = std::iter::repeat_n(PACKED_GROUP, integer / PACKED_GROUP + scale / PACKED_GROUP);
        for count in leading.chain(whole).chain([scale % PACKED_GROUP]) {
            let mut group = packed.number(count)?;
            position += count;
            for digit in digits.before(position)?.iter_mut().rev().take(count) {
                *digit = (group % 10) as u8;
                group /= 10;
            }
        }
        self.put(negative, &digits.groups(), INTEGER_GROUPS, out);
        Ok(())
    }

    /// A decimal as MySQL prints it: `[-]digits[.digits]`.
    pub(super) fn write_text(self, text: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
        let (negative, unsigned) = match text.strip_prefix(b"-") {
            Some(unsigned) => (true, unsigned),
            None => (false, text),
        };
        let point = unsigned.iter().position(|&byte| byte == b'.').unwrap_or(unsigned.len());
        let (integer, fraction) = unsigned.split_at(point);
        let fraction = fraction.get(1..).unwrap_or_default();
        if !integer.iter().chain(fraction).all(u8::is_ascii_digit) || integer.is_empty() {
            return Err(ConvertError::Malformed);
        }
        let zeros = integer.iter().take_while(|&&digit| digit == b'0').count();
        let integer = integer.get(zeros..).unwrap_or_default();
        if integer.len() > usize::from(self.integer) || fraction.len() > usize::from(self.scale) {
            return Err(ConvertError::OutOfRange);
        }
        let mut digits = Digits::new();
        let start = Digits::POINT - integer.len();
        for (slot, ascii) in digits.0.iter_mut().skip(start).zip(integer.iter().chain(fraction)) {
            *slot = ascii - b'0';
        }
        self.put(negative, &digits.groups(), INTEGER_GROUPS, out);
        Ok(())
    }

    /// A BIGINT UNSIGNED.
    pub(super) fn write_integer(self, value: u64, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        if self.scale != 0 || self.integer < 20 {
            return Err(ConvertError::UnexpectedKind);
        }
        let mut groups = [0; 5];
        split(value, &mut groups);
        self.put(false, &groups, groups.len(), out);
        Ok(())
    }

    /// Appends the field of a number in base 10000 with its point behind `integer_groups`.
    #[inline]
    fn put(self, negative: bool, groups: &[u16], integer_groups: usize, out: &mut Vec<u8>) {
        let significant = groups.iter().rposition(|&group| group != 0).map_or(0, |last| last + 1);
        let first = groups.iter().take(significant).take_while(|&&group| group == 0).count();
        let digits = groups.get(first..significant).unwrap_or_default();

        let mut field = [0; HEADER_BYTES + 2 * GROUPS];
        // A numeric of this shape has at most 62 bytes; its weight lies between -8 and 16.
        field[3] = (8 + 2 * digits.len()) as u8;
        field[5] = digits.len() as u8;
        if !digits.is_empty() {
            let weight = integer_groups as i16 - 1 - first as i16;
            field[6..8].copy_from_slice(&weight.to_be_bytes());
            field[8] = if negative { SIGN_NEGATIVE } else { 0 };
        }
        field[11] = self.scale;
        let (slots, _) = field[HEADER_BYTES..].as_chunks_mut::<2>();
        for (slot, digit) in slots.iter_mut().zip(digits) {
            *slot = digit.to_be_bytes();
        }
        out.extend_from_slice(field.get(..HEADER_BYTES + 2 * digits.len()).unwrap_or(&field));
    }
}

/// Splits a number into its base-10000 digits, the least at the end; what does not fit is none.
#[inline]
fn split(mut number: u64, groups: &mut [u16]) {
    for group in groups.iter_mut().rev() {
        *group = (number % 10_000) as u16;
        number /= 10_000;
    }
    debug_assert_eq!(number, 0);
}

/// Reads the groups of a packed decimal.
struct Packed<'a> {
    bytes: &'a [u8],
    negative: bool,
    /// What the next group's bytes are to be inverted by; the first one's top bit is inverted once more.
    invert: u32,
    first: bool,
}

impl<'a> Packed<'a> {
    #[inline]
    fn new(bytes: &'a [u8]) -> Self {
        let negative = bytes.first().is_some_and(|byte| byte & 0x80 == 0);
        Self { bytes, negative, invert: if negative { u32::MAX } else { 0 }, first: true }
    }

    /// The next group, of 0 to 9 digits.
    #[inline]
    fn number(&mut self, digits: usize) -> Result<u64, ConvertError> {
        let width = *PACKED_BYTES.get(digits).ok_or(ConvertError::Malformed)?;
        if width == 0 {
            return Ok(0);
        }
        let (group, rest) = self.bytes.split_at_checked(width).ok_or(ConvertError::Malformed)?;
        self.bytes = rest;
        let mut value = group.iter().fold(0, |value, &byte| value << 8 | u32::from(byte));
        if self.first {
            self.first = false;
            value ^= 0x80 << (8 * (width - 1));
        }
        value ^= self.invert >> (32 - 8 * width);
        if value < POWERS_OF_TEN[digits] { Ok(value.into()) } else { Err(ConvertError::Malformed) }
    }
}

/// Decimal digits around a point that stands at a fixed place.
struct Digits([u8; GROUPS * NUMERIC_GROUP]);

impl Digits {
    const POINT: usize = INTEGER_GROUPS * NUMERIC_GROUP;

    const fn new() -> Self {
        Self([0; GROUPS * NUMERIC_GROUP])
    }

    fn before(&mut self, position: usize) -> Result<&mut [u8], ConvertError> {
        self.0.get_mut(..position).ok_or(ConvertError::Malformed)
    }

    fn groups(&self) -> [u16; GROUPS] {
        let (fours, _) = self.0.as_chunks::<NUMERIC_GROUP>();
        let mut groups = [0; GROUPS];
        for (group, four) in groups.iter_mut().zip(fours) {
            *group = four.iter().fold(0, |value, &digit| value * 10 + u16::from(digit));
        }
        groups
    }
}

#[cfg(test)]
mod tests;
