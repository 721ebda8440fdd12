//! The harness of Tidegate's end-to-end tests and demo: real servers in containers, the real binary,
//! and a comparison of source and target value by value.
//!
//! ```no_run
//! use tidegate_integration::{Servers, Tidegate, run};
//!
//! run(async {
//!     let fixture = Servers::shared().await?.fixture("orders").await?;
//!     fixture.source("CREATE TABLE o (id INT PRIMARY KEY, note TEXT); INSERT INTO o VALUES (1, 'a')").await?;
//!     let tidegate = Tidegate::start(fixture.config()).await?;
//!     tidegate.wait_state("streaming").await?;
//!     fixture.source("UPDATE o SET note = 'b'").await?;
//!     tidegate.caught_up(&fixture).await?;
//!     fixture.assert_same().await
//! });
//! ```

pub mod backup;
pub mod binlog_proxy;
mod canonical;
pub mod certificates;
pub mod charsets;
pub mod compare;
pub mod fixture;
pub mod http;
pub mod mariadb;
pub mod mysql;
pub mod pgbouncer;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod servers;
pub mod wait;

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::Runtime;

pub use compare::{Comparison, Difference};
pub use fixture::Fixture;
pub use mysql::{MySql, MySqlSession};
pub use pgbouncer::PgBouncer;
pub use postgres::{PgSession, Postgres};
pub use process::{Config, Tidegate};
pub use proxy::{CutProxy, Fault};
pub use servers::Servers;

/// Runs one test to its end on the runtime that all tests of the process share, and panics with the
/// whole chain of causes if it fails. Shared servers outlive any one test's runtime, hence one for all.
pub fn run<T>(test: impl Future<Output = anyhow::Result<T>>) -> T {
    match runtime().block_on(test) {
        Ok(done) => done,
        Err(error) => panic!("{error:?}"),
    }
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("a tokio runtime can be built")
    })
}
