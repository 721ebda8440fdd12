//! No row value, statement literal, XID or secret gets out: not into a log, an error, a metric, a
//! page or the control schema's halts.
//!
//! Every value written here holds the canary, and so do the harness's passwords and its token.

use anyhow::{Result, ensure};
use tidegate_integration::{Fixture, Servers, Tidegate, run};

const CANARY: &str = "canary";

const TABLES: &str = "
    CREATE TABLE t (
        id VARCHAR(60) PRIMARY KEY, note VARCHAR(60), body TEXT, doc JSON, raw VARBINARY(60),
        kind ENUM('canaryenum', 'other'), marks SET('canaryset', 'other'), u VARCHAR(60));
    CREATE TABLE keyless (note VARCHAR(60));
    INSERT INTO t VALUES ('canary-key-1', 'canary-note', 'canary-body', '{\"canary-name\": \"canary-value\"}', 'canary-raw',
        'canaryenum', 'canaryset', 'canary-u-1');
    INSERT INTO keyless VALUES ('canary-keyless')";

/// What halts, after what was done to the target.
const FAULTS: &[(&str, &str)] = &[
    ("ALTER TABLE t ADD CHECK (note <> 'canary-bad')", "UPDATE t SET note = 'canary-bad'"),
    ("CREATE UNIQUE INDEX ON t (u)", "INSERT INTO t (id, u) VALUES ('canary-key-2', 'canary-u-1')"),
    ("", "INSERT INTO t (id, note) VALUES ('canary-key-3', 'canary\\0nul')"),
    ("", "UPDATE t SET doc = '{\"canary\": \"\\\\u0000\"}'"),
    ("DELETE FROM keyless", "UPDATE keyless SET note = 'canary-new'"),
    ("ALTER TABLE t ALTER COLUMN note TYPE varchar(3) USING 'abc'", "UPDATE t SET note = 'canary-long'"),
    ("", "ALTER TABLE t ADD COLUMN more VARCHAR(60) DEFAULT 'canary-default' COMMENT 'canary-comment'"),
    ("", "SET SESSION binlog_format = STATEMENT; UPDATE t SET note = 'canary-statement'"),
    (
        "",
        "XA START 'canary-xid'; UPDATE t SET note = 'canary-xa'; XA END 'canary-xid'; XA PREPARE 'canary-xid'; XA ROLLBACK 'canary-xid'",
    ),
];

async fn collect(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<Vec<(&'static str, String)>> {
    let mut seen = Vec::new();
    for path in ["/", "/live", "/health", "/ready", "/status", "/metrics", "/canaryless"] {
        seen.push((path, tidegate.get(path).await?.body));
    }
    for command in ["status", "check"] {
        let output = tidegate.cli(&[command]).await?;
        seen.push((command, format!("{}{}", output.stdout, output.stderr)));
    }
    let halts = fixture.target_rows("SELECT h::text FROM tidegate.halt h").await?;
    seen.push(("tidegate.halt", format!("{halts:?}")));
    seen.push(("log", tidegate.log()?));
    Ok(seen)
}

fn silent(seen: &[(&'static str, String)]) -> Result<()> {
    for (place, text) in seen {
        // The path that was asked for is the caller's own.
        let text = text.replace("/canaryless", "");
        let line = text.lines().find(|line| line.contains(CANARY));
        ensure!(line.is_none(), "{place} tells: {line:?}");
    }
    Ok(())
}

#[test]
fn sings_nowhere() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        for (on_target, on_source) in FAULTS {
            let fixture = servers.fixture("bird").await?;
            fixture.source(TABLES).await?;
            let tidegate = Tidegate::start(fixture.config().set("log.level", "trace")).await?;
            tidegate.wait_state("streaming").await?;
            if !on_target.is_empty() {
                fixture.target(on_target).await?;
            }
            fixture.source(on_source).await?;
            tidegate.wait_halt().await?;
            let seen = collect(&fixture, &tidegate).await?;
            ensure!(
                seen.iter().any(|(place, text)| *place == "log" && text.contains("halted")),
                "no log to look at"
            );
            silent(&seen)?;
        }
        Ok(())
    });
}

#[test]
fn wrong_passwords_are_not_told() {
    run(async {
        let fixture = Servers::shared().await?.fixture("wrong").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY)").await?;
        for config in [
            fixture.config().source_password("canary-wrong"),
            fixture.config().target_password("canary-wrong"),
        ] {
            let config = config
                .set("log.level", "trace")
                .set("retry.max_connect_attempts", 2)
                .set("retry.initial_backoff", "10ms");
            let tidegate = Tidegate::start(config).await?;
            let halt = tidegate.wait_halt().await?;
            let expected = ["source_unavailable", "target_unavailable"];
            ensure!(expected.iter().any(|reason| halt["reason"] == *reason), "{halt}");
            silent(&[("log", tidegate.log()?), ("status", tidegate.get("/status").await?.body)])?;
        }
        Ok(())
    });
}
