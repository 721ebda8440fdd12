//! The configuration: one TOML file, every key also as an environment variable, checked as a
//! whole before anything is dialled.
//!
//! - [`keys`] holds the one table of keys: type, bounds, default and meaning. The commented file
//!   that `tidegate init` writes and `service/docs/config.md` are rendered from it.
//! - [`settings`] overlays environment, file and defaults, and types every value.
//! - [`sections`] makes the validated [`Config`] of it.
//!
//! Every problem is reported in one go, by key and with its remedy. A problem may name a file or a
//! variable that could not be read, or a table pattern; it quotes no other value, for what was
//! typed in the wrong place may be a secret.

mod ddl;
mod keys;
mod policies;
mod reference;
mod schema;
mod secret;
mod sections;
mod settings;
mod units;
mod url;

pub use ddl::{DdlConfig, DdlPolicy, Ignored};

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::fold::XaPolicy;
use crate::schema::overrides::Overrides;
use crate::schema::policy::Policies;

pub use reference::{commented_file, markdown};
pub use secret::Secret;

/// Where the configuration is looked for when no path is given.
pub const DEFAULT_PATH: &str = "tidegate.toml";

/// A configuration is a few kilobytes; a larger file is not one.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How far a TLS peer is verified. Always an explicit choice, no fall-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    /// Plain text.
    Off,
    /// Encrypted, the peer's certificate is not looked at.
    EncryptOnly,
    /// The certificate must come from a trusted root.
    VerifyCa,
    /// As `VerifyCa`, and it must be made out to the host that is dialled.
    VerifyFull,
}

#[derive(Debug, Clone)]
pub struct TlsConfig {
    pub mode: TlsMode,
    /// PEM file of trusted roots; the system's roots without it.
    pub ca_file: Option<PathBuf>,
    /// PEM client certificate chain.
    pub cert_file: Option<PathBuf>,
    /// PEM PKCS#8 key of the client certificate. Set exactly where `cert_file` is.
    pub key_file: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// Host name or address; an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: Option<Secret>,
    pub server_id: u32,
    pub tls: TlsConfig,
    pub connect_timeout: Duration,
    /// Asked of the source; a stream silent for three of them is dead.
    pub heartbeat_period: Duration,
    /// Session `net_write_timeout`: how long the source waits while we apply back-pressure.
    pub net_write_timeout: Duration,
}

#[derive(Debug, Clone)]
pub struct TargetConfig {
    /// Host name or address; an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    pub password: Option<Secret>,
    pub tls: TlsConfig,
    pub connect_timeout: Duration,
    pub reply_timeout: Duration,
    /// `SET synchronous_commit` of the applying sessions; off is safe, see the documentation.
    pub synchronous_commit: bool,
}

#[derive(Debug, Clone)]
pub struct TablesConfig {
    pub include: Vec<String>,
    pub exclude: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct SnapshotConfig {
    /// Parallel readers, each with a writer.
    pub parallelism: usize,
    /// Rows per chunk, about.
    pub chunk_rows: u64,
    pub lock_wait_timeout: Duration,
    /// Overall deadline for getting one table's lock.
    pub lock_deadline: Duration,
    /// Captures per table before `snapshot_interrupted`.
    pub max_captures: u32,
    /// Hold `LOCK INSTANCE FOR BACKUP` while a table is copied where BACKUP_ADMIN is granted.
    pub block_ddl: bool,
    pub block_ddl_max: Duration,
}

#[derive(Debug, Clone)]
pub struct FoldConfig {
    pub max_buffer_bytes: usize,
    pub spill_directory: PathBuf,
    pub max_spill_bytes: u64,
    pub xa: XaPolicy,
}

#[derive(Debug, Clone)]
pub struct ApplyConfig {
    pub max_batch_bytes: usize,
    /// Bytes of units waiting between fold and applier.
    pub channel_bytes: usize,
    /// Pipelined statements in flight.
    pub max_in_flight: usize,
    /// Longest time that filtered or empty transactions wait to be persisted.
    pub idle_commit_interval: Duration,
}

#[derive(Debug, Clone)]
pub struct RetryConfig {
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
    /// Attempts in a row without ever establishing both connections.
    pub max_connect_attempts: u32,
    /// Connections dropped after being established, within `window`.
    pub max_drops: u32,
    pub window: Duration,
}

#[derive(Debug, Clone)]
pub struct AdminConfig {
    pub listen: SocketAddr,
    pub token: Option<Secret>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Clone)]
pub struct LogConfig {
    pub format: LogFormat,
    /// Filter directives, all about Tidegate's own modules.
    pub filter: String,
}

/// Everything `tidegate run` needs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Pipeline name: one row of `tidegate.pipeline`.
    pub name: String,
    pub source: SourceConfig,
    pub target: TargetConfig,
    pub tables: TablesConfig,
    pub policies: Arc<Policies>,
    /// Types and collations of target columns that are not the default ones.
    pub types: Overrides,
    pub snapshot: SnapshotConfig,
    pub fold: FoldConfig,
    pub apply: ApplyConfig,
    pub ddl: DdlConfig,
    pub retry: RetryConfig,
    pub admin: AdminConfig,
    pub log: LogConfig,
}

/// The environment variables that a configuration may draw on.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The variable's value; `Err` when it is not valid UTF-8.
    fn text(&self, name: &str) -> Result<Option<&str>, NotUtf8> {
        self.0.get(OsString::from(name).as_os_str()).map(|value| value.to_str().ok_or(NotUtf8)).transpose()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|name| name.to_str())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// A variable whose value can't be read as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NotUtf8;

/// One thing wrong with the configuration: which key, what is wrong, what to do. No values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key's path, as `source.server_id`; the file's path when it concerns the whole file.
    pub key: String,
    pub message: String,
}

/// Everything that is wrong with the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    #[must_use]
    pub fn all(&self) -> &[Problem] {
        &self.0
    }

    fn one(key: impl Into<String>, message: impl Into<String>) -> Self {
        let mut problems = Self::default();
        problems.add(key, message);
        problems
    }

    fn add(&mut self, key: impl Into<String>, message: impl Into<String>) {
        self.0.push(Problem { key: key.into(), message: message.into() });
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0.len() == 1 { "problem" } else { "problems" };
        write!(f, "{} {plural} in the configuration:", self.0.len())?;
        for Problem { key, message } in &self.0 {
            write!(f, "\n  {key}: {message}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Reads the configuration from a file and the environment.
///
/// Without `path` the file is [`DEFAULT_PATH`], and may be absent when the environment sets keys.
///
/// # Errors
/// Everything that is wrong with it, at once.
pub fn load(path: Option<&Path>, environment: &Environment) -> Result<Config, Problems> {
    let file = path.unwrap_or_else(|| Path::new(DEFAULT_PATH));
    match read_text(file) {
        Ok(text) => parse(&text, environment),
        Err(error)
            if path.is_none()
                && error.kind() == io::ErrorKind::NotFound
                && settings::any_set(environment) =>
        {
            parse("", environment)
        }
        Err(error) => Err(Problems::one(
            file.display().to_string(),
            format!(
                "can't be read: {error}. `tidegate init` writes a commented file to start from; --config names another one"
            ),
        )),
    }
}

/// Reads the configuration from the text of a file and the environment.
///
/// # Errors
/// Everything that is wrong with it, at once.
pub fn parse(text: &str, environment: &Environment) -> Result<Config, Problems> {
    sections::config(settings::Settings::collect(text, environment)?)
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}
