use bytes::Bytes;

use super::fixtures;
use crate::binlog::event::{ChecksumAlgorithm, Envelope, EnvelopeError, Event, HEADER_LENGTH, event_type};
use crate::halt::{Halt, Reason};

/// An event of the given type and flags, without a checksum but with the length of one.
fn event(event_type: u8, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = (HEADER_LENGTH + body.len()) as u32;
    let mut bytes = vec![0, 0, 0, 0, event_type, 1, 0, 0, 0];
    bytes.extend(length.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(flags.to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The same with its checksum.
fn checked_event(event_type: u8, flags: u16, body: &[u8]) -> Bytes {
    let mut bytes = event(event_type, flags, body);
    let length = bytes.len() as u32 + 4;
    bytes[9..13].copy_from_slice(&length.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.into()
}

/// A FORMAT_DESCRIPTION that announces the given algorithm.
fn format_description(algorithm: u8) -> Bytes {
    let mut body = vec![4, 0];
    body.extend(b"9.7.4");
    body.resize(52, 0);
    body.extend([0, 0, 0, 0, 19, 13, 0, 8]);
    body.push(algorithm);
    checked_event(event_type::FORMAT_DESCRIPTION, 0, &body)
}

fn rotate_body() -> Vec<u8> {
    [&4_u64.to_le_bytes()[..], b"binlog.000007"].concat()
}

#[test]
fn captured_events_open_and_their_bodies_are_bare() {
    for scenario in fixtures::scenarios() {
        let mut envelope = Envelope::new(ChecksumAlgorithm::None);
        let mut checksum = ChecksumAlgorithm::None;
        for bytes in fixtures::bytes(&scenario) {
            let raw = envelope.open(bytes.clone()).unwrap();
            if let Event::FormatDescription(description) = Event::parse(&raw).unwrap() {
                checksum = description.checksum;
            }
            let always = raw.header.event_type == event_type::FORMAT_DESCRIPTION;
            let tail = if always || checksum == ChecksumAlgorithm::Crc32 { 4 } else { 0 };
            assert_eq!(raw.body, bytes.slice(HEADER_LENGTH..bytes.len() - tail));
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    for bytes in fixtures::bytes("xa") {
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let in_use = bytes[4] == event_type::FORMAT_DESCRIPTION && bit == 17 * 8;
            let opened = Envelope::new(ChecksumAlgorithm::Crc32).open(damaged.into());
            assert_eq!(opened.is_ok(), in_use, "bit {bit}");
        }
    }
}

#[test]
fn length_must_equal_the_header_s() {
    let whole = checked_event(event_type::STOP, 0, b"");
    for length in 0..whole.len() {
        let error = Envelope::new(ChecksumAlgorithm::Crc32).open(whole.slice(..length)).unwrap_err();
        let expected_short = length < HEADER_LENGTH;
        assert_eq!(matches!(error, EnvelopeError::TooShort { .. }), expected_short, "{length} bytes");
    }
    let longer: Bytes = [&whole[..], b"x"].concat().into();
    let error = Envelope::new(ChecksumAlgorithm::Crc32).open(longer).unwrap_err();
    assert!(matches!(error, EnvelopeError::Malformed { event_type: event_type::STOP, .. }));
}

#[test]
fn an_event_without_room_for_a_checksum_is_malformed() {
    let bare = event(event_type::STOP, 0, b"abc");
    let error = Envelope::new(ChecksumAlgorithm::Crc32).open(bare.into()).unwrap_err();
    assert!(matches!(error, EnvelopeError::Malformed { .. }));
}

#[test]
fn the_first_rotate_follows_the_negotiated_algorithm() {
    let bare: Bytes = event(event_type::ROTATE, 0x20, &rotate_body()).into();
    let checked = checked_event(event_type::ROTATE, 0x20, &rotate_body());
    for (algorithm, bytes) in [(ChecksumAlgorithm::None, bare), (ChecksumAlgorithm::Crc32, checked)] {
        let raw = Envelope::new(algorithm).open(bytes).unwrap();
        let Event::Rotate(rotate) = Event::parse(&raw).unwrap() else { panic!("no ROTATE") };
        assert_eq!((rotate.file.as_str(), rotate.position, rotate.artificial), ("binlog.000007", 4, true));
    }
}

#[test]
fn the_algorithm_changes_with_each_format_description() {
    let mut envelope = Envelope::new(ChecksumAlgorithm::Crc32);
    envelope.open(format_description(0)).unwrap();
    let bare: Bytes = event(event_type::XID, 0, &7_u64.to_le_bytes()).into();
    assert_eq!(envelope.open(bare.clone()).unwrap().body.len(), 8);
    envelope.open(format_description(1)).unwrap();
    assert!(matches!(envelope.open(bare), Err(EnvelopeError::ChecksumMismatch { .. })));
    let checked = checked_event(event_type::XID, 0, &7_u64.to_le_bytes());
    assert_eq!(envelope.open(checked).unwrap().body.len(), 8);
}

#[test]
fn a_refused_format_description_changes_nothing() {
    let mut envelope = Envelope::new(ChecksumAlgorithm::Crc32);
    assert!(matches!(envelope.open(format_description(9)), Err(EnvelopeError::Malformed { .. })));
    let mut damaged = format_description(0).to_vec();
    damaged[40] ^= 1;
    assert!(matches!(envelope.open(damaged.into()), Err(EnvelopeError::ChecksumMismatch { .. })));
    envelope.open(checked_event(event_type::STOP, 0, b"")).unwrap();
}

#[test]
fn the_in_use_flag_is_not_checksummed() {
    let mut open_file = format_description(1).to_vec();
    open_file[17] |= 1;
    let raw = Envelope::new(ChecksumAlgorithm::None).open(open_file.into()).unwrap();
    assert_eq!(raw.header.flags, 1);
}

/// What a server without checksums sends of its first file: the time of its creation is taken out,
/// and the checksum still is that of the file.
#[test]
fn a_format_description_without_its_creation_is_compared_with_what_was_written() {
    let sent = |algorithm| {
        let mut bytes = format_description(algorithm).to_vec();
        let covered = bytes.len() - 4;
        for at in [0, HEADER_LENGTH + 52] {
            bytes[at..at + 4].copy_from_slice(&1_796_030_003_u32.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes[..covered]).to_le_bytes();
        bytes[covered..].copy_from_slice(&checksum);
        bytes[HEADER_LENGTH + 52..HEADER_LENGTH + 56].fill(0);
        bytes
    };
    Envelope::new(ChecksumAlgorithm::None).open(sent(0).into()).unwrap();
    let with_checksums = Envelope::new(ChecksumAlgorithm::Crc32).open(sent(1).into());
    assert!(matches!(with_checksums, Err(EnvelopeError::ChecksumMismatch { .. })), "it is computed anew");
    for bit in 0..sent(0).len() * 8 {
        let mut damaged = sent(0);
        damaged[bit / 8] ^= 1 << (bit % 8);
        let opened = Envelope::new(ChecksumAlgorithm::Crc32).open(damaged.into());
        assert_eq!(opened.is_ok(), bit == 17 * 8, "bit {bit}");
    }
}

#[test]
fn errors_become_the_halts_of_the_catalogue() {
    let mismatch = EnvelopeError::ChecksumMismatch { event_type: event_type::WRITE_ROWS, log_pos: 1234 };
    let halt = Halt::from(mismatch);
    assert_eq!(halt.reason, Reason::EventChecksumMismatch);
    assert_eq!(halt.detail, "Write_rows event ending at 1234: CRC32 mismatch");
    assert_eq!(Halt::from(EnvelopeError::TooShort { length: 3 }).reason, Reason::EventMalformed);
}

#[test]
fn debug_output_holds_no_content() {
    let raw =
        Envelope::new(ChecksumAlgorithm::Crc32).open(checked_event(event_type::QUERY, 0, b"secret")).unwrap();
    assert!(!format!("{raw:?}").contains("secret"));
}
