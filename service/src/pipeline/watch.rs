//! Asks the source how far it is, for the lag and for `/status`.

use std::time::Duration;

use mysql_async::Conn;

use crate::config::SourceConfig;
use crate::halt::Failure;
use crate::source::{connect::connect, reader};
use crate::status::StatusHandle;

/// Once a second: the lag is served in milliseconds, and one query a second costs nothing.
const INTERVAL: Duration = Duration::from_secs(1);

/// Never ends; the cycle aborts it.
pub(super) async fn run(config: SourceConfig, status: StatusHandle) {
    loop {
        let Err(failure) = observe(&config, &status).await;
        tracing::debug!("the source can't be asked how far it is: {failure}");
        status.source_unreachable();
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Observes on one connection for as long as it lasts.
async fn observe(config: &SourceConfig, status: &StatusHandle) -> Result<std::convert::Infallible, Failure> {
    let mut conn = connect(config).await?;
    loop {
        let (executed, clock_micros) = ask(&mut conn).await?;
        status.source_observed(executed, clock_micros);
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The clock is read first: what committed in between makes the lag look worse, not better.
async fn ask(conn: &mut Conn) -> Result<(crate::gtid::GtidSet, u64), Failure> {
    let clock_micros = reader::now_micros(conn).await?;
    Ok((reader::gtid_executed(conn).await?, clock_micros))
}
