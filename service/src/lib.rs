//! Tidegate replicates MySQL into PostgreSQL.
//!
//! ```text
//! MySQL ──socket──▶ source::dump      raw event: header + body bytes, CRC verified
//!                   binlog            (pure) event envelope, table map, row image
//!                   fold              (pure) buffers row events; releases a Unit only at a terminator
//!                      │  Unit = Transaction | SchemaChange      one channel, bounded in bytes
//!                      ▼
//!                   sink::apply       many units ─▶ one Postgres transaction
//!                   convert           (pure) row image bytes ─▶ Postgres binary
//!                   sink::checkpoint  the only COMMIT of replicated data: rows + processed GTID set
//! PostgreSQL ◀──────┘
//! ```
//!
//! Reading order: [`gtid`], [`halt`], [`binlog`], [`fold`], [`schema`], [`convert`], [`source`],
//! [`sink`], [`snapshot`], [`pipeline`].

pub mod admin;
pub mod binlog;
pub mod cli;
pub mod config;
pub mod convert;
pub mod fold;
pub mod gtid;
pub mod halt;
pub mod pipeline;
pub mod preflight;
pub mod schema;
pub mod shutdown;
pub mod sink;
pub mod snapshot;
pub mod source;
pub mod spill;
pub mod status;
pub mod telemetry;
pub mod tls;
