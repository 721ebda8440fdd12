//! `tidegate run`: the pipeline, the admin surface and the signals, until one of them ends it.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use super::Exit;
use super::output::say;
use crate::admin;
use crate::config::Config;
use crate::halt::{Halt, Reason};
use crate::pipeline::{self, Outcome};
use crate::shutdown::{self, Shutdown, Trigger};
use crate::spill::SpillDirectory;
use crate::status::StatusHandle;
use crate::telemetry;

/// After the pipeline has ended, time for the admin surface to answer the requests in hand.
const ADMIN_GRACE: Duration = Duration::from_secs(2);

/// Runs until a signal, or until a halt where that is to end it.
pub(super) async fn run(config: Config, exit_on_halt: bool) -> Exit {
    let status = StatusHandle::new(&config);
    let (trigger, shutdown) = shutdown::pair();
    let (admin_trigger, admin_shutdown) = shutdown::pair();
    let admin = match start(&config, &status, trigger, admin_shutdown).await {
        Ok(admin) => admin,
        Err(message) => {
            say(&message);
            return Exit::Error;
        }
    };
    let exit = follow(config, &status, &shutdown, exit_on_halt).await;
    admin_trigger.shut_down();
    if tokio::time::timeout(ADMIN_GRACE, admin).await.is_err() {
        tracing::debug!("the admin surface had requests in hand at the end");
    }
    exit
}

/// Everything that can fail before the pipeline starts: logging, metrics, signals, the address.
async fn start(
    config: &Config,
    status: &StatusHandle,
    trigger: Trigger,
    admin_shutdown: Shutdown,
) -> Result<JoinHandle<()>, String> {
    telemetry::start_logging(&config.log).map_err(|error| error.to_string())?;
    let metrics =
        telemetry::metrics::install().map_err(|error| format!("metrics can't be set up: {error}"))?;
    SpillDirectory::of(&config.fold).probe().map_err(|error| {
        format!("no file can be made in fold.spill_directory: {error}. Name another directory")
    })?;
    stop_on_signals(trigger).map_err(|error| format!("signals can't be received: {error}"))?;
    let listen = config.admin.listen;
    let server = admin::bind(&config.admin).await.map_err(|error| {
        format!("the admin surface can't listen on {listen}: {error}. admin.listen sets another address")
    })?;
    let address = server.local_addr().unwrap_or(listen);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), pipeline = config.name, admin = %address, "tidegate starts");
    let status = status.clone();
    Ok(tokio::spawn(async move {
        let guard = status.supervise("admin surface");
        match server.serve(status.clone(), metrics, admin_shutdown).await {
            Ok(()) => guard.finish(),
            Err(error) => tracing::error!(%error, "the admin surface ended"),
        }
    }))
}

/// The first SIGTERM or SIGINT asks for an orderly stop, the second one ends the process, which
/// is as safe as a crash: nothing that was not committed counts.
fn stop_on_signals(trigger: Trigger) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping after the batch in hand; a second signal stops at once");
        trigger.shut_down();
        either(&mut terminate, &mut interrupt).await;
        std::process::exit(1);
    });
    Ok(())
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => (),
        _ = interrupt.recv() => (),
    }
}

/// Runs the pipeline until it is asked to stop. It waits out its own halts; a panic in it becomes
/// one here, so that the admin surface goes on to tell.
async fn follow(config: Config, status: &StatusHandle, shutdown: &Shutdown, exit_on_halt: bool) -> Exit {
    loop {
        let run = pipeline::run(config.clone(), status.clone(), shutdown.clone(), exit_on_halt);
        match tokio::spawn(run).await {
            Ok(Ok(Outcome::Stopped)) => return Exit::Done,
            Ok(Ok(Outcome::Halted)) => return Exit::Halted,
            Ok(Err(error)) => {
                say(&error.to_string());
                return Exit::Usage;
            }
            Err(_) => {
                let halt = Halt::new(Reason::Internal, "the pipeline panicked; the log names the place");
                tracing::error!(reason = halt.reason.name(), remedy = halt.reason.remedy(), "halted: {halt}");
                status.halt(&halt);
            }
        }
        if exit_on_halt {
            return Exit::Halted;
        }
        tokio::select! {
            biased;
            () = shutdown.requested() => return Exit::Halted,
            () = status.resumed() => {}
        }
    }
}
