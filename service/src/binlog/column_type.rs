//! Column type codes of a TABLE_MAP and the metadata that each brings along.
//!
//! Codes: server source `include/field_types.h`, `enum_field_types`. Metadata: server source
//! `libs/mysql/binlog/event/rows_event.h`, table "Table_map_event column types".

use super::DecodeError;
use super::reader::Reader;
use super::table_map::TableMapError;

/// What type code and column metadata say; signedness, charset and labels come as optional metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    TinyInt,
    SmallInt,
    MediumInt,
    Int,
    BigInt,
    Decimal { precision: u8, scale: u8 },
    Float,
    Double,
    Varchar { max_bytes: u16 },
    Char { max_bytes: u16 },
    Blob { length_bytes: u8 },
    Bit { width: u8 },
    Enum { pack: u8 },
    Set { pack: u8 },
    Date,
    Time { digits: u8 },
    DateTime { digits: u8 },
    Timestamp { digits: u8 },
    Year,
    Json { length_bytes: u8 },
    Geometry { length_bytes: u8 },
    Vector { length_bytes: u8 },
}

impl Layout {
    /// Whether the column has a bit in the signedness metadata. YEAR counts as a number there.
    pub(super) const fn is_numeric(self) -> bool {
        matches!(
            self,
            Self::TinyInt
                | Self::SmallInt
                | Self::MediumInt
                | Self::Int
                | Self::BigInt
                | Self::Decimal { .. }
                | Self::Float
                | Self::Double
                | Self::Year
        )
    }

    /// Whether the column has an entry in the charset metadata. VECTOR does, JSON and GEOMETRY don't.
    pub(super) const fn is_character(self) -> bool {
        matches!(self, Self::Varchar { .. } | Self::Char { .. } | Self::Blob { .. } | Self::Vector { .. })
    }
}

/// Reads the metadata of every column; all of it must be used up.
pub(super) fn read_all(types: &[u8], mut metadata: Reader<'_>) -> Result<Vec<Layout>, TableMapError> {
    let layouts = types.iter().map(|code| read(*code, &mut metadata)).collect::<Result<Vec<_>, _>>()?;
    if metadata.is_empty() { Ok(layouts) } else { Err(metadata.error().into()) }
}

fn read(code: u8, metadata: &mut Reader<'_>) -> Result<Layout, TableMapError> {
    Ok(match code {
        1 => Layout::TinyInt,
        2 => Layout::SmallInt,
        3 => Layout::Int,
        4 => read_float(metadata, 4, Layout::Float)?,
        5 => read_float(metadata, 8, Layout::Double)?,
        8 => Layout::BigInt,
        9 => Layout::MediumInt,
        10 => Layout::Date,
        13 => Layout::Year,
        15 => Layout::Varchar { max_bytes: metadata.u16()? },
        16 => read_bit(metadata)?,
        17 => Layout::Timestamp { digits: read_digits(metadata)? },
        18 => Layout::DateTime { digits: read_digits(metadata)? },
        19 => Layout::Time { digits: read_digits(metadata)? },
        242 => Layout::Vector { length_bytes: read_length_bytes(metadata)? },
        245 => Layout::Json { length_bytes: read_length_bytes(metadata)? },
        246 => read_decimal(metadata)?,
        252 => Layout::Blob { length_bytes: read_length_bytes(metadata)? },
        254 => read_string(metadata)?,
        255 => Layout::Geometry { length_bytes: read_length_bytes(metadata)? },
        _ => return Err(TableMapError::UnknownType(code)),
    })
}

/// Reads one byte and checks it.
fn read_checked(metadata: &mut Reader<'_>, valid: impl Fn(u8) -> bool) -> Result<u8, DecodeError> {
    let error = metadata.error();
    let byte = metadata.u8()?;
    if valid(byte) { Ok(byte) } else { Err(error) }
}

fn read_float(metadata: &mut Reader<'_>, bytes: u8, layout: Layout) -> Result<Layout, DecodeError> {
    read_checked(metadata, |byte| byte == bytes).map(|_| layout)
}

fn read_digits(metadata: &mut Reader<'_>) -> Result<u8, DecodeError> {
    read_checked(metadata, |digits| digits <= 6)
}

fn read_length_bytes(metadata: &mut Reader<'_>) -> Result<u8, DecodeError> {
    read_checked(metadata, |bytes| matches!(bytes, 1..=4))
}

fn read_bit(metadata: &mut Reader<'_>) -> Result<Layout, DecodeError> {
    let bits = read_checked(metadata, |bits| bits < 8)?;
    let bytes = read_checked(metadata, |bytes| matches!((bytes, bits), (0..=7, _) | (8, 0)))?;
    Ok(Layout::Bit { width: bytes * 8 + bits })
}

fn read_decimal(metadata: &mut Reader<'_>) -> Result<Layout, DecodeError> {
    let precision = read_checked(metadata, |precision| matches!(precision, 1..=65))?;
    let scale = read_checked(metadata, |scale| scale <= 30 && scale <= precision)?;
    Ok(Layout::Decimal { precision, scale })
}

/// CHAR, BINARY, ENUM and SET share a code. The first byte is the real type, but for CHAR beyond
/// 255 bytes two of its bits are the length's bits 8 and 9, inverted.
fn read_string(metadata: &mut Reader<'_>) -> Result<Layout, TableMapError> {
    let [high, low] = [metadata.u8()?, metadata.u8()?];
    let error = metadata.error();
    let long = high & 0x30 != 0x30;
    Ok(match if long { high | 0x30 } else { high } {
        247 if !long && matches!(low, 1 | 2) => Layout::Enum { pack: low },
        248 if !long && matches!(low, 1..=4 | 8) => Layout::Set { pack: low },
        254 => Layout::Char { max_bytes: u16::from((high & 0x30) ^ 0x30) << 4 | u16::from(low) },
        247 | 248 => return Err(error.into()),
        other => return Err(TableMapError::UnknownType(other)),
    })
}

/// The name of a type code for messages.
pub(super) const fn name(code: u8) -> &'static str {
    match code {
        0 => "DECIMAL of before MySQL 5.0",
        6 => "NULL",
        7 => "TIMESTAMP of before MySQL 5.6.4",
        11 => "TIME of before MySQL 5.6.4",
        12 => "DATETIME of before MySQL 5.6.4",
        14 => "NEWDATE",
        20 => "TYPED ARRAY",
        244 => "BOOL",
        249 => "TINYBLOB",
        250 => "MEDIUMBLOB",
        251 => "LONGBLOB",
        253 => "VARCHAR of before MySQL 5.0",
        _ => "unknown to this release",
    }
}
