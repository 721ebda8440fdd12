//! Builds binlog events byte by byte, as a source sends them.

use bytes::Bytes;

use crate::binlog::event::{ChecksumAlgorithm, Envelope, RawEvent, event_type as t};
use crate::gtid::{Gtid, Tag, Uuid};

pub(super) const STMT_END: u16 = 0x1;
/// GTID flag: may hold statements.
pub(super) const STATEMENTS: u8 = 1;
pub(super) const ROWS_ONLY: u8 = 0;

const IGNORABLE_FLAG: u16 = 0x80;
const THREAD_SPECIFIC_FLAG: u16 = 0x04;
const HEADER_LENGTH: u32 = 19;
const CHECKSUM_LENGTH: u32 = 4;

/// An event without its envelope.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) event_type: u8,
    pub(super) flags: u16,
    pub(super) body: Vec<u8>,
}

impl Part {
    fn new(event_type: u8, body: Vec<u8>) -> Self {
        Self { event_type, flags: 0, body }
    }

    fn encode(&self, checksum: bool) -> Vec<u8> {
        let mut event = Vec::new();
        event.extend(1_700_000_000u32.to_le_bytes());
        event.push(self.event_type);
        event.extend(1u32.to_le_bytes());
        event.extend(self.length(checksum).to_le_bytes());
        event.extend(0u32.to_le_bytes());
        event.extend(self.flags.to_le_bytes());
        event.extend(&self.body);
        if checksum {
            event.extend(crc32fast::hash(&event).to_le_bytes());
        }
        event
    }

    fn length(&self, checksum: bool) -> u32 {
        HEADER_LENGTH + self.body.len() as u32 + if checksum { CHECKSUM_LENGTH } else { 0 }
    }

    /// The event as the stream's envelope opens it.
    pub(super) fn raw(&self) -> RawEvent {
        Envelope::new(ChecksumAlgorithm::Crc32).open(Bytes::from(self.encode(true))).unwrap()
    }
}

pub(super) fn gtid(gno: u64) -> Gtid {
    Gtid::new(Uuid([7; 16]), Tag::none(), gno).unwrap()
}

/// Commit times of the group `gno`: original, immediate.
pub(super) const fn commit_micros(gno: u64) -> (u64, u64) {
    (1_000_000 + gno, 2_000_000 + gno)
}

fn gtid_part(gno: u64, flags: u8, transaction_length: u64) -> Part {
    let (original, immediate) = commit_micros(gno);
    let mut body = vec![flags];
    body.extend([7; 16]);
    body.extend(gno.to_le_bytes());
    body.push(2);
    body.extend((gno - 1).to_le_bytes());
    body.extend(gno.to_le_bytes());
    body.extend(&(immediate | 1 << 55).to_le_bytes()[..7]);
    body.extend(&original.to_le_bytes()[..7]);
    body.push(254);
    body.extend(transaction_length.to_le_bytes());
    body.extend(90_704u32.to_le_bytes());
    Part::new(t::GTID, body)
}

/// A group of `parts` under a GTID whose length is right.
pub(super) fn group(gno: u64, flags: u8, parts: &[Part]) -> Vec<RawEvent> {
    group_off_by(gno, flags, parts, 0)
}

/// A group whose GTID announces `error` bytes more than there are.
pub(super) fn group_off_by(gno: u64, flags: u8, parts: &[Part], error: i64) -> Vec<RawEvent> {
    let body: u64 = parts.iter().map(|part| u64::from(part.length(true))).sum();
    let head = u64::from(gtid_part(gno, flags, 0).length(true));
    let head = gtid_part(gno, flags, (head + body).strict_add_signed(error));
    laid_out(gno, std::iter::once(&head).chain(parts).map(Part::raw).collect())
}

/// The events as they lie in the file: one behind the other, each group in a place of its own.
fn laid_out(gno: u64, mut events: Vec<RawEvent>) -> Vec<RawEvent> {
    const ROOM: u32 = 10_000_000;
    // Positions are kept modulo 2^32, and so are these.
    let mut end = ROOM.wrapping_mul(u32::try_from(gno).unwrap());
    for event in &mut events {
        end = end.wrapping_add(event.header.event_length);
        event.header.log_pos = end;
    }
    events
}

pub(super) fn anonymous() -> Part {
    let mut part = gtid_part(1, STATEMENTS, 100);
    part.event_type = t::ANONYMOUS_GTID;
    part
}

pub(super) fn query(text: &str) -> Part {
    query_with_error(text, 0)
}

/// From a session of its own.
pub(super) fn query_of(thread_id: u32, text: &str) -> Part {
    let mut part = query(text);
    part.body[..4].copy_from_slice(&thread_id.to_le_bytes());
    part
}

/// As [`query_of`], of a statement that depends on its session.
pub(super) fn query_within(thread_id: u32, text: &str) -> Part {
    Part { flags: THREAD_SPECIFIC_FLAG, ..query_of(thread_id, text) }
}

pub(super) fn query_with_error(text: &str, error_code: u16) -> Part {
    let mut body = vec![0; 8];
    body.push(3);
    body.extend(error_code.to_le_bytes());
    let mut status = vec![1];
    status.extend(0u64.to_le_bytes());
    status.push(4);
    for collation in [255u16, 255, 255] {
        status.extend(collation.to_le_bytes());
    }
    body.extend((status.len() as u16).to_le_bytes());
    body.extend(status);
    body.extend(b"app\0");
    body.extend(text.as_bytes());
    Part::new(t::QUERY, body)
}

pub(super) fn begin() -> Part {
    query("BEGIN")
}

pub(super) fn xid() -> Part {
    Part::new(t::XID, 42u64.to_le_bytes().to_vec())
}

/// Of the XID `X'67',X'',1`.
pub(super) fn xa_prepare(one_phase: bool) -> Part {
    xa_prepare_of(b'g', one_phase)
}

/// Of an XID whose gtrid is one byte.
pub(super) fn xa_prepare_of(gtrid: u8, one_phase: bool) -> Part {
    let mut body = vec![u8::from(one_phase)];
    for number in [1u32, 1, 0] {
        body.extend(number.to_le_bytes());
    }
    body.push(gtrid);
    Part::new(t::XA_PREPARE, body)
}

/// `XA verb` on such an XID.
pub(super) fn xa(verb: &str, gtrid: u8) -> Part {
    query(&format!("XA {verb} X'{gtrid:02x}',X'',1"))
}

fn table_id(id: u64) -> Vec<u8> {
    id.to_le_bytes()[..6].to_vec()
}

/// `name (id INT PRIMARY KEY, v INT)` in database `app`, or in the one before the dot.
pub(super) fn table_map(id: u64, name: &str) -> Part {
    let mut part = table_map_without_names(id, name);
    for (kind, value) in [(1, &[0][..]), (4, b"\x02id\x01v"), (8, &[0])] {
        part.body.extend([kind, value.len() as u8]);
        part.body.extend(value);
    }
    part
}

/// As under `binlog_row_metadata=MINIMAL`.
pub(super) fn table_map_without_names(id: u64, name: &str) -> Part {
    let (database, table) = name.split_once('.').unwrap_or(("app", name));
    let mut body = table_id(id);
    body.extend(1u16.to_le_bytes());
    for name in [database, table] {
        body.push(name.len() as u8);
        body.extend(name.as_bytes());
        body.push(0);
    }
    body.extend([2, 3, 3, 0, 0b10]);
    Part::new(t::TABLE_MAP, body)
}

fn rows_head(id: u64, flags: u16, columns: u8) -> Vec<u8> {
    let mut body = table_id(id);
    body.extend(flags.to_le_bytes());
    body.extend(2u16.to_le_bytes());
    body.push(columns);
    body
}

/// The image of one row of [`table_map`]'s table.
pub(super) fn image(id: u32, v: u32) -> Vec<u8> {
    let mut image = vec![0];
    image.extend(id.to_le_bytes());
    image.extend(v.to_le_bytes());
    image
}

pub(super) fn write_rows(id: u64, flags: u16, value: u32) -> Part {
    let mut body = rows_head(id, flags, 2);
    body.push(0b11);
    body.extend(image(value, value));
    Part::new(t::WRITE_ROWS, body)
}

pub(super) fn update_rows(id: u64, flags: u16, before: u8, after: u8) -> Part {
    let mut body = rows_head(id, flags, 2);
    body.extend([before, after]);
    body.extend(image(1, 1));
    body.extend(image(1, 2));
    Part::new(t::UPDATE_ROWS, body)
}

/// One row: written, deleted or updated, by which of its images there are.
pub(super) fn rows_event(id: u64, flags: u16, old: Option<&[u8]>, new: Option<&[u8]>) -> Part {
    let mut body = rows_head(id, flags, 2);
    let event_type = match (old, new) {
        (None, _) => t::WRITE_ROWS,
        (Some(_), None) => t::DELETE_ROWS,
        (Some(_), Some(_)) => t::UPDATE_ROWS,
    };
    body.extend(old.iter().chain(new.iter()).map(|_| 0b11));
    body.extend(old.iter().chain(new.iter()).copied().flatten());
    Part::new(event_type, body)
}

pub(super) fn delete_rows_of_columns(id: u64, columns: u8) -> Part {
    let mut body = rows_head(id, STMT_END, columns);
    body.push(u8::MAX);
    Part::new(t::DELETE_ROWS, body)
}

pub(super) fn partial_update(id: u64) -> Part {
    Part::new(t::PARTIAL_UPDATE_ROWS, rows_head(id, STMT_END, 2))
}

pub(super) fn of_type(event_type: u8) -> Part {
    Part::new(event_type, vec![0; 8])
}

pub(super) fn ignorable() -> Part {
    Part { flags: IGNORABLE_FLAG, ..of_type(200) }
}

pub(super) fn rotate() -> Part {
    let mut body = 4u64.to_le_bytes().to_vec();
    body.extend(b"binlog.000002");
    Part::new(t::ROTATE, body)
}

pub(super) fn format_description() -> Part {
    format_description_of(0)
}

/// `created` is other than 0 for a server that has been started.
pub(super) fn format_description_of(created: u32) -> Part {
    let mut body = 4u16.to_le_bytes().to_vec();
    body.extend([0; 50]);
    body.extend(created.to_le_bytes());
    body.push(HEADER_LENGTH as u8);
    body.extend([0; 40]);
    body.push(1);
    Part::new(t::FORMAT_DESCRIPTION, body)
}

pub(super) fn payload(parts: &[Part]) -> Part {
    let inner: Vec<u8> = parts.iter().flat_map(|part| part.encode(false)).collect();
    payload_of(&zstd::stream::encode_all(&*inner, 3).unwrap(), inner.len() as u64)
}

pub(super) fn payload_of(compressed: &[u8], size: u64) -> Part {
    let mut body = Vec::new();
    for (field, value) in [(2u8, 0), (3, size), (1, compressed.len() as u64)] {
        body.extend([field, 9, 254]);
        body.extend(value.to_le_bytes());
    }
    body.push(0);
    body.extend(compressed);
    Part::new(t::TRANSACTION_PAYLOAD, body)
}
