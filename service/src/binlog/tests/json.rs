use proptest::prelude::*;

use crate::binlog::json::to_text;

fn text(document: &[u8]) -> Option<String> {
    let mut out = Vec::new();
    to_text(document, &mut out).ok()?;
    Some(String::from_utf8(out).unwrap())
}

/// An array in the small format whose values all stand at the given offset.
fn array(count: u16, kind: u8, offset: u16, tail: &[u8]) -> Vec<u8> {
    let size = 4 + 3 * count + tail.len() as u16;
    let mut bytes = [count.to_le_bytes(), size.to_le_bytes()].concat();
    for _ in 0..count {
        bytes.push(kind);
        bytes.extend(offset.to_le_bytes());
    }
    bytes.extend(tail);
    bytes
}

fn nested(depth: usize) -> Vec<u8> {
    let mut document = array(0, 0, 0, b"");
    for _ in 1..depth {
        document = array(1, 2, 7, &document);
    }
    document.insert(0, 2);
    document
}

#[test]
fn empty_document_is_null() {
    assert_eq!(text(b"").as_deref(), Some("null"));
}

#[test]
fn scalars_of_the_root() {
    for (document, expected) in [
        (&[4, 0][..], "null"),
        (&[4, 1], "true"),
        (&[4, 2], "false"),
        (&[5, 0, 0x80], "-32768"),
        (&[6, 0xff, 0xff], "65535"),
        (&[7, 0, 0, 0, 0x80], "-2147483648"),
        (&[8, 0xff, 0xff, 0xff, 0xff], "4294967295"),
        (&[9, 0, 0, 0, 0, 0, 0, 0, 0x80], "-9223372036854775808"),
        (&[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "18446744073709551615"),
        (&[12, 3, b'a', b'"', 0x1f], r#""a\"\u001f""#),
        (&[15, 250, 2, 1, 2], r#""base64:type250:AQI=""#),
    ] {
        assert_eq!(text(document).as_deref(), Some(expected));
        for cut in 1..document.len() {
            assert_eq!(text(&document[..cut]), None, "{expected} cut to {cut} bytes");
        }
    }
}

#[test]
fn malformed_scalars() {
    for document in [
        &[4, 3][..],
        &[13, 0],
        &[14],
        &[16, 0, 0],
        &[12, 1, 0xff],                            // not UTF-8
        &[12, 0xff, 0xff, 0xff, 0xff, 0x7f],       // a length of more than 32 bits
        &[12, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00], // a length of six bytes
        &[11, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f],       // infinity
        &[11, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f],       // not a number
        &[15, 10, 7, 1, 2, 3, 4, 5, 6, 7],         // a date of seven bytes
        &[15, 10, 8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        &[15, 11, 8, 0, 0, 0, 0, 0, 0, 0, 0x7f], // beyond 838 hours
        &[15, 246, 2, 82, 0],
        &[15, 246, 3, 9, 0, 0xff],                   // four bytes wanted
        &[15, 246, 6, 9, 0, 0xff, 0xff, 0xff, 0xff], // length beyond the document
        &[15, 246, 6, 9, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ] {
        let result = text(document);
        // The last one is a decimal whose group exceeds nine digits.
        assert_eq!(result, None, "{document:?}");
    }
}

#[test]
fn nesting_is_bounded_as_on_the_server() {
    assert_eq!(text(&nested(100)), Some("[".repeat(100) + &"]".repeat(100)));
    assert_eq!(text(&nested(101)), None);
    assert_eq!(text(&nested(5000)), None);
}

#[test]
fn offsets_must_lie_behind_the_entries() {
    let with_offset = |offset| [&[2][..], &array(1, 12, offset, &[1, b'x'])].concat();
    assert_eq!(text(&with_offset(7)).as_deref(), Some(r#"["x"]"#));
    for offset in [0, 1, 6, 9, 10, u16::MAX] {
        assert_eq!(text(&with_offset(offset)), None, "offset {offset}");
    }
}

#[test]
fn a_container_must_hold_its_entries_and_end_in_the_document() {
    let whole = [&[2][..], &array(2, 5, 7, b"")].concat();
    assert_eq!(text(&whole).as_deref(), Some("[7, 7]"));
    for size in [0, 4, 9, 11, u16::MAX] {
        let mut changed = whole.clone();
        changed[3..5].copy_from_slice(&u16::to_le_bytes(size));
        assert_eq!(text(&changed), None, "size {size}");
    }
}

#[test]
fn values_that_share_bytes_are_malformed() {
    // Thirty levels of arrays, both of whose values are the same array: 2^30 values.
    let mut document = array(0, 0, 0, b"");
    for _ in 0..30 {
        document = array(2, 2, 10, &document);
    }
    document.insert(0, 2);
    assert_eq!(text(&document), None);
    let strings = [&[2][..], &array(1000, 12, 3004, &[&[127][..], &[b'x'; 127]].concat())].concat();
    assert_eq!(text(&strings), None);
}

#[test]
fn objects_with_inlined_and_distant_values() {
    let mut document = vec![0, 2, 0, 0, 0];
    document.extend([18, 0, 1, 0, 19, 0, 2, 0]); // keys "a", "bb"
    document.extend([4, 1, 0, 12, 21, 0]); // true, a string
    document.extend(b"abb\x02hi");
    let size = (document.len() - 1) as u8;
    document[3] = size;
    assert_eq!(text(&document).as_deref(), Some(r#"{"a": true, "bb": "hi"}"#));
    for cut in 1..document.len() {
        assert_eq!(text(&document[..cut]), None);
    }
}

/// A JSON double as the server prints it.
fn double(value: f64) -> String {
    text(&[&[11][..], &value.to_le_bytes()].concat()).unwrap()
}

#[test]
fn doubles_stay_doubles() {
    for (value, expected) in [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.1, "0.1"),
        (1e14, "100000000000000.0"),
        (1e15, "1e15"),
        (1_234_567_890_123_456.8, "1234567890123456.8"),
        (9_007_199_254_740_992.0, "9.007199254740992e15"),
        (1e-15, "0.000000000000001"),
        (1e-16, "1e-16"),
        (1e308, "1e308"),
        (5e-324, "5e-324"),
        (-1.5e300, "-1.5e300"),
    ] {
        assert_eq!(double(value), expected);
    }
}

proptest! {
    #[test]
    fn doubles_lose_nothing(value in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO) {
        let text = double(value);
        prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits());
        prop_assert!(text.contains(['.', 'e']), "{} could be taken for an integer", text);
    }

    #[test]
    fn integers_print_as_they_are(value: i64) {
        prop_assert_eq!(text(&[&[9][..], &value.to_le_bytes()].concat()), Some(value.to_string()));
    }

    /// Whatever the bytes: no panic, and output in proportion to the input.
    #[test]
    fn arbitrary_documents_are_bounded(document in proptest::collection::vec(any::<u8>(), 0..600)) {
        let mut out = Vec::new();
        let _malformed_or_not = to_text(&document, &mut out);
        prop_assert!(out.len() <= 64 + 16 * document.len());
    }

    #[test]
    fn strings_escape_and_parse_back(value: String) {
        let length = value.len();
        prop_assume!(length < 128);
        let text = text(&[&[12, length as u8][..], value.as_bytes()].concat()).unwrap();
        prop_assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
    }
}
