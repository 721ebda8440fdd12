//! Source against target: every table, every row, every value.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result, anyhow};
use futures_util::TryStreamExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Row, Value};

use crate::canonical::Form;
use crate::mysql::{self, MySqlSession};
use crate::postgres::{self, PgSession};

/// Differences listed of one table: more say nothing more, and a target may lack every row.
const LISTED_PER_TABLE: usize = 1000;

/// What a comparison has looked at and found.
#[derive(Debug, Default)]
pub struct Comparison {
    pub tables: usize,
    /// Rows of the source.
    pub rows: u64,
    /// At most 1000 of each table.
    pub differences: Vec<Difference>,
}

/// One way in which the target is not the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub table: String,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    MissingTable,
    ExtraTable,
    MissingColumn { column: String },
    ExtraColumn { column: String },
    MissingRow { key: String },
    ExtraRow { key: String },
    Value { key: String, column: String, source: Option<String>, target: Option<String> },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "NULL".to_owned());
        write!(f, "{}: ", self.table)?;
        match &self.what {
            What::MissingTable => f.write_str("the target does not have this table"),
            What::ExtraTable => f.write_str("the source does not have this table"),
            What::MissingColumn { column } => write!(f, "the target does not have column {column}"),
            What::ExtraColumn { column } => write!(f, "the source does not have column {column}"),
            What::MissingRow { key } => write!(f, "the target does not have row ({key})"),
            What::ExtraRow { key } => write!(f, "the source does not have row ({key})"),
            What::Value { key, column, source, target } => {
                write!(f, "row ({key}), column {column}: source {}, target {}", shown(source), shown(target))
            }
        }
    }
}

/// Compares all base tables of a MySQL database with a PostgreSQL schema. Nothing may write meanwhile.
pub async fn compare(
    source: &mut MySqlSession,
    source_db: &str,
    target: &PgSession,
    target_schema: &str,
) -> Result<Comparison> {
    source.exec("SET SESSION time_zone = '+00:00', sql_mode = '', max_execution_time = 0").await?;
    target.exec("SET extra_float_digits = 1; SET DateStyle = 'ISO'; SET bytea_output = 'hex'").await?;
    let source_tables = source_tables(source, source_db).await?;
    let mut target_tables = target_tables(target, target_schema).await?;
    let mut found = Comparison::default();
    for (name, columns) in source_tables {
        found.tables += 1;
        let Some(target_columns) = target_tables.remove(&name) else {
            found.differences.push(Difference { table: name, what: What::MissingTable });
            continue;
        };
        let (table, mut differences) = Table::pair(&name, columns, &target_columns);
        let source_rows = table.source_rows(source, source_db).await?;
        let target_rows = table.target_rows(target, target_schema).await?;
        found.rows += source_rows.len() as u64;
        table.merge(&source_rows, &target_rows, &mut differences);
        found.differences.append(&mut differences);
    }
    let extra = target_tables.into_keys().map(|table| Difference { table, what: What::ExtraTable });
    found.differences.extend(extra);
    Ok(found)
}

#[derive(Debug)]
struct Column {
    name: String,
    form: Form,
    in_key: bool,
}

/// A column that both sides have.
#[derive(Debug)]
struct PairedColumn {
    column: Column,
    pg_type: String,
}

/// What both sides have of one table.
#[derive(Debug)]
struct Table {
    name: String,
    columns: Vec<PairedColumn>,
}

/// A row in canonical text: its key, by which rows are matched, and all its values.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    key: Vec<u8>,
    values: Vec<u8>,
}

impl Table {
    /// Pairs the columns; what only one side has is a difference.
    fn pair(name: &str, columns: Vec<Column>, target: &BTreeMap<String, String>) -> (Self, Vec<Difference>) {
        let difference = |what| Difference { table: name.to_owned(), what };
        let known: BTreeSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let extra = target.keys().filter(|column| !known.contains(column.as_str()));
        let mut differences: Vec<Difference> =
            extra.map(|column| difference(What::ExtraColumn { column: column.clone() })).collect();
        let mut paired = Vec::new();
        for column in columns {
            match target.get(&column.name) {
                Some(pg_type) => paired.push(PairedColumn { column, pg_type: pg_type.clone() }),
                None => differences.push(difference(What::MissingColumn { column: column.name })),
            }
        }
        (Self { name: name.to_owned(), columns: paired }, differences)
    }

    async fn source_rows(&self, source: &mut MySqlSession, db: &str) -> Result<Vec<Line>> {
        let list: Vec<_> = self.columns.iter().map(|c| c.column.form.source_sql(&c.column.name)).collect();
        let from = format!("{}.{}", mysql::identifier(db), mysql::identifier(&self.name));
        let sql = format!("SELECT {} FROM {from}", list_or_null(&list));
        let rows = source.conn().query_stream::<Row, _>(&sql).await;
        let mut rows = rows.with_context(|| format!("reading {from}"))?;
        let mut lines = Vec::new();
        while let Some(row) = rows.try_next().await? {
            lines.push(self.line(|index, form| match row.as_ref(index) {
                None | Some(Value::NULL) => Ok(None),
                Some(Value::Bytes(bytes)) => form.source(String::from_utf8(bytes.clone())?),
                Some(other) => Err(anyhow!("{other:?} is not text")),
            })?);
        }
        lines.sort_unstable();
        Ok(lines)
    }

    async fn target_rows(&self, target: &PgSession, schema: &str) -> Result<Vec<Line>> {
        let sql = |c: &PairedColumn| c.column.form.target_sql(&c.column.name, &c.pg_type);
        let list: Vec<_> = self.columns.iter().map(sql).collect();
        let from = format!("{}.{}", postgres::identifier(schema), postgres::identifier(&self.name));
        let sql = format!("SELECT {} FROM {from}", list_or_null(&list));
        let rows = target.client().query_raw::<_, &str, _>(&sql, []).await;
        let mut rows = std::pin::pin!(rows.with_context(|| format!("reading {from}"))?);
        let mut lines = Vec::new();
        while let Some(row) = rows.try_next().await? {
            lines.push(self.line(|index, form| {
                let printed: Option<&str> = row.try_get(index)?;
                printed.map(|printed| form.target(printed.to_owned())).transpose()
            })?);
        }
        lines.sort_unstable();
        Ok(lines)
    }

    /// One row; without a key all values together are what rows are matched by.
    fn line(&self, value: impl Fn(usize, Form) -> Result<Option<String>>) -> Result<Line> {
        let mut line = Line { key: Vec::new(), values: Vec::new() };
        for (index, PairedColumn { column, .. }) in self.columns.iter().enumerate() {
            let spelling = value(index, column.form)
                .with_context(|| format!("table {}, column {}", self.name, column.name))?;
            if column.in_key {
                write_value(&mut line.key, spelling.as_deref());
            }
            write_value(&mut line.values, spelling.as_deref());
        }
        if !self.columns.iter().any(|c| c.column.in_key) {
            line.key.clone_from(&line.values);
        }
        Ok(line)
    }

    /// Walks both sides in the order of their keys.
    fn merge(&self, source: &[Line], target: &[Line], differences: &mut Vec<Difference>) {
        let (mut s, mut t) = (0, 0);
        while differences.len() < LISTED_PER_TABLE && (s < source.len() || t < target.len()) {
            let order = match (source.get(s), target.get(t)) {
                (Some(here), Some(there)) => here.key.cmp(&there.key),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            match order {
                Ordering::Less => {
                    differences.push(self.difference(What::MissingRow { key: self.key(&source[s]) }))
                }
                Ordering::Greater => {
                    differences.push(self.difference(What::ExtraRow { key: self.key(&target[t]) }))
                }
                Ordering::Equal if source[s].values == target[t].values => {}
                Ordering::Equal => self.compare_values(&source[s], &target[t], differences),
            }
            s += usize::from(order.is_le());
            t += usize::from(order.is_ge());
        }
    }

    fn compare_values(&self, source: &Line, target: &Line, differences: &mut Vec<Difference>) {
        let (here, there) = (read_values(&source.values), read_values(&target.values));
        for ((column, here), there) in self.columns.iter().zip(here).zip(there) {
            if here == there {
                continue;
            }
            let shown =
                |spelling: Option<String>| spelling.map(|spelling| column.column.form.shown(&spelling));
            differences.push(self.difference(What::Value {
                key: self.key(source),
                column: column.column.name.clone(),
                source: shown(here),
                target: shown(there),
            }));
        }
    }

    fn difference(&self, what: What) -> Difference {
        Difference { table: self.name.clone(), what }
    }

    /// The key as a person reads it: `id=1`.
    fn key(&self, line: &Line) -> String {
        let keyed = self.columns.iter().any(|c| c.column.in_key);
        let columns = self.columns.iter().filter(|c| c.column.in_key || !keyed);
        let parts = columns.zip(read_values(&line.key)).map(|(PairedColumn { column, .. }, spelling)| {
            let shown = spelling.map_or_else(|| "NULL".to_owned(), |spelling| column.form.shown(&spelling));
            format!("{}={shown}", column.name)
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

/// A table may have no column in common with the other side; its rows still count.
fn list_or_null(expressions: &[String]) -> String {
    if expressions.is_empty() { "NULL".to_owned() } else { expressions.join(", ") }
}

const NULL: u8 = 1;
const TEXT: u8 = 2;

/// A byte that tells NULL from text, the text, and a zero byte, which canonical text does not hold.
fn write_value(line: &mut Vec<u8>, value: Option<&str>) {
    line.push(if value.is_some() { TEXT } else { NULL });
    line.extend(value.unwrap_or_default().as_bytes());
    line.push(0);
}

fn read_values(line: &[u8]) -> impl Iterator<Item = Option<String>> {
    line.split_inclusive(|byte| *byte == 0).map(|part| match part {
        [TEXT, text @ .., 0] => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    })
}

/// The base tables of a database, with their columns in order.
async fn source_tables(source: &mut MySqlSession, db: &str) -> Result<Vec<(String, Vec<Column>)>> {
    let keys = source_keys(source, db).await?;
    let sql = format!(
        "SELECT c.table_name, c.column_name, c.data_type, c.column_type, c.numeric_precision, c.numeric_scale
         FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
         WHERE c.table_schema = {} AND t.table_type = 'BASE TABLE'
         ORDER BY c.table_name, c.ordinal_position",
        mysql::literal(db)
    );
    let mut tables: Vec<(String, Vec<Column>)> = Vec::new();
    for row in source.rows(&sql).await? {
        let text = |i: usize| row[i].clone().unwrap_or_default();
        let number = |i: usize| row[i].as_ref().and_then(|number| number.parse().ok()).unwrap_or(0);
        let (table, name) = (text(0), text(1));
        let form = Form::of(&text(2), &text(3), number(4), number(5))?;
        let in_key = keys.get(&table).is_some_and(|key| key.contains(&name));
        if tables.last().is_none_or(|(last, _)| *last != table) {
            tables.push((table, Vec::new()));
        }
        if let Some((_, columns)) = tables.last_mut() {
            columns.push(Column { name, form, in_key });
        }
    }
    Ok(tables)
}

/// The key of each table: its primary key, else its first unique key without a nullable column.
async fn source_keys(source: &mut MySqlSession, db: &str) -> Result<BTreeMap<String, Vec<String>>> {
    let sql = format!(
        "SELECT table_name, index_name, column_name, MAX(nullable = 'YES' OR column_name IS NULL) OVER
           (PARTITION BY table_name, index_name)
         FROM information_schema.statistics WHERE table_schema = {} AND non_unique = 0
         ORDER BY table_name, index_name <> 'PRIMARY', index_name, seq_in_index",
        mysql::literal(db)
    );
    let mut keys: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for row in source.rows(&sql).await? {
        let [Some(table), Some(index), Some(column), Some(nullable)] = row.as_slice() else { continue };
        if nullable != "0" {
            continue;
        }
        let key = keys.entry(table.clone()).or_insert_with(|| (index.clone(), Vec::new()));
        if key.0 == *index {
            key.1.push(column.clone());
        }
    }
    Ok(keys.into_iter().map(|(table, (_, columns))| (table, columns)).collect())
}

/// The tables of a schema, with the type name of each column.
async fn target_tables(
    target: &PgSession,
    schema: &str,
) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
    let sql = format!(
        "SELECT c.relname, a.attname, t.typname
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
         LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         LEFT JOIN pg_type t ON t.oid = a.atttypid
         WHERE n.nspname = {} AND c.relkind IN ('r', 'p') AND NOT c.relispartition",
        postgres::literal(schema)
    );
    let mut tables: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for row in target.rows(&sql).await? {
        let [Some(table), column, pg_type] = row.as_slice() else { continue };
        let columns = tables.entry(table.clone()).or_default();
        if let (Some(column), Some(pg_type)) = (column, pg_type) {
            columns.insert(column.clone(), pg_type.clone());
        }
    }
    Ok(tables)
}
