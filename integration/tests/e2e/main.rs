//! End-to-end tests: real MySQL, real PostgreSQL, the real binary.

mod canary;
mod cli;
mod collation;
mod ddl;
mod dice;
mod effect_once;
mod frozen;
mod halts;
mod harness;
mod history;
mod policies;
mod round_trip;
mod runbook;
mod schema_objects;
mod shapes;
mod sink;
mod snapshot;
mod source;
mod spill;
mod tampered;
mod target_checks;
mod tls;
mod torture;
mod types;
mod types_data;
mod xa;
