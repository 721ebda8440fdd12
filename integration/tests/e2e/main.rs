//! End-to-end tests: real MySQL, real PostgreSQL, the real binary.

mod canary;
mod cli;
mod collation;
mod ddl;
mod effect_once;
mod halts;
mod harness;
mod history;
mod policies;
mod runbook;
mod schema_objects;
mod sink;
mod snapshot;
mod source;
mod spill;
mod tampered;
mod target_checks;
mod types;
mod types_data;
mod xa;
