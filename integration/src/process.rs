//! The real `tidegate` binary: its configuration, its life and its admin surface.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::fixture::Fixture;
use crate::http::{self, Response};
use crate::mysql::{MySql, REPLICATION_PASSWORD, REPLICATION_USER};
use crate::postgres::{TARGET_PASSWORD, TARGET_ROLE};
use crate::servers::{free_port, tail};
use crate::wait::{self, Look};

/// The bearer token of the admin surface.
pub const ADMIN_TOKEN: &str = "canary-admin-token-4711";

/// Lines of the log that an error shows.
const SHOWN_LOG_LINES: usize = 40;

/// A configuration file in the making.
#[derive(Debug, Clone)]
pub struct Config {
    table: toml::Table,
    source_password: String,
    target_password: String,
}

impl Config {
    /// The minimal configuration, with the harness's users. Only two times are shorter than their
    /// defaults, so that tests need not wait: the idle commit and the greatest pause between retries.
    pub fn new(source: SocketAddr, target: SocketAddr, source_db: &str, target_db: &str) -> Self {
        /// Replicas of one source need different ids; the servers' own are below.
        static SERVER_ID: AtomicU32 = AtomicU32::new(4000);
        let config = Self {
            table: toml::Table::new(),
            source_password: REPLICATION_PASSWORD.to_owned(),
            target_password: TARGET_PASSWORD.to_owned(),
        };
        config
            .set("pipeline.name", source_db)
            .set("source.url", format!("mysql://{REPLICATION_USER}@{source}"))
            .set("source.server_id", i64::from(SERVER_ID.fetch_add(1, Ordering::Relaxed)))
            .set("source.tls", "off")
            .set("target.url", format!("postgres://{TARGET_ROLE}@{target}/{target_db}"))
            .set("target.tls", "off")
            .set("tables.include", vec![format!("{source_db}.*")])
            .set("apply.idle_commit_interval", "100ms")
            .set("retry.max_backoff", "1s")
    }

    /// Sets a key, such as `fold.xa`, to a string, number, boolean or list.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<toml::Value>) -> Self {
        self.put(key, value);
        self
    }

    /// Like [`set`](Self::set), in place.
    pub fn put(&mut self, key: &str, value: impl Into<toml::Value>) {
        let (section, key) = key.split_once('.').expect("a key has a section: `section.key`");
        let section = self.table.entry(section).or_insert_with(|| toml::Table::new().into());
        section.as_table_mut().expect("a section is a table").insert(key.to_owned(), value.into());
    }

    /// Lets Tidegate reach the source at another address, such as a proxy's.
    #[must_use]
    pub fn source_at(self, addr: SocketAddr) -> Self {
        self.readdressed("source.url", addr)
    }

    /// Lets Tidegate reach the target at another address, such as a proxy's.
    #[must_use]
    pub fn target_at(self, addr: SocketAddr) -> Self {
        self.readdressed("target.url", addr)
    }

    #[must_use]
    pub fn source_password(mut self, password: &str) -> Self {
        password.clone_into(&mut self.source_password);
        self
    }

    #[must_use]
    pub fn target_password(mut self, password: &str) -> Self {
        password.clone_into(&mut self.target_password);
        self
    }

    fn readdressed(self, key: &str, addr: SocketAddr) -> Self {
        let (section, name) = key.split_once('.').expect("a key has a section");
        let url = self.table[section][name].as_str().expect("a URL is a string").to_owned();
        let (user, rest) = url.split_once('@').expect("the URL names a user");
        let path = rest.find('/').map_or("", |slash| &rest[slash..]);
        self.set(key, format!("{user}@{addr}{path}"))
    }

    /// Writes the file and the password files beside it.
    fn write(&self, dir: &Path, admin: SocketAddr) -> Result<PathBuf> {
        let password = |name: &str, password: &str| -> Result<String> {
            let path = dir.join(name);
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options.open(&path)?.write_all(password.as_bytes())?;
            Ok(path.display().to_string())
        };
        let mut config = self.clone();
        config.put("source.password_file", password("mysql.password", &self.source_password)?);
        config.put("target.password_file", password("postgres.password", &self.target_password)?);
        config.put("admin.token_file", password("admin.token", ADMIN_TOKEN)?);
        config.put("admin.listen", admin.to_string());
        let path = dir.join("tidegate.toml");
        fs::write(&path, config.table.to_string())?;
        Ok(path)
    }
}

/// What a command printed, and its exit code (`None` if a signal ended it).
#[derive(Debug)]
pub struct CommandOutput {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    fn new(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// One Tidegate with its configuration and its log. Killed when it is dropped.
pub struct Tidegate {
    pub config: Config,
    dir: TempDir,
    admin: SocketAddr,
    process: Mutex<Option<Child>>,
}

impl Tidegate {
    /// `tidegate run`, once its admin surface answers.
    pub async fn start(config: Config) -> Result<Self> {
        let tidegate = Self::prepare(config)?;
        tidegate.launch(&[]).await?;
        Ok(tidegate)
    }

    /// Everything but the process: for [`cli`](Self::cli), or [`launch`](Self::launch) later.
    pub fn prepare(config: Config) -> Result<Self> {
        let admin = ([127, 0, 0, 1], free_port()?).into();
        Ok(Self { config, dir: tempfile::tempdir()?, admin, process: Mutex::new(None) })
    }

    /// `tidegate run` with more arguments, once its admin surface answers.
    pub async fn launch(&self, args: &[&str]) -> Result<()> {
        self.spawn(args)?;
        let up = wait::until(format!("the admin surface on {}", self.admin), || async {
            self.must_run()?;
            Ok(match self.get("/live").await {
                Ok(answer) if answer.status == 200 => Look::Done(()),
                Ok(answer) => Look::NotYet(format!("/live answers {}", answer.status)),
                Err(error) => Look::NotYet(format!("{error:#}")),
            })
        });
        self.explained(up.await)
    }

    /// `tidegate run` with more arguments, without waiting for anything.
    pub fn spawn(&self, args: &[&str]) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let mut command = self.command("run")?;
        command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        *self.process() = Some(command.spawn().context("cannot start tidegate")?);
        Ok(())
    }

    /// Runs another command with the same configuration to its end.
    pub async fn cli(&self, args: &[&str]) -> Result<CommandOutput> {
        let (name, rest) = args.split_first().context("a command is needed")?;
        let mut command = self.command(name)?;
        command.args(rest).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(wait::deadline(), command.output())
            .await
            .with_context(|| format!("tidegate {name} did not end in {:?}", wait::deadline()))??;
        Ok(CommandOutput::new(output))
    }

    /// Resumes, once the cause of the halt is gone.
    pub async fn resume(&self) -> Result<()> {
        self.post("/v1/resume").await?;
        wait::until("the halt to end", || async {
            let status = self.status().await?;
            Ok(if status["halt"].is_null() { Look::Done(()) } else { Look::NotYet(status.to_string()) })
        })
        .await
    }

    /// SIGTERM, and the exit code.
    pub async fn stop(&self) -> Result<Option<i32>> {
        self.signal(Signal::TERM)?;
        self.exit_code().await
    }

    /// SIGKILL, and gone.
    pub async fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.exit_code().await.map(drop)
    }

    fn pid(&self) -> Result<u32> {
        self.process().as_ref().and_then(Child::id).context("tidegate is not running")
    }

    /// Any other signal, such as STOP and CONT.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid()?;
        let pid = Pid::from_raw(i32::try_from(pid)?).context("tidegate has no process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Waits until the process has ended by itself, and returns its exit code.
    pub async fn exit_code(&self) -> Result<Option<i32>> {
        let ended = wait::until("tidegate to end", || async {
            let mut process = self.process();
            let Some(child) = process.as_mut() else { bail!("tidegate was not started") };
            Ok(child
                .try_wait()?
                .map_or_else(|| Look::NotYet("running".to_owned()), |status| Look::Done(status.code())))
        });
        self.explained(ended.await)
    }

    /// The most memory that the running process has had resident, in bytes (`VmHWM` of proc(5)).
    pub fn peak_resident_bytes(&self) -> Result<u64> {
        let pid = self.pid()?;
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("a line VmHWM")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    pub fn is_running(&self) -> Result<bool> {
        match self.process().as_mut() {
            Some(child) => Ok(child.try_wait()?.is_none()),
            None => Ok(false),
        }
    }

    pub fn admin_addr(&self) -> SocketAddr {
        self.admin
    }

    /// `GET` on the admin surface.
    pub async fn get(&self, path: &str) -> Result<Response> {
        http::get(self.admin, path).await
    }

    /// `POST` on the admin surface, with the token. Without or with another: [`http::post`].
    pub async fn post(&self, path: &str) -> Result<Response> {
        http::post(self.admin, path, Some(ADMIN_TOKEN)).await
    }

    /// `/status`.
    pub async fn status(&self) -> Result<Value> {
        let answer = self.get("/status").await?;
        serde_json::from_str(&answer.body).with_context(|| format!("/status is not JSON: {}", answer.body))
    }

    /// Waits until `/status` shows this state. Fails at once where it halts instead.
    pub async fn wait_state(&self, state: &str) -> Result<Value> {
        self.wait_status(format!("state {state}"), |status| status["state"] == state).await
    }

    /// Waits until `/status` satisfies a condition, and returns it. Fails at once on a halt that does not.
    pub async fn wait_status(
        &self,
        what: impl std::fmt::Display,
        holds: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let seen = wait::until(what, || async {
            let status = self.living_status().await?;
            if holds(&status) {
                return Ok(Look::Done(status));
            }
            not_halted(&status)?;
            Ok(Look::NotYet(format!("{status}")))
        });
        self.explained(seen.await)
    }

    /// Waits until the pipeline has halted, and returns the `halt` object of `/status`.
    pub async fn wait_halt(&self) -> Result<Value> {
        let halted = self.wait_status("a halt", |status| !status["halt"].is_null()).await?;
        Ok(halted["halt"].clone())
    }

    /// Waits until `/health` answers with this code.
    pub async fn wait_health(&self, code: u16) -> Result<Response> {
        let seen = wait::until(format!("/health to answer {code}"), || async {
            self.must_run()?;
            let answer = self.get("/health").await?;
            Ok(if answer.status == code {
                Look::Done(answer)
            } else {
                Look::NotYet(format!("{} {}", answer.status, answer.body))
            })
        });
        self.explained(seen.await)
    }

    /// Waits until the processed set of `/status` includes this one.
    pub async fn wait_gtid(&self, source: &MySql, set: &str) -> Result<()> {
        let seen = wait::until(format!("{set} to be processed"), || async {
            let status = self.living_status().await?;
            let processed = status["processed_gtid_set"].as_str().unwrap_or_default();
            if source.gtid_subset(set, processed).await? {
                return Ok(Look::Done(()));
            }
            not_halted(&status)?;
            Ok(Look::NotYet(format!("{status}")))
        });
        self.explained(seen.await)
    }

    /// Waits until everything that the source has committed by now is in the set that the target
    /// stores, which is committed together with the rows.
    pub async fn caught_up(&self, fixture: &Fixture<'_>) -> Result<()> {
        let source = &fixture.servers.mysql;
        let set = source.gtid_executed().await?;
        let seen = wait::until(format!("{set} to be committed in the target"), || async {
            let status = self.living_status().await?;
            // The control schema may not be there yet, and a target under test may be away.
            let stored = fixture.stored_gtid_set().await;
            if let Ok(stored) = &stored
                && source.gtid_subset(&set, stored).await?
            {
                return Ok(Look::Done(()));
            }
            not_halted(&status)?;
            Ok(Look::NotYet(format!("{stored:?}, {status}")))
        });
        self.explained(seen.await)
    }

    /// Everything that the process has written to stdout and stderr, over all its starts.
    pub fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(self.log_path())?).into_owned())
    }

    pub fn log_path(&self) -> PathBuf {
        self.dir.path().join("tidegate.log")
    }

    /// The folder with configuration and log, removed with this value.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn command(&self, name: &str) -> Result<Command> {
        let config = self.config.write(self.dir.path(), self.admin)?;
        let mut command = Command::new(binary()?);
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("TIDEGATE_") {
                command.env_remove(variable);
            }
        }
        command.arg(name).arg("--config").arg(config).current_dir(self.dir.path()).kill_on_drop(true);
        Ok(command)
    }

    async fn living_status(&self) -> Result<Value> {
        self.must_run()?;
        self.status().await
    }

    fn must_run(&self) -> Result<()> {
        match self.process().as_mut() {
            None => bail!("tidegate was not started"),
            Some(child) => match child.try_wait()? {
                Some(status) => bail!("tidegate has ended: {status}"),
                None => Ok(()),
            },
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result, with the end of the log in its error.
    fn explained<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| anyhow!("{error:#}\n{}", self.log_tail()))
    }

    fn log_tail(&self) -> String {
        let log = self.log().unwrap_or_else(|error| format!("{error:#}"));
        format!("--- the last lines of tidegate's log\n{}\n---", tail(&log, SHOWN_LOG_LINES))
    }
}

impl Drop for Tidegate {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tail());
        }
    }
}

fn not_halted(status: &Value) -> Result<()> {
    if status["halt"].is_null() {
        return Ok(());
    }
    bail!("tidegate has halted: {}", status["halt"])
}

/// Runs the binary in a folder, with this environment and no other, to its end.
pub async fn run_in(dir: &Path, args: &[&str], environment: &[(&str, &str)]) -> Result<CommandOutput> {
    let mut command = Command::new(binary()?);
    command.args(args).current_dir(dir).env_clear().envs(environment.iter().copied());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(wait::deadline(), command.output())
        .await
        .with_context(|| format!("tidegate {args:?} did not end in {:?}", wait::deadline()))??;
    Ok(CommandOutput::new(output))
}

/// `TIDEGATE_BIN`, or the binary that cargo built next to this test.
pub fn binary() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("TIDEGATE_BIN") {
        return Ok(path.into());
    }
    let test = std::env::current_exe()?;
    let found = test.ancestors().skip(1).take(2).map(|dir| dir.join("tidegate")).find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "no tidegate binary beside {}: run `cargo build -p tidegate` first, or set TIDEGATE_BIN",
            test.display()
        )
    })
}
