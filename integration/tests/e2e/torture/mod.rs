//! Clients that do everything at random, and deaths at random, for as long as there is time; in the
//! end the target is the source.
//!
//! `TIDEGATE_TORTURE_SEED` gives the statements and the deaths, `TIDEGATE_TORTURE_SECONDS` the time. How
//! the threads of the servers meet is not in the seed, so a failure may need more than one run.

mod workload;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tidegate_integration::mysql::MySqlSession;
use tidegate_integration::wait::until_ok;
use tidegate_integration::{Config, Fixture, Servers, Tidegate, run};
use tokio::task::JoinSet;
use workload::Dice;

const CLIENTS: u64 = 4;
/// Prepared transactions that a client leaves behind before it resolves the first.
const PREPARED_MAX: usize = 2;
const SECONDS: u64 = 10;

fn number(variable: &str) -> Result<Option<u64>> {
    let value = std::env::var(variable).ok();
    value.map(|text| text.parse().with_context(|| format!("{variable} is a number"))).transpose()
}

/// What the clients have in common.
struct Common {
    db: String,
    other: String,
    seed: u64,
    stop: AtomicBool,
    done: AtomicU64,
    failed: AtomicU64,
}

struct Client {
    number: u64,
    common: Arc<Common>,
    servers: &'static Servers,
    dice: Dice,
    prepared: Vec<String>,
}

impl Client {
    async fn session(&mut self) -> Result<MySqlSession> {
        let (servers, db) = (self.servers, self.common.db.clone());
        let mut session = until_ok("MySQL", || servers.mysql.session(&db)).await?;
        // The server may be killed at any time; a session without its settings is one too.
        let _as_it_is = session.exec(&workload::session(&mut self.dice)).await;
        Ok(session)
    }

    async fn run(mut self) -> Result<()> {
        let mut session = self.session().await?;
        let mut step = 0;
        while !self.common.stop.load(Ordering::Relaxed) {
            step += 1;
            let text = self.next(&mut session, step).await;
            // Deadlocks, waits for prepared rows, restarts: what was committed is the server's to say.
            if session.exec(&text).await.is_ok() {
                self.common.done.fetch_add(1, Ordering::Relaxed);
            } else {
                self.common.failed.fetch_add(1, Ordering::Relaxed);
                session = self.session().await?;
            }
        }
        Ok(())
    }

    async fn next(&mut self, session: &mut MySqlSession, step: u64) -> String {
        let (number, other) = (self.number, self.common.other.clone());
        let dice = &mut self.dice;
        match dice.below(20) {
            0..=2 if self.prepared.len() < PREPARED_MAX => {
                let xid = workload::xid(number, step, dice);
                self.prepared.push(xid.clone());
                workload::xa(&xid, step, &other, false, dice)
            }
            0..=5 if !self.prepared.is_empty() => {
                let xid = self.prepared.remove(0);
                format!("XA {} {xid}", dice.pick(&["COMMIT", "COMMIT", "ROLLBACK"]))
            }
            6 => workload::xa(&workload::xid(number, step, dice), step, &other, true, dice),
            7 if number == 1 => workload::rare(step, dice),
            7 | 8 if number == 0 => {
                let d = dice.below(workload::CHANGING);
                let columns = changing_columns(session, d).await.unwrap_or_default();
                workload::definition(step, d, &columns, dice)
            }
            _ => workload::transaction(number, step, &other, dice),
        }
    }
}

async fn changing_columns(session: &mut MySqlSession, d: u64) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'd{d}'
         AND column_name NOT IN ('id', 'v') ORDER BY column_name"
    );
    Ok(session.rows(&sql).await?.into_iter().flatten().flatten().collect())
}

/// What dies, or is restarted, when its turn comes.
async fn strike(fixture: &Fixture<'_>, tidegate: &Tidegate, dice: &mut Dice) -> Result<()> {
    let Servers { mysql, postgres } = fixture.servers;
    match dice.below(12) {
        0 => {
            mysql.kill().await?;
            mysql.start().await
        }
        1 => mysql.restart().await,
        2 => {
            postgres.kill().await?;
            postgres.start().await
        }
        3 => postgres.restart().await,
        4 => {
            tidegate.stop().await?;
            tidegate.launch(&[]).await
        }
        _ => {
            tidegate.kill().await?;
            tidegate.launch(&[]).await
        }
    }
}

fn config(fixture: &Fixture<'_>, dice: &mut Dice) -> Config {
    fixture
        .config()
        .set("fold.xa", "track")
        .set("snapshot.chunk_rows", 100)
        .set("snapshot.block_ddl", dice.below(2) == 0)
        .set("apply.max_batch_bytes", dice.pick(&["64KiB", "1MiB", "16MiB"]))
        .set("retry.initial_backoff", "50ms")
        .set("retry.max_backoff", "500ms")
        .set("retry.max_drops", 1000)
        .set("retry.max_connect_attempts", 1000)
}

/// Commits or rolls back what is still prepared, one or the other by turns.
async fn resolve_all(fixture: &Fixture<'_>) -> Result<()> {
    let mut session = fixture.source_session().await?;
    let verbs = ["COMMIT", "ROLLBACK"].into_iter().cycle();
    for (row, verb) in session.rows("XA RECOVER CONVERT XID").await?.into_iter().zip(verbs) {
        let [Some(format), Some(gtrid), Some(_), Some(data)] = row.as_slice() else { continue };
        let (gtrid, bqual) = data.trim_start_matches("0x").split_at(2 * gtrid.parse::<usize>()?);
        session.exec(&format!("XA {verb} X'{gtrid}',X'{bqual}',{format}")).await?;
    }
    Ok(())
}

/// What the source has logged of definitions, and what was made of it: where a difference is one of
/// those, nothing else explains it.
async fn definitions(fixture: &Fixture<'_>) -> Result<String> {
    let mut told = String::new();
    for log in fixture.source_rows("SHOW BINARY LOGS").await? {
        let Some(Some(file)) = log.first() else { continue };
        let mut gtid = String::new();
        for event in fixture.source_rows(&format!("SHOW BINLOG EVENTS IN '{file}'")).await? {
            let [_, _, Some(kind), _, _, Some(info)] = event.as_slice() else { continue };
            if kind.starts_with("Gtid") {
                gtid =
                    info.chars().rev().take_while(|c| *c != ':').collect::<Vec<_>>().iter().rev().collect();
            }
            if kind == "Query"
                && ["ALTER", "CREATE TABLE", "DROP", "RENAME", "TRUNCATE"]
                    .iter()
                    .any(|verb| info.contains(verb))
            {
                told += &format!("{file} {gtid} {info}\n");
            }
        }
    }
    let recorded = "SELECT gtid || ' ' || kind || ' ' || source_table || ' ' || coalesce(statement, '') FROM tidegate.schema_change ORDER BY id";
    for row in fixture.target_rows(recorded).await?.into_iter().flatten().flatten() {
        told += &format!("recorded {row}\n");
    }
    Ok(told)
}

async fn same(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<()> {
    tidegate.caught_up(fixture).await?;
    let Err(error) = fixture.assert_same().await else { return Ok(()) };
    let told = definitions(fixture).await.unwrap_or_else(|error| format!("{error:#}"));
    Err(error.context(told))
}

async fn torture(seed: u64, seconds: u64) -> Result<()> {
    let args = ["--secure-file-priv=/tmp", "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2"];
    let servers: &'static Servers = Box::leak(Box::new(Servers::own(&args, &["fsync=off"]).await?));
    let fixture = servers.fixture("torture").await?;
    let other = format!("{}_other", fixture.source);
    let elsewhere = format!(
        "CREATE DATABASE {other}; CREATE TABLE {other}.elsewhere (id BIGINT AUTO_INCREMENT PRIMARY KEY, v BIGINT)"
    );
    fixture.source(&format!("{}; {elsewhere}", workload::SCHEMA)).await?;
    let mut dice = Dice::new(seed, u64::MAX);
    let tidegate = Tidegate::prepare(config(&fixture, &mut dice))?;
    let common = Arc::new(Common {
        db: fixture.source.clone(),
        other,
        seed,
        stop: AtomicBool::new(false),
        done: AtomicU64::new(0),
        failed: AtomicU64::new(0),
    });
    // A copy starts under a lock, which every prepared transaction on its table keeps it from: with
    // a few seeds only it has to get through that.
    let copied_first = dice.below(4) > 0;
    if copied_first {
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
    }
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let dice = Dice::new(common.seed, number);
        let client = Client { number, common: Arc::clone(&common), servers, dice, prepared: Vec::new() };
        clients.spawn(client.run());
    }
    if !copied_first {
        tidegate.launch(&[]).await?;
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut strikes = 0;
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(200 + dice.below(1800))).await;
        ensure!(clients.try_join_next().is_none(), "a client has given up");
        let status = tidegate.status().await?;
        ensure!(status["halt"].is_null(), "halted: {}", status["halt"]);
        strike(&fixture, &tidegate, &mut dice).await?;
        strikes += 1;
    }
    common.stop.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client??;
    }
    resolve_all(&fixture).await?;
    same(&fixture, &tidegate).await?;
    // One that nobody resolves holds up nothing.
    fixture.source("XA START 'left'; DELETE FROM acc; XA END 'left'; XA PREPARE 'left'").await?;
    fixture.source("UPDATE d0 SET v = -1; INSERT INTO ledger VALUES (-1, -1)").await?;
    same(&fixture, &tidegate).await?;
    resolve_all(&fixture).await?;
    same(&fixture, &tidegate).await?;
    ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");
    let (done, failed) = (common.done.load(Ordering::Relaxed), common.failed.load(Ordering::Relaxed));
    println!("{done} steps done, {failed} refused or lost, {strikes} deaths");
    ensure!(done > failed, "{done} steps done, {failed} refused or lost: there was no load to speak of");
    servers.mysql.stop().await?;
    servers.postgres.stop().await
}

#[test]
fn random_clients_and_random_deaths() {
    run(async {
        let seed = number("TIDEGATE_TORTURE_SEED")?.unwrap_or_else(|| u64::from(std::process::id()));
        let seconds = number("TIDEGATE_TORTURE_SECONDS")?.unwrap_or(SECONDS);
        let again = format!(
            "TIDEGATE_TORTURE_SEED={seed} TIDEGATE_TORTURE_SECONDS={seconds} cargo test -p tidegate-integration --test e2e -- torture:: --nocapture"
        );
        println!("{again}");
        torture(seed, seconds).await.with_context(|| format!("once more: {again}"))
    });
}
