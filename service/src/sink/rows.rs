//! From the rows of one binlog event to statements in flight, in the event's order.

use bytes::BytesMut;
use tokio_postgres::Statement;

use super::arrays;
use super::net::{Net, NetRows, NotThisTable};
use super::params::{Field, Fields, Params};
use super::prepared::Prepared;
use super::tables::Writing;
use super::transaction::{Expect, FencedTransaction, OpError, Origin};
use crate::convert::RowEncoder;
use crate::fold::unit::{RowsChange, RowsKind};
use crate::halt::{Halt, Reason};

/// Bytes reserved at a time for parameters: many rows share one allocation.
const ARENA_BYTES: usize = 256 << 10;

/// From this many rows on they are one statement: its arrays cost little beside as many executions.
pub(super) const SET_ROWS_MIN: usize = 8;

/// Rows of more bytes than this are written one by one: the server builds arrays in memory, and
/// with such rows the round trips don't count.
const SET_BYTES_MAX: usize = 64 << 20;

/// Buffers that rows are encoded in, kept between batches.
#[derive(Default)]
pub(super) struct RowWriter {
    before: Vec<u8>,
    after: Vec<u8>,
    arena: BytesMut,
}

/// A row can't be encoded, or a statement sent earlier failed.
pub(super) enum RowError {
    Halt(Halt),
    Op(OpError),
}

impl From<Halt> for RowError {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl From<OpError> for RowError {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

impl RowWriter {
    /// Takes the rows of an event into a net effect. Returns their number.
    pub(super) fn collect(
        &mut self,
        encoder: &RowEncoder,
        change: &RowsChange,
        net: &mut NetRows,
    ) -> Result<u64, Halt> {
        let mut images = &change.images[..];
        let mut rows = 0;
        while !images.is_empty() {
            encode(encoder, &mut images, &mut self.after)?;
            let taken = match change.kind {
                RowsKind::Write => net.upsert(&self.after),
                RowsKind::Delete => net.delete(&self.after),
                RowsKind::Update => {
                    std::mem::swap(&mut self.before, &mut self.after);
                    encode(encoder, &mut images, &mut self.after)?;
                    net.update(&self.before, &self.after)
                }
            };
            taken.map_err(|NotThisTable| Halt::new(Reason::Internal, "a row has no key"))?;
            rows += 1;
        }
        Ok(rows)
    }

    /// Sends a net effect: one statement for many rows, one for each of a few.
    pub(super) async fn write_net(
        &mut self,
        tx: &mut FencedTransaction<'_>,
        writing: &Writing<'_>,
        net: &Net<'_>,
        origin: Origin,
    ) -> Result<(), RowError> {
        let Prepared::Keyed { upsert, delete, many } = writing.prepared else {
            return Err(Halt::new(Reason::Internal, "a table without a key was merged").into());
        };
        match many {
            Some(many) if is_set(&net.deletes) => {
                send_many(tx, &many.delete, &net.deletes, origin, Expect::Any).await?;
            }
            _ => self.send_each(tx, delete, &net.deletes, origin).await?,
        }
        match many {
            Some(many) if is_set(&net.upserts) => {
                let rows = net.upserts.len() as u64;
                let expect = if many.upserts_all { Expect::Rows(rows) } else { Expect::Any };
                send_many(tx, &many.upsert, &net.upserts, origin, expect).await
            }
            _ => Ok(self.send_each(tx, upsert, &net.upserts, origin).await?),
        }
    }

    async fn send_each(
        &mut self,
        tx: &mut FencedTransaction<'_>,
        statement: &Statement,
        rows: &[&[u8]],
        origin: Origin,
    ) -> Result<(), OpError> {
        for row in rows {
            self.arena.extend_from_slice(row);
            let params = self.params(statement.params().len());
            tx.send(origin, statement, params, Expect::Any).await?;
        }
        Ok(())
    }

    /// Sends the statements of every row of the event. Returns the number of rows.
    pub(super) async fn write(
        &mut self,
        tx: &mut FencedTransaction<'_>,
        writing: &Writing<'_>,
        change: &RowsChange,
        origin: Origin,
    ) -> Result<u64, RowError> {
        let mut images = &change.images[..];
        let mut rows = 0;
        while !images.is_empty() {
            match change.kind {
                RowsKind::Write => {
                    encode(writing.encoder, &mut images, &mut self.after)?;
                    self.write_insert(tx, writing, origin).await?;
                }
                RowsKind::Update => {
                    encode(writing.encoder, &mut images, &mut self.before)?;
                    encode(writing.encoder, &mut images, &mut self.after)?;
                    self.write_update(tx, writing, origin).await?;
                }
                RowsKind::Delete => {
                    encode(writing.encoder, &mut images, &mut self.before)?;
                    self.write_delete(tx, writing, origin).await?;
                }
            }
            rows += 1;
        }
        Ok(rows)
    }

    async fn write_insert(
        &mut self,
        tx: &mut FencedTransaction<'_>,
        writing: &Writing<'_>,
        origin: Origin,
    ) -> Result<(), OpError> {
        let statement = match writing.prepared {
            // A conflict is a row that the copy or an earlier attempt has left: it is replaced.
            Prepared::Keyed { upsert, .. } => upsert,
            Prepared::Keyless { insert, .. } => insert,
        };
        self.arena.extend_from_slice(&self.after);
        let params = self.params(writing.model.columns.len());
        tx.send(origin, statement, params, Expect::Any).await
    }

    async fn write_update(
        &mut self,
        tx: &mut FencedTransaction<'_>,
        writing: &Writing<'_>,
        origin: Origin,
    ) -> Result<(), OpError> {
        if let Prepared::Keyless { update, .. } = writing.prepared {
            self.arena.extend_from_slice(&self.after);
            self.arena.extend_from_slice(&self.before);
            let params = self.params(writing.model.columns.len() * 2);
            return tx.send(origin, update, params, Expect::Any).await;
        }
        let columns = writing.model.columns.len();
        let same_key = writing
            .model
            .key
            .iter()
            .all(|&column| field(&self.before, columns, column) == field(&self.after, columns, column));
        if !same_key {
            self.write_delete(tx, writing, origin).await?;
        }
        self.write_insert(tx, writing, origin).await
    }

    async fn write_delete(
        &mut self,
        tx: &mut FencedTransaction<'_>,
        writing: &Writing<'_>,
        origin: Origin,
    ) -> Result<(), OpError> {
        let columns = writing.model.columns.len();
        match writing.prepared {
            Prepared::Keyed { delete, .. } => {
                for &column in &writing.model.key {
                    self.arena.extend_from_slice(encoded_field(&self.before, columns, column));
                }
                let params = self.params(writing.model.key.len());
                // A row that is not there: the copy was read after this change.
                tx.send(origin, delete, params, Expect::Any).await
            }
            Prepared::Keyless { delete, .. } => {
                self.arena.extend_from_slice(&self.before);
                let params = self.params(columns);
                tx.send(origin, delete, params, Expect::Any).await
            }
        }
    }

    /// Hands over what has been put into the arena.
    fn params(&mut self, count: usize) -> Params {
        let fields = self.arena.split().freeze();
        if self.arena.capacity() < ARENA_BYTES / 8 {
            self.arena.reserve(ARENA_BYTES);
        }
        Params::new(fields, count)
    }
}

/// Sends one statement for all rows.
async fn send_many(
    tx: &mut FencedTransaction<'_>,
    statement: &Statement,
    rows: &[&[u8]],
    origin: Origin,
    expect: Expect,
) -> Result<(), RowError> {
    let params = arrays::transpose(rows, statement.params())
        .ok_or_else(|| Halt::new(Reason::Internal, "rows can't be turned into arrays"))?;
    Ok(tx.send(origin, statement, params, expect).await?)
}

fn is_set(rows: &[&[u8]]) -> bool {
    rows.len() >= SET_ROWS_MIN && rows.iter().map(|row| row.len()).sum::<usize>() <= SET_BYTES_MAX
}

fn encode(encoder: &RowEncoder, images: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Halt> {
    out.clear();
    encoder.encode(images, out)
}

fn field(row: &[u8], columns: usize, index: usize) -> Option<Field<'_>> {
    Fields::new(row, columns).nth(index)
}

/// A field with its length, as it stands in the row; empty, which no statement takes for a field,
/// when the row has no such column.
fn encoded_field(row: &[u8], columns: usize, index: usize) -> &[u8] {
    let mut fields = Fields::new(row, columns);
    if index > 0 && fields.nth(index - 1).is_none() {
        return &[];
    }
    let from_field = fields.rest();
    let after = fields.next().map_or(from_field, |_| fields.rest());
    from_field.get(..from_field.len() - after.len()).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::params::ParamsBuilder;

    #[test]
    fn fields_are_cut_out_with_their_lengths() {
        let row: Vec<u8> = [&[0, 0, 0, 1, b'a'][..], &[0xff; 4], &[0, 0, 0, 2, b'b', b'c']].concat();
        assert_eq!(encoded_field(&row, 3, 0), [0, 0, 0, 1, b'a']);
        assert_eq!(encoded_field(&row, 3, 1), [0xff; 4]);
        assert_eq!(encoded_field(&row, 3, 2), [0, 0, 0, 2, b'b', b'c']);
        assert_eq!(encoded_field(&row, 3, 3), [0_u8; 0]);
        assert!(field(&row, 3, 2) == Some(Field::Value(b"bc")));
    }

    #[test]
    fn parameters_share_an_allocation_without_sharing_bytes() {
        let mut writer = RowWriter::default();
        writer.arena.extend_from_slice(&[0xff; 4]);
        let first = writer.params(1);
        writer.arena.extend_from_slice(&[0, 0, 0, 0]);
        let second = writer.params(1);
        assert!(first.iter().eq([Field::Null]));
        assert!(second.iter().eq(ParamsBuilder::default().text("").build().iter()));
    }
}
