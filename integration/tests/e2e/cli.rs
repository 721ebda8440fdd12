//! The commands, their exit codes, and the admin surface of a healthy pipeline.

use std::fs;

use anyhow::{Context, ensure};
use serde_json::Value;
use tidegate::config::{self, Environment};
use tidegate_integration::process::run_in;
use tidegate_integration::servers::free_port;
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
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY, p ENUM('a\\0')); CREATE TABLE b (id INT PRIMARY KEY, v ENUM(x'fe') CHARACTER SET binary)").await?;
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

/// A side that can't be reached or does not let us in is a finding, and the other is looked at.
#[test]
fn check_looks_at_both_sides_whatever_is_wrong_with_one() {
    run(async {
        let fixture = Servers::shared().await?.fixture("sides").await?;
        fixture
            .source(
                "CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE e (id INT PRIMARY KEY, p ENUM('a\\0'))",
            )
            .await?;
        fixture.source("INSERT INTO t VALUES (1)").await?;
        let keep_out =
            format!("CREATE SCHEMA {}; ALTER DATABASE {} OWNER TO postgres", fixture.source, fixture.target);
        fixture.target(&keep_out).await?;
        let nowhere = format!("127.0.0.1:{}", free_port()?).parse()?;
        let base = fixture.config();
        for (config, failed, found) in [
            (base.clone().source_at(nowhere), "source.connection", "target.database_privilege"),
            (
                base.clone().source_password("canary-wrong-password"),
                "source.connection",
                "target.database_privilege",
            ),
            (base.clone().target_at(nowhere), "target.connection", "source.table.column"),
            (
                base.clone().target_password("canary-wrong-password"),
                "target.connection",
                "source.table.column",
            ),
            // A problem of the source does not keep the target's tables from being looked at.
            (base, "source.table.column", "target.schema_privilege"),
        ] {
            let check = Tidegate::prepare(config)?.cli(&["check", "--json"]).await?;
            ensure!(check.code == Some(4), "{failed}: {check:?}");
            let report: Value = serde_json::from_str(&check.stdout)?;
            let findings = report["findings"].as_array().context("findings")?;
            for name in [failed, found] {
                ensure!(findings.iter().any(|finding| finding["name"] == name), "{name}: {report}");
            }
            let size = &report["size"];
            ensure!(size.is_null() == (failed == "source.connection"), "{report}");
            ensure!(
                size.is_null() || (size["tables"] == 2 && size["data_bytes"].as_u64() > Some(0)),
                "{report}"
            );
            ensure!(!check.stdout.contains("canary"), "{report}");
        }
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

#[test]
fn init_writes_a_file_that_is_read_and_leaves_one_that_exists() {
    run(async {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("tidegate.toml");
        let written = run_in(dir.path(), &["init"], &[]).await?;
        ensure!(written.code == Some(0), "{written:?}");
        let text = fs::read_to_string(&path)?;
        config::parse(&text, &Environment::default()).context("the file that init wrote")?;

        fs::write(&path, "mine")?;
        let again = run_in(dir.path(), &["init"], &[]).await?;
        ensure!(again.code == Some(1) && again.stderr.contains("tidegate.toml"), "{again:?}");
        ensure!(fs::read_to_string(&path)? == "mine", "the file was overwritten");

        let printed = run_in(dir.path(), &["init", "--output", "-"], &[]).await?;
        ensure!(printed.code == Some(0) && printed.stdout == text, "{printed:?}");
        Ok(())
    });
}

#[test]
fn wrong_usage_ends_with_2() {
    run(async {
        let dir = tempfile::tempdir()?;
        for args in
            [&[] as &[&str], &["nonsense"], &["run", "--nonsense"], &["run", "--config", "nowhere.toml"]]
        {
            let output = run_in(dir.path(), args, &[]).await?;
            ensure!(output.code == Some(2) && !output.stderr.is_empty(), "{args:?}: {output:?}");
        }
        Ok(())
    });
}

/// A lock on a table that waits to be copied keeps the pipeline in its snapshot for as long as the
/// test needs.
#[test]
fn in_mid_copy_it_is_healthy_and_not_ready_and_stops_with_0() {
    run(async {
        let fixture = Servers::shared().await?.fixture("midcopy").await?;
        fixture.source(TABLE).await?;
        fixture.source("CREATE TABLE held (id INT PRIMARY KEY); INSERT INTO held VALUES (1)").await?;
        let mut holder = fixture.source_session().await?;
        holder.exec("LOCK TABLES held WRITE").await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("snapshotting").await?;
        for (path, code) in [("/live", 200), ("/health", 200), ("/ready", 503)] {
            let answer = tidegate.get(path).await?;
            ensure!(answer.status == code, "{path} in mid-copy: {answer:?}");
        }
        let status = tidegate.cli(&["status"]).await?;
        ensure!(status.code == Some(0) && status.stdout.contains("snapshotting"), "{status:?}");
        ensure!(tidegate.stop().await? == Some(0), "SIGTERM in mid-copy ends with 0");

        holder.exec("UNLOCK TABLES").await?;
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

#[test]
fn a_halt_is_told_by_every_door() {
    run(async {
        let fixture = Servers::shared().await?.fixture("doors").await?;
        fixture.source(TABLE).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t VALUES (2, 'nul\\0')").await?;
        tidegate.wait_halt().await?;
        for (path, code) in [("/live", 200), ("/health", 503), ("/ready", 503)] {
            let answer = tidegate.get(path).await?;
            ensure!(answer.status == code, "{path} when halted: {answer:?}");
        }
        let halt = tidegate.status().await?["halt"].clone();
        for field in ["reason", "detail", "gtid", "table", "remedy", "since"] {
            ensure!(halt[field].is_string(), "{field}: {halt}");
        }
        let told = tidegate.cli(&["status"]).await?;
        ensure!(told.code == Some(3) && told.stdout.contains("value_invalid"), "{told:?}");
        ensure!(tidegate.stop().await? == Some(3), "stopped while halted");
        let stored = tidegate.cli(&["status", "--json"]).await?;
        let json: Value = serde_json::from_str(&stored.stdout)?;
        ensure!(stored.code == Some(3) && json["reachable"] == false, "{stored:?}");
        ensure!(json["stored"]["halt"]["reason"] == "value_invalid", "{json}");
        tidegate.spawn(&["--exit-on-halt"])?;
        ensure!(tidegate.exit_code().await? == Some(3), "--exit-on-halt");
        Ok(())
    });
}

/// What has no place on the target is named, what nothing can be said of as well, and what somebody has to
/// decide is an exit code of its own.
#[test]
fn plan_tells_what_is_left_out_and_asks_for_decisions() {
    run(async {
        let fixture = Servers::shared().await?.fixture("planned").await?;
        fixture
            .source(
                "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, c CHAR(5), e ENUM('b', 'a'), s SET('x'), flag TINYINT(1), u BIGINT UNSIGNED, at TIME, g POINT,
                    v VARCHAR(40), KEY short (v(5)), UNIQUE KEY sharp (v(7))) AUTO_INCREMENT = 4321;
                 INSERT INTO t (id, flag) VALUES (1, 1); CREATE VIEW seen AS SELECT 1 AS one; CREATE PROCEDURE proc() DO 0; CREATE FUNCTION func() RETURNS INT DETERMINISTIC RETURN 1;
                 CREATE TRIGGER trig BEFORE INSERT ON t FOR EACH ROW SET NEW.c = 'x'; CREATE EVENT timed ON SCHEDULE EVERY 1 YEAR DO DO 0",
            )
            .await?;
        let database = &fixture.source;
        let tidegate = Tidegate::prepare(fixture.config())?;
        let plan = tidegate.cli(&["plan"]).await?;
        ensure!(plan.code == Some(0), "{:?}: {}{}", plan.code, plan.stdout, plan.stderr);
        let told = |what: &[&str]| {
            for what in what {
                ensure!(plan.stdout.contains(what), "{what} is missing in {}", plan.stdout);
            }
            anyhow::Ok(())
        };
        told(&[
            &format!("-- not carried over: view `{database}`.`seen`"),
            &format!("-- not carried over: routine `{database}`.`proc`"),
            &format!("-- not carried over: routine `{database}`.`func`"),
            &format!("-- NOT LOOKED AT: triggers of `{database}`"),
            &format!("GRANT EVENT ON `{database}`.* TO `repl`@`%`"),
            "column `c`: varies in length",
            "column `e`: text with a CHECK of its labels: it sorts as text",
            "column `s`: text, the members joined",
            "column `flag`: boolean",
            "column `u`: numeric",
            "column `at`: interval",
            "column `g`: bytea that holds EWKB",
            "index `short`: is over all of `v`, not the first 5 of it",
            "index `sharp`: is over (left(\"v\", 7))",
            "+ 1 FROM",
            ", 4321), false);",
        ])?;
        let grants = format!("GRANT TRIGGER, EVENT ON {database}.* TO repl");
        fixture.source(&grants).await?;
        fixture.source("CREATE TABLE refused (id INT PRIMARY KEY, e ENUM('a\\0')); CREATE TABLE t2 (id INT PRIMARY KEY)").await?;
        let plan = tidegate.cli(&["plan"]).await?;
        ensure!(plan.code == Some(4), "{:?}: {}{}", plan.code, plan.stdout, plan.stderr);
        ensure!(
            plan.stdout.contains("-- NEEDS A DECISION: ")
                && plan.stdout.contains(&format!("{database}.refused"))
        );
        for told in
            [&format!("trigger `{database}`.`trig`"), &format!("event `{database}`.`timed`"), ".\"t2\" ("]
        {
            ensure!(plan.stdout.contains(told), "{told} is missing in {}", plan.stdout);
        }
        let json = tidegate.cli(&["plan", "--json"]).await?;
        ensure!(json.code == Some(4), "{:?}", json.code);
        let json: Value = serde_json::from_str(&json.stdout)?;
        let count = |of: &str| json[of].as_array().map(Vec::len);
        ensure!(count("not_carried_over") == Some(5) && count("problems") == Some(1), "{json}");
        ensure!(count("not_seen") == Some(0) && count("tables") == Some(2), "{json}");
        Ok(())
    });
}
