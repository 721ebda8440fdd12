//! The one table of configuration keys. What a key is, means and falls back to is written here
//! and nowhere else; reading, `tidegate init` and the reference page all go by it.

use std::time::Duration;

use crate::schema::collation::CollationChoice;
use crate::schema::partitions::PartitionChoice;
use crate::schema::policy::ValueKind;

/// What a key takes, with its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Path,
    List,
    Boolean,
    Choice(&'static [&'static str]),
    Integer { min: u64, max: u64 },
    Duration { min: Duration, max: Duration },
    Size { min: u64, max: u64 },
}

/// What holds when a key is left out. The texts are in TOML syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fallback {
    /// Has to be set; an example.
    Required(&'static str),
    /// Nothing; an example.
    Unset(&'static str),
    /// This value, in the environment's notation: no quotes.
    Value(&'static str),
}

#[derive(Debug)]
pub(super) struct Key {
    /// `section.key`
    pub(super) path: &'static str,
    pub(super) kind: Kind,
    pub(super) default: Fallback,
    /// One or two sentences for the operator.
    pub(super) meaning: &'static str,
}

impl Key {
    pub(super) fn section(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(section, _)| section)
    }

    pub(super) fn name(&self) -> &'static str {
        self.path.split_once('.').map_or(self.path, |(_, name)| name)
    }

    /// The environment variable that sets it.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.path.replacen('.', SEPARATOR, 1).to_ascii_uppercase())
    }
}

/// Environment variables that set a key: `TIDEGATE_SECTION__KEY`.
pub(super) const PREFIX: &str = "TIDEGATE_";
pub(super) const SEPARATOR: &str = "__";

pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The section whose keys are names of columns and types.
pub(super) const OPEN_SECTION: &str = "types";

const OPEN_SECTION_MEANING: &str = "Types of target columns other than the default ones. A key is a column as \
    `\"database.table.column\"`, or a MySQL type as `\"tinyint(1)\"` or `datetime`; the value is `boolean`, `smallint`, \
    `integer`, `bigint`, `double precision`, `text`, `bit`, `timestamp`, `timestamptz`, \
    `bytea` or `geometry`, where the conversion is exact: a value that the chosen type does not have halts the pipeline. `datetime` and `timestamp` change places with \
    UTC as the zone of the wall clock. Spatial columns are `geometry` where the target's database has the extension \
    `postgis`, which `geometry` asks for, and else `bytea`. A table that is copied already keeps its types. There are no variables for this \
    section.";

/// Entries of the open section, to show what they look like.
pub(super) const OPEN_SECTION_EXAMPLES: [&str; 3] =
    ["\"app.users.active\" = \"boolean\"", "\"tinyint(1)\" = \"smallint\"", "datetime = \"timestamptz\""];

/// The sections, in the order in which they are written, each with its sentence.
pub(super) const SECTIONS: &[(&str, &str)] = &[
    ("pipeline", "What this pipeline is called."),
    ("source", "The MySQL server to read from."),
    ("target", "The PostgreSQL database to write to."),
    ("tables", "Which tables are replicated. Patterns are `database.table`; `*` stands for any characters."),
    (
        "policies",
        "What becomes of values that PostgreSQL can't hold. A column can have policies of its own, in a table named after it: `[policies.\"database.table.column\"]`. `null` on a column that is NOT NULL takes that off the target's column with the first such value. Every use is counted in `tidegate.conversion` and shown by `/status`. On key columns only what keeps different keys different is done, and in other unique indexes that and `null`; anything else halts with `conversion_on_key`.",
    ),
    (OPEN_SECTION, OPEN_SECTION_MEANING),
    (
        "schema",
        "What the target's tables are like. A column can have a setting of its own, in a table named after it: `[schema.\"database.table.column\"]`.",
    ),
    ("snapshot", "The first copy of each table."),
    ("fold", "How the binlog is put together into transactions."),
    ("apply", "How transactions are written to the target."),
    ("ddl", "What the source's schema changes do to the target."),
    ("retry", "How long a failing connection is tried again before the pipeline halts."),
    ("admin", "The admin surface: health, status, metrics and the dashboard."),
    ("log", "What is logged, to standard error."),
];

const fn millis(min: u64, max: u64) -> Kind {
    Kind::Duration { min: Duration::from_millis(min), max: Duration::from_millis(max) }
}

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

pub(super) const TLS_MODES: &[&str] = &["verify-full", "verify-ca", "encrypt-only", "off"];

const fn key(path: &'static str, kind: Kind, default: Fallback, meaning: &'static str) -> Key {
    Key { path, kind, default, meaning }
}

/// A kind's policy, with the choices that the kind has.
const fn policy(kind: ValueKind, path: &'static str, default: &'static str, meaning: &'static str) -> Key {
    key(path, Kind::Choice(kind.choices()), Value(default), meaning)
}

use self::Fallback::{Required, Unset, Value};

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("pipeline.name", Kind::Text, Required("\"app\""),
        "Names the pipeline in the target's control schema. Letters, digits, `_`, `-` and `.`, at most 63. Do not change it later: the position is kept under it."),

    key("source.url", Kind::Text, Required("\"mysql://repl@127.0.0.1:3306\""),
        "`mysql://user@host:port`. No password in it; names are percent-encoded, an IPv6 address stands in brackets. The port may be left out: 3306."),
    key("source.password_file", Kind::Path, Unset("\"/run/secrets/mysql\""),
        "File that holds the password; a trailing line end is not part of it. Neither this nor `password_env`: no password."),
    key("source.password_env", Kind::Text, Unset("\"MYSQL_PASSWORD\""),
        "Environment variable that holds the password. Excludes `password_file`."),
    key("source.server_id", Kind::Integer { min: 1, max: 4_294_967_295 }, Required("4242"),
        "The server id under which Tidegate registers as a replica. No other server or replica of the source's topology may have it."),
    key("source.tls", Kind::Choice(TLS_MODES), Required("\"verify-full\""),
        "`verify-full`: trusted certificate made out to this host. `verify-ca`: trusted certificate. `encrypt-only`: any certificate. `off`: plain text. Always an explicit choice, nothing falls back."),
    key("source.tls_ca_file", Kind::Path, Unset("\"/etc/tidegate/mysql-ca.pem\""),
        "PEM file with the certificates that are trusted; the system's without it. For `verify-full` and `verify-ca`."),
    key("source.tls_cert_file", Kind::Path, Unset("\"/etc/tidegate/mysql-client.pem\""),
        "PEM file with the client certificate and those between it and its CA. Goes with `tls_key_file`."),
    key("source.tls_key_file", Kind::Path, Unset("\"/etc/tidegate/mysql-client.key\""),
        "PEM file with the client certificate's key, without a passphrase. Nobody else should be able to read it."),
    key("source.connect_timeout", millis(100, 5 * MINUTE), Value("10s"),
        "Longest time for one attempt to connect and log in."),
    key("source.heartbeat_period", millis(500, 10 * MINUTE), Value("5s"),
        "How often an idle source is asked to send a heartbeat. A stream silent for three of them is taken as dead."),
    key("source.net_write_timeout", millis(1_000, DAY), Value("10m"),
        "How long the source waits for us while we hold the stream back because the target is slow (session `net_write_timeout`). Whole seconds."),

    key("target.url", Kind::Text, Required("\"postgres://app@127.0.0.1:5432/app\""),
        "`postgres://user@host:port/database`. No password in it; names are percent-encoded, an IPv6 address stands in brackets. The port may be left out: 5432."),
    key("target.password_file", Kind::Path, Unset("\"/run/secrets/postgres\""),
        "File that holds the password; a trailing line end is not part of it. Neither this nor `password_env`: no password."),
    key("target.password_env", Kind::Text, Unset("\"POSTGRES_PASSWORD\""),
        "Environment variable that holds the password. Excludes `password_file`."),
    key("target.tls", Kind::Choice(TLS_MODES), Required("\"verify-full\""),
        "As `source.tls`, for the target."),
    key("target.tls_ca_file", Kind::Path, Unset("\"/etc/tidegate/postgres-ca.pem\""),
        "PEM file with the certificates that are trusted; the system's without it. For `verify-full` and `verify-ca`."),
    key("target.tls_cert_file", Kind::Path, Unset("\"/etc/tidegate/postgres-client.pem\""),
        "PEM file with the client certificate and those between it and its CA. Goes with `tls_key_file`."),
    key("target.tls_key_file", Kind::Path, Unset("\"/etc/tidegate/postgres-client.key\""),
        "PEM file with the client certificate's key, without a passphrase. Nobody else should be able to read it."),
    key("target.connect_timeout", millis(100, 5 * MINUTE), Value("10s"),
        "Longest time for one attempt to connect and log in."),
    key("target.reply_timeout", millis(1_000, DAY), Value("5m"),
        "How long any one reply of the target is waited for, a COMMIT's included. Then the connection is dropped and the pipeline starts over from what the target has committed. A statement that waits for a lock (at most 60 s) or for a slow disk must fit in. Not bounded: changes of tables, index builds, migrations."),
    key("target.synchronous_commit", Kind::Boolean, Value("true"),
        "Whether a commit waits until it is on the target's disk. `false` is faster and exact too: a crash of the target loses data and position together, and the source sends it again."),

    key("tables.include", Kind::List, Required("[\"app.*\"]"),
        "Tables to replicate."),
    key("tables.exclude", Kind::List, Value(""),
        "Tables to leave out of what `include` names."),

    policy(ValueKind::ZeroDate, "policies.zero_date", "null",
        "The date 0000-00-00. `replace`: `-infinity`, which sorts before every date."),
    policy(ValueKind::PartialDate, "policies.partial_date", "null",
        "Any other date with a month or day of zero, or a day that its month does not have. `replace`: the nearest day that exists, a zero becoming 1 and a day beyond its month's end the last one."),
    policy(ValueKind::YearZero, "policies.year_zero", "refuse",
        "A whole date of the year 0. `replace`: the same day of the year 1 BC."),
    policy(ValueKind::BeyondBoolean, "policies.beyond_boolean", "widen",
        "A value other than 0 and 1 in a tinyint(1) column that became boolean. `widen`: the target's column becomes smallint in the same transaction, and the value is stored as it is."),
    policy(ValueKind::NulText, "policies.nul_text", "refuse",
        "A NUL character in text. `replace`: U+FFFD in its place."),
    policy(ValueKind::NulJson, "policies.nul_json", "refuse",
        "A NUL character in a JSON document. `replace`: the escape `\\ufffd` in its place."),
    policy(ValueKind::InvalidBytes, "policies.invalid_bytes", "refuse",
        "Bytes that are not valid in the column's character set. `replace`: U+FFFD in their place."),
    policy(ValueKind::OutOfRange, "policies.out_of_range", "refuse",
        "A value that the target's type has no room for, such as one beyond 1 GiB."),

    key("schema.collation", Kind::Choice(CollationChoice::NAMES), Value("bytes"),
        "How the target compares texts. `bytes`: in keys by their bytes, elsewhere by the database's collation. `mysql`: CHAR, VARCHAR and TEXT columns that MySQL does not compare by bytes get a nondeterministic ICU collation that ignores case and accents as MySQL's does, for the application that moves; rows are still found by bytes. `tidegate plan` tells what it changes, `tidegate check --data` counts the rows that the two may judge differently. A table that is copied already keeps its collations."),
    key("schema.partitions", Kind::Choice(PartitionChoice::NAMES), Value("plain"),
        "What partitioned tables become. `plain`: one plain table each. `native`: partitioned on the target too, by RANGE, LIST or HASH, where MySQL's rule for the place of a row is one that PostgreSQL has (README); other tables stay plain, and `tidegate plan` tells why. RANGE and LIST get a DEFAULT partition beside those of the source. A change of the table's partitions copies it again. A table that is copied already is not changed: a setting that does not go with it halts with `target_drift`."),

    key("snapshot.parallelism", Kind::Integer { min: 1, max: 64 }, Value("4"),
        "Connections that read a table at once, each with one that writes. Also the number of read views that a copy holds open on the source."),
    key("snapshot.chunk_rows", Kind::Integer { min: 100, max: 10_000_000 }, Value("50000"),
        "Rows per chunk, about. A chunk is committed as a whole and copied again as a whole after a crash."),
    key("snapshot.lock_wait_timeout", millis(1_000, MINUTE), Value("1s"),
        "How long one attempt waits for the brief read lock of a table. Writers to that table queue behind the attempt, so keep it short. Whole seconds."),
    key("snapshot.lock_deadline", millis(1_000, DAY), Value("10m"),
        "How long a table's lock is attempted before the pipeline halts with `snapshot_lock_unavailable`."),
    key("snapshot.max_captures", Kind::Integer { min: 1, max: 100 }, Value("5"),
        "How often a table's copy may start over because DDL changed it before the pipeline halts with `snapshot_interrupted`."),
    key("snapshot.block_ddl", Kind::Boolean, Value("true"),
        "Whether DDL is held off while a table is copied (`LOCK INSTANCE FOR BACKUP`), where the source user has BACKUP_ADMIN. The lock also holds back purging of binlogs."),
    key("snapshot.block_ddl_max", millis(1_000, 7 * DAY), Value("1h"),
        "Longest time that DDL is held off for one table."),

    key("fold.max_buffer_bytes", Kind::Size { min: MIB, max: 1024 * GIB }, Value("64MiB"),
        "Memory for the rows of one transaction until its commit arrives. A larger transaction goes on in a spill file."),
    key("fold.spill_directory", Kind::Path, Value("/var/tmp"),
        "Where spill files go: a directory on a disk, not in memory. They have no name and mode 0600, hold row values, and are gone with the process."),
    key("fold.max_spill_bytes", Kind::Size { min: MIB, max: 1024 * GIB }, Value("64GiB"),
        "Most that all spill files together may hold. More halts the pipeline with `buffer_exhausted`."),
    key("fold.xa", Kind::Choice(&["refuse", "track"]), Value("refuse"),
        "What a two-phase XA transaction does: `refuse` halts the pipeline with `unsupported_transaction_shape`; `track` keeps its rows from `XA PREPARE` until `XA COMMIT` and needs XA_RECOVER_ADMIN. With `track` the source must keep its binlogs back to the oldest prepared transaction."),
    key("fold.xa_max_prepared", Kind::Integer { min: 1, max: 1_000_000 }, Value("1000"),
        "With `xa = \"track\"`: most transactions that may be prepared and unresolved. One more halts the pipeline with `xa_prepared_pool_exhausted`."),
    key("fold.xa_max_bytes", Kind::Size { min: MIB, max: 1024 * GIB }, Value("64MiB"),
        "With `xa = \"track\"`: memory for the rows of all prepared transactions together. What is beyond it waits in spill files."),

    key("apply.max_batch_bytes", Kind::Size { min: 64 << 10, max: GIB }, Value("8MiB"),
        "Row bytes that go into one transaction of the target at most. One larger source transaction still goes as a whole."),
    key("apply.channel_bytes", Kind::Size { min: MIB, max: 64 * GIB }, Value("64MiB"),
        "Memory for transactions that wait to be applied. When it is full, the source is held back."),
    key("apply.max_in_flight", Kind::Integer { min: 1, max: 10_000 }, Value("128"),
        "Statements sent to the target before the first answer is waited for."),
    key("apply.idle_commit_interval", millis(50, MINUTE), Value("1s"),
        "Longest time until transactions without changes for us are written down as processed."),

    key("ddl.policy", Kind::Choice(&["mirror", "resync", "halt", "ignore-listed"]), Value("mirror"),
        "`mirror`: each schema change of a replicated table is carried out on the target; where its effect on rows can't be computed, the table is copied again. `resync`: tables are created, renamed and dropped as on the source, all else copies the table again. `halt`: the pipeline halts with `ddl_unsupported`, new tables excepted. `ignore-listed`: as `mirror`, without what `ignore` lists."),
    key("ddl.ignore", Kind::List, Value(""),
        "What the target does not follow, with `policy = \"ignore-listed\"`: entries such as `drop_table app.archive_*`. `drop_table`: the target's table stays and is no longer written. `truncate_table` and `drop_partition`: the rows stay, unless the table is being copied or waits for a copy then, which shows the source as it is. The target keeps then what the source does not have. A later schema change that needs the table copied again halts with `rows_kept`: with `schema.partitions = \"native\"`, each change of its partitions that is not ignored."),
    key("ddl.lock_wait_timeout", millis(10, MINUTE), Value("1s"),
        "How long one attempt waits for the target's table. Readers of the table queue behind the attempt, so keep it short."),
    key("ddl.lock_deadline", millis(1_000, DAY), Value("30m"),
        "How long a schema change is attempted while a long query or transaction holds the target's table, before the pipeline halts with `ddl_lock_unavailable`."),

    key("retry.initial_backoff", millis(10, MINUTE), Value("250ms"),
        "Wait before the first new attempt; each further wait is twice as long."),
    key("retry.max_backoff", millis(10, HOUR), Value("30s"),
        "Longest wait between attempts."),
    key("retry.max_connect_attempts", Kind::Integer { min: 1, max: 1_000_000 }, Value("120"),
        "Attempts in a row that may fail before both connections stand. With the other defaults, about an hour."),
    key("retry.max_drops", Kind::Integer { min: 1, max: 1_000_000 }, Value("20"),
        "How often standing connections may be lost within `window` before the pipeline halts."),
    key("retry.window", millis(1_000, DAY), Value("10m"),
        "The time that `max_drops` counts in."),

    key("admin.listen", Kind::Text, Value("127.0.0.1:8321"),
        "Address and port to listen on. An address that is not a loopback address needs a token."),
    key("admin.token_file", Kind::Path, Unset("\"/run/secrets/tidegate-token\""),
        "File that holds the bearer token: at least 16 visible ASCII characters. `POST /v1/resume` needs it; off loopback so do `/status` and `/metrics`."),
    key("admin.token_env", Kind::Text, Unset("\"ADMIN_TOKEN\""),
        "Environment variable that holds the bearer token. Excludes `token_file`."),

    key("log.format", Kind::Choice(&["text", "json"]), Value("text"),
        "`text` for people, `json` for machines: one object a line."),
    key("log.level", Kind::Text, Value("info"),
        "`error`, `warn`, `info`, `debug` or `trace`; finer by module after a comma, as in `info,tidegate::source=debug`. Only Tidegate's own modules log: a driver's messages may hold data."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn paths_are_unique_and_grouped_by_section() {
        let paths: HashSet<_> = KEYS.iter().map(|key| key.path).collect();
        assert_eq!(paths.len(), KEYS.len());
        let mut sections: Vec<_> = KEYS.iter().map(Key::section).collect();
        sections.dedup();
        let fixed = SECTIONS.iter().map(|(name, _)| *name).filter(|name| *name != OPEN_SECTION);
        assert_eq!(sections, fixed.collect::<Vec<_>>());
    }

    #[test]
    fn every_kind_of_value_has_its_key_and_default() {
        for kind in ValueKind::ALL {
            let key = find(&format!("policies.{kind}")).expect("declared");
            assert_eq!(key.kind, Kind::Choice(kind.choices()));
            assert_eq!(kind.choices().first().map(|name| Value(name)), Some(key.default), "{kind}");
        }
    }

    #[test]
    fn variables_follow_the_rule() {
        let key = find("source.server_id").expect("declared");
        assert_eq!((key.section(), key.name()), ("source", "server_id"));
        assert_eq!(key.variable(), "TIDEGATE_SOURCE__SERVER_ID");
    }
}
