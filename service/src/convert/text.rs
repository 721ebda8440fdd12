//! Text in the column's character set, and labels, as UTF-8.

use super::{ConvertError, field};
use crate::schema::charset::{Charset, TextError, latin1_char};

/// Appends text as a field. The bytes must be valid in the character set, which is a superset of
/// ASCII, and PostgreSQL's text has no NUL.
#[inline]
pub(super) fn write(charset: Charset, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    if is_plain_ascii(bytes) {
        return field::put_bytes(bytes, out);
    }
    write_any(charset, bytes, out)
}

/// As [`write`], in any character set.
pub(super) fn write_any(charset: Charset, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    field::put_with(out, |out| Ok(charset.decode(bytes, out)?))
}

/// As [`write_any`], of a key: its bytes can be told from its text.
pub(super) fn write_key(charset: Charset, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    write_any(charset, bytes, out)?;
    if charset.is_canonical(bytes) { Ok(()) } else { Err(ConvertError::AmbiguousKey) }
}

/// What stands in for a character that can't be stored.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// What a text may have replaced in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replaced {
    pub(super) nul: bool,
    pub(super) invalid: bool,
}

/// Appends text with U+FFFD for each NUL and for each stretch of bytes that is no character, as
/// the Unicode Standard's "maximal subpart" practice has it.
///
/// # Errors
/// For what may not be replaced, and where the text is then longer than `length` characters.
pub(super) fn write_replaced(
    charset: Charset,
    bytes: &[u8],
    replaced: Replaced,
    length: Option<usize>,
    out: &mut Vec<u8>,
) -> Result<(), ConvertError> {
    let (mut text, has_invalid) = lossy(charset, bytes);
    if has_invalid && !replaced.invalid {
        return Err(ConvertError::InvalidBytes);
    }
    if text.contains('\0') {
        if !replaced.nul {
            return Err(ConvertError::NulCharacter);
        }
        text = text.replace('\0', REPLACEMENT.encode_utf8(&mut [0; 4]));
    }
    if length.is_some_and(|length| text.chars().count() > length) {
        return Err(ConvertError::OutOfRange);
    }
    field::put_bytes(text.as_bytes(), out)
}

/// The text with what is no character replaced, and whether anything was.
fn lossy(charset: Charset, bytes: &[u8]) -> (String, bool) {
    let mut invalid = false;
    let mut replace = || {
        invalid = true;
        REPLACEMENT
    };
    let text = match charset {
        Charset::Latin1 => bytes.iter().map(|&byte| latin1_char(byte)).collect(),
        Charset::Ascii => {
            bytes.iter().map(|&byte| if byte < 0x80 { char::from(byte) } else { replace() }).collect()
        }
        Charset::Utf8mb3 | Charset::Utf8mb4 => {
            let mut text = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                let valid = chunk.valid().chars();
                let fits = |c: char| charset == Charset::Utf8mb4 || c <= '\u{ffff}';
                text.extend(valid.map(|c| if fits(c) { c } else { replace() }));
                if !chunk.invalid().is_empty() {
                    text.push(replace());
                }
            }
            text
        }
        Charset::Ucs2 | Charset::Utf16 | Charset::Utf16le | Charset::Utf32 | Charset::Table(_) => {
            stepwise(charset, bytes, replace)
        }
    };
    (text, invalid)
}

/// Character by character: the shortest bytes at each place that are one, else a replacement for
/// the smallest unit of the character set.
fn stepwise(charset: Charset, bytes: &[u8], mut replace: impl FnMut() -> char) -> String {
    let unit = match charset {
        Charset::Utf32 => 4,
        Charset::Ucs2 | Charset::Utf16 | Charset::Utf16le => 2,
        _ => 1,
    };
    let longest = usize::try_from(charset.max_bytes()).unwrap_or(unit);
    let (mut text, mut rest) = (String::with_capacity(bytes.len()), bytes);
    while !rest.is_empty() {
        let mut decoded = Vec::new();
        let found = (unit..=longest).step_by(unit).find_map(|length| {
            let bytes = rest.get(..length)?;
            decoded.clear();
            match charset.decode(bytes, &mut decoded) {
                Ok(()) => Some((length, None)),
                Err(TextError::Nul) => Some((length, Some('\0'))),
                Err(TextError::Invalid) => None,
            }
        });
        match found {
            Some((_, Some(nul))) => text.push(nul),
            Some((_, None)) => text.push_str(&String::from_utf8_lossy(&decoded)),
            None => text.push(replace()),
        }
        let taken = found.map_or(unit, |(length, _)| length).min(rest.len());
        rest = rest.get(taken..).unwrap_or_default();
    }
    text
}

/// Whether all bytes are ASCII other than NUL: eight at a time, and without a branch per byte.
#[inline]
fn is_plain_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let (words, rest) = bytes.as_chunks::<8>();
    // A byte from 1 to 0x7F gains its high bit by the addition and never carries; larger ones are
    // found by the high bit that they have.
    let (mut any, mut all) = (0, HIGH);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        any |= word;
        all &= word.wrapping_add(LOW);
    }
    any & HIGH == 0 && all & HIGH == HIGH && rest.iter().all(|byte| matches!(byte, 1..=0x7f))
}

/// The labels of an ENUM or SET in UTF-8, in index order.
#[derive(Debug, Clone)]
pub(super) struct Labels(Box<[Box<str>]>);

impl Labels {
    pub(super) fn new(labels: &[String]) -> Self {
        Self(labels.iter().map(|label| label.as_str().into()).collect())
    }

    /// An ENUM's index as its label; 0 is the empty text.
    pub(super) fn write_one(&self, index: u16, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        let label = match index.checked_sub(1) {
            None => "",
            Some(position) => self.0.get(usize::from(position)).ok_or(ConvertError::Malformed)?,
        };
        field::put_bytes(label.as_bytes(), out)
    }

    /// A SET's members, joined by commas in index order, as MySQL prints them.
    pub(super) fn write_set(&self, mask: u64, out: &mut Vec<u8>) -> Result<(), ConvertError> {
        field::put_with(out, |out| {
            let mut rest = mask;
            while rest != 0 {
                let position = rest.trailing_zeros() as usize;
                let label = self.0.get(position).ok_or(ConvertError::Malformed)?;
                if rest != mask {
                    out.push(b',');
                }
                out.extend_from_slice(label.as_bytes());
                rest &= rest - 1;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::charset::latin1_char;
    use proptest::prelude::*;

    fn converted(charset: Charset, bytes: &[u8]) -> Result<String, ConvertError> {
        let mut out = Vec::new();
        write(charset, bytes, &mut out)?;
        let (length, text) = out.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, text.len());
        Ok(String::from_utf8(text.to_vec()).unwrap())
    }

    #[test]
    fn latin1_becomes_utf8() {
        assert_eq!(converted(Charset::Latin1, b"caf\xe9 \x80 \x81").unwrap(), "café € \u{81}");
        assert_eq!(converted(Charset::Latin1, b"a\0\xe9"), Err(ConvertError::NulCharacter));
    }

    #[test]
    fn invalid_bytes_are_refused() {
        let invalid: [(Charset, &[u8]); 9] = [
            (Charset::Ascii, b"\x80"),
            (Charset::Utf8mb4, b"\xff"),
            (Charset::Utf8mb4, b"\xc3"),
            (Charset::Utf8mb4, b"\xc0\x80"),
            (Charset::Utf8mb4, b"\xed\xa0\x80"),
            (Charset::Utf8mb4, b"\xf4\x90\x80\x80"),
            (Charset::Utf8mb3, b"\xed\xbf\xbf"),
            (Charset::Utf8mb3, "😀".as_bytes()),
            (Charset::Utf8mb3, b"\x80"),
        ];
        for (charset, bytes) in invalid {
            assert_eq!(converted(charset, bytes), Err(ConvertError::InvalidBytes), "{charset:?} {bytes:?}");
        }
        for charset in [Charset::Utf8mb4, Charset::Utf8mb3, Charset::Latin1, Charset::Ascii] {
            assert_eq!(converted(charset, b"\0"), Err(ConvertError::NulCharacter));
            for position in 0..24 {
                let mut bytes = [b'a'; 24];
                bytes[position] = 0;
                assert_eq!(converted(charset, &bytes), Err(ConvertError::NulCharacter));
            }
            assert_eq!(converted(charset, b"").unwrap(), "");
        }
        assert_eq!(converted(Charset::Utf8mb4, "日本語😀".as_bytes()).unwrap(), "日本語😀");
        assert_eq!(converted(Charset::Utf8mb3, "日本語\u{ffff}".as_bytes()).unwrap(), "日本語\u{ffff}");
    }

    #[test]
    fn labels_stand_for_indexes_and_masks() {
        let labels = Labels::new(&["x".to_owned(), "zé".to_owned(), String::new()]);
        let one = |index| {
            let mut out = Vec::new();
            labels.write_one(index, &mut out).map(|()| out.split_off(4))
        };
        assert_eq!(one(0).unwrap(), b"");
        assert_eq!(one(1).unwrap(), b"x");
        assert_eq!(one(2).unwrap(), "zé".as_bytes());
        assert_eq!(one(4), Err(ConvertError::Malformed));
        let set = |mask| {
            let mut out = Vec::new();
            labels.write_set(mask, &mut out).map(|()| out.split_off(4))
        };
        assert_eq!(set(0).unwrap(), b"");
        assert_eq!(set(0b11).unwrap(), "x,zé".as_bytes());
        assert_eq!(set(0b10).unwrap(), "zé".as_bytes());
        assert_eq!(set(0b101).unwrap(), b"x,");
        assert_eq!(set(1 << 3), Err(ConvertError::Malformed));
        assert_eq!(set(1 << 63), Err(ConvertError::Malformed));
    }

    proptest! {
        #[test]
        fn plain_ascii_is_what_it_says(bytes in proptest::collection::vec(prop_oneof![40 => 1_u8..0x80, 1 => Just(0), 1 => any::<u8>()], 0..40)) {
            prop_assert_eq!(is_plain_ascii(&bytes), bytes.iter().all(|&byte| byte != 0 && byte < 0x80));
        }

        #[test]
        fn utf8_is_kept_and_anything_else_refused(bytes in prop_oneof![
            any::<String>().prop_map(String::into_bytes),
            proptest::collection::vec(any::<u8>(), 0..24),
        ]) {
            let expected = match std::str::from_utf8(&bytes) {
                _ if bytes.contains(&0) => Err(ConvertError::NulCharacter),
                Ok(text) => Ok(text.to_owned()),
                Err(_) => Err(ConvertError::InvalidBytes),
            };
            prop_assert_eq!(&converted(Charset::Utf8mb4, &bytes), &expected);
            let beyond = expected.as_ref().is_ok_and(|text| text.chars().any(|c| c > '\u{ffff}'));
            let expected = if beyond { Err(ConvertError::InvalidBytes) } else { expected };
            prop_assert_eq!(converted(Charset::Utf8mb3, &bytes), expected);
        }

        #[test]
        fn latin1_maps_byte_by_byte(bytes in proptest::collection::vec(1_u8.., 0..24)) {
            let expected: String = bytes.iter().map(|&byte| latin1_char(byte)).collect();
            prop_assert_eq!(converted(Charset::Latin1, &bytes).unwrap(), expected);
        }
    }
}
