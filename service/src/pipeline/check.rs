//! `tidegate check`: every problem of both servers at once.

use crate::config::Config;
use crate::halt::{Failure, Side};
use crate::preflight::{Finding, Severity, Size};
use crate::schema::filter::Filter;
use crate::schema::overrides::Overrides;
use crate::schema::render;
use crate::schema::width::{ROW_BYTES_MAX, row_width};
use crate::schema::{TableModel, TableName};
use crate::source::data::{self, Found, Scanned};
use crate::spill::SpillDirectory;
use crate::{sink, source, tls};

/// What `check` has to say.
#[derive(Debug, Default)]
pub struct Report {
    /// Source first.
    pub findings: Vec<Finding>,
    /// `None` where the source could not be asked.
    pub size: Option<Size>,
}

/// What keeps this configuration from an exact replication. A side that can't be looked at is a
/// finding, and the other side is looked at all the same.
pub async fn check(config: &Config, filter: &Filter) -> Report {
    let mut report = Report { findings: tls::advice::findings(config), size: None };
    report.findings.extend(check_spill_directory(config));
    let tables = match check_source(config, filter, &mut report).await {
        Ok(tables) => tables,
        Err(failure) => {
            report.findings.push(cut_short(Side::Source, &failure));
            Vec::new()
        }
    };
    report.findings.extend(tables.iter().filter_map(too_wide));
    match sink::preflight::check(&config.target, &config.name, &tables).await {
        Ok(findings) => report.findings.extend(findings),
        Err(failure) => report.findings.push(cut_short(Side::Target, &failure)),
    }
    report
}

/// The models of the tables that can be replicated, for the look at the target.
async fn check_source(
    config: &Config,
    filter: &Filter,
    report: &mut Report,
) -> Result<Vec<TableModel>, Failure> {
    let mut conn = source::connect::connect(&config.source).await?;
    let (settings, types) = (&config.source, &types_for_target(config).await);
    let mut findings = source::preflight::check(&mut conn, settings, filter, types, config.fold.xa).await?;
    // A target that can't be asked is told of by itself.
    if findings.iter().any(source::preflight::is_idle_pattern)
        && sink::report::has_position(&config.target, &config.name).await.unwrap_or_default()
    {
        source::preflight::allow_idle_patterns(&mut findings);
    }
    let has_errors = findings.iter().any(Finding::is_error);
    report.findings.extend(findings);
    report.size = Some(source::preflight::size(&mut conn, filter).await?);
    // A table that can't be replicated is among the findings, and has no model.
    let (mut tables, _) = source::reader::describe(&mut conn, filter, types).await?;
    tables.retain(|table| render::refusal(table).is_none());
    if !has_errors {
        let problems = config.policies.problems(&tables);
        report.findings.extend(problems.into_iter().map(policy_finding));
    }
    Ok(tables)
}

/// A target that can't be asked is told of by itself.
async fn types_for_target(config: &Config) -> Overrides {
    sink::postgis::types_at(&config.target, &config.types).await.unwrap_or_else(|_| config.types.clone())
}

/// A side that could not be looked at, or not to the end.
fn cut_short(side: Side, failure: &Failure) -> Finding {
    let name = match side {
        Side::Source => "source.connection",
        Side::Target => "target.connection",
    };
    let fix = match failure {
        Failure::Halt(halt) => halt.reason.remedy(),
        Failure::Retry { .. } => {
            "See that the server runs and can be reached, and that address, account, password and TLS settings \
             are right; then check again."
        }
    };
    let reason = "what could not be asked is not checked, nor what depends on it";
    Finding::error(name, failure.to_string(), reason, fix)
}

fn too_wide(table: &TableModel) -> Option<Finding> {
    let width = row_width(table);
    if width.greatest <= ROW_BYTES_MAX {
        return None;
    }
    let always = width.least > ROW_BYTES_MAX;
    let (bytes, verb) = if always { (width.least, "take") } else { (width.greatest, "can take") };
    let TableName { database, table } = &table.name;
    let finding = Finding::warning(
        "target.row_width",
        format!("rows of {database}.{table} {verb} {bytes} bytes on the target"),
        "a row has to fit into a page, 8160 bytes, once its long values are moved out; one that does not halts the \
         pipeline",
        "Split the table, let it have fewer columns of numbers, dates and times, or exclude it.",
    );
    Some(if always { Finding { severity: Severity::Error, ..finding } } else { finding })
}

fn check_spill_directory(config: &Config) -> Option<Finding> {
    let error = SpillDirectory::of(&config.fold).probe().err()?;
    Some(Finding::error(
        "fold.spill_directory",
        format!("no file can be made there: {error}"),
        "a transaction larger than memory goes on in a file",
        "Name another directory, or let the user that runs Tidegate write to this one.",
    ))
}

/// What the rows of every replicated table hold that PostgreSQL can't. Reads all of them.
///
/// # Errors
/// Failures of the source, and tables that can't be replicated at all.
pub async fn check_data(
    config: &Config,
    filter: &Filter,
    progress: impl FnMut(Scanned<'_>),
) -> Result<Vec<Found>, Failure> {
    let mut conn = source::connect::connect(&config.source).await?;
    let tables = source::reader::tables(&mut conn, filter, &types_for_target(config).await).await?;
    let chunk_rows = config.snapshot.chunk_rows;
    let mut session = source::connect::session(&config.source).await?;
    data::scan(&mut session, &tables, &config.policies, chunk_rows, progress).await
}

fn policy_finding(problem: String) -> Finding {
    Finding::error(
        "policies.column",
        problem,
        "a policy for a column that is not there protects nothing, and may be meant for another one",
        "Correct the name in the configuration, as [policies.\"database.table.column\"], or remove it.",
    )
}
