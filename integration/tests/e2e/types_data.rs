//! Boundary values of every type that is converted: how MySQL is given them and how PostgreSQL
//! shows them as text, with `TimeZone` UTC, `DateStyle` ISO, `IntervalStyle` postgres and
//! `bytea_output` hex.
//!
//! Each row is meant to be written twice, once before the table is copied and once while its
//! changes are streamed, under different ids: both ways lead to the same text.

/// One table of one kind of columns, nullable and without a key column of its own.
pub(crate) struct TypeTable {
    pub(crate) name: &'static str,
    /// Names and types of its columns, for `CREATE TABLE name (id INT PRIMARY KEY, …)`.
    pub(crate) columns: &'static [(&'static str, &'static str)],
    /// What the target's columns are, as `format_type` prints it.
    pub(crate) target: &'static [&'static str],
    pub(crate) rows: &'static [TypeRow],
}

/// One row, written under `sql_mode = ''` and `time_zone = '+00:00'`.
pub(crate) struct TypeRow {
    /// SQL expressions, one per column.
    pub(crate) values: &'static [&'static str],
    /// The target's columns as text, `None` for NULL.
    pub(crate) expected: &'static [Option<&'static str>],
}

/// A value that PostgreSQL can't hold, and the halt that it leads to.
pub(crate) struct Refusal {
    /// The column's type, and NOT NULL where it matters.
    pub(crate) column: &'static str,
    pub(crate) value: &'static str,
    pub(crate) reason: &'static str,
}

/// Columns that keep a table from being replicated, and the halt that says so.
pub(crate) const REFUSED_COLUMNS: &[(&str, &str)] = &[
    ("ENUM('a\\0b')", "unsupported_type"),
    ("ENUM('a', x'c7fe') CHARACTER SET big5", "unsupported_type"),
    ("ENUM('a', x'fe') CHARACTER SET binary", "unsupported_charset"),
];

pub(crate) const REFUSED_VALUES: &[Refusal] = &[
    Refusal { column: "VARCHAR(10) CHARACTER SET cp1250", value: "x'81'", reason: "value_invalid" },
    Refusal { column: "VARCHAR(10) CHARACTER SET big5", value: "x'c7fe'", reason: "value_invalid" },
    Refusal { column: "VARCHAR(10) CHARACTER SET ucs2", value: "x'd800'", reason: "value_invalid" },
    Refusal { column: "TEXT CHARACTER SET utf16le", value: "x'61000000'", reason: "value_invalid" },
    Refusal { column: "CHAR(9) CHARACTER SET gb18030", value: "x'8431a530'", reason: "value_invalid" },
    Refusal { column: "VARCHAR(10)", value: "'a\\0b'", reason: "value_invalid" },
    Refusal { column: "TEXT CHARACTER SET latin1", value: "x'e900'", reason: "value_invalid" },
    Refusal { column: "JSON", value: r#"'{"a": "\\u0000"}'"#, reason: "value_invalid" },
    Refusal { column: "JSON", value: r#"'{"\\u0000": 1}'"#, reason: "value_invalid" },
    Refusal { column: "DATE", value: "'0000-01-01'", reason: "value_out_of_range" },
    Refusal { column: "DATETIME", value: "'0000-12-31 23:59:59'", reason: "value_out_of_range" },
];

pub(crate) const TYPE_TABLES: &[TypeTable] = &[
    INTEGERS,
    FLAGS,
    DECIMALS,
    FLOATS,
    BITS,
    TIMES,
    DATES,
    DATETIMES,
    TIMESTAMPS,
    TEXTS,
    LATIN1,
    BINARIES,
    CHARSETS,
    WIDE_CHARSETS,
    LABELS,
    OTHER_LABELS,
    SHAPES,
    VECTORS,
    JSON,
];

const INTEGERS: TypeTable = TypeTable {
    name: "integers",
    columns: &[
        ("a", "TINYINT"),
        ("b", "TINYINT UNSIGNED"),
        ("c", "SMALLINT"),
        ("d", "SMALLINT UNSIGNED"),
        ("e", "MEDIUMINT"),
        ("f", "MEDIUMINT UNSIGNED"),
        ("g", "INT"),
        ("h", "INT UNSIGNED"),
        ("i", "BIGINT"),
        ("j", "BIGINT UNSIGNED"),
        ("k", "YEAR"),
    ],
    target: &[
        "smallint",
        "smallint",
        "smallint",
        "integer",
        "integer",
        "integer",
        "integer",
        "bigint",
        "bigint",
        "numeric(20,0)",
        "smallint",
    ],
    rows: &[
        TypeRow {
            values: &[
                "-128",
                "255",
                "-32768",
                "65535",
                "-8388608",
                "16777215",
                "-2147483648",
                "4294967295",
                "-9223372036854775808",
                "18446744073709551615",
                "2155",
            ],
            expected: &[
                Some("-128"),
                Some("255"),
                Some("-32768"),
                Some("65535"),
                Some("-8388608"),
                Some("16777215"),
                Some("-2147483648"),
                Some("4294967295"),
                Some("-9223372036854775808"),
                Some("18446744073709551615"),
                Some("2155"),
            ],
        },
        TypeRow {
            values: &[
                "127",
                "0",
                "32767",
                "0",
                "8388607",
                "0",
                "2147483647",
                "0",
                "9223372036854775807",
                "9223372036854775808",
                "0",
            ],
            expected: &[
                Some("127"),
                Some("0"),
                Some("32767"),
                Some("0"),
                Some("8388607"),
                Some("0"),
                Some("2147483647"),
                Some("0"),
                Some("9223372036854775807"),
                Some("9223372036854775808"),
                Some("0"),
            ],
        },
        TypeRow {
            values: &["-1", "128", "-1", "32768", "-1", "8388608", "-1", "2147483648", "-1", "10000", "1901"],
            expected: &[
                Some("-1"),
                Some("128"),
                Some("-1"),
                Some("32768"),
                Some("-1"),
                Some("8388608"),
                Some("-1"),
                Some("2147483648"),
                Some("-1"),
                Some("10000"),
                Some("1901"),
            ],
        },
        TypeRow { values: &["NULL"; 11], expected: &[None; 11] },
    ],
};

const FLAGS: TypeTable = TypeTable {
    name: "flags",
    columns: &[("a", "TINYINT(1)"), ("b", "BIT(1)")],
    target: &["boolean", "boolean"],
    rows: &[
        TypeRow { values: &["0", "0"], expected: &[Some("false"), Some("false")] },
        TypeRow { values: &["1", "1"], expected: &[Some("true"), Some("true")] },
        TypeRow { values: &["NULL", "NULL"], expected: &[None, None] },
    ],
};

const DECIMALS: TypeTable = TypeTable {
    name: "decimals",
    columns: &[
        ("a", "DECIMAL(65,30)"),
        ("b", "DECIMAL(10,0) UNSIGNED"),
        ("c", "DECIMAL(9,9)"),
        ("d", "DECIMAL(18,9)"),
        ("e", "DECIMAL(1,0)"),
        ("f", "DECIMAL(65,0)"),
        ("g", "DECIMAL(30,30)"),
        ("h", "DECIMAL(5,2)"),
    ],
    target: &[
        "numeric(65,30)",
        "numeric(10,0)",
        "numeric(9,9)",
        "numeric(18,9)",
        "numeric(1,0)",
        "numeric(65,0)",
        "numeric(30,30)",
        "numeric(5,2)",
    ],
    rows: &[
        TypeRow {
            values: &[
                "12345678901234567890123456789012345.123456789012345678901234567890",
                "4294967295",
                "0.123456789",
                "123456789.987654321",
                "9",
                "99999999999999999999999999999999999999999999999999999999999999999",
                "0.999999999999999999999999999999",
                "999.99",
            ],
            expected: &[
                Some("12345678901234567890123456789012345.123456789012345678901234567890"),
                Some("4294967295"),
                Some("0.123456789"),
                Some("123456789.987654321"),
                Some("9"),
                Some("99999999999999999999999999999999999999999999999999999999999999999"),
                Some("0.999999999999999999999999999999"),
                Some("999.99"),
            ],
        },
        TypeRow {
            values: &[
                "-99999999999999999999999999999999999.999999999999999999999999999999",
                "9999999999",
                "-0.000000001",
                "-0.000000001",
                "-9",
                "-10000000000000000000000000000000000000000000000000000000000000000",
                "-0.000000000000000000000000000001",
                "-0.05",
            ],
            expected: &[
                Some("-99999999999999999999999999999999999.999999999999999999999999999999"),
                Some("9999999999"),
                Some("-0.000000001"),
                Some("-0.000000001"),
                Some("-9"),
                Some("-10000000000000000000000000000000000000000000000000000000000000000"),
                Some("-0.000000000000000000000000000001"),
                Some("-0.05"),
            ],
        },
        TypeRow {
            values: &["-0", "0", "0.1", "100000000", "0", "1000000000000000000", "-0.0", "100"],
            expected: &[
                Some("0.000000000000000000000000000000"),
                Some("0"),
                Some("0.100000000"),
                Some("100000000.000000000"),
                Some("0"),
                Some("1000000000000000000"),
                Some("0.000000000000000000000000000000"),
                Some("100.00"),
            ],
        },
        TypeRow { values: &["NULL"; 8], expected: &[None; 8] },
    ],
};

const FLOATS: TypeTable = TypeTable {
    name: "floats",
    columns: &[("a", "FLOAT"), ("b", "DOUBLE"), ("c", "FLOAT(7,3)")],
    target: &["real", "double precision", "real"],
    rows: &[
        TypeRow {
            values: &["3.402823466e38", "1.7976931348623157e308", "1234.567"],
            expected: &[Some("3.4028235e+38"), Some("1.7976931348623157e+308"), Some("1234.567")],
        },
        TypeRow {
            values: &["-1.175494351e-38", "-2.2250738585072014e-308", "-0.001"],
            expected: &[Some("-1.1754944e-38"), Some("-2.2250738585072014e-308"), Some("-0.001")],
        },
        TypeRow { values: &["0.1", "0.1", "0"], expected: &[Some("0.1"), Some("0.1"), Some("0")] },
        TypeRow { values: &["-0e0", "-0e0", "NULL"], expected: &[Some("-0"), Some("-0"), None] },
        TypeRow {
            values: &["16777216", "0.1e0 + 0.2e0", "NULL"],
            expected: &[Some("1.6777216e+07"), Some("0.30000000000000004"), None],
        },
    ],
};

const BITS: TypeTable = TypeTable {
    name: "bits",
    columns: &[("a", "BIT(7)"), ("b", "BIT(8)"), ("c", "BIT(9)"), ("d", "BIT(33)"), ("e", "BIT(64)")],
    target: &["bit(7)", "bit(8)", "bit(9)", "bit(33)", "bit(64)"],
    rows: &[
        TypeRow {
            values: &["b'1000001'", "b'10000001'", "b'100000001'", "(1 << 32) + 1", "(1 << 63) + 1"],
            expected: &[
                Some("1000001"),
                Some("10000001"),
                Some("100000001"),
                Some("100000000000000000000000000000001"),
                Some("1000000000000000000000000000000000000000000000000000000000000001"),
            ],
        },
        TypeRow {
            values: &["0"; 5],
            expected: &[
                Some("0000000"),
                Some("00000000"),
                Some("000000000"),
                Some("000000000000000000000000000000000"),
                Some("0000000000000000000000000000000000000000000000000000000000000000"),
            ],
        },
        TypeRow { values: &["NULL"; 5], expected: &[None; 5] },
    ],
};

const TIMES: TypeTable = TypeTable {
    name: "times",
    columns: &[
        ("t0", "TIME"),
        ("t1", "TIME(1)"),
        ("t2", "TIME(2)"),
        ("t3", "TIME(3)"),
        ("t4", "TIME(4)"),
        ("t5", "TIME(5)"),
        ("t6", "TIME(6)"),
    ],
    target: &[
        "interval(0)",
        "interval(1)",
        "interval(2)",
        "interval(3)",
        "interval(4)",
        "interval(5)",
        "interval(6)",
    ],
    rows: &[
        TypeRow {
            values: &[
                "'-838:59:59'",
                "'-838:59:58.9'",
                "'-838:59:58.99'",
                "'-838:59:58.999'",
                "'-838:59:58.9999'",
                "'-838:59:58.99999'",
                "'-838:59:58.999999'",
            ],
            expected: &[
                Some("-838:59:59"),
                Some("-838:59:58.9"),
                Some("-838:59:58.99"),
                Some("-838:59:58.999"),
                Some("-838:59:58.9999"),
                Some("-838:59:58.99999"),
                Some("-838:59:58.999999"),
            ],
        },
        TypeRow {
            values: &[
                "'838:59:59'",
                "'838:59:58.9'",
                "'838:59:58.99'",
                "'838:59:58.999'",
                "'838:59:58.9999'",
                "'838:59:58.99999'",
                "'838:59:58.999999'",
            ],
            expected: &[
                Some("838:59:59"),
                Some("838:59:58.9"),
                Some("838:59:58.99"),
                Some("838:59:58.999"),
                Some("838:59:58.9999"),
                Some("838:59:58.99999"),
                Some("838:59:58.999999"),
            ],
        },
        TypeRow {
            values: &[
                "'-00:00:01'",
                "'-00:00:00.1'",
                "'-00:00:00.01'",
                "'-00:00:00.001'",
                "'-00:00:00.0001'",
                "'-00:00:00.00001'",
                "'-00:00:00.000001'",
            ],
            expected: &[
                Some("-00:00:01"),
                Some("-00:00:00.1"),
                Some("-00:00:00.01"),
                Some("-00:00:00.001"),
                Some("-00:00:00.0001"),
                Some("-00:00:00.00001"),
                Some("-00:00:00.000001"),
            ],
        },
        TypeRow { values: &["0"; 7], expected: &[Some("00:00:00"); 7] },
        TypeRow { values: &["'25:00:00'"; 7], expected: &[Some("25:00:00"); 7] },
        TypeRow { values: &["NULL"; 7], expected: &[None; 7] },
    ],
};

const DATES: TypeTable = TypeTable {
    name: "dates",
    columns: &[("a", "DATE"), ("b", "DATE"), ("c", "DATE")],
    target: &["date"; 3],
    rows: &[
        TypeRow {
            values: &["'0001-01-01'", "'9999-12-31'", "'2024-02-29'"],
            expected: &[Some("0001-01-01"), Some("9999-12-31"), Some("2024-02-29")],
        },
        TypeRow {
            values: &["'1582-10-10'", "'1900-02-28'", "'2000-01-01'"],
            expected: &[Some("1582-10-10"), Some("1900-02-28"), Some("2000-01-01")],
        },
        TypeRow { values: &["'0000-00-00'", "'2024-00-00'", "'2024-02-00'"], expected: &[None; 3] },
        TypeRow { values: &["NULL"; 3], expected: &[None; 3] },
    ],
};

const DATETIMES: TypeTable = TypeTable {
    name: "datetimes",
    columns: &[
        ("d0", "DATETIME"),
        ("d1", "DATETIME(1)"),
        ("d2", "DATETIME(2)"),
        ("d3", "DATETIME(3)"),
        ("d4", "DATETIME(4)"),
        ("d5", "DATETIME(5)"),
        ("d6", "DATETIME(6)"),
    ],
    target: &[
        "timestamp(0) without time zone",
        "timestamp(1) without time zone",
        "timestamp(2) without time zone",
        "timestamp(3) without time zone",
        "timestamp(4) without time zone",
        "timestamp(5) without time zone",
        "timestamp(6) without time zone",
    ],
    rows: &[
        TypeRow {
            values: &[
                "'9999-12-31 23:59:59'",
                "'9999-12-31 23:59:59.9'",
                "'9999-12-31 23:59:59.99'",
                "'9999-12-31 23:59:59.999'",
                "'9999-12-31 23:59:59.9999'",
                "'9999-12-31 23:59:59.99999'",
                "'9999-12-31 23:59:59.999999'",
            ],
            expected: &[
                Some("9999-12-31 23:59:59"),
                Some("9999-12-31 23:59:59.9"),
                Some("9999-12-31 23:59:59.99"),
                Some("9999-12-31 23:59:59.999"),
                Some("9999-12-31 23:59:59.9999"),
                Some("9999-12-31 23:59:59.99999"),
                Some("9999-12-31 23:59:59.999999"),
            ],
        },
        TypeRow {
            values: &[
                "'0001-01-01'",
                "'1000-01-01 01:02:03.4'",
                "'1969-12-31 23:59:59.99'",
                "'1999-12-31 23:59:59.001'",
                "'2000-01-01 00:00:00.0001'",
                "'2024-02-29 12:00:00.00001'",
                "'0001-01-01 00:00:00.000001'",
            ],
            expected: &[
                Some("0001-01-01 00:00:00"),
                Some("1000-01-01 01:02:03.4"),
                Some("1969-12-31 23:59:59.99"),
                Some("1999-12-31 23:59:59.001"),
                Some("2000-01-01 00:00:00.0001"),
                Some("2024-02-29 12:00:00.00001"),
                Some("0001-01-01 00:00:00.000001"),
            ],
        },
        TypeRow { values: &["'0000-00-00 00:00:00'"; 7], expected: &[None; 7] },
        TypeRow { values: &["'2024-00-10 01:02:03'"; 7], expected: &[None; 7] },
        TypeRow { values: &["NULL"; 7], expected: &[None; 7] },
    ],
};

const TIMESTAMPS: TypeTable = TypeTable {
    name: "timestamps",
    columns: &[
        ("t0", "TIMESTAMP NULL"),
        ("t1", "TIMESTAMP(1) NULL"),
        ("t3", "TIMESTAMP(3) NULL"),
        ("t6", "TIMESTAMP(6) NULL"),
    ],
    target: &[
        "timestamp(0) with time zone",
        "timestamp(1) with time zone",
        "timestamp(3) with time zone",
        "timestamp(6) with time zone",
    ],
    rows: &[
        TypeRow {
            values: &[
                "'1970-01-01 00:00:01'",
                "'1970-01-01 00:00:01.1'",
                "'1970-01-01 00:00:01.001'",
                "'1970-01-01 00:00:01.000001'",
            ],
            expected: &[
                Some("1970-01-01 00:00:01+00"),
                Some("1970-01-01 00:00:01.1+00"),
                Some("1970-01-01 00:00:01.001+00"),
                Some("1970-01-01 00:00:01.000001+00"),
            ],
        },
        TypeRow {
            values: &[
                "'2038-01-19 03:14:07'",
                "'2038-01-19 03:14:07.4'",
                "'2038-01-19 03:14:07.499'",
                "'2038-01-19 03:14:07.499999'",
            ],
            expected: &[
                Some("2038-01-19 03:14:07+00"),
                Some("2038-01-19 03:14:07.4+00"),
                Some("2038-01-19 03:14:07.499+00"),
                Some("2038-01-19 03:14:07.499999+00"),
            ],
        },
        TypeRow { values: &["'0000-00-00 00:00:00'"; 4], expected: &[None; 4] },
        TypeRow { values: &["NULL"; 4], expected: &[None; 4] },
    ],
};

const TEXTS: TypeTable = TypeTable {
    name: "texts",
    columns: &[
        ("a", "VARCHAR(10)"),
        ("b", "CHAR(10)"),
        ("c", "CHAR(255)"),
        ("d", "VARCHAR(10) CHARACTER SET utf8mb3"),
        ("e", "VARCHAR(10) CHARACTER SET ascii"),
        ("f", "TINYTEXT"),
        ("g", "LONGTEXT"),
        ("h", "CHAR(0)"),
    ],
    target: &[
        "character varying(10)",
        "character varying(10)",
        "character varying(255)",
        "character varying(10)",
        "character varying(10)",
        "text",
        "text",
        "character varying(1)",
    ],
    rows: &[
        TypeRow {
            values: &[
                "'日本語😀'",
                "'pad  '",
                "'длинный'",
                "'漢字é'",
                "'ascii'",
                "'a\\'b\\\\c\\n'",
                "'text 😀'",
                "''",
            ],
            expected: &[
                Some("日本語😀"),
                Some("pad"),
                Some("длинный"),
                Some("漢字é"),
                Some("ascii"),
                Some("a'b\\c\n"),
                Some("text 😀"),
                Some(""),
            ],
        },
        TypeRow {
            values: &["'😀😀😀😀😀😀😀😀😀😀'", "'  lead'", "''", "'trail   '", "'~'", "''", "'\\t'", "''"],
            expected: &[
                Some("😀😀😀😀😀😀😀😀😀😀"),
                Some("  lead"),
                Some(""),
                Some("trail   "),
                Some("~"),
                Some(""),
                Some("\t"),
                Some(""),
            ],
        },
        TypeRow { values: &["NULL"; 8], expected: &[None; 8] },
    ],
};

const LATIN1: TypeTable = TypeTable {
    name: "latin1_texts",
    columns: &[
        ("a", "VARCHAR(10) CHARACTER SET latin1"),
        ("b", "CHAR(10) CHARACTER SET latin1"),
        ("c", "TEXT CHARACTER SET latin1"),
    ],
    target: &["character varying(10)", "character varying(10)", "text"],
    rows: &[
        TypeRow {
            values: &["'é€ÿ'", "'œ'", "x'80818d8f909d9fa0ff'"],
            expected: &[Some("é€ÿ"), Some("œ"), Some("€\u{81}\u{8d}\u{8f}\u{90}\u{9d}Ÿ\u{a0}ÿ")],
        },
        TypeRow { values: &["'plain'", "''", "NULL"], expected: &[Some("plain"), Some(""), None] },
    ],
};

const BINARIES: TypeTable = TypeTable {
    name: "binaries",
    columns: &[
        ("a", "BINARY(5)"),
        ("b", "VARBINARY(300)"),
        ("c", "TINYBLOB"),
        ("d", "LONGBLOB"),
        ("e", "BINARY(0)"),
    ],
    target: &["bytea"; 5],
    rows: &[
        TypeRow {
            values: &["x'0001'", "x'ff00fe00'", "x'00'", "x'deadbeef'", "''"],
            expected: &[
                Some("\\x0001000000"),
                Some("\\xff00fe00"),
                Some("\\x00"),
                Some("\\xdeadbeef"),
                Some("\\x"),
            ],
        },
        TypeRow {
            values: &["''", "''", "''", "'text'", "''"],
            expected: &[Some("\\x0000000000"), Some("\\x"), Some("\\x"), Some("\\x74657874"), Some("\\x")],
        },
        TypeRow {
            values: &["x'ffffffffff'", "NULL", "NULL", "NULL", "NULL"],
            expected: &[Some("\\xffffffffff"), None, None, None, None],
        },
    ],
};

const LABELS: TypeTable = TypeTable {
    name: "labels",
    columns: &[
        ("a", "ENUM('x','y','zé','it''s')"),
        ("b", "SET('p','q','r','sé')"),
        ("c", "ENUM('é','b') CHARACTER SET latin1"),
        ("d", "SET('a0','a1','a2','a3','a4','a5','a6','a7','a8','a9')"),
    ],
    target: &["text"; 4],
    rows: &[
        TypeRow {
            values: &["'x'", "'p,sé'", "'é'", "'a9,a0'"],
            expected: &[Some("x"), Some("p,sé"), Some("é"), Some("a0,a9")],
        },
        TypeRow {
            values: &["'zé'", "''", "2", "1023"],
            expected: &[Some("zé"), Some(""), Some("b"), Some("a0,a1,a2,a3,a4,a5,a6,a7,a8,a9")],
        },
        TypeRow {
            values: &["'no such label'", "15", "0", "512"],
            expected: &[Some(""), Some("p,q,r,sé"), Some(""), Some("a9")],
        },
        TypeRow {
            values: &["'it\\'s'", "NULL", "NULL", "NULL"],
            expected: &[Some("it's"), None, None, None],
        },
    ],
};

const JSON: TypeTable = TypeTable {
    name: "documents",
    columns: &[("a", "JSON")],
    target: &["jsonb"],
    rows: &[
        TypeRow {
            values: &[r#"'{"b": [1, -2.5, 1e308, true, null], "a": "é😀\\n\\"", "": {}}'"#],
            expected: &[Some(concat!(
                r#"{"": {}, "a": "é😀\n\"", "b": [1, -2.5, 100000000000000000000000000000000000000000000000000000"#,
                "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
                "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
                "00000000000000000000000000000000000000000000000000000000000, true, null]}",
            ))],
        },
        TypeRow { values: &["'null'"], expected: &[Some("null")] },
        TypeRow { values: &["'18446744073709551615'"], expected: &[Some("18446744073709551615")] },
        TypeRow {
            values: &["CAST(CAST('12345.6700' AS DECIMAL(20,4)) AS JSON)"],
            expected: &[Some("12345.6700")],
        },
        TypeRow {
            values: &["CAST(TIMESTAMP'2024-02-29 01:02:03.5' AS JSON)"],
            expected: &[Some("\"2024-02-29 01:02:03.500000\"")],
        },
        TypeRow { values: &["JSON_ARRAY(x'00ff')"], expected: &[Some("[\"base64:type15:AP8=\"]")] },
        TypeRow {
            values: &[concat!(
                "JSON_ARRAY(TIME'-838:59:59', DATE'2024-02-29', x'05', CAST(2024 AS YEAR), ",
                "CAST('-0.000000000000000000000000000001' AS DECIMAL(65,30)), ",
                "18446744073709551615, -9223372036854775808, TRUE)"
            )],
            expected: &[Some(concat!(
                r#"["-838:59:59.000000", "2024-02-29", "base64:type15:BQ==", 2024, "#,
                "-0.000000000000000000000000000001, 18446744073709551615, -9223372036854775808, true]"
            ))],
        },
        TypeRow {
            values: &["'[-0.0, 1.0, 1e-7, 0.1, 1e16]'"],
            expected: &[Some("[0.0, 1.0, 0.0000001, 0.1, 10000000000000000]")],
        },
        TypeRow {
            values: &[r#"'{"a": 1, "A": 2, "a ": 3, "á": 4, "a": 5}'"#],
            expected: &[Some(r#"{"A": 2, "a": 5, "a ": 3, "á": 4}"#)],
        },
        TypeRow {
            values: &["CONCAT(REPEAT('[', 100), REPEAT(']', 100))"],
            expected: &[Some(concat!(
                "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
                "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
            ))],
        },
        TypeRow { values: &[r#"'"\\\\u0000"'"#], expected: &[Some(r#""\\u0000""#)] },
        TypeRow { values: &["NULL"], expected: &[None] },
    ],
};

const CHARSETS: TypeTable = TypeTable {
    name: "charsets",
    columns: &[
        ("a", "VARCHAR(20) CHARACTER SET koi8r"),
        ("b", "CHAR(20) CHARACTER SET sjis"),
        ("c", "TEXT CHARACTER SET cp932"),
        ("d", "VARCHAR(20) CHARACTER SET ujis"),
        ("e", "CHAR(20) CHARACTER SET eucjpms"),
        ("f", "VARCHAR(20) CHARACTER SET gb18030"),
        ("g", "VARCHAR(20) CHARACTER SET big5"),
        ("h", "TEXT CHARACTER SET euckr"),
        ("i", "VARCHAR(20) CHARACTER SET gbk"),
    ],
    target: &[
        "character varying(20)",
        "character varying(20)",
        "text",
        "character varying(20)",
        "character varying(20)",
        "character varying(20)",
        "character varying(20)",
        "text",
        "character varying(20)",
    ],
    rows: &[
        TypeRow {
            values: &[
                "'Привет'",
                "x'835cb15c815f'",
                "x'8754fa4a'",
                "x'8fb0a18eb1a4a2'",
                "x'8ff3f3ada1'",
                "x'd6d0813081309532823684318236e3329a35'",
                "x'a55ca145'",
                "x'b0a18141'",
                "x'd6d08140'",
            ],
            expected: &[
                Some("Привет"),
                Some("ソｱ\\\\"),
                Some("ⅠⅠ"),
                Some("丂ｱあ"),
                Some("ⅰ①"),
                Some("中\u{80}𠀀\u{fe10}\u{10ffff}"),
                Some("功•"),
                Some("가갂"),
                Some("中丂"),
            ],
        },
        TypeRow {
            values: &["'plain'", "'pad  '", "''", "'~'", "''", "' lead'", "'trail '", "''", "'a?b'"],
            expected: &[
                Some("plain"),
                Some("pad"),
                Some(""),
                Some("~"),
                Some(""),
                Some(" lead"),
                Some("trail "),
                Some(""),
                Some("a?b"),
            ],
        },
        TypeRow { values: &["NULL"; 9], expected: &[None; 9] },
    ],
};

const WIDE_CHARSETS: TypeTable = TypeTable {
    name: "wide_charsets",
    columns: &[
        ("a", "VARCHAR(20) CHARACTER SET ucs2"),
        ("b", "CHAR(20) CHARACTER SET utf16"),
        ("c", "TEXT CHARACTER SET utf16le"),
        ("d", "CHAR(255) CHARACTER SET utf32"),
        ("e", "VARCHAR(20) CHARACTER SET swe7"),
        ("f", "CHAR(20) CHARACTER SET ucs2"),
    ],
    target: &[
        "character varying(20)",
        "character varying(20)",
        "text",
        "character varying(255)",
        "character varying(20)",
        "character varying(20)",
    ],
    rows: &[
        TypeRow {
            values: &["'aé漢\u{ffff}'", "'😀 é'", "'😀 é'", "'😀 é\u{10ffff}'", "x'5b5c5d7b'", "'é  '"],
            expected: &[
                Some("aé漢\u{ffff}"),
                Some("😀 é"),
                Some("😀 é"),
                Some("😀 é\u{10ffff}"),
                Some("ÄÖÅä"),
                Some("é"),
            ],
        },
        TypeRow {
            values: &["''", "'pad  '", "'a'", "'  lead'", "'plain'", "''"],
            expected: &[Some(""), Some("pad"), Some("a"), Some("  lead"), Some("plain"), Some("")],
        },
        TypeRow { values: &["NULL"; 6], expected: &[None; 6] },
    ],
};

const OTHER_LABELS: TypeTable = TypeTable {
    name: "other_labels",
    columns: &[
        ("a", "ENUM('x','?','😀','y😀?')"),
        ("b", "SET('p','😀','?') CHARACTER SET utf16"),
        ("c", "ENUM('да','нет') CHARACTER SET cp1251"),
        ("d", "ENUM('a','b?') CHARACTER SET binary"),
        ("e", "SET('ソ','ｱ') CHARACTER SET sjis"),
    ],
    target: &["text"; 5],
    rows: &[
        TypeRow {
            values: &["'😀'", "'?,😀'", "'нет'", "'b?'", "3"],
            expected: &[Some("😀"), Some("😀,?"), Some("нет"), Some("b?"), Some("ソ,ｱ")],
        },
        TypeRow {
            values: &["'?'", "'p'", "'да'", "'a'", "''"],
            expected: &[Some("?"), Some("p"), Some("да"), Some("a"), Some("")],
        },
        TypeRow {
            values: &["4", "7", "0", "0", "NULL"],
            expected: &[Some("y😀?"), Some("p,😀,?"), Some(""), Some(""), None],
        },
    ],
};

/// The coordinates of a geographic system are given as latitude, longitude and stored the other way.
const SHAPES: TypeTable = TypeTable {
    name: "shapes",
    columns: &[
        ("a", "GEOMETRY"),
        ("b", "POINT SRID 4326"),
        ("c", "GEOMETRYCOLLECTION"),
        ("d", "MULTIPOLYGON"),
    ],
    target: &["bytea"; 4],
    rows: &[
        TypeRow {
            values: &[
                "ST_GeomFromText('LINESTRING(1 2,3 4)')",
                "ST_GeomFromText('POINT(51.5 -0.125)', 4326)",
                "ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')",
                "NULL",
            ],
            expected: &[
                Some("\\x010200000002000000000000000000f03f000000000000004000000000000008400000000000001040"),
                Some("\\x0101000020e6100000000000000000c0bf0000000000c04940"),
                Some("\\x010700000000000000"),
                None,
            ],
        },
        TypeRow {
            values: &[
                "ST_GeomFromText('POINT(1 -1)', 3857)",
                "NULL",
                "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2),GEOMETRYCOLLECTION EMPTY)', 4326)",
                "ST_GeomFromText('MULTIPOLYGON(((0 0,0 1,1 1,0 0)))')",
            ],
            expected: &[
                Some("\\x0101000020110f0000000000000000f03f000000000000f0bf"),
                None,
                Some(
                    "\\x0107000020e61000000200000001010000000000000000000040000000000000f03f010700000000000000",
                ),
                Some(concat!(
                    "\\x010600000001000000010300000001000000040000000000000000000000000000000000000000000000",
                    "00000000000000000000f03f000000000000f03f000000000000f03f00000000000000000000000000000000",
                )),
            ],
        },
    ],
};

const VECTORS: TypeTable = TypeTable {
    name: "vectors",
    columns: &[("a", "VECTOR(3)"), ("b", "VECTOR(16383)")],
    target: &["real[]"; 2],
    rows: &[
        TypeRow {
            values: &["TO_VECTOR('[1,-2.5,300000]')", "TO_VECTOR('[0.1]')"],
            expected: &[Some("{1,-2.5,300000}"), Some("{0.1}")],
        },
        TypeRow {
            values: &["x'ffff7f7f0000008000000000'", "NULL"],
            expected: &[Some("{3.4028235e+38,-0,0}"), None],
        },
    ],
};
