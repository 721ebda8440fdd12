//! A PgBouncer before a PostgreSQL server.

use anyhow::Result;

use crate::postgres::{PgSession, Postgres, TARGET_PASSWORD, TARGET_ROLE};
use crate::servers::{Kind, Server};

#[derive(Debug)]
pub struct PgBouncerKind;

/// A PgBouncer in a container, for the role of Tidegate.
pub type PgBouncer = Server<PgBouncerKind>;

impl Kind for PgBouncerKind {
    const NAME: &'static str = "PgBouncer";
    const PORT: u16 = 5432;
    const IMAGE_VARIABLE: &'static str = "TIDEGATE_PGBOUNCER_IMAGE";
    const IMAGES: [&'static str; 2] = ["edoburu/pgbouncer:v1.23.1-p2", "tidegate/pgbouncer:1.18"];

    fn environment() -> Vec<(&'static str, &'static str)> {
        vec![("DB_USER", TARGET_ROLE), ("DB_PASSWORD", TARGET_PASSWORD), ("AUTH_TYPE", "scram-sha-256")]
    }

    fn command(_: &[&str]) -> Vec<String> {
        Vec::new()
    }

    async fn probe(server: &Server<Self>) -> Result<()> {
        let session = PgSession::connect(server.addr(), TARGET_ROLE, TARGET_PASSWORD, "postgres").await?;
        session.exec("SELECT 1").await
    }
}

impl PgBouncer {
    /// A new one with this `pool_mode`, ready.
    pub async fn start_new(server: &Postgres, pool_mode: &str) -> Result<Self> {
        let inner = server.inner_addr().await?;
        let (host, port) = (inner.ip().to_string(), inner.port().to_string());
        Self::launch(&[], &[("DB_HOST", &host), ("DB_PORT", &port), ("POOL_MODE", pool_mode)]).await
    }
}
