//! Prepared XA transactions: their rows come out at the commit, or never, and their GTIDs with it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::builder::*;
use super::*;
use crate::fold::unit::Resolution;

const BOUNDS: PoolBounds = PoolBounds { transactions: 3, bytes: 100_000 };

fn tracking() -> FoldPolicy {
    FoldPolicy { xa: XaPolicy::Track(BOUNDS), ..policy() }
}

fn digest(gtrid: u8) -> XidDigest {
    XidDigest::new(&[gtrid], b"")
}

fn fold_from(start: GtidSet, startup: &[u8]) -> Fold {
    Fold::new(start, None, tracking()).with_startup_xids(startup.iter().copied().map(digest).collect())
}

fn track(events: impl IntoIterator<Item = RawEvent>) -> (Vec<Unit>, GtidSet, Option<Halt>) {
    fold_from(GtidSet::new(), &[]).run(events)
}

fn prepare(gno: u64, gtrid: u8, value: u32) -> Vec<RawEvent> {
    let parts = [
        xa("START", gtrid),
        table_map(1, "t"),
        write_rows(1, STMT_END, value),
        xa("END", gtrid),
        xa_prepare_of(gtrid, false),
    ];
    group(gno, ROWS_ONLY, &parts)
}

fn resolve(gno: u64, verb: &str, gtrid: u8) -> Vec<RawEvent> {
    group(gno, STATEMENTS, &[xa(verb, gtrid)])
}

fn plain(gno: u64, value: u32) -> Vec<RawEvent> {
    group(gno, ROWS_ONLY, &[begin(), table_map(1, "t"), write_rows(1, STMT_END, value), xid()])
}

fn set(gnos: &[u64]) -> GtidSet {
    gnos.iter().map(|&gno| gtid(gno)).collect::<Vec<_>>().iter().collect()
}

fn images(transaction: &Transaction) -> Vec<Bytes> {
    changes(transaction).into_iter().map(|change| change.images).collect()
}

#[track_caller]
fn committed(unit: &Unit) -> &Transaction {
    match unit {
        Unit::Transaction(transaction) => transaction,
        other => panic!("{other:?}"),
    }
}

fn resolution(prepare: Option<u64>, startup: Option<u8>) -> Option<Box<Resolution>> {
    Some(Box::new(Resolution { prepare: prepare.map(gtid), startup: startup.map(digest) }))
}

#[test]
fn a_prepare_moves_nothing_and_its_commit_moves_both() {
    let events = [prepare(1, b'a', 7), plain(2, 8), resolve(3, "COMMIT", b'a')].concat();
    let (units, position, halt) = track(events[..11].to_vec());
    assert_eq!((halt, position), (None, set(&[2])));
    assert!(matches!(&units[0], Unit::Prepared(prepared) if prepared.gtid == gtid(1)));
    let (units, position, halt) = track(events);
    assert_eq!((halt, position), (None, set(&[1, 2, 3])));
    let [_, plain, xa] = &units[..] else { panic!("{units:?}") };
    assert_eq!(images(committed(plain)), [image(8, 8)]);
    assert_eq!(images(committed(xa)), [image(7, 7)]);
    assert_eq!((xa.gtid(), &committed(xa).resolves), (&gtid(3), &resolution(Some(1), None)));
    assert!(committed(xa).changes.bytes() > 0);
}

#[test]
fn a_rollback_drops_the_rows() {
    let (units, position, halt) = track([prepare(1, b'a', 7), resolve(2, "ROLLBACK", b'a')].concat());
    assert_eq!((halt, position), (None, set(&[1, 2])));
    assert!(committed(&units[1]).changes.is_empty());
    assert_eq!(committed(&units[1]).resolves, resolution(Some(1), None));
}

#[test]
fn effects_come_in_the_order_of_the_commits() {
    let events = [
        prepare(1, b'a', 1),
        prepare(2, b'b', 2),
        resolve(3, "COMMIT", b'b'),
        plain(4, 3),
        resolve(5, "COMMIT", b'a'),
    ];
    let (units, _, halt) = track(events.concat());
    assert_eq!(halt, None);
    let rows: Vec<Bytes> = units[2..].iter().flat_map(|unit| images(committed(unit))).collect();
    assert_eq!(rows, [image(2, 2), image(3, 3), image(1, 1)]);
}

#[test]
fn a_prepare_without_rows_for_us_is_held_out_too() {
    let filtered = [xa("START", b'a'), table_map(1, "skipped"), write_rows(1, STMT_END, 1), xa("END", b'a')];
    let parts = with(&filtered, xa_prepare_of(b'a', false));
    let events = [group(1, ROWS_ONLY, &parts), plain(2, 1)].concat();
    assert_eq!(track(events.clone()).1, set(&[2]));
    let (units, position, _) = track([events, resolve(3, "COMMIT", b'a')].concat());
    assert_eq!(position, set(&[1, 2, 3]));
    assert!(committed(&units[2]).changes.is_empty());
}

#[test]
fn a_compressed_prepare_waits_as_well() {
    let parts = [xa("START", b'a'), table_map(1, "t"), write_rows(1, STMT_END, 7), xa("END", b'a')];
    let compressed = group(1, ROWS_ONLY, &[payload(&with(&parts, xa_prepare_of(b'a', false)))]);
    let (units, position, halt) = track([compressed, resolve(2, "COMMIT", b'a')].concat());
    assert_eq!((halt, position), (None, set(&[1, 2])));
    assert_eq!(images(committed(&units[1])), [image(7, 7)]);
}

#[test]
fn one_phase_is_an_ordinary_commit() {
    let parts = [xa("START", b'a'), table_map(1, "t"), write_rows(1, STMT_END, 7), xa("END", b'a')];
    let events = group(1, ROWS_ONLY, &with(&parts, xa_prepare_of(b'a', true)));
    let (units, position, halt) = track(events);
    assert_eq!((halt, position), (None, set(&[1])));
    assert_eq!((committed(&units[0]).changes.len(), &committed(&units[0]).resolves), (1, &None));
}

#[test]
fn what_was_prepared_before_the_stream_resolves_without_rows() {
    for verb in ["COMMIT", "ROLLBACK"] {
        let (units, position, halt) = fold_from(set(&[1]), b"a").run(resolve(2, verb, b'a'));
        assert_eq!((halt, position), (None, set(&[1, 2])));
        assert!(committed(&units[0]).changes.is_empty());
        assert_eq!(committed(&units[0]).resolves, resolution(None, Some(b'a')));
    }
    // Resolved once, it is unknown.
    let twice = [resolve(2, "COMMIT", b'a'), resolve(3, "COMMIT", b'a')].concat();
    let halt = fold_from(set(&[1]), b"a").run(twice).2.expect("a halt");
    assert_eq!((halt.reason, halt.gtid), (Reason::XaCommitWithoutPrepare, Some(gtid(3))));
}

#[test]
fn a_prepare_in_the_stream_takes_the_place_of_a_listed_one() {
    let events = [prepare(1, b'a', 7), resolve(2, "COMMIT", b'a')].concat();
    let (units, _, halt) = fold_from(GtidSet::new(), b"a").run(events);
    assert_eq!(halt, None);
    assert_eq!(images(committed(&units[1])), [image(7, 7)]);
    assert_eq!(committed(&units[1]).resolves, resolution(Some(1), Some(b'a')));
}

#[test]
fn unknown_resolutions_halt() {
    for (verb, reason) in
        [("COMMIT", Reason::XaCommitWithoutPrepare), ("ROLLBACK", Reason::XaRollbackWithoutPrepare)]
    {
        let (units, position, halt) = track([prepare(1, b'a', 7), resolve(2, verb, b'b')].concat());
        let halt = halt.expect("a halt");
        assert_eq!((halt.reason, halt.gtid, units.len()), (reason, Some(gtid(2)), 1));
        assert!(position.is_empty());
    }
}

#[test]
fn a_second_prepare_of_an_open_transaction_halts() {
    let halt = track([prepare(1, b'a', 7), prepare(2, b'a', 8)].concat()).2.expect("a halt");
    assert_eq!((halt.reason, halt.gtid), (Reason::XaPreparedGtidMismatch, Some(gtid(2))));
    // The same one, sent again, is the same one.
    let again = [prepare(1, b'a', 7), prepare(1, b'a', 7), resolve(2, "COMMIT", b'a')].concat();
    let (units, _, halt) = track(again);
    assert_eq!(halt, None);
    assert_eq!(images(committed(&units[2])), [image(7, 7)]);
    // Once resolved the name is free.
    let reused = [prepare(1, b'a', 7), resolve(2, "ROLLBACK", b'a'), prepare(3, b'a', 8)].concat();
    assert_eq!(track(reused).2, None);
}

#[test]
fn the_pool_is_bounded_and_never_evicts() {
    let full: Vec<RawEvent> = (1..=3).flat_map(|gno| prepare(gno, gno as u8, 1)).collect();
    assert_eq!(track(full.clone()).2, None);
    let halt = track([full.clone(), prepare(4, 4, 1)].concat()).2.expect("a halt");
    assert_eq!((halt.reason, halt.gtid), (Reason::XaPreparedPoolExhausted, Some(gtid(4))));
    assert_eq!(track([full, resolve(4, "COMMIT", 2), prepare(5, 4, 1)].concat()).2, None);
}

#[test]
fn rows_beyond_the_pool_s_memory_wait_in_a_store() {
    let run = |events: Vec<RawEvent>| {
        let policy = FoldPolicy { max_buffer_bytes: 1 << 20, ..tracking() };
        let mut fold = Fold::new(GtidSet::new(), None, policy);
        let units = events.into_iter().filter_map(|event| match fold.step(event).unwrap() {
            Step::Unit(unit) => Some(unit),
            _ => None,
        });
        let units: Vec<Unit> = units.collect();
        (units, fold.pool.bytes())
    };
    let wide = |gno: u64| {
        let mut parts = vec![xa("START", gno as u8), table_map(1, "t")];
        parts.extend((0..1000).map(|_| write_rows(1, 0, 7)));
        parts.extend([write_rows(1, STMT_END, 7), xa("END", gno as u8), xa_prepare_of(gno as u8, false)]);
        group(gno, ROWS_ONLY, &parts)
    };
    let (_, held) = run(wide(1));
    assert!(held > BOUNDS.bytes / 2, "{held}");
    let open = [wide(1), wide(2), wide(3)].concat();
    assert!(run(open.clone()).1 <= BOUNDS.bytes);
    let (units, held) = run([open, resolve(4, "COMMIT", 3), resolve(5, "COMMIT", 1)].concat());
    for unit in &units[3..] {
        assert_eq!(images(committed(unit)), vec![Bytes::from(image(7, 7)); 1001]);
    }
    // What has been resolved no longer counts.
    assert!(held < 10_000, "{held}");
}

#[test]
fn the_events_of_a_group_name_one_transaction() {
    let rows = [table_map(1, "t"), write_rows(1, STMT_END, 1)];
    for (start, end, prepared) in [(b'a', b'b', b'a'), (b'a', b'a', b'b'), (b'b', b'a', b'a')] {
        let parts =
            [&[xa("START", start)][..], &rows, &[xa("END", end), xa_prepare_of(prepared, false)]].concat();
        let halt = track(group(1, ROWS_ONLY, &parts)).2.expect("a halt");
        assert_eq!(halt.reason, Reason::UnsupportedTransactionShape);
    }
    let halt = track(group(1, STATEMENTS, &[query("XA COMMIT 'a'")])).2.expect("a halt");
    assert_eq!(halt.reason, Reason::UnsupportedTransactionShape);
}

#[derive(Debug, Clone, Copy)]
enum Doing {
    Plain,
    Start(u8),
    End(u8, bool),
}

/// What a sequence of statements leads to: its groups, and the rows of each GTID that has any.
fn history(doings: &[Doing]) -> (Vec<RawEvent>, BTreeMap<Gtid, Vec<Bytes>>) {
    let (mut events, mut rows, mut open) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for (doing, gno) in doings.iter().zip(1u64..) {
        let value = gno as u32;
        match *doing {
            Doing::Start(xid) if !open.contains_key(&xid) && open.len() < BOUNDS.transactions => {
                open.insert(xid, value);
                events.extend(prepare(gno, xid, value));
            }
            Doing::End(xid, commit) if open.contains_key(&xid) => {
                let value = open.remove(&xid).expect("open");
                if commit {
                    rows.insert(gtid(gno), vec![Bytes::from(image(value, value))]);
                }
                events.extend(resolve(gno, if commit { "COMMIT" } else { "ROLLBACK" }, xid));
            }
            _ => {
                rows.insert(gtid(gno), vec![Bytes::from(image(value, value))]);
                events.extend(plain(gno, value));
            }
        }
    }
    (events, rows)
}

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    let one = prop_oneof![
        Just(Doing::Plain),
        (0u8..4).prop_map(Doing::Start),
        (0u8..4, any::<bool>()).prop_map(|(xid, commit)| Doing::End(xid, commit)),
    ];
    prop::collection::vec(one, 1..40)
}

fn rows_of(units: &[Unit]) -> Vec<(Gtid, Vec<Bytes>)> {
    let rows = units.iter().filter_map(|unit| match unit {
        Unit::Transaction(transaction) if !transaction.changes.is_empty() => {
            Some((transaction.gtid.clone(), images(transaction)))
        }
        _ => None,
    });
    rows.collect()
}

proptest! {
    /// A stream that breaks off anywhere and is sent again, without what had been processed: every
    /// committed transaction comes out once with its rows, and no other.
    #[test]
    fn any_interleaving_resumes_exactly(doings in doings(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4)) {
        let (events, expected) = history(&doings);
        let mut position = GtidSet::new();
        let mut got = Vec::new();
        let ends = cuts.iter().map(|cut| cut.index(events.len() + 1)).chain([events.len()]);
        for end in ends {
            let (units, after, halt) = fold_from(position, &[]).run(events[..end].to_vec());
            prop_assert_eq!(halt, None);
            got.extend(rows_of(&units));
            position = after;
        }
        let count = got.len();
        let got: BTreeMap<_, _> = got.into_iter().collect();
        prop_assert_eq!(got.len(), count);
        prop_assert_eq!(got, expected);
    }
}
