//! What a DDL statement of the source says, without its text.
//!
//! The grammar is MySQL's (MySQL manual, "Data Definition Statements"; server source
//! `sql/sql_yacc.yy`). Names and literals are decoded to UTF-8; no `Debug` output shows a literal.

pub mod column;
pub mod index;

pub use column::{
    CharsetClause, ColumnDefinition, DataType, DefaultValue, Generated, InlineKey, Literal, TypeName,
};
pub use index::{ForeignKeyDefinition, IndexDefinition, IndexKind, KeyPart, ReferentialAction};

use super::TableName;

/// What a statement says beyond its kind and the objects it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The kind and the names say it all, or no replicated object is concerned.
    Names,
    CreateTable(CreateTable),
    /// ALTER TABLE, CREATE INDEX and DROP INDEX. Empty: nothing is changed.
    Alter(Vec<AlterOperation>),
    DropTable {
        if_exists: bool,
    },
    /// RENAME TABLE: from and to, in the order in which they are carried out.
    Rename(Vec<(TableName, TableName)>),
    CreateDatabase {
        if_not_exists: bool,
        /// The database's new default; empty if the statement names none.
        charset: CharsetClause,
    },
    AlterDatabase {
        charset: CharsetClause,
    },
    DropDatabase {
        if_exists: bool,
    },
}

/// CREATE TABLE, without its columns: the source is asked for those.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateTable {
    /// The table may have been there before, with another definition.
    pub if_not_exists: bool,
    /// CREATE TABLE … LIKE.
    pub like: Option<TableName>,
    /// CREATE TABLE … SELECT: its rows follow.
    pub with_rows: bool,
}

/// One operation of ALTER TABLE, in the statement's order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AlterOperation {
    AddColumn {
        definition: ColumnDefinition,
        position: Position,
    },
    DropColumn {
        name: String,
    },
    /// CHANGE COLUMN; MODIFY COLUMN is one whose `old` equals the definition's name.
    ChangeColumn {
        old: String,
        definition: ColumnDefinition,
        position: Position,
    },
    RenameColumn {
        from: String,
        to: String,
    },
    AlterColumn {
        name: String,
        action: ColumnAction,
    },
    AddIndex(IndexDefinition),
    DropIndex {
        name: String,
    },
    DropPrimaryKey,
    RenameIndex {
        from: String,
        to: String,
    },
    AlterIndex {
        name: String,
        visible: bool,
    },
    AddForeignKey(ForeignKeyDefinition),
    DropForeignKey {
        name: String,
    },
    /// Of a table or column; the expression is not kept.
    AddCheck {
        name: Option<String>,
        enforced: bool,
    },
    DropCheck {
        name: String,
    },
    AlterCheck {
        name: String,
        enforced: bool,
    },
    /// A CHECK, foreign key, unique key or the primary key (`PRIMARY`), by name.
    DropConstraint {
        name: String,
    },
    RenameTo(TableName),
    /// CONVERT TO CHARACTER SET; `None` is DEFAULT, the database's.
    ConvertToCharset(Option<CharsetClause>),
    /// The table's default for columns to come; `charset` and `collation` both absent is DEFAULT.
    DefaultCharset(CharsetClause),
    Engine(String),
    Comment(Literal),
    AutoIncrement(u64),
    /// An option that changes neither rows nor columns; the option's keyword.
    Option(&'static str),
    Partition(PartitionOperation),
    DiscardTablespace,
    ImportTablespace,
    EnableKeys,
    DisableKeys,
    OrderBy,
    Force,
    /// ALGORITHM, LOCK.
    Execution(&'static str),
    /// WITH or WITHOUT VALIDATION.
    Validation {
        with: bool,
    },
    /// Not understood; a keyword of ours that says about what.
    Unknown {
        label: &'static str,
    },
}

/// Where a column is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// A new column at the end, a changed one where it is.
    Unstated,
    First,
    After(String),
}

/// ALTER COLUMN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnAction {
    SetDefault(DefaultValue),
    DropDefault,
    SetVisible(bool),
}

/// What ALTER TABLE does to partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartitionOperation {
    /// PARTITION BY: the table is partitioned anew.
    By,
    /// REMOVE PARTITIONING.
    Remove,
    Add,
    /// The partitions' rows are gone.
    Drop,
    /// The partitions' rows are gone.
    Truncate,
    /// Rows change places with those of the other table that the statement names.
    Exchange,
    Coalesce,
    Reorganize,
    Rebuild,
    Optimize,
    Analyze,
    Check,
    Repair,
    DiscardTablespace,
    ImportTablespace,
    /// SECONDARY_LOAD, SECONDARY_UNLOAD: a secondary engine's copy.
    Secondary,
}
