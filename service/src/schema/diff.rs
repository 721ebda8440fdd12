//! Whether the source's table still is what the model says, and whether the target's table is what
//! the model needs. Nothing is assumed to be close enough: what differs is named.

use super::charset::{self, Charset};
use super::collation::{TargetCollation, has_collated_key};
use super::names::Candidates;
use super::objects::unique_indexes;
use super::partitions::FoundPartitions;
use super::{Column, MysqlType, TableModel, TargetType};
use crate::binlog::table_map::{Encoding, MapColumn, TableMap};
use crate::halt::{Halt, Reason};

/// Compares the model with the table map of the statement in hand: number, names, order, types,
/// sign, lengths, precision, character sets, labels, nullability and key. The map says nothing of
/// a column's being generated or auto-increment; for the TEXT and BLOB family the model does not
/// keep which of the four lengths it is.
///
/// # Errors
/// `schema_drift`, naming the first column that differs and how.
pub fn check_map(model: &TableModel, map: &TableMap) -> Result<(), Halt> {
    find_drift(model, map).map_or(Ok(()), |detail| {
        Err(Halt::new(Reason::SchemaDrift, detail).on_table(&model.name.database, &model.name.table))
    })
}

fn find_drift(model: &TableModel, map: &TableMap) -> Option<String> {
    if map.database != model.name.database || map.table != model.name.table {
        return Some(format!("the table map is that of `{}`.`{}`", map.database, map.table));
    }
    let column =
        model.columns.iter().zip(&map.columns).find_map(|(column, mapped)| column_drift(column, mapped));
    if column.is_some() {
        return column;
    }
    let (recorded, present) = (model.columns.len(), map.columns.len());
    if recorded != present {
        return Some(format!("it was recorded with {recorded} columns and now has {present}"));
    }
    (map.key != model.key).then(|| {
        let (recorded, present) = (key_names(model, &model.key), key_names(model, &map.key));
        format!("its key was recorded as ({recorded}) and now is ({present})")
    })
}

fn key_names(model: &TableModel, key: &[usize]) -> String {
    let name = |&index: &usize| model.columns.get(index).map_or("?", |column| column.name.as_str());
    key.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn column_drift(column: &Column, mapped: &MapColumn) -> Option<String> {
    let name = &column.name;
    if *name != mapped.name {
        return Some(format!("column `{name}` was recorded where `{}` now is", mapped.name));
    }
    if !same_type(&column.mysql, &mapped.encoding) {
        let now = describe(&mapped.encoding);
        return Some(format!("column `{name}` was recorded as {} and now is {now}", column.mysql));
    }
    if !same_labels(&column.mysql, &mapped.encoding) {
        return Some(format!("column `{name}` was recorded with other labels than it now has"));
    }
    (column.nullable != mapped.nullable).then(|| {
        let words = |nullable| if nullable { "NULL" } else { "NOT NULL" };
        let (recorded, present) = (words(column.nullable), words(mapped.nullable));
        format!("column `{name}` was recorded as {recorded} and now is {present}")
    })
}

/// Everything but the labels of ENUM and SET.
fn same_type(mysql: &MysqlType, encoding: &Encoding) -> bool {
    match (mysql, encoding) {
        (MysqlType::TinyInt { unsigned: a, .. }, Encoding::TinyInt { unsigned: b })
        | (MysqlType::SmallInt { unsigned: a }, Encoding::SmallInt { unsigned: b })
        | (MysqlType::MediumInt { unsigned: a }, Encoding::MediumInt { unsigned: b })
        | (MysqlType::Int { unsigned: a }, Encoding::Int { unsigned: b })
        | (MysqlType::BigInt { unsigned: a }, Encoding::BigInt { unsigned: b })
        | (MysqlType::Float { unsigned: a }, Encoding::Float { unsigned: b })
        | (MysqlType::Double { unsigned: a }, Encoding::Double { unsigned: b }) => a == b,
        (
            MysqlType::Decimal { precision: p, scale: s, unsigned: u },
            Encoding::Decimal { precision, scale, unsigned },
        ) => (p, s, u) == (precision, scale, unsigned),
        (MysqlType::Char { length, charset }, Encoding::Char { max_bytes, collation })
        | (MysqlType::Varchar { length, charset }, Encoding::Varchar { max_bytes, collation }) => {
            same_text(charset, *collation) && byte_length(*length, charset) == Some(u32::from(*max_bytes))
        }
        (MysqlType::Binary { length }, Encoding::Char { max_bytes, collation })
        | (MysqlType::Varbinary { length }, Encoding::Varchar { max_bytes, collation }) => {
            *collation == charset::BINARY && *length == u32::from(*max_bytes)
        }
        (MysqlType::Text { charset }, Encoding::Blob { collation, .. }) => same_text(charset, *collation),
        (MysqlType::Blob, Encoding::Blob { collation, .. }) => *collation == charset::BINARY,
        (MysqlType::Bit { width: a }, Encoding::Bit { width: b })
        | (MysqlType::Time { digits: a }, Encoding::Time { digits: b })
        | (MysqlType::DateTime { digits: a }, Encoding::DateTime { digits: b })
        | (MysqlType::Timestamp { digits: a }, Encoding::Timestamp { digits: b }) => a == b,
        (MysqlType::Enum { .. }, Encoding::Enum { .. })
        | (MysqlType::Set { .. }, Encoding::Set { .. })
        | (MysqlType::Date, Encoding::Date)
        | (MysqlType::Year, Encoding::Year)
        | (MysqlType::Json, Encoding::Json { .. })
        | (MysqlType::Geometry, Encoding::Geometry { .. })
        | (MysqlType::Vector, Encoding::Vector { .. }) => true,
        _ => false,
    }
}

fn same_text(name: &str, collation: u32) -> bool {
    charset::of_collation(collation) == Some(name)
}

fn byte_length(length: u32, charset: &str) -> Option<u32> {
    length.checked_mul(Charset::from_name(charset)?.max_bytes())
}

/// The map's labels are in the column's own character set, the model's in UTF-8.
fn same_labels(mysql: &MysqlType, encoding: &Encoding) -> bool {
    let (recorded, present, collation) = match (mysql, encoding) {
        (MysqlType::Enum { labels: recorded }, Encoding::Enum { labels, collation, .. })
        | (MysqlType::Set { labels: recorded }, Encoding::Set { labels, collation, .. }) => {
            (recorded, labels, *collation)
        }
        _ => return true,
    };
    let Some(charset) = charset::of_collation(collation).and_then(Charset::of_labels) else { return false };
    recorded.len() == present.len()
        && recorded.iter().zip(present).all(|(text, bytes)| charset.spells(bytes, text))
}

/// The encoding in the terms of MySQL's DDL, as far as it tells.
fn describe(encoding: &Encoding) -> String {
    let charset = |id: u32| {
        charset::of_collation(id)
            .map_or_else(|| format!("collation {id}"), |name| format!("character set {name}"))
    };
    let mysql = match *encoding {
        Encoding::TinyInt { unsigned } => MysqlType::TinyInt { unsigned, display_width_one: false },
        Encoding::SmallInt { unsigned } => MysqlType::SmallInt { unsigned },
        Encoding::MediumInt { unsigned } => MysqlType::MediumInt { unsigned },
        Encoding::Int { unsigned } => MysqlType::Int { unsigned },
        Encoding::BigInt { unsigned } => MysqlType::BigInt { unsigned },
        Encoding::Decimal { precision, scale, unsigned } => MysqlType::Decimal { precision, scale, unsigned },
        Encoding::Float { unsigned } => MysqlType::Float { unsigned },
        Encoding::Double { unsigned } => MysqlType::Double { unsigned },
        Encoding::Varchar { max_bytes, collation } => {
            return format!("varchar of {max_bytes} bytes, {}", charset(collation));
        }
        Encoding::Char { max_bytes, collation } => {
            return format!("char of {max_bytes} bytes, {}", charset(collation));
        }
        Encoding::Blob { collation, .. } => return format!("text, {}", charset(collation)),
        Encoding::Bit { width } => MysqlType::Bit { width },
        Encoding::Enum { ref labels, .. } => return format!("enum of {} labels", labels.len()),
        Encoding::Set { ref labels, .. } => return format!("set of {} labels", labels.len()),
        Encoding::Date => MysqlType::Date,
        Encoding::Time { digits } => MysqlType::Time { digits },
        Encoding::DateTime { digits } => MysqlType::DateTime { digits },
        Encoding::Timestamp { digits } => MysqlType::Timestamp { digits },
        Encoding::Year => MysqlType::Year,
        Encoding::Json { .. } => MysqlType::Json,
        Encoding::Geometry { .. } => MysqlType::Geometry,
        Encoding::Vector { .. } => MysqlType::Vector,
    };
    mysql.to_string()
}

/// A table of the target as its catalog shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetTable {
    /// `pg_class.relkind`: `r` for an ordinary table.
    pub kind: char,
    /// `pg_class.relpersistence`: `p` permanent, `u` unlogged, `t` temporary.
    pub persistence: char,
    /// In any order; dropped columns left out.
    pub columns: Vec<TargetColumn>,
    /// Every unique index, that of the primary key among them, and those of partitions alone.
    pub unique_indexes: Vec<UniqueIndex>,
    /// Of a partitioned table.
    pub partitions: Option<FoundPartitions>,
    /// Names of triggers and rules that also fire in `session_replication_role = replica`
    /// (`tgenabled` or `ev_enabled` in `R`, `A`).
    pub firing: Vec<String>,
}

/// A column as `pg_attribute` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetColumn {
    pub name: String,
    /// `format_type(atttypid, atttypmod)`, for PostGIS's own types without their schema.
    pub type_sql: String,
    pub not_null: bool,
    /// A default or an identity: PostgreSQL fills the column when an INSERT leaves it out.
    pub has_default: bool,
    /// `attgenerated` is set.
    pub generated: bool,
    /// GENERATED ALWAYS AS IDENTITY: an INSERT may not give its value.
    pub identity_always: bool,
    /// Its collation is deterministic, or it has none (`pg_collation.collisdeterministic`).
    pub deterministic: bool,
    /// Of an ICU collation.
    pub icu_locale: Option<String>,
}

/// A unique index as `pg_index` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UniqueIndex {
    pub name: String,
    /// Key columns in index order, included ones left out; empty for an index over an expression.
    pub columns: Vec<String>,
    /// That of the primary key.
    pub primary: bool,
    /// It has a WHERE clause.
    pub partial: bool,
    /// `not indimmediate`.
    pub deferrable: bool,
    /// `indisvalid and indisready`.
    pub valid: bool,
    /// Texts are equal in it where their bytes are.
    pub deterministic: bool,
}

/// Which unique indexes the target's table may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uniqueness {
    /// At most that of the key, which is built once the rows of a copy are there.
    OfKeyIfAny,
    /// That of the key alone: others could trip while rows of different times stand side by side.
    OfKey,
    /// Those of the source: the rows are those of one time, changed in the source's order.
    OfSource,
}

/// What makes the target's table unfit for exact replication of the model, one sentence each;
/// empty where it is fit. It may be looser than the source in nullability and have columns more,
/// if PostgreSQL fills them by itself. Indexes that are not unique are free.
#[must_use]
pub fn check_target(model: &TableModel, target: &TargetTable, uniqueness: Uniqueness) -> Vec<String> {
    let mut differences = Vec::new();
    match (model.details.target_partitions.native(), &target.partitions) {
        (Some(native), Some(found)) => differences.extend(native.differences(found)),
        (Some(_), None) => differences.push("it is not partitioned".to_owned()),
        (None, Some(_)) => {
            differences.push("it is not an ordinary table: it is partitioned".to_owned());
        }
        (None, None) if target.kind != 'r' => differences.push("it is not an ordinary table".to_owned()),
        (None, None) if target.persistence != 'p' => {
            differences.push("it is not a permanent, logged table".to_owned());
        }
        (None, None) => {}
    }
    for (index, column) in model.columns.iter().enumerate() {
        match target.columns.iter().find(|candidate| candidate.name == column.name) {
            None => differences.push(format!("column \"{}\" is missing", column.name)),
            Some(found) => column_differences(column, model.key.contains(&index), found, &mut differences),
        }
    }
    let ours = |name: &str| model.columns.iter().any(|column| column.name == name);
    for extra in target.columns.iter().filter(|extra| !ours(&extra.name)) {
        if extra.not_null && !extra.has_default && !extra.generated {
            let name = &extra.name;
            differences
                .push(format!("column \"{name}\" is not the source's, and is NOT NULL without a default"));
        }
    }
    index_differences(model, target, uniqueness, &mut differences);
    for name in &target.firing {
        differences.push(format!("trigger or rule \"{name}\" also fires for replicated changes"));
    }
    differences
}

fn column_differences(column: &Column, in_key: bool, found: &TargetColumn, differences: &mut Vec<String>) {
    let name = &found.name;
    let expected = column.target.to_string();
    if found.type_sql != expected {
        differences.push(format!("column \"{name}\" is {} instead of {expected}", found.type_sql));
    }
    if found.not_null && column.nullable {
        differences.push(format!("column \"{name}\" is NOT NULL, but nullable on the source"));
    } else if found.not_null && column.not_null_dropped {
        differences.push(format!("column \"{name}\" is NOT NULL, but a policy stores NULL in it"));
    }
    if found.generated {
        differences.push(format!("column \"{name}\" is generated by the target"));
    }
    if found.identity_always {
        differences.push(format!("column \"{name}\" is GENERATED ALWAYS AS IDENTITY instead of BY DEFAULT"));
    }
    let text = matches!(column.target, TargetType::Text | TargetType::Varchar { .. });
    match &column.details.target_collation {
        None if in_key && text && !found.deterministic => {
            differences.push(format!("key column \"{name}\" has a nondeterministic collation"));
        }
        Some(TargetCollation { name: mysql, locale })
            if found.deterministic || found.icu_locale.as_ref() != Some(locale) =>
        {
            differences.push(format!(
                "column \"{name}\" is not compared as {mysql} by a nondeterministic ICU collation {locale}"
            ));
        }
        _ => {}
    }
}

fn index_differences(
    model: &TableModel,
    target: &TargetTable,
    uniqueness: Uniqueness,
    differences: &mut Vec<String>,
) {
    let key: Vec<&str> = key_columns(model);
    let (of_key, others): (Vec<_>, Vec<_>) =
        target.unique_indexes.iter().partition(|index| is_of_key(&key, index));
    if of_key.is_empty() && !key.is_empty() && uniqueness != Uniqueness::OfKeyIfAny {
        let names = key.join(", ");
        differences.push(if has_collated_key(model) {
            format!("it has no unique index on ({names}) that compares bytes, by COLLATE \"C\"")
        } else {
            format!("it has no primary key or unique index on ({names})")
        });
    }
    let (of_source, foreign): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|index| uniqueness == Uniqueness::OfSource && is_of_source(model, index));
    for index in foreign {
        differences.push(match uniqueness {
            Uniqueness::OfKeyIfAny | Uniqueness::OfKey => {
                format!("unique index \"{}\" is not that of the source's key", index.name)
            }
            Uniqueness::OfSource => format!("unique index \"{}\" is not one of the source's", index.name),
        });
    }
    for index in of_key.into_iter().chain(of_source) {
        if index.deferrable {
            differences.push(format!("unique index \"{}\" is deferrable", index.name));
        }
        if !index.valid {
            differences.push(format!("unique index \"{}\" is not valid", index.name));
        }
    }
}

/// Whether the target's table has the key that it is to be given: an index over the key's columns and
/// nothing else, which holds already, and is that of the primary key where the source's is. Another one
/// that somebody has made finds the rows, but leaves the table without its primary key.
#[must_use]
pub fn has_key(model: &TableModel, target: &TargetTable) -> bool {
    let key = key_columns(model);
    let wants_primary = model.key_is_primary && !has_collated_key(model);
    let holds = |index: &UniqueIndex| index.valid && !index.deferrable && (index.primary || !wants_primary);
    target.unique_indexes.iter().any(|index| is_of_key(&key, index) && holds(index))
}

fn is_of_key(key: &[&str], index: &UniqueIndex) -> bool {
    !key.is_empty() && !index.partial && index.deterministic && index.columns.iter().eq(key)
}

/// Whether the source has this unique index too: over the same whole columns, or, where it is over
/// expressions, by the name that it was given.
fn is_of_source(model: &TableModel, index: &UniqueIndex) -> bool {
    unique_indexes(model).any(|(name, ours)| match &ours.columns {
        Some(columns) => !index.partial && index.columns == *columns,
        None => !index.partial && Candidates::of_index(&model.name, name).contain(&index.name),
    })
}

fn key_columns(model: &TableModel) -> Vec<&str> {
    model
        .key
        .iter()
        .filter_map(|&index| model.columns.get(index))
        .map(|column| column.name.as_str())
        .collect()
}

#[cfg(test)]
mod tests;
