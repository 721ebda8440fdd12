mod ddl;
mod describe;
mod round_trip;

use proptest::prelude::*;

use super::*;

const UTF8MB4: u16 = 255;
const LATIN1: u16 = 8;
const GBK: u16 = 28;
const ANSI_QUOTES: u64 = 1 << 2;
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

fn context(client_collation: u16, sql_mode: u64) -> Context<'static> {
    Context {
        default_database: b"app",
        sql_mode: Some(sql_mode),
        client_collation: Some(client_collation),
        connection_collation: Some(client_collation),
    }
}

fn read(text: &str) -> Result<Statement, Unparsed> {
    classify(text.as_bytes(), &context(UTF8MB4, 0))
}

/// Kind and objects of a DDL, as `kind table table … /database`.
fn summary(statement: &Statement) -> String {
    let (Statement::Ddl(ddl) | Statement::CreateTableWithRows(ddl)) = statement else {
        return format!("{statement:?}");
    };
    let mut words = vec![ddl.kind.name().to_owned()];
    words.extend(ddl.tables.iter().map(|name| format!("{}.{}", name.database, name.table)));
    words.extend(ddl.databases.iter().map(|name| format!("/{name}")));
    words.join(" ")
}

#[track_caller]
fn reads(text: &str, expected: &str) {
    match read(text) {
        Ok(statement) => assert_eq!(summary(&statement), expected, "{text}"),
        Err(unparsed) => panic!("{} not parsed: {text}", unparsed.verb),
    }
}

#[track_caller]
fn refuses(text: &str, verb: &str) {
    assert_eq!(read(text).map_err(|unparsed| unparsed.verb), Err(verb), "{text}");
}

#[test]
fn transaction_control() {
    for (text, expected) in [
        ("BEGIN", Statement::Begin),
        ("begin ;", Statement::Begin),
        ("COMMIT", Statement::Commit),
        ("/* x */ commit", Statement::Commit),
        ("ROLLBACK", Statement::Rollback),
        ("ROLLBACK TO `s`", Statement::RollbackToSavepoint),
        ("SAVEPOINT `s1`", Statement::Savepoint),
        ("SAVEPOINT `a b``c`", Statement::Savepoint),
        ("XA START X'67',X'62',7", Statement::Xa(XaVerb::Start)),
        ("XA END X'67',X'62',7", Statement::Xa(XaVerb::End)),
        ("XA COMMIT X'67',X'',4294967295", Statement::Xa(XaVerb::Commit)),
        ("xa rollback X'',X'',1", Statement::Xa(XaVerb::Rollback)),
    ] {
        assert_eq!(read(text), Ok(expected), "{text}");
    }
    refuses("BEGIN x", "BEGIN");
    refuses("COMMIT AND CHAIN", "COMMIT");
    refuses("ROLLBACK x", "ROLLBACK");
    refuses("SAVEPOINT", "SAVEPOINT");
    refuses("XA PREPARE X'67'", "XA");
    refuses("XA", "XA");
}

#[test]
fn spellings_of_one_verb() {
    for text in [
        "alter table t comment '1'",
        "AlTeR tAbLe `t` CoMmEnT \"6\"",
        "/* lead */ alter table t comment \"1\"",
        "-- line comment\nalter table t comment \"3\"",
        "--\nalter table t",
        "# hash\nalter/**/table/**/t/**/comment \"4\"",
        "/*!50000 alter table t comment \"5\" */",
        "/*!050000 alter table t comment \"5\" */",
        "/*! alter table t */",
        "/*!50000 alter table t /* inner */ comment '5' */",
        "alter /*!80000 table */ t",
        "\u{b}\t\r\n alter\x0ctable\nt;",
        "alter table app.t",
        "alter table app . t add x int",
        "alter table/*x*/app./*y*/t drop q",
        "alter table `app`.`t` add `drop table x` int /* alter table b.t drop q */",
        "alter table t add column `x` int -- rename to q",
        "alter table t comment 'it''s /* rename to x'",
        "alter table t comment 'a\\' rename to x'",
        "alter table t comment \"a\"\" rename to x\"",
        "alter table t add rename_to int",
        "alter table t rename column a to b, rename index c to d, rename key e to f",
        "alter table t add exchange int, add constraint c check (rename_ > 0)",
        "alter table t partition by range(id) (partition p0 values less than(10))",
        "alter table t drop partition p0, exchange",
        "alter table t order by exchange partition by hash(id)",
        "alter table t add check (rename to x)",
    ] {
        reads(text, "alter_table app.t");
    }
}

#[test]
fn alter_table_names_second_tables() {
    reads("alter table c1 rename to b.c1", "alter_table app.c1 b.c1");
    reads("alter table c1 rename c2", "alter_table app.c1 app.c2");
    reads("alter table c1 rename as `to`", "alter_table app.c1 app.to");
    reads("alter table c1 rename = c2", "alter_table app.c1 app.c2");
    reads("alter table b.c1 add z int default (f(1,(2))), rename to a.c9", "alter_table b.c1 a.c9");
    reads("alter table b.c1 rename to a.c9, add z int", "alter_table b.c1 a.c9");
    reads(
        "alter table pt exchange partition p1 with table b.px without validation",
        "alter_table app.pt b.px",
    );
    reads("alter table pt lock=none, exchange partition `p,1` with table px", "alter_table app.pt app.px");
    reads("alter table ts discard tablespace", "alter_table app.ts");
    reads("alter table t add constraint fk foreign key (a) references p (id)", "alter_table app.t");
}

#[test]
fn alter_table_is_refused_when_cut() {
    refuses("alter table", "ALTER");
    refuses("alter table t add (x int", "ALTER");
    refuses("alter table t add x int)", "ALTER");
    refuses("alter table t rename to", "ALTER");
    refuses("alter table t comment 'x", "ALTER");
    refuses("alter table t; drop table u", "ALTER");
    refuses("alter table `t", "ALTER");
    refuses("alter table ``", "ALTER");
    refuses("alter table t exchange partition p with x", "ALTER");
    refuses("/*!50000 alter table t", "ALTER");
    refuses("alter table t /* x", "ALTER");
}

#[test]
fn create_table() {
    reads("create table t(id int primary key)", "create_table app.t");
    reads("CREATE TABLE IF NOT EXISTS b.l1 (zzz int)", "create_table b.l1");
    reads("/*!80000 create table vc(a int) */", "create_table app.vc");
    reads("create table b.l2 like a.t", "create_table b.l2");
    reads("create table `we``ird`.`t``1`(a int)", "create_table we`ird.t`1");
    reads("create table 1t$x(a int)", "create_table app.1t$x");
    reads("create table größe(a int)", "create_table app.größe");
    reads("create table t (`select` int, c int check (c <> 0)) comment 'select'", "create_table app.t");
    reads("create table t (a int) partition by list(a) (partition p values in (1))", "create_table app.t");
    reads("create table t (f int, key (f)) -- select\n", "create_table app.t");
    reads("create table select_t (values_row int)", "create_table app.select_t");
    reads("create table t (a int references b.table (id))", "create_table app.t");
    refuses("create table", "CREATE");
    refuses("create table t (a int); drop table u", "CREATE");
    refuses("create table t (a enum('x)", "CREATE");
    refuses("create sequence sq", "CREATE");
    refuses("create or table t (a int)", "CREATE");
}

#[test]
fn create_table_with_a_query() {
    let with_rows = "CREATE TABLE `b`.`cs3` (\n  `id` int NOT NULL\n) START TRANSACTION";
    assert!(matches!(read(with_rows), Ok(Statement::CreateTableWithRows(_))));
    reads(with_rows, "create_table b.cs3");
    assert!(matches!(
        read("create table t (a int) start transaction engine=innodb;"),
        Ok(Statement::CreateTableWithRows(_))
    ));
    assert!(matches!(read("create table t (`start` int, `transaction` int)"), Ok(Statement::Ddl(_))));
    for text in [
        "create table cs10 select * from t",
        "create table c (x int) engine=innodb as select a from t",
        "create table c (select 1 a)",
        "create table c as (with w as (select 1) select * from w)",
        "create table c table t",
        "create table c values row(1)",
        "create temporary table c select f()",
    ] {
        assert_eq!(read(text), Ok(Statement::Dml), "{text}");
    }
}

#[test]
fn temporary_tables() {
    let name = |table: &str| TableName { database: "app".to_owned(), table: table.to_owned() };
    let create = |table| Ok(Statement::TemporaryTable(Temporary::Create(name(table))));
    let drop = |tables: &[&str]| {
        Ok(Statement::TemporaryTable(Temporary::Drop(tables.iter().copied().map(name).collect())))
    };
    for (text, expected) in [
        ("create temporary table tmp(a int)", create("tmp")),
        ("CREATE OR REPLACE TEMPORARY TABLE t (a int)", create("t")),
        ("CREATE TEMPORARY TABLE IF NOT EXISTS t LIKE u", create("t")),
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `tmpx`", drop(&["tmpx"])),
        ("DROP TEMPORARY TABLE `st`,`u` /* generated by server */", drop(&["st", "u"])),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn drop_rename_truncate() {
    reads("DROP TABLE `t` /* generated by server */", "drop_table app.t");
    reads(
        "DROP TABLE IF EXISTS `d1`,`b`.`sw1`,`missing` /* generated by server */",
        "drop_table app.d1 b.sw1 app.missing",
    );
    reads("drop tables a, b . c cascade;", "drop_table app.a b.c");
    reads("DROP TABLE cs11 /* generated by server */", "drop_table app.cs11");
    reads("rename table t to t_old, t2 to t", "rename_table app.t app.t_old app.t2 app.t");
    reads("rename tables sw1 to b.sw1, sw2 to b.sw2", "rename_table app.sw1 b.sw1 app.sw2 b.sw2");
    reads("truncate b.t", "truncate_table b.t");
    reads("truncate c2", "truncate_table app.c2");
    reads(
        "TRUNCATE TABLE `p`.`mem` /* generated by server, implicitly emptying in-memory table */",
        "truncate_table p.mem",
    );
    refuses("drop table a b", "DROP");
    refuses("drop table a,", "DROP");
    refuses("drop", "DROP");
    refuses("rename table a", "RENAME");
    refuses("rename table a to b,", "RENAME");
    refuses("truncate table a, b", "TRUNCATE");
    refuses("truncate 'a'", "TRUNCATE");
}

#[test]
fn indexes() {
    reads("create unique index u1 on t(a)", "create_index app.t");
    reads("create fulltext index `ix` on b.t(q)", "create_index b.t");
    reads("create index i using btree on t((a+b)) lock=none", "create_index app.t");
    reads("drop index ix on b.t", "drop_index b.t");
    reads("drop index `PRIMARY` on t algorithm=inplace", "drop_index app.t");
    refuses("create index i", "CREATE");
    refuses("drop index i, t", "DROP");
}

#[test]
fn databases() {
    reads("create database if not exists `we``ird` character set latin1", "create_database /we`ird");
    reads("CREATE SCHEMA ss", "create_database /ss");
    reads("drop database if exists g", "drop_database /g");
    reads("drop schema g;", "drop_database /g");
    reads("alter database dd character set latin1", "alter_database /dd");
    reads("alter schema dd read only=1", "alter_database /dd");
    reads("alter database collate utf8mb4_bin", "alter_database /app");
    reads("alter database default charset utf8mb4", "alter_database /app");
    reads("alter database `read` read only=1", "alter_database /read");
    refuses("drop database", "DROP");
}

#[test]
fn administration() {
    for text in [
        "analyze table t update histogram on a",
        "optimize table t",
        "repair table t",
        "flush tables t",
        "FLUSH PRIVILEGES",
        "GRANT ALL PRIVILEGES ON `q8`.* TO 'low'@'%'",
        "revoke select on a.* from u1",
        "set default role r1 to u1",
        "SET PASSWORD FOR 'a'@'b' = 'x'",
        "rename user u1 to u2",
        "CREATE USER 'u1'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$\u{1}\\\\'",
        "CREATE DEFINER=`root`@`localhost` event ev1 on schedule every 1 second do insert into t values(1)",
        "CREATE DEFINER=CURRENT_USER() TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
        "CREATE DEFINER = 'a'@localhost AGGREGATE FUNCTION f() RETURNS int return 1",
        "CREATE OR REPLACE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS select 1",
        "ALTER ALGORITHM=MERGE VIEW v AS select 1",
        "CREATE DEFINER=`root`@`localhost` PROCEDURE `b`.`p`()\nbegin alter table t comment 'x'; end",
        "create tablespace ts1 add datafile \"ts1.ibd\"",
        "create undo tablespace u add datafile 'u.ibu'",
        "create or replace spatial reference system 4120 name 'x'",
        "create json relational duality view v as select 1",
        "drop view if exists v2",
        "DROP EVENT IF EXISTS`p`.`ev1`",
        "drop trigger if exists tr",
        "alter event e disable",
        "alter procedure pp comment \"x\"",
        "alter instance rotate innodb master key",
        "create role r1",
        "drop resource group g",
    ] {
        reads(text, "administrative");
    }
}

#[test]
fn changes_as_text() {
    for text in [
        "insert into t values (1)",
        "update t set b=b+1 where id=60",
        "/* app */ delete from t",
        "REPLACE t values (1)",
        "load data infile 'x' into table t",
        "call p()",
        "do f()",
        "SELECT `b`.`f`(1)",
        "(select f())",
        "with w as (select 1) delete from t",
        "table t",
        "values row(f())",
    ] {
        assert_eq!(read(text), Ok(Statement::Dml), "{text}");
    }
}

#[test]
fn what_is_not_known_is_refused_by_verb_only() {
    refuses("", "empty");
    refuses("# Dum", "empty");
    refuses("/*!50000 */", "empty");
    refuses("import table from 'x'", "IMPORT");
    refuses("vacuum secret", "unknown");
    refuses("set @@session.x = 1", "SET");
    refuses("`begin`", "unknown");
    refuses("'begin'", "unknown");
    refuses("/* open", "unreadable");
    refuses("/*! begin", "BEGIN");
}

#[test]
fn a_plain_comment_is_not_opened() {
    refuses("/* !50000 drop table t */", "empty");
    reads("/*+ hint */ drop table t", "drop_table app.t");
    refuses("/*!500 drop table t */", "unknown");
    // After the version's digits everything counts.
    reads("/*!50000drop*/ table t", "drop_table app.t");
}

#[test]
fn names_need_a_database() {
    let none = Context { default_database: b"", ..context(UTF8MB4, 0) };
    assert!(classify(b"drop table t", &none).is_err());
    assert!(classify(b"drop table b.t", &none).is_ok());
    assert!(classify(b"flush tables", &none).is_ok());
    let invalid = Context { default_database: b"\xe9", ..none };
    assert!(classify(b"drop table t", &invalid).is_err());
}

#[test]
fn double_quotes_follow_the_sql_mode() {
    let ansi = context(UTF8MB4, ANSI_QUOTES);
    let dropped = classify(br#"DROP TABLE "q""x" /* generated by server */"#, &ansi).unwrap();
    assert_eq!(summary(&dropped), "drop_table app.q\"x");
    // Not a string: no backslash escapes.
    let altered = classify(br#"alter table "t\" rename to u"#, &ansi).unwrap();
    assert_eq!(summary(&altered), "alter_table app.t\\ app.u");
    assert!(classify(br#"drop table "t""#, &context(UTF8MB4, 0)).is_err());
}

#[test]
fn backslashes_follow_the_sql_mode() {
    let text = br"alter table t comment 'a\', rename to u";
    assert!(classify(text, &context(UTF8MB4, 0)).is_err());
    let altered = classify(text, &context(UTF8MB4, NO_BACKSLASH_ESCAPES)).unwrap();
    assert_eq!(summary(&altered), "alter_table app.t app.u");
}

#[test]
fn an_absent_sql_mode_is_not_guessed() {
    let unknown = Context { sql_mode: None, ..context(UTF8MB4, 0) };
    assert!(classify(b"alter table t comment 'a'", &unknown).is_ok());
    assert!(classify(br"alter table t comment 'a\\'", &unknown).is_err());
    assert!(classify(br#"alter table t comment "a""#, &unknown).is_err());
}

#[test]
fn text_is_in_the_character_set_of_the_client() {
    let latin1 = context(LATIN1, 0);
    let altered = classify(b"DROP TABLE `tbl\xe9`, t\xf8", &latin1).unwrap();
    assert_eq!(summary(&altered), "drop_table app.tblé app.tø");
    // latin1's no-break space is a blank to the server.
    let spaced = classify(b"alter table\xa0t\xa0rename to u", &latin1).unwrap();
    assert_eq!(summary(&spaced), "alter_table app.t app.u");
    assert!(classify(b"drop table `tbl\xe9`", &context(UTF8MB4, 0)).is_err());
    // A multi-byte comment is passed over although it holds a quote's and a backslash's code.
    let gbk = context(GBK, 0);
    let commented = classify(b"alter table t comment '\xd6\x5c\xd6\x5c', rename to u", &gbk).unwrap();
    assert_eq!(summary(&commented), "alter_table app.t app.u");
    let column = classify(b"alter table t add `\xd6\x60` int, rename to u", &gbk).unwrap();
    assert_eq!(summary(&column), "alter_table app.t app.u");
    assert!(classify(b"drop table `tbl\xd6\xd0`", &gbk).is_err());
    // cp1251: a word that may hold a blank.
    let cp1251 = context(51, 0);
    assert!(classify(b"alter table t comment '\xe0'", &cp1251).is_ok());
    assert!(classify(b"alter table t comment 'a',\xa0rename to u", &cp1251).is_err());
    // Unknown to us: ASCII only.
    let absent = Context { client_collation: None, ..context(UTF8MB4, 0) };
    assert!(classify(b"drop table t", &absent).is_ok());
    assert!(classify(b"drop table t /* \xe9 */", &absent).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        text in prop::collection::vec(any::<u8>(), 0..80),
        collation in prop::option::of(prop_oneof![0u16..330, Just(GBK), Just(248), Just(13)]),
        mode in prop::option::of(prop_oneof![Just(0), Just(ANSI_QUOTES), any::<u64>()]),
    ) {
        let context = Context {
            default_database: b"app",
            sql_mode: mode,
            client_collation: collation,
            connection_collation: collation,
        };
        drop(classify(&text, &context));
    }

    #[test]
    fn no_mixture_of_fragments_makes_it_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "alter", "table", "create", "drop", "rename", "to", "exchange", "partition", "with", "t", "a.b",
            ".", ",", "(", ")", ";", "`", "'", "\"", "\\", "/*", "/*!50000", "*/", "-- ", "#", "\n", "@", "=",
            "definer", "temporary", "select", "é",
        ]), 0..16),
        collation in prop::sample::select(vec![UTF8MB4, LATIN1, GBK, 51]),
    ) {
        drop(classify(words.join(" ").as_bytes(), &context(collation, 0)));
    }

    /// Blanks and comments anywhere between tokens change nothing.
    #[test]
    fn comments_do_not_matter(
        gaps in prop::collection::vec(prop::sample::select(vec![
            " ", "\n", "\t", "/**/", "/* rename to x */", " -- drop\n", "# '\n", " /*!50000*/ ",
        ]), 9),
    ) {
        let tokens = ["alter", "table", "b", ".", "t", "add", "x", "int", ", rename to q"];
        let text: String = gaps.iter().zip(tokens).map(|(gap, token)| format!("{gap}{token}")).collect();
        reads(&text, "alter_table b.t app.q");
    }

    /// Any name survives quoting.
    #[test]
    fn quoted_names_round_trip(database in "[^\\x00]{1,12}", table in "[^\\x00]{1,12}") {
        let quote = |name: &str| format!("`{}`", name.replace('`', "``"));
        let text = format!("drop table {} . {}", quote(&database), quote(&table));
        let content = Content::DropTable { if_exists: false };
        let names = Ddl::on_tables(DdlKind::DropTable, vec![TableName { database, table }]);
        let expected = Ddl { content, ..names };
        prop_assert_eq!(read(&text), Ok(Statement::Ddl(expected)));
    }
}
