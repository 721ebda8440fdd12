//! What the target tells about a pipeline, in the terms of `/status`.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::sink::report::{RecordedHalt, Report};
use crate::sink::table_state::TableState;
use crate::status::{ConversionReport, HaltReport, TableReport, rfc3339};

/// What the target tells about a pipeline whose process can't be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Stored {
    pub(super) pipeline: String,
    /// Null before the first copy has given a position.
    pub(super) processed_gtid_set: Option<String>,
    /// Commit time on the source of the last transaction applied, RFC 3339, UTC.
    pub(super) source_committed_at: Option<String>,
    /// The halt that no later commit has cleared.
    pub(super) halt: Option<HaltReport>,
    pub(super) tables: Vec<TableReport>,
    pub(super) conversions: Vec<ConversionReport>,
}

impl Stored {
    pub(super) fn new(pipeline: &str, report: Report) -> Self {
        let position = report.checkpoint.position;
        let last = position.as_ref().and_then(|position| position.last.as_ref());
        let committed = |micros| SystemTime::UNIX_EPOCH + Duration::from_micros(micros);
        Self {
            pipeline: pipeline.to_owned(),
            source_committed_at: last.map(|(_, print)| rfc3339(committed(print.original_commit_micros))),
            conversions: report.conversions.iter().map(ConversionReport::from).collect(),
            processed_gtid_set: position.map(|position| position.processed.to_string()),
            halt: report.halts.into_iter().find(|halt| halt.cleared_at.is_none()).map(HaltReport::from),
            tables: report.tables.into_iter().map(TableReport::from).collect(),
        }
    }
}

impl From<TableState> for TableReport {
    fn from(table: TableState) -> Self {
        let (rows_copied, rows_estimated) = (table.rows_copied, table.rows_estimated);
        Self { rows_copied, rows_estimated, ..Self::new(table.name(), &table.target(), table.phase) }
    }
}

/// Times come as the target prints them.
impl From<RecordedHalt> for HaltReport {
    fn from(halt: RecordedHalt) -> Self {
        let RecordedHalt { reason, detail, gtid, table, remedy, since, .. } = halt;
        Self { reason, detail, gtid, table, remedy, since }
    }
}
