//! Data types (MySQL manual, "Data Types"; server source `sql/sql_yacc.yy`, `type`).

use super::super::lexer::{Token, Unlexable};
use super::parser::{Parsed, Parser};
use crate::schema::ddl::{CharsetClause, DataType, TypeName};
use crate::schema::spatial::GeometryKind;

/// `REAL_AS_FLOAT` of `sql_mode`.
const REAL_AS_FLOAT: u64 = 1;
/// Most bits of precision that FLOAT(p) keeps as single precision.
const FLOAT_PRECISION_MAX: u64 = 24;

/// Types of one word, and what they are short for.
const TYPES: &[(&str, TypeName)] = &[
    ("TINYINT", TypeName::TinyInt),
    ("INT1", TypeName::TinyInt),
    ("SMALLINT", TypeName::SmallInt),
    ("INT2", TypeName::SmallInt),
    ("MEDIUMINT", TypeName::MediumInt),
    ("INT3", TypeName::MediumInt),
    ("MIDDLEINT", TypeName::MediumInt),
    ("INT", TypeName::Int),
    ("INTEGER", TypeName::Int),
    ("INT4", TypeName::Int),
    ("BIGINT", TypeName::BigInt),
    ("INT8", TypeName::BigInt),
    ("DECIMAL", TypeName::Decimal),
    ("NUMERIC", TypeName::Decimal),
    ("DEC", TypeName::Decimal),
    ("FIXED", TypeName::Decimal),
    ("FLOAT", TypeName::Float),
    ("FLOAT4", TypeName::Float),
    ("DOUBLE", TypeName::Double),
    ("FLOAT8", TypeName::Double),
    ("REAL", TypeName::Double),
    ("BIT", TypeName::Bit),
    ("CHAR", TypeName::Char),
    ("CHARACTER", TypeName::Char),
    ("VARCHAR", TypeName::Varchar),
    ("VARCHARACTER", TypeName::Varchar),
    ("TINYTEXT", TypeName::TinyText),
    ("TEXT", TypeName::Text),
    ("MEDIUMTEXT", TypeName::MediumText),
    ("LONGTEXT", TypeName::LongText),
    ("BINARY", TypeName::Binary),
    ("VARBINARY", TypeName::Varbinary),
    ("TINYBLOB", TypeName::TinyBlob),
    ("BLOB", TypeName::Blob),
    ("MEDIUMBLOB", TypeName::MediumBlob),
    ("LONGBLOB", TypeName::LongBlob),
    ("ENUM", TypeName::Enum),
    ("SET", TypeName::Set),
    ("DATE", TypeName::Date),
    ("TIME", TypeName::Time),
    ("DATETIME", TypeName::DateTime),
    ("TIMESTAMP", TypeName::Timestamp),
    ("YEAR", TypeName::Year),
    ("JSON", TypeName::Json),
    ("VECTOR", TypeName::Vector),
    ("GEOMETRY", TypeName::Spatial(GeometryKind::Geometry)),
    ("GEOMETRYCOLLECTION", TypeName::Spatial(GeometryKind::GeometryCollection)),
    ("GEOMCOLLECTION", TypeName::Spatial(GeometryKind::GeometryCollection)),
    ("POINT", TypeName::Spatial(GeometryKind::Point)),
    ("MULTIPOINT", TypeName::Spatial(GeometryKind::MultiPoint)),
    ("LINESTRING", TypeName::Spatial(GeometryKind::LineString)),
    ("MULTILINESTRING", TypeName::Spatial(GeometryKind::MultiLineString)),
    ("POLYGON", TypeName::Spatial(GeometryKind::Polygon)),
    ("MULTIPOLYGON", TypeName::Spatial(GeometryKind::MultiPolygon)),
];

impl Parser<'_> {
    /// A data type, with what belongs to it. The second value says that the type is SERIAL, which
    /// stands for attributes, too.
    pub(super) fn data_type(&mut self) -> Parsed<(DataType, bool)> {
        let word = self.some()?;
        if word.is("SERIAL") {
            return Ok((DataType { unsigned: true, ..plain(TypeName::BigInt) }, true));
        }
        if word.is("BOOL") || word.is("BOOLEAN") {
            return Ok((DataType { length: Some(1), ..plain(TypeName::TinyInt) }, false));
        }
        let national = ["NATIONAL", "NCHAR", "NVARCHAR"].iter().any(|keyword| word.is(keyword));
        let name = if national { self.national(word)? } else { self.type_name(word)? };
        let mut data_type = plain(name);
        if national {
            data_type.charset.charset = Some("utf8mb3".to_owned());
        }
        self.type_arguments(&mut data_type)?;
        self.type_attributes(&mut data_type)?;
        if data_type.name == TypeName::Float && data_type.scale.is_none() {
            let precision = data_type.length.take();
            if precision.is_some_and(|bits| bits > FLOAT_PRECISION_MAX) {
                data_type.name = TypeName::Double;
            }
        }
        Ok((data_type, false))
    }

    fn type_name(&mut self, word: Token<'_>) -> Parsed<TypeName> {
        if word.is("LONG") {
            if self.accept("VARBINARY")? {
                return Ok(TypeName::MediumBlob);
            }
            if self.accept_any(&["VARCHAR", "VARCHARACTER"])?.is_none() {
                self.char_varying()?;
            }
            return Ok(TypeName::MediumText);
        }
        let found = TYPES.iter().find(|(keyword, _)| word.is(keyword));
        let name = found.map(|(_, name)| *name).ok_or(Unlexable)?;
        Ok(match name {
            TypeName::Char if self.accept("VARYING")? => TypeName::Varchar,
            TypeName::Double if word.is("REAL") && self.mode_has(REAL_AS_FLOAT)? => TypeName::Float,
            TypeName::Double => {
                if word.is("DOUBLE") {
                    self.accept("PRECISION")?;
                }
                name
            }
            name => name,
        })
    }

    fn mode_has(&self, flag: u64) -> Parsed<bool> {
        self.sql_mode.map(|mode| mode & flag != 0).ok_or(Unlexable)
    }

    fn char_varying(&mut self) -> Parsed<bool> {
        Ok(self.accept_all(&["CHAR", "VARYING"])? || self.accept_all(&["CHARACTER", "VARYING"])?)
    }

    /// NATIONAL CHAR, NATIONAL VARCHAR, NCHAR, NCHAR VARCHAR, NCHAR VARYING, NVARCHAR and so on.
    fn national(&mut self, word: Token<'_>) -> Parsed<TypeName> {
        if word.is("NVARCHAR") {
            return Ok(TypeName::Varchar);
        }
        if word.is("NATIONAL") {
            if self.accept_any(&["VARCHAR", "VARCHARACTER"])?.is_some() {
                return Ok(TypeName::Varchar);
            }
            if self.accept_any(&["CHAR", "CHARACTER"])?.is_none() {
                return Err(Unlexable);
            }
        }
        let varying = self.accept_any(&["VARYING", "VARCHAR", "VARCHARACTER"])?.is_some();
        Ok(if varying { TypeName::Varchar } else { TypeName::Char })
    }

    /// What stands in parentheses behind a type.
    fn type_arguments(&mut self, data_type: &mut DataType) -> Parsed<()> {
        if !self.accept_symbol(b'(')? {
            return Ok(());
        }
        if matches!(data_type.name, TypeName::Enum | TypeName::Set) {
            data_type.labels.push(self.label()?);
            while self.accept_symbol(b',')? {
                data_type.labels.push(self.label()?);
            }
        } else {
            data_type.length = Some(self.integer()?);
            if self.accept_symbol(b',')? {
                data_type.scale = Some(self.integer()?);
            }
        }
        self.expect_symbol(b')')
    }

    /// UNSIGNED and the like, and the character set where it belongs to the type.
    fn type_attributes(&mut self, data_type: &mut DataType) -> Parsed<()> {
        loop {
            match self
                .accept_any(&["SIGNED", "UNSIGNED", "ZEROFILL", "BYTE", "ASCII", "UNICODE", "BINARY"])?
            {
                Some("UNSIGNED" | "ZEROFILL") => data_type.unsigned = true,
                Some("BYTE") => data_type.charset.charset = Some("binary".to_owned()),
                Some("ASCII") => data_type.charset.charset = Some("latin1".to_owned()),
                Some("UNICODE") => data_type.charset.charset = Some("ucs2".to_owned()),
                Some("BINARY") => data_type.charset.binary = true,
                Some(_) => {}
                None if self.charset_keyword()? => {
                    data_type.charset.charset = Some(self.charset_name()?);
                }
                None => return Ok(()),
            }
        }
    }

    /// CHARACTER SET in any of its spellings.
    pub(super) fn charset_keyword(&mut self) -> Parsed<bool> {
        Ok(self.accept("CHARSET")?
            || self.accept_all(&["CHARACTER", "SET"])?
            || self.accept_all(&["CHAR", "SET"])?)
    }

    /// The name of a character set or collation, in lower case; `utf8` is utf8mb3.
    pub(super) fn charset_name(&mut self) -> Parsed<String> {
        let name = match self.peek()? {
            Some(Token::Text(text, _)) => {
                self.some()?;
                str::from_utf8(text).map_err(|_| Unlexable)?.to_ascii_lowercase()
            }
            _ => self.identifier()?.to_ascii_lowercase(),
        };
        Ok(match name.strip_prefix("utf8_") {
            Some(collation) => format!("utf8mb3_{collation}"),
            None if name == "utf8" => "utf8mb3".to_owned(),
            None => name,
        })
    }
}

fn plain(name: TypeName) -> DataType {
    DataType {
        name,
        length: None,
        scale: None,
        unsigned: false,
        charset: CharsetClause::default(),
        labels: Vec::new(),
        srid: None,
    }
}
