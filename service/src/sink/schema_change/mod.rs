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
//! ALTER TABLE, CREATE and DROP INDEX
//!                                  alter, by the rules of `schema::alter`; where those can't tell: copy
//! ALTER TABLE … RENAME             as RENAME, of what the other operations make of the table
//! ALTER TABLE … EXCHANGE PARTITION copy both tables
//! other partitions of a table that the target partitions too
//!                                  copy
//! CREATE and ALTER DATABASE, …     nothing
//! ```
//!
//! Where `ddl.ignore` has kept rows that the source has removed, no copy and no table that takes the
//! name may lose them: that halts.
//!
//! A change whose GTID is in a table's snapshot set is in its rows and its model already, and is
//! nothing to it.

mod outcome;
mod rename;

use crate::config::{DdlConfig, DdlPolicy};
use crate::fold::statement::DdlKind;
use crate::fold::unit::SchemaChange;
use crate::gtid::Gtid;
use crate::halt::{Halt, Reason};
use crate::schema::alter::{Altered, Resync, TargetChange, alter, collation};
use crate::schema::ddl::{AlterOperation, Content, PartitionOperation};
use crate::schema::filter::Filter;
use crate::schema::overrides::Overrides;
use crate::schema::partitions::PartitionChoice;
use crate::schema::phase::TablePhase;
use crate::schema::renaming::renamed;
use crate::schema::{Column, TableModel, TableName};

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
#[derive(Debug, Clone, PartialEq)]
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
    /// Rows stay that the source has removed.
    Keep(TableName),
    /// The target's table is changed in place.
    Alter { table: TableName, altered: Box<Altered> },
    /// A new table, empty. Its definition has to be announced.
    Create(TableName),
    /// The table's rows and definition are read from the source anew; `why` is no text of the
    /// statement.
    Copy { table: TableName, why: &'static str },
    /// Nothing for the target to do: recorded.
    Note(TableName),
}

impl Action {
    /// The table that it is recorded under.
    pub(super) const fn table(&self) -> &TableName {
        match self {
            Self::Move { from: table, .. }
            | Self::Alter { table, .. }
            | Self::Copy { table, .. }
            | Self::Drop(table)
            | Self::Forget(table)
            | Self::Detach(table)
            | Self::Release(table)
            | Self::Empty(table)
            | Self::Keep(table)
            | Self::Create(table)
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
            Self::Keep(_) => "its rows are kept",
            Self::Alter { .. } => "altered",
            Self::Create(_) => "created",
            Self::Copy { .. } => "to be copied anew",
            Self::Note(_) => "unchanged",
        }
    }
}

/// The replicated tables as of the position.
pub(super) trait Known {
    fn state(&self, name: &TableName) -> Option<&TableState>;

    fn all(&self) -> Vec<&TableState>;

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
    config: &'a DdlConfig,
    filter: &'a Filter,
    types: &'a Overrides,
    known: &'a K,
}

/// Decides by kind, content, configuration and the known tables. Actions are in the order in which
/// they are to be done.
///
/// # Errors
/// `ddl_unsupported` where the operator's policy is to halt, `rows_kept` as [`spare_kept_rows`].
pub(super) fn decide(
    change: &SchemaChange,
    config: &DdlConfig,
    filter: &Filter,
    types: &Overrides,
    known: &impl Known,
) -> Result<Vec<Action>, Halt> {
    let rules = Rules { change, config, filter, types, known };
    let actions = rules.actions();
    let harmless =
        |action: &&Action| matches!(action, Action::Create(_) | Action::Forget(_) | Action::Note(_));
    match actions.iter().find(|action| !harmless(action)) {
        Some(action) if config.policy == DdlPolicy::Halt => Err(refused(change, action.table())),
        _ => spare_kept_rows(change, &actions, known).map(|()| actions),
    }
}

/// Refuses what would lose rows that `ddl.ignore` has kept. A table that the source drops or empties is not
/// listed any more: there they go.
///
/// # Errors
/// `rows_kept`.
pub(super) fn spare_kept_rows(
    change: &SchemaChange,
    actions: &[Action],
    known: &impl Known,
) -> Result<(), Halt> {
    let keeps =
        |name: &TableName| known.state(name).is_some_and(|state| state.model.details.target_keeps_rows);
    let before = |table: &TableName| {
        let arrives = |action: &Action| match action {
            Action::Move { from, to } if to == table => Some(from.clone()),
            _ => None,
        };
        actions.iter().find_map(arrives).unwrap_or_else(|| table.clone())
    };
    let drops = matches!(change.statement.kind, DdlKind::DropTable | DdlKind::DropDatabase);
    let is_lost = |action: &Action| match action {
        Action::Copy { table, .. } => keeps(&before(table)),
        Action::Drop(table) => !drops && keeps(table),
        _ => false,
    };
    let Some(action) = actions.iter().find(|action| is_lost(action)) else { return Ok(()) };
    let why = match action {
        Action::Copy { why, .. } => why,
        _ => "another table takes its name",
    };
    let detail = format!(
        "the target has rows that the source has removed, as ddl.ignore wants it, and {} would lose them: {why}",
        change.statement.kind.name()
    );
    let TableName { database, table } = action.table();
    Err(Halt::new(Reason::RowsKept, detail).at_gtid(&change.gtid).on_table(database, table))
}

fn refused(change: &SchemaChange, table: &TableName) -> Halt {
    let detail =
        format!("the source ran {} on the table, and ddl.policy is to halt", change.statement.kind.name());
    Halt::new(Reason::DdlUnsupported, detail).at_gtid(&change.gtid).on_table(&table.database, &table.table)
}

impl<K: Known> Rules<'_, K> {
    fn actions(&self) -> Vec<Action> {
        let ddl = &self.change.statement;
        let tables = &ddl.tables;
        match (ddl.kind, &ddl.content) {
            (DdlKind::Administrative | DdlKind::CreateDatabase | DdlKind::AlterDatabase, _) => Vec::new(),
            (DdlKind::CreateTable, Content::CreateTable(create)) => {
                tables.first().and_then(|table| self.create(table, create.with_rows)).into_iter().collect()
            }
            (DdlKind::CreateTable, _) => {
                tables.first().and_then(|table| self.create(table, false)).into_iter().collect()
            }
            (DdlKind::DropTable, _) => tables.iter().filter_map(|table| self.drop(table)).collect(),
            (DdlKind::DropDatabase, _) => {
                let states = ddl.databases.iter().flat_map(|database| self.known.in_database(database));
                states.filter_map(|state| self.drop(state.name())).collect()
            }
            (DdlKind::TruncateTable, _) => self.each(tables, |table| self.truncate(table)),
            (DdlKind::RenameTable, Content::Rename(pairs)) => self.rename(pairs),
            (DdlKind::AlterTable | DdlKind::CreateIndex | DdlKind::DropIndex, Content::Alter(operations)) => {
                self.alter(tables, operations)
            }
            // A table of the list that is new to the filter is found when the copies begin.
            (DdlKind::RenameTable | DdlKind::AlterTable | DdlKind::CreateIndex | DdlKind::DropIndex, _) => {
                self.each(tables, |table| copy(table, "a statement that was not understood in full"))
            }
        }
    }

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

    fn is_ignored(&self, table: &TableName) -> bool {
        self.config.ignores(self.change.statement.kind, table)
    }

    /// The action for each of the tables that the change happens to.
    fn each(&self, tables: &[TableName], action: impl Fn(&TableName) -> Action) -> Vec<Action> {
        let concerned = |table: &&TableName| matches!(self.standing(table), Standing::Concerned(_));
        tables.iter().filter(concerned).map(action).collect()
    }

    fn create(&self, table: &TableName, with_rows: bool) -> Option<Action> {
        if !self.is_included(table) {
            return None;
        }
        match self.standing(table) {
            Standing::Unknown if !with_rows => Some(Action::Create(table.clone())),
            // What the target has under this name, if anything, is of another time.
            Standing::Unknown => Some(copy(table, "CREATE TABLE … SELECT")),
            Standing::Detached(_) => Some(copy(table, "a table that comes back")),
            // The server would have refused to create a table that exists: IF NOT EXISTS did nothing.
            Standing::Shown | Standing::Concerned(_) => None,
        }
    }

    fn drop(&self, table: &TableName) -> Option<Action> {
        match self.standing(table) {
            Standing::Unknown | Standing::Shown => None,
            Standing::Concerned(_) if self.is_ignored(table) => Some(Action::Release(table.clone())),
            Standing::Concerned(Ownership::Created) => Some(Action::Drop(table.clone())),
            Standing::Concerned(_) => Some(Action::Detach(table.clone())),
            // The operator has excluded it: what becomes of it is no longer of concern here.
            Standing::Detached(_) if !self.is_included(table) => None,
            Standing::Detached(Ownership::Created) => Some(Action::Drop(table.clone())),
            Standing::Detached(Ownership::Unclaimed) => Some(Action::Forget(table.clone())),
            Standing::Detached(Ownership::Adopted) => None,
        }
    }

    fn truncate(&self, table: &TableName) -> Action {
        if self.is_ignored(table) {
            Action::Keep(table.clone())
        } else if self.config.policy == DdlPolicy::Resync {
            copy(table, POLICY)
        } else {
            Action::Empty(table.clone())
        }
    }

    fn alter(&self, tables: &[TableName], operations: &[AlterOperation]) -> Vec<Action> {
        let Some(table) = tables.first() else { return Vec::new() };
        let exchanges = |operation: &AlterOperation| {
            matches!(operation, AlterOperation::Partition(PartitionOperation::Exchange))
        };
        if operations.iter().any(exchanges) {
            return self.each(tables, |table| copy(table, "EXCHANGE PARTITION"));
        }
        let new_name = |operation: &AlterOperation| match operation {
            AlterOperation::RenameTo(to) => Some(to.clone()),
            _ => None,
        };
        let Some(to) = operations.iter().rev().find_map(new_name) else {
            return self.each(std::slice::from_ref(table), |table| self.alter_one(table, operations));
        };
        let rest: Vec<_> =
            operations.iter().filter(|operation| new_name(operation).is_none()).cloned().collect();
        self.alter_and_rename(table, &to, &rest)
    }

    fn alter_and_rename(&self, from: &TableName, to: &TableName, rest: &[AlterOperation]) -> Vec<Action> {
        let mut actions = self.rename(&[(from.clone(), to.clone())]);
        let moves = actions.iter().any(|action| matches!(action, Action::Move { .. }));
        if moves && !rest.is_empty() {
            match self.alter_one(from, rest) {
                Action::Copy { why, .. } => actions.push(copy(to, why)),
                own @ (Action::Alter { .. } | Action::Keep(_)) => actions.insert(0, own),
                _ => {}
            }
        }
        actions
    }

    /// Whether a column that is new, or of a new type, may have its target's type from the
    /// configuration.
    fn types_may_differ(&self, before: &TableModel, altered: &Altered) -> bool {
        let before = renamed(before, std::slice::from_ref(&altered.renaming));
        let is_as_before = |column: &&Column| {
            before.columns.iter().any(|b| b.name == column.name && b.mysql == column.mysql)
        };
        let mut new = altered.model.columns.iter().filter(|column| !is_as_before(column));
        new.any(|column| self.types.may_change(&altered.model.name, column))
    }

    /// Why the target's table has to be partitioned anew.
    fn partitions_anew(&self, state: &TableState, operations: &[AlterOperation]) -> Option<&'static str> {
        let is_native = state.model.details.target_partitions.native().is_some();
        let wants_native = self.types.partition_choice(state.name()) == PartitionChoice::Native;
        let changes = |operation: &AlterOperation| match operation {
            AlterOperation::Partition(PartitionOperation::By) => is_native || wants_native,
            AlterOperation::Partition(
                PartitionOperation::Remove
                | PartitionOperation::Add
                | PartitionOperation::Drop
                | PartitionOperation::Coalesce
                | PartitionOperation::Reorganize,
            ) => is_native,
            _ => false,
        };
        operations.iter().any(changes).then_some("other partitions of a table that has them on the target")
    }

    /// What operations other than RENAME and EXCHANGE PARTITION mean for a table that they happen to.
    fn alter_one(&self, table: &TableName, operations: &[AlterOperation]) -> Action {
        let Some(state) = self.known.state(table) else { return Action::Note(table.clone()) };
        if self.is_ignored(table) && !operations.is_empty() && operations.iter().all(removes_partitions) {
            return Action::Keep(table.clone());
        }
        if let Some(why) = self.partitions_anew(state, operations) {
            return copy(table, why);
        }
        match alter(&state.model, operations, &self.change.facts) {
            Ok(altered) if touches_partitioning(&state.model, &altered) => {
                copy(table, "a column that the target's table is partitioned by")
            }
            Ok(altered) if altered.model == state.model && altered.changes.iter().all(is_elsewhere) => {
                Action::Note(table.clone())
            }
            Ok(_) if state.provisional => copy(table, "its definition may have been read after the change"),
            Ok(_) if self.config.policy == DdlPolicy::Resync => copy(table, POLICY),
            Ok(altered) if self.types_may_differ(&state.model, &altered) => {
                copy(table, "a column whose type is configured")
            }
            Ok(mut altered) => match collation::choose(&mut altered, &state.model, self.types) {
                Ok(()) => Action::Alter { table: table.clone(), altered: Box::new(altered) },
                Err(Resync { why }) => copy(table, why),
            },
            Err(Resync { why }) => copy(table, why),
        }
    }
}

const POLICY: &str = "ddl.policy";

fn copy(table: &TableName, why: &'static str) -> Action {
    Action::Copy { table: table.clone(), why }
}

/// Whether a column is another one that the target's table is partitioned by, which PostgreSQL does not
/// change in place.
fn touches_partitioning(before: &TableModel, altered: &Altered) -> bool {
    let Some(native) = before.details.target_partitions.native() else { return false };
    let touches = |change: &TargetChange| match change {
        TargetChange::DropColumn { name: column }
        | TargetChange::RenameColumn { from: column, .. }
        | TargetChange::SetType { column, .. } => native.columns.contains(column),
        _ => false,
    };
    altered.changes.iter().any(touches)
}

/// Takes rows away with their partitions and does nothing else.
fn removes_partitions(operation: &AlterOperation) -> bool {
    matches!(operation, AlterOperation::Partition(PartitionOperation::Drop | PartitionOperation::Truncate))
}

/// Of no consequence for the columns, the key and the labels: what else the source has is read there
/// after the change.
const fn is_elsewhere(change: &TargetChange) -> bool {
    match change {
        TargetChange::SetDefault { .. }
        | TargetChange::SetColumnComment { .. }
        | TargetChange::AddIndex(_)
        | TargetChange::DropIndex { .. }
        | TargetChange::RenameIndex { .. }
        | TargetChange::AddForeignKey(_)
        | TargetChange::DropForeignKey { .. }
        | TargetChange::DropConstraint { .. }
        | TargetChange::SetTableComment(_)
        | TargetChange::NotCarried(_) => true,
        TargetChange::DropColumn { .. }
        | TargetChange::RenameColumn { .. }
        | TargetChange::SetType { .. }
        | TargetChange::DropNotNull { .. }
        | TargetChange::SetNotNull { .. }
        | TargetChange::AddColumn { .. }
        | TargetChange::SetLabels { .. }
        | TargetChange::RenameTable { .. } => false,
    }
}
