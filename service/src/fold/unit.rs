//! What leaves the fold: a committed transaction or schema change, with its GTID.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use super::changes::Changes;
use super::xa::XidDigest;
use crate::binlog::table_map::TableMap;
use crate::gtid::{Gtid, GtidSet, Uuid};
use crate::halt::{Halt, Reason};
use crate::schema::alter::StatementFacts;

/// A committed unit of the source.
#[derive(Debug)]
pub enum Unit {
    Transaction(Transaction),
    Prepared(Prepared),
    /// Apart: it is as large as it is rare.
    SchemaChange(Box<SchemaChange>),
}

impl Unit {
    #[must_use]
    pub const fn gtid(&self) -> &Gtid {
        match self {
            Self::Transaction(transaction) => &transaction.gtid,
            Self::Prepared(prepared) => &prepared.gtid,
            Self::SchemaChange(change) => &change.gtid,
        }
    }

    #[must_use]
    pub const fn fingerprint(&self) -> &Fingerprint {
        match self {
            Self::Transaction(transaction) => &transaction.fingerprint,
            Self::Prepared(prepared) => &prepared.fingerprint,
            Self::SchemaChange(change) => &change.fingerprint,
        }
    }

    /// Whether it only moves the position.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Transaction(transaction) => transaction.changes.is_empty(),
            Self::Prepared(_) => true,
            Self::SchemaChange(_) => false,
        }
    }

    /// Bytes of memory held by the unit, for the channel's bound.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Transaction(transaction) => transaction.changes.bytes(),
            Self::Prepared(_) => 0,
            // Literals and names are no longer than the text.
            Self::SchemaChange(change) => {
                let text = usize::try_from(change.fingerprint.transaction_length).unwrap_or(usize::MAX);
                change.statement.bytes().saturating_add(text)
            }
        }
    }
}

/// What identifies a group beyond its GTID; compared on resume, when the last applied group is received again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Fingerprint {
    /// Microseconds since 1970 at the first commit; every replica keeps it.
    pub original_commit_micros: u64,
    /// Microseconds since 1970 at the commit on the server we read from.
    pub immediate_commit_micros: u64,
    /// Length of the whole group in bytes.
    pub transaction_length: u64,
}

impl Fingerprint {
    /// Whether a group received later under the GTID is the same one. From another server it has
    /// another commit time and length of its own; the time of the first commit every server keeps.
    #[must_use]
    pub fn agrees(&self, later: &Self, same_server: bool) -> bool {
        if same_server { self == later } else { self.original_commit_micros == later.original_commit_micros }
    }
}

/// A transaction that the source had executed when rows were copied from it. Under its GTID a source
/// that has lost its history and was filled again has another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Landmark {
    pub gtid: Gtid,
    /// The server that rows were copied from; `None` in what an earlier release has recorded.
    pub server: Option<Uuid>,
    /// `None` where the server had purged the transaction by then.
    pub fingerprint: Option<Fingerprint>,
}

impl Landmark {
    /// Compares the transaction that is in this server's binlog under the GTID now.
    ///
    /// # Errors
    /// `source_history_diverged`
    pub fn verify(&self, server: &Uuid, found: &Fingerprint) -> Result<(), Halt> {
        let same_server = self.server.as_ref() == Some(server);
        match &self.fingerprint {
            Some(known) if !known.agrees(found, same_server) => Err(self.diverged(
                "a transaction that rows were copied with has another commit time or length on the source",
            )),
            None if same_server => Err(self.is_back()),
            Some(_) | None => Ok(()),
        }
    }

    /// Compares what this server had purged with what it has purged by now: it does not get it back.
    ///
    /// # Errors
    /// `source_history_diverged`
    pub fn verify_purged(&self, server: &Uuid, purged: &GtidSet) -> Result<(), Halt> {
        let was_purged = self.fingerprint.is_none() && self.server.as_ref() == Some(server);
        if was_purged && !purged.contains(&self.gtid) { Err(self.is_back()) } else { Ok(()) }
    }

    fn is_back(&self) -> Halt {
        self.diverged("a transaction that the source had purged when rows were copied is in its binlog again")
    }

    fn diverged(&self, detail: &str) -> Halt {
        Halt::new(Reason::SourceHistoryDiverged, detail).at_gtid(&self.gtid)
    }
}

/// A committed transaction: raw rows in commit order. Filtered or empty ones have no changes and still move the position.
#[derive(Debug)]
pub struct Transaction {
    pub gtid: Gtid,
    pub fingerprint: Fingerprint,
    pub changes: Changes,
    /// The overlapped group has not come yet. It stays the one that a resume compares.
    pub overlap_pending: bool,
    /// For XA COMMIT and XA ROLLBACK.
    pub resolves: Option<Box<Resolution>>,
}

/// What the resolution of a prepared XA transaction makes true beside its own GTID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The GTID of the prepare, processed from now on; `None` for one from before the stream.
    pub prepare: Option<Gtid>,
    /// It was among those known from before the stream: no longer.
    pub startup: Option<XidDigest>,
}

/// An XA transaction that has been prepared. Its GTID is held out of the processed set.
#[derive(Debug)]
pub struct Prepared {
    pub gtid: Gtid,
    pub fingerprint: Fingerprint,
}

/// What a rows event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowsKind {
    Write,
    Update,
    Delete,
}

/// One rows event, undecoded, with the table map of its own statement.
#[derive(Clone)]
pub struct RowsChange {
    pub map: Arc<TableMap>,
    pub kind: RowsKind,
    /// Event flags of the rows event: 0x1 STMT_END, 0x2 NO_FOREIGN_KEY_CHECKS, 0x10 USE_SQL_FOREIGN_KEY.
    pub flags: u16,
    /// The images part of the body: after the column bitmaps, which are known to be full.
    pub images: Bytes,
}

impl fmt::Debug for RowsChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowsChange")
            .field("database", &self.map.database)
            .field("table", &self.map.table)
            .field("kind", &self.kind)
            .field("flags", &self.flags)
            .field("images_length", &self.images.len())
            .finish()
    }
}

/// A self-committing DDL statement on at least one table, database or other object.
#[derive(Debug)]
pub struct SchemaChange {
    pub gtid: Gtid,
    pub fingerprint: Fingerprint,
    /// As of a [`Transaction`].
    pub overlap_pending: bool,
    pub statement: super::statement::Ddl,
    pub facts: StatementFacts,
}
