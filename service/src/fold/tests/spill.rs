//! Transactions larger than memory.

use std::io;
use std::sync::Mutex;

use super::*;
use crate::fold::spill::Store;

/// Stores in memory, which all together hold no more than a number of bytes.
#[derive(Debug)]
pub(super) struct Stores {
    free: Arc<Mutex<usize>>,
    /// What happens to each byte that is written.
    damage: fn(&mut Vec<u8>),
}

struct InMemory {
    bytes: Vec<u8>,
    free: Arc<Mutex<usize>>,
    damage: fn(&mut Vec<u8>),
}

impl Stores {
    pub(super) fn bounded(max: usize) -> Self {
        Self { free: Arc::new(Mutex::new(max)), damage: |_| {} }
    }
}

impl Spill for Stores {
    fn create(&self) -> io::Result<Box<dyn Store>> {
        Ok(Box::new(InMemory { bytes: Vec::new(), free: Arc::clone(&self.free), damage: self.damage }))
    }
}

impl Store for InMemory {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut free = self.free.lock().unwrap();
        *free = free.checked_sub(bytes.len()).ok_or(io::ErrorKind::QuotaExceeded)?;
        self.bytes.extend_from_slice(bytes);
        (self.damage)(&mut self.bytes);
        Ok(())
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let begin = usize::try_from(offset).unwrap();
        let found = self.bytes.get(begin..begin + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        *self.free.lock().unwrap() += self.bytes.len();
    }
}

/// A disk that is full.
#[derive(Debug)]
struct Full;

impl Spill for Full {
    fn create(&self) -> io::Result<Box<dyn Store>> {
        Err(io::ErrorKind::StorageFull.into())
    }
}

/// Rows of two tables in turn, in `count` statements.
fn rows(count: u32) -> Vec<Part> {
    let mut parts = vec![begin()];
    for value in 0..count {
        let (id, table) = if value.is_multiple_of(2) { (1, "t") } else { (2, "u") };
        parts.extend([table_map(id, table), write_rows(id, STMT_END, value)]);
    }
    with(&parts, xid())
}

#[test]
fn rows_come_back_in_order_with_their_tables() {
    // Several blocks of a megabyte.
    let policy = FoldPolicy { spill: Arc::new(Stores::bounded(4 << 20)), ..policy() };
    let (units, _, halt) = Fold::new(GtidSet::new(), None, policy).run(group(1, ROWS_ONLY, &rows(100_000)));
    assert_eq!(halt, None);
    let Unit::Transaction(committed) = &units[0] else { panic!("{units:?}") };
    assert_eq!(committed.changes.len(), 100_000);
    assert!(committed.changes.bytes() < 10 * MAX_BUFFER_BYTES, "{}", committed.changes.bytes());
    // Read twice, as a batch that is tried again does.
    for _ in 0..2 {
        for (change, value) in changes(committed).iter().zip(0u32..) {
            assert_eq!(change.images, image(value, value));
            assert_eq!(change.map.table, if value.is_multiple_of(2) { "t" } else { "u" });
            assert_eq!((change.kind, change.flags), (RowsKind::Write, STMT_END));
        }
    }
}

#[test]
fn what_is_released_is_free_again() {
    let spill = Arc::new(Stores::bounded(100_000));
    let policy = FoldPolicy { spill: Arc::clone(&spill) as Arc<dyn Spill>, ..policy() };
    let mut fold = Fold::new(GtidSet::new(), None, policy);
    for gno in 1..10 {
        for event in group(gno, ROWS_ONLY, &rows(2000)) {
            fold.step(event).unwrap();
        }
    }
    assert_eq!(*spill.free.lock().unwrap(), 100_000);
}

#[test]
fn a_disk_that_is_full_halts_by_name() {
    let policy = FoldPolicy { spill: Arc::new(Full), ..policy() };
    let (units, position, halt) =
        Fold::new(GtidSet::new(), None, policy).run(group(1, ROWS_ONLY, &rows(100)));
    let halt = halt.unwrap();
    assert_eq!((halt.reason, halt.gtid), (Reason::SpillFailed, Some(gtid(1))));
    assert!(units.is_empty() && position.is_empty());
}

#[test]
fn a_damaged_store_is_found_out() {
    for damage in [
        (|bytes: &mut Vec<u8>| bytes[5] ^= 1) as fn(&mut Vec<u8>),
        |bytes| {
            let last = bytes.len() - 1;
            bytes[last] ^= 0x80;
        },
        |bytes| bytes.truncate(bytes.len() - 1),
    ] {
        let spill = Arc::new(Stores { damage, ..Stores::bounded(1 << 20) });
        let policy = FoldPolicy { spill, ..policy() };
        let (units, _, halt) = Fold::new(GtidSet::new(), None, policy).run(group(1, ROWS_ONLY, &rows(100)));
        assert_eq!(halt, None);
        let Unit::Transaction(committed) = &units[0] else { panic!("{units:?}") };
        let halt = committed.changes.iter().find_map(Result::err).expect("an error");
        assert_eq!(halt.reason, Reason::SpillFailed);
    }
}
