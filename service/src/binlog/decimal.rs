//! MySQL's packed decimal: groups of nine digits in four bytes, shorter groups at both ends.
//!
//! Server source `strings/decimal.cc`, `decimal2bin`: big-endian groups; the first bit is
//! inverted, and all bits are inverted if the number is negative, so that bytes compare as numbers.

use super::DecodeError;

/// Bytes of a group of 0 to 9 digits.
const GROUP_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
const DIGITS_PER_GROUP: usize = 9;
/// Most digits of a packed number. A column has at most 65; a number inside JSON has its integer
/// part rounded up to whole groups and so fills the server's buffer of nine groups.
const DIGITS_MAX: u8 = 81;
/// More than the bytes of `DIGITS_MAX` digits at any scale.
const PACKED_MAX: usize = 40;

/// Bytes of a packed number of `precision` digits, `scale` of them behind the point; `None` if
/// there is no such number.
#[must_use]
pub fn packed_length(precision: u8, scale: u8) -> Option<usize> {
    let integer = usize::from(precision.checked_sub(scale)?);
    if !matches!((precision, scale), (1..=DIGITS_MAX, 0..=30)) {
        return None;
    }
    let half = |digits: usize| digits / DIGITS_PER_GROUP * 4 + GROUP_BYTES[digits % DIGITS_PER_GROUP];
    Some(half(integer) + half(usize::from(scale)))
}

/// Appends the number as MySQL prints it: no leading zeros, all digits of the scale.
pub fn write_text(packed: &[u8], precision: u8, scale: u8, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let malformed = |offset| DecodeError { what: "packed DECIMAL", offset };
    let length = packed_length(precision, scale).ok_or_else(|| malformed(0))?;
    let mut buffer = [0; PACKED_MAX];
    let copy = buffer.get_mut(..length).ok_or_else(|| malformed(0))?;
    copy.copy_from_slice(packed.get(..length).ok_or_else(|| malformed(packed.len()))?);
    let negative = copy.first().is_some_and(|byte| byte & 0x80 == 0);
    if let Some(first) = copy.first_mut() {
        *first ^= 0x80;
    }
    if negative {
        copy.iter_mut().for_each(|byte| *byte = !*byte);
        out.push(b'-');
    }
    let mut groups = &*copy;
    let integer = usize::from(precision - scale);
    let start = out.len();
    write_group(&mut groups, integer % DIGITS_PER_GROUP, out)?;
    for _ in 0..integer / DIGITS_PER_GROUP {
        write_group(&mut groups, DIGITS_PER_GROUP, out)?;
    }
    trim_zeros(out, start);
    if scale > 0 {
        out.push(b'.');
    }
    for _ in 0..usize::from(scale) / DIGITS_PER_GROUP {
        write_group(&mut groups, DIGITS_PER_GROUP, out)?;
    }
    write_group(&mut groups, usize::from(scale) % DIGITS_PER_GROUP, out)
}

/// Appends one group as exactly `digits` digits.
fn write_group(groups: &mut &[u8], digits: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let malformed = DecodeError { what: "packed DECIMAL", offset: 0 };
    let width = *GROUP_BYTES.get(digits).ok_or_else(|| malformed.clone())?;
    let (group, rest) = groups.split_at_checked(width).ok_or_else(|| malformed.clone())?;
    *groups = rest;
    let mut value = group.iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte));
    let end = out.len() + digits;
    out.resize(end, b'0');
    for slot in out.iter_mut().rev().take(digits) {
        *slot = b'0' + (value % 10) as u8;
        value /= 10;
    }
    if value == 0 { Ok(()) } else { Err(malformed) }
}

/// Removes leading zeros from `start` on, but leaves one digit.
fn trim_zeros(out: &mut Vec<u8>, start: usize) {
    let digits = out.get(start..).unwrap_or_default();
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    out.drain(start..start + zeros);
    if out.len() == start {
        out.push(b'0');
    }
}
