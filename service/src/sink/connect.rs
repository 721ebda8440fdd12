//! Connections to the target and the session settings that an exact replication needs.

use std::future::poll_fn;
use std::time::Duration;

use postgres_native_tls::MakeTlsConnector;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Connection, NoTls, SimpleQueryMessage};

use super::client::{Client, Error};
use super::error::{login_failure, redact, while_doing};
use crate::config::TargetConfig;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::tls;

/// The oldest server that has every setting and function used here.
pub(super) const OLDEST_SERVER: i32 = 140_000;

/// First version with `transaction_timeout`.
const HAS_TRANSACTION_TIMEOUT: i32 = 170_000;

/// Idle time before the kernel probes the peer, and the probes' interval and count, in both
/// directions: a peer that vanished is noticed after a minute, before an operator wonders.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// How long sent bytes may stay unacknowledged. Keepalives don't run while data is in flight.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(60);

/// Longest wait for a lock that another session holds on a target table: long enough for an
/// ALTER TABLE or a short maintenance, short enough that the wait shows up as a named failure.
pub(super) const LOCK_WAIT_MAX: Duration = Duration::from_secs(60);

/// Opens a session with the settings of an applying session.
///
/// # Errors
/// `Failure::Retry` when the server can't be reached or refuses the login, a halt
/// `target_preflight` when it is older than PostgreSQL 14.
pub async fn connect(config: &TargetConfig) -> Result<Client, Failure> {
    let client = log_in(config).await?;
    let version = server_version(&client).await?;
    if version < OLDEST_SERVER {
        let detail = format!("the target is PostgreSQL {}, and 14 is the oldest supported", version / 10_000);
        return Err(Halt::new(Reason::TargetPreflight, detail).into());
    }
    set_up(&client, config, version).await?;
    Ok(client)
}

/// Opens a session as it comes.
pub(super) async fn log_in(config: &TargetConfig) -> Result<Client, Failure> {
    let Ok(connected) = tokio::time::timeout(config.connect_timeout, dial(config)).await else {
        let seconds = config.connect_timeout.as_secs_f32();
        let message = format!("connecting to the target took longer than {seconds} s");
        return Err(Failure::retry(Side::Target, message));
    };
    connected
}

/// Gives a session the settings that an exact replication needs.
pub(super) async fn set_up(client: &Client, config: &TargetConfig, version: i32) -> Result<(), Failure> {
    let settings = session_settings(config, version);
    client.batch_execute(&settings).await.map_err(while_doing("setting up the target session"))?;
    watch_for_lost_client(client).await
}

/// `server_version_num`, such as 150018. By the simple protocol: a proxy that pools, which is what
/// the server may turn out to be, gets prepared statements wrong.
pub(super) async fn server_version(client: &Client) -> Result<i32, Failure> {
    let asking = "asking the target for its version";
    let answer = client.simple_query("SHOW server_version_num").await.map_err(while_doing(asking))?;
    let number = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    number.ok_or_else(|| Failure::retry(Side::Target, format!("{asking}: the answer is no number")))
}

async fn dial(config: &TargetConfig) -> Result<Client, Failure> {
    let mut driver = tokio_postgres::Config::new();
    driver
        .host(&config.host)
        .port(config.port)
        .user(&config.user)
        .dbname(&config.database)
        .application_name("tidegate")
        .connect_timeout(config.connect_timeout)
        .keepalives(true)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_PROBES)
        .tcp_user_timeout(UNACKNOWLEDGED_MAX);
    if let Some(password) = &config.password {
        driver.password(password.reveal());
    }
    // The configuration was good when it was read: files that don't go together any more may be
    // about to be replaced.
    let tls = tls::connector(&config.tls)
        .map_err(|error| Failure::retry(Side::Target, format!("TLS to the target: {error}")))?;
    match tls {
        Some(connector) => {
            driver.ssl_mode(SslMode::Require);
            open(driver.connect(MakeTlsConnector::new(connector)).await, config)
        }
        None => {
            driver.ssl_mode(SslMode::Disable);
            open(driver.connect(NoTls).await, config)
        }
    }
}

fn open<S, T>(
    connected: Result<(tokio_postgres::Client, Connection<S, T>), tokio_postgres::Error>,
    config: &TargetConfig,
) -> Result<Client, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (driver, connection) = connected.map_err(|error| login_failure(&error))?;
    let connection = tokio::spawn(drive(connection)).abort_handle();
    Ok(Client::new(driver, config.reply_timeout, connection))
}

/// Moves the connection's bytes until the client is dropped or the connection fails. Notices are
/// dropped: their text may quote data.
async fn drive<S, T>(mut connection: Connection<S, T>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notice(_) | AsyncMessage::Notification(_) | _)) => {}
            Some(Err(error)) => {
                tracing::debug!(error = redact(&Error::from(error)), "target connection ended");
                return;
            }
            None => return,
        }
    }
}

fn session_settings(config: &TargetConfig, version: i32) -> String {
    let mut settings = vec![
        // Names in statements are qualified; nothing in a user's schema can stand in for an operator.
        ("search_path", "pg_catalog".to_owned()),
        ("client_encoding", "UTF8".to_owned()),
        ("standard_conforming_strings", "on".to_owned()),
        ("TimeZone", "UTC".to_owned()),
        ("synchronous_commit", on_off(config.synchronous_commit).to_owned()),
        ("default_transaction_isolation", "read committed".to_owned()),
        ("default_transaction_deferrable", "off".to_owned()),
        // An error instead of rows left out by a policy.
        ("row_security", "off".to_owned()),
        // The pipeline bounds its waits itself; a role's defaults must not end a batch or a COPY.
        ("statement_timeout", "0".to_owned()),
        ("idle_in_transaction_session_timeout", "0".to_owned()),
        ("idle_session_timeout", "0".to_owned()),
        ("lock_timeout", format!("{}ms", LOCK_WAIT_MAX.as_millis())),
        // The server's side of the keepalives: a take-over waits for the session of a dead writer.
        ("tcp_keepalives_idle", KEEPALIVE_IDLE.as_secs().to_string()),
        ("tcp_keepalives_interval", KEEPALIVE_INTERVAL.as_secs().to_string()),
        ("tcp_keepalives_count", KEEPALIVE_PROBES.to_string()),
        ("tcp_user_timeout", UNACKNOWLEDGED_MAX.as_millis().to_string()),
    ];
    if version >= HAS_TRANSACTION_TIMEOUT {
        settings.push(("transaction_timeout", "0".to_owned()));
    }
    settings.iter().map(|(name, value)| format!("SET {name} = '{value}';")).collect()
}

const fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Lets the server notice during a long statement that its client is gone. Servers on systems
/// that can't detect it refuse the setting, and keepalives remain.
async fn watch_for_lost_client(client: &Client) -> Result<(), Failure> {
    match client.batch_execute("SET client_connection_check_interval = '10s'").await {
        Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => Ok(()),
        result => result.map_err(while_doing("setting up the target session")),
    }
}
