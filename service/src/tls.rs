//! TLS for both sides, from one stack (native-tls): `off`, `encrypt-only`, `verify-ca` and
//! `verify-full` mean the same to the source's SQL connections, its binlog dump and the target.
//!
//! There is no fall-back between modes: a server that can't do the configured one is refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use native_tls::{Certificate, Identity, Protocol, TlsConnector};
use openssl::pkcs12::Pkcs12;
use openssl::pkey::PKey;
use openssl::stack::Stack;
use openssl::x509::X509;

use crate::config::{TlsConfig, TlsMode};

/// Why TLS could not be set up. Names files, never their content.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{what} {} can't be read: {kind}", path.display())]
    Read { what: &'static str, path: PathBuf, kind: io::ErrorKind },
    #[error("{what} {} is not valid PEM of its kind", path.display())]
    Invalid { what: &'static str, path: PathBuf },
    #[error("a client certificate needs both cert_file and key_file")]
    HalfIdentity,
    #[error("the client certificate does not belong to the client key")]
    Identity,
    #[error("the TLS library refused the settings")]
    Settings,
}

const CA_FILE: &str = "CA file";
const CERT_FILE: &str = "client certificate file";
const KEY_FILE: &str = "client key file";

/// A connector for the configured mode; `None` when TLS is off.
///
/// With a CA file only its certificates are trusted, without one the system's.
pub fn connector(config: &TlsConfig) -> Result<Option<TlsConnector>, TlsError> {
    if config.mode == TlsMode::Off {
        return Ok(None);
    }
    let mut builder = TlsConnector::builder();
    builder.min_protocol_version(Some(Protocol::Tlsv12));
    if let Some(pem) = ca_pem(config)? {
        builder.disable_built_in_roots(true);
        for certificate in certificates(config, &pem)? {
            builder.add_root_certificate(certificate);
        }
    }
    builder.danger_accept_invalid_certs(accepts_any_certificate(config.mode));
    builder.danger_accept_invalid_hostnames(accepts_any_host(config.mode));
    if let Some(archive) = client_pkcs12(config)? {
        builder.identity(Identity::from_pkcs12(&archive, "").map_err(|_| TlsError::Identity)?);
    }
    builder.build().map(Some).map_err(|_| TlsError::Settings)
}

/// Whether the mode takes a certificate from any issuer.
#[must_use]
pub fn accepts_any_certificate(mode: TlsMode) -> bool {
    mode == TlsMode::EncryptOnly
}

/// Whether the mode takes a certificate for any host name.
#[must_use]
pub fn accepts_any_host(mode: TlsMode) -> bool {
    matches!(mode, TlsMode::EncryptOnly | TlsMode::VerifyCa)
}

/// The configured CA file's content, checked to hold at least one certificate.
pub fn ca_pem(config: &TlsConfig) -> Result<Option<Vec<u8>>, TlsError> {
    let Some(path) = &config.ca_file else { return Ok(None) };
    let pem = read(CA_FILE, path)?;
    certificates(config, &pem)?;
    Ok(Some(pem))
}

/// The client certificate chain and key as a PKCS#12 archive with an empty password: the one
/// form that every driver here takes. It lives in memory only.
pub fn client_pkcs12(config: &TlsConfig) -> Result<Option<Vec<u8>>, TlsError> {
    let (certificate, key) = match (&config.cert_file, &config.key_file) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        _ => return Err(TlsError::HalfIdentity),
    };
    let invalid = |what, path: &Path| TlsError::Invalid { what, path: path.to_owned() };
    let chain = X509::stack_from_pem(&read(CERT_FILE, certificate)?)
        .map_err(|_| invalid(CERT_FILE, certificate))?;
    // The callback keeps OpenSSL from asking for a passphrase at the terminal.
    let key = PKey::private_key_from_pem_callback(&read(KEY_FILE, key)?, |_| Ok(0))
        .map_err(|_| invalid(KEY_FILE, key))?;
    let mut chain = chain.into_iter();
    let leaf = chain.next().ok_or_else(|| invalid(CERT_FILE, certificate))?;
    if !leaf.public_key().is_ok_and(|public| public.public_eq(&key)) {
        return Err(TlsError::Identity);
    }
    archive(&leaf, chain, &key).map(Some).map_err(|_| TlsError::Identity)
}

fn archive(
    leaf: &X509,
    intermediates: impl Iterator<Item = X509>,
    key: &openssl::pkey::PKeyRef<openssl::pkey::Private>,
) -> Result<Vec<u8>, openssl::error::ErrorStack> {
    let mut others = Stack::new()?;
    for certificate in intermediates {
        others.push(certificate)?;
    }
    Pkcs12::builder().pkey(key).cert(leaf).ca(others).build2("")?.to_der()
}

fn certificates(config: &TlsConfig, pem: &[u8]) -> Result<Vec<Certificate>, TlsError> {
    let invalid =
        || TlsError::Invalid { what: CA_FILE, path: config.ca_file.clone().unwrap_or_default() };
    let certificates = Certificate::stack_from_pem(pem).map_err(|_| invalid())?;
    if certificates.is_empty() {
        return Err(invalid());
    }
    Ok(certificates)
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Read { what, path: path.to_owned(), kind: error.kind() })
}

#[cfg(test)]
mod tests;
