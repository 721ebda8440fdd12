//! The target's DDL. Every name is quoted and kept as it is; what PostgreSQL can't hold is refused
//! by name, never cut or changed.

pub mod change;
pub mod collation;

use std::collections::HashMap;

use super::charset::Charset;
use super::collation::has_collated_key;
use super::default::target_default;
use super::names::{Candidates, Names};
use super::policy::{ChangeForm, TargetChange};
use super::{Column, MysqlType, TableModel, TableName, TargetType};
use crate::halt::{Halt, Reason};

/// PostgreSQL's limit for identifiers (NAMEDATALEN - 1), in bytes.
pub(super) const MAX_IDENTIFIER_BYTES: usize = 63;

/// The widest entry of a PostgreSQL B-tree, in bytes: a third of a page less its header
/// (server source `src/include/access/nbtree.h`, `BTMaxItemSize`).
pub(super) const MAX_KEY_BYTES: u64 = 2_704;

/// An index entry's own header, in bytes.
pub(super) const INDEX_ENTRY_HEADER_BYTES: u64 = 8;

/// Column names that every PostgreSQL table has already.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"];

/// The schema that holds Tidegate's own tables.
const CONTROL_SCHEMA: &str = "tidegate";

/// The identifier in double quotes.
///
/// # Errors
/// `unsupported_name` where it is empty, longer than 63 bytes or holds NUL.
pub fn quote_ident(name: &str) -> Result<String, Halt> {
    let problem = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_IDENTIFIER_BYTES {
        "is longer than PostgreSQL's 63 bytes"
    } else if name.contains('\0') {
        "holds a NUL character"
    } else {
        return Ok(format!("\"{}\"", name.replace('"', "\"\"")));
    };
    Err(unsupported_name(format!("the name `{}` {problem}", name.replace('\0', "\\0"))))
}

/// The target's schema and table name: those of the source.
///
/// # Errors
/// `unsupported_name` where PostgreSQL can't have or Tidegate must not use them.
pub fn target_name(name: &TableName) -> Result<(&str, &str), Halt> {
    qualified(name).map(|_| (name.database.as_str(), name.table.as_str()))
}

/// The target's table as `"schema"."table"`.
///
/// # Errors
/// As [`target_name`].
pub fn qualified(name: &TableName) -> Result<String, Halt> {
    let quoted =
        quote_schema(&name.database).and_then(|schema| Ok(format!("{schema}.{}", quote_ident(&name.table)?)));
    quoted.map_err(|halt| halt.on_table(&name.database, &name.table))
}

fn quote_schema(name: &str) -> Result<String, Halt> {
    if name == CONTROL_SCHEMA || name == "information_schema" || name.starts_with("pg_") {
        return Err(unsupported_name(format!("the schema name `{name}` is reserved on the target")));
    }
    quote_ident(name)
}

/// # Errors
/// `unsupported_name`.
pub fn create_schema(database: &str) -> Result<String, Halt> {
    Ok(format!("CREATE SCHEMA IF NOT EXISTS {}", quote_schema(database)?))
}

/// # Errors
/// `unsupported_name`.
pub fn drop_table(name: &TableName) -> Result<String, Halt> {
    Ok(format!("DROP TABLE IF EXISTS {}", qualified(name)?))
}

/// What keeps a statement off the tables that inherit from one, with a blank after it: those of others.
/// A partitioned table's rows are in tables that inherit from it.
pub(crate) const fn only(model: &TableModel) -> &'static str {
    only_where(model.details.target_partitions.native().is_none())
}

const fn only_where(is_plain: bool) -> &'static str {
    if is_plain { "ONLY " } else { "" }
}

/// # Errors
/// `unsupported_name`.
pub fn truncate_table(name: &TableName, is_plain: bool) -> Result<String, Halt> {
    Ok(format!("TRUNCATE TABLE {}{}", only_where(is_plain), qualified(name)?))
}

/// Removes every row, as TRUNCATE does where foreign keys reference the table.
///
/// # Errors
/// `unsupported_name`.
pub fn delete_all(name: &TableName, is_plain: bool) -> Result<String, Halt> {
    Ok(format!("DELETE FROM {}{}", only_where(is_plain), qualified(name)?))
}

/// The statements that move a table to another name, in order. Between schemas it keeps its name
/// first: there must be no relation of that name in the new one.
///
/// # Errors
/// `unsupported_name`.
pub fn move_table(from: &TableName, to: &TableName) -> Result<Vec<String>, Halt> {
    let mut statements = Vec::new();
    if from.database != to.database {
        let schema = quote_schema(&to.database)?;
        statements.push(format!("ALTER TABLE {} SET SCHEMA {schema}", qualified(from)?));
    }
    if from.table != to.table {
        let moved = TableName { database: to.database.clone(), table: from.table.clone() };
        let name = quote_ident(&to.table)?;
        statements.push(format!("ALTER TABLE {} RENAME TO {name}", qualified(&moved)?));
    }
    Ok(statements)
}

/// One `ALTER TABLE` that makes a change for a policy. `default` is the column's default expression
/// as the catalog prints it; one of boolean becomes 0 or 1.
///
/// # Errors
/// `unsupported_name`; `internal_error` for a column that the model does not have.
pub fn alter_column(model: &TableModel, change: TargetChange, default: Option<&str>) -> Result<String, Halt> {
    let table = qualified(&model.name)?;
    let missing = || Halt::new(Reason::Internal, "a policy changes a column that its table does not have");
    let name = quote_ident(&model.columns.get(change.column).ok_or_else(missing)?.name)?;
    // boolean has a cast to integer alone.
    let to_number = |boolean: &str| format!("({boolean})::integer::smallint");
    let actions = match (change.form, default) {
        (ChangeForm::DropNotNull, _) => vec![format!("ALTER COLUMN {name} DROP NOT NULL")],
        (ChangeForm::Widen, default) => {
            let mut actions = vec![format!("ALTER COLUMN {name} TYPE smallint USING {}", to_number(&name))];
            if let Some(default) = default {
                actions.insert(0, format!("ALTER COLUMN {name} DROP DEFAULT"));
                actions.push(format!("ALTER COLUMN {name} SET DEFAULT {}", to_number(default)));
            }
            actions
        }
    };
    let only = only(model);
    Ok(format!("ALTER TABLE {only}{table} {}", actions.join(", ")))
}

/// Why the table can't be made on the target: a name that is reserved or too long, a key that is too
/// wide or whose values would not stay apart.
#[must_use]
pub fn refusal(model: &TableModel) -> Option<Halt> {
    create_statements(model, &mut Names::default(), Key::Included).err()
}

/// Whether a table is created with its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Included,
    /// To be added once the rows are there: [`add_key`].
    Later,
}

/// The statements that create the table without rows, once there are its schema and its collations: a
/// sequence for each column that numbers itself and can't be an identity column, the table, and its
/// comments.
///
/// # Errors
/// As [`create_table`].
pub fn create_statements(model: &TableModel, relations: &mut Names, key: Key) -> Result<Vec<String>, Halt> {
    let mut statements = Vec::new();
    let mut owners = Vec::new();
    let mut sequences = HashMap::new();
    for column in model.columns.iter().filter(|column| has_sequence(column)) {
        let name = relations.take(&Candidates::of_sequence(&model.name, &column.name));
        let sequence = format!("{}.{}", quote_schema(&model.name.database)?, quote_ident(&name)?);
        statements.push(format!("CREATE SEQUENCE {sequence}"));
        let column_name = format!("{}.{}", qualified(&model.name)?, quote_ident(&column.name)?);
        owners.push(format!("ALTER SEQUENCE {sequence} OWNED BY {column_name}"));
        sequences.insert(column.name.as_str(), sequence);
    }
    statements.push(create_table(model, &sequences, key)?);
    if let Some(native) = model.details.target_partitions.native() {
        statements.extend(native.statements(&model.name, relations)?);
    }
    if key == Key::Included {
        statements.extend(collation::key_index(model)?);
    }
    statements.extend(owners);
    statements.extend(comments(model, false)?);
    Ok(statements)
}

/// The statements that give a table that is there the defaults and comments of the present definition.
///
/// # Errors
/// `unsupported_name`.
pub fn present_details(model: &TableModel) -> Result<Vec<String>, Halt> {
    let table = qualified(&model.name)?;
    let mut actions = Vec::new();
    for column in model.columns.iter().filter(|column| !has_identity(column) && !has_sequence(column)) {
        let name = quote_ident(&column.name)?;
        actions.push(match target_default(column) {
            Ok(Some(default)) => format!("ALTER COLUMN {name} SET DEFAULT {}", default.sql),
            Ok(None) | Err(_) => format!("ALTER COLUMN {name} DROP DEFAULT"),
        });
    }
    let mut statements = comments(model, true)?;
    if !actions.is_empty() {
        statements.push(format!("ALTER TABLE {table} {}", actions.join(", ")));
    }
    Ok(statements)
}

/// With `replace`, what the source does not comment loses its comment.
fn comments(model: &TableModel, replace: bool) -> Result<Vec<String>, Halt> {
    let table = qualified(&model.name)?;
    // PostgreSQL's text holds no NUL.
    let comment = |on: String, text: &str| {
        if text.is_empty() || text.contains('\0') {
            return replace.then(|| format!("COMMENT ON {on} IS NULL"));
        }
        Some(format!("COMMENT ON {on} IS {}", quote_literal(text)))
    };
    let mut statements: Vec<String> =
        comment(format!("TABLE {table}"), &model.details.comment).into_iter().collect();
    for column in &model.columns {
        let on = format!("COLUMN {table}.{}", quote_ident(&column.name)?);
        statements.extend(comment(on, &column.details.comment));
    }
    Ok(statements)
}

/// One `CREATE TABLE` statement: columns, NOT NULL, identity, defaults, the labels of enums, and the
/// key, if included, as PRIMARY KEY or UNIQUE, unless that is to be by other than bytes. `sequences`
/// has those of columns that take their numbers from one.
/// Constraints are left to PostgreSQL to name: it fits the name into its limit and keeps it free of
/// collisions.
///
/// # Errors
/// `unsupported_name` for the table or a column, `unsupported_key` for a key that is too wide or
/// whose values would not stay apart.
fn create_table(model: &TableModel, sequences: &HashMap<&str, String>, key: Key) -> Result<String, Halt> {
    let table = qualified(&model.name)?;
    let on_table = |halt: Halt| halt.on_table(&model.name.database, &model.name.table);
    check_key(model).map_err(on_table)?;
    let mut items = Vec::with_capacity(model.columns.len() + 1);
    for column in &model.columns {
        let sequence = sequences.get(column.name.as_str());
        items.push(column_definition(model, column, sequence).map_err(on_table)?);
    }
    if key == Key::Included {
        items.extend(key_constraint(model).map_err(on_table)?);
    }
    let partitions = match model.details.target_partitions.native() {
        Some(native) => native.clause().map_err(on_table)?,
        None => String::new(),
    };
    Ok(format!("CREATE TABLE {table} (\n    {}\n){partitions}", items.join(",\n    ")))
}

/// The statement that adds the key to a table that was created without; none for a table that has no
/// key. PostgreSQL names it as it would have at the creation.
///
/// # Errors
/// `unsupported_name`.
pub fn add_key(model: &TableModel) -> Result<Option<String>, Halt> {
    match key_constraint(model)? {
        Some(constraint) => Ok(Some(format!("ALTER TABLE {} ADD {constraint}", qualified(&model.name)?))),
        None => collation::key_index(model),
    }
}

fn key_constraint(model: &TableModel) -> Result<Option<String>, Halt> {
    if model.key.is_empty() || has_collated_key(model) {
        return Ok(None);
    }
    let kind = if model.key_is_primary { "PRIMARY KEY" } else { "UNIQUE" };
    let names = key_columns(model)?.map(|column| quote_ident(&column.name)).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(format!("{kind} ({})", names.join(", "))))
}

/// The type as a statement names it, whatever the session looks for names in.
pub(super) fn type_sql(model: &TableModel, target: TargetType) -> Result<String, Halt> {
    if !matches!(target, TargetType::Geometry { .. }) {
        return Ok(target.to_string());
    }
    Ok(format!("{}.{target}", postgis_schema(model)?))
}

/// The schema of PostGIS, quoted.
///
/// # Errors
/// `internal_error` for a table that was made without it.
pub fn postgis_schema(model: &TableModel) -> Result<String, Halt> {
    let missing =
        || Halt::new(Reason::Internal, "a column is of PostGIS's type, and its schema is not known");
    quote_ident(model.details.postgis.as_deref().ok_or_else(missing)?)
}

fn column_definition(model: &TableModel, column: &Column, sequence: Option<&String>) -> Result<String, Halt> {
    if SYSTEM_COLUMNS.contains(&column.name.as_str()) {
        let detail = format!("the column name `{}` is that of a PostgreSQL system column", column.name);
        return Err(unsupported_name(detail));
    }
    let name = quote_ident(&column.name)?;
    let target = type_sql(model, column.target)?;
    let mut definition = format!("{name} {target}{}", collation::clause(model, column)?);
    if has_identity(column) {
        definition.push_str(" GENERATED BY DEFAULT AS IDENTITY");
    } else if let Some(sequence) = sequence {
        definition.push_str(&format!(" DEFAULT nextval({}::regclass)", quote_literal(sequence)));
    } else if let Ok(Some(default)) = target_default(column) {
        definition.push_str(&format!(" DEFAULT {}", default.sql));
    }
    if !column.nullable && !column.not_null_dropped {
        definition.push_str(" NOT NULL");
    }
    if let Some(check) = labels_check(column)? {
        definition.push(' ');
        definition.push_str(&check);
    }
    Ok(definition)
}

/// What keeps an enum's column to its labels.
fn labels_check(column: &Column) -> Result<Option<String>, Halt> {
    let MysqlType::Enum { labels } = &column.mysql else { return Ok(None) };
    let name = quote_ident(&column.name)?;
    // The empty text is index 0, what MySQL stores for a label that is not in the list.
    let labels =
        std::iter::once("").chain(labels.iter().map(String::as_str).filter(|label| !label.is_empty()));
    let labels = labels.map(quote_literal).collect::<Vec<_>>().join(", ");
    Ok(Some(format!("CHECK ({name} IN ({labels}))")))
}

pub(super) const fn has_identity(column: &Column) -> bool {
    column.auto_increment
        && matches!(column.target, TargetType::SmallInt | TargetType::Integer | TargetType::BigInt)
}

/// PostgreSQL's identity columns are integers; others take their numbers from a sequence.
pub(super) const fn has_sequence(column: &Column) -> bool {
    column.auto_increment
        && matches!(
            column.target,
            TargetType::Numeric { scale: 0, .. } | TargetType::Real | TargetType::DoublePrecision
        )
}

/// A text literal that means the same under either setting of `standard_conforming_strings`.
pub(super) fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

fn key_columns(model: &TableModel) -> Result<impl Iterator<Item = &Column>, Halt> {
    let columns: Option<Vec<_>> = model.key.iter().map(|&index| model.columns.get(index)).collect();
    let missing = || Halt::new(Reason::Internal, "a table model's key names a column that it does not have");
    columns.map(Vec::into_iter).ok_or_else(missing)
}

/// Whether PostgreSQL can index every key that MySQL accepts, and keeps different keys different.
fn check_key(model: &TableModel) -> Result<(), Halt> {
    let mut bytes = INDEX_ENTRY_HEADER_BYTES;
    for column in key_columns(model)? {
        if !labels_differ(&column.mysql) {
            let detail =
                format!("the labels of key column `{}` repeat, or one of them is empty", column.name);
            return Err(Halt::new(Reason::UnsupportedKey, detail));
        }
        let Some(width) = max_key_width(&column.mysql) else {
            let detail =
                format!("key column `{}` has no greatest length that PostgreSQL can index", column.name);
            return Err(Halt::new(Reason::UnsupportedKey, detail));
        };
        bytes += width.next_multiple_of(8);
    }
    if bytes > MAX_KEY_BYTES {
        let detail =
            format!("an entry of the key can take {bytes} bytes, more than PostgreSQL's {MAX_KEY_BYTES}");
        return Err(Halt::new(Reason::UnsupportedKey, detail));
    }
    Ok(())
}

/// Labels become text on the target, where index 0 and the empty set are the empty text.
pub(super) fn labels_differ(mysql: &MysqlType) -> bool {
    let (MysqlType::Enum { labels } | MysqlType::Set { labels }) = mysql else { return true };
    let distinct: std::collections::HashSet<_> = labels.iter().filter(|label| !label.is_empty()).collect();
    distinct.len() == labels.len()
}

/// The most bytes that a value takes in a PostgreSQL index entry, `None` for no bound worth having.
pub(super) fn max_key_width(mysql: &MysqlType) -> Option<u64> {
    const VARLENA_HEADER: u64 = 4;
    let content = match mysql {
        MysqlType::Char { length, charset } | MysqlType::Varchar { length, charset } => {
            u64::from(*length) * u64::from(Charset::from_name(charset)?.max_utf8_bytes())
        }
        MysqlType::Binary { length } | MysqlType::Varbinary { length } => u64::from(*length),
        MysqlType::Enum { labels } => labels.iter().map(|label| label.len() as u64).max()?,
        MysqlType::Set { labels } => labels.iter().map(|label| label.len() as u64 + 1).sum(),
        MysqlType::Text { .. }
        | MysqlType::Blob
        | MysqlType::Json
        | MysqlType::Geometry
        | MysqlType::Vector
        | MysqlType::Other { .. } => return None,
        // Two bytes for every four digits, one group more on either side of the point, and a header.
        MysqlType::Decimal { precision, .. } => u64::from(*precision) / 2 + 8,
        // Of the fixed-width types interval is the widest; bit(64) has a length beside its bits.
        _ => 16,
    };
    Some(VARLENA_HEADER + content)
}

fn unsupported_name(detail: String) -> Halt {
    Halt::new(Reason::UnsupportedName, detail)
}

#[cfg(test)]
mod tests;
