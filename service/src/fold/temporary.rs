//! The temporary tables of the source's sessions, as far as the log tells of them.
//!
//! A session that logs statements logs those on its temporary tables too, and an ALTER, TRUNCATE or
//! CREATE INDEX of one reads like that of a table which it hides. Its event is marked as one that depends
//! on the session. So is that of a table with CONNECTION_ID() in a default; that the same session has
//! created the table before tells them apart. Where the stream has begun after that, nothing does.

use std::collections::BTreeSet;

use super::statement::{Ddl, DdlKind, Temporary};
use crate::halt::{Halt, Reason};
use crate::schema::TableName;
use crate::schema::ddl::{AlterOperation, Content};

/// Most names that are kept: a session that ends drops its own in the log, a server that crashes
/// forgets all. More than this is no use of temporary tables but a leak.
const NAMES_MAX: usize = 100_000;

/// What a statement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    BaseTable,
    TemporaryTable,
    /// Nothing tells which.
    Either,
}

/// Names of temporary tables with the sessions that they belong to.
#[derive(Debug, Default)]
pub(super) struct TemporaryTables(BTreeSet<(u32, TableName)>);

impl TemporaryTables {
    /// Takes note of what a session does to its own.
    pub(super) fn note(&mut self, thread_id: u32, change: Temporary) -> Result<(), Halt> {
        match change {
            Temporary::Create(name) => {
                if self.0.len() >= NAMES_MAX {
                    let detail =
                        format!("sessions of the source have more than {NAMES_MAX} temporary tables");
                    return Err(Halt::new(Reason::UnsupportedTransactionShape, detail));
                }
                self.0.insert((thread_id, name));
            }
            Temporary::Drop(names) => {
                for name in names {
                    self.0.remove(&(thread_id, name));
                }
            }
        }
        Ok(())
    }

    /// What a statement is about that is marked as one that depends on its session. A temporary table
    /// then has the name that the statement leaves it. A DROP TABLE of one says TEMPORARY; RENAME TABLE
    /// does not see them.
    pub(super) fn subject(&mut self, thread_id: u32, ddl: &Ddl) -> Subject {
        let sees_them = matches!(
            ddl.kind,
            DdlKind::AlterTable | DdlKind::TruncateTable | DdlKind::CreateIndex | DdlKind::DropIndex
        );
        let Some(name) = ddl.tables.first().filter(|_| sees_them) else { return Subject::BaseTable };
        let key = (thread_id, name.clone());
        if !self.0.contains(&key) {
            return Subject::Either;
        }
        if let Content::Alter(operations) = &ddl.content {
            let renamed = operations.iter().find_map(|operation| match operation {
                AlterOperation::RenameTo(name) => Some(name.clone()),
                _ => None,
            });
            if let Some(renamed) = renamed {
                self.0.remove(&key);
                self.0.insert((thread_id, renamed));
            }
        }
        Subject::TemporaryTable
    }

    /// The server has been started anew, and none of its sessions is left.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
