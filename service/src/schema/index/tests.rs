use super::*;
use crate::schema::details::{TableDetails, example_column};
use crate::schema::spatial::GeometryKind;
use crate::schema::{TableName, TargetType};

fn varchar(name: &str, length: u32) -> Column {
    let mysql = MysqlType::Varchar { length, charset: "utf8mb4".to_owned() };
    example_column(name, mysql, TargetType::Varchar { length })
}

fn model() -> TableModel {
    TableModel {
        name: TableName { database: "app".to_owned(), table: "t".to_owned() },
        columns: vec![
            example_column("a", MysqlType::Int { unsigned: false }, TargetType::Integer),
            varchar("s", 20),
            varchar("url", 5000),
            example_column("body", MysqlType::Text { charset: "utf8mb4".to_owned() }, TargetType::Text),
            example_column("raw", MysqlType::Blob, TargetType::Bytea),
            example_column("odd", MysqlType::Enum { labels: vec![String::new()] }, TargetType::Text),
            varchar("v255", 255),
            varchar("w255", 255),
            varchar("x255", 255),
            example_column(
                "shape",
                MysqlType::Geometry,
                TargetType::Geometry { kind: GeometryKind::Point, srid: 0 },
            ),
        ],
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: TableDetails::default(),
    }
}

fn part(column: &str, prefix: Option<u32>) -> IndexPart {
    let column = (!column.is_empty()).then(|| column.to_owned());
    IndexPart { column, prefix, descending: false, expression: None }
}

fn index(unique: bool, parts: Vec<IndexPart>) -> Index {
    Index { name: "k".to_owned(), unique, kind: IndexKind::Ordered, visible: true, parts }
}

fn made(index: &Index) -> (Option<(bool, String)>, usize) {
    let (made, notes) = target_index(&model(), index).unwrap();
    (made.map(|made| (made.unique, made.definition)), notes.len())
}

fn expect(index: &Index, unique: bool, definition: &str, notes: usize) {
    assert_eq!(made(index), (Some((unique, definition.to_owned())), notes), "{index:?}");
}

#[test]
fn whole_columns_keep_their_order_and_direction() {
    let mut down = part("a", None);
    down.descending = true;
    expect(&index(false, vec![down, part("s", None)]), false, r#"USING btree ("a" DESC, "s")"#, 0);
    expect(&index(true, vec![part("s", None)]), true, r#"USING btree ("s")"#, 0);
}

#[test]
fn a_prefix_becomes_the_whole_column_where_that_fits_and_nothing_is_unique() {
    expect(&index(false, vec![part("s", Some(5))]), false, r#"USING btree ("s")"#, 1);
    expect(
        &index(true, vec![part("s", Some(5)), part("a", None)]),
        true,
        r#"USING btree (left("s", 5), "a")"#,
        1,
    );
    expect(&index(false, vec![part("url", Some(255))]), false, r#"USING btree (left("url", 255))"#, 1);
    expect(&index(true, vec![part("body", Some(100))]), true, r#"USING btree (left("body", 100))"#, 1);
    expect(&index(true, vec![part("raw", Some(20))]), true, r#"USING btree (substr("raw", 1, 20))"#, 1);
}

#[test]
fn no_entry_can_be_too_large() {
    // 674 characters of 4 bytes are beyond 2,704.
    expect(&index(false, vec![part("body", Some(700))]), false, r#"USING hash ("body")"#, 1);
    let three = || vec![part("v255", None), part("w255", None), part("x255", None)];
    expect(&index(false, three()), false, r#"USING btree ("v255", "w255")"#, 1);
    expect(&index(true, three()), false, r#"USING btree ("v255", "w255")"#, 2);
    expect(&index(true, vec![part("url", None)]), false, r#"USING hash ("url")"#, 2);
}

#[test]
fn labels_that_are_one_text_are_not_unique() {
    expect(&index(true, vec![part("odd", None)]), false, r#"USING btree ("odd")"#, 1);
}

#[test]
fn what_has_no_counterpart_is_told() {
    assert_eq!(made(&index(false, vec![part("", None)])), (None, 1));
    assert_eq!(made(&Index { visible: false, ..index(false, vec![part("a", None)]) }), (None, 1));
    let spatial = |column| Index { kind: IndexKind::Spatial, ..index(false, vec![part(column, Some(32))]) };
    assert_eq!(made(&spatial("raw")), (None, 1));
    assert_eq!(made(&Index { visible: false, ..spatial("shape") }), (None, 1));
    expect(&spatial("shape"), false, r#"USING gist ("shape")"#, 0);
    expect(&Index { visible: false, ..index(true, vec![part("a", None)]) }, true, r#"USING btree ("a")"#, 0);
    let fulltext = |column| Index { kind: IndexKind::Fulltext, ..index(false, vec![part(column, None)]) };
    expect(&fulltext("s"), false, r#"USING gin (to_tsvector('simple', coalesce("s", '')))"#, 1);
    assert_eq!(made(&fulltext("body")), (None, 1));
}

#[test]
fn expressions_that_are_the_same_are_indexed_where_they_fit() {
    let over = |expression: &str| IndexPart { expression: Some(expression.to_owned()), ..part("", None) };
    let sum = || over("(`a` + 1)");
    expect(&index(false, vec![sum()]), false, r#"USING btree ((("a"::numeric + 1)))"#, 1);
    expect(&index(true, vec![sum(), part("s", None)]), true, r#"USING btree ((("a"::numeric + 1)), "s")"#, 1);
    expect(&index(false, vec![over("lower(`s`)")]), false, r#"USING btree ((lower("s")))"#, 1);
    // Rows that MySQL takes could be refused.
    assert_eq!(made(&index(true, vec![over("lower(`s`)")])), (None, 1));
    assert_eq!(made(&index(false, vec![over("lower(`body`)")])), (None, 1));
    assert_eq!(made(&index(false, vec![over("(`a` / 2)")])), (None, 1));
}
