//! The brief read lock on a table.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::{Instant, timeout_at};

use super::guard::Guard;
use super::{Attempts, READ_LOCK, Terms, open_numbered, quoted, unavailable, wait_seconds};
use crate::config::SourceConfig;
use crate::fold::xa::XidDigest;
use crate::gtid::{GtidSet, Uuid};
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::TableName;
use crate::source::connect::{failure, server_code};
use crate::source::xa;

/// Seconds of silence after which the source ends the session and with it the lock: should this
/// process or its network die at the wrong moment, writers wait no longer than this.
const LOCK_WAIT_TIMEOUT_SECONDS: u64 = 2;

/// How often a lock that is kept says that it is there.
const KEEP_ALIVE: Duration = Duration::from_millis(500);

const ER_LOCK_WAIT_TIMEOUT: u16 = 1205;
const ER_LOCK_DEADLOCK: u16 = 1213;
const ER_NO_SUCH_TABLE: u16 = 1146;
const ER_BAD_DB: u16 = 1049;

/// The session that locks.
pub struct TableLock {
    conn: Conn,
    connection_id: u64,
}

impl TableLock {
    pub(super) async fn open(config: &SourceConfig, server: &Uuid, terms: &Terms) -> Result<Self, Failure> {
        let (mut conn, connection_id) = open_numbered(config, server).await?;
        let settings = format!(
            "SET SESSION lock_wait_timeout={}, wait_timeout={LOCK_WAIT_TIMEOUT_SECONDS}",
            wait_seconds(terms.lock_wait_timeout)
        );
        conn.query_drop(settings).await.map_err(|error| failure("set up the session", &error))?;
        Ok(Self { conn, connection_id })
    }

    /// Locks the table against writers. A waiting request blocks no writer, so it may starve: it
    /// is made again and again until the deadline. One that is then still waiting is killed, since
    /// closing the connection would leave it waiting on the server.
    pub(super) async fn acquire(
        &mut self,
        table: &TableName,
        deadline: Instant,
        guard: &mut Guard,
    ) -> Result<(), Failure> {
        let statement = format!("LOCK TABLES {} READ", quoted(table));
        let mut attempts = Attempts::until(deadline);
        loop {
            let Ok(answer) = timeout_at(deadline, self.conn.query_drop(&statement)).await else {
                guard.kill(self.connection_id).await?;
                return Err(unavailable(READ_LOCK));
            };
            let Err(error) = answer else { return Ok(()) };
            match server_code(&error) {
                Some(ER_LOCK_WAIT_TIMEOUT | ER_LOCK_DEADLOCK) if attempts.pause().await => {}
                Some(ER_LOCK_WAIT_TIMEOUT | ER_LOCK_DEADLOCK) => {
                    return Err(unavailable(READ_LOCK));
                }
                Some(ER_NO_SUCH_TABLE | ER_BAD_DB) => {
                    return Err(Failure::retry(Side::Source, "a table to be copied has gone"));
                }
                _ => return Err(failure("lock a table", &error)),
            }
        }
    }

    /// The executed set. An answer proves that the lock has been held until now.
    pub(super) async fn gtid_executed(&mut self) -> Result<GtidSet, Failure> {
        let text: Option<String> = self
            .conn
            .query_first("SELECT @@GLOBAL.gtid_executed")
            .await
            .map_err(|error| failure("read gtid_executed under the lock", &error))?;
        text.unwrap_or_default().parse().map_err(|_| {
            Halt::new(Reason::SourcePreflight, "the source's gtid_executed can't be read").into()
        })
    }

    /// As [`xa::prepared`], under the lock.
    pub(super) async fn prepared_xa(&mut self) -> Result<Option<BTreeSet<XidDigest>>, Failure> {
        xa::prepared(&mut self.conn).await
    }

    pub(super) async fn release_unless(mut self, keep: bool) -> Result<Option<Self>, Failure> {
        if keep {
            return Ok(Some(self));
        }
        self.conn.query_drop("UNLOCK TABLES").await.map_err(|error| failure("unlock a table", &error))?;
        Ok(None)
    }

    /// Keeps the lock until `done`, and a moment longer: success proves that it has been held all
    /// the time, for it lives and dies with its session.
    ///
    /// # Errors
    /// The session is lost.
    pub async fn keep_until(mut self, done: impl Future<Output = ()>) -> Result<(), Failure> {
        let mut done = pin!(done);
        loop {
            let is_done = tokio::select! {
                () = &mut done => true,
                () = tokio::time::sleep(KEEP_ALIVE) => false,
            };
            let confirmed = self.conn.query_drop("DO 0").await;
            confirmed.map_err(|error| failure("keep a table locked", &error))?;
            if is_done {
                return Ok(());
            }
        }
    }
}
