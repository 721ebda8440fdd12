//! Tables, transactions and row images of a made-up source: columns are INT or VARCHAR(10).

use std::sync::Arc;

use bytes::Bytes;
use tidegate::binlog::table_map::{Encoding, MapColumn, TableMap};
use tidegate::fold::statement::{Ddl, DdlKind};
use tidegate::fold::unit::{Fingerprint, RowsChange, RowsKind, SchemaChange, Transaction};
use tidegate::gtid::{Gtid, Tag};
use tidegate::schema::ddl::Content;
use tidegate::schema::{Column, MysqlType, TableModel, TableName, TargetType};

pub(super) const SOURCE: &str = "11111111-2222-3333-4444-555555555555";

/// utf8mb4_0900_ai_ci.
const UTF8MB4: u32 = 255;

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Int(i32),
    Text(&'static str),
}

pub(super) use Value::{Int, Null, Text};

/// A table of the source.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) model: TableModel,
    pub(super) map: Arc<TableMap>,
}

pub(super) fn gtid(gno: u64) -> Gtid {
    Gtid::new(SOURCE.parse().expect("a UUID"), Tag::none(), gno).expect("a GTID")
}

fn fingerprint(gno: u64) -> Fingerprint {
    let micros = 1_700_000_000_000_000 + gno;
    Fingerprint {
        original_commit_micros: micros,
        immediate_commit_micros: micros + 1,
        transaction_length: 100 + gno,
    }
}

impl Table {
    /// `columns` are names with `true` for VARCHAR(10), all nullable but those of the key.
    pub(super) fn new(database: &str, table: &str, columns: &[(&str, bool)], key: &[usize]) -> Self {
        let name = TableName { database: database.to_owned(), table: table.to_owned() };
        let mysql = |text| {
            if text {
                MysqlType::Varchar { length: 10, charset: "utf8mb4".to_owned() }
            } else {
                MysqlType::Int { unsigned: false }
            }
        };
        let encoding = |text| {
            if text {
                Encoding::Varchar { max_bytes: 40, collation: UTF8MB4 }
            } else {
                Encoding::Int { unsigned: false }
            }
        };
        let indexed = || columns.iter().enumerate();
        let model = TableModel {
            columns: indexed()
                .map(|(index, &(name, text))| Column {
                    name: name.to_owned(),
                    mysql: mysql(text),
                    target: if text { TargetType::Varchar { length: 10 } } else { TargetType::Integer },
                    nullable: !key.contains(&index),
                    not_null_dropped: false,
                    auto_increment: false,
                    generated: false,
                    details: Default::default(),
                })
                .collect(),
            key: key.to_vec(),
            key_is_primary: true,
            engine: "InnoDB".to_owned(),
            default_charset: None,
            details: Default::default(),
            name,
        };
        let map = TableMap {
            table_id: 1,
            database: database.to_owned(),
            table: table.to_owned(),
            columns: indexed()
                .map(|(index, &(name, text))| MapColumn {
                    name: name.to_owned(),
                    encoding: encoding(text),
                    nullable: !key.contains(&index),
                    visible: true,
                })
                .collect(),
            key: key.to_vec(),
            raw: Bytes::from(format!("{database}.{table} {columns:?} {key:?}")),
        };
        Self { model, map: Arc::new(map) }
    }

    pub(super) fn insert(&self, rows: &[&[Value]]) -> RowsChange {
        self.change(RowsKind::Write, rows)
    }

    pub(super) fn delete(&self, rows: &[&[Value]]) -> RowsChange {
        self.change(RowsKind::Delete, rows)
    }

    /// Rows in pairs: before, after.
    pub(super) fn update(&self, rows: &[&[Value]]) -> RowsChange {
        self.change(RowsKind::Update, rows)
    }

    fn change(&self, kind: RowsKind, rows: &[&[Value]]) -> RowsChange {
        let mut images = Vec::new();
        for row in rows {
            assert_eq!(row.len(), self.map.columns.len(), "a full image");
            write_image(row, &mut images);
        }
        RowsChange { map: Arc::clone(&self.map), kind, flags: 1, images: images.into() }
    }
}

/// A bitmap of NULLs, then the values: INT as four bytes, VARCHAR with one byte of length.
fn write_image(row: &[Value], out: &mut Vec<u8>) {
    let mut nulls = vec![0_u8; row.len().div_ceil(8)];
    for (index, _) in row.iter().enumerate().filter(|(_, value)| matches!(value, Null)) {
        nulls[index / 8] |= 1 << (index % 8);
    }
    out.extend_from_slice(&nulls);
    for value in row {
        match value {
            Null => {}
            Int(number) => out.extend_from_slice(&number.to_le_bytes()),
            Text(text) => {
                out.push(u8::try_from(text.len()).expect("a short text"));
                out.extend_from_slice(text.as_bytes());
            }
        }
    }
}

/// The transaction with this number.
pub(super) fn transaction(gno: u64, changes: Vec<RowsChange>) -> Transaction {
    let changes = changes.into_iter().collect();
    let (gtid, fingerprint) = (gtid(gno), fingerprint(gno));
    Transaction { gtid, fingerprint, changes, overlap_pending: false, resolves: None }
}

/// A DDL statement with this number.
pub(super) fn ddl(gno: u64, kind: DdlKind, tables: &[&TableName]) -> Box<SchemaChange> {
    let tables = tables.iter().map(|name| (*name).clone()).collect();
    let statement = Ddl { kind, tables, databases: Vec::new(), content: Content::Names };
    let facts = Default::default();
    let (gtid, fingerprint) = (gtid(gno), fingerprint(gno));
    Box::new(SchemaChange { gtid, fingerprint, overlap_pending: false, statement, facts })
}

/// How a table map shows a nullable column of this type.
pub(super) fn map_column(name: &str, mysql: &MysqlType) -> MapColumn {
    let encoding = match *mysql {
        MysqlType::TinyInt { unsigned, .. } => Encoding::TinyInt { unsigned },
        MysqlType::SmallInt { unsigned } => Encoding::SmallInt { unsigned },
        MysqlType::BigInt { unsigned } => Encoding::BigInt { unsigned },
        MysqlType::Float { unsigned } => Encoding::Float { unsigned },
        MysqlType::Double { unsigned } => Encoding::Double { unsigned },
        MysqlType::Text { .. } => Encoding::Blob { length_bytes: 2, collation: UTF8MB4 },
        MysqlType::Blob => Encoding::Blob { length_bytes: 2, collation: 63 },
        MysqlType::Bit { width } => Encoding::Bit { width },
        MysqlType::Date => Encoding::Date,
        MysqlType::DateTime { digits } => Encoding::DateTime { digits },
        MysqlType::Timestamp { digits } => Encoding::Timestamp { digits },
        MysqlType::Time { digits } => Encoding::Time { digits },
        MysqlType::Json => Encoding::Json { length_bytes: 4 },
        ref other => unreachable!("no test has a column of type {other}"),
    };
    MapColumn { name: name.to_owned(), encoding, nullable: true, visible: true }
}
