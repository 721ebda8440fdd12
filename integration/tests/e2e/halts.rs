//! What can't be applied exactly halts by name: the position stays before it, nothing of it is in
//! the target, `/health` says so, and the target remembers.
//!
//! The statements here halt every pipeline that reads them, so each scenario is the last thing in
//! the binlog that its own pipeline gets to see.

use anyhow::{Result, ensure};
use serde_json::Value;
use tidegate_integration::{Fixture, Servers, Tidegate, run};

const TABLES: &str = "
    CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(40), doc JSON);
    CREATE TABLE keyless (a INT, b VARCHAR(20));
    INSERT INTO t VALUES (1, 'one', '{\"a\": 1}');
    INSERT INTO keyless VALUES (1, 'x'), (2, 'y')";

/// What one scenario does and what has to come of it.
struct Scenario {
    name: &'static str,
    /// Run in the target before the source's statements.
    on_target: &'static str,
    on_source: &'static str,
    reason: &'static str,
    /// Run on the source afterwards, so that later scenarios find it as it was.
    undo: &'static str,
}

const fn on_source(name: &'static str, on_source: &'static str, reason: &'static str) -> Scenario {
    Scenario { name, on_target: "", on_source, reason, undo: "" }
}

const fn on_target(
    name: &'static str,
    on_target: &'static str,
    on_source: &'static str,
    reason: &'static str,
) -> Scenario {
    Scenario { name, on_target, on_source, reason, undo: "" }
}

const INSERT: &str = "INSERT INTO t VALUES (2, 'two', NULL)";

const SCENARIOS: &[Scenario] = &[
    on_source(
        "statement",
        "SET SESSION binlog_format = STATEMENT; INSERT INTO t VALUES (2, 'two', NULL)",
        "statement_format_dml",
    ),
    on_source(
        "minimal",
        "SET SESSION binlog_row_image = MINIMAL; UPDATE t SET note = 'other' WHERE id = 1",
        "partial_row_image",
    ),
    on_source(
        "json",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON; UPDATE t SET doc = JSON_SET(doc, '$.a', 2) WHERE id = 1",
        "partial_json",
    ),
    on_source(
        "xa",
        "XA START 'x1'; INSERT INTO t VALUES (2, 'two', NULL); XA END 'x1'; XA PREPARE 'x1'; XA ROLLBACK 'x1'",
        "unsupported_transaction_shape",
    ),
    on_source(
        "unlogged",
        "SET SESSION sql_log_bin = 0; ALTER TABLE t ADD COLUMN more INT; SET SESSION sql_log_bin = 1;
         INSERT INTO t VALUES (2, 'two', NULL, 3)",
        "schema_drift",
    ),
    on_source(
        "unseen",
        "SET SESSION sql_log_bin = 0; INSERT INTO keyless VALUES (9, 'in no event'); SET SESSION sql_log_bin = 1;
         DELETE FROM keyless WHERE a = 9",
        "keyless_row_not_found",
    ),
    on_source(
        "long",
        "CREATE TABLE l234567890123456789012345678901234567890123456789012345678901234 (id INT PRIMARY KEY)",
        "unsupported_name",
    ),
    on_source("wide", "CREATE TABLE wide (id VARCHAR(768) PRIMARY KEY)", "unsupported_key"),
    on_source("shape", "CREATE TABLE shape (id INT PRIMARY KEY, p ENUM('a\\0'))", "unsupported_type"),
    on_source(
        "koi",
        "CREATE TABLE koi (id INT PRIMARY KEY, note ENUM(x'fe') CHARACTER SET binary)",
        "unsupported_charset",
    ),
    // A name in a client's character set that is not decoded.
    on_source("gbk", "SET NAMES gbk; CREATE TABLE é (id INT PRIMARY KEY)", "ddl_unparsed"),
    on_source("nul", "INSERT INTO t VALUES (2, 'a\\0b', NULL)", "value_invalid"),
    Scenario {
        name: "metadata",
        on_target: "",
        on_source: "SET GLOBAL binlog_row_metadata = MINIMAL; INSERT INTO t VALUES (2, 'two', NULL)",
        reason: "row_metadata_not_full",
        undo: "SET GLOBAL binlog_row_metadata = FULL",
    },
    on_target("dropped", "ALTER TABLE t DROP COLUMN note", INSERT, "target_drift"),
    on_target("checked", "ALTER TABLE t ADD CHECK (id < 2)", INSERT, "target_constraint"),
    on_target(
        "gone",
        "DELETE FROM keyless WHERE a = 1",
        "UPDATE keyless SET b = 'z' WHERE a = 1",
        "keyless_row_not_found",
    ),
];

async fn halts(servers: &Servers, scenario: &Scenario) -> Result<()> {
    let fixture = servers.fixture(scenario.name).await?;
    fixture.source(TABLES).await?;
    let tidegate = Tidegate::start(fixture.config()).await?;
    tidegate.wait_state("streaming").await?;
    tidegate.caught_up(&fixture).await?;
    if !scenario.on_target.is_empty() {
        fixture.target(scenario.on_target).await?;
    }
    let before = fixture.stored_gtid_set().await?;
    fixture.source(scenario.on_source).await?;
    let halt = tidegate.wait_halt().await?;
    if !scenario.undo.is_empty() {
        fixture.source(scenario.undo).await?;
    }
    check_halt(&fixture, &tidegate, &halt, scenario.reason).await?;
    ensure!(fixture.stored_gtid_set().await? == before, "the position moved past the halt");
    let rows = fixture.target_scalar("SELECT count(*) FROM t").await?;
    ensure!(rows.as_deref() == Some("1"), "{rows:?} rows");
    let tables = "SELECT string_agg(tablename, ',' ORDER BY tablename) FROM pg_tables WHERE schemaname = current_schema()";
    let tables = fixture.target_scalar(tables).await?;
    ensure!(tables.as_deref() == Some("keyless,t"), "the target has other tables: {tables:?}");
    ensure!(tidegate.stop().await? == Some(3), "SIGTERM while halted exits with 3");
    Ok(())
}

async fn check_halt(fixture: &Fixture<'_>, tidegate: &Tidegate, halt: &Value, reason: &str) -> Result<()> {
    ensure!(halt["reason"] == reason, "halted otherwise: {halt}");
    ensure!(halt["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "no remedy: {halt}");
    let health = tidegate.wait_health(503).await?;
    ensure!(health.body.contains(reason), "/health does not say why: {}", health.body);
    ensure!(tidegate.get("/live").await?.status == 200, "/live is always 200");
    ensure!(tidegate.get("/ready").await?.status == 503, "/ready while halted");
    let stored = "SELECT reason FROM tidegate.halt WHERE cleared_at IS NULL";
    let recorded = tidegate_integration::wait::until_ok("the halt in the target", || async {
        fixture.target_scalar(stored).await?.ok_or_else(|| anyhow::anyhow!("not there yet"))
    });
    ensure!(recorded.await? == reason, "the target remembers another halt");
    Ok(())
}

#[test]
fn each_by_name_with_the_position_before_it() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        for scenario in SCENARIOS {
            halts(&servers, scenario).await.map_err(|error| error.context(scenario.name))?;
        }
        Ok(())
    });
}

/// Asks to resume. From the answer on the halt that is resumed from is not shown any more.
async fn resumed(tidegate: &Tidegate, left: &Value) -> Result<()> {
    ensure!(tidegate.post("/v1/resume").await?.status == 202, "resume is accepted");
    let status = tidegate.status().await?;
    let since = &status["halt"]["since"];
    ensure!(since != &left["since"], "the halt that was left is still shown: {status}");
    Ok(())
}

#[test]
fn a_resume_gets_past_what_was_mended() {
    run(async {
        let fixture = Servers::shared().await?.fixture("mended").await?;
        fixture.source(TABLES).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.target("ALTER TABLE t ADD CONSTRAINT ours CHECK (id < 2)").await?;
        fixture.source(INSERT).await?;
        let halt = tidegate.wait_halt().await?;
        fixture.target("ALTER TABLE t DROP CONSTRAINT ours").await?;
        resumed(&tidegate, &halt).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let open = open_halts(&fixture).await?;
        ensure!(open.as_deref() == Some("0"), "the halt is not cleared: {open:?}");
        Ok(())
    });
}

/// How many halts the target's control schema has open.
async fn open_halts(fixture: &Fixture<'_>) -> Result<Option<String>> {
    fixture.target_scalar("SELECT count(*) FROM tidegate.halt WHERE cleared_at IS NULL").await
}

#[test]
fn a_restart_does_not_get_past_a_halt_but_a_mended_one_does() {
    run(async {
        let fixture = Servers::shared().await?.fixture("restarted").await?;
        fixture.source(TABLES).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.target("ALTER TABLE t ADD CONSTRAINT ours CHECK (id < 2)").await?;
        fixture.source(INSERT).await?;
        let halt = tidegate.wait_halt().await?;
        check_halt(&fixture, &tidegate, &halt, "target_constraint").await?;

        tidegate.kill().await?;
        tidegate.spawn(&["--exit-on-halt"])?;
        ensure!(tidegate.exit_code().await? == Some(3), "--exit-on-halt exits with 3");
        // Other transactions of the server may have been passed before.
        let halted_at = halt["gtid"].as_str().unwrap_or_default();
        let stored = fixture.stored_gtid_set().await?;
        ensure!(
            !fixture.servers.mysql.gtid_subset(halted_at, &stored).await?,
            "the position moved past the halt"
        );
        tidegate.launch(&[]).await?;
        let again = tidegate.wait_halt().await?;
        ensure!(again["gtid"] == halt["gtid"], "another transaction: {again}");
        check_halt(&fixture, &tidegate, &again, "target_constraint").await?;
        resumed(&tidegate, &again).await?;
        let third = tidegate.wait_halt().await?;
        ensure!(third["gtid"] == halt["gtid"] && third["since"] != again["since"], "{third}");
        ensure!(open_halts(&fixture).await?.as_deref() == Some("1"), "one halt at a time is open");

        tidegate.stop().await?;
        fixture.target("ALTER TABLE t DROP CONSTRAINT ours").await?;
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let open = open_halts(&fixture).await?;
        ensure!(open.as_deref() == Some("0"), "the halt is not cleared: {open:?}");
        ensure!(tidegate.wait_health(200).await?.status == 200, "healthy again");
        Ok(())
    });
}

#[test]
fn a_server_that_stays_away_uses_up_the_retry_budget() {
    run(async {
        let fixture = Servers::shared().await?.fixture("away").await?;
        fixture.source(TABLES).await?;
        let nobody = ([127, 0, 0, 1], 1).into();
        for (config, reason) in [
            (fixture.config().source_at(nobody), "source_unavailable"),
            (fixture.config().target_at(nobody), "target_unavailable"),
        ] {
            let config = config.set("retry.max_connect_attempts", 2).set("retry.initial_backoff", "10ms");
            let tidegate = Tidegate::start(config).await?;
            let halt = tidegate.wait_halt().await?;
            ensure!(halt["reason"] == reason, "halted otherwise: {halt}");
            let health = tidegate.wait_health(503).await?;
            ensure!(health.body.contains(reason), "/health does not say why: {}", health.body);
            ensure!(tidegate.get("/live").await?.status == 200, "/live is always 200");
            ensure!(tidegate.stop().await? == Some(3), "SIGTERM while halted exits with 3");
        }
        Ok(())
    });
}

#[test]
fn a_control_schema_that_is_not_ours_is_not_guessed_at() {
    run(async {
        let fixture = Servers::shared().await?.fixture("tampered").await?;
        fixture.source(TABLES).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        tidegate.stop().await?;
        let good = fixture.stored_gtid_set().await?;
        for (damage, repair) in [
            (
                "UPDATE tidegate.checkpoint SET processed = 'nonsense'".to_owned(),
                format!("UPDATE tidegate.checkpoint SET processed = '{good}'"),
            ),
            (
                "CREATE TABLE tidegate.kept AS TABLE tidegate.checkpoint; DELETE FROM tidegate.checkpoint"
                    .to_owned(),
                "INSERT INTO tidegate.checkpoint SELECT * FROM tidegate.kept; DROP TABLE tidegate.kept"
                    .to_owned(),
            ),
        ] {
            fixture.target(&damage).await?;
            tidegate.launch(&[]).await?;
            let halt = tidegate.wait_halt().await.map_err(|error| error.context(damage))?;
            ensure!(halt["reason"] == "checkpoint_invalid", "halted otherwise: {halt}");
            ensure!(!halt.to_string().contains("nonsense"), "the damage is repeated: {halt}");
            tidegate.stop().await?;
            fixture.target(&repair).await?;
        }
        tidegate.launch(&[]).await?;
        fixture.source(INSERT).await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

#[test]
fn a_transaction_beyond_the_bound_waits_for_a_larger_one() {
    run(async {
        let fixture = Servers::shared().await?.fixture("buffer").await?;
        fixture.source("CREATE TABLE big (id INT PRIMARY KEY, body LONGTEXT)").await?;
        let config =
            fixture.config().set("fold.max_buffer_bytes", "1MiB").set("fold.max_spill_bytes", "1MiB");
        let mut tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        fixture
            .source("BEGIN; INSERT INTO big VALUES (1, REPEAT('x', 700000)); INSERT INTO big VALUES (2, REPEAT('y', 700000)); INSERT INTO big VALUES (3, REPEAT('z', 700000)); COMMIT")
            .await?;
        let halt = tidegate.wait_halt().await?;
        check_halt(&fixture, &tidegate, &halt, "buffer_exhausted").await?;
        let rows = fixture.target_scalar("SELECT count(*) FROM big").await?;
        ensure!(rows.as_deref() == Some("0"), "{rows:?} rows of a transaction that was refused");
        tidegate.stop().await?;
        tidegate.config.put("fold.max_spill_bytes", "4MiB");
        tidegate.launch(&[]).await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

#[test]
fn what_touches_no_replicated_row_passes_by() {
    run(async {
        let fixture = Servers::shared().await?.fixture("passes").await?;
        fixture.source(TABLES).await?;
        let config = fixture.config().set("tables.exclude", vec![format!("{}.other*", fixture.source)]);
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        fixture
            .source(
                "CREATE TABLE other (id INT PRIMARY KEY, g POINT); ALTER TABLE other ADD COLUMN n INT;
                 INSERT INTO other VALUES (1, ST_GeomFromText('POINT(1 2)'), 1); ANALYZE TABLE t;
                 CREATE VIEW v AS SELECT id FROM t; TRUNCATE other; DROP TABLE other;
                 XA START 'one'; INSERT INTO t VALUES (7, 'seven', NULL); XA END 'one'; XA COMMIT 'one' ONE PHASE;
                 CREATE TABLE later (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, note TEXT);
                 INSERT INTO later (note) VALUES ('a'), ('b'); UPDATE later SET note = 'c' WHERE id = 2",
            )
            .await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");
        Ok(())
    });
}

/// An event arrives before its commit is finished on the source, which does not show the table yet
/// that it says it has created. Without a sync of the binlog the source sends what it has flushed,
/// and the delay holds the commit back after that.
#[test]
fn a_table_whose_creation_is_not_finished_yet_is_waited_for() {
    run(async {
        let delayed = ["--sync-binlog=0", "--binlog-group-commit-sync-delay=700000"];
        let servers = Servers::own(&delayed, &[]).await?;
        let fixture = servers.fixture("unfinished").await?;
        fixture.source(TABLES).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("CREATE TABLE made (id INT PRIMARY KEY); INSERT INTO made VALUES (1)").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

/// 504 values of TIME beside the key and a NULL are the most that a page takes.
#[test]
fn a_row_that_is_wider_than_a_page() {
    run(async {
        let fixture = Servers::shared().await?.fixture("page").await?;
        let columns: Vec<String> = (0..509).map(|n| format!("c{n} TIME")).collect();
        fixture.source(&format!("CREATE TABLE wide (id INT PRIMARY KEY, {})", columns.join(", "))).await?;
        let row = |id: u32, last: &str| {
            let (times, rest) = ("'01:00:00', ".repeat(504), [last; 5].join(", "));
            format!("INSERT INTO wide VALUES ({id}, {times}{rest})")
        };
        fixture.source(&row(1, "NULL")).await?;
        let tidegate = Tidegate::prepare(fixture.config())?;
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(0) && check.stdout.contains("WARNING target.row_width"), "{check:?}");
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source(&row(2, "NULL")).await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        fixture.source(&row(3, "'01:00:00'")).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "row_too_large", "{halt}");
        ensure!(halt["table"] == format!("{}.wide", fixture.source), "{halt}");
        let detail = halt["detail"].as_str().unwrap_or_default();
        ensure!(detail.contains("larger than a page of 8 kB"), "{halt}");
        tidegate.stop().await?;

        let fixture = Servers::shared().await?.fixture("page_copied").await?;
        fixture.source(&format!("CREATE TABLE wide (id INT PRIMARY KEY, {})", columns.join(", "))).await?;
        fixture.source(&row(1, "'01:00:00'")).await?;
        let halt = Tidegate::start(fixture.config()).await?;
        let halt = halt.wait_halt().await?;
        ensure!(halt["reason"] == "row_too_large", "{halt}");
        ensure!(halt["table"] == format!("{}.wide", fixture.source), "{halt}");
        Ok(())
    });
}
