//! A stream that brings nothing although the source has moved on, or back.
//!
//! While a dump is idle its heartbeats name one place again and again: it has sent all that it will.
//! If the source then counts transactions as executed that were neither received nor held out, they
//! are not in its binlog (`gtid_purged` was set by hand, a replica does not log what it applies), and
//! if it no longer counts what it has sent, it was reset. Neither shows in the stream. Connecting
//! anew finds out which: the checks of a resume name it.

use bytes::Bytes;

use crate::binlog::event::{RawEvent, event_type};
use crate::fold::Fold;
use crate::gtid::GtidSet;
use crate::halt::{Failure, Side};

/// Heartbeats at one place, with nothing between them, after which what was executed before the
/// first must have come. The first may have been under way together with an event.
const BEATS: u32 = 3;

/// Answers after the first heartbeat's until one was asked for later than that: the next may have
/// been under way. Heartbeats come faster than answers where the source passes over transactions.
const ANSWERS: u64 = 2;

/// Counts heartbeats.
#[derive(Debug, Default)]
pub(super) struct Silence {
    beats: u32,
    place: Option<(u32, Bytes)>,
    /// What the source had said at the first of them: the number of its answer, and what it had
    /// executed.
    answer: Option<(u64, GtidSet)>,
}

/// Whether an event says that there is nothing to say.
pub(super) const fn is_heartbeat(event: &RawEvent) -> bool {
    matches!(event.header.event_type, event_type::HEARTBEAT | event_type::HEARTBEAT_V2)
}

impl Silence {
    /// Something came.
    pub(super) fn broken(&mut self) {
        self.beats = 0;
    }

    /// Takes note of a heartbeat. `executed` asks for what the source last said that it has
    /// executed, if it has lately, and the number of that answer.
    ///
    /// # Errors
    /// A failure to retry when the silence contradicts that.
    pub(super) fn heartbeat(
        &mut self,
        event: &RawEvent,
        fold: &Fold,
        executed: impl Fn() -> Option<(u64, GtidSet)>,
    ) -> Result<(), Failure> {
        let same =
            self.place.as_ref().is_some_and(|(at, file)| *at == event.header.log_pos && *file == event.body);
        if self.beats == 0 || !same {
            // While it passes over what we have, a dump beats at ever new places.
            self.place = Some((event.header.log_pos, event.body.clone()));
            self.answer = executed();
            self.beats = 1;
            return Ok(());
        }
        self.beats = self.beats.saturating_add(1);
        if self.beats < BEATS {
            return Ok(());
        }
        let (Some((first, before)), Some((latest, now))) = (self.answer.take(), executed()) else {
            self.beats = 0;
            return Ok(());
        };
        if latest < first + ANSWERS {
            self.answer = Some((first, before));
            return Ok(());
        }
        self.beats = 0;
        let unsent = fold.lacks(&before);
        if !unsent.is_empty() {
            let message = format!("the source has executed {unsent}, but its binlog stream is silent");
            return Err(Failure::retry(Side::Source, message));
        }
        let lost = fold.position().subtract(&now);
        if !lost.is_empty() {
            let message = format!("the source no longer has {lost}, which were received from it");
            return Err(Failure::retry(Side::Source, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::binlog::event::EventHeader;
    use crate::fold::{Cascades, FoldPolicy, XaPolicy};
    use crate::schema::filter::Filter;
    use crate::spill::SpillDirectory;

    const UUID: &str = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";

    fn set(intervals: &str) -> GtidSet {
        format!("{UUID}:{intervals}").parse().unwrap()
    }

    fn fold_at(intervals: &str) -> Fold {
        let filter = Filter::new(&["app.*".to_owned()], &[]).unwrap();
        let policy = FoldPolicy {
            filter: Arc::new(filter),
            xa: XaPolicy::Refuse,
            cascades: Cascades::NONE,
            max_buffer_bytes: 1000,
            spill: Arc::new(SpillDirectory::new(std::env::temp_dir(), 1000)),
        };
        Fold::new(set(intervals), None, policy)
    }

    fn beat(log_pos: u32) -> RawEvent {
        let event_type = event_type::HEARTBEAT;
        let header =
            EventHeader { timestamp: 0, event_type, server_id: 1, event_length: 0, log_pos, flags: 0 };
        RawEvent { header, body: Bytes::from_static(b"binlog.000001") }
    }

    /// Whether heartbeats at these places lead to a failure, the source's set being this all the while.
    fn fails(places: &[u32], position: &str, executed: &str) -> bool {
        let mut silence = Silence::default();
        let fold = fold_at(position);
        (0u64..).zip(places).any(|(number, at)| {
            silence.heartbeat(&beat(*at), &fold, || Some((number, set(executed)))).is_err()
        })
    }

    #[test]
    fn a_source_that_is_ahead_or_behind_in_silence_fails() {
        assert!(!fails(&[4, 4, 4, 4, 4, 4], "1-5", "1-5"));
        assert!(fails(&[4, 4, 4], "1-5", "1-6"));
        assert!(fails(&[4, 4, 4], "1-5", "1-4"));
        assert!(!fails(&[4, 4], "1-5", "1-6"));
    }

    #[test]
    fn a_dump_that_moves_is_not_silent() {
        assert!(!fails(&[4, 5, 6, 7, 8, 9], "1-5", "1-6"));
        let (mut silence, fold) = (Silence::default(), fold_at("1-5"));
        for _ in 0..5 {
            for number in 0..2 {
                assert!(silence.heartbeat(&beat(4), &fold, || Some((number, set("1-6")))).is_ok());
            }
            silence.broken();
        }
    }

    #[test]
    fn what_is_executed_during_the_silence_may_still_be_under_way() {
        let (mut silence, fold) = (Silence::default(), fold_at("1-5"));
        for (number, executed) in [(0, "1-5"), (1, "1-6"), (2, "1-7")] {
            assert!(silence.heartbeat(&beat(4), &fold, || Some((number, set(executed)))).is_ok());
        }
        // Nor does a source that can't be asked say anything.
        for _ in 0..6 {
            assert!(silence.heartbeat(&beat(4), &fold, || None).is_ok());
        }
    }

    #[test]
    fn an_answer_from_before_the_silence_says_nothing_about_it() {
        let (mut silence, fold) = (Silence::default(), fold_at("1-5"));
        for _ in 0..10 {
            for number in [7, 8] {
                assert!(silence.heartbeat(&beat(4), &fold, || Some((number, set("1-4")))).is_ok());
            }
        }
        assert!(silence.heartbeat(&beat(4), &fold, || Some((9, set("1-4")))).is_err());
    }
}
