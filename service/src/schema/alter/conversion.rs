//! Which changes of a column's type leave the same values on both sides.

use super::Resync;
use crate::schema::MysqlType;
use crate::schema::charset::Charset;
use crate::schema::ddl::TypeName;

/// `STRICT_TRANS_TABLES` of `sql_mode`.
const STRICT_TRANS_TABLES: u64 = 1 << 21;
/// `STRICT_ALL_TABLES` of `sql_mode`.
const STRICT_ALL_TABLES: u64 = 1 << 22;
/// `PAD_CHAR_TO_FULL_LENGTH` of `sql_mode`: CHAR values are read with their trailing blanks.
const PAD_CHAR_TO_FULL_LENGTH: u64 = 1 << 31;

/// What of the session decides how values are converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Modes {
    /// A value that does not fit is an error, and never cut or replaced.
    pub(super) strict: bool,
    /// CHAR values are padded when they are read.
    pads_char: bool,
}

impl Modes {
    /// Of a statement on a table of this engine. What is not known is taken for the worst.
    pub(super) fn new(sql_mode: Option<u64>, engine: &str) -> Self {
        let has = |flag: u64| sql_mode.is_some_and(|mode| mode & flag != 0);
        let transactional = engine.eq_ignore_ascii_case("InnoDB");
        Self {
            strict: has(STRICT_ALL_TABLES) || (transactional && has(STRICT_TRANS_TABLES)),
            pads_char: sql_mode.is_none_or(|mode| mode & PAD_CHAR_TO_FULL_LENGTH != 0),
        }
    }
}

/// Whether every value stays what it is: numbers as numbers, text as Unicode.
///
/// `name` is the new type as the statement names it, which says more about TEXT and BLOB.
pub(super) fn check(old: &MysqlType, new: &MysqlType, name: TypeName, modes: Modes) -> Result<(), Resync> {
    let exact = match (old, new) {
        (MysqlType::Text { .. } | MysqlType::Blob, MysqlType::Text { .. } | MysqlType::Blob) => {
            // The model does not tell the four lengths of TEXT and BLOB apart.
            let holds_all = modes.strict || matches!(name, TypeName::LongText | TypeName::LongBlob);
            holds_all && text_kept(old, new)
        }
        (old, new) if old == new => true,
        (old, new) if range(old).is_some() => {
            range(old).zip(range(new)).is_some_and(|(old, new)| new.0 <= old.0 && old.1 <= new.1)
        }
        (MysqlType::Decimal { .. }, MysqlType::Decimal { .. }) => decimal_kept(old, new),
        // DOUBLE holds every FLOAT; a sign may come, and never go.
        (
            MysqlType::Float { unsigned: old },
            MysqlType::Float { unsigned: new } | MysqlType::Double { unsigned: new },
        )
        | (MysqlType::Double { unsigned: old }, MysqlType::Double { unsigned: new }) => *old || !*new,
        (MysqlType::Char { .. }, MysqlType::Varchar { .. } | MysqlType::Text { .. }) => {
            !modes.pads_char && text_kept(old, new)
        }
        (MysqlType::Char { .. }, MysqlType::Char { .. })
        | (MysqlType::Varchar { .. }, MysqlType::Varchar { .. }) => text_kept(old, new),
        (MysqlType::Varchar { .. }, MysqlType::Text { .. }) => {
            // 255 bytes hold less than many a VARCHAR.
            text_kept(old, new) && (modes.strict || name == TypeName::LongText)
        }
        (MysqlType::Varbinary { length: old }, MysqlType::Varbinary { length: new }) => old <= new,
        (MysqlType::Varbinary { .. }, MysqlType::Blob) => modes.strict || name == TypeName::LongBlob,
        // Rows keep their labels wherever these stand in the new list; index 0 stays index 0.
        (MysqlType::Enum { labels: old }, MysqlType::Enum { labels: new }) => {
            old.iter().all(|label| new.contains(label))
        }
        // The order of a SET's members is that of its definition.
        (MysqlType::Set { labels: old }, MysqlType::Set { labels: new }) => new.starts_with(old),
        (MysqlType::Enum { labels }, MysqlType::Varchar { .. } | MysqlType::Text { .. }) => {
            labels_kept(labels, new) && (modes.strict || name != TypeName::TinyText)
        }
        (MysqlType::Time { digits: old }, MysqlType::Time { digits: new })
        | (MysqlType::DateTime { digits: old }, MysqlType::DateTime { digits: new })
        | (MysqlType::Timestamp { digits: old }, MysqlType::Timestamp { digits: new }) => old <= new,
        _ => false,
    };
    if exact { Ok(()) } else { Err(Resync { why: "a change of a column's type that may change values" }) }
}

/// Least and greatest value of an integer type.
fn range(mysql: &MysqlType) -> Option<(i128, i128)> {
    let (bits, unsigned) = match *mysql {
        MysqlType::TinyInt { unsigned, .. } => (8, unsigned),
        MysqlType::SmallInt { unsigned } => (16, unsigned),
        MysqlType::MediumInt { unsigned } => (24, unsigned),
        MysqlType::Int { unsigned } => (32, unsigned),
        MysqlType::BigInt { unsigned } => (64, unsigned),
        _ => return None,
    };
    let values = 1i128 << bits;
    Some(if unsigned { (0, values - 1) } else { (-values / 2, values / 2 - 1) })
}

/// Whether an integer is one of the type's values.
pub(super) fn in_range(mysql: &MysqlType, value: i128) -> bool {
    range(mysql).is_some_and(|(least, greatest)| (least..=greatest).contains(&value))
}

/// Neither integer digits nor decimals get fewer, and the sign does not go.
fn decimal_kept(old: &MysqlType, new: &MysqlType) -> bool {
    let &MysqlType::Decimal { precision: old_precision, scale: old_scale, unsigned: old_unsigned } = old
    else {
        return false;
    };
    let &MysqlType::Decimal { precision, scale, unsigned } = new else { return false };
    old_scale <= scale
        && i16::from(old_precision) - i16::from(old_scale) <= i16::from(precision) - i16::from(scale)
        && (old_unsigned || !unsigned)
}

/// The new type is as long and its character set has all characters of the old one.
fn text_kept(old: &MysqlType, new: &MysqlType) -> bool {
    match (charset_and_length(old), charset_and_length(new)) {
        (Some((old, old_length)), Some((new, new_length))) => old_length <= new_length && includes(new, old),
        (None, None) => matches!((old, new), (MysqlType::Blob, MysqlType::Blob)),
        _ => false,
    }
}

fn charset_and_length(mysql: &MysqlType) -> Option<(&str, u64)> {
    match mysql {
        MysqlType::Char { length, charset } | MysqlType::Varchar { length, charset } => {
            Some((charset, u64::from(*length)))
        }
        // With the longest text of a shorter type it is up to the mode whether it fits.
        MysqlType::Text { charset } => Some((charset, u64::MAX)),
        _ => None,
    }
}

/// Whether a character set has all characters of another.
pub(super) fn includes(new: &str, old: &str) -> bool {
    let (Some(new), Some(old)) = (Charset::from_name(new), Charset::from_name(old)) else { return false };
    match new {
        _ if new == old => true,
        Charset::Utf8mb4 | Charset::Utf16 | Charset::Utf16le | Charset::Utf32 => true,
        Charset::Utf8mb3 | Charset::Ucs2 => old.max_utf8_bytes() <= 3,
        Charset::Latin1 | Charset::Table(_) => old == Charset::Ascii && new.is_ascii_superset(),
        Charset::Ascii => false,
    }
}

fn labels_kept(labels: &[String], new: &MysqlType) -> bool {
    let Some((charset, length)) = charset_and_length(new) else { return false };
    labels.iter().all(|label| {
        let characters = u64::try_from(label.chars().count()).unwrap_or(u64::MAX);
        characters <= length && (label.is_ascii() || includes(charset, "utf8mb3"))
    })
}
