//! TLS in all its modes on both sides: an authority of the test's own, certificates of clients, and
//! everything that has to be refused. Logins by password and MySQL's own certificates: `source::login`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tidegate::config::{Secret, SourceConfig, TargetConfig, TlsConfig, TlsMode};
use tidegate::sink;
use tidegate::source::dump::Dump;
use tidegate_integration::certificates::{Authority, Pair};
use tidegate_integration::mysql::{REPLICATION_PASSWORD, REPLICATION_USER};
use tidegate_integration::postgres::{TARGET_PASSWORD, TARGET_ROLE};
use tidegate_integration::wait::{self, Look};
use tidegate_integration::{Servers, Tidegate, run};
use tokio::sync::OnceCell;

use crate::source::login::{accepted, refused};

/// The one name in the servers' certificates: their address is not.
const HOST: &str = "localhost";
const ADDRESS: &str = "127.0.0.1";

/// Logs in with a certificate on either side, on PostgreSQL with nothing else.
const CERTIFIED: &str = "certified";

const DATA: &str = "/var/lib/postgresql/data";

/// One pair of servers with certificates, and what clients have.
struct Secured {
    servers: Servers,
    authority: Authority,
    stranger: Authority,
    client: Pair,
}

async fn secured() -> Result<&'static Secured> {
    static SECURED: OnceCell<Secured> = OnceCell::const_new();
    SECURED
        .get_or_try_init(|| async {
            let (authority, stranger) = (Authority::new()?, Authority::new()?);
            let servers = Servers::own(&[], &["fsync=off"]).await?;
            secure_mysql(&servers, &authority).await?;
            secure_postgres(&servers, &authority).await?;
            let client = authority.sign(CERTIFIED, None)?;
            Ok(Secured { servers, authority, stranger, client })
        })
        .await
}

async fn secure_mysql(servers: &Servers, authority: &Authority) -> Result<()> {
    let mysql = &servers.mysql;
    let (certificate, key) = authority.sign("mysql", Some(HOST))?.read()?;
    let ca = fs::read_to_string(authority.certificate())?;
    for (name, content) in [("ca", &ca), ("cert", &certificate), ("key", &key)] {
        let path = format!("/var/lib/mysql/own-{name}.pem");
        mysql.put_file(&path, content, "mysql").await?;
        mysql.exec("", &format!("SET GLOBAL ssl_{name} = '{path}'")).await?;
    }
    let account = format!(
        "ALTER INSTANCE RELOAD TLS;
         CREATE USER {CERTIFIED}@'%' IDENTIFIED BY '{REPLICATION_PASSWORD}' REQUIRE SUBJECT '/CN={CERTIFIED}';
         GRANT ALL ON *.* TO {CERTIFIED}@'%';
         CREATE USER secret@'%' IDENTIFIED BY 'x' REQUIRE SSL; GRANT REPLICATION SLAVE ON *.* TO secret@'%'"
    );
    mysql.exec("", &account).await
}

async fn secure_postgres(servers: &Servers, authority: &Authority) -> Result<()> {
    let postgres = &servers.postgres;
    let (certificate, key) = authority.sign("postgres", Some(HOST))?.read()?;
    let ca = fs::read_to_string(authority.certificate())?;
    for (name, content) in [("ca", &ca), ("cert", &certificate), ("key", &key)] {
        let path = format!("{DATA}/own-{name}.pem");
        postgres.put_file(&path, content, "postgres").await?;
        postgres.exec("postgres", &format!("ALTER SYSTEM SET ssl_{name}_file = '{path}'")).await?;
    }
    postgres.exec("postgres", "ALTER SYSTEM SET ssl = on").await?;
    let rules = format!(
        "local all all trust\n\
         hostssl all {CERTIFIED} all cert\n\
         hostssl all dual all scram-sha-256 clientcert=verify-ca\n\
         hostssl all secret all scram-sha-256\n\
         host all postgres,{TARGET_ROLE} all scram-sha-256\n"
    );
    postgres.put_file(&format!("{DATA}/pg_hba.conf"), &rules, "postgres").await?;
    let roles = format!(
        "CREATE ROLE {CERTIFIED} LOGIN; GRANT SET ON PARAMETER session_replication_role TO {CERTIFIED};
         CREATE ROLE secret LOGIN PASSWORD '{TARGET_PASSWORD}'; CREATE ROLE dual LOGIN PASSWORD '{TARGET_PASSWORD}';
         SELECT pg_reload_conf()"
    );
    postgres.exec("postgres", &roles).await
}

/// How a client comes, and what is part of the failure if it is refused.
struct Attempt {
    mode: TlsMode,
    ca: Option<PathBuf>,
    host: &'static str,
    user: &'static str,
    pair: Option<Pair>,
    refused: Option<&'static str>,
}

impl Attempt {
    fn new(mode: TlsMode, ca: Option<PathBuf>, host: &'static str, refused: Option<&'static str>) -> Self {
        Self { mode, ca, host, user: "", pair: None, refused }
    }

    fn with(self, user: &'static str, pair: Option<&Pair>) -> Self {
        Self { user, pair: pair.cloned(), ..self }
    }

    fn tls(&self) -> TlsConfig {
        TlsConfig {
            mode: self.mode,
            ca_file: self.ca.clone(),
            cert_file: self.pair.as_ref().map(|pair| pair.certificate.clone()),
            key_file: self.pair.as_ref().map(|pair| pair.key.clone()),
        }
    }

    fn told(&self) -> String {
        format!("{:?} as {:?} at {}, {:?}", self.mode, self.user, self.host, self.tls())
    }
}

/// The modes against a server with a certificate of the authority, on either side.
fn modes(secured: &Secured) -> Vec<Attempt> {
    let ca = || Some(secured.authority.certificate());
    let other = || Some(secured.stranger.certificate());
    let (untrusted, misnamed) =
        (Some("name the file of its CA in tls_ca_file"), Some("not made out to the host"));
    vec![
        Attempt::new(TlsMode::Off, None, ADDRESS, None),
        Attempt::new(TlsMode::EncryptOnly, None, ADDRESS, None),
        Attempt::new(TlsMode::VerifyCa, ca(), ADDRESS, None),
        Attempt::new(TlsMode::VerifyCa, other(), ADDRESS, untrusted),
        Attempt::new(TlsMode::VerifyCa, None, HOST, untrusted),
        Attempt::new(TlsMode::VerifyFull, ca(), HOST, None),
        Attempt::new(TlsMode::VerifyFull, ca(), ADDRESS, misnamed),
        Attempt::new(TlsMode::VerifyFull, other(), HOST, untrusted),
        Attempt::new(TlsMode::VerifyFull, None, HOST, untrusted),
    ]
}

fn source_config(secured: &Secured, attempt: &Attempt) -> SourceConfig {
    let mysql = &secured.servers.mysql;
    let mut config = crate::source::config(mysql);
    attempt.host.clone_into(&mut config.host);
    if !attempt.user.is_empty() {
        attempt.user.clone_into(&mut config.user);
    }
    if attempt.user == "secret" {
        config.password = Some(Secret::new("x".to_owned()));
    }
    config.tls = attempt.tls();
    config
}

#[test]
fn the_source_in_every_mode() {
    run(async {
        let secured = secured().await?;
        let ca = || Some(secured.authority.certificate());
        let foreign = secured.stranger.sign(CERTIFIED, None)?;
        let another = secured.authority.sign("another", None)?;
        let denied = Some("Access denied");
        let mut attempts = modes(secured);
        let full = || Attempt::new(TlsMode::VerifyFull, ca(), HOST, None);
        let refused_as = |refused| Attempt { refused, ..full() };
        attempts.extend([
            full().with(CERTIFIED, Some(&secured.client)),
            refused_as(denied).with(CERTIFIED, None),
            refused_as(denied).with(CERTIFIED, Some(&another)),
            refused_as(Some("")).with(CERTIFIED, Some(&foreign)),
            Attempt::new(TlsMode::EncryptOnly, None, ADDRESS, None).with("secret", None),
            Attempt::new(TlsMode::Off, None, ADDRESS, denied).with("secret", None),
        ]);
        for attempt in attempts {
            let config = source_config(secured, &attempt);
            match attempt.refused {
                None => accepted(&secured.servers.mysql, &config).await.with_context(|| attempt.told())?,
                Some(part) => {
                    for failure in refused(&config).await.with_context(|| attempt.told())? {
                        ensure!(failure.to_string().contains(part), "{}: {failure}", attempt.told());
                    }
                }
            }
        }
        Ok(())
    });
}

#[test]
fn what_the_source_calls_encrypted_is() {
    run(async {
        let secured = secured().await?;
        let mysql = &secured.servers.mysql;
        for (mode, expected) in [(TlsMode::Off, "TCP/IP"), (TlsMode::VerifyCa, "SSL/TLS")] {
            let ca = (mode != TlsMode::Off).then(|| secured.authority.certificate());
            let config = source_config(secured, &Attempt::new(mode, ca, ADDRESS, None));
            let set = mysql.gtid_executed().await?.parse()?;
            let dump = Dump::open(&config, &crate::source::replica_uuid(), &set).await?;
            let conn = tidegate::source::connect::connect(&config).await?;
            for id in [dump.connection_id(), conn.id()] {
                let sql = format!(
                    "SELECT CONNECTION_TYPE FROM performance_schema.threads WHERE PROCESSLIST_ID = {id}"
                );
                ensure!(mysql.scalar("", &sql).await?.as_deref() == Some(expected), "{mode:?}");
            }
            dump.close().await;
        }
        Ok(())
    });
}

#[test]
fn the_target_in_every_mode() {
    run(async {
        let secured = secured().await?;
        let ca = || Some(secured.authority.certificate());
        let foreign = secured.stranger.sign(CERTIFIED, None)?;
        let another = secured.authority.sign("another", None)?;
        let full = || Attempt::new(TlsMode::VerifyFull, ca(), HOST, None);
        let refused_as = |refused| Attempt { refused, ..full() };
        let mut attempts = modes(secured);
        attempts.extend([
            full().with(CERTIFIED, Some(&secured.client)),
            refused_as(Some("certificate")).with(CERTIFIED, None),
            refused_as(Some("certificate authentication failed")).with(CERTIFIED, Some(&another)),
            refused_as(Some("")).with(CERTIFIED, Some(&foreign)),
            full().with("dual", Some(&another)),
            refused_as(Some("set tls_cert_file and tls_key_file")).with("dual", None),
            Attempt::new(TlsMode::EncryptOnly, None, ADDRESS, None).with("secret", None),
            Attempt::new(TlsMode::Off, None, ADDRESS, Some("pg_hba.conf")).with("secret", None),
        ]);
        for attempt in attempts {
            let user = if attempt.user.is_empty() { TARGET_ROLE } else { attempt.user };
            let config = TargetConfig {
                host: attempt.host.to_owned(),
                user: user.to_owned(),
                tls: attempt.tls(),
                ..crate::sink::config_at(secured.servers.postgres.addr(), "postgres")
            };
            match (sink::connect::connect(&config).await, attempt.refused) {
                (Ok(_client), None) => {
                    let sql = format!(
                        "SELECT string_agg(DISTINCT ssl::text, ',') FROM pg_stat_ssl \
                         JOIN pg_stat_activity USING (pid) WHERE usename = '{user}'"
                    );
                    let expected = (attempt.mode != TlsMode::Off).to_string();
                    let told = attempt.told();
                    // Sessions of the attempts before take a moment to end.
                    wait::until(&told, || async {
                        let ssl = secured.servers.postgres.scalar("postgres", &sql).await?;
                        Ok(match ssl.as_deref() {
                            Some(ssl) if ssl == expected => Look::Done(()),
                            other => Look::NotYet(format!("ssl is {other:?}")),
                        })
                    })
                    .await?;
                }
                (Err(failure), Some(part)) => {
                    ensure!(failure.to_string().contains(part), "{}: {failure}", attempt.told());
                }
                (Ok(_), Some(_)) => anyhow::bail!("let in: {}", attempt.told()),
                (Err(failure), None) => anyhow::bail!("{}: {failure}", attempt.told()),
            }
        }
        // The shared server has no TLS: nothing falls back to a plain connection.
        let plain = &Servers::shared().await?.postgres;
        for mode in [TlsMode::EncryptOnly, TlsMode::VerifyCa, TlsMode::VerifyFull] {
            let tls = TlsConfig { mode, ca_file: None, cert_file: None, key_file: None };
            let config = TargetConfig { tls, ..crate::sink::config_at(plain.addr(), "postgres") };
            let failure = sink::connect::connect(&config).await.err().context("let in")?;
            ensure!(failure.to_string().contains("turn TLS on"), "{failure}");
        }
        Ok(())
    });
}

#[test]
fn a_pipeline_of_certificates_and_its_files() {
    run(async {
        let secured = secured().await?;
        let fixture = secured.servers.fixture("tls").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").await?;
        fixture.target(&format!("ALTER DATABASE {} OWNER TO {CERTIFIED}", fixture.target)).await?;
        let (mysql, postgres) = (&secured.servers.mysql, &secured.servers.postgres);
        let mut config =
            fixture.config().set("source.url", format!("mysql://{CERTIFIED}@{HOST}:{}", mysql.port())).set(
                "target.url",
                format!("postgres://{CERTIFIED}@{HOST}:{}/{}", postgres.port(), fixture.target),
            );
        for side in ["source", "target"] {
            let text = |path: &PathBuf| path.display().to_string();
            config.put(&format!("{side}.tls"), "verify-full");
            config.put(&format!("{side}.tls_ca_file"), text(&secured.authority.certificate()));
            config.put(&format!("{side}.tls_cert_file"), text(&secured.client.certificate));
            config.put(&format!("{side}.tls_key_file"), text(&secured.client.key));
        }
        let mut tidegate = Tidegate::prepare(config.clone())?;
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(0), "{check:?}");
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        fixture.source("INSERT INTO t VALUES (2)").await?;
        tidegate.caught_up(&fixture).await?;
        fixture.assert_same().await?;
        let sessions = format!(
            "SELECT CONNECTION_TYPE, SUM(PROCESSLIST_COMMAND = 'Binlog Dump GTID') > 0 FROM performance_schema.threads
             WHERE PROCESSLIST_USER = '{CERTIFIED}' GROUP BY CONNECTION_TYPE"
        );
        let found = mysql.rows("", &sessions).await?;
        ensure!(found == [vec![Some("SSL/TLS".to_owned()), Some("1".to_owned())]], "{found:?}");
        let sessions = format!(
            "SELECT bool_and(ssl AND client_dn = '/CN={CERTIFIED}') FROM pg_stat_ssl
             JOIN pg_stat_activity USING (pid) WHERE usename = '{CERTIFIED}'"
        );
        ensure!(postgres.scalar("postgres", &sessions).await?.as_deref() == Some("t"), "PostgreSQL");
        tidegate.stop().await?;

        let (_, secret) = secured.client.read()?;
        let broken = tempfile::tempdir()?;
        let cut = broken.path().join("cut.key");
        fs::write(&cut, &secret[..secret.len() / 2])?;
        let other = secured.authority.sign("other", None)?.key;
        let missing = broken.path().join("missing.key");
        for (path, remedy) in
            [(cut, "put the right file there"), (other, "made together"), (missing, "Correct the path")]
        {
            for side in ["source", "target"] {
                let key = format!("{side}.tls_key_file");
                tidegate.config = config.clone().set(&key, path.display().to_string());
                let run = tidegate.cli(&["run"]).await?;
                ensure!(run.code == Some(2), "{run:?}");
                for part in [&key, &path.display().to_string(), remedy] {
                    ensure!(run.stderr.contains(part), "{part} is missing: {}", run.stderr);
                }
                let line = secret.lines().nth(1).context("a line of the key")?;
                ensure!(!run.stderr.contains(line), "the key is shown");
            }
        }
        let exposed = broken.path().join("exposed.key");
        fs::write(&exposed, &secret)?;
        fs::set_permissions(&exposed, fs::Permissions::from_mode(0o644))?;
        tidegate.config = config.set("target.tls_key_file", exposed.display().to_string());
        let check = tidegate.cli(&["check"]).await?;
        ensure!(check.code == Some(0) && check.stdout.contains("chmod o-r"), "{check:?}");
        Ok(())
    });
}

#[test]
fn a_plain_connection_that_leaves_the_machine_is_told_of() {
    run(async {
        let fixture = Servers::shared().await?.fixture("in_clear").await?;
        fixture.source("CREATE TABLE t (id INT PRIMARY KEY)").await?;
        let servers = fixture.servers;
        let config = fixture
            .config()
            .set("source.url", format!("mysql://{REPLICATION_USER}@{}", servers.mysql.inner_addr().await?))
            .target_at(servers.postgres.inner_addr().await?);
        let check = Tidegate::prepare(config)?.cli(&["check"]).await?;
        ensure!(check.code == Some(0), "{check:?}");
        for name in ["WARNING source.tls", "WARNING target.tls"] {
            ensure!(check.stdout.contains(name), "{}", check.stdout);
        }
        Ok(())
    });
}
