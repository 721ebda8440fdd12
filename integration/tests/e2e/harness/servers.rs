//! Servers keep their address and their data over restarts and kills.

use tidegate_integration::mysql::{REPLICATION_PASSWORD, REPLICATION_USER};
use tidegate_integration::postgres::{TARGET_PASSWORD, TARGET_ROLE};
use tidegate_integration::{Servers, run};

#[test]
fn servers_survive_restart_and_kill_at_the_same_address() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("survivor").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").await?;
        fixture.target("CREATE TABLE public.t (id INT PRIMARY KEY); INSERT INTO public.t VALUES (1)").await?;

        servers.mysql.restart().await?;
        servers.postgres.restart().await?;
        fixture.source("INSERT INTO t VALUES (2)").await?;
        fixture.target("INSERT INTO t VALUES (2)").await?;

        servers.mysql.kill().await?;
        servers.postgres.kill().await?;
        assert!(fixture.source("SELECT 1").await.is_err(), "a killed server does not answer");
        servers.mysql.start().await?;
        servers.postgres.start().await?;
        assert_eq!(fixture.source_scalar("SELECT COUNT(*) FROM t").await?.as_deref(), Some("2"));
        assert_eq!(fixture.target_scalar("SELECT COUNT(*) FROM t").await?.as_deref(), Some("2"));

        servers.mysql.stop().await?;
        servers.mysql.start().await?;
        let set = servers.mysql.gtid_executed().await?;
        assert!(servers.mysql.gtid_subset(&set, &set).await?);
        assert!(!servers.mysql.gtid_subset(&set, "").await?, "transactions were logged: {set}");
        Ok(())
    });
}

#[test]
fn the_source_is_set_up_for_replication() {
    run(async {
        let servers = Servers::shared().await?;
        let mut session = servers.mysql.session_as(REPLICATION_USER, REPLICATION_PASSWORD, "").await?;
        let settings = session
            .rows("SELECT @@gtid_mode, @@binlog_row_metadata, @@binlog_format, @@binlog_row_image")
            .await?;
        let expected = ["ON", "FULL", "ROW", "FULL"].map(|text| Some(text.to_owned()));
        assert_eq!(settings, [expected.to_vec()]);
        session.exec("LOCK INSTANCE FOR BACKUP; UNLOCK INSTANCE; XA RECOVER CONVERT XID").await?;
        assert!(session.exec("CREATE DATABASE forbidden").await.is_err(), "the user only reads");
        Ok(())
    });
}

#[test]
fn the_target_role_owns_its_database_and_is_no_superuser() {
    run(async {
        let fixture = Servers::shared().await?.fixture("role").await?;
        let postgres = &fixture.servers.postgres;
        let session = postgres.session_as(TARGET_ROLE, TARGET_PASSWORD, &fixture.target).await?;
        session.exec("CREATE SCHEMA s; BEGIN; SET LOCAL session_replication_role = replica; COMMIT").await?;
        assert_eq!(session.scalar("SHOW is_superuser").await?.as_deref(), Some("off"));
        Ok(())
    });
}
