//! Every transaction takes effect once, whatever dies in between.
//!
//! The ledger has no key and is only appended to: a transaction applied twice shows as a row too
//! many, one lost as a row too few. The counter shows both too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use tidegate_integration::mysql::MySqlSession;
use tidegate_integration::wait::{Look, until, until_ok};
use tidegate_integration::{CutProxy, Fault, Fixture, Servers, Tidegate, run};
use tokio::task::JoinHandle;

use crate::dice::Dice;

const SCHEMA: &str = "
    CREATE TABLE accounts (id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(40));
    INSERT INTO accounts WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
        SELECT i, 1000, NULL FROM n;
    CREATE TABLE moves (id BIGINT AUTO_INCREMENT PRIMARY KEY, src INT NOT NULL, dst INT NOT NULL, amount DECIMAL(10,2));
    CREATE TABLE ledger (writer INT NOT NULL, n BIGINT NOT NULL);
    CREATE TABLE counter (id INT PRIMARY KEY, n BIGINT NOT NULL);
    INSERT INTO counter VALUES (1, 0)";

const WRITERS: u64 = 3;

/// What the test does to the parties, in an order drawn from the seed.
#[derive(Debug, Clone, Copy)]
enum Blow {
    KillTidegate,
    RestartMySql,
    RestartPostgres,
    LoseCommitAnswer,
}

const BLOWS: [(Blow, usize); 4] = [
    (Blow::KillTidegate, 20),
    (Blow::RestartMySql, 2),
    (Blow::RestartPostgres, 2),
    (Blow::LoseCommitAnswer, 10),
];

/// Clients that move money until they are told to stop, through restarts of their server.
struct Load {
    stop: Arc<AtomicU64>,
    writers: Vec<JoinHandle<Result<u64>>>,
}

impl Load {
    fn start(fixture: &Fixture<'static>) -> Self {
        let stop = Arc::new(AtomicU64::new(0));
        let (mysql, db) = (&fixture.servers.mysql, fixture.source.clone());
        let writers = (0..WRITERS)
            .map(|writer| {
                let (stop, db) = (Arc::clone(&stop), db.clone());
                tokio::spawn(async move {
                    let connect = || mysql.session(&db);
                    write(writer, &stop, connect).await
                })
            })
            .collect();
        Self { stop, writers }
    }

    async fn stop(self) -> Result<u64> {
        self.stop.store(1, Ordering::Relaxed);
        let mut attempts = 0;
        for writer in self.writers {
            attempts += writer.await??;
        }
        Ok(attempts)
    }
}

async fn write<F>(writer: u64, stop: &AtomicU64, connect: impl Fn() -> F) -> Result<u64>
where
    F: Future<Output = Result<MySqlSession>>,
{
    let mut session = until_ok("MySQL", &connect).await?;
    let mut n = 0;
    while stop.load(Ordering::Relaxed) == 0 {
        n += 1;
        if session.exec(&transaction(writer, n)).await.is_err() {
            // A deadlock, or the server restarts. What was committed is the server's to say.
            session = until_ok("MySQL", &connect).await?;
        }
    }
    Ok(n)
}

fn transaction(writer: u64, n: u64) -> String {
    let (src, dst) = (1 + (n * 7 + writer) % 200, 1 + (n * 13 + writer * 5) % 200);
    format!(
        "BEGIN;
         UPDATE counter SET n = n + 1 WHERE id = 1;
         INSERT INTO ledger VALUES ({writer}, {n});
         INSERT INTO moves (src, dst, amount) VALUES ({src}, {dst}, {n} / 3);
         UPDATE accounts SET balance = balance - 1, note = 'w{writer} #{n}' WHERE id = {src};
         UPDATE accounts SET balance = balance + 1 WHERE id = {dst};
         DELETE FROM moves WHERE id < {n} - 50 AND id % 7 = {writer};
         COMMIT"
    )
}

/// Waits until the target's counter has moved on by a number drawn by the dice: a moment that no
/// clock decides.
async fn some_progress(fixture: &Fixture<'_>, dice: &mut Dice) -> Result<()> {
    let read = || async {
        let n = fixture.target_scalar("SELECT n FROM counter WHERE id = 1").await?;
        Ok(n.context("the counter is not there yet")?.parse::<u64>()?)
    };
    let goal = until_ok("the target's counter", read).await? + 1 + dice.below(60);
    until(format!("the target's counter to reach {goal}"), || async {
        Ok(match read().await {
            Ok(n) if n >= goal => Look::Done(()),
            seen => Look::NotYet(format!("{seen:?}")),
        })
    })
    .await
}

async fn strike(blow: Blow, fixture: &Fixture<'_>, tidegate: &Tidegate, proxy: &CutProxy) -> Result<()> {
    match blow {
        Blow::KillTidegate => {
            tidegate.kill().await?;
            tidegate.launch(&[]).await
        }
        Blow::RestartMySql => fixture.servers.mysql.restart().await,
        Blow::RestartPostgres => fixture.servers.postgres.restart().await,
        Blow::LoseCommitAnswer => {
            let before = proxy.fired();
            proxy.arm_on(Fault::LoseCommitAnswer, 0, "tidegate.checkpoint");
            proxy.wait_fired(before + 1).await
        }
    }
}

#[test]
fn through_kills_restarts_and_lost_answers() {
    run(async {
        let servers: &'static Servers = Box::leak(Box::new(Servers::own(&[], &[]).await?));
        let fixture = servers.fixture("once").await?;
        fixture.source(SCHEMA).await?;
        let proxy = CutProxy::postgres(servers.postgres.addr()).await?;
        let config = fixture
            .config()
            .target_at(proxy.addr())
            .set("retry.initial_backoff", "50ms")
            .set("retry.max_backoff", "500ms")
            .set("retry.max_drops", 1000);
        let tidegate = Tidegate::start(config).await?;
        let load = Load::start(&fixture);
        let mut dice = Dice::from_environment()?;
        let blows = BLOWS.iter().flat_map(|&(blow, times)| std::iter::repeat_n(blow, times)).collect();
        for blow in dice.shuffled(blows) {
            some_progress(&fixture, &mut dice).await?;
            strike(blow, &fixture, &tidegate, &proxy).await.with_context(|| format!("{blow:?}"))?;
        }
        some_progress(&fixture, &mut dice).await?;
        let attempts = load.stop().await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let counted = fixture.target_scalar("SELECT n FROM counter WHERE id = 1").await?;
        let listed = fixture.target_scalar("SELECT count(*) FROM ledger").await?;
        ensure!(counted == listed, "counter {counted:?}, ledger {listed:?}");
        let counted: u64 = counted.context("a counter")?.parse()?;
        ensure!((2000..=attempts).contains(&counted), "{counted} transactions of {attempts} attempts");
        ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");
        servers.mysql.stop().await?;
        servers.postgres.stop().await
    });
}

#[test]
fn of_two_instances_one_writes() {
    run(async {
        let fixture = Servers::shared().await?.fixture("two").await?;
        fixture.source(SCHEMA).await?;
        let config = fixture.config();
        let (first, second) = (Tidegate::prepare(config.clone())?, Tidegate::prepare(config)?);
        tokio::try_join!(first.launch(&[]), second.launch(&[]))?;
        let mut session = fixture.source_session().await?;
        for n in 1..=100 {
            session.exec(&transaction(1, n)).await?;
        }
        let (writer, standby) = until("one instance that streams and one that stands by", || async {
            let (one, two) = (first.status().await?, second.status().await?);
            Ok(match (one["standby"].as_bool(), two["standby"].as_bool()) {
                (Some(false), Some(true)) if one["state"] == "streaming" => Look::Done((&first, &second)),
                (Some(true), Some(false)) if two["state"] == "streaming" => Look::Done((&second, &first)),
                _ => Look::NotYet(format!("{one} {two}")),
            })
        })
        .await?;
        ensure!(standby.get("/ready").await?.status == 200, "a standby is ready");
        writer.caught_up(&fixture).await?;
        writer.kill().await?;
        for n in 101..=200 {
            session.exec(&transaction(1, n)).await?;
        }
        standby.wait_state("streaming").await?;
        standby.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let Some(counted) = fixture.target_scalar("SELECT n FROM counter WHERE id = 1").await? else {
            bail!("no counter")
        };
        ensure!(counted == "200", "{counted} of 200 transactions");
        Ok(())
    });
}
