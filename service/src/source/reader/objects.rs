//! What a table has beside its columns and key, from `information_schema`: one query per kind for a
//! whole database.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row, Value};

use super::{field, quote, quote_table, table_failure};
use crate::halt::{Failure, Halt, Reason};
use crate::schema::TableName;
use crate::schema::details::{Action, Check, ForeignKey, Index, IndexKind, IndexPart, TableDetails};
use crate::schema::partitions::{SourcePartition, SourcePartitions};
use crate::schema::plan::Counters;
use crate::source::connect::failure;

const INDEXES: &str = "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, INDEX_TYPE, IS_VISIBLE, COLUMN_NAME, SUB_PART, \
     COLLATION, {expression} FROM information_schema.STATISTICS \
     WHERE TABLE_SCHEMA = ?{table} AND INDEX_NAME <> 'PRIMARY' ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX";

const ACTIONS: &str = "SELECT CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE \
     FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = ?{table}";

const FOREIGN_KEYS: &str = "SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_SCHEMA, \
     REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE \
     WHERE TABLE_SCHEMA = ?{table} AND REFERENCED_TABLE_NAME IS NOT NULL \
     ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION";

const REFERENCED: &str = "SELECT REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME \
     FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_SCHEMA = ?{table}";

const CHECKS: &str = "SELECT T.TABLE_NAME, T.CONSTRAINT_NAME, T.ENFORCED, C.CHECK_CLAUSE \
     FROM information_schema.TABLE_CONSTRAINTS T JOIN information_schema.CHECK_CONSTRAINTS C \
     ON C.CONSTRAINT_SCHEMA = T.CONSTRAINT_SCHEMA AND C.CONSTRAINT_NAME = T.CONSTRAINT_NAME \
     WHERE T.CONSTRAINT_TYPE = 'CHECK' AND T.TABLE_SCHEMA = ?{table} ORDER BY T.TABLE_NAME, T.CONSTRAINT_NAME";

/// CHECK constraints exist from here on.
const HAS_CHECKS: (u16, u16, u16) = (8, 0, 16);

/// Indexes over expressions exist from here on.
const HAS_EXPRESSIONS: (u16, u16, u16) = (8, 0, 13);

const PARTITIONS: &str = "SELECT TABLE_NAME, PARTITION_NAME, PARTITION_METHOD, PARTITION_EXPRESSION, PARTITION_DESCRIPTION, \
     SUBPARTITION_METHOD FROM information_schema.PARTITIONS \
     WHERE TABLE_SCHEMA = ?{table} AND PARTITION_METHOD IS NOT NULL \
     ORDER BY TABLE_NAME, PARTITION_ORDINAL_POSITION, SUBPARTITION_ORDINAL_POSITION";

/// A database's tables, or one of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) database: &'a str,
    pub(super) table: Option<&'a str>,
}

impl Scope<'_> {
    /// Runs a query of this module's form: `{table}` is where the table is asked for, if it is.
    pub(super) async fn query(self, conn: &mut Conn, sql: &str, column: &str) -> Result<Vec<Row>, Failure> {
        let mut params = vec![Value::from(self.database)];
        let condition = match self.table {
            Some(table) => {
                params.push(Value::from(table));
                format!(" AND {column} = ?")
            }
            None => String::new(),
        };
        let sql = sql.replace("{table}", &condition);
        conn.exec(sql, Params::Positional(params))
            .await
            .map_err(|error| failure("describe its tables", &error))
    }
}

/// By table.
#[derive(Debug, Default)]
pub(super) struct Objects {
    details: BTreeMap<String, TableDetails>,
    referenced: BTreeSet<(String, String)>,
    partitions: BTreeMap<String, SourcePartitions>,
}

impl Objects {
    pub(super) async fn read(conn: &mut Conn, scope: Scope<'_>) -> Result<Self, Failure> {
        let mut objects = Self::default();
        let expression = if conn.server_version() >= HAS_EXPRESSIONS { "EXPRESSION" } else { "NULL" };
        let indexes = INDEXES.replace("{expression}", expression);
        for mut row in scope.query(conn, &indexes, "TABLE_NAME").await? {
            objects.index_part(&mut row)?;
        }
        objects.foreign_keys(conn, scope).await?;
        for mut row in scope.query(conn, REFERENCED, "REFERENCED_TABLE_NAME").await? {
            objects.referenced.insert((text(&mut row, 0)?, text(&mut row, 1)?));
        }
        if conn.server_version() >= HAS_CHECKS {
            for mut row in scope.query(conn, CHECKS, "T.TABLE_NAME").await? {
                let check = Check {
                    name: text(&mut row, 1)?,
                    enforced: text(&mut row, 2)? == "YES",
                    expression: text(&mut row, 3)?,
                };
                objects.of(text(&mut row, 0)?).checks.push(check);
            }
        }
        for mut row in scope.query(conn, PARTITIONS, "TABLE_NAME").await? {
            objects.partition(&mut row)?;
        }
        Ok(objects)
    }

    fn of(&mut self, table: String) -> &mut TableDetails {
        self.details.entry(table).or_default()
    }

    pub(super) fn take(&mut self, table: &str) -> TableDetails {
        self.details.remove(table).unwrap_or_default()
    }

    pub(super) fn take_partitions(&mut self, table: &str) -> Option<SourcePartitions> {
        self.partitions.remove(table)
    }

    fn partition(&mut self, row: &mut Row) -> Result<(), Failure> {
        let (table, name, method) = (text(row, 0)?, text(row, 1)?, text(row, 2)?);
        let (expression, description) = (field(row, 3)?, field(row, 4)?);
        let has_subpartitions = field::<String>(row, 5)?.is_some();
        self.of(table.clone()).partitioning = Some(method.clone());
        let of_table = self.partitions.entry(table).or_insert_with(|| SourcePartitions {
            method,
            expression,
            has_subpartitions,
            partitions: Vec::new(),
        });
        // Subpartitions have a row each.
        if of_table.partitions.last().is_none_or(|last| last.name != name) {
            of_table.partitions.push(SourcePartition { name, description });
        }
        Ok(())
    }

    /// Whether a column is part of a foreign key's parent.
    pub(super) fn is_referenced(&self, table: &str, column: &str) -> bool {
        self.referenced.contains(&(table.to_owned(), column.to_owned()))
    }

    fn index_part(&mut self, row: &mut Row) -> Result<(), Failure> {
        let (table, name) = (text(row, 0)?, text(row, 1)?);
        let unique = field::<u64>(row, 2)? == Some(0);
        let kind = match text(row, 3)?.as_str() {
            "FULLTEXT" => IndexKind::Fulltext,
            "SPATIAL" => IndexKind::Spatial,
            _ => IndexKind::Ordered,
        };
        let visible = text(row, 4)? == "YES";
        let part = IndexPart {
            column: field(row, 5)?,
            prefix: field::<u64>(row, 6)?.map(u32::try_from).transpose().map_err(|_| damaged())?,
            descending: field::<String>(row, 7)?.as_deref() == Some("D"),
            expression: field::<String>(row, 8)?.map(|text| text.replace('\0', "\\0")),
        };
        let indexes = &mut self.of(table).indexes;
        match indexes.last_mut().filter(|last| last.name == name) {
            Some(last) => last.parts.push(part),
            None => indexes.push(Index { name, unique, kind, visible, parts: vec![part] }),
        }
        Ok(())
    }

    async fn foreign_keys(&mut self, conn: &mut Conn, scope: Scope<'_>) -> Result<(), Failure> {
        let mut actions = BTreeMap::new();
        for mut row in scope.query(conn, ACTIONS, "TABLE_NAME").await? {
            let action = |text: String| Action::from_sql(&text).ok_or_else(damaged);
            let (name, update, delete) = (text(&mut row, 0)?, text(&mut row, 1)?, text(&mut row, 2)?);
            actions.insert(name, (action(update)?, action(delete)?));
        }
        for mut row in scope.query(conn, FOREIGN_KEYS, "TABLE_NAME").await? {
            let (table, name) = (text(&mut row, 0)?, text(&mut row, 1)?);
            let (column, parent_column) = (text(&mut row, 2)?, text(&mut row, 5)?);
            let &(on_update, on_delete) = actions.get(&name).ok_or_else(damaged)?;
            let parent = TableName { database: text(&mut row, 3)?, table: text(&mut row, 4)? };
            let keys = &mut self.of(table).foreign_keys;
            if let Some(last) = keys.last_mut().filter(|last| last.name == name) {
                last.columns.push(column);
                last.parent_columns.push(parent_column);
            } else {
                let (columns, parent_columns) = (vec![column], vec![parent_column]);
                keys.push(ForeignKey { name, columns, parent, parent_columns, on_update, on_delete });
            }
        }
        Ok(())
    }
}

/// The constant defaults of TIMESTAMP columns in this session's time zone, which is UTC:
/// `information_schema` shows them in that of the session that created them.
pub(super) async fn timestamp_defaults(
    conn: &mut Conn,
    table: &TableName,
) -> Result<BTreeMap<String, String>, Failure> {
    let sql = format!("SHOW CREATE TABLE {}", quote_table(table));
    let row: Option<Row> =
        conn.query_first(sql).await.map_err(|error| table_failure("describe a table", &error))?;
    let statement = row.map(|mut row| text(&mut row, 1)).transpose()?.unwrap_or_default();
    Ok(statement.lines().filter_map(timestamp_default).collect())
}

/// Name and default of a line such as "  `c` timestamp NULL DEFAULT '2020-01-02 03:04:05',".
fn timestamp_default(line: &str) -> Option<(String, String)> {
    let rest = line.trim_start().strip_prefix('`')?;
    let (name, rest) = rest.split_once("` timestamp")?;
    let (before, rest) = rest.split_once(" DEFAULT '")?;
    let value = rest.split('\'').next()?;
    // What stands before can't be quoted: the default comes before the comment.
    (!before.contains('\'')).then(|| (name.replace("``", "`"), value.to_owned()))
}

/// What the databases have that is not replicated: kind and name.
///
/// # Errors
/// Failures of the source.
pub async fn beside_tables(conn: &mut Conn, databases: &[&str]) -> Result<Vec<(String, String)>, Failure> {
    const QUERIES: [(&str, &str); 4] = [
        ("view", "SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA = ? ORDER BY 1"),
        (
            "trigger",
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = ? ORDER BY 1",
        ),
        (
            "routine",
            "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = ? ORDER BY ROUTINE_TYPE, 1",
        ),
        ("event", "SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = ? ORDER BY 1"),
    ];
    let mut found = Vec::new();
    for database in databases {
        for (kind, sql) in QUERIES {
            let rows: Vec<Row> =
                conn.exec(sql, (database,)).await.map_err(|error| failure("list its objects", &error))?;
            for mut row in rows {
                found.push((kind.to_owned(), format!("{}.{}", quote(database), quote(&text(&mut row, 0)?))));
            }
        }
    }
    Ok(found)
}

/// The next number of every table that numbers its rows, as the server has it now.
///
/// # Errors
/// Failures of the source.
pub async fn counters(conn: &mut Conn, databases: &[&str]) -> Result<Counters, Failure> {
    let doing = "read its counters";
    // They are kept for a day otherwise (MySQL manual, "information_schema_stats_expiry").
    let uncached = "SET SESSION information_schema_stats_expiry = 0";
    conn.query_drop(uncached).await.map_err(|error| failure(doing, &error))?;
    let sql = "SELECT TABLE_NAME, AUTO_INCREMENT FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA = ? AND AUTO_INCREMENT IS NOT NULL";
    let mut counters = Counters::new();
    for database in databases {
        let rows: Vec<Row> = conn.exec(sql, (database,)).await.map_err(|error| failure(doing, &error))?;
        for mut row in rows {
            let name = TableName { database: (*database).to_owned(), table: text(&mut row, 0)? };
            counters.extend(field::<u64>(&mut row, 1)?.map(|counter| (name, counter)));
        }
    }
    Ok(counters)
}

fn damaged() -> Halt {
    Halt::new(Reason::Internal, "information_schema describes an index or a foreign key in an unknown way")
}

fn text(row: &mut Row, index: usize) -> Result<String, Failure> {
    Ok(field(row, index)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_of_a_timestamp_is_found_in_the_table_s_statement() {
        let found = |line| timestamp_default(line).map(|(name, value)| format!("{name}={value}"));
        assert_eq!(
            found("  `t``s` timestamp(3) NULL DEFAULT '2020-01-01 22:04:05.000' COMMENT 'x DEFAULT ''y''',"),
            Some("t`s=2020-01-01 22:04:05.000".to_owned())
        );
        for line in [
            "  `d` datetime DEFAULT '2020-01-01 00:00:00',",
            "  `t` timestamp NULL DEFAULT NULL,",
            "  `t` timestamp NOT NULL COMMENT 'a DEFAULT ''b''',",
            "CREATE TABLE `t` (",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
