use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::config::{self, Environment, Secret};
use crate::halt::{Halt, Reason};
use crate::schema::TableName;
use crate::schema::phase::TablePhase;
use crate::shutdown::{self, Trigger};
use crate::status::State;
use crate::telemetry::metrics::tests::shared as shared_metrics;

const TOKEN: &str = "0123456789abcdef";

/// Gauges are one a process: tests that read metrics take turns.
static METRICS_TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A surface on a port of its own; stops when dropped.
struct Surface {
    address: SocketAddr,
    status: StatusHandle,
    _trigger: Trigger,
}

struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

fn a_status() -> StatusHandle {
    let config = config::parse(
        "pipeline.name = 'app'\nsource.url = 'mysql://u@h'\nsource.server_id = 1\nsource.tls = 'off'\n\
         target.url = 'postgres://u@h/db'\ntarget.tls = 'off'\ntables.include = ['a.*']\n",
        &Environment::default(),
    );
    StatusHandle::new(&config.expect("valid"))
}

async fn surface_with(token: Option<&str>, loopback: bool) -> Surface {
    let config = AdminConfig {
        listen: "127.0.0.1:0".parse().expect("address"),
        token: token.map(|token| Secret::new(token.to_owned())),
    };
    let mut server = bind(&config).await.expect("bound");
    server.access = Access::new(config.token, loopback);
    let (trigger, shutdown) = shutdown::pair();
    let (address, status) = (server.local_addr().expect("address"), a_status());
    tokio::spawn(server.serve(status.clone(), shared_metrics(), shutdown));
    Surface { address, status, _trigger: trigger }
}

async fn surface() -> Surface {
    surface_with(None, true).await
}

impl Surface {
    async fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.expect("connect");
        stream.write_all(request.as_bytes()).await.expect("send");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("status line");
        Answer { code, head: head.to_lowercase(), body: body.to_owned() }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: t\r\n\r\n")).await
    }

    async fn with_token(&self, method: &str, path: &str, token: &str) -> Answer {
        self.send(&format!("{method} {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {token}\r\ncontent-length: 0\r\n\r\n"))
            .await
    }
}

#[tokio::test]
async fn probes_tell_the_truth_in_every_state() {
    let surface = surface().await;
    let halt = Halt::new(Reason::DataGap, "names a table").on_table("app", "users");
    type Change = Box<dyn Fn(&StatusHandle)>;
    let cases: [(&str, Change, u16, u16); 7] = [
        ("starting", Box::new(|_| ()), 200, 503),
        ("snapshotting", Box::new(|s| s.enter(State::Snapshotting)), 200, 503),
        ("catching_up", Box::new(|s| s.enter(State::CatchingUp)), 200, 200),
        ("streaming", Box::new(|s| s.enter(State::Streaming)), 200, 200),
        ("retrying", Box::new(|s| s.retrying(crate::halt::Side::Source, "refused")), 200, 503),
        ("halted", Box::new(move |s| s.halt(&halt)), 503, 503),
        (
            "standby",
            Box::new(|s| {
                s.enter(State::Starting);
                s.standby(true);
            }),
            200,
            200,
        ),
    ];
    for (name, change, health, ready) in cases {
        change(&surface.status);
        assert_eq!(surface.get("/live").await.code, 200, "{name}");
        assert_eq!(surface.get("/health").await.code, health, "{name}");
        assert_eq!(surface.get("/ready").await.code, ready, "{name}");
    }
}

#[tokio::test]
async fn an_unhealthy_answer_names_the_reason_and_no_more() {
    let surface = surface_with(Some(TOKEN), false).await;
    surface.status.halt(&Halt::new(Reason::DataGap, "the detail").on_table("app", "users"));
    let answer = surface.get("/health").await;
    assert_eq!(answer.json(), serde_json::json!({ "status": "halted", "reason": "data_gap" }));
    drop(surface.status.supervise("observer"));
    let answer = surface.get("/health").await;
    assert_eq!(answer.code, 503);
    assert_eq!(answer.json(), serde_json::json!({ "status": "task_died", "reason": "observer" }));
    assert_eq!(surface.get("/live").await.code, 200);
}

#[tokio::test]
async fn status_and_metrics_state_the_same_facts() {
    let _turn = METRICS_TURN.lock().await;
    let surface = surface().await;
    let table = TableName { database: "a".into(), table: "<b>&\"x".into() };
    surface.status.table(&table, "a.x", TablePhase::Copying);
    surface.status.halt(&Halt::new(Reason::SchemaDrift, "column x"));
    let status = surface.get("/status").await.json();
    assert_eq!(status["state"], "halted");
    assert_eq!(status["halt"]["reason"], "schema_drift");
    assert_eq!(status["halt"]["remedy"], Reason::SchemaDrift.remedy());
    assert_eq!(status["lag_ms"], serde_json::Value::Null);
    assert_eq!(status["tables"][0]["source"], "a.<b>&\"x");
    let answer = surface.get("/metrics").await;
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
    for line in [
        "tidegate_state{state=\"halted\"} 1",
        "tidegate_state{state=\"streaming\"} 0",
        "tidegate_halted{reason=\"schema_drift\"} 1",
        "tidegate_halted{reason=\"data_gap\"} 0",
        "tidegate_lag_seconds NaN",
        concat!("tidegate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ] {
        assert!(answer.body.lines().any(|found| found == line), "{line} is not in\n{}", answer.body);
    }
}

#[tokio::test]
async fn every_answer_closes_and_is_not_cached_and_errors_are_json() {
    let surface = surface().await;
    for (method, path, code) in [
        ("GET", "/", 200),
        ("HEAD", "/status", 200),
        ("GET", "/nothing", 404),
        ("POST", "/status", 405),
        ("GET", "/v1/resume", 405),
        ("GET", "/v1/pause", 404),
    ] {
        let answer = surface.send(&format!("{method} {path} HTTP/1.1\r\nhost: t\r\n\r\n")).await;
        assert_eq!(answer.code, code, "{method} {path}");
        for header in ["connection: close", "cache-control: no-store", "x-content-type-options: nosniff"] {
            assert!(answer.head.contains(header), "{method} {path}: {}", answer.head);
        }
        if code >= 400 {
            assert!(answer.json()["error"].is_string(), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn off_loopback_facts_take_the_token_and_probes_do_not() {
    let _turn = METRICS_TURN.lock().await;
    let surface = surface_with(Some(TOKEN), false).await;
    for path in ["/status", "/metrics"] {
        let answer = surface.get(path).await;
        assert_eq!(answer.code, 401, "{path}");
        assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
        assert_eq!(surface.with_token("GET", path, "wrong").await.code, 401, "{path}");
        assert_eq!(surface.with_token("GET", path, TOKEN).await.code, 200, "{path}");
    }
    for path in ["/live", "/health", "/"] {
        assert_eq!(surface.get(path).await.code, 200, "{path}");
    }
}

#[tokio::test]
async fn resume_takes_a_token_and_a_halt() {
    let open = surface().await;
    let answer = open.with_token("POST", "/v1/resume", "any").await;
    assert_eq!(answer.code, 403);
    assert!(answer.body.contains("admin.token_file"), "{}", answer.body);

    let surface = surface_with(Some(TOKEN), true).await;
    assert_eq!(surface.with_token("POST", "/v1/resume", "wrong").await.code, 401);
    let answer = surface.with_token("POST", "/v1/resume", TOKEN).await;
    assert_eq!(answer.code, 409);
    assert!(answer.body.contains("starting"), "{}", answer.body);
    surface.status.halt(&Halt::new(Reason::DataGap, ""));
    assert_eq!(surface.with_token("POST", "/v1/resume", TOKEN).await.code, 202);
    let status = surface.with_token("GET", "/status", TOKEN).await.json();
    assert_eq!((&status["state"], &status["halt"]), (&"starting".into(), &serde_json::Value::Null));
    tokio::time::timeout(Duration::from_secs(5), surface.status.resumed()).await.expect("woken");
    assert_eq!(surface.get("/health").await.code, 200);
}

#[tokio::test]
async fn the_dashboard_is_locked_down() {
    let surface = surface().await;
    let answer = surface.get("/").await;
    assert!(answer.head.contains("content-security-policy: default-src 'none'"), "{}", answer.head);
    assert!(answer.head.contains("content-type: text/html"), "{}", answer.head);
    assert!(answer.body.starts_with("<!doctype html>"));
}

#[tokio::test]
async fn the_surface_stops_on_request_with_requests_answered() {
    let Surface { address, _trigger: trigger, .. } = surface().await;
    TcpStream::connect(address).await.expect("listening");
    trigger.shut_down();
    let closed = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), closed).await.expect("no longer listening");
}
