//! The replication transport: a MySQL connection turned into a stream of binlog events by
//! `COM_BINLOG_DUMP_GTID`.
//!
//! Invariants:
//! * Every event that leaves has its length and CRC32 verified.
//! * A dump ends with a failure, never with silence: an EOF packet on a blocking dump is the
//!   source going down, and a stream that is silent for longer than its heartbeats allow is dead.
//! * The reader may leave the stream alone for as long as `net_write_timeout` says; the source
//!   waits meanwhile.

mod refusal;

use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::time::{timeout, timeout_at};

use self::refusal::{is_purged, refusal, refused};
use super::capture::other_server;
use super::session::{ServerError, Session, Wire};
use crate::binlog::event::{ChecksumAlgorithm, Envelope, Event, RawEvent};
use crate::config::SourceConfig;
use crate::fold::unit::Fingerprint;
use crate::gtid::{Gtid, GtidSet, Uuid};
use crate::halt::{Failure, Halt, Reason, Side};

const COM_REGISTER_REPLICA: u8 = 0x15;
const COM_BINLOG_DUMP_GTID: u8 = 0x1e;

/// Flags of `COM_BINLOG_DUMP_GTID` (server source `sql/rpl_constants.h`).
const DUMP_NON_BLOCK: u16 = 0x1;
/// Heartbeats as HEARTBEAT_V2, whose positions go beyond 4 GiB.
const DUMP_HEARTBEAT_V2: u16 = 0x2;
/// A GTID set follows.
const DUMP_THROUGH_GTID: u16 = 0x4;

/// A stream silent for this many heartbeat periods is dead: one heartbeat may be late and one
/// may be under way.
const SILENT_HEARTBEATS: u32 = 3;

/// How long the first event may take. Before it, the source looks through its binlog files for
/// the one to begin with and sends no heartbeats.
const FIRST_EVENT_PATIENCE: Duration = Duration::from_secs(300);

/// How long saying good-bye may take; nothing depends on it.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// A binlog stream.
pub struct Dump {
    wire: Wire,
    envelope: Envelope,
    server_uuid: Uuid,
    connection_id: u32,
    /// Silence allowed between two reads.
    silence: Duration,
    begun: bool,
}

impl Dump {
    /// Connects and asks for every transaction that is not in `set`.
    ///
    /// `replica_uuid` is the identity under which the source knows this dump: a second dump of
    /// the same identity evicts it, so each has its own.
    pub async fn open(config: &SourceConfig, replica_uuid: &str, set: &GtidSet) -> Result<Self, Failure> {
        Self::start(config, replica_uuid, set, DUMP_HEARTBEAT_V2).await
    }

    /// As [`Dump::open`], for what the source's binlog holds now: [`Dump::receive`] tells its end.
    pub async fn open_to_end(
        config: &SourceConfig,
        replica_uuid: &str,
        set: &GtidSet,
    ) -> Result<Self, Failure> {
        Self::start(config, replica_uuid, set, DUMP_HEARTBEAT_V2 | DUMP_NON_BLOCK).await
    }

    async fn start(
        config: &SourceConfig,
        replica_uuid: &str,
        set: &GtidSet,
        flags: u16,
    ) -> Result<Self, Failure> {
        let open = async {
            let mut session = Session::connect(config).await?;
            let server_uuid = set_up(&mut session, config, replica_uuid, flags & DUMP_NON_BLOCK == 0).await?;
            let connection_id = session.connection_id();
            let command = dump_command(config.server_id, set, flags);
            let wire = session.into_stream(&command).await.map_err(refused)?;
            Ok(Self {
                wire,
                envelope: Envelope::new(ChecksumAlgorithm::Crc32),
                server_uuid,
                connection_id,
                silence: config.heartbeat_period * SILENT_HEARTBEATS,
                begun: false,
            })
        };
        let elapsed = |_| Failure::retry(Side::Source, "the source did not answer within connect_timeout");
        timeout(config.connect_timeout, open).await.map_err(elapsed)?
    }

    /// `server_uuid` of the server at the other end, read on this very connection.
    #[must_use]
    pub const fn server_uuid(&self) -> &Uuid {
        &self.server_uuid
    }

    /// The source's id of this connection, as in its process list.
    #[must_use]
    pub const fn connection_id(&self) -> u32 {
        self.connection_id
    }

    /// The next event, heartbeats included. Cancel safe.
    pub async fn next(&mut self) -> Result<RawEvent, Failure> {
        match self.receive().await? {
            Some(event) => Ok(event),
            None => Err(Failure::retry(
                Side::Source,
                "the source ended the binlog stream: it is going down, or the dump was killed",
            )),
        }
    }

    /// The next event; `None` at an EOF packet. Cancel safe.
    pub async fn receive(&mut self) -> Result<Option<RawEvent>, Failure> {
        let mut packet = self.packet().await?;
        match packet.first() {
            Some(0x00) => {
                packet.advance(1);
                Ok(Some(self.envelope.open(packet).map_err(Halt::from)?))
            }
            Some(0xfe) => Ok(None),
            _ => Err(ServerError::parse(&packet).map_or_else(malformed, |error| refusal(&error))),
        }
    }

    async fn packet(&mut self) -> Result<Bytes, Failure> {
        loop {
            if let Some(packet) = self.wire.take()? {
                self.begun = true;
                return Ok(packet);
            }
            let patience = if self.begun { self.silence } else { FIRST_EVENT_PATIENCE.max(self.silence) };
            // After a long pause of the reader the deadline may be past while bytes wait in the
            // socket: `timeout_at` reads before it looks at the clock.
            let deadline = self.wire.heard() + patience;
            match timeout_at(deadline, self.wire.fill()).await {
                Ok(read) => read?,
                Err(_) => return Err(silent(patience)),
            }
        }
    }

    /// Leaves the stream. The source notices at its next write.
    pub async fn close(mut self) {
        // The stream is given up either way.
        let _ignored = timeout(CLOSE_PATIENCE, self.wire.shutdown()).await;
    }
}

fn silent(patience: Duration) -> Failure {
    let message =
        format!("the binlog stream was silent for {} s, which its heartbeats rule out", patience.as_secs());
    Failure::retry(Side::Source, message)
}

fn malformed() -> Failure {
    Halt::new(Reason::UnrecognizedDumpError, "a packet of the binlog stream is neither event, error nor end")
        .into()
}

/// The fingerprint of the group of `gtid` and the server that has it, by a short dump in which it alone is
/// missing from `set`; `None` if the server has purged it.
///
/// `replica_uuid` must not be that of another dump, which would be evicted.
pub async fn fingerprint_of(
    config: &SourceConfig,
    replica_uuid: &str,
    set: &GtidSet,
    gtid: &Gtid,
) -> Result<Option<(Uuid, Fingerprint)>, Failure> {
    let mut without = set.clone();
    without.remove(gtid);
    let mut dump = Dump::open_to_end(config, replica_uuid, &without).await?;
    let server = *dump.server_uuid();
    let found = match find_group(&mut dump, gtid).await {
        Err(failure) if is_purged(&failure) => None,
        fingerprint => Some((server, fingerprint?)),
    };
    dump.close().await;
    Ok(found)
}

/// As [`fingerprint_of`], on this server.
///
/// # Errors
/// A failure to retry where the connection has reached another one.
pub async fn fingerprint_on(
    server: &Uuid,
    config: &SourceConfig,
    replica_uuid: &str,
    set: &GtidSet,
    gtid: &Gtid,
) -> Result<Option<Fingerprint>, Failure> {
    match fingerprint_of(config, replica_uuid, set, gtid).await? {
        Some((reached, _)) if reached != *server => Err(other_server()),
        found => Ok(found.map(|(_, fingerprint)| fingerprint)),
    }
}

async fn find_group(dump: &mut Dump, gtid: &Gtid) -> Result<Fingerprint, Failure> {
    while let Some(raw) = dump.receive().await? {
        if let Event::Gtid(event) = raw.parse()?
            && event.gtid == *gtid
        {
            return Ok(Fingerprint {
                original_commit_micros: event.original_commit_micros,
                immediate_commit_micros: event.immediate_commit_micros,
                transaction_length: event.transaction_length,
            });
        }
    }
    Err(Failure::retry(Side::Source, format!("the source's binlog ended before the group of {gtid}")))
}

/// Session variables and registration, as a replica of the server's own kind does them (server
/// source `sql/rpl_replica.cc`). Variables have both names, since 8.0.26 and before.
/// A dump that does not last stays out of `SHOW REPLICAS`: the source lists one of a server id.
async fn set_up(
    session: &mut Session,
    config: &SourceConfig,
    replica_uuid: &str,
    lasts: bool,
) -> Result<Uuid, Failure> {
    let replica_uuid: Uuid = replica_uuid
        .parse()
        .map_err(|_| Halt::new(Reason::Internal, "the replica UUID of a dump is malformed"))?;
    session.execute(&session_statement(config, &replica_uuid)).await.map_err(refused)?;
    let server_uuid = session.value("SELECT @@server_uuid").await.map_err(refused)?;
    let server_uuid = server_uuid
        .and_then(|uuid| uuid.parse().ok())
        .ok_or_else(|| Halt::new(Reason::SourcePreflight, "the source's server_uuid is not a UUID"))?;
    if lasts {
        session.command(&register_command(config.server_id)).await.map_err(refused)?;
    }
    Ok(server_uuid)
}

fn session_statement(config: &SourceConfig, replica_uuid: &Uuid) -> String {
    let heartbeat = config.heartbeat_period.as_nanos();
    let write_timeout = config.net_write_timeout.as_secs();
    format!(
        "SET @source_binlog_checksum='CRC32', @master_binlog_checksum='CRC32', \
         @source_heartbeat_period={heartbeat}, @master_heartbeat_period={heartbeat}, \
         @replica_uuid='{replica_uuid}', @slave_uuid='{replica_uuid}', \
         SESSION net_write_timeout={write_timeout}, SESSION lc_messages='en_US'"
    )
}

/// `COM_REGISTER_REPLICA` (server source `sql/rpl_source.cc`, `register_replica`): makes the dump
/// show in `SHOW REPLICAS`. Host, user, password and port are what it would show there, and empty.
fn register_command(server_id: u32) -> Vec<u8> {
    let mut payload = vec![COM_REGISTER_REPLICA];
    payload.extend_from_slice(&server_id.to_le_bytes());
    payload.extend_from_slice(&[0; 3 + 2 + 4 + 4]);
    payload
}

/// `COM_BINLOG_DUMP_GTID` (server source `sql/rpl_source.cc`, `com_binlog_dump_gtid`): flags,
/// server id, an empty file name, the position of a file's first event, the set.
fn dump_command(server_id: u32, set: &GtidSet, flags: u16) -> Vec<u8> {
    let set = set.encode();
    let mut payload = vec![COM_BINLOG_DUMP_GTID];
    payload.extend_from_slice(&(flags | DUMP_THROUGH_GTID).to_le_bytes());
    payload.extend_from_slice(&server_id.to_le_bytes());
    payload.extend_from_slice(&0u32.to_le_bytes());
    payload.extend_from_slice(&4u64.to_le_bytes());
    // A set that does not fit would have more intervals than a packet has bytes.
    payload.extend_from_slice(&u32::try_from(set.len()).unwrap_or(u32::MAX).to_le_bytes());
    payload.extend_from_slice(&set);
    payload
}
