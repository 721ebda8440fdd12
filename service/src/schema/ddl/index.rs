//! Indexes and foreign keys.

use super::super::TableName;

/// What an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexKind {
    Primary,
    Unique,
    Plain,
    Fulltext,
    Spatial,
}

/// ADD INDEX, CREATE INDEX, or a key that a column definition declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDefinition {
    pub kind: IndexKind,
    /// `None`: the server names it after its first column.
    pub name: Option<String>,
    pub parts: Vec<KeyPart>,
    pub visible: bool,
}

/// One part of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyPart {
    Column {
        name: String,
        /// In characters, of binary types in bytes.
        prefix: Option<u64>,
        descending: bool,
    },
    /// A functional part; its expression is not kept.
    Expression,
}

/// FOREIGN KEY, or REFERENCES in a column definition, which servers since 9.0 honour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKeyDefinition {
    /// `None`: the server names it.
    pub name: Option<String>,
    pub columns: Vec<String>,
    pub referenced: TableName,
    /// Empty: the referenced table's primary key.
    pub referenced_columns: Vec<String>,
    pub on_delete: ReferentialAction,
    pub on_update: ReferentialAction,
}

/// ON DELETE and ON UPDATE; none stated is [`ReferentialAction::NoAction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferentialAction {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}
