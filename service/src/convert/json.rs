//! JSON documents as jsonb: a version byte and the text (server source
//! `src/backend/utils/adt/jsonb.c`, `jsonb_recv`).
//!
//! jsonb keeps numbers as numeric: `-0.0` becomes `0.0`, and a document's members are kept in an
//! order of their own, as they are in MySQL.

use super::{ConvertError, field};
use crate::binlog::json::to_text;

const JSONB_VERSION: u8 = 1;

/// MySQL's binary form.
pub(super) fn write_binary(document: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    field::put_with(out, |out| {
        out.push(JSONB_VERSION);
        let start = out.len();
        to_text(document, out).map_err(|_| ConvertError::Malformed)?;
        refuse_nul(out.get(start..).unwrap_or_default())
    })
}

/// JSON text in utf8mb4.
pub(super) fn write_text(document: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    std::str::from_utf8(document).map_err(|_| ConvertError::InvalidBytes)?;
    refuse_nul(document)?;
    field::put_with(out, |out| {
        out.push(JSONB_VERSION);
        out.extend_from_slice(document);
        Ok(())
    })
}

/// MySQL's binary form with every NUL escape as that of U+FFFD.
pub(super) fn replace_binary(document: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    let mut text = Vec::new();
    to_text(document, &mut text).map_err(|_| ConvertError::Malformed)?;
    replace_text(&text, out)
}

/// JSON text with every NUL escape as that of U+FFFD, which takes as many bytes.
pub(super) fn replace_text(document: &[u8], out: &mut Vec<u8>) -> Result<(), ConvertError> {
    std::str::from_utf8(document).map_err(|_| ConvertError::InvalidBytes)?;
    field::put_with(out, |out| {
        out.push(JSONB_VERSION);
        let start = out.len();
        out.extend_from_slice(document);
        while let Some(escape) = nul_escape(out.get(start..).unwrap_or_default()) {
            let Some(code) = out.get_mut(start + escape + 2..start + escape + 6) else { break };
            code.copy_from_slice(b"fffd");
        }
        Ok(())
    })
}

fn refuse_nul(text: &[u8]) -> Result<(), ConvertError> {
    if nul_escape(text).is_some() { Err(ConvertError::NulEscape) } else { Ok(()) }
}

/// Where the first `\u0000` of a string begins. In valid JSON a backslash stands in strings only,
/// and what follows it belongs to it, so that `\\u0000` is a backslash and five characters.
fn nul_escape(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let backslash = at + rest.iter().position(|&byte| byte == b'\\')?;
        if text.get(backslash + 1..).is_some_and(|escape| escape.starts_with(b"u0000")) {
            return Some(backslash);
        }
        at = backslash + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_follows_the_version() {
        let mut out = Vec::new();
        write_text("{\"é\": 1}".as_bytes(), &mut out).unwrap();
        assert_eq!(out, [&[0, 0, 0, 10, 1][..], "{\"é\": 1}".as_bytes()].concat());
    }

    #[test]
    fn binary_documents_become_text() {
        let mut out = Vec::new();
        // A small array of one element, the literal true inlined in its entry.
        write_binary(&[2, 1, 0, 7, 0, 4, 1, 0], &mut out).unwrap();
        assert_eq!(out, b"\0\0\0\x07\x01[true]");
        assert_eq!(write_binary(&[2, 1, 0], &mut out), Err(ConvertError::Malformed));
    }

    #[test]
    fn nul_is_refused_wherever_it_is_escaped() {
        for text in [r#""\u0000""#, r#"{"a\u0000": 1}"#, r#"["\\\u0000"]"#, r#"["\n\"\u0000"]"#] {
            assert_eq!(write_text(text.as_bytes(), &mut Vec::new()), Err(ConvertError::NulEscape), "{text}");
        }
        for text in [r#""\\u0000""#, r#""\u0001""#, r#""u0000""#, r#""\\\\u0000""#] {
            assert_eq!(write_text(text.as_bytes(), &mut Vec::new()), Ok(()), "{text}");
        }
    }

    #[test]
    fn strings_are_checked_in_both_forms() {
        assert_eq!(write_text(b"\"\xff\"", &mut Vec::new()), Err(ConvertError::InvalidBytes));
        // A string of one byte.
        assert_eq!(write_binary(&[12, 1, 0xff], &mut Vec::new()), Err(ConvertError::Malformed));
        assert_eq!(write_binary(b"\x0c\x01\0", &mut Vec::new()), Err(ConvertError::NulEscape));
    }
}
