//! Wires source, fold, sink and snapshot; the recovery loop.
//!
//! There is one way to recover from anything: drop both connections, take the pipeline over
//! again, read the checkpoint, dial again. Start-up, network faults, restarts and failovers of
//! either server and a crash of this process all take it.

mod budget;
mod check;
mod continuity;
mod cycle;
mod plan;
mod queue;
mod silence;
mod stream;
mod watch;
mod witness;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::config::Config;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::schema::filter::Filter;
use crate::shutdown::Shutdown;
use crate::sink::{self, writer::Writer};
use crate::spill::SpillDirectory;
use crate::status::{State, StatusHandle};
use budget::Budget;
use stream::End;

pub use check::{Report, check, check_data};
pub use plan::plan;

/// How long recording a halt in the target may take: the halt stands without it.
const RECORD_HALT_PATIENCE: Duration = Duration::from_secs(15);

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// On request, with everything that was begun finished or rolled back.
    Stopped,
    /// While halted: by request, or because `exit_on_halt` says so.
    Halted,
}

/// What every cycle works with.
struct Context {
    config: Config,
    filter: Arc<Filter>,
    spill: Arc<SpillDirectory>,
    status: StatusHandle,
    shutdown: Shutdown,
}

/// Runs the pipeline until it is told to stop.
///
/// A halt ends the run only if `exit_on_halt`; otherwise the process waits, serving the reason,
/// for a resume or the stop.
///
/// # Errors
/// When the table filter of the configuration is malformed.
pub async fn run(
    config: Config,
    status: StatusHandle,
    shutdown: Shutdown,
    exit_on_halt: bool,
) -> Result<Outcome, crate::schema::filter::FilterError> {
    let filter = Arc::new(Filter::new(&config.tables.include, &config.tables.exclude)?);
    let mut budget = Budget::new(config.retry.clone());
    let spill = SpillDirectory::of(&config.fold);
    let context = Context { config, filter, spill: Arc::new(spill), status, shutdown };
    loop {
        let Err(halt) = context.run_until_halt(&mut budget).await else { return Ok(Outcome::Stopped) };
        tracing::error!(reason = halt.reason.name(), remedy = halt.reason.remedy(), "halted: {halt}");
        context.status.halt(&halt);
        context.record_halt(&halt).await;
        if exit_on_halt {
            return Ok(Outcome::Halted);
        }
        tokio::select! {
            () = context.shutdown.requested() => return Ok(Outcome::Halted),
            () = context.status.resumed() => budget.reset(),
        }
        tracing::info!("resuming on request");
    }
}

impl Context {
    /// Cycle after cycle until the stop is requested or something halts.
    async fn run_until_halt(&self, budget: &mut Budget) -> Result<(), Halt> {
        loop {
            let mut progress = cycle::Progress::default();
            let result = cycle::run(self, &mut progress).await;
            if progress.committed {
                budget.progressed();
            }
            let (side, message) = match result {
                Ok(End::Stopped) => return Ok(()),
                Ok(End::StartOver) => {
                    // Each time, the position has moved past a schema change: this ends.
                    tracing::info!("starting over: tables have to be copied");
                    self.status.enter(State::Starting);
                    continue;
                }
                Err(Failure::Halt(halt)) => return Err(*halt),
                Err(Failure::Retry { side, message }) => (side, message),
            };
            let wait = budget.failed(side, &message, progress.established, Instant::now())?;
            tracing::warn!(side = side_name(side), wait_ms = wait.as_millis(), "starting over: {message}");
            self.status.retrying(side, &message);
            tokio::select! {
                () = self.shutdown.requested() => return Ok(()),
                () = tokio::time::sleep(wait) => self.status.enter(State::Starting),
            }
        }
    }

    /// Best effort: the target may be the reason for the halt.
    async fn record_halt(&self, halt: &Halt) {
        let recording = async {
            let client = sink::connect::connect(&self.config.target).await?;
            let mut writer = self.take_over(client).await?;
            writer.record_halt(halt).await
        };
        let message = match timeout(RECORD_HALT_PATIENCE, recording).await {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => failure.to_string(),
            Err(_) => "the target did not answer in time".to_owned(),
        };
        tracing::warn!("the halt could not be recorded in the target: {message}");
    }

    async fn take_over(&self, client: sink::client::Client) -> Result<Writer, Failure> {
        sink::preflight::before_take_over(&self.config.target, &client).await?;
        let (name, in_flight) = (&self.config.name, self.config.apply.max_in_flight);
        let mut waited = false;
        let on_standby = || {
            if !std::mem::replace(&mut waited, true) {
                tracing::info!("another process runs this pipeline: standing by");
                self.status.standby(true);
            }
        };
        let writer = Writer::take_over(client, name, in_flight, on_standby).await;
        self.status.standby(false);
        writer
    }
}

const fn side_name(side: Side) -> &'static str {
    match side {
        Side::Source => "source",
        Side::Target => "target",
    }
}

/// A failure of the tasks themselves.
fn task_failed(task: &str) -> Failure {
    Halt::new(Reason::Internal, format!("the {task} task ended without a result")).into()
}
