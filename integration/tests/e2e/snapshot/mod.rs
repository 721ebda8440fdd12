//! The snapshot: captures and copies by the library, and whole runs of the binary under load.

mod capture;
mod copy;
mod load;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tidegate::config::{
    AdminConfig, ApplyConfig, Config, DdlConfig, DdlPolicy, FoldConfig, LogConfig, LogFormat, RetryConfig,
    Secret, SnapshotConfig, SourceConfig, TablesConfig, TargetConfig, TlsConfig, TlsMode,
};
use tidegate::fold::XaPolicy;
use tidegate::gtid::{GtidSet, Uuid};
use tidegate::schema::TableName;
use tidegate::source::session::Session;
use tidegate_integration::Fixture;
use tidegate_integration::mysql::{REPLICATION_PASSWORD, REPLICATION_USER};
use tidegate_integration::postgres::{TARGET_PASSWORD, TARGET_ROLE};

const fn no_tls() -> TlsConfig {
    TlsConfig { mode: TlsMode::Off, ca_file: None, cert_file: None, key_file: None }
}

fn source_config(fixture: &Fixture<'_>) -> SourceConfig {
    SourceConfig {
        host: "127.0.0.1".to_owned(),
        port: fixture.servers.mysql.port(),
        user: REPLICATION_USER.to_owned(),
        password: Some(Secret::new(REPLICATION_PASSWORD.to_owned())),
        server_id: 4999,
        tls: no_tls(),
        connect_timeout: Duration::from_secs(10),
        heartbeat_period: Duration::from_secs(1),
        net_write_timeout: Duration::from_secs(600),
    }
}

async fn server_uuid(fixture: &Fixture<'_>) -> Result<Uuid> {
    let uuid = fixture.source_scalar("SELECT @@server_uuid").await?.unwrap_or_default();
    Ok(uuid.parse()?)
}

async fn gtid_executed(fixture: &Fixture<'_>) -> Result<GtidSet> {
    Ok(fixture.servers.mysql.gtid_executed().await?.parse()?)
}

fn table(fixture: &Fixture<'_>, table: &str) -> TableName {
    TableName { database: fixture.source.clone(), table: table.to_owned() }
}

/// `COUNT(*)` of a table as this session sees it.
async fn count(session: &mut Session, table: &TableName) -> Result<u128> {
    let sql = format!("SELECT COUNT(*) FROM `{}`.`{}`", table.database, table.table);
    Ok(session.value(&sql).await?.unwrap_or_default().parse()?)
}

/// The whole configuration: small chunks, so that small tables have many.
fn config(fixture: &Fixture<'_>) -> Config {
    let second = Duration::from_secs(1);
    Config {
        name: fixture.source.clone(),
        source: source_config(fixture),
        target: TargetConfig {
            host: "127.0.0.1".to_owned(),
            port: fixture.servers.postgres.port(),
            user: TARGET_ROLE.to_owned(),
            database: fixture.target.clone(),
            password: Some(Secret::new(TARGET_PASSWORD.to_owned())),
            tls: no_tls(),
            connect_timeout: second * 10,
            reply_timeout: second * 60,
            synchronous_commit: false,
        },
        tables: TablesConfig { include: vec![format!("{}.*", fixture.source)], exclude: Vec::new() },
        policies: Arc::default(),
        types: Default::default(),
        snapshot: SnapshotConfig {
            parallelism: 3,
            chunk_rows: 10,
            lock_wait_timeout: second,
            lock_deadline: second * 30,
            max_captures: 3,
            block_ddl: true,
            block_ddl_max: second * 60,
        },
        fold: FoldConfig {
            max_buffer_bytes: 64 << 20,
            spill_directory: std::env::temp_dir(),
            max_spill_bytes: 1 << 30,
            xa: XaPolicy::Refuse,
        },
        apply: ApplyConfig {
            max_batch_bytes: 4 << 20,
            channel_bytes: 16 << 20,
            max_in_flight: 64,
            idle_commit_interval: second,
        },
        ddl: DdlConfig {
            policy: DdlPolicy::Mirror,
            ignore: Vec::new(),
            lock_wait_timeout: second,
            lock_deadline: second * 30,
        },
        retry: RetryConfig {
            initial_backoff: second,
            max_backoff: second,
            max_connect_attempts: 1,
            max_drops: 1,
            window: second,
        },
        admin: AdminConfig { listen: ([127, 0, 0, 1], 0).into(), token: None },
        log: LogConfig { format: LogFormat::Text, filter: "info".to_owned() },
    }
}
