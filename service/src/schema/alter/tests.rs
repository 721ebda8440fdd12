use super::*;
use crate::binlog::cell::Cell;
use crate::convert::{ColumnPlan, Role};
use crate::fold::statement::{Context, Statement, classify};
use crate::schema::collation::{CollationChoice, TargetCollation};
use crate::schema::ddl::Content;
use crate::schema::overrides::Overrides;
use crate::schema::policy::ColumnPolicies;
use crate::schema::spatial::GeometryKind;

const STRICT: u64 = 1 << 21;

fn facts() -> StatementFacts {
    StatementFacts {
        // 2023-11-14 22:13:20.123456 UTC.
        timestamp_micros: 1_700_000_000_123_456,
        time_zone: Some("+02:00".to_owned()),
        system_time_zone: None,
        sql_mode: Some(STRICT),
        explicit_defaults_for_timestamp: Some(true),
    }
}

fn operations(text: &str) -> Vec<AlterOperation> {
    let context = Context {
        default_database: b"app",
        sql_mode: Some(0),
        client_collation: Some(255),
        connection_collation: Some(255),
    };
    match classify(format!("alter table t {text}").as_bytes(), &context) {
        Ok(Statement::Ddl(ddl)) => match ddl.content {
            Content::Alter(operations) => operations,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// A table with these columns, made by the very code that is tested: `key` names the primary key.
fn table(columns: &str, key: &[&str]) -> TableModel {
    let seed = TableModel {
        name: TableName { database: "app".to_owned(), table: "t".to_owned() },
        columns: Vec::new(),
        key: Vec::new(),
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: Some("latin1".to_owned()),
        details: Default::default(),
    };
    let Ok(Altered { mut model, .. }) = alter(&seed, &operations(&format!("add ({columns})")), &facts())
    else {
        panic!("{columns}")
    };
    model.key = key.iter().map(|name| layout::index_of(&model, name).unwrap()).collect();
    model.key_is_primary = !key.is_empty();
    model
}

/// `t (id int primary key, a varchar(10), b int not null)`.
fn plain() -> TableModel {
    table("id int not null, a varchar(10), b int not null", &["id"])
}

fn altered(model: &TableModel, text: &str) -> Altered {
    match alter(model, &operations(text), &facts()) {
        Ok(altered) => altered,
        Err(resync) => panic!("{text}: {}", resync.why),
    }
}

fn names(model: &TableModel) -> Vec<&str> {
    model.columns.iter().map(|column| column.name.as_str()).collect()
}

#[track_caller]
fn resyncs(model: &TableModel, text: &str, facts: &StatementFacts) {
    let result = alter(model, &operations(text), facts);
    assert!(result.is_err(), "{text}: {:?}", result.map(|altered| altered.changes));
}

#[test]
fn positions_are_those_of_the_result() {
    let model = table("id int not null, a int, b int, c int", &["id"]);
    for (text, expected) in [
        ("add x int", "id a b c x"),
        ("add x int first", "x id a b c"),
        ("add x int after a, add y int after x", "id a x y b c"),
        ("add x int first, add y int first", "y x id a b c"),
        ("modify c int first", "c id a b"),
        ("modify c int after id, modify b int after c", "id c b a"),
        ("add x int after n, change b n int", "id a n x c"),
        ("drop a, add d int after c", "id b c d"),
        ("drop a, add a varchar(3) first", "a id b c"),
        ("rename column a to b, rename column b to a", "id b a c"),
        ("modify A int", "id A b c"),
        ("change a z int after c, add y int after z", "id b c z y"),
        ("rename column b to n, add x int after n", "id a n x c"),
    ] {
        assert_eq!(names(&altered(&model, text).model).join(" "), expected, "{text}");
    }
    for text in [
        "add x int after nowhere",
        "drop nothing",
        "add a int",
        "modify c int after b, drop b",
        "drop a, drop a",
    ] {
        resyncs(&model, text, &facts());
    }
}

#[test]
fn the_key_follows_its_columns() {
    let model = table("a int not null, b int not null, c int", &["b", "a"]);
    assert_eq!(altered(&model, "add x int first, modify c int after x").model.key, [3, 2]);
    let renamed = altered(&model, "change b k bigint not null").model;
    assert_eq!((renamed.key.as_slice(), renamed.columns[1].name.as_str()), (&[1, 0][..], "k"));
    // The primary key's columns are NOT NULL without a word.
    assert!(!altered(&model, "modify a bigint").model.columns[0].nullable);
    for text in
        ["drop primary key", "add primary key (c)", "drop a", "add z int primary key", "drop index `primary`"]
    {
        resyncs(&model, text, &facts());
    }
}

#[test]
fn without_a_primary_key_what_may_choose_another_key_is_refused() {
    let mut model = plain();
    (model.key, model.key_is_primary) = (vec![2], false);
    for text in [
        "add unique (id)",
        "drop index u",
        "drop column a",
        "modify a varchar(10) not null",
        "modify b int null",
        "modify b bigint not null",
        "add z int not null unique",
        "drop constraint u",
    ] {
        resyncs(&model, text, &facts());
    }
    for text in [
        "add index (id)",
        "add unique (a)",
        "add z int unique",
        "rename index u to v",
        "modify a varchar(10) comment 'x'",
    ] {
        assert_eq!(altered(&model, text).model.key, [2], "{text}");
    }
}

/// The type, nullability and fill of `add x …`.
fn added(text: &str, facts: &StatementFacts) -> Option<(Column, Fill)> {
    let changes = alter(&plain(), &operations(&format!("add x {text}")), facts).ok()?.changes;
    changes.into_iter().find_map(|change| match change {
        TargetChange::AddColumn { column, fill, .. } => Some((column, fill)),
        _ => None,
    })
}

const ZERO: crate::binlog::cell::Date = crate::binlog::cell::Date { year: 0, month: 0, day: 0 };

const fn date(year: u16, month: u8, day: u8) -> crate::binlog::cell::Date {
    crate::binlog::cell::Date { year, month, day }
}

#[test]
fn rows_that_exist_get_the_default_or_the_type_s_own() {
    let bytes = |text: &str| Fill::Bytes(text.as_bytes().to_vec());
    let clock = |date, hour, minute, second, micros| Fill::DateTime { date, hour, minute, second, micros };
    for (text, expected) in [
        ("int", Fill::Null),
        ("int default null", Fill::Null),
        ("int not null", Fill::Int(0)),
        ("int unsigned not null", Fill::UInt(0)),
        ("int default 13", Fill::Int(13)),
        ("int default '-13'", Fill::Int(-13)),
        ("int default true", Fill::Int(1)),
        ("int default x'41'", Fill::Int(65)),
        ("bigint unsigned default 18446744073709551615", Fill::UInt(u64::MAX)),
        ("decimal(5,2) not null", Fill::Decimal("0.00".to_owned())),
        ("decimal(5,2) default -1.5", Fill::Decimal("-1.50".to_owned())),
        ("decimal(3) default 007", Fill::Decimal("7".to_owned())),
        ("float not null", Fill::Float(0.0)),
        ("float default 0.1", Fill::Float(0.1)),
        ("double default -1.5e3", Fill::Double(-1500.0)),
        ("varchar(10) not null", bytes("")),
        ("varchar(10) not null default 'x'", bytes("x")),
        ("varchar(10) default 'a  '", bytes("a  ")),
        ("char(5) default 'a  '", bytes("a")),
        ("varchar(3) default 12", bytes("12")),
        ("varchar(3) default 'é€'", Fill::Bytes(vec![0xe9, 0x80])),
        ("varchar(3) charset utf8mb4 default 'é😀'", bytes("é😀")),
        ("text not null", bytes("")),
        ("binary(3) not null", bytes("")),
        ("binary(3) default 'ab'", bytes("ab")),
        ("varbinary(3) default x'00ff'", Fill::Bytes(vec![0, 0xff])),
        ("blob not null", bytes("")),
        ("bit(9) not null", Fill::Bit(0)),
        ("bit(9) default b'101'", Fill::Bit(5)),
        ("enum('b','a') not null", Fill::Enum(1)),
        ("enum('b','a')", Fill::Null),
        ("enum('b','a') not null default 'a'", Fill::Enum(2)),
        ("set('x','y','z') not null", Fill::Set(0)),
        ("set('x','y','z') default 'x,z'", Fill::Set(5)),
        ("set('x','y') default ''", Fill::Set(0)),
        ("year not null", Fill::Year(0)),
        ("year default 1999", Fill::Year(1999)),
        ("json not null", Fill::Json("null".to_owned())),
        ("date not null", Fill::Date(ZERO)),
        ("date default '2024-02-29'", Fill::Date(date(2024, 2, 29))),
        ("date default '0000-00-00'", Fill::Date(ZERO)),
        ("time not null", Fill::Time(0)),
        ("time(2) default '-101:02:03.45'", Fill::Time(-363_723_450_000)),
        ("datetime not null", clock(ZERO, 0, 0, 0, 0)),
        ("datetime(1) default '2024-01-02 03:04:05.6'", clock(date(2024, 1, 2), 3, 4, 5, 600_000)),
        ("datetime default now()", clock(date(2023, 11, 15), 0, 13, 20, 0)),
        ("datetime(3) default now(3)", clock(date(2023, 11, 15), 0, 13, 20, 123_000)),
        ("timestamp not null", Fill::Timestamp { seconds: 0, micros: 0 }),
        (
            "timestamp not null default current_timestamp",
            Fill::Timestamp { seconds: 1_700_000_000, micros: 0 },
        ),
        ("timestamp(6) not null default now(6)", Fill::Timestamp { seconds: 1_700_000_000, micros: 123_456 }),
        ("timestamp default '2024-01-01 00:00:00'", Fill::Timestamp { seconds: 1_704_060_000, micros: 0 }),
        ("timestamp", Fill::Null),
    ] {
        let (column, fill) = added(text, &facts()).unwrap_or_else(|| panic!("{text}"));
        // Not `assert_eq`: a fill shows nothing of its value.
        assert!(fill == expected, "{text}: {fill:?}");
        // The converter takes it, zero dates in NOT NULL columns excepted.
        let zero = matches!(
            fill,
            Fill::Date(ZERO) | Fill::DateTime { date: ZERO, .. } | Fill::Timestamp { seconds: 0, .. }
        ) || fill == Fill::Year(0);
        let name = TableName { database: "app".to_owned(), table: "t".to_owned() };
        if !zero && fill.cell() != Cell::Null {
            let plan = ColumnPlan::new(&name, &column, ColumnPolicies::default(), Role::Plain)
                .unwrap_or_else(|_| panic!("{text}"));
            assert!(plan.write(fill.cell(), &mut Vec::new()).is_ok(), "{text}");
        }
    }
}

#[test]
fn a_default_that_is_not_plain_is_not_guessed() {
    for text in [
        "int default 1.5",
        "int default ' 7 '",
        "tinyint default 128",
        "int unsigned default -1",
        "decimal(4,1) default 1.25",
        "decimal(3,1) default 100",
        "double default '1e2'",
        "float(7,3) default 1.2345",
        "varchar(3) default 'abcd'",
        "varchar(9) default 'я'",
        "varchar(9) default 01",
        "enum('a','b') default 'B'",
        "enum('a','?') default 'a'",
        "enum('a','😀') not null",
        "set('a','b') default 'a,c'",
        "year default 70",
        "date default '2024-1-2'",
        "date default '2024-02-30'",
        "datetime default '2024-01-02T03:04:05'",
        "datetime default '2024-01-02 03:04:05.6'",
        "time default 123",
        "timestamp default '1970-01-01 01:00:00'",
        "int default (1)",
        "json default (json_array())",
        "int auto_increment unique",
        "serial",
        "int as (1) virtual",
        "varchar(70000)",
        "varchar(20000) charset utf8mb4",
    ] {
        assert!(added(text, &facts()).is_none(), "{text}");
    }
    let zone = |time_zone: Option<&str>, system: Option<&str>| StatementFacts {
        time_zone: time_zone.map(str::to_owned),
        system_time_zone: system.map(str::to_owned),
        ..facts()
    };
    for (facts, known) in [
        (zone(None, Some("UTC")), false),
        (zone(Some("Europe/Berlin"), None), false),
        (zone(Some("SYSTEM"), None), false),
        (zone(Some("SYSTEM"), Some("UTC")), true),
        (zone(Some("SYSTEM"), Some("CET")), false),
        (zone(Some("-05:30"), None), true),
    ] {
        assert_eq!(added("datetime default now()", &facts).is_some(), known);
        assert!(added("timestamp null default now()", &facts).is_some());
    }
    let unsaid = StatementFacts { explicit_defaults_for_timestamp: None, ..facts() };
    assert!(added("timestamp", &unsaid).is_none());
    assert!(added("timestamp null", &unsaid).is_some());
}

/// Whether `modify a NEW` is carried over for a column `a OLD`.
fn converts(old: &str, new: &str, facts: &StatementFacts) -> bool {
    let model = table(&format!("id int not null, a {old}"), &["id"]);
    alter(&model, &operations(&format!("modify a {new}")), facts).is_ok()
}

#[test]
fn only_conversions_that_keep_every_value_are_carried_over() {
    for (old, new) in [
        ("tinyint", "smallint"),
        ("tinyint unsigned", "smallint"),
        ("int unsigned", "bigint"),
        ("int", "int(11)"),
        ("varchar(10)", "varchar(20)"),
        ("varchar(10)", "text"),
        ("char(3)", "varchar(3)"),
        ("varchar(10) charset latin1", "varchar(10) charset utf8mb4"),
        ("text charset ascii", "text charset utf8mb3"),
        ("decimal(5,2)", "decimal(7,2)"),
        ("decimal(5,2)", "decimal(7,4)"),
        ("decimal(5,2) unsigned", "decimal(5,2)"),
        ("float", "double"),
        ("varbinary(3)", "varbinary(4)"),
        ("varbinary(3)", "blob"),
        ("enum('a','b')", "enum('a','b','c')"),
        ("enum('low','high')", "enum('mid','high','low')"),
        ("enum('a','b')", "varchar(5)"),
        ("set('a','b')", "set('a','b','c')"),
        ("datetime(3)", "datetime(6)"),
        ("timestamp", "timestamp(1)"),
        ("time", "time(6)"),
        ("int not null", "int null"),
        ("int", "int not null"),
        ("int default 1", "int default 2 comment 'x'"),
    ] {
        assert!(converts(old, new, &facts()), "{old} to {new}");
    }
    for (old, new) in [
        ("smallint", "tinyint"),
        ("int", "int unsigned"),
        ("int unsigned", "int"),
        ("bigint", "bigint unsigned"),
        ("int", "varchar(20)"),
        ("varchar(20)", "varchar(10)"),
        ("varchar(20)", "char(20)"),
        ("text", "varchar(10)"),
        ("varchar(10) charset utf8mb4", "varchar(10) charset latin1"),
        ("varchar(20)", "int"),
        ("decimal(10,4)", "decimal(10,2)"),
        ("decimal(5,2)", "decimal(5,3)"),
        ("decimal(5,2)", "decimal(5,2) unsigned"),
        ("double", "int"),
        ("double", "float"),
        ("binary(3)", "binary(4)"),
        ("blob", "text"),
        ("enum('a','b')", "enum('a')"),
        ("set('x','y')", "set('z','y','x')"),
        ("varchar(5)", "enum('a')"),
        ("enum('abc')", "varchar(2)"),
        ("datetime(6)", "datetime"),
        ("datetime", "timestamp null"),
        ("timestamp null", "datetime"),
        ("int", "int auto_increment unique"),
        ("bit(1)", "bit(8)"),
    ] {
        assert!(!converts(old, new, &facts()), "{old} to {new}");
    }
    let lax = StatementFacts { sql_mode: Some(0), ..facts() };
    assert!(!converts("int", "int not null", &lax));
    assert!(!converts("text", "text not null", &lax));
    assert!(!converts("varchar(500)", "tinytext", &lax));
    assert!(converts("text", "longtext", &lax));
    let pads = StatementFacts { sql_mode: Some(STRICT | 1 << 31), ..facts() };
    assert!(!converts("char(3)", "varchar(3)", &pads));
}

#[test]
fn what_a_definition_does_not_say_ends() {
    let model = table("id int not null, a int not null", &["id"]);
    let changed = altered(&model, "modify a int");
    assert!(changed.model.columns[1].nullable);
    assert!(changed.changes.contains(&TargetChange::DropNotNull { column: "a".to_owned() }));
    let no_default = TargetChange::SetDefault { column: "a".to_owned(), default: None };
    assert!(changed.changes.contains(&no_default));
    // The character set is the table's again.
    let model = table("id int not null, a varchar(3) charset utf8mb4", &["id"]);
    resyncs(&model, "modify a varchar(5)", &facts());
    assert!(alter(&model, &operations("modify a varchar(5) charset utf8mb4"), &facts()).is_ok());
}

#[test]
fn types_of_the_target_follow() {
    let set = |changes: &[TargetChange]| {
        changes.iter().find_map(|change| match change {
            TargetChange::SetType { from, to, .. } => Some((*from, *to)),
            _ => None,
        })
    };
    let small = table("id int not null, a tinyint", &["id"]);
    assert_eq!(set(&altered(&small, "modify a smallint").changes), None);
    assert_eq!(
        set(&altered(&small, "modify a bigint").changes),
        Some((TargetType::SmallInt, TargetType::BigInt))
    );
    let mut boolean = table("id int not null, a tinyint(1)", &["id"]);
    boolean.columns[1].target = TargetType::Boolean;
    assert_eq!(altered(&boolean, "modify a bool not null").model.columns[1].target, TargetType::Boolean);
    assert_eq!(
        set(&altered(&boolean, "modify a int").changes),
        Some((TargetType::Boolean, TargetType::Integer))
    );
    let labelled = table("id int not null, a enum('x')", &["id"]);
    assert!(
        altered(&labelled, "modify a enum('y','x')")
            .changes
            .contains(&TargetChange::SetLabels { column: "a".to_owned() })
    );
}

#[test]
fn renames_never_meet() {
    let model = table("id int not null, a int, b int, c int, d int", &["id"]);
    for text in [
        "rename column a to b, rename column b to a",
        "rename column a to b, rename column b to c, rename column c to a",
        "change a b int, change b c int, change c x int",
        "drop d, rename column c to d, rename column a to c",
        "rename column a to A",
    ] {
        let altered = altered(&model, text);
        let mut names: Vec<String> = names(&model).into_iter().map(str::to_owned).collect();
        for change in &altered.changes {
            match change {
                TargetChange::DropColumn { name } => names.retain(|other| other != name),
                TargetChange::RenameColumn { from, to } => {
                    assert!(!names.contains(to), "{text}: {to} is taken");
                    let at = names.iter().position(|name| name == from).unwrap();
                    names[at].clone_from(to);
                }
                _ => {}
            }
        }
        assert_eq!(names, self::names(&altered.model), "{text}");
    }
}

#[test]
fn the_table_as_a_whole() {
    let model = plain();
    let text = "add c varchar(3), default charset utf8mb4, rename to other.u, engine=innodb, comment 'x', auto_increment 7, add index i (a)";
    let all = altered(&model, text);
    assert_eq!(all.model.default_charset.as_deref(), Some("utf8mb4"));
    assert_eq!(all.model.columns[3].mysql, MysqlType::Varchar { length: 3, charset: "utf8mb4".to_owned() });
    assert_eq!(all.model.name, TableName { database: "other".to_owned(), table: "u".to_owned() });
    assert!(matches!(all.changes.last(), Some(TargetChange::AddIndex(_))));
    let converted = altered(&model, "convert to character set utf8mb4").model;
    assert_eq!(converted.columns[1].mysql, MysqlType::Varchar { length: 10, charset: "utf8mb4".to_owned() });
    for text in [
        "force",
        "order by a",
        "partition by hash(id)",
        "add partition partitions 2",
        "reorganize partition",
        "row_format=dynamic",
        "algorithm=copy",
        "alter a set default 'x'",
        "",
    ] {
        assert_eq!(altered(&model, text).model, model, "{text}");
    }
    for text in [
        "engine=myisam",
        "convert to character set ascii",
        "convert to character set default",
        "convert to character set utf8mb4, add x text",
        "default collate default",
        "discard tablespace",
        "import tablespace",
        "drop partition p",
        "truncate partition p",
        "exchange partition p with table u",
        "union=(x)",
        "alter nothing set default 1",
    ] {
        resyncs(&model, text, &facts());
    }
    let unknown = TableModel { default_charset: None, ..model };
    resyncs(&unknown, "add c varchar(3)", &facts());
    assert!(alter(&unknown, &operations("add c varchar(3) charset latin1"), &facts()).is_ok());
    let mut generated = plain();
    generated.columns[1].generated = true;
    resyncs(&generated, "modify b bigint not null", &facts());
    assert!(alter(&generated, &operations("add z int"), &facts()).is_ok());
}

/// The collation of the target that the statement leaves `column` with, among texts that are to be
/// compared as on the source.
fn collation_after(text: &str, column: &str) -> Result<Option<String>, Resync> {
    let mut types = Overrides::default();
    types.set_collation(None, CollationChoice::Mysql);
    let mut before = plain();
    before.default_charset = Some("utf8mb4".to_owned());
    before.details.collation = Some("utf8mb4_0900_ai_ci".to_owned());
    let details = &mut before.columns[1].details;
    details.collation = Some("utf8mb4_0900_as_ci".to_owned());
    details.target_collation = TargetCollation::of("utf8mb4_0900_as_ci");
    let mut altered = alter(&before, &operations(text), &facts())?;
    collation::choose(&mut altered, &before, &types)?;
    let name = |column: &Column| column.details.target_collation.as_ref().map(|found| found.name.clone());
    let found = altered.model.columns.iter().find(|found| found.name == column).and_then(name);
    for change in &altered.changes {
        if let TargetChange::AddColumn { column: added, .. } = change
            && added.name == column
        {
            assert_eq!(name(added), found, "{text}");
        }
    }
    Ok(found)
}

#[test]
fn collations_are_those_of_the_statement_or_of_the_table() {
    for (text, column, expected) in [
        ("add c varchar(9)", "c", Some("utf8mb4_0900_ai_ci")),
        ("add c varchar(9) collate utf8mb4_general_ci", "c", Some("utf8mb4_general_ci")),
        ("add c varchar(9) collate utf8mb4_bin", "c", None),
        ("add c int", "c", None),
        ("rename column a to z", "z", Some("utf8mb4_0900_as_ci")),
        ("add c int", "a", Some("utf8mb4_0900_as_ci")),
        ("modify a varchar(20) collate utf8mb4_0900_as_ci", "a", Some("utf8mb4_0900_as_ci")),
        ("convert to character set utf8mb4 collate utf8mb4_0900_as_ci", "a", Some("utf8mb4_0900_as_ci")),
        ("default charset utf8mb4 collate utf8mb4_bin", "a", Some("utf8mb4_0900_as_ci")),
    ] {
        assert_eq!(collation_after(text, column), Ok(expected.map(str::to_owned)), "{text}");
    }
}

#[test]
fn another_collation_or_one_that_only_the_source_knows_asks_for_a_copy() {
    for text in [
        "add c varchar(9) character set utf8mb4",
        "default charset utf8mb4, add c varchar(9)",
        "modify a varchar(20)",
        "modify a varchar(20) collate utf8mb4_bin",
        "convert to character set utf8mb4",
        "convert to character set utf8mb4 collate utf8mb4_general_ci",
    ] {
        assert!(collation_after(text, "a").is_err(), "{text}");
    }
}

/// With PostGIS, and the same without.
#[test]
fn a_spatial_column_is_what_those_of_its_table_are() {
    let bytea = table("id int not null, g point srid 4326", &["id"]);
    let mut seed = table("id int not null", &["id"]);
    seed.details.postgis = Some("public".to_owned());
    let geometry = altered(&seed, "add g point srid 4326").model;
    let target = |model: &TableModel, column: usize| model.columns[column].target.to_string();
    assert_eq!(
        (target(&bytea, 1).as_str(), target(&geometry, 1).as_str()),
        ("bytea", "geometry(Point,4326)")
    );
    for (text, shown) in [
        ("modify g geometry srid 4326", "geometry(Geometry,4326)"),
        ("modify g point", "geometry(Point)"),
        ("modify g geometrycollection", "geometry"),
        ("change g h point srid 0", "geometry(Point)"),
    ] {
        let after = altered(&geometry, text);
        assert_eq!(target(&after.model, 1), shown, "{text}");
        assert!(after.changes.iter().any(|change| matches!(change, TargetChange::SetType { .. })), "{text}");
        let after = altered(&bytea, text);
        assert_eq!(target(&after.model, 1), "bytea");
        assert!(!after.changes.iter().any(|change| matches!(change, TargetChange::SetType { .. })), "{text}");
    }
    assert_eq!(target(&altered(&geometry, "add l linestring").model, 2), "geometry(LineString)");
    assert_eq!(target(&altered(&bytea, "add l linestring").model, 2), "bytea");
    resyncs(&geometry, "add h point srid 1000000", &facts());
    assert!(alter(&bytea, &operations("add h point srid 1000000"), &facts()).is_ok());
}

/// As configuration makes it.
#[test]
fn a_geometry_by_configuration_follows_the_source_and_bytea_stays() {
    let mut model = table("id int not null, g point", &["id"]);
    model.details.postgis = Some("public".to_owned());
    model.columns[1].details.overridden = true;
    assert_eq!(altered(&model, "modify g geometry").model.columns[1].target, TargetType::Bytea);
    model.columns[1].target = TargetType::Geometry { kind: GeometryKind::Point, srid: 0 };
    assert_eq!(altered(&model, "modify g geometry").model.columns[1].target.to_string(), "geometry");
}
