//! The routes and their answers.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;

use super::access::{Access, Denied};
use super::page;
use crate::status::{Health, NotHalted, StatusHandle};
use crate::telemetry;

/// The text format's media type, as Prometheus asks for it.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

struct Surface {
    status: StatusHandle,
    metrics: PrometheusHandle,
    access: Access,
}

pub(super) fn router(status: StatusHandle, metrics: PrometheusHandle, access: Access) -> Router {
    Router::new()
        .route("/", get(dashboard))
        .route("/live", get(live))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/status", get(status_report))
        .route("/metrics", get(render_metrics))
        .route("/v1/resume", post(resume))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::map_response(finish))
        .with_state(Arc::new(Surface { status, metrics, access }))
}

/// One request a connection, which is what bounds a client; nothing is cached or sniffed.
async fn finish(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A JSON answer to something that can't be done.
fn refusal(status: StatusCode, error: &str) -> Response {
    (status, Json(json!({ "error": error }))).into_response()
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let mut response = refusal(self.status, self.message);
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

async fn dashboard() -> Response {
    let policy = (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(page::POLICY));
    ([policy], Html(page::HTML)).into_response()
}

async fn live() -> Response {
    Json(json!({ "status": "live" })).into_response()
}

/// A probe needs no token, so it learns the reason's name and nothing of the detail.
async fn health(State(surface): State<Arc<Surface>>) -> Response {
    let (code, body) = match surface.status.health() {
        Health::Ok(state) => (StatusCode::OK, json!({ "status": "ok", "state": state.name() })),
        Health::Halted(reason) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "halted", "reason": reason }))
        }
        Health::TaskDied(task) => {
            (StatusCode::SERVICE_UNAVAILABLE, json!({ "status": "task_died", "reason": task }))
        }
    };
    (code, Json(body)).into_response()
}

async fn ready(State(surface): State<Arc<Surface>>) -> Response {
    let ready = surface.status.ready();
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(json!({ "ready": ready }))).into_response()
}

async fn status_report(State(surface): State<Arc<Surface>>, headers: HeaderMap) -> Result<Response, Denied> {
    surface.access.read(&headers)?;
    Ok(Json(surface.status.report()).into_response())
}

async fn render_metrics(State(surface): State<Arc<Surface>>, headers: HeaderMap) -> Result<Response, Denied> {
    surface.access.read(&headers)?;
    telemetry::metrics::publish(&surface.status.report());
    let text = surface.metrics.render();
    Ok(([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response())
}

async fn resume(State(surface): State<Arc<Surface>>, headers: HeaderMap) -> Result<Response, Denied> {
    surface.access.act(&headers)?;
    let response = match surface.status.request_resume() {
        Ok(()) => {
            tracing::info!("a resume was requested");
            (StatusCode::ACCEPTED, Json(json!({ "status": "resuming" }))).into_response()
        }
        Err(NotHalted(state)) => {
            refusal(StatusCode::CONFLICT, &format!("the pipeline is not halted but {}", state.name()))
        }
    };
    Ok(response)
}

async fn not_found() -> Response {
    let paths = "no such path; there are /, /live, /health, /ready, /status, /metrics and POST /v1/resume";
    refusal(StatusCode::NOT_FOUND, paths)
}

async fn method_not_allowed() -> Response {
    refusal(StatusCode::METHOD_NOT_ALLOWED, "the path does not take this method")
}
