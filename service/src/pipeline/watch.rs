//! Asks the source how far it is: for the lag, for `/status`, and to notice a reset.
//!
//! A dump that reads the first binlog file does not notice RESET BINARY LOGS AND GTIDS: the new file
//! has the old one's name, and the source passes over the new transactions that bear GTIDs of the
//! old ones. The set of executed GTIDs tells, since nothing but a reset makes it smaller; unless as many
//! transactions have followed the reset before the next look. Then the source's count of RESET
//! statements tells, some of which are harmless: the history is compared anew.

use std::time::Duration;

use mysql_async::Conn;

use crate::config::SourceConfig;
use crate::gtid::GtidSet;
use crate::halt::{Failure, Halt, Reason, Side};
use crate::source::{connect::connect, reader};
use crate::status::StatusHandle;

/// Once a second: the lag is served in milliseconds, and three short queries a second cost nothing.
const INTERVAL: Duration = Duration::from_secs(1);

/// What the source answered.
struct Look {
    clock_micros: u64,
    resets: Option<u64>,
    executed: GtidSet,
}

/// Watches until something has happened to the source that the stream may not show, and returns what
/// that means for the stream.
pub(super) async fn run(config: SourceConfig, status: StatusHandle) -> Failure {
    loop {
        match observe(&config, &status).await {
            Ok(noticed) => return noticed,
            Err(failure) => tracing::debug!("the source can't be asked how far it is: {failure}"),
        }
        status.source_unreachable();
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Observes on one connection for as long as it lasts: another one may reach another server.
async fn observe(config: &SourceConfig, status: &StatusHandle) -> Result<Failure, Failure> {
    let mut conn = connect(config).await?;
    let mut before = look(&mut conn).await?;
    loop {
        status.source_observed(before.executed.clone(), before.clock_micros);
        tokio::time::sleep(INTERVAL).await;
        let now = look(&mut conn).await?;
        if let Some(noticed) = compare(&before, &now) {
            return Ok(noticed);
        }
        before = now;
    }
}

/// The clock is read first: what committed in between makes the lag look worse, not better. So is the
/// count of resets, which goes up before their effect.
async fn look(conn: &mut Conn) -> Result<Look, Failure> {
    let clock_micros = reader::now_micros(conn).await?;
    let resets = reader::resets(conn).await?;
    Ok(Look { clock_micros, resets, executed: reader::gtid_executed(conn).await? })
}

fn compare(before: &Look, now: &Look) -> Option<Failure> {
    let lost = before.executed.subtract(&now.executed);
    if !lost.is_empty() {
        let detail = format!("the source was reset (RESET BINARY LOGS AND GTIDS): it no longer has {lost}");
        return Some(Halt::new(Reason::SourceIdentityMismatch, detail).into());
    }
    (before.resets != now.resets).then(|| {
        let message = "the source has carried out a RESET statement: its history is compared anew";
        Failure::retry(Side::Source, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(intervals: &str, resets: Option<u64>) -> Look {
        let executed = format!("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:{intervals}").parse().unwrap();
        Look { clock_micros: 1, resets, executed }
    }

    #[test]
    fn a_reset_shows_in_the_set_or_in_the_count() {
        let before = look("1-5", Some(2));
        assert_eq!(compare(&before, &look("1-9", Some(2))), None);
        let smaller = compare(&before, &look("1-4", Some(3)));
        assert!(matches!(smaller, Some(Failure::Halt(halt)) if halt.detail.ends_with(":5")));
        // Refilled meanwhile; FLUSH STATUS, which sets the count to 0, may have hidden one.
        for resets in [3, 0] {
            let refilled = compare(&before, &look("1-5", Some(resets)));
            assert!(matches!(refilled, Some(Failure::Retry { side: Side::Source, .. })));
        }
        // A source that does not count tells nothing by it.
        assert_eq!(compare(&look("1-5", None), &look("1-5", None)), None);
    }
}
