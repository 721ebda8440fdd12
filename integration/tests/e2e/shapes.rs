//! Every shape in which a server logs a transaction, followed by one pipeline and compared row by row.

use anyhow::{Context, Result, ensure};
use tidegate_integration::{Fixture, Servers, Tidegate, run};

const TABLES: &str = "
    CREATE TABLE a (id INT PRIMARY KEY, v INT, note VARCHAR(40));
    CREATE TABLE b (id INT PRIMARY KEY, v INT, note VARCHAR(40));
    CREATE TABLE ci (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT);
    CREATE TABLE two_keys (id INT PRIMARY KEY, u INT, w INT, UNIQUE KEY (u), UNIQUE KEY (w));
    CREATE TABLE parent (id INT PRIMARY KEY, v INT);
    CREATE TABLE child (id INT PRIMARY KEY, p INT, q INT,
        FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
        FOREIGN KEY (q) REFERENCES parent (id) ON DELETE SET NULL ON UPDATE CASCADE);
    CREATE TABLE grandchild (id INT PRIMARY KEY, c INT, p INT,
        FOREIGN KEY (c) REFERENCES child (id) ON DELETE CASCADE,
        FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE audit (n INT AUTO_INCREMENT PRIMARY KEY, id INT, what VARCHAR(10));
    CREATE TABLE audited (id INT PRIMARY KEY, v INT);
    CREATE TRIGGER audited_insert AFTER INSERT ON audited FOR EACH ROW INSERT INTO audit (id, what) VALUES (NEW.id, 'in');
    CREATE TRIGGER audited_update AFTER UPDATE ON audited FOR EACH ROW INSERT INTO audit (id, what) VALUES (NEW.id, 'up');
    CREATE TABLE parts (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4;
    CREATE TABLE isam (id INT PRIMARY KEY, v INT) ENGINE = MyISAM;
    CREATE TABLE csv (id INT NOT NULL, v INT NOT NULL) ENGINE = CSV;
    CREATE TABLE mem (id INT PRIMARY KEY, v INT) ENGINE = MEMORY;
    CREATE TABLE keyless (x INT, y VARCHAR(20));
    CREATE TABLE loaded (id INT PRIMARY KEY, v INT, note VARCHAR(40));
    CREATE TABLE docs (id INT PRIMARY KEY, doc JSON, body LONGTEXT);
    INSERT INTO a VALUES (1, 1, 'one'), (2, 2, 'two'), (3, 3, 'three');
    INSERT INTO b SELECT * FROM a;
    INSERT INTO parent VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5);
    INSERT INTO child VALUES (10, 1, 2), (11, 1, 1), (12, 2, 1), (13, 3, NULL), (14, 4, 5);
    INSERT INTO grandchild VALUES (100, 10, 1), (101, 11, 2), (102, 12, 1), (103, 13, 3), (104, 14, 4);
    INSERT INTO parts VALUES (1, 1), (2, 2), (3, 3)";

/// What the sessions do, each in one of its own. An error of the last statement is meant where the
/// group begins with `!`.
const ROWS: &[&str] = &[
    // Savepoints, and what is rolled back to them.
    "BEGIN; INSERT INTO a VALUES (4, 4, 'kept'); SAVEPOINT s; INSERT INTO a VALUES (5, 5, 'gone'); UPDATE b SET v = 99;
     ROLLBACK TO s; SAVEPOINT `t u`; DELETE FROM b WHERE id = 3; RELEASE SAVEPOINT `t u`; COMMIT",
    "BEGIN; DELETE FROM a; ROLLBACK",
    // A statement that fails within a transaction takes its rows along, and no others.
    "BEGIN; INSERT INTO a VALUES (6, 6, 'kept'); INSERT IGNORE INTO a VALUES (7, 7, 'x'), (1, 0, 'no'); COMMIT",
    "!INSERT INTO a VALUES (8, 8, 'no'), (1, 0, 'no')",
    // One statement, two tables; no change at all; the key itself.
    "UPDATE a JOIN b USING (id) SET a.v = a.v + 10, b.v = b.v + 20; DELETE a, b FROM a JOIN b USING (id) WHERE a.id = 2",
    "UPDATE a SET v = v; INSERT IGNORE INTO a VALUES (1, 5, 'x'); INSERT INTO a VALUES (1, 0, '') ON DUPLICATE KEY UPDATE v = v",
    "INSERT INTO a VALUES (1, 0, ''), (9, 9, 'new') ON DUPLICATE KEY UPDATE v = a.v + 100",
    "UPDATE a SET id = id + 1000 ORDER BY id DESC; UPDATE a SET id = id - 1 ORDER BY id",
    "BEGIN; UPDATE b SET id = -1 WHERE id = 1; INSERT INTO b VALUES (1, 8, 'again'); UPDATE b SET id = 77 WHERE id = -1; COMMIT",
    // REPLACE: an update, a delete and an update, and on the parent of a foreign key a delete and an insert.
    "INSERT INTO ci VALUES ('Straße', 1), ('b', 2); REPLACE INTO ci VALUES ('STRASSE', 3), ('B', 4), ('c', 5)",
    "INSERT INTO two_keys VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3); REPLACE INTO two_keys VALUES (3, 1, 2);
     UPDATE two_keys SET u = u + 10, w = w + 10",
    "BEGIN; UPDATE two_keys SET u = 500; INSERT INTO two_keys VALUES (50, 13, 13); UPDATE two_keys SET u = u + 1 ORDER BY u DESC; COMMIT",
    "REPLACE INTO parent VALUES (5, 50)",
    // Cascades, where a child may be logged before its parent, and twice.
    "UPDATE parent SET id = 30 WHERE id = 3; UPDATE parent SET id = 20 WHERE id = 2",
    "DELETE FROM parent WHERE id = 1",
    "BEGIN; DELETE FROM parent WHERE id = 30; INSERT INTO parent VALUES (30, 0); INSERT INTO child VALUES (13, 30, NULL); COMMIT",
    "SET FOREIGN_KEY_CHECKS = 0; DELETE FROM parent WHERE id = 20; INSERT INTO child VALUES (99, 12345, NULL)",
    // A trigger's rows, one by one between those of its table.
    "INSERT INTO audited VALUES (1, 1), (2, 2), (3, 3); UPDATE audited SET v = v + 1",
    // From one partition to another.
    "UPDATE parts SET id = id + 1 ORDER BY id DESC; DELETE FROM parts WHERE id = 2",
    // Engines that do not roll back: rows of a statement that failed, rows of a transaction that was rolled back.
    "INSERT INTO isam VALUES (1, 1), (2, 2)",
    "!INSERT INTO isam VALUES (3, 3), (4, 4), (1, 0), (5, 5)",
    "BEGIN; INSERT INTO isam VALUES (6, 6); INSERT INTO a VALUES (20, 20, 'gone'); ROLLBACK",
    "INSERT INTO csv VALUES (1, 1), (2, 2); DELETE FROM csv WHERE id = 1",
    "INSERT INTO mem VALUES (1, 1), (2, 2); UPDATE mem SET v = 5 WHERE id = 1",
    // Temporary tables are nobody's business, even where they hide one of ours.
    "CREATE TEMPORARY TABLE b (id INT PRIMARY KEY, gone INT); INSERT INTO b VALUES (1, 1); ALTER TABLE b ADD COLUMN x INT;
     BEGIN; INSERT INTO a SELECT id + 40, gone, 'temporary' FROM b; COMMIT; TRUNCATE b; DROP TEMPORARY TABLE b; DELETE FROM b WHERE id = 77",
    // Many rows events under one map, and more than one statement can hold in one of them.
    "INSERT INTO docs WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
       SELECT i, JSON_OBJECT('i', i, 'list', JSON_ARRAY(i, NULL, '\"x\"')), REPEAT(CHAR(97 + i % 26), 500) FROM n;
     UPDATE docs SET doc = JSON_SET(doc, '$.i', 'changed'), body = CONCAT(body, '!') WHERE id % 3 = 0",
    "INSERT INTO docs VALUES (1000, NULL, REPEAT('x', 3000000)); UPDATE docs SET doc = '[]' WHERE id = 1000",
    "INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (NULL, NULL); DELETE FROM keyless WHERE x = 1 LIMIT 1; UPDATE keyless SET y = 'z'",
    // The text of each statement before its rows, and compressed.
    "SET SESSION binlog_rows_query_log_events = ON; BEGIN; INSERT INTO a VALUES (50, 50, 'told'); SAVEPOINT s; UPDATE b SET v = v + 1; COMMIT;
     SET SESSION binlog_transaction_compression = ON; BEGIN; INSERT INTO a VALUES (51, 51, 'packed'); SAVEPOINT s; DELETE FROM b WHERE v = 0;
     UPDATE docs SET body = REPEAT('y', 400) WHERE id < 200; COMMIT; DELETE FROM docs WHERE id = 1; INSERT INTO isam VALUES (60, 60)",
    "SELECT 70, 70, 'out' UNION SELECT 71, NULL, 'out' INTO OUTFILE '/tmp/rows.txt'; LOAD DATA INFILE '/tmp/rows.txt' INTO TABLE loaded;
     LOAD DATA INFILE '/tmp/rows.txt' REPLACE INTO TABLE loaded (id, v, @n) SET note = CONCAT(@n, '!')",
    // No rows, and none for us.
    "SET gtid_next = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:5'; BEGIN; COMMIT; SET gtid_next = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:3';
     INSERT INTO a VALUES (80, 80, 'late'); SET gtid_next = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:4'; COMMIT; SET gtid_next = 'AUTOMATIC'",
    "SET gtid_next = 'AUTOMATIC:tag'; INSERT INTO a VALUES (81, 81, 'tagged'); SET gtid_next = 'AUTOMATIC:other'; DELETE FROM a WHERE id = 80;
     SET gtid_next = 'AUTOMATIC'",
    "INSERT INTO mysql.func VALUES ('nothing', 0, 'nothing.so', 'function'); DELETE FROM mysql.func WHERE name = 'nothing'",
    "FLUSH BINARY LOGS; BEGIN; INSERT INTO a VALUES (82, 82, 'next file'); COMMIT; FLUSH BINARY LOGS",
    "SET GLOBAL binlog_checksum = NONE; INSERT INTO a VALUES (83, 83, 'unchecked'); SET GLOBAL binlog_checksum = CRC32; INSERT INTO a VALUES (84, 84, 'checked')",
    // One phase of XA, with what it may hold.
    "XA START 'x', 'y', 9; INSERT INTO a VALUES (85, 85, 'xa'); SAVEPOINT s; DELETE FROM a WHERE id = 82; XA END 'x', 'y', 9; XA COMMIT 'x', 'y', 9 ONE PHASE;
     XA START 'x'; DELETE FROM a; XA END 'x'; XA ROLLBACK 'x'",
];

/// Statements that commit by themselves, in spellings that a server leaves as they are.
const STATEMENTS: &[&str] = &[
    "/* c */ CREATE /*!50000 TABLE */ s1 (id INT PRIMARY KEY) -- end\n; INSERT INTO s1 VALUES (1)",
    "/*!80000 CREATE TABLE s2 (id INT PRIMARY KEY, `a``b` INT) */; INSERT INTO s2 VALUES (1, 1); alter/**/table/**/s2\n add\tcolumn(`drop table a` int, z INT);
     INSERT INTO s2 VALUES (2, 2, 2, 2)",
    "SET sql_mode = 'ANSI_QUOTES'; CREATE TABLE \"s 3\" (\"id\" INT PRIMARY KEY, \"x\"\"y\" VARCHAR(10) DEFAULT 'it''s'); INSERT INTO \"s 3\" (id) VALUES (1);
     ALTER TABLE \"s 3\" RENAME COLUMN \"x\"\"y\" TO \"y\"; DROP TABLE IF EXISTS \"q\"\"x\"",
    "SET NAMES latin1; CREATE TABLE s4 (id INT PRIMARY KEY, `caf\u{e9}` INT); INSERT INTO s4 VALUES (1, 1)",
    "USE mysql; ALTER TABLE @DB . s1 ADD COLUMN v INT DEFAULT 7; INSERT INTO @DB.s1 VALUES (2, 2); TRUNCATE @DB.s4",
    "BEGIN; INSERT INTO a VALUES (200, 200, 'committed by what follows'); CREATE TABLE s5 LIKE a; INSERT INTO s5 SELECT * FROM a; ROLLBACK",
    "CREATE TABLE s6 (PRIMARY KEY (id)) AS SELECT id, v FROM a; CREATE TABLE s7 AS SELECT * FROM a WHERE FALSE; INSERT INTO s7 VALUES (1, 1, 'one')",
    "CREATE TABLE IF NOT EXISTS a (other INT); DROP TABLE IF EXISTS nothing, nowhere; CREATE VIEW view1 AS SELECT * FROM a; RENAME TABLE view1 TO view2; DROP VIEW view2",
    "CREATE TABLE s8 (id INT) ENGINE = MyISAM; CREATE TABLE s9 (id INT PRIMARY KEY); DROP TABLE s5, s8, s9",
    "CREATE EVENT ev ON SCHEDULE EVERY 1 YEAR DO DELETE FROM a; DROP EVENT ev; CREATE PROCEDURE p() BEGIN DELETE FROM a WHERE id = 200; ALTER TABLE s6 ADD COLUMN p INT; END;
     CALL p(); DROP PROCEDURE p; CREATE USER u@localhost IDENTIFIED BY 'x'; DROP USER u@localhost",
    "ANALYZE TABLE a; OPTIMIZE TABLE a; FLUSH TABLES a; FLUSH PRIVILEGES; REPAIR TABLE isam; SET sql_generate_invisible_primary_key = ON;
     CREATE TABLE s10 (v INT); INSERT INTO s10 VALUES (1), (2); DELETE FROM s10 WHERE v = 1",
    "RENAME TABLE a TO a_old, b TO a, a_old TO b; INSERT INTO a VALUES (300, 300, 'in b'); RENAME TABLE a TO x1, b TO a, x1 TO b; INSERT INTO a VALUES (301, 301, 'in a')",
];

async fn act(fixture: &Fixture<'_>, groups: &[&str]) -> Result<()> {
    for group in groups {
        let (group, fails) = group.strip_prefix('!').map_or((*group, false), |group| (group, true));
        let done = fixture.source(&group.replace("@DB", &fixture.source)).await;
        if fails {
            ensure!(done.is_err(), "was to fail: {group}");
        } else {
            done.with_context(|| group.to_owned())?;
        }
    }
    Ok(())
}

async fn settled(tidegate: &Tidegate, fixture: &Fixture<'_>) -> Result<()> {
    tidegate.caught_up(fixture).await?;
    fixture.assert_same().await
}

#[test]
fn of_every_engine_are_followed_through_restarts() {
    run(async {
        let servers = Servers::own(&["--secure-file-priv=/tmp"], &[]).await?;
        let fixture = servers.fixture("shapes").await?;
        fixture.source(TABLES).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        act(&fixture, ROWS).await?;
        settled(&tidegate, &fixture).await?;
        act(&fixture, STATEMENTS).await?;
        settled(&tidegate, &fixture).await?;

        // The rows of a MEMORY table are gone with the server, and the log tells of it when somebody looks.
        servers.mysql.restart().await?;
        fixture.source("INSERT INTO a VALUES (400, 400, 'after a restart')").await?;
        let left = fixture.source_scalar("SELECT COUNT(*) FROM mem").await?;
        ensure!(left.as_deref() == Some("0"), "a MEMORY table kept {left:?} rows");
        settled(&tidegate, &fixture).await?;
        fixture.source("INSERT INTO mem VALUES (9, 9)").await?;

        // All of it once more, in one go.
        tidegate.kill().await?;
        fixture.source("DELETE FROM ci; DELETE FROM two_keys; DELETE FROM audited; DELETE FROM docs; DELETE FROM isam; DELETE FROM parts").await?;
        fixture.source("INSERT INTO parts VALUES (1, 1), (2, 2); UPDATE a SET id = id + 100000").await?;
        act(&fixture, &ROWS[..10]).await?;
        tidegate.launch(&[]).await?;
        settled(&tidegate, &fixture).await
    });
}

/// Where InnoDB carries out foreign keys by itself the children's rows are in no event.
#[test]
fn a_cascade_that_is_not_logged_is_refused_where_it_is_made() {
    run(async {
        let servers = Servers::own(&["--innodb-native-foreign-keys=ON"], &[]).await?;
        let fixture = servers.fixture("native").await?;
        fixture
            .source(
                "CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id));
                 INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (10, 1)",
            )
            .await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("UPDATE p SET id = 3 WHERE id = 2; DELETE FROM p WHERE id = 3").await?;
        settled(&tidegate, &fixture).await?;
        let before = fixture.stored_gtid_set().await?;
        fixture
            .source(
                "CREATE TABLE d (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
                 INSERT INTO d VALUES (1, 1); DELETE FROM c; DELETE FROM p",
            )
            .await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "cascade_not_logged", "halted otherwise: {halt}");
        ensure!(halt["table"] == format!("{}.d", fixture.source), "no table: {halt}");
        ensure!(fixture.stored_gtid_set().await? == before, "the position moved past the halt");
        let rows = fixture.target_scalar("SELECT count(*) FROM p").await?;
        ensure!(rows.as_deref() == Some("1"), "{rows:?} rows");
        Ok(())
    });
}
