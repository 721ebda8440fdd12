//! Logging, and what a panic may say. Metrics are declared and recorded in [`metrics`].
//!
//! Only Tidegate's own modules log (see `log.level`): messages of drivers and of the HTTP stack
//! may hold statements and values.

pub mod metrics;

use std::io::IsTerminal as _;
use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogConfig, LogFormat};

/// Logging could not be set up: the process has a subscriber already, or the filter is malformed.
#[derive(Debug, thiserror::Error)]
#[error("logging can't be set up: {0}")]
pub struct LogSetupError(String);

/// Sends log lines to standard error, as `log.format` and `log.level` say, and panics with them.
///
/// # Errors
/// When the process has a subscriber already.
pub fn start_logging(config: &LogConfig) -> Result<(), LogSetupError> {
    let filter = EnvFilter::try_new(&config.filter).map_err(|error| LogSetupError(error.to_string()))?;
    let lines =
        fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    match config.format {
        LogFormat::Text => lines.finish().try_init(),
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
    }
    .map_err(|error| LogSetupError(error.to_string()))?;
    std::panic::set_hook(Box::new(|panic| tracing::error!("{}", describe_panic(panic))));
    Ok(())
}

/// Place and, where it is a literal of the source code, message. A formatted message may hold
/// data and is left out.
fn describe_panic(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    match panic.payload().downcast_ref::<&'static str>() {
        Some(message) => format!("panicked at {place}: {message}"),
        None => format!("panicked at {place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, PoisonError};

    #[test]
    fn panics_tell_literals_only() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let previous = std::panic::take_hook();
        let here = std::thread::current().id();
        let into = Arc::clone(&seen);
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == here {
                into.lock().unwrap_or_else(PoisonError::into_inner).push(describe_panic(panic));
            }
        }));
        let value = "s3cret";
        for result in [
            std::panic::catch_unwind(|| panic!("a literal")),
            std::panic::catch_unwind(|| panic!("with {value}")),
        ] {
            assert!(result.is_err());
        }
        std::panic::set_hook(previous);
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(seen[0].ends_with(": a literal"), "{seen:?}");
        assert!(seen[1].contains("telemetry.rs") && !seen[1].contains("s3cret"), "{seen:?}");
    }
}
