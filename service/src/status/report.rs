//! The facts as they are served: the JSON of `/status`, which `tidegate status` reads back.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::halt::{Halt, Side};
use crate::schema::TableName;
use crate::schema::phase::TablePhase;
use crate::schema::policy::{Policy, ValueKind};
use crate::sink::conversions::Conversion;
use crate::sink::objects::ObjectFinding;

/// What the pipeline is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Connecting, checking, taking over; also a standby that waits.
    #[default]
    Starting,
    /// Tables are being copied for the first time.
    Snapshotting,
    /// Streaming, and not yet at the position that makes every table consistent.
    CatchingUp,
    /// Following the source.
    Streaming,
    /// Stopped by the operator.
    Paused,
    /// A connection failed; the next attempt is due.
    Retrying,
    /// Stopped by itself until the operator acts.
    Halted,
}

impl State {
    pub const ALL: &'static [Self] = &[
        Self::Starting,
        Self::Snapshotting,
        Self::CatchingUp,
        Self::Streaming,
        Self::Paused,
        Self::Retrying,
        Self::Halted,
    ];

    /// The name that is served.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Snapshotting => "snapshotting",
            Self::CatchingUp => "catching_up",
            Self::Streaming => "streaming",
            Self::Paused => "paused",
            Self::Retrying => "retrying",
            Self::Halted => "halted",
        }
    }
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableReport {
    /// `database.table`
    pub source: String,
    /// `schema.table`
    pub target: String,
    pub state: TablePhase,
    /// Rows that the first copy has committed.
    pub rows_copied: u64,
    /// The source's estimate; null while it was not asked.
    pub rows_estimated: Option<u64>,
    /// The lock on the source that the table's copy is waiting for; null while it waits for none.
    pub waiting_for: Option<String>,
}

impl TableReport {
    #[must_use]
    pub fn new(source: &TableName, target: &str, state: TablePhase) -> Self {
        Self {
            source: format!("{}.{}", source.database, source.table),
            target: target.to_owned(),
            state,
            rows_copied: 0,
            rows_estimated: None,
            waiting_for: None,
        }
    }
}

/// An entry of the ledger of converted values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversionReport {
    /// `database.table` of the source.
    pub table: String,
    pub column: String,
    pub kind: ValueKind,
    pub policy: Policy,
    /// Values stored by the policy since the table's copy began; for `widen`, changes of the type.
    pub uses: u64,
    /// Rows that hold such a value now.
    pub keys: i64,
    /// `copy`, or the GTID of the transaction, of the first and the last use.
    pub first_use: Option<String>,
    pub last_use: Option<String>,
}

impl ConversionReport {
    pub(super) fn is_entry_of(&self, other: &Self) -> bool {
        (&self.table, &self.column, self.kind, self.policy)
            == (&other.table, &other.column, other.kind, other.policy)
    }

    /// Adds what a commit added to the entry.
    pub(super) fn add(&mut self, more: Self) {
        self.uses = self.uses.saturating_add(more.uses);
        self.keys = self.keys.saturating_add(more.keys);
        self.first_use = self.first_use.take().or_else(|| more.first_use.clone());
        self.last_use = more.last_use.or_else(|| self.last_use.take());
    }
}

impl From<&Conversion> for ConversionReport {
    fn from(entry: &Conversion) -> Self {
        Self {
            table: format!("{}.{}", entry.table.database, entry.table.table),
            column: entry.column.clone(),
            kind: entry.kind,
            policy: entry.policy,
            uses: entry.uses,
            keys: entry.keys,
            first_use: entry.first_use.clone(),
            last_use: entry.last_use.clone(),
        }
    }
}

/// A halt, as `/status` and the table `tidegate.halt` tell it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HaltReport {
    /// Stable name; a heading of the runbook.
    pub reason: String,
    pub detail: String,
    pub gtid: Option<String>,
    /// The source table concerned, as `database.table`.
    pub table: Option<String>,
    pub remedy: String,
    /// RFC 3339, UTC.
    pub since: String,
}

impl HaltReport {
    #[must_use]
    pub fn new(halt: &Halt, since: SystemTime) -> Self {
        Self {
            reason: halt.reason.name().to_owned(),
            detail: halt.detail.clone(),
            gtid: halt.gtid.as_ref().map(ToString::to_string),
            table: halt.table.clone(),
            remedy: halt.reason.remedy().to_owned(),
            since: rfc3339(since),
        }
    }
}

/// Which server an error concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorSide {
    Source,
    Target,
}

impl From<Side> for ErrorSide {
    fn from(side: Side) -> Self {
        match side {
            Side::Source => Self::Source,
            Side::Target => Self::Target,
        }
    }
}

/// The last failure that was retried, without any data in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorReport {
    pub side: ErrorSide,
    pub message: String,
    /// RFC 3339, UTC.
    pub at: String,
}

/// The body of `/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub pipeline: String,
    pub version: String,
    pub uptime_ms: u64,
    /// `host:port`
    pub source: String,
    /// `host:port/database`
    pub target: String,
    pub state: State,
    /// Another process is the pipeline's writer; this one waits to take over.
    pub standby: bool,
    /// A task that ended though it should not have; the process wants a restart.
    pub dead_task: Option<String>,
    /// Null until the checkpoint has been read.
    pub processed_gtid_set: Option<String>,
    /// GTIDs of XA transactions that are prepared and not resolved; empty when there is none. They
    /// are not in `processed_gtid_set`.
    #[serde(default)]
    pub prepared_gtid_set: String,
    /// Null while the source can't be asked.
    pub source_gtid_set: Option<String>,
    /// Null while the source can't be asked.
    pub lag_ms: Option<u64>,
    pub halt: Option<HaltReport>,
    pub last_error: Option<ErrorReport>,
    /// Since the process started.
    pub transactions_applied: u64,
    /// Since the process started.
    pub rows_applied: u64,
    /// `file:position` of the source's binlog, for people only.
    pub stream_position: Option<String>,
    pub tables: Vec<TableReport>,
    /// Values that PostgreSQL can't hold, by column and kind, as the ledger has them.
    pub conversions: Vec<ConversionReport>,
    /// Indexes and constraints of the source that could not be built on the target.
    #[serde(default)]
    pub objects: Vec<ObjectReport>,
}

/// An index or constraint that the target lacks, or has in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectReport {
    /// `database.table` of the source.
    pub table: String,
    /// `index`, `check` or `foreign_key`.
    pub kind: String,
    pub name: String,
    pub detail: String,
}

impl From<&ObjectFinding> for ObjectReport {
    fn from(finding: &ObjectFinding) -> Self {
        let ObjectFinding { table: TableName { database, table }, kind, name, detail } = finding;
        let table = format!("{database}.{table}");
        Self { table, kind: kind.clone(), name: name.clone(), detail: detail.clone() }
    }
}

/// A time as RFC 3339 in UTC with milliseconds. A clock before 1970 reads as 1970.
#[must_use]
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second, millis) =
        (second / 3600, second / 60 % 60, second % 60, since.subsec_millis());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Year, month and day of the proleptic Gregorian calendar, from days since 1970-01-01. Counts
/// years from March, so that the leap day is a year's last, in eras of 400 years.
const fn civil_date(days: u64) -> (u64, u64, u64) {
    const DAYS_FROM_0000_03_01: u64 = 719_468;
    const ERA: u64 = 146_097;
    let days = days + DAYS_FROM_0000_03_01;
    let (era, in_era) = (days / ERA, days % ERA);
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / (ERA - 1)) / 365;
    let day_of_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (millis, expected) in cases {
            assert_eq!(rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(millis)), expected);
        }
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn dates_go_up_day_by_day() {
        let mut previous = civil_date(0);
        for days in 1..200_000 {
            let (year, month, day) = civil_date(days);
            let next_day = (year, month) == (previous.0, previous.1) && day == previous.2 + 1;
            let next_month =
                day == 1 && previous.2 >= 28 && (year * 12 + month) == previous.0 * 12 + previous.1 + 1;
            assert!(next_day || next_month, "{previous:?} then {year}-{month}-{day}");
            previous = (year, month, day);
        }
    }

    #[test]
    fn served_names_are_the_serialized_ones() {
        for state in State::ALL {
            assert_eq!(serde_json::to_value(state).expect("plain"), state.name());
        }
        for state in [
            TablePhase::Pending,
            TablePhase::Capturing,
            TablePhase::Copying,
            TablePhase::CatchingUp,
            TablePhase::Streaming,
            TablePhase::Resyncing,
            TablePhase::Detached,
            TablePhase::Halted,
        ] {
            assert_eq!(serde_json::to_value(state).expect("plain"), state.name());
        }
    }
}
