//! Bounds and members of partitions as values of the target's column.

use super::source::{Function, Item};
use crate::schema::render::quote_literal;
use crate::schema::types::may_become_boolean;
use crate::schema::{Column, MysqlType, TargetType};

/// 2^64: a server prints a bound in the upper half of BIGINT UNSIGNED as the negative number of the same
/// bits.
const UNSIGNED_WRAP: i128 = 1 << 64;

const MICROS_PER_SECOND: i128 = 1_000_000;
const SECONDS_PER_DAY: i128 = 86_400;
const MICROS_PER_DAY: i128 = SECONDS_PER_DAY * MICROS_PER_SECOND;

/// `TO_DAYS('1970-01-01')`.
const EPOCH_TO_DAYS: i128 = 719_528;

/// The last second of a TIMESTAMP, 2038-01-19 03:14:07.
const LAST_TIMESTAMP: i128 = 2_147_483_647;

/// The days 0001-01-01 and 10000-01-01, from 1970-01-01: below is MySQL's year 0, which PostgreSQL's
/// calendar does not have, and above is nothing.
const FIRST_DAY: i128 = -719_162;
const END_DAY: i128 = 2_932_897;

/// Values of one column, in the order of both sides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    Null,
    /// `-infinity`, below every date.
    Lowest,
    /// An integer, a date in days or a point in time in microseconds from 1970-01-01.
    Number(i128),
    Text(String),
    /// MAXVALUE.
    Max,
}

/// Kinds of columns whose values are in one order on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// With the least and the greatest value of the target's type.
    Integer {
        unsigned: bool,
        least: i128,
        greatest: i128,
    },
    Date,
    /// A wall clock, stored as timestamptz in UTC or as timestamp; with as many fractional digits.
    Clock {
        digits: u8,
        zoned: bool,
    },
    /// TIMESTAMP, of which only the function UNIX_TIMESTAMP is a bound.
    Moment {
        zoned: bool,
    },
    /// Compared by the bytes of UTF-8, blanks at the end included.
    Text,
}

impl Kind {
    /// `None` where the order, or what is equal, may be another one on the target.
    pub(super) fn of(column: &Column, function: Function) -> Option<Self> {
        let kind = Self::of_column(column)?;
        let fits = match function {
            Function::Identity => !matches!(kind, Self::Moment { .. }),
            Function::ToDays | Function::ToSeconds | Function::Year => {
                matches!(kind, Self::Date | Self::Clock { .. })
            }
            Function::UnixTimestamp => matches!(kind, Self::Moment { .. }),
        };
        fits.then_some(kind)
    }

    fn of_column(column: &Column) -> Option<Self> {
        let integer = |unsigned| {
            let (least, greatest) = match column.target {
                TargetType::SmallInt => (i16::MIN.into(), i16::MAX.into()),
                TargetType::Integer => (i32::MIN.into(), i32::MAX.into()),
                TargetType::BigInt => (i64::MIN.into(), i64::MAX.into()),
                TargetType::Numeric { scale: 0, .. } => (i64::MIN.into(), u64::MAX.into()),
                _ => return None,
            };
            Some(Self::Integer { unsigned, least, greatest })
        };
        match column.mysql {
            _ if may_become_boolean(column) => None,
            MysqlType::TinyInt { unsigned, .. }
            | MysqlType::SmallInt { unsigned }
            | MysqlType::MediumInt { unsigned }
            | MysqlType::Int { unsigned }
            | MysqlType::BigInt { unsigned } => integer(unsigned),
            MysqlType::Year => integer(true),
            MysqlType::Date if column.target == TargetType::Date => Some(Self::Date),
            MysqlType::DateTime { digits } => Some(Self::Clock { digits, zoned: is_zoned(column.target)? }),
            MysqlType::Timestamp { .. } => Some(Self::Moment { zoned: is_zoned(column.target)? }),
            // The only collation of utf8mb4 by bytes that does not pad with blanks.
            MysqlType::Char { .. } | MysqlType::Varchar { .. } => {
                (column.details.collation.as_deref() == Some("utf8mb4_0900_bin")).then_some(Self::Text)
            }
            _ => None,
        }
    }

    /// What the column's values are less than where those of the function are less than the constant.
    pub(super) fn bound(self, item: &Item, function: Function) -> Option<Value> {
        if *item == Item::MaxValue {
            return Some(Value::Max);
        }
        match (function, item) {
            (Function::Identity, item) => match self.value(item)? {
                Value::Number(number) => self.within(number),
                Value::Null => None,
                value => Some(value),
            },
            (Function::ToDays, Item::Number(days)) => self.at_day(*days),
            // A whole day begins with its first second, and a date has no other.
            (Function::ToSeconds, Item::Number(seconds)) if self == Self::Date => {
                self.at_day(-(-seconds).div_euclid(SECONDS_PER_DAY))
            }
            (Function::ToSeconds, Item::Number(seconds)) => {
                let micros = (seconds - EPOCH_TO_DAYS * SECONDS_PER_DAY) * MICROS_PER_SECOND;
                in_calendar(*seconds, micros, MICROS_PER_DAY)
            }
            (Function::Year, Item::Number(year)) => {
                let first = |year: i128| days_from_civil(year, 1, 1);
                match year {
                    1..=10_000 => in_calendar(1, first(*year) * self.unit(), self.unit()),
                    _ => Some(if *year <= 0 { Value::Lowest } else { Value::Max }),
                }
            }
            (Function::UnixTimestamp, Item::Number(seconds)) => match seconds {
                ..=0 => Some(Value::Lowest),
                _ if *seconds > LAST_TIMESTAMP => Some(Value::Max),
                _ => Some(Value::Number(seconds * MICROS_PER_SECOND)),
            },
            _ => None,
        }
    }

    /// A value of a list.
    pub(super) fn member(self, item: &Item) -> Option<Value> {
        match self.value(item)? {
            Value::Number(number) if self.within(number) != Some(Value::Number(number)) => None,
            value => Some(value),
        }
    }

    /// A constant of the column's own type.
    fn value(self, item: &Item) -> Option<Value> {
        Some(match (self, item) {
            (_, Item::Null) => Value::Null,
            (Self::Integer { unsigned: true, .. }, Item::Number(number)) if *number < 0 => {
                Value::Number(number + UNSIGNED_WRAP)
            }
            (Self::Integer { .. }, Item::Number(number)) => Value::Number(*number),
            (Self::Date | Self::Clock { .. }, Item::Text(text)) if is_zero_date(text) => Value::Lowest,
            (Self::Date, Item::Text(text)) => {
                let (day, clock) = date_and_clock(text)?;
                clock.is_none().then_some(Value::Number(day))?
            }
            (Self::Clock { digits, .. }, Item::Text(text)) => {
                let (day, clock) = date_and_clock(text)?;
                let micros = clock.map_or(Some(0), |clock| micros_of(clock, digits))?;
                Value::Number(day * MICROS_PER_DAY + micros)
            }
            (Self::Text, Item::Text(text)) => Value::Text(text.clone()),
            _ => return None,
        })
    }

    /// A bound that the target's type can hold: one beyond its values is beyond all of them.
    const fn within(self, number: i128) -> Option<Value> {
        match self {
            Self::Integer { greatest, .. } if number > greatest => Some(Value::Max),
            Self::Integer { least, .. } if number < least => None,
            _ => Some(Value::Number(number)),
        }
    }

    /// The first moment of a day of `TO_DAYS`.
    fn at_day(self, days: i128) -> Option<Value> {
        in_calendar(days, (days - EPOCH_TO_DAYS) * self.unit(), self.unit())
    }

    /// A day in the unit of the column's values.
    const fn unit(self) -> i128 {
        match self {
            Self::Date => 1,
            _ => MICROS_PER_DAY,
        }
    }
}

/// The bound where the calendars agree. Nothing has a day or a second of zero or less, which stand below
/// every date, and nothing is later than the last date.
fn in_calendar(ordinal: i128, number: i128, day: i128) -> Option<Value> {
    if ordinal <= 0 {
        Some(Value::Lowest)
    } else if number >= END_DAY * day {
        Some(Value::Max)
    } else {
        (number >= FIRST_DAY * day).then_some(Value::Number(number))
    }
}

const fn is_zoned(target: TargetType) -> Option<bool> {
    match target {
        TargetType::Timestamp { .. } => Some(false),
        TargetType::TimestampTz { .. } => Some(true),
        _ => None,
    }
}

fn is_zero_date(text: &str) -> bool {
    text == "0000-00-00" || text == "0000-00-00 00:00:00"
}

/// A date that exists, as `2020-1-2` or `20200102`, in days, and the clock after it. MySQL takes other
/// forms too.
fn date_and_clock(text: &str) -> Option<(i128, Option<&str>)> {
    let (date, clock) = match text.split_once([' ', 'T']) {
        Some((date, clock)) => (date, Some(clock)),
        None => (text, None),
    };
    let number = |text: &str, longest: usize| {
        let is_number = (1..=longest).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        if is_number { text.parse::<i128>().ok() } else { None }
    };
    let parts: Vec<&str> = if date.len() == 8 && !date.contains('-') {
        vec![date.get(..4)?, date.get(4..6)?, date.get(6..)?]
    } else {
        date.split('-').collect()
    };
    let &[year, month, day] = parts.as_slice() else { return None };
    let (year, month, day) =
        (number(year, 4).filter(|_| year.len() == 4)?, number(month, 2)?, number(day, 2)?);
    let days = days_from_civil(year, month, day);
    (year > 0 && civil_from_days(days) == (year, month, day)).then_some((days, clock))
}

/// `hh:mm`, `hh:mm:ss` or `hh:mm:ss.ffffff`, with no more digits than the column has.
fn micros_of(clock: &str, digits: u8) -> Option<i128> {
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    if fraction.len() > usize::from(digits) || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let parts: Vec<&str> = clock.split(':').collect();
    if !(2..=3).contains(&parts.len()) || parts.len() == 2 && !fraction.is_empty() {
        return None;
    }
    let mut seconds = 0;
    for (index, limit) in [24, 60, 60].into_iter().enumerate() {
        let part = parts.get(index).copied().unwrap_or("0");
        if !(1..=2).contains(&part.len()) || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        seconds = seconds * 60 + part.parse::<i128>().ok().filter(|part| *part < limit)?;
    }
    let micros = format!("{fraction:0<6}").parse::<i128>().ok()?;
    Some(seconds * MICROS_PER_SECOND + micros)
}

/// The value as PostgreSQL reads it in the bound of a partition.
pub(super) fn literal(value: &Value, kind: Kind) -> String {
    match (value, kind) {
        (Value::Null, _) => "NULL".to_owned(),
        (Value::Lowest, _) => "'-infinity'".to_owned(),
        (Value::Max, _) => "MAXVALUE".to_owned(),
        (Value::Text(text), _) => quote_literal(text),
        (Value::Number(number), Kind::Date) => format!("'{}'", date_text(*number)),
        (Value::Number(micros), Kind::Clock { zoned, .. } | Kind::Moment { zoned }) => {
            let (day, of_day) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
            let (seconds, fraction) = (of_day / MICROS_PER_SECOND, of_day % MICROS_PER_SECOND);
            let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
            let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
            let zone = if zoned { "+00" } else { "" };
            format!("'{} {hour:02}:{minute:02}:{second:02}{fraction}{zone}'", date_text(day))
        }
        (Value::Number(number), _) => number.to_string(),
    }
}

fn date_text(days: i128) -> String {
    let (year, month, day) = civil_from_days(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Years of 400 have one number of days, and those that begin with March end with the leap day.
const DAYS_PER_ERA: i128 = 146_097;

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_FROM_MARCH: i128 = 719_468;

/// Days from 1970-01-01 of a date of the proleptic Gregorian calendar.
const fn days_from_civil(year: i128, month: i128, day: i128) -> i128 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * DAYS_PER_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH_FROM_MARCH
}

/// Year, month and day of a number of days from 1970-01-01.
const fn civil_from_days(days: i128) -> (i128, i128, i128) {
    let from_march = days + EPOCH_FROM_MARCH;
    let (era, of_era) = (from_march.div_euclid(DAYS_PER_ERA), from_march.rem_euclid(DAYS_PER_ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests;
