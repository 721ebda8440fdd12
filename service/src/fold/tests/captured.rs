//! What servers wrote, folded: `units.txt` beside the events of each scenario says what comes out.
//!
//! `UPDATE_UNITS=1` writes these files anew; they are to be read before they are kept.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use bytes::Bytes;

use super::*;
use crate::binlog::event::{ChecksumAlgorithm, Envelope};

fn scenarios() -> Vec<PathBuf> {
    let root: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "testdata", "binlog", "mysql-9.7"].iter().collect();
    let mut folders: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

fn events(scenario: &PathBuf) -> Vec<RawEvent> {
    let mut paths: Vec<_> = fs::read_dir(scenario).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
    paths.sort();
    let mut envelope = Envelope::new(ChecksumAlgorithm::None);
    paths.iter().map(|path| envelope.open(Bytes::from(fs::read(path).unwrap())).unwrap()).collect()
}

/// Replicates every table of the scenarios' databases, and follows XA.
fn fold(start: GtidSet) -> Fold {
    let filter = Filter::new(&["s.*".to_owned(), "s2.*".to_owned()], &[]).unwrap();
    let xa = XaPolicy::Track(PoolBounds { transactions: 10, bytes: 1 << 20 });
    let cascades = Cascades { exist: true, logged: true };
    let policy =
        FoldPolicy { filter: Arc::new(filter), xa, cascades, max_buffer_bytes: 64 << 20, ..policy() };
    Fold::new(start, None, policy)
}

fn line(unit: &Unit) -> String {
    match unit {
        Unit::Prepared(_) => "prepared".to_owned(),
        Unit::SchemaChange(change) => {
            let tables: Vec<_> =
                change.statement.tables.iter().map(|t| format!("{}.{}", t.database, t.table)).collect();
            let names = [tables, change.statement.databases.clone()].concat().join(" ");
            format!("{} {names}", change.statement.kind.name())
        }
        Unit::Transaction(transaction) => {
            let mut text = "transaction".to_owned();
            if let Some(resolution) = &transaction.resolves {
                let of = if resolution.prepare.is_some() { "prepared" } else { "unknown" };
                write!(text, " of what was {of}").unwrap();
            }
            for change in &changes(transaction) {
                let kind = match change.kind {
                    RowsKind::Write => "write",
                    RowsKind::Update => "update",
                    RowsKind::Delete => "delete",
                };
                write!(
                    text,
                    "; {kind} {}.{} {} bytes",
                    change.map.database,
                    change.map.table,
                    change.images.len()
                )
                .unwrap();
            }
            text
        }
    }
}

/// One line a unit or halt. Behind a halt a new fold goes on with the next group.
fn told(events: &[RawEvent]) -> String {
    let mut text = String::new();
    let (mut fold, mut passing) = (fold(GtidSet::new()), false);
    for event in events {
        let begins = matches!(event.header.event_type, t::GTID | t::GTID_TAGGED);
        if passing && !begins {
            continue;
        }
        if std::mem::take(&mut passing) {
            fold = self::fold(GtidSet::new());
        }
        match fold.step(event.clone()) {
            Ok(Step::Unit(unit)) => writeln!(text, "{}", line(&unit)).unwrap(),
            Ok(_) => {}
            Err(halt) => {
                passing = true;
                writeln!(text, "halt {}", halt.reason).unwrap();
            }
        }
    }
    text
}

#[test]
fn events_of_a_server_fold_to_the_units_beside_them() {
    for scenario in scenarios() {
        let (path, told) = (scenario.join("units.txt"), told(&events(&scenario)));
        if std::env::var_os("UPDATE_UNITS").is_some() {
            fs::write(&path, &told).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(told, expected, "{}", scenario.display());
    }
}

/// Safety before all: a stream that is cut anywhere gives the first of the units, whole, and resumed
/// from there the others; one that lacks an event, or has it twice, gives no unit that is not there.
#[test]
fn a_cut_or_damaged_stream_of_a_server_gives_nothing_else() {
    for scenario in scenarios() {
        let events = events(&scenario);
        let (whole, _, halt) = fold(GtidSet::new()).run(events.clone());
        let lines: Vec<String> = whole.iter().map(line).collect();
        let step = events.len().div_ceil(40);
        for at in (0..events.len()).step_by(step) {
            let (first, position, cut) = fold(GtidSet::new()).run(events[..at].to_vec());
            let told: Vec<String> = first.iter().map(line).collect();
            assert_eq!(told, lines[..told.len()], "{}, cut at {at}", scenario.display());
            if cut.is_none() {
                let prepares = first.iter().filter(|unit| matches!(unit, Unit::Prepared(_))).count();
                let (rest, _, after) = fold(position).run(events.clone());
                assert_eq!(after, halt);
                assert!(rest.len() >= lines.len() - told.len(), "{}, cut at {at}", scenario.display());
                assert!(rest.len() <= lines.len() - told.len() + prepares, "{}", scenario.display());
            }
            let mut lacking = events.clone();
            lacking.remove(at);
            let mut doubled = events.clone();
            doubled.insert(at, events[at].clone());
            for damaged in [lacking, doubled] {
                let (units, ..) = fold(GtidSet::new()).run(damaged);
                assert!(
                    units.iter().all(|unit| lines.contains(&line(unit))),
                    "{}, at {at}",
                    scenario.display()
                );
            }
        }
    }
}
