//! A logged-in connection to the source on our own transport: TLS, login, statements, and rows
//! that are looked at where they lie in the read buffer.
//!
//! It is what becomes a binlog dump, and what reads the rows of a copy: there the driver's
//! allocations, several a row, were the most that a row cost (ADR 0017). All other SQL goes through
//! the driver.
//!
//! MySQL internals manual, "Connection Phase", "Text Protocol", "Prepared Statements". The session
//! does without CLIENT_DEPRECATE_EOF: definitions and rows end with an EOF packet.

mod auth;
mod cursor;
mod error;
mod packet;
mod socket;

use std::time::Duration;

use tokio::time::timeout;
use tokio_native_tls::TlsConnector;

use self::auth::{AuthError, Greeting, Login, Reply};
use super::connect::refuse_mariadb;
use crate::config::{SourceConfig, TlsMode};
use crate::halt::{Failure, Side};
use crate::tls;

pub(super) use self::cursor::Cursor;
pub use self::error::{ServerError, SessionError};
pub(super) use self::socket::Wire;
pub use self::socket::WireError;

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_CLOSE: u8 = 0x19;

/// How long saying good-bye may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// An EOF packet is shorter than this; what else begins with its first byte is longer.
const EOF_LENGTH_MAX: usize = 9;

/// Most columns of a result set: those of a table (server source `sql/sql_const.h`, `MAX_FIELDS`).
const COLUMNS_MAX: usize = 4096;

/// Flag of a column definition whose integers are unsigned.
const UNSIGNED_FLAG: u16 = 32;

impl From<AuthError> for Failure {
    fn from(error: AuthError) -> Self {
        Self::retry(Side::Source, tls::advice::explained(format!("login to the source: {error}")))
    }
}

/// A logged-in connection.
pub struct Session {
    wire: Wire,
    connection_id: u32,
    server_version: String,
    state: State,
    /// Prepared on the server, and to be closed there with the next command.
    statement: Option<u32>,
}

/// Where the session is, whatever became of who used it: a future that was dropped in the middle of
/// an exchange leaves `Busy`, one dropped among rows leaves `Rows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    /// Rows of a result set are still to come.
    Rows,
}

/// How a column of a result set comes (MySQL internals manual, "Protocol::ColumnDefinition41").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// One of `enum_field_types` (server source `include/field_types.h`).
    pub column_type: u8,
    /// Of an integer.
    pub unsigned: bool,
}

impl Definition {
    /// Catalog, schema, table, original table, name, original name: passed over.
    const NAMES: usize = 6;

    fn parse(packet: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(packet);
        for _ in 0..Self::NAMES {
            cursor.text()?;
        }
        let mut fields = Cursor::new(cursor.text()?);
        let (_collation, _length) = (fields.u16()?, fields.u32()?);
        Some(Self { column_type: fields.u8()?, unsigned: fields.u16()? & UNSIGNED_FLAG != 0 })
    }
}

impl Session {
    #[cfg(test)]
    fn over(socket: tokio::io::DuplexStream) -> Self {
        let server_version = "9.7.4".to_owned();
        let wire = Wire::over(socket);
        Self { wire, connection_id: 1, server_version, state: State::Idle, statement: None }
    }

    /// Connects and logs in. Nothing of the session is set up.
    pub(super) async fn connect(config: &SourceConfig) -> Result<Self, Failure> {
        let (wire, greeting) = dial(config).await?;
        let Greeting { connection_id, ref server_version, .. } = greeting;
        let server_version = server_version.clone();
        let mut session = Self { wire, connection_id, server_version, state: State::Idle, statement: None };
        session.log_in(config, &greeting).await?;
        Ok(session)
    }

    async fn log_in(&mut self, config: &SourceConfig, greeting: &Greeting) -> Result<(), Failure> {
        let password = config.password.as_ref().map_or("", |password| password.reveal());
        let secure = config.tls.mode != TlsMode::Off;
        let (mut login, response) = Login::begin(greeting, &config.user, password, secure)?;
        self.wire.reply(&response).await?;
        loop {
            let packet = self.wire.read().await?;
            login_refused(&packet)?;
            match login.answer(&packet)? {
                Reply::Send(bytes) => self.wire.reply(&bytes).await?,
                Reply::Wait => {}
                Reply::LoggedIn => return Ok(()),
            }
        }
    }

    /// The server's id of the connection, as its greeting says it.
    pub(super) const fn connection_id(&self) -> u32 {
        self.connection_id
    }

    /// As the greeting says it, such as `9.7.4-2`.
    pub(super) fn server_version(&self) -> &str {
        &self.server_version
    }

    /// Runs a statement that gives no rows; returns the number of warnings.
    pub async fn execute(&mut self, sql: &str) -> Result<u16, SessionError> {
        self.command(&with_text(COM_QUERY, sql)).await
    }

    /// Sends a command that the server answers with one OK packet; returns the number of warnings.
    pub(super) async fn command(&mut self, payload: &[u8]) -> Result<u16, SessionError> {
        self.begin(payload).await?;
        let warnings = parse_ok(self.answer().await?).ok_or(SessionError::Unexpected)?;
        self.state = State::Idle;
        Ok(warnings)
    }

    /// The value of a query for at most one row of one column, as text; `None` for no row and for NULL.
    pub async fn value(&mut self, sql: &str) -> Result<Option<String>, SessionError> {
        self.begin(&with_text(COM_QUERY, sql)).await?;
        if self.answer().await? != [1] {
            return Err(SessionError::Unexpected);
        }
        self.definitions(1).await?;
        let row = self.answer().await?;
        let mut value = None;
        if !is_eof(row) {
            let mut cursor = Cursor::new(row);
            let text = cursor.text_or_null().filter(|_| cursor.is_empty()).ok_or(SessionError::Unexpected)?;
            let text = text.map(|text| String::from_utf8(text.to_vec())).transpose();
            value = text.map_err(|_| SessionError::Unexpected)?;
            self.end().await?;
        }
        self.state = State::Idle;
        Ok(value)
    }

    /// Runs a query of the binary protocol and returns how its columns come. [`Self::next_row`] gives
    /// its rows; those that nobody asks for are passed over when the session is used again.
    pub(super) async fn query(&mut self, sql: &str) -> Result<Vec<Definition>, SessionError> {
        self.begin(&with_text(COM_STMT_PREPARE, sql)).await?;
        let prepared = Prepared::parse(self.answer().await?).ok_or(SessionError::Unexpected)?;
        if prepared.parameters != 0 || prepared.columns == 0 {
            return Err(SessionError::Unexpected);
        }
        self.definitions(prepared.columns.into()).await?;
        self.statement = Some(prepared.statement);
        self.wire.commands(&[&execute_command(prepared.statement)]).await?;
        let mut head = Cursor::new(self.answer().await?);
        let columns = head.length().filter(|_| head.is_empty()).ok_or(SessionError::Unexpected)?;
        let definitions = self.definitions(columns).await?;
        self.state = State::Rows;
        Ok(definitions)
    }

    /// The next row of the query in hand without the byte that it begins with: the NULL bitmap and the
    /// values (MySQL internals manual, "Binary Protocol Resultset Row"). `None` after the last. Cancel
    /// safe.
    #[inline]
    pub(super) async fn next_row(&mut self) -> Result<Option<&[u8]>, SessionError> {
        if self.state != State::Rows {
            return Ok(None);
        }
        let ended = match self.answer().await?.split_first() {
            Some((0x00, _)) => false,
            Some((0xfe, rest)) if rest.len() < EOF_LENGTH_MAX - 1 => true,
            _ => {
                self.state = State::Busy;
                return Err(SessionError::Unexpected);
            }
        };
        if ended {
            self.state = State::Idle;
            return Ok(None);
        }
        Ok(self.wire.packet().get(1..))
    }

    /// Takes leave, so that the server counts no aborted connection. Nothing depends on it.
    pub(super) async fn close(mut self) {
        let _ignored = timeout(CLOSE_PATIENCE, self.begin(&[COM_QUIT])).await;
    }

    /// Sends the command that ends the session's life as such.
    pub(super) async fn into_stream(mut self, payload: &[u8]) -> Result<Wire, SessionError> {
        self.begin(payload).await?;
        Ok(self.wire)
    }

    /// Sends a command, once nothing of the one before is to come.
    async fn begin(&mut self, payload: &[u8]) -> Result<(), SessionError> {
        while self.next_row().await?.is_some() {}
        if self.state != State::Idle {
            return Err(SessionError::Unfinished);
        }
        self.state = State::Busy;
        let sent = match self.statement.take() {
            // It is not answered.
            Some(statement) => {
                let close = [&[COM_STMT_CLOSE][..], &statement.to_le_bytes()].concat();
                self.wire.commands(&[&close, payload]).await
            }
            None => self.wire.commands(&[payload]).await,
        };
        Ok(sent?)
    }

    /// The next packet of the answer. An error of the server ends the exchange.
    #[inline]
    async fn answer(&mut self) -> Result<&[u8], SessionError> {
        self.wire.advance().await?;
        if self.wire.packet().first() == Some(&0xff) {
            let error = ServerError::parse(self.wire.packet()).ok_or(SessionError::Unexpected)?;
            self.state = State::Idle;
            return Err(error.into());
        }
        Ok(self.wire.packet())
    }

    async fn definitions(&mut self, count: usize) -> Result<Vec<Definition>, SessionError> {
        if count > COLUMNS_MAX {
            return Err(SessionError::Unexpected);
        }
        let mut definitions = Vec::with_capacity(count);
        for _ in 0..count {
            let packet = self.answer().await?;
            definitions.push(Definition::parse(packet).ok_or(SessionError::Unexpected)?);
        }
        self.end().await?;
        Ok(definitions)
    }

    async fn end(&mut self) -> Result<(), SessionError> {
        if is_eof(self.answer().await?) { Ok(()) } else { Err(SessionError::Unexpected) }
    }
}

/// The answer to COM_STMT_PREPARE (MySQL internals manual, "COM_STMT_PREPARE Response").
struct Prepared {
    statement: u32,
    columns: u16,
    parameters: u16,
}

impl Prepared {
    fn parse(packet: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(packet.strip_prefix(&[0x00])?);
        Some(Self { statement: cursor.u32()?, columns: cursor.u16()?, parameters: cursor.u16()? })
    }
}

/// Without a cursor on the server and without parameters. The iteration count is always 1.
fn execute_command(statement: u32) -> Vec<u8> {
    [&[COM_STMT_EXECUTE][..], &statement.to_le_bytes(), &[0], &1_u32.to_le_bytes()].concat()
}

fn with_text(command: u8, sql: &str) -> Vec<u8> {
    [&[command], sql.as_bytes()].concat()
}

/// The warnings of an OK packet: they follow the counts of rows, the insert id and the status.
fn parse_ok(packet: &[u8]) -> Option<u16> {
    let mut cursor = Cursor::new(packet.strip_prefix(&[0x00])?);
    let (_rows, _insert_id, _status) = (cursor.length()?, cursor.length()?, cursor.u16()?);
    cursor.u16()
}

fn is_eof(packet: &[u8]) -> bool {
    packet.first() == Some(&0xfe) && packet.len() < EOF_LENGTH_MAX
}

/// Connects, reads the greeting and goes into TLS where it is configured.
async fn dial(config: &SourceConfig) -> Result<(Wire, Greeting), Failure> {
    let tls = tls::connector(&config.tls)
        .map_err(|error| Failure::retry(Side::Source, format!("TLS to the source: {error}")))?;
    let mut wire = Wire::connect(&config.host, config.port).await?;
    let packet = wire.read().await?;
    login_refused(&packet)?;
    let greeting = Greeting::parse(&packet).ok_or(AuthError::Greeting)?;
    refuse_mariadb(&greeting.server_version)?;
    let Some(tls) = tls else { return Ok((wire.plain(), greeting)) };
    wire.reply(&greeting.ssl_request()?).await?;
    let wire = wire.secure(&TlsConnector::from(tls), &config.host).await?;
    Ok((wire, greeting))
}

fn login_refused(packet: &[u8]) -> Result<(), Failure> {
    match packet.first() {
        Some(0xff) => Err(ServerError::parse(packet)
            .map_or_else(|| AuthError::Malformed.into(), |error| error.login_failure())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
