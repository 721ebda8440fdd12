//! `tidegate check` names every problem of the target, and its SQL mends it.

use anyhow::{Result, ensure};
use serde_json::Value;
use tidegate_integration::postgres::TARGET_ROLE;
use tidegate_integration::{Config, CutProxy, Fixture, PgBouncer, Servers, Tidegate, run};

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(20)); INSERT INTO t VALUES (1, 'one')";

/// The findings of `check --json`, and its exit code.
async fn check(config: Config) -> Result<(Option<i32>, Vec<Value>)> {
    let output = Tidegate::prepare(config)?.cli(&["check", "--json"]).await?;
    let found: Value = serde_json::from_str(&output.stdout)?;
    let list = found.as_array().or_else(|| found["findings"].as_array()).cloned().unwrap_or_default();
    Ok((output.code, list))
}

async fn expect(fixture: &Fixture<'_>, config: Config, name: &str) -> Result<Value> {
    let (code, found) = check(config).await?;
    ensure!(code == Some(4), "{name}: exit code {code:?}, {found:?}");
    let finding = found.iter().find(|finding| finding["name"] == name);
    let finding = finding
        .cloned()
        .ok_or_else(|| anyhow::anyhow!("{}: {name} is missing in {found:?}", fixture.target))?;
    ensure!(finding["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{finding}");
    Ok(finding)
}

#[test]
fn every_problem_of_the_target_by_name() {
    run(async {
        let servers = Servers::shared().await?;
        let cases: &[(&str, &str)] = &[
            (
                "ALTER ROLE {role} IN DATABASE {db} SET default_transaction_read_only = on",
                "target.read_only",
            ),
            ("CREATE SCHEMA {db}", "target.schema_privilege"),
            (
                "ALTER DATABASE {db} OWNER TO postgres",
                "target.database_privilege",
            ),
            (
                "CREATE SCHEMA {db} AUTHORIZATION {role};
                 CREATE TABLE {db}.t (id int PRIMARY KEY, note varchar(19)); ALTER TABLE {db}.t OWNER TO {role}",
                "target.table",
            ),
            (
                "CREATE SCHEMA {db} AUTHORIZATION {role}; CREATE TABLE {db}.t (id int PRIMARY KEY, note varchar(20))",
                "target.table_privilege",
            ),
            (
                "CREATE SCHEMA {db} AUTHORIZATION {role};
                 CREATE TABLE {db}.t (id int PRIMARY KEY, note varchar(20)); ALTER TABLE {db}.t OWNER TO {role};
                 INSERT INTO {db}.t VALUES (9, 'stray')",
                "target.table_rows",
            ),
        ];
        for (set_up, name) in cases {
            let fixture = servers.fixture("checked").await?;
            fixture.source(TABLE).await?;
            let sql = set_up.replace("{role}", TARGET_ROLE).replace("{db}", &fixture.source);
            servers.postgres.exec(&fixture.target, &sql).await?;
            expect(&fixture, fixture.config(), name).await?;
        }
        Ok(())
    });
}

#[test]
fn a_database_that_is_not_utf8_is_refused() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("ascii").await?;
        fixture.source(TABLE).await?;
        let database = format!("{}_sql_ascii", fixture.target);
        let create = format!(
            "CREATE DATABASE {database} OWNER {TARGET_ROLE} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
        );
        servers.postgres.exec("postgres", &create).await?;
        let url = format!("postgres://{TARGET_ROLE}@{}/{database}", servers.postgres.addr());
        let config = fixture.config().set("target.url", url);
        expect(&fixture, config.clone(), "target.encoding").await?;
        let tidegate = Tidegate::start(config).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_preflight", "{halt}");
        Ok(())
    });
}

/// There is no server older than 14 to be had here, so a real one is made to look like one: the
/// proxy tells another number in its answer to the question for the version.
#[test]
fn a_server_that_is_too_old_is_refused_before_anything_is_asked_of_it() {
    run(async {
        let fixture = Servers::shared().await?.fixture("aged").await?;
        fixture.source(TABLE).await?;
        let truth = fixture.target_scalar("SHOW server_version_num").await?.unwrap_or_default();
        let server = fixture.servers.postgres.addr();
        let aged = CutProxy::lying(server, truth.as_bytes(), b"130014").await?;
        let config = fixture.config().target_at(aged.addr());
        let finding = expect(&fixture, config.clone(), "target.version").await?;
        ensure!(finding["problem"] == "the server is PostgreSQL 13", "{finding}");
        let tidegate = Tidegate::start(config).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_preflight", "{halt}");
        ensure!(halt["detail"].as_str().is_some_and(|detail| detail.contains("PostgreSQL 13")), "{halt}");
        let schema = fixture.target_scalar("SELECT to_regnamespace('tidegate')::text").await?;
        ensure!(schema.is_none(), "something was written");

        let young = CutProxy::lying(server, truth.as_bytes(), b"140000").await?;
        let (code, found) = check(fixture.config().target_at(young.addr())).await?;
        ensure!(code == Some(0), "14 is accepted: {found:?}");
        Ok(())
    });
}

#[test]
fn a_standby_is_waited_for_until_it_is_promoted() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("standby").await?;
        fixture.source(TABLE).await?;
        servers.postgres.become_standby().await?;
        expect(&fixture, fixture.config(), "target.standby").await?;
        let patience = fixture.config().set("retry.initial_backoff", "10ms");
        let tidegate = Tidegate::start(patience.clone().set("retry.max_connect_attempts", 2)).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_unavailable", "{halt}");
        ensure!(halt["detail"].as_str().is_some_and(|detail| detail.contains("target.standby")), "{halt}");
        tidegate.stop().await?;

        let tidegate = Tidegate::start(patience).await?;
        tidegate.wait_state("retrying").await?;
        servers.postgres.promote().await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

#[test]
fn a_proxy_that_lends_backends_by_the_transaction_is_refused() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("pooled").await?;
        fixture.source(TABLE).await?;
        for mode in ["transaction", "statement"] {
            let proxy = PgBouncer::start_new(&servers.postgres, mode).await?;
            let config = fixture.config().target_at(proxy.addr());
            expect(&fixture, config.clone(), "target.pooling").await.map_err(|error| error.context(mode))?;
            let tidegate = Tidegate::start(config).await?;
            let halt = tidegate.wait_halt().await?;
            ensure!(halt["reason"] == "target_preflight", "{mode}: {halt}");
            ensure!(
                halt["detail"].as_str().is_some_and(|detail| detail.contains("target.pooling")),
                "{halt}"
            );
            let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
            let locks = fixture.target_scalar(locks).await?;
            ensure!(
                locks.as_deref() == Some("0"),
                "{locks:?} locks stayed with a backend that serves anyone"
            );
        }
        let proxy = PgBouncer::start_new(&servers.postgres, "session").await?;
        let config = fixture.config().target_at(proxy.addr());
        let (code, found) = check(config.clone()).await?;
        ensure!(code == Some(0), "sessions of their own are what is needed: {found:?}");
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t VALUES (2, 'two')").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

/// The first session is asked twice and the second one once.
#[test]
fn a_start_asks_once_whether_sessions_are_pooled() {
    run(async {
        let servers = Servers::own(&[], &["log_statement=all"]).await?;
        let fixture = servers.fixture("asked").await?;
        fixture.source(TABLE).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        let log = servers.postgres.log().await?;
        let asked = log.matches("SELECT pg_backend_pid()").count();
        ensure!(asked == 3, "the backend was asked for {asked} times");
        Ok(())
    });
}

#[test]
fn a_role_that_an_administrator_keeps_from_writing_halts_by_name_until_it_may() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("kept_out").await?;
        fixture.source(TABLE).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.stop().await?;
        let role = format!("ALTER ROLE {TARGET_ROLE} IN DATABASE {}", fixture.target);
        fixture.target(&format!("{role} SET default_transaction_read_only = on")).await?;
        tidegate.launch(&[]).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_preflight", "{halt}");
        ensure!(halt["detail"].as_str().is_some_and(|detail| detail.contains("target.read_only")), "{halt}");
        fixture.target(&format!("{role} RESET default_transaction_read_only")).await?;
        ensure!(tidegate.post("/v1/resume").await?.status == 202, "resume is accepted");
        ensure!(tidegate.status().await?["halt"].is_null(), "the halt that was left is still shown");
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await
    });
}

/// The findings that concern a table that is there, and the fix of each.
async fn of_tables(config: Config) -> Result<Vec<(String, String, String)>> {
    let (_, found) = check(config).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of_table =
        |finding: &&Value| finding["name"].as_str().is_some_and(|name| name.starts_with("target.table"));
    let told = |finding: &Value| (text(&finding["name"]), text(&finding["problem"]), text(&finding["fix"]));
    Ok(found.iter().filter(of_table).map(told).collect())
}

/// A copied table is what its record says, whatever today's settings would make of it: a run goes on
/// with it. No advice costs anybody a row.
#[test]
fn a_table_on_record_is_checked_as_a_run_checks_it() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("on_record").await?;
        fixture
            .source(
                "CREATE TABLE t (id INT PRIMARY KEY, flag TINYINT(1), s VARCHAR(20), UNIQUE KEY (s), twice INT AS (id * 2) STORED);
                 INSERT INTO t (id, flag, s) VALUES (1, 1, 'one');
                 CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1)",
            )
            .await?;
        let base = fixture.config();
        let tidegate = Tidegate::start(base.clone()).await?;
        tidegate.wait_state("streaming").await?;
        ensure!(tidegate.stop().await? == Some(0));
        let changed = base.clone().set("types.tinyint(1)", "smallint").set("schema.collation", "mysql");
        let found = of_tables(changed.clone()).await?;
        ensure!(found.is_empty(), "a run goes on with these: {found:?}");
        let tidegate = Tidegate::start(changed).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t (id, flag, s) VALUES (2, 0, 'ONE ')").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        ensure!(tidegate.stop().await? == Some(0));

        let found = of_tables(base.clone().set("pipeline.name", "another")).await?;
        ensure!(found.len() == 2 && found.iter().all(|(name, ..)| name == "target.table_owner"), "{found:?}");

        // What a run halts for, in its words, and without a way to lose what the application has written.
        fixture
            .target("ALTER TABLE t DROP COLUMN twice, ADD COLUMN twice integer GENERATED ALWAYS AS (id * 2) STORED; ALTER TABLE u RENAME TO away")
            .await?;
        let found = of_tables(base.clone()).await?;
        let [(_, generated, fix), (_, gone, _)] = found.as_slice() else {
            anyhow::bail!("{found:?}");
        };
        ensure!(generated.contains("\"twice\" is generated by the target"), "{found:?}");
        ensure!(!fix.contains("DROP TABLE") && fix.contains("do not start"), "{found:?}");
        ensure!(gone.contains("is missing"), "{found:?}");
        let tidegate = Tidegate::start(base.clone()).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_drift", "{halt}");
        ensure!(halt["detail"].as_str().is_some_and(|detail| generated.ends_with(detail)), "{halt}");
        ensure!(tidegate.stop().await?.is_some());

        // Let go of, it is somebody's table: it has rows, and they are kept.
        let excluded = base.clone().set("tables.exclude", vec![format!("{}.t", fixture.source)]);
        fixture.target("ALTER TABLE away RENAME TO u").await?;
        let tidegate = Tidegate::start(excluded).await?;
        tidegate.wait_state("streaming").await?;
        ensure!(tidegate.stop().await? == Some(0));
        let found = of_tables(base.clone()).await?;
        ensure!(found.iter().any(|(name, ..)| name == "target.table_rows"), "{found:?}");
        for (_, problem, fix) in &found {
            let (keeps, _) = fix.split_once("--").unwrap_or((fix, ""));
            ensure!(!keeps.contains("DROP") && !keeps.contains("TRUNCATE"), "{problem}: {fix}");
        }
        let (_, _, fix) = &found[0];
        fixture.target(fix).await?;
        let found = of_tables(base.clone()).await?;
        ensure!(found.is_empty(), "{found:?}");
        let tidegate = Tidegate::start(base).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        let kept = fixture.target_scalar("SELECT count(*) FROM t_before").await?;
        ensure!(kept.as_deref() == Some("2"), "{kept:?}");
        fixture.target("DROP TABLE t_before").await?;
        fixture.assert_same().await
    });
}
