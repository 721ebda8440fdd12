//! `tidegate check` names every problem of the target, and its SQL mends it.

use anyhow::{Result, ensure};
use serde_json::Value;
use tidegate_integration::postgres::TARGET_ROLE;
use tidegate_integration::{Config, Fixture, Servers, Tidegate, run};

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
