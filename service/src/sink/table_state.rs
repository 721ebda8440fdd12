//! The persisted state of a replicated table: one row of `tidegate.table_state`.

use tokio_postgres::Row;

use super::checkpoint::Position;
use super::client::Client;
use super::error::{control_schema_invalid, while_doing};
use super::params::{Params, ParamsBuilder};
use crate::fold::unit::Landmark;
use crate::gtid::GtidSet;
use crate::halt::{Failure, Halt, Reason};
use crate::schema::details::TableDetails;
use crate::schema::diff::Uniqueness;
use crate::schema::phase::TablePhase;
use crate::schema::render::target_name;
use crate::schema::{TableModel, TableName};

/// Whose the target's table is: what may be done with it when the source's table changes or ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ownership {
    /// Not this pipeline's, if there is one at all.
    #[default]
    Unclaimed,
    /// It was there, fit and empty, when the first copy began: its rows are the pipeline's, the
    /// table is its maker's.
    Adopted,
    /// The pipeline created it and may drop it.
    Created,
}

impl Ownership {
    const ALL: [Self; 3] = [Self::Unclaimed, Self::Adopted, Self::Created];

    /// The name stored.
    const fn name(self) -> &'static str {
        match self {
            Self::Unclaimed => "unclaimed",
            Self::Adopted => "adopted",
            Self::Created => "created",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ownership| ownership.name() == name)
    }
}

/// A replicated table as of the position.
#[derive(Debug, Clone, PartialEq)]
pub struct TableState {
    pub model: TableModel,
    pub phase: TablePhase,
    /// Transactions whose effects the copied rows hold: the stream applies the others.
    pub snapshot_set: Option<GtidSet>,
    /// What the captures that the rows are from ended with.
    pub landmarks: Vec<Landmark>,
    /// What the processed set must include before the table shows one state of the source.
    pub converge_set: Option<GtidSet>,
    pub target_schema: String,
    pub target_table: String,
    /// Rows of the chunks done. Counted by the chunks' own commits; saving a state keeps it.
    pub rows_copied: u64,
    pub rows_estimated: Option<u64>,
    pub ownership: Ownership,
    /// The model was read from the source later than the table's creation in the stream. The first
    /// table map confirms it; where it does not, the table is copied again.
    pub provisional: bool,
}

impl TableState {
    /// A table of which nothing is copied yet, with the target's name that its own gives.
    ///
    /// # Errors
    /// `unsupported_name`.
    pub fn new(model: TableModel, phase: TablePhase) -> Result<Self, Halt> {
        let (target_schema, target_table) = {
            let (schema, table) = target_name(&model.name)?;
            (schema.to_owned(), table.to_owned())
        };
        Ok(Self {
            model,
            phase,
            snapshot_set: None,
            landmarks: Vec::new(),
            converge_set: None,
            target_schema,
            target_table,
            rows_copied: 0,
            rows_estimated: None,
            ownership: Ownership::Unclaimed,
            provisional: false,
        })
    }

    /// A table of which no more than the name is known.
    ///
    /// # Errors
    /// `unsupported_name`.
    pub fn unknown(name: TableName, phase: TablePhase) -> Result<Self, Halt> {
        let (columns, key, engine) = (Vec::new(), Vec::new(), String::new());
        let (key_is_primary, default_charset) = (false, None);
        let details = TableDetails::default();
        Self::new(TableModel { name, columns, key, key_is_primary, engine, default_charset, details }, phase)
    }

    #[must_use]
    pub const fn name(&self) -> &TableName {
        &self.model.name
    }

    /// The target's table as `schema.table`, for people.
    #[must_use]
    pub fn target(&self) -> String {
        format!("{}.{}", self.target_schema, self.target_table)
    }

    /// The unique indexes that the target's table may have: that of the key once its rows are there,
    /// and those of the source once these are of one time, as they are from the start where one
    /// capture gave them all.
    #[must_use]
    pub fn uniqueness(&self) -> Uniqueness {
        match self.phase {
            TablePhase::Streaming => Uniqueness::OfSource,
            TablePhase::CatchingUp if self.converge_set.is_none() => Uniqueness::OfSource,
            TablePhase::CatchingUp => Uniqueness::OfKey,
            _ => Uniqueness::OfKeyIfAny,
        }
    }

    /// Whether a table that is catching up shows one state of the source at `position`. Prepared XA
    /// transactions count as reached: its copy has waited for those that had touched it.
    #[must_use]
    pub fn has_converged(&self, position: &Position) -> bool {
        let needed = self.converge_set.as_ref().or(self.snapshot_set.as_ref());
        self.phase == TablePhase::CatchingUp && needed.is_some_and(|set| position.reaches(set))
    }
}

/// Inserts or replaces all that the owner of the table decides; `rows_copied` of a table on record
/// is the chunks'.
pub(super) const SAVE: &str = "\
    INSERT INTO tidegate.table_state AS t (pipeline, source_database, source_table, state, snapshot_set, \
        converge_set, target_schema, target_table, model, rows_estimated, ownership, provisional, rows_copied, landmarks) \
    VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, \
        $9::text::jsonb, $10::int8, $11::text, $12::text::boolean, $13::int8, $14::text::jsonb) \
    ON CONFLICT (pipeline, source_database, source_table) DO UPDATE SET \
        state = EXCLUDED.state, snapshot_set = EXCLUDED.snapshot_set, converge_set = EXCLUDED.converge_set, \
        target_schema = EXCLUDED.target_schema, target_table = EXCLUDED.target_table, \
        model = EXCLUDED.model, rows_estimated = EXCLUDED.rows_estimated, \
        ownership = EXCLUDED.ownership, provisional = EXCLUDED.provisional, landmarks = EXCLUDED.landmarks, \
        updated_at = clock_timestamp()";

pub(super) const MARK_STREAMING: &str = "\
    UPDATE tidegate.table_state SET state = 'streaming', updated_at = clock_timestamp() \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text";

pub(super) const FORGET_CHUNKS: &str = "\
    DELETE FROM tidegate.snapshot_chunk \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text";

pub(super) const REMOVE: &str = "\
    DELETE FROM tidegate.table_state \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text";

pub(super) const RESET_ROWS_COPIED: &str = "\
    UPDATE tidegate.table_state SET rows_copied = 0 \
    WHERE pipeline = $1::text AND source_database = $2::text AND source_table = $3::text";

const LOAD: &str = "\
    SELECT source_database, source_table, state, snapshot_set, converge_set, target_schema, target_table, \
        model::text, rows_copied, rows_estimated, ownership, provisional, landmarks::text \
    FROM tidegate.table_state WHERE pipeline = $1::text ORDER BY source_database, source_table";

/// Parameters of [`SAVE`].
pub(super) fn save_params(pipeline: &str, state: &TableState) -> Result<Params, Halt> {
    let model = serde_json::to_string(&state.model)
        .map_err(|_| Halt::new(Reason::Internal, "a table model can't be written as JSON"))?;
    let landmarks = serde_json::to_string(&state.landmarks)
        .map_err(|_| Halt::new(Reason::Internal, "a landmark can't be written as JSON"))?;
    let estimate = state.rows_estimated.map(i64::try_from).transpose();
    let estimate = estimate.map_err(|_| Halt::new(Reason::Internal, "an estimate of rows is beyond 2^63"))?;
    let copied = i64::try_from(state.rows_copied)
        .map_err(|_| Halt::new(Reason::Internal, "a count of rows is beyond 2^63"))?;
    Ok(name_params(pipeline, state.name())
        .text(state.phase.name())
        .optional_text(state.snapshot_set.as_ref().map(ToString::to_string).as_deref())
        .optional_text(state.converge_set.as_ref().map(ToString::to_string).as_deref())
        .text(&state.target_schema)
        .text(&state.target_table)
        .text(&model)
        .optional_int8(estimate)
        .text(state.ownership.name())
        .text(if state.provisional { "true" } else { "false" })
        .int8(copied)
        .text(&landmarks)
        .build())
}

/// Pipeline, database and table: what every statement on a table's rows starts with.
pub(super) fn name_params(pipeline: &str, name: &TableName) -> ParamsBuilder {
    ParamsBuilder::default().text(pipeline).text(&name.database).text(&name.table)
}

/// Every table of the pipeline, detached ones included, in name order.
pub async fn load(client: &Client, pipeline: &str) -> Result<Vec<TableState>, Failure> {
    let rows = client.query(LOAD, &[&pipeline]).await.map_err(while_doing("reading table states"))?;
    rows.iter().map(|row| read(row)?.ok_or_else(|| control_schema_invalid("a table state").into())).collect()
}

/// `None` when a column holds what was never written.
fn read(row: &Row) -> Result<Option<TableState>, Failure> {
    read_columns(row).map_err(while_doing("reading table states"))
}

fn read_columns(row: &Row) -> Result<Option<TableState>, tokio_postgres::Error> {
    let name = TableName { database: row.try_get(0)?, table: row.try_get(1)? };
    let phase = TablePhase::from_name(row.try_get(2)?);
    let sets = [set(row.try_get(3)?), set(row.try_get(4)?)];
    let (target_schema, target_table) = (row.try_get(5)?, row.try_get(6)?);
    let model = serde_json::from_str::<TableModel>(row.try_get(7)?).ok();
    let rows_copied = u64::try_from(row.try_get::<_, i64>(8)?).ok();
    let rows_estimated = row.try_get::<_, Option<i64>>(9)?.map(u64::try_from).transpose().ok();
    let ownership = Ownership::from_name(row.try_get(10)?);
    let landmarks = serde_json::from_str::<Vec<Landmark>>(row.try_get(12)?).ok();
    let (
        [Some(snapshot_set), Some(converge_set)],
        Some(landmarks),
        Some(phase),
        Some(model),
        Some(ownership),
    ) = (sets, landmarks, phase, model, ownership)
    else {
        return Ok(None);
    };
    let (Some(rows_copied), Some(rows_estimated)) = (rows_copied, rows_estimated) else { return Ok(None) };
    if model.name != name {
        return Ok(None);
    }
    Ok(Some(TableState {
        model,
        phase,
        snapshot_set,
        landmarks,
        converge_set,
        target_schema,
        target_table,
        rows_copied,
        rows_estimated,
        ownership,
        provisional: row.try_get(11)?,
    }))
}

/// Outer `None`: not a GTID set.
#[allow(clippy::option_option)]
fn set(text: Option<&str>) -> Option<Option<GtidSet>> {
    text.map(str::parse).transpose().ok()
}
