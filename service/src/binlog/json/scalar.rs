//! The values of a JSON document that hold no others.

use std::io::Write;

use super::kind;
use crate::binlog::DecodeError;
use crate::binlog::decimal;
use crate::binlog::reader::Reader;

/// Reads and prints one scalar.
pub(super) fn write(kind: u8, reader: &mut Reader<'_>, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let error = reader.error();
    match kind {
        kind::LITERAL => out.extend_from_slice(match reader.u8()? {
            0 => b"null",
            1 => b"true",
            2 => b"false",
            _ => return Err(error),
        }),
        kind::INT16 => write_display(reader.u16()?.cast_signed(), out),
        kind::UINT16 => write_display(reader.u16()?, out),
        kind::INT32 => write_display(reader.u32()?.cast_signed(), out),
        kind::UINT32 => write_display(reader.u32()?, out),
        kind::INT64 => write_display(reader.u64()?.cast_signed(), out),
        kind::UINT64 => write_display(reader.u64()?, out),
        kind::DOUBLE => {
            let value = f64::from_bits(reader.u64()?);
            if !value.is_finite() {
                return Err(error);
            }
            write_double(value, out);
        }
        kind::STRING => {
            let length = read_length(reader)?;
            write_string(reader, length, out)?;
        }
        kind::OPAQUE => {
            let column_type = reader.u8()?;
            let length = read_length(reader)?;
            write_opaque(column_type, reader.nested("JSON opaque value", length)?, out)?;
        }
        _ => return Err(error),
    }
    Ok(())
}

/// A length of up to 32 bits, seven a byte, lowest first; the high bit says that more follow.
fn read_length(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    const BYTES_MAX: u32 = 5;
    let error = reader.error();
    let mut length = 0;
    for index in 0..BYTES_MAX {
        let byte = reader.u8()?;
        length |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return if length <= u64::from(u32::MAX) { Ok(length) } else { Err(error) };
        }
    }
    Err(error)
}

fn write_display(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    // Writing to a Vec can't fail: its `io::Write` only appends.
    let _infallible = write!(out, "{value}");
}

/// Prints `length` bytes of UTF-8 in quotes.
pub(super) fn write_string(
    reader: &mut Reader<'_>,
    length: u64,
    out: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let error = reader.error();
    let text = str::from_utf8(reader.take_u64(length)?).map_err(|_| error)?;
    write_quoted(text, out);
    Ok(())
}

fn write_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(plain) = rest.iter().position(|byte| matches!(byte, 0..=0x1f | b'"' | b'\\')) {
        let (before, from) = rest.split_at(plain);
        out.extend_from_slice(before);
        if let Some((special, after)) = from.split_first() {
            write_escape(*special, out);
            rest = after;
        }
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
            return;
        }
    };
    out.extend([b'\\', short]);
}

/// Most digits in front of the point, and most zeros behind it, that the server prints before it
/// turns to an exponent (server source `strings/dtoa.cc`, `MAX_DECPT_FOR_F_FORMAT`).
const POINT_MAX: i32 = 15;

/// Prints the shortest digits that give the same double again, in the server's choice of form:
/// `0.1`, `1.0`, `1e15`, `0.00001`, `5e-324`.
pub(super) fn write_double(value: f64, out: &mut Vec<u8>) {
    let mut buffer = [0; 32];
    let mut cursor = buffer.as_mut_slice();
    // At most 24 characters: sign, 17 digits, point, e, sign, three digits.
    let _fits = write!(cursor, "{value:e}");
    let unused = cursor.len();
    let text = buffer.get(..buffer.len() - unused).unwrap_or_default();
    let (mantissa, exponent) = split_exponent(text);
    let (sign, mantissa) = match mantissa.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, mantissa),
    };
    if sign {
        out.push(b'-');
    }
    let (first, others) = mantissa.split_at(mantissa.len().min(1));
    let others = others.get(1..).unwrap_or_default(); // without the point
    let digits = 1 + others.len();
    let point = exponent + 1;
    if point <= -POINT_MAX || point > POINT_MAX && usize::try_from(point).is_ok_and(|point| point >= digits) {
        out.extend_from_slice(mantissa);
        write_display(format_args!("e{exponent}"), out);
    } else if let Ok(point @ 1..) = usize::try_from(point) {
        let whole = first.iter().chain(others).chain(std::iter::repeat(&b'0')).take(point);
        out.extend(whole);
        out.push(b'.');
        match others.get(point - 1..) {
            Some(fraction @ [_, ..]) => out.extend_from_slice(fraction),
            _ => out.push(b'0'),
        }
    } else {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', point.unsigned_abs() as usize));
        out.extend(first.iter().chain(others));
    }
}

/// Splits Rust's `{:e}` form into mantissa and exponent.
fn split_exponent(text: &[u8]) -> (&[u8], i32) {
    let at = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
    let (mantissa, exponent) = text.split_at(at);
    let exponent = exponent.get(1..).and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
    (mantissa, exponent.unwrap_or(0))
}

/// Prints a value of an SQL type that JSON lacks. Types: server source `include/field_types.h`.
fn write_opaque(column_type: u8, mut value: Reader<'_>, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    match column_type {
        246 => {
            let (precision, scale) = (value.u8()?, value.u8()?);
            decimal::write_text(value.rest(), precision, scale, out)
        }
        10 => write_date(value.u64()?, out),
        11 => write_time(value.u64()?.cast_signed(), out),
        7 | 12 => write_datetime(value.u64()?, out),
        _ => {
            write_display(format_args!("\"base64:type{column_type}:"), out);
            write_base64(value.rest(), out);
            out.push(b'"');
            Ok(())
        }
    }
}

const MALFORMED_TEMPORAL: DecodeError = DecodeError { what: "JSON temporal value", offset: 0 };

/// The parts of a packed datetime: year * 13 + month, day 5 bits, hour 5, minute 6, second 6,
/// microseconds 24 (server source `mysys/my_time.cc`, `TIME_to_longlong_datetime_packed`).
struct Packed(u64);

impl Packed {
    const fn months(&self) -> u64 {
        self.0 >> 46
    }
    const fn day(&self) -> u64 {
        self.0 >> 41 & 0x1f
    }
    const fn clock(&self) -> (u64, u64, u64) {
        (self.0 >> 36 & 0x1f, self.0 >> 30 & 0x3f, self.0 >> 24 & 0x3f)
    }
    const fn micros(&self) -> u64 {
        self.0 & 0xff_ffff
    }
}

fn write_date(packed: u64, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let packed = Packed(packed);
    let (year, month) = (packed.months() / 13, packed.months() % 13);
    if year > 9999 {
        return Err(MALFORMED_TEMPORAL);
    }
    write_display(format_args!("\"{year:04}-{month:02}-{:02}\"", packed.day()), out);
    Ok(())
}

fn write_datetime(packed: u64, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let packed = Packed(packed);
    let (year, month, day) = (packed.months() / 13, packed.months() % 13, packed.day());
    let ((hour, minute, second), micros) = (packed.clock(), packed.micros());
    if year > 9999 || micros > 999_999 {
        return Err(MALFORMED_TEMPORAL);
    }
    let clock = format_args!("{hour:02}:{minute:02}:{second:02}.{micros:06}");
    write_display(format_args!("\"{year:04}-{month:02}-{day:02} {clock}\""), out);
    Ok(())
}

/// TIME has ten bits for the hour and a sign (`TIME_to_longlong_time_packed`).
fn write_time(packed: i64, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let sign = if packed < 0 { "-" } else { "" };
    let packed = Packed(packed.unsigned_abs());
    let (hour, (_, minute, second), micros) = (packed.0 >> 36, packed.clock(), packed.micros());
    if hour > 838 || micros > 999_999 {
        return Err(MALFORMED_TEMPORAL);
    }
    write_display(format_args!("\"{sign}{hour:02}:{minute:02}:{second:02}.{micros:06}\""), out);
    Ok(())
}

/// Characters of base64 after which the server breaks the line, as an escaped line feed.
const BASE64_LINE: usize = 76;

/// RFC 4648 section 4, with padding, in lines.
fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (index, chunk) in bytes.chunks(3).enumerate() {
        if index > 0 && index * 4 % BASE64_LINE == 0 {
            out.extend_from_slice(b"\\n");
        }
        let mut group = [0; 3];
        for (slot, byte) in group.iter_mut().zip(chunk) {
            *slot = *byte;
        }
        let bits = u32::from_be_bytes([0, group[0], group[1], group[2]]);
        for digit in 0..4 {
            let letter = ALPHABET[(bits >> (18 - 6 * digit) & 0x3f) as usize];
            out.push(if digit <= chunk.len() { letter } else { b'=' });
        }
    }
}
