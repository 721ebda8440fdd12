//! The catalogue of halts: every reason for which the pipeline stops by itself, with the
//! operator's remedy, and the split between what is retried and what halts.
//!
//! A halt never carries a row value, a statement literal, an XID or a credential: its `detail`
//! names objects (tables, columns, event types, positions, GTIDs, settings) and nothing else.

use std::fmt;

use crate::gtid::Gtid;

macro_rules! reasons {
    ($($variant:ident $name:literal $remedy:literal,)*) => {
        /// Why the pipeline halted. The names are stable: they are stored in `tidegate.halt`,
        /// served by `/status`, and are the headings of the runbook.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason { $(#[doc = $remedy] $variant,)* }

        impl Reason {
            /// Every reason, in catalogue order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable name, as stored, served and used as a runbook heading.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What the operator does about it, in one or two sentences. "Start over" and "copy
            /// the table again" are procedures of the runbook.
            #[must_use]
            pub const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy,)* }
            }
        }
    };
}

reasons! {
    // The event sequence contradicts the grammar.
    GtidWithinOpenTransaction "gtid_within_open_transaction"
        "A transaction was cut off by the next one. If mysqlbinlog shows its end at the reported GTID, connect to the source directly and resume; if it does not, the binlog is damaged: start over.",
    BeginWithoutGtid "begin_without_gtid"
        "A transaction arrived without a GTID. Connect to the source directly, without anything that rewrites the binlog stream, and resume; if the binlog itself has it so, start over.",
    QueryWithoutGtid "query_without_gtid"
        "A statement arrived without a GTID. Connect to the source directly, without anything that rewrites the binlog stream, and resume; if the binlog itself has it so, start over.",
    RowsWithoutTransaction "rows_without_transaction"
        "Rows arrived outside a transaction. Connect to the source directly, without anything that rewrites the binlog stream, and resume; if the binlog itself has it so, start over.",
    TerminatorWithoutTransaction "terminator_without_transaction"
        "A commit arrived outside a transaction. Connect to the source directly, without anything that rewrites the binlog stream, and resume; if the binlog itself has it so, start over.",
    UnmappedTableId "unmapped_table_id"
        "Rows name a table id that their statement did not announce. If mysqlbinlog shows it in order, connect to the source directly and resume; if it does not, the binlog is damaged: start over.",
    TransactionLengthMismatch "transaction_length_mismatch"
        "A transaction is longer or shorter than its GTID event says: events are missing or were added. Resume once; if it halts again at the same GTID, the binlog is damaged: start over.",
    UnsupportedTransactionShape "unsupported_transaction_shape"
        "The transaction has a shape that Tidegate does not apply, such as a two-phase XA transaction. For XA, set fold.xa = \"track\", grant XA_RECOVER_ADMIN, and restart; for another shape, start over.",
    CompressedPayloadInvalid "compressed_payload_invalid"
        "A compressed transaction could not be inflated. Resume once; if it halts again and mysqlbinlog can't read the place either, the binlog is damaged: start over.",
    BufferExhausted "buffer_exhausted"
        "The transactions in hand are larger than fold.max_spill_bytes allows. Raise it, and resume.",
    SpillFailed "spill_failed"
        "A spill file for a transaction that is larger than memory could not be written or read. Make room in fold.spill_directory or name another one, and resume.",
    XaCommitWithoutPrepare "xa_commit_without_prepare"
        "An XA transaction is committed whose prepare Tidegate has not seen, so its rows are missing here. Start over, as the runbook says.",
    XaRollbackWithoutPrepare "xa_rollback_without_prepare"
        "An XA transaction is rolled back whose prepare Tidegate has not seen: the history is not the one that was copied. Start over, as the runbook says.",
    XaPreparedGtidMismatch "xa_prepared_gtid_mismatch"
        "An XA transaction is prepared again that was never resolved in the binlog: a session resolved it with sql_log_bin=0. Start over, as the runbook says.",
    XaPreparedPoolExhausted "xa_prepared_pool_exhausted"
        "More XA transactions are prepared and unresolved than fold.xa_max_prepared allows. Resolve those that their application has forgotten, or raise the bound, then resume.",
    DdlUnparsed "ddl_unparsed"
        "A statement could not be read well enough to tell which tables it touches. Report the shape of the statement; to go on without a release that reads it, start over.",
    DdlUnsupported "ddl_unsupported"
        "ddl.policy is \"halt\", or the schema change failed half-way on the source. Set ddl.policy to \"mirror\" or \"resync\" and restart; after a change that failed half-way, copy the table again.",
    RowsKept "rows_kept"
        "A schema change would lose rows that the source has removed and that ddl.ignore has kept on the target. Rename the target's table if they are needed, and copy the table again.",
    StatementFormatDml "statement_format_dml"
        "A session wrote with binlog_format=STATEMENT or MIXED, so its rows are not in the binlog. Set binlog_format=ROW globally and in that application, then start over.",
    PartialRowImage "partial_row_image"
        "A row event does not carry all columns. Set binlog_row_image=FULL globally and in every session, then copy the table again.",
    PartialJson "partial_json"
        "A session wrote partial JSON updates. Set binlog_row_value_options='' globally and in every session, then copy the table again.",
    AnonymousGtid "anonymous_gtid"
        "The source wrote transactions without GTIDs. Set gtid_mode=ON, then start over.",
    Incident "incident"
        "The source reports that it lost changes (an INCIDENT event). Start over.",
    RollbackInStream "rollback_in_stream"
        "The stream holds a rolled back transaction in statement format. Set binlog_format=ROW globally and in every session, then start over.",
    RowMetadataNotFull "row_metadata_not_full"
        "Table maps carry no column names. SET PERSIST binlog_row_metadata = 'FULL', then copy the table again.",
    CascadeNotLogged "cascade_not_logged"
        "A foreign key with CASCADE, SET NULL or SET DEFAULT changes rows that the source does not log. Add the key again without actions, or have every server before Tidegate log them (MySQL 9.6 or later, innodb_native_foreign_keys=OFF), then start over.",
    UnknownEvent "unknown_event"
        "The source sent an event type that this release does not know. Check that the source is MySQL 8.0 to 9.7 and not MariaDB, and upgrade Tidegate, or turn off what writes the event and start over.",
    // The bytes.
    EventChecksumMismatch "event_checksum_mismatch"
        "An event does not match its CRC32. If mysqlbinlog can read the place, look at the network and resume; if it can't, the binlog is damaged: start over.",
    EventMalformed "event_malformed"
        "An event could not be decoded. If mysqlbinlog can't read the place, the binlog is damaged: start over; if it can, report the event type, and copy the table again where one is named.",
    // Values and schema.
    SchemaDrift "schema_drift"
        "The source's table is not what Tidegate recorded when it copied it. Copy the table again.",
    TargetDrift "target_drift"
        "The target's table is not what Tidegate created or checked. Restore the reported column or key and resume; if rows were changed as well or the table is gone, copy the table again.",
    UnsupportedType "unsupported_type"
        "A replicated table has a column of a type that this release does not convert. Exclude the table.",
    UnsupportedCharset "unsupported_charset"
        "A replicated table has a column in a character set that this release does not convert. Exclude the table, or convert the column to utf8mb4 and, if it is replicated already, copy the table again.",
    UnsupportedName "unsupported_name"
        "A database, table or column has a name that PostgreSQL can't have or Tidegate must not use. Rename it on the source or exclude the table.",
    UnsupportedKey "unsupported_key"
        "A table's key can't be a key on the target: its entries are wider than PostgreSQL indexes, or different values would become the same. Give the table a narrower key or exclude it.",
    ValueOutOfRange "value_out_of_range"
        "A value does not fit the target's column type. Choose a policy for the column under [policies], mend the value on the source and copy the table again, or exclude the table.",
    RowTooLarge "row_too_large"
        "A row, or an entry of an index, is larger than PostgreSQL stores. Drop such an index on the target and resume; for a row, let the source's table have fewer or narrower columns and copy the table again, or exclude the table.",
    ValueInvalid "value_invalid"
        "A value can't be stored in PostgreSQL as it is (bytes invalid in the column's character set, a NUL character, an impossible date, or a geometry that PostGIS would refuse or change). Choose a policy for the column under [policies], or for a geometry bytea under [types]; else mend the value on the source and copy the table again, or exclude the table.",
    ConversionOnKey "conversion_on_key"
        "A value of a key column can't be stored as it is, and the column's policy could make two different keys the same. Mend the value on the source and copy the table again, choose a policy that keeps keys apart, or exclude the table.",
    PolicyInvalid "policy_invalid"
        "The configuration has a policy for a column that no replicated table has, or that can't hold such values. Correct the name under [policies], then restart.",
    KeylessRowNotFound "keyless_row_not_found"
        "A change to a table without a key did not match exactly one row on the target. Something else changed the target's table: copy the table again.",
    TargetConstraint "target_constraint"
        "The target refused a change that the source accepted. Remove the constraint, trigger or rule that Tidegate did not create, then resume.",
    TargetDependency "target_dependency"
        "Something on the target that Tidegate did not create, such as a view or a foreign key, depends on a table or column that the source has dropped or changed. Drop it, resume, and create it again.",
    DdlLockUnavailable "ddl_lock_unavailable"
        "A schema change could not be applied: a long query or transaction on the target holds the table. End it, then resume.",
    // The source.
    DataGap "data_gap"
        "The source has purged binlogs that Tidegate still needs. Point source.url at a server that still has them, or start over; raise binlog_expire_logs_seconds.",
    ServerIdConflict "server_id_conflict"
        "Another replica uses the same server_id or replica UUID and the two evict one another. Give each a source.server_id of its own and stop the other instance.",
    SourceIdentityMismatch "source_identity_mismatch"
        "The source does not have the transactions that Tidegate has applied from it: it was reset, restored or replaced. Point Tidegate at the right server, let a replica that lags catch up, or start over.",
    SourceHistoryDiverged "source_history_diverged"
        "The source has another transaction under a GTID that Tidegate has applied or copied rows with: it was reset or restored and refilled. Start over.",
    DumpChecksumRefused "dump_checksum_refused"
        "The source refused to send events with its checksum setting. Set binlog_checksum to CRC32 or NONE and resume.",
    UnrecognizedDumpError "unrecognized_dump_error"
        "The source refused or broke off the binlog stream with an error that Tidegate does not know. See the error text and the source's error log.",
    SourcePreflight "source_preflight"
        "The source's settings or privileges do not allow an exact replication. Run `tidegate check` and apply the SQL it prints.",
    SourceUnavailable "source_unavailable"
        "The source could not be reached or kept failing within the retry budget. Check that it runs and that address, credentials and TLS settings are right, then resume.",
    // The target.
    TargetPreflight "target_preflight"
        "The target's settings or privileges do not allow an exact replication. Run `tidegate check` and apply the SQL it prints.",
    TargetUnavailable "target_unavailable"
        "The target could not be reached or kept failing within the retry budget. Check that it runs and that address, credentials and TLS settings are right, then resume.",
    CheckpointInvalid "checkpoint_invalid"
        "The control schema `tidegate` in the target was changed by something else or written by a newer release. Use the newer release, restore the whole target from a backup, or start over.",
    // The snapshot.
    SnapshotLockUnavailable "snapshot_lock_unavailable"
        "The brief read lock that a table's copy starts with could not be had: a long write transaction or a prepared XA transaction holds the table. End it, then resume.",
    SnapshotInterrupted "snapshot_interrupted"
        "A table was changed by DDL during its copy more often than snapshot.max_captures allows. Resume when the schema changes are over, or grant BACKUP_ADMIN so that Tidegate can hold DDL off.",
    Internal "internal_error"
        "Tidegate found itself in a state that should be impossible. Restart it; if it halts again, report the detail.",
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A terminal stop of the pipeline: the reason, what it concerns, and nothing of the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    pub reason: Reason,
    /// One sentence for the operator. Names objects, never values.
    pub detail: String,
    /// The GTID of the group in hand, where there is one.
    pub gtid: Option<Gtid>,
    /// The source table concerned, as `database.table`.
    pub table: Option<String>,
}

impl Halt {
    #[must_use]
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), gtid: None, table: None }
    }

    /// Adds the GTID unless one is already there: the innermost knows best.
    #[must_use]
    pub fn at_gtid(mut self, gtid: &Gtid) -> Self {
        self.gtid.get_or_insert_with(|| gtid.clone());
        self
    }

    /// Adds the table unless one is already there.
    #[must_use]
    pub fn on_table(mut self, database: &str, table: &str) -> Self {
        self.table.get_or_insert_with(|| format!("{database}.{table}"));
        self
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.detail)?;
        if let Some(table) = &self.table {
            write!(f, " (table {table})")?;
        }
        if let Some(gtid) = &self.gtid {
            write!(f, " (GTID {gtid})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Halt {}

/// Which server a retried failure concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Source,
    Target,
}

/// How one cycle of the pipeline ends when it does not end by request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Terminal until the operator acts.
    #[error(transparent)]
    Halt(Box<Halt>),
    /// Connections are dropped and the cycle starts over from the checkpoint.
    #[error("{message}")]
    Retry { side: Side, message: String },
}

impl From<Halt> for Failure {
    fn from(halt: Halt) -> Self {
        Self::Halt(Box::new(halt))
    }
}

impl Failure {
    /// A failure of the named server's connection. `message` must not hold data: use the
    /// `redact` helpers of `source` and `sink` to turn a driver's error into it.
    #[must_use]
    pub fn retry(side: Side, message: impl Into<String>) -> Self {
        Self::Retry { side, message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_snake_case() {
        let names: HashSet<_> = Reason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), Reason::ALL.len());
        assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
    }
}
