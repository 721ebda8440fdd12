//! MySQL character sets: which one a collation belongs to, and those that Tidegate converts.
//!
//! Names and collation ids are those of `information_schema.COLLATIONS` of MySQL 9.7; the latin1
//! mapping is the server's own, windows-1252 with its five unassigned bytes kept as C1 controls
//! (MySQL manual, "West European Character Sets").

/// Collation id of binary strings: bytes, not text.
pub const BINARY: u32 = 63;

/// A character set that the conversion to UTF-8 knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Charset {
    Utf8mb4,
    /// UTF-8 of up to three bytes: no character beyond the basic multilingual plane.
    Utf8mb3,
    /// MySQL's latin1.
    Latin1,
    Ascii,
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
            _ => return None,
        })
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utf8mb4 => "utf8mb4",
            Self::Utf8mb3 => "utf8mb3",
            Self::Latin1 => "latin1",
            Self::Ascii => "ascii",
        }
    }

    /// The most bytes that a character takes in the source's column.
    #[must_use]
    pub const fn max_bytes(self) -> u32 {
        match self {
            Self::Utf8mb4 => 4,
            Self::Utf8mb3 => 3,
            Self::Latin1 | Self::Ascii => 1,
        }
    }

    /// The most bytes that a character takes in UTF-8. Of latin1 the euro sign takes three.
    #[must_use]
    pub const fn max_utf8_bytes(self) -> u32 {
        match self {
            Self::Utf8mb4 => 4,
            Self::Utf8mb3 | Self::Latin1 => 3,
            Self::Ascii => 1,
        }
    }

    /// Whether `bytes` in this character set are `text`.
    #[must_use]
    pub fn spells(self, bytes: &[u8], text: &str) -> bool {
        match self {
            Self::Utf8mb4 | Self::Utf8mb3 | Self::Ascii => bytes == text.as_bytes(),
            Self::Latin1 => bytes.iter().map(|&byte| latin1_char(byte)).eq(text.chars()),
        }
    }
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
