//! No row value, statement literal, XID or secret gets out: not into a log, an error, a metric, a
//! page or the control schema's halts.
//!
//! Every value written here holds the canary, and so do the harness's passwords and its token.

use anyhow::{Result, ensure};
use tidegate_integration::{Fixture, Servers, Tidegate, run};

/// The canary, as text, as hexadecimal, as a list of bytes and in Base64; and its kin in numbers and
/// times, which are long enough not to be found by chance.
const CANARIES: &[&str] =
    &["canary", "63616e617279", "63616E617279", "99, 97, 110, 97", "Y2FuYXJ5", "7351246", "1987-03-21"];

const TABLES: &str = "
    CREATE TABLE t (
        id VARCHAR(60) PRIMARY KEY, note VARCHAR(60), body TEXT, doc JSON, raw VARBINARY(60),
        n BIGINT, price DECIMAL(20,2), ratio DOUBLE, born DATE, at DATETIME(6), seen TIMESTAMP NULL,
        kind ENUM('canaryenum', 'other'), marks SET('canaryset', 'other'), u VARCHAR(60));
    CREATE TABLE keyless (note VARCHAR(60), n INT);
    INSERT INTO t VALUES ('canary-key-1', 'canary-note', 'canary-body', '{\"canary-name\": \"canary-value\"}', 'canary-raw',
        735124680135, 735124680135.79, 7351246.8, '1987-03-21', '1987-03-21 01:02:03.456789', '1987-03-21 01:02:03',
        'canaryenum', 'canaryset', 'canary-u-1');
    INSERT INTO keyless VALUES ('canary-keyless', 735124680)";

/// What halts, after what was done to the target.
const FAULTS: &[(&str, &str)] = &[
    ("ALTER TABLE t ADD CHECK (note <> 'canary-bad')", "UPDATE t SET note = 'canary-bad'"),
    ("CREATE UNIQUE INDEX ON t (u)", "INSERT INTO t (id, u) VALUES ('canary-key-2', 'canary-u-1')"),
    (
        "ALTER TABLE t ADD CHECK (n < 7351246) NOT VALID",
        "UPDATE t SET price = 735124680135.80, ratio = 7351246.9, born = '1987-03-21'",
    ),
    ("ALTER TABLE t ADD CHECK (u IS NULL OR length(u) < 12)", MANY),
    ("CREATE UNIQUE INDEX ON t (u)", MANY),
    ("", "SET SESSION binlog_row_image = MINIMAL; UPDATE t SET note = 'canary-minimal'"),
    (
        "",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON; UPDATE t SET doc = JSON_SET(doc, '$.\"canary-name\"', 'canary-part')",
    ),
    (
        "",
        "SET SESSION sql_log_bin = 0; ALTER TABLE t DROP COLUMN u; SET SESSION sql_log_bin = 1; UPDATE t SET note = 'canary-drift'",
    ),
    (
        "",
        "CREATE TABLE p (id INT PRIMARY KEY, s VARCHAR(60) DEFAULT 'canary-default' COMMENT 'canary-comment', g ENUM(x'fe') CHARACTER SET binary) COMMENT 'canary-comment'",
    ),
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

/// More rows than are written one by one; all have the same `u`.
const MANY: &str = "INSERT INTO t (id, note, u) WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 900)
    SELECT CONCAT('canary-many-', i), 'canary-many', 'canary-u-many' FROM s";

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
        let line = text.lines().find(|line| CANARIES.iter().any(|canary| line.contains(canary)));
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
fn a_copy_that_fails_tells_no_value() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        for table in [
            "CREATE TABLE c (id VARCHAR(60) PRIMARY KEY, note TEXT); INSERT INTO c VALUES ('canary-key', 'canary\\0nul')",
            "CREATE TABLE c (note TEXT, n BIGINT); INSERT INTO c VALUES ('canary\\0nul', 735124680135)",
            "CREATE TABLE c (id VARCHAR(60) PRIMARY KEY, doc JSON); INSERT INTO c VALUES ('canary-key', '{\"canary\": \"\\\\u0000\"}')",
            "SET sql_mode = ''; CREATE TABLE c (id DATE PRIMARY KEY, note TEXT); INSERT INTO c VALUES ('1987-00-21', 'canary'), ('1987-03-00', 'canary')",
        ] {
            let fixture = servers.fixture("egg").await?;
            fixture.source(table).await?;
            let tidegate = Tidegate::start(fixture.config().set("log.level", "trace")).await?;
            let halt = tidegate.wait_halt().await.map_err(|error| error.context(table))?;
            ensure!(halt["table"] == format!("{}.c", fixture.source), "no table: {halt}");
            silent(&collect(&fixture, &tidegate).await?)?;
        }
        Ok(())
    });
}

#[test]
fn a_refused_configuration_and_a_refused_request_tell_no_secret() {
    run(async {
        let fixture = Servers::shared().await?.fixture("refused").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY)").await?;
        for (key, value) in [
            ("source.url", "mysql://root:canary-in-url@127.0.0.1:3306"),
            ("source.url", "mysql://root:canary-in-url@127.0.0.1:port"),
            ("source.url", "mysql://root@127.0.0.1:3306/?password=canary-in-query"),
            ("target.url", "postgres://app:canary-in-url@127.0.0.1:5432/app"),
            ("target.url", "postgres://app@127.0.0.1:5432/app?password=canary-in-query"),
            ("target.url", "host=127.0.0.1 password=canary-in-words"),
            ("source.passwort", "canary-misspelt"),
            ("admin.tokens", "canary-misspelt"),
        ] {
            let tidegate = Tidegate::prepare(fixture.config().set(key, value))?;
            for command in ["check", "status", "run"] {
                let output = tidegate.cli(&[command]).await?;
                ensure!(output.code == Some(2), "{key} = {value}: {command} exits with {:?}", output.code);
                silent(&[("output", format!("{}{}", output.stdout, output.stderr))])?;
            }
        }
        let tidegate = Tidegate::start(fixture.config().set("log.level", "trace")).await?;
        tidegate.wait_state("streaming").await?;
        let refused =
            tidegate_integration::http::post(tidegate.admin_addr(), "/v1/resume", Some("canary-guess"))
                .await?;
        ensure!(refused.status == 401 || refused.status == 403, "{refused:?}");
        silent(&[("answer", refused.body)])?;
        silent(&collect(&fixture, &tidegate).await?)
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
