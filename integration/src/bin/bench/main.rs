//! `ops/bench`: how long Tidegate takes beside the least that PostgreSQL itself needs for the same
//! rows, in the same run on the same servers. Only the ratios of one run mean anything.

mod peers;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tidegate_integration::{Fixture, MySqlSession, PgSession, Servers, Tidegate, run};

use peers::Peer;

/// Rows of the copy, and of the table that is updated afterwards.
const ROWS: u64 = 1_000_000;

/// Updates of the catch-up in transactions of many rows, and rows in each of these.
const SCATTERED: u64 = 200_000;
const ROWS_PER_TRANSACTION: u64 = 1_000;

/// Transactions of the catch-up that have one row each.
const SINGLE: u64 = 50_000;

/// Coprime to the number of rows: its multiples visit every row in an order without locality.
const STRIDE: u64 = 377_717;

/// Longest time for one measurement: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(1800);

/// How often the target is asked whether it is there yet: far below what is measured.
const POLL: Duration = Duration::from_millis(25);

const MYSQL: &[&str] = &[
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=1G",
    "--cte-max-recursion-depth=2000000",
];

const POSTGRES: &[&str] = &["fsync=off", "shared_buffers=512MB", "max_wal_size=8GB", "checkpoint_timeout=1h"];

/// Ten columns and about 170 bytes a row.
const SCHEMA: &str = "CREATE TABLE items (
    id BIGINT PRIMARY KEY, a INT NOT NULL, b INT UNSIGNED NOT NULL, c BIGINT NOT NULL,
    name VARCHAR(64) NOT NULL, note VARCHAR(255), price DECIMAL(18,4) NOT NULL,
    created DATETIME(6) NOT NULL, changed DATETIME NOT NULL, code VARCHAR(40) CHARACTER SET latin1 NOT NULL)";

/// Commits between the statements of a catch-up of single rows, without a client's round trips.
const SINGLE_ROWS: &str = "CREATE PROCEDURE single_rows(n INT, stride BIGINT, row_count BIGINT)
    BEGIN
        DECLARE i BIGINT DEFAULT 0;
        WHILE i < n DO
            UPDATE items SET a = a + 1, note = CONCAT('single ', i) WHERE id = MOD(i * stride, row_count) + 1;
            SET i = i + 1;
        END WHILE;
    END";

/// What a peer's measurement is compared with.
const COPY_WORK: &str = "copy";
const SCATTERED_WORK: &str = "catch-up, 1,000-row transactions";

/// One comparison with its floor.
struct Measured {
    name: &'static str,
    rows: u64,
    seconds: f64,
    floor_seconds: f64,
    peak_resident_bytes: u64,
    /// Largest ratio of the two times that the goal allows.
    goal: f64,
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let with_peers = arguments.first().is_some_and(|argument| argument == "--peers");
    if with_peers {
        arguments.remove(0);
    }
    let path = arguments.pop().unwrap_or_else(|| "target/bench.json".to_owned());
    let met = run(async {
        let servers = Servers::own(MYSQL, POSTGRES).await?;
        let fixture = servers.fixture("bench").await?;
        let measured = bench(&fixture).await?;
        let peers = if with_peers { peers::measure(&servers.postgres).await? } else { Vec::new() };
        print!("{}", table(&measured, &peers));
        if !with_peers {
            println!("peers are not measured without --peers");
        }
        let report = report(&measured, &peers);
        std::fs::write(&path, format!("{report:#}\n")).with_context(|| format!("cannot write {path}"))?;
        println!("\nwritten to {path}");
        Ok(measured.iter().all(|measured| measured.ratio() <= measured.goal))
    });
    std::process::exit(i32::from(!met));
}

async fn bench(fixture: &Fixture<'_>) -> Result<Vec<Measured>> {
    say("filling the source");
    let mut session = fixture.source_session().await?;
    fill(&mut session).await?;
    session.exec(SINGLE_ROWS).await?;
    // Past the proxy of the published ports, which would cost as much as Tidegate.
    let (source, target) =
        (fixture.servers.mysql.inner_addr().await?, fixture.servers.postgres.inner_addr().await?);
    let config = fixture.config().source_at(source).target_at(target);
    let tidegate = Tidegate::prepare(config)?;
    let mut measured = vec![copy(fixture, &tidegate).await?];
    say("updating scattered rows on the source");
    scatter(&mut session).await?;
    measured.push(catch_up(fixture, &tidegate, SCATTERED_WORK, SCATTERED).await?);
    say("updating single rows on the source");
    let call = format!("CALL single_rows({SINGLE}, {STRIDE}, {ROWS})");
    fixture.source(&call).await?;
    measured.push(catch_up(fixture, &tidegate, "catch-up, single-row transactions", SINGLE).await?);
    fixture.assert_same().await?;
    Ok(measured)
}

async fn fill(source: &mut MySqlSession) -> Result<()> {
    source.exec(SCHEMA).await?;
    let insert = format!(
        "INSERT INTO items WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
         SELECT i, i % 10007, i * 3, i * 1000003, CONCAT('name of item ', i), LEFT(SHA2(i, 256), 32), i / 7,
             '2020-01-01' + INTERVAL i * 1013 MICROSECOND + INTERVAL i SECOND,
             '2024-01-01' + INTERVAL i SECOND, LEFT(SHA2(i, 256), 40) FROM n"
    );
    source.exec(&insert).await
}

async fn scatter(source: &mut MySqlSession) -> Result<()> {
    for transaction in 0..SCATTERED / ROWS_PER_TRANSACTION {
        let first = transaction * ROWS_PER_TRANSACTION;
        let ids: Vec<String> = (first..first + ROWS_PER_TRANSACTION)
            .map(|number| (number * STRIDE % ROWS + 1).to_string())
            .collect();
        let update = format!(
            "UPDATE items SET a = a + 1, note = CONCAT('scattered ', id), changed = NOW() WHERE id IN ({})",
            ids.join(",")
        );
        source.exec(&update).await?;
    }
    Ok(())
}

async fn copy(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<Measured> {
    say("copying");
    let (seconds, peak_resident_bytes) = until_current(fixture, tidegate).await?;
    say("the same rows by COPY from a file, and the key's index");
    let target = fixture.target_session().await?;
    target
        .exec("COPY items TO '/tmp/items.copy' (FORMAT binary); CREATE TABLE public.floor (LIKE items)")
        .await?;
    let floor_seconds = timed(
        &target,
        "BEGIN; COPY public.floor FROM '/tmp/items.copy' (FORMAT binary); ALTER TABLE public.floor ADD PRIMARY KEY (id); COMMIT",
    )
    .await?;
    let rows = target.scalar("SELECT count(*) FROM public.floor").await?;
    ensure!(rows == Some(ROWS.to_string()), "the copy has {rows:?} rows");
    Ok(Measured { name: COPY_WORK, rows: ROWS, seconds, floor_seconds, peak_resident_bytes, goal: 2.0 })
}

/// The changes of the source made while Tidegate was down. The floor is told the rows that they
/// leave, in the changes' own order, and writes them into a table like the target's.
async fn catch_up(
    fixture: &Fixture<'_>,
    tidegate: &Tidegate,
    name: &'static str,
    rows: u64,
) -> Result<Measured> {
    say(name);
    let (seconds, peak_resident_bytes) = until_current(fixture, tidegate).await?;
    say("the same rows by COPY into a temporary table and an upsert");
    let target = fixture.target_session().await?;
    let export = format!(
        "COPY (SELECT items.* FROM generate_series(0::bigint, {rows} - 1) i JOIN items ON id = i * {STRIDE} % {ROWS} + 1 \
         ORDER BY i) TO '/tmp/changed.copy' (FORMAT binary); CREATE TEMPORARY TABLE changed (LIKE items)"
    );
    target.exec(&export).await?;
    let upsert = "BEGIN; COPY changed FROM '/tmp/changed.copy' (FORMAT binary); \
        INSERT INTO public.floor SELECT * FROM changed ON CONFLICT (id) DO UPDATE SET a = EXCLUDED.a, \
            b = EXCLUDED.b, c = EXCLUDED.c, name = EXCLUDED.name, note = EXCLUDED.note, \
            price = EXCLUDED.price, created = EXCLUDED.created, changed = EXCLUDED.changed, \
            code = EXCLUDED.code; COMMIT";
    let floor_seconds = timed(&target, upsert).await?;
    Ok(Measured { name, rows, seconds, floor_seconds, peak_resident_bytes, goal: 2.0 })
}

/// Runs Tidegate until it has committed all that the source has executed, and stops it. Seconds
/// from the start of the process, and its peak memory.
async fn until_current(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<(f64, u64)> {
    let set = fixture.servers.mysql.gtid_executed().await?;
    let mut source = fixture.source_session().await?;
    let target = fixture.target_session().await?;
    let started = Instant::now();
    tidegate.spawn(&[])?;
    loop {
        tokio::time::sleep(POLL).await;
        ensure!(tidegate.is_running()?, "tidegate has ended:\n{}", tidegate.log()?);
        ensure!(started.elapsed() < PATIENCE, "not there after {PATIENCE:?}:\n{}", tidegate.log()?);
        let Ok(Some(stored)) = target.scalar(STORED).await else { continue };
        let subset = format!("SELECT GTID_SUBSET('{set}', '{stored}')");
        if source.scalar(&subset).await?.as_deref() == Some("1") {
            break;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let peak = tidegate.peak_resident_bytes()?;
    ensure!(tidegate.stop().await? == Some(0), "tidegate did not stop in order");
    Ok((seconds, peak))
}

/// Empty while any table is being copied.
const STORED: &str = "SELECT processed FROM tidegate.checkpoint WHERE processed IS NOT NULL \
    AND NOT EXISTS (SELECT FROM tidegate.table_state WHERE state <> 'streaming')";

async fn timed(target: &PgSession, sql: &str) -> Result<f64> {
    let started = Instant::now();
    target.exec(sql).await?;
    Ok(started.elapsed().as_secs_f64())
}

impl Measured {
    fn ratio(&self) -> f64 {
        self.seconds / self.floor_seconds
    }

    #[expect(clippy::cast_precision_loss, reason = "a million")]
    fn rate(&self, seconds: f64) -> f64 {
        self.rows as f64 / seconds
    }
}

/// A peer's ratio is to Tidegate's time for the same work, per row.
fn table(measured: &[Measured], peers: &[Peer]) -> String {
    let mut text =
        format!("\n{:40}{:>12}{:>12}{:>9}{:>9}{:>10}\n", "", "rows/s", "floor", "× time", "goal", "peak MiB");
    for one in measured {
        let (rate, floor) = (one.rate(one.seconds), one.rate(one.floor_seconds));
        let mib = one.peak_resident_bytes >> 20;
        let Measured { name, goal, .. } = one;
        let ratio = one.ratio();
        writeln!(text, "{name:40}{rate:>12.0}{floor:>12.0}{ratio:>9.2}{goal:>9.1}{mib:>10}")
            .expect("text can be written");
    }
    for peer in peers {
        let (name, rate, mib) = (peer.label(), peer.rate(), peer.peak_resident_bytes >> 20);
        write!(text, "{name:40}{rate:>12.0}{:>30}{mib:>10}", "").expect("text can be written");
        if let Some(ours) = measured.iter().find(|measured| measured.name == peer.work) {
            let times = ours.rate(ours.seconds) / rate;
            write!(text, "   Tidegate: {times:.1} × its rows/s").expect("text can be written");
        }
        text.push('\n');
    }
    text
}

fn report(measured: &[Measured], peers: &[Peer]) -> Value {
    let one = |one: &Measured| {
        json!({
            "name": one.name,
            "rows": one.rows,
            "seconds": one.seconds,
            "rows_per_second": one.rate(one.seconds),
            "floor_seconds": one.floor_seconds,
            "floor_rows_per_second": one.rate(one.floor_seconds),
            "ratio": one.ratio(),
            "goal": one.goal,
            "peak_resident_bytes": one.peak_resident_bytes,
        })
    };
    let peer = |peer: &Peer| {
        json!({
            "name": peer.name,
            "work": peer.work,
            "rows": peer.rows,
            "seconds": peer.seconds,
            "rows_per_second": peer.rate(),
            "peak_resident_bytes": peer.peak_resident_bytes,
        })
    };
    let measurements: Vec<Value> = measured.iter().map(one).collect();
    json!({ "measurements": measurements, "peers": peers.iter().map(peer).collect::<Vec<_>>() })
}

fn say(what: &str) {
    println!("-- {what}");
}
