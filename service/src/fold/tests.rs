mod builder;
mod captured;
mod properties;
mod simulation;
mod spill;
mod xa;

use bytes::Bytes;

use super::unit::{RowsChange, RowsKind};
use super::*;
use crate::binlog::event::event_type as t;
use crate::fold::statement::DdlKind;
use crate::schema::ddl::Content;
use builder::*;
use spill::Stores;

/// So few that most transactions of several events are spilled.
const MAX_BUFFER_BYTES: usize = 300;

/// Replicates database `app`, but not its table `app.skipped`.
fn policy() -> FoldPolicy {
    let filter = Filter::new(&["app.*".to_owned()], &["app.skipped".to_owned()]).unwrap();
    FoldPolicy {
        filter: Arc::new(filter),
        xa: XaPolicy::Refuse,
        cascades: Cascades::NONE,
        max_buffer_bytes: MAX_BUFFER_BYTES,
        spill: Arc::new(Stores::bounded(1 << 20)),
    }
}

fn changes(transaction: &Transaction) -> Vec<RowsChange> {
    transaction.changes.iter().collect::<Result<_, _>>().unwrap()
}

fn run(events: impl IntoIterator<Item = RawEvent>) -> (Vec<Unit>, GtidSet, Option<Halt>) {
    Fold::new(GtidSet::new(), None, policy()).run(events)
}

/// Runs one group with GTID 1, which must commit.
#[track_caller]
fn commits(flags: u8, parts: &[Part]) -> Unit {
    let (mut units, position, halt) = run(group(1, flags, parts));
    assert_eq!(halt, None);
    assert_eq!(units.len(), 1);
    assert!(position.contains(&gtid(1)));
    units.remove(0)
}

#[track_caller]
fn transaction(flags: u8, parts: &[Part]) -> Transaction {
    match commits(flags, parts) {
        Unit::Transaction(transaction) => transaction,
        other => panic!("{other:?}"),
    }
}

/// Runs a committed group, then `events`, which must halt without a further unit.
#[track_caller]
fn halts(events: impl IntoIterator<Item = RawEvent>) -> Halt {
    let before = group(900, ROWS_ONLY, &[begin(), xid()]);
    let (units, position, halt) = run(before.into_iter().chain(events));
    assert_eq!(units.len(), 1);
    assert_eq!(position, [&gtid(900)].into_iter().collect());
    halt.expect("a halt")
}

/// Runs one group with GTID 1, which must halt with this reason under its GTID.
#[track_caller]
fn refuses(flags: u8, parts: &[Part], reason: Reason) -> Halt {
    let halt = halts(group(1, flags, parts));
    assert_eq!(halt.reason, reason, "{halt}");
    assert_eq!(halt.gtid, Some(gtid(1)));
    halt
}

fn row_items() -> Vec<Part> {
    vec![begin(), table_map(1, "t"), write_rows(1, STMT_END, 5)]
}

fn with(parts: &[Part], last: Part) -> Vec<Part> {
    let mut parts = parts.to_vec();
    parts.push(last);
    parts
}

// Terminators.

#[test]
fn xid_commits() {
    let committed = transaction(ROWS_ONLY, &with(&row_items(), xid()));
    let [change] = &changes(&committed)[..] else { panic!("one change") };
    assert_eq!((change.map.database.as_str(), change.map.table.as_str()), ("app", "t"));
    assert_eq!((change.kind, change.flags), (RowsKind::Write, STMT_END));
    assert_eq!(change.images, image(5, 5));
    assert!(committed.changes.bytes() >= image(5, 5).len());
    let (original_commit_micros, immediate_commit_micros) = commit_micros(1);
    let transaction_length = committed.fingerprint.transaction_length;
    let expected = Fingerprint { original_commit_micros, immediate_commit_micros, transaction_length };
    assert_eq!(committed.fingerprint, expected);
}

#[test]
fn nothing_leaves_before_the_terminator() {
    let mut fold = Fold::new(GtidSet::new(), None, policy());
    let mut events = group(1, ROWS_ONLY, &with(&row_items(), xid()));
    let last = events.pop().unwrap();
    for event in events {
        assert!(matches!(fold.step(event), Ok(Step::Continue)));
        assert!(fold.position().is_empty());
    }
    assert!(matches!(fold.step(last), Ok(Step::Unit(Unit::Transaction(_)))));
    assert!(fold.position().contains(&gtid(1)));
}

#[test]
fn commit_text_commits() {
    assert_eq!(transaction(ROWS_ONLY, &with(&row_items(), query("COMMIT"))).changes.len(), 1);
}

#[test]
fn one_phase_prepare_commits() {
    let mut parts = row_items();
    parts[0] = query("XA START X'67',X'',1");
    parts.push(query("XA END X'67',X'',1"));
    assert_eq!(transaction(ROWS_ONLY, &with(&parts, xa_prepare(true))).changes.len(), 1);
}

#[test]
fn schema_changes_commit_by_themselves() {
    let Unit::SchemaChange(change) = commits(STATEMENTS, &[query("alter table t add x int")]) else {
        panic!("a schema change")
    };
    assert_eq!(change.gtid, gtid(1));
    assert_eq!(change.statement.kind, DdlKind::AlterTable);
    assert_eq!(change.fingerprint.immediate_commit_micros, commit_micros(1).1);
}

#[test]
fn empty_transactions_commit() {
    assert!(transaction(STATEMENTS, &[begin(), query("COMMIT")]).changes.is_empty());
    assert!(transaction(STATEMENTS, &[begin(), xid()]).changes.is_empty());
    // A table map alone is no change.
    assert!(transaction(ROWS_ONLY, &[begin(), table_map(1, "t"), xid()]).changes.is_empty());
}

// What is not replicated still moves the position.

#[test]
fn filtered_rows_are_dropped_unread() {
    let garbage = Part { body: [&write_rows(2, 0, 1).body[..10], &[0xff]].concat(), ..write_rows(2, 0, 1) };
    let parts = [
        begin(),
        table_map_without_names(2, "skipped"),
        table_map(1, "t"),
        update_rows(2, 0, 0b01, 0b10),
        write_rows(1, 0, 5),
        partial_update(2),
        table_map(1, "t"),
        table_map(1, "t"),
        write_rows(1, STMT_END, 6),
        xid(),
    ];
    let committed = transaction(ROWS_ONLY, &parts);
    let images: Vec<_> = changes(&committed).into_iter().map(|change| change.images).collect();
    assert_eq!(images, [image(5, 5), image(6, 6)]);
    // Only what the event's own frame needs is read of them.
    refuses(ROWS_ONLY, &[begin(), table_map(2, "skipped"), garbage, xid()], Reason::EventMalformed);
}

#[test]
fn statements_on_other_objects_move_the_position_only() {
    for text in [
        "alter table other.t add x int",
        "drop table skipped",
        "create database other",
        "drop database if exists other",
        "flush privileges",
        "create trigger x before insert on t for each row set new.a = 1",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`",
        "create temporary table t (a int)",
    ] {
        assert!(transaction(STATEMENTS, &[query(text)]).changes.is_empty(), "{text}");
    }
}

#[test]
fn every_replicated_object_of_a_statement_counts() {
    for text in [
        "rename table other.a to t",
        "drop table other.a, other.b, t",
        "alter table other.a exchange partition p with table app.t",
        "alter table skipped rename to t",
        "drop database app",
        "create schema app",
        "alter database collate utf8mb4_bin",
        "truncate t",
        "create index i on t (a)",
    ] {
        assert!(matches!(commits(STATEMENTS, &[query(text)]), Unit::SchemaChange(_)), "{text}");
    }
}

#[test]
fn a_statement_that_failed_halfway_is_no_schema_change() {
    let halt = refuses(STATEMENTS, &[query_with_error("drop table t, u", 1051)], Reason::DdlUnsupported);
    assert_eq!(halt.table.as_deref(), Some("app.t"));
    assert!(transaction(STATEMENTS, &[query_with_error("drop table other.t", 1051)]).changes.is_empty());
}

// Table maps live for one statement.

#[test]
fn rows_are_read_with_the_map_they_name() {
    let parts = [
        begin(),
        table_map(1, "t"),
        table_map(2, "u"),
        write_rows(2, 0, 1),
        write_rows(1, 0, 2),
        write_rows(2, STMT_END, 3),
        table_map(1, "v"),
        write_rows(1, STMT_END, 4),
        query("COMMIT"),
    ];
    let tables: Vec<_> =
        changes(&transaction(ROWS_ONLY, &parts)).iter().map(|change| change.map.table.clone()).collect();
    assert_eq!(tables, ["u", "t", "u", "v"]);
}

#[test]
fn a_map_ends_with_its_statement() {
    let parts = with(&row_items(), write_rows(1, STMT_END, 6));
    refuses(ROWS_ONLY, &parts, Reason::UnmappedTableId);
    let parts = [begin(), table_map(1, "t"), write_rows(2, STMT_END, 6)];
    refuses(ROWS_ONLY, &parts, Reason::UnmappedTableId);
    // Nor does an announcement without rows outlive a savepoint or a transaction.
    let parts = [begin(), table_map(1, "t"), query("SAVEPOINT `s`"), write_rows(1, STMT_END, 6)];
    refuses(ROWS_ONLY, &parts, Reason::UnmappedTableId);
    let mut events = group(1, ROWS_ONLY, &[begin(), table_map(1, "t"), xid()]);
    events.extend(group(2, ROWS_ONLY, &[begin(), write_rows(1, STMT_END, 1), xid()]));
    let (units, _, halt) = run(events);
    assert_eq!((units.len(), halt.unwrap().reason), (1, Reason::UnmappedTableId));
}

#[test]
fn a_map_with_a_known_id_and_another_body_is_read_anew() {
    let mut events = group(1, ROWS_ONLY, &with(&row_items(), xid()));
    let other = [begin(), table_map(1, "skipped"), write_rows(1, STMT_END, 1), xid()];
    events.extend(group(2, ROWS_ONLY, &other));
    events.extend(group(3, ROWS_ONLY, &with(&row_items(), xid())));
    let (units, _, halt) = run(events);
    assert_eq!(halt, None);
    let counts: Vec<_> = units.iter().map(|unit| unit.bytes() > 0).collect();
    assert_eq!(counts, [true, false, true]);
}

#[test]
fn equal_maps_are_shared() {
    let parts = [row_items(), row_items()[1..].to_vec(), vec![xid()]].concat();
    let committed = transaction(ROWS_ONLY, &parts);
    let rows = changes(&committed);
    assert!(Arc::ptr_eq(&rows[0].map, &rows[1].map));
}

#[test]
fn a_statement_without_its_last_rows_event_is_refused() {
    let unfinished = [begin(), table_map(1, "t"), write_rows(1, 0, 5)];
    let shape = Reason::UnsupportedTransactionShape;
    refuses(ROWS_ONLY, &with(&unfinished, xid()), shape);
    refuses(ROWS_ONLY, &with(&unfinished, query("COMMIT")), shape);
    refuses(ROWS_ONLY, &with(&unfinished, query("SAVEPOINT `s`")), shape);
    refuses(ROWS_ONLY, &with(&unfinished, table_map(2, "u")), shape);
    refuses(ROWS_ONLY, &with(&unfinished, of_type(t::ROWS_QUERY)), shape);
    refuses(ROWS_ONLY, &[begin(), table_map(1, "t"), table_map(1, "skipped")], shape);
}

#[test]
fn too_many_tables_in_one_statement_are_refused() {
    let maps = (0..16_385).map(|id| table_map(id, "t"));
    let parts: Vec<_> = std::iter::once(begin()).chain(maps).collect();
    refuses(ROWS_ONLY, &parts, Reason::BufferExhausted);
}

// Rows that are not whole.

#[test]
fn partial_images_are_refused_where_they_matter() {
    for (before, after) in [(0b01, 0b11), (0b11, 0b01), (0b11, 0b10)] {
        let parts = [begin(), table_map(1, "t"), update_rows(1, STMT_END, before, after), xid()];
        let halt = refuses(ROWS_ONLY, &parts, Reason::PartialRowImage);
        assert_eq!(halt.table.as_deref(), Some("app.t"));
    }
    let parts = [begin(), table_map(1, "t"), update_rows(1, STMT_END, 0b11, 0b11), xid()];
    assert_eq!(changes(&transaction(ROWS_ONLY, &parts))[0].kind, RowsKind::Update);
}

#[test]
fn partial_json_is_refused_where_it_matters() {
    let halt =
        refuses(ROWS_ONLY, &[begin(), table_map(1, "t"), partial_update(1), xid()], Reason::PartialJson);
    assert_eq!(halt.table.as_deref(), Some("app.t"));
    let parts = [begin(), table_map(1, "skipped"), partial_update(1), xid()];
    assert!(transaction(ROWS_ONLY, &parts).changes.is_empty());
    refuses(ROWS_ONLY, &[begin(), partial_update(1), xid()], Reason::UnmappedTableId);
}

#[test]
fn maps_without_names_are_refused_where_they_matter() {
    let parts = [begin(), table_map_without_names(1, "t"), write_rows(1, STMT_END, 1), xid()];
    let halt = refuses(ROWS_ONLY, &parts, Reason::RowMetadataNotFull);
    assert_eq!(halt.table.as_deref(), Some("app.t"));
}

#[test]
fn rows_and_map_agree_in_columns() {
    let parts = [begin(), table_map(1, "t"), delete_rows_of_columns(1, 3), xid()];
    refuses(ROWS_ONLY, &parts, Reason::EventMalformed);
}

#[test]
fn rows_beyond_the_bound_are_refused() {
    let policy = FoldPolicy { spill: Arc::new(Stores::bounded(1000)), ..policy() };
    let mut parts = vec![begin(), table_map(1, "t")];
    parts.extend((0..100_000).map(|value| write_rows(1, 0, value)));
    let (units, _, halt) = Fold::new(GtidSet::new(), None, policy.clone()).run(group(1, ROWS_ONLY, &parts));
    assert_eq!((units.len(), halt.unwrap().reason), (0, Reason::BufferExhausted));
    // Filtered rows are not held.
    parts[1] = table_map(1, "skipped");
    parts.extend([write_rows(1, STMT_END, 0), xid()]);
    let (units, _, halt) = Fold::new(GtidSet::new(), None, policy).run(group(1, ROWS_ONLY, &parts));
    assert_eq!((units.len(), halt), (1, None));
}

// Desyncs.

#[test]
fn events_outside_a_transaction_are_refused() {
    for (part, reason) in [
        (begin(), Reason::BeginWithoutGtid),
        (query("XA START X'67',X'',1"), Reason::BeginWithoutGtid),
        (payload(&[begin(), xid()]), Reason::BeginWithoutGtid),
        (query("alter table other.t add x int"), Reason::QueryWithoutGtid),
        (query("SAVEPOINT `s`"), Reason::QueryWithoutGtid),
        (query("XA COMMIT X'67',X'',1"), Reason::QueryWithoutGtid),
        (query("create temporary table t (a int)"), Reason::QueryWithoutGtid),
        (query("insert into t values (1)"), Reason::StatementFormatDml),
        (query("ROLLBACK"), Reason::RollbackInStream),
        (query("vacuum"), Reason::DdlUnparsed),
        (query("COMMIT"), Reason::TerminatorWithoutTransaction),
        (xid(), Reason::TerminatorWithoutTransaction),
        (xa_prepare(true), Reason::TerminatorWithoutTransaction),
        (table_map(1, "t"), Reason::RowsWithoutTransaction),
        (write_rows(1, STMT_END, 1), Reason::RowsWithoutTransaction),
        (partial_update(1), Reason::RowsWithoutTransaction),
        (of_type(t::ROWS_QUERY), Reason::RowsWithoutTransaction),
        (anonymous(), Reason::AnonymousGtid),
        (of_type(t::INCIDENT), Reason::Incident),
        (of_type(t::INTVAR), Reason::StatementFormatDml),
        (of_type(t::WRITE_ROWS_V1), Reason::UnknownEvent),
        (of_type(162), Reason::UnknownEvent),
    ] {
        let halt = halts([part.raw()]);
        assert_eq!((halt.reason, halt.gtid), (reason, None), "event type {}", part.event_type);
    }
}

#[test]
fn events_before_begin_are_refused() {
    for (part, reason) in [
        (xid(), Reason::TerminatorWithoutTransaction),
        (query("COMMIT"), Reason::TerminatorWithoutTransaction),
        (xa_prepare(true), Reason::TerminatorWithoutTransaction),
        (table_map(1, "t"), Reason::RowsWithoutTransaction),
        (write_rows(1, STMT_END, 1), Reason::RowsWithoutTransaction),
        (partial_update(1), Reason::RowsWithoutTransaction),
        (of_type(t::ROWS_QUERY), Reason::RowsWithoutTransaction),
        (query("SAVEPOINT `s`"), Reason::UnsupportedTransactionShape),
        (query("XA END X'67',X'',1"), Reason::UnsupportedTransactionShape),
        (query("create table x (a int) start transaction"), Reason::UnsupportedTransactionShape),
        (query("ROLLBACK"), Reason::RollbackInStream),
        (query("ROLLBACK TO `s`"), Reason::RollbackInStream),
        (query("insert into other.t values (1)"), Reason::StatementFormatDml),
        (query("create table other.x select 1"), Reason::StatementFormatDml),
        (query("vacuum"), Reason::DdlUnparsed),
        (of_type(t::INCIDENT), Reason::Incident),
        (of_type(t::USER_VAR), Reason::StatementFormatDml),
        (of_type(t::DELETE_ROWS_V0), Reason::UnknownEvent),
        (of_type(200), Reason::UnknownEvent),
    ] {
        refuses(STATEMENTS, &[part], reason);
    }
}

#[test]
fn events_that_no_transaction_may_hold_are_refused() {
    for (part, reason) in [
        (begin(), Reason::UnsupportedTransactionShape),
        (query("XA START X'67',X'',1"), Reason::UnsupportedTransactionShape),
        (query("XA END X'67',X'',1"), Reason::UnsupportedTransactionShape),
        (query("XA COMMIT X'67',X'',1"), Reason::UnsupportedTransactionShape),
        (xa_prepare(true), Reason::UnsupportedTransactionShape),
        (query("alter table other.t add x int"), Reason::UnsupportedTransactionShape),
        (query("create table other.x (a int) start transaction"), Reason::UnsupportedTransactionShape),
        (payload(&[begin(), xid()]), Reason::UnsupportedTransactionShape),
        (payload(&[xid()]), Reason::UnsupportedTransactionShape),
        (query("ROLLBACK"), Reason::RollbackInStream),
        (query("ROLLBACK TO `s`"), Reason::RollbackInStream),
        (query("update other.t set a = 1"), Reason::StatementFormatDml),
        (query("create temporary table x (a int)"), Reason::StatementFormatDml),
        (of_type(t::RAND), Reason::StatementFormatDml),
        (of_type(t::BEGIN_LOAD_QUERY), Reason::StatementFormatDml),
        (of_type(t::EXECUTE_LOAD_QUERY), Reason::StatementFormatDml),
        (of_type(t::APPEND_BLOCK), Reason::StatementFormatDml),
        (query("vacuum"), Reason::DdlUnparsed),
        (of_type(t::INCIDENT), Reason::Incident),
        (of_type(t::UPDATE_ROWS_V1), Reason::UnknownEvent),
        (of_type(200), Reason::UnknownEvent),
    ] {
        refuses(STATEMENTS, &[with(&row_items(), part), vec![xid()]].concat(), reason);
    }
}

#[test]
fn a_group_that_is_cut_off_is_dropped_whole() {
    for (part, reason, cut_by_gtid) in [
        (group(2, ROWS_ONLY, &[begin(), xid()]).remove(0), Reason::GtidWithinOpenTransaction, true),
        (anonymous().raw(), Reason::AnonymousGtid, true),
        (rotate().raw(), Reason::TransactionLengthMismatch, false),
        (format_description().raw(), Reason::TransactionLengthMismatch, false),
        (of_type(t::PREVIOUS_GTIDS).raw(), Reason::TransactionLengthMismatch, false),
        (of_type(t::STOP).raw(), Reason::TransactionLengthMismatch, false),
    ] {
        for kept in 1..=4 {
            let mut events = group(1, ROWS_ONLY, &with(&row_items(), xid()));
            events.truncate(kept);
            events.push(part.clone());
            let halt = halts(events);
            assert_eq!((halt.reason, halt.gtid), (reason, Some(gtid(1))), "{cut_by_gtid}");
        }
    }
}

#[test]
fn events_of_another_group_are_refused_though_they_are_as_long() {
    let first = group(1, ROWS_ONLY, &[begin(), table_map(7, "t"), write_rows(7, STMT_END, 1), xid()]);
    let second = group(2, ROWS_ONLY, &[begin(), table_map(7, "t"), write_rows(7, STMT_END, 2), xid()]);
    let moved = [&first[..1], &second[1..]].concat();
    let halt = halts(moved);
    assert_eq!(halt.reason, Reason::TransactionLengthMismatch);
    assert_eq!(halt.gtid, Some(gtid(1)));
}

#[test]
fn a_group_may_lie_across_the_position_where_the_header_starts_anew() {
    let mut events = group(1, ROWS_ONLY, &[begin(), table_map(7, "t"), write_rows(7, STMT_END, 1), xid()]);
    let shift = u32::MAX - events[1].header.log_pos;
    for event in &mut events {
        event.header.log_pos = event.header.log_pos.wrapping_add(shift).wrapping_add(9);
    }
    assert!(events[0].header.log_pos > events[1].header.log_pos, "it starts anew within the group");
    let (units, _, halt) = run(events);
    assert_eq!((units.len(), halt), (1, None));
}

#[test]
fn length_is_checked_on_every_group() {
    for parts in [
        with(&row_items(), xid()),
        with(&row_items(), query("COMMIT")),
        vec![query("alter table t add x int")],
        vec![query("alter table other.t add x int")],
        vec![query("create temporary table t (a int)")],
        vec![begin(), table_map(1, "skipped"), write_rows(1, STMT_END, 1), xid()],
        vec![payload(&with(&row_items(), xid()))],
    ] {
        for error in [-1, 1, 1000] {
            let halt = halts(group_off_by(1, STATEMENTS, &parts, error));
            assert_eq!((halt.reason, halt.gtid), (Reason::TransactionLengthMismatch, Some(gtid(1))));
        }
    }
    // A length that not even the GTID event fits.
    let halt = halts(group_off_by(1, ROWS_ONLY, &[], -1));
    assert_eq!(halt.reason, Reason::TransactionLengthMismatch);
}

/// Announced again it has other flags where it comes by a foreign key.
#[test]
fn a_table_may_be_announced_again_after_the_cache_of_maps_has_started_anew() {
    let map = table_map(1, "t");
    let again = |id: u8, at: usize| {
        let mut again = map.clone();
        again.body[at] ^= id;
        again
    };
    // Filtered, and too much for the cache.
    let large = (10..13).map(|id| {
        let mut large = table_map(id, "other.t");
        large.body.resize(3 << 20, 0);
        large
    });
    let announced: Vec<_> = [begin(), map.clone()].into_iter().chain(large).collect();
    let rows = [write_rows(1, STMT_END, 5), xid()];
    // The flags come after six bytes of the id.
    let unit = commits(ROWS_ONLY, &[&announced[..], &[again(2, 6)], &rows].concat());
    assert!(!unit.is_empty());
    let name = map.body.len() - 1;
    refuses(
        ROWS_ONLY,
        &[&announced[..], &[again(1, name)], &rows].concat(),
        Reason::UnsupportedTransactionShape,
    );
}

#[test]
fn statements_under_a_gtid_that_announces_rows_are_refused() {
    for parts in [
        vec![query("alter table t add x int")],
        vec![query("flush privileges")],
        vec![query("create temporary table t (a int)")],
        vec![begin(), query("create table other.x (a int) start transaction"), xid()],
    ] {
        refuses(ROWS_ONLY, &parts, Reason::UnsupportedTransactionShape);
    }
}

#[test]
fn a_halt_is_terminal() {
    let mut fold = Fold::new(GtidSet::new(), None, policy());
    let halt = fold.step(xid().raw()).unwrap_err();
    for event in group(1, ROWS_ONLY, &with(&row_items(), xid())) {
        assert_eq!(fold.step(event).unwrap_err(), halt);
    }
    assert!(fold.position().is_empty());
}

// What the stream holds besides.

#[test]
fn events_between_groups_are_passed_over() {
    let stream = [
        rotate(),
        format_description(),
        of_type(t::PREVIOUS_GTIDS),
        of_type(t::STOP),
        of_type(t::HEARTBEAT),
        of_type(t::HEARTBEAT_V2),
        ignorable(),
    ];
    let (units, position, halt) = run(stream.iter().map(Part::raw));
    assert_eq!((units.len(), position, halt), (0, GtidSet::new(), None));
}

#[test]
fn heartbeats_in_a_group_do_not_count() {
    let mut events = group(1, ROWS_ONLY, &with(&row_items(), xid()));
    for (at, code) in [(1, t::HEARTBEAT), (3, t::HEARTBEAT_V2)] {
        events.insert(at, of_type(code).raw());
    }
    assert_eq!(run(events).2, None);
}

#[test]
fn ignorable_events_in_a_group_count() {
    let mut parts = with(&row_items(), xid());
    parts.insert(0, ignorable());
    parts.insert(2, of_type(t::ROWS_QUERY));
    parts.insert(4, ignorable());
    assert_eq!(transaction(ROWS_ONLY, &parts).changes.len(), 1);
    let mut events = group(1, ROWS_ONLY, &parts);
    events.remove(1);
    assert_eq!(run(events).2.unwrap().reason, Reason::TransactionLengthMismatch);
}

#[test]
fn savepoints_and_view_changes_change_nothing() {
    let savepoint = || query("SAVEPOINT `s1`");
    let items = row_items();
    let parts = [&items[..], &[savepoint()], &items[1..], &[savepoint(), xid()]].concat();
    assert_eq!(transaction(ROWS_ONLY, &parts).changes.len(), 2);
    let parts = [begin(), of_type(t::VIEW_CHANGE), query("COMMIT")];
    assert!(transaction(STATEMENTS, &parts).changes.is_empty());
}

// CREATE TABLE … SELECT.

#[test]
fn create_table_select_is_a_schema_change_of_its_table_alone() {
    let create = query("CREATE TABLE `t` (\n  `id` int\n) START TRANSACTION");
    let with_rows = [begin(), create.clone(), table_map(1, "t"), write_rows(1, STMT_END, 1), xid()];
    for parts in [&with_rows[..], &[begin(), create.clone(), xid()]] {
        let Unit::SchemaChange(change) = commits(STATEMENTS, parts) else { panic!("no schema change") };
        assert_eq!(change.statement.kind, DdlKind::CreateTable);
    }
    let elsewhere = [begin(), create, table_map(1, "u"), write_rows(1, STMT_END, 1), xid()];
    refuses(STATEMENTS, &elsewhere, Reason::UnsupportedTransactionShape);
    let other = query("CREATE TABLE `skipped` (\n  `id` int\n) START TRANSACTION");
    let rows = [table_map(1, "skipped"), write_rows(1, STMT_END, 1)];
    let parts = [&[begin(), other.clone()][..], &rows, &[xid()]].concat();
    assert!(transaction(STATEMENTS, &parts).changes.is_empty());
    assert!(transaction(STATEMENTS, &[begin(), other.clone(), xid()]).changes.is_empty());
    // Its grammar ends in Xid, and it comes first or not at all.
    let shape = Reason::UnsupportedTransactionShape;
    refuses(STATEMENTS, &[begin(), other.clone(), query("COMMIT")], shape);
    refuses(STATEMENTS, &[&[begin()][..], &rows, &[other.clone(), xid()]].concat(), shape);
    refuses(STATEMENTS, &[begin(), other.clone(), other, xid()], shape);
}

// Temporary tables.

/// The kinds of schema changes that come out of statements, each a group of its own.
fn changes_of(statements: &[Part]) -> Vec<Option<DdlKind>> {
    let groups =
        statements.iter().zip(1..).flat_map(|(part, gno)| group(gno, STATEMENTS, std::slice::from_ref(part)));
    let (units, _, halt) = run(groups);
    assert_eq!(halt, None);
    let kind = |unit: &Unit| match unit {
        Unit::SchemaChange(change) => Some(change.statement.kind),
        _ => None,
    };
    units.iter().map(kind).collect()
}

#[test]
fn what_a_session_does_to_its_temporary_table_is_no_schema_change() {
    let alter = Some(DdlKind::AlterTable);
    let mine = |text| query_within(1, text);
    assert_eq!(
        changes_of(&[
            mine("create temporary table t (id int)"),
            mine("alter table t add x int"),
            query_of(2, "alter table t add x int"),
            query_of(1, "alter table other.t add x int"),
            mine("truncate t"),
            mine("create index i on t (x)"),
            mine("alter table t rename u"),
            mine("alter table t add x int"),
            mine("alter table u add x int"),
            mine("drop table t"),
            mine("drop temporary table if exists u"),
            mine("alter table u add x int"),
        ]),
        [None, None, alter, None, None, None, None, alter, None, Some(DdlKind::DropTable), None, alter]
    );
}

/// The stream may have begun after the temporary table, or the table has CONNECTION_ID() in a default.
#[test]
fn what_may_be_about_a_temporary_table_asks_for_a_copy() {
    for text in ["alter table t add x int", "truncate t", "create index i on t (x)", "drop index i on t"] {
        let Unit::SchemaChange(change) = commits(STATEMENTS, &[query_within(1, text)]) else {
            panic!("passed over: {text}")
        };
        assert_eq!(
            (change.statement.kind, &change.statement.content),
            (DdlKind::AlterTable, &Content::Names)
        );
    }
    // It hides no table from a statement that is not marked.
    let created = query_within(1, "create temporary table t (id int)");
    let changes =
        changes_of(&[created, query_of(1, "truncate t"), query_within(1, "create table u (id int)")]);
    assert_eq!(changes, [None, Some(DdlKind::TruncateTable), Some(DdlKind::CreateTable)]);
}

#[test]
fn a_restart_of_the_server_ends_temporary_tables() {
    let create = || group(1, STATEMENTS, &[query_within(1, "create temporary table t (id int)")]);
    let alter = || group(2, STATEMENTS, &[query_within(1, "alter table t add x int")]);
    for (created, expected) in [(0, true), (1_700_000_000, false)] {
        let description = format_description_of(created).raw();
        let (units, _, halt) = run([create(), vec![description], alter()].concat());
        assert_eq!(halt, None);
        assert_eq!(matches!(units[1], Unit::Transaction(_)), expected);
    }
}

// XA.

#[test]
fn two_phase_xa_is_refused() {
    let shape = Reason::UnsupportedTransactionShape;
    let start = || query("XA START X'67',X'',1");
    let end = || query("XA END X'67',X'',1");
    let rows = [table_map(1, "t"), write_rows(1, STMT_END, 1)];
    let body = [&[start()][..], &rows, &[end()]].concat();
    refuses(ROWS_ONLY, &with(&body, xa_prepare(false)), shape);
    refuses(STATEMENTS, &[query("XA COMMIT X'67',X'',1")], shape);
    refuses(STATEMENTS, &[query("XA ROLLBACK X'67',X'',1")], shape);
    refuses(ROWS_ONLY, &[payload(&with(&body, xa_prepare(false)))], shape);
    // Shapes that do not exist.
    refuses(ROWS_ONLY, &with(&body, xid()), shape);
    refuses(ROWS_ONLY, &with(&body, query("COMMIT")), shape);
    refuses(ROWS_ONLY, &with(&body, table_map(1, "t")), shape);
    refuses(ROWS_ONLY, &[start(), xid()], shape);
    refuses(ROWS_ONLY, &[start(), query("COMMIT")], shape);
    refuses(ROWS_ONLY, &[start(), xa_prepare(true)], shape);
    refuses(ROWS_ONLY, &[start(), table_map(1, "t"), write_rows(1, 0, 1), end()], shape);
    let savepoint = query("SAVEPOINT `s`");
    let parts = [start(), savepoint, end(), xa_prepare(true)];
    assert!(transaction(ROWS_ONLY, &parts).changes.is_empty());
}

#[test]
fn xa_is_passed_over_by_a_reader_of_schema_changes() {
    let policy = FoldPolicy { xa: XaPolicy::PassOver, ..policy() };
    let rows = [table_map(1, "t"), write_rows(1, STMT_END, 1)];
    let prepared = [&[xa("START", b'a')][..], &rows, &[xa("END", b'a'), xa_prepare_of(b'a', false)]].concat();
    let events = [
        group(1, STATEMENTS, &[xa("COMMIT", b'z')]),
        group(2, ROWS_ONLY, &prepared),
        group(3, ROWS_ONLY, &prepared),
        group(4, STATEMENTS, &[xa("ROLLBACK", b'a')]),
        group(5, STATEMENTS, &[query("alter table t add x int")]),
    ];
    let (units, position, halt) = Fold::new(GtidSet::new(), None, policy).run(events.concat());
    assert_eq!((halt, position.len()), (None, 5));
    assert!(matches!(units.last(), Some(Unit::SchemaChange(_))));
}

// Foreign keys with actions.

fn with_cascades(exist: bool, logged: bool, events: Vec<RawEvent>) -> Option<Halt> {
    let policy = FoldPolicy { cascades: Cascades { exist, logged }, ..policy() };
    Fold::new(GtidSet::new(), None, policy).run(events).2
}

#[test]
fn rows_of_a_server_that_logs_no_cascades_are_refused_where_there_are_any() {
    const SQL_LAYER: u16 = 0x10;
    const UNCHECKED: u16 = 0x2;
    let of = |table: &str, rows: Part| group(1, ROWS_ONLY, &[begin(), table_map(1, table), rows, xid()]);
    let update = |flags| update_rows(1, STMT_END | flags, 0b11, 0b11);
    for table in ["t", "skipped"] {
        let halt = with_cascades(true, true, of(table, update(0))).expect("a halt");
        assert_eq!((halt.reason, halt.gtid), (Reason::CascadeNotLogged, Some(gtid(1))));
        let delete = rows_event(1, STMT_END, Some(&image(1, 1)), None);
        assert!(with_cascades(true, true, of(table, delete)).is_some());
        assert_eq!(with_cascades(true, true, of(table, update(SQL_LAYER))), None);
        assert_eq!(with_cascades(true, true, of(table, update(UNCHECKED))), None);
        assert_eq!(with_cascades(true, true, of(table, write_rows(1, STMT_END, 1))), None);
        assert_eq!(with_cascades(false, true, of(table, update(0))), None);
    }
}

#[test]
fn a_cascade_that_a_statement_adds_counts_from_there() {
    let add = |action: &str| {
        format!("alter table t add constraint f foreign key (v) references p (id) {action}, add x int")
    };
    let update = [begin(), table_map(1, "t"), update_rows(1, STMT_END, 0b11, 0b11), xid()];
    let then_update =
        |text: &str| [group(1, STATEMENTS, &[query(text)]), group(2, ROWS_ONLY, &update)].concat();
    let reason = |halt: Option<Halt>| halt.map(|halt| (halt.reason, halt.gtid));
    for action in ["on delete cascade", "ON UPDATE/**/SET NULL", "on delete restrict on update set\ndefault"]
    {
        let text = add(action);
        let added = Some((Reason::CascadeNotLogged, Some(gtid(1))));
        assert_eq!(reason(with_cascades(false, false, then_update(&text))), added, "{action}");
        let used = Some((Reason::CascadeNotLogged, Some(gtid(2))));
        assert_eq!(reason(with_cascades(false, true, then_update(&text))), used, "{action}");
        let create = format!("create table t (id int primary key, v int references p (id) {action})");
        assert_eq!(reason(with_cascades(false, false, then_update(&create))), added, "{action}");
        let elsewhere = text.replace("table t", "table other.t");
        assert_eq!(reason(with_cascades(false, false, then_update(&elsewhere))), None, "{action}");
    }
    for harmless in [
        &*add("on delete restrict on update no action"),
        "create table t (id timestamp on update current_timestamp, c text comment 'on delete cascade')",
        "alter table t alter column v set default null, comment 'on update set null'",
        "drop table t cascade",
    ] {
        assert_eq!(reason(with_cascades(false, false, then_update(harmless))), None, "{harmless}");
    }
}

// Compressed transactions.

#[test]
fn payloads_are_opened() {
    let rows = [with(&row_items(), of_type(t::ROWS_QUERY)), row_items()[1..].to_vec()].concat();
    let committed = transaction(ROWS_ONLY, &[payload(&with(&rows, xid()))]);
    assert_eq!(committed.changes.len(), 2);
    assert_eq!(changes(&committed)[1].images, image(5, 5));
    let mut xa = rows;
    xa[0] = query("XA START X'67',X'',1");
    xa.extend([query("XA END X'67',X'',1"), xa_prepare(true)]);
    assert_eq!(transaction(ROWS_ONLY, &[payload(&xa)]).changes.len(), 2);
}

#[test]
fn invalid_payloads_are_refused() {
    let whole = with(&row_items(), xid());
    let invalid = Reason::CompressedPayloadInvalid;
    refuses(ROWS_ONLY, &[payload_of(b"not zstd at all", 100)], invalid);
    refuses(ROWS_ONLY, &[payload(&row_items())], invalid);
    refuses(ROWS_ONLY, &[payload(&[])], invalid);
    refuses(ROWS_ONLY, &[payload(&with(&whole, begin()))], invalid);
    for inner in [
        anonymous(),
        rotate(),
        of_type(t::STOP),
        of_type(t::HEARTBEAT),
        of_type(t::PREVIOUS_GTIDS),
        payload(&[begin(), xid()]),
    ] {
        refuses(ROWS_ONLY, &[payload(&[begin(), inner, xid()])], invalid);
    }
    // The grammar holds inside as well.
    refuses(ROWS_ONLY, &[payload(&[begin(), write_rows(1, STMT_END, 1), xid()])], Reason::UnmappedTableId);
    refuses(ROWS_ONLY, &[payload(&[query("alter table t add x int")])], Reason::UnsupportedTransactionShape);
    refuses(ROWS_ONLY, &[payload(&[begin(), query("delete from t"), xid()])], Reason::StatementFormatDml);
}

#[test]
fn payloads_are_inflated_under_the_bound() {
    let mut parts = vec![begin(), table_map(1, "t")];
    parts.extend((0..100_000).map(|_| write_rows(1, 0, 7)));
    parts.extend([write_rows(1, STMT_END, 7), xid()]);
    refuses(ROWS_ONLY, &[payload(&parts)], Reason::BufferExhausted);
    parts[1] = table_map(1, "skipped");
    assert!(transaction(ROWS_ONLY, &[payload(&parts)]).changes.is_empty());
}

// Resume.

fn applied(gno: u64, events: &[RawEvent]) -> Overlap {
    let (original_commit_micros, immediate_commit_micros) = commit_micros(gno);
    let transaction_length = events.iter().map(|event| u64::from(event.header.event_length)).sum();
    let fingerprint = Fingerprint { original_commit_micros, immediate_commit_micros, transaction_length };
    Overlap { gtid: gtid(gno), fingerprint }
}

fn resumed(overlap: Overlap) -> Fold {
    Fold::new([&gtid(1), &gtid(2), &overlap.gtid].into_iter().collect(), Some(overlap), policy())
}

#[test]
fn the_overlapped_group_is_verified_and_dropped_uninterpreted() {
    for parts in [
        with(&row_items(), xid()),
        vec![query("alter table t add x int")],
        vec![query("XA COMMIT X'67',X'',1")],
        vec![query("XA START X'67',X'',1"), query("XA END X'67',X'',1"), xa_prepare(false)],
        vec![payload_of(b"not zstd at all", 100)],
        vec![query("ROLLBACK"), of_type(200)],
    ] {
        let events = group(2, STATEMENTS, &parts);
        let mut fold = resumed(applied(2, &events));
        let position = fold.position().clone();
        let last = events.len() - 1;
        for (at, event) in events.into_iter().enumerate() {
            let step = fold.step(event).unwrap();
            assert_eq!(matches!(step, Step::OverlapVerified), at == last, "{step:?}");
            assert!(!matches!(step, Step::Unit(_)));
        }
        assert_eq!(*fold.position(), position);
        let (units, _, halt) = fold.run(group(3, ROWS_ONLY, &with(&row_items(), xid())));
        assert_eq!((units.len(), halt), (1, None));
    }
}

#[test]
fn another_transaction_under_the_overlapped_gtid_is_a_diverged_history() {
    type Change = fn(&mut Fingerprint);
    let changes: [Change; 3] = [
        |applied| applied.original_commit_micros += 1,
        |applied| applied.immediate_commit_micros += 1,
        |applied| applied.transaction_length += 1,
    ];
    let events = group(2, ROWS_ONLY, &with(&row_items(), xid()));
    for change in changes {
        let mut overlap = applied(2, &events);
        change(&mut overlap.fingerprint);
        let (units, _, halt) = resumed(overlap).run(events.clone());
        assert!(units.is_empty());
        assert_eq!(halt.map(|halt| halt.reason), Some(Reason::SourceHistoryDiverged));
    }
}

#[test]
fn another_transaction_under_the_gtid_of_a_landmark_is_a_diverged_history() {
    let landmark = |gno, late| {
        let mut fingerprint = applied(gno, &group(gno, ROWS_ONLY, &with(&row_items(), xid()))).fingerprint;
        fingerprint.original_commit_micros += u64::from(late);
        Landmark { gtid: gtid(gno), server: None, fingerprint: Some(fingerprint) }
    };
    let here = *gtid(1).uuid();
    let elsewhere = "0a0b0c0d-0102-0304-0506-070809101112".parse().unwrap();
    let longer = |gno, server| {
        let mut landmark = landmark(gno, false);
        landmark.fingerprint.as_mut().unwrap().transaction_length += 1;
        Landmark { server: Some(server), ..landmark }
    };
    let purged = |gno, server| Landmark { server: Some(server), fingerprint: None, ..landmark(gno, false) };
    let events = [1, 2, 3].map(|gno| group(gno, ROWS_ONLY, &with(&row_items(), xid()))).concat();
    // The second of one GTID is that of a table copied from another history.
    for (landmarks, before) in [
        (vec![landmark(1, false), landmark(3, false)], None),
        (vec![landmark(1, false), landmark(3, true)], Some(2)),
        (vec![landmark(2, true), landmark(2, false)], Some(1)),
        (vec![landmark(9, true)], None),
        // The length tells on the same server only, and so does that it had purged it.
        (vec![longer(2, here)], Some(1)),
        (vec![longer(2, elsewhere)], None),
        (vec![purged(2, here)], Some(1)),
        (vec![purged(2, elsewhere)], None),
    ] {
        let fold = Fold::new(GtidSet::new(), None, policy()).with_landmarks(here, landmarks);
        let (units, position, halt) = fold.run(events.clone());
        let passed = before.unwrap_or(3);
        assert_eq!((units.len() as u64, position.len()), (passed, u128::from(passed)));
        let halted = halt.map(|halt| (halt.reason, halt.gtid));
        let expected = before.map(|_| (Reason::SourceHistoryDiverged, Some(gtid(passed + 1))));
        assert_eq!(halted, expected);
    }
}

#[test]
fn the_overlapped_group_may_come_late() {
    let overlapped = group(2, ROWS_ONLY, &[begin(), xid()]);
    let mut fold = resumed(applied(2, &overlapped));
    for event in group(5, ROWS_ONLY, &[begin()]) {
        assert!(matches!(fold.step(event), Ok(Step::Continue)));
    }
    drop(fold);
    let mut fold = resumed(applied(2, &overlapped));
    let (before, after) = (group(5, ROWS_ONLY, &[begin(), xid()]), group(6, ROWS_ONLY, &[begin(), xid()]));
    let (mut steps, mut lacking) = (Vec::new(), Vec::new());
    let asked = GtidSet::from_iter([&gtid(2), &gtid(5)]);
    for event in [before, overlapped, after].concat() {
        steps.push(fold.step(event).unwrap());
        lacking.push(fold.lacks(&asked).len());
    }
    let pending = |step: &Step| match step {
        Step::Unit(Unit::Transaction(transaction)) => Some(transaction.overlap_pending),
        _ => None,
    };
    assert!(matches!(steps[5], Step::OverlapVerified), "{steps:?}");
    // Until it comes, a resume has to compare it.
    let units: Vec<_> = steps.iter().map(pending).collect();
    assert_eq!(units, [None, None, Some(true), None, None, None, None, None, Some(false)]);
    assert_eq!(lacking, [2, 2, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_processed_group_is_dropped() {
    let twice = group(1, ROWS_ONLY, &with(&row_items(), xid()));
    let ddl = group(1, STATEMENTS, &[query("drop table t")]);
    let next = group(2, ROWS_ONLY, &with(&row_items(), xid()));
    let (units, position, halt) = run([twice.clone(), twice, ddl, next].concat());
    assert_eq!((units.len(), halt), (2, None));
    assert_eq!(position.len(), 2);
}

#[test]
fn a_dropped_group_that_is_cut_off_is_a_desync() {
    let events = group(2, ROWS_ONLY, &with(&row_items(), xid()));
    for (cut, reason) in [
        (group(3, ROWS_ONLY, &[begin(), xid()]).remove(0), Reason::GtidWithinOpenTransaction),
        (rotate().raw(), Reason::TransactionLengthMismatch),
        (query(&"x".repeat(1000)).raw(), Reason::TransactionLengthMismatch),
    ] {
        let stream = events[..3].iter().cloned().chain([cut]);
        let (units, _, halt) = resumed(applied(2, &events)).run(stream);
        let halt = halt.unwrap();
        assert_eq!((units.len(), halt.reason, halt.gtid), (0, reason, Some(gtid(2))));
    }
}

// Nothing of the data shows.

#[test]
fn debug_output_and_halts_hold_no_data() {
    let mut fold = Fold::new(GtidSet::new(), None, policy());
    for event in group(1, ROWS_ONLY, &row_items()) {
        fold.step(event).unwrap();
    }
    let marker = format!("{:?}", Bytes::from(image(5, 5)));
    assert!(!format!("{fold:?}").contains(marker.trim_matches(['b', '"'])));
    let committed = commits(ROWS_ONLY, &with(&row_items(), xid()));
    assert!(!format!("{committed:?}").contains(marker.trim_matches(['b', '"'])));
    let secrets = ["vacuum 's3cret'", "insert into t values ('s3cret')", "alter table t comment 's3cret"];
    for text in secrets {
        let halt = halts(group(1, STATEMENTS, &[query(text)]));
        assert!(!format!("{halt:?}").contains("s3cret"), "{halt:?}");
    }
}
