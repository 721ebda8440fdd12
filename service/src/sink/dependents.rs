//! What keeps a table of the target from being dropped or changed, by name.

use super::client::Client;
use super::error::while_doing;
use crate::halt::{Failure, Reason};
use crate::schema::TableName;

/// What depends on a table or its columns and is not dropped with them (PostgreSQL manual,
/// "pg_depend"), a view by its own name instead of that of the rule which makes it one. Constraints
/// and defaults of the table itself go with it, and change with it.
const READ: &str = "\
    SELECT DISTINCT CASE WHEN v.relkind IN ('v', 'm') THEN pg_describe_object('pg_class'::regclass, v.oid, 0) \
        ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.deptype = 'n' \
    LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid \
    LEFT JOIN pg_class v ON v.oid = r.ev_class \
    LEFT JOIN pg_constraint k ON d.classid = 'pg_constraint'::regclass AND k.oid = d.objid \
    WHERE n.nspname = $1::text AND c.relname = $2::text AND k.conrelid IS DISTINCT FROM c.oid \
        AND d.classid <> 'pg_attrdef'::regclass \
    ORDER BY 1";

/// The failure with what depends on the table in its detail, where that is what it is about.
///
/// # Errors
/// Failures of the target while it is asked.
pub(super) async fn named(client: &Client, failure: Failure, table: &TableName) -> Result<Failure, Failure> {
    let Failure::Halt(mut halt) = failure else { return Ok(failure) };
    let TableName { database, table } = table;
    let is_meant = halt.table.as_deref() == Some(&format!("{database}.{table}"));
    if halt.reason != Reason::TargetDependency || !is_meant {
        return Ok(Failure::Halt(halt));
    }
    let doing = "reading what depends on a table";
    let rows = client.query(READ, &[&database, &table]).await.map_err(while_doing(doing))?;
    let found: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get(0)).collect();
    let found = found.map_err(while_doing(doing))?;
    if !found.is_empty() {
        halt.detail = format!("{}; on it depend {}", halt.detail, found.join(", "));
    }
    Ok(Failure::Halt(halt))
}
