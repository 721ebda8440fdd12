//! The proxy fails where it is told to, and the server's view of the transaction is the promised one.

use std::time::Duration;

use anyhow::Result;
use tidegate_integration::mysql::{REPLICATION_PASSWORD, REPLICATION_USER};
use tidegate_integration::postgres::{TARGET_PASSWORD, TARGET_ROLE};
use tidegate_integration::wait::{Look, until};
use tidegate_integration::{CutProxy, Fault, Fixture, MySqlSession, PgSession, Servers, run};

struct Scene {
    fixture: Fixture<'static>,
    proxy: CutProxy,
}

impl Scene {
    async fn set(name: &str) -> Result<Self> {
        let fixture = Servers::shared().await?.fixture(name).await?;
        let proxy = CutProxy::postgres(fixture.servers.postgres.addr()).await?;
        let scene = Self { fixture, proxy };
        scene.client().await?.exec("CREATE TABLE t (id INT PRIMARY KEY)").await?;
        Ok(scene)
    }

    async fn client(&self) -> Result<PgSession> {
        PgSession::connect(self.proxy.addr(), TARGET_ROLE, TARGET_PASSWORD, &self.fixture.target).await
    }

    async fn count(&self) -> Result<Option<String>> {
        self.fixture.target_scalar("SELECT COUNT(*) FROM t").await
    }

    async fn wait_count(&self, expected: &str) -> Result<()> {
        until(format!("{expected} rows"), || async {
            let count = self.count().await?;
            Ok(if count.as_deref() == Some(expected) {
                Look::Done(())
            } else {
                Look::NotYet(format!("{count:?}"))
            })
        })
        .await
    }
}

#[test]
fn a_lost_answer_leaves_the_transaction_committed() {
    run(async {
        let scene = Scene::set("lost_answer").await?;
        let client = scene.client().await?;
        scene.proxy.arm(Fault::LoseCommitAnswer);
        client.exec("BEGIN; INSERT INTO t VALUES (1)").await?;
        assert!(client.exec("COMMIT").await.is_err(), "the client must not hear of its commit");
        assert_eq!(scene.proxy.fired(), 1);
        assert_eq!(scene.count().await?.as_deref(), Some("1"));
        scene.client().await?.exec("BEGIN; INSERT INTO t VALUES (2); COMMIT").await?;
        assert_eq!(scene.count().await?.as_deref(), Some("2"), "a fault strikes once");
        Ok(())
    });
}

#[test]
fn a_prepared_commit_is_a_commit() {
    run(async {
        let scene = Scene::set("prepared").await?;
        let client = scene.client().await?;
        let commit = client.client().prepare("COMMIT").await?;
        scene.proxy.arm_on(Fault::LoseCommitAnswer, 1, "INSERT INTO t");
        for id in ["1", "2"] {
            client.exec(&format!("BEGIN; INSERT INTO t VALUES ({id})")).await?;
            assert_eq!(
                client.client().execute(&commit, &[]).await.is_err(),
                id == "2",
                "the second is struck"
            );
        }
        assert_eq!(scene.count().await?.as_deref(), Some("2"));
        Ok(())
    });
}

#[test]
fn a_lost_commit_is_rolled_back() {
    run(async {
        let scene = Scene::set("lost_commit").await?;
        let client = scene.client().await?;
        scene.proxy.arm_on(Fault::LoseCommit, 0, "INSERT INTO t");
        scene.client().await?.exec("BEGIN; COMMIT").await?;
        assert_eq!(scene.proxy.fired(), 0, "another connection's commit is not meant");
        client.exec("BEGIN; INSERT INTO t VALUES (1)").await?;
        assert!(client.exec("COMMIT").await.is_err());
        scene.proxy.wait_fired(1).await?;
        scene.fixture.target("LOCK TABLE t IN EXCLUSIVE MODE").await.expect_err("LOCK needs a transaction");
        scene.fixture.target("BEGIN; LOCK TABLE t IN EXCLUSIVE MODE; COMMIT").await?;
        assert_eq!(scene.count().await?.as_deref(), Some("0"));
        Ok(())
    });
}

#[test]
fn a_delayed_commit_arrives_when_it_is_released() {
    run(async {
        let scene = Scene::set("delayed").await?;
        let client = scene.client().await?;
        scene.proxy.arm(Fault::DelayCommit);
        client.exec("BEGIN; INSERT INTO t VALUES (1)").await?;
        assert!(client.exec("COMMIT").await.is_err());
        scene.proxy.wait_fired(1).await?;
        assert_eq!(scene.count().await?.as_deref(), Some("0"), "not yet");
        scene.proxy.release();
        scene.wait_count("1").await
    });
}

#[test]
fn a_cut_a_block_and_a_refusal_do_what_they_say() {
    run(async {
        let scene = Scene::set("cut").await?;
        let client = scene.client().await?;
        scene.proxy.cut();
        assert!(client.exec("SELECT 1").await.is_err(), "the connection is gone");

        let client = scene.client().await?;
        scene.proxy.block();
        let silence =
            tokio::time::timeout(Duration::from_millis(200), client.exec("INSERT INTO t VALUES (1)"));
        assert!(silence.await.is_err(), "nothing is answered");
        scene.proxy.unblock();
        client.exec("INSERT INTO t VALUES (2)").await?;
        assert_eq!(scene.count().await?.as_deref(), Some("2"), "what was held back has arrived");

        scene.proxy.refuse();
        assert!(client.exec("SELECT 1").await.is_err());
        assert!(scene.client().await.is_err());
        scene.proxy.admit();
        scene.client().await?.exec("SELECT 1").await
    });
}

#[test]
fn an_opaque_proxy_stands_before_mysql() {
    run(async {
        let servers = Servers::shared().await?;
        let proxy = CutProxy::opaque(servers.mysql.addr()).await?;
        let mut client =
            MySqlSession::connect(proxy.addr(), REPLICATION_USER, REPLICATION_PASSWORD, "").await?;
        client.exec("SELECT 1").await?;
        proxy.cut();
        assert!(client.exec("SELECT 1").await.is_err());
        Ok(())
    });
}
