//! The bodies of the fuzz targets: each takes any bytes and panics where a claim does not hold.
//!
//! `fuzz_targets/` runs them under a fuzzer, and `service/tests/fuzz.rs` over the seeds with
//! deterministic mutations, on every build.

use bytes::Bytes;
use tidegate::binlog::event::{Event, EventHeader, RawEvent, event_type, open_inner};
use tidegate::binlog::payload::PayloadReader;
use tidegate::binlog::row_image::RowReader;
use tidegate::binlog::table_map::TableMap;
use tidegate::binlog::{DecodeError, json as binary_json};
use tidegate::fold::statement::{Context, Statement, classify};
use tidegate::fold::xa::XidDigest;
use tidegate::gtid::GtidSet;
use tidegate::schema::alter::{StatementFacts, alter};
use tidegate::schema::ddl::Content;
use tidegate::schema::{Column, MysqlType, TableModel, TableName, TargetType};
use tidegate::source::reader::cell::RowLayout;
use tidegate::source::session::Definition;

/// Bound on one inflated event.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Events read of one payload at most, for speed.
const EVENTS_MAX: usize = 1000;

/// utf8mb4, latin1, gbk, sjis, gb18030, big5, cp1251, one that does not exist.
const COLLATIONS: [u16; 8] = [255, 8, 28, 13, 248, 1, 51, 9999];

/// One event, without a checksum: opens and parses, or an error.
pub fn event(input: &[u8]) {
    if let Ok(raw) = open_inner(Bytes::copy_from_slice(input)) {
        let _parsed_or_error = Event::parse(&raw);
    }
}

/// A TABLE_MAP body: whatever parses compiles to a row reader.
pub fn table_map(input: &[u8]) {
    if let Ok(map) = TableMap::parse(&Bytes::copy_from_slice(input)) {
        assert!(TableMap::names(input).is_ok());
        assert_eq!(RowReader::new(&map).columns(), map.columns.len());
    }
}

/// Length of a TABLE_MAP body (2 bytes, little-endian), the body, row images: rows, or an error.
pub fn row_image(input: &[u8]) {
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
}

/// Types of columns, as the tables of a source have them.
fn source_types() -> [MysqlType; 16] {
    [
        MysqlType::BigInt { unsigned: false },
        MysqlType::Int { unsigned: true },
        MysqlType::Decimal { precision: 65, scale: 30, unsigned: false },
        MysqlType::Float { unsigned: false },
        MysqlType::Double { unsigned: false },
        MysqlType::Varchar { length: 64, charset: "utf8mb4".to_owned() },
        MysqlType::Blob,
        MysqlType::Bit { width: 64 },
        MysqlType::Enum { labels: vec!["a".to_owned()] },
        MysqlType::Set { labels: vec!["a".to_owned()] },
        MysqlType::Year,
        MysqlType::Date,
        MysqlType::DateTime { digits: 6 },
        MysqlType::Timestamp { digits: 6 },
        MysqlType::Time { digits: 6 },
        MysqlType::Json,
    ]
}

/// Number of columns, two bytes for each (its type on the table and in the highest bit whether what is
/// sent is unsigned; the type that is sent), a row of the binary protocol: a cell for every column, or
/// none behind the first that is not readable.
pub fn result_row(input: &[u8]) {
    let Some((count, rest)) = input.split_first() else { return };
    let Some((columns, row)) = rest.split_at_checked(2 * usize::from(*count)) else { return };
    let (types, columns) = (source_types(), columns.as_chunks::<2>().0);
    let sent = |[own, sent]: &[u8; 2]| Definition { column_type: *sent, unsigned: own & 0x80 != 0 };
    let definitions: Vec<Definition> = columns.iter().map(sent).collect();
    let own = columns.iter().map(|[own, _]| &types[usize::from(own & 0x7f) % types.len()]);
    let layout = RowLayout::new(own, &definitions).expect("as many definitions as columns");
    let cells: Vec<_> = layout.cells(row).collect();
    assert_eq!(cells.len(), columns.len());
    let readable = cells.iter().position(Option::is_none).unwrap_or(cells.len());
    assert!(cells[readable..].iter().all(Option::is_none));
}

/// A binary JSON document: text in proportion to the input, or an error.
pub fn json(input: &[u8]) {
    let mut text = Vec::new();
    let result = binary_json::to_text(input, &mut text);
    assert!(text.len() <= 64 + 16 * input.len());
    if result.is_ok() {
        assert!(std::str::from_utf8(&text).is_ok());
    }
}

/// A TRANSACTION_PAYLOAD body: at most the bound in memory; inner events parse, or an error.
pub fn payload(input: &[u8]) {
    let header = EventHeader {
        timestamp: 0,
        event_type: event_type::TRANSACTION_PAYLOAD,
        server_id: 0,
        event_length: 0,
        log_pos: 0,
        flags: 0,
    };
    let raw = RawEvent { header, body: Bytes::copy_from_slice(input) };
    let Ok(Event::TransactionPayload(payload)) = Event::parse(&raw) else { return };
    let Ok(mut reader) = PayloadReader::new(&payload, EVENT_BYTES_MAX) else { return };
    for _ in 0..EVENTS_MAX {
        let Ok(Some(inner)) = reader.next_event() else { return };
        assert!(inner.body.len() <= EVENT_BYTES_MAX);
        let _parsed_or_error = Event::parse(&inner);
    }
}

/// A GTID set as text, and as the server encodes it: whatever is read is printed and encoded so that
/// it is read again.
pub fn gtid_set(input: &[u8]) {
    if let Ok(set) = GtidSet::decode(input) {
        assert_eq!(set.to_string().parse(), Ok(set));
    }
    if let Some(set) = std::str::from_utf8(input).ok().and_then(|text| text.parse::<GtidSet>().ok()) {
        assert_eq!(set.to_string().parse(), Ok(set.clone()));
        assert_eq!(GtidSet::decode(&set.encode()), Ok(set));
    }
}

/// An XA statement, or the lengths of gtrid and bqual and the data of XA RECOVER CONVERT XID: the
/// same XID is the same in both.
pub fn xid(input: &[u8]) {
    let _read_or_not = XidDigest::of_statement(input);
    let [gtrid, bqual, data @ ..] = input else { return };
    let (gtrid, bqual) = (usize::from(*gtrid), usize::from(*bqual));
    if let Ok(text) = std::str::from_utf8(data) {
        let _read_or_not = XidDigest::of_recovered(gtrid, bqual, text);
    }
    // Both spellings of whatever bytes these are.
    let hex: String = data.iter().take(128).map(|byte| format!("{byte:02x}")).collect();
    let (first, second) = hex.split_at(2 * gtrid.min(data.len().min(128)));
    let recovered =
        XidDigest::of_recovered(first.len() / 2, second.len() / 2, &format!("0x{}", hex.to_uppercase()));
    let statement = format!("XA COMMIT X'{first}',X'{second}',1");
    if first.len().max(second.len()) <= 128 {
        assert_eq!(XidDigest::of_statement(statement.as_bytes()), recovered);
        assert!(recovered.is_some());
    }
}

fn model() -> TableModel {
    let columns = ["id", "a", "b"].map(|name| Column {
        name: name.to_owned(),
        mysql: MysqlType::Int { unsigned: false },
        target: TargetType::Integer,
        nullable: name != "id",
        not_null_dropped: false,
        auto_increment: false,
        generated: false,
        details: Default::default(),
    });
    TableModel {
        name: TableName { database: "app".to_owned(), table: "t".to_owned() },
        columns: columns.to_vec(),
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: Some("utf8mb4".to_owned()),
        details: Default::default(),
    }
}

/// Two flag bytes (ANSI_QUOTES, NO_BACKSLASH_ESCAPES, REAL_AS_FLOAT; the client's character set), then
/// a statement's text: read or refused; whatever is read as ALTER TABLE alters a model or asks for a copy.
pub fn statement(input: &[u8]) {
    let [flags, collation, text @ ..] = input else { return };
    // Bits of `sql_mode`: REAL_AS_FLOAT, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, STRICT_TRANS_TABLES.
    let bits = [1, 1 << 2, 1 << 20, 1 << 21];
    let mode = bits.iter().enumerate().filter(|(at, _)| flags >> at & 1 == 1).map(|(_, bit)| bit).sum();
    let collation = COLLATIONS[usize::from(*collation) % COLLATIONS.len()];
    let context = Context {
        default_database: b"app",
        sql_mode: Some(mode),
        client_collation: Some(collation),
        connection_collation: Some(collation),
    };
    let Ok(Statement::Ddl(ddl)) = classify(text, &context) else { return };
    let Content::Alter(operations) = ddl.content else { return };
    let facts = StatementFacts {
        timestamp_micros: 1_700_000_000_000_000,
        time_zone: Some("+02:00".to_owned()),
        system_time_zone: None,
        sql_mode: Some(mode),
        explicit_defaults_for_timestamp: Some(true),
    };
    let before = model();
    if let Ok(altered) = alter(&before, &operations, &facts) {
        assert!(altered.model.key.iter().all(|at| *at < altered.model.columns.len()));
        assert_eq!(altered.model.key.len(), before.key.len());
    }
}
