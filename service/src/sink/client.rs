//! A connection to the target on which no reply is waited for without bound.
//!
//! A server can stop answering while its host still acknowledges what is sent: a process that is
//! stopped, a disk that hangs. No keepalive notices. Every call here gives up on a reply after
//! `target.reply_timeout` and drops the connection; what became of a commit shows in the next
//! take-over. Only what takes as long as a table is large is waited for: [`Client::alter`].

use std::future::Future;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CopyInSink, Row, SimpleQueryMessage, Statement};

/// Why a call failed. Not `Debug`: the driver's error holds what the server said.
pub enum Error {
    Driver(tokio_postgres::Error),
    /// There was no reply for this long, and the connection is gone.
    NoReply(Duration),
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Driver(error)
    }
}

impl Error {
    /// SQLSTATE of an error that the server reported.
    pub(super) fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Driver(error) => error.code(),
            Self::NoReply(_) => None,
        }
    }
}

/// A session of the target.
pub struct Client {
    driver: tokio_postgres::Client,
    replies: Replies,
}

/// Bounds the waits for a session's replies.
#[derive(Clone)]
pub(super) struct Replies {
    timeout: Duration,
    /// The task that owns the socket.
    connection: AbortHandle,
}

impl Replies {
    /// Waits for a reply. If there is none in time, the connection is gone.
    pub(super) async fn wait<T>(
        &self,
        reply: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        if let Ok(result) = timeout(self.timeout, reply).await {
            return result.map_err(Error::Driver);
        }
        self.connection.abort();
        let seconds = self.timeout.as_secs_f32();
        tracing::warn!(seconds, "the target does not reply: its connection is dropped");
        Err(Error::NoReply(self.timeout))
    }
}

type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Client {
    pub(super) const fn new(
        driver: tokio_postgres::Client,
        reply_timeout: Duration,
        connection: AbortHandle,
    ) -> Self {
        Self { driver, replies: Replies { timeout: reply_timeout, connection } }
    }

    /// The session itself: to send what is waited for with [`Client::reply`], and for what may run as
    /// long as it takes.
    pub(super) const fn untimed(&self) -> &tokio_postgres::Client {
        &self.driver
    }

    /// As [`Client::untimed`], for migrations and the take-over, which need the session for themselves.
    pub(super) const fn untimed_mut(&mut self) -> &mut tokio_postgres::Client {
        &mut self.driver
    }

    /// Waits for a reply of this session.
    pub(super) async fn reply<T>(
        &self,
        reply: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        self.replies.wait(reply).await
    }

    /// For the replies of a driver's transaction, which has the session for itself.
    pub(super) fn replies(&self) -> Replies {
        self.replies.clone()
    }

    pub(super) async fn query(&self, sql: &str, params: Params<'_>) -> Result<Vec<Row>, Error> {
        self.reply(self.driver.query(sql, params)).await
    }

    pub(super) async fn query_one(&self, sql: &str, params: Params<'_>) -> Result<Row, Error> {
        self.reply(self.driver.query_one(sql, params)).await
    }

    pub(super) async fn query_opt(&self, sql: &str, params: Params<'_>) -> Result<Option<Row>, Error> {
        self.reply(self.driver.query_opt(sql, params)).await
    }

    pub(super) async fn execute(&self, sql: &str, params: Params<'_>) -> Result<u64, Error> {
        self.reply(self.driver.execute(sql, params)).await
    }

    pub(super) async fn batch_execute(&self, sql: &str) -> Result<(), Error> {
        self.reply(self.driver.batch_execute(sql)).await
    }

    pub(super) async fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        self.reply(self.driver.simple_query(sql)).await
    }

    /// Parameters have the types given, and the server's choice where none is.
    pub(super) async fn prepare(&self, sql: &str, types: &[Type]) -> Result<Statement, Error> {
        self.reply(self.driver.prepare_typed(sql, types)).await
    }

    pub(super) async fn copy_in(&self, sql: &str) -> Result<CopyInSink<bytes::Bytes>, Error> {
        self.reply(self.driver.copy_in(sql)).await
    }

    /// Runs statements that change tables, for as long as they take: they may rewrite or read every row.
    /// Their waits for locks are bounded by the session's settings.
    pub(super) async fn alter(&self, sql: &str) -> Result<(), Error> {
        self.driver.batch_execute(sql).await.map_err(Error::Driver)
    }
}
