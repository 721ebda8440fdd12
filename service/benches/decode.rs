//! What one thread takes for a row, and for an event.
//!
//! * `rows`: from rows events to PostgreSQL's binary rows, ten columns and about 170 bytes a row, in
//!   events of the size that the server writes.
//! * `events`: small transactions as a server wrote them, verified, parsed and folded to units. They
//!   come again and again under new GTIDs, as those of one table do in a stream.

use std::hint::black_box;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tidegate::binlog::event::{ChecksumAlgorithm, Envelope, Event, RawEvent};
use tidegate::binlog::row_image::RowReader;
use tidegate::binlog::table_map::{Encoding, MapColumn, TableMap};
use tidegate::convert::{RowEncoder, Uses};
use tidegate::fold::spill::{Spill, Store};
use tidegate::fold::{Cascades, Fold, FoldPolicy, XaPolicy};
use tidegate::gtid::GtidSet;
use tidegate::schema::filter::Filter;
use tidegate::schema::policy::Policies;
use tidegate::schema::{Column, MysqlType, TableModel, TableName, TargetType, diff};

/// Rows of an 8 KiB event (`binlog_row_event_max_size`).
const ROWS_PER_EVENT: u64 = 46;
const EVENTS: u64 = 200;
const WRITE_ROWS: u8 = 30;
const GTID: u8 = 33;
const XID: u8 = 16;

/// Where an event's header has its type.
const TYPE_AT: usize = 4;
const TABLE_ID: u64 = 77;

fn columns() -> Vec<(Column, Encoding)> {
    let column = |name: &str, mysql, target, encoding| {
        let nullable = name != "id";
        let column = Column {
            name: name.to_owned(),
            mysql,
            target,
            nullable,
            not_null_dropped: false,
            auto_increment: false,
            generated: false,
            details: Default::default(),
        };
        (column, encoding)
    };
    let bigint = |name| {
        let mysql = MysqlType::BigInt { unsigned: false };
        column(name, mysql, TargetType::BigInt, Encoding::BigInt { unsigned: false })
    };
    let int = |name, unsigned| {
        let target = if unsigned { TargetType::BigInt } else { TargetType::Integer };
        column(name, MysqlType::Int { unsigned }, target, Encoding::Int { unsigned })
    };
    let varchar = |name, length: u16, charset: &str, width: u16, collation| {
        let mysql = MysqlType::Varchar { length: length.into(), charset: charset.to_owned() };
        let target = TargetType::Varchar { length: length.into() };
        column(name, mysql, target, Encoding::Varchar { max_bytes: length * width, collation })
    };
    let datetime = |name, digits| {
        let target = TargetType::Timestamp { digits };
        column(name, MysqlType::DateTime { digits }, target, Encoding::DateTime { digits })
    };
    let amount = column(
        "amount",
        MysqlType::Decimal { precision: 18, scale: 4, unsigned: false },
        TargetType::Numeric { precision: 18, scale: 4 },
        Encoding::Decimal { precision: 18, scale: 4, unsigned: false },
    );
    vec![
        bigint("id"),
        int("quantity", false),
        int("customer", true),
        bigint("sum"),
        varchar("code", 64, "utf8mb4", 4, 255),
        varchar("address", 255, "utf8mb4", 4, 255),
        amount,
        datetime("created", 6),
        datetime("updated", 0),
        varchar("note", 40, "latin1", 1, 8),
    ]
}

fn table() -> (TableModel, TableMap) {
    let (columns, encodings): (Vec<_>, Vec<_>) = columns().into_iter().unzip();
    let mapped = columns.iter().zip(encodings).map(|(column, encoding)| MapColumn {
        name: column.name.clone(),
        encoding,
        nullable: column.nullable,
        visible: true,
    });
    let map = TableMap {
        table_id: TABLE_ID,
        database: "shop".to_owned(),
        table: "orders".to_owned(),
        columns: mapped.collect(),
        key: vec![0],
        raw: Bytes::new(),
    };
    let name = TableName { database: "shop".to_owned(), table: "orders".to_owned() };
    let model = TableModel {
        name,
        columns,
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: Default::default(),
    };
    diff::check_map(&model, &map).expect("the map is that of the model");
    (model, map)
}

/// The image of row `n`.
fn push_row(n: u64, out: &mut Vec<u8>) {
    // No column is NULL.
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&n.to_le_bytes());
    out.extend_from_slice(&(n as i32 % 1_000 - 500).to_le_bytes());
    out.extend_from_slice(&(n as u32).wrapping_mul(2_654_435_761).to_le_bytes());
    out.extend_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    push_text(format!("order-{n:08}-{:06x}", n * 7919).as_bytes(), 2, out);
    push_text(format!("Grüße aus der Lange Straße {n}, 10115 Berlin, zweiter Hinterhof").as_bytes(), 2, out);
    // 14 digits before the point in 7 bytes and 4 behind it in 2.
    out.extend_from_slice(&0x80_0000_u32.to_be_bytes()[1..]);
    out.extend_from_slice(&((n % 1_000_000_000) as u32).to_be_bytes());
    out.extend_from_slice(&((n % 10_000) as u16).to_be_bytes());
    push_datetime(n, out);
    out.extend_from_slice(&((n * 997 % 1_000_000) as u32).to_be_bytes()[1..]);
    push_datetime(n / 2, out);
    push_text(b"delivered to the neighbour", 1, out);
}

/// A VARCHAR whose length takes one byte where it is at most 255 bytes long, else two.
fn push_text(text: &[u8], length_bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_le_bytes()[..length_bytes]);
    out.extend_from_slice(text);
}

/// A second of 2024, without a fraction.
fn push_datetime(n: u64, out: &mut Vec<u8>) {
    let (month, day, hour, minute, second) = (n % 12 + 1, n % 28 + 1, n % 24, n % 60, n * 7 % 60);
    let clock = hour << 12 | minute << 6 | second;
    let packed = 1 << 39 | (2024 * 13 + month) << 22 | day << 17 | clock;
    out.extend_from_slice(&packed.to_be_bytes()[3..]);
}

/// A WRITE_ROWS event as it comes from the source, with its checksum.
fn event(images: &[u8], columns: u8) -> Bytes {
    let mut body = TABLE_ID.to_le_bytes()[..6].to_vec();
    // End of statement, and two bytes of extra data that are their own length.
    body.extend_from_slice(&[1, 0, 2, 0, columns, 0xff, 0x03]);
    body.extend_from_slice(images);
    let length = u32::try_from(19 + body.len() + 4).expect("a small event");
    let mut event = vec![0; 4];
    event.push(WRITE_ROWS);
    event.extend_from_slice(&1_u32.to_le_bytes());
    event.extend_from_slice(&length.to_le_bytes());
    event.extend_from_slice(&[0; 6]);
    event.extend_from_slice(&body);
    let checksum = crc32fast::hash(&event);
    event.extend_from_slice(&checksum.to_le_bytes());
    event.into()
}

fn images_of(event: &RawEvent) -> Bytes {
    match Event::parse(event) {
        Ok(Event::Rows(rows)) => event.body.slice_ref(rows.images),
        other => panic!("no rows event: {other:?}"),
    }
}

fn decode(criterion: &mut Criterion) {
    let (model, map) = table();
    let columns = u8::try_from(model.columns.len()).expect("ten columns");
    let images: Vec<Vec<u8>> = (0..EVENTS)
        .map(|event| {
            let mut images = Vec::new();
            (event * ROWS_PER_EVENT..(event + 1) * ROWS_PER_EVENT).for_each(|row| push_row(row, &mut images));
            images
        })
        .collect();
    let bytes: usize = images.iter().map(Vec::len).sum();
    let events: Vec<Bytes> = images.iter().map(|images| event(images, columns)).collect();
    let encoder = RowEncoder::new(&model, &map, &Policies::default()).expect("every type is converted");
    let reader = RowReader::new(&map);
    let (mut out, mut uses) = (Vec::new(), Uses::default());

    let mut group = criterion.benchmark_group("rows");
    group.throughput(Throughput::Elements(EVENTS * ROWS_PER_EVENT));
    group.measurement_time(Duration::from_secs(5));
    let row_bytes = bytes as u64 / (EVENTS * ROWS_PER_EVENT);
    group.bench_function(BenchmarkId::new("decode", row_bytes), |bencher| {
        bencher.iter(|| {
            for images in &images {
                let mut rest = &images[..];
                while !rest.is_empty() {
                    reader.skip_row(&mut rest).expect("whole rows");
                }
            }
        });
    });
    group.bench_function(BenchmarkId::new("decode and convert", row_bytes), |bencher| {
        bencher.iter(|| {
            for images in &images {
                let mut rest = &images[..];
                out.clear();
                while !rest.is_empty() {
                    encoder.encode(&mut rest, &mut out, &mut uses).expect("whole rows");
                }
                black_box(&out);
            }
        });
    });
    group.bench_function(BenchmarkId::new("verify, parse, decode and convert", row_bytes), |bencher| {
        bencher.iter(|| {
            let mut envelope = Envelope::new(ChecksumAlgorithm::Crc32);
            for event in &events {
                let images = images_of(&envelope.open(event.clone()).expect("a whole event"));
                let mut rest = &images[..];
                out.clear();
                while !rest.is_empty() {
                    encoder.encode(&mut rest, &mut out, &mut uses).expect("whole rows");
                }
                black_box(&out);
            }
        });
    });
    group.finish();
}

/// Nothing of what is folded here is beyond memory.
#[derive(Debug)]
struct NoSpill;

impl Spill for NoSpill {
    fn create(&self) -> io::Result<Box<dyn Store>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// How often the captured transactions come: tables that are announced for the first time are rare.
const REPETITIONS: u64 = 100;

/// Where a GTID event has its transaction number: behind the header, the flags and the UUID.
const GNO_AT: std::ops::Range<usize> = 36..44;

/// The captured groups over and over, under GTIDs without a gap.
fn stream() -> Vec<Bytes> {
    let captured = captured();
    let head = captured.iter().position(|event| event[TYPE_AT] == GTID).expect("a group");
    let (head, groups) = captured.split_at(head);
    let mut gno = 0;
    let mut renumbered = |event: &Bytes| {
        gno += u64::from(event[TYPE_AT] == GTID);
        if event[TYPE_AT] == GTID { with_gno(event, gno) } else { event.clone() }
    };
    let again = (0..REPETITIONS).flat_map(|_| groups).map(&mut renumbered);
    head.iter().cloned().chain(again).collect()
}

fn with_gno(event: &Bytes, gno: u64) -> Bytes {
    let mut event = event.to_vec();
    event[GNO_AT].copy_from_slice(&gno.to_le_bytes());
    let content = event.len() - 4;
    let checksum = crc32fast::hash(&event[..content]);
    event[content..].copy_from_slice(&checksum.to_le_bytes());
    event.into()
}

/// The events of a captured scenario, whose transactions have a few rows each, without its schema
/// changes.
fn captured() -> Vec<Bytes> {
    let folder: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "testdata", "binlog", "mysql-9.7", "keys"].iter().collect();
    let entries = std::fs::read_dir(folder).expect("the scenario is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
    paths.sort();
    let events: Vec<Bytes> = paths.iter().map(|path| std::fs::read(path).expect("an event").into()).collect();
    let starts_group = |event: &Bytes| event[TYPE_AT] == GTID;
    let groups = events.chunk_by(|_, next| !starts_group(next));
    let is_kept = |group: &&[Bytes]| !starts_group(&group[0]) || group.iter().any(|e| e[TYPE_AT] == XID);
    groups.filter(is_kept).flatten().cloned().collect()
}

fn fold(criterion: &mut Criterion) {
    let events = stream();
    let filter = Arc::new(Filter::new(&["*.*".to_owned()], &[]).expect("a filter"));
    let policy = || FoldPolicy {
        filter: Arc::clone(&filter),
        xa: XaPolicy::Refuse,
        cascades: Cascades { exist: false, logged: true },
        max_buffer_bytes: 64 << 20,
        spill: Arc::new(NoSpill),
    };
    let mut group = criterion.benchmark_group("events");
    group.throughput(Throughput::Elements(events.len() as u64));
    group.bench_function("verify, parse and fold", |bencher| {
        bencher.iter(|| {
            let mut envelope = Envelope::new(ChecksumAlgorithm::None);
            let mut fold = Fold::new(GtidSet::new(), None, policy());
            for event in &events {
                let event = envelope.open(event.clone()).expect("a whole event");
                black_box(fold.step(event).expect("the events of a server"));
            }
        });
    });
    group.finish();
}

criterion_group!(benches, decode, fold);
criterion_main!(benches);
