use super::*;
use crate::schema::TableName;
use crate::schema::details::{TableDetails, example_column};

fn model() -> TableModel {
    let text = |charset: &str| MysqlType::Varchar { length: 20, charset: charset.to_owned() };
    let varchar = TargetType::Varchar { length: 20 };
    let int = MysqlType::Int { unsigned: false };
    TableModel {
        name: TableName { database: "app".to_owned(), table: "t".to_owned() },
        columns: vec![
            example_column("a", int.clone(), TargetType::Integer),
            example_column(
                "d`ec",
                MysqlType::Decimal { precision: 10, scale: 2, unsigned: false },
                TargetType::Numeric { precision: 10, scale: 2 },
            ),
            example_column("s", text("utf8mb4"), varchar),
            example_column("l", text("latin1"), varchar),
            example_column("f", MysqlType::Float { unsigned: false }, TargetType::Real),
            example_column("day", MysqlType::Date, TargetType::Date),
            example_column("y", MysqlType::Year, TargetType::SmallInt),
            example_column("flag", int, TargetType::Boolean),
        ],
        key: Vec::new(),
        key_is_primary: false,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: TableDetails::default(),
    }
}

#[test]
fn what_is_understood() {
    for (clause, expected) in [
        ("(`a` > 0)", r#"("a" > 0)"#),
        ("(`A` > 0)", r#"("a" > 0)"#),
        (
            "((`a` between 0 and 10) and (`s` is not null))",
            r#"(("a" BETWEEN 0 AND 10) AND ("s" IS NOT NULL))"#,
        ),
        ("((char_length(`s`) > 1) or (`d``ec` >= 1.5))", r#"((char_length("s") > 1) OR ("d`ec" >= 1.5))"#),
        ("(`a` not in (1,2,-(3)))", r#"("a" NOT IN (1, 2, -3))"#),
        ("(`a` <=> -3)", r#"("a" IS NOT DISTINCT FROM -3)"#),
        ("(not((`a` > 0)))", r#"(NOT ("a" > 0))"#),
        ("(length(`s`) < 100)", r#"(octet_length("s") < 100)"#),
        (
            "(((`a` > 1) or (`a` < -(1))) and (`a` <> `d``ec`))",
            r#"((("a" > 1) OR ("a" < -1)) AND ("a" <> "d`ec"))"#,
        ),
        ("(`a` > 0) and (`a` < 5) or (`a` = 9)", r#"((("a" > 0) AND ("a" < 5)) OR ("a" = 9))"#),
    ] {
        assert_eq!(translate(clause, &model()).as_deref(), Some(expected), "{clause}");
    }
}

#[test]
fn what_might_mean_something_else_is_not() {
    for clause in [
        "",
        "(`a` > 0) x",
        "(`a` > )",
        r"(`s` in (_utf8mb4\'x\',_utf8mb4\'y\'))",
        r"(`s` like _utf8mb4\'x%\')",
        r"(`day` > _utf8mb4\'2000-01-01\')",
        "(`day` is not null)",
        "(length(`l`) < 100)",
        "(`f` > 1)",
        "(`a` > 1.5e3)",
        "(`a` > 0x10)",
        "(`y` > 70)",
        "(`flag` in (0,1))",
        "((`a` + 1) > 3)",
        "((0 <> `a`) xor (0 <> `a`))",
        "(`missing` > 3)",
        "(`a` not > 3)",
        "json_valid(`s`)",
    ] {
        assert_eq!(translate(clause, &model()), None, "{clause}");
    }
    let deep = format!("{}`a` > 0{}", "(".repeat(500), ")".repeat(500));
    assert_eq!(translate(&deep, &model()), None);
}

proptest::proptest! {
    /// Whatever is accepted parses back: balanced, and made of nothing but what went in.
    #[test]
    fn nothing_foreign_comes_out(clause in "[`a()0-9 <>=.,'\\\\;-]{0,40}|\\(`a` (>|<|=|<>) [0-9]{1,3}\\)") {
        if let Some(condition) = translate(&clause, &model()) {
            proptest::prop_assert!(!condition.contains([';', '\'', '\\', '`']));
            proptest::prop_assert_eq!(condition.matches('(').count(), condition.matches(')').count());
        }
    }
}
