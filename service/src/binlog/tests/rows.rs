use super::fixtures;
use crate::binlog::DecodeError;
use crate::binlog::cell::{Cell, Date};
use crate::binlog::decimal;
use crate::binlog::event::Event;
use crate::binlog::json;
use crate::binlog::row_image::RowReader;
use crate::binlog::table_map::{Encoding, MapColumn, TableMap};
use std::collections::HashMap;
use std::fmt::Write;

/// A cell as the scenarios' SELECTs print it: bytes in hex, ENUM, SET and BIT as numbers,
/// TIMESTAMP as Unix time, JSON as the hex of its text.
fn render(cell: Cell<'_>, encoding: &Encoding) -> String {
    match cell {
        Cell::Null => "NULL".to_owned(),
        Cell::Int(value) => value.to_string(),
        Cell::UInt(value) | Cell::Bit(value) | Cell::Set(value) => value.to_string(),
        Cell::Enum(value) => value.to_string(),
        Cell::Float(value) => f64::from(value).to_string(),
        Cell::Double(value) => value.to_string(),
        Cell::DecimalPacked { bytes, precision, scale } => {
            let mut text = Vec::new();
            decimal::write_text(bytes, precision, scale, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        }
        Cell::Bytes(bytes) => match *encoding {
            // The log leaves trailing zero bytes of BINARY(n) out.
            Encoding::Char { max_bytes, collation: 63 } => {
                let mut padded = bytes.to_vec();
                padded.resize(max_bytes.into(), 0);
                hex(&padded)
            }
            _ => hex(bytes),
        },
        Cell::Year(value) => format!("{value:04}"),
        Cell::Date(Date { year, month, day }) => format!("{year:04}-{month:02}-{day:02}"),
        Cell::DateTime { date: Date { year, month, day }, hour, minute, second, micros } => {
            let clock = format!("{hour:02}:{minute:02}:{second:02}");
            format!("{year:04}-{month:02}-{day:02} {clock}{}", fraction(micros, encoding))
        }
        Cell::Timestamp { seconds, micros } => format!("{seconds}{}", fraction(micros, encoding)),
        Cell::Time(micros) => {
            let sign = if micros < 0 { "-" } else { "" };
            let (seconds, rest) = (micros.unsigned_abs() / 1_000_000, micros.unsigned_abs() % 1_000_000);
            let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
            format!("{sign}{hour:02}:{minute:02}:{second:02}{}", fraction(rest as u32, encoding))
        }
        Cell::JsonBinary(document) => {
            let mut text = Vec::new();
            json::to_text(document, &mut text).unwrap();
            hex(&text)
        }
        Cell::DecimalText(_) | Cell::JsonText(_) => panic!("row images have no text cells"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02X}").unwrap();
        text
    })
}

/// The point and the column's digits of a fraction; nothing may be lost by that.
fn fraction(micros: u32, encoding: &Encoding) -> String {
    let (Encoding::Time { digits } | Encoding::DateTime { digits } | Encoding::Timestamp { digits }) =
        *encoding
    else {
        panic!("no temporal column")
    };
    let text = format!(".{micros:06}");
    let (shown, hidden) = text.split_at(if digits == 0 { 0 } else { 1 + usize::from(digits) });
    assert!(hidden.bytes().all(|digit| matches!(digit, b'0' | b'.')));
    shown.to_owned()
}

/// Doubles compare as numbers: the client prints them in another form.
fn same(actual: &str, expected: &str, encoding: &Encoding) -> bool {
    match encoding {
        Encoding::Float { .. } | Encoding::Double { .. } if expected != "NULL" => {
            let (actual, expected): (f64, f64) = (actual.parse().unwrap(), expected.parse().unwrap());
            actual.to_bits() == expected.to_bits()
        }
        _ => actual == expected,
    }
}

/// Every image of a scenario as rendered cells beside its table map.
pub(super) fn images(scenario: &str) -> Vec<(std::sync::Arc<TableMap>, Vec<String>)> {
    let mut maps = HashMap::new();
    let mut rows = Vec::new();
    for event in fixtures::parsed(scenario) {
        match event {
            Event::TableMap(event) => {
                let map = TableMap::parse(event.body).unwrap();
                assert_eq!(map.table_id, event.table_id);
                assert_eq!(TableMap::names(event.body), Ok((map.database.as_str(), map.table.as_str())));
                maps.insert(event.table_id, std::sync::Arc::new(map));
            }
            Event::Rows(event) => {
                let map = &maps[&event.table_id];
                assert_eq!(event.columns, map.columns.len());
                assert!(event.full_images);
                let reader = RowReader::new(map);
                let mut images = event.images;
                while !images.is_empty() {
                    let mut row = Vec::new();
                    reader
                        .read_row(&mut images, |index, cell| {
                            row.push(render(cell, &map.columns[index].encoding));
                            Ok::<_, DecodeError>(())
                        })
                        .unwrap();
                    rows.push((map.clone(), row));
                }
            }
            _ => {}
        }
    }
    rows
}

#[test]
fn every_captured_image_equals_what_the_server_selects() {
    let mut compared = 0;
    for scenario in fixtures::scenarios() {
        let expected = fixtures::expected(&scenario);
        if expected.is_empty() {
            continue;
        }
        let images = images(&scenario);
        assert_eq!(images.len(), expected.len(), "rows of {scenario}");
        for ((map, actual), expected) in images.iter().zip(&expected) {
            let expected: Vec<_> = expected.split('\t').collect();
            assert_eq!(actual.len(), expected.len(), "columns of {}", map.table);
            for ((column, actual), expected) in map.columns.iter().zip(actual).zip(expected) {
                assert!(
                    same(actual, expected, &column.encoding),
                    "{scenario}: {}.{} is {actual}, not {expected}",
                    map.table,
                    column.name,
                );
                compared += 1;
            }
        }
    }
    assert!(compared > 500, "only {compared} cells compared");
}

/// Reads an image of one column of the given encoding.
fn read_one(encoding: Encoding, value: &[u8]) -> Option<String> {
    let column = MapColumn { name: "c".to_owned(), encoding, nullable: true, visible: true };
    let map = TableMap {
        table_id: 1,
        database: "d".to_owned(),
        table: "t".to_owned(),
        columns: vec![column],
        key: Vec::new(),
        raw: bytes::Bytes::new(),
    };
    let image = [&[0][..], value].concat();
    let (mut images, mut text) = (&image[..], String::new());
    RowReader::new(&map)
        .read_row(&mut images, |_, cell| {
            text = render(cell, &map.columns[0].encoding);
            Ok::<_, DecodeError>(())
        })
        .ok()
        .filter(|()| images.is_empty())
        .map(|()| text)
}

#[test]
fn lengths_beyond_the_column_s_are_malformed() {
    let short = || Encoding::Varchar { max_bytes: 3, collation: 8 };
    assert_eq!(read_one(short(), b"\x03abc").as_deref(), Some("616263"));
    assert_eq!(read_one(short(), b"\x04abcd"), None);
    let long = || Encoding::Char { max_bytes: 256, collation: 8 };
    assert_eq!(read_one(long(), &[&[0, 1][..], &[b'x'; 256]].concat()), Some("78".repeat(256)));
    assert_eq!(read_one(long(), &[&[1, 1][..], &[b'x'; 257]].concat()), None);
}

/// A packed DATETIME of the given fields, with as many fraction bytes as given.
fn datetime(
    year: u64,
    month: u64,
    day: u64,
    (hour, minute, second): (u64, u64, u64),
    fraction: &[u8],
) -> Vec<u8> {
    let packed = (1 << 39) | ((((year * 13 + month) << 5 | day) << 5 | hour) << 6 | minute) << 6 | second;
    [&packed.to_be_bytes()[3..], fraction].concat()
}

#[test]
fn impossible_datetimes_are_malformed() {
    let read = |digits, bytes: &[u8]| read_one(Encoding::DateTime { digits }, bytes);
    let noon = (12, 0, 0);
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(read(0, &datetime(2024, 2, 29, noon, b"")), text("2024-02-29 12:00:00"));
    assert_eq!(read(1, &datetime(2024, 2, 29, noon, &[90])), text("2024-02-29 12:00:00.9"));
    assert_eq!(
        read(6, &datetime(0, 0, 0, (23, 59, 59), &[0x0f, 0x42, 0x3f])),
        text("0000-00-00 23:59:59.999999")
    );
    for (year, clock, fraction) in [
        (10_000, noon, 0),
        (2024, (24, 0, 0), 0),
        (2024, (0, 60, 0), 0),
        (2024, (0, 0, 60), 0),
        (2024, noon, 100),
    ] {
        assert_eq!(read(2, &datetime(year, 1, 1, clock, &[fraction])), None);
    }
    let mut negative = datetime(2024, 1, 1, noon, b"");
    negative[0] &= 0x7f;
    assert_eq!(read(0, &negative), None);
}

#[test]
fn impossible_dates_times_and_bits_are_malformed() {
    let date = |year: u32, month: u32| (year << 9 | month << 5 | 1).to_le_bytes();
    assert_eq!(read_one(Encoding::Date, &date(9999, 12)[..3]).as_deref(), Some("9999-12-01"));
    assert_eq!(read_one(Encoding::Date, &date(9999, 13)[..3]), None);
    assert_eq!(read_one(Encoding::Date, &date(10_000, 1)[..3]), None);
    let time = |hour: u32, minute: u32, second: u32| {
        let packed = 0x80_0000 + (hour << 12 | minute << 6 | second);
        packed.to_be_bytes()[1..].to_vec()
    };
    assert_eq!(read_one(Encoding::Time { digits: 0 }, &time(838, 59, 59)).as_deref(), Some("838:59:59"));
    for clock in [time(839, 0, 0), time(0, 60, 0), time(0, 0, 60)] {
        assert_eq!(read_one(Encoding::Time { digits: 0 }, &clock), None);
    }
    assert_eq!(read_one(Encoding::Timestamp { digits: 2 }, &[0, 0, 0, 1, 99]).as_deref(), Some("1.99"));
    assert_eq!(read_one(Encoding::Timestamp { digits: 2 }, &[0, 0, 0, 1, 100]), None);
    assert_eq!(read_one(Encoding::Bit { width: 9 }, &[1, 0xff]).as_deref(), Some("511"));
    assert_eq!(read_one(Encoding::Bit { width: 9 }, &[2, 0]), None);
}

#[test]
fn the_first_error_of_the_caller_stops_the_row() {
    #[derive(Debug, PartialEq)]
    struct Stopped(usize);
    impl From<DecodeError> for Stopped {
        fn from(_: DecodeError) -> Self {
            Self(usize::MAX)
        }
    }
    for event in fixtures::parsed("numbers").windows(2) {
        if let [Event::TableMap(map), Event::Rows(rows)] = event {
            let reader = RowReader::new(&TableMap::parse(map.body).unwrap());
            let stop = |index, _: Cell<'_>| if index == 2 { Err(Stopped(index)) } else { Ok(()) };
            assert_eq!(reader.read_row(&mut &rows.images[..], stop), Err(Stopped(2)));
        }
    }
}
