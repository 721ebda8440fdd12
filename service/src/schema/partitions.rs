//! MySQL's partitions as partitions of the target (`schema.partitions = "native"`).
//!
//! A partitioned table becomes a plain table by default. Where it is asked for, and where MySQL's rule
//! for the place of a row is one that PostgreSQL has too, the target's table is partitioned the same
//! way. No row that the source has taken may be refused for want of a place: RANGE and LIST get a DEFAULT
//! partition beside those of the source, and HASH has a place for every value. Which of them a row lies
//! in is as on the source for RANGE and LIST; HASH is another function.
//!
//! Every column of the partitioning is one of the key that rows are found by. So none of them is NULL on
//! the source, no change of a row under its key moves it, and PostgreSQL accepts the key (PostgreSQL
//! manual, "Declarative Partitioning").

mod bound;
mod source;

use serde::{Deserialize, Serialize};

pub use source::{SourcePartition, SourcePartitions};

use bound::{Kind, Value, literal};
use source::{Function, Strategy, columns_of, function_of, items};

use super::collation::has_collated_key;
use super::names::{Candidates, Names};
use super::objects::Note;
use super::render::{qualified, quote_ident};
use super::types::may_become_boolean;
use super::{Column, TableModel, TableName, TargetType};
use crate::halt::Halt;

/// Most partitions of a table: PostgreSQL locks each of them and its indexes in one transaction. Whether its
/// settings leave room for that is checked where they are known (`sink/locks.rs`).
const MAX_PARTITIONS: usize = 1_000;

/// How the configuration wants partitioned tables on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PartitionChoice {
    /// One plain table.
    #[default]
    Plain,
    /// Partitioned as on the source, where that is possible.
    Native,
}

impl PartitionChoice {
    pub const NAMES: &'static [&'static str] = &["plain", "native"];

    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "plain" => Some(Self::Plain),
            "native" => Some(Self::Native),
            _ => None,
        }
    }
}

/// What the target's table is. Chosen when the table is copied, and kept with the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetPartitions {
    /// Plain, as the configuration wants it, or because the source's is.
    #[default]
    Plain,
    /// Plain, because its partitions are none that the target could have, and why.
    Unmapped(String),
    Native(Native),
}

/// The partitioning of a table of the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    pub strategy: TargetStrategy,
    /// Names of columns of the key.
    pub columns: Vec<String>,
    /// The source's, in its order. RANGE and LIST have one more, the default.
    pub partitions: Vec<Partition>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetStrategy {
    Range,
    List,
    Hash,
}

impl TargetStrategy {
    const fn sql(self) -> &'static str {
        match self {
            Self::Range => "RANGE",
            Self::List => "LIST",
            Self::Hash => "HASH",
        }
    }

    /// `pg_partitioned_table.partstrat`.
    const fn code(self) -> char {
        match self {
            Self::Range => 'r',
            Self::List => 'l',
            Self::Hash => 'h',
        }
    }

    const fn has_default(self) -> bool {
        !matches!(self, Self::Hash)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// On the source.
    pub name: String,
    /// What follows FOR VALUES.
    pub values: String,
}

/// A partitioned table of the target as its catalog shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPartitions {
    pub places: FoundPlaces,
    /// An expression is left out.
    pub columns: Vec<String>,
    /// Direct ones.
    pub partitions: i64,
    /// Names of partitions that are partitioned themselves and have no place for every row.
    pub incomplete: Vec<String>,
    /// Leaves that are no permanent, logged tables.
    pub odd: i64,
}

/// What rows a partitioned table takes, if it is one of its own or a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundPlaces {
    /// `pg_partitioned_table.partstrat`.
    pub strategy: char,
    pub has_default: bool,
    /// Of each of its partitions by HASH.
    pub moduli: Vec<i64>,
}

impl FoundPlaces {
    /// Whether there is a place for every row. Of HASH no two partitions overlap and each modulus divides the
    /// next larger one (PostgreSQL manual, "CREATE TABLE"): what they take adds up.
    #[must_use]
    pub fn takes_every_row(&self) -> bool {
        if self.strategy != TargetStrategy::Hash.code() {
            return self.has_default;
        }
        let Some(&largest) = self.moduli.iter().max() else { return false };
        let shares = self.moduli.iter().map(|modulus| largest.checked_div(*modulus));
        shares.sum::<Option<i64>>() == Some(largest)
    }
}

impl TargetPartitions {
    /// What the target's table will be.
    #[must_use]
    pub fn choose(choice: PartitionChoice, source: Option<&SourcePartitions>, model: &TableModel) -> Self {
        match (choice, source) {
            (PartitionChoice::Native, Some(source)) => match map(source, model) {
                Ok(native) => Self::Native(native),
                Err(reason) => Self::Unmapped(reason),
            },
            _ => Self::Plain,
        }
    }

    #[must_use]
    pub const fn native(&self) -> Option<&Native> {
        match self {
            Self::Native(native) => Some(native),
            Self::Plain | Self::Unmapped(_) => None,
        }
    }
}

/// What is wrong where a table that is copied already is not what the configuration wants by now. One that
/// the source has partitioned since then is told of by the stream.
#[must_use]
pub fn other_choice(recorded: &TableModel, present: &TableModel) -> Option<&'static str> {
    let (recorded, present) = (&recorded.details, &present.details);
    let both_partitioned = recorded.partitioning.is_some() && present.partitioning.is_some();
    match (&recorded.target_partitions, &present.target_partitions) {
        (TargetPartitions::Native(_), TargetPartitions::Plain) if both_partitioned => Some(
            "the table is partitioned on the target, and schema.partitions is plain: set it to native for the table, \
             or copy the table again",
        ),
        (TargetPartitions::Plain, TargetPartitions::Native(_)) if both_partitioned => Some(
            "the table is plain on the target, and schema.partitions is native: set it to plain for the table, or copy \
             the table again",
        ),
        _ => None,
    }
}

/// What to know of the partitions of a table that is partitioned by `method` on the source.
pub(super) fn note(method: &str, target: &TargetPartitions) -> Note {
    let text = match target {
        TargetPartitions::Plain => format!("by {method}; one plain table on the target"),
        TargetPartitions::Unmapped(reason) => {
            format!("by {method}; one plain table on the target: {reason}")
        }
        TargetPartitions::Native(native) if native.strategy.has_default() => format!(
            "by {method}; the same on the target, where a DEFAULT partition takes what none of them does; to add one \
             there by hand locks that and reads it"
        ),
        TargetPartitions::Native(_) => format!(
            "by {method}; by HASH into as many on the target, where a row does not lie in the partition of the same \
             number"
        ),
    };
    Note::new("partitions", text)
}

impl Native {
    /// What follows the columns in CREATE TABLE, with a leading blank.
    pub(super) fn clause(&self) -> Result<String, Halt> {
        let columns = self.columns.iter().map(|name| quote_ident(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(format!(" PARTITION BY {} ({})", self.strategy.sql(), columns.join(", ")))
    }

    /// The statements that create the partitions.
    pub(super) fn statements(&self, table: &TableName, relations: &mut Names) -> Result<Vec<String>, Halt> {
        let parent = qualified(table)?;
        let mut create = |candidates: &Candidates, values: &str| -> Result<String, Halt> {
            let name = TableName { database: table.database.clone(), table: relations.take(candidates) };
            Ok(format!("CREATE TABLE {} PARTITION OF {parent} {values}", qualified(&name)?))
        };
        let mut statements = Vec::with_capacity(self.partitions.len() + 1);
        for Partition { name, values } in &self.partitions {
            statements.push(create(&Candidates::of_partition(table, name), &format!("FOR VALUES {values}"))?);
        }
        if self.strategy.has_default() {
            statements.push(create(&Candidates::of_default_partition(table), "DEFAULT")?);
        }
        Ok(statements)
    }

    /// What keeps a table of the target from having a place for every row, one sentence each. Which
    /// partitions there are beside the default one is free.
    pub(super) fn differences(&self, found: &FoundPartitions) -> Vec<String> {
        let mut differences = Vec::new();
        let wanted = format!("{} ({})", self.strategy.sql(), self.columns.join(", "));
        if found.places.strategy != self.strategy.code() || found.columns != self.columns {
            differences.push(format!("it is not partitioned by {wanted}"));
        } else if !found.places.takes_every_row() {
            differences.push(if self.strategy.has_default() {
                "it has no DEFAULT partition for the rows that no other takes".to_owned()
            } else {
                "its partitions by HASH do not have a place for every row".to_owned()
            });
        }
        for name in &found.incomplete {
            differences.push(format!(
                "its partition \"{name}\" is partitioned itself, and does not have a place for every row"
            ));
        }
        if found.odd > 0 {
            differences.push("a partition is not a permanent, logged table".to_owned());
        }
        differences
    }

    /// What is wrong with a table that was created with these partitions: those that a hand has taken off
    /// or dropped are gone with their rows.
    #[must_use]
    pub fn missing(&self, found: &FoundPartitions) -> Option<String> {
        let made = self.partitions.len() + usize::from(self.strategy.has_default());
        let has = usize::try_from(found.partitions).unwrap_or_default();
        (has < made).then(|| {
            format!("it has {has} partitions of {made}: others were detached or dropped with their rows")
        })
    }
}

/// The partitions on the target, or why there can be none.
fn map(source: &SourcePartitions, model: &TableModel) -> Result<Native, String> {
    if source.has_subpartitions {
        return Err("subpartitions are not carried over".to_owned());
    }
    if model.key.is_empty() {
        return Err("it has no key, and rows are found by all of their columns".to_owned());
    }
    if has_collated_key(model) {
        return Err("its key is compared as on the source".to_owned());
    }
    if source.partitions.len() > MAX_PARTITIONS {
        return Err(format!("it has more than {MAX_PARTITIONS} partitions"));
    }
    let strategy = Strategy::from_method(&source.method)
        .ok_or_else(|| format!("partitioning by {} is not known", source.method))?;
    match strategy {
        Strategy::Range => {
            let (function, column) = function_of(source.expression()).ok_or(NO_COLUMN)?;
            range(source, &[key_column(model, &column)?], function)
        }
        Strategy::RangeColumns => range(source, &key_columns(source, model)?, Function::Identity),
        Strategy::List | Strategy::ListColumns => list(source, &key_columns(source, model)?),
        Strategy::Hash => hash(source, &key_columns(source, model)?),
        Strategy::Key if source.expression.is_none() => hash(source, &whole_key(model)),
        Strategy::Key => hash(source, &key_columns(source, model)?),
    }
}

const NO_COLUMN: &str = "it is partitioned by an expression that the target does not have";

fn whole_key(model: &TableModel) -> Vec<&Column> {
    model.key.iter().filter_map(|&at| model.columns.get(at)).collect()
}

fn key_columns<'a>(source: &SourcePartitions, model: &'a TableModel) -> Result<Vec<&'a Column>, String> {
    let names = columns_of(source.expression()).ok_or(NO_COLUMN)?;
    names.iter().map(|name| key_column(model, name)).collect()
}

/// A column of the key by its name, whose case MySQL does not mind.
fn key_column<'a>(model: &'a TableModel, name: &str) -> Result<&'a Column, String> {
    let found = whole_key(model).into_iter().find(|column| column.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| format!("column `{name}` is not part of the key that rows are found by"))
}

fn kind_of(column: &Column, function: Function) -> Result<Kind, String> {
    Kind::of(column, function).ok_or_else(|| {
        format!("column `{}` is of a type whose order is another one on the target", column.name)
    })
}

fn range(source: &SourcePartitions, columns: &[&Column], function: Function) -> Result<Native, String> {
    let kinds = columns.iter().map(|column| kind_of(column, function)).collect::<Result<Vec<_>, _>>()?;
    let mut bounds = Vec::with_capacity(source.partitions.len());
    for partition in &source.partitions {
        bounds.push(upper_bound(partition, &kinds, function)?);
    }
    if !bounds.is_sorted_by(|a, b| a < b) {
        return Err("two of its bounds are one on the target".to_owned());
    }
    let mut lower = vec!["MINVALUE".to_owned(); columns.len()].join(", ");
    let mut partitions = Vec::with_capacity(bounds.len());
    for (partition, bound) in source.partitions.iter().zip(&bounds) {
        let upper = bound.iter().zip(&kinds).map(|(value, kind)| literal(value, *kind));
        let upper = upper.collect::<Vec<_>>().join(", ");
        let values = format!("FROM ({lower}) TO ({upper})");
        partitions.push(Partition { name: partition.name.clone(), values });
        lower = upper;
    }
    Ok(native(TargetStrategy::Range, columns, partitions))
}

/// The values that those of a partition are less than.
fn upper_bound(
    partition: &SourcePartition,
    kinds: &[Kind],
    function: Function,
) -> Result<Vec<Value>, String> {
    let items = items(partition.description()).filter(|items| items.len() == kinds.len());
    let unread = || format!("the bound of partition `{}` is not one that is understood", partition.name);
    let items = items.ok_or_else(unread)?;
    let mut bound: Vec<Value> = Vec::with_capacity(kinds.len());
    for (item, kind) in items.iter().zip(kinds) {
        // Nothing is beyond MAXVALUE: what follows it does not count, and PostgreSQL wants it so.
        let value = match bound.last() {
            Some(Value::Max) => Value::Max,
            _ => kind.bound(item, function).ok_or_else(unread)?,
        };
        bound.push(value);
    }
    Ok(bound)
}

fn list(source: &SourcePartitions, columns: &[&Column]) -> Result<Native, String> {
    let &[column] = columns else {
        return Err("PostgreSQL partitions by LIST of one column only".to_owned());
    };
    let kind = kind_of(column, Function::Identity)?;
    let (mut partitions, mut seen) = (Vec::with_capacity(source.partitions.len()), Vec::new());
    for partition in &source.partitions {
        let unread = || format!("the values of partition `{}` are not understood", partition.name);
        let mut values = Vec::new();
        for item in items(partition.description()).ok_or_else(unread)? {
            let value = kind.member(&item).ok_or_else(unread)?;
            values.push(literal(&value, kind));
            seen.push(value);
        }
        if values.is_empty() {
            return Err(unread());
        }
        let values = format!("IN ({})", values.join(", "));
        partitions.push(Partition { name: partition.name.clone(), values });
    }
    seen.sort_unstable();
    if !seen.is_sorted_by(|a, b| a < b) {
        return Err("two of its values are one on the target".to_owned());
    }
    Ok(native(TargetStrategy::List, columns, partitions))
}

fn hash(source: &SourcePartitions, columns: &[&Column]) -> Result<Native, String> {
    if let Some(column) = columns.iter().find(|column| !is_hashed(column)) {
        return Err(format!("column `{}` is of a type that the target does not partition by", column.name));
    }
    let count = source.partitions.len();
    let of = |(remainder, partition): (usize, &SourcePartition)| Partition {
        name: partition.name.clone(),
        values: format!("WITH (MODULUS {count}, REMAINDER {remainder})"),
    };
    Ok(native(TargetStrategy::Hash, columns, source.partitions.iter().enumerate().map(of).collect()))
}

/// Types with a hash operator class, and whose column a policy or a data check gives no other type.
fn is_hashed(column: &Column) -> bool {
    if may_become_boolean(column) {
        return false;
    }
    matches!(
        column.target,
        TargetType::SmallInt
            | TargetType::Integer
            | TargetType::BigInt
            | TargetType::Numeric { .. }
            | TargetType::Varchar { .. }
            | TargetType::Text
            | TargetType::Bytea
            | TargetType::Date
            | TargetType::Timestamp { .. }
            | TargetType::TimestampTz { .. }
    )
}

fn native(strategy: TargetStrategy, columns: &[&Column], partitions: Vec<Partition>) -> Native {
    Native { strategy, columns: columns.iter().map(|column| column.name.clone()).collect(), partitions }
}

#[cfg(test)]
mod tests;
