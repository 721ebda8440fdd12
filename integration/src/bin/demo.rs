//! `ops/demo`: a shop under write load, replicated while you watch, and compared row by row.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tidegate_integration::{Fixture, MySqlSession, Servers, Tidegate, run};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

const SHOP: &str = include_str!("../../demo/shop.sql");

/// Clients that write at the same time.
const WRITERS: u64 = 4;

/// Pause of a writer between two transactions: a steady load, not a benchmark.
const PACE: Duration = Duration::from_millis(10);

/// How long the load runs without `--keep`.
const LOAD_TIME: Duration = Duration::from_secs(60);

fn main() {
    let keep = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--keep") => true,
        Some(_) => {
            eprintln!("usage: ops/demo [--keep]\n\n  --keep   go on until Ctrl-C instead of a minute");
            std::process::exit(2);
        }
    };
    let same = run(demo(keep));
    std::process::exit(i32::from(!same));
}

async fn demo(keep: bool) -> Result<bool> {
    say("starting MySQL and PostgreSQL");
    let servers = Servers::own(&[], &[]).await?;
    let fixture = servers.fixture("shop").await?;
    say("loading the sample shop");
    fixture.source(SHOP).await.context("cannot load the sample database")?;
    let load = Load::start(&fixture).await?;
    let tidegate = Tidegate::start(fixture.config()).await?;
    announce(&tidegate, &servers, &fixture);
    watch(&tidegate, &load, keep).await?;
    say("stopping the load and waiting for the target to reach the source");
    load.stop().await?;
    tidegate.caught_up(&fixture).await?;
    let same = report(&fixture).await?;
    let code = tidegate.stop().await?;
    if code != Some(0) {
        bail!("tidegate ended with {code:?} on SIGTERM");
    }
    Ok(same)
}

fn announce(tidegate: &Tidegate, servers: &Servers, fixture: &Fixture<'_>) {
    println!();
    println!("  admin       http://{}/", tidegate.admin_addr());
    println!("  MySQL       {}, database {}", servers.mysql.addr(), fixture.source);
    println!("  PostgreSQL  {}, database {}", servers.postgres.addr(), fixture.target);
    println!();
}

/// Prints a line a second until the time is over or Ctrl-C is pressed.
async fn watch(tidegate: &Tidegate, load: &Load, keep: bool) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let started = Instant::now();
    while keep || started.elapsed() < LOAD_TIME {
        tokio::select! {
            _ = tick.tick() => print_progress(&tidegate.status().await?, load, started)?,
            _ = interrupt.recv() => break,
        }
    }
    Ok(())
}

fn print_progress(status: &Value, load: &Load, started: Instant) -> Result<()> {
    if !status["halt"].is_null() {
        bail!("tidegate halted: {}", status["halt"]);
    }
    let tables = status["tables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let copied: u64 = tables.iter().filter_map(|table| table["rows_copied"].as_u64()).sum();
    let lag = status["lag_ms"].as_u64().map_or_else(|| "unknown".to_owned(), |ms| format!("{ms} ms"));
    println!(
        "{:>4} s  {:<13} copied {copied:>7} rows  source transactions {:>6}  lag {lag}",
        started.elapsed().as_secs(),
        status["state"].as_str().unwrap_or("?"),
        load.committed(),
    );
    Ok(())
}

async fn report(fixture: &Fixture<'_>) -> Result<bool> {
    say("comparing every table row by row");
    let found = fixture.compare().await?;
    for difference in found.differences.iter().take(20) {
        println!("  {difference}");
    }
    if found.differences.is_empty() {
        say(&format!("identical: {} tables, {} rows", found.tables, found.rows));
    } else {
        say(&format!("NOT identical: {} differences", found.differences.len()));
    }
    Ok(found.differences.is_empty())
}

fn say(text: &str) {
    println!("demo: {text}");
}

/// Writers that order, pay, ship and return things until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
    writers: Vec<JoinHandle<Result<()>>>,
}

impl Load {
    async fn start(fixture: &Fixture<'_>) -> Result<Self> {
        let (stop, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut writers = Vec::new();
        for seed in 0..WRITERS {
            let session = fixture.source_session().await?;
            writers.push(tokio::spawn(write(session, seed, Arc::clone(&stop), Arc::clone(&committed))));
        }
        Ok(Self { stop, committed, writers })
    }

    fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }

    async fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for writer in self.writers {
            writer.await.context("a writer died")??;
        }
        Ok(())
    }
}

async fn write(
    mut session: MySqlSession,
    seed: u64,
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicU64>,
) -> Result<()> {
    let mut pick = seed;
    while !stop.load(Ordering::Relaxed) {
        // A linear congruential step: the same load on every run.
        pick = pick.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed * 2 + 1);
        match session.exec(&transaction(pick >> 33)).await {
            Ok(()) => _ = committed.fetch_add(1, Ordering::Relaxed),
            Err(error) if is_deadlock(&error) => session.exec("ROLLBACK").await?,
            Err(error) => return Err(error.context("the write load failed")),
        }
        tokio::time::sleep(PACE).await;
    }
    session.close().await
}

fn is_deadlock(error: &anyhow::Error) -> bool {
    let text = format!("{error:#}");
    text.contains("1213") || text.contains("1205")
}

fn transaction(n: u64) -> String {
    let (customer, order, sku) = (1 + n % 20_000, 1 + n % 40_000, format!("SKU{:07}", 1 + n % 5_000));
    match n % 10 {
        0..=4 => format!(
            "BEGIN;
             INSERT INTO orders (customer_id, state, total) VALUES ({customer}, 'new', {n} % 9000 / 7);
             SET @o = LAST_INSERT_ID();
             INSERT INTO order_items VALUES (@o, 1, '{sku}', 1 + {n} % 4, 9.99), (@o, 2, 'SKU0000001', 1, 1.50);
             UPDATE products SET stock = stock - 1 WHERE sku = '{sku}';
             INSERT INTO events VALUES (NOW(6), 'order', @o, {n} % 1000 / 3);
             COMMIT"
        ),
        5 | 6 => format!("UPDATE orders SET state = 1 + {n} % 4, note = CONCAT('übernommen ', {n}) WHERE id = {order}"),
        7 => format!(
            "UPDATE products SET attributes = JSON_SET(attributes, '$.rating', {n} % 50 / 10), price = price + 0.01
             WHERE sku = '{sku}'"
        ),
        8 => format!("DELETE FROM orders WHERE id = {order}"),
        _ => format!(
            "BEGIN; UPDATE customers SET newsletter = 1 - newsletter, credit_limit = credit_limit * 1.01 WHERE id = {customer};
             INSERT INTO events VALUES (NOW(6), 'visit', NULL, 1e-3 * {n}); COMMIT"
        ),
    }
}
