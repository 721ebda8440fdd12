//! The position, and the one function that commits replicated data together with it.

use std::collections::BTreeSet;

use tokio_postgres::Row;

use super::client::{Client, Replies};
use super::conversions::{self, Conversion};
use super::error::{control_schema_invalid, while_doing};
use super::objects::{self, ObjectRecord};
use super::params::{Params, ParamsBuilder};
use super::schema_change::AppliedChange;
use super::table_state::{self, TableState, name_params};
use super::target_change;
use super::transaction::{Expect, FencedTransaction, OpError, Origin};
use crate::fold::unit::{Fingerprint, SchemaChange, Transaction, Unit};
use crate::fold::xa::XidDigest;
use crate::gtid::{Gtid, GtidSet, Uuid};
use crate::halt::{Failure, Halt, Reason};
use crate::schema::{TableModel, TableName};

/// How far the pipeline is, durably.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Position {
    /// Every transaction applied or filtered. Membership, never order.
    pub processed: GtidSet,
    /// GTIDs of prepared XA transactions that wait for their resolution, outside `processed`.
    pub pooled: GtidSet,
    /// The transaction processed last, as the server has it that was last read from: received again
    /// on resume and compared. Not replaced until it has been.
    pub last: Option<(Gtid, Fingerprint)>,
}

impl Position {
    /// Whether everything of the set is dealt with. Prepared XA transactions are, so that a
    /// forgotten one holds up nobody who waits.
    #[must_use]
    pub fn reaches(&self, set: &GtidSet) -> bool {
        self.processed.includes_with(&self.pooled, set)
    }

    /// Moves past a unit.
    pub(super) fn advance(&mut self, unit: &Unit) {
        match unit {
            Unit::Prepared(prepared) => self.pooled.insert(&prepared.gtid),
            Unit::Transaction(Transaction { gtid, fingerprint, overlap_pending, resolves, .. }) => {
                if let Some(prepare) = resolves.as_ref().and_then(|resolution| resolution.prepare.as_ref()) {
                    self.pooled.remove(prepare);
                    self.processed.insert(prepare);
                }
                self.process(gtid, fingerprint, *overlap_pending);
            }
            Unit::SchemaChange(change) => self.advance_past(change),
        }
    }

    /// Moves past a schema change.
    pub(super) fn advance_past(&mut self, change: &SchemaChange) {
        self.process(&change.gtid, &change.fingerprint, change.overlap_pending);
    }

    fn process(&mut self, gtid: &Gtid, fingerprint: &Fingerprint, overlap_pending: bool) {
        self.processed.insert(gtid);
        if !overlap_pending {
            self.last = Some((gtid.clone(), fingerprint.clone()));
        }
    }
}

/// A pipeline's checkpoint and identity as read by a take-over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Count of commits; a commit replaces the row with this number or fails.
    pub(super) seq: i64,
    /// `None` until the first copy has given a position.
    pub position: Option<Position>,
    /// The server last read from.
    pub source_server_uuid: Option<Uuid>,
    /// Identity shown to the source as `@replica_uuid`.
    pub replica_uuid: Uuid,
}

/// A chunk of a table's copy whose rows are in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkDone {
    pub table: TableName,
    pub chunk: u32,
    /// The chunk's key range, encoded by the planner.
    pub bounds: serde_json::Value,
    pub rows: u64,
}

/// What a batch of source transactions makes true.
pub(super) struct Batch<'a> {
    pub(super) seq: i64,
    pub(super) position: &'a Position,
    /// The server that the position is one of from now on.
    pub(super) source: Option<&'a Uuid>,
    /// Tables whose converge set the position includes now.
    pub(super) streaming: &'a [TableName],
    /// Tables that are no longer replicated under these names, removed before `tables` are saved.
    pub(super) removed: &'a [TableName],
    pub(super) tables: &'a [TableState],
    pub(super) changes: &'a [AppliedChange],
    /// Known from before the stream and resolved by it.
    pub(super) resolved_xids: &'a [XidDigest],
    pub(super) columns: ColumnChanges<'a>,
    /// The position is past the open halt.
    pub(super) clears_halt: bool,
}

/// What policies did with values of the transaction's rows.
#[derive(Clone, Copy, Default)]
pub(super) struct ColumnChanges<'a> {
    /// Models of tables of which a column was changed.
    pub(super) models: &'a [TableModel],
    pub(super) conversions: &'a [Conversion],
}

/// What a transaction makes true beside its rows: always part of the same commit.
pub(super) enum Progress<'a> {
    Batch(&'a Batch<'a>),
    Chunk(&'a ChunkDone, ColumnChanges<'a>),
    Tables {
        tables: &'a [TableState],
        clears_halt: bool,
    },
    /// A table's copy starts anew: its chunks and objects are forgotten, and what of other tables' went
    /// with it.
    CopyRestart(&'a TableState),
    /// An index or constraint was built, or could not be.
    Object(&'a ObjectRecord),
    Source(&'a Uuid),
    /// XA transactions that may be resolved without having been prepared in the stream.
    StartupXids(&'a BTreeSet<XidDigest>),
    Halt(&'a Halt),
}

/// Inserts seq + 1 if this deleted seq, and fails otherwise: a position is replaced by who has read it.
const ADVANCE: &str = "\
    WITH replaced AS (\
        DELETE FROM tidegate.checkpoint WHERE pipeline = $1::text AND applier = 0 AND seq = $2::int8 \
        RETURNING pipeline, applier, seq), \
    advanced AS (\
        INSERT INTO tidegate.checkpoint (pipeline, applier, seq, processed, pooled, last_gtid, \
            last_original_commit_micros, last_immediate_commit_micros, last_transaction_length, source_commit_time) \
        SELECT pipeline, applier, seq + 1, $3::text, $4::text, $5::text, $6::int8, $7::int8, $8::int8, \
            timestamptz 'epoch' + $6::int8 * interval '1 microsecond' \
        FROM replaced RETURNING 1) \
    SELECT tidegate.expect_rows(count(*), 1) FROM advanced";

const INSERT_CHUNK: &str = "\
    INSERT INTO tidegate.snapshot_chunk (pipeline, source_database, source_table, chunk, bounds, rows) \
    VALUES ($1::text, $2::text, $3::text, $4::int8::int4, $5::text::jsonb, $6::int8)";

const COUNT_CHUNK: &str = "\
    UPDATE tidegate.table_state SET rows_copied = rows_copied + $4::int8, updated_at = clock_timestamp() \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text";

const SET_SOURCE: &str =
    "UPDATE tidegate.pipeline SET source_server_uuid = $2::text::uuid WHERE name = $1::text";

const ADD_STARTUP_XID: &str = "\
    INSERT INTO tidegate.startup_xid (pipeline, xid_sha256) VALUES ($1::text, $2::bytea) ON CONFLICT DO NOTHING";

const REMOVE_STARTUP_XID: &str =
    "DELETE FROM tidegate.startup_xid WHERE pipeline = $1::text AND xid_sha256 = $2::bytea";

/// An open halt at the same place counts on; another one is closed by the new one.
const CLOSE_OTHER_HALT: &str = "\
    UPDATE tidegate.halt SET cleared_at = clock_timestamp() \
    WHERE pipeline = $1::text AND cleared_at IS NULL AND (reason, detail, coalesce(gtid, ''), coalesce(source_table, '')) \
        IS DISTINCT FROM ($2::text, $3::text, coalesce($4::text, ''), coalesce($5::text, ''))";

const RECORD_HALT: &str = "\
    INSERT INTO tidegate.halt AS h (pipeline, reason, detail, gtid, source_table, remedy) \
    VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text) \
    ON CONFLICT (pipeline) WHERE cleared_at IS NULL \
    DO UPDATE SET times = h.times + 1, last_at = clock_timestamp()";

const CLEAR_HALT: &str = "\
    UPDATE tidegate.halt SET cleared_at = clock_timestamp() WHERE pipeline = $1::text AND cleared_at IS NULL";

const RECORD_CHANGE: &str = "\
    INSERT INTO tidegate.schema_change (pipeline, source_database, source_table, gtid, kind, statement) \
    VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text)";

/// Writes the progress and commits: the only commit of replicated data.
///
/// The transaction holds its epoch row and has replaced the checkpoint it was built on, or a
/// statement of it has failed and nothing is committed. A lost reply to the commit itself leaves the
/// outcome open; the next take-over waits for this transaction's row lock and reads what became
/// of it.
pub(super) async fn commit(
    mut tx: FencedTransaction<'_>,
    progress: &Progress<'_>,
) -> Result<(), CommitError> {
    write(&mut tx, progress).await?;
    tx.settle().await?;
    // Sent behind what is in flight: of a transaction with a failed statement it is a rollback.
    tx.control(Origin::Control("committing"), "COMMIT", Params::none(), Expect::Any).await?;
    tx.drain().await?;
    tx.mark_ended();
    Ok(())
}

/// A statement in flight failed, or the progress can't be written.
pub(super) enum CommitError {
    Op(OpError),
    Halt(Halt),
}

impl From<OpError> for CommitError {
    fn from(error: OpError) -> Self {
        Self::Op(error)
    }
}

impl From<Halt> for CommitError {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl CommitError {
    /// What it means where no row is concerned.
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Op(error) => error.into_failure(),
            Self::Halt(halt) => halt.into(),
        }
    }
}

async fn write(tx: &mut FencedTransaction<'_>, progress: &Progress<'_>) -> Result<(), CommitError> {
    let pipeline = tx.pipeline().to_owned();
    match progress {
        Progress::Batch(batch) => write_batch(tx, &pipeline, batch).await?,
        Progress::Chunk(chunk, columns) => {
            write_columns(tx, &pipeline, *columns).await?;
            write_chunk(tx, &pipeline, chunk).await?;
        }
        Progress::Tables { tables, clears_halt } => {
            write_tables(tx, &pipeline, tables).await?;
            clear_halt(tx, &pipeline, *clears_halt).await?;
        }
        Progress::CopyRestart(table) => {
            write_tables(tx, &pipeline, std::slice::from_ref(*table)).await?;
            for sql in [
                table_state::FORGET_CHUNKS,
                table_state::RESET_ROWS_COPIED,
                conversions::FORGET,
                objects::FORGET,
                objects::FORGET_LOST_FOREIGN_KEYS,
            ] {
                let params = name_params(&pipeline, table.name()).build();
                send(tx, "restarting a copy", sql, params, Expect::Any).await?;
            }
        }
        Progress::Source(server_uuid) => write_source(tx, &pipeline, server_uuid).await?,
        Progress::StartupXids(xids) => {
            for xid in *xids {
                let params = xid_params(&pipeline, xid);
                send(tx, "saving prepared XA transactions", ADD_STARTUP_XID, params, Expect::Any).await?;
            }
        }
        Progress::Halt(halt) => write_halt(tx, &pipeline, halt).await?,
        Progress::Object(record) => {
            let params = name_params(&pipeline, &record.table)
                .text(record.kind.name())
                .text(&record.name)
                .text(&record.target_name)
                .text(record.outcome.name())
                .optional_text(record.detail.as_deref())
                .text(&record.statement)
                .build();
            send(tx, "recording an object", objects::SAVE, params, Expect::Rows(1)).await?;
        }
    }
    Ok(())
}

async fn send(
    tx: &mut FencedTransaction<'_>,
    doing: &'static str,
    sql: &'static str,
    params: Params,
    expect: Expect,
) -> Result<(), OpError> {
    tx.control(Origin::Control(doing), sql, params, expect).await
}

async fn write_batch(
    tx: &mut FencedTransaction<'_>,
    pipeline: &str,
    batch: &Batch<'_>,
) -> Result<(), CommitError> {
    for name in batch.removed {
        for sql in [table_state::FORGET_CHUNKS, table_state::REMOVE] {
            let params = name_params(pipeline, name).build();
            send(tx, "removing table states", sql, params, Expect::Any).await?;
        }
    }
    write_tables(tx, pipeline, batch.tables).await?;
    for name in batch.streaming {
        let params = name_params(pipeline, name).build();
        send(tx, "saving table states", table_state::MARK_STREAMING, params, Expect::Rows(1)).await?;
    }
    for change in batch.changes {
        let params = name_params(pipeline, &change.table)
            .text(&change.gtid.to_string())
            .text(change.kind)
            .text(&change.statement)
            .build();
        send(tx, "recording a schema change", RECORD_CHANGE, params, Expect::Rows(1)).await?;
    }
    for xid in batch.resolved_xids {
        let params = xid_params(pipeline, xid);
        send(tx, "forgetting a prepared XA transaction", REMOVE_STARTUP_XID, params, Expect::Any).await?;
    }
    write_columns(tx, pipeline, batch.columns).await?;
    clear_halt(tx, pipeline, batch.clears_halt).await?;
    if let Some(server_uuid) = batch.source {
        write_source(tx, pipeline, server_uuid).await?;
    }
    let params = advance_params(pipeline, batch.seq, batch.position)?;
    send(tx, "advancing the checkpoint", ADVANCE, params, Expect::Any).await?;
    Ok(())
}

fn xid_params(pipeline: &str, xid: &XidDigest) -> Params {
    ParamsBuilder::default().text(pipeline).bytea(xid.as_bytes()).build()
}

async fn write_columns(
    tx: &mut FencedTransaction<'_>,
    pipeline: &str,
    columns: ColumnChanges<'_>,
) -> Result<(), CommitError> {
    for model in columns.models {
        let params = target_change::save_params(pipeline, model)?;
        send(tx, "saving a table's model", target_change::SAVE_MODEL, params, Expect::Rows(1)).await?;
    }
    for entry in columns.conversions {
        let params = conversions::record_params(pipeline, entry)?;
        send(tx, "recording conversions", conversions::RECORD, params, Expect::Rows(1)).await?;
    }
    Ok(())
}

fn advance_params(pipeline: &str, seq: i64, position: &Position) -> Result<Params, Halt> {
    let (last_gtid, fingerprint) =
        position.last.as_ref().map(|(gtid, print)| (gtid.to_string(), print)).unzip();
    let signed = |value: u64| {
        let detail = "a GTID event's times or length are beyond 2^63";
        i64::try_from(value).map_err(|_| Halt::new(Reason::EventMalformed, detail))
    };
    let part = |of: fn(&Fingerprint) -> u64| fingerprint.map(of).map(signed).transpose();
    Ok(ParamsBuilder::default()
        .text(pipeline)
        .int8(seq)
        .text(&position.processed.to_string())
        .text(&position.pooled.to_string())
        .optional_text(last_gtid.as_deref())
        .optional_int8(part(|print| print.original_commit_micros)?)
        .optional_int8(part(|print| print.immediate_commit_micros)?)
        .optional_int8(part(|print| print.transaction_length)?)
        .build())
}

async fn write_chunk(
    tx: &mut FencedTransaction<'_>,
    pipeline: &str,
    chunk: &ChunkDone,
) -> Result<(), CommitError> {
    let rows = i64::try_from(chunk.rows)
        .map_err(|_| Halt::new(Reason::Internal, "a chunk's row count is beyond 2^63"))?;
    let params = name_params(pipeline, &chunk.table)
        .int8(i64::from(chunk.chunk))
        .text(&chunk.bounds.to_string())
        .int8(rows)
        .build();
    send(tx, "recording a chunk", INSERT_CHUNK, params, Expect::Rows(1)).await?;
    let params = name_params(pipeline, &chunk.table).int8(rows).build();
    send(tx, "recording a chunk", COUNT_CHUNK, params, Expect::Rows(1)).await?;
    Ok(())
}

async fn write_tables(
    tx: &mut FencedTransaction<'_>,
    pipeline: &str,
    tables: &[TableState],
) -> Result<(), CommitError> {
    for table in tables {
        let params = table_state::save_params(pipeline, table)?;
        send(tx, "saving table states", table_state::SAVE, params, Expect::Rows(1)).await?;
    }
    Ok(())
}

async fn write_source(
    tx: &mut FencedTransaction<'_>,
    pipeline: &str,
    server_uuid: &Uuid,
) -> Result<(), OpError> {
    let params = ParamsBuilder::default().text(pipeline).text(&server_uuid.to_string()).build();
    send(tx, "recording the source", SET_SOURCE, params, Expect::Rows(1)).await
}

async fn clear_halt(tx: &mut FencedTransaction<'_>, pipeline: &str, is_past: bool) -> Result<(), OpError> {
    if !is_past {
        return Ok(());
    }
    let params = ParamsBuilder::default().text(pipeline).build();
    send(tx, "clearing the halt", CLEAR_HALT, params, Expect::Any).await
}

async fn write_halt(tx: &mut FencedTransaction<'_>, pipeline: &str, halt: &Halt) -> Result<(), OpError> {
    let place = || {
        ParamsBuilder::default()
            .text(pipeline)
            .text(halt.reason.name())
            .text(&halt.detail)
            .optional_text(halt.gtid.as_ref().map(ToString::to_string).as_deref())
            .optional_text(halt.table.as_deref())
    };
    send(tx, "recording a halt", CLOSE_OTHER_HALT, place().build(), Expect::Any).await?;
    let params = place().text(halt.reason.remedy()).build();
    send(tx, "recording a halt", RECORD_HALT, params, Expect::Rows(1)).await
}

/// The highest row of the only applier.
const READ: &str = "\
    SELECT c.seq, c.processed, c.pooled, c.last_gtid, c.last_original_commit_micros, \
        c.last_immediate_commit_micros, c.last_transaction_length, p.source_server_uuid::text, p.replica_uuid::text \
    FROM tidegate.pipeline p JOIN tidegate.checkpoint c ON c.pipeline = p.name AND c.applier = 0 \
    WHERE p.name = $1::text ORDER BY c.seq DESC LIMIT 1";

/// The same, waiting for whoever holds the row.
const READ_FOR_UPDATE: &str = "\
    SELECT c.seq, c.processed, c.pooled, c.last_gtid, c.last_original_commit_micros, \
        c.last_immediate_commit_micros, c.last_transaction_length, p.source_server_uuid::text, p.replica_uuid::text \
    FROM tidegate.pipeline p JOIN tidegate.checkpoint c ON c.pipeline = p.name AND c.applier = 0 \
    WHERE p.name = $1::text ORDER BY c.seq DESC LIMIT 1 FOR UPDATE";

/// Reads the checkpoint without taking over: for status. `None` when there is no such pipeline.
pub async fn read(client: &Client, pipeline: &str) -> Result<Option<Checkpoint>, Failure> {
    client.query_opt(READ, &[&pipeline]).await.map_err(while_doing(READING)).and_then(from_result)
}

/// Reads the checkpoint inside a take-over.
pub(super) async fn read_for_update(
    replies: &Replies,
    tx: &tokio_postgres::Transaction<'_>,
    pipeline: &str,
) -> Result<Option<Checkpoint>, Failure> {
    let read = replies.wait(tx.query_opt(READ_FOR_UPDATE, &[&pipeline])).await;
    read.map_err(while_doing(READING)).and_then(from_result)
}

const READING: &str = "reading the checkpoint";

fn from_result(row: Option<Row>) -> Result<Option<Checkpoint>, Failure> {
    let Some(row) = row else { return Ok(None) };
    let checkpoint = from_row(&row).map_err(while_doing(READING))?;
    Ok(Some(checkpoint.ok_or_else(|| control_schema_invalid("the checkpoint"))?))
}

/// `None` when a column holds what was never written.
fn from_row(row: &Row) -> Result<Option<Checkpoint>, tokio_postgres::Error> {
    let processed = row.try_get::<_, Option<&str>>(1)?.map(str::parse::<GtidSet>).transpose();
    let pooled = row.try_get::<_, &str>(2)?.parse::<GtidSet>();
    let last = last_from_row(row)?;
    let source = row.try_get::<_, Option<&str>>(7)?.map(str::parse::<Uuid>).transpose();
    let replica = row.try_get::<_, &str>(8)?.parse::<Uuid>();
    let (Ok(processed), Ok(pooled), Some(last), Ok(source_server_uuid), Ok(replica_uuid)) =
        (processed, pooled, last, source, replica)
    else {
        return Ok(None);
    };
    let position = processed.map(|processed| Position { processed, pooled, last });
    Ok(Some(Checkpoint { seq: row.try_get(0)?, position, source_server_uuid, replica_uuid }))
}

/// Outer `None`: not a GTID, or one without its fingerprint.
#[allow(clippy::option_option)]
fn last_from_row(row: &Row) -> Result<Option<Option<(Gtid, Fingerprint)>>, tokio_postgres::Error> {
    let Some(gtid) = row.try_get::<_, Option<&str>>(3)? else { return Ok(Some(None)) };
    let numbers: [Option<i64>; 3] = [row.try_get(4)?, row.try_get(5)?, row.try_get(6)?];
    let [Some(original), Some(immediate), Some(length)] =
        numbers.map(|number| number.and_then(|n| u64::try_from(n).ok()))
    else {
        return Ok(None);
    };
    let fingerprint = Fingerprint {
        original_commit_micros: original,
        immediate_commit_micros: immediate,
        transaction_length: length,
    };
    Ok(gtid.parse().ok().map(|gtid| Some((gtid, fingerprint))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::unit::Changes;

    fn unit(gno: u64, overlap_pending: bool) -> Unit {
        let gtid = format!("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:{gno}").parse().unwrap();
        let fingerprint = Fingerprint {
            original_commit_micros: gno,
            immediate_commit_micros: gno,
            transaction_length: gno,
        };
        let changes = Changes::default();
        Unit::Transaction(Transaction { gtid, fingerprint, changes, overlap_pending, resolves: None })
    }

    #[test]
    fn what_a_resume_has_to_compare_is_kept_until_it_was() {
        let mut position = Position::default();
        let mut last = Vec::new();
        for unit in [unit(1, false), unit(5, true), unit(6, true), unit(7, false)] {
            position.advance(&unit);
            last.push(position.last.as_ref().map(|(gtid, _)| gtid.gno()));
        }
        assert_eq!(last, [Some(1), Some(1), Some(1), Some(7)]);
        assert_eq!(position.processed.len(), 4);
    }
}
