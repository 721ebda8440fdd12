//! The runbook's procedures, done as they are written.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use tidegate_integration::{Fixture, Servers, Tidegate, run};

const TABLES: &str = "
    CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(40)); INSERT INTO t VALUES (1, 'one');
    CREATE TABLE users (id INT PRIMARY KEY, doc JSON); INSERT INTO users VALUES (1, '{}')";

/// The SQL of a procedure, for this pipeline and its schema instead of those of the example.
fn sql_of(procedure: &str, fixture: &Fixture<'_>) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/runbook.md");
    let runbook = fs::read_to_string(path)?;
    let section = runbook.split(&format!("### {procedure}\n")).nth(1).context("no such procedure")?;
    let sql = section.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next());
    let sql = sql.context("the procedure has no SQL")?;
    ensure!(sql.contains("'app'") && sql.contains("DROP SCHEMA app "), "not the SQL of the example: {sql}");
    let (name, schema) = (format!("'{}'", fixture.source), format!("DROP SCHEMA {} ", fixture.source));
    Ok(sql.replace("'app'", &name).replace("DROP SCHEMA app ", &schema))
}

#[test]
fn starting_over_gets_past_what_no_exclusion_of_a_table_does() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("over").await?;
        fixture.source(TABLES).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("SET SESSION binlog_format = STATEMENT; UPDATE t SET note = 'other'").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "statement_format_dml", "{halt}");
        ensure!(halt["remedy"].as_str().is_some_and(|remedy| remedy.contains("start over")), "{halt}");
        tidegate.stop().await?;

        fixture.target(&sql_of("Start over", &fixture)?).await?;
        ensure!(tidegate.cli(&["check"]).await?.code == Some(0), "something is left in the way");
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t VALUES (2, 'two')").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let open =
            fixture.target_scalar("SELECT count(*) FROM tidegate.halt WHERE cleared_at IS NULL").await?;
        ensure!(open.as_deref() == Some("0"), "the halt that is past is still open");
        Ok(())
    });
}

#[test]
fn copying_one_table_again_gets_past_what_concerns_it() {
    run(async {
        let fixture = Servers::shared().await?.fixture("again").await?;
        fixture.source(TABLES).await?;
        let mut tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        let partial = "SET SESSION binlog_row_value_options = PARTIAL_JSON;
            UPDATE users SET doc = '{\"a\": [1, 2, 3]}'; UPDATE users SET doc = JSON_SET(doc, '$.a[1]', 7)";
        fixture.source(partial).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "partial_json", "{halt}");
        let remedy = halt["remedy"].as_str().unwrap_or_default();
        ensure!(remedy.contains("copy the table again"), "{halt}");
        tidegate.stop().await?;

        tidegate.config.put("tables.exclude", vec![format!("{}.users", fixture.source)]);
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t VALUES (2, 'two'); INSERT INTO users VALUES (2, '[]')").await?;
        tidegate.caught_up(&fixture).await?;
        tidegate.stop().await?;
        fixture.target("DROP TABLE users").await?;
        tidegate.config.put("tables.exclude", Vec::<String>::new());
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("UPDATE users SET doc = '{\"b\": 1}' WHERE id = 2").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}
