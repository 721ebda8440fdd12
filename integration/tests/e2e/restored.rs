//! A source that was restored from a backup, and one that came back without logging everything.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tidegate_integration::backup::ServerUuid;
use tidegate_integration::{Fixture, MySql, Servers, Tidegate, run};

use crate::history::{TABLE, restart_halts, stopped_after_one};

/// What was applied and the backup does not hold: as many transactions as [`INSTEAD`].
const LOST: &str = "INSERT INTO t VALUES (3, 'three'); UPDATE t SET note = 'lost' WHERE id = 1";
const INSTEAD: &str = "INSERT INTO t VALUES (4, 'four'); DELETE FROM t WHERE id = 1";

/// The target still is what was applied.
async fn unharmed(fixture: &Fixture<'_>) -> Result<()> {
    let rows = "SELECT string_agg(id || note, ',' ORDER BY id) FROM t";
    let rows = fixture.target_scalar(rows).await?;
    ensure!(rows.as_deref() == Some("1lost,2two,3three"), "the target holds {rows:?}");
    Ok(())
}

async fn apply_what_is_lost(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<()> {
    tidegate.launch(&[]).await?;
    fixture.source(LOST).await?;
    tidegate.caught_up(fixture).await?;
    tidegate.stop().await?;
    Ok(())
}

/// Both a server that is set back to a backup, and another one that is set up from it, lack what was
/// applied since. The first gives out its GTIDs again, for other transactions.
#[test]
fn from_a_backup_that_is_older_than_the_position() {
    run(async {
        let (servers, replacement) = tokio::try_join!(Servers::own(&[], &[]), MySql::start_new(&[]))?;
        let ((kept, kept_run), (replaced, mut replaced_run)) =
            tokio::try_join!(stopped_after_one(&servers, "kept"), stopped_after_one(&servers, "replaced"))?;
        tokio::try_join!(servers.mysql.kill(), replacement.kill())?;
        let backup = servers.mysql.back_up().await?;
        servers.mysql.start().await?;
        tokio::try_join!(apply_what_is_lost(&kept, &kept_run), apply_what_is_lost(&replaced, &replaced_run))?;
        let applied = servers.mysql.gtid_executed().await?;

        servers.mysql.kill().await?;
        servers.mysql.restore(&backup, ServerUuid::Kept).await?;
        replacement.restore(&backup, ServerUuid::New).await?;
        tokio::try_join!(servers.mysql.start(), replacement.start())?;
        // What it does under GTIDs of its own does not make up for what it lacks.
        replacement.exec(&replaced.source, INSTEAD).await?;
        replaced_run.config = replaced_run.config.clone().source_at(replacement.addr());
        let mismatch = "source_identity_mismatch";
        let (halt, _) = tokio::try_join!(
            restart_halts(&kept, &kept_run, mismatch),
            restart_halts(&replaced, &replaced_run, mismatch)
        )?;
        let uuid = applied.split(':').next().context("a set")?;
        ensure!(halt["detail"].as_str().is_some_and(|detail| detail.contains(uuid)), "not which: {halt}");

        // The very same set once more, and one that holds more.
        kept.source(INSTEAD).await?;
        servers.mysql.exec(&replaced.source, INSTEAD).await?;
        let again = servers.mysql.gtid_executed().await?;
        ensure!(again == applied, "{again} is not the set that was applied, {applied}");
        restart_halts(&kept, &kept_run, "source_history_diverged").await?;
        kept.source("INSERT INTO t VALUES (5, 'five')").await?;
        restart_halts(&kept, &kept_run, "source_history_diverged").await?;
        unharmed(&kept).await?;
        unharmed(&replaced).await
    });
}

/// A table that joins is copied from beyond the position. Where the source is set back to between the
/// two, the transaction that is received again on a resume is the one that was applied.
#[test]
fn from_a_backup_that_is_older_than_the_copy_of_a_table() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let (fixture, tidegate) = stopped_after_one(&servers, "joined").await?;
        fixture.source("INSERT INTO t VALUES (3, 'three'); CREATE TABLE b (id INT PRIMARY KEY)").await?;
        servers.mysql.kill().await?;
        let backup = servers.mysql.back_up().await?;
        servers.mysql.start().await?;
        fixture.source("INSERT INTO b VALUES (1)").await?;

        // The stream does not get past what is before the copy.
        let reader = fixture.target_session().await?;
        reader.exec("BEGIN; LOCK TABLE t IN SHARE MODE").await?;
        tidegate.launch(&[]).await?;
        let is_copied = |status: &Value| status["tables"].to_string().contains("catching_up");
        tidegate.wait_status("a copied table", is_copied).await?;
        tidegate.kill().await?;
        servers.mysql.kill().await?;
        servers.mysql.restore(&backup, ServerUuid::Kept).await?;
        servers.mysql.start().await?;
        fixture.source("INSERT INTO b VALUES (2); INSERT INTO b VALUES (3)").await?;
        reader.exec("ROLLBACK").await?;

        tidegate.launch(&[]).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "source_history_diverged", "halted otherwise: {halt}");
        let rows = fixture.target_scalar("SELECT string_agg(id::text, ',') FROM b").await?;
        ensure!(rows.as_deref() == Some("1"), "the target holds {rows:?}");
        Ok(())
    });
}

/// What a filter of the binlog drops has no GTID, and leaves no trace once the filter is gone.
#[test]
fn with_a_filter_on_its_binlog() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("filtered").await?;
        fixture.source(TABLE).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t VALUES (2, 'two')").await?;
        tidegate.caught_up(&fixture).await?;
        let before = fixture.stored_gtid_set().await?;

        servers.mysql.stop().await?;
        let filter = format!("--binlog-ignore-db={}", fixture.source);
        let filtered = servers.mysql.start_instead(&[&filter]).await?;
        fixture.source("INSERT INTO t VALUES (3, 'in no event')").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "source_preflight", "halted otherwise: {halt}");
        let detail = halt["detail"].as_str().unwrap_or_default();
        ensure!(detail.contains("source.binlog_filter") && detail.contains(&fixture.source), "{halt}");
        ensure!(fixture.stored_gtid_set().await? == before, "the position moved");
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(4), "check found nothing: {}", check.stdout);
        ensure!(check.stdout.contains("start over"), "not what becomes of the rows: {}", check.stdout);
        filtered.stop().await
    });
}
