//! The temporary tables of the source's sessions, as far as the log tells of them.
//!
//! A session that logs statements logs those on its temporary tables too, and an ALTER, TRUNCATE or
//! CREATE INDEX of one reads like that of a table which it hides. Only that the same session has
//! created it before tells them apart.

use std::collections::BTreeSet;

use super::statement::{Ddl, DdlKind, Temporary};
use crate::halt::{Halt, Reason};
use crate::schema::TableName;
use crate::schema::ddl::{AlterOperation, Content};

/// Most names that are kept: a session that ends drops its own in the log, a server that crashes
/// forgets all. More than this is no use of temporary tables but a leak.
const NAMES_MAX: usize = 100_000;

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

    /// Whether a statement is about a temporary table, which then has the name that the statement
    /// leaves it. A DROP TABLE of one says TEMPORARY; RENAME TABLE does not see them.
    pub(super) fn hides(&mut self, thread_id: u32, ddl: &Ddl) -> bool {
        let seen = matches!(
            ddl.kind,
            DdlKind::AlterTable | DdlKind::TruncateTable | DdlKind::CreateIndex | DdlKind::DropIndex
        );
        let Some(name) = ddl.tables.first().filter(|_| seen && !self.0.is_empty()) else { return false };
        let key = (thread_id, name.clone());
        if !self.0.contains(&key) {
            return false;
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
        true
    }

    /// The server has been started anew, and none of its sessions is left.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}
