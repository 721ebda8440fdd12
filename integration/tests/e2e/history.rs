//! The source is not the history that was applied, or keeps Tidegate from following it.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tidegate::gtid::GtidSet;
use tidegate_integration::mysql::{REPLICATION_PASSWORD, REPLICATION_USER};
use tidegate_integration::wait::{Look, until};
use tidegate_integration::{Fixture, MySql, Servers, Tidegate, compare, run};

pub(crate) const TABLE: &str =
    "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(20)); INSERT INTO t VALUES (1, 'one')";

/// A pipeline that has applied a transaction of the stream and was stopped.
pub(crate) async fn stopped_after_one<'a>(
    servers: &'a Servers,
    name: &str,
) -> Result<(Fixture<'a>, Tidegate)> {
    let fixture = servers.fixture(name).await?;
    fixture.source(TABLE).await?;
    let tidegate = Tidegate::start(fixture.config()).await?;
    tidegate.wait_state("streaming").await?;
    fixture.source("INSERT INTO t VALUES (2, 'two')").await?;
    tidegate.caught_up(&fixture).await?;
    ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");
    Ok((fixture, tidegate))
}

/// Starts it again and expects this halt, with the position where it was.
pub(crate) async fn restart_halts(fixture: &Fixture<'_>, tidegate: &Tidegate, reason: &str) -> Result<Value> {
    let before = fixture.stored_gtid_set().await?;
    tidegate.launch(&[]).await?;
    let halt = tidegate.wait_halt().await?;
    ensure!(halt["reason"] == reason, "halted otherwise: {halt}");
    let health = tidegate.wait_health(503).await?;
    ensure!(health.body.contains(reason), "/health does not say why: {}", health.body);
    ensure!(fixture.stored_gtid_set().await? == before, "the position moved");
    ensure!(tidegate.stop().await? == Some(3), "SIGTERM while halted exits with 3");
    Ok(halt)
}

/// Purges all binlogs but the one in use, which is empty.
pub(crate) async fn purge_all(fixture: &Fixture<'_>) -> Result<()> {
    fixture.source("FLUSH BINARY LOGS").await?;
    let logs = fixture.source_rows("SHOW BINARY LOGS").await?;
    let last = logs.last().and_then(|row| row.first().cloned().flatten()).context("a binary log")?;
    fixture.source(&format!("PURGE BINARY LOGS TO '{last}'")).await
}

#[test]
fn a_source_reset_refilled_or_purged() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let (fixture, tidegate) = stopped_after_one(&servers, "purged").await?;
        purge_all(&fixture).await?;
        // Only the transaction that would be compared is gone, nothing that is needed.
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        ensure!(
            tidegate.log()?.contains("resuming without comparing it"),
            "no word of the missing comparison"
        );
        tidegate.stop().await?;
        fixture.source("INSERT INTO t VALUES (3, 'three')").await?;
        purge_all(&fixture).await?;
        restart_halts(&fixture, &tidegate, "data_gap").await?;

        let (fixture, tidegate) = stopped_after_one(&servers, "reset").await?;
        fixture.source("RESET BINARY LOGS AND GTIDS").await?;
        restart_halts(&fixture, &tidegate, "source_identity_mismatch").await?;

        let (fixture, tidegate) = stopped_after_one(&servers, "refilled").await?;
        let applied = servers.mysql.gtid_executed().await?;
        fixture.source("RESET BINARY LOGS AND GTIDS").await?;
        // The very same set, of other transactions.
        for id in 100.. {
            fixture.source(&format!("INSERT INTO t VALUES ({id}, 'again')")).await?;
            let executed = servers.mysql.gtid_executed().await?;
            if executed == applied {
                break;
            }
            ensure!(
                servers.mysql.gtid_subset(&executed, &applied).await?,
                "{executed} is not like {applied}"
            );
        }
        restart_halts(&fixture, &tidegate, "source_history_diverged").await?;
        Ok(())
    });
}

#[test]
fn what_the_source_does_while_it_is_followed() {
    run(async {
        let servers =
            Servers::own(&["--max-binlog-stmt-cache-size=4096", "--binlog-stmt-cache-size=4096"], &[])
                .await?;
        let fixture = servers.fixture("incident").await?;
        fixture.source(TABLE).await?;
        fixture.source("CREATE TABLE m (id INT PRIMARY KEY, pad VARCHAR(2000)) ENGINE = MyISAM").await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        let rows: Vec<String> = (0..20).map(|id| format!("({id}, REPEAT('x', 2000))")).collect();
        let refused = fixture.source(&format!("INSERT INTO m VALUES {}", rows.join(", "))).await;
        ensure!(refused.is_err(), "the statement was to exceed the cache");
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "incident", "{halt}");

        let fixture = servers.fixture("anonymous").await?;
        fixture.source(TABLE).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture
            .source(
                "SET GLOBAL gtid_mode = ON_PERMISSIVE; SET SESSION gtid_next = 'ANONYMOUS';
                 INSERT INTO t VALUES (2, 'two')",
            )
            .await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "anonymous_gtid", "{halt}");
        fixture.source("SET SESSION gtid_next = 'AUTOMATIC'; SET GLOBAL gtid_mode = ON").await?;

        // Without the blobs that did not change; a document always comes along.
        let fixture = servers.fixture("noblob").await?;
        fixture
            .source(
                "CREATE TABLE d (id INT PRIMARY KEY, v INT, doc JSON); INSERT INTO d VALUES (1, 1, '[1]')",
            )
            .await?;
        fixture
            .source("CREATE TABLE b (id INT PRIMARY KEY, v INT, body TEXT); INSERT INTO b VALUES (1, 1, 'x')")
            .await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("SET SESSION binlog_row_image = NOBLOB; UPDATE d SET v = 2").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        fixture.source("SET SESSION binlog_row_image = NOBLOB; UPDATE b SET v = 2").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "partial_row_image", "{halt}");

        let fixture = servers.fixture("setting").await?;
        fixture.source(TABLE).await?;
        fixture.source("SET GLOBAL binlog_row_image = MINIMAL").await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        let halt = tidegate.wait_halt().await?;
        fixture.source("SET GLOBAL binlog_row_image = FULL").await?;
        ensure!(halt["reason"] == "source_preflight", "{halt}");
        ensure!(halt["detail"].as_str().is_some_and(|detail| detail.contains("binlog_row_image")), "{halt}");
        Ok(())
    });
}

/// Lets a server follow the source under GTIDs.
async fn replicate(replica: &MySql, source: &MySql) -> Result<()> {
    let addr = source.inner_addr().await?;
    let follow = format!(
        "SET GLOBAL server_id = 77; CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {}, SOURCE_USER = '{REPLICATION_USER}',
         SOURCE_PASSWORD = '{REPLICATION_PASSWORD}', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1; START REPLICA",
        addr.ip(),
        addr.port()
    );
    replica.exec("", &follow).await
}

async fn has(replica: &MySql, set: &str) -> Result<()> {
    until("the replica to have it all", || async {
        let executed = replica.gtid_executed().await?;
        let reached = replica.gtid_subset(set, &executed).await?;
        Ok(if reached { Look::Done(()) } else { Look::NotYet(executed) })
    })
    .await
}

/// A replica that takes over keeps the history: what it was sent is compared by the times that
/// every server keeps. One that lacks what was applied is not taken for it.
#[test]
fn a_promoted_replica_is_followed_if_it_has_everything() {
    run(async {
        let (servers, promoted) = tokio::try_join!(Servers::own(&[], &[]), MySql::start_new(&[]))?;
        replicate(&promoted, &servers.mysql).await?;
        let (fixture, mut tidegate) = stopped_after_one(&servers, "promoted").await?;
        tidegate.config.put("fold.xa", "track");
        tidegate.launch(&[]).await?;
        let prepared = "XA START 'p'; INSERT INTO t VALUES (3, 'prepared'); XA END 'p'; XA PREPARE 'p'";
        fixture.source(prepared).await?;
        fixture.source("INSERT INTO t VALUES (4, 'four')").await?;
        tidegate.caught_up(&fixture).await?;
        has(&promoted, &servers.mysql.gtid_executed().await?).await?;
        promoted.exec("", "STOP REPLICA; RESET REPLICA ALL").await?;
        // Applied from the old source, and never to be had from the new one.
        fixture.source("INSERT INTO t VALUES (5, 'late')").await?;
        tidegate.caught_up(&fixture).await?;
        tidegate.stop().await?;
        tidegate.config = tidegate.config.clone().source_at(promoted.addr());
        tidegate.launch(&[]).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "source_identity_mismatch", "{halt}");

        replicate(&promoted, &servers.mysql).await?;
        has(&promoted, &servers.mysql.gtid_executed().await?).await?;
        promoted.exec("", "STOP REPLICA; RESET REPLICA ALL").await?;
        servers.mysql.stop().await?;
        ensure!(tidegate.post("/v1/resume").await?.status == 202, "resume is accepted");
        tidegate.wait_state("streaming").await?;
        // Nothing of the new server has been applied yet: it is compared with itself all the same.
        tidegate.kill().await?;
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        promoted.exec(&fixture.source, "XA COMMIT 'p'; UPDATE t SET note = 'new' WHERE id IN (1, 3)").await?;
        tidegate.wait_gtid(&promoted, &promoted.gtid_executed().await?).await?;
        let mut source = promoted.session(&fixture.source).await?;
        let target = fixture.target_session().await?;
        let found = compare::compare(&mut source, &fixture.source, &target, &fixture.source).await?;
        ensure!(found.rows == 5 && found.differences.is_empty(), "{found:?}");
        ensure!(
            tidegate.log()?.contains("reading from a server not read from before"),
            "no word of the new server"
        );
        Ok(())
    });
}

/// Another server may send the transaction that was applied last after many others. Were they applied
/// in the meantime, a restart would compare one of them.
#[test]
fn another_server_is_compared_before_anything_of_it_is_applied() {
    run(async {
        let (servers, other) = tokio::try_join!(Servers::own(&[], &[]), MySql::start_new(&[]))?;
        let (fixture, mut tidegate) = stopped_after_one(&servers, "other").await?;
        let applied = servers.mysql.gtid_executed().await?;
        let last = applied.parse::<GtidSet>()?.latest().next().context("a transaction")?;
        let mut fill = format!(
            "RESET BINARY LOGS AND GTIDS; CREATE DATABASE {0}; USE {0}; {TABLE}; INSERT INTO t VALUES (9, 'nine')",
            fixture.source
        );
        for number in 1..=last.gno() {
            write!(fill, "; SET gtid_next = '{}:{number}'; BEGIN; COMMIT", last.uuid())?;
        }
        other.exec("", &fill).await?;
        ensure!(other.gtid_subset(&applied, &other.gtid_executed().await?).await?, "it lacks some");
        tidegate.config = tidegate.config.clone().source_at(other.addr());
        for _ in 0..2 {
            restart_halts(&fixture, &tidegate, "source_history_diverged").await?;
        }
        let rows = fixture.target_scalar("SELECT count(*) FROM t").await?;
        ensure!(rows.as_deref() == Some("2"), "not what was applied before: {rows:?}");
        Ok(())
    });
}

/// What was executed without being in the binlog, and what is gone from it, show in no event.
#[test]
fn a_source_that_moves_while_its_stream_is_silent() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("silent").await?;
        fixture.source(TABLE).await?;
        let config = fixture.config().set("source.heartbeat_period", "500ms").set("fold.xa", "track");
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        // Executed, and held out: that is no contradiction.
        fixture.source("XA START 'x'; INSERT INTO t VALUES (2, 'two'); XA END 'x'; XA PREPARE 'x'").await?;
        tidegate.caught_up(&fixture).await?;
        let starts = |log: String| log.matches("streaming position=").count();
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        ensure!(starts(tidegate.log()?) == 1, "a quiet source was taken for a silent one");
        fixture.source("XA COMMIT 'x'").await?;
        tidegate.caught_up(&fixture).await?;

        fixture.source("SET GLOBAL gtid_purged = '+aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:1-3'").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "data_gap", "{halt}");
        ensure!(halt["detail"].as_str().is_some_and(|detail| detail.contains(":1-3")), "{halt}");

        let fixture = servers.fixture("emptied").await?;
        fixture.source(TABLE).await?;
        let config = fixture.config().set("source.heartbeat_period", "500ms");
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("RESET BINARY LOGS AND GTIDS").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "source_identity_mismatch", "{halt}");
        Ok(())
    });
}

#[test]
fn one_identity_twice_is_a_conflict() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let (one, two) = (servers.fixture("first").await?, servers.fixture("second").await?);
        one.source(TABLE).await?;
        two.source(TABLE).await?;
        let (first, second) = (Tidegate::start(one.config()).await?, Tidegate::start(two.config()).await?);
        first.wait_state("streaming").await?;
        second.wait_state("streaming").await?;
        second.stop().await?;
        let uuid = one
            .target_scalar("SELECT replica_uuid::text FROM tidegate.pipeline")
            .await?
            .context("an identity")?;
        two.target(&format!("UPDATE tidegate.pipeline SET replica_uuid = '{uuid}'")).await?;
        second.launch(&[]).await?;
        second.wait_state("streaming").await?;
        let halt = first.wait_halt().await?;
        ensure!(halt["reason"] == "server_id_conflict", "{halt}");
        Ok(())
    });
}

#[test]
fn a_target_role_without_the_right_to_silence_triggers() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("rights").await?;
        fixture.source(TABLE).await?;
        let role = tidegate_integration::postgres::TARGET_ROLE;
        fixture
            .target(&format!(
                "REVOKE SET ON PARAMETER session_replication_role FROM {role}; ALTER ROLE {role} NOSUPERUSER"
            ))
            .await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_preflight", "{halt}");
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(4), "check found problems: {:?} {}", check.code, check.stdout);
        ensure!(check.stdout.contains("GRANT SET ON PARAMETER"), "no SQL that mends it: {}", check.stdout);
        Ok(())
    });
}

/// The dump of a source that is reset under it finds its file gone; one that reads the first file
/// does not, since the new one has its name, and the source passes over new transactions that bear
/// GTIDs of old ones.
#[test]
fn a_source_that_is_reset_under_the_stream() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let small = "INSERT INTO t VALUES (2, 'two'); FLUSH BINARY LOGS; INSERT INTO t VALUES (3, 'three')";
        let large = "INSERT INTO t VALUES (2, REPEAT('x', 100000))";
        for (name, files_before, writes) in [
            ("second_file", "FLUSH BINARY LOGS", small),
            ("first_file", "DO 0", small),
            ("grown", "DO 0", large),
        ] {
            servers.mysql.exec("", "RESET BINARY LOGS AND GTIDS").await?;
            let fixture = servers.fixture(name).await?;
            fixture.source("CREATE TABLE t (id INT PRIMARY KEY, note LONGTEXT)").await?;
            fixture.source(files_before).await?;
            let tidegate = Tidegate::start(fixture.config()).await?;
            tidegate.wait_state("streaming").await?;
            for id in 10..20 {
                fixture.source(&format!("INSERT INTO t VALUES ({id}, 'old')")).await?;
            }
            tidegate.caught_up(&fixture).await?;
            let before = fixture.stored_gtid_set().await?;
            fixture.source("RESET BINARY LOGS AND GTIDS").await?;
            fixture.source(writes).await?;
            let halt = tidegate.wait_halt().await?;
            ensure!(halt["reason"] == "source_identity_mismatch", "{name}: {halt}");
            ensure!(fixture.stored_gtid_set().await? == before, "{name}: the position moved");
            tidegate.stop().await?;
        }
        Ok(())
    });
}

/// As many transactions again, before anybody can see that there were fewer: the set is the same, and
/// only the comparison of what was applied last tells. From the end of its file, which is deleted, a dump
/// goes on to the next one of the new history.
#[test]
fn a_source_that_is_reset_and_refilled_at_once() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let next_file = "; FLUSH BINARY LOGS; INSERT INTO t VALUES (100, 'new'), (101, 'new')";
        for (name, last, then) in [
            ("shorter", "'new'", ""),
            ("longer", "REPEAT('x', 100000)", ""),
            ("next_file", "'new'", next_file),
        ] {
            servers.mysql.exec("", "RESET BINARY LOGS AND GTIDS").await?;
            let fixture = servers.fixture(name).await?;
            fixture.source("CREATE TABLE t (id INT PRIMARY KEY, note LONGTEXT)").await?;
            let tidegate = Tidegate::start(fixture.config()).await?;
            tidegate.wait_state("streaming").await?;
            fixture
                .source("INSERT INTO t VALUES (1, REPEAT('o', 5000)); INSERT INTO t VALUES (2, 'old')")
                .await?;
            tidegate.caught_up(&fixture).await?;
            let before = fixture.stored_gtid_set().await?;
            let applied = servers.mysql.gtid_executed().await?;
            let transactions: u64 = applied.rsplit('-').next().context("an interval")?.parse()?;
            let mut refill = "RESET BINARY LOGS AND GTIDS".to_owned();
            for id in 10..10 + transactions - 1 {
                refill += &format!("; INSERT INTO t VALUES ({id}, 'new')");
            }
            fixture.source(&format!("{refill}; INSERT INTO t VALUES (9, {last}){then}")).await?;
            let executed = servers.mysql.gtid_executed().await?;
            ensure!(
                servers.mysql.gtid_subset(&applied, &executed).await?,
                "{name}: {executed}, not {applied}"
            );
            let halt = tidegate.wait_halt().await?;
            // The first is what a look between the two finds.
            let reasons = ["source_identity_mismatch", "source_history_diverged"];
            ensure!(reasons.iter().any(|reason| halt["reason"] == *reason), "{name}: {halt}");
            ensure!(fixture.stored_gtid_set().await? == before, "{name}: the position moved");
            tidegate.stop().await?;
        }
        Ok(())
    });
}

/// A table that the account has no right to is not in the catalog that it sees.
#[test]
fn a_table_that_is_created_and_may_not_be_read() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("unreadable").await?;
        fixture.source(TABLE).await?;
        let grant = |table| format!("GRANT SELECT ON {}.{table} TO {REPLICATION_USER}", fixture.source);
        fixture.source(&format!("REVOKE SELECT ON *.* FROM {REPLICATION_USER}; {}", grant("t"))).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1)").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "source_preflight" && halt.to_string().contains("GRANT SELECT"), "{halt}");
        fixture.source(&grant("u")).await?;
        ensure!(tidegate.post("/v1/resume").await?.status == 202, "resume is accepted");
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}
