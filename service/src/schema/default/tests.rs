use super::*;

fn column(mysql: MysqlType, target: TargetType, default: DefaultValue) -> Column {
    let mut column = crate::schema::details::example_column("c", mysql, target);
    column.details.default = Some(default);
    column
}

fn sql(mysql: MysqlType, target: TargetType, default: DefaultValue) -> Result<String, &'static str> {
    target_default(&column(mysql, target, default))
        .map(|found| found.map(|found| found.sql).unwrap_or_default())
}

fn constant(mysql: MysqlType, target: TargetType, text: &str) -> Result<String, &'static str> {
    sql(mysql, target, DefaultValue::Literal(text.to_owned()))
}

fn computed(mysql: MysqlType, target: TargetType, text: &str) -> Result<String, &'static str> {
    sql(mysql, target, DefaultValue::Expression(text.to_owned()))
}

fn varchar(charset: &str) -> MysqlType {
    MysqlType::Varchar { length: 40, charset: charset.to_owned() }
}

const VARCHAR: TargetType = TargetType::Varchar { length: 40 };
const INT: MysqlType = MysqlType::Int { unsigned: false };

#[test]
fn numbers_lose_their_padding_and_nothing_else() {
    for (text, expected) in
        [("5", "5"), ("-7", "-7"), ("00000005", "5"), ("0000", "0"), ("1.50", "1.50"), ("-0.5", "-0.5")]
    {
        assert_eq!(constant(INT, TargetType::Integer, text).as_deref(), Ok(expected), "{text}");
    }
    for text in ["", "1;", "1e5", "--1", "1.", "'1'", "0x10"] {
        assert!(constant(INT, TargetType::Integer, text).is_err(), "{text}");
    }
    assert_eq!(
        constant(MysqlType::Double { unsigned: false }, TargetType::DoublePrecision, "1e20").as_deref(),
        Ok("'1e20'")
    );
}

#[test]
fn bits_and_booleans() {
    let bit = |width, target, text| constant(MysqlType::Bit { width }, target, text);
    assert_eq!(bit(5, TargetType::Bit { width: 5 }, "b'101'").as_deref(), Ok("B'00101'"));
    assert!(bit(2, TargetType::Bit { width: 2 }, "b'101'").is_err());
    assert_eq!(bit(1, TargetType::Boolean, "b'1'").as_deref(), Ok("true"));
    let tiny = MysqlType::TinyInt { unsigned: false, display_width_one: true };
    assert_eq!(constant(tiny.clone(), TargetType::Boolean, "0").as_deref(), Ok("false"));
    assert!(constant(tiny, TargetType::Boolean, "2").is_err());
}

#[test]
fn texts_are_quoted_and_never_guessed() {
    assert_eq!(
        constant(varchar("utf8mb4"), VARCHAR, r#"it's \ "q" é"#).as_deref(),
        Ok(r#"E'it''s \\ "q" é'"#)
    );
    assert_eq!(constant(varchar("utf8mb4"), VARCHAR, "").as_deref(), Ok("''"));
    assert_eq!(constant(varchar("utf8mb4"), VARCHAR, "a?").err(), Some(LOST_CHARACTER));
    assert_eq!(constant(varchar("latin1"), VARCHAR, "a?").as_deref(), Ok("'a?'"));
    assert!(constant(varchar("latin1"), VARCHAR, "a\0b").is_err());
    let labels = vec!["a".to_owned(), "b'c".to_owned()];
    let enumeration = MysqlType::Enum { labels: labels.clone() };
    assert_eq!(constant(enumeration.clone(), TargetType::Text, "b'c").as_deref(), Ok("'b''c'"));
    assert!(constant(enumeration, TargetType::Text, "z").is_err());
    assert_eq!(constant(MysqlType::Set { labels }, TargetType::Text, "a,b'c").as_deref(), Ok("'a,b''c'"));
}

#[test]
fn a_binary_constant_is_shown_cut_by_the_server() {
    assert_eq!(constant(MysqlType::Varbinary { length: 9 }, TargetType::Bytea, "0x").err(), Some(CUT));
    assert_eq!(
        computed(MysqlType::Binary { length: 3 }, TargetType::Bytea, "0x00ff").as_deref(),
        Ok("decode('00ff00', 'hex')")
    );
}

#[test]
fn dates_that_postgres_does_not_have_are_not_carried_over() {
    for text in ["0000-00-00", "2020-00-00", "2021-02-29", "2020-04-31", "20-1-1", "2020-01-02'"] {
        assert!(constant(MysqlType::Date, TargetType::Date, text).is_err(), "{text}");
    }
    assert_eq!(constant(MysqlType::Date, TargetType::Date, "2020-02-29").as_deref(), Ok("'2020-02-29'"));
    let timestamp = MysqlType::Timestamp { digits: 0 };
    assert_eq!(
        constant(timestamp, TargetType::TimestampTz { digits: 0 }, "2020-01-02 03:04:05").as_deref(),
        Ok("'2020-01-02 03:04:05+00'")
    );
    let time = MysqlType::Time { digits: 2 };
    assert_eq!(
        constant(time, TargetType::Interval { digits: 2 }, "-838:59:59.00").as_deref(),
        Ok("'-838:59:59.00'")
    );
}

#[test]
fn expressions_that_mean_the_same() {
    let (datetime, timestamp) = (TargetType::Timestamp { digits: 3 }, TargetType::TimestampTz { digits: 0 });
    let mysql = MysqlType::DateTime { digits: 3 };
    assert_eq!(computed(mysql.clone(), datetime, "CURRENT_TIMESTAMP(3)").as_deref(), Ok("LOCALTIMESTAMP(3)"));
    assert_eq!(computed(mysql.clone(), timestamp, "now()").as_deref(), Ok("CURRENT_TIMESTAMP(0)"));
    assert_eq!(computed(INT, TargetType::Integer, "-(3)").as_deref(), Ok("-3"));
    let text = MysqlType::Text { charset: "utf8mb4".to_owned() };
    assert_eq!(
        computed(text, TargetType::Text, r"_utf8mb4\'it\\\'s \\\\ x\\n%_\'").as_deref(),
        Ok("E'it''s \\\\ x\n%_'")
    );
    let text = MysqlType::Text { charset: "utf8mb4".to_owned() };
    assert_eq!(computed(text, TargetType::Text, r"_utf8mb4\'Ã©\'").err(), Some(LOST_CHARACTER));
    assert_eq!(computed(MysqlType::Json, TargetType::Jsonb, "json_array()").as_deref(), Ok("'[]'"));
    assert_eq!(computed(MysqlType::Json, TargetType::Jsonb, r"_utf8mb4\'{}\'").as_deref(), Ok("'{}'"));
    assert!(computed(MysqlType::Json, TargetType::Jsonb, r"_utf8mb4\'{\'").is_err());
    for text in ["(1 + 2)", "rand()", "if(1,2,3)", "utc_timestamp()", "now(7)", "_utf8mb4\\'a\\',1"] {
        assert!(computed(mysql.clone(), datetime, text).is_err(), "{text}");
    }
}
