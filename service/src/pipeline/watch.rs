//! Asks the source how far it is: for the lag, for `/status`, and to notice a reset.
//!
//! A dump that reads the first binlog file does not notice RESET BINARY LOGS AND GTIDS: the new file
//! has the old one's name, and the source passes over the new transactions that bear GTIDs of the
//! old ones. The set of executed GTIDs tells: nothing but a reset makes it smaller.

use std::time::Duration;

use mysql_async::Conn;

use crate::config::SourceConfig;
use crate::gtid::GtidSet;
use crate::halt::{Failure, Halt, Reason};
use crate::source::{connect::connect, reader};
use crate::status::StatusHandle;

/// Once a second: the lag is served in milliseconds, and one query a second costs nothing.
const INTERVAL: Duration = Duration::from_secs(1);

/// Watches until the source turns out to have been reset, and returns that.
pub(super) async fn run(config: SourceConfig, status: StatusHandle) -> Halt {
    loop {
        match observe(&config, &status).await {
            Ok(halt) => return halt,
            Err(failure) => tracing::debug!("the source can't be asked how far it is: {failure}"),
        }
        status.source_unreachable();
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Observes on one connection for as long as it lasts: another one may reach another server.
async fn observe(config: &SourceConfig, status: &StatusHandle) -> Result<Halt, Failure> {
    let mut conn = connect(config).await?;
    let mut before = GtidSet::new();
    loop {
        let (executed, clock_micros) = ask(&mut conn).await?;
        let lost = before.subtract(&executed);
        if !lost.is_empty() {
            return Ok(reset(&lost));
        }
        before = executed.clone();
        status.source_observed(executed, clock_micros);
        tokio::time::sleep(INTERVAL).await;
    }
}

fn reset(lost: &GtidSet) -> Halt {
    let detail = format!("the source was reset (RESET BINARY LOGS AND GTIDS): it no longer has {lost}");
    Halt::new(Reason::SourceIdentityMismatch, detail)
}

/// The clock is read first: what committed in between makes the lag look worse, not better.
async fn ask(conn: &mut Conn) -> Result<(GtidSet, u64), Failure> {
    let clock_micros = reader::now_micros(conn).await?;
    Ok((reader::gtid_executed(conn).await?, clock_micros))
}
