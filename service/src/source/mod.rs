//! The MySQL side: SQL connections, preflight, the binlog dump and the snapshot's reads.
//!
//! Owns everything that speaks MySQL's protocol. Knows nothing of the target, applies nothing and
//! persists nothing. Row values pass through [`reader`] and [`dump`]; neither they nor statement
//! literals enter an error or a log line: a driver's error becomes text only through
//! [`connect::redact`].

pub mod capture;
pub mod connect;
pub mod data;
pub mod dump;
pub mod preflight;
pub mod reader;
pub mod session;
pub mod xa;
