use super::*;
use crate::halt::Reason;

const UUID: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

fn status() -> StatusHandle {
    let config = crate::config::parse(
        "pipeline.name = 'app'\nsource.url = 'mysql://u@[::1]'\nsource.server_id = 1\nsource.tls = 'off'\n\
         target.url = 'postgres://u@h/db'\ntarget.tls = 'off'\ntables.include = ['a.*']\n",
        &crate::config::Environment::default(),
    );
    StatusHandle::new(&config.expect("valid"))
}

fn set(numbers: &str) -> GtidSet {
    format!("{UUID}:{numbers}").parse().expect("a set")
}

const NONE_PREPARED: &GtidSet = &GtidSet::new();

fn applied(processed: &GtidSet, last: u64, pending: Option<u64>) -> Applied<'_> {
    Applied {
        processed,
        prepared: NONE_PREPARED,
        transactions: 1,
        rows: 2,
        elapsed: Duration::from_millis(1),
        last_commit_micros: Some(last),
        oldest_pending_micros: pending,
    }
}

#[test]
fn nothing_is_known_before_the_source_has_answered() {
    let status = status();
    let report = status.report();
    assert_eq!((report.source.as_str(), report.target.as_str()), ("[::1]:3306", "h:5432/db"));
    assert_eq!((report.state, report.lag_ms), (State::Starting, None));
    assert_eq!((report.processed_gtid_set, report.source_gtid_set), (None, None));
    status.source_observed(set("1-5"), 1_000_000);
    assert_eq!(status.report().lag_ms, None, "no position, no lag");
}

#[test]
fn lag_is_zero_exactly_when_our_set_includes_the_sources() {
    let status = status();
    status.checkpoint_loaded(&set("1-4"), NONE_PREPARED, Some(7_000_000));
    status.source_observed(set("1-5"), 10_000_000);
    let lag = status.report().lag_ms.expect("known");
    assert!((3000..3500).contains(&lag), "{lag}");
    status.applied(applied(&set("1-5"), 9_000_000, None));
    assert_eq!(status.report().lag_ms, Some(0));
    status.applied(applied(&set("1-6"), 9_500_000, None));
    assert_eq!(status.report().lag_ms, Some(0), "ahead of an older answer");
}

#[test]
fn an_idle_night_is_no_lag_for_the_first_transaction_after_it() {
    let status = status();
    status.checkpoint_loaded(&set("1-4"), NONE_PREPARED, Some(1_000_000));
    status.source_observed(set("1-4"), 90_000_000);
    status.source_observed(set("1-5"), 91_000_000);
    let lag = status.report().lag_ms.expect("known");
    assert!((1000..1500).contains(&lag), "{lag}");
}

#[test]
fn the_oldest_transaction_received_is_exact() {
    let status = status();
    status.checkpoint_loaded(&set("1-4"), NONE_PREPARED, Some(1_000_000));
    status.applied(applied(&set("1-5"), 2_000_000, Some(6_000_000)));
    status.source_observed(set("1-9"), 10_000_000);
    let lag = status.report().lag_ms.expect("known");
    assert!((4000..4500).contains(&lag), "{lag}");
}

#[test]
fn a_stale_answer_is_no_answer_and_a_fresh_one_ages() {
    let status = status();
    status.checkpoint_loaded(&set("1-4"), NONE_PREPARED, Some(9_000_000));
    status.source_observed(set("1-5"), 10_000_000);
    let at = Instant::now();
    let aged = status.report_at(at + Duration::from_secs(5)).lag_ms.expect("fresh enough");
    assert!((6000..6500).contains(&aged), "{aged}");
    let stale = status.report_at(at + OBSERVATION_AGE_MAX + Duration::from_secs(1));
    assert_eq!((stale.lag_ms, stale.source_gtid_set), (None, None));
    status.source_unreachable();
    assert_eq!(status.report().lag_ms, None);
}

#[test]
fn a_pipeline_that_does_not_run_is_not_without_lag() {
    let stops: [fn(&StatusHandle); 2] =
        [|s| s.retrying(Side::Target, "refused"), |s| s.halt(&Halt::new(Reason::DataGap, ""))];
    for stop in stops {
        let status = status();
        status.checkpoint_loaded(&set("1-5"), NONE_PREPARED, None);
        status.source_observed(set("1-5"), 1_000_000);
        assert_eq!(status.report().lag_ms, Some(0));
        stop(&status);
        assert_eq!((status.report().lag_ms, status.report().source_gtid_set), (None, None));
    }
}

#[test]
fn a_halt_is_unhealthy_until_it_is_left() {
    let status = status();
    status.enter(State::Streaming);
    assert_eq!((status.health(), status.ready()), (Health::Ok(State::Streaming), true));
    status.retrying(Side::Target, "connection refused");
    assert_eq!((status.health(), status.ready()), (Health::Ok(State::Retrying), false));
    status.halt(&Halt::new(Reason::DataGap, "purged").on_table("app", "users"));
    assert_eq!((status.health(), status.ready()), (Health::Halted("data_gap".into()), false));
    let report = status.report();
    let halt = report.halt.expect("halted");
    assert_eq!((halt.table.as_deref(), halt.remedy.as_str()), (Some("app.users"), Reason::DataGap.remedy()));
    assert_eq!(report.last_error.expect("kept").message, "connection refused");
    status.enter(State::Starting);
    assert_eq!(status.report().halt, None);
}

#[test]
fn a_standby_is_ready_while_it_starts() {
    let status = status();
    assert!(!status.ready());
    status.standby(true);
    assert!(status.ready());
    status.halt(&Halt::new(Reason::DataGap, ""));
    assert!(!status.ready());
}

#[test]
fn a_task_that_vanishes_is_unhealthy_for_good() {
    let status = status();
    status.enter(State::Streaming);
    status.supervise("observer").finish();
    assert_eq!(status.health(), Health::Ok(State::Streaming));
    let guard = status.supervise("observer");
    let died = std::thread::spawn(move || {
        let _guard = guard;
        panic!("for the test");
    });
    assert!(died.join().is_err());
    status.enter(State::Streaming);
    assert_eq!((status.health(), status.ready()), (Health::TaskDied("observer"), false));
    assert_eq!(status.report().dead_task.as_deref(), Some("observer"));
}

#[tokio::test]
async fn a_resume_is_for_the_present_halt_only() {
    let status = status();
    assert_eq!(status.request_resume(), Err(NotHalted(State::Starting)));
    status.halt(&Halt::new(Reason::DataGap, "first"));
    assert_eq!(status.request_resume(), Ok(()));
    let report = status.report();
    assert_eq!((report.state, report.halt), (State::Starting, None), "the answer is true at once");
    assert_eq!(status.request_resume(), Err(NotHalted(State::Starting)), "it is resumed once");
    status.resumed().await;
    assert_eq!(status.request_resume(), Err(NotHalted(State::Starting)));
    status.halt(&Halt::new(Reason::DataGap, "second"));
    let waited = tokio::time::timeout(Duration::from_millis(50), status.resumed()).await;
    assert!(waited.is_err(), "an old request must not wake a new halt");
    let (resumed, requested) = tokio::join!(status.resumed(), async { status.request_resume() });
    assert_eq!((resumed, requested), ((), Ok(())));
}

#[test]
fn tables_keep_their_counts_through_states() {
    let status = status();
    let name = TableName { database: "app".into(), table: "users".into() };
    status.rows_copied(&name, 5);
    status.table(&name, "app.users", TablePhase::Copying);
    status.rows_estimated(&name, 900);
    status.copy_begun(&name, 100);
    status.rows_copied(&name, 50);
    status.table(&name, "app.users", TablePhase::Streaming);
    let tables = status.report().tables;
    let expected = TableReport {
        source: "app.users".into(),
        target: "app.users".into(),
        state: TablePhase::Streaming,
        rows_copied: 150,
        rows_estimated: Some(900),
        waiting_for: None,
    };
    assert_eq!(tables, [expected]);
}

#[test]
fn a_wait_for_a_lock_is_told_until_it_is_over() {
    let waiting = || {
        let status = status();
        let name = TableName { database: "app".into(), table: "users".into() };
        status.table(&name, "app.users", TablePhase::Capturing);
        status.table_waiting(&name, "the table's read lock", Duration::from_secs(12));
        let report = status.report();
        assert_eq!(report.tables[0].waiting_for.as_deref(), Some("the table's read lock"));
        let message = report.last_error.expect("an error").message;
        assert_eq!(message, "app.users waits for the table's read lock, for 12 s so far");
        (status, name)
    };
    let ends: [fn(&StatusHandle, &TableName); 3] = [
        |status, name| status.table(name, "app.users", TablePhase::Copying),
        |status, _| status.retrying(Side::Source, "gone"),
        |status, _| status.halt(&Halt::new(Reason::SnapshotLockUnavailable, "")),
    ];
    for end in ends {
        let (status, name) = waiting();
        end(&status, &name);
        assert_eq!(status.report().tables[0].waiting_for, None);
    }
}

#[test]
fn a_report_survives_the_wire() {
    let status = status();
    status.halt(&Halt::new(Reason::DataGap, "purged"));
    status.stream_position("binlog.000001", 4);
    status.stream_position("binlog.000002", 157);
    let report = status.report();
    assert_eq!(report.stream_position.as_deref(), Some("binlog.000002:157"));
    let json = serde_json::to_string(&report).expect("serializable");
    assert_eq!(serde_json::from_str::<Report>(&json).expect("readable"), report);
}
