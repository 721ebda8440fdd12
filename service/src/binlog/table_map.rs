//! TABLE_MAP events: which table the rows of one statement belong to and how they are encoded.
//!
//! Layout: server source `libs/mysql/binlog/event/rows_event.h`, `Table_map_event`, and MySQL
//! internals manual "TABLE_MAP_EVENT". Optional metadata is complete only under
//! `binlog_row_metadata=FULL`.

use bytes::Bytes;

/// A parsed TABLE_MAP.
#[derive(Debug, PartialEq, Eq)]
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
