//! The tools that a user would take instead, on the same rows and the same PostgreSQL. Neither works
//! with MySQL 9, so they read from a MariaDB.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tidegate_integration::mariadb::{MariaDb, ROOT, ROOT_PASSWORD};
use tidegate_integration::postgres::{Postgres, TARGET_PASSWORD, TARGET_ROLE};
use tokio::process::{Child, Command};

use super::{COPY_WORK, PATIENCE, ROWS, SCATTERED, SCATTERED_WORK, STRIDE, fill, say, scatter};

const MARIADB: &[&str] = &[
    "--log-bin=binlog",
    "--server-id=1",
    "--binlog-format=ROW",
    "--binlog-row-metadata=FULL",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=2",
    "--innodb-buffer-pool-size=1G",
    "--max-recursive-iterations=4294967295",
];

/// How often a peer is looked at: far below what it takes.
const POLL: Duration = Duration::from_millis(100);

/// The user without rights that pg_chameleon is run as: it refuses to be root.
const NOBODY: u32 = 65534;

/// What a peer took.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Tidegate's measurement that this one compares with.
    pub(crate) work: &'static str,
    pub(crate) rows: u64,
    pub(crate) seconds: f64,
    /// Of all its processes.
    pub(crate) peak_resident_bytes: u64,
}

impl Peer {
    pub(crate) fn label(&self) -> String {
        format!("{}, {}", self.name, self.work)
    }

    #[expect(clippy::cast_precision_loss, reason = "a million")]
    pub(crate) fn rate(&self) -> f64 {
        self.rows as f64 / self.seconds
    }
}

/// pgloader's copy, and pg_chameleon's copy and catch-up.
pub(crate) async fn measure(target: &Postgres) -> Result<Vec<Peer>> {
    say("filling a MariaDB");
    let source = MariaDb::start_new(MARIADB).await?;
    source.session("").await?.exec("CREATE DATABASE bench").await?;
    let mut session = source.session("bench").await?;
    fill(&mut session).await?;
    let mut peers = vec![pgloader(&source, target).await?];
    let chameleon = Chameleon::new(&source, target).await?;
    peers.push(chameleon.copy(target).await?);
    say("updating scattered rows on the MariaDB");
    scatter(&mut session).await?;
    peers.push(chameleon.catch_up(target).await?);
    Ok(peers)
}

async fn pgloader(source: &MariaDb, target: &Postgres) -> Result<Peer> {
    say("pgloader, copy");
    target.exec("postgres", &format!("CREATE DATABASE pgloader OWNER {TARGET_ROLE}")).await?;
    let mut command = Command::new("pgloader");
    command
        .arg(format!("mysql://{ROOT}:{ROOT_PASSWORD}@{}/bench", source.inner_addr().await?))
        .arg(format!("postgresql://{TARGET_ROLE}:{TARGET_PASSWORD}@{}/pgloader", target.inner_addr().await?));
    let mut running = Running::start(command)?;
    let (seconds, peak_resident_bytes) = running.until_ended().await?;
    ensure_rows(target, "pgloader").await?;
    Ok(Peer { name: "pgloader", work: COPY_WORK, rows: ROWS, seconds, peak_resident_bytes })
}

async fn ensure_rows(target: &Postgres, database: &str) -> Result<()> {
    let rows = target.scalar(database, "SELECT count(*) FROM bench.items").await?;
    ensure!(rows == Some(ROWS.to_string()), "{database} has {rows:?} rows");
    Ok(())
}

/// pg_chameleon with its configuration in a home of its own.
struct Chameleon {
    home: tempfile::TempDir,
}

impl Chameleon {
    async fn new(source: &MariaDb, target: &Postgres) -> Result<Self> {
        target.exec("postgres", &format!("CREATE DATABASE chameleon OWNER {TARGET_ROLE}")).await?;
        let chameleon = Self { home: tempfile::tempdir()? };
        std::os::unix::fs::chown(chameleon.home.path(), Some(NOBODY), Some(NOBODY))?;
        chameleon.run(&["set_configuration_files"]).await?;
        let path = chameleon.home.path().join(".pg_chameleon/configuration/default.yml");
        let (source, target) = (source.inner_addr().await?, target.inner_addr().await?);
        fs::write(&path, configuration(chameleon.home.path(), source, target))?;
        chameleon.run(&["create_replica_schema", "--config", "default"]).await?;
        chameleon.run(&["add_source", "--config", "default", "--source", "bench"]).await?;
        Ok(chameleon)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("chameleon");
        command.args(arguments).env("HOME", self.home.path()).current_dir(self.home.path());
        command.uid(NOBODY).gid(NOBODY);
        command
    }

    async fn run(&self, arguments: &[&str]) -> Result<(f64, u64)> {
        let ended = Running::start(self.command(arguments))?.until_ended().await;
        ended.with_context(|| format!("chameleon {}", arguments.join(" ")))
    }

    async fn copy(&self, target: &Postgres) -> Result<Peer> {
        say("pg_chameleon, copy");
        let arguments = ["init_replica", "--config", "default", "--source", "bench", "--debug"];
        let (seconds, peak_resident_bytes) = self.run(&arguments).await?;
        ensure_rows(target, "chameleon").await?;
        Ok(Peer { name: "pg_chameleon", work: COPY_WORK, rows: ROWS, seconds, peak_resident_bytes })
    }

    /// Until the last row is there, which is replayed last.
    async fn catch_up(&self, target: &Postgres) -> Result<Peer> {
        say("pg_chameleon, catch-up");
        let mut running = Running::start(self.command(&[
            "start_replica",
            "--config",
            "default",
            "--source",
            "bench",
            "--debug",
        ]))?;
        let session = target.session("chameleon").await?;
        let last = (SCATTERED - 1) * STRIDE % ROWS + 1;
        let is_there = format!("SELECT note LIKE 'scattered %' FROM bench.items WHERE id = {last}");
        while session.scalar(&is_there).await?.as_deref() != Some("t") {
            ensure!(!running.look()?, "pg_chameleon has ended");
            ensure!(running.started.elapsed() < PATIENCE, "pg_chameleon is not there after {PATIENCE:?}");
            tokio::time::sleep(POLL).await;
        }
        let (seconds, peak_resident_bytes) = (running.started.elapsed().as_secs_f64(), running.peak);
        let rows = session.scalar("SELECT count(*) FROM bench.items WHERE note LIKE 'scattered %'").await?;
        ensure!(rows == Some(SCATTERED.to_string()), "pg_chameleon has updated {rows:?} rows");
        Ok(Peer { name: "pg_chameleon", work: SCATTERED_WORK, rows: SCATTERED, seconds, peak_resident_bytes })
    }
}

/// Its example's values, and no waits that would only add to its time.
fn configuration(home: &Path, source: std::net::SocketAddr, target: std::net::SocketAddr) -> String {
    let home = home.display();
    format!(
        "pid_dir: '{home}/.pg_chameleon/pid/'
log_dir: '{home}/.pg_chameleon/logs/'
log_dest: file
log_level: info
log_days_keep: 10
rollbar_key: ''
rollbar_env: ''
type_override: {{}}
pg_conn: {{host: '{}', port: '{}', user: '{TARGET_ROLE}', password: '{TARGET_PASSWORD}', database: chameleon, charset: utf8}}
sources:
  bench:
    db_conn: {{host: '{}', port: '{}', user: '{ROOT}', password: '{ROOT_PASSWORD}', charset: utf8, connect_timeout: 10}}
    schema_mappings: {{bench: bench}}
    limit_tables: []
    skip_tables: []
    grant_select_to: []
    lock_timeout: 120s
    my_server_id: 100
    replica_batch_size: 10000
    replay_max_rows: 10000
    batch_retention: 1 day
    copy_max_memory: 300M
    copy_mode: file
    out_dir: '{home}'
    sleep_loop: 1
    on_error_replay: exit
    on_error_read: exit
    auto_maintenance: disabled
    gtid_enable: false
    type: mysql
    keep_existing_schema: false
",
        target.ip(),
        target.port(),
        source.ip(),
        source.port()
    )
}

/// A peer's process and those that it starts, in a group of their own. They end with it.
struct Running {
    child: Child,
    group: Pid,
    started: Instant,
    peak: u64,
}

impl Running {
    fn start(mut command: Command) -> Result<Self> {
        let log = Stdio::null();
        let started = Instant::now();
        let child = command.process_group(0).stdin(Stdio::null()).stdout(log).spawn();
        let child = child.with_context(|| format!("cannot start {:?}", command.as_std().get_program()))?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { group: pid.context("it has no process id")?, child, started, peak: 0 })
    }

    /// Whether it has ended. Counts its memory if not.
    fn look(&mut self) -> Result<bool> {
        if let Some(status) = self.child.try_wait()? {
            if !status.success() {
                bail!("it ended with {status}");
            }
            return Ok(true);
        }
        self.peak = self.peak.max(resident_bytes(self.group)?);
        Ok(false)
    }

    /// Seconds that it ran, and its peak memory.
    async fn until_ended(&mut self) -> Result<(f64, u64)> {
        while !self.look()? {
            ensure!(self.started.elapsed() < PATIENCE, "it has not ended after {PATIENCE:?}");
            tokio::time::sleep(POLL).await;
        }
        Ok((self.started.elapsed().as_secs_f64(), self.peak))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have gone by itself.
        let _killed = kill_process_group(self.group, Signal::KILL).is_ok();
    }
}

/// What the processes of a group have in memory now.
fn resident_bytes(group: Pid) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        // A process can go while it is looked at.
        let Ok(stat) = fs::read_to_string(path.join("stat")) else { continue };
        let Some((_, fields)) = stat.rsplit_once(") ") else { continue };
        if fields.split(' ').nth(2) != Some(&group.as_raw_nonzero().to_string()) {
            continue;
        }
        let Ok(status) = fs::read_to_string(path.join("status")) else { continue };
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        bytes += kib.unwrap_or(0) * 1024;
    }
    Ok(bytes)
}
