//! RENAME TABLE on the target: tables move with all that has a name beside theirs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::super::catalog;
use super::super::client::Client;
use super::super::error::{failure, while_doing};
use super::super::schema_change::Action;
use super::super::vacate::give_another_name;
use crate::halt::Failure;
use crate::schema::TableName;
use crate::schema::names::{Candidates, Names};
use crate::schema::render;

const DOING: &str = "renaming a table";

/// What goes to another schema with a table: its partitions there, and the indexes and sequences of them all.
const READ_COMPANIONS: &str = "\
    WITH members AS ( \
        SELECT c.oid, c.relnamespace AS schema FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
        WHERE n.nspname = $1::text AND c.relname = $2::text \
        UNION SELECT p.relid::oid, c.relnamespace FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
            CROSS JOIN LATERAL pg_partition_tree(c.oid::regclass) p \
        WHERE n.nspname = $1::text AND c.relname = $2::text) \
    SELECT o.oid, o.relname::text, CASE WHEN o.relkind = 'S' THEN 'SEQUENCE' \
        WHEN o.relkind IN ('i', 'I') THEN 'INDEX' ELSE 'TABLE' END \
    FROM pg_class o JOIN members m ON o.relnamespace = m.schema AND ( \
        o.oid = m.oid AND o.relispartition \
        OR o.oid IN (SELECT i.indexrelid FROM pg_index i WHERE i.indrelid = m.oid) \
        OR o.relkind = 'S' AND o.oid IN (SELECT d.objid FROM pg_depend d WHERE d.refobjid = m.oid \
            AND d.refobjsubid > 0 AND d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass \
            AND d.deptype IN ('a', 'i'))) \
    ORDER BY o.oid";

/// An index, a sequence or a partition.
struct Companion {
    oid: u32,
    name: TableName,
    /// As ALTER has it.
    kind: String,
}

fn moves(actions: &[Action]) -> Vec<(&TableName, &TableName)> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Move { from, to } => Some((from, to)),
            _ => None,
        })
        .collect()
}

/// Gives what goes to another schema with its table a name that is free there, where its own is not: no
/// relation has it, no table of the statement takes it, and nothing else that moves there comes with it.
/// What is built for a table follows by its record, so this is done before that is looked at.
pub(super) async fn clear_the_way(client: &Client, actions: &[Action]) -> Result<(), Failure> {
    let moves = moves(actions);
    let mut taken: BTreeMap<&str, Names> = BTreeMap::new();
    for (from, to) in moves.iter().filter(|(from, to)| from.database != to.database) {
        let schema = to.database.as_str();
        let taken = match taken.entry(schema) {
            Entry::Occupied(taken) => taken.into_mut(),
            Entry::Vacant(place) => {
                let mut names = catalog::relations(client, schema).await?;
                let coming = moves.iter().filter(|(_, to)| to.database == schema);
                coming.for_each(|(_, to)| names.reserve(&to.table));
                place.insert(names)
            }
        };
        for Companion { oid, name, kind } in companions(client, from).await? {
            let free = taken.take(&Candidates::of_relation(&name.table, oid));
            if free != name.table {
                give_another_name(client, &name, &kind, &free).await?;
            }
        }
    }
    Ok(())
}

async fn companions(client: &Client, table: &TableName) -> Result<Vec<Companion>, Failure> {
    let rows = client.query(READ_COMPANIONS, &[&table.database, &table.table]).await;
    let mut companions = Vec::new();
    for row in rows.map_err(while_doing(DOING))? {
        let relation: String = row.try_get(1).map_err(while_doing(DOING))?;
        companions.push(Companion {
            oid: row.try_get(0).map_err(while_doing(DOING))?,
            name: TableName { database: table.database.clone(), table: relation },
            kind: row.try_get(2).map_err(while_doing(DOING))?,
        });
    }
    Ok(companions)
}

/// Moves the tables, and with them their partitions. Tables whose places are taken, or that go to another
/// schema, go over names of their own. Returns the statements run, by the table's old name.
pub(super) async fn move_tables(
    client: &Client,
    actions: &[Action],
) -> Result<Vec<(TableName, Vec<String>)>, Failure> {
    let moves = moves(actions);
    let (mut done, mut second) = (Vec::new(), Vec::new());
    for (number, (from, to)) in moves.iter().enumerate() {
        let mut run = catalog::create_schema(client, &to.database).await?;
        let changes_schema = from.database != to.database;
        let statements = if changes_schema || moves.iter().any(|(other, _)| other == to) {
            let companions = if changes_schema { companions(client, from).await? } else { Vec::new() };
            let between =
                TableName { database: from.database.clone(), table: format!("tidegate-moving-{number}") };
            let mut statements = render::move_table(from, &between)?;
            for Companion { name, .. } in companions.iter().filter(|companion| companion.kind == "TABLE") {
                let to = TableName { database: to.database.clone(), table: name.table.clone() };
                statements.extend(render::move_table(name, &to)?);
            }
            second.push((number, between, *to));
            statements
        } else {
            render::move_table(from, to)?
        };
        alter(client, from, &statements).await?;
        run.extend(statements);
        done.push(((*from).clone(), run));
    }
    for (place, between, to) in second {
        let statements = render::move_table(&between, to)?;
        let Some((from, run)) = done.get_mut(place) else { continue };
        alter(client, from, &statements).await?;
        run.extend(statements);
    }
    Ok(done)
}

async fn alter(client: &Client, table: &TableName, statements: &[String]) -> Result<(), Failure> {
    for statement in statements {
        client.alter(statement).await.map_err(|error| catalog::on_name(failure(DOING, &error), table))?;
    }
    Ok(())
}
