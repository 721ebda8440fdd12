//! The copy of every table, and how it joins the stream.

pub mod plan;
