use super::*;
use keys::{KEYS, Kind};

const MINIMAL: &str = r#"
[pipeline]
name = "app"
[source]
url = "mysql://repl@127.0.0.1:3306"
server_id = 4242
tls = "off"
[target]
url = "postgres://app@[::1]:5432/app"
tls = "encrypt-only"
[tables]
include = ["app.*"]
"#;

fn none() -> Environment {
    Environment::default()
}

fn refused(text: &str, environment: &Environment) -> Vec<Problem> {
    parse(text, environment).expect_err("refused").all().to_vec()
}

/// The minimal file with one line added to a section, or replaced where the key is there.
fn with(section: &str, line: &str) -> String {
    let key = line.split('=').next().expect("key").trim();
    let mut inside = false;
    let mut text = String::new();
    let mut found = false;
    for existing in MINIMAL.lines() {
        if existing.starts_with('[') {
            inside = existing == format!("[{section}]");
        }
        if inside && existing.split(" =").next() == Some(key) {
            continue;
        }
        text += &format!("{existing}\n");
        if inside && existing.starts_with('[') {
            text += &format!("{line}\n");
            found = true;
        }
    }
    if !found {
        text += &format!("[{section}]\n{line}\n");
    }
    text
}

/// The one problem that a changed line causes.
fn problem_of(section: &str, line: &str) -> Problem {
    let problems = refused(&with(section, line), &none());
    assert_eq!(problems.len(), 1, "{line}: {problems:?}");
    problems[0].clone()
}

#[test]
fn minimal_file_takes_the_documented_defaults() {
    let config = parse(MINIMAL, &none()).expect("valid");
    assert_eq!((config.source.host.as_str(), config.source.port), ("127.0.0.1", 3306));
    assert_eq!((config.target.host.as_str(), config.target.database.as_str()), ("::1", "app"));
    assert_eq!(config.source.server_id, 4242);
    assert_eq!(config.target.tls.mode, TlsMode::EncryptOnly);
    assert_eq!(config.source.heartbeat_period, Duration::from_secs(5));
    assert_eq!(config.fold.max_buffer_bytes, 64 << 20);
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8321");
    assert_eq!(config.log.filter, "off,tidegate=info");
    assert!(config.source.password.is_none() && config.target.synchronous_commit);
    assert!(config.tables.exclude.is_empty());
}

#[test]
fn all_problems_come_at_once() {
    let problems =
        refused("[source]\nserver_id = 0\nserver_idd = 1\n[snapshot]\nparallelism = 1000\n", &none());
    let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
    for key in [
        "source.server_idd",
        "pipeline.name",
        "source.url",
        "source.server_id",
        "source.tls",
        "target.url",
        "target.tls",
        "tables.include",
        "snapshot.parallelism",
    ] {
        assert!(keys.contains(&key), "{key} is not among {keys:?}");
    }
    assert_eq!(keys.len(), 9, "{keys:?}");
}

#[test]
fn missing_tls_lists_the_modes() {
    let text = MINIMAL.replace("tls = \"off\"\n", "");
    let problems = refused(&text, &none());
    assert_eq!(problems[0].key, "source.tls");
    for mode in ["verify-full", "verify-ca", "encrypt-only", "off"] {
        assert!(problems[0].message.contains(mode), "{}", problems[0].message);
    }
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    let cases = [
        ("source", "servr_id = 1", "source.servr_id", "server_id"),
        ("source", "max_batch_bytes = 1", "source.max_batch_bytes", "apply.max_batch_bytes"),
        ("source", "password = \"s3cret\"", "source.password", "password_file"),
        ("admin", "token = \"s3cret\"", "admin.token", "token_file"),
        ("sorce", "x = 1", "sorce", "source"),
        ("elsewhere", "x = 1", "elsewhere", "tidegate init"),
    ];
    for (section, line, key, remedy) in cases {
        let problem = problem_of(section, line);
        assert_eq!(problem.key, key);
        assert!(problem.message.contains(remedy), "{problem:?}");
        assert!(!problem.message.contains("s3cret"), "{problem:?}");
    }
    let problem = &refused(&format!("source_id = 1\n{MINIMAL}"), &none())[0];
    assert_eq!(problem.key, "source_id");
    let problem = &refused(&format!("log = 1\n{MINIMAL}"), &none())[0];
    assert!(problem.message.contains("[log]"), "{problem:?}");
}

#[test]
fn values_outside_type_or_bounds_are_refused_with_what_is_taken() {
    let cases = [
        ("source", "server_id = 4294967296", "source.server_id", "4294967295"),
        ("source", "server_id = -1", "source.server_id", "whole number"),
        ("source", "server_id = \"1\"", "source.server_id", "whole number"),
        ("source", "tls = \"verify_full\"", "source.tls", "\"verify-full\""),
        ("source", "tls = true", "source.tls", "\"verify-full\""),
        ("source", "heartbeat_period = 5", "source.heartbeat_period", "5s"),
        ("source", "heartbeat_period = \"1ms\"", "source.heartbeat_period", "500ms"),
        ("source", "net_write_timeout = \"1500ms\"", "source.net_write_timeout", "whole seconds"),
        ("source", "url = \"mysql://repl@h/app\"", "source.url", "tables.include"),
        ("target", "url = \"postgres://app@h\"", "target.url", "database"),
        ("target", "url = \"postgres://app@h/a/b\"", "target.url", "database"),
        ("target", "synchronous_commit = \"off\"", "target.synchronous_commit", "true or false"),
        ("tables", "include = \"app.*\"", "tables.include", "list"),
        ("tables", "include = [1]", "tables.include", "list"),
        ("tables", "include = []", "tables.include", "no table"),
        ("tables", "include = [\"app.a\", \"users\"]", "tables.include", "\"users\""),
        ("tables", "exclude = [\"app.\"]", "tables.exclude", "empty"),
        (
            "snapshot",
            "lock_deadline = \"1s\"\nlock_wait_timeout = \"2s\"",
            "snapshot.lock_deadline",
            "lock_wait_timeout",
        ),
        ("fold", "max_buffer_bytes = \"1MB\"", "fold.max_buffer_bytes", "64MiB"),
        ("fold", "xa = \"on\"", "fold.xa", "track"),
        ("fold", "xa_max_prepared = 0", "fold.xa_max_prepared", "1000000"),
        ("retry", "max_backoff = \"10ms\"", "retry.max_backoff", "initial_backoff"),
        ("admin", "listen = \"localhost:8321\"", "admin.listen", "127.0.0.1:8321"),
        ("admin", "listen = \"0.0.0.0:8321\"", "admin.listen", "admin.token_file"),
        ("log", "level = \"verbose\"", "log.level", "trace"),
        ("log", "level = \"info,tokio_postgres=debug\"", "log.level", "tidegate"),
        ("log", "level = \"info,tidegatex=debug\"", "log.level", "tidegate"),
        ("pipeline", "name = \"a b\"", "pipeline.name", "letters"),
        ("pipeline", "name = \"\"", "pipeline.name", "text"),
    ];
    for (section, line, key, remedy) in cases {
        let problem = problem_of(section, line);
        assert_eq!(problem.key, key, "{line}");
        assert!(problem.message.contains(remedy), "{line}: {}", problem.message);
    }
}

#[test]
fn broken_toml_names_the_line_and_shows_no_excerpt() {
    let text = format!("{MINIMAL}\npassword = s3cret oops\n");
    let problems = refused(&text, &none());
    assert_eq!(problems[0].key, "line 14");
    assert!(!problems[0].message.contains("s3cret"), "{problems:?}");
}

#[test]
fn environment_wins_over_the_file_and_can_stand_alone() {
    let text = with("source", "heartbeat_period = \"nonsense\"");
    let environment = Environment::from([
        ("TIDEGATE_SOURCE__HEARTBEAT_PERIOD", "7s"),
        ("TIDEGATE_TABLES__INCLUDE", "app.*, shop.orders"),
        ("TIDEGATE_TARGET__SYNCHRONOUS_COMMIT", "false"),
        ("TIDEGATE_PORT_8321_TCP", "tcp://10.0.0.1:8321"),
    ]);
    let config = parse(&text, &environment).expect("valid");
    assert_eq!(config.source.heartbeat_period, Duration::from_secs(7));
    assert_eq!(config.tables.include, ["app.*", "shop.orders"]);
    assert!(!config.target.synchronous_commit);

    let environment = Environment::from([
        ("TIDEGATE_PIPELINE__NAME", "app"),
        ("TIDEGATE_SOURCE__URL", "mysql://repl@h"),
        ("TIDEGATE_SOURCE__SERVER_ID", "7"),
        ("TIDEGATE_SOURCE__TLS", "off"),
        ("TIDEGATE_TARGET__URL", "postgres://app@h/app"),
        ("TIDEGATE_TARGET__TLS", "off"),
        ("TIDEGATE_TABLES__INCLUDE", "app.*"),
    ]);
    assert_eq!(parse("", &environment).expect("valid").source.server_id, 7);
}

#[test]
fn wrong_variables_are_refused() {
    let environment = Environment::from([
        ("TIDEGATE_SOURCE__SERVERID", "1"),
        ("TIDEGATE_SORCE__URL", "s3cret"),
        ("TIDEGATE_SOURCE__SERVER_ID", "+1"),
    ]);
    let problems = refused(MINIMAL, &environment);
    let text = format!("{}", Problems(problems.clone()));
    assert_eq!(problems.len(), 3, "{text}");
    assert!(text.contains("TIDEGATE_SOURCE__SERVERID: is no key. Did you mean server_id?"), "{text}");
    assert!(text.contains("(set by TIDEGATE_SOURCE__SERVER_ID)"), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn secrets_come_from_one_place_and_show_nowhere() {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), "s3cret-from-file\n").expect("write");
    let text = with("source", &format!("password_file = {:?}", file.path()));
    let text = text.replace("[target]", "[target]\npassword_env = \"TIDEGATE_PG__PASSWORD\"");
    let environment = Environment::from([("TIDEGATE_PG__PASSWORD", "s3cret-from-env")]);
    let config = parse(&text, &environment).expect("valid");
    assert_eq!(config.source.password.as_ref().map(Secret::reveal), Some("s3cret-from-file"));
    assert_eq!(config.target.password.as_ref().map(Secret::reveal), Some("s3cret-from-env"));
    assert!(!format!("{config:?}").contains("s3cret"));

    let both = with("source", "password_file = \"/x\"\npassword_env = \"X\"");
    assert!(refused(&both, &none())[0].message.contains("keep one of the two"));
    let unset = problem_of("source", "password_env = \"NOT_SET\"");
    assert!(unset.message.contains("NOT_SET is not set"), "{unset:?}");
    let pasted = problem_of("source", "password_env = \"s3cret\"");
    assert!(!pasted.message.contains("s3cret"), "{pasted:?}");
    let missing = problem_of("source", "password_file = \"/no/such/file\"");
    assert!(missing.message.contains("/no/such/file can't be read"), "{missing:?}");
    let in_url = problem_of("source", "url = \"mysql://repl:s3cret@h\"");
    assert!(in_url.message.contains("password_file") && !in_url.message.contains("s3cret"), "{in_url:?}");
}

#[test]
fn an_open_admin_address_needs_a_good_token() {
    let text = with("admin", "listen = \"0.0.0.0:8321\"\ntoken_env = \"T\"");
    let config = parse(&text, &Environment::from([("T", "0123456789abcdef")])).expect("valid");
    assert!(config.admin.token.is_some());
    for short in ["0123456789abcde", "0123456789 abcdef", "0123456789abcdé"] {
        let problems = refused(&text, &Environment::from([("T", short)]));
        assert_eq!((problems.len(), problems[0].key.as_str()), (1, "admin.token_env"));
    }
}

#[test]
fn tls_files_have_to_have_an_effect() {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    let path = file.path();
    let cases = [
        (
            format!("tls = \"off\"\ntls_cert_file = {path:?}\ntls_key_file = {path:?}"),
            "tls_cert_file",
            "no effect",
        ),
        (format!("tls = \"encrypt-only\"\ntls_ca_file = {path:?}"), "tls_ca_file", "no effect"),
        (format!("tls = \"verify-ca\"\ntls_cert_file = {path:?}"), "tls_cert_file", "source.tls_key_file"),
        (format!("tls = \"verify-ca\"\ntls_key_file = {path:?}"), "tls_key_file", "source.tls_cert_file"),
        (
            "tls = \"verify-ca\"\ntls_ca_file = \"/no/such/ca\"".to_owned(),
            "tls_ca_file",
            "/no/such/ca can't be read",
        ),
    ];
    for (lines, key, remedy) in cases {
        let problem = problem_of("source", &lines);
        assert_eq!(problem.key, format!("source.{key}"));
        assert!(problem.message.contains(remedy), "{problem:?}");
    }
    let good = with(
        "source",
        &format!(
            "tls = \"verify-full\"\ntls_ca_file = {path:?}\ntls_cert_file = {path:?}\ntls_key_file = {path:?}"
        ),
    );
    let tls = parse(&good, &none()).expect("valid").source.tls;
    assert_eq!((tls.mode, tls.ca_file.as_deref()), (TlsMode::VerifyFull, Some(path)));
}

/// A value for the key that differs from its default or example.
fn another(kind: Kind, file: &str) -> String {
    match kind {
        Kind::Text => "other".to_owned(),
        Kind::Path => file.to_owned(),
        Kind::List => "other.*".to_owned(),
        Kind::Boolean => "false".to_owned(),
        Kind::Choice(choices) => (*choices.last().expect("a choice")).to_owned(),
        Kind::Integer { max, .. } | Kind::Size { max, .. } => (max - 1).to_string(),
        Kind::Duration { max, .. } => units::show_duration(max),
    }
}

#[test]
fn every_key_makes_a_difference() {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), "0123456789abcdef").expect("write");
    let path = file.path().to_str().expect("UTF-8").to_owned();
    let text = MINIMAL.replace("tls = \"off\"", "tls = \"verify-ca\"").replace("encrypt-only", "verify-ca")
        + "\n[fold]\nxa = \"track\"\n";
    let base = format!("{:?}", parse(&text, &none()).expect("valid"));
    for key in KEYS {
        let value = match key.path {
            "source.url" => "mysql://other@h".to_owned(),
            "target.url" => "postgres://other@h/x".to_owned(),
            "admin.listen" => "127.0.0.1:1".to_owned(),
            "log.level" => "debug".to_owned(),
            "fold.xa" => "refuse".to_owned(),
            "fold.spill_directory" => "/".to_owned(),
            "retry.initial_backoff" => "20ms".to_owned(),
            "ddl.policy" => "resync".to_owned(),
            "ddl.ignore" => "drop_table app.t".to_owned(),
            path if path.ends_with("_env") => "OTHER".to_owned(),
            _ => another(key.kind, &path),
        };
        let mut environment = Environment::from([("OTHER", "0123456789abcdef")]);
        environment.0.insert(key.variable().into(), value.into());
        if key.path == "ddl.ignore" {
            let policy = keys::find("ddl.policy").expect("declared");
            environment.0.insert(policy.variable().into(), "ignore-listed".into());
        }
        let pair = ["tls_cert_file", "tls_key_file"];
        if pair.contains(&key.name()) {
            let other = pair.iter().find(|name| **name != key.name()).expect("the other");
            let other = keys::find(&format!("{}.{other}", key.section())).expect("declared");
            environment.0.insert(other.variable().into(), path.clone().into());
        }
        let changed =
            parse(&text, &environment).unwrap_or_else(|problems| panic!("{}: {problems}", key.path));
        assert_ne!(format!("{changed:?}"), base, "{} makes no difference", key.path);
    }
}

#[test]
fn the_commented_file_is_valid_as_it_is_and_with_every_default_uncommented() {
    let file = commented_file();
    parse(&file, &none()).unwrap_or_else(|problems| panic!("{problems}"));
    let uncommented: String = file
        .lines()
        .filter(|line| !line.starts_with("# "))
        .map(|line| line.trim_start_matches('#').to_owned() + "\n")
        .collect();
    let table: toml::Table = uncommented.parse().expect("TOML");
    for key in KEYS {
        let value = table.get(key.section()).and_then(|section| section.get(key.name()));
        assert!(value.is_some(), "{} is not in the commented file", key.path);
    }
    let secrets = KEYS.iter().filter(|key| matches!(key.default, keys::Fallback::Unset(_)));
    let names: Vec<String> = secrets.map(|key| format!("{} =", key.name())).collect();
    let defaults: String = uncommented
        .lines()
        .filter(|line| !names.iter().any(|name| line.starts_with(name.as_str())))
        .map(|line| format!("{line}\n"))
        .collect();
    let explicit = parse(&defaults, &none()).unwrap_or_else(|problems| panic!("{problems}"));
    let implicit = parse(&file, &none()).expect("valid");
    assert_eq!(format!("{explicit:?}"), format!("{implicit:?}"));
}

#[test]
fn the_reference_page_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/config.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, markdown()).expect("write");
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(page == markdown(), "docs/config.md is out of date: run the tests with UPDATE_DOCS=1");
}

#[test]
fn files_are_found_refused_or_done_without() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let path = directory.path().join("t.toml");
    let problems = load(Some(&path), &none()).expect_err("absent");
    assert!(problems.all()[0].message.contains("tidegate init"), "{problems}");
    std::fs::write(&path, MINIMAL).expect("write");
    load(Some(&path), &none()).expect("valid");
    std::fs::write(&path, vec![b'#'; (FILE_BYTES_MAX + 1) as usize]).expect("write");
    assert!(load(Some(&path), &none()).expect_err("large").to_string().contains("larger than"));
}
