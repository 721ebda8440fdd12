//! End-to-end tests: real MySQL, real PostgreSQL, the real binary.

mod effect_once;
mod harness;
mod snapshot;
mod source;
