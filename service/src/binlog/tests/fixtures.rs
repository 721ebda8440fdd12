//! Captured events, opened.

use std::path::PathBuf;

use bytes::Bytes;

use crate::binlog::event::{ChecksumAlgorithm, Envelope, Event, RawEvent};

fn root() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "testdata", "binlog", "mysql-9.7"].iter().collect()
}

/// Names of all scenarios.
pub(super) fn scenarios() -> Vec<String> {
    let folders = std::fs::read_dir(root()).unwrap();
    let mut names: Vec<_> = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

/// The events of a scenario in order, as bytes.
pub(super) fn bytes(scenario: &str) -> Vec<Bytes> {
    let files = std::fs::read_dir(root().join(scenario)).unwrap();
    let mut paths: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
    paths.sort();
    assert!(!paths.is_empty(), "scenario {scenario} has no events");
    paths.iter().map(|path| std::fs::read(path).unwrap().into()).collect()
}

pub(super) fn raw(scenario: &str) -> Vec<RawEvent> {
    let mut envelope = Envelope::new(ChecksumAlgorithm::None);
    bytes(scenario).into_iter().map(|event| envelope.open(event).unwrap()).collect()
}

/// What they are parsed from lives as long as the tests.
pub(super) fn parsed(scenario: &str) -> Vec<Event<'static>> {
    raw(scenario).leak().iter().map(|event| Event::parse(event).unwrap()).collect()
}

/// What the server's SELECTs printed, one row a line; none if the scenario has no SELECT.
pub(super) fn expected(scenario: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(scenario).join("expected.tsv")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
