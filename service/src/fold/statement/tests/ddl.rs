//! Spellings of DDL, and what they say.

use super::super::*;
use super::describe::operation;
use super::{ANSI_QUOTES, GBK, LATIN1, NO_BACKSLASH_ESCAPES, UTF8MB4, context};

const SJIS: u16 = 13;

fn content(text: &[u8], context: &Context<'_>) -> Content {
    match classify(text, context) {
        Ok(Statement::Ddl(ddl) | Statement::CreateTableWithRows(ddl)) => ddl.content,
        other => panic!("{other:?}: {}", String::from_utf8_lossy(text)),
    }
}

fn operations_in(text: &[u8], context: &Context<'_>) -> Vec<String> {
    match content(text, context) {
        Content::Alter(operations) => operations.iter().map(operation).collect(),
        other => panic!("{other:?}: {}", String::from_utf8_lossy(text)),
    }
}

/// What ALTER TABLE with these operations says.
fn operations(text: &str) -> Vec<String> {
    operations_in(format!("ALTER TABLE t {text}").as_bytes(), &context(UTF8MB4, 0))
}

#[track_caller]
fn says(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(operations(text).join("; "), *expected, "{text}");
    }
}

/// The type of a column, in MySQL's spellings.
#[track_caller]
fn types(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(operations(&format!("ADD x {text}")).join("; "), format!("add x {expected}"), "{text}");
    }
}

#[test]
fn numbers() {
    types(&[
        ("int", "int"),
        ("INTEGER", "int"),
        ("int(11)", "int(11)"),
        ("INT4", "int"),
        ("int1", "tinyint"),
        ("INT2", "smallint"),
        ("int3", "mediumint"),
        ("middleint", "mediumint"),
        ("INT8 UNSIGNED", "bigint unsigned"),
        ("tinyint(1)", "tinyint(1)"),
        ("BOOL", "tinyint(1)"),
        ("boolean not null default true", "tinyint(1) not null default true"),
        ("bigint signed", "bigint"),
        ("int(5) zerofill", "int(5) unsigned"),
        ("int unsigned zerofill", "int unsigned"),
        ("SERIAL", "bigint unsigned not null auto_increment unique"),
        ("int serial default value", "int not null auto_increment unique"),
        ("decimal", "decimal"),
        ("DEC(5)", "decimal(5)"),
        ("numeric ( 10 , 2 )", "decimal(10,2)"),
        ("fixed(3,1) unsigned", "decimal(3,1) unsigned"),
        ("float", "float"),
        ("float(24)", "float"),
        ("float(25)", "double"),
        ("float(7,3)", "float(7,3)"),
        ("FLOAT4", "float"),
        ("FLOAT8", "double"),
        ("real", "double"),
        ("REAL(8,2)", "double(8,2)"),
        ("double", "double"),
        ("DOUBLE PRECISION unsigned", "double unsigned"),
        ("bit", "bit"),
        ("bit(64) default b'1'", "bit(64) default bits [01]"),
    ]);
    let as_float = context(UTF8MB4, 1);
    assert_eq!(operations_in(b"alter table t add x real", &as_float), ["add x float"]);
    assert_eq!(operations_in(b"alter table t add x float8", &as_float), ["add x double"]);
}

#[test]
fn strings() {
    types(&[
        ("char", "char"),
        ("character(3)", "char(3)"),
        ("CHAR VARYING(9)", "varchar(9)"),
        ("character varying (9)", "varchar(9)"),
        ("varchar(10)", "varchar(10)"),
        ("VARCHARACTER(10)", "varchar(10)"),
        ("nchar(4)", "char(4) charset utf8mb3"),
        ("national char(4)", "char(4) charset utf8mb3"),
        ("NATIONAL CHARACTER VARYING(4)", "varchar(4) charset utf8mb3"),
        ("national varchar(4)", "varchar(4) charset utf8mb3"),
        ("nvarchar(4)", "varchar(4) charset utf8mb3"),
        ("nchar varchar(4)", "varchar(4) charset utf8mb3"),
        ("nchar varying(4)", "varchar(4) charset utf8mb3"),
        ("long", "mediumtext"),
        ("long varchar", "mediumtext"),
        ("long char varying", "mediumtext"),
        ("LONG VARBINARY", "mediumblob"),
        ("tinytext", "tinytext"),
        ("text(300)", "text(300)"),
        ("mediumtext", "mediumtext"),
        ("longtext binary", "longtext binary"),
        ("varchar(5) character set latin1", "varchar(5) charset latin1"),
        ("varchar(5) charset 'utf8'", "varchar(5) charset utf8mb3"),
        ("varchar(5) char set UTF8MB4 collate utf8mb4_bin", "varchar(5) charset utf8mb4 collate utf8mb4_bin"),
        ("varchar(5) collate utf8_general_ci", "varchar(5) collate utf8mb3_general_ci"),
        ("varchar(5) not null collate latin1_bin", "varchar(5) collate latin1_bin not null"),
        ("char(5) ascii", "char(5) charset latin1"),
        ("char(5) unicode", "char(5) charset ucs2"),
        ("char(5) binary ascii", "char(5) charset latin1 binary"),
        ("char(5) byte", "char(5) charset binary"),
        ("char(5) character set binary", "char(5) charset binary"),
        ("binary(16)", "binary(16)"),
        ("varbinary(16)", "varbinary(16)"),
        ("tinyblob", "tinyblob"),
        ("blob(10)", "blob(10)"),
        ("json", "json"),
        ("vector(3)", "vector(3)"),
        ("point srid 4326", "spatial(point) srid 4326"),
        ("geometrycollection", "spatial(geometrycollection)"),
        ("polygon not null", "spatial(polygon) not null"),
        ("enum('a','b''c', \"d\") charset latin1", "enum charset latin1 [<a>|<b'c>|<d>]"),
        ("enum('a  ',_utf8mb4'é',x'41')", "enum [<a>|<é>|opaque]"),
        ("set('x','y') not null", "set [<x>|<y>] not null"),
    ]);
}

#[test]
fn times() {
    types(&[
        ("date", "date"),
        ("time(3)", "time(3)"),
        (
            "datetime(6) default current_timestamp(6) on update current_timestamp(6)",
            "datetime(6) default now(6) on update now(6)",
        ),
        ("timestamp null default now()", "timestamp null default now(0)"),
        ("timestamp default localtime", "timestamp default now(0)"),
        ("timestamp default localtimestamp ( ) on update now", "timestamp default now(0) on update now(0)"),
        ("year(4)", "year(4)"),
        ("date default date'2024-01-02'", "date default temporal <2024-01-02>"),
        (
            "datetime default timestamp '2024-01-02 03:04:05'",
            "datetime default temporal <2024-01-02 03:04:05>",
        ),
        ("time default time '01:02:03'", "time default temporal <01:02:03>"),
    ]);
}

#[test]
fn defaults() {
    types(&[
        ("int default 13", "int default 13"),
        ("int default -13", "int default -13"),
        ("int default +13", "int default 13"),
        ("int default - 1.50e-3", "int default -1.50e-3"),
        ("int default .5", "int default .5"),
        ("int default 5.", "int default 5."),
        ("int default 1/*x*/not null", "int not null default 1"),
        ("int default null", "int default null"),
        ("int default false comment 'c'", "int default false comment <c>"),
        ("int default (1 + (2))", "int default (…)"),
        ("int default('a)')", "int default (…)"),
        ("int default 0x1F", "int default bytes [1f]"),
        ("int default 0x1", "int default bytes [01]"),
        ("int default X'4142'", "int default bytes [41, 42]"),
        ("int default 0b100000001", "int default bits [01, 01]"),
        ("text default 'a' 'b' \"c\"", "text default <abc>"),
        ("text default ''", "text default <>"),
        (r"text default 'a\'b\\c\n\t\%\_\q\0'", "text default <a'b\\c\n\t\\%\\_q\0>"),
        ("text default 'it''s'", "text default <it's>"),
        ("text default \"a'\"\"b\"", "text default <a'\"b>"),
        ("text default _utf8mb4'é'", "text default <é>"),
        ("text default _latin1 x'e9'", "text default <é>"),
        ("text default _latin1 0xe9", "text default <é>"),
        ("text default _binary'ab'", "text default bytes [61, 62]"),
        ("text default _ucs2'ab'", "text default opaque"),
        ("text default _utf8mb4 x'e9'", "text default opaque"),
        ("text default N'é'", "text default <é>"),
        ("text default n'x' comment 'é'", "text default <x> comment <é>"),
        ("int default 1 default 2", "int default 2"),
    ]);
}

#[test]
fn attributes() {
    types(&[
        ("int null not null", "int not null"),
        ("int not null auto_increment primary key", "int not null auto_increment primary"),
        ("int key", "int primary"),
        ("int unique key comment 'k'", "int unique comment <k>"),
        ("int unique not null", "int not null unique"),
        ("int invisible", "int invisible"),
        ("int invisible visible", "int"),
        ("int column_format fixed storage disk default 4", "int default 4"),
        ("int engine_attribute='{\"a\":1}' secondary_engine_attribute = ''", "int"),
        ("int not secondary", "int"),
        ("int generated always as (a + (b)) stored not null", "int not null stored"),
        ("int as (concat(')','(')) virtual", "int virtual"),
        ("int as (1)", "int virtual"),
        (
            "varchar(9) collate utf8mb4_bin generated always as ('x') stored unique",
            "varchar(9) collate utf8mb4_bin unique stored",
        ),
        ("int check (x > 0)", "int check - true"),
        ("int constraint check (x > 0) not enforced not null", "int not null check - false"),
        ("int constraint `c k` check (x <> ')') enforced", "int check c k true"),
        ("int references p", "int - [x] app.p [] NoAction/NoAction"),
        (
            "int references b.p(id) match simple on delete set null on update cascade",
            "int - [x] b.p [id] SetNull/Cascade",
        ),
        ("int comment 'drop; rename to y'", "int comment <drop; rename to y>"),
    ]);
}

#[test]
fn columns() {
    says(&[
        ("add x int", "add x int"),
        ("ADD COLUMN x int first", "add x int first"),
        ("add x int after `a b`", "add x int after a b"),
        ("add column (x int, y int not null default 8)", "add x int; add y int not null default 8"),
        ("add(x int)", "add x int"),
        (
            "add (x int, key (x), constraint u unique (x), check (x > 0))",
            "add x int; index Plain - [x]; index Unique u [x]; check - true",
        ),
        (
            "add `column` int, add first int first, add after1 int after first",
            "add column int; add first int first; add after1 int after first",
        ),
        (
            "add comment int, add `index` int, add type int, add value int",
            "add comment int; add index int; add type int; add value int",
        ),
        (
            "add date date, add time time, add timestamp timestamp",
            "add date date; add time time; add timestamp timestamp",
        ),
        ("drop x", "drop x"),
        ("drop column x cascade", "drop x"),
        ("drop `x` restrict, drop y", "drop x; drop y"),
        ("drop `primary`", "drop primary"),
        ("change a b int", "change a b int"),
        ("change column a A varchar(3) first", "change a A varchar(3) first"),
        ("modify a int unsigned after b", "change a a int unsigned after b"),
        ("modify column a text", "change a a text"),
        ("rename column a to b, rename column b to a", "rename a b; rename b a"),
        ("alter a set default 5", "alter a default 5"),
        ("alter column a set default (uuid())", "alter a default (…)"),
        ("alter a set default null", "alter a default null"),
        ("alter a drop default", "alter a drop default"),
        ("alter a set invisible, alter column b set visible", "alter a visible=false; alter b visible=true"),
        (
            "add column kind varchar(20) default 'thing' after target_id, change column ref_id target_id int",
            "add kind varchar(20) default <thing> after target_id; change ref_id target_id int",
        ),
    ]);
}

#[test]
fn indexes_and_constraints() {
    says(&[
        ("add index (a)", "index Plain - [a]"),
        ("add key i (a, b(10) desc, c asc)", "index Plain i [a,b(10) desc,c]"),
        ("add index i using btree (a) comment 'x' key_block_size=8 invisible", "index Plain i [a] invisible"),
        ("add index i type hash (a) using btree", "index Plain i [a]"),
        (
            "add index ((a + b)), add index f ((lower(c)) desc, d)",
            "index Plain - [(…)]; index Plain f [(…),d]",
        ),
        ("add unique (a)", "index Unique - [a]"),
        ("add unique key u(a)", "index Unique u [a]"),
        ("add constraint unique index (a)", "index Unique - [a]"),
        ("add constraint c unique (a)", "index Unique c [a]"),
        ("add constraint c unique u (a)", "index Unique u [a]"),
        ("add primary key (a,b)", "index Primary - [a,b]"),
        ("add constraint p primary key using btree (a)", "index Primary - [a]"),
        ("add fulltext ft (a) with parser ngram", "index Fulltext ft [a]"),
        ("add fulltext key (a), add spatial index s (g)", "index Fulltext - [a]; index Spatial s [g]"),
        ("drop index i, drop key j, drop primary key", "drop index i; drop index j; drop primary"),
        ("drop index `PRIMARY`", "drop primary"),
        ("rename index a to b, rename key c to d", "rename index a b; rename index c d"),
        ("alter index i invisible", "alter index i visible=false"),
        ("add foreign key (a) references p (id)", "foreign key - [a] app.p [id] NoAction/NoAction"),
        (
            "add constraint fk foreign key ix (a, b) references b.p (x, y) match full on update restrict on delete no action",
            "foreign key fk [a,b] b.p [x,y] NoAction/Restrict",
        ),
        (
            "add constraint foreign key (a) references p(id) on delete set default",
            "foreign key - [a] app.p [id] SetDefault/NoAction",
        ),
        ("drop foreign key fk", "drop foreign key fk"),
        ("add check (a > 0)", "check - true"),
        ("add constraint c check (a in (1,2)) not enforced", "check c false"),
        (
            "drop check c, drop constraint d, drop constraint `primary`",
            "drop check c; drop constraint d; drop primary",
        ),
        (
            "alter check c not enforced, alter constraint d enforced",
            "alter check c false; alter check d true",
        ),
        (
            "add index ck_name (name), algorithm=inplace, lock=none",
            "index Plain ck_name [name]; execution ALGORITHM; execution LOCK",
        ),
    ]);
}

#[test]
fn tables() {
    says(&[
        ("", ""),
        ("rename to b.t2", "rename to b.t2"),
        ("rename as t2, add x int", "rename to app.t2; add x int"),
        ("convert to character set utf8mb4", "convert charset utf8mb4"),
        ("convert to charset 'latin1' collate latin1_bin", "convert charset latin1 collate latin1_bin"),
        ("convert to character set default", "convert"),
        (
            "default character set = utf8mb4 collate = utf8mb4_bin",
            "default charset utf8mb4; default collate utf8mb4_bin",
        ),
        ("charset latin1", "default charset latin1"),
        ("engine=InnoDB", "engine InnoDB"),
        (
            "engine 'InnoDB' comment 'a''b', auto_increment = 100",
            "engine InnoDB; comment <a'b>; auto_increment 100",
        ),
        (
            "row_format=dynamic key_block_size 8 stats_persistent=default",
            "option ROW_FORMAT; option KEY_BLOCK_SIZE; option STATS_PERSISTENT",
        ),
        (
            "max_rows=5, encryption='N', tablespace ts storage disk",
            "option MAX_ROWS; option ENCRYPTION; option TABLESPACE; option STORAGE",
        ),
        ("data directory='/x' compression=\"zlib\"", "option DIRECTORY; option COMPRESSION"),
        ("force, algorithm instant, lock = shared", "Force; execution ALGORITHM; execution LOCK"),
        ("order by a, b desc, add x int", "OrderBy; add x int"),
        ("disable keys", "DisableKeys"),
        ("enable keys", "EnableKeys"),
        ("discard tablespace", "DiscardTablespace"),
        ("import tablespace", "ImportTablespace"),
        ("add x int as (1) virtual, without validation", "add x int virtual; Validation { with: false }"),
        ("union=(a,b)", "unknown UNION"),
        ("add x frobnicated(3)", "unknown ADD"),
        ("add x int frobnicated, drop y", "unknown ADD; drop y"),
        ("modify x int, frobnicate (a, b), drop y", "change x x int; unknown OTHER; drop y"),
        ("add if not exists x int", "unknown ADD"),
    ]);
}

#[test]
fn partitions() {
    says(&[
        ("partition by hash(id) partitions 4", "partition By"),
        (
            "add x int partition by range(id) (partition p0 values less than (10), partition p1 values less than maxvalue)",
            "add x int; partition By",
        ),
        ("comment='x' remove partitioning", "comment <x>; partition Remove"),
        ("add partition (partition p2 values in (1,2))", "partition Add"),
        ("add partition partitions 2", "partition Add"),
        ("drop partition p0, p1", "partition Drop"),
        ("truncate partition all", "partition Truncate"),
        ("coalesce partition 1", "partition Coalesce"),
        ("reorganize partition p, q into (partition r values less than (5))", "partition Reorganize"),
        ("rebuild partition p", "partition Rebuild"),
        ("optimize partition p", "partition Optimize"),
        ("analyze partition p", "partition Analyze"),
        ("check partition p", "partition Check"),
        ("repair partition p", "partition Repair"),
        ("discard partition p tablespace", "partition DiscardTablespace"),
        ("import partition all tablespace", "partition ImportTablespace"),
        ("exchange partition p with table b.u without validation", "partition Exchange"),
        ("secondary_load", "partition Secondary"),
    ]);
}

#[test]
fn statements_say_more_than_names() {
    let plain = context(UTF8MB4, 0);
    let name = |table: &str| TableName { database: "app".to_owned(), table: table.to_owned() };
    let create = |if_not_exists, like: Option<&str>, with_rows| {
        Content::CreateTable(CreateTable { if_not_exists, like: like.map(name), with_rows })
    };
    let charset = |charset: Option<&str>, collation: Option<&str>| crate::schema::ddl::CharsetClause {
        charset: charset.map(str::to_owned),
        collation: collation.map(str::to_owned),
        binary: false,
    };
    for (text, expected) in [
        ("create table t (a int)", create(false, None, false)),
        ("create table if not exists t like u", create(true, Some("u"), false)),
        ("create table t (like u)", create(false, Some("u"), false)),
        ("create table t (a int) start transaction", create(false, None, true)),
        ("drop table if exists a, b", Content::DropTable { if_exists: true }),
        (
            "rename table a to tmp, b to a, tmp to b",
            Content::Rename(vec![(name("a"), name("tmp")), (name("b"), name("a")), (name("tmp"), name("b"))]),
        ),
        ("rename /* gh-ost */ table go to _go_del", Content::Rename(vec![(name("go"), name("_go_del"))])),
        (
            "create database if not exists d default character set utf8 collate utf8_bin encryption='N'",
            Content::CreateDatabase {
                if_not_exists: true,
                charset: charset(Some("utf8mb3"), Some("utf8mb3_bin")),
            },
        ),
        ("create schema d", Content::CreateDatabase { if_not_exists: false, charset: charset(None, None) }),
        (
            "alter database d collate = latin1_bin",
            Content::AlterDatabase { charset: charset(None, Some("latin1_bin")) },
        ),
        ("alter database d read only default", Content::AlterDatabase { charset: charset(None, None) }),
        ("drop database if exists d", Content::DropDatabase { if_exists: true }),
        ("truncate`us2`", Content::Names),
        ("analyze table t", Content::Names),
    ] {
        assert_eq!(content(text.as_bytes(), &plain), expected, "{text}");
    }
    for (text, expected) in [
        ("create index i on t (a)", "index Plain i [a]"),
        (
            "create unique index `i` using btree on t (a desc, (b+1)) invisible algorithm=inplace lock none",
            "index Unique i [a desc,(…)] invisible",
        ),
        ("create fulltext index i on b.t (a) with parser ngram", "index Fulltext i [a]"),
        ("create spatial index i on t (g)", "index Spatial i [g]"),
        ("drop index i on t algorithm=copy", "drop index i"),
        ("drop index `PRIMARY` on t", "drop primary"),
    ] {
        assert_eq!(operations_in(text.as_bytes(), &plain), [expected], "{text}");
    }
}

#[test]
fn settings_of_the_session_decide_what_a_literal_is() {
    let (ansi, raw) = (context(UTF8MB4, ANSI_QUOTES), context(UTF8MB4, NO_BACKSLASH_ESCAPES));
    let text = br#"alter table "t" add "x ""y" int comment 'a"b', drop "z""#;
    assert_eq!(operations_in(text, &ansi), ["add x \"y int comment <a\"b>", "drop z"]);
    assert_eq!(
        operations_in(br"alter table t add x text default 'a\nb\'", &raw),
        [r"add x text default <a\nb\>"]
    );
    let latin1 = context(LATIN1, 0);
    assert_eq!(
        operations_in(b"alter table t add \xe9 enum('\x80') default '\xe9'", &latin1),
        ["add é enum [<€>] default <é>"]
    );
    // What the connection's character set can't hold is not what was written.
    let narrowed = Context { connection_collation: Some(LATIN1), ..context(UTF8MB4, 0) };
    assert_eq!(
        operations_in("alter table t add x text default 'я'".as_bytes(), &narrowed),
        ["add x text default opaque"]
    );
    assert_eq!(operations_in(b"alter table t add x text default 'z'", &narrowed), ["add x text default <z>"]);
}

#[test]
fn backslashes_inside_of_characters_escape_nothing() {
    for (collation, text) in [
        (GBK, &b"alter table t add x enum('\xd6\x5c','b') default '\xd6\x5c', drop y"[..]),
        (SJIS, &b"alter table t add x enum('\x83\x5c','b') default '\x95\x5c', drop y"[..]),
    ] {
        let operations = operations_in(text, &context(collation, 0));
        assert_eq!(operations.len(), 2, "{operations:?}");
        assert!(
            operations[0].starts_with("add x enum [") && operations[0].contains("|<b>]"),
            "{operations:?}"
        );
        assert_eq!(operations[1], "drop y");
    }
}

#[test]
fn unusual_spellings() {
    let expected = ["add c1 int default 4", "drop c2"];
    for text in [
        "/* app:42 */ ALTER TABLE us ADD COLUMN c1 INT DEFAULT 4, DROP COLUMN c2 CASCADE",
        "ALTER\n  TABLE us\tADD COLUMN c1 INT DEFAULT 4,DROP c2",
        "/*!50001 ALTER TABLE us ADD COLUMN c1 INT DEFAULT 4, DROP c2 */;",
        "# note\naLtEr table us ADD (c1 INT DEFAULT 4), drop column c2 restrict",
        "alter table`us`add`c1`int default 4,drop`c2`",
        "alter table us add c1 int/*!80000 default 4*/, /*!50000 drop c2 */",
        "alter table us -- x\n add c1 /*drop z,*/ int default 4 # y\n , drop c2;",
        "alter/**/table/**/us/**/add/**/c1/**/int/**/default/**/4,drop/**/c2",
        "alter table app . us add c1 integer default +4, drop `c2`",
    ] {
        assert_eq!(operations_in(text.as_bytes(), &context(UTF8MB4, 0)), expected, "{text}");
    }
}

#[test]
fn names_and_literals_with_hostile_text_stay_names_and_literals() {
    let text = r#"ALTER TABLE `x"; DROP SCHEMA app CASCADE; --` ADD COLUMN `y"); DELETE FROM app.victim; --` INT DEFAULT 5 COMMENT 'c''; --', RENAME COLUMN `rp+` TO `rp-/*x*/`, MODIFY k ENUM('it''s','b"c','\\','$$','; --') DEFAULT 'it''s'"#;
    assert_eq!(
        operations_in(text.as_bytes(), &context(UTF8MB4, 0)),
        [
            r#"add y"); DELETE FROM app.victim; -- int default 5 comment <c'; -->"#,
            "rename rp+ rp-/*x*/",
            r#"change k k enum [<it's>|<b"c>|<\>|<$$>|<; -->] default <it's>"#,
        ]
    );
}

#[test]
fn nothing_of_a_literal_is_shown() {
    let text = b"alter table t add x enum('hush') default 'hush' comment 'hush', comment='hush', alter y set default 4711";
    let shown = format!("{:?}", classify(text, &context(UTF8MB4, 0)));
    assert!(!shown.contains("hush") && !shown.contains("4711"), "{shown}");
}

#[test]
fn what_may_rename_a_table_is_read_or_refused() {
    for text in [
        "alter table t add x frobnicated rename to u",
        "alter table t rename u v",
        "alter table t rename column a b",
        "alter table t exchange partition p with u",
        "alter table t partition by hash(a) rename to u",
        "alter table t add x int drop y",
    ] {
        let result = classify(text.as_bytes(), &context(UTF8MB4, 0));
        let unknown = matches!(&result, Ok(Statement::Ddl(Ddl { content: Content::Alter(list), .. }))
            if list.iter().any(|operation| matches!(operation, AlterOperation::Unknown { label: "ADD" })));
        assert!(result.is_err() || unknown, "{text}: {result:?}");
    }
}
