//! The fuzz targets of Tidegate.

pub mod targets;
