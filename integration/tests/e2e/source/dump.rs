//! The binlog stream: what arrives, in what order, and when the stream is given up.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use tidegate::binlog::event::{ChecksumAlgorithm, Event, EventHeader, event_type};
use tidegate::config::TlsMode;
use tidegate::gtid::{Gtid, GtidSet};
use tidegate::halt::Reason;
use tidegate::source::dump::Dump;
use tidegate_integration::{CutProxy, MySql, Servers, run};

use super::{config, executed, failure_of, gtids_until, last_gtid, next, reason, replica_uuid};

/// Payload of a full frame: a packet of exactly this length is followed by an empty frame.
const FRAME_MAX: usize = 0xff_ffff;

/// Bytes of a WRITE_ROWS event of `(id INT PRIMARY KEY, b LONGBLOB)` beside the blob: header 19,
/// table id 6, flags 2, extra length 2, column count 1, bitmap 1, NULLs 1, id 4, length 4, CRC 4.
const ROW_OVERHEAD: usize = 44;

#[test]
fn events_of_any_size_arrive_whole() {
    run(async {
        let fixture = Servers::shared().await?.fixture("sizes").await?;
        let mysql = &fixture.servers.mysql;
        fixture.source("CREATE TABLE big (id INT PRIMARY KEY, b LONGBLOB)").await?;
        let start = executed(mysql).await?;
        // One more byte for the packet's status.
        let edge = |frames: usize| frames * FRAME_MAX - ROW_OVERHEAD - 1;
        let lengths = [
            edge(1) - 1,
            edge(1),
            edge(1) + 1,
            edge(2) - 1,
            edge(2),
            edge(2) + 1,
            60_000_000,
            0,
            5000,
            40_000,
        ];
        let mut session = fixture.source_session().await?;
        for (id, length) in lengths.iter().enumerate() {
            session.exec(&format!("INSERT INTO big VALUES ({id}, REPEAT('x', {length}))")).await?;
        }
        for mode in [TlsMode::Off, TlsMode::EncryptOnly] {
            let mut config = config(mysql);
            config.tls.mode = mode;
            let mut dump = Dump::open(&config, &replica_uuid(), &start).await?;
            let mut expected = lengths.iter();
            while let Some(length) = expected.as_slice().first() {
                let raw = next(&mut dump).await?;
                let is_ours = raw.header.event_type == event_type::WRITE_ROWS
                    && raw.header.event_length as usize == length + ROW_OVERHEAD;
                if is_ours {
                    let Event::Rows(rows) = Event::parse(&raw)? else { bail!("rows") };
                    let blob = &rows.images[9..];
                    ensure!(blob.len() == *length && blob.iter().all(|byte| *byte == b'x'), "{length}");
                    expected.next();
                }
            }
        }
        Ok(())
    });
}

#[test]
fn only_what_is_not_in_the_set_is_sent_tags_included() {
    run(async {
        let mysql = MySql::start_new(&[]).await?;
        mysql.exec("", "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY)").await?;
        let start = executed(&mysql).await?;
        let mut session = mysql.session("t").await?;
        let mut gtids: Vec<Gtid> = Vec::new();
        for (id, tag) in ["", "one", "", "two", "one", ""].iter().enumerate() {
            let mut before = executed(&mysql).await?;
            let next = if tag.is_empty() { "AUTOMATIC".to_owned() } else { format!("AUTOMATIC:{tag}") };
            session.exec(&format!("SET gtid_next = '{next}'; INSERT INTO a VALUES ({id})")).await?;
            before.union_with(&start);
            gtids.push(last_gtid(&mysql, &before).await?);
        }
        session.exec("SET gtid_next = 'AUTOMATIC'").await?;
        let last = gtids[gtids.len() - 1].clone();
        // Every choice of the five groups before the last.
        for have in 0..1u32 << (gtids.len() - 1) {
            let mut set = start.clone();
            let (held, missing): (Vec<_>, Vec<_>) =
                gtids.iter().enumerate().partition(|(bit, _)| have >> bit & 1 == 1);
            for (_, gtid) in held {
                set.insert(gtid);
            }
            let mut dump = Dump::open(&config(&mysql), &replica_uuid(), &set).await?;
            let came = gtids_until(&mut dump, &last).await?;
            let missing: Vec<Gtid> = missing.into_iter().map(|(_, gtid)| gtid.clone()).collect();
            ensure!(came == missing, "{have:b}: {came:?}");
            dump.close().await;
        }
        Ok(())
    });
}

#[test]
fn an_idle_stream_has_heartbeats_and_a_silent_one_is_dead() {
    run(async {
        let mysql = &Servers::shared().await?.mysql;
        let proxy = CutProxy::opaque(mysql.addr()).await?;
        let mut config = config(mysql);
        config.port = proxy.addr().port();
        config.heartbeat_period = Duration::from_millis(500);
        let mut dump = Dump::open(&config, &replica_uuid(), &executed(mysql).await?).await?;
        for _ in 0..3 {
            while next(&mut dump).await?.header.event_type != event_type::HEARTBEAT_V2 {}
        }
        proxy.block();
        let blocked = Instant::now();
        let failure = failure_of(&mut dump).await?;
        ensure!(reason(&failure).is_none() && failure.to_string().contains("silent"), "{failure}");
        // Three periods after the last byte, which came up to one period before.
        ensure!(blocked.elapsed() > Duration::from_millis(900), "{:?}", blocked.elapsed());
        Ok(())
    });
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    run(async {
        let mysql = &Servers::shared().await?.mysql;
        let proxy = CutProxy::opaque(mysql.addr()).await?;
        proxy.block();
        let mut config = config(mysql);
        config.port = proxy.addr().port();
        config.connect_timeout = Duration::from_millis(500);
        let failure = Dump::open(&config, &replica_uuid(), &GtidSet::new()).await.err();
        ensure!(failure.is_some_and(|failure| failure.to_string().contains("connect_timeout")));
        let failure = tidegate::source::connect::connect(&config).await.err();
        ensure!(failure.is_some_and(|failure| failure.to_string().contains("connect_timeout")));
        Ok(())
    });
}

#[test]
fn a_reader_may_pause_for_longer_than_the_servers_write_timeout_and_the_silence_allowed() {
    run(async {
        let mysql = MySql::start_new(&["--net-write-timeout=1"]).await?;
        mysql.exec("", "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, b LONGBLOB)").await?;
        let start = executed(&mysql).await?;
        let mut session = mysql.session("t").await?;
        // More than the socket buffers of both ends hold.
        for id in 0..20 {
            session.exec(&format!("INSERT INTO a VALUES ({id}, REPEAT('x', 4000000))")).await?;
        }
        let last = last_gtid(&mysql, &start).await?;
        let mut config = config(&mysql);
        config.heartbeat_period = Duration::from_secs(1);
        let mut dump = Dump::open(&config, &replica_uuid(), &start).await?;
        next(&mut dump).await?;
        tokio::time::sleep(Duration::from_secs(8)).await;
        ensure!(gtids_until(&mut dump, &last).await?.len() == 20);
        Ok(())
    });
}

#[test]
fn a_second_dump_of_the_same_identity_evicts_the_first() {
    run(async {
        let mysql = &Servers::shared().await?.mysql;
        let mut config = config(mysql);
        config.heartbeat_period = Duration::from_secs(1);
        let set = executed(mysql).await?;
        let identity = replica_uuid();
        let mut first = Dump::open(&config, &identity, &set).await?;
        let mut other = Dump::open(&config, &replica_uuid(), &set).await?;
        next(&mut first).await?;
        let mut second = Dump::open(&config, &identity, &set).await?;
        let failure = failure_of(&mut first).await?;
        ensure!(reason(&failure) == Some(Reason::ServerIdConflict), "{failure}");
        // The others go on: two heartbeats are later than the eviction.
        for dump in [&mut second, &mut other] {
            for _ in 0..2 {
                while next(dump).await?.header.event_type != event_type::HEARTBEAT_V2 {}
            }
        }
        Ok(())
    });
}

#[test]
fn an_end_of_the_stream_is_retried() {
    run(async {
        let mysql = MySql::start_new(&[]).await?;
        let set = executed(&mysql).await?;
        for statement in ["KILL QUERY", "KILL", "stop"] {
            let mut dump = Dump::open(&config(&mysql), &replica_uuid(), &set).await?;
            next(&mut dump).await?;
            let kill = format!("{statement} {}", dump.connection_id());
            let (ended, failure) = tokio::join!(
                async { if statement == "stop" { mysql.stop().await } else { mysql.exec("", &kill).await } },
                failure_of(&mut dump)
            );
            ended?;
            ensure!(reason(&failure?).is_none(), "{statement}");
        }
        Ok(())
    });
}

#[test]
fn reading_may_be_cancelled_at_any_point() {
    run(async {
        let fixture = Servers::shared().await?.fixture("cancel").await?;
        let mysql = &fixture.servers.mysql;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY, b LONGBLOB)").await?;
        let start = executed(mysql).await?;
        let mut session = fixture.source_session().await?;
        for id in 0..12 {
            let length = [10, 100_000, 20_000_000][id % 3];
            session.exec(&format!("INSERT INTO a VALUES ({id}, REPEAT('x', {length}))")).await?;
        }
        let end = executed(mysql).await?;
        let whole = headers(mysql, &start, &end, None).await?;
        let cancelled = headers(mysql, &start, &end, Some(Duration::from_micros(50))).await?;
        ensure!(whole == cancelled, "{} and {} events", whole.len(), cancelled.len());
        Ok(())
    });
}

/// The headers of all events of the groups in `end` and not in `start`, each read given up after
/// `patience` and begun again.
async fn headers(
    mysql: &MySql,
    start: &GtidSet,
    end: &GtidSet,
    patience: Option<Duration>,
) -> Result<Vec<EventHeader>> {
    let mut dump = Dump::open(&config(mysql), &replica_uuid(), start).await?;
    let mut missing = end.subtract(start);
    let mut headers = Vec::new();
    let mut deadline = Instant::now() + super::EVENT_PATIENCE;
    while !missing.is_empty() {
        ensure!(Instant::now() < deadline, "the stream stands still");
        let read = match patience {
            None => next(&mut dump).await,
            Some(patience) => match tokio::time::timeout(patience, dump.next()).await {
                Ok(read) => Ok(read?),
                Err(_) => continue,
            },
        };
        let raw = read?;
        deadline = Instant::now() + super::EVENT_PATIENCE;
        if let Event::Gtid(event) = Event::parse(&raw)? {
            missing.remove(&event.gtid);
        }
        if raw.header.event_type != event_type::HEARTBEAT_V2 {
            headers.push(raw.header);
        }
    }
    Ok(headers)
}

#[test]
fn checksums_are_followed_when_they_are_switched() {
    run(async {
        let mysql = MySql::start_new(&[]).await?;
        mysql.exec("", "CREATE DATABASE t; CREATE TABLE t.a (v VARCHAR(20) PRIMARY KEY)").await?;
        let start = executed(&mysql).await?;
        let mut dump = Dump::open(&config(&mysql), &replica_uuid(), &start).await?;
        let values = ["crc32", "without", "crc32 again"];
        for (value, algorithm) in values.iter().zip(["CRC32", "NONE", "CRC32"]) {
            mysql
                .exec(
                    "t",
                    &format!("SET GLOBAL binlog_checksum = {algorithm}; INSERT INTO a VALUES ('{value}')"),
                )
                .await?;
        }
        // Live, and from the head of the files.
        for dump in [&mut dump, &mut Dump::open(&config(&mysql), &replica_uuid(), &start).await?] {
            let mut seen = Vec::new();
            let mut algorithms = Vec::new();
            while seen.len() < values.len() {
                match Event::parse(&next(dump).await?)? {
                    Event::Rows(rows) => seen.push(String::from_utf8(rows.images[2..].to_vec())?),
                    Event::FormatDescription(description) => algorithms.push(description.checksum),
                    _ => {}
                }
            }
            ensure!(seen == values);
            ensure!(algorithms.contains(&ChecksumAlgorithm::None));
        }
        Ok(())
    });
}

#[test]
fn a_fingerprint_is_that_of_the_group() {
    run(async {
        let fixture = Servers::shared().await?.fixture("fingerprint").await?;
        let mysql = &fixture.servers.mysql;
        let mut set = executed(mysql).await?;
        let mut dump = Dump::open(&config(mysql), &replica_uuid(), &set).await?;
        fixture.source("CREATE TABLE a (id INT PRIMARY KEY)").await?;
        let event = loop {
            if let Event::Gtid(event) = Event::parse(&next(&mut dump).await?)? {
                break event;
            }
        };
        set.insert(&event.gtid);
        let found = super::fingerprint_of(mysql, &set, &event.gtid).await?;
        ensure!(found.is_some_and(|fingerprint| {
            fingerprint.original_commit_micros == event.original_commit_micros
                && fingerprint.immediate_commit_micros == event.immediate_commit_micros
                && fingerprint.transaction_length == event.transaction_length
        }));
        Ok(())
    });
}
