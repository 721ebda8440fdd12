//! `tidegate check`

use std::fmt::Write as _;

use serde_json::json;

use super::Exit;
use super::output::{Output, say};
use crate::config::Config;
use crate::halt::Failure;
use crate::pipeline::{self, Report};
use crate::preflight::{Finding, Size};
use crate::schema::TableName;
use crate::schema::filter::Filter;
use crate::source::data::{Found, Outcome, Scanned};

pub(super) async fn check(config: &Config, data: bool, output: Output) -> Exit {
    let filter = match Filter::new(&config.tables.include, &config.tables.exclude) {
        Ok(filter) => filter,
        Err(error) => {
            say(&error.to_string());
            return Exit::Usage;
        }
    };
    match look(config, &filter, data).await {
        Ok((Report { findings, size }, found)) => {
            let halts = found.iter().flatten().any(|found| found.outcome == Outcome::Halts);
            let problems = halts || findings.iter().any(Finding::is_error);
            let exit = if problems { Exit::ProblemsFound } else { Exit::Done };
            let text = || {
                let data = found.as_deref().map_or_else(String::new, render_data);
                let halts = |found: &&Found| matches!(found.outcome, Outcome::Halts);
                let halting = found.iter().flatten().filter(halts).count();
                format!(
                    "{data}{}{}",
                    size.as_ref().map_or_else(String::new, render_size),
                    render(&findings, halting)
                )
            };
            output.result(&json!({ "findings": findings, "data": found, "size": size }), text, exit)
        }
        Err(failure) => {
            say(&failure.to_string());
            Exit::Error
        }
    }
}

/// The data is not looked at while the settings keep the source from being read.
async fn look(config: &Config, filter: &Filter, data: bool) -> Result<(Report, Option<Vec<Found>>), Failure> {
    let report = pipeline::check(config, filter).await;
    if !data {
        return Ok((report, None));
    }
    if report.findings.iter().any(|finding| finding.is_error() && finding.name.starts_with("source.")) {
        say("the data is not looked at before the source's settings are mended");
        return Ok((report, None));
    }
    let progress = |scanned: Scanned<'_>| {
        let TableName { database, table } = scanned.table;
        say(&format!("{database}.{table}: {} rows read", scanned.rows));
    };
    let found = pipeline::check_data(config, filter, progress).await?;
    Ok((report, Some(found)))
}

fn render_data(found: &[Found]) -> String {
    if found.is_empty() {
        return "DATA    PostgreSQL can hold every value.\n\n".to_owned();
    }
    let mut text = String::new();
    for Found { table, column, kind, rows, outcome, config } in found {
        let outcome = match outcome {
            Outcome::Halts => "a run would halt",
            Outcome::Null => "stored as NULL",
            Outcome::Replace => "stored as the replacement",
            Outcome::Smallint => "stored as they are: the column becomes smallint instead of boolean",
            Outcome::ComparedOtherwise => {
                "stored as they are: in a unique key, the target's collation may judge them otherwise"
            }
            Outcome::Stored => "stored as they are: a foreign key on the target would refuse them",
        };
        writeln!(text, "DATA    {table}: {column}\n  {kind}: {}; {outcome}", counted(*rows, "row"))
            .unwrap_or_default();
        if let Some(config) = config {
            writeln!(text, "  config:  {}", config.replace('\n', "\n           ")).unwrap_or_default();
        }
        text.push('\n');
    }
    text
}

/// PostgreSQL tells nobody how much room its disks have.
fn render_size(size: &Size) -> String {
    let Size { tables, data_bytes, index_bytes } = *size;
    format!(
        "SIZE    {}: {} of rows and {} of other indexes on the source.\n  \
         PostgreSQL does not tell how much room it has: see that it is more than both together, and more than the \
         rows once again for its WAL.\n\n",
        counted(tables, "table"),
        megabytes(data_bytes),
        megabytes(index_bytes)
    )
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes.div_ceil(1 << 20))
}

/// Errors first: they are what has to be mended. `halting` kinds of values would halt a run as well.
fn render(findings: &[Finding], halting: usize) -> String {
    let mut text = String::new();
    let (errors, warnings): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|finding| finding.is_error());
    for finding in errors.iter().chain(&warnings) {
        let mark = if finding.is_error() { "ERROR  " } else { "WARNING" };
        let fix = finding.fix.replace('\n', "\n           ");
        let Finding { name, problem, reason, .. } = finding;
        write!(text, "{mark} {name}\n  problem: {problem}\n  reason:  {reason}\n  fix:     {fix}\n\n")
            .unwrap_or_default();
    }
    let mut verdict = Vec::new();
    if !errors.is_empty() {
        verdict.push(format!("{} to mend", counted(errors.len() as u64, "error")));
    }
    if halting > 0 {
        verdict.push(format!("a run would halt at {} of values", counted(halting as u64, "kind")));
    }
    if verdict.is_empty() {
        verdict.push("Nothing stands in the way".to_owned());
    }
    if !warnings.is_empty() {
        verdict.push(counted(warnings.len() as u64, "warning"));
    }
    format!("{text}{}.", verdict.join("; "))
}

fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_shown_as_counts_with_what_to_configure() {
        let found = Found {
            table: "app.t".to_owned(),
            column: "note".to_owned(),
            kind: "nul_text",
            rows: 1,
            outcome: Outcome::Halts,
            config: Some("[policies.\"app.t.note\"]\nnul_text = \"replace\"".to_owned()),
        };
        let expected = "DATA    app.t: note\n  nul_text: 1 row; a run would halt\n  config:  \
            [policies.\"app.t.note\"]\n           nul_text = \"replace\"\n\n";
        assert_eq!(render_data(&[found]), expected);
        assert!(render_data(&[]).contains("every value"));
    }

    #[test]
    fn sizes_are_rounded_up() {
        let text = render_size(&Size { tables: 1, data_bytes: (5 << 20) + 1, index_bytes: 0 });
        assert!(text.starts_with("SIZE    1 table: 6 MB of rows and 0 MB of other indexes"), "{text}");
    }

    #[test]
    fn errors_come_first_and_the_verdict_counts() {
        let warning = Finding::warning("source.expire", "short", "gap", "SET GLOBAL x = 1;");
        let error =
            Finding::error("source.gtid_mode", "OFF", "position", "SET GLOBAL a = 1;\nSET GLOBAL b = 2;");
        let text = render(&[warning.clone(), error.clone()], 0);
        let (first, second) = (text.find("source.gtid_mode"), text.find("source.expire"));
        assert!(first.is_some() && first < second, "{text}");
        assert!(text.contains("  fix:     SET GLOBAL a = 1;\n           SET GLOBAL b = 2;"), "{text}");
        assert!(text.ends_with("1 error to mend; 1 warning."), "{text}");
        assert!(render(std::slice::from_ref(&warning), 0).ends_with("Nothing stands in the way; 1 warning."));
        assert_eq!(render(&[], 0), "Nothing stands in the way.");
        assert!(render(&[warning], 1).ends_with("\na run would halt at 1 kind of values; 1 warning."));
        assert!(
            render(&[error.clone(), error], 2)
                .ends_with("2 errors to mend; a run would halt at 2 kinds of values.")
        );
    }
}
