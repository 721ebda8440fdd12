//! Where the changes of an open group wait for its terminator.

use super::unit::RowsChange;
use crate::halt::{Halt, Reason};

/// The changes of one group in commit order, bounded in bytes.
#[derive(Debug)]
pub(super) struct Buffer {
    changes: Vec<RowsChange>,
    bytes: usize,
    limit: usize,
}

impl Buffer {
    pub(super) const fn new(limit: usize) -> Self {
        Self { changes: Vec::new(), bytes: 0, limit }
    }

    /// Adds a change that keeps `held` bytes of an event alive. The entry itself counts too:
    /// events may be smaller than what it takes to hold them.
    pub(super) fn push(&mut self, change: RowsChange, held: usize) -> Result<(), Halt> {
        let bytes = self.bytes.saturating_add(held).saturating_add(size_of::<RowsChange>());
        if bytes > self.limit {
            let detail = format!("the transaction's rows take more than {} bytes", self.limit);
            return Err(Halt::new(Reason::BufferExhausted, detail));
        }
        self.bytes = bytes;
        self.changes.push(change);
        Ok(())
    }

    /// The changes and the bytes that they hold.
    pub(super) fn into_parts(self) -> (Vec<RowsChange>, usize) {
        (self.changes, self.bytes)
    }
}
