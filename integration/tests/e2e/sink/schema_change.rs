//! Schema changes in the stream: each is a commit of its own with what it does.

use tidegate::fold::statement::DdlKind;
use tidegate::fold::unit::Unit;
use tidegate::halt::Reason;
use tidegate::schema::TableName;
use tidegate::sink::apply::Pause;
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
        let progress = applier.apply(&batch).await?;
        assert_eq!(progress.units, 1);
        assert_eq!(progress.pause, Some(Pause::WantsModel(table.model.name.clone())));
        assert_eq!(applier.position().processed, set("1-11")?);

        applier.announce(table.model.name.clone(), Some(table.model.clone()));
        let progress = applier.apply(&batch[1..]).await?;
        assert_eq!((progress.units, progress.pause), (2, None));
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
        let progress = applier.apply(&again).await?;
        assert_eq!(progress.pause, None, "IF NOT EXISTS of a table that exists");
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
        applier.announce(table.model.name.clone(), Some(table.model.clone()));
        let batch = [Unit::SchemaChange(ddl(11, DdlKind::CreateTable, &[&table.model.name]))];
        let refused = halt(applier.apply(&batch).await)?;
        assert_eq!(refused.reason, Reason::TargetDrift);
        assert_eq!(refused.table, Some(format!("{schema}.t")));
        fixture.target(&format!("DELETE FROM {schema}.t")).await?;
        applier.announce(table.model.name.clone(), Some(table.model.clone()));
        applier.apply(&batch).await?;
        Ok(())
    });
}

/// The source dropped it again before its definition could be read.
#[test]
fn a_table_that_is_gone_passes_by_until_its_end() {
    run(async {
        let fixture = fixture("gone").await?;
        let table = Table::new(&fixture.source, "t", &[("id", false)], &[0]);
        let mut applier = streaming(&config(&fixture), &[]).await?;
        let batch = [
            Unit::SchemaChange(ddl(11, DdlKind::CreateTable, &[&table.model.name])),
            Unit::Transaction(transaction(12, vec![table.insert(&[&[Int(1)]])])),
            Unit::SchemaChange(ddl(13, DdlKind::DropTable, &[&table.model.name])),
        ];
        applier.announce(table.model.name.clone(), None);
        assert_eq!(applier.apply(&batch[..2]).await?.units, 2);
        let state = "SELECT state FROM tidegate.table_state WHERE source_table = 't'";
        assert_eq!(fixture.target_scalar(state).await?.as_deref(), Some("detached"));
        applier.apply(&batch[2..]).await?;
        assert_eq!(fixture.target_scalar(state).await?, None);
        assert_eq!(applier.position().processed, set("1-13")?);
        Ok(())
    });
}

/// What has to be copied is put down with the position, and nothing runs ahead of it.
#[test]
fn a_table_to_be_copied_ends_the_batch() {
    run(async {
        let fixture = fixture("ddl").await?;
        let table = Table::new(&fixture.source, "t", &[("id", false)], &[0]);
        let config = config(&fixture);
        let mut applier = streaming(&config, std::slice::from_ref(&table.model)).await?;
        let batch = [
            Unit::Transaction(transaction(11, vec![table.insert(&[&[Int(1)]])])),
            Unit::SchemaChange(ddl(12, DdlKind::AlterTable, &[&table.model.name])),
            Unit::Transaction(transaction(13, vec![table.insert(&[&[Int(2)]])])),
        ];
        let progress = applier.apply(&batch).await?;
        assert_eq!((progress.units, progress.pause), (2, Some(Pause::NeedsCopy)));
        drop(applier);
        let applier = resume(&config).await?;
        assert_eq!(applier.position().processed, set("1-12")?);
        let state = applier.tables().next().context("the table's state")?;
        assert_eq!((state.phase, &state.snapshot_set), (TablePhase::Resyncing, &None));
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("1"));
        Ok(())
    });
}

#[test]
fn what_concerns_no_table_passes() {
    run(async {
        let fixture = fixture("ddl_passes").await?;
        let table = Table::new(&fixture.source, "t", &[("id", false)], &[0]);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        let name = |table: &str| TableName { database: fixture.source.clone(), table: table.to_owned() };
        let (known, unknown, excluded) = (name("t"), name("u"), name("excluded"));
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
        let progress = applier.apply(&passed.map(Unit::SchemaChange)).await?;
        assert_eq!(progress.pause, None);
        assert_eq!(applier.position().processed, set(&format!("1-{}", 9 + count))?);
        assert_eq!(
            fixture.target_scalar("SELECT count(*) FROM tidegate.schema_change").await?.as_deref(),
            Some("0")
        );
        Ok(())
    });
}

fn drop_database(gno: u64, database: &str) -> Box<tidegate::fold::unit::SchemaChange> {
    let mut change = ddl(gno, DdlKind::DropDatabase, &[]);
    change.statement.databases = vec![database.to_owned()];
    change
}
