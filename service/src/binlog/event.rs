//! Events: the common header and the typed bodies, those of rows up to their images.
//!
//! Layout: MySQL internals manual, "Binary Log Event Header"; server source
//! `libs/mysql/binlog/event/binlog_event.h`, `control_events.h`, `statement_events.h`,
//! `rows_event.h`. All integers are little-endian. A body whose known fields are followed by
//! further bytes is accepted where the server itself appends fields from release to release, and
//! is malformed elsewhere.
//!
//! No `Debug` output here holds a byte of a statement, an XID or a row.

use std::fmt;

use bytes::Bytes;

use super::DecodeError;
use super::gtid_event;
use super::query_event;
use super::reader::Reader;
use crate::fold::unit::RowsKind;
use crate::halt::{Halt, Reason};

pub use super::envelope::{ChecksumAlgorithm, Envelope, EnvelopeError, open_inner};
pub use super::gtid_event::GtidEvent;
pub use super::query_event::QueryEvent;

/// Event type codes (server source `libs/mysql/binlog/event/binlog_event.h`, `Log_event_type`).
pub mod event_type {
    pub const QUERY: u8 = 2;
    pub const STOP: u8 = 3;
    pub const ROTATE: u8 = 4;
    pub const INTVAR: u8 = 5;
    pub const APPEND_BLOCK: u8 = 9;
    pub const DELETE_FILE: u8 = 11;
    pub const RAND: u8 = 13;
    pub const USER_VAR: u8 = 14;
    pub const FORMAT_DESCRIPTION: u8 = 15;
    pub const XID: u8 = 16;
    pub const BEGIN_LOAD_QUERY: u8 = 17;
    pub const EXECUTE_LOAD_QUERY: u8 = 18;
    pub const TABLE_MAP: u8 = 19;
    pub const WRITE_ROWS_V0: u8 = 20;
    pub const UPDATE_ROWS_V0: u8 = 21;
    pub const DELETE_ROWS_V0: u8 = 22;
    pub const WRITE_ROWS_V1: u8 = 23;
    pub const UPDATE_ROWS_V1: u8 = 24;
    pub const DELETE_ROWS_V1: u8 = 25;
    pub const INCIDENT: u8 = 26;
    pub const HEARTBEAT: u8 = 27;
    pub const IGNORABLE: u8 = 28;
    pub const ROWS_QUERY: u8 = 29;
    pub const WRITE_ROWS: u8 = 30;
    pub const UPDATE_ROWS: u8 = 31;
    pub const DELETE_ROWS: u8 = 32;
    pub const GTID: u8 = 33;
    pub const ANONYMOUS_GTID: u8 = 34;
    pub const PREVIOUS_GTIDS: u8 = 35;
    pub const VIEW_CHANGE: u8 = 37;
    pub const XA_PREPARE: u8 = 38;
    pub const PARTIAL_UPDATE_ROWS: u8 = 39;
    pub const TRANSACTION_PAYLOAD: u8 = 40;
    pub const HEARTBEAT_V2: u8 = 41;
    pub const GTID_TAGGED: u8 = 42;
}

/// The name of an event type for messages, as the server's own tools print it.
#[must_use]
pub const fn type_name(event_type: u8) -> &'static str {
    match event_type {
        event_type::QUERY => "Query",
        event_type::STOP => "Stop",
        event_type::ROTATE => "Rotate",
        event_type::INTVAR => "Intvar",
        event_type::APPEND_BLOCK => "Append_block",
        event_type::DELETE_FILE => "Delete_file",
        event_type::RAND => "RAND",
        event_type::USER_VAR => "User var",
        event_type::FORMAT_DESCRIPTION => "Format_desc",
        event_type::XID => "Xid",
        event_type::BEGIN_LOAD_QUERY => "Begin_load_query",
        event_type::EXECUTE_LOAD_QUERY => "Execute_load_query",
        event_type::TABLE_MAP => "Table_map",
        event_type::WRITE_ROWS_V0 => "Write_rows_v0",
        event_type::UPDATE_ROWS_V0 => "Update_rows_v0",
        event_type::DELETE_ROWS_V0 => "Delete_rows_v0",
        event_type::WRITE_ROWS_V1 => "Write_rows_v1",
        event_type::UPDATE_ROWS_V1 => "Update_rows_v1",
        event_type::DELETE_ROWS_V1 => "Delete_rows_v1",
        event_type::INCIDENT => "Incident",
        event_type::HEARTBEAT => "Heartbeat",
        event_type::IGNORABLE => "Ignorable",
        event_type::ROWS_QUERY => "Rows_query",
        event_type::WRITE_ROWS => "Write_rows",
        event_type::UPDATE_ROWS => "Update_rows",
        event_type::DELETE_ROWS => "Delete_rows",
        event_type::GTID => "Gtid",
        event_type::ANONYMOUS_GTID => "Anonymous_Gtid",
        event_type::PREVIOUS_GTIDS => "Previous_gtids",
        event_type::VIEW_CHANGE => "View_change",
        event_type::XA_PREPARE => "XA_prepare",
        event_type::PARTIAL_UPDATE_ROWS => "Update_rows_partial",
        event_type::TRANSACTION_PAYLOAD => "Transaction_payload",
        event_type::HEARTBEAT_V2 => "Heartbeat_v2",
        event_type::GTID_TAGGED => "Gtid_tagged",
        _ => "unknown",
    }
}

/// Header flag of an event that the server made up for the stream: it is in no file.
const FLAG_THREAD_SPECIFIC: u16 = 0x04;
const FLAG_ARTIFICIAL: u16 = 0x20;
/// Header flag of an event that a reader may skip when it doesn't know the type.
const FLAG_IGNORABLE: u16 = 0x80;

/// Length of the common header in bytes.
pub const HEADER_LENGTH: usize = 19;

/// The common header of every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventHeader {
    /// Seconds since 1970 at the start of the statement; 0 in artificial events.
    pub timestamp: u32,
    /// One of [`event_type`].
    pub event_type: u8,
    /// The server on which the event arose first.
    pub server_id: u32,
    /// Bytes of the whole event: header, body and checksum.
    pub event_length: u32,
    /// End of the event in its file, modulo 2^32; 0 inside a payload and in artificial events.
    pub log_pos: u32,
    pub flags: u16,
}

impl EventHeader {
    pub(super) const fn parse(bytes: &[u8; HEADER_LENGTH]) -> Self {
        let [t0, t1, t2, t3, event_type, s0, s1, s2, s3, l0, l1, l2, l3, p0, p1, p2, p3, f0, f1] = *bytes;
        Self {
            timestamp: u32::from_le_bytes([t0, t1, t2, t3]),
            event_type,
            server_id: u32::from_le_bytes([s0, s1, s2, s3]),
            event_length: u32::from_le_bytes([l0, l1, l2, l3]),
            log_pos: u32::from_le_bytes([p0, p1, p2, p3]),
            flags: u16::from_le_bytes([f0, f1]),
        }
    }

    /// Whether a statement depends on its session (server source `libs/mysql/binlog/event/binlog_event.h`,
    /// `LOG_EVENT_THREAD_SPECIFIC_F`): it has used a temporary table or CONNECTION_ID().
    #[must_use]
    pub const fn is_thread_specific(&self) -> bool {
        self.flags & FLAG_THREAD_SPECIFIC != 0
    }

    /// Whether the server made the event up for the stream, such as the ROTATE that opens a dump.
    #[must_use]
    pub const fn is_artificial(&self) -> bool {
        self.flags & FLAG_ARTIFICIAL != 0
    }
}

/// An event whose length and checksum have been verified.
#[derive(Clone, PartialEq, Eq)]
pub struct RawEvent {
    pub header: EventHeader,
    /// The bytes between header and checksum.
    pub body: Bytes,
}

impl RawEvent {
    /// Decodes the body.
    ///
    /// # Errors
    /// `event_malformed`
    pub fn parse(&self) -> Result<Event<'_>, Halt> {
        Event::parse(self).map_err(|error| self.malformed(&error))
    }

    /// The halt for a body that could not be decoded.
    #[must_use]
    pub fn malformed(&self, error: &DecodeError) -> Halt {
        let EventHeader { event_type, log_pos, .. } = self.header;
        let detail = format!("{} event ending at {log_pos}: {error}", type_name(event_type));
        Halt::new(Reason::EventMalformed, detail)
    }
}

impl fmt::Debug for RawEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawEvent")
            .field("header", &self.header)
            .field("body_length", &self.body.len())
            .finish()
    }
}

/// A parsed event body. What most events are made of stays in the body: to parse one costs no reference to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    FormatDescription(FormatDescription),
    Rotate(Rotate),
    /// The body, which is an encoded GTID set.
    PreviousGtids(Bytes),
    Stop,
    /// HEARTBEAT and HEARTBEAT_V2. Their position can lie inside a skipped transaction, so it is not kept.
    Heartbeat,
    /// The server lost changes. The number is the incident's kind; its message is not kept.
    Incident(u16),
    /// GTID and GTID_TAGGED.
    Gtid(GtidEvent),
    AnonymousGtid,
    Query(QueryEvent<'a>),
    /// Commit of a transaction with at least one transactional engine; the server's internal XID.
    Xid(u64),
    XaPrepare(XaPrepare),
    TableMap(TableMapEvent<'a>),
    Rows(RowsEvent<'a>),
    /// UPDATE with partial JSON values (`binlog_row_value_options=PARTIAL_JSON`).
    PartialUpdateRows(PartialUpdateEvent),
    /// The statement behind the row events that follow; its text is not kept.
    RowsQuery,
    TransactionPayload(PayloadEvent),
    /// INTVAR, RAND, USER_VAR and the LOAD DATA events: parts of a statement in statement format.
    StatementPart(u8),
    /// Row events of the formats before MySQL 5.6.
    ObsoleteRows(u8),
    /// Group Replication, before 8.4: a member joined or left. Carries no change of data.
    ViewChange,
    /// A type that is unknown here and that the server marked as safe to skip.
    Ignorable(u8),
    Unknown(u8),
}

impl<'a> Event<'a> {
    /// Parses the body by the header's event type.
    pub fn parse(raw: &'a RawEvent) -> Result<Self, DecodeError> {
        use event_type as t;
        let body = &raw.body;
        Ok(match raw.header.event_type {
            t::TABLE_MAP => Self::TableMap(TableMapEvent::parse(body)?),
            t::WRITE_ROWS => Self::Rows(RowsEvent::parse(RowsKind::Write, body)?),
            t::UPDATE_ROWS => Self::Rows(RowsEvent::parse(RowsKind::Update, body)?),
            t::DELETE_ROWS => Self::Rows(RowsEvent::parse(RowsKind::Delete, body)?),
            t::GTID => Self::Gtid(gtid_event::parse_untagged(body)?),
            t::GTID_TAGGED => Self::Gtid(gtid_event::parse_tagged(body)?),
            t::QUERY => Self::Query(query_event::parse(body)?),
            t::XID => Self::Xid(parse_xid(body)?),
            t::XA_PREPARE => Self::XaPrepare(XaPrepare::parse(body)?),
            t::TRANSACTION_PAYLOAD => Self::TransactionPayload(PayloadEvent::parse(body)?),
            t::FORMAT_DESCRIPTION => Self::FormatDescription(FormatDescription::parse(body)?),
            t::ROTATE => Self::Rotate(Rotate::parse(&raw.header, body)?),
            t::PREVIOUS_GTIDS => Self::PreviousGtids(body.clone()),
            t::INCIDENT => Self::Incident(Reader::new("INCIDENT", body).u16()?),
            t::STOP => Self::Stop,
            t::HEARTBEAT | t::HEARTBEAT_V2 => Self::Heartbeat,
            t::ANONYMOUS_GTID => Self::AnonymousGtid,
            t::PARTIAL_UPDATE_ROWS => Self::PartialUpdateRows(PartialUpdateEvent::parse(body)?),
            t::ROWS_QUERY => Self::RowsQuery,
            t::VIEW_CHANGE => Self::ViewChange,
            code @ (t::INTVAR
            | t::RAND
            | t::USER_VAR
            | t::APPEND_BLOCK
            | t::DELETE_FILE
            | t::BEGIN_LOAD_QUERY
            | t::EXECUTE_LOAD_QUERY) => Self::StatementPart(code),
            code @ t::WRITE_ROWS_V0..=t::DELETE_ROWS_V1 => Self::ObsoleteRows(code),
            code if code == t::IGNORABLE || raw.header.flags & FLAG_IGNORABLE != 0 => Self::Ignorable(code),
            code => Self::Unknown(code),
        })
    }
}

/// What the writing server says about itself at the head of each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatDescription {
    pub server_version: String,
    /// Seconds since 1970 if the file was opened at a server start and is read from its head, else 0.
    pub created: u32,
    pub checksum: ChecksumAlgorithm,
}

impl FormatDescription {
    /// Server source `control_events.h`, `Format_description_event`: binlog version 4 only.
    fn parse(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("FORMAT_DESCRIPTION", body);
        let error = reader.error();
        if reader.u16()? != 4 {
            return Err(error);
        }
        let version = reader.take(50)?.split(|byte| *byte == 0).next().unwrap_or_default();
        let server_version = str::from_utf8(version).map_err(|_| reader.error())?.to_owned();
        let created = reader.u32()?;
        let error = reader.error();
        if usize::from(reader.u8()?) != HEADER_LENGTH {
            return Err(error);
        }
        let error = reader.error();
        let checksum =
            reader.rest().last().and_then(|code| ChecksumAlgorithm::from_code(*code)).ok_or(error)?;
        Ok(Self { server_version, created, checksum })
    }
}

/// The stream goes on in another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotate {
    pub file: String,
    pub position: u64,
    /// Made up by the server for the stream; the real one is the last event of a file.
    pub artificial: bool,
}

impl Rotate {
    fn parse(header: &EventHeader, body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("ROTATE", body);
        let position = reader.u64()?;
        let error = reader.error();
        let file = str::from_utf8(reader.rest()).map_err(|_| error)?.to_owned();
        Ok(Self { file, position, artificial: header.is_artificial() })
    }
}

fn parse_xid(body: &[u8]) -> Result<u64, DecodeError> {
    let mut reader = Reader::new("XID", body);
    let xid = reader.u64()?;
    if reader.is_empty() { Ok(xid) } else { Err(reader.error()) }
}

/// End of an XA transaction's first phase, or with `one_phase` its commit.
#[derive(Clone, PartialEq, Eq)]
pub struct XaPrepare {
    pub one_phase: bool,
    /// The X/Open format id; SQL text shows the same 32 bits unsigned.
    pub format_id: u32,
    pub gtrid: Bytes,
    pub bqual: Bytes,
}

impl fmt::Debug for XaPrepare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("XaPrepare").field("one_phase", &self.one_phase).finish_non_exhaustive()
    }
}

impl XaPrepare {
    /// X/Open's bound on the length of a gtrid and of a bqual in bytes.
    const PART_LENGTH_MAX: u32 = 64;

    /// Server source `control_events.h`, `XA_prepare_event`.
    fn parse(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("XA_PREPARE", body);
        let error = reader.error();
        let one_phase = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(error),
        };
        let format_id = reader.u32()?;
        let error = reader.error();
        let (gtrid_length, bqual_length) = (reader.u32()?, reader.u32()?);
        if gtrid_length > Self::PART_LENGTH_MAX || bqual_length > Self::PART_LENGTH_MAX {
            return Err(error);
        }
        let gtrid = body.slice_ref(reader.take_u64(gtrid_length.into())?);
        let bqual = body.slice_ref(reader.take_u64(bqual_length.into())?);
        if reader.is_empty() { Ok(Self { one_phase, format_id, gtrid, bqual }) } else { Err(reader.error()) }
    }
}

/// A table map, not yet parsed: most maps are of filtered tables or repeat the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableMapEvent<'a> {
    pub table_id: u64,
    /// The whole body, for [`super::table_map::TableMap::parse`].
    pub body: &'a Bytes,
}

impl<'a> TableMapEvent<'a> {
    fn parse(body: &'a Bytes) -> Result<Self, DecodeError> {
        let table_id = Reader::new("TABLE_MAP", body).uint(6)?;
        Ok(Self { table_id, body })
    }
}

/// A rows event up to its images.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RowsEvent<'a> {
    /// Refers to a TABLE_MAP of the same statement.
    pub table_id: u64,
    pub flags: u16,
    pub kind: RowsKind,
    /// Columns of the table, which the map must have as well.
    pub columns: usize,
    /// Whether every image holds every column (`binlog_row_image=FULL`).
    pub full_images: bool,
    /// One image a row; for updates a before image and an after image a row.
    pub images: &'a [u8],
}

impl fmt::Debug for RowsEvent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table_id, flags, kind, columns, full_images, images } = self;
        f.debug_struct("RowsEvent")
            .field("table_id", table_id)
            .field("flags", flags)
            .field("kind", kind)
            .field("columns", columns)
            .field("full_images", full_images)
            .field("images_length", &images.len())
            .finish()
    }
}

impl<'a> RowsEvent<'a> {
    /// Last rows event of its statement.
    pub const STMT_END: u16 = 0x1;
    /// The session had `foreign_key_checks=0`.
    pub const NO_FOREIGN_KEY_CHECKS: u16 = 0x2;
    /// Foreign key cascades were carried out by the SQL layer and logged as rows (from 9.6).
    pub const USE_SQL_FOREIGN_KEY: u16 = 0x10;

    /// Version 2 (server source `rows_event.h`, `Rows_event`); extra data, such as partition ids
    /// of `binlog_row_extra_data`, is skipped by its length.
    fn parse(kind: RowsKind, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("rows event", body);
        let table_id = reader.uint(6)?;
        let flags = reader.u16()?;
        let error = reader.error();
        let extra_length = reader.u16()?.checked_sub(2).ok_or(error)?;
        reader.take(extra_length.into())?;
        let error = reader.error();
        let columns = usize::try_from(reader.lenenc()?).map_err(|_| error)?;
        let mut full_images = is_full(reader.take(columns.div_ceil(8))?, columns);
        if kind == RowsKind::Update {
            full_images &= is_full(reader.take(columns.div_ceil(8))?, columns);
        }
        let images = reader.rest();
        Ok(Self { table_id, flags, kind, columns, full_images, images })
    }
}

/// The head of a rows event with partial JSON values. The images are not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialUpdateEvent {
    /// Refers to a TABLE_MAP of the same statement.
    pub table_id: u64,
    /// As in [`RowsEvent`].
    pub flags: u16,
}

impl PartialUpdateEvent {
    fn parse(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("partial rows event", body);
        Ok(Self { table_id: reader.uint(6)?, flags: reader.u16()? })
    }
}

/// Whether the first `columns` bits, lowest bit first, are all set.
fn is_full(bitmap: &[u8], columns: usize) -> bool {
    let (whole, tail) = (columns / 8, columns % 8);
    let last = u8::MAX.checked_shr(8 - tail as u32).unwrap_or(0);
    bitmap.iter().take(whole).all(|byte| *byte == u8::MAX)
        && bitmap.get(whole).is_none_or(|byte| byte & last == last)
}

/// How the events of a transaction payload are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Zstd,
}

/// A whole transaction, apart from its GTID, as one event.
#[derive(Clone, PartialEq, Eq)]
pub struct PayloadEvent {
    pub compression: Compression,
    /// What the events take when inflated.
    pub uncompressed_size: u64,
    pub payload: Bytes,
}

impl fmt::Debug for PayloadEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PayloadEvent")
            .field("compression", &self.compression)
            .field("uncompressed_size", &self.uncompressed_size)
            .field("payload_length", &self.payload.len())
            .finish()
    }
}

impl PayloadEvent {
    /// Server source `control_events.h`, `Transaction_payload_event`: type, length, value triples
    /// of length-encoded integers up to a zero type, then the payload. Unknown types are skipped
    /// as the format prescribes.
    fn parse(body: &Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("TRANSACTION_PAYLOAD", body);
        let (mut size, mut compression, mut uncompressed_size) = (None, None, None);
        loop {
            let field = reader.lenenc()?;
            if field == 0 {
                break;
            }
            let length = reader.lenenc()?;
            let mut value = reader.nested("TRANSACTION_PAYLOAD field", length)?;
            match field {
                1 => size = Some(value.lenenc()?),
                2 => compression = Some(value.lenenc()?),
                3 => uncompressed_size = Some(value.lenenc()?),
                _ => {}
            }
        }
        let error = reader.error();
        let payload = body.slice(reader.position()..);
        let compression = match compression {
            Some(0) => Compression::Zstd,
            Some(255) => Compression::None,
            _ => return Err(error),
        };
        if size != Some(payload.len() as u64) {
            return Err(error);
        }
        let uncompressed_size = match compression {
            Compression::None => payload.len() as u64,
            Compression::Zstd => uncompressed_size.ok_or(error)?,
        };
        Ok(Self { compression, uncompressed_size, payload })
    }
}
