//! What `tidegate check` says of the target, every problem at once.

mod tables;

use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::client::Client;
use super::connect::{OLDEST_SERVER, log_in, server_version, set_up};
use super::error::while_doing;
use super::{locks, postgis};
use crate::config::TargetConfig;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::preflight::Finding;
use crate::schema::TableModel;
use crate::schema::collation;
use crate::schema::render::quote_ident;

/// First version that can grant a setting.
const HAS_GRANT_SET: i32 = 150_000;

const DOING: &str = "checking the target";

/// Checks the server, this role's privileges on it, and every target table that exists already.
///
/// # Errors
/// Only what keeps the checks from being made at all.
pub async fn check(
    config: &TargetConfig,
    pipeline: &str,
    tables: &[TableModel],
) -> Result<Vec<Finding>, Failure> {
    let client = log_in(config).await?;
    let version = server_version(&client).await?;
    if version < OLDEST_SERVER {
        return Ok(vec![too_old(version)]);
    }
    if let Some(finding) = pooling(config, &client).await? {
        return Ok(vec![finding]);
    }
    set_up(&client, config, version).await?;
    if is_standby(&client).await? {
        let mut findings = vec![standby()];
        check_server(&client, &mut findings).await?;
        return Ok(findings);
    }
    check_session(&client, pipeline, tables).await
}

/// What has to be known before a pipeline is taken over: a take-over takes a lock, which behind a
/// proxy that pools would stay with a backend that serves anyone, and it writes.
///
/// # Errors
/// A halt `target_preflight` behind such a proxy and where an administrator keeps writers out. A
/// standby is retried: an address may point at one shortly before it is promoted.
pub async fn before_take_over(config: &TargetConfig, client: &Client) -> Result<(), Failure> {
    if let Some(finding) = pooling(config, client).await? {
        return Err(refusal(&finding).into());
    }
    if is_standby(client).await? {
        return Err(Failure::retry(Side::Target, told(&standby())));
    }
    match read_only(client).await? {
        Some(finding) => Err(refusal(&finding).into()),
        None => Ok(()),
    }
}

/// Checks everything that [`before_take_over`] has not, on the session that has taken over.
///
/// # Errors
/// Only what keeps the checks from being made at all.
pub async fn check_session(
    client: &Client,
    pipeline: &str,
    tables: &[TableModel],
) -> Result<Vec<Finding>, Failure> {
    let mut findings = Vec::new();
    check_server(client, &mut findings).await?;
    check_role(client, &mut findings).await?;
    if tables.iter().any(|model| model.columns.iter().any(collation::is_collated)) {
        findings.extend(without_icu(client).await?);
    }
    check_schemas(client, tables, &mut findings).await?;
    findings.extend(locks::check(client, tables).await?);
    postgis::check(client, tables, &mut findings).await?;
    tables::check(client, pipeline, tables, &mut findings).await?;
    Ok(findings)
}

fn refusal(finding: &Finding) -> Halt {
    Halt::new(Reason::TargetPreflight, told(finding))
}

fn told(finding: &Finding) -> String {
    format!("{}: {}", finding.name, finding.problem)
}

async fn is_standby(client: &Client) -> Result<bool, Failure> {
    scalar(client, "SELECT pg_is_in_recovery()", &[]).await
}

async fn scalar<T>(client: &Client, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<T, Failure>
where
    T: for<'a> tokio_postgres::types::FromSql<'a>,
{
    let row = client.query_one(sql, params).await.map_err(while_doing(DOING))?;
    row.try_get(0).map_err(while_doing(DOING))
}

fn too_old(version: i32) -> Finding {
    Finding::error(
        "target.version",
        format!("the server is PostgreSQL {}", version / 10_000),
        "Tidegate uses settings and functions of PostgreSQL 14 and later",
        "upgrade the server to PostgreSQL 14 or later",
    )
}

fn standby() -> Finding {
    Finding::error(
        "target.standby",
        "the server is a hot standby",
        "nothing can be written to it",
        "point target.url at the primary",
    )
}

/// Two sessions of a server have two backends. Behind a proxy that lends backends by the
/// transaction, the second session gets the one that the first has just given back.
async fn pooling(config: &TargetConfig, client: &Client) -> Result<Option<Finding>, Failure> {
    let second = log_in(config).await?;
    let before = backend(client).await?;
    match second.batch_execute("BEGIN").await {
        Ok(()) => {}
        // No server answers so: a proxy that pools by statement has no use for a transaction.
        Err(error) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => return Ok(Some(pooled())),
        Err(error) => return Err(while_doing(DOING)(error)),
    }
    let other = backend(&second).await?;
    // With one backend to lend, the first session would now wait for the second.
    let moved = before == other || backend(client).await? != before;
    second.batch_execute("ROLLBACK").await.map_err(while_doing(DOING))?;
    Ok(moved.then(pooled))
}

fn pooled() -> Finding {
    Finding::error(
        "target.pooling",
        "the connection goes through a proxy that pools by transaction or statement",
        "the lock that keeps a second writer out, session settings and prepared statements belong to a session",
        "point target.url at the server itself, or set pool_mode = session for this database",
    )
}

/// The server process that serves the session. By the simple protocol: prepared statements are what
/// such proxies get wrong.
async fn backend(client: &Client) -> Result<Option<String>, Failure> {
    let answer = client.simple_query("SELECT pg_backend_pid()").await.map_err(while_doing(DOING))?;
    Ok(answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

async fn check_server(client: &Client, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    let encoding: String = scalar(client, "SELECT current_setting('server_encoding')", &[]).await?;
    if encoding != "UTF8" {
        findings.push(Finding::error(
            "target.encoding",
            format!("the database's encoding is {encoding}"),
            "not every character of MySQL exists in another encoding than UTF8",
            "CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8', and point target.url at it",
        ));
    }
    findings.extend(read_only(client).await?);
    findings.extend(temporary_files(client).await?);
    Ok(())
}

/// The bound on the temporary files of one session.
async fn temporary_files(client: &Client) -> Result<Option<Finding>, Failure> {
    let limit: String = scalar(client, "SELECT current_setting('temp_file_limit')", &[]).await?;
    if limit == "-1" {
        return Ok(None);
    }
    Ok(Some(Finding::warning(
        "target.temp_file_limit",
        format!("temp_file_limit is {limit}"),
        "an index of a large table is sorted in temporary files, and is not built where they may not become large \
         enough",
        format!("{} SET temp_file_limit = -1", alter_role(client).await?),
    )))
}

async fn read_only(client: &Client) -> Result<Option<Finding>, Failure> {
    let setting = "SELECT current_setting('default_transaction_read_only')::bool";
    if !scalar::<bool>(client, setting, &[]).await? {
        return Ok(None);
    }
    Ok(Some(Finding::error(
        "target.read_only",
        "default_transaction_read_only is on",
        "Tidegate does not override what an administrator set to keep writers out",
        format!("{} SET default_transaction_read_only = off", alter_role(client).await?),
    )))
}

/// `ALTER ROLE … IN DATABASE …`, which has precedence over the other places of a setting.
async fn alter_role(client: &Client) -> Result<String, Failure> {
    let database: String = scalar(client, "SELECT quote_ident(current_database())", &[]).await?;
    Ok(format!("ALTER ROLE {} IN DATABASE {database}", role(client).await?))
}

async fn role(client: &Client) -> Result<String, Failure> {
    scalar(client, "SELECT quote_ident(current_user)", &[]).await
}

async fn check_role(client: &Client, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    let silence = client.batch_execute("SET session_replication_role = replica").await;
    match silence {
        Ok(()) => {
            client.batch_execute("RESET session_replication_role").await.map_err(while_doing(DOING))?;
        }
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            let role = role(client).await?;
            let fix = if server_version(client).await? >= HAS_GRANT_SET {
                format!("GRANT SET ON PARAMETER session_replication_role TO {role}")
            } else {
                format!("ALTER ROLE {role} SUPERUSER")
            };
            findings.push(Finding::error(
                "target.session_replication_role",
                "this role may not set session_replication_role",
                "triggers and foreign keys of the target must stay silent: the source has run its own",
                fix,
            ));
        }
        Err(error) => return Err(while_doing(DOING)(error)),
    }
    Ok(())
}

/// What keeps texts from being compared as on the source: ICU is an option of the server's build,
/// without which it has no collation of that provider.
///
/// # Errors
/// Only what keeps the check from being made.
pub async fn without_icu(client: &Client) -> Result<Option<Finding>, Failure> {
    let has_icu = "SELECT EXISTS (SELECT FROM pg_collation WHERE collprovider = 'i')";
    if scalar::<bool>(client, has_icu, &[]).await? {
        return Ok(None);
    }
    Ok(Some(Finding::error(
        "target.icu",
        "the server is built without ICU",
        "schema.collation = \"mysql\" needs nondeterministic collations, which only ICU has",
        "set schema.collation = \"bytes\", or use a server that is built with ICU",
    )))
}

async fn check_schemas(
    client: &Client,
    tables: &[TableModel],
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let mut schemas: Vec<&str> = tables.iter().map(|model| model.name.database.as_str()).collect();
    schemas.push("tidegate");
    schemas.sort_unstable();
    schemas.dedup();
    let mut missing = Vec::new();
    for schema in schemas {
        let exists: bool =
            scalar(client, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)", &[&schema])
                .await?;
        if !exists {
            missing.push(schema);
            continue;
        }
        let usable: bool = scalar(
            client,
            "SELECT has_schema_privilege($1::text, 'USAGE') AND has_schema_privilege($1::text, 'CREATE')",
            &[&schema],
        )
        .await?;
        if !usable {
            let role = role(client).await?;
            findings.push(Finding::error(
                "target.schema_privilege",
                format!("this role may not use and create in schema {schema:?}"),
                "Tidegate creates its tables there",
                format!("GRANT USAGE, CREATE ON SCHEMA {} TO {role}", quote_ident(schema)?),
            ));
        }
    }
    check_database(client, &missing, findings).await
}

async fn check_database(
    client: &Client,
    missing: &[&str],
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let creates: bool =
        scalar(client, "SELECT has_database_privilege(current_database(), 'CREATE')", &[]).await?;
    if missing.is_empty() || creates {
        return Ok(());
    }
    let database: String = scalar(client, "SELECT quote_ident(current_database())", &[]).await?;
    findings.push(Finding::error(
        "target.database_privilege",
        format!("this role may not create the schemas {}", missing.join(", ")),
        "each MySQL database becomes a schema, and Tidegate keeps its position in schema tidegate",
        format!("GRANT CREATE ON DATABASE {database} TO {}", role(client).await?),
    ));
    Ok(())
}
