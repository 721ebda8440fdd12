//! What `tidegate check` says of the target, every problem at once.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::catalog;
use super::connect::{OLDEST_SERVER, log_in, server_version, set_up};
use super::error::while_doing;
use super::statements;
use crate::config::TargetConfig;
use crate::halt::Failure;
use crate::preflight::Finding;
use crate::schema::diff::{Uniqueness, check_target};
use crate::schema::render::{self, quote_ident};
use crate::schema::{TableModel, TableName};

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
    let mut findings = Vec::new();
    check_server(&client, &mut findings).await?;
    let is_standby: bool = scalar(&client, "SELECT pg_is_in_recovery()", &[]).await?;
    if is_standby {
        findings.push(standby());
        return Ok(findings);
    }
    check_role(&client, version, &mut findings).await?;
    check_schemas(&client, tables, &mut findings).await?;
    for model in tables {
        check_table(&client, pipeline, model, &mut findings).await?;
    }
    Ok(findings)
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
///
/// To be asked before a take-over: its lock would stay with a backend that serves anyone.
pub async fn pooling(config: &TargetConfig, client: &Client) -> Result<Option<Finding>, Failure> {
    let second = log_in(config).await?;
    let before = backend(client).await?;
    second.batch_execute("BEGIN").await.map_err(while_doing(DOING))?;
    let other = backend(&second).await?;
    // With one backend to lend, the first session would now wait for the second.
    let moved = before == other || backend(client).await? != before;
    second.batch_execute("ROLLBACK").await.map_err(while_doing(DOING))?;
    Ok(moved.then(|| {
        Finding::error(
            "target.pooling",
            "the connection goes through a proxy that pools by transaction or statement",
            "the lock that keeps a second writer out, session settings and prepared statements belong to a session",
            "point target.url at the server itself, or set pool_mode = session for this database",
        )
    }))
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
    let read_only: bool =
        scalar(client, "SELECT current_setting('default_transaction_read_only')::bool", &[]).await?;
    if read_only {
        findings.push(Finding::error(
            "target.read_only",
            "default_transaction_read_only is on",
            "Tidegate does not override what an administrator set to keep writers out",
            format!("{} SET default_transaction_read_only = off", alter_role(client).await?),
        ));
    }
    Ok(())
}

/// `ALTER ROLE … IN DATABASE …`, which has precedence over the other places of a setting.
async fn alter_role(client: &Client) -> Result<String, Failure> {
    let database: String = scalar(client, "SELECT quote_ident(current_database())", &[]).await?;
    Ok(format!("ALTER ROLE {} IN DATABASE {database}", role(client).await?))
}

async fn role(client: &Client) -> Result<String, Failure> {
    scalar(client, "SELECT quote_ident(current_user)", &[]).await
}

async fn check_role(client: &Client, version: i32, findings: &mut Vec<Finding>) -> Result<(), Failure> {
    let silence = client.batch_execute("SET session_replication_role = replica").await;
    match silence {
        Ok(()) => {
            client.batch_execute("RESET session_replication_role").await.map_err(while_doing(DOING))?;
        }
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            let role = role(client).await?;
            let fix = if version >= HAS_GRANT_SET {
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

/// A list of privileges in one call would be satisfied by any of them. Without USAGE of the schema,
/// which is a finding of its own, none can be used.
const MAY_READ_AND_WRITE: &str = "\
    SELECT has_schema_privilege(n.oid, 'USAGE') \
        AND has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') \
        AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE') \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE n.nspname = $1::text AND c.relname = $2::text";

/// What a table that exists already needs, unless its name alone rules it out: models are checked
/// for that where they are made.
async fn check_table(
    client: &Client,
    pipeline: &str,
    model: &TableModel,
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let Some(found) = catalog::read_table(client, &model.name).await? else { return Ok(()) };
    let table = render::qualified(&model.name)?;
    let is_known = is_known(client, pipeline, &model.name).await?;
    let uniqueness = if is_known { Uniqueness::OfSource } else { Uniqueness::OfKey };
    for difference in check_target(model, &found, uniqueness) {
        findings.push(Finding::error(
            "target.table",
            format!("{table}: {difference}"),
            "rows must be stored exactly as the source has them",
            format!("DROP TABLE {table}, and let Tidegate create it; or alter it as described"),
        ));
    }
    let privileges: bool =
        scalar(client, MAY_READ_AND_WRITE, &[&model.name.database, &model.name.table]).await?;
    if !privileges {
        findings.push(Finding::error(
            "target.table_privilege",
            format!("this role may not read and write {table}"),
            "replicated rows are inserted, updated and deleted, and matched by their key",
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {}", role(client).await?),
        ));
    } else if !is_known && scalar::<bool>(client, &statements::has_rows(model)?, &[]).await? {
        findings.push(Finding::error(
            "target.table_rows",
            format!("{table} has rows and was not copied by this pipeline"),
            "nothing tells its rows from the source's",
            format!("TRUNCATE TABLE {table}"),
        ));
    }
    Ok(())
}

async fn is_known(client: &Client, pipeline: &str, name: &TableName) -> Result<bool, Failure> {
    if !scalar::<bool>(client, "SELECT to_regclass('tidegate.table_state') IS NOT NULL", &[]).await? {
        return Ok(false);
    }
    let sql = "SELECT EXISTS (SELECT FROM tidegate.table_state \
        WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text)";
    scalar(client, sql, &[&pipeline, &name.database, &name.table]).await
}
