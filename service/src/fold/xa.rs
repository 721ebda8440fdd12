//! Two-phase XA: what has been prepared and waits for its resolution.
//!
//! `XA PREPARE` and the `XA COMMIT` or `XA ROLLBACK` that follows are groups with GTIDs of their
//! own, and the server counts the prepare's as executed although nothing has happened yet. So the
//! prepare's GTID is held out of the processed set until its resolution: after a restart the
//! source sends the prepare again, and its rows need no durable place here.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use sha2::{Digest, Sha256};

use super::spill::Spill;
use super::unit::{Changes, Resolution};
use crate::gtid::Gtid;
use crate::halt::{Halt, Reason};

/// X/Open's bound on the length of a gtrid and of a bqual in bytes.
const PART_LENGTH_MAX: usize = 64;

/// Which XA transaction: the SHA-256 of its gtrid and bqual, the format id left out, as the server
/// compares them (server source `sql/xa.h`, `XID::key`). The XID itself is the application's data
/// and is not kept; a digest of few possible XIDs can be reversed, so it is not shown either.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct XidDigest([u8; 32]);

impl fmt::Debug for XidDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("XidDigest")
    }
}

impl XidDigest {
    #[must_use]
    pub fn new(gtrid: &[u8], bqual: &[u8]) -> Self {
        let mut hasher = Sha256::new();
        // The length keeps the two parts apart.
        hasher.update((gtrid.len() as u64).to_be_bytes());
        hasher.update(gtrid);
        hasher.update(bqual);
        Self(hasher.finalize().into())
    }

    /// A digest that was stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// From an XA statement as the server writes it to the log: `XA COMMIT X'67',X'62',1`, the
    /// format id in decimal (server source `sql/xa.cc`, `XID::serialize`).
    pub(super) fn of_statement(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let (verb, xid) = text.trim_start().split_at_checked(2)?;
        let (_, xid) = xid.trim_start().split_once(|c: char| c.is_ascii_whitespace())?;
        let mut parts = xid.splitn(3, ',');
        let gtrid = hex_literal(parts.next()?)?;
        let bqual = hex_literal(parts.next()?)?;
        let format_id = parts.next()?.trim();
        let plausible = verb.eq_ignore_ascii_case("XA")
            && format_id.parse::<u32>().is_ok()
            && gtrid.len().max(bqual.len()) <= PART_LENGTH_MAX;
        plausible.then(|| Self::new(&gtrid, &bqual))
    }

    /// From a row of `XA RECOVER CONVERT XID`: the lengths of the two parts, and both parts as one
    /// hexadecimal literal `0x…` (MySQL manual, "XA Transaction SQL Statements").
    #[must_use]
    pub fn of_recovered(gtrid_length: usize, bqual_length: usize, data: &str) -> Option<Self> {
        let bytes = match data {
            // What the server shows for an XID of two empty parts.
            "" | "0x" => Vec::new(),
            _ => unhex(data.strip_prefix("0x")?)?,
        };
        let (gtrid, bqual) = bytes.split_at_checked(gtrid_length)?;
        (bqual.len() == bqual_length).then(|| Self::new(gtrid, bqual))
    }
}

/// `X'6a6b'`
fn hex_literal(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let digits = text.strip_prefix(['X', 'x'])?.strip_prefix('\'')?.strip_suffix('\'')?;
    unhex(digits)
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect()
}

/// How much may wait in the pool. Beyond it the pipeline halts: what is given up here and commits
/// later would be lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolBounds {
    /// Prepared transactions, those without rows for us included.
    pub transactions: usize,
    /// Bytes of memory that all their rows may hold together; what is beyond them is spilled.
    pub bytes: usize,
}

/// A prepared transaction's rows, in the order in which they were written.
struct Prepared {
    gtid: Gtid,
    changes: Changes,
}

/// The prepared transactions that are not resolved.
pub(super) struct Pool {
    bounds: PoolBounds,
    prepared: HashMap<XidDigest, Prepared>,
    bytes: usize,
    /// Prepared before the stream begins: their rows are in no stream, and where they touched a
    /// replicated table, its copy has waited for them.
    startup: BTreeSet<XidDigest>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("prepared", &self.prepared.len())
            .field("bytes", &self.bytes)
            .field("startup", &self.startup.len())
            .finish_non_exhaustive()
    }
}

impl Pool {
    pub(super) fn new(bounds: PoolBounds, startup: BTreeSet<XidDigest>) -> Self {
        Self { bounds, prepared: HashMap::new(), bytes: 0, startup }
    }

    /// Bytes of memory that the rows hold.
    #[cfg(test)]
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in a prepared transaction. The same prepare may be sent again.
    pub(super) fn prepare(
        &mut self,
        xid: XidDigest,
        gtid: &Gtid,
        mut changes: Changes,
        spill: &dyn Spill,
    ) -> Result<(), Halt> {
        if let Some(open) = self.prepared.get(&xid) {
            if open.gtid == *gtid {
                return Ok(());
            }
            let detail = format!(
                "an XA transaction was prepared under {} and is prepared again without having been resolved: \
                 its resolution is missing from the binlog",
                open.gtid
            );
            return Err(Halt::new(Reason::XaPreparedGtidMismatch, detail));
        }
        let PoolBounds { transactions, bytes } = self.bounds;
        if self.prepared.len() >= transactions {
            let detail = format!("{transactions} prepared XA transactions wait for their resolution");
            return Err(Halt::new(Reason::XaPreparedPoolExhausted, detail));
        }
        if self.bytes.saturating_add(changes.bytes()) > bytes {
            changes.spill(spill)?;
        }
        self.bytes += changes.bytes();
        self.prepared.insert(xid, Prepared { gtid: gtid.clone(), changes });
        Ok(())
    }

    /// Takes out what a commit or rollback resolves: its rows, and what becomes true with it.
    pub(super) fn resolve(
        &mut self,
        xid: XidDigest,
        verdict: Verdict,
    ) -> Result<(Changes, Resolution), Halt> {
        let startup = self.startup.remove(&xid).then_some(xid);
        let Some(Prepared { gtid, changes }) = self.prepared.remove(&xid) else {
            if startup.is_some() {
                return Ok((Changes::default(), Resolution { prepare: None, startup }));
            }
            return Err(Halt::new(
                verdict.unknown(),
                "an XA transaction is resolved whose prepare was neither in the stream nor listed by the source",
            ));
        };
        self.bytes -= changes.bytes();
        let resolution = Resolution { prepare: Some(gtid), startup };
        Ok(match verdict {
            Verdict::Commit => (changes, resolution),
            Verdict::Rollback => (Changes::default(), resolution),
        })
    }
}

/// How a prepared transaction is resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Commit,
    Rollback,
}

impl Verdict {
    const fn unknown(self) -> Reason {
        match self {
            Self::Commit => Reason::XaCommitWithoutPrepare,
            Self::Rollback => Reason::XaRollbackWithoutPrepare,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_their_transaction() {
        let id = |gtrid: &[u8], bqual: &[u8]| Some(XidDigest::new(gtrid, bqual));
        for (text, expected) in [
            ("XA START X'67',X'62',7", id(b"g", b"b")),
            ("XA END X'67',X'62',4294967295", id(b"g", b"b")),
            ("XA COMMIT X'6A6b',X'',1", id(b"jk", b"")),
            ("XA ROLLBACK X'',X'',5", id(b"", b"")),
            ("xa commit x'00ff' , x'27' , 0", id(b"\0\xff", b"'")),
            ("XA COMMIT X'6',X'',1", None),
            ("XA COMMIT X'6g',X'',1", None),
            ("XA COMMIT X'67',X''", None),
            ("XA COMMIT X'67',X'',-1", None),
            ("XA COMMIT X'67',X'',1,2", None),
            ("XA COMMIT 'g','b',1", None),
            ("XA RECOVER", None),
            ("XA", None),
            ("", None),
        ] {
            assert_eq!(XidDigest::of_statement(text.as_bytes()), expected, "{text}");
        }
        let long = format!("XA COMMIT X'{}',X'',1", "61".repeat(65));
        assert_eq!(XidDigest::of_statement(long.as_bytes()), None);
    }

    #[test]
    fn recovered_rows_name_the_same() {
        assert_eq!(XidDigest::of_recovered(1, 1, "0x6762"), Some(XidDigest::new(b"g", b"b")));
        assert_eq!(XidDigest::of_recovered(0, 0, "0x"), Some(XidDigest::new(b"", b"")));
        assert_eq!(XidDigest::of_recovered(2, 0, "0x6762"), Some(XidDigest::new(b"gb", b"")));
        for (gtrid, bqual, data) in [(1, 1, "0x67"), (3, 0, "0x6762"), (1, 1, "6762"), (1, 1, "0x676")] {
            assert_eq!(XidDigest::of_recovered(gtrid, bqual, data), None, "{data}");
        }
    }

    #[test]
    fn parts_are_kept_apart_and_nothing_is_shown() {
        assert_ne!(XidDigest::new(b"ab", b"c"), XidDigest::new(b"a", b"bc"));
        assert_eq!(format!("{:?}", XidDigest::new(b"secret", b"")), "XidDigest");
    }
}
