//! Where the rows of a transaction go that are more than memory is meant to hold.
//!
//! The fold opens no file: it is handed a [`Spill`] and writes blocks into the [`Store`]s that it
//! creates. A block holds whole records:
//!
//! ```text
//! block  := record*                        about a megabyte; its CRC32 stays in memory
//! record := map u32, kind u8, flags u16, length u32, images      little-endian
//! ```
//!
//! The format is read by the process that wrote it and by no other.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};

use super::unit::{RowsChange, RowsKind};
use crate::binlog::table_map::TableMap;
use crate::halt::{Halt, Reason};

/// A block is written when it has reached this size: large enough that a disk is used in one
/// direction at a time, small enough to be held beside the buffer.
const BLOCK_BYTES: usize = 1 << 20;

/// Length of a record before its images.
const RECORD_HEAD: usize = 4 + 1 + 2 + 4;

/// Creates stores.
pub trait Spill: Send + Sync + fmt::Debug {
    /// # Errors
    /// What the system says.
    fn create(&self) -> io::Result<Box<dyn Store>>;
}

/// Bytes that are written once, from the beginning to the end, and read any number of times. What
/// it takes up is given back when it is dropped.
pub trait Store: Send + Sync {
    /// # Errors
    /// [`io::ErrorKind::QuotaExceeded`] when a bound of the configuration is reached, else what the
    /// system says.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// What the system says.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
}

/// Changes in a store, in the order in which they were added.
pub(super) struct Spilled {
    store: Box<dyn Store>,
    /// What records refer to by index.
    maps: Vec<Arc<TableMap>>,
    blocks: Vec<Block>,
    /// The block in the making.
    open: Vec<u8>,
    written: u64,
    len: usize,
}

#[derive(Clone, Copy)]
struct Block {
    offset: u64,
    length: usize,
    crc: u32,
}

impl fmt::Debug for Spilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spilled").field("changes", &self.len).field("written", &self.written).finish()
    }
}

impl Spilled {
    pub(super) fn new(spill: &dyn Spill) -> Result<Self, Halt> {
        let store = spill.create().map_err(|error| failed("created", &error))?;
        Ok(Self { store, maps: Vec::new(), blocks: Vec::new(), open: Vec::new(), written: 0, len: 0 })
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Memory that the changes still take.
    pub(super) fn bytes(&self) -> usize {
        self.open.len() + size_of_val(self.blocks.as_slice())
    }

    pub(super) fn push(&mut self, change: &RowsChange) -> Result<(), Halt> {
        let map = self.map_index(&change.map)?;
        let length = u32::try_from(change.images.len())
            .map_err(|_| Halt::new(Reason::BufferExhausted, "a rows event is larger than 4 GiB"))?;
        self.open.reserve(RECORD_HEAD + change.images.len());
        self.open.put_u32_le(map);
        self.open.put_u8(kind_code(change.kind));
        self.open.put_u16_le(change.flags);
        self.open.put_u32_le(length);
        self.open.put_slice(&change.images);
        self.len += 1;
        if self.open.len() >= BLOCK_BYTES { self.write_block() } else { Ok(()) }
    }

    /// Writes what has been added, so that it can be read.
    pub(super) fn finish(&mut self) -> Result<(), Halt> {
        self.write_block()?;
        self.open = Vec::new();
        Ok(())
    }

    fn write_block(&mut self) -> Result<(), Halt> {
        if self.open.is_empty() {
            return Ok(());
        }
        self.store.append(&self.open).map_err(|error| failed("written", &error))?;
        let length = self.open.len();
        self.blocks.push(Block { offset: self.written, length, crc: crc32fast::hash(&self.open) });
        self.written += length as u64;
        self.open.clear();
        self.open.shrink_to(2 * BLOCK_BYTES);
        Ok(())
    }

    /// Few tables have rows in one transaction, and rows of one table come together.
    fn map_index(&mut self, map: &Arc<TableMap>) -> Result<u32, Halt> {
        let index = self.maps.iter().rposition(|known| Arc::ptr_eq(known, map)).unwrap_or_else(|| {
            self.maps.push(Arc::clone(map));
            self.maps.len() - 1
        });
        u32::try_from(index).map_err(|_| Halt::new(Reason::BufferExhausted, "too many table maps"))
    }

    fn read_block(&self, block: Block) -> Result<Bytes, Halt> {
        let mut bytes = vec![0; block.length];
        self.store.read(block.offset, &mut bytes).map_err(|error| failed("read", &error))?;
        if crc32fast::hash(&bytes) == block.crc { Ok(bytes.into()) } else { Err(damaged()) }
    }

    fn read_record(&self, block: &mut Bytes) -> Result<RowsChange, Halt> {
        if block.len() < RECORD_HEAD {
            return Err(damaged());
        }
        let map = self.maps.get(block.get_u32_le() as usize).ok_or_else(damaged)?;
        let kind = kind_of(block.get_u8()).ok_or_else(damaged)?;
        let flags = block.get_u16_le();
        let length = block.get_u32_le() as usize;
        if length > block.len() {
            return Err(damaged());
        }
        Ok(RowsChange { map: Arc::clone(map), kind, flags, images: block.split_to(length) })
    }
}

/// Reads a store's changes, one block in memory at a time.
pub(super) struct SpilledChanges<'a> {
    spilled: &'a Spilled,
    blocks: std::slice::Iter<'a, Block>,
    block: Bytes,
}

impl<'a> SpilledChanges<'a> {
    pub(super) fn new(spilled: &'a Spilled) -> Self {
        Self { spilled, blocks: spilled.blocks.iter(), block: Bytes::new() }
    }
}

impl Iterator for SpilledChanges<'_> {
    type Item = Result<RowsChange, Halt>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.block.is_empty() {
            match self.spilled.read_block(*self.blocks.next()?) {
                Ok(block) => self.block = block,
                Err(halt) => return Some(Err(halt)),
            }
        }
        Some(self.spilled.read_record(&mut self.block))
    }
}

const fn kind_code(kind: RowsKind) -> u8 {
    match kind {
        RowsKind::Write => 0,
        RowsKind::Update => 1,
        RowsKind::Delete => 2,
    }
}

const fn kind_of(code: u8) -> Option<RowsKind> {
    match code {
        0 => Some(RowsKind::Write),
        1 => Some(RowsKind::Update),
        2 => Some(RowsKind::Delete),
        _ => None,
    }
}

fn failed(what: &str, error: &io::Error) -> Halt {
    let reason = match error.kind() {
        io::ErrorKind::QuotaExceeded => Reason::BufferExhausted,
        _ => Reason::SpillFailed,
    };
    Halt::new(reason, format!("a spill file could not be {what}: {error}"))
}

fn damaged() -> Halt {
    Halt::new(Reason::SpillFailed, "a spill file does not hold what was written to it")
}
