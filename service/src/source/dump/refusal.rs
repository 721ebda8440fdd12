//! What an error packet on a dump connection means.
//!
//! The server reports most refusals of a dump as error 1236 and tells them apart by text only
//! (server source `sql/rpl_binlog_sender.cc`, `sql/rpl_source.cc` and `share/messages_to_clients.txt`;
//! before 8.0.26 the same texts say "master" and "slave"). The texts name files, positions,
//! GTID sets and settings, never data.

use crate::halt::{Failure, Halt, Reason, Side};
use crate::source::session::{ServerError, SessionError};

/// The end of the cycle that an error means on a connection that is logged in.
pub(super) fn refusal(error: &ServerError) -> Failure {
    let reason = match error.code {
        code::SERVER_SHUTDOWN
        | code::NET_PACKET_ERROR..=code::NET_WRITE_INTERRUPTED
        | code::QUERY_INTERRUPTED
        | code::SERVER_OFFLINE_MODE
        | code::CLIENT_INTERACTION_TIMEOUT => {
            return Failure::retry(Side::Source, format!("the source says: {error}"));
        }
        code::SOURCE_FATAL_ERROR_READING_BINLOG => reason_of_text(&error.text),
        code::ACCESS_DENIED | code::SPECIFIC_ACCESS_DENIED => {
            let detail = format!("the account lacks REPLICATION SLAVE; the source says: {error}");
            return Halt::new(Reason::SourcePreflight, detail).into();
        }
        code::MALFORMED_GTID_SET_ENCODING => Reason::Internal,
        _ => Reason::UnrecognizedDumpError,
    };
    Halt::new(reason, format!("the source says: {error}")).into()
}

/// As [`refusal`], for a command that comes before the dump.
pub(super) fn refused(error: SessionError) -> Failure {
    match error {
        SessionError::Server(error) => refusal(&error),
        SessionError::Wire(error) => error.into(),
        SessionError::Unexpected | SessionError::Unfinished => {
            Halt::new(Reason::UnrecognizedDumpError, error.to_string()).into()
        }
    }
}

/// Error codes (MySQL Error Reference, "Server Error Message Reference").
mod code {
    /// Behind the login: no REPLICATION SLAVE for `COM_REGISTER_REPLICA`.
    pub(super) const ACCESS_DENIED: u16 = 1045;
    pub(super) const SERVER_SHUTDOWN: u16 = 1053;
    pub(super) const NET_PACKET_ERROR: u16 = 1158;
    pub(super) const NET_WRITE_INTERRUPTED: u16 = 1161;
    pub(super) const SPECIFIC_ACCESS_DENIED: u16 = 1227;
    pub(super) const SOURCE_FATAL_ERROR_READING_BINLOG: u16 = 1236;
    pub(super) const QUERY_INTERRUPTED: u16 = 1317;
    pub(super) const MALFORMED_GTID_SET_ENCODING: u16 = 1773;
    pub(super) const SERVER_OFFLINE_MODE: u16 = 3032;
    pub(super) const CLIENT_INTERACTION_TIMEOUT: u16 = 4031;
}

/// The refusals that error 1236 stands for, by the part of their text that 8.0 to 9.7 share.
const TEXTS: &[(&str, Reason)] = &[
    ("purged required binary logs", Reason::DataGap),
    ("with the same server_uuid/server_id", Reason::ServerIdConflict),
    ("has more gtids than the", Reason::SourceIdentityMismatch),
    // The file that was being read is not in the source's list any more: RESET BINARY LOGS AND GTIDS
    // took it. PURGE leaves a file alone that a dump reads.
    ("could not find next log", Reason::SourceIdentityMismatch),
    ("can not handle replication events with the checksum", Reason::DumpChecksumRefused),
    ("cannot replicate anonymous transaction", Reason::AnonymousGtid),
    ("cannot start in auto_position mode", Reason::SourcePreflight),
    ("binary log is not open", Reason::SourcePreflight),
    ("server_id is 0", Reason::SourcePreflight),
];

fn reason_of_text(text: &str) -> Reason {
    let text = text.to_ascii_lowercase();
    let known = TEXTS.iter().find(|(part, _)| text.contains(part));
    known.map_or(Reason::UnrecognizedDumpError, |(_, reason)| *reason)
}

/// Whether a dump was refused because it asks for purged transactions.
pub(super) fn is_purged(failure: &Failure) -> bool {
    matches!(failure, Failure::Halt(halt) if halt.reason == Reason::DataGap)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify(code: u16, text: &str) -> Failure {
        refusal(&ServerError { code, state: "HY000".to_owned(), text: text.to_owned() })
    }

    fn reason(failure: Failure) -> Option<Reason> {
        match failure {
            Failure::Halt(halt) => Some(halt.reason),
            Failure::Retry { .. } => None,
        }
    }

    #[test]
    fn every_known_1236_text_has_its_reason() {
        let cases = [
            (
                "Cannot replicate because the source purged required binary logs. Replicate the missing \
                 transactions from elsewhere, or provision a new replica from backup. Consider increasing the \
                 source's binary log expiration period. The GTID set sent by the replica is '', and the missing \
                 transactions are '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3'",
                Reason::DataGap,
            ),
            (
                "Cannot replicate because the master purged required binary logs. Replicate the missing \
                 transactions from elsewhere, or provision a new slave from backup.",
                Reason::DataGap,
            ),
            (
                "A replica with the same server_uuid/server_id as this replica has connected to the source; the \
                 first event 'binlog.000001' at 4, the last event read from './binlog.000002' at 126, the last \
                 byte read from './binlog.000002' at 126.",
                Reason::ServerIdConflict,
            ),
            (
                "A slave with the same server_uuid/server_id as this slave has connected to the master",
                Reason::ServerIdConflict,
            ),
            (
                "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may indicate \
                 that the the last binary log file was truncated or lost, e.g., after a power failure when \
                 sync_binlog != 1.",
                Reason::SourceIdentityMismatch,
            ),
            (
                "Slave has more GTIDs than the master has, using the master's SERVER_UUID.",
                Reason::SourceIdentityMismatch,
            ),
            (
                "Replica can not handle replication events with the checksum that source is configured to log",
                Reason::DumpChecksumRefused,
            ),
            (
                "Cannot replicate anonymous transaction when AUTO_POSITION = 1, at file ./binlog.000002, \
                 position 158.",
                Reason::AnonymousGtid,
            ),
            (
                "The replication sender thread cannot start in AUTO_POSITION mode: this server has GTID_MODE = \
                 ON_PERMISSIVE instead of ON.",
                Reason::SourcePreflight,
            ),
            ("Binary log is not open", Reason::SourcePreflight),
            ("Misconfigured source - source server_id is 0", Reason::SourcePreflight),
            (
                "could not find next log; the first event '' at 4, the last event read from \
                 './binlog.000003' at 1025, the last byte read from './binlog.000003' at 1025.",
                Reason::SourceIdentityMismatch,
            ),
            ("I/O error reading log event", Reason::UnrecognizedDumpError),
            (
                "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source",
                Reason::UnrecognizedDumpError,
            ),
            ("a text of a later release", Reason::UnrecognizedDumpError),
        ];
        for (text, expected) in cases {
            assert_eq!(reason(classify(1236, text)), Some(expected), "{text}");
        }
    }

    #[test]
    fn the_servers_text_reaches_the_operator() {
        let Failure::Halt(halt) = classify(1236, "Binary log is not open") else { panic!("a halt") };
        assert_eq!(halt.detail, "the source says: ERROR 1236: Binary log is not open");
    }

    #[test]
    fn other_codes() {
        let denied = "Access denied; you need (at least one of) the REPLICATION SLAVE privilege(s) for this \
                      operation";
        assert_eq!(reason(classify(1227, denied)), Some(Reason::SourcePreflight));
        assert_eq!(reason(classify(1773, "Malformed GTID set encoding.")), Some(Reason::Internal));
        assert_eq!(reason(classify(1045, "Access denied for user 'u'@'h'")), Some(Reason::SourcePreflight));
        assert_eq!(reason(classify(1053, "Server shutdown in progress")), None);
        assert_eq!(reason(classify(9999, "?")), Some(Reason::UnrecognizedDumpError));
    }
}
