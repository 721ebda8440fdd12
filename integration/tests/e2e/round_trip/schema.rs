//! Sixty tables that have what a table of MySQL can have.

use std::fmt::Write as _;

/// A database outside of the filter, with a parent of tables in it.
pub(super) const OUTSIDE: &str = "outside_the_filter";

/// In each of two databases.
pub(super) const TABLES: usize = 30;

/// A type, and a default of a column of it where it takes one.
const TYPES: &[(&str, &str)] = &[
    ("TINYINT", "-5"),
    ("TINYINT UNSIGNED", "5"),
    ("TINYINT(1)", "1"),
    ("BOOL", "FALSE"),
    ("SMALLINT", "7"),
    ("SMALLINT UNSIGNED", "65535"),
    ("MEDIUMINT", "-8388608"),
    ("MEDIUMINT UNSIGNED", "7"),
    ("INT", "-2147483648"),
    ("INT UNSIGNED", "4294967295"),
    ("INT(8) UNSIGNED ZEROFILL", "7"),
    ("BIGINT", "-9223372036854775808"),
    ("BIGINT UNSIGNED", "18446744073709551615"),
    ("DECIMAL(10,2)", "1.5"),
    ("DECIMAL(65,30)", "-0.000000000000000000000000000001"),
    ("DECIMAL(5,0) UNSIGNED", "3"),
    ("FLOAT", "1.5"),
    ("DOUBLE", "-2.5"),
    ("BIT(1)", "b'1'"),
    ("BIT(5)", "b'101'"),
    ("BIT(64)", "b'1'"),
    ("CHAR(3)", "'a'"),
    ("CHAR(255)", "''"),
    ("VARCHAR(0)", "''"),
    ("VARCHAR(1)", "'x'"),
    ("VARCHAR(5000)", "'it''s'"),
    ("VARCHAR(20) CHARACTER SET latin1", "'é'"),
    ("VARCHAR(20) CHARACTER SET utf16", "'Ω'"),
    ("VARCHAR(20) COLLATE utf8mb4_bin", "'B'"),
    ("TINYTEXT", ""),
    ("TEXT", "('plain')"),
    ("MEDIUMTEXT CHARACTER SET cp1251", ""),
    ("LONGTEXT", ""),
    ("BINARY(4)", "(0x00FF)"),
    ("VARBINARY(16)", "(0x00FF)"),
    ("VARBINARY(255)", "'abc'"),
    ("TINYBLOB", ""),
    ("BLOB", "(0x5C27)"),
    ("MEDIUMBLOB", ""),
    ("LONGBLOB", ""),
    ("ENUM('a','b''c')", "'b''c'"),
    ("ENUM('x')", "'x'"),
    ("SET('x','y','z')", "'x,z'"),
    ("DATE", "'2020-02-29'"),
    ("DATE", "(curdate())"),
    ("TIME", "'-838:59:59'"),
    ("TIME(6)", "'01:02:03.25'"),
    ("DATETIME", "CURRENT_TIMESTAMP"),
    ("DATETIME(3)", "CURRENT_TIMESTAMP(3)"),
    ("DATETIME(6)", "'2020-01-01 00:00:00.5'"),
    ("TIMESTAMP", "CURRENT_TIMESTAMP"),
    ("TIMESTAMP(6)", "'2020-01-02 03:04:05.000006'"),
    ("YEAR", "2024"),
    ("JSON", "(json_object())"),
    ("JSON", "(json_array())"),
    ("GEOMETRY", ""),
    ("POINT", ""),
    ("POLYGON SRID 4326", ""),
    ("VECTOR(3)", ""),
    ("INT", "(1 + 1)"),
    ("VARCHAR(36)", "(uuid())"),
    ("DATE", "'0000-00-00'"),
];

/// How many of the types a table has.
const TYPES_OF_A_TABLE: usize = 21;

/// What is not of one column. The session takes zero dates, and gives no table a key of itself.
const OTHERS: &[&str] = &[
    "CREATE TABLE numbered (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, code VARCHAR(10) NOT NULL UNIQUE) COMMENT 'it''s numbered'",
    "CREATE TABLE unique_only (a INT NOT NULL, b INT, id SMALLINT AUTO_INCREMENT, UNIQUE KEY (a), UNIQUE KEY (b, a), UNIQUE KEY (id))",
    "CREATE TABLE composite (b INT NOT NULL, a INT NOT NULL, c VARCHAR(5) NOT NULL, PRIMARY KEY (c, a), UNIQUE KEY ub (b), KEY kab (a DESC, b))",
    "CREATE TABLE no_key (a INT, b INT, KEY (a))",
    "SET sql_generate_invisible_primary_key = ON; CREATE TABLE invisible_key (a INT COMMENT 'beside it'); SET sql_generate_invisible_primary_key = OFF",
    "CREATE TABLE prefixes (id INT PRIMARY KEY, url VARCHAR(5000), body MEDIUMTEXT, raw BLOB, short VARCHAR(50), KEY by_url (url(255)), KEY (body(10)),
        UNIQUE KEY (body(20)), KEY (raw(16) DESC), KEY (short(5)), UNIQUE KEY (short(7)), KEY (body(700)), UNIQUE KEY (url(700)))",
    "CREATE TABLE together (id INT PRIMARY KEY, a VARCHAR(400), b VARCHAR(300), n INT, KEY (a, b, n), UNIQUE KEY (b, a))",
    "CREATE TABLE functional (id INT PRIMARY KEY, n INT, s VARCHAR(20), KEY ((n + 1)), KEY ((lower(s)) DESC, n), KEY ((abs(n))), UNIQUE KEY ((n * 2)), UNIQUE KEY ((upper(s))))",
    "CREATE TABLE words (id INT PRIMARY KEY, a VARCHAR(50), b VARCHAR(50), t TEXT, g POINT NOT NULL SRID 0, SPATIAL KEY (g), FULLTEXT KEY (a, b), FULLTEXT KEY (t), FULLTEXT KEY (a))",
    "CREATE TABLE hidden (id INT PRIMARY KEY, a INT INVISIBLE DEFAULT 4, b INT, KEY (b) INVISIBLE, UNIQUE KEY (a) INVISIBLE)",
    "CREATE TABLE computed (id INT PRIMARY KEY, n INT, twice INT AS (n * 2) STORED, thrice BIGINT AS (n * 3) VIRTUAL NOT NULL COMMENT 'by three', KEY (twice), UNIQUE KEY (thrice, id))",
    "CREATE TABLE checked (id INT PRIMARY KEY, n INT, s VARCHAR(20), CONSTRAINT n_small CHECK (n < 1000), CONSTRAINT s_known CHECK (s <> 'x'),
        CONSTRAINT s_long CHECK (char_length(s) >= 2), CONSTRAINT n_any CHECK (n > 0) NOT ENFORCED, CHECK (n <> 7 OR n IS NULL), CHECK (n >= id))",
    "CREATE TABLE hashed (id INT PRIMARY KEY, a INT, KEY (a)) PARTITION BY HASH (id) PARTITIONS 3",
    "CREATE TABLE ranged (id INT, day DATE, PRIMARY KEY (id, day)) COMMENT 'by days' PARTITION BY RANGE COLUMNS (day) (PARTITION old VALUES LESS THAN ('2020-01-01'), PARTITION new VALUES LESS THAN (MAXVALUE))",
    "CREATE TABLE parent (id INT PRIMARY KEY, code VARCHAR(10), x INT, y INT, UNIQUE KEY (code), UNIQUE KEY (x, y))",
    "CREATE TABLE children (id INT PRIMARY KEY, p INT, code VARCHAR(20), x INT, y INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
        CONSTRAINT `by code` FOREIGN KEY (code) REFERENCES parent (code) ON DELETE SET NULL, FOREIGN KEY (x, y) REFERENCES parent (x, y) ON UPDATE RESTRICT)",
    "CREATE TABLE tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree (id) ON DELETE CASCADE)",
    "CREATE TABLE circle_a (id INT PRIMARY KEY, b INT); CREATE TABLE circle_b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES circle_a (id)); ALTER TABLE circle_a ADD FOREIGN KEY (b) REFERENCES circle_b (id)",
    "CREATE DATABASE IF NOT EXISTS outside_the_filter; CREATE TABLE IF NOT EXISTS outside_the_filter.p (id INT PRIMARY KEY);
        CREATE TABLE strays (id INT PRIMARY KEY, o INT, FOREIGN KEY (o) REFERENCES outside_the_filter.p (id))",
    "CREATE TABLE `select` (`order` INT PRIMARY KEY, `from` VARCHAR(3) DEFAULT 'all', `user` INT, KEY `group` (`from`, `user`))",
    "CREATE TABLE `Mixed` (Id INT PRIMARY KEY, camelCase INT COMMENT 'Upper', KEY Idx (camelCase)); CREATE TABLE `mixed` (id INT PRIMARY KEY, camelcase INT COMMENT 'lower', KEY idx (camelcase))",
    "CREATE TABLE `it's \"q\"` (`a.b` INT PRIMARY KEY, `100%` INT, `say \"hi\"` VARCHAR(5) COMMENT 'a \"quoted\" 50% \\\\ one', `tick``` INT, KEY `k.%\"` (`100%`), CHECK (`100%` > 5))",
    "CREATE TABLE `таблица.%d` (`ключ` INT PRIMARY KEY, `значение` VARCHAR(20) DEFAULT 'да' COMMENT 'слово', KEY `указатель` (`значение`)) COMMENT '表'",
    "CREATE TABLE a_table_with_a_name_as_long_as_postgresql_takes_it_xxxxxxxxxxxx (id INT PRIMARY KEY, v INT, KEY an_index_with_a_name_that_mysql_takes_and_postgresql_does_not_xx (v))",
    "CREATE TABLE stamps (id INT PRIMARY KEY, made DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), seen TIMESTAMP NULL DEFAULT NULL)",
];

/// Statements that create the tables of a database, which it must have been made for.
pub(super) fn create() -> String {
    let mut sql = String::from("SET sql_mode = '', time_zone = '+00:00';");
    for (number, types) in TYPES.chunks(TYPES_OF_A_TABLE).enumerate() {
        write!(sql, "CREATE TABLE of_types_{number:02} (id INT PRIMARY KEY").unwrap_or_default();
        for (at, (mysql, default)) in types.iter().enumerate() {
            write!(sql, ", nullable_{at} {mysql}, required_{at} {mysql} NOT NULL COMMENT 'of {number}'")
                .unwrap_or_default();
            if !default.is_empty() {
                write!(sql, ", given_{at} {mysql} DEFAULT {default}").unwrap_or_default();
            }
        }
        write!(sql, ") COMMENT 'types, {number}';").unwrap_or_default();
    }
    for other in OTHERS {
        write!(sql, "{other};").unwrap_or_default();
    }
    sql
}

/// Rows that meet the keys, and a view that stays behind.
pub(super) const ROWS: &str = "INSERT INTO parent VALUES (1, 'a', 1, 1), (2, 'b', 1, 2); INSERT INTO children VALUES (1, 1, 'a', 1, 2), (2, NULL, NULL, NULL, 7);
    INSERT INTO tree VALUES (1, NULL), (2, 1); INSERT INTO circle_a VALUES (1, NULL); INSERT INTO circle_b VALUES (1, 1); UPDATE circle_a SET b = 1;
    INSERT IGNORE INTO outside_the_filter.p VALUES (1); INSERT INTO strays VALUES (1, 1); INSERT INTO checked VALUES (1, 999, 'yy'), (2, NULL, NULL);
    INSERT INTO numbered (code) VALUES ('a'), ('b'); INSERT INTO `it's \"q\"` VALUES (1, 6, 'x', 2); INSERT INTO `таблица.%d` VALUES (1, 'нет');
    INSERT INTO functional VALUES (1, 5, 'Aa'); INSERT INTO prefixes VALUES (1, REPEAT('u', 4000), REPEAT('b', 9000), 'r', 'short'); INSERT INTO no_key VALUES (1, 1), (1, 1);
    INSERT INTO computed (id, n) VALUES (1, 1); INSERT INTO invisible_key VALUES (3); INSERT INTO hidden (id, b) VALUES (1, 2); INSERT INTO ranged VALUES (1, '2019-01-01'), (1, '2021-01-01');
    CREATE VIEW seen AS SELECT id FROM parent";

/// Schema changes of each kind that the facts tell of.
pub(super) const CHANGES: &[&str] = &[
    "ALTER TABLE prefixes DROP KEY by_url, ADD KEY by_short (short DESC), MODIFY short VARCHAR(60) NOT NULL DEFAULT 'sh' COMMENT 'the short one'",
    "ALTER TABLE composite RENAME COLUMN b TO bee, RENAME INDEX kab TO kba, COMMENT 'three'",
    "ALTER TABLE checked DROP CHECK n_small, ADD CONSTRAINT n_large CHECK (n < 5000), ALTER CHECK s_long NOT ENFORCED",
    "ALTER TABLE children DROP FOREIGN KEY children_ibfk_1, ADD CONSTRAINT again FOREIGN KEY (p) REFERENCES parent (id) ON DELETE SET NULL",
    "RENAME TABLE tree TO `Baum`, stamps TO `stamps 2`",
    "ALTER TABLE `it's \"q\"` ADD `новый ``` INT NOT NULL DEFAULT 3 AFTER `a.b`, ALTER `say \"hi\"` SET DEFAULT 'x', ADD UNIQUE KEY (`новый ```, `100%`)",
    "ALTER TABLE of_types_00 MODIFY nullable_8 BIGINT COMMENT 'wider', MODIFY given_9 BIGINT UNSIGNED NOT NULL DEFAULT 5, DROP COLUMN required_8",
    "CREATE UNIQUE INDEX by_value ON `таблица.%d` (`значение`); DROP INDEX `указатель` ON `таблица.%d`",
    "ALTER TABLE hashed COMMENT 'by key' PARTITION BY KEY (id) PARTITIONS 2",
    "ALTER TABLE hidden ALTER COLUMN a SET VISIBLE, ALTER INDEX b VISIBLE, ALTER b SET DEFAULT 9",
    "ALTER TABLE unique_only ADD PRIMARY KEY (a), DROP KEY a",
    "UPDATE circle_b SET a = NULL; SET foreign_key_checks = 0; DROP TABLE circle_a; SET foreign_key_checks = 1; CREATE TABLE circle_a (id INT PRIMARY KEY, b INT)",
    "CREATE TABLE copied LIKE prefixes; DROP TABLE words",
];
