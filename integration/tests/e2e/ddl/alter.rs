//! ALTER TABLE that the target carries out, and its neighbours that it can't.

use super::*;

#[test]
fn columns_are_added_changed_and_dropped() {
    follow_all(&[
        Scenario {
            name: "ddl_add",
            setup: "CREATE TABLE ac (id INT PRIMARY KEY, name VARCHAR(20)); INSERT INTO ac VALUES (1, 'one');
                    CREATE TABLE an (id INT PRIMARY KEY); INSERT INTO an VALUES (1), (2)",
            changes: &[
                "INSERT INTO ac VALUES (2, 'two'); ALTER TABLE ac ADD COLUMN c1 INT DEFAULT 13, ADD COLUMN c2 VARCHAR(10) NOT NULL DEFAULT 'x' AFTER id,
                 ADD COLUMN c3 INT NOT NULL, ADD COLUMN c4 VARCHAR(5) NOT NULL, ADD COLUMN c5 ENUM('b', 'a') NOT NULL, ADD COLUMN c6 INT FIRST;
                 INSERT INTO ac (id, name, c1, c3, c4, c5) VALUES (3, 'three', 26, 5, 'w', 'a')",
                "ALTER TABLE ac ADD COLUMN d DECIMAL(8,3) NOT NULL DEFAULT 1.5, ADD COLUMN t TIME(3) DEFAULT '-12:30:00.25', ADD COLUMN b VARBINARY(4) DEFAULT x'00ff5c',
                 ADD COLUMN f DOUBLE DEFAULT 0.1, ADD COLUMN q VARCHAR(9) DEFAULT 'it''s \\\\', ADD COLUMN s SET('x','y') DEFAULT 'x,y'; UPDATE ac SET d = 2 WHERE id = 2",
                "SET time_zone = '+02:00', timestamp = 1700000000; ALTER TABLE an ADD COLUMN created TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
                 ADD COLUMN created_dt DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP; SET timestamp = 1700000100; INSERT INTO an (id) VALUES (3)",
                "ALTER TABLE an ADD COLUMN e INT DEFAULT (1 + 1); INSERT INTO an (id) VALUES (4)",
            ],
        },
        Scenario {
            name: "ddl_change",
            setup: "CREATE TABLE da (id INT PRIMARY KEY, a INT, b VARCHAR(20), c INT); INSERT INTO da VALUES (1, 10, 'b1', 100);
                    CREATE TABLE ra (id INT PRIMARY KEY, ref_id INT, note VARCHAR(20)); INSERT INTO ra VALUES (1, 5, 'first');
                    CREATE TABLE nn (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(10) NULL, c INT DEFAULT 1); INSERT INTO nn VALUES (1, 1, NULL, 1), (2, 2, 'x', 2)",
            changes: &[
                "INSERT INTO da VALUES (2, 20, 'b2', 200); ALTER TABLE da DROP COLUMN a, ADD COLUMN d INT AFTER c; INSERT INTO da VALUES (3, 'b3', 300, 3000);
                 ALTER TABLE da DROP COLUMN b; ALTER TABLE da ADD COLUMN b INT DEFAULT 7 FIRST; INSERT INTO da (id, b, c, d) VALUES (4, 44, 400, 4000); UPDATE da SET c = 201 WHERE id = 2",
                "ALTER TABLE ra ADD COLUMN kind VARCHAR(20) DEFAULT 'thing' AFTER target_id, CHANGE COLUMN ref_id target_id INT;
                 INSERT INTO ra VALUES (2, 6, 'person', 'second'); UPDATE ra SET target_id = 50 WHERE id = 1",
                "ALTER TABLE ra RENAME COLUMN kind TO note, RENAME COLUMN note TO kind; INSERT INTO ra VALUES (3, 7, 'k', 'n')",
                "ALTER TABLE nn MODIFY a INT NULL; INSERT INTO nn VALUES (3, NULL, 'y', 3); UPDATE nn SET b = '' WHERE b IS NULL;
                 ALTER TABLE nn MODIFY b VARCHAR(10) NOT NULL DEFAULT 'dd', ALTER COLUMN c SET DEFAULT 7; INSERT INTO nn (id) VALUES (4)",
                "ALTER TABLE nn MODIFY b VARCHAR(30), MODIFY c BIGINT; UPDATE nn SET b = 'longer than ten chars', a = NULL, c = 5000000000 WHERE id = 1;
                 ALTER TABLE nn DROP PRIMARY KEY, ADD COLUMN id2 INT NOT NULL DEFAULT 5, ADD PRIMARY KEY (id, id2);
                 INSERT INTO nn (id, id2, a, b) VALUES (1, 6, 9, NULL); DELETE FROM nn WHERE id = 1 AND id2 = 5",
                "/* c */ alter/**/table/**/`da` COMMENT 'x'; CREATE INDEX dc ON da (c); DROP INDEX dc ON da; ALTER TABLE da ADD CONSTRAINT q CHECK (c >= 0) NOT ENFORCED; INSERT INTO da VALUES (1, 9, -1, 1)",
            ],
        },
    ]);
}

#[test]
fn a_mirrored_alter_copies_nothing() {
    run(async {
        let fixture = Servers::shared().await?.fixture("ddl_alter_once").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(5) NOT NULL, k ENUM('a','b')); INSERT INTO t VALUES (1, 'x', 'a')").await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        for change in [
            "ALTER TABLE t ADD COLUMN c INT NOT NULL DEFAULT 3 FIRST",
            "ALTER TABLE t MODIFY id BIGINT NOT NULL, MODIFY v VARCHAR(50) NULL",
            "ALTER TABLE t MODIFY k ENUM('a','b','c')",
            "ALTER TABLE t ADD COLUMN at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)",
            "ALTER TABLE t RENAME COLUMN v TO w, DROP COLUMN c",
            "ALTER TABLE t ADD INDEX (w), COMMENT 'commented', ALGORITHM = INPLACE",
        ] {
            fixture.source(change).await?;
            tidegate.caught_up(&fixture).await.with_context(|| change.to_owned())?;
        }
        fixture
            .source("INSERT INTO t (id, w, k) VALUES (5000000000, 'longer than five', 'c'), (2, NULL, 'b')")
            .await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        ensure!(copies(&tidegate)? == 0, "a change was not mirrored");
        ensure!(recorded(&fixture).await?.len() == 6, "a change was not recorded");
        Ok(())
    });
}
