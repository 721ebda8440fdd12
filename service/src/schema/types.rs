//! From what MySQL says about a column to [`MysqlType`], and from there to the target's type.

use std::fmt;

use super::charset::{Charset, TextError};
use super::{Column, MysqlType, TableName, TargetType, spatial};
use crate::halt::{Halt, Reason};

/// A row of `information_schema.COLUMNS`, as far as it describes the type (MySQL manual, "The
/// INFORMATION_SCHEMA COLUMNS Table").
#[derive(Debug, Clone, Copy, Default)]
pub struct ColumnFacts<'a> {
    pub data_type: &'a str,
    pub column_type: &'a str,
    pub character_set_name: Option<&'a str>,
    pub character_maximum_length: Option<u64>,
    pub numeric_precision: Option<u64>,
    pub numeric_scale: Option<u64>,
    pub datetime_precision: Option<u64>,
    /// The labels of an ENUM or SET as stored, where [`hides_labels`] asked for them.
    pub labels: Option<&'a [Vec<u8>]>,
}

/// The type that the facts describe. A type that Tidegate does not know is [`MysqlType::Other`].
///
/// # Errors
/// `unsupported_charset` for an ENUM or SET whose labels are in a character set that is not
/// converted; `unsupported_type` for labels that can't be read or stored; `internal_error` for
/// facts that the server never states.
pub fn parse_column(facts: &ColumnFacts<'_>, table: &TableName, column: &str) -> Result<MysqlType, Halt> {
    let unsigned = facts.column_type.split(' ').any(|word| word == "unsigned");
    let parsed = match facts.data_type {
        "tinyint" => {
            Some(MysqlType::TinyInt { unsigned, display_width_one: facts.column_type == "tinyint(1)" })
        }
        "smallint" => Some(MysqlType::SmallInt { unsigned }),
        "mediumint" => Some(MysqlType::MediumInt { unsigned }),
        "int" => Some(MysqlType::Int { unsigned }),
        "bigint" => Some(MysqlType::BigInt { unsigned }),
        "float" => Some(MysqlType::Float { unsigned }),
        "double" => Some(MysqlType::Double { unsigned }),
        "decimal" => decimal(facts, unsigned),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => text(facts),
        "binary" => length(facts).map(|length| MysqlType::Binary { length }),
        "varbinary" => length(facts).map(|length| MysqlType::Varbinary { length }),
        "tinyblob" | "blob" | "mediumblob" | "longblob" => Some(MysqlType::Blob),
        "bit" => small(facts.numeric_precision).map(|width| MysqlType::Bit { width }),
        "date" => Some(MysqlType::Date),
        "time" => small(facts.datetime_precision).map(|digits| MysqlType::Time { digits }),
        "datetime" => small(facts.datetime_precision).map(|digits| MysqlType::DateTime { digits }),
        "timestamp" => small(facts.datetime_precision).map(|digits| MysqlType::Timestamp { digits }),
        "year" => Some(MysqlType::Year),
        "json" => Some(MysqlType::Json),
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" | "geomcollection" => Some(MysqlType::Geometry),
        "vector" => Some(MysqlType::Vector),
        "enum" => Some(MysqlType::Enum { labels: labels(facts, table, column)? }),
        "set" => Some(MysqlType::Set { labels: labels(facts, table, column)? }),
        other => Some(MysqlType::Other { name: other.to_owned() }),
    };
    parsed.ok_or_else(|| {
        let detail =
            format!("the source describes column `{column}` without its length, precision or character set");
        Halt::new(Reason::Internal, detail).on_table(&table.database, &table.table)
    })
}

fn small(fact: Option<u64>) -> Option<u8> {
    fact.and_then(|value| u8::try_from(value).ok())
}

fn length(facts: &ColumnFacts<'_>) -> Option<u32> {
    facts.character_maximum_length.and_then(|value| u32::try_from(value).ok())
}

fn decimal(facts: &ColumnFacts<'_>, unsigned: bool) -> Option<MysqlType> {
    let (precision, scale) = (small(facts.numeric_precision)?, small(facts.numeric_scale)?);
    Some(MysqlType::Decimal { precision, scale, unsigned })
}

fn text(facts: &ColumnFacts<'_>) -> Option<MysqlType> {
    let name = facts.character_set_name?;
    let charset = Charset::from_name(name).map_or_else(|| name.to_owned(), |known| known.name().to_owned());
    Some(match facts.data_type {
        "char" => MysqlType::Char { length: length(facts)?, charset },
        "varchar" => MysqlType::Varchar { length: length(facts)?, charset },
        _ => MysqlType::Text { charset },
    })
}

/// The number of labels of an ENUM or SET whose stored bytes `COLUMN_TYPE` does not tell.
///
/// The data dictionary holds that text in utf8mb3, with a question mark in place of every character
/// beyond it, and labels of the binary character set as bytes.
#[must_use]
pub fn hides_labels(facts: &ColumnFacts<'_>) -> Option<usize> {
    let has_labels = matches!(facts.data_type, "enum" | "set");
    let hides = match facts.character_set_name {
        None | Some("binary") => true,
        // Each of their characters is one of utf8mb3, too.
        Some("utf8mb3" | "utf8" | "latin1" | "ascii") => false,
        Some(_) => facts.column_type.contains('?'),
    };
    if has_labels && hides { parse_labels(facts.column_type).map(|labels| labels.len()) } else { None }
}

/// The labels of an ENUM or SET, as stored or else from `COLUMN_TYPE`.
fn labels(facts: &ColumnFacts<'_>, table: &TableName, column: &str) -> Result<Vec<String>, Halt> {
    let name = facts.character_set_name.unwrap_or("binary");
    let charset = Charset::of_labels(name).ok_or_else(|| unsupported_charset(name, table, column))?;
    let unsupported = |problem: &str| {
        let detail = format!("column `{column}`: {problem}");
        Halt::new(Reason::UnsupportedType, detail).on_table(&table.database, &table.table)
    };
    let labels = match facts.labels {
        Some(stored) => stored.iter().map(|bytes| charset.text(bytes)).collect::<Result<_, _>>(),
        None if hides_labels(facts).is_some() => return Err(unsupported("its labels were not read")),
        None => parse_labels(facts.column_type)
            .ok_or_else(|| unsupported("its list of labels can't be read"))?
            .into_iter()
            .map(|label| if label.contains('\0') { Err(TextError::Nul) } else { Ok(label) })
            .collect(),
    };
    labels.map_err(|error| match error {
        TextError::Nul => unsupported("a label holds a NUL character, which PostgreSQL's text can't"),
        TextError::Invalid if name == "binary" => unsupported_charset(name, table, column),
        TextError::Invalid => unsupported("a label is no text in its character set"),
    })
}

/// Parses `enum('a','it''s')`. The server prints a quote doubled and backslash, NUL, line feed and
/// carriage return as backslash escapes, whatever the SQL mode (server source
/// `sql/unireg.cc`/`sql/sql_show.cc`, `append_unescaped`).
fn parse_labels(column_type: &str) -> Option<Vec<String>> {
    let list =
        column_type.strip_prefix("enum(").or_else(|| column_type.strip_prefix("set("))?.strip_suffix(')')?;
    let mut labels = Vec::new();
    let mut chars = list.chars().peekable();
    loop {
        // Bytes that are no text are printed as a hexadecimal literal.
        chars.next_if_eq(&'x');
        if chars.next()? != '\'' {
            return None;
        }
        let mut label = String::new();
        loop {
            match chars.next()? {
                '\'' if chars.next_if_eq(&'\'').is_some() => label.push('\''),
                '\'' => break,
                '\\' => label.push(match chars.next()? {
                    '0' => '\0',
                    'n' => '\n',
                    'r' => '\r',
                    '\\' => '\\',
                    '\'' => '\'',
                    _ => return None,
                }),
                other => label.push(other),
            }
        }
        labels.push(label);
        match chars.next() {
            None => return Some(labels),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

/// Whether the data may make the column a boolean. One that a foreign key joins with others is never:
/// their data may differ, and their type may not.
#[must_use]
pub fn may_become_boolean(column: &Column) -> bool {
    matches!(column.mysql, MysqlType::TinyInt { display_width_one: true, .. })
        && !column.details.joined
        && !column.details.overridden
}

/// What the choice of a target type depends on beside the type itself.
#[derive(Debug, Clone, Copy)]
pub struct TypeContext<'a> {
    pub table: &'a TableName,
    pub column: &'a str,
    /// The column is a TINYINT(1) of a table with rows, and all its values are 0, 1 or NULL.
    pub only_zero_one: bool,
    pub auto_increment: bool,
}

/// The target's type for a source column. Every value of the source's type has exactly one image
/// in it, impossible dates, year zero, NUL characters and what JSON alone can hold excepted. For a spatial
/// column it is the one without PostGIS: [`spatial::target`] knows the other.
///
/// # Errors
/// `unsupported_type` and `unsupported_charset`, naming table and column.
pub fn target_type(mysql: &MysqlType, context: TypeContext<'_>) -> Result<TargetType, Halt> {
    let supported = |charset: &str| {
        Charset::from_name(charset).ok_or_else(|| unsupported_charset(charset, context.table, context.column))
    };
    Ok(match *mysql {
        MysqlType::TinyInt { display_width_one: true, unsigned: false }
            if context.only_zero_one && !context.auto_increment =>
        {
            TargetType::Boolean
        }
        MysqlType::TinyInt { .. } | MysqlType::SmallInt { unsigned: false } | MysqlType::Year => {
            TargetType::SmallInt
        }
        MysqlType::SmallInt { unsigned: true }
        | MysqlType::MediumInt { .. }
        | MysqlType::Int { unsigned: false } => TargetType::Integer,
        MysqlType::Int { unsigned: true } | MysqlType::BigInt { unsigned: false } => TargetType::BigInt,
        MysqlType::BigInt { unsigned: true } => TargetType::Numeric { precision: 20, scale: 0 },
        MysqlType::Decimal { precision, scale, .. } => {
            TargetType::Numeric { precision: u16::from(precision), scale: u16::from(scale) }
        }
        MysqlType::Float { .. } => TargetType::Real,
        MysqlType::Double { .. } => TargetType::DoublePrecision,
        // PostgreSQL has no varchar(0); MySQL's holds the empty string only.
        MysqlType::Char { length, ref charset } | MysqlType::Varchar { length, ref charset } => {
            supported(charset).map(|_| TargetType::Varchar { length: length.max(1) })?
        }
        MysqlType::Text { ref charset } => supported(charset).map(|_| TargetType::Text)?,
        MysqlType::Binary { .. } | MysqlType::Varbinary { .. } | MysqlType::Blob => TargetType::Bytea,
        MysqlType::Bit { width: 1 } => TargetType::Boolean,
        MysqlType::Bit { width } => TargetType::Bit { width },
        MysqlType::Enum { .. } | MysqlType::Set { .. } => TargetType::Text,
        MysqlType::Date => TargetType::Date,
        MysqlType::Time { digits } => TargetType::Interval { digits },
        MysqlType::DateTime { digits } => TargetType::Timestamp { digits },
        MysqlType::Timestamp { digits } => TargetType::TimestampTz { digits },
        MysqlType::Json => TargetType::Jsonb,
        MysqlType::Geometry => TargetType::Bytea,
        MysqlType::Vector => TargetType::RealArray,
        MysqlType::Other { ref name } => {
            let detail = format!("column `{}` is of type {name}", context.column);
            let halt = Halt::new(Reason::UnsupportedType, detail);
            return Err(halt.on_table(&context.table.database, &context.table.table));
        }
    })
}

fn unsupported_charset(charset: &str, table: &TableName, column: &str) -> Halt {
    let detail = format!("column `{column}` is in character set {charset}");
    Halt::new(Reason::UnsupportedCharset, detail).on_table(&table.database, &table.table)
}

/// As `format_type` prints it and as `CREATE TABLE` takes it.
impl fmt::Display for TargetType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("boolean"),
            Self::SmallInt => f.write_str("smallint"),
            Self::Integer => f.write_str("integer"),
            Self::BigInt => f.write_str("bigint"),
            Self::Numeric { precision, scale } => write!(f, "numeric({precision},{scale})"),
            Self::Real => f.write_str("real"),
            Self::DoublePrecision => f.write_str("double precision"),
            Self::Varchar { length } => write!(f, "character varying({length})"),
            Self::Text => f.write_str("text"),
            Self::Bytea => f.write_str("bytea"),
            Self::Bit { width } => write!(f, "bit({width})"),
            Self::Date => f.write_str("date"),
            Self::Timestamp { digits } => write!(f, "timestamp({digits}) without time zone"),
            Self::TimestampTz { digits } => write!(f, "timestamp({digits}) with time zone"),
            Self::Interval { digits } => write!(f, "interval({digits})"),
            Self::Jsonb => f.write_str("jsonb"),
            Self::RealArray => f.write_str("real[]"),
            Self::Geometry { kind, srid } => spatial::fmt_type(*kind, *srid, f),
        }
    }
}

/// As MySQL's DDL names it, labels left out.
impl fmt::Display for MysqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unsigned) = match self {
            Self::TinyInt { unsigned, .. } => ("tinyint", *unsigned),
            Self::SmallInt { unsigned } => ("smallint", *unsigned),
            Self::MediumInt { unsigned } => ("mediumint", *unsigned),
            Self::Int { unsigned } => ("int", *unsigned),
            Self::BigInt { unsigned } => ("bigint", *unsigned),
            Self::Float { unsigned } => ("float", *unsigned),
            Self::Double { unsigned } => ("double", *unsigned),
            Self::Decimal { precision, scale, unsigned } => {
                let sign = if *unsigned { " unsigned" } else { "" };
                return write!(f, "decimal({precision},{scale}){sign}");
            }
            Self::Char { length, charset } => return write!(f, "char({length}) character set {charset}"),
            Self::Varchar { length, charset } => {
                return write!(f, "varchar({length}) character set {charset}");
            }
            Self::Text { charset } => return write!(f, "text character set {charset}"),
            Self::Binary { length } => return write!(f, "binary({length})"),
            Self::Varbinary { length } => return write!(f, "varbinary({length})"),
            Self::Bit { width } => return write!(f, "bit({width})"),
            Self::Time { digits } => return write!(f, "time({digits})"),
            Self::DateTime { digits } => return write!(f, "datetime({digits})"),
            Self::Timestamp { digits } => return write!(f, "timestamp({digits})"),
            Self::Enum { labels } => return write!(f, "enum of {} labels", labels.len()),
            Self::Set { labels } => return write!(f, "set of {} labels", labels.len()),
            Self::Blob => ("blob", false),
            Self::Date => ("date", false),
            Self::Year => ("year", false),
            Self::Json => ("json", false),
            Self::Geometry => ("geometry", false),
            Self::Vector => ("vector", false),
            Self::Other { name } => (name.as_str(), false),
        };
        f.write_str(name)?;
        if unsigned { f.write_str(" unsigned") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
