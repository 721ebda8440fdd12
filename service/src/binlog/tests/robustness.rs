//! Damaged and made-up bytes: an error or a value, never a panic.

use bytes::Bytes;
use proptest::prelude::*;
use std::sync::LazyLock;

use super::fixtures;
use crate::binlog::DecodeError;
use crate::binlog::cell::Cell;
use crate::binlog::event::{Event, EventHeader, HEADER_LENGTH, RawEvent, event_type};
use crate::binlog::json;
use crate::binlog::payload::PayloadReader;
use crate::binlog::row_image::RowReader;
use crate::binlog::table_map::TableMap;

/// Inflated events that a test reads of one payload at most.
const PAYLOAD_EVENTS_MAX: usize = 100;

static EVENTS: LazyLock<Vec<RawEvent>> = LazyLock::new(|| {
    let scenarios = fixtures::scenarios();
    scenarios
        .iter()
        .flat_map(|scenario| fixtures::raw(scenario))
        .filter(|raw| raw.body.len() < 20_000)
        .collect()
});

/// Captured pairs of a table map and a rows event that it maps.
static ROWS: LazyLock<Vec<(TableMap, Bytes)>> = LazyLock::new(|| {
    let mut pairs = Vec::new();
    let mut last = None;
    for raw in EVENTS.iter() {
        match Event::parse(raw) {
            Ok(Event::TableMap(event)) => last = TableMap::parse(event.body).ok(),
            Ok(Event::Rows(event)) if event.full_images => {
                if let Some(map) = last.as_ref().filter(|map| map.table_id == event.table_id) {
                    pairs.push((map.clone(), raw.body.slice_ref(event.images)));
                }
            }
            _ => {}
        }
    }
    pairs
});

/// Parses an event and whatever can be opened in it.
fn digest(raw: &RawEvent) {
    match Event::parse(raw) {
        Ok(Event::TableMap(event)) => {
            let names = TableMap::names(event.body).is_ok();
            if let Ok(map) = TableMap::parse(event.body) {
                assert!(names);
                assert!(map.columns.len() <= event.body.len());
                assert!(map.key.iter().all(|index| *index < map.columns.len()));
                assert_eq!(RowReader::new(&map).columns(), map.columns.len());
            }
        }
        Ok(Event::TransactionPayload(event)) => {
            if let Ok(mut reader) = PayloadReader::new(&event, 1 << 20) {
                for _ in 0..PAYLOAD_EVENTS_MAX {
                    match reader.next_event() {
                        Ok(Some(inner)) if inner.header.event_type != event_type::TRANSACTION_PAYLOAD => {
                            digest(&inner)
                        }
                        _ => break,
                    }
                }
            }
        }
        Ok(_) | Err(_) => {}
    }
}

/// Reads images up to the first error; returns the rows read.
fn read_images(map: &TableMap, mut images: &[u8]) -> usize {
    let reader = RowReader::new(map);
    let mut rows = 0;
    while !images.is_empty() {
        let mut text = Vec::new();
        let row = reader.read_row(&mut images, |index, cell| {
            assert!(index < map.columns.len());
            if let Cell::JsonBinary(document) = cell {
                json::to_text(document, &mut text)?;
            }
            Ok::<_, DecodeError>(())
        });
        if row.is_err() {
            break;
        }
        rows += 1;
    }
    rows
}

#[derive(Debug, Clone)]
enum Damage {
    Flip { at: prop::sample::Index, bit: u8 },
    Set { at: prop::sample::Index, byte: u8 },
    Cut { at: prop::sample::Index },
    Insert { at: prop::sample::Index, bytes: Vec<u8> },
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match self {
            Self::Flip { at, bit } => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Self::Set { at, byte } => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Self::Cut { at } => bytes.truncate(at.index(bytes.len())),
            Self::Insert { at, bytes: inserted } => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, inserted.iter().copied());
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let index = any::<prop::sample::Index>;
    let extreme =
        prop_oneof![Just(0), Just(0x7f), Just(0x80), Just(0xfc), Just(0xfe), Just(0xff), any::<u8>()];
    prop::collection::vec(
        prop_oneof![
            4 => (index(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip { at, bit }),
            4 => (index(), extreme).prop_map(|(at, byte)| Damage::Set { at, byte }),
            1 => index().prop_map(|at| Damage::Cut { at }),
            1 => (index(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Damage::Insert { at, bytes }),
        ],
        1..5,
    )
}

fn raw(event_type: u8, flags: u16, body: Vec<u8>) -> RawEvent {
    let header = EventHeader {
        timestamp: 0,
        event_type,
        server_id: 1,
        event_length: (HEADER_LENGTH + body.len()) as u32,
        log_pos: 0,
        flags,
    };
    RawEvent { header, body: body.into() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn damaged_events(which: prop::sample::Index, damage in damage()) {
        let event = which.get(&EVENTS);
        let mut body = event.body.to_vec();
        damage.iter().for_each(|damage| damage.apply(&mut body));
        digest(&raw(event.header.event_type, event.header.flags, body));
    }

    #[test]
    fn damaged_images(which: prop::sample::Index, damage in damage()) {
        let (map, images) = which.get(&ROWS);
        let mut images = images.to_vec();
        damage.iter().for_each(|damage| damage.apply(&mut images));
        read_images(map, &images);
    }

    #[test]
    fn images_of_another_table(map: prop::sample::Index, images: prop::sample::Index) {
        read_images(&map.get(&ROWS).0, &images.get(&ROWS).1);
    }

    #[test]
    fn arbitrary_bodies(event_type: u8, flags: u16, body in prop::collection::vec(any::<u8>(), 0..200)) {
        digest(&raw(event_type, flags, body));
    }

    #[test]
    fn arbitrary_envelopes(event in prop::collection::vec(any::<u8>(), 0..80), crc: bool) {
        use crate::binlog::event::{ChecksumAlgorithm, Envelope, open_inner};
        let algorithm = if crc { ChecksumAlgorithm::Crc32 } else { ChecksumAlgorithm::None };
        let event = Bytes::from(event);
        let opened = Envelope::new(algorithm).open(event.clone());
        prop_assert!(!crc || opened.is_err());
        let _opened_or_not = open_inner(event);
    }
}

/// Every prefix of a captured image is refused where the image ends within it.
#[test]
fn every_truncated_image_is_noticed() {
    for (map, images) in ROWS.iter() {
        let whole = read_images(map, images);
        assert!(whole > 0);
        let step = images.len().div_ceil(500);
        for length in (0..images.len()).step_by(step) {
            let rows = read_images(map, &images[..length]);
            assert!(rows < whole, "{length} bytes of {}", map.table);
        }
    }
}
