//! Spill files: unnamed files for the rows of transactions that exceed memory.
//!
//! Each is created without a name (or loses it at once), so that the system frees it when the
//! process ends, however it ends. Writing and reading go through the page cache and are
//! synchronous: a disk that stalls holds the stream up as a target that stalls does.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::FoldConfig;
use crate::fold::spill::{Spill, Store};
use crate::telemetry::metrics;

/// The directory for spill files and the bound on all of them together.
#[derive(Debug)]
pub struct SpillDirectory {
    path: PathBuf,
    usage: Arc<Usage>,
}

#[derive(Debug)]
struct Usage {
    bytes: AtomicU64,
    max: u64,
}

impl SpillDirectory {
    #[must_use]
    pub fn new(path: PathBuf, max_bytes: u64) -> Self {
        Self { path, usage: Arc::new(Usage { bytes: AtomicU64::new(0), max: max_bytes }) }
    }

    /// As configured.
    #[must_use]
    pub fn of(config: &FoldConfig) -> Self {
        Self::new(config.spill_directory.clone(), config.max_spill_bytes)
    }

    /// Whether files can be created there.
    ///
    /// # Errors
    /// What the system says, with the directory's name.
    pub fn probe(&self) -> io::Result<()> {
        self.file().map(drop)
    }

    fn file(&self) -> io::Result<File> {
        tempfile::tempfile_in(&self.path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))
    }
}

impl Spill for SpillDirectory {
    fn create(&self) -> io::Result<Box<dyn Store>> {
        let file = self.file()?;
        tracing::info!(directory = %self.path.display(), "a transaction larger than memory goes on in a spill file");
        Ok(Box::new(SpillFile { file, length: 0, usage: Arc::clone(&self.usage) }))
    }
}

struct SpillFile {
    file: File,
    length: u64,
    usage: Arc<Usage>,
}

impl Store for SpillFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        self.usage.take(length)?;
        // Counted before it is written: a file that is written in part takes up room too.
        self.length += length;
        self.file.write_all(bytes)
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        self.usage.give_back(self.length);
    }
}

impl Usage {
    fn take(&self, bytes: u64) -> io::Result<()> {
        let admit = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.max);
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, admit) {
            Ok(used) => {
                metrics::spilled(used + bytes);
                Ok(())
            }
            Err(used) => {
                let detail =
                    format!("{used} bytes are in spill files, and fold.max_spill_bytes allows {}", self.max);
                Err(io::Error::new(io::ErrorKind::QuotaExceeded, detail))
            }
        }
    }

    fn give_back(&self, bytes: u64) {
        let used = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        metrics::spilled(used.saturating_sub(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_given_back() {
        let directory = tempfile::tempdir().unwrap();
        let spill = SpillDirectory::new(directory.path().to_owned(), 10);
        let mut store = spill.create().unwrap();
        store.append(b"01234").unwrap();
        store.append(b"56789").unwrap();
        let mut read = [0; 4];
        store.read(3, &mut read).unwrap();
        assert_eq!(&read, b"3456");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file has a name");

        let mut other = spill.create().unwrap();
        assert_eq!(other.append(b"a").unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
        drop(store);
        other.append(b"0123456789").unwrap();
        assert!(other.read(8, &mut read).is_err());
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = SpillDirectory::new("/nowhere/at/all".into(), 1).probe().unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }
}
