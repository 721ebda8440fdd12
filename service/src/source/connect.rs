//! Connections to the source, who the source is, and what an error of it may say.

use mysql_async::prelude::Queryable;
use mysql_async::{ClientIdentity, Conn, DriverError, Error, IoError, OptsBuilder, SslOpts};
use std::time::Duration;
use tokio::time::timeout;

use super::session::{ServerError, Session, SessionError};
use crate::config::{SourceConfig, TlsConfig, TlsMode};
use crate::gtid::Uuid;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::tls::{self, TlsError};

/// The largest row or statement: the server's own ceiling for `max_allowed_packet`. The driver's
/// default is the server's setting, which a row image may exceed.
const MAX_ALLOWED_PACKET: usize = 1 << 30;

/// First keepalive probe on a silent connection, so that a peer that vanished is noticed.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(60);

/// Without TLS a password is encrypted with the server's RSA key, of 2048 bits at least, in one
/// block: 256 bytes less 42 of padding and 1 of terminator (RFC 8017, section 7.1).
const CLEAR_CHANNEL_PASSWORD_MAX: usize = 213;

/// Prepared statements kept on a connection. The few that are used again stay; those that hold a
/// chunk's bounds as literals are closed when they fall out. With none the driver would close none.
const STATEMENT_CACHE: usize = 16;

/// What every session starts with, so that no setting of the server or account changes what a
/// statement means or leaves open: UTC, no SQL mode, no transaction but those we begin, English messages, no silent limit on rows, no limit on time,
/// text in each column's own character set.
const SESSION: &str = "SET SESSION time_zone='+00:00', sql_mode='', lc_messages='en_US', \
     transaction_isolation='REPEATABLE-READ', sql_select_limit=18446744073709551615, sql_big_selects=1, \
     max_execution_time=0, wait_timeout=28800, character_set_results=NULL, autocommit=1, completion_type='NO_CHAIN'";

/// Shows generated invisible primary keys, which are in the binlog in any case.
const SHOW_GIPK: &str = ", show_gipk_in_create_table_and_information_schema=ON";

/// The first version with [`SHOW_GIPK`].
const GIPK_VERSION: (u16, u16, u16) = (8, 0, 30);

/// Who the source is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub server_uuid: Uuid,
    /// As the server prints it, such as `9.7.4-2`.
    pub version: String,
    /// Major, minor, patch.
    pub version_numbers: (u16, u16, u16),
}

/// Connects and logs in. The session is in UTC, without an SQL mode, REPEATABLE READ.
pub async fn connect(config: &SourceConfig) -> Result<Conn, Failure> {
    let open = async {
        let mut conn = Conn::new(options(config)?).await.map_err(|error| login_failure(&error))?;
        let version: Option<String> = conn
            .query_first("SELECT VERSION()")
            .await
            .map_err(|error| failure("read its version", &error))?;
        refuse_mariadb(version.as_deref().unwrap_or_default())?;
        let session = session_statement(config, conn.server_version());
        conn.query_drop(session).await.map_err(|error| failure("set up the session", &error))?;
        Ok(conn)
    };
    timeout(config.connect_timeout, open).await.map_err(|_| no_answer())?
}

/// As [`connect()`], for a session that reads rows.
pub async fn session(config: &SourceConfig) -> Result<Session, Failure> {
    let open = async {
        let mut session = Session::connect(config).await?;
        let statement = session_statement(config, version_numbers(session.server_version()));
        session.execute(&statement).await.map_err(|error| session_failure("set up the session", &error))?;
        Ok(session)
    };
    timeout(config.connect_timeout, open).await.map_err(|_| no_answer())?
}

fn no_answer() -> Failure {
    Failure::retry(Side::Source, "the source did not answer within connect_timeout")
}

fn session_statement(config: &SourceConfig, version: (u16, u16, u16)) -> String {
    let gipk = if version >= GIPK_VERSION { SHOW_GIPK } else { "" };
    format!("{SESSION}{gipk}, net_write_timeout={}", config.net_write_timeout.as_secs())
}

/// Major, minor and patch of a version such as `9.7.4-2`; what can't be read counts as zero.
fn version_numbers(version: &str) -> (u16, u16, u16) {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next())
}

/// Reads who the server at the other end is.
pub async fn identity(conn: &mut Conn) -> Result<Identity, Failure> {
    let row: Option<(String, String)> = conn
        .query_first("SELECT @@server_uuid, VERSION()")
        .await
        .map_err(|error| failure("read its identity", &error))?;
    let malformed =
        || Halt::new(Reason::SourcePreflight, "the source's server_uuid or version can't be read");
    let (uuid, version) = row.ok_or_else(malformed)?;
    let server_uuid = uuid.parse().map_err(|_| malformed())?;
    Ok(Identity { server_uuid, version, version_numbers: conn.server_version() })
}

/// MariaDB speaks the same protocol and logs another binlog.
pub(super) fn refuse_mariadb(version: &str) -> Result<(), Failure> {
    if version.to_ascii_lowercase().contains("mariadb") {
        let detail = format!("the source is MariaDB ({version}), whose binlog Tidegate does not read");
        return Err(Halt::new(Reason::SourcePreflight, detail).into());
    }
    Ok(())
}

fn options(config: &SourceConfig) -> Result<OptsBuilder, Failure> {
    let retry = |message: String| Failure::retry(Side::Source, message);
    let password = config.password.as_ref().map(|password| password.reveal());
    if config.tls.mode == TlsMode::Off && password.is_some_and(|p| p.len() > CLEAR_CHANNEL_PASSWORD_MAX) {
        return Err(retry(format!("without TLS a password has at most {CLEAR_CHANNEL_PASSWORD_MAX} bytes")));
    }
    let ssl = ssl_options(&config.tls).map_err(|error| retry(format!("TLS to the source: {error}")))?;
    Ok(OptsBuilder::default()
        .ip_or_hostname(config.host.as_str())
        .tcp_port(config.port)
        .user(Some(config.user.as_str()))
        .pass(password)
        .ssl_opts(ssl)
        // The driver's default moves a loopback connection to the unix socket, without TLS.
        .prefer_socket(false)
        .tcp_keepalive(Some(KEEPALIVE))
        .max_allowed_packet(Some(MAX_ALLOWED_PACKET))
        .stmt_cache_size(STATEMENT_CACHE))
}

fn ssl_options(config: &TlsConfig) -> Result<Option<SslOpts>, TlsError> {
    if config.mode == TlsMode::Off {
        return Ok(None);
    }
    let mut options = SslOpts::default()
        .with_danger_accept_invalid_certs(tls::accepts_any_certificate(config.mode))
        .with_danger_skip_domain_validation(tls::accepts_any_host(config.mode));
    if let Some(pem) = tls::ca_pem(config)? {
        options = options.with_root_certs(vec![pem.into()]).with_disable_built_in_roots(true);
    }
    let identity = tls::client_pkcs12(config)?;
    let identity = identity.map(|archive| ClientIdentity::new(archive.into()).with_password(""));
    Ok(Some(options.with_client_identity(identity)))
}

/// A login that was refused may be granted later (a password being rotated, a server starting):
/// it is retried within the budgets.
fn login_failure(error: &Error) -> Failure {
    let text = format!("connect to the source: {}", redact(error));
    Failure::retry(Side::Source, tls::advice::explained(text))
}

/// What a failed statement means: missing privileges and statements that the server does not
/// understand halt, everything else is retried within the budgets. `doing` completes "could not …".
#[must_use]
pub fn failure(doing: &str, error: &Error) -> Failure {
    meaning(doing, server_code(error), &redact(error))
}

/// As [`failure`], of a session that reads rows.
#[must_use]
pub fn session_failure(doing: &str, error: &SessionError) -> Failure {
    match error {
        SessionError::Server(ServerError { code, state, text }) => {
            meaning(doing, Some(*code), &redact_server(*code, state, text))
        }
        error => meaning(doing, None, &error.to_string()),
    }
}

fn meaning(doing: &str, code: Option<u16>, text: &str) -> Failure {
    let message = format!("the source could not {doing}: {text}");
    match code {
        Some(code) if PRIVILEGE_CODES.contains(&code) => Halt::new(Reason::SourcePreflight, message).into(),
        Some(code) if STATEMENT_CODES.contains(&code) => Halt::new(Reason::Internal, message).into(),
        _ => Failure::retry(Side::Source, message),
    }
}

/// The server's error code, if the server refused the statement.
#[must_use]
pub fn server_code(error: &Error) -> Option<u16> {
    match error {
        Error::Server(error) => Some(error.code),
        _ => None,
    }
}

/// Whether the server refused the statement for lack of a privilege.
pub(super) fn is_denied(error: &Error) -> bool {
    server_code(error).is_some_and(|code| PRIVILEGE_CODES.contains(&code))
}

/// Access to a database, table, column or operation denied.
const PRIVILEGE_CODES: &[u16] = &[1044, 1142, 1143, 1227, 1370, 1410];
/// Parse error, unknown column, function or variable, wrong value for a variable.
const STATEMENT_CODES: &[u16] = &[1064, 1054, 1305, 1193, 1231, 1149];

/// Codes whose text names accounts, hosts, objects, settings and GTIDs only (MySQL Error
/// Reference). The text of any other may quote a value.
const PLAIN_CODES: &[u16] = &[
    1040, 1042, 1043, 1044, 1045, 1049, 1053, 1100, 1129, 1130, 1142, 1143, 1146, 1158, 1159, 1160, 1161,
    1193, 1203, 1205, 1213, 1226, 1227, 1236, 1251, 1290, 1317, 1370, 1401, 1410, 1412, 1698, 1773, 1820,
    1862, 3024, 3032, 3118, 3159, 3572, 3955, 4031,
];

/// What may be said of a driver's error: never a value, a literal or a secret.
#[must_use]
pub fn redact(error: &Error) -> String {
    match error {
        Error::Server(error) => redact_server(error.code, &error.state, &error.message),
        Error::Io(IoError::Io(error)) => format!("connection: {}", error.kind()),
        Error::Io(IoError::Tls(error)) => format!("TLS: {error}"),
        Error::Driver(error) => redact_driver(error).to_owned(),
        Error::Other(_) => "driver: other error".to_owned(),
        Error::Url(_) => "driver: malformed address".to_owned(),
    }
}

fn redact_server(code: u16, state: &str, text: &str) -> String {
    if PLAIN_CODES.contains(&code) {
        format!("ERROR {code} ({state}): {text}")
    } else {
        format!("ERROR {code} ({state})")
    }
}

const fn redact_driver(error: &DriverError) -> &'static str {
    match error {
        DriverError::ConnectionClosed => "the connection is closed",
        DriverError::PacketOutOfOrder => "driver: packets out of order",
        DriverError::PacketTooLarge => "driver: packet too large",
        DriverError::UnexpectedPacket { .. } => "driver: unexpected packet",
        DriverError::UnknownAuthPlugin { .. } => "the account's authentication plugin is not supported",
        DriverError::MysqlOldPasswordDisabled => {
            "the account's authentication plugin mysql_old_password is not supported"
        }
        DriverError::CleartextPluginDisabled => "the server asks for the password in clear text",
        DriverError::NoClientSslFlagFromServer => "the server does not offer TLS",
        DriverError::FromValue { .. } | DriverError::FromRow { .. } => {
            "driver: a result is not of the expected type"
        }
        _ => "driver: other error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mysql_async::Value;

    fn server(code: u16, message: &str) -> Error {
        let state = "42000".to_owned();
        Error::Server(mysql_async::ServerError { code, message: message.to_owned(), state })
    }

    #[test]
    fn texts_that_may_quote_a_value_are_left_out() {
        let syntax = "You have an error in your SQL syntax near 'secret'";
        for (code, text) in
            [(1064, syntax), (1062, "Duplicate entry 'secret'"), (1366, "Incorrect value 'secret'")]
        {
            assert_eq!(redact(&server(code, text)), format!("ERROR {code} (42000)"));
        }
        assert_eq!(
            redact(&server(1045, "Access denied for user 'u'")),
            "ERROR 1045 (42000): Access denied for user 'u'"
        );
    }

    #[test]
    fn what_a_driver_could_not_convert_is_left_out() {
        let value = Value::Bytes(b"secret".to_vec());
        let errors = [
            DriverError::FromValue { value },
            DriverError::UnexpectedPacket { payload: b"secret".to_vec() },
            DriverError::UnknownAuthPlugin { name: "x".to_owned() },
        ];
        for error in errors {
            assert!(!redact(&Error::Driver(error)).contains("secret"));
        }
        assert_eq!(redact(&Error::Other("secret".into())), "driver: other error");
        let io = Error::Io(IoError::Io(std::io::Error::other("secret")));
        assert!(!redact(&io).contains("secret"));
    }

    #[test]
    fn what_is_retried_and_what_halts() {
        let reason = |code| match failure("do it", &server(code, "text")) {
            Failure::Halt(halt) => Some(halt.reason),
            Failure::Retry { .. } => None,
        };
        assert_eq!(reason(1142), Some(Reason::SourcePreflight));
        assert_eq!(reason(1227), Some(Reason::SourcePreflight));
        assert_eq!(reason(1064), Some(Reason::Internal));
        for code in [1040, 1053, 1205, 1213, 1317, 4031, 9999] {
            assert_eq!(reason(code), None, "{code}");
        }
    }

    #[test]
    fn a_sessions_errors_mean_what_the_drivers_do() {
        for (code, text) in [(1064, "near 'secret'"), (1142, "SELECT denied"), (1317, "interrupted")] {
            let state = "42000".to_owned();
            let ours = SessionError::Server(ServerError { code, state, text: text.to_owned() });
            assert_eq!(session_failure("do it", &ours), failure("do it", &server(code, text)));
        }
        assert!(matches!(session_failure("do it", &SessionError::Unexpected), Failure::Retry { .. }));
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version_numbers("9.7.4-2"), (9, 7, 4));
        assert_eq!(version_numbers("8.0.30"), (8, 0, 30));
        assert_eq!(version_numbers("8.4"), (8, 4, 0));
        assert_eq!(version_numbers("99999999.1"), (0, 1, 0));
    }

    #[test]
    fn mariadb_is_refused() {
        assert!(refuse_mariadb("10.11.19-MariaDB-log").is_err());
        assert!(refuse_mariadb("5.5.5-10.11.19-MariaDB").is_err());
        assert!(refuse_mariadb("8.4.3").is_ok());
    }
}
