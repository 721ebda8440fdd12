//! From a column definition's type to [`MysqlType`], as the server resolves it.

use super::Resync;
use crate::schema::MysqlType;
use crate::schema::charset::Charset;
use crate::schema::ddl::{CharsetClause, DataType, Literal, TypeName};

/// Longest VARCHAR and VARBINARY in bytes; the server makes a TEXT or BLOB of a longer one.
const VARCHAR_BYTES_MAX: u64 = 65_535;
/// DECIMAL without a precision.
const DECIMAL_PRECISION_DEFAULT: u64 = 10;

/// The type of a column of a table with this default character set, `None` if that is not known.
pub(super) fn resolve(data_type: &DataType, table_charset: Option<&str>) -> Result<MysqlType, Resync> {
    let unsigned = data_type.unsigned;
    Ok(match data_type.name {
        TypeName::TinyInt => {
            MysqlType::TinyInt { unsigned, display_width_one: data_type.length == Some(1) && !unsigned }
        }
        TypeName::SmallInt => MysqlType::SmallInt { unsigned },
        TypeName::MediumInt => MysqlType::MediumInt { unsigned },
        TypeName::Int => MysqlType::Int { unsigned },
        TypeName::BigInt => MysqlType::BigInt { unsigned },
        TypeName::Float => MysqlType::Float { unsigned },
        TypeName::Double => MysqlType::Double { unsigned },
        TypeName::Decimal => {
            let precision = data_type.length.filter(|length| *length > 0);
            MysqlType::Decimal {
                precision: small(precision, DECIMAL_PRECISION_DEFAULT)?,
                scale: small(data_type.scale, 0)?,
                unsigned,
            }
        }
        TypeName::Bit => MysqlType::Bit { width: small(data_type.length.filter(|width| *width > 0), 1)? },
        TypeName::Binary => MysqlType::Binary { length: length(data_type, 1)? },
        TypeName::Varbinary => MysqlType::Varbinary { length: varying(data_type, 1)? },
        TypeName::TinyBlob | TypeName::Blob | TypeName::MediumBlob | TypeName::LongBlob => MysqlType::Blob,
        TypeName::Char
        | TypeName::Varchar
        | TypeName::TinyText
        | TypeName::Text
        | TypeName::MediumText
        | TypeName::LongText => text(data_type, table_charset)?,
        TypeName::Enum => MysqlType::Enum { labels: labels(data_type, table_charset)? },
        TypeName::Set => MysqlType::Set { labels: labels(data_type, table_charset)? },
        TypeName::Date => MysqlType::Date,
        TypeName::Time => MysqlType::Time { digits: small(data_type.length, 0)? },
        TypeName::DateTime => MysqlType::DateTime { digits: small(data_type.length, 0)? },
        TypeName::Timestamp => MysqlType::Timestamp { digits: small(data_type.length, 0)? },
        TypeName::Year => MysqlType::Year,
        TypeName::Json => MysqlType::Json,
        TypeName::Vector => MysqlType::Vector,
        TypeName::Spatial(_) => MysqlType::Geometry,
    })
}

/// The character set that a clause names, by itself or through a collation.
pub(super) fn charset_of(clause: &CharsetClause) -> Option<String> {
    let of_collation = |name: &String| name.split('_').next().map(str::to_owned);
    clause.charset.clone().or_else(|| clause.collation.as_ref().and_then(of_collation))
}

fn charset(data_type: &DataType, table_charset: Option<&str>) -> Result<String, Resync> {
    let unknown = Resync { why: "a column of the table's default character set, which is not known" };
    charset_of(&data_type.charset).or_else(|| table_charset.map(str::to_owned)).ok_or(unknown)
}

fn text(data_type: &DataType, table_charset: Option<&str>) -> Result<MysqlType, Resync> {
    let charset = charset(data_type, table_charset)?;
    let is_binary = charset == "binary";
    Ok(match data_type.name {
        TypeName::Char if is_binary => MysqlType::Binary { length: length(data_type, 1)? },
        TypeName::Char => MysqlType::Char { length: length(data_type, 1)?, charset },
        TypeName::Varchar if is_binary => MysqlType::Varbinary { length: varying(data_type, 1)? },
        TypeName::Varchar => {
            let known = Charset::from_name(&charset).ok_or(Resync { why: "a character set of a column" })?;
            MysqlType::Varchar { length: varying(data_type, u64::from(known.max_bytes()))?, charset }
        }
        _ if is_binary => MysqlType::Blob,
        _ => MysqlType::Text { charset },
    })
}

/// Labels, where what the server shows of them is what the statement says: its dictionary puts a
/// question mark for characters beyond the basic multilingual plane.
fn labels(data_type: &DataType, table_charset: Option<&str>) -> Result<Vec<String>, Resync> {
    let refused = Resync { why: "labels of ENUM or SET" };
    if Charset::from_name(&charset(data_type, table_charset)?).is_none() {
        return Err(refused);
    }
    let label = |label: &Literal| match label {
        Literal::Text(text) if text.chars().all(|c| c != '?' && c != '\0' && u32::from(c) <= 0xffff) => {
            Ok(text.clone())
        }
        _ => Err(refused),
    };
    data_type.labels.iter().map(label).collect()
}

fn small(stated: Option<u64>, default: u64) -> Result<u8, Resync> {
    u8::try_from(stated.unwrap_or(default)).map_err(|_| Resync { why: "a precision out of range" })
}

fn length(data_type: &DataType, default: u64) -> Result<u32, Resync> {
    u32::try_from(data_type.length.unwrap_or(default)).map_err(|_| Resync { why: "a length out of range" })
}

fn varying(data_type: &DataType, bytes_per_character: u64) -> Result<u32, Resync> {
    let length = length(data_type, 1)?;
    if u64::from(length) * bytes_per_character > VARCHAR_BYTES_MAX {
        return Err(Resync { why: "a VARCHAR or VARBINARY that is too long for one" });
    }
    Ok(length)
}
