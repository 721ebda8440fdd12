//! A bounds-checked cursor over one event body, for everything but the rows themselves.

use super::DecodeError;

/// Reads little-endian fields of one named structure; every short read is a [`DecodeError`].
#[derive(Clone)]
pub(super) struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes, position: 0 }
    }

    /// Starts within `bytes`, so that errors keep the offsets of the whole; a `position` past the end reads nothing.
    pub(super) fn at(what: &'static str, bytes: &'a [u8], position: usize) -> Self {
        Self { what, bytes, position: position.min(bytes.len()) }
    }

    pub(super) const fn position(&self) -> usize {
        self.position
    }

    /// The bytes that this reader runs over, cut off `size` bytes after `start`; `None` if they end before.
    pub(super) fn until(&self, start: usize, size: u64) -> Option<&'a [u8]> {
        let end = start.checked_add(usize::try_from(size).ok()?)?;
        self.bytes.get(..end)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.position == self.bytes.len()
    }

    /// An error at the present position.
    pub(super) const fn error(&self) -> DecodeError {
        DecodeError { what: self.what, offset: self.position }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.position.checked_add(count).ok_or_else(|| self.error())?;
        let taken = self.bytes.get(self.position..end).ok_or_else(|| self.error())?;
        self.position = end;
        Ok(taken)
    }

    /// As [`Self::take`] for a length that came from the wire.
    pub(super) fn take_u64(&mut self, count: u64) -> Result<&'a [u8], DecodeError> {
        let count = usize::try_from(count).map_err(|_| self.error())?;
        self.take(count)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        self.position = self.bytes.len();
        rest
    }

    /// A nested structure of `count` bytes.
    pub(super) fn nested(&mut self, what: &'static str, count: u64) -> Result<Self, DecodeError> {
        self.take_u64(count).map(|bytes| Self::new(what, bytes))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let error = self.error();
        self.take(N)?.try_into().map_err(|_| error)
    }

    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// An unsigned integer of `width` bytes, at most 8.
    pub(super) fn uint(&mut self, width: usize) -> Result<u64, DecodeError> {
        let error = self.error();
        let mut buffer = [0; 8];
        buffer.get_mut(..width).ok_or(error)?.copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(buffer))
    }

    pub(super) fn uuid(&mut self) -> Result<[u8; 16], DecodeError> {
        self.array()
    }

    /// A length-encoded integer (MySQL internals, "Protocol::LengthEncodedInteger"). 251 (NULL)
    /// and 255 (undefined) are errors: no event uses them.
    pub(super) fn lenenc(&mut self) -> Result<u64, DecodeError> {
        let error = self.error();
        match self.u8()? {
            value @ 0..=250 => Ok(u64::from(value)),
            252 => self.uint(2),
            253 => self.uint(3),
            254 => self.u64(),
            _ => Err(error),
        }
    }

    /// One byte of length, then that many bytes.
    pub(super) fn short_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    /// Bytes up to a terminating zero, which is consumed as well.
    pub(super) fn until_nul(&mut self) -> Result<&'a [u8], DecodeError> {
        let tail = self.bytes.get(self.position..).unwrap_or_default();
        let length = tail.iter().position(|byte| *byte == 0).ok_or_else(|| self.error())?;
        let text = self.take(length)?;
        self.take(1)?;
        Ok(text)
    }

    /// An unsigned integer of the `mysql::serialization` format: the number of trailing one bits
    /// of the first byte is the number of further bytes (server source
    /// `libs/mysql/serialization/readme.md`, "Variable-length integers").
    pub(super) fn varint(&mut self) -> Result<u64, DecodeError> {
        let first = *self.bytes.get(self.position).ok_or_else(|| self.error())?;
        let width = first.trailing_ones() as usize + 1;
        if width == 9 {
            self.take(1)?;
            return self.u64();
        }
        Ok(self.uint(width)? >> width)
    }

    /// A signed integer of the `mysql::serialization` format: sign in the lowest bit.
    pub(super) fn signed_varint(&mut self) -> Result<i64, DecodeError> {
        let raw = self.varint()?;
        let magnitude = (raw >> 1).cast_signed();
        Ok(if raw & 1 == 0 { magnitude } else { !magnitude })
    }
}
