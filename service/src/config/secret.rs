//! Secrets: read from a file or the environment, shown nowhere.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// A password or token is short; reading stops here, whatever the path names.
const SECRET_BYTES_MAX: u64 = 16 << 10;

/// A secret that never shows in `Debug`, logs or errors.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub const fn new(value: String) -> Self {
        Self(value)
    }

    /// The secret itself: only for handing to a driver or comparing with one.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `other` equals the secret, in a time that depends on the lengths alone.
    #[must_use]
    pub fn matches(&self, other: &[u8]) -> bool {
        let secret = self.0.as_bytes();
        let differing = secret.iter().zip(other).fold(0, |seen, (a, b)| seen | (a ^ b));
        std::hint::black_box(differing) == 0 && secret.len() == other.len()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Reads a secret from a file; one trailing line end is not part of it.
///
/// # Errors
/// Why it can't be had, naming the path and nothing that it holds.
pub(super) fn from_file(path: &Path) -> Result<Secret, String> {
    let shown = path.display();
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(SECRET_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("{shown} can't be read: {error}"))?;
    if bytes.len() as u64 > SECRET_BYTES_MAX {
        return Err(format!("{shown} is larger than {SECRET_BYTES_MAX} bytes: it is not a secret"));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8 text"))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.is_empty() {
        return Err(format!("{shown} is empty; leave the key out where there is no secret"));
    }
    Ok(Secret(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> Result<Secret, String> {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), content).expect("write");
        from_file(file.path())
    }

    #[test]
    fn one_line_end_is_trimmed() {
        for (content, expected) in
            [("pw", "pw"), ("pw\n", "pw"), ("pw\r\n", "pw"), ("pw\n\n", "pw\n"), (" pw \n", " pw ")]
        {
            assert_eq!(file(content.as_bytes()).expect("readable").reveal(), expected);
        }
    }

    #[test]
    fn errors_name_the_path_only() {
        for content in [&b""[..], b"\n", b"s3cret\xff", &[b's'; 20 << 10]] {
            let message = file(content).expect_err("refused");
            assert!(message.starts_with('/') && !message.contains("s3cret"), "{message}");
        }
        let message = from_file(Path::new("/no/such/file")).expect_err("refused");
        assert!(message.starts_with("/no/such/file can't be read"), "{message}");
    }

    #[test]
    fn nothing_shows_it_and_only_the_whole_matches() {
        let secret = Secret::new("s3cret".into());
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "*** Some(***)");
        assert!(secret.matches(b"s3cret"));
        for other in [&b""[..], b"s3cre", b"s3cret ", b"S3cret"] {
            assert!(!secret.matches(other));
        }
    }
}
