//! GTID sets: text form and algebra.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::intervals::{Interval, Intervals};
use super::{Gtid, GtidError, Tag, Uuid, number};

/// A set of GTIDs as sorted, disjoint, non-adjacent closed intervals per (uuid, tag). Equal sets
/// have equal text and equal encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct GtidSet {
    /// No entry is empty.
    uuids: BTreeMap<Uuid, BTreeMap<Tag, Intervals>>,
}

impl GtidSet {
    #[must_use]
    pub const fn new() -> Self {
        Self { uuids: BTreeMap::new() }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.uuids.is_empty()
    }

    /// How many GTIDs the set holds.
    #[must_use]
    pub fn len(&self) -> u128 {
        self.entries().map(|(_, _, intervals)| intervals.len()).sum()
    }

    #[must_use]
    pub fn contains(&self, gtid: &Gtid) -> bool {
        self.get(gtid.uuid(), gtid.tag()).is_some_and(|i| i.contains(gtid.gno()))
    }

    /// Whether every GTID of `other` is in `self`.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        other
            .entries()
            .all(|(uuid, tag, theirs)| self.get(uuid, tag).is_some_and(|ours| ours.includes(theirs)))
    }

    /// Whether every GTID of `other` is in `self` or in `more`.
    #[must_use]
    pub fn includes_with(&self, more: &Self, other: &Self) -> bool {
        self.includes(other) || (!more.is_empty() && more.includes(&other.subtract(self)))
    }

    /// Adds one GTID; adding one that is there changes nothing.
    pub fn insert(&mut self, gtid: &Gtid) {
        let gno = gtid.gno();
        self.insert_interval(*gtid.uuid(), gtid.tag(), Interval { first: gno, last: gno });
    }

    /// Takes one GTID out; returns whether it was there.
    pub fn remove(&mut self, gtid: &Gtid) -> bool {
        let Some(tags) = self.uuids.get_mut(gtid.uuid()) else { return false };
        let Some(intervals) = tags.get_mut(gtid.tag()) else { return false };
        let removed = intervals.remove(gtid.gno());
        if intervals.is_empty() {
            tags.remove(gtid.tag());
        }
        if tags.is_empty() {
            self.uuids.remove(gtid.uuid());
        }
        removed
    }

    /// Adds every GTID of `other`.
    pub fn union_with(&mut self, other: &Self) {
        for (uuid, tag, intervals) in other.entries() {
            for &interval in intervals.as_slice() {
                self.insert_interval(*uuid, tag, interval);
            }
        }
    }

    /// The GTIDs of `self` that are not in `other`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        self.map_entries(|uuid, tag, ours| match other.get(uuid, tag) {
            Some(theirs) => ours.subtract(theirs),
            None => ours.clone(),
        })
    }

    /// The GTIDs that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.map_entries(|uuid, tag, ours| {
            other.get(uuid, tag).map(|theirs| ours.intersection(theirs)).unwrap_or_default()
        })
    }

    /// The GTID with the highest transaction number of every server and tag, in their order. Not a
    /// position: lower numbers may be missing.
    pub fn latest(&self) -> impl Iterator<Item = Gtid> {
        self.entries()
            .filter_map(|(uuid, tag, intervals)| Gtid::new(*uuid, tag.clone(), intervals.last()?).ok())
    }

    /// Every maximal interval as (uuid, tag, first, last), in order of uuid, tag, number.
    pub fn intervals(&self) -> impl Iterator<Item = (&Uuid, &Tag, u64, u64)> {
        self.entries().flat_map(|(uuid, tag, intervals)| {
            intervals.as_slice().iter().map(move |i| (uuid, tag, i.first, i.last))
        })
    }

    /// Every (uuid, tag) with its intervals.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Uuid, &Tag, &Intervals)> {
        self.uuids
            .iter()
            .flat_map(|(uuid, tags)| tags.iter().map(move |(tag, intervals)| (uuid, tag, intervals)))
    }

    pub(super) fn insert_interval(&mut self, uuid: Uuid, tag: &Tag, interval: Interval) {
        let tags = self.uuids.entry(uuid).or_default();
        match tags.get_mut(tag) {
            Some(intervals) => intervals.insert(interval),
            None => tags.entry(tag.clone()).or_default().insert(interval),
        }
    }

    fn get(&self, uuid: &Uuid, tag: &Tag) -> Option<&Intervals> {
        self.uuids.get(uuid)?.get(tag)
    }

    fn map_entries(&self, f: impl Fn(&Uuid, &Tag, &Intervals) -> Intervals) -> Self {
        let mut result = Self::new();
        for (uuid, tag, intervals) in self.entries() {
            let mapped = f(uuid, tag, intervals);
            if !mapped.is_empty() {
                result.uuids.entry(*uuid).or_default().insert(tag.clone(), mapped);
            }
        }
        result
    }

    /// Reads `uuid:interval[:interval]…[:tag:interval…]…`.
    fn read_uuid_set(&mut self, text: &str) -> Result<(), GtidError> {
        let mut parts = text.split(':').map(str::trim);
        let uuid = parts.next().ok_or(GtidError::Uuid)?.parse()?;
        let mut tag = Tag::none();
        let mut awaiting_interval = true;
        for part in parts {
            if part.starts_with(|c: char| c.is_ascii_digit()) {
                self.insert_interval(uuid, &tag, read_interval(part)?);
                awaiting_interval = false;
            } else if awaiting_interval && !tag.is_none() {
                return Err(GtidError::Interval);
            } else {
                tag = part.parse()?;
                awaiting_interval = true;
            }
        }
        if awaiting_interval { Err(GtidError::Interval) } else { Ok(()) }
    }
}

fn read_interval(text: &str) -> Result<Interval, GtidError> {
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first.trim())?, number(last.trim())?),
        None => (number(text)?, number(text)?),
    };
    Interval::new(first, last).ok_or(GtidError::Interval)
}

impl FromStr for GtidSet {
    type Err = GtidError;

    /// Reads what the server prints, line breaks and blanks included; an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, GtidError> {
        let mut set = Self::new();
        if !text.trim().is_empty() {
            for part in text.split(',') {
                set.read_uuid_set(part.trim())?;
            }
        }
        Ok(set)
    }
}

impl fmt::Display for GtidSet {
    /// The server's text on one line; the server itself breaks the line after each comma.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (uuid, tags)) in self.uuids.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            write!(f, "{uuid}")?;
            for (tag, intervals) in tags {
                if !tag.is_none() {
                    write!(f, ":{tag}")?;
                }
                for interval in intervals.as_slice() {
                    if interval.first == interval.last {
                        write!(f, ":{}", interval.first)?;
                    } else {
                        write!(f, ":{}-{}", interval.first, interval.last)?;
                    }
                }
            }
        }
        Ok(())
    }
}

stored_as_text!(GtidSet);

impl<'a> FromIterator<&'a Gtid> for GtidSet {
    fn from_iter<I: IntoIterator<Item = &'a Gtid>>(gtids: I) -> Self {
        let mut set = Self::new();
        for gtid in gtids {
            set.insert(gtid);
        }
        set
    }
}
