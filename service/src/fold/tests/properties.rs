//! Damage anywhere in a stream never lets a part of a transaction out.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::builder::*;
use super::*;

/// One committed group in some shape; `seed` varies its content.
fn arbitrary_group(gno: u64, shape: u8, seed: u32, rows: usize) -> Vec<RawEvent> {
    let mut items = Vec::new();
    for row in 0..rows {
        let value = seed.wrapping_add(row as u32);
        let table = if value.is_multiple_of(3) { "skipped" } else { "t" };
        let id = u64::from(value % 5);
        items.extend([table_map(id, table), write_rows(id, 0, value), write_rows(id, STMT_END, value + 1)]);
    }
    let framed = |first: Part, last: &[Part]| [&[first], &items[..], last].concat();
    match shape {
        0 => group(gno, ROWS_ONLY, &framed(begin(), &[xid()])),
        1 => group(gno, ROWS_ONLY, &framed(begin(), &[query("SAVEPOINT `s`"), query("COMMIT")])),
        2 => {
            let end = [query("XA END X'67',X'',1"), xa_prepare(true)];
            group(gno, ROWS_ONLY, &framed(query("XA START X'67',X'',1"), &end))
        }
        3 => group(gno, ROWS_ONLY, &[payload(&framed(begin(), &[xid()]))]),
        4 => group(gno, STATEMENTS, &[query("alter table t add x int")]),
        5 => group(gno, STATEMENTS, &[query("alter table other.t add x int")]),
        6 => group(gno, STATEMENTS, &[begin(), query("COMMIT")]),
        _ => [
            group(gno, ROWS_ONLY, &framed(begin(), &[xid()])),
            vec![rotate().raw(), format_description().raw()],
        ]
        .concat(),
    }
}

fn streams() -> impl Strategy<Value = Vec<RawEvent>> {
    prop::collection::vec((0u8..8, any::<u32>(), 0usize..4), 1..6).prop_map(|groups| {
        let numbered = groups.into_iter().zip(1..);
        numbered.flat_map(|((shape, seed, rows), gno)| arbitrary_group(gno, shape, seed >> 1, rows)).collect()
    })
}

/// What a unit brings, apart from the order of its changes.
fn content(unit: &Unit) -> Vec<Bytes> {
    match unit {
        Unit::Transaction(transaction) => {
            let mut images: Vec<_> = changes(transaction).into_iter().map(|change| change.images).collect();
            images.sort();
            images
        }
        Unit::Prepared(_) => Vec::new(),
        Unit::SchemaChange(change) => vec![Bytes::from(change.statement.kind.name())],
    }
}

fn by_gtid(units: &[Unit]) -> BTreeMap<Gtid, Vec<Bytes>> {
    units.iter().map(|unit| (unit.gtid().clone(), content(unit))).collect()
}

/// Every unit of the damaged stream is a unit of the whole one, once, and the position is made of
/// exactly these.
fn check(damaged: Vec<RawEvent>, whole: &[RawEvent]) -> Result<(), TestCaseError> {
    let (expected, _, halt) = run(whole.to_vec());
    prop_assert_eq!(halt, None);
    let expected = by_gtid(&expected);
    let (units, position, _) = run(damaged);
    let got = by_gtid(&units);
    prop_assert_eq!(got.len(), units.len());
    prop_assert_eq!(position, units.iter().map(Unit::gtid).collect());
    for (gtid, content) in &got {
        prop_assert_eq!(expected.get(gtid), Some(content));
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_stream_cut_anywhere_yields_its_whole_groups(stream in streams(), cut in any::<prop::sample::Index>()) {
        let cut = cut.index(stream.len() + 1);
        let kept = stream[..cut].to_vec();
        let (units, _, halt) = run(kept.clone());
        prop_assert_eq!(halt, None);
        // A group is whole once the cut is behind its last event, that is before the next group's
        // first: the number of units grows with the cut by one a group and never shrinks.
        let (more, _, _) = run(stream[..(cut + 1).min(stream.len())].to_vec());
        prop_assert!(more.len() == units.len() || more.len() == units.len() + 1);
        check(kept, &stream)?;
    }

    #[test]
    fn lost_events_never_yield_a_partial_unit(
        stream in streams(),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let mut damaged = stream.clone();
        for index in lost {
            if !damaged.is_empty() {
                damaged.remove(index.index(damaged.len()));
            }
        }
        check(damaged, &stream)?;
    }

    #[test]
    fn repeated_events_never_yield_a_wrong_unit(
        stream in streams(),
        repeated in any::<prop::sample::Index>(),
    ) {
        let mut damaged = stream.clone();
        let repeated = repeated.index(stream.len());
        damaged.insert(repeated, stream[repeated].clone());
        check(damaged, &stream)?;
    }

    #[test]
    fn swapped_neighbours_never_yield_a_partial_unit(
        stream in streams(),
        first in any::<prop::sample::Index>(),
    ) {
        let mut damaged = stream.clone();
        let first = first.index(stream.len());
        damaged.swap(first, (first + 1).min(stream.len() - 1));
        check(damaged, &stream)?;
    }

    #[test]
    fn a_cut_stream_resumes_without_loss_or_repetition(
        stream in streams(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (expected, whole_position, _) = run(stream.clone());
        let (mut units, position, _) = run(stream[..cut.index(stream.len() + 1)].to_vec());
        let (rest, position, halt) = Fold::new(position, None, policy()).run(stream);
        prop_assert_eq!(halt, None);
        prop_assert_eq!(position, whole_position);
        units.extend(rest);
        prop_assert_eq!(units.len(), expected.len());
        prop_assert_eq!(by_gtid(&units), by_gtid(&expected));
    }
}
