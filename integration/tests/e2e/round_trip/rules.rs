//! What the target has to have for what `information_schema` tells of the source, as the README and the
//! comments in the plan promise it: stated a second time, and not taken from what creates it.

use anyhow::{Context as _, Result, ensure};
use tidegate_integration::MySqlSession;
use tidegate_integration::mysql::literal;

use super::schema::OUTSIDE;

/// Bytes of an entry of a PostgreSQL B-tree, and how near to them no index here comes: what an entry
/// takes beside its values is no fact of `information_schema`.
const ENTRY_MAX: u64 = 2_704;
const NEAR: u64 = 64;

/// What is not the same in two prints of one expression: casts, quotes of names, parentheses, blanks.
pub(super) fn bare(text: &str) -> String {
    const CASTS: [&str; 6] =
        ["::character varying", "::text", "::numeric", "::regconfig", "::integer", "::bigint"];
    let text = CASTS.iter().fold(text.to_owned(), |text, cast| text.replace(cast, ""));
    text.chars().filter(|c| !matches!(c, '(' | ')' | ' ' | '"' | '`')).collect()
}

/// A row of `COLUMNS`.
struct Column {
    table: String,
    name: String,
    data_type: String,
    column_type: String,
    nullable: bool,
    default: Option<String>,
    extra: String,
    comment: String,
    length: String,
    precision: String,
    scale: String,
    digits: String,
}

const COLUMNS: &str = "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, COLUMN_COMMENT,
        CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION
    FROM information_schema.COLUMNS JOIN information_schema.TABLES USING (TABLE_SCHEMA, TABLE_NAME)
    WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA = ";

async fn columns(source: &mut MySqlSession, database: &str) -> Result<Vec<Column>> {
    let rows = source.rows(&format!("{COLUMNS}{}", literal(database))).await?;
    let column = |row: Vec<Option<String>>| {
        let mut values = row.into_iter();
        let mut next = || values.next().flatten();
        let mut text = || next().unwrap_or_default();
        let (table, name, data_type, column_type) = (text(), text(), text(), text());
        let nullable = text() == "YES";
        let default = next();
        let mut text = || next().unwrap_or_default();
        let (extra, comment, length) = (text(), text(), text());
        let (precision, scale, digits) = (text(), text(), text());
        Column {
            table,
            name,
            data_type,
            column_type,
            nullable,
            default,
            extra,
            comment,
            length,
            precision,
            scale,
            digits,
        }
    };
    Ok(rows.into_iter().map(column).collect())
}

impl Column {
    fn target(&self) -> String {
        let unsigned = self.column_type.contains("unsigned");
        let Self { length, precision, scale, digits, .. } = self;
        match (self.data_type.as_str(), unsigned) {
            ("tinyint" | "year", _) | ("smallint", false) => "smallint".to_owned(),
            ("smallint", true) | ("mediumint", _) | ("int", false) => "integer".to_owned(),
            ("int", true) | ("bigint", false) => "bigint".to_owned(),
            ("bigint", true) => "numeric(20,0)".to_owned(),
            ("decimal", _) => format!("numeric({precision},{scale})"),
            ("float", _) => "real".to_owned(),
            ("double", _) => "double precision".to_owned(),
            ("bit", _) if precision == "1" => "boolean".to_owned(),
            ("bit", _) => format!("bit({precision})"),
            ("char" | "varchar", _) if length == "0" => "character varying(1)".to_owned(),
            ("char" | "varchar", _) => format!("character varying({length})"),
            ("tinytext" | "text" | "mediumtext" | "longtext" | "enum" | "set", _) => "text".to_owned(),
            ("date", _) => "date".to_owned(),
            ("time", _) => format!("interval({digits})"),
            ("datetime", _) => format!("timestamp({digits}) without time zone"),
            ("timestamp", _) => format!("timestamp({digits}) with time zone"),
            ("json", _) => "jsonb".to_owned(),
            ("vector", _) => "real[]".to_owned(),
            // Binary strings, and geometries as EWKB.
            _ => "bytea".to_owned(),
        }
    }

    /// The value of the default, as PostgreSQL shows it; `None` where there is none, or none that means
    /// the same.
    async fn target_default(&self, source: &mut MySqlSession) -> Result<Option<String>> {
        let Some(default) = &self.default else { return Ok(None) };
        let is_expression = self.extra.contains("DEFAULT_GENERATED");
        let value = match self.data_type.as_str() {
            _ if default.starts_with("CURRENT_TIMESTAMP") => format!("now {}", self.digits),
            _ if default == "uuid()" || default == "curdate()" => default.clone(),
            _ if is_expression => return self.constant(source, &default.replace("\\'", "'")).await,
            "bit" if self.precision == "1" => (default == "b'1'").to_string(),
            "bit" => {
                let width = self.precision.parse()?;
                format!("{:0>width$}", default.trim_start_matches("b'").trim_end_matches('\''))
            }
            "binary" | "varbinary" => return Ok(None),
            "date" if default.ends_with("-00") => return Ok(None),
            "timestamp" => format!("{}+00", default.trim_end_matches('0').trim_end_matches('.')),
            "datetime" | "time" if default.contains('.') => default.trim_end_matches('0').to_owned(),
            _ if self.column_type.contains("zerofill") => default.trim_start_matches('0').to_owned(),
            _ => default.clone(),
        };
        Ok(Some(value))
    }

    /// Constants, in whatever words, and nothing that is computed.
    async fn constant(&self, source: &mut MySqlSession, expression: &str) -> Result<Option<String>> {
        if expression.contains('+') {
            return Ok(None);
        }
        if !expression.starts_with("0x") {
            return source.scalar(&format!("SELECT {expression}")).await;
        }
        let bytes = expression.trim_start_matches("0x").to_lowercase();
        let width = if self.data_type == "binary" { 2 * self.length.parse::<usize>()? } else { 0 };
        Ok(Some(format!("\\x{bytes:0<width$}")))
    }

    /// Bytes that a whole value takes in an index at most; `None` for no bound.
    fn bytes(&self) -> Result<Option<u64>> {
        Ok(match self.data_type.as_str() {
            "char" | "varchar" => Some(4 * self.length.parse::<u64>()?),
            "mediumtext" | "text" | "blob" => None,
            _ => Some(16),
        })
    }
}

/// A key part: a row of `STATISTICS`.
struct Part {
    column: String,
    descending: bool,
    prefix: Option<u64>,
    expression: Option<String>,
}

struct Index {
    table: String,
    name: String,
    unique: bool,
    kind: String,
    visible: bool,
    parts: Vec<Part>,
}

const STATISTICS: &str = "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, INDEX_TYPE, IS_VISIBLE, COLUMN_NAME, COLLATION, SUB_PART, EXPRESSION
    FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ";

async fn indexes(source: &mut MySqlSession, database: &str) -> Result<Vec<Index>> {
    let sql = format!("{STATISTICS}{} ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX", literal(database));
    let mut indexes: Vec<Index> = Vec::new();
    for row in source.rows(&sql).await? {
        let mut values = row.into_iter();
        let mut next = || values.next().flatten();
        let mut text = || next().unwrap_or_default();
        let (table, name) = (text(), text());
        let (unique, kind, visible) = (text() == "0", text(), text() == "YES");
        let (column, descending) = (text(), text() == "D");
        let prefix = next().map(|text| text.parse()).transpose()?;
        let part = Part { column, descending, prefix, expression: next() };
        match indexes.last_mut() {
            Some(last) if last.table == table && last.name == name => last.parts.push(part),
            _ => indexes.push(Index { table, name, unique, kind, visible, parts: vec![part] }),
        }
    }
    Ok(indexes)
}

/// What is indexed of a part, and the bytes that it takes.
type Item = (String, u64);

impl Index {
    fn target(&self, columns: &[Column]) -> Result<Option<String>> {
        let names = self.parts.iter().map(|part| part.column.as_str());
        if self.name == "PRIMARY" {
            return Ok(Some(format!("primary btree{}", names.collect::<Vec<_>>().join(","))));
        }
        let of = |part: &Part| {
            let mut own = columns.iter().filter(|column| column.table == self.table);
            own.find(|column| column.name == part.column).context("a column of the key")
        };
        match self.kind.as_str() {
            "SPATIAL" => return Ok(None),
            "FULLTEXT" => {
                for part in &self.parts {
                    if of(part)?.data_type != "varchar" {
                        return Ok(None);
                    }
                }
                let texts: Vec<String> = names.map(|name| format!("COALESCE{name},''")).collect();
                return Ok(Some(format!("ginto_tsvector'simple',{}", texts.join("||''||"))));
            }
            _ => {}
        }
        if !self.visible && !self.unique {
            return Ok(None);
        }
        if self.parts.iter().any(|part| part.expression.is_some()) {
            return Ok(self.functional());
        }
        if self.unique {
            let items = self.parts.iter().map(|part| item(of(part)?, part, part.prefix));
            let items: Option<Vec<Item>> = items.collect::<Result<_>>()?;
            if let Some(items) = items.filter(|items| fits(items)) {
                return Ok(Some(format!("unique btree{}", list(&items))));
            }
        }
        let mut items: Vec<Item> = Vec::new();
        for part in &self.parts {
            let whole = item(of(part)?, part, None)?;
            let cut = if part.prefix.is_some() { item(of(part)?, part, part.prefix)? } else { None };
            let with = |next: &Item| fits(&[items.as_slice(), std::slice::from_ref(next)].concat());
            let Some(next) = whole.filter(with).or(cut.filter(with)) else { break };
            items.push(next);
        }
        let first = self.parts.first().map(|part| part.column.clone()).unwrap_or_default();
        Ok(Some(if items.is_empty() { format!("hash{first}") } else { format!("btree{}", list(&items)) }))
    }

    /// Sums and products of numbers; LOWER and UPPER where they refuse nothing.
    fn functional(&self) -> Option<String> {
        let mut items = Vec::new();
        for part in &self.parts {
            let direction = if part.descending { "DESC" } else { "" };
            let what = part.expression.as_deref().map_or_else(|| part.column.clone(), bare);
            let folds = what.starts_with("lower") || what.starts_with("upper");
            if what.starts_with("abs") || (folds && self.unique) {
                return None;
            }
            items.push(format!("{what}{direction}"));
        }
        let unique = if self.unique { "unique " } else { "" };
        Some(format!("{unique}btree{}", items.join(",")))
    }
}

fn item(column: &Column, part: &Part, prefix: Option<u64>) -> Result<Option<Item>> {
    let (name, direction) = (&part.column, if part.descending { "DESC" } else { "" });
    Ok(match prefix {
        None => column.bytes()?.map(|bytes| (format!("{name}{direction}"), bytes)),
        Some(length) if column.data_type == "blob" => {
            Some((format!("substr{name},1,{length}{direction}"), length))
        }
        Some(length) => Some((format!("left{name},{length}{direction}"), 4 * length)),
    })
}

fn fits(items: &[Item]) -> bool {
    let bytes: u64 = items.iter().map(|(_, bytes)| bytes).sum();
    assert!(bytes.abs_diff(ENTRY_MAX) > NEAR, "{items:?} leave open whether they fit");
    bytes < ENTRY_MAX
}

fn list(items: &[Item]) -> String {
    items.iter().map(|(sql, _)| sql.as_str()).collect::<Vec<_>>().join(",")
}

const FOREIGN_KEYS: &str = "SELECT CONCAT_WS(' ', k.TABLE_NAME, 'foreign key', k.CONSTRAINT_NAME, GROUP_CONCAT(k.COLUMN_NAME ORDER BY k.ORDINAL_POSITION), 'to',
        CONCAT(k.REFERENCED_TABLE_SCHEMA, '.', k.REFERENCED_TABLE_NAME), GROUP_CONCAT(k.REFERENCED_COLUMN_NAME ORDER BY k.ORDINAL_POSITION),
        'on update', r.UPDATE_RULE, 'on delete', r.DELETE_RULE), k.REFERENCED_TABLE_SCHEMA
    FROM information_schema.KEY_COLUMN_USAGE k JOIN information_schema.REFERENTIAL_CONSTRAINTS r
        ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME AND r.TABLE_NAME = k.TABLE_NAME
    WHERE k.CONSTRAINT_SCHEMA = %s
    GROUP BY k.TABLE_NAME, k.CONSTRAINT_NAME, k.REFERENCED_TABLE_SCHEMA, k.REFERENCED_TABLE_NAME, r.UPDATE_RULE, r.DELETE_RULE";

const CHECKS: &str = "SELECT TABLE_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
    JOIN information_schema.TABLE_CONSTRAINTS USING (CONSTRAINT_SCHEMA, CONSTRAINT_NAME)
    WHERE CONSTRAINT_TYPE = 'CHECK' AND ENFORCED = 'YES' AND CONSTRAINT_SCHEMA = ";

/// Every fact of the database's tables, a line each, in order.
pub(super) async fn expected(source: &mut MySqlSession, database: &str) -> Result<Vec<String>> {
    source.exec("SET time_zone = '+00:00', group_concat_max_len = 10000").await?;
    let mut lines = Vec::new();
    let columns = columns(source, database).await?;
    for column in &columns {
        let Column { table, name, .. } = column;
        let mut line = format!("{table}.{name} {}", column.target());
        if !column.nullable {
            line.push_str(" NOT NULL");
        }
        if column.extra.contains("auto_increment") {
            line.push_str(" numbers itself");
        } else if let Some(default) = column.target_default(source).await? {
            line.push_str(&format!(" default {default}"));
        }
        if !column.comment.is_empty() {
            line.push_str(&format!(" comment {}", column.comment));
        }
        lines.push(line);
        // Index 0 is the empty text.
        if let Some(labels) = column.column_type.strip_prefix("enum(") {
            lines.push(format!("{table} check {}", bare(&format!("{name}=ANYARRAY['',{labels}]"))));
        }
    }
    for index in indexes(source, database).await? {
        lines
            .extend(index.target(&columns)?.map(|target| format!("{} index {}", index.table, bare(&target))));
    }
    for row in source.rows(&FOREIGN_KEYS.replace("%s", &literal(database))).await? {
        let [Some(line), parent] = row.as_slice() else { anyhow::bail!("a foreign key without names") };
        lines.extend((parent.as_deref() != Some(OUTSIDE)).then(|| line.clone()));
    }
    for row in source.rows(&format!("{CHECKS}{}", literal(database))).await? {
        let [Some(table), Some(clause)] = row.as_slice() else { anyhow::bail!("a check without a clause") };
        // MySQL compares texts by their collation.
        let is_exact = !clause.contains('\'');
        lines.extend(is_exact.then(|| format!("{table} check {}", capitals(&bare(clause)))));
    }
    let tables = "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE' AND TABLE_SCHEMA = ";
    for row in source.rows(&format!("{tables}{}", literal(database))).await? {
        let [Some(table), Some(comment)] = row.as_slice() else { anyhow::bail!("a table without a name") };
        lines.extend([format!("{table} plain table comment {comment}")]);
    }
    ensure!(!lines.is_empty(), "{database} has no tables");
    lines.sort();
    Ok(lines)
}

/// PostgreSQL prints its keywords in capitals.
fn capitals(clause: &str) -> String {
    clause.replace("or", "OR").replace("isnull", "ISNULL")
}
