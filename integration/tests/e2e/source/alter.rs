//! ALTER TABLE carried out by the model, compared with what the server made of it.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use tidegate::binlog::cell::Cell;
use tidegate::fold::statement::DdlKind;
use tidegate::fold::unit::{SchemaChange, Unit};
use tidegate::fold::{Cascades, Fold, FoldPolicy, Step, XaPolicy};
use tidegate::schema::alter::{Altered, Fill, TargetChange, alter};
use tidegate::schema::ddl::Content;
use tidegate::schema::filter::Filter;
use tidegate::schema::overrides::Overrides;
use tidegate::schema::{TableModel, TableName};
use tidegate::source::connect::{self, connect};
use tidegate::source::dump::Dump;
use tidegate::source::reader::{self, chunk};
use tidegate::source::session::Session;
use tidegate::spill::SpillDirectory;
use tidegate_integration::{Fixture, MySql, Servers, run};

use super::{config, executed, next, replica_uuid};

/// The table that every statement starts from, with a row.
const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10), b INT NOT NULL DEFAULT 7, \
     e ENUM('x','y'), d DECIMAL(6,2), w DATETIME(3), z TIMESTAMP NULL, s SET('p','q'), c CHAR(4), \
     l TEXT, u SMALLINT UNSIGNED, f FLOAT, h TIME, y TINYINT(1), bl VARBINARY(8), KEY kb (b)) \
     DEFAULT CHARSET latin1";
const ROW: &str = "INSERT INTO t VALUES (1, 'one', 2, 'y', 1.25, '2024-01-02 03:04:05.678', \
     '2024-01-02 03:04:05', 'p,q', 'ab', 'text', 9, 0.5, '-12:34:56', 1, x'00ff')";

/// Statements whose effect is computed.
const CARRIED: &[&str] = &[
    "ADD n INT",
    "ADD n POINT, ADD m VECTOR(3)",
    "ADD n INT FIRST, ADD m INT AFTER n",
    "ADD n INT FIRST, ADD m INT FIRST",
    "ADD (n INT, m VARCHAR(5) NOT NULL DEFAULT 'x')",
    "ADD n INT NOT NULL",
    "ADD n BIGINT UNSIGNED NOT NULL DEFAULT 18446744073709551615 AFTER id",
    "ADD n TINYINT(1) NOT NULL DEFAULT TRUE",
    "ADD n BOOL, ADD m TINYINT(1) UNSIGNED, ADD o TINYINT(1) ZEROFILL",
    "ADD n DECIMAL NOT NULL, ADD m DEC(5,2) DEFAULT -1.5, ADD o NUMERIC(3) DEFAULT 007, ADD p FIXED(0)",
    "ADD n FLOAT NOT NULL DEFAULT 0.1, ADD m DOUBLE PRECISION DEFAULT -1.5e3, ADD o REAL, ADD p FLOAT(30)",
    "ADD n CHAR(5) NOT NULL DEFAULT 'a  ', ADD m VARCHAR(5) DEFAULT 'a  ', ADD o VARCHAR(3) DEFAULT 12",
    "ADD n VARCHAR(3) DEFAULT 'é€', ADD m VARCHAR(3) CHARACTER SET utf8mb4 DEFAULT 'é😀'",
    "ADD n TEXT NOT NULL, ADD m BLOB NOT NULL, ADD o LONG VARCHAR, ADD p LONG VARBINARY",
    "ADD n BINARY(3) NOT NULL, ADD m VARBINARY(3) DEFAULT x'00ff', ADD o CHAR(2) BYTE",
    "ADD n VARCHAR(5) COLLATE utf8mb4_bin, ADD m VARCHAR(5) CHARSET utf8, ADD o CHAR(5) ASCII, ADD p NCHAR(3)",
    "ADD n BIT(9) NOT NULL, ADD m BIT DEFAULT b'1', ADD o BIT(64) DEFAULT 0b101",
    "ADD n ENUM('b','a') NOT NULL, ADD m ENUM('it''s','b\"c','\\\\') DEFAULT 'it''s', ADD o SET('m','n') NOT NULL DEFAULT 'm,n'",
    "ADD n YEAR NOT NULL DEFAULT 1999, ADD m YEAR(4)",
    "ADD n JSON NOT NULL, ADD m JSON",
    "ADD n DATE DEFAULT '2024-02-29', ADD m TIME(2) DEFAULT '-101:02:03.45', ADD o DATETIME(1) DEFAULT '2024-01-02 03:04:05.6'",
    "ADD n TIMESTAMP DEFAULT '2024-01-01 00:00:00', ADD m TIMESTAMP NULL, ADD o TIMESTAMP(3) NULL DEFAULT '2024-07-01 12:00:00.5'",
    "ADD n TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD m DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP",
    "ADD n TIMESTAMP(6) NOT NULL DEFAULT NOW(6), ADD m DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)",
    "ADD n INT UNIQUE, ADD m INT INVISIBLE DEFAULT 4, ADD o INT COMMENT 'x; drop'",
    "ADD n INT CHECK (n > 0), ADD CONSTRAINT k CHECK (b >= 0) NOT ENFORCED",
    "DROP a",
    "DROP a, ADD a INT DEFAULT 3 AFTER b",
    "DROP COLUMN a, DROP COLUMN b, ADD q INT FIRST",
    "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "CHANGE a b2 VARCHAR(20), CHANGE b a2 BIGINT NOT NULL, ADD n INT AFTER b2",
    "CHANGE a A VARCHAR(10)",
    "MODIFY B INT NOT NULL",
    "MODIFY b BIGINT NOT NULL FIRST, MODIFY a TEXT AFTER b",
    "MODIFY c CHAR(4) AFTER h, MODIFY e ENUM('x','y') AFTER c",
    "MODIFY b INT",
    "MODIFY a VARCHAR(10) NOT NULL DEFAULT 'dd'",
    "MODIFY id BIGINT, MODIFY u MEDIUMINT",
    "MODIFY id INT NOT NULL COMMENT 'k' AFTER b",
    "MODIFY a VARCHAR(40) CHARACTER SET utf8mb4, MODIFY l MEDIUMTEXT CHARACTER SET utf8mb3",
    "MODIFY c VARCHAR(4), MODIFY e VARCHAR(9), MODIFY s SET('p','q','r')",
    "MODIFY e ENUM('mid','y','x') NOT NULL",
    "MODIFY d DECIMAL(9,4), MODIFY f DOUBLE, MODIFY h TIME(3), MODIFY w DATETIME(6), MODIFY z TIMESTAMP(2) NULL",
    "MODIFY y INT, MODIFY bl BLOB",
    "MODIFY y BOOL NOT NULL",
    "ALTER b SET DEFAULT 9, ALTER COLUMN a DROP DEFAULT, ALTER c SET INVISIBLE",
    "ADD INDEX (a), ADD UNIQUE ku (b, a), ADD FULLTEXT (l), DROP INDEX kb",
    "RENAME INDEX kb TO kc",
    "ALTER INDEX kb INVISIBLE",
    "ADD n VARCHAR(5), DEFAULT CHARSET utf8mb4",
    "DEFAULT COLLATE utf8mb4_bin, MODIFY c CHAR(4)",
    "CONVERT TO CHARACTER SET utf8mb4",
    "CONVERT TO CHARSET utf8mb3 COLLATE utf8mb3_bin, ALGORITHM=COPY",
    "ENGINE=innodb, FORCE, ROW_FORMAT=DYNAMIC COMMENT 'c' AUTO_INCREMENT=10",
    "ORDER BY b DESC, a",
    "PARTITION BY HASH(id) PARTITIONS 3",
    "RENAME TO t2, ADD n INT DEFAULT 5",
    "RENAME AS t2",
    "/*!80000 ADD n INT */ /* DROP b */",
    "ADD `y\"); x` INT DEFAULT 5",
];

/// Statements that ask for a copy.
const RESYNCED: &[&str] = &[
    "DROP PRIMARY KEY",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)",
    "ADD n INT AUTO_INCREMENT UNIQUE",
    "ADD n INT AS (b + 1)",
    "ADD n INT DEFAULT (b + 1)",
    "ADD n INT DEFAULT 1.5",
    "MODIFY d DECIMAL(4,1)",
    "MODIFY w DATETIME",
    "MODIFY w TIMESTAMP NULL",
    "MODIFY b VARCHAR(20)",
    "MODIFY s SET('q','p')",
    "MODIFY b INT NOT NULL AUTO_INCREMENT, ADD UNIQUE (b)",
    "ENGINE=MyISAM",
];

fn name(fixture: &Fixture<'_>, table: &str) -> TableName {
    TableName { database: fixture.source.clone(), table: table.to_owned() }
}

/// The change that a statement is in the stream.
async fn logged(fixture: &Fixture<'_>, dump: &mut Dump, fold: &mut Fold) -> Result<SchemaChange> {
    loop {
        if let Step::Unit(Unit::SchemaChange(change)) = fold.step(next(dump).await?)? {
            ensure!(change.statement.tables[0].database == fixture.source, "another database");
            if change.statement.kind == DdlKind::AlterTable {
                return Ok(*change);
            }
        }
    }
}

fn outcome(before: &TableModel, change: &SchemaChange) -> Result<Option<Altered>> {
    let Content::Alter(operations) = &change.statement.content else { bail!("not an ALTER TABLE") };
    Ok(alter(before, operations, &change.facts).ok())
}

/// The row's values in the columns that the statement added are those that it was said to give.
async fn check_fills(session: &mut Session, altered: &Altered) -> Result<()> {
    let mut rows = chunk::read(session, &altered.model, None, None).await?;
    let row = rows.next().await?.context("a row")?;
    let cells: Vec<Cell<'_>> = row.cells().collect::<Result<_, _>>()?;
    for change in &altered.changes {
        let TargetChange::AddColumn { column, fill, .. } = change else { continue };
        let at = altered.model.columns.iter().position(|other| other.name == column.name);
        let cell = cells[at.context("a new column")?];
        // BINARY comes padded from a result set, and cut from the log.
        let same = match (fill, cell) {
            (Fill::Bytes(bytes), Cell::Bytes(found)) => {
                *bytes == found || (bytes.is_empty() && found.iter().all(|byte| *byte == 0))
            }
            _ => fill.cell() == cell,
        };
        ensure!(same, "column {} was filled otherwise", column.name);
    }
    Ok(())
}

/// The model without what is read from the source after a change.
fn without_details(mut model: TableModel) -> TableModel {
    model.details = Default::default();
    for column in &mut model.columns {
        column.details = Default::default();
    }
    model
}

#[test]
fn the_model_after_a_statement_is_the_server_s() {
    run(async {
        let fixture = Servers::shared().await?.fixture("alter").await?;
        let config = config(&fixture.servers.mysql);
        let mut conn = connect(&config).await?;
        let mut reads = connect::session(&config).await?;
        let start = executed(&fixture.servers.mysql).await?;
        let mut dump = Dump::open(&config, &replica_uuid(), &start).await?;
        let filter = Arc::new(Filter::new(&[format!("{}.*", fixture.source)], &[])?);
        let spill = Arc::new(SpillDirectory::new(std::env::temp_dir(), 1 << 20));
        let (xa, cascades) = (XaPolicy::Refuse, Cascades::NONE);
        let policy = FoldPolicy { filter, xa, cascades, max_buffer_bytes: 1 << 20, spill };
        let zone = reader::system_time_zone(&mut conn).await?;
        let mut fold = Fold::new(start, None, policy).with_system_time_zone(zone);
        let types = Overrides::default();
        let mut session = fixture.source_session().await?;
        let zones = ["SYSTEM", "+02:00", "-05:30"];
        let statements =
            CARRIED.iter().map(|text| (text, true)).chain(RESYNCED.iter().map(|text| (text, false)));
        let mut wrong = Vec::new();
        for (number, (text, carried)) in statements.enumerate() {
            let zone = zones[number % zones.len()];
            session
                .exec(&format!("SET NAMES utf8mb4; SET time_zone = '{zone}'; DROP TABLE IF EXISTS t, t2"))
                .await?;
            session.exec(TABLE).await?;
            session.exec(ROW).await?;
            let before = reader::table(&mut conn, &name(&fixture, "t"), &types).await?.context("a table")?;
            session.exec(&format!("ALTER TABLE t {text}")).await?;
            let change = logged(&fixture, &mut dump, &mut fold).await?;
            match (outcome(&before, &change)?, carried) {
                (None, false) => {}
                (None, true) => wrong.push(format!("asks for a copy: {text}")),
                (Some(_), false) => wrong.push(format!("asks for no copy: {text}")),
                (Some(altered), true) => {
                    let after = reader::table(&mut conn, &altered.model.name, &types)
                        .await?
                        .context("the new table")?;
                    if without_details(after.clone()) != without_details(altered.model.clone()) {
                        wrong.push(format!("{text}: {:?} and not {after:?}", altered.model));
                    } else if let Err(error) = check_fills(&mut reads, &altered).await {
                        wrong.push(format!("{text}: {error}"));
                    }
                }
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    });
}

#[test]
fn a_system_zone_counts_where_its_offset_never_changes() {
    run(async {
        let zones = [("<+0545>-5:45", Some("+05:45")), ("CET-1CEST,M3.5.0,M10.5.0/3", None)];
        for (zone, expected) in zones {
            let mysql = MySql::start_in_zone(zone).await?;
            let found = reader::system_time_zone(&mut connect(&config(&mysql)).await?).await?;
            ensure!(found.as_deref() == expected, "{zone}: {found:?}");
        }
        let mut conn = connect(&config(&Servers::shared().await?.mysql)).await?;
        ensure!(reader::system_time_zone(&mut conn).await?.as_deref() == Some("+00:00"));
        Ok(())
    });
}
