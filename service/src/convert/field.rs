//! The frame of a field: its length and its bytes.

use super::ConvertError;

/// The most bytes of a PostgreSQL value: its allocations end at 1 GiB - 1, of which the value's
/// own header takes four (server source `src/include/utils/memutils.h`, `MaxAllocSize`).
const MAX_VALUE_BYTES: usize = 0x3fff_ffff - 4;

const LENGTH_BYTES: usize = 4;

#[inline]
pub(super) fn put_null(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1_i32).to_be_bytes());
}

/// A value of one, two, four or eight bytes.
#[inline(always)]
pub(super) fn put<const N: usize>(bytes: [u8; N], out: &mut Vec<u8>) {
    const { assert!(N <= 8) };
    let mut field = [0; LENGTH_BYTES + 8];
    field[3] = N as u8;
    field[LENGTH_BYTES..LENGTH_BYTES + N].copy_from_slice(&bytes);
    out.extend_from_slice(&field[..LENGTH_BYTES + N]);
}

/// A value whose bytes are at hand.
#[inline]
pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    out.extend_from_slice(&length(bytes.len())?);
    out.extend_from_slice(bytes);
    Ok(())
}

/// A value that `write` appends. Nothing of it stays where that fails.
pub(super) fn put_with(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    let frame = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let start = out.len();
    let length = match write(out).and_then(|()| length(out.len() - start)) {
        Ok(length) => length,
        Err(error) => {
            out.truncate(frame);
            return Err(error);
        }
    };
    if let Some(slot) = out.get_mut(frame..start) {
        slot.copy_from_slice(&length);
    }
    Ok(())
}

#[inline]
fn length(bytes: usize) -> Result<[u8; LENGTH_BYTES], ConvertError> {
    match u32::try_from(bytes) {
        Ok(length) if bytes <= MAX_VALUE_BYTES => Ok(length.to_be_bytes()),
        _ => Err(ConvertError::OutOfRange),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_hold_the_length_of_what_follows() {
        let mut out = Vec::new();
        put_null(&mut out);
        put([1], &mut out);
        put(7_i64.to_be_bytes(), &mut out);
        put_bytes(b"ab", &mut out).unwrap();
        put_with(&mut out, |out| {
            out.extend_from_slice(b"xyz");
            Ok(())
        })
        .unwrap();
        let expected: [&[u8]; 9] = [
            &[255; 4],
            &[0, 0, 0, 1, 1],
            &[0, 0, 0, 8],
            &7_i64.to_be_bytes(),
            &[0, 0, 0, 2],
            b"ab",
            &[0, 0, 0, 3],
            b"xyz",
            b"",
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn values_beyond_a_postgresql_allocation_are_refused() {
        assert!(length(MAX_VALUE_BYTES).is_ok());
        assert_eq!(length(MAX_VALUE_BYTES + 1), Err(ConvertError::OutOfRange));
        assert_eq!(length(1 << 32), Err(ConvertError::OutOfRange));
    }
}
