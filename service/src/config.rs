//! The validated configuration.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A secret that never shows in `Debug`, logs or errors.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub const fn new(value: String) -> Self {
        Self(value)
    }

    /// The secret itself: only for handing to a driver.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How far a TLS peer is verified. Always an explicit choice, no fall-back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsMode {
    Off,
    EncryptOnly,
    VerifyCa,
    VerifyFull,
}

#[derive(Debug, Clone)]
pub struct TlsConfig {
    pub mode: TlsMode,
    /// PEM file of trusted roots; the system's roots without it.
    pub ca_file: Option<PathBuf>,
    /// PEM client certificate chain and PKCS#8 key.
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub struct SourceConfig {
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
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    pub password: Option<Secret>,
    pub tls: TlsConfig,
    pub connect_timeout: Duration,
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
    pub listen: std::net::SocketAddr,
    pub token: Option<Secret>,
}

/// Everything `tidegate run` needs.
#[derive(Debug, Clone)]
pub struct Config {
    /// Pipeline name: one row of `tidegate.pipeline`.
    pub name: String,
    pub source: SourceConfig,
    pub target: TargetConfig,
    pub tables: TablesConfig,
    pub snapshot: SnapshotConfig,
    pub fold: FoldConfig,
    pub apply: ApplyConfig,
    pub retry: RetryConfig,
    pub admin: AdminConfig,
}
