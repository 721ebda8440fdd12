use proptest::prelude::*;

use super::*;

/// Packs decimal digits as `decimal2bin` does, one group at a time.
fn pack(negative: bool, integer: &[u8], fraction: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut group = |digits: &[u8]| {
        let value = digits.iter().fold(0_u32, |value, &digit| value * 10 + u32::from(digit));
        let width = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4][digits.len()];
        bytes.extend_from_slice(&value.to_be_bytes()[4 - width..]);
    };
    let (leading, whole) = integer.split_at(integer.len() % 9);
    group(leading);
    whole.chunks(9).for_each(&mut group);
    fraction.chunks(9).for_each(&mut group);
    if negative {
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
    }
    bytes[0] ^= 0x80;
    bytes
}

/// Prints a numeric field as PostgreSQL does, and checks that it has its one form.
fn print_numeric(field: &[u8]) -> String {
    let (length, body) = field.split_first_chunk::<4>().unwrap();
    assert_eq!(i32::from_be_bytes(*length), i32::try_from(body.len()).unwrap());
    let (words, rest) = body.as_chunks::<2>();
    assert!(rest.is_empty());
    let words: Vec<i16> = words.iter().map(|word| i16::from_be_bytes(*word)).collect();
    let [count, weight, sign, scale, ref digits @ ..] = words[..] else { panic!("no header") };
    assert_eq!(usize::try_from(count).unwrap(), digits.len());
    assert!(digits.iter().all(|digit| (0..10_000).contains(digit)));
    assert!(digits.first() != Some(&0) && digits.last() != Some(&0), "not normalized");
    assert!(sign == 0 || sign == 0x4000 && !digits.is_empty(), "a sign of its own");
    assert!(!digits.is_empty() || weight == 0);
    let digit = |position: i16| {
        let index = usize::try_from(weight - position).ok();
        index.and_then(|index| digits.get(index)).copied().unwrap_or(0)
    };
    let integer: String =
        (0..=weight.max(0)).rev().map(|position| format!("{:04}", digit(position))).collect();
    let fraction: String = (1..=8).map(|position| format!("{:04}", digit(-position))).collect();
    let scale = usize::try_from(scale).unwrap();
    assert!(fraction[scale..].bytes().all(|byte| byte == b'0'), "more digits than the scale");
    let integer = integer.trim_start_matches('0');
    let point = if scale > 0 { "." } else { "" };
    let sign = if sign == 0 { "" } else { "-" };
    format!("{sign}{}{point}{}", if integer.is_empty() { "0" } else { integer }, &fraction[..scale])
}

fn from_packed(shape: Shape, bytes: &[u8]) -> Result<Vec<u8>, ConvertError> {
    let mut out = Vec::new();
    shape.write_packed(bytes, shape.integer + shape.scale, shape.scale, &mut out).map(|()| out)
}

fn from_text(precision: u16, scale: u16, text: &str) -> Result<String, ConvertError> {
    let mut out = Vec::new();
    let shape = Shape::new(precision, scale).unwrap();
    shape.write_text(text.as_bytes(), &mut out).map(|()| print_numeric(&out))
}

#[test]
fn packed_decimals_of_the_manual() {
    // 1234567890.1234 as DECIMAL(14,4) (server source, comment at decimal2bin).
    let positive = [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2];
    let negative = positive.map(|byte: u8| !byte);
    let shape = Shape::new(14, 4).unwrap();
    assert_eq!(pack(false, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 0], &[1, 2, 3, 4]), positive);
    assert_eq!(print_numeric(&from_packed(shape, &positive).unwrap()), "1234567890.1234");
    assert_eq!(print_numeric(&from_packed(shape, &negative).unwrap()), "-1234567890.1234");
}

#[test]
fn numeric_has_known_bytes() {
    let mut out = Vec::new();
    Shape::new(10, 2).unwrap().write_text(b"-12345.60", &mut out).unwrap();
    assert_eq!(out, [0, 0, 0, 14, 0, 3, 0, 1, 0x40, 0, 0, 2, 0, 1, 0x09, 0x29, 0x17, 0x70]);
    out.clear();
    Shape::new(10, 2).unwrap().write_text(b"0.00", &mut out).unwrap();
    assert_eq!(out, [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2]);
    out.clear();
    Shape::new(9, 9).unwrap().write_text(b"0.000000001", &mut out).unwrap();
    assert_eq!(out, [0, 0, 0, 10, 0, 1, 0xff, 0xfd, 0, 0, 0, 9, 0x03, 0xe8]);
}

#[test]
fn unsigned_big_integers_are_numeric() {
    let shape = Shape::new(20, 0).unwrap();
    for value in [0, 1, 9_999, 10_000, 100_000_000, u64::MAX] {
        let mut out = Vec::new();
        shape.write_integer(value, &mut out).unwrap();
        assert_eq!(print_numeric(&out), value.to_string());
    }
    let refused = Shape::new(19, 0).unwrap().write_integer(1, &mut Vec::new());
    assert_eq!(refused, Err(ConvertError::UnexpectedKind));
}

#[test]
fn text_must_be_a_decimal_of_the_column_s_shape() {
    assert_eq!(from_text(5, 2, "-123.4").unwrap(), "-123.40");
    assert_eq!(from_text(5, 2, "000123").unwrap(), "123.00");
    assert_eq!(from_text(5, 2, "-0.00").unwrap(), "0.00");
    for beyond in ["1234", "1.234", "-99999.1"] {
        assert_eq!(from_text(5, 2, beyond), Err(ConvertError::OutOfRange), "{beyond}");
    }
    for malformed in ["", "-", "1e5", "+1", "1.2.3", " 1", "1,5", "--1", ".5"] {
        assert_eq!(from_text(5, 2, malformed), Err(ConvertError::Malformed), "{malformed}");
    }
}

#[test]
fn packed_bytes_must_be_a_decimal_of_the_column_s_shape() {
    let shape = Shape::new(5, 2).unwrap();
    let good = pack(false, &[1, 2, 3], &[4, 5]);
    assert!(from_packed(shape, &good).is_ok());
    assert_eq!(from_packed(shape, &good[1..]), Err(ConvertError::Malformed));
    assert_eq!(from_packed(shape, &[good.clone(), vec![0]].concat()), Err(ConvertError::Malformed));
    // A group of two digits that holds 100.
    assert_eq!(from_packed(shape, &[0x80, 1, 100]), Err(ConvertError::Malformed));
    let other = shape.write_packed(&good, 6, 2, &mut Vec::new());
    assert_eq!(other, Err(ConvertError::UnexpectedKind));
}

#[test]
fn shapes_end_where_mysql_s_do() {
    assert!(Shape::new(65, 30).is_some() && Shape::new(65, 0).is_some() && Shape::new(30, 30).is_some());
    assert!(Shape::new(66, 0).is_none() && Shape::new(65, 31).is_none() && Shape::new(2, 3).is_none());
    assert!(Shape::new(0, 0).is_none() && Shape::new(300, 0).is_none());
}

#[test]
fn the_greatest_number_of_every_shape_is_exact() {
    for scale in 0_u16..=30 {
        for precision in scale.max(1)..=65 {
            let (integer, fraction) = (vec![9; usize::from(precision - scale)], vec![9; usize::from(scale)]);
            let shape = Shape::new(precision, scale).unwrap();
            let printed = print_numeric(&from_packed(shape, &pack(true, &integer, &fraction)).unwrap());
            let nines = |digits: &[u8]| "9".repeat(digits.len());
            let whole = if integer.is_empty() { "0".to_owned() } else { nines(&integer) };
            let point = if scale > 0 { "." } else { "" };
            assert_eq!(printed, format!("-{whole}{point}{}", nines(&fraction)));
        }
    }
}

/// Any decimal: precision, scale and its digits, with runs of zeros and nines.
fn decimals() -> impl Strategy<Value = (bool, Vec<u8>, Vec<u8>)> {
    let digit = || prop_oneof![3 => Just(0_u8), 1 => Just(9), 2 => 0_u8..10];
    (0_usize..=30).prop_flat_map(|scale| (usize::from(scale == 0)..=65 - scale, Just(scale))).prop_flat_map(
        move |(integer, scale)| {
            let digits = |count| proptest::collection::vec(digit(), count);
            (any::<bool>(), digits(integer), digits(scale))
        },
    )
}

proptest! {
    #[test]
    fn packed_text_and_numeric_are_one_number((negative, integer, fraction) in decimals()) {
        let ascii = |digits: &[u8]| digits.iter().map(|digit| char::from(b'0' + digit)).collect::<String>();
        let zero = integer.iter().chain(&fraction).all(|&digit| digit == 0);
        // MySQL has no negative zero.
        let negative = negative && !zero;
        let whole = ascii(&integer);
        let whole = whole.trim_start_matches('0');
        let sign = if negative { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        let text = format!("{sign}{}{point}{}", if whole.is_empty() { "0" } else { whole }, ascii(&fraction));

        let precision = u8::try_from(integer.len() + fraction.len()).unwrap();
        let scale = u8::try_from(fraction.len()).unwrap();
        let shape = Shape::new(precision.into(), scale.into()).unwrap();
        let packed = pack(negative, &integer, &fraction);
        let mut printed = Vec::new();
        crate::binlog::decimal::write_text(&packed, precision, scale, &mut printed).unwrap();
        prop_assert_eq!(std::str::from_utf8(&printed).unwrap(), &text);

        let from_packed = from_packed(shape, &packed).unwrap();
        prop_assert_eq!(&print_numeric(&from_packed), &text);
        let mut from_text = Vec::new();
        shape.write_text(text.as_bytes(), &mut from_text).unwrap();
        prop_assert_eq!(&from_text, &from_packed);
        let mut long = Vec::new();
        shape.write_long(Packed::new(&packed), &mut long).unwrap();
        prop_assert_eq!(long, from_packed);
    }

    #[test]
    fn any_bytes_are_a_number_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..34),
        (precision, scale) in (1_u16..=65).prop_flat_map(|precision| (Just(precision), 0..=precision.min(30))),
    ) {
        let shape = Shape::new(precision, scale).unwrap();
        let mut bytes = bytes;
        bytes.resize(usize::from(shape.packed_length), 0x55);
        if let Ok(field) = from_packed(shape, &bytes) {
            print_numeric(&field);
        }
    }
}
