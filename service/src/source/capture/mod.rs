//! The capture of one table: a GTID set, and read views that show of the table exactly what the
//! transactions of that set have made of it.
//!
//! `gtid_executed` and what a new read view shows are not in step while commits are in flight:
//! a row may be visible before its GTID is in the set. So the two are taken while the table is
//! locked against writers, for a few milliseconds:
//!
//! ```text
//! guard      LOCK INSTANCE FOR BACKUP                     no DDL from here on, where granted
//! lock       LOCK TABLES t READ                           waits for writers and prepared XA on t
//! views      START TRANSACTION WITH CONSISTENT SNAPSHOT   all of them at once
//! lock       SELECT @@gtid_executed, XA RECOVER           answered: the lock held all the time
//! lock       UNLOCK TABLES
//! ```
//!
//! Pinning the table to the views, where the guard holds DDL off, is left to the caller, who has
//! to watch the guard meanwhile: when a statement asks for the whole table between two pins, the
//! second waits for it and it for the first, and every writer behind them.
//!
//! One table at a time: while it waits for a lock on several, MySQL may choose the application as
//! the victim of a deadlock. No connection of a capture is ever dialled again, and all of them
//! show the same `server_uuid`: a view opened later, or on another server, would show other rows.
//!
//! MySQL manual: "LOCK TABLES and UNLOCK TABLES Statements", "LOCK INSTANCE FOR BACKUP and UNLOCK
//! INSTANCE Statements", "START TRANSACTION, COMMIT, and ROLLBACK Statements", "Metadata Locking".

mod guard;
mod lock;
mod view;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::try_join_all;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::{Instant, interval_at, sleep_until};

use super::connect::{connect, failure};
use crate::config::SourceConfig;
use crate::fold::xa::XidDigest;
use crate::gtid::{GtidSet, Uuid};
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::TableName;

pub use guard::{Disturbance, Guard};
pub use lock::TableLock;
pub use view::View;

const BACKUP_LOCK: &str = "the backup lock";
const READ_LOCK: &str = "the table's read lock";

/// First pause between two attempts at a lock; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Shorter than the lock's `wait_timeout`, which must not end the session between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// When a lock that is not had yet is first told of: a wait as short as an application's ordinary
/// transactions is no news.
const FIRST_WORD: Duration = Duration::from_secs(2);
/// How often it is told again: under the default `snapshot.lock_deadline` sixty times.
const WORD_INTERVAL: Duration = Duration::from_secs(10);

/// A lock that a capture is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// What is waited for.
    pub lock: &'static str,
    /// Since when.
    pub waited: Duration,
}

/// Is told, at a bounded rate, of a lock that a capture is waiting for.
pub type Tell<'a> = &'a (dyn Fn(Waiting) + Sync);

/// How a table is captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Number of views.
    pub views: usize,
    /// Longest wait of one attempt at a lock: writers may queue behind it.
    pub lock_wait_timeout: Duration,
    /// Longest time for all attempts.
    pub lock_deadline: Duration,
    /// Hold DDL off for as long as the guard lives, where BACKUP_ADMIN is granted.
    pub block_ddl: bool,
    /// Keep the table's read lock: the only way to copy a table of a non-transactional engine in
    /// one state.
    pub keep_lock: bool,
}

/// A captured table.
pub struct Capture {
    /// The transactions whose effects on the table the views show, neither more nor less.
    pub set: GtidSet,
    /// XA transactions that are prepared and not resolved; `None` without the right to ask. None
    /// of them has touched the table.
    pub prepared_xa: Option<BTreeSet<XidDigest>>,
    pub views: Vec<View>,
    pub guard: Guard,
    /// The table's lock, where it is kept.
    pub lock: Option<TableLock>,
}

/// Captures a table of the server with this UUID.
///
/// # Errors
/// `snapshot_lock_unavailable` when the locks could not be had before the deadline; a connection
/// that fails, that reaches another server, or a table that is gone fails the whole capture.
pub async fn capture(
    config: &SourceConfig,
    server: &Uuid,
    table: &TableName,
    terms: &Terms,
    tell: Tell<'_>,
) -> Result<Capture, Failure> {
    let mut views = try_join_all((0..terms.views).map(|_| View::open(config, server, terms))).await?;
    let mut guard = Guard::open(config, server, terms).await?;
    let mut lock = TableLock::open(config, server, terms).await?;
    let deadline = Instant::now() + terms.lock_deadline;
    if terms.block_ddl {
        let held_off = telling(tell, BACKUP_LOCK, guard.hold_off_ddl(deadline)).await;
        held_off.map_err(|failure| on_table(failure, table))?;
    }
    let locked = telling(tell, READ_LOCK, lock.acquire(table, deadline, &mut guard)).await;
    locked.map_err(|failure| on_table(failure, table))?;
    try_join_all(views.iter_mut().map(View::begin)).await?;
    let set = lock.gtid_executed().await?;
    let prepared_xa = lock.prepared_xa().await?;
    let lock = lock.release_unless(terms.keep_lock).await?;
    Ok(Capture { set, prepared_xa, views, guard, lock })
}

/// A set that holds every transaction that has touched the table until now: no statement that
/// writes it is half-way through its commit.
///
/// # Errors
/// As [`capture`].
pub async fn settled_set(
    config: &SourceConfig,
    server: &Uuid,
    table: &TableName,
    terms: &Terms,
    tell: Tell<'_>,
) -> Result<GtidSet, Failure> {
    let terms = Terms { views: 0, block_ddl: false, keep_lock: false, ..*terms };
    Ok(capture(config, server, table, &terms, tell).await?.set)
}

/// The work's result; tells of the lock for as long as it is not there.
async fn telling<T>(tell: Tell<'_>, lock: &'static str, work: impl Future<Output = T>) -> T {
    let since = Instant::now();
    let mut words = interval_at(since + FIRST_WORD, WORD_INTERVAL);
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = words.tick() => tell(Waiting { lock, waited: since.elapsed() }),
        }
    }
}

/// A connection that is known to reach the server.
///
/// # Errors
/// Its failures; reaching another server is one.
pub async fn open(config: &SourceConfig, server: &Uuid) -> Result<Conn, Failure> {
    Ok(open_numbered(config, server).await?.0)
}

/// As [`open`], with the server's id of the connection.
async fn open_numbered(config: &SourceConfig, server: &Uuid) -> Result<(Conn, u64), Failure> {
    let mut conn = connect(config).await?;
    let row: Option<(String, u64)> = conn
        .query_first("SELECT @@server_uuid, CONNECTION_ID()")
        .await
        .map_err(|error| failure("read its identity", &error))?;
    match row {
        Some((uuid, id)) if uuid.parse().is_ok_and(|uuid: Uuid| uuid == *server) => Ok((conn, id)),
        _ => Err(other_server()),
    }
}

/// The failure that a connection to another server than the one in hand is.
pub fn other_server() -> Failure {
    Failure::retry(
        Side::Source,
        "connections to the source reach different servers: connect to one server, not to a group of them",
    )
}

/// `database`.`table`, quoted.
fn quoted(table: &TableName) -> String {
    format!("`{}`.`{}`", table.database.replace('`', "``"), table.table.replace('`', "``"))
}

/// `lock_wait_timeout` is in whole seconds, at least one.
fn wait_seconds(timeout: Duration) -> u64 {
    timeout.as_secs().max(1)
}

/// The pauses between attempts at a lock.
struct Attempts {
    deadline: Instant,
    pause: Duration,
}

impl Attempts {
    const fn until(deadline: Instant) -> Self {
        Self { deadline, pause: FIRST_PAUSE }
    }

    /// Waits before the next attempt; false when there is no time for one.
    async fn pause(&mut self) -> bool {
        let next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        if next >= self.deadline {
            return false;
        }
        sleep_until(next).await;
        true
    }
}

fn unavailable(what: &str) -> Failure {
    let detail = format!("{what} was not to be had within snapshot.lock_deadline");
    Halt::new(Reason::SnapshotLockUnavailable, detail).into()
}

fn on_table(failure: Failure, table: &TableName) -> Failure {
    match failure {
        Failure::Halt(halt) => halt.on_table(&table.database, &table.table).into(),
        retry @ Failure::Retry { .. } => retry,
    }
}
