//! Table definitions, from `information_schema` to [`TableModel`].

use std::collections::BTreeMap;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row};

use super::{field, labels, quote_table};
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::filter::Filter;
use crate::schema::types::{ColumnFacts, TypeContext, hides_labels, parse_column, target_type};
use crate::schema::{Column, TableModel, TableName};
use crate::source::connect::failure;

/// Every base table; views, which hold no rows, are left out.
const TABLES: &str = "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, TABLE_COLLATION FROM information_schema.TABLES \
     WHERE TABLE_TYPE = 'BASE TABLE' ORDER BY TABLE_SCHEMA, TABLE_NAME";

/// The server's hidden columns, which it makes for functional indexes, are not in here nor in row
/// images. Generated invisible primary keys are in both.
const COLUMNS: &str = "SELECT TABLE_NAME, COLUMN_NAME, IS_NULLABLE, EXTRA, DATA_TYPE, COLUMN_TYPE, \
     CHARACTER_SET_NAME, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION \
     FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? ORDER BY TABLE_NAME, ORDINAL_POSITION";

const PRIMARY_KEYS: &str = "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS \
     WHERE TABLE_SCHEMA = ? AND INDEX_NAME = 'PRIMARY' ORDER BY TABLE_NAME, SEQ_IN_INDEX";

/// Tables of this schema that have a unique index other than the primary key.
const UNIQUE_INDEXES: &str = "SELECT DISTINCT TABLE_NAME FROM information_schema.STATISTICS \
     WHERE TABLE_SCHEMA = ? AND NON_UNIQUE = 0 AND INDEX_NAME <> 'PRIMARY'";

/// What the source says of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableFacts {
    pub(crate) name: TableName,
    pub(crate) engine: String,
    /// Collation of columns to come that name none.
    collation: Option<String>,
    columns: Vec<Described>,
    /// Names of the key's columns, in key order.
    key: Vec<String>,
    key_is_primary: bool,
}

/// A row of `information_schema.COLUMNS`.
#[derive(Debug, Clone)]
struct Described {
    name: String,
    nullable: bool,
    extra: String,
    data_type: String,
    column_type: String,
    charset: Option<String>,
    length: Option<u64>,
    precision: Option<u64>,
    scale: Option<u64>,
    digits: Option<u64>,
    /// As stored, where the type's text does not tell them.
    labels: Option<Vec<Vec<u8>>>,
}

/// The models of all tables that the filter includes, in order of name. TINYINT(1) columns are
/// taken for numbers: whether their data is boolean is for the copy to find out.
///
/// # Errors
/// `unsupported_type` or `unsupported_charset` on the first column that can't be converted.
pub async fn tables(conn: &mut Conn, filter: &Filter) -> Result<Vec<TableModel>, Failure> {
    let facts = facts(conn, |name| filter.matches(&name.database, &name.table)).await?;
    Ok(facts.iter().map(TableFacts::model).collect::<Result<_, _>>()?)
}

/// The model of one table; `None` if there is no base table of that name.
///
/// # Errors
/// As [`tables`].
pub async fn table(conn: &mut Conn, table: &TableName) -> Result<Option<TableModel>, Failure> {
    let facts = facts(conn, |name| name == table).await?;
    Ok(facts.first().map(TableFacts::model).transpose()?)
}

/// What the source says of every table that `wanted` accepts.
pub(crate) async fn facts(
    conn: &mut Conn,
    wanted: impl Fn(&TableName) -> bool,
) -> Result<Vec<TableFacts>, Failure> {
    let mut databases: BTreeMap<String, Vec<(TableName, String, Option<String>)>> = BTreeMap::new();
    for mut row in query(conn, TABLES, Params::Empty).await? {
        let name = TableName { database: text(&mut row, 0)?, table: text(&mut row, 1)? };
        if wanted(&name) {
            let engine = field(&mut row, 2)?.unwrap_or_default();
            let collation = field(&mut row, 3)?;
            databases.entry(name.database.clone()).or_default().push((name, engine, collation));
        }
    }
    let mut facts = Vec::new();
    for (database, tables) in databases {
        let mut schema = Schema::read(conn, &database).await?;
        for (name, engine, collation) in tables {
            facts.push(schema.facts(conn, name, engine, collation).await?);
        }
    }
    Ok(facts)
}

/// What the source says of the tables of one database, by table.
struct Schema {
    columns: BTreeMap<String, Vec<Described>>,
    primary_keys: BTreeMap<String, Vec<String>>,
    unique_indexes: BTreeMap<String, ()>,
}

impl Schema {
    async fn read(conn: &mut Conn, database: &str) -> Result<Self, Failure> {
        let mut schema =
            Self { columns: BTreeMap::new(), primary_keys: BTreeMap::new(), unique_indexes: BTreeMap::new() };
        for mut row in query(conn, COLUMNS, (database,)).await? {
            schema.columns.entry(text(&mut row, 0)?).or_default().push(described(&mut row)?);
        }
        for mut row in query(conn, PRIMARY_KEYS, (database,)).await? {
            schema.primary_keys.entry(text(&mut row, 0)?).or_default().push(text(&mut row, 1)?);
        }
        for mut row in query(conn, UNIQUE_INDEXES, (database,)).await? {
            schema.unique_indexes.insert(text(&mut row, 0)?, ());
        }
        Ok(schema)
    }

    async fn facts(
        &mut self,
        conn: &mut Conn,
        name: TableName,
        engine: String,
        collation: Option<String>,
    ) -> Result<TableFacts, Failure> {
        let mut columns = self.columns.remove(&name.table).ok_or_else(|| {
            Failure::retry(Side::Source, "the source's tables changed while their definitions were read")
        })?;
        for column in &mut columns {
            if let Some(count) = hides_labels(&column.facts()) {
                let is_set = column.data_type == "set";
                column.labels = Some(labels::stored(conn, &name, &column.name, count, is_set).await?);
            }
        }
        let primary = self.primary_keys.remove(&name.table);
        let key_is_primary = primary.is_some();
        let key = match primary {
            Some(key) => key,
            None if self.unique_indexes.contains_key(&name.table) => unique_key(conn, &name).await?,
            None => Vec::new(),
        };
        Ok(TableFacts { name, engine, collation, columns, key, key_is_primary })
    }
}

/// The columns of the key that the server takes for the primary key of a table without one: the
/// first unique key, in the server's order, of whole columns that are NOT NULL (server source
/// `sql/dd_table_share.cc`, `fill_indexes_from_dd`). Only `SHOW INDEX` shows that order.
async fn unique_key(conn: &mut Conn, table: &TableName) -> Result<Vec<String>, Failure> {
    let mut keys: Vec<(String, Option<Vec<String>>)> = Vec::new();
    for mut row in query(conn, &format!("SHOW INDEX FROM {}", quote_table(table)), Params::Empty).await? {
        let column = |row: &mut Row, name: &str| {
            let at = row.columns_ref().iter().position(|column| column.name_str() == name);
            at.ok_or_else(|| Halt::new(Reason::Internal, "SHOW INDEX lacks a column"))
        };
        let at = column(&mut row, "Non_unique")?;
        if field::<u64>(&mut row, at)? != Some(0) {
            continue;
        }
        let (name, part) = (column(&mut row, "Key_name")?, column(&mut row, "Column_name")?);
        let (prefix, null) = (column(&mut row, "Sub_part")?, column(&mut row, "Null")?);
        let name = text(&mut row, name)?;
        let whole = field::<u64>(&mut row, prefix)?.is_none() && text(&mut row, null)?.is_empty();
        // A part that is an expression has no column.
        let part = field::<String>(&mut row, part)?.filter(|_| whole);
        if keys.last().is_none_or(|(last, _)| *last != name) {
            keys.push((name, Some(Vec::new())));
        }
        if let Some((_, columns)) = keys.last_mut() {
            *columns = columns.take().zip(part).map(|(mut columns, part)| {
                columns.push(part);
                columns
            });
        }
    }
    Ok(keys.into_iter().find_map(|(_, columns)| columns).unwrap_or_default())
}

fn described(row: &mut Row) -> Result<Described, Failure> {
    Ok(Described {
        name: text(row, 1)?,
        nullable: text(row, 2)? == "YES",
        extra: text(row, 3)?,
        data_type: text(row, 4)?,
        column_type: text(row, 5)?,
        charset: field(row, 6)?,
        length: field(row, 7)?,
        precision: field(row, 8)?,
        scale: field(row, 9)?,
        digits: field(row, 10)?,
        labels: None,
    })
}

impl Described {
    fn facts(&self) -> ColumnFacts<'_> {
        ColumnFacts {
            data_type: &self.data_type,
            column_type: &self.column_type,
            character_set_name: self.charset.as_deref(),
            character_maximum_length: self.length,
            numeric_precision: self.precision,
            numeric_scale: self.scale,
            datetime_precision: self.digits,
            labels: self.labels.as_deref(),
        }
    }

    fn column(&self, table: &TableName) -> Result<Column, Halt> {
        let mysql = parse_column(&self.facts(), table, &self.name)?;
        let auto_increment = self.extra.contains("auto_increment");
        let context = TypeContext { table, column: &self.name, only_zero_one: false, auto_increment };
        let target = target_type(&mysql, context)?;
        // An expression default is announced as DEFAULT_GENERATED.
        let generated = self.extra.contains("VIRTUAL GENERATED") || self.extra.contains("STORED GENERATED");
        Ok(Column {
            name: self.name.clone(),
            mysql,
            target,
            nullable: self.nullable,
            not_null_dropped: false,
            auto_increment,
            generated,
        })
    }
}

impl TableFacts {
    pub(crate) const fn has_key(&self) -> bool {
        !self.key.is_empty()
    }

    /// What keeps each column from being converted.
    pub(crate) fn problems(&self) -> Vec<Halt> {
        self.columns.iter().filter_map(|column| column.column(&self.name).err()).collect()
    }

    fn model(&self) -> Result<TableModel, Halt> {
        let columns: Vec<Column> =
            self.columns.iter().map(|column| column.column(&self.name)).collect::<Result<_, _>>()?;
        let index = |name: &String| columns.iter().position(|column| column.name == *name);
        let key = self.key.iter().map(index).collect::<Option<Vec<_>>>().ok_or_else(|| {
            Halt::new(Reason::Internal, "a key names a column that its table does not have")
                .on_table(&self.name.database, &self.name.table)
        })?;
        let (name, engine) = (self.name.clone(), self.engine.clone());
        // A collation's name begins with that of its character set.
        let charset = |name: &String| name.split('_').next().map(str::to_owned);
        let default_charset = self.collation.as_ref().and_then(charset);
        Ok(TableModel { name, columns, key, key_is_primary: self.key_is_primary, engine, default_charset })
    }
}

#[cfg(test)]
impl TableFacts {
    /// A table without columns and key.
    pub(crate) fn example(database: &str, table: &str, engine: &str) -> Self {
        let name = TableName { database: database.to_owned(), table: table.to_owned() };
        Self {
            name,
            engine: engine.to_owned(),
            collation: None,
            columns: Vec::new(),
            key: Vec::new(),
            key_is_primary: false,
        }
    }
}

async fn query(conn: &mut Conn, sql: &str, params: impl Into<Params> + Send) -> Result<Vec<Row>, Failure> {
    conn.exec(sql, params).await.map_err(|error| failure("describe its tables", &error))
}

fn text(row: &mut Row, index: usize) -> Result<String, Failure> {
    Ok(field(row, index)?.unwrap_or_default())
}
