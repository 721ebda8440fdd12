//! The binary copies tables that are being written, and what it has in the end is the source.
//!
//! Eight clients update, insert and delete rows and move them to other keys, in five tables with
//! keys of different kinds, one without. A copy that is wrong by one transaction leaves a row too
//! many, one too few or an old one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tidegate_integration::mysql::{MySqlSession, TextRow};
use tidegate_integration::{Fixture, Servers, Tidegate, postgres, process, run};
use tokio::task::JoinSet;

const WRITERS: u64 = 8;

/// Rows per table before the load.
const ROWS: u64 = 6000;

const TABLES: &str = "
    CREATE TABLE plain (id INT PRIMARY KEY, n INT NOT NULL, note VARCHAR(60));
    CREATE TABLE pair (name VARCHAR(40) NOT NULL, part INT NOT NULL, n INT NOT NULL, note VARCHAR(60), PRIMARY KEY (name, part));
    CREATE TABLE wide (id BIGINT UNSIGNED PRIMARY KEY, n INT NOT NULL, amount DECIMAL(20,4), at DATETIME(6));
    CREATE TABLE uuids (id BINARY(16) PRIMARY KEY, n INT NOT NULL, note TEXT);
    CREATE TABLE keyless (writer INT NOT NULL, step INT NOT NULL, n INT NOT NULL, KEY (writer, step))";

fn fill() -> String {
    format!(
        "SET cte_max_recursion_depth = {ROWS};
         CREATE TABLE numbers (i INT PRIMARY KEY) WITH RECURSIVE n (i) AS
            (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT i FROM n;
         INSERT INTO plain SELECT i * 10, 0, CONCAT('first ', i) FROM numbers;
         INSERT INTO pair SELECT CONCAT(IF(i % 2, 'Name ', 'nAME '), i DIV 3), i % 3, 0, NULL FROM numbers;
         INSERT INTO wide SELECT 18446744073709551615 - i * 10, 0, i / 7, NOW(6) FROM numbers;
         INSERT INTO uuids SELECT UNHEX(LEFT(SHA2(i, 256), 32)), 0, REPEAT('x', i % 200) FROM numbers;
         INSERT INTO keyless SELECT -1, i, 0 FROM numbers;
         DROP TABLE numbers"
    )
}

/// A small generator: each writer has its own.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What a client runs in its step of this number.
type Transaction = fn(writer: u64, step: u64, dice: &mut Dice) -> String;

/// A row of its own each time: a transaction that is lost is a row that is missing.
fn insert(writer: u64, step: u64, _: &mut Dice) -> String {
    format!("INSERT INTO plain VALUES ({}, 0, 'w{writer} #{step}')", 1_000_000 * (writer + 1) + step)
}

/// One or several statements on rows that others work on too.
fn mixed(writer: u64, step: u64, dice: &mut Dice) -> String {
    let count = 1 + dice.below(4);
    let statements: Vec<String> = (0..count).map(|_| statement(writer, step, dice)).collect();
    format!("BEGIN; {}; COMMIT", statements.join("; "))
}

fn statement(writer: u64, step: u64, dice: &mut Dice) -> String {
    let i = 1 + dice.below(ROWS);
    let other = dice.below(10 * ROWS);
    match dice.below(18) {
        0 | 1 => format!("UPDATE plain SET n = n + 1, note = 'w{writer} #{step}' WHERE id = {}", i * 10),
        2 => format!("INSERT IGNORE INTO plain VALUES ({other}, 1, 'inserted')"),
        3 => format!("DELETE FROM plain WHERE id = {other}"),
        4 => format!("UPDATE IGNORE plain SET id = {other}, note = 'moved' WHERE id = {}", i * 10),
        5 => format!("UPDATE pair SET n = n + 1 WHERE name = 'NAME {}' AND part = {}", i / 3, i % 3),
        6 => format!(
            "UPDATE IGNORE pair SET name = 'name {}', note = 'moved' WHERE name = 'name {}' AND part = {}",
            other % ROWS,
            i / 3,
            i % 3
        ),
        7 => format!("REPLACE INTO pair VALUES ('NaMe {}', {}, {step}, 'replaced')", other % ROWS, i % 3),
        8 => format!(
            "UPDATE wide SET n = n + 1, amount = amount / 3 WHERE id = 18446744073709551615 - {}",
            i * 10
        ),
        9 => format!(
            "UPDATE IGNORE wide SET id = 18446744073709551615 - {other} WHERE id = 18446744073709551615 - {}",
            i * 10
        ),
        10 => format!(
            "DELETE FROM wide WHERE id BETWEEN 18446744073709551600 - {other} AND 18446744073709551615 - {other}"
        ),
        11 => format!(
            "INSERT INTO uuids VALUES (UNHEX(LEFT(SHA2({other}, 256), 32)), {step}, 'new') ON DUPLICATE KEY UPDATE n = n + 1"
        ),
        12 => format!(
            "UPDATE IGNORE uuids SET id = UNHEX(LEFT(SHA2('w{writer} {step}', 256), 32)) WHERE id = UNHEX(LEFT(SHA2({i}, 256), 32))"
        ),
        13..=15 => format!("INSERT INTO keyless VALUES ({writer}, {step}, {other})"),
        _ => format!("UPDATE keyless SET n = n + 1 WHERE writer = -1 AND step = {i}"),
    }
}

/// Clients that write until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    writers: JoinSet<Result<u64>>,
}

impl Load {
    async fn start(fixture: &Fixture<'_>, transaction: Transaction) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let session = fixture.source_session().await?;
            writers.spawn(write(writer, session, transaction, Arc::clone(&stop)));
        }
        Ok(Self { stop, writers })
    }

    /// Returns the number of transactions committed.
    async fn stop(mut self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut committed = 0;
        while let Some(writer) = self.writers.join_next().await {
            committed += writer??;
        }
        Ok(committed)
    }
}

async fn write(
    writer: u64,
    mut session: MySqlSession,
    transaction: Transaction,
    stop: Arc<AtomicBool>,
) -> Result<u64> {
    let mut dice = Dice(writer);
    let (mut step, mut committed) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        step += 1;
        // Deadlocks are the load's own business.
        match session.exec(&transaction(writer, step, &mut dice)).await {
            Ok(()) => committed += 1,
            Err(_) => session.exec("ROLLBACK").await?,
        }
    }
    session.close().await?;
    Ok(committed)
}

fn small_chunks(fixture: &Fixture<'_>) -> process::Config {
    fixture.config().set("snapshot.chunk_rows", 100).set("snapshot.parallelism", 4)
}

/// Rows that `/status` says are copied, over all tables.
fn rows_copied(status: &Value) -> u64 {
    let tables = status["tables"].as_array().map(Vec::as_slice).unwrap_or_default();
    tables.iter().filter_map(|table| table["rows_copied"].as_u64()).sum()
}

#[test]
fn tables_copied_under_load_are_the_source_in_the_end() {
    run(async {
        let servers = Servers::own(&["--sync-binlog=0"], &["fsync=off"]).await?;
        let fixture = servers.fixture("loaded").await?;
        fixture.source(TABLES).await?;
        fixture.source(&fill()).await?;
        let load = Load::start(&fixture, mixed).await?;
        let tidegate = Tidegate::start(small_chunks(&fixture)).await?;
        tidegate
            .wait_status("all tables to be copied", |status| rows_copied(status) >= 5 * ROWS * 9 / 10)
            .await?;
        tidegate.wait_status("the stream", |status| status["processed_gtid_set"].is_string()).await?;
        let committed = load.stop().await?;
        ensure!(committed > 500, "only {committed} transactions: there was no load");
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        tidegate.wait_state("streaming").await?;
        Ok(())
    });
}

#[test]
fn a_copy_that_is_killed_again_and_again_is_the_source_in_the_end() {
    run(async {
        let servers = Servers::own(&["--sync-binlog=0"], &["fsync=off"]).await?;
        let fixture = servers.fixture("killed").await?;
        fixture.source(TABLES).await?;
        fixture.source(&fill()).await?;
        let load = Load::start(&fixture, mixed).await?;
        let tidegate = Tidegate::prepare(small_chunks(&fixture))?;
        for kill in 1..=6 {
            tidegate.launch(&[]).await?;
            let goal = kill * 4 * ROWS / 6;
            tidegate.wait_status(format!("{goal} rows"), |status| rows_copied(status) >= goal).await?;
            tidegate.kill().await?;
        }
        let resumed = "SELECT count(*) FROM tidegate.table_state WHERE converge_set IS NOT NULL";
        ensure!(
            fixture.target_scalar(resumed).await?.as_deref() != Some("0"),
            "no kill hit a copy in the middle"
        );
        tidegate.launch(&[]).await?;
        tidegate.wait_status("the stream", |status| status["processed_gtid_set"].is_string()).await?;
        load.stop().await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let status = tidegate.wait_state("streaming").await?;
        let tables = status["tables"].as_array().context("tables")?;
        ensure!(tables.iter().all(|table| table["state"] == "streaming"), "{status}");
        Ok(())
    });
}

#[test]
fn a_copy_that_is_asked_to_stop_ends_soon_and_goes_on_later() {
    run(async {
        let fixture = Servers::shared().await?.fixture("stopped").await?;
        fixture.source(TABLES).await?;
        fixture.source(&fill()).await?;
        let tidegate = Tidegate::start(small_chunks(&fixture)).await?;
        tidegate.wait_status("some rows", |status| rows_copied(status) >= ROWS / 2).await?;
        assert_eq!(tidegate.stop().await?, Some(0));
        let copied = "SELECT sum(rows) < $ROWS FROM tidegate.snapshot_chunk";
        let in_the_middle = fixture.target_scalar(&copied.replace("$ROWS", &(5 * ROWS).to_string())).await?;
        ensure!(in_the_middle.as_deref() == Some("t"), "it copied to the end");
        tidegate.launch(&[]).await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

#[test]
fn a_lock_that_cannot_be_had_halts_until_it_can() {
    run(async {
        let fixture = Servers::shared().await?.fixture("unlockable").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").await?;
        let mut writer = fixture.source_session().await?;
        writer.exec("BEGIN; INSERT INTO t VALUES (2)").await?;
        let config =
            fixture.config().set("snapshot.lock_wait_timeout", "1s").set("snapshot.lock_deadline", "2s");
        let tidegate = Tidegate::start(config).await?;
        let halt = tidegate.wait_halt().await?;
        assert_eq!(halt["reason"], "snapshot_lock_unavailable");
        assert_eq!(halt["table"], format!("{}.t", fixture.source));
        // The application is not kept waiting by a request that is left behind.
        fixture.source("SET lock_wait_timeout = 1; INSERT INTO t VALUES (3)").await?;
        writer.exec("COMMIT").await?;
        ensure!(tidegate.post("/v1/resume").await?.status == 202, "resume is accepted");
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

#[test]
fn a_lock_that_is_waited_for_is_told_of_until_it_is_had() {
    run(async {
        let fixture = Servers::shared().await?.fixture("waiting").await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE t (id INT PRIMARY KEY)").await?;
        let mut writer = fixture.source_session().await?;
        writer.exec("BEGIN; INSERT INTO t VALUES (1)").await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        let name = format!("{}.t", fixture.source);
        let table = |status: &Value, name: &str| {
            let tables = status["tables"].as_array().map(Vec::as_slice).unwrap_or_default();
            tables.iter().find(|table| table["source"] == name).cloned().unwrap_or_default()
        };
        let waits = |status: &Value| !table(status, &name)["waiting_for"].is_null();
        let status = tidegate.wait_status("the wait for the lock", waits).await?;
        ensure!(table(&status, &name)["waiting_for"] == "the table's read lock", "{status}");
        ensure!(table(&status, &format!("{}.a", fixture.source))["waiting_for"].is_null(), "{status}");
        ensure!(status["state"] == "snapshotting" && status["last_error"]["side"] == "source", "{status}");
        let message = status["last_error"]["message"].as_str().unwrap_or_default();
        ensure!(message.starts_with(&format!("{name} waits for the table's read lock")), "{status}");
        let told = tidegate.cli(&["status"]).await?;
        ensure!(told.stdout.contains("waits for the table's read lock"), "{}", told.stdout);

        writer.exec("COMMIT").await?;
        let status = tidegate.wait_status("the stream", |status| status["state"] == "streaming").await?;
        ensure!(!waits(&status), "{status}");
        let lines = tidegate.log()?.matches("waiting for the table's read lock").count();
        ensure!(lines == 1, "{lines} lines about a wait of a few seconds");
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

#[test]
fn ddl_again_and_again_during_the_copy_halts_until_it_is_over() {
    run(async {
        // Of its own: copies of other tests would hold the changes off. The rows are many, so that no copy
        // of them ends between two changes.
        let servers = Servers::own(&["--sync-binlog=0"], &["fsync=off"]).await?;
        let fixture = servers.fixture("restless").await?;
        fixture.source(TABLES).await?;
        fixture.source(&fill()).await?;
        let more = "INSERT INTO plain SELECT a.id + 100000 * b.id, a.n, a.note FROM plain a JOIN plain b ON b.id <= 200";
        fixture.source(more).await?;
        let config = small_chunks(&fixture).set("snapshot.block_ddl", false).set("snapshot.max_captures", 2);
        let tidegate = Tidegate::start(config).await?;
        let mut altered = 0;
        let halt = loop {
            altered += 1;
            fixture.source(&format!("ALTER TABLE plain COMMENT = 'number {altered}'")).await?;
            let status = tidegate.status().await?;
            if !status["halt"].is_null() {
                break status["halt"].clone();
            }
            ensure!(status["state"] != "streaming", "it was copied in spite of {altered} changes");
        };
        ensure!(halt["reason"] == "snapshot_interrupted", "{halt}");
        ensure!(halt["table"] == format!("{}.plain", fixture.source), "{halt}");
        ensure!(tidegate.post("/v1/resume").await?.status == 202, "resume is accepted");
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

#[test]
fn ddl_during_the_copy_is_followed_by_a_copy_of_the_new_table() {
    run(async {
        let fixture = Servers::shared().await?.fixture("altered").await?;
        fixture.source(TABLES).await?;
        fixture.source(&fill()).await?;
        let tidegate = Tidegate::start(small_chunks(&fixture).set("snapshot.block_ddl", false)).await?;
        let copying = |status: &Value| {
            let tables = status["tables"].as_array().map(Vec::as_slice).unwrap_or_default();
            tables.iter().any(|table| {
                table["state"] == "copying"
                    && table["source"].as_str().is_some_and(|name| name.ends_with(".plain"))
                    && table["rows_copied"].as_u64().is_some_and(|rows| rows > 0)
            })
        };
        tidegate.wait_status("the copy of a table", copying).await?;
        fixture.source("ALTER TABLE plain ADD COLUMN added INT NOT NULL DEFAULT 5 FIRST").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

/// How a capture in the test's own hand takes its GTID set.
#[derive(Debug, Clone, Copy)]
enum Capture {
    /// As the product does: table locked, view opened, set read, table unlocked.
    Locked,
    /// View first, set after it, and no lock.
    Unlocked,
}

/// Rows and GTID set of the table `plain`.
async fn captured(fixture: &Fixture<'_>, how: Capture) -> Result<(Vec<TextRow>, String)> {
    let mut locker = fixture.source_session().await?;
    let mut view = fixture.source_session().await?;
    let mut reader = fixture.source_session().await?;
    if matches!(how, Capture::Locked) {
        locker.exec("LOCK TABLES plain READ").await?;
    }
    view.exec("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
    let set = reader.scalar("SELECT @@GLOBAL.gtid_executed").await?.unwrap_or_default();
    locker.exec("UNLOCK TABLES").await?;
    let rows = view.rows("SELECT id, n, note FROM plain").await?;
    Ok((rows, set))
}

/// Puts such a capture in the place of Tidegate's own copy, lets Tidegate follow from there until
/// the load is over, and compares.
async fn followed_from(fixture: &Fixture<'_>, how: Capture, name: &str) -> Result<bool> {
    let config = fixture
        .config()
        .set("pipeline.name", name)
        .set("tables.include", vec![format!("{}.plain", fixture.source)]);
    let tidegate = Tidegate::start(config).await?;
    tidegate.wait_status("the stream", |status| status["processed_gtid_set"].is_string()).await?;
    tidegate.stop().await?;
    fixture.source("DELETE FROM plain WHERE id >= 1000000").await?;
    let load = Load::start(fixture, insert).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (rows, set) = captured(fixture, how).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    load.stop().await?;
    plant(fixture, name, &rows, &set).await?;
    tidegate.launch(&[]).await?;
    tidegate.caught_up(fixture).await?;
    let order = "SELECT id, n, note FROM plain ORDER BY id";
    let same = fixture.source_rows(order).await? == fixture.target_rows(order).await?;
    tidegate.stop().await?;
    fixture
        .target(&format!(
            "UPDATE tidegate.table_state SET state = 'detached'; DROP TABLE {}.plain",
            fixture.source
        ))
        .await?;
    Ok(same)
}

async fn plant(fixture: &Fixture<'_>, pipeline: &str, rows: &[TextRow], set: &str) -> Result<()> {
    let mut values = Vec::new();
    for row in rows {
        let [Some(id), Some(n), note] = row.as_slice() else { bail!("a row of plain") };
        let note = note.as_deref().map_or_else(|| "NULL".to_owned(), postgres::literal);
        values.push(format!("({id}, {n}, {note})"));
    }
    let (pipeline, set) = (postgres::literal(pipeline), postgres::literal(set));
    fixture
        .target(&format!(
            "TRUNCATE plain; INSERT INTO plain (id, n, note) VALUES {};
             UPDATE tidegate.table_state SET snapshot_set = {set}, converge_set = NULL, state = 'catching_up'
                WHERE pipeline = {pipeline};
             UPDATE tidegate.checkpoint SET processed = {set}, last_gtid = NULL, last_original_commit_micros = NULL,
                last_immediate_commit_micros = NULL, last_transaction_length = NULL WHERE pipeline = {pipeline}",
            values.join(", ")
        ))
        .await
}

#[test]
fn a_capture_without_the_lock_is_found_out_by_the_comparison() {
    /// A commit falls between the view and the set in most attempts.
    const ATTEMPTS: usize = 20;
    run(async {
        let servers = Servers::own(&["--sync-binlog=0"], &["fsync=off"]).await?;
        let fixture = servers.fixture("unlocked").await?;
        fixture.source(TABLES).await?;
        fixture.source(&fill()).await?;
        assert!(followed_from(&fixture, Capture::Locked, "locked").await?, "the lock makes it exact");
        for attempt in 0..ATTEMPTS {
            if !followed_from(&fixture, Capture::Unlocked, &format!("unlocked_{attempt}")).await? {
                return Ok(());
            }
        }
        bail!("{ATTEMPTS} captures without a lock were exact: the comparison sees nothing")
    });
}
