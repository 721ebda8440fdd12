//! The sink against a live PostgreSQL: fence, checkpoint, apply, copy, preflight. Units are built
//! here instead of read from a source, so that every order and every fault can be had.

mod apply;
mod copy;
mod fence;
mod frozen;
mod keyless;
mod merge;
mod preflight;
mod schema_change;
mod source_rows;
mod wait_for_gtid;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tidegate::config::{DdlConfig, DdlPolicy, Secret, TargetConfig, TlsConfig, TlsMode};
use tidegate::fold::unit::{Transaction, Unit};
use tidegate::gtid::GtidSet;
use tidegate::halt::{Failure, Halt};
use tidegate::schema::TableModel;
use tidegate::schema::filter::Filter;
use tidegate::schema::overrides::Overrides;
use tidegate::schema::phase::TablePhase;
use tidegate::schema::policy::{Policies, Policy, ValueKind};
use tidegate::sink::apply::Applier;
use tidegate::sink::catalog;
use tidegate::sink::checkpoint::Position;
use tidegate::sink::connect::connect;
use tidegate::sink::table_state::TableState;
use tidegate::sink::writer::Writer;
use tidegate_integration::mysql::TextRow;
use tidegate_integration::postgres::{TARGET_PASSWORD, TARGET_ROLE};
use tidegate_integration::{Fixture, Servers};

use source_rows::SOURCE;

/// Statements in flight: few enough that tests with more rows run into the bound.
const MAX_IN_FLIGHT: usize = 16;

/// Longest wait for what has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

const PIPELINE: &str = "test";

pub(crate) fn config_at(addr: SocketAddr, database: &str) -> TargetConfig {
    TargetConfig {
        host: addr.ip().to_string(),
        port: addr.port(),
        user: TARGET_ROLE.to_owned(),
        database: database.to_owned(),
        password: Some(Secret::new(TARGET_PASSWORD.to_owned())),
        tls: TlsConfig { mode: TlsMode::Off, ca_file: None, cert_file: None, key_file: None },
        connect_timeout: Duration::from_secs(30),
        reply_timeout: Duration::from_secs(300),
        synchronous_commit: true,
    }
}

fn config(fixture: &Fixture<'_>) -> TargetConfig {
    config_at(fixture.servers.postgres.addr(), &fixture.target)
}

async fn fixture(name: &str) -> Result<Fixture<'static>> {
    Servers::shared().await?.fixture(&format!("sink_{name}")).await
}

/// Takes over without having to wait for anyone.
async fn take_over(config: &TargetConfig, pipeline: &str) -> Result<Writer> {
    let taking = Writer::take_over(connect(config).await?, pipeline, MAX_IN_FLIGHT, || ());
    Ok(tokio::time::timeout(PATIENCE, taking).await.context("the pipeline was not given up")??)
}

fn state(model: TableModel, phase: TablePhase, snapshot_set: &str) -> Result<TableState> {
    Ok(TableState { snapshot_set: Some(snapshot_set.parse()?), ..TableState::new(model, phase)? })
}

/// A set of the test's source, such as `set("1-10")`.
fn set(intervals: &str) -> Result<GtidSet> {
    Ok(format!("{SOURCE}:{intervals}").parse()?)
}

/// An applier whose tables exist and are streaming, after transactions 1 to 10.
async fn streaming(config: &TargetConfig, models: &[TableModel]) -> Result<Applier> {
    let mut writer = take_over(config, PIPELINE).await?;
    let mut states = Vec::new();
    for model in models {
        states.push(state(model.clone(), TablePhase::Streaming, &set("1-10")?.to_string())?);
    }
    catalog::claim_tables(&mut writer, &states).await?;
    for state in &mut states {
        let model = state.model.clone();
        catalog::begin_copy(&mut writer, state, &model, &ddl()).await?;
        catalog::build_key(&mut writer, state, &ddl()).await?;
    }
    let position = Position { processed: set("1-10")?, ..Position::default() };
    writer.set_position(position, &states).await?;
    applier(writer).await
}

/// An applier that goes on from the checkpoint.
async fn applier(writer: Writer) -> Result<Applier> {
    let tables = writer.load_tables().await?;
    let filter = Filter::new(&["*.*".to_owned()], &["*.excluded".to_owned()])?;
    let policies = Policies::default().with(ValueKind::NulText, Policy::Replace);
    Ok(Applier::new(writer, tables, Arc::new(filter), ddl(), Overrides::default(), Arc::new(policies))?)
}

fn ddl() -> DdlConfig {
    let (lock_wait_timeout, lock_deadline) = (Duration::from_millis(100), PATIENCE);
    DdlConfig { policy: DdlPolicy::Mirror, ignore: Vec::new(), lock_wait_timeout, lock_deadline }
}

async fn resume(config: &TargetConfig) -> Result<Applier> {
    applier(take_over(config, PIPELINE).await?).await
}

fn units(transactions: impl IntoIterator<Item = Transaction>) -> Vec<Unit> {
    transactions.into_iter().map(Unit::Transaction).collect()
}

fn halt<T: std::fmt::Debug>(result: Result<T, Failure>) -> Result<Halt> {
    match result {
        Err(Failure::Halt(halt)) => Ok(*halt),
        other => bail!("not a halt: {other:?}"),
    }
}

fn retry<T: std::fmt::Debug>(result: Result<T, Failure>) -> Result<String> {
    match result {
        Err(Failure::Retry { message, .. }) => Ok(message),
        other => bail!("not a retry: {other:?}"),
    }
}

fn text_rows<const N: usize>(rows: &[[Option<&str>; N]]) -> Vec<TextRow> {
    rows.iter().map(|row| row.iter().map(|cell| cell.map(str::to_owned)).collect()).collect()
}

/// The processed set as stored.
async fn stored_set(fixture: &Fixture<'_>) -> Result<Option<String>> {
    let sql = format!("SELECT processed FROM tidegate.checkpoint WHERE pipeline = '{PIPELINE}'");
    fixture.target_scalar(&sql).await
}

/// Waits until a session of the target database waits for a lock.
async fn waits_for_a_lock(fixture: &Fixture<'_>) -> Result<()> {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
        AND wait_event_type = 'Lock' AND wait_event <> 'advisory'";
    let look = async {
        while fixture.target_scalar(waiting).await?.as_deref() != Some("1") {
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, look).await.context("nobody waits for a lock")?
}
