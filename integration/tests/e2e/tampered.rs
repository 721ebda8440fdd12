//! What no server writes as long as it is sound: a real stream of a real source is tampered with on
//! its way, and the fold and the dump refuse it by name with the position before it.

use anyhow::{Result, ensure};
use tidegate::binlog::event::event_type;
use tidegate_integration::binlog_proxy::{BinlogProxy, Tamper};
use tidegate_integration::{Fixture, Servers, Tidegate, run};

const TABLE: &str = "CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(40)); INSERT INTO t VALUES (1, 'one')";

const INSERT: &str = "INSERT INTO t VALUES (2, 'two')";

/// A type that no release of MySQL writes.
const NO_TYPE: u8 = 200;

const GTIDS: [u8; 2] = [event_type::GTID, event_type::GTID_TAGGED];

struct Scenario {
    tamper: Tamper,
    on_source: &'static str,
    reason: &'static str,
}

const fn scenario(tamper: Tamper, on_source: &'static str, reason: &'static str) -> Scenario {
    Scenario { tamper, on_source, reason }
}

const SCENARIOS: &[Scenario] = &[
    scenario(
        Tamper::Drop(&[event_type::XID]),
        "INSERT INTO t VALUES (2, 'two'); INSERT INTO t VALUES (3, 'three')",
        "gtid_within_open_transaction",
    ),
    scenario(Tamper::Drop(&GTIDS), INSERT, "begin_without_gtid"),
    scenario(Tamper::Drop(&GTIDS), "CREATE TABLE more (id INT PRIMARY KEY)", "query_without_gtid"),
    scenario(
        Tamper::Drop(&[event_type::GTID, event_type::GTID_TAGGED, event_type::QUERY]),
        INSERT,
        "rows_without_transaction",
    ),
    scenario(
        Tamper::Drop(&[
            event_type::GTID,
            event_type::GTID_TAGGED,
            event_type::QUERY,
            event_type::TABLE_MAP,
            event_type::WRITE_ROWS,
        ]),
        INSERT,
        "terminator_without_transaction",
    ),
    scenario(Tamper::Retype(event_type::TABLE_MAP, event_type::ROWS_QUERY), INSERT, "unmapped_table_id"),
    scenario(Tamper::Drop(&[event_type::WRITE_ROWS]), INSERT, "transaction_length_mismatch"),
    // The magic number of a zstd frame.
    scenario(
        Tamper::Replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfe"),
        "SET SESSION binlog_transaction_compression = ON; INSERT INTO t VALUES (2, REPEAT('two', 10))",
        "compressed_payload_invalid",
    ),
    // MySQL writes it in statement format only, where the statement halts before it comes.
    scenario(
        Tamper::Replace(b"SAVEPOINT `abc`", b"ROLLBACK TO `x`"),
        "BEGIN; INSERT INTO t VALUES (2, 'two'); SAVEPOINT abc; INSERT INTO t VALUES (3, 'three'); COMMIT",
        "rollback_in_stream",
    ),
    scenario(Tamper::Retype(event_type::XID, NO_TYPE), INSERT, "unknown_event"),
    scenario(Tamper::Retype(event_type::QUERY, event_type::XID), INSERT, "event_malformed"),
];

/// A pipeline that streams through a proxy.
async fn streaming(fixture: &Fixture<'_>) -> Result<(BinlogProxy, Tidegate)> {
    fixture.source(TABLE).await?;
    let proxy = BinlogProxy::start(fixture.servers.mysql.addr()).await?;
    let tidegate = Tidegate::start(fixture.config().source_at(proxy.addr())).await?;
    tidegate.wait_state("streaming").await?;
    tidegate.caught_up(fixture).await?;
    Ok((proxy, tidegate))
}

async fn halts(servers: &Servers, scenario: &Scenario) -> Result<()> {
    let fixture = servers.fixture("tampered").await?;
    let (proxy, tidegate) = streaming(&fixture).await?;
    let before = fixture.stored_gtid_set().await?;
    proxy.tamper(&[scenario.tamper]);
    fixture.source(scenario.on_source).await?;
    let halt = tidegate.wait_halt().await?;
    ensure!(halt["reason"] == scenario.reason, "halted otherwise: {halt}");
    let health = tidegate.wait_health(503).await?;
    ensure!(health.body.contains(scenario.reason), "/health does not say why: {}", health.body);
    ensure!(fixture.stored_gtid_set().await? == before, "the position moved past the halt");

    // Nothing is wrong with the source: as the runbook says, resuming reads it again.
    proxy.tamper(&[]);
    ensure!(tidegate.post("/v1/resume").await?.status == 202, "resume is accepted");
    tidegate.caught_up(&fixture).await?;
    fixture.assert_same().await
}

#[test]
fn each_halts_by_name_and_is_read_again_once_it_is_sound() {
    run(async {
        // An event that was tampered with would be told by its checksum before it is looked at.
        let servers = Servers::own(&["--binlog-checksum=NONE"], &[]).await?;
        for scenario in SCENARIOS {
            halts(&servers, scenario).await.map_err(|error| error.context(scenario.reason))?;
        }
        Ok(())
    });
}

#[test]
fn a_checksum_tells_of_every_byte() {
    run(async {
        let servers = Servers::own(&["--binlog-checksum=CRC32"], &[]).await?;
        let flipped = scenario(Tamper::Replace(b"two", b"twp"), INSERT, "event_checksum_mismatch");
        halts(&servers, &flipped).await?;

        // A replica that does not say that it knows checksums is refused by the source itself.
        let fixture = servers.fixture("ignorant").await?;
        fixture.source(TABLE).await?;
        let proxy = BinlogProxy::start(servers.mysql.addr()).await?;
        let unheard = Tamper::Replace(
            b"@source_binlog_checksum='CRC32', @master_binlog_checksum='CRC32'",
            b"@one_variable__________='CRC32', @another_one___________='CRC32'",
        );
        // It comes first, and without the checksum that Tidegate did ask for.
        proxy.tamper(&[unheard, Tamper::Drop(&[event_type::ROTATE])]);
        let tidegate = Tidegate::start(fixture.config().source_at(proxy.addr())).await?;
        let halt = tidegate.wait_halt().await?;
        ensure!(halt["reason"] == "dump_checksum_refused", "{halt}");
        Ok(())
    });
}
