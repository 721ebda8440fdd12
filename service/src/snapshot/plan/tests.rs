use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

type Key = i64;

/// The source: its rows' keys, and the answers it gives about them.
struct Table(BTreeSet<Key>);

impl Table {
    fn within<'a>(&'a self, range: &'a Range<Key>) -> impl Iterator<Item = Key> + 'a {
        self.0.iter().copied().filter(|&key| holds(range, key))
    }

    fn bound(&self, range: &Range<Key>, rows: usize) -> Option<Key> {
        self.within(range).nth(rows - 1)
    }
}

fn holds(range: &Range<Key>, key: Key) -> bool {
    range.after.is_none_or(|after| key > after) && range.through.is_none_or(|through| key <= through)
}

fn take(plan: &mut Plan<Key>, table: &Table, rows: usize) -> Option<Chunk<Key>> {
    match plan.advance() {
        Next::Copy(chunk) => Some(chunk),
        Next::Bound(range) => plan.cut(table.bound(&range, rows)),
        Next::Finished => None,
    }
}

fn chunk(number: u32, after: Option<Key>, through: Option<Key>) -> Chunk<Key> {
    Chunk { number, range: Range { after, through } }
}

#[test]
fn a_fresh_plan_cuts_the_whole_range_into_chunks_of_rows() {
    let table = Table((1..=7).collect());
    let mut plan = Plan::new(Vec::new(), true).unwrap();
    let chunks: Vec<_> = std::iter::from_fn(|| take(&mut plan, &table, 3)).collect();
    assert_eq!(chunks, [chunk(0, None, Some(3)), chunk(1, Some(3), Some(6)), chunk(2, Some(6), None)]);
}

#[test]
fn an_empty_table_is_one_chunk() {
    let table = Table(BTreeSet::new());
    let mut plan = Plan::new(Vec::new(), true).unwrap();
    assert_eq!(take(&mut plan, &table, 3), Some(chunk(0, None, None)));
    assert_eq!(take(&mut plan, &table, 3), None);
}

#[test]
fn a_table_without_a_key_is_one_chunk_and_no_bound_is_asked_for() {
    let mut plan: Plan<Key> = Plan::new(Vec::new(), false).unwrap();
    assert_eq!(plan.advance(), Next::Copy(chunk(0, None, None)));
    assert_eq!(plan.advance(), Next::Finished);
    let mut done: Plan<Key> = Plan::new(vec![chunk(0, None, None)], false).unwrap();
    assert_eq!(done.advance(), Next::Finished);
}

#[test]
fn a_gap_is_cut_into_no_more_pieces_than_it_has_numbers() {
    let done = vec![chunk(0, None, Some(10)), chunk(3, Some(30), None)];
    let mut plan = Plan::new(done, true).unwrap();
    let table = Table((11..=30).collect());
    assert_eq!(take(&mut plan, &table, 5), Some(chunk(1, Some(10), Some(15))));
    assert_eq!(take(&mut plan, &table, 5), Some(chunk(2, Some(15), Some(30))));
    assert_eq!(take(&mut plan, &table, 5), None);
}

#[test]
fn a_gap_of_which_the_first_number_took_all_is_closed() {
    let done = vec![chunk(0, None, Some(10)), chunk(1, Some(10), Some(30)), chunk(5, Some(30), None)];
    assert_eq!(Plan::new(done, true).unwrap().advance(), Next::Finished);
}

#[test]
fn a_chunk_given_back_is_handed_out_again() {
    let table = Table((1..=4).collect());
    let mut plan = Plan::new(Vec::new(), true).unwrap();
    let first = take(&mut plan, &table, 2).unwrap();
    plan.give_back(first.clone());
    assert_eq!(take(&mut plan, &table, 2), Some(first));
}

#[test]
fn contradictions_are_refused() {
    let contradictions = [
        vec![chunk(0, None, Some(1)), chunk(0, None, Some(1))],
        vec![chunk(0, None, None), chunk(1, Some(4), None)],
        vec![chunk(0, None, Some(1)), chunk(1, Some(2), None)],
        vec![chunk(0, Some(1), None)],
        vec![chunk(0, None, Some(1)), chunk(1, None, Some(2))],
        vec![chunk(u32::MAX, Some(1), Some(2))],
    ];
    for done in contradictions {
        let error = Plan::new(done.clone(), true).expect_err(&format!("{done:?}"));
        assert_eq!(error.reason, Reason::CheckpointInvalid);
    }
    let keyless = vec![chunk(0, None, Some(1)), chunk(1, Some(1), None)];
    assert!(Plan::new(keyless, false).is_err());
}

#[test]
fn the_last_number_takes_the_rest() {
    let done = vec![chunk(LAST_NUMBER - 1, Some(5), Some(9))];
    let mut plan = Plan::new(done, true).unwrap();
    let table = Table((0..100).collect());
    let chunks: Vec<_> = std::iter::from_fn(|| take(&mut plan, &table, 3)).collect();
    assert_eq!(chunks.last(), Some(&chunk(LAST_NUMBER, Some(9), None)));
    assert_eq!(chunks.first(), Some(&chunk(0, None, Some(2))));
}

#[test]
fn a_copy_resumes_only_where_a_replay_converges() {
    let facts = Facts { begun: true, keyed: true, same_definition: true, no_ddl: true };
    assert_eq!(facts.start(), Start::Resume);
    for changed in [
        Facts { begun: false, ..facts },
        Facts { keyed: false, ..facts },
        Facts { same_definition: false, ..facts },
        Facts { no_ddl: false, ..facts },
    ] {
        assert_eq!(changed.start(), Start::Anew, "{changed:?}");
    }
}

/// What happens next in a simulated copy.
#[derive(Debug, Clone)]
enum Event {
    /// A worker takes a chunk.
    Take,
    /// The worker with this index (modulo the busy ones) commits its chunk.
    Done(usize),
    /// It loses its reader and gives its chunk back.
    Lost(usize),
    /// The process dies; meanwhile rows have come and gone.
    Crash(BTreeSet<Key>),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => Just(Event::Take),
        5 => any::<usize>().prop_map(Event::Done),
        1 => any::<usize>().prop_map(Event::Lost),
        1 => rows().prop_map(Event::Crash),
    ]
}

fn rows() -> impl Strategy<Value = BTreeSet<Key>> {
    proptest::collection::btree_set(-40i64..40, 0..60)
}

fn pick<T>(of: &mut Vec<T>, index: usize) -> Option<T> {
    (!of.is_empty()).then(|| of.swap_remove(index % of.len()))
}

proptest! {
    /// Whatever is lost or crashes on the way, in the end every key that could exist is in exactly
    /// one chunk done, and numbers are in key order.
    #[test]
    fn chunks_done_partition_the_key_range(
        first in rows(),
        chunk_rows in 1usize..9,
        events in proptest::collection::vec(event(), 0..80),
    ) {
        let mut table = Table(first);
        let mut plan = Plan::new(Vec::new(), true).unwrap();
        let (mut busy, mut done) = (Vec::new(), Vec::<Chunk<Key>>::new());
        for event in events {
            match event {
                Event::Take => busy.extend(take(&mut plan, &table, chunk_rows)),
                Event::Done(index) => done.extend(pick(&mut busy, index)),
                Event::Lost(index) => {
                    if let Some(chunk) = pick(&mut busy, index) {
                        plan.give_back(chunk);
                    }
                }
                Event::Crash(rows) => {
                    busy.clear();
                    table = Table(rows);
                    plan = Plan::new(done.clone(), true).unwrap();
                }
            }
        }
        done.append(&mut busy);
        while let Some(chunk) = take(&mut plan, &table, chunk_rows) {
            done.push(chunk);
        }
        done.sort_by_key(|chunk| chunk.number);
        for key in -45..45 {
            let holding: Vec<u32> =
                done.iter().filter(|chunk| holds(&chunk.range, key)).map(|chunk| chunk.number).collect();
            prop_assert_eq!(holding.len(), 1, "key {} is in chunks {:?}", key, holding);
        }
        for pair in done.windows(2) {
            prop_assert!(pair[0].number < pair[1].number);
            prop_assert_eq!(pair[0].range.through, pair[1].range.after);
        }
        let mut plan = Plan::new(done, true).unwrap();
        prop_assert!(plan.is_finished());
        prop_assert_eq!(plan.advance(), Next::Finished);
    }

    /// Without interruption no chunk but the last is longer or shorter than asked for.
    #[test]
    fn an_undisturbed_copy_has_chunks_of_equal_length(table in rows(), chunk_rows in 1usize..9) {
        let table = Table(table);
        let mut plan = Plan::new(Vec::new(), true).unwrap();
        let lengths: Vec<usize> = std::iter::from_fn(|| take(&mut plan, &table, chunk_rows))
            .map(|chunk| table.within(&chunk.range).count())
            .collect();
        let (last, others) = lengths.split_last().unwrap();
        prop_assert!(others.iter().all(|&length| length == chunk_rows));
        prop_assert!(*last < chunk_rows);
    }
}
