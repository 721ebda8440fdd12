use super::*;
use crate::schema::MysqlType;
use crate::schema::details::{ColumnDetails, TableDetails, example_column};

fn column(name: &str) -> Column {
    let digits = 3;
    let text = || MysqlType::Varchar { length: 9, charset: "utf8mb4".to_owned() };
    let (mysql, target, collation) = match name.trim_end_matches(char::is_numeric) {
        "tiny" => {
            (MysqlType::TinyInt { unsigned: false, display_width_one: false }, TargetType::SmallInt, None)
        }
        "flag" => {
            (MysqlType::TinyInt { unsigned: false, display_width_one: true }, TargetType::SmallInt, None)
        }
        "int" => (MysqlType::Int { unsigned: false }, TargetType::Integer, None),
        "big" => {
            (MysqlType::BigInt { unsigned: true }, TargetType::Numeric { precision: 20, scale: 0 }, None)
        }
        "year" => (MysqlType::Year, TargetType::SmallInt, None),
        "date" => (MysqlType::Date, TargetType::Date, None),
        "datetime" => (MysqlType::DateTime { digits }, TargetType::Timestamp { digits }, None),
        "zoned" => (MysqlType::DateTime { digits }, TargetType::TimestampTz { digits }, None),
        "stamp" => (MysqlType::Timestamp { digits: 0 }, TargetType::TimestampTz { digits: 0 }, None),
        "bytes" => (text(), TargetType::Varchar { length: 9 }, Some("utf8mb4_0900_bin")),
        "padded" => (text(), TargetType::Varchar { length: 9 }, Some("utf8mb4_bin")),
        "text" => (text(), TargetType::Varchar { length: 9 }, Some("utf8mb4_0900_ai_ci")),
        "time" => (MysqlType::Time { digits: 0 }, TargetType::Interval { digits: 0 }, None),
        _ => (MysqlType::Double { unsigned: false }, TargetType::DoublePrecision, None),
    };
    let details = ColumnDetails { collation: collation.map(str::to_owned), ..ColumnDetails::default() };
    Column { nullable: false, details, ..example_column(name, mysql, target) }
}

/// A table whose key is these columns.
fn model(columns: &[&str]) -> TableModel {
    TableModel {
        name: TableName { database: "app".to_owned(), table: "t".to_owned() },
        columns: columns.iter().map(|name| column(name)).collect(),
        key: (0..columns.len()).collect(),
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: None,
        details: TableDetails::default(),
    }
}

fn source(method: &str, expression: &str, descriptions: &[&str]) -> SourcePartitions {
    let partition = |(number, description): (usize, &&str)| SourcePartition {
        name: format!("p{number}"),
        description: (!description.is_empty()).then(|| (*description).to_owned()),
    };
    SourcePartitions {
        method: method.to_owned(),
        expression: (!expression.is_empty()).then(|| expression.to_owned()),
        has_subpartitions: false,
        partitions: descriptions.iter().enumerate().map(partition).collect(),
    }
}

/// The target's partitioning in SQL, or why there is none.
fn mapped(key: &[&str], method: &str, expression: &str, descriptions: &[&str]) -> String {
    match map(&source(method, expression, descriptions), &model(key)) {
        Ok(native) => {
            let values: Vec<&str> =
                native.partitions.iter().map(|partition| partition.values.as_str()).collect();
            format!("{} | {}", native.clause().unwrap().replace(" PARTITION BY ", ""), values.join(" | "))
        }
        Err(reason) => reason,
    }
}

#[test]
fn ranges_are_those_of_the_source() {
    type Case<'a> = (&'a [&'a str], &'a str, &'a [&'a str], &'a str);
    let cases: [Case<'_>; 6] = [
        (
            &["int"],
            "`int`",
            &["-5", "10", "MAXVALUE"],
            "RANGE (\"int\") | FROM (MINVALUE) TO (-5) | FROM (-5) TO (10) | FROM (10) TO (MAXVALUE)",
        ),
        (
            &["int", "date"],
            "`date`",
            &["'2020-1-2'", "'20210228'", "MAXVALUE"],
            "RANGE (\"date\") | FROM (MINVALUE) TO ('2020-01-02') | FROM ('2020-01-02') TO ('2021-02-28') \
             | FROM ('2021-02-28') TO (MAXVALUE)",
        ),
        (
            &["datetime"],
            "`datetime`",
            &["'0000-00-00'", "'2020-01-02 3:4'", "'2020-01-02 03:04:00.25'"],
            "RANGE (\"datetime\") | FROM (MINVALUE) TO ('-infinity') | FROM ('-infinity') TO ('2020-01-02 03:04:00') \
             | FROM ('2020-01-02 03:04:00') TO ('2020-01-02 03:04:00.250000')",
        ),
        (
            &["int", "int2", "bytes"],
            "`int`,`int2`,`bytes`",
            &["1,MAXVALUE,'x'", "2,5,'q''u,o('", "MAXVALUE,MAXVALUE,MAXVALUE"],
            "RANGE (\"int\", \"int2\", \"bytes\") | FROM (MINVALUE, MINVALUE, MINVALUE) TO (1, MAXVALUE, MAXVALUE) \
             | FROM (1, MAXVALUE, MAXVALUE) TO (2, 5, 'q''u,o(') \
             | FROM (2, 5, 'q''u,o(') TO (MAXVALUE, MAXVALUE, MAXVALUE)",
        ),
        (
            &["date"],
            "to_days(`date`)",
            &["0", "737790", "3652425"],
            "RANGE (\"date\") | FROM (MINVALUE) TO ('-infinity') | FROM ('-infinity') TO ('2020-01-01') \
             | FROM ('2020-01-01') TO (MAXVALUE)",
        ),
        (
            &["zoned"],
            "YEAR(zoned)",
            &["2020", "2021"],
            "RANGE (\"zoned\") | FROM (MINVALUE) TO ('2020-01-01 00:00:00+00') \
             | FROM ('2020-01-01 00:00:00+00') TO ('2021-01-01 00:00:00+00')",
        ),
    ];
    for (key, expression, descriptions, target) in cases {
        let is_function = expression.contains('(') || expression == "`int`";
        let method = if is_function { "RANGE" } else { "RANGE COLUMNS" };
        assert_eq!(mapped(key, method, expression, descriptions), target);
    }
}

#[test]
fn one_bound_is_translated_by_type_and_function() {
    for (name, expression, bound, target) in [
        // Beyond every value of the type.
        ("int", "`int`", "9000000000", "MAXVALUE"),
        ("int", "int", "-2147483648", "-2147483648"),
        // The server prints half of the type with a sign.
        ("big", "`big`", "-1", "18446744073709551615"),
        ("year", "`year`", "2000", "2000"),
        ("tiny", "`tiny`", "128", "128"),
        ("datetime", "to_seconds(`datetime`)", "63745056001", "'2020-01-01 00:00:01'"),
        // Of the seconds of a day a date has the first.
        ("date", "to_seconds(`date`)", "63745056001", "'2020-01-02'"),
        ("date", "to_seconds(`date`)", "63745056000", "'2020-01-01'"),
        ("date", "year(`date`)", "1", "'0001-01-01'"),
        ("date", "year(`date`)", "0", "'-infinity'"),
        ("date", "year(`date`)", "10000", "MAXVALUE"),
        ("stamp", "unix_timestamp(`stamp`)", "1577836800", "'2020-01-01 00:00:00+00'"),
        ("stamp", "floor(unix_timestamp(`stamp`))", "1577836800", "'2020-01-01 00:00:00+00'"),
        ("stamp", "unix_timestamp(`stamp`)", "0", "'-infinity'"),
        ("stamp", "unix_timestamp(`stamp`)", "2147483648", "MAXVALUE"),
    ] {
        let target = format!("RANGE (\"{name}\") | FROM (MINVALUE) TO ({target})");
        assert_eq!(mapped(&[name], "RANGE", expression, &[bound]), target);
    }
}

#[test]
fn lists_and_hashes_are_mapped_by_their_columns() {
    assert_eq!(
        mapped(&["int"], "LIST", "`int`", &["NULL,1,2", "-3"]),
        "LIST (\"int\") | IN (NULL, 1, 2) | IN (-3)"
    );
    assert_eq!(
        mapped(&["big"], "LIST", "`big`", &["18446744073709551615,5"]),
        "LIST (\"big\") | IN (18446744073709551615, 5)"
    );
    assert_eq!(
        mapped(&["int", "bytes"], "LIST COLUMNS", "`bytes`", &["'a','b''c'", "''"]),
        "LIST (\"bytes\") | IN ('a', 'b''c') | IN ('')"
    );
    assert_eq!(
        mapped(&["date"], "LIST COLUMNS", "`date`", &["'2020-01-01','0000-00-00'"]),
        "LIST (\"date\") | IN ('2020-01-01', '-infinity')"
    );
    let two = "WITH (MODULUS 2, REMAINDER 0) | WITH (MODULUS 2, REMAINDER 1)";
    for method in ["HASH", "LINEAR HASH"] {
        assert_eq!(mapped(&["int", "text"], method, "`int`", &["", ""]), format!("HASH (\"int\") | {two}"));
    }
    for method in ["KEY", "LINEAR KEY"] {
        let of_all = format!("HASH (\"int\", \"text\") | {two}");
        assert_eq!(mapped(&["int", "text"], method, "", &["", ""]), of_all);
        let of_text = format!("HASH (\"text\") | {two}");
        assert_eq!(mapped(&["int", "text"], method, "`text`", &["", ""]), of_text);
    }
}

#[test]
fn what_the_target_does_not_have_is_told() {
    const ORDER: &str = "of a type whose order is another one on the target";
    const UNREAD: &str = "understood";
    for (name, method, expression, description, reason) in [
        ("int", "HASH", "(`int` + 1)", "", "expression"),
        ("int", "RANGE", "(`int` DIV 10)", "1", "expression"),
        ("int", "RANGE", "abs(`int`)", "1", "expression"),
        ("int", "LIST", "year(`int`)", "1", "expression"),
        ("int", "RANGE", "year(`int`)", "1", ORDER),
        ("stamp", "RANGE", "year(`stamp`)", "1", ORDER),
        ("datetime", "RANGE", "unix_timestamp(`datetime`)", "1", ORDER),
        ("int", "RANGE", "`other`", "1", "not part of the key"),
        ("int", "STRIPE", "`int`", "1", "STRIPE"),
        // What is equal differs: case, or blanks at the end.
        ("text", "LIST COLUMNS", "`text`", "'a'", ORDER),
        ("padded", "LIST COLUMNS", "`padded`", "'a'", ORDER),
        ("padded", "RANGE COLUMNS", "`padded`", "'a'", ORDER),
        ("time", "RANGE COLUMNS", "`time`", "'10:00:00'", ORDER),
        // The rows decide whether it becomes boolean.
        ("flag", "RANGE", "`flag`", "1", ORDER),
        ("flag", "HASH", "`flag`", "", "does not partition by"),
        ("double", "KEY", "", "", "does not partition by"),
        ("bytes", "LIST COLUMNS", "`bytes`", "'b\\\\s'", UNREAD),
        ("bytes", "LIST COLUMNS", "`bytes`", "_latin1 0x61", UNREAD),
        ("bytes", "RANGE COLUMNS", "`bytes`", "NULL", UNREAD),
        ("bytes", "RANGE COLUMNS", "`bytes`", "'a','b'", UNREAD),
        ("date", "RANGE COLUMNS", "`date`", "'2021-02-29'", UNREAD),
        ("date", "RANGE COLUMNS", "`date`", "'2020-01-01 00:00:00'", UNREAD),
        ("date", "RANGE COLUMNS", "`date`", "'20-01-01'", UNREAD),
        ("datetime", "RANGE COLUMNS", "`datetime`", "'2020-01-01 00:00:00.1234'", UNREAD),
        ("datetime", "RANGE COLUMNS", "`datetime`", "'2020-01-01 24:00:00'", UNREAD),
        // MySQL's year 0.
        ("date", "RANGE", "to_days(`date`)", "365", UNREAD),
        ("int", "LIST", "`int`", "9000000000", UNREAD),
    ] {
        let found = mapped(&[name], method, expression, &[description]);
        assert!(found.contains(reason), "{method} {expression} {description}: {found}");
    }
    let tuple = mapped(&["int", "bytes"], "LIST COLUMNS", "`int`,`bytes`", &["(1,'a')"]);
    assert!(tuple.contains("one column only"), "{tuple}");
    // Two partitions, of which the target's type leaves one empty.
    assert!(mapped(&["int"], "RANGE", "`int`", &["9000000000", "9000000001"]).contains("one on the target"));
    let times = ["'2020-01-01'", "'2020-1-1','2020-01-02'"];
    assert!(mapped(&["date"], "LIST COLUMNS", "`date`", &times).contains("one on the target"));
}

#[test]
fn a_table_as_a_whole_may_stand_in_the_way() {
    let plain = source("HASH", "`int`", &["", ""]);
    let reason = |source: &SourcePartitions, model: &TableModel| map(source, model).unwrap_err();
    let subpartitioned = SourcePartitions { has_subpartitions: true, ..plain.clone() };
    assert!(reason(&subpartitioned, &model(&["int"])).contains("subpartitions"));
    let keyless = TableModel { key: Vec::new(), ..model(&["int"]) };
    assert!(reason(&plain, &keyless).contains("no key"));
    let mut collated = model(&["int", "text"]);
    collated.columns[1].details.target_collation =
        crate::schema::collation::TargetCollation::of("utf8mb4_0900_ai_ci");
    assert!(reason(&plain, &collated).contains("compared as on the source"));
    let many = source("HASH", "`int`", &vec![""; MAX_PARTITIONS + 1]);
    assert!(reason(&many, &model(&["int"])).contains("more than"));
    let choose = |choice, source| TargetPartitions::choose(choice, source, &model(&["int"]));
    assert_eq!(choose(PartitionChoice::Plain, Some(&plain)), TargetPartitions::Plain);
    assert_eq!(choose(PartitionChoice::Native, None), TargetPartitions::Plain);
    assert!(choose(PartitionChoice::Native, Some(&plain)).native().is_some());
    assert!(matches!(
        choose(PartitionChoice::Native, Some(&subpartitioned)),
        TargetPartitions::Unmapped(reason) if reason.contains("subpartitions")
    ));
}

#[test]
fn partitions_are_named_after_their_table_and_what_is_left_has_one() {
    let range = map(&source("RANGE", "`int`", &["5"]), &model(&["int"])).unwrap();
    let table = model(&["int"]).name;
    let mut taken = Names::new(["t_p0".to_owned()]);
    let statements = range.statements(&table, &mut taken).unwrap();
    let hashed = Candidates::of_partition(&table, "p0").hashed;
    assert_eq!(
        statements,
        [
            format!(
                "CREATE TABLE \"app\".\"{hashed}\" PARTITION OF \"app\".\"t\" FOR VALUES FROM (MINVALUE) TO (5)"
            ),
            "CREATE TABLE \"app\".\"t_default\" PARTITION OF \"app\".\"t\" DEFAULT".to_owned(),
        ]
    );
    let hash = map(&source("HASH", "`int`", &["", ""]), &model(&["int"])).unwrap();
    assert_eq!(hash.statements(&table, &mut Names::default()).unwrap().len(), 2);
}

#[test]
fn a_table_of_the_target_has_to_have_a_place_for_every_row() {
    let list = map(&source("LIST", "`int`", &["1"]), &model(&["int"])).unwrap();
    let places = |strategy, has_default, moduli: &[i64]| FoundPlaces {
        strategy,
        has_default,
        moduli: moduli.to_vec(),
    };
    let fit = FoundPartitions {
        places: places('l', true, &[]),
        columns: vec!["int".to_owned()],
        partitions: 7,
        incomplete: Vec::new(),
        odd: 0,
    };
    assert_eq!(list.differences(&fit), [""; 0]);
    let differs = |native: &Native, found: FoundPartitions| native.differences(&found).join("; ");
    let of = |places| FoundPartitions { places, ..fit.clone() };
    assert!(differs(&list, of(places('l', false, &[]))).contains("DEFAULT"));
    assert!(differs(&list, of(places('r', true, &[]))).contains("by LIST (int)"));
    assert!(
        differs(&list, FoundPartitions { columns: vec!["a".to_owned()], ..fit.clone() }).contains("by LIST")
    );
    assert!(differs(&list, FoundPartitions { odd: 1, ..fit.clone() }).contains("logged"));
    let nested = FoundPartitions { incomplete: vec!["p".to_owned()], ..fit.clone() };
    assert!(differs(&list, nested).contains("partition \"p\" is partitioned itself"));
    assert_eq!(list.missing(&FoundPartitions { partitions: 2, ..fit.clone() }), None);
    assert!(list.missing(&FoundPartitions { partitions: 1, ..fit.clone() }).is_some());

    let hash = map(&source("HASH", "`int`", &["", ""]), &model(&["int"])).unwrap();
    for whole in [&[2, 2][..], &[1], &[2, 4, 4], &[3, 3, 6, 6]] {
        assert_eq!(hash.differences(&of(places('h', false, whole))), [""; 0], "{whole:?}");
    }
    for part in [&[4, 4][..], &[], &[2], &[2, 4], &[3, 6, 6]] {
        assert!(differs(&hash, of(places('h', false, part))).contains("place for every row"), "{part:?}");
    }
}

#[test]
fn another_setting_for_a_table_that_is_copied_is_told() {
    let of = |method: Option<&str>, target: TargetPartitions| {
        let mut model = model(&["int"]);
        model.details.partitioning = method.map(str::to_owned);
        model.details.target_partitions = target;
        model
    };
    let native = || TargetPartitions::Native(map(&source("HASH", "`int`", &[""]), &model(&["int"])).unwrap());
    let told = |recorded: &TableModel, present: &TableModel| other_choice(recorded, present).is_some();
    let (plain, partitioned) = (of(Some("HASH"), TargetPartitions::Plain), of(Some("HASH"), native()));
    assert!(told(&plain, &partitioned) && told(&partitioned, &plain));
    assert!(!told(&plain, &plain) && !told(&partitioned, &partitioned));
    // The stream will tell.
    let unpartitioned = of(None, TargetPartitions::Plain);
    assert!(!told(&partitioned, &unpartitioned) && !told(&unpartitioned, &partitioned));
    // It would be plain in any case.
    let unmapped = of(Some("HASH"), TargetPartitions::Unmapped(String::new()));
    assert!(!told(&plain, &unmapped) && !told(&unmapped, &plain));
}
