//! MySQL character sets: which one a collation belongs to, and what their text is in UTF-8.
//!
//! Names and collation ids are those of `information_schema.COLLATIONS` of MySQL 9.7. A byte
//! sequence stands for the character that the server converts it to, and for none where the server
//! would put a question mark; latin1's is the server's own, windows-1252 with its five unassigned
//! bytes kept as C1 controls (MySQL manual, "West European Character Sets").

mod tables;
mod unicode;

pub use tables::{Form, TABLES, Table};

/// Collation id of binary strings: bytes, not text.
pub const BINARY: u32 = 63;

/// A character set of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    Utf8mb4,
    /// UTF-8 of up to three bytes: no character beyond the basic multilingual plane.
    Utf8mb3,
    /// MySQL's latin1.
    Latin1,
    Ascii,
    /// UTF-16, big-endian, without surrogates.
    Ucs2,
    /// Big-endian.
    Utf16,
    Utf16le,
    /// Big-endian.
    Utf32,
    /// One whose characters are in a table.
    Table(Table),
}

/// Why bytes are no text that PostgreSQL can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("the text holds a NUL character")]
    Nul,
    #[error("the bytes are no text in their character set")]
    Invalid,
}

impl Charset {
    /// By MySQL's name. Servers before 8.0.30 call utf8mb3 `utf8`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "utf8mb4" => Self::Utf8mb4,
            "utf8mb3" | "utf8" => Self::Utf8mb3,
            "latin1" => Self::Latin1,
            "ascii" => Self::Ascii,
            "ucs2" => Self::Ucs2,
            "utf16" => Self::Utf16,
            "utf16le" => Self::Utf16le,
            "utf32" => Self::Utf32,
            _ => Self::Table(Table::from_name(name)?),
        })
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8mb4 => "utf8mb4",
            Self::Utf8mb3 => "utf8mb3",
            Self::Latin1 => "latin1",
            Self::Ascii => "ascii",
            Self::Ucs2 => "ucs2",
            Self::Utf16 => "utf16",
            Self::Utf16le => "utf16le",
            Self::Utf32 => "utf32",
            Self::Table(table) => table.name(),
        }
    }

    /// The most bytes that a character takes in the source's column
    /// (`information_schema.CHARACTER_SETS.MAXLEN`).
    #[must_use]
    pub fn max_bytes(self) -> u32 {
        match self {
            Self::Utf8mb4 | Self::Utf16 | Self::Utf16le | Self::Utf32 => 4,
            Self::Utf8mb3 => 3,
            Self::Ucs2 => 2,
            Self::Latin1 | Self::Ascii => 1,
            Self::Table(table) => table.form().max_bytes(),
        }
    }

    /// The most bytes that a character takes in UTF-8. Of latin1 the euro sign takes three.
    #[must_use]
    pub fn max_utf8_bytes(self) -> u32 {
        match self {
            Self::Utf8mb4 | Self::Utf16 | Self::Utf16le | Self::Utf32 => 4,
            Self::Utf8mb3 | Self::Ucs2 | Self::Latin1 => 3,
            Self::Ascii => 1,
            Self::Table(table) => table.form().max_utf8_bytes(),
        }
    }

    /// Whether it has all of Unicode, or its basic multilingual plane.
    #[must_use]
    pub fn is_unicode(self) -> bool {
        !matches!(self, Self::Latin1 | Self::Ascii | Self::Table(_))
    }

    /// Whether bytes below 0x80 that no other byte precedes are the characters that ASCII has there.
    #[must_use]
    pub fn is_ascii_superset(self) -> bool {
        match self {
            Self::Utf8mb4 | Self::Utf8mb3 | Self::Latin1 | Self::Ascii => true,
            Self::Ucs2 | Self::Utf16 | Self::Utf16le | Self::Utf32 => false,
            // Swedish letters take the place of brackets and braces.
            Self::Table(table) => table.name() != "swe7",
        }
    }

    /// Appends the text in UTF-8. On an error `out` may hold a part of it.
    ///
    /// # Errors
    /// Bytes that the server could not have stored, or would show as a question mark; the
    /// character NUL.
    pub fn decode(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
        match self {
            Self::Utf8mb4 => utf8(bytes, out),
            // The lead bytes of four-byte sequences, which utf8mb3 does not have.
            Self::Utf8mb3 => utf8_below(0xf0, bytes, out),
            Self::Ascii => utf8_below(0x80, bytes, out),
            Self::Latin1 => bytes.iter().try_for_each(|&byte| push(latin1_char(byte), out)),
            Self::Ucs2 => unicode::ucs2(bytes, out),
            Self::Utf16 => unicode::utf16(bytes, u16::from_be_bytes, out),
            Self::Utf16le => unicode::utf16(bytes, u16::from_le_bytes, out),
            Self::Utf32 => unicode::utf32(bytes, out),
            Self::Table(table) => table.decode(bytes, out),
        }
    }

    /// Whether different bytes may be the same text, so that equal keys could come from different
    /// ones.
    #[must_use]
    pub fn has_aliases(self) -> bool {
        matches!(self, Self::Table(table) if table.has_aliases())
    }

    /// Whether the text, which must be valid, is in the bytes that it has in keys: of the byte
    /// sequences that stand for one character, one only is taken.
    #[must_use]
    pub fn is_canonical(self, bytes: &[u8]) -> bool {
        match self {
            Self::Table(table) => table.is_canonical(bytes),
            _ => true,
        }
    }

    /// The character set of labels, by name. Binary labels are bytes; those that are ASCII are
    /// taken for text.
    #[must_use]
    pub fn of_labels(name: &str) -> Option<Self> {
        if name == "binary" { Some(Self::Ascii) } else { Self::from_name(name) }
    }

    /// The text in UTF-8.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn text(self, bytes: &[u8]) -> Result<String, TextError> {
        let mut decoded = Vec::with_capacity(bytes.len());
        self.decode(bytes, &mut decoded)?;
        String::from_utf8(decoded).map_err(|_| TextError::Invalid)
    }

    /// Whether `bytes` in this character set are `text`.
    #[must_use]
    pub fn spells(self, bytes: &[u8], text: &str) -> bool {
        self.text(bytes).is_ok_and(|decoded| decoded == text)
    }
}

/// UTF-8 whose bytes are below a limit.
fn utf8_below(limit: u8, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    match utf8(bytes, out) {
        Ok(()) if bytes.iter().any(|&byte| byte >= limit) => Err(TextError::Invalid),
        result => result,
    }
}

fn utf8(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
    if bytes.contains(&0) {
        return Err(TextError::Nul);
    }
    std::str::from_utf8(bytes).map_err(|_| TextError::Invalid)?;
    out.extend_from_slice(bytes);
    Ok(())
}

#[inline]
fn push(character: char, out: &mut Vec<u8>) -> Result<(), TextError> {
    if character == '\0' {
        return Err(TextError::Nul);
    }
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(())
}

/// What latin1's bytes 0x80 to 0x9F stand for; all others stand for the code point of their value.
const LATIN1_HIGH: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The character of one byte of MySQL's latin1.
#[must_use]
#[inline]
pub fn latin1_char(byte: u8) -> char {
    match byte {
        0x80..=0x9f => LATIN1_HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// The name of the character set of a collation, `None` for an id that MySQL 9.7 does not have.
#[must_use]
pub const fn of_collation(id: u32) -> Option<&'static str> {
    Some(match id {
        32 | 64 => "armscii8",
        11 | 65 => "ascii",
        1 | 84 => "big5",
        63 => "binary",
        26 | 34 | 44 | 66 | 99 => "cp1250",
        14 | 23 | 50..=52 => "cp1251",
        57 | 67 => "cp1256",
        29 | 58 | 59 => "cp1257",
        4 | 80 => "cp850",
        40 | 81 => "cp852",
        36 | 68 => "cp866",
        95 | 96 => "cp932",
        3 | 69 => "dec8",
        97 | 98 => "eucjpms",
        19 | 85 => "euckr",
        248..=250 => "gb18030",
        24 | 86 => "gb2312",
        28 | 87 => "gbk",
        92 | 93 => "geostd8",
        25 | 70 => "greek",
        16 | 71 => "hebrew",
        6 | 72 => "hp8",
        37 | 73 => "keybcs2",
        7 | 74 => "koi8r",
        22 | 75 => "koi8u",
        5 | 8 | 15 | 31 | 47..=49 | 94 => "latin1",
        2 | 9 | 21 | 27 | 77 => "latin2",
        30 | 78 => "latin5",
        20 | 41 | 42 | 79 => "latin7",
        38 | 43 => "macce",
        39 | 53 => "macroman",
        13 | 88 => "sjis",
        10 | 82 => "swe7",
        18 | 89 => "tis620",
        35 | 90 | 128..=151 | 159 => "ucs2",
        12 | 91 => "ujis",
        54 | 55 | 101..=124 => "utf16",
        56 | 62 => "utf16le",
        60 | 61 | 160..=183 => "utf32",
        33 | 76 | 83 | 192..=215 | 223 => "utf8mb3",
        45 | 46 | 224..=247 | 255..=271 | 273..=275 | 277..=294 | 296..=298 | 300 | 303..=323 => "utf8mb4",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_collations_belong_to_their_character_sets() {
        for (id, name) in
            [(255, "utf8mb4"), (45, "utf8mb4"), (33, "utf8mb3"), (8, "latin1"), (11, "ascii"), (63, "binary")]
        {
            assert_eq!(of_collation(id), Some(name));
        }
        assert_eq!((0..1024).filter(|&id| of_collation(id).is_some()).count(), 286);
        assert_eq!(of_collation(0), None);
    }

    #[test]
    fn latin1_is_windows_1252_with_controls_in_the_gaps() {
        let high: String = (0x80..=0xff).map(latin1_char).collect();
        assert_eq!(high.chars().count(), 128);
        for byte in [0x81, 0x8d, 0x8f, 0x90, 0x9d] {
            assert_eq!(latin1_char(byte), char::from(byte));
        }
        assert_eq!(latin1_char(0x80), '€');
        assert_eq!(latin1_char(0x9f), 'Ÿ');
        assert_eq!(latin1_char(0xff), 'ÿ');
    }

    #[test]
    fn spelling_is_judged_in_the_column_s_character_set() {
        assert!(Charset::Latin1.spells(b"\x80\xe9", "€é"));
        assert!(!Charset::Utf8mb4.spells(b"\x80\xe9", "€é"));
        assert!(Charset::Utf8mb3.spells("€é".as_bytes(), "€é"));
        assert!(!Charset::Latin1.spells(b"a", "ab"));
    }
}
