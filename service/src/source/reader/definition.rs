//! Table definitions, from `information_schema` to [`TableModel`].

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Row, Value};

use super::objects::{Objects, Scope, timestamp_defaults};
use super::{field, labels, quote_table};
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::details::{ColumnDetails, DefaultValue, Generation, TableDetails};
use crate::schema::filter::Filter;
use crate::schema::objects::is_same_kind;
use crate::schema::overrides::Overrides;
use crate::schema::partitions::{SourcePartitions, TargetPartitions};
use crate::schema::spatial::{self, GeometryKind, Shape};
use crate::schema::types::{ColumnFacts, TypeContext, hides_labels, parse_column, target_type};
use crate::schema::{Column, TableModel, TableName};
use crate::source::connect::{failure, is_denied};

/// Every base table; views, which hold no rows, are left out.
const TABLES: &str = "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, TABLE_COMMENT, TABLE_COLLATION FROM information_schema.TABLES \
     WHERE TABLE_TYPE = 'BASE TABLE'{only} ORDER BY TABLE_SCHEMA, TABLE_NAME";

/// The server's hidden columns, which it makes for functional indexes, are not in here nor in row
/// images. Generated invisible primary keys are in both.
const COLUMNS: &str = "SELECT TABLE_NAME, COLUMN_NAME, IS_NULLABLE, EXTRA, DATA_TYPE, COLUMN_TYPE, \
     CHARACTER_SET_NAME, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, \
     COLUMN_DEFAULT, COLUMN_COMMENT, COLLATION_NAME, GENERATION_EXPRESSION, SRS_ID \
     FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ?{table} ORDER BY TABLE_NAME, ORDINAL_POSITION";

const PRIMARY_KEYS: &str = "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS \
     WHERE TABLE_SCHEMA = ?{table} AND INDEX_NAME = 'PRIMARY' ORDER BY TABLE_NAME, SEQ_IN_INDEX";

/// Tables of this schema that have a unique index other than the primary key.
const UNIQUE_INDEXES: &str = "SELECT DISTINCT TABLE_NAME FROM information_schema.STATISTICS \
     WHERE TABLE_SCHEMA = ?{table} AND NON_UNIQUE = 0 AND INDEX_NAME <> 'PRIMARY'";

/// What the source says of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableFacts {
    pub(crate) name: TableName,
    pub(crate) engine: String,
    columns: Vec<Described>,
    /// Names of the key's columns, in key order.
    key: Vec<String>,
    key_is_primary: bool,
    details: TableDetails,
    partitions: Option<SourcePartitions>,
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
    default: Option<String>,
    comment: String,
    collation: Option<String>,
    generation: String,
    srid: Option<u32>,
    /// Part of a foreign key, or referenced by one.
    joined: bool,
}

/// The models of all tables that the filter includes, in order of name. TINYINT(1) columns are
/// taken for numbers: whether their data is boolean is for the copy to find out.
///
/// # Errors
/// `unsupported_type` or `unsupported_charset` on the first column that can't be converted, or is
/// set to another type than a column that a foreign key joins it with.
pub async fn tables(
    conn: &mut Conn,
    filter: &Filter,
    overrides: &Overrides,
) -> Result<Vec<TableModel>, Failure> {
    let facts = facts(conn, None, |name| filter.matches(&name.database, &name.table)).await?;
    Ok(models(&facts, overrides)?)
}

/// The models of all tables that the filter includes, and what keeps others from having one.
///
/// # Errors
/// Failures of the source.
pub async fn describe(
    conn: &mut Conn,
    filter: &Filter,
    overrides: &Overrides,
) -> Result<(Vec<TableModel>, Vec<Halt>), Failure> {
    let facts = facts(conn, None, |name| filter.matches(&name.database, &name.table)).await?;
    let mut problems: Vec<Halt> = facts.iter().flat_map(|facts| facts.problems(overrides)).collect();
    if problems.is_empty() {
        problems.extend(models(&facts, overrides).err());
    }
    Ok((facts.iter().filter_map(|facts| facts.model(overrides).ok()).collect(), problems))
}

/// The models of the tables, which the configuration's types must fit.
pub(crate) fn models(facts: &[TableFacts], overrides: &Overrides) -> Result<Vec<TableModel>, Halt> {
    let models: Vec<TableModel> =
        facts.iter().map(|facts| facts.model(overrides)).collect::<Result<_, _>>()?;
    let columns = facts.iter().flat_map(TableFacts::columns);
    if let Some(unknown) = overrides.unmatched(columns).first() {
        let detail = format!("types or schema has \"{unknown}\", which is no column of an included table");
        return Err(Halt::new(Reason::UnsupportedType, detail));
    }
    if let Some(unknown) = overrides.unmatched_tables(models.iter().map(|model| &model.name)).first() {
        let detail = format!("schema has partitions of \"{unknown}\", which is no included table");
        return Err(Halt::new(Reason::UnsupportedType, detail));
    }
    check_joined(&models)?;
    Ok(models)
}

/// The model of one table; `None` if there is no base table of that name.
///
/// # Errors
/// As [`tables`].
pub async fn table(
    conn: &mut Conn,
    table: &TableName,
    overrides: &Overrides,
) -> Result<Option<TableModel>, Failure> {
    let facts = facts(conn, Some(table), |name| name == table).await?;
    Ok(facts.first().map(|facts| facts.model(overrides)).transpose()?)
}

/// The catalog shows no table that the account has no right to, as if it did not exist.
///
/// # Errors
/// `source_preflight` where the account may not read a table of this name.
pub async fn refuse_unreadable(conn: &mut Conn, table: &TableName) -> Result<(), Failure> {
    let TableName { database, table: name } = table;
    let probe = conn.query_drop(format!("SELECT 1 FROM {} LIMIT 0", quote_table(table))).await;
    if !probe.is_err_and(|error| is_denied(&error)) {
        return Ok(());
    }
    let detail = "the account may not read a table that the source has created: GRANT SELECT on it or on its \
                  database, and resume";
    Err(Halt::new(Reason::SourcePreflight, detail).on_table(database, name).into())
}

/// Columns joined by a foreign key have one type on the source; the configuration must not part them.
fn check_joined(models: &[TableModel]) -> Result<(), Halt> {
    let by_name: BTreeMap<&TableName, &TableModel> =
        models.iter().map(|model| (&model.name, model)).collect();
    for model in models {
        for key in &model.details.foreign_keys {
            let Some(parent) = by_name.get(&key.parent) else { continue };
            for (own, other) in key.columns.iter().zip(&key.parent_columns) {
                let column = |model: &TableModel, name: &str| {
                    model.columns.iter().find(|column| column.name == name).cloned()
                };
                let (Some(own), Some(other)) = (column(model, own), column(parent, other)) else { continue };
                let overridden = own.details.overridden || other.details.overridden;
                if overridden && !is_same_kind(own.target, other.target) {
                    let TableName { database, table } = &key.parent;
                    let detail = format!(
                        "types make column `{}` {} and column `{}` of its parent {database}.{table} {}: \
                         set both to one type",
                        own.name, own.target, other.name, other.target
                    );
                    let halt = Halt::new(Reason::UnsupportedType, detail);
                    return Err(halt.on_table(&model.name.database, &model.name.table));
                }
            }
        }
    }
    Ok(())
}

/// What the source says of every table that `wanted` accepts; with `only`, of none but that one.
///
/// It takes several queries, and the source's tables may be changed meanwhile. The data dictionary is
/// kept in InnoDB, whose read view shows all of it before or after a statement (MySQL manual, "Data
/// Dictionary Schema").
pub(crate) async fn facts(
    conn: &mut Conn,
    only: Option<&TableName>,
    wanted: impl Fn(&TableName) -> bool,
) -> Result<Vec<TableFacts>, Failure> {
    execute(conn, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await?;
    let read = dictionary(conn, only, wanted).await;
    execute(conn, "ROLLBACK").await?;
    let mut facts = read?;
    // These open the tables themselves, which in a transaction would hold off DDL until its end.
    for facts in &mut facts {
        facts.read_labels(conn).await?;
        facts.read_timestamp_defaults(conn).await?;
    }
    Ok(facts)
}

async fn execute(conn: &mut Conn, statement: &str) -> Result<(), Failure> {
    conn.query_drop(statement).await.map_err(|error| failure("describe its tables", &error))
}

/// What the data dictionary has of the tables.
async fn dictionary(
    conn: &mut Conn,
    only: Option<&TableName>,
    wanted: impl Fn(&TableName) -> bool,
) -> Result<Vec<TableFacts>, Failure> {
    let mut databases: BTreeMap<String, Vec<(TableName, String, TableDetails)>> = BTreeMap::new();
    let (condition, params) = match only {
        Some(TableName { database, table }) => {
            let params = vec![Value::from(database.as_str()), Value::from(table.as_str())];
            (" AND TABLE_SCHEMA = ? AND TABLE_NAME = ?", Params::Positional(params))
        }
        None => ("", Params::Empty),
    };
    for mut row in query(conn, &TABLES.replace("{only}", condition), params).await? {
        let name = TableName { database: text(&mut row, 0)?, table: text(&mut row, 1)? };
        if wanted(&name) {
            let engine = field(&mut row, 2)?.unwrap_or_default();
            let details = TableDetails {
                comment: without_nul(&text(&mut row, 3)?),
                collation: field(&mut row, 4)?,
                ..TableDetails::default()
            };
            databases.entry(name.database.clone()).or_default().push((name, engine, details));
        }
    }
    let mut facts = Vec::new();
    for (database, tables) in databases {
        let scope = Scope { database: &database, table: only.map(|name| name.table.as_str()) };
        let mut schema = Schema::read(conn, scope).await?;
        for (name, engine, details) in tables {
            facts.push(schema.facts(conn, name, engine, details).await?);
        }
    }
    Ok(facts)
}

/// What the source says of the tables of one database, by table.
struct Schema {
    columns: BTreeMap<String, Vec<Described>>,
    primary_keys: BTreeMap<String, Vec<String>>,
    unique_indexes: BTreeMap<String, ()>,
    objects: Objects,
}

impl Schema {
    async fn read(conn: &mut Conn, scope: Scope<'_>) -> Result<Self, Failure> {
        let mut schema = Self {
            columns: BTreeMap::new(),
            primary_keys: BTreeMap::new(),
            unique_indexes: BTreeMap::new(),
            objects: Objects::read(conn, scope).await?,
        };
        for mut row in scope.query(conn, COLUMNS, "TABLE_NAME").await? {
            schema.columns.entry(text(&mut row, 0)?).or_default().push(described(&mut row)?);
        }
        for mut row in scope.query(conn, PRIMARY_KEYS, "TABLE_NAME").await? {
            schema.primary_keys.entry(text(&mut row, 0)?).or_default().push(text(&mut row, 1)?);
        }
        for mut row in scope.query(conn, UNIQUE_INDEXES, "TABLE_NAME").await? {
            schema.unique_indexes.insert(text(&mut row, 0)?, ());
        }
        Ok(schema)
    }

    async fn facts(
        &mut self,
        conn: &mut Conn,
        name: TableName,
        engine: String,
        details: TableDetails,
    ) -> Result<TableFacts, Failure> {
        let mut columns = self.columns.remove(&name.table).ok_or_else(|| {
            Failure::retry(Side::Source, "the source does not show the columns of one of its tables")
        })?;
        let primary = self.primary_keys.remove(&name.table);
        let key_is_primary = primary.is_some();
        let key = match primary {
            Some(key) => key,
            None if self.unique_indexes.contains_key(&name.table) => unique_key(conn, &name).await?,
            None => Vec::new(),
        };
        let TableDetails { comment, collation, .. } = details;
        let details = TableDetails { comment, collation, ..self.objects.take(&name.table) };
        let own: BTreeSet<&String> = details.foreign_keys.iter().flat_map(|key| &key.columns).collect();
        for column in &mut columns {
            column.joined =
                own.contains(&column.name) || self.objects.is_referenced(&name.table, &column.name);
        }
        let partitions = self.objects.take_partitions(&name.table);
        Ok(TableFacts { name, engine, columns, key, key_is_primary, details, partitions })
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
        default: field(row, 11)?,
        comment: text(row, 12)?,
        collation: field(row, 13)?,
        generation: text(row, 14)?,
        srid: field(row, 15)?,
        joined: false,
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

    fn column(&self, table: &TableName, overrides: &Overrides) -> Result<Column, Halt> {
        let mysql = parse_column(&self.facts(), table, &self.name)?;
        let auto_increment = self.extra.contains("auto_increment");
        let context = TypeContext { table, column: &self.name, only_zero_one: false, auto_increment };
        let choice = overrides.choice(table, &self.name, &self.data_type, &self.column_type);
        let unsupported =
            |detail| Halt::new(Reason::UnsupportedType, detail).on_table(&table.database, &table.table);
        let chosen = choice.map(|choice| choice.target(&mysql));
        let target = match (chosen, self.shape()) {
            (Some(None), _) => {
                let detail = format!("types give column `{}` a type that {mysql} can't be", self.name);
                return Err(unsupported(detail));
            }
            (_, Some(shape)) => spatial::target(shape, choice, overrides.postgis())
                .map_err(|problem| unsupported(format!("column `{}` {problem}", self.name)))?,
            (Some(Some(target)), None) => target,
            (None, None) => target_type(&mysql, context)?,
        };
        // An expression default is announced as DEFAULT_GENERATED.
        let generated = self.extra.contains("VIRTUAL GENERATED") || self.extra.contains("STORED GENERATED");
        let target_collation =
            overrides.target_collation(table, &self.name, &mysql, self.collation.as_deref());
        Ok(Column {
            name: self.name.clone(),
            mysql,
            target,
            nullable: self.nullable,
            not_null_dropped: false,
            auto_increment,
            generated,
            details: ColumnDetails { target_collation, ..self.details(choice.is_some()) },
        })
    }

    fn shape(&self) -> Option<Shape> {
        GeometryKind::from_data_type(&self.data_type).map(|kind| Shape { kind, srid: self.srid })
    }

    fn details(&self, overridden: bool) -> ColumnDetails {
        let stored = self.extra.contains("STORED GENERATED");
        let generated = stored || self.extra.contains("VIRTUAL GENERATED");
        let default = self.default.clone().map(|text| {
            let computed = self.extra.contains("DEFAULT_GENERATED") || text.starts_with("CURRENT_TIMESTAMP");
            match (text.contains('\0'), computed) {
                (true, _) => DefaultValue::WithNul,
                (false, true) => DefaultValue::Expression(text),
                (false, false) => DefaultValue::Literal(text),
            }
        });
        ColumnDetails {
            default: default.filter(|_| !generated),
            updates_itself: self.extra.contains("on update CURRENT_TIMESTAMP"),
            comment: without_nul(&self.comment),
            collation: self.collation.clone(),
            invisible: self.extra.contains("INVISIBLE"),
            generation: generated.then(|| Generation { expression: without_nul(&self.generation), stored }),
            joined: self.joined,
            overridden,
            target_collation: None,
            shape: self.shape(),
        }
    }

    fn has_timestamp_default(&self) -> bool {
        self.data_type == "timestamp"
            && self.default.as_ref().is_some_and(|default| default.starts_with(|c: char| c.is_ascii_digit()))
    }
}

impl TableFacts {
    async fn read_labels(&mut self, conn: &mut Conn) -> Result<(), Failure> {
        for column in &mut self.columns {
            if let Some(count) = hides_labels(&column.facts()) {
                let is_set = column.data_type == "set";
                column.labels = Some(labels::stored(conn, &self.name, &column.name, count, is_set).await?);
            }
        }
        Ok(())
    }

    async fn read_timestamp_defaults(&mut self, conn: &mut Conn) -> Result<(), Failure> {
        if !self.columns.iter().any(Described::has_timestamp_default) {
            return Ok(());
        }
        let mut defaults = timestamp_defaults(conn, &self.name).await?;
        for column in self.columns.iter_mut().filter(|column| column.has_timestamp_default()) {
            column.default = defaults.remove(&column.name);
        }
        Ok(())
    }

    pub(crate) const fn has_key(&self) -> bool {
        !self.key.is_empty()
    }

    /// What keeps each column from being converted.
    pub(crate) fn problems(&self, overrides: &Overrides) -> Vec<Halt> {
        self.columns.iter().filter_map(|column| column.column(&self.name, overrides).err()).collect()
    }

    fn columns(&self) -> impl Iterator<Item = (&TableName, &str)> {
        self.columns.iter().map(|column| (&self.name, column.name.as_str()))
    }

    pub(crate) fn model(&self, overrides: &Overrides) -> Result<TableModel, Halt> {
        let columns: Vec<Column> = self
            .columns
            .iter()
            .map(|column| column.column(&self.name, overrides))
            .collect::<Result<_, _>>()?;
        let index = |name: &String| columns.iter().position(|column| column.name == *name);
        let key = self.key.iter().map(index).collect::<Option<Vec<_>>>().ok_or_else(|| {
            Halt::new(Reason::Internal, "a key names a column that its table does not have")
                .on_table(&self.name.database, &self.name.table)
        })?;
        let (name, engine) = (self.name.clone(), self.engine.clone());
        // A collation's name begins with that of its character set.
        let charset = |name: &String| name.split('_').next().map(str::to_owned);
        let default_charset = self.details.collation.as_ref().and_then(charset);
        let postgis = overrides.postgis().map(str::to_owned);
        let (key_is_primary, details) =
            (self.key_is_primary, TableDetails { postgis, ..self.details.clone() });
        let mut model = TableModel { name, columns, key, key_is_primary, engine, default_charset, details };
        let choice = overrides.partition_choice(&model.name);
        model.details.target_partitions = TargetPartitions::choose(choice, self.partitions.as_ref(), &model);
        Ok(model)
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
            columns: Vec::new(),
            key: Vec::new(),
            key_is_primary: false,
            details: TableDetails::default(),
            partitions: None,
        }
    }
}

async fn query(conn: &mut Conn, sql: &str, params: impl Into<Params> + Send) -> Result<Vec<Row>, Failure> {
    conn.exec(sql, params).await.map_err(|error| failure("describe its tables", &error))
}

/// A text for people; the model is kept as JSON, which on the target holds no NUL.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\\0")
}

fn text(row: &mut Row, index: usize) -> Result<String, Failure> {
    Ok(field(row, index)?.unwrap_or_default())
}
