//! What a table is: the model of a source table and of the target table made from it.

pub mod alter;
pub mod charset;
mod check;
pub mod collation;
mod cutover;
pub mod ddl;
mod default;
pub mod details;
pub mod diff;
mod expression;
pub mod filter;
mod index;
pub mod names;
pub mod objects;
pub mod overrides;
pub mod partitions;
pub mod phase;
pub mod plan;
pub mod policy;
pub mod recorded;
pub mod renaming;
pub mod render;
pub mod spatial;
pub mod types;
pub mod width;

use serde::{Deserialize, Serialize};

use details::{ColumnDetails, TableDetails};
use spatial::GeometryKind;

/// A source table's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableName {
    pub database: String,
    pub table: String,
}

/// A MySQL column type, with everything the conversion depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MysqlType {
    /// TINYINT(1): shown apart because it may become boolean.
    TinyInt {
        unsigned: bool,
        display_width_one: bool,
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
    /// CHAR(n), n in characters.
    Char {
        length: u32,
        charset: String,
    },
    Varchar {
        length: u32,
        charset: String,
    },
    /// TINYTEXT to LONGTEXT.
    Text {
        charset: String,
    },
    /// BINARY(n), n in bytes; the log strips trailing zero bytes and the conversion restores them.
    Binary {
        length: u32,
    },
    Varbinary {
        length: u32,
    },
    /// TINYBLOB to LONGBLOB.
    Blob,
    Bit {
        width: u8,
    },
    /// Labels in UTF-8, in index order.
    Enum {
        labels: Vec<String>,
    },
    Set {
        labels: Vec<String>,
    },
    Date,
    /// Fractional digits, 0 to 6.
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
    Json,
    /// GEOMETRY and its subtypes.
    Geometry,
    /// VECTOR(n): numbers of single precision.
    Vector,
    /// Anything else, by `information_schema.COLUMNS.DATA_TYPE`.
    Other {
        name: String,
    },
}

/// A source column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub mysql: MysqlType,
    /// The target's type, chosen once at creation and kept with the model.
    pub target: TargetType,
    pub nullable: bool,
    /// NOT NULL on the source, and no longer on the target: a policy stores NULL in it.
    #[serde(default)]
    pub not_null_dropped: bool,
    pub auto_increment: bool,
    /// VIRTUAL or STORED generated: present in row images, stored on the target as a plain column.
    pub generated: bool,
    /// What rows do not depend on.
    #[serde(default)]
    pub details: ColumnDetails,
}

impl Column {
    /// CHAR, VARCHAR and the TEXT family.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        self.mysql.is_text()
    }
}

impl MysqlType {
    /// CHAR, VARCHAR and the TEXT family.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        matches!(self, Self::Char { .. } | Self::Varchar { .. } | Self::Text { .. })
    }
}

/// A PostgreSQL column type that Tidegate writes in binary form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetType {
    Boolean,
    SmallInt,
    Integer,
    BigInt,
    Numeric {
        precision: u16,
        scale: u16,
    },
    Real,
    DoublePrecision,
    Varchar {
        length: u32,
    },
    Text,
    Bytea,
    /// bit(n)
    Bit {
        width: u8,
    },
    Date,
    Timestamp {
        digits: u8,
    },
    TimestampTz {
        digits: u8,
    },
    Interval {
        digits: u8,
    },
    Jsonb,
    /// real[]
    RealArray,
    /// PostGIS's type, whose schema is in [`TableDetails::postgis`].
    Geometry {
        kind: GeometryKind,
        /// 0 admits every reference system.
        srid: u32,
    },
}

/// A replicated table: the source's definition and the target's types. Stored in
/// `tidegate.table_state` as JSON, as of the position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableModel {
    pub name: TableName,
    pub columns: Vec<Column>,
    /// Column indexes of the key, in key order: the primary key, else the first NOT NULL unique
    /// key, else empty.
    pub key: Vec<usize>,
    /// Whether `key` is the PRIMARY KEY.
    pub key_is_primary: bool,
    /// Storage engine, as in `information_schema.TABLES.ENGINE`.
    pub engine: String,
    /// Character set of columns to come that name none; `None` in models recorded before it was read.
    #[serde(default)]
    pub default_charset: Option<String>,
    /// What rows do not depend on.
    #[serde(default)]
    pub details: TableDetails,
}
