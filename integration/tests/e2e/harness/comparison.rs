//! The comparison says "same" of every type when it is, and finds each kind of planted difference.

use tidegate_integration::compare::What;
use tidegate_integration::{Fixture, Servers, run};

/// A table with a column of every type, extreme values, and NULLs.
const SOURCE: &str = r#"
    SET SESSION sql_mode = '';
    CREATE TABLE kinds (
      id BIGINT UNSIGNED PRIMARY KEY, flag TINYINT(1), tiny TINYINT, med MEDIUMINT, big BIGINT UNSIGNED ZEROFILL,
      dec1 DECIMAL(30,10), dec2 DECIMAL(6,2) ZEROFILL, fl FLOAT, db DOUBLE, b1 BIT(1), b12 BIT(12),
      c CHAR(10) CHARACTER SET latin1, vc VARCHAR(50), tx TEXT CHARACTER SET utf8mb4, bin BINARY(4), blo BLOB,
      e ENUM('one','two'), s SET('a','b','c'), d DATE, dt DATETIME(6), ts TIMESTAMP(3) NULL, ti TIME(6), y YEAR,
      j JSON, g POINT SRID 4326, ls GEOMETRY, v VECTOR(3));
    INSERT INTO kinds VALUES
      (18446744073709551615, 1, -128, -8388608, 42, -12345678901234567890.0123456789, 7.5, 0.1, 1e-300, 1, 5,
       'äé', 'x''y', '𝄞 tide', X'0001', X'00FF', 'two', 'a,c', '0001-01-01', '9999-12-31 23:59:59.999999',
       '2038-01-19 03:14:07.123', '-838:59:58.999999', 2155, '{"b": [1, 2.50, "é"], "a": {"x": null}}',
       ST_GeomFromText('POINT(10 20)', 4326), ST_GeomFromText('LINESTRING(0 0, 1 1)'), TO_VECTOR('[1,-2.5,3e10]')),
      (2, 0, 0, 0, 0, 0, 0, -0e0, 0, 0, 0, '', '', '', '', '', '', '', '0000-00-00', '0000-00-00', '2024-02-29',
       '00:00:00', 0, '[]', NULL, NULL, NULL),
      (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, 'null', NULL, NULL, NULL);
    CREATE TABLE keyless (a INT, b VARCHAR(20));
    INSERT INTO keyless VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
    CREATE TABLE composite (a VARCHAR(10), b INT, note TEXT, PRIMARY KEY (b, a));
    INSERT INTO composite VALUES ('p', 1, 'one'), ('q', 1, 'two'), ('p', 2, 'three');
    CREATE TABLE empty_table (id INT PRIMARY KEY);
    CREATE VIEW a_view AS SELECT 1 AS x
"#;

/// The same values as the target holds them.
const TARGET: &str = r#"
    CREATE TABLE kinds (
      id numeric(20) PRIMARY KEY, flag boolean, tiny smallint, med int, big numeric(20),
      dec1 numeric(30,10), dec2 numeric(6,2), fl real, db double precision, b1 boolean, b12 bit(12),
      c varchar(10), vc varchar(50), tx text, bin bytea, blo bytea,
      e text, s text, d date, dt timestamp(6), ts timestamptz(3), ti interval(6), y smallint,
      j jsonb, g bytea, ls bytea, v real[]);
    INSERT INTO kinds VALUES
      (18446744073709551615, true, -128, -8388608, 42, -12345678901234567890.0123456789, 7.5, 0.1, 1e-300, true,
       B'000000000101', 'äé', 'x''y', '𝄞 tide', '\x00010000', '\x00ff', 'two', 'a,c', '0001-01-01',
       '9999-12-31 23:59:59.999999', '2038-01-19 03:14:07.123+00', '-838:59:58.999999', 2155,
       '{"a": {"x": null}, "b": [1, 2.5, "é"]}', '\x0101000020e610000000000000000034400000000000002440',
       '\x01020000000200000000000000000000000000000000000000000000000000f03f000000000000f03f', '{1,-2.5,3e10}'),
      (2, false, 0, 0, 0, 0, 0, '-0', 0, false, B'000000000000', '', '', '', '\x00000000', '', '', '', NULL, NULL,
       '2024-02-29 00:00:00+00', '0', 0, '[]', NULL, NULL, NULL),
      (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, 'null', NULL, NULL, NULL);
    CREATE TABLE keyless (a int, b varchar(20));
    INSERT INTO keyless VALUES (NULL, NULL), (1, 'x'), (1, 'x');
    CREATE TABLE composite (a varchar(10), b int, note text, PRIMARY KEY (b, a));
    INSERT INTO composite VALUES ('p', 2, 'three'), ('p', 1, 'one'), ('q', 1, 'two');
    CREATE TABLE empty_table (id int PRIMARY KEY)
"#;

async fn same_on_both_sides(name: &str) -> anyhow::Result<Fixture<'static>> {
    let fixture = Servers::shared().await?.fixture(name).await?;
    fixture.source(SOURCE).await?;
    fixture.target(&format!("CREATE SCHEMA {}", fixture.source)).await?;
    // The session of the server is not in UTC: the comparison must not care.
    fixture.target(&format!("SET timezone = 'Asia/Tokyo'; {TARGET}")).await?;
    Ok(fixture)
}

#[test]
fn every_type_compares_as_the_same() {
    run(async {
        let fixture = same_on_both_sides("same").await?;
        let found = fixture.compare().await?;
        assert_eq!(found.differences, []);
        assert_eq!((found.tables, found.rows), (4, 9), "views are not tables");
        fixture.assert_same().await
    });
}

/// Changes one value at a time in the target: the comparison names exactly that column.
#[test]
fn a_changed_value_of_any_type_is_found() {
    run(async {
        let fixture = same_on_both_sides("changed").await?;
        let changes = [
            ("flag", "false"),
            ("tiny", "-127"),
            ("med", "8388608"),
            ("big", "43"),
            ("dec1", "-12345678901234567890.0123456788"),
            ("dec2", "7.51"),
            ("fl", "'0.10000001'"),
            ("db", "'1.0000000000000002e-300'"),
            ("b1", "false"),
            ("b12", "B'100000000101'"),
            ("c", "'äe'"),
            ("vc", "'x''y '"),
            ("tx", "'𝄢 tide'"),
            ("bin", r"'\x0001'"),
            ("blo", r"'\x00fe'"),
            ("e", "'one'"),
            ("s", "'c,a'"),
            ("d", "'0001-01-01 BC'"),
            ("dt", "'9999-12-31 23:59:59.999998'"),
            ("ts", "'2038-01-19 03:14:07.123+01'"),
            ("ti", "'838:59:58.999999'"),
            ("y", "155"),
            ("j", r#"'{"a": {"x": null}, "b": [1, 2.5, "e"]}'"#),
            ("g", r"'\x010100000000000000000034400000000000002440'"),
            ("ls", "NULL"),
            ("v", "'{1,-2.5,3.00001e10}'"),
        ];
        let session = fixture.target_session().await?;
        for (column, value) in changes {
            let changed = format!("UPDATE kinds SET {column} = {value} WHERE id > 3");
            session.exec(&format!("CREATE TABLE public.kept AS TABLE kinds; {changed}")).await?;
            let found = fixture.compare().await?.differences;
            let named = |what: &What| matches!(what, What::Value { column: c, .. } if c == column);
            assert!(found.len() == 1 && named(&found[0].what), "{column} = {value}: {found:?}");
            session
                .exec("TRUNCATE kinds; INSERT INTO kinds TABLE public.kept; DROP TABLE public.kept")
                .await?;
        }
        session.exec("UPDATE kinds SET vc = '' WHERE id = 3").await?;
        let found = fixture.compare().await?.differences;
        assert_eq!(found.len(), 1, "NULL is not the empty string: {found:?}");
        Ok(())
    });
}

#[test]
fn missing_and_extra_rows_tables_and_columns_are_found() {
    run(async {
        let fixture = same_on_both_sides("planted").await?;
        fixture
            .target_rows(
                "DELETE FROM composite WHERE a = 'q';
             INSERT INTO composite VALUES ('r', 3, 'new');
             DELETE FROM keyless WHERE ctid IN (SELECT ctid FROM keyless WHERE a = 1 LIMIT 1);
             ALTER TABLE keyless ADD COLUMN more int;
             ALTER TABLE kinds DROP COLUMN tiny;
             DROP TABLE empty_table;
             CREATE TABLE extra (id int)",
            )
            .await?;
        let found = fixture.compare().await?.differences;
        let mut found: Vec<String> = found.iter().map(ToString::to_string).collect();
        found.sort();
        let expected = [
            "composite: the source does not have row (a=\"r\", b=3)",
            "composite: the target does not have row (a=\"q\", b=1)",
            "empty_table: the target does not have this table",
            "extra: the source does not have this table",
            "keyless: the source does not have column more",
            "keyless: the target does not have row (a=1, b=\"x\")",
            "kinds: the target does not have column tiny",
        ];
        assert_eq!(found, expected);
        let error = fixture.assert_same().await.expect_err("the sides differ").to_string();
        assert!(error.starts_with("7 differences"), "{error}");
        Ok(())
    });
}

#[test]
fn many_rows_are_compared_in_good_time() {
    run(async {
        let fixture = Servers::shared().await?.fixture("many").await?;
        fixture
            .source(
                "SET SESSION cte_max_recursion_depth = 200000;
                 CREATE TABLE many (id INT PRIMARY KEY, a VARCHAR(40), b DECIMAL(12,3), c DATETIME(6));
                 INSERT INTO many WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
                 SELECT i, CONCAT('row ', i), i / 8, FROM_UNIXTIME(i) FROM n",
            )
            .await?;
        let schema = &fixture.source;
        fixture
            .target(&format!(
                "CREATE SCHEMA {schema};
                 CREATE TABLE {schema}.many (id int PRIMARY KEY, a varchar(40), b numeric(12,3), c timestamp(6));
                 INSERT INTO {schema}.many SELECT i, 'row ' || i, i / 8.0, to_timestamp(i) AT TIME ZONE 'UTC'
                 FROM generate_series(1, 200000) i"
            ))
            .await?;
        fixture.assert_same().await?;
        fixture.target("UPDATE many SET a = 'row' WHERE id % 1000 = 7").await?;
        assert_eq!(fixture.compare().await?.differences.len(), 200);
        Ok(())
    });
}
