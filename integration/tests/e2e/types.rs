//! Every converted type at its boundaries: the copy, the stream and a restart between them lead to
//! the same text on the target, and what can't be converted halts by name.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{StreamExt, stream};
use tidegate::schema::charset::Charset;
use tidegate_integration::charsets::sequences;
use tidegate_integration::{Fixture, MySqlSession, Servers, Tidegate, run};

use crate::types_data::{REFUSED_COLUMNS, REFUSED_VALUES, TYPE_TABLES, TypeRow, TypeTable};

/// Under it the source stores zero dates and values that are no label, which it else refuses.
const LENIENT: &str = "SET sql_mode = '', time_zone = '+00:00'";

/// How the target prints the texts that are expected.
const PRINTED: &str =
    "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET IntervalStyle = 'postgres'; SET bytea_output = 'hex'";

/// Pipelines of refusals that run at a time: as many as two cores start without waiting.
const PIPELINES_AT_A_TIME: usize = 6;

/// The ids of rows start here, by the way in which they reach the target.
const COPIED: usize = 0;
const INSERTED: usize = 100;
const UPDATED: usize = 200;
const WRITTEN_WHILE_STOPPED: usize = 300;
const DELETED: usize = 400;
/// What is added to the keys of rows that move.
const MOVED: usize = 5000;

impl TypeTable {
    /// The table with a key, and one of the same columns without any key.
    fn create(&self) -> String {
        let (name, columns) = (self.name, self.definitions());
        format!(
            "CREATE TABLE {name} (id INT PRIMARY KEY, {columns}); CREATE TABLE {name}_keyless ({columns})"
        )
    }

    fn definitions(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        columns.join(", ")
    }

    /// The columns as the target prints them, separated by commas.
    fn texts(&self) -> String {
        let texts: Vec<String> = self.columns.iter().map(|(name, _)| format!("{name}::text")).collect();
        texts.join(", ")
    }

    fn insert(&self, first_id: usize) -> String {
        let rows = self.rows.iter().enumerate();
        let rows: Vec<String> =
            rows.map(|(i, row)| format!("({}, {})", first_id + i, row.values.join(", "))).collect();
        format!("INSERT INTO {} VALUES {}", self.name, rows.join(", "))
    }

    fn insert_keyless(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(|row| format!("({})", row.values.join(", "))).collect();
        format!("INSERT INTO {}_keyless VALUES {}", self.name, rows.join(", "))
    }

    /// Rows of NULLs that become the rows of the table.
    fn update(&self, first_id: usize) -> String {
        let nulls = vec!["NULL"; self.columns.len()].join(", ");
        let mut statements = Vec::new();
        for (i, row) in self.rows.iter().enumerate() {
            let id = first_id + i;
            let sets =
                self.columns.iter().zip(row.values).map(|((name, _), value)| format!("{name} = {value}"));
            let sets: Vec<String> = sets.collect();
            statements.push(format!("INSERT INTO {} VALUES ({id}, {nulls})", self.name));
            statements.push(format!("UPDATE {} SET {} WHERE id = {id}", self.name, sets.join(", ")));
        }
        statements.join("; ")
    }
}

/// Runs statements on every table, in one session that takes any value.
async fn on_every_table(fixture: &Fixture<'_>, sql: impl Fn(&TypeTable) -> String) -> Result<()> {
    let mut session = fixture.source_session().await?;
    session.exec(LENIENT).await?;
    for table in TYPE_TABLES {
        session.exec(&sql(table)).await.with_context(|| format!("table {}", table.name))?;
    }
    session.close().await
}

/// The rows with these ids, and those of the table without a key `keyless_times` over.
async fn assert_rows(
    fixture: &Fixture<'_>,
    table: &TypeTable,
    firsts: &[usize],
    keyless_times: usize,
) -> Result<()> {
    let expected = |row: &TypeRow| -> Vec<Option<String>> {
        row.expected.iter().map(|text| text.map(str::to_owned)).collect()
    };
    let (name, texts) = (table.name, table.texts());
    let target = fixture.target_session().await?;
    target.exec(PRINTED).await?;
    let found = target.rows(&format!("SELECT id, {texts} FROM {name} ORDER BY {name}.id")).await?;
    let mut wanted = Vec::new();
    for first in firsts {
        for (i, row) in table.rows.iter().enumerate() {
            let id = Some((first + i).to_string());
            wanted.push([vec![id], expected(row)].concat());
        }
    }
    ensure!(found == wanted, "{name}:\nfound  {found:?}\nwanted {wanted:?}");
    let mut found = target.rows(&format!("SELECT {texts} FROM {name}_keyless")).await?;
    let mut wanted: Vec<_> = (0..keyless_times).flat_map(|_| table.rows.iter().map(&expected)).collect();
    found.sort();
    wanted.sort();
    ensure!(found == wanted, "{name}_keyless:\nfound  {found:?}\nwanted {wanted:?}");
    Ok(())
}

async fn assert_all_rows(fixture: &Fixture<'_>, firsts: &[usize], keyless_times: usize) -> Result<()> {
    for table in TYPE_TABLES {
        assert_rows(fixture, table, firsts, keyless_times).await?;
    }
    fixture.assert_same().await
}

async fn assert_target_types(fixture: &Fixture<'_>) -> Result<()> {
    for table in TYPE_TABLES {
        let found = fixture
            .target_rows(&format!(
                "SELECT format_type(atttypid, atttypmod) FROM pg_attribute
                 WHERE attrelid = '{}'::regclass AND attnum > 0 AND attname <> 'id' ORDER BY attnum",
                table.name
            ))
            .await?;
        let found: Vec<String> = found.into_iter().flatten().flatten().collect();
        ensure!(found == table.target, "{}: found {found:?}, wanted {:?}", table.name, table.target);
    }
    Ok(())
}

#[test]
fn copy_stream_and_restart_lead_to_one_text() {
    run(async {
        let fixture = Servers::shared().await?.fixture("types").await?;
        on_every_table(&fixture, TypeTable::create).await?;
        on_every_table(&fixture, |table| table.insert(COPIED)).await?;
        on_every_table(&fixture, TypeTable::insert_keyless).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        assert_target_types(&fixture).await?;
        assert_all_rows(&fixture, &[COPIED], 1).await?;

        on_every_table(&fixture, |table| table.insert(INSERTED)).await?;
        on_every_table(&fixture, |table| table.update(UPDATED)).await?;
        on_every_table(&fixture, |table| table.insert(DELETED)).await?;
        on_every_table(&fixture, TypeTable::insert_keyless).await?;
        tidegate.caught_up(&fixture).await?;
        assert_all_rows(&fixture, &[COPIED, INSERTED, UPDATED, DELETED], 2).await?;

        ensure!(tidegate.stop().await? == Some(0), "SIGTERM ends with 0");
        on_every_table(&fixture, |table| table.insert(WRITTEN_WHILE_STOPPED)).await?;
        on_every_table(&fixture, |table| format!("DELETE FROM {} WHERE id >= {DELETED}", table.name)).await?;
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        assert_all_rows(&fixture, &[COPIED, INSERTED, UPDATED, WRITTEN_WHILE_STOPPED], 2).await?;

        // A row without a key is found by the text of all its columns, whichever way it came.
        on_every_table(&fixture, |table| format!("DELETE FROM {}_keyless", table.name)).await?;
        on_every_table(&fixture, |table| format!("DELETE FROM {} WHERE id >= {INSERTED}", table.name))
            .await?;
        tidegate.caught_up(&fixture).await?;
        assert_all_rows(&fixture, &[COPIED], 0).await?;

        // A change of the key is a delete and an insert of the whole row.
        let move_keys =
            |table: &TypeTable| format!("UPDATE {} SET id = id + {MOVED} ORDER BY id DESC", table.name);
        on_every_table(&fixture, move_keys).await?;
        tidegate.caught_up(&fixture).await?;
        assert_all_rows(&fixture, &[COPIED + MOVED], 0).await?;
        fixture.assert_same().await
    });
}

/// How a refused value or column reaches the pipeline.
#[derive(Debug, Clone, Copy)]
enum Way {
    Copy,
    Stream,
}

/// A pipeline over `before` that halts for this reason, at once or by `then`, and names the table.
async fn assert_halts(way: Way, create: &str, fill: &str, reason: &str) -> Result<()> {
    let fixture = Servers::shared().await?.fixture("refused").await?;
    let mut source = fixture.source_session().await?;
    source.exec(LENIENT).await?;
    source.exec("CREATE TABLE bystander (id INT PRIMARY KEY)").await?;
    let tidegate = match way {
        Way::Copy => {
            source.exec(&format!("{create}; {fill}")).await?;
            Tidegate::start(fixture.config()).await?
        }
        Way::Stream => {
            let first = if fill.is_empty() { "DO 0" } else { create };
            source.exec(first).await?;
            let tidegate = Tidegate::start(fixture.config()).await?;
            tidegate.wait_state("streaming").await?;
            source.exec(if fill.is_empty() { create } else { fill }).await?;
            tidegate
        }
    };
    let status = tidegate.wait_status("a halt", |status| status["state"] == "halted").await?;
    let halt = &status["halt"];
    let table = format!("{}.refused", fixture.source);
    if halt["reason"] == "source_preflight" && fill.is_empty() {
        // What is known before anything is copied is told with every other problem, by `check` too.
        let named = halt["detail"].as_str().is_some_and(|detail| detail.contains(&table));
        ensure!(matches!(way, Way::Copy) && named, "{halt}");
    } else {
        ensure!(halt["reason"] == reason && halt["table"] == table, "{halt}");
    }
    ensure!(tidegate.get("/health").await?.status == 503, "halted is not healthy");
    if let Way::Stream = way
        && !fill.is_empty()
    {
        let rows = fixture.target_scalar("SELECT count(*) FROM refused").await?;
        ensure!(rows.as_deref() == Some("0"), "{rows:?} rows of what was refused");
    }
    ensure!(tidegate.stop().await? == Some(3), "stopped while halted");
    Ok(())
}

/// All of them, some at a time; every one that does otherwise is in the error.
async fn assert_all_halt(cases: Vec<(Way, String, String, &'static str)>) -> Result<()> {
    let results: Vec<Result<()>> = stream::iter(cases)
        .map(|(way, create, fill, reason)| async move {
            assert_halts(way, &create, &fill, reason)
                .await
                .with_context(|| format!("{way:?}: {create}; {fill}"))
        })
        .buffer_unordered(PIPELINES_AT_A_TIME)
        .collect()
        .await;
    let failed: Vec<String> = results.into_iter().filter_map(Result::err).map(|e| format!("{e:#}")).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{} cases:\n{}", failed.len(), failed.join("\n"))
}

#[test]
fn refused_values_halt_by_name() {
    run(async {
        let cases = REFUSED_VALUES.iter().flat_map(|refusal| {
            [Way::Copy, Way::Stream].map(|way| {
                let create = format!("CREATE TABLE refused (id INT PRIMARY KEY, v {})", refusal.column);
                let fill = format!("INSERT INTO refused VALUES (1, {})", refusal.value);
                (way, create, fill, refusal.reason)
            })
        });
        assert_all_halt(cases.collect()).await
    });
}

#[test]
fn refused_columns_halt_by_name() {
    run(async {
        let cases = REFUSED_COLUMNS.iter().flat_map(|&(column, reason)| {
            [Way::Copy, Way::Stream].map(|way| {
                let create = format!("CREATE TABLE refused (id INT PRIMARY KEY, v {column})");
                (way, create, String::new(), reason)
            })
        });
        assert_all_halt(cases.collect()).await
    });
}

/// Every character set that the server has: each of its characters is what the server converts it
/// to, and each other sequence of its characters' lengths is refused.
#[test]
fn character_sets_are_converted_as_the_server_does() {
    run(async {
        let fixture = Servers::shared().await?.fixture("charsets").await?;
        let mut session = fixture.source_session().await?;
        let names = session
            .rows("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME <> 'binary'")
            .await?;
        for name in names.into_iter().flatten().flatten() {
            let charset = Charset::from_name(&name).with_context(|| format!("{name} is not converted"))?;
            let maxlen = "SELECT MAXLEN FROM information_schema.CHARACTER_SETS WHERE CHARACTER_SET_NAME";
            let maxlen = session.scalar(&format!("{maxlen} = '{name}'")).await?;
            ensure!(maxlen == Some(charset.max_bytes().to_string()), "{name}: {maxlen:?}");
            if charset.is_unicode() {
                assert_unicode(&mut session, charset).await?;
                continue;
            }
            let mut known = HashMap::new();
            for sequence in sequences(&mut session, &name).await? {
                known.insert(sequence.bytes, sequence.code_point);
            }
            for bytes in candidates(&known, charset.max_bytes()) {
                let expected = known.get(&bytes).copied().flatten().and_then(char::from_u32);
                let found = charset.text(&bytes).ok();
                let same = match (&found, expected) {
                    (None, Some('\0') | None) => true,
                    (Some(text), Some(character)) => text.chars().eq([character]),
                    // Two characters, each of one byte.
                    (Some(text), None) => text.chars().count() > 1,
                    _ => false,
                };
                ensure!(same, "{name} {bytes:02X?}: found {found:?}, the server has {expected:?}");
            }
        }
        session.close().await
    });
}

/// Every sequence of one and two bytes, and the longer ones that the server knows.
fn candidates(known: &HashMap<Vec<u8>, Option<u32>>, longest: u32) -> Vec<Vec<u8>> {
    let mut candidates: Vec<Vec<u8>> = (0..=u8::MAX).map(|byte| vec![byte]).collect();
    if longest > 1 {
        candidates.extend((0x8000..=u16::MAX).map(|pair| pair.to_be_bytes().to_vec()));
    }
    candidates.extend(known.keys().filter(|bytes| bytes.len() > 2).cloned());
    candidates
}

/// Every character, encoded by the server.
async fn assert_unicode(session: &mut MySqlSession, charset: Charset) -> Result<()> {
    let name = charset.name();
    let last = if matches!(charset, Charset::Ucs2 | Charset::Utf8mb3) { 0xffff } else { 0x0010_ffff };
    session.exec("SET SESSION cte_max_recursion_depth = 2000000").await?;
    let sql = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
         SELECT n, HEX(CONVERT(CONVERT(UNHEX(LPAD(HEX(n), 8, '0')) USING utf32) USING {name})) FROM numbers
         WHERE n NOT BETWEEN 0xD800 AND 0xDFFF"
    );
    for row in session.rows(&sql).await? {
        let [Some(number), Some(bytes)] = row.as_slice() else { bail!("{name}: {row:?}") };
        let character = char::from_u32(number.parse()?).context("a character")?;
        ensure!(
            charset.text(&unhex(bytes)?).is_ok_and(|text| text.chars().eq([character])),
            "{name} {bytes}"
        );
    }
    Ok(())
}

fn unhex(digits: &str) -> Result<Vec<u8>> {
    digits.as_bytes().chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

/// Characters that the source keeps apart by their bytes are one on the target: in a key, all but
/// one of the byte sequences are refused.
#[test]
fn byte_sequences_of_one_character_are_refused_in_keys() {
    run(async {
        let key = "CREATE TABLE refused (v VARCHAR(9) CHARACTER SET cp932 COLLATE cp932_bin PRIMARY KEY)";
        let fill = "INSERT INTO refused VALUES (x'fa4a')";
        let cases =
            [Way::Copy, Way::Stream].map(|way| (way, key.to_owned(), fill.to_owned(), "value_invalid"));
        assert_all_halt(cases.into()).await
    });
}
