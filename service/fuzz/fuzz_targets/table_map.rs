#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tidegate::binlog::row_image::RowReader;
use tidegate::binlog::table_map::TableMap;

fuzz_target!(|input: &[u8]| {
    if let Ok(map) = TableMap::parse(&Bytes::copy_from_slice(input)) {
        assert!(TableMap::names(input).is_ok());
        assert_eq!(RowReader::new(&map).columns(), map.columns.len());
    }
});
