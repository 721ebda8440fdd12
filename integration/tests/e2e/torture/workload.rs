//! What the clients do: every statement follows from the seed, the client and the step.

use std::fmt::Write as _;

/// A small generator: the same seed gives the same numbers.
#[derive(Debug, Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64, stream: u64) -> Self {
        Self(
            seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(stream.wrapping_mul(0xD1B5_4A32_D192_ED03)),
        )
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(super) fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        let at = usize::try_from(self.below(items.len() as u64)).unwrap_or_default();
        items[at]
    }
}

/// Tables whose definitions change. Their columns `id` and `v` stay.
pub(super) const CHANGING: u64 = 3;

pub(super) const SCHEMA: &str = "
    CREATE TABLE acc (id INT PRIMARY KEY, v BIGINT NOT NULL, note VARCHAR(60));
    INSERT INTO acc WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150) SELECT i, 0, NULL FROM n;
    CREATE TABLE pairs (a INT, b VARCHAR(20), v INT, PRIMARY KEY (b, a));
    CREATE TABLE uq (id INT PRIMARY KEY, u INT, w INT, UNIQUE KEY (u), KEY (w));
    CREATE TABLE names (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT);
    CREATE TABLE keyless (x INT, y VARCHAR(20));
    CREATE TABLE ledger (writer INT NOT NULL, n BIGINT NOT NULL);
    CREATE TABLE parent (id INT PRIMARY KEY, v INT);
    CREATE TABLE child (id INT PRIMARY KEY, p INT, q INT,
        FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
        FOREIGN KEY (q) REFERENCES parent (id) ON DELETE SET NULL ON UPDATE CASCADE);
    CREATE TABLE grandchild (id INT PRIMARY KEY, c INT, p INT,
        FOREIGN KEY (c) REFERENCES child (id) ON DELETE CASCADE,
        FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE audited (id INT PRIMARY KEY, v INT);
    CREATE TABLE audit (n BIGINT AUTO_INCREMENT PRIMARY KEY, id INT, what VARCHAR(10));
    CREATE TRIGGER audited_insert AFTER INSERT ON audited FOR EACH ROW INSERT INTO audit (id, what) VALUES (NEW.id, 'in');
    CREATE TRIGGER audited_delete AFTER DELETE ON audited FOR EACH ROW INSERT INTO audit (id, what) VALUES (OLD.id, 'out');
    CREATE TABLE docs (id INT PRIMARY KEY, doc JSON, body LONGTEXT, at DATETIME(3), amount DECIMAL(12,4));
    CREATE TABLE parts (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 4;
    CREATE TABLE loaded (id INT PRIMARY KEY, v BIGINT, note VARCHAR(60));
    CREATE TABLE d0 (id INT PRIMARY KEY, v INT); CREATE TABLE d1 LIKE d0; CREATE TABLE d2 LIKE d0;
    INSERT INTO d0 VALUES (1, 1), (2, 2); INSERT INTO d1 VALUES (1, 10), (3, 30)";

/// What a new session of a client is set to.
pub(super) fn session(dice: &mut Dice) -> String {
    let mut settings = "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 2".to_owned();
    if dice.below(3) == 0 {
        settings += ", binlog_transaction_compression = ON";
    }
    if dice.below(4) == 0 {
        settings += ", binlog_rows_query_log_events = ON";
    }
    if dice.below(4) == 0 {
        settings += ", gtid_next = 'AUTOMATIC:torture'";
    }
    settings
}

/// A transaction in one phase. `other` is a database that is not replicated.
pub(super) fn transaction(client: u64, step: u64, other: &str, dice: &mut Dice) -> String {
    let count = 1 + dice.below(4);
    let mut text = format!("BEGIN; INSERT INTO ledger VALUES ({client}, {step})");
    for _ in 0..count {
        let _infallible = write!(text, "; {}", change(step, other, dice));
        if dice.below(6) == 0 {
            let undone = change(step, other, dice);
            let _infallible = write!(text, "; SAVEPOINT s; {undone}; ROLLBACK TO s");
        }
    }
    text + if dice.below(10) == 0 { "; ROLLBACK" } else { "; COMMIT" }
}

/// Changes in an XA transaction, up to its prepare or in one phase.
pub(super) fn xa(xid: &str, step: u64, other: &str, one_phase: bool, dice: &mut Dice) -> String {
    let end = if one_phase { format!("XA COMMIT {xid} ONE PHASE") } else { format!("XA PREPARE {xid}") };
    let body = match dice.below(5) {
        // No row, and none for us.
        0 => "SELECT 1".to_owned(),
        1 => format!("INSERT INTO {other}.elsewhere (v) VALUES ({step})"),
        _ => format!("{}; SAVEPOINT s; {}", change(step, other, dice), change(step, other, dice)),
    };
    format!("XA START {xid}; {body}; XA END {xid}; {end}")
}

/// Spelled in every way that an XID can be.
pub(super) fn xid(client: u64, step: u64, dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => format!("'c{client}-{step}'"),
        1 => format!("'c{client}','{step}',{}", dice.below(1 << 32)),
        2 => format!("X'00ff{client:02x}{step:08x}',X'5c27',4294967295"),
        _ => format!("'','c{client}-{step}',0"),
    }
}

/// One statement, or some that belong together.
fn change(step: u64, other: &str, dice: &mut Dice) -> String {
    let (i, j, n) = (1 + dice.below(150), 1 + dice.below(150), dice.below(1000));
    let (few, d) = (1 + dice.below(12), dice.below(CHANGING));
    match dice.below(30) {
        0 => format!("UPDATE acc SET v = v + {n}, note = 'step {step}' WHERE id = {i}"),
        1 => format!(
            "UPDATE acc SET id = id + 1000 WHERE id = {i} OR id = {j}; UPDATE acc SET id = id - 1000 WHERE id > 1000 ORDER BY id"
        ),
        2 => format!(
            "DELETE FROM acc WHERE id BETWEEN {i} AND {i} + 2; INSERT IGNORE INTO acc VALUES ({i}, {n}, 'again')"
        ),
        3 => format!("INSERT INTO acc VALUES ({i}, {n}, 'in') ON DUPLICATE KEY UPDATE v = acc.v + 1"),
        4 => format!(
            "UPDATE acc x JOIN pairs y ON x.id = y.a SET x.v = x.v + 1, y.v = y.v + {n} WHERE x.id < {i}"
        ),
        5 => format!(
            "DELETE x, y FROM acc x JOIN pairs y ON x.id = y.a WHERE x.id = {i}; REPLACE INTO acc VALUES ({i}, 0, NULL)"
        ),
        6 => format!("REPLACE INTO pairs VALUES ({i}, 'b{few}', {n}), ({j}, 'B{few}', {n})"),
        7 => format!(
            "DELETE FROM pairs WHERE b = 'b{few}' LIMIT 3; UPDATE pairs SET b = 'moved' WHERE a = {i}"
        ),
        8 => format!("REPLACE INTO uq VALUES ({few}, {few} + {}, {n})", dice.below(4)),
        9 => format!("UPDATE uq SET u = u + 1 ORDER BY u DESC; DELETE FROM uq WHERE id = {few}"),
        10 => {
            format!("UPDATE uq SET u = NULL WHERE id = {few}; INSERT IGNORE INTO uq VALUES ({few}, {few}, 0)")
        }
        11 => format!("REPLACE INTO names VALUES ('{}{few}', {n})", dice.pick(&["Key", "KEY", "kéy", "key"])),
        12 => format!(
            "INSERT INTO keyless VALUES ({few}, 'y'), ({few}, 'y'), (NULL, NULL); DELETE FROM keyless WHERE x = {few} LIMIT 1"
        ),
        13 => format!(
            "UPDATE keyless SET y = 'z{n}' WHERE x = {few} LIMIT 2; DELETE FROM keyless WHERE x IS NULL LIMIT 1"
        ),
        14 => format!(
            "INSERT IGNORE INTO parent VALUES ({few}, {n}); INSERT IGNORE INTO child VALUES ({i}, {few}, {few}), ({j}, {few}, NULL)"
        ),
        15 => format!(
            "INSERT IGNORE INTO grandchild SELECT {j}, id, p FROM child LIMIT 1; UPDATE parent SET v = {n} WHERE id = {few}"
        ),
        16 => format!("DELETE FROM parent WHERE id = {few}"),
        17 => format!(
            "UPDATE parent SET id = id + 100 WHERE id = {few}; UPDATE parent SET id = id - 100 WHERE id = {few} + 100"
        ),
        18 => format!("REPLACE INTO parent VALUES ({few}, {n})"),
        19 => format!(
            "INSERT IGNORE INTO audited VALUES ({i}, 1), ({j}, 2); DELETE FROM audited WHERE id < {few} * 10"
        ),
        20 => format!(
            "REPLACE INTO docs VALUES ({i}, JSON_OBJECT('n', {n}, 'l', JSON_ARRAY({j}, NULL)), REPEAT('{}', {n}), NOW(3), {n} / 7)",
            dice.pick(&["x", "é", "\u{1F40B}"])
        ),
        21 => format!(
            "UPDATE docs SET doc = JSON_SET(doc, '$.n', {n}) WHERE id < {i}; DELETE FROM docs WHERE id = {j}"
        ),
        22 => format!(
            "REPLACE INTO parts VALUES ({i}, {n}); UPDATE parts SET id = id + 1 WHERE id = {j} AND id % 2 = 0"
        ),
        23 => {
            format!("INSERT INTO {other}.elsewhere (v) VALUES ({n}); UPDATE acc SET v = v + 1 WHERE id = {i}")
        }
        24 => format!(
            "CREATE TEMPORARY TABLE IF NOT EXISTS tmp (id INT PRIMARY KEY, v INT); REPLACE INTO tmp VALUES ({few}, {n}); UPDATE acc JOIN tmp USING (id) SET acc.v = tmp.v"
        ),
        _ => of_changing_table(d, few, n, dice),
    }
}

fn of_changing_table(d: u64, few: u64, n: u64, dice: &mut Dice) -> String {
    match dice.below(4) {
        0 => format!("DELETE FROM d{d} WHERE id = {few}"),
        1 => format!("UPDATE d{d} SET v = v + 1 WHERE id <= {few}"),
        _ => format!(
            "INSERT INTO d{d} (id, v) VALUES ({few}, {n}), ({few} + 20, {n}) ON DUPLICATE KEY UPDATE v = d{d}.v + 1"
        ),
    }
}

/// What is seldom done, and by one client at a time.
pub(super) fn rare(step: u64, dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => "FLUSH BINARY LOGS".to_owned(),
        1 => format!("SET GLOBAL binlog_checksum = {}", dice.pick(&["NONE", "CRC32"])),
        2 => "BEGIN; COMMIT; ANALYZE TABLE acc; FLUSH TABLES acc".to_owned(),
        3 => format!(
            "SELECT id, v, note FROM acc INTO OUTFILE '/tmp/rows-{step}.txt'; LOAD DATA INFILE '/tmp/rows-{step}.txt' REPLACE INTO TABLE loaded"
        ),
        4 => format!(
            "DELETE FROM docs WHERE id > 1000 LIMIT 3000; INSERT INTO docs WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900)
             SELECT {step} * 1000 + 1000 + i, JSON_OBJECT('i', i), REPEAT('big', 200), NULL, i / 3 FROM n"
        ),
        _ => "DELETE FROM ledger WHERE n % 7 = 0 LIMIT 50; DELETE FROM audit LIMIT 50".to_owned(),
    }
}

/// A change of a definition. `columns` are those of the table that may be dropped or renamed.
pub(super) fn definition(step: u64, d: u64, columns: &[String], dice: &mut Dice) -> String {
    let any = || columns.first().filter(|_| !columns.is_empty());
    let e = (d + 1) % CHANGING;
    match dice.below(12) {
        0 => format!("ALTER TABLE d{d} ADD COLUMN c{step} INT DEFAULT {step}"),
        1 => format!(
            "ALTER TABLE d{d} ADD COLUMN c{step} VARCHAR(20) NOT NULL DEFAULT 'it''s {step}' AFTER id, ADD INDEX (v)"
        ),
        2 => format!("ALTER TABLE d{d} ADD COLUMN c{step} DECIMAL(10,2) FIRST"),
        3 | 4 => {
            any().map_or_else(|| "DO 0".to_owned(), |column| format!("ALTER TABLE d{d} DROP COLUMN {column}"))
        }
        5 | 6 => any().map_or_else(
            || "DO 0".to_owned(),
            |column| format!("ALTER TABLE d{d} RENAME COLUMN {column} TO r{step}"),
        ),
        7 => format!("TRUNCATE TABLE d{d}"),
        8 => format!("RENAME TABLE d{d} TO swap, d{e} TO d{d}, swap TO d{e}"),
        9 => format!(
            "DROP TABLE d{d}; CREATE TABLE d{d} (id INT PRIMARY KEY, v INT, c{step} TEXT); INSERT INTO d{d} (id, v) VALUES (1, {step})"
        ),
        10 => format!(
            "CREATE TABLE n{step} (PRIMARY KEY (id)) AS SELECT id, v FROM d{d}; DROP TABLE d{d}; RENAME TABLE n{step} TO d{d}"
        ),
        _ => format!(
            "CREATE TABLE n{step} LIKE d{d}; INSERT INTO n{step} SELECT * FROM d{d}; RENAME TABLE d{d} TO o{step}, n{step} TO d{d}; DROP TABLE o{step}"
        ),
    }
}
