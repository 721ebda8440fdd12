use super::fixtures;
use crate::binlog::DecodeError;
use crate::binlog::cell::{Cell, Date};
use crate::binlog::decimal;
use crate::binlog::event::Event;
use crate::binlog::json;
use crate::binlog::row_image::RowReader;
use crate::binlog::table_map::{Encoding, TableMap};
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
                let map = TableMap::parse(&event.body).unwrap();
                assert_eq!(map.table_id, event.table_id);
                assert_eq!(TableMap::names(&event.body), Ok((map.database.as_str(), map.table.as_str())));
                maps.insert(event.table_id, std::sync::Arc::new(map));
            }
            Event::Rows(event) => {
                let map = &maps[&event.table_id];
                assert_eq!(event.columns, map.columns.len());
                assert!(event.full_images);
                let reader = RowReader::new(map);
                let mut images = &event.images[..];
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
