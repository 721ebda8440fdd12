//! The target: everything that reads or writes PostgreSQL.
//!
//! Only [`checkpoint::commit`] commits replicated data, and it takes a [`transaction::FencedTransaction`],
//! which only a [`session::Session`] opens and which holds the pipeline's epoch row from its
//! first statement on. A process that lost the pipeline to another one can therefore open
//! transactions but commit none.
//!
//! Reading order: [`session`], [`transaction`], [`checkpoint`], [`writer`], [`apply`], [`copy`].

pub mod apply;
mod arrays;
mod batch;
pub mod catalog;
pub mod checkpoint;
pub mod client;
pub mod connect;
pub mod conversions;
pub mod copy;
mod dependents;
pub mod error;
mod locks;
pub mod migrate;
mod net;
pub mod objects;
mod params;
mod part;
pub mod postgis;
pub mod preflight;
mod prepared;
mod rebuild;
pub mod report;
mod rows;
mod schema_change;
pub mod session;
mod statements;
pub mod table_state;
mod tables;
mod target_change;
pub mod transaction;
mod vacate;
pub mod writer;
