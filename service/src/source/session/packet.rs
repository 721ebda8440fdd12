//! MySQL's packet layer: frames of at most 16 MiB - 1, numbered, put together to packets.
//!
//! MySQL internals manual, "MySQL Packets": a 3-byte little-endian length, a sequence byte, the
//! payload. A payload of exactly 0xFFFFFF bytes says that the packet goes on in the next frame.

use bytes::{Buf, Bytes, BytesMut};

/// Largest payload of one frame, and the mark of a packet that goes on.
pub(super) const FRAME_MAX: usize = 0xff_ffff;

const FRAME_HEADER: usize = 4;

/// Largest packet accepted. The server's `max_allowed_packet` ends at 1 GiB and its dump thread
/// sends no larger event; the rest is room for what it adds to one (`MAX_LOG_EVENT_HEADER`).
pub(super) const PACKET_MAX: usize = (1 << 30) + (1 << 16);

/// Bytes asked of the socket at a time: large enough that the system call doesn't show in the
/// cost of an event, small enough to stay in the cache.
pub(super) const READ_BUFFER: usize = 128 << 10;

/// Room below which the buffer is renewed before the next read.
const READ_MIN: usize = READ_BUFFER / 4;

/// A packet of at least this many bytes is split off the read buffer; a smaller one is copied.
/// A split-off packet keeps the whole read buffer alive, so without the copy a few small events
/// that wait for the target could hold many times the memory they are counted with.
const SPLIT_MIN: usize = READ_BUFFER / 8;

/// What is wrong with the frames of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("packets out of order: number {got} where {expected} was due")]
    OutOfOrder { expected: u8, got: u8 },
    #[error("a packet is larger than {PACKET_MAX} bytes")]
    TooLarge,
}

/// Puts packets together from the bytes of a connection. Holds all state between two reads, so
/// that a read may be cancelled at any point.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: BytesMut,
    /// Frames of a packet that goes on.
    begun: BytesMut,
    current: Current,
    /// Number due on the next frame.
    sequence: u8,
}

/// Where the packet in hand is.
#[derive(Debug, Default)]
enum Current {
    #[default]
    None,
    /// At the head of the read buffer, this long.
    InBuffer(usize),
    /// In the frames put together, all of them.
    PutTogether,
}

impl Frames {
    /// Number due on the next frame, in either direction.
    pub(super) const fn sequence(&self) -> u8 {
        self.sequence
    }

    pub(super) const fn set_sequence(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// Whether bytes beyond the last packet have arrived.
    pub(super) fn has_rest(&mut self) -> bool {
        self.leave();
        !self.buffer.is_empty()
    }

    /// The buffer to read into, with room for the rest of the frame that has begun.
    pub(super) fn read_buffer(&mut self) -> &mut BytesMut {
        self.leave();
        let missing = match self.frame() {
            Some((length, _)) => (FRAME_HEADER + length).saturating_sub(self.buffer.len()),
            None => 0,
        };
        let room = self.buffer.capacity() - self.buffer.len();
        if room < missing.max(READ_MIN) {
            self.buffer.reserve(missing.max(READ_BUFFER));
        }
        &mut self.buffer
    }

    /// Goes on to the next packet; false until it has arrived whole. The one before is gone then.
    pub(super) fn advance(&mut self) -> Result<bool, FrameError> {
        self.leave();
        while let Some((length, sequence)) = self.frame() {
            if sequence != self.sequence {
                return Err(FrameError::OutOfOrder { expected: self.sequence, got: sequence });
            }
            if self.begun.len() + length > PACKET_MAX {
                return Err(FrameError::TooLarge);
            }
            if self.buffer.len() < FRAME_HEADER + length {
                return Ok(false);
            }
            self.sequence = sequence.wrapping_add(1);
            self.buffer.advance(FRAME_HEADER);
            if length < FRAME_MAX && self.begun.is_empty() {
                self.current = Current::InBuffer(length);
                return Ok(true);
            }
            self.begun.extend_from_slice(&self.buffer[..length]);
            self.buffer.advance(length);
            if length < FRAME_MAX {
                self.current = Current::PutTogether;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The packet that [`Self::advance`] has gone on to; empty if there is none.
    pub(super) fn packet(&self) -> &[u8] {
        match self.current {
            Current::None => &[],
            Current::InBuffer(length) => self.buffer.get(..length).unwrap_or_default(),
            Current::PutTogether => &self.begun,
        }
    }

    fn leave(&mut self) {
        match std::mem::take(&mut self.current) {
            Current::None => {}
            Current::InBuffer(length) => self.buffer.advance(length),
            Current::PutTogether => self.begun = BytesMut::new(),
        }
    }

    /// Takes the next whole packet out of what has arrived; `None` until there is one.
    pub(super) fn take(&mut self) -> Result<Option<Bytes>, FrameError> {
        if !self.advance()? {
            return Ok(None);
        }
        Ok(Some(match std::mem::take(&mut self.current) {
            Current::InBuffer(length) => self.detach(length),
            _ => std::mem::take(&mut self.begun).freeze(),
        }))
    }

    fn detach(&mut self, length: usize) -> Bytes {
        if length >= SPLIT_MIN {
            return self.buffer.split_to(length).freeze();
        }
        // With capacity to spare, the handle can be shortened at its end without a second one.
        let mut packet = Vec::with_capacity(length + 1);
        packet.extend_from_slice(&self.buffer[..length]);
        self.buffer.advance(length);
        packet.into()
    }

    /// Payload length and number of the frame at the head of the buffer.
    fn frame(&self) -> Option<(usize, u8)> {
        let [a, b, c, sequence] = *self.buffer.first_chunk::<FRAME_HEADER>()?;
        Some((u32::from_le_bytes([a, b, c, 0]) as usize, sequence))
    }
}

/// Frames a payload for sending, beginning with number `sequence`; returns the number after it.
pub(super) fn frame(payload: &[u8], mut sequence: u8, out: &mut Vec<u8>) -> u8 {
    let mut rest = payload;
    loop {
        let (head, tail) = rest.split_at(rest.len().min(FRAME_MAX));
        let length = u32::try_from(head.len()).unwrap_or_default().to_le_bytes();
        out.extend_from_slice(&[length[0], length[1], length[2], sequence]);
        out.extend_from_slice(head);
        sequence = sequence.wrapping_add(1);
        if head.len() < FRAME_MAX {
            return sequence;
        }
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pour(frames: &mut Frames, bytes: &[u8]) {
        frames.read_buffer().extend_from_slice(bytes);
    }

    #[test]
    fn packets_at_the_edges_of_a_frame_survive() {
        for length in [0, 1, SPLIT_MIN, FRAME_MAX - 1, FRAME_MAX, FRAME_MAX + 1, 2 * FRAME_MAX] {
            let payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let mut wire = Vec::new();
            let next = frame(&payload, 254, &mut wire);
            assert_eq!(wire.len(), length + FRAME_HEADER * (length / FRAME_MAX + 1));
            let mut frames = Frames::default();
            frames.set_sequence(254);
            for piece in wire.chunks(1 << 20) {
                assert_eq!(frames.take(), Ok(None));
                pour(&mut frames, piece);
            }
            assert_eq!(frames.take().unwrap().unwrap(), payload);
            assert_eq!(frames.sequence(), next);
            assert_eq!(frames.take(), Ok(None));
            frames.set_sequence(254);
            pour(&mut frames, &wire);
            assert_eq!(frames.advance(), Ok(true));
            assert_eq!(frames.packet(), payload);
            assert_eq!(frames.take(), Ok(None));
            assert_eq!(frames.packet(), b"");
        }
    }

    #[test]
    fn a_lost_frame_is_noticed() {
        let mut wire = Vec::new();
        frame(b"a", 1, &mut wire);
        let mut frames = Frames::default();
        pour(&mut frames, &wire);
        assert_eq!(frames.take(), Err(FrameError::OutOfOrder { expected: 0, got: 1 }));
    }

    #[test]
    fn an_endless_packet_is_cut_off() {
        let mut frames = Frames { begun: BytesMut::zeroed(PACKET_MAX - 1), ..Frames::default() };
        pour(&mut frames, &[2, 0, 0, 0]);
        assert_eq!(frames.take(), Err(FrameError::TooLarge));
    }

    #[test]
    fn a_small_packet_does_not_keep_the_read_buffer() {
        let mut wire = Vec::new();
        frame(&[7; 100], 0, &mut wire);
        let mut frames = Frames::default();
        pour(&mut frames, &wire);
        let packet = frames.take().unwrap().unwrap();
        assert!(packet.is_unique());
        assert_eq!(packet, &[7; 100][..]);
    }

    proptest! {
        #[test]
        fn any_cutting_of_the_stream_gives_the_same_packets(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..20),
            cuts in prop::collection::vec(1usize..400, 1..60),
        ) {
            let mut wire = Vec::new();
            let mut sequence = 0;
            for packet in &packets {
                sequence = frame(packet, sequence, &mut wire);
            }
            let mut frames = Frames::default();
            let mut got = Vec::new();
            let mut rest = &wire[..];
            for cut in cuts.iter().cycle() {
                let (head, tail) = rest.split_at(rest.len().min(*cut));
                pour(&mut frames, head);
                rest = tail;
                // Every other packet is looked at in place.
                loop {
                    if got.len() % 2 == 0 {
                        let Some(packet) = frames.take().unwrap() else { break };
                        got.push(packet.to_vec());
                    } else {
                        if !frames.advance().unwrap() {
                            break;
                        }
                        got.push(frames.packet().to_vec());
                    }
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got, packets);
        }
    }
}
