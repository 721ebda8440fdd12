//! The one channel between the fold and the applier, bounded in bytes.

use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};

use crate::fold::unit::Unit;

/// What an empty unit counts: bounds the number of queued units as well as their bytes.
const UNIT_OVERHEAD_BYTES: usize = 512;

/// A semaphore takes u32 permits at once; one permit stands for this many bytes.
const BYTES_PER_PERMIT: usize = 64;

/// The sending half, held by the source task.
pub(super) struct Sender {
    units: mpsc::UnboundedSender<(Unit, u32)>,
    budget: Arc<Semaphore>,
    capacity: u32,
}

/// The receiving half, held by the apply task.
pub(super) struct Receiver {
    units: mpsc::UnboundedReceiver<(Unit, u32)>,
    budget: Arc<Semaphore>,
    /// Looked at already, and next to be received.
    peeked: Option<Unit>,
}

/// The other side of the channel is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closed;

/// A channel that holds about `bytes` of units. A unit larger than that is admitted alone.
pub(super) fn channel(bytes: usize) -> (Sender, Receiver) {
    let capacity = permits(bytes);
    let (sender, receiver) = mpsc::unbounded_channel();
    let budget = Arc::new(Semaphore::new(capacity as usize));
    (
        Sender { units: sender, budget: Arc::clone(&budget), capacity },
        Receiver { units: receiver, budget, peeked: None },
    )
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(BYTES_PER_PERMIT)).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4)
}

impl Sender {
    /// Waits until the unit fits, then queues it.
    pub(super) async fn send(&self, unit: Unit) -> Result<(), Closed> {
        let cost = permits(unit.bytes() + UNIT_OVERHEAD_BYTES).min(self.capacity);
        let permit = self.budget.acquire_many(cost).await.map_err(|_| Closed)?;
        permit.forget();
        self.units.send((unit, cost)).map_err(|_| Closed)
    }
}

impl Receiver {
    /// The next unit; `None` when the sender is gone and everything was taken. Cancel safe.
    pub(super) async fn recv(&mut self) -> Option<Unit> {
        if let Some(unit) = self.peeked.take() {
            return Some(unit);
        }
        let (unit, cost) = self.units.recv().await?;
        self.budget.add_permits(cost as usize);
        Some(unit)
    }

    /// A unit that is already queued.
    pub(super) fn try_recv(&mut self) -> Option<Unit> {
        if let Some(unit) = self.peeked.take() {
            return Some(unit);
        }
        let (unit, cost) = self.units.try_recv().ok()?;
        self.budget.add_permits(cost as usize);
        Some(unit)
    }

    /// Commit time on the source of the oldest unit that waits, microseconds since 1970.
    pub(super) fn oldest_commit_micros(&mut self) -> Option<u64> {
        self.peeked = self.try_recv();
        self.peeked.as_ref().map(|unit| unit.fingerprint().immediate_commit_micros)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.budget.close();
    }
}
