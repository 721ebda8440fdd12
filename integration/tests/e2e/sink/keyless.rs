//! Tables without a key: a change finds exactly one row by all of its columns.

use tidegate::halt::Reason;
use tidegate::schema::{Column, MysqlType, TargetType};
use tidegate_integration::run;

use super::source_rows::{Int, Null, Table, Text, transaction};
use super::*;

fn table(fixture: &Fixture<'_>) -> Table {
    Table::new(&fixture.source, "t", &[("a", false), ("b", true)], &[])
}

#[test]
fn identical_rows_are_told_apart_by_number_alone() {
    run(async {
        let fixture = fixture("keyless").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        let row = [Int(1), Text("x")];
        applier
            .apply(&units([
                transaction(11, vec![table.insert(&[&row, &row, &row, &[Null, Null], &[Null, Null]])]),
                transaction(12, vec![table.update(&[&row, &[Int(2), Null]])]),
                transaction(13, vec![table.delete(&[&row, &[Null, Null]])]),
            ]))
            .await?;
        let rows = fixture.target_rows("SELECT a, b FROM t ORDER BY a, b").await?;
        assert_eq!(rows, text_rows(&[[Some("1"), Some("x")], [Some("2"), None], [None, None]]));
        Ok(())
    });
}

#[test]
fn a_row_that_is_not_there_halts() {
    run(async {
        let fixture = fixture("keyless_halt").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        let changes = [
            table.delete(&[&[Int(1), Text("X")]]),
            table.update(&[&[Int(1), Null], &[Int(2), Null]]),
            table.delete(&[&[Int(1), Text("x")], &[Int(1), Text("x")]]),
        ];
        applier.apply(&units([transaction(11, vec![table.insert(&[&[Int(1), Text("x")]])])])).await?;
        for change in changes {
            let batch = units([transaction(12, vec![]), transaction(13, vec![change])]);
            let halt = halt(applier.apply(&batch).await)?;
            assert_eq!((halt.reason, halt.gtid), (Reason::KeylessRowNotFound, Some(source_rows::gtid(13))));
            assert_eq!(halt.table, Some(format!("{}.t", fixture.source)));
            assert_eq!(applier.position().processed, set("1-12")?);
        }
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("1"));
        Ok(())
    });
}

/// Statements of keyless tables compare every type that Tidegate creates.
#[test]
fn rows_of_every_type_can_be_matched() {
    run(async {
        let fixture = fixture("keyless_types").await?;
        let types = [
            (MysqlType::TinyInt { unsigned: false, display_width_one: true }, TargetType::Boolean),
            (MysqlType::SmallInt { unsigned: false }, TargetType::SmallInt),
            (MysqlType::BigInt { unsigned: false }, TargetType::BigInt),
            (MysqlType::BigInt { unsigned: true }, TargetType::Numeric { precision: 20, scale: 0 }),
            (MysqlType::Float { unsigned: false }, TargetType::Real),
            (MysqlType::Double { unsigned: false }, TargetType::DoublePrecision),
            (MysqlType::Text { charset: "utf8mb4".to_owned() }, TargetType::Text),
            (MysqlType::Blob, TargetType::Bytea),
            (MysqlType::Bit { width: 3 }, TargetType::Bit { width: 3 }),
            (MysqlType::Date, TargetType::Date),
            (MysqlType::DateTime { digits: 3 }, TargetType::Timestamp { digits: 3 }),
            (MysqlType::Timestamp { digits: 0 }, TargetType::TimestampTz { digits: 0 }),
            (MysqlType::Time { digits: 6 }, TargetType::Interval { digits: 6 }),
            (MysqlType::Json, TargetType::Jsonb),
        ];
        let mut table = table(&fixture);
        let mut map = (*table.map).clone();
        for (number, (mysql, target)) in types.into_iter().enumerate() {
            let name = format!("c{number}");
            map.columns.push(source_rows::map_column(&name, &mysql));
            let (nullable, auto_increment, generated) = (true, false, false);
            table.model.columns.push(Column {
                name,
                mysql,
                target,
                nullable,
                auto_increment,
                generated,
                not_null_dropped: false,
                details: Default::default(),
            });
        }
        table.map = Arc::new(map);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        let row = vec![Null; table.model.columns.len()];
        let mut other = row.clone();
        other[0] = Int(7);
        applier
            .apply(&units([
                transaction(11, vec![table.insert(&[&row, &row])]),
                transaction(12, vec![table.update(&[&row, &other]), table.delete(&[&row])]),
            ]))
            .await?;
        assert_eq!(fixture.target_rows("SELECT a, b FROM t").await?, text_rows(&[[Some("7"), None]]));
        Ok(())
    });
}
