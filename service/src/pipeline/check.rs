//! `tidegate check`: every problem of both servers at once.

use crate::config::Config;
use crate::halt::Failure;
use crate::preflight::Finding;
use crate::schema::filter::Filter;
use crate::{sink, source};

/// What keeps this configuration from an exact replication, source first.
///
/// # Errors
/// Only what keeps the checks from being made at all, such as a server that can't be reached.
pub async fn check(config: &Config, filter: &Filter) -> Result<Vec<Finding>, Failure> {
    let mut conn = source::connect::connect(&config.source).await?;
    let (settings, types) = (&config.source, &config.types);
    let mut findings = source::preflight::check(&mut conn, settings, filter, types, config.fold.xa).await?;
    // A table that can't be replicated is among the findings, and has no model.
    let has_errors = findings.iter().any(Finding::is_error);
    let tables = if has_errors {
        Vec::new()
    } else {
        source::reader::tables(&mut conn, filter, &config.types).await?
    };
    findings.extend(sink::preflight::check(&config.target, &config.name, &tables).await?);
    Ok(findings)
}
