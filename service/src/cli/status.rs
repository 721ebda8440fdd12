//! `tidegate status`

use std::fmt::Write as _;

use serde_json::json;

use super::Exit;
use super::ask::{self, AskError};
use super::output::{Output, say};
use super::stored::Stored;
use crate::config::Config;
use crate::halt::Failure;
use crate::sink;
use crate::status::{ConversionReport, HaltReport, Report, State, TableReport};

pub(super) async fn status(config: &Config, output: Output) -> Exit {
    match ask::report(&config.admin).await {
        Ok(report) => {
            let exit = if report.state == State::Halted { Exit::Halted } else { Exit::Done };
            output.result(&report, || render(&report), exit)
        }
        Err(error @ AskError::Refused(..)) => {
            say(&error.to_string());
            Exit::Error
        }
        Err(error @ AskError::Unreachable(_)) => {
            say(&format!(
                "{error}: the pipeline is not running here, or with another admin.listen. Reading the target"
            ));
            stored(config, output).await
        }
    }
}

/// What the target holds. It says nothing about now, so it never ends with success.
async fn stored(config: &Config, output: Output) -> Exit {
    match read_target(config).await {
        Ok(Some(stored)) => {
            let exit = if stored.halt.is_some() { Exit::Halted } else { Exit::Error };
            output.result(&json!({ "reachable": false, "stored": stored }), || render_stored(&stored), exit)
        }
        Ok(None) => {
            say(&format!("the target knows no pipeline {:?}: it has never run", config.name));
            Exit::Error
        }
        Err(failure) => {
            say(&failure.to_string());
            Exit::Error
        }
    }
}

async fn read_target(config: &Config) -> Result<Option<Stored>, Failure> {
    let client = sink::connect::connect(&config.target).await?;
    let report = sink::report::read(&client, &config.name).await?;
    Ok(report.map(|report| Stored::new(&config.name, report)))
}

fn render(report: &Report) -> String {
    let standby = if report.standby { ", standby" } else { "" };
    let mut lines = Lines::default();
    lines.add("pipeline", &report.pipeline);
    lines.add("state", &format!("{}{standby}", report.state.name()));
    let unasked = match report.state {
        State::Halted => "unknown: the source is not asked while the pipeline is halted",
        _ => "unknown: the source has not answered",
    };
    lines.add("lag", &report.lag_ms.map_or_else(|| unasked.to_owned(), |lag| format!("{lag} ms")));
    lines.add("source", &report.source);
    lines.add("target", &report.target);
    lines.add("processed", report.processed_gtid_set.as_deref().unwrap_or("not read yet"));
    if !report.prepared_gtid_set.is_empty() {
        lines.add("prepared XA", &report.prepared_gtid_set);
    }
    lines.add("source has", report.source_gtid_set.as_deref().unwrap_or(unasked));
    lines.add("binlog", report.stream_position.as_deref().unwrap_or("nothing received yet"));
    lines.add(
        "applied",
        &format!(
            "{} transactions, {} row changes since start",
            report.transactions_applied, report.rows_applied
        ),
    );
    lines.add("process", &format!("version {}, up {} s", report.version, report.uptime_ms / 1000));
    if let Some(task) = &report.dead_task {
        lines.add("dead task", &format!("{task}: restart the process"));
    }
    if let Some(error) = &report.last_error {
        let side = if error.side == crate::status::ErrorSide::Source { "source" } else { "target" };
        lines.add("last error", &format!("{} {side}: {}", error.at, error.message));
    }
    lines.halt(report.halt.as_ref());
    lines.tables(&report.tables);
    lines.conversions(&report.conversions);
    lines.0
}

fn render_stored(stored: &Stored) -> String {
    let mut lines = Lines::default();
    lines.add("pipeline", &stored.pipeline);
    lines.add("state", "unknown: the process can't be reached");
    lines.add("processed", stored.processed_gtid_set.as_deref().unwrap_or("nothing yet"));
    lines.add("as of", stored.source_committed_at.as_deref().unwrap_or("no transaction yet"));
    lines.halt(stored.halt.as_ref());
    lines.tables(&stored.tables);
    lines.conversions(&stored.conversions);
    lines.0
}

/// Labelled lines, with the rest of a value that spans several indented.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, label: &str, value: &str) {
        let value = value.replace('\n', "\n            ");
        writeln!(self.0, "{label:<12}{value}").unwrap_or_default();
    }

    fn halt(&mut self, halt: Option<&HaltReport>) {
        let Some(halt) = halt else { return };
        self.add("halted", &halt.reason);
        self.add("  detail", &halt.detail);
        for (label, value) in [("  table", &halt.table), ("  gtid", &halt.gtid)] {
            if let Some(value) = value {
                self.add(label, value);
            }
        }
        self.add("  since", &halt.since);
        self.add("  remedy", &halt.remedy);
    }

    fn conversions(&mut self, conversions: &[ConversionReport]) {
        let mut label = "converted";
        for entry in conversions {
            let ConversionReport { table, column, kind, policy, uses, keys, .. } = entry;
            let text = format!("{table}.{column}  {kind}: {policy}, {uses} values, {keys} rows hold one now");
            self.add(std::mem::take(&mut label), &text);
        }
    }

    fn tables(&mut self, tables: &[TableReport]) {
        let width = tables.iter().map(|table| table.source.chars().count()).max().unwrap_or(0);
        for (at, table) in tables.iter().enumerate() {
            let label = if at == 0 { "tables" } else { "" };
            let estimate = table.rows_estimated.map_or_else(String::new, |rows| format!(" of about {rows}"));
            let waits =
                table.waiting_for.as_ref().map_or_else(String::new, |lock| format!(", waits for {lock}"));
            let TableReport { source, target, state, rows_copied, .. } = table;
            let state = state.name();
            self.add(
                label,
                &format!(
                    "{source:<width$}  {state:<11}  {rows_copied} rows copied{estimate}, to {target}{waits}"
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::halt::{Halt, Reason};
    use crate::schema::phase::TablePhase;
    use std::time::SystemTime;

    use crate::schema::policy::{Policy, ValueKind};

    fn stored() -> Stored {
        let halt = Halt::new(Reason::DataGap, "binlogs are gone").on_table("app", "users");
        let table = |name: &str, state| TableReport {
            source: format!("app.{name}"),
            target: format!("app.{name}"),
            state,
            rows_copied: 10,
            rows_estimated: (name == "users").then_some(12),
            waiting_for: (name == "o").then(|| "a lock".to_owned()),
        };
        Stored {
            pipeline: "app".into(),
            processed_gtid_set: Some("a:1-5,\nb:1".into()),
            source_committed_at: None,
            halt: Some(HaltReport::new(&halt, SystemTime::UNIX_EPOCH)),
            tables: vec![table("users", TablePhase::Copying), table("o", TablePhase::Streaming)],
            conversions: Vec::new(),
        }
    }

    #[test]
    fn converted_values_are_listed_by_column() {
        let entry = ConversionReport {
            table: "app.users".into(),
            column: "born".into(),
            kind: ValueKind::ZeroDate,
            policy: Policy::Null,
            uses: 7,
            keys: 5,
            first_use: Some("copy".into()),
            last_use: None,
        };
        let text = render_stored(&Stored { conversions: vec![entry], ..stored() });
        let line = "converted   app.users.born  zero_date: null, 7 values, 5 rows hold one now\n";
        assert!(text.ends_with(line), "{text}");
    }

    #[test]
    fn what_is_not_known_is_said_to_be_unknown() {
        let text = render_stored(&stored());
        let expected = [
            "pipeline    app",
            "state       unknown: the process can't be reached",
            "processed   a:1-5,",
            "            b:1",
            "as of       no transaction yet",
            "halted      data_gap",
            "  detail    binlogs are gone",
            "  table     app.users",
            "  since     1970-01-01T00:00:00.000Z",
        ];
        assert_eq!(text.lines().take(expected.len()).collect::<Vec<_>>(), expected);
        assert!(
            text.contains("tables      app.users  copying      10 rows copied of about 12, to app.users\n"),
            "{text}"
        );
        assert!(
            text.ends_with(
                "            app.o      streaming    10 rows copied, to app.o, waits for a lock\n"
            ),
            "{text}"
        );
    }
}
