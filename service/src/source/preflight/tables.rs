//! The included tables: what can't be replicated exactly, and what deserves attention.

use super::list;
use super::settings::Settings;
use crate::halt::Halt;
use crate::preflight::Finding;
use crate::schema::TableName;
use crate::schema::filter::Filter;
use crate::schema::overrides::Overrides;
use crate::source::reader::{TableFacts, models, quote};

/// Engines that keep rows and log them, but roll nothing back and have no read view.
const NON_TRANSACTIONAL: &[&str] = &["MyISAM", "ARCHIVE", "CSV", "MEMORY"];

/// A foreign key that changes rows of its table by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cascade {
    pub(super) database: String,
    pub(super) table: String,
    pub(super) constraint: String,
}

pub(super) fn check(filter: &Filter, overrides: &Overrides, tables: &[TableFacts]) -> Vec<Finding> {
    let mut findings = check_patterns(filter, tables);
    findings.extend(check_columns(overrides, tables));
    findings.extend(check_engines(tables));
    findings.extend(check_keys(tables));
    findings
}

fn shown(name: &TableName) -> String {
    format!("{}.{}", name.database, name.table)
}

/// The name of the finding for a pattern of `tables.include` without a table.
pub(super) const IDLE_PATTERN: &str = "source.tables.include";

fn check_patterns(filter: &Filter, tables: &[TableFacts]) -> Vec<Finding> {
    let idle = filter.idle_patterns(|| tables.iter().map(|table| &table.name));
    idle.into_iter()
        .map(|pattern| {
            Finding::error(
                IDLE_PATTERN,
                format!("tables.include has \"{pattern}\", which matches no table that is not excluded"),
                "most likely it is misspelt, or the account has no privilege on the tables and does not see them",
                "Correct or remove the pattern, or GRANT SELECT on the tables that it is to match.",
            )
        })
        .collect()
}

/// One finding per column that can't be converted.
fn check_columns(overrides: &Overrides, tables: &[TableFacts]) -> Vec<Finding> {
    let mut problems: Vec<Halt> = tables.iter().flat_map(|table| table.problems(overrides)).collect();
    if problems.is_empty() {
        problems.extend(models(tables, overrides).err());
    }
    problems
        .into_iter()
        .map(|halt| {
            let problem = match &halt.table {
                Some(table) => format!("{table}: {}", halt.detail),
                None => halt.detail.clone(),
            };
            Finding::error(
                "source.table.column",
                problem,
                "its values can't be converted",
                halt.reason.remedy(),
            )
        })
        .collect()
}

fn check_engines(tables: &[TableFacts]) -> Vec<Finding> {
    let is =
        |table: &TableFacts, engines: &[&str]| engines.iter().any(|e| table.engine.eq_ignore_ascii_case(e));
    let mut findings = Vec::new();
    for table in tables.iter().filter(|table| !is(table, &["InnoDB"])) {
        let (name, engine) = (shown(&table.name), &table.engine);
        let convert = format!(
            "ALTER TABLE {}.{} ENGINE = InnoDB;",
            quote(&table.name.database),
            quote(&table.name.table)
        );
        let problem = format!("{name} is of the engine {engine}");
        findings.push(if is(table, NON_TRANSACTIONAL) {
            let reason = "the engine rolls nothing back, logs the first rows of a statement that failed, and is copied \
                 under a lock";
            Finding::warning("source.table.engine", problem, reason, convert)
        } else {
            let reason = "the rows of such a table are elsewhere or do not exist";
            let fix = format!("Exclude the table, or {convert}");
            Finding::error("source.table.engine", problem, reason, fix)
        });
    }
    findings
}

fn check_keys(tables: &[TableFacts]) -> Option<Finding> {
    let names: Vec<String> =
        tables.iter().filter(|table| !table.has_key()).map(|table| shown(&table.name)).collect();
    (!names.is_empty()).then(|| {
        Finding::warning(
            "source.table.key",
            format!("no primary key and no unique key of NOT NULL columns: {}", list(&names)),
            "a change has to find its row by all its values, which is slow, and a copy that was cut off starts over",
            "ALTER TABLE … ADD PRIMARY KEY (…);",
        )
    })
}

pub(super) fn check_cascades(settings: &Settings, cascades: &[Cascade]) -> Option<Finding> {
    if settings.logs_cascades() || cascades.is_empty() {
        return None;
    }
    let names: Vec<String> =
        cascades.iter().map(|c| format!("{}.{} ({})", c.database, c.table, c.constraint)).collect();
    let drop: Vec<String> = cascades
        .iter()
        .map(|c| {
            format!(
                "ALTER TABLE {}.{} DROP FOREIGN KEY {};",
                quote(&c.database),
                quote(&c.table),
                quote(&c.constraint)
            )
        })
        .collect();
    let fix = if settings.can_log_cascades() {
        "SET PERSIST_ONLY innodb_native_foreign_keys = OFF; then restart the source.".to_owned()
    } else {
        format!(
            "Exclude the tables, upgrade the source to 9.6 or later, or add the keys again without actions after: {}",
            list(&drop)
        )
    };
    Some(Finding::error(
        "source.table.cascade",
        format!("foreign keys with CASCADE, SET NULL or SET DEFAULT: {}", list(&names)),
        format!("MySQL {} as it is set up does not log the rows that they change", settings.version()),
        fix,
    ))
}

pub(super) fn check_prepared_xa(count: usize) -> Option<Finding> {
    (count > 0).then(|| {
        Finding::warning(
            "source.prepared_xa",
            format!("{count} XA transactions are prepared and not resolved"),
            "a copy waits for those that have changed its table",
            "XA RECOVER CONVERT XID; then XA COMMIT or XA ROLLBACK those that their application has forgotten.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: &[&str]) -> Filter {
        let include: Vec<String> = include.iter().map(ToString::to_string).collect();
        Filter::new(&include, &[]).unwrap()
    }

    fn names(findings: &[Finding]) -> Vec<(&'static str, bool)> {
        findings.iter().map(|finding| (finding.name, finding.is_error())).collect()
    }

    #[test]
    fn patterns_that_match_nothing() {
        let tables = [TableFacts::example("app", "t", "InnoDB")];
        let findings = check_patterns(&filter(&["app.*", "app.misspelt", "other.*"]), &tables);
        assert_eq!(names(&findings), [("source.tables.include", true); 2]);
        assert!(findings[0].problem.contains("\"app.misspelt\""));
    }

    #[test]
    fn engines() {
        let of = |engine| names(&check_engines(&[TableFacts::example("app", "t", engine)]));
        assert_eq!(of("InnoDB"), []);
        for engine in ["MyISAM", "MEMORY"] {
            assert_eq!(of(engine), [("source.table.engine", false)], "{engine}");
        }
        for engine in ["BLACKHOLE", "MRG_MYISAM", "FEDERATED", ""] {
            assert_eq!(of(engine), [("source.table.engine", true)], "{engine}");
        }
    }

    #[test]
    fn keyless_tables_are_named() {
        let finding = check_keys(&[TableFacts::example("app", "t", "InnoDB")]).unwrap();
        assert!(!finding.is_error());
        assert!(finding.problem.contains("app.t"));
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..25).map(|n| n.to_string()).collect();
        assert!(list(&names).ends_with("19 and 5 more"));
        assert_eq!(list(&names[..2]), "0, 1");
    }

    #[test]
    fn cascades_matter_where_the_source_does_not_log_them() {
        let cascade =
            Cascade { database: "app".to_owned(), table: "child".to_owned(), constraint: "fk".to_owned() };
        let check = |numbers, native: &str| {
            let mut settings = Settings::new("x".to_owned(), numbers);
            settings.insert("innodb_native_foreign_keys".to_owned(), native.to_owned());
            check_cascades(&settings, std::slice::from_ref(&cascade))
        };
        assert_eq!(check((9, 7, 4), "OFF"), None);
        let native = check((9, 7, 4), "ON").unwrap();
        assert!(
            native.problem.contains("app.child") && native.fix.contains("innodb_native_foreign_keys = OFF")
        );
        assert!(check((8, 4, 0), "OFF").unwrap().fix.contains("DROP FOREIGN KEY `fk`"));
    }
}
