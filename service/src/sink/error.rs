//! What a PostgreSQL error means for the pipeline, and how it is named without its data.
//!
//! A server's message, detail, hint and context may hold row values and statements, so that none
//! of them leaves this module: an error is its SQLSTATE, the condition's name and the names of
//! the objects concerned (PostgreSQL manual, appendix A "PostgreSQL Error Codes", and "Error and
//! Notice Message Fields").

use std::error::Error as _;

use tokio_postgres::error::{DbError, SqlState};

use super::client::Error;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::tls;

/// What follows from an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// The server or the connection: drop it, start over from the checkpoint.
    Retry,
    Halt(Reason),
}

/// SQLSTATEs that are told apart from the rest of their class, with the condition's name.
const CONDITIONS: &[(&str, &str, Class)] = &[
    ("08P01", "protocol_violation", Class::Retry),
    ("0A000", "feature_not_supported", Class::Halt(Reason::TargetDrift)),
    ("22001", "string_data_right_truncation", Class::Halt(Reason::ValueOutOfRange)),
    ("22003", "numeric_value_out_of_range", Class::Halt(Reason::ValueOutOfRange)),
    ("22008", "datetime_field_overflow", Class::Halt(Reason::ValueOutOfRange)),
    ("22015", "interval_field_overflow", Class::Halt(Reason::ValueOutOfRange)),
    ("22021", "character_not_in_repertoire", Class::Halt(Reason::ValueInvalid)),
    ("22026", "string_data_length_mismatch", Class::Halt(Reason::ValueOutOfRange)),
    ("22P02", "invalid_text_representation", Class::Halt(Reason::ValueInvalid)),
    ("22P03", "invalid_binary_representation", Class::Halt(Reason::TargetDrift)),
    ("22P05", "untranslatable_character", Class::Halt(Reason::ValueInvalid)),
    ("23502", "not_null_violation", Class::Halt(Reason::TargetConstraint)),
    ("23503", "foreign_key_violation", Class::Halt(Reason::TargetConstraint)),
    ("23505", "unique_violation", Class::Halt(Reason::TargetConstraint)),
    ("23514", "check_violation", Class::Halt(Reason::TargetConstraint)),
    ("23P01", "exclusion_violation", Class::Halt(Reason::TargetConstraint)),
    ("25006", "read_only_sql_transaction", Class::Retry),
    ("28000", "invalid_authorization_specification", Class::Retry),
    ("28P01", "invalid_password", Class::Retry),
    ("2BP01", "dependent_objects_still_exist", Class::Halt(Reason::TargetDependency)),
    ("3D000", "invalid_catalog_name", Class::Retry),
    ("3F000", "invalid_schema_name", Class::Halt(Reason::TargetDrift)),
    ("40001", "serialization_failure", Class::Retry),
    ("40P01", "deadlock_detected", Class::Retry),
    ("42501", "insufficient_privilege", Class::Halt(Reason::TargetPreflight)),
    ("42703", "undefined_column", Class::Halt(Reason::TargetDrift)),
    ("42804", "datatype_mismatch", Class::Halt(Reason::TargetDrift)),
    ("42809", "wrong_object_type", Class::Halt(Reason::TargetDrift)),
    ("428C9", "generated_always", Class::Halt(Reason::TargetDrift)),
    ("42P01", "undefined_table", Class::Halt(Reason::TargetDrift)),
    ("42P10", "invalid_column_reference", Class::Halt(Reason::TargetDrift)),
    ("53100", "disk_full", Class::Retry),
    ("53200", "out_of_memory", Class::Retry),
    ("53300", "too_many_connections", Class::Retry),
    ("54000", "program_limit_exceeded", Class::Halt(Reason::RowTooLarge)),
    ("55000", "object_not_in_prerequisite_state", Class::Halt(Reason::TargetDrift)),
    ("55P03", "lock_not_available", Class::Retry),
    ("57014", "query_canceled", Class::Retry),
    ("57P01", "admin_shutdown", Class::Retry),
    ("57P02", "crash_shutdown", Class::Retry),
    ("57P03", "cannot_connect_now", Class::Retry),
    ("P0001", "raise_exception", Class::Halt(Reason::TargetConstraint)),
];

/// Classes (the first two characters of an SQLSTATE) of everything else. An error in none of
/// them is retried: that loses nothing and ends as `target_unavailable` if it stays.
const CLASSES: &[(&str, Class)] = &[
    ("22", Class::Halt(Reason::ValueInvalid)),
    ("23", Class::Halt(Reason::TargetConstraint)),
    ("42", Class::Halt(Reason::TargetDrift)),
    ("44", Class::Halt(Reason::TargetConstraint)),
    ("P0", Class::Halt(Reason::TargetConstraint)),
];

/// Names an error: SQLSTATE and objects, or what kind of failure of the connection it is.
pub(super) fn redact(error: &Error) -> String {
    match error {
        Error::Driver(error) => redact_driver(error),
        Error::NoReply(waited) => {
            format!("the target did not reply within target.reply_timeout, {} s", waited.as_secs_f32())
        }
    }
}

fn redact_driver(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return redact_db(db);
    }
    // Without a server's message there are only causes such as a socket's or the TLS library's.
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

fn redact_db(db: &DbError) -> String {
    let code = db.code().code();
    let mut text = format!("SQLSTATE {code}");
    if let Some((_, condition, _)) = CONDITIONS.iter().find(|(known, ..)| *known == code) {
        text.push(' ');
        text.push_str(condition);
    }
    let objects = [
        ("schema", db.schema()),
        ("table", db.table()),
        ("column", db.column()),
        ("type", db.datatype()),
        ("constraint", db.constraint()),
    ];
    for (kind, name) in objects {
        if let Some(name) = name {
            text.push_str(&format!(", {kind} {name:?}"));
        }
    }
    // The server's advice on a full table of locks names the setting in every language.
    if db.hint().is_some_and(|hint| hint.contains(LOCKS_SETTING)) {
        text.push_str(": its table of locks is full, which a higher ");
        text.push_str(LOCKS_SETTING);
        text.push_str(" and a restart of it make larger");
    }
    if *db.code() == SqlState::PROGRAM_LIMIT_EXCEEDED {
        text.push_str(": ");
        text.push_str(too_large(db.constraint().is_some()));
    }
    text
}

/// What bounds the locks of all sessions together.
pub(super) const LOCKS_SETTING: &str = "max_locks_per_transaction";

/// The limits behind `program_limit_exceeded` on writing. The server names the index of an entry, and
/// nothing of a row (server source `src/backend/access/heap/hio.c`, `nbtree/nbtutils.c`).
const fn too_large(is_of_index: bool) -> &'static str {
    if is_of_index {
        "an entry of that index would be larger than the third of a page of 8 kB that PostgreSQL allows"
    } else {
        "the row is larger than a page of 8 kB even with its long values moved out. Numbers, dates and times \
         can't be moved out, and what can leaves a pointer of 18 bytes"
    }
}

/// What an error means, with `doing` naming what was being done ("applying rows").
pub(super) fn failure(doing: &str, error: &Error) -> Failure {
    classified(format!("{doing}: {}", redact(error)), error.code())
}

/// As [`failure`], for an error of the driver itself.
pub(super) fn driver_failure(doing: &str, error: &tokio_postgres::Error) -> Failure {
    classified(format!("{doing}: {}", redact_driver(error)), error.code())
}

fn classified(text: String, code: Option<&SqlState>) -> Failure {
    match code.map_or(Class::Retry, |code| classify(code.code())) {
        Class::Retry => Failure::retry(Side::Target, text),
        Class::Halt(reason) => Halt::new(reason, text).into(),
    }
}

/// Why a session could not be opened. Before there is one, a server speaks of hosts, roles and
/// databases only, so that its own words may be told.
pub(super) fn login_failure(error: &tokio_postgres::Error) -> Failure {
    let words = error.as_db_error().map(|db| format!(": {}", db.message())).unwrap_or_default();
    let text = format!("connecting to the target: {}{words}", redact_driver(error));
    classified(tls::advice::explained(text), error.code())
}

/// Whether the error is about what is written, not about the server or the connection.
pub(super) fn is_about_rows(error: &Error) -> bool {
    let Some(code) = error.code() else { return false };
    // One statement that would write a row twice.
    *code == SqlState::CARDINALITY_VIOLATION || classify(code.code()) != Class::Retry
}

/// An adapter for `map_err`.
pub(super) fn while_doing<E: Into<Error>>(doing: &'static str) -> impl Fn(E) -> Failure {
    move |error| failure(doing, &error.into())
}

fn classify(sqlstate: &str) -> Class {
    if let Some((.., class)) = CONDITIONS.iter().find(|(known, ..)| *known == sqlstate) {
        return *class;
    }
    CLASSES.iter().find(|(prefix, _)| sqlstate.starts_with(prefix)).map_or(Class::Retry, |(_, class)| *class)
}

/// A row of the control schema that Tidegate did not write like this.
pub(super) fn control_schema_invalid(what: impl std::fmt::Display) -> Halt {
    Halt::new(Reason::CheckpointInvalid, format!("{what} in schema tidegate can't be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_reply_is_named_and_retried() {
        let failure = failure("committing", &Error::NoReply(std::time::Duration::from_millis(1500)));
        let expected = "committing: the target did not reply within target.reply_timeout, 1.5 s";
        assert_eq!(failure, Failure::retry(Side::Target, expected));
        assert!(!is_about_rows(&Error::NoReply(std::time::Duration::ZERO)));
    }

    #[test]
    fn conditions_are_sorted_and_known_to_the_driver() {
        assert!(CONDITIONS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (code, condition, _) in CONDITIONS {
            let state = SqlState::from_code(code);
            // The driver's Debug output names the constants it knows by variant, others as `Other`.
            assert!(!format!("{state:?}").contains("Other"), "{code} {condition}");
        }
    }

    #[test]
    fn classes_decide_retry_and_halt() {
        let retried =
            ["08006", "57P01", "53300", "40001", "40P01", "55P03", "53100", "25006", "57014", "XX000"];
        for code in retried {
            assert_eq!(classify(code), Class::Retry, "{code}");
        }
        let halted = [
            ("23505", Reason::TargetConstraint),
            ("23001", Reason::TargetConstraint),
            ("P0001", Reason::TargetConstraint),
            ("22003", Reason::ValueOutOfRange),
            ("22001", Reason::ValueOutOfRange),
            ("22P05", Reason::ValueInvalid),
            ("54000", Reason::RowTooLarge),
            ("42P01", Reason::TargetDrift),
            ("42703", Reason::TargetDrift),
            ("42501", Reason::TargetPreflight),
        ];
        for (code, reason) in halted {
            assert_eq!(classify(code), Class::Halt(reason), "{code}");
        }
    }
}
