//! The source side against a live MySQL: logins, the dump, preflight, the reader.

mod alter;
mod defaults;
mod dump;
pub(crate) mod login;
mod preflight;
mod reader;
mod refusals;

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use tidegate::binlog::event::{Event, RawEvent};
use tidegate::config::{Secret, SourceConfig, TlsConfig, TlsMode};
use tidegate::fold::unit::Fingerprint;
use tidegate::gtid::{Gtid, GtidSet, Uuid};
use tidegate::halt::{Failure, Reason};
use tidegate::source::dump::Dump;
use tidegate_integration::MySql;
use tidegate_integration::mysql::{REPLICATION_PASSWORD, REPLICATION_USER};

/// How long a test waits for an event that has to come.
const EVENT_PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn config(mysql: &MySql) -> SourceConfig {
    SourceConfig {
        host: mysql.addr().ip().to_string(),
        port: mysql.port(),
        user: REPLICATION_USER.to_owned(),
        password: Some(Secret::new(REPLICATION_PASSWORD.to_owned())),
        server_id: 4242,
        tls: TlsConfig { mode: TlsMode::EncryptOnly, ca_file: None, cert_file: None, key_file: None },
        connect_timeout: Duration::from_secs(30),
        heartbeat_period: Duration::from_secs(5),
        net_write_timeout: Duration::from_secs(3600),
    }
}

/// A replica UUID that no other dump of this process has.
pub(crate) fn replica_uuid() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id())
}

async fn server_uuid(mysql: &MySql) -> Result<Uuid> {
    let uuid = mysql.scalar("", "SELECT @@server_uuid").await?.unwrap_or_default();
    Ok(uuid.parse()?)
}

async fn executed(mysql: &MySql) -> Result<GtidSet> {
    Ok(mysql.gtid_executed().await?.parse()?)
}

/// What the server's binlog has of one group of the set; `None` if it was purged.
async fn fingerprint_of(mysql: &MySql, set: &GtidSet, gtid: &Gtid) -> Result<Option<Fingerprint>> {
    let found = tidegate::source::dump::fingerprint_of(&config(mysql), &replica_uuid(), set, gtid).await?;
    Ok(found.map(|(_, fingerprint)| fingerprint))
}

async fn next(dump: &mut Dump) -> Result<RawEvent> {
    match tokio::time::timeout(EVENT_PATIENCE, dump.next()).await {
        Ok(event) => Ok(event?),
        Err(_) => bail!("no event came"),
    }
}

/// Reads until the dump fails.
async fn failure_of(dump: &mut Dump) -> Result<Failure> {
    loop {
        match tokio::time::timeout(EVENT_PATIENCE, dump.next()).await {
            Ok(Ok(_)) => {}
            Ok(Err(failure)) => return Ok(failure),
            Err(_) => bail!("the dump neither failed nor sent a heartbeat"),
        }
    }
}

/// The failure of a dump of this set, at its opening or at its first events.
async fn refusal(config: &SourceConfig, set: &GtidSet) -> Result<Failure> {
    match Dump::open(config, &replica_uuid(), set).await {
        Ok(mut dump) => failure_of(&mut dump).await,
        Err(failure) => Ok(failure),
    }
}

fn reason(failure: &Failure) -> Option<Reason> {
    match failure {
        Failure::Halt(halt) => Some(halt.reason),
        Failure::Retry { .. } => None,
    }
}

/// The GTIDs of the groups that come until `last`, in order.
async fn gtids_until(dump: &mut Dump, last: &Gtid) -> Result<Vec<Gtid>> {
    let mut gtids = Vec::new();
    loop {
        let raw = next(dump).await?;
        if let Event::Gtid(event) = Event::parse(&raw)? {
            gtids.push(event.gtid.clone());
            if event.gtid == *last {
                return Ok(gtids);
            }
        }
    }
}

/// The GTID of the session's last transaction, in a session that tracks them.
async fn last_gtid(mysql: &MySql, before: &GtidSet) -> Result<Gtid> {
    let new = executed(mysql).await?.subtract(before);
    let mut intervals = new.intervals();
    let (uuid, tag, _, last) = intervals.next().ok_or_else(|| anyhow!("nothing was logged"))?;
    if intervals.next().is_some() {
        bail!("more than one kind of GTID was logged");
    }
    Ok(Gtid::new(*uuid, tag.clone(), last)?)
}
