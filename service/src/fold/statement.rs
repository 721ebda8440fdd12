//! Statement text: a tolerant tokenizer that finds the verb and the names of a QUERY event.

use crate::schema::TableName;

/// What a self-committing statement does to the objects it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ddl {
    pub kind: DdlKind,
    /// Every table named as an object of the statement, resolved with the event's default database.
    pub tables: Vec<TableName>,
    /// Databases named as objects (CREATE/ALTER/DROP DATABASE).
    pub databases: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DdlKind {
    CreateTable,
    AlterTable,
    DropTable,
    RenameTable,
    TruncateTable,
    CreateIndex,
    DropIndex,
    CreateDatabase,
    AlterDatabase,
    DropDatabase,
    /// ANALYZE, OPTIMIZE, REPAIR, FLUSH, GRANT, CREATE USER, views, routines, triggers, events, …: no table's
    /// rows or columns change.
    Administrative,
}

impl DdlKind {
    /// A lower-case name for logs, metrics and `tidegate.schema_change`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CreateTable => "create_table",
            Self::AlterTable => "alter_table",
            Self::DropTable => "drop_table",
            Self::RenameTable => "rename_table",
            Self::TruncateTable => "truncate_table",
            Self::CreateIndex => "create_index",
            Self::DropIndex => "drop_index",
            Self::CreateDatabase => "create_database",
            Self::AlterDatabase => "alter_database",
            Self::DropDatabase => "drop_database",
            Self::Administrative => "administrative",
        }
    }
}
