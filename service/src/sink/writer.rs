//! Taking over a pipeline, and the connection that owns it from then on.

use std::collections::BTreeSet;

use tokio_postgres::{IsolationLevel, Row, Transaction};

use super::checkpoint::{self, Batch, Checkpoint, ChunkDone, ColumnChanges, Position, Progress, commit};
use super::client::{Client, Replies};
use super::conversions::{self, Conversion};
use super::error::{control_schema_invalid, while_doing};
use super::migrate::{self, LOCK_POLL, lock_key, try_lock};
use super::session::{Fence, Session};
use super::table_state::{self, TableState};
use super::transaction::{FencedTransaction, OpError};
use crate::fold::xa::XidDigest;
use crate::gtid::{Gtid, Uuid};
use crate::halt::{Failure, Halt};
use crate::schema::TableName;
use crate::schema::phase::TablePhase;

/// The one writer of a pipeline.
pub struct Writer {
    session: Session,
    fence: Fence,
    checkpoint: Checkpoint,
    open_halt: Option<OpenHalt>,
}

/// What decides when the open halt is past.
struct OpenHalt {
    gtid: Option<Gtid>,
    table: Option<String>,
}

const CLAIM: &str = "\
    UPDATE tidegate.pipeline \
    SET epoch = gen_random_uuid(), taken_over_at = clock_timestamp(), tidegate_version = $2::text \
    WHERE name = $1::text RETURNING epoch::text";

const CREATE: &str = "\
    INSERT INTO tidegate.pipeline (name, epoch, replica_uuid, tidegate_version) \
    VALUES ($1::text, gen_random_uuid(), gen_random_uuid(), $2::text) RETURNING epoch::text";

const CREATE_CHECKPOINT: &str =
    "INSERT INTO tidegate.checkpoint (pipeline, applier, seq) VALUES ($1::text, 0, 0)";

const READ_OPEN_HALT: &str =
    "SELECT gtid, source_table FROM tidegate.halt WHERE pipeline = $1::text AND cleared_at IS NULL";

const READ_STARTUP_XIDS: &str = "SELECT xid_sha256 FROM tidegate.startup_xid WHERE pipeline = $1::text";

const READ_CHUNKS: &str = "\
    SELECT chunk, bounds::text, rows FROM tidegate.snapshot_chunk \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text ORDER BY chunk";

impl Writer {
    /// Takes over the pipeline: waits until no other process holds it, migrates the control
    /// schema, and fences off every earlier writer.
    ///
    /// `on_standby` is called before each pause while another process holds the pipeline (or runs
    /// an older control schema). That wait has no bound: a standby waits for years. Dropping the
    /// future gives up.
    ///
    /// # Errors
    /// `checkpoint_invalid` when the control schema is newer or damaged; failures of the target.
    pub async fn take_over(
        mut client: Client,
        pipeline: &str,
        max_in_flight: usize,
        mut on_standby: impl FnMut(),
    ) -> Result<Self, Failure> {
        let key = lock_key(&format!("pipeline/{pipeline}"));
        while !try_lock(&client, "SELECT pg_try_advisory_lock($1)", key).await? {
            on_standby();
            tokio::time::sleep(LOCK_POLL).await;
        }
        migrate::run(&mut client, &mut on_standby).await?;
        migrate::hold_current(&client).await?;
        let (epoch, checkpoint) = claim(&mut client, pipeline).await?;
        let open_halt = read_open_halt(&client, pipeline).await?;
        let fence = Fence { pipeline: pipeline.into(), epoch: epoch.into() };
        Ok(Self { session: Session::new(client, max_in_flight), fence, checkpoint, open_halt })
    }

    /// The position and identity as of the latest commit.
    #[must_use]
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// For the sessions that copy in parallel: see [`super::copy::ChunkWriter`].
    #[must_use]
    pub const fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The connection, for reads between transactions.
    #[must_use]
    pub const fn client(&self) -> &Client {
        self.session.client()
    }

    /// Every table of the pipeline, detached ones included, in name order.
    pub async fn load_tables(&self) -> Result<Vec<TableState>, Failure> {
        table_state::load(self.client(), self.fence.pipeline()).await
    }

    /// The ledger of converted values.
    pub async fn load_conversions(&self) -> Result<Vec<Conversion>, Failure> {
        conversions::load(self.client(), self.fence.pipeline()).await
    }

    /// The chunks of a table's copy that are done, in chunk order.
    pub async fn done_chunks(&self, table: &TableName) -> Result<Vec<ChunkDone>, Failure> {
        let doing = "reading the chunks done";
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&self.fence.pipeline(), &table.database, &table.table];
        let rows = self.client().query(READ_CHUNKS, &params).await.map_err(while_doing(doing))?;
        let mut chunks = Vec::with_capacity(rows.len());
        for row in rows {
            let chunk: i32 = row.try_get(0).map_err(while_doing(doing))?;
            let bounds: &str = row.try_get(1).map_err(while_doing(doing))?;
            let count: i64 = row.try_get(2).map_err(while_doing(doing))?;
            let (Ok(chunk), Ok(bounds), Ok(rows)) =
                (u32::try_from(chunk), serde_json::from_str(bounds), u64::try_from(count))
            else {
                return Err(control_schema_invalid("a chunk").into());
            };
            chunks.push(ChunkDone { table: table.clone(), chunk, bounds, rows });
        }
        Ok(chunks)
    }

    /// Saves table states, new or known, in one commit.
    pub async fn save_tables(&mut self, tables: &[TableState]) -> Result<(), Failure> {
        let clears_halt = self.open_halt.as_ref().is_some_and(|halt| halt.is_past_tables(tables));
        self.commit_alone(&Progress::Tables { tables, clears_halt }).await?;
        if clears_halt {
            self.open_halt = None;
        }
        Ok(())
    }

    /// Records the source's server_uuid: at the first capture, and after a failover.
    pub async fn set_source(&mut self, server_uuid: Uuid) -> Result<(), Failure> {
        self.commit_alone(&Progress::Source(&server_uuid)).await?;
        self.checkpoint.source_server_uuid = Some(server_uuid);
        Ok(())
    }

    /// Records a new server together with the position as it is on that one.
    pub async fn follow(&mut self, server_uuid: Uuid, position: Position) -> Result<(), Failure> {
        self.commit_position(position, Some(&server_uuid), &[]).await?;
        self.checkpoint.source_server_uuid = Some(server_uuid);
        Ok(())
    }

    /// Gives the pipeline its first position, with the states of the tables it belongs to, in one
    /// commit.
    pub async fn set_position(&mut self, position: Position, tables: &[TableState]) -> Result<(), Failure> {
        self.commit_position(position, None, tables).await
    }

    async fn commit_position(
        &mut self,
        position: Position,
        source: Option<&Uuid>,
        tables: &[TableState],
    ) -> Result<(), Failure> {
        let batch = Batch { source, tables, ..self.batch(&position) };
        let tx = self.session.begin(&self.fence).await.map_err(OpError::into_failure)?;
        commit(tx, &Progress::Batch(&batch)).await.map_err(checkpoint::CommitError::into_failure)?;
        self.committed(position);
        Ok(())
    }

    /// Adds to the XA transactions that may be resolved without having been prepared in the stream.
    pub async fn add_startup_xids(&mut self, xids: &BTreeSet<XidDigest>) -> Result<(), Failure> {
        if xids.is_empty() { Ok(()) } else { self.commit_alone(&Progress::StartupXids(xids)).await }
    }

    /// XA transactions that may be resolved without having been prepared in the stream.
    pub async fn startup_xids(&self) -> Result<BTreeSet<XidDigest>, Failure> {
        let doing = "reading the prepared XA transactions";
        let pipeline = self.fence.pipeline();
        let rows = self.client().query(READ_STARTUP_XIDS, &[&pipeline]).await.map_err(while_doing(doing))?;
        let digest = |row: &Row| {
            let bytes: &[u8] = row.try_get(0).map_err(while_doing(doing))?;
            let bytes = bytes.try_into().map_err(|_| control_schema_invalid("a prepared XA transaction"))?;
            Ok(XidDigest::from_bytes(bytes))
        };
        rows.iter().map(digest).collect()
    }

    /// Records a halt, or counts on the open one at the same place.
    pub async fn record_halt(&mut self, halt: &Halt) -> Result<(), Failure> {
        self.commit_alone(&Progress::Halt(halt)).await?;
        self.open_halt = Some(OpenHalt { gtid: halt.gtid.clone(), table: halt.table.clone() });
        Ok(())
    }

    /// Opens a transaction of this pipeline.
    pub(super) async fn begin(&mut self) -> Result<FencedTransaction<'_>, OpError> {
        self.session.begin(&self.fence).await
    }

    /// A batch that moves to `position` and nothing else.
    pub(super) fn batch<'a>(&self, position: &'a Position) -> Batch<'a> {
        let clears_halt = self.open_halt.as_ref().is_some_and(|halt| halt.is_past(position));
        Batch {
            seq: self.checkpoint.seq,
            position,
            source: None,
            streaming: &[],
            removed: &[],
            tables: &[],
            changes: &[],
            columns: ColumnChanges::default(),
            resolved_xids: &[],
            clears_halt,
        }
    }

    /// A batch built by [`Writer::batch`] has been committed.
    pub(super) fn committed(&mut self, position: Position) {
        self.checkpoint.seq += 1;
        if self.open_halt.as_ref().is_some_and(|halt| halt.is_past(&position)) {
            self.open_halt = None;
        }
        self.checkpoint.position = Some(position);
    }

    async fn commit_alone(&mut self, progress: &Progress<'_>) -> Result<(), Failure> {
        let tx = self.begin().await.map_err(OpError::into_failure)?;
        commit(tx, progress).await.map_err(checkpoint::CommitError::into_failure)
    }
}

impl OpenHalt {
    /// A halt at a transaction is past once that is processed; another one once the stream moves.
    fn is_past(&self, position: &Position) -> bool {
        self.gtid
            .as_ref()
            .is_none_or(|gtid| position.processed.contains(gtid) || position.pooled.contains(gtid))
    }

    /// A halt of a table's copy is past once that table's rows are being copied.
    fn is_past_tables(&self, tables: &[TableState]) -> bool {
        let copies =
            |phase| !matches!(phase, TablePhase::Pending | TablePhase::Capturing | TablePhase::Halted);
        let is_halted_table = |table: &TableState| {
            let TableName { database, table } = table.name();
            self.table.as_deref() == Some(&format!("{database}.{table}"))
        };
        self.gtid.is_none() && tables.iter().any(|table| is_halted_table(table) && copies(table.phase))
    }
}

/// Makes this process the pipeline's only writer. The UPDATE waits for every transaction that
/// holds the row, so that the checkpoint read after it is what became of the last one.
async fn claim(client: &mut Client, pipeline: &str) -> Result<(String, Checkpoint), Failure> {
    let doing = "taking over the pipeline";
    let replies = client.replies();
    let begin = client.untimed_mut().build_transaction().isolation_level(IsolationLevel::ReadCommitted);
    let tx = replies.wait(begin.start()).await.map_err(while_doing(doing))?;
    let release = env!("CARGO_PKG_VERSION");
    let claimed = replies.wait(tx.query_opt(CLAIM, &[&pipeline, &release])).await;
    let row = match claimed.map_err(while_doing(doing))? {
        Some(row) => row,
        None => create(&replies, &tx, pipeline, release).await?,
    };
    let epoch: String = row.try_get(0).map_err(while_doing(doing))?;
    let checkpoint = checkpoint::read_for_update(&replies, &tx, pipeline).await?;
    let checkpoint = checkpoint.ok_or_else(|| control_schema_invalid("the checkpoint"))?;
    replies.wait(tx.commit()).await.map_err(while_doing(doing))?;
    Ok((epoch, checkpoint))
}

async fn create(
    replies: &Replies,
    tx: &Transaction<'_>,
    pipeline: &str,
    release: &str,
) -> Result<Row, Failure> {
    let doing = "creating the pipeline";
    let created = replies.wait(tx.query_one(CREATE, &[&pipeline, &release])).await;
    let row = created.map_err(while_doing(doing))?;
    replies.wait(tx.execute(CREATE_CHECKPOINT, &[&pipeline])).await.map_err(while_doing(doing))?;
    Ok(row)
}

async fn read_open_halt(client: &Client, pipeline: &str) -> Result<Option<OpenHalt>, Failure> {
    let doing = "reading the open halt";
    let Some(row) = client.query_opt(READ_OPEN_HALT, &[&pipeline]).await.map_err(while_doing(doing))? else {
        return Ok(None);
    };
    let gtid: Option<&str> = row.try_get(0).map_err(while_doing(doing))?;
    let gtid = gtid.map(str::parse).transpose().map_err(|_| control_schema_invalid("a halt's GTID"))?;
    Ok(Some(OpenHalt { gtid, table: row.try_get(1).map_err(while_doing(doing))? }))
}
