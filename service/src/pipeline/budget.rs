//! How often a failure is retried before it becomes a halt.
//!
//! Two budgets, because two faults look alike from one attempt: a server that can't be reached at
//! all, and one that accepts us and drops us again and again. Without the second, two instances
//! that evict one another would look healthy on each pass.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::config::RetryConfig;
use crate::halt::{Halt, Reason, Side};

/// Counts failed attempts; time comes in as an argument.
pub(super) struct Budget {
    config: RetryConfig,
    never_established: u32,
    drops: VecDeque<Instant>,
    backoff: Duration,
}

impl Budget {
    pub(super) fn new(config: RetryConfig) -> Self {
        let backoff = config.initial_backoff;
        Self { config, never_established: 0, drops: VecDeque::new(), backoff }
    }

    /// Progress was committed: the connection does its work, so the backoff starts anew.
    pub(super) fn progressed(&mut self) {
        self.never_established = 0;
        self.backoff = self.config.initial_backoff;
    }

    /// A cycle failed. Answers how long to wait, or the halt when the budget is used up.
    pub(super) fn failed(
        &mut self,
        side: Side,
        message: &str,
        established: bool,
        now: Instant,
    ) -> Result<Duration, Halt> {
        let exhausted = if established {
            self.never_established = 0;
            self.dropped(now)
        } else {
            self.never_established += 1;
            self.never_established > self.config.max_connect_attempts
        };
        if exhausted {
            let reason = match side {
                Side::Source => Reason::SourceUnavailable,
                Side::Target => Reason::TargetUnavailable,
            };
            return Err(Halt::new(
                reason,
                format!("the retry budget is used up; the last failure: {message}"),
            ));
        }
        let wait = self.backoff;
        self.backoff = (self.backoff * 2).min(self.config.max_backoff);
        Ok(wait)
    }

    fn dropped(&mut self, now: Instant) -> bool {
        self.drops.push_back(now);
        while self.drops.front().is_some_and(|first| now.duration_since(*first) > self.config.window) {
            self.drops.pop_front();
        }
        self.drops.len() > self.config.max_drops as usize
    }

    /// The operator resumed: the budgets start anew.
    pub(super) fn reset(&mut self) {
        self.progressed();
        self.drops.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(RetryConfig {
            initial_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_millis(300),
            max_connect_attempts: 3,
            max_drops: 2,
            window: Duration::from_secs(60),
        })
    }

    #[test]
    fn backs_off_and_halts_when_never_established() {
        let (mut budget, now) = (budget(), Instant::now());
        let waits: Vec<_> = (0..3)
            .map(|_| budget.failed(Side::Source, "refused", false, now).expect("within budget").as_millis())
            .collect();
        assert_eq!(waits, [100, 200, 300]);
        let halt = budget.failed(Side::Source, "refused", false, now).expect_err("used up");
        assert_eq!(halt.reason, Reason::SourceUnavailable);
    }

    #[test]
    fn drops_count_within_the_window_only() {
        let (mut budget, start) = (budget(), Instant::now());
        for minute in 0..10 {
            let now = start + Duration::from_secs(61 * minute);
            budget.failed(Side::Target, "lost", true, now).expect("one a window");
        }
        let now = start + Duration::from_secs(61 * 9);
        budget.failed(Side::Target, "lost", true, now).expect("two");
        let halt = budget.failed(Side::Target, "lost", true, now).expect_err("three in one window");
        assert_eq!(halt.reason, Reason::TargetUnavailable);
    }

    #[test]
    fn progress_restarts_the_backoff_but_not_the_drops() {
        let (mut budget, now) = (budget(), Instant::now());
        budget.failed(Side::Source, "lost", true, now).expect("one");
        budget.progressed();
        let wait = budget.failed(Side::Source, "lost", true, now).expect("two");
        assert_eq!(wait, Duration::from_millis(100));
        budget.failed(Side::Source, "lost", true, now).expect_err("three in one window");
    }
}
