//! The copy's writing side: one chunk of a table, one COPY, one transaction.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::CopyInSink;

use super::catalog;
use super::checkpoint::{ChunkDone, ColumnChanges, CommitError, Progress, commit};
use super::client::Client;
use super::conversions::{Conversion, Ledger};
use super::error::while_doing;
use super::session::{Fence, Session};
use super::statements;
use super::table_state::Ownership;
use super::target_change;
use super::transaction::{FencedTransaction, OpError};
use crate::convert::Uses;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::TableModel;
use crate::schema::diff::Uniqueness;
use crate::schema::policy::TargetChange;

/// Bytes handed to the connection at a time: from 64 to 256 KiB the protocol's overhead is small
/// and a buffer still fits the caches.
const BUFFER_BYTES: usize = 128 << 10;

/// Statements in flight besides the COPY itself: opening, and the chunk's row.
const MAX_IN_FLIGHT: usize = 8;

/// Signature, flags and header extension length (PostgreSQL manual, COPY, "Binary Format").
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// The field count that says that no more rows follow.
const TRAILER: [u8; 2] = (-1_i16).to_be_bytes();

/// Writes chunks on a connection of its own, under the fence of the pipeline's writer.
pub struct ChunkWriter {
    session: Session,
    fence: Fence,
}

impl ChunkWriter {
    /// `client` from [`super::connect::connect`], `fence` from [`super::writer::Writer::fence`].
    #[must_use]
    pub fn new(client: Client, fence: Fence) -> Self {
        Self { session: Session::new(client, MAX_IN_FLIGHT), fence }
    }

    /// Opens the transaction and the COPY of one chunk, on a table that is checked and held: COPY
    /// rounds and cuts in silence to what a column's type has become.
    ///
    /// `changes` are those of columns that the chunk's rows need: they are part of its transaction,
    /// and no other chunk of the table may be open then. `model` has them already.
    pub async fn start(
        &mut self,
        model: &TableModel,
        changes: &[TargetChange],
    ) -> Result<ChunkCopy<'_>, Failure> {
        let columns = i16::try_from(model.columns.len()).map_err(|_| {
            Halt::new(Reason::UnsupportedType, "a table has more columns than PostgreSQL allows")
        })?;
        let copy_in = statements::copy_in(model)?;
        let mut tx = self.session.begin(&self.fence).await.map_err(OpError::into_failure)?;
        let mut ledger = Ledger::default();
        for change in changes {
            let statement = target_change::run(&mut tx, model, *change).await?;
            ledger.changed(THE_TABLE, *change, &statement, None);
        }
        let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
        // Who has made it does not matter to what a chunk needs.
        catalog::hold_fit(client, model, Ownership::Adopted, Uniqueness::OfKeyIfAny).await?;
        let sink = client.copy_in(&copy_in).await.map_err(while_doing("opening a COPY"))?;
        let buffer = Vec::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4);
        let mut copy = ChunkCopy {
            tx,
            client,
            sink: Box::pin(sink),
            buffer,
            columns: columns.to_be_bytes(),
            rows: 0,
            uses: Uses::default(),
            ledger,
            changed: !changes.is_empty(),
        };
        copy.buffer.extend_from_slice(HEADER);
        Ok(copy)
    }
}

/// A chunk being copied. Dropping it leaves nothing of it.
pub struct ChunkCopy<'a> {
    tx: FencedTransaction<'a>,
    client: &'a Client,
    sink: Pin<Box<CopyInSink<Bytes>>>,
    buffer: Vec<u8>,
    columns: [u8; 2],
    rows: u64,
    uses: Uses,
    ledger: Ledger,
    /// The transaction holds changes of the table's columns.
    changed: bool,
}

impl ChunkCopy<'_> {
    /// Starts a row and returns where its fields go: for each column in order an i32 length, -1
    /// for NULL, and the value; and where the values that a policy gave are counted. Call
    /// [`Self::flush_if_full`] between rows.
    pub fn row(&mut self) -> (&mut Vec<u8>, &mut Uses) {
        self.rows += 1;
        self.buffer.extend_from_slice(&self.columns);
        (&mut self.buffer, &mut self.uses)
    }

    /// Whether the buffer wants to be handed over.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.buffer.len() >= BUFFER_BYTES
    }

    /// Hands a full buffer to the connection, waiting while the server is behind.
    pub async fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.is_full() { self.flush().await } else { Ok(()) }
    }

    /// Ends the COPY and commits its rows with the chunk's own.
    ///
    /// # Errors
    /// `internal_error` when the server counted other rows than were written.
    pub async fn finish(mut self, chunk: &ChunkHeader<'_>) -> Result<Copied, Failure> {
        self.buffer.extend_from_slice(&TRAILER);
        self.flush().await?;
        let finished = self.client.reply(self.sink.as_mut().finish()).await;
        let rows = finished.map_err(while_doing("copying rows"))?;
        if rows != self.rows {
            return Err(Halt::new(
                Reason::Internal,
                "a COPY stored another number of rows than it was given",
            )
            .into());
        }
        let ChunkHeader { model, chunk, bounds } = *chunk;
        let done = ChunkDone { table: model.name.clone(), chunk, bounds: bounds.clone(), rows };
        self.ledger.stored(THE_TABLE, &mut self.uses, None);
        let conversions = self.ledger.entries(|_| Some(model));
        let models = if self.changed { std::slice::from_ref(model) } else { &[] };
        let columns = ColumnChanges { models, conversions: &conversions };
        commit(self.tx, &Progress::Chunk(&done, columns)).await.map_err(CommitError::into_failure)?;
        Ok(Copied { rows, conversions })
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        let next = Vec::with_capacity(self.buffer.capacity());
        let full = Bytes::from(std::mem::replace(&mut self.buffer, next));
        self.client.reply(self.sink.send(full)).await.map_err(while_doing("copying rows"))
    }
}

/// The place of a chunk's only table in its ledger.
const THE_TABLE: usize = 0;

/// What a chunk committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    pub rows: u64,
    /// What it added to the ledger.
    pub conversions: Vec<Conversion>,
}

/// Which chunk of which table.
#[derive(Clone, Copy)]
pub struct ChunkHeader<'a> {
    pub model: &'a TableModel,
    pub chunk: u32,
    /// The chunk's key range, encoded by the planner.
    pub bounds: &'a serde_json::Value,
}
