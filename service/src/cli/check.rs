//! `tidegate check`

use std::fmt::Write as _;

use serde_json::json;

use super::Exit;
use super::output::{Output, say};
use crate::config::Config;
use crate::pipeline;
use crate::preflight::Finding;
use crate::schema::filter::Filter;

pub(super) async fn check(config: &Config, output: Output) -> Exit {
    let filter = match Filter::new(&config.tables.include, &config.tables.exclude) {
        Ok(filter) => filter,
        Err(error) => {
            say(&error.to_string());
            return Exit::Usage;
        }
    };
    match pipeline::check(config, &filter).await {
        Ok(findings) => {
            let exit = if findings.iter().any(Finding::is_error) { Exit::ProblemsFound } else { Exit::Done };
            output.result(&json!({ "findings": findings }), || render(&findings), exit)
        }
        Err(failure) => {
            say(&failure.to_string());
            Exit::Error
        }
    }
}

/// Errors first: they are what has to be mended.
fn render(findings: &[Finding]) -> String {
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
    let verdict = match (errors.len(), warnings.len()) {
        (0, 0) => "Nothing stands in the way.".to_owned(),
        (0, warnings) => format!("Nothing stands in the way; {}.", counted(warnings, "warning")),
        (errors, 0) => format!("{} to mend.", counted(errors, "error")),
        (errors, warnings) => {
            format!("{} to mend; {}.", counted(errors, "error"), counted(warnings, "warning"))
        }
    };
    text + &verdict
}

fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_first_and_the_verdict_counts() {
        let warning = Finding::warning("source.expire", "short", "gap", "SET GLOBAL x = 1;");
        let error =
            Finding::error("source.gtid_mode", "OFF", "position", "SET GLOBAL a = 1;\nSET GLOBAL b = 2;");
        let text = render(&[warning.clone(), error.clone()]);
        let (first, second) = (text.find("source.gtid_mode"), text.find("source.expire"));
        assert!(first.is_some() && first < second, "{text}");
        assert!(text.contains("  fix:     SET GLOBAL a = 1;\n           SET GLOBAL b = 2;"), "{text}");
        assert!(text.ends_with("1 error to mend; 1 warning."), "{text}");
        assert!(render(&[warning]).ends_with("Nothing stands in the way; 1 warning."));
        assert!(render(&[error.clone(), error]).ends_with("2 errors to mend."));
        assert_eq!(render(&[]), "Nothing stands in the way.");
    }
}
