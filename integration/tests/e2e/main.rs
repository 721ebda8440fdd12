//! End-to-end tests: real MySQL, real PostgreSQL, the real binary.

mod harness;
mod sink;
mod snapshot;
mod source;
