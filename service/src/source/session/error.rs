//! Why a session could not do what it was asked to.

use super::socket::WireError;
use crate::halt::{Failure, Side};

/// Longest part of a server's error text that is passed on; the server cuts its own at 512.
const TEXT_MAX: usize = 1024;

/// The state that the server itself gives errors which have no other (`ER_UNKNOWN_ERROR`).
const GENERAL_STATE: &str = "HY000";

/// An error packet (MySQL internals manual, "ERR_Packet"). Its text may quote a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ERROR {code}: {text}")]
pub struct ServerError {
    pub code: u16,
    /// SQLSTATE.
    pub state: String,
    pub text: String,
}

impl ServerError {
    /// Parses a packet that begins with 0xff. Before the login the SQL state is absent.
    pub(in crate::source) fn parse(packet: &[u8]) -> Option<Self> {
        let (code, rest) = packet.strip_prefix(&[0xff])?.split_first_chunk::<2>()?;
        let (state, text) = match rest {
            [b'#', rest @ ..] if rest.len() >= GENERAL_STATE.len() => rest.split_at(GENERAL_STATE.len()),
            text => (GENERAL_STATE.as_bytes(), text),
        };
        let shown = |bytes: &[u8]| -> String {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]);
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
        };
        Some(Self { code: u16::from_le_bytes(*code), state: shown(state), text: shown(text) })
    }

    /// A login that was refused: it may be granted later (a password being rotated, a server
    /// starting or full), so it is retried within the budgets.
    pub(super) fn login_failure(&self) -> Failure {
        Failure::retry(Side::Source, format!("the source refused the login: {self}"))
    }
}

/// Why a command has no answer. Only a session that the server has refused something goes on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the source answered with a packet that the protocol does not allow here")]
    Unexpected,
    #[error("the connection is in the middle of an exchange that was given up")]
    Unfinished,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_with_and_without_sql_state() {
        let with = ServerError::parse(b"\xff\xd4\x04#HY001Binary log\nis not open").unwrap();
        let expected =
            ServerError { code: 1236, state: "HY001".to_owned(), text: "Binary log is not open".to_owned() };
        assert_eq!(with, expected);
        let without = ServerError::parse(b"\xff\x10\x04Too many connections").unwrap();
        assert_eq!((without.code, without.text.as_str()), (1040, "Too many connections"));
        let cut = ServerError::parse(b"\xff\x10\x04#42").unwrap();
        assert_eq!((cut.state.as_str(), cut.text.as_str()), (GENERAL_STATE, "#42"));
        assert_eq!(ServerError::parse(b"\xff\x10"), None);
        assert_eq!(ServerError::parse(b"\x00"), None);
    }

    #[test]
    fn a_refused_login_is_retried() {
        let error = ServerError::parse(b"\xff\x15\x04#28000Access denied for user 'u'@'h'").unwrap();
        assert!(matches!(error.login_failure(), Failure::Retry { .. }));
    }
}
