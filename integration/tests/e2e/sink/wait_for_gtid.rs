//! `tidegate.wait_for_gtid`: reading one's own writes on the replica.

use std::time::Instant;

use tidegate_integration::postgres::literal;
use tidegate_integration::{PgSession, run};

use super::source_rows::{self, Int, Null, Table, transaction};
use super::*;

const OTHER: &str = "aaaaaaaa-2222-3333-4444-555555555555";

async fn wait(session: &PgSession, set: &str, timeout: &str) -> Result<Option<String>> {
    session.scalar(&format!("SELECT tidegate.wait_for_gtid({}, {})", literal(set), literal(timeout))).await
}

/// SQLSTATE of a call that fails.
async fn refused(session: &PgSession, call: &str) -> Result<String> {
    match session.client().simple_query(&format!("SELECT {call}")).await {
        Err(error) => Ok(error.code().context("an error of the server")?.code().to_owned()),
        Ok(_) => bail!("{call} does not fail"),
    }
}

#[test]
fn what_is_processed_is_reached_and_nothing_else() {
    run(async {
        let fixture = fixture("wait_sets").await?;
        let mut writer = take_over(&config(&fixture), PIPELINE).await?;
        let processed = format!("{OTHER}:3,{SOURCE}:1-5:7:blue:1-3:9:green:2");
        let (processed, pooled) = (processed.parse()?, format!("{SOURCE}:6:blue:5").parse()?);
        writer.set_position(Position { processed, pooled, last: None }, &[]).await?;
        let session = fixture.target_session().await?;
        let reached = [
            String::new(),
            " \n".to_owned(),
            format!("{SOURCE}:1"),
            // Prepared and held back: counted, so that one dangling transaction blocks no reader.
            format!("{SOURCE}:1-7"),
            format!("{SOURCE}:5-6:blue:1-3:9"),
            format!("{SOURCE}:blue:5"),
            format!(" {}:2-3 ,\n{SOURCE}:Green:2,{OTHER}:3:3-3", SOURCE.to_uppercase()),
            format!("{SOURCE}:1-3,{SOURCE}:2-5"),
        ];
        for set in &reached {
            assert_eq!(wait(&session, set, "0").await?.as_deref(), Some("t"), "{set:?}");
        }
        let missing = [
            format!("{SOURCE}:8"),
            format!("{SOURCE}:1-8"),
            format!("{SOURCE}:blue:4"),
            format!("{SOURCE}:green:1"),
            format!("{SOURCE}:red:1"),
            format!("{SOURCE}:1,{OTHER}:2"),
            format!("{SOURCE}:1:9223372036854775806"),
            "99999999-2222-3333-4444-555555555555:1".to_owned(),
        ];
        for set in &missing {
            assert_eq!(wait(&session, set, "0").await?.as_deref(), Some("f"), "{set:?}");
        }
        Ok(())
    });
}

#[test]
fn what_is_no_set_is_refused_at_once() {
    run(async {
        let fixture = fixture("wait_garbage").await?;
        let session = fixture.target_session().await?;
        let mut writer = take_over(&config(&fixture), PIPELINE).await?;
        let position = Position { processed: set("1-10")?, ..Position::default() };
        writer.set_position(position, &[]).await?;
        let garbage = [
            "x".to_owned(),
            SOURCE.to_owned(),
            format!("{SOURCE}:"),
            format!("{SOURCE}::1"),
            format!("{SOURCE}:1:"),
            format!("{SOURCE}:0"),
            format!("{SOURCE}:-1"),
            format!("{SOURCE}:5-4"),
            format!("{SOURCE}:1-2-3"),
            format!("{SOURCE}:9223372036854775807"),
            format!("{SOURCE}:99999999999999999999"),
            format!("{SOURCE}:tag"),
            format!("{SOURCE}:tag:other:1"),
            format!("{SOURCE}:1:tag"),
            format!("{SOURCE}:a-b:1"),
            format!("{SOURCE}:{}:1", "t".repeat(33)),
            format!("{{{SOURCE}}}:1"),
            format!("{SOURCE}:1;{SOURCE}:2"),
        ];
        for set in garbage {
            let call = format!("tidegate.wait_for_gtid({}, '1h')", literal(&set));
            assert_eq!(refused(&session, &call).await?, "22P02", "{set:?}");
        }
        let calls = [
            ("tidegate.wait_for_gtid(NULL, '1s')", "22004"),
            ("tidegate.wait_for_gtid('', NULL)", "22004"),
            ("tidegate.wait_for_gtid('', '1s', 'another')", "42704"),
        ];
        for (call, code) in calls {
            assert_eq!(refused(&session, call).await?, code, "{call}");
        }
        session.exec("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        assert_eq!(refused(&session, "tidegate.wait_for_gtid('', '1s')").await?, "25001");
        session.exec("ROLLBACK").await?;
        let other = take_over(&config(&fixture), "second").await?;
        assert_eq!(refused(&session, "tidegate.wait_for_gtid('', '1s')").await?, "42P08");
        drop(other);
        // One without a position has reached nothing.
        let call = format!("SELECT tidegate.wait_for_gtid('{SOURCE}:1', '0', 'second')");
        assert_eq!(session.scalar(&call).await?.as_deref(), Some("f"));
        Ok(())
    });
}

#[test]
fn a_reader_waits_until_its_write_is_there() {
    run(async {
        let fixture = fixture("wait_reader").await?;
        let table = Table::new(&fixture.source, "t", &[("id", false), ("v", true)], &[0]);
        let mut applier = streaming(&config(&fixture), std::slice::from_ref(&table.model)).await?;
        fixture.target("GRANT USAGE ON SCHEMA tidegate TO public").await?;
        let name = format!("reader_{}", fixture.target);
        fixture.target(&format!("CREATE ROLE {name} LOGIN PASSWORD 'reader'")).await?;
        let reader = fixture.servers.postgres.session_as(&name, "reader", &fixture.target).await?;
        let wanted = source_rows::gtid(11).to_string();

        let started = Instant::now();
        assert_eq!(wait(&reader, &wanted, "300ms").await?.as_deref(), Some("f"));
        assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());

        let write = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            applier.apply(&units([transaction(11, vec![table.insert(&[&[Int(1), Null]])])])).await
        };
        let (waited, written) = tokio::join!(wait(&reader, &wanted, "1min"), write);
        written?;
        assert_eq!(waited?.as_deref(), Some("t"));
        assert!(started.elapsed() < PATIENCE, "it was not the timeout that ended it");
        fixture.target(&format!("DROP ROLE {name}")).await
    });
}
