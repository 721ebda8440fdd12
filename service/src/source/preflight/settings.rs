//! Settings of the source, as `SHOW GLOBAL VARIABLES` shows them.

use std::collections::BTreeMap;

use crate::preflight::Finding;
use crate::source::reader::TableFacts;

/// The variables that are looked at.
pub(super) const VARIABLES: &[&str] = &[
    "binlog_error_action",
    "binlog_expire_logs_auto_purge",
    "binlog_expire_logs_seconds",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "enforce_gtid_consistency",
    "gtid_mode",
    "innodb_flush_log_at_trx_commit",
    "innodb_native_foreign_keys",
    "log_bin",
    "log_replica_updates",
    "log_slave_updates",
    "lower_case_table_names",
    "partial_revokes",
    "replica_parallel_workers",
    "replica_preserve_commit_order",
    "server_id",
    "slave_parallel_workers",
    "slave_preserve_commit_order",
    "sync_binlog",
];

const OLDEST_VERSION: (u16, u16) = (8, 0);
/// The newest series that is tested.
const NEWEST_VERSION: (u16, u16) = (9, 7);
/// From here on the SQL layer carries out foreign key actions and logs their rows.
const LOGS_CASCADES_VERSION: (u16, u16) = (9, 6);

/// A day: a stop of that length is repaired without a new copy.
const EXPIRE_SECONDS_MIN: u64 = 86_400;

/// What the source is set to.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    version: String,
    series: (u16, u16),
    values: BTreeMap<String, String>,
}

impl Settings {
    pub(super) fn new(version: String, numbers: (u16, u16, u16)) -> Self {
        Self { version, series: (numbers.0, numbers.1), values: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, variable: String, value: String) {
        self.values.insert(variable.to_ascii_lowercase(), value);
    }

    fn get(&self, variable: &str) -> Option<&str> {
        self.values.get(variable).map(String::as_str)
    }

    /// Whether the variable exists and has this value, whatever its spelling.
    pub(super) fn is(&self, variable: &str, value: &str) -> bool {
        self.get(variable).is_some_and(|is| is.eq_ignore_ascii_case(value))
    }

    pub(super) fn number(&self, variable: &str) -> Option<u64> {
        self.get(variable)?.parse().ok()
    }

    /// After how many seconds binlogs are purged; `None` for never.
    pub(super) fn expiry_seconds(&self) -> Option<u64> {
        let seconds = self.number("binlog_expire_logs_seconds")?;
        (seconds != 0 && !self.is("binlog_expire_logs_auto_purge", "OFF")).then_some(seconds)
    }

    pub(super) fn is_too_old(&self) -> bool {
        self.series < OLDEST_VERSION
    }

    /// Whether the rows that foreign key actions change are in the binlog.
    pub(super) fn logs_cascades(&self) -> bool {
        self.series >= LOGS_CASCADES_VERSION && !self.is("innodb_native_foreign_keys", "ON")
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Whether the version could log the rows of foreign key actions.
    pub(super) fn can_log_cascades(&self) -> bool {
        self.series >= LOGS_CASCADES_VERSION
    }
}

/// A variable that has to have one value.
struct Required {
    variable: &'static str,
    finding: &'static str,
    value: &'static str,
    reason: &'static str,
    fix: &'static str,
}

const REQUIRED: &[Required] = &[
    Required {
        variable: "lower_case_table_names",
        finding: "source.lower_case_table_names",
        value: "0",
        reason: "statements may spell a table's name in another case than the source stores it, and would be \
                 taken for statements on another table",
        fix: "Replicate from a server that was initialised with lower_case_table_names = 0; it can't be changed later.",
    },
    Required {
        variable: "log_bin",
        finding: "source.log_bin",
        value: "ON",
        reason: "changes are read from the binlog",
        fix: "Restart the source without --skip-log-bin and --disable-log-bin. A pipeline that was following it has to start \
              over: what was not logged meanwhile leaves no trace in the binlog.",
    },
    Required {
        variable: "binlog_format",
        finding: "source.binlog_format",
        value: "ROW",
        reason: "statements do not tell which rows they changed",
        fix: "SET PERSIST binlog_format = 'ROW';",
    },
    Required {
        variable: "binlog_row_image",
        finding: "source.binlog_row_image",
        value: "FULL",
        reason: "partial row images leave out columns that the target needs",
        fix: "SET PERSIST binlog_row_image = 'FULL';",
    },
    Required {
        variable: "binlog_row_metadata",
        finding: "source.binlog_row_metadata",
        value: "FULL",
        reason: "without column names and signs in the binlog a changed table can't be told from an unchanged one",
        fix: "SET PERSIST binlog_row_metadata = 'FULL';",
    },
    Required {
        variable: "binlog_row_value_options",
        finding: "source.binlog_row_value_options",
        value: "",
        reason: "partial JSON updates do not carry the document",
        fix: "SET PERSIST binlog_row_value_options = '';",
    },
    Required {
        variable: "enforce_gtid_consistency",
        finding: "source.enforce_gtid_consistency",
        value: "ON",
        reason: "without it transactions may be logged in parts, each with a GTID of its own",
        fix: "SET PERSIST enforce_gtid_consistency = ON;",
    },
    Required {
        variable: "binlog_error_action",
        finding: "source.binlog_error_action",
        value: "ABORT_SERVER",
        reason: "the source would go on without its binlog after an error and changes would be lost unseen",
        fix: "SET PERSIST_ONLY binlog_error_action = 'ABORT_SERVER'; then restart the source.",
    },
];

/// What is wrong with the settings. `our_server_id` is the one we dump under.
pub(super) fn check(settings: &Settings, our_server_id: u32) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(check_version(settings));
    findings.extend(REQUIRED.iter().filter_map(|required| check_required(settings, required)));
    findings.extend(check_gtid_mode(settings));
    findings.extend(check_server_id(settings, our_server_id));
    findings.extend(check_expiry(settings));
    findings.extend(check_durability(settings));
    findings
}

fn check_version(settings: &Settings) -> Option<Finding> {
    let version = &settings.version;
    if settings.is_too_old() {
        return Some(Finding::error(
            "source.version",
            format!("the source is MySQL {version}"),
            "before 8.0 the binlog lacks lengths, names and character sets that Tidegate checks",
            "Upgrade the source to MySQL 8.0 or later.",
        ));
    }
    (settings.series > NEWEST_VERSION).then(|| {
        Finding::warning(
            "source.version",
            format!("the source is MySQL {version}, which is newer than the releases tested"),
            "what this release does not know halts the pipeline; nothing is lost",
            "Upgrade Tidegate.",
        )
    })
}

fn check_required(settings: &Settings, required: &Required) -> Option<Finding> {
    let Required { variable, finding, value, reason, fix } = *required;
    let is = settings.get(variable)?;
    (!is.eq_ignore_ascii_case(value))
        .then(|| Finding::error(finding, format!("{variable} is '{is}', not '{value}'"), reason, fix))
}

/// The mode changes in single steps only.
fn check_gtid_mode(settings: &Settings) -> Option<Finding> {
    const MODES: [&str; 4] = ["OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"];
    let mode = settings.get("gtid_mode").unwrap_or("OFF");
    if mode.eq_ignore_ascii_case("ON") {
        return None;
    }
    let at = MODES.iter().position(|known| known.eq_ignore_ascii_case(mode)).unwrap_or(0);
    let steps: Vec<String> =
        MODES.iter().skip(at + 1).map(|mode| format!("SET PERSIST gtid_mode = {mode};")).collect();
    Some(Finding::error(
        "source.gtid_mode",
        format!("gtid_mode is '{mode}', not 'ON'"),
        "GTIDs are the only position that survives a failover and tells what has been applied",
        format!(
            "SET PERSIST enforce_gtid_consistency = ON; {} Before the last step wait until \
             SHOW GLOBAL STATUS LIKE 'Ongoing_anonymous_transaction_count' is 0.",
            steps.join(" ")
        ),
    ))
}

fn check_server_id(settings: &Settings, ours: u32) -> Option<Finding> {
    let id = settings.number("server_id")?;
    if id == 0 {
        return Some(Finding::error(
            "source.server_id",
            "server_id is 0",
            "such a server refuses replicas",
            "SET PERSIST server_id = 1; with a number that no other server has.",
        ));
    }
    (id == u64::from(ours)).then(|| {
        Finding::error(
            "source.server_id",
            format!("the source's server_id {id} is also source.server_id"),
            "each member of a replication topology has a server_id of its own",
            "Set source.server_id in Tidegate's configuration to a number that no other server has.",
        )
    })
}

fn check_expiry(settings: &Settings) -> Option<Finding> {
    let seconds = settings.expiry_seconds()?;
    (seconds < EXPIRE_SECONDS_MIN).then(|| {
        Finding::warning(
            "source.binlog_expire_logs_seconds",
            format!("binlogs are purged after {seconds} s"),
            "what is purged before it is applied can't be read again: the tables have to be copied anew. A first \
             copy, too, needs the binlogs since its start",
            "SET PERSIST binlog_expire_logs_seconds = 604800;",
        )
    })
}

fn check_durability(settings: &Settings) -> Vec<Finding> {
    ["sync_binlog", "innodb_flush_log_at_trx_commit"]
        .into_iter()
        .filter(|variable| !settings.is(variable, "1"))
        .filter_map(|variable| {
            let value = settings.get(variable)?;
            Some(Finding::warning(
                if variable == "sync_binlog" { "source.sync_binlog" } else { "source.flush_log" },
                format!("{variable} is {value}, not 1"),
                "a crash of the source's machine may lose transactions that the target already has: Tidegate then \
                 halts and the tables have to be copied anew",
                format!("SET PERSIST {variable} = 1;"),
            ))
        })
        .collect()
}

/// `binlog-do-db` and `binlog-ignore-db` filter rows by the table's database, but DDL by the
/// session's default database.
pub(super) fn check_logged_databases(logged: &str, ignored: &str, tables: &[TableFacts]) -> Vec<Finding> {
    if (logged.is_empty() && ignored.is_empty()) || tables.is_empty() {
        return Vec::new();
    }
    vec![Finding::error(
        "source.binlog_filter",
        format!(
            "the source logs some databases only (binlog-do-db '{logged}', binlog-ignore-db '{ignored}')"
        ),
        "changes and DDL of included tables may be missing from the binlog, depending on the default database of the \
         session that makes them",
        "Restart the source without --binlog-do-db and --binlog-ignore-db. A pipeline that was following it has to start \
         over: what was not logged meanwhile leaves no trace in the binlog.",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[(&str, &str)] = &[
        ("log_bin", "ON"),
        ("binlog_format", "ROW"),
        ("binlog_row_image", "FULL"),
        ("binlog_row_metadata", "FULL"),
        ("binlog_row_value_options", ""),
        ("enforce_gtid_consistency", "ON"),
        ("binlog_error_action", "ABORT_SERVER"),
        ("gtid_mode", "ON"),
        ("server_id", "1"),
        ("binlog_expire_logs_seconds", "2592000"),
        ("sync_binlog", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("innodb_native_foreign_keys", "OFF"),
        ("lower_case_table_names", "0"),
    ];

    fn settings(numbers: (u16, u16, u16), changed: &[(&str, &str)]) -> Settings {
        let version = format!("{}.{}.{}", numbers.0, numbers.1, numbers.2);
        let mut settings = Settings::new(version, numbers);
        for (variable, value) in GOOD.iter().chain(changed) {
            settings.insert((*variable).to_owned(), (*value).to_owned());
        }
        settings
    }

    fn names(settings: &Settings) -> Vec<(&'static str, bool)> {
        check(settings, 4242).iter().map(|finding| (finding.name, finding.is_error())).collect()
    }

    #[test]
    fn a_source_as_it_should_be_gives_no_finding() {
        assert_eq!(names(&settings((9, 7, 4), &[])), []);
        assert_eq!(names(&settings((8, 0, 11), &[])), []);
    }

    #[test]
    fn every_setting_is_reported_by_itself() {
        let cases = [
            ("lower_case_table_names", "1", "source.lower_case_table_names", true),
            ("log_bin", "OFF", "source.log_bin", true),
            ("binlog_format", "MIXED", "source.binlog_format", true),
            ("binlog_row_image", "minimal", "source.binlog_row_image", true),
            ("binlog_row_metadata", "MINIMAL", "source.binlog_row_metadata", true),
            ("binlog_row_value_options", "PARTIAL_JSON", "source.binlog_row_value_options", true),
            ("enforce_gtid_consistency", "WARN", "source.enforce_gtid_consistency", true),
            ("binlog_error_action", "IGNORE_ERROR", "source.binlog_error_action", true),
            ("gtid_mode", "ON_PERMISSIVE", "source.gtid_mode", true),
            ("server_id", "0", "source.server_id", true),
            ("server_id", "4242", "source.server_id", true),
            ("binlog_expire_logs_seconds", "3600", "source.binlog_expire_logs_seconds", false),
            ("sync_binlog", "0", "source.sync_binlog", false),
            ("innodb_flush_log_at_trx_commit", "2", "source.flush_log", false),
        ];
        for (variable, value, finding, is_error) in cases {
            let settings = settings((9, 7, 4), &[(variable, value)]);
            assert_eq!(names(&settings), [(finding, is_error)], "{variable}={value}");
        }
    }

    #[test]
    fn all_problems_come_at_once() {
        let settings =
            settings((5, 7, 44), &[("log_bin", "OFF"), ("gtid_mode", "OFF"), ("sync_binlog", "0")]);
        let found: Vec<_> = names(&settings).into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, ["source.version", "source.log_bin", "source.gtid_mode", "source.sync_binlog"]);
    }

    #[test]
    fn gtid_mode_is_raised_step_by_step() {
        let settings = settings((9, 7, 4), &[("gtid_mode", "OFF_PERMISSIVE")]);
        let fix = check_gtid_mode(&settings).unwrap().fix;
        assert!(fix.contains("SET PERSIST gtid_mode = ON_PERMISSIVE; SET PERSIST gtid_mode = ON;"));
        assert!(!fix.contains("gtid_mode = OFF_PERMISSIVE"));
    }

    #[test]
    fn versions() {
        assert_eq!(names(&settings((10, 0, 0), &[])), [("source.version", false)]);
        assert_eq!(names(&settings((5, 7, 0), &[])), [("source.version", true)]);
    }

    #[test]
    fn no_expiry_is_fine() {
        assert_eq!(names(&settings((9, 7, 4), &[("binlog_expire_logs_seconds", "0")])), []);
        let changed = [("binlog_expire_logs_seconds", "60"), ("binlog_expire_logs_auto_purge", "OFF")];
        assert_eq!(names(&settings((9, 7, 4), &changed)), []);
    }

    #[test]
    fn cascades_are_logged_from_9_6_on_unless_innodb_does_them() {
        assert!(settings((9, 7, 4), &[]).logs_cascades());
        assert!(!settings((9, 7, 4), &[("innodb_native_foreign_keys", "ON")]).logs_cascades());
        assert!(!settings((9, 5, 0), &[]).logs_cascades());
        assert!(!settings((8, 4, 0), &[]).logs_cascades());
    }
}
