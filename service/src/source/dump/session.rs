//! A logged-in connection that is about to become a dump: TLS, login, and the few commands that
//! come before it.

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio_native_tls::TlsConnector;

use super::auth::{AuthError, Greeting, Login, Reply};
use super::refusal::ServerError;
use super::wire::{Wire, WireError};
use crate::config::{SourceConfig, TlsMode};
use crate::halt::{Failure, Halt, Reason, Side};
use crate::source::connect::refuse_mariadb;
use crate::tls;

const COM_QUERY: u8 = 0x03;

impl From<AuthError> for Failure {
    fn from(error: AuthError) -> Self {
        Self::retry(Side::Source, tls::advice::explained(format!("login to the source: {error}")))
    }
}

pub(super) struct Session {
    wire: Wire,
    pub(super) connection_id: u32,
}

impl Session {
    /// Connects and logs in.
    pub(super) async fn connect(config: &SourceConfig) -> Result<Self, Failure> {
        let (wire, greeting) = dial(config).await?;
        let mut session = Self { wire, connection_id: greeting.connection_id };
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

    /// Sends a command that the server answers with one OK packet.
    pub(super) async fn command(&mut self, payload: &[u8]) -> Result<(), Failure> {
        self.wire.command(payload).await?;
        let packet = self.wire.read().await?;
        refused(&packet)?;
        if packet.first() == Some(&0) { Ok(()) } else { Err(unexpected()) }
    }

    pub(super) async fn execute(&mut self, sql: &str) -> Result<(), Failure> {
        self.command(&query(sql)).await
    }

    /// The value of a query that gives one row of one column, as text (`COM_QUERY` response).
    pub(super) async fn value(&mut self, sql: &str) -> Result<String, Failure> {
        self.wire.command(&query(sql)).await?;
        let columns = self.result_packet().await?;
        if columns[..] != [1] {
            return Err(unexpected());
        }
        // Column definition, its end, the row, the end.
        for _ in 0..2 {
            self.result_packet().await?;
        }
        let row = self.result_packet().await?;
        self.result_packet().await?;
        match row.split_first() {
            Some((length, text)) if *length < 0xfb && usize::from(*length) == text.len() => {
                String::from_utf8(text.to_vec()).map_err(|_| unexpected())
            }
            _ => Err(unexpected()),
        }
    }

    async fn result_packet(&mut self) -> Result<Bytes, Failure> {
        let packet = self.wire.read().await?;
        refused(&packet)?;
        Ok(packet)
    }

    /// Sends the command that ends the session's life as such.
    pub(super) async fn into_stream(mut self, payload: &[u8]) -> Result<Wire, Failure> {
        self.wire.command(payload).await?;
        Ok(self.wire)
    }
}

/// Connects, reads the greeting and goes into TLS where it is configured.
async fn dial(config: &SourceConfig) -> Result<(Wire, Greeting), Failure> {
    let tls = tls::connector(&config.tls)
        .map_err(|error| Failure::retry(Side::Source, format!("TLS to the source: {error}")))?;
    let stream = TcpStream::connect((config.host.as_str(), config.port)).await.map_err(WireError::Io)?;
    stream.set_nodelay(true).map_err(WireError::Io)?;
    let mut wire = Wire::new(stream);
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
        Some(0xff) => Err(ServerError::parse(packet).map_or_else(unexpected, |error| error.login_failure())),
        _ => Ok(()),
    }
}

fn refused(packet: &[u8]) -> Result<(), Failure> {
    match packet.first() {
        Some(0xff) => Err(ServerError::parse(packet).map_or_else(unexpected, |error| error.failure())),
        _ => Ok(()),
    }
}

fn query(sql: &str) -> Vec<u8> {
    let mut payload = vec![COM_QUERY];
    payload.extend_from_slice(sql.as_bytes());
    payload
}

fn unexpected() -> Failure {
    Halt::new(
        Reason::UnrecognizedDumpError,
        "the source answered with a packet that the protocol does not allow here",
    )
    .into()
}
