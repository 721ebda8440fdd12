//! The library's configuration for the harness's servers.

use std::time::Duration;

use anyhow::Result;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tidegate::config::{Secret, SourceConfig, TlsConfig, TlsMode};
use tidegate::gtid::{GtidSet, Uuid};
use tidegate::schema::TableName;
use tidegate_integration::Fixture;
use tidegate_integration::mysql::{REPLICATION_PASSWORD, REPLICATION_USER};

pub(crate) const fn no_tls() -> TlsConfig {
    TlsConfig { mode: TlsMode::Off, ca_file: None, cert_file: None, key_file: None }
}

pub(crate) fn source_config(fixture: &Fixture<'_>) -> SourceConfig {
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

pub(crate) async fn server_uuid(fixture: &Fixture<'_>) -> Result<Uuid> {
    let uuid = fixture.source_scalar("SELECT @@server_uuid").await?.unwrap_or_default();
    Ok(uuid.parse()?)
}

pub(crate) async fn gtid_executed(fixture: &Fixture<'_>) -> Result<GtidSet> {
    Ok(fixture.servers.mysql.gtid_executed().await?.parse()?)
}

pub(crate) fn table(fixture: &Fixture<'_>, table: &str) -> TableName {
    TableName { database: fixture.source.clone(), table: table.to_owned() }
}

/// `COUNT(*)` of a table as this connection sees it.
pub(crate) async fn count(conn: &mut Conn, table: &TableName) -> Result<u128> {
    let sql = format!("SELECT COUNT(*) FROM `{}`.`{}`", table.database, table.table);
    Ok(u128::from(conn.query_first::<u64, _>(sql).await?.unwrap_or_default()))
}
