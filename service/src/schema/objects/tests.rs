use super::*;
use crate::schema::MysqlType;
use crate::schema::details::{Action, IndexPart, TableDetails, example_column};

fn table(name: &str, columns: &[&str], details: TableDetails) -> TableModel {
    let column = |name: &&str| {
        let mut column = example_column(name, MysqlType::BigInt { unsigned: false }, TargetType::BigInt);
        column.nullable = false;
        column
    };
    TableModel {
        name: TableName { database: "app".to_owned(), table: name.to_owned() },
        columns: columns.iter().map(column).collect(),
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details,
    }
}

fn index(name: &str, columns: &[&str]) -> Index {
    let part = |column: &&str| IndexPart {
        column: Some((*column).to_owned()),
        prefix: None,
        descending: false,
        expression: None,
    };
    let (name, kind) = (name.to_owned(), IndexKind::Ordered);
    Index { name, unique: true, kind, visible: true, parts: columns.iter().map(part).collect() }
}

fn key_to(parent: &str, columns: &[&str]) -> ForeignKey {
    ForeignKey {
        name: "fk".to_owned(),
        columns: vec!["a".to_owned(); columns.len()],
        parent: TableName { database: "app".to_owned(), table: parent.to_owned() },
        parent_columns: columns.iter().map(ToString::to_string).collect(),
        on_update: Action::Cascade,
        on_delete: Action::SetNull,
    }
}

fn child(key: ForeignKey) -> TableModel {
    table("child", &["id", "a"], TableDetails { foreign_keys: vec![key], ..TableDetails::default() })
}

fn parent() -> TableModel {
    let indexes = vec![index("u", &["x", "y"])];
    table("parent", &["id", "x", "y"], TableDetails { indexes, ..TableDetails::default() })
}

fn statements(model: &TableModel, others: &[TableModel]) -> (Vec<String>, usize) {
    let find = |name: &TableName| others.iter().find(|model| model.name == *name);
    let (objects, notes) = objects(model, &find).unwrap();
    let mut relations = Names::default();
    let statement = |object: &Object| object.statement(&object.target_name(&mut relations)).unwrap();
    (objects.iter().map(statement).collect(), notes.len())
}

#[test]
fn a_foreign_key_needs_a_replicated_parent_with_unique_columns() {
    let (built, notes) = statements(&child(key_to("parent", &["id"])), &[parent()]);
    let expected = r#"ALTER TABLE "app"."child" ADD CONSTRAINT "fk" FOREIGN KEY ("a") REFERENCES "app"."parent" ("id") ON UPDATE CASCADE ON DELETE SET NULL"#;
    assert_eq!((built.as_slice(), notes), ([expected.to_owned()].as_slice(), 0));
    assert_eq!(statements(&child(key_to("parent", &["y", "x"])), &[parent()]).0.len(), 1);
    for (key, others) in [
        (key_to("parent", &["id"]), Vec::new()),
        (key_to("parent", &["x"]), vec![parent()]),
        (key_to("parent", &["missing"]), vec![parent()]),
    ] {
        assert_eq!(statements(&child(key), &others), (Vec::new(), 1));
    }
    let mut other_type = parent();
    other_type.columns[0].target = TargetType::Integer;
    assert_eq!(statements(&child(key_to("parent", &["id"])), &[other_type]), (Vec::new(), 1));
    let itself = TableModel { name: child(key_to("child", &["id"])).name, ..child(key_to("child", &["id"])) };
    assert_eq!(statements(&itself, &[]).0.len(), 1);
}

#[test]
fn the_key_is_not_built_twice() {
    let mut model = parent();
    model.key = vec![1, 2];
    model.key_is_primary = false;
    assert_eq!(statements(&model, &[]), (Vec::new(), 0));
    model.key_is_primary = true;
    assert_eq!(
        statements(&model, &[]).0,
        [r#"CREATE UNIQUE INDEX "parent_u" ON "app"."parent" USING btree ("x", "y")"#]
    );
}

#[test]
fn checks_are_built_where_they_mean_the_same() {
    let check = |name: &str, expression: &str, enforced| Check {
        name: name.to_owned(),
        expression: expression.to_owned(),
        enforced,
    };
    let checks =
        vec![check("c", "(`x` > 0)", true), check("n", "(`x` > 0)", false), check("f", "f(`x`)", true)];
    let model = table("t", &["id", "x"], TableDetails { checks, ..TableDetails::default() });
    let (built, notes) = statements(&model, &[]);
    assert_eq!(built, [r#"ALTER TABLE "app"."t" ADD CONSTRAINT "c" CHECK (("x" > 0))"#]);
    assert_eq!(notes, 2);
}

#[test]
fn long_names_are_cut_and_told() {
    let mut model = parent();
    model.details.indexes = vec![index(&"ж".repeat(40), &["x"]), index("plain", &["y"])];
    let (built, notes) = statements(&model, &[]);
    assert_eq!((built.len(), notes), (2, 1));
}

#[test]
fn an_object_without_rows_to_check_is_a_foreign_key() {
    let model = child(key_to("parent", &["id"]));
    let others = [parent()];
    let (objects, _) = objects(&model, &|name| others.iter().find(|model| model.name == *name)).unwrap();
    assert!(objects[0].unvalidated_statement("fk").unwrap().unwrap().ends_with(" NOT VALID"));
    assert_eq!(objects[0].parent(), Some(&others[0].name));
    let (objects, _) = super::objects(&others[0], &|_| None).unwrap();
    assert_eq!(objects[0].unvalidated_statement("u").unwrap(), None);
    assert!(objects[0].is_unique());
}
