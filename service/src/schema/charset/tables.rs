//! Character sets whose characters only a table knows.
//!
//! The tables hold what a MySQL server of version 9.7 itself converts each byte sequence to:
//! `integration/examples/charset-tables.rs` asks a server and writes `tables.zst`, and a test asks
//! one again. Of GB18030 only the sequences of four bytes beyond the basic multilingual plane are
//! computed (GB 18030-2022, section 5).
//!
//! `tables.zst` is one zstd frame of 16-bit words, little-endian, each as its difference to the word
//! before it. For every character set in the order of [`TABLES`]: the parts of its form, in which a
//! word is a code point or 0 for none, then its aliases, counted by one word, two words each.

use std::sync::OnceLock;

use super::{TextError, push};

/// Names in alphabetical order, which is the order of their tables.
pub const TABLES: [(&str, Form); 32] = [
    ("armscii8", Form::Single),
    ("big5", Form::Double),
    ("cp1250", Form::Single),
    ("cp1251", Form::Single),
    ("cp1256", Form::Single),
    ("cp1257", Form::Single),
    ("cp850", Form::Single),
    ("cp852", Form::Single),
    ("cp866", Form::Single),
    ("cp932", Form::Double),
    ("dec8", Form::Single),
    ("eucjpms", Form::Euc),
    ("euckr", Form::Double),
    ("gb18030", Form::Gb18030),
    ("gb2312", Form::Double),
    ("gbk", Form::Double),
    ("geostd8", Form::Single),
    ("greek", Form::Single),
    ("hebrew", Form::Single),
    ("hp8", Form::Single),
    ("keybcs2", Form::Single),
    ("koi8r", Form::Single),
    ("koi8u", Form::Single),
    ("latin2", Form::Single),
    ("latin5", Form::Single),
    ("latin7", Form::Single),
    ("macce", Form::Single),
    ("macroman", Form::Single),
    ("sjis", Form::Double),
    ("swe7", Form::Single),
    ("tis620", Form::Single),
    ("ujis", Form::Euc),
];

static COMPRESSED: &[u8] = include_bytes!("tables.zst");

/// Bytes of all tables: under a megabyte. A greater blob is not ours.
const DECOMPRESSED_MAX: usize = 1 << 20;

/// How many bytes the characters of a table have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One.
    Single,
    /// One, or two of which the first is above 0x7F.
    Double,
    /// As double, or three: 0x8F, then two above 0x7F.
    Euc,
    /// As double, or four: above 0x80, a digit, above 0x80, a digit.
    Gb18030,
}

impl Form {
    pub(super) const fn max_bytes(self) -> u32 {
        match self {
            Self::Single => 1,
            Self::Double => 2,
            Self::Euc => 3,
            Self::Gb18030 => 4,
        }
    }

    /// Tables have the basic multilingual plane.
    pub(super) const fn max_utf8_bytes(self) -> u32 {
        match self {
            Self::Gb18030 => 4,
            _ => 3,
        }
    }

    /// Words of the parts for one, two, three and four bytes.
    const fn words(self) -> [usize; 4] {
        match self {
            Self::Single => [ONES, 0, 0, 0],
            Self::Double => [ONES, TWOS, 0, 0],
            Self::Euc => [ONES, TWOS, THREES, 0],
            Self::Gb18030 => [ONES, TWOS, 0, FOURS],
        }
    }
}

/// By the byte.
const ONES: usize = 1 << 8;
/// By seven bits of the first byte and eight of the second.
const TWOS: usize = 1 << 15;
/// By seven bits of the second byte and seven of the third.
const THREES: usize = 1 << 14;
/// By [`linear`], which here ends with U+FFFF.
const FOURS: usize = 39_420;

/// The lead byte of EUC's code set 3.
const SINGLE_SHIFT_THREE: u8 = 0x8f;

/// Where GB18030's sequences for the planes beyond the first begin: 0x90308130.
const SUPPLEMENTARY: usize = 189_000;

/// The number of a sequence of four bytes among those of GB18030; `None` if it is no such sequence.
fn linear(bytes: [u8; 4]) -> Option<usize> {
    let [first, second, third, fourth] = bytes;
    let (high, low) = (0x81..=0xfe, b'0'..=b'9');
    if !high.contains(&first) || !low.contains(&second) || !high.contains(&third) || !low.contains(&fourth) {
        return None;
    }
    let [first, third] = [first, third].map(|byte| usize::from(byte - 0x81));
    let [second, fourth] = [second, fourth].map(|byte| usize::from(byte - b'0'));
    Some(((first * 10 + second) * 126 + third) * 10 + fourth)
}

/// Where a sequence has its word: which part, and the index in it.
fn place(bytes: &[u8]) -> Option<(usize, usize)> {
    Some(match *bytes {
        [only] => (0, only.into()),
        [first @ 0x80..=0xff, second] => (1, usize::from(first & 0x7f) << 8 | usize::from(second)),
        [SINGLE_SHIFT_THREE, second @ 0x80..=0xff, third @ 0x80..=0xff] => {
            (2, usize::from(second & 0x7f) << 7 | usize::from(third & 0x7f))
        }
        [a, b, c, d] => (3, linear([a, b, c, d])?),
        _ => return None,
    })
}

/// One character set of [`TABLES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table(u8);

impl Table {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let index = TABLES.binary_search_by(|(known, _)| known.cmp(&name)).ok()?;
        u8::try_from(index).ok().map(Self)
    }

    const fn entry(self) -> (&'static str, Form) {
        TABLES[self.0 as usize]
    }

    pub(super) const fn name(self) -> &'static str {
        self.entry().0
    }

    pub(super) const fn form(self) -> Form {
        self.entry().1
    }

    fn mapping(self) -> &'static Mapping {
        &mappings()[usize::from(self.0)]
    }

    pub(super) fn decode(self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), TextError> {
        let mapping = self.mapping();
        let mut rest = bytes;
        while !rest.is_empty() {
            let (character, length) = mapping.first(rest).ok_or(TextError::Invalid)?;
            push(character, out)?;
            rest = rest.get(length..).unwrap_or_default();
        }
        Ok(())
    }

    pub(super) fn has_aliases(self) -> bool {
        !self.mapping().aliases.is_empty()
    }

    pub(super) fn is_canonical(self, bytes: &[u8]) -> bool {
        let mapping = self.mapping();
        let mut rest = bytes;
        while let Some((_, length)) = mapping.first(rest) {
            let (sequence, after) = rest.split_at(length);
            if mapping.aliases.binary_search(&number(sequence)).is_ok() {
                return false;
            }
            rest = after;
        }
        true
    }
}

/// The bytes of a sequence as one number.
fn number(sequence: &[u8]) -> u32 {
    sequence.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The characters of one character set.
struct Mapping {
    parts: [Box<[u16]>; 4],
    /// Sequences whose character has another one too, in ascending order.
    aliases: Box<[u32]>,
}

impl Mapping {
    /// The first character and the number of its bytes.
    #[inline]
    fn first(&self, bytes: &[u8]) -> Option<(char, usize)> {
        let &lead = bytes.first()?;
        if lead == 0 {
            return Some(('\0', 1));
        }
        // No character's bytes begin with those of another.
        (1..=4.min(bytes.len())).find_map(|length| {
            let sequence = bytes.get(..length)?;
            self.character(sequence).map(|character| (character, length))
        })
    }

    #[inline]
    fn character(&self, sequence: &[u8]) -> Option<char> {
        let (part, index) = place(sequence)?;
        let words = self.parts.get(part)?;
        match words.get(index) {
            Some(0) => None,
            Some(word) => char::from_u32(u32::from(*word)),
            None if part == 3 && !words.is_empty() => {
                let above = u32::try_from(index.checked_sub(SUPPLEMENTARY)?).ok()?;
                char::from_u32(0x1_0000 + above)
            }
            None => None,
        }
    }
}

/// All of them, read at the first use.
fn mappings() -> &'static [Mapping] {
    static MAPPINGS: OnceLock<Box<[Mapping]>> = OnceLock::new();
    MAPPINGS.get_or_init(|| {
        let bytes = zstd::bulk::decompress(COMPRESSED, DECOMPRESSED_MAX)
            .expect("the tables that were compiled in are whole");
        let mut word = 0_u16;
        let mut words = bytes.as_chunks::<2>().0.iter().map(|difference| {
            word = word.wrapping_add(u16::from_le_bytes(*difference));
            word
        });
        TABLES.iter().map(|(_, form)| read(*form, &mut words)).collect()
    })
}

fn read(form: Form, words: &mut impl Iterator<Item = u16>) -> Mapping {
    let parts = form.words().map(|length| words.by_ref().take(length).collect());
    let count = words.next().unwrap_or_default();
    let mut next = || u32::from(words.next().unwrap_or_default());
    Mapping { parts, aliases: (0..count).map(|_| next() << 16 | next()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::charset::Charset;

    fn text(name: &str, bytes: &[u8]) -> Result<String, TextError> {
        let mut out = Vec::new();
        Charset::from_name(name).unwrap().decode(bytes, &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    /// Every word of the file is used, and no more are asked for.
    #[test]
    fn the_tables_are_as_long_as_their_forms_say() {
        let aliases: usize = mappings().iter().map(|mapping| 1 + 2 * mapping.aliases.len()).sum();
        let parts: usize = TABLES.iter().flat_map(|(_, form)| form.words()).sum();
        let bytes = zstd::bulk::decompress(COMPRESSED, DECOMPRESSED_MAX).unwrap();
        assert_eq!(bytes.len(), 2 * (parts + aliases));
        assert!(TABLES.is_sorted_by_key(|(name, _)| *name));
        assert!(mappings().iter().flat_map(|mapping| &mapping.parts).all(|part| {
            part.iter().all(|word| *word == 0 || char::from_u32(u32::from(*word)).is_some())
        }));
    }

    #[test]
    fn ascii_is_itself_in_supersets() {
        for (name, _) in TABLES {
            let charset = Charset::from_name(name).unwrap();
            let ascii: Vec<u8> = (1..0x80).collect();
            let same = text(name, &ascii).is_ok_and(|text| text.as_bytes() == ascii);
            assert_eq!(same, charset.is_ascii_superset(), "{name}");
        }
    }

    /// Characters of all lengths; the bytes of one never begin with those of another.
    #[test]
    fn characters_are_cut_where_they_end() {
        for (name, bytes, expected) in [
            ("sjis", &b"\x83\x5c\xb1\x5c"[..], "ソｱ\\"),
            ("cp932", b"\x87\x54\xfa\x4a", "ⅠⅠ"),
            ("big5", b"\xa4\xa4A\xa4\xe5", "中A文"),
            ("gbk", b"\xd6\xd0\x81\x40", "中丂"),
            ("gb2312", b"\xd6\xd0", "中"),
            ("euckr", b"\xb0\xa1\x81\x41", "가갂"),
            ("ujis", b"\xa4\xa2\x8e\xb1\x8f\xb0\xa1", "あｱ丂"),
            ("eucjpms", b"\x8f\xf3\xf3\xad\xa1", "ⅰ①"),
            ("gb18030", b"\xd6\xd0\x81\x30\x81\x30\x95\x32\x82\x36z", "中\u{80}𠀀z"),
            ("gb18030", b"\x84\x31\xa4\x39\xe3\x32\x9a\x35", "\u{ffff}\u{10ffff}"),
            ("koi8r", b"\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"),
            ("swe7", b"[\\]", "ÄÖÅ"),
            ("cp850", b"\x82", "é"),
        ] {
            assert_eq!(text(name, bytes).as_deref(), Ok(expected), "{name}");
        }
    }

    #[test]
    fn what_has_no_character_is_refused() {
        for (name, bytes) in [
            ("sjis", &b"\x83"[..]),
            ("big5", b"\xc7\xfe"),
            ("big5", b"\x80\x81"),
            ("cp1250", b"\x81"),
            ("ujis", b"\x8f\xb0"),
            ("ujis", b"\x8e"),
            ("gb18030", b"\x81\x30\x81"),
            ("gb18030", b"\x84\x31\xa5\x30"),
            ("gb18030", b"\xe3\x32\x9a\x36"),
            ("gb18030", b"\xff\x30\x81\x30"),
        ] {
            assert_eq!(text(name, bytes), Err(TextError::Invalid), "{name} {bytes:02x?}");
        }
        assert_eq!(text("koi8r", b"a\0"), Err(TextError::Nul));
    }

    #[test]
    fn one_sequence_of_each_character_is_canonical() {
        let canonical = |name, bytes: &[u8]| Charset::from_name(name).unwrap().is_canonical(bytes);
        assert!(canonical("cp932", b"a\x87\x54"));
        assert!(!canonical("cp932", b"a\xfa\x4a"));
        assert!(canonical("sjis", b"\\"));
        assert!(!canonical("sjis", b"\x81\x5f"));
        assert!(!canonical("ujis", b"\xa1\xc0"));
        assert!(canonical("latin1", b"\xe9"));
        for (name, form) in TABLES {
            let mapping = &mappings()[usize::from(Table::from_name(name).unwrap().0)];
            let mut characters = std::collections::BTreeSet::new();
            let sequences = (0..=0xff_u8).map(|byte| vec![byte]).chain(
                (0x8000..=0xffff_u16)
                    .filter(|_| form != Form::Single)
                    .map(|pair| pair.to_be_bytes().to_vec()),
            );
            for sequence in sequences.filter(|sequence| !mapping.aliases.contains(&number(sequence))) {
                let character = mapping.character(&sequence);
                assert!(
                    character.is_none_or(|character| characters.insert(character)),
                    "{name} {sequence:02x?}"
                );
            }
        }
    }
}
