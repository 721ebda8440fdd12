//! The binlog's bytes: event envelope, table maps, row images. Pure; borrows from the event.
//!
//! Every decoder returns [`DecodeError`] on truncated, contradictory or unknown input and never
//! panics or allocates by an unchecked length.

pub mod cell;
mod column_type;
pub mod decimal;
mod envelope;
pub mod event;
mod gtid_event;
pub mod json;
mod map_metadata;
pub mod payload;
mod query_event;
mod reader;
pub mod row_image;
pub mod table_map;

#[cfg(test)]
mod tests;

/// Why bytes could not be decoded. Holds positions and names of structures, never content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset} of the event body")]
pub struct DecodeError {
    /// What was being read, such as "TABLE_MAP column metadata".
    pub what: &'static str,
    /// Offset in the body (or in the structure named by `what`).
    pub offset: usize,
}
