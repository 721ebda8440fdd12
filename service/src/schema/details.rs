//! What the source's definition says beyond the shape of the rows: kept with the model, so that the
//! target can be given the same defaults, indexes and constraints once the rows are there.
//!
//! Texts come from `information_schema` (MySQL manual, "INFORMATION_SCHEMA Tables"). The data
//! dictionary behind it is in utf8mb3: a character beyond it shows as a question mark.

use serde::{Deserialize, Serialize};

use super::TableName;
use super::collation::TargetCollation;
use super::partitions::TargetPartitions;
use super::spatial::Shape;

/// What a column has beside its type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnDetails {
    #[serde(default)]
    pub default: Option<DefaultValue>,
    /// `ON UPDATE CURRENT_TIMESTAMP`.
    #[serde(default)]
    pub updates_itself: bool,
    #[serde(default)]
    pub comment: String,
    /// Name of the collation; `None` for what is no text.
    #[serde(default)]
    pub collation: Option<String>,
    #[serde(default)]
    pub invisible: bool,
    /// The expression of a generated column, as the server prints it.
    #[serde(default)]
    pub generation: Option<Generation>,
    /// Part of a foreign key, or referenced by one: its type is that of other columns too.
    #[serde(default)]
    pub joined: bool,
    /// The target's type was set by the configuration.
    #[serde(default)]
    pub overridden: bool,
    /// The target's collation, where it is not one that compares bytes. Chosen once, as the type is.
    #[serde(default)]
    pub target_collation: Option<TargetCollation>,
    /// Of a spatial column; models recorded before it was read have none.
    #[serde(default)]
    pub shape: Option<Shape>,
}

/// A column's default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefaultValue {
    /// A constant in MySQL's text form; a TIMESTAMP's is in UTC.
    Literal(String),
    /// An expression as the server prints it, quotes and backslashes escaped once more.
    Expression(String),
    /// A constant that holds a NUL character, which neither PostgreSQL's text nor its JSON can.
    WithNul,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    pub expression: String,
    /// STORED; else VIRTUAL.
    pub stored: bool,
}

/// What a table has beside its columns and its key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDetails {
    #[serde(default)]
    pub comment: String,
    /// The default collation of new columns.
    #[serde(default)]
    pub collation: Option<String>,
    /// Every index but the primary key.
    #[serde(default)]
    pub indexes: Vec<Index>,
    #[serde(default)]
    pub foreign_keys: Vec<ForeignKey>,
    #[serde(default)]
    pub checks: Vec<Check>,
    /// The method of its partitions, such as `RANGE`.
    #[serde(default)]
    pub partitioning: Option<String>,
    /// Those of the target.
    #[serde(default)]
    pub target_partitions: TargetPartitions,
    /// The target has rows that the source has removed and that `ddl.ignore` keeps: a copy would lose them.
    #[serde(default)]
    pub target_keeps_rows: bool,
    /// The schema of the target's PostGIS, where spatial columns are to be of its type. Chosen once, as a
    /// column's type is.
    #[serde(default)]
    pub postgis: Option<String>,
}

impl TableDetails {
    /// The same without what can refuse a row, or takes the rows to build.
    #[must_use]
    pub fn without_objects(&self) -> Self {
        let (indexes, foreign_keys, checks) = (Vec::new(), Vec::new(), Vec::new());
        Self { indexes, foreign_keys, checks, ..self.clone() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    pub name: String,
    pub unique: bool,
    pub kind: IndexKind,
    pub visible: bool,
    pub parts: Vec<IndexPart>,
}

/// `information_schema.STATISTICS.INDEX_TYPE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexKind {
    /// BTREE, or HASH in a MEMORY table.
    Ordered,
    Fulltext,
    Spatial,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexPart {
    /// `None` for an expression.
    pub column: Option<String>,
    /// Length of the prefix, in characters or, for binary columns, bytes.
    pub prefix: Option<u32>,
    pub descending: bool,
    /// As the server prints it, quotes and backslashes escaped once more. Models recorded before it was
    /// read have none.
    #[serde(default)]
    pub expression: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignKey {
    pub name: String,
    pub columns: Vec<String>,
    pub parent: TableName,
    pub parent_columns: Vec<String>,
    pub on_update: Action,
    pub on_delete: Action,
}

/// What a foreign key does to its rows when the parent's change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl Action {
    const ALL: [Self; 5] = [Self::NoAction, Self::Restrict, Self::Cascade, Self::SetNull, Self::SetDefault];

    /// As both servers write it.
    #[must_use]
    pub const fn sql(self) -> &'static str {
        match self {
            Self::NoAction => "NO ACTION",
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
            Self::SetDefault => "SET DEFAULT",
        }
    }

    #[must_use]
    pub fn from_sql(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.sql() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    /// As the server prints it, quotes and backslashes escaped once more.
    pub expression: String,
    pub enforced: bool,
}

/// A column without anything but its types.
#[cfg(test)]
pub(crate) fn example_column(
    name: &str,
    mysql: super::MysqlType,
    target: super::TargetType,
) -> super::Column {
    super::Column {
        name: name.to_owned(),
        mysql,
        target,
        nullable: true,
        auto_increment: false,
        not_null_dropped: false,
        generated: false,
        details: ColumnDetails::default(),
    }
}
