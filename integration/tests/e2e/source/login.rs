//! Every way to log in, on the dump's own transport and on the driver's.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use tidegate::config::{Secret, SourceConfig, TlsMode};
use tidegate::gtid::GtidSet;
use tidegate::halt::{Failure, Reason};
use tidegate::source::connect::{connect, identity};
use tidegate::source::dump::Dump;
use tidegate_integration::{MySql, Servers, run};

use super::{config, next, reason, replica_uuid, server_uuid};

const PASSWORD: &str = "pässword with ' and \\ and 漢字";

fn login(config: &SourceConfig, user: &str, password: &str, mode: TlsMode) -> SourceConfig {
    let mut config = config.clone();
    config.user = user.to_owned();
    config.password = (!password.is_empty()).then(|| Secret::new(password.to_owned()));
    config.tls.mode = mode;
    config
}

/// The failures of both kinds of connection, which have to agree.
pub(crate) async fn refused(config: &SourceConfig) -> Result<[Failure; 2]> {
    let dump =
        Dump::open(config, &replica_uuid(), &GtidSet::new()).await.err().context("the dump was let in")?;
    let sql = connect(config).await.err().context("the SQL connection was let in")?;
    ensure!(reason(&dump) == reason(&sql), "{dump} / {sql}");
    Ok([dump, sql])
}

pub(crate) async fn accepted(mysql: &MySql, config: &SourceConfig) -> Result<()> {
    let set = super::executed(mysql).await?;
    let mut dump = Dump::open(config, &replica_uuid(), &set).await.context("dump")?;
    next(&mut dump).await.context("first event")?;
    ensure!(*dump.server_uuid() == server_uuid(mysql).await?);
    dump.close().await;
    let mut conn = connect(config).await.context("SQL")?;
    ensure!(identity(&mut conn).await?.server_uuid == server_uuid(mysql).await?);
    Ok(())
}

#[test]
fn passwords_of_every_kind_with_and_without_tls() {
    run(async {
        let mysql = &Servers::shared().await?.mysql;
        let config = config(mysql);
        let password = PASSWORD.replace('\\', "\\\\").replace('\'', "''");
        mysql
            .exec(
                "",
                &format!(
                    "CREATE USER login_sha2@'%' IDENTIFIED WITH caching_sha2_password BY '{password}';
                     CREATE USER login_empty@'%' IDENTIFIED WITH caching_sha2_password BY '';
                     CREATE USER login_sha256@'%' IDENTIFIED WITH sha256_password BY 'x';
                     CREATE USER login_long@'%' IDENTIFIED BY '{}';
                     CREATE USER login_locked@'%' IDENTIFIED BY 'x' ACCOUNT LOCK;
                     GRANT REPLICATION SLAVE ON *.* TO login_sha2@'%', login_empty@'%', login_long@'%'",
                    "x".repeat(230)
                ),
            )
            .await?;
        for mode in [TlsMode::Off, TlsMode::EncryptOnly] {
            // The server forgets what it has cached: the whole password is asked for, then not.
            mysql.exec("", "FLUSH PRIVILEGES").await?;
            accepted(mysql, &login(&config, "login_sha2", PASSWORD, mode)).await?;
            accepted(mysql, &login(&config, "login_sha2", PASSWORD, mode)).await?;
            accepted(mysql, &login(&config, "login_empty", "", mode)).await?;
            for (user, password) in
                [("login_sha2", "wrong"), ("login_sha2", ""), ("login_locked", "x"), ("login_sha256", "x")]
            {
                let [failure, _] = refused(&login(&config, user, password, mode)).await?;
                ensure!(reason(&failure).is_none(), "{user}: a refused login is retried, not: {failure}");
                ensure!(!failure.to_string().contains("wrong"));
            }
        }
        mysql.exec("", "FLUSH PRIVILEGES").await?;
        let long = "x".repeat(230);
        accepted(mysql, &login(&config, "login_long", &long, TlsMode::EncryptOnly)).await?;
        mysql.exec("", "FLUSH PRIVILEGES").await?;
        refused(&login(&config, "login_long", &long, TlsMode::Off)).await?;
        Ok(())
    });
}

#[test]
fn an_account_without_replication_slave_is_a_preflight_problem() {
    run(async {
        let mysql = &Servers::shared().await?.mysql;
        mysql.exec("", "CREATE USER login_plain@'%' IDENTIFIED BY 'x'").await?;
        let config = login(&config(mysql), "login_plain", "x", TlsMode::EncryptOnly);
        let failure = super::refusal(&config, &GtidSet::new()).await?;
        ensure!(reason(&failure) == Some(Reason::SourcePreflight), "{failure}");
        ensure!(failure.to_string().contains("REPLICATION SLAVE"), "{failure}");
        Ok(())
    });
}

#[test]
fn a_server_that_is_not_there_is_retried() {
    run(async {
        let mut config = config(&Servers::shared().await?.mysql);
        config.port = tidegate_integration::servers::free_port()?;
        ensure!(reason(&refused(&config).await?[0]).is_none());
        Ok(())
    });
}

/// A file that the server made for itself at its first start.
fn server_file(mysql: &MySql, directory: &TempDir, name: &str) -> Result<PathBuf> {
    let source = format!("/var/lib/mysql/{name}");
    let output = Command::new("docker").args(["exec", mysql.container_id(), "cat", &source]).output()?;
    ensure!(output.status.success(), "cannot read {name}: {}", String::from_utf8_lossy(&output.stderr));
    let path = directory.path().join(name);
    std::fs::write(&path, output.stdout)?;
    Ok(path)
}

#[test]
fn certificates_are_verified_as_far_as_the_mode_says() {
    run(async {
        let mysql = &Servers::shared().await?.mysql;
        mysql
            .exec(
                "",
                "CREATE USER login_x509@'%' IDENTIFIED BY 'x' REQUIRE X509;
                 GRANT REPLICATION SLAVE ON *.* TO login_x509@'%'",
            )
            .await?;
        let directory = TempDir::new()?;
        let ca = server_file(mysql, &directory, "ca.pem")?;
        let client = server_file(mysql, &directory, "client-cert.pem")?;
        let key = server_file(mysql, &directory, "client-key.pem")?;
        let base = config(mysql);
        let with = |mode, ca: Option<&PathBuf>| {
            let mut config = base.clone();
            config.tls.mode = mode;
            config.tls.ca_file = ca.cloned();
            config
        };
        accepted(mysql, &with(TlsMode::VerifyCa, Some(&ca))).await?;
        // Signed by the CA, but not a CA, and not the server's.
        for config in [
            with(TlsMode::VerifyCa, Some(&client)),
            with(TlsMode::VerifyCa, None),
            // MySQL's own certificate is made out to no host.
            with(TlsMode::VerifyFull, Some(&ca)),
        ] {
            ensure!(reason(&refused(&config).await?[0]).is_none());
        }
        let mut x509 = with(TlsMode::VerifyCa, Some(&ca));
        x509.user = "login_x509".to_owned();
        x509.password = Some(Secret::new("x".to_owned()));
        refused(&x509).await?;
        x509.tls.cert_file = Some(client);
        x509.tls.key_file = Some(key);
        accepted(mysql, &x509).await
    });
}

#[test]
fn a_server_without_tls_is_refused_unless_tls_is_off() {
    run(async {
        let mysql = MySql::start_new(&["--tls-version="]).await?;
        let mut config = config(&mysql);
        for failure in refused(&config).await? {
            ensure!(reason(&failure).is_none() && failure.to_string().contains("turn TLS on"), "{failure}");
        }
        config.tls.mode = TlsMode::Off;
        accepted(&mysql, &config).await
    });
}
