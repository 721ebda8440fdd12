//! Table maps: those of the statement in hand, and parsed ones kept for their next announcement.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::binlog::event::TableMapEvent;
use crate::binlog::table_map::TableMap;
use crate::halt::{Halt, Reason};
use crate::schema::filter::Filter;

/// What a TABLE_MAP stands for once the filter has been asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mapped {
    /// Not replicated: nothing but the names has been read.
    Filtered,
    Included(Arc<TableMap>),
}

impl Mapped {
    /// Whether a later announcement tells the same.
    fn is_repeated(&self, again: &Self) -> bool {
        match (self, again) {
            (Self::Filtered, Self::Filtered) => true,
            (Self::Included(map), Self::Included(again)) => TableMap::is_repeated(&map.raw, &again.raw),
            _ => false,
        }
    }
}

/// The tables that the statement in hand has announced, by table id.
#[derive(Debug, Default)]
pub(super) struct StatementMaps {
    maps: Vec<(u64, Mapped)>,
    /// Rows have come, but not the last rows event of the statement.
    unfinished: bool,
}

/// Far beyond what one statement with all its triggers and cascades announces; bounds the memory
/// that announcements without rows can take.
const MAX_STATEMENT_TABLES: usize = 16_384;

impl StatementMaps {
    /// Whether rows are still owed.
    pub(super) const fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Takes an announcement. All of a statement come before its rows, and none is taken back.
    pub(super) fn announce(&mut self, table_id: u64, mapped: Mapped) -> Result<(), Halt> {
        if let Some((_, known)) = self.maps.iter().find(|(id, _)| *id == table_id) {
            let detail = "a statement announces two tables under one id";
            let contradiction = Halt::new(Reason::UnsupportedTransactionShape, detail);
            return if known.is_repeated(&mapped) { Ok(()) } else { Err(contradiction) };
        }
        if self.maps.len() >= MAX_STATEMENT_TABLES {
            let detail = format!("one statement announces more than {MAX_STATEMENT_TABLES} tables");
            return Err(Halt::new(Reason::BufferExhausted, detail));
        }
        self.maps.push((table_id, mapped));
        Ok(())
    }

    /// The map that a rows event names.
    pub(super) fn get(&self, table_id: u64) -> Result<&Mapped, Halt> {
        let found = self.maps.iter().find(|(id, _)| *id == table_id);
        found.map(|(_, mapped)| mapped).ok_or_else(|| {
            Halt::new(Reason::UnmappedTableId, format!("the statement has no table map with id {table_id}"))
        })
    }

    /// Notes a rows event; the last one of its statement ends the life of the maps.
    pub(super) fn rows(&mut self, last: bool) {
        self.unfinished = !last;
        if last {
            self.maps.clear();
        }
    }

    /// Drops announcements that no rows followed.
    pub(super) fn clear(&mut self) {
        self.maps.clear();
    }

    /// As new, in the same memory.
    pub(super) fn emptied(mut self) -> Self {
        self.maps.clear();
        Self { unfinished: false, ..self }
    }
}

/// Parsed maps by table id. A statement repeats the announcement of its tables but for the flags, so
/// that a body known spares the parsing; a different one replaces the entry. Never a source of maps for
/// rows: those come from their own statement's announcements only.
#[derive(Debug, Default)]
pub(super) struct MapCache {
    entries: BTreeMap<u64, (Bytes, Mapped)>,
    /// Bytes of all bodies in `entries`.
    bytes: usize,
}

/// When the bodies take more, the cache starts anew: many hot tables fit, and parsed maps are a
/// small multiple of their bodies.
const MAX_CACHE_BYTES: usize = 8 << 20;

impl MapCache {
    /// Decides whether the table is replicated and parses its map if so.
    pub(super) fn resolve(&mut self, event: TableMapEvent<'_>, filter: &Filter) -> Result<Mapped, Halt> {
        if let Some((body, mapped)) = self.entries.get(&event.table_id)
            && TableMap::is_repeated(body, event.body)
        {
            return Ok(mapped.clone());
        }
        // A copy of its own: a slice would keep the whole receive buffer alive.
        let body = Bytes::copy_from_slice(event.body);
        let mapped = read(&body, filter)?;
        self.keep(event.table_id, body, mapped.clone());
        Ok(mapped)
    }

    fn keep(&mut self, table_id: u64, body: Bytes, mapped: Mapped) {
        if self.bytes + body.len() > MAX_CACHE_BYTES {
            self.entries.clear();
            self.bytes = 0;
        }
        self.bytes += body.len();
        if let Some((replaced, _)) = self.entries.insert(table_id, (body, mapped)) {
            self.bytes -= replaced.len();
        }
    }
}

fn read(body: &Bytes, filter: &Filter) -> Result<Mapped, Halt> {
    let (database, table) =
        TableMap::names(body).map_err(|error| Halt::new(Reason::EventMalformed, error.to_string()))?;
    if !filter.matches(database, table) {
        return Ok(Mapped::Filtered);
    }
    let map = TableMap::parse(body).map_err(|error| Halt::from(error).on_table(database, table))?;
    Ok(Mapped::Included(Arc::new(map)))
}
