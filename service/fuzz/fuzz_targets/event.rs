#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tidegate::binlog::event::{Event, open_inner};

fuzz_target!(|input: &[u8]| {
    if let Ok(raw) = open_inner(Bytes::copy_from_slice(input)) {
        let _parsed_or_error = Event::parse(&raw);
    }
});
