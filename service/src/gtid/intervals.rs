//! Sorted, disjoint, non-adjacent closed intervals of transaction numbers.

use super::MAX_GNO;

/// A closed interval: `1 <= first <= last <= MAX_GNO`, so that `last + 1` never overflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Interval {
    pub(super) fn new(first: u64, last: u64) -> Option<Self> {
        (1 <= first && first <= last && last <= MAX_GNO).then_some(Self { first, last })
    }

    const fn len(self) -> u64 {
        self.last - self.first + 1
    }
}

/// The canonical interval list of one (UUID, tag).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Intervals(Vec<Interval>);

impl Intervals {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_slice(&self) -> &[Interval] {
        &self.0
    }

    pub(super) fn len(&self) -> u128 {
        self.0.iter().map(|i| u128::from(i.len())).sum()
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.0.last().map(|i| i.last)
    }

    /// The interval that holds `gno`.
    fn holding(&self, gno: u64) -> Option<Interval> {
        let at = self.0.partition_point(|i| i.last < gno);
        self.0.get(at).copied().filter(|i| i.first <= gno)
    }

    pub(super) fn contains(&self, gno: u64) -> bool {
        self.holding(gno).is_some()
    }

    pub(super) fn includes(&self, other: &Self) -> bool {
        other.0.iter().all(|o| self.holding(o.first).is_some_and(|i| o.last <= i.last))
    }

    /// Adds an interval, merging whatever it overlaps or touches.
    pub(super) fn insert(&mut self, new: Interval) {
        // What a stream adds is nearly always the next number.
        if let Some(last) = self.0.last_mut()
            && last.last + 1 == new.first
        {
            last.last = new.last;
            return;
        }
        let from = self.0.partition_point(|i| i.last + 1 < new.first);
        let to = self.0.partition_point(|i| i.first <= new.last + 1);
        let touched = self.0.get(from..to).unwrap_or_default();
        let merged = match (touched.first(), touched.last()) {
            (Some(low), Some(high)) => {
                Interval { first: low.first.min(new.first), last: high.last.max(new.last) }
            }
            _ => new,
        };
        self.0.splice(from..to, [merged]);
    }

    /// Takes one number out, splitting the interval that held it.
    pub(super) fn remove(&mut self, gno: u64) -> bool {
        let Some(held) = self.holding(gno) else { return false };
        let at = self.0.partition_point(|i| i.last < gno);
        let before = Interval::new(held.first, gno - 1);
        let after = Interval::new(gno + 1, held.last);
        self.0.splice(at..=at, before.into_iter().chain(after));
        true
    }

    /// What is in both.
    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut common = Vec::new();
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            common.extend(Interval::new(a.first.max(b.first), a.last.min(b.last)));
            if a.last < b.last {
                ours.next();
            } else {
                theirs.next();
            }
        }
        Self(common)
    }

    /// What is in `self` and not in `other`.
    pub(super) fn subtract(&self, other: &Self) -> Self {
        let mut rest = Vec::new();
        let mut holes = other.0.iter().peekable();
        for interval in &self.0 {
            let mut first = interval.first;
            while let Some(hole) = holes.peek() {
                if hole.first > interval.last {
                    break;
                }
                rest.extend(Interval::new(first, hole.first - 1));
                first = first.max(hole.last + 1);
                if hole.last > interval.last {
                    // It may cut the next interval too.
                    break;
                }
                holes.next();
            }
            rest.extend(Interval::new(first, interval.last));
        }
        Self(rest)
    }
}
