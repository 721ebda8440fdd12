//! What tells the history that rows are copied from, from another one under the same GTIDs.
//!
//! A source that is reset, restored or loses transactions in a crash between a table's capture and the
//! stream reaching it may have executed as many transactions again by then. So each capture keeps, of
//! every server and tag in its set, the latest transaction, with what its binlog holds of it or that it
//! has purged it. Those that the position holds are compared before it is given, the others when the
//! stream passes them.
//!
//! They are read after the capture, when the history may be another one already. So what was known before
//! it is compared once more after them.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::Conn;

use super::Run;
use crate::fold::unit::{Fingerprint, Landmark};
use crate::gtid::{Gtid, GtidSet, Uuid};
use crate::halt::{Failure, Halt, Reason};
use crate::sink::table_state::TableState;
use crate::source::capture::open;
use crate::source::{dump, reader};

impl Run<'_> {
    /// Takes note of the history that the first capture is to be of.
    pub(super) async fn note_history(&mut self) -> Result<(), Failure> {
        let mut conn = open(&self.config.source, &self.server).await?;
        self.resets = reader::resets(&mut conn).await?;
        let executed = reader::gtid_executed(&mut conn).await?;
        self.landmarks(&mut conn, &executed).await.map(drop)
    }

    /// The landmarks of a capture at this set. May be cut off where the connection is not used again.
    ///
    /// # Errors
    /// `source_identity_mismatch`, `source_history_diverged`: the source has lost its history since the
    /// capture before.
    pub(super) async fn landmarks(
        &mut self,
        conn: &mut Conn,
        set: &GtidSet,
    ) -> Result<Vec<Landmark>, Failure> {
        let mut landmarks = Vec::new();
        for gtid in set.latest() {
            let known = self.landmarks.iter().find(|known| known.gtid == gtid);
            landmarks.push(match known {
                Some(known) => known.clone(),
                None => {
                    let fingerprint = self.look(conn, &gtid).await?;
                    Landmark { gtid, server: Some(self.server), fingerprint }
                }
            });
        }
        self.refuse_other_history(conn, set).await?;
        self.landmarks.clone_from(&landmarks);
        Ok(landmarks)
    }

    /// Whether the source still has the history of the landmarks before. Nothing but a reset makes it lose
    /// a part of it on connections that last, and a reset takes all: one landmark tells, and the latest
    /// is had from the binlog at the least cost.
    async fn refuse_other_history(&self, conn: &mut Conn, set: &GtidSet) -> Result<(), Failure> {
        if let Some(lost) = self.landmarks.iter().find(|mark| !set.contains(&mark.gtid)) {
            let detail = "the source does not have a transaction that it had when the copy began";
            return Err(Halt::new(Reason::SourceIdentityMismatch, detail).at_gtid(&lost.gtid).into());
        }
        let purged = reader::gtid_purged(conn).await?;
        self.landmarks.iter().try_for_each(|mark| mark.verify_purged(&self.server, &purged))?;
        let kept = self.landmarks.iter().filter(|mark| !purged.contains(&mark.gtid));
        let latest =
            kept.max_by_key(|mark| mark.fingerprint.as_ref().map(|known| known.immediate_commit_micros));
        match latest {
            Some(latest) => match self.look(conn, &latest.gtid).await? {
                Some(found) => Ok(latest.verify(&self.server, &found)?),
                None => Ok(()),
            },
            None if reader::resets(conn).await? == self.resets => Ok(()),
            None => {
                let detail = "the source has carried out a RESET statement while its tables were copied, and had \
                              no transaction in its binlog by which its history is told";
                Err(Halt::new(Reason::SourceHistoryDiverged, detail).into())
            }
        }
    }

    /// Compares the landmarks that lie within the position, and returns a transaction of it with its
    /// fingerprint for the comparison when the stream starts. `None` when the source has purged them
    /// all, or the set is empty.
    ///
    /// # Errors
    /// `source_history_diverged`
    pub(super) async fn last_of(
        &self,
        processed: &GtidSet,
        tables: &[&TableState],
    ) -> Result<Option<(Gtid, Fingerprint)>, Failure> {
        let marks = tables.iter().flat_map(|state| &state.landmarks);
        let marks: BTreeSet<&Landmark> = marks.filter(|mark| processed.contains(&mark.gtid)).collect();
        let mut conn = open(&self.config.source, &self.server).await?;
        let mut verified = BTreeMap::new();
        for mark in marks {
            match self.look(&mut conn, &mark.gtid).await? {
                Some(found) => {
                    mark.verify(&self.server, &found)?;
                    verified.insert(mark.gtid.clone(), found);
                }
                None => tracing::warn!(
                    gtid = %mark.gtid,
                    "the source has purged a transaction that tables were copied with: it is not compared"
                ),
            }
        }
        for gtid in latest_of_each(processed, &self.server) {
            let found = match verified.remove(&gtid) {
                Some(found) => Some(found),
                None => self.look(&mut conn, &gtid).await?,
            };
            if let Some(found) = found {
                return Ok(Some((gtid, found)));
            }
        }
        Ok(None)
    }

    /// What the source's binlog holds of this transaction, which it has executed; `None` if it has
    /// purged it.
    async fn look(&self, conn: &mut Conn, gtid: &Gtid) -> Result<Option<Fingerprint>, Failure> {
        if reader::gtid_purged(conn).await?.contains(gtid) {
            return Ok(None);
        }
        let executed = reader::gtid_executed(conn).await?;
        // The stream has not begun: its identity is free.
        let replica_uuid = self.writer.checkpoint().replica_uuid.to_string();
        dump::fingerprint_on(&self.server, &self.config.source, &replica_uuid, &executed, gtid).await
    }
}

/// Adds the landmarks of a later capture of the table.
///
/// # Errors
/// `source_history_diverged`: one that was there is another transaction now.
pub(super) fn add(state: &mut TableState, landmarks: Vec<Landmark>) -> Result<(), Halt> {
    for landmark in landmarks {
        for known in state.landmarks.iter().filter(|known| known.gtid == landmark.gtid) {
            if let (Some(server), Some(found)) = (&landmark.server, &landmark.fingerprint) {
                known.verify(server, found)?;
            }
        }
        if !state.landmarks.contains(&landmark) {
            state.landmarks.push(landmark);
        }
    }
    Ok(())
}

/// The latest GTID of every server and tag in the set, those of server `first` first: each tag has
/// transaction numbers of its own, and a server may give no others.
fn latest_of_each(set: &GtidSet, first: &Uuid) -> Vec<Gtid> {
    let mut latest: Vec<Gtid> = set.latest().collect();
    latest.sort_by_key(|gtid| gtid.uuid() != first);
    latest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_s_own_transactions_come_first() {
        let (a, b) = ("0a0b0c0d-0102-0304-0506-070809101112", "1a0b0c0d-0102-0304-0506-070809101112");
        let set = format!("{a}:1-5:x:1-3,{b}:only:4-6").parse().unwrap();
        let latest: Vec<_> = latest_of_each(&set, &b.parse().unwrap()).iter().map(Gtid::to_string).collect();
        assert_eq!(latest, [format!("{b}:only:6"), format!("{a}:5"), format!("{a}:x:3")]);
    }
}
