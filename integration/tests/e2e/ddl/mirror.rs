//! Changes that the target carries out itself, without a copy.

use super::*;

#[test]
fn tables_come_and_go() {
    follow_all(&[
        Scenario {
            name: "ddl_truncate",
            setup: "CREATE TABLE tr (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(10)); INSERT INTO tr (v) VALUES ('a'), ('b');
                    CREATE TABLE `select` (a INT, b INT); INSERT INTO `select` VALUES (1, 2), (1, 2)",
            changes: &[
                "INSERT INTO tr (v) VALUES ('c'); TRUNCATE TABLE tr; INSERT INTO tr (v) VALUES ('after')",
                "truncate`select`; INSERT INTO `select` VALUES (3, 4)",
                "UPDATE tr SET v = 'changed'; DELETE FROM `select` WHERE a = 3",
            ],
        },
        Scenario {
            name: "ddl_drop",
            setup: "CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY); CREATE TABLE kept (id INT PRIMARY KEY);
                    INSERT INTO a VALUES (1); INSERT INTO b VALUES (1); INSERT INTO kept VALUES (1)",
            changes: &[
                "INSERT INTO a VALUES (2); DROP TABLE a, b",
                "DROP TABLE IF EXISTS a, missing; INSERT INTO kept VALUES (2)",
                "CREATE TABLE a (id INT PRIMARY KEY, other VARCHAR(5)); INSERT INTO a VALUES (1, 'x')",
                "DROP TABLE a; CREATE TABLE a (k VARCHAR(5) PRIMARY KEY); INSERT INTO a VALUES ('y')",
            ],
        },
        Scenario {
            name: "ddl_create",
            setup: "CREATE TABLE kept (id INT PRIMARY KEY, v VARCHAR(5)); INSERT INTO kept VALUES (1, 'x')",
            changes: &[
                "CREATE TABLE l LIKE kept; INSERT INTO l VALUES (7, 'l')",
                "CREATE TABLE IF NOT EXISTS kept (id INT PRIMARY KEY); INSERT INTO kept VALUES (2, 'y')",
                "CREATE TABLE s AS SELECT * FROM kept; INSERT INTO s VALUES (3, 'z')",
                "CREATE TABLE p (PRIMARY KEY (id)) SELECT id, UPPER(v) AS u FROM kept; UPDATE p SET u = 'Z' WHERE id = 1",
                // The definition that a late reader finds is not the one that the first rows have.
                "CREATE TABLE young (id INT PRIMARY KEY); INSERT INTO young VALUES (1);
                 ALTER TABLE young ADD COLUMN more INT; INSERT INTO young VALUES (2, 3)",
                "CREATE TABLE brief (id INT PRIMARY KEY); INSERT INTO brief VALUES (1); DROP TABLE brief",
            ],
        },
    ]);
}

#[test]
fn a_database_is_dropped_with_its_tables() {
    run(async {
        let fixture = Servers::shared().await?.fixture("ddl_database").await?;
        let other = format!("{}_2", fixture.source);
        fixture.source(&format!("CREATE TABLE t (id INT PRIMARY KEY); CREATE DATABASE {other}; CREATE TABLE {other}.a (id INT PRIMARY KEY)")).await?;
        let include = vec![format!("{}.*", fixture.source), format!("{other}.*")];
        let tidegate = Tidegate::start(fixture.config().set("tables.include", include)).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source(&format!("INSERT INTO {other}.a VALUES (1); CREATE TABLE {other}.b (id INT PRIMARY KEY); DROP DATABASE {other}; INSERT INTO t VALUES (1)")).await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let left = fixture
            .target_scalar(&format!("SELECT count(*) FROM pg_tables WHERE schemaname = '{other}'"))
            .await?;
        ensure!(left.as_deref() == Some("0"), "{left:?} tables are left");
        // Its pattern matches nothing now, which a restart takes as it is.
        ensure!(tidegate.stop().await? == Some(0));
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(0) && check.stdout.contains("matches no table"), "{}", check.stdout);
        fixture.source(&format!("CREATE DATABASE {other}; CREATE TABLE {other}.a (id INT PRIMARY KEY, v INT); INSERT INTO {other}.a VALUES (1, 2)")).await?;
        tidegate.caught_up(&fixture).await?;
        let value = fixture.target_scalar(&format!("SELECT v FROM {other}.a")).await?;
        ensure!(value.as_deref() == Some("2"), "{value:?}");
        fixture.source(&format!("DROP DATABASE {other}")).await
    });
}

/// A foreign key of the target that references the table does not keep it from being emptied.
#[test]
fn a_referenced_table_is_emptied_by_delete() {
    run(async {
        let fixture = Servers::shared().await?.fixture("ddl_referenced").await?;
        fixture.source("CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2)").await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.target("CREATE TABLE public.c (id int REFERENCES p); ALTER TABLE public.c DISABLE TRIGGER ALL; INSERT INTO public.c VALUES (1)").await?;
        fixture.source("TRUNCATE TABLE p; INSERT INTO p VALUES (1)").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let statement = fixture.target_scalar("SELECT statement FROM tidegate.schema_change").await?;
        ensure!(statement.is_some_and(|sql| sql.starts_with("DELETE FROM")), "it was emptied otherwise");
        ensure!(copies(&tidegate)? == 0, "it was copied");
        Ok(())
    });
}
