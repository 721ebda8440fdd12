use super::*;
use crate::schema::details::{Index, IndexKind, IndexPart, TableDetails, example_column};
use crate::schema::{MysqlType, TargetType};

fn model(table: &str) -> TableModel {
    let mut id = example_column("id", MysqlType::Int { unsigned: false }, TargetType::Integer);
    id.nullable = false;
    id.auto_increment = true;
    let part = IndexPart { column: Some("id".to_owned()), prefix: None, descending: true, expression: None };
    let index = Index {
        name: "k".to_owned(),
        unique: false,
        kind: IndexKind::Ordered,
        visible: true,
        parts: vec![part],
    };
    TableModel {
        name: TableName { database: "app".to_owned(), table: table.to_owned() },
        columns: vec![id],
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: TableDetails { indexes: vec![index], ..TableDetails::default() },
    }
}

#[test]
fn tables_come_before_what_completes_them() {
    let not_carried_over = vec![("view".to_owned(), "`app`.`v\n; DROP`".to_owned())];
    let plan = Plan::new(&[model("a"), model("b")], Beside { not_carried_over, ..Beside::default() });
    let script = plan.script();
    let at = |text: &str| script.find(text).unwrap_or_else(|| panic!("{text} in {script}"));
    assert!(at("CREATE SCHEMA") < at("CREATE TABLE \"app\".\"a\""));
    assert!(at("CREATE TABLE \"app\".\"b\"") < at("CREATE INDEX \"a_k\""));
    assert!(script.contains("-- not carried over: view `app`.`v ; DROP`\n"));
    assert!(plan.problems.is_empty());
}

#[test]
fn names_that_meet_are_told_apart() {
    let script = Plan::new(&[model("a"), model("a_k")], Beside::default()).script();
    assert!(script.contains("CREATE INDEX \"a_k_"), "{script}");
    assert!(script.contains("CREATE INDEX \"a_k_k\""), "{script}");
}

#[test]
fn a_table_that_can_t_be_created_needs_a_decision() {
    let plan = Plan::new(&[model(&"x".repeat(64))], Beside::default());
    assert_eq!((plan.problems.len(), plan.tables.len()), (1, 0));
    assert!(plan.script().contains("-- NEEDS A DECISION: "));
}
