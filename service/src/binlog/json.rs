//! MySQL's binary JSON as text, exactly as the server prints it.
//!
//! Layout: server source `sql-common/json_binary.h` (the comment at its head); text form:
//! `sql-common/json_dom.cc`, `Json_wrapper::to_string`.

use super::DecodeError;
use super::reader::Reader;

mod scalar;

const WHAT: &str = "JSON document";

/// Deepest nesting of containers that the server accepts (`JSON_DOCUMENT_MAX_DEPTH`).
const DEPTH_MAX: usize = 100;

/// Value types (server source `sql-common/json_binary.cc`, `JSONB_TYPE_*`).
mod kind {
    pub(super) const SMALL_OBJECT: u8 = 0;
    pub(super) const LARGE_OBJECT: u8 = 1;
    pub(super) const SMALL_ARRAY: u8 = 2;
    pub(super) const LARGE_ARRAY: u8 = 3;
    pub(super) const LITERAL: u8 = 4;
    pub(super) const INT16: u8 = 5;
    pub(super) const UINT16: u8 = 6;
    pub(super) const INT32: u8 = 7;
    pub(super) const UINT32: u8 = 8;
    pub(super) const INT64: u8 = 9;
    pub(super) const UINT64: u8 = 10;
    pub(super) const DOUBLE: u8 = 11;
    pub(super) const STRING: u8 = 12;
    pub(super) const OPAQUE: u8 = 15;
}

/// Appends the text of a JSON document, in UTF-8. On an error `out` holds a part of it.
///
/// Time and output are bounded by the document's length: containers can't share bytes, so a
/// document whose values add up to more than its length is malformed. A document of no bytes is
/// `null`, which the server stores for the implicit default of a NOT NULL column.
pub fn to_text(document: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let Some(kind) = document.first() else {
        out.extend_from_slice(b"null");
        return Ok(());
    };
    let mut printer = Printer { budget: document.len(), out };
    printer.value(*kind, Reader::at(WHAT, document, 1), 0)
}

/// How a container is laid out.
#[derive(Clone, Copy)]
struct Shape {
    is_object: bool,
    /// Bytes of a count, size or offset: 2, or 4 in the large format.
    width: usize,
}

impl Shape {
    const fn key_entry(self) -> u64 {
        if self.is_object { self.width as u64 + 2 } else { 0 }
    }

    const fn value_entry(self) -> u64 {
        self.width as u64 + 1
    }

    /// Whether values of the kind stand in the entry itself and not at an offset.
    const fn is_inlined(self, kind: u8) -> bool {
        match kind {
            kind::LITERAL | kind::INT16 | kind::UINT16 => true,
            kind::INT32 | kind::UINT32 => self.width == 4,
            _ => false,
        }
    }
}

/// One container: offsets count from `start`, keys and values lie from `data` on.
struct Container<'a> {
    shape: Shape,
    /// The document up to the container's end.
    bytes: &'a [u8],
    start: usize,
    data: usize,
    depth: usize,
}

impl<'a> Container<'a> {
    /// A reader of what an entry points to.
    fn target(&self, entry: &mut Reader<'a>) -> Result<Reader<'a>, DecodeError> {
        let error = entry.error();
        let offset = usize::try_from(entry.uint(self.shape.width)?).map_err(|_| error.clone())?;
        let position = self.start.checked_add(offset).ok_or_else(|| error.clone())?;
        if position < self.data || position > self.bytes.len() {
            return Err(error);
        }
        Ok(Reader::at(WHAT, self.bytes, position))
    }
}

/// Writes a document's text and counts the bytes it reads.
struct Printer<'o> {
    /// Bytes that can still be read before some have been read twice.
    budget: usize,
    out: &'o mut Vec<u8>,
}

impl Printer<'_> {
    /// Accounts for the bytes from `start` to where the reader stands.
    fn spend(&mut self, start: usize, reader: &Reader<'_>) -> Result<(), DecodeError> {
        let bytes = reader.position() - start;
        self.budget = self.budget.checked_sub(bytes).ok_or_else(|| reader.error())?;
        Ok(())
    }

    fn value(&mut self, kind: u8, mut reader: Reader<'_>, depth: usize) -> Result<(), DecodeError> {
        let shape = match kind {
            kind::SMALL_OBJECT => Shape { is_object: true, width: 2 },
            kind::LARGE_OBJECT => Shape { is_object: true, width: 4 },
            kind::SMALL_ARRAY => Shape { is_object: false, width: 2 },
            kind::LARGE_ARRAY => Shape { is_object: false, width: 4 },
            _ => {
                let start = reader.position();
                scalar::write(kind, &mut reader, self.out)?;
                return self.spend(start, &reader);
            }
        };
        if depth == DEPTH_MAX {
            return Err(reader.error());
        }
        self.container(shape, reader, depth + 1)
    }

    fn container(&mut self, shape: Shape, mut head: Reader<'_>, depth: usize) -> Result<(), DecodeError> {
        let (start, error) = (head.position(), head.error());
        let count = head.uint(shape.width)?;
        let size = head.uint(shape.width)?;
        let header = head.position() - start;
        let bytes = head.until(start, size).ok_or(error)?;
        let mut keys = Reader::at(WHAT, bytes, start + header);
        let mut values = keys.clone();
        values.take_u64(count * shape.key_entry())?;
        let mut data = values.clone();
        data.take_u64(count * shape.value_entry())?;
        self.spend(start, &data)?;
        let container = Container { shape, bytes, start, data: data.position(), depth };
        self.out.push(if shape.is_object { b'{' } else { b'[' });
        for index in 0..count {
            if index > 0 {
                self.out.extend_from_slice(b", ");
            }
            if shape.is_object {
                self.key(&container, &mut keys)?;
            }
            self.element(&container, &mut values)?;
        }
        self.out.push(if shape.is_object { b'}' } else { b']' });
        Ok(())
    }

    fn key<'a>(&mut self, container: &Container<'a>, keys: &mut Reader<'a>) -> Result<(), DecodeError> {
        let mut target = container.target(keys)?;
        let start = target.position();
        let length = keys.u16()?;
        scalar::write_string(&mut target, length.into(), self.out)?;
        self.out.extend_from_slice(b": ");
        self.spend(start, &target)
    }

    fn element<'a>(&mut self, container: &Container<'a>, values: &mut Reader<'a>) -> Result<(), DecodeError> {
        let kind = values.u8()?;
        if container.shape.is_inlined(kind) {
            // The entry's bytes have been accounted for.
            let entry = values.take(container.shape.width)?;
            return scalar::write(kind, &mut Reader::new("JSON inlined value", entry), self.out);
        }
        self.value(kind, container.target(values)?, container.depth)
    }
}
