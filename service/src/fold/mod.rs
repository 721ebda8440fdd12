//! The fold: turns a sequence of binlog events into committed units.

mod charset;
mod lexer;
pub mod statement;
pub mod unit;
