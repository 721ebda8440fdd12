//! What leaves the fold: a committed transaction or schema change, with its GTID.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

pub use super::changes::Changes;
use super::xa::XidDigest;
use crate::binlog::table_map::TableMap;
use crate::gtid::Gtid;
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
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Fingerprint {
    /// Microseconds since 1970 at the first commit; every replica keeps it.
    pub original_commit_micros: u64,
    /// Microseconds since 1970 at the commit on the server we read from.
    pub immediate_commit_micros: u64,
    /// Length of the whole group in bytes.
    pub transaction_length: u64,
}

/// A transaction that the source had when rows were copied from it, and the time of its first commit,
/// which every server keeps. Under its GTID a source that has lost its history and was filled again has
/// another transaction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Landmark {
    pub gtid: Gtid,
    /// Microseconds since 1970.
    pub original_commit_micros: u64,
}

impl Landmark {
    /// Compares the transaction that the source has under the GTID now.
    ///
    /// # Errors
    /// `source_history_diverged`
    pub fn verify(&self, original_commit_micros: u64) -> Result<(), Halt> {
        if self.original_commit_micros == original_commit_micros {
            return Ok(());
        }
        let detail = "a transaction that rows were copied with has another commit time on the source";
        Err(Halt::new(Reason::SourceHistoryDiverged, detail).at_gtid(&self.gtid))
    }
}

/// A committed transaction: raw rows in commit order. Filtered or empty ones have no changes and still move the position.
#[derive(Debug)]
pub struct Transaction {
    pub gtid: Gtid,
    pub fingerprint: Fingerprint,
    pub changes: Changes,
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
    pub statement: super::statement::Ddl,
    pub facts: StatementFacts,
}
