//! What the rows that exist get in a new column.

use super::conversion::in_range;
use super::fill::Fill;
use super::{Resync, StatementFacts};
use crate::binlog::cell::Date;
use crate::schema::MysqlType;
use crate::schema::charset::{Charset, latin1_char};
use crate::schema::ddl::{ColumnDefinition, DefaultValue, Literal};

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;
const ZERO_DATE: Date = Date { year: 0, month: 0, day: 0 };

/// The value of the column in rows that the statement finds there.
pub(super) fn fill(
    definition: &ColumnDefinition,
    mysql: &MysqlType,
    nullable: bool,
    facts: &StatementFacts,
) -> Result<Fill, Resync> {
    let unknown = Resync { why: "a default whose value in the column's type is not computed here" };
    match &definition.default {
        None | Some(DefaultValue::Literal(Literal::Null)) if nullable => Ok(Fill::Null),
        None => implicit(mysql).ok_or(unknown),
        Some(DefaultValue::Expression) => Err(Resync { why: "a default that is an expression" }),
        Some(DefaultValue::Now(digits)) => now(mysql, *digits, facts),
        Some(DefaultValue::Literal(literal)) => {
            let rounds = definition.data_type.scale.is_some()
                && matches!(mysql, MysqlType::Float { .. } | MysqlType::Double { .. });
            if rounds { None } else { constant(mysql, literal, facts) }.ok_or(unknown)
        }
    }
}

/// What NOT NULL without a default puts into rows (MySQL manual, "Data Type Default Values").
fn implicit(mysql: &MysqlType) -> Option<Fill> {
    Some(match *mysql {
        MysqlType::TinyInt { unsigned, .. }
        | MysqlType::SmallInt { unsigned }
        | MysqlType::MediumInt { unsigned }
        | MysqlType::Int { unsigned }
        | MysqlType::BigInt { unsigned } => integer(0, unsigned)?,
        MysqlType::Decimal { precision, scale, unsigned } => decimal("0", precision, scale, unsigned)?,
        MysqlType::Float { .. } => Fill::Float(0.0),
        MysqlType::Double { .. } => Fill::Double(0.0),
        MysqlType::Char { .. }
        | MysqlType::Varchar { .. }
        | MysqlType::Text { .. }
        | MysqlType::Binary { .. }
        | MysqlType::Varbinary { .. }
        | MysqlType::Blob => Fill::Bytes(Vec::new()),
        MysqlType::Bit { .. } => Fill::Bit(0),
        MysqlType::Enum { .. } => Fill::Enum(1),
        MysqlType::Set { .. } => Fill::Set(0),
        MysqlType::Date => Fill::Date(ZERO_DATE),
        MysqlType::Time { .. } => Fill::Time(0),
        MysqlType::DateTime { .. } => midnight(ZERO_DATE),
        MysqlType::Timestamp { .. } => Fill::Timestamp { seconds: 0, micros: 0 },
        MysqlType::Year => Fill::Year(0),
        MysqlType::Json => Fill::Json("null".to_owned()),
        // The server takes no implicit default for them.
        MysqlType::Geometry | MysqlType::Vector | MysqlType::Other { .. } => return None,
    })
}

const fn midnight(date: Date) -> Fill {
    Fill::DateTime { date, hour: 0, minute: 0, second: 0, micros: 0 }
}

/// The statement's own time, cut to the column's digits.
fn now(mysql: &MysqlType, digits: u8, facts: &StatementFacts) -> Result<Fill, Resync> {
    let refused = Resync { why: "the time of the statement in a column of another type" };
    let step = 10i64.checked_pow(6u32.saturating_sub(digits.into())).ok_or(refused)?;
    let time = i64::try_from(facts.timestamp_micros).map_err(|_| refused)?;
    let time = time - time % step;
    match mysql {
        MysqlType::Timestamp { digits: own } if *own == digits => Ok(utc(time)),
        MysqlType::DateTime { digits: own } if *own == digits => {
            let offset = offset_seconds(facts)?;
            Ok(wall_clock(time + offset * MICROS_PER_SECOND).ok_or(refused)?)
        }
        _ => Err(refused),
    }
}

fn utc(micros: i64) -> Fill {
    let fraction = u32::try_from(micros.rem_euclid(MICROS_PER_SECOND)).unwrap_or_default();
    Fill::Timestamp { seconds: micros.div_euclid(MICROS_PER_SECOND), micros: fraction }
}

fn wall_clock(micros: i64) -> Option<Fill> {
    let (seconds, fraction) = (micros.div_euclid(MICROS_PER_SECOND), micros.rem_euclid(MICROS_PER_SECOND));
    let (days, second) = (seconds.div_euclid(SECONDS_PER_DAY), seconds.rem_euclid(SECONDS_PER_DAY));
    Some(Fill::DateTime {
        date: date_of(days)?,
        hour: u8::try_from(second / 3600).ok()?,
        minute: u8::try_from(second / 60 % 60).ok()?,
        second: u8::try_from(second % 60).ok()?,
        micros: u32::try_from(fraction).ok()?,
    })
}

/// East of UTC, where the session's zone is a plain offset. Zones with rules are not known here.
fn offset_seconds(facts: &StatementFacts) -> Result<i64, Resync> {
    let unknown = Resync { why: "a wall clock of a time zone whose offset is not known" };
    let zone = facts.time_zone.as_deref().ok_or(unknown)?;
    let zone = if zone == "SYSTEM" { facts.system_time_zone.as_deref().ok_or(unknown)? } else { zone };
    if ["UTC", "GMT", "Etc/UTC"].contains(&zone) {
        return Ok(0);
    }
    let (sign, clock) = match zone.split_at_checked(1) {
        Some(("+", clock)) => (1, clock),
        Some(("-", clock)) => (-1, clock),
        _ => return Err(unknown),
    };
    let (hours, minutes) = clock.split_once(':').ok_or(unknown)?;
    let (hours, minutes): (i64, i64) = hours
        .parse()
        .ok()
        .zip(minutes.parse().ok())
        .filter(|_| digits_only(hours) && digits_only(minutes))
        .ok_or(unknown)?;
    Ok(sign * (hours * 3600 + minutes * 60))
}

fn digits_only(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The literal in the column's type; `None` where that is not plain to see.
fn constant(mysql: &MysqlType, literal: &Literal, facts: &StatementFacts) -> Option<Fill> {
    match mysql {
        MysqlType::TinyInt { unsigned, .. }
        | MysqlType::SmallInt { unsigned }
        | MysqlType::MediumInt { unsigned }
        | MysqlType::Int { unsigned }
        | MysqlType::BigInt { unsigned } => {
            let value = integer_value(literal)?;
            if in_range(mysql, value) { integer(value, *unsigned) } else { None }
        }
        MysqlType::Decimal { precision, scale, unsigned } => match literal {
            Literal::Number(text) | Literal::Text(text) => decimal(text, *precision, *scale, *unsigned),
            Literal::Boolean(value) => decimal(if *value { "1" } else { "0" }, *precision, *scale, *unsigned),
            _ => None,
        },
        MysqlType::Float { unsigned } => {
            #[expect(clippy::cast_possible_truncation, reason = "as the server stores it")]
            let value = real(literal, *unsigned)? as f32;
            value.is_finite().then_some(Fill::Float(value))
        }
        MysqlType::Double { unsigned } => real(literal, *unsigned).map(Fill::Double),
        MysqlType::Char { length, charset } => {
            let text = text(literal)?.trim_end_matches(' ');
            encoded(text, *length, charset)
        }
        MysqlType::Varchar { length, charset } => encoded(text(literal)?, *length, charset),
        MysqlType::Binary { length } | MysqlType::Varbinary { length } => {
            let bytes = match literal {
                Literal::Bytes(bytes) => bytes.as_slice(),
                Literal::Text(text) if text.is_ascii() => text.as_bytes(),
                _ => return None,
            };
            (bytes.len() <= usize::try_from(*length).ok()?).then(|| Fill::Bytes(bytes.to_vec()))
        }
        MysqlType::Bit { width } => {
            let value = u64::try_from(integer_value(literal)?).ok()?;
            (*width >= 64 || value >> width == 0).then_some(Fill::Bit(value))
        }
        MysqlType::Enum { labels } => {
            let Literal::Text(text) = literal else { return None };
            let index = labels.iter().position(|label| label == text)?;
            u16::try_from(index + 1).ok().map(Fill::Enum)
        }
        MysqlType::Set { labels } => {
            let Literal::Text(text) = literal else { return None };
            set(labels, text)
        }
        MysqlType::Year => {
            let (Literal::Number(text) | Literal::Text(text)) = literal else { return None };
            let year: u16 = text.parse().ok()?;
            (1901..=2155).contains(&year).then_some(Fill::Year(year))
        }
        MysqlType::Date => date(temporal(literal)?).map(Fill::Date),
        MysqlType::Time { digits } => time(temporal(literal)?, *digits),
        MysqlType::DateTime { digits } => date_time(temporal(literal)?, *digits),
        MysqlType::Timestamp { digits } => timestamp(temporal(literal)?, *digits, facts),
        // Literals are no defaults of these.
        MysqlType::Text { .. }
        | MysqlType::Blob
        | MysqlType::Json
        | MysqlType::Geometry
        | MysqlType::Vector
        | MysqlType::Other { .. } => None,
    }
}

fn integer(value: i128, unsigned: bool) -> Option<Fill> {
    if unsigned {
        u64::try_from(value).ok().map(Fill::UInt)
    } else {
        i64::try_from(value).ok().map(Fill::Int)
    }
}

fn integer_value(literal: &Literal) -> Option<i128> {
    match literal {
        Literal::Number(text) | Literal::Text(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            (digits_only(digits)).then(|| text.parse().ok())?
        }
        Literal::Boolean(value) => Some(i128::from(*value)),
        Literal::Bytes(bytes) | Literal::Bits(bytes) if bytes.len() <= 8 => {
            Some(bytes.iter().fold(0, |value, byte| value << 8 | i128::from(*byte)))
        }
        _ => None,
    }
}

/// The number with exactly the column's decimals.
fn decimal(text: &str, precision: u8, scale: u8, unsigned: bool) -> Option<Fill> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let negative = digits.len() < text.len();
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if !digits_only(whole) || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let is_zero = whole.is_empty() && fraction.bytes().all(|byte| byte == b'0');
    let fits = whole.len() <= usize::from(precision.checked_sub(scale)?)
        && fraction.len() <= usize::from(scale)
        && !(negative && (unsigned || is_zero));
    if !fits {
        return None;
    }
    let (sign, whole) = (if negative { "-" } else { "" }, if whole.is_empty() { "0" } else { whole });
    Some(Fill::Decimal(match scale {
        0 => format!("{sign}{whole}"),
        scale => format!("{sign}{whole}.{fraction:0<width$}", width = usize::from(scale)),
    }))
}

fn real(literal: &Literal, unsigned: bool) -> Option<f64> {
    let Literal::Number(text) = literal else { return None };
    let value: f64 = text.parse().ok()?;
    (value.is_finite() && !(unsigned && value < 0.0) && !(value == 0.0 && text.starts_with('-')))
        .then_some(value)
}

/// A string, or an integer in its one spelling.
fn text(literal: &Literal) -> Option<&str> {
    match literal {
        Literal::Text(text) => Some(text),
        Literal::Number(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let canonical = digits_only(digits) && (!digits.starts_with('0') || text == "0");
            canonical.then_some(text)
        }
        _ => None,
    }
}

/// Text in the column's character set, if it is no longer than the column.
fn encoded(text: &str, length: u32, charset: &str) -> Option<Fill> {
    if text.chars().count() > usize::try_from(length).ok()? || text.contains('\0') {
        return None;
    }
    let bytes = match Charset::from_name(charset)? {
        Charset::Utf8mb4 => text.as_bytes().to_vec(),
        Charset::Utf8mb3 if text.chars().all(|char| u32::from(char) <= 0xffff) => text.as_bytes().to_vec(),
        Charset::Latin1 => {
            let byte = |char: char| (0..=255).find(|byte| latin1_char(*byte) == char);
            text.chars().map(byte).collect::<Option<_>>()?
        }
        other if text.is_ascii() && other.is_ascii_superset() => text.as_bytes().to_vec(),
        _ => return None,
    };
    Some(Fill::Bytes(bytes))
}

fn set(labels: &[String], text: &str) -> Option<Fill> {
    if text.is_empty() {
        return Some(Fill::Set(0));
    }
    let bit = |member: &str| labels.iter().position(|label| label == member);
    text.split(',').try_fold(0u64, |mask, member| Some(mask | 1 << bit(member)?)).map(Fill::Set)
}

fn temporal(literal: &Literal) -> Option<&str> {
    match literal {
        Literal::Text(text) | Literal::Temporal(text) => Some(text),
        _ => None,
    }
}

/// `YYYY-MM-DD`, a day of the calendar or all zero.
fn date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let plain = parts.next().is_none()
        && [(year, 4), (month, 2), (day, 2)]
            .iter()
            .all(|(part, len)| digits_only(part) && part.len() == *len);
    if !plain {
        return None;
    }
    let date = Date { year: year.parse().ok()?, month: month.parse().ok()?, day: day.parse().ok()? };
    (date == ZERO_DATE || (date.year > 0 && date_of(days_of(date)?)? == date)).then_some(date)
}

/// `HH:MM:SS[.fraction]`, with hours of two or, up to 838, three digits: hours, minutes, seconds, microseconds.
fn clock(text: &str, digits: u8) -> Option<(i64, i64, i64, i64)> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let plain = parts.next().is_none()
        && [hour, minute, second].iter().all(|part| digits_only(part))
        && (2..=3).contains(&hour.len())
        && minute.len() == 2
        && second.len() == 2
        && fraction.len() <= usize::from(digits)
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if !plain {
        return None;
    }
    let micros: i64 = format!("{fraction:0<6}").parse().ok()?;
    let (hour, minute, second): (i64, i64, i64) =
        (hour.parse().ok()?, minute.parse().ok()?, second.parse().ok()?);
    (minute < 60 && second < 60).then_some((hour, minute, second, micros))
}

fn time(text: &str, digits: u8) -> Option<Fill> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (hour, minute, second, micros) = clock(text, digits)?;
    let value = (hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND + micros;
    (value <= (838 * 3600 + 59 * 60 + 59) * MICROS_PER_SECOND).then_some(Fill::Time(sign * value))
}

/// `YYYY-MM-DD HH:MM:SS[.fraction]`: microseconds since 1970 of the wall clock, `None` inside for zero.
fn wall_micros(text: &str, digits: u8) -> Option<Option<i64>> {
    let (day, rest) = text.split_once(' ').unwrap_or((text, "00:00:00"));
    let (date, (hour, minute, second, micros)) = (date(day)?, clock(rest, digits)?);
    if hour > 23 || rest.split(':').next()?.len() != 2 {
        return None;
    }
    let clock = (hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND + micros;
    if date == ZERO_DATE {
        return (clock == 0).then_some(None);
    }
    Some(Some(days_of(date)? * SECONDS_PER_DAY * MICROS_PER_SECOND + clock))
}

fn date_time(text: &str, digits: u8) -> Option<Fill> {
    match wall_micros(text, digits)? {
        Some(micros) => wall_clock(micros),
        None => Some(midnight(ZERO_DATE)),
    }
}

/// In the session's zone; between the first second of 1970 and 03:14:07 on 19 January 2038 in UTC.
fn timestamp(text: &str, digits: u8, facts: &StatementFacts) -> Option<Fill> {
    let Some(wall) = wall_micros(text, digits)? else {
        return Some(Fill::Timestamp { seconds: 0, micros: 0 });
    };
    let micros = wall - offset_seconds(facts).ok()? * MICROS_PER_SECOND;
    let seconds = micros.div_euclid(MICROS_PER_SECOND);
    (1..=i64::from(i32::MAX)).contains(&seconds).then(|| utc(micros))
}

/// Days since 1970 of a day of the Gregorian calendar, which starts its years in March here so
/// that the leap day is the last.
fn days_of(date: Date) -> Option<i64> {
    let (month, day) = (i64::from(date.month), i64::from(date.day));
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = i64::from(date.year) - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(
        year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468,
    )
}

/// The inverse of [`days_of`], for years from 1 to 9999.
fn date_of(days: i64) -> Option<Date> {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Some(Date {
        year: u16::try_from(year).ok().filter(|year| (1..=9999).contains(year))?,
        month: u8::try_from(month).ok()?,
        day: u8::try_from(day_of_year - (153 * shifted + 2) / 5 + 1).ok()?,
    })
}
