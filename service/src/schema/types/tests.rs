use super::*;

fn users() -> TableName {
    TableName { database: "app".to_owned(), table: "users".to_owned() }
}

fn parse(facts: ColumnFacts<'_>) -> Result<MysqlType, Halt> {
    parse_column(&facts, &users(), "c")
}

fn target(mysql: &MysqlType) -> Result<String, Halt> {
    target_with(mysql, false, false)
}

fn target_with(mysql: &MysqlType, only_zero_one: bool, auto_increment: bool) -> Result<String, Halt> {
    let table = users();
    let context = TypeContext { table: &table, column: "c", only_zero_one, auto_increment };
    target_type(mysql, context).map(|target| target.to_string())
}

/// Numeric facts as MySQL 9.7 states them.
fn number<'a>(column_type: &'a str, precision: u64, scale: Option<u64>) -> ColumnFacts<'a> {
    let data_type = column_type.split(['(', ' ']).next().unwrap();
    let numeric_precision = Some(precision);
    ColumnFacts { data_type, column_type, numeric_precision, numeric_scale: scale, ..ColumnFacts::default() }
}

fn text<'a>(column_type: &'a str, length: u64, charset: &'a str) -> ColumnFacts<'a> {
    let data_type = column_type.split('(').next().unwrap();
    let character_set_name = Some(charset).filter(|charset| *charset != "binary");
    let character_maximum_length = Some(length);
    ColumnFacts {
        data_type,
        column_type,
        character_set_name,
        character_maximum_length,
        ..ColumnFacts::default()
    }
}

fn clock<'a>(data_type: &'a str, column_type: &'a str, digits: Option<u64>) -> ColumnFacts<'a> {
    ColumnFacts { data_type, column_type, datetime_precision: digits, ..ColumnFacts::default() }
}

#[test]
fn every_type_has_its_target() {
    let cases = [
        (number("tinyint", 3, Some(0)), "smallint"),
        (number("tinyint(1)", 3, Some(0)), "smallint"),
        (number("tinyint unsigned", 3, Some(0)), "smallint"),
        (number("smallint", 5, Some(0)), "smallint"),
        (number("smallint unsigned", 5, Some(0)), "integer"),
        (number("smallint(5) unsigned zerofill", 5, Some(0)), "integer"),
        (number("mediumint", 7, Some(0)), "integer"),
        (number("mediumint unsigned", 7, Some(0)), "integer"),
        (number("int", 10, Some(0)), "integer"),
        (number("int(11)", 10, Some(0)), "integer"),
        (number("int unsigned", 10, Some(0)), "bigint"),
        (number("bigint", 19, Some(0)), "bigint"),
        (number("bigint unsigned", 20, Some(0)), "numeric(20,0)"),
        (number("decimal(10,0) unsigned", 10, Some(0)), "numeric(10,0)"),
        (number("decimal(65,30)", 65, Some(30)), "numeric(65,30)"),
        (number("float", 12, None), "real"),
        (number("float(7,3)", 7, Some(3)), "real"),
        (number("double(10,2) unsigned", 10, Some(2)), "double precision"),
        (number("bit(1)", 1, None), "boolean"),
        (number("bit(64)", 64, None), "bit(64)"),
        (text("char(10)", 10, "utf8mb4"), "character varying(10)"),
        (text("char(0)", 0, "utf8mb4"), "character varying(1)"),
        (text("varchar(255)", 255, "latin1"), "character varying(255)"),
        (text("varchar(9)", 9, "utf8"), "character varying(9)"),
        (text("tinytext", 255, "ascii"), "text"),
        (text("longtext", 4_294_967_295, "utf8mb3"), "text"),
        (text("binary(5)", 5, "binary"), "bytea"),
        (text("varbinary(300)", 300, "binary"), "bytea"),
        (text("longblob", 4_294_967_295, "binary"), "bytea"),
        (text("enum('a','b')", 1, "utf8mb4"), "text"),
        (text("set('a','b')", 3, "latin1"), "text"),
        (clock("date", "date", None), "date"),
        (clock("time", "time(6)", Some(6)), "interval(6)"),
        (clock("datetime", "datetime", Some(0)), "timestamp(0) without time zone"),
        (clock("timestamp", "timestamp(3)", Some(3)), "timestamp(3) with time zone"),
        (clock("year", "year", None), "smallint"),
        (clock("json", "json", None), "jsonb"),
    ];
    for (facts, expected) in cases {
        let mysql = parse(facts).unwrap();
        assert_eq!(target(&mysql).unwrap(), expected, "{}", facts.column_type);
    }
}

#[test]
fn a_tinyint_of_width_one_is_boolean_only_when_the_data_is() {
    let tinyint = parse(number("tinyint(1)", 3, Some(0))).unwrap();
    assert_eq!(target_with(&tinyint, true, false).unwrap(), "boolean");
    assert_eq!(target_with(&tinyint, false, false).unwrap(), "smallint");
    assert_eq!(target_with(&tinyint, true, true).unwrap(), "smallint");
    for other in ["tinyint", "tinyint(4)", "tinyint unsigned", "tinyint(1) unsigned zerofill"] {
        let other = parse(number(other, 3, Some(0))).unwrap();
        assert_eq!(target_with(&other, true, false).unwrap(), "smallint");
    }
}

#[test]
fn the_length_of_a_type_is_kept() {
    let varchar = parse(text("varchar(300)", 300, "utf8mb4")).unwrap();
    assert_eq!(varchar, MysqlType::Varchar { length: 300, charset: "utf8mb4".to_owned() });
    let old_name = parse(text("char(2)", 2, "utf8")).unwrap();
    assert_eq!(old_name, MysqlType::Char { length: 2, charset: "utf8mb3".to_owned() });
    assert_eq!(parse(text("binary(5)", 5, "binary")).unwrap(), MysqlType::Binary { length: 5 });
}

#[test]
fn types_and_character_sets_that_are_unknown_are_named() {
    let mysql = parse(ColumnFacts { data_type: "cube", column_type: "cube(3)", ..ColumnFacts::default() });
    let halt = target(&mysql.unwrap()).unwrap_err();
    assert_eq!(halt.reason, Reason::UnsupportedType);
    assert_eq!(halt.table.as_deref(), Some("app.users"));
    assert_eq!(halt.detail, "column `c` is of type cube");
    for column_type in ["char(5)", "varchar(5)", "text"] {
        let halt = target(&parse(text(column_type, 5, "utf7")).unwrap()).unwrap_err();
        assert_eq!(halt.reason, Reason::UnsupportedCharset);
        assert_eq!(halt.table.as_deref(), Some("app.users"));
        assert_eq!(halt.detail, "column `c` is in character set utf7");
    }
    assert_eq!(parse(text("enum('a')", 1, "utf7")).unwrap_err().reason, Reason::UnsupportedCharset);
}

#[test]
fn spatial_types_and_vectors_have_one_target_each() {
    for data_type in ["geometry", "point", "linestring", "multipolygon", "geomcollection"] {
        let facts = ColumnFacts { data_type, column_type: data_type, ..ColumnFacts::default() };
        assert_eq!(target(&parse(facts).unwrap()), Ok("bytea".to_owned()), "{data_type}");
    }
    let vector = ColumnFacts { data_type: "vector", column_type: "vector(3)", ..ColumnFacts::default() };
    assert_eq!(target(&parse(vector).unwrap()), Ok("real[]".to_owned()));
}

#[test]
fn labels_that_their_text_does_not_tell_are_read_from_their_bytes() {
    for (column_type, charset, count) in [
        ("enum('a','?')", Some("utf8mb4"), Some(2)),
        ("set('why?')", Some("koi8r"), Some(1)),
        ("enum('a',x'fe')", None, Some(2)),
        ("enum('why?')", Some("utf8mb3"), None),
        ("enum('a')", Some("utf8mb4"), None),
        ("char(1)", Some("utf8mb4"), None),
    ] {
        let data_type = column_type.split('(').next().unwrap();
        let facts =
            ColumnFacts { data_type, column_type, character_set_name: charset, ..ColumnFacts::default() };
        assert_eq!(hides_labels(&facts), count, "{column_type}");
    }
    let parsed = |charset, labels: &[&[u8]]| {
        let labels: Vec<Vec<u8>> = labels.iter().map(|label| label.to_vec()).collect();
        let facts = text("enum('?','?')", 1, charset);
        parse(ColumnFacts { labels: Some(&labels), ..facts })
    };
    let expected =
        |labels: &[&str]| MysqlType::Enum { labels: labels.iter().map(ToString::to_string).collect() };
    assert_eq!(parsed("utf8mb4", &["😀".as_bytes(), b"?"]), Ok(expected(&["😀", "?"])));
    assert_eq!(parsed("utf16", &[b"\xd8\x3d\xde\0", b"\0?"]), Ok(expected(&["😀", "?"])));
    assert_eq!(parsed("binary", &[b"a", b"b"]), Ok(expected(&["a", "b"])));
    assert_eq!(parsed("binary", &[b"a", b"\xfe"]).unwrap_err().reason, Reason::UnsupportedCharset);
    assert_eq!(parsed("utf8mb4", &[b"a", b"b\0"]).unwrap_err().reason, Reason::UnsupportedType);
    assert_eq!(parsed("big5", &[b"a", b"\xc7\xfe"]).unwrap_err().reason, Reason::UnsupportedType);
}

#[test]
fn labels_are_read_as_the_server_prints_them() {
    let labels = |column_type| match parse(text(column_type, 10, "utf8mb3")).unwrap() {
        MysqlType::Enum { labels } | MysqlType::Set { labels } => labels,
        other => panic!("{other}"),
    };
    assert_eq!(labels("enum('x','it''s','','a,b')"), ["x", "it's", "", "a,b"]);
    assert_eq!(labels(r"enum('a\\b','c\nd','r\rr')"), ["a\\b", "c\nd", "r\rr"]);
    assert_eq!(labels(r"enum('per\\%c','x\\\\y','q\'')"), ["per\\%c", "x\\\\y", "q'"]);
    assert_eq!(labels("set('p','q''','(é)')"), ["p", "q'", "(é)"]);
    assert_eq!(labels("enum('why?')"), ["why?"]);
}

#[test]
fn labels_that_can_t_be_read_or_stored_are_refused() {
    for column_type in
        ["enum()", "enum('a'", "enum('a' 'b')", "enum('a',)", r"enum('a\x')", "enum(a)", "enum('a''"]
    {
        let halt = parse(text(column_type, 1, "utf8mb3")).unwrap_err();
        assert_eq!(halt.reason, Reason::UnsupportedType, "{column_type}");
        assert_eq!(halt.table.as_deref(), Some("app.users"));
    }
    assert_eq!(parse(text(r"enum('a\0')", 2, "latin1")).unwrap_err().reason, Reason::UnsupportedType);
    // What the server prints for a label of one emoji, too: its bytes are needed.
    assert_eq!(parse(text("enum('?')", 1, "utf8mb4")).unwrap_err().reason, Reason::UnsupportedType);
}

#[test]
fn facts_that_are_missing_are_not_guessed() {
    for data_type in ["varchar", "text", "binary", "decimal", "bit", "datetime"] {
        let halt =
            parse(ColumnFacts { data_type, column_type: data_type, ..ColumnFacts::default() }).unwrap_err();
        assert_eq!(halt.reason, Reason::Internal, "{data_type}");
    }
}
