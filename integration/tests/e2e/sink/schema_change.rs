//! Schema changes in the stream: a new table is created in its own commit, all else halts.

use tidegate::fold::statement::DdlKind;
use tidegate::fold::unit::Unit;
use tidegate::halt::Reason;
use tidegate::schema::TableName;
use tidegate_integration::run;

use super::source_rows::{Int, Table, ddl, transaction};
use super::*;

#[test]
fn a_created_table_is_part_of_its_commit() {
    run(async {
        let fixture = fixture("create").await?;
        let table = Table::new(&fixture.source, "t", &[("id", false)], &[0]);
        let config = config(&fixture);
        let mut applier = streaming(&config, &[]).await?;
        let batch = [
            Unit::Transaction(transaction(11, vec![])),
            Unit::SchemaChange(ddl(12, DdlKind::CreateTable, &[&table.model.name])),
            Unit::Transaction(transaction(13, vec![table.insert(&[&[Int(1)]])])),
        ];
        assert_eq!(applier.wants_model(&batch[0]), None);
        assert_eq!(applier.wants_model(&batch[1]), Some(&table.model.name));

        // A table that the source no longer has can't be created by its definition.
        let missing = halt(applier.apply(&batch).await)?;
        assert_eq!((missing.reason, missing.gtid), (Reason::DdlUnsupported, Some(source_rows::gtid(12))));
        assert_eq!(applier.position().processed, set("1-11")?);

        applier.announce(table.model.clone());
        applier.apply(&batch[1..]).await?;
        assert_eq!(fixture.target_rows("SELECT id FROM t").await?, text_rows(&[[Some("1")]]));
        let changes =
            fixture.target_rows("SELECT gtid, source_table, kind, statement FROM tidegate.schema_change");
        let changes = changes.await?;
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0][0], Some(source_rows::gtid(12).to_string()));
        assert_eq!(changes[0][2].as_deref(), Some("create_table"));
        assert!(changes[0][3].as_deref().is_some_and(|sql| sql.contains("CREATE TABLE")));

        drop(applier);
        let mut applier = resume(&config).await?;
        let again = [Unit::SchemaChange(ddl(14, DdlKind::CreateTable, &[&table.model.name]))];
        assert_eq!(applier.wants_model(&again[0]), None, "IF NOT EXISTS of a table that exists");
        applier.apply(&again).await?;
        applier.apply(&units([transaction(15, vec![table.insert(&[&[Int(2)]])])])).await?;
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("2"));
        Ok(())
    });
}

#[test]
fn a_new_table_does_not_take_over_rows_that_are_there() {
    run(async {
        let fixture = fixture("create_onto").await?;
        let table = Table::new(&fixture.source, "t", &[("id", false)], &[0]);
        let mut applier = streaming(&config(&fixture), &[]).await?;
        let schema = &fixture.source;
        fixture
            .target(&format!("CREATE SCHEMA {schema} AUTHORIZATION tidegate; CREATE TABLE {schema}.t (id int PRIMARY KEY); \
                 ALTER TABLE {schema}.t OWNER TO tidegate; INSERT INTO {schema}.t VALUES (1)"))
            .await?;
        applier.announce(table.model.clone());
        let batch = [Unit::SchemaChange(ddl(11, DdlKind::CreateTable, &[&table.model.name]))];
        let refused = halt(applier.apply(&batch).await)?;
        assert_eq!(refused.reason, Reason::TargetDrift);
        assert_eq!(refused.table, Some(format!("{schema}.t")));
        fixture.target(&format!("DELETE FROM {schema}.t")).await?;
        applier.apply(&batch).await?;
        Ok(())
    });
}

#[test]
fn other_changes_of_replicated_tables_halt() {
    run(async {
        let fixture = fixture("ddl").await?;
        let table = Table::new(&fixture.source, "t", &[("id", false)], &[0]);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        let name = |table: &str| TableName { database: fixture.source.clone(), table: table.to_owned() };
        let (known, unknown, excluded) = (name("t"), name("u"), name("excluded"));
        let refused = [
            ddl(11, DdlKind::AlterTable, &[&known]),
            ddl(11, DdlKind::DropTable, &[&unknown, &known]),
            ddl(11, DdlKind::TruncateTable, &[&known]),
            ddl(11, DdlKind::CreateIndex, &[&known]),
            ddl(11, DdlKind::DropIndex, &[&known]),
            ddl(11, DdlKind::RenameTable, &[&known, &excluded]),
            ddl(11, DdlKind::RenameTable, &[&excluded, &unknown]),
            drop_database(11, &fixture.source),
        ];
        for change in refused {
            let kind = change.statement.kind;
            let halt = halt(applier.apply(&[Unit::SchemaChange(change)]).await)?;
            assert_eq!(
                (halt.reason, halt.gtid),
                (Reason::DdlUnsupported, Some(source_rows::gtid(11))),
                "{kind:?}"
            );
        }
        let passed = [
            // In the copied rows already.
            ddl(10, DdlKind::AlterTable, &[&known]),
            ddl(11, DdlKind::AlterTable, &[&unknown]),
            ddl(12, DdlKind::DropTable, &[&unknown]),
            ddl(13, DdlKind::CreateTable, &[&excluded]),
            ddl(14, DdlKind::RenameTable, &[&excluded]),
            drop_database(15, "elsewhere"),
        ];
        let count = u64::try_from(passed.len())?;
        applier.apply(&passed.map(Unit::SchemaChange)).await?;
        assert_eq!(applier.position().processed, set(&format!("1-{}", 9 + count))?);
        Ok(())
    });
}

fn drop_database(gno: u64, database: &str) -> tidegate::fold::unit::SchemaChange {
    let mut change = ddl(gno, DdlKind::DropDatabase, &[]);
    change.statement.databases = vec![database.to_owned()];
    change
}
