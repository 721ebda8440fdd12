//! GTIDs and GTID sets: the only position Tidegate knows.
//!
//! Text form as the server prints it (MySQL manual, "GTID Format and Storage"), wire form as
//! `COM_BINLOG_DUMP_GTID` and `PREVIOUS_GTIDS` take it (server source `sql/rpl_gtid_set.cc`,
//! `Gtid_set::encode`). Membership, never order: holes and tags are ordinary.

/// Stores a type as its text.
macro_rules! stored_as_text {
    ($name:ty) => {
        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = GtidError;

            fn try_from(text: String) -> Result<Self, GtidError> {
                text.parse()
            }
        }
    };
}

mod intervals;
mod set;
mod wire;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

pub use set::GtidSet;

/// The highest transaction number that the server assigns: 2^63 - 2.
pub const MAX_GNO: u64 = (1 << 63) - 2;

/// Longest tag, in characters (MySQL manual, "GTID Format and Storage").
const MAX_TAG_LENGTH: usize = 32;

/// Why a GTID or a GTID set could not be read. Holds no input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GtidError {
    #[error("malformed UUID in a GTID")]
    Uuid,
    #[error("malformed tag in a GTID")]
    Tag,
    #[error("transaction number of a GTID outside 1 to 2^63 - 2")]
    Number,
    #[error("malformed interval in a GTID set")]
    Interval,
    #[error("malformed GTID set encoding at byte {offset}")]
    Encoding { offset: usize },
}

/// A server or group UUID. In the order of its bytes, as the server lists sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Uuid(pub [u8; 16]);

impl Ord for Uuid {
    fn cmp(&self, other: &Self) -> Ordering {
        u128::from_be_bytes(self.0).cmp(&u128::from_be_bytes(other.0))
    }
}

impl PartialOrd for Uuid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Uuid {
    type Err = GtidError;

    /// Reads the hyphenated form, 36 characters in either case.
    fn from_str(text: &str) -> Result<Self, GtidError> {
        let text = text.as_bytes();
        if text.len() != 36 {
            return Err(GtidError::Uuid);
        }
        let mut bytes = [0; 16];
        let mut nibbles = 0;
        for (at, &c) in text.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if c != b'-' {
                    return Err(GtidError::Uuid);
                }
                continue;
            }
            let digit = char::from(c).to_digit(16).ok_or(GtidError::Uuid)?;
            let byte: &mut u8 = bytes.get_mut(nibbles / 2).ok_or(GtidError::Uuid)?;
            // A hexadecimal digit fits four bits.
            *byte = (*byte << 4) | digit as u8;
            nibbles += 1;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

stored_as_text!(Uuid);

/// A GTID tag: lower-case, 1 to 32 characters; or none.
///
/// Without one there is no text at all, rather than an empty one: the C library compares those with masked
/// reads of addresses that don't exist, which cost some processors as much as all else about a GTID.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(Option<Box<str>>);

impl Tag {
    /// The absence of a tag.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The tag's characters; empty when untagged.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

impl FromStr for Tag {
    type Err = GtidError;

    /// Reads a tag in either case: a letter or underscore, then letters, digits, underscores.
    fn from_str(text: &str) -> Result<Self, GtidError> {
        let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let continues = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if starts && continues && text.len() <= MAX_TAG_LENGTH {
            Ok(Self(Some(text.to_ascii_lowercase().into())))
        } else {
            Err(GtidError::Tag)
        }
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One transaction's identifier: `uuid[:tag]:gno`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Gtid {
    uuid: Uuid,
    tag: Tag,
    gno: u64,
}

impl Gtid {
    /// A GTID whose transaction number is in the server's range.
    pub fn new(uuid: Uuid, tag: Tag, gno: u64) -> Result<Self, GtidError> {
        if (1..=MAX_GNO).contains(&gno) { Ok(Self { uuid, tag, gno }) } else { Err(GtidError::Number) }
    }

    #[must_use]
    pub const fn uuid(&self) -> &Uuid {
        &self.uuid
    }

    #[must_use]
    pub const fn tag(&self) -> &Tag {
        &self.tag
    }

    /// The transaction number, 1 to 2^63 - 2.
    #[must_use]
    pub const fn gno(&self) -> u64 {
        self.gno
    }
}

impl FromStr for Gtid {
    type Err = GtidError;

    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut parts = text.trim().split(':').map(str::trim);
        let uuid = parts.next().ok_or(GtidError::Uuid)?.parse()?;
        let middle = parts.next().ok_or(GtidError::Number)?;
        let (tag, gno) = match (parts.next(), parts.next()) {
            (None, _) => (Tag::none(), middle),
            (Some(gno), None) => (middle.parse()?, gno),
            (Some(_), Some(_)) => return Err(GtidError::Number),
        };
        Self::new(uuid, tag, number(gno)?)
    }
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tag.is_none() {
            write!(f, "{}:{}", self.uuid, self.gno)
        } else {
            write!(f, "{}:{}:{}", self.uuid, self.tag, self.gno)
        }
    }
}

stored_as_text!(Gtid);

/// Reads a transaction number: decimal digits only, in the server's range.
fn number(text: &str) -> Result<u64, GtidError> {
    if text.is_empty() || !text.bytes().all(|c| c.is_ascii_digit()) {
        return Err(GtidError::Number);
    }
    text.parse().ok().filter(|gno| (1..=MAX_GNO).contains(gno)).ok_or(GtidError::Number)
}
