//! Column defaults: those that mean the same on the target, as PostgreSQL writes them.
//!
//! The server shows a constant in MySQL's text form and an expression as it prints it. What is not
//! exactly understood is not carried over, with the reason.

use super::charset::Charset;
use super::details::DefaultValue;
use super::render::quote_literal;
use super::{Column, MysqlType, TargetType};

/// `DEFAULT` of a column on the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetDefault {
    /// What follows the word DEFAULT.
    pub(super) sql: String,
    /// How it is not quite the source's.
    pub(super) note: Option<&'static str>,
}

const NOT_UNDERSTOOD: &str = "its default is an expression that has no exact counterpart";
const LOST_CHARACTER: &str = "its default has characters that the server does not show exactly";
const HOLDS_NUL: &str = "its default holds a NUL character, which PostgreSQL's text can't";
const CUT: &str = "its default is a binary string, which the server shows only up to its first zero byte";
const IMPOSSIBLE_DATE: &str = "its default is a date that PostgreSQL does not have";
const TIME_NOTE: &str = "its default is the time at which the transaction began, rounded to its digits; \
    MySQL's is the time at which the statement began, cut";
const UUID_NOTE: &str = "its default is a random UUID (version 4); MySQL's holds time and node (version 1)";

/// The column's default on the target; `None` where the source has none.
///
/// # Errors
/// Why it is not carried over.
pub(super) fn target_default(column: &Column) -> Result<Option<TargetDefault>, &'static str> {
    match &column.details.default {
        None => Ok(None),
        Some(DefaultValue::Literal(text)) => literal(column, text).map(|sql| exact(sql).into()),
        Some(DefaultValue::Expression(text)) => expression(column, text).map(Some),
        Some(DefaultValue::WithNul) => Err(HOLDS_NUL),
    }
}

const fn exact(sql: String) -> TargetDefault {
    TargetDefault { sql, note: None }
}

fn literal(column: &Column, text: &str) -> Result<String, &'static str> {
    const DAMAGED: &str = "its default is not one that its type has";
    match column.target {
        TargetType::SmallInt | TargetType::Integer | TargetType::BigInt | TargetType::Numeric { .. } => {
            number(text).ok_or(DAMAGED)
        }
        TargetType::Real | TargetType::DoublePrecision => float(text).ok_or(DAMAGED),
        TargetType::Boolean => match text {
            "0" | "b'0'" => Ok("false".to_owned()),
            "1" | "b'1'" => Ok("true".to_owned()),
            _ => Err("its default is neither 0 nor 1"),
        },
        TargetType::Bit { width } => bits(text, usize::from(width)).ok_or(DAMAGED),
        TargetType::Varchar { .. } | TargetType::Text => string(column, text),
        TargetType::Date => date(text).then(|| quote_literal(text)).ok_or(IMPOSSIBLE_DATE),
        TargetType::Timestamp { .. } => moment(text).then(|| quote_literal(text)).ok_or(IMPOSSIBLE_DATE),
        TargetType::TimestampTz { .. } => {
            moment(text).then(|| quote_literal(&format!("{text}+00"))).ok_or(IMPOSSIBLE_DATE)
        }
        TargetType::Interval { .. } => duration(text).then(|| quote_literal(text)).ok_or(DAMAGED),
        TargetType::Bytea => Err(CUT),
        // MySQL takes only expressions as defaults of these.
        _ => Err(DAMAGED),
    }
}

/// Digits with a sign and a point, without the zeros that ZEROFILL and YEAR put before them.
fn number(text: &str) -> Option<String> {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !fraction.is_none_or(all_digits) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(fraction.map_or_else(|| format!("{sign}{whole}"), |fraction| format!("{sign}{whole}.{fraction}")))
}

/// Quoted: PostgreSQL then reads it as the column's own type, without a detour over numeric.
fn float(text: &str) -> Option<String> {
    let shape = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E'));
    (shape && text.parse::<f64>().is_ok_and(f64::is_finite)).then(|| quote_literal(text))
}

/// `b'101'`, which leaves out leading zeros.
fn bits(text: &str, width: usize) -> Option<String> {
    let digits = text.strip_prefix("b'")?.strip_suffix('\'')?;
    let fits = digits.len() <= width && digits.bytes().all(|b| matches!(b, b'0' | b'1'));
    fits.then(|| format!("B'{digits:0>width$}'"))
}

fn string(column: &Column, text: &str) -> Result<String, &'static str> {
    if text.contains('\0') {
        return Err(HOLDS_NUL);
    }
    match &column.mysql {
        MysqlType::Enum { labels } => labels
            .iter()
            .any(|label| label == text)
            .then(|| quote_literal(text))
            .ok_or("its default is none of its labels"),
        MysqlType::Set { labels } => {
            let known = |member: &str| labels.iter().any(|label| label == member);
            let members = text.is_empty() || text.split(',').all(known);
            members.then(|| quote_literal(text)).ok_or("its default has members that it does not have")
        }
        MysqlType::Char { charset, .. } => {
            stored_text(charset, text).map(|text| quote_literal(text.trim_end_matches(' ')))
        }
        MysqlType::Varchar { charset, .. } | MysqlType::Text { charset } => {
            stored_text(charset, text).map(quote_literal)
        }
        _ => Err(NOT_UNDERSTOOD),
    }
}

fn stored_text<'a>(charset: &str, text: &'a str) -> Result<&'a str, &'static str> {
    let within_dictionary =
        matches!(Charset::from_name(charset), Some(Charset::Utf8mb3 | Charset::Latin1 | Charset::Ascii));
    if text.contains('?') && !within_dictionary { Err(LOST_CHARACTER) } else { Ok(text) }
}

/// `YYYY-MM-DD` of the Gregorian calendar, from year 1.
fn date(text: &str) -> bool {
    let mut parts = text.splitn(3, '-');
    let mut part = |length| parts.next().filter(|part| part.len() == length).and_then(digits);
    let (Some(year), Some(month), Some(day)) = (part(4), part(2), part(2)) else { return false };
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return false,
    };
    year >= 1 && (1..=days).contains(&day)
}

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// `YYYY-MM-DD hh:mm:ss[.f]`
fn moment(text: &str) -> bool {
    text.split_once(' ').is_some_and(|(day, time)| date(day) && time.len() >= 8 && duration(time))
}

/// `[-]hh:mm:ss[.f]`, the hours up to 838.
fn duration(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<Option<u32>> = whole.split(':').map(digits).collect();
    let [Some(_), Some(minutes), Some(seconds)] = parts.as_slice() else { return false };
    *minutes < 60 && *seconds < 60 && digits(fraction).is_some()
}

fn expression(column: &Column, text: &str) -> Result<TargetDefault, &'static str> {
    let text = unescape(text).ok_or(NOT_UNDERSTOOD)?;
    if let Some(digits) = now_digits(&text) {
        return now(column.target, digits);
    }
    if let Some(string) = string_literal(&text) {
        // `information_schema` shows the bytes of an expression's other characters, each as one of latin1.
        if string.contains('?') || !string.is_ascii() {
            return Err(LOST_CHARACTER);
        }
        return match column.target {
            TargetType::Jsonb => json(&string),
            TargetType::Varchar { .. } | TargetType::Text => self::string(column, &string).map(exact),
            _ => Err(NOT_UNDERSTOOD),
        };
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return bytes(column, digits).map(exact);
    }
    let sql = match (text.as_str(), column.target) {
        ("curdate()", TargetType::Date) => {
            return Ok(TargetDefault { sql: "CURRENT_DATE".to_owned(), note: Some(TIME_NOTE) });
        }
        ("uuid()", TargetType::Varchar { length: 36.. } | TargetType::Text) => {
            return Ok(TargetDefault { sql: "gen_random_uuid()::text".to_owned(), note: Some(UUID_NOTE) });
        }
        ("json_array()", TargetType::Jsonb) => "'[]'".to_owned(),
        ("json_object()", TargetType::Jsonb) => "'{}'".to_owned(),
        ("true" | "false", _) => literal(column, if text == "true" { "1" } else { "0" })?,
        (number, _) => literal(column, &signed(number).ok_or(NOT_UNDERSTOOD)?)?,
    };
    Ok(exact(sql))
}

/// A plain number, or `-(3)`, as the server prints one with a sign.
fn signed(text: &str) -> Option<String> {
    match text.strip_prefix("-(").and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => number(inner).map(|number| format!("-{number}")),
        None => number(text),
    }
}

/// The digits of `CURRENT_TIMESTAMP(n)` or `now(n)`.
fn now_digits(text: &str) -> Option<u8> {
    let rest = text.strip_prefix("CURRENT_TIMESTAMP").or_else(|| text.strip_prefix("now"))?;
    match rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some("") => Some(0),
        Some(digits) => digits.parse().ok().filter(|digits| *digits <= 6),
        None => rest.is_empty().then_some(0),
    }
}

/// A DATETIME takes the session's local time on both servers.
fn now(target: TargetType, digits: u8) -> Result<TargetDefault, &'static str> {
    let sql = match target {
        TargetType::Timestamp { .. } => format!("LOCALTIMESTAMP({digits})"),
        TargetType::TimestampTz { .. } => format!("CURRENT_TIMESTAMP({digits})"),
        _ => return Err(NOT_UNDERSTOOD),
    };
    Ok(TargetDefault { sql, note: Some(TIME_NOTE) })
}

fn json(text: &str) -> Result<TargetDefault, &'static str> {
    let valid = serde_json::from_str::<serde_json::Value>(text).is_ok() && !text.contains("\\u0000");
    valid.then(|| exact(quote_literal(text))).ok_or(NOT_UNDERSTOOD)
}

fn bytes(column: &Column, digits: &str) -> Result<String, &'static str> {
    let hexadecimal = digits.len().is_multiple_of(2) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !hexadecimal || column.target != TargetType::Bytea {
        return Err(NOT_UNDERSTOOD);
    }
    let mut digits = digits.to_owned();
    if let MysqlType::Binary { length } = column.mysql {
        // BINARY(n) is filled up with zero bytes.
        let missing = u64::from(length).checked_mul(2).ok_or(NOT_UNDERSTOOD)?;
        let width = usize::try_from(missing).map_err(|_| NOT_UNDERSTOOD)?;
        digits = format!("{digits:0<width$}");
    }
    Ok(format!("decode('{digits}', 'hex')"))
}

/// `information_schema` shows expressions with quotes and backslashes escaped.
pub(super) fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => out.push(escaped(chars.next()?)?),
            other => out.push(other),
        }
    }
    Some(out)
}

const fn escaped(char: char) -> Option<char> {
    Some(match char {
        '0' => '\0',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'Z' => '\u{1a}',
        '\\' | '\'' | '"' => char,
        _ => return None,
    })
}

/// The text of `_charset'…'`, which the server prints in UTF-8.
fn string_literal(text: &str) -> Option<String> {
    let (introducer, rest) = text.strip_prefix('_')?.split_once('\'')?;
    Charset::from_name(introducer)?;
    let mut out = String::new();
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '\\' => out.push(escaped(chars.next()?)?),
            '\'' => return chars.next().is_none().then_some(out),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests;
