//! Bringing one table to `catching_up`: capture, copy, and again where the source's table was
//! changed meanwhile.
//!
//! Every attempt starts from what is stored, whether it follows a crash, a lost connection or a
//! disturbance.

use std::sync::Arc;

use futures_util::future::try_join_all;
use mysql_async::Conn;
use tokio::time::Instant;

use super::copy::{self, Ended, Job};
use super::plan::{Chunk, Facts, Plan, Start};
use super::watch::{KeptLock, Watch};
use super::{Run, ddl, label, landmarks};
use crate::fold::unit::Landmark;
use crate::gtid::{Gtid, GtidSet};
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::phase::TablePhase;
use crate::schema::recorded::{keeps_copy, with_targets};
use crate::schema::types::{TypeContext, may_become_boolean, target_type};
use crate::schema::{TableModel, TableName, TargetType};
use crate::sink::copy::{ChunkWriter, Copied};
use crate::sink::table_state::TableState;
use crate::sink::{self, catalog};
use crate::source::capture::{Terms, View, capture, open, settled_set};
use crate::source::reader::chunk::KeyBound;
use crate::source::reader::{self, chunk};

/// How an attempt ended that did not fail.
enum Attempt {
    Copied,
    /// The table has to be captured again.
    Disturbed(&'static str),
}

const TABLE_CHANGED: Attempt = Attempt::Disturbed("its definition was changed during the copy");
const STATEMENT_WAITING: Attempt = Attempt::Disturbed("a statement waited for the copy to let go of it");

/// Copies one table, or the rest of it.
///
/// # Errors
/// `snapshot_interrupted` after `snapshot.max_captures` attempts, and whatever fails one of them.
pub(super) async fn bring_to_copied(run: &mut Run<'_>, mut state: TableState) -> Result<(), Failure> {
    let captures = run.config.snapshot.max_captures;
    let mut last = "";
    for _ in 0..captures {
        match attempt(run, &mut state).await.map_err(|failure| on_table(failure, state.name()))? {
            Attempt::Copied => return Ok(()),
            Attempt::Disturbed(how) => {
                tracing::warn!(table = label(state.name()), "the table will be captured again: {how}");
                last = how;
            }
        }
    }
    let detail = format!("the table's copy was disturbed {captures} times; the last time {last}");
    Err(on_table(Halt::new(Reason::SnapshotInterrupted, detail).into(), state.name()))
}

async fn attempt(run: &mut Run<'_>, state: &mut TableState) -> Result<Attempt, Failure> {
    if has_begun(state) {
        catalog::verify(run.writer.client(), std::slice::from_ref(state)).await?;
        if stored_plan(run, state).await?.is_finished()
            && let copied @ Attempt::Copied = conclude(run, state, false).await?
        {
            return Ok(copied);
        }
    } else {
        state.phase = TablePhase::Capturing;
        run.save(state).await?;
    }
    let present = reader::table(&mut run.conn, state.name(), &run.config.types).await?.ok_or_else(gone)?;
    let views = views(run, &present).await?;
    let terms = terms(run, &present, views);
    let captured = {
        let tell = |waiting| run.tell_of_wait(state.name(), waiting);
        capture(&run.config.source, &run.server, state.name(), &terms, &tell).await?
    };
    run.observer.table(state);
    let allow_ddl_at = Instant::now() + run.config.snapshot.block_ddl_max;
    let mut watch = Watch::start(captured.guard, state.name().clone(), allow_ddl_at);
    let lock = captured.lock.map(KeptLock::new);
    let ddl_held_off = watch.ddl_held_off();
    let mut views = captured.views;
    let decided = tokio::select! {
        biased;
        disturbed = watch.disturbed() => return disturbed.map(|()| STATEMENT_WAITING),
        decided = inspect(run, state, &terms, &captured.set, &mut views, ddl_held_off.get()) => decided?,
    };
    let (Some(decided), landmarks) = decided else { return Ok(TABLE_CHANGED) };
    let captured_at = CapturedAt { set: captured.set, landmarks };
    run.keep_prepared(captured.prepared_xa).await?;
    if !ddl_held_off.get() {
        try_join_all(views.iter_mut().map(View::unpin)).await?;
    }
    let workers = views.len();
    let mut views = Some(views);
    let begun = {
        let mut begin = std::pin::pin!(begin(run, state, decided, captured_at, workers));
        loop {
            tokio::select! {
                biased;
                begun = &mut begin => break begun?,
                // What is being committed is waited for, and those who want the table are not
                // made to wait for it.
                disturbed = watch.disturbed(), if views.is_some() => {
                    disturbed?;
                    drop(views.take());
                }
            }
        }
    };
    let Some(views) = views else { return Ok(STATEMENT_WAITING) };
    let ended = copy_rows(run, state, begun, views, lock, &mut watch).await?;
    drop(watch);
    match ended {
        Ended::Complete => conclude(run, state, ddl_held_off.get()).await,
        Ended::TableChanged => Ok(TABLE_CHANGED),
        Ended::StatementWaiting => Ok(STATEMENT_WAITING),
    }
}

/// Whether chunks of the recorded snapshot set may be in the target.
fn has_begun(state: &TableState) -> bool {
    state.phase == TablePhase::Copying && state.snapshot_set.is_some()
}

/// Whether a read view freezes the table.
fn is_transactional(model: &TableModel) -> bool {
    model.engine.eq_ignore_ascii_case("InnoDB")
}

/// How many views read the table: one where there is nothing to divide.
async fn views(run: &mut Run<'_>, model: &TableModel) -> Result<usize, Failure> {
    let settings = &run.config.snapshot;
    let divides = chunk::is_divisible(model)
        && reader::has_more_rows(&mut run.conn, &model.name, settings.chunk_rows).await?;
    Ok(if divides { settings.parallelism } else { 1 })
}

fn terms(run: &Run<'_>, model: &TableModel, views: usize) -> Terms {
    let settings = &run.config.snapshot;
    Terms {
        views,
        lock_wait_timeout: settings.lock_wait_timeout,
        lock_deadline: settings.lock_deadline,
        block_ddl: settings.block_ddl,
        keep_lock: !is_transactional(model) && model.key.is_empty(),
    }
}

/// What rows of a capture show.
struct CapturedAt {
    set: GtidSet,
    landmarks: Vec<Landmark>,
}

/// How a copy begins or goes on.
enum Decided {
    /// With the present definition and the target types chosen at the beginning.
    Resume(TableModel),
    Anew(TableModel),
}

/// What is made of a capture at `set` before anything is changed, and its landmarks. May be cut off.
async fn inspect(
    run: &mut Run<'_>,
    state: &TableState,
    captured_on: &Terms,
    set: &GtidSet,
    views: &mut [View],
    ddl_held_off: bool,
) -> Result<(Option<Decided>, Vec<Landmark>), Failure> {
    if ddl_held_off {
        try_join_all(views.iter_mut().map(|view| view.pin(state.name()))).await?;
    }
    let mut conn = open(&run.config.source, &run.server).await?;
    // First: deciding may take as long as reading the table does. And one after the other: both may open
    // a dump, of one identity.
    let landmarks = run.landmarks(&mut conn, set).await?;
    Ok((decide(run, &mut conn, state, captured_on, set, views).await?, landmarks))
}

/// Decides how the copy goes on from a capture at `set`; `None` where the table is not what the
/// terms of the capture were made for. Changes nothing and may be cut off where the connection is not
/// used again.
async fn decide(
    run: &Run<'_>,
    conn: &mut Conn,
    state: &TableState,
    captured_on: &Terms,
    set: &GtidSet,
    views: &mut [View],
) -> Result<Option<Decided>, Failure> {
    let fresh = reader::table(conn, state.name(), &run.config.types).await?.ok_or_else(gone)?;
    if terms(run, &fresh, captured_on.views) != *captured_on {
        return Ok(None);
    }
    let mut facts = Facts {
        begun: has_begun(state),
        keyed: !fresh.key.is_empty(),
        same_definition: keeps_copy(&state.model, &fresh),
        no_ddl: true,
    };
    if let (Start::Resume, Some(first)) = (facts.start(), &state.snapshot_set) {
        facts.no_ddl = run.ddl_between(first, set, state.name()).await?.is_none();
    }
    Ok(Some(match facts.start() {
        Start::Resume => Decided::Resume(with_targets(fresh, &state.model)),
        Start::Anew => Decided::Anew(with_booleans(views, fresh).await?),
    }))
}

/// What the workers need of the target.
struct Begun {
    plan: Plan<KeyBound>,
    writers: Vec<ChunkWriter>,
}

/// Records how the copy goes on, and opens its connections to the target.
async fn begin(
    run: &mut Run<'_>,
    state: &mut TableState,
    decided: Decided,
    captured_at: CapturedAt,
    workers: usize,
) -> Result<Begun, Failure> {
    match decided {
        Decided::Resume(model) => {
            state.model = model;
            resume(run, state, captured_at).await?;
        }
        Decided::Anew(model) => begin_anew(run, state, model, captured_at).await?,
    }
    let plan = stored_plan(run, state).await?;
    let target = &run.config.target;
    let clients = try_join_all((0..workers).map(|_| sink::connect::connect(target))).await?;
    let fence = run.writer.fence();
    let writers = clients.into_iter().map(|client| ChunkWriter::new(client, fence.clone())).collect();
    Ok(Begun { plan, writers })
}

/// The rest of the copy is read from a later state than its beginning.
async fn resume(run: &mut Run<'_>, state: &mut TableState, captured_at: CapturedAt) -> Result<(), Failure> {
    let CapturedAt { set, landmarks } = captured_at;
    if state.snapshot_set.as_ref().is_some_and(|first| !set.includes(first)) {
        return Err(behind().into());
    }
    state.converge_set.get_or_insert_with(GtidSet::new).union_with(&set);
    landmarks::add(state, landmarks)?;
    tracing::info!(table = label(state.name()), rows_copied = state.rows_copied, "its copy goes on");
    run.save(state).await
}

async fn begin_anew(
    run: &mut Run<'_>,
    state: &mut TableState,
    model: TableModel,
    captured_at: CapturedAt,
) -> Result<(), Failure> {
    let CapturedAt { set, landmarks } = captured_at;
    let position = run.writer.checkpoint().position.as_ref();
    if position.is_some_and(|position| !set.includes(&position.processed)) {
        return Err(behind().into());
    }
    let before = std::mem::replace(&mut state.model, model);
    state.phase = TablePhase::Copying;
    state.snapshot_set = Some(set);
    state.landmarks = landmarks;
    state.converge_set = None;
    state.rows_copied = 0;
    state.provisional = false;
    state.rows_estimated = reader::rows_estimated(&mut run.conn, state.name()).await?;
    catalog::begin_copy(run.writer, state, &before, &run.config.ddl).await?;
    run.observer.conversions_forgotten(state.name());
    run.observer.table(state);
    Ok(())
}

/// The model with TINYINT(1) columns that hold nothing but 0, 1 and NULL as booleans, judged by
/// the rows that will be copied.
async fn with_booleans(views: &mut [View], mut model: TableModel) -> Result<TableModel, Failure> {
    let candidates: Vec<usize> =
        (0..model.columns.len()).filter(|&index| may_be_boolean(&model, index)).collect();
    let share = candidates.len().div_ceil(views.len().max(1)).max(1);
    let looks = views.iter_mut().zip(candidates.chunks(share)).map(|(view, share)| look(view, &model, share));
    let chosen: Vec<Vec<(usize, TargetType)>> = try_join_all(looks).await?;
    for (index, target) in chosen.into_iter().flatten() {
        if let Some(column) = model.columns.get_mut(index) {
            column.target = target;
        }
    }
    Ok(model)
}

fn may_be_boolean(model: &TableModel, index: usize) -> bool {
    model.columns.get(index).is_some_and(may_become_boolean)
}

async fn look(
    view: &mut View,
    model: &TableModel,
    columns: &[usize],
) -> Result<Vec<(usize, TargetType)>, Failure> {
    let mut chosen = Vec::new();
    for &index in columns {
        let Some(column) = model.columns.get(index) else { continue };
        let only_zero_one = chunk::only_zero_one(view.session(), &model.name, &column.name).await?;
        let context = TypeContext {
            table: &model.name,
            column: &column.name,
            only_zero_one,
            auto_increment: column.auto_increment,
        };
        chosen.push((index, target_type(&column.mysql, context)?));
    }
    Ok(chosen)
}

/// What is left by the chunks that are recorded.
async fn stored_plan(run: &Run<'_>, state: &TableState) -> Result<Plan<KeyBound>, Failure> {
    let mut done = Vec::new();
    for stored in run.writer.done_chunks(state.name()).await? {
        let range = serde_json::from_value(stored.bounds)
            .map_err(|_| Halt::new(Reason::CheckpointInvalid, "a recorded chunk can't be read"))?;
        done.push(Chunk { number: stored.chunk, range });
    }
    Ok(Plan::new(done, chunk::is_divisible(&state.model))?)
}

async fn copy_rows(
    run: &Run<'_>,
    state: &mut TableState,
    begun: Begun,
    views: Vec<View>,
    lock: Option<KeptLock>,
    watch: &mut Watch,
) -> Result<Ended, Failure> {
    let Begun { plan, writers } = begun;
    let chunk_rows = run.config.snapshot.chunk_rows;
    let policies = Arc::clone(&run.config.policies);
    let job = Job { model: state.model.clone(), policies, plan, chunk_rows, views, writers, lock };
    let (observer, name) = (run.observer, state.model.name.clone());
    let counted = |copied: Copied| {
        state.rows_copied += copied.rows;
        observer.rows_copied(&name, copied.rows);
        observer.converted(&copied.conversions);
    };
    let (ended, model) = copy::run(job, watch, counted).await?;
    // The chunks' commits hold what policies have changed of it.
    state.model = model;
    Ok(ended)
}

/// All rows are there: makes sure that they are those of one definition, and notes from which
/// position on they show one state of the source.
async fn conclude(run: &mut Run<'_>, state: &mut TableState, ddl_held_off: bool) -> Result<Attempt, Failure> {
    let name = state.name().clone();
    let Some(first) = state.snapshot_set.clone() else {
        return Err(Halt::new(Reason::Internal, "a table was copied without a snapshot set").into());
    };
    if !ddl_held_off {
        let now = reader::gtid_executed(&mut run.conn).await?;
        if run.ddl_between(&first, &now, &name).await?.is_some() {
            return Ok(TABLE_CHANGED);
        }
    }
    if !is_transactional(&state.model) && !state.model.key.is_empty() {
        let terms = terms(run, &state.model, 0);
        let tell = |waiting| run.tell_of_wait(&name, waiting);
        let settled = settled_set(&run.config.source, &run.server, &name, &terms, &tell).await?;
        let mut conn = open(&run.config.source, &run.server).await?;
        landmarks::add(state, run.landmarks(&mut conn, &settled).await?)?;
        state.converge_set.get_or_insert_with(GtidSet::new).union_with(&settled);
    }
    if let Some(converge_set) = &mut state.converge_set {
        converge_set.union_with(&first);
    }
    catalog::build_key(run.writer, state, &run.config.ddl).await?;
    state.phase = TablePhase::CatchingUp;
    run.save(state).await?;
    tracing::info!(table = label(&name), rows = state.rows_copied, "copied");
    Ok(Attempt::Copied)
}

fn gone() -> Failure {
    Failure::retry(Side::Source, "a table to be copied has gone")
}

fn behind() -> Halt {
    let detail = "the source does not have transactions that were copied or applied from it";
    Halt::new(Reason::SourceIdentityMismatch, detail)
}

fn on_table(failure: Failure, table: &TableName) -> Failure {
    match failure {
        Failure::Halt(halt) => halt.on_table(&table.database, &table.table).into(),
        retry @ Failure::Retry { .. } => retry,
    }
}

impl Run<'_> {
    /// Looks for DDL on the table between two sets.
    async fn ddl_between(
        &self,
        from: &GtidSet,
        until: &GtidSet,
        table: &TableName,
    ) -> Result<Option<Gtid>, Failure> {
        // The stream has not begun: its identity is free.
        let replica_uuid = self.writer.checkpoint().replica_uuid;
        ddl::on_table_between(self.config, &replica_uuid, from, until, table).await
    }
}
