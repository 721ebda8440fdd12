//! The binary form of a GTID set: `COM_BINLOG_DUMP_GTID` and the body of `PREVIOUS_GTIDS`.
//!
//! All integers are little-endian. The first eight bytes are the number of entries; a set with
//! tags puts the format number 1 into the lowest and the highest of them, which leaves six bytes
//! for the count. An entry is 16 bytes of UUID, in the tagged format the tag's length (a
//! variable-length integer, one byte `length << 1` for every legal length) and characters, eight
//! bytes of interval count, then per interval eight bytes of first and eight bytes of *last + 1*.
//! Source: `sql/rpl_gtid_set.cc`, `Gtid_set::encode` and `add_gtid_encoding`.

use super::intervals::Interval;
use super::{GtidError, GtidSet, MAX_TAG_LENGTH, Tag, Uuid};

/// Format number of sets with tags, in the first and the eighth byte.
const TAGGED_FORMAT: u8 = 1;

impl GtidSet {
    /// The set as the server's dump command takes it: in the plain format unless a tag is there.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let count = self.entries().count() as u64;
        let tagged = self.entries().any(|(_, tag, _)| !tag.is_none());
        let mut header = count.to_le_bytes();
        if tagged {
            header = ((count << 8) | u64::from(TAGGED_FORMAT)).to_le_bytes();
            header[7] = TAGGED_FORMAT;
        }
        let mut out = Vec::from(header);
        for (uuid, tag, intervals) in self.entries() {
            out.extend_from_slice(&uuid.0);
            if tagged {
                // A tag has at most 32 characters.
                out.push((tag.as_str().len() as u8) << 1);
                out.extend_from_slice(tag.as_str().as_bytes());
            }
            out.extend_from_slice(&(intervals.as_slice().len() as u64).to_le_bytes());
            for interval in intervals.as_slice() {
                out.extend_from_slice(&interval.first.to_le_bytes());
                out.extend_from_slice(&(interval.last + 1).to_le_bytes());
            }
        }
        out
    }

    /// Reads either format, refusing what the server refuses: truncation, trailing bytes, and
    /// intervals that are empty, out of range, unordered, overlapping or adjacent.
    pub fn decode(bytes: &[u8]) -> Result<Self, GtidError> {
        let mut reader = Reader { bytes, offset: 0 };
        let header = reader.take::<8>()?;
        let (tagged, count) = match (header[7], header[0]) {
            (0, _) => (false, u64::from_le_bytes(header)),
            (TAGGED_FORMAT, TAGGED_FORMAT) => (true, (u64::from_le_bytes(header) << 8) >> 16),
            _ => return Err(GtidError::Encoding { offset: 0 }),
        };
        let mut set = Self::new();
        // Counts bound nothing by themselves: every entry and interval takes bytes or ends the loop.
        for _ in 0..count {
            let uuid = Uuid(reader.take()?);
            let tag = if tagged { reader.tag()? } else { Tag::none() };
            reader.intervals(|interval| set.insert_interval(uuid, &tag, interval))?;
        }
        if reader.bytes.is_empty() { Ok(set) } else { Err(reader.error()) }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl Reader<'_> {
    const fn error(&self) -> GtidError {
        GtidError::Encoding { offset: self.offset }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], GtidError> {
        let (head, rest) = self.bytes.split_first_chunk::<N>().ok_or(self.error())?;
        self.bytes = rest;
        self.offset += N;
        Ok(*head)
    }

    fn u64(&mut self) -> Result<u64, GtidError> {
        self.take().map(u64::from_le_bytes)
    }

    fn tag(&mut self) -> Result<Tag, GtidError> {
        let malformed = self.error();
        let [encoded] = self.take()?;
        let length = usize::from(encoded >> 1);
        if encoded & 1 != 0 || length > MAX_TAG_LENGTH {
            return Err(malformed);
        }
        let (head, rest) = self.bytes.split_at_checked(length).ok_or(malformed)?;
        self.bytes = rest;
        self.offset += length;
        if head.is_empty() {
            return Ok(Tag::none());
        }
        let text = str::from_utf8(head).map_err(|_| malformed)?;
        // The server sends normalized tags only; another case would be another byte string.
        text.parse::<Tag>().ok().filter(|tag| tag.as_str() == text).ok_or(malformed)
    }

    fn intervals(&mut self, mut insert: impl FnMut(Interval)) -> Result<(), GtidError> {
        let mut previous_end = 0;
        for _ in 0..self.u64()? {
            let malformed = self.error();
            let (first, end) = (self.u64()?, self.u64()?);
            let interval = end.checked_sub(1).and_then(|last| Interval::new(first, last)).ok_or(malformed)?;
            if first <= previous_end {
                return Err(malformed);
            }
            previous_end = end;
            insert(interval);
        }
        Ok(())
    }
}
