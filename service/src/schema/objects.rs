//! What a target table gets once its rows are there: indexes, CHECK constraints and foreign keys.
//!
//! Everything is derived from the model, so that a restart derives the same. Uniqueness on the target
//! is by value: texts are equal where their bytes are, under every deterministic collation, so that
//! PostgreSQL never sees equal what MySQL tells apart. The reverse, MySQL's equality of case and
//! accents, is enforced for columns that have a collation for it ([`super::collation`]): the primary
//! key is then one more constraint that is built when the rows are there, and rows are found by an
//! index on bytes.

use super::check;
use super::collation::{self, has_collated_key};
use super::default::target_default;
use super::details::{Check, ForeignKey, Index, IndexKind, IndexPart};
use super::index::{TargetIndex, target_index};
use super::names::{Candidates, Names};
use super::partitions;
use super::render::{has_identity, has_sequence, qualified, quote_ident};
use super::{Column, MysqlType, TableModel, TableName, TargetType};
use crate::halt::Halt;

/// Something about a table that is not on the target as it is on the source.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// What it is about, such as "column `a`".
    pub subject: String,
    pub text: String,
}

impl Note {
    pub(super) fn new(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self { subject: subject.into(), text: text.into() }
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.subject, self.text)
    }
}

/// The kind of an object, as `tidegate.schema_object` records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    PrimaryKey,
    Index,
    Check,
    ForeignKey,
}

impl ObjectKind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PrimaryKey => "primary_key",
            Self::Index => "index",
            Self::Check => "check",
            Self::ForeignKey => "foreign_key",
        }
    }

    /// Whether it is an index, whose name is one of the schema's relations.
    #[must_use]
    pub const fn is_relation(self) -> bool {
        matches!(self, Self::PrimaryKey | Self::Index)
    }
}

/// An index or constraint to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub table: TableName,
    /// Its name on the source.
    pub name: String,
    form: Form,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// Where the table is created without one.
    PrimaryKey {
        columns: Vec<String>,
    },
    Index(TargetIndex),
    Check {
        condition: String,
    },
    ForeignKey(ForeignKey),
}

impl Object {
    #[must_use]
    pub const fn kind(&self) -> ObjectKind {
        match self.form {
            Form::PrimaryKey { .. } => ObjectKind::PrimaryKey,
            Form::Index(_) => ObjectKind::Index,
            Form::Check { .. } => ObjectKind::Check,
            Form::ForeignKey(_) => ObjectKind::ForeignKey,
        }
    }

    #[must_use]
    pub const fn is_unique(&self) -> bool {
        match &self.form {
            Form::PrimaryKey { .. } => true,
            Form::Index(index) => index.unique,
            Form::Check { .. } | Form::ForeignKey(_) => false,
        }
    }

    /// The names that it can have on the target.
    #[must_use]
    pub fn candidates(&self) -> Candidates {
        match self.form {
            Form::PrimaryKey { .. } => Candidates::of_index(&self.table, "pkey"),
            Form::Index(_) => Candidates::of_index(&self.table, &self.name),
            Form::Check { .. } | Form::ForeignKey(_) => Candidates::of_constraint(&self.table, &self.name),
        }
    }

    /// Its name on the target, among the schema's relations where it is one itself.
    #[must_use]
    pub fn target_name(&self, relations: &mut Names) -> String {
        let candidates = self.candidates();
        if self.kind().is_relation() { relations.take(&candidates) } else { candidates.plain }
    }

    /// The statement that builds it.
    ///
    /// # Errors
    /// `unsupported_name`.
    pub fn statement(&self, target_name: &str) -> Result<String, Halt> {
        let (table, name) = (qualified(&self.table)?, quote_ident(target_name)?);
        Ok(match &self.form {
            // Readers pass while the index is built, but not while a key is.
            Form::PrimaryKey { columns } => format!(
                "CREATE UNIQUE INDEX {name} ON {table} ({}); \
                 ALTER TABLE {table} ADD CONSTRAINT {name} PRIMARY KEY USING INDEX {name}",
                names(columns)?
            ),
            Form::Index(TargetIndex { unique, definition, .. }) => {
                let unique = if *unique { "UNIQUE " } else { "" };
                format!("CREATE {unique}INDEX {name} ON {table} {definition}")
            }
            Form::Check { condition } => {
                format!("ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({condition})")
            }
            Form::ForeignKey(key) => format!(
                "ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({}) REFERENCES {} ({}) \
                 ON UPDATE {} ON DELETE {}",
                names(&key.columns)?,
                qualified(&key.parent)?,
                names(&key.parent_columns)?,
                key.on_update.sql(),
                key.on_delete.sql()
            ),
        })
    }

    /// As [`Object::statement`], without a look at the rows that are there; `None` where there is no such
    /// form.
    ///
    /// # Errors
    /// `unsupported_name`.
    pub fn unvalidated_statement(&self, target_name: &str) -> Result<Option<String>, Halt> {
        match self.form {
            Form::ForeignKey(_) | Form::Check { .. } => {
                Ok(Some(format!("{} NOT VALID", self.statement(target_name)?)))
            }
            _ => Ok(None),
        }
    }

    /// The other table that it needs.
    #[must_use]
    pub const fn parent(&self) -> Option<&TableName> {
        match &self.form {
            Form::ForeignKey(key) => Some(&key.parent),
            _ => None,
        }
    }
}

fn names(columns: &[String]) -> Result<String, Halt> {
    Ok(columns.iter().map(|name| quote_ident(name)).collect::<Result<Vec<_>, _>>()?.join(", "))
}

/// What the table gets, in the order in which it is built, and what it does not get.
///
/// `replicated` gives the model of another table of the pipeline.
///
/// # Errors
/// `unsupported_name`.
pub fn objects<'a>(
    model: &TableModel,
    replicated: &dyn Fn(&TableName) -> Option<&'a TableModel>,
) -> Result<(Vec<Object>, Vec<Note>), Halt> {
    let (mut objects, mut notes) = (Vec::new(), Vec::new());
    let object = |name: &str, form| Object { table: model.name.clone(), name: name.to_owned(), form };
    if let Some(columns) = collated_primary_key(model) {
        objects.push(object("PRIMARY", Form::PrimaryKey { columns }));
    }
    for index in model.details.indexes.iter().filter(|index| !is_key(model, index)) {
        let (made, found) = target_index(model, index)?;
        notes.extend(found);
        objects.extend(made.map(|made| object(&index.name, Form::Index(made))));
    }
    for check in &model.details.checks {
        match condition(model, check) {
            Ok(condition) => objects.push(object(&check.name, Form::Check { condition })),
            Err(reason) => notes.push(Note::new(format!("CHECK `{}`", check.name), reason)),
        }
    }
    for key in &model.details.foreign_keys {
        let parent = if key.parent == model.name { Some(model) } else { replicated(&key.parent) };
        match foreign_key_problem(model, key, parent) {
            None => objects.push(object(&key.name, Form::ForeignKey(key.clone()))),
            Some(reason) => notes.push(Note::new(format!("foreign key `{}`", key.name), reason)),
        }
    }
    for object in &objects {
        let candidates = object.candidates();
        if candidates.plain == candidates.hashed {
            let text =
                format!("its name is longer than PostgreSQL takes: there it is {:?}", candidates.plain);
            notes.push(Note::new(
                format!("{} `{}`", object.kind().name().replace('_', " "), object.name),
                text,
            ));
        }
    }
    Ok((objects, notes))
}

/// The columns of a primary key that the table is created without.
fn collated_primary_key(model: &TableModel) -> Option<Vec<String>> {
    let key = || model.key.iter().filter_map(|&at| model.columns.get(at)).map(|column| column.name.clone());
    (model.key_is_primary && has_collated_key(model)).then(|| key().collect())
}

/// Whether the index is the key, which the table is created with.
fn is_key(model: &TableModel, index: &Index) -> bool {
    let key = model.key.iter().map(|&at| model.columns.get(at).map(|column| column.name.as_str()));
    let whole = index.parts.iter().all(|part| part.prefix.is_none());
    !model.key_is_primary
        && !has_collated_key(model)
        && index.unique
        && index.kind == IndexKind::Ordered
        && whole
        && !model.key.is_empty()
        && index.parts.iter().map(|part| part.column.as_deref()).eq(key)
}

fn condition(model: &TableModel, check: &Check) -> Result<String, &'static str> {
    if !check.enforced {
        return Err("not created: the source does not enforce it");
    }
    check::translate(&check.expression, model)
        .ok_or("not created: its condition is not one that certainly means the same on the target")
}

fn foreign_key_problem(model: &TableModel, key: &ForeignKey, parent: Option<&TableModel>) -> Option<String> {
    let TableName { database, table } = &key.parent;
    let Some(parent) = parent else {
        return Some(format!("not created: its parent {database}.{table} is not replicated"));
    };
    let pairs = key.columns.iter().zip(&key.parent_columns);
    let types: Option<Vec<_>> =
        pairs.map(|(own, other)| Some((column(model, own)?.target, column(parent, other)?.target))).collect();
    if !types.is_some_and(|types| types.iter().all(|(own, other)| is_same_kind(*own, *other))) {
        return Some(format!("not created: its columns are of other types than those of {database}.{table}"));
    }
    (!has_unique(parent, &key.parent_columns)).then(|| {
        format!("not created: on the target the columns of {database}.{table} are not unique by themselves")
    })
}

fn column<'a>(model: &'a TableModel, name: &str) -> Option<&'a Column> {
    model.columns.iter().find(|column| column.name == name)
}

/// Whether columns of the two types hold the same values, whatever their greatest length.
#[must_use]
pub fn is_same_kind(a: TargetType, b: TargetType) -> bool {
    match (a, b) {
        (TargetType::Varchar { .. } | TargetType::Text, TargetType::Varchar { .. } | TargetType::Text) => {
            true
        }
        (a, b) => a == b,
    }
}

/// Whether the target will have a unique index on exactly these columns, in any order.
fn has_unique(model: &TableModel, columns: &[String]) -> bool {
    let same = |other: &mut dyn Iterator<Item = &str>| {
        let mut other: Vec<&str> = other.collect();
        let mut wanted: Vec<&str> = columns.iter().map(String::as_str).collect();
        other.sort_unstable();
        wanted.sort_unstable();
        other == wanted
    };
    let key =
        &mut model.key.iter().filter_map(|&at| model.columns.get(at)).map(|column| column.name.as_str());
    if !model.key.is_empty() && same(key) {
        return true;
    }
    unique_indexes(model).any(|(_, index)| {
        index.columns.as_ref().is_some_and(|columns| same(&mut columns.iter().map(String::as_str)))
    })
}

/// The unique indexes that the table gets beside the one that rows are found by, with their names on
/// the source.
pub(super) fn unique_indexes(model: &TableModel) -> impl Iterator<Item = (&str, TargetIndex)> {
    let key = collated_primary_key(model).map(|columns| {
        ("PRIMARY", TargetIndex { unique: true, definition: String::new(), columns: Some(columns) })
    });
    let others = model.details.indexes.iter().filter(|index| index.unique && !is_key(model, index));
    let others = others.filter_map(|index| {
        let (made, _) = target_index(model, index).ok()?;
        made.filter(|made| made.unique).map(|made| (index.name.as_str(), made))
    });
    key.into_iter().chain(others)
}

/// Whether the table gets a unique index over the column, or over an expression of it, beside its key.
#[must_use]
pub fn is_in_unique_index(model: &TableModel, column: &str) -> bool {
    let quoted = format!("`{}`", column.replace('`', "``"));
    let is_over = |part: &IndexPart| {
        let expression = part.expression.as_ref();
        part.column.as_deref() == Some(column) || expression.is_some_and(|text| text.contains(&quoted))
    };
    let over = model.details.indexes.iter().filter(|index| index.unique && index.parts.iter().any(is_over));
    let made = |index| target_index(model, index).ok().and_then(|(made, _)| made);
    over.filter_map(made).any(|made| made.unique)
}

/// What may surprise in the type that a column has on the target.
const fn type_note(mysql: &MysqlType, target: TargetType) -> Option<&'static str> {
    Some(match (mysql, target) {
        (MysqlType::Enum { .. }, _) => {
            "text with a CHECK of its labels: it sorts as text, not in their order, and admits the empty text, \
             which MySQL stores for a value that is no label"
        }
        (MysqlType::Set { .. }, _) => {
            "text, the members joined by commas in the order in which they are declared; nothing checks them"
        }
        (MysqlType::Char { .. }, TargetType::Varchar { .. } | TargetType::Text) => {
            "varies in length: MySQL takes trailing blanks away when it reads, so that none arrive, and those that an \
             application writes after the move stay"
        }
        (MysqlType::TinyInt { .. }, TargetType::Boolean) => {
            "boolean, since its rows hold nothing but 0, 1 and NULL; the first other value makes it smallint, unless \
             policies.beyond_boolean says otherwise"
        }
        (MysqlType::BigInt { unsigned: true }, TargetType::Numeric { .. }) => {
            "numeric, since its upper half is beyond bigint"
        }
        (MysqlType::Time { .. }, TargetType::Interval { .. }) => {
            "interval, since it can be negative and go beyond 24 hours"
        }
        (MysqlType::Geometry, TargetType::Bytea) => {
            "bytea that holds EWKB, longitude before latitude, since the target's database has no extension postgis"
        }
        (MysqlType::Geometry, TargetType::Geometry { .. }) => {
            "geometry of PostGIS, longitude before latitude; a value that PostGIS would refuse or change halts the \
             pipeline"
        }
        _ => return None,
    })
}

/// What a table's columns do not have on the target, or have otherwise.
#[must_use]
pub fn column_notes(model: &TableModel) -> Vec<Note> {
    let mut notes = Vec::new();
    for column in &model.columns {
        let mut note = |text: String| notes.push(Note::new(format!("column `{}`", column.name), text));
        match target_default(column) {
            Ok(default) => {
                if let Some(text) = default.and_then(|default| default.note) {
                    note(text.to_owned());
                }
            }
            Err(reason) => note(format!("{reason}; it is not carried over")),
        }
        if column.details.updates_itself {
            note("ON UPDATE CURRENT_TIMESTAMP is not carried over: it takes a trigger".to_owned());
        }
        if let Some(generation) = &column.details.generation {
            let kind = if generation.stored { "stored" } else { "virtual" };
            note(format!("{kind} generated; a plain column filled with the source's values on the target"));
        } else if column.generated {
            note("generated; a plain column filled with the source's values on the target".to_owned());
        }
        if column.details.invisible {
            note("invisible on the source; SELECT * shows it on the target".to_owned());
        }
        if column.details.overridden {
            note(format!("is {} by configuration", column.target));
        } else if let Some(text) = type_note(&column.mysql, column.target) {
            note(text.to_owned());
        }
        if let Some(collation) = &column.details.target_collation {
            note(collation::note(collation));
        }
        if column.auto_increment && !has_identity(column) && !has_sequence(column) {
            note(format!("does not number itself: PostgreSQL can't number values of type {}", column.target));
        }
    }
    if has_collated_key(model) {
        let text = "compared as on the source; replication finds rows by a unique index on their bytes beside it, \
                    which is of no use after the move";
        notes.push(Note::new("key", text));
    }
    if let Some(method) = &model.details.partitioning {
        notes.push(partitions::note(method, &model.details.target_partitions));
    }
    notes
}

#[cfg(test)]
mod tests;
