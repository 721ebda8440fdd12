//! The fold: turns a sequence of binlog events into committed units.

pub mod statement;
pub mod unit;
