use openssl::pkey::Private;
use openssl::sha::{sha1, sha256};

use super::*;

const NONCE: &[u8; 20] = b"0123456789abcdefghij";
const PASSWORD: &str = "pässword";

/// A greeting as MySQL sends it, with this default plugin.
fn greeting_packet(plugin: &str, capabilities: CapabilityFlags) -> Vec<u8> {
    let [c0, c1, c2, c3] = capabilities.bits().to_le_bytes();
    let mut packet = vec![10];
    packet.extend_from_slice(b"9.7.4\0");
    packet.extend_from_slice(&7u32.to_le_bytes());
    packet.extend_from_slice(&NONCE[..8]);
    packet.extend_from_slice(&[0, c0, c1, 255, 2, 0, c2, c3, 21]);
    packet.extend_from_slice(&[0; 10]);
    packet.extend_from_slice(&NONCE[8..]);
    packet.push(0);
    packet.extend_from_slice(plugin.as_bytes());
    packet.push(0);
    packet
}

fn greeting(plugin: &str) -> Greeting {
    Greeting::parse(&greeting_packet(plugin, CapabilityFlags::all())).unwrap()
}

fn begin(plugin: &str, password: &'static str, secure: bool) -> (Login<'static>, Vec<u8>) {
    Login::begin(&greeting(plugin), "repl", password, secure).unwrap()
}

fn switch_to(plugin: &str, nonce: &[u8]) -> Vec<u8> {
    [&[0xfe], plugin.as_bytes(), &[0], nonce, &[0]].concat()
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

/// The formulas of the MySQL internals manual.
fn native_response(nonce: &[u8]) -> Vec<u8> {
    let once = sha1(PASSWORD.as_bytes());
    xor(&once, &sha1(&[nonce, &sha1(&once)].concat()))
}

fn sha2_response(nonce: &[u8]) -> Vec<u8> {
    let once = sha256(PASSWORD.as_bytes());
    xor(&once, &sha256(&[&sha256(&once)[..], nonce].concat()))
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[test]
fn a_greeting_is_read() {
    let greeting = greeting("caching_sha2_password");
    assert_eq!(greeting.server_version, "9.7.4");
    assert_eq!(greeting.connection_id, 7);
    assert_eq!(greeting.nonce, NONCE);
    assert_eq!(greeting.plugin, b"caching_sha2_password");
}

#[test]
fn a_cut_greeting_is_refused_at_every_length() {
    let packet = greeting_packet("", CapabilityFlags::all());
    for length in 0..packet.len() - 1 {
        assert_eq!(Greeting::parse(&packet[..length]), None, "{length}");
    }
    assert_eq!(Greeting::parse(&[9, 0]), None);
}

#[test]
fn a_server_that_lacks_what_we_need_is_refused() {
    let old = CapabilityFlags::CLIENT_PROTOCOL_41;
    let greeting = Greeting::parse(&greeting_packet("caching_sha2_password", old)).unwrap();
    assert_eq!(Login::begin(&greeting, "u", "p", false).err(), Some(AuthError::Greeting));
    assert_eq!(greeting.ssl_request(), Err(AuthError::NoTls));
}

#[test]
fn the_first_answer_is_that_of_the_servers_plugin() {
    let (_, sha2) = begin("caching_sha2_password", PASSWORD, false);
    assert!(contains(&sha2, &sha2_response(NONCE)));
    let (_, native) = begin("mysql_native_password", PASSWORD, false);
    assert!(contains(&native, &native_response(NONCE)));
    for packet in [sha2, native] {
        assert!(contains(&packet, b"repl\0"));
        assert!(!contains(&packet, PASSWORD.as_bytes()));
    }
}

#[test]
fn the_server_may_switch_once_to_a_plugin_that_is_known() {
    let other = b"jihgfedcba9876543210";
    let (mut login, _) = begin("caching_sha2_password", PASSWORD, false);
    let reply = login.answer(&switch_to("mysql_native_password", other));
    assert_eq!(reply, Ok(Reply::Send(native_response(other))));
    assert_eq!(login.answer(&switch_to("caching_sha2_password", other)), Err(AuthError::Malformed));

    let (mut login, _) = begin("mysql_native_password", PASSWORD, false);
    let reply = login.answer(&switch_to("caching_sha2_password", other));
    assert_eq!(reply, Ok(Reply::Send(sha2_response(other))));
    assert_eq!(login.answer(&[1, 3]), Ok(Reply::Wait));
    assert_eq!(login.answer(&[0, 0, 0, 2, 0, 0, 0]), Ok(Reply::LoggedIn));
}

#[test]
fn the_password_is_never_given_to_a_plugin_that_takes_it_in_clear() {
    for plugin in ["mysql_clear_password", "sha256_password", "dialog"] {
        let (mut login, _) = begin("caching_sha2_password", PASSWORD, true);
        let reply = login.answer(&switch_to(plugin, NONCE));
        assert_eq!(reply, Err(AuthError::Plugin(plugin.to_owned())));
    }
}

#[test]
fn an_empty_password_is_an_empty_answer() {
    let (mut login, packet) = begin("caching_sha2_password", "", false);
    assert!(contains(&packet, b"repl\0\0"));
    let reply = login.answer(&switch_to("mysql_native_password", NONCE));
    assert_eq!(reply, Ok(Reply::Send(Vec::new())));
}

#[test]
fn inside_tls_the_whole_password_goes_in_clear() {
    let (mut login, _) = begin("caching_sha2_password", PASSWORD, true);
    let expected = [PASSWORD.as_bytes(), &[0]].concat();
    assert_eq!(login.answer(&[1, 4]), Ok(Reply::Send(expected)));
}

#[test]
fn without_tls_the_whole_password_goes_under_the_servers_key() {
    let key: Rsa<Private> = Rsa::generate(2048).unwrap();
    let (mut login, _) = begin("caching_sha2_password", PASSWORD, false);
    assert_eq!(login.answer(&[1, 4]), Ok(Reply::Send(vec![2])));
    let pem = key.public_key_to_pem().unwrap();
    let Ok(Reply::Send(sent)) = login.answer(&[&[1], &pem[..]].concat()) else { panic!("an answer") };
    let mut masked = vec![0; 256];
    let length = key.private_decrypt(&sent, &mut masked, Padding::PKCS1_OAEP).unwrap();
    let mask: Vec<u8> = NONCE.iter().copied().cycle().take(length).collect();
    assert_eq!(xor(&masked[..length], &mask), [PASSWORD.as_bytes(), &[0]].concat());
}

#[test]
fn a_key_that_is_none_and_a_password_too_long_for_it_are_errors() {
    let (mut login, _) = begin("caching_sha2_password", PASSWORD, false);
    login.answer(&[1, 4]).unwrap();
    assert_eq!(login.answer(b"\x01no key"), Err(AuthError::PublicKey));

    let long: &'static str = "x".repeat(214).leak();
    let pem = Rsa::generate(2048).unwrap().public_key_to_pem().unwrap();
    let (mut login, _) = begin("caching_sha2_password", long, false);
    login.answer(&[1, 4]).unwrap();
    assert_eq!(login.answer(&[&[1], &pem[..]].concat()), Err(AuthError::PublicKey));
}

#[test]
fn packets_out_of_place_are_errors() {
    let (mut login, _) = begin("caching_sha2_password", PASSWORD, true);
    for packet in [&[][..], &[0xfe], &[0x01], &[0x01, 9], &[0x05]] {
        assert_eq!(login.answer(packet), Err(AuthError::Malformed), "{packet:?}");
    }
    let (mut login, _) = begin("mysql_native_password", PASSWORD, true);
    assert_eq!(login.answer(&[1, 4]), Err(AuthError::Malformed));
}
