//! From typed settings to the validated [`Config`]: what one value can't tell by itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::ddl::Ignored;
use super::policies;
use super::schema;
use super::secret::{self, Secret};
use super::settings::Settings;
use super::url::{self, Address, Syntax};
use super::{
    AdminConfig, ApplyConfig, Config, DdlConfig, DdlPolicy, FoldConfig, LogConfig, LogFormat, Problems,
    RetryConfig, SnapshotConfig, SourceConfig, TablesConfig, TargetConfig, TlsConfig, TlsMode,
};
use crate::fold::XaPolicy;
use crate::fold::xa::PoolBounds;
use crate::schema::filter::Filter;
use crate::schema::overrides::Overrides;
use crate::tls;

/// Longest pipeline name: as PostgreSQL's identifiers.
const NAME_BYTES_MAX: usize = 63;

/// A shorter token can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

const LEVELS: &[&str] = &["error", "warn", "info", "debug", "trace"];

/// Every section is looked at, whatever is wrong with the others.
pub(super) fn config(mut settings: Settings<'_>) -> Result<Config, Problems> {
    let name = name(&mut settings);
    let source = source(&mut settings);
    let target = target(&mut settings);
    let tables = tables(&mut settings);
    let policies = policies::policies(&settings).map(Arc::new);
    let types = types(&mut settings);
    let snapshot = snapshot(&mut settings);
    let fold = fold(&mut settings);
    let apply = apply(&settings);
    let ddl = ddl(&mut settings);
    let retry = retry(&mut settings);
    let admin = admin(&mut settings);
    let log = log(&mut settings);
    if !settings.problems.all().is_empty() {
        return Err(settings.problems);
    }
    let all = || {
        Some(Config {
            name: name?,
            source: source?,
            target: target?,
            tables: tables?,
            policies: policies?,
            types,
            snapshot: snapshot?,
            fold: fold?,
            apply: apply?,
            ddl: ddl?,
            retry: retry?,
            admin: admin?,
            log: log?,
        })
    };
    all()
        .ok_or_else(|| Problems::one("configuration", "is incomplete without a reported reason: report this"))
}

fn name(settings: &mut Settings<'_>) -> Option<String> {
    let name = settings.text("pipeline.name")?.to_owned();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
        settings.problems.add("pipeline.name", "must be 1 to 63 letters, digits, `_`, `-` or `.`");
        return None;
    }
    Some(name)
}

fn source(settings: &mut Settings<'_>) -> Option<SourceConfig> {
    let address = address(settings, "source.url", &url::MYSQL);
    if address.as_ref().is_some_and(|address| !address.path.is_empty()) {
        settings
            .problems
            .add("source.url", "must not name a database: tables.include says what is replicated");
    }
    let password = secret(settings, "source.password_file", "source.password_env");
    let tls = tls_config(settings, "source");
    let net_write_timeout = whole_seconds(settings, "source.net_write_timeout");
    let Address { user, host, port, .. } = address?;
    Some(SourceConfig {
        host,
        port,
        user,
        password,
        server_id: settings.number("source.server_id")?,
        tls: tls?,
        connect_timeout: settings.duration("source.connect_timeout")?,
        heartbeat_period: settings.duration("source.heartbeat_period")?,
        net_write_timeout: net_write_timeout?,
    })
}

fn target(settings: &mut Settings<'_>) -> Option<TargetConfig> {
    let address = address(settings, "target.url", &url::POSTGRES);
    if address.as_ref().is_some_and(|address| address.path.is_empty() || address.path.contains('/')) {
        settings.problems.add(
            "target.url",
            "must name one database after the port: postgres://user@host:port/database, with a / in its name as %2F",
        );
    }
    let password = secret(settings, "target.password_file", "target.password_env");
    let tls = tls_config(settings, "target");
    let Address { user, host, port, path } = address?;
    Some(TargetConfig {
        host,
        port,
        user,
        database: path,
        password,
        tls: tls?,
        connect_timeout: settings.duration("target.connect_timeout")?,
        reply_timeout: settings.duration("target.reply_timeout")?,
        synchronous_commit: settings.boolean("target.synchronous_commit")?,
    })
}

fn address(settings: &mut Settings<'_>, path: &str, syntax: &Syntax) -> Option<Address> {
    match url::parse(settings.text(path)?, syntax) {
        Ok(address) => Some(address),
        Err(message) => {
            settings.problems.add(path, message);
            None
        }
    }
}

/// A secret from the one of two keys that is set.
fn secret(settings: &mut Settings<'_>, file_key: &str, variable_key: &str) -> Option<Secret> {
    let (key, secret) = match (settings.text(file_key), settings.text(variable_key)) {
        (None, None) => return None,
        (Some(_), Some(_)) => {
            let message = format!("excludes {variable_key}: keep one of the two");
            settings.problems.add(file_key, message);
            return None;
        }
        (Some(file), None) => (file_key, secret::from_file(file.as_ref())),
        (None, Some(variable)) => (variable_key, secret_from_variable(settings, variable)),
    };
    secret.map_err(|message| settings.problems.add(key, message)).ok()
}

/// Names the variable only where it looks like a variable's name: a secret may have been typed
/// in its place.
fn secret_from_variable(settings: &Settings<'_>, variable: &str) -> Result<Secret, String> {
    let named = variable.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let shown = if named { variable } else { "the variable that it names" };
    match settings.environment.text(variable) {
        Ok(Some(value)) if !value.is_empty() => Ok(Secret::new(value.to_owned())),
        Ok(Some(_)) => Err(format!("{shown} is empty; leave the key out where there is no secret")),
        Ok(None) => Err(format!("{shown} is not set in the environment")),
        Err(_) => Err(format!("{shown} is not UTF-8 text")),
    }
}

fn tls_config(settings: &mut Settings<'_>, section: &str) -> Option<TlsConfig> {
    let path = |name: &str| format!("{section}.{name}");
    let mode = match settings.text(&path("tls"))? {
        "verify-full" => TlsMode::VerifyFull,
        "verify-ca" => TlsMode::VerifyCa,
        "encrypt-only" => TlsMode::EncryptOnly,
        _ => TlsMode::Off,
    };
    let file = |name: &str| settings.text(&path(name)).map(PathBuf::from);
    let (ca_file, cert_file) = (file("tls_ca_file"), file("tls_cert_file"));
    let config = TlsConfig { mode, ca_file, cert_file, key_file: file("tls_key_file") };
    let set = |name: &str| settings.text(&path(name)).is_some();
    let verifies = matches!(mode, TlsMode::VerifyFull | TlsMode::VerifyCa);
    let (ca, cert, key) = (set("tls_ca_file"), set("tls_cert_file"), set("tls_key_file"));
    if ca && !verifies {
        let message = "has no effect: nothing is verified with this tls mode. Remove it, or choose verify-full or verify-ca";
        settings.problems.add(path("tls_ca_file"), message);
    }
    if (cert || key) && mode == TlsMode::Off {
        let given = if cert { "tls_cert_file" } else { "tls_key_file" };
        settings
            .problems
            .add(path(given), "has no effect with tls = \"off\". Remove it, or choose another mode");
    } else if cert != key {
        let (given, other) =
            if cert { ("tls_cert_file", "tls_key_file") } else { ("tls_key_file", "tls_cert_file") };
        let message = format!("needs {} beside it", path(other));
        settings.problems.add(path(given), message);
    } else {
        for problem in tls::problems(&config) {
            settings.problems.add(path(problem.file().key()), problem.to_string());
        }
    }
    Some(config)
}

/// MySQL takes this timeout in seconds only.
fn whole_seconds(settings: &mut Settings<'_>, path: &str) -> Option<Duration> {
    let value = settings.duration(path)?;
    if value.subsec_nanos() != 0 {
        settings.problems.add(path, "must be whole seconds: MySQL knows no smaller unit for it");
        return None;
    }
    Some(value)
}

fn tables(settings: &mut Settings<'_>) -> Option<TablesConfig> {
    let include = settings.list("tables.include")?.to_vec();
    let exclude = settings.list("tables.exclude")?.to_vec();
    if include.is_empty() {
        settings.problems.add("tables.include", "names no table. For example include = [\"app.*\"]");
    }
    for pattern in &include {
        if let Err(error) = Filter::new(slice::from_ref(pattern), &[]) {
            settings.problems.add("tables.include", error.to_string());
        }
    }
    for pattern in &exclude {
        if let Err(error) = Filter::new(&[], slice::from_ref(pattern)) {
            settings.problems.add("tables.exclude", error.to_string());
        }
    }
    Some(TablesConfig { include, exclude })
}

fn types(settings: &mut Settings<'_>) -> Overrides {
    let mut overrides = Overrides::default();
    for (key, choice) in settings.open_entries() {
        if let Err(message) = overrides.add(&key, &choice) {
            settings.problems.add(format!("types.\"{key}\""), message);
        }
    }
    schema::set(settings, &mut overrides);
    overrides
}

fn snapshot(settings: &mut Settings<'_>) -> Option<SnapshotConfig> {
    let lock_wait_timeout = whole_seconds(settings, "snapshot.lock_wait_timeout");
    let lock_deadline = settings.duration("snapshot.lock_deadline");
    if lock_deadline < lock_wait_timeout {
        settings
            .problems
            .add("snapshot.lock_deadline", "must not be shorter than snapshot.lock_wait_timeout");
    }
    Some(SnapshotConfig {
        parallelism: settings.number("snapshot.parallelism")?,
        chunk_rows: settings.number("snapshot.chunk_rows")?,
        lock_wait_timeout: lock_wait_timeout?,
        lock_deadline: lock_deadline?,
        max_captures: settings.number("snapshot.max_captures")?,
        block_ddl: settings.boolean("snapshot.block_ddl")?,
        block_ddl_max: settings.duration("snapshot.block_ddl_max")?,
    })
}

/// A directory that is there. Whether files can be made in it is found out by whoever makes them:
/// other commands may run as another user.
fn directory(settings: &mut Settings<'_>, path: &str) -> Option<PathBuf> {
    let directory = PathBuf::from(settings.text(path)?);
    if !directory.is_dir() {
        settings.problems.add(path, format!("{} is not a directory", directory.display()));
        return None;
    }
    Some(directory)
}

fn fold(settings: &mut Settings<'_>) -> Option<FoldConfig> {
    let bounds = PoolBounds {
        transactions: settings.number("fold.xa_max_prepared")?,
        bytes: settings.number("fold.xa_max_bytes")?,
    };
    let xa = if settings.text("fold.xa")? == "track" { XaPolicy::Track(bounds) } else { XaPolicy::Refuse };
    Some(FoldConfig {
        max_buffer_bytes: settings.number("fold.max_buffer_bytes")?,
        spill_directory: directory(settings, "fold.spill_directory")?,
        max_spill_bytes: settings.number("fold.max_spill_bytes")?,
        xa,
    })
}

fn apply(settings: &Settings<'_>) -> Option<ApplyConfig> {
    Some(ApplyConfig {
        max_batch_bytes: settings.number("apply.max_batch_bytes")?,
        channel_bytes: settings.number("apply.channel_bytes")?,
        max_in_flight: settings.number("apply.max_in_flight")?,
        idle_commit_interval: settings.duration("apply.idle_commit_interval")?,
    })
}

fn ddl(settings: &mut Settings<'_>) -> Option<DdlConfig> {
    let entries = settings.list("ddl.ignore")?.to_vec();
    let lists = settings.text("ddl.policy")? == "ignore-listed";
    let mut ignore = Vec::with_capacity(entries.len());
    for entry in &entries {
        match Ignored::parse(entry) {
            Ok(ignored) => ignore.push(ignored),
            Err(message) => settings.problems.add("ddl.ignore", message),
        }
    }
    if lists == entries.is_empty() {
        settings.problems.add("ddl.ignore", "goes with ddl.policy = \"ignore-listed\", and that with it");
    }
    let lock_wait_timeout = settings.duration("ddl.lock_wait_timeout")?;
    let lock_deadline = settings.duration("ddl.lock_deadline")?;
    if lock_deadline < lock_wait_timeout {
        settings.problems.add("ddl.lock_deadline", "must not be shorter than ddl.lock_wait_timeout");
    }
    let policy = match settings.text("ddl.policy")? {
        "resync" => DdlPolicy::Resync,
        "halt" => DdlPolicy::Halt,
        _ => DdlPolicy::Mirror,
    };
    Some(DdlConfig { policy, ignore, lock_wait_timeout, lock_deadline })
}

fn retry(settings: &mut Settings<'_>) -> Option<RetryConfig> {
    let initial_backoff = settings.duration("retry.initial_backoff");
    let max_backoff = settings.duration("retry.max_backoff");
    if max_backoff < initial_backoff {
        settings.problems.add("retry.max_backoff", "must not be shorter than retry.initial_backoff");
    }
    Some(RetryConfig {
        initial_backoff: initial_backoff?,
        max_backoff: max_backoff?,
        max_connect_attempts: settings.number("retry.max_connect_attempts")?,
        max_drops: settings.number("retry.max_drops")?,
        window: settings.duration("retry.window")?,
    })
}

fn admin(settings: &mut Settings<'_>) -> Option<AdminConfig> {
    let token = secret(settings, "admin.token_file", "admin.token_env");
    let token_key =
        if settings.text("admin.token_file").is_some() { "admin.token_file" } else { "admin.token_env" };
    if let Some(token) = &token {
        let token = token.reveal().as_bytes();
        if token.len() < TOKEN_BYTES_MIN || !token.iter().all(u8::is_ascii_graphic) {
            settings.problems.add(token_key, "must hold at least 16 visible ASCII characters and no blanks");
        }
    }
    let token_set = settings.text(token_key).is_some();
    let Ok(listen) = settings.text("admin.listen")?.parse::<SocketAddr>() else {
        settings.problems.add(
            "admin.listen",
            "must be an IP address and a port, as 127.0.0.1:8321 or [::1]:8321; a host name is not taken",
        );
        return None;
    };
    if !listen.ip().is_loopback() && !token_set {
        settings.problems.add(
            "admin.listen",
            "is not a loopback address, so admin.token_file or admin.token_env is needed; or listen on 127.0.0.1",
        );
    }
    Some(AdminConfig { listen, token })
}

/// A bare level is for all of Tidegate; nothing else can be switched on. Drivers and the HTTP
/// stack put statements and values into their messages.
fn log(settings: &mut Settings<'_>) -> Option<LogConfig> {
    let format = if settings.text("log.format")? == "json" { LogFormat::Json } else { LogFormat::Text };
    let directives: Option<Vec<String>> =
        settings.text("log.level")?.split(',').map(|directive| log_directive(directive.trim())).collect();
    let Some(directives) = directives else {
        settings.problems.add(
            "log.level",
            "must be one of error, warn, info, debug, trace, or such levels by module after a comma, as info,tidegate::source=debug",
        );
        return None;
    };
    Some(LogConfig { format, filter: format!("off,{}", directives.join(",")) })
}

fn log_directive(text: &str) -> Option<String> {
    let (module, level) = text.split_once('=').unwrap_or(("tidegate", text));
    let path = module == "tidegate" || module.starts_with("tidegate::");
    let plain = module.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':'));
    (path && plain && LEVELS.contains(&level)).then(|| format!("{module}={level}"))
}
