use proptest::prelude::*;

use super::*;

const DAY: i128 = SECONDS_PER_DAY;

/// MySQL's functions of a point in time, in seconds from 1970-01-01.
fn of_source(function: Function, seconds: i128) -> i128 {
    let days = seconds.div_euclid(DAY);
    match function {
        Function::Identity | Function::UnixTimestamp => seconds,
        Function::ToDays => days + 719_528,
        Function::ToSeconds => seconds + 62_167_219_200,
        Function::Year => civil_from_days(days).0,
    }
}

fn function() -> impl Strategy<Value = Function> {
    prop::sample::select(vec![Function::ToDays, Function::ToSeconds, Function::Year])
}

/// Dates of MySQL that are no dates of its year 0, the first and the last more often.
fn day() -> impl Strategy<Value = i128> {
    let (first, last) = (FIRST_DAY, END_DAY - 1);
    prop_oneof![first..=last, first..=first + 1, last - 1..=last]
}

#[test]
fn days_are_those_of_the_calendar() {
    assert_eq!((days_from_civil(1, 1, 1), days_from_civil(10_000, 1, 1)), (FIRST_DAY, END_DAY));
    let mut date = (1, 1, 1);
    for day in FIRST_DAY..END_DAY {
        assert_eq!(civil_from_days(day), date);
        assert_eq!(days_from_civil(date.0, date.1, date.2), day);
        let (year, month, of_month) = date;
        let leap = i128::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        let length = match month {
            2 => 28 + leap,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        date = match (of_month == length, month == 12) {
            (false, _) => (year, month, of_month + 1),
            (true, false) => (year, month + 1, 1),
            (true, true) => (year + 1, 1, 1),
        };
    }
    assert_eq!(date, (10_000, 1, 1));
}

proptest! {
    /// A date is below the target's bound if and only if the source's function of it is below the source's.
    #[test]
    fn a_date_is_on_the_same_side_of_a_bound(
        function in function(), day in day(), near in day(), off in -2_i128..=2, anywhere: bool,
    ) {
        let of = if anywhere { near } else { day };
        let constant = of_source(function, of * DAY) + off;
        if let Some(bound) = Kind::Date.bound(&Item::Number(constant), function) {
            prop_assert_eq!(Value::Number(day) < bound, of_source(function, day * DAY) < constant);
        } else {
            prop_assert!(constant < of_source(function, FIRST_DAY * DAY));
        }
    }

    #[test]
    fn a_time_is_on_the_same_side_of_a_bound(
        function in function(), day in day(), micros in 0..MICROS_PER_DAY, near in day(), off in -2_i128..=2,
        anywhere: bool, is_midnight: bool, digits in 0_u8..=6, zoned: bool,
    ) {
        let micros = day * MICROS_PER_DAY + if is_midnight { 0 } else { micros };
        let seconds = micros.div_euclid(MICROS_PER_SECOND);
        let of = if anywhere { near * DAY } else { seconds };
        let constant = of_source(function, of) + off;
        if let Some(bound) = (Kind::Clock { digits, zoned }).bound(&Item::Number(constant), function) {
            prop_assert_eq!(Value::Number(micros) < bound, of_source(function, seconds) < constant);
        } else {
            prop_assert!(constant < of_source(function, FIRST_DAY * DAY));
        }
    }

    /// TIMESTAMP begins in 1970, and ends in 2038.
    #[test]
    fn an_instant_is_on_the_same_side_of_a_bound(
        micros in MICROS_PER_SECOND..=LAST_TIMESTAMP * MICROS_PER_SECOND + 999_999, off in -2_i128..=2,
        anywhere in prop::option::of(-5_i128..5_000_000_000),
    ) {
        let seconds = micros.div_euclid(MICROS_PER_SECOND);
        let constant = anywhere.unwrap_or(seconds + off);
        let bound = (Kind::Moment { zoned: true }).bound(&Item::Number(constant), Function::UnixTimestamp);
        prop_assert_eq!(Value::Number(micros) < bound.unwrap(), seconds < constant);
    }

    #[test]
    fn an_integer_is_on_the_same_side_of_a_bound(value: i32, bound in any::<i64>(), near: bool, off in -2_i64..=2) {
        let kind =
            Kind::Integer { unsigned: false, least: i32::MIN.into(), greatest: i32::MAX.into() };
        let bound = if near { i64::from(value) + off } else { bound };
        let found = kind.bound(&Item::Number(bound.into()), Function::Identity);
        if let Some(found) = found {
            prop_assert_eq!(Value::Number(value.into()) < found, i64::from(value) < bound);
        } else {
            prop_assert!(bound < i64::from(i32::MIN));
        }
    }

    /// As it is printed by information_schema.
    #[test]
    fn an_unsigned_bound_is_read_whatever_its_sign(value: u64, bound: u64) {
        let kind = Kind::Integer { unsigned: true, least: i64::MIN.into(), greatest: u64::MAX.into() };
        let printed = Item::Number(bound.cast_signed().into());
        let found = kind.bound(&printed, Function::Identity).unwrap();
        prop_assert_eq!(Value::Number(value.into()) < found, value < bound);
        prop_assert_eq!(kind.bound(&Item::Number(bound.into()), Function::Identity), Some(found));
    }

    #[test]
    fn a_clock_is_read_as_it_is_written(day in day(), micros in 0..MICROS_PER_DAY) {
        let kind = Kind::Clock { digits: 6, zoned: false };
        let value = Value::Number(day * MICROS_PER_DAY + micros);
        let written = literal(&value, kind);
        let text = Item::Text(written.trim_matches('\'').to_owned());
        prop_assert_eq!(kind.bound(&text, Function::Identity), Some(value));
    }
}
