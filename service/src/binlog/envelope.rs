//! The envelope of an event: its length, and the checksum that follows the body.
//!
//! Server source `libs/mysql/binlog/event/binlog_event.cpp`, `Log_event_footer`.

use bytes::{Buf, Bytes};

use super::event::{EventHeader, HEADER_LENGTH, RawEvent, event_type, type_name};
use crate::halt::{Halt, Reason};

/// Header flag of a FORMAT_DESCRIPTION in a file that was not closed; not covered by its checksum.
const FLAG_IN_USE: u16 = 0x1;
/// Where the flags stand in the header.
const FLAGS_OFFSET: usize = 17;
const CHECKSUM_LENGTH: usize = 4;
/// Where a FORMAT_DESCRIPTION says when its file was created: behind the header, the version of the
/// format (2 bytes) and that of the server (50).
const CREATED: std::ops::Range<usize> = HEADER_LENGTH + 52..HEADER_LENGTH + 56;

/// What follows the body of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumAlgorithm {
    /// Nothing.
    None,
    /// CRC-32 (IEEE) of header and body, 4 bytes little-endian.
    Crc32,
}

impl ChecksumAlgorithm {
    /// Server source `binlog_event.h`, `enum_binlog_checksum_alg`.
    pub(super) const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Crc32),
            _ => None,
        }
    }
}

/// Why an event's envelope was refused. `log_pos` is the end position that its header gives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Fewer bytes than a header: nothing is known of it.
    #[error("an event of {length} bytes is shorter than a header")]
    TooShort { length: usize },
    /// The event's length is not what its header says, or its checksum is incomplete or of unknown kind.
    #[error("{} event ending at {log_pos}: {what}", type_name(*event_type))]
    Malformed { event_type: u8, log_pos: u32, what: &'static str },
    #[error("{} event ending at {log_pos}: CRC32 mismatch", type_name(*event_type))]
    ChecksumMismatch { event_type: u8, log_pos: u32 },
}

impl From<EnvelopeError> for Halt {
    fn from(error: EnvelopeError) -> Self {
        let reason = match error {
            EnvelopeError::ChecksumMismatch { .. } => Reason::EventChecksumMismatch,
            EnvelopeError::TooShort { .. } | EnvelopeError::Malformed { .. } => Reason::EventMalformed,
        };
        Self::new(reason, error.to_string())
    }
}

/// Opens events as they arrive from the stream. Keeps the checksum algorithm of the latest
/// FORMAT_DESCRIPTION, which governs every event up to the next one.
#[derive(Debug, Clone)]
pub struct Envelope {
    algorithm: ChecksumAlgorithm,
}

impl Envelope {
    /// `initial` governs the artificial ROTATE that precedes the first FORMAT_DESCRIPTION: CRC32
    /// if the session variable `@source_binlog_checksum` was set to `CRC32`, else none.
    #[must_use]
    pub const fn new(initial: ChecksumAlgorithm) -> Self {
        Self { algorithm: initial }
    }

    /// Verifies length and checksum of one event and takes the checksum off.
    #[inline]
    pub fn open(&mut self, event: Bytes) -> Result<RawEvent, EnvelopeError> {
        let header = read_header(&event)?;
        if header.event_type == event_type::FORMAT_DESCRIPTION {
            let opened = open_format_description(header, event)?;
            self.algorithm = opened.1;
            return Ok(opened.0);
        }
        match self.algorithm {
            ChecksumAlgorithm::None => Ok(opened(header, event, usize::MAX)),
            ChecksumAlgorithm::Crc32 => open_crc32(header, event),
        }
    }
}

/// The length that a header claims for its event.
pub(super) const fn event_length(header: &[u8; HEADER_LENGTH]) -> usize {
    u32::from_le_bytes([header[9], header[10], header[11], header[12]]) as usize
}

/// Opens an event of a transaction payload, which carries no checksum.
pub fn open_inner(event: Bytes) -> Result<RawEvent, EnvelopeError> {
    let header = read_header(&event)?;
    Ok(opened(header, event, usize::MAX))
}

/// The event with its bytes up to `end` as the body: by the same handle, since a second one would cost
/// more than all else that is done to a small event.
#[inline]
fn opened(header: EventHeader, event: Bytes, end: usize) -> RawEvent {
    let mut opened = RawEvent { header, body: event };
    opened.body.truncate(end);
    opened.body.advance(HEADER_LENGTH);
    opened
}

/// Reads the header and checks that the event is exactly as long as it says.
#[inline]
fn read_header(event: &[u8]) -> Result<EventHeader, EnvelopeError> {
    let header = event.first_chunk().map(EventHeader::parse);
    let header = header.ok_or(EnvelopeError::TooShort { length: event.len() })?;
    if usize::try_from(header.event_length) == Ok(event.len()) {
        Ok(header)
    } else {
        Err(malformed(&header, "its length differs from its header's"))
    }
}

const fn malformed(header: &EventHeader, what: &'static str) -> EnvelopeError {
    EnvelopeError::Malformed { event_type: header.event_type, log_pos: header.log_pos, what }
}

#[inline]
fn open_crc32(header: EventHeader, event: Bytes) -> Result<RawEvent, EnvelopeError> {
    let covered = event
        .len()
        .checked_sub(CHECKSUM_LENGTH)
        .filter(|covered| *covered >= HEADER_LENGTH)
        .ok_or_else(|| malformed(&header, "it has no room for its checksum"))?;
    let content = event.get(..covered).unwrap_or_default();
    // Compared as numbers: as bytes they would go through memory.
    if event.last_chunk().copied().map(u32::from_le_bytes) != Some(crc32(&header, content)) {
        let EventHeader { event_type, log_pos, .. } = header;
        return Err(EnvelopeError::ChecksumMismatch { event_type, log_pos });
    }
    Ok(opened(header, event, covered))
}

/// A FORMAT_DESCRIPTION always ends in an algorithm byte and a CRC32, whatever the algorithm. Its
/// checksum was computed while the in-use flag was clear.
fn open_format_description(
    header: EventHeader,
    event: Bytes,
) -> Result<(RawEvent, ChecksumAlgorithm), EnvelopeError> {
    let opened = match open_crc32(header, event.clone()) {
        Err(mismatch @ EnvelopeError::ChecksumMismatch { .. }) => {
            let as_written = with_created(&header, &event).ok_or(mismatch)?;
            open_crc32(header, as_written)?
        }
        opened => opened?,
    };
    let algorithm = opened
        .body
        .last()
        .and_then(|code| ChecksumAlgorithm::from_code(*code))
        .ok_or_else(|| malformed(&header, "its checksum algorithm is unknown"))?;
    Ok((opened, algorithm))
}

/// The FORMAT_DESCRIPTION of a server's first file holds when it was created, which is when it was
/// written. The sender takes that out, and computes the checksum anew only where checksums are on
/// (server source `sql/rpl_binlog_sender.cc`, `send_format_description_event`). `None` where that
/// can't have happened.
fn with_created(header: &EventHeader, event: &Bytes) -> Option<Bytes> {
    let algorithm = event.len().checked_sub(CHECKSUM_LENGTH + 1).and_then(|at| event.get(at));
    if algorithm.and_then(|code| ChecksumAlgorithm::from_code(*code)) != Some(ChecksumAlgorithm::None) {
        return None;
    }
    let mut as_written = event.to_vec();
    let created = as_written.get_mut(CREATED)?;
    if created != [0; 4] {
        return None;
    }
    created.copy_from_slice(&header.timestamp.to_le_bytes());
    Some(as_written.into())
}

#[inline]
fn crc32(header: &EventHeader, content: &[u8]) -> u32 {
    if header.event_type != event_type::FORMAT_DESCRIPTION || header.flags & FLAG_IN_USE == 0 {
        return crc32fast::hash(content);
    }
    let (before_flags, from_flags) = content.split_at(FLAGS_OFFSET);
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(before_flags);
    hasher.update(&(header.flags & !FLAG_IN_USE).to_le_bytes());
    hasher.update(from_flags.get(2..).unwrap_or_default());
    hasher.finalize()
}
