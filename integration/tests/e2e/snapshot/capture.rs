//! A capture is exact under load, brief, and never left behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::FutureExt;
use tidegate::halt::{Failure, Reason};
use tidegate::source::capture::{Disturbance, Terms, capture};
use tidegate::source::connect::session;
use tidegate_integration::{Fixture, Servers, run};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{count, gtid_executed, server_uuid, source_config, table};

const TERMS: Terms = Terms {
    views: 3,
    lock_wait_timeout: Duration::from_secs(1),
    lock_deadline: Duration::from_secs(30),
    block_ddl: true,
    keep_lock: false,
};

/// Writers that insert one row a transaction until told to stop: as many rows as GTIDs.
struct Load {
    stop: Arc<AtomicBool>,
    writers: JoinSet<Result<()>>,
}

impl Load {
    async fn start(fixture: &Fixture<'_>, writers: usize) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = Self { stop: Arc::clone(&stop), writers: JoinSet::new() };
        for _ in 0..writers {
            let mut session = fixture.source_session().await?;
            let stop = Arc::clone(&stop);
            load.writers.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    session.exec("INSERT INTO t (v) VALUES (1)").await?;
                }
                session.close().await
            });
        }
        Ok(load)
    }

    async fn stop(mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.writers.join_next().await {
            ended??;
        }
        Ok(())
    }
}

const CREATE: &str = "CREATE TABLE t (id BIGINT PRIMARY KEY AUTO_INCREMENT, v INT NOT NULL)";

#[test]
fn views_show_exactly_the_transactions_of_the_set() {
    run(async {
        let servers = Servers::own(&["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2"], &[]).await?;
        let fixture = servers.fixture("exact").await?;
        fixture.source(CREATE).await?;
        let (config, uuid, t) = (source_config(&fixture), server_uuid(&fixture).await?, table(&fixture, "t"));
        let base = gtid_executed(&fixture).await?.len();
        let load = Load::start(&fixture, 8).await?;
        for _ in 0..40 {
            let mut captured = capture(&config, &uuid, &t, &TERMS, &|_| ()).await?;
            for view in &mut captured.views {
                assert_eq!(count(view.session(), &t).await?, captured.set.len() - base);
            }
            // What a view shows does not change after the lock is gone.
            let later = count(captured.views[0].session(), &t).await?;
            assert_eq!(later, captured.set.len() - base);
        }
        // The same check finds out a capture that does without the lock.
        let mut wrong = 0;
        for _ in 0..40 {
            let mut view = session(&config).await?;
            view.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY").await?;
            let set = gtid_executed(&fixture).await?;
            wrong += usize::from(count(&mut view, &t).await? != set.len() - base);
        }
        ensure!(wrong > 0, "forty captures without a lock were exact: the check sees nothing");
        load.stop().await
    });
}

#[test]
fn a_lock_that_cannot_be_had_halts_and_leaves_nothing_waiting() {
    run(async {
        let fixture = Servers::shared().await?.fixture("locked").await?;
        fixture.source(CREATE).await?;
        let (config, uuid, t) = (source_config(&fixture), server_uuid(&fixture).await?, table(&fixture, "t"));
        let mut blocker = fixture.source_session().await?;
        blocker.exec("BEGIN; INSERT INTO t (v) VALUES (1)").await?;

        // The deadline comes between two attempts, and then in the middle of a long one.
        for lock_wait_timeout in [Duration::from_secs(1), Duration::from_secs(60)] {
            let terms = Terms { lock_wait_timeout, lock_deadline: Duration::from_secs(3), ..TERMS };
            let started = Instant::now();
            let failure =
                capture(&config, &uuid, &t, &terms, &|_| ()).await.err().context("it was captured")?;
            let Failure::Halt(halt) = failure else { panic!("not a halt: {failure}") };
            assert_eq!(halt.reason, Reason::SnapshotLockUnavailable);
            assert_eq!(halt.table, Some(format!("{}.t", fixture.source)));
            // Not at the end of its attempt.
            assert!(started.elapsed() < Duration::from_secs(60));
            let pending = format!(
                "SELECT COUNT(*) FROM performance_schema.metadata_locks \
                 WHERE OBJECT_SCHEMA = '{}' AND LOCK_STATUS = 'PENDING'",
                fixture.source
            );
            assert_eq!(fixture.source_scalar(&pending).await?.as_deref(), Some("0"));
        }

        blocker.exec("COMMIT").await?;
        capture(&config, &uuid, &t, &TERMS, &|_| ()).await?;
        Ok(())
    });
}

#[test]
fn a_prepared_xa_transaction_on_the_table_keeps_the_lock_away() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("prepared").await?;
        fixture.source(&format!("{CREATE}; CREATE TABLE other (id INT PRIMARY KEY)")).await?;
        let (config, uuid, t) = (source_config(&fixture), server_uuid(&fixture).await?, table(&fixture, "t"));
        fixture.source("XA START 'o'; INSERT INTO other VALUES (1); XA END 'o'; XA PREPARE 'o'").await?;
        let captured = capture(&config, &uuid, &t, &TERMS, &|_| ()).await?;
        assert_eq!(
            captured.prepared_xa.as_ref().map(BTreeSet::len),
            Some(1),
            "one that touches another table"
        );
        drop(captured);

        fixture.source("XA START 't'; INSERT INTO t (v) VALUES (1); XA END 't'; XA PREPARE 't'").await?;
        let terms = Terms { lock_deadline: Duration::from_secs(2), ..TERMS };
        assert!(capture(&config, &uuid, &t, &terms, &|_| ()).await.is_err());
        fixture.source("XA COMMIT 't'; XA ROLLBACK 'o'").await?;
        let mut captured = capture(&config, &uuid, &t, &TERMS, &|_| ()).await?;
        assert_eq!(count(captured.views[0].session(), &t).await?, 1);
        assert_eq!(captured.prepared_xa, Some(BTreeSet::new()));
        Ok(())
    });
}

#[test]
fn ddl_is_held_off_until_the_guard_goes() {
    run(async {
        // The backup lock concerns the whole server.
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("guarded").await?;
        fixture.source(CREATE).await?;
        let (config, uuid, t) = (source_config(&fixture), server_uuid(&fixture).await?, table(&fixture, "t"));
        let mut captured = capture(&config, &uuid, &t, &TERMS, &|_| ()).await?;
        assert!(captured.guard.holds_ddl_off());
        for view in &mut captured.views {
            view.pin(&t).await?;
        }
        let alter = "SET lock_wait_timeout = 1; ALTER TABLE t ADD COLUMN w INT";
        assert!(fixture.source(alter).await.is_err(), "DDL got through");
        fixture.source("SET lock_wait_timeout = 1; INSERT INTO t (v) VALUES (1)").await?;

        // What the backup lock does not hold off waits for the readers, and is seen.
        let quiet = Instant::now() + Duration::from_secs(60);
        let look = tokio::time::timeout(Duration::from_secs(2), captured.guard.watch(&t, quiet)).await;
        assert!(look.is_err(), "nobody waits, and {look:?}");
        let mut waiter = fixture.source_session().await?;
        let waiting = tokio::spawn(async move {
            waiter.exec("SET lock_wait_timeout = 5").await?;
            waiter.exec("LOCK TABLES t WRITE; UNLOCK TABLES").await
        });
        assert_eq!(captured.guard.watch(&t, quiet).await?, Disturbance::StatementWaiting);
        for view in &mut captured.views {
            view.unpin().await?;
        }
        waiting.await??;
        // The views have outlived their metadata locks.
        assert_eq!(count(captured.views[0].session(), &t).await?, 0);

        assert_eq!(captured.guard.watch(&t, Instant::now()).await?, Disturbance::DdlAllowed);
        captured.views[0].unpin().await?;
        fixture.source("ALTER TABLE t ADD COLUMN w INT").await?;
        let read = count(captured.views[0].session(), &t).await;
        assert!(read.is_err_and(|error| format!("{error:?}").contains("1412")), "the table was changed");
        Ok(())
    });
}

#[test]
fn without_the_privilege_ddl_goes_through() {
    run(async {
        let fixture = Servers::shared().await?.fixture("unguarded").await?;
        fixture.source(CREATE).await?;
        let user = fixture.source.clone();
        fixture
            .source(&format!(
                "CREATE USER '{user}'@'%' IDENTIFIED BY 'pw';
                 GRANT SELECT, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{user}'@'%'"
            ))
            .await?;
        let mut config = source_config(&fixture);
        config.user = user;
        config.password = Some(tidegate::config::Secret::new("pw".to_owned()));
        let (uuid, t) = (server_uuid(&fixture).await?, table(&fixture, "t"));
        let captured = capture(&config, &uuid, &t, &TERMS, &|_| ()).await?;
        assert!(!captured.guard.holds_ddl_off());
        assert_eq!(captured.prepared_xa, None);
        fixture.source("SET lock_wait_timeout = 1; ALTER TABLE t ADD COLUMN w INT").await
    });
}

#[test]
fn a_lock_that_is_kept_outlasts_its_timeout_and_ends_with_its_session() {
    run(async {
        let fixture = Servers::shared().await?.fixture("kept").await?;
        fixture.source(CREATE).await?;
        let (config, uuid, t) = (source_config(&fixture), server_uuid(&fixture).await?, table(&fixture, "t"));
        let terms = Terms { views: 1, block_ddl: false, keep_lock: true, ..TERMS };
        let insert = "SET lock_wait_timeout = 1; INSERT INTO t (v) VALUES (1)";

        let lock = capture(&config, &uuid, &t, &terms, &|_| ()).await?.lock.context("the lock was let go")?;
        let (done, is_done) = oneshot::channel::<()>();
        let keeper = tokio::spawn(lock.keep_until(is_done.map(drop)));
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert!(fixture.source(insert).await.is_err(), "the table is locked");
        drop(done);
        keeper.await??;
        fixture.source(insert).await?;

        let lock = capture(&config, &uuid, &t, &terms, &|_| ()).await?.lock.context("the lock was let go")?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(lock.keep_until(async {}).await.is_err(), "a silent session was not ended");
        fixture.source(insert).await
    });
}

#[test]
fn another_server_is_not_captured() {
    run(async {
        let fixture = Servers::shared().await?.fixture("stranger").await?;
        fixture.source(CREATE).await?;
        let other = "00000000-0000-0000-0000-000000000001".parse()?;
        let failure = capture(&source_config(&fixture), &other, &table(&fixture, "t"), &TERMS, &|_| ()).await;
        assert!(matches!(failure, Err(Failure::Retry { .. })));
        Ok(())
    });
}
