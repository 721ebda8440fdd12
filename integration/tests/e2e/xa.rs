//! Two-phase XA with `fold.xa = "track"`: what was prepared has its effect when it is committed,
//! once, whatever dies in between, and a forgotten one holds up nobody.

use anyhow::{Result, ensure};
use tidegate_integration::wait::until_ok;
use tidegate_integration::{Config, Fixture, Servers, Tidegate, run};

const TABLES: &str = "
    CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(40));
    CREATE TABLE keyless (a INT, b VARCHAR(20));
    CREATE TABLE plain (id INT PRIMARY KEY) ENGINE = MyISAM;
    INSERT INTO t VALUES (1, 'one')";

fn tracking(fixture: &Fixture<'_>) -> Config {
    fixture.config().set("fold.xa", "track")
}

/// A pipeline that follows the tables, and everything of them already.
async fn following(fixture: &Fixture<'_>) -> Result<Tidegate> {
    fixture.source(TABLES).await?;
    let tidegate = Tidegate::start(tracking(fixture)).await?;
    tidegate.wait_state("streaming").await?;
    tidegate.caught_up(fixture).await?;
    Ok(tidegate)
}

async fn settled(tidegate: &Tidegate, fixture: &Fixture<'_>) -> Result<()> {
    tidegate.caught_up(fixture).await?;
    fixture.assert_same().await
}

/// `XA START … XA PREPARE` around the statements.
fn prepared(xid: &str, statements: &str) -> String {
    format!("XA START {xid}; {statements}; XA END {xid}; XA PREPARE {xid}")
}

async fn target_count(fixture: &Fixture<'_>, table: &str) -> Result<Option<String>> {
    fixture.target_scalar(&format!("SELECT count(*) FROM {table}")).await
}

/// Every shape that a server logs.
async fn follows(servers: &Servers) -> Result<()> {
    let fixture = servers.fixture("xa_follows").await?;
    let tidegate = following(&fixture).await?;
    fixture
        .source(&prepared("'a'", "INSERT INTO t VALUES (2, 'a'); INSERT INTO keyless VALUES (1, 'a')"))
        .await?;
    fixture
        .source(&prepared("'b','q',7", "INSERT INTO t VALUES (3, 'b'); UPDATE t SET note = 'b' WHERE id = 1"))
        .await?;
    fixture.source(&prepared("X'00ff27',X'5c',4294967295", "INSERT INTO t VALUES (4, 'binary')")).await?;
    fixture.source(&prepared("'','',0", "INSERT INTO t VALUES (5, 'empty')")).await?;
    tidegate.caught_up(&fixture).await?;
    ensure!(target_count(&fixture, "t").await?.as_deref() == Some("1"), "rows of a prepare are visible");
    tidegate
        .wait_status("the prepares, and no lag", |status| {
            status["prepared_gtid_set"].as_str().is_some_and(|set| !set.is_empty()) && status["lag_ms"] == 0
        })
        .await?;

    fixture.source("XA COMMIT 'b','q',7; UPDATE t SET note = 'after b' WHERE id = 1").await?;
    fixture.source("XA ROLLBACK X'00ff27',X'5c',4294967295; XA COMMIT '','',0; XA COMMIT 'a'").await?;
    settled(&tidegate, &fixture).await?;

    fixture
        .source("XA START 'one'; INSERT INTO t VALUES (6, 'one'); XA END 'one'; XA COMMIT 'one' ONE PHASE")
        .await?;
    // Of MyISAM the rows are there at once and stay; a name may be used again.
    fixture
        .source(&prepared("'a'", "INSERT INTO plain VALUES (1); SAVEPOINT s; DELETE FROM t WHERE id = 2"))
        .await?;
    fixture.source("XA ROLLBACK 'a'").await?;
    fixture
        .source(&format!(
            "SET SESSION binlog_transaction_compression = ON; {}; XA COMMIT 'zip'",
            prepared("'zip'", "INSERT INTO t SELECT id + 100, REPEAT('z', 40) FROM t")
        ))
        .await?;
    settled(&tidegate, &fixture).await?;
    tidegate.wait_status("no prepares", |status| status["prepared_gtid_set"] == "").await?;
    ensure!(!tidegate.log()?.contains("00ff27"), "an XID is in the log");
    tidegate.stop().await?;
    Ok(())
}

/// Killed before the prepare arrives, between prepare and commit, and behind the commit; and the
/// source as well, whose prepared transaction another session commits.
async fn survives(servers: &Servers) -> Result<()> {
    let fixture = servers.fixture("xa_survives").await?;
    let tidegate = following(&fixture).await?;
    tidegate.kill().await?;
    fixture
        .source(&prepared("'w1'", "INSERT INTO t VALUES (2, 'w1'); INSERT INTO keyless VALUES (1, 'w1')"))
        .await?;
    tidegate.launch(&[]).await?;
    tidegate.caught_up(&fixture).await?;
    tidegate.kill().await?;
    tidegate.launch(&[]).await?;
    tidegate.caught_up(&fixture).await?;
    fixture.source("INSERT INTO t VALUES (3, 'between')").await?;
    tidegate.caught_up(&fixture).await?;
    tidegate.kill().await?;
    fixture.source("XA COMMIT 'w1'; INSERT INTO t VALUES (4, 'behind')").await?;
    tidegate.launch(&[]).await?;
    settled(&tidegate, &fixture).await?;
    tidegate.kill().await?;
    tidegate.launch(&[]).await?;
    fixture.source("INSERT INTO keyless VALUES (2, 'more')").await?;
    settled(&tidegate, &fixture).await?;

    fixture.source(&prepared("'w2'", "INSERT INTO t VALUES (5, 'w2')")).await?;
    fixture.source(&prepared("'w3'", "INSERT INTO t VALUES (6, 'w3')")).await?;
    servers.mysql.kill().await?;
    servers.mysql.start().await?;
    fixture.source("XA COMMIT 'w2'; XA ROLLBACK 'w3'; INSERT INTO t VALUES (7, 'end')").await?;
    settled(&tidegate, &fixture).await?;
    tidegate.stop().await?;
    Ok(())
}

/// Prepared before the copy: on a table that is not replicated, and on one that is, whose copy
/// waits for it.
async fn begins_with_prepared(servers: &Servers) -> Result<()> {
    let fixture = servers.fixture("xa_before").await?;
    fixture.source(TABLES).await?;
    fixture.source("CREATE TABLE elsewhere (id INT PRIMARY KEY)").await?;
    for xid in ["'e1'", "'e2'", "'e3'"] {
        let number = &xid[2..3];
        fixture.source(&prepared(xid, &format!("INSERT INTO elsewhere VALUES ({number})"))).await?;
    }
    fixture.source(&prepared("'held'", "INSERT INTO t VALUES (2, 'held')")).await?;
    let elsewhere = format!("{}.elsewhere", fixture.source);
    let config = tracking(&fixture).set("tables.exclude", vec![elsewhere]);
    let tidegate = Tidegate::start(config).await?;
    tidegate
        .wait_status("the capture to wait for the prepared transaction", |status| {
            status["tables"]
                .as_array()
                .is_some_and(|tables| tables.iter().any(|table| table["state"] == "capturing"))
        })
        .await?;
    fixture.source("XA COMMIT 'held'").await?;
    tidegate.wait_state("streaming").await?;
    fixture.source("XA COMMIT 'e1'; INSERT INTO t VALUES (3, 'after')").await?;
    tidegate.caught_up(&fixture).await?;
    // Resolved while nobody looks: only what the capture listed tells.
    tidegate.kill().await?;
    fixture.source("XA ROLLBACK 'e2'; XA COMMIT 'e3'; INSERT INTO t VALUES (4, 'last')").await?;
    tidegate.launch(&[]).await?;
    tidegate.caught_up(&fixture).await?;
    for table in ["t", "keyless", "plain"] {
        let source = fixture.source_scalar(&format!("SELECT count(*) FROM {table}")).await?;
        ensure!(target_count(&fixture, table).await? == source, "{table} differs");
    }
    let left = fixture.target_scalar("SELECT count(*) FROM tidegate.startup_xid").await?;
    ensure!(left.as_deref() == Some("0"), "{left:?} XIDs are kept");
    tidegate.stop().await?;
    Ok(())
}

/// One that is prepared is held out until the halt's cause, and the position with it.
async fn halts(
    servers: &Servers,
    name: &str,
    config: impl FnOnce(Config) -> Config,
    on_source: &str,
    reason: &str,
) -> Result<()> {
    let fixture = servers.fixture(name).await?;
    fixture.source(TABLES).await?;
    let tidegate = Tidegate::start(config(tracking(&fixture))).await?;
    tidegate.wait_state("streaming").await?;
    fixture.source(on_source).await?;
    let halt = tidegate.wait_halt().await?;
    ensure!(halt["reason"] == reason, "halted otherwise: {halt}");
    ensure!(tidegate.wait_health(503).await?.body.contains(reason), "/health does not say why");
    ensure!(target_count(&fixture, "t").await?.as_deref() == Some("1"), "rows were applied");
    tidegate.stop().await?;
    Ok(())
}

/// A commit and a rollback of what was resolved behind our back: neither seen nor listed.
async fn halts_on_unknown(servers: &Servers, verb: &str, reason: &str) -> Result<()> {
    let fixture = servers.fixture("xa_unknown").await?;
    fixture.source(TABLES).await?;
    let elsewhere = "CREATE TABLE elsewhere (id INT PRIMARY KEY)";
    fixture.source(&format!("{elsewhere}; {}", prepared("'u'", "INSERT INTO elsewhere VALUES (1)"))).await?;
    let tidegate = Tidegate::start(
        tracking(&fixture).set("tables.exclude", vec![format!("{}.elsewhere", fixture.source)]),
    )
    .await?;
    tidegate.wait_state("streaming").await?;
    tidegate.caught_up(&fixture).await?;
    tidegate.stop().await?;
    fixture.source(&format!("XA {verb} 'u'")).await?;
    fixture.target("DELETE FROM tidegate.startup_xid").await?;
    tidegate.launch(&[]).await?;
    let halt = tidegate.wait_halt().await?;
    ensure!(halt["reason"] == reason, "halted otherwise: {halt}");
    tidegate.stop().await?;
    Ok(())
}

/// A prepare that is still needed and has been purged.
async fn halts_on_a_purged_prepare(servers: &Servers) -> Result<()> {
    let fixture = servers.fixture("xa_purged").await?;
    let tidegate = following(&fixture).await?;
    fixture.source(&prepared("'p'", "INSERT INTO t VALUES (2, 'p')")).await?;
    tidegate.caught_up(&fixture).await?;
    tidegate.stop().await?;
    fixture.source("FLUSH BINARY LOGS; INSERT INTO t VALUES (3, 'x')").await?;
    let last = until_ok("the binlogs", || async {
        let rows = fixture.source_rows("SHOW BINARY LOGS").await?;
        rows.last().and_then(|row| row.first().cloned().flatten()).ok_or_else(|| anyhow::anyhow!("no binlog"))
    });
    fixture.source(&format!("PURGE BINARY LOGS TO '{}'", last.await?)).await?;
    tidegate.launch(&[]).await?;
    let halt = tidegate.wait_halt().await?;
    ensure!(halt["reason"] == "data_gap", "halted otherwise: {halt}");
    fixture.source("XA ROLLBACK 'p'").await?;
    tidegate.stop().await?;
    Ok(())
}

#[test]
fn prepared_transactions_are_followed() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        follows(&servers).await?;
        survives(&servers).await?;
        begins_with_prepared(&servers).await
    });
}

#[test]
fn what_cannot_be_followed_halts() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let hidden = format!(
            "{}; SET SESSION sql_log_bin = 0; XA ROLLBACK 'h'; SET SESSION sql_log_bin = 1; {}; XA ROLLBACK 'h'",
            prepared("'h'", "INSERT INTO t VALUES (2, 'h')"),
            prepared("'h'", "INSERT INTO t VALUES (2, 'again')")
        );
        halts(&servers, "xa_hidden", |config| config, &hidden, "xa_prepared_gtid_mismatch").await?;
        let two = format!(
            "{}; {}; XA ROLLBACK 'm'; XA ROLLBACK 'n'",
            prepared("'m'", "INSERT INTO t VALUES (2, 'm')"),
            prepared("'n'", "INSERT INTO t VALUES (3, 'n')")
        );
        let one = |config: Config| config.set("fold.xa_max_prepared", 1);
        halts(&servers, "xa_full", one, &two, "xa_prepared_pool_exhausted").await?;
        halts_on_unknown(&servers, "COMMIT", "xa_commit_without_prepare").await?;
        halts_on_unknown(&servers, "ROLLBACK", "xa_rollback_without_prepare").await?;
        halts_on_a_purged_prepare(&servers).await
    });
}
