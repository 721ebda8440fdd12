//! What tells the history that rows are copied from, from another one under the same GTIDs.
//!
//! A source that is reset, restored or loses transactions in a crash between a table's capture and the
//! stream reaching it may have executed as many transactions again by then. So each capture keeps, of
//! every server and tag in its set, the latest transaction that is still in the binlog, with its commit time.
//! Those that the position holds are compared before it is given, the others when the stream passes
//! them.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::Conn;

use super::Run;
use crate::fold::unit::{Fingerprint, Landmark};
use crate::gtid::{Gtid, GtidSet, Uuid};
use crate::halt::{Failure, Halt};
use crate::sink::table_state::TableState;
use crate::source::{dump, reader};

impl Run<'_> {
    /// The landmarks of a capture at this set. May be cut off where the connection is not used again.
    pub(super) async fn landmarks(
        &mut self,
        conn: &mut Conn,
        set: &GtidSet,
    ) -> Result<Vec<Landmark>, Failure> {
        let purged = reader::gtid_purged(conn).await?;
        let mut landmarks = Vec::new();
        for gtid in latest_of_each(set, &self.server) {
            if purged.contains(&gtid) {
                continue;
            }
            if let Some(known) = self.landmarks.iter().find(|known| known.gtid == gtid) {
                landmarks.push(known.clone());
            } else if let Some(found) = self.fingerprint_of(set, &gtid).await? {
                landmarks.push(Landmark { gtid, original_commit_micros: found.original_commit_micros });
            }
        }
        self.landmarks.clone_from(&landmarks);
        Ok(landmarks)
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
        let mut verified = BTreeMap::new();
        for mark in marks {
            match self.fingerprint_of(processed, &mark.gtid).await? {
                Some(found) => {
                    mark.verify(found.original_commit_micros)?;
                    verified.insert(mark.gtid.clone(), found);
                }
                None => tracing::warn!(
                    gtid = %mark.gtid,
                    "the source has purged a transaction that tables were copied with: whether it has lost \
                     its history since is not compared"
                ),
            }
        }
        for gtid in latest_of_each(processed, &self.server) {
            let found = match verified.remove(&gtid) {
                Some(found) => Some(found),
                None => self.fingerprint_of(processed, &gtid).await?,
            };
            if let Some(found) = found {
                return Ok(Some((gtid, found)));
            }
        }
        Ok(None)
    }

    async fn fingerprint_of(&self, set: &GtidSet, gtid: &Gtid) -> Result<Option<Fingerprint>, Failure> {
        // The stream has not begun: its identity is free.
        let replica_uuid = self.writer.checkpoint().replica_uuid.to_string();
        dump::fingerprint_of(&self.config.source, &replica_uuid, set, gtid).await
    }
}

/// Adds the landmarks of a later capture of the table.
///
/// # Errors
/// `source_history_diverged`: one that was there has another commit time now.
pub(super) fn add(state: &mut TableState, landmarks: Vec<Landmark>) -> Result<(), Halt> {
    for landmark in landmarks {
        match state.landmarks.iter().find(|known| known.gtid == landmark.gtid) {
            Some(known) => known.verify(landmark.original_commit_micros)?,
            None => state.landmarks.push(landmark),
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
