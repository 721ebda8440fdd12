//! Privileges, from `SHOW GRANTS` (MySQL manual, "SHOW GRANTS Statement", "Account Management
//! Statements": GRANT, and "Privilege Restriction Using Partial Revokes").

use std::collections::BTreeSet;

use super::list;
use crate::fold::XaPolicy;
use crate::preflight::Finding;
use crate::source::reader::{TableFacts, quote};

const ALL: &str = "ALL PRIVILEGES";

/// The privileges of an account and its active roles.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Grants {
    /// As SQL names it.
    account: String,
    global: BTreeSet<String>,
    /// Database name or pattern.
    databases: Vec<(String, BTreeSet<String>)>,
    tables: Vec<(String, String, BTreeSet<String>)>,
    /// Partial revokes of global privileges.
    revoked: Vec<(String, BTreeSet<String>)>,
    /// Names of databases are literal: partial revokes are on.
    literal_names: bool,
}

impl Grants {
    /// `account` as `CURRENT_USER()` gives it, `lines` those of `SHOW GRANTS`. A line that grants
    /// nothing on databases or tables (roles, routines, proxies) adds nothing.
    pub(super) fn parse(account: &str, lines: &[String], literal_names: bool) -> Self {
        let (user, host) = account.rsplit_once('@').unwrap_or((account, "%"));
        let account = format!("{}@{}", quote(user), quote(host));
        let mut grants = Self { account, literal_names, ..Self::default() };
        for line in lines {
            grants.add(line);
        }
        grants
    }

    fn add(&mut self, line: &str) -> Option<()> {
        let (revoke, rest) = match line.strip_prefix("REVOKE ") {
            Some(rest) => (true, rest),
            None => (false, line.strip_prefix("GRANT ")?),
        };
        let (privileges, rest) = split_at_keyword(rest, " ON ")?;
        let privileges = privilege_set(privileges);
        let (database, rest) = object_part(rest)?;
        let (table, _) = object_part(rest.strip_prefix('.')?)?;
        match (revoke, database, table) {
            (true, Some(database), None) => self.revoked.push((database, privileges)),
            (false, None, None) => self.global.extend(privileges),
            (false, Some(database), None) => self.databases.push((database, privileges)),
            (false, Some(database), Some(table)) => self.tables.push((database, table, privileges)),
            _ => {}
        }
        Some(())
    }

    pub(super) fn has_global(&self, privilege: &str) -> bool {
        holds(&self.global, privilege)
    }

    fn has_on_database(&self, privilege: &str, database: &str) -> bool {
        let revoked = self.revoked.iter().any(|(name, set)| name == database && holds(set, privilege));
        (self.has_global(privilege) && !revoked)
            || self.databases.iter().any(|(name, set)| self.names(name, database) && holds(set, privilege))
    }

    fn has_on_table(&self, privilege: &str, database: &str, table: &str) -> bool {
        self.has_on_database(privilege, database)
            || self.tables.iter().any(|(d, t, set)| d == database && t == table && holds(set, privilege))
    }

    fn names(&self, pattern: &str, database: &str) -> bool {
        if self.literal_names { pattern == database } else { is_like(pattern, database) }
    }
}

fn holds(set: &BTreeSet<String>, privilege: &str) -> bool {
    set.contains(privilege) || set.contains(ALL)
}

/// Splits at a keyword outside quotes.
fn split_at_keyword<'a>(text: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        if c == '`' {
            quoted = !quoted;
        } else if !quoted && let Some(after) = text.get(at..).and_then(|rest| rest.strip_prefix(keyword)) {
            return Some((text.get(..at)?, after));
        }
    }
    None
}

/// The privileges of a list. Those on single columns give none on the table and are left out.
fn privilege_set(list: &str) -> BTreeSet<String> {
    let mut depth = 0_u32;
    let mut quoted = false;
    let parts = list.split(|c: char| {
        match c {
            '`' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0 && !quoted
    });
    parts.map(str::trim).filter(|part| !part.contains('(')).map(str::to_ascii_uppercase).collect()
}

/// A quoted name, or `*` as `None`, and what follows it.
fn object_part(text: &str) -> Option<(Option<String>, &str)> {
    if let Some(rest) = text.strip_prefix('*') {
        return Some((None, rest));
    }
    let mut rest = text.strip_prefix('`')?;
    let mut name = String::new();
    loop {
        let (before, after) = rest.split_once('`')?;
        name.push_str(before);
        match after.strip_prefix('`') {
            Some(more) => {
                name.push('`');
                rest = more;
            }
            None => return Some((Some(name), after)),
        }
    }
}

/// `LIKE` with backslash as escape, as in the database names of grants.
fn is_like(pattern: &str, name: &str) -> bool {
    let mut chars = pattern.chars();
    match chars.next() {
        None => name.is_empty(),
        Some('%') => {
            let rest = chars.as_str();
            (0..=name.len()).any(|at| name.get(at..).is_some_and(|tail| is_like(rest, tail)))
        }
        Some('_') => {
            let mut name = name.chars();
            name.next().is_some() && is_like(chars.as_str(), name.as_str())
        }
        Some('\\') => match chars.next() {
            None => name == "\\",
            Some(literal) => name.strip_prefix(literal).is_some_and(|tail| is_like(chars.as_str(), tail)),
        },
        Some(literal) => name.strip_prefix(literal).is_some_and(|tail| is_like(chars.as_str(), tail)),
    }
}

/// What the account lacks.
pub(super) fn check(grants: &Grants, tables: &[TableFacts]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (privilege, name, reason) in [
        (
            "REPLICATION SLAVE",
            "source.privilege.replication_slave",
            "the binlog is read as a replica reads it",
        ),
        (
            "REPLICATION CLIENT",
            "source.privilege.replication_client",
            "the binlog's filters and the server's own replication are checked before the start",
        ),
    ] {
        if !grants.has_global(privilege) {
            findings.push(missing_global(grants, privilege, name, reason));
        }
    }
    findings.extend(missing_on_tables(grants, tables));
    if !grants.has_global("BACKUP_ADMIN") {
        let problem = "the account lacks BACKUP_ADMIN";
        let reason = "without it DDL can't be held off while a table is copied, and DDL on it makes the copy start over";
        let fix = format!("GRANT BACKUP_ADMIN ON *.* TO {};", grants.account);
        findings.push(Finding::warning("source.privilege.backup_admin", problem, reason, fix));
    }
    if !grants.has_on_table("SELECT", "performance_schema", "metadata_locks") {
        findings.push(Finding::warning(
            "source.privilege.metadata_locks",
            "the account lacks SELECT on performance_schema.metadata_locks",
            "without it a statement that waits for a table's copy is not seen, and writers wait behind it",
            format!("GRANT SELECT ON performance_schema.metadata_locks TO {};", grants.account),
        ));
    }
    findings
}

fn missing_global(grants: &Grants, privilege: &str, name: &'static str, reason: &str) -> Finding {
    let fix = format!("GRANT {privilege} ON *.* TO {};", grants.account);
    Finding::error(name, format!("the account lacks {privilege}"), reason, fix)
}

fn missing_on_tables(grants: &Grants, tables: &[TableFacts]) -> Vec<Finding> {
    let select: Vec<&TableFacts> = tables
        .iter()
        .filter(|table| !grants.has_on_table("SELECT", &table.name.database, &table.name.table))
        .collect();
    let lock: Vec<&TableFacts> =
        tables.iter().filter(|table| !grants.has_on_database("LOCK TABLES", &table.name.database)).collect();
    let finding = |lacking: &[&TableFacts], privilege: &str, name, reason: &str| {
        let databases: BTreeSet<&str> = lacking.iter().map(|table| table.name.database.as_str()).collect();
        let names: Vec<String> = databases.iter().map(|database| quote(database)).collect();
        let fix: Vec<String> = names
            .iter()
            .map(|name| format!("GRANT {privilege} ON {name}.* TO {};", grants.account))
            .collect();
        let problem = format!("the account lacks {privilege} on tables of {}", list(&names));
        (!lacking.is_empty()).then(|| Finding::error(name, problem, reason, fix.join(" ")))
    };
    let select = finding(&select, "SELECT", "source.privilege.select", "the tables are copied first");
    let lock = finding(
        &lock,
        "LOCK TABLES",
        "source.privilege.lock_tables",
        "a copy starts under a read lock of a few milliseconds, which ties it to a position in the binlog",
    );
    select.into_iter().chain(lock).collect()
}

/// Kinds of objects of a database that the account may not see (MySQL manual, "INFORMATION_SCHEMA
/// TRIGGERS Table", "… ROUTINES Table", "… EVENTS Table").
pub(super) fn not_seen(grants: &Grants, database: &str) -> Vec<String> {
    let routines = ["EXECUTE", "CREATE ROUTINE", "ALTER ROUTINE"];
    let sees_routines = grants.has_global("SELECT")
        || grants.has_global("SHOW_ROUTINE")
        || routines.iter().any(|privilege| grants.has_on_database(privilege, database));
    let sees = |privilege| grants.has_on_database(privilege, database);
    let (name, account) = (quote(database), &grants.account);
    [
        ("triggers", sees("TRIGGER"), format!("GRANT TRIGGER ON {name}.* TO {account}")),
        ("routines", sees_routines, format!("GRANT SHOW_ROUTINE ON *.* TO {account}")),
        ("events", sees("EVENT"), format!("GRANT EVENT ON {name}.* TO {account}")),
    ]
    .into_iter()
    .filter(|(_, seen, _)| !seen)
    .map(|(kind, _, grant)| format!("{kind} of {name}, which the account may not see: {grant}"))
    .collect()
}

/// Where XA is followed the list decides which resolutions are to be expected.
pub(super) fn no_xa_recover(grants: &Grants, xa: XaPolicy) -> Finding {
    let finding = match xa {
        XaPolicy::Refuse | XaPolicy::PassOver => Finding::warning,
        XaPolicy::Track(_) => Finding::error,
    };
    finding(
        "source.privilege.xa_recover_admin",
        "the account lacks XA_RECOVER_ADMIN".to_owned(),
        "XA transactions that were prepared before the start can't be listed, so that the commit of one halts the \
         pipeline"
            .to_owned(),
        format!("GRANT XA_RECOVER_ADMIN ON *.* TO {};", grants.account),
    )
}

#[cfg(test)]
mod tests;
