#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::fold::statement::{Context, Statement, classify};
use tidegate::schema::alter::{StatementFacts, alter};
use tidegate::schema::ddl::Content;
use tidegate::schema::{Column, MysqlType, TableModel, TableName, TargetType};

/// utf8mb4, latin1, gbk, sjis, gb18030, big5, cp1251, one that does not exist.
const COLLATIONS: [u16; 8] = [255, 8, 28, 13, 248, 1, 51, 9999];

fn model() -> TableModel {
    let columns = ["id", "a", "b"].map(|name| Column {
        name: name.to_owned(),
        mysql: MysqlType::Int { unsigned: false },
        target: TargetType::Integer,
        nullable: name != "id",
        auto_increment: false,
        generated: false,
    });
    TableModel {
        name: TableName { database: "app".to_owned(), table: "t".to_owned() },
        columns: columns.to_vec(),
        key: vec![0],
        key_is_primary: true,
        engine: "InnoDB".to_owned(),
        default_charset: Some("utf8mb4".to_owned()),
    }
}

fuzz_target!(|input: &[u8]| {
    let [flags, collation, text @ ..] = input else { return };
    // Bits of `sql_mode`: REAL_AS_FLOAT, ANSI_QUOTES, NO_BACKSLASH_ESCAPES, STRICT_TRANS_TABLES.
    let bits = [1, 1 << 2, 1 << 20, 1 << 21];
    let mode = bits.iter().enumerate().filter(|(at, _)| flags >> at & 1 == 1).map(|(_, bit)| bit).sum();
    let collation = COLLATIONS[usize::from(*collation) % COLLATIONS.len()];
    let context = Context {
        default_database: b"app",
        sql_mode: Some(mode),
        client_collation: Some(collation),
        connection_collation: Some(collation),
    };
    let Ok(Statement::Ddl(ddl)) = classify(text, &context) else { return };
    let Content::Alter(operations) = ddl.content else { return };
    let facts = StatementFacts {
        timestamp_micros: 1_700_000_000_000_000,
        time_zone: Some("+02:00".to_owned()),
        system_time_zone: None,
        sql_mode: Some(mode),
        explicit_defaults_for_timestamp: Some(true),
    };
    let before = model();
    if let Ok(altered) = alter(&before, &operations, &facts) {
        assert!(altered.model.key.iter().all(|at| *at < altered.model.columns.len()));
        assert_eq!(altered.model.key.len(), before.key.len());
    }
});
