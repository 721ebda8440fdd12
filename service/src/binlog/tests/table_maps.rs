use std::collections::HashMap;

use bytes::Bytes;

use super::{fixtures, rows};
use crate::binlog::event::Event;
use crate::binlog::table_map::{Encoding, TableMap, TableMapError};
use crate::halt::{Halt, Reason};

/// The last map of each table of a scenario.
fn maps(scenario: &str) -> HashMap<String, TableMap> {
    let maps = fixtures::parsed(scenario).into_iter().filter_map(|event| match event {
        Event::TableMap(event) => Some(TableMap::parse(event.body).unwrap()),
        _ => None,
    });
    maps.map(|map| (map.table.clone(), map)).collect()
}

fn column<'a>(map: &'a TableMap, name: &str) -> &'a crate::binlog::table_map::MapColumn {
    map.columns.iter().find(|column| column.name == name).unwrap()
}

#[test]
fn numbers_with_their_sign() {
    let maps = maps("numbers");
    let ints = &maps["ints"];
    let unsigned: Vec<_> = ints
        .columns
        .iter()
        .filter(|column| {
            matches!(
                column.encoding,
                Encoding::TinyInt { unsigned: true }
                    | Encoding::SmallInt { unsigned: true }
                    | Encoding::MediumInt { unsigned: true }
                    | Encoding::Int { unsigned: true }
                    | Encoding::BigInt { unsigned: true }
            )
        })
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(unsigned, ["b", "d", "f", "h", "j"]);
    assert_eq!(column(ints, "y").encoding, Encoding::Year);
    assert!(!column(ints, "id").nullable && column(ints, "a").nullable);
    let decimals = &maps["decimals"];
    assert_eq!(
        column(decimals, "a").encoding,
        Encoding::Decimal { precision: 65, scale: 30, unsigned: false }
    );
    assert_eq!(column(decimals, "j").encoding, Encoding::Decimal { precision: 8, scale: 3, unsigned: true });
    assert_eq!(column(&maps["floats"], "d").encoding, Encoding::Double { unsigned: true });
    assert_eq!(column(&maps["bits"], "e").encoding, Encoding::Bit { width: 33 });
}

#[test]
fn character_columns_with_their_collation() {
    let maps = maps("strings");
    let texts = &maps["texts"];
    let collation = |name: &str| match column(texts, name).encoding {
        Encoding::Varchar { collation, .. }
        | Encoding::Char { collation, .. }
        | Encoding::Blob { collation, .. } => collation,
        _ => panic!("{name} is no character column"),
    };
    // latin1, utf8mb4, binary, cp1251, gbk, utf8mb3, ucs2, utf16, sjis, ascii, gb18030, utf8mb4_bin, utf32, big5, koi8r
    let expected = [
        ("a", 8),
        ("b", 255),
        ("c", 255),
        ("d", 255),
        ("e", 63),
        ("f", 63),
        ("g", 51),
        ("h", 255),
        ("i", 28),
        ("j", 255),
        ("k", 63),
        ("l", 63),
        ("m", 63),
        ("n", 63),
        ("o", 33),
        ("p", 35),
        ("q", 54),
        ("r", 13),
        ("s", 8),
        ("t", 11),
        ("u", 63),
        ("v", 248),
        ("w", 46),
        ("x", 60),
        ("y", 1),
        ("z", 7),
    ];
    for (name, id) in expected {
        assert_eq!(collation(name), id, "column {name}");
    }
    assert_eq!(column(texts, "b").encoding, Encoding::Varchar { max_bytes: 1200, collation: 255 });
    assert_eq!(column(texts, "d").encoding, Encoding::Char { max_bytes: 1020, collation: 255 });
    assert_eq!(column(texts, "e").encoding, Encoding::Char { max_bytes: 5, collation: 63 });
    let prefixes: Vec<_> = ["k", "l", "m", "n"].map(|name| column(texts, name).encoding.clone()).into();
    let blob = |length_bytes| Encoding::Blob { length_bytes, collation: 63 };
    assert_eq!(prefixes, [blob(1), blob(2), blob(3), blob(4)]);
}

#[test]
fn vectors_count_among_the_character_columns() {
    let maps = maps("spatial");
    let vectors = &maps["vectors"];
    assert_eq!(column(vectors, "a").encoding, Encoding::Varchar { max_bytes: 10, collation: 8 });
    assert_eq!(column(vectors, "v").encoding, Encoding::Vector { length_bytes: 4 });
    assert_eq!(column(vectors, "b").encoding, Encoding::Varchar { max_bytes: 40, collation: 255 });
    assert_eq!(column(vectors, "t").encoding, Encoding::Blob { length_bytes: 2, collation: 8 });
    assert!(maps["shapes"].columns[1..].iter().all(|c| c.encoding == Encoding::Geometry { length_bytes: 4 }));
}

#[test]
fn labels_in_the_column_s_own_charset() {
    let maps = maps("strings");
    let labels = &maps["labels"];
    let texts = |list: &[&[u8]]| list.iter().map(|label| label.to_vec()).collect::<Vec<_>>();
    let zé = "zé".as_bytes();
    let sé = "sé".as_bytes();
    let koi8r = b"\xd4\xcf\xcc\xd8\xcb\xcf"; // только
    assert_eq!(
        column(labels, "a").encoding,
        Encoding::Enum { pack: 1, labels: texts(&[b"x", b"y", zé]), collation: 255 }
    );
    assert_eq!(
        column(labels, "b").encoding,
        Encoding::Set { pack: 1, labels: texts(&[b"p", b"q", b"r", sé]), collation: 255 }
    );
    assert_eq!(
        column(labels, "c").encoding,
        Encoding::Enum { pack: 1, labels: texts(&[koi8r, b"b"]), collation: 7 }
    );
    assert_eq!(
        column(labels, "e").encoding,
        Encoding::Enum { pack: 1, labels: texts(&[b"a", b"b"]), collation: 8 }
    );
    let wide = &maps["wide_labels"];
    let Encoding::Enum { pack: 2, labels, .. } = &column(wide, "a").encoding else { panic!("no wide ENUM") };
    assert_eq!((labels.len(), labels[299].as_slice()), (300, &b"v300"[..]));
    let Encoding::Set { pack: 8, labels, .. } = &column(wide, "b").encoding else { panic!("no wide SET") };
    assert_eq!(labels.len(), 64);
}

#[test]
fn keys_in_key_order_and_invisible_columns() {
    let maps = maps("keys");
    let key = |table: &str| {
        let map = &maps[table];
        map.key.iter().map(|index| map.columns[*index].name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(key("key_order"), ["c", "b"]);
    assert_eq!(key("key_prefix"), ["c", "b", "a"]);
    assert_eq!(key("no_key"), [""; 0]);
    assert_eq!(key("invisible_key"), ["my_row_id"]);
    let hidden = |table: &str| {
        let columns = maps[table].columns.iter();
        columns.filter(|column| !column.visible).map(|column| column.name.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(hidden("invisible_key"), ["my_row_id"]);
    assert_eq!(hidden("computed"), ["d", "kk"]);
    assert_eq!(maps["computed"].columns.len(), 8, "hidden columns of indexes are not logged");
    assert_eq!(maps["computed"].database, "s");
}

#[test]
fn minimal_metadata_is_refused_by_name() {
    let results: Vec<_> = fixtures::parsed("unsupported")
        .into_iter()
        .filter_map(|event| match event {
            Event::TableMap(event) => Some((TableMap::parse(event.body), event)),
            _ => None,
        })
        .collect();
    let (last, event) = results.last().unwrap();
    assert_eq!(*last, Err(TableMapError::NoColumnNames));
    assert_eq!(TableMap::names(event.body), Ok(("s", "t")));
    assert_eq!(Halt::from(TableMapError::NoColumnNames).reason, Reason::RowMetadataNotFull);
    assert_eq!(results.iter().filter(|(result, _)| result.is_ok()).count(), results.len() - 1);
}

/// A map of table `d.t` with the given type codes, column metadata and optional metadata.
fn body(types: &[u8], metadata: &[u8], optional: &[(u8, &[u8])]) -> Bytes {
    let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0];
    body.push(types.len() as u8);
    body.extend(types);
    body.push(metadata.len() as u8);
    body.extend(metadata);
    body.extend(vec![0; types.len().div_ceil(8)]);
    for (kind, value) in optional {
        body.extend([*kind, value.len() as u8]);
        body.extend(*value);
    }
    body.into()
}

#[test]
fn a_map_is_repeated_whatever_its_flags_say_of_the_statement() {
    let first = body(&[3], &[], &[(4, b"\x01c")]);
    let mut again = first.to_vec();
    again[6] |= 2;
    assert!(TableMap::is_repeated(&first, &again));
    for at in (0..first.len()).filter(|at| !matches!(at, 6 | 7)) {
        let mut other = first.to_vec();
        other[at] ^= 1;
        assert!(!TableMap::is_repeated(&first, &other), "byte {at}");
    }
    assert!(!TableMap::is_repeated(&first, &first[..first.len() - 1]));
}

fn parse_one(code: u8, metadata: &[u8], optional: &[(u8, &[u8])]) -> Result<Encoding, TableMapError> {
    let optional = [&[(4, &b"\x01c"[..])], optional].concat();
    TableMap::parse(&body(&[code], metadata, &optional)).map(|map| map.columns[0].encoding.clone())
}

#[test]
fn unknown_column_types_are_refused_by_name() {
    for (code, name) in [
        (7, "TIMESTAMP of before MySQL 5.6.4"),
        (11, "TIME of before MySQL 5.6.4"),
        (12, "DATETIME of before MySQL 5.6.4"),
        (14, "NEWDATE"),
        (20, "TYPED ARRAY"),
        (243, "unknown to this release"),
    ] {
        let error = parse_one(code, &[], &[]).unwrap_err();
        assert_eq!(error, TableMapError::UnknownType(code));
        assert_eq!(error.to_string(), format!("column of type {name}"));
        assert_eq!(Halt::from(error).reason, Reason::UnsupportedType);
    }
    assert_eq!(parse_one(254, &[250, 1], &[]), Err(TableMapError::UnknownType(250)));
}

#[test]
fn unknown_metadata_is_skipped_by_its_length() {
    let optional: [(u8, &[u8]); 3] = [(99, b"whatever"), (1, &[0x80]), (200, b"")];
    assert_eq!(parse_one(3, &[], &optional), Ok(Encoding::Int { unsigned: true }));
}

#[test]
fn contradictory_metadata_is_malformed() {
    let malformed = |code: u8, metadata: &[u8], optional: &[(u8, &[u8])]| {
        assert!(matches!(parse_one(code, metadata, optional), Err(TableMapError::Decode(_))), "type {code}");
    };
    malformed(3, &[], &[]); // an INT without signedness
    malformed(3, &[], &[(1, &[0x80]), (1, &[0x80])]); // twice
    malformed(3, &[], &[(1, &[0x80, 0])]); // too long
    malformed(3, &[1], &[(1, &[0])]); // metadata left over
    malformed(3, &[], &[(1, &[0]), (8, &[1])]); // key column out of range
    malformed(3, &[], &[(1, &[0]), (8, &[0, 0])]); // key column twice
    malformed(15, &[10, 0], &[]); // VARCHAR without charset
    malformed(15, &[10, 0], &[(2, &[8, 1, 9])]); // charset of a column that isn't there
    malformed(15, &[10, 0], &[(3, &[8, 8])]);
    malformed(15, &[10], &[(3, &[8])]); // metadata cut off
    malformed(4, &[8], &[(1, &[0])]); // FLOAT of eight bytes
    malformed(16, &[1, 8], &[]); // BIT(65)
    malformed(18, &[7], &[]);
    malformed(246, &[66, 0], &[(1, &[0])]);
    malformed(246, &[5, 6], &[(1, &[0])]);
    malformed(252, &[5], &[(3, &[8])]);
    malformed(254, &[247, 3], &[(6, &[1, 1, b'a']), (11, &[8])]); // ENUM in three bytes
    malformed(254, &[248, 5], &[(5, &[1, 1, b'a']), (11, &[8])]);
    malformed(254, &[247, 1], &[(11, &[8])]); // ENUM without labels
    malformed(254, &[247, 1], &[(6, &[2, 1, b'a']), (11, &[8])]); // labels cut off
    malformed(254, &[247, 1], &[(6, &[252, 0xff, 0xff]), (11, &[8])]); // more labels than bytes
}

#[test]
fn the_number_of_columns_is_bounded() {
    let with_columns = |count: u16| {
        let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0, 252];
        body.extend(count.to_le_bytes());
        body.extend(vec![10; count.into()]); // DATE
        body.push(0);
        body.extend(vec![0; usize::from(count).div_ceil(8)]);
        let names = [1, b'c'].repeat(count.into());
        body.extend([4, 252]);
        body.extend((names.len() as u16).to_le_bytes());
        body.extend(names);
        TableMap::parse(&body.into()).map(|map| map.columns.len())
    };
    assert_eq!(with_columns(4096), Ok(4096));
    assert!(matches!(with_columns(4097), Err(TableMapError::Decode(_))));
    assert!(matches!(with_columns(0), Err(TableMapError::Decode(_))));
}

#[test]
fn default_charset_with_exceptions() {
    let optional: [(u8, &[u8]); 2] = [(4, b"\x01a\x01b\x01c"), (2, &[252, 255, 0, 1, 8])];
    let map = TableMap::parse(&body(&[15, 15, 15], &[10, 0, 10, 0, 10, 0], &optional)).unwrap();
    let collations: Vec<_> = map
        .columns
        .iter()
        .map(|column| if let Encoding::Varchar { collation, .. } = column.encoding { collation } else { 0 })
        .collect();
    assert_eq!(collations, [255, 8, 255]);
}

#[test]
fn long_char_spreads_its_length_over_both_bytes() {
    let charset: [(u8, &[u8]); 1] = [(3, &[8])];
    for (metadata, max_bytes) in [([0xfe, 255], 255), ([0xee, 0], 256), ([0xce, 252], 1020), ([0xde, 1], 513)]
    {
        assert_eq!(parse_one(254, &metadata, &charset), Ok(Encoding::Char { max_bytes, collation: 8 }));
    }
}

#[test]
fn equal_bodies_parse_equally() {
    let (first, _) = &rows::images("xa")[0];
    assert_eq!(TableMap::parse(&first.raw).as_ref(), Ok(&**first));
}
