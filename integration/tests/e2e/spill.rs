//! Transactions that are larger than memory.

use anyhow::{Context as _, Result, ensure};
use tidegate_integration::wait::{self, Look};
use tidegate_integration::{Servers, Tidegate, run};

/// Rows of half a kilobyte in one transaction: 50 MB. `TIDEGATE_TEST_SPILL_ROWS` asks for more.
const ROWS: u64 = 100_000;

/// What one transaction may make the process grow to, whatever its size.
const MEMORY_MAX_KIB: u64 = 256 << 10;

fn rows() -> u64 {
    std::env::var("TIDEGATE_TEST_SPILL_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(ROWS)
}

/// The most memory that the process has had, in KiB (`proc(5)`, `VmHWM`).
fn peak_memory(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

#[test]
fn a_large_transaction_is_applied_whole_in_little_memory() {
    run(async {
        let fixture = Servers::shared().await?.fixture("large").await?;
        fixture.source("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT NOT NULL, body VARCHAR(500) NOT NULL); CREATE TABLE done (id INT PRIMARY KEY)").await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        let rows = rows();
        let mut session = fixture.source_session().await?;
        session.exec("SET cte_max_recursion_depth = 10000000; BEGIN").await?;
        let numbers =
            format!("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})");
        session
            .exec(&format!(
                "INSERT INTO t (v, body) {numbers} SELECT i, REPEAT(CHAR(97 + i % 26), 500) FROM n; \
                 UPDATE t SET v = v + 1 WHERE id % 100 = 0; DELETE FROM t WHERE id % 1000 = 0; \
                 INSERT INTO done VALUES (1); COMMIT"
            ))
            .await?;
        wait::until("the whole transaction", || {
            let fixture = &fixture;
            async move {
                let state = "SELECT (SELECT count(*) FROM done) || ' ' || (SELECT count(*) FROM (SELECT FROM t LIMIT 1) x)";
                let state = fixture.target_scalar(state).await?;
                match state.as_deref() {
                    Some("1 1") => Ok(Look::Done(())),
                    Some("0 0") => Ok(Look::NotYet("nothing of it".to_owned())),
                    other => anyhow::bail!("a part of the transaction shows: {other:?}"),
                }
            }
        })
        .await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let peak = peak_memory(tidegate.pid()?)?;
        println!("{rows} rows, {} MiB at most", peak >> 10);
        ensure!(peak < MEMORY_MAX_KIB, "{peak} KiB");
        Ok(())
    });
}

#[test]
fn a_spill_directory_that_goes_halts_until_it_is_back() {
    run(async {
        let fixture = Servers::shared().await?.fixture("spill_directory").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY, body LONGTEXT)").await?;
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("spill");
        let shown = path.display().to_string();
        let config =
            fixture.config().set("fold.max_buffer_bytes", "1MiB").set("fold.spill_directory", shown.as_str());
        let refused = Tidegate::prepare(config.clone())?.cli(&["check"]).await?;
        ensure!(refused.code == Some(2) && refused.stderr.contains(&shown), "{}", refused.stderr);
        std::fs::create_dir(&path)?;
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        std::fs::remove_dir(&path)?;
        fixture.source("BEGIN; INSERT INTO t VALUES (1, REPEAT('x', 700000)), (2, REPEAT('y', 700000)); INSERT INTO t VALUES (3, 'z'); COMMIT").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "spill_failed" && halt["detail"].to_string().contains(&shown), "{halt}");
        std::fs::create_dir(&path)?;
        ensure!(tidegate.post("/v1/resume").await?.status == 202, "resume is accepted");
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}
