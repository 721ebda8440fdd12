use bytes::Bytes;

use super::*;
use crate::schema::TableName;

fn column(name: &str, mysql: MysqlType, target: TargetType) -> Column {
    Column {
        name: name.to_owned(),
        mysql,
        target,
        nullable: name != "id",
        not_null_dropped: false,
        auto_increment: false,
        generated: false,
        details: Default::default(),
    }
}

fn labels(labels: &[&str]) -> Vec<String> {
    labels.iter().map(ToString::to_string).collect()
}

fn charset(name: &str) -> String {
    name.to_owned()
}

/// A model with a column of every type, and the map that the server sends for it.
fn pairs() -> Vec<(Column, Encoding)> {
    let numeric = TargetType::Numeric { precision: 10, scale: 2 };
    let varchar = TargetType::Varchar { length: 10 };
    vec![
        (
            column("id", MysqlType::BigInt { unsigned: false }, TargetType::BigInt),
            Encoding::BigInt { unsigned: false },
        ),
        (
            column("b", MysqlType::TinyInt { unsigned: false, display_width_one: true }, TargetType::Boolean),
            Encoding::TinyInt { unsigned: false },
        ),
        (
            column("s", MysqlType::SmallInt { unsigned: true }, TargetType::Integer),
            Encoding::SmallInt { unsigned: true },
        ),
        (
            column("m", MysqlType::MediumInt { unsigned: false }, TargetType::Integer),
            Encoding::MediumInt { unsigned: false },
        ),
        (
            column("i", MysqlType::Int { unsigned: true }, TargetType::BigInt),
            Encoding::Int { unsigned: true },
        ),
        (
            column("d", MysqlType::Decimal { precision: 10, scale: 2, unsigned: false }, numeric),
            Encoding::Decimal { precision: 10, scale: 2, unsigned: false },
        ),
        (
            column("f", MysqlType::Float { unsigned: false }, TargetType::Real),
            Encoding::Float { unsigned: false },
        ),
        (
            column("g", MysqlType::Double { unsigned: false }, TargetType::DoublePrecision),
            Encoding::Double { unsigned: false },
        ),
        (
            column("c", MysqlType::Char { length: 10, charset: charset("utf8mb4") }, varchar),
            Encoding::Char { max_bytes: 40, collation: 255 },
        ),
        (
            column("v", MysqlType::Varchar { length: 10, charset: charset("latin1") }, varchar),
            Encoding::Varchar { max_bytes: 10, collation: 8 },
        ),
        (
            column("t", MysqlType::Text { charset: charset("utf8mb3") }, TargetType::Text),
            Encoding::Blob { length_bytes: 2, collation: 33 },
        ),
        (
            column("bi", MysqlType::Binary { length: 5 }, TargetType::Bytea),
            Encoding::Char { max_bytes: 5, collation: 63 },
        ),
        (
            column("vb", MysqlType::Varbinary { length: 300 }, TargetType::Bytea),
            Encoding::Varchar { max_bytes: 300, collation: 63 },
        ),
        (column("bl", MysqlType::Blob, TargetType::Bytea), Encoding::Blob { length_bytes: 4, collation: 63 }),
        (column("bt", MysqlType::Bit { width: 9 }, TargetType::Bit { width: 9 }), Encoding::Bit { width: 9 }),
        (
            column("e", MysqlType::Enum { labels: labels(&["é", "x"]) }, TargetType::Text),
            Encoding::Enum { pack: 1, labels: vec![b"\xe9".to_vec(), b"x".to_vec()], collation: 8 },
        ),
        (
            column("se", MysqlType::Set { labels: labels(&["é", "x"]) }, TargetType::Text),
            Encoding::Set { pack: 1, labels: vec!["é".into(), b"x".to_vec()], collation: 255 },
        ),
        (column("da", MysqlType::Date, TargetType::Date), Encoding::Date),
        (
            column("ti", MysqlType::Time { digits: 3 }, TargetType::Interval { digits: 3 }),
            Encoding::Time { digits: 3 },
        ),
        (
            column("dt", MysqlType::DateTime { digits: 6 }, TargetType::Timestamp { digits: 6 }),
            Encoding::DateTime { digits: 6 },
        ),
        (
            column("ts", MysqlType::Timestamp { digits: 0 }, TargetType::TimestampTz { digits: 0 }),
            Encoding::Timestamp { digits: 0 },
        ),
        (column("y", MysqlType::Year, TargetType::SmallInt), Encoding::Year),
        (column("j", MysqlType::Json, TargetType::Jsonb), Encoding::Json { length_bytes: 4 }),
    ]
}

fn model() -> TableModel {
    TableModel {
        name: TableName { database: "app".to_owned(), table: "t".to_owned() },
        columns: pairs().into_iter().map(|(column, _)| column).collect(),
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: Default::default(),
    }
}

fn map() -> TableMap {
    let mapped = |(column, encoding): (Column, Encoding)| MapColumn {
        nullable: column.nullable,
        name: column.name,
        encoding,
        visible: true,
    };
    TableMap {
        table_id: 1,
        database: "app".to_owned(),
        table: "t".to_owned(),
        columns: pairs().into_iter().map(mapped).collect(),
        key: vec![0],
        raw: Bytes::new(),
    }
}

/// The halt's detail after `change` to the map.
fn drift(change: impl FnOnce(&mut TableMap)) -> String {
    let mut map = map();
    change(&mut map);
    let halt = check_map(&model(), &map).expect_err("no drift was found");
    assert_eq!((halt.reason, halt.table.as_deref()), (Reason::SchemaDrift, Some("app.t")));
    halt.detail
}

fn set(name: &str, encoding: Encoding) -> String {
    let detail =
        drift(|map| map.columns.iter_mut().find(|column| column.name == name).unwrap().encoding = encoding);
    assert!(detail.contains(&format!("`{name}`")), "{detail}");
    detail
}

#[test]
fn a_table_that_is_as_recorded_passes() {
    check_map(&model(), &map()).unwrap();
}

#[test]
fn every_change_of_type_is_drift() {
    assert_eq!(
        set("i", Encoding::Int { unsigned: false }),
        "column `i` was recorded as int unsigned and now is int"
    );
    assert_eq!(
        set("v", Encoding::Varchar { max_bytes: 10, collation: 51 }),
        "column `v` was recorded as varchar(10) character set latin1 and now is varchar of 10 bytes, character set cp1251"
    );
    set("i", Encoding::BigInt { unsigned: true });
    set("d", Encoding::Decimal { precision: 10, scale: 3, unsigned: false });
    set("d", Encoding::Decimal { precision: 11, scale: 2, unsigned: false });
    set("d", Encoding::Decimal { precision: 10, scale: 2, unsigned: true });
    set("f", Encoding::Double { unsigned: false });
    set("c", Encoding::Char { max_bytes: 30, collation: 33 });
    set("c", Encoding::Char { max_bytes: 44, collation: 255 });
    set("c", Encoding::Varchar { max_bytes: 40, collation: 255 });
    set("v", Encoding::Varchar { max_bytes: 11, collation: 8 });
    set("v", Encoding::Varchar { max_bytes: 10, collation: 63 });
    set("v", Encoding::Varchar { max_bytes: 10, collation: 9_999 });
    set("t", Encoding::Blob { length_bytes: 2, collation: 63 });
    set("t", Encoding::Blob { length_bytes: 2, collation: 255 });
    set("bi", Encoding::Char { max_bytes: 6, collation: 63 });
    set("bi", Encoding::Char { max_bytes: 5, collation: 8 });
    set("vb", Encoding::Varchar { max_bytes: 301, collation: 63 });
    set("bl", Encoding::Blob { length_bytes: 4, collation: 8 });
    set("bl", Encoding::Geometry { length_bytes: 4 });
    set("bl", Encoding::Vector { length_bytes: 4 });
    set("bt", Encoding::Bit { width: 10 });
    set("ti", Encoding::Time { digits: 4 });
    set("dt", Encoding::DateTime { digits: 5 });
    set("ts", Encoding::DateTime { digits: 0 });
    set("ts", Encoding::Timestamp { digits: 1 });
    set("j", Encoding::Blob { length_bytes: 4, collation: 255 });
    set("y", Encoding::TinyInt { unsigned: true });
}

#[test]
fn labels_are_compared_in_their_character_set() {
    let one = |labels: &[&[u8]], collation| Encoding::Enum {
        pack: 1,
        labels: labels.iter().map(|label| label.to_vec()).collect(),
        collation,
    };
    let mut same = map();
    // Converted to utf8mb4, the labels are the same.
    same.columns.iter_mut().find(|column| column.name == "e").unwrap().encoding =
        one(&["é".as_bytes(), b"x"], 255);
    check_map(&model(), &same).unwrap();
    for other in [
        one(&["é".as_bytes(), b"x"], 8),
        one(&[b"\xe9", b"x"], 51),
        one(&[b"x", b"\xe9"], 8),
        one(&[b"\xe9"], 8),
        one(&[b"\xe9", b"x", b"y"], 8),
    ] {
        assert_eq!(set("e", other), "column `e` was recorded with other labels than it now has");
    }
    set("se", Encoding::Set { pack: 1, labels: vec!["é".into(), b"y".to_vec()], collation: 255 });
}

#[test]
fn changes_of_the_table_s_shape_are_drift() {
    assert!(
        drift(|map| map.columns[2].name = "other".to_owned())
            .contains("`s` was recorded where `other` now is")
    );
    assert!(drift(|map| drop(map.columns.pop())).contains("23 columns and now has 22"));
    let extra = MapColumn { name: "z".to_owned(), encoding: Encoding::Date, nullable: true, visible: true };
    assert!(drift(|map| map.columns.push(extra)).contains("23 columns and now has 24"));
    assert!(drift(|map| map.columns.swap(0, 1)).contains("`id` was recorded where `b` now is"));
    assert!(
        drift(|map| map.columns[3].nullable = false).contains("`m` was recorded as NULL and now is NOT NULL")
    );
    assert!(drift(|map| map.key = vec![0, 1]).contains("(id) and now is (id, b)"));
    assert!(drift(|map| map.key.clear()).contains("(id) and now is ()"));
    assert!(drift(|map| map.table = "u".to_owned()).contains("`app`.`u`"));
}

/// The target's table as the catalog shows it when it was made from the model.
fn target() -> TargetTable {
    let columns = model().columns.into_iter().map(|column| TargetColumn {
        name: column.name,
        type_sql: column.target.to_string(),
        not_null: !column.nullable,
        has_default: false,
        generated: false,
        identity_always: false,
        deterministic: true,
        icu_locale: None,
    });
    TargetTable {
        kind: 'r',
        persistence: 'p',
        columns: columns.collect(),
        unique_indexes: vec![index("t_pkey", &["id"])],
        partitions: None,
        firing: Vec::new(),
    }
}

fn index(name: &str, columns: &[&str]) -> UniqueIndex {
    let columns = columns.iter().map(ToString::to_string).collect();
    UniqueIndex {
        name: name.to_owned(),
        columns,
        primary: name.ends_with("_pkey"),
        partial: false,
        deferrable: false,
        valid: true,
        deterministic: true,
    }
}

/// The only difference after `change` to the target.
fn difference(change: impl FnOnce(&mut TargetTable)) -> String {
    let mut target = target();
    change(&mut target);
    let differences = check_target(&model(), &target, Uniqueness::OfKey);
    let [only] = &differences[..] else { panic!("{differences:?}") };
    only.clone()
}

#[test]
fn a_target_made_from_the_model_is_fit() {
    assert_eq!(check_target(&model(), &target(), Uniqueness::OfKey), [""; 0]);
}

#[test]
fn a_target_may_be_looser() {
    let mut loose = target();
    loose.columns[0].not_null = false;
    loose.columns.reverse();
    for (name, not_null, has_default) in [("nullable", false, false), ("filled", true, true)] {
        let template = loose.columns[0].clone();
        loose.columns.push(TargetColumn { name: name.to_owned(), not_null, has_default, ..template });
    }
    assert_eq!(check_target(&model(), &loose, Uniqueness::OfKey), [""; 0]);
}

#[test]
fn every_unfitness_of_the_target_is_named() {
    assert!(difference(|table| table.kind = 'p').contains("ordinary"));
    assert!(difference(|table| table.persistence = 'u').contains("permanent"));
    assert!(
        difference(|table| table.columns[9].type_sql = "character varying(9)".to_owned())
            .contains("\"v\" is character varying(9) instead of character varying(10)")
    );
    assert!(difference(|table| table.columns[9].not_null = true).contains("\"v\" is NOT NULL"));
    assert!(difference(|table| table.columns[9].generated = true).contains("\"v\" is generated"));
    assert!(
        difference(|table| table.columns[0].identity_always = true).contains("\"id\" is GENERATED ALWAYS")
    );
    assert!(difference(|table| drop(table.columns.remove(9))).contains("\"v\" is missing"));
    let extra = TargetColumn { name: "x".to_owned(), not_null: true, ..target().columns[1].clone() };
    assert!(difference(|table| table.columns.push(extra)).contains("\"x\""));
    assert!(difference(|table| table.firing.push("audit".to_owned())).contains("\"audit\""));
}

#[test]
fn the_key_must_have_the_only_unique_index() {
    assert!(
        difference(|table| table.unique_indexes.clear()).contains("no primary key or unique index on (id)")
    );
    assert!(difference(|table| table.unique_indexes.push(index("u", &["v"]))).contains("\"u\" is not that"));
    assert!(difference(|table| table.unique_indexes.push(index("u", &[]))).contains("\"u\" is not that"));
    assert!(difference(|table| table.unique_indexes[0].deferrable = true).contains("deferrable"));
    assert!(difference(|table| table.unique_indexes[0].valid = false).contains("not valid"));
    let mut partial = target();
    partial.unique_indexes[0].partial = true;
    assert_eq!(check_target(&model(), &partial, Uniqueness::OfKey).len(), 2);
    let mut keyless = model();
    keyless.key.clear();
    assert_eq!(check_target(&keyless, &target(), Uniqueness::OfKey).len(), 1);
    assert!(has_key(&model(), &target()) && !has_key(&model(), &partial) && !has_key(&keyless, &target()));
    for unfit in [
        UniqueIndex { valid: false, ..index("t_pkey", &["id"]) },
        UniqueIndex { deferrable: true, ..index("t_pkey", &["id"]) },
        UniqueIndex { deterministic: false, ..index("t_pkey", &["id"]) },
        index("t_pkey", &["id", "v"]),
        index("t_pkey", &[]),
        index("of_the_operator", &["id"]),
    ] {
        let found = TargetTable { unique_indexes: vec![unfit], ..target() };
        assert!(!has_key(&model(), &found), "{found:?}");
    }
    let unique = TableModel { key_is_primary: false, ..model() };
    let found = TargetTable { unique_indexes: vec![index("of_the_operator", &["id"])], ..target() };
    assert!(has_key(&unique, &found));
    let mut bare = target();
    bare.unique_indexes.clear();
    assert_eq!(check_target(&keyless, &bare, Uniqueness::OfKey), [""; 0]);
    // A copy's rows may be waiting for their key, but for nothing else.
    assert_eq!(check_target(&model(), &bare, Uniqueness::OfKeyIfAny), [""; 0]);
    assert_eq!(check_target(&model(), &target(), Uniqueness::OfKeyIfAny), [""; 0]);
    bare.unique_indexes.push(index("u", &["v"]));
    assert_eq!(check_target(&model(), &bare, Uniqueness::OfKeyIfAny).len(), 1);
}

#[test]
fn text_keys_need_a_deterministic_collation() {
    let mut model = model();
    model.key = vec![9];
    model.columns[9].nullable = false;
    let mut target = target();
    target.unique_indexes = vec![index("k", &["v"])];
    assert_eq!(check_target(&model, &target, Uniqueness::OfKey), [""; 0]);
    target.columns[9].deterministic = false;
    target.columns[8].deterministic = false;
    assert_eq!(
        check_target(&model, &target, Uniqueness::OfKey),
        ["key column \"v\" has a nondeterministic collation"]
    );
}

/// As [`model`], with a text for its key and a collation of the source's for it.
fn collated() -> (TableModel, TargetTable) {
    let (mut model, mut target) = (model(), target());
    model.key = vec![9];
    let collation = TargetCollation::of("utf8mb4_0900_ai_ci");
    target.columns[9].deterministic = false;
    target.columns[9].icu_locale = collation.as_ref().map(|collation| collation.locale.clone());
    model.columns[9].details.target_collation = collation;
    target.unique_indexes = vec![index("by_bytes", &["v"])];
    (model, target)
}

#[test]
fn a_collated_key_is_found_by_bytes_and_enforced_once_its_rows_are_of_one_time() {
    let (model, mut target) = collated();
    assert_eq!(check_target(&model, &target, Uniqueness::OfKey), [""; 0]);
    target.unique_indexes.push(UniqueIndex { deterministic: false, ..index("t_pkey", &["v"]) });
    assert_eq!(check_target(&model, &target, Uniqueness::OfSource), [""; 0]);
    let [only] = &check_target(&model, &target, Uniqueness::OfKey)[..] else { panic!() };
    assert!(only.contains("\"t_pkey\" is not that of the source's key"));
    target.unique_indexes.remove(0);
    let [only] = &check_target(&model, &target, Uniqueness::OfSource)[..] else { panic!() };
    assert!(only.contains("no unique index on (v) that compares bytes"), "{only}");
}

#[test]
fn a_column_has_the_collation_that_its_model_says() {
    let (model, target) = collated();
    for change in [
        |column: &mut TargetColumn| column.deterministic = true,
        |column: &mut TargetColumn| column.icu_locale = None,
        |column: &mut TargetColumn| column.icu_locale = Some("sv-u-ks-level1".to_owned()),
    ] {
        let mut other = target.clone();
        change(&mut other.columns[9]);
        let [only] = &check_target(&model, &other, Uniqueness::OfKey)[..] else { panic!() };
        assert!(only.contains("\"v\" is not compared as utf8mb4_0900_ai_ci"), "{only}");
    }
}
