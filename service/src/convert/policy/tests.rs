use proptest::prelude::*;

use super::*;
use crate::binlog::cell::Date;
use crate::binlog::row_image::RowReader;
use crate::binlog::table_map::{Encoding, MapColumn, TableMap};
use crate::convert::{RowEncoder, TablePlan};
use crate::halt::Reason;
use crate::schema::details::{Index, IndexKind, IndexPart};
use crate::schema::policy::Policies;
use crate::schema::{TableModel, TableName};

fn name() -> TableName {
    TableName { database: "app".to_owned(), table: "t".to_owned() }
}

fn model(mysql: MysqlType, target: TargetType, nullable: bool) -> TableModel {
    let column = Column {
        name: "c".to_owned(),
        mysql,
        target,
        nullable,
        not_null_dropped: false,
        details: Default::default(),
        auto_increment: false,
        generated: false,
    };
    TableModel {
        name: name(),
        columns: vec![column],
        key: Vec::new(),
        key_is_primary: false,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: Default::default(),
    }
}

/// The value's bytes (`None` for NULL) and the policy's uses, by the path of the copy.
fn stored(
    model: &TableModel,
    policies: &Policies,
    cell: Cell<'_>,
) -> Result<(Option<Vec<u8>>, u64), Obstacle> {
    let (mut out, mut uses) = (b"kept".to_vec(), Uses::default());
    let written = TablePlan::new(model, policies).unwrap().write(0, cell, &mut out, &mut uses);
    if written.is_err() {
        assert_eq!(out, b"kept", "nothing of a refused value stays");
        assert!(uses.is_empty());
    }
    written?;
    let (length, bytes) = out[4..].split_first_chunk::<4>().unwrap();
    let length = i32::from_be_bytes(*length);
    let value = (length >= 0).then(|| bytes.to_vec());
    assert_eq!(usize::try_from(length).unwrap_or(0), bytes.len());
    let mut counts = 0;
    for used in uses.drain() {
        assert_eq!((used.column, used.policy), (0, policies.of(&name(), "c").of(used.kind)));
        counts += used.count;
    }
    Ok((value, counts))
}

fn text(charset: &str, length: u32) -> TableModel {
    let mysql = MysqlType::Varchar { length, charset: charset.to_owned() };
    model(mysql, TargetType::Varchar { length }, true)
}

fn day(year: u16, month: u8, day: u8) -> Cell<'static> {
    Cell::Date(Date { year, month, day })
}

/// A column and a cell of each kind.
fn of_kind(kind: ValueKind) -> (TableModel, Cell<'static>) {
    let boolean = MysqlType::TinyInt { unsigned: false, display_width_one: true };
    match kind {
        ValueKind::ZeroDate => (model(MysqlType::Date, TargetType::Date, true), day(0, 0, 0)),
        ValueKind::PartialDate => (model(MysqlType::Date, TargetType::Date, true), day(2021, 0, 17)),
        ValueKind::YearZero => (model(MysqlType::Date, TargetType::Date, true), day(0, 1, 1)),
        ValueKind::BeyondBoolean => (model(boolean, TargetType::Boolean, true), Cell::Int(2)),
        ValueKind::NulText => (text("utf8mb4", 20), Cell::Bytes(b"a\0b")),
        ValueKind::NulJson => {
            (model(MysqlType::Json, TargetType::Jsonb, true), Cell::JsonText(b"\"\\u0000\""))
        }
        ValueKind::InvalidBytes => (text("utf8mb4", 20), Cell::Bytes(b"a\xffb")),
        ValueKind::OutOfRange => {
            let digits = (MysqlType::Time { digits: 0 }, TargetType::Interval { digits: 0 });
            (model(digits.0, digits.1, true), Cell::Time(1))
        }
    }
}

#[test]
fn every_kind_takes_every_policy_that_it_has() {
    for kind in ValueKind::ALL {
        let (model, cell) = of_kind(kind);
        for policy in kind.choices().iter().filter_map(|name| Policy::from_name(name)) {
            let policies = Policies::default().with(kind, policy);
            let result = stored(&model, &policies, cell);
            match policy {
                Policy::Refuse => {
                    let Err(Obstacle::Halt(halt)) = result else { panic!("{kind}: {result:?}") };
                    assert!(matches!(halt.reason, Reason::ValueInvalid | Reason::ValueOutOfRange), "{halt}");
                    assert!(halt.detail.contains("`c`") && halt.detail.contains(kind.name()), "{halt}");
                }
                Policy::Null => assert_eq!(result, Ok((None, 1)), "{kind}"),
                Policy::Replace => assert!(matches!(result, Ok((Some(_), 1))), "{kind}: {result:?}"),
                Policy::Widen => {
                    let form = ChangeForm::Widen;
                    assert_eq!(result, Err(Obstacle::Change(TargetChange { column: 0, kind, form })));
                }
            }
        }
    }
}

#[test]
fn null_in_a_column_that_is_not_null_asks_for_the_change_and_then_takes_it() {
    for kind in ValueKind::ALL {
        let (mut model, cell) = of_kind(kind);
        model.columns[0].nullable = false;
        let policies = Policies::default().with(kind, Policy::Null);
        let change = TargetChange { column: 0, kind, form: ChangeForm::DropNotNull };
        assert_eq!(stored(&model, &policies, cell), Err(Obstacle::Change(change)), "{kind}");
        assert!(change.make(&mut model));
        assert_eq!(stored(&model, &policies, cell), Ok((None, 1)), "{kind}");
    }
}

#[test]
fn a_widened_column_stores_the_value_itself() {
    let (mut model, cell) = of_kind(ValueKind::BeyondBoolean);
    let policies = Policies::default();
    let Err(Obstacle::Change(change)) = stored(&model, &policies, cell) else { panic!("not widened") };
    assert!(change.make(&mut model));
    assert_eq!(stored(&model, &policies, cell), Ok((Some(vec![0, 2]), 0)));
    assert_eq!(stored(&model, &policies, Cell::Int(1)), Ok((Some(vec![0, 1]), 0)));
}

#[test]
fn replacements_are_the_documented_ones() {
    let replaced = |kind, model: &TableModel, cell| {
        stored(model, &Policies::default().with(kind, Policy::Replace), cell).unwrap().0.unwrap()
    };
    let date = model(MysqlType::Date, TargetType::Date, true);
    assert_eq!(replaced(ValueKind::ZeroDate, &date, day(0, 0, 0)), i32::MIN.to_be_bytes());
    let datetime = model(MysqlType::DateTime { digits: 0 }, TargetType::Timestamp { digits: 0 }, true);
    let midnight =
        Cell::DateTime { date: Date { year: 0, month: 0, day: 0 }, hour: 0, minute: 0, second: 0, micros: 0 };
    assert_eq!(replaced(ValueKind::ZeroDate, &datetime, midnight), i64::MIN.to_be_bytes());
    let timestamp = model(MysqlType::Timestamp { digits: 0 }, TargetType::TimestampTz { digits: 0 }, true);
    let zero = Cell::Timestamp { seconds: 0, micros: 0 };
    assert_eq!(replaced(ValueKind::ZeroDate, &timestamp, zero), i64::MIN.to_be_bytes());
    // PostgreSQL: SELECT date '2021-01-17' - date '2000-01-01'.
    assert_eq!(replaced(ValueKind::PartialDate, &date, day(2021, 0, 17)), 7_687_i32.to_be_bytes());

    let nul = |model: &TableModel, bytes| {
        String::from_utf8(replaced(ValueKind::NulText, model, Cell::Bytes(bytes))).unwrap()
    };
    assert_eq!(nul(&text("utf8mb4", 5), b"\0a\0\xc3\xa9\0"), "\u{fffd}a\u{fffd}é\u{fffd}");
    assert_eq!(nul(&text("latin1", 3), b"\0\x80a"), "\u{fffd}€a");
    assert_eq!(nul(&text("ascii", 3), b"a\0b"), "a\u{fffd}b");
    let invalid = |charset, bytes| {
        String::from_utf8(replaced(ValueKind::InvalidBytes, &text(charset, 9), Cell::Bytes(bytes))).unwrap()
    };
    assert_eq!(invalid("utf8mb4", b"a\xff\xe2\x82b"), "a\u{fffd}\u{fffd}b");
    assert_eq!(invalid("utf8mb3", "a😀b".as_bytes()), "a\u{fffd}b");
    assert_eq!(invalid("ascii", b"a\x80\x81"), "a\u{fffd}\u{fffd}");

    let json = model(MysqlType::Json, TargetType::Jsonb, true);
    let document = br#"{"a\u0000": "\\u0000 \\\u0000\u0000 \n"}"#;
    let expected = br#"{"a\ufffd": "\\u0000 \\\ufffd\ufffd \n"}"#;
    assert_eq!(replaced(ValueKind::NulJson, &json, Cell::JsonText(document))[1..], expected[..]);
    // A binary string of one NUL.
    let binary = replaced(ValueKind::NulJson, &json, Cell::JsonBinary(b"\x0c\x01\0"));
    assert_eq!(binary, b"\x01\"\\ufffd\"");
}

#[test]
fn one_problem_s_policy_does_not_cover_the_other() {
    let both = Cell::Bytes(b"\0\xff");
    let (nul, invalid) = (ValueKind::NulText, ValueKind::InvalidBytes);
    let with = |kinds: &[ValueKind]| {
        kinds.iter().fold(Policies::default(), |all, kind| all.with(*kind, Policy::Replace))
    };
    let text = text("utf8mb4", 5);
    for policies in [with(&[]), with(&[nul]), with(&[invalid])] {
        assert!(matches!(stored(&text, &policies, both), Err(Obstacle::Halt(_))));
    }
    let replaced = "\u{fffd}\u{fffd}".as_bytes().to_vec();
    assert_eq!(stored(&text, &with(&[nul, invalid]), both), Ok((Some(replaced), 1)));
}

#[test]
fn a_replacement_that_is_too_long_is_refused() {
    let policies = Policies::default().with(ValueKind::InvalidBytes, Policy::Replace);
    let four = Cell::Bytes(b"\xff\xff\xff\xff");
    assert!(stored(&text("utf8mb4", 4), &policies, four).is_ok());
    let Err(Obstacle::Halt(halt)) = stored(&text("utf8mb4", 3), &policies, four) else { panic!("stored") };
    assert_eq!(halt.reason, Reason::ValueOutOfRange);
}

#[test]
fn a_key_takes_only_what_keeps_values_apart() {
    for kind in ValueKind::ALL {
        let (mut model, cell) = of_kind(kind);
        model.key = vec![0];
        for policy in kind.choices().iter().filter_map(|name| Policy::from_name(name)) {
            let result = stored(&model, &Policies::default().with(kind, policy), cell);
            let apart = kind.stays_distinct(policy);
            let on_key =
                matches!(&result, Err(Obstacle::Halt(halt)) if halt.reason == Reason::ConversionOnKey);
            assert_eq!(on_key, !apart, "{kind} {policy}: {result:?}");
        }
    }
}

#[test]
fn a_unique_index_takes_nulls_and_what_keeps_values_apart() {
    let part = IndexPart { column: Some("c".to_owned()), prefix: None, descending: false, expression: None };
    let index = |part, unique| Index {
        name: "u".to_owned(),
        unique,
        kind: IndexKind::Ordered,
        visible: true,
        parts: vec![part],
    };
    let of = IndexPart { column: None, expression: Some("concat(`c`,`c`)".to_owned()), ..part };
    let on_key = |kind, policy, index: Index| {
        let (mut model, cell) = of_kind(kind);
        model.columns[0].name = "c".to_owned();
        model.details.indexes = vec![index];
        let result = stored(&model, &Policies::default().with(kind, policy), cell);
        matches!(&result, Err(Obstacle::Halt(halt)) if halt.reason == Reason::ConversionOnKey)
    };
    for (kind, policy, expected) in [
        (ValueKind::PartialDate, Policy::Replace, true),
        (ValueKind::PartialDate, Policy::Null, false),
        (ValueKind::ZeroDate, Policy::Replace, false),
        (ValueKind::NulText, Policy::Replace, true),
        (ValueKind::InvalidBytes, Policy::Null, false),
        (ValueKind::BeyondBoolean, Policy::Widen, false),
    ] {
        assert_eq!(on_key(kind, policy, index(part.clone(), true)), expected, "{kind} {policy}");
        assert!(!on_key(kind, policy, index(part.clone(), false)), "{kind} {policy}");
    }
    assert!(on_key(ValueKind::NulText, Policy::Replace, index(of, true)));
}

fn map(encoding: Encoding) -> TableMap {
    TableMap {
        table_id: 1,
        database: "app".to_owned(),
        table: "t".to_owned(),
        columns: vec![MapColumn { name: "c".to_owned(), encoding, nullable: true, visible: true }],
        key: Vec::new(),
        raw: bytes::Bytes::new(),
    }
}

fn all(policy: Policy) -> Policies {
    let kinds = ValueKind::ALL.into_iter().filter(|kind| kind.allows(policy));
    kinds.fold(Policies::default(), |all, kind| all.with(kind, policy))
}

/// Writes one field and counts its policy's use.
type Write<'a> = &'a dyn Fn(&mut Vec<u8>, &mut Uses) -> Result<(), Obstacle>;

/// What the stream makes of an image, and what the copy makes of the cell that is in it.
fn both_paths(
    model: &TableModel,
    encoding: Encoding,
    image: &[u8],
    policy: Policy,
) -> [Result<(Vec<u8>, Uses), Obstacle>; 2] {
    let (map, policies) = (map(encoding), all(policy));
    let run = |write: Write<'_>| {
        let (mut out, mut uses) = (Vec::new(), Uses::default());
        write(&mut out, &mut uses).map(|()| (out, uses))
    };
    let encoder = RowEncoder::new(model, &map, &policies).unwrap();
    let plan = TablePlan::new(model, &policies).unwrap();
    let stream = run(&|out, uses| encoder.encode(&mut &image[..], out, uses));
    let copy = run(&|out, uses| {
        let mut written = Ok(());
        let read = RowReader::new(&map).read_row(&mut &image[..], |index, cell| {
            written = plan.write(index, cell, out, uses);
            Ok::<_, crate::binlog::DecodeError>(())
        });
        read.unwrap();
        written
    });
    [stream, copy]
}

fn any_policy() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Refuse), Just(Policy::Null), Just(Policy::Replace), Just(Policy::Widen)]
}

proptest! {
    #[test]
    fn text_is_the_same_by_both_paths(
        bytes in proptest::collection::vec(prop_oneof![4 => any::<u8>(), 3 => b'a'..=b'z', 1 => Just(0)], 0..12),
        charset in prop_oneof![Just(("utf8mb4", 255)), Just(("utf8mb3", 33)), Just(("latin1", 8)), Just(("ascii", 11))],
        policy in any_policy(), nullable in any::<bool>(),
    ) {
        let mut model = text(charset.0, 40);
        model.columns[0].nullable = nullable;
        let mut image = vec![0, u8::try_from(bytes.len()).unwrap()];
        image.extend_from_slice(&bytes);
        let [stream, copy] =
            both_paths(&model, Encoding::Varchar { max_bytes: 160, collation: charset.1 }, &image, policy);
        prop_assert_eq!(&stream, &copy);
        if let (Ok((out, _)), Policy::Replace) = (&stream, policy) {
            let text = std::str::from_utf8(&out[4..]).unwrap();
            prop_assert!(!text.contains('\0'));
        }
    }

    #[test]
    fn dates_are_the_same_by_both_paths_and_replacements_are_days(
        (year, month, day) in (0_u32..=9999, 0_u32..=12, 0_u32..=31),
        policy in any_policy(), nullable in any::<bool>(),
    ) {
        let model = model(MysqlType::Date, TargetType::Date, nullable);
        let packed = (year << 9 | month << 5 | day).to_le_bytes();
        let image = [0, packed[0], packed[1], packed[2]];
        let [stream, copy] = both_paths(&model, Encoding::Date, &image, policy);
        prop_assert_eq!(&stream, &copy);
        if policy == Policy::Replace {
            let (out, _) = stream.unwrap();
            let days = i32::from_be_bytes(out[4..].try_into().unwrap());
            // From 1 BC on, or before everything.
            prop_assert!(days == i32::MIN || (-730_485..=2_921_939).contains(&days));
        }
    }
}
