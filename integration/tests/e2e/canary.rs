//! No row value, statement literal, XID or secret gets out: not into a log, an error, a metric, a
//! page or the control schema's halts.
//!
//! Every value written here holds the canary, and so do the harness's passwords and its token.

use std::fs;

use anyhow::{Context, Result, ensure};
use tidegate_integration::process::run_in;
use tidegate_integration::wait::until_ok;
use tidegate_integration::{Fixture, Servers, Tidegate, run};

/// The canary, as text, as hexadecimal, as a list of bytes and in Base64; and its kin in numbers,
/// bits and times, which are long enough not to be found by chance: a TIME as text and in
/// microseconds, a BIT as number and as digits.
const CANARIES: &[&str] = &[
    "canary",
    "63616e617279",
    "63616E617279",
    "99, 97, 110, 97",
    "Y2FuYXJ5",
    "7351246",
    "1987-03-21",
    "421:37:19",
    "1517839654321",
    "7161126247307223329",
    "0110001101100001011011100110000101110010",
];

/// A YEAR has too few digits not to be found by chance, so that rows have two of them.
const YEARS: [&str; 2] = ["2137", "2149"];

const TABLES: &str = "
    CREATE TABLE t (
        id VARCHAR(60) PRIMARY KEY, note VARCHAR(60), body TEXT, doc JSON, raw VARBINARY(60),
        n BIGINT, price DECIMAL(20,2), ratio DOUBLE, born DATE, at DATETIME(6), seen TIMESTAMP NULL,
        kind ENUM('canaryenum', 'other'), marks SET('canaryset', 'other'), u VARCHAR(60),
        lasted TIME(6), first YEAR, last YEAR, flags BIT(64));
    CREATE TABLE keyless (note VARCHAR(60), n INT, lasted TIME(6), first YEAR, last YEAR, flags BIT(64));
    INSERT INTO t VALUES ('canary-key-1', 'canary-note', 'canary-body', '{\"canary-name\": \"canary-value\"}', 'canary-raw',
        735124680135, 735124680135.79, 7351246.8, '1987-03-21', '1987-03-21 01:02:03.456789', '1987-03-21 01:02:03',
        'canaryenum', 'canaryset', 'canary-u-1', '421:37:19.654321', 2137, 2149, 0x63616E6172792121);
    INSERT INTO keyless VALUES ('canary-keyless', 735124680, '421:37:19.654321', 2137, 2149, 0x63616E6172792121)";

/// What halts, after what was done to the target.
const FAULTS: &[(&str, &str)] = &[
    ("ALTER TABLE t ADD CHECK (note <> 'canary-bad')", "UPDATE t SET note = 'canary-bad'"),
    ("CREATE UNIQUE INDEX ON t (u)", "INSERT INTO t (id, u) VALUES ('canary-key-2', 'canary-u-1')"),
    (
        "ALTER TABLE t ADD CHECK (n < 7351246) NOT VALID",
        "UPDATE t SET price = 735124680135.80, ratio = 7351246.9, born = '1987-03-21'",
    ),
    // Rows of nothing but times, years and bits.
    (
        "ALTER TABLE keyless ADD CHECK (note IS NOT NULL)",
        "INSERT INTO keyless VALUES (NULL, NULL, '421:37:19.654321', 2137, 2149, 0x63616E6172792121)",
    ),
    ("DELETE FROM keyless", "UPDATE keyless SET note = NULL, first = 2149, last = 2137, flags = flags + 1"),
    ("ALTER TABLE t ADD CHECK (u IS NULL OR length(u) < 12)", MANY),
    ("CREATE UNIQUE INDEX ON t (u)", MANY),
    ("", "SET SESSION binlog_row_image = MINIMAL; UPDATE t SET note = 'canary-minimal'"),
    (
        "",
        "SET SESSION binlog_row_value_options = PARTIAL_JSON; UPDATE t SET doc = JSON_SET(doc, '$.\"canary-name\"', 'canary-part')",
    ),
    (
        "",
        "SET SESSION sql_log_bin = 0; ALTER TABLE t DROP COLUMN u; SET SESSION sql_log_bin = 1; UPDATE t SET note = 'canary-drift'",
    ),
    (
        "",
        "CREATE TABLE p (id INT PRIMARY KEY, s VARCHAR(60) DEFAULT 'canary-default' COMMENT 'canary-comment', g ENUM(x'fe') CHARACTER SET binary) COMMENT 'canary-comment'",
    ),
    ("", "INSERT INTO t (id, note) VALUES ('canary-key-3', 'canary\\0nul')"),
    ("", "UPDATE t SET doc = '{\"canary\": \"\\\\u0000\"}'"),
    ("DELETE FROM keyless", "UPDATE keyless SET note = 'canary-new'"),
    ("ALTER TABLE t ALTER COLUMN note TYPE varchar(3) USING 'abc'", "UPDATE t SET note = 'canary-long'"),
    ("", "ALTER TABLE t ADD COLUMN more VARCHAR(60) DEFAULT 'canary-default' COMMENT 'canary-comment'"),
    ("", "SET SESSION binlog_format = STATEMENT; UPDATE t SET note = 'canary-statement'"),
    (
        "",
        "XA START 'canary-xid'; UPDATE t SET note = 'canary-xa'; XA END 'canary-xid'; XA PREPARE 'canary-xid'; XA ROLLBACK 'canary-xid'",
    ),
];

/// More rows than are written one by one; all have the same `u`.
const MANY: &str = "INSERT INTO t (id, note, u) WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 900)
    SELECT CONCAT('canary-many-', i), 'canary-many', 'canary-u-many' FROM s";

async fn collect(fixture: &Fixture<'_>, tidegate: &Tidegate) -> Result<Vec<(&'static str, String)>> {
    let mut seen = Vec::new();
    for path in ["/", "/live", "/health", "/ready", "/status", "/metrics", "/canaryless"] {
        seen.push((path, tidegate.get(path).await?.body));
    }
    for command in ["status", "check"] {
        let output = tidegate.cli(&[command]).await?;
        seen.push((command, format!("{}{}", output.stdout, output.stderr)));
    }
    let halts = fixture.target_rows("SELECT h::text FROM tidegate.halt h").await?;
    seen.push(("tidegate.halt", format!("{halts:?}")));
    seen.push(("log", tidegate.log()?));
    Ok(seen)
}

/// A halt is shown before it is recorded: without this there might be no row to look at.
async fn recorded(fixture: &Fixture<'_>) -> Result<()> {
    let open = "SELECT reason FROM tidegate.halt WHERE cleared_at IS NULL";
    until_ok("the halt in the target", || async { fixture.target_scalar(open).await?.context("no row") })
        .await
        .map(drop)
}

fn silent(seen: &[(&'static str, String)]) -> Result<()> {
    for (place, text) in seen {
        // The path that was asked for is the caller's own.
        let text = text.replace("/canaryless", "");
        let tells = |line: &&str| {
            CANARIES.iter().any(|canary| line.contains(canary))
                || YEARS.iter().all(|year| has_word(line, year))
        };
        let line = text.lines().find(tells);
        ensure!(line.is_none(), "{place} tells: {line:?}");
    }
    Ok(())
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_ascii_alphanumeric()).any(|found| found == word)
}

#[test]
fn sings_nowhere() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        for (on_target, on_source) in FAULTS {
            let fixture = servers.fixture("bird").await?;
            fixture.source(TABLES).await?;
            let tidegate =
                Tidegate::start(fixture.config().set("log.level", "trace").set("ddl.policy", "halt")).await?;
            tidegate.wait_state("streaming").await?;
            if !on_target.is_empty() {
                fixture.target(on_target).await?;
            }
            fixture.source(on_source).await?;
            tidegate.wait_halt().await?;
            recorded(&fixture).await?;
            let seen = collect(&fixture, &tidegate).await?;
            ensure!(
                seen.iter().any(|(place, text)| *place == "log" && text.contains("halted")),
                "no log to look at"
            );
            silent(&seen)?;
        }
        Ok(())
    });
}

#[test]
fn a_copy_that_fails_tells_no_value() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        for table in [
            "CREATE TABLE c (id VARCHAR(60) PRIMARY KEY, note TEXT); INSERT INTO c VALUES ('canary-key', 'canary\\0nul')",
            "CREATE TABLE c (note TEXT, n BIGINT); INSERT INTO c VALUES ('canary\\0nul', 735124680135)",
            "CREATE TABLE c (id VARCHAR(60) PRIMARY KEY, doc JSON); INSERT INTO c VALUES ('canary-key', '{\"canary\": \"\\\\u0000\"}')",
            "CREATE TABLE c (lasted TIME(6), first YEAR, last YEAR, flags BIT(64), note TEXT);
             INSERT INTO c VALUES ('421:37:19.654321', 2137, 2149, 0x63616E6172792121, 'nul\\0')",
            "SET sql_mode = ''; CREATE TABLE c (id DATE PRIMARY KEY, note TEXT); INSERT INTO c VALUES ('1987-00-21', 'canary'), ('1987-03-00', 'canary')",
        ] {
            let fixture = servers.fixture("egg").await?;
            fixture.source(table).await?;
            let tidegate = Tidegate::start(fixture.config().set("log.level", "trace")).await?;
            let halt = tidegate.wait_halt().await.map_err(|error| error.context(table))?;
            ensure!(halt["table"] == format!("{}.c", fixture.source), "no table: {halt}");
            recorded(&fixture).await?;
            silent(&collect(&fixture, &tidegate).await?)?;
        }
        Ok(())
    });
}

#[test]
fn a_refused_configuration_and_a_refused_request_tell_no_secret() {
    run(async {
        let fixture = Servers::shared().await?.fixture("refused").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY)").await?;
        for (key, value) in [
            ("source.url", "mysql://root:canary-in-url@127.0.0.1:3306"),
            ("source.url", "mysql://root:canary-in-url@127.0.0.1:port"),
            ("source.url", "mysql://root@127.0.0.1:3306/?password=canary-in-query"),
            ("target.url", "postgres://app:canary-in-url@127.0.0.1:5432/app"),
            ("target.url", "postgres://app@127.0.0.1:5432/app?password=canary-in-query"),
            ("target.url", "host=127.0.0.1 password=canary-in-words"),
            ("source.passwort", "canary-misspelt"),
            ("admin.tokens", "canary-misspelt"),
        ] {
            let tidegate = Tidegate::prepare(fixture.config().set(key, value))?;
            for command in ["check", "status", "run"] {
                let output = tidegate.cli(&[command]).await?;
                ensure!(output.code == Some(2), "{key} = {value}: {command} exits with {:?}", output.code);
                silent(&[("output", format!("{}{}", output.stdout, output.stderr))])?;
            }
        }
        let tidegate = Tidegate::start(fixture.config().set("log.level", "trace")).await?;
        tidegate.wait_state("streaming").await?;
        let refused =
            tidegate_integration::http::post(tidegate.admin_addr(), "/v1/resume", Some("canary-guess"))
                .await?;
        ensure!(refused.status == 401 || refused.status == 403, "{refused:?}");
        silent(&[("answer", refused.body)])?;
        silent(&collect(&fixture, &tidegate).await?)
    });
}

#[test]
fn wrong_passwords_are_not_told() {
    run(async {
        let fixture = Servers::shared().await?.fixture("wrong").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY)").await?;
        for config in [
            fixture.config().source_password("canary-wrong"),
            fixture.config().target_password("canary-wrong"),
        ] {
            let config = config
                .set("log.level", "trace")
                .set("retry.max_connect_attempts", 2)
                .set("retry.initial_backoff", "10ms");
            let tidegate = Tidegate::start(config).await?;
            let halt = tidegate.wait_halt().await?;
            let expected = ["source_unavailable", "target_unavailable"];
            ensure!(expected.iter().any(|reason| halt["reason"] == *reason), "{halt}");
            silent(&[("log", tidegate.log()?), ("status", tidegate.get("/status").await?.body)])?;
        }
        Ok(())
    });
}

/// The minimal file, with something wrong about it. The places of the fault tell no text of the file.
#[test]
fn a_file_that_is_no_toml_and_variables_with_bad_values_tell_no_secret() {
    run(async {
        let dir = tempfile::tempdir()?;
        let minimal = "[pipeline]\nname = 'app'\n[source]\nurl = 'mysql://repl@127.0.0.1:1'\nserver_id = 1\n\
            tls = 'off'\n[target]\nurl = 'postgres://app@127.0.0.1:1/app'\ntls = 'off'\n[tables]\ninclude = ['app.*']\n";
        let path = dir.path().join("tidegate.toml");
        for wrong in [
            "[admin]\ntoken_file = \"canary-not-closed\n",
            "[admin]\ntoken_file = 'canary-one' 'canary-two'\n",
            "[admin]\ntoken_file = canary-bare\n",
            "[admin]\ntoken_file = \"canary-\\q-escape\"\n",
            "[admin]\nlisten = 'canary-one'\nlisten = 'canary-two'\n",
            "canary-line without an equals sign\n",
            "[log]\nlevel = { canary = 'canary-inside' \n",
            "[log]\nformat = 'canary-format'\n",
            "[log]\nlevel = 'canary=canary=canary'\n",
            "[admin]\nlisten = 'canary-address'\n",
            "[snapshot]\nparallelism = 'canary-number'\nlock_deadline = 'canary-time'\nblock_ddl = 'canary-bool'\n",
            "[fold]\nmax_buffer_bytes = 'canary-size'\n",
        ] {
            fs::write(&path, format!("{minimal}{wrong}"))?;
            for command in ["check", "run", "status"] {
                let output = run_in(dir.path(), &[command], &[]).await?;
                ensure!(output.code == Some(2), "{wrong}: {command} gives {output:?}");
                ensure!(!output.stderr.is_empty(), "{wrong}: no word of what is wrong");
                silent(&[("output", format!("{}{}", output.stdout, output.stderr))]).context(wrong)?;
            }
        }
        fs::write(&path, minimal)?;
        for (variable, value) in [
            ("TIDEGATE_SOURCE__URL", "mysql://repl:canary-in-url@127.0.0.1:1"),
            ("TIDEGATE_SOURCE__URL", "canary-no-url"),
            ("TIDEGATE_TARGET__URL", "postgres://app@127.0.0.1:1/app?password=canary-in-query"),
            ("TIDEGATE_SOURCE__SERVER_ID", "canary-id"),
            ("TIDEGATE_SOURCE__TLS", "canary-mode"),
            ("TIDEGATE_SOURCE__PASSWORD", "canary-no-such-key"),
            ("TIDEGATE_ADMIN__TOKEN", "canary-no-such-key"),
            ("TIDEGATE_ADMIN__LISTEN", "canary-address"),
            ("TIDEGATE_SNAPSHOT__LOCK_DEADLINE", "canary-time"),
            ("TIDEGATE_FOLD__MAX_BUFFER_BYTES", "canary-size"),
            ("TIDEGATE_SNAPSHOT__BLOCK_DDL", "canary-bool"),
            ("TIDEGATE_LOG__LEVEL", "canary=canary=canary"),
        ] {
            for command in ["check", "run", "status"] {
                let output = run_in(dir.path(), &[command], &[(variable, value)]).await?;
                ensure!(output.code == Some(2), "{variable}={value}: {command} gives {output:?}");
                ensure!(output.stderr.to_ascii_lowercase().contains(&key_of(variable)), "{output:?}");
                silent(&[("output", format!("{}{}", output.stdout, output.stderr))]).context(variable)?;
            }
        }
        Ok(())
    });
}

/// The key that a variable sets, without its section.
fn key_of(variable: &str) -> String {
    variable.rsplit("__").next().unwrap_or(variable).to_ascii_lowercase()
}

#[test]
fn tls_that_fails_tells_neither_keys_nor_passwords() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("tls").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY); ALTER USER 'repl'@'%' REQUIRE SSL").await?;
        let dir = tempfile::tempdir()?;
        let pem = |name: &str, label: &str| -> Result<String> {
            let path = dir.path().join(name);
            let body = "Y2FuYXJ5LXNlY3JldC1jYW5hcnktc2VjcmV0LWNhbmFyeS1zZWNyZXQ=";
            fs::write(
                &path,
                format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\ncanary-after-it\n"),
            )?;
            Ok(path.display().to_string())
        };
        let (certificate, key) = (pem("certificate.pem", "CERTIFICATE")?, pem("key.pem", "PRIVATE KEY")?);
        let empty = dir.path().join("empty.pem");
        fs::write(&empty, "canary-no-pem")?;
        let empty = empty.display().to_string();
        let mut configs = vec![
            // Refused by the source, which wants TLS, and by the target, which has none.
            fixture.config(),
            fixture.config().set("source.tls", "encrypt-only").set("target.tls", "encrypt-only"),
            // A certificate that nothing here has signed.
            fixture.config().set("source.tls", "verify-full"),
        ];
        for side in ["source", "target"] {
            for file in [&certificate, &key, &empty] {
                let config = fixture.config().set("source.tls", "encrypt-only");
                let config = config.set(&format!("{side}.tls"), "verify-ca");
                configs.push(config.clone().set(&format!("{side}.tls_ca_file"), file.as_str()));
                let pair = config.set(&format!("{side}.tls_cert_file"), file.as_str());
                configs.push(pair.set(&format!("{side}.tls_key_file"), key.as_str()));
            }
        }
        for (number, config) in configs.into_iter().enumerate() {
            let config = config
                .set("log.level", "trace")
                .set("retry.max_connect_attempts", 1)
                .set("retry.initial_backoff", "10ms");
            let tidegate = Tidegate::prepare(config)?;
            tidegate.spawn(&["--exit-on-halt"])?;
            let code = tidegate.exit_code().await?;
            ensure!([Some(1), Some(2), Some(3)].contains(&code), "number {number} ends with {code:?}");
            let check = tidegate.cli(&["check"]).await?;
            ensure!(check.code != Some(0), "number {number}: {check:?}");
            let told = format!("{}{}", check.stdout, check.stderr);
            silent(&[("log", tidegate.log()?), ("check", told)]).context(format!("number {number}"))?;
        }
        Ok(())
    });
}
