//! The replicated tables in memory: which changes each takes, and what writing them needs.

use std::collections::HashMap;
use std::sync::Arc;

use super::catalog;
use super::checkpoint::Position;
use super::client::Client;
use super::params::{Params, ParamsBuilder};
use super::prepared::{self, Prepared};
use super::schema_change::Known;
use super::table_state::TableState;
use crate::binlog::table_map::TableMap;
use crate::convert::RowEncoder;
use crate::gtid::Gtid;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::phase::TablePhase;
use crate::schema::policy::{Policies, TargetChange};
use crate::schema::{TableModel, TableName, diff};

/// Every table of the pipeline, by name.
pub(super) struct Tables {
    tables: Vec<Table>,
    by_database: HashMap<String, HashMap<String, usize>>,
    /// Number of the batch in hand.
    batch: u64,
    policies: Arc<Policies>,
}

pub(super) struct Table {
    pub(super) state: TableState,
    policies: Arc<Policies>,
    shape: Option<Shape>,
    prepared: Option<Prepared>,
    /// What the target's table was when its statements were prepared.
    signature: String,
    /// The batch that looked last whether it still is.
    looked_in: u64,
}

/// The table map that was compared with the model last, and the encoder made from both.
struct Shape {
    map: Arc<TableMap>,
    encoder: RowEncoder,
}

/// What writing a table's rows needs.
pub(super) struct Writing<'a> {
    pub(super) model: &'a TableModel,
    pub(super) encoder: &'a RowEncoder,
    pub(super) prepared: &'a Prepared,
}

impl Tables {
    pub(super) fn new(states: Vec<TableState>, policies: Arc<Policies>) -> Self {
        let tables = Vec::with_capacity(states.len());
        let mut tables = Self { tables, by_database: HashMap::new(), batch: 0, policies };
        for state in states {
            tables.add(state);
        }
        tables
    }

    pub(super) fn add(&mut self, state: TableState) {
        let TableName { database, table } = state.name().clone();
        self.by_database.entry(database).or_default().insert(table, self.tables.len());
        let signature = String::new();
        let policies = Arc::clone(&self.policies);
        self.tables.push(Table { state, policies, shape: None, prepared: None, signature, looked_in: 0 });
    }

    /// Puts a state in the place of the one under its name, if any. What writing the table needs is
    /// made anew: either table may be another one now.
    pub(super) fn put(&mut self, state: TableState) {
        self.remove(&state.name().clone());
        self.add(state);
    }

    pub(super) fn remove(&mut self, name: &TableName) {
        let Some(index) =
            self.by_database.get_mut(&name.database).and_then(|tables| tables.remove(&name.table))
        else {
            return;
        };
        self.tables.swap_remove(index);
        if let Some(moved) = self.tables.get(index) {
            let TableName { database, table } = moved.state.name().clone();
            self.by_database.entry(database).or_default().insert(table, index);
        }
    }

    /// A batch begins: what was seen of the target's tables is to be looked at again. Returns its
    /// number.
    pub(super) const fn begin_batch(&mut self) -> u64 {
        self.batch += 1;
        self.batch
    }

    pub(super) fn find(&self, database: &str, table: &str) -> Option<usize> {
        self.by_database.get(database)?.get(table).copied()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Table> {
        self.tables.get(index)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Table> {
        self.tables.get_mut(index)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &TableState> {
        self.tables.iter().map(|table| &table.state)
    }

    /// What this batch has locked of the target's tables may be undone: each is looked at again behind
    /// its next rows.
    pub(super) fn forget_looks(&mut self, batch: u64) {
        for table in self.tables.iter_mut().filter(|table| table.looked_in == batch) {
            table.looked_in = 0;
        }
    }

    /// Tables that show one state of the source at `position`.
    pub(super) fn converged(&self, position: &Position) -> Vec<TableName> {
        let converges = |state: &&TableState| state.has_converged(position);
        self.states().filter(converges).map(|state| state.name().clone()).collect()
    }

    /// Provisional tables whose model a table map has confirmed since.
    pub(super) fn confirmed(&self) -> Vec<TableState> {
        let confirmed = self.tables.iter().filter(|table| table.state.provisional && table.shape.is_some());
        confirmed.map(|table| TableState { provisional: false, ..table.state.clone() }).collect()
    }

    pub(super) fn mark_confirmed(&mut self) {
        for table in self.tables.iter_mut().filter(|table| table.shape.is_some()) {
            table.state.provisional = false;
        }
    }

    /// The target's tables have been changed: each is checked again before it is written.
    pub(super) fn look_again(&mut self) {
        for table in &mut self.tables {
            table.prepared = None;
        }
    }

    pub(super) fn mark_streaming(&mut self, names: &[TableName]) {
        for table in &mut self.tables {
            if names.contains(table.state.name()) {
                table.state.phase = TablePhase::Streaming;
            }
        }
    }
}

impl Known for Tables {
    fn state(&self, name: &TableName) -> Option<&TableState> {
        self.find(&name.database, &name.table).and_then(|index| self.get(index)).map(|table| &table.state)
    }

    fn all(&self) -> Vec<&TableState> {
        self.states().collect()
    }

    fn in_database(&self, database: &str) -> Vec<&TableState> {
        let mut states: Vec<_> = self.states().filter(|state| state.name().database == database).collect();
        states.sort_by_key(|state| state.name());
        states
    }
}

impl Tables {
    pub(super) fn model(&self, table: usize) -> Option<&TableModel> {
        self.tables.get(table).map(|table| &table.state.model)
    }

    /// Makes the changes of policies in the models. Returns what the models were.
    pub(super) fn change(
        &mut self,
        changes: impl Iterator<Item = (usize, TargetChange)>,
    ) -> Vec<(usize, TableModel)> {
        let mut originals: Vec<(usize, TableModel)> = Vec::new();
        for (index, change) in changes {
            let Some(table) = self.tables.get_mut(index) else { continue };
            if originals.iter().all(|(known, _)| *known != index) {
                originals.push((index, table.state.model.clone()));
            }
            table.change(change);
        }
        originals
    }

    /// The present models of the tables with these originals.
    pub(super) fn changed(&self, originals: &[(usize, TableModel)]) -> Vec<TableModel> {
        originals.iter().filter_map(|(index, _)| self.model(*index).cloned()).collect()
    }

    /// Takes back changes that were not committed.
    pub(super) fn restore(&mut self, originals: Vec<(usize, TableModel)>) {
        for (index, model) in originals {
            if let Some(table) = self.tables.get_mut(index) {
                table.restore(model);
            }
        }
    }
}

impl Table {
    /// Makes a policy's change in the model, from which all else is made anew.
    fn change(&mut self, change: TargetChange) {
        if change.make(&mut self.state.model) {
            self.compile_anew();
        }
    }

    fn restore(&mut self, model: TableModel) {
        self.state.model = model;
        self.compile_anew();
    }

    fn compile_anew(&mut self) {
        self.shape = None;
        self.prepared = None;
    }

    /// Whether a change at this GTID is to be applied: it is not in the copied rows yet.
    ///
    /// # Errors
    /// `internal_error` when the table has no copy that the stream could continue.
    pub(super) fn takes(&self, gtid: &Gtid) -> Result<bool, Halt> {
        if self.state.phase == TablePhase::Detached {
            return Ok(false);
        }
        match &self.state.snapshot_set {
            Some(set) => Ok(!set.contains(gtid)),
            None => Err(Halt::new(Reason::Internal, "the stream reached a table that has not been copied")),
        }
    }

    /// Compares the statement's table map with the model. Equal bytes have been compared before.
    pub(super) fn check(&mut self, map: &Arc<TableMap>) -> Result<(), Halt> {
        if self.shape.as_ref().is_some_and(|shape| Arc::ptr_eq(&shape.map, map) || shape.map.raw == map.raw) {
            return Ok(());
        }
        diff::check_map(&self.state.model, map)?;
        let encoder = RowEncoder::new(&self.state.model, map, &self.policies)?;
        self.shape = Some(Shape { map: Arc::clone(map), encoder });
        Ok(())
    }

    pub(super) const fn is_prepared(&self) -> bool {
        self.prepared.is_some()
    }

    /// Checks the target's table, which can't change until the batch ends, and prepares its
    /// statements.
    pub(super) async fn prepare(&mut self, client: &Client, batch: u64) -> Result<(), Failure> {
        let TableState { model, ownership, .. } = &self.state;
        self.signature = catalog::hold_fit(client, model, *ownership, self.state.uniqueness()).await?;
        self.prepared = Some(prepared::prepare(client, &self.state.model).await?);
        self.looked_in = batch;
        Ok(())
    }

    /// Parameters of [`catalog::LOOK`] that find the table as it was checked, once in each
    /// batch: its first row has been sent, so that the lock of that write keeps the table as the
    /// look finds it.
    pub(super) fn first_look(&mut self, batch: u64) -> Option<Params> {
        if self.looked_in == batch {
            return None;
        }
        self.looked_in = batch;
        let TableState { target_schema, target_table, .. } = &self.state;
        Some(ParamsBuilder::default().text(target_schema).text(target_table).text(&self.signature).build())
    }

    /// Prepares the statements for many rows, once.
    pub(super) async fn prepare_many(&mut self, client: &Client) -> Result<(), Failure> {
        match &mut self.prepared {
            Some(prepared) => prepared.prepare_many(client, &self.state.model).await,
            None => Ok(()),
        }
    }

    /// What writing rows needs, once checked and prepared.
    pub(super) fn writing(&self) -> Result<Writing<'_>, Halt> {
        match (&self.shape, &self.prepared) {
            (Some(shape), Some(prepared)) => {
                Ok(Writing { model: &self.state.model, encoder: &shape.encoder, prepared })
            }
            _ => Err(Halt::new(Reason::Internal, "a table was written before it was checked")),
        }
    }
}
