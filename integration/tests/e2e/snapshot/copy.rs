//! The copy, without the stream: what is in the target is compared with a source at rest.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tidegate::config::{Config, TablesConfig};
use tidegate::gtid::GtidSet;
use tidegate::halt::{Failure, Halt, Reason};
use tidegate::schema::filter::Filter;
use tidegate::schema::phase::TablePhase;
use tidegate::schema::{TableName, TargetType};
use tidegate::sink;
use tidegate::sink::conversions::Conversion;
use tidegate::sink::table_state::TableState;
use tidegate::sink::writer::Writer;
use tidegate::snapshot::{self, Observer};
use tidegate::source::capture::Waiting;
use tidegate_integration::{Fixture, PgSession, Servers, run};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{config, gtid_executed};
use crate::history::purge_all;

/// Passes chunks on as they are committed.
struct Chunks(mpsc::UnboundedSender<u64>);

impl Observer for Chunks {
    fn table(&self, _: &TableState) {}

    fn waiting(&self, _: &TableName, _: Waiting) {}

    fn rows_copied(&self, _: &TableName, rows: u64) {
        // A test may have seen enough.
        let _sent = self.0.send(rows).is_ok();
    }

    fn converted(&self, _: &[Conversion]) {}

    fn conversions_forgotten(&self, _: &TableName) {}
}

/// Lets the test act right after a table's capture, and waits for it.
struct AfterCapture {
    captured: mpsc::UnboundedSender<()>,
    go_on: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Observer for AfterCapture {
    /// Told of a table twice in this phase: before and after its capture.
    fn table(&self, state: &TableState) {
        if state.phase == TablePhase::Capturing && self.captured.send(()).is_ok() {
            let go_on = self.go_on.lock().expect("no test has panicked");
            // The test ends first where it has failed.
            let _told = tokio::task::block_in_place(|| go_on.recv()).is_ok();
        }
    }

    fn waiting(&self, _: &TableName, _: Waiting) {}

    fn rows_copied(&self, _: &TableName, _: u64) {}

    fn converted(&self, _: &[Conversion]) {}

    fn conversions_forgotten(&self, _: &TableName) {}
}

async fn take_over(config: &Config) -> Result<Writer> {
    let client = sink::connect::connect(&config.target).await?;
    Ok(Writer::take_over(client, &config.name, 64, || ()).await?)
}

async fn snapshot_run(config: &Config, chunks: mpsc::UnboundedSender<u64>) -> Result<Writer, Failure> {
    observed_run(config, &Chunks(chunks)).await
}

async fn observed_run(config: &Config, observer: &dyn Observer) -> Result<Writer, Failure> {
    let client = sink::connect::connect(&config.target).await?;
    let mut writer = Writer::take_over(client, &config.name, 64, || ()).await?;
    let filter = Filter::new(&config.tables.include, &config.tables.exclude).expect("a filter");
    snapshot::run(config, &filter, &mut writer, observer).await?;
    Ok(writer)
}

/// A whole copy.
async fn copy(config: &Config) -> Result<Writer> {
    Ok(snapshot_run(config, mpsc::unbounded_channel().0).await?)
}

/// A copy that goes on beside the test.
struct Copying {
    task: JoinHandle<Result<Writer, Failure>>,
    chunks: mpsc::UnboundedReceiver<u64>,
}

impl Copying {
    fn start(config: &Config) -> Self {
        let (sender, chunks) = mpsc::unbounded_channel();
        let config = config.clone();
        Self { task: tokio::spawn(async move { snapshot_run(&config, sender).await }), chunks }
    }

    async fn wait_for_chunks(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let chunk = tokio::time::timeout(Duration::from_secs(30), self.chunks.recv()).await?;
            chunk.context("the copy ended too early")?;
        }
        Ok(())
    }

    async fn end(self) -> Result<Result<Writer, Failure>> {
        Ok(tokio::time::timeout(Duration::from_secs(60), self.task).await??)
    }
}

fn halt(result: Result<Writer, Failure>) -> Result<Halt> {
    match result {
        Err(Failure::Halt(halt)) => Ok(*halt),
        Err(failure) => bail!("not a halt: {failure}"),
        Ok(_) => bail!("it was copied"),
    }
}

async fn state(writer: &Writer, table: &str) -> Result<TableState> {
    let states = writer.load_tables().await?;
    states.into_iter().find(|state| state.name().table == table).context("no such table state")
}

/// The target's table, made by hand for tests that get in the way of its copy.
async fn target_table(fixture: &Fixture<'_>, definition: &str) -> Result<()> {
    let schema = &fixture.source;
    let (table, _) = definition.split_once(' ').context("a name")?;
    fixture
        .target(&format!(
            "CREATE SCHEMA IF NOT EXISTS {schema} AUTHORIZATION tidegate;
             CREATE TABLE {schema}.{definition}; ALTER TABLE {schema}.{table} OWNER TO tidegate"
        ))
        .await
}

/// Keeps every COPY of the table from beginning until it is rolled back.
async fn stall_copies(fixture: &Fixture<'_>, table: &str) -> Result<PgSession> {
    let session = fixture.target_session().await?;
    session.exec(&format!("BEGIN; LOCK TABLE {table} IN SHARE MODE")).await?;
    Ok(session)
}

/// Chunks of [`thirty_chunks`] that a stall of three workers lets through.
const BEFORE_STALL: usize = 15;

/// Keeps the three chunks after the first fifteen from ending, one for each worker, by keys that
/// may still turn out to be taken.
async fn stall_middle(fixture: &Fixture<'_>, table: &str) -> Result<PgSession> {
    let session = fixture.target_session().await?;
    session.exec(&format!("BEGIN; INSERT INTO {table} VALUES (155, ''), (165, ''), (175, '')")).await?;
    Ok(session)
}

/// As [`stall_middle`], where the pipeline is to create the target's table itself: by the records of
/// the chunks. The control schema is made by a copy of nothing.
async fn stall_records(fixture: &Fixture<'_>, config: &Config, table: &str) -> Result<PgSession> {
    let nothing = TablesConfig { include: vec!["no.table".to_owned()], exclude: Vec::new() };
    drop(copy(&Config { name: "nothing".to_owned(), tables: nothing, ..config.clone() }).await?);
    let session = fixture.target_session().await?;
    let (pipeline, database) = (&config.name, &fixture.source);
    let records = format!("'{pipeline}', '{database}', '{table}', chunk, '{{}}', 0");
    session
        .exec(&format!(
            "BEGIN; INSERT INTO tidegate.snapshot_chunk (pipeline, source_database, source_table, chunk, bounds, rows)
                SELECT {records} FROM generate_series(15, 17) chunk"
        ))
        .await?;
    Ok(session)
}

/// Waits until so many sessions wait for a lock in the target.
async fn until_stalled(fixture: &Fixture<'_>, copying: &Copying, sessions: u32) -> Result<()> {
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let sessions = sessions.to_string();
    while fixture.target_scalar(waiting).await?.as_deref() != Some(&sessions) {
        ensure!(!copying.task.is_finished(), "it did not wait for the target");
    }
    Ok(())
}

const NUMBERS: &str = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 66)";

/// Key column definitions, and an expression in `i` from 0 to 66 that gives different keys.
const KEYS: &[(&str, &str)] = &[
    ("k TINYINT PRIMARY KEY", "i - 33"),
    ("k INT PRIMARY KEY", "(i - 33) * 60000000"),
    ("k INT UNSIGNED PRIMARY KEY", "i * 65000000"),
    ("k BIGINT PRIMARY KEY", "(i - 33) * 270000000000000000"),
    ("k BIGINT UNSIGNED PRIMARY KEY", "18446744073709551615 - i * 7"),
    ("k DECIMAL(20,6) PRIMARY KEY", "(i - 33) * 12345678.000001"),
    ("k FLOAT PRIMARY KEY", "(i - 33) / 7"),
    ("k DOUBLE PRIMARY KEY", "(i - 33) * PI()"),
    ("k DATE PRIMARY KEY", "DATE_ADD('1999-12-01', INTERVAL i DAY)"),
    ("k DATETIME(6) PRIMARY KEY", "DATE_ADD('2024-02-28 23:59:59.999990', INTERVAL i MICROSECOND)"),
    ("k DATETIME PRIMARY KEY", "DATE_ADD('1000-01-01', INTERVAL i * 3 YEAR)"),
    ("k TIMESTAMP(3) PRIMARY KEY", "DATE_ADD('2037-12-31 00:00:00', INTERVAL i * 1001 * 1000 MICROSECOND)"),
    ("k TIME(2) PRIMARY KEY", "SEC_TO_TIME((i - 33) * 90000.25)"),
    ("k YEAR PRIMARY KEY", "IF(i = 0, 0, 1940 + i)"),
    ("k BIT(10) PRIMARY KEY", "i * 15"),
    ("k ENUM('zeta','alpha','mid','beta') , l INT, PRIMARY KEY (k, l)", "1 + i % 4, i"),
    ("k SET('d','c','b','a','e','f','g') PRIMARY KEY", "i"),
    ("k CHAR(8) PRIMARY KEY", "CONCAT(IF(i % 2, 'a', 'B'), LPAD(i, 3, ' '), IF(i % 3, 'é', 'Z'))"),
    (
        "k VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci PRIMARY KEY",
        "CONCAT(ELT(1 + i % 5, 'Ä', 'b', '😀', '''', '\\\\'), CHAR(97 + i % 26 USING utf8mb4), i)",
    ),
    (
        "k VARCHAR(60) CHARACTER SET latin1 PRIMARY KEY",
        "CONCAT(CHAR(192 + i % 60 USING latin1), IF(i % 2, 'X', 'x'), i)",
    ),
    (
        "k VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY",
        "CONCAT(IF(i % 2, 'X', 'x'), i DIV 2)",
    ),
    ("k BINARY(16) PRIMARY KEY", "UNHEX(CONCAT(LPAD(HEX(i * 3), 2, '0'), '00000000'))"),
    ("k VARBINARY(20) PRIMARY KEY", "CONCAT(CHAR(i), CHAR(0), CHAR(255 - i))"),
    (
        "a INT, b VARCHAR(10), c DATE, PRIMARY KEY (b, a, c)",
        "i % 4, CHAR(97 + i % 3), DATE_ADD('2020-01-01', INTERVAL i DAY)",
    ),
    ("n INT NULL, k INT NOT NULL, UNIQUE (n), UNIQUE KEY u (k)", "NULL, -i"),
    ("k INT", "i % 5"),
];

#[test]
fn every_kind_of_key_cuts_a_table_into_chunks() {
    run(async {
        let fixture = Servers::shared().await?.fixture("keys").await?;
        for (number, (columns, values)) in KEYS.iter().enumerate() {
            let table = format!("t{number:02}");
            fixture.source(&format!("CREATE TABLE {table} (v VARCHAR(20), {columns})")).await?;
            let fill = format!("INSERT INTO {table} {NUMBERS} SELECT CONCAT('row ', i), {values} FROM n");
            fixture.source(&fill).await.with_context(|| format!("{columns} as {values}"))?;
        }
        let writer = copy(&config(&fixture)).await?;
        fixture.assert_same().await?;
        for (number, (columns, _)) in KEYS.iter().enumerate() {
            let state = state(&writer, &format!("t{number:02}")).await?;
            let chunks: Vec<u64> =
                writer.done_chunks(state.name()).await?.iter().map(|done| done.rows).collect();
            let expected: &[u64] = match chunks.len() {
                1 => &[67],
                _ => &[10, 10, 10, 10, 10, 10, 7],
            };
            assert_eq!(chunks, expected, "{columns}");
            assert_eq!(chunks.len() > 1, columns.contains("KEY"), "{columns}");
            assert_eq!(state.rows_copied, 67);
        }
        Ok(())
    });
}

#[test]
fn the_position_is_what_all_tables_have_in_common() {
    run(async {
        let fixture = Servers::own(&[], &[]).await?;
        let fixture = fixture.fixture("position").await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY)").await?;
        fixture.source("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)").await?;
        let before = gtid_executed(&fixture).await?;
        let config = config(&fixture);
        let mut copying = Copying::start(&config);
        copying.wait_for_chunks(1).await?;
        fixture.source("INSERT INTO a VALUES (2); INSERT INTO b VALUES (2)").await?;
        let writer = copying.end().await??;
        let (a, b) = (state(&writer, "a").await?, state(&writer, "b").await?);
        for state in [&a, &b] {
            assert_eq!(state.phase, TablePhase::CatchingUp);
            assert_eq!(state.converge_set, None);
        }
        let (a, b): (GtidSet, GtidSet) =
            (a.snapshot_set.context("no set")?, b.snapshot_set.context("no set")?);
        let position = writer.checkpoint().position.clone().context("no position")?;
        assert_eq!(position.processed, a.intersection(&b));
        assert_eq!(position.processed, before, "the first table's set");
        let (last, fingerprint) = position.last.context("no fingerprint")?;
        assert!(position.processed.contains(&last));
        assert!(fingerprint.original_commit_micros > 0 && fingerprint.transaction_length > 0);
        assert_eq!(writer.checkpoint().source_server_uuid, Some(*last.uuid()));

        // Once more is nothing to do.
        let position = writer.checkpoint().position.clone();
        drop(writer);
        assert_eq!(copy(&config).await?.checkpoint().position, position);
        Ok(())
    });
}

#[test]
fn a_source_without_tables_is_followed_from_now_on() {
    run(async {
        let fixture = Servers::shared().await?.fixture("bare").await?;
        let writer = copy(&config(&fixture)).await?;
        let position = writer.checkpoint().position.clone().context("no position")?;
        assert!(!position.processed.is_empty());
        Ok(())
    });
}

#[test]
fn tinyint_1_is_boolean_where_the_data_is() {
    run(async {
        let fixture = Servers::shared().await?.fixture("booleans").await?;
        fixture
            .source(
                "CREATE TABLE t (id INT PRIMARY KEY, yes TINYINT(1), no TINYINT(1), wide TINYINT, none TINYINT(1));
                 INSERT INTO t VALUES (1, 0, 0, 0, NULL), (2, 1, 2, 1, NULL), (3, NULL, 1, 1, NULL);
                 CREATE TABLE bare (id INT PRIMARY KEY, yes TINYINT(1))",
            )
            .await?;
        let writer = copy(&config(&fixture)).await?;
        fixture.assert_same().await?;
        let types =
            |state: TableState| state.model.columns.iter().map(|column| column.target).collect::<Vec<_>>();
        use TargetType::{Boolean, Integer, SmallInt};
        assert_eq!(types(state(&writer, "t").await?), [Integer, Boolean, SmallInt, SmallInt, Boolean]);
        assert_eq!(types(state(&writer, "bare").await?), [Integer, SmallInt]);
        Ok(())
    });
}

/// A table of 300 rows: thirty chunks.
async fn thirty_chunks(fixture: &Fixture<'_>, table: &str, options: &str) -> Result<()> {
    target_table(fixture, &format!("{table} (id INTEGER PRIMARY KEY, v VARCHAR(40))")).await?;
    thirty_chunks_of_source(fixture, table, options).await
}

/// The same without the target's table.
async fn thirty_chunks_of_source(fixture: &Fixture<'_>, table: &str, options: &str) -> Result<()> {
    fixture
        .source(&format!(
            "SET cte_max_recursion_depth = 1000;
             CREATE TABLE {table} (id INT PRIMARY KEY, v VARCHAR(40)) {options};
             INSERT INTO {table} WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
                SELECT i, CONCAT('row ', i) FROM n"
        ))
        .await
}

#[test]
fn a_copy_that_was_cut_off_goes_on_from_a_new_capture() {
    run(async {
        let fixture = Servers::shared().await?.fixture("cut_off").await?;
        thirty_chunks(&fixture, "t", "").await?;
        let config = config(&fixture);
        let stalled = stall_middle(&fixture, "t").await?;
        let mut copying = Copying::start(&config);
        copying.wait_for_chunks(BEFORE_STALL).await?;
        copying.task.abort();
        assert!(copying.task.await.is_err_and(|end| end.is_cancelled()));
        stalled.exec("ROLLBACK").await?;

        let writer = take_over(&config).await?;
        let cut_off = state(&writer, "t").await?;
        let done = writer.done_chunks(cut_off.name()).await?;
        ensure!((BEFORE_STALL..=BEFORE_STALL + 3).contains(&done.len()), "{} chunks were done", done.len());
        assert_eq!(cut_off.phase, TablePhase::Copying);
        assert_eq!(cut_off.rows_copied, 10 * u64::try_from(done.len())?);
        drop(writer);

        // Rows that no chunk done can have.
        fixture
            .source("UPDATE t SET v = 'later' WHERE id > 295; INSERT INTO t VALUES (1000, 'later')")
            .await?;
        let writer = copy(&config).await?;
        let resumed = state(&writer, "t").await?;
        assert_eq!(resumed.snapshot_set, cut_off.snapshot_set);
        let (first, last) =
            (cut_off.snapshot_set.context("no set")?, resumed.converge_set.context("no set")?);
        assert!(last.includes(&first) && last != first, "it converges at the second capture");
        let all = writer.done_chunks(&resumed.model.name).await?;
        assert!(done.iter().all(|chunk| all.contains(chunk)), "the chunks done have stayed");
        assert_eq!(resumed.phase, TablePhase::CatchingUp);
        assert_eq!(resumed.rows_copied, 301);
        fixture.assert_same().await
    });
}

/// Rows come before their key, which neither a reader nor a crash in between keeps away.
#[test]
fn the_key_is_built_once_the_rows_are_there() {
    run(async {
        let fixture = Servers::shared().await?.fixture("key_later").await?;
        thirty_chunks_of_source(&fixture, "t", "").await?;
        let config = config(&fixture);
        let stalled = stall_records(&fixture, &config, "t").await?;
        let mut copying = Copying::start(&config);
        copying.wait_for_chunks(BEFORE_STALL).await?;
        let indexes = "SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass";
        assert_eq!(fixture.target_scalar(indexes).await?.as_deref(), Some("0"));
        let reader = fixture.target_session().await?;
        reader.exec("BEGIN; SELECT FROM t").await?;
        stalled.exec("ROLLBACK").await?;
        copying.wait_for_chunks(30 - BEFORE_STALL).await?;
        until_stalled(&fixture, &copying, 1).await?;
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("300"));
        copying.task.abort();
        drop(copying.task.await);
        reader.exec("ROLLBACK").await?;

        let writer = take_over(&config).await?;
        let cut_off = state(&writer, "t").await?;
        assert_eq!(cut_off.phase, TablePhase::Copying);
        drop(writer);
        let writer = copy(&config).await?;
        let copied = state(&writer, "t").await?;
        assert_eq!(copied.phase, TablePhase::CatchingUp);
        assert_eq!(copied.snapshot_set, cut_off.snapshot_set, "no row is copied twice");
        let key = "SELECT indisprimary FROM pg_index WHERE indrelid = 't'::regclass";
        assert_eq!(fixture.target_scalar(key).await?.as_deref(), Some("t"));
        fixture.assert_same().await
    });
}

#[test]
fn a_keyless_table_that_was_cut_off_is_copied_anew() {
    run(async {
        let fixture = Servers::shared().await?.fixture("cut_off_keyless").await?;
        fixture
            .source(&format!(
                "CREATE TABLE t (v VARCHAR(4000)); INSERT INTO t {NUMBERS} SELECT REPEAT('x', 4000) FROM n;
                 INSERT INTO t SELECT * FROM t; INSERT INTO t SELECT * FROM t"
            ))
            .await?;
        let config = config(&fixture);
        target_table(&fixture, "t (v VARCHAR(4000))").await?;
        let stalled = stall_copies(&fixture, "t").await?;
        let copying = Copying::start(&config);
        until_stalled(&fixture, &copying, 1).await?;
        copying.task.abort();
        drop(copying.task.await);
        stalled.exec("ROLLBACK").await?;
        fixture.source("DELETE FROM t LIMIT 1").await?;

        let writer = copy(&config).await?;
        let set = state(&writer, "t").await?;
        assert_eq!(set.converge_set, None);
        assert_eq!(set.rows_copied, 267);
        fixture.assert_same().await
    });
}

#[test]
fn ddl_during_the_copy_sends_the_table_back_to_capture() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("ddl").await?;
        let mut config = config(&fixture);
        config.tables.exclude = vec!["*.other".to_owned(), "*.t_old".to_owned()];
        config.snapshot.block_ddl = false;
        let ddl = [
            "ALTER TABLE t ADD COLUMN w INT DEFAULT 7",
            "ALTER TABLE t RENAME COLUMN v TO vv",
            "TRUNCATE TABLE t",
            "UPDATE other SET v = 'of the other table'; RENAME TABLE t TO t_old, other TO t",
        ];
        for (number, ddl) in ddl.iter().enumerate() {
            config.name = format!("pipeline_{number}");
            fixture.source("DROP TABLE IF EXISTS t, other, t_old").await?;
            fixture.target(&format!("DROP SCHEMA IF EXISTS {} CASCADE", fixture.source)).await?;
            thirty_chunks_of_source(&fixture, "t", "").await?;
            thirty_chunks_of_source(&fixture, "other", "").await?;
            let stalled = stall_records(&fixture, &config, "t").await?;
            let mut copying = Copying::start(&config);
            copying.wait_for_chunks(BEFORE_STALL).await?;
            fixture.source(&format!("SET lock_wait_timeout = 20; {ddl}")).await.context(*ddl)?;
            stalled.exec("ROLLBACK").await?;
            let writer = copying.end().await?.context(*ddl)?;
            let state = state(&writer, "t").await?;
            assert_eq!(state.converge_set, None, "{ddl}: copied anew");
            let rows = fixture.source_scalar("SELECT COUNT(*) FROM t").await?;
            assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?, rows, "{ddl}");
            let order = "SELECT * FROM t ORDER BY id";
            ensure!(fixture.target_rows(order).await? == fixture.source_rows(order).await?, "{ddl}");
            drop(writer);
            fixture.target("UPDATE tidegate.table_state SET state = 'detached'").await?;
        }
        Ok(())
    });
}

#[test]
fn ddl_is_held_off_where_the_privilege_is_granted() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("held_off").await?;
        thirty_chunks(&fixture, "t", "").await?;
        let stalled = stall_middle(&fixture, "t").await?;
        let mut copying = Copying::start(&config(&fixture));
        copying.wait_for_chunks(BEFORE_STALL).await?;
        assert!(fixture.source("SET lock_wait_timeout = 1; ALTER TABLE t ADD COLUMN w INT").await.is_err());
        stalled.exec("ROLLBACK").await?;
        copying.end().await??;
        fixture.assert_same().await?;
        fixture.source("SET lock_wait_timeout = 5; ALTER TABLE t ADD COLUMN w INT").await
    });
}

#[test]
fn ddl_is_not_held_off_for_longer_than_allowed() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("allowed").await?;
        thirty_chunks_of_source(&fixture, "t", "").await?;
        let mut config = config(&fixture);
        config.snapshot.block_ddl_max = Duration::from_secs(1);
        let stalled = stall_records(&fixture, &config, "t").await?;
        let mut copying = Copying::start(&config);
        copying.wait_for_chunks(BEFORE_STALL).await?;
        fixture.source("SET lock_wait_timeout = 20; ALTER TABLE t ADD COLUMN w INT DEFAULT 3").await?;
        stalled.exec("ROLLBACK").await?;
        let writer = copying.end().await??;
        assert_eq!(state(&writer, "t").await?.model.columns.len(), 3);
        fixture.assert_same().await
    });
}

#[test]
fn a_table_that_joins_later_is_copied_and_the_position_stays() {
    run(async {
        let fixture = Servers::shared().await?.fixture("later").await?;
        thirty_chunks(&fixture, "first", "").await?;
        let config = config(&fixture);
        let writer = copy(&config).await?;
        let position = writer.checkpoint().position.clone().context("no position")?;
        let first = state(&writer, "first").await?;
        drop(writer);
        thirty_chunks(&fixture, "second", "").await?;
        let writer = copy(&config).await?;
        assert_eq!(writer.checkpoint().position.as_ref(), Some(&position));
        assert_eq!(state(&writer, "first").await?, first);
        let second = state(&writer, "second").await?;
        assert_eq!(second.phase, TablePhase::CatchingUp);
        assert!(second.snapshot_set.context("no set")?.includes(&position.processed));
        fixture.assert_same().await
    });
}

#[test]
fn a_table_that_goes_before_it_is_copied_is_detached() {
    run(async {
        let fixture = Servers::shared().await?.fixture("gone").await?;
        thirty_chunks(&fixture, "a", "").await?;
        fixture.source("CREATE TABLE b (id INT PRIMARY KEY)").await?;
        let config = config(&fixture);
        let stalled = stall_copies(&fixture, "a").await?;
        let copying = Copying::start(&config);
        until_stalled(&fixture, &copying, 3).await?;
        copying.task.abort();
        drop(copying.task.await);
        stalled.exec("ROLLBACK").await?;
        fixture.source("DROP TABLE b").await?;
        let writer = copy(&config).await?;
        assert_eq!(state(&writer, "b").await?.phase, TablePhase::Detached);
        assert_eq!(state(&writer, "a").await?.phase, TablePhase::CatchingUp);
        fixture.assert_same().await
    });
}

#[test]
fn a_statement_that_waits_for_the_copy_is_let_through() {
    run(async {
        let fixture = Servers::shared().await?.fixture("let_through").await?;
        thirty_chunks(&fixture, "t", "").await?;
        let stalled = stall_middle(&fixture, "t").await?;
        let mut copying = Copying::start(&config(&fixture));
        copying.wait_for_chunks(BEFORE_STALL).await?;
        let mut waiter = fixture.source_session().await?;
        waiter.exec("SET lock_wait_timeout = 20; LOCK TABLES t WRITE").await?;
        waiter.exec("UPDATE t SET v = 'under the lock' WHERE id = 5; UNLOCK TABLES").await?;
        stalled.exec("ROLLBACK").await?;
        let writer = copying.end().await??;
        let state = state(&writer, "t").await?;
        // What was copied stays; the stream will bring the changed row.
        assert!(state.converge_set.is_some());
        assert_eq!(state.rows_copied, 300);
        Ok(())
    });
}

#[test]
fn a_table_that_is_disturbed_again_and_again_halts() {
    run(async {
        let fixture = Servers::shared().await?.fixture("disturbed").await?;
        thirty_chunks(&fixture, "t", "").await?;
        let stalled = stall_copies(&fixture, "t").await?;
        let copying = Copying::start(&config(&fixture));
        until_stalled(&fixture, &copying, 3).await?;
        let mut waiter = fixture.source_session().await?;
        while !copying.task.is_finished() {
            waiter.exec("SET lock_wait_timeout = 20; LOCK TABLES t WRITE; UNLOCK TABLES").await?;
        }
        stalled.exec("ROLLBACK").await?;
        let halt = halt(copying.end().await?)?;
        assert_eq!(halt.reason, Reason::SnapshotInterrupted);
        assert_eq!(halt.table, Some(format!("{}.t", fixture.source)));
        // The next attempt goes on.
        copy(&config(&fixture)).await?;
        fixture.assert_same().await
    });
}

#[test]
fn a_lost_view_leaves_its_chunks_to_the_others_and_the_last_one_is_retried() {
    run(async {
        let fixture = Servers::own(&[], &[]).await?;
        let fixture = fixture.fixture("views").await?;
        thirty_chunks(&fixture, "t", "").await?;
        let readers = "SELECT p.ID FROM information_schema.PROCESSLIST p \
             JOIN information_schema.INNODB_TRX t ON t.trx_mysql_thread_id = p.ID WHERE p.USER = 'repl'";
        let config = config(&fixture);
        // Each worker has a chunk that it has not begun to read.
        let stalled = stall_copies(&fixture, "t").await?;
        let copying = Copying::start(&config);
        until_stalled(&fixture, &copying, 3).await?;
        let ids = fixture.source_rows(readers).await?;
        assert_eq!(ids.len(), 3, "three views");
        let id = |row: usize| ids[row][0].clone().unwrap_or_default();
        fixture.source(&format!("KILL {}", id(0))).await?;
        stalled.exec("ROLLBACK").await?;
        let writer = copying.end().await??;
        assert_eq!(state(&writer, "t").await?.converge_set, None, "no second capture");
        fixture.assert_same().await?;
        drop(writer);

        thirty_chunks(&fixture, "u", "").await?;
        let stalled = stall_middle(&fixture, "u").await?;
        let mut copying = Copying::start(&config);
        copying.wait_for_chunks(BEFORE_STALL).await?;
        for row in fixture.source_rows(readers).await? {
            fixture.source(&format!("KILL {}", row[0].clone().unwrap_or_default())).await?;
        }
        stalled.exec("ROLLBACK").await?;
        assert!(matches!(copying.end().await?, Err(Failure::Retry { .. })));
        let writer = copy(&config).await?;
        assert!(state(&writer, "u").await?.converge_set.is_some());
        fixture.assert_same().await
    });
}

#[test]
fn tables_of_other_engines_converge_or_are_copied_under_the_lock() {
    run(async {
        let fixture = Servers::shared().await?.fixture("engines").await?;
        thirty_chunks(&fixture, "keyed", "ENGINE=MyISAM").await?;
        fixture
            .source(&format!(
                "CREATE TABLE keyless (v INT) ENGINE=MyISAM; INSERT INTO keyless {NUMBERS} SELECT i FROM n"
            ))
            .await?;
        let config = config(&fixture);
        target_table(&fixture, "keyless (v INTEGER)").await?;
        let stalled = stall_copies(&fixture, "keyless").await?;
        let mut copying = Copying::start(&config);
        copying.wait_for_chunks(30).await?;
        until_stalled(&fixture, &copying, 1).await?;
        // Longer than a silent session would keep the lock.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let insert = "SET lock_wait_timeout = 1; INSERT INTO keyless VALUES (1000)";
        assert!(fixture.source(insert).await.is_err(), "it is copied under the lock");
        stalled.exec("ROLLBACK").await?;
        let writer = copying.end().await??;
        fixture.source(insert).await?;
        let keyed = state(&writer, "keyed").await?;
        let settled = keyed.converge_set.context("a keyed table converges after its copy")?;
        assert!(settled.includes(&keyed.snapshot_set.context("no set")?));
        assert_eq!(state(&writer, "keyless").await?.converge_set, None);
        assert_eq!(state(&writer, "keyless").await?.rows_copied, 67);
        Ok(())
    });
}

#[test]
fn a_source_that_lost_what_was_copied_is_refused() {
    run(async {
        let fixture = Servers::own(&[], &[]).await?;
        let fixture = fixture.fixture("reset").await?;
        fixture.source(REFILL).await?;
        thirty_chunks(&fixture, "t", "").await?;
        let config = config(&fixture);
        let stalled = stall_middle(&fixture, "t").await?;
        let mut copying = Copying::start(&config);
        copying.wait_for_chunks(BEFORE_STALL).await?;
        copying.task.abort();
        drop(copying.task.await);
        stalled.exec("ROLLBACK").await?;
        let lost = gtid_executed(&fixture).await?;
        fixture.source("RESET BINARY LOGS AND GTIDS").await?;
        let lacks = halt(snapshot_run(&config, mpsc::unbounded_channel().0).await)?;
        assert_eq!(lacks.reason, Reason::SourceIdentityMismatch);
        refill(&fixture, &lost).await?;
        let halt = halt(snapshot_run(&config, mpsc::unbounded_channel().0).await)?;
        assert_eq!(halt.reason, Reason::SourceHistoryDiverged);
        Ok(())
    });
}

/// The copy does not end: the first table was copied before the source lost its history, the second
/// is read on from a view that outlasts it.
#[test]
fn a_source_that_is_reset_and_refilled_under_the_copy_is_refused() {
    run(async {
        let fixture = Servers::own(&[], &[]).await?;
        let fixture = fixture.fixture("refilled").await?;
        fixture.source(REFILL).await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY); INSERT INTO a VALUES (1)").await?;
        thirty_chunks(&fixture, "t", "").await?;
        refused_where(&fixture, 1, async |had| {
            fixture.source("RESET BINARY LOGS AND GTIDS; INSERT INTO a VALUES (2)").await?;
            refill(&fixture, had).await
        })
        .await
    });
}

/// A tag has transaction numbers of its own, and here there are no others.
#[test]
fn a_source_that_tags_all_its_transactions_is_told_from_what_it_was() {
    run(async {
        let fixture = Servers::own(&[], &[]).await?;
        let fixture = fixture.fixture("tagged").await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY)").await?;
        thirty_chunks(&fixture, "t", "").await?;
        let anew = "RESET BINARY LOGS AND GTIDS; SET gtid_next = 'AUTOMATIC:app'";
        fixture.source(&format!("{anew}; INSERT INTO a VALUES (1)")).await?;
        let other = format!("{anew}; INSERT INTO a VALUES (2); INSERT INTO a VALUES (3)");
        refused_where(&fixture, 1, async |_| fixture.source(&other).await).await
    });
}

/// What a history ends with need not be in the binlog any more when its rows are copied. A reset
/// brings it back.
#[test]
fn a_source_that_had_purged_what_its_history_ends_with_is_told_from_what_it_was() {
    run(async {
        let fixture = Servers::own(&[], &[]).await?;
        let fixture = fixture.fixture("purged").await?;
        fixture.source(REFILL).await?;
        thirty_chunks(&fixture, "t", "").await?;
        purge_all(&fixture).await?;
        refused_where(&fixture, 0, async |had| {
            fixture.source("RESET BINARY LOGS AND GTIDS").await?;
            refill(&fixture, had).await
        })
        .await
    });
}

/// As after a recovery to a point in time that left one transaction out: the last one has the number
/// and the original commit time that it had.
#[test]
fn a_source_whose_history_differs_below_its_end_is_told_from_what_it_was() {
    run(async {
        let fixture = Servers::own(&[], &[]).await?;
        let fixture = fixture.fixture("below").await?;
        thirty_chunks(&fixture, "t", "").await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY)").await?;
        let committed = "SET original_commit_timestamp = 1234567890; INSERT INTO a VALUES (1)";
        fixture.source(committed).await?;
        refused_where(&fixture, 1, async |had| {
            let mut anew = "RESET BINARY LOGS AND GTIDS; DELETE FROM a".to_owned();
            for id in 2..had.len() {
                write!(anew, "; INSERT INTO a VALUES ({id})")?;
            }
            fixture.source(&format!("{anew}; {committed}")).await?;
            assert_eq!(gtid_executed(&fixture).await?, *had);
            Ok(())
        })
        .await
    });
}

/// Landmarks are read after the capture. They must not be those of a history that came in between,
/// whether the source had executed anything before the capture or not.
#[test]
fn a_source_that_is_reset_between_a_capture_and_its_landmarks_is_refused() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        servers.mysql.exec("", REFILL).await?;
        for (name, before) in [("between", "DO 0"), ("from_nothing", "RESET BINARY LOGS AND GTIDS")] {
            let fixture = servers.fixture(name).await?;
            fixture.source("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").await?;
            fixture.source(before).await?;
            let config = config(&fixture);
            let (captured, mut told) = mpsc::unbounded_channel();
            let (go, go_on) = std::sync::mpsc::channel();
            let observer = AfterCapture { captured, go_on: std::sync::Mutex::new(go_on) };
            let copying = tokio::spawn(async move { observed_run(&config, &observer).await });
            told.recv().await.context("a table to capture")?;
            // Else the capture would end with what the source ended with before.
            fixture.source("REPLACE INTO elsewhere.refill VALUES (1)").await?;
            go.send(())?;
            told.recv().await.context("a captured table")?;
            let lost = gtid_executed(&fixture).await?;
            fixture.source("RESET BINARY LOGS AND GTIDS").await?;
            refill(&fixture, &lost).await?;
            go.send(())?;
            drop(told);
            let halt = halt(tokio::time::timeout(Duration::from_secs(60), copying).await??)?;
            assert_eq!(halt.reason, Reason::SourceHistoryDiverged, "{name}");
        }
        Ok(())
    });
}

/// The source loses its history while table `t` is copied, after as many chunks of other tables, and what is
/// copied then is refused. `lose` is told what the source had executed.
async fn refused_where(
    fixture: &Fixture<'_>,
    chunks_before: usize,
    lose: impl AsyncFnOnce(&GtidSet) -> Result<()>,
) -> Result<()> {
    let config = config(fixture);
    let stalled = stall_middle(fixture, "t").await?;
    let mut copying = Copying::start(&config);
    copying.wait_for_chunks(chunks_before + BEFORE_STALL).await?;
    let had = gtid_executed(fixture).await?;
    lose(&had).await?;
    stalled.exec("ROLLBACK").await?;
    let halt = halt(copying.end().await?)?;
    assert_eq!(halt.reason, Reason::SourceHistoryDiverged);
    Ok(())
}

/// For [`refill`], where no filter of ours reaches. A copy holds DDL off.
const REFILL: &str = "CREATE DATABASE elsewhere; CREATE TABLE elsewhere.refill (id INT PRIMARY KEY)";

/// Has the source execute as many transactions as it had, and one more.
async fn refill(fixture: &Fixture<'_>, lost: &GtidSet) -> Result<()> {
    let mut refill = "DELETE FROM elsewhere.refill".to_owned();
    for id in 0..=lost.len() {
        write!(refill, "; INSERT INTO elsewhere.refill VALUES ({id})")?;
    }
    fixture.source(&refill).await?;
    ensure!(gtid_executed(fixture).await?.includes(lost), "it is not filled again");
    Ok(())
}

#[test]
fn a_target_table_with_rows_of_its_own_is_left_alone() {
    run(async {
        let fixture = Servers::shared().await?.fixture("occupied").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").await?;
        target_table(&fixture, "t (id INTEGER PRIMARY KEY)").await?;
        fixture.target("INSERT INTO t VALUES (9)").await?;
        let halt = halt(snapshot_run(&config(&fixture), mpsc::unbounded_channel().0).await)?;
        assert_eq!(halt.reason, Reason::TargetDrift);
        assert_eq!(
            fixture.target_scalar("SELECT string_agg(id::text, ',') FROM t").await?.as_deref(),
            Some("9")
        );
        Ok(())
    });
}

#[test]
fn a_value_that_cannot_be_converted_halts_and_names_its_column() {
    run(async {
        let fixture = Servers::shared().await?.fixture("unfit").await?;
        thirty_chunks(&fixture, "t", "").await?;
        fixture
            .source("SET sql_mode = ''; UPDATE t SET v = CONCAT('a', CHAR(0), 'secret') WHERE id = 200")
            .await?;
        let halt = halt(snapshot_run(&config(&fixture), mpsc::unbounded_channel().0).await)?;
        assert_eq!(halt.reason, Reason::ValueInvalid);
        assert_eq!(halt.table, Some(format!("{}.t", fixture.source)));
        assert!(halt.detail.contains("`v`") && !halt.detail.contains("secret"), "{}", halt.detail);
        fixture.source("UPDATE t SET v = 'mended' WHERE id = 200").await?;
        copy(&config(&fixture)).await?;
        fixture.assert_same().await
    });
}
