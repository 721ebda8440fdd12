//! One writer, whatever dies: take-over, epoch, lost commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use tidegate::fold::unit::Fingerprint;
use tidegate::halt::Reason;
use tidegate::sink::checkpoint::Position;
use tidegate::sink::connect::connect;
use tidegate::sink::writer::Writer;
use tidegate_integration::{CutProxy, Fault, run};

use super::source_rows::{Int, Table, Text, gtid, transaction};
use super::*;

fn table(fixture: &Fixture<'_>) -> Table {
    Table::new(&fixture.source, "t", &[("id", false), ("v", true)], &[0])
}

#[test]
fn a_second_process_stands_by_until_the_first_is_gone() {
    run(async {
        let fixture = fixture("standby").await?;
        let config = config(&fixture);
        let mut first = take_over(&config, PIPELINE).await?;
        assert_eq!(first.checkpoint().position, None);
        first.set_position(Position { processed: set("1-10")?, ..Position::default() }, &[]).await?;
        let expected = first.checkpoint().clone();

        let waited = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&waited);
        let client = connect(&config).await?;
        let second = tokio::spawn(async move {
            Writer::take_over(client, PIPELINE, MAX_IN_FLIGHT, || flag.store(true, Ordering::SeqCst)).await
        });
        tokio::time::timeout(PATIENCE, async {
            while !waited.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        })
        .await
        .context("the second process was not told to stand by")?;
        assert!(!second.is_finished());
        take_over(&config, "another pipeline").await?;

        drop(first);
        let second = tokio::time::timeout(PATIENCE, second).await???;
        assert_eq!(*second.checkpoint(), expected, "the pipeline goes on where it was");
        Ok(())
    });
}

#[test]
fn a_writer_whose_epoch_is_gone_commits_nothing() {
    run(async {
        let fixture = fixture("epoch").await?;
        let config = config(&fixture);
        let table = table(&fixture);
        let mut applier = streaming(&config, std::slice::from_ref(&table.model)).await?;
        let before = stored_set(&fixture).await?;
        fixture.target("UPDATE tidegate.pipeline SET epoch = gen_random_uuid()").await?;

        let batch = units([transaction(11, vec![table.insert(&[&[Int(1), Text("a")]])])]);
        let message = retry(applier.apply(&batch).await)?;
        assert!(message.contains("fenced off"), "{message}");
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("0"));
        assert_eq!(stored_set(&fixture).await?, before);
        assert_eq!(applier.position().processed, set("1-10")?);

        let writer = applier.writer_mut();
        let halt = Halt::new(Reason::Internal, "a halt of a writer that is fenced off");
        assert!(retry(writer.record_halt(&halt).await)?.contains("fenced off"));
        let tables = writer.load_tables().await?;
        assert!(retry(writer.save_tables(&tables).await)?.contains("fenced off"));
        assert!(retry(writer.set_source(SOURCE.parse()?).await)?.contains("fenced off"));
        Ok(())
    });
}

#[test]
fn a_checkpoint_that_another_writer_advanced_is_not_replaced() {
    run(async {
        let fixture = fixture("seq").await?;
        let table = table(&fixture);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        fixture.target("UPDATE tidegate.checkpoint SET seq = seq + 1").await?;
        let batch = units([transaction(11, vec![table.insert(&[&[Int(1), Text("a")]])])]);
        assert!(retry(applier.apply(&batch).await)?.contains("fenced off"));
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("0"));
        Ok(())
    });
}

#[test]
fn a_take_over_waits_for_the_transaction_of_the_writer_before() {
    run(async {
        let fixture = fixture("waits").await?;
        let config = config(&fixture);
        drop(take_over(&config, PIPELINE).await?);
        let writer_before = fixture.target_session().await?;
        writer_before.exec("BEGIN; SELECT FROM tidegate.pipeline FOR SHARE").await?;

        let taking = tokio::spawn(async move { take_over(&config, PIPELINE).await });
        waits_for_a_lock(&fixture).await?;
        assert!(!taking.is_finished());
        let advance = "UPDATE tidegate.checkpoint SET seq = seq + 1, processed = ''; COMMIT";
        writer_before.exec(advance).await?;
        let writer = taking.await??;
        assert!(writer.checkpoint().position.is_some(), "what the transaction left is read");
        Ok(())
    });
}

/// Applies one transaction through a proxy that does this to its commit, takes over, and returns
/// the applier and whether it found the transaction committed.
async fn interrupted(name: &str, fault: Fault) -> Result<(Fixture<'static>, Applier, Table, bool)> {
    let fixture = fixture(name).await?;
    let proxy = CutProxy::postgres(fixture.servers.postgres.addr()).await?;
    let table = table(&fixture);
    let through_proxy = config_at(proxy.addr(), &fixture.target);
    let mut applier = streaming(&through_proxy, std::slice::from_ref(&table.model)).await?;
    proxy.arm(fault);
    let batch = units([transaction(11, vec![table.insert(&[&[Int(1), Text("a")]])])]);
    retry(applier.apply(&batch).await)?;
    assert_eq!(proxy.fired(), 1);
    drop(applier);

    let config = config(&fixture);
    let resuming = tokio::spawn(async move { resume(&config).await });
    proxy.release();
    let applier = resuming.await??;
    let seen = applier.position().processed.contains(&gtid(11));
    let rows = fixture.target_scalar("SELECT count(*) FROM t").await?;
    assert_eq!(rows.as_deref(), Some(if seen { "1" } else { "0" }), "rows and position are one");
    Ok((fixture, applier, table, seen))
}

#[test]
fn a_commit_whose_answer_was_lost_is_seen() {
    run(async {
        let (.., seen) = interrupted("lost_answer", Fault::LoseCommitAnswer).await?;
        assert!(seen);
        Ok(())
    });
}

#[test]
fn a_commit_that_arrives_after_its_writer_is_gone_is_waited_for() {
    run(async {
        let (.., seen) = interrupted("late_commit", Fault::DelayCommit).await?;
        assert!(seen);
        Ok(())
    });
}

#[test]
fn a_commit_that_never_arrived_is_repeated() {
    run(async {
        let (fixture, mut applier, table, seen) = interrupted("lost_commit", Fault::LoseCommit).await?;
        assert!(!seen);
        let batch = units([transaction(11, vec![table.insert(&[&[Int(1), Text("a")]])])]);
        applier.apply(&batch).await?;
        assert_eq!(fixture.target_scalar("SELECT count(*) FROM t").await?.as_deref(), Some("1"));
        Ok(())
    });
}

#[test]
fn a_newer_control_schema_is_refused() {
    run(async {
        let fixture = fixture("newer").await?;
        let config = config(&fixture);
        drop(take_over(&config, PIPELINE).await?);
        fixture.target("INSERT INTO tidegate.schema_history VALUES (99, 'future', '', '0')").await?;
        let result = Writer::take_over(connect(&config).await?, PIPELINE, MAX_IN_FLIGHT, || ()).await;
        let halt = halt(result.map(drop))?;
        assert_eq!(halt.reason, Reason::CheckpointInvalid);
        assert!(halt.detail.contains("99"), "{halt}");
        Ok(())
    });
}

#[test]
fn a_damaged_control_schema_is_refused() {
    run(async {
        let damages = [
            "DELETE FROM tidegate.checkpoint",
            "UPDATE tidegate.checkpoint SET processed = 'nonsense'",
            "UPDATE tidegate.checkpoint SET last_gtid = 'x', last_original_commit_micros = -1, \
                last_immediate_commit_micros = 1, last_transaction_length = 1",
        ];
        for (number, damage) in damages.iter().enumerate() {
            let fixture = fixture(&format!("damaged_{number}")).await?;
            let config = config(&fixture);
            drop(take_over(&config, PIPELINE).await?);
            fixture.target(damage).await?;
            let result = Writer::take_over(connect(&config).await?, PIPELINE, MAX_IN_FLIGHT, || ()).await;
            assert_eq!(halt(result.map(drop))?.reason, Reason::CheckpointInvalid, "{damage}");
        }
        Ok(())
    });
}

#[test]
fn objects_in_the_way_of_the_control_schema_are_refused() {
    run(async {
        let fixture = fixture("in_the_way").await?;
        fixture
            .target("CREATE SCHEMA tidegate AUTHORIZATION tidegate; CREATE TABLE tidegate.halt (id int)")
            .await?;
        let client = connect(&config(&fixture)).await?;
        let result = Writer::take_over(client, PIPELINE, MAX_IN_FLIGHT, || ()).await;
        assert_eq!(halt(result.map(drop))?.reason, Reason::CheckpointInvalid);
        Ok(())
    });
}

#[test]
fn a_migration_waits_until_no_writer_runs() {
    run(async {
        let fixture = fixture("migration").await?;
        let config = config(&fixture);
        let running = take_over(&config, "running").await?;
        // What an older release would have left behind.
        fixture.target("DELETE FROM tidegate.schema_history").await?;
        let waited = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&waited);
        let client = connect(&config).await?;
        let taking = tokio::spawn(async move {
            Writer::take_over(client, PIPELINE, MAX_IN_FLIGHT, || seen.store(true, Ordering::SeqCst)).await
        });
        tokio::time::timeout(PATIENCE, async {
            while !waited.load(Ordering::SeqCst) {
                tokio::task::yield_now().await;
            }
        })
        .await?;
        // What is there must go for the migration to run again.
        fixture.target("DROP SCHEMA tidegate CASCADE").await?;
        assert!(!taking.is_finished(), "a writer still runs");
        drop(running);
        let writer = tokio::time::timeout(PATIENCE, taking).await???;
        assert_eq!(writer.checkpoint().position, None);
        Ok(())
    });
}

#[test]
fn a_target_table_belongs_to_one_pipeline() {
    run(async {
        let fixture = fixture("shared").await?;
        let config = config(&fixture);
        let table = table(&fixture);
        let _applier = streaming(&config, std::slice::from_ref(&table.model)).await?;
        let mut other = take_over(&config, "other").await?;
        let states = [state(table.model.clone(), TablePhase::Pending, "")?];
        let refused = halt(catalog::claim_tables(&mut other, &states).await)?;
        assert_eq!(refused.reason, Reason::TargetPreflight);
        assert!(refused.detail.contains(PIPELINE), "{refused}");
        // Not even when both look at the same moment.
        assert_eq!(halt(other.save_tables(&states).await)?.reason, Reason::TargetConstraint);
        Ok(())
    });
}

/// A release without the ledger of conversions knew no column that had lost its NOT NULL either.
#[test]
fn an_older_control_schema_is_brought_up_to_date_with_its_state() {
    run(async {
        let fixture = fixture("upgrade").await?;
        let config = config(&fixture);
        let table = table(&fixture);
        drop(streaming(&config, std::slice::from_ref(&table.model)).await?);
        fixture
            .target(
                "DROP TABLE tidegate.conversion, tidegate.schema_object;
                 DROP FUNCTION tidegate.wait_for_gtid, tidegate.gtid_set_includes, tidegate.gtid_ranges,
                    tidegate.expect_rows;
                 ALTER TABLE tidegate.table_state DROP COLUMN landmarks;
                 DELETE FROM tidegate.schema_history
                    WHERE version >= (SELECT version FROM tidegate.schema_history WHERE name = 'conversions');
                 UPDATE tidegate.table_state
                    SET model = regexp_replace(model::text, ', \"not_null_dropped\": (true|false)', '', 'g')::jsonb",
            )
            .await?;
        let left = "SELECT count(*) FROM tidegate.table_state WHERE model::text LIKE '%not_null_dropped%'";
        assert_eq!(fixture.target_scalar(left).await?.as_deref(), Some("0"));
        let told =
            tidegate::sink::preflight::check(&config, PIPELINE, std::slice::from_ref(&table.model)).await?;
        let told: Vec<_> = told.iter().map(|finding| (finding.name, finding.is_error())).collect();
        assert_eq!(told, [("target.control_schema", false)]);
        let unread = tidegate::sink::report::read(&connect(&config).await?, PIPELINE).await;
        let told = unread.map(drop).map_err(|failure| failure.to_string());
        assert!(told.as_ref().is_err_and(|told| told.contains("an earlier release")), "{told:?}");
        assert!(tidegate::sink::report::has_position(&config, PIPELINE).await?);
        let writer = take_over(&config, PIPELINE).await?;
        let processed = writer.checkpoint().position.as_ref().map(|position| position.processed.to_string());
        assert_eq!(processed, Some(set("1-10")?.to_string()));
        let models: Vec<_> = writer.load_tables().await?.into_iter().map(|state| state.model).collect();
        assert_eq!(models, [table.model]);
        assert_eq!(writer.load_conversions().await?, []);
        Ok(())
    });
}

/// A landmark of a release that kept no more than the time of the first commit holds on every server,
/// and tells no more than it did.
#[test]
fn an_older_landmark_is_kept() {
    run(async {
        let fixture = fixture("landmark").await?;
        let config = config(&fixture);
        let table = table(&fixture);
        drop(streaming(&config, std::slice::from_ref(&table.model)).await?);
        fixture
            .target(
                "DELETE FROM tidegate.schema_history WHERE version = 10;
                 UPDATE tidegate.table_state SET landmarks =
                    '[{\"gtid\": \"aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:7\", \"original_commit_micros\": 1700}]'",
            )
            .await?;
        let writer = take_over(&config, PIPELINE).await?;
        let states = writer.load_tables().await?;
        let [state] = states.as_slice() else { bail!("not one table: {states:?}") };
        let [mark] = state.landmarks.as_slice() else { bail!("not one landmark: {state:?}") };
        let found = |original_commit_micros| Fingerprint {
            original_commit_micros,
            immediate_commit_micros: 5,
            transaction_length: 6,
        };
        mark.verify(mark.gtid.uuid(), &found(1700))?;
        assert!(mark.verify(mark.gtid.uuid(), &found(1701)).is_err());
        Ok(())
    });
}
