//! Definitions and rows as SQL shows them.

use anyhow::{Context, Result, bail, ensure};
use mysql_async::Conn;
use tidegate::binlog::DecodeError;
use tidegate::binlog::cell::Cell;
use tidegate::binlog::event::Event;
use tidegate::binlog::row_image::RowReader;
use tidegate::binlog::table_map::TableMap;
use tidegate::halt::{Failure, Reason};
use tidegate::schema::diff::check_map;
use tidegate::schema::filter::Filter;
use tidegate::schema::overrides::Overrides;
use tidegate::schema::{TableModel, TableName};
use tidegate::source::connect::{self, connect};
use tidegate::source::dump::Dump;
use tidegate::source::reader::{self, chunk};
use tidegate::source::session::Session;
use tidegate_integration::{Fixture, MySql, Servers, run};

use super::{config, executed, next, replica_uuid};

fn name(fixture: &Fixture<'_>, table: &str) -> TableName {
    TableName { database: fixture.source.clone(), table: table.to_owned() }
}

async fn model(conn: &mut Conn, name: &TableName) -> Result<TableModel> {
    reader::table(conn, name, &Overrides::default())
        .await?
        .with_context(|| format!("{} is there", name.table))
}

/// The rows of a table read in chunks of `rows`, in a form in which only equal rows are equal.
async fn read_chunks(session: &mut Session, model: &TableModel, rows: u64) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let through = chunk::next_bound(session, model, after.as_ref(), None, rows).await?;
        // A bound survives being stored.
        let through = match through {
            Some(bound) => Some(serde_json::from_str(&serde_json::to_string(&bound)?)?),
            None => None,
        };
        let mut chunk = chunk::read(session, model, after.as_ref(), through.as_ref()).await?;
        let mut count = 0;
        while let Some(row) = chunk.next().await? {
            let cells: Result<Vec<_>, _> = row.cells().collect();
            all.push(format!("{:?}", cells?));
            count += 1;
        }
        if through.is_none() {
            ensure!(count < rows, "the rest has {count} rows");
            return Ok(all);
        }
        ensure!(count == rows, "a chunk of {rows} has {count} rows");
        after = through;
    }
}

async fn read_whole(session: &mut Session, model: &TableModel) -> Result<Vec<String>> {
    let mut all = Vec::new();
    let mut rows = chunk::read(session, model, None, None).await?;
    while let Some(row) = rows.next().await? {
        let cells: Result<Vec<_>, _> = row.cells().collect();
        all.push(format!("{:?}", cells?));
    }
    all.sort();
    Ok(all)
}

/// Type of a single-column primary key, and values that are hard to compare.
const KEYS: &[(&str, &str)] = &[
    ("TINYINT", "(-128), (-1), (0), (1), (127)"),
    ("BIGINT UNSIGNED", "(0), (1), (9223372036854775807), (9223372036854775808), (18446744073709551615)"),
    ("BIGINT", "(-9223372036854775808), (-1), (0), (9223372036854775807)"),
    (
        "DECIMAL(65,30)",
        "(-0.000000000000000000000000000001), (0), (12345678901234567890123456789012345.123456789012345678901234567890), \
         (12345678901234567890123456789012345.123456789012345678901234567891)",
    ),
    ("FLOAT", "(-3.4e38), (-0.1), (0), (0.1), (0.3), (16777216), (3.4e38)"),
    ("DOUBLE", "(-1.7e308), (0.1), (0.30000000000000004), (0.3), (1e-300), (1.7e308)"),
    ("BIT(64)", "(0), (1), (0x8000000000000000), (0xFFFFFFFFFFFFFFFF)"),
    ("YEAR", "(0), (1901), (1970), (2000), (2155)"),
    ("DATE", "('0000-00-00'), ('2024-00-00'), ('2024-01-00'), ('2024-02-29'), ('9999-12-31')"),
    (
        "DATETIME(6)",
        "('0000-00-00'), ('2024-01-01 00:00:00.000001'), ('2024-01-01 00:00:00.000002'), ('9999-12-31 23:59:59')",
    ),
    (
        "TIMESTAMP(6) DEFAULT 0",
        "('0000-00-00'), ('1970-01-01 00:00:01'), ('2024-03-31 02:30:00.000001'), ('2038-01-19 03:14:07')",
    ),
    ("TIME(3)", "('-838:59:59'), ('-00:00:00.001'), ('00:00:00'), ('00:00:00.001'), ('838:59:59')"),
    ("ENUM('z','b','a')", "(0), (1), (2), (3)"),
    ("SET('z','b','a')", "(0), (1), (2), (3), (7)"),
    (
        "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci",
        "(''), ('a'), ('Äb'), ('az'), ('ß'), ('z'), ('😀'), (''''), ('\\\\')",
    ),
    ("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "(''), ('A'), ('a'), ('a b'), ('Ä'), ('😀')"),
    ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci", "('a'), ('ä'), ('az'), ('ae0'), ('z')"),
    ("CHAR(5) CHARACTER SET latin1", "(''), ('a'), ('é'), ('zz')"),
    ("BINARY(4)", "(x'00'), (x'000000FF'), (x'01'), (x'FFFFFFFF')"),
    ("VARBINARY(4)", "(x''), (x'00'), (x'0000'), (x'01'), (x'FF')"),
];

#[test]
fn chunks_of_every_key_type_are_the_table() {
    run(async {
        let fixture = Servers::shared().await?.fixture("keys").await?;
        let mut conn = connect(&config(&fixture.servers.mysql)).await?;
        let mut session = connect::session(&config(&fixture.servers.mysql)).await?;
        let long = format!("ENUM({})", (0..100).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(","));
        let many: Vec<String> = (0..=100).map(|n| format!("({n})")).collect();
        let many = many.join(", ");
        let keys = KEYS.iter().copied().chain([(long.as_str(), many.as_str())]);
        for (number, (kind, values)) in keys.enumerate() {
            let table = format!("k{number}");
            fixture
                .source(&format!(
                    "SET sql_mode = '', time_zone = '+00:00'; CREATE TABLE {table} (k {kind} PRIMARY KEY);
                     INSERT INTO {table} VALUES {values}"
                ))
                .await
                .with_context(|| kind.to_owned())?;
            let model = model(&mut conn, &name(&fixture, &table)).await?;
            ensure!(chunk::is_divisible(&model));
            let whole = read_whole(&mut session, &model).await?;
            ensure!(whole.len() == values.split("), (").count(), "{kind}: {whole:?}");
            for rows in 1..=3 {
                let mut chunks =
                    read_chunks(&mut session, &model, rows).await.with_context(|| kind.to_owned())?;
                chunks.sort();
                ensure!(chunks == whole, "{kind} by {rows}:\n{chunks:?}\n{whole:?}");
            }
        }
        Ok(())
    });
}

#[test]
fn chunks_of_composite_and_unique_keys_are_the_table() {
    run(async {
        let fixture = Servers::shared().await?.fixture("composite").await?;
        let mut conn = connect(&config(&fixture.servers.mysql)).await?;
        let mut session = connect::session(&config(&fixture.servers.mysql)).await?;
        let columns = "e ENUM('z','b','a') NOT NULL, v VARCHAR(9) NOT NULL, i INT NOT NULL";
        let rows = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 59)
            SELECT 1 + i % 3, CONCAT('v', i DIV 3 % 5), i DIV 15 FROM n";
        for (table, key) in [
            ("`a`", "PRIMARY KEY (e, v, i))"),
            ("`we``ird.na:me ?`", "PRIMARY KEY (v, i, e))"),
            ("`c`", "UNIQUE KEY (i, e, v))"),
            ("`d`", "PRIMARY KEY (i, v, e)) PARTITION BY HASH (i) PARTITIONS 3"),
        ] {
            fixture.source(&format!("CREATE TABLE {table} ({columns}, {key}")).await?;
            fixture.source(&format!("INSERT INTO {table} {rows}")).await?;
            let plain = table.trim_matches('`').replace("``", "`");
            let model = model(&mut conn, &name(&fixture, &plain)).await?;
            let whole = read_whole(&mut session, &model).await?;
            ensure!(whole.len() == 60);
            for rows in [1, 7, 60, 61] {
                let mut chunks = read_chunks(&mut session, &model, rows).await?;
                chunks.sort();
                ensure!(chunks == whole, "{table} by {rows}");
            }
        }
        Ok(())
    });
}

const TYPES: &str = "
    t1 TINYINT, t2 TINYINT(1), t3 TINYINT UNSIGNED, s1 SMALLINT, s2 SMALLINT UNSIGNED, m1 MEDIUMINT,
    m2 MEDIUMINT UNSIGNED, i1 INT, i2 INT UNSIGNED, b1 BIGINT, b2 BIGINT UNSIGNED, f FLOAT, d DOUBLE,
    c1 CHAR(5) CHARACTER SET latin1, v1 VARCHAR(20) CHARACTER SET utf8mb4, v2 VARCHAR(20) CHARACTER SET latin1,
    x TEXT, y MEDIUMTEXT CHARACTER SET latin1, vb VARBINARY(9), bl LONGBLOB, bit1 BIT(1), bit9 BIT(9), bit64 BIT(64),
    en ENUM('a','b'), st SET('a','b','c'), da DATE, ti TIME, ti6 TIME(6), dt DATETIME, dt3 DATETIME(3),
    ts TIMESTAMP NULL, ts6 TIMESTAMP(6) NULL, ye YEAR,
    gv INT GENERATED ALWAYS AS (i1 + 1) VIRTUAL, gs INT GENERATED ALWAYS AS (i1 + 2) STORED, inv INT INVISIBLE";

const ROWS: &[&str] = &[
    "t1 = -128, t2 = 1, t3 = 255, s1 = -32768, s2 = 65535, m1 = -8388608, m2 = 16777215, i1 = -2147483648,
     i2 = 4294967295, b1 = -9223372036854775808, b2 = 18446744073709551615, f = 0.1, d = -1.7e308, c1 = 'é ',
     v1 = '漢😀', v2 = 'é', x = 'ß', y = 'ÿ', vb = x'00FF00', bl = x'00', bit1 = 1, bit9 = 257, bit64 = 0x8000000000000001,
     en = 'b', st = 'a,c', da = '2024-02-29', ti = '-838:59:59', ti6 = '-00:00:00.000001', dt = '9999-12-31 23:59:59',
     dt3 = '2024-01-01 00:00:00.001', ts = '2038-01-19 03:14:07', ts6 = '2024-03-31 02:30:00.000001', ye = 2155, inv = 7",
    "t1 = 0, t2 = -1, f = -3.4e38, d = 0, c1 = '', v1 = '', v2 = '', x = '', vb = '', bl = '', en = '', st = '',
     da = '0000-00-00', ti = '00:00:00', ti6 = '838:59:59', dt = '0000-00-00', dt3 = '2024-00-00 01:02:03.4',
     ts = '0000-00-00', ts6 = '1970-01-01 00:00:01', ye = 0, bit1 = 0, bit9 = 0, bit64 = 0, i1 = 0",
    "i1 = 5",
];

/// The rows of the next rows event on the table, in the same form as those of the reader, and
/// whether the model agrees with the event's table map.
async fn rows_of_event(dump: &mut Dump, model: &TableModel) -> Result<Vec<String>> {
    let mut map = None;
    loop {
        match Event::parse(&next(dump).await?)? {
            Event::TableMap(event) => {
                let parsed = TableMap::parse(event.body)?;
                if parsed.table == model.name.table && parsed.database == model.name.database {
                    map = Some((event.table_id, parsed));
                }
            }
            Event::Rows(rows) => {
                let Some((id, map)) = &map else { continue };
                if *id != rows.table_id {
                    continue;
                }
                check_map(model, map)?;
                let reader = RowReader::new(map);
                let mut images = rows.images;
                let mut all = Vec::new();
                while !images.is_empty() {
                    let mut cells: Vec<Cell<'_>> = Vec::new();
                    reader.read_row(&mut images, |_, cell| {
                        cells.push(cell);
                        Ok::<(), DecodeError>(())
                    })?;
                    all.push(format!("{cells:?}"));
                }
                return Ok(all);
            }
            _ => {}
        }
    }
}

#[test]
fn the_reader_gives_the_cells_that_the_binlog_gives() {
    run(async {
        let fixture = Servers::shared().await?.fixture("cells").await?;
        let mysql = &fixture.servers.mysql;
        fixture.source(&format!("SET sql_mode = ''; CREATE TABLE a ({TYPES})")).await?;
        let mut conn = connect(&config(mysql)).await?;
        let mut reads = connect::session(&config(mysql)).await?;
        let model = model(&mut conn, &name(&fixture, "a")).await?;
        let mut dump = Dump::open(&config(mysql), &replica_uuid(), &executed(mysql).await?).await?;
        let mut session = fixture.source_session().await?;
        session.exec("SET sql_mode = '', time_zone = '+00:00'").await?;
        let mut expected = Vec::new();
        for row in ROWS {
            session.exec(&format!("INSERT INTO a SET {row}")).await?;
            expected.extend(rows_of_event(&mut dump, &model).await?);
        }
        expected.sort();
        let read = read_whole(&mut reads, &model).await?;
        ensure!(read == expected, "\n{read:#?}\n{expected:#?}");
        Ok(())
    });
}

/// What no two encodings share: DECIMAL and JSON are text here, BINARY is not cut.
#[test]
fn decimals_documents_and_fixed_binaries_are_as_sql_shows_them() {
    run(async {
        let fixture = Servers::shared().await?.fixture("text").await?;
        fixture
            .source(
                "CREATE TABLE a (d DECIMAL(20,5), j JSON, b BINARY(4), s SET('1','2','3','4','5','6','7','8','9','10','11','12',
                     '13','14','15','16','17','18','19','20','21','22','23','24','25','26','27','28','29','30','31','32','33',
                     '34','35','36','37','38','39','40','41','42','43','44','45','46','47','48','49','50','51','52','53','54',
                     '55','56','57','58','59','60','61','62','63','64'));
                 INSERT INTO a VALUES (-1.5, '{\"é\": [1.50, \"漢\"]}', x'0001', 18446744073709551614)",
            )
            .await?;
        let mut conn = connect(&config(&fixture.servers.mysql)).await?;
        let model = model(&mut conn, &name(&fixture, "a")).await?;
        ensure!(!chunk::is_divisible(&model));
        let mut session = connect::session(&config(&fixture.servers.mysql)).await?;
        let mut rows = chunk::read(&mut session, &model, None, None).await?;
        let row = rows.next().await?.context("a row")?;
        let cells: Result<Vec<_>, _> = row.cells().collect();
        let expected = [
            Cell::DecimalText(b"-1.50000"),
            Cell::JsonText("{\"é\": [1.5, \"漢\"]}".as_bytes()),
            Cell::Bytes(&[0, 1, 0, 0]),
            Cell::Set(0xFFFF_FFFF_FFFF_FFFE),
        ];
        ensure!(cells? == expected);
        Ok(())
    });
}

#[test]
fn definitions_agree_with_the_servers_own_table_maps() {
    run(async {
        let fixture = Servers::shared().await?.fixture("definitions").await?;
        let mysql = &fixture.servers.mysql;
        let tables = [
            ("primary_reversed", "a INT, b INT, PRIMARY KEY (b, a)"),
            ("primary_prefix", "a INT, b TEXT, PRIMARY KEY (b(5), a)"),
            (
                "unique_second",
                "a INT NOT NULL, b INT NOT NULL, c INT, UNIQUE z (c), UNIQUE y (b), UNIQUE x (a)",
            ),
            ("unique_prefix", "a VARCHAR(9) NOT NULL, b INT NOT NULL, UNIQUE (a(2)), UNIQUE (b)"),
            ("unique_expression", "a INT NOT NULL, b INT NOT NULL, UNIQUE ((a + 1)), UNIQUE (b)"),
            ("unique_twice", "a INT NOT NULL, b INT NOT NULL, UNIQUE p (b, a), UNIQUE q (a, b)"),
            ("unique_partly_null", "a INT NOT NULL, b INT, UNIQUE (a, b)"),
            (
                "with_generated",
                "a INT PRIMARY KEY, b INT AS (a) VIRTUAL, c INT AS (a) STORED, d INT DEFAULT (a), KEY ((a * 2))",
            ),
            ("keyless", "a INT, KEY (a)"),
        ];
        let mut conn = connect(&config(mysql)).await?;
        let mut dump = Dump::open(&config(mysql), &replica_uuid(), &executed(mysql).await?).await?;
        let mut session = fixture.source_session().await?;
        // Columns without a default take the one of their type.
        session.exec("SET sql_mode = ''").await?;
        for (table, columns) in tables {
            session
                .exec(&format!("CREATE TABLE {table} ({columns}); INSERT INTO {table} (a) VALUES (1)"))
                .await?;
            let model = model(&mut conn, &name(&fixture, table)).await?;
            rows_of_event(&mut dump, &model).await.with_context(|| table.to_owned())?;
        }
        session.exec("SET sql_generate_invisible_primary_key = 1; CREATE TABLE gipk (a INT); INSERT INTO gipk VALUES (1)").await?;
        let gipk = model(&mut conn, &name(&fixture, "gipk")).await?;
        rows_of_event(&mut dump, &gipk).await?;
        ensure!(gipk.key == [0] && gipk.columns[0].auto_increment && gipk.columns[0].name == "my_row_id");
        let generated = model(&mut conn, &name(&fixture, "with_generated")).await?;
        let flags: Vec<bool> = generated.columns.iter().map(|column| column.generated).collect();
        ensure!(flags == [false, true, true, false]);
        Ok(())
    });
}

#[test]
fn tables_are_base_tables_of_the_filter() {
    run(async {
        let fixture = Servers::shared().await?.fixture("listing").await?;
        fixture
            .source("CREATE TABLE b (id INT PRIMARY KEY); CREATE TABLE a (id INT); CREATE TABLE tmp_x (id INT); CREATE VIEW v AS SELECT * FROM a")
            .await?;
        let mut conn = connect(&config(&fixture.servers.mysql)).await?;
        let database = &fixture.source;
        let filter = Filter::new(&[format!("{database}.*")], &[format!("{database}.tmp_*")])?;
        let types = Overrides::default();
        let names: Vec<String> = reader::tables(&mut conn, &filter, &types)
            .await?
            .into_iter()
            .map(|model| model.name.table)
            .collect();
        ensure!(names == ["a", "b"], "{names:?}");
        ensure!(reader::table(&mut conn, &name(&fixture, "v"), &types).await?.is_none());
        ensure!(reader::table(&mut conn, &name(&fixture, "missing"), &types).await?.is_none());
        fixture.source("CREATE TABLE g (id INT PRIMARY KEY, g ENUM('a\\0'))").await?;
        let Err(Failure::Halt(halt)) = reader::tables(&mut conn, &filter, &types).await else {
            bail!("a label with NUL")
        };
        ensure!(halt.reason == Reason::UnsupportedType && halt.table == Some(format!("{database}.g")));
        Ok(())
    });
}

#[test]
fn a_definition_that_changes_while_it_is_read_is_one_or_the_other() {
    const THERE: &str =
        "ALTER TABLE t DROP PRIMARY KEY, DROP COLUMN a, ADD COLUMN b INT PRIMARY KEY COMMENT 'b'";
    const BACK: &str =
        "ALTER TABLE t DROP PRIMARY KEY, DROP COLUMN b, ADD COLUMN a INT PRIMARY KEY COMMENT 'a'";
    run(async {
        let fixture = Servers::shared().await?.fixture("moving").await?;
        fixture
            .source("CREATE TABLE t (s ENUM('x', '\\ü') CHARACTER SET latin1, a INT PRIMARY KEY COMMENT 'a')")
            .await?;
        let mut conn = connect(&config(&fixture.servers.mysql)).await?;
        let name = name(&fixture, "t");
        let changes = async {
            let mut session = fixture.source_session().await?;
            for _ in 0..25 {
                session.exec(THERE).await?;
                session.exec(BACK).await?;
            }
            anyhow::Ok(())
        };
        let mut changes = std::pin::pin!(changes);
        loop {
            let read = async {
                let model = model(&mut conn, &name).await?;
                let columns: Vec<&str> = model.columns.iter().map(|column| column.name.as_str()).collect();
                let whole = ["a", "b"].iter().any(|key| {
                    columns == ["s", key] && model.key == [1] && model.columns[1].details.comment == *key
                });
                ensure!(whole, "{columns:?} {:?}", model.key);
                Ok(())
            };
            tokio::select! {
                biased;
                done = &mut changes => return done,
                read = read => read?,
            }
        }
    });
}

#[test]
fn ddl_under_the_view_is_noticed() {
    run(async {
        let fixture = Servers::shared().await?.fixture("view").await?;
        let mut conn = connect(&config(&fixture.servers.mysql)).await?;
        let mut session = connect::session(&config(&fixture.servers.mysql)).await?;
        for (table, ddl) in [
            ("a", "ALTER TABLE a ADD COLUMN x INT"),
            ("b", "TRUNCATE b"),
            ("c", "DROP TABLE c"),
            ("d", "ALTER TABLE d RENAME COLUMN v TO w"),
        ] {
            fixture
                .source(&format!(
                    "CREATE TABLE {table} (id INT PRIMARY KEY, v INT); INSERT INTO {table} VALUES (1, 1)"
                ))
                .await?;
            let model = model(&mut conn, &name(&fixture, table)).await?;
            session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
            fixture.source(ddl).await?;
            let read = async {
                let mut rows = chunk::read(&mut session, &model, None, None).await?;
                while rows.next().await?.is_some() {}
                Ok::<(), chunk::ReadError>(())
            };
            ensure!(read.await == Err(chunk::ReadError::TableChanged), "{ddl}");
            session.execute("ROLLBACK").await?;
        }
        Ok(())
    });
}

#[test]
fn what_the_data_of_a_tinyint_is() {
    run(async {
        let fixture = Servers::shared().await?.fixture("zero_one").await?;
        let mut conn = connect(&config(&fixture.servers.mysql)).await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY, b TINYINT(1), c TINYINT(1))").await?;
        let table = name(&fixture, "a");
        ensure!(!reader::only_zero_one(&mut conn, &table, "b").await?, "an empty table tells nothing");
        fixture.source("INSERT INTO a VALUES (1, 0, 0), (2, 1, 2), (3, NULL, NULL)").await?;
        ensure!(reader::only_zero_one(&mut conn, &table, "b").await?);
        ensure!(!reader::only_zero_one(&mut conn, &table, "c").await?);
        let mut session = connect::session(&config(&fixture.servers.mysql)).await?;
        ensure!(chunk::only_zero_one(&mut session, &table, "b").await?);
        ensure!(!chunk::only_zero_one(&mut session, &table, "c").await?);
        Ok(())
    });
}

/// Settings that would change results are those of our session, whatever the server's.
#[test]
fn a_servers_defaults_change_nothing() {
    run(async {
        let mysql = MySql::start_new(&[
            "--default-time-zone=+05:30",
            "--sql-mode=ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES",
            "--character-set-server=latin1",
            "--wait-timeout=1",
            "--max-execution-time=1",
            "--transaction-isolation=READ-COMMITTED",
        ])
        .await?;
        mysql
            .exec(
                "",
                "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, ts TIMESTAMP, c CHAR(9));
                 SET time_zone = '+00:00';
                 INSERT INTO t.a VALUES (1, '2024-01-01 00:00:00', 'x'), (2, '2024-01-01 00:00:00', 'x');
                 SET GLOBAL sql_select_limit = 1",
            )
            .await?;
        let mut conn = connect(&config(&mysql)).await?;
        let mut session = connect::session(&config(&mysql)).await?;
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let table = TableName { database: "t".to_owned(), table: "a".to_owned() };
        let model = model(&mut conn, &table).await?;
        let rows = read_whole(&mut session, &model).await?;
        let row = |id: i64| {
            let timestamp = Cell::Timestamp { seconds: 1_704_067_200, micros: 0 };
            format!("{:?}", [Cell::Int(id), timestamp, Cell::Bytes(b"x")])
        };
        ensure!(rows == [row(1), row(2)], "{rows:?}");
        let isolation = session.value("SELECT @@transaction_isolation").await?;
        ensure!(isolation.as_deref() == Some("REPEATABLE-READ"));
        let clock = i128::from(reader::now_micros(&mut conn).await?);
        let ours = i128::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed()?.as_micros())?;
        ensure!((clock - ours).abs() < 5_000_000);
        Ok(())
    });
}
