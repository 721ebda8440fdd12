//! The copy of every table, and how it joins the stream.
//!
//! Each table has a snapshot set: the transactions whose effects its copied rows hold. The stream
//! applies a change to a table if and only if its GTID is not in that set. It starts from the
//! intersection of all of them, so that there is no gap and no duplicate, without comparing keys
//! or positions.
//!
//! Tables are captured and copied one after the other, each in parallel chunks. The chunks done
//! and the snapshot set are in the target: after a crash, or when the views are lost, what is
//! missing is read from a new capture, and the table shows one state of the source again once the
//! stream, which replays from the first capture, has reached the last one. Where a replay would
//! not converge, the table is copied anew.
//!
//! Dropping the future of [`run`] stops the copy: chunks that are done stay.

mod copy;
mod ddl;
mod landmarks;
pub mod plan;
mod queue;
mod table;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::Conn;

use crate::config::Config;
use crate::fold::XaPolicy;
use crate::fold::unit::Landmark;
use crate::fold::xa::XidDigest;
use crate::gtid::{GtidSet, Uuid};
use crate::halt::{Failure, Halt, Reason};
use crate::schema::filter::Filter;
use crate::schema::phase::TablePhase;
use crate::schema::{TableModel, TableName};
use crate::sink::catalog;
use crate::sink::checkpoint::Position;
use crate::sink::conversions::Conversion;
use crate::sink::table_state::{Ownership, TableState};
use crate::sink::writer::Writer;
use crate::source::capture::Waiting;
use crate::source::connect::{connect, identity};
use crate::source::reader;

/// Is told what the copy does.
pub trait Observer: Sync {
    /// A table has moved to another phase, or its copy has begun or goes on.
    fn table(&self, state: &TableState);

    /// A table's copy can't begin, or end, before a lock on the source is had. Comes again, at a
    /// bounded rate, as long as that is so; the next word of the table ends it.
    fn waiting(&self, table: &TableName, waiting: Waiting);

    /// A chunk of a table was committed, with this many rows.
    fn rows_copied(&self, table: &TableName, rows: u64);

    /// A chunk's commit added this to the ledger of converted values.
    fn converted(&self, conversions: &[Conversion]);

    /// A table's copy begins anew: its entries of the ledger are gone.
    fn conversions_forgotten(&self, table: &TableName);
}

/// What the copy of all tables works with.
struct Run<'a> {
    config: &'a Config,
    writer: &'a mut Writer,
    observer: &'a dyn Observer,
    /// For the catalog and the sets; rows are read through the views of a capture.
    conn: Conn,
    server: Uuid,
    told_of_prepared: bool,
    /// Those of the capture before, or of the beginning.
    landmarks: Vec<Landmark>,
    /// The source's count of RESET statements at the beginning.
    resets: Option<u64>,
}

/// Brings every table that the filter includes to `catching_up`, and gives the pipeline its first
/// position. Does nothing where that is done.
///
/// # Errors
/// * `snapshot_lock_unavailable`, `snapshot_interrupted`: a table could not be captured.
/// * `source_identity_mismatch`: the source lacks what has been copied from it.
/// * `source_history_diverged`: it has other transactions than those that were copied from it.
/// * Values and definitions that can't be converted, and failures of either server.
pub async fn run(
    config: &Config,
    filter: &Filter,
    writer: &mut Writer,
    observer: &dyn Observer,
) -> Result<(), Failure> {
    let mut conn = connect(&config.source).await?;
    let server = identity(&mut conn).await?.server_uuid;
    let (told_of_prepared, landmarks, resets) = (false, Vec::new(), None);
    let mut run = Run { config, writer, observer, conn, server, told_of_prepared, landmarks, resets };
    let tables = run.tables_to_copy(filter).await?;
    if !tables.is_empty() {
        run.note_history().await?;
    }
    for state in tables {
        table::bring_to_copied(&mut run, state).await?;
    }
    if run.writer.checkpoint().position.is_none() {
        run.give_position().await?;
    }
    Ok(())
}

impl Run<'_> {
    async fn save(&mut self, state: &TableState) -> Result<(), Failure> {
        self.writer.save_tables(std::slice::from_ref(state)).await?;
        self.observer.table(state);
        Ok(())
    }

    /// The tables of the filter whose copy is not complete, new ones among them.
    async fn tables_to_copy(&mut self, filter: &Filter) -> Result<Vec<TableState>, Failure> {
        let models = reader::tables(&mut self.conn, filter, &self.config.types).await?;
        let known = self.writer.load_tables().await?;
        self.check_history(&known).await?;
        let Discovered { unfinished, new, gone } = discover(models, known)?;
        for state in &gone {
            tracing::warn!(
                table = label(state.name()),
                "detached: it has gone from the source before it was copied"
            );
        }
        self.writer.save_tables(&gone).await?;
        catalog::claim_tables(self.writer, &new).await?;
        let mut tables = unfinished;
        tables.extend(new);
        tables.iter().for_each(|state| self.observer.table(state));
        Ok(tables)
    }

    /// Whether the source has everything that was copied from it, and who it is.
    async fn check_history(&mut self, known: &[TableState]) -> Result<(), Failure> {
        let executed = reader::gtid_executed(&mut self.conn).await?;
        for state in known.iter().filter(|state| state.phase != TablePhase::Detached) {
            let sets = [&state.snapshot_set, &state.converge_set];
            if sets.into_iter().flatten().any(|set| !executed.includes(set)) {
                let TableName { database, table } = state.name();
                let detail = "the source does not have transactions that its table was copied with";
                return Err(Halt::new(Reason::SourceIdentityMismatch, detail)
                    .on_table(database, table)
                    .into());
            }
        }
        // Once there is a position, it decides which servers may follow.
        let checkpoint = self.writer.checkpoint();
        if checkpoint.position.is_none() && checkpoint.source_server_uuid != Some(self.server) {
            self.writer.set_source(self.server).await?;
        }
        Ok(())
    }

    /// Says which table waits for which lock.
    fn tell_of_wait(&self, table: &TableName, waiting: Waiting) {
        tracing::warn!(
            table = label(table),
            waited_s = waiting.waited.as_secs(),
            "waiting for {}: a write transaction, DDL or a prepared XA transaction holds it",
            waiting.lock
        );
        self.observer.waiting(table, waiting);
    }

    /// Keeps the XA transactions that are prepared at a capture: the rows of those from before the
    /// stream are in no stream, only their resolution is.
    async fn keep_prepared(&mut self, prepared: Option<BTreeSet<XidDigest>>) -> Result<(), Failure> {
        let prepared = prepared.unwrap_or_default();
        if self.config.fold.xa == XaPolicy::Refuse && !prepared.is_empty() && !self.told_of_prepared {
            self.told_of_prepared = true;
            tracing::warn!(
                transactions = prepared.len(),
                "the source has prepared XA transactions: the stream halts where one of them is resolved"
            );
        }
        self.writer.add_startup_xids(&prepared).await
    }

    /// The stream's start: what every table's rows hold.
    async fn give_position(&mut self) -> Result<(), Failure> {
        let states = self.writer.load_tables().await?;
        let active: Vec<&TableState> =
            states.iter().filter(|state| state.phase != TablePhase::Detached).collect();
        let sets: Vec<&GtidSet> = active.iter().filter_map(|state| state.snapshot_set.as_ref()).collect();
        let processed = match sets.split_first() {
            Some((first, others)) => {
                others.iter().fold((*first).clone(), |common, set| common.intersection(set))
            }
            None => reader::gtid_executed(&mut self.conn).await?,
        };
        let last = self.last_of(&processed, &active).await?;
        tracing::info!(tables = sets.len(), "every table is copied");
        let position = Position { processed, pooled: GtidSet::new(), last };
        self.writer.set_position(position, &[]).await
    }
}

/// What is to be done about the tables of the source and those on record.
#[derive(Debug)]
struct Discovered {
    /// On record, copy not complete.
    unfinished: Vec<TableState>,
    /// Not on record, or detached and back.
    new: Vec<TableState>,
    /// Gone from the source before the copy was complete; to be saved as detached.
    gone: Vec<TableState>,
}

fn discover(models: Vec<TableModel>, known: Vec<TableState>) -> Result<Discovered, Halt> {
    let mut known: BTreeMap<TableName, TableState> =
        known.into_iter().map(|state| (state.name().clone(), state)).collect();
    let mut found = Discovered { unfinished: Vec::new(), new: Vec::new(), gone: Vec::new() };
    for model in models {
        match known.remove(&model.name) {
            Some(state) if state.phase != TablePhase::Detached => {
                if !is_copied(&state) {
                    found.unfinished.push(state);
                }
            }
            Some(state) => {
                refuse_kept_rows(&state)?;
                let back = TableState::new(model, TablePhase::Pending)?;
                found.new.push(TableState { ownership: state.ownership, ..back });
            }
            None => found.new.push(TableState::new(model, TablePhase::Pending)?),
        }
    }
    for (_, mut state) in known {
        if state.phase != TablePhase::Detached && !is_copied(&state) {
            state.phase = TablePhase::Detached;
            found.gone.push(state);
        }
    }
    Ok(found)
}

/// A table that is back is copied anew, unless its target's table was left to the operator.
fn refuse_kept_rows(state: &TableState) -> Result<(), Halt> {
    if !state.model.details.target_keeps_rows || state.ownership == Ownership::Unclaimed {
        return Ok(());
    }
    let TableName { database, table } = state.name();
    let detail = "the table is back in the filter, and its copy would lose rows of the target that the source has \
                  removed, as ddl.ignore wants it";
    Err(Halt::new(Reason::RowsKept, detail).on_table(database, table))
}

const fn is_copied(state: &TableState) -> bool {
    matches!(state.phase, TablePhase::CatchingUp | TablePhase::Streaming)
}

/// A table's name in a log line.
fn label(table: &TableName) -> String {
    format!("{}.{}", table.database, table.table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_back_keeps_the_rows_that_were_kept() {
        let name = TableName { database: "app".to_owned(), table: "t".to_owned() };
        let mut state = TableState::unknown(name, TablePhase::Detached).unwrap();
        let back = |state: &TableState| discover(vec![state.model.clone()], vec![state.clone()]);
        state.ownership = Ownership::Created;
        assert_eq!(back(&state).unwrap().new.len(), 1);
        state.model.details.target_keeps_rows = true;
        assert_eq!(back(&state).unwrap_err().reason, Reason::RowsKept);
        state.ownership = Ownership::Unclaimed;
        assert_eq!(back(&state).unwrap().new.len(), 1);
    }
}
