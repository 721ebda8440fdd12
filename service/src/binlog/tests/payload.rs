use bytes::Bytes;

use super::fixtures;
use crate::binlog::event::{Compression, Event, PayloadEvent, RawEvent, RowsEvent, event_type};
use crate::binlog::payload::{PayloadError, PayloadReader};
use crate::fold::unit::RowsKind;
use crate::halt::{Halt, Reason};

fn payloads() -> Vec<PayloadEvent> {
    let events = fixtures::parsed("payload").into_iter();
    events
        .filter_map(|event| if let Event::TransactionPayload(it) = event { Some(it) } else { None })
        .collect()
}

fn read_all(payload: &PayloadEvent, max_event_bytes: usize) -> Result<Vec<RawEvent>, PayloadError> {
    let mut reader = PayloadReader::new(payload, max_event_bytes)?;
    let mut events = Vec::new();
    while let Some(event) = reader.next_event()? {
        events.push(event);
    }
    Ok(events)
}

/// Bytes of one inner event.
fn inner(event_type: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 19];
    bytes[4] = event_type;
    bytes[9..13].copy_from_slice(&(19 + body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn compressed(events: &[u8], uncompressed_size: usize) -> PayloadEvent {
    let payload = zstd::encode_all(events, 3).unwrap().into();
    PayloadEvent { compression: Compression::Zstd, uncompressed_size: uncompressed_size as u64, payload }
}

#[test]
fn captured_transactions_inflate_event_by_event() {
    let [plain, xa] = &payloads()[..] else { panic!("not two payloads") };
    assert_eq!(plain.compression, Compression::Zstd);
    assert!(plain.uncompressed_size > 20 * plain.payload.len() as u64);
    let events = read_all(plain, usize::MAX).unwrap();
    let types: Vec<_> = events.iter().map(|event| event.header.event_type).collect();
    assert_eq!((types[0], *types.last().unwrap()), (event_type::QUERY, event_type::XID));
    let total: u64 = events.iter().map(|event| u64::from(event.header.event_length)).sum();
    assert_eq!(total, plain.uncompressed_size);
    assert!(events.iter().all(|event| event.header.log_pos == 0));
    let rows: Vec<RowsEvent<'_>> = events
        .iter()
        .filter_map(
            |event| if let Event::Rows(rows) = Event::parse(event).unwrap() { Some(rows) } else { None },
        )
        .collect();
    assert!(rows.len() > 20 && rows[0].kind == RowsKind::Write);
    assert!(
        [RowsKind::Update, RowsKind::Delete].iter().all(|kind| rows.iter().any(|rows| rows.kind == *kind))
    );
    let types: Vec<_> =
        read_all(xa, usize::MAX).unwrap().iter().map(|event| event.header.event_type).collect();
    assert_eq!(types.last(), Some(&event_type::XA_PREPARE));
}

#[test]
fn uncompressed_payloads_are_read_too() {
    let bytes = [inner(event_type::QUERY, b"abc"), inner(event_type::XID, b"")].concat();
    let uncompressed_size = bytes.len() as u64;
    let payload = PayloadEvent { compression: Compression::None, uncompressed_size, payload: bytes.into() };
    let events = read_all(&payload, 1000).unwrap();
    assert_eq!(events.iter().map(|event| event.body.len()).collect::<Vec<_>>(), [3, 0]);
}

#[test]
fn every_truncation_is_noticed() {
    let whole = &payloads()[1];
    for length in 0..whole.payload.len() {
        let cut = PayloadEvent { payload: whole.payload.slice(..length), ..whole.clone() };
        assert!(matches!(read_all(&cut, usize::MAX), Err(PayloadError::Invalid(_))), "{length} bytes");
    }
}

#[test]
fn trailing_bytes_are_noticed() {
    let whole = &payloads()[1];
    let longer: Bytes = [&whole.payload[..], b"x"].concat().into();
    let longer = PayloadEvent { payload: longer, ..whole.clone() };
    assert!(matches!(read_all(&longer, usize::MAX), Err(PayloadError::Invalid(_))));
}

#[test]
fn the_size_in_the_head_must_be_right() {
    let event = inner(event_type::XID, b"12345678");
    assert_eq!(read_all(&compressed(&event, event.len()), 1000).unwrap().len(), 1);
    for size in [0, 1, event.len() - 1, event.len() + 1, event.len() + 100] {
        let result = read_all(&compressed(&event, size), 1000);
        assert!(matches!(result, Err(PayloadError::Invalid(_))), "size {size}");
    }
}

#[test]
fn an_inner_length_shorter_than_a_header_is_refused() {
    let mut event = inner(event_type::XID, b"12345678");
    event[9] = 18;
    assert!(matches!(read_all(&compressed(&event, event.len()), 1000), Err(PayloadError::Invalid(_))));
}

#[test]
fn a_claimed_length_is_not_allocated() {
    let mut event = inner(event_type::XID, b"12345678");
    event[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
    let claims_much = compressed(&event, u32::MAX as usize);
    assert_eq!(
        read_all(&claims_much, 1 << 20),
        Err(PayloadError::EventTooLarge { length: u32::MAX as usize })
    );
    assert!(matches!(read_all(&claims_much, usize::MAX), Err(PayloadError::Invalid(_))));
}

#[test]
fn errors_become_the_halts_of_the_catalogue() {
    let error = PayloadError::EventTooLarge { length: 5 };
    assert_eq!(Halt::from(error).reason, Reason::BufferExhausted);
    let garbage = PayloadEvent { payload: Bytes::from_static(b"not zstd"), ..compressed(b"", 10) };
    let error = read_all(&garbage, 1000).unwrap_err();
    assert_eq!(Halt::from(error).reason, Reason::CompressedPayloadInvalid);
}

/// A TRANSACTION_PAYLOAD body of the given head fields.
fn head(fields: &[(u8, &[u8])], payload: &[u8]) -> Option<Event<'static>> {
    let mut body = Vec::new();
    for (kind, value) in fields {
        body.extend([*kind, value.len() as u8]);
        body.extend(*value);
    }
    body.push(0);
    body.extend(payload);
    let header =
        crate::binlog::event::open_inner(inner(event_type::TRANSACTION_PAYLOAD, &body).into()).unwrap();
    Event::parse(Box::leak(Box::new(header))).ok()
}

#[test]
fn the_head_skips_unknown_fields_and_needs_the_known_ones() {
    let ok = head(&[(2, &[0]), (9, b"new"), (3, &[200]), (1, &[3])], b"abc");
    let Some(Event::TransactionPayload(payload)) = ok else { panic!("refused") };
    assert_eq!((payload.uncompressed_size, &payload.payload[..]), (200, &b"abc"[..]));
    assert_eq!(head(&[(2, &[0]), (3, &[200]), (1, &[4])], b"abc"), None, "another size than its own");
    assert_eq!(head(&[(2, &[0]), (3, &[200])], b"abc"), None, "no size");
    assert_eq!(head(&[(2, &[0]), (1, &[3])], b"abc"), None, "no inflated size");
    assert_eq!(head(&[(3, &[200]), (1, &[3])], b"abc"), None, "no algorithm");
    assert_eq!(head(&[(2, &[1]), (3, &[200]), (1, &[3])], b"abc"), None, "unknown algorithm");
    let none = head(&[(2, &[252, 255, 0]), (1, &[3])], b"abc");
    let Some(Event::TransactionPayload(payload)) = none else { panic!("refused") };
    assert_eq!((payload.compression, payload.uncompressed_size), (Compression::None, 3));
}
