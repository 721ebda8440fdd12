//! A source that is itself a replica: what it does to the changes that it receives.

use mysql_async::Row;

use super::settings::Settings;
use super::text;
use crate::halt::Failure;
use crate::preflight::Finding;

/// Columns of `SHOW REPLICA STATUS` that are filters, with the option of `CHANGE REPLICATION FILTER`
/// that each shows (MySQL manual, "SHOW REPLICA STATUS Statement").
const FILTERS: &[(&str, &str)] = &[
    ("Replicate_Do_DB", "REPLICATE_DO_DB"),
    ("Replicate_Ignore_DB", "REPLICATE_IGNORE_DB"),
    ("Replicate_Do_Table", "REPLICATE_DO_TABLE"),
    ("Replicate_Ignore_Table", "REPLICATE_IGNORE_TABLE"),
    ("Replicate_Wild_Do_Table", "REPLICATE_WILD_DO_TABLE"),
    ("Replicate_Wild_Ignore_Table", "REPLICATE_WILD_IGNORE_TABLE"),
    ("Replicate_Rewrite_DB", "REPLICATE_REWRITE_DB"),
];

/// The filters that one replication channel has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Channel {
    name: String,
    /// Index in [`FILTERS`], and what it is set to.
    filters: Vec<(usize, String)>,
}

impl Channel {
    pub(super) fn of_row(row: &mut Row) -> Result<Self, Failure> {
        let mut channel = Self { name: column(row, "Channel_Name")?, filters: Vec::new() };
        for (index, (name, _)) in FILTERS.iter().enumerate() {
            let value = column(row, name)?;
            if !value.is_empty() {
                channel.filters.push((index, value));
            }
        }
        Ok(channel)
    }

    fn filter(&self) -> Option<Finding> {
        let known = |index: usize| FILTERS.get(index).copied().unwrap_or_default();
        let set: Vec<String> =
            self.filters.iter().map(|(index, value)| format!("{}={value}", known(*index).0)).collect();
        let reset: Vec<String> =
            self.filters.iter().map(|(index, _)| format!("{} = ()", known(*index).1)).collect();
        let channel = format!("FOR CHANNEL '{}'", self.name.replace('\'', "''"));
        (!set.is_empty()).then(|| {
            Finding::warning(
                "source.replica_filter",
                format!("the source is a replica that filters what it receives: {}", set.join(", ")),
                "what its filters drop never reaches the target, though it counts as processed: after a failover to a \
                 server without these filters the target lacks it",
                format!(
                    "STOP REPLICA SQL_THREAD {channel}; CHANGE REPLICATION FILTER {} {channel}; \
                     START REPLICA SQL_THREAD {channel}; after the rows that it dropped were copied to it. Remove \
                     replicate-* from its option file as well.",
                    reset.join(", ")
                ),
            )
        })
    }
}

/// A column by its name; empty where the version does not have it.
fn column(row: &mut Row, name: &str) -> Result<String, Failure> {
    let index = row.columns_ref().iter().position(|column| column.name_str() == name);
    index.map_or_else(|| Ok(String::new()), |index| text(row, index))
}

/// What is to be said of a server that is a replica through these channels.
pub(super) fn check(settings: &Settings, channels: &[Channel]) -> Vec<Finding> {
    if channels.is_empty() {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = channels.iter().filter_map(Channel::filter).collect();
    if ["log_replica_updates", "log_slave_updates"].iter().any(|name| settings.is(name, "OFF")) {
        findings.push(Finding::error(
            "source.log_replica_updates",
            "the source is a replica with log_replica_updates=OFF",
            "what it receives from its own source is not in its binlog",
            "SET PERSIST_ONLY log_replica_updates = ON; then restart the source.",
        ));
    }
    findings.extend(check_commit_order(settings));
    findings
}

/// With one worker, or none, the order can't change.
fn check_commit_order(settings: &Settings) -> Option<Finding> {
    let workers = settings.number("replica_parallel_workers").or(settings.number("slave_parallel_workers"))?;
    let variable = ["replica_preserve_commit_order", "slave_preserve_commit_order"]
        .into_iter()
        .find(|name| settings.is(name, "OFF"))?;
    (workers > 1).then(|| {
        Finding::warning(
            "source.replica_preserve_commit_order",
            format!("the source is a replica with {workers} workers and {variable}=OFF"),
            "it commits in another order than its own source, so that the target passes through states that the \
             source's source never had",
            format!(
                "STOP REPLICA SQL_THREAD; SET PERSIST {variable} = ON; START REPLICA SQL_THREAD; (before 8.0.19 it \
                 needs slave_parallel_type = 'LOGICAL_CLOCK')"
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(changed: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::new("9.7.0".to_owned(), (9, 7, 0));
        for (name, value) in changed {
            settings.insert((*name).to_owned(), (*value).to_owned());
        }
        settings
    }

    fn names(settings: &Settings, channels: &[Channel]) -> Vec<&'static str> {
        check(settings, channels).iter().map(|finding| finding.name).collect()
    }

    #[test]
    fn only_a_replica_is_looked_at() {
        let channel = [Channel { name: String::new(), filters: Vec::new() }];
        let bad = settings(&[
            ("log_slave_updates", "OFF"),
            ("slave_preserve_commit_order", "OFF"),
            ("slave_parallel_workers", "4"),
        ]);
        assert_eq!(names(&bad, &[]), [""; 0]);
        assert_eq!(
            names(&bad, &channel),
            ["source.log_replica_updates", "source.replica_preserve_commit_order"]
        );
        let single = settings(&[("replica_preserve_commit_order", "OFF"), ("replica_parallel_workers", "1")]);
        assert_eq!(names(&single, &channel), [""; 0]);
    }

    #[test]
    fn filters_are_named_with_what_removes_them() {
        let filters = vec![(3, "app.t".to_owned()), (6, "(a,b)".to_owned())];
        let finding = Channel { name: "up".to_owned(), filters }.filter().unwrap();
        assert!(finding.problem.ends_with("Replicate_Ignore_Table=app.t, Replicate_Rewrite_DB=(a,b)"));
        assert!(
            finding.fix.contains("REPLICATE_IGNORE_TABLE = (), REPLICATE_REWRITE_DB = () FOR CHANNEL 'up'")
        );
    }
}
