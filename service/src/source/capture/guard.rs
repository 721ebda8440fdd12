//! The connection that holds DDL off while a table is copied, and sees who waits for the copy.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params};
use tokio::time::{Instant, sleep, sleep_until};

use super::{Attempts, BACKUP_LOCK, Terms, open, unavailable, wait_seconds};
use crate::config::SourceConfig;
use crate::gtid::Uuid;
use crate::halt::Failure;
use crate::schema::TableName;
use crate::source::connect::{failure, server_code};

/// Seconds of silence after which the source ends the session and with it the backup lock.
const GUARD_WAIT_TIMEOUT_SECONDS: u64 = 30;

/// How often the guard looks for statements that wait for the copy, which also keeps it alive.
/// Short: production's writers wait behind such a statement.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

const ER_LOCK_WAIT_TIMEOUT: u16 = 1205;
const ER_LOCK_DEADLOCK: u16 = 1213;
const ER_NO_SUCH_THREAD: u16 = 1094;
/// Access denied to a table, and to an operation for lack of a privilege.
const ER_TABLEACCESS_DENIED: u16 = 1142;
const ER_SPECIFIC_ACCESS_DENIED: u16 = 1227;

/// Requests that the metadata lock of a reader (SHARED_READ) keeps waiting.
const WAITING: &str = "\
    SELECT COUNT(*) FROM performance_schema.metadata_locks \
    WHERE OBJECT_TYPE = 'TABLE' AND OBJECT_SCHEMA = ? AND OBJECT_NAME = ? AND LOCK_STATUS = 'PENDING' \
    AND LOCK_TYPE IN ('EXCLUSIVE', 'SHARED_NO_READ_WRITE')";

/// What the guard has noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// A statement waits for the readers' metadata lock, and writers wait behind it.
    StatementWaiting,
    /// DDL is no longer held off: the longest time for it is over.
    DdlAllowed,
}

/// The guard of one table's copy. Dropping it lets DDL through.
pub struct Guard {
    conn: Conn,
    holds_ddl_off: bool,
    /// Cleared when the account may not look.
    can_look: bool,
}

impl Guard {
    pub(super) async fn open(config: &SourceConfig, server: &Uuid, terms: &Terms) -> Result<Self, Failure> {
        let mut conn = open(config, server).await?;
        let settings = format!(
            "SET SESSION lock_wait_timeout={}, wait_timeout={GUARD_WAIT_TIMEOUT_SECONDS}",
            wait_seconds(terms.lock_wait_timeout)
        );
        conn.query_drop(settings).await.map_err(|error| failure("set up the session", &error))?;
        Ok(Self { conn, holds_ddl_off: false, can_look: true })
    }

    /// Holds DDL off, on the whole instance, unless the account lacks BACKUP_ADMIN. Waits for DDL
    /// that is running; statements that change rows are not concerned.
    pub(super) async fn hold_off_ddl(&mut self, deadline: Instant) -> Result<(), Failure> {
        let mut attempts = Attempts::until(deadline);
        while let Err(error) = self.conn.query_drop("LOCK INSTANCE FOR BACKUP").await {
            match server_code(&error) {
                Some(ER_SPECIFIC_ACCESS_DENIED) => return Ok(()),
                Some(ER_LOCK_WAIT_TIMEOUT | ER_LOCK_DEADLOCK) if attempts.pause().await => {}
                Some(ER_LOCK_WAIT_TIMEOUT | ER_LOCK_DEADLOCK) => return Err(unavailable(BACKUP_LOCK)),
                _ => return Err(failure("hold DDL off", &error)),
            }
        }
        self.holds_ddl_off = true;
        Ok(())
    }

    /// Whether DDL is held off since the capture.
    #[must_use]
    pub const fn holds_ddl_off(&self) -> bool {
        self.holds_ddl_off
    }

    /// Ends a session of the same account.
    pub(super) async fn kill(&mut self, connection_id: u64) -> Result<(), Failure> {
        match self.conn.query_drop(format!("KILL {connection_id}")).await {
            Err(error) if server_code(&error) != Some(ER_NO_SUCH_THREAD) => {
                Err(failure("end a session that waits for a lock", &error))
            }
            _ => Ok(()),
        }
    }

    /// Waits for something to notice on the table, keeping the session alive. DDL is let through
    /// at `allow_ddl_at`.
    ///
    /// # Errors
    /// The connection is lost, and with it what held DDL off.
    pub async fn watch(&mut self, table: &TableName, allow_ddl_at: Instant) -> Result<Disturbance, Failure> {
        loop {
            if self.holds_ddl_off && Instant::now() >= allow_ddl_at {
                self.allow_ddl().await?;
                return Ok(Disturbance::DdlAllowed);
            }
            if self.someone_waits(table).await? {
                return Ok(Disturbance::StatementWaiting);
            }
            if self.holds_ddl_off {
                sleep_until((Instant::now() + LOOK_INTERVAL).min(allow_ddl_at)).await;
            } else {
                sleep(LOOK_INTERVAL).await;
            }
        }
    }

    async fn allow_ddl(&mut self) -> Result<(), Failure> {
        self.conn.query_drop("UNLOCK INSTANCE").await.map_err(|error| failure("let DDL through", &error))?;
        self.holds_ddl_off = false;
        Ok(())
    }

    async fn someone_waits(&mut self, table: &TableName) -> Result<bool, Failure> {
        let looked = if self.can_look {
            let names = Params::from((&table.database, &table.table));
            self.conn.exec_first::<u64, _, _>(WAITING, names).await
        } else {
            self.conn.query_drop("DO 0").await.map(|()| None)
        };
        match looked {
            Ok(waiting) => Ok(waiting.is_some_and(|count| count > 0)),
            Err(error) if server_code(&error) == Some(ER_TABLEACCESS_DENIED) => {
                self.can_look = false;
                Ok(false)
            }
            Err(error) => Err(failure("look for statements that wait for the copy", &error)),
        }
    }
}
