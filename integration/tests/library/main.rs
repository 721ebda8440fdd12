//! Parts of the library that need live servers and more access than the binary gives.

mod capture;
mod snapshot;
mod support;
