use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::schema::{Column, MysqlType, TableName};

fn model(key: &[usize], targets: &[TargetType]) -> TableModel {
    let column = |(index, &target): (usize, &TargetType)| Column {
        name: format!("c{index}"),
        mysql: MysqlType::Json,
        target,
        nullable: false,
        not_null_dropped: false,
        auto_increment: false,
        generated: false,
        details: Default::default(),
    };
    TableModel {
        name: TableName { database: "app".to_owned(), table: "t".to_owned() },
        columns: targets.iter().enumerate().map(column).collect(),
        key: key.to_vec(),
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: Default::default(),
    }
}

fn row(fields: &[&[u8]]) -> Vec<u8> {
    let mut row = Vec::new();
    for field in fields {
        row.extend_from_slice(&i32::try_from(field.len()).expect("short").to_be_bytes());
        row.extend_from_slice(field);
    }
    row
}

/// Changes with the fields that they lie in.
struct Rows {
    fields: Vec<u8>,
    net: NetRows,
}

fn rows(model: &TableModel) -> Rows {
    let key = KeyColumns::new(model).expect("a key that can be compared");
    Rows { fields: Vec::new(), net: NetRows::new(key, model.columns.len()) }
}

impl Rows {
    fn put(&mut self, row: &[u8]) -> Range<usize> {
        let start = self.fields.len();
        self.fields.extend_from_slice(row);
        start..self.fields.len()
    }

    fn upsert(&mut self, row: &[u8]) -> Result<(), NotThisTable> {
        let row = self.put(row);
        self.net.upsert(&self.fields, &row)
    }

    fn delete(&mut self, row: &[u8]) -> Result<(), NotThisTable> {
        let row = self.put(row);
        self.net.delete(&self.fields, &row)
    }

    fn update(&mut self, before: &[u8], after: &[u8]) -> Result<(), NotThisTable> {
        let (before, after) = (self.put(before), self.put(after));
        self.net.update(&self.fields, &before, &after)
    }

    fn net(&self) -> Net<'_> {
        self.net.net(&self.fields)
    }
}

#[test]
fn keys_are_equal_where_the_target_says_so() {
    let floats = [TargetType::Real, TargetType::DoublePrecision];
    let mut net = rows(&model(&[0, 1], &floats));
    let zeros = (0.0_f32.to_be_bytes(), 0.0_f64.to_be_bytes());
    let negative = ((-0.0_f32).to_be_bytes(), (-0.0_f64).to_be_bytes());
    let smallest = f64::from_bits(1 << 63 | 1).to_be_bytes();
    net.upsert(&row(&[&zeros.0, &zeros.1])).unwrap();
    net.upsert(&row(&[&negative.0, &negative.1])).unwrap();
    net.upsert(&row(&[&zeros.0, &smallest])).unwrap();
    let net = net.net();
    assert_eq!(net.upserts.len(), 2);
    assert!(net.upserts.contains(&&*row(&[&negative.0, &negative.1])), "the row itself stays as it came");
}

#[test]
fn tables_whose_keys_bytes_say_nothing_are_not_merged() {
    assert!(KeyColumns::new(&model(&[], &[TargetType::Integer])).is_none());
    assert!(KeyColumns::new(&model(&[0], &[TargetType::Jsonb])).is_none());
    assert!(KeyColumns::new(&model(&[0], &[TargetType::RealArray])).is_none());
    assert!(KeyColumns::new(&model(&[1], &[TargetType::Integer])).is_none());
}

#[test]
fn fields_of_a_key_do_not_run_into_each_other() {
    let mut net = rows(&model(&[0, 1], &[TargetType::Text, TargetType::Text]));
    net.upsert(&row(&[b"a", b"bc"])).unwrap();
    net.upsert(&row(&[b"ab", b"c"])).unwrap();
    net.delete(&row(&[b"a\0", b""])).unwrap();
    net.delete(&row(&[b"a", b""])).unwrap();
    let net = net.net();
    assert_eq!((net.upserts.len(), net.deletes.len()), (2, 2));
}

#[test]
fn a_row_without_its_key_is_refused() {
    let mut net = rows(&model(&[0], &[TargetType::Text]));
    assert_eq!(net.upsert(&(-1_i32).to_be_bytes()), Err(NotThisTable));
    assert_eq!(net.delete(b""), Err(NotThisTable));
}

#[derive(Debug, Clone)]
enum Op {
    Upsert(Vec<u8>, u8),
    Delete(Vec<u8>),
    Update(Vec<u8>, Vec<u8>, u8),
}

fn op() -> impl Strategy<Value = Op> {
    let key = || proptest::collection::vec(0_u8..3, 0..11);
    prop_oneof![
        (key(), any::<u8>()).prop_map(|(key, value)| Op::Upsert(key, value)),
        key().prop_map(Op::Delete),
        (key(), key(), any::<u8>()).prop_map(|(old, new, value)| Op::Update(old, new, value)),
    ]
}

proptest! {
    /// Deletes and then upserts of the net effect do to any table what the changes do one by one.
    #[test]
    fn the_net_effect_is_that_of_the_changes(
        before in proptest::collection::btree_map(proptest::collection::vec(0_u8..3, 0..11), any::<u8>(), 0..8),
        ops in proptest::collection::vec(op(), 0..40),
    ) {
        let mut net = rows(&model(&[1], &[TargetType::SmallInt, TargetType::Bytea]));
        let image = |key: &[u8], value: u8| row(&[&[value], key]);
        let mut expected: BTreeMap<Vec<u8>, u8> = before.clone();
        for op in &ops {
            match op {
                Op::Upsert(key, value) => {
                    net.upsert(&image(key, *value)).unwrap();
                    expected.insert(key.clone(), *value);
                }
                Op::Delete(key) => {
                    net.delete(&image(key, 0)).unwrap();
                    expected.remove(key);
                }
                Op::Update(old, new, value) => {
                    net.update(&image(old, 0), &image(new, *value)).unwrap();
                    expected.remove(old);
                    expected.insert(new.clone(), *value);
                }
            }
        }
        let net = net.net();
        let mut found = before;
        for key in &net.deletes {
            found.remove(&key[4..]);
        }
        for row in &net.upserts {
            let twice = found.insert(row[9..].to_vec(), row[4]);
            prop_assert!(twice.is_none() || !net.deletes.contains(&&row[5..]));
        }
        prop_assert_eq!(found, expected);
        let mut keys: Vec<&[u8]> = net.upserts.iter().map(|row| &row[5..]).chain(net.deletes).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        prop_assert_eq!(keys.len(), count, "a key occurs once");
    }
}
