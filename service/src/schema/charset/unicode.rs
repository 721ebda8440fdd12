//! Encodings of Unicode other than UTF-8 (RFC 2781, UTF-16; Unicode standard, section 3.10).

use super::{TextError, push};

/// Two bytes a character, big-endian; a surrogate is none.
pub(super) fn ucs2(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    let (units, rest) = bytes.as_chunks::<2>();
    for unit in units {
        let character = char::from_u32(u16::from_be_bytes(*unit).into()).ok_or(TextError::Invalid)?;
        push(character, out)?;
    }
    whole(rest)
}

pub(super) fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16, out: &mut Vec<u8>) -> Result<(), TextError> {
    let (units, rest) = bytes.as_chunks::<2>();
    for character in char::decode_utf16(units.iter().map(|bytes| unit(*bytes))) {
        push(character.map_err(|_| TextError::Invalid)?, out)?;
    }
    whole(rest)
}

/// Four bytes a character, big-endian.
pub(super) fn utf32(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    let (units, rest) = bytes.as_chunks::<4>();
    for unit in units {
        push(char::from_u32(u32::from_be_bytes(*unit)).ok_or(TextError::Invalid)?, out)?;
    }
    whole(rest)
}

const fn whole(rest: &[u8]) -> Result<(), TextError> {
    if rest.is_empty() { Ok(()) } else { Err(TextError::Invalid) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::charset::Charset;
    use proptest::prelude::*;

    fn text(charset: Charset, bytes: &[u8]) -> Result<String, TextError> {
        let mut out = Vec::new();
        charset.decode(bytes, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn cut_units_and_lone_surrogates_are_no_text() {
        for (charset, bytes) in [
            (Charset::Ucs2, &b"\0a\0"[..]),
            (Charset::Ucs2, b"\xd8\0"),
            (Charset::Ucs2, b"\xd8\x3d\xde\0"),
            (Charset::Utf16, b"\xd8\x3d"),
            (Charset::Utf16, b"\xde\0\xd8\x3d"),
            (Charset::Utf16le, b"a"),
            (Charset::Utf32, b"\0\0\xd8\0"),
            (Charset::Utf32, b"\0\x11\0\0"),
            (Charset::Utf32, b"\0\0a"),
        ] {
            assert_eq!(text(charset, bytes), Err(TextError::Invalid), "{charset:?} {bytes:02x?}");
        }
        for charset in [Charset::Ucs2, Charset::Utf16, Charset::Utf16le, Charset::Utf32] {
            assert_eq!(text(charset, &[0; 4]), Err(TextError::Nul));
        }
    }

    proptest! {
        #[test]
        fn text_comes_back(text_in in "[^\0]{0,12}") {
            let utf16: Vec<u16> = text_in.encode_utf16().collect();
            let be: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_be_bytes()).collect();
            let le: Vec<u8> = utf16.iter().flat_map(|unit| unit.to_le_bytes()).collect();
            let utf32: Vec<u8> = text_in.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
            prop_assert_eq!(text(Charset::Utf16, &be).unwrap(), &text_in[..]);
            prop_assert_eq!(text(Charset::Utf16le, &le).unwrap(), &text_in[..]);
            prop_assert_eq!(text(Charset::Utf32, &utf32).unwrap(), &text_in[..]);
            let basic = text_in.chars().all(|c| c <= '\u{ffff}');
            prop_assert_eq!(text(Charset::Ucs2, &be).is_ok(), basic);
        }
    }
}
