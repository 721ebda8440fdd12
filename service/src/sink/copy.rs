//! The copy's writing side: one chunk of a table, one COPY, one transaction.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio_postgres::{Client, CopyInSink};

use super::catalog;
use super::checkpoint::{ChunkDone, CommitError, Progress, commit};
use super::error::while_doing;
use super::session::{Fence, Session};
use super::statements;
use super::transaction::{FencedTransaction, OpError};
use crate::halt::{Failure, Halt, Reason};
use crate::schema::TableModel;
use crate::schema::diff::Uniqueness;

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
    pub async fn start(&mut self, model: &TableModel) -> Result<ChunkCopy<'_>, Failure> {
        let columns = i16::try_from(model.columns.len()).map_err(|_| {
            Halt::new(Reason::UnsupportedType, "a table has more columns than PostgreSQL allows")
        })?;
        let copy_in = statements::copy_in(model)?;
        let mut tx = self.session.begin(&self.fence).await.map_err(OpError::into_failure)?;
        let client = tx.quiet_client().await.map_err(OpError::into_failure)?;
        catalog::hold_fit(client, model, Uniqueness::OfKey).await?;
        let sink = client.copy_in(&copy_in).await.map_err(while_doing("opening a COPY"))?;
        let buffer = Vec::with_capacity(BUFFER_BYTES + BUFFER_BYTES / 4);
        let mut copy =
            ChunkCopy { tx, sink: Box::pin(sink), buffer, columns: columns.to_be_bytes(), rows: 0 };
        copy.buffer.extend_from_slice(HEADER);
        Ok(copy)
    }
}

/// A chunk being copied. Dropping it leaves nothing of it.
pub struct ChunkCopy<'a> {
    tx: FencedTransaction<'a>,
    sink: Pin<Box<CopyInSink<Bytes>>>,
    buffer: Vec<u8>,
    columns: [u8; 2],
    rows: u64,
}

impl ChunkCopy<'_> {
    /// Starts a row and returns where its fields go: for each column in order an i32 length, -1
    /// for NULL, and the value. Call [`Self::flush_if_full`] between rows.
    pub fn row(&mut self) -> &mut Vec<u8> {
        self.rows += 1;
        self.buffer.extend_from_slice(&self.columns);
        &mut self.buffer
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

    /// Ends the COPY and commits its rows with the chunk's own. Returns the number of rows.
    ///
    /// # Errors
    /// `internal_error` when the server counted other rows than were written.
    pub async fn finish(mut self, chunk: &ChunkHeader<'_>) -> Result<u64, Failure> {
        self.buffer.extend_from_slice(&TRAILER);
        self.flush().await?;
        let rows = self.sink.as_mut().finish().await.map_err(while_doing("copying rows"))?;
        if rows != self.rows {
            return Err(Halt::new(
                Reason::Internal,
                "a COPY stored another number of rows than it was given",
            )
            .into());
        }
        let ChunkHeader { model, chunk, bounds } = *chunk;
        let done = ChunkDone { table: model.name.clone(), chunk, bounds: bounds.clone(), rows };
        commit(self.tx, &Progress::Chunk(&done)).await.map_err(CommitError::into_failure)?;
        Ok(rows)
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        let next = Vec::with_capacity(self.buffer.capacity());
        let full = Bytes::from(std::mem::replace(&mut self.buffer, next));
        self.sink.send(full).await.map_err(while_doing("copying rows"))
    }
}

/// Which chunk of which table.
#[derive(Clone, Copy)]
pub struct ChunkHeader<'a> {
    pub model: &'a TableModel,
    pub chunk: u32,
    /// The chunk's key range, encoded by the planner.
    pub bounds: &'a serde_json::Value,
}
