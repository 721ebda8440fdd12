//! The admin surface: health and readiness for an orchestrator, status and metrics for people
//! and Prometheus, a dashboard, and the way out of a halt.
//!
//! - It only reads the status that the pipeline writes; no request waits for the pipeline or
//!   for a server, so it answers whatever those do.
//! - It never serves data: the status holds none.
//! - What one client can take is bounded by [`listener`].

mod access;
mod listener;
mod page;
mod routes;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use crate::config::AdminConfig;
use crate::shutdown::Shutdown;
use crate::status::StatusHandle;
use access::Access;
use listener::BoundedListener;

/// Between scrapes, observations of histograms are gathered this often so that they don't pile up.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// A bound admin surface, not yet serving.
pub struct Server {
    listener: TcpListener,
    access: Access,
}

/// Binds the configured address.
///
/// # Errors
/// When it can't be bound, as when another process listens there.
pub async fn bind(config: &AdminConfig) -> io::Result<Server> {
    let listener = TcpListener::bind(config.listen).await?;
    let access = Access::new(config.token.clone(), listener.local_addr()?.ip().is_loopback());
    Ok(Server { listener, access })
}

impl Server {
    /// The address that is listened on, with the port that was given out for port 0.
    ///
    /// # Errors
    /// When the operating system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the shutdown is requested and the requests at hand are answered.
    ///
    /// # Errors
    /// When serving ends for another reason.
    pub async fn serve(
        self,
        status: StatusHandle,
        metrics: PrometheusHandle,
        shutdown: Shutdown,
    ) -> io::Result<()> {
        let upkeep = metrics.clone();
        let stop = shutdown.clone();
        let guard = status.supervise("metrics upkeep");
        let upkeep = async move {
            let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
            loop {
                tokio::select! {
                    biased;
                    () = stop.requested() => break,
                    _ = ticks.tick() => upkeep.run_upkeep(),
                }
            }
            guard.finish();
        };
        let router = routes::router(status, metrics, self.access);
        let serve = axum::serve(BoundedListener::new(self.listener), router)
            .with_graceful_shutdown(async move { shutdown.requested().await });
        let (served, ()) = tokio::join!(serve.into_future(), upkeep);
        served
    }
}
