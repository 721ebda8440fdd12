use super::*;
use crate::binlog::cell::Date;
use crate::binlog::table_map::{Encoding, MapColumn};
use crate::schema::policy::ColumnPolicies;
use crate::schema::{Column, MysqlType, TargetType};

fn column(mysql: MysqlType, target: TargetType, nullable: bool) -> Column {
    Column {
        name: "c".to_owned(),
        mysql,
        target,
        nullable,
        not_null_dropped: false,
        auto_increment: false,
        generated: false,
        details: Default::default(),
    }
}

fn users() -> TableName {
    TableName { database: "app".to_owned(), table: "users".to_owned() }
}

fn plan_of(column: &Column) -> Result<ColumnPlan, Halt> {
    ColumnPlan::new(&users(), column, ColumnPolicies::default(), Role::Plain)
}

fn plan(mysql: MysqlType, target: TargetType) -> ColumnPlan {
    plan_of(&column(mysql, target, false)).unwrap()
}

/// Longer than any value here.
const CAPACITY: usize = 1 << 20;

/// The value's bytes, its length checked and left out. Nothing is allocated for it, but for a document.
fn value(plan: &ColumnPlan, cell: Cell<'_>) -> Result<Vec<u8>, ConvertError> {
    let mut out = Vec::with_capacity(CAPACITY);
    out.extend_from_slice(b"kept");
    let mut written = Ok(());
    let taken = allocation_counter::measure(|| written = plan.write(cell, &mut out));
    if !matches!(cell, Cell::JsonBinary(_) | Cell::JsonText(_)) {
        assert_eq!(taken.count_total, 0, "allocations for {cell:?}");
    }
    written?;
    let field = out.strip_prefix(b"kept").unwrap();
    let (length, bytes) = field.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, bytes.len());
    Ok(bytes.to_vec())
}

#[track_caller]
fn assert_values(plan: &ColumnPlan, cases: &[(Cell<'_>, Result<&[u8], ConvertError>)]) {
    for (cell, expected) in cases {
        assert_eq!(value(plan, *cell), expected.map(<[u8]>::to_vec), "{cell:?}");
    }
}

const OUT_OF_RANGE: Result<&[u8], ConvertError> = Err(ConvertError::OutOfRange);
const MALFORMED: Result<&[u8], ConvertError> = Err(ConvertError::Malformed);
const UNEXPECTED: Result<&[u8], ConvertError> = Err(ConvertError::UnexpectedKind);

#[test]
fn null_is_a_length_of_minus_one() {
    let mut out = Vec::new();
    plan(MysqlType::Json, TargetType::Jsonb).write(Cell::Null, &mut out).unwrap();
    assert_eq!(out, [0xff; 4]);
}

#[test]
fn integers_are_big_endian_and_never_cut() {
    let int2 = plan(MysqlType::TinyInt { unsigned: true, display_width_one: false }, TargetType::SmallInt);
    assert_values(
        &int2,
        &[
            (Cell::Int(-1), Ok(&[0xff, 0xff])),
            (Cell::UInt(255), Ok(&[0, 255])),
            (Cell::Int(-32_769), OUT_OF_RANGE),
            (Cell::UInt(32_768), OUT_OF_RANGE),
            (Cell::Bytes(b"1"), UNEXPECTED),
        ],
    );
    let int4 = plan(MysqlType::MediumInt { unsigned: false }, TargetType::Integer);
    assert_values(
        &int4,
        &[
            (Cell::Int(-8_388_608), Ok(&[0xff, 0x80, 0, 0])),
            (Cell::UInt(16_777_215), Ok(&[0, 0xff, 0xff, 0xff])),
            (Cell::Int(1 << 31), OUT_OF_RANGE),
        ],
    );
    let int8 = plan(MysqlType::BigInt { unsigned: false }, TargetType::BigInt);
    assert_values(
        &int8,
        &[
            (Cell::Int(i64::MIN), Ok(&[0x80, 0, 0, 0, 0, 0, 0, 0])),
            (Cell::UInt(u64::from(u32::MAX)), Ok(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])),
            (Cell::UInt(1 << 63), OUT_OF_RANGE),
        ],
    );
    let year = plan(MysqlType::Year, TargetType::SmallInt);
    assert_values(&year, &[(Cell::Year(0), Ok(&[0, 0])), (Cell::Year(2155), Ok(&[8, 107]))]);
}

#[test]
fn booleans_are_zero_or_one() {
    let flag = plan(MysqlType::TinyInt { unsigned: false, display_width_one: true }, TargetType::Boolean);
    assert_values(
        &flag,
        &[
            (Cell::Int(0), Ok(&[0])),
            (Cell::Int(1), Ok(&[1])),
            (Cell::Int(2), Err(ConvertError::BeyondBoolean)),
            (Cell::Int(-1), Err(ConvertError::BeyondBoolean)),
            (Cell::UInt(1), UNEXPECTED),
        ],
    );
    let bit = plan(MysqlType::Bit { width: 1 }, TargetType::Boolean);
    assert_values(&bit, &[(Cell::Bit(0), Ok(&[0])), (Cell::Bit(1), Ok(&[1])), (Cell::Bit(2), MALFORMED)]);
}

#[test]
fn bits_are_aligned_to_the_left() {
    let nine = plan(MysqlType::Bit { width: 9 }, TargetType::Bit { width: 9 });
    assert_values(
        &nine,
        &[
            (Cell::Bit(0b1_0000_0001), Ok(&[0, 0, 0, 9, 0x80, 0x80])),
            (Cell::Bit(0), Ok(&[0, 0, 0, 9, 0, 0])),
            (Cell::Bit(1 << 9), MALFORMED),
        ],
    );
    let all = plan(MysqlType::Bit { width: 64 }, TargetType::Bit { width: 64 });
    assert_values(
        &all,
        &[(Cell::Bit(u64::MAX - 1), Ok(&[0, 0, 0, 64, 255, 255, 255, 255, 255, 255, 255, 254]))],
    );
}

#[test]
fn floats_keep_their_bits() {
    let real = plan(MysqlType::Float { unsigned: false }, TargetType::Real);
    assert_values(
        &real,
        &[
            (Cell::Float(0.1), Ok(&0.1_f32.to_be_bytes())),
            (Cell::Float(-0.0), Ok(&[0x80, 0, 0, 0])),
            (Cell::Float(f32::NAN), MALFORMED),
            (Cell::Double(0.1), UNEXPECTED),
        ],
    );
    let double = plan(MysqlType::Double { unsigned: false }, TargetType::DoublePrecision);
    assert_values(
        &double,
        &[(Cell::Double(f64::MAX), Ok(&f64::MAX.to_be_bytes())), (Cell::Double(f64::INFINITY), MALFORMED)],
    );
}

#[test]
fn binary_is_filled_up_to_its_length() {
    let binary = plan(MysqlType::Binary { length: 4 }, TargetType::Bytea);
    assert_values(
        &binary,
        &[
            (Cell::Bytes(&[0, 1]), Ok(&[0, 1, 0, 0])),
            (Cell::Bytes(b""), Ok(&[0; 4])),
            (Cell::Bytes(&[9; 4]), Ok(&[9; 4])),
            (Cell::Bytes(&[9; 5]), MALFORMED),
        ],
    );
    let varbinary = plan(MysqlType::Varbinary { length: 4 }, TargetType::Bytea);
    assert_values(&varbinary, &[(Cell::Bytes(&[0, 255]), Ok(&[0, 255])), (Cell::Bytes(b""), Ok(b""))]);
}

#[test]
fn decimals_are_numeric_from_every_form() {
    let decimal = plan(
        MysqlType::Decimal { precision: 5, scale: 2, unsigned: false },
        TargetType::Numeric { precision: 5, scale: 2 },
    );
    let expected: &[u8] = &[0, 2, 0, 0, 0x40, 0, 0, 2, 0, 123, 0x11, 0x94];
    let packed = Cell::DecimalPacked { bytes: &[0x7f, 0x84, 0xd2], precision: 5, scale: 2 };
    assert_values(&decimal, &[(Cell::DecimalText(b"-123.45"), Ok(expected)), (packed, Ok(expected))]);
    let wide = plan(MysqlType::BigInt { unsigned: true }, TargetType::Numeric { precision: 20, scale: 0 });
    assert_values(
        &wide,
        &[(Cell::UInt(10_000), Ok(&[0, 1, 0, 1, 0, 0, 0, 0, 0, 1])), (Cell::Int(1), UNEXPECTED)],
    );
}

const ZERO: Date = Date { year: 0, month: 0, day: 0 };
const PARTIAL: Date = Date { year: 2024, month: 2, day: 0 };
const INVALID: Date = Date { year: 2023, month: 2, day: 29 };

fn midnight(date: Date) -> Cell<'static> {
    Cell::DateTime { date, hour: 0, minute: 0, second: 0, micros: 0 }
}

#[test]
fn impossible_dates_are_of_their_kinds() {
    let types = [
        (
            MysqlType::Date,
            TargetType::Date,
            vec![ZERO, PARTIAL, INVALID].into_iter().map(Cell::Date).collect(),
        ),
        (
            MysqlType::DateTime { digits: 0 },
            TargetType::Timestamp { digits: 0 },
            vec![ZERO, PARTIAL, INVALID].into_iter().map(midnight).collect::<Vec<_>>(),
        ),
        (
            MysqlType::Timestamp { digits: 0 },
            TargetType::TimestampTz { digits: 0 },
            vec![Cell::Timestamp { seconds: 0, micros: 0 }],
        ),
    ];
    for (mysql, target, cells) in types {
        let plan = plan(mysql, target);
        for cell in cells {
            let error = value(&plan, cell).unwrap_err();
            assert!(matches!(error, ConvertError::ZeroDate | ConvertError::PartialDate), "{cell:?}: {error}");
        }
    }
}

#[test]
fn the_year_zero_is_a_kind_of_its_own() {
    let date = plan(MysqlType::Date, TargetType::Date);
    let new_year = Date { year: 0, month: 1, day: 1 };
    assert_eq!(value(&date, Cell::Date(new_year)), Err(ConvertError::YearZero));
}

#[test]
fn dates_and_clocks_have_known_bytes() {
    let date = plan(MysqlType::Date, TargetType::Date);
    assert_values(&date, &[(Cell::Date(Date { year: 1999, month: 12, day: 31 }), Ok(&[0xff; 4]))]);
    let datetime = plan(MysqlType::DateTime { digits: 6 }, TargetType::Timestamp { digits: 6 });
    let cell = Cell::DateTime {
        date: Date { year: 2000, month: 1, day: 2 },
        hour: 0,
        minute: 0,
        second: 1,
        micros: 5,
    };
    assert_values(&datetime, &[(cell, Ok(&86_401_000_005_i64.to_be_bytes()))]);
    let timestamp = plan(MysqlType::Timestamp { digits: 3 }, TargetType::TimestampTz { digits: 3 });
    assert_values(
        &timestamp,
        &[
            (Cell::Timestamp { seconds: 946_684_800, micros: 1_000 }, Ok(&1_000_i64.to_be_bytes())),
            (Cell::Timestamp { seconds: 946_684_800, micros: 1_001 }, OUT_OF_RANGE),
        ],
    );
    let time = plan(MysqlType::Time { digits: 0 }, TargetType::Interval { digits: 0 });
    let hour = [&3_600_000_000_i64.to_be_bytes()[..], &[0; 8]].concat();
    assert_values(&time, &[(Cell::Time(3_600_000_000), Ok(&hour)), (Cell::Time(1), OUT_OF_RANGE)]);
}

#[test]
fn a_target_that_is_not_the_type_s_own_is_refused() {
    let refused = |mysql, target| {
        let halt = plan_of(&column(mysql, target, false)).unwrap_err();
        assert_eq!(halt.table.as_deref(), Some("app.users"));
        halt.reason
    };
    assert_eq!(refused(MysqlType::Int { unsigned: true }, TargetType::Real), Reason::Internal);
    assert_eq!(
        refused(MysqlType::DateTime { digits: 6 }, TargetType::Timestamp { digits: 3 }),
        Reason::Internal
    );
    let varchar = MysqlType::Varchar { length: 10, charset: "utf8mb4".to_owned() };
    assert_eq!(refused(varchar, TargetType::Varchar { length: 9 }), Reason::Internal);
    assert_eq!(refused(MysqlType::Bit { width: 8 }, TargetType::Boolean), Reason::Internal);
    let utf7 = MysqlType::Text { charset: "utf7".to_owned() };
    assert_eq!(refused(utf7, TargetType::Text), Reason::UnsupportedCharset);
    let cube = MysqlType::Other { name: "cube".to_owned() };
    assert_eq!(refused(cube, TargetType::Bytea), Reason::UnsupportedType);
}

/// `users (id bigint, name text)` and its map.
fn table() -> (TableModel, TableMap) {
    let id = Column {
        name: "id".to_owned(),
        ..column(MysqlType::BigInt { unsigned: false }, TargetType::BigInt, false)
    };
    let text = MysqlType::Text { charset: "utf8mb4".to_owned() };
    let name = Column { name: "name".to_owned(), ..column(text, TargetType::Text, true) };
    let mapped = |name: &str, encoding, nullable| MapColumn {
        name: name.to_owned(),
        encoding,
        nullable,
        visible: true,
    };
    let map = TableMap {
        table_id: 7,
        database: "app".to_owned(),
        table: "users".to_owned(),
        columns: vec![
            mapped("id", Encoding::BigInt { unsigned: false }, false),
            mapped("name", Encoding::Blob { length_bytes: 2, collation: 255 }, true),
        ],
        key: vec![0],
        raw: bytes::Bytes::new(),
    };
    let model = TableModel {
        name: users(),
        columns: vec![id, name],
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: Default::default(),
    };
    (model, map)
}

const ROW_OF_SEVEN: &[u8] = &[0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, b'h', b'i'];
const FIELDS_OF_SEVEN: &[u8] = &[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 2, b'h', b'i'];

#[test]
fn images_and_cells_become_the_same_fields() {
    let (model, map) = table();
    let encoder = RowEncoder::new(&model, &map, &Policies::default()).unwrap();
    let null_name = [2, 8, 0, 0, 0, 0, 0, 0, 0];
    let images = [ROW_OF_SEVEN, &null_name].concat();
    let (mut rest, mut out, mut uses) = (&images[..], Vec::new(), Uses::default());
    encoder.encode(&mut rest, &mut out, &mut uses).unwrap();
    assert_eq!(out, FIELDS_OF_SEVEN);
    assert_eq!(rest, null_name);
    out.clear();
    encoder.encode(&mut rest, &mut out, &mut uses).unwrap();
    assert_eq!(out, [&[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 8][..], &[0xff; 4]].concat());
    assert!(rest.is_empty());

    let mut skipped = &images[..];
    encoder.skip(&mut skipped).unwrap();
    assert_eq!(skipped, null_name);

    // Once the buffer is large enough, rows cost no allocation.
    out.clear();
    out.reserve(images.len() * 2);
    let taken = allocation_counter::measure(|| {
        let mut rest = &images[..];
        while !rest.is_empty() {
            encoder.encode(&mut rest, &mut out, &mut uses).unwrap();
        }
    });
    assert_eq!(taken.count_total, 0);

    let plan = TablePlan::new(&model, &Policies::default()).unwrap();
    out.clear();
    for (index, cell) in [Cell::Int(7), Cell::Bytes(b"hi")].into_iter().enumerate() {
        plan.write(index, cell, &mut out, &mut uses).unwrap();
    }
    assert_eq!(out, FIELDS_OF_SEVEN);
    assert!(uses.is_empty());
}

#[test]
fn halts_name_the_column_and_never_the_value() {
    let (model, map) = table();
    let encoder = RowEncoder::new(&model, &map, &Policies::default()).unwrap();
    let halt = |images: &[u8]| {
        let stopped = encoder.encode(&mut &images[..], &mut Vec::new(), &mut Uses::default());
        let Err(Obstacle::Halt(halt)) = stopped else { panic!("not a halt: {stopped:?}") };
        assert_eq!(halt.table.as_deref(), Some("app.users"));
        halt
    };
    let nul = halt(&[0, 7, 0, 0, 0, 0, 0, 0, 0, 7, 0, b'c', b'a', b'n', b'a', b'r', b'y', 0]);
    assert_eq!(nul.reason, Reason::ValueInvalid);
    assert!(nul.detail.contains("`name`") && !nul.detail.contains("canary"), "{}", nul.detail);
    assert_eq!(halt(&[0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0xff]).reason, Reason::ValueInvalid);
    for cut in 0..ROW_OF_SEVEN.len() {
        assert_eq!(halt(&ROW_OF_SEVEN[..cut]).reason, Reason::EventMalformed);
        assert!(encoder.skip(&mut &ROW_OF_SEVEN[..cut]).is_err());
    }
}

#[test]
fn every_error_has_its_reason() {
    for (error, reason) in [
        (ConvertError::OutOfRange, Reason::ValueOutOfRange),
        (ConvertError::YearZero, Reason::ValueOutOfRange),
        (ConvertError::InvalidBytes, Reason::ValueInvalid),
        (ConvertError::NulCharacter, Reason::ValueInvalid),
        (ConvertError::NulEscape, Reason::ValueInvalid),
        (ConvertError::ZeroDate, Reason::ValueInvalid),
        (ConvertError::PartialDate, Reason::ValueInvalid),
        (ConvertError::BeyondBoolean, Reason::ValueOutOfRange),
        (ConvertError::NotInPostgis(NotInPostgis::OpenRing), Reason::ValueInvalid),
        (ConvertError::Malformed, Reason::EventMalformed),
        (ConvertError::UnexpectedKind, Reason::Internal),
    ] {
        let halt = error.into_halt(&users(), "born");
        assert_eq!((halt.reason, halt.table.as_deref()), (reason, Some("app.users")));
        assert!(halt.detail.starts_with("a value of column `born` "));
    }
}

#[test]
fn a_row_of_another_width_is_refused() {
    let (mut model, mut map) = table();
    let plan = TablePlan::new(&model, &Policies::default()).unwrap();
    let beyond = plan.write(2, Cell::Int(7), &mut Vec::new(), &mut Uses::default());
    assert!(matches!(beyond, Err(Obstacle::Halt(halt)) if halt.reason == Reason::Internal));
    map.columns.pop();
    assert_eq!(RowEncoder::new(&model, &map, &Policies::default()).unwrap_err().reason, Reason::Internal);
    model.columns.pop();
    assert!(RowEncoder::new(&model, &map, &Policies::default()).is_ok());
}
