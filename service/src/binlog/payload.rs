//! TRANSACTION_PAYLOAD: the events of one transaction, inflated one at a time.
//!
//! Server source `libs/mysql/binlog/event/control_events.h`, `Transaction_payload_event`;
//! compression: RFC 8878. Eight kilobytes can hold a hundred megabytes, so nothing is inflated
//! ahead of the event that is asked for.

use std::io::{self, Read};

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use zstd::stream::read::Decoder;

use super::envelope::{EnvelopeError, event_length, open_inner};
use super::event::{Compression, HEADER_LENGTH, PayloadEvent, RawEvent};
use crate::halt::{Halt, Reason};

/// Largest zstd window accepted, as a power of two: 128 MB, the most that the server's highest
/// `binlog_transaction_compression_level_zstd` asks for and what decompressor memory is bounded by.
const WINDOW_LOG_MAX: u32 = 27;

/// How much is set aside for an event before any of its bytes have been inflated.
const CAPACITY_MAX: usize = 64 * 1024;

/// Why a payload could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The compressed bytes are damaged, or hold more or less than the payload's head says.
    #[error("transaction payload: {0}")]
    Invalid(&'static str),
    #[error("transaction payload: {0}")]
    Envelope(#[from] EnvelopeError),
    /// One event alone exceeds the bound given.
    #[error("transaction payload: an event of {length} bytes exceeds the bound")]
    EventTooLarge { length: usize },
}

impl From<PayloadError> for Halt {
    fn from(error: PayloadError) -> Self {
        let reason = match error {
            PayloadError::Invalid(_) | PayloadError::Envelope(_) => Reason::CompressedPayloadInvalid,
            PayloadError::EventTooLarge { .. } => Reason::BufferExhausted,
        };
        Self::new(reason, error.to_string())
    }
}

/// Yields a payload's events in order.
pub struct PayloadReader {
    inflated: Box<dyn Read + Send>,
    /// Inflated bytes that must still come.
    remaining: u64,
    max_event_bytes: usize,
}

impl PayloadReader {
    /// Opens a payload. No event longer than `max_event_bytes` is inflated.
    pub fn new(event: &PayloadEvent, max_event_bytes: usize) -> Result<Self, PayloadError> {
        let payload = event.payload.clone().reader();
        let inflated: Box<dyn Read + Send> = match event.compression {
            Compression::None => Box::new(payload),
            Compression::Zstd => Box::new(inflate(payload).map_err(|_| CORRUPT)?),
        };
        Ok(Self { inflated, remaining: event.uncompressed_size, max_event_bytes })
    }

    /// The next event, or `None` after the last one, when all bytes have been used up.
    pub fn next_event(&mut self) -> Result<Option<RawEvent>, PayloadError> {
        if self.remaining == 0 {
            return self.finish().map(|()| None);
        }
        let mut header = [0; HEADER_LENGTH];
        self.claim(HEADER_LENGTH)?;
        self.inflated.read_exact(&mut header).map_err(|_| CORRUPT)?;
        let length = event_length(&header);
        let body = length.checked_sub(HEADER_LENGTH).ok_or(CORRUPT)?;
        if length > self.max_event_bytes {
            return Err(PayloadError::EventTooLarge { length });
        }
        self.claim(body)?;
        let mut event = Vec::with_capacity(length.min(CAPACITY_MAX));
        event.extend_from_slice(&header);
        let read = (&mut self.inflated).take(body as u64).read_to_end(&mut event).map_err(|_| CORRUPT)?;
        if read != body {
            return Err(CORRUPT);
        }
        Ok(Some(open_inner(event.into())?))
    }

    /// Takes `count` off the inflated bytes that the payload's head promised.
    fn claim(&mut self, count: usize) -> Result<(), PayloadError> {
        self.remaining = self.remaining.checked_sub(count as u64).ok_or(WRONG_SIZE)?;
        Ok(())
    }

    /// Checks that neither inflated nor compressed bytes are left over.
    fn finish(&mut self) -> Result<(), PayloadError> {
        match self.inflated.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(WRONG_SIZE),
            Err(_) => Err(CORRUPT),
        }
    }
}

const CORRUPT: PayloadError = PayloadError::Invalid("its bytes are damaged");
const WRONG_SIZE: PayloadError = PayloadError::Invalid("it does not inflate to the size that its head says");

fn inflate(payload: Reader<Bytes>) -> io::Result<Decoder<'static, Reader<Bytes>>> {
    let mut decoder = Decoder::with_buffer(payload)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}
