//! `schema.collation = "mysql"`: the target finds equal what the source does, and holds what it holds.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tidegate_integration::{Config, Fixture, Servers, Tidegate, run};

const TABLES: &str = r"
    CREATE TABLE people (name VARCHAR(50) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT, note TEXT);
    CREATE TABLE users (id INT PRIMARY KEY, email VARCHAR(50) COLLATE utf8mb4_0900_as_ci, code VARCHAR(10) COLLATE utf8mb4_bin,
        padded VARCHAR(20) COLLATE utf8mb4_general_ci, free VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, e ENUM('a','b'),
        UNIQUE KEY by_email (email), UNIQUE KEY by_code (code), UNIQUE KEY by_padded (padded), KEY by_free (free));
    CREATE TABLE child (id INT PRIMARY KEY, person VARCHAR(50) COLLATE utf8mb4_0900_ai_ci,
        CONSTRAINT of_person FOREIGN KEY (person) REFERENCES people (name) ON UPDATE CASCADE);
    CREATE TABLE keyed (k VARCHAR(10) COLLATE utf8mb4_0900_ai_ci NOT NULL, n INT NOT NULL, v INT, UNIQUE KEY u (k, n));
    INSERT INTO people (name, v) WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 400)
        SELECT IF(n % 2, CONCAT('Name ', n), CONCAT('nAMe ', n)), n FROM r;
    INSERT INTO people (name) VALUES ('alice'), ('Bob'), ('Zoë'), ('strasse');
    INSERT INTO users VALUES (1, 'a@x', 'A', 'pad ', 'One', 'a'), (2, 'á@x', 'a', 'ü', 'TWO', 'b'), (3, NULL, NULL, NULL, NULL, NULL);
    INSERT INTO child VALUES (1, 'ALICE'), (2, 'zoe');
    INSERT INTO keyed VALUES ('a', 1, 1), ('A', 2, 2)";

fn config(fixture: &Fixture<'_>) -> Config {
    let mut bytes = toml::Table::new();
    bytes.insert("collation".to_owned(), "bytes".into());
    fixture
        .config()
        .set("schema.collation", "mysql")
        .set(&format!("schema.{}.users.free", fixture.source), bytes)
        .set("snapshot.chunk_rows", 100)
}

/// Neither side takes the row.
async fn refused(fixture: &Fixture<'_>, sql: &str) -> Result<()> {
    ensure!(fixture.source(sql).await.is_err(), "the source takes {sql}");
    ensure!(fixture.target(sql).await.is_err(), "the target takes {sql}");
    Ok(())
}

/// The collations of the target's columns, and its unique indexes. The column of the locale has
/// another name from PostgreSQL 17 on.
const CATALOG: &str = "
    SELECT line FROM (
        SELECT concat_ws(' ', a.attrelid::regclass, a.attname, o.collname,
            coalesce(to_jsonb(o) ->> 'colllocale', to_jsonb(o) ->> 'colliculocale'), o.collisdeterministic) AS line
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_collation o ON o.oid = a.attcollation
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0
        UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()) x ORDER BY line COLLATE \"C\"";

#[test]
fn texts_are_compared_as_on_the_source() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("collated").await?;
        fixture.source(TABLES).await?;
        let tidegate = Tidegate::prepare(config(&fixture))?;
        let plan = tidegate.cli(&["plan"]).await?;
        ensure!(plan.code == Some(0), "{:?}: {}", plan.code, plan.stderr);
        for told in ["LIKE", "COLLATE \"C\" before", "blanks at the end", "beyond ASCII", "und-u-ks-level2"] {
            ensure!(plan.stdout.contains(told), "{told} is missing in {}", plan.stdout);
        }
        let planned = servers.fixture("collated_plan").await?;
        planned.target(&plan.stdout).await?;
        let check = tidegate.cli(&["check", "--data", "--json"]).await?;
        let report: Value = serde_json::from_str(&check.stdout)?;
        let found = report["data"].as_array().cloned().unwrap_or_default();
        let found: Vec<Value> = found
            .iter()
            .map(|one| json!([one["column"], one["kind"], one["rows"], one["outcome"]]))
            .collect();
        let expected = [
            json!(["padded", "other_characters", 1, "compared_otherwise"]),
            json!(["padded", "trailing_blanks", 1, "compared_otherwise"]),
        ];
        ensure!(check.code == Some(0) && found == expected, "{:?} {found:?}", check.code);

        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let session = planned.target_session().await?;
        session.exec(&format!("SET search_path = {}; ", fixture.source)).await?;
        let (made, expected) = (fixture.target_rows(CATALOG).await?, session.rows(CATALOG).await?);
        ensure!(made == expected, "made {made:#?}\nplanned {expected:#?}");
        equal_on_both_sides(&fixture).await?;
        spellings_are_the_source_s(&fixture, &tidegate).await?;

        // What is there keeps its collation, and what comes gets the source's.
        fixture.source("ALTER TABLE users ADD nick VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, MODIFY email VARCHAR(90) COLLATE utf8mb4_0900_as_ci, RENAME COLUMN padded TO pad; RENAME TABLE people TO persons; CREATE TABLE people (name VARCHAR(9) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY); INSERT INTO people VALUES ('x'); INSERT INTO users (id, nick) VALUES (9, 'Nick')").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        ensure!(tidegate.stop().await? == Some(0));
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("UPDATE persons SET name = 'bob' WHERE name = 'BOB'; UPDATE users SET email = UPPER(email), nick = 'NICK' WHERE id IN (1, 9); UPDATE people SET name = 'X'").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let nick = "SELECT count(*) FROM users WHERE nick = 'niCK' OR email = 'A@x'";
        ensure!(fixture.target_scalar(nick).await?.as_deref() == Some("2"));
        let status = tidegate.status().await?;
        ensure!(status["objects"].as_array().is_none_or(Vec::is_empty), "{status}");
        refused(&fixture, "INSERT INTO people (name) VALUES ('x')").await?;
        refused(&fixture, "INSERT INTO persons (name) VALUES ('BOB')").await?;
        Ok(())
    });
}

async fn equal_on_both_sides(fixture: &Fixture<'_>) -> Result<()> {
    for duplicate in [
        "INSERT INTO people (name) VALUES ('ALICE')",
        "INSERT INTO people (name) VALUES ('Zoe')",
        "INSERT INTO people (name) VALUES ('STRAßE')",
        "INSERT INTO users (id, email) VALUES (20, 'A@X')",
        "INSERT INTO users (id, padded) VALUES (20, 'Ü')",
        "INSERT INTO keyed VALUES ('á', 1, 5)",
        "INSERT INTO child VALUES (20, 'nobody')",
    ] {
        refused(fixture, duplicate).await?;
    }
    // Accents and, by `_bin`, case make a difference.
    let insert = "BEGIN; INSERT INTO users (id, email, code) VALUES (20, 'à@x', 'Ä'); ROLLBACK";
    fixture.source(insert).await?;
    fixture.target(insert).await?;
    for same in [
        "SELECT count(*) FROM people WHERE name IN ('BOB', 'zoe', 'NAME 7')",
        "SELECT count(*) FROM child c JOIN people p ON p.name = c.person",
        "SELECT count(*) FROM users WHERE code = 'a'",
    ] {
        let (source, target) = (fixture.source_scalar(same).await?, fixture.target_scalar(same).await?);
        ensure!(source == target && source.as_deref() != Some("0"), "{same}: {source:?} and {target:?}");
    }
    // By configuration.
    let free = "SELECT count(*) FROM users WHERE free = 'one'";
    ensure!(fixture.target_scalar(free).await?.as_deref() == Some("0"));
    Ok(())
}

async fn spellings_are_the_source_s(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<()> {
    for change in [
        "UPDATE people SET name = 'ALICE', v = 7 WHERE name = 'alice'",
        "UPDATE people SET name = UPPER(name)",
        "BEGIN; DELETE FROM people WHERE name = 'bob'; INSERT INTO people (name, v) VALUES ('BoB', 1); UPDATE people SET name = 'x' WHERE name = 'bob'; UPDATE people SET name = 'BOb' WHERE name = 'X'; COMMIT",
        "UPDATE keyed SET n = 3 - n ORDER BY k; UPDATE keyed SET k = 'a'",
        "UPDATE users SET padded = 'PAD' WHERE id = 1; UPDATE users SET email = 'Á@X' WHERE id = 2",
        "REPLACE INTO people (name, v) VALUES ('Name 3', 33); INSERT INTO people (name) VALUES ('NAME 4') ON DUPLICATE KEY UPDATE name = 'name 4'",
        "DELETE FROM people WHERE name LIKE 'name 1%'",
    ] {
        // A swap that MySQL refuses is as good as none.
        if let Err(error) = fixture.source(change).await {
            ensure!(format!("{error:#}").contains("Duplicate entry"), "{change}: {error:#}");
        }
        tidegate.caught_up(fixture).await?;
        fixture.assert_same().await?;
    }
    Ok(())
}

/// U+A7C2 came with Unicode 12: for ICU it is a w, for MySQL a character of its own.
#[test]
fn what_only_icu_takes_for_equal_is_never_merged() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("wider").await?;
        fixture.source("CREATE TABLE t (k VARCHAR(10) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT); INSERT INTO t VALUES ('w', 1), ('\u{a7c2}', 2); CREATE TABLE later (k VARCHAR(10) COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT); INSERT INTO later VALUES ('w', 1)").await?;
        let tidegate = Tidegate::prepare(fixture.config().set("schema.collation", "mysql"))?;
        let check = tidegate.cli(&["check", "--data", "--json"]).await?;
        let report: Value = serde_json::from_str(&check.stdout)?;
        ensure!(
            report["data"][0]["kind"] == "other_characters" && report["data"][0]["rows"] == 1,
            "{report}"
        );
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture
            .source("UPDATE t SET v = v + 10; DELETE FROM t WHERE k = 'W'; INSERT INTO t VALUES ('W', 3)")
            .await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let status = tidegate.status().await?;
        let missing = status["objects"].as_array().cloned().unwrap_or_default();
        ensure!(
            missing.len() == 1 && missing[0]["kind"] == "primary_key" && missing[0]["name"] == "PRIMARY",
            "{status}"
        );

        fixture.source("INSERT INTO later VALUES ('\u{a7c2}', 2)").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_constraint" && halt.to_string().contains("later_pkey"), "{halt}");
        ensure!(!halt.to_string().contains('\u{a7c2}'), "{halt}");
        // The remedy: the target does without, and nothing is lost.
        fixture.target("ALTER TABLE later DROP CONSTRAINT later_pkey").await?;
        ensure!(tidegate.post("/v1/resume").await?.status == 202);
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        Ok(())
    });
}

#[test]
fn a_server_without_icu_is_named() {
    run(async {
        let fixture = Servers::shared().await?.fixture("no_icu").await?;
        fixture.source("CREATE TABLE t (k VARCHAR(10) PRIMARY KEY)").await?;
        // What a server that is built without it looks like.
        fixture.target("DELETE FROM pg_collation WHERE collprovider = 'i'").await?;
        let tidegate = Tidegate::prepare(fixture.config().set("schema.collation", "mysql"))?;
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(4) && check.stdout.contains("target.icu"), "{}", check.stdout);
        tidegate.launch(&[]).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "target_preflight" && halt.to_string().contains("target.icu"), "{halt}");
        Ok(())
    });
}
