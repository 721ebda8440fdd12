//! Every type at its bounds, through the copy, through the stream and after a restart.

use anyhow::{Context, Result, ensure};
use tidegate_integration::{Fixture, Servers, Tidegate, run};

use crate::types_data::{REFUSED_COLUMNS, REFUSED_VALUES, Refusal, TYPE_TABLES, TypeTable};

const SESSION: &str = "SET SESSION sql_mode = '', time_zone = '+00:00';";

/// Rows of the copy have ids from 0, those of the stream from here.
const STREAMED: usize = 1000;

fn create(table: &TypeTable) -> String {
    let columns: Vec<String> = table.columns.iter().map(|(name, kind)| format!("`{name}` {kind}")).collect();
    format!("CREATE TABLE `{}` (id INT PRIMARY KEY, {});", table.name, columns.join(", "))
}

fn insert(table: &TypeTable, from: usize) -> String {
    let rows = table.rows.iter().enumerate();
    rows.map(|(n, row)| {
        format!("INSERT INTO `{}` VALUES ({}, {});", table.name, from + n, row.values.join(", "))
    })
    .collect()
}

async fn check(fixture: &Fixture<'_>, table: &TypeTable, from: usize) -> Result<()> {
    let session = fixture.target_session().await?;
    session.exec("SET TimeZone = 'UTC'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'").await?;
    let columns: Vec<String> = table.columns.iter().map(|(name, _)| format!("\"{name}\"::text")).collect();
    let sql = format!(
        "SELECT {} FROM \"{}\" WHERE id BETWEEN {from} AND {} ORDER BY id",
        columns.join(", "),
        table.name,
        from + STREAMED - 1
    );
    let found = session.rows(&sql).await?;
    ensure!(found.len() == table.rows.len(), "{}: {} rows of {}", table.name, found.len(), table.rows.len());
    for (row, expected) in found.iter().zip(table.rows) {
        let shown: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
        ensure!(shown == expected.expected, "{}: {shown:?}, expected {:?}", table.name, expected.expected);
    }
    Ok(())
}

async fn check_columns(fixture: &Fixture<'_>, table: &TypeTable) -> Result<()> {
    let sql = format!(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute
         WHERE attrelid = '\"{}\"'::regclass AND attnum > 1 AND NOT attisdropped ORDER BY attnum",
        table.name
    );
    let found: Vec<String> = fixture.target_rows(&sql).await?.into_iter().flatten().flatten().collect();
    ensure!(found == table.target, "{}: {found:?}, expected {:?}", table.name, table.target);
    Ok(())
}

#[test]
fn copied_streamed_and_after_a_restart() {
    run(async {
        let fixture = Servers::shared().await?.fixture("types").await?;
        for table in TYPE_TABLES {
            let setup = format!("{SESSION} {} {}", create(table), insert(table, 0));
            fixture.source(&setup).await.with_context(|| table.name)?;
        }
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        for table in TYPE_TABLES {
            check_columns(&fixture, table).await?;
            check(&fixture, table, 0).await.context("copied")?;
            fixture.source(&format!("{SESSION} {}", insert(table, STREAMED))).await?;
        }
        tidegate.caught_up(&fixture).await?;
        ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");
        for table in TYPE_TABLES {
            check(&fixture, table, STREAMED).await.context("streamed")?;
            // Every row is moved to another key, then every second one deleted.
            let moved = format!(
                "{SESSION} UPDATE `{0}` SET id = id + 5000 ORDER BY id DESC;
                DELETE FROM `{0}` WHERE id % 2 = 0",
                table.name
            );
            fixture.source(&moved).await?;
        }
        tidegate.launch(&[]).await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

async fn refuses(table: &str, rows: &str, streamed: bool, reason: &str) -> Result<()> {
    let fixture = Servers::shared().await?.fixture("refused").await?;
    fixture.source(&format!("{SESSION} {table}")).await?;
    if !streamed {
        fixture.source(&format!("{SESSION} {rows}")).await?;
    }
    let tidegate = Tidegate::start(fixture.config()).await?;
    if streamed {
        tidegate.wait_state("streaming").await?;
        fixture.source(&format!("{SESSION} {rows}")).await?;
    }
    let halt = tidegate.wait_halt().await?;
    ensure!(halt["reason"] == reason, "{halt}, expected {reason}");
    ensure!(
        halt["table"].as_str().is_some_and(|table| table.ends_with(".t")),
        "the table is not named: {halt}"
    );
    Ok(())
}

#[test]
fn values_that_do_not_fit_are_refused_by_copy_and_stream() {
    run(async {
        for Refusal { column, value, reason } in REFUSED_VALUES {
            let (table, rows) = (
                format!("CREATE TABLE t (id INT PRIMARY KEY, v {column})"),
                format!("INSERT INTO t VALUES (1, {value})"),
            );
            for streamed in [false, true] {
                refuses(&table, &rows, streamed, reason)
                    .await
                    .with_context(|| format!("{column}, streamed: {streamed}"))?;
            }
        }
        Ok(())
    });
}

#[test]
fn columns_that_can_t_be_converted_keep_the_pipeline_from_starting() {
    run(async {
        for (column, reason) in REFUSED_COLUMNS {
            let fixture = Servers::shared().await?.fixture("column").await?;
            fixture.source(&format!("CREATE TABLE t (id INT PRIMARY KEY, v {column})")).await?;
            let tidegate = Tidegate::start(fixture.config()).await?;
            let halt = tidegate.wait_halt().await?;
            let named = [*reason, "source_preflight"].iter().any(|reason| halt["reason"] == *reason);
            ensure!(named && halt.to_string().contains(&fixture.source), "{column}: {halt}");
        }
        Ok(())
    });
}
