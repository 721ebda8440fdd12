//! What of a table's key range is still to be copied, in which pieces, and under which numbers.
//!
//! A chunk is a range of the key: above one bound, up to and including another. Bounds are values
//! that the source gave and that only the source can compare; here they are handed on and tested
//! for equality, nothing else. The plan is made while the copy runs: the next chunk ends at the
//! key that the source finds a chunk's length of rows further on.
//!
//! Invariants:
//! * The chunks done, those handed out and the gaps partition the whole key range.
//! * Numbers are in key order, so that the chunks done, sorted by number, show the gaps between
//!   them. A gap holds as many numbers as it may be cut into pieces; the piece with its last
//!   number takes the rest.
//!
//! So the chunks done are all that needs storing: a copy that was cut off goes on from them.

use std::collections::VecDeque;

use crate::halt::{Halt, Reason};

#[cfg(test)]
mod tests;

/// The highest number: what the control schema's `integer` holds.
const LAST_NUMBER: u32 = i32::MAX.unsigned_abs();

/// A range of a table's key. `None` is the open end.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Range<K> {
    /// Exclusive.
    pub after: Option<K>,
    /// Inclusive.
    pub through: Option<K>,
}

/// A part of the copy that is written in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<K> {
    pub number: u32,
    pub range: Range<K>,
}

/// What to do for the next chunk.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<K> {
    /// Copy this one.
    Copy(Chunk<K>),
    /// Ask the source for the key a chunk's length into this range, and give it to [`Plan::cut`].
    Bound(Range<K>),
    /// Everything is copied or handed out.
    Finished,
}

/// A part of the key range that is not handed out, and the numbers for it.
#[derive(Debug)]
struct Gap<K> {
    first: u32,
    last: u32,
    range: Range<K>,
}

/// The rest of a table's copy.
#[derive(Debug)]
pub struct Plan<K> {
    gaps: VecDeque<Gap<K>>,
    returned: Vec<Chunk<K>>,
}

impl<K: Clone + PartialEq> Plan<K> {
    /// The rest of a copy of which `done` is in the target. A table without a key can't be cut:
    /// it is one chunk.
    ///
    /// # Errors
    /// `checkpoint_invalid` when the chunks done contradict one another.
    pub fn new(mut done: Vec<Chunk<K>>, keyed: bool) -> Result<Self, Halt> {
        let last_number = if keyed { LAST_NUMBER } else { 0 };
        done.sort_by_key(|chunk| chunk.number);
        let mut gaps = VecDeque::new();
        let (mut first, mut after) = (0, Some(None));
        for Chunk { number, range } in done {
            let Some(reached) = after else { return Err(contradiction()) };
            gaps.extend(gap(first, number, reached, Some(range.after))?);
            first = number.checked_add(1).filter(|_| number <= last_number).ok_or_else(contradiction)?;
            after = range.through.map(Some);
        }
        if let Some(reached) = after {
            gaps.extend(gap(first, last_number + 1, reached, None)?);
        }
        Ok(Self { gaps, returned: Vec::new() })
    }

    /// The next chunk, or what is needed to cut it.
    pub fn advance(&mut self) -> Next<K> {
        if let Some(chunk) = self.returned.pop() {
            return Next::Copy(chunk);
        }
        match self.gaps.front() {
            None => Next::Finished,
            Some(gap) if gap.first < gap.last => Next::Bound(gap.range.clone()),
            Some(_) => self.cut(None).map_or(Next::Finished, Next::Copy),
        }
    }

    /// Hands out the first chunk of the range that [`Plan::advance`] asked about: up to `bound`, or
    /// all of it where the source found no row so far in. `None` if nothing is left.
    pub fn cut(&mut self, bound: Option<K>) -> Option<Chunk<K>> {
        let Gap { first: number, last, range } = self.gaps.pop_front()?;
        match bound {
            Some(bound) if number < last && range.through.as_ref() != Some(&bound) => {
                let rest = Range { after: Some(bound.clone()), through: range.through };
                self.gaps.push_front(Gap { first: number + 1, last, range: rest });
                Some(Chunk { number, range: Range { after: range.after, through: Some(bound) } })
            }
            _ => Some(Chunk { number, range }),
        }
    }

    /// Whether everything is copied or handed out.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.returned.is_empty() && self.gaps.is_empty()
    }

    /// Takes back a chunk that was handed out and not copied.
    pub fn give_back(&mut self, chunk: Chunk<K>) {
        self.returned.push(chunk);
    }
}

/// The gap before chunk number `end`, which begins after `until`; `None` as `until` for the end
/// of the key range. No gap where the chunks join.
fn gap<K: PartialEq>(
    first: u32,
    end: u32,
    after: Option<K>,
    until: Option<Option<K>>,
) -> Result<Option<Gap<K>>, Halt> {
    let through = match until {
        // A chunk that begins at the open end has nothing before it.
        Some(None) if after.is_none() => return Ok(None),
        Some(None) => return Err(contradiction()),
        Some(Some(through)) if after.as_ref() == Some(&through) => return Ok(None),
        Some(through) => through,
        None => None,
    };
    if first >= end {
        return Err(contradiction());
    }
    Ok(Some(Gap { first, last: end - 1, range: Range { after, through } }))
}

fn contradiction() -> Halt {
    Halt::new(Reason::CheckpointInvalid, "the recorded chunks of a table's copy contradict one another")
}

/// What is known of a table when a new capture has been made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// A snapshot set is stored and the copy from it has begun.
    pub begun: bool,
    pub keyed: bool,
    /// The source's definition is what was recorded when the copy began.
    pub same_definition: bool,
    /// No DDL statement on the table between the two captures.
    pub no_ddl: bool,
}

/// How a copy goes on from a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// From nothing: the table is emptied, and its snapshot set is the capture's.
    Anew,
    /// The chunks done stay. The rest is read from a later state, and the stream, which replays
    /// from the first capture, makes both one: each of its changes writes the whole row under its
    /// key, so the last one decides, whatever was there.
    Resume,
}

impl Facts {
    /// A replay converges only where every change finds its row by key, in one shape, and nothing
    /// but the key can refuse a row. For the last, the target's table has no other unique index:
    /// [`crate::schema::diff::check_target`] sees to it.
    #[must_use]
    pub const fn start(self) -> Start {
        let converges = self.keyed && self.same_definition && self.no_ddl;
        if self.begun && converges { Start::Resume } else { Start::Anew }
    }
}
