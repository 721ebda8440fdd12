//! The request to stop, seen by every task.

use tokio::sync::watch;

/// Asks every [`Shutdown`] of its pair to stop.
#[derive(Debug)]
pub struct Trigger(watch::Sender<bool>);

/// Tells when to stop. Clones see the same request.
#[derive(Debug, Clone)]
pub struct Shutdown(watch::Receiver<bool>);

/// A trigger and what it triggers.
#[must_use]
pub fn pair() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Requests the stop. It can't be taken back.
    pub fn shut_down(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    #[must_use]
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns once the stop is requested; a trigger that was dropped counts as a request.
    /// Cancel safe.
    pub async fn requested(&self) {
        let mut receiver = self.0.clone();
        let _dropped_or_requested = receiver.wait_for(|requested| *requested).await.is_ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_sees_the_request_at_any_time() {
        let (trigger, early) = pair();
        let late = early.clone();
        assert!(!early.is_requested());
        trigger.shut_down();
        early.requested().await;
        assert!(late.is_requested());
        late.requested().await;
    }

    #[tokio::test]
    async fn a_dropped_trigger_is_a_request() {
        let (trigger, shutdown) = pair();
        drop(trigger);
        shutdown.requested().await;
    }
}
