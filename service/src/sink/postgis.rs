//! What the target's database has of PostGIS.

use super::client::Client;
use super::connect::log_in;
use super::error::while_doing;
use crate::config::TargetConfig;
use crate::halt::Failure;
use crate::preflight::Finding;
use crate::schema::overrides::Overrides;
use crate::schema::render::quote_ident;
use crate::schema::{MysqlType, TableModel, TargetType};

const DOING: &str = "asking the target for PostGIS";

/// Its types are in the schema that it was created in.
const READ_SCHEMA: &str = "\
    SELECT n.nspname::text FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
    WHERE e.extname = 'postgis'";

const IS_AVAILABLE: &str = "SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'postgis')";

const MAY_USE: &str = "SELECT has_schema_privilege($1::text, 'USAGE'), quote_ident(current_user)";

/// The configuration's types for this target: spatial columns become PostGIS's own where its extension is
/// created in the database.
///
/// # Errors
/// Failures of the target.
pub async fn types_for(client: &Client, types: &Overrides) -> Result<Overrides, Failure> {
    let row = client.query_opt(READ_SCHEMA, &[]).await.map_err(while_doing(DOING))?;
    let schema = row.map(|row| row.try_get(0)).transpose().map_err(while_doing(DOING))?;
    Ok(types.with_postgis(schema))
}

/// As [`types_for`], on a session of its own.
///
/// # Errors
/// Failures of the target.
pub async fn types_at(config: &TargetConfig, types: &Overrides) -> Result<Overrides, Failure> {
    types_for(&log_in(config).await?, types).await
}

/// What a user of spatial columns should know before a copy.
///
/// # Errors
/// Only what keeps the check from being made.
pub(super) async fn check(
    client: &Client,
    tables: &[TableModel],
    findings: &mut Vec<Finding>,
) -> Result<(), Failure> {
    let columns = || tables.iter().flat_map(|model| &model.columns);
    let spatial = columns().filter(|column| column.mysql == MysqlType::Geometry);
    let by_default =
        spatial.filter(|column| column.target == TargetType::Bytea && !column.details.overridden);
    if by_default.count() > 0 && is_available(client).await? {
        findings.push(Finding::warning(
            "target.postgis",
            "PostGIS is on the server, and not in the target's database",
            "spatial columns become bytea, and spatial indexes are not made",
            "CREATE EXTENSION postgis -- before the tables are copied",
        ));
    }
    let own = tables.iter().filter(|model| {
        model.columns.iter().any(|column| matches!(column.target, TargetType::Geometry { .. }))
    });
    if let Some(schema) = own.filter_map(|model| model.details.postgis.as_deref()).next() {
        findings.extend(without_usage(client, schema).await?);
    }
    Ok(())
}

async fn is_available(client: &Client) -> Result<bool, Failure> {
    let row = client.query_one(IS_AVAILABLE, &[]).await.map_err(while_doing(DOING))?;
    row.try_get(0).map_err(while_doing(DOING))
}

async fn without_usage(client: &Client, schema: &str) -> Result<Option<Finding>, Failure> {
    let row = client.query_one(MAY_USE, &[&schema]).await.map_err(while_doing(DOING))?;
    let (may_use, role): (bool, String) =
        (row.try_get(0).map_err(while_doing(DOING))?, row.try_get(1).map_err(while_doing(DOING))?);
    if may_use {
        return Ok(None);
    }
    Ok(Some(Finding::error(
        "target.postgis",
        format!("this role may not use schema {schema:?}, which holds PostGIS"),
        "spatial columns are of its type geometry",
        format!("GRANT USAGE ON SCHEMA {} TO {role}", quote_ident(schema)?),
    )))
}
