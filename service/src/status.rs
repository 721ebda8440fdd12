//! What the pipeline is doing, written by its tasks and read by the admin surface.
//!
//! - Nothing here looks better than the truth: what can't be known now is null, and a lag is an
//!   upper bound where the exact one is unknown.
//! - Nothing here is data: names, positions, counts and redacted messages only.
//! - The lock is held for copying facts in and out, never across a wait.

mod report;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;

use crate::config::Config;
use crate::gtid::GtidSet;
use crate::halt::{Halt, Side};
use crate::schema::TableName;
use crate::schema::phase::TablePhase;
use crate::sink::objects::ObjectFinding;
use crate::telemetry::metrics;

pub use report::{
    ConversionReport, ErrorReport, ErrorSide, HaltReport, ObjectReport, Report, State, TableReport, rfc3339,
};

/// The source is asked about once a second; an answer older than this says nothing about now.
pub const OBSERVATION_AGE_MAX: Duration = Duration::from_secs(10);

/// The pipeline's facts, shared by its tasks and the admin surface.
#[derive(Clone)]
pub struct StatusHandle(Arc<Shared>);

struct Shared {
    pipeline: String,
    source: String,
    target: String,
    started: Instant,
    facts: Mutex<Facts>,
    resume: Notify,
}

#[derive(Default)]
struct Facts {
    state: State,
    standby: bool,
    halt: Option<HaltReport>,
    /// Set by a request to resume, taken by the pipeline that waits in a halt.
    resume_requested: bool,
    dead_task: Option<&'static str>,
    processed: Option<GtidSet>,
    /// Prepared XA transactions, outside `processed`.
    prepared: GtidSet,
    /// Commit time, by the source's clock, of the last transaction applied.
    last_commit_micros: Option<u64>,
    /// Commit time, by the source's clock, of the oldest transaction received and not applied.
    oldest_pending_micros: Option<u64>,
    observation: Option<Observation>,
    observations: u64,
    /// The source's clock when our set was last seen to include the source's.
    caught_up_micros: Option<u64>,
    tables: BTreeMap<TableName, TableReport>,
    conversions: Vec<ConversionReport>,
    objects: Vec<ObjectReport>,
    last_error: Option<ErrorReport>,
    transactions_applied: u64,
    rows_applied: u64,
    stream_position: Option<(String, u64)>,
}

/// The source's own answer to how far it is.
struct Observation {
    /// Counts the answers.
    number: u64,
    executed: GtidSet,
    clock_micros: u64,
    at: Instant,
}

/// One committed batch.
#[derive(Debug, Clone, Copy)]
pub struct Applied<'a> {
    /// The processed set that the commit made durable.
    pub processed: &'a GtidSet,
    /// GTIDs of prepared XA transactions, held out of it.
    pub prepared: &'a GtidSet,
    /// Source transactions in it, those without changes for us included.
    pub transactions: u64,
    /// Row changes in it, as the source made them.
    pub rows: u64,
    /// Time from the batch's first statement to the answer of its commit.
    pub elapsed: Duration,
    /// Immediate commit time of its last transaction; `None` when it carries no transaction.
    pub last_commit_micros: Option<u64>,
    /// Immediate commit time of the oldest transaction that waits behind it, if any waits.
    pub oldest_pending_micros: Option<u64>,
}

/// Why a request to resume was turned down: the pipeline is not halted but in this state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotHalted(pub State);

/// What `/health` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    Ok(State),
    /// The reason's stable name.
    Halted(String),
    /// A task that should live as long as the process ended without saying so.
    TaskDied(&'static str),
}

impl StatusHandle {
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let host = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let (source, target) = (&config.source, &config.target);
        Self(Arc::new(Shared {
            pipeline: config.name.clone(),
            source: format!("{}:{}", host(&source.host), source.port),
            target: format!("{}:{}/{}", host(&target.host), target.port, target.database),
            started: Instant::now(),
            facts: Mutex::default(),
            resume: Notify::new(),
        }))
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.0.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pipeline moves to a state other than retrying and halted, which have their own calls.
    pub fn enter(&self, state: State) {
        let mut facts = self.facts();
        facts.state = state;
        facts.halt = None;
    }

    /// Whether another process is the pipeline's writer and this one waits to take over.
    pub fn standby(&self, standby: bool) {
        self.facts().standby = standby;
    }

    /// A cycle failed and is started over. `message` is redacted. With the cycle ends the asking of
    /// the source, so what it last said no longer counts.
    pub fn retrying(&self, side: Side, message: &str) {
        metrics::retried(side);
        let mut facts = self.facts();
        facts.state = State::Retrying;
        facts.halt = None;
        facts.stopped();
        facts.last_error = Some(ErrorReport {
            side: side.into(),
            message: message.to_owned(),
            at: rfc3339(SystemTime::now()),
        });
    }

    /// The pipeline stopped by itself. What the source last said no longer counts.
    pub fn halt(&self, halt: &Halt) {
        let mut facts = self.facts();
        facts.state = State::Halted;
        facts.stopped();
        facts.halt = Some(HaltReport::new(halt, SystemTime::now()));
        facts.resume_requested = false;
    }

    /// Asks a halted pipeline to try again. From here on it is `starting`, so that who is told of
    /// a resume does not see the halt that is left.
    ///
    /// # Errors
    /// When it is not halted.
    pub fn request_resume(&self) -> Result<(), NotHalted> {
        let mut facts = self.facts();
        if facts.state != State::Halted {
            return Err(NotHalted(facts.state));
        }
        facts.resume_requested = true;
        facts.state = State::Starting;
        facts.halt = None;
        drop(facts);
        self.0.resume.notify_one();
        Ok(())
    }

    /// Returns once a resume of the present halt is requested. Cancel safe. One waiter at a time.
    pub async fn resumed(&self) {
        loop {
            let notified = self.0.resume.notified();
            if std::mem::take(&mut self.facts().resume_requested) {
                return;
            }
            notified.await;
        }
    }

    /// The position as the checkpoint holds it, before anything is applied in this cycle.
    pub fn checkpoint_loaded(
        &self,
        processed: &GtidSet,
        prepared: &GtidSet,
        last_commit_micros: Option<u64>,
    ) {
        let mut facts = self.facts();
        facts.processed = Some(processed.clone());
        facts.prepared.clone_from(prepared);
        facts.last_commit_micros = last_commit_micros;
        facts.oldest_pending_micros = None;
    }

    /// A batch was committed.
    pub fn applied(&self, batch: Applied<'_>) {
        metrics::committed(batch.transactions, batch.elapsed);
        let mut facts = self.facts();
        match &mut facts.processed {
            Some(processed) => processed.clone_from(batch.processed),
            none => *none = Some(batch.processed.clone()),
        }
        facts.prepared.clone_from(batch.prepared);
        facts.last_commit_micros = batch.last_commit_micros.or(facts.last_commit_micros);
        facts.oldest_pending_micros = batch.oldest_pending_micros;
        facts.transactions_applied += batch.transactions;
        facts.rows_applied += batch.rows;
    }

    /// The source answered with its `gtid_executed` and its clock, microseconds since 1970.
    pub fn source_observed(&self, executed: GtidSet, clock_micros: u64) {
        let mut facts = self.facts();
        if facts.reaches(&executed) {
            facts.caught_up_micros = Some(clock_micros);
        }
        facts.observations += 1;
        let number = facts.observations;
        facts.observation = Some(Observation { number, executed, clock_micros, at: Instant::now() });
    }

    /// What the source last answered, while that still says something about now, and the answer's
    /// number. The next one is asked for after this one.
    #[must_use]
    pub fn source_executed(&self) -> Option<(u64, GtidSet)> {
        let observed = |observed: &Observation| (observed.number, observed.executed.clone());
        self.facts().observation_at(Instant::now()).map(observed)
    }

    /// The source could not be asked.
    pub fn source_unreachable(&self) {
        self.facts().observation = None;
    }

    /// Where in the binlog the stream is. For people only, never a position to resume from.
    pub fn stream_position(&self, file: &str, position: u64) {
        let mut facts = self.facts();
        match &mut facts.stream_position {
            Some((known, at)) => {
                if known != file {
                    file.clone_into(known);
                }
                *at = position;
            }
            none => *none = Some((file.to_owned(), position)),
        }
    }

    /// A table waits for a lock on the source, until its next state. The attempts to get it are
    /// failures that are retried, so that the wait is the last error as well.
    pub fn table_waiting(&self, source: &TableName, lock: &str, waited: Duration) {
        let TableName { database, table } = source;
        let message = format!("{database}.{table} waits for {lock}, for {} s so far", waited.as_secs());
        let mut facts = self.facts();
        if let Some(table) = facts.tables.get_mut(source) {
            table.waiting_for = Some(lock.to_owned());
        }
        facts.last_error =
            Some(ErrorReport { side: ErrorSide::Source, message, at: rfc3339(SystemTime::now()) });
    }

    /// A table's state; its counts stay. `target` is `schema.table`.
    pub fn table(&self, source: &TableName, target: &str, state: TablePhase) {
        let mut facts = self.facts();
        match facts.tables.get_mut(source) {
            Some(table) => {
                target.clone_into(&mut table.target);
                table.state = state;
                table.waiting_for = None;
            }
            None => {
                facts.tables.insert(source.clone(), TableReport::new(source, target, state));
            }
        }
    }

    /// A table is no longer replicated under this name.
    pub fn table_gone(&self, source: &TableName) {
        self.facts().tables.remove(source);
    }

    /// How many rows a table has by the source's estimate.
    pub fn rows_estimated(&self, source: &TableName, rows: u64) {
        if let Some(table) = self.facts().tables.get_mut(source) {
            table.rows_estimated = Some(rows);
        }
    }

    /// A table's copy begins, or goes on after a restart with this many rows already there.
    pub fn copy_begun(&self, source: &TableName, rows_copied: u64) {
        if let Some(table) = self.facts().tables.get_mut(source) {
            table.rows_copied = rows_copied;
        }
    }

    /// The indexes and constraints that the target lacks, all of them.
    pub fn objects(&self, findings: &[ObjectFinding]) {
        self.facts().objects = findings.iter().map(ObjectReport::from).collect();
    }

    /// A chunk of a table was committed.
    pub fn rows_copied(&self, source: &TableName, rows: u64) {
        metrics::rows_copied(format!("{}.{}", source.database, source.table), rows);
        if let Some(table) = self.facts().tables.get_mut(source) {
            table.rows_copied += rows;
        }
    }

    /// The ledger of converted values as it is stored.
    pub fn conversions(&self, entries: impl Iterator<Item = ConversionReport>) {
        self.facts().conversions = entries.collect();
    }

    /// What a commit added to the ledger.
    pub fn converted(&self, entries: impl Iterator<Item = ConversionReport>) {
        for entry in entries {
            metrics::converted(&entry.table, &entry.column, entry.kind, entry.policy, entry.uses);
            let mut facts = self.facts();
            match facts.conversions.iter_mut().find(|known| known.is_entry_of(&entry)) {
                Some(known) => known.add(entry),
                None => facts.conversions.push(entry),
            }
        }
    }

    /// A table's copy begins anew: its entries of the ledger are gone.
    pub fn conversions_forgotten(&self, table: &TableName) {
        let name = format!("{}.{}", table.database, table.table);
        self.facts().conversions.retain(|entry| entry.table != name);
    }

    /// Watches a task that has to live as long as the process: unless it says that it has
    /// finished, its end, be it by a panic, makes `/health` answer 503.
    pub fn supervise(&self, task: &'static str) -> TaskGuard {
        TaskGuard { status: self.clone(), task, finished: false }
    }

    #[must_use]
    pub fn health(&self) -> Health {
        let facts = self.facts();
        match (facts.dead_task, &facts.halt) {
            (Some(task), _) => Health::TaskDied(task),
            (None, Some(halt)) => Health::Halted(halt.reason.clone()),
            (None, None) => Health::Ok(facts.state),
        }
    }

    /// Whether the target is worth reading from, or this process is a healthy standby.
    #[must_use]
    pub fn ready(&self) -> bool {
        let facts = self.facts();
        let serving = matches!(facts.state, State::CatchingUp | State::Streaming);
        facts.dead_task.is_none() && facts.halt.is_none() && (serving || facts.standby)
    }

    /// Everything, as of now.
    #[must_use]
    pub fn report(&self) -> Report {
        self.report_at(Instant::now())
    }

    fn report_at(&self, now: Instant) -> Report {
        let shared = &self.0;
        let facts = self.facts();
        Report {
            pipeline: shared.pipeline.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: millis(now.saturating_duration_since(shared.started)),
            source: shared.source.clone(),
            target: shared.target.clone(),
            state: facts.state,
            standby: facts.standby,
            dead_task: facts.dead_task.map(str::to_owned),
            processed_gtid_set: facts.processed.as_ref().map(ToString::to_string),
            prepared_gtid_set: facts.prepared.to_string(),
            source_gtid_set: facts.observation_at(now).map(|observed| observed.executed.to_string()),
            lag_ms: facts.lag_micros(now).map(|micros| micros / 1000),
            halt: facts.halt.clone(),
            last_error: facts.last_error.clone(),
            transactions_applied: facts.transactions_applied,
            rows_applied: facts.rows_applied,
            stream_position: facts
                .stream_position
                .as_ref()
                .map(|(file, position)| format!("{file}:{position}")),
            tables: facts.tables.values().cloned().collect(),
            conversions: facts.conversions.clone(),
            objects: facts.objects.clone(),
        }
    }
}

impl Facts {
    /// Whether everything of the set is dealt with. Prepared XA transactions are: nothing of them
    /// could be applied yet.
    fn reaches(&self, set: &GtidSet) -> bool {
        self.processed.as_ref().is_some_and(|processed| processed.includes_with(&self.prepared, set))
    }

    /// A cycle has ended: nothing asks the source any more, and nothing waits for its locks.
    fn stopped(&mut self) {
        self.observation = None;
        self.tables.values_mut().for_each(|table| table.waiting_for = None);
    }

    /// The source's answer, while it still says something about now.
    fn observation_at(&self, now: Instant) -> Option<&Observation> {
        let fresh =
            |observed: &&Observation| now.saturating_duration_since(observed.at) <= OBSERVATION_AGE_MAX;
        self.observation.as_ref().filter(fresh)
    }

    /// 0 when our set includes the source's; else the source's clock less the commit time of the
    /// oldest transaction not applied. Where that one has not been received yet it committed
    /// after the last that was applied, and after we were last seen to have everything.
    fn lag_micros(&self, now: Instant) -> Option<u64> {
        let observed = self.observation_at(now)?;
        self.processed.as_ref()?;
        if self.reaches(&observed.executed) {
            return Some(0);
        }
        let since = self.oldest_pending_micros.or(self.last_commit_micros.max(self.caught_up_micros))?;
        let age = now.saturating_duration_since(observed.at);
        let clock = observed.clock_micros.saturating_add(u64::try_from(age.as_micros()).unwrap_or(u64::MAX));
        Some(clock.saturating_sub(since))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Marks its task as dead when dropped before [`TaskGuard::finish`].
#[must_use = "dropping it at once reports the task as dead"]
pub struct TaskGuard {
    status: StatusHandle,
    task: &'static str,
    finished: bool,
}

impl TaskGuard {
    /// The task ends as it should.
    pub fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        if !self.finished {
            self.status.facts().dead_task.get_or_insert(self.task);
        }
    }
}
