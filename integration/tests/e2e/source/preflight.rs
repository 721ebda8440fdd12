//! Every preflight problem, provoked on a live server.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use tidegate::config::{Secret, SourceConfig, TlsMode};
use tidegate::fold::XaPolicy;
use tidegate::preflight::Finding;
use tidegate::schema::filter::Filter;
use tidegate::source::connect::connect;
use tidegate::source::preflight::{check, size};
use tidegate_integration::binlog_proxy::{BinlogProxy, Tamper};
use tidegate_integration::{MySql, Servers, run};

use super::config;

async fn findings(config: &SourceConfig, include: &[&str]) -> Result<Vec<Finding>> {
    let include: Vec<String> = include.iter().map(ToString::to_string).collect();
    let filter = Filter::new(&include, &[])?;
    let types = Default::default();
    Ok(check(&mut connect(config).await?, config, &filter, &types, XaPolicy::Refuse).await?)
}

fn errors(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().filter(|finding| finding.is_error()).map(|finding| finding.name).collect()
}

fn warnings(findings: &[Finding]) -> BTreeSet<&'static str> {
    findings.iter().filter(|finding| !finding.is_error()).map(|finding| finding.name).collect()
}

fn login(config: &SourceConfig, user: &str) -> SourceConfig {
    let mut config = config.clone();
    config.user = user.to_owned();
    config.password = Some(Secret::new("x".to_owned()));
    config
}

#[test]
fn a_source_as_it_should_be_gives_no_finding() {
    run(async {
        let mysql = MySql::start_new(&[]).await?;
        mysql.exec("", "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY)").await?;
        let found = findings(&config(&mysql), &["t.*"]).await?;
        ensure!(found.is_empty(), "{found:?}");
        Ok(())
    });
}

/// No other release is to be had here, so a real server is made to look like one.
#[test]
fn a_server_of_another_series() {
    run(async {
        let servers = Servers::shared().await?;
        let fixture = servers.fixture("series").await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY)").await?;
        let include = format!("{}.*", fixture.source);
        let proxy = BinlogProxy::start(servers.mysql.addr()).await?;
        let mut config = config(&servers.mysql);
        (config.port, config.tls.mode) = (proxy.addr().port(), TlsMode::Off);
        for (lie, is_error, fix) in
            [(b"5.7.", true, "Upgrade the source"), (b"9.8.", false, "Upgrade Tidegate")]
        {
            proxy.tamper(&[Tamper::Replace(b"9.7.", lie)]);
            let found = findings(&config, &[&include]).await?;
            let version = found.iter().find(|finding| finding.name == "source.version");
            ensure!(
                version.is_some_and(|finding| finding.is_error() == is_error && finding.fix.contains(fix)),
                "{found:?}"
            );
        }
        Ok(())
    });
}

#[test]
fn every_setting_at_once() {
    run(async {
        let mysql = MySql::start_new(&[
            "--binlog-format=MIXED",
            "--binlog-row-image=MINIMAL",
            "--binlog-row-metadata=MINIMAL",
            "--binlog-row-value-options=PARTIAL_JSON",
            "--gtid-mode=OFF",
            "--enforce-gtid-consistency=OFF",
            "--binlog-error-action=IGNORE_ERROR",
            "--binlog-ignore-db=other",
            "--log-replica-updates=OFF",
            "--sync-binlog=0",
            "--innodb-flush-log-at-trx-commit=2",
            "--innodb-native-foreign-keys=ON",
            "--server-id=4242",
            "--binlog-expire-logs-seconds=60",
            "--replica-preserve-commit-order=OFF",
            "--replicate-ignore-table=t.ignored",
        ])
        .await?;
        mysql
            .exec(
                "",
                "CREATE DATABASE t; CREATE TABLE t.parent (id INT PRIMARY KEY);
                 CREATE TABLE t.child (id INT PRIMARY KEY, p INT, CONSTRAINT fk FOREIGN KEY (p)
                     REFERENCES parent (id) ON DELETE SET NULL);
                 CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'nowhere.invalid', SOURCE_PORT = 1;
                 CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (t.parent)",
            )
            .await?;
        let found = findings(&config(&mysql), &["t.*"]).await?;
        let expected = BTreeSet::from([
            "source.binlog_format",
            "source.binlog_row_image",
            "source.binlog_row_metadata",
            "source.binlog_row_value_options",
            "source.gtid_mode",
            "source.enforce_gtid_consistency",
            "source.binlog_error_action",
            "source.binlog_filter",
            "source.log_replica_updates",
            "source.server_id",
            "source.table.cascade",
        ]);
        ensure!(errors(&found) == expected, "{:?}", errors(&found));
        let expected = BTreeSet::from([
            "source.sync_binlog",
            "source.flush_log",
            "source.binlog_expire_logs_seconds",
            "source.replica_filter",
            "source.replica_preserve_commit_order",
        ]);
        ensure!(warnings(&found) == expected, "{:?}", warnings(&found));
        // What a fix names can be done: the dynamic ones mend their problem as they stand.
        let dynamic = [
            "source.binlog_format",
            "source.binlog_row_image",
            "source.binlog_row_metadata",
            "source.replica_filter",
            "source.replica_preserve_commit_order",
        ];
        for finding in found.iter().filter(|finding| dynamic.contains(&finding.name)) {
            // The replica of this test has nothing to connect to, and no thread that could start.
            let statements = finding.fix.split_inclusive(';').filter(|text| text.trim_end().ends_with(';'));
            for statement in statements.filter(|text| !text.contains("START REPLICA")) {
                mysql.exec("", statement).await.with_context(|| finding.fix.clone())?;
            }
        }
        let left = findings(&config(&mysql), &["t.*"]).await?;
        let left: BTreeSet<_> = errors(&left).union(&warnings(&left)).copied().collect();
        ensure!(dynamic.iter().all(|name| !left.contains(name)), "{left:?}");
        Ok(())
    });
}

#[test]
fn no_binlog_and_no_server_id() {
    run(async {
        let mysql = MySql::start_new(&[
            "--gtid-mode=OFF",
            "--enforce-gtid-consistency=OFF",
            "--skip-log-bin",
            "--lower-case-table-names=1",
        ])
        .await?;
        mysql
            .exec("", "SET GLOBAL server_id = 0; CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY)")
            .await?;
        let found = errors(&findings(&config(&mysql), &["t.*"]).await?);
        for name in
            ["source.log_bin", "source.server_id", "source.gtid_mode", "source.lower_case_table_names"]
        {
            ensure!(found.contains(name), "{name} is missing in {found:?}");
        }
        Ok(())
    });
}

#[test]
fn privileges_directly_by_role_and_missing() {
    run(async {
        let servers = Servers::own(&[], &[]).await?;
        let fixture = servers.fixture("privileges").await?;
        let mysql = &fixture.servers.mysql;
        let database = fixture.source.as_str();
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY); CREATE TABLE b (id INT PRIMARY KEY)").await?;
        mysql
            .exec(
                database,
                &format!(
                    "CREATE USER pf_none@'%' IDENTIFIED BY 'x';
                     CREATE USER pf_column@'%' IDENTIFIED BY 'x';
                     GRANT SELECT (id) ON a TO pf_column@'%';
                     CREATE ROLE pf_role;
                     GRANT SELECT, LOCK TABLES ON {database}.* TO pf_role;
                     GRANT REPLICATION CLIENT ON *.* TO pf_role;
                     CREATE USER pf_by_role@'%' IDENTIFIED BY 'x' DEFAULT ROLE pf_role;
                     GRANT pf_role TO pf_by_role@'%';
                     GRANT REPLICATION SLAVE ON *.* TO pf_by_role@'%'"
                ),
            )
            .await?;
        let base = config(mysql);
        let table = format!("{database}.a");
        let include = [table.as_str()];
        let globals =
            BTreeSet::from(["source.privilege.replication_slave", "source.privilege.replication_client"]);
        let lacking = BTreeSet::from([
            "source.privilege.backup_admin",
            "source.privilege.metadata_locks",
            "source.privilege.xa_recover_admin",
        ]);

        // Without any privilege the table is not even seen.
        let none = findings(&login(&base, "pf_none"), &include).await?;
        let mut expected = globals.clone();
        expected.insert("source.tables.include");
        ensure!(errors(&none) == expected && warnings(&none) == lacking, "{none:?}");

        let column = findings(&login(&base, "pf_column"), &include).await?;
        let mut expected = globals;
        expected.extend(["source.privilege.select", "source.privilege.lock_tables"]);
        ensure!(errors(&column).is_superset(&expected), "{column:?}");

        let by_role = findings(&login(&base, "pf_by_role"), &include).await?;
        ensure!(errors(&by_role).is_empty() && warnings(&by_role) == lacking, "{by_role:?}");

        // The SQL that mends what is missing does.
        for finding in &column {
            if finding.fix.starts_with("GRANT") {
                mysql.exec("", &finding.fix).await?;
            }
        }
        let mended = findings(&login(&base, "pf_column"), &include).await?;
        ensure!(mended.is_empty(), "{mended:?}");
        Ok(())
    });
}

#[test]
fn tables_that_can_not_be_replicated_are_named() {
    run(async {
        let mysql = &MySql::start_new(&[]).await?;
        mysql
            .exec(
                "",
                "CREATE DATABASE t; USE t;
                 CREATE TABLE memory (id INT PRIMARY KEY) ENGINE = MEMORY;
                 CREATE TABLE blackhole (id INT PRIMARY KEY) ENGINE = BLACKHOLE;
                 CREATE TABLE myisam (id INT PRIMARY KEY) ENGINE = MyISAM;
                 CREATE TABLE keyless (id INT);
                 CREATE TABLE shapes (id INT PRIMARY KEY, a ENUM('a\\0'), b ENUM(x'fe') CHARACTER SET binary);
                 CREATE TABLE parent (id INT PRIMARY KEY);
                 CREATE TABLE child (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES parent (id) ON DELETE CASCADE);
                 CREATE TABLE wide (id VARCHAR(700) PRIMARY KEY);
                 CREATE TABLE ctids (id INT PRIMARY KEY, ctid INT);
                 CREATE TABLE жжжжжжжжжжжжжжжжжжжжжжжжжжжжжжжж (id INT PRIMARY KEY);
                 CREATE DATABASE tidegate; CREATE TABLE tidegate.a (id INT PRIMARY KEY);
                 CREATE DATABASE pg_toast; CREATE TABLE pg_toast.a (id INT PRIMARY KEY);
                 CREATE VIEW seen AS SELECT * FROM keyless;
                 XA START 'x'; INSERT INTO keyless VALUES (1); XA END 'x'; XA PREPARE 'x'",
            )
            .await?;
        let include = ["t.*", "t.misspelt", "tidegate.*", "pg_toast.*"];
        let found = findings(&config(mysql), &include).await?;
        let of = |name: &str| {
            let problems = found.iter().filter(|finding| finding.name == name);
            problems.map(|finding| finding.problem.as_str()).collect::<Vec<_>>().join(" / ")
        };
        ensure!(of("source.tables.include").contains("t.misspelt"));
        for table in ["t.memory", "t.blackhole", "t.myisam"] {
            ensure!(of("source.table.engine").contains(table), "{found:?}");
        }
        ensure!(of("source.table.column").contains("`a`") && of("source.table.column").contains("`b`"));
        ensure!(of("source.table.key_width").starts_with("t.wide: an entry of the key"), "{found:?}");
        for name in ["t.жжж", "t.ctids", "tidegate.a", "pg_toast.a"] {
            ensure!(of("source.table.name").contains(name), "{name}: {found:?}");
        }
        ensure!(of("source.table.key").ends_with("t.keyless"), "{found:?}");
        ensure!(of("source.prepared_xa").starts_with("1 XA"), "{found:?}");
        // This server logs the rows that cascades change.
        ensure!(of("source.table.cascade").is_empty(), "{found:?}");
        let refused = |table: &str| found.iter().any(|f| f.is_error() && f.problem.contains(table));
        ensure!(refused("t.blackhole") && !refused("t.memory"), "{found:?}");
        let expected = BTreeSet::from([
            "source.tables.include",
            "source.table.column",
            "source.table.engine",
            "source.table.key_width",
            "source.table.name",
        ]);
        ensure!(errors(&found) == expected, "{found:?}");
        let filter = Filter::new(&["t.*".to_owned()], &[])?;
        let size = size(&mut connect(&config(mysql)).await?, &filter).await?;
        ensure!(size.tables == 10 && size.data_bytes >= 7 * 16_384, "{size:?}");
        Ok(())
    });
}
