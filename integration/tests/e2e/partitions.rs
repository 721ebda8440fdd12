//! `schema.partitions = "native"`: the target's tables are partitioned as the source's, where they can be,
//! and no row is without a place.

use anyhow::{Context, Result, ensure};
use tidegate_integration::postgres::TARGET_ROLE;
use tidegate_integration::{Config, Fixture, Servers, Tidegate, run};

/// A table of every kind that the target can have, and of others. `NOTES` has their rows' keys.
const TABLES: &str = r"
    CREATE TABLE ints (id INT, v INT, PRIMARY KEY (id)) PARTITION BY RANGE (id)
        (PARTITION p0 VALUES LESS THAN (-5), PARTITION `P 'x' é` VALUES LESS THAN (10), PARTITION pm VALUES LESS THAN (9000000000));
    CREATE TABLE bigs (id BIGINT UNSIGNED AUTO_INCREMENT, v INT, PRIMARY KEY (id)) PARTITION BY RANGE (id)
        (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN (9223372036854775808), PARTITION p2 VALUES LESS THAN (18446744073709551615));
    CREATE TABLE dates (id INT AUTO_INCREMENT, d DATE, PRIMARY KEY (id, d)) PARTITION BY RANGE COLUMNS (d)
        (PARTITION p0 VALUES LESS THAN ('2020-1-1'), PARTITION p1 VALUES LESS THAN ('2021-02-28'), PARTITION pm VALUES LESS THAN (MAXVALUE));
    CREATE TABLE tuples (a INT, b INT, s VARCHAR(9) COLLATE utf8mb4_0900_bin, v INT, PRIMARY KEY (a, b, s)) PARTITION BY RANGE COLUMNS (a, b, s)
        (PARTITION p0 VALUES LESS THAN (1, MAXVALUE, 'x'), PARTITION p1 VALUES LESS THAN (2, 5, 'q''é('), PARTITION pm VALUES LESS THAN (MAXVALUE, MAXVALUE, MAXVALUE));
    CREATE TABLE days (id INT, d DATETIME(3), PRIMARY KEY (id, d)) PARTITION BY RANGE (TO_DAYS(d))
        (PARTITION p_none VALUES LESS THAN (0), PARTITION p0 VALUES LESS THAN (TO_DAYS('2020-02-29')), PARTITION pm VALUES LESS THAN MAXVALUE);
    CREATE TABLE seconds (id INT, d DATETIME, PRIMARY KEY (id, d)) PARTITION BY RANGE (TO_SECONDS(d))
        (PARTITION p0 VALUES LESS THAN (TO_SECONDS('2020-02-29 12:00:01')), PARTITION pm VALUES LESS THAN MAXVALUE);
    CREATE TABLE years (id INT, d DATE, PRIMARY KEY (id, d)) PARTITION BY RANGE (YEAR(d))
        (PARTITION p0 VALUES LESS THAN (2020), PARTITION p1 VALUES LESS THAN (2021));
    CREATE TABLE stamps (id INT, d TIMESTAMP(2), PRIMARY KEY (id, d)) PARTITION BY RANGE (FLOOR(UNIX_TIMESTAMP(d)))
        (PARTITION p0 VALUES LESS THAN (1577836800), PARTITION p1 VALUES LESS THAN (1577836801), PARTITION pm VALUES LESS THAN MAXVALUE);
    CREATE TABLE lists (id INT, k INT, PRIMARY KEY (id, k)) PARTITION BY LIST (k) (PARTITION p0 VALUES IN (1, 2, NULL), PARTITION p1 VALUES IN (-3));
    CREATE TABLE words (id INT, k VARCHAR(9) COLLATE utf8mb4_0900_bin, v INT, PRIMARY KEY (id, k)) PARTITION BY LIST COLUMNS (k)
        (PARTITION p0 VALUES IN ('a', 'b''c,('), PARTITION p1 VALUES IN ('A', 'a ', ''));
    CREATE TABLE hashed (id INT, v INT, PRIMARY KEY (id)) PARTITION BY LINEAR HASH (id) PARTITIONS 3;
    CREATE TABLE keyed (id INT, k VARCHAR(9), v INT, w INT NOT NULL, UNIQUE KEY u (k, id, w), PRIMARY KEY (id, k), KEY by_v (v), CHECK (v > -9))
        PARTITION BY KEY () PARTITIONS 4;
    CREATE TABLE nested (id INT PRIMARY KEY) PARTITION BY RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (100));
    CREATE TABLE cased (id INT, k VARCHAR(9), PRIMARY KEY (id, k)) PARTITION BY LIST COLUMNS (k) (PARTITION p0 VALUES IN ('a'));
    CREATE TABLE keyless (id INT, v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100));
    CREATE TABLE computed (id INT PRIMARY KEY) PARTITION BY HASH (id DIV 10) PARTITIONS 2;
    CREATE TABLE apart (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2";

const ROWS: &str = r"
    INSERT INTO ints VALUES (-2147483648, 1), (-6, 1), (-5, 1), (9, 1), (10, 1), (2147483647, 1);
    INSERT INTO bigs VALUES (4, 1), (5, 1), (9223372036854775807, 1), (9223372036854775808, 1), (18446744073709551614, 1);
    INSERT INTO dates (d) VALUES ('1000-01-01'), ('2019-12-31'), ('2020-01-01'), ('2021-02-27'), ('2021-02-28'), ('9999-12-31');
    INSERT INTO tuples VALUES (0, 0, '', 1), (1, 2147483647, 'z', 1), (2, 5, 'q', 1), (2, 5, 'q''é', 1), (2, 5, 'q''é(', 1), (2, 5, 'Z', 1), (9, 9, 'z', 1);
    INSERT INTO days VALUES (1, '1000-01-01'), (2, '2020-02-28 23:59:59.999'), (3, '2020-02-29'), (4, '9999-12-31 23:59:59.999');
    INSERT INTO seconds VALUES (1, '2020-02-29 12:00:00'), (2, '2020-02-29 12:00:01'), (3, '9999-12-31 23:59:59');
    INSERT INTO years VALUES (1, '2019-12-31'), (2, '2020-01-01'), (3, '2020-12-31');
    SET time_zone = '+05:30';
    INSERT INTO stamps VALUES (1, '1971-01-01'), (2, '2020-01-01 05:29:59.99'), (3, '2020-01-01 05:30:00'), (4, '2020-01-01 05:30:00.99'), (5, '2020-01-01 05:30:01');
    INSERT INTO lists VALUES (1, 1), (2, 2), (3, -3);
    INSERT INTO words VALUES (1, 'a', 1), (2, 'A', 1), (3, 'a ', 1), (4, '', 1), (5, 'b''c,(', 1);
    INSERT INTO hashed VALUES (1, 1), (2, 1), (3, 1), (4, 1), (5, 1);
    INSERT INTO keyed VALUES (1, 'a', 1, 1), (2, 'B', 1, 1), (3, '', NULL, 1), (4, 'd', 1, 1);
    INSERT INTO nested VALUES (1); INSERT INTO cased VALUES (1, 'A'); INSERT INTO keyless VALUES (1, 1), (1, 1); INSERT INTO computed VALUES (1), (11); INSERT INTO apart VALUES (1), (2)";

/// Within the place of a row and out of it, with and without a key.
const CHANGES: &[&str] = &[
    "UPDATE ints SET v = 2; UPDATE ints SET id = 8 WHERE id = 10; UPDATE ints SET id = 11 WHERE id = 9; DELETE FROM ints WHERE id = -6; INSERT INTO ints VALUES (-7, 7)",
    "UPDATE dates SET d = '2020-05-05' WHERE d = '9999-12-31'; INSERT INTO dates (d) VALUES ('1999-09-09'); UPDATE bigs SET v = 3; UPDATE tuples SET v = 4, s = 'qq' WHERE s = 'Z' OR a = 9",
    "UPDATE days SET d = '2020-02-28' WHERE id = 4; DELETE FROM days WHERE id = 2; UPDATE years SET d = '2018-01-01' WHERE id = 3",
    "UPDATE lists SET k = -3 WHERE id = 1; UPDATE words SET k = 'A', v = 9 WHERE id = 1; DELETE FROM words WHERE id = 3; UPDATE keyed SET v = 5; UPDATE keyed SET id = id + 100; INSERT INTO keyed VALUES (1, 'z', 9, 9)",
    "UPDATE hashed SET v = id; INSERT INTO hashed SELECT id + 10, v FROM hashed; DELETE FROM hashed WHERE id < 3; UPDATE keyless SET v = 2 LIMIT 1; DELETE FROM keyless WHERE v = 1; INSERT INTO apart VALUES (3)",
];

fn config(fixture: &Fixture<'_>) -> Config {
    fixture.config().set("schema.partitions", "native")
}

/// Sets what partitioned tables become for one of them.
fn with_table(config: Config, fixture: &Fixture<'_>, table: &str, choice: &str) -> Config {
    let mut of_table = toml::Table::new();
    of_table.insert("partitions".to_owned(), choice.into());
    config.set(&format!("schema.{}.{table}", fixture.source), of_table)
}

/// What the target has of partitioned tables: each with its partitions.
const PARTITIONED: &str = "
    SELECT concat_ws(' ', c.relname, pg_get_partkeydef(c.oid), (SELECT count(*) FROM pg_inherits WHERE inhparent = c.oid))
    FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'p' ORDER BY c.relname COLLATE \"C\"";

async fn lines(fixture: &Fixture<'_>, sql: &str) -> Result<Vec<String>> {
    Ok(fixture.target_rows(sql).await?.into_iter().flatten().flatten().collect())
}

/// The partition of every row, `table partition rows` each, in order; those of HASH and KEY by the table.
async fn places(fixture: &Fixture<'_>) -> Result<(Vec<String>, Vec<String>)> {
    let partitions = fixture
        .source_rows(
            "SELECT TABLE_NAME, PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE()
             AND PARTITION_METHOD IN ('RANGE', 'RANGE COLUMNS', 'LIST', 'LIST COLUMNS') AND TABLE_NAME <> 'keyless' ORDER BY 1, PARTITION_ORDINAL_POSITION",
        )
        .await?;
    let (mut source, mut target) = (Vec::new(), Vec::new());
    for row in partitions {
        let [Some(table), Some(partition)] = row.as_slice() else { continue };
        let quoted = partition.replace('`', "``");
        let key = "SELECT GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX) FROM information_schema.STATISTICS
            WHERE TABLE_SCHEMA = DATABASE() AND INDEX_NAME = 'PRIMARY' AND TABLE_NAME = ";
        let key = fixture.source_scalar(&format!("{key}'{table}'")).await?.context("no key")?;
        let first = key.split(',').next().unwrap_or_default();
        let ids = |from: &str, text: &str| format!("SELECT {first} FROM {from} ORDER BY {key}{text}");
        for row in fixture.source_rows(&ids(&format!("{table} PARTITION (`{quoted}`)"), "")).await? {
            source.push(format!("{table} {partition} {row:?}"));
        }
        let of_target = format!("\"{table}_{partition}\"");
        for row in fixture.target_rows(&ids(&of_target, "")).await? {
            target.push(format!("{table} {partition} {row:?}"));
        }
    }
    Ok((source, target))
}

#[test]
fn rows_lie_where_they_do_on_the_source() {
    run(async {
        let fixture = Servers::shared().await?.fixture("partitioned").await?;
        fixture.source(TABLES).await?;
        fixture.source(ROWS).await?;
        let config = with_table(config(&fixture), &fixture, "apart", "plain");
        let plan = Tidegate::prepare(config.clone())?.cli(&["plan"]).await?;
        ensure!(plan.code == Some(0), "{:?}: {}", plan.code, plan.stderr);
        for told in [
            "subpartitions are not carried over",
            "`k` is of a type whose order is another one",
            "rows are found by all of their columns",
            "by an expression that the target does not have",
            "does not lie in the partition of the same number",
        ] {
            ensure!(plan.stdout.contains(told), "{told} is missing in {}", plan.stdout);
        }
        let planned = Servers::shared().await?.fixture("partitioned_plan").await?;
        planned.target(&plan.stdout).await?;
        fixture.source("DROP TABLE nested, cased, computed, seconds").await?;
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        let session = planned.target_session().await?;
        session.exec(&format!("SET search_path = {0}; DROP TABLE {0}.seconds", fixture.source)).await?;
        let made = lines(&fixture, PARTITIONED).await?;
        let expected: Vec<String> =
            session.rows(PARTITIONED).await?.into_iter().flatten().flatten().collect();
        ensure!(made == expected, "{made:?} is not as planned: {expected:?}");
        ensure!(made.len() == 11, "{made:?}");
        ensure!(made.contains(&"tuples RANGE (a, b, s) 4".to_owned()), "{made:?}");
        ensure!(made.contains(&"keyed HASH (id, k) 4".to_owned()), "{made:?}");
        same_places(&fixture).await.context("copied")?;
        for (number, changes) in CHANGES.iter().enumerate() {
            fixture.source(changes).await?;
            if number == 2 {
                tidegate.kill().await?;
                tidegate.launch(&[]).await?;
            }
        }
        tidegate.caught_up(&fixture).await?;
        same_places(&fixture).await.context("streamed")?;
        let lost = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            WHERE c.relname IN ('keyed_by_v', 'keyed_u', 'keyed_pkey') AND c.relnamespace = current_schema()::regnamespace";
        ensure!(fixture.target_scalar(lost).await?.as_deref() == Some("3"), "indexes are missing");
        Ok(())
    });
}

async fn same_places(fixture: &Fixture<'_>) -> Result<()> {
    fixture.assert_same().await?;
    let (source, target) = places(fixture).await?;
    ensure!(!source.is_empty() && source == target, "on the source {source:?}, on the target {target:?}");
    Ok(())
}

/// What `check` says of the target's tables, by finding.
async fn checked(config: Config) -> Result<String> {
    let output = Tidegate::prepare(config)?.cli(&["check"]).await?;
    ensure!(output.code == Some(4), "{:?}: {}", output.code, output.stdout);
    Ok(output.stdout)
}

/// A pipeline with this configuration halts over a table.
async fn halts(config: Config, detail: &str) -> Result<()> {
    let tidegate = Tidegate::start(config).await?;
    let halt = tidegate.wait_halt().await?;
    ensure!(halt["reason"] == "target_drift" && halt.to_string().contains(detail), "{halt}");
    Ok(())
}

#[test]
fn a_table_stays_as_it_was_made() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("partition_settings").await?;
        let (one, two) = (fixture.source.clone(), format!("{}_two", fixture.source));
        let range = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))";
        let tables = format!(
            "CREATE TABLE made (id INT AUTO_INCREMENT PRIMARY KEY, v INT) {range}; INSERT INTO made VALUES (1, 1), (11, 11);
             CREATE TABLE hand (id INT PRIMARY KEY) {range}; INSERT INTO hand VALUES (1), (11);
             CREATE DATABASE {two}; CREATE TABLE {two}.made_p0 (id INT PRIMARY KEY)"
        );
        fixture.source(&tables).await?;
        fixture
            .target(&format!(
                "CREATE SCHEMA {one} AUTHORIZATION {TARGET_ROLE}; CREATE TABLE {one}.hand (id int PRIMARY KEY) PARTITION BY RANGE (id);
 ALTER TABLE {one}.hand OWNER TO {TARGET_ROLE}"
            ))
            .await?;
        let include = vec![format!("{one}.*"), format!("{two}.*")];
        let plain = || fixture.config().set("tables.include", include.clone());
        let native = || config(&fixture).set("tables.include", include.clone());

        ensure!(checked(plain()).await?.contains("hand\": it is not an ordinary table: it is partitioned"));
        ensure!(checked(native()).await?.contains("hand\": it has no DEFAULT partition"));
        fixture.target(&format!("CREATE TABLE {one}.rest PARTITION OF {one}.hand DEFAULT")).await?;
        let tidegate = Tidegate::start(native()).await?;
        tidegate.wait_state("streaming").await?;
        // The table takes its partitions along to another schema, where the name of one is taken.
        let moved = format!(
            "INSERT INTO hand VALUES (2), (12); RENAME TABLE made TO {two}.made; INSERT INTO {two}.made (v) VALUES (12), (13);
             DELETE FROM {two}.made WHERE id = 1; ALTER TABLE hand ADD PARTITION (PARTITION p2 VALUES LESS THAN (30)); INSERT INTO hand VALUES (29)"
        );
        fixture.source(&moved).await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let ids = format!("SELECT id, v FROM {two}.made ORDER BY id");
        let (source, target) = (fixture.source_rows(&ids).await?, fixture.target_rows(&ids).await?);
        ensure!(source == target, "{source:?} and {target:?}");
        let schemas = format!(
            "SELECT string_agg(DISTINCT relnamespace::regnamespace::text, ',') FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
             WHERE inhparent = '{two}.made'::regclass"
        );
        ensure!(
            fixture.target_scalar(&schemas).await?.as_deref() == Some(&two),
            "partitions were left behind"
        );
        let by_hand = format!("SELECT count(*) FROM {one}.rest");
        ensure!(
            fixture.target_scalar(&by_hand).await?.as_deref() == Some("5"),
            "the table that was there is not used"
        );
        ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");

        halts(plain(), "schema.partitions is plain").await?;
        ensure!(checked(plain()).await?.contains("target.partitions"));
        let one_left = with_table(native(), &fixture, "hand", "plain");
        halts(one_left, &format!("{one}.hand")).await?;
        let tidegate = Tidegate::start(native()).await?;
        fixture.source("INSERT INTO hand VALUES (3)").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");
        fixture.target(&format!("ALTER TABLE {one}.hand DETACH PARTITION {one}.rest")).await?;
        halts(native(), "it has no DEFAULT partition").await
    });
}

/// Names on the target are of the schema, not of the table: whatever comes along must not be in the way.
#[test]
fn names_that_come_along_with_a_table_give_way() {
    run(async {
        let fixture = Servers::shared().await?.fixture("partition_moves").await?;
        let (one, two, three) =
            (fixture.source.clone(), format!("{}_b", fixture.source), format!("{}_c", fixture.source));
        let body = "(id INT AUTO_INCREMENT PRIMARY KEY, v INT, KEY by_v (v))";
        let range = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))";
        fixture
            .source(&format!(
                "CREATE DATABASE {two}; CREATE DATABASE {three}; CREATE TABLE {two}.there (id INT PRIMARY KEY); CREATE TABLE t {body} {range}; INSERT INTO t (v) VALUES (1), (2);
                 CREATE TABLE x (id INT PRIMARY KEY); INSERT INTO x VALUES (7); CREATE TABLE y (id INT PRIMARY KEY); INSERT INTO y VALUES (8);
                 CREATE TABLE same {body}; INSERT INTO same (v) VALUES (1); CREATE TABLE {three}.same {body}; INSERT INTO {three}.same (v) VALUES (2), (3)"
            ))
            .await?;
        let include = vec![format!("{one}.*"), format!("{two}.*"), format!("{three}.*")];
        let tidegate = Tidegate::start(config(&fixture).set("tables.include", include)).await?;
        tidegate.wait_state("streaming").await?;
        let steps = [
            format!(
                "RENAME TABLE t TO {two}.t, x TO {two}.t_p0, y TO {two}.t_pkey; INSERT INTO {two}.t (v) VALUES (3); INSERT INTO {two}.t_p0 VALUES (9)"
            ),
            format!(
                "RENAME TABLE same TO {two}.same1, {three}.same TO {two}.same2; INSERT INTO {two}.same1 (v) VALUES (5); DELETE FROM {two}.same2 WHERE id = 1"
            ),
            format!(
                "ALTER TABLE {two}.same1 DROP INDEX by_v, ADD COLUMN w INT; ALTER TABLE {two}.same2 DROP INDEX by_v;
                 RENAME TABLE {two}.t TO {one}.u, {two}.same1 TO {two}.t, {two}.t_p0 TO {one}.u_p0; INSERT INTO u (v) VALUES (6); INSERT INTO {two}.t (v) VALUES (7)"
            ),
        ];
        for step in &steps {
            fixture.source(step).await?;
            tidegate.caught_up(&fixture).await?;
        }
        tidegate.kill().await?;
        tidegate.launch(&[]).await?;
        fixture.source("INSERT INTO u (v) VALUES (8)").await?;
        tidegate.caught_up(&fixture).await?;
        for table in [
            format!("{two}.same2"),
            format!("{two}.t"),
            format!("{one}.u"),
            format!("{one}.u_p0"),
            format!("{two}.t_pkey"),
        ] {
            let rows = format!("SELECT * FROM {table} ORDER BY id");
            let (source, target) = (fixture.source_rows(&rows).await?, fixture.target_rows(&rows).await?);
            ensure!(!source.is_empty() && source == target, "{table}: {source:?} and {target:?}");
        }
        let built = format!(
            "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
             WHERE NOT i.indisunique AND c.relname IN ('t', 'same2', 'u') AND c.relnamespace::regnamespace::text IN ('{one}', '{two}')"
        );
        ensure!(
            fixture.target_scalar(&built).await?.as_deref() == Some("1"),
            "indexes were not dropped, or are lost"
        );
        let status = tidegate.status().await?;
        ensure!(status["objects"].as_array().is_some_and(Vec::is_empty), "{}", status["objects"]);
        Ok(())
    });
}

/// What a hand does to the partitions is noticed while the stream goes on, and a table that was there has
/// to have a place for every row.
#[test]
fn partitions_that_a_hand_has_changed_are_noticed() {
    run(async {
        let fixture = Servers::shared().await?.fixture("partition_hand").await?;
        let one = fixture.source.clone();
        let range = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))";
        fixture
            .source(&format!(
                "CREATE TABLE t (id INT PRIMARY KEY, v INT) {range}; INSERT INTO t VALUES (1, 1), (11, 11);
                 CREATE TABLE h (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 2; CREATE TABLE n (id INT PRIMARY KEY) {range}"
            ))
            .await?;
        fixture
            .target(&format!(
                "CREATE SCHEMA {one} AUTHORIZATION {TARGET_ROLE}; SET ROLE {TARGET_ROLE}; SET search_path = {one};
                 CREATE TABLE h (id int PRIMARY KEY) PARTITION BY HASH (id); CREATE TABLE h0 PARTITION OF h FOR VALUES WITH (MODULUS 4, REMAINDER 0);
                 CREATE TABLE h1 PARTITION OF h FOR VALUES WITH (MODULUS 4, REMAINDER 1);
                 CREATE TABLE n (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE n_rest PARTITION OF n DEFAULT;
                 CREATE TABLE n0 PARTITION OF n FOR VALUES FROM (0) TO (10) PARTITION BY LIST (id)"
            ))
            .await?;
        let found = checked(config(&fixture)).await?;
        ensure!(found.contains("h\": its partitions by HASH do not have a place for every row"), "{found}");
        ensure!(found.contains("partition \"n0\" is partitioned itself"), "{found}");
        fixture
            .target(&format!(
                "SET ROLE {TARGET_ROLE}; CREATE TABLE h2 PARTITION OF h FOR VALUES WITH (MODULUS 2, REMAINDER 1);
                 ALTER TABLE n DETACH PARTITION n0; DROP TABLE n0"
            ))
            .await
            .err()
            .map_or_else(|| anyhow::bail!("PostgreSQL took partitions that overlap"), |_| Ok(()))?;
        fixture
            .target(
                "CREATE TABLE h2 PARTITION OF h FOR VALUES WITH (MODULUS 4, REMAINDER 2); CREATE TABLE h3 PARTITION OF h FOR VALUES WITH (MODULUS 4, REMAINDER 3);
                 DROP TABLE n0",
            )
            .await?;
        let tidegate = Tidegate::start(config(&fixture)).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("UPDATE t SET v = 2; INSERT INTO h VALUES (1), (2), (3), (4), (5), (6)").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;

        fixture.target("ALTER TABLE t DETACH PARTITION t_p0").await?;
        fixture.source("UPDATE t SET v = 3").await?;
        let halt = tidegate.wait_halt().await?;
        let told = halt.to_string().contains("it has 2 partitions of 3");
        ensure!(halt["reason"] == "target_drift" && told, "{halt}");
        fixture.target("ALTER TABLE t ATTACH PARTITION t_p0 FOR VALUES FROM (MINVALUE) TO (10)").await?;
        tidegate.resume().await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;

        fixture.target("CREATE UNIQUE INDEX by_hand ON t_p0 (v)").await?;
        fixture.source("UPDATE t SET v = 4").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_drift" && halt.to_string().contains("by_hand"), "{halt}");
        fixture.target("DROP INDEX by_hand").await?;
        tidegate.resume().await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await
    });
}

/// A statement on the whole table locks every partition and its indexes.
#[test]
fn a_target_without_room_for_the_locks_is_refused() {
    run(async {
        let servers = Servers::own(&[], &["max_locks_per_transaction=10", "max_connections=25"]).await?;
        let fixture = servers.fixture("locks").await?;
        let table = "(id INT PRIMARY KEY, v INT, KEY (v)) PARTITION BY HASH (id)";
        fixture.source(&format!("CREATE TABLE few {table} PARTITIONS 4")).await?;
        let room = "max_locks_per_transaction";
        let few = Tidegate::prepare(config(&fixture))?.cli(&["check"]).await?.stdout;
        ensure!(!few.contains(room), "there is room for a few: {few}");
        fixture.source(&format!("CREATE TABLE many {table} PARTITIONS 60")).await?;
        let told = checked(config(&fixture)).await?;
        ensure!(told.contains(&format!("ALTER SYSTEM SET {room} = ")), "no remedy: {told}");
        let halt = Tidegate::start(config(&fixture)).await?.wait_halt().await?;
        ensure!(halt["reason"] == "target_preflight" && halt.to_string().contains(room), "{halt}");
        Ok(())
    });
}
