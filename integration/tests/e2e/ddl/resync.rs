//! Changes whose rows only the source can tell: the table is copied again, the others go on.

use super::*;

#[test]
fn rows_that_no_event_tells_of() {
    follow_all(&[
        Scenario {
            name: "ddl_partitions",
            setup: "CREATE TABLE pt (id INT, created DATE NOT NULL, v INT, PRIMARY KEY (id, created)) PARTITION BY RANGE (YEAR(created))
                        (PARTITION p2022 VALUES LESS THAN (2023), PARTITION p2023 VALUES LESS THAN (2024), PARTITION pmax VALUES LESS THAN MAXVALUE);
                    INSERT INTO pt VALUES (1, '2022-05-05', 1), (2, '2023-05-05', 2), (3, '2024-05-05', 3), (4, '2022-06-06', 4);
                    CREATE TABLE ph (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4; INSERT INTO ph VALUES (1, 1), (2, 2), (5, 5), (8, 8);
                    CREATE TABLE plain (id INT PRIMARY KEY, v INT); INSERT INTO plain VALUES (4, 44), (12, 12)",
            changes: &[
                "ALTER TABLE pt DROP PARTITION p2022; INSERT INTO pt VALUES (5, '2022-07-07', 5)",
                "ALTER TABLE pt TRUNCATE PARTITION pmax",
                "ALTER TABLE pt REORGANIZE PARTITION pmax INTO (PARTITION p2024 VALUES LESS THAN (2025), PARTITION pmax VALUES LESS THAN MAXVALUE);
                 INSERT INTO pt VALUES (6, '2024-08-08', 6)",
                "INSERT INTO plain VALUES (16, 16); ALTER TABLE ph EXCHANGE PARTITION p0 WITH TABLE plain; UPDATE plain SET v = v + 1; UPDATE ph SET v = v + 1",
                "ALTER TABLE ph TRUNCATE PARTITION p1; ALTER TABLE ph COALESCE PARTITION 1; INSERT INTO ph VALUES (9, 9)",
            ],
        },
        Scenario {
            name: "ddl_lossy",
            setup: "CREATE TABLE lm (id INT PRIMARY KEY, d DECIMAL(10,4), t DATETIME(6), s VARCHAR(20), f DOUBLE);
                    INSERT INTO lm VALUES (1, 1.2350, '2024-01-01 00:00:00.500000', '42', 2.5), (2, -1.2350, '2024-12-31 23:59:59.999999', '-7', 3.5);
                    CREATE TABLE er (id INT PRIMARY KEY, k ENUM('low','high') NOT NULL, s SET('x','y')); INSERT INTO er VALUES (1, 'low', 'x'), (2, 'high', 'x,y');
                    CREATE TABLE dz (id INT PRIMARY KEY, a DATETIME NULL, b TIMESTAMP NULL); INSERT INTO dz VALUES (1, '2024-01-01 12:00:00', '2024-01-01 12:00:00')",
            changes: &[
                "ALTER TABLE lm MODIFY d DECIMAL(10,2), MODIFY t DATETIME(0), MODIFY s INT, MODIFY f INT; INSERT INTO lm VALUES (4, 0.01, '2025-01-01 00:00:00', 5, 6)",
                "INSERT INTO er VALUES (3, 'high', 'y'); ALTER TABLE er MODIFY k ENUM('mid','high','low') NOT NULL, MODIFY s SET('z','y','x');
                 INSERT INTO er VALUES (4, 'low', 'x'), (5, 'mid', 'z'); UPDATE er SET k = 'high' WHERE id = 1",
                "ALTER TABLE er MODIFY k VARCHAR(20) NOT NULL; INSERT INTO er VALUES (6, 'XXL', 'z')",
                "SET time_zone = '+02:00'; ALTER TABLE dz MODIFY a TIMESTAMP NULL, MODIFY b DATETIME NULL; INSERT INTO dz VALUES (2, '2024-06-01 12:00:00', '2024-06-01 12:00:00')",
                "ALTER TABLE lm ADD COLUMN n INT AUTO_INCREMENT UNIQUE FIRST; INSERT INTO lm (id) VALUES (9)",
                "ALTER TABLE er DROP PRIMARY KEY; UPDATE er SET k = 'none' WHERE id = 2; ALTER TABLE er ADD COLUMN id2 INT NOT NULL DEFAULT 5, ADD PRIMARY KEY (id, id2); DELETE FROM er WHERE id = 3",
            ],
        },
        Scenario {
            name: "ddl_keyless",
            setup: "CREATE TABLE k (a INT NOT NULL, b INT); INSERT INTO k VALUES (1, 1), (2, 2);
                    CREATE TABLE m (id INT PRIMARY KEY, v INT) ENGINE = MyISAM; INSERT INTO m VALUES (1, 1)",
            changes: &[
                "CREATE UNIQUE INDEX ka ON k (a); UPDATE k SET b = 7 WHERE a = 1",
                "DROP INDEX ka ON k; INSERT INTO k VALUES (1, 7); DELETE FROM k WHERE b = 7 LIMIT 1",
                "ALTER TABLE m ADD COLUMN w INT; INSERT INTO m VALUES (2, 2, 2); TRUNCATE TABLE m; INSERT INTO m VALUES (3, 3, 3)",
            ],
        },
    ]);
}

/// Other tables do not miss or repeat a transaction while one is copied again and again.
#[test]
fn the_others_lose_nothing() {
    run(async {
        let fixture = Servers::shared().await?.fixture("ddl_others").await?;
        fixture
            .source(
                "CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(10,4)); INSERT INTO t VALUES (1, 1.5);
                        CREATE TABLE ledger (n INT NOT NULL)",
            )
            .await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        let mut session = fixture.source_session().await?;
        for n in 0..12 {
            let scale = 1 + n % 4;
            session.exec(&format!("INSERT INTO ledger VALUES ({n}); ALTER TABLE t MODIFY d DECIMAL(10,{scale}); INSERT INTO ledger VALUES ({n}); INSERT INTO t VALUES ({n} + 2, 0.1)")).await?;
            if n % 3 == 1 {
                tidegate.kill().await?;
                tidegate.launch(&[]).await?;
            }
        }
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        ensure!(copies(&tidegate)? > 0, "nothing was copied");
        let doubled = fixture
            .target_scalar("SELECT count(*) FROM (SELECT n FROM ledger GROUP BY n HAVING count(*) <> 2) x")
            .await?;
        ensure!(doubled.as_deref() == Some("0"), "{doubled:?}");
        Ok(())
    });
}

/// A session that logs statements has a temporary table in the place of one of ours, since before the
/// stream: what it does to it reads as if it did it to ours.
#[test]
fn of_two_tables_of_one_name() {
    run(async {
        let fixture = Servers::shared().await?.fixture("ddl_hidden").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)").await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        let mut session = fixture.source_session().await?;
        session
            .exec("SET SESSION binlog_format = 'STATEMENT'; CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v INT)")
            .await?;
        tidegate.caught_up(&fixture).await?;
        ensure!(tidegate.stop().await? == Some(0));
        for statement in ["TRUNCATE TABLE t", "ALTER TABLE t DROP COLUMN v", "CREATE INDEX i ON t (id)"] {
            session.exec(statement).await?;
        }
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        session.exec("DROP TEMPORARY TABLE t").await?;
        fixture.source("UPDATE t SET v = 2").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}
