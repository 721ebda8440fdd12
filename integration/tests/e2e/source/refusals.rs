//! Error 1236 in all its meanings, each provoked.

use anyhow::{Context, Result, ensure};
use tidegate::gtid::{Gtid, GtidSet, Tag};
use tidegate::halt::Reason;
use tidegate::source::dump::Dump;
use tidegate_integration::{MySql, run};

use super::{config, executed, fingerprint_of, last_gtid, next, reason, refusal, replica_uuid, server_uuid};

async fn expect(mysql: &MySql, set: &GtidSet, expected: Reason) -> Result<()> {
    let failure = refusal(&config(mysql), set).await?;
    ensure!(reason(&failure) == Some(expected), "not {expected}: {failure}");
    Ok(())
}

#[test]
fn purged_ahead_and_refilled() {
    run(async {
        let mysql = MySql::start_new(&[]).await?;
        let uuid = server_uuid(&mysql).await?;
        mysql
            .exec("", "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY); INSERT INTO t.a VALUES (1)")
            .await?;
        let set = executed(&mysql).await?;
        let last = set.latest().next().context("a last transaction")?;
        let before = fingerprint_of(&mysql, &set, &last).await?.context("found")?;

        let mut ahead = set.clone();
        ahead.insert(&Gtid::new(uuid, Tag::none(), last.gno() + 1)?);
        expect(&mysql, &ahead, Reason::SourceIdentityMismatch).await?;

        // What comes in between belongs to nobody the source knows: accepted.
        let mut foreign = set.clone();
        foreign.insert(&"11111111-2222-3333-4444-555555555555:1".parse()?);
        let mut dump = Dump::open(&config(&mysql), &replica_uuid(), &foreign).await?;
        next(&mut dump).await?;

        mysql.exec("t", "FLUSH BINARY LOGS; INSERT INTO a VALUES (2)").await?;
        let file = mysql.rows("", "SHOW BINARY LOGS").await?.pop().context("a file")?.swap_remove(0);
        mysql.exec("", &format!("PURGE BINARY LOGS TO '{}'", file.context("its name")?)).await?;
        expect(&mysql, &GtidSet::new(), Reason::DataGap).await?;
        ensure!(fingerprint_of(&mysql, &set, &last).await?.is_none());

        // A source that was reset and has as many transactions again is accepted: the fingerprint tells.
        mysql.exec("", "RESET BINARY LOGS AND GTIDS").await?;
        for id in 3..=3 + last.gno() {
            mysql.exec("t", &format!("INSERT INTO a VALUES ({id})")).await?;
        }
        let after = fingerprint_of(&mysql, &set, &last).await?.context("found")?;
        ensure!(after.original_commit_micros != before.original_commit_micros);
        Ok(())
    });
}

#[test]
fn gtids_switched_off_and_anonymous_transactions() {
    run(async {
        let mysql = MySql::start_new(&[]).await?;
        mysql
            .exec("", "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY); INSERT INTO t.a VALUES (1)")
            .await?;
        let set = executed(&mysql).await?;
        mysql.exec("", "SET GLOBAL gtid_mode = ON_PERMISSIVE").await?;
        expect(&mysql, &set, Reason::SourcePreflight).await?;
        mysql.exec("t", "SET gtid_next = 'ANONYMOUS'; INSERT INTO a VALUES (2)").await?;
        mysql.exec("", "SET GLOBAL gtid_mode = ON").await?;
        // With the last applied group held out, the source has to pass by what has no GTID.
        let mut without = set.clone();
        without.remove(&set.latest().next().context("a last transaction")?);
        expect(&mysql, &without, Reason::AnonymousGtid).await
    });
}

#[test]
fn a_source_without_binlog() {
    run(async {
        let mysql =
            MySql::start_new(&["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--skip-log-bin"])
                .await?;
        let failure = refusal(&config(&mysql), &GtidSet::new()).await?;
        ensure!(reason(&failure) == Some(Reason::SourcePreflight), "{failure}");
        Ok(())
    });
}

#[test]
fn a_source_that_is_reset_under_the_dump() {
    run(async {
        let mysql = MySql::start_new(&[]).await?;
        mysql.exec("", "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, b LONGBLOB)").await?;
        mysql.exec("", "FLUSH BINARY LOGS").await?;
        let start = executed(&mysql).await?;
        mysql.exec("t", "INSERT INTO a VALUES (1, 'x')").await?;
        last_gtid(&mysql, &start).await?;
        let mut dump = Dump::open(&config(&mysql), &replica_uuid(), &start).await?;
        next(&mut dump).await?;
        mysql.exec("", "RESET BINARY LOGS AND GTIDS").await?;
        mysql.exec("t", "INSERT INTO a VALUES (2, REPEAT('x', 100000)); FLUSH BINARY LOGS").await?;
        mysql.exec("t", "INSERT INTO a VALUES (3, REPEAT('x', 100000)); FLUSH BINARY LOGS").await?;
        let failure = super::failure_of(&mut dump).await?;
        ensure!(reason(&failure) == Some(Reason::SourceIdentityMismatch), "{failure}");
        ensure!(failure.to_string().contains("1236: could not find next log"), "{failure}");
        Ok(())
    });
}
