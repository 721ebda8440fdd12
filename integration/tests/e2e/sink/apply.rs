//! Rows of keyed tables: order, key changes, what is applied at all, and how a halt ends a batch.

use tidegate::fold::unit::RowsKind;
use tidegate::halt::Reason;
use tidegate_integration::run;

use super::source_rows::{Int, Null, Table, Text, transaction};
use super::*;

fn table(fixture: &Fixture<'_>) -> Table {
    Table::new(&fixture.source, "t", &[("id", false), ("v", true)], &[0])
}

#[test]
fn rows_are_written_in_the_source_s_order() {
    run(async {
        let fixture = fixture("order").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        let progress = applier
            .apply(&units([
                transaction(
                    11,
                    vec![table.insert(&[&[Int(1), Text("a")], &[Int(2), Null], &[Int(3), Text("c")]])],
                ),
                transaction(
                    12,
                    vec![
                        table.delete(&[&[Int(1), Text("a")]]),
                        table.insert(&[&[Int(1), Text("again")]]),
                        table.update(&[&[Int(2), Null], &[Int(2), Text("b")]]),
                    ],
                ),
                // Keys move up, the highest first; then one takes a key that another has left.
                transaction(
                    13,
                    vec![table.update(&[
                        &[Int(3), Text("c")],
                        &[Int(4), Text("c")],
                        &[Int(2), Text("b")],
                        &[Int(3), Text("b")],
                    ])],
                ),
                transaction(14, vec![table.update(&[&[Int(1), Text("again")], &[Int(2), Text("moved")]])]),
                transaction(15, vec![]),
            ]))
            .await?;
        let rows = fixture.target_rows("SELECT id, v FROM t ORDER BY id").await?;
        let expected = [[Some("2"), Some("moved")], [Some("3"), Some("b")], [Some("4"), Some("c")]];
        assert_eq!(rows, text_rows(&expected));
        assert_eq!(applier.position().processed, set("1-15")?);
        assert_eq!(stored_set(&fixture).await?, Some(set("1-15")?.to_string()));
        assert_eq!(progress.units, 5);
        assert_eq!(progress.rows[&(table.model.name.clone(), RowsKind::Update)], 4);
        let (last, print) = applier.position().last.clone().context("a last transaction")?;
        assert_eq!(last, source_rows::gtid(15));
        assert_eq!(progress.commit_micros, Some(print.original_commit_micros));

        let position = applier.position().clone();
        drop(applier);
        let applier = resume(&config(&fixture)).await?;
        assert_eq!(*applier.position(), position, "the checkpoint is read as it was written");
        Ok(())
    });
}

#[test]
fn a_batch_of_more_rows_than_may_be_in_flight_is_one_commit() {
    run(async {
        let fixture = fixture("window").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        let count = i32::try_from(MAX_IN_FLIGHT)? * 20;
        let seq = "SELECT seq FROM tidegate.checkpoint";
        let before: i64 = fixture.target_scalar(seq).await?.context("a checkpoint")?.parse()?;
        let transactions = (0..count).map(|id| {
            let gno = 11 + u64::try_from(id).unwrap_or(0);
            transaction(gno, vec![table.insert(&[&[Int(id), Text("x")]])])
        });
        applier.apply(&units(transactions)).await?;
        let rows = fixture.target_rows("SELECT count(*), count(DISTINCT xmin::text) FROM t").await?;
        assert_eq!(rows, text_rows(&[[Some(count.to_string().as_str()), Some("1")]]));
        assert_eq!(fixture.target_scalar(seq).await?, Some((before + 1).to_string()));
        Ok(())
    });
}

#[test]
fn changes_that_the_copy_shows_are_passed_over() {
    run(async {
        let fixture = fixture("snapshot_set").await?;
        let (table, other) = (table(&fixture), Table::new(&fixture.source, "u", &[("id", false)], &[0]));
        let config = config(&fixture);
        let mut applier = streaming(&config, &[table.model.clone(), other.model.clone()]).await?;
        let mut states = applier.writer_mut().load_tables().await?;
        states[0].snapshot_set = Some(set("1-12")?);
        states[0].phase = TablePhase::CatchingUp;
        states[0].converge_set = Some(set("1-13")?);
        applier.writer_mut().save_tables(&states).await?;
        drop(applier);

        let mut applier = resume(&config).await?;
        let change =
            |gno, id| transaction(gno, vec![table.insert(&[&[Int(id), Null]]), other.insert(&[&[Int(id)]])]);
        let progress = applier.apply(&units([change(11, 1), change(12, 2)])).await?;
        assert!(progress.became_streaming.is_empty());
        let progress = applier.apply(&units([change(13, 3)])).await?;
        assert_eq!(progress.became_streaming.as_slice(), std::slice::from_ref(&table.model.name));
        let applied =
            fixture.target_rows("SELECT id FROM t UNION ALL SELECT 10 + id FROM u ORDER BY 1").await?;
        assert_eq!(applied, text_rows(&[[Some("3")], [Some("11")], [Some("12")], [Some("13")]]));
        let state =
            fixture.target_scalar("SELECT state FROM tidegate.table_state WHERE source_table = 't'").await?;
        assert_eq!(state.as_deref(), Some("streaming"));
        Ok(())
    });
}

#[test]
fn replayed_changes_converge() {
    run(async {
        let fixture = fixture("replay").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        // The copy was read after all of this: it holds the row as it is at the end.
        fixture.target("INSERT INTO t VALUES (2, 'end')").await?;
        applier
            .apply(&units([
                transaction(11, vec![table.insert(&[&[Int(1), Text("a")]])]),
                transaction(12, vec![table.update(&[&[Int(1), Text("a")], &[Int(2), Text("b")]])]),
                transaction(13, vec![table.delete(&[&[Int(7), Null]])]),
                transaction(14, vec![table.update(&[&[Int(2), Text("b")], &[Int(2), Text("end")]])]),
            ]))
            .await?;
        let rows = fixture.target_rows("SELECT id, v FROM t").await?;
        assert_eq!(rows, text_rows(&[[Some("2"), Some("end")]]));
        Ok(())
    });
}

#[test]
fn a_table_of_nothing_but_its_key_is_written() {
    run(async {
        let fixture = fixture("only_key").await?;
        let table = Table::new(&fixture.source, "t", &[("a", true), ("b", false)], &[1, 0]);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        applier
            .apply(&units([
                transaction(11, vec![table.insert(&[&[Text("x"), Int(1)], &[Text("y"), Int(1)]])]),
                transaction(12, vec![table.insert(&[&[Text("x"), Int(1)]])]),
                transaction(13, vec![table.update(&[&[Text("y"), Int(1)], &[Text("Y"), Int(1)]])]),
                transaction(14, vec![table.delete(&[&[Text("x"), Int(1)]])]),
            ]))
            .await?;
        assert_eq!(fixture.target_rows("SELECT a, b FROM t").await?, text_rows(&[[Some("Y"), Some("1")]]));
        Ok(())
    });
}

/// Applies a good transaction, one that the target refuses, and another good one.
async fn refused(fixture: &Fixture<'_>, table: &Table, applier: &mut Applier) -> Result<Halt> {
    let refused = applier
        .apply(&units([
            transaction(11, vec![table.insert(&[&[Int(1), Text("first")]])]),
            transaction(12, vec![table.insert(&[&[Int(2), Text("kept")], &[Int(3), Text("secret")]])]),
            transaction(13, vec![table.insert(&[&[Int(4), Text("later")]])]),
        ]))
        .await;
    let halt = halt(refused)?;
    assert_eq!(halt.gtid, Some(source_rows::gtid(12)));
    assert_eq!(halt.table, Some(format!("{}.t", fixture.source)));
    assert!(!halt.to_string().contains("secret"), "{halt}");
    assert_eq!(fixture.target_rows("SELECT id FROM t").await?, text_rows(&[[Some("1")]]));
    assert_eq!(applier.position().processed, set("1-11")?);
    assert_eq!(stored_set(fixture).await?, Some(set("1-11")?.to_string()));
    Ok(halt)
}

#[test]
fn a_constraint_of_the_target_halts_after_the_transactions_before() {
    run(async {
        let fixture = fixture("constraint").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        fixture.target("ALTER TABLE t ADD CONSTRAINT v_allowed CHECK (v <> 'secret')").await?;
        let halt = refused(&fixture, &table, &mut applier).await?;
        assert_eq!(halt.reason, Reason::TargetConstraint);
        assert!(halt.detail.contains("v_allowed") && halt.detail.contains("23514"), "{halt}");

        // The halt is recorded, counted, and cleared by the commit that gets past it.
        let open = "SELECT reason, times, cleared_at IS NULL FROM tidegate.halt ORDER BY id";
        applier.writer_mut().record_halt(&halt).await?;
        drop(applier);
        let mut applier = resume(&config(&fixture)).await?;
        let second = units([
            transaction(12, vec![table.insert(&[&[Int(2), Text("kept")], &[Int(3), Text("secret")]])]),
            transaction(13, vec![table.insert(&[&[Int(4), Text("later")]])]),
        ]);
        let again = super::halt(applier.apply(&second).await)?;
        assert_eq!(again, halt);
        applier.writer_mut().record_halt(&again).await?;
        assert_eq!(
            fixture.target_rows(open).await?,
            text_rows(&[[Some("target_constraint"), Some("2"), Some("t")]])
        );

        fixture.target("ALTER TABLE t DROP CONSTRAINT v_allowed").await?;
        drop(applier);
        let mut applier = resume(&config(&fixture)).await?;
        applier.apply(&second).await?;
        assert_eq!(
            fixture.target_rows(open).await?,
            text_rows(&[[Some("target_constraint"), Some("2"), Some("f")]])
        );
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("4"));
        Ok(())
    });
}

#[test]
fn an_old_halt_stays_open_until_its_own_transaction_is_past() {
    run(async {
        let fixture = fixture("halt_open").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        let at = Halt::new(Reason::ValueInvalid, "a value").at_gtid(&source_rows::gtid(12));
        applier.writer_mut().record_halt(&at).await?;
        let open = "SELECT count(*) FROM tidegate.halt WHERE cleared_at IS NULL";
        applier.apply(&units([transaction(11, vec![])])).await?;
        assert_eq!(fixture.target_scalar(open).await?.as_deref(), Some("1"));
        applier.apply(&units([transaction(12, vec![])])).await?;
        assert_eq!(fixture.target_scalar(open).await?.as_deref(), Some("0"));

        // One halt is open at a time; one without a transaction is past when the stream moves.
        applier.writer_mut().record_halt(&Halt::new(Reason::DataGap, "purged")).await?;
        applier.writer_mut().record_halt(&Halt::new(Reason::TargetUnavailable, "gone")).await?;
        assert_eq!(fixture.target_scalar(open).await?.as_deref(), Some("1"));
        applier.apply(&units([transaction(13, vec![])])).await?;
        assert_eq!(fixture.target_scalar(open).await?.as_deref(), Some("0"));
        Ok(())
    });
}

#[test]
fn what_changed_on_the_target_is_drift() {
    run(async {
        for (number, change) in [
            "DROP TABLE t",
            "ALTER TABLE t RENAME COLUMN v TO w",
            "ALTER TABLE t ALTER COLUMN id TYPE bigint",
            "ALTER TABLE t DROP CONSTRAINT t_pkey",
        ]
        .into_iter()
        .enumerate()
        {
            let fixture = fixture(&format!("drift_{number}")).await?;
            let table = table(&fixture);
            let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
            fixture.target(change).await?;
            let batch = units([
                transaction(11, vec![]),
                transaction(12, vec![table.insert(&[&[Int(1), Text("a")]])]),
            ]);
            let found = halt(applier.apply(&batch).await)?;
            assert_eq!(
                (found.reason, found.gtid),
                (Reason::TargetDrift, Some(source_rows::gtid(12))),
                "{change}"
            );
            assert_eq!(applier.position().processed, set("1-11")?, "{change}");
            let states = applier.writer_mut().load_tables().await?;
            let verified = catalog::verify(applier.writer_mut().client(), &states).await;
            assert_eq!(halt(verified)?.reason, Reason::TargetDrift, "{change}");
        }
        Ok(())
    });
}

#[test]
fn a_change_of_the_target_between_batches_is_looked_at() {
    run(async {
        let fixture = fixture("altered").await?;
        let (table, config) = (table(&fixture), config(&fixture));
        let mut applier = streaming(&config, std::slice::from_ref(&table.model)).await?;
        let insert = |gno, id| units([transaction(gno, vec![table.insert(&[&[Int(id), Text("12345 ")]])])]);
        applier.apply(&insert(11, 1)).await?;
        fixture.target("VACUUM t").await?;
        fixture.target("ANALYZE t").await?;
        applier.apply(&insert(12, 2)).await?;

        // Fit for replication still: the next cycle goes on.
        fixture.target("CREATE UNIQUE INDEX same_key ON t (id)").await?;
        assert!(retry(applier.apply(&insert(13, 3)).await)?.contains("has changed"));
        drop(applier);
        let mut applier = resume(&config).await?;
        let states = applier.writer_mut().load_tables().await?;
        catalog::verify(applier.writer_mut().client(), &states).await?;
        applier.apply(&insert(13, 3)).await?;

        // PostgreSQL would cut the blank off in silence.
        fixture.target("ALTER TABLE t ALTER COLUMN v TYPE varchar(5)").await?;
        assert!(retry(applier.apply(&insert(14, 4)).await)?.contains("has changed"));
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("3"));
        assert_eq!(applier.position().processed, set("1-13")?);
        drop(applier);
        let mut applier = resume(&config).await?;
        let drift = halt(applier.apply(&insert(14, 4)).await)?;
        assert!(drift.detail.contains("\"v\""), "{drift}");
        assert_eq!((drift.reason, drift.gtid), (Reason::TargetDrift, Some(source_rows::gtid(14))));
        Ok(())
    });
}

#[test]
fn rows_of_another_shape_or_of_an_unknown_table_are_drift() {
    run(async {
        let fixture = fixture("shape").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        let altered = Table::new(&fixture.source, "t", &[("id", false), ("renamed", true)], &[0]);
        let unknown = Table::new(&fixture.source, "unknown", &[("id", false)], &[0]);
        for change in [altered.insert(&[&[Int(2), Null]]), unknown.insert(&[&[Int(1)]])] {
            let name = format!("{}.{}", change.map.database, change.map.table);
            let batch = units([transaction(11, vec![table.insert(&[&[Int(1), Null]]), change])]);
            let found = halt(applier.apply(&batch).await)?;
            assert_eq!((found.reason, found.table), (Reason::SchemaDrift, Some(name)));
        }
        // A table map is compared only where its change will be applied.
        let passed_over = units([transaction(9, vec![altered.insert(&[&[Int(2), Null]])])]);
        applier.apply(&passed_over).await?;
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("0"));
        Ok(())
    });
}

#[test]
fn triggers_and_foreign_keys_of_the_target_stay_silent() {
    run(async {
        let fixture = fixture("silent").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        fixture
            .target(
                "CREATE TABLE child (id int REFERENCES t ON DELETE CASCADE); \
                 CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                     $$BEGIN RAISE EXCEPTION 'secret'; END$$; \
                 CREATE TRIGGER refuse BEFORE INSERT OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION refuse()",
            )
            .await?;
        applier.apply(&units([transaction(11, vec![table.insert(&[&[Int(1), Null]])])])).await?;
        fixture.target("INSERT INTO child VALUES (1)").await?;
        applier.apply(&units([transaction(12, vec![table.delete(&[&[Int(1), Null]])])])).await?;
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM child").await?.as_deref(), Some("1"));

        fixture.target("ALTER TABLE t ENABLE ALWAYS TRIGGER refuse").await?;
        let batch = units([transaction(13, vec![table.insert(&[&[Int(1), Null]])])]);
        let refused = halt(applier.apply(&batch).await)?;
        assert_eq!(refused.reason, Reason::TargetConstraint);
        assert!(!refused.to_string().contains("secret"), "{refused}");
        Ok(())
    });
}

/// Blocks that finding the checkpoint's row and removing it touches.
async fn blocks_touched(fixture: &Fixture<'_>) -> Result<u64> {
    let session = fixture.target_session().await?;
    let seq = session.scalar("SELECT max(seq) FROM tidegate.checkpoint").await?.context("a checkpoint")?;
    session.exec("BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off").await?;
    let explain = format!(
        "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) DELETE FROM tidegate.checkpoint \
         WHERE pipeline = '{PIPELINE}' AND applier = 0 AND seq = {seq}"
    );
    let plan: serde_json::Value = serde_json::from_str(&session.scalar(&explain).await?.context("a plan")?)?;
    session.exec("ROLLBACK").await?;
    let root = &plan[0]["Plan"];
    let blocks = |key: &str| root[key].as_u64().context("EXPLAIN tells blocks");
    Ok(blocks("Shared Hit Blocks")? + blocks("Shared Read Blocks")?)
}

/// A row updated in place leaves behind one version for each commit that every later one walks.
#[test]
fn a_long_reader_does_not_slow_the_checkpoint() {
    run(async {
        let fixture = fixture("long_reader").await?;
        let mut applier = streaming(&config(&fixture), &[]).await?;
        let reader = fixture.target_session().await?;
        reader
            .exec("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tidegate.checkpoint")
            .await?;
        let mut touched = Vec::new();
        for gno in 11..1211 {
            applier.apply(&units([transaction(gno, vec![])])).await?;
            if gno % 600 == 10 {
                touched.push(blocks_touched(&fixture).await?);
            }
        }
        // The index may have become one level deeper meanwhile.
        assert!(touched[1] <= touched[0] + 3, "blocks touched after 600 and 1200 commits: {touched:?}");
        reader.exec("COMMIT").await?;
        let rows = fixture.target_scalar("SELECT count(*) FROM tidegate.checkpoint").await?;
        assert_eq!(rows.as_deref(), Some("1"));
        Ok(())
    });
}
