//! Whether the source's settings, privileges and tables allow an exact replication.
//!
//! Everything is looked at and every problem reported, each with its reason and what mends it.
//! Most of it can be changed on a running server, globally or by one session: the fold checks
//! again what arrives.

mod grants;
mod replica;
mod settings;
mod size;
mod tables;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use self::grants::Grants;
use self::replica::Channel;
use self::settings::Settings;
use self::tables::Cascade;
use super::connect::{failure, identity, server_code};
use super::reader::{TableFacts, facts, field};
use super::xa;
use crate::config::SourceConfig;
use crate::fold::{Cascades, XaPolicy};
use crate::halt::Failure;
use crate::preflight::{Finding, Severity, Size};
use crate::schema::filter::Filter;
use crate::schema::overrides::Overrides;

/// Access denied for lack of a privilege.
const ER_SPECIFIC_ACCESS_DENIED: u16 = 1227;

/// Names in a list before it is cut off: enough to see the pattern, few enough to read.
const NAMES_SHOWN: usize = 20;

/// How much of the source the filter includes, by its statistics.
///
/// # Errors
/// Only what keeps the source from being asked.
pub async fn size(conn: &mut Conn, filter: &Filter) -> Result<Size, Failure> {
    size::read(conn, filter).await
}

/// Every problem of the source, settings first.
///
/// # Errors
/// Only what keeps the source from being asked.
pub async fn check(
    conn: &mut Conn,
    config: &SourceConfig,
    filter: &Filter,
    overrides: &Overrides,
    xa: XaPolicy,
) -> Result<Vec<Finding>, Failure> {
    let settings = read_settings(conn).await?;
    let mut findings = settings::check(&settings, config.server_id);
    if settings.is_too_old() {
        // It would not understand the other questions.
        return Ok(findings);
    }
    let grants = read_grants(conn, &settings).await?;
    let tables = facts(conn, None, |name| filter.matches(&name.database, &name.table)).await?;
    let cascades = read_cascades(conn, filter).await?;
    let size = size::read(conn, filter).await?;
    findings.extend(size::check_retention(&settings, &size));
    findings.extend(check_logged_databases(conn, &tables).await?);
    findings.extend(check_replica(conn, &settings).await?);
    findings.extend(grants::check(&grants, &tables));
    findings.extend(check_prepared_xa(conn, &grants, xa).await?);
    findings.extend(tables::check(filter, overrides, &tables));
    findings.extend(tables::check_cascades(&settings, &cascades));
    Ok(findings)
}

/// What the fold has to know of foreign keys that change rows of included tables.
///
/// # Errors
/// Only what keeps the source from being asked.
pub async fn cascades(conn: &mut Conn, filter: &Filter) -> Result<Cascades, Failure> {
    let logged = read_settings(conn).await?.logs_cascades();
    Ok(Cascades { exist: !read_cascades(conn, filter).await?.is_empty(), logged })
}

/// What of triggers, routines and events the account may not see, which the source leaves out of its
/// lists without a word; each with the statement that lets it.
///
/// # Errors
/// Only what keeps the source from being asked.
pub async fn not_seen(conn: &mut Conn, databases: &[&str]) -> Result<Vec<String>, Failure> {
    let settings = read_settings(conn).await?;
    let grants = read_grants(conn, &settings).await?;
    Ok(databases.iter().flat_map(|database| grants::not_seen(&grants, database)).collect())
}

/// Whether this is about a pattern of `tables.include` that matches no table.
#[must_use]
pub fn is_idle_pattern(finding: &Finding) -> bool {
    finding.name == tables::IDLE_PATTERN
}

/// Makes patterns without a table a warning, for a pipeline that has a position: its tables may have
/// been dropped on the source, which the stream has followed and will follow when they come back.
pub fn allow_idle_patterns(findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|finding| is_idle_pattern(finding)) {
        finding.severity = Severity::Warning;
    }
}

async fn rows(conn: &mut Conn, doing: &str, sql: &str) -> Result<Vec<Row>, Failure> {
    conn.query(sql).await.map_err(|error| failure(doing, &error))
}

fn text(row: &mut Row, index: usize) -> Result<String, Failure> {
    Ok(field(row, index)?.unwrap_or_default())
}

async fn read_settings(conn: &mut Conn) -> Result<Settings, Failure> {
    let identity = identity(conn).await?;
    let names: Vec<String> = settings::VARIABLES.iter().map(|name| format!("'{name}'")).collect();
    let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names.join(", "));
    let mut settings = Settings::new(identity.version, identity.version_numbers);
    for mut row in rows(conn, "show its settings", &sql).await? {
        settings.insert(text(&mut row, 0)?, text(&mut row, 1)?);
    }
    Ok(settings)
}

/// The account's privileges, those of its active roles among them.
async fn read_grants(conn: &mut Conn, settings: &Settings) -> Result<Grants, Failure> {
    let mut account = String::new();
    let mut roles = String::new();
    for mut row in rows(conn, "show its account", "SELECT CURRENT_USER(), CURRENT_ROLE()").await? {
        account = text(&mut row, 0)?;
        roles = text(&mut row, 1)?;
    }
    // CURRENT_ROLE() is a list of quoted names, or the word NONE.
    let using = if roles.starts_with('`') { format!(" USING {roles}") } else { String::new() };
    let mut lines = Vec::new();
    for mut row in rows(conn, "show its grants", &format!("SHOW GRANTS FOR CURRENT_USER(){using}")).await? {
        lines.push(text(&mut row, 0)?);
    }
    Ok(Grants::parse(&account, &lines, settings.is("partial_revokes", "ON")))
}

/// Foreign keys that change rows of an included child table by themselves.
async fn read_cascades(conn: &mut Conn, filter: &Filter) -> Result<Vec<Cascade>, Failure> {
    let sql = "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME \
         FROM information_schema.REFERENTIAL_CONSTRAINTS \
         WHERE UPDATE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') \
         OR DELETE_RULE IN ('CASCADE', 'SET NULL', 'SET DEFAULT') \
         ORDER BY CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME";
    let mut cascades = Vec::new();
    for mut row in rows(conn, "show its foreign keys", sql).await? {
        let (database, table) = (text(&mut row, 0)?, text(&mut row, 1)?);
        if filter.matches(&database, &table) {
            cascades.push(Cascade { database, table, constraint: text(&mut row, 2)? });
        }
    }
    Ok(cascades)
}

/// `binlog-do-db` and `binlog-ignore-db` show in no variable.
async fn check_logged_databases(conn: &mut Conn, tables: &[TableFacts]) -> Result<Vec<Finding>, Failure> {
    let statement =
        if conn.server_version() >= (8, 2, 0) { "SHOW BINARY LOG STATUS" } else { "SHOW MASTER STATUS" };
    let mut shown = match conn.query::<Row, _>(statement).await {
        Ok(rows) => rows,
        // Reported with the privileges.
        Err(error) if server_code(&error) == Some(ER_SPECIFIC_ACCESS_DENIED) => return Ok(Vec::new()),
        Err(error) => return Err(failure("show its binlog status", &error)),
    };
    let Some(row) = shown.first_mut() else { return Ok(Vec::new()) };
    Ok(settings::check_logged_databases(&text(row, 2)?, &text(row, 3)?, tables))
}

async fn check_replica(conn: &mut Conn, settings: &Settings) -> Result<Vec<Finding>, Failure> {
    let statement =
        if conn.server_version() >= (8, 0, 22) { "SHOW REPLICA STATUS" } else { "SHOW SLAVE STATUS" };
    match conn.query::<Row, _>(statement).await {
        Ok(mut rows) => {
            let channels: Vec<Channel> = rows.iter_mut().map(Channel::of_row).collect::<Result<_, _>>()?;
            Ok(replica::check(settings, &channels))
        }
        Err(error) if server_code(&error) == Some(ER_SPECIFIC_ACCESS_DENIED) => Ok(Vec::new()),
        Err(error) => Err(failure("show its replica status", &error)),
    }
}

async fn check_prepared_xa(
    conn: &mut Conn,
    grants: &Grants,
    xa: XaPolicy,
) -> Result<Option<Finding>, Failure> {
    Ok(match xa::prepared(conn).await? {
        Some(prepared) => tables::check_prepared_xa(prepared.len()),
        None => Some(grants::no_xa_recover(grants, xa)),
    })
}

/// The names, separated by commas, cut off after [`NAMES_SHOWN`].
fn list(names: &[String]) -> String {
    let shown = names.iter().take(NAMES_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(NAMES_SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}
