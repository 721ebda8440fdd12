//! How the character set of a client shapes the lexing of its statements and the reading of names.
//!
//! A QUERY event's text is in the client's character set. Keywords, quotes and separators are
//! ASCII in every one that a client may use, but some have multi-byte characters whose second
//! byte looks like a backslash or a backtick.

use std::borrow::Cow;

/// Character sets of clients, by what they mean for a lexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientCharset {
    /// utf8mb3, utf8mb4, ascii, and binary, whose identifiers the server takes for UTF-8.
    Utf8,
    Latin1,
    /// Bytes of other characters never look like ASCII quotes, backslashes or separators; names
    /// outside ASCII are not decoded.
    AsciiSafe,
    /// Multi-byte characters whose second byte may look like ASCII.
    Gbk,
    Gb18030,
    Big5,
    Sjis,
    /// Not a superset of ASCII, or unknown.
    Unknown,
}

impl ClientCharset {
    /// By collation id (server source `strings/ctype*.cc`; the ids of
    /// `information_schema.COLLATIONS`).
    pub(super) const fn of_collation(id: u16) -> Self {
        match id {
            11 | 33 | 45 | 46 | 63 | 65 | 76 | 83 | 192..=215 | 223..=247 | 255..=323 => Self::Utf8,
            5 | 8 | 15 | 31 | 47 | 48 | 49 | 94 => Self::Latin1,
            // latin2, dec8, cp850, hp8, koi8r, ujis, cp1251, hebrew, tis620, euckr, latin7,
            // koi8u, gb2312, greek, cp1250, cp1257, latin5, armscii8, cp866, keybcs2, macce,
            // macroman, cp852, cp1256, geostd8, eucjpms.
            2
            | 3
            | 4
            | 6
            | 7
            | 9
            | 12
            | 14
            | 16
            | 18..=27
            | 29
            | 30
            | 32
            | 34
            | 36..=44
            | 50..=53
            | 57..=59
            | 64
            | 66..=75
            | 77..=81
            | 85
            | 86
            | 89
            | 91..=93
            | 97..=99 => Self::AsciiSafe,
            28 | 87 => Self::Gbk,
            248..=250 => Self::Gb18030,
            1 | 84 => Self::Big5,
            13 | 88 | 95 | 96 => Self::Sjis,
            _ => Self::Unknown,
        }
    }

    /// Length of the character that `bytes` starts with, where it may hide an ASCII look-alike;
    /// else 1. Byte ranges: server source `strings/ctype-gbk.cc`, `ctype-gb18030.cc`,
    /// `ctype-big5.cc`, `ctype-sjis.cc`.
    pub(super) fn character_length(self, bytes: &[u8]) -> usize {
        let (Some(&lead), Some(&next)) = (bytes.first(), bytes.get(1)) else { return 1 };
        let two_bytes = match self {
            Self::Utf8 | Self::Latin1 | Self::AsciiSafe | Self::Unknown => false,
            Self::Gbk => matches!((lead, next), (0x81..=0xfe, 0x40..=0x7e | 0x80..=0xfe)),
            Self::Gb18030 if matches!((lead, next), (0x81..=0xfe, 0x30..=0x39)) => {
                let tail = (bytes.get(2), bytes.get(3));
                return if matches!(tail, (Some(0x81..=0xfe), Some(0x30..=0x39))) { 4 } else { 1 };
            }
            Self::Gb18030 => matches!((lead, next), (0x81..=0xfe, 0x40..=0x7e | 0x80..=0xfe)),
            Self::Big5 => matches!((lead, next), (0xa1..=0xf9, 0x40..=0x7e | 0xa1..=0xfe)),
            Self::Sjis => {
                matches!((lead, next), (0x81..=0x9f | 0xe0..=0xfc, 0x40..=0x7e | 0x80..=0xfc))
            }
        };
        if two_bytes { 2 } else { 1 }
    }

    /// A name as UTF-8; `None` if it can't be told.
    pub(super) fn decode(self, name: &[u8]) -> Option<Cow<'_, str>> {
        if self == Self::Utf8 || name.is_ascii() {
            return str::from_utf8(name).ok().map(Cow::Borrowed);
        }
        (self == Self::Latin1).then(|| name.iter().map(|byte| latin1(*byte)).collect::<String>().into())
    }
}

/// MySQL's latin1 is Windows-1252 with its five holes filled by the C1 controls.
fn latin1(byte: u8) -> char {
    const FROM_80: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}',
        '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    byte.checked_sub(0x80).and_then(|at| FROM_80.get(usize::from(at)).copied()).unwrap_or(char::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collations_of_the_common_clients() {
        for (id, expected) in [
            (255, ClientCharset::Utf8),
            (45, ClientCharset::Utf8),
            (33, ClientCharset::Utf8),
            (63, ClientCharset::Utf8),
            (11, ClientCharset::Utf8),
            (8, ClientCharset::Latin1),
            (51, ClientCharset::AsciiSafe),
            (12, ClientCharset::AsciiSafe),
            (28, ClientCharset::Gbk),
            (13, ClientCharset::Sjis),
            (95, ClientCharset::Sjis),
            (1, ClientCharset::Big5),
            (248, ClientCharset::Gb18030),
            (10, ClientCharset::Unknown), // swe7
            (35, ClientCharset::Unknown), // ucs2
            (54, ClientCharset::Unknown), // utf16
            (60, ClientCharset::Unknown), // utf32
            (5000, ClientCharset::Unknown),
        ] {
            assert_eq!(ClientCharset::of_collation(id), expected, "{id}");
        }
    }

    #[test]
    fn multi_byte_characters_swallow_look_alikes() {
        assert_eq!(ClientCharset::Gbk.character_length(b"\xd6\x60`"), 2);
        assert_eq!(ClientCharset::Sjis.character_length(b"\x83\x5c'"), 2);
        assert_eq!(ClientCharset::Sjis.character_length(b"\xb1\x5c'"), 1);
        assert_eq!(ClientCharset::Big5.character_length(b"\xa5\x5c"), 2);
        assert_eq!(ClientCharset::Gb18030.character_length(b"\x81\x30\x81\x30"), 4);
        assert_eq!(ClientCharset::Gb18030.character_length(b"\x81\x30"), 1);
        assert_eq!(ClientCharset::Gbk.character_length(b"\xd6"), 1);
        assert_eq!(ClientCharset::Utf8.character_length("é".as_bytes()), 1);
    }

    #[test]
    fn names_are_decoded_or_not_at_all() {
        assert_eq!(ClientCharset::Latin1.decode(b"tbl\xe9\x80").as_deref(), Some("tblé€"));
        assert_eq!(ClientCharset::Utf8.decode("é".as_bytes()).as_deref(), Some("é"));
        assert_eq!(ClientCharset::Utf8.decode(b"tbl\xe9"), None);
        assert_eq!(ClientCharset::Gbk.decode(b"tbl").as_deref(), Some("tbl"));
        assert_eq!(ClientCharset::Gbk.decode(b"tbl\xd6\xd0"), None);
        assert_eq!(latin1(0x7f), '\u{7f}');
        assert_eq!(latin1(0xff), 'ÿ');
    }
}
