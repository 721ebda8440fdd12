//! The chunks of one table, shared by its workers.

use tokio::sync::{Mutex, Notify};

use super::plan::{Chunk, Next, Plan};
use crate::schema::TableModel;
use crate::source::capture::View;
use crate::source::reader::chunk::{self, KeyBound, ReadError};

/// Hands out chunks, cutting them with the view of the worker that asks: all views show the same.
pub(super) struct Queue {
    state: Mutex<State>,
    /// A chunk was given back, or the last one that was out is done.
    changed: Notify,
    /// Rows of a chunk.
    rows: u64,
}

struct State {
    plan: Plan<KeyBound>,
    /// Chunks handed out and not done.
    out: usize,
}

impl Queue {
    pub(super) fn new(plan: Plan<KeyBound>, rows: u64) -> Self {
        Self { state: Mutex::new(State { plan, out: 0 }), changed: Notify::new(), rows }
    }

    /// The next chunk; `None` once all are done. Waits while others might give one back.
    pub(super) async fn take(
        &self,
        view: &mut View,
        model: &TableModel,
    ) -> Result<Option<Chunk<KeyBound>>, ReadError> {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let mut state = self.state.lock().await;
            let next = match state.plan.advance() {
                Next::Copy(chunk) => Some(chunk),
                Next::Bound(range) => {
                    let (after, through) = (range.after.as_ref(), range.through.as_ref());
                    let bound = chunk::next_bound(view.session(), model, after, through, self.rows).await?;
                    state.plan.cut(bound)
                }
                Next::Finished => None,
            };
            if next.is_some() {
                state.out += 1;
                return Ok(next);
            }
            if state.out == 0 {
                return Ok(None);
            }
            drop(state);
            changed.await;
        }
    }

    pub(super) async fn done(&self) {
        let mut state = self.state.lock().await;
        state.out -= 1;
        if state.out == 0 {
            self.changed.notify_waiters();
        }
    }

    pub(super) async fn give_back(&self, chunk: Chunk<KeyBound>) {
        let mut state = self.state.lock().await;
        state.out -= 1;
        state.plan.give_back(chunk);
        self.changed.notify_waiters();
    }
}
