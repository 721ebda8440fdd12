use bytes::Bytes;
use proptest::prelude::*;

use super::fixtures;
use crate::binlog::event::{
    ChecksumAlgorithm, Envelope, Event, EventHeader, GtidEvent, HEADER_LENGTH, QueryEvent, RawEvent,
    RowsEvent, XaPrepare, event_type, type_name,
};
use crate::binlog::reader::Reader;
use crate::fold::unit::RowsKind;
use crate::halt::Reason;

fn raw(event_type: u8, flags: u16, body: &[u8]) -> RawEvent {
    let header = EventHeader {
        timestamp: 0,
        event_type,
        server_id: 1,
        event_length: (HEADER_LENGTH + body.len()) as u32,
        log_pos: 99,
        flags,
    };
    RawEvent { header, body: Bytes::copy_from_slice(body) }
}

fn parse(event_type: u8, body: &[u8]) -> Option<Event<'static>> {
    Event::parse(Box::leak(Box::new(raw(event_type, 0, body)))).ok()
}

fn gtids(scenario: &str) -> Vec<GtidEvent> {
    let events = fixtures::parsed(scenario).into_iter();
    events.filter_map(|event| if let Event::Gtid(gtid) = event { Some(gtid) } else { None }).collect()
}

fn queries(scenario: &str) -> Vec<QueryEvent<'static>> {
    let events = fixtures::parsed(scenario).into_iter();
    events.filter_map(|event| if let Event::Query(query) = event { Some(query) } else { None }).collect()
}

fn query_starting<'a>(queries: &[QueryEvent<'a>], start: &str) -> QueryEvent<'a> {
    *queries.iter().find(|query| query.statement.starts_with(start.as_bytes())).unwrap()
}

fn rows(scenario: &str) -> Vec<RowsEvent<'static>> {
    let events = fixtures::parsed(scenario).into_iter();
    events.filter_map(|event| if let Event::Rows(rows) = event { Some(rows) } else { None }).collect()
}

/// The server's own arithmetic: each group is as long as its GTID event says.
#[test]
fn lengths_of_captured_groups_add_up() {
    let mut groups = 0;
    for scenario in fixtures::scenarios() {
        let mut open: Option<(u64, u64)> = None;
        for event in fixtures::raw(&scenario) {
            let parsed = Event::parse(&event).unwrap();
            let ends = matches!(parsed, Event::Gtid(_) | Event::Rotate(_) | Event::FormatDescription(_));
            if let (true, Some((announced, seen))) = (ends, open) {
                assert_eq!(announced, seen, "group {groups} of {scenario}");
                groups += 1;
                open = None;
            }
            let length = u64::from(event.header.event_length);
            match parsed {
                Event::Gtid(gtid) => open = Some((gtid.transaction_length, length)),
                _ => open = open.map(|(announced, seen)| (announced, seen + length)),
            }
        }
    }
    assert!(groups > 80, "only {groups} groups");
}

#[test]
fn no_captured_event_is_unknown() {
    for scenario in fixtures::scenarios() {
        for event in fixtures::raw(&scenario) {
            let parsed = Event::parse(&event).unwrap();
            assert!(!matches!(parsed, Event::Unknown(_) | Event::Ignorable(_) | Event::ObsoleteRows(_)));
            assert_ne!(type_name(event.header.event_type), "unknown");
        }
    }
}

#[test]
fn format_description_says_version_and_checksum() {
    let seen: Vec<_> = fixtures::parsed("no-checksum")
        .into_iter()
        .filter_map(|event| if let Event::FormatDescription(fde) = event { Some(fde) } else { None })
        .collect();
    assert!(seen.iter().all(|fde| fde.server_version.starts_with("9.7.4")));
    let checksums: Vec<_> = seen.iter().map(|fde| fde.checksum).collect();
    assert_eq!(checksums, [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::None, ChecksumAlgorithm::Crc32]);
}

#[test]
fn rotate_names_the_next_file() {
    let rotates: Vec<_> = fixtures::parsed("gtids")
        .into_iter()
        .filter_map(|event| if let Event::Rotate(rotate) = event { Some(rotate) } else { None })
        .collect();
    let [rotate] = &rotates[..] else { panic!("{} rotates", rotates.len()) };
    assert_eq!((rotate.file.as_str(), rotate.position, rotate.artificial), ("binlog.000002", 4, false));
}

#[test]
fn gtids_plain_and_tagged() {
    let gtids = gtids("gtids");
    let texts: Vec<_> = gtids.iter().map(|event| event.gtid.to_string()).collect();
    let source = texts[0].split(':').next().unwrap().to_owned();
    assert_eq!(
        texts,
        [
            format!("{source}:1"),
            format!("{source}:first_tag:1"),
            "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaff:other:9223372036854775806".to_owned(),
            "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaff:1000".to_owned(),
            format!("{source}:2"),
            "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaff:other:77".to_owned(),
        ]
    );
    let flags: Vec<_> = gtids.iter().map(|event| event.flags & GtidEvent::MAY_HAVE_STATEMENTS).collect();
    assert_eq!(flags, [1, 0, 0, 0, 0, 0]);
    for (index, event) in gtids.iter().enumerate() {
        assert_eq!(event.sequence_number, index as i64 + 1);
        assert!(event.last_committed < event.sequence_number);
        assert!(event.immediate_commit_micros > 1_700_000_000_000_000);
        let kept = if index >= 4 { 1_500_000_000_000_001 } else { event.immediate_commit_micros };
        assert_eq!(event.original_commit_micros, kept, "GTID {index}");
    }
}

/// The fixed part of a GTID event up to the commit timestamps.
fn gtid_head() -> Vec<u8> {
    let mut body = vec![1];
    body.extend([0xaa; 16]);
    body.extend(5_u64.to_le_bytes());
    body.push(2);
    body.extend(3_i64.to_le_bytes());
    body.extend(4_i64.to_le_bytes());
    body
}

#[test]
fn gtid_accepts_what_releases_append() {
    let mut body = gtid_head();
    body.extend([1, 0, 0, 0, 0, 0, 0]);
    body.extend([200]);
    for appended in [&b""[..], &[1, 2, 3, 4], &[1; 12], &[7; 40]] {
        let whole = [&body[..], appended].concat();
        let Some(Event::Gtid(gtid)) = parse(event_type::GTID, &whole) else { panic!("refused") };
        assert_eq!((gtid.transaction_length, gtid.immediate_commit_micros), (200, 1));
        assert_eq!(gtid.original_commit_micros, 1);
    }
}

#[test]
fn gtid_with_two_timestamps() {
    let mut body = gtid_head();
    body.extend([9, 0, 0, 0, 0, 0, 0x80]);
    body.extend([8, 0, 0, 0, 0, 0, 0]);
    body.extend([0xfc, 0x00, 0x10]);
    let Some(Event::Gtid(gtid)) = parse(event_type::GTID, &body) else { panic!("refused") };
    assert_eq!((gtid.immediate_commit_micros, gtid.original_commit_micros), (9, 8));
    assert_eq!(gtid.transaction_length, 4096);
}

/// Behind the length lie the versions of the servers, in which a set uppermost bit says that another one
/// follows, and under Group Replication the ticket of a group commit. The group's length counts them.
#[test]
fn gtid_with_server_versions_and_the_ticket_of_a_group_commit() {
    let (immediate, original) = (90_704_u32, 80_036_u32);
    let one = immediate.to_le_bytes().to_vec();
    let two = [(immediate | 1 << 31).to_le_bytes(), original.to_le_bytes()].concat();
    for versions in [one, two] {
        for ticket in [None, Some(1_u64), Some(u64::MAX)] {
            let mut body = gtid_head();
            body.extend([9, 0, 0, 0, 0, 0, 0x80]);
            body.extend([8, 0, 0, 0, 0, 0, 0]);
            body.extend([0xfd, 0x00, 0x00, 0x10]);
            body.extend(&versions);
            body.extend(ticket.iter().flat_map(|ticket| ticket.to_le_bytes()));
            let Some(Event::Gtid(gtid)) = parse(event_type::GTID, &body) else { panic!("refused") };
            assert_eq!(gtid.transaction_length, 1 << 20, "{ticket:?}");
            assert_eq!((gtid.immediate_commit_micros, gtid.original_commit_micros), (9, 8));
            assert_eq!((gtid.last_committed, gtid.sequence_number), (3, 4));
        }
    }
}

#[test]
fn gtid_out_of_range_or_without_clock_is_malformed() {
    for gno in [0, i64::MAX as u64, u64::MAX] {
        let mut body = gtid_head();
        body[17..25].copy_from_slice(&gno.to_le_bytes());
        body.extend([1, 0, 0, 0, 0, 0, 0, 200]);
        assert_eq!(parse(event_type::GTID, &body), None);
    }
    assert_eq!(parse(event_type::GTID, &gtid_head()[..25]), None);
}

fn varint(value: u64) -> Vec<u8> {
    let width = (1..9).find(|width| value < 1 << (7 * width)).unwrap_or(9);
    if width == 9 {
        return [&[0xff][..], &value.to_le_bytes()].concat();
    }
    let ones = (1_u64 << (width - 1)) - 1;
    (value << width | ones).to_le_bytes()[..width].to_vec()
}

/// A GTID_TAGGED of the given fields.
fn tagged(last_non_ignorable: u64, fields: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let tail: Vec<u8> = [varint(last_non_ignorable)]
        .into_iter()
        .chain(fields.iter().flat_map(|(id, value)| [varint(*id), value.clone()]))
        .flatten()
        .collect();
    // Version and size take two or three bytes themselves.
    let size =
        (2..4).map(|head| head + tail.len()).find(|size| size - tail.len() == 1 + varint(*size as u64).len());
    [varint(1), varint(size.unwrap() as u64), tail].concat()
}

fn known_fields() -> Vec<(u64, Vec<u8>)> {
    vec![
        (0, varint(1)),
        (1, [0xab; 16].iter().flat_map(|byte| varint(*byte)).collect()),
        (2, varint(5 << 1)),
        (3, [varint(3), b"tag".to_vec()].concat()),
        (4, varint(3 << 1)),
        (5, varint(4 << 1)),
        (6, varint(1_700_000_000_000_000)),
        (8, varint(200)),
    ]
}

#[test]
fn tagged_gtid_fields() {
    let Some(Event::Gtid(gtid)) = parse(event_type::GTID_TAGGED, &tagged(8, &known_fields())) else {
        panic!("refused")
    };
    assert_eq!(gtid.gtid.to_string(), "abababab-abab-abab-abab-abababababab:tag:5");
    assert_eq!((gtid.flags, gtid.last_committed, gtid.sequence_number), (1, 3, 4));
    assert_eq!(gtid.original_commit_micros, gtid.immediate_commit_micros);
    assert_eq!(gtid.transaction_length, 200);
}

#[test]
fn tagged_gtid_with_server_versions_and_the_ticket_of_a_group_commit() {
    for ticket in [1, 1 << 40, u64::MAX] {
        let mut fields = known_fields();
        fields.insert(7, (7, varint(1_600_000_000_000_000)));
        fields.extend([(9, varint(90_704)), (10, varint(80_036)), (11, varint(ticket))]);
        let Some(Event::Gtid(gtid)) = parse(event_type::GTID_TAGGED, &tagged(11, &fields)) else {
            panic!("refused with ticket {ticket}")
        };
        assert_eq!(gtid.gtid.to_string(), "abababab-abab-abab-abab-abababababab:tag:5");
        assert_eq!(gtid.original_commit_micros, 1_600_000_000_000_000);
        assert_eq!((gtid.sequence_number, gtid.transaction_length), (4, 200));
        // A value that is cut off is not taken for the end.
        let mut short = fields.clone();
        short[11].1.pop();
        let parsed = parse(event_type::GTID_TAGGED, &tagged(11, &short));
        assert_eq!(parsed, None, "ticket {ticket} without its last byte");
    }
}

#[test]
fn tagged_gtid_skips_unknown_fields_that_may_be_ignored() {
    let mut fields = known_fields();
    fields.extend([(11, varint(9)), (12, vec![0xff; 5]), (13, varint(1))]);
    assert!(parse(event_type::GTID_TAGGED, &tagged(8, &fields)).is_some());
    assert_eq!(parse(event_type::GTID_TAGGED, &tagged(12, &fields)), None, "field 12 must be known");
}

#[test]
fn tagged_gtid_needs_its_fields() {
    for missing in 0..known_fields().len() {
        let mut fields = known_fields();
        fields.remove(missing);
        assert_eq!(parse(event_type::GTID_TAGGED, &tagged(8, &fields)), None, "without field {missing}");
    }
    let mut newer = tagged(8, &known_fields());
    newer[0] = 4; // version 2 of the format
    assert_eq!(parse(event_type::GTID_TAGGED, &newer), None);
}

proptest! {
    #[test]
    fn variable_length_integers_round_trip(value: u64, shift in 0..64_u32) {
        let value = value >> shift;
        let bytes = varint(value);
        let mut reader = Reader::new("test", &bytes);
        prop_assert_eq!(reader.varint(), Ok(value));
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn signed_variable_length_integers_round_trip(value: i64, shift in 0..64_u32) {
        let value = value >> shift;
        let bytes = varint(((value << 1) ^ (value >> 63)) as u64);
        prop_assert_eq!(Reader::new("test", &bytes).signed_varint(), Ok(value));
    }
}

#[test]
fn query_carries_the_session() {
    let queries = queries("statements");
    let create = query_starting(&queries, "CREATE TABLE \"t\"");
    const ANSI_QUOTES: u64 = 4;
    const NO_BACKSLASH_ESCAPES: u64 = 0x10_0000;
    assert_eq!(create.sql_mode, Some(ANSI_QUOTES | NO_BACKSLASH_ESCAPES));
    assert_eq!(create.default_db, b"s");
    assert_eq!((create.client_charset, create.connection_collation), (Some(5), Some(5)));
    assert_eq!(create.explicit_defaults_for_timestamp, Some(false));
    assert_eq!(create.time_zone, Some(&b"+05:30"[..]));
    assert_eq!(create.error_code, 0);
    // The text is in the client's character set.
    assert!(create.statement.ends_with(b"COMMENT 'caf\xe9'"));
}

#[test]
fn query_has_its_database_and_its_text() {
    let queries = queries("statements");
    let create = query_starting(&queries, "CREATE TABLE s2.u");
    assert_eq!(create.default_db, b"s");
    let select = query_starting(&queries, "CREATE TABLE `s`.`c`");
    assert_eq!(select.default_db, b"s2");
    assert!(select.statement.ends_with(b"START TRANSACTION"));
    assert_eq!(query_starting(&queries, "BEGIN").statement, b"BEGIN");
    assert_eq!(query_starting(&queries, "SAVEPOINT").statement, b"SAVEPOINT `x y`");
    assert_eq!(query_starting(&queries, "COMMIT").statement, b"COMMIT");
}

/// A QUERY of the given status variables with database `db` and statement `X`.
fn query(status: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 8];
    body.push(2);
    body.extend([0, 0]);
    body.extend((status.len() as u16).to_le_bytes());
    body.extend(status);
    body.extend(b"db\0X");
    body
}

#[test]
fn every_status_variable_is_read_by_its_length() {
    let variables: [&[u8]; 22] = [
        &[0, 1, 2, 3, 4],
        &[2, 3, b's', b't', b'd', 0],
        &[3, 1, 0, 1, 0],
        &[4, 8, 0, 5, 0, 9, 0],
        &[5, 3, b'U', b'T', b'C'],
        &[6, 3, b's', b't', b'd'],
        &[7, 1, 0],
        &[8, 45, 0],
        &[9, 1, 2, 3, 4, 5, 6, 7, 8],
        &[10, 1, 2, 3, 4],
        &[11, 1, b'u', 2, b'h', b'h'],
        &[12, 2, b'a', 0, b'b', b'c', 0],
        &[12, 254],
        &[13, 1, 2, 3],
        &[16, 1],
        &[17, 7, 0, 0, 0, 0, 0, 0, 0],
        &[18, 46, 0],
        &[19, 1],
        &[20, 1],
        &[21, 1],
        &[12, 0],
        &[5, 0],
    ];
    for variable in variables {
        // The SQL mode behind it shows that the variable's length was right.
        let status = [variable, &[1, 4, 0, 0, 0, 0, 0, 0, 0]].concat();
        let Some(Event::Query(query)) = parse(event_type::QUERY, &query(&status)) else {
            panic!("refused {}", variable[0])
        };
        assert_eq!(query.sql_mode, Some(4), "behind variable {}", variable[0]);
        assert_eq!((query.default_db, query.statement), (&b"db"[..], &b"X"[..]));
        for cut in 1..variable.len() {
            assert_eq!(parse(event_type::QUERY, &self::query(&variable[..cut])), None, "cut {}", variable[0]);
        }
    }
}

#[test]
fn an_unknown_status_variable_ends_the_reading() {
    let status = [&[1, 4, 0, 0, 0, 0, 0, 0, 0, 99][..], &[1, 9, 0, 0, 0, 0, 0, 0, 0]].concat();
    let Some(Event::Query(query)) = parse(event_type::QUERY, &query(&status)) else { panic!("refused") };
    assert_eq!(query.sql_mode, Some(4));
    assert_eq!(query.statement, b"X");
}

#[test]
fn xa_prepare_of_both_kinds() {
    let seen: Vec<_> = fixtures::parsed("xa")
        .into_iter()
        .filter_map(|event| if let Event::XaPrepare(prepare) = event { Some(prepare) } else { None })
        .collect();
    let expected = [
        (false, 7, &b"gtrid"[..], &b"bqual"[..]),
        (false, u32::MAX, &[0, 0xff], b""),
        (true, 1, b"one", b""),
    ]
    .map(|(one_phase, format_id, gtrid, bqual)| XaPrepare {
        one_phase,
        format_id,
        gtrid: Bytes::from_static(gtrid),
        bqual: Bytes::from_static(bqual),
    });
    assert_eq!(seen, expected);
    assert_eq!(format!("{:?}", seen[0]), "XaPrepare { one_phase: false, .. }");
}

#[test]
fn xa_prepare_lengths_are_checked() {
    let body = |one_phase: u8, gtrid: u32, bqual: u32, data: &[u8]| {
        let lengths = [1_u32.to_le_bytes(), gtrid.to_le_bytes(), bqual.to_le_bytes()].concat();
        [&[one_phase][..], &lengths, data].concat()
    };
    assert!(parse(event_type::XA_PREPARE, &body(0, 64, 64, &[7; 128])).is_some());
    for malformed in [
        body(2, 1, 1, b"ab"),
        body(0, 65, 0, &[7; 65]),
        body(0, 1, 65, &[7; 66]),
        body(0, u32::MAX, 1, b"ab"),
        body(0, 1, 1, b"a"),
        body(0, 1, 1, b"abc"),
    ] {
        assert_eq!(parse(event_type::XA_PREPARE, &malformed), None);
    }
}

#[test]
fn rows_with_extra_data_and_flags() {
    let rows = rows("keys");
    let events = fixtures::raw("keys");
    let partitioned: Vec<_> = events
        .iter()
        .filter(|event| matches!(event.header.event_type, 30..=32) && event.body[8..10] != [2, 0])
        .map(|event| Event::parse(event).unwrap())
        .collect();
    assert_eq!(partitioned.len(), 3, "an insert, an update across partitions, a delete");
    assert!(partitioned.iter().all(|event| matches!(event, Event::Rows(rows) if rows.columns == 2)));
    let kinds: Vec<_> = rows.iter().map(|rows| rows.kind).collect();
    assert!([RowsKind::Write, RowsKind::Update, RowsKind::Delete].iter().all(|kind| kinds.contains(kind)));
    // A cascade's child rows come before their parent's; the last insert ignored foreign keys.
    let [.., child, parent, unchecked] = &rows[..] else { panic!("too few rows events") };
    let sql_layer = RowsEvent::USE_SQL_FOREIGN_KEY;
    assert_eq!(child.flags, sql_layer | RowsEvent::NO_FOREIGN_KEY_CHECKS);
    assert_eq!(parent.flags, sql_layer | RowsEvent::STMT_END);
    assert_eq!(unchecked.flags, sql_layer | RowsEvent::NO_FOREIGN_KEY_CHECKS | RowsEvent::STMT_END);
    assert!(format!("{parent:?}").ends_with("full_images: true, images_length: 5 }"));
}

#[test]
fn partial_images_are_told_from_full_ones() {
    let full: Vec<_> = rows("unsupported").iter().map(|rows| rows.full_images).collect();
    assert_eq!(full, [false, false, false, false, true, true]);
}

/// A rows event with the given columns and bitmaps.
fn rows_body(columns: u8, bitmaps: &[u8]) -> Vec<u8> {
    [&[1, 0, 0, 0, 0, 0, 1, 0, 2, 0, columns][..], bitmaps, b"images"].concat()
}

#[test]
fn column_bitmaps_must_be_full_in_every_column() {
    let full = |kind, columns, bitmaps: &[u8]| match parse(kind, &rows_body(columns, bitmaps)) {
        Some(Event::Rows(rows)) => {
            assert_eq!(rows.images, b"images");
            rows.full_images
        }
        _ => panic!("refused"),
    };
    assert!(full(event_type::WRITE_ROWS, 8, &[0xff]));
    assert!(full(event_type::WRITE_ROWS, 9, &[0xff, 0x01]));
    assert!(full(event_type::WRITE_ROWS, 9, &[0xff, 0xff]));
    assert!(!full(event_type::WRITE_ROWS, 9, &[0xff, 0xfe]));
    assert!(!full(event_type::WRITE_ROWS, 9, &[0x7f, 0x01]));
    assert!(!full(event_type::DELETE_ROWS, 3, &[0x03]));
    assert!(full(event_type::UPDATE_ROWS, 3, &[0x07, 0x07]));
    assert!(!full(event_type::UPDATE_ROWS, 3, &[0x07, 0x05]));
    assert!(!full(event_type::UPDATE_ROWS, 3, &[0x05, 0x07]));
}

#[test]
fn rows_extra_length_counts_itself() {
    let mut body = rows_body(1, &[1]);
    for length in [0, 1, 0xffff_u16] {
        body[8..10].copy_from_slice(&length.to_le_bytes());
        assert_eq!(parse(event_type::WRITE_ROWS, &body), None);
    }
}

#[test]
fn what_the_fold_refuses_is_still_recognised() {
    let kinds: Vec<_> = fixtures::parsed("unsupported")
        .into_iter()
        .filter_map(|event| match event {
            Event::PartialUpdateRows(head) => {
                assert_eq!(head.flags & RowsEvent::STMT_END, RowsEvent::STMT_END);
                Some(event_type::PARTIAL_UPDATE_ROWS)
            }
            Event::StatementPart(code) => Some(code),
            _ => None,
        })
        .collect();
    use event_type as t;
    assert_eq!(
        kinds,
        [
            t::PARTIAL_UPDATE_ROWS,
            t::INTVAR,
            t::RAND,
            t::USER_VAR,
            t::INTVAR,
            t::BEGIN_LOAD_QUERY,
            t::INTVAR,
            t::EXECUTE_LOAD_QUERY
        ]
    );
    assert!(fixtures::parsed("incident").contains(&Event::Incident(1)));
    assert!(fixtures::parsed("statements").contains(&Event::RowsQuery));
}

#[test]
fn types_without_a_body_of_interest() {
    use event_type as t;
    for (code, event) in [
        (t::STOP, Event::Stop),
        (t::HEARTBEAT, Event::Heartbeat),
        (t::HEARTBEAT_V2, Event::Heartbeat),
        (t::ANONYMOUS_GTID, Event::AnonymousGtid),
        (t::VIEW_CHANGE, Event::ViewChange),
        (t::IGNORABLE, Event::Ignorable(t::IGNORABLE)),
        (t::WRITE_ROWS_V0, Event::ObsoleteRows(t::WRITE_ROWS_V0)),
        (t::UPDATE_ROWS_V1, Event::ObsoleteRows(t::UPDATE_ROWS_V1)),
        (t::DELETE_ROWS_V1, Event::ObsoleteRows(t::DELETE_ROWS_V1)),
    ] {
        assert_eq!(parse(code, b""), Some(event));
    }
}

#[test]
fn unknown_types_are_ignorable_only_if_the_server_says_so() {
    for code in [0, 1, 43, 160, 161, 162, 163, 170, 255] {
        assert_eq!(Event::parse(&raw(code, 0, b"x")), Ok(Event::Unknown(code)));
        assert_eq!(Event::parse(&raw(code, 0x80, b"x")), Ok(Event::Ignorable(code)));
    }
}

#[test]
fn a_malformed_body_halts_with_its_event() {
    let event = raw(event_type::XID, 0, b"short");
    let halt = event.parse().unwrap_err();
    assert_eq!(halt.reason, Reason::EventMalformed);
    assert_eq!(halt.detail, "Xid event ending at 99: XID at byte 0 of the event body");
}

#[test]
fn previous_gtids_are_handed_on_whole() {
    let events = fixtures::raw("gtids");
    let last = events.iter().rfind(|event| event.header.event_type == event_type::PREVIOUS_GTIDS).unwrap();
    let Event::PreviousGtids(body) = Event::parse(last).unwrap() else { panic!("no PREVIOUS_GTIDS") };
    assert_eq!(body, last.body);
    let set = crate::gtid::GtidSet::decode(&body).unwrap();
    assert!(gtids("gtids").iter().all(|event| set.contains(&event.gtid)));
}

#[test]
fn envelope_of_the_inner_events_has_no_checksum() {
    let bytes = fixtures::bytes("xa").pop().unwrap();
    let opened = crate::binlog::event::open_inner(bytes.clone()).unwrap();
    assert_eq!(opened.body.len(), bytes.len() - HEADER_LENGTH);
    assert!(Envelope::new(ChecksumAlgorithm::Crc32).open(bytes).is_ok());
}
