//! `tidegate check`: every problem of both servers at once.

use crate::config::{Config, FoldConfig};
use crate::halt::Failure;
use crate::preflight::Finding;
use crate::schema::filter::Filter;
use crate::source::data::{self, Found, Scanned};
use crate::spill::SpillDirectory;
use crate::{sink, source};

/// What keeps this configuration from an exact replication, source first.
///
/// # Errors
/// Only what keeps the checks from being made at all, such as a server that can't be reached.
pub async fn check(config: &Config, filter: &Filter) -> Result<Vec<Finding>, Failure> {
    let mut conn = source::connect::connect(&config.source).await?;
    let (settings, types) = (&config.source, &config.types);
    let mut findings = source::preflight::check(&mut conn, settings, filter, types, config.fold.xa).await?;
    if findings.iter().any(source::preflight::is_idle_pattern)
        && sink::report::has_position(&config.target, &config.name).await?
    {
        source::preflight::allow_idle_patterns(&mut findings);
    }
    // A table that can't be replicated is among the findings, and has no model.
    let has_errors = findings.iter().any(Finding::is_error);
    let tables = if has_errors {
        Vec::new()
    } else {
        source::reader::tables(&mut conn, filter, &config.types).await?
    };
    if !has_errors {
        let problems = config.policies.problems(&tables);
        findings.extend(problems.into_iter().map(policy_finding));
    }
    findings.extend(check_spill_directory(config));
    findings.extend(sink::preflight::check(&config.target, &config.name, &tables).await?);
    Ok(findings)
}

fn check_spill_directory(config: &Config) -> Option<Finding> {
    let FoldConfig { spill_directory, max_spill_bytes, .. } = &config.fold;
    let error = SpillDirectory::new(spill_directory.clone(), *max_spill_bytes).probe().err()?;
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
    let tables = source::reader::tables(&mut conn, filter, &config.types).await?;
    let chunk_rows = config.snapshot.chunk_rows;
    data::scan(&mut conn, &tables, &config.policies, chunk_rows, progress).await
}

fn policy_finding(problem: String) -> Finding {
    Finding::error(
        "policies.column",
        problem,
        "a policy for a column that is not there protects nothing, and may be meant for another one",
        "Correct the name in the configuration, as [policies.\"database.table.column\"], or remove it.",
    )
}
