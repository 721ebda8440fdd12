//! Column definitions.

use std::fmt;

use super::index::ForeignKeyDefinition;
use crate::schema::spatial::GeometryKind;

/// A column as ADD, CHANGE and MODIFY COLUMN define it: what they do not say does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    pub name: String,
    pub data_type: DataType,
    /// NULL or NOT NULL, the last of them; `None` if neither is stated.
    pub nullable: Option<bool>,
    /// DEFAULT, the last of them.
    pub default: Option<DefaultValue>,
    /// ON UPDATE CURRENT_TIMESTAMP, with its fractional digits.
    pub on_update_now: Option<u8>,
    pub auto_increment: bool,
    /// PRIMARY KEY or UNIQUE in the definition.
    pub key: InlineKey,
    pub comment: Option<Literal>,
    pub generated: Option<Generated>,
    pub visible: bool,
    /// REFERENCES in the definition; its one column is this one.
    pub references: Option<ForeignKeyDefinition>,
    /// For each CHECK in the definition its name and whether it is enforced.
    pub checks: Vec<(Option<String>, bool)>,
}

/// Keys that a column definition declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InlineKey {
    pub primary: bool,
    pub unique: bool,
}

/// GENERATED ALWAYS AS; the expression is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generated {
    Virtual,
    Stored,
}

/// A data type, with MySQL's synonyms resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataType {
    pub name: TypeName,
    /// `M` of types that take a length, precision or display width; fractional digits of temporal
    /// ones. BOOL is TINYINT(1).
    pub length: Option<u64>,
    /// `D` of numeric types.
    pub scale: Option<u64>,
    /// ZEROFILL implies it.
    pub unsigned: bool,
    pub charset: CharsetClause,
    /// Labels of ENUM and SET in UTF-8, without trailing blanks, in order.
    pub labels: Vec<Literal>,
    /// SRID of spatial types.
    pub srid: Option<u64>,
}

/// Types as `information_schema.COLUMNS.DATA_TYPE` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeName {
    TinyInt,
    SmallInt,
    MediumInt,
    Int,
    BigInt,
    Decimal,
    Float,
    Double,
    Bit,
    Char,
    Varchar,
    TinyText,
    /// With a length the server takes the smallest of the four that holds as many characters.
    Text,
    MediumText,
    LongText,
    Binary,
    Varbinary,
    TinyBlob,
    Blob,
    MediumBlob,
    LongBlob,
    Enum,
    Set,
    Date,
    Time,
    DateTime,
    Timestamp,
    Year,
    Json,
    Vector,
    /// GEOMETRY and its subtypes.
    Spatial(GeometryKind),
}

/// CHARACTER SET and COLLATE, by MySQL's names in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CharsetClause {
    pub charset: Option<String>,
    pub collation: Option<String>,
    /// BINARY: the character set's `_bin` collation.
    pub binary: bool,
}

/// DEFAULT of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefaultValue {
    Literal(Literal),
    /// CURRENT_TIMESTAMP or a synonym, with its fractional digits.
    Now(u8),
    /// DEFAULT (…); the expression is not kept.
    Expression,
}

/// A literal. Its `Debug` output names the variant and nothing of the value.
#[derive(Clone, PartialEq, Eq)]
pub enum Literal {
    Null,
    /// Text in UTF-8.
    Text(String),
    /// A number as written, with its sign, in ASCII: integer, decimal or with an exponent.
    Number(String),
    /// x'…', 0x…, and strings with the introducer `_binary`.
    Bytes(Vec<u8>),
    /// b'…', 0b…: big-endian, as many bytes as the digits need.
    Bits(Vec<u8>),
    Boolean(bool),
    /// DATE, TIME or TIMESTAMP with a string.
    Temporal(String),
    /// A literal of a kind or character set that is not decoded here.
    Opaque,
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Text(_) => "Text",
            Self::Number(_) => "Number",
            Self::Bytes(_) => "Bytes",
            Self::Bits(_) => "Bits",
            Self::Boolean(_) => "Boolean",
            Self::Temporal(_) => "Temporal",
            Self::Opaque => "Opaque",
        })
    }
}
