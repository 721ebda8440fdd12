//! GTIDs and GTID sets: the only position Tidegate knows.
//!
//! Text form as the server prints it (MySQL manual, "GTID Format and Storage"), wire form as
//! `COM_BINLOG_DUMP_GTID` and `PREVIOUS_GTIDS` take it (server source `sql/rpl_gtid_set.cc`,
//! `Gtid_set::encode`). Membership, never order: holes and tags are ordinary.

use std::collections::BTreeMap;
use std::fmt;

/// A server or group UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// A GTID tag: lower-case, at most 32 characters; empty means untagged.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(String);

/// One transaction's identifier: `uuid[:tag]:gno`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gtid {
    pub uuid: Uuid,
    pub tag: Tag,
    /// Transaction number, 1 to 2^63 - 2.
    pub gno: u64,
}

/// A set of GTIDs as sorted, disjoint, non-adjacent closed intervals per (uuid, tag).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GtidSet {
    intervals: BTreeMap<(Uuid, Tag), Vec<Interval>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    first: u64,
    last: u64,
}

impl fmt::Display for Gtid {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        unimplemented!()
    }
}
