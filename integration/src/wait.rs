//! Waiting on a condition, never on a time.

use std::fmt::Display;
use std::future::Future;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The pause between two looks at a condition: short, since a test waits for the thing itself.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// How long any wait may take before it fails. One bound for all of them, generous enough for a busy
/// two-core machine on which a schema change may have to wait for the copies of other tests;
/// `TIDEGATE_TEST_DEADLINE` gives another one in seconds.
pub fn deadline() -> Duration {
    static DEADLINE: OnceLock<Duration> = OnceLock::new();
    *DEADLINE.get_or_init(|| {
        let seconds = std::env::var("TIDEGATE_TEST_DEADLINE").ok().and_then(|text| text.parse().ok());
        Duration::from_secs(seconds.unwrap_or(300))
    })
}

/// What a look at a condition found.
pub enum Look<T> {
    /// It holds, with what the waiter wanted from it.
    Done(T),
    /// It does not hold yet; the text says what is there instead, for the error after the deadline.
    NotYet(String),
}

/// Looks until the condition holds. An error of the look itself ends the wait at once.
pub async fn until<T, F>(what: impl Display, mut look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Look<T>>>,
{
    let started = Instant::now();
    loop {
        match look().await? {
            Look::Done(found) => return Ok(found),
            Look::NotYet(seen) if started.elapsed() > deadline() => {
                bail!("waited {:?} in vain for {what}; last seen: {seen}", deadline())
            }
            Look::NotYet(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// Like [`until`], where an error means "not yet": for servers and processes that are coming up.
pub async fn until_ok<T, F>(what: impl Display, mut attempt: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    until(what, || {
        let attempt = attempt();
        async {
            Ok(match attempt.await {
                Ok(found) => Look::Done(found),
                Err(error) => Look::NotYet(format!("{error:#}")),
            })
        }
    })
    .await
}
