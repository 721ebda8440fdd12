//! One Postgres transaction of this pipeline, with its statements in flight.
//!
//! Statements are sent without waiting for the replies of earlier ones (PostgreSQL manual,
//! "Extended Query Pipelining"). Replies arrive in order, so the first error is that of the
//! earliest statement that failed; the server refuses all later ones.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use futures_util::FutureExt;
use tokio_postgres::Statement;

use super::client::{Client, Error};
use super::error::failure;
use super::params::Params;
use super::session::Fence;
use crate::halt::{Failure, Side};

/// Parameter bytes in flight, beside the bound on statements: wide rows must not multiply with
/// it. A statement larger than this is sent alone.
const MAX_BYTES_IN_FLIGHT: usize = 4 << 20;

/// What `tidegate.expect_rows` fails with.
const OTHER_ROWS: &str = "TG001";

/// What a statement was sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Begin, fence, progress: with what it does, for messages.
    Control(&'static str),
    /// A row of the batch's unit and the registry's table with these indexes.
    Row { unit: usize, table: usize },
    /// Merged rows of the registry's table with this index, of any units of the batch.
    Merged { table: usize },
    /// The look whether the registry's table with this index still is what was checked.
    Look { table: usize },
}

/// How many rows a statement must touch, where it does not see to that itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Any,
    Rows(u64),
}

/// A statement that failed or touched another number of rows than it must. Not `Debug`: the driver's
/// error holds what the server said.
pub(super) struct OpError {
    pub(super) origin: Origin,
    pub(super) cause: Cause,
}

pub(super) enum Cause {
    Postgres(Error),
    Rows,
}

impl OpError {
    pub(super) const fn postgres(doing: &'static str, error: Error) -> Self {
        Self { origin: Origin::Control(doing), cause: Cause::Postgres(error) }
    }

    /// What the error means where no row is concerned.
    pub(super) fn into_failure(self) -> Failure {
        let doing = match self.origin {
            Origin::Control(doing) => doing,
            Origin::Row { .. } | Origin::Merged { .. } => "writing rows",
            Origin::Look { .. } => "looking at a table",
        };
        match self.cause {
            Cause::Postgres(error) => failure(doing, &error),
            Cause::Rows => Failure::retry(
                Side::Target,
                format!("{doing}: fenced off, another process has taken over the pipeline"),
            ),
        }
    }
}

type Reply<'a> = Pin<Box<dyn Future<Output = Result<u64, tokio_postgres::Error>> + Send + 'a>>;

/// A statement sent and not yet answered.
struct InFlight<'a> {
    origin: Origin,
    expect: Expect,
    bytes: usize,
    reply: Reply<'a>,
    /// The answer, where sending already gave one.
    answered: Option<Result<u64, tokio_postgres::Error>>,
}

/// An open transaction. Dropping it rolls it back; only [`super::checkpoint::commit`] ends it
/// otherwise.
pub struct FencedTransaction<'a> {
    client: &'a Client,
    control: &'a mut HashMap<&'static str, Statement>,
    fence: Fence,
    in_flight: VecDeque<InFlight<'a>>,
    bytes_in_flight: usize,
    max_in_flight: usize,
    ended: bool,
}

impl<'a> FencedTransaction<'a> {
    pub(super) fn new(
        client: &'a Client,
        control: &'a mut HashMap<&'static str, Statement>,
        fence: Fence,
        max_in_flight: usize,
    ) -> Self {
        let in_flight = VecDeque::with_capacity(max_in_flight);
        Self { client, control, fence, in_flight, bytes_in_flight: 0, max_in_flight, ended: false }
    }

    pub(super) fn pipeline(&self) -> &str {
        &self.fence.pipeline
    }

    /// The connection, with no statement in flight: for what must wait for its own reply.
    pub(super) async fn quiet_client(&mut self) -> Result<&'a Client, OpError> {
        self.drain().await?;
        Ok(self.client)
    }

    /// Sends a prepared statement, waiting only where a bound on statements in flight asks for it.
    pub(super) async fn send(
        &mut self,
        origin: Origin,
        statement: &Statement,
        params: Params,
        expect: Expect,
    ) -> Result<(), OpError> {
        let bytes = params.len();
        while self.is_full(bytes) {
            self.finish_first().await?;
        }
        let mut reply: Reply<'a> = Box::pin(execute(self.client, statement.clone(), params));
        // The first poll hands the statement to the connection.
        let answered = poll_fn(|cx| match reply.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => Poll::Ready(None),
        })
        .await;
        // The server knows nothing of a statement that failed on this side: nothing may follow it.
        let unsent = matches!(answered, Some(Err(_)));
        self.bytes_in_flight += bytes;
        self.in_flight.push_back(InFlight { origin, expect, bytes, reply, answered });
        if unsent { self.drain().await } else { Ok(()) }
    }

    /// Sends a control statement, preparing it on its first use in this session.
    pub(super) async fn control(
        &mut self,
        origin: Origin,
        sql: &'static str,
        params: Params,
        expect: Expect,
    ) -> Result<(), OpError> {
        let statement = match self.control.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                self.drain().await?;
                let prepared = self.client.prepare(sql, &[]).await;
                let statement =
                    prepared.map_err(|error| OpError { origin, cause: Cause::Postgres(error) })?;
                self.control.insert(sql, statement.clone());
                statement
            }
        };
        self.send(origin, &statement, params, expect).await
    }

    /// Waits for every reply.
    pub(super) async fn drain(&mut self) -> Result<(), OpError> {
        while !self.in_flight.is_empty() {
            self.finish_first().await?;
        }
        Ok(())
    }

    /// Marks where a part of the transaction begins.
    pub(super) async fn begin_part(&mut self) -> Result<(), OpError> {
        let origin = Origin::Control("setting a savepoint");
        self.control(origin, "SAVEPOINT part", Params::none(), Expect::Any).await
    }

    /// The part stays.
    pub(super) async fn keep_part(&mut self) -> Result<(), OpError> {
        let origin = Origin::Control("releasing a savepoint");
        self.control(origin, "RELEASE SAVEPOINT part", Params::none(), Expect::Any).await
    }

    /// Undoes the part, in which a statement has failed, and begins it again. What is in flight
    /// behind that statement was refused by the server.
    pub(super) async fn undo_part(&mut self) -> Result<(), OpError> {
        while let Some(mut refused) = self.in_flight.pop_front() {
            self.bytes_in_flight -= refused.bytes;
            if refused.answered.is_none()
                && let Err(error @ Error::NoReply(_)) = self.client.reply(refused.reply.as_mut()).await
            {
                return Err(OpError::postgres("rolling back to a savepoint", error));
            }
        }
        let undone = self.client.batch_execute("ROLLBACK TO SAVEPOINT part").await;
        undone.map_err(|error| OpError::postgres("rolling back to a savepoint", error))
    }

    /// Waits for the replies of statements that don't see to their rows themselves. What is still in
    /// flight afterwards fails on the server if it does not do what it must.
    pub(super) async fn settle(&mut self) -> Result<(), OpError> {
        if self.in_flight.iter().any(|statement| statement.expect != Expect::Any) {
            self.drain().await?;
        }
        Ok(())
    }

    /// The transaction is over: nothing to roll back.
    pub(super) const fn mark_ended(&mut self) {
        self.ended = true;
    }

    fn is_full(&self, bytes: usize) -> bool {
        let count = self.in_flight.len();
        count > 0 && (count >= self.max_in_flight || self.bytes_in_flight + bytes > MAX_BYTES_IN_FLIGHT)
    }

    async fn finish_first(&mut self) -> Result<(), OpError> {
        let Some(first) = self.in_flight.front_mut() else { return Ok(()) };
        // Waiting in place keeps the statement queued if this future is dropped half-way.
        let answer = match first.answered.take() {
            Some(answer) => answer.map_err(Error::Driver),
            None => self.client.reply(first.reply.as_mut()).await,
        };
        let (origin, expect) = (first.origin, first.expect);
        self.bytes_in_flight -= first.bytes;
        self.in_flight.pop_front();
        match (answer, expect) {
            (Err(error), _) if error.code().is_some_and(|code| code.code() == OTHER_ROWS) => {
                Err(OpError { origin, cause: Cause::Rows })
            }
            (Err(error), _) => Err(OpError { origin, cause: Cause::Postgres(error) }),
            (Ok(rows), Expect::Rows(expected)) if rows != expected => {
                Err(OpError { origin, cause: Cause::Rows })
            }
            (Ok(_), _) => Ok(()),
        }
    }
}

async fn execute(
    client: &Client,
    statement: Statement,
    params: Params,
) -> Result<u64, tokio_postgres::Error> {
    client.untimed().execute_raw(&statement, params.iter()).await
}

impl Drop for FencedTransaction<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // One poll queues the statement behind those in flight; the connection task sends it.
            drop(self.client.untimed().batch_execute("ROLLBACK").now_or_never());
        }
    }
}
