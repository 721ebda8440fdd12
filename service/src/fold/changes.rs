//! The changes of one transaction: as many as memory is meant to hold there, the rest in a store.

use super::spill::{Spill, Spilled, SpilledChanges};
use super::unit::RowsChange;
use crate::halt::Halt;

/// Row changes in commit order.
///
/// Collected from changes at hand, they are all in memory.
#[derive(Debug, Default)]
pub struct Changes {
    parts: Vec<Part>,
    /// In memory.
    bytes: usize,
}

impl FromIterator<RowsChange> for Changes {
    fn from_iter<T: IntoIterator<Item = RowsChange>>(changes: T) -> Self {
        let changes: Vec<_> = changes.into_iter().collect();
        let bytes = changes.iter().map(|change| change.images.len() + size_of::<RowsChange>()).sum();
        Self { parts: vec![Part::Memory(changes)], bytes }
    }
}

#[derive(Debug)]
enum Part {
    Memory(Vec<RowsChange>),
    Spilled(Spilled),
}

impl Changes {
    /// How many rows events they come from.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(Part::len).sum()
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
        self.parts.iter().flat_map(Part::iter)
    }

    /// Moves what is in memory to a store.
    pub(super) fn spill(&mut self, spill: &dyn Spill) -> Result<(), Halt> {
        for part in &mut self.parts {
            let Part::Memory(changes) = part else { continue };
            let mut spilled = Spilled::new(spill)?;
            for change in std::mem::take(changes) {
                spilled.push(&change)?;
            }
            spilled.finish()?;
            *part = Part::Spilled(spilled);
        }
        self.bytes = self.parts.iter().map(Part::stored_bytes).sum();
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
        if let Some(Part::Spilled(spilled)) = self.parts.last_mut() {
            let before = spilled.bytes();
            spilled.push(&change)?;
            self.bytes = self.bytes.saturating_sub(before).saturating_add(spilled.bytes());
            return Ok(());
        }
        let bytes = self.bytes.saturating_add(held).saturating_add(size_of::<RowsChange>());
        if bytes > limit {
            self.parts.push(Part::Spilled(Spilled::new(spill)?));
            return self.push(change, held, limit, spill);
        }
        self.bytes = bytes;
        match self.parts.last_mut() {
            Some(Part::Memory(changes)) => changes.push(change),
            _ => self.parts.push(Part::Memory(vec![change])),
        }
        Ok(())
    }

    /// Makes them readable; none is added afterwards.
    pub(super) fn finish(&mut self) -> Result<(), Halt> {
        if let Some(Part::Spilled(spilled)) = self.parts.last_mut() {
            let before = spilled.bytes();
            spilled.finish()?;
            self.bytes = self.bytes.saturating_sub(before).saturating_add(spilled.bytes());
        }
        Ok(())
    }
}

impl Part {
    const fn len(&self) -> usize {
        match self {
            Self::Memory(changes) => changes.len(),
            Self::Spilled(spilled) => spilled.len(),
        }
    }

    fn stored_bytes(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::Spilled(spilled) => spilled.bytes(),
        }
    }

    fn iter(&self) -> Box<dyn Iterator<Item = Result<RowsChange, Halt>> + Send + '_> {
        match self {
            Self::Memory(changes) => Box::new(changes.iter().cloned().map(Ok)),
            Self::Spilled(spilled) => Box::new(SpilledChanges::new(spilled)),
        }
    }
}
