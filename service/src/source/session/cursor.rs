//! A cursor over one packet. Whatever is not there is `None`.

/// The first byte of a NULL among length-encoded strings.
const NULL: u8 = 0xfb;

#[derive(Debug, Clone, Copy)]
pub(in crate::source) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(in crate::source) const fn new(packet: &'a [u8]) -> Self {
        Self(packet)
    }

    pub(in crate::source) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[inline]
    pub(in crate::source) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    #[inline]
    pub(in crate::source) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    #[inline]
    pub(in crate::source) fn u8(&mut self) -> Option<u8> {
        let (head, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A length-encoded integer (MySQL internals manual, "Protocol::LengthEncodedInteger").
    #[inline]
    pub(super) fn length(&mut self) -> Option<usize> {
        let length = match self.u8()? {
            short @ 0..=250 => return Some(short.into()),
            0xfc => self.u16()?.into(),
            0xfd => self.array().map(|[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0])))?,
            0xfe => self.array().map(u64::from_le_bytes)?,
            _ => return None,
        };
        usize::try_from(length).ok()
    }

    /// A length-encoded string.
    #[inline]
    pub(in crate::source) fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// A length-encoded string of a text row, which may be NULL.
    pub(super) fn text_or_null(&mut self) -> Option<Option<&'a [u8]>> {
        match self.0.split_first() {
            Some((&NULL, rest)) => {
                self.0 = rest;
                Some(None)
            }
            _ => self.text().map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_every_width() {
        let packet =
            [&[250][..], &[0xfc, 251, 0], &[0xfd, 0, 0, 1], &[0xfe, 1, 0, 0, 0, 0, 0, 0, 0]].concat();
        let mut cursor = Cursor::new(&packet);
        assert_eq!([(); 4].map(|()| cursor.length()), [Some(250), Some(251), Some(1 << 16), Some(1)]);
        assert!(cursor.is_empty() && cursor.length().is_none());
        for undefined in [&[0xff][..], &[0xfb], &[0xfc, 1], &[0xfd, 1, 2], &[0xfe; 8]] {
            assert_eq!(Cursor::new(undefined).length(), None);
        }
    }

    #[test]
    fn texts_end_within_the_packet() {
        assert_eq!(Cursor::new(b"\x02abc").text(), Some(&b"ab"[..]));
        assert_eq!(Cursor::new(b"\x04abc").text(), None);
        assert_eq!(Cursor::new(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xffabc").text(), None);
        assert_eq!(Cursor::new(&[NULL]).text_or_null(), Some(None));
        assert_eq!(Cursor::new(b"\x00").text_or_null(), Some(Some(&b""[..])));
    }
}
