//! GTID and GTID_TAGGED: the head of every transaction.

use super::DecodeError;
use super::reader::Reader;
use crate::gtid::{Gtid, Tag, Uuid};

/// The head of a group: its identity, its extent, its place in the source's commit order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GtidEvent {
    pub gtid: Gtid,
    /// Bit 0: the group may hold changes as statements.
    pub flags: u8,
    /// Logical clock: groups of one file with `last_committed` below the other's `sequence_number` are independent.
    pub last_committed: i64,
    pub sequence_number: i64,
    /// Microseconds since 1970 at the commit on the server where the transaction arose.
    pub original_commit_micros: u64,
    /// Microseconds since 1970 at the commit on the server we read from.
    pub immediate_commit_micros: u64,
    /// Sum of `event_length` over the group, this event included.
    pub transaction_length: u64,
}

impl GtidEvent {
    /// The group may hold changes in statement format; clear on groups of rows only.
    pub const MAY_HAVE_STATEMENTS: u8 = 0x1;
}

/// Set in a 7-byte commit timestamp if the original one follows.
const ORIGINAL_TIMESTAMP_FOLLOWS: u64 = 1 << 55;

/// Server source `control_events.h`, `Gtid_event`, as of 8.0. Server versions, the commit group
/// ticket and whatever later releases append are not needed and not read.
pub(super) fn parse_untagged(body: &[u8]) -> Result<GtidEvent, DecodeError> {
    let mut reader = Reader::new("GTID", body);
    let flags = reader.u8()?;
    let uuid = Uuid(reader.uuid()?);
    let error = reader.error();
    let gtid = Gtid::new(uuid, Tag::none(), reader.u64()?).map_err(|_| error)?;
    let error = reader.error();
    if reader.u8()? != 2 {
        return Err(error); // before 5.7.5: no logical clock
    }
    let last_committed = reader.u64()?.cast_signed();
    let sequence_number = reader.u64()?.cast_signed();
    let timestamp = reader.uint(7)?;
    let immediate_commit_micros = timestamp & !ORIGINAL_TIMESTAMP_FOLLOWS;
    let original_commit_micros =
        if timestamp == immediate_commit_micros { timestamp } else { reader.uint(7)? };
    let transaction_length = reader.lenenc()?;
    Ok(GtidEvent {
        gtid,
        flags,
        last_committed,
        sequence_number,
        original_commit_micros,
        immediate_commit_micros,
        transaction_length,
    })
}

/// The highest field id of a GTID_TAGGED that is known here.
const LAST_KNOWN_FIELD: u64 = 11;

/// Server source `control_events.h`, `Gtid_event::define_fields`, in the `mysql::serialization`
/// format (`libs/mysql/serialization/readme.md`): version, size of the whole, the last field that
/// may not be ignored, then field id and value each, in growing order. An unknown field has no
/// length of its own, so that it and all behind it are skipped, provided that they may be.
pub(super) fn parse_tagged(body: &[u8]) -> Result<GtidEvent, DecodeError> {
    let mut head = Reader::new("GTID_TAGGED", body);
    let error = head.error();
    if head.varint()? != 1 {
        return Err(error);
    }
    let error = head.error();
    let size = usize::try_from(head.varint()?).map_err(|_| error.clone())?;
    let mut reader = Reader::new("GTID_TAGGED", body.get(..size).ok_or(error)?);
    reader.take(head.position())?;
    let error = reader.error();
    if reader.varint()? > LAST_KNOWN_FIELD {
        return Err(error);
    }
    let mut fields = TaggedFields::default();
    while !reader.is_empty() && fields.read(&mut reader)? {}
    fields.finish().ok_or_else(|| reader.error())
}

#[derive(Default)]
struct TaggedFields {
    flags: Option<u8>,
    uuid: Option<Uuid>,
    gno: Option<u64>,
    tag: Option<Tag>,
    last_committed: Option<i64>,
    sequence_number: Option<i64>,
    immediate_commit_micros: Option<u64>,
    original_commit_micros: Option<u64>,
    transaction_length: Option<u64>,
}

impl TaggedFields {
    /// Reads one field; false at the first unknown one.
    fn read(&mut self, reader: &mut Reader<'_>) -> Result<bool, DecodeError> {
        let field = reader.varint()?;
        let error = reader.error();
        match field {
            0 => self.flags = Some(u8::try_from(reader.varint()?).map_err(|_| error)?),
            1 => self.uuid = Some(read_uuid(reader)?),
            2 => self.gno = Some(u64::try_from(reader.signed_varint()?).map_err(|_| error)?),
            3 => self.tag = Some(read_tag(reader)?),
            4 => self.last_committed = Some(reader.signed_varint()?),
            5 => self.sequence_number = Some(reader.signed_varint()?),
            6 => self.immediate_commit_micros = Some(reader.varint()?),
            7 => self.original_commit_micros = Some(reader.varint()?),
            8 => self.transaction_length = Some(reader.varint()?),
            9 | 10 | LAST_KNOWN_FIELD => {
                reader.varint()?; // server versions, commit group ticket
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The original timestamp is left out where it equals the immediate one.
    fn finish(self) -> Option<GtidEvent> {
        let immediate_commit_micros = self.immediate_commit_micros?;
        Some(GtidEvent {
            gtid: Gtid::new(self.uuid?, self.tag?, self.gno?).ok()?,
            flags: self.flags?,
            last_committed: self.last_committed?,
            sequence_number: self.sequence_number?,
            original_commit_micros: self.original_commit_micros.unwrap_or(immediate_commit_micros),
            immediate_commit_micros,
            transaction_length: self.transaction_length?,
        })
    }
}

/// A fixed-size container: each of its bytes is an integer of variable length.
fn read_uuid(reader: &mut Reader<'_>) -> Result<Uuid, DecodeError> {
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        let error = reader.error();
        *byte = u8::try_from(reader.varint()?).map_err(|_| error)?;
    }
    Ok(Uuid(uuid))
}

fn read_tag(reader: &mut Reader<'_>) -> Result<Tag, DecodeError> {
    let error = reader.error();
    let length = reader.varint()?;
    let text = str::from_utf8(reader.take_u64(length)?).map_err(|_| error.clone())?;
    if text.is_empty() {
        return Ok(Tag::none());
    }
    text.parse().map_err(|_| error)
}
