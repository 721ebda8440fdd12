//! One attempt: take over, check, copy what is not copied, stream.

use std::collections::BTreeSet;
use std::sync::Arc;

use mysql_async::Conn;

use super::stream::End;
use super::witness::Witness;
use super::{Context, continuity, stream};
use crate::config::Config;
use crate::fold::spill::Spill;
use crate::fold::unit::Landmark;
use crate::fold::xa::XidDigest;
use crate::fold::{Fold, FoldPolicy};
use crate::halt::{Failure, Halt, Reason};
use crate::preflight::Finding;
use crate::schema::partitions::other_choice;
use crate::schema::phase::TablePhase;
use crate::schema::{TableModel, TableName};
use crate::sink::apply::Applier;
use crate::sink::conversions::Conversion;
use crate::sink::objects::{self, Attempt};
use crate::sink::table_state::{Ownership, TableState};
use crate::sink::writer::Writer;
use crate::sink::{self, catalog};
use crate::snapshot;
use crate::source::capture::{Waiting, other_server};
use crate::source::dump::Dump;
use crate::source::{self, reader, xa};
use crate::status::{ConversionReport, State, StatusHandle};

/// What a cycle achieved, for the retry budgets.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Both servers accepted us and passed the checks.
    pub(super) established: bool,
    /// Something was committed.
    pub(super) committed: bool,
}

/// Runs until the stop is requested, tables have to be copied, or something fails.
pub(super) async fn run(context: &Context, progress: &mut Progress) -> Result<End, Failure> {
    let opening = open(context, progress);
    let stopped = context.shutdown.requested();
    let opened = tokio::select! {
        biased;
        opened = opening => opened?,
        () = stopped => return Ok(End::Stopped),
    };
    stream::run(context, opened, progress).await
}

/// Everything that has to be true before the stream starts.
async fn open(context: &Context, progress: &mut Progress) -> Result<stream::Opened, Failure> {
    let config = &context.config;
    context.status.enter(State::Starting);
    let client = sink::connect::connect(&config.target).await?;
    let mut writer = context.take_over(client).await?;
    let types = sink::postgis::types_for(writer.client(), &config.types).await?;
    let config = &Config { types, ..config.clone() };
    let mut conn = source::connect::connect(&config.source).await?;
    preflight(context, config, &mut conn, &writer).await?;
    progress.established = true;
    let identity = source::connect::identity(&mut conn).await?;
    detach_excluded(context, &mut writer).await?;
    publish_tables(&context.status, &writer.load_tables().await?);
    publish_conversions(&context.status, &writer).await?;
    copy(context, config, &mut writer, &mut conn, progress).await?;
    let resume = continuity::check(&config.source, &mut conn, &mut writer, &identity).await?;
    mark_converged(&mut writer).await?;
    let states = writer.load_tables().await?;
    let lock_timeout = config.ddl.lock_wait_timeout;
    let tables: Vec<&TableState> = states.iter().collect();
    let built = objects::build(&mut writer, &tables, Attempt::All, lock_timeout).await?;
    publish_objects(&context.status, &writer).await?;
    catalog::verify(writer.client(), &states).await?;
    publish_tables(&context.status, &states);
    let dump = Dump::open(&config.source, &resume.replica_uuid, &resume.dump_set).await?;
    if *dump.server_uuid() != identity.server_uuid {
        return Err(other_server());
    }
    let (models, _) = reader::describe(&mut conn, &context.filter, &config.types).await?;
    refuse_other_partitions(&states, &models)?;
    let caught_up_at = reader::gtid_executed(&mut conn).await?;
    let policy = FoldPolicy {
        filter: context.filter.clone(),
        xa: config.fold.xa,
        cascades: source::preflight::cascades(&mut conn, &context.filter).await?,
        max_buffer_bytes: config.fold.max_buffer_bytes,
        spill: Arc::clone(&context.spill) as Arc<dyn Spill>,
    };
    let startup = startup_xids(&mut conn, &mut writer).await?;
    let last = resume.overlap.as_ref().map(|overlap| (overlap.gtid.clone(), overlap.fingerprint.clone()));
    let stream = writer.checkpoint().replica_uuid;
    let witness = Witness::new(config.source.clone(), stream, identity.server_uuid, last);
    let fold = Fold::new(resume.processed, resume.overlap, policy)
        .with_landmarks(identity.server_uuid, landmarks(&states))
        .with_startup_xids(startup)
        .with_system_time_zone(reader::system_time_zone(&mut conn).await?);
    let (ddl, types, policies) = (config.ddl.clone(), config.types.clone(), Arc::clone(&config.policies));
    let mut applier = Applier::new(writer, states, context.filter.clone(), ddl, types, policies)?;
    applier.pause_after(built.waited);
    applier.present(models, &caught_up_at);
    if applier.take_over_definitions().await? {
        applier.build_objects().await?;
        publish_objects(&context.status, applier.writer_mut()).await?;
    }
    Ok(stream::Opened { conn, dump, fold, witness, applier, caught_up_at })
}

/// What the stream has to find on the source, for the copied rows to be of its history.
fn landmarks(states: &[TableState]) -> Vec<Landmark> {
    let catching_up = states.iter().filter(|state| state.phase == TablePhase::CatchingUp);
    catching_up.flat_map(|state| &state.landmarks).cloned().collect()
}

/// XA transactions that may be resolved without having been prepared in the stream: those that
/// were prepared at a capture, and those that are now. One that is now and whose prepare the
/// stream does hold is among them too; that prepare takes its place.
async fn startup_xids(conn: &mut Conn, writer: &mut Writer) -> Result<BTreeSet<XidDigest>, Failure> {
    if let Some(prepared) = xa::prepared(conn).await? {
        writer.add_startup_xids(&prepared).await?;
    }
    writer.startup_xids().await
}

/// Settings can change between cycles, so they are looked at in each.
async fn preflight(
    context: &Context,
    config: &Config,
    conn: &mut Conn,
    writer: &Writer,
) -> Result<(), Failure> {
    let (settings, types) = (&config.source, &config.types);
    let mut findings =
        source::preflight::check(conn, settings, &context.filter, types, config.fold.xa).await?;
    if writer.checkpoint().position.is_some() {
        source::preflight::allow_idle_patterns(&mut findings);
    }
    refuse(Reason::SourcePreflight, &findings)?;
    if config.policies.names_columns() {
        config.policies.check(&reader::tables(conn, &context.filter, types).await?)?;
    }
    let mut findings = sink::preflight::check_session(writer.client(), &config.name, &[]).await?;
    if types.has_collations() {
        findings.extend(sink::preflight::without_icu(writer.client()).await?);
    }
    refuse(Reason::TargetPreflight, &findings)?;
    Ok(())
}

fn refuse(reason: Reason, findings: &[Finding]) -> Result<(), Halt> {
    for finding in findings {
        if finding.is_error() {
            tracing::error!(finding = finding.name, "{finding}");
        } else {
            tracing::warn!(finding = finding.name, "{finding}");
        }
    }
    let errors: Vec<String> =
        findings.iter().filter(|f| f.is_error()).map(|f| format!("{}: {}", f.name, f.problem)).collect();
    if errors.is_empty() { Ok(()) } else { Err(Halt::new(reason, errors.join("; "))) }
}

/// A table that is copied stays partitioned as it is, or plain, whatever the configuration says by now.
fn refuse_other_partitions(states: &[TableState], models: &[TableModel]) -> Result<(), Halt> {
    for state in states.iter().filter(|state| state.phase != TablePhase::Detached) {
        let present = models.iter().find(|model| model.name == *state.name());
        if let Some(problem) = present.and_then(|present| other_choice(&state.model, present)) {
            let TableName { database, table } = state.name();
            return Err(Halt::new(Reason::TargetDrift, problem).on_table(database, table));
        }
    }
    Ok(())
}

/// A table that left the filter is detached: its rows stay, its changes pass by.
async fn detach_excluded(context: &Context, writer: &mut Writer) -> Result<(), Failure> {
    let mut leaving: Vec<TableState> = writer.load_tables().await?;
    leaving.retain(|table| {
        let name = table.name();
        let is_ours = table.phase != TablePhase::Detached || table.ownership != Ownership::Unclaimed;
        is_ours && !context.filter.matches(&name.database, &name.table)
    });
    for table in &mut leaving {
        tracing::info!(table = format!("{}.{}", table.name().database, table.name().table), "detached");
        table.phase = TablePhase::Detached;
        // The operator may do with it what they like, so a way back must not take its rows.
        table.ownership = Ownership::Unclaimed;
    }
    if leaving.is_empty() { Ok(()) } else { writer.save_tables(&leaving).await }
}

/// Tables that need no transaction beyond the position: nothing in the stream would tell so.
async fn mark_converged(writer: &mut Writer) -> Result<(), Failure> {
    let Some(position) = writer.checkpoint().position.clone() else { return Ok(()) };
    let mut tables = writer.load_tables().await?;
    tables.retain(|table| table.has_converged(&position));
    for table in &mut tables {
        table.phase = TablePhase::Streaming;
    }
    if tables.is_empty() { Ok(()) } else { writer.save_tables(&tables).await }
}

async fn copy(
    context: &Context,
    config: &Config,
    writer: &mut Writer,
    conn: &mut Conn,
    progress: &mut Progress,
) -> Result<(), Failure> {
    if let Some(position) = &writer.checkpoint().position {
        // What was just applied may not be finished there, and a copy must not be older than it.
        continuity::refuse_ahead(conn, &position.processed).await?;
    }
    snapshot::run(config, &context.filter, writer, &context.status).await?;
    progress.committed = true;
    Ok(())
}

/// The ledger as it is stored.
pub(super) async fn publish_conversions(status: &StatusHandle, writer: &Writer) -> Result<(), Failure> {
    status.conversions(writer.load_conversions().await?.iter().map(ConversionReport::from));
    Ok(())
}

/// What the target lacks of the source's indexes and constraints.
pub(super) async fn publish_objects(status: &StatusHandle, writer: &Writer) -> Result<(), Failure> {
    status.objects(&objects::findings(writer.client(), writer.fence().pipeline()).await?);
    Ok(())
}

pub(super) fn publish_tables<'a>(status: &StatusHandle, tables: impl IntoIterator<Item = &'a TableState>) {
    for table in tables {
        publish_table(status, table);
    }
}

fn publish_table(status: &StatusHandle, table: &TableState) {
    status.table(table.name(), &table.target(), table.phase);
    status.copy_begun(table.name(), table.rows_copied);
    if let Some(rows) = table.rows_estimated {
        status.rows_estimated(table.name(), rows);
    }
}

impl snapshot::Observer for StatusHandle {
    fn table(&self, state: &TableState) {
        publish_table(self, state);
        if matches!(state.phase, TablePhase::Capturing | TablePhase::Copying) {
            self.enter(State::Snapshotting);
        }
    }

    fn waiting(&self, table: &TableName, waiting: Waiting) {
        self.table_waiting(table, waiting.lock, waiting.waited);
    }

    fn rows_copied(&self, table: &TableName, rows: u64) {
        Self::rows_copied(self, table, rows);
    }

    fn converted(&self, conversions: &[Conversion]) {
        Self::converted(self, conversions.iter().map(ConversionReport::from));
    }

    fn conversions_forgotten(&self, table: &TableName) {
        Self::conversions_forgotten(self, table);
    }
}
