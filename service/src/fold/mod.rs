//! The fold: turns a sequence of binlog events into committed units.
//!
//! Pure: no clock, no socket, no file. Events go in one by one; a unit comes out at the terminator
//! of its group and nowhere else, so that a halt, an error or a lost connection drops what is open.
//! The grammar is a whitelist; what it does not name halts:
//!
//! ```text
//! group := GTID body
//! body  := QUERY(schema change or administration)                      commits by itself
//!        | BEGIN item* (XID | QUERY COMMIT)
//!        | BEGIN QUERY(CREATE TABLE … START TRANSACTION) item* XID     CREATE TABLE … SELECT
//!        | XA START item* XA END XA_PREPARE                            one phase: a commit
//!        | XA COMMIT | XA ROLLBACK                                      of what was prepared
//!        | TRANSACTION_PAYLOAD{ one of the row shapes }
//! item  := [ROWS_QUERY] TABLE_MAP+ ROWS* | SAVEPOINT | VIEW_CHANGE
//! ```
//!
//! Between groups: FORMAT_DESCRIPTION, ROTATE, PREVIOUS_GTIDS, STOP, HEARTBEAT. An event of an
//! unknown type that the server marked as ignorable is skipped anywhere, and counted.

mod changes;
mod charset;
mod group;
mod lexer;
mod maps;
pub mod spill;
pub mod statement;
mod temporary;
pub mod unit;
pub mod xa;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::binlog::event::{Event, EventHeader, GtidEvent, RawEvent, event_type, type_name};
use crate::fold::group::{Ended, Group};
use crate::fold::maps::MapCache;
use crate::fold::spill::Spill;
use crate::fold::temporary::TemporaryTables;
use crate::fold::unit::{Fingerprint, Landmark, Prepared, SchemaChange, Transaction, Unit};
use crate::fold::xa::{Pool, PoolBounds, XidDigest};
use crate::gtid::{Gtid, GtidSet, Uuid};
use crate::halt::{Halt, Reason};
use crate::schema::filter::Filter;

/// What the fold is told by the configuration.
#[derive(Debug, Clone)]
pub struct FoldPolicy {
    /// Applied to table maps, before anything of a row is decoded, and to the names of schema changes.
    pub filter: Arc<Filter>,
    pub xa: XaPolicy,
    pub cascades: Cascades,
    /// Bytes of an open group's rows that are held in memory; what is beyond them is spilled.
    pub max_buffer_bytes: usize,
    pub spill: Arc<dyn Spill>,
}

/// What becomes of two-phase XA transactions (`fold.xa`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XaPolicy {
    /// A prepare halts, so that no later commit or rollback of it can be reached; those that
    /// arrive belong to a prepare before the start of the stream, of which nothing is known here,
    /// and halt as well.
    Refuse,
    /// A prepared transaction waits in a pool of this size, its GTID held out of the processed set,
    /// and has its effect when it is committed.
    Track(PoolBounds),
    /// Prepares and resolutions move the position and have no effect: for a reader that is after
    /// schema changes alone.
    PassOver,
}

/// Foreign keys with CASCADE, SET NULL or SET DEFAULT, whose actions change rows of replicated
/// tables by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cascades {
    /// Whether there are any. One that a statement of the stream adds is noticed there.
    pub exist: bool,
    /// Whether the source logs the rows that they change. Those that it has received from another
    /// server are logged as that one did it, which each rows event tells by a flag of its own.
    pub logged: bool,
}

impl Cascades {
    /// Nothing to be looked after.
    pub const NONE: Self = Self { exist: false, logged: true };
}

/// The group that was applied last, held out of the dump request so that the source sends it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    pub gtid: Gtid,
    /// As the server has it that the stream comes from.
    pub fingerprint: Fingerprint,
}

/// What one event led to.
#[derive(Debug)]
pub enum Step {
    Continue,
    /// A group has committed.
    Unit(Unit),
    /// The overlapped group has been received whole and is the one that was applied.
    OverlapVerified,
}

/// The state between two events.
#[derive(Debug)]
pub struct Fold {
    position: GtidSet,
    overlap: Option<Overlap>,
    /// By GTID, with the server that the stream comes from. There is more than one of a GTID where
    /// tables were copied from different histories or servers.
    landmarks: BTreeMap<Gtid, Vec<(Landmark, Uuid)>>,
    known: Known,
    pool: Pool,
    state: State,
    /// Memory that one group leaves to the next.
    spare: Option<Box<Group>>,
}

/// What outlives a group.
#[derive(Debug)]
struct Known {
    policy: FoldPolicy,
    maps: MapCache,
    cascades: Cascades,
    temporary: TemporaryTables,
    /// What a `time_zone` of `SYSTEM` is on the source.
    system_time_zone: Option<String>,
}

#[derive(Debug)]
enum State {
    /// Between groups.
    Idle,
    /// In a group that has been processed before. It is passed over by its length alone: neither XA
    /// nor schema changes in it are interpreted again.
    Skipping(Box<Skip>),
    Open(Box<Group>),
    /// Terminal: what came after the halt's group must not be folded.
    Halted(Box<Halt>),
}

/// What an event means for the group in hand.
enum Progress {
    /// More is to come, or nothing has begun.
    Inside,
    /// The overlapped group has been passed over.
    Verified,
    Ended(Box<Group>, Ended),
}

#[derive(Debug)]
struct Skip {
    gtid: Gtid,
    extent: Extent,
    is_overlap: bool,
}

impl Fold {
    /// A fold that has processed `start`. The overlapped group, if any, is part of `start`.
    ///
    /// It may arrive after other groups, when the stream comes from another server than the one it
    /// was applied from; these are folded in the meantime, and tell that it is pending. Any other
    /// group of `start` that arrives is dropped: the source contradicts the dump request, but its
    /// effect is there already.
    #[must_use]
    pub fn new(start: GtidSet, overlap: Option<Overlap>, policy: FoldPolicy) -> Self {
        let pool = Pool::new(policy.xa.bounds(), BTreeSet::new());
        let known = Known {
            maps: MapCache::default(),
            cascades: policy.cascades,
            temporary: TemporaryTables::default(),
            system_time_zone: None,
            policy,
        };
        let landmarks = BTreeMap::new();
        Self { position: start, overlap, landmarks, known, pool, state: State::Idle, spare: None }
    }

    /// Tells of transactions that rows were copied with and the stream of `server` has yet to pass:
    /// another one under the GTID halts.
    #[must_use]
    pub fn with_landmarks(mut self, server: Uuid, landmarks: impl IntoIterator<Item = Landmark>) -> Self {
        for landmark in landmarks {
            let marks = self.landmarks.entry(landmark.gtid.clone()).or_default();
            marks.push((landmark, server));
        }
        self
    }

    /// Tells of XA transactions that were prepared before the stream begins, or may have been: they
    /// may be resolved without having been prepared in it. A prepare in the stream takes precedence.
    #[must_use]
    pub fn with_startup_xids(mut self, xids: BTreeSet<XidDigest>) -> Self {
        self.pool = Pool::new(self.known.policy.xa.bounds(), xids);
        self
    }

    /// Tells what a `time_zone` of `SYSTEM` is on the source, as an offset such as `+02:00`; `None`
    /// where it has no single one.
    #[must_use]
    pub fn with_system_time_zone(mut self, offset: Option<String>) -> Self {
        self.known.system_time_zone = offset;
        self
    }

    /// What has been folded. Not what is persisted: only the sink knows that.
    #[must_use]
    pub const fn position(&self) -> &GtidSet {
        &self.position
    }

    /// What has been folded, or waits in the pool.
    #[must_use]
    pub fn received(&self) -> GtidSet {
        let mut received = self.position.clone();
        received.union_with(&self.pool.gtids());
        received
    }

    /// What of a set has neither been folded nor waits in the pool, and the overlapped group of it
    /// that has not come yet.
    #[must_use]
    pub fn lacks(&self, set: &GtidSet) -> GtidSet {
        let mut lacking = set.subtract(&self.position).subtract(&self.pool.gtids());
        let pending = self.overlap.as_ref().filter(|overlap| set.contains(&overlap.gtid));
        if let Some(overlap) = pending {
            lacking.insert(&overlap.gtid);
        }
        lacking
    }

    /// Folds one event.
    ///
    /// # Errors
    /// A halt drops the open group and is terminal: every later call returns it again.
    pub fn step(&mut self, event: RawEvent) -> Result<Step, Halt> {
        let state = std::mem::replace(&mut self.state, State::Idle);
        let step = match self.advance(state, &event) {
            Ok(Progress::Inside) => return Ok(Step::Continue),
            Ok(Progress::Verified) => return Ok(Step::OverlapVerified),
            Ok(Progress::Ended(group, ended)) => self.release(group, ended).map(Step::Unit),
            Err(halt) => Err(halt),
        };
        if let Err(halt) = &step {
            self.state = State::Halted(Box::new(halt.clone()));
        }
        step
    }

    /// Folds a whole sequence: the units that committed, the position after them, and the halt
    /// that ended it early.
    pub fn run(mut self, events: impl IntoIterator<Item = RawEvent>) -> (Vec<Unit>, GtidSet, Option<Halt>) {
        let mut units = Vec::new();
        for event in events {
            match self.step(event) {
                Ok(Step::Unit(unit)) => units.push(unit),
                Ok(Step::Continue | Step::OverlapVerified) => {}
                Err(halt) => return (units, self.position, Some(halt)),
            }
        }
        (units, self.position, None)
    }

    /// Folds an event in this state, which has been taken out, and leaves the next one in its place.
    fn advance(&mut self, state: State, raw: &RawEvent) -> Result<Progress, Halt> {
        match state {
            State::Idle => self.between_groups(raw),
            State::Skipping(mut skip) => {
                skip.extent.advance(&raw.header).map_err(|halt| halt.at_gtid(&skip.gtid))?;
                match (skip.extent.is_complete(), skip.is_overlap) {
                    (false, _) => self.state = State::Skipping(skip),
                    (true, true) => return Ok(Progress::Verified),
                    (true, false) => {}
                }
                Ok(Progress::Inside)
            }
            State::Open(mut group) => match group.event(raw, &mut self.known) {
                Ok(None) => {
                    self.state = State::Open(group);
                    Ok(Progress::Inside)
                }
                Ok(Some(ended)) => Ok(Progress::Ended(group, ended)),
                Err(halt) => Err(halt.at_gtid(&group.head().gtid)),
            },
            State::Halted(halt) => Err(*halt),
        }
    }

    fn between_groups(&mut self, raw: &RawEvent) -> Result<Progress, Halt> {
        self.state = match raw.parse()? {
            Event::Gtid(head) => self.open(head, &raw.header)?,
            Event::FormatDescription(description) => {
                if description.created != 0 {
                    self.known.temporary.forget();
                }
                State::Idle
            }
            Event::Rotate(_)
            | Event::PreviousGtids(_)
            | Event::Stop
            | Event::Heartbeat
            | Event::Ignorable(_) => State::Idle,
            event => return Err(group::without_gtid(&event, raw)),
        };
        Ok(Progress::Inside)
    }

    fn open(&mut self, head: GtidEvent, header: &EventHeader) -> Result<State, Halt> {
        let mut extent = Extent { remaining: head.transaction_length, next_begins: begin_of(header) };
        extent.take(header).map_err(|halt| halt.at_gtid(&head.gtid))?;
        let overlap = self.overlap.take_if(|overlap| overlap.gtid == head.gtid);
        if let Some(overlap) = &overlap {
            overlap.verify(&head)?;
        }
        for (landmark, server) in self.landmarks.remove(&head.gtid).into_iter().flatten() {
            landmark.verify(&server, &fingerprint(&head))?;
        }
        let is_overlap = overlap.is_some();
        Ok(if is_overlap || self.position.contains(&head.gtid) {
            State::Skipping(Box::new(Skip { gtid: head.gtid, extent, is_overlap }))
        } else {
            State::Open(match self.spare.take() {
                Some(mut group) => {
                    group.renew(head, extent);
                    group
                }
                None => Box::new(Group::new(head, extent)),
            })
        })
    }

    /// The only way out for rows: the group has reached its terminator and is whole.
    fn release(&mut self, mut group: Box<Group>, ended: Ended) -> Result<Unit, Halt> {
        let changes = group.finish()?;
        let (gtid, fingerprint) = (group.head().gtid.clone(), fingerprint(group.head()));
        let overlap_pending = self.overlap.is_some();
        self.spare = Some(group);
        Ok(match ended {
            Ended::Prepared(xid) => {
                let pooled = self.pool.prepare(xid, &gtid, changes, &*self.known.policy.spill);
                pooled.map_err(|halt| halt.at_gtid(&gtid))?;
                // Not processed: nothing has happened yet.
                Unit::Prepared(Prepared { gtid, fingerprint })
            }
            Ended::Committed => {
                self.position.insert(&gtid);
                Unit::Transaction(Transaction { gtid, fingerprint, changes, overlap_pending, resolves: None })
            }
            Ended::Resolved(xid, verdict) => {
                let resolved = self.pool.resolve(xid, verdict);
                let (changes, resolution) = resolved.map_err(|halt| halt.at_gtid(&gtid))?;
                self.position.insert(&gtid);
                if let Some(prepare) = &resolution.prepare {
                    self.position.insert(prepare);
                }
                Unit::Transaction(Transaction {
                    gtid,
                    fingerprint,
                    changes,
                    overlap_pending,
                    resolves: Some(Box::new(resolution)),
                })
            }
            Ended::SchemaChange(change) => {
                let (statement, facts) = *change;
                self.position.insert(&gtid);
                let change = SchemaChange { gtid, fingerprint, overlap_pending, statement, facts };
                Unit::SchemaChange(Box::new(change))
            }
        })
    }
}

impl XaPolicy {
    /// Where prepares are refused none ever waits.
    const fn bounds(self) -> PoolBounds {
        match self {
            Self::Refuse | Self::PassOver => PoolBounds { transactions: 0, bytes: 0 },
            Self::Track(bounds) => bounds,
        }
    }
}

impl Overlap {
    /// A source that was reset or restored and refilled has another transaction under the GTID.
    fn verify(&self, head: &GtidEvent) -> Result<(), Halt> {
        if self.fingerprint == fingerprint(head) {
            return Ok(());
        }
        let detail = "the transaction that was applied last has another commit time or length on the source";
        Err(Halt::new(Reason::SourceHistoryDiverged, detail).at_gtid(&self.gtid))
    }
}

const fn fingerprint(head: &GtidEvent) -> Fingerprint {
    Fingerprint {
        original_commit_micros: head.original_commit_micros,
        immediate_commit_micros: head.immediate_commit_micros,
        transaction_length: head.transaction_length,
    }
}

/// Where an event begins in its file, modulo 2^32.
const fn begin_of(header: &EventHeader) -> u32 {
    header.log_pos.wrapping_sub(header.event_length)
}

/// How much of a group is still to come, by the length in its GTID event: the sum of the lengths
/// of all its events, as they are in the file; and where in the file its next event begins.
///
/// The length alone would take a part of another group that happens to be as long as what was
/// lost. A group lies in one file in one piece, so each event begins where the one before ended.
/// Positions are compared within a group only, and as the header keeps them: modulo 2^32.
#[derive(Debug, Clone, Copy)]
struct Extent {
    remaining: u64,
    next_begins: u32,
}

impl Extent {
    const fn is_complete(self) -> bool {
        self.remaining == 0
    }

    /// Counts an event of an open group, unless it belongs to the stream and not to the file; an
    /// event that cannot be in a group means that the group was cut off.
    fn advance(&mut self, header: &EventHeader) -> Result<(), Halt> {
        match header.event_type {
            event_type::HEARTBEAT | event_type::HEARTBEAT_V2 => Ok(()),
            event_type::GTID | event_type::GTID_TAGGED => Err(Halt::new(
                Reason::GtidWithinOpenTransaction,
                "the next transaction begins before this one has ended",
            )),
            event_type::ANONYMOUS_GTID => Err(Halt::new(
                Reason::AnonymousGtid,
                "an anonymous transaction begins before this one has ended",
            )),
            code @ (event_type::ROTATE
            | event_type::FORMAT_DESCRIPTION
            | event_type::PREVIOUS_GTIDS
            | event_type::STOP) => Err(Halt::new(
                Reason::TransactionLengthMismatch,
                format!(
                    "{} arrives while {} bytes of the transaction are still to come",
                    type_name(code),
                    self.remaining
                ),
            )),
            _ => self.take(header),
        }
    }

    fn take(&mut self, header: &EventHeader) -> Result<(), Halt> {
        let left = self.remaining.checked_sub(header.event_length.into());
        self.remaining = left.ok_or_else(|| {
            Halt::new(
                Reason::TransactionLengthMismatch,
                format!("{} reaches beyond the transaction's end", type_name(header.event_type)),
            )
        })?;
        if begin_of(header) != self.next_begins {
            return Err(Halt::new(
                Reason::TransactionLengthMismatch,
                format!(
                    "{} ending at {} does not begin where the event before it ended: events are missing or \
                     were added",
                    type_name(header.event_type),
                    header.log_pos
                ),
            ));
        }
        self.next_begins = header.log_pos;
        Ok(())
    }
}
