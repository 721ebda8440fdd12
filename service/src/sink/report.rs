//! What the control schema says of a pipeline, for `tidegate status` and `tidegate halts` when
//! no process can be asked.

use tokio_postgres::Row;

use super::checkpoint::{self, Checkpoint};
use super::client::Client;
use super::connect::log_in;
use super::conversions::{self, Conversion};
use super::error::while_doing;
use super::migrate;
use super::table_state::{self, TableState};
use crate::config::TargetConfig;
use crate::halt::{Failure, Side};

const DOING: &str = "reading the control schema";

const OLDER: &str = "the control schema is that of an earlier release: `tidegate run` of this one brings it up to \
    date; until then ask with the release that runs";

/// Halts shown: an operator looks at the latest, and a table of years must not fill a terminal.
const HALTS_MAX: i64 = 100;

/// A pipeline as of its latest commit.
#[derive(Debug)]
pub struct Report {
    pub checkpoint: Checkpoint,
    /// In name order.
    pub tables: Vec<TableState>,
    /// Latest first, at most one hundred.
    pub halts: Vec<RecordedHalt>,
    /// In name order.
    pub conversions: Vec<Conversion>,
}

/// A row of `tidegate.halt`. Times are as PostgreSQL prints them in UTC.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct RecordedHalt {
    pub reason: String,
    pub detail: String,
    pub gtid: Option<String>,
    pub table: Option<String>,
    pub remedy: String,
    pub since: String,
    pub last_at: String,
    pub times: i64,
    pub cleared_at: Option<String>,
}

const READ_HALTS: &str = "\
    SELECT reason, detail, gtid, source_table, remedy, since::text, last_at::text, times, cleared_at::text \
    FROM tidegate.halt WHERE pipeline = $1::text ORDER BY id DESC LIMIT $2::int8";

/// Reads a pipeline's state. `None` when the target knows no such pipeline.
///
/// # Errors
/// Failures of the target, and a control schema of another release.
pub async fn read(client: &Client, pipeline: &str) -> Result<Option<Report>, Failure> {
    if !has_control_schema(client).await? {
        return Ok(None);
    }
    if !migrate::is_current(client).await? {
        return Err(Failure::retry(Side::Target, OLDER));
    }
    let Some(checkpoint) = checkpoint::read(client, pipeline).await? else { return Ok(None) };
    let tables = table_state::load(client, pipeline).await?;
    let rows = client.query(READ_HALTS, &[&pipeline, &HALTS_MAX]).await.map_err(while_doing(DOING))?;
    let halts = rows.iter().map(halt).collect::<Result<_, _>>().map_err(while_doing(DOING))?;
    let conversions = conversions::load(client, pipeline).await?;
    Ok(Some(Report { checkpoint, tables, halts, conversions }))
}

/// Whether the pipeline has copied its tables once and has a position to go on from.
pub async fn has_position(config: &TargetConfig, pipeline: &str) -> Result<bool, Failure> {
    let client = log_in(config).await?;
    if !has_control_schema(&client).await? {
        return Ok(false);
    }
    let checkpoint = checkpoint::read(&client, pipeline).await?;
    Ok(checkpoint.is_some_and(|checkpoint| checkpoint.position.is_some()))
}

async fn has_control_schema(client: &Client) -> Result<bool, Failure> {
    let sql = "SELECT to_regclass('tidegate.halt') IS NOT NULL";
    let row = client.query_one(sql, &[]).await.map_err(while_doing(DOING))?;
    row.try_get(0).map_err(while_doing(DOING))
}

fn halt(row: &Row) -> Result<RecordedHalt, tokio_postgres::Error> {
    Ok(RecordedHalt {
        reason: row.try_get(0)?,
        detail: row.try_get(1)?,
        gtid: row.try_get(2)?,
        table: row.try_get(3)?,
        remedy: row.try_get(4)?,
        since: row.try_get(5)?,
        last_at: row.try_get(6)?,
        times: row.try_get(7)?,
        cleared_at: row.try_get(8)?,
    })
}
