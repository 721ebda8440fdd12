//! Tests over captured events (`testdata/binlog`) and hand-made ones.

mod envelope;
mod events;
mod fixtures;
mod json;
mod payload;
mod robustness;
mod rows;
mod table_maps;
