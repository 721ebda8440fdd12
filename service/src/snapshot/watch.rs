//! The guard of a table's copy and the table's lock, each as a task of its own: a connection must
//! not be left in the middle of an answer, as it would be when other work wins a race against it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::TableName;
use crate::source::capture::{Disturbance, Guard, TableLock};

/// Watches over a table's copy until it is dropped, which also lets DDL through.
pub(super) struct Watch {
    task: JoinHandle<Result<(), Failure>>,
    ddl_held_off: Arc<AtomicBool>,
    ended: bool,
}

/// Whether DDL has been held off without a break since the capture. Readers keep the table's
/// metadata lock only as long as it is: a DDL statement that waited for it would stop writers.
#[derive(Clone)]
pub(super) struct DdlHeldOff(Arc<AtomicBool>);

impl DdlHeldOff {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Watch {
    pub(super) fn start(guard: Guard, table: TableName, allow_ddl_at: Instant) -> Self {
        let ddl_held_off = Arc::new(AtomicBool::new(guard.holds_ddl_off()));
        let task = tokio::spawn(watch(guard, table, allow_ddl_at, Arc::clone(&ddl_held_off)));
        Self { task, ddl_held_off, ended: false }
    }

    pub(super) fn ddl_held_off(&self) -> DdlHeldOff {
        DdlHeldOff(Arc::clone(&self.ddl_held_off))
    }

    /// Returns when a statement waits for the readers: they have to let go. Cancel safe.
    ///
    /// # Errors
    /// The guard is lost.
    pub(super) async fn disturbed(&mut self) -> Result<(), Failure> {
        if self.ended {
            return std::future::pending().await;
        }
        let end = (&mut self.task).await;
        self.ended = true;
        end.unwrap_or_else(|_| Err(Halt::new(Reason::Internal, "the guard of a table's copy broke").into()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(
    mut guard: Guard,
    table: TableName,
    allow_ddl_at: Instant,
    ddl_held_off: Arc<AtomicBool>,
) -> Result<(), Failure> {
    loop {
        match guard.watch(&table, allow_ddl_at).await? {
            Disturbance::StatementWaiting => return Ok(()),
            Disturbance::DdlAllowed => ddl_held_off.store(false, Ordering::Release),
        }
    }
}

/// A table's lock, kept alive by a task of its own. Dropping it lets go of the lock.
pub(super) struct KeptLock {
    task: JoinHandle<Result<(), Failure>>,
    done: oneshot::Sender<()>,
}

impl KeptLock {
    pub(super) fn new(lock: TableLock) -> Self {
        let (done, is_done) = oneshot::channel::<()>();
        let task = tokio::spawn(lock.keep_until(async {
            // A sender that is dropped has no more use for the lock either.
            let _sent = is_done.await.is_ok();
        }));
        Self { task, done }
    }

    /// Lets go of the lock, and proves that it was held until now.
    pub(super) async fn confirm(self) -> Result<(), Failure> {
        drop(self.done);
        let held = self.task.await;
        held.unwrap_or_else(|_| Err(Failure::retry(Side::Source, "the keeper of a table's lock broke")))
    }
}
