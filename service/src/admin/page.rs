//! The dashboard: one static page that asks for `/status` and shows it. No fact is put into the
//! page by the server, and its script writes text only, never markup.

pub(super) const HTML: &str = include_str!("dashboard.html");

/// Lets the page's own script and style run, by their hashes, and nothing else; it may only
/// connect to where it came from.
pub(super) const POLICY: &str = "default-src 'none'; \
    script-src 'sha256-gxopAgzUn4U110SB56O7ZqlWAIwKHoFDZ+kIWKoaDb4='; \
    style-src 'sha256-xYXTkZugfsKQYkJs/lApbSQTe30a0pv/wr2C34Eg8Ps='; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};

    /// Base64 (RFC 4648, section 4) of a SHA-256.
    fn base64(bytes: &[u8]) -> String {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for group in bytes.chunks(3) {
            let bits =
                group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
            for place in 0..4 {
                let sextet = (bits >> (18 - 6 * place) & 63) as usize;
                text.push(if place <= group.len() { char::from(ALPHABET[sextet]) } else { '=' });
            }
        }
        text
    }

    fn hash_of(element: &str) -> String {
        let (open, close) = (format!("<{element}>"), format!("</{element}>"));
        let (_, rest) = HTML.split_once(&open).expect("element");
        let (content, rest) = rest.split_once(&close).expect("end");
        assert!(!rest.contains(&open), "one {element} only");
        format!("{element}-src 'sha256-{}'", base64(&Sha256::digest(content)))
    }

    #[test]
    fn the_policy_allows_exactly_this_script_and_style() {
        assert_eq!(base64(b"light w"), "bGlnaHQgdw==");
        for directive in [hash_of("script"), hash_of("style")] {
            assert!(POLICY.contains(&directive), "the policy needs {directive}");
        }
    }

    #[test]
    fn the_page_is_self_contained_and_writes_no_markup() {
        for forbidden in [
            "http://",
            "https://",
            " src=",
            "href=",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "style=",
            " onclick",
        ] {
            assert!(!HTML.contains(forbidden), "{forbidden}");
        }
    }
}
