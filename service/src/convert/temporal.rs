//! Dates and times. PostgreSQL counts days and microseconds from 2000-01-01 (server source
//! `src/include/datatype/timestamp.h`).

use super::ConvertError;
use crate::binlog::cell::Date;

/// Days from 0000-03-01 of the proleptic Gregorian calendar to 2000-01-01.
const EPOCH_DAYS: i32 = 730_425;

/// Seconds from 1970-01-01 to 2000-01-01.
const EPOCH_UNIX_SECONDS: i64 = 946_684_800;

const DAY_MICROS: i64 = 86_400_000_000;

const DAYS_OF_400_YEARS: i32 = 146_097;

/// Microseconds between two values of a column's precision. A value off that grid would be rounded
/// by the target in silence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step(u32);

impl Step {
    /// For 0 to 6 fractional digits.
    pub(super) fn of(digits: u8) -> Option<Self> {
        [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1].get(usize::from(digits)).copied().map(Self)
    }

    #[inline]
    fn check(self, micros: u32) -> Result<(), ConvertError> {
        if micros == 0 || micros.is_multiple_of(self.0) { Ok(()) } else { Err(ConvertError::OutOfRange) }
    }
}

/// date: days since 2000-01-01.
#[inline]
pub(super) fn date(date: Date) -> Result<i32, ConvertError> {
    let Date { year, month, day } = date;
    if month == 0 || day == 0 || day > days_in_month(year, month)? {
        return Err(impossible(date));
    }
    match year {
        0 => Err(ConvertError::YearZero),
        1..=9999 => Ok(days_since_epoch(year.into(), month.into(), day.into())),
        _ => Err(ConvertError::OutOfRange),
    }
}

#[cold]
const fn impossible(date: Date) -> ConvertError {
    match date {
        Date { year: 0, month: 0, day: 0 } => ConvertError::ZeroDate,
        _ => ConvertError::PartialDate,
    }
}

/// The date `-infinity` (server source `src/include/utils/date.h`, `DATEVAL_NOBEGIN`).
pub(super) const DATE_BEFORE_ALL: i32 = i32::MIN;

/// The timestamp `-infinity` (server source `src/include/datatype/timestamp.h`, `DT_NOBEGIN`).
pub(super) const TIMESTAMP_BEFORE_ALL: i64 = i64::MIN;

/// The nearest day that PostgreSQL has: a month or day of zero becomes 1, a day beyond its month's
/// end the last one. The year 0 becomes 1 BC, the year before 1: it has every day that MySQL's
/// year 0 has.
pub(super) fn nearest_date(date: Date) -> Result<i32, ConvertError> {
    let Date { year, month, day } = date;
    if year > 9999 {
        return Err(ConvertError::OutOfRange);
    }
    let month = month.max(1);
    let day = day.clamp(1, days_in_month(year, month)?);
    // 400 years on, where the count of leap days does not cross zero.
    Ok(days_since_epoch(i32::from(year) + 400, month.into(), day.into()) - DAYS_OF_400_YEARS)
}

/// The same clock on [`nearest_date`].
pub(super) fn nearest_timestamp(day: Date, clock: [u8; 3], micros: u32) -> Result<i64, ConvertError> {
    at_clock(nearest_date(day)?, clock, micros)
}

fn at_clock(days: i32, [hour, minute, second]: [u8; 3], micros: u32) -> Result<i64, ConvertError> {
    if hour > 23 || minute > 59 || second > 59 || micros > 999_999 {
        return Err(ConvertError::Malformed);
    }
    let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
    Ok(i64::from(days) * DAY_MICROS + seconds * 1_000_000 + i64::from(micros))
}

/// timestamp: microseconds since 2000-01-01 00:00:00 of the same clock. A zero date with another
/// time than 00:00:00 is a partial one: replacing it by the zero date's would make the two one.
#[inline]
pub(super) fn timestamp(
    day: Date,
    [hour, minute, second]: [u8; 3],
    micros: u32,
    step: Step,
) -> Result<i64, ConvertError> {
    if hour > 23 || minute > 59 || second > 59 || micros > 999_999 {
        return Err(ConvertError::Malformed);
    }
    let days = match date(day) {
        Ok(days) => days,
        Err(ConvertError::ZeroDate) if (hour, minute, second, micros) != (0, 0, 0, 0) => {
            return Err(ConvertError::PartialDate);
        }
        Err(error) => return Err(error),
    };
    step.check(micros)?;
    let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
    Ok(i64::from(days) * DAY_MICROS + seconds * 1_000_000 + i64::from(micros))
}

/// timestamptz: microseconds since 2000-01-01 00:00:00 UTC, from Unix time. MySQL's '0000-00-00'
/// is the time 0, which is no other timestamp's.
#[inline]
pub(super) fn timestamptz(seconds: i64, micros: u32, step: Step) -> Result<i64, ConvertError> {
    if micros > 999_999 || seconds < 0 {
        return Err(ConvertError::Malformed);
    }
    if seconds == 0 && micros == 0 {
        return Err(ConvertError::ZeroDate);
    }
    step.check(micros)?;
    let whole = seconds.checked_sub(EPOCH_UNIX_SECONDS).and_then(|seconds| seconds.checked_mul(1_000_000));
    whole.and_then(|whole| whole.checked_add(micros.into())).ok_or(ConvertError::OutOfRange)
}

/// interval: microseconds, days and months. A TIME is microseconds alone, so that 25 hours stay 25
/// hours.
pub(super) fn write_interval(micros: i64, step: Step, out: &mut Vec<u8>) -> Result<(), ConvertError> {
    if micros % i64::from(step.0) != 0 {
        return Err(ConvertError::OutOfRange);
    }
    let mut field = [0; 20];
    field[3] = 16;
    field[4..12].copy_from_slice(&micros.to_be_bytes());
    out.extend_from_slice(&field);
    Ok(())
}

/// As the server has it: the year 0 is no leap year (server source `mysys/my_time.cc`,
/// `calc_days_in_year`).
#[inline]
fn days_in_month(year: u16, month: u8) -> Result<u8, ConvertError> {
    Ok(match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4)
            && (!year.is_multiple_of(100) || year.is_multiple_of(400))
            && year != 0 =>
        {
            29
        }
        2 => 28,
        1..=12 => 31,
        _ => return Err(ConvertError::Malformed),
    })
}

/// Counts from March, so that the leap day ends the year and the lengths of the months before any
/// month are a linear function, rounded down.
#[inline]
fn days_since_epoch(year: i32, month: i32, day: i32) -> i32 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - EPOCH_DAYS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: Step = Step(1);

    fn ymd(year: u16, month: u8, day: u8) -> Date {
        Date { year, month, day }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let length = |year: u16, month: u8| match month {
            2 if year.is_multiple_of(400) => 29,
            2 if year.is_multiple_of(100) => 28,
            2 if year.is_multiple_of(4) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        // PostgreSQL: SELECT date '0001-01-01' - date '2000-01-01'.
        let mut expected = -730_119;
        for year in 1..=9999 {
            for month in 1..=12 {
                for day in 1..=length(year, month) {
                    assert_eq!(date(ymd(year, month, day)), Ok(expected), "{year}-{month}-{day}");
                    expected += 1;
                }
                let impossible = date(ymd(year, month, length(year, month) + 1));
                assert_eq!(impossible, Err(ConvertError::PartialDate));
            }
        }
        assert_eq!(date(ymd(2000, 1, 1)), Ok(0));
        assert_eq!(date(ymd(9999, 12, 31)), Ok(2_921_939));
    }

    #[test]
    fn zero_and_partial_dates_are_impossible_and_year_zero_is_another_thing() {
        assert_eq!(date(ymd(0, 0, 0)), Err(ConvertError::ZeroDate));
        for impossible in [ymd(2024, 0, 0), ymd(2024, 2, 0), ymd(2024, 0, 5), ymd(0, 0, 1), ymd(0, 2, 29)] {
            assert_eq!(date(impossible), Err(ConvertError::PartialDate));
        }
        assert_eq!(date(ymd(0, 1, 1)), Err(ConvertError::YearZero));
        assert_eq!(date(ymd(10_000, 1, 1)), Err(ConvertError::OutOfRange));
        assert_eq!(date(ymd(2024, 13, 1)), Err(ConvertError::Malformed));
    }

    #[test]
    fn timestamps_count_from_2000() {
        assert_eq!(timestamp(ymd(2000, 1, 1), [0, 0, 0], 0, ANY), Ok(0));
        assert_eq!(timestamp(ymd(1999, 12, 31), [23, 59, 59], 999_999, ANY), Ok(-1));
        assert_eq!(timestamp(ymd(9999, 12, 31), [23, 59, 59], 999_999, ANY), Ok(252_455_615_999_999_999));
        assert_eq!(timestamp(ymd(2000, 1, 1), [24, 0, 0], 0, ANY), Err(ConvertError::Malformed));
        assert_eq!(timestamptz(946_684_800, 5, ANY), Ok(5));
        assert_eq!(timestamptz(1, 0, ANY), Ok(-946_684_799_000_000));
        assert_eq!(timestamptz(0, 1, ANY), Ok(-946_684_799_999_999));
        assert_eq!(timestamptz(0, 0, ANY), Err(ConvertError::ZeroDate));
        assert_eq!(timestamp(ymd(0, 0, 0), [0; 3], 0, ANY), Err(ConvertError::ZeroDate));
        assert_eq!(timestamp(ymd(0, 0, 0), [0, 0, 1], 0, ANY), Err(ConvertError::PartialDate));
        assert_eq!(timestamp(ymd(0, 0, 0), [0; 3], 1, ANY), Err(ConvertError::PartialDate));
        assert_eq!(timestamptz(i64::MAX, 0, ANY), Err(ConvertError::OutOfRange));
    }

    #[test]
    fn the_nearest_day_is_one_that_exists() {
        // PostgreSQL: SELECT date '0001-01-01 BC' - date '2000-01-01'.
        let first_of_1_bc = -730_485;
        for (impossible, nearest) in [
            (ymd(2021, 0, 17), date(ymd(2021, 1, 17))),
            (ymd(2021, 4, 0), date(ymd(2021, 4, 1))),
            (ymd(2021, 0, 0), date(ymd(2021, 1, 1))),
            (ymd(2021, 2, 31), date(ymd(2021, 2, 28))),
            (ymd(2024, 2, 31), date(ymd(2024, 2, 29))),
            (ymd(0, 1, 1), Ok(first_of_1_bc)),
            (ymd(0, 0, 2), Ok(first_of_1_bc + 1)),
            (ymd(0, 3, 1), Ok(first_of_1_bc + 60)),
            (ymd(0, 12, 31), Ok(first_of_1_bc + 365)),
            (ymd(10_000, 0, 1), Err(ConvertError::OutOfRange)),
            (ymd(2021, 13, 0), Err(ConvertError::Malformed)),
        ] {
            assert_eq!(nearest_date(impossible), nearest, "{impossible:?}");
        }
        assert_eq!(nearest_timestamp(ymd(2000, 0, 0), [0, 0, 1], 5), Ok(1_000_005));
        assert_eq!(nearest_timestamp(ymd(2000, 0, 0), [24, 0, 1], 5), Err(ConvertError::Malformed));
    }

    #[test]
    fn finer_fractions_than_the_column_s_are_refused() {
        for (digits, coarse) in [(0, 0), (1, 900_000), (2, 990_000), (3, 999_000), (4, 999_900), (5, 999_990)]
        {
            let step = Step::of(digits).unwrap();
            let day = ymd(2024, 1, 1);
            assert!(timestamp(day, [0; 3], coarse, step).is_ok());
            assert_eq!(timestamp(day, [0; 3], coarse + 1, step), Err(ConvertError::OutOfRange));
            assert_eq!(timestamptz(5, coarse + 1, step), Err(ConvertError::OutOfRange));
            assert!(write_interval(-i64::from(coarse), step, &mut Vec::new()).is_ok());
            assert_eq!(
                write_interval(-i64::from(coarse) - 1, step, &mut Vec::new()),
                Err(ConvertError::OutOfRange)
            );
        }
        assert!(Step::of(7).is_none());
    }

    #[test]
    fn intervals_are_microseconds_alone() {
        let mut out = Vec::new();
        write_interval(-3_020_399_000_000, ANY, &mut out).unwrap();
        assert_eq!(out, [&[0, 0, 0, 16][..], &(-3_020_399_000_000_i64).to_be_bytes(), &[0; 8]].concat());
    }

    proptest! {
        #[test]
        fn a_timestamp_is_its_day_and_its_clock(
            (year, month, day) in (1_u16..=9999, 1_u8..=12, 1_u8..=28),
            clock in 0_u32..86_400, micros in 0_u32..1_000_000,
        ) {
            let parts = [clock / 3600, clock / 60 % 60, clock % 60].map(|part| u8::try_from(part).unwrap());
            let value = timestamp(ymd(year, month, day), parts, micros, ANY).unwrap();
            prop_assert_eq!(value.div_euclid(DAY_MICROS), i64::from(date(ymd(year, month, day)).unwrap()));
            prop_assert_eq!(value.rem_euclid(DAY_MICROS), i64::from(clock) * 1_000_000 + i64::from(micros));
        }
    }
}
