use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const A: &str = "0a0b0c0d-0102-0304-0506-070809101112";
const B: &str = "ffffffff-ffff-ffff-ffff-fffffffffffe";

fn set(text: &str) -> GtidSet {
    text.parse().unwrap()
}

fn gtid(text: &str) -> Gtid {
    text.parse().unwrap()
}

#[test]
fn uuid_reads_either_case_and_prints_lower_case() {
    let upper: Uuid = A.to_ascii_uppercase().parse().unwrap();
    assert_eq!(upper.to_string(), A);
    for bad in ["", "0a0b0c0d010203040506070809101112", &A[1..], &format!("{A}0"), &A.replace('a', "g")] {
        assert_eq!(bad.parse::<Uuid>(), Err(GtidError::Uuid), "{bad}");
    }
    assert!("0a0b0c0d-0102-0304-050607-0809101112".parse::<Uuid>().is_err());
}

#[test]
fn tag_is_normalized_and_validated() {
    assert_eq!("MyTag_1".parse::<Tag>().unwrap().as_str(), "mytag_1");
    assert!("a".repeat(32).parse::<Tag>().is_ok());
    for bad in ["", "1a", "a-b", "ä", "a b", &"a".repeat(33)] {
        assert_eq!(bad.parse::<Tag>(), Err(GtidError::Tag), "{bad}");
    }
}

#[test]
fn gtid_text() {
    for text in [format!("{A}:1"), format!("{A}:tag:9223372036854775806")] {
        assert_eq!(gtid(&text).to_string(), text);
    }
    for bad in ["", A, &format!("{A}:0"), &format!("{A}:9223372036854775807"), &format!("{A}:t:1:2")] {
        assert!(bad.parse::<Gtid>().is_err(), "{bad}");
    }
    assert!(format!("{A}:+1").parse::<Gtid>().is_err());
    assert_eq!(Gtid::new(Uuid([0; 16]), Tag::none(), 0), Err(GtidError::Number));
}

#[test]
fn set_text_is_canonical() {
    assert_eq!(set(" \n").to_string(), "");
    assert_eq!(set(&format!("{A}:3:1-2:7")).to_string(), format!("{A}:1-3:7"));
    let server = format!("{A}:1-708:1000-1001:mytag:1-3:other_tag:1,\n{B}:x:5");
    assert_eq!(set(&server).to_string(), server.replace('\n', ""));
    let spaced = format!(" {B} : X : 5 , {A} : 1 - 708 : 1000-1001 : other_tag:1:mytag:1-3 ");
    assert_eq!(set(&spaced), set(&server));
}

#[test]
fn set_text_is_refused_when_malformed() {
    for bad in [
        A.to_owned(),
        format!("{A}:"),
        format!("{A}:0"),
        format!("{A}:5-4"),
        format!("{A}:1-9223372036854775807"),
        format!("{A}:1-2-3"),
        format!("{A}:tag"),
        format!("{A}:tag:other:1"),
        format!("{A}:1,"),
        format!("{A}:1,,{B}:1"),
        format!("{A}:-1"),
        ":1".to_owned(),
    ] {
        assert!(bad.parse::<GtidSet>().is_err(), "{bad}");
    }
}

#[test]
fn serde_uses_the_text() {
    let held = set(&format!("{A}:1-3:tag:7"));
    let json = serde_json::to_string(&held).unwrap();
    assert_eq!(json, format!("\"{A}:1-3:tag:7\""));
    assert_eq!(serde_json::from_str::<GtidSet>(&json).unwrap(), held);
    let one = gtid(&format!("{A}:tag:7"));
    assert_eq!(serde_json::from_str::<Gtid>(&serde_json::to_string(&one).unwrap()).unwrap(), one);
    assert!(serde_json::from_str::<GtidSet>("\"x\"").is_err());
}

#[test]
fn plain_encoding_has_exclusive_ends() {
    let bytes = set(&format!("{A}:1-3:7")).encode();
    let mut expected = vec![1, 0, 0, 0, 0, 0, 0, 0];
    expected.extend(A.parse::<Uuid>().unwrap().0);
    for number in [2u64, 1, 4, 7, 8] {
        expected.extend(number.to_le_bytes());
    }
    assert_eq!(bytes, expected);
    assert_eq!(GtidSet::new().encode(), [0; 8]);
}

#[test]
fn tagged_encoding_carries_the_tag_in_every_entry() {
    let bytes = set(&format!("{A}:1:tag:2")).encode();
    let uuid = A.parse::<Uuid>().unwrap().0;
    let mut expected = vec![1, 2, 0, 0, 0, 0, 0, 1];
    expected.extend(uuid);
    expected.push(0);
    for number in [1u64, 1, 2] {
        expected.extend(number.to_le_bytes());
    }
    expected.extend(uuid);
    expected.extend([6, b't', b'a', b'g']);
    for number in [1u64, 2, 3] {
        expected.extend(number.to_le_bytes());
    }
    assert_eq!(bytes, expected);
}

/// One entry of `A` in the plain format.
fn plain(intervals: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = Vec::from(1u64.to_le_bytes());
    bytes.extend(A.parse::<Uuid>().unwrap().0);
    bytes.extend((intervals.len() as u64).to_le_bytes());
    for (first, end) in intervals {
        bytes.extend(first.to_le_bytes());
        bytes.extend(end.to_le_bytes());
    }
    bytes
}

#[test]
fn decode_refuses_what_the_server_refuses() {
    for bad in [
        vec![(0, 5)],
        vec![(5, 5)],
        vec![(5, 4)],
        vec![(1, 5), (5, 7)],
        vec![(1, 5), (3, 7)],
        vec![(6, 8), (1, 2)],
        vec![(1, 1 << 63)],
        vec![(1, 0)],
    ] {
        assert!(GtidSet::decode(&plain(&bad)).is_err(), "{bad:?}");
    }
    let good = plain(&[(1, 5), (6, (1 << 63) - 1)]);
    assert!(GtidSet::decode(&good).is_ok());
    for length in 0..good.len() {
        assert!(GtidSet::decode(&good[..length]).is_err(), "{length}");
    }
    assert!(GtidSet::decode(&[good, vec![0]].concat()).is_err());
    // A count that no input could back allocates nothing.
    assert!(GtidSet::decode(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]).is_err());
    // Unknown format numbers.
    assert!(GtidSet::decode(&[0, 0, 0, 0, 0, 0, 0, 2]).is_err());
    assert!(GtidSet::decode(&[2, 0, 0, 0, 0, 0, 0, 1]).is_err());
}

#[test]
fn decode_accepts_what_the_server_accepts() {
    assert_eq!(GtidSet::decode(&plain(&[])).unwrap(), GtidSet::new());
    let mut twice = plain(&[(1, 3)]);
    twice.extend(&plain(&[(3, 5)])[8..]);
    twice[0] = 2;
    assert_eq!(GtidSet::decode(&twice).unwrap(), set(&format!("{A}:1-4")));
    assert_eq!(GtidSet::decode(&[1, 0, 0, 0, 0, 0, 0, 1]).unwrap(), GtidSet::new());
}

#[test]
fn decode_refuses_bad_tags() {
    let mut bytes = set(&format!("{A}:tag:2")).encode();
    assert_eq!(GtidSet::decode(&bytes).unwrap(), set(&format!("{A}:tag:2")));
    bytes[25] = b'T';
    assert_eq!(GtidSet::decode(&bytes), Err(GtidError::Encoding { offset: 24 }));
    bytes[24] = 7;
    assert!(GtidSet::decode(&bytes).is_err());
}

#[test]
fn every_server_and_tag_has_a_latest_gtid() {
    let held = set(&format!("{A}:1-3:9:tag:50,{B}:only:7-70"));
    let latest: Vec<_> = held.latest().collect();
    assert_eq!(latest, [format!("{A}:9"), format!("{A}:tag:50"), format!("{B}:only:70")].map(|it| gtid(&it)));
    assert_eq!(GtidSet::new().latest().next(), None);
}

type Triple = (u8, u8, u64);

/// Numbers close together, so that intervals touch and overlap, and at the upper end of the range.
fn triples() -> impl Strategy<Value = BTreeSet<Triple>> {
    let gno = prop_oneof![8 => 1u64..24, 1 => MAX_GNO - 3..=MAX_GNO];
    prop::collection::btree_set((0u8..3, 0u8..3, gno), 0..40)
}

fn of_triple(&(uuid, tag, gno): &Triple) -> Gtid {
    let tag = ["", "a", "b_1"][usize::from(tag)];
    let tag = if tag.is_empty() { Tag::none() } else { tag.parse().unwrap() };
    Gtid::new(Uuid([uuid; 16]), tag, gno).unwrap()
}

fn build(model: &BTreeSet<Triple>) -> GtidSet {
    let mut set = GtidSet::new();
    for triple in model {
        set.insert(&of_triple(triple));
    }
    set
}

proptest! {
    #[test]
    fn uuids_are_in_the_order_of_their_bytes(one: [u8; 16], other: [u8; 16], common in 0..16_usize) {
        let mut other = other;
        other[..common].copy_from_slice(&one[..common]);
        prop_assert_eq!(Uuid(one).cmp(&Uuid(other)), one.cmp(&other));
    }

    #[test]
    fn text_and_wire_round_trip(model in triples()) {
        let set = build(&model);
        let read: GtidSet = set.to_string().parse().unwrap();
        prop_assert_eq!(&read, &set);
        prop_assert_eq!(GtidSet::decode(&set.encode()).unwrap(), set);
    }

    #[test]
    fn insertion_order_does_not_matter(order in prop::collection::vec((0u8..2, 0u8..2, 1u64..24), 0..60)) {
        let mut held = GtidSet::new();
        for triple in &order {
            held.insert(&of_triple(triple));
        }
        let model: BTreeSet<_> = order.into_iter().collect();
        prop_assert_eq!(held.len(), model.len() as u128);
        prop_assert_eq!(held, build(&model));
    }

    #[test]
    fn intervals_are_canonical(model in triples()) {
        let set = build(&model);
        let intervals: Vec<_> = set.intervals().collect();
        for pair in intervals.windows(2) {
            let ((u1, t1, _, l1), (u2, t2, f2, _)) = (pair[0], pair[1]);
            prop_assert!((u1, t1) < (u2, t2) || ((u1, t1) == (u2, t2) && l1 + 1 < f2));
        }
    }

    #[test]
    fn algebra_agrees_with_the_model(a in triples(), b in triples()) {
        let (sa, sb) = (build(&a), build(&b));
        let mut union = sa.clone();
        union.union_with(&sb);
        prop_assert_eq!(&union, &build(&(&a | &b)));
        prop_assert_eq!(sa.subtract(&sb), build(&(&a - &b)));
        prop_assert_eq!(sa.intersection(&sb), build(&(&a & &b)));
        prop_assert_eq!(sa.includes(&sb), a.is_superset(&b));
        prop_assert_eq!(sa.is_empty(), a.is_empty());
        // Laws that the positions of the pipeline rely on.
        prop_assert!(union.includes(&sa) && union.includes(&sb));
        let mut rejoined = sa.subtract(&sb);
        rejoined.union_with(&sa.intersection(&sb));
        prop_assert_eq!(rejoined, sa);
    }

    #[test]
    fn membership_and_removal_agree_with_the_model(
        mut model in triples(),
        probes in prop::collection::vec((0u8..3, 0u8..3, 1u64..24), 0..30),
    ) {
        let mut set = build(&model);
        for probe in probes {
            prop_assert_eq!(set.contains(&of_triple(&probe)), model.contains(&probe));
            prop_assert_eq!(set.remove(&of_triple(&probe)), model.remove(&probe));
            prop_assert_eq!(&set, &build(&model));
        }
    }

    #[test]
    fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..120), text in ".{0,80}") {
        if let Ok(set) = GtidSet::decode(&bytes) {
            prop_assert_eq!(GtidSet::decode(&set.encode()), Ok(set));
        }
        if let Ok(set) = text.parse::<GtidSet>() {
            prop_assert_eq!(set.to_string().parse::<GtidSet>(), Ok(set));
        }
    }
}
