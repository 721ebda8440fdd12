//! What an operator should know of a connection's security: what a failed handshake is about, and
//! what `tidegate check` says of the configured modes.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::config::{Config, TlsConfig, TlsMode};
use crate::preflight::Finding;

/// Bit of a file's mode: everyone may read it.
const READABLE_BY_OTHERS: u32 = 0o004;

/// What the TLS libraries and servers say, and what it takes to get on.
const REMEDIES: &[(&[&str], &str)] = &[
    (
        &["hostname mismatch", "ip address mismatch"],
        "the server's certificate is not made out to the host in the URL: use a name that it bears, have it \
         made out to this one, or choose verify-ca",
    ),
    (
        &[
            "self-signed certificate",
            "unable to get local issuer",
            "unable to get issuer",
            "verify the first certificate",
            "invalid ca certificate",
        ],
        "the server's certificate does not come from a CA that is trusted: name the file of its CA in tls_ca_file",
    ),
    (&["certificate has expired"], "the server's certificate has expired: have it renewed"),
    (&["not yet valid"], "the server's certificate is not valid yet: compare the clocks"),
    (
        &["certificate required", "requires a valid client certificate"],
        "the server wants a client certificate: set tls_cert_file and tls_key_file",
    ),
    (
        &["unknown ca"],
        "the server does not trust the CA of tls_cert_file: use a certificate that its CA has signed",
    ),
    (
        &["does not offer tls", "does not support tls"],
        "turn TLS on at the server; nothing is sent in clear unless tls is \"off\"",
    ),
];

/// The text of an error of a connection, with what to do about it where that is known.
#[must_use]
pub fn explained(text: String) -> String {
    let lower = text.to_ascii_lowercase();
    let known = REMEDIES.iter().find(|(parts, _)| parts.iter().any(|part| lower.contains(part)));
    match known {
        Some((_, remedy)) => format!("{text}. {remedy}"),
        None => text,
    }
}

/// What `check` says of both connections, before either is made.
#[must_use]
pub fn findings(config: &Config) -> Vec<Finding> {
    let (source, target) = (&config.source, &config.target);
    let findings = [
        plain(&SOURCE, &source.host, &source.tls),
        exposed_key(&SOURCE, &source.tls),
        plain(&TARGET, &target.host, &target.tls),
        exposed_key(&TARGET, &target.tls),
    ];
    findings.into_iter().flatten().collect()
}

struct Side {
    name: &'static str,
    tls: &'static str,
    key_file: &'static str,
}

const SOURCE: Side = Side { name: "source", tls: "source.tls", key_file: "source.tls_key_file" };
const TARGET: Side = Side { name: "target", tls: "target.tls", key_file: "target.tls_key_file" };

fn plain(side: &Side, host: &str, tls: &TlsConfig) -> Option<Finding> {
    (tls.mode == TlsMode::Off && !is_local(host)).then(|| {
        Finding::warning(
            side.tls,
            format!("the connection to the {} at {host} is not encrypted", side.name),
            "rows travel in clear over a network, and whoever is on the way can read and change them",
            format!(
                "Set {} = \"verify-full\", and tls_ca_file where the CA is not one of the system's.",
                side.tls
            ),
        )
    })
}

/// Whether what is sent there stays on this machine.
fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn exposed_key(side: &Side, tls: &TlsConfig) -> Option<Finding> {
    let path = tls.key_file.as_deref()?;
    is_exposed(path).then(|| {
        let path = path.display();
        Finding::warning(
            side.key_file,
            format!("every user of this machine may read the key {path}"),
            "whoever has the key can log in with the certificate",
            format!("chmod o-r {path}"),
        )
    })
}

fn is_exposed(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & READABLE_BY_OTHERS != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tls(mode: TlsMode) -> TlsConfig {
        TlsConfig { mode, ca_file: None, cert_file: None, key_file: None }
    }

    #[test]
    fn a_plain_connection_is_told_of_where_it_leaves_the_machine() {
        for host in ["localhost", "127.0.0.1", "127.3.2.1", "::1"] {
            assert_eq!(plain(&SOURCE, host, &tls(TlsMode::Off)), None, "{host}");
        }
        for host in ["db.example", "10.0.0.1", "fe80::1", "localhost.example"] {
            let finding = plain(&SOURCE, host, &tls(TlsMode::Off)).unwrap();
            assert!(!finding.is_error() && finding.problem.contains(host));
            assert_eq!(plain(&SOURCE, host, &tls(TlsMode::EncryptOnly)), None);
        }
    }

    #[test]
    fn a_key_that_everyone_may_read_is_told_of() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let config = TlsConfig { key_file: Some(file.path().to_owned()), ..tls(TlsMode::VerifyFull) };
        for (mode, told) in [(0o600, false), (0o640, false), (0o644, true)] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(exposed_key(&TARGET, &config).is_some(), told, "{mode:o}");
        }
    }

    #[test]
    fn known_failures_say_what_to_do_and_others_stay_as_they_are() {
        let mismatch = "error:0A000086:SSL routines::certificate verify failed (IP address mismatch)";
        assert!(explained(mismatch.to_owned()).contains("choose verify-ca"));
        assert_eq!(explained("connection refused".to_owned()), "connection refused");
    }
}
