//! What a schema change makes of the recorded states.

use std::collections::BTreeMap;

use super::{Action, Known};
use crate::gtid::GtidSet;
use crate::halt::{Halt, Reason};
use crate::schema::phase::TablePhase;
use crate::schema::renaming::{Renaming, follow_parents};
use crate::schema::render::target_name;
use crate::schema::{TableModel, TableName};
use crate::sink::table_state::{Ownership, TableState};

/// The states as of the change: those removed go first.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) removed: Vec<TableName>,
    pub(crate) saved: Vec<TableState>,
    pub(crate) renamings: Vec<Renaming>,
}

impl Outcome {
    /// Tables wait for a copy, which the stream must not run ahead of.
    pub(crate) fn needs_copy(&self) -> bool {
        self.saved.iter().any(|state| state.phase == TablePhase::Resyncing)
    }

    /// Follows the actions. `created` has the definition of each table that is created and whose
    /// the target's table is then; a table that the source no longer has passes by until the
    /// stream reaches its end.
    ///
    /// # Errors
    /// `unsupported_name`, and `internal_error` for an action on a table that is not on record.
    pub(crate) fn of(
        actions: &[Action],
        known: &impl Known,
        created: impl Fn(&TableName) -> Option<(TableModel, Ownership)>,
    ) -> Result<Self, Halt> {
        let mut outcome = Self::default();
        // Under the names from before the change: a list of moves uses a name for two tables.
        let mut altered_states: BTreeMap<&TableName, TableState> = BTreeMap::new();
        let state = |name: &TableName| {
            let missing = || Halt::new(Reason::Internal, "a schema change of a table that is not on record");
            known.state(name).cloned().ok_or_else(missing)
        };
        for action in actions {
            match action {
                Action::Drop(name) | Action::Forget(name) => outcome.removed.push(name.clone()),
                Action::Detach(name) => {
                    outcome.saved.push(TableState { phase: TablePhase::Detached, ..state(name)? });
                }
                Action::Release(name) => {
                    let (phase, ownership) = (TablePhase::Detached, Ownership::Unclaimed);
                    outcome.saved.push(TableState { phase, ownership, ..state(name)? });
                }
                Action::Move { from, to } => {
                    outcome.removed.push(from.clone());
                    outcome.removed.push(to.clone());
                    outcome.rename_table(from, to);
                    let altered = altered_states.remove(from);
                    outcome.saved.push(moved(altered.map_or_else(|| state(from), Ok)?, to)?);
                }
                Action::Create(name) => outcome.saved.push(match created(name) {
                    Some((model, ownership)) => new(model, ownership)?,
                    None => TableState::unknown(name.clone(), TablePhase::Detached)?,
                }),
                Action::Alter { table, altered } => {
                    outcome.renamings.push(altered.renaming.clone());
                    let state = TableState { model: altered.model.clone(), ..state(table)? };
                    altered_states.insert(table, state);
                }
                Action::Copy { table, .. } => {
                    let kept = outcome
                        .take(table)
                        .or_else(|| known.state(table).filter(|_| !outcome.removed.contains(table)).cloned());
                    outcome.saved.push(to_copy(table, kept)?);
                }
                Action::Keep(name) | Action::Empty(name) => {
                    let keeps = matches!(action, Action::Keep(_));
                    let mut state = state(name)?;
                    if state.model.details.target_keeps_rows != keeps {
                        state.model.details.target_keeps_rows = keeps;
                        altered_states.insert(name, state);
                    }
                }
                Action::Note(_) => {}
            }
        }
        outcome.saved.extend(altered_states.into_values());
        outcome.follow_parents(known);
        Ok(outcome)
    }

    fn rename_table(&mut self, from: &TableName, to: &TableName) {
        match self.renamings.iter_mut().find(|renaming| renaming.from == *from) {
            Some(renaming) => renaming.to = to.clone(),
            None => self.renamings.push(Renaming { to: to.clone(), ..Renaming::of(from) }),
        }
    }

    /// Foreign keys go with the tables and columns that they reference.
    fn follow_parents(&mut self, known: &impl Known) {
        for state in &mut self.saved {
            follow_parents(&mut state.model.details, &self.renamings);
        }
        let is_touched = |outcome: &Self, name: &TableName| {
            outcome.removed.contains(name) || outcome.saved.iter().any(|state| state.name() == name)
        };
        for state in known.all() {
            let mut state = state.clone();
            if !is_touched(self, state.name()) && follow_parents(&mut state.model.details, &self.renamings) {
                self.saved.push(state);
            }
        }
    }

    /// The state that an earlier action has left under this name.
    fn take(&mut self, name: &TableName) -> Option<TableState> {
        let index = self.saved.iter().position(|state| state.name() == name)?;
        Some(self.saved.swap_remove(index))
    }
}

/// A table that the stream creates: it is empty, and every later change is its.
fn new(model: TableModel, ownership: Ownership) -> Result<TableState, Halt> {
    Ok(TableState {
        snapshot_set: Some(GtidSet::new()),
        rows_estimated: Some(0),
        ownership,
        provisional: true,
        ..TableState::new(model, TablePhase::Streaming)?
    })
}

fn moved(mut state: TableState, to: &TableName) -> Result<TableState, Halt> {
    let (schema, table) = target_name(to)?;
    (state.target_schema, state.target_table) = (schema.to_owned(), table.to_owned());
    state.model.name = to.clone();
    Ok(state)
}

/// A table to be copied anew: its rows stay until the copy begins.
fn to_copy(name: &TableName, kept: Option<TableState>) -> Result<TableState, Halt> {
    let phase = TablePhase::Resyncing;
    match kept {
        Some(state) => Ok(TableState {
            phase,
            snapshot_set: None,
            landmarks: Vec::new(),
            converge_set: None,
            provisional: false,
            ..state
        }),
        None => TableState::unknown(name.clone(), phase),
    }
}
