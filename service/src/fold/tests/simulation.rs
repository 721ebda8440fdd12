//! A source, the fold and a sink in one process: a history, a script of deaths, and in the end the
//! target has to be the history, with every GTID applied once.
//!
//! The source and the sink are models: what a server logs and sends, and what one PostgreSQL commit
//! makes true. The fold is the real one. `TIDEGATE_SIMULATION_CASES` runs more cases than a build has
//! time for; a failing case is printed, and kept under `proptest-regressions`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::builder::*;
use super::*;
use crate::fold::unit::RowsChange;

/// Two that are replicated and one that is not.
const TABLES: [&str; 3] = ["t", "u", "skipped"];
const BOUNDS: PoolBounds = PoolBounds { transactions: 4, bytes: 1 << 20 };

type Rows = BTreeMap<(usize, u32), u32>;

/// A change of one row: the value before and after, where there is one.
#[derive(Debug, Clone, Copy)]
struct Change {
    table: usize,
    id: u32,
    before: Option<u32>,
    after: Option<u32>,
}

impl Change {
    fn apply(self, rows: &mut Rows) -> Result<(), String> {
        let key = (self.table, self.id);
        if rows.get(&key).copied() != self.before {
            return Err(format!("row {key:?} is not as it was before the change"));
        }
        match self.after {
            Some(value) => rows.insert(key, value),
            None => rows.remove(&key),
        };
        Ok(())
    }

    fn event(self, flags: u16) -> Part {
        let old = self.before.map(|value| image(self.id, value));
        let new = self.after.map(|value| image(self.id, value));
        rows_event(self.table as u64 + 10, flags, old.as_deref(), new.as_deref())
    }
}

/// What a client of the source does. Rows are chosen by number; what becomes of them depends on
/// whether they are there.
#[derive(Debug, Clone)]
enum Doing {
    Transaction { shape: u8, picks: Vec<Pick> },
    Prepare { xid: u8, picks: Vec<Pick>, compressed: bool },
    Resolve { xid: u8, commit: bool },
    Truncate { table: usize },
    OtherStatement { filtered: bool },
    NextFile,
}

#[derive(Debug, Clone, Copy)]
struct Pick {
    table: usize,
    id: u32,
    delete: bool,
}

/// A group in the binlog, and what is true of the source behind it.
struct Logged {
    gtid: Option<Gtid>,
    events: Vec<RawEvent>,
    rows: Rows,
    /// XIDs that are prepared, and whether they hold rows of a replicated table.
    prepared: BTreeMap<u8, bool>,
}

/// The source while its history is written.
#[derive(Default)]
struct Source {
    log: Vec<Logged>,
    rows: Rows,
    open: BTreeMap<u8, Vec<Change>>,
    gno: u64,
}

impl Source {
    fn of(doings: &[Doing]) -> Self {
        let mut source = Self::default();
        doings.iter().for_each(|doing| source.run(doing));
        source
    }

    fn run(&mut self, doing: &Doing) {
        self.gno += 1;
        let gno = self.gno;
        let events = match doing {
            Doing::Transaction { shape, picks } => {
                let changes = self.changes(picks);
                changes.iter().for_each(|change| change.apply(&mut self.rows).expect("as chosen"));
                transaction_group(gno, *shape, &changes)
            }
            Doing::Prepare { xid, picks, compressed }
                if !self.open.contains_key(xid) && self.open.len() < BOUNDS.transactions =>
            {
                let changes = self.changes(picks);
                let parts = xa_parts(*xid, &changes, false);
                self.open.insert(*xid, changes);
                let parts = if *compressed { vec![payload(&parts)] } else { parts };
                group(gno, ROWS_ONLY, &parts)
            }
            Doing::Resolve { xid, commit } if self.open.contains_key(xid) => {
                let changes = self.open.remove(xid).expect("it is open");
                if *commit {
                    changes.iter().for_each(|change| change.apply(&mut self.rows).expect("locked since"));
                }
                group(gno, STATEMENTS, &[xa(if *commit { "COMMIT" } else { "ROLLBACK" }, *xid)])
            }
            Doing::Truncate { table } if !self.locked().iter().any(|(locked, _)| locked == table) => {
                self.rows.retain(|(of, _), _| of != table);
                group(gno, STATEMENTS, &[query(&format!("truncate table {}", TABLES[*table]))])
            }
            Doing::OtherStatement { filtered } => {
                let database = if *filtered { "other" } else { "app" };
                group(gno, STATEMENTS, &[query(&format!("alter table {database}.t comment 'x'"))])
            }
            Doing::NextFile => {
                self.gno -= 1;
                return self.append(None, vec![rotate().raw(), format_description().raw()]);
            }
            _ => group(gno, STATEMENTS, &[begin(), query("COMMIT")]),
        };
        self.append(Some(gtid(gno)), events);
    }

    fn append(&mut self, gtid: Option<Gtid>, events: Vec<RawEvent>) {
        let ours = |changes: &Vec<Change>| changes.iter().any(|change| change.table < 2);
        let prepared = self.open.iter().map(|(xid, changes)| (*xid, ours(changes))).collect();
        self.log.push(Logged { gtid, events, rows: self.rows.clone(), prepared });
    }

    /// The rows that prepared transactions keep from others.
    fn locked(&self) -> BTreeSet<(usize, u32)> {
        self.open.values().flatten().map(|change| (change.table, change.id)).collect()
    }

    fn changes(&self, picks: &[Pick]) -> Vec<Change> {
        let (locked, mut rows, mut changes) = (self.locked(), self.rows.clone(), Vec::new());
        for (pick, nth) in picks.iter().zip(0..) {
            let Pick { table, id, delete } = *pick;
            if locked.contains(&(table, id)) {
                continue;
            }
            let before = rows.get(&(table, id)).copied();
            let after = (!delete || before.is_none()).then_some(self.gno as u32 * 100 + nth);
            let change = Change { table, id, before, after };
            change.apply(&mut rows).expect("it was looked up");
            changes.push(change);
        }
        changes
    }

    /// Where in the log a copy may begin, at the earliest `wanted`: it waits for prepared
    /// transactions that hold rows of its tables.
    fn capture(&self, wanted: usize) -> usize {
        let free = |logged: &Logged| !logged.prepared.values().any(|ours| *ours);
        (wanted..=self.log.len()).find(|&at| at == 0 || free(&self.log[at - 1])).unwrap_or(0)
    }
}

/// One statement a change, or one statement for all of them.
fn statements(changes: &[Change], together: bool) -> Vec<Part> {
    let map = |change: &Change| table_map(change.table as u64 + 10, TABLES[change.table]);
    let rows = |(change, last): (&Change, bool)| change.event(if last { STMT_END } else { 0 });
    if together {
        let lasts = (1..=changes.len()).map(|nth| nth == changes.len());
        return changes.iter().map(map).chain(changes.iter().zip(lasts).map(rows)).collect();
    }
    changes.iter().flat_map(|change| [map(change), rows((change, true))]).collect()
}

fn xa_parts(xid: u8, changes: &[Change], one_phase: bool) -> Vec<Part> {
    let (start, end) = ([xa("START", xid)], [xa("END", xid), xa_prepare_of(xid, one_phase)]);
    [&start[..], &statements(changes, false), &end].concat()
}

fn transaction_group(gno: u64, shape: u8, changes: &[Change]) -> Vec<RawEvent> {
    let framed = |last: Part, together| [&[begin()][..], &statements(changes, together), &[last]].concat();
    let parts = match shape % 5 {
        0 => framed(xid(), false),
        1 => framed(query("COMMIT"), true),
        2 => vec![payload(&framed(xid(), true))],
        3 => xa_parts(200, changes, true),
        _ => [framed(query("SAVEPOINT `s`"), false), vec![xid()]].concat(),
    };
    group(gno, ROWS_ONLY, &parts)
}

/// What is in the target: all of it is changed by one commit.
#[derive(Debug, Clone, Default)]
struct Target {
    rows: Rows,
    processed: GtidSet,
    pooled: GtidSet,
    last: Option<(Gtid, Fingerprint)>,
    startup: BTreeSet<XidDigest>,
    /// How often each GTID has been applied.
    applied: BTreeMap<Gtid, u32>,
}

impl Target {
    fn copied_from(source: &Source, at: usize) -> Self {
        let mut target = Self::default();
        let Some(last) = at.checked_sub(1).map(|last| &source.log[last]) else { return target };
        target.rows = ours(&last.rows);
        target.startup = last.prepared.keys().map(|xid| XidDigest::new(&[*xid], b"")).collect();
        for gtid in source.log[..at].iter().filter_map(|logged| logged.gtid.as_ref()) {
            target.processed.insert(gtid);
            target.applied.insert(gtid.clone(), 1);
        }
        target
    }

    fn apply(&mut self, unit: &Unit, broken: Broken) -> Result<(), String> {
        if let Unit::Prepared(prepared) = unit {
            let set =
                if broken == Broken::PrepareIsProcessed { &mut self.processed } else { &mut self.pooled };
            set.insert(&prepared.gtid);
            return Ok(());
        }
        // A prepare is not in the position, and so is never what the source is asked for again.
        if !overlap_pending(unit) {
            self.last = Some((unit.gtid().clone(), unit.fingerprint().clone()));
        }
        let transaction = match unit {
            Unit::Prepared(_) => return Ok(()),
            Unit::SchemaChange(change) => {
                if change.statement.kind == DdlKind::TruncateTable {
                    let name = &change.statement.tables[0].table;
                    self.rows.retain(|(table, _), _| TABLES[*table] != name);
                }
                return self.count(&change.gtid);
            }
            Unit::Transaction(transaction) => transaction,
        };
        for change in changes(transaction).iter().flat_map(decoded) {
            change.apply(&mut self.rows)?;
        }
        if let Some(resolution) = &transaction.resolves {
            if let Some(prepare) = &resolution.prepare {
                self.pooled.remove(prepare);
                self.count(prepare)?;
            }
            if let Some(startup) = &resolution.startup {
                self.startup.remove(startup);
            }
        }
        self.count(&transaction.gtid)
    }

    fn count(&mut self, gtid: &Gtid) -> Result<(), String> {
        self.processed.insert(gtid);
        let applied = self.applied.entry(gtid.clone()).or_default();
        *applied += 1;
        if *applied == 1 { Ok(()) } else { Err(format!("{gtid} is applied again")) }
    }
}

fn overlap_pending(unit: &Unit) -> bool {
    match unit {
        Unit::Transaction(transaction) => transaction.overlap_pending,
        Unit::SchemaChange(change) => change.overlap_pending,
        Unit::Prepared(_) => false,
    }
}

fn ours(rows: &Rows) -> Rows {
    rows.iter().filter(|((table, _), _)| *table < 2).map(|(key, value)| (*key, *value)).collect()
}

fn decoded(change: &RowsChange) -> Vec<Change> {
    let table = TABLES.iter().position(|name| *name == change.map.table).expect("a table of ours");
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let images: Vec<_> =
        change.images.chunks(9).map(|image| (number(&image[1..5]), number(&image[5..9]))).collect();
    match change.kind {
        RowsKind::Write => {
            images.iter().map(|&(id, value)| Change { table, id, before: None, after: Some(value) }).collect()
        }
        RowsKind::Delete => {
            images.iter().map(|&(id, value)| Change { table, id, before: Some(value), after: None }).collect()
        }
        RowsKind::Update => images
            .chunks(2)
            .map(|pair| Change { table, id: pair[0].0, before: Some(pair[0].1), after: Some(pair[1].1) })
            .collect(),
    }
}

/// What befalls the pipeline, in order; the log grows meanwhile.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// The clients get this much further.
    Grow(usize),
    /// Events arrive.
    Read(usize),
    /// The oldest units are committed as one batch.
    Commit(usize, Outcome),
    /// The connection to the source or the process is lost.
    Die,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    /// It is durable, but we die without knowing.
    AnswerLost,
    /// It never got there.
    RequestLost,
}

/// Mistakes that the simulation has to notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Broken {
    Nothing,
    /// The position is stored before the rows are.
    PositionFirst,
    /// The overlapped group is taken for a new one.
    OverlapIsNew,
    /// A prepare's GTID counts as processed at once.
    PrepareIsProcessed,
    /// A commit whose answer was lost is repeated.
    LostAnswerIsRepeated,
    /// XIDs of before the copy are not remembered.
    StartupIsForgotten,
}

struct World<'a> {
    source: &'a Source,
    broken: Broken,
    /// Groups of the log that have happened.
    present: usize,
    target: Target,
    link: Option<Link>,
}

/// A connection: what is still to be sent, the fold, and what waits behind it.
struct Link {
    fold: Fold,
    events: VecDeque<RawEvent>,
    /// Groups of the log that are sent or were not asked for.
    sent: usize,
    asked: GtidSet,
    units: VecDeque<Unit>,
}

impl World<'_> {
    fn connect(&self) -> Link {
        let mut asked = self.target.processed.clone();
        let mut overlap = None;
        if let Some((gtid, fingerprint)) = self.target.last.clone() {
            if asked.contains(&gtid) {
                asked.remove(&gtid);
            }
            overlap = Some(Overlap { gtid, fingerprint });
        }
        let mut start = self.target.processed.clone();
        if self.broken == Broken::OverlapIsNew {
            (start, overlap) = (asked.clone(), None);
        }
        let now = self.present.checked_sub(1).map(|last| &self.source.log[last].prepared);
        let mut startup: BTreeSet<_> =
            now.into_iter().flatten().map(|(xid, _)| XidDigest::new(&[*xid], b"")).collect();
        if self.broken != Broken::StartupIsForgotten {
            startup.extend(&self.target.startup);
        }
        let policy = FoldPolicy { xa: XaPolicy::Track(BOUNDS), ..policy() };
        let fold = Fold::new(start, overlap, policy).with_startup_xids(startup);
        let events = VecDeque::from([rotate().raw(), format_description().raw()]);
        Link { fold, events, sent: 0, asked, units: VecDeque::new() }
    }

    fn suffer(&mut self, fate: Fate) -> Result<(), String> {
        let mut link = self.link.take().unwrap_or_else(|| self.connect());
        match fate {
            Fate::Grow(groups) => self.present = (self.present + groups).min(self.source.log.len()),
            Fate::Read(events) => self.read(&mut link, events)?,
            Fate::Commit(units, outcome) => {
                let batch: Vec<Unit> = link.units.drain(..units.min(link.units.len())).collect();
                self.commit(&batch, outcome)?;
                if outcome != Outcome::Answered {
                    return Ok(());
                }
            }
            Fate::Die => return Ok(()),
        }
        self.link = Some(link);
        Ok(())
    }

    fn read(&self, link: &mut Link, events: usize) -> Result<(), String> {
        for _ in 0..events {
            while link.events.is_empty() && link.sent < self.present {
                let logged = &self.source.log[link.sent];
                link.sent += 1;
                if logged.gtid.as_ref().is_none_or(|gtid| !link.asked.contains(gtid)) {
                    link.events.extend(logged.events.iter().cloned());
                }
            }
            let Some(event) = link.events.pop_front() else { return Ok(()) };
            if let Step::Unit(unit) = link.fold.step(event).map_err(|halt| halt.to_string())? {
                link.units.push_back(unit);
            }
        }
        Ok(())
    }

    fn commit(&mut self, batch: &[Unit], outcome: Outcome) -> Result<(), String> {
        let mut after = self.target.clone();
        for unit in batch {
            after.apply(unit, self.broken)?;
        }
        match (outcome, self.broken) {
            (Outcome::RequestLost, Broken::PositionFirst) => {
                self.target = Target { rows: self.target.rows.clone(), ..after }
            }
            (Outcome::RequestLost, _) => {}
            (Outcome::AnswerLost, Broken::LostAnswerIsRepeated) => {
                for unit in batch {
                    after.apply(unit, self.broken)?;
                }
                self.target = after;
            }
            _ => self.target = after,
        }
        Ok(())
    }

    /// Everything arrives and is committed; then the target is the source.
    fn finish(mut self) -> Result<(), String> {
        self.suffer(Fate::Grow(usize::MAX >> 1))?;
        self.suffer(Fate::Read(usize::MAX))?;
        self.suffer(Fate::Commit(usize::MAX, Outcome::Answered))?;
        let expected = ours(&self.source.rows);
        if self.target.rows != expected {
            return Err(format!("the target holds {:?}, the source {expected:?}", self.target.rows));
        }
        let mut reached = self.target.processed.clone();
        reached.union_with(&self.target.pooled);
        let all: GtidSet = self.source.log.iter().filter_map(|logged| logged.gtid.as_ref()).collect();
        if reached != all {
            return Err(format!("the target has dealt with {reached}, the source has executed {all}"));
        }
        Ok(())
    }
}

fn simulate(source: &Source, copied: usize, fates: &[Fate], broken: Broken) -> Result<(), String> {
    let copied = source.capture(copied % (source.log.len() + 1));
    let target = Target::copied_from(source, copied);
    let mut world = World { source, broken, present: copied, target, link: None };
    for fate in fates {
        world.suffer(*fate)?;
    }
    world.finish()
}

fn pick() -> impl Strategy<Value = Pick> {
    (0..3usize, 0..5u32, any::<bool>()).prop_map(|(table, id, delete)| Pick { table, id, delete })
}

fn doings(most: usize) -> impl Strategy<Value = Vec<Doing>> {
    let picks = || prop::collection::vec(pick(), 0..4);
    let one = prop_oneof![
        4 => (any::<u8>(), picks()).prop_map(|(shape, picks)| Doing::Transaction { shape, picks }),
        3 => (0..5u8, picks(), any::<bool>())
            .prop_map(|(xid, picks, compressed)| Doing::Prepare { xid, picks, compressed }),
        3 => (0..5u8, any::<bool>()).prop_map(|(xid, commit)| Doing::Resolve { xid, commit }),
        1 => (0..3usize).prop_map(|table| Doing::Truncate { table }),
        1 => any::<bool>().prop_map(|filtered| Doing::OtherStatement { filtered }),
        1 => Just(Doing::NextFile),
    ];
    prop::collection::vec(one, 1..most)
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Answered),
        1 => Just(Outcome::AnswerLost),
        1 => Just(Outcome::RequestLost),
    ];
    let one = prop_oneof![
        3 => (1..6usize).prop_map(Fate::Grow),
        4 => (1..40usize).prop_map(Fate::Read),
        3 => (1..6usize, outcome).prop_map(|(units, outcome)| Fate::Commit(units, outcome)),
        1 => Just(Fate::Die),
    ];
    prop::collection::vec(one, 0..40)
}

fn cases() -> u32 {
    std::env::var("TIDEGATE_SIMULATION_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn the_target_is_the_history(doings in doings(40), copied in any::<usize>(), fates in fates()) {
        let outcome = simulate(&Source::of(&doings), copied, &fates, Broken::Nothing);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}

proptest! {
    // Each case is some two hundred runs.
    #![proptest_config(ProptestConfig::with_cases(cases().div_ceil(20)))]

    /// One death at every event of the history, with what had arrived committed, committed without
    /// an answer, or lost.
    #[test]
    fn a_death_at_every_step(doings in doings(8), copied in any::<usize>()) {
        let source = Source::of(&doings);
        let events: usize = source.log.iter().map(|logged| logged.events.len()).sum();
        for at in 0..=events + 2 {
            for last in [
                Fate::Die,
                Fate::Commit(1, Outcome::Answered),
                Fate::Commit(usize::MAX, Outcome::AnswerLost),
                Fate::Commit(usize::MAX, Outcome::RequestLost),
            ] {
                let fates = [Fate::Grow(100), Fate::Read(at), last, Fate::Die];
                let outcome = simulate(&source, copied, &fates, Broken::Nothing);
                prop_assert!(outcome.is_ok(), "at {at}, {last:?}: {}", outcome.unwrap_err());
            }
        }
    }
}

#[test]
fn what_is_broken_is_noticed() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    /// Once might be luck.
    const TIMES: usize = 4;
    let mut missing = BTreeMap::from(
        [
            Broken::PositionFirst,
            Broken::OverlapIsNew,
            Broken::PrepareIsProcessed,
            Broken::LostAnswerIsRepeated,
            Broken::StartupIsForgotten,
        ]
        .map(|broken| (broken, TIMES)),
    );
    let mut runner = TestRunner::deterministic();
    let cases = (doings(40), any::<usize>(), fates());
    for _ in 0..200 {
        let (doings, copied, fates) = cases.new_tree(&mut runner).expect("a case").current();
        let source = Source::of(&doings);
        missing.retain(|broken, times| {
            *times -= usize::from(simulate(&source, copied, &fates, *broken).is_err());
            *times > 0
        });
        if missing.is_empty() {
            return;
        }
    }
    panic!("not noticed this often: {missing:?}");
}
