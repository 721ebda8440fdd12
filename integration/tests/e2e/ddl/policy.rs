//! What the operator decides, and what stands in the way on the target.

use super::*;

async fn started(
    name: &str,
    setup: &str,
    config: impl Fn(Config) -> Config,
) -> Result<(Fixture<'static>, Tidegate)> {
    let fixture = Servers::shared().await?.fixture(name).await?;
    fixture.source(setup).await?;
    let tidegate = Tidegate::start(config(fixture.config())).await?;
    tidegate.wait_state("streaming").await?;
    Ok((fixture, tidegate))
}

#[test]
fn resync_copies_what_could_be_mirrored() {
    run(async {
        let setup = "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1); CREATE TABLE u (id INT PRIMARY KEY); CREATE TABLE w (id INT PRIMARY KEY, a INT, b INT); INSERT INTO w VALUES (1, 2, 3)";
        let (fixture, tidegate) =
            started("ddl_resync", setup, |config| config.set("ddl.policy", "resync")).await?;
        fixture.source("TRUNCATE TABLE t; INSERT INTO t VALUES (2)").await?;
        tidegate.caught_up(&fixture).await?;
        ensure!(copies(&tidegate)? == 1, "TRUNCATE was mirrored");
        fixture.source("RENAME TABLE t TO v; DROP TABLE u").await?;
        tidegate.caught_up(&fixture).await?;
        ensure!(copies(&tidegate)? == 1, "a name was copied");
        // The copy leaves no column behind that the source has no more.
        fixture.source("ALTER TABLE w DROP COLUMN a; INSERT INTO w VALUES (2, 4)").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

#[test]
fn halt_halts_and_creates() {
    run(async {
        let (fixture, tidegate) = started("ddl_halt", "CREATE TABLE t (id INT PRIMARY KEY)", |config| {
            config.set("ddl.policy", "halt")
        })
        .await?;
        fixture.source("CREATE TABLE u (id INT PRIMARY KEY); INSERT INTO u VALUES (1)").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        fixture.source("TRUNCATE TABLE u").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(
            halt["reason"] == "ddl_unsupported" && halt["table"] == format!("{}.u", fixture.source),
            "{halt}"
        );
        let (gtid, stored) = (halt["gtid"].as_str().unwrap_or_default(), fixture.stored_gtid_set().await?);
        ensure!(!fixture.servers.mysql.gtid_subset(gtid, &stored).await?, "the position moved");
        Ok(())
    });
}

#[test]
fn what_is_listed_is_not_followed() {
    run(async {
        let setup = "CREATE TABLE keep_a (id INT PRIMARY KEY); CREATE TABLE keep_b (id INT PRIMARY KEY); CREATE TABLE c (id INT PRIMARY KEY);
                     INSERT INTO keep_a VALUES (1); INSERT INTO keep_b VALUES (1); INSERT INTO c VALUES (1);
                     CREATE TABLE keep_p (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20));
                     INSERT INTO keep_p VALUES (1), (11)";
        let ignore = ["drop_table *.keep_*", "truncate_table *.keep_*", "drop_partition *.keep_*"]
            .map(str::to_owned)
            .to_vec();
        let (fixture, tidegate) = started("ddl_ignore", setup, |config| {
            config.set("ddl.policy", "ignore-listed").set("ddl.ignore", ignore.clone())
        })
        .await?;
        fixture.source("TRUNCATE TABLE keep_a; INSERT INTO keep_a VALUES (2); DROP TABLE keep_b; TRUNCATE TABLE c; ALTER TABLE keep_p DROP PARTITION p0; INSERT INTO keep_p VALUES (12)").await?;
        tidegate.caught_up(&fixture).await?;
        for (table, wanted) in [("keep_a", "2"), ("keep_b", "1"), ("c", "0"), ("keep_p", "3")] {
            let found = fixture.target_scalar(&format!("SELECT count(*) FROM {table}")).await?;
            ensure!(found.as_deref() == Some(wanted), "{table}: {found:?}");
        }
        // Its rows are the operator's now: a new table of that name does not take them over.
        fixture.source("CREATE TABLE keep_b (id INT PRIMARY KEY)").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_drift", "{halt}");
        fixture.target("TRUNCATE keep_b").await?;
        tidegate.resume().await?;
        tidegate.caught_up(&fixture).await
    });
}

/// A change that copies a table halts where that would lose rows which were kept.
#[test]
fn rows_that_were_kept_outlive_later_changes() {
    run(async {
        let range = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))";
        let setup = format!(
            "CREATE TABLE keep_n (id INT PRIMARY KEY, v INT) {range}; INSERT INTO keep_n VALUES (1, 1), (11, 1)"
        );
        let ignore = vec!["drop_partition *.keep_*".to_owned()];
        let native = |config: Config| {
            let config = config.set("ddl.policy", "ignore-listed").set("ddl.ignore", ignore.clone());
            config.set("schema.partitions", "native")
        };
        let (fixture, tidegate) = started("ddl_kept", &setup, native).await?;
        fixture
            .source("ALTER TABLE keep_n DROP PARTITION p0; INSERT INTO keep_n VALUES (12, 1); ALTER TABLE keep_n COMMENT 'x'")
            .await?;
        tidegate.caught_up(&fixture).await?;
        fixture
            .source("ALTER TABLE keep_n ADD PARTITION (PARTITION p2 VALUES LESS THAN (30)); INSERT INTO keep_n VALUES (21, 1)")
            .await?;
        let halts = || async {
            let halt = tidegate.wait_halt().await?;
            ensure!(
                halt["reason"] == "rows_kept" && halt["table"] == format!("{}.keep_n", fixture.source),
                "{halt}"
            );
            let rows =
                fixture.target_scalar("SELECT string_agg(id::text, ',' ORDER BY id) FROM keep_n").await?;
            ensure!(rows.as_deref() == Some("1,11,12"), "{rows:?}");
            Ok(())
        };
        halts().await?;
        tidegate.kill().await?;
        tidegate.launch(&[]).await?;
        halts().await?;
        ensure!(tidegate.stop().await? == Some(3), "a stop while halted ends with 3");

        // What the runbook says: excluded, its rows put aside, and included again.
        let excluded = native(fixture.config()).set("tables.exclude", vec!["*.keep_n".to_owned()]);
        let without = Tidegate::start(excluded).await?;
        without.wait_state("streaming").await?;
        without.stop().await?;
        fixture.target("ALTER TABLE keep_n RENAME TO kept").await?;
        let again = Tidegate::start(native(fixture.config())).await?;
        again.wait_state("streaming").await?;
        again.caught_up(&fixture).await?;
        let ids =
            "SELECT (SELECT string_agg(id::text, ',' ORDER BY id) FROM keep_n), (SELECT count(*) FROM kept)";
        let rows = fixture.target_rows(ids).await?;
        ensure!(rows == [[Some("11,12,21".to_owned()), Some("3".to_owned())]], "{rows:?}");
        Ok(())
    });
}

/// A long query on the target is not queued behind: others read on while the change waits.
#[test]
fn a_long_query_is_waited_for() {
    run(async {
        let (fixture, tidegate) =
            started("ddl_lock", "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)", |config| {
                config.set("ddl.lock_wait_timeout", "50ms").set("ddl.lock_deadline", "2s")
            })
            .await?;
        let reader = fixture.target_session().await?;
        reader.exec("BEGIN; SELECT * FROM t").await?;
        fixture.source("TRUNCATE TABLE t").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "ddl_lock_unavailable" && !halt["gtid"].is_null(), "{halt}");
        let rows = fixture.target_scalar("SELECT count(*) FROM t").await?;
        ensure!(rows.as_deref() == Some("1"), "{rows:?}");
        reader.exec("COMMIT").await?;
        tidegate.resume().await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

/// A copy that starts anew asks for the table as a change does, and a table that it creates anew keeps
/// what was granted on it.
#[test]
fn a_table_that_is_created_anew_is_waited_for_and_keeps_its_privileges() {
    run(async {
        let (fixture, tidegate) = started(
            "ddl_anew",
            "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, gone INT); INSERT INTO t VALUES (1, 10, 0)",
            |config| config.set("ddl.lock_wait_timeout", "50ms").set("ddl.lock_deadline", "2s"),
        )
        .await?;
        fixture
            .target(
                "GRANT SELECT ON t TO PUBLIC; GRANT INSERT ON t TO pg_monitor WITH GRANT OPTION; \
                 GRANT UPDATE (a, gone) ON t TO pg_monitor; CREATE INDEX of_the_dba ON t (a); \
                 ALTER TABLE t ADD CONSTRAINT by_the_dba CHECK (a > 0)",
            )
            .await?;
        let reader = fixture.target_session().await?;
        reader.exec("BEGIN; SELECT * FROM t").await?;
        fixture
            .source("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (a), DROP COLUMN gone; INSERT INTO t VALUES (2, 20)")
            .await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(
            halt["reason"] == "ddl_lock_unavailable" && halt["table"] == format!("{}.t", fixture.source),
            "{halt}"
        );
        let rows = fixture.target_scalar("SELECT count(*) FROM t").await?;
        ensure!(rows.as_deref() == Some("1"), "{rows:?}");
        reader.exec("COMMIT").await?;
        tidegate.resume().await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let granted = fixture
            .target_scalar(
                "SELECT string_agg(line, '; ' ORDER BY line COLLATE \"C\") FROM (
                    SELECT concat_ws(' ', grantee, privilege_type, is_grantable) AS line FROM information_schema.table_privileges
                    WHERE table_schema = current_schema() AND table_name = 't' AND grantee IN ('PUBLIC', 'pg_monitor')
                    UNION ALL SELECT concat_ws(' ', grantee, privilege_type, column_name) FROM information_schema.column_privileges
                    WHERE table_schema = current_schema() AND table_name = 't' AND grantee = 'pg_monitor' AND privilege_type = 'UPDATE') x",
            )
            .await?;
        let expected = "PUBLIC SELECT NO; pg_monitor INSERT YES; pg_monitor UPDATE a";
        ensure!(granted.as_deref() == Some(expected), "{granted:?}");
        let log = tidegate.log()?;
        ensure!(log.contains("without what others had added: CHECK by_the_dba, index of_the_dba"), "{log}");
        Ok(())
    });
}

/// What keeps a change from being carried out is named, whatever it is, and nothing else.
#[test]
fn what_depends_on_a_table_is_named() {
    run(async {
        let (fixture, tidegate) = started(
            "ddl_view",
            "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE u (id INT PRIMARY KEY, v INT, d DECIMAL(9,4), CHECK (v < 9), KEY (v))",
            |config| config,
        )
        .await?;
        fixture
            .target(
                "CREATE VIEW public.\"the seen\" AS SELECT v FROM t; CREATE TABLE public.theirs (t int REFERENCES t);
                 CREATE MATERIALIZED VIEW public.kept AS SELECT v, d FROM u",
            )
            .await?;
        for (change, table, named, mended) in [
            (
                "DROP TABLE t",
                "t",
                "constraint theirs_t_fkey on table public.theirs, view public.\"the seen\"",
                "DROP VIEW public.\"the seen\"; DROP TABLE public.theirs",
            ),
            (
                "ALTER TABLE u MODIFY v BIGINT",
                "u",
                "materialized view public.kept",
                "DROP MATERIALIZED VIEW public.kept; CREATE VIEW public.kept AS SELECT d FROM u",
            ),
            ("ALTER TABLE u MODIFY d DECIMAL(9,2)", "u", "view public.kept", "DROP VIEW public.kept"),
        ] {
            fixture.source(change).await?;
            let halt = tidegate.wait_halt().await?;
            ensure!(
                halt["reason"] == "target_dependency"
                    && halt["table"] == format!("{}.{table}", fixture.source),
                "{halt}"
            );
            let detail = halt["detail"].as_str().unwrap_or_default();
            ensure!(detail.ends_with(&format!("on it depend {named}")), "{halt}");
            fixture.target(mended).await?;
            tidegate.resume().await?;
            tidegate.caught_up(&fixture).await?;
        }
        let log = tidegate.log()?;
        ensure!(log.contains("schema change: ") && !log.contains("why=\"\""), "{log}");
        fixture.assert_same().await
    });
}

/// A table that was there before is its maker's: it is written, never dropped or rebuilt.
#[test]
fn a_table_of_the_operators_is_kept() {
    run(async {
        let fixture = Servers::shared().await?.fixture("ddl_adopted").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1); CREATE TABLE u (id INT PRIMARY KEY); CREATE TABLE w (id INT PRIMARY KEY)").await?;
        let schema = &fixture.source;
        fixture
            .target(&format!(
                "CREATE SCHEMA {schema} AUTHORIZATION tidegate; CREATE TABLE {schema}.t (id int PRIMARY KEY, v int); CREATE TABLE {schema}.u (id int PRIMARY KEY);
                 GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO tidegate"
            ))
            .await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture
            .source("INSERT INTO u VALUES (1); DROP TABLE u; TRUNCATE TABLE t; INSERT INTO t VALUES (2, 2)")
            .await?;
        tidegate.caught_up(&fixture).await?;
        let rows = fixture.target_scalar("SELECT count(*) FROM u").await?;
        ensure!(rows.as_deref() == Some("1"), "the operator's table was dropped or emptied: {rows:?}");
        fixture.source("ALTER TABLE t MODIFY v DECIMAL(5,2)").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_drift" && halt["table"] == format!("{schema}.t"), "{halt}");
        fixture.target("ALTER TABLE t ALTER v TYPE numeric(5,2)").await?;
        tidegate.resume().await?;
        fixture.source("INSERT INTO t VALUES (3, 3.25)").await?;
        tidegate.caught_up(&fixture).await?;
        let rows = fixture.target_scalar("SELECT string_agg(v::text, ' ' ORDER BY id) FROM t").await?;
        ensure!(rows.as_deref() == Some("2.00 3.25"), "{rows:?}");
        Ok(())
    });
}
