#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tidegate::binlog::DecodeError;
use tidegate::binlog::row_image::RowReader;
use tidegate::binlog::table_map::TableMap;

fuzz_target!(|input: &[u8]| {
    let Some((length, rest)) = input.split_first_chunk() else { return };
    let Some((map, mut images)) = rest.split_at_checked(u16::from_le_bytes(*length).into()) else { return };
    let Ok(map) = TableMap::parse(&Bytes::copy_from_slice(map)) else { return };
    let reader = RowReader::new(&map);
    while !images.is_empty() {
        let mut cells = 0;
        let row = reader.read_row(&mut images, |index, _| {
            assert_eq!(index, cells);
            cells += 1;
            Ok::<_, DecodeError>(())
        });
        if row.is_err() || cells == 0 {
            return;
        }
    }
});
