//! The parallel copy of one table: as many workers as there are views, each with a connection to
//! the target.
//!
//! * Rows go straight from a view into a COPY. At most a buffer of each worker is on the way: a
//!   target that is behind makes the worker wait, and with it the source.
//! * A worker that loses its view gives its chunk back to the others and ends.
//! * A chunk with a value for which a policy changes a column of the target is copied alone: it waits
//!   for the chunks under way, and those that follow know the column as it is then.
//! * Workers are told to stop and are waited for. None is cut off in the middle of a commit: the
//!   chunks done must be known before the next copy of the table begins.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, mpsc, watch};
use tokio::task::JoinSet;

use super::plan::{Chunk, Plan};
use super::queue::Queue;
use super::watch::{DdlHeldOff, KeptLock, Watch};
use crate::convert::{Obstacle, TablePlan};
use crate::halt::{Failure, Halt, Reason};
use crate::schema::TableModel;
use crate::schema::policy::{Policies, TargetChange};
use crate::sink::copy::{ChunkCopy, ChunkHeader, ChunkWriter, Copied};
use crate::source::capture::View;
use crate::source::reader::chunk::{self, KeyBound, ReadError};

/// Counts of rows on their way to the observer; workers wait when it does not keep up.
const COUNTS_IN_FLIGHT: usize = 64;

/// What a table's copy works with.
pub(super) struct Job {
    pub(super) model: TableModel,
    pub(super) policies: Arc<Policies>,
    pub(super) plan: Plan<KeyBound>,
    pub(super) chunk_rows: u64,
    pub(super) views: Vec<View>,
    /// As many as views.
    pub(super) writers: Vec<ChunkWriter>,
    /// Held while the rows are read, for a table that no view freezes. Such a table is one chunk.
    pub(super) lock: Option<KeptLock>,
}

/// How a copy ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Complete,
    /// The source's table was changed under the views.
    TableChanged,
    /// A statement waits for the readers.
    StatementWaiting,
}

/// What the workers share.
struct Shared {
    /// Read by each chunk under way, written by one that changes the target's columns.
    shape: Arc<RwLock<Shape>>,
    policies: Arc<Policies>,
    queue: Queue,
    held_off: DdlHeldOff,
    counts: mpsc::Sender<Copied>,
}

/// The table as the target has it.
struct Shape {
    model: TableModel,
    columns: TablePlan,
}

/// The shape that a chunk is copied in.
enum Held {
    Shared(OwnedRwLockReadGuard<Shape>),
    /// With changes that become true with the chunk's commit.
    Alone(OwnedRwLockWriteGuard<Shape>, Box<Shape>, Vec<TargetChange>),
}

impl Held {
    fn shape(&self) -> &Shape {
        match self {
            Self::Shared(shape) => shape,
            Self::Alone(_, shape, _) => shape,
        }
    }

    fn changes(&self) -> &[TargetChange] {
        match self {
            Self::Shared(_) => &[],
            Self::Alone(.., changes) => changes,
        }
    }

    /// The chunk has been committed.
    fn committed(self) {
        if let Self::Alone(mut shared, shape, _) = self {
            *shared = *shape;
        }
    }
}

struct Worker {
    /// Given up as soon as it is of no more use: it holds metadata locks.
    view: Option<View>,
    writer: ChunkWriter,
    /// As the source has it, for the bounds of chunks.
    model: TableModel,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
    lock: Option<KeptLock>,
}

/// How a worker ended.
enum WorkerEnd {
    /// All chunks are done, by whomever.
    Finished,
    /// It was told to stop.
    Stopped,
    TableChanged,
    /// The view is lost; its chunk is left to the others.
    ViewLost(Failure),
    Failed(Failure),
}

/// Why a chunk was not copied.
enum Undone {
    Stopped,
    Read(ReadError),
    Write(Failure),
    /// A value needs a column of the target changed first.
    Change(TargetChange),
}

impl From<ReadError> for Undone {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Copies what the plan leaves of the table, calling `counted` with what each chunk committed.
/// Returns how it ended, and the table as policies have changed it.
///
/// # Errors
/// Failures of the target, values that can't be converted, the guard's loss, and the loss of the
/// last view.
pub(super) async fn run(
    job: Job,
    watch: &mut Watch,
    mut counted: impl FnMut(Copied),
) -> Result<(Ended, TableModel), Failure> {
    let (stop, told) = watch::channel(false);
    let (counts, mut counting) = mpsc::channel(COUNTS_IN_FLIGHT);
    let columns = TablePlan::new(&job.model, &job.policies)?;
    let shape = Arc::new(RwLock::new(Shape { model: job.model.clone(), columns }));
    let mut workers = start(job, Arc::clone(&shape), watch.ddl_held_off(), counts, &told);
    let mut outcome = Ok(Ended::Complete);
    let mut last_loss = None;
    let mut finished = false;
    loop {
        tokio::select! {
            biased;
            Some(copied) = counting.recv() => counted(copied),
            end = workers.join_next() => match end {
                None => break,
                Some(Ok(WorkerEnd::Finished)) => finished = true,
                Some(Ok(WorkerEnd::Stopped)) => {}
                Some(Ok(WorkerEnd::ViewLost(failure))) => last_loss = Some(failure),
                Some(Ok(WorkerEnd::TableChanged)) => conclude(&mut outcome, Ok(Ended::TableChanged), &stop),
                Some(Ok(WorkerEnd::Failed(failure))) => conclude(&mut outcome, Err(failure), &stop),
                Some(Err(_)) => {
                    let halt = Halt::new(Reason::Internal, "a worker of a table's copy broke");
                    conclude(&mut outcome, Err(halt.into()), &stop);
                }
            },
            disturbed = watch.disturbed() => {
                conclude(&mut outcome, disturbed.map(|()| Ended::StatementWaiting), &stop);
            }
        }
    }
    let ended = match (outcome, finished, last_loss) {
        (Ok(Ended::Complete), false, Some(loss)) => return Err(loss),
        (outcome, ..) => outcome?,
    };
    let model = shape.read().await.model.clone();
    Ok((ended, model))
}

/// Keeps the first reason to end, and tells the workers. A failure outweighs a disturbance: what
/// it left in the target is only known after a new take-over.
fn conclude(
    outcome: &mut Result<Ended, Failure>,
    reason: Result<Ended, Failure>,
    stop: &watch::Sender<bool>,
) {
    if matches!((&outcome, &reason), (Ok(Ended::Complete), _) | (Ok(_), Err(_))) {
        *outcome = reason;
    }
    stop.send_replace(true);
}

fn start(
    job: Job,
    shape: Arc<RwLock<Shape>>,
    held_off: DdlHeldOff,
    counts: mpsc::Sender<Copied>,
    stop: &watch::Receiver<bool>,
) -> JoinSet<WorkerEnd> {
    let queue = Queue::new(job.plan, job.chunk_rows);
    let shared = Arc::new(Shared { shape, policies: job.policies, queue, held_off, counts });
    let mut lock = job.lock;
    let mut workers = JoinSet::new();
    for (view, writer) in job.views.into_iter().zip(job.writers) {
        let (lock, shared, stop) = (lock.take(), Arc::clone(&shared), stop.clone());
        let model = job.model.clone();
        workers.spawn(Worker { view: Some(view), writer, model, shared, stop, lock }.work());
    }
    workers
}

impl Worker {
    async fn work(mut self) -> WorkerEnd {
        let shared = Arc::clone(&self.shared);
        loop {
            let Some(view) = &mut self.view else { return WorkerEnd::Stopped };
            let taken = tokio::select! {
                biased;
                () = told(&mut self.stop) => return WorkerEnd::Stopped,
                taken = shared.queue.take(view, &self.model) => taken,
            };
            let chunk = match taken {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    if let Some(view) = self.view.take() {
                        view.close().await;
                    }
                    return WorkerEnd::Finished;
                }
                Err(error) => return error.into(),
            };
            match self.copy(&chunk).await {
                Ok(copied) => {
                    shared.queue.done().await;
                    // Without a receiver the copy is over, which the next look at `stop` tells.
                    let _sent = shared.counts.send(copied).await.is_ok();
                }
                Err(Undone::Stopped) => return WorkerEnd::Stopped,
                Err(Undone::Write(failure)) => return WorkerEnd::Failed(failure),
                Err(Undone::Change(_)) => {
                    let detail = "a column was changed for a value that still does not fit";
                    return WorkerEnd::Failed(Halt::new(Reason::Internal, detail).into());
                }
                Err(Undone::Read(error)) => {
                    shared.queue.give_back(chunk).await;
                    return error.into();
                }
            }
        }
    }

    /// Copies a chunk and commits it. Each attempt succeeds, fails, or finds a change more that the
    /// chunk's values need, of which every column can have two.
    async fn copy(&mut self, chunk: &Chunk<KeyBound>) -> Result<Copied, Undone> {
        let mut needed: Vec<TargetChange> = Vec::new();
        loop {
            match self.attempt(chunk, &needed).await {
                Err(Undone::Change(change)) if !needed.contains(&change) => needed.push(change),
                ended => return ended,
            }
        }
    }

    async fn attempt(&mut self, chunk: &Chunk<KeyBound>, needed: &[TargetChange]) -> Result<Copied, Undone> {
        let Self { view: kept_view, writer, shared, stop, lock, .. } = self;
        let Some(view) = kept_view else { return Err(Undone::Stopped) };
        let (held, copy) = tokio::select! {
            biased;
            () = told(stop) => return Err(Undone::Stopped),
            copied = async {
                let held = shared.hold(needed).await?;
                let copy = stream(view, writer, shared, &held, chunk).await?;
                Ok::<_, Undone>((held, copy))
            } => copied?,
        };
        if let Some(lock) = lock.take() {
            lock.confirm().await.map_err(ReadError::from)?;
        }
        let bounds = serde_json::to_value(&chunk.range).map_err(|_| {
            Undone::Write(Halt::new(Reason::Internal, "a key range can't be written as JSON").into())
        })?;
        let header = ChunkHeader { model: &held.shape().model, chunk: chunk.number, bounds: &bounds };
        // The answer to a commit is waited for in any case. A target that takes its time over it
        // must not keep those waiting who want the source's table.
        let copied = {
            let mut finish = std::pin::pin!(copy.finish(&header));
            tokio::select! {
                biased;
                copied = &mut finish => copied,
                () = told(stop) => {
                    drop(kept_view.take());
                    finish.await
                }
            }
        };
        let copied = copied.map_err(Undone::Write)?;
        held.committed();
        Ok(copied)
    }
}

impl Shared {
    /// The shape to copy a chunk in: as it is, or alone and with changes. What another chunk has
    /// changed meanwhile is changed.
    async fn hold(&self, needed: &[TargetChange]) -> Result<Held, Undone> {
        if needed.is_empty() {
            return Ok(Held::Shared(Arc::clone(&self.shape).read_owned().await));
        }
        let shared = Arc::clone(&self.shape).write_owned().await;
        let mut model = shared.model.clone();
        let changes: Vec<TargetChange> =
            needed.iter().filter(|change| change.make(&mut model)).copied().collect();
        let columns = TablePlan::new(&model, &self.policies).map_err(|halt| Undone::Write(halt.into()))?;
        Ok(Held::Alone(shared, Box::new(Shape { model, columns }), changes))
    }
}

/// Returns once the workers are told to stop, or nobody is left to tell them.
async fn told(stop: &mut watch::Receiver<bool>) {
    let _told = stop.wait_for(|stop| *stop).await.is_ok();
}

/// Sends a chunk's rows to the target as they arrive.
async fn stream<'a>(
    view: &mut View,
    writer: &'a mut ChunkWriter,
    shared: &Shared,
    held: &Held,
    chunk: &Chunk<KeyBound>,
) -> Result<ChunkCopy<'a>, Undone> {
    let Shape { model, columns } = held.shape();
    let mut copy = writer.start(model, held.changes()).await.map_err(Undone::Write)?;
    let (after, through) = (chunk.range.after.as_ref(), chunk.range.through.as_ref());
    let mut rows = chunk::read(view.session(), model, after, through).await?;
    while let Some(row) = rows.next().await? {
        let (out, uses) = copy.row();
        for (index, cell) in row.cells().enumerate() {
            columns.write(index, cell.map_err(|halt| ReadError::from(*halt))?, out, uses)?;
        }
        copy.flush_if_full().await.map_err(Undone::Write)?;
    }
    drop(rows);
    if !shared.held_off.get() {
        view.unpin().await.map_err(ReadError::from)?;
    }
    Ok(copy)
}

impl From<Obstacle> for Undone {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Halt(halt) => Self::Read(halt.into()),
            Obstacle::Change(change) => Self::Change(change),
        }
    }
}

impl From<ReadError> for WorkerEnd {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TableChanged => Self::TableChanged,
            ReadError::Failure(failure @ Failure::Retry { .. }) => Self::ViewLost(failure),
            ReadError::Failure(failure @ Failure::Halt(_)) => Self::Failed(failure),
        }
    }
}
