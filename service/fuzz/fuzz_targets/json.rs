#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::binlog::json;

fuzz_target!(|input: &[u8]| {
    let mut text = Vec::new();
    let result = json::to_text(input, &mut text);
    assert!(text.len() <= 64 + 16 * input.len());
    if result.is_ok() {
        assert!(std::str::from_utf8(&text).is_ok());
    }
});
