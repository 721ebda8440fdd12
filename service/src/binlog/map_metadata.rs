//! The optional metadata of a TABLE_MAP, complete under `binlog_row_metadata=FULL`.
//!
//! Server source `libs/mysql/binlog/event/rows_event.h`,
//! `Table_map_event::Optional_metadata_field_type`. Fields are type, length, value; fields of a
//! type unknown here are skipped by their length. Geometry subtypes and vector dimensions are
//! among those: they do not change how a value is laid out.

use super::DecodeError;
use super::column_type::Layout;
use super::reader::Reader;
use super::table_map::{Encoding, TableMapError};

const WHAT: &str = "TABLE_MAP optional metadata";

/// The collation id `binary`: BINARY, VARBINARY, BLOB and VECTOR.
const BINARY: u32 = 63;

/// Most labels of a column: the server's limit for ENUM.
const LABELS_MAX: usize = 65_535;

/// Per-column properties, handed out in column order.
#[derive(Default)]
pub(super) struct Metadata {
    /// One bit a column, highest bit first; `None`: all columns are visible.
    visible: Option<Vec<u8>>,
    key: Vec<usize>,
    names: std::vec::IntoIter<String>,
    unsigned: std::vec::IntoIter<bool>,
    collations: std::vec::IntoIter<u32>,
    label_collations: std::vec::IntoIter<u32>,
    enum_labels: std::vec::IntoIter<Vec<Vec<u8>>>,
    set_labels: std::vec::IntoIter<Vec<Vec<u8>>>,
}

/// Metadata fields as they come, at most one of a kind.
#[derive(Default)]
struct Fields<'a> {
    signedness: Option<Reader<'a>>,
    charset: Option<Charsets<'a>>,
    label_charset: Option<Charsets<'a>>,
    names: Option<Reader<'a>>,
    set_labels: Option<Reader<'a>>,
    enum_labels: Option<Reader<'a>>,
    key: Option<Key<'a>>,
    visibility: Option<Reader<'a>>,
}

/// Collations of the character columns, in one of two forms.
enum Charsets<'a> {
    /// A default, then pairs of an index among these columns and its collation.
    Default(Reader<'a>),
    /// One for each.
    Each(Reader<'a>),
}

enum Key<'a> {
    /// Column indexes in key order.
    Whole(Reader<'a>),
    /// Pairs of column index and prefix length, 0 for the whole column.
    Prefixed(Reader<'a>),
}

impl<'a> Fields<'a> {
    fn read(mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let mut fields = Self::default();
        while !reader.is_empty() {
            let error = reader.error();
            let kind = reader.u8()?;
            let length = reader.lenenc()?;
            let value = reader.nested(WHAT, length)?;
            let first_of_kind = match kind {
                1 => fields.signedness.replace(value).is_none(),
                2 => fields.charset.replace(Charsets::Default(value)).is_none(),
                3 => fields.charset.replace(Charsets::Each(value)).is_none(),
                4 => fields.names.replace(value).is_none(),
                5 => fields.set_labels.replace(value).is_none(),
                6 => fields.enum_labels.replace(value).is_none(),
                8 => fields.key.replace(Key::Whole(value)).is_none(),
                9 => fields.key.replace(Key::Prefixed(value)).is_none(),
                10 => fields.label_charset.replace(Charsets::Default(value)).is_none(),
                11 => fields.label_charset.replace(Charsets::Each(value)).is_none(),
                12 => fields.visibility.replace(value).is_none(),
                _ => true,
            };
            if !first_of_kind {
                return Err(error);
            }
        }
        Ok(fields)
    }
}

impl Metadata {
    /// Reads the fields behind the nullability bitmap and checks that they fit the columns.
    pub(super) fn read(layouts: &[Layout], reader: Reader<'_>) -> Result<Self, TableMapError> {
        let fields = Fields::read(reader)?;
        let count = |is: fn(&Layout) -> bool| layouts.iter().filter(|layout| is(layout)).count();
        let numeric = count(|layout| layout.is_numeric());
        let character = count(|layout| layout.is_character());
        let enums = count(|layout| matches!(layout, Layout::Enum { .. }));
        let sets = count(|layout| matches!(layout, Layout::Set { .. }));
        let names = fields.names.ok_or(TableMapError::NoColumnNames)?;
        Ok(Self {
            visible: fields.visibility.map(|bits| read_bits(bits, layouts.len())).transpose()?,
            names: read_names(names, layouts.len())?.into_iter(),
            key: fields.key.map(|key| read_key(key, layouts.len())).transpose()?.unwrap_or_default(),
            unsigned: read_signedness(fields.signedness, numeric)?.into_iter(),
            collations: read_collations(fields.charset, character)?.into_iter(),
            label_collations: read_collations(fields.label_charset, enums + sets)?.into_iter(),
            enum_labels: read_labels(fields.enum_labels, enums)?.into_iter(),
            set_labels: read_labels(fields.set_labels, sets)?.into_iter(),
        })
    }

    /// The name of the next column.
    pub(super) fn name(&mut self) -> Result<String, DecodeError> {
        self.names.next().ok_or_else(missing)
    }

    pub(super) fn is_visible(&self, index: usize) -> bool {
        self.visible.as_ref().is_none_or(|bits| is_set(bits, index))
    }

    pub(super) fn into_key(self) -> Vec<usize> {
        self.key
    }

    /// Completes the layout of the next column; must be asked for every column in order.
    pub(super) fn encoding(&mut self, layout: &Layout) -> Result<Encoding, DecodeError> {
        let unsigned = layout.is_numeric() && self.unsigned.next().ok_or_else(missing)?;
        let collation =
            if layout.is_character() { self.collations.next().ok_or_else(missing)? } else { BINARY };
        Ok(match *layout {
            Layout::TinyInt => Encoding::TinyInt { unsigned },
            Layout::SmallInt => Encoding::SmallInt { unsigned },
            Layout::MediumInt => Encoding::MediumInt { unsigned },
            Layout::Int => Encoding::Int { unsigned },
            Layout::BigInt => Encoding::BigInt { unsigned },
            Layout::Decimal { precision, scale } => Encoding::Decimal { precision, scale, unsigned },
            Layout::Float => Encoding::Float { unsigned },
            Layout::Double => Encoding::Double { unsigned },
            Layout::Varchar { max_bytes } => Encoding::Varchar { max_bytes, collation },
            Layout::Char { max_bytes } => Encoding::Char { max_bytes, collation },
            Layout::Blob { length_bytes } => Encoding::Blob { length_bytes, collation },
            Layout::Bit { width } => Encoding::Bit { width },
            Layout::Enum { pack } => Encoding::Enum {
                pack,
                labels: self.enum_labels.next().ok_or_else(missing)?,
                collation: self.label_collations.next().ok_or_else(missing)?,
            },
            Layout::Set { pack } => Encoding::Set {
                pack,
                labels: self.set_labels.next().ok_or_else(missing)?,
                collation: self.label_collations.next().ok_or_else(missing)?,
            },
            Layout::Date => Encoding::Date,
            Layout::Time { digits } => Encoding::Time { digits },
            Layout::DateTime { digits } => Encoding::DateTime { digits },
            Layout::Timestamp { digits } => Encoding::Timestamp { digits },
            Layout::Year => Encoding::Year,
            Layout::Json { length_bytes } => Encoding::Json { length_bytes },
            Layout::Geometry { length_bytes } => Encoding::Geometry { length_bytes },
            Layout::Vector { length_bytes } => Encoding::Vector { length_bytes },
        })
    }
}

/// Metadata that should be there for every column of a kind is not there at all.
const fn missing() -> DecodeError {
    DecodeError { what: WHAT, offset: 0 }
}

fn finished(reader: &Reader<'_>) -> Result<(), DecodeError> {
    if reader.is_empty() { Ok(()) } else { Err(reader.error()) }
}

/// A bitmap of exactly `count` bits, padded to whole bytes.
fn read_bits(mut reader: Reader<'_>, count: usize) -> Result<Vec<u8>, DecodeError> {
    let bits = reader.take(count.div_ceil(8))?.to_vec();
    finished(&reader)?;
    Ok(bits)
}

/// Bit of a bitmap whose first column is the highest bit.
fn is_set(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8).is_some_and(|byte| byte << (index % 8) & 0x80 != 0)
}

fn read_signedness(reader: Option<Reader<'_>>, numeric: usize) -> Result<Vec<bool>, DecodeError> {
    let Some(reader) = reader else { return Ok(Vec::new()) };
    let bits = read_bits(reader, numeric)?;
    Ok((0..numeric).map(|index| is_set(&bits, index)).collect())
}

fn read_u32(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let error = reader.error();
    u32::try_from(reader.lenenc()?).map_err(|_| error)
}

/// An index below `bound`.
fn read_index(reader: &mut Reader<'_>, bound: usize) -> Result<usize, DecodeError> {
    let error = reader.error();
    usize::try_from(reader.lenenc()?).ok().filter(|index| *index < bound).ok_or(error)
}

fn read_collations(charsets: Option<Charsets<'_>>, columns: usize) -> Result<Vec<u32>, DecodeError> {
    match charsets {
        None => Ok(Vec::new()),
        Some(Charsets::Each(mut reader)) => {
            let collations = (0..columns).map(|_| read_u32(&mut reader)).collect::<Result<_, _>>()?;
            finished(&reader)?;
            Ok(collations)
        }
        Some(Charsets::Default(mut reader)) => {
            let mut collations = vec![read_u32(&mut reader)?; columns];
            while !reader.is_empty() {
                let index = read_index(&mut reader, columns)?;
                let collation = read_u32(&mut reader)?;
                if let Some(slot) = collations.get_mut(index) {
                    *slot = collation;
                }
            }
            Ok(collations)
        }
    }
}

fn read_names(mut reader: Reader<'_>, columns: usize) -> Result<Vec<String>, DecodeError> {
    let mut names = Vec::with_capacity(columns);
    for _ in 0..columns {
        let length = reader.lenenc()?;
        let error = reader.error();
        let name = str::from_utf8(reader.take_u64(length)?).map_err(|_| error)?;
        names.push(name.to_owned());
    }
    finished(&reader)?;
    Ok(names)
}

/// Labels of every ENUM or every SET column: a count, then length and bytes each.
fn read_labels(reader: Option<Reader<'_>>, columns: usize) -> Result<Vec<Vec<Vec<u8>>>, DecodeError> {
    let Some(mut reader) = reader else { return Ok(Vec::new()) };
    let mut all = Vec::with_capacity(columns);
    for _ in 0..columns {
        let error = reader.error();
        let count = usize::try_from(reader.lenenc()?).ok().filter(|count| *count <= LABELS_MAX);
        let mut labels = Vec::with_capacity(count.ok_or(error)?);
        for _ in 0..labels.capacity() {
            let length = reader.lenenc()?;
            labels.push(reader.take_u64(length)?.to_vec());
        }
        all.push(labels);
    }
    finished(&reader)?;
    Ok(all)
}

fn read_key(key: Key<'_>, columns: usize) -> Result<Vec<usize>, DecodeError> {
    let (mut reader, prefixed) = match key {
        Key::Whole(reader) => (reader, false),
        Key::Prefixed(reader) => (reader, true),
    };
    let mut indexes = Vec::new();
    while !reader.is_empty() {
        let error = reader.error();
        let index = read_index(&mut reader, columns)?;
        if indexes.contains(&index) {
            return Err(error);
        }
        indexes.push(index);
        if prefixed {
            reader.lenenc()?;
        }
    }
    Ok(indexes)
}
