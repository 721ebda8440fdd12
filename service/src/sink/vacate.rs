//! Gives a table's name free where an index, a sequence or a partition has it.
//!
//! MySQL names indexes and partitions within their table, PostgreSQL within the schema, beside the tables
//! and the sequences of identity columns: `user` with an index on `role` has an index `user_role`, and the
//! source may create a table of that name at any time.

use tokio_postgres::types::ToSql;

use super::client::Client;
use super::error::while_doing;
use crate::halt::Failure;
use crate::schema::TableName;
use crate::schema::names::Candidates;
use crate::schema::render::{qualified, quote_ident, target_name};

/// The index, sequence or partition of a name, if it came with a table that a pipeline has created.
const READ_TAKER: &str = "\
    WITH tables AS ( \
        SELECT c.oid FROM tidegate.table_state s \
            JOIN pg_namespace n ON n.nspname = s.target_schema \
            JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = s.target_table \
        WHERE s.ownership = 'created' AND s.state <> 'detached'), \
    partitions AS ( \
        SELECT p.oid FROM tables t JOIN pg_inherits i ON i.inhparent = t.oid \
            JOIN pg_class p ON p.oid = i.inhrelid AND p.relispartition), \
    created AS (SELECT oid FROM tables UNION ALL SELECT oid FROM partitions) \
    SELECT o.oid, CASE o.relkind WHEN 'S' THEN 'SEQUENCE' WHEN 'r' THEN 'TABLE' ELSE 'INDEX' END \
    FROM pg_class o JOIN pg_namespace n ON n.oid = o.relnamespace \
    WHERE n.nspname = $1::text AND o.relname = $2::text AND ( \
        o.oid IN (SELECT oid FROM partitions) \
        OR EXISTS (SELECT FROM pg_index i JOIN created c ON c.oid = i.indrelid WHERE i.indexrelid = o.oid) \
        OR EXISTS (SELECT FROM pg_depend d JOIN created c ON c.oid = d.refobjid \
            WHERE o.relkind = 'S' AND d.objid = o.oid AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i') \
                AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass))";

/// The record of an index keeps up with its name; in its statement the name stands after these words.
const RENAME_RECORD: &str = "\
    UPDATE tidegate.schema_object SET target_name = $3::text, \
        statement = replace(replace(statement, ' INDEX ' || $4::text, ' INDEX ' || $5::text), \
            ' CONSTRAINT ' || $4::text, ' CONSTRAINT ' || $5::text) \
    WHERE kind IN ('index', 'primary_key') AND source_database = $1::text AND target_name = $2::text";

/// Renames what has the name of a table that is about to take it.
///
/// # Errors
/// Failures of the target.
pub(super) async fn vacate(client: &Client, name: &TableName) -> Result<(), Failure> {
    let doing = "giving a table's name free";
    let (schema, table) = target_name(name)?;
    let taker = client.query_opt(READ_TAKER, &[&schema, &table]).await.map_err(while_doing(doing))?;
    let Some(taker) = taker else { return Ok(()) };
    let oid: u32 = taker.try_get(0).map_err(while_doing(doing))?;
    let kind: &str = taker.try_get(1).map_err(while_doing(doing))?;
    give_another_name(client, name, kind, &Candidates::of_relation(table, oid).hashed).await
}

/// Renames an INDEX, a SEQUENCE or a partition (TABLE) of that name, and its record.
///
/// # Errors
/// Failures of the target.
pub(super) async fn give_another_name(
    client: &Client,
    name: &TableName,
    kind: &str,
    free: &str,
) -> Result<(), Failure> {
    let doing = "giving a name free";
    let (schema, relation) = target_name(name)?;
    let (old, new) = (quote_ident(relation)?, quote_ident(free)?);
    let sql = format!("ALTER {kind} {} RENAME TO {new}", qualified(name)?);
    client.alter(&sql).await.map_err(while_doing(doing))?;
    let params: [&(dyn ToSql + Sync); 5] = [&schema, &relation, &free, &old, &new];
    client.execute(RENAME_RECORD, &params).await.map_err(while_doing(doing))?;
    let label = format!("{schema}.{relation}");
    tracing::info!(table = label, kind, to = free, "renamed what had the name that a table takes");
    Ok(())
}
