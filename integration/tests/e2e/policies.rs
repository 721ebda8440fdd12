//! Values that PostgreSQL can't hold: each kind and policy through the copy, the stream and a death
//! in between, with the ledger's counts.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tidegate_integration::wait::{Look, until};
use tidegate_integration::{Fixture, Servers, Tidegate, run};

/// Under it the source stores zero dates, which it else refuses.
const LENIENT: &str = "SET sql_mode = '', time_zone = '+00:00'";

const TABLE: &str = "CREATE TABLE v (id INT PRIMARY KEY, d DATE NOT NULL, dt DATETIME(3) NOT NULL,
    ts TIMESTAMP NOT NULL DEFAULT '0000-00-00 00:00:00', p DATE, y DATE NOT NULL, r DATE NOT NULL,
    rdt DATETIME(3) NOT NULL, t VARCHAR(20) NOT NULL, n TEXT NOT NULL, j JSON NOT NULL, jn JSON NOT NULL,
    flag TINYINT(1) NOT NULL)";

/// The columns that don't have the default policies.
const POLICIES: &[(&str, &str, &str)] = &[
    ("y", "year_zero", "replace"),
    ("r", "zero_date", "replace"),
    ("r", "partial_date", "replace"),
    ("rdt", "zero_date", "replace"),
    ("rdt", "partial_date", "replace"),
    ("t", "nul_text", "replace"),
    ("n", "nul_text", "null"),
    ("j", "nul_json", "replace"),
    ("jn", "nul_json", "null"),
];

/// Three rows: none, all and other kinds.
fn rows(id: usize) -> String {
    let none =
        "'2021-01-02', '2021-01-02 03:04:05.678', '2021-01-02', '2021-04-05', '2021-01-02', '2021-01-02',
        '2021-01-02 03:04:05', 'plain', 'plain', '{\"a\": 1}', '[1]', 1";
    let zero = "'0000-00-00', '0000-00-00', '0000-00-00', '2021-00-17', '0000-05-06', '0000-00-00',
        '0000-00-00', 'a\\0b', 'a\\0b', '{\"a\": \"x\\\\u0000\"}', '[\"\\\\u0000\"]', 0";
    let partial =
        "'2021-04-00', '2021-00-17 09:08:07.123', '0000-00-00', '0000-00-00', '0000-12-31', '2021-00-00',
        '2021-00-17 09:08:07.123', '\\0\\0', '\\0', '{\"\\\\u0000\": 2}', '{\"\\\\u0000\": 2}', 1";
    format!("INSERT INTO v VALUES ({id}, {none}), ({}, {zero}), ({}, {partial})", id + 1, id + 2)
}

/// What the three rows are on the target.
const STORED: [[Option<&str>; 12]; 3] = [
    [
        Some("2021-01-02"),
        Some("2021-01-02 03:04:05.678"),
        Some("2021-01-02 00:00:00+00"),
        Some("2021-04-05"),
        Some("2021-01-02"),
        Some("2021-01-02"),
        Some("2021-01-02 03:04:05"),
        Some("plain"),
        Some("plain"),
        Some("{\"a\": 1}"),
        Some("[1]"),
        Some("1"),
    ],
    [
        None,
        None,
        None,
        None,
        Some("0001-05-06 BC"),
        Some("-infinity"),
        Some("-infinity"),
        Some("a\u{fffd}b"),
        None,
        Some("{\"a\": \"x\u{fffd}\"}"),
        None,
        Some("0"),
    ],
    [
        None,
        None,
        None,
        None,
        Some("0001-12-31 BC"),
        Some("2021-01-01"),
        Some("2021-01-17 09:08:07.123"),
        Some("\u{fffd}\u{fffd}"),
        None,
        Some("{\"\u{fffd}\": 2}"),
        None,
        Some("1"),
    ],
];

/// Column, kind and policy of what every three rows use, and how often.
const USED: &[(&str, &str, &str, i64)] = &[
    ("d", "partial_date", "null", 1),
    ("d", "zero_date", "null", 1),
    ("dt", "partial_date", "null", 1),
    ("dt", "zero_date", "null", 1),
    ("j", "nul_json", "replace", 2),
    ("jn", "nul_json", "null", 2),
    ("n", "nul_text", "null", 2),
    ("p", "partial_date", "null", 1),
    ("p", "zero_date", "null", 1),
    ("r", "partial_date", "replace", 1),
    ("r", "zero_date", "replace", 1),
    ("rdt", "partial_date", "replace", 1),
    ("rdt", "zero_date", "replace", 1),
    ("t", "nul_text", "replace", 2),
    ("ts", "zero_date", "null", 2),
    ("y", "year_zero", "replace", 2),
];

async fn lenient(fixture: &Fixture<'_>, sql: &str) -> Result<()> {
    let mut session = fixture.source_session().await?;
    session.exec(LENIENT).await?;
    session.exec(sql).await?;
    session.close().await
}

fn policies(fixture: &Fixture<'_>, table: &str, of: &[(&str, &str, &str)]) -> Vec<(String, toml::Table)> {
    let mut columns: Vec<(String, toml::Table)> = Vec::new();
    for (column, kind, policy) in of {
        let key = format!("policies.{}.{table}.{column}", fixture.source);
        if columns.last().is_none_or(|(last, _)| *last != key) {
            columns.push((key, toml::Table::new()));
        }
        let (_, policies) = columns.last_mut().expect("pushed");
        policies.insert((*kind).to_owned(), (*policy).into());
    }
    columns
}

async fn assert_rows(fixture: &Fixture<'_>, first: usize) -> Result<()> {
    let sql = format!(
        "SELECT d::text, dt::text, (ts AT TIME ZONE 'UTC')::text || '+00', p::text, y::text, r::text, rdt::text, t, n,
            j::text, jn::text, flag::int::text FROM v WHERE id BETWEEN {first} AND {} ORDER BY id",
        first + 2
    );
    let rows = fixture.target_rows(&sql).await?;
    let expected: Vec<Vec<Option<String>>> =
        STORED.iter().map(|row| row.iter().map(|text| text.map(str::to_owned)).collect()).collect();
    ensure!(rows == expected, "rows from {first}: {rows:?}");
    Ok(())
}

/// The ledger without what is said of a boolean.
async fn ledger(fixture: &Fixture<'_>, columns: &str) -> Result<Vec<Vec<Option<String>>>> {
    let sql = format!(
        "SELECT source_column, kind, policy, {columns} FROM tidegate.conversion WHERE kind <> 'beyond_boolean'
         ORDER BY source_column, kind"
    );
    fixture.target_rows(&sql).await
}

async fn assert_used(fixture: &Fixture<'_>, times: i64) -> Result<()> {
    let expected: Vec<Vec<Option<String>>> = USED
        .iter()
        .map(|(column, kind, policy, uses)| {
            let count = (uses * times).to_string();
            [*column, *kind, *policy, &count, &count].map(|text| Some(text.to_owned())).to_vec()
        })
        .collect();
    let found = ledger(fixture, "uses::text, keys::text").await?;
    ensure!(found == expected, "after {times} times: {found:?}");
    Ok(())
}

#[test]
fn every_policy_gives_the_same_by_copy_stream_and_after_a_death() {
    run(async {
        let fixture = Servers::shared().await?.fixture("policies").await?;
        lenient(&fixture, &format!("{TABLE}; {}", rows(1))).await?;
        let mut config = fixture.config();
        for (key, value) in policies(&fixture, "v", POLICIES) {
            config.put(&key, value);
        }
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        assert_rows(&fixture, 1).await?;
        assert_used(&fixture, 1).await?;
        let nullable = "SELECT string_agg(attname, ',' ORDER BY attname) FROM pg_attribute
            WHERE attrelid = 'v'::regclass AND attnum > 0 AND NOT attnotnull";
        let dropped = fixture.target_scalar(nullable).await?;
        ensure!(dropped.as_deref() == Some("d,dt,jn,n,p,ts"), "nullable: {dropped:?}");

        lenient(&fixture, &rows(101)).await?;
        tidegate.caught_up(&fixture).await?;
        assert_rows(&fixture, 101).await?;
        assert_used(&fixture, 2).await?;
        tidegate.kill().await?;
        lenient(&fixture, &rows(201)).await?;
        tidegate.launch(&[]).await?;
        tidegate.caught_up(&fixture).await?;
        assert_rows(&fixture, 201).await?;
        assert_used(&fixture, 3).await?;

        // A row that goes and one that is mended hold their values no longer. What is written again
        // is converted again.
        lenient(
            &fixture,
            "DELETE FROM v WHERE id = 2; UPDATE v SET id = 102, d = '2001-01-01' WHERE id = 102;
             UPDATE v SET t = 'still' WHERE id = 202",
        )
        .await?;
        tidegate.caught_up(&fixture).await?;
        let entry = "SELECT uses::text, keys::text, first_use, last_use LIKE '%:%' AS streamed
            FROM tidegate.conversion WHERE source_column = 'd' AND kind = 'zero_date'";
        let entry = fixture.target_rows(entry).await?;
        let expected = ["4", "1", "copy", "t"].map(|text| Some(text.to_owned())).to_vec();
        ensure!(entry == [expected], "{entry:?}");
        let status = tidegate.status().await?;
        let of_d = status["conversions"].as_array().into_iter().flatten();
        let of_d: Vec<&Value> =
            of_d.filter(|entry| entry["column"] == "d" && entry["kind"] == "zero_date").collect();
        ensure!(of_d.len() == 1 && of_d[0]["uses"] == 4 && of_d[0]["keys"] == 1, "{of_d:?}");
        let log = tidegate.log()?;
        ensure!(log.contains("no longer NOT NULL"), "the log does not tell of it: {log}");
        Ok(())
    });
}

#[test]
fn a_boolean_that_is_none_widens_its_column_in_the_same_commit() {
    run(async {
        let fixture = Servers::shared().await?.fixture("widens").await?;
        fixture
            .source("CREATE TABLE b (id INT PRIMARY KEY, flag TINYINT(1) NOT NULL, other TINYINT(1)); INSERT INTO b VALUES (1, 0, NULL), (2, 1, 0)")
            .await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.target("ALTER TABLE b ALTER COLUMN flag SET DEFAULT true").await?;
        fixture
            .source("INSERT INTO b VALUES (3, 2, 1); INSERT INTO b VALUES (4, -128, 0); UPDATE b SET flag = 127 WHERE id = 2")
            .await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        tidegate.kill().await?;
        fixture.source("DELETE FROM b WHERE id = 1; INSERT INTO b VALUES (5, 1, NULL)").await?;
        tidegate.launch(&[]).await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let types =
            "SELECT string_agg(format_type(atttypid, atttypmod), ',' ORDER BY attnum) FROM pg_attribute
            WHERE attrelid = 'b'::regclass AND attnum > 1 AND NOT attisdropped";
        let types = fixture.target_scalar(types).await?;
        ensure!(types.as_deref() == Some("smallint,boolean"), "{types:?}");
        let entry = "SELECT source_column, kind, policy, uses::text FROM tidegate.conversion";
        let expected = ["flag", "beyond_boolean", "widen", "1"].map(|text| Some(text.to_owned())).to_vec();
        let entries = fixture.target_rows(entry).await?;
        ensure!(entries == [expected], "{entries:?}");
        fixture.target("INSERT INTO b (id) VALUES (99)").await?;
        let default = fixture.target_scalar("SELECT flag::text FROM b WHERE id = 99").await?;
        ensure!(default.as_deref() == Some("1"), "the default is {default:?}");
        Ok(())
    });
}

/// Chunks that died and were copied again count once, and parallel chunks change a column once.
#[test]
fn a_copy_that_dies_counts_each_value_once() {
    run(async {
        let fixture = Servers::shared().await?.fixture("counted").await?;
        lenient(
            &fixture,
            "SET cte_max_recursion_depth = 100000;
             CREATE TABLE c (id INT PRIMARY KEY, d DATE NOT NULL, e DATETIME NOT NULL, filler VARCHAR(200));
             INSERT INTO c WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
                SELECT i, IF(i % 3 = 0, '0000-00-00', '2020-02-02'), IF(i % 5 = 0, '2020-00-01', '2020-02-02'),
                    REPEAT('x', 200) FROM n",
        )
        .await?;
        let config = fixture.config().set("snapshot.chunk_rows", 200).set("snapshot.parallelism", 3);
        let tidegate = Tidegate::prepare(config)?;
        let mut seen = 0_u64;
        for _ in 0..3 {
            tidegate.launch(&[]).await?;
            seen = until("more chunks are copied", async || {
                let sql = "SELECT coalesce(max(rows_copied), 0)::text FROM tidegate.table_state";
                let rows: u64 = match fixture.target_scalar(sql).await {
                    Ok(rows) => rows.context("a count")?.parse()?,
                    Err(_) => return Ok(Look::NotYet("no control schema".to_owned())),
                };
                Ok(if rows > seen { Look::Done(rows) } else { Look::NotYet(format!("{rows} rows")) })
            })
            .await?;
            tidegate.kill().await?;
        }
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        let nulls = "SELECT (count(*) - count(d))::text, (count(*) - count(e))::text FROM c";
        let nulls = fixture.target_rows(nulls).await?;
        ensure!(nulls == [vec![Some("10000".to_owned()), Some("6000".to_owned())]], "{nulls:?}");
        let counts = ledger(&fixture, "uses::text, keys::text, last_use").await?;
        let expected = [
            ["d", "zero_date", "null", "10000", "10000", "copy"],
            ["e", "partial_date", "null", "6000", "6000", "copy"],
        ];
        let expected = expected.map(|row| row.map(|text| Some(text.to_owned())).to_vec());
        ensure!(counts == expected, "{counts:?}");
        Ok(())
    });
}

#[test]
fn a_key_is_converted_only_where_keys_stay_apart() {
    run(async {
        let fixture = Servers::shared().await?.fixture("on_key").await?;
        lenient(
            &fixture,
            "CREATE TABLE k (d DATE PRIMARY KEY, v INT); INSERT INTO k VALUES ('2020-02-02', 1);
             CREATE TABLE u (id INT PRIMARY KEY, d DATE, UNIQUE KEY (d)); INSERT INTO u VALUES (1, '2021-01-17')",
        )
        .await?;
        let mut tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        lenient(&fixture, "INSERT INTO k VALUES ('0000-00-00', 2)").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "conversion_on_key", "{halt}");
        ensure!(halt["detail"].as_str().is_some_and(|detail| detail.contains("`d`")), "{halt}");
        tidegate.stop().await?;
        for (key, value) in policies(&fixture, "k", &[("d", "zero_date", "replace")]) {
            tidegate.config.put(&key, value);
        }
        tidegate.launch(&[]).await?;
        tidegate.caught_up(&fixture).await?;
        lenient(&fixture, "UPDATE k SET v = 3 WHERE v = 2").await?;
        tidegate.caught_up(&fixture).await?;
        let rows = fixture.target_rows("SELECT d::text, v::text FROM k ORDER BY k.d").await?;
        let expected = [["-infinity", "3"], ["2020-02-02", "1"]];
        ensure!(rows == expected.map(|row| row.map(|text| Some(text.to_owned())).to_vec()), "{rows:?}");

        // Another unique index takes NULLs, but no second row of one day.
        for policy in ["replace", "null"] {
            tidegate.stop().await?;
            for (key, value) in policies(&fixture, "u", &[("d", "partial_date", policy)]) {
                tidegate.config.put(&key, value);
            }
            tidegate.launch(&[]).await?;
            if policy == "replace" {
                tidegate.wait_state("streaming").await?;
                lenient(&fixture, "INSERT INTO u VALUES (2, '2021-00-17'), (3, '2021-01-00')").await?;
                let halt = tidegate.wait_halt().await?;
                ensure!(halt["reason"] == "conversion_on_key", "{halt}");
                ensure!(
                    halt["detail"].as_str().is_some_and(|detail| detail.contains("unique index")),
                    "{halt}"
                );
            }
        }
        tidegate.caught_up(&fixture).await?;
        let rows = fixture
            .target_scalar("SELECT string_agg(concat_ws(' ', id, d), ', ' ORDER BY id) FROM u")
            .await?;
        ensure!(rows.as_deref() == Some("1 2021-01-17, 2, 3"), "{rows:?}");
        Ok(())
    });
}

#[test]
fn policies_for_what_is_not_there_are_refused_by_name() {
    run(async {
        let fixture = Servers::shared().await?.fixture("misnamed").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY, d DATE, n INT)").await?;
        let mut config = fixture.config();
        for (key, value) in
            policies(&fixture, "t", &[("missing", "zero_date", "null"), ("n", "nul_text", "null")])
        {
            config.put(&key, value);
        }
        let tidegate = Tidegate::start(config).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "policy_invalid", "{halt}");
        let detail = halt["detail"].as_str().unwrap_or_default();
        ensure!(detail.contains("t.missing") && detail.contains("nul_text"), "{detail}");
        tidegate.stop().await?;
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(4) && check.stdout.contains("t.missing"), "{}", check.stdout);

        let mut config = fixture.config();
        for (key, value) in
            policies(&fixture, "t", &[("d", "zero_dates", "null"), ("n", "nul_text", "widen")])
        {
            config.put(&key, value);
        }
        let check = Tidegate::prepare(config)?.cli(&["check"]).await?;
        ensure!(check.code == Some(2), "{:?}", check.code);
        ensure!(check.stderr.contains("zero_dates") && check.stderr.contains("nul_text"), "{}", check.stderr);
        Ok(())
    });
}

#[test]
fn the_data_is_counted_before_the_first_copy() {
    run(async {
        let fixture = Servers::shared().await?.fixture("counts").await?;
        lenient(
            &fixture,
            "CREATE TABLE parent (id INT PRIMARY KEY);
             CREATE TABLE child (id INT PRIMARY KEY, parent INT, note VARCHAR(40), j JSON, d DATE NOT NULL, f TINYINT(1),
                CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES parent (id));
             CREATE TABLE dates (d DATE PRIMARY KEY);
             SET foreign_key_checks = 0;
             INSERT INTO child VALUES (1, NULL, 'canary\\0a', '[\"canary\\\\u0000\"]', '0000-00-00', 7), (2, 5, 'fine', '[]', '2020-00-01', 0),
                (3, 6, 'canary\\0b', NULL, '0000-01-01', 1);
             INSERT INTO dates VALUES ('0000-00-00')",
        )
        .await?;
        let tidegate = Tidegate::prepare(fixture.config().set("snapshot.chunk_rows", 100))?;
        let check = tidegate.cli(&["check", "--data", "--json"]).await?;
        ensure!(check.code == Some(4), "{}{}", check.stdout, check.stderr);
        let shown = format!("{}{}", check.stdout, check.stderr);
        ensure!(!shown.contains("canary"), "values are shown: {shown}");
        ensure!(check.stderr.contains("child: 3 rows read"), "no progress: {}", check.stderr);
        let report: Value = serde_json::from_str(&check.stdout)?;
        let found: Vec<Value> = report["data"]
            .as_array()
            .context("no data")?
            .iter()
            .map(|one| json!([one["column"], one["kind"], one["rows"], one["outcome"]]))
            .collect();
        let expected = [
            json!(["note", "nul_text", 2, "halts"]),
            json!(["j", "nul_json", 1, "halts"]),
            json!(["d", "zero_date", 1, "null"]),
            json!(["d", "partial_date", 1, "null"]),
            json!(["d", "year_zero", 1, "halts"]),
            json!(["f", "beyond_boolean", 1, "smallint"]),
            json!(["of_parent", "orphan", 2, "stored"]),
            json!(["d", "zero_date", 1, "halts"]),
        ];
        ensure!(found == expected, "{found:?}");
        // What is proposed lets a run through.
        let text = tidegate.cli(&["check", "--data"]).await?.stdout;
        ensure!(text.contains("nul_text = \"replace\"") && text.contains("2 rows"), "{text}");
        let mut config = fixture.config();
        let mut proposed = 0;
        for lines in report["data"].as_array().into_iter().flatten().filter_map(|one| one["config"].as_str())
        {
            let table: toml::Table = lines.parse()?;
            for (column, policies) in table["policies"].as_table().context("a section")? {
                let mut own = policies.as_table().context("a table")?.clone();
                if column.ends_with("child.d") {
                    own.insert("zero_date".to_owned(), "null".into());
                }
                config.put(&format!("policies.{column}"), own);
                proposed += 1;
            }
        }
        ensure!(proposed == 4, "{proposed} proposals");
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        let check = tidegate.cli(&["check", "--data"]).await?;
        ensure!(check.code == Some(0), "{}{}", check.stdout, check.stderr);
        Ok(())
    });
}

#[test]
fn the_ledger_follows_names_and_goes_with_what_it_is_about() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("ledger_names").await?;
        let rows = "INSERT INTO a VALUES (1, '0000-00-00', '0000-00-00'), (2, '0000-00-00', NULL);
            INSERT INTO b VALUES (1, '0000-00-00'); INSERT INTO c VALUES (1, '0000-00-00')";
        fixture
            .source(&format!(
                "{LENIENT}; CREATE TABLE a (id INT PRIMARY KEY, d DATE, e DATE); CREATE TABLE b (id INT PRIMARY KEY, d DATE);
                 CREATE TABLE c (id INT PRIMARY KEY, d DATE); {rows}"
            ))
            .await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        for (change, expected) in [
            (
                "ALTER TABLE a RENAME COLUMN d TO e, RENAME COLUMN e TO d",
                "a.d 1 1; a.e 2 2; b.d 1 1; c.d 1 1",
            ),
            ("RENAME TABLE a TO x, b TO a, x TO b", "a.d 1 1; b.d 1 1; b.e 2 2; c.d 1 1"),
            ("DELETE FROM b WHERE id = 2", "a.d 1 1; b.d 1 1; b.e 2 1; c.d 1 1"),
            ("ALTER TABLE b DROP COLUMN d", "a.d 1 1; b.e 2 1; c.d 1 1"),
            ("DROP TABLE a; RENAME TABLE c TO a", "a.d 1 1; b.e 2 1"),
            ("TRUNCATE TABLE a", "a.d 1 0; b.e 2 1"),
        ] {
            fixture.source(change).await?;
            tidegate.caught_up(&fixture).await?;
            let stored =
                "SELECT string_agg(concat(source_table, '.', source_column, ' ', uses, ' ', keys), '; '
                ORDER BY source_table, source_column) FROM tidegate.conversion";
            let stored = fixture.target_scalar(stored).await?;
            ensure!(stored.as_deref() == Some(expected), "after {change}: {stored:?}");
            // Published after the commit.
            until("the status to tell the ledger", || async {
                let status = tidegate.status().await?;
                let shown = status["conversions"].as_array().into_iter().flatten();
                let shown: Vec<String> = shown
                    .map(|one| format!("{}.{} {} {}", one["table"], one["column"], one["uses"], one["keys"]))
                    .collect();
                let shown = shown.join("; ").replace('"', "").replace(&format!("{}.", fixture.source), "");
                Ok(if shown == expected { Look::Done(()) } else { Look::NotYet(shown) })
            })
            .await?;
        }
        Ok(())
    });
}
