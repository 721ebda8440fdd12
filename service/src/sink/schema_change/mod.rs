//! What a schema change of the source means for the target: the table of rules. Pure.
//!
//! Each statement on a replicated table is mirrored exactly; where the rows that it leaves behind
//! can't be computed, the table is copied anew; or the pipeline halts. The rules by kind:
//!
//! ```text
//! CREATE TABLE                     create it, as the source defines it
//! CREATE TABLE … SELECT            copy
//! DROP TABLE, DROP DATABASE        drop what this pipeline created; else detach
//! TRUNCATE                         empty
//! RENAME                           move, for the net effect of the whole list (module `rename`)
//! ALTER TABLE                      copy
//! CREATE INDEX, DROP INDEX         nothing, unless it can change the key; then copy
//! CREATE and ALTER DATABASE, …     nothing
//! ```
//!
//! A change whose GTID is in a table's snapshot set is in its rows and its model already, and is
//! nothing to it.

mod outcome;
mod rename;

use crate::fold::statement::{Ddl, DdlKind};
use crate::fold::unit::SchemaChange;
use crate::gtid::Gtid;
use crate::halt::{Halt, Reason};
use crate::schema::TableName;
use crate::schema::filter::Filter;
use crate::schema::phase::TablePhase;

use super::table_state::{Ownership, TableState};

pub(super) use outcome::Outcome;

#[cfg(test)]
mod tests;

/// A schema change applied to the target, as recorded in `tidegate.schema_change`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AppliedChange {
    pub(super) table: TableName,
    pub(super) gtid: Gtid,
    pub(super) kind: &'static str,
    /// The Postgres statements run.
    pub(super) statement: String,
}

/// What is done about one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// The target's table goes, and the pipeline's record of it.
    Drop(TableName),
    /// The record of a table goes of which the target has nothing.
    Forget(TableName),
    /// The target's table stays as it is and is no longer written. Should a table of this name come
    /// into the filter again, it takes its place.
    Detach(TableName),
    /// As detached, and the table is the operator's from now on.
    Release(TableName),
    /// The target's table moves to another name, with its state.
    Move { from: TableName, to: TableName },
    /// Every row goes.
    Empty(TableName),
    /// A new table, empty. Its definition has to be announced.
    Create(TableName),
    /// The table's rows and definition are read from the source anew.
    Copy(TableName),
    /// Nothing for the target to do: recorded.
    Note(TableName),
}

impl Action {
    /// The table that it is recorded under.
    pub(super) const fn table(&self) -> &TableName {
        match self {
            Self::Move { from: table, .. }
            | Self::Drop(table)
            | Self::Forget(table)
            | Self::Detach(table)
            | Self::Release(table)
            | Self::Empty(table)
            | Self::Create(table)
            | Self::Copy(table)
            | Self::Note(table) => table,
        }
    }

    /// What it is called in the log.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Drop(_) => "dropped",
            Self::Forget(_) => "forgotten",
            Self::Detach(_) => "detached",
            Self::Release(_) => "left to the operator",
            Self::Move { .. } => "renamed",
            Self::Empty(_) => "emptied",
            Self::Create(_) => "created",
            Self::Copy(_) => "to be copied anew",
            Self::Note(_) => "unchanged",
        }
    }
}

/// The replicated tables as of the position.
pub(super) trait Known {
    fn state(&self, name: &TableName) -> Option<&TableState>;

    /// In name order.
    fn in_database(&self, database: &str) -> Vec<&TableState>;
}

/// Where a table stands towards a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Not on record.
    Unknown,
    Detached(Ownership),
    /// The change is in its copy already.
    Shown,
    /// The change happens to it.
    Concerned(Ownership),
}

/// What the rules go by.
struct Rules<'a, K> {
    change: &'a SchemaChange,
    filter: &'a Filter,
    known: &'a K,
}

/// Decides by kind, filter and the known tables. Actions are in the order in which they are to be
/// done.
pub(super) fn decide(change: &SchemaChange, filter: &Filter, known: &impl Known) -> Vec<Action> {
    let rules = Rules { change, filter, known };
    let Ddl { kind, tables, databases } = &change.statement;
    match kind {
        DdlKind::Administrative | DdlKind::CreateDatabase | DdlKind::AlterDatabase => Vec::new(),
        DdlKind::CreateTable => tables.iter().filter_map(|table| rules.create(table)).collect(),
        DdlKind::DropTable => tables.iter().filter_map(|table| rules.drop(table)).collect(),
        DdlKind::DropDatabase => {
            let states = databases.iter().flat_map(|database| known.in_database(database));
            states.filter_map(|state| rules.drop(state.name())).collect()
        }
        DdlKind::TruncateTable => rules.each(tables, |table| Action::Empty(table.clone())),
        DdlKind::RenameTable => rules.rename(&pairs(tables)),
        DdlKind::AlterTable => rules.alter(tables),
        DdlKind::CreateIndex | DdlKind::DropIndex => rules.each(tables, |table| rules.index(table)),
    }
}

impl<K: Known> Rules<'_, K> {
    fn standing(&self, table: &TableName) -> Standing {
        let Some(state) = self.known.state(table) else { return Standing::Unknown };
        if state.phase == TablePhase::Detached {
            Standing::Detached(state.ownership)
        } else if state.snapshot_set.as_ref().is_some_and(|set| set.contains(&self.change.gtid)) {
            Standing::Shown
        } else {
            Standing::Concerned(state.ownership)
        }
    }

    fn is_included(&self, table: &TableName) -> bool {
        self.filter.matches(&table.database, &table.table)
    }

    /// The action for each of the tables that the change happens to.
    fn each(&self, tables: &[TableName], action: impl Fn(&TableName) -> Action) -> Vec<Action> {
        let concerned = |table: &&TableName| matches!(self.standing(table), Standing::Concerned(_));
        tables.iter().filter(concerned).map(action).collect()
    }

    fn create(&self, table: &TableName) -> Option<Action> {
        if !self.is_included(table) {
            return None;
        }
        match self.standing(table) {
            Standing::Unknown => Some(Action::Create(table.clone())),
            // What the target has under this name is of another time.
            Standing::Detached(_) => Some(Action::Copy(table.clone())),
            // The server would have refused to create a table that exists: IF NOT EXISTS did nothing.
            Standing::Shown | Standing::Concerned(_) => None,
        }
    }

    fn drop(&self, table: &TableName) -> Option<Action> {
        match self.standing(table) {
            Standing::Unknown | Standing::Shown => None,
            Standing::Concerned(Ownership::Created) => Some(Action::Drop(table.clone())),
            Standing::Concerned(_) => Some(Action::Detach(table.clone())),
            // The operator has excluded it: what becomes of it is no longer of concern here.
            Standing::Detached(_) if !self.is_included(table) => None,
            Standing::Detached(Ownership::Created) => Some(Action::Drop(table.clone())),
            Standing::Detached(Ownership::Unclaimed) => Some(Action::Forget(table.clone())),
            Standing::Detached(Ownership::Adopted) => None,
        }
    }

    fn alter(&self, tables: &[TableName]) -> Vec<Action> {
        let is_new = |table: &TableName| {
            self.is_included(table)
                && matches!(self.standing(table), Standing::Unknown | Standing::Detached(_))
        };
        let (altered, others) = tables.split_first().map_or((&[][..], &[][..]), |(first, others)| {
            (std::slice::from_ref(first), others)
        });
        let mut actions = self.each(altered, |table| Action::Copy(table.clone()));
        for table in others {
            if is_new(table) || matches!(self.standing(table), Standing::Concerned(_)) {
                actions.push(Action::Copy(table.clone()));
            }
        }
        actions
    }

    /// An index is no part of the model. But the first unique one over NOT NULL columns is the key
    /// of a table without a PRIMARY KEY, and DROP INDEX can drop either.
    fn index(&self, table: &TableName) -> Action {
        let has_primary = self.known.state(table).is_some_and(|state| state.model.key_is_primary);
        if has_primary && self.change.statement.kind == DdlKind::CreateIndex {
            Action::Note(table.clone())
        } else {
            Action::Copy(table.clone())
        }
    }
}

/// Old and new names of RENAME TABLE.
fn pairs(tables: &[TableName]) -> Vec<(TableName, TableName)> {
    let pair = |pair: &[TableName]| match pair {
        [from, to] => Some((from.clone(), to.clone())),
        _ => None,
    };
    tables.chunks(2).filter_map(pair).collect()
}
