//! Two tasks and one channel: the source task reads and folds, the apply loop writes.
//!
//! Whatever ends the source task, the units it has released are committed transactions of the
//! source: the apply loop drains them before the cycle ends with the source task's failure.

use std::time::Instant;

use mysql_async::Conn;
use tokio::task::JoinHandle;

use super::queue::{self, Receiver, Sender};
use super::silence::{Silence, is_heartbeat};
use super::witness::Witness;
use super::{Context, continuity, cycle, task_failed, watch};
use crate::binlog::event::{Event, event_type};
use crate::fold::unit::Unit;
use crate::fold::{Fold, Step};
use crate::gtid::GtidSet;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::TableName;
use crate::schema::phase::TablePhase;
use crate::sink::apply::{self, Applier, Pause};
use crate::sink::catalog::LOCK_PAUSE;
use crate::source::dump::Dump;
use crate::source::reader;
use crate::status::{Applied, ConversionReport, State, StatusHandle};
use crate::telemetry::metrics::{self, Received, Stage};

/// A batch holds no more than this many transactions, however small: bounds the time that one
/// commit takes and the work that its failure repeats.
const BATCH_UNITS_MAX: usize = 10_000;

/// How a stream ends that does not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The stop was requested.
    Stopped,
    /// Tables wait for a copy: the next cycle makes it.
    StartOver,
}

/// What the stream starts with.
pub(super) struct Opened {
    /// For reading the definitions of tables that the stream creates.
    pub(super) conn: Conn,
    pub(super) dump: Dump,
    pub(super) fold: Fold,
    pub(super) witness: Witness,
    pub(super) applier: Applier,
    /// What the source had executed when the stream was opened: catching up ends there.
    pub(super) caught_up_at: GtidSet,
}

/// Aborts the task when dropped: a cycle leaves nothing running.
struct Owned<T>(JoinHandle<T>);

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for a moment, if there is one.
async fn reached(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Streams until the stop is requested, tables have to be copied, or one of the tasks fails.
pub(super) async fn run(
    context: &Context,
    opened: Opened,
    progress: &mut cycle::Progress,
) -> Result<End, Failure> {
    let Opened { conn, dump, fold, witness, applier, caught_up_at } = opened;
    let position = applier.position();
    context.status.checkpoint_loaded(
        &position.processed,
        &position.pooled,
        position.last.as_ref().map(|(_, fingerprint)| fingerprint.immediate_commit_micros),
    );
    context.status.enter(State::CatchingUp);
    tracing::info!(position = %position.processed, "streaming");
    let (sender, receiver) = queue::channel(context.config.apply.channel_bytes);
    let watcher = watch::run(context.config.source.clone(), context.status.clone());
    let watcher = Owned(tokio::spawn(watcher));
    let mut source = Owned(tokio::spawn(read(dump, fold, sender, context.status.clone(), watcher, witness)));
    let mut apply = Apply { context, applier, conn, receiver, caught_up_at, progress };
    if let Some(end) = apply.run().await? {
        return Ok(end);
    }
    match (&mut source.0).await {
        Ok(Ok(())) | Err(_) => Err(task_failed("source")),
        Ok(Err(failure)) => {
            let Apply { mut conn, mut applier, .. } = apply;
            let replica_uuid = applier.writer_mut().checkpoint().replica_uuid.to_string();
            let (config, position) = (&context.config.source, applier.position());
            Err(continuity::explained(&mut conn, config, &replica_uuid, position, failure).await)
        }
    }
}

/// The source task. Ends with the failure that ended it, with what the watcher has noticed, or `Ok`
/// when the apply loop is gone.
async fn read(
    mut dump: Dump,
    mut fold: Fold,
    sender: Sender,
    status: StatusHandle,
    mut watcher: Owned<Failure>,
    mut witness: Witness,
) -> Result<(), Failure> {
    let received = Received::new();
    let mut file = String::new();
    let mut silence = Silence::default();
    loop {
        let event = tokio::select! {
            biased;
            noticed = &mut watcher.0 => return Err(noticed.unwrap_or_else(|_| task_failed("watch"))),
            event = dump.next() => event?,
        };
        if is_heartbeat(&event) {
            silence.heartbeat(&event, &fold, || status.source_executed())?;
        } else {
            silence.broken();
        }
        received.event(event.body.len());
        witness.event(&event, || fold.received()).await?;
        if event.header.event_type == event_type::ROTATE
            && let Ok(Event::Rotate(rotate)) = Event::parse(&event)
        {
            file = rotate.file;
        }
        let position = u64::from(event.header.log_pos);
        match fold.step(event)? {
            Step::Continue => {}
            Step::OverlapVerified => tracing::info!("the source's history is the one applied so far"),
            Step::Unit(unit) => {
                witness.received(&unit);
                status.stream_position(&file, position);
                if sender.send(unit).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// The apply loop.
struct Apply<'a> {
    context: &'a Context,
    applier: Applier,
    conn: Conn,
    receiver: Receiver,
    caught_up_at: GtidSet,
    progress: &'a mut cycle::Progress,
}

impl Apply<'_> {
    /// Applies batch after batch until the source task is gone (`None`) or something else ends the
    /// stream.
    ///
    /// The stop is looked at between batches only: one that is begun is finished.
    async fn run(&mut self) -> Result<Option<End>, Failure> {
        self.enter_streaming();
        loop {
            let waiting = Instant::now();
            let first = tokio::select! {
                biased;
                () = self.context.shutdown.requested() => return Ok(Some(End::Stopped)),
                () = reached(self.applier.asks_again_at()) => {
                    self.applier.complete_tables().await?;
                    cycle::publish_objects(&self.context.status, self.applier.writer_mut()).await?;
                    continue;
                }
                unit = self.receiver.recv() => unit,
            };
            let Some(first) = first else { return Ok(None) };
            let batch = self.collect(first).await;
            metrics::stage(Stage::Wait, waiting.elapsed());
            if let Some(end) = self.apply(&batch).await? {
                return Ok(Some(end));
            }
        }
    }

    /// Takes what has queued up meanwhile. Units without changes alone are not worth a commit of
    /// their own: they wait for company, but no longer than `apply.idle_commit_interval`.
    async fn collect(&mut self, first: Unit) -> Vec<Unit> {
        let config = &self.context.config.apply;
        let deadline = tokio::time::Instant::now() + config.idle_commit_interval;
        let (mut bytes, mut idle) = (first.bytes(), first.is_empty());
        let mut batch = vec![first];
        while bytes < config.max_batch_bytes && batch.len() < BATCH_UNITS_MAX {
            let next = match self.receiver.try_recv() {
                Some(unit) => Some(unit),
                None if idle => self.wait_for_company(deadline).await,
                None => None,
            };
            let Some(unit) = next else { break };
            bytes += unit.bytes();
            idle &= unit.is_empty();
            batch.push(unit);
        }
        batch
    }

    async fn wait_for_company(&mut self, deadline: tokio::time::Instant) -> Option<Unit> {
        tokio::select! {
            biased;
            () = self.context.shutdown.requested() => None,
            unit = tokio::time::timeout_at(deadline, self.receiver.recv()) => unit.ok().flatten(),
        }
    }

    /// Applies a batch, doing what its schema changes ask for in between.
    async fn apply(&mut self, batch: &[Unit]) -> Result<Option<End>, Failure> {
        let mut rest = batch;
        let mut locked_since = None;
        loop {
            let started = Instant::now();
            let applied = self.applier.apply(rest).await?;
            self.publish(&applied, started);
            rest = rest.get(applied.units..).unwrap_or_default();
            if applied.units > 0 {
                locked_since = None;
            }
            self.follow_definitions(&applied).await?;
            match applied.pause {
                None => return Ok(None),
                Some(Pause::NeedsCopy) => return Ok(Some(End::StartOver)),
                Some(Pause::WantsModel(name)) => self.announce(name, rest.first()).await?,
                Some(Pause::Locked(table)) => {
                    let since = *locked_since.get_or_insert(started);
                    if self.wait_for_lock(since, &table, rest.first()).await? {
                        return Ok(Some(End::Stopped));
                    }
                }
            }
        }
    }

    /// Reads the definitions that a schema change has touched, takes over what the position has
    /// reached, and builds what that asks for.
    async fn follow_definitions(&mut self, applied: &apply::Progress) -> Result<(), Failure> {
        let mut models = Vec::new();
        for name in &applied.redefined {
            models.extend(reader::table(&mut self.conn, name, self.applier.types()).await?);
        }
        if !applied.redefined.is_empty() {
            let executed = reader::gtid_executed(&mut self.conn).await?;
            self.applier.present(models, &executed);
            cycle::publish_conversions(&self.context.status, self.applier.writer_mut()).await?;
        }
        if self.applier.take_over_definitions().await? || applied.tables_changed() {
            self.applier.build_objects().await?;
            cycle::publish_objects(&self.context.status, self.applier.writer_mut()).await?;
        }
        Ok(())
    }

    /// Reads the definition of a table that the unit creates, as the source has it now.
    async fn announce(&mut self, name: TableName, unit: Option<&Unit>) -> Result<(), Failure> {
        let Some(unit) = unit else { return Ok(()) };
        // The event can be here before its commit is finished there: until then the table does
        // not show, or shows as what it replaces.
        let creation = GtidSet::from_iter([unit.gtid()]);
        if !continuity::wait_executed(&mut self.conn, &creation).await?.is_empty() {
            let message = format!("the source has not finished {}, which it has sent", unit.gtid());
            return Err(Failure::retry(Side::Source, message));
        }
        let model = reader::table(&mut self.conn, &name, self.applier.types()).await?;
        if model.is_none() {
            reader::refuse_unreadable(&mut self.conn, &name).await?;
        }
        self.applier.announce(name, model);
        Ok(())
    }

    /// Lets the target's readers pass before the next attempt to change the table. Answers whether
    /// the stop was requested meanwhile.
    async fn wait_for_lock(
        &self,
        since: Instant,
        table: &TableName,
        unit: Option<&Unit>,
    ) -> Result<bool, Failure> {
        let config = &self.context.config.ddl;
        let TableName { database, table } = table;
        if since.elapsed() >= config.lock_deadline {
            let halt = Halt::new(Reason::DdlLockUnavailable, "others kept using the target's table")
                .on_table(database, table);
            return Err(unit.map_or(halt.clone(), |unit| halt.at_gtid(unit.gtid())).into());
        }
        tracing::info!(table = format!("{database}.{table}"), "a schema change waits for the target's table");
        tokio::select! {
            biased;
            () = self.context.shutdown.requested() => Ok(true),
            () = tokio::time::sleep(LOCK_PAUSE) => Ok(false),
        }
    }

    fn publish(&mut self, applied: &apply::Progress, started: Instant) {
        if applied.units == 0 && !applied.tables_changed() {
            return;
        }
        self.progress.committed = true;
        metrics::written(applied.image_bytes, applied.merged, applied.conflicts);
        metrics::stage(Stage::Write, applied.write_time);
        metrics::stage(Stage::Commit, applied.commit_time);
        for ((table, kind), rows) in &applied.rows {
            metrics::rows_applied(&format!("{}.{}", table.database, table.table), *kind, *rows);
        }
        self.context.status.applied(Applied {
            processed: &self.applier.position().processed,
            prepared: &self.applier.position().pooled,
            transactions: applied.units as u64,
            rows: applied.rows.values().sum(),
            elapsed: started.elapsed(),
            last_commit_micros: applied.commit_micros,
            oldest_pending_micros: self.receiver.oldest_commit_micros(),
        });
        for name in &applied.removed {
            self.context.status.table_gone(name);
        }
        let conversions = applied.conversions.iter().map(ConversionReport::from);
        self.context.status.converted(conversions);
        if applied.tables_changed() {
            cycle::publish_tables(&self.context.status, self.applier.tables());
        }
        self.enter_streaming();
    }

    /// Caught up once the position that the source had at the opening is reached and every table
    /// shows one state of the source.
    fn enter_streaming(&self) {
        let reached = self.applier.position().reaches(&self.caught_up_at);
        let consistent = self.applier.tables().all(|table| table.phase != TablePhase::CatchingUp);
        if reached && consistent {
            self.context.status.enter(State::Streaming);
        }
    }
}
