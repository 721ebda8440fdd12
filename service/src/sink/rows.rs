//! From converted rows to statements in flight.

use bytes::BytesMut;
use tokio_postgres::Statement;

use super::arrays;
use super::net::Net;
use super::params::{Fields, Params};
use super::part::RowChange;
use super::prepared::Prepared;
use super::tables::Writing;
use super::transaction::{Expect, FencedTransaction, OpError, Origin};
use crate::fold::unit::RowsKind;
use crate::halt::{Halt, Reason};

/// Bytes reserved at a time for parameters: many rows share one allocation.
const ARENA_BYTES: usize = 256 << 10;

/// From this many rows on they are one statement: its arrays cost little beside as many executions.
pub(super) const SET_ROWS_MIN: usize = 8;

/// Rows of more bytes than this are written one by one: the server builds arrays in memory, and
/// with such rows the round trips don't count.
const SET_BYTES_MAX: usize = 64 << 20;

/// Builds parameters, in a buffer kept between batches.
#[derive(Default)]
pub(super) struct RowWriter {
    arena: BytesMut,
}

/// Rows contradict their table's statements, or a statement sent earlier failed.
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
            self.send(tx, statement, &[row], origin).await?;
        }
        Ok(())
    }

    /// Sends the statements of one row's change.
    pub(super) async fn write(
        &mut self,
        tx: &mut FencedTransaction<'_>,
        writing: &Writing<'_>,
        row: &RowChange<'_>,
    ) -> Result<(), OpError> {
        let origin = Origin::Row { unit: row.place.unit, table: row.place.table };
        let columns = writing.model.columns.len();
        match (writing.prepared, row.kind) {
            // A conflict is a row that the copy or an earlier attempt has left: it is replaced.
            (Prepared::Keyed { upsert, .. }, RowsKind::Write) => {
                self.send(tx, upsert, &[row.after], origin).await
            }
            (Prepared::Keyed { upsert, delete, .. }, RowsKind::Update) => {
                let key_field = |fields, &column: &usize| Fields::new(fields, columns).nth(column);
                let same = |column| key_field(row.before, column) == key_field(row.after, column);
                if !writing.model.key.iter().all(same) {
                    self.delete_key(tx, writing, delete, row.before, origin).await?;
                }
                self.send(tx, upsert, &[row.after], origin).await
            }
            (Prepared::Keyed { delete, .. }, RowsKind::Delete) => {
                self.delete_key(tx, writing, delete, row.before, origin).await
            }
            (Prepared::Keyless { insert, .. }, RowsKind::Write) => {
                self.send(tx, insert, &[row.after], origin).await
            }
            (Prepared::Keyless { update, .. }, RowsKind::Update) => {
                self.send(tx, update, &[row.after, row.before], origin).await
            }
            (Prepared::Keyless { delete, .. }, RowsKind::Delete) => {
                self.send(tx, delete, &[row.before], origin).await
            }
        }
    }

    /// A row that is not there is no error: the copy was read after this change.
    async fn delete_key(
        &mut self,
        tx: &mut FencedTransaction<'_>,
        writing: &Writing<'_>,
        delete: &Statement,
        row: &[u8],
        origin: Origin,
    ) -> Result<(), OpError> {
        let columns = writing.model.columns.len();
        let key: Vec<&[u8]> =
            writing.model.key.iter().map(|&column| encoded_field(row, columns, column)).collect();
        self.send(tx, delete, &key, origin).await
    }

    /// Sends a statement whose parameters are the fields of these pieces, one behind the other.
    async fn send(
        &mut self,
        tx: &mut FencedTransaction<'_>,
        statement: &Statement,
        pieces: &[&[u8]],
        origin: Origin,
    ) -> Result<(), OpError> {
        pieces.iter().for_each(|piece| self.arena.extend_from_slice(piece));
        let params = self.params(statement.params().len());
        tx.send(origin, statement, params, Expect::Any).await
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
    use crate::sink::params::{Field, ParamsBuilder};

    #[test]
    fn fields_are_cut_out_with_their_lengths() {
        let row: Vec<u8> = [&[0, 0, 0, 1, b'a'][..], &[0xff; 4], &[0, 0, 0, 2, b'b', b'c']].concat();
        assert_eq!(encoded_field(&row, 3, 0), [0, 0, 0, 1, b'a']);
        assert_eq!(encoded_field(&row, 3, 1), [0xff; 4]);
        assert_eq!(encoded_field(&row, 3, 2), [0, 0, 0, 2, b'b', b'c']);
        assert_eq!(encoded_field(&row, 3, 3), [0_u8; 0]);
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
