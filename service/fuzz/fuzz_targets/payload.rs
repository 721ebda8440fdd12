#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tidegate::binlog::event::{Event, EventHeader, RawEvent, event_type};
use tidegate::binlog::payload::PayloadReader;

/// Bound on one inflated event.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Events read of one payload at most, for speed.
const EVENTS_MAX: usize = 1000;

fuzz_target!(|input: &[u8]| {
    let header = EventHeader {
        timestamp: 0,
        event_type: event_type::TRANSACTION_PAYLOAD,
        server_id: 0,
        event_length: 0,
        log_pos: 0,
        flags: 0,
    };
    let raw = RawEvent { header, body: Bytes::copy_from_slice(input) };
    let Ok(Event::TransactionPayload(payload)) = Event::parse(&raw) else { return };
    let Ok(mut reader) = PayloadReader::new(&payload, EVENT_BYTES_MAX) else { return };
    for _ in 0..EVENTS_MAX {
        let Ok(Some(inner)) = reader.next_event() else { return };
        assert!(inner.body.len() <= EVENT_BYTES_MAX);
        let _parsed_or_error = Event::parse(&inner);
    }
});
