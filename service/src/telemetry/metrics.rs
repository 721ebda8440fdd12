//! Every metric: its name, help and unit, declared once, and the functions that record it.
//!
//! Counters and the histogram are recorded as things happen. What is also a fact of `/status`
//! is set from the very same report when the metrics are read, so the two can't disagree.

use std::time::Duration;

use metrics::{Counter, Unit, counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::fold::unit::RowsKind;
use crate::halt::{Reason, Side};
use crate::schema::policy::{Policy, ValueKind};
use crate::status::{Report, State};

const BUILD_INFO: &str = "tidegate_build_info";
const STATE: &str = "tidegate_state";
const STANDBY: &str = "tidegate_standby";
const HALTED: &str = "tidegate_halted";
const LAG: &str = "tidegate_lag_seconds";
const TRANSACTIONS_APPLIED: &str = "tidegate_transactions_applied_total";
const ROWS_APPLIED: &str = "tidegate_rows_applied_total";
const ROWS_COPIED: &str = "tidegate_rows_copied_total";
const CONVERSIONS: &str = "tidegate_conversions_total";
const BATCHES: &str = "tidegate_batches_total";
const COMMIT_SECONDS: &str = "tidegate_commit_seconds";
const EVENTS: &str = "tidegate_events_total";
const BYTES_RECEIVED: &str = "tidegate_bytes_received_total";
const CHANNEL_BYTES: &str = "tidegate_channel_bytes";
const SPILL_BYTES: &str = "tidegate_spill_bytes";
const RETRIES: &str = "tidegate_retries_total";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Name, kind, unit and help of every metric.
#[rustfmt::skip]
const METRICS: &[(&str, Kind, Unit, &str)] = &[
    (BUILD_INFO, Kind::Gauge, Unit::Count, "Always 1; the label tells the version."),
    (STATE, Kind::Gauge, Unit::Count, "1 for the state the pipeline is in, 0 for the others."),
    (STANDBY, Kind::Gauge, Unit::Count, "1 while another process is the pipeline's writer and this one waits."),
    (HALTED, Kind::Gauge, Unit::Count, "1 for the reason for which the pipeline is halted, 0 for the others."),
    (LAG, Kind::Gauge, Unit::Seconds, "The source's clock less the commit time of the oldest transaction not yet applied; NaN while unknown."),
    (TRANSACTIONS_APPLIED, Kind::Counter, Unit::Count, "Source transactions committed on the target, those without changes for us included."),
    (ROWS_APPLIED, Kind::Counter, Unit::Count, "Row changes committed on the target, by table and kind, as the source made them."),
    (ROWS_COPIED, Kind::Counter, Unit::Count, "Rows committed on the target by the first copy, by table."),
    (CONVERSIONS, Kind::Counter, Unit::Count, "Values that PostgreSQL can't hold and a policy stored, by table, column, kind and policy; for widen, changes of the column's type."),
    (BATCHES, Kind::Counter, Unit::Count, "Transactions committed on the target to apply the stream."),
    (COMMIT_SECONDS, Kind::Histogram, Unit::Seconds, "Time to apply and commit one batch."),
    (EVENTS, Kind::Counter, Unit::Count, "Binlog events received."),
    (BYTES_RECEIVED, Kind::Counter, Unit::Bytes, "Bytes of binlog events received."),
    (CHANNEL_BYTES, Kind::Gauge, Unit::Bytes, "Bytes of transactions that wait to be applied."),
    (SPILL_BYTES, Kind::Gauge, Unit::Bytes, "Bytes of transactions in spill files."),
    (RETRIES, Kind::Counter, Unit::Count, "Cycles that ended in a failure and were started over, by the side that failed."),
];

/// From one network round trip to a batch that is far too large.
const COMMIT_SECONDS_BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Installs the recorder of this process and declares every metric.
///
/// The handle's `run_upkeep` has to be called now and then, or observations of histograms pile
/// up between scrapes.
///
/// # Errors
/// When the process has a recorder already.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = builder()?.install_recorder()?;
    declare();
    Ok(handle)
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    let commit_seconds = Matcher::Full(COMMIT_SECONDS.to_owned());
    PrometheusBuilder::new().set_buckets_for_metric(commit_seconds, COMMIT_SECONDS_BUCKETS)
}

/// Tells the recorder every metric's help, and starts at 0 what an alert has to see from the start.
fn declare() {
    for (name, kind, unit, help) in METRICS {
        match kind {
            Kind::Counter => metrics::describe_counter!(*name, *unit, *help),
            Kind::Gauge => metrics::describe_gauge!(*name, *unit, *help),
            Kind::Histogram => metrics::describe_histogram!(*name, *unit, *help),
        }
    }
    for side in [Side::Source, Side::Target] {
        counter!(RETRIES, "side" => side_name(side)).absolute(0);
    }
}

/// Counts what arrives from the source. Keeps its counters at hand, as events are many.
pub struct Received {
    events: Counter,
    bytes: Counter,
}

impl Received {
    #[must_use]
    pub fn new() -> Self {
        Self { events: counter!(EVENTS), bytes: counter!(BYTES_RECEIVED) }
    }

    /// One event of that many bytes.
    pub fn event(&self, bytes: usize) {
        self.events.increment(1);
        self.bytes.increment(bytes as u64);
    }
}

impl Default for Received {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes of units that wait between fold and applier.
#[expect(clippy::cast_precision_loss, reason = "a gauge; exact up to 2^53 bytes")]
pub fn channel_bytes(bytes: usize) {
    gauge!(CHANNEL_BYTES).set(bytes as f64);
}

/// Bytes of transactions in spill files.
#[expect(clippy::cast_precision_loss, reason = "a gauge; exact up to 2^53 bytes")]
pub fn spilled(bytes: u64) {
    gauge!(SPILL_BYTES).set(bytes as f64);
}

/// One batch was committed.
pub(crate) fn committed(transactions: u64, elapsed: Duration) {
    counter!(BATCHES).increment(1);
    counter!(TRANSACTIONS_APPLIED).increment(transactions);
    histogram!(COMMIT_SECONDS).record(elapsed.as_secs_f64());
}

/// Row changes of a committed batch. `table` is the source's, as `database.table`.
pub fn rows_applied(table: &str, kind: RowsKind, rows: u64) {
    let kind = match kind {
        RowsKind::Write => "insert",
        RowsKind::Update => "update",
        RowsKind::Delete => "delete",
    };
    counter!(ROWS_APPLIED, "table" => table.to_owned(), "kind" => kind).increment(rows);
}

/// Rows of a committed chunk.
pub(crate) fn rows_copied(table: String, rows: u64) {
    counter!(ROWS_COPIED, "table" => table).increment(rows);
}

/// Values of a committed batch or chunk that a policy stored. Labels are bounded by the columns of
/// the replicated tables.
pub(crate) fn converted(table: &str, column: &str, kind: ValueKind, policy: Policy, uses: u64) {
    let labels = [
        ("table", table.to_owned()),
        ("column", column.to_owned()),
        ("kind", kind.name().to_owned()),
        ("policy", policy.name().to_owned()),
    ];
    counter!(CONVERSIONS, &labels).increment(uses);
}

/// A cycle failed and is started over.
pub(crate) fn retried(side: Side) {
    counter!(RETRIES, "side" => side_name(side)).increment(1);
}

const fn side_name(side: Side) -> &'static str {
    match side {
        Side::Source => "source",
        Side::Target => "target",
    }
}

/// Sets the gauges that restate `/status`.
#[expect(clippy::cast_precision_loss, reason = "a lag in milliseconds is exact up to 2^53")]
pub fn publish(report: &Report) {
    let flag = |set: bool| if set { 1.0 } else { 0.0 };
    gauge!(BUILD_INFO, "version" => report.version.clone()).set(1.0);
    for state in State::ALL {
        gauge!(STATE, "state" => state.name()).set(flag(report.state == *state));
    }
    gauge!(STANDBY).set(flag(report.standby));
    let halted = report.halt.as_ref().map(|halt| halt.reason.as_str());
    for reason in Reason::ALL {
        gauge!(HALTED, "reason" => reason.name()).set(flag(halted == Some(reason.name())));
    }
    gauge!(LAG).set(report.lag_ms.map_or(f64::NAN, |millis| millis as f64 / 1000.0));
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::OnceLock;

    /// The recorder is one a process, so the tests share it.
    pub(crate) fn shared() -> PrometheusHandle {
        static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
        HANDLE.get_or_init(|| install().expect("no other recorder")).clone()
    }

    #[test]
    fn names_follow_the_conventions() {
        for (name, kind, unit, help) in METRICS {
            assert!(name.starts_with("tidegate_") && help.ends_with('.'), "{name}");
            assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert_eq!(*unit == Unit::Seconds, name.ends_with("_seconds"), "{name}");
            assert_eq!(*unit == Unit::Bytes, name.contains("bytes"), "{name}");
        }
    }

    #[test]
    fn what_is_recorded_is_declared_and_rendered() {
        let recorder = builder().expect("buckets").build_recorder();
        metrics::with_local_recorder(&recorder, || {
            declare();
            Received::new().event(19);
            channel_bytes(512);
            committed(3, Duration::from_millis(2));
            rows_applied("app.users", RowsKind::Update, 7);
            rows_copied("app.users".to_owned(), 100);
            converted("app.users", "born", ValueKind::ZeroDate, Policy::Null, 3);
            retried(Side::Source);
        });
        let text = recorder.handle().render();
        for line in [
            "tidegate_channel_bytes 512",
            "tidegate_rows_applied_total{table=\"app.users\",kind=\"update\"} 7",
            "tidegate_retries_total{side=\"target\"} 0",
            "# TYPE tidegate_commit_seconds histogram",
            "tidegate_commit_seconds_bucket{le=\"0.001\"} 0",
            "tidegate_commit_seconds_bucket{le=\"0.0025\"} 1",
            "tidegate_transactions_applied_total 3",
            "tidegate_bytes_received_total 19",
            "tidegate_rows_copied_total{table=\"app.users\"} 100",
            "tidegate_conversions_total{table=\"app.users\",column=\"born\",kind=\"zero_date\",policy=\"null\"} 3",
            "# HELP tidegate_bytes_received_total Bytes of binlog events received.",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
            let name = line.split(' ').nth(2).expect("name");
            assert!(METRICS.iter().any(|(declared, ..)| *declared == name), "{name} is not declared");
        }
    }
}
