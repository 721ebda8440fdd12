//! TLS for both sides, from one stack (native-tls): `off`, `encrypt-only`, `verify-ca` and
//! `verify-full` mean the same to the source's SQL connections, its binlog dump and the target.
//!
//! There is no fall-back between modes: a server that can't do the configured one is refused.

pub mod advice;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use native_tls::{Certificate, Identity, Protocol, TlsConnector};
use openssl::pkcs12::Pkcs12;
use openssl::pkey::{PKey, Private};
use openssl::stack::Stack;
use openssl::x509::X509;

use crate::config::{TlsConfig, TlsMode};

/// A file of the TLS configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFile {
    Ca,
    Certificate,
    Key,
}

impl TlsFile {
    /// Its configuration key, within `source` and `target`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Ca => "tls_ca_file",
            Self::Certificate => "tls_cert_file",
            Self::Key => "tls_key_file",
        }
    }

    /// The line that begins its content.
    const fn begins(self) -> &'static str {
        match self {
            Self::Ca | Self::Certificate => "-----BEGIN CERTIFICATE-----",
            Self::Key => "-----BEGIN PRIVATE KEY-----",
        }
    }
}

/// Why TLS could not be set up. Names files, never their content.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} can't be read: {kind}. {}", path.display(), read_remedy(*kind))]
    Read { file: TlsFile, path: PathBuf, kind: io::ErrorKind },
    #[error("{} does not hold PEM that begins with {} and is whole: put the right file there", path.display(), file.begins())]
    Invalid { file: TlsFile, path: PathBuf },
    #[error(
        "{} is encrypted with a passphrase, which nobody is there to type: decrypt it with \
         `openssl pkey -in … -out …` into a file that only Tidegate may read",
        path.display()
    )]
    Encrypted { path: PathBuf },
    #[error("a client certificate needs both tls_cert_file and tls_key_file")]
    HalfIdentity,
    #[error(
        "{} is not the key of the first certificate in {}: put the pair there that was made together",
        key.display(), certificate.display()
    )]
    Mismatch { certificate: PathBuf, key: PathBuf },
    #[error("the TLS library refused the settings")]
    Settings,
}

impl TlsError {
    /// The file at fault.
    #[must_use]
    pub const fn file(&self) -> TlsFile {
        match self {
            Self::Read { file, .. } | Self::Invalid { file, .. } => *file,
            Self::Encrypted { .. } | Self::Mismatch { .. } => TlsFile::Key,
            Self::HalfIdentity | Self::Settings => TlsFile::Certificate,
        }
    }
}

const fn read_remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "Correct the path, or put the file there",
        io::ErrorKind::PermissionDenied => "Let the user that Tidegate runs as read it: chown or chmod",
        _ => "It has to be a file that Tidegate may read",
    }
}

/// Everything that is wrong with the files of the configuration.
#[must_use]
pub fn problems(config: &TlsConfig) -> Vec<TlsError> {
    let certificate = config.cert_file.as_deref().map(|path| chain(path).err());
    let key = config.key_file.as_deref().map(|path| private_key(path).err());
    let files = [ca_pem(config).err(), certificate.flatten(), key.flatten()];
    let mut problems: Vec<TlsError> = files.into_iter().flatten().collect();
    if problems.is_empty() {
        problems.extend(connector(config).err());
    }
    problems
}

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
        for certificate in trusted(config, &pem)? {
            builder.add_root_certificate(certificate);
        }
    }
    builder.danger_accept_invalid_certs(accepts_any_certificate(config.mode));
    builder.danger_accept_invalid_hostnames(accepts_any_host(config.mode));
    if let Some(archive) = client_pkcs12(config)? {
        builder.identity(Identity::from_pkcs12(&archive, "").map_err(|_| TlsError::Settings)?);
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
    let pem = read(TlsFile::Ca, path)?;
    trusted(config, &pem)?;
    Ok(Some(pem))
}

/// The client certificate chain and key as a PKCS#12 archive with an empty password: the one
/// form that every driver here takes. It lives in memory only.
pub fn client_pkcs12(config: &TlsConfig) -> Result<Option<Vec<u8>>, TlsError> {
    let (certificate, key_file) = match (&config.cert_file, &config.key_file) {
        (None, None) => return Ok(None),
        (Some(certificate), Some(key)) => (certificate, key),
        _ => return Err(TlsError::HalfIdentity),
    };
    let mut chain = chain(certificate)?.into_iter();
    let key = private_key(key_file)?;
    let leaf = chain.next().ok_or_else(|| invalid(TlsFile::Certificate, certificate))?;
    if !leaf.public_key().is_ok_and(|public| public.public_eq(&key)) {
        return Err(TlsError::Mismatch { certificate: certificate.clone(), key: key_file.clone() });
    }
    archive(&leaf, chain, &key).map(Some).map_err(|_| TlsError::Settings)
}

fn archive(
    leaf: &X509,
    intermediates: impl Iterator<Item = X509>,
    key: &PKey<Private>,
) -> Result<Vec<u8>, openssl::error::ErrorStack> {
    let mut others = Stack::new()?;
    for certificate in intermediates {
        others.push(certificate)?;
    }
    Pkcs12::builder().pkey(key).cert(leaf).ca(others).build2("")?.to_der()
}

/// The client's certificate and those that lead from it to its CA; not empty.
fn chain(path: &Path) -> Result<Vec<X509>, TlsError> {
    let chain = X509::stack_from_pem(&read(TlsFile::Certificate, path)?);
    chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| invalid(TlsFile::Certificate, path))
}

fn private_key(path: &Path) -> Result<PKey<Private>, TlsError> {
    let pem = read(TlsFile::Key, path)?;
    let mut asked = false;
    // The callback keeps OpenSSL from asking for a passphrase at the terminal.
    let key = PKey::private_key_from_pem_callback(&pem, |_| {
        asked = true;
        Ok(0)
    });
    match key {
        Ok(key) => Ok(key),
        Err(_) if asked => Err(TlsError::Encrypted { path: path.to_owned() }),
        Err(_) => Err(invalid(TlsFile::Key, path)),
    }
}

fn trusted(config: &TlsConfig, pem: &[u8]) -> Result<Vec<Certificate>, TlsError> {
    let certificates = Certificate::stack_from_pem(pem).ok().filter(|found| !found.is_empty());
    certificates.ok_or_else(|| invalid(TlsFile::Ca, config.ca_file.as_deref().unwrap_or(Path::new(""))))
}

fn invalid(file: TlsFile, path: &Path) -> TlsError {
    TlsError::Invalid { file, path: path.to_owned() }
}

fn read(file: TlsFile, path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|error| TlsError::Read { file, path: path.to_owned(), kind: error.kind() })
}

#[cfg(test)]
pub(crate) mod tests;
