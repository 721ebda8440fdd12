//! The target is what a careful administrator would have made by hand, and `tidegate plan` says so.

use anyhow::{Context as _, Result, ensure};
use tidegate_integration::wait::{self, Look};
use tidegate_integration::{Fixture, Servers, Tidegate, run};

const TABLES: &str = r"
    CREATE TABLE parent (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, code VARCHAR(10) NOT NULL, UNIQUE KEY (code))
        COMMENT = 'of parents';
    CREATE TABLE t (
        id INT AUTO_INCREMENT PRIMARY KEY, n INT NOT NULL DEFAULT -7, amount DECIMAL(10,2) DEFAULT 1.50,
        s VARCHAR(20) DEFAULT 'it''s' COMMENT 'a ''quoted'' one', e ENUM('a','b') DEFAULT 'b', flags BIT(5) DEFAULT b'101',
        made DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), seen TIMESTAMP NOT NULL DEFAULT '2020-01-02 03:04:05',
        url VARCHAR(5000), body MEDIUMTEXT, parent BIGINT UNSIGNED, orphan BIGINT UNSIGNED, twice INT AS (n * 2) STORED,
        touched DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
        KEY by_n (n DESC, amount), KEY by_url (url(255)), UNIQUE KEY u_body (body(10), n), KEY wide (body(700)),
        FULLTEXT KEY words (s), KEY shifted ((n + 1)),
        CONSTRAINT t_parent FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
        CONSTRAINT t_orphan FOREIGN KEY (orphan) REFERENCES parent (id) ON DELETE SET NULL,
        CONSTRAINT n_small CHECK (n < 1000), CONSTRAINT s_known CHECK (s IN ('it''s', 'x')),
        CONSTRAINT n_any CHECK (n > 0) NOT ENFORCED);
    CREATE VIEW v AS SELECT id FROM t;
    INSERT INTO parent (code) VALUES ('a'), ('b');
    INSERT INTO t (n, url, body, parent) VALUES (1, REPEAT('u', 4000), REPEAT('b', 9000), 1), (2, NULL, 'x', NULL);
    SET foreign_key_checks = 0;
    INSERT INTO t (n, orphan) VALUES (3, 99);
    SET foreign_key_checks = 1;
";

/// Columns with their types and defaults, indexes, constraints and comments, one line each. From PostgreSQL
/// 18 on NOT NULL is a constraint as well, with a name that a rename leaves as it is.
const CATALOG: &str = "
    SELECT line FROM (
        SELECT concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
            pg_get_expr(d.adbin, d.adrelid), col_description(c.oid, a.attnum)) AS line
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()
        UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, replace(pg_get_constraintdef(oid), ' NOT VALID', ''))
        FROM pg_constraint WHERE connamespace = current_schema()::regnamespace AND contype <> 'n'
        UNION ALL SELECT concat_ws(' ', relname, obj_description(oid, 'pg_class')) FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'S')) x ORDER BY line COLLATE \"C\"";

async fn refused(fixture: &Fixture<'_>, sql: &str) -> Result<()> {
    ensure!(fixture.target(sql).await.is_err(), "the target takes {sql}");
    Ok(())
}

#[test]
fn the_plan_is_what_a_run_creates_and_it_serves_the_application() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("made_by_hand").await?;
        fixture.source(TABLES).await?;
        let tidegate = Tidegate::prepare(fixture.config())?;
        let plan = tidegate.cli(&["plan"]).await?;
        ensure!(plan.code == Some(0), "{:?}: {}", plan.code, plan.stderr);
        for told in ["view `", "index `shifted`", "CHECK `s_known`", "CHECK `n_any`", "index `wide`"] {
            ensure!(plan.stdout.contains(told), "{told} is missing in {}", plan.stdout);
        }
        let planned = servers.fixture("made_by_plan").await?;
        planned.target(&plan.stdout).await?;

        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let here = format!("SET search_path = {}; ", fixture.source);
        let session = planned.target_session().await?;
        session.exec(&here).await?;
        let (made, expected) = (fixture.target_rows(CATALOG).await?, session.rows(CATALOG).await?);
        ensure!(made == expected, "made {made:#?}\nplanned {expected:#?}");
        let status = tidegate.status().await?;
        let partly = status["objects"].as_array().cloned().unwrap_or_default();
        ensure!(partly.len() == 1 && partly[0]["name"] == "t_orphan", "{status}");

        // Rows that come later meet every index, and a restart builds nothing again.
        fixture.source("INSERT INTO t (n, url, body) VALUES (4, REPEAT('v', 5000), REPEAT('w', 20000)); UPDATE t SET n = 999 WHERE id = 2; DELETE FROM parent WHERE id = 1").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        ensure!(tidegate.stop().await? == Some(0));
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO parent (code) VALUES ('c'); CREATE TABLE later (id INT PRIMARY KEY, p BIGINT UNSIGNED, KEY k (p), FOREIGN KEY (p) REFERENCES parent (id)); INSERT INTO later VALUES (1, 2)").await?;
        tidegate.caught_up(&fixture).await?;
        ensure!(tidegate.stop().await? == Some(0));
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        refused(&fixture, "INSERT INTO later VALUES (2, 12345)").await?;

        // The application's view of it, once it has moved.
        ensure!(tidegate.stop().await? == Some(0));
        refused(&fixture, "INSERT INTO parent (code) VALUES ('b')").await?;
        refused(&fixture, "INSERT INTO t (id, parent) VALUES (100, 12345)").await?;
        refused(&fixture, "INSERT INTO t (id, orphan) VALUES (100, 12345)").await?;
        refused(&fixture, "INSERT INTO t (id, n) VALUES (100, 1000)").await?;
        fixture.target(&cutover(&plan.stdout)?).await?;
        fixture.target("INSERT INTO t DEFAULT VALUES; INSERT INTO parent (code) VALUES ('z')").await?;
        let row = "SELECT concat_ws('|', id, n, twice, amount, s, e, flags, seen AT TIME ZONE 'UTC', made > '2020-01-01') FROM t WHERE id = (SELECT max(id) FROM t)";
        let row = fixture.target_scalar(row).await?;
        ensure!(row.as_deref() == Some("5|-7|-14|1.50|it's|b|00101|2020-01-02 03:04:05|t"), "{row:?}");
        let number = fixture.target_scalar("SELECT id FROM parent WHERE code = 'z'").await?;
        ensure!(number.as_deref() == Some("4"), "{number:?}");
        fixture
            .target("UPDATE t SET touched = '2001-02-03 04:05:06'; UPDATE t SET n = 8 WHERE id = 5; UPDATE t SET n = n WHERE id = 4")
            .await?;
        let touched = "SELECT string_agg(concat_ws(' ', id, twice, touched > '2020-01-01'), ', ' ORDER BY id) FROM t WHERE id > 3";
        let touched = fixture.target_scalar(touched).await?;
        ensure!(touched.as_deref() == Some("4 8 f, 5 16 t"), "{touched:?}");
        refused(&fixture, "INSERT INTO t (n, twice) VALUES (1, 1)").await
    });
}

/// What a plan has for the application's move, to be run.
fn cutover(plan: &str) -> Result<String> {
    let (_, section) = plan.split_once("-- Once the application moves").context("a section for the move")?;
    let lines = section.lines().skip(1).filter_map(|line| line.strip_prefix("--   "));
    Ok(lines.filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n"))
}

const CHANGED: &str = "
    CREATE TABLE p (id INT PRIMARY KEY, code VARCHAR(10));
    CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(10) DEFAULT 'x' COMMENT 'c', d INT, p INT, u INT,
        KEY k_ab (a, b), KEY k_c (c), UNIQUE KEY u_b (b), UNIQUE KEY u_u (u), CONSTRAINT t_p FOREIGN KEY (p) REFERENCES p (id),
        CONSTRAINT d_small CHECK (d < 100));
    INSERT INTO p VALUES (1, 'a'), (2, 'b'); INSERT INTO t VALUES (1, 1, 1, 'c', 1, 1, 1), (2, 2, 2, 'c', 2, 2, 2)";

/// Each with rows that what was built before would refuse.
const CHANGES: &[&str] = &[
    "ALTER TABLE t DROP COLUMN b; INSERT INTO t (id, a, u) VALUES (3, 1, 3)",
    "DROP INDEX u_u ON t; INSERT INTO t (id, a, u) VALUES (4, 1, 1)",
    "UPDATE t SET u = 4 WHERE id = 4; CREATE UNIQUE INDEX u_again ON t (u)",
    "ALTER TABLE t RENAME COLUMN a TO aa, RENAME INDEX k_c TO k_cc; INSERT INTO t (id, aa) VALUES (5, 5)",
    "ALTER TABLE t DROP CHECK d_small; INSERT INTO t (id, d) VALUES (6, 1000)",
    "ALTER TABLE t ALTER c SET DEFAULT 'y', COMMENT 'of t', ADD e INT NOT NULL DEFAULT 5 COMMENT 'e', ADD KEY k_e (e)",
    "ALTER TABLE t MODIFY c VARCHAR(768) DEFAULT 'y'; INSERT INTO t (id, c) VALUES (7, REPEAT('w', 768))",
    "ALTER TABLE t MODIFY d BIGINT DEFAULT 8, ADD CONSTRAINT d_positive CHECK (d > 0)",
    "RENAME TABLE t TO t2; CREATE TABLE t (id INT PRIMARY KEY, aa INT, KEY k_ab (aa)); INSERT INTO t VALUES (1, 1)",
    "RENAME TABLE t TO x, t2 TO t, x TO t2; INSERT INTO t (id) VALUES (8); INSERT INTO t2 VALUES (2, 2)",
    "RENAME TABLE p TO parents; ALTER TABLE parents RENAME COLUMN id TO pid; INSERT INTO parents VALUES (3, 'c')",
    "SET foreign_key_checks = 0; TRUNCATE parents; SET foreign_key_checks = 1; INSERT INTO parents VALUES (1, 'a'), (2, 'b')",
    "ALTER TABLE t ADD n INT AUTO_INCREMENT UNIQUE; INSERT INTO t (id, p) VALUES (9, 1)",
    "ALTER TABLE t DROP FOREIGN KEY t_p; INSERT INTO t (id, p) VALUES (10, 77)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT child_p FOREIGN KEY (p) REFERENCES parents (pid)); INSERT INTO child VALUES (1, 1)",
    "SET foreign_key_checks = 0; DROP TABLE parents; CREATE TABLE parents (pid INT PRIMARY KEY); INSERT INTO parents VALUES (1)",
];

#[test]
fn what_is_built_follows_schema_changes() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("followed").await?;
        fixture.source(CHANGED).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        for (number, change) in CHANGES.iter().enumerate() {
            fixture.source(change).await.with_context(|| format!("the source: {change}"))?;
            tidegate.caught_up(&fixture).await.with_context(|| format!("after {change}"))?;
            fixture.assert_same().await.with_context(|| format!("after {change}"))?;
            let plan = tidegate.cli(&["plan"]).await?;
            ensure!(plan.code == Some(0), "{:?}: {}", plan.code, plan.stderr);
            let planned = servers.fixture(&format!("followed_{number}")).await?;
            planned.target(&plan.stdout).await?;
            let session = planned.target_session().await?;
            session.exec(&format!("SET search_path = {}; ", fixture.source)).await?;
            let expected = comparable(session.rows(CATALOG).await?);
            // The objects are built after the rows' commit.
            wait::until(format!("what was planned after {change}"), || async {
                let made = comparable(fixture.target_rows(CATALOG).await?);
                let missing = || format!("made {made:#?}\nplanned {expected:#?}");
                Ok(if made == expected { Look::Done(()) } else { Look::NotYet(missing()) })
            })
            .await?;
            fixture.assert_same().await?;
        }
        // The parent's rows come when the foreign key is there: it holds for all rows from the next start on.
        fixture
            .source(
                "SET foreign_key_checks = 0; DROP TABLE parents; CREATE TABLE parents (pid INT PRIMARY KEY)",
            )
            .await?;
        tidegate.caught_up(&fixture).await?;
        tidegate
            .wait_status("a finding", |status| {
                status["objects"].as_array().is_some_and(|found| found.len() == 1)
            })
            .await?;
        fixture.source("INSERT INTO parents VALUES (1)").await?;
        tidegate.caught_up(&fixture).await?;
        ensure!(tidegate.stop().await? == Some(0));
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        let status = tidegate.status().await?;
        ensure!(status["objects"].as_array().is_none_or(Vec::is_empty), "{status}");
        Ok(())
    });
}

/// Without the names of indexes, which depend on what else was there, and the keys' constraints.
fn comparable(lines: Vec<Vec<Option<String>>>) -> Vec<String> {
    let lines = lines.into_iter().flatten().flatten().filter(|line| !line.contains("_pkey"));
    let shown = lines.map(|line| match (line.split_once("INDEX "), line.split_once(" ON ")) {
        (Some((kind, _)), Some((_, of))) if line.starts_with("CREATE") => format!("{kind}INDEX ON {of}"),
        _ => line,
    });
    let mut shown: Vec<String> = shown.collect();
    shown.sort();
    shown
}

#[test]
fn types_are_what_the_configuration_says() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("chosen").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY, on_off TINYINT(1), n TINYINT(1), at DATETIME(3)); INSERT INTO t VALUES (1, 0, 1, '2024-03-01 12:00:00.5')").await?;
        let column = format!("types.{}.t.on_off", fixture.source);
        let config = fixture
            .config()
            .set(&column, "boolean")
            .set("types.tinyint(1)", "smallint")
            .set("types.datetime", "timestamptz")
            .set("policies.beyond_boolean", "refuse");
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t VALUES (2, 1, 7, '2024-03-01 12:00:00.25')").await?;
        tidegate.caught_up(&fixture).await?;
        let rows = "SELECT string_agg(concat_ws('|', id, pg_typeof(on_off), on_off, pg_typeof(n), n, pg_typeof(at), at AT TIME ZONE 'UTC'), ';' ORDER BY id) FROM t";
        let found = fixture.target_scalar(rows).await?;
        let expected = "1|boolean|f|smallint|1|timestamp with time zone|2024-03-01 12:00:00.5;2|boolean|t|smallint|7|timestamp with time zone|2024-03-01 12:00:00.25";
        ensure!(found.as_deref() == Some(expected), "{found:?}");
        fixture.source("INSERT INTO t VALUES (3, 2, 0, NULL)").await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "value_out_of_range", "{halt}");

        let unknown = format!("types.{}.t.missing", fixture.source);
        let check = Tidegate::prepare(fixture.config().set(&unknown, "boolean"))?.cli(&["check"]).await?;
        ensure!(check.code == Some(4) && check.stdout.contains(".t.missing"), "{}", check.stdout);
        Ok(())
    });
}

/// The kinds of the objects that `/status` tells of, with why, in order.
fn told(status: &serde_json::Value) -> Vec<String> {
    let object = |object: &serde_json::Value| format!("{} {}", object["name"], object["detail"]);
    status["objects"].as_array().map(|objects| objects.iter().map(object).collect()).unwrap_or_default()
}

const CONSTRAINTS: &str =
    "SELECT string_agg(concat_ws(' ', conname, convalidated), '; ' ORDER BY conname) FROM pg_constraint
    WHERE conrelid = 't'::regclass AND contype IN ('c', 'f')";

/// What others keep from being built is left for later: neither readers nor the stream wait behind it.
#[test]
fn what_others_lock_is_built_when_they_are_gone() {
    run(async {
        let fixture = Servers::shared().await?.fixture("locked_out").await?;
        fixture
            .source(
                "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1);
                 CREATE TABLE t (id INT PRIMARY KEY, p INT, n INT, KEY k (n), CONSTRAINT t_p FOREIGN KEY (p) REFERENCES p (id), CONSTRAINT n_small CHECK (n < 10));
                 INSERT INTO t VALUES (1, 1, 1)",
            )
            .await?;
        let config = fixture.config().set("ddl.lock_wait_timeout", "50ms");
        let tidegate = Tidegate::start(config).await?;
        tidegate.wait_state("streaming").await?;
        ensure!(tidegate.stop().await? == Some(0));
        // As if nothing of them had been built yet.
        fixture
            .target(
                "ALTER TABLE t DROP CONSTRAINT t_p, DROP CONSTRAINT n_small; DROP INDEX t_k; DELETE FROM tidegate.schema_object",
            )
            .await?;
        let (reader, vacuum) = (fixture.target_session().await?, fixture.target_session().await?);
        reader.exec("BEGIN; SELECT * FROM t").await?;
        vacuum.exec("BEGIN; LOCK TABLE p IN SHARE UPDATE EXCLUSIVE MODE").await?;
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        let other = fixture.target_session().await?;
        other.exec("SET statement_timeout = '10s'").await?;
        tidegate.wait_status("both to wait", |status| told(status).len() == 2).await?;
        fixture.source("INSERT INTO t VALUES (2, 1, 2)").await?;
        tidegate.caught_up(&fixture).await?;
        let attempts = "waits: others keep";
        let status = tidegate.status().await?;
        ensure!(told(&status).iter().all(|told| told.contains("others keep")), "{status}");
        ensure!(tidegate.log()?.matches(attempts).count() == 2, "told once for each");
        // An index lets readers pass, and so they let it.
        let index = "SELECT count(*) FROM pg_index WHERE indexrelid = 't_k'::regclass AND indisvalid";
        ensure!(fixture.target_scalar(index).await?.as_deref() == Some("1"));
        let seen = wait::until("an attempt that waits for the reader", || async {
            other.exec("SELECT count(*) FROM t").await?;
            let waiting = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted AND relation = 't'::regclass";
            Ok(if fixture.target_scalar(waiting).await?.as_deref() == Some("0") {
                Look::NotYet("none".to_owned())
            } else {
                Look::Done(())
            })
        });
        seen.await?;
        other.exec("SELECT count(*) FROM t").await?;
        ensure!(fixture.target_scalar(CONSTRAINTS).await?.is_none());
        reader.exec("COMMIT").await?;
        vacuum.exec("COMMIT").await?;
        tidegate.wait_status("all to be built", |status| told(status).is_empty()).await?;
        let built = fixture.target_scalar(CONSTRAINTS).await?;
        ensure!(built.as_deref() == Some("n_small t; t_p t"), "{built:?}");
        fixture.assert_same().await?;

        // A death between the two statements of a CHECK.
        tidegate.kill().await?;
        fixture
            .target(
                "ALTER TABLE t DROP CONSTRAINT n_small, ADD CONSTRAINT n_small CHECK (n < 10) NOT VALID;
                 UPDATE tidegate.schema_object SET outcome = 'not_validated', detail = 'begun' WHERE name = 'n_small'",
            )
            .await?;
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        let built = fixture.target_scalar(CONSTRAINTS).await?;
        ensure!(built.as_deref() == Some("n_small t; t_p t"), "{built:?}");
        Ok(())
    });
}

/// Restarts and answers what is told of the objects.
async fn restarted(tidegate: &Tidegate, args: &[&str]) -> Result<Vec<String>> {
    ensure!(tidegate.stop().await? == Some(0));
    tidegate.launch(args).await?;
    tidegate.wait_state("streaming").await?;
    Ok(told(&tidegate.status().await?))
}

/// Whoever drops an index or a constraint on the target may have meant it: it is told of, and stays
/// dropped. What went with a parent that is copied again, or with the table, comes back.
#[test]
fn what_a_hand_has_dropped_is_told_and_comes_back_with_its_table() {
    run(async {
        let fixture = Servers::shared().await?.fixture("by_hand").await?;
        fixture
            .source(
                "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1);
                 CREATE TABLE t (id INT PRIMARY KEY, p INT, n INT, d DECIMAL(10,4), KEY k (n), UNIQUE KEY u (n, id),
                    CONSTRAINT t_p FOREIGN KEY (p) REFERENCES p (id), CONSTRAINT n_small CHECK (n < 10));
                 INSERT INTO t VALUES (1, 1, 1, 1.5)",
            )
            .await?;
        let config = fixture.config();
        let tidegate = Tidegate::start(config.clone()).await?;
        tidegate.wait_state("streaming").await?;
        fixture.target("ALTER TABLE t DROP CONSTRAINT n_small; DROP INDEX t_k, t_u").await?;
        for _ in 0..2 {
            let told = restarted(&tidegate, &[]).await?;
            let names: Vec<&str> = told.iter().filter_map(|told| told.split(' ').next()).collect();
            ensure!(names == ["\"n_small\"", "\"k\"", "\"u\""], "{told:?}");
            ensure!(told.iter().all(|told| told.contains("dropped or renamed by hand")), "{told:?}");
            ensure!(fixture.target_scalar(CONSTRAINTS).await?.as_deref() == Some("t_p t"));
        }
        ensure!(tidegate.log()?.matches("is not there any more").count() == 3, "told once for each");
        fixture.target("CREATE INDEX t_k ON t (n)").await?;
        let told = restarted(&tidegate, &[]).await?;
        ensure!(told.len() == 2 && told[0].contains("n_small"), "{told:?}");
        // It is missed while the stream runs, too, where objects are looked at.
        fixture.target("DROP INDEX t_k").await?;
        fixture.source("ALTER TABLE t COMMENT 'new'").await?;
        tidegate.wait_status("the index to be missed", |status| self::told(status).len() == 3).await?;

        // The parent is copied again, its table dropped with what points to it.
        ensure!(tidegate.stop().await? == Some(0));
        let without = config.clone().set("tables.exclude", vec![format!("{}.p", fixture.source)]);
        let other = Tidegate::start(without).await?;
        other.wait_state("streaming").await?;
        ensure!(other.stop().await? == Some(0));
        fixture.target("DROP TABLE p CASCADE").await?;
        ensure!(fixture.target_scalar(CONSTRAINTS).await?.is_none());
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO p VALUES (2); INSERT INTO t VALUES (2, 2, 2, 2.5)").await?;
        tidegate.caught_up(&fixture).await?;
        let has = async |wanted: &str| {
            let found = fixture.target_scalar(CONSTRAINTS).await?;
            let is_there = found.as_deref() == Some(wanted);
            Ok(if is_there { Look::Done(()) } else { Look::NotYet(format!("{found:?}")) })
        };
        wait::until("the parent's foreign key", || has("t_p t")).await?;

        // So is the table itself.
        fixture.source("ALTER TABLE t MODIFY d DECIMAL(10,2)").await?;
        tidegate.caught_up(&fixture).await?;
        wait::until("everything to be built", || has("n_small t; t_p t")).await?;
        tidegate.wait_status("nothing to be told", |status| self::told(status).is_empty()).await?;
        fixture.assert_same().await
    });
}

/// A copy that begins anew takes the foreign keys from other tables: who reads one of these holds up
/// the copy, and the cycle is not begun again and again meanwhile.
#[test]
fn a_reader_of_a_child_is_waited_for_when_its_parent_is_copied() {
    run(async {
        let fixture = Servers::shared().await?.fixture("read_child").await?;
        fixture
            .source(
                "CREATE TABLE p (id INT PRIMARY KEY, d DECIMAL(10,4)); INSERT INTO p VALUES (1, 1.5);
                 CREATE TABLE t (id INT PRIMARY KEY, p INT, CONSTRAINT t_p FOREIGN KEY (p) REFERENCES p (id)); INSERT INTO t VALUES (1, 1)",
            )
            .await?;
        let tidegate = Tidegate::start(fixture.config().set("ddl.lock_wait_timeout", "50ms")).await?;
        tidegate.wait_state("streaming").await?;
        let reader = fixture.target_session().await?;
        reader.exec("BEGIN; SELECT * FROM t").await?;
        fixture.source("ALTER TABLE p MODIFY d DECIMAL(10,2); INSERT INTO t VALUES (2, 1)").await?;
        let waits = format!("its copy waits for the target's table {}.t", fixture.source);
        wait::until("the copy to wait for the child", || async {
            let log = tidegate.log()?;
            Ok(match log.matches(&waits).count() {
                0 | 1 => Look::NotYet("it has not waited twice".to_owned()),
                _ => Look::Done(()),
            })
        })
        .await?;
        ensure!(!tidegate.log()?.contains("retrying"), "{}", tidegate.log()?);
        reader.exec("COMMIT").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        wait::until("the foreign key", || async {
            let found = fixture.target_scalar(CONSTRAINTS).await?;
            Ok(if found.as_deref() == Some("t_p t") {
                Look::Done(())
            } else {
                Look::NotYet(format!("{found:?}"))
            })
        })
        .await
    });
}

/// An index is built in the commit that records it: a death in between leaves neither.
#[test]
fn a_death_while_an_index_is_built_leaves_nothing_half_built() {
    run(async {
        let fixture = Servers::shared().await?.fixture("index_killed").await?;
        fixture
            .source("CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY k (a DESC)); INSERT INTO t VALUES (1, 1), (2, 2)")
            .await?;
        // Whoever builds an index waits for a lock, with the index there and not committed.
        fixture
            .target(
                "CREATE FUNCTION wait() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN
                    IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name <> ''tidegate'') THEN
                        PERFORM pg_advisory_xact_lock(4711);
                    END IF; END';
                 CREATE EVENT TRIGGER waiting ON ddl_command_end WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION wait();
                 ALTER EVENT TRIGGER waiting ENABLE ALWAYS",
            )
            .await?;
        let holder = fixture.target_session().await?;
        holder.exec("SELECT pg_advisory_lock(4711)").await?;
        let tidegate = Tidegate::start(fixture.config().set("ddl.lock_wait_timeout", "1m")).await?;
        let builders = |wanted: &'static str| {
            let fixture = &fixture;
            wait::until(format!("{wanted} sessions that build the index"), move || async move {
                let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                    AND wait_event = 'advisory' AND query LIKE 'CREATE INDEX%'";
                let found = fixture.target_scalar(waiting).await?;
                Ok(if found.as_deref() == Some(wanted) {
                    Look::Done(())
                } else {
                    Look::NotYet(format!("{found:?}"))
                })
            })
        };
        builders("1").await?;
        tidegate.kill().await?;
        holder.exec("SELECT pg_advisory_unlock(4711)").await?;
        builders("0").await?;
        let indexes = "SELECT string_agg(concat(indexrelid::regclass, ' ', indisvalid), '; ' ORDER BY indexrelid::regclass::text)
            FROM pg_index WHERE indrelid = 't'::regclass";
        let left = fixture.target_scalar(indexes).await?;
        ensure!(left.as_deref() == Some("t_pkey t"), "{left:?}");
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t VALUES (3, 3)").await?;
        tidegate.caught_up(&fixture).await?;
        let found = fixture.target_scalar(indexes).await?;
        ensure!(found.as_deref() == Some("t_k t; t_pkey t"), "{found:?}");
        let recorded = "SELECT count(*) FROM tidegate.schema_object WHERE name = 'k' AND outcome = 'built'";
        ensure!(fixture.target_scalar(recorded).await?.as_deref() == Some("1"));
        fixture.assert_same().await
    });
}
