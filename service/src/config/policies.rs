//! `[policies]`: for all columns by the table of keys, and for single columns by tables named after
//! them.

use toml::Value as Toml;

use super::Problems;
use super::settings::Settings;
use crate::schema::policy::{Policies, Policy, ValueKind};

/// The section's name.
pub(super) const SECTION: &str = "policies";

/// A policy of one column, as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnPolicy {
    /// `database.table.column`
    column: String,
    kind: ValueKind,
    policy: Policy,
}

/// Reads the tables of single columns; whether the columns are there is for the source to say.
pub(super) fn of_columns(section: &toml::Table, problems: &mut Problems) -> Vec<ColumnPolicy> {
    let mut policies = Vec::new();
    for (column, content) in section {
        let Toml::Table(content) = content else { continue };
        if column.split('.').count() < 3 || column.split('.').any(str::is_empty) {
            let message = "is no column: write [policies.\"database.table.column\"], in quotes";
            problems.add(format!("{SECTION}.{column:?}"), message);
            continue;
        }
        for (kind, policy) in content {
            let path = format!("{SECTION}.{column:?}.{kind}");
            match column_policy(column, kind, policy) {
                Ok(policy) => policies.push(policy),
                Err(message) => problems.add(path, message),
            }
        }
    }
    policies
}

fn column_policy(column: &str, kind: &str, policy: &Toml) -> Result<ColumnPolicy, String> {
    let Some(kind) = ValueKind::from_name(kind) else {
        let kinds: Vec<&str> = ValueKind::ALL.iter().map(|kind| kind.name()).collect();
        return Err(format!("is no kind of value; one of {}", kinds.join(", ")));
    };
    let policy = policy.as_str().and_then(Policy::from_name).filter(|policy| kind.allows(*policy));
    let policy = policy.ok_or_else(|| format!("must be one of {}", kind.choices().join(", ")))?;
    Ok(ColumnPolicy { column: column.to_owned(), kind, policy })
}

/// All of the section.
pub(super) fn policies(settings: &Settings<'_>) -> Option<Policies> {
    let mut policies = Policies::default();
    for kind in ValueKind::ALL {
        let name = settings.text(&format!("{SECTION}.{kind}"))?;
        policies = policies.with(kind, Policy::from_name(name)?);
    }
    for ColumnPolicy { column, kind, policy } in &settings.column_policies {
        policies = policies.with_column(column, *kind, *policy);
    }
    Some(policies)
}
