//! What tells the history that rows are copied from, from another one under the same GTIDs.
//!
//! A source that is reset, restored or loses transactions in a crash between a table's capture and the
//! stream reaching it may have executed as many transactions again by then. So each capture keeps, of
//! every server and tag in its set, the latest transaction, with what its binlog holds of it or that it
//! has purged it. Those that the position holds are compared before it is given, the others when the
//! stream passes them.
//!
//! They are read after the capture, when the history may be another one already. So those that were
//! known before it are compared once more together with them.

use std::collections::{BTreeMap, BTreeSet};

use mysql_async::Conn;

use super::Run;
use crate::fold::unit::{Fingerprint, Landmark};
use crate::gtid::{Gtid, GtidSet, Uuid};
use crate::halt::{Failure, Halt, Reason, Side};
use crate::sink::table_state::TableState;
use crate::source::capture::{open, other_server};
use crate::source::{dump, reader};

impl Run<'_> {
    /// Takes note of the history that the first capture is to be of.
    pub(super) async fn note_history(&mut self) -> Result<(), Failure> {
        let mut conn = open(&self.config.source, &self.server).await?;
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
        let before = &self.landmarks;
        if let Some(lost) = before.iter().find(|mark| !set.contains(&mark.gtid)) {
            let detail = "the source does not have a transaction that it had when the copy began";
            return Err(Halt::new(Reason::SourceIdentityMismatch, detail).at_gtid(&lost.gtid).into());
        }
        let wanted = set.latest().chain(before.iter().map(|mark| mark.gtid.clone())).collect();
        let mut found = self.look(conn, wanted).await?;
        for mark in before {
            if let Some(found) = found.get(&mark.gtid) {
                mark.verify(&self.server, found)?;
            }
        }
        let server = Some(self.server);
        self.landmarks =
            set.latest().map(|gtid| Landmark { fingerprint: found.remove(&gtid), gtid, server }).collect();
        Ok(self.landmarks.clone())
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
        let latest = latest_of_each(processed, &self.server);
        let wanted = marks.iter().map(|mark| &mark.gtid).chain(&latest).cloned().collect();
        let mut conn = open(&self.config.source, &self.server).await?;
        let found = self.look(&mut conn, wanted).await?;
        for mark in marks {
            match found.get(&mark.gtid) {
                Some(found) => mark.verify(&self.server, found)?,
                None => tracing::warn!(
                    gtid = %mark.gtid,
                    "the source has purged a transaction that tables were copied with: it is not compared"
                ),
            }
        }
        Ok(latest.into_iter().find_map(|gtid| found.get(&gtid).cloned().map(|found| (gtid, found))))
    }

    /// What the source's binlog holds of these transactions, which it has executed; nothing of those
    /// that it has purged.
    async fn look(
        &self,
        conn: &mut Conn,
        mut gtids: BTreeSet<Gtid>,
    ) -> Result<BTreeMap<Gtid, Fingerprint>, Failure> {
        let purged = reader::gtid_purged(conn).await?;
        gtids.retain(|gtid| !purged.contains(gtid));
        if gtids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let executed = reader::gtid_executed(conn).await?;
        // The stream has not begun: its identity is free.
        let replica_uuid = self.writer.checkpoint().replica_uuid.to_string();
        match dump::fingerprints_of(&self.config.source, &replica_uuid, &executed, &gtids).await? {
            Some(found) if found.server_uuid == self.server => Ok(found.fingerprints),
            Some(_) => Err(other_server()),
            None => {
                let message = "the source purged its binlog while its history was looked up";
                Err(Failure::retry(Side::Source, message))
            }
        }
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
