//! The changes of one transaction: as many as memory is meant to hold there, the rest in a store.

use super::spill::{Spill, Spilled, SpilledChanges};
use super::unit::RowsChange;
use crate::halt::Halt;

/// Row changes in commit order.
///
/// Collected from changes at hand, they are all in memory.
#[derive(Debug, Default)]
pub struct Changes {
    /// The first of them.
    memory: Vec<RowsChange>,
    /// Those behind them.
    spilled: Vec<Spilled>,
    /// In memory.
    bytes: usize,
}

impl FromIterator<RowsChange> for Changes {
    fn from_iter<T: IntoIterator<Item = RowsChange>>(changes: T) -> Self {
        let memory: Vec<_> = changes.into_iter().collect();
        let bytes = memory.iter().map(|change| change.images.len() + size_of::<RowsChange>()).sum();
        Self { memory, spilled: Vec::new(), bytes }
    }
}

impl Changes {
    /// How many rows events they come from.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len() + self.spilled.iter().map(Spilled::len).sum::<usize>()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that they hold.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads them in order.
    ///
    /// # Errors
    /// Each item can be `spill_failed`.
    pub fn iter(&self) -> impl Iterator<Item = Result<RowsChange, Halt>> {
        let spilled = self.spilled.iter().flat_map(SpilledChanges::new);
        self.memory.iter().cloned().map(Ok).chain(spilled)
    }

    /// Moves what is in memory to a store.
    pub(super) fn spill(&mut self, spill: &dyn Spill) -> Result<(), Halt> {
        if !self.memory.is_empty() {
            let mut spilled = Spilled::new(spill)?;
            for change in std::mem::take(&mut self.memory) {
                spilled.push(&change)?;
            }
            spilled.finish()?;
            self.spilled.insert(0, spilled);
        }
        self.bytes = self.spilled.iter().map(Spilled::bytes).sum();
        Ok(())
    }

    /// Adds a change that keeps `held` bytes of an event alive, to the store once memory holds
    /// `limit`. The entry itself counts too: events may be smaller than what it takes to hold them.
    pub(super) fn push(
        &mut self,
        change: RowsChange,
        held: usize,
        limit: usize,
        spill: &dyn Spill,
    ) -> Result<(), Halt> {
        if let Some(spilled) = self.spilled.last_mut() {
            let before = spilled.bytes();
            spilled.push(&change)?;
            self.bytes = self.bytes.saturating_sub(before).saturating_add(spilled.bytes());
            return Ok(());
        }
        let bytes = self.bytes.saturating_add(held).saturating_add(size_of::<RowsChange>());
        if bytes > limit {
            self.spilled.push(Spilled::new(spill)?);
            return self.push(change, held, limit, spill);
        }
        self.bytes = bytes;
        self.memory.push(change);
        Ok(())
    }

    /// Makes them readable; none is added afterwards.
    pub(super) fn finish(&mut self) -> Result<(), Halt> {
        if let Some(spilled) = self.spilled.last_mut() {
            let before = spilled.bytes();
            spilled.finish()?;
            self.bytes = self.bytes.saturating_sub(before).saturating_add(spilled.bytes());
        }
        Ok(())
    }
}
