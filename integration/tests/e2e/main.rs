//! End-to-end tests: real MySQL, real PostgreSQL, the real binary.

mod canary;
mod cli;
mod dice;
mod effect_once;
mod halts;
mod harness;
mod history;
mod sink;
mod snapshot;
mod source;
mod target_checks;
mod types;
mod types_data;
