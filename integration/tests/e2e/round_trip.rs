//! Facts of `information_schema` on both sides for a schema of sixty tables that has every type, in every
//! place: what is expected is written here by hand, and not taken from the code that makes it.

use std::fmt::Write as _;

use anyhow::ensure;
use tidegate_integration::{Servers, Tidegate, run};

/// A type of the source; the target's `data_type`, `character_maximum_length`, `numeric_precision`,
/// `numeric_scale` and `datetime_precision`; a default of the source and the target's.
struct Fact(&'static str, &'static str, &'static str, &'static str);

const fn fact(
    mysql: &'static str,
    target: &'static str,
    default: &'static str,
    expected: &'static str,
) -> Fact {
    Fact(mysql, target, default, expected)
}

const FACTS: [Fact; 56] = [
    fact("TINYINT", "smallint 16 0", "-5", "'-5'::integer"),
    fact("TINYINT UNSIGNED", "smallint 16 0", "5", "5"),
    fact("TINYINT(1)", "smallint 16 0", "1", "1"),
    fact("SMALLINT", "smallint 16 0", "7", "7"),
    fact("SMALLINT UNSIGNED", "integer 32 0", "65535", "65535"),
    fact("MEDIUMINT", "integer 32 0", "7", "7"),
    fact("MEDIUMINT UNSIGNED", "integer 32 0", "7", "7"),
    fact("INT", "integer 32 0", "7", "7"),
    fact("INT UNSIGNED", "bigint 64 0", "4294967295", "'4294967295'::bigint"),
    fact("INT(8) UNSIGNED ZEROFILL", "bigint 64 0", "7", "7"),
    fact("BIGINT", "bigint 64 0", "-9", "'-9'::integer"),
    fact("BIGINT UNSIGNED", "numeric 20 0", "18446744073709551615", "'18446744073709551615'::numeric"),
    fact("DECIMAL(10,2)", "numeric 10 2", "1.5", "1.50"),
    fact("DECIMAL(65,30)", "numeric 65 30", "0", "0.000000000000000000000000000000"),
    fact("DECIMAL(5,0) UNSIGNED", "numeric 5 0", "3", "3"),
    fact("NUMERIC", "numeric 10 0", "3", "3"),
    fact("FLOAT", "real 24", "1.5", "'1.5'::real"),
    fact("DOUBLE", "double precision 53", "1.5", "'1.5'::double precision"),
    fact("BIT(1)", "boolean", "b'1'", "true"),
    fact("BIT(5)", "bit 5", "b'101'", "'00101'::\"bit\""),
    fact("BIT(64)", "bit 64", "", ""),
    fact("CHAR(3)", "character varying 3", "'a'", "'a'::character varying"),
    fact("CHAR(255)", "character varying 255", "''", "''::character varying"),
    fact("VARCHAR(0)", "character varying 1", "''", "''::character varying"),
    fact("VARCHAR(1)", "character varying 1", "'x'", "'x'::character varying"),
    fact("VARCHAR(5000)", "character varying 5000", "'it''s'", "'it''s'::character varying"),
    fact("VARCHAR(20) CHARACTER SET latin1", "character varying 20", "'é'", "'é'::character varying"),
    fact("VARCHAR(20) CHARACTER SET utf16", "character varying 20", "", ""),
    fact("VARCHAR(20) COLLATE utf8mb4_bin", "character varying 20", "'B'", "'B'::character varying"),
    fact("TINYTEXT", "text", "", ""),
    fact("TEXT", "text", "('plain')", "'plain'::text"),
    fact("MEDIUMTEXT", "text", "", ""),
    fact("LONGTEXT", "text", "", ""),
    fact("BINARY(4)", "bytea", "", ""),
    fact("VARBINARY(16)", "bytea", "", ""),
    fact("TINYBLOB", "bytea", "", ""),
    fact("BLOB", "bytea", "", ""),
    fact("MEDIUMBLOB", "bytea", "", ""),
    fact("LONGBLOB", "bytea", "", ""),
    fact("ENUM('a','b''c')", "text", "'a'", "'a'::text"),
    fact("SET('x','y')", "text", "'x,y'", "'x,y'::text"),
    fact("DATE", "date 0", "'2020-02-29'", "'2020-02-29'::date"),
    fact("TIME", "interval 0", "'01:02:03'", "'01:02:03'::interval"),
    fact("TIME(6)", "interval 6", "", ""),
    fact("DATETIME", "timestamp without time zone 0", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP(0)"),
    fact("DATETIME(3)", "timestamp without time zone 3", "CURRENT_TIMESTAMP(3)", "LOCALTIMESTAMP(3)"),
    fact(
        "DATETIME(6)",
        "timestamp without time zone 6",
        "'2020-01-01 00:00:00.5'",
        "'2020-01-01 00:00:00.5'::timestamp without time zone",
    ),
    fact("TIMESTAMP", "timestamp with time zone 0", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP(0)"),
    fact("TIMESTAMP(6)", "timestamp with time zone 6", "", ""),
    fact("YEAR", "smallint 16 0", "2024", "2024"),
    fact("JSON", "jsonb", "(json_object())", "'{}'::jsonb"),
    fact("GEOMETRY", "bytea", "", ""),
    fact("POINT", "bytea", "", ""),
    fact("POLYGON SRID 4326", "bytea", "", ""),
    fact("VECTOR(3)", "ARRAY", "", ""),
    fact("BOOL", "smallint 16 0", "FALSE", "0"),
];

/// Tables for what is not of one column.
const OTHERS: &[&str] = &[
    "CREATE TABLE composite (b INT NOT NULL, a INT NOT NULL, c VARCHAR(5) NOT NULL, PRIMARY KEY (c, a), UNIQUE KEY ub (b), KEY kab (a DESC, b)) COMMENT 'two'",
    "CREATE TABLE no_key (a INT, b INT)",
    "CREATE TABLE parted (id INT PRIMARY KEY, a INT) PARTITION BY HASH (id) PARTITIONS 3",
    "CREATE TABLE child (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, b INT, FOREIGN KEY child_b (b) REFERENCES composite (b) ON DELETE SET NULL, INDEX half ((id * 2)), CHECK (b <> 7))",
];

/// The facts of a table, a line for each column and key.
const READ: &str = "
    SELECT concat_ws(' | ', c.table_name, line) FROM (
        SELECT table_name, concat_ws(' ', column_name, data_type, character_maximum_length, numeric_precision,
            numeric_scale, datetime_precision, CASE is_nullable WHEN 'NO' THEN 'NOT NULL' END, 'default ' || column_default) AS line
        FROM information_schema.columns WHERE table_schema = current_schema()
        UNION ALL SELECT k.table_name, concat_ws(' ', t.constraint_type, string_agg(k.column_name, ',' ORDER BY k.ordinal_position))
        FROM information_schema.key_column_usage k JOIN information_schema.table_constraints t USING (constraint_schema, constraint_name, table_name)
        WHERE k.table_schema = current_schema() GROUP BY k.table_name, t.constraint_type, k.constraint_name
        UNION ALL SELECT tablename, regexp_replace(indexdef, '^.* USING ', 'INDEX ') FROM pg_indexes WHERE schemaname = current_schema()
            AND indexname NOT LIKE '%pkey'
        UNION ALL SELECT relname, 'comment ' || obj_description(oid, 'pg_class') FROM pg_class WHERE relnamespace = current_schema()::regnamespace) c
    WHERE line IS NOT NULL ORDER BY 1";

/// Types of which MySQL takes no plain default, or which are no key here, have none of their own.
fn schema() -> (String, Vec<String>) {
    let (mut sql, mut expected) = (String::new(), Vec::new());
    for (number, Fact(mysql, target, default, on_target)) in FACTS.iter().enumerate() {
        let table = format!("t{number:02}");
        let with_default =
            if default.is_empty() { String::new() } else { format!(", c {mysql} DEFAULT {default}") };
        write!(sql, "CREATE TABLE {table} (id INT PRIMARY KEY, a {mysql}, b {mysql} NOT NULL{with_default}) COMMENT 'of {number}';")
            .unwrap_or_default();
        let mut line = |text: String| expected.push(format!("{table} | {text}"));
        line("id integer 32 0 NOT NULL".to_owned());
        line(format!("a {target}"));
        line(format!("b {target} NOT NULL"));
        if !default.is_empty() {
            line(format!("c {target} default {on_target}"));
        }
        line("PRIMARY KEY id".to_owned());
        line(format!("comment of {number}"));
    }
    for other in OTHERS {
        write!(sql, "{other};").unwrap_or_default();
    }
    expected.extend(
        [
            "composite | b integer 32 0 NOT NULL",
            "composite | a integer 32 0 NOT NULL",
            "composite | c character varying 5 NOT NULL",
            "composite | PRIMARY KEY c,a",
            "composite | INDEX btree (b)",
            "composite | INDEX btree (a DESC, b)",
            "composite | comment two",
            "no_key | a integer 32 0",
            "no_key | b integer 32 0",
            "parted | id integer 32 0 NOT NULL",
            "parted | a integer 32 0",
            "parted | PRIMARY KEY id",
            "child | id numeric 20 0 NOT NULL default nextval('child_id_seq'::regclass)",
            "child | b integer 32 0",
            "child | PRIMARY KEY id",
            "child | FOREIGN KEY b",
            "child | INDEX btree (b)",
            "child | INDEX btree (((id * (2)::numeric)))",
        ]
        .map(str::to_owned),
    );
    expected.sort();
    (sql, expected)
}

#[test]
fn sixty_tables_are_what_was_written_down_for_each_type() {
    run(async {
        let fixture = Servers::shared().await?.fixture("round_trip").await?;
        let (sql, expected) = schema();
        fixture.source(&sql).await?;
        let tidegate = Tidegate::start(fixture.config()).await?;
        tidegate.wait_state("streaming").await?;
        let read = || async {
            let mut lines: Vec<String> =
                fixture.target_rows(READ).await?.into_iter().flatten().flatten().collect();
            lines.sort();
            anyhow::Ok(lines)
        };
        let differences = |found: &[String]| {
            let missing =
                expected.iter().filter(|line| !found.contains(line)).map(|line| format!("- {line}"));
            let more = found.iter().filter(|line| !expected.contains(line)).map(|line| format!("+ {line}"));
            missing.chain(more).collect::<Vec<_>>().join("\n")
        };
        let copied = read().await?;
        ensure!(copied == expected, "by copy:\n{}", differences(&copied));
        // The same tables once more, by the stream, and after a restart.
        fixture.source("SET foreign_key_checks = 0; DROP TABLE child, composite").await?;
        fixture.source(&sql[sql.find("CREATE TABLE composite").unwrap_or_default()..].replace("CREATE TABLE no_key (a INT, b INT);", "").replace("CREATE TABLE parted (id INT PRIMARY KEY, a INT) PARTITION BY HASH (id) PARTITIONS 3;", "")).await?;
        tidegate.caught_up(&fixture).await?;
        ensure!(tidegate.stop().await? == Some(0));
        tidegate.launch(&[]).await?;
        tidegate.wait_state("streaming").await?;
        let streamed = read().await?;
        ensure!(streamed == expected, "by the stream:\n{}", differences(&streamed));
        Ok(())
    });
}
