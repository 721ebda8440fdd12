//! One text per value, the same from MySQL and from PostgreSQL exactly when the values are the same.
//!
//! Each form has a SQL expression for either side, which lets the server print the value without loss,
//! and a function that brings both prints to one spelling.

use anyhow::{Context, Result, bail};

use crate::{mysql, postgres};

/// How a column's values are compared, by its MySQL type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Integer { unsigned: bool },
    Decimal { precision: u32, scale: u32 },
    Float,
    Double,
    Bits { length: u32 },
    Text,
    Bytes,
    Date,
    DateTime,
    Time,
    Year,
    Json,
    Geometry,
    Vector,
}

impl Form {
    /// The form of a type as `information_schema.columns` names it.
    pub(crate) fn of(data_type: &str, column_type: &str, precision: u32, scale: u32) -> Result<Self> {
        Ok(match data_type {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => {
                Self::Integer { unsigned: column_type.contains("unsigned") }
            }
            "decimal" => Self::Decimal { precision, scale },
            "float" => Self::Float,
            "double" => Self::Double,
            "bit" => Self::Bits { length: precision },
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum" | "set" => {
                Self::Text
            }
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Self::Bytes,
            "date" => Self::Date,
            "datetime" | "timestamp" => Self::DateTime,
            "time" => Self::Time,
            "year" => Self::Year,
            "json" => Self::Json,
            "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
            | "multipolygon" | "geomcollection" | "geometrycollection" => Self::Geometry,
            "vector" => Self::Vector,
            other => bail!("the comparison does not know MySQL's type {other}"),
        })
    }

    /// The expression that prints a column of the source.
    pub(crate) fn source_sql(self, column: &str) -> String {
        let c = mysql::identifier(column);
        match self {
            Self::Integer { unsigned: false } => format!("CAST({c} AS SIGNED)"),
            Self::Integer { unsigned: true } | Self::Year => format!("CAST({c} AS UNSIGNED)"),
            Self::Decimal { precision, scale } => format!("CAST({c} AS DECIMAL({precision},{scale}))"),
            Self::Float | Self::Double => format!("CAST({c} AS DOUBLE)"),
            Self::Bits { length } => format!("LPAD(BIN({c}+0),{length},'0')"),
            Self::Text => format!("HEX(CONVERT({c} USING utf8mb4))"),
            Self::Bytes | Self::Geometry | Self::Vector => format!("HEX({c})"),
            Self::Date => format!("DATE_FORMAT({c},'%Y-%m-%d')"),
            Self::DateTime => format!("DATE_FORMAT({c},'%Y-%m-%d %H:%i:%s.%f')"),
            Self::Time | Self::Json => format!("CAST({c} AS CHAR)"),
        }
    }

    /// The expression that prints a column of the target, by its type there.
    pub(crate) fn target_sql(self, column: &str, pg_type: &str) -> String {
        let c = postgres::identifier(column);
        match (self, pg_type) {
            (_, "bool") => format!("{c}::int::text"),
            (Self::Float | Self::Double, _) => format!("{c}::float8::text"),
            (Self::Text, _) => format!("upper(encode(convert_to({c}::text,'UTF8'),'hex'))"),
            (_, "bytea") => format!("upper(encode({c},'hex'))"),
            (Self::Geometry, "geometry") => format!("upper(encode({c}::bytea,'hex'))"),
            (_, "date") => dated(&c, "YYYY-MM-DD"),
            (_, "timestamp") => dated(&c, "YYYY-MM-DD HH24:MI:SS.US"),
            (_, "timestamptz") => dated(&format!("({c} AT TIME ZONE 'UTC')"), "YYYY-MM-DD HH24:MI:SS.US"),
            (_, "interval" | "time") => format!("(extract(epoch FROM {c})*1000000)::bigint::text"),
            _ => format!("{c}::text"),
        }
    }

    /// The one spelling of what the source printed. `None` is NULL.
    pub(crate) fn source(self, printed: String) -> Result<Option<String>> {
        Ok(Some(match self {
            Self::Time => microseconds(&printed)?.to_string(),
            Self::Date | Self::DateTime => return Ok(date(printed)),
            Self::Geometry => source_geometry(&printed)?,
            _ => self.either(printed)?,
        }))
    }

    /// The one spelling of what the target printed.
    pub(crate) fn target(self, printed: String) -> Result<String> {
        match self {
            Self::Geometry => target_geometry(&printed),
            Self::Vector => vector(&printed),
            _ => self.either(printed),
        }
    }

    fn either(self, printed: String) -> Result<String> {
        Ok(match self {
            #[expect(clippy::cast_possible_truncation, reason = "the text is that of a float")]
            Self::Float => format!("{:08X}", (double(&printed)? as f32).to_bits()),
            Self::Double => format!("{:016X}", double(&printed)?.to_bits()),
            Self::Json => json(&printed)?,
            _ => printed,
        })
    }

    /// The value as a person reads it.
    pub(crate) fn shown(self, spelling: &str) -> String {
        match self {
            Self::Float => u32::from_str_radix(spelling, 16)
                .map_or_else(|_| spelling.into(), |bits| f32::from_bits(bits).to_string()),
            Self::Double => u64::from_str_radix(spelling, 16)
                .map_or_else(|_| spelling.into(), |bits| f64::from_bits(bits).to_string()),
            Self::Text => unhex(spelling)
                .map_or_else(|_| spelling.into(), |bytes| format!("{:?}", String::from_utf8_lossy(&bytes))),
            Self::Bytes | Self::Vector => format!("x'{spelling}'"),
            _ => spelling.to_owned(),
        }
    }
}

/// PostgreSQL prints the year 1 BC, which is MySQL's year 0, as 0001.
fn dated(column: &str, format: &str) -> String {
    format!("to_char({column},'{format}')||CASE WHEN extract(year FROM {column})<0 THEN ' BC' ELSE '' END")
}

/// Dates with a zero month or day are NULL in the target: the default policy for what it cannot hold.
fn date(printed: String) -> Option<String> {
    let (month, day) = (printed.get(5..7)?, printed.get(8..10)?);
    if month == "00" || day == "00" {
        return None;
    }
    Some(printed.strip_prefix("0000").map_or_else(|| printed.clone(), |rest| format!("0001{rest} BC")))
}

/// `-838:59:59.000001` in microseconds.
fn microseconds(time: &str) -> Result<i64> {
    let parse = || -> Option<i64> {
        let (sign, digits) = time.strip_prefix('-').map_or((1, time), |digits| (-1, digits));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let mut seconds = 0;
        for part in whole.split(':') {
            seconds = seconds * 60 + part.parse::<i64>().ok()?;
        }
        Some(sign * (seconds * 1_000_000 + format!("{fraction:0<6}").parse::<i64>().ok()?))
    };
    parse().with_context(|| format!("not a time: {time}"))
}

fn double(printed: &str) -> Result<f64> {
    printed.parse().with_context(|| format!("not a number: {printed}"))
}

/// MySQL stores the SRID and then well-known binary.
fn source_geometry(printed: &str) -> Result<String> {
    let bytes = unhex(printed)?;
    let (srid, wkb) = bytes.split_first_chunk().context("a geometry without SRID")?;
    Ok(format!("SRID={};{}", u32::from_le_bytes(*srid), hex(wkb)))
}

/// Extended well-known binary carries the SRID after the type, announced by a flag of it.
fn target_geometry(printed: &str) -> Result<String> {
    const HAS_SRID: u32 = 0x2000_0000;
    let bytes = unhex(printed)?;
    let parse = || -> Option<String> {
        let (order, rest) = bytes.split_first()?;
        let (kind, rest) = rest.split_first_chunk()?;
        let kind = u32::from_le_bytes(*kind);
        let (srid, rest) = if kind & HAS_SRID == 0 {
            (0, rest)
        } else {
            let (srid, rest) = rest.split_first_chunk()?;
            (u32::from_le_bytes(*srid), rest)
        };
        let kind = (kind & !HAS_SRID).to_le_bytes();
        Some(format!("SRID={srid};{}{}{}", hex(&[*order]), hex(&kind), hex(rest)))
    };
    parse().with_context(|| format!("not EWKB: {printed}"))
}

/// `{1,2.5}` as the bytes of its floats.
fn vector(printed: &str) -> Result<String> {
    let inner = printed.trim_start_matches('{').trim_end_matches('}');
    let floats = inner.split(',').map(|float| float.parse::<f32>().map(|float| hex(&float.to_le_bytes())));
    floats.collect::<Result<String, _>>().with_context(|| format!("not a vector: {printed}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn unhex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let bytes = digits.map(|pair| pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()));
    bytes.collect::<Option<_>>().with_context(|| format!("not hex: {text}"))
}

/// JSON with sorted keys, no spaces, and every number as its exact decimal value.
pub(crate) fn json(text: &str) -> Result<String> {
    let mut rest = text;
    let value = json_value(&mut rest).with_context(|| format!("not JSON: {text}"))?;
    if !rest.trim_start().is_empty() {
        bail!("more than one JSON value: {text}");
    }
    Ok(value)
}

fn json_value(rest: &mut &str) -> Option<String> {
    *rest = rest.trim_start();
    match rest.as_bytes().first()? {
        b'{' => {
            let mut members = json_list(rest, '}', |rest| {
                let key = json_string(rest)?;
                take(rest, ':')?;
                Some((key, json_value(rest)?))
            })?;
            members.sort();
            let members: Vec<String> =
                members.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            Some(format!("{{{}}}", members.join(",")))
        }
        b'[' => Some(format!("[{}]", json_list(rest, ']', json_value)?.join(","))),
        b'"' => json_string(rest),
        b'-' | b'0'..=b'9' => {
            let end = rest.find(|c: char| !"+-.eE0123456789".contains(c)).unwrap_or(rest.len());
            decimal(split(rest, end))
        }
        _ => ["true", "false", "null"].into_iter().find_map(|word| {
            *rest = rest.strip_prefix(word)?;
            Some(word.to_owned())
        }),
    }
}

/// The items between the bracket in hand and `close`.
fn json_list<T>(rest: &mut &str, close: char, item: impl Fn(&mut &str) -> Option<T>) -> Option<Vec<T>> {
    *rest = rest.get(1..)?;
    let mut items = Vec::new();
    if take(rest, close).is_some() {
        return Some(items);
    }
    loop {
        items.push(item(rest)?);
        if take(rest, close).is_some() {
            return Some(items);
        }
        take(rest, ',')?;
    }
}

/// A string, unescaped and escaped again so that each text has one spelling.
fn json_string(rest: &mut &str) -> Option<String> {
    *rest = rest.trim_start();
    let mut escaped = true; // the opening quote does not close
    let end = rest.find(|c| match c {
        _ if escaped => {
            escaped = false;
            false
        }
        '\\' => {
            escaped = true;
            false
        }
        _ => c == '"',
    })?;
    let text: String = serde_json::from_str(split(rest, end + 1)).ok()?;
    serde_json::to_string(&text).ok()
}

/// A number as its significant digits and a power of ten.
fn decimal(number: &str) -> Option<String> {
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let exponent = exponent.parse::<i64>().ok()? - i64::try_from(fraction.len()).ok()?;
    let exponent = exponent + i64::try_from(digits.len() - significant.len()).ok()?;
    match significant.trim_start_matches('0') {
        "" => Some("0".to_owned()),
        significant => Some(format!("{sign}{significant}e{exponent}")),
    }
}

fn take(rest: &mut &str, c: char) -> Option<()> {
    *rest = rest.trim_start().strip_prefix(c)?;
    Some(())
}

fn split<'a>(rest: &mut &'a str, at: usize) -> &'a str {
    let (head, tail) = rest.split_at(at);
    *rest = tail;
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_one_spelling() {
        let spelled = |text| json(text).expect("JSON");
        assert_eq!(
            spelled(r#"{"b": [1.0, 1e2, -0.0], "a": "é"}"#),
            spelled(r#"{"a":"\u00e9","b":[1,100,0]}"#)
        );
        assert_ne!(spelled("12345678901234567890"), spelled("12345678901234567891"));
        assert_ne!(spelled("0.1"), spelled("0.10000000000000001"));
        assert_ne!(spelled("1"), spelled("\"1\""));
        assert_ne!(spelled("[[], {}, \"\"]"), spelled("[{}, [], \"\"]"));
        assert_eq!(spelled(r#""a\"\\b""#), r#""a\"\\b""#);
        for broken in ["", "{", "[1,]", "\"a", "1 2", "nul", "{\"a\"}"] {
            assert!(json(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn times_are_counted_in_microseconds() {
        assert_eq!(microseconds("-838:59:59").expect("time"), -3_020_399_000_000);
        assert_eq!(microseconds("-00:00:00.1").expect("time"), -100_000);
        assert_eq!(microseconds("00:00:01.000001").expect("time"), 1_000_001);
    }

    #[test]
    fn dates_that_postgres_cannot_hold_are_null() {
        assert_eq!(date("0000-00-00".into()), None);
        assert_eq!(date("2024-00-10 00:00:00.000000".into()), None);
        assert_eq!(date("0000-02-03".into()).as_deref(), Some("0001-02-03 BC"));
        assert_eq!(date("2024-02-03".into()).as_deref(), Some("2024-02-03"));
    }

    #[test]
    fn a_geometry_is_its_srid_and_its_wkb() {
        let point = "0101000000000000000000F03F0000000000000040";
        let flagged = "0101000020E6100000000000000000F03F0000000000000040";
        let source = |hex: &str| source_geometry(hex).expect("geometry");
        assert_eq!(source(&format!("E6100000{point}")), target_geometry(flagged).expect("EWKB"));
        assert_eq!(source(&format!("00000000{point}")), target_geometry(point).expect("EWKB"));
    }
}
