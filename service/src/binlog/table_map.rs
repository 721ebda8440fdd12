//! TABLE_MAP events: which table the rows of one statement belong to and how they are encoded.
//!
//! Layout: server source `libs/mysql/binlog/event/rows_event.h`, `Table_map_event`, and MySQL
//! internals manual "TABLE_MAP_EVENT". Optional metadata is complete only under
//! `binlog_row_metadata=FULL`.

use bytes::Bytes;

use super::DecodeError;
use super::column_type;
use super::map_metadata::Metadata;
use super::reader::Reader;
use crate::halt::{Halt, Reason};

/// A parsed TABLE_MAP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMap {
    pub table_id: u64,
    pub database: String,
    pub table: String,
    pub columns: Vec<MapColumn>,
    /// The server's promoted key as column indexes in key order; a prefix key counts with its columns.
    pub key: Vec<usize>,
    /// The body it was parsed from; equal bodies parse equally, so parsed maps may be shared.
    pub raw: Bytes,
}

/// One column as a TABLE_MAP describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MapColumn {
    pub name: String,
    pub encoding: Encoding,
    pub nullable: bool,
    pub visible: bool,
}

/// How a column's value is laid out in a row image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encoding {
    TinyInt {
        unsigned: bool,
    },
    SmallInt {
        unsigned: bool,
    },
    MediumInt {
        unsigned: bool,
    },
    Int {
        unsigned: bool,
    },
    BigInt {
        unsigned: bool,
    },
    Decimal {
        precision: u8,
        scale: u8,
        unsigned: bool,
    },
    Float {
        unsigned: bool,
    },
    Double {
        unsigned: bool,
    },
    /// VARCHAR and VARBINARY: maximum length in bytes, collation id (63 is binary).
    Varchar {
        max_bytes: u16,
        collation: u32,
    },
    /// CHAR and BINARY: maximum length in bytes, collation id.
    Char {
        max_bytes: u16,
        collation: u32,
    },
    /// TEXT and BLOB family: bytes of the length prefix (1 to 4), collation id.
    Blob {
        length_bytes: u8,
        collation: u32,
    },
    Bit {
        width: u8,
    },
    /// ENUM: pack length 1 or 2, labels as raw bytes in the column's charset, collation id.
    Enum {
        pack: u8,
        labels: Vec<Vec<u8>>,
        collation: u32,
    },
    /// SET: pack length 1 to 8, labels as raw bytes in the column's charset, collation id.
    Set {
        pack: u8,
        labels: Vec<Vec<u8>>,
        collation: u32,
    },
    Date,
    Time {
        digits: u8,
    },
    DateTime {
        digits: u8,
    },
    Timestamp {
        digits: u8,
    },
    Year,
    Json {
        length_bytes: u8,
    },
    Geometry {
        length_bytes: u8,
    },
    Vector {
        length_bytes: u8,
    },
}

/// Why a TABLE_MAP can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableMapError {
    #[error("TABLE_MAP: {0}")]
    Decode(#[from] DecodeError),
    /// The server doesn't run with `binlog_row_metadata=FULL`.
    #[error("TABLE_MAP without column names")]
    NoColumnNames,
    /// A column type code that this release does not decode.
    #[error("column of type {}", column_type::name(*.0))]
    UnknownType(u8),
}

impl From<TableMapError> for Halt {
    fn from(error: TableMapError) -> Self {
        let reason = match error {
            TableMapError::Decode(_) => Reason::EventMalformed,
            TableMapError::NoColumnNames => Reason::RowMetadataNotFull,
            TableMapError::UnknownType(_) => Reason::UnsupportedType,
        };
        Self::new(reason, error.to_string())
    }
}

impl TableMap {
    /// Database and table name of a TABLE_MAP body, without reading its columns.
    pub fn names(body: &[u8]) -> Result<(&str, &str), DecodeError> {
        let mut reader = Reader::new("TABLE_MAP names", body);
        reader.take(TABLE_ID_AND_FLAGS)?;
        Ok((read_name(&mut reader)?, read_name(&mut reader)?))
    }

    /// Whether two bodies announce a table alike. The flags behind its id tell of the statement alone,
    /// such as whether it came by a foreign key (server source `rows_event.h`, `TM_REFERRED_FK_DB_F`),
    /// and are not read.
    #[must_use]
    pub fn is_repeated(body: &[u8], again: &[u8]) -> bool {
        let id = |body: &[u8]| body.first_chunk::<TABLE_ID>().copied();
        id(body) == id(again) && body.get(TABLE_ID_AND_FLAGS..) == again.get(TABLE_ID_AND_FLAGS..)
    }

    /// Parses a whole TABLE_MAP body.
    pub fn parse(body: &Bytes) -> Result<Self, TableMapError> {
        let mut reader = Reader::new("TABLE_MAP", body);
        let table_id = reader.uint(TABLE_ID)?;
        reader.take(TABLE_ID_AND_FLAGS - TABLE_ID)?;
        let (database, table) = (read_name(&mut reader)?.to_owned(), read_name(&mut reader)?.to_owned());
        let error = reader.error();
        let count = Some(reader.lenenc()?).filter(|count| matches!(count, 1..=COLUMNS_MAX)).ok_or(error)?;
        let types = reader.take_u64(count)?;
        let length = reader.lenenc()?;
        let layouts = column_type::read_all(types, reader.nested("TABLE_MAP column metadata", length)?)?;
        let nullable = reader.take(types.len().div_ceil(8))?;
        let mut metadata = Metadata::read(&layouts, reader)?;
        let mut columns = Vec::with_capacity(layouts.len());
        for (index, layout) in layouts.iter().enumerate() {
            columns.push(MapColumn {
                name: metadata.name()?,
                encoding: metadata.encoding(layout)?,
                nullable: nullable.get(index / 8).is_some_and(|bits| bits >> (index % 8) & 1 == 1),
                visible: metadata.is_visible(index),
            });
        }
        Ok(Self { table_id, database, table, columns, key: metadata.into_key(), raw: body.clone() })
    }
}

/// Length of a table id.
const TABLE_ID: usize = 6;

/// Length of the fixed part: the table id and 2 bytes of flags.
const TABLE_ID_AND_FLAGS: usize = TABLE_ID + 2;

/// Most columns of a table: the server's own limit (server source `sql/sql_const.h`, `MAX_FIELDS`).
const COLUMNS_MAX: u64 = 4096;

/// A name of the data dictionary: length, utf8mb3 characters, terminator.
fn read_name<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
    let length = reader.lenenc()?;
    let error = reader.error();
    let name = str::from_utf8(reader.take_u64(length)?).map_err(|_| error)?;
    let error = reader.error();
    if reader.u8()? == 0 { Ok(name) } else { Err(error) }
}
