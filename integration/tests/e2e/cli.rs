//! The commands, their exit codes, and the admin surface of a healthy pipeline.

use anyhow::ensure;
use serde_json::Value;
use tidegate_integration::{Servers, Tidegate, run};

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(20)); INSERT INTO t VALUES (1, 'one')";

#[test]
fn commands_and_their_exit_codes() {
    run(async {
        let fixture = Servers::shared().await?.fixture("commands").await?;
        fixture.source(TABLE).await?;
        let tidegate = Tidegate::prepare(fixture.config())?;
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(0), "{:?}: {}{}", check.code, check.stdout, check.stderr);
        let status = tidegate.cli(&["status"]).await?;
        ensure!(status.code == Some(1), "status without a process: {:?}", status.code);
        ensure!(tidegate.cli(&["status", "--no-such-flag"]).await?.code == Some(2), "usage");

        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        let status = tidegate.cli(&["status"]).await?;
        ensure!(status.code == Some(0) && status.stdout.contains("streaming"), "{}", status.stdout);
        let json: Value = serde_json::from_str(&tidegate.cli(&["status", "--json"]).await?.stdout)?;
        ensure!(json["state"] == "streaming", "{json}");
        ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");
        let stored = tidegate.cli(&["status"]).await?;
        ensure!(
            stored.stdout.contains(&format!("{}.t", fixture.source)),
            "not read from the target: {}",
            stored.stdout
        );
        Ok(())
    });
}

#[test]
fn check_reports_every_problem_as_text_and_json() {
    run(async {
        let fixture = Servers::shared().await?.fixture("problems").await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY, p POINT); CREATE TABLE b (id INT PRIMARY KEY, v TEXT CHARACTER SET koi8r)").await?;
        let tidegate = Tidegate::prepare(fixture.config())?;
        let text = tidegate.cli(&["check"]).await?;
        ensure!(text.code == Some(4), "{:?}: {}", text.code, text.stdout);
        for name in [".a", ".b"] {
            ensure!(
                text.stdout.contains(&format!("{}{name}", fixture.source)),
                "{name} is missing: {}",
                text.stdout
            );
        }
        let json = tidegate.cli(&["check", "--json"]).await?;
        ensure!(json.code == Some(4), "{:?}", json.code);
        let found: Value = serde_json::from_str(&json.stdout)?;
        ensure!(found.to_string().contains("source.table"), "{found}");
        Ok(())
    });
}

#[test]
fn an_unknown_key_is_refused_by_name() {
    run(async {
        let fixture = Servers::shared().await?.fixture("unknown").await?;
        fixture.source(TABLE).await?;
        let tidegate = Tidegate::prepare(fixture.config().set("apply.max_batch_byte", 1))?;
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(2), "{:?}: {}", check.code, check.stderr);
        ensure!(check.stderr.contains("apply.max_batch_byte"), "{}", check.stderr);
        Ok(())
    });
}

#[test]
fn the_admin_surface_while_streaming() {
    run(async {
        let fixture = Servers::shared().await?.fixture("admin").await?;
        fixture.source(TABLE).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t VALUES (2, 'two')").await?;
        tidegate.caught_up(&fixture).await?;
        let status = tidegate.wait_status("a lag of 0", |status| status["lag_ms"] == 0).await?;
        ensure!(status["halt"].is_null() && status["tables"][0]["state"] == "streaming", "{status}");
        for path in ["/live", "/health", "/ready"] {
            ensure!(tidegate.get(path).await?.status == 200, "{path}");
        }
        let metrics = tidegate.get("/metrics").await?.body;
        for metric in
            ["tidegate_lag_seconds", "tidegate_transactions_applied_total", "tidegate_rows_applied_total"]
        {
            ensure!(metrics.contains(metric), "{metric} is missing:\n{metrics}");
        }
        ensure!(tidegate.get("/nowhere").await?.status == 404, "404 elsewhere");
        Ok(())
    });
}
