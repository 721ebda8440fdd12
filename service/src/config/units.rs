//! Durations and sizes as text: one whole number and one unit.

use std::time::Duration;

const DURATION_UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

const SIZE_UNITS: &[(&str, u64)] = &[("", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// `250ms`, `5s`, `10m`, `2h` or `1d`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    scaled(text, DURATION_UNITS).map(Duration::from_millis)
}

/// A plain number of bytes, or `512KiB`, `64MiB`, `2GiB`.
pub(super) fn size(text: &str) -> Option<u64> {
    scaled(text, SIZE_UNITS)
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Prints a duration in the largest unit that divides it.
pub(super) fn show_duration(duration: Duration) -> String {
    show(duration.as_millis().try_into().unwrap_or(u64::MAX), DURATION_UNITS, "ms")
}

/// Prints a size in the largest unit that divides it.
pub(super) fn show_size(bytes: u64) -> String {
    show(bytes, SIZE_UNITS, "")
}

fn show(value: u64, units: &[(&str, u64)], smallest: &str) -> String {
    let fitting = units.iter().rev().find(|(_, factor)| value >= *factor && value % factor == 0);
    match fitting {
        Some((unit, factor)) => format!("{}{unit}", value / factor),
        None => format!("{value}{smallest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_explicit() {
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("2h"), Some(Duration::from_secs(7200)));
        assert_eq!(size("64MiB"), Some(64 << 20));
        assert_eq!(size("1048576"), Some(1 << 20));
        for bad in ["", "5", "s", "-5s", "+5s", "5 s", "1.5s", "5S", "1m30s", "99999999999999999999s"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
        for bad in ["", "64MB", "64M", "-1", "+1", "1.5GiB", "18446744073709551615GiB"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(millis in 0u64..1 << 50) {
            let value = Duration::from_millis(millis);
            prop_assert_eq!(duration(&show_duration(value)), Some(value));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,12}") {
            duration(&text);
            size(&text);
        }
    }
}
