//! Whether the source still is the history that the checkpoint was built on.

use std::time::{Duration, Instant};

use mysql_async::Conn;

use crate::config::SourceConfig;
use crate::fold::Overlap;
use crate::fold::unit::Fingerprint;
use crate::gtid::{Gtid, GtidSet};
use crate::halt::{Failure, Halt, Reason};
use crate::schema::phase::TablePhase;
use crate::sink::checkpoint::Position;
use crate::sink::table_state::TableState;
use crate::sink::writer::Writer;
use crate::source::connect::Identity;
use crate::source::dump::{fingerprint_of, fingerprint_on};
use crate::source::reader;

/// Events reach us before their commit is finished on the source, so a set that is ahead of the
/// source's is given this long to be overtaken. A commit takes milliseconds.
const AHEAD_PATIENCE: Duration = Duration::from_secs(10);

const AHEAD_POLL: Duration = Duration::from_millis(200);

/// Where and how the stream starts.
pub(super) struct Resume {
    pub(super) replica_uuid: String,
    /// Processed so far; what the fold starts from.
    pub(super) processed: GtidSet,
    /// What the source is told that we have: without the group that is received again.
    pub(super) dump_set: GtidSet,
    pub(super) overlap: Option<Overlap>,
}

/// Compares the checkpoint with the source's sets and records a new source.
///
/// # Errors
/// `source_identity_mismatch` when the source lacks what was applied from it, `data_gap` when it
/// has purged what was not applied yet, `source_history_diverged` when it has another transaction than
/// the one applied last, or a binlog of what it had purged.
pub(super) async fn check(
    source: &SourceConfig,
    conn: &mut Conn,
    writer: &mut Writer,
    identity: &Identity,
) -> Result<Resume, Failure> {
    let checkpoint = writer.checkpoint();
    let Some(mut position) = checkpoint.position.clone() else {
        return Err(Halt::new(Reason::Internal, "the copy ended without giving a position").into());
    };
    let replica_uuid = checkpoint.replica_uuid.to_string();
    let same_server = checkpoint.source_server_uuid == Some(identity.server_uuid);
    refuse_ahead(conn, &position.processed).await?;
    let purged = reader::gtid_purged(conn).await?;
    refuse_gap(&purged, &position.processed)?;
    refuse_unpurged(&purged, identity, &writer.load_tables().await?)?;
    if !same_server {
        tracing::info!(server_uuid = %identity.server_uuid, "reading from a server not read from before");
        position.last = carried_over(source, &replica_uuid, identity, &position).await?;
        writer.follow(identity.server_uuid, position.clone()).await?;
    }
    let mut dump_set = position.processed.clone();
    let overlap = match position.last {
        Some((gtid, _)) if purged.contains(&gtid) => {
            tracing::warn!(
                %gtid,
                "the source has purged the transaction applied last: resuming without comparing it, so a \
                 source that was reset and refilled would not be noticed"
            );
            None
        }
        Some((gtid, fingerprint)) => {
            dump_set.remove(&gtid);
            Some(Overlap { gtid, fingerprint })
        }
        None => None,
    };
    Ok(Resume { replica_uuid, processed: position.processed, dump_set, overlap })
}

/// Waits until the source has finished every transaction that was applied from it.
///
/// # Errors
/// `source_identity_mismatch` when it lacks some of them for good.
pub(super) async fn refuse_ahead(conn: &mut Conn, processed: &GtidSet) -> Result<(), Failure> {
    let missing = wait_executed(conn, processed).await?;
    if missing.is_empty() {
        return Ok(());
    }
    let detail = format!("the source does not have transactions that were applied from it: {missing}");
    Err(Halt::new(Reason::SourceIdentityMismatch, detail).into())
}

/// The failure that ended a stream, or what is behind it where the source broke the stream off with
/// an error that can mean anything: a source that was reset reports files that it can't read.
///
/// `replica_uuid` is that of the stream that has ended.
pub(super) async fn explained(
    conn: &mut Conn,
    source: &SourceConfig,
    replica_uuid: &str,
    position: &Position,
    failure: Failure,
) -> Failure {
    let Failure::Halt(halt) = &failure else { return failure };
    if halt.reason != Reason::UnrecognizedDumpError {
        return failure;
    }
    let behind = async {
        refuse_ahead(conn, &position.processed).await?;
        refuse_refilled(source, replica_uuid, position).await
    };
    match behind.await {
        Err(Failure::Halt(behind)) => {
            Halt { detail: format!("{}; {}", behind.detail, halt.detail), ..*behind }.into()
        }
        // A resume asks again.
        Err(retry @ Failure::Retry { .. }) => retry,
        Ok(()) => failure,
    }
}

/// The comparison that a resume makes, by the time that every server keeps: the address may lead to
/// another one by now.
async fn refuse_refilled(
    source: &SourceConfig,
    replica_uuid: &str,
    position: &Position,
) -> Result<(), Failure> {
    let Some((gtid, applied)) = &position.last else { return Ok(()) };
    let found = fingerprint_of(source, replica_uuid, &position.processed, gtid).await?;
    found.map_or(Ok(()), |(_, found)| same_transaction(gtid, applied, &found)).map_err(Failure::from)
}

/// The transaction applied last as another server has it, or as it was applied where that one has
/// purged it.
///
/// In that server's order it may come after many others, which would be applied by the time that it is
/// compared. And a resume on that server has to compare with what that server has.
async fn carried_over(
    source: &SourceConfig,
    replica_uuid: &str,
    identity: &Identity,
    position: &Position,
) -> Result<Option<(Gtid, Fingerprint)>, Failure> {
    let Some((gtid, applied)) = &position.last else { return Ok(None) };
    let server = &identity.server_uuid;
    match fingerprint_on(server, source, replica_uuid, &position.processed, gtid).await? {
        Some(found) => {
            same_transaction(gtid, applied, &found)?;
            Ok(Some((gtid.clone(), found)))
        }
        None => Ok(position.last.clone()),
    }
}

fn same_transaction(gtid: &Gtid, applied: &Fingerprint, found: &Fingerprint) -> Result<(), Halt> {
    if applied.agrees(found, false) {
        return Ok(());
    }
    let detail = "the transaction that was applied last has another commit time on the source";
    Err(Halt::new(Reason::SourceHistoryDiverged, detail).at_gtid(gtid))
}

/// Waits until the source has finished every transaction of `set`, and returns those that it still
/// lacks after `AHEAD_PATIENCE`.
pub(super) async fn wait_executed(conn: &mut Conn, set: &GtidSet) -> Result<GtidSet, Failure> {
    let deadline = Instant::now() + AHEAD_PATIENCE;
    loop {
        let missing = set.subtract(&reader::gtid_executed(conn).await?);
        if missing.is_empty() || Instant::now() >= deadline {
            return Ok(missing);
        }
        tokio::time::sleep(AHEAD_POLL).await;
    }
}

fn refuse_gap(purged: &GtidSet, processed: &GtidSet) -> Result<(), Halt> {
    let missing = purged.subtract(processed);
    if missing.is_empty() {
        return Ok(());
    }
    Err(Halt::new(
        Reason::DataGap,
        format!("the source has purged transactions that were not applied yet: {missing}"),
    ))
}

/// What a server had purged when tables were copied from it, it does not have again.
fn refuse_unpurged(purged: &GtidSet, identity: &Identity, states: &[TableState]) -> Result<(), Halt> {
    let followed = states.iter().filter(|state| state.phase != TablePhase::Detached);
    let mut marks = followed.flat_map(|state| &state.landmarks);
    marks.try_for_each(|mark| mark.verify_purged(&identity.server_uuid, purged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::unit::Landmark;
    use crate::schema::TableName;

    #[test]
    fn what_a_server_had_purged_stays_purged_on_it() {
        let here = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";
        let set = |text: &str| format!("{here}:{text}").parse::<GtidSet>().unwrap();
        let server_uuid = here.parse().unwrap();
        let identity = Identity { server_uuid, version: String::new(), version_numbers: (9, 7, 0) };
        let mark =
            |server| Landmark { gtid: format!("{here}:7").parse().unwrap(), server, fingerprint: None };
        let table = |phase, server| {
            let name = TableName { database: "app".to_owned(), table: "t".to_owned() };
            let state = TableState::unknown(name, phase).unwrap();
            TableState { landmarks: vec![mark(server)], ..state }
        };
        let followed = [table(TablePhase::Streaming, Some(server_uuid))];
        refuse_unpurged(&set("1-9"), &identity, &followed).unwrap();
        let back = refuse_unpurged(&set("1-6"), &identity, &followed).unwrap_err();
        assert_eq!(back.reason, Reason::SourceHistoryDiverged);
        let elsewhere = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb".parse().ok();
        let others =
            [table(TablePhase::Streaming, elsewhere), table(TablePhase::Detached, Some(server_uuid))];
        refuse_unpurged(&set("1-6"), &identity, &others).unwrap();
    }
}
