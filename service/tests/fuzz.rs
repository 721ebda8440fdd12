//! The fuzz targets on a stable compiler: over their seeds, and over mutations of these that are the same
//! in every run. `TIDEGATE_FUZZ_ROUNDS` gives the mutations of each seed.

#[path = "../fuzz/src/targets.rs"]
#[expect(unreachable_pub, reason = "they are a library's for the fuzzer")]
mod targets;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tidegate::binlog::DecodeError;
use tidegate::binlog::cell::Cell;
use tidegate::binlog::event::{ChecksumAlgorithm, Envelope, Event, RawEvent, event_type};
use tidegate::binlog::row_image::RowReader;
use tidegate::binlog::table_map::TableMap;

const HEADER_LENGTH: usize = 19;
const CHECKSUM_LENGTH: usize = 4;

/// Longest seed that is mutated: the bytes that decide come first, and long ones take long.
const SEED_LENGTH_MAX: usize = 20_000;

fn rounds() -> u64 {
    std::env::var("TIDEGATE_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(300)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn service() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let read = |path: &PathBuf| fs::read(path).expect("a seed");
    files(&service().join("fuzz/seeds").join(target)).iter().map(read).collect()
}

/// What a server wrote, as files of one event each.
fn captured() -> Vec<Vec<u8>> {
    let scenarios = files(&service().join("../testdata/binlog/mysql-9.7"));
    let events = scenarios.iter().flat_map(|scenario| files(scenario));
    let events = events.filter(|path| path.extension().is_some_and(|extension| extension == "bin"));
    events.map(|path| fs::read(path).expect("an event")).collect()
}

/// Those with a checksum, opened.
fn opened() -> Vec<RawEvent> {
    let mut envelope = Envelope::new(ChecksumAlgorithm::Crc32);
    captured().into_iter().filter_map(|event| envelope.open(Bytes::from(event)).ok()).collect()
}

fn bodies(code: u8) -> Vec<Vec<u8>> {
    opened().iter().filter(|raw| raw.header.event_type == code).map(|raw| raw.body.to_vec()).collect()
}

/// Events without their checksum, as they are in a payload.
fn inner_events() -> Vec<Vec<u8>> {
    let mut events = captured();
    for event in &mut events {
        event.truncate(event.len() - CHECKSUM_LENGTH);
        let length = u32::try_from(event.len()).expect("a short event").to_le_bytes();
        event[9..13].copy_from_slice(&length);
        assert!(event.len() >= HEADER_LENGTH);
    }
    events
}

/// Table maps with the images of the rows that follow them.
fn mapped_images() -> Vec<(Vec<u8>, Bytes)> {
    let mut last = None;
    let mut pairs = Vec::new();
    for raw in opened() {
        match Event::parse(&raw) {
            Ok(Event::TableMap(event)) => last = Some((event.table_id, event.body.to_vec())),
            Ok(Event::Rows(event)) if event.full_images => {
                let map = last.iter().find(|(id, _)| *id == event.table_id);
                pairs.extend(map.map(|(_, body)| (body.clone(), raw.body.slice_ref(event.images))));
            }
            _ => {}
        }
    }
    pairs
}

fn row_images() -> Vec<Vec<u8>> {
    let input = |(map, images): (Vec<u8>, Bytes)| {
        let length = u16::try_from(map.len()).expect("a short map").to_le_bytes();
        [&length[..], &map, &images].concat()
    };
    mapped_images().into_iter().map(input).collect()
}

/// The documents in the rows.
fn documents() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (map, images) in mapped_images() {
        // Some were written without names.
        let Ok(map) = TableMap::parse(&Bytes::from(map)) else { continue };
        let reader = RowReader::new(&map);
        let mut rest = &images[..];
        while !rest.is_empty() {
            let row = reader.read_row(&mut rest, |_, cell| {
                if let Cell::JsonBinary(document) = cell {
                    found.push(document.to_vec());
                }
                Ok::<_, DecodeError>(())
            });
            row.expect("a captured row");
        }
    }
    found
}

/// Changes some bytes, cuts, repeats or inserts some, by a generator that starts from the same number.
struct Mutations(u64);

impl Mutations {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }

    fn of(&mut self, seed: &[u8]) -> Vec<u8> {
        const TELLING: [u8; 10] = [0, 1, 0x7f, 0x80, 0xfb, 0xfc, 0xfe, 0xff, b'\'', b'`'];
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = TELLING[self.below(TELLING.len())],
                2 => bytes.truncate(at),
                3 => {
                    let end = (at + self.below(9)).min(bytes.len());
                    bytes.drain(at.min(end)..end);
                }
                4 => {
                    let part: Vec<u8> = bytes.iter().skip(at).take(self.below(17)).copied().collect();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, part);
                }
                _ => bytes.insert(at.min(bytes.len()), TELLING[self.below(TELLING.len())]),
            }
        }
        bytes
    }
}

fn fuzz(target: fn(&[u8]), seeds: Vec<Vec<u8>>) {
    assert!(!seeds.is_empty(), "no seeds");
    let mut mutations = Mutations(1);
    for seed in seeds.into_iter().filter(|seed| seed.len() <= SEED_LENGTH_MAX) {
        target(&seed);
        for _ in 0..rounds() {
            let input = mutations.of(&seed);
            assert!(catch_unwind(|| target(&input)).is_ok(), "failing input: {}", hex(&input));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn events() {
    fuzz(targets::event, inner_events());
}

#[test]
fn table_maps() {
    fuzz(targets::table_map, bodies(event_type::TABLE_MAP));
}

#[test]
fn row_images_of_their_maps() {
    fuzz(targets::row_image, row_images());
}

#[test]
fn rows_of_result_sets() {
    fuzz(targets::result_row, seeds("result_row"));
}

#[test]
fn json_documents() {
    let mut documents = documents();
    documents.dedup();
    fuzz(targets::json, documents);
}

#[test]
fn payloads() {
    fuzz(targets::payload, bodies(event_type::TRANSACTION_PAYLOAD));
}

#[test]
fn gtid_sets() {
    fuzz(targets::gtid_set, seeds("gtid_set"));
}

#[test]
fn xids() {
    fuzz(targets::xid, seeds("xid"));
}

#[test]
fn statements() {
    /// STRICT_TRANS_TABLES, utf8mb4.
    const FLAGS: [u8; 2] = [8, 0];
    let text = |raw: &RawEvent| match Event::parse(raw) {
        Ok(Event::Query(query)) => Some([&FLAGS[..], query.statement].concat()),
        _ => None,
    };
    let captured = opened().iter().filter_map(text).collect();
    fuzz(targets::statement, [seeds("statement"), captured].concat());
}
