//! Server addresses: `mysql://user@host:port` and `postgres://user@host:port/database`, in the
//! generic syntax of RFC 3986 and nothing beyond who and where. Errors never quote the text.

use std::net::Ipv6Addr;

/// Whom to connect as, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) user: String,
    /// An IPv6 address comes without its brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// The path without its leading slash; empty when there is none.
    pub(super) path: String,
}

/// What kind of URL a key takes.
pub(super) struct Syntax {
    pub(super) schemes: &'static [&'static str],
    pub(super) default_port: u16,
    /// How it looks, for the remedies.
    pub(super) form: &'static str,
}

pub(super) const MYSQL: Syntax =
    Syntax { schemes: &["mysql"], default_port: 3306, form: "mysql://user@host:port" };

pub(super) const POSTGRES: Syntax = Syntax {
    schemes: &["postgres", "postgresql"],
    default_port: 5432,
    form: "postgres://user@host:port/database",
};

/// Reads a URL.
///
/// # Errors
/// What is wrong and the remedy, without a piece of the text.
pub(super) fn parse(text: &str, syntax: &Syntax) -> Result<Address, String> {
    let form = syntax.form;
    let rest = text
        .split_once("://")
        .and_then(|(scheme, rest)| syntax.schemes.contains(&scheme).then_some(rest))
        .ok_or_else(|| format!("must look like {form}"))?;
    if rest.contains(['?', '#']) {
        return Err(format!(
            "must not have parameters or a fragment: TLS and the rest are keys of their own. Write {form}, with ? and # in a name as %3F and %23"
        ));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, place) = authority
        .rsplit_once('@')
        .ok_or_else(|| format!("names no user. Write {form}, with a / in the user's name as %2F"))?;
    if user.contains(':') {
        return Err("must not hold a password: take it out and use password_file or password_env; \
                    a colon in the user's name is written %3A"
            .to_owned());
    }
    let user = decode(user).filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| format!("has no valid user name. Write {form}"))?;
    let (host, port) = host_and_port(place, syntax)?;
    let path = decode(path).ok_or_else(|| format!("has no valid path. Write {form}"))?;
    Ok(Address { user, host, port, path })
}

fn host_and_port(place: &str, syntax: &Syntax) -> Result<(String, u16), String> {
    let (host, port) = match place.strip_prefix('[') {
        Some(bracketed) => {
            let (address, port) =
                bracketed.split_once(']').ok_or("has an IPv6 address without its closing bracket")?;
            address.parse::<Ipv6Addr>().map_err(|_| "has no valid IPv6 address in its brackets")?;
            (address, port)
        }
        None => match place.find(':') {
            Some(colon) => place.split_at(colon),
            None => (place, ""),
        },
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '%') {
        return Err(format!("names no valid host. Write {}", syntax.form));
    }
    Ok((host.to_owned(), port_number(port, syntax)?))
}

fn port_number(text: &str, syntax: &Syntax) -> Result<u16, String> {
    if text.is_empty() {
        return Ok(syntax.default_port);
    }
    text.strip_prefix(':')
        .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|digits| digits.parse().ok())
        .filter(|port| *port != 0)
        .ok_or_else(|| {
            "has no valid port: a number from 1 to 65535 after the host, and an IPv6 address in brackets"
                .to_owned()
        })
}

/// Undoes percent-encoding (RFC 3986, section 2.1). `None` when an escape is malformed or the
/// result is not UTF-8 or holds a NUL, which neither server takes in a name.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            decoded.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(user: &str, host: &str, port: u16, path: &str) -> Address {
        Address { user: user.into(), host: host.into(), port, path: path.into() }
    }

    #[test]
    fn ordinary_addresses() {
        let cases = [
            ("mysql://repl@db.example:3307", address("repl", "db.example", 3307, "")),
            ("mysql://repl@db.example", address("repl", "db.example", 3306, "")),
            ("mysql://repl@[::1]:3306", address("repl", "::1", 3306, "")),
            ("mysql://repl@[fe80::2]", address("repl", "fe80::2", 3306, "")),
            ("mysql://r%40x%3a%2F@h", address("r@x:/", "h", 3306, "")),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text, &MYSQL), Ok(expected), "{text}");
        }
        let expected = address("app", "10.0.0.1", 5432, "caf\u{e9} db");
        assert_eq!(parse("postgres://app@10.0.0.1/caf%C3%A9%20db", &POSTGRES), Ok(expected.clone()));
        assert_eq!(parse("postgresql://app@10.0.0.1:5432/caf%C3%A9%20db", &POSTGRES), Ok(expected));
    }

    #[test]
    fn refusals_name_the_remedy_and_quote_nothing() {
        let cases = [
            ("postgres://u@h", "mysql://user@host:port"),
            ("h:3306", "mysql://user@host:port"),
            ("mysql://u:s3cret@h", "password_file"),
            ("mysql://u:@h", "password_file"),
            ("mysql://u:s3cret@x@h", "password_file"),
            ("mysql://h:3306", "names no user"),
            ("mysql://@h", "user"),
            ("mysql://u@", "host"),
            ("mysql://u@h h", "host"),
            ("mysql://u@h:0", "port"),
            ("mysql://u@h:+1", "port"),
            ("mysql://u@h:65536", "port"),
            ("mysql://u@::1", "names no valid host"),
            ("mysql://u@fe80::1", "port"),
            ("mysql://u@[::1", "bracket"),
            ("mysql://u@[h]", "IPv6"),
            ("mysql://u@[::1]3306", "port"),
            ("mysql://u@h?ssl-mode=s3cret", "parameters"),
            ("mysql://u@h#s3cret", "parameters"),
            ("mysql://%zz@h", "user"),
            ("mysql://%ff@h", "user"),
            ("mysql://%00@h", "user"),
        ];
        for (text, remedy) in cases {
            let message = parse(text, &MYSQL).expect_err(text);
            assert!(message.contains(remedy), "{text}: {message}");
            assert!(!message.contains("s3cret"), "{text}: {message}");
        }
    }

    proptest! {
        #[test]
        fn any_name_survives_its_encoding(user in "[^\0]{1,12}", path in "[^\0]{0,12}") {
            let encoded = |text: &str| text.bytes().map(|b| format!("%{b:02X}")).collect::<String>();
            let text = format!("postgres://{}@h:1/{}", encoded(&user), encoded(&path));
            prop_assert_eq!(parse(&text, &POSTGRES), Ok(address(&user, "h", 1, &path)));
        }

        #[test]
        fn no_text_panics(text in "(mysql://)?\\PC{0,24}") {
            let _: Result<Address, String> = parse(&text, &MYSQL);
        }
    }
}
